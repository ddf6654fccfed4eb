"""The base class of kernels as transformers of scikit-learn, and the methods that a kernel overrides."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar, Self

import numpy as np
from array_api_compat import is_numpy_array
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from mercer import _config
from mercer._array import Array, Floats, Indices, frozen
from mercer._notices import warns_once
from mercer._parameters import CheckedParameters, Rules, boolean, one_of
from mercer._verdict import Verdict
from mercer.data.channels import by_name, is_wrapped
from mercer.data.sequences import Sequences
from mercer.kernels._data import check_libraries, check_matrix, length_of, n_objects, unwrapped
from mercer.kernels._evaluation import Prepared, Side

Bounds = Mapping[str, tuple[float, float]]
"""Parameter -> smallest and largest value in a search."""
WIDE = (1e-5, 1e5)
"""Bounds of a parameter that a Gaussian process searches, scikit-learn's own."""


class NoFeatures(TypeError):
    """A kernel has no finite explicit features."""


class Transformer(CheckedParameters, TransformerMixin, BaseEstimator):
    """What a kernel is to scikit-learn, and the methods and attributes that a subclass overrides."""

    domain: str = "log"
    """What ``_tile`` and ``_self`` return: "log", or "linear" for kernels that can be negative."""
    nonnegative: bool = False
    """Whether a "linear" kernel is never negative, so that its logarithm is defined (-inf for 0)."""
    infinitely_divisible: bool = False
    """Whether every positive power of the normalized kernel is a positive semi-definite kernel too."""
    normalize: bool = False
    on_zero: str = "raise"
    _parameters: ClassVar[Rules] = {
        "normalize": boolean(),
        "on_zero": one_of("raise", "zero", cure="With 'zero', objects of zero norm get zeros."),
    }
    _smooth: ClassVar[Bounds] = {}
    """Positive parameters of which the kernel is a smooth function, with the usual bounds of a search (``as_gp``)."""
    _stationary: ClassVar[bool] = False
    """Whether the kernel depends on the difference of two vectors only."""
    _why_zero: str = ""
    """For messages, in brackets: what an object of zero norm looks like."""

    def _accept(self, X: Any, *, reset: bool) -> Any:
        """Convert the input to checked data."""
        raise NotImplementedError

    def _learn(self, X: Any, y: Any = None) -> None:
        """Learn what the kernel needs from accepted training data: a context, a model, a center."""

    def _source(self, X: Any) -> Any:
        """Convert accepted data to the compared objects: a batch of models, or the data themselves."""
        return X

    def _training(self, X: Any) -> Any:
        """Return the source of the accepted training data, and learn what depends on it; called after `_learn`."""
        source = self._source(X)
        # The caller may write into a matrix later; everything else is a copy already.
        return frozen(source) if is_numpy_array(source) else source

    @property
    def _learns_from_values(self) -> bool:
        """Whether ``fit`` evaluates the kernel, or parts of it, on pairs of training objects."""
        return False

    def _learn_from_values(self, y: Any = None) -> None:
        """Learn from the kernel values of all pairs of ``train_``, whose targets are ``y``; the last step of ``fit``.

        `Landmarks` calls it with the landmarks as the training objects, so that its cost stays linear.
        """

    def _match(self, source: Any, reference: Any) -> Any:
        """Check that two sources can be compared, and return the first in the format of the second."""
        return source

    def _prepare(self, source: Any) -> Any:
        """Return an operand: the work that does not depend on the other side, done once per source."""
        raise NotImplementedError

    def _tile(self, a: Any, b: Any) -> Array:
        """Return the tile of two operands, ``(..., I, J)``; must be pure and thread-safe."""
        raise NotImplementedError

    def _value_tile(self, a: Any, b: Any) -> Array | None:
        """Return a tile of a "log" kernel without logarithms, not normalized; None if that is not faster."""
        return None

    def _distance_tile(self, a: Prepared, b: Prepared) -> Array | None:
        """Return squared distances from differences, which do not cancel; None to use kernel values."""
        return None

    def _self(self, a: Any) -> Array:
        """Return the self-kernel of every object, ``(..., N)``."""
        raise NotImplementedError

    def _features(self, a: Any) -> Array:
        """Return explicit features in the kernel's domain: their logarithms in the log domain."""
        name = type(self).__name__
        raise NoFeatures(
            f"{name} has no finite explicit features. Use its Gram matrix, Landmarks({name}(...)) or "
            f"EmpiricalKernelMap({name}(...))."
        )

    def _feature_names(self, width: int) -> list[str]:
        """Return the names of the ``width`` columns of ``features``; called after ``fit``."""
        name = type(self).__name__.lower()
        return [f"{name}{i}" for i in range(width)]

    def _accepts_empty(self) -> bool:
        """Whether a new sequence may be empty: it has zero norm (``on_zero``), or the model defines its law."""
        return False

    def _cheap_pairs(self, source: Any) -> bool:
        """Whether a pair is cheaper to compute than to look up, so that the memo of pairs is not used."""
        return False

    def _smooth_parameters(self) -> tuple[str, ...]:
        """Return the names in ``_smooth`` on which the kernel depends with its current parameters."""
        return tuple(self._smooth)

    @property
    def _learns_from_call(self) -> bool:
        """Whether ``kernel(X)`` before ``fit`` learns something from X that changes values, such as a prior."""
        return False

    @property
    def _needs_fit(self) -> str:
        """Why the kernel cannot be evaluated before ``fit``; empty if it can."""
        return ""

    @property
    def _takes_confounds(self) -> bool:
        """Whether the kernel accepts objects with their confounds (`Confounded`)."""
        return False

    def _learned(self) -> Any:
        """Return the learned state that kernel values depend on, as something that can be hashed."""
        return None

    @property
    def psd(self) -> Verdict:
        """Whether every Gram matrix is positive semi-definite, and why."""
        raise NotImplementedError

    _computed: dict[str, Any]
    """Results computed from the training objects; neither pickled nor copied."""
    _taken: Indices | None = None
    """The training objects as indices of the data of ``fit``; None if they are all of these."""

    # -- scikit-learn -----------------------------------------------------------------------------------

    @warns_once
    def fit(self, X: Any, y: Any = None) -> Self:
        """Keep the training data, and learn what all objects share from them.

        Parameters
        ----------
        X : data
            Objects to compare: a batch of models, sequences, a matrix, ...
        y : array, default=None
            Ignored by most kernels.
        """
        self._fit_objects(X, y)
        try:
            self._learn_from_values(y)
        except BaseException:
            del self.train_  # it is not fitted
            raise
        return self

    @warns_once
    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Array:
        """Fit the kernel and return the Gram matrix of the training data, ``(N, N)``."""
        n = length_of(X)
        check_matrix(n, n, type(self).__name__)  # before models are fitted, which may take hours
        self.fit(X, y, **fit_params)
        return self._matrix()

    @warns_once
    def transform(self, X: Any) -> Array:
        """Return the kernel of new data with the training data, ``(M, N)``."""
        check_is_fitted(self, "train_")
        self._check_parameters()  # parameters that take effect at once may have changed since ``fit``
        return self._matrix(self._new(X))

    def _matrix(self, new: Any = None) -> Array:
        """Return the kernel of new objects, a source, with the training objects; None for that of the latter."""
        raise NotImplementedError

    def _new(self, X: Any) -> Any:
        """Return the source of new data, in the format of the training data."""
        check_matrix(length_of(X), n_objects(self.train_), type(self).__name__)
        source = self._source(self._admit(unwrapped(X), reset=False))
        check_libraries(source, self.train_)
        return self._match(source, self.train_)

    @classmethod
    @cache
    def _get_param_names(cls) -> list[str]:
        found: list[str] = super()._get_param_names()  # reads the signature, which takes longer than a row of a kernel
        return found

    def get_feature_names_out(self, input_features: Any = None) -> Floats:
        """Return the names of the columns of the Gram matrix: one per training object."""
        check_is_fitted(self, "train_")
        name = type(self).__name__.lower()
        index = range(n_objects(self.train_)) if self._taken is None else self._taken.tolist()
        return np.array([f"{name}{i}" for i in index], dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state.pop("_computed", None)  # may be large or on a device
        return state

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Take the settings along to another process."""
        make, arguments, state, *rest = super().__reduce_ex__(protocol)
        sent = _config.snapshot(int(protocol))
        return make, arguments, state if sent is None else {**state, "_settings": sent}, *rest

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        _config.adopt(state.pop("_settings", None))
        super().__setstate__(state)
        if hasattr(self, "train_"):
            self._computed = {}

    # -- fitting -----------------------------------------------------------------------------------------

    def _fit_objects(self, X: Any, y: Any) -> None:
        """Do all that ``fit`` does, except for what is learned from kernel values (`_learn_from_values`)."""
        self._check_parameters()
        accepted = self._admit(unwrapped(X), reset=True)
        self._fit_accepted(accepted, y)
        self._keep_training(accepted)

    def _admit(self, X: Any, *, reset: bool) -> Any:
        """Check and convert data of at least one object."""
        shape = getattr(X, "shape", None)
        if (len(X) if shape is None and hasattr(X, "__len__") else (*(shape or ()), 1)[0]) == 0:
            raise ValueError(f"{type(self).__name__} got no data (0 objects). Pass at least one.")
        self._check_confounds(X)
        if reset:  # input with columns sets it again, and `by_name` their names
            self.__dict__.pop("n_features_in_", None)
        accepted = self._accept(by_name(self, X, reset=reset), reset=reset)
        if not reset:
            self._check_empty(accepted)
        return accepted

    def _check_empty(self, X: Any) -> None:
        """Reject empty new sequences, whose model would be the prior alone, unless the kernel defines their values."""
        if isinstance(X, Sequences) and not self._accepts_empty():
            X.require_nonempty()

    def _check_confounds(self, *data: Any) -> None:
        """Raise if objects come with confounds and the kernel does not accept them."""
        if any(is_wrapped(X) for X in data) and not self._takes_confounds:
            raise TypeError(
                f"{type(self).__name__} does not accept objects with their confounds. Wrap the kernel in "
                "mc.Residualized."
            )

    def _fit_accepted(self, X: Any, y: Any) -> None:
        """Learn from accepted data; intermediate results may be kept for the training side."""
        for name in ("train_", "_taken"):
            self.__dict__.pop(name, None)
        self._computed = {}
        self._learn(X, y)

    def _keep_training(self, X: Any) -> None:
        """Keep the source of the accepted training data; it is prepared when first needed."""
        self.train_ = self._training(X)
        if "side" in self._computed:
            self._train_side.source = self.train_

    def _copy(self) -> Self:
        """Return a shallow copy of this fitted kernel, without the settings that a pickled one takes along."""
        kernel: Self = object.__new__(type(self))
        kernel.__dict__.update(self.__dict__, _computed={})
        return kernel

    def _set_training(self, source: Any) -> None:
        self.train_ = source
        self._computed = {}

    @property
    def _train_side(self) -> Side:
        """The training data and what is computed from them, once per ``fit``."""
        found: Side | None = self._computed.get("side")
        return self._computed.setdefault("side", Side(getattr(self, "train_", None))) if found is None else found

    def _kept(self, source: Any, name: str) -> Any:
        """Return, once, a result that ``fit`` has kept for the training data; None for other data."""
        return self._train_side.spend(name) if source is getattr(self, "train_", None) else None

    def _ready(self, data: Any = None) -> Self:
        """Return this kernel if it can be evaluated, else a copy fitted to ``data``. Nothing is kept."""
        if hasattr(self, "train_"):
            return self
        if self._needs_fit:
            given = "training_data, y" if self.__sklearn_tags__().target_tags.required else "training_data"
            raise NotFittedError(
                f"This {type(self).__name__} must be fitted before it is evaluated, because {self._needs_fit}. Call "
                f"kernel.fit({given}) first."
            )
        self._check_parameters()
        kernel: Self = clone(self)
        kernel._fit_accepted(kernel._admit(data, reset=True), None)
        return kernel

    def _current_parameters(self) -> tuple[tuple[str, Any], ...]:
        """Return all parameters that values may depend on, to detect changes after ``fit``."""
        return tuple(self.get_params(deep=False).items())
