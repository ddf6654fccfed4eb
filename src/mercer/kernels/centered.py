"""Kernels centered in feature space."""

from __future__ import annotations

from typing import Any

from mercer._array import Array, namespace
from mercer.kernels._operands import WithNumbers
from mercer.kernels._trained import TrainedWrapper


class Centered(TrainedWrapper):
    r"""A kernel centered in feature space, at the mean of the training data.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    normalize : bool, default=False
        Whether to scale the centered kernel so that every self-kernel is 1.
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

    def __init__(self, kernel: Any, normalize: bool = False, on_zero: str = "raise") -> None:
        self.kernel = kernel
        self.normalize = normalize
        self.on_zero = on_zero

    def _learn_gram(self) -> None:
        matrix = self._train_gram()
        self._mean = namespace(matrix).mean(matrix)

    def _prepare(self, source: Any) -> Any:
        objects = self._objects(source)
        columns = self._columns(objects)
        return WithNumbers(self._operand(objects), namespace(columns).mean(columns, axis=-1))

    def _tile(self, a: Any, b: Any) -> Array:
        values = self._tiles(a.operand, b.operand)[0]
        return values - a.numbers[:, None] - b.numbers[None, :] + self._mean

    def _self(self, a: Any) -> Array:
        own = self._diagonals(a.operand)[0]
        xp = namespace(own)
        values = own - 2 * a.numbers + self._mean
        rounding = 1e-14 * (xp.abs(own) + 2 * xp.abs(a.numbers) + xp.abs(self._mean))
        return xp.where(xp.abs(values) > rounding, values, 0.0)  # an object at the center has no direction
