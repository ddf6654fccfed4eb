"""A kernel without what confounds explain: age, head motion, batch, site."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np

from mercer._array import Array, beside, namespace
from mercer._verdict import Verdict
from mercer.data.segments import data_digests
from mercer.kernels._trained import TrainedWrapper
from mercer.kernels.base.compound import Views
from mercer.kernels.confounds import Confounded

Floats = np.ndarray[Any, Any]


class Explained:
    """An operand, its coordinates q in the confounds and what these explain, u: both of shape (N, rank)."""

    def __init__(self, operand: Views, q: Array, u: Array) -> None:
        self.operand = operand
        self.q = q
        self.u = u
        self.order = operand.order
        self.tile_hint = operand.tile_hint

    def __len__(self) -> int:
        return len(self.operand)

    def __getitem__(self, key: Any) -> Explained:
        return Explained(self.operand[key], self.q[key, ...], self.u[key, ...])


class Residualized(TrainedWrapper):
    r"""A kernel from whose features the confounds of the training data are regressed out.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    intercept : bool, default=True
        Whether a column of ones is among the confounds. Without it, and without a constant confound, the mean stays.
    normalize : bool, default=False
        Whether every object has the kernel 1 with itself after the confounds are gone.
    on_zero : {"raise", "zero"}, default="raise"
        What an object of zero norm gets: an error, or zeros.

    Attributes
    ----------
    rank_ : int
        Number of independent confounds, the intercept included.

    See Also
    --------
    Centered : The case without confounds.
    Confounded : Objects and their confounds in one container.

    Notes
    -----
    KK-3, with the training confounds :math:`C` and :math:`H = C C^+`:

    .. math:: K \mapsto (I - H) K (I - H), \qquad k_\text{new} \mapsto (k_\text{new} - W K)(I - H), \quad
        W = C_\text{new} C^+,

    which are inner products of :math:`\phi(x) - \sum_i w_i(x)\,\phi(z_i)`: what is left of the features after a linear
    regression on the confounds, learned on the training data alone. Columns are centred (with an intercept) and scaled
    before the pseudo-inverse, so that their units do not matter; a column that is constant in training, or a copy of
    another, changes nothing.

    Confounds come by scikit-learn's metadata routing, and this kernel asks for them by default: after
    ``sklearn.set_config(enable_metadata_routing=True)`` they are an argument of ``Pipeline.fit``, ``GridSearchCV.fit``
    and ``cross_validate(params=...)``, which cut them into folds. Or they come inside ``X``, as `Confounded`.

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

    # Requested from the start: without its confounds this kernel has nothing to do.
    __metadata_request__fit = {"confounds": True}  # noqa: RUF012
    __metadata_request__transform = {"confounds": True}  # noqa: RUF012

    def __init__(self, kernel: Any, intercept: bool = True, normalize: bool = False, on_zero: str = "raise") -> None:
        self.kernel = kernel
        self.intercept = intercept
        self.normalize = normalize
        self.on_zero = on_zero

    # -- confounds beside the data --------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, confounds: Any = None) -> Self:
        """Keep the training data, and learn what their confounds explain.

        Parameters
        ----------
        X : data
            What the kernel compares.
        y : array, default=None
            Ignored by most kernels.
        confounds : array or data frame of shape (N, c) or (N,)
            Numbers, a row for every object. Categories go through a one-hot encoder first.

        Examples
        --------
        >>> import numpy as np, mercer as mc
        >>> X, age = np.array([[1.0], [2.0], [3.5]]), [20.0, 40.0, 60.0]
        >>> kernel = mc.Residualized(mc.Linear(normalize=False)).fit(X, confounds=age)
        >>> kernel.transform(X, confounds=age).round(3)  # what age does not explain
        array([[ 0.007, -0.014,  0.007],
               [-0.014,  0.028, -0.014],
               [ 0.007, -0.014,  0.007]])
        """
        return super().fit(self._beside(X, confounds), y)

    def transform(self, X: Any, confounds: Any = None) -> Array:
        """Return the residual kernel of new data, with confounds of their own, and the training data, ``(M, N)``."""
        return super().transform(self._beside(X, confounds))

    def __call__(self, X: Any, Y: Any = None, *, confounds: Any = None, confounds_Y: Any = None) -> Array:
        """Return the Gram matrix of ``X``, or the cross-Gram of ``X`` and ``Y``; after ``fit``."""
        return super().__call__(*self._sides(X, Y, confounds, confounds_Y))

    def log(self, X: Any, Y: Any = None, *, confounds: Any = None, confounds_Y: Any = None) -> Array:
        """Return the logarithm of the Gram matrix, where nothing is negative."""
        return super().log(*self._sides(X, Y, confounds, confounds_Y))

    def diag(self, X: Any, *, confounds: Any = None) -> Array:
        """Return the kernel of every object with itself, without the rest of the matrix."""
        return super().diag(self._beside(X, confounds))

    def distance(self, X: Any, Y: Any = None, *, confounds: Any = None, confounds_Y: Any = None) -> Array:
        """Return the distances in feature space after the confounds are gone (KK-4)."""
        return super().distance(*self._sides(X, Y, confounds, confounds_Y))

    @staticmethod
    def _beside(X: Any, confounds: Any) -> Any:
        return X if confounds is None else Confounded(X, confounds)

    def _sides(self, X: Any, Y: Any, confounds: Any, confounds_Y: Any) -> tuple[Any, Any]:
        left = self._beside(X, confounds)
        if Y is None or (Y is X and confounds_Y is None):
            return left, None
        return left, self._beside(Y, confounds_Y)

    @property
    def _needs_fit(self) -> str:
        return "it learns from the training data and their confounds what these explain"

    def _fixed_by_fit(self) -> tuple[str, ...]:
        return (*super()._fixed_by_fit(), "intercept")

    @property
    def _takes_confounds(self) -> bool:
        return True

    def _accept(self, X: Any, *, reset: bool) -> Views:
        if not isinstance(X, Confounded):
            raise TypeError(
                "Residualized got no confounds: pass fit(X, y, confounds=C) and transform(X, confounds=C), a row of C "
                "for every object of X, in a pipeline or search after sklearn.set_config(enable_metadata_routing="
                "True); where they cannot come that way, put them into X, as mc.Confounded(X, C)"
            )
        if reset:
            self._known_confounds = X.confounds.shape[1], X.names
        width, names = self._known_confounds
        if X.confounds.shape[1] != width:
            raise ValueError(
                f"the confounds have {X.confounds.shape[1]} columns, and {width} in training: encode both alike, for "
                "categories with one OneHotEncoder that was fitted to all levels"
            )
        if X.names is not None and names is not None and X.names != names:
            raise ValueError(
                f"the confounds are {X.names}, and were {names} in training: give the same columns in order"
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
        self._learn_confounds(X.parts[1])
        return Views((*super()._training(Views(X.parts[:1])).parts, X.parts[1]))

    def _learn_confounds(self, values: Floats) -> None:
        """Learn an orthonormal basis U of the confounds' columns, and how to find an object's coordinates in it."""
        n = len(values)
        # A column's largest value comes near 1, so that squares are numbers; by a power of two, which rounds nothing.
        self._exponents = np.frexp(np.abs(values).max(axis=0, initial=0.0))[1]
        values = np.ldexp(values, -self._exponents)
        self._middle_of_confounds = values.mean(axis=0) if self.intercept else np.zeros(values.shape[1])
        columns = values - self._middle_of_confounds
        # A column is constant where nothing but rounding is left of it.
        size = np.linalg.norm(columns, axis=0)
        varies = size > 1e-12 * np.linalg.norm(values, axis=0)
        scale = np.where(varies, 1 / np.where(varies, size, 1.0), 0.0)
        left, singular, right = np.linalg.svd(columns * scale, full_matrices=False)
        # Centring leaves a column with the rounding errors of its values: more of them where little of it is left.
        left_over = np.linalg.norm(values, axis=0)[varies] / size[varies]
        noise = max(columns.shape) * np.finfo(float).eps * max(1.0, left_over.max(initial=1.0))
        keep = singular > noise * singular.max(initial=0.0)
        self._axes = scale[:, None] * right[keep].T / singular[keep]
        self._basis = left[:, keep]
        if self.intercept:
            self._basis = np.column_stack([np.full(n, n**-0.5), self._basis])
        self.rank_ = self._basis.shape[1]
        if self.rank_ >= n and n > 1:
            warnings.warn(
                f"{self.rank_} independent confounds explain {n} objects completely, so that nothing is left: "
                "give fewer confounds, or more objects",
                stacklevel=5,
            )

    def _coordinates(self, values: Floats) -> Floats:
        """Return q(x), ``(N, rank)``, with w(x) = q(x) U' the weights of the training objects in what is taken out."""
        found = (np.ldexp(values, -self._exponents) - self._middle_of_confounds) @ self._axes
        return np.column_stack([np.full(len(found), len(self._basis) ** -0.5), found]) if self.intercept else found

    def _learn_gram(self) -> None:
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
        return xp.where(xp.abs(values) > rounding, values, xp.zeros_like(values))  # all of it was explained

    def _learned(self) -> Any:
        return super()._learned(), data_digests(self.train_)

    @property
    def psd(self) -> Verdict:
        """As the kernel."""
        return Verdict(str(self._inner.psd), f"inner products of residual features (KK-3); {self._inner.psd.reason}")
