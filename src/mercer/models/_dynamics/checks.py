"""Checks of the parameters and the results of linear dynamical systems."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats, Mask, as_float, to_numpy
from mercer._notices import notify
from mercer.data import Sequences
from mercer.models._dynamics.runs import Systems, shapes_of

_LOST, _DIFFUSE = 1e16, 1e8
"""Ratios of variances of the start and of the noise: above them a filter has no digit, or may have fewer than eight."""
_NOISELESS = 1e29
"""Ratio above which there is no noise, and the start is not the cause."""
_ROUNDING = 1e-8
"""Relative tolerance of symmetry and of negative eigenvalues, which come from rounding."""


def checked_systems(**given: Any) -> dict[str, Floats]:
    """Return the fields of a batch of systems: finite arrays of matching shapes, covariances positive semi-definite."""
    fields = {name: _numbers(name, value) for name, value in given.items() if value is not None}
    emission = fields["emission"]
    if emission.ndim < 2 or 0 in emission.shape[-2:]:
        raise ValueError(
            "emission must have shape (..., d, n), one row per observed coordinate and one column per state "
            f"coordinate; got shape {emission.shape}."
        )
    batch, (d, n) = emission.shape[:-2], emission.shape[-2:]
    for name, shape in shapes_of(n, d).items():
        value = fields.setdefault(name, np.zeros((*batch, *shape)))
        if value.shape != (*batch, *shape):
            raise ValueError(
                f"{name} must have shape {(*batch, *shape)} for emission of shape {emission.shape}; got {value.shape}."
            )
    for name in ("process_covariance", "observation_covariance", "initial_covariance"):
        fields[name] = _covariance(name, fields[name])
    fields["state_dims"] = _sizes(given["state_dims"], fields, batch, n)
    return fields


def _numbers(name: str, value: Any) -> Floats:
    try:
        found = np.array(to_numpy(value)) if name == "state_dims" else np.array(to_numpy(as_float(value)), np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be an array of numbers; got {value!r:.60}.") from None
    if not np.isfinite(found).all():
        raise ValueError(f"{name} must be finite; got {found[~np.isfinite(found)][0]}.")
    return found


def _covariance(name: str, value: Floats) -> Floats:
    size = np.abs(value).max(axis=(-2, -1), keepdims=True, initial=0.0)
    transposed = value.swapaxes(-2, -1)
    if np.any(np.abs(value - transposed) > _ROUNDING * size):
        raise ValueError(f"{name} must be symmetric; got an entry that differs from its transposed one.")
    value = (value + transposed) / 2
    low = np.linalg.eigvalsh(value)[..., :1] if value.size else value[..., :1, 0]
    bad = np.argwhere(low[..., 0] < -_ROUNDING * size[..., 0, 0])
    if len(bad):
        where = f" of model {tuple(int(i) for i in bad[0])}" if bad.shape[1] else ""
        raise ValueError(
            f"{name} must be positive semi-definite; got a smallest eigenvalue of {low[tuple(bad[0])][0]:.3g}{where}. "
            "Add a small multiple of the identity."
        )
    return value


def _sizes(given: Any, fields: dict[str, Floats], batch: tuple[int, ...], n: int) -> Floats:
    sizes = np.full(batch, n) if given is None else np.asarray(given)
    if sizes.shape != batch or sizes.dtype.kind not in "iu" or np.any(sizes < 1) or np.any(sizes > n):
        raise ValueError(f"state_dims must be whole numbers from 1 to {n}, of shape {batch}; got {given!r}.")
    beyond = np.arange(n) >= sizes[..., None]
    used = np.abs(fields["emission"]).max(axis=-2, initial=0.0) > 0
    moved = (np.abs(fields["transition"]) > 0) & beyond[..., None, :] & ~beyond[..., :, None]
    if np.any(beyond & used) or np.any(moved):
        raise ValueError("state_dims must count all state coordinates that are observed; got a smaller number.")
    return sizes


_LEARNED = {
    "process_covariance": ("transition", "state_offset"),
    "observation_covariance": ("emission", "observation_offset"),
    "initial_covariance": ("initial_mean",),
}
"""Covariances of noises, and what EM learns from these noises."""


def noiseless(covariance: Floats) -> Mask:
    """Whether each coordinate has a part in the null space of a covariance, ``(k,)``."""
    values, vectors = np.linalg.eigh(covariance)
    null = values <= len(values) * np.finfo(float).eps * np.abs(values).max(initial=0.0)
    return np.asarray((np.abs(vectors[:, null]) > _ROUNDING).any(axis=1))


def check_fixed(fixed: dict[str, Floats]) -> None:
    """Raise if a fixed matrix is not a covariance, or if a parameter would be learned from a noise that is zero."""
    for name, learned in _LEARNED.items():
        if name not in fixed:
            continue
        still = noiseless(_covariance(f"fixed[{name!r}]", fixed[name]))
        for what in learned:
            given = fixed.get(what)
            free = np.ones_like(still) if given is None else np.isnan(given).reshape(len(still), -1).any(axis=1)
            if np.any(free & still):
                row = int(np.argmax(free & still))
                raise ValueError(
                    f"fixed[{name!r}] is singular, so EM cannot learn row {row} of {what}, which has no noise in some "
                    f"direction. Fix that row too, or add a small multiple of the identity to fixed[{name!r}]."
                )


def variances(systems: Systems) -> tuple[Floats, Floats]:
    """Return the largest variance that a start gives to an observation, and the smallest of the noise, ``(N,)``."""
    c = systems.emission
    start = np.diagonal(systems.initial_covariance, axis1=1, axis2=2).max(axis=1) * (c**2).sum(axis=2).max(axis=1)
    noise = np.diagonal(systems.observation_covariance + c @ systems.process_covariance @ c.swapaxes(1, 2), 0, 1, 2)
    return start, np.maximum(noise.min(axis=1), 1e-30 * start + 1e-300)


def possible(log_prob: Floats, X: Sequences, systems: Systems) -> Floats:
    """Return log probabilities ``(..., M)``; raise if one is not finite or a diffuse start costs all digits.

    A first state whose variance is 1e10 times that of the noise leaves, after the first observations, differences of
    large numbers, which have lost ten digits: a warning says so.
    """
    start, noise = variances(systems)
    ratio = float((start / noise).max(initial=0.0))
    cause = f"initial_covariance is {ratio:.0e} times the covariance of the noise"
    lost = _LOST < ratio < _NOISELESS
    bad = np.argwhere(~np.isfinite(log_prob) | lost)
    if len(bad):
        raise ValueError(
            f"{X.name(int(bad[0][-1]))} has no density under its model: the covariance of a predicted observation is "
            "singular, or overflows because the transition is unstable"
            f"{f', or loses all digits because {cause}' if lost else ''}. Add a small multiple of the identity to "
            "observation_covariance, or use a transition with eigenvalues of at most 1"
            f"{', or a smaller initial_covariance' if lost else ''}."
        )
    if _DIFFUSE < ratio < _NOISELESS:
        notify(
            f"Fewer than eight digits of the results may be left: {cause}. Use a smaller one, such as 1000 times the "
            "variances of the series, and an initial_mean near their values."
        )
    return log_prob


# Samples and forecasts of unstable systems, which grow beyond the floating range.


def within_range(values: Floats, time_axis: int, name: str, what: str) -> Floats:
    """Return the values if all are finite; otherwise say after how many steps they are not.

    Parameters
    ----------
    values : ndarray
        Samples or forecasts.
    time_axis : int
        The axis of the steps.
    name : str
        The parameter that is the number of steps.
    what : str
        What the values are, in the plural.
    """
    finite: Any = np.isfinite(values)
    if finite.all():
        return values
    steps = np.moveaxis(finite, time_axis, 0).reshape(values.shape[time_axis], -1).all(axis=1)
    last = int(np.argmin(steps))
    raise ValueError(
        f"The {what} exceed the floating range after {last} steps, because a transition is unstable; got {name}="
        f"{values.shape[time_axis]}. Use at most {last}, or a stable system."
    )
