"""Wrappers that depend on the training data: they compare every object with all training objects."""

from __future__ import annotations

from typing import Any

from mercer._array import Array, Floats
from mercer.kernels._evaluation import Side
from mercer.kernels._operands import InnerProducts, Rows
from mercer.kernels.base.compound import Views, Wrapper


class TrainedWrapper(Wrapper):
    """A wrapper that compares every object with the training data."""

    domain = "linear"

    @property
    def _needs_fit(self) -> str:
        return f"{type(self).__name__} depends on the training data"

    def _training(self, X: Any) -> Any:
        source = super()._training(X)
        self._learn_gram()
        return source

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


class FeaturedWrapper(InnerProducts, TrainedWrapper):
    """A wrapper with explicit features, computed from the kernel with the training data."""

    def _map(self, objects: Side) -> Floats:
        """Return the features of objects."""
        raise NotImplementedError

    def _prepare(self, source: Any) -> Rows:
        return Rows(self._map(self._objects(source)))
