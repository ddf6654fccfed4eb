"""Kernel ridge regression with an intercept, confounds and leave-one-out in closed form."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy import linalg
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin, clone
from sklearn.metrics import r2_score
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from mercer._array import Floats, Indices, to_numpy
from mercer._checks import is_number
from mercer._notices import warns_once
from mercer._parallel import single_blas
from mercer._parameters import CheckedParameters, Rule, Rules, between, boolean, one_of, positive
from mercer.kernels._data import check_matrix, checked_targets, copy_columns, unwrapped
from mercer.kernels.base.kernel import Kernel
from mercer.kernels.confounds import Confounded

GRID = np.logspace(3, -6, 28)
"""Values of alpha that are tried, in units of the mean diagonal of the centered kernel matrix; ties keep the first."""
ALPHAS = Rule(
    "a list of positive numbers",
    lambda value: (
        isinstance(value, list | tuple | np.ndarray)
        and np.ndim(value) == 1
        and len(value) > 0
        and all(is_number(alpha) and alpha > 0 for alpha in value)
    ),
)


@dataclass(eq=False, repr=False)
class KernelRidge(CheckedParameters, MultiOutputMixin, RegressorMixin, BaseEstimator):
    r"""Kernel ridge regression with an intercept, whose regularization is chosen by leave-one-out.

    Use it after a kernel, ``make_pipeline(kernel, mc.KernelRidge())``, or give it the kernel,
    ``mc.KernelRidge(kernel)``. Targets need not be centered, and confounds of the target are part of the model.

    Parameters
    ----------
    kernel : "precomputed" or Kernel, default="precomputed"
        The kernel, or "precomputed" if ``X`` is a kernel matrix, as after a kernel in a pipeline.
    alpha : "loo", float or list of floats, default="loo"
        The regularization. "loo" and a list choose the value with the smallest leave-one-out error: among 28 values
        around the scale of the kernel matrix, or in the list.
    intercept : bool, default=True
        Whether the regression has an intercept, which is not penalized.
    intervals : bool, default=False
        Whether to keep the leave-one-out fits, N x N numbers, for `predict_interval`.

    Attributes
    ----------
    dual_coef_ : ndarray of shape (N,) or (N, T)
        Weights of the training samples.
    intercept_ : float or ndarray of shape (T,)
        The intercept.
    confound_coef_ : ndarray of shape (c,) or (c, T)
        Coefficients of the confounds.
    alpha_ : float
        The chosen regularization.
    loo_predictions_ : ndarray of shape (N,) or (N, T)
        Predictions for every training sample by the regression on all others. NaN for a sample without which there is
        no unique solution.
    loo_score_ : float
        R2 of ``loo_predictions_``, the mean over the targets; with confounds, of what they do not explain.
    kernel_ : Kernel
        The fitted kernel, if ``kernel`` is one.

    See Also
    --------
    sklearn.kernel_ridge.KernelRidge : Without an intercept: targets and kernel must be centered.
    Residualized : A kernel whose features do not depend on confounds.
    GaussianProcess : The same mean, with standard deviations and tuned kernel parameters.

    Notes
    -----
    With sample weights :math:`w_i` and confounds :math:`c_i`, it minimizes

    .. math:: \sum_i w_i \big(y_i - f(x_i) - c_i^\top\beta - b\big)^2 + \alpha\,\|f\|^2 .

    With :math:`D = \mathrm{diag}(w)^{1/2}`, :math:`P` the projection orthogonal to :math:`D[1, C]` and
    :math:`G = P(P D K D P + \alpha)^{-1}P`, the weights are :math:`a = D\,G D y` and the error of the
    leave-one-out prediction is :math:`y_i - \hat y_{-i} = (G D y)_i / (D_{ii} G_{ii})`, exactly. The kernel itself is
    not fitted again without the sample; cross-validate the pipeline if it learns from the data.

    By the theorem of Frisch, Waugh and Lovell, the regression with confounds is that of the residual target on
    the residual features (`Residualized`), both learned from the training data only.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> x = np.linspace(0, 6, 40)[:, None]
    >>> model = mc.KernelRidge(mc.RBF(gamma=0.5)).fit(x, 100 + np.sin(x[:, 0]))
    >>> model.predict([[1.0], [2.0]]).round(2)
    array([100.84, 100.91])
    >>> model.loo_score_ > 0.99
    True
    """

    _parameters: ClassVar[Rules] = {
        "kernel": Rule(
            "'precomputed' or a kernel",
            lambda value: value == "precomputed" if isinstance(value, str) else isinstance(value, Kernel),
            "Pass an instance, such as mc.RBF().",
        ),
        "alpha": one_of("loo", cure="With 'loo', it is chosen by leave-one-out.") | positive() | ALPHAS,
        "intercept": boolean(),
        "intervals": boolean("With True, predict_interval can be used after fit."),
    }

    # Requested by default: confounds that are passed to a pipeline or a search are for this regression too.
    __metadata_request__fit = {"confounds": True}  # noqa: RUF012
    __metadata_request__predict = {"confounds": True}  # noqa: RUF012
    __metadata_request__score = {"confounds": True}  # noqa: RUF012

    kernel: Any = "precomputed"
    alpha: Any = "loo"
    intercept: bool = True
    intervals: bool = False

    @warns_once
    def fit(self, X: Any, y: Any, sample_weight: Any = None, confounds: Any = None) -> Self:
        """Fit the regression.

        Parameters
        ----------
        X : data or array of shape (N, N)
            Input of the kernel; with ``kernel="precomputed"``, the kernel matrix. `Confounded` contains the confounds.
        y : array of shape (N,) or (N, T)
            Targets.
        sample_weight : array of shape (N,), default=None
            Weights of the squared errors, 0 or more.
        confounds : array or data frame of shape (N, c) or (N,), default=None
            Variables that explain a part of the target linearly, without a penalty.
        """
        self._check_parameters()
        X, confounds = _separated(X, confounds)
        y = checked_targets(self, y)
        K = self._train_matrix(X, y)
        check_consistent_length(K, y)
        weights = np.ones(len(y)) if sample_weight is None else _check_sample_weight(sample_weight, K, dtype=float)
        if (weights < 0).any() or not (weights > 0).any():
            raise ValueError("sample_weight must be 0 or more, and not all 0; got a negative number or only zeros.")
        columns = np.zeros((len(y), 0)) if confounds is None else Confounded(np.zeros(len(y)), confounds).confounds
        self._with_confounds = confounds is not None
        self._fit_matrix(K, y, weights, columns)
        return self

    def _train_matrix(self, X: Any, y: Floats) -> Floats:
        """Return the kernel matrix of the training data."""
        if not isinstance(self.kernel, str):
            self.kernel_ = clone(self.kernel)
            K = np.asarray(to_numpy(self.kernel_.fit_transform(X, y)), dtype=float)
            copy_columns(self, self.kernel_)
            return K
        K = validate_data(self, X, dtype=float)
        size = np.abs(K).max(initial=0.0)
        if K.shape[0] != K.shape[1] or np.abs(K - K.T).max(initial=0.0) > 1e-8 * size:
            what = "not symmetric" if K.shape[0] == K.shape[1] else f"of shape {K.shape}"
            raise ValueError(
                f"With kernel='precomputed', X must be a square, symmetric kernel matrix; got one that is {what}. Put "
                "a kernel before it, make_pipeline(mc.RBF(), mc.KernelRidge()), or pass it, mc.KernelRidge(mc.RBF())."
            )
        return np.asarray(K)

    def _fit_matrix(self, K: Floats, y: Floats, weights: Floats, confounds: Floats) -> None:
        check_matrix(len(K), len(K), "KernelRidge (its eigenvectors)", copies=4)
        used = weights > 0
        targets = y[:, None] if y.ndim == 1 else y
        root = np.sqrt(weights[used])[:, None]
        design = _design(confounds[used], root, self.intercept)
        inner = K[np.ix_(used, used)]
        spectrum = _spectrum(root * inner * root.T, design.basis)
        scaled = root * targets[used]
        free = scaled - design.basis @ (design.basis.T @ scaled)  # what the intercept and confounds do not explain
        self.alpha_, dual, errors = self._chosen(spectrum, free)
        a = np.zeros_like(targets)
        a[used] = root * dual
        slope, level = design.coefficients(design.basis.T @ (scaled - root * (inner @ a[used])))
        free_slope, free_level = design.coefficients(design.basis.T @ scaled)
        predictions = K @ a + confounds @ slope + level
        predictions[used] = targets[used] - errors / root
        rest = targets - confounds @ free_slope - free_level
        sound = used & np.isfinite(predictions).all(axis=1)
        self.loo_score_ = _r2(rest[sound], (predictions - targets + rest)[sound], weights[sound])
        one = y.ndim == 1
        self.dual_coef_ = a[:, 0] if one else a
        self.intercept_ = float(level[0]) if one else level
        self.confound_coef_ = slope[:, 0] if one else slope
        self.loo_predictions_ = predictions[:, 0] if one else predictions
        self._of_confounds = (free_slope[:, 0], free_level[0]) if one else (free_slope, free_level)
        self.__dict__.pop("_leave_one_out", None)
        if self.intervals:  # the same solution, of the targets 1 for one sample and 0 for the others
            units = np.diag(root[:, 0])
            dual = root * (spectrum.vectors / (spectrum.values + self.alpha_) @ (spectrum.vectors.T @ units))
            of_each = design.coefficients(design.basis.T @ (units - root * (inner @ dual)))
            self._leave_one_out = LeaveOneOut(np.flatnonzero(used), dual, *of_each, errors / root)

    def _chosen(self, spectrum: Spectrum, free: Floats) -> tuple[float, Floats, Floats]:
        """Return alpha, the solution, and the leave-one-out errors, in scaled units."""
        alphas = self._alphas(spectrum)
        coordinates = spectrum.vectors.T @ free
        spread = np.sqrt(np.mean(free**2, axis=0))
        best: tuple[float, float, Floats, Floats] | None = None
        for alpha in alphas:
            shrunk = 1 / (spectrum.values + alpha)
            dual = spectrum.vectors @ (shrunk[:, None] * coordinates)
            own = (spectrum.vectors**2) @ shrunk
            known = own * alpha > 1e-13  # 1 minus the leverage; the others are explained by the confounds alone
            errors = np.where(known[:, None], dual / np.where(known, own, 1.0)[:, None], np.nan)
            lost = errors / np.where(spread > 0, spread, 1.0)
            loss = float(np.nanmean(lost**2)) if known.any() else np.inf
            if best is None or loss < best[0]:
                best = loss, float(alpha), dual, errors
        assert best is not None
        return best[1:]

    def _alphas(self, spectrum: Spectrum) -> Floats:
        if is_number(self.alpha):
            alphas = np.array([float(self.alpha)])
        elif isinstance(self.alpha, str):
            scale = spectrum.values.clip(0).sum() / max(len(spectrum.vectors), 1)
            alphas = GRID * (scale if scale > 0 else spectrum.size or 1.0)
        else:
            alphas = np.sort(np.asarray(self.alpha, dtype=float))[::-1]
        least = spectrum.values.min(initial=0.0)
        sound = alphas[alphas + least > 1e-14 * np.abs(spectrum.values).max(initial=0.0)]
        if not len(sound):
            raise ValueError(
                f"The kernel matrix has the eigenvalue {least:.4g}, and alpha must be larger than its absolute value; "
                f"got {alphas[0]:.4g}. Wrap the kernel in mc.kernels.Repaired, or raise alpha."
            )
        return sound

    # -- prediction ---------------------------------------------------------------------------------------

    def predict(self, X: Any, confounds: Any = None) -> Floats:
        """Return the predicted targets, ``(M,)`` or ``(M, T)``.

        Parameters
        ----------
        X : data or array of shape (M, N)
            Input of the kernel; with ``kernel="precomputed"``, the kernel between new and training samples.
        confounds : array or data frame of shape (M, c) or (M,), default=None
            Confounds of the new samples, if the regression was fitted with some.
        """
        check_is_fitted(self, "dual_coef_")
        X, confounds = _separated(X, confounds)
        K = self._matrix(X)
        return np.asarray(
            K @ self.dual_coef_ + self._columns(confounds, len(K)) @ self.confound_coef_ + self.intercept_
        )

    def predict_interval(self, X: Any, coverage: float = 0.9, confounds: Any = None) -> tuple[Floats, Floats]:
        r"""Return the lower and upper ends of intervals that contain new targets, each ``(M,)`` or ``(M, T)``.

        By the jackknife+ (Barber et al. 2021): for new samples that are like the training samples, the probability is
        at least ``2 * coverage - 1`` for any distribution of the errors, and about ``coverage`` in practice.

        Parameters
        ----------
        X : data or array of shape (M, N)
            As in `predict`. After a kernel in a pipeline, pass ``pipeline[:-1].transform(X)``.
        coverage : float, default=0.9
            The probability that an interval contains the target, from 0.5 to N / (N + 1).
        confounds : array or data frame of shape (M, c) or (M,), default=None
            As in `predict`.

        Examples
        --------
        >>> import numpy as np, mercer as mc
        >>> x = np.linspace(0, 6, 40)[:, None]
        >>> y = np.sin(x[:, 0]) + np.random.default_rng(0).normal(scale=0.1, size=40)
        >>> model = mc.KernelRidge(mc.RBF(gamma=0.5), intervals=True).fit(x, y)
        >>> low, high = model.predict_interval([[1.0], [2.0]])
        >>> low.round(1), high.round(1)
        (array([0.7, 0.7]), array([1. , 0.9]))
        """
        check_is_fitted(self, "dual_coef_")
        between(0.5, 1.0, "left")("coverage", coverage)
        if not hasattr(self, "_leave_one_out"):
            raise ValueError(
                f"This {type(self).__name__} keeps no leave-one-out fits. Fit it with intervals=True, and do not "
                "compact it."
            )
        samples, dual, slope, level, errors = self._leave_one_out
        rank = math.ceil(coverage * (len(samples) + 1) - 1e-9)
        if rank > len(samples):
            raise ValueError(
                f"coverage must be at most N / (N + 1) = {len(samples) / (len(samples) + 1):.4g} for the N = "
                f"{len(samples)} training samples; got {coverage!r}."
            )
        X, confounds = _separated(X, confounds)
        K = self._matrix(X)
        columns = self._columns(confounds, len(K))
        mean = K @ self.dual_coef_ + columns @ self.confound_coef_ + self.intercept_
        by_sample = K[:, samples] @ dual + columns @ slope + level
        ends = np.empty((2, *mean.reshape(len(K), -1).shape))
        for t, error in enumerate(errors.T):
            known = np.isfinite(error)  # without the others there is no unique solution, and anything is possible
            left_out = mean.reshape(len(K), -1)[:, t, None] - by_sample * np.where(known, error, 0.0)
            width = np.where(known, np.abs(error), np.inf)
            ends[0, :, t] = np.partition(left_out - width, len(samples) - rank)[:, len(samples) - rank]
            ends[1, :, t] = np.partition(left_out + width, rank - 1)[:, rank - 1]
        return ends[0].reshape(mean.shape), ends[1].reshape(mean.shape)

    def _matrix(self, X: Any) -> Floats:
        if isinstance(self.kernel, str):
            return np.asarray(validate_data(self, X, dtype=float, reset=False))
        return np.asarray(to_numpy(self.kernel_.transform(X)), dtype=float)

    def _columns(self, confounds: Any, n: int) -> Floats:
        if (confounds is not None) != self._with_confounds:
            had, cure = (
                ("no ", "without them") if confounds is not None else ("", "confounds=... or mc.Confounded(X, C)")
            )
            raise ValueError(f"{type(self).__name__} was fitted with {had}confounds. Predict {cure}.")
        if confounds is None:
            return np.zeros((n, 0))
        columns = Confounded(np.zeros(n), confounds).confounds
        if columns.shape[1] != len(self.confound_coef_):
            raise ValueError(
                f"The confounds have {columns.shape[1]} columns, but had {len(self.confound_coef_)} in training. "
                "Encode both in the same way."
            )
        return columns

    def unexplained(self, y: Any, confounds: Any) -> Floats:
        """Return the part of the targets that a regression on the confounds, learned in ``fit``, does not explain.

        Parameters
        ----------
        y : array of shape (M,) or (M, T)
            Targets.
        confounds : array or data frame of shape (M, c) or (M,)
            Their confounds.
        """
        check_is_fitted(self, "dual_coef_")
        y = checked_targets(self, y)
        slope, level = self._of_confounds
        return np.asarray(y - self._columns(confounds, len(y)) @ slope - level)

    def score(self, X: Any, y: Any, sample_weight: Any = None, confounds: Any = None) -> float:
        """Return R2; with confounds, the R2 of the part of the target that these do not explain.

        Parameters
        ----------
        X : data or array of shape (M, N)
            As in `predict`.
        y : array of shape (M,) or (M, T)
            Targets.
        sample_weight : array of shape (M,), default=None
            Weights of the samples.
        confounds : array or data frame of shape (M, c) or (M,), default=None
            Confounds of the samples, if the regression was fitted with some.
        """
        X, confounds = _separated(X, confounds)
        predicted = self.predict(X, confounds)
        y = checked_targets(self, y)
        check_consistent_length(predicted, y)
        rest = y if confounds is None else self.unexplained(y, confounds)
        return float(r2_score(rest, predicted - y + rest, sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if isinstance(self.kernel, Kernel):
            tags.input_tags = self.kernel.__sklearn_tags__().input_tags
        tags.input_tags.pairwise = isinstance(self.kernel, str)
        return tags


class Design(NamedTuple):
    """The part without a penalty: an orthonormal basis in scaled units, and the way from it to coefficients."""

    basis: Floats
    axes: Floats
    middle: Floats
    size: float

    def coefficients(self, linear: Floats) -> tuple[Floats, Floats]:
        """Return the coefficients of the confounds, ``(c, T)``, and the intercept, ``(T,)``."""
        slope = self.axes @ (linear[1:] if self.size else linear)
        level = linear[0] / self.size if self.size else np.zeros(linear.shape[1])
        return slope, level - self.middle @ slope


def _design(confounds: Floats, root: Floats, intercept: bool) -> Design:
    """Return an orthonormal basis of the scaled confounds and the intercept; copies and constants are dropped."""
    weights = root**2
    middle = (weights * confounds).sum(axis=0) / weights.sum() if intercept else np.zeros(confounds.shape[1])
    columns = root * (confounds - middle)
    norms, before = np.linalg.norm(columns, axis=0), np.linalg.norm(root * confounds, axis=0)
    varies = norms > 1e-12 * before
    scale = np.where(varies, 1 / np.where(varies, norms, 1.0), 0.0)
    left, singular, right = np.linalg.svd(columns * scale, full_matrices=False)
    noise = max(columns.shape) * np.finfo(float).eps * max(1.0, (before[varies] / norms[varies]).max(initial=1.0))
    keep = singular > noise * singular.max(initial=0.0)
    axes, basis = scale[:, None] * right[keep].T / singular[keep], left[:, keep]
    size = float(np.linalg.norm(root)) if intercept else 0.0
    return Design(np.column_stack([root / size, basis]) if intercept else basis, axes, middle, size)


class LeaveOneOut(NamedTuple):
    """Derivatives of a regression by the target of every used sample, and the errors without this sample."""

    samples: Indices  # (n,)
    dual: Floats  # (n, n)
    slope: Floats  # (c, n)
    level: Floats  # (n,)
    errors: Floats  # (n, T)


class Spectrum(NamedTuple):
    """Eigenvalues ``(r,)`` and eigenvectors ``(N, r)`` of a kernel matrix, orthogonal to intercept and confounds."""

    values: Floats
    vectors: Floats
    size: float  # the largest absolute value of the matrix


def few_threads(n: int) -> AbstractContextManager[None]:
    """Use one thread of BLAS for up to 300 samples: it is faster, as threads wait for each other at every step."""
    return single_blas() if n <= 300 else nullcontext()


def _spectrum(K: Floats, basis: Floats) -> Spectrum:
    """Return the spectrum of K in the complement of an orthonormal basis."""
    n, p = basis.shape
    if p >= n:
        return Spectrum(np.zeros(0), np.zeros((n, 0)), 0.0)
    # The complement has exactly n - p directions: eigenvectors of zero eigenvalue are not mixed with the basis.
    with few_threads(n):
        complement = linalg.qr(basis)[0][:, p:] if p else np.eye(n)
        inner = complement.T @ K @ complement
        values, vectors = linalg.eigh((inner + inner.T) / 2)
    # If all samples are alike, there is nothing but the rounding errors of the matrix, which predict nothing.
    size = float(np.abs(K).max(initial=0.0))
    tiny = max(1e-13 * np.abs(values).max(initial=0.0), n * np.finfo(float).eps * size)
    return Spectrum(np.where(np.abs(values) <= tiny, 0.0, values), complement @ vectors, size)


def _separated(X: Any, confounds: Any) -> tuple[Any, Any]:
    """Return objects and confounds of input that may contain both."""
    X = unwrapped(X)
    if isinstance(X, Confounded):
        if confounds is not None:
            raise TypeError("These objects have confounds already. Pass all confounds at once.")
        return X.objects, X.confounds
    return X, confounds


def _r2(y: Floats, predicted: Floats, weights: Floats) -> float:
    return float(r2_score(y, predicted, sample_weight=weights)) if len(y) > 1 else float("nan")
