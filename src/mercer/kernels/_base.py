"""The base of every kernel: a scikit-learn transformer that promises, while the Gram engine fills."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cache
from typing import Any, ClassVar, Self

import numpy as np
from array_api_compat import is_numpy_array
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from mercer import _config
from mercer._array import Array, beside, frozen, namespace, safe_log, to_numpy
from mercer._cache import parameter_key
from mercer._checks import is_number
from mercer._renamed import PARAMETERS
from mercer._verdict import Verdict
from mercer.data._wrapped import is_wrapped
from mercer.data.segments import data_digests
from mercer.gram._engine import fill
from mercer.gram._memo import gather
from mercer.kernels._changes import check_unchanged, values_of
from mercer.kernels._data import arrived, check_libraries, hashable, joined, len_of, named, some
from mercer.kernels._operands import scaled_rows

Floats = np.ndarray[Any, Any]


class NoFeatures(TypeError):
    """A kernel has no finite explicit features."""


class Prepared:
    """An operand and the self-kernels that normalise it: what the engine slices into tiles."""

    def __init__(self, operand: Any, norm: Array | None, zero: Floats | None = None) -> None:
        self.operand = operand
        self.norm = norm
        self.zero = zero

    @property
    def order(self) -> Floats | None:
        """The operand's hint: neighbours cost alike."""
        return getattr(self.operand, "order", None)

    @property
    def tile_hint(self) -> int:
        """The operand's hint: rows of a tile."""
        return int(getattr(self.operand, "tile_hint", 256))

    def __len__(self) -> int:
        return len(self.operand)

    def __getitem__(self, key: Any) -> Prepared:
        norm = None if self.norm is None else self.norm[..., key]
        return Prepared(self.operand[key], norm, None if self.zero is None else self.zero[..., key])


class Kernel(TransformerMixin, BaseEstimator):
    """A positive semi-definite kernel as a scikit-learn transformer.

    ``fit`` keeps the training data, ``fit_transform`` gives their Gram matrix, ``transform`` the rows of new data
    against them: ``make_pipeline(kernel, SVC(kernel="precomputed"))``. ``kernel(X)`` and ``kernel(X, Y)`` give
    matrices without learning anything.

    A subclass writes `_prepare`, `_tile` and `_self`, and says in ``domain`` whether these return logarithms.
    """

    domain: str = "log"
    """What ``_tile`` and ``_self`` return: "log", or "linear" for kernels that can be negative."""
    nonnegative: bool = False
    """Whether a "linear" kernel is never negative all the same, so that it has a logarithm, of zero -inf."""
    infinitely_divisible: bool = False
    """Whether every positive power of the normalised kernel is a positive semi-definite kernel too."""
    normalize: bool = False
    on_zero: str = "raise"
    _memoize: ClassVar[bool] = True
    _why_zero: ClassVar[str] = ""
    """Half a sentence in brackets: what an object of zero norm is like."""

    def __new__(cls, *args: Any, **parameters: Any) -> Self:
        """Name the successor of a parameter that was renamed."""
        for old in PARAMETERS.keys() & parameters.keys() - set(cls._get_param_names()):
            raise TypeError(f"{cls.__name__} has no parameter {old!r}; use {PARAMETERS[old]!r}")
        return super().__new__(cls)

    # -- what a subclass writes ------------------------------------------------------------------------

    def _accept(self, X: Any, *, reset: bool) -> Any:
        """Turn what a user passes into checked data."""
        raise NotImplementedError

    def _learn(self, X: Any, y: Any = None) -> None:
        """Learn from accepted training data what the kernel needs: a context, a model, a centre."""

    def _source(self, X: Any) -> Any:
        """Turn accepted data into what is compared: a batch of models, or the data themselves."""
        return X

    def _training(self, X: Any) -> Any:
        """Return the source of the accepted training data, and learn from it what asks for it; comes after `_learn`."""
        source = self._source(X)
        # The caller may write into a matrix later; all else is a copy already.
        return frozen(source) if is_numpy_array(source) else source

    def _match(self, source: Any, reference: Any) -> Any:
        """Check that two sources can be compared, and return the first as the second is stored."""
        return source

    def _prepare(self, source: Any) -> Any:
        """Do once per batch what does not depend on the other side; returns an operand."""
        raise NotImplementedError

    def _tile(self, a: Any, b: Any) -> Array:
        """Answer a tile, ``(..., I, J)``: pure and thread-safe."""
        raise NotImplementedError

    def _self(self, a: Any) -> Array:
        """Answer every object with itself, ``(..., N)``."""
        raise NotImplementedError

    def _check_parameters(self) -> None:
        """Raise where a parameter has no meaning."""
        if not isinstance(self.normalize, bool | np.bool_):
            raise ValueError(f"normalize = {self.normalize!r}: give True or False")
        if self.on_zero not in ("raise", "zero"):
            raise ValueError(
                f"on_zero must be 'raise', or 'zero' to give samples of zero norm zeros; got {self.on_zero!r}"
            )

    @property
    def _needs_fit(self) -> str:
        """Why the kernel cannot answer before ``fit``; empty if it can."""
        return ""

    @property
    def _takes_confounds(self) -> bool:
        """Whether the kernel takes objects beside their confounds (`Confounded`)."""
        return False

    def _learned(self) -> Any:
        """Return what was learned and changes kernel values, as something that can be hashed."""
        return None

    def _fixed_by_fit(self) -> tuple[str, ...]:
        """Name the parameters that went into what ``fit`` learned; all others take effect at once."""
        return ()

    @property
    def psd(self) -> Verdict:
        """Whether every Gram matrix is positive semi-definite, and why."""
        raise NotImplementedError

    # -- scikit-learn -----------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:
        """Keep the training data, and learn from them what the kernel shares.

        Parameters
        ----------
        X : data
            What the kernel compares: a batch of models, sequences, a matrix, ...
        y : array, default=None
            Ignored by most kernels.
        """
        self._check_parameters()
        accepted = self._admit(arrived(X), reset=True)
        self._learn(accepted, y)
        self.train_ = self._training(accepted)
        self._fitted_with = values_of(self, self._fixed_by_fit())
        return self

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Array:
        """Fit, and return the Gram matrix of the training data, ``(N, N)``."""
        self.fit(X, y, **fit_params)
        return self._remembered(self.train_, None)

    def transform(self, X: Any) -> Array:
        """Return the kernel of new data with the training data, ``(M, N)``."""
        check_is_fitted(self, "train_")
        self._check_unchanged()
        source = self._source(self._admit(arrived(X), reset=False))
        check_libraries(source, self.train_)
        return self._remembered(self._match(source, self.train_), self.train_)

    def get_feature_names_out(self, input_features: Any = None) -> Floats:
        """Name the columns of the Gram matrix: one per training object."""
        check_is_fitted(self, "train_")
        name = type(self).__name__.lower()
        return np.array([f"{name}{i}" for i in range(len_of(self.train_))], dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        sent = _config.snapshot()
        return state if sent is None else {**state, "_settings": sent}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        _config.adopt(state.pop("_settings", None))
        super().__setstate__(state)

    # -- matrices ----------------------------------------------------------------------------------------

    def __call__(self, X: Any, Y: Any = None) -> Array:
        """Return the Gram matrix of ``X``, or the cross-Gram of ``X`` and ``Y``."""
        kernel, a, b = self.operands(X, Y)
        return kernel._matrix(a, b, log=False)

    def log(self, X: Any, Y: Any = None) -> Array:
        """Return the logarithm of the Gram matrix, exact where the kernel itself under- or overflows."""
        kernel, a, b = self.operands(X, Y)
        if kernel.domain == "log":
            return kernel._matrix(a, b, log=True)
        values = kernel._matrix(a, b, log=False)
        if bool(namespace(values).any(values < 0)):
            raise ValueError(
                f"{type(self).__name__} takes negative values here, which have no logarithm: use the kernel itself"
            )
        return safe_log(values)

    def diag(self, X: Any) -> Array:
        """Return the kernel of every object with itself, without the rest of the matrix."""
        kernel, a, _ = self.operands(X)
        return kernel._exp(kernel._diagonal(a))

    def distance(self, X: Any, Y: Any = None) -> Array:
        """Return the distances in feature space, sqrt(k(x,x) + k(y,y) - 2 k(x,y)) (KK-4)."""
        kernel, a, b = self.operands(X, Y)
        values = kernel._matrix(a, b, log=kernel.domain == "log")
        own = kernel._diagonal(a)
        other = own if b is None else kernel._diagonal(b)
        return namespace(values).sqrt(kernel._squared_distances(values, own, other))

    def _squared_distances(self, values: Array, own: Array, other: Array) -> Array:
        """Compute k(x,x) + k(y,y) - 2 k(x,y) from values and self-kernels in the kernel's domain (KK-4)."""
        xp = namespace(values)
        own, other = own[..., :, None], other[..., None, :]
        plain = self._exp(own) + self._exp(other) - 2 * self._exp(values)
        if self.domain == "log":
            # Where self-kernels are alike, without cancellation: 2 e^h (cosh g - e^(log k - h)), h their mean.
            safe, safe_other = (xp.where(side > -xp.inf, side, xp.zeros_like(side)) for side in (own, other))
            alike = (own > -xp.inf) & (other > -xp.inf) & (xp.abs(safe - safe_other) < 1)
            mean = (safe + safe_other) / 2
            gap = xp.where(alike, safe - safe_other, xp.zeros_like(mean)) / 4
            excess = xp.where(alike, values - mean, xp.zeros_like(values))
            close = self._exp(xp.where(alike, mean, xp.zeros_like(mean))) * (
                4 * xp.sinh(gap) ** 2 - 2 * xp.expm1(excess)
            )
            plain = xp.where(alike, close, plain)
        return xp.clip(plain, 0.0, None)

    def features(self, X: Any) -> Array:
        """Return explicit features whose inner products are the kernel, where the kernel has them."""
        kernel, a, _ = self.operands(X)
        values = kernel._features(a.operand)
        if kernel.domain == "log":
            return kernel._exp(values - a.norm[:, None] / 2 if kernel.normalize else values)  # type: ignore[index]
        return scaled_rows(values, 1 / namespace(a.norm).sqrt(a.norm)) if kernel.normalize else values

    def _features(self, a: Any) -> Array:
        """Return explicit features in the kernel's domain: their logarithms, where the kernel gives logarithms."""
        raise NoFeatures(
            f"{type(self).__name__} has no finite explicit features: use its Gram matrix, "
            f"Landmarks({type(self).__name__}(...)) or EmpiricalKernelMap({type(self).__name__}(...))"
        )

    def as_gp(self, bounds: Any = None) -> Any:
        """Return this kernel for scikit-learn's Gaussian processes, which choose its parameters by their evidence.

        Parameters
        ----------
        bounds : dict, pair, "fixed" or None, default=None
            Between which values a parameter is searched: ``{"k1__gamma": (0.1, 10.0), "weight": "fixed"}``, or one pair
            or "fixed" for all; None takes wide ones.

        Returns
        -------
        mercer.kernels.gp.GPKernel
            A copy: later changes of this kernel do not reach it. A kernel that learns has to be fitted before, and
            stays so.

        Examples
        --------
        >>> import mercer as mc
        >>> (1.0 * mc.RBF(gamma=0.5) + mc.Linear()).as_gp({"k1__weight": "fixed"}).theta.round(3)
        array([-0.693])
        """
        from mercer.kernels.gp import gp_kernel  # not at import: few programs need it

        return gp_kernel(self, bounds)

    # -- the engine's side -------------------------------------------------------------------------------

    def operands(self, X: Any, Y: Any = None) -> tuple[Self, Prepared, Prepared | None]:
        """Return a kernel that can answer, and what it has prepared of each side.

        Fits models where needed, and does once per batch what does not depend on the other side. The second side is
        None where ``Y`` is None or ``X`` itself: the matrix is symmetric.
        """
        kernel, left, right = self.sources(X, Y)
        return kernel, kernel._prepared(left), None if right is None else kernel._prepared(right)

    def sources(self, X: Any, Y: Any = None) -> tuple[Self, Any, Any]:
        """Return a kernel that can answer, and what it compares of each side: models, or checked data."""
        self._check_parameters()
        symmetric = Y is None or Y is X
        X, Y = arrived(X), None if symmetric else arrived(Y)
        self._check_confounds(X, Y)
        kernel = self._ready(X) if symmetric else self._ready(X, Y)
        left = kernel._source(kernel._admit(X, reset=False))
        if symmetric:
            return kernel, left, None
        right = kernel._source(kernel._admit(Y, reset=False))
        check_libraries(left, right)
        return kernel, left, kernel._match(right, left)

    def tile(self, a: Prepared, b: Prepared) -> Array:
        """Answer a tile in the kernel's domain, normalised if asked for."""
        values = self._tile(a.operand, b.operand)
        if self.normalize:
            if self.domain == "log":
                values = values - (a.norm[..., :, None] + b.norm[..., None, :]) / 2  # type: ignore[index]
            else:
                xp = namespace(values)
                values = values / xp.sqrt(a.norm[..., :, None]) / xp.sqrt(b.norm[..., None, :])  # type: ignore[index]
            values = self._silenced(values, a, b)
        xp = namespace(values)
        if bool(xp.any(xp.isnan(values))):
            i, j = np.argwhere(np.isnan(to_numpy(values)))[0][-2:]
            raise ArithmeticError(
                f"{type(self).__name__} has no value for a pair (row {i}, column {j} of a tile): look for numbers in "
                "the data that are too large to be squared, else please report it with the data"
            )
        return values

    def _silenced(self, values: Array, a: Prepared, b: Prepared) -> Array:
        """Let objects of zero norm resemble nothing, whatever rounding left of them."""
        xp = namespace(values)
        nothing = -xp.inf if self.domain == "log" else 0.0
        for zero, at in ((a.zero, (..., slice(None), None)), (b.zero, (..., None, slice(None)))):
            if zero is not None:
                values = xp.where(beside(values, zero[at]), nothing, values)
        return values

    def _prepared(self, source: Any) -> Prepared:
        operand = self._prepare(source)
        if not self.normalize:
            return Prepared(operand, None)
        norm = self._self(operand)
        xp = namespace(norm)
        values = to_numpy(norm)
        bad = np.argwhere(np.isnan(values) | (values == np.inf))
        if len(bad):
            raise ValueError(
                f"{named(source, bad[0][-1])} has no finite self-kernel ({values[tuple(bad[0])]}): it cannot be "
                "normalised"
            )
        zero = values == -np.inf if self.domain == "log" else values <= 0
        if not zero.any():
            return Prepared(operand, norm)
        if self.domain == "linear" and values.min() < -1e-10 * np.abs(values).max():
            raise ValueError(
                f"{named(source, int(np.argmin(values)))} has the self-kernel {values.min():.4g} under "
                f"{type(self).__name__}, which is not positive semi-definite and cannot be normalised: wrap the kernel "
                "in mc.Repaired first"
            )
        if self.on_zero == "raise":
            raise ValueError(
                f"{named(source, np.argwhere(zero)[0][-1])} has zero norm under {type(self).__name__}"
                f"{self._why_zero}, so it cannot be normalised: leave it out, set on_zero='zero' to let it resemble "
                "nothing, or normalize=False"
            )
        mask = beside(norm, zero)
        harmless = xp.zeros_like(norm) if self.domain == "log" else xp.ones_like(norm)
        return Prepared(operand, xp.where(mask, harmless, norm), zero)

    def _diagonal(self, a: Prepared) -> Array:
        """Self-kernels in the kernel's domain; exactly one when normalised."""
        if not self.normalize:
            return self._self(a.operand)
        xp = namespace(a.norm)
        one = xp.zeros_like(a.norm) if self.domain == "log" else xp.ones_like(a.norm)
        if a.zero is None:
            return one
        return xp.where(beside(one, a.zero), -xp.inf if self.domain == "log" else 0.0, one)

    def _exp(self, values: Array) -> Array:
        """Turn what is in the kernel's domain into values; infinity is none."""
        xp = namespace(values)
        if self.domain == "linear":
            if bool(xp.any(xp.isinf(values))):
                raise OverflowError(
                    f"{type(self).__name__} has values beyond the largest number: scale the data, or normalise the "
                    "kernel"
                )
            return values
        if bool(xp.any(values > float(np.log(xp.finfo(values.dtype).max)))):
            raise OverflowError(
                f"{type(self).__name__} has values up to exp({to_numpy(values).max():.6g}), beyond the largest number: "
                "use kernel.log(X), or normalise the kernel"
            )
        return xp.exp(values)

    def _matrix(self, a: Prepared, b: Prepared | None, *, log: bool) -> Array:
        def exponentiated(p: Prepared, q: Prepared) -> Array:
            return self._exp(self.tile(p, q))

        tile = self.tile if log else exponentiated
        diagonal = None
        if b is None:
            diagonal = self._diagonal(a)
            if not log:
                diagonal = self._exp(diagonal)
        return fill(tile, a, b, diagonal=diagonal, label=type(self).__name__)

    def _remembered(self, a: Any, b: Any, *, log: bool = False, last: Callable[[], Prepared] | None = None) -> Array:
        """Return the matrix of two sources through the memo of pairs; ``last`` prepares the last side."""

        @cache
        def whole(side: int) -> Prepared:  # all of it, so that messages name an object by its place in the data
            if last is not None and (side == 1 or b is None):
                return last()
            return self._prepared(a if side == 0 else b)

        setting = self._setting()
        if setting is None or not hashable(a) or not (b is None or hashable(b)):
            return self._matrix(whole(0), None if b is None else whole(1), log=log)

        def rectangle(rows: Floats, columns: Floats | None) -> Floats:
            right = None if columns is None else some(whole(0 if b is None else 1), columns)
            return self._matrix(some(whole(0), rows), right, log=log)

        digests = None if b is None else data_digests(b)
        return gather((setting, "log") if log else setting, data_digests(a), digests, rectangle)

    def _setting(self) -> Hashable | None:
        """Return a key of everything but the objects that kernel values depend on; None where there is none."""
        return parameter_key(self, self._learned()) if self._memoize else None

    def _admit(self, X: Any, *, reset: bool) -> Any:
        """Accept data, of which there must be some."""
        shape = getattr(X, "shape", None)
        if (len(X) if shape is None and hasattr(X, "__len__") else (*(shape or ()), 1)[0]) == 0:
            raise ValueError(f"{type(self).__name__} got no data (0 objects): pass at least one")
        self._check_confounds(X)
        if reset:  # set again by what has columns
            for name in ("n_features_in_", "feature_names_in_"):
                self.__dict__.pop(name, None)
        return self._accept(X, reset=reset)

    def _check_confounds(self, *data: Any) -> None:
        """Raise where objects come beside confounds, and the kernel knows nothing of these."""
        if any(is_wrapped(X) for X in data) and not self._takes_confounds:
            raise TypeError(
                f"{type(self).__name__} got objects beside their confounds, of which it knows nothing: wrap the kernel "
                "in mc.Residualized"
            )

    def _ready(self, *data: Any) -> Self:
        """Return this kernel if it can answer, else a copy that has seen what the data share. Nothing is kept."""
        if hasattr(self, "train_"):
            self._check_unchanged()
            return self
        if self._needs_fit:
            given = "training_data, y" if self.__sklearn_tags__().target_tags.required else "training_data"
            raise NotFittedError(
                f"this {type(self).__name__} cannot answer before it is fitted, because {self._needs_fit}: call "
                f"kernel.fit({given}) first"
            )
        kernel: Self = clone(self)
        kernel._learn(kernel._admit(joined(data), reset=True))
        return kernel

    def _check_unchanged(self) -> None:
        """Raise where a parameter that ``fit`` used was changed since; a part of a compound is watched by that."""
        if hasattr(self, "_fitted_with"):
            check_unchanged(self, self._fitted_with, self._fixed_by_fit())

    # -- algebra ------------------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Any:
        from mercer.kernels.algebra import Sum

        return Sum(self, other) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: Any) -> Any:
        from mercer.kernels.algebra import Product, Scaled

        if isinstance(other, Kernel):
            return Product(self, other)
        return Scaled(self, other) if is_number(other) else NotImplemented

    __rmul__ = __mul__
