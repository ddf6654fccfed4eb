"""Rows of counts, dense or CSR, for the distributions of word counts."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse

from mercer._array import Array, Floats, as_float, namespace, to_numpy
from mercer._batch import Batch
from mercer._checks import is_whole
from mercer.data import Alphabet
from mercer.data.csr import CSRRows
from mercer.data.segments import segments
from mercer.families.domains import check_counts
from mercer.families.estimator import Estimator


class DocumentEstimator(Estimator):
    """An estimator of rows of counts, dense or sparse."""

    takes: ClassVar[str] = "counts"

    def accept(self, X: Any, **options: Any) -> Any:
        """Turn ``X`` into a matrix of nonnegative counts, dense or sparse."""
        X = super().accept(X, **options)
        if isinstance(X, CSRRows):
            bad = np.flatnonzero(~(np.isfinite(X.data) & (X.data >= 0)))
            if len(bad):
                row = int(np.searchsorted(X.indptr, int(bad[0]), side="right")) - 1
                check_counts(X[row : row + 1].dense(), type(self).__name__, first=row)
            X.check_counts()  # NaN
        else:
            x, _ = segments(X)
            check_counts(x, type(self).__name__, X)
            self._check_observed(X)
        return X


def pooled_counts(x: Any) -> Floats:
    """Add up all rows, ``(k,)``, or raise if there are no words."""
    with np.errstate(over="ignore"):  # overflow raises below
        total = np.asarray(x.to_scipy().sum(axis=0)).ravel() if isinstance(x, CSRRows) else x.sum(axis=0)
        everything = float(total.sum())
    check_finite_sum(everything, "all documents")
    if everything == 0:
        raise ValueError("Every document is empty; there is nothing to learn from.")
    return np.asarray(total)


def check_finite_sum(total: float, whose: str) -> None:
    """Raise if a sum of counts has overflowed."""
    if not np.isfinite(total):
        raise ValueError(f"The sum of the counts of {whose} overflows. Divide the counts by a constant.")


def weighted_counts(x: Any, weights: Floats, offsets: Floats) -> Floats:
    """Sum the rows of each sample with the weights of each model, ``(T, k)`` and ``(T, n)`` to ``(N, n, k)``."""
    rows = np.diff(offsets)
    owner = np.repeat(np.arange(len(rows)), rows)
    place = (owner, np.arange(len(owner)))
    matrix = x.to_scipy() if isinstance(x, CSRRows) else x
    shares = (sparse.csr_array((column, place), shape=(len(rows), len(owner))) for column in weights.T)
    return np.stack([dense_counts(share @ matrix) for share in shares], axis=1)


def check_trials(trials: Any) -> None:
    """Raise unless ``trials`` is a number of draws."""
    if not is_whole(trials):
        raise ValueError(f"trials must be an int of 1 or more, the number of draws; got {trials!r}.")


def checked_words(alphabet: Any, columns: int, what: str) -> Alphabet | None:
    """Return the vocabulary, or None; raise if it does not have one word per column."""
    words = None if alphabet is None else Alphabet.of(alphabet)
    if words is not None and len(words) != columns:
        raise ValueError(f"The vocabulary must have one word per column; got {len(words)} words for {columns} {what}.")
    return words


def dense_counts(x: Any) -> Array:
    """Return counts as a dense array of floats."""
    if sparse.issparse(x):
        return np.asarray(sparse.csr_array(x).toarray(), dtype=float)
    return x.dense() if isinstance(x, CSRRows) else as_float(x)


def check_rows(x: Array, who: str) -> None:
    """Raise if a count is negative or missing."""
    check_counts(x, who)
    if bool(namespace(x).any(namespace(x).isnan(x))):
        raise ValueError("A row of counts contains NaN. Fill it in, or leave the row out.")


class SparseRows(Batch):
    """A batch whose ``probability`` may be stored as a sparse matrix of shape (N, k)."""

    probability: Any

    @property
    def sparse(self) -> bool:
        """Whether the probabilities are stored as a sparse matrix."""
        return isinstance(self.probability, CSRRows)

    def dense(self) -> Self:
        """Return the same distributions with dense probabilities."""
        return self._replaced(probability=self.probability.dense()) if self.sparse else self

    def matched(self, reference: Batch) -> Self:
        """Return this batch sparse or dense, as ``reference`` is."""
        matched = super().matched(reference)
        if not reference.sparse:  # type: ignore[attr-defined]
            return matched.dense()
        return matched if matched.sparse else matched._replaced(probability=CSRRows.of(self.probability))

    def __getitem__(self, key: Any) -> Self:
        """Select members; a single one of a sparse batch is dense."""
        if self.sparse and isinstance(key, int | np.integer):
            at = range(len(self))[key]
            return self[at : at + 1].dense().reshape()
        return super().__getitem__(key)

    @staticmethod
    def _pack_array(name: str, value: Any) -> dict[str, Any]:
        if not isinstance(value, CSRRows):
            return {name: to_numpy(value)}
        parts = {"data": value.data, "indices": value.indices, "indptr": value.indptr, "columns": value.n_columns}
        return {f"{name}/{part}": np.asarray(values) for part, values in parts.items()}

    @classmethod
    def _unpack_fields(cls, arrays: dict[str, Any], shared: dict[str, Any], prefix: str) -> dict[str, Any]:
        name = f"{prefix}probability"
        if name not in arrays:
            data, indices, indptr = (arrays[f"{name}/{part}"] for part in ("data", "indices", "indptr"))
            arrays = arrays | {name: CSRRows(data, indices, indptr, int(arrays[f"{name}/columns"]))}
        return super()._unpack_fields(arrays, shared, prefix)
