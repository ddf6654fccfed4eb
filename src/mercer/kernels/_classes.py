"""Classes of the target: their labels, their members, and a model and a prior probability for each."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from mercer._array import Floats, as_array
from mercer._parameters import Rule
from mercer.data.csr import CSRRows
from mercer.families.estimator import Context
from mercer.kernels._data import n_objects
from mercer.models.scores import has_scores


def classes_of(X: Any, y: Any, who: str) -> tuple[Floats, list[Floats]]:
    """Return the classes, and the indices of the samples of each class."""
    if y is None:
        raise ValueError(f"{who} requires y to be passed, but the target y is None. Call fit(X, y) with the classes.")
    check_target(as_array(y, "y", "one class per sample"), n_objects(X))
    y = column_or_1d(y, warn=True)
    check_classification_targets(y)
    classes, member = np.unique(y, return_inverse=True)
    return classes, [np.flatnonzero(member == c) for c in range(len(classes))]


def check_target(y: Floats, n: int) -> None:
    """Raise if a target contains values that are neither classes nor numbers, or not one for each of ``n`` samples."""
    if y.ndim == 0 or len(y) != n:
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: {n} samples, and y of shape {y.shape}. Pass "
            "one class or number per sample."
        )
    if y.dtype.kind in "cmM":
        raise ValueError(f"y has dtype {y.dtype}. Pass classes, such as strings or whole numbers, or real numbers.")
    missing = [i for i, value in enumerate(y.ravel().tolist()) if value is None] if y.dtype == object else []
    if missing:
        raise ValueError(
            f"y[{missing[0]}] is None. Pass a class or a number for every object, or leave the object out."
        )


def shared_alphabet(X: Any) -> Context | None:
    """Return a context with the alphabet of all data, so that the models of all classes share it."""
    alphabet = getattr(X, "alphabet", None)
    return None if alphabet is None else Context(len(alphabet), alphabet)


def learn_models(kernel: Any, X: Any, members: list[Floats]) -> None:
    """Fit the model of a kernel to each of its ``classes_``, as the model's own ``fit`` does."""
    kernel.model._check_parameters()
    kernel.__dict__.pop("context_", None)
    context = shared_alphabet(X)
    if context is not None:
        kernel.context_ = context
    model = kernel.model.for_classes(X) if hasattr(kernel.model, "for_classes") else kernel.model
    models = []
    for label, places in zip(kernel.classes_.tolist(), members, strict=True):
        try:
            models.append(_fitted(clone(model), X[places], context))
        except ValueError as error:
            raise ValueError(f"class {label!r}: {error}") from None
    kernel.model_ = type(models[0]).concat(models)


def _fitted(model: Any, X: Any, context: Context | None) -> Any:
    """Fit the model to the samples of one class; a parameter search finds it in the cache of fits."""
    return model._once("class", model, X, lambda: model.fit(plain(X)).model_, context)


def plain(X: Any) -> Any:
    """Return accepted data in the form that the model's own ``fit`` accepts."""
    return X.to_scipy() if isinstance(X, CSRRows) else X


def check_scores(models: Any, who: str) -> None:
    """Raise where models have no Fisher scores."""
    if not has_scores(models):
        raise TypeError(
            f"{who} needs `fisher_scores`, which {type(models).__name__} does not have. Use a family such as Gaussians "
            "or Multinomials."
        )


PRIORS = Rule(
    "'empirical', 'uniform' or an array of one probability per class",
    lambda value: not isinstance(value, str) or value in ("empirical", "uniform"),
)
"""Rule of the parameter ``priors``; `class_priors` checks the array."""


def class_priors(priors: Any, counts: Floats) -> Floats:
    """Return class probabilities: proportional to ``counts``, uniform, or as given."""
    if priors is None or isinstance(priors, str):
        counts = np.ones(len(counts)) if priors == "uniform" else counts
        return np.asarray(counts / counts.sum())
    try:
        found = np.array(priors, dtype=float)  # a copy: the caller may change the array
    except (TypeError, ValueError):
        raise ValueError(
            f"priors must be a list of {len(counts)} probabilities, in the order of classes_, 'empirical' or "
            f"'uniform'; got {priors!r}."
        ) from None
    if found.shape != counts.shape or not np.all(found >= 0) or not abs(found.sum() - 1) < 1e-6:
        raise ValueError(f"priors must be {len(counts)} probabilities that sum to one; got {priors!r}.")
    return found
