"""Wrappers that depend on the training data: they compare every object with all training objects."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Array, Floats, Indices
from mercer.kernels._data import n_objects, take
from mercer.kernels._evaluation import Side
from mercer.kernels._operands import InnerProducts, Rows
from mercer.kernels._subset import of_compound, subset, with_parts
from mercer.kernels.base.compound import Views, Wrapper


class TrainedWrapper(Wrapper):
    """A wrapper that compares every object with the training data."""

    domain = "linear"

    _has_reference: bool = True
    """Whether every new object is compared with all training objects, so that these must be kept."""

    @property
    def _needs_fit(self) -> str:
        return f"{type(self).__name__} depends on the training data"

    _unlearned: bool = False
    """Whether it has its training objects, and has not learned from their matrix yet."""

    @property
    def _learns_from_values(self) -> bool:
        return True

    def _training(self, X: Any) -> Any:
        self._unlearned = True
        return super()._training(X)

    def _learn_from_values(self, y: Any = None) -> None:
        super()._learn_from_values(y)
        self._learn_gram()
        del self._unlearned

    def _learn_gram(self) -> None:
        """Learn from the Gram matrix of the training data."""
        raise NotImplementedError

    def _objects(self, source: Views) -> Side:
        """Return the side of objects in the format of the training objects; the existing side for the training data."""
        inner, objects = self._inner, source.parts[0]
        if objects is not inner.train_:
            objects = inner._match(objects, inner.train_)
        side: Side = inner._evaluation.side(objects)
        return side

    def _operand(self, objects: Side) -> Views:
        """Return the operand of the kernel."""
        return Views((self._inner._evaluation.prepared_side(objects),))

    def _train_gram(self, *, log: bool = False) -> Array:
        """Return the kernel of the training objects, ``(n_train, n_train)``."""
        return self._inner._gram(self._inner._train_side, None, log=log)

    def _columns(self, objects: Side, *, log: bool = False) -> Array:
        """Return the kernel of every object with the training objects, ``(N, n_train)``."""
        train = self._inner._train_side
        return self._inner._gram(objects, None if objects is train else train, log=log)

    def _learned(self) -> Any:
        return super()._learned(), self._inner._train_side.digests()


@subset.register
def _(kernel: TrainedWrapper, index: Indices) -> Any:
    if kernel._unlearned or not kernel._has_reference:  # it will learn from these objects only, or needs no others
        return of_compound(kernel, index)
    whole = subset(kernel._inner, np.arange(n_objects(kernel._inner.train_)))  # without the caches of this one
    return with_parts(kernel, (whole,), index, Views((take(kernel.train_.parts[0], index),)))


class FeaturedWrapper(InnerProducts, TrainedWrapper):
    """A wrapper with explicit features, computed from the kernel with the training data."""

    def _map(self, objects: Side) -> Floats:
        """Return the features of objects."""
        raise NotImplementedError

    def _prepare(self, source: Any) -> Rows:
        return Rows(self._map(self._objects(source)))
