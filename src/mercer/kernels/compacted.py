"""Fitted pipelines that keep what a prediction needs."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, clone, is_classifier, is_regressor
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if

from mercer._array import Indices
from mercer._config import without_caches
from mercer.kernels._data import n_objects
from mercer.kernels._estimators import (
    SVM,
    LinearInFeatures,
    check_fitted,
    found_by_search,
    is_word,
    kinds,
    linear_function,
)
from mercer.kernels._evaluation import Side
from mercer.kernels._subset import subset
from mercer.kernels._trained import TrainedWrapper
from mercer.kernels.base.compound import Compound
from mercer.kernels.base.kernel import Kernel
from mercer.kernels.kernelridge import KernelRidge
from mercer.kernels.landmarks import Landmarks

PURPOSE = "mc.compact keeps what a pipeline has learned."


def compact(pipeline: Any) -> Compacted:
    r"""Return a fitted pipeline that gives the same predictions and keeps only the training objects they need.

    Parameters
    ----------
    pipeline : fitted estimator
        A pipeline whose last two steps are a kernel, or `Landmarks`, and a support vector machine, a kernel ridge
        regression or a linear model; `KernelRidge` with a kernel; or a search over one of these, of which the best
        estimator is taken. It does not change.

    Returns
    -------
    Compacted
        Has the methods and the fitted attributes of the pipeline. ``kept_`` tells which training objects stay, and why.

    See Also
    --------
    save : Writes it to a file.
    Landmarks : Features from a few training objects, for estimators that need all of them.

    Notes
    -----
    Of an estimator that reads the kernel by weighted sums, :math:`f(x) = \sum_i a_i k(x, z_i) + b`, only the training
    objects with :math:`a_i \ne 0` matter: the support objects of ``SVC``, ``NuSVC``, ``SVR``, ``NuSVR`` and
    ``OneClassSVM``, and the non-zero coefficients of linear models. The coefficients of kernel ridge regression are
    dense, so that all training objects with a weight stay. Training matrices that are kept without need are dropped.

    Kernels that learn from the matrix of the training objects (`Centered`, `Residualized`, `LogOdds`,
    `EmpiricalKernelMap`, `Repaired`) compare every new object with all of them, and keep these; `Landmarks` has its
    landmarks. All other kernels need only the columns, also `Normalized`, `Tempered`, `Sum` and `Product`.

    Kernel values are computed by the same code as before, in matrices of another shape: predictions are equal up to
    rounding, about 1e-15 of :math:`\sum_i |a_i k(x, z_i)|` (1e-7 if the data are float32). A compact pipeline neither
    reads nor fills the caches of the process, and can be used from many threads. It cannot be fitted again. Kernel
    matrices inside of it have the columns of the kept objects.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.svm import SVC
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> pipeline = make_pipeline(mc.RBF(gamma=0.5), SVC(kernel="precomputed"))
    >>> pipeline = pipeline.fit(X, X[:, 0] > 0)
    >>> small = mc.compact(pipeline)
    >>> small
    Compacted(Pipeline)
      rbf: 52 of 200 training objects (support objects of SVC)
    >>> new = [[0.3, 0.1], [-1.0, 2.0]]
    >>> before, after = pipeline.decision_function(new), small.decision_function(new)
    >>> small.predict(new), bool(np.allclose(after, before, rtol=1e-12))
    (array([ True, False]), True)
    """
    if isinstance(pipeline, Compacted):
        return pipeline
    model = found_by_search(pipeline, PURPOSE)
    whole = "Pipeline" in kinds(model)
    steps = [(name, step) for name, step in model.steps if not is_word(step, "passthrough")] if whole else [("", model)]
    *before, (last, estimator) = steps
    for _, step in before:
        check_fitted(step, PURPOSE)
    estimator = found_by_search(estimator, PURPOSE)
    if isinstance(estimator, LinearInFeatures):
        ending, kept = [(last, copy.deepcopy(estimator))], list[Objects]()  # it needs no training objects
    elif isinstance(estimator, KernelRidge) and isinstance(estimator.kernel, Kernel):
        kernel = estimator.kernel_
        small, changes, kept = _reduced(kernel, estimator, last or type(kernel).__name__.lower())
        ending = [(last, _changed(estimator, **changes, kernel=clone(estimator.kernel), kernel_=small))]
    else:
        (name, kernel) = before.pop() if before else ("", None)
        if linear_function(estimator) is None or not isinstance(kernel, Kernel | Landmarks):
            raise TypeError(
                "mc.compact takes a fitted pipeline that ends in a kernel, or mc.Landmarks, and a support vector "
                "machine with kernel='precomputed', a kernel ridge regression or a linear model; mc.KernelRidge with a "
                f"kernel; or a search over one of these; got {_shown(model)}. Compact such a pipeline before you use "
                "it inside another estimator."
            )
        if isinstance(kernel, Landmarks):
            small, changes, kept = _landmarks(kernel, name)
        else:
            small, changes, kept = _reduced(kernel, estimator, name)
        ending = [(name, small), (last, _changed(estimator, **changes))]
    made = Compacted(_changed(model, steps=[*copy.deepcopy(before), *ending], memory=None) if whole else ending[0][1])
    made.kept_ = kept
    return made


def _shown(model: Any) -> str:
    if "Pipeline" in kinds(model):
        return f"a pipeline that ends in {' and '.join(_titled(step) for _, step in model.steps[-2:])}"
    text = type(model).__name__ if isinstance(model, BaseEstimator) else repr(model)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _titled(step: Any) -> str:
    """Name a step, and its kernel if that is a word: ``SVC(kernel='rbf')`` reads kernel values as features."""
    kernel = getattr(step, "kernel", None)
    return type(step).__name__ + (f"(kernel={kernel!r})" if isinstance(kernel, str) else "")


class Objects(NamedTuple):
    """Training objects that a compact pipeline keeps.

    Parameters
    ----------
    step : str
        Name of the step that has them.
    kept, of : int
        Number of the objects, and number of all training objects of the step.
    why : str
        What they are kept for.
    """

    step: str
    kept: int
    of: int
    why: str

    def __str__(self) -> str:
        return f"{self.step}: {self.kept} of {self.of} training objects ({self.why})"


def _reduced(kernel: Any, estimator: Any, where: str) -> tuple[Any, dict[str, Any], list[Objects]]:
    """Return a kernel with the training objects that an estimator reads, the attributes of that, and these objects."""
    kernel._check_parameters()
    n, title = n_objects(kernel.train_), type(estimator).__name__
    weights: Any = sparse.csr_array(linear_function(estimator).weights)  # type: ignore[union-attr]
    index = np.unique(weights.indices) if weights.nnz else np.arange(1)  # a matrix has columns
    why = f"{'support objects' if SVM in kinds(estimator) else 'coefficients'} of {title}"
    small = subset(kernel, index)
    kept = [Objects(where, len(index), n, why), *_references(small, where)]
    return small, _columns(estimator, index), kept


def _columns(estimator: Any, index: Indices) -> dict[str, Any]:
    """Return the attributes of an estimator that reads some columns of a matrix."""
    m, changes = len(index), dict[str, Any]()
    if SVM in kinds(estimator):
        changes |= {"support_": np.searchsorted(index, estimator.support_).astype(np.int32), "shape_fit_": (m, m)}
    elif hasattr(estimator, "coef_"):
        coef = estimator.coef_
        changes["coef_"] = coef[:, index] if sparse.issparse(coef) else np.ascontiguousarray(coef[..., index])
    else:
        changes["dual_coef_"] = estimator.dual_coef_[index]
        if hasattr(estimator, "X_fit_"):  # of the training matrix, scikit-learn uses the number of rows only
            changes["X_fit_"] = np.zeros((m, 1))
    if not isinstance(getattr(estimator, "kernel", None), Kernel):  # it reads a matrix
        if hasattr(estimator, "n_features_in_"):
            changes["n_features_in_"] = m
        if hasattr(estimator, "feature_names_in_"):
            changes["feature_names_in_"] = estimator.feature_names_in_[index]
    return changes


def _changed(step: Any, **changes: Any) -> Any:
    """Return an independent copy of a fitted step with other attributes, without predictions for training samples."""
    made = copy.copy(step)
    for name in ("loo_predictions_", "_leave_one_out"):
        vars(made).pop(name, None)
    vars(made).update(dict.fromkeys(changes))
    made = copy.deepcopy(made)
    vars(made).update(changes)
    return made


def _references(kernel: Any, where: str) -> Iterator[Objects]:
    """Yield the training objects with which parts of a kernel compare every new one."""
    if isinstance(kernel, TrainedWrapper) and kernel._has_reference:
        n = n_objects(kernel._inner.train_)
        yield Objects(where, n, n, f"{type(kernel).__name__} compares every object with all of them")
        return
    for part in kernel.kernels_ if isinstance(kernel, Compound) else ():
        yield from _references(part, where)


def _landmarks(step: Any, where: str) -> tuple[Any, dict[str, Any], list[Objects]]:
    """Return landmarks without a fitted parameter, no changes of the estimator, and the landmarks."""
    n = n_objects(step.kernel_.train_)
    kernel = subset(step.kernel_, np.arange(n))
    own = {}
    if not step.explicit_:
        landmarks = step._landmark_side.source
        own["_landmark_side"] = Side(kernel.train_ if landmarks is step.kernel_.train_ else landmarks)
    made = _changed(step, kernel=clone(step.kernel), kernel_=kernel, **own)
    why = "a kernel has one, its features need none" if step.explicit_ else f"landmarks of {type(step).__name__}"
    kept = [Objects(where, n, getattr(step, "_n_training", n), why), *_references(kernel, where)]
    return made, {}, kept


def _forwarded(name: str, what: str) -> Any:
    """Return a method that calls the pipeline, if the pipeline has it."""

    def method(self: Compacted, X: Any, *rest: Any, **params: Any) -> Any:
        no_target = name == "score" and (rest or (params.get("y"),))[0] is None
        if no_target and (is_classifier(self.estimator) or is_regressor(self.estimator)):
            raise ValueError("score requires y to be passed, but the target y is None. Pass one value per sample.")
        with without_caches():
            return getattr(self.estimator, name)(X, *rest, **params)

    method.__name__, method.__qualname__ = name, f"Compacted.{name}"
    method.__doc__ = f"""Return {what}.

        Parameters
        ----------
        X : data
            Input of the pipeline.
        *rest, **params
            Passed to the pipeline, such as ``confounds``.
        """

    return available_if(lambda self: hasattr(self.estimator, name))(method)


class Compacted(BaseEstimator):
    """A fitted pipeline that keeps what its predictions need; made by `compact`.

    It has the methods and attributes of the pipeline, such as ``predict``, ``classes_`` and ``named_steps``.

    Parameters
    ----------
    estimator : fitted estimator
        The pipeline.

    Attributes
    ----------
    kept_ : list of named tuples (step, kept, of, why)
        The training objects that it keeps: the step, their number, the number of all, and what they are kept for.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.svm import OneClassSVM
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> pipeline = make_pipeline(mc.RBF(), OneClassSVM(kernel="precomputed", nu=0.1))
    >>> small = mc.compact(pipeline.fit(X))
    >>> small.kept_[0].kept, small.kept_[0].of
    (18, 100)
    """

    kept_: list[Objects]

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: Any, y: Any = None, **params: Any) -> NoReturn:
        """Raise: the training data are gone.

        Parameters
        ----------
        X, y, **params : ignored
            Present for API consistency.
        """
        raise TypeError("A compact pipeline cannot be fitted. Fit the pipeline it was made from, and compact that.")

    predict = _forwarded("predict", "the predictions of the pipeline")
    predict_proba = _forwarded("predict_proba", "the probabilities of the classes, ``(M, C)``")
    predict_log_proba = _forwarded("predict_log_proba", "the log probabilities of the classes, ``(M, C)``")
    decision_function = _forwarded("decision_function", "the decision function of the pipeline, ``(M,)`` or ``(M, C)``")
    score_samples = _forwarded("score_samples", "the scores of single samples, ``(M,)``")
    transform = _forwarded("transform", "the output of the pipeline, if its last step is a transformer")
    score = _forwarded("score", "the score of the pipeline for ``X`` and ``y``: accuracy, or R2")

    @available_if(lambda self: hasattr(self.estimator, "set_output"))
    def set_output(self, *, transform: Any = None) -> Compacted:
        """Choose the container of what the transformers return.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"} or None, default=None
            As for any transformer of scikit-learn.
        """
        self.estimator.set_output(transform=transform)
        return self

    def __getattr__(self, name: str) -> Any:
        # Called for missing attributes only. Those of the pipeline, except for private ones.
        if not name.startswith("_") and hasattr(self.__dict__.get("estimator"), name):
            return getattr(self.estimator, name)
        raise AttributeError(f"This {type(self).__name__} has no {name}, because what it was made from has none.")

    def __getitem__(self, key: Any) -> Any:
        return self.estimator[key]

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        kept = self.__dict__.get("kept_", [])
        return "\n".join([f"Compacted({type(self.estimator).__name__})", *(f"  {objects}" for objects in kept)])

    def __sklearn_tags__(self) -> Any:
        return get_tags(self.estimator)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_clone__(self) -> Compacted:
        return self
