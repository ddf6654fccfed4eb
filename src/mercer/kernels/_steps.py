"""Models of sequences compared step by step, as if observations were independent over time (E7, E27)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from mercer._array import Floats, Indices, to_numpy
from mercer._coupling import Coupling
from mercer.models.discount import Discounted, Lengths, check_lengths, summed_table

__all__ = ["StepOperand", "step_operand"]


def step_operand(models: Any, coupling: Coupling, lengths: Lengths | None) -> StepOperand:
    """Prepare models that answer ``marginals(length)``, the distributions of single observations, ``(N, length)``."""
    if not hasattr(models, "marginals"):
        raise TypeError(
            "time='independent' needs `marginals`, the distribution of the observation at every step, which "
            f"{type(models).__name__} does not have. Use time='joint', or a model such as mc.LDS()."
        )
    check_lengths(lengths)
    assert lengths is not None
    return StepOperand(models, coupling, lengths)


class StepOperand:
    """Models that answer tiles: log kernels of each length, sums over time of those of the marginals."""

    by_length: ClassVar[bool] = True
    """Answers have a first axis of lengths."""
    order: Indices | None = None
    tile_hint: ClassVar[int] = 64

    def __init__(self, models: Any, coupling: Coupling, lengths: Lengths) -> None:
        self.models = models
        self.coupling = coupling
        self.lengths = lengths

    @property
    def shape(self) -> tuple[int, ...]:
        """Batch shape."""
        return tuple(self.models.shape)

    def __len__(self) -> int:
        return len(self.models)

    def __getitem__(self, key: Any) -> StepOperand:
        return StepOperand(self.models[key], self.coupling, self.lengths)

    def pair(self, other: StepOperand) -> Floats:
        """Log kernels of every pair, ``(H, I, J)`` with H lengths; H = 1 for discounted ones."""
        left = np.repeat(np.arange(len(self)), len(other))

        def table(lengths: Indices) -> Floats:
            last = int(max(lengths))
            p, q = self.models.marginals(last), other.models.marginals(last)
            steps = (to_numpy(self.coupling.leaf(p[:, t], q[:, t])).ravel() for t in range(last))
            return _cumulated(steps, lengths, len(left))

        return self._over_lengths(table, left).reshape(-1, len(self), len(other))

    def alone(self) -> Floats:
        """Log kernel of every model with itself, ``(H, N)``; raises where a discounted one is infinite."""

        def table(lengths: Indices) -> Floats:
            last = int(max(lengths))
            p = self.models.marginals(last)
            single = (p[:, t].reshape(len(self), 1) for t in range(last))
            steps = (to_numpy(self.coupling.leaf(one, one))[:, 0, 0] for one in single)
            return _cumulated(steps, lengths, len(self))

        return self._over_lengths(table, np.arange(len(self)))

    def _over_lengths(self, table: Any, models: Indices) -> Floats:
        if isinstance(self.lengths, Discounted):
            return summed_table(table, self.lengths.d, models)[None]
        found: Floats = table(np.asarray(self.lengths))
        return found


def _cumulated(steps: Any, lengths: Indices, count: int) -> Floats:
    """Sum log kernels of steps; return the sums at the given lengths, ``(H, count)``."""
    places = {int(length): h for h, length in enumerate(lengths)}
    found, total = np.empty((len(lengths), count)), np.zeros(count)
    for t, step in enumerate(steps):
        total = total + step
        if t + 1 in places:
            found[places[t + 1]] = total
    return found
