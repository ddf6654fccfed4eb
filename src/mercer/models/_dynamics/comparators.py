"""Linear dynamical systems compared by their observability subspaces and by inner products of their outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mercer._array import Floats
from mercer._coupling import FieldOperand
from mercer.models._dynamics.runs import Systems, systems_of
from mercer.models.discount import Discounted

__all__ = ["MomentOperand", "SubspaceOperand"]

_DOUBLINGS = 64  # 2^64 steps
_NEGLIGIBLE = 1e-17
_LARGEST = 600.0
"""Logarithm of the largest growth over time, with room for the sizes of the parameters in float64."""
_UNOBSERVED = 1e-13
"""Fraction of the largest eigenvalue of a gramian below which a direction of the state is not observed."""

Length = int | Discounted | None
"""Number of steps, a discounted sum over all of them, or a plain sum over all of them."""


def _factor(length: Length) -> float:
    """Square root of the weight of a step relative to the step before."""
    return float(np.sqrt(length.d)) if isinstance(length, Discounted) else 1.0


def _summed(first: Floats, left: Floats, right: Floats, length: Length) -> Floats:
    """Sum ``left^t first right'^t`` over steps t = 0, 1, ..., with the discount already in ``left`` and ``right``."""
    if length is not None and not isinstance(length, Discounted):
        total = first
        for _ in range(length - 1):
            total = first + left @ total @ right.swapaxes(-2, -1)
        return np.asarray(total)
    total = first
    for _ in range(_DOUBLINGS):  # after k rounds, 2^k steps
        more = left @ total @ right.swapaxes(-2, -1)
        total = total + more
        if not more.size or np.abs(more).max() <= _NEGLIGIBLE * np.abs(total).max():
            break
        left, right = left @ left, right @ right
    return np.asarray(total)


def _check_stable(systems: Systems, length: Length) -> None:
    """Raise where a sum over steps is infinite or overflows, with the largest discount or length that all allow."""
    moduli = np.abs(np.linalg.eigvals(systems.transition)).max(axis=-1, initial=0.0)
    if not moduli.size:
        return
    worst = int(np.argmax(moduli))
    modulus = float(moduli[worst])
    grows = f"The transition of model {worst} has an eigenvalue of modulus {modulus:.6g}, so that the sum over "
    if length is None or isinstance(length, Discounted):
        if modulus * _factor(length) < 1:
            return
        bound = modulus**-2  # at which the sum is infinite
        raise ValueError(
            f"{grows}all steps is infinite. Use length=mc.Discounted({0.9 * bound:.2g}), or any d below {bound:.4g}, "
            "or a number of steps such as length=10."
        )
    growth = 2 * np.log(max(modulus, 1.0))
    if growth * (length - 1) > _LARGEST:
        raise ValueError(
            f"{grows}{length} steps overflows. Use a length of at most {1 + int(_LARGEST / growth)}, or "
            f"length=mc.Discounted({0.9 / modulus**2:.2g})."
        )


@dataclass(frozen=True)
class SubspaceOperand(FieldOperand):
    """Systems and factors of their observability gramians; pairs give the log product of squared cosines."""

    _shared_fields: ClassVar[tuple[str, ...]] = ("length",)

    transition: Floats
    """Transposed, with the discount, ``(N, n, n)``."""
    emission: Floats
    """``(N, d, n)``."""
    whitening: Floats
    """Inverse Cholesky factors of the gramians, ``(N, n, n)``."""
    length: Length

    tile_hint: ClassVar[int] = 64

    @classmethod
    def of(cls, models: Any, length: Length) -> SubspaceOperand:
        """Prepare a batch."""
        sizes = np.unique(models.state_dims)
        if len(sizes) > 1:
            raise ValueError(
                f"SubspaceAngles compares systems with the same number of state coordinates; got {int(sizes[0])} and "
                f"{int(sizes[-1])}."
            )
        systems = systems_of(models._trimmed(int(sizes[0])) if len(sizes) else models)
        _check_stable(systems, length)
        transition, emission = systems.transition.swapaxes(1, 2) * _factor(length), systems.emission
        gramian = _summed(emission.swapaxes(1, 2) @ emission, transition, transition, length)
        values = np.linalg.eigvalsh(gramian)
        bad = np.flatnonzero(values[:, 0] <= _UNOBSERVED * values[:, -1])
        if len(bad):
            raise ValueError(
                f"A direction of the state of model {int(bad[0])} is not observed, so that its observability subspace "
                "has a smaller dimension. Use a smaller state_dim, or a larger length."
            )
        return cls(transition, emission, np.linalg.inv(np.linalg.cholesky(gramian)), length)

    def pair(self, other: SubspaceOperand) -> Floats:
        """Log of the product of squared cosines of the angles, -d^2 with the Martin distance d, ``(I, J)``."""
        if self.emission.shape[-1] != other.emission.shape[-1]:
            raise ValueError(
                "SubspaceAngles compares systems with the same number of state coordinates; got "
                f"{self.emission.shape[-1]} and {other.emission.shape[-1]}."
            )
        first = self.emission.swapaxes(1, 2)[:, None] @ other.emission[None]
        mixed = _summed(first, self.transition[:, None], other.transition[None], self.length)
        cosines = self.whitening[:, None] @ mixed @ other.whitening.swapaxes(1, 2)[None]
        return np.minimum(2 * np.linalg.slogdet(cosines)[1], 0.0)

    def alone(self) -> Floats:
        """Return zeros, ``(N,)``."""
        return np.zeros(len(self))


@dataclass(frozen=True)
class MomentOperand(FieldOperand):
    """Systems whose pairs give weighted sums over time of E <x_t, y_t>.

    The state has one more coordinate, the first, which is always 1 and carries the offsets.
    """

    _shared_fields: ClassVar[tuple[str, ...]] = ("length",)

    transition: Floats
    """With the discount, ``(N, n + 1, n + 1)``."""
    emission: Floats
    """``(N, d, n + 1)``."""
    initial: Floats
    """Mean of the first state, ``(N, n + 1)``."""
    roots: tuple[Floats, Floats, Floats] | None
    """Symmetric square roots of the covariances of start, state noise and observations, if these are shared."""
    length: Length

    tile_hint: ClassVar[int] = 64

    @classmethod
    def of(cls, models: Any, length: Length, shared_noise: bool) -> MomentOperand:
        """Prepare a batch."""
        systems = systems_of(models)
        _check_stable(systems, length)
        size, n = len(systems.emission), systems.size[0]
        transition = np.zeros((size, n + 1, n + 1))
        transition[:, 0, 0] = 1.0
        transition[:, 1:, 0], transition[:, 1:, 1:] = systems.state_offset, systems.transition
        emission = np.concatenate([systems.observation_offset[..., None], systems.emission], axis=-1)
        initial = np.concatenate([np.ones((size, 1)), systems.initial_mean], axis=-1)
        roots = None
        if shared_noise:
            first, process = np.zeros((2, size, n + 1, n + 1))
            first[:, 1:, 1:], process[:, 1:, 1:] = _root(systems.initial_covariance), _root(systems.process_covariance)
            roots = (first, process, _root(systems.observation_covariance))
        return cls(transition * _factor(length), emission, initial, roots, length)

    def pair(self, other: MomentOperand) -> Floats:
        """Inner products of every pair, ``(I, J)``."""
        return self._inner(other, crossed=True)

    def alone(self) -> Floats:
        """Inner product of every system with itself, ``(N,)``."""
        return np.asarray(self._inner(self, crossed=False)[0])

    def _inner(self, other: MomentOperand, *, crossed: bool) -> Floats:
        """Inner products ``(I, J)`` of all pairs, or ``(1, N)`` of pairs at the same place."""
        place = (slice(None), None) if crossed else (None,)
        first = self.initial[place][..., :, None] * other.initial[None, :, None, :]
        noise, extra = np.zeros_like(first), np.asarray(0.0)
        later, steps = _weights(self.length)
        if self.roots is not None and other.roots is not None:
            mine, theirs = (root[place] for root in self.roots), (root[None] for root in other.roots)
            start, noise, observed = (_joined(root, partner) for root, partner in zip(mine, theirs, strict=True))
            first, extra = first + start, steps * np.trace(observed, axis1=-2, axis2=-1)
        a, b = self.transition[place], other.transition[None]
        if isinstance(self.length, Discounted):
            total = _summed(first + later * noise, a, b, self.length)
        else:
            moment = total = first
            for _ in range(int(steps) - 1):
                moment = a @ moment @ b.swapaxes(-2, -1) + noise
                total = total + moment
        emitted = self.emission[place] @ total @ other.emission.swapaxes(1, 2)[None]
        return np.asarray(np.trace(emitted, axis1=-2, axis2=-1) + extra)


def _weights(length: Length) -> tuple[float, float]:
    """Return the sum of the weights of the steps after the first, for a discounted sum, and of all steps."""
    if isinstance(length, Discounted):
        return length.d / (1 - length.d), 1 / (1 - length.d)
    assert length is not None
    return 0.0, float(length)


def _joined(left: Floats, right: Floats) -> Floats:
    """Covariances of two systems driven by the same variables; the smaller one uses the first of them."""
    k = min(left.shape[-1], right.shape[-1])
    return np.asarray(left[..., :k] @ right[..., :k, :])


def _root(covariance: Floats) -> Floats:
    """Return symmetric square roots of covariances."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]) @ vectors.swapaxes(-2, -1))
