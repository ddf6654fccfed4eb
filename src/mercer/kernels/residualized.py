"""Kernels with confounds, such as age, head motion, batch or site, regressed out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from mercer._array import Array, Floats, beside, namespace
from mercer._notices import notify, warns_once
from mercer.kernels._operands import Annotated
from mercer.kernels._trained import TrainedWrapper
from mercer.kernels.base.compound import Views
from mercer.kernels.confounds import Confounded


@dataclass
class Explained(Annotated):
    """Operand with its coordinates q in the confounds and the part u that these explain, both of shape (N, rank)."""

    q: Array
    u: Array


@dataclass(eq=False, repr=False)
class Residualized(TrainedWrapper):
    r"""Kernel with confounds regressed out of its features.

    Parameters
    ----------
    kernel : Kernel
        The kernel to residualize.
    intercept : bool, default=True
        Whether to add a column of ones to the confounds. Without it, or a constant confound, the mean is not removed.
    normalize : bool, default=False
        Whether to normalize the residual kernel, so that k(x, x) = 1; not by default, because objects that the
        confounds explain have almost no norm.
    on_zero : {"raise", "zero"}, default="raise"
        What to do with an object of zero norm: raise an error, or set its kernel values to zero.

    Attributes
    ----------
    rank_ : int
        Number of linearly independent confounds, including the intercept.

    See Also
    --------
    Centered : The special case of an intercept only.
    Confounded : Objects and their confounds in one container.

    Notes
    -----
    KK-3, with the training confounds :math:`C` and :math:`H = C C^+`:

    .. math:: K \mapsto (I - H) K (I - H), \qquad k_\text{new} \mapsto (k_\text{new} - W K)(I - H), \quad
        W = C_\text{new} C^+,

    which are inner products of :math:`\phi(x) - \sum_i w_i(x)\,\phi(z_i)`: the residuals of the features after a
    linear regression on the confounds, learned from the training data only. Columns are centered (with an intercept)
    and scaled before the pseudo-inverse, so that their units do not matter; a column that is constant in training, or
    a copy of another, has no effect.

    Confounds are passed by scikit-learn's metadata routing, and this kernel requests them by default: after
    ``sklearn.set_config(enable_metadata_routing=True)`` they are an argument of ``Pipeline.fit``, ``GridSearchCV.fit``
    and ``cross_validate(params=...)``, which split them into folds. They can also be part of ``X``, as `Confounded`.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> age = np.array([20.0, 30.0, 40.0, 50.0])
    >>> X = np.column_stack([age, [1.0, -1.0, -1.0, 1.0]])
    >>> kernel = mc.Residualized(mc.Linear(normalize=False)).fit(X, confounds=age)
    >>> kernel(X, confounds=age).round(6) + 0.0
    array([[ 1., -1., -1.,  1.],
           [-1.,  1.,  1., -1.],
           [-1.,  1.,  1., -1.],
           [ 1., -1., -1.,  1.]])
    >>> kernel.transform([[99.0, 2.0]], confounds=[99.0]).round(6) + 0.0
    array([[ 2., -2., -2.,  2.]])
    """

    _preserved_by = "inner products of residual features (KK-3)"

    # Requested by default: this kernel cannot be fitted without confounds.
    __metadata_request__fit = {"confounds": True}  # noqa: RUF012
    __metadata_request__transform = {"confounds": True}  # noqa: RUF012

    kernel: Any
    intercept: bool = True
    normalize: bool = False
    on_zero: str = "raise"

    # -- confounds next to X --------------------------------------------------------------------------------

    @warns_once
    def fit(self, X: Any, y: Any = None, confounds: Any = None) -> Self:
        """Fit the kernel and the regression on the confounds.

        Parameters
        ----------
        X : data
            Input of the kernel.
        y : array, default=None
            Ignored by most kernels.
        confounds : array or data frame of shape (N, c) or (N,)
            Numbers, one row per object. Encode categories with a one-hot encoder first.

        Examples
        --------
        >>> import numpy as np, mercer as mc
        >>> X, age = np.array([[1.0], [2.0], [3.5]]), [20.0, 40.0, 60.0]
        >>> kernel = mc.Residualized(mc.Linear(normalize=False)).fit(X, confounds=age)
        >>> kernel.transform(X, confounds=age).round(3)  # the part that age does not explain
        array([[ 0.007, -0.014,  0.007],
               [-0.014,  0.028, -0.014],
               [ 0.007, -0.014,  0.007]])
        """
        return super().fit(self._with_confounds(X, confounds), y)

    def transform(self, X: Any, confounds: Any = None) -> Array:
        """Return the residual kernel between new data, with their confounds, and the training data, ``(M, N)``."""
        return super().transform(self._with_confounds(X, confounds))

    def __call__(self, X: Any, Y: Any = None, *, confounds: Any = None, confounds_Y: Any = None) -> Array:
        """Return the Gram matrix of ``X``, or the cross-Gram of ``X`` and ``Y``; after ``fit``."""
        return super().__call__(*self._sides(X, Y, confounds, confounds_Y))

    @staticmethod
    def _with_confounds(X: Any, confounds: Any) -> Any:
        return X if confounds is None else Confounded(X, confounds)

    def _sides(self, X: Any, Y: Any, confounds: Any, confounds_Y: Any) -> tuple[Any, Any]:
        left = self._with_confounds(X, confounds)
        if Y is None or (Y is X and confounds_Y is None):
            return left, None
        return left, self._with_confounds(Y, confounds_Y)

    @property
    def _needs_fit(self) -> str:
        return "it learns a regression from the training data and their confounds"

    @property
    def _takes_confounds(self) -> bool:
        return True

    def _accept(self, X: Any, *, reset: bool) -> Views:
        if not isinstance(X, Confounded):
            raise TypeError(
                "Residualized got no confounds. Call fit(X, y, confounds=C) and transform(X, confounds=C), with one "
                "row of C per object of X, in a pipeline or search after sklearn.set_config(enable_metadata_routing="
                "True), or pass mc.Confounded(X, C) as X."
            )
        if reset:
            self._known_confounds = X.confounds.shape[1], X.names
        width, names = self._known_confounds
        if X.confounds.shape[1] != width:
            raise ValueError(
                f"The confounds have {X.confounds.shape[1]} columns, but had {width} in training. Encode both in the "
                "same way, for categories with one OneHotEncoder that was fitted to all levels."
            )
        if X.names is not None and names is not None and X.names != names:
            raise ValueError(
                f"The confounds are {X.names}, but were {names} in training. Pass the same columns in the same order."
            )
        return Views((*super()._accept(X.objects, reset=reset).parts, X.confounds))

    def _learn(self, X: Views, y: Any = None) -> None:
        super()._learn(Views(X.parts[:1]), y)

    def _source(self, X: Views) -> Views:
        return Views((*super()._source(Views(X.parts[:1])).parts, X.parts[1]))

    def _match(self, source: Views, reference: Views) -> Views:
        matched = super()._match(Views(source.parts[:1]), Views(reference.parts[:1]))
        return Views((*matched.parts, *source.parts[1:]))

    # -- mathematics ------------------------------------------------------------------------------------------

    def _training(self, X: Views) -> Views:
        return Views((*super()._training(Views(X.parts[:1])).parts, X.parts[1]))

    def _learn_confounds(self, values: Floats) -> None:
        """Learn an orthonormal basis U of the columns of the confounds, and the map to coordinates in it."""
        n = len(values)
        # Scale each column to about 1, so that squares do not overflow; a power of two causes no rounding.
        self._exponents = np.frexp(np.abs(values).max(axis=0, initial=0.0))[1]
        values = np.ldexp(values, -self._exponents)
        self._middle_of_confounds = values.mean(axis=0) if self.intercept else np.zeros(values.shape[1])
        columns = values - self._middle_of_confounds
        # A column is constant if only rounding is left after centering.
        size = np.linalg.norm(columns, axis=0)
        varies = size > 1e-12 * np.linalg.norm(values, axis=0)
        scale = np.where(varies, 1 / np.where(varies, size, 1.0), 0.0)
        left, singular, right = np.linalg.svd(columns * scale, full_matrices=False)
        # Centering leaves the rounding errors of the values, which weigh more if little of the column is left.
        left_over = np.linalg.norm(values, axis=0)[varies] / size[varies]
        noise = max(columns.shape) * np.finfo(float).eps * max(1.0, left_over.max(initial=1.0))
        keep = singular > noise * singular.max(initial=0.0)
        self._axes = scale[:, None] * right[keep].T / singular[keep]
        self._basis = left[:, keep]
        if self.intercept:
            self._basis = np.column_stack([np.full(n, n**-0.5), self._basis])
        self.rank_ = self._basis.shape[1]
        if self.rank_ >= n and n > 1:
            notify(
                f"{self.rank_} independent confounds explain {n} objects completely, so the residual kernel is zero. "
                "Use fewer confounds or more objects.",
            )

    def _coordinates(self, values: Floats) -> Floats:
        """Return q(x), ``(N, rank)``; w(x) = q(x) U' are the weights of the training objects in the regression."""
        found = (np.ldexp(values, -self._exponents) - self._middle_of_confounds) @ self._axes
        return np.column_stack([np.full(len(found), len(self._basis) ** -0.5), found]) if self.intercept else found

    def _learn_gram(self) -> None:
        self._learn_confounds(self.train_.parts[1])
        matrix = self._train_gram()
        basis = beside(matrix, self._basis, matrix.dtype)
        self._half = namespace(matrix).matrix_transpose(basis) @ matrix @ basis / 2

    def _prepare(self, source: Views) -> Explained:
        objects = self._objects(source)
        columns = self._columns(objects)
        q = beside(columns, self._coordinates(source.parts[1]), columns.dtype)
        # k(x, y) - w(x) k(Z, y) - k(x, Z) w(y)' + w(x) K w(y)' = k(x, y) - q(x) u(y)' - u(x) q(y)'
        u = columns @ beside(columns, self._basis, columns.dtype) - q @ self._half
        return Explained(self._operand(objects), q, u)

    def _tile(self, a: Explained, b: Explained) -> Array:
        values = self._tiles(a.operand, b.operand)[0]
        transposed = namespace(values).matrix_transpose
        return values - a.q @ transposed(b.u) - a.u @ transposed(b.q)

    def _self(self, a: Explained) -> Array:
        own = self._diagonals(a.operand)[0]
        xp = namespace(own)
        shares = 2 * a.q * a.u
        values = own - xp.sum(shares, axis=-1)
        rounding = 1e-14 * (xp.abs(own) + xp.sum(xp.abs(shares), axis=-1))
        return xp.where(xp.abs(values) > rounding, values, xp.zeros_like(values))  # zero if only rounding is left

    def _learned(self) -> Any:
        return super()._learned(), self._basis, self._exponents, self._middle_of_confounds, self._axes
