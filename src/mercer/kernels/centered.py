"""Kernels centered in feature space."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer._array import Array, namespace
from mercer._notices import notify
from mercer.kernels._evaluation import Side
from mercer.kernels._operands import WithScalar
from mercer.kernels._trained import TrainedWrapper


@dataclass(eq=False, repr=False)
class Centered(TrainedWrapper):
    r"""A kernel centered in feature space, at the mean of the training data.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    normalize : bool, default=False
        Whether to scale the centered kernel so that every self-kernel is 1; not by default, because objects near the
        mean have almost no norm.
    on_zero : {"raise", "zero"}, default="raise"
        Whether objects of zero norm raise an error or get zeros.

    Notes
    -----
    :math:`k(x,y) - \bar k(x) - \bar k(y) + \bar{\bar k}`, the bars being means over the training data: KK-3 with a
    constant as the only confound.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.Centered(mc.Linear(normalize=False)).fit_transform([[1.0], [3.0]])
    array([[ 1., -1.],
           [-1.,  1.]])
    """

    _preserved_by = "inner products of centered features (KK-3)"

    kernel: Any
    normalize: bool = False
    on_zero: str = "raise"

    def _learn_gram(self) -> None:
        matrix = self._train_gram()
        xp = namespace(matrix)
        self._level: float | None = None
        # The values of a flat kernel are about its level, and differences from it have more digits than they.
        if self._inner.domain == "log" and bool(xp.min(matrix) > 0) and bool(xp.max(matrix) < 2 * xp.min(matrix)):
            logs = self._train_gram(log=True)
            self._level = float(xp.mean(logs))
            matrix = self._above_level(logs)
        self._mean = xp.mean(matrix)
        self._warn_of_rounding(matrix)

    def _above_level(self, logs: Array) -> Array:
        """Return kernel values minus their level, from logarithms."""
        assert self._level is not None
        return float(np.exp(self._level)) * namespace(logs).expm1(logs - self._level)

    def _warn_of_rounding(self, matrix: Array) -> None:
        """Warn if most digits of the kernel are those of its mean."""
        xp = namespace(matrix)
        own = xp.linalg.diagonal(matrix)
        left, size = float(xp.mean(own) - self._mean), float(xp.mean(xp.abs(own)))
        if 1e-14 * size < left < 1e-8 * size:
            notify(
                f"Centered leaves {left / size:.1e} of the values of {type(self._inner).__name__}, the rest is their "
                f"mean: only about {int(np.log10(left / size) + 16)} digits are left. Use a kernel that varies more, "
                "such as one with a larger gamma, or center the data."
            )

    def _values(self, objects: Side) -> Array:
        """Return the values between objects and the training objects, about the level."""
        return self._columns(objects) if self._level is None else self._above_level(self._columns(objects, log=True))

    def _prepare(self, source: Any) -> Any:
        objects = self._objects(source)
        columns = self._values(objects)
        return WithScalar(self._operand(objects), namespace(columns).mean(columns, axis=-1))

    def _tile(self, a: Any, b: Any) -> Array:
        if self._level is None:
            values = self._tiles(a.operand, b.operand)[0]
        else:
            values = self._above_level(self._inner.tile(a.operand.parts[0], b.operand.parts[0]))
        return values - a.numbers[:, None] - b.numbers[None, :] + self._mean

    def _self(self, a: Any) -> Array:
        if self._level is None:
            own = self._diagonals(a.operand)[0]
        else:
            own = self._above_level(self._inner._evaluation.diagonal(a.operand.parts[0]))
        xp = namespace(own)
        values = own - 2 * a.numbers + self._mean
        rounding = 1e-14 * (xp.abs(own) + 2 * xp.abs(a.numbers) + xp.abs(self._mean))
        return xp.where(xp.abs(values) > rounding, values, 0.0)  # an object at the center has no direction
