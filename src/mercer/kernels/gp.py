"""Kernels for scikit-learn's Gaussian processes."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import Hyperparameter
from sklearn.gaussian_process.kernels import Kernel as _SklearnKernel

from mercer._array import Floats, to_numpy
from mercer._checks import is_number
from mercer._random import seed_of
from mercer.kernels.base.compound import Compound
from mercer.kernels.base.kernel import Kernel

STEP = 1e-4
"""Step of central differences in the logarithm of a parameter: a relative error of about STEP^2 / 6."""
LINEAR_STEP = 1e-5
"""The same for kernels in the linear domain, whose curvature is larger: small values are exponentials."""
SINGLE_STEP = 2e-2
"""The same for kernels in float32, whose rounding a smaller step would magnify."""


class GPKernel(_SklearnKernel):
    r"""A kernel for scikit-learn's Gaussian processes, returned by ``kernel.as_gp()``.

    Parameters
    ----------
    kernel : Kernel
        The kernel; must be fitted if it learns from training data.
    parameter_bounds : dict, pair, "fixed" or None, default=None
        Search interval of each parameter: ``{"k0__gamma": (0.1, 10.0), "weight": "fixed"}``, or one pair or
        "fixed" for all. Default intervals: 1e-5 to 1e5, powers rho 0.05 to 5, exponent up to 1; wider
        if the current value is outside.

    See Also
    --------
    mercer.GaussianProcess : Fits the kernel itself, and takes sequences as they are.
    mercer.objects : Wraps sequences so that scikit-learn's Gaussian processes accept them.

    Notes
    -----
    The hyper-parameters are rho, gamma, t, alpha, beta, exponent and weight of the kernel and of its parts, if they
    are positive numbers, with the names of ``kernel.get_params()``. Your own kernel class declares its
    hyper-parameters, with the bounds of the search, as ``_smooth = {"width": (0.1, 10.0)}``. Parts of a kernel that
    learns from the training matrix (`Centered`, `EmpiricalKernelMap`, `LogOdds`, `Repaired`, `Residualized`,
    `TargetAligned`) stay as they were fitted, and so do the parameters of models.

    Derivatives are central differences in the logarithm of a parameter: two further Gram matrices for each, with a
    relative error below 1e-6.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> from sklearn.gaussian_process import GaussianProcessRegressor
    >>> kernel = (1.0 * mc.RBF(gamma=1.0)).as_gp({"weight": (0.1, 100.0)})
    >>> kernel
    GPKernel(Scaled: weight=1, kernel__gamma=1)
    >>> X = np.linspace(0, 6, 20)[:, None]
    >>> process = GaussianProcessRegressor(kernel, alpha=1e-6).fit(X, np.sin(X[:, 0]))
    >>> process.predict([[1.55]]).round(3)
    array([1.])
    """

    def __init__(self, kernel: Any, parameter_bounds: Any = None) -> None:
        self.kernel = kernel
        self.parameter_bounds = parameter_bounds

    # -- parameters ----------------------------------------------------------------------------------------

    @property
    def hyperparameters(self) -> list[Any]:
        """The hyper-parameters that a Gaussian process tunes: names, bounds, and which are fixed."""
        found = list(smooth_parameters(self.kernel))
        given = self._given_bounds([name for name, _, _ in found])
        return [
            Hyperparameter(name, "numeric", given.get(name) or (min(low, value), max(high, value)))
            for name, value, (low, high) in found
        ]

    def _given_bounds(self, names: list[str]) -> dict[str, Any]:
        given = self.parameter_bounds
        if given is None:
            return {}
        if not isinstance(given, dict):
            given = dict.fromkeys(names, given)
        for name, bounds in given.items():
            if name not in names:
                known = f"{', '.join(names)}; pass bounds for these" if names else "nothing; leave bounds out"
                raise ValueError(
                    f"Unknown hyper-parameter {name!r} in bounds: {type(self.kernel).__name__} is searched over "
                    f"{known}."
                )
            if isinstance(bounds, str) and bounds == "fixed":
                continue
            pair = list(bounds) if np.ndim(bounds) == 1 else []
            if len(pair) != 2 or not all(map(is_number, pair)) or not 0 < pair[0] <= pair[1]:
                raise ValueError(
                    f"Bounds of {name!r} must be two increasing positive numbers, or 'fixed'; got {bounds!r}."
                )
        return {name: b if isinstance(b, str) else (float(b[0]), float(b[1])) for name, b in given.items()}

    @property
    def theta(self) -> Floats:
        """Logarithms of the hyper-parameters that are not fixed."""
        values = _values(self.kernel)
        return np.log(np.array([values[h.name] for h in self.hyperparameters if not h.fixed]))

    @theta.setter
    def theta(self, theta: Any) -> None:
        names = [h.name for h in self.hyperparameters if not h.fixed]
        values = np.asarray(theta, dtype=np.float64).reshape(-1)
        if len(values) != len(names):
            raise ValueError(f"theta must have {len(names)} entries, one per hyper-parameter; got {len(values)}.")
        self.set_params(**dict(zip(names, np.exp(values).tolist(), strict=True)))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the kernel and the bounds; ``deep`` adds the values of the hyper-parameters.

        Parameters
        ----------
        deep : bool, default=True
            Whether to add the values of the hyper-parameters.
        """
        own = {"kernel": self.kernel, "parameter_bounds": self.parameter_bounds}
        return own | _values(self.kernel) if deep else own

    def set_params(self, **params: Any) -> GPKernel:
        """Set the kernel, the bounds, or hyper-parameters by their names.

        Parameters
        ----------
        **params : values
            As in `get_params`. A kernel is checked and copied as by ``kernel.as_gp()``.
        """
        kernel, bounds = params.pop("kernel", self.kernel), self.parameter_bounds
        if kernel is not self.kernel:
            kernel = ready(kernel)
        if "parameter_bounds" in params:
            bounds = copy.deepcopy(params.pop("parameter_bounds"))
        known = _values(kernel)
        for name, value in params.items():
            if name not in known:
                raise ValueError(f"{name!r} is not a hyper-parameter. Use one of {', '.join(known) or 'none'}.")
            if not is_number(value) or float(value) <= 0:
                raise ValueError(f"{name} must be a positive number; got {value!r}.")
        changed = {name: float(value) for name, value in params.items() if float(value) != known[name]}
        if changed:
            kernel = independent(kernel)
            for name, value in changed.items():
                _assign(kernel, name.split("__"), value)
        GPKernel(kernel, bounds).hyperparameters  # noqa: B018  (raises where bounds have no meaning, before a change)
        self.kernel, self.parameter_bounds = kernel, bounds
        return self

    def __sklearn_clone__(self) -> GPKernel:
        # The learned state of the kernel stays: a Gaussian process does not fit it.
        return type(self)(independent(self.kernel), copy.copy(self.parameter_bounds))

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value:.3g}" for name, value in _values(self.kernel).items())
        return f"GPKernel({type(self.kernel).__name__}{': ' if values else ''}{values})"

    # -- matrices ------------------------------------------------------------------------------------------

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        """Return the kernel of ``X`` and ``Y``, and its derivatives with respect to theta.

        Parameters
        ----------
        X : data
            Objects to compare: a matrix, or ``mc.objects(sequences)``.
        Y : data, default=None
            The other side; None for the Gram matrix of ``X``.
        eval_gradient : bool, default=False
            Whether to return also the derivatives with respect to theta, the logarithms of the hyper-parameters.

        Returns
        -------
        K : array of shape (N, M)
            The kernel.
        gradient : array of shape (N, N, n_dims)
            Only with ``eval_gradient``.
        """
        if not eval_gradient:
            return np.asarray(to_numpy(self.kernel(X, Y)), dtype=np.float64)
        if Y is not None:
            raise ValueError("Derivatives exist only for a Gram matrix. Leave out Y, or set eval_gradient=False.")
        kernel, source = self._sources(X)
        names = [h.name for h in self.hyperparameters if not h.fixed]
        log, gram = kernel.domain == "log", _matrix(kernel, source, log=False)
        step = SINGLE_STEP if gram.dtype == np.float32 else STEP if log else LINEAR_STEP
        gram = np.asarray(gram, dtype=np.float64)
        gradient = np.zeros((*gram.shape, len(names)))
        for place, name in enumerate(names):
            ahead, behind = (_moved(kernel, source, name, math.exp(move)) for move in (step, -step))
            known = np.isfinite(ahead) & np.isfinite(behind)
            slope = np.subtract(ahead, behind, where=known, out=np.zeros(gram.shape)) / (2 * step)
            gradient[..., place] = gram * slope if log else slope
        return gram, gradient

    def _sources(self, X: Any) -> Any:
        """Return a kernel that can be evaluated, and the source of the objects."""
        return self.kernel.sources(X)[:2]

    def diag(self, X: Any) -> Floats:
        """Return the kernel of every object with itself.

        Parameters
        ----------
        X : data
            Objects to compare.
        """
        return np.array(to_numpy(self.kernel.diag(X)), dtype=np.float64)

    def is_stationary(self) -> bool:
        """Whether the kernel depends on the difference of two vectors only: `RBF`, and kernels made from it."""
        return _is_stationary(self.kernel)

    @property
    def requires_vector_input(self) -> bool:
        """False: the objects may be of any kind that the kernel accepts."""
        return False


def _matrix(kernel: Kernel, source: Any, *, log: bool) -> Floats:
    evaluation = kernel._evaluation
    return np.asarray(to_numpy(evaluation.matrix(evaluation.prepared(source), None, log=log)))


def _moved(kernel: Any, source: Any, name: str, factor: float) -> Floats:
    """Return the Gram matrix in the kernel's domain, with one of its parameters multiplied."""
    changed, value = independent(kernel), _values(kernel)[name]
    _assign(changed, name.split("__"), value * factor)
    try:
        return _matrix(changed, source, log=kernel.domain == "log").astype(np.float64, copy=False)
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(
            f"{type(kernel).__name__} has no derivative by {name} at {value:g} ({error}). Fix it with "
            f"as_gp({{'{name}': 'fixed'}})"
        ) from None


def smooth_parameters(kernel: Kernel) -> Iterator[tuple[str, float, tuple[float, float]]]:
    """Yield the name, such as ``k0__gamma``, the value and the usual bounds of every parameter with a derivative."""
    for name in kernel._smooth_parameters():
        value = getattr(kernel, name)
        if is_number(value) and float(value) > 0:
            yield name, float(value), kernel._smooth[name]
    for part in parts_of(kernel):
        for name, value, bounds in smooth_parameters(getattr(kernel, part)):
            yield f"{part}__{name}", value, bounds


def parts_of(kernel: Kernel) -> tuple[str, ...]:
    """Return the names of the parts whose parameters may change after ``fit``: those of a transparent compound."""
    return kernel._names() if isinstance(kernel, Compound) and kernel._transparent else ()


def _values(kernel: Kernel) -> dict[str, float]:
    """Return the values of all hyper-parameters by name."""
    return {name: value for name, value, _ in smooth_parameters(kernel)}


def gp_kernel(kernel: Any, bounds: Any) -> GPKernel:
    """Return a `GPKernel` of a copy of ``kernel``; raise if the kernel must be fitted first."""
    made = GPKernel(ready(kernel), copy.deepcopy(bounds))
    made.hyperparameters  # noqa: B018  (raises where bounds have no meaning)
    return made


def ready(kernel: Any) -> Any:
    """Return a copy of a kernel whose values do not depend on the other objects of a call, or raise."""
    if not isinstance(kernel, Kernel):
        raise TypeError(f"kernel must be a mercer kernel, such as mc.RBF(); got {kernel!r}.")
    kernel._check_parameters()
    if kernel._needs_fit or hasattr(kernel, "train_"):
        kernel._ready()
    elif (learner := _first_of_data(kernel)) is not None:
        # From a few new samples it would learn different values, and a pair would have two kernel values.
        raise NotFittedError(
            f"This {type(learner).__name__} learns shared state from the data (a prior, a start, a variance floor, an "
            "alphabet), which must not change between calls in a Gaussian process. Call "
            "kernel.fit(training_data) first, or use mc.GaussianProcess(kernel), which fits it."
        )
    copied = independent(kernel)
    if not hasattr(kernel, "train_"):
        _seed(copied)
    return copied


def _first_of_data(kernel: Any) -> Any:
    """Return the first part that learns from the data of a call, or None."""
    if isinstance(kernel, Compound):
        found = (_first_of_data(getattr(kernel, name)) for name in kernel._names())
        return next((part for part in found if part is not None), None)
    return kernel if kernel._learns_from_call else None


def _seed(kernel: Any) -> None:
    """Replace generators, whose state changes between calls, by seeds drawn from them."""
    for name in parts_of(kernel):
        _seed(getattr(kernel, name))
    if hasattr(kernel, "random_state"):
        kernel.random_state = seed_of(kernel.random_state)


def independent(kernel: Any) -> Any:
    """Return a fitted copy whose parameters can be set without changing the original.

    Nested kernels and estimators are copied, too; data are shared.
    """
    twin = copy.copy(kernel)
    if hasattr(twin, "n_features_in_"):  # Gaussian processes check names of columns themselves, and pass arrays on
        twin.__dict__.pop("feature_names_in_", None)
    for name, value in vars(twin).items():
        if isinstance(value, BaseEstimator):
            twin.__dict__[name] = independent(value)
        elif isinstance(value, tuple | list) and any(isinstance(part, BaseEstimator) for part in value):
            parts = (independent(part) if isinstance(part, BaseEstimator) else part for part in value)
            twin.__dict__[name] = type(value)(parts)
    return twin


def _assign(kernel: Any, path: list[str], value: float) -> None:
    """Set a parameter of a kernel or of its parts, including the fitted parts."""
    first, *rest = path
    if not rest:
        setattr(kernel, first, value)
        return
    _assign(getattr(kernel, first), rest, value)
    if hasattr(kernel, "kernels_"):
        _assign(kernel.kernels_[kernel._names().index(first)], rest, value)


def _is_stationary(kernel: Any) -> bool:
    parts = parts_of(kernel)
    return all(_is_stationary(getattr(kernel, name)) for name in parts) if parts else kernel._stationary
