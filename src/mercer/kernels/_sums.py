"""Weighted sums of kernel values of new objects with the training objects, which are the decisions of an estimator."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any, TypeAlias

import numpy as np

from mercer._array import Floats
from mercer._parallel import single_blas
from mercer.gram.engine import sorted_operand, tile_shape

Sums: TypeAlias = Callable[[Any], Floats]
"""Function of M new objects, a source of a kernel, that returns R sums of each, ``(M, R)``."""


@singledispatch
def weighted_sums(kernel: Any, weights: Floats) -> Sums:
    """Return a function of new sources; a kernel with a faster way than through its values registers a function.

    Parameters
    ----------
    kernel : Kernel
        A fitted kernel of NumPy data.
    weights : array of shape (R, N)
        Weights of the training objects.
    """
    return sums_of_values(kernel, weights)


def sums_of_values(kernel: Any, weights: Floats) -> Sums:
    """Return a function that computes kernel values and their weighted sums.

    What fits into one tile is computed in this thread, without the engine: the sorted training objects and whatever
    their operand computes from them once are kept from call to call.
    """
    evaluation = kernel._evaluation
    order, train = sorted_operand(evaluation.prepared_side(kernel._train_side))
    columns = np.ascontiguousarray((weights if order is None else weights[:, order]).T)

    def sums(source: Any) -> Floats:
        a = evaluation._prepare(source)
        if tile_shape(a, train, symmetric=False) != (len(a), len(train)):
            return np.asarray(evaluation.matrix(a, train) @ columns)
        at, a = (None, a) if len(a) == 1 else sorted_operand(a)
        with single_blas():
            found = evaluation.value_tile(a, train) @ columns
        if at is None:
            return np.asarray(found)
        out = np.empty_like(found)
        out[at] = found
        return out

    return sums
