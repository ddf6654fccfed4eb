"""Ready estimators for time series: the ensemble of kernels, and a ridge regression on its features."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from mercer import _config
from mercer._array import Floats
from mercer._parallel import Doing, progress_bar, single_blas
from mercer._parameters import NONE, CheckedParameters, Rules, one_of, seed, whole
from mercer._random import seed_of
from mercer.data import Sequences
from mercer.kernels._classes import check_target
from mercer.kernels._data import checked_targets, copy_columns, unwrapped
from mercer.kernels._estimators import LinearInFeatures
from mercer.kernels._explain import explain
from mercer.kernels.fisherensemble import FisherEnsemble
from mercer.kernels.kernelridge import GRID, KernelRidge

PRESETS: dict[str, dict[str, Any]] = {"best": {}, "fast": {"n_states": (), "n_components": 16}}
"""Parameters of `FisherEnsemble`."""
MORE_MODELS = {"n_states": (6, 12), "model_weight": 2.0}
"""Those of `SeriesRegressor("best")`: numbers vary more smoothly with a series than classes do."""
ALIKE = 1e-9
"""Series whose kernels differ by less on average are alike up to rounding."""
MOST_ALONE = 0.15
"""The largest alpha, in units of the scale of the kernel, if half of the classes or more have one series: leave-one-out
cannot predict the class of the only one, so it would choose the largest alpha that there is."""
TEMPERATURE = 0.15
"""The temperature if every class has one series: about the best in 16 sets of the UCR archive with one training series
per class, whose mean log loss hardly differs between 0.12 and 0.18."""
FLAT = 1e3
"""The temperature of decision values without information: nearly equal probabilities, in their order."""


class _SeriesEstimator(LinearInFeatures, CheckedParameters, BaseEstimator):
    """A kernel ridge regression with `FisherEnsemble`, kept as a linear function of explicit features."""

    _parameters: ClassVar[Rules] = {
        "preset": one_of(*PRESETS, cure="'fast' has no hidden Markov models."),
        "n_jobs": whole(-1) | NONE,
        "random_state": seed(),
    }

    _presets: ClassVar[dict[str, dict[str, Any]]] = PRESETS

    preset: str
    n_jobs: int | None
    random_state: Any

    @property
    def kernel(self) -> FisherEnsemble:
        """A new kernel of the preset, not fitted."""
        self._check_parameters()
        return FisherEnsemble(**self._presets[self.preset], random_state=seed_of(self.random_state))

    def _regressed(self, X: Sequences, targets: Floats, *, choose: bool, most: float = np.inf) -> KernelRidge:
        """Fit the kernel and the regression of targets ``(N,)`` or ``(N, T)``; return that with all models.

        With ``choose``, the models that are kept minimize the leave-one-out error. That of all models stays honest.
        The regularization is at most ``most`` times the scale of the kernel.
        """
        kernel = self.kernel_ = self.kernel
        with self._threads():
            features = kernel.fit(X)._training_features()
        copy_columns(self, kernel)
        blocks = np.split(features, kernel._ends[1:-1], axis=1)
        choices = kernel._choices() if choose else [np.ones(len(blocks))]
        with single_blas():  # results do not depend on the number of threads
            found: list[tuple[Floats, KernelRidge]] = []
            squares: list[Floats] = []
            doing = Doing(type(self).__name__)
            for factors in progress_bar(choices, doing.label, doing):
                with doing(f"regression of {len(X)} series"):
                    squares = squares or [block @ block.T for block in (blocks if len(choices) > 1 else [features])]
                    found.append((factors, _ridge(squares, factors, targets, most)))
            factors, ridge = min(found, key=lambda one: np.mean((one[1].loo_predictions_ - targets) ** 2))
            parts = [ridge.dual_coef_.T @ block for block in blocks]
            parts = [np.sqrt(factor) * part for factor, part in zip(factors, parts, strict=True) if factor]
            self.coef_ = np.atleast_2d(np.concatenate(parts, axis=-1))
        kernel._choose(factors)
        kernel._set_training(kernel.train_[[0]])  # its features need no training series
        self.intercept_ = np.atleast_1d(ridge.intercept_)
        self.alpha_ = ridge.alpha_
        return found[0][1]

    def _checked(self, X: Any, y: Any) -> tuple[Sequences, Any]:
        """Check the parameters, and return the series and y."""
        self._check_parameters()
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        y, X = column_or_1d(y, warn=True), Sequences(unwrapped(X)).require_some()
        check_target(y, len(X))
        return X, y

    def _threads(self) -> Any:
        return nullcontext() if self.n_jobs is None else _config.config(n_jobs=self.n_jobs)

    def _predicted(self, X: Any) -> Floats:
        """Return the regressions of new series, ``(M, T)``."""
        check_is_fitted(self, "kernel_")
        with self._threads():
            features = self.kernel_.features(X)
        return np.asarray(features @ self.coef_.T + self.intercept_)

    def explain(self, X: Any, **parameters: Any) -> Any:
        """Explain predictions by the time steps of the series; see `mercer.explain`.

        Parameters
        ----------
        X : Sequences or array-like
            Series.
        **parameters
            Further parameters of `mercer.explain`.
        """
        check_is_fitted(self, "kernel_")
        return explain(self, X, **parameters)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = FisherEnsemble().__sklearn_tags__().input_tags
        return tags


@dataclass(eq=False, repr=False)
class SeriesClassifier(ClassifierMixin, _SeriesEstimator):
    r"""Classify time series: `FisherEnsemble`, a ridge regression of the classes, and calibrated probabilities.

    Series may have any length, gaps (NaN), and one or many channels. Nothing needs to be scaled or tuned.

    Parameters
    ----------
    preset : {"best", "fast"}, default="best"
        Parts of the kernel: all of `FisherEnsemble`, or windows with few components and no hidden Markov models.
    n_jobs : int or None, default=None
        Number of threads; None is the setting of ``mc.set_config``.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the fits.

    Attributes
    ----------
    classes_ : ndarray of shape (k,)
        The classes.
    kernel_ : FisherEnsemble
        The fitted kernel, with one of the training series only.
    coef_ : ndarray of shape (k, n_features) or (1, n_features)
        Weights of the features of the kernel (``kernel_.features``) for every class, or for the second of two.
    intercept_ : ndarray of shape (k,) or (1,)
        Intercept of every class, or of the second of two.
    alpha_ : float
        The regularization that was chosen by leave-one-out.
    inner_score_ : float
        Accuracy on left-out training series: of each one by a regression on all others, with the mean target of all
        and all hidden Markov models. Classes with only one series are not counted; NaN if there are no others.
    temperature_ : float
        The temperature t of the probabilities softmax(d / t) of decision values d; 1,000 if they have no information
        about the classes, and 0.15 if every class has only one series.
    n_features_in_ : int
        Number of channels.
    feature_names_in_ : array of str
        Names of the training data's channels, if they have names.

    Notes
    -----
    `KernelRidge` is fitted to one target per class, 1 for its series and 0 for the others, and the class with the
    largest prediction wins. For two classes, one target of 1/2 or -1/2 is enough: its sign decides, and the decision
    values of the classes are -d and d.
    The kernel learns from the series alone, not from their classes. So leave-one-out is a closed form, from matrices
    that no label has touched. The regularization, and which hidden Markov models are kept (those of all topologies, of
    one, or none), minimize its squared error. The predictions d of the regression with all models, before this choice,
    give ``inner_score_`` and the temperature of :math:`p_c = e^{d_c/t} / \sum_k e^{d_k/t}` with the smallest log loss.
    A class with only one series is unknown without it, so these are measured on the other classes. If half of the
    classes or more have only one series, all models are kept, and the regularization is at most 0.15 times the scale of
    the kernel.

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

    preset: str = "best"
    n_jobs: int | None = None
    random_state: Any = 0

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the kernel, the regression and the calibration.

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
        target = np.eye(len(self.classes_))[codes]
        used = codes[:, None] - 0.5 if len(self.classes_) == 2 else target
        several = np.bincount(codes)[codes] > 1  # without its only series, a class is unknown
        alone = 2 * np.count_nonzero(~several) >= len(self.classes_)
        ridge = self._regressed(X, used, choose=not alone, most=MOST_ALONE if alone else np.inf)
        # Leaving a series out also moves the mean target away from its class; without information, the other class
        # would be predicted. The mean is put back.
        left_out = ridge.loo_predictions_ + (used - used.mean(axis=0)) / (len(X) - 1)
        left_out = _by_class(np.round(left_out, 9))  # without information, all classes are equal up to rounding
        best = left_out == left_out.max(axis=1, keepdims=True)
        right = (best / best.sum(axis=1, keepdims=True))[np.arange(len(X)), codes]
        if several.any():
            self.inner_score_ = float(right[several].mean())
            self.temperature_ = _temperature(left_out[several], target[several])
        else:
            self.inner_score_, self.temperature_ = np.nan, TEMPERATURE
        return self

    def decision_function(self, X: Any) -> Floats:
        """Return the decision values of new series, ``(M,)`` for two classes, else ``(M, k)``.

        Parameters
        ----------
        X : Sequences or array-like
            Series.
        """
        found = self._predicted(X)
        return found[:, 0] if len(self.classes_) == 2 else found

    def predict(self, X: Any) -> Any:
        """Return the most probable class of every series, ``(M,)``.

        Parameters
        ----------
        X : Sequences or array-like
            Series.
        """
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of every class, ``(M, k)``, in the order of ``classes_``.

        Parameters
        ----------
        X : Sequences or array-like
            Series.
        """
        decisions = _by_class(self._predicted(X))
        return np.asarray(softmax(decisions / min(self.temperature_, FLAT), axis=1))  # infinite in early files


@dataclass(eq=False, repr=False)
class SeriesRegressor(RegressorMixin, _SeriesEstimator):
    """Predict numbers from time series: `FisherEnsemble` and ridge regression.

    Series may have any length, gaps (NaN), and one or many channels. Nothing needs to be scaled or tuned: the
    regularization is chosen by leave-one-out.

    Parameters
    ----------
    preset : {"best", "fast"}, default="best"
        Parts of the kernel: all of `FisherEnsemble`, with more hidden Markov models and a larger weight of them than
        for classes, or windows with few components only.
    n_jobs : int or None, default=None
        Number of threads; None is the setting of ``mc.set_config``.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the fits.

    Attributes
    ----------
    kernel_ : FisherEnsemble
        The fitted kernel, with one of the training series only.
    coef_ : ndarray of shape (1, n_features)
        Weights of the features of the kernel (``kernel_.features``).
    intercept_ : ndarray of shape (1,)
        The intercept.
    alpha_ : float
        The regularization that was chosen by leave-one-out.
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

    _presets: ClassVar[dict[str, dict[str, Any]]] = {**PRESETS, "best": MORE_MODELS}

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
        self.inner_score_ = self._regressed(X, checked_targets(self, y, "mc.SeriesClassifier"), choose=False).loo_score_
        return self

    def predict(self, X: Any) -> Floats:
        """Return the predicted number of every series, ``(M,)``.

        Parameters
        ----------
        X : Sequences or array-like
            Series.
        """
        return self._predicted(X)[:, 0]


def _ridge(squares: list[Floats], factors: Floats, targets: Floats, most: float) -> KernelRidge:
    """Fit the regression with a weighted sum of kernel matrices."""
    K = sum(factor * square for factor, square in zip(factors, squares, strict=False) if factor)
    scale, alpha = np.mean(np.diag(K)) - np.mean(K), "loo"
    if scale < ALIKE:
        K = np.full_like(K, np.mean(K))
    elif most < np.inf:
        alpha = scale * GRID[most >= GRID]
    return KernelRidge(alpha=alpha).fit(K, targets)


def _by_class(found: Floats) -> Floats:
    """Return decision values with one column per class, for two classes, too."""
    return np.concatenate([-found, found], axis=1) if found.shape[1] == 1 else found


def _temperature(decisions: Floats, target: Floats) -> float:
    """Return the temperature of the probabilities with the smallest log loss."""
    # One more series, of all classes equally: without it, classes that are apart would have probabilities of 1.
    target = (len(target) * target + 1 / target.shape[1]) / (len(target) + 1)

    def loss(log_temperature: float) -> float:
        scaled = decisions / np.exp(log_temperature)
        return float(np.mean(logsumexp(scaled, axis=1) - (target * scaled).sum(axis=1)))

    found = minimize_scalar(loss, bounds=(-6.0, 4.0), method="bounded")
    return float(np.exp(found.x)) if found.fun < np.log(target.shape[1]) - 1e-9 else FLAT
