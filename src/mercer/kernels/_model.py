"""Two kinds of kernel: between models (one per datum), and between data under one shared model."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from mercer._array import Array
from mercer._batch import Batch
from mercer.data import Sequences
from mercer.families._coupling import Coupling
from mercer.families._estimator import Estimator
from mercer.kernels._base import Kernel, is_whole


class ModelKernel(Kernel):
    """A kernel between models: of batches as they are, or of data through ``model.fit_each``."""

    model: Any

    def _accept(self, X: Any, *, reset: bool) -> Any:
        if isinstance(X, Batch):
            if X.ndim != 1:
                raise ValueError(f"a kernel compares a batch of shape (N,), got {X.shape}: use p[3:4] or p.reshape(-1)")
            return X
        if self.model is None:
            raise TypeError(
                f"{type(self).__name__}() has no model, and {type(X).__name__} is no batch of distributions: give it a "
                f"model that turns data into distributions, as in {type(self).__name__}(mc.Gaussian()), or pass a "
                "batch such as mc.Gaussians(...)"
            )
        context = None if reset else getattr(self, "context_", None)
        return self.model.accept(X, owner=self, reset=reset, context=context)

    def _learn(self, X: Any, y: Any = None) -> None:
        self.__dict__.pop("context_", None)
        if not isinstance(X, Batch):
            self.context_ = self.model.context(X)

    def _source(self, X: Any) -> Any:
        if isinstance(X, Batch):
            return X
        if not hasattr(self, "context_"):
            raise NotFittedError(
                f"this {type(self).__name__} was fitted to a batch of models and has learned nothing about data: fit "
                "it to data, or pass a batch"
            )
        return self.model._fit_accepted(X, self.context_)

    def _match(self, source: Any, reference: Any) -> Any:
        return source.matched(reference)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.model is not None and not isinstance(self.model, Estimator):
            raise TypeError(
                f"model = {self.model!r}: give an estimator such as mc.Gaussian() (without fitting it), or None to "
                "compare batches"
            )
        if self.model is not None:
            self.model._check_parameters()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if isinstance(self.model, Estimator):
            tags.input_tags = self.model.__sklearn_tags__().input_tags
            # A model of one row needs a prior for the coordinates that the row lacks.
            tags.input_tags.allow_nan &= self.model.prior is not None
        return tags


class CoupledKernel(ModelKernel):
    """A kernel between models that is one coupling of their batches."""

    length: Any

    def _coupling(self) -> Coupling:
        raise NotImplementedError

    def _lengths(self) -> tuple[int, ...] | None:
        return None if self.length is None else (int(self.length),)

    def _prepare(self, source: Any) -> Any:
        return source.couple(self._coupling(), self._lengths())

    def _tile(self, a: Any, b: Any) -> Array:
        return self._single(a.pair(b))

    def _self(self, a: Any) -> Array:
        values = a.alone()
        return values[0, ...] if len(values.shape) == 2 else values

    @staticmethod
    def _single(values: Array) -> Array:
        """Drop the axis of lengths, of which there is one."""
        return values[0, ...] if len(values.shape) == 3 else values

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.length is not None and not is_whole(self.length, 1):
            raise ValueError(
                f"length = {self.length!r}: give the number of observations of the compared sequences, 1 or more"
            )


class SharedModelKernel(Kernel):
    """A kernel between data under one model: an estimator, fitted to the training data, or a batch of shape (1,)."""

    model: Any
    model_: Any

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if isinstance(self.model, Batch):
            if self.model.shape != (1,):
                raise ValueError(
                    f"the shared model has shape {self.model.shape}: give a batch of shape (1,), such as p[3:4]"
                )
        elif not isinstance(self.model, Estimator):
            raise TypeError(
                f"model = {self.model!r}: {type(self).__name__} needs one model for all data, an estimator such as "
                "mc.Gaussian() or a fitted batch of shape (1,)"
            )

    def _accept(self, X: Any, *, reset: bool) -> Any:
        if isinstance(X, Batch):
            raise TypeError(
                f"{type(self).__name__} compares data under one model, not models: pass the data themselves"
            )
        context = None if reset else getattr(self, "context_", None)
        X = self._reader().accept(X, owner=self, reset=reset, context=context)
        found = X.dimension if isinstance(X, Sequences) else X.shape[1]
        expected = getattr(self.model, "dimension", None) if isinstance(self.model, Batch) else None
        if expected is not None and found is not None and found != expected:
            raise ValueError(f"the data have {found} coordinates, the model of {type(self).__name__} has {expected}")
        return X

    def _reader(self) -> Estimator:
        """Return the estimator that knows what data of the model look like."""
        return self.model if isinstance(self.model, Estimator) else self.model.estimator()

    def _learn(self, X: Any, y: Any = None) -> None:
        self.__dict__.pop("context_", None)
        if isinstance(self.model, Batch):
            self.model_ = self.model
            return
        fitted = clone(self.model)
        fitted._check_parameters()
        self.context_ = fitted.context(X)
        self.model_ = fitted._fit_shared(X, self.context_)

    @property
    def _needs_fit(self) -> str:
        return "" if isinstance(self.model, Batch) else "it learns one model that all data share"

    def _learned(self) -> Any:
        return self.model_.digests()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if isinstance(self.model, Estimator):
            tags.input_tags = self.model.__sklearn_tags__().input_tags
        return tags
