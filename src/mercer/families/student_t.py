"""Student t distributions: the next point of a Gaussian whose mean and covariance are unknown."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy.special import betaln, gammaln

from mercer._array import Floats, as_float, to_numpy
from mercer._checks import check_rho
from mercer._random import random_generator
from mercer.families.base import Family

if TYPE_CHECKING:
    from mercer.families.gaussian_estimator import Gaussian

PANELS = 12
"""Number of panels of the quadrature on each side of a center."""
NEAREST, FARTHEST = -3.0, 6.0
"""The panels end at least at these powers of 2, in widths from the center."""
SLOWEST = 1.02
"""The integrand must decay as a power above this: the integral of 1 / x is infinite."""
PAIRS = 256
"""Number of pairs that are integrated at once, so that their nodes stay in the cache."""
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


class StudentTs(Family):
    r"""A batch of Student t distributions.

    They are the predictive distributions of ``Gaussian(estimate="student")``: the distribution of the next point of a
    sample, averaged over the posterior of mean and covariance.

    Parameters
    ----------
    location : array of shape (..., d)
        Centers.
    scale : array of shape (..., d, d)
        Positive definite scale matrices; the covariance is ``scale * freedom / (freedom - 2)``.
    freedom : array of shape (...)
        Degrees of freedom, positive.

    Notes
    -----
    The probability product (PPK-2a) has no closed form. In one dimension it is computed by quadrature, for every rho
    with :math:`\rho(\nu+\nu'+2) > 1`, where it is finite. In more dimensions, use `Sampled`.

    Examples
    --------
    >>> import mercer as mc
    >>> p = mc.families.StudentTs([[0.0], [1.0]], [[[1.0]], [[1.0]]], [1.0, 1.0])  # Cauchy
    >>> mc.ProbabilityProduct(rho=1.0, normalize=False)(p).round(4)
    array([[0.1592, 0.1273],
           [0.1273, 0.1592]])
    """

    _arrays: ClassVar[dict[str, int]] = {"location": 1, "scale": 2, "freedom": 0}
    tile_hint = 64
    is_predictive = True

    location: Floats
    scale: Floats
    freedom: Floats

    def __init__(self, location: Any, scale: Any, freedom: Any) -> None:
        given = {"location": location, "scale": scale, "freedom": freedom}
        location, scale, freedom = (to_numpy(as_float(value, name)).astype(float) for name, value in given.items())
        if location.ndim == 0 or scale.shape != (*location.shape, location.shape[-1]):
            raise ValueError(
                "location must have shape (..., d) and scale (..., d, d); got "
                f"{location.shape} and {scale.shape}. In one dimension give [[value]]."
            )
        freedom = np.broadcast_to(freedom, location.shape[:-1])
        good = {
            "location must be finite": np.isfinite(location).all(axis=-1),
            "freedom must be positive and finite": (freedom > 0) & np.isfinite(freedom),
            "scale must be symmetric": np.isclose(scale, np.swapaxes(scale, -1, -2), atol=0).all(axis=(-1, -2)),
        }
        for must, right in good.items():
            if not np.all(right):
                raise ValueError(f"{must}; that at index {tuple(map(int, np.argwhere(~right)[0]))} is not.")
        lowest = np.linalg.eigvalsh(scale)[..., 0]
        if not np.all(lowest > 0):
            where = tuple(map(int, np.argwhere(~(lowest > 0))[0]))
            raise ValueError(f"scale must be positive definite; that at index {where} is not. Add to its diagonal.")
        self._freeze(location=location, scale=scale, freedom=freedom)

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return int(self.location.shape[-1])

    @property
    def n_parameters(self) -> int:
        """Number of free parameters of one distribution: the location, the scale matrix and the freedom."""
        return self.dimension + self.dimension * (self.dimension + 1) // 2 + 1

    def estimator(self) -> Gaussian:
        """Return the estimator that makes such distributions."""
        from mercer.families.gaussian_estimator import Gaussian

        return Gaussian(prior="pooled", estimate="student")

    def log_prob(self, x: Any) -> Floats:
        """Log density of every point, ``(*B, n) x (*B, T, d) -> (*B, n, T)``."""
        single, x = self._crossable(self._checked_points(to_numpy(x).astype(float)))
        d, v = self.dimension, single.freedom[..., None]
        root = np.linalg.cholesky(single.scale)
        diff = x[..., None, :, :] - single.location[..., :, None, :]
        z = np.linalg.solve(root, np.swapaxes(diff, -1, -2))
        half = np.log(np.diagonal(root, axis1=-2, axis2=-1)).sum(axis=-1)[..., None]
        value = _log_constant(v, d) - half - (v + d) / 2 * np.log1p((z**2).sum(axis=-2) / v)
        return np.asarray(value if self.shape else value[0])

    def sample(self, size: int = 1, random_state: Any = None) -> Floats:
        """Draw ``size`` points from every member, ``(*B, size, d)``."""
        rng, v = random_generator(random_state), self.freedom[..., None]
        noise = rng.standard_normal((*self.shape, size, self.dimension))
        noise /= np.sqrt(rng.chisquare(np.broadcast_to(v, (*self.shape, size))) / v)[..., None]
        return np.asarray(self.location[..., None, :] + noise @ np.swapaxes(np.linalg.cholesky(self.scale), -1, -2))

    def log_product(self, other: Self, rho: float = 0.5) -> Floats:
        """Log of the integral of p^rho q^rho, ``(*B, n) x (*B, m) -> (*B, n, m)``, by quadrature (PPK-2a)."""
        check_rho(rho)
        self._check_pair(other)
        if self.dimension > 1:
            raise ValueError(
                f"The probability product of Student t distributions in {self.dimension} dimensions has no closed "
                "form. Use mc.Sampled(rho=...), or estimate='point'."
            )
        sides = np.broadcast_arrays(*self._line(np.s_[..., :, None]), *other._line(np.s_[..., None, :]))
        shape, flat = sides[0].shape, [side.reshape(-1) for side in sides]
        decay = rho * (flat[2] + flat[5] + 2)
        if len(decay) and decay.min() <= SLOWEST:
            raise ValueError(
                f"The integral of p^rho q^rho is infinite, or nearly so: rho (freedom + freedom' + 2) is "
                f"{decay.min():.4g} and must be above {SLOWEST}. Increase rho."
            )
        value = np.empty(len(decay))
        for at in range(0, len(value), PAIRS):
            part = np.s_[at : at + PAIRS]
            value[part] = _log_integrals([side[part, None] for side in flat], float(rho))
        return value.reshape(shape)

    def _line(self, at: Any) -> tuple[Floats, Floats, Floats]:
        """Return locations, scales and degrees of freedom on the line."""
        return self.location[..., 0][at], np.sqrt(self.scale[..., 0, 0])[at], self.freedom[at]


def _log_constant(v: Floats, d: int) -> Floats:
    # betaln does not cancel where the degrees of freedom are many.
    return np.asarray(gammaln(d / 2) - betaln(v / 2, d / 2) - d / 2 * np.log(math.pi * v))


def _panels(center: Floats, width: Floats, apart: Floats) -> Floats:
    """Return the ends of panels on both sides of centers, ``(P, 2 PANELS + 1)``."""
    with np.errstate(divide="ignore"):  # equal locations
        last = np.maximum(np.log2(apart / width), FARTHEST)
    steps = width * 2 ** (NEAREST + (last - NEAREST) * np.linspace(0, 1, PANELS))
    return np.concatenate([center - steps, center, center + steps], axis=1)


def _log_integrals(line: list[Floats], rho: float) -> Floats:
    """Integrate p^rho q^rho of pairs on the line by Gauss-Legendre panels.

    ``line`` has location, scale and degrees of freedom of p, then of q, each ``(P, 1)``.

    Panels grow geometrically away from three centers: those of p and q, and that of the product if they were
    Gaussians. The tails decay as a power, and become smooth on (0, 1) after a change of variables.
    """
    m, s, v, n, t, w = line
    middle = (m * t**2 + n * s**2) / (s**2 + t**2)
    width = s * t / np.hypot(s, t)
    apart = 2 * np.abs(m - n)
    ends = np.sort(np.concatenate([_panels(c, w, apart) for c, w in ((m, s), (n, t), (middle, width))], axis=1), axis=1)
    half = np.diff(ends, axis=1)[..., None] / 2
    inner = ((ends[:, :-1, None] + half) + half * _NODES).reshape(len(m), -1)
    with np.errstate(divide="ignore"):  # panels of width zero
        measure = (np.log(half) + np.log(_WEIGHTS)).reshape(len(m), -1)

    rate = rho * (v + w + 2) - 1
    log_u = np.log((1 + _NODES) / 2)
    reach = (ends[:, -1:] - ends[:, :1]) / 2
    center = (ends[:, -1:] + ends[:, :1]) / 2
    far = reach * np.exp(-log_u / rate)
    tail = np.log(reach / rate) - (1 / rate + 1) * log_u + np.log(_WEIGHTS / 2)

    x = np.concatenate([inner, center - far, center + far], axis=1)
    logs = np.concatenate([measure, tail, tail], axis=1)
    for location, scale, freedom in ((m, s, v), (n, t, w)):
        constant = _log_constant(freedom, 1) - np.log(scale)
        logs = logs + rho * (constant - (freedom + 1) / 2 * np.log1p(((x - location) / scale) ** 2 / freedom))
    top = logs.max(axis=1)
    return np.asarray(top + np.log(np.exp(logs - top[:, None]).sum(axis=1)))
