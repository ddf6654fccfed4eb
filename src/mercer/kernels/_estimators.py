"""Kinds of fitted scikit-learn estimators, by their base classes, and the linear functions that they compute."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from mercer._array import Floats
from mercer.kernels.base.kernel import Kernel
from mercer.kernels.kernelridge import KernelRidge

SVM = "BaseLibSVM"
SEARCH = "BaseSearchCV"
LINEAR = {"BaseSGD", "LinearClassifierMixin", "LinearModel"}
"""Bases of the linear models; generalized ones, which predict a function of the sum, have others."""
SCALERS = {"MaxAbsScaler", "MinMaxScaler", "RobustScaler", "StandardScaler"}
AFFINE = {"KernelCenterer", "PCA", "SelectorMixin", "TruncatedSVD"} | SCALERS
"""Transformers of columns that are affine, except for scalers that clip."""


def kinds(step: Any) -> set[str]:
    """Return the names of a class of scikit-learn and of its bases; none for a subclass, which may differ from it."""
    kind = type(step)
    return {base.__name__ for base in kind.__mro__} if kind.__module__.startswith("sklearn.") else set()


def is_word(step: Any, word: str) -> bool:
    """Whether a step is the word "passthrough" or "drop" in place of an estimator."""
    return (step is None and word == "passthrough") or (isinstance(step, str) and step == word)


def check_fitted(step: Any, purpose: str) -> None:
    """Raise if a step of a pipeline is not fitted."""
    if not hasattr(step, "fit") or isinstance(step, type):
        return
    try:
        check_is_fitted(step, "train_" if isinstance(step, Kernel) else None)
    except NotFittedError:
        name = type(step).__name__
        raise NotFittedError(f"This {name} is not fitted. Call fit(X, y) first: {purpose}") from None


def found_by_search(step: Any, purpose: str) -> Any:
    """Return the best estimator of a search; any other step as it is."""
    check_fitted(step, purpose)
    while SEARCH in kinds(step):
        if not hasattr(step, "best_estimator_"):
            raise NotFittedError(
                f"This {type(step).__name__} has no best_estimator_. Call fit(X, y) first, with refit=True."
            )
        step = step.best_estimator_
        check_fitted(step, purpose)
    return step


class LinearInFeatures:
    """An estimator whose decisions are ``kernel_.features(X) @ coef_.T + intercept_``."""

    kernel_: Kernel
    coef_: Floats
    intercept_: Floats


class LinearFunction(NamedTuple):
    """Linear functions of a row: weights ``(R, N)``, an array or a sparse array, and constants ``(R,)``."""

    weights: Any
    bias: Floats


def linear_function(step: Any) -> LinearFunction | None:
    """Return the linear functions through which a fitted estimator reads a row; None if it reads it otherwise."""
    names = kinds(step)
    if SVM in names and step.kernel == "precomputed":
        return LinearFunction(_decisions(step), np.array(step.intercept_, dtype=np.float64))
    if isinstance(step, LinearInFeatures) or (names & LINEAR and not hasattr(step, "sigma_")):
        # a covariance of coefficients reads the row as well
        weights = step.coef_ if sparse.issparse(step.coef_) else np.atleast_2d(step.coef_)  # sparse after sparsify()
        bias = -step.offset_ if hasattr(step, "offset_") else step.intercept_
    elif isinstance(step, KernelRidge) or ("KernelRidge" in names and step.kernel == "precomputed"):
        weights, bias = np.atleast_2d(step.dual_coef_.T), getattr(step, "intercept_", 0.0)
    else:
        return None
    bias = np.atleast_1d(np.asarray(bias, dtype=np.float64))
    return LinearFunction(weights, np.broadcast_to(bias, weights.shape[:1]).copy())


def _decisions(step: Any) -> Any:
    """Return the weights of all training samples in every decision of a support vector machine, ``(R, N)``.

    A decision of several classes is between two of them: class i has its weights against class j in row j - 1 of
    ``dual_coef_`` for j > i, and in row j for j < i (libsvm).
    """
    dual, support, n = step.dual_coef_, step.support_, step.shape_fit_[0]
    if len(dual) == 1:
        rows = [(np.arange(len(support)), dual[0])]
    else:
        ends = np.cumsum([0, *step.n_support_])
        members = [np.arange(a, b) for a, b in itertools.pairwise(ends)]
        rows = [
            (np.concatenate([members[i], members[j]]), np.concatenate([dual[j - 1, members[i]], dual[i, members[j]]]))
            for i, j in itertools.combinations(range(len(members)), 2)
        ]
    owner = np.repeat(np.arange(len(rows)), [len(at) for at, _ in rows])
    columns = np.concatenate([support[at] for at, _ in rows])
    return sparse.csr_array((np.concatenate([values for _, values in rows]), (owner, columns)), shape=(len(rows), n))
