"""Identical samples, which are a leak if they are in different folds."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer._array import as_array
from mercer.data.csr import csr_array
from mercer.data.sequences import Sequences


def identical_groups(X: Any, groups: Any = None) -> NDArray[np.int64]:
    """Return groups in which identical samples are together, for scikit-learn's GroupKFold.

    A sequence that occurs in the training data and again in the test data is predicted by memory, and the score is too
    good. With these groups, both copies are in the same fold.

    Parameters
    ----------
    X : Sequences, sparse matrix or array-like
        Sequences in any form that `Sequences` accepts, or a sparse matrix with one sample per row.
    groups : array-like of shape (N,), optional
        Groups that must stay together as well, such as subjects or genes; groups with a common sequence are joined.

    Returns
    -------
    ndarray of shape (N,)
        The number of the group of every sample, counted from 0 in the order of their first samples.

    See Also
    --------
    read_table : Says in ``description`` if samples are identical.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.data.identical_groups(["ACGT", "GG", "ACGT", "TT"])
    array([0, 1, 0, 2])
    >>> mc.data.identical_groups(["ACGT", "GG", "ACGT", "TT"], groups=["s", "s", "t", "u"])
    array([0, 0, 0, 1])
    """
    names = _digests(X)
    found = _numbers(names)
    if groups is not None:
        given = as_array(groups, "groups", "one group per sample")
        if given.shape != (len(names),):
            raise ValueError(f"groups must have one entry for each of {len(names)} samples; got shape {given.shape}.")
        found = _joined(found, _numbers(given.tolist()))
    return found


def n_copies(X: Any, groups: Any = None) -> int:
    """Return the number of samples that are identical to one that is not in their group."""
    names = _digests(X)
    same = _numbers(names)
    together = np.arange(len(names)) if groups is None else _numbers(np.asarray(groups).tolist())
    pairs = np.unique(np.stack([same, together]), axis=1)[0]
    spread = np.flatnonzero(np.bincount(pairs, minlength=int(same.max(initial=0)) + 1) > 1)
    return int(np.isin(same, spread).sum())


def n_distinct(X: Any) -> int:
    """Return the number of different samples; these may be any objects."""
    if sparse.issparse(X) or isinstance(X, Sequences):
        return len(set(_digests(X)))
    rows = X.to_numpy() if hasattr(X, "iloc") else X
    return len({joblib.hash(rows[i]) for i in range(len(rows))})


def _digests(X: Any) -> list[Any]:
    if sparse.issparse(X):
        rows = csr_array(X)
        rows.sum_duplicates()
        ends = zip(rows.indptr[:-1], rows.indptr[1:], strict=True)
        parts = [(rows.indices[a:b].astype(np.int64), rows.data[a:b].astype(np.float64)) for a, b in ends]
        return [blake2b(b"".join(x.tobytes() for x in part), digest_size=16).digest() for part in parts]
    return (X if isinstance(X, Sequences) else Sequences(X)).digests()


def _numbers(values: list[Any]) -> NDArray[np.int64]:
    """Return a number for every value, equal for equal ones, in the order of their first occurrence."""
    known: dict[Any, int] = {}
    return np.array([known.setdefault(value, len(known)) for value in values], dtype=np.int64)


def _joined(a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.int64]:
    """Join groups of two kinds that have a sample in common."""
    n = int(a.max(initial=-1)) + 1
    size = n + int(b.max(initial=-1)) + 1
    edges = sparse.coo_array((np.ones(len(a)), (a, n + b)), shape=(size, size))
    _, parts = sparse.csgraph.connected_components(edges, directed=False)
    return _numbers(parts[a].tolist())
