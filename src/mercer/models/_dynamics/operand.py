"""Coupled linear dynamical systems as operands of the Gram engine (PPK-4.5, GMMK-7)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from mercer._array import Floats, Indices
from mercer._coupling import Coupling, Operand, PowerProduct, Smoothed
from mercer.models._dynamics.runs import Systems, systems_of
from mercer.models.discount import Discounted, Lengths, summed_table

__all__ = ["SystemOperand", "system_operand"]

_LOG_2PI = float(np.log(2 * np.pi))


def system_operand(models: Any, coupling: Coupling, lengths: Lengths) -> Operand:
    """Prepare systems for a probability product or a mean map."""
    if not isinstance(coupling, PowerProduct | Smoothed):
        raise TypeError(
            f"{type(coupling).__name__} is not available for linear dynamical systems. Use ProbabilityProduct, or "
            "MeanMap(base='rbf')."
        )
    return SystemOperand(systems_of(models), np.asarray(models.state_dims), coupling, lengths)


@dataclass(frozen=True)
class SystemOperand:
    """Systems that answer tiles: the log kernels of series of each length."""

    systems: Systems
    state_dims: Indices
    coupling: PowerProduct | Smoothed
    lengths: Lengths

    by_length: ClassVar[bool] = True
    """Answers have a first axis of lengths."""
    tile_hint: ClassVar[int] = 64

    @property
    def shape(self) -> tuple[int, ...]:
        """Batch shape."""
        return (len(self.state_dims),)

    @property
    def order(self) -> Indices | None:
        """Sort by the size of the state, so that tiles waste no work on padding."""
        if len(self.state_dims) == 0 or self.state_dims.min() == self.state_dims.max():
            return None
        return np.argsort(self.state_dims, kind="stable")

    def __len__(self) -> int:
        return len(self.state_dims)

    def __getitem__(self, key: Any) -> SystemOperand:
        """Take some systems, trimmed to the largest among them."""
        sizes = self.state_dims[key]
        n = int(sizes.max()) if len(sizes) else 1
        a, b, c, offset, q, r, mu, s = (part[key] for part in self.systems)
        trimmed = Systems(a[:, :n, :n], b[:, :n], c[..., :n], offset, q[:, :n, :n], r, mu[:, :n], s[:, :n, :n])
        return replace(self, systems=trimmed, state_dims=sizes)

    def pair(self, other: SystemOperand) -> Floats:
        """Log kernels of every pair, ``(H, I, J)`` with H lengths; H = 1 for discounted ones."""
        i, j = np.divmod(np.arange(len(self) * len(other)), max(len(other), 1))
        found = self._of_pairs(other, i, j)
        return found.reshape(-1, len(self), len(other))

    def alone(self) -> Floats:
        """Log kernel of every system with itself, ``(H, N)``; raises where a discounted one is infinite."""
        every = np.arange(len(self))
        return self._of_pairs(self, every, every)

    def _of_pairs(self, other: SystemOperand, i: Indices, j: Indices) -> Floats:
        """Log kernels of some pairs, ``(H, P)``."""
        if not isinstance(self.lengths, Discounted):
            return self._table(other, i, j, np.asarray(self.lengths))
        return summed_table(lambda lengths: self._table(other, i, j, lengths), self.lengths.d, i)[None]

    def _table(self, other: SystemOperand, i: Indices, j: Indices, lengths: Indices) -> Floats:
        """Log kernels of pairs at given lengths, ``(H, P)``."""
        observed = (lengths * self.systems.size[1])[:, None]
        if isinstance(self.coupling, Smoothed):
            if self.coupling.gamma == 0:
                return np.zeros((len(lengths), len(i)))
            found = _at_zero(self.systems, other.systems, i, j, lengths, 1.0, 0.5 / self.coupling.gamma)
            return np.asarray(found + observed / 2 * np.log(np.pi / self.coupling.gamma))
        rho = self.coupling.rho
        found = _at_zero(self.systems, other.systems, i, j, lengths, 1.0 / rho, 0.0)
        if rho == 1:
            return found
        own = self._log_determinants(lengths)[:, i] + other._log_determinants(lengths)[:, j]
        return found + (1 - rho) / 2 * (2 * observed * _LOG_2PI + own) - observed * np.log(rho)

    def _log_determinants(self, lengths: Indices) -> Floats:
        """Log determinants of the joint covariances of series, ``(H, N)``.

        The difference of two series of one system has twice their covariance.
        """
        every = np.arange(len(self))
        observed = (lengths * self.systems.size[1])[:, None]
        found = _at_zero(self.systems, self.systems, every, every, lengths, 1.0, 0.0)
        return np.asarray(-2 * found - observed * (_LOG_2PI + np.log(2)))


def _at_zero(
    left: Systems, right: Systems, i: Indices, j: Indices, lengths: Indices, noise: float, extra: float
) -> Floats:
    """Log density at zero of the difference of two series, ``(H, P)``."""
    from mercer.compiled.kalman_pairs import pair_places, run_pairs
    from mercer.compiled.lanes import aligned

    (n, d), (m, _) = left.size, right.size
    at = pair_places(n, m, d)
    flat = [tuple(np.ascontiguousarray(part).reshape(-1) for part in side) for side in (left, right)]
    out = np.empty((len(lengths), len(i)))
    if len(i):
        pairs = np.stack([i, j], axis=1).astype(np.int64)
        steps = np.asarray(lengths, dtype=np.int64)
        run_pairs(aligned((int(at[-1]),)), at, *flat, pairs, steps, n, m, d, noise, extra, out)
    if not np.isfinite(out).all():
        raise ValueError(
            "The kernel of a pair of linear dynamical systems is not finite: the covariance of a predicted observation "
            "is singular, or overflows because a transition is unstable. Add a small multiple of the identity to "
            "observation_covariance, or use a smaller length."
        )
    return out
