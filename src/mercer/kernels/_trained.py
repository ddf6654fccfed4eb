"""Wrappers that depend on the training data: they compare every object with all training objects."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NoReturn, Self

import numpy as np

from mercer._array import Array, Floats, Indices, to_numpy
from mercer.kernels._data import n_objects, take
from mercer.kernels._evaluation import Side
from mercer.kernels._operands import InnerProducts, Rows
from mercer.kernels._subset import of_compound, subset, with_parts
from mercer.kernels.base.compound import Views, Wrapper

SAMPLE = 50
"""Number of training objects that tell how large sums are compared with their terms."""
ROUNDING = 1e-12
"""A sum below this fraction of the sum of its absolute terms is zero up to rounding."""
CANCELLATION = 1000.0
"""A sum below the sum of its absolute terms divided by this has too few digits to be computed in another way."""


class TrainedWrapper(Wrapper):
    """A wrapper that compares every object with the training data."""

    domain = "linear"

    _known: dict[str, Any] | None = None
    """Fields of the training operand in addition to those of the kernel's, if the reference was dropped (`subset`)."""

    _alone: bool = False
    """Whether this is a copy, outside of its compact pipeline, of a kernel that gives rows for one estimator only."""

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
        for name in ("_known", "_alone"):
            self.__dict__.pop(name, None)
        self._unlearned = True
        return super()._training(X)

    def _learn_from_values(self, y: Any = None) -> None:
        super()._learn_from_values(y)
        self._learn_gram()
        del self._unlearned

    def _learn_gram(self) -> None:
        """Learn from the Gram matrix of the training data."""
        raise NotImplementedError

    def _explained(self) -> Floats | None:
        """Return q of all training objects, ``(N, r)``, if the wrapper is a sum of three terms, else None.

        They are k(x, z), a term that needs only the column z and what is known of x without the training data, and
        u(x) q(z)', where u(x) compares x with the training objects. If nothing but weighted sums over z is read, with
        weights a such that sum_z a_z q(z) = 0, u(x) has no influence, and the training objects are not needed for it.
        """
        return None

    def _cancels(self, weights: Any) -> bool:
        """Return whether what is subtracted leaves so little that `mc.compact` would change weighted sums of rows.

        Rounding errors are about 1e-16 of the values from which the rows are left, and depend on the number of columns.
        In sums that are 1,000 times smaller than such terms, they pass 1e-13. If the rows are almost as large as the
        terms, it is the weights that have different signs, and the subtraction does not matter.

        Parameters
        ----------
        weights : sparse array of shape (R, N)
            Linear functions of the rows of ``transform``.
        """
        if self._explained() is None:
            return False
        plain = self._copy()
        plain.normalize = False
        plain._set_training(self.train_)
        n = n_objects(plain.train_)
        new = Side(plain.train_[np.unique(np.linspace(0, n - 1, min(n, SAMPLE)).astype(int))])
        rows = to_numpy(plain._gram(new, plain._train_side)).T
        terms = to_numpy(plain._values(plain._objects(new.source))).T
        sums, left, sizes = (
            np.max(found, axis=1)
            for found in (np.abs(weights @ rows), abs(weights) @ np.abs(rows), abs(weights) @ np.abs(terms))
        )
        return bool(np.any((sizes > CANCELLATION * sums) & (sizes > 10 * left)))

    def _ready(self, data: Any = None) -> Self:
        if self._known is not None:
            self._refuse()
        return super()._ready(data)

    def _match(self, source: Any, reference: Any) -> Any:
        if self._alone:
            self._refuse()
        return super()._match(source, reference)

    def _refuse(self) -> NoReturn:
        raise TypeError(
            f"This {type(self).__name__} is part of a compact pipeline, which keeps of it what its estimator reads. "
            "Use the kernel of the pipeline that was compacted."
        )

    def _setting(self) -> Hashable | None:
        return None if self._known is not None else super()._setting()

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

    def _values(self, objects: Side) -> Array:
        """Return the values from which something is subtracted, ``(N, n_train)``."""
        return self._columns(objects)

    def _learned(self) -> Any:
        return super()._learned(), self._inner._train_side.digests()


@subset.register
def _(kernel: TrainedWrapper, index: Indices, weights: Any = None) -> Any:
    if kernel._unlearned or not kernel._has_reference:  # it will learn from these objects only, or needs no others
        return of_compound(kernel, index, weights)
    inner, q = kernel._inner, None if kernel.normalize else kernel._explained()
    # Whether the weighted sum of q is zero up to rounding.
    if q is not None and weights is not None and np.all(abs(weights @ q) <= ROUNDING * (abs(weights) @ abs(q))):
        operand = kernel._evaluation.prepared_side(kernel._train_side).operand[index]
        part = subset(inner, index, weights)
        made = with_parts(kernel, (part,), index, Views((part.train_,)))
        made._known = {name: value for name, value in vars(operand).items() if name != "operand"}
        return made
    whole = subset(inner, np.arange(n_objects(inner.train_)))  # a copy without the caches of this one
    return with_parts(kernel, (whole,), index, Views((take(kernel.train_.parts[0], index),)))


class FeaturedWrapper(InnerProducts, TrainedWrapper):
    """A wrapper with explicit features, computed from the kernel with the training data."""

    def _map(self, objects: Side) -> Floats:
        """Return the features of objects."""
        raise NotImplementedError

    def _prepare(self, source: Any) -> Rows:
        return Rows(self._map(self._objects(source)))
