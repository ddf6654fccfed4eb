"""Kernels between samples under one shared model."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, ClassVar

from sklearn.base import clone

from mercer._array import as_array
from mercer._batch import Batch
from mercer._wording import read_before
from mercer.data import Sequences
from mercer.families.estimator import Estimator
from mercer.kernels._data import has_digests
from mercer.kernels.base.kernel import Kernel


class SharedModelKernel(Kernel):
    """A kernel between samples under one model: an estimator, fitted to the training data, or a batch of shape (1,)."""

    model: Any
    model_: Any
    _needed: ClassVar[str] = "one model for all data, such as mc.Gaussian(), or a fitted batch of shape (1,)"
    """The models that the kernel accepts, for messages."""

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if isinstance(self.model, Batch):
            self._check_batch(self.model)
        elif not isinstance(self.model, Estimator):
            name = type(self).__name__
            raise TypeError(f"model must be an estimator or a batch; got {self.model!r}. {name} needs {self._needed}.")
        else:
            self.model._check_parameters()

    def _check_batch(self, model: Any) -> None:
        """Raise where a fitted model is not one that the kernel takes."""
        model._require_one()

    def _check_several(self, model: Any, least: int) -> None:
        """Raise unless a batch holds ``least`` models or more along one axis."""
        if model.ndim != 1 or len(model) < least:
            several = f"{type(model).__name__}.concat([...]) of one model per class"
            cure = several if least > 1 and model.ndim == 1 else "p[3:4] or p.reshape(-1)"
            raise ValueError(
                f"model must be a batch of shape (C,) with C >= {least}; got shape {model.shape}. Use {cure}."
            )

    def _accept(self, X: Any, *, reset: bool) -> Any:
        if isinstance(X, Batch):
            raise TypeError(
                f"{type(self).__name__} compares data under one model, not models. Pass the data themselves."
            )
        if hasattr(self.model, "read"):
            return self.model.read(X)
        context = None if reset else getattr(self, "context_", None)
        with read_before(isinstance(self.model, Batch)):
            X = self._reader().accept(X, owner=self, reset=reset, context=context)
        found = X.dimension if isinstance(X, Sequences) else X.shape[1]
        expected = getattr(self.model, "dimension", None) if isinstance(self.model, Batch) else None
        if expected is not None and found is not None and found != expected:
            raise ValueError(
                f"The data have {found} coordinates, but the model of {type(self).__name__} has {expected}. "
                "Pass data with as many coordinates, or a model that was fitted to such data."
            )
        return X

    def _accepts_empty(self) -> bool:
        return bool(getattr(self.model, "accepts_empty", False))

    def _reader(self) -> Estimator:
        """Return the estimator that reads data for the model."""
        return self.model if isinstance(self.model, Estimator) else self.model.estimator()

    def _learn(self, X: Any, y: Any = None) -> None:
        self.__dict__.pop("context_", None)
        if isinstance(self.model, Batch):
            self.model_ = self.model
            return
        fitted = clone(self.model)
        fitted._check_parameters()
        self.context_ = context = fitted.shared_context_of_one(X)
        target = (as_array(y, "y", "one class per sample"),) if fitted.uses_classes and y is not None else ()
        target_key = tuple((str(values.dtype), str(values.tolist())) for values in target)
        self.model_ = fitted._once(
            "fit", fitted, X, lambda: fitted._fit_shared(X, context, *target), context, target_key
        )

    @property
    def _needs_fit(self) -> str:
        if isinstance(self.model, Batch):
            return ""
        before = " (pass model.model_ to use the model that was fitted before)" if hasattr(self.model, "model_") else ""
        return f"it learns one model for all data{before}"

    def _learned(self) -> Any:
        return self.model_.digests()

    def _setting(self) -> Hashable | None:
        return (
            super()._setting() if has_digests(self.model_) else None
        )  # values of other array libraries are not kept in the memo

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if isinstance(self.model, Estimator):
            tags.input_tags = self.model.__sklearn_tags__().input_tags
        return tags
