"""Samples as points with offsets: sums per sample, digests, names for messages, and validation of matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import validate_data

from mercer._array import Floats, Indices
from mercer._batch import row_digests
from mercer.data.csr import check_places
from mercer.data.sequences import Sequences

NARROW = 16
"""Columns of a matrix whose rows are sorted faster by their bits than by their digests."""


def looks_like_matrix(X: Any) -> bool:
    """Whether ``X`` is a matrix of numbers with one row per sample, rather than a list of strings or point sets."""
    if isinstance(X, Sequences) or is_column(X):
        return False
    if sparse.issparse(X) or hasattr(X, "iloc"):
        return getattr(X, "ndim", 2) == 2
    if hasattr(X, "shape"):
        return len(X.shape) != 3 and getattr(X, "dtype", None) is not None and not _holds_objects(X)
    if isinstance(X, list | tuple):
        return len(X) > 0 and not isinstance(X[0], str | bytes) and _ndim(X[0]) <= 1 and not _ragged(X)
    return True


def is_column(X: Any) -> bool:
    """Whether ``X`` is a column of Arrow, polars or awkward, which `Sequences` reads; pandas is handled separately."""
    if hasattr(X, "iloc") or len(getattr(X, "shape", ())) > 1:
        return False
    return type(X).__module__.partition(".")[0] in ("pyarrow", "awkward", "polars") or hasattr(X, "__arrow_c_stream__")


def _holds_objects(X: Any) -> bool:
    if X.dtype != object or X.ndim != 1 or not len(X):
        return False
    return not isinstance(X[0], int | float | complex | None)


def _ndim(x: Any) -> int:
    try:
        return np.ndim(x)
    except ValueError:  # nested lists of different lengths
        return 2


def _ragged(X: Any) -> bool:
    try:
        return len({np.shape(row) for row in X}) > 1
    except ValueError:
        return True


def segments(X: Any) -> tuple[Any, Floats]:
    """Return the points of all samples, and the offsets of the samples."""
    if isinstance(X, Sequences):
        return X.values, X.offsets
    return X, np.arange(X.shape[0] + 1)


def mapped(X: Any, change: Callable[[Floats], Floats]) -> Any:
    """Change the points of all data."""
    return X.mapped(change) if isinstance(X, Sequences) else change(X)


def segment_sum(values: Floats, offsets: Floats) -> Floats:
    """Sum ``values (T, ...)`` over every sample; an empty one gives 0.

    ``reduceat`` adds in the order of the points, so the sum of a sample does not depend on other samples.
    """
    lengths = np.diff(offsets)
    if np.all(lengths == 1):
        return values
    out = np.zeros((len(lengths), *values.shape[1:]), dtype=values.dtype)
    full = lengths > 0
    if np.any(full):
        out[full] = np.add.reduceat(values, offsets[:-1][full], axis=0)
    return out


def data_digests(X: Any) -> list[bytes]:
    """Digest every sample of the result of `Estimator.accept`."""
    return list(X.digests()) if hasattr(X, "digests") else row_digests(X)


def digest_order(X: Any) -> Indices:
    """Return the order of the digests of what `Estimator.accept` returns; of narrow matrices that of the bits of rows.

    What all samples share is learned in this order: starts that the data seed and sums that rounding touches are then
    the same to the last bit for any order of the samples.
    """
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype == np.float64 and 0 < X.shape[1] <= NARROW:
        return np.lexsort(np.ascontiguousarray(X).view(np.int64).T)
    digests = np.frombuffer(b"".join(data_digests(X)), dtype=">u8").reshape(-1, 2)
    return np.lexsort((digests[:, 1], digests[:, 0]))


def in_digest_order(X: Any) -> Any:
    """Return the samples in the order of their digests; see `digest_order`."""
    order = digest_order(X)
    return X if np.array_equal(order, np.arange(len(order))) else X[order]


def in_double(X: Any) -> Any:
    """Return sequences with vectors in double precision, and symbols as they are."""
    return X if X.is_symbols or X.values.dtype == np.float64 else X.mapped(lambda x: x.astype(np.float64))


def in_numbers(X: Sequences) -> Sequences:
    """Return integers, which are read as symbols, as numbers; other sequences as they are."""
    if X.alphabet is None or isinstance(X.alphabet.symbols[0], str):
        return X
    numbers = np.full(X.alphabet.n_codes, np.nan)  # the last code is a missing value
    numbers[: len(X.alphabet)] = X.alphabet.symbols
    return Sequences._make(numbers[X.values][:, None], X.offsets, None, X.ids)


def columns_as_symbols(X: Any) -> Any:
    """Return integer arrays of shape (T, 1), one per sequence, as those of shape (T,), which are read as symbols."""
    if isinstance(X, Sequences) or not (isinstance(X, list | tuple) or len(getattr(X, "shape", ())) == 3):
        return X
    columns = [x for x in X if len(getattr(x, "shape", ())) == 2 and x.shape[1] == 1]
    arrays = [np.asarray(x)[:, 0] for x in columns] if len(columns) == len(X) else []
    return arrays if arrays and all(x.dtype.kind in "biu" for x in arrays) else X


def n_observed(x: Any, alphabet: Any = None) -> int:
    """Return the number of points, or of codes of an alphabet, that are not missing as a whole."""
    if alphabet is not None:
        return int(np.sum(x != alphabet.missing))
    return int((~np.isnan(x).all(axis=-1)).sum()) if isinstance(x, np.ndarray) else int(x.shape[0])


def sample_name(X: Any, i: int) -> str:
    """Return the name of sample ``i``, for a message."""
    return str(X.name(i)) if isinstance(X, Sequences) else f"row {int(i)}"


def point_name(X: Any, i: int) -> str:
    """Return the name of the sample that contains point ``i``, and the position in it, for a message."""
    if not isinstance(X, Sequences):
        return sample_name(X, i)
    datum = int(np.searchsorted(X.offsets, i, side="right")) - 1
    return f"{sample_name(X, datum)} (point {int(i - X.offsets[datum])})"


def check_some_points(X: Any) -> None:
    """Raise if all samples are empty."""
    if segments(X)[0].shape[0] == 0:
        raise ValueError("There is nothing to fit: all samples are empty.")


def check_observed(X: Any, cure: str) -> None:
    """Raise if a point of the data has a missing coordinate."""
    rows = np.flatnonzero(np.isnan(segments(X)[0]).any(axis=1))
    if len(rows):
        raise ValueError(f"{point_name(X, rows[0])} has a missing coordinate (NaN). {cure}")


def check_coordinates(X: Any, offsets: Indices) -> None:
    """Raise if a coordinate is NaN throughout a sample, or in all of them if ``offsets`` puts them together."""
    unseen = np.argwhere(segment_sum((~np.isnan(segments(X)[0])).astype(int), offsets) == 0)
    if len(unseen) and len(offsets) == 2 and len(X) != 1:
        raise ValueError(
            f"There is nothing to learn about coordinate {unseen[0][1]}: it is NaN in all samples. Leave it out."
        )
    if len(unseen):
        i, column = unseen[0]
        raise ValueError(
            f"{sample_name(X, i)} has no observation of coordinate {column}, which is NaN throughout. Leave it out, or "
            "use prior='pooled'."
        )


def validated(owner: Any, X: Any, **options: Any) -> Any:
    """Validate a matrix as scikit-learn does; the error states the position of an invalid entry."""
    if sparse.issparse(X):
        check_places(X)
    try:
        return validate_data(owner, X, **options)
    except (TypeError, ValueError) as error:
        found = _first_unfit(X, nan=options.get("ensure_all_finite", True) is True)
        if found is None or type(error) not in (TypeError, ValueError):
            raise
        # scikit-learn's own sentence comes first: its checks look for it.
        sentence = str(error).splitlines()[0].rstrip(".")
        raise type(error)(f"{sentence}; first at row {found[0]}, column {found[1]}. {found[2]}") from None


def _first_unfit(X: Any, *, nan: bool) -> tuple[int, int, str] | None:
    """Find the first entry that is not a finite number; return its row, column and the cure."""
    cure = "Leave the row out, or fill in the value."
    if sparse.issparse(X):
        rows = sparse.csr_array(X)
        bad = np.flatnonzero(_unfit(rows.data, nan)) if rows.data.dtype.kind == "f" else np.empty(0, dtype=int)
        if not len(bad):
            return None
        return int(np.searchsorted(rows.indptr, bad[0], side="right")) - 1, int(rows.indices[bad[0]]), cure
    try:
        cells = np.asarray(X)
    except (TypeError, ValueError):
        return None
    if cells.ndim != 2:
        return None
    if cells.dtype.kind == "f":
        where = np.argwhere(_unfit(cells, nan))
        return (int(where[0][0]), int(where[0][1]), cure) if len(where) else None
    if cells.dtype.kind not in "OUS":
        return None
    for (row, column), cell in np.ndenumerate(cells):
        try:
            if _unfit(np.asarray(float(cell)), nan):
                return row, column, cure
        except (TypeError, ValueError):
            words = isinstance(cell, str | bytes)
            return row, column, "Use mc.Categorical for strings." if words else "Pass numbers."
    return None


def _unfit(values: Floats, nan: bool) -> Floats:
    return np.asarray(~np.isfinite(values) if nan else np.isinf(values))


def refuse_paths(who: str, X: Any, y: Any) -> None:
    """Raise if ``y`` looks like paths of states: a label for every step of the samples, in one list each or in all.

    Parameters
    ----------
    who : str
        The estimator that would ignore them.
    X : Sequences or array
        The samples, as the estimator has read them.
    y : object
        What the user passed. A label or target per sample is ignored, as scikit-learn expects.
    """
    lengths = np.diff(segments(X)[1])
    if not hasattr(y, "__len__") or isinstance(y, str) or lengths.max(initial=0) < 2:
        return
    try:
        paths = [np.asarray(path) for path in y]
    except ValueError:  # of different shapes in one sample
        return
    steps = [path.shape for path in paths]
    each = steps == [(n,) for n in lengths.tolist()]
    stacked = len(y) != len(lengths) and steps == [()] * int(lengths.sum())
    if (each or stacked) and all(path.dtype.kind in "biuU" for path in paths):
        raise ValueError(
            f"y has a label for every step of the {len(lengths)} samples, such as a path of hidden states, and {who} "
            "does not learn from them. Leave y out; a label per sample is ignored."
        )
