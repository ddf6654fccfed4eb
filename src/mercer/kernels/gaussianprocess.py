"""Gaussian processes at the end of a pipeline: predictions with standard deviations, and tuned kernel parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy.optimize import minimize
from sklearn import gaussian_process as sklearn_processes
from sklearn.base import BaseEstimator, ClassifierMixin, MultiOutputMixin, RegressorMixin, clone
from sklearn.gaussian_process import kernels as sklearn_kernels
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from mercer._array import Floats, to_numpy
from mercer._notices import warns_once
from mercer._parameters import CheckedParameters, Rules
from mercer.data.objects import Datum
from mercer.kernels._classes import check_target
from mercer.kernels._data import check_matrix, checked_targets, copy_columns, n_objects, unwrapped
from mercer.kernels.base.compound import KERNEL
from mercer.kernels.base.kernel import Kernel
from mercer.kernels.gp import GPKernel, ready
from mercer.kernels.kernelridge import few_threads


@dataclass(eq=False, repr=False)
class _Process(CheckedParameters, BaseEstimator):
    """A process whose kernel is fitted to the training data, then tuned by scikit-learn."""

    _parameters: ClassVar[Rules] = {"kernel": KERNEL}

    kernel: Any
    bounds: Any = None

    def _prior(self, X: Any, y: Floats, noise: Any) -> Prior:
        """Fit the kernel; return the covariance of the targets of its training objects."""
        kernel: Kernel = clone(self.kernel)
        gram = np.asarray(to_numpy(kernel.fit_transform(X, y)), dtype=float)
        check_target(y, len(gram))
        check_matrix(len(gram), len(gram), f"{type(self).__name__} (its Cholesky factor)", copies=4)
        copy_columns(self, kernel)
        values = np.linalg.eigvalsh(gram)
        if values[0] < -1e-8 * values[-1]:
            raise ValueError(
                f"The kernel matrix has the eigenvalue {values[0]:.4g}, so it is not a covariance. Wrap the kernel in "
                "mc.kernels.Repaired."
            )
        scale = float(np.trace(gram)) / len(gram) or 1.0
        variance = sklearn_kernels.ConstantKernel(1 / scale, (1e-5 / scale, 1e5 / scale))
        tuned = Trained(ready(kernel), self.bounds)
        tuned.hyperparameters  # noqa: B018  (raises where bounds have no meaning)
        return Prior(variance * tuned, noise)

    def _new(self, X: Any) -> Any:
        """Return new objects, all in every entry of an array, which scikit-learn does not read; the kernel does."""
        check_is_fitted(self, "process_")
        X = unwrapped(X)
        X = X if hasattr(X, "shape") or hasattr(X, "__len__") else np.asarray(X)
        return np.full(n_objects(X), Datum(X), dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if isinstance(self.kernel, Kernel):
            tags.input_tags = self.kernel.__sklearn_tags__().input_tags
        tags.input_tags.pairwise = False
        return tags


class GaussianProcess(MultiOutputMixin, RegressorMixin, _Process):
    r"""Gaussian process regression: predictions with standard deviations, and kernel parameters without a search.

    It contains its kernel: ``make_pipeline(mc.Standardize(), mc.GaussianProcess(mc.Fisher(mc.HMM(3))))``. The data are
    what the kernel compares, such as a list of strings or series. Targets need not be centered or scaled.

    Parameters
    ----------
    kernel : Kernel
        The kernel. It is fitted to the training data.
    bounds : dict, pair, "fixed" or None, default=None
        Search interval of each kernel parameter, as in ``kernel.as_gp(bounds)``: ``{"gamma": (0.1, 10.0)}``; "fixed"
        keeps all of them.

    Attributes
    ----------
    kernel_ : Kernel
        The fitted kernel with the tuned parameters.
    variance_, noise_ : float or ndarray of shape (T,)
        The factor of the kernel, and the variance of the noise.
    dual_coef_ : ndarray of shape (N,) or (N, T)
        Weights of the training samples in the mean of a prediction.
    intercept_ : float or ndarray of shape (T,)
        The mean of the training targets.
    process_ : sklearn.gaussian_process.GaussianProcessRegressor
        The process of the scaled targets, which has ``log_marginal_likelihood_value_``.

    See Also
    --------
    mercer.kernels.GaussianProcessClassifier : The same for classes.
    KernelRidge : The mean only, with confounds, sample weights and intervals.

    Notes
    -----
    The model is :math:`y_i = m + f(x_i) + \epsilon_i`, where :math:`f` is a Gaussian process of covariance
    ``variance_`` :math:`k` and the noise has the variance ``noise_``. Both, and the positive parameters on which the
    kernel depends smoothly (gamma, rho, weight, ...), maximize the marginal likelihood, if they start from a number:
    ``gamma=None`` and "median" stay. Parameters of models, such as the number of states, are for `GridSearchCV`. There
    is no ``kernel="precomputed"``: standard deviations need the kernel of every new sample with itself, which is not in
    a kernel matrix.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> x = np.linspace(0, 6, 40)[:, None]
    >>> noise = np.random.default_rng(0).normal(scale=0.1, size=40)
    >>> model = mc.GaussianProcess(mc.RBF(gamma=1.0)).fit(x, 100 + np.sin(x[:, 0]) + noise)
    >>> mean, std = model.predict([[1.5], [60.0]], return_std=True)
    >>> mean.round(1), std.round(1)  # far from the data, it knows that it does not know
    (array([100.9, 100. ]), array([0.1, 0.8]))
    """

    @warns_once
    def fit(self, X: Any, y: Any) -> Self:
        """Fit the kernel, and choose its parameters, the variance and the noise.

        Parameters
        ----------
        X : data
            Input of the kernel.
        y : array of shape (N,) or (N, T)
            Targets; several share all parameters.
        """
        self._check_parameters()
        y = checked_targets(self, y, "mc.kernels.GaussianProcessClassifier")
        if len(y) < 2:
            raise ValueError("GaussianProcess needs 2 samples or more, from which it learns the noise; got 1 sample.")
        prior = self._prior(unwrapped(X), y, sklearn_kernels.WhiteKernel(0.1, (1e-6, 10.0)))
        level, spread = y.mean(axis=0), y.std(axis=0)
        spread = np.where(spread > 1e-13 * np.abs(level), spread, 1.0)[()]
        with few_threads(len(y)):
            self.process_ = sklearn_processes.GaussianProcessRegressor(prior, optimizer=search)
            self.process_.fit(np.arange(len(y)), (y - level) / spread)
        tuned = self.process_.kernel_
        variance, noise = tuned.k1.k1.constant_value, tuned.k2.noise_level
        found = level, variance * spread**2, noise * spread**2
        self.intercept_, self.variance_, self.noise_ = [float(part) if y.ndim == 1 else part for part in found]
        self.dual_coef_ = variance * self.process_.alpha_ * spread
        self.kernel_, self._spread = tuned.k1.k2.kernel, spread
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the predicted targets, ``(M,)`` or ``(M, T)``, and their standard deviations of the same shape.

        Parameters
        ----------
        X : data
            Input of the kernel.
        return_std : bool, default=False
            Whether to return the standard deviations of new measurements, too, which contain the noise.
        """
        new = self._new(X)
        found = self.process_.predict(new, return_std=return_std)
        mean, *std = (part.reshape(-1, *np.shape(self._spread)) for part in (found if return_std else (found,)))
        mean = mean * self._spread + self.intercept_
        return (mean, std[0] * self._spread) if return_std else mean


class GaussianProcessClassifier(ClassifierMixin, _Process):
    """Gaussian process classification: probabilities, and kernel parameters without a search.

    It contains its kernel: ``make_pipeline(mc.Standardize(), GaussianProcessClassifier(mc.Fisher(mc.HMM(3))))``. The
    data are what the kernel compares, such as a list of strings or series.

    Parameters
    ----------
    kernel : Kernel
        The kernel. It is fitted to the training data.
    bounds : dict, pair, "fixed" or None, default=None
        Search interval of each kernel parameter, as in `mercer.GaussianProcess`.

    Attributes
    ----------
    classes_ : ndarray of shape (k,)
        The classes.
    process_ : sklearn.gaussian_process.GaussianProcessClassifier
        The process, by Laplace's approximation; its ``kernel_`` has the tuned parameters. Of more than two classes,
        every class against the rest, with parameters of its own.

    See Also
    --------
    mercer.GaussianProcess : The same for numbers.

    Examples
    --------
    >>> import mercer as mc
    >>> X, y = ["ACGTAC", "AGGTAA", "TTTTAC", "TTATTG"], ["a", "a", "b", "b"]
    >>> model = mc.kernels.GaussianProcessClassifier(mc.Spectrum(2)).fit(X, y)
    >>> model.predict(["AGGT", "TTTT"]).tolist(), model.predict_proba(["CCCC"])
    (['a', 'b'], array([[0.5, 0.5]]))
    """

    @warns_once
    def fit(self, X: Any, y: Any) -> Self:
        """Fit the kernel, and choose its parameters and the variance; ``y`` has the classes, ``(N,)``."""
        self._check_parameters()
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        prior = self._prior(unwrapped(X), y, sklearn_kernels.WhiteKernel(1e-10, "fixed"))
        with few_threads(len(y)):
            self.process_ = sklearn_processes.GaussianProcessClassifier(prior, optimizer=search)
            self.process_.fit(np.arange(len(y)), y)
        self.classes_ = self.process_.classes_
        return self

    def predict(self, X: Any) -> Any:
        """Return the most probable class of every sample, ``(M,)``."""
        new = self._new(X)
        return self.process_.predict(new)

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of every class, ``(M, k)``, in the order of ``classes_``."""
        new = self._new(X)
        return np.asarray(self.process_.predict_proba(new))


def search(objective: Callable[[Floats], tuple[float, Floats]], start: Floats, bounds: Floats) -> tuple[Floats, float]:
    """Return the parameters with the smallest objective, and its value.

    Where a kernel matrix has no Cholesky factor, the objective is large: an infinite one would end the search early.
    """
    worst = 10 * abs(objective(start)[0]) + 1e3

    def finite(theta: Floats) -> tuple[float, Floats]:
        try:
            value, slope = objective(theta)
        except np.linalg.LinAlgError:
            value, slope = np.inf, theta
        return (value, slope) if np.isfinite(value) else (worst, np.zeros_like(theta))

    found = minimize(finite, start, method="L-BFGS-B", jac=True, bounds=bounds)
    return found.x, float(found.fun)


class Trained(GPKernel):
    """A fitted kernel for scikit-learn's processes, to which numbers stand for the training objects that it keeps."""

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        """Return the matrix of the training objects, with derivatives, or that of training and new objects."""
        if Y is not None:
            first = isinstance(X[0], Datum)
            K = np.asarray(to_numpy(self.kernel.transform((X if first else Y)[0].value)), dtype=float)
            return K if first else K.T
        if eval_gradient and len(self.theta):
            return super().__call__(X, eval_gradient=True)
        K = np.array(to_numpy(self.kernel._matrix()), dtype=float)  # in the memo, if nothing in the kernel is tuned
        return (K, np.zeros((*K.shape, 0))) if eval_gradient else K

    def _sources(self, X: Any) -> Any:
        return self.kernel, self.kernel.train_

    def diag(self, X: Any) -> Floats:
        """Return the kernel of every new object with itself."""
        return super().diag(X[0].value)


class Prior(sklearn_kernels.Sum):
    """The covariance of noisy values, of which a variance at its bound is no news: there may be no noise."""

    def _check_bounds_params(self) -> None:
        pass
