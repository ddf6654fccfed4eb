"""Fitted pipelines that keep what a prediction needs."""

from __future__ import annotations

from typing import Any, NoReturn

from sklearn.base import BaseEstimator
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if

from mercer._array import Floats
from mercer._config import without_caches
from mercer.kernels._narrowing import Narrowing
from mercer.kernels._needs import OUTPUT, Objects


def compact(pipeline: Any) -> Compacted:
    r"""Return a fitted pipeline that gives the same predictions and keeps only the training objects they need.

    Parameters
    ----------
    pipeline : fitted estimator
        A pipeline with a kernel, `KernelRidge` with one, or an estimator around such pipelines: a search (of which the
        best estimator is taken), ``CalibratedClassifierCV``, ``OneVsRestClassifier``, ``StackingClassifier``, ... It
        does not change.

    Returns
    -------
    Compacted
        Has the methods and the fitted attributes of the pipeline. ``kept_`` tells which training objects stay, and why.

    See Also
    --------
    save : Writes it to a file.
    Landmarks : Features from a few training objects, for machines that need all of them.

    Notes
    -----
    Of a machine that reads the kernel by weighted sums, :math:`f(x) = \sum_i a_i k(x, z_i) + b`, only the training
    objects with :math:`a_i \ne 0` matter: the support objects of ``SVC``, ``NuSVC``, ``SVR``, ``NuSVR`` and
    ``OneClassSVM``, and the non-zero coefficients of linear models. The coefficients of kernel ridge regression
    and of Gaussian processes are dense, and nearest neighbors read every column: they keep all training objects, and so
    does a step that is not known here. Training matrices that scikit-learn keeps without need are dropped.

    **Centered kernels.** `Centered` compares every object with the whole training set:
    :math:`\tilde k(x, z) = k(x, z) - \bar k(x) - \bar k(z) + \bar{\bar k}` with
    :math:`\bar k(x) = \frac1n \sum_j k(x, z_j)`. Hence

    .. math:: f(x) = \sum_i a_i \tilde k(x, z_i) + b
        = \sum_i a_i \big(k(x, z_i) - \bar k(z_i) + \bar{\bar k}\big) + b - \bar k(x) \sum_i a_i .

    The last term is the only one that needs other training objects for a new x, and it is zero if the coefficients sum
    to zero. They do for ``SVC``, ``NuSVC``, ``SVR`` and ``NuSVR``, in every decision between two classes: with
    :math:`a_i = y_i \alpha_i` or :math:`\alpha_i - \alpha_i^*`, the Lagrangian has the term :math:`b \sum_i a_i` and no
    other with the intercept b, so that it has a stationary point only if :math:`\sum_i a_i = 0`. In `KernelRidge` with
    an intercept, :math:`a = D P v` for a vector v, the diagonal matrix D of the roots of the sample weights, and a
    projection P orthogonal to :math:`D 1`, so that :math:`1^\top a = (P D 1)^\top v = 0`. They do not for
    ``OneClassSVM``, whose coefficients sum to :math:`\nu n`. The sums are checked: one that is not zero up to rounding
    keeps the training set. For `Residualized`, the term is :math:`u(x)\sum_i a_i q(z_i)^\top`, with q the coordinates
    of the confounds, and vanishes after `KernelRidge` with the same confounds.

    A centered kernel that is normalized after centering, `EmpiricalKernelMap` and `Repaired` need all training objects
    for a new one; `Landmarks` its landmarks. `Normalized`, `Tempered`, `Sum` and `Product` need only the columns.

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
    >>> pipeline = make_pipeline(mc.Centered(mc.RBF(gamma=0.5)), SVC(kernel="precomputed")).fit(X, X[:, 0] > 0)
    >>> small = mc.compact(pipeline)
    >>> small
    Compacted(Pipeline)
      centered: 52 of 200 training objects (support objects of SVC)
    >>> new = [[0.3, 0.1], [-1.0, 2.0]]
    >>> small.predict(new), bool(np.allclose(small.decision_function(new), pipeline.decision_function(new), rtol=1e-12))
    (array([ True, False]), True)
    """
    if isinstance(pipeline, Compacted):
        return pipeline
    if isinstance(pipeline, type) or not hasattr(pipeline, "fit"):
        raise TypeError(
            f"pipeline must be a fitted pipeline; got {_short(pipeline)}. Use mc.compact(make_pipeline(kernel, "
            "SVC(kernel='precomputed')).fit(X, y)), for example."
        )
    narrowing = Narrowing()
    narrowing.needs(pipeline, OUTPUT)  # raises if a step is not fitted
    estimator, _ = narrowing.narrowed(pipeline, None, OUTPUT, "")
    if not narrowing.kept:
        raise ValueError(
            f"This {type(pipeline).__name__} has no kernel of mercer, so there is nothing to compact. Use it as it is."
        )
    made = Compacted(estimator)
    made.kept_ = narrowing.kept
    return made


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _has(name: str) -> Any:
    return available_if(lambda self: hasattr(self.estimator, name))


class Compacted(BaseEstimator):
    """A fitted pipeline that keeps what its predictions need; made by `compact`.

    It has the attributes of the pipeline, such as ``classes_`` and ``named_steps``.

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
    >>> small = mc.compact(make_pipeline(mc.RBF(), OneClassSVM(kernel="precomputed", nu=0.1)).fit(X))
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

    @_has("predict")
    def predict(self, X: Any, **params: Any) -> Any:
        """Return the predictions of the pipeline.

        Parameters
        ----------
        X : data
            Input of the pipeline.
        **params
            Passed to the pipeline, such as ``confounds``.
        """
        with without_caches():
            return self.estimator.predict(X, **params)

    @_has("predict_proba")
    def predict_proba(self, X: Any, **params: Any) -> Floats:
        """Return the probabilities of the classes, ``(M, C)``.

        Parameters
        ----------
        X : data
            Input of the pipeline.
        **params
            Passed to the pipeline.
        """
        with without_caches():
            found: Floats = self.estimator.predict_proba(X, **params)
        return found

    @_has("predict_log_proba")
    def predict_log_proba(self, X: Any, **params: Any) -> Floats:
        """Return the log probabilities of the classes, ``(M, C)``.

        Parameters
        ----------
        X : data
            Input of the pipeline.
        **params
            Passed to the pipeline.
        """
        with without_caches():
            found: Floats = self.estimator.predict_log_proba(X, **params)
        return found

    @_has("decision_function")
    def decision_function(self, X: Any, **params: Any) -> Floats:
        """Return the decision function of the pipeline, ``(M,)`` or ``(M, C)``.

        Parameters
        ----------
        X : data
            Input of the pipeline.
        **params
            Passed to the pipeline.
        """
        with without_caches():
            found: Floats = self.estimator.decision_function(X, **params)
        return found

    @_has("score_samples")
    def score_samples(self, X: Any, **params: Any) -> Floats:
        """Return the scores of single samples, ``(M,)``.

        Parameters
        ----------
        X : data
            Input of the pipeline.
        **params
            Passed to the pipeline.
        """
        with without_caches():
            found: Floats = self.estimator.score_samples(X, **params)
        return found

    @_has("transform")
    def transform(self, X: Any, **params: Any) -> Any:
        """Return the output of the pipeline, if its last step is a transformer.

        Parameters
        ----------
        X : data
            Input of the pipeline.
        **params
            Passed to the pipeline.
        """
        with without_caches():
            return self.estimator.transform(X, **params)

    @_has("score")
    def score(self, X: Any, y: Any = None, **params: Any) -> float:
        """Return the score of the pipeline: accuracy, or R2.

        Parameters
        ----------
        X : data
            Input of the pipeline.
        y : array of shape (M,), default=None
            Classes or numbers.
        **params
            Passed to the pipeline, such as ``sample_weight``.
        """
        with without_caches():
            return float(self.estimator.score(X, y, **params))

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
