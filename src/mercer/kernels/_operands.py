"""Operands of several kernels: rows of a matrix, and an operand with one number per object."""

from __future__ import annotations

from dataclasses import dataclass
from operator import is_
from typing import Any

import numpy as np
from array_api_compat import is_numpy_array
from scipy import sparse

from mercer._array import Array, Floats, logsumexp, namespace, safe_log
from mercer._batch import take_rows
from mercer._coupling import FieldOperand
from mercer.data import csr as _csr
from mercer.data.csr import CSRRows
from mercer.kernels._data import n_objects


class Rows:
    """Rows of a matrix, dense or sparse: inner products by one matrix product per tile."""

    order: np.ndarray[Any, Any] | None = None
    tile_hint = 512

    def __init__(self, values: Any, dtype: Any = None) -> None:
        self.values: Any = _csr.Prepared(values) if isinstance(values, CSRRows) else values
        self.dtype = dtype  # dtype of distances, if the rows were converted to float64

    @staticmethod
    def widened(values: Any) -> Rows:
        """Store rows in float64, since distances cancel; distances are returned in the dtype of ``values``."""
        if isinstance(values, CSRRows):
            return Rows(values.widened(), values.dtype)
        return Rows(values.astype(np.float64, copy=False), values.dtype) if is_numpy_array(values) else Rows(values)

    @property
    def sparse(self) -> bool:
        """Whether the rows are sparse (CSR)."""
        return isinstance(self.values, _csr.Prepared)

    @property
    def width(self) -> int:
        """Number of columns."""
        return self.values.rows.n_columns if self.sparse else int(self.values.shape[1])

    def __len__(self) -> int:
        return len(self.values) if self.sparse else int(self.values.shape[0])

    def __getitem__(self, key: Any) -> Rows:
        return Rows(self.values[key] if self.sparse else take_rows(self.values, (key,)), self.dtype)

    def inner(self, other: Any) -> Array:
        """Return the inner products of every pair of rows."""
        if self.sparse and other.sparse:
            return _csr.outer(self.values, other.values)
        right = other.dense()
        return self.dense() @ namespace(right).matrix_transpose(right)

    def squares(self) -> Array:
        """Return the squared norms of the rows."""
        if self.sparse:
            return self.values.rows.power(2.0).row_sums()
        return namespace(self.values).sum(self.values * self.values, axis=-1)

    def squared_distances(self, other: Rows) -> Array:
        """Return |x - y|^2 of every pair; after cancellation, pairs are recomputed from their differences."""
        if self.sparse and other.sparse:
            total = self.squares()[:, None] + other.squares()[None, :]
            squared = total - 2 * self.inner(other)
            a, b = self.values.rows.to_scipy(), other.values.rows.to_scipy()
            return self._narrowed(_refined(squared, total, lambda i, j: (a[i] - b[j]).power(2).sum(axis=1)), other)
        x, y = self.dense(), other.dense()
        if is_numpy_array(x) and is_numpy_array(y):
            return self._narrowed(squared_distances(x, y), other)
        xp = namespace(x, y)
        origin = xp.mean(x, axis=0, keepdims=True)
        left, right = Rows(x - origin), Rows(y - origin)
        squared = left.squares()[:, None] + right.squares()[None, :] - 2 * left.inner(right)
        return xp.clip(squared, 0.0, None)

    def absolute_distances(self, other: Rows) -> Array:
        """Return the sum of |x_i - y_i| over the columns of every pair."""
        if self.sparse and other.sparse:
            from sklearn.metrics.pairwise import manhattan_distances

            a, b = self.values.rows.to_scipy(), other.values.rows.to_scipy()
            return self._narrowed(manhattan_distances(a, b), other)
        x, y = self.dense(), other.dense()
        if is_numpy_array(x) and is_numpy_array(y):
            return self._narrowed(absolute_distances(x, y), other)
        xp = namespace(x, y)
        return xp.sum(xp.abs(x[:, None] - y[None]), axis=-1)

    def _narrowed(self, squared: Floats, other: Rows) -> Floats:
        if self.dtype is None or other.dtype is None:
            return squared
        with np.errstate(over="ignore"):  # the kernel of such distant points is 0
            return squared.astype(np.result_type(self.dtype, other.dtype), copy=False)

    def dense(self) -> Array:
        """Return the rows as an ordinary matrix."""
        return self.values.rows.dense() if self.sparse else self.values


def are_token_counts(X: Any, models: Any) -> bool:
    """Return whether X holds sparse counts and the models assign a probability to each token."""
    return isinstance(X, CSRRows) and hasattr(models, "token_probabilities")


@dataclass
class CenteredCounts(FieldOperand):
    """Rows of counts x minus their expectation given the totals, ``x - n a``, stored sparse.

    <x - n a, z - m a> = <x, z> - m <x, a> - n <z, a> + n m |a|^2, where n and m are the totals of the rows.

    Parameters
    ----------
    rows : Rows
        Sparse counts.
    expected : array of shape (k,)
        The frequencies a.
    totals, along : array of shape (N,)
        The totals n of the rows, and their inner products <x, a>.
    """

    rows: Rows
    expected: Floats
    totals: Floats
    along: Floats
    _shared_fields = ("expected",)

    @classmethod
    def of(cls, counts: CSRRows, expected: Floats) -> CenteredCounts:
        """Return the operand of counts."""
        rows = Rows.widened(counts)
        along = np.asarray(rows.values.rows.to_scipy() @ expected)
        return cls(rows, expected, counts.row_sums(), along)

    def inner(self, other: CenteredCounts | Rows) -> Floats:
        """Return the inner products of every pair of rows."""
        if isinstance(other, Rows):
            return np.asarray(Rows(self.dense()).inner(other))
        square = self.expected @ self.expected
        values: Floats = self.rows.inner(other.rows)
        values = values - np.outer(self.along, other.totals)
        values += np.outer(self.totals, square * other.totals - other.along)
        return values

    def squares(self) -> Floats:
        """Return the squared norms of the rows; 0 if only rounding errors are left."""
        own = self.rows.squares()
        mixed, square = 2 * self.totals * self.along, self.totals**2 * (self.expected @ self.expected)
        values = own - mixed + square
        return np.where(values > 1e-14 * (own + mixed + square), values, 0.0)

    def dense(self) -> Floats:
        """Return the rows as an ordinary matrix."""
        return np.asarray(self.rows.dense() - self.totals[:, None] * self.expected)


def absolute_distances(x: Floats, y: Floats) -> Floats:
    """Compute the sum of |x_i - y_i| over the columns of every pair of rows."""
    from scipy.spatial.distance import cdist  # not with the package, whose import it would slow down

    return np.asarray(cdist(x, y, "cityblock"))


CHEAP_COLUMNS = 256
"""Up to this number of columns, computing a pair (about 50 ns) is faster than looking it up."""
CANCELLED = 1e-7
"""Squared distances below this fraction of |x|^2 + |y|^2 have lost half of their digits by cancellation."""
CHUNK = 1 << 18
"""Number of entries of differences in memory at once."""
UNDERFLOWN = 1e-280
"""Inner products of features with largest entry 1 below this value have lost terms by underflow."""


def squared_distances(x: Floats, y: Floats, negligible: float = 0.0) -> Floats:
    """Compute |x - y|^2 of every pair of rows in float64, by one matrix product.

    Pairs with cancellation are recomputed from their differences, unless ``|x|^2 + |y|^2`` about a common
    origin is at most ``negligible`` for all of them, so that rounding does not matter to the caller.
    """
    x, y = x.astype(np.float64, copy=False), y.astype(np.float64, copy=False)
    with np.errstate(over="ignore", invalid="ignore"):  # of squares that overflow; treated next
        origin = x.mean(axis=0)  # with an origin near the points, few pairs cancel
        left, right = x - origin, y - origin
        own, theirs = np.sum(left * left, axis=1), np.sum(right * right, axis=1)
        farthest = own.max(initial=0.0) + theirs.max(initial=0.0)
    if not np.isfinite(farthest):
        return _far_distances(x, y)
    total = own[:, None] + theirs
    squared = left @ (-2 * right.T)
    squared += total
    if not total.size or farthest <= negligible:
        return np.maximum(squared, 0.0, out=squared)
    return _refined(squared, total, lambda i, j: np.sum((x[i] - y[j]) ** 2, axis=1), x.shape[1])


def _far_distances(x: Floats, y: Floats) -> Floats:
    """Compute |x - y|^2 of points whose squares overflow: inf, except between points that are near each other."""
    scale = max(float(np.abs(x).max(initial=0.0)), float(np.abs(y).max(initial=0.0)))
    if not np.isfinite(scale):  # not numbers: the caller names them
        return np.full((len(x), len(y)), np.nan)
    near = squared_distances(x / scale, y / scale)
    with np.errstate(over="ignore"):
        return np.asarray(near * scale * scale)


def _refined(squared: Floats, total: Floats, differences: Any, width: int = 256) -> Floats:
    """Recompute pairs with cancellation from their differences, a few at a time."""
    rows, columns = np.nonzero(squared < CANCELLED * total)
    step = max(1, CHUNK // max(width, 1))
    for at in range(0, len(rows), step):
        i, j = rows[at : at + step], columns[at : at + step]
        squared[i, j] = np.asarray(differences(i, j)).ravel()
    return np.maximum(squared, 0.0, out=squared)


class LogFeatures:
    """Logarithms of nonnegative features, ``(N, M)``: log inner products, exact even where these underflow."""

    order: np.ndarray[Any, Any] | None = None
    tile_hint = 512

    def __init__(self, values: Floats) -> None:
        self.values = values
        largest = values.max(axis=1, initial=-np.inf)
        self.log_scale = np.where(largest > -np.inf, largest, 0.0)
        self.scaled = np.exp(values - self.log_scale[:, None])

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, key: Any) -> LogFeatures:
        return LogFeatures(self.values[key])

    def pair(self, other: LogFeatures) -> Floats:
        """Return the log inner products of every pair of rows."""
        products = self.scaled @ other.scaled.T
        logs = safe_log(products) + self.log_scale[:, None] + other.log_scale
        rows, columns = np.nonzero(products < UNDERFLOWN)
        step = max(1, CHUNK // max(self.values.shape[1], 1))
        for at in range(0, len(rows), step):
            i, j = rows[at : at + step], columns[at : at + step]
            logs[i, j] = logsumexp(self.values[i] + other.values[j], axis=1)
        return np.asarray(logs)

    def alone(self) -> Floats:
        """Return the log squared norms of the rows."""
        return np.asarray(safe_log(np.sum(self.scaled**2, axis=1)) + 2 * self.log_scale)


class LogPairs:
    """A kernel in the log domain whose operands compute all pairs, and the self-kernels."""

    def _tile(self, a: Any, b: Any) -> Array:
        return a.pair(b)

    def _self(self, a: Any) -> Array:
        return a.alone()


class InnerProducts:
    """A kernel whose values are inner products of explicit features: its operands are `Rows` or similar.

    The matrix of few objects with few dense features is one product.
    """

    domain: str = "linear"

    def _matrix(self, new: Any = None) -> Array:
        found = None if new is not None and not self._is_small(new) else self._product(new)
        return super()._matrix(new) if found is None else found  # type: ignore[misc]

    def _is_small(self: Any, source: Any) -> bool:
        return n_objects(source) <= Rows.tile_hint and self._cheap_pairs(source)

    def _product(self: Any, new: Any) -> Floats | None:
        """Return the matrix as one product of features; None if there are many, or a value is not a finite number."""
        if not self._is_small(self.train_):
            return None
        key = [value for _, value in self._current_parameters()]
        known = self._computed.get("features")
        if known is None or len(known[0]) != len(key) or not all(map(is_, known[0], key)):
            known = self._computed["features"] = (key, self._few_features(self.train_))
        right = known[1]
        left = right if new is None else self._few_features(new)
        if left is None or right is None:
            return None
        values: Floats = left[0] @ right[0].T
        if self.normalize:
            values = values / left[1][:, None] / right[1]
            if new is None:
                values = np.where(np.tri(len(values), dtype=bool), values.T, values)  # symmetric to the last bit
                np.fill_diagonal(values, 1.0)
        return values if np.isfinite(values).all() else None

    def _few_features(self: Any, source: Any) -> tuple[Floats, Floats] | None:
        """Return dense features and their norms; None for other operands, or if a norm is not positive and finite."""
        rows = self._prepare(source)
        if not isinstance(rows, Rows) or not is_numpy_array(rows.values):
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            norms = np.sqrt(np.sum(rows.values * rows.values, axis=-1))
        sound = not self.normalize or bool(np.all((norms > 0) & (norms < np.inf)))
        return (rows.values, norms) if sound else None

    def _tile(self, a: Any, b: Any) -> Array:
        return a.inner(b)

    def _self(self, a: Any) -> Array:
        return a.squares()

    def _features(self, a: Any) -> Array:
        return a.dense()

    def _distance_tile(self, a: Any, b: Any) -> Array | None:
        """Return |x - y|^2, from differences of features after cancellation; None if the operands are not rows."""
        sides = [_unit_rows(side) for side in (a, b)]
        return None if sides[0] is None or sides[1] is None else sides[0].squared_distances(sides[1])


def _unit_rows(side: Any) -> Rows | None:
    """Return the rows of a prepared side in float64, divided by their norms if the kernel is normalized."""
    rows = side.operand
    if not isinstance(rows, Rows) or not (rows.sparse or is_numpy_array(rows.values)):
        return None
    plain = Rows.widened(rows.values.rows if rows.sparse else rows.values)
    if side.norm is None:
        return plain
    factor = 1 / np.sqrt(side.norm.astype(np.float64))
    factor = factor if side.zero is None else np.where(side.zero, 0.0, factor)
    return Rows(plain.values.rows.scaled(factor) if plain.sparse else plain.values * factor[:, None], plain.dtype)


@dataclass
class Annotated(FieldOperand):
    """An operand with further fields; it has the hints of the operand."""

    operand: Any

    @property
    def order(self) -> Any:
        """The operand's hint: neighbors cost alike."""
        return self.operand.order

    @property
    def tile_hint(self) -> int:
        """The operand's hint: rows of a tile."""
        return int(self.operand.tile_hint)


@dataclass
class WithScalar(Annotated):
    """An operand with one number per object: its self-kernel, its mean kernel, or its distance to a center."""

    numbers: Array


def finite(logs: Array) -> Array:
    """Replace -inf by 0 in logarithms, where the other term or factor is zero anyway."""
    xp = namespace(logs)
    return xp.where(logs > -xp.inf, logs, xp.zeros_like(logs))


def scaled_rows(values: Any, scale: Array) -> Any:
    """Scale every row; a SciPy CSR array stays sparse."""
    if not sparse.issparse(values):
        return values * scale[:, None]
    # A product with a diagonal matrix would allocate vectors of the length of a row.
    data = values.data * np.repeat(scale, np.diff(values.indptr))
    return sparse.csr_array((data, values.indices, values.indptr), shape=values.shape)
