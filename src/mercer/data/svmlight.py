"""Reader of svmlight files: sparse rows of counts or other numbers."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from mercer._parameters import NONE, check, one_of, whole
from mercer.data.text import Records, Source, Text, answers, described, number, parsed, read_text, whole_or_text


def read_svmlight(path: Source, *, n_features: int | None = None, invalid: str = "raise") -> Records:
    r"""Read an svmlight (libsvm) file: a label and the nonzero entries ``index:value`` of one sample per line.

    Parameters
    ----------
    path : str, path or open file
        Plain or gzipped. Text after ``#`` is a comment.
    n_features : int, optional
        Number of columns; by default the largest index decides. Pass ``X.shape[1]`` of the training data to read
        new data.
    invalid : {"raise", "mask"}
        Whether to raise at the first line that cannot be read, or to leave out all such lines and report them in
        ``problems``.

    Returns
    -------
    Records
        Unpacks as ``X, y = read_svmlight(path)``: a CSR matrix, and the labels, integers if all are integral, else
        floats. ``qid:number``, if all lines have it, gives the groups.

    Notes
    -----
    Indices are counted from 1, as in the files of libsvm, unless an index 0 occurs.

    See Also
    --------
    read_table : Read documents as word counts.

    Examples
    --------
    >>> import io
    >>> import mercer as mc
    >>> X, y = mc.read_svmlight(io.StringIO("1 1:3 4:1\n-1 2:2 # a comment\n"))
    >>> X.toarray(), y
    (array([[3., 0., 0., 1.],
           [0., 2., 0., 0.]]), array([ 1, -1]))
    """
    check(whole(1) | NONE, n_features=n_features)
    check(one_of("raise", "mask"), invalid=invalid)
    text = read_text(path, "svmlight", "row")
    rows, problems = parsed(text, text.lines(), partial(_row, text), invalid)
    queries = [row.query for row in rows]
    groups = None if None in queries else whole_or_text([str(query) for query in queries])
    labels = [row.label for row in rows]
    y = whole_or_text(labels)
    y = y if y.dtype.kind == "i" else np.array([number(label) for label in labels])
    X = _matrix(text, rows, n_features)
    said = f"{text.name}, svmlight format: {X.shape[0]} samples of {X.shape[1]} features, first {answers(y)}."
    cure = "To correct it, write integers for classes and other numbers for targets."
    return Records(X, y, groups=groups, problems=problems, **described(said, cure, X, groups))


class _Row(NamedTuple):
    """The content of a line, and its number."""

    line: int
    label: str
    query: str | None
    indices: NDArray[np.int64]
    values: NDArray[np.float64]


def _row(text: Text, line: int, content: str) -> _Row:
    """Read a line."""
    label, *entries = content.partition("#")[0].split() or [""]
    query = None
    try:
        if not np.isfinite(number(label)):
            raise ValueError
    except ValueError:
        raise text.error(line, f"the label {label!r} is not a number; write a number first in every line.") from None
    if entries and entries[0].startswith("qid:"):
        query, entries = entries[0][4:], entries[1:]
    indices, values = [], []
    for entry in entries:
        index, _, value = entry.partition(":")
        try:
            indices.append(int(index))
            values.append(number(value))
        except ValueError:
            raise text.error(line, f"{entry!r} is not of the form index:value, such as 3:1.5.") from None
        if indices[-1] < 0 or not np.isfinite(values[-1]):
            raise text.error(line, f"{entry!r} must have an index of 0 or more and a finite value.")
    if len(set(indices)) < len(indices):
        raise text.error(line, "an index occurs twice; add up the two values.")
    return _Row(line, label, query, np.array(indices, dtype=np.int64), np.array(values, dtype=np.float64))


def _matrix(text: Text, rows: list[_Row], n_features: int | None) -> Any:
    filled = [row.indices for row in rows if len(row.indices)]
    base = min((int(indices.min()) for indices in filled), default=1)
    base = min(base, 1)
    size = max((int(indices.max()) for indices in filled), default=base) - base + 1
    if n_features is not None and size > n_features:
        line = next(row.line for row in rows if len(row.indices) and row.indices.max() - base >= n_features)
        raise text.error(line, f"the index {size - 1 + base} is too large for n_features={n_features}; increase it.")
    indptr = np.concatenate([[0], np.cumsum([len(row.indices) for row in rows])])
    columns = np.concatenate([row.indices for row in rows]) - base
    values = np.concatenate([row.values for row in rows])
    out = csr_matrix((values, columns, indptr), shape=(len(rows), n_features or size))
    out.sort_indices()
    return out
