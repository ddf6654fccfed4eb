"""Ready estimators for time series: the ensemble of kernels, a support vector machine or ridge regression."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from mercer import _config
from mercer._array import Floats
from mercer._parameters import NONE, CheckedParameters, Rules, one_of, positive, seed, whole
from mercer._random import seed_of
from mercer.data import Sequences
from mercer.data.segments import in_numbers
from mercer.kernels._classes import check_target
from mercer.kernels._data import copy_columns, unwrapped
from mercer.kernels._explain import explain
from mercer.kernels.fisherensemble import FisherEnsemble
from mercer.kernels.kernelridge import KernelRidge

FOLDS = 5
"""Folds of the training series that C and the probabilities of classes are chosen with."""
COSTS = (10.0, 1.0)
"""Values of C; the second is for noisy labels."""
PRESETS: dict[str, dict[str, Any]] = {
    "best": {},
    "fast": {"n_states": (), "clock": None, "windows": ("shape", "level"), "n_components": 16},
}
"""Parameters of `FisherEnsemble`."""


class _SeriesEstimator(CheckedParameters, BaseEstimator):
    """An estimator after `FisherEnsemble`, in a pipeline of its own."""

    _parameters: ClassVar[Rules] = {
        "preset": one_of(*PRESETS, cure="'fast' has few windows and no hidden Markov models."),
        "n_jobs": whole(-1) | NONE,
        "random_state": seed(),
    }

    preset: str
    n_jobs: int | None
    random_state: Any

    @property
    def kernel(self) -> FisherEnsemble:
        """A new kernel of the preset, not fitted."""
        self._check_parameters()
        return FisherEnsemble(**PRESETS[self.preset], random_state=seed_of(self.random_state))

    def _gram(self, X: Sequences) -> tuple[FisherEnsemble, Floats]:
        """Return the kernel, which no label has touched, and the matrix of the training series."""
        kernel = self.kernel
        with self._threads():
            gram: Any = kernel.fit_transform(X)
        copy_columns(self, kernel)
        return kernel, gram

    def _checked(self, X: Any, y: Any) -> tuple[Sequences, Any]:
        """Check the parameters, and return the series and y."""
        self._check_parameters()
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        y, X = column_or_1d(y, warn=True), _read(X).require_some()
        check_target(y, len(X))
        return X, y

    def _threads(self) -> Any:
        return nullcontext() if self.n_jobs is None else _config.config(n_jobs=self.n_jobs)

    def _rows(self, X: Any) -> Floats:
        """Return the kernel of new series with the training series."""
        check_is_fitted(self, "pipeline_")
        with self._threads():
            rows: Floats = self.pipeline_[0].transform(_read(X))
        return rows

    def explain(self, X: Any, **parameters: Any) -> Any:
        """Explain predictions by the time steps of the series; see `mercer.explain`.

        Parameters
        ----------
        X : Sequences or array-like
            Series.
        **parameters
            Further parameters of `mercer.explain`.
        """
        check_is_fitted(self, "pipeline_")
        return explain(self.pipeline_, X, **parameters)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = FisherEnsemble().__sklearn_tags__().input_tags
        return tags


@dataclass(eq=False, repr=False)
class SeriesClassifier(ClassifierMixin, _SeriesEstimator):
    r"""Classify time series: `FisherEnsemble`, a support vector machine and calibrated probabilities.

    Series may have any length, gaps (NaN), and one or many channels. Nothing needs to be scaled or tuned.

    Parameters
    ----------
    preset : {"best", "fast"}, default="best"
        Parts of the kernel: all of `FisherEnsemble`, or a few windows without hidden Markov models.
    C : float or None, default=None
        Regularization of the support vector machine. None is 10; or 1, as for noisy labels, if that predicts left-out
        series better by more than a standard error.
    n_jobs : int or None, default=None
        Number of threads; None is the setting of ``mc.set_config``.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the fits and of the folds.

    Attributes
    ----------
    classes_ : ndarray of shape (k,)
        The classes.
    pipeline_ : Pipeline
        The fitted kernel and the support vector machine, for `mercer.explain` and `mercer.compact`.
    C_ : float
        The regularization that was used.
    inner_score_ : float
        Accuracy on left-out fifths of the training series, with C chosen by the others; NaN if a class has one series
        only.
    temperature_ : float
        What decision values are divided by before they become probabilities.
    n_features_in_ : int
        Number of channels.
    feature_names_in_ : array of str
        Names of the training data's channels, if they have names.

    Notes
    -----
    The kernel learns from the series alone, not from their classes. So folds of one matrix are as good as fits of their
    own: their decision values d on left-out series give C, ``inner_score_`` and the temperature of
    :math:`p_c = e^{d_c/t} / \sum_k e^{d_k/t}` with the smallest log loss.

    See Also
    --------
    FisherEnsemble : The kernel.
    SeriesRegressor : Predict numbers.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(40) % 2
    >>> # chirps of different lengths
    >>> X = [np.sin(np.linspace(0, 3 + c, rng.integers(30, 60)) ** 2) for c in y]
    >>> X = [x + 0.2 * rng.normal(size=len(x)) for x in X]
    >>> classifier = mc.SeriesClassifier("fast").fit(X[:20], y[:20])
    >>> bool(classifier.score(X[20:], y[20:]) >= 0.85)
    True
    >>> classifier.predict_proba(X[20:]).shape
    (20, 2)
    """

    _parameters: ClassVar[Rules] = {**_SeriesEstimator._parameters, "C": positive() | NONE}

    preset: str = "best"
    C: float | None = None
    n_jobs: int | None = None
    random_state: Any = 0

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the kernel, the support vector machine and the calibration.

        Parameters
        ----------
        X : Sequences or array-like
            Series, in any form that `Sequences` accepts.
        y : array of shape (N,)
            Their classes.
        """
        X, y = self._checked(X, y)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y must have two classes or more; got {len(self.classes_)} class.")
        kernel, gram = self._gram(X)
        self._calibrate(gram, codes)
        self.pipeline_ = Pipeline([("kernel", kernel), ("svc", _svm(self.C_).fit(gram, y))])
        return self

    def _calibrate(self, gram: Floats, codes: Any) -> None:
        """Choose C and the temperature by decision values of left-out series."""
        costs = COSTS if self.C is None else (float(self.C),)
        self.C_, self.inner_score_, self.temperature_ = costs[0], np.nan, 1.0
        folds = min(FOLDS, int(np.bincount(codes).min()))
        if folds < 2:
            return
        decisions = np.zeros((len(costs), len(codes), len(self.classes_)))
        split = StratifiedKFold(folds, shuffle=True, random_state=seed_of(self.random_state) % 2**32)
        parts = list(split.split(gram, codes))
        for train, test in parts:
            for own, cost in zip(decisions, costs, strict=True):
                svm = _svm(cost).fit(gram[np.ix_(train, train)], codes[train])
                own[test] = _by_class(svm.decision_function(gram[np.ix_(test, train)]))
        right = decisions.argmax(axis=2) == codes
        self.inner_score_ = float(np.concatenate([right[_better(right[:, a]), b] for a, b in parts]).mean())
        chosen = _better(right)
        self.C_, left_out = costs[chosen], decisions[chosen]

        # One more series, of all classes equally: without it, classes that are apart would have probabilities of 1.
        target = (len(codes) * np.eye(len(self.classes_))[codes] + 1 / len(self.classes_)) / (len(codes) + 1)

        def loss(log_temperature: float) -> float:
            scaled = left_out / np.exp(log_temperature)
            return float(np.mean(logsumexp(scaled, axis=1) - (target * scaled).sum(axis=1)))

        self.temperature_ = float(np.exp(minimize_scalar(loss, bounds=(-4.0, 4.0), method="bounded").x))

    def decision_function(self, X: Any) -> Floats:
        """Return the decision values of new series, ``(M,)`` for two classes, else ``(M, k)``.

        Parameters
        ----------
        X : Sequences or array-like
            Series.
        """
        rows = self._rows(X)
        return np.asarray(self.pipeline_[1].decision_function(rows))

    def predict(self, X: Any) -> Any:
        """Return the most probable class of every series, ``(M,)``.

        Parameters
        ----------
        X : Sequences or array-like
            Series.
        """
        best = _by_class(self.decision_function(X)).argmax(axis=1)
        return self.classes_[best]

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of every class, ``(M, k)``, in the order of ``classes_``.

        Parameters
        ----------
        X : Sequences or array-like
            Series.
        """
        return np.asarray(softmax(_by_class(self.decision_function(X)) / self.temperature_, axis=1))


@dataclass(eq=False, repr=False)
class SeriesRegressor(RegressorMixin, _SeriesEstimator):
    """Predict numbers from time series: `FisherEnsemble` and kernel ridge regression.

    Series may have any length, gaps (NaN), and one or many channels. Nothing needs to be scaled or tuned: the
    regularization is chosen by leave-one-out.

    Parameters
    ----------
    preset : {"best", "fast"}, default="best"
        Parts of the kernel: all of `FisherEnsemble`, or a few windows without hidden Markov models.
    n_jobs : int or None, default=None
        Number of threads; None is the setting of ``mc.set_config``.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the fits.

    Attributes
    ----------
    pipeline_ : Pipeline
        The fitted kernel and `KernelRidge`, for `mercer.explain` and `mercer.compact`.
    inner_score_ : float
        R2 of the leave-one-out predictions of the training series.
    n_features_in_ : int
        Number of channels.
    feature_names_in_ : array of str
        Names of the training data's channels, if they have names.

    See Also
    --------
    SeriesClassifier : Predict classes.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> rng = np.random.default_rng(0)
    >>> speed = rng.uniform(0.2, 1.0, size=40)
    >>> X = [np.sin(s * np.arange(50)) + 0.1 * rng.normal(size=50) for s in speed]
    >>> regressor = mc.SeriesRegressor("fast").fit(X[:30], speed[:30])
    >>> bool(regressor.score(X[30:], speed[30:]) > 0.8)
    True
    """

    preset: str = "best"
    n_jobs: int | None = None
    random_state: Any = 0

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the kernel and the regression.

        Parameters
        ----------
        X : Sequences or array-like
            Series, in any form that `Sequences` accepts.
        y : array of shape (N,)
            Their numbers.
        """
        X, y = self._checked(X, y)
        kernel, gram = self._gram(X)
        ridge = KernelRidge().fit(gram, y)
        self.inner_score_ = float(ridge.loo_score_)
        self.pipeline_ = Pipeline([("kernel", kernel), ("ridge", ridge)])
        return self

    def predict(self, X: Any) -> Floats:
        """Return the predicted number of every series, ``(M,)``.

        Parameters
        ----------
        X : Sequences or array-like
            Series.
        """
        rows = self._rows(X)
        return np.asarray(self.pipeline_[1].predict(rows))


def _read(X: Any) -> Sequences:
    """Return series of numbers; integers are numbers, too."""
    return in_numbers(Sequences(unwrapped(X)))


def _svm(C: float) -> SVC:
    return SVC(kernel="precomputed", C=C)


def _better(right: Any) -> int:
    """Return the row with the most hits; the first, unless another is better by more than a standard error."""
    scores = right.mean(axis=1)
    error = np.sqrt(scores[0] * (1 - scores[0]) / right.shape[1])
    return int(scores.argmax()) if scores.max() > scores[0] + error else 0


def _by_class(decision: Floats) -> Floats:
    """Return decision values with one column per class, for two classes, too."""
    return np.stack([-decision, decision], axis=1) / 2 if decision.ndim == 1 else decision
