"""Fitted pipelines that keep what a prediction needs."""

from __future__ import annotations

import copy
from operator import is_
from typing import Any, NoReturn

from sklearn.base import BaseEstimator, is_classifier, is_regressor
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if

from mercer._config import without_caches
from mercer.kernels._direct import DIRECT, Direct
from mercer.kernels._narrowing import Narrowing
from mercer.kernels._needs import OUTPUT, Objects
from mercer.kernels._trained import TrainedWrapper
from mercer.kernels.base.kernel import Kernel


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
    Landmarks : Features from a few training objects, for estimators that need all of them.

    Notes
    -----
    Of an estimator that reads the kernel by weighted sums, :math:`f(x) = \sum_i a_i k(x, z_i) + b`, only the training
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

    **Cancellation.** If the mean is so large that most digits cancel, as with `Linear` without normalization and data
    far from the origin, rounding errors of the kernel are visible in predictions, and even its last bits matter. All
    training objects and columns stay if :math:`\sum_i |a_i k(x, z_i)|` is more than 1,000 times
    :math:`|\sum_i a_i \tilde k(x, z_i)|` and 10 times :math:`\sum_i |a_i \tilde k(x, z_i)|`, each the largest for up to
    50 training objects; ``kept_`` says so. The same holds for ``KernelCenterer``. Center the data instead.

    A centered kernel that is normalized after centering, `EmpiricalKernelMap` and `Repaired` need all training objects
    for a new one; `Landmarks` its landmarks. `Normalized`, `Tempered`, `Sum` and `Product` need only the columns.

    **Latency.** If the last two steps are a kernel and a support vector machine, ``predict`` and the decision function
    of two classes do not go through scikit-learn's pipeline, whose checks of every step take longer than most kernels
    of one sample: the kernel checks the input as ever, and its values are summed here. `Spectrum` without mismatches
    adds up one weight per window, :math:`w = \sum_i a_i \phi(z_i) / |\phi(z_i)|`, if there are at most a million of
    them, so that a prediction takes time in proportion to the length of the string.

    Kernel values are computed by the same code as before, in matrices of another shape: predictions are equal up to
    rounding, about 1e-15 of :math:`\sum_i |a_i k(x, z_i)|` (1e-7 if the data are float32). A compact pipeline neither
    reads nor fills the caches of the process, and can be used from many threads. It cannot be fitted again. Kernel
    matrices inside of it have the columns of the kept objects. A centered kernel without the training mean serves its
    estimator only: taken out of the pipeline, as ``small[0]`` or ``small[:-1]``, it raises.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.svm import SVC
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> pipeline = make_pipeline(mc.Centered(mc.RBF(gamma=0.5)), SVC(kernel="precomputed"))
    >>> pipeline = pipeline.fit(X, X[:, 0] > 0)
    >>> small = mc.compact(pipeline)
    >>> small
    Compacted(Pipeline)
      centered: 52 of 200 training objects (support objects of SVC)
    >>> new = [[0.3, 0.1], [-1.0, 2.0]]
    >>> before, after = pipeline.decision_function(new), small.decision_function(new)
    >>> small.predict(new), bool(np.allclose(after, before, rtol=1e-12))
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


def _forwarded(name: str, what: str) -> Any:
    """Return a method that calls the pipeline, if the pipeline has it."""

    def method(self: Compacted, X: Any, *rest: Any, **params: Any) -> Any:
        no_target = name == "score" and (rest or (params.get("y"),))[0] is None
        if no_target and (is_classifier(self.estimator) or is_regressor(self.estimator)):
            raise ValueError("score requires y to be passed, but the target y is None. Pass one value per sample.")
        with without_caches():
            shortcut = None if rest or params else self._shortcut(name)
            return getattr(self.estimator if shortcut is None else shortcut, name)(X, *rest, **params)

    method.__name__, method.__qualname__ = name, f"Compacted.{name}"
    method.__doc__ = f"""Return {what}.

        Parameters
        ----------
        X : data
            Input of the pipeline.
        *rest, **params
            Passed to the pipeline, such as ``confounds``.
        """

    def has_it(self: Compacted) -> bool:
        direct = self._direct
        return (direct is not None and name in direct.methods) or hasattr(self.estimator, name)

    return available_if(has_it)(method)


def _apart(value: Any) -> Any:
    """Return what is taken out of a compact pipeline: kernels refuse to give rows that only its estimator can read.

    Whatever predicts has the estimator inside, and stays as it is.
    """
    if isinstance(value, Kernel):
        return _alone(value)
    if type(value) in (list, tuple):
        return type(value)(map(_apart, value))
    if isinstance(value, dict):
        value = copy.copy(value)
        value.update({key: _apart(part) for key, part in value.items()})
    elif hasattr(value, "transform") and not hasattr(value, "predict") and hasattr(value, "get_params"):
        value = copy.copy(value)
        vars(value).update({key: _apart(part) for key, part in vars(value).items()})
    return value


def _alone(kernel: Kernel) -> Kernel:
    """Return a kernel whose parts refuse to give rows that lack what only an estimator does not need."""
    parts = getattr(kernel, "kernels_", ())
    alone = tuple(map(_alone, parts))
    without = isinstance(kernel, TrainedWrapper) and kernel._known is not None
    if not without and all(map(is_, alone, parts)):
        return kernel
    made: Any = kernel._copy()
    made.kernels_ = alone
    if without:
        made._alone = True
    return made


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

    _direct: Direct | None = None
    """What answers without the pipeline, made at the first call; None if there is no such way."""

    def _shortcut(self, name: str) -> Direct | None:
        """Return what answers a call of this method without the pipeline; None if there is no such way."""
        if name not in DIRECT:
            return None
        direct = self._direct  # another thread may set it
        if direct is None or not direct.holds():
            direct = self._direct = Direct.of(self.estimator)
        return direct if direct is not None and name in direct.methods else None

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state.pop("_direct", None)  # can be made again
        return state

    def __getattr__(self, name: str) -> Any:
        # Called for missing attributes only. Those of the pipeline, except for private ones.
        if not name.startswith("_") and hasattr(self.__dict__.get("estimator"), name):
            return _apart(getattr(self.estimator, name))
        raise AttributeError(f"This {type(self).__name__} has no {name}, because what it was made from has none.")

    def __getitem__(self, key: Any) -> Any:
        return _apart(self.estimator[key])

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        kept = self.__dict__.get("kept_", [])
        return "\n".join([f"Compacted({type(self.estimator).__name__})", *(f"  {objects}" for objects in kept)])

    def __sklearn_tags__(self) -> Any:
        return get_tags(self.estimator)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_clone__(self) -> Compacted:
        return self
