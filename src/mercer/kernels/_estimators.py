"""Estimators and transformers that read some columns of a matrix: which they are, and the same for these only."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from scipy import sparse

from mercer._array import Indices
from mercer.kernels._copies import Columns, fresh
from mercer.kernels._needs import Needs
from mercer.kernels.kernelridge import KernelRidge

SUPPORT = ("NuSVC", "NuSVR", "OneClassSVM", "SVC", "SVR")
LINEAR = (
    "ElasticNet", "ElasticNetCV", "HuberRegressor", "Lars", "LarsCV", "Lasso", "LassoCV", "LassoLars", "LassoLarsCV",
    "LassoLarsIC", "LinearRegression", "LinearSVC", "LinearSVR", "LogisticRegression", "LogisticRegressionCV",
    "MultiTaskElasticNet", "MultiTaskElasticNetCV", "MultiTaskLasso", "MultiTaskLassoCV", "OrthogonalMatchingPursuit",
    "OrthogonalMatchingPursuitCV", "Perceptron", "QuantileRegressor", "Ridge", "RidgeCV", "RidgeClassifier",
    "RidgeClassifierCV", "SGDClassifier", "SGDOneClassSVM", "SGDRegressor", "TheilSenRegressor",
)  # fmt: skip
"""Linear models that predict from ``coef_`` and ``intercept_`` only."""
SCALERS = ("MaxAbsScaler", "MinMaxScaler", "RobustScaler", "StandardScaler")
SELECTORS = (
    "GenericUnivariateSelect", "RFE", "RFECV", "SelectFdr", "SelectFpr", "SelectFromModel", "SelectFwe", "SelectKBest",
    "SelectPercentile", "SequentialFeatureSelector", "VarianceThreshold",
)  # fmt: skip


def needs(step: Any, out: Needs, name: str) -> Needs | None:
    """Return what a step reads of its input, if ``out`` is read of what it gives; None if it is not known."""
    if name in SUPPORT and step.kernel == "precomputed":
        columns = np.zeros(step.shape_fit_[0], dtype=bool)
        columns[step.support_] = True
        return Needs(f"support objects of {name}", columns, decisions(step))
    if name in LINEAR:
        coef = step.coef_ if sparse.issparse(step.coef_) else np.atleast_2d(step.coef_)  # sparse after sparsify()
        return Needs.of(coef, f"coefficients of {name}")
    if name == "KernelRidge" and step.kernel == "precomputed":
        return Needs.of(np.atleast_2d(step.dual_coef_.T), f"coefficients of {name}")
    if isinstance(step, KernelRidge) and isinstance(step.kernel, str):
        return ridge_needs(step)
    if name == "KernelCenterer":
        return out._replace(shifted=True) if out.ignores_constants else None
    if name in SELECTORS:
        selected = step.get_support()
        return out.scattered(np.flatnonzero(selected), len(selected))
    if name in SCALERS and out.columns is not None:
        factor = scaler_factor(step, name)
        weights = None if out.weights is None or factor is None else sparse.csr_array(out.weights * factor)
        return out._replace(weights=weights)
    return None


def ridge_needs(step: Any) -> Needs:
    """Return the needs of kernel ridge regression: its weights are zero for samples without a weight."""
    return Needs.of(np.atleast_2d(step.dual_coef_.T), f"coefficients of {type(step).__name__}")


def narrowed(step: Any, kept: Indices | None, name: str) -> tuple[Any, Indices | None] | None:
    """Return a step for the columns ``kept`` of its input, and the columns that it gives; None if it is not known."""
    n = 0 if kept is None else len(kept)
    if isinstance(step, KernelRidge):
        return narrowed_ridge(step, kept), None
    if name in SUPPORT and kept is not None:
        return fresh(
            step, kept, support_=np.searchsorted(kept, step.support_).astype(np.int32), shape_fit_=(n, n)
        ), None
    if name in LINEAR and kept is not None:
        coef = step.coef_[:, kept] if sparse.issparse(step.coef_) else np.ascontiguousarray(step.coef_[..., kept])
        return fresh(step, kept, coef_=coef), None
    if name == "KernelRidge" and step.kernel == "precomputed":
        # Of the training matrix, scikit-learn uses the number of rows only.
        dual = step.dual_coef_ if kept is None else step.dual_coef_[kept]
        return fresh(step, kept, dual_coef_=dual, X_fit_=np.zeros((len(dual), 1))), None
    if name == "KernelCenterer" and kept is not None:
        return fresh(step, kept, K_fit_rows_=step.K_fit_rows_[kept]), kept
    if name in SCALERS and kept is not None:
        learned = {key: value for key, value in vars(step).items() if key.endswith("_") and key != "feature_names_in_"}
        fields = {key: value[kept] for key, value in learned.items() if np.shape(value) == (step.n_features_in_,)}
        return fresh(step, kept, **fields), kept
    if name in SELECTORS and kept is not None:
        selected = np.flatnonzero(step.get_support())
        left = np.flatnonzero(np.isin(selected, kept))
        return Columns(np.searchsorted(kept, selected[left])), left
    return None


def narrowed_ridge(step: Any, kept: Indices | None, **changes: Any) -> Any:
    """Return kernel ridge regression for some columns, without its predictions for the training samples."""
    dual = step.dual_coef_ if kept is None else step.dual_coef_[kept]
    columns = kept if isinstance(step.kernel, str) else None
    made = fresh(step, columns, prototypes=True, dual_coef_=dual, loo_predictions_=None, **changes)
    del made.loo_predictions_
    return made


def decisions(step: Any) -> Any:
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
            for i in range(len(members))
            for j in range(i + 1, len(members))
        ]
    owner = np.repeat(np.arange(len(rows)), [len(at) for at, _ in rows])
    columns = np.concatenate([support[at] for at, _ in rows])
    return sparse.csr_array((np.concatenate([values for _, values in rows]), (owner, columns)), shape=(len(rows), n))


def scaler_factor(step: Any, name: str) -> Any:
    """Return the factors by which a scaler multiplies the columns; None if it does more than that and a shift."""
    if getattr(step, "clip", False):
        return None
    if name == "MinMaxScaler":
        return step.scale_
    return np.ones(step.n_features_in_) if step.scale_ is None else 1 / step.scale_
