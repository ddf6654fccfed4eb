"""The base class of every kernel: a scikit-learn transformer."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Self

import numpy as np
from scipy import sparse

from mercer._array import Array, namespace, safe_log
from mercer._batch import Batch
from mercer._cache import parameter_key
from mercer._checks import is_number
from mercer._notices import warns_once
from mercer.kernels._data import check_libraries, check_matrix, length_of, unwrapped
from mercer.kernels._evaluation import Evaluation, Prepared, Side, evaluation_of
from mercer.kernels._operands import scaled_rows
from mercer.kernels.base.transformer import Transformer


class Kernel(Transformer):
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

    # -- matrices ----------------------------------------------------------------------------------------

    def __call__(self, X: Any, Y: Any = None) -> Array:
        """Return the Gram matrix of ``X``, or the cross-Gram of ``X`` and ``Y``.

        A kernel that is not fitted learns from ``Y`` alone, as in ``fit(Y).transform(X)``; from ``X`` if there is none.
        """
        check_matrix(length_of(X), length_of(X if Y is None else Y), type(self).__name__)
        kernel, a, b = self._for_matrix(X, Y)
        return kernel._evaluation.matrix(a, b)

    def log(self, X: Any, Y: Any = None) -> Array:
        """Return the logarithm of the Gram matrix, exact even where the kernel under- or overflows."""
        kernel, a, b = self._for_matrix(X, Y)
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
        kernel, a, _ = self._for_matrix(X)
        return kernel._evaluation.returned(kernel._evaluation.exp(kernel._evaluation.diagonal(a)), a)

    def distance(self, X: Any, Y: Any = None) -> Array:
        """Return the distances in feature space, sqrt(k(x,x) + k(y,y) - 2 k(x,y)) (KK-4)."""
        kernel, a, b = self._for_matrix(X, Y)
        squared = kernel._evaluation.distances(a, b)
        return namespace(squared).sqrt(squared)

    def features(self, X: Any) -> Array:
        """Return explicit features whose inner products are the kernel, if the kernel has any."""
        kernel, a, _ = self._for_matrix(X)
        return kernel._normalized_features(a)

    def _training_features(self) -> Array:
        """Return explicit features of the training objects; what `fit` has kept for them is used."""
        return self._normalized_features(self._evaluation.prepared_side(self._train_side))

    def _normalized_features(self, a: Prepared) -> Array:
        values = self._features(a.operand)
        if self.domain == "log" and sparse.issparse(values):  # logarithms of the features that are not zero
            shift = np.repeat(a.norm / 2, np.diff(values.indptr)) if self.normalize else 0.0  # type: ignore[operator]
            logs = (values.data - shift).astype(values.dtype, copy=False)
            values = sparse.csr_array((self._evaluation.exp(logs), values.indices, values.indptr), shape=values.shape)
        elif self.domain == "log":
            values = self._evaluation.exp(values - a.norm[:, None] / 2 if self.normalize else values)  # type: ignore[index]
        elif self.normalize:
            values = scaled_rows(values, 1 / namespace(a.norm).sqrt(a.norm))
        return self._evaluation.returned(values, a)

    # -- evaluation --------------------------------------------------------------------------------------

    @property
    def _evaluation(self) -> Evaluation:
        return evaluation_of(self)

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

    def _for_matrix(self, X: Any, Y: Any = None) -> tuple[Self, Prepared, Prepared | None]:
        """Return the same where matrices are computed."""
        kernel, left, right = self.sources(X, Y)
        return kernel, *kernel._evaluation.sides(left, right)

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
        return kernel, left, kernel._match(right, left)

    def _to_be_timed(self, X: Any, Y: Any = None) -> tuple[Self, Any, Any]:
        """Return what `sources` does, for a kernel that must be fitted too, for `mercer.gram.estimate`."""
        from mercer.kernels._subset import to_be_timed  # not at import time: it imports kernels

        return to_be_timed(self, X, Y)

    def _identity(self, X: Any, Y: Any = None) -> dict[str, Any]:
        """Return the text and the digests of all that the matrix of ``X`` and ``Y`` depends on; nothing is fitted."""
        from mercer.kernels._subset import identity

        return identity(self, X, Y)

    def _matrix(self, new: Any = None) -> Array:
        return self._gram(self._train_side, None) if new is None else self._gram(Side(new), self._train_side)

    def _gram(self, left: Side, right: Side | None, *, log: bool = False) -> Array:
        """Return the matrix of two sides through the memo of pairs; with ``log``, in the kernel's domain."""
        return self._evaluation.remembered(left, right, log=log)

    def _setting(self) -> Hashable | None:
        """Return a key of all that kernel values depend on, except the objects; None if there is no key."""
        return parameter_key(self, self._learned())

    # -- arithmetic --------------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Any:
        from mercer.kernels.algebra import Sum  # not at import time: it imports kernels

        return Sum.of(self, other) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: Any) -> Any:
        from mercer.kernels.algebra import Product, Scaled

        if isinstance(other, Kernel):
            return Product.of(self, other)
        return Scaled(self, other) if is_number(other) else NotImplemented

    __rmul__ = __mul__

    def as_gp(self, bounds: Any = None) -> Any:
        """Return this kernel for scikit-learn's Gaussian processes, which tune its parameters.

        Parameters
        ----------
        bounds : dict, pair, "fixed" or None, default=None
            Search interval of each parameter: ``{"k0__gamma": (0.1, 10.0), "weight": "fixed"}``, or one pair or
            "fixed" for all; with None, the intervals are wide.

        Returns
        -------
        mercer.kernels.gp.GPKernel
            A copy: later changes of this kernel do not affect it. A kernel that learns from data must be fitted
            first, and is not fitted again.

        Examples
        --------
        >>> import mercer as mc
        >>> kernel = 1.0 * mc.RBF(gamma=0.5) + mc.Linear()
        >>> kernel.as_gp({"k0__weight": "fixed"}).theta.round(3)
        array([-0.693])
        """
        from mercer.kernels.gp import gp_kernel  # not at import time: few programs need it

        return gp_kernel(self, bounds)
