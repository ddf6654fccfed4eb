"""Coupled linear dynamical systems as operands of the Gram engine (PPK-4.5, GMMK-7)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from mercer._array import Floats, Indices
from mercer._coupling import Coupling, FieldOperand, Operand, PowerProduct, Smoothed
from mercer._native.kalman import pairs_at_zero
from mercer.models._dynamics.runs import Systems, systems_of
from mercer.models.discount import Discounted, Lengths, discounted_sum

__all__ = ["LOST", "SystemOperand", "system_operand"]

LOG_2PI = float(np.log(2 * np.pi))
LOST = float(np.log(1e10))
"""Logarithm of the growth of a variance that is not seen, above which too few digits of a kernel are left."""


def system_operand(models: Any, coupling: Coupling, lengths: Lengths) -> Operand:
    """Prepare systems for a probability product or a mean map."""
    if not isinstance(coupling, PowerProduct | Smoothed):
        raise TypeError(
            f"{type(coupling).__name__} is not available for linear dynamical systems. Use ProbabilityProduct, or "
            "MeanMap(base='rbf')."
        )
    systems = systems_of(models)
    eigenvalues = np.linalg.eigvals(systems.transition)
    return SystemOperand(systems, np.asarray(models.state_dims), eigenvalues, coupling, lengths)


@dataclass(frozen=True)
class SystemOperand(FieldOperand):
    """Systems that answer tiles: the log kernels of series of each length."""

    _shared_fields: ClassVar[tuple[str, ...]] = ("coupling", "lengths")

    systems: Systems
    state_dims: Indices
    eigenvalues: Any
    """Of the transitions, complex, ``(N, n)``."""
    coupling: PowerProduct | Smoothed
    lengths: Lengths

    by_length: ClassVar[bool] = True
    """Answers have a first axis of lengths."""
    tile_hint: ClassVar[int] = 64

    @property
    def order(self) -> Indices | None:
        """Sort by the size of the state, so that tiles waste no work on padding."""
        if len(self.state_dims) == 0 or self.state_dims.min() == self.state_dims.max():
            return None
        return np.argsort(self.state_dims, kind="stable")

    def __getitem__(self, key: Any) -> SystemOperand:
        """Take some systems, trimmed to the largest among them."""
        sizes = self.state_dims[key]
        n = int(sizes.max()) if len(sizes) else 1
        a, b, c, offset, q, r, mu, s = (part[key] for part in self.systems)
        trimmed = Systems(a[:, :n, :n], b[:, :n], c[..., :n], offset, q[:, :n, :n], r, mu[:, :n], s[:, :n, :n])
        return replace(self, systems=trimmed, state_dims=sizes, eigenvalues=self.eigenvalues[key])

    def pair(self, other: SystemOperand) -> Floats:
        """Log kernels of every pair, ``(H, I, J)`` with H lengths; H = 1 for discounted ones."""
        i, j = np.divmod(np.arange(len(self) * len(other)), max(len(other), 1))
        equal = self.equal(other)
        if not len(equal):
            values = self._summed(lambda lengths, at: self._table(other, i[at], j[at], lengths), i)
            return values.reshape(-1, len(self), len(other))
        rest = np.delete(np.arange(len(i)), equal[:, 0] * len(other) + equal[:, 1])
        own = self[equal[:, 0]].alone()
        found = np.empty((len(own), len(self), len(other)))
        found[:, equal[:, 0], equal[:, 1]] = own
        values = self._summed(lambda lengths, at: self._table(other, i[rest][at], j[rest][at], lengths), i[rest])
        found[:, i[rest], j[rest]] = values
        return found

    def alone(self) -> Floats:
        """Log kernel of every system with itself, ``(H, N)``; raises where a discounted one is infinite."""
        every = np.arange(len(self))
        return self._summed(lambda lengths, at: self[at]._table(None, every[at], None, lengths), every)

    def _summed(self, table: Callable[[Indices, slice], Floats], models: Indices) -> Floats:
        """Log kernels of some pairs at all lengths, ``(H, P)``."""
        if not isinstance(self.lengths, Discounted):
            return table(np.asarray(self.lengths), slice(None))
        return np.asarray(discounted_sum(table, self.lengths.d, models)[None])

    def _table(self, other: SystemOperand | None, i: Indices, j: Indices | None, lengths: Indices) -> Floats:
        """Log kernels of pairs, or of systems with themselves, at given lengths, ``(H, P)``."""
        observed = (lengths * self.systems.size[1])[:, None]

        def density(noise: float, extra: float) -> Floats:
            if other is None or j is None:
                return _selves(self.systems, lengths, noise, extra)
            return at_zero(self.systems, other.systems, i, j, lengths, noise, extra)

        def determinants() -> Floats:
            mine = self.log_determinants(lengths)
            return 2 * mine if other is None or j is None else mine[:, i] + other.log_determinants(lengths)[:, j]

        return coupled(self.coupling, observed, len(i), density, determinants)

    def log_determinants(self, lengths: Indices) -> Floats:
        """Log determinants of the joint covariances of series, ``(H, N)``.

        The difference of two series of one system has twice their covariance.
        """
        observed = (lengths * self.systems.size[1])[:, None]
        found = _selves(self.systems, lengths, 1.0, 0.0)
        return np.asarray(-2 * found - observed * (LOG_2PI + np.log(2)))

    # -- unstable systems --------------------------------------------------------------------------------

    def equal(self, other: SystemOperand) -> Indices:
        """Return pairs of equal unstable systems, ``(E, 2)``; raise for pairs that are almost equal.

        A motion that two systems have in common is not seen in the difference of their series. If it is unstable, its
        variance grows until nothing else is left in floating-point numbers.
        """
        moduli = [np.abs(side.eigenvalues).max(axis=1, initial=0.0) for side in (self, other)]
        wild = [np.flatnonzero(part > 1) for part in moduli]
        if not len(wild[0]) or not len(wild[1]):
            return np.empty((0, 2), int)
        length = int(36 / -np.log(self.lengths.d)) if isinstance(self.lengths, Discounted) else max(self.lengths)
        growth = np.log(moduli[0][wild[0]])[:, None] + np.log(moduli[1][wild[1]])
        left, right = (
            np.where(np.abs(side.eigenvalues[at]) > 1, side.eigenvalues[at], sign * np.inf)
            for side, at, sign in ((self, wild[0], 1), (other, wild[1], -1))
        )
        with np.errstate(invalid="ignore"):
            apart = np.abs(left[:, None, :, None] - right[None, :, None, :]).min(axis=(2, 3))
        apart = apart / moduli[0][wild[0]][:, None]
        with np.errstate(divide="ignore"):
            lost = np.minimum(growth * (length - 1), -4 * np.log(apart)) > LOST
        pairs = np.stack([wild[0][np.nonzero(lost)[0]], wild[1][np.nonzero(lost)[1]]], axis=1)
        same = [self._is(other, *pair) for pair in pairs]
        if not all(same):
            i, j = pairs[int(np.argmin(same))]
            rate = np.log(moduli[0][i]) + np.log(moduli[1][j])
            raise ValueError(
                f"Two linear dynamical systems are unstable in almost the same way, with eigenvalues of modulus "
                f"{moduli[0][i]:.6g} and {moduli[1][j]:.6g}, so that their kernel loses too many digits. Use a "
                f"length of at most {1 + int(LOST / rate)}."
            )
        return pairs

    def _is(self, other: SystemOperand, i: int, j: int) -> bool:
        """Whether system i is system j of the other side."""
        left, right = self[np.array([i])].systems, other[np.array([j])].systems
        return all(np.array_equal(a, b) for a, b in zip(left, right, strict=True))


def coupled(
    coupling: PowerProduct | Smoothed,
    observed: Floats,
    size: int,
    density: Callable[[float, float], Floats],
    determinants: Callable[[], Floats],
) -> Floats:
    """Return the log kernels of pairs of Gaussian distributions of series, ``(H, size)``.

    Parameters
    ----------
    coupling : PowerProduct or Smoothed
        The kernel.
    observed : array of shape (H, 1)
        Numbers of observed coordinates of all steps.
    size : int
        Number of pairs.
    density : callable
        Log densities at zero of the differences of two series, with a factor of their covariances and a variance that
        is added to them.
    determinants : callable
        Sums of the log determinants of both covariances.
    """
    if isinstance(coupling, Smoothed):
        if coupling.gamma == 0:
            return np.zeros((len(observed), size))
        return np.asarray(density(1.0, 0.5 / coupling.gamma) + observed / 2 * np.log(np.pi / coupling.gamma))
    rho = coupling.rho
    found = density(1.0 / rho, 0.0)
    if rho == 1:
        return found
    return np.asarray(found + (1 - rho) / 2 * (2 * observed * LOG_2PI + determinants()) - observed * np.log(rho))


def check_finite(found: Floats, what: str) -> Floats:
    """Return log kernels; raise if one is not finite."""
    if not np.isfinite(found).all():
        raise ValueError(
            f"The kernel of a pair of {what} is not finite: the covariance of a predicted observation is singular, or "
            "overflows because a transition is unstable. Add a small multiple of the identity to "
            "observation_covariance, or use a smaller length."
        )
    return found


def _selves(systems: Systems, lengths: Indices, noise: float, extra: float) -> Floats:
    """Log density at zero of the difference of two series of each system, ``(H, N)``.

    That difference is a series of the system with twice its covariances and no mean, and its partner is always zero.
    It remains exact for unstable systems.
    """
    a, b, c, offset, q, r, mu, s = systems
    size, d = offset.shape
    twice = Systems(a, np.zeros_like(b), c, np.zeros_like(offset), 2 * q, 2 * r, np.zeros_like(mu), 2 * s)
    one = np.zeros((1, 1, 1))
    silent = Systems(one, one[0], np.zeros((1, d, 1)), np.zeros((1, d)), one, np.zeros((1, d, d)), one[0], one)
    return at_zero(twice, silent, np.arange(size), np.zeros(size, int), lengths, noise, extra)


def at_zero(
    left: Systems, right: Systems, i: Indices, j: Indices, lengths: Indices, noise: float, extra: float
) -> Floats:
    """Log density at zero of the difference of two series, ``(H, P)``."""
    return check_finite(pairs_at_zero(left, right, i, j, lengths, noise, extra), "linear dynamical systems")
