"""Kernels for scikit-learn's Gaussian processes."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import Hyperparameter
from sklearn.gaussian_process.kernels import Kernel as _SklearnKernel

from mercer._array import Floats, to_numpy
from mercer._checks import is_number
from mercer._random import seed_of
from mercer.kernels._changes import kept_values, same
from mercer.kernels._gp_gradients import gram_and_slopes, parts_of, smooth_parameters
from mercer.kernels.base.compound import Compound
from mercer.kernels.base.kernel import Kernel


class GPKernel(_SklearnKernel):
    r"""A kernel as scikit-learn's Gaussian processes want it, made by ``kernel.as_gp()``.

    Parameters
    ----------
    kernel : Kernel
        The kernel; fitted, where it learns from training data.
    parameter_bounds : dict, pair, "fixed" or None, default=None
        Between which values a parameter is searched: ``{"k1__gamma": (0.1, 10.0), "weight": "fixed"}``, or one pair or
        "fixed" for all. None, and names that are left out: 1e-5 to 1e5, powers rho 0.05 to 5, beta up to 1; wider
        where the kernel's own value is outside.

    See Also
    --------
    mercer.objects : Wraps sequences so that Gaussian processes take them.

    Notes
    -----
    The hyper-parameters are rho, gamma, t, alpha, beta and weight of the kernel and of its parts, as far as they are
    positive numbers, under the names that ``kernel.get_params()`` has for them. A kernel class of your own declares its
    own, with the bounds of the search, as ``_smooth = {"width": (0.1, 10.0)}``. Parts of a kernel that learns from the
    training matrix (`Centered`, `EmpiricalKernelMap`, `Repaired`, `Residualized`, `TargetAligned`) stay as they
    were fitted, and so do the parameters of models.

    Derivatives are central differences in the logarithm of a parameter: two further Gram matrices of the part that has
    the parameter, with a relative error below 1e-6. Two are equal where their parameters, their bounds and what they
    have learned are.

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
        """What a Gaussian process searches: names, bounds, and which are fixed."""
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
                known = f"{', '.join(names)}, so give bounds of that" if names else "nothing, so leave bounds out"
                raise ValueError(f"bounds of {name!r}: {type(self.kernel).__name__} is searched over {known}")
            if isinstance(bounds, str) and bounds == "fixed":
                continue
            pair = list(bounds) if np.ndim(bounds) == 1 else []
            if len(pair) != 2 or not all(map(is_number, pair)) or not 0 < pair[0] <= pair[1]:
                raise ValueError(f"bounds of {name!r} = {bounds!r}: give two positive numbers in order, or 'fixed'")
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
            raise ValueError(f"theta has {len(values)} numbers, and there are {len(names)} hyper-parameters to set")
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
            As in `get_params`. A kernel is checked and copied as ``kernel.as_gp()`` does it.
        """
        kernel, bounds = params.pop("kernel", self.kernel), self.parameter_bounds
        if kernel is not self.kernel:
            kernel = ready(kernel)
        if "parameter_bounds" in params:
            bounds = copy.deepcopy(params.pop("parameter_bounds"))
        known = _values(kernel)
        for name, value in params.items():
            if name not in known:
                raise ValueError(f"{name!r} is no hyper-parameter; there are {', '.join(known) or 'none'}")
            if not is_number(value) or float(value) <= 0:
                raise ValueError(f"{name} = {value!r}: a hyper-parameter of a Gaussian process is a positive number")
        changed = {name: float(value) for name, value in params.items() if float(value) != known[name]}
        if changed:
            kernel = independent(kernel)
            for name, value in changed.items():
                _assign(kernel, name.split("__"), value)
        GPKernel(kernel, bounds).hyperparameters  # noqa: B018  (raises where bounds have no meaning, before a change)
        self.kernel, self.parameter_bounds = kernel, bounds
        return self

    def __sklearn_clone__(self) -> GPKernel:
        # What the kernel has learned from its training data stays: a Gaussian process does not fit it.
        return GPKernel(independent(self.kernel), copy.copy(self.parameter_bounds))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GPKernel):
            return NotImplemented
        return self.hyperparameters == other.hyperparameters and _alike(self.kernel, other.kernel)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value:.3g}" for name, value in _values(self.kernel).items())
        return f"GPKernel({type(self.kernel).__name__}{': ' if values else ''}{values})"

    # -- matrices ------------------------------------------------------------------------------------------

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        """Return the kernel of ``X`` and ``Y``, and its derivatives with respect to theta.

        Parameters
        ----------
        X : data
            What the kernel compares: a matrix, or ``mc.objects(sequences)``.
        Y : data, default=None
            The other side; None for the Gram matrix of ``X``.
        eval_gradient : bool, default=False
            Whether to return derivatives with respect to theta, the logarithms of the hyper-parameters, too.

        Returns
        -------
        K : array of shape (N, M)
            The kernel.
        gradient : array of shape (N, N, n_dims)
            With ``eval_gradient`` only.
        """
        if not eval_gradient:
            return np.asarray(to_numpy(self.kernel(X, Y)), dtype=np.float64)
        if Y is not None:
            raise ValueError("derivatives are those of a Gram matrix: leave out Y, or set eval_gradient=False")
        kernel, source, _ = self.kernel.sources(X)
        names = [h.name for h in self.hyperparameters if not h.fixed]
        gram, slopes = gram_and_slopes(kernel, source, names)
        gradient = np.empty((*gram.shape, len(names)))
        for place, name in enumerate(names):
            gradient[..., place] = slopes[name]
        return gram, gradient

    def diag(self, X: Any) -> Floats:
        """Return the kernel of every object with itself.

        Parameters
        ----------
        X : data
            What the kernel compares.
        """
        return np.array(to_numpy(self.kernel.diag(X)), dtype=np.float64)

    def is_stationary(self) -> bool:
        """Whether the kernel depends on the difference of two vectors only: `RBF`, and what is made of it."""
        return _is_stationary(self.kernel)

    @property
    def requires_vector_input(self) -> bool:
        """False: the objects may be anything that the kernel takes."""
        return False


def _values(kernel: Kernel) -> dict[str, float]:
    """Return the values of all hyper-parameters by their names."""
    return {name: value for name, value, _ in smooth_parameters(kernel)}


def gp_kernel(kernel: Any, bounds: Any) -> GPKernel:
    """Return a checked `GPKernel` of a copy of ``kernel``, which raises where it should have been fitted."""
    made = GPKernel(ready(kernel), copy.deepcopy(bounds))
    made.hyperparameters  # noqa: B018  (raises where bounds have no meaning)
    return made


def ready(kernel: Any) -> Any:
    """Return a copy of a kernel that gives a pair one value whatever comes beside it, or raise."""
    if not isinstance(kernel, Kernel):
        raise TypeError(f"kernel = {kernel!r}: give a kernel of mercer, such as mc.RBF()")
    kernel._check_parameters()
    if kernel._needs_fit or hasattr(kernel, "train_"):
        kernel._ready()
    elif (learner := _first_of_data(kernel)) is not None:
        # Of a few new data alone it would learn something else, and a pair would have two values.
        raise NotFittedError(
            f"this {type(learner).__name__} depends on what the training data share (a prior, a start, a floor of "
            "variances, an alphabet), which a Gaussian process must not change between calls: call "
            "kernel.fit(training_data) first"
        )
    copied = independent(kernel)
    if not hasattr(kernel, "train_"):
        _seed(copied)
    return copied


def _first_of_data(kernel: Any) -> Any:
    """Return the first part that learns from the data of a call, None where there is none."""
    if isinstance(kernel, Compound):
        found = (_first_of_data(getattr(kernel, name)) for name in kernel._names())
        return next((part for part in found if part is not None), None)
    return kernel if kernel._learns_from_call else None


def _seed(kernel: Any) -> None:
    """Replace generators, which move on between calls, by the seeds that they give now."""
    for name in parts_of(kernel):
        _seed(getattr(kernel, name))
    if hasattr(kernel, "random_state"):
        kernel.random_state = seed_of(kernel.random_state)


def independent(kernel: Any) -> Any:
    """Return a copy, fitted as the kernel is, whose parameters can be set without a change of the kernel's.

    Kernels and estimators inside are copied, too, wherever they stand; data are shared.
    """
    twin = copy.copy(kernel)
    twin.__dict__.pop("feature_names_in_", None)  # processes look at names of columns themselves, and pass arrays on
    for name, value in vars(twin).items():
        if isinstance(value, BaseEstimator):
            twin.__dict__[name] = independent(value)
        elif isinstance(value, tuple | list) and any(isinstance(part, BaseEstimator) for part in value):
            parts = (independent(part) if isinstance(part, BaseEstimator) else part for part in value)
            twin.__dict__[name] = type(value)(parts)
    return twin


def _alike(mine: Any, theirs: Any) -> bool:
    """Whether two kernels have the same parameters, and have learned the same."""
    if isinstance(mine, BaseEstimator) and isinstance(theirs, BaseEstimator):
        states = mine.__getstate__(), theirs.__getstate__()
        if type(mine) is not type(theirs) or states[0].keys() != states[1].keys():
            return False
        return all(_alike(value, states[1][name]) for name, value in states[0].items())
    if isinstance(mine, tuple | list) and type(mine) is type(theirs):
        return len(mine) == len(theirs) and all(map(_alike, mine, theirs))
    if isinstance(mine, dict) and isinstance(theirs, dict):
        return mine.keys() == theirs.keys() and all(_alike(value, theirs[name]) for name, value in mine.items())
    return same(mine, theirs)


def _assign(kernel: Any, path: list[str], value: float) -> None:
    """Set a parameter of a kernel or of its parts, of the fitted ones too."""
    first, *rest = path
    if not rest:
        setattr(kernel, first, value)
        return
    _assign(getattr(kernel, first), rest, value)
    if hasattr(kernel, "kernels_"):
        _assign(kernel.kernels_[kernel._names().index(first)], rest, value)
    if hasattr(kernel, "_fitted_with"):
        kernel._fitted_with = kept_values(kernel, kernel._fixed_by_fit())


def _is_stationary(kernel: Any) -> bool:
    parts = parts_of(kernel)
    return all(_is_stationary(getattr(kernel, name)) for name in parts) if parts else kernel._stationary
