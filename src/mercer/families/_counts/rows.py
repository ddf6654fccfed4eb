"""Rows of counts, dense or CSR, for the distributions of word counts."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy import sparse

from mercer._array import Array, as_float, namespace, to_numpy
from mercer._batch import Batch
from mercer._checks import is_whole
from mercer.data import Alphabet
from mercer.data.csr import CSRRows
from mercer.families.domains import check_counts


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
