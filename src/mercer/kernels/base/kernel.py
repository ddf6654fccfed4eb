"""The base class of every kernel: a scikit-learn transformer."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cache
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from mercer import _config
from mercer._array import Array, Floats, Indices, namespace, safe_log
from mercer._batch import Batch
from mercer._cache import parameter_key
from mercer._notices import warns_once
from mercer.data.channels import by_name, is_wrapped
from mercer.data.sequences import Sequences
from mercer.kernels._changes import check_unchanged, kept_values
from mercer.kernels._data import check_libraries, check_matrix, length_of, n_objects, unwrapped
from mercer.kernels._evaluation import Evaluation, Prepared, Side
from mercer.kernels._identity import identity
from mercer.kernels._operands import scaled_rows
from mercer.kernels.base.hooks import Hooks
from mercer.kernels.base.operators import Arithmetic, GaussianProcess


class Kernel(Hooks, Arithmetic, GaussianProcess, TransformerMixin, BaseEstimator):
    """A positive semi-definite kernel as a scikit-learn transformer.

    ``fit`` keeps the training data, ``fit_transform`` returns their Gram matrix, and ``transform`` the kernel of new
    data with them: ``make_pipeline(kernel, SVC(kernel="precomputed", C=10))``. ``kernel(X)`` and ``kernel(X, Y)``
    return matrices and keep nothing. A kernel that is not fitted learns what all objects share, such as a model or a
    prior, from ``X`` in ``kernel(X)``, and from ``Y`` alone in ``kernel(X, Y)``, as in ``fit(Y).transform(X)``.

    A subclass implements `_accept`, `_prepare`, `_tile`, `_self` and ``psd``; its ``domain`` says whether `_tile` and
    `_self` return logarithms. The stages from input to matrix are described in `mercer.kernels._evaluation`.

    Examples
    --------
    >>> import mercer as mc
    >>> kernel = mc.ProbabilityProduct(rho=0.5)
    >>> isinstance(kernel, mc.kernels.Kernel)
    True
    >>> kernel(mc.Poissons([[1.0], [4.0]])).round(4)
    array([[1.    , 0.6065],
           [0.6065, 1.    ]])
    """

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
        return self._gram(self._train_side, None)

    @warns_once
    def transform(self, X: Any) -> Array:
        """Return the kernel of new data with the training data, ``(M, N)``."""
        check_is_fitted(self, "train_")
        self._check_parameters()  # parameters that take effect at once may have changed since ``fit``
        self._check_unchanged()
        return self._gram(Side(self._new(X)), self._train_side)

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
        state.pop("_train_side", None)  # can be computed again, and may be large or on a device
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
            self._train_side = Side(self.train_)

    # -- matrices ----------------------------------------------------------------------------------------

    def __call__(self, X: Any, Y: Any = None) -> Array:
        """Return the Gram matrix of ``X``, or the cross-Gram of ``X`` and ``Y``.

        A kernel that is not fitted learns from ``Y`` alone, as in ``fit(Y).transform(X)``; from ``X`` if there is none.
        """
        check_matrix(length_of(X), length_of(X if Y is None else Y), type(self).__name__)
        kernel, a, b = self._prepared_on_device(X, Y)
        return kernel._evaluation.matrix(a, b)

    def log(self, X: Any, Y: Any = None) -> Array:
        """Return the logarithm of the Gram matrix, exact even where the kernel under- or overflows."""
        kernel, a, b = self._prepared_on_device(X, Y)
        if kernel.domain == "log":
            return kernel._evaluation.matrix(a, b, log=True)
        values = kernel._evaluation.matrix(a, b)
        if bool(namespace(values).any(values < 0)):
            raise ValueError(
                f"{type(self).__name__} takes negative values here, which have no logarithm. Use kernel(X)."
            )
        return safe_log(values)

    def diag(self, X: Any) -> Array:
        """Return the diagonal of the Gram matrix without computing the rest."""
        kernel, a, _ = self._prepared_on_device(X)
        return kernel._evaluation.returned(kernel._evaluation.exp(kernel._evaluation.diagonal(a)), a)

    def distance(self, X: Any, Y: Any = None) -> Array:
        """Return the distances in feature space, sqrt(k(x,x) + k(y,y) - 2 k(x,y)) (KK-4)."""
        kernel, a, b = self._prepared_on_device(X, Y)
        squared = kernel._evaluation.distances(a, b)
        return namespace(squared).sqrt(squared)

    def features(self, X: Any) -> Array:
        """Return explicit features whose inner products are the kernel, if the kernel has any."""
        kernel, a, _ = self._prepared_on_device(X)
        values = kernel._features(a.operand)
        if kernel.domain == "log":
            logs = values - a.norm[:, None] / 2 if kernel.normalize else values  # type: ignore[index]
            values = kernel._evaluation.exp(logs)
        elif kernel.normalize:
            values = scaled_rows(values, 1 / namespace(a.norm).sqrt(a.norm))
        return kernel._evaluation.returned(values, a)

    # -- evaluation --------------------------------------------------------------------------------------

    @property
    def _evaluation(self) -> Evaluation:
        return Evaluation(self)

    def tile(self, a: Prepared, b: Prepared) -> Array:
        """Return the tile of two prepared sides in the kernel's domain, normalized if ``normalize`` is set."""
        return self._evaluation.tile(a, b)

    def operands(self, X: Any, Y: Any = None) -> tuple[Self, Prepared, Prepared | None]:
        """Return a kernel that can be evaluated, and the prepared sides.

        Fits models where needed, and does the work that does not depend on the other side once per batch. The second
        side is None if ``Y`` is None or ``X`` itself: the matrix is symmetric.
        """
        kernel, left, right = self.sources(X, Y)
        prepared = kernel._evaluation.prepared
        return kernel, prepared(left), None if right is None else prepared(right)

    def _prepared_on_device(self, X: Any, Y: Any = None) -> tuple[Self, Prepared, Prepared | None]:
        """Return the same on the device of the settings, if the kernel runs there."""
        kernel, left, right = self.sources(X, Y)
        prepared = kernel._evaluation.prepared_here
        return kernel, prepared(left), None if right is None else prepared(right)

    @warns_once
    def sources(self, X: Any, Y: Any = None) -> tuple[Self, Any, Any]:
        """Return a kernel that can be evaluated, and the source of each side: models, or checked data."""
        self._check_parameters()
        symmetric = Y is None or Y is X
        X, Y = unwrapped(X), None if symmetric else unwrapped(Y)
        self._check_confounds(X, Y)
        kernel = self._ready(X if symmetric or isinstance(Y, Batch) else Y)  # models share nothing
        left = kernel._source(kernel._admit(X, reset=False))
        if symmetric:
            return kernel, left, None
        right = kernel._source(kernel._admit(Y, reset=False))
        check_libraries(left, right)
        if isinstance(left, Batch) and isinstance(right, Batch):
            left = left.adapted(right)
        return kernel, left, kernel._match(right, left)

    def _to_be_timed(self, X: Any, Y: Any = None) -> tuple[Self, Any, Any, Callable[[Indices], Any] | None]:
        """Return what `sources` does, and how to learn from few objects, for `mercer.gram.estimate`."""
        from mercer.kernels._subset import to_be_timed  # not at import time: it imports kernels

        return to_be_timed(self, X, Y)

    def _identity(self, X: Any, Y: Any = None) -> dict[str, Any]:
        """Return the text and the digests of all that the matrix of ``X`` and ``Y`` depends on; nothing is fitted."""
        return identity(self, X, Y)

    def _gram(self, left: Side, right: Side | None, *, log: bool = False) -> Array:
        """Return the matrix of two sides through the memo of pairs; with ``log``, in the kernel's domain."""
        return self._evaluation.remembered(left, right, log=log)

    def _setting(self) -> Hashable | None:
        """Return a key of all that kernel values depend on, except the objects; None if there is no key."""
        return parameter_key(self, self._learned())

    def _current_parameters(self) -> tuple[tuple[str, Any], ...]:
        """Return all parameters that values may depend on, to detect changes after ``fit``."""
        return tuple(self.get_params(deep=False).items())

    # -- fitting -----------------------------------------------------------------------------------------

    def _fit_objects(self, X: Any, y: Any) -> None:
        """Do all that ``fit`` does, except for what is learned from kernel values (`_learn_from_values`)."""
        self._check_parameters()
        accepted = self._admit(unwrapped(X), reset=True)
        self._fit_accepted(accepted, y)
        self._keep_training(accepted)
        self._fitted_with = kept_values(self, self._fixed_by_fit())

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
        """Raise if a new sequence is empty and the kernel does not define its values: a prior would answer for it."""
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
        self._train_side = Side()
        self.__dict__.pop("_taken", None)
        self._learn(X, y)

    def _keep_training(self, X: Any) -> None:
        """Keep the source of the accepted training data; it is prepared when first needed."""
        self.train_ = self._training(X)
        self._train_side.source = self.train_

    def _copy(self) -> Self:
        """Return a shallow copy of this fitted kernel, without the settings that a pickled one takes along."""
        kernel: Self = object.__new__(type(self))
        kernel.__dict__.update(self.__dict__)
        return kernel

    def _set_training(self, source: Any) -> None:
        self.train_ = source
        self._train_side = Side(source)

    def _kept(self, source: Any, name: str) -> Any:
        """Return, once, a result that ``fit`` has kept for the training data; None for other data."""
        return self._train_side.spend(name) if source is getattr(self, "train_", None) else None

    def _ready(self, data: Any = None) -> Self:
        """Return this kernel if it can be evaluated, else a copy fitted to ``data``. Nothing is kept."""
        if hasattr(self, "train_"):
            self._check_unchanged()
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

    def _check_unchanged(self) -> None:
        """Raise if a parameter that ``fit`` used has changed; a compound checks its parts."""
        if hasattr(self, "_fitted_with"):
            check_unchanged(self, self._fitted_with, self._fixed_by_fit())
