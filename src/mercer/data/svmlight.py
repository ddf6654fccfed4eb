"""Reader of svmlight files: sparse rows of counts or other numbers, by scikit-learn, with the line of an error."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._parameters import NONE, check, one_of, whole
from mercer.data.text import Records, Source, answers, described, parsed, read_text


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
    Indices are counted from 1, as in the files of libsvm, unless an index 0 occurs; they ascend within a line. The
    file is read by scikit-learn's ``load_svmlight_file``.

    See Also
    --------
    read_table : Read documents as word counts.

    Examples
    --------
    >>> import io
    >>> import mercer as mc
    >>> X, y = mc.data.read_svmlight(io.StringIO("1 1:3 4:1\n-1 2:2 # a comment\n"))
    >>> X.toarray(), y
    (array([[3., 0., 0., 1.],
           [0., 2., 0., 0.]]), array([ 1, -1]))
    """
    check(whole(1) | NONE, n_features=n_features)
    check(one_of("raise", "mask"), invalid=invalid)
    text = read_text(path, "svmlight", "row")
    lines = list(text.lines())
    problems: dict[str | int, str] = {}

    def parse(line: int, row: str) -> tuple[int, str]:
        try:
            _loaded([row])
        except ValueError as error:
            raise text.error(
                line, f"{error}; write a label and the entries index:value in ascending order, as in '1 3:1.5 7:2'."
            ) from None
        return line, row

    try:
        X, y, queries = _loaded(row for _, row in lines)
    except ValueError:  # line by line, to say which
        lines, problems = parsed(text, lines, parse, invalid)
        X, y, queries = _loaded(row for _, row in lines)
    if n_features is not None:
        wide = np.flatnonzero(X.indices >= n_features)
        if len(wide):
            row = int(np.searchsorted(X.indptr, wide[0], side="right")) - 1
            raise text.error(lines[row][0], f"there are more features than n_features={n_features}; increase it.")
        X.resize((X.shape[0], n_features))
    if np.all((np.abs(y) < 2**53) & (y == np.round(y))):
        y = y.astype(np.int64)
    groups = queries if len(queries) == len(y) else None
    said = f"{text.name}, svmlight format: {X.shape[0]} samples of {X.shape[1]} features, first {answers(y)}."
    cure = "To correct it, write integers for classes and other numbers for targets."
    return Records(X, y, groups=groups, problems=problems, **described(said, cure, X, groups))


def _loaded(rows: Iterable[str]) -> tuple[Any, NDArray[Any], NDArray[Any]]:
    """Return the matrix, the labels and the queries; raise a ValueError for anything but rows of finite numbers."""
    from sklearn.datasets import load_svmlight_file

    try:
        found: tuple[Any, NDArray[Any], NDArray[Any]]
        found = load_svmlight_file(io.BytesIO("\n".join(rows).encode()), zero_based="auto", query_id=True)
    except OverflowError as error:
        raise ValueError(str(error)) from None
    if not len(found[1]) or not (np.isfinite(found[0].data).all() and np.isfinite(found[1]).all()):
        raise ValueError("a value is not finite")
    return found
