"""Conversion of input (matrices, tables, strings) to a matrix of codes with one column per leaf."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats, Mask
from mercer._checks import is_number
from mercer._notices import described
from mercer.data import Alphabet, Sequences
from mercer.data.segments import validated
from mercer.models._tree.rates import check_codes


def read_profiles(
    X: Any, leaves: tuple[str, ...], n_symbols: int, alphabet: Alphabet | None, unknown: str, owner: Any, reset: bool
) -> Floats:
    """Return codes ``(N, L)`` as float64, with NaN for missing values.

    Parameters
    ----------
    X : matrix, DataFrame, list of strings or Sequences
        One sample per row; the columns of a DataFrame are found by the names of the leaves.
    leaves : tuple of str
        Names of the leaves, in the order of the columns.
    n_symbols : int
        Number of symbols.
    alphabet : Alphabet or None
        Alphabet of symbols; None if the input is numeric.
    unknown : {"raise", "missing"}
        Whether a symbol outside the alphabet raises an error or is a missing value.
    owner : estimator
        The estimator whose ``n_features_in_`` is set or checked.
    reset : bool
        Whether X is the training data.
    """
    if isinstance(X, list | tuple) and len(X) == 0:
        raise ValueError("X must have at least one row; got none. Pass rows with one column per leaf.")
    X = table_of(X, leaves, alphabet, unknown)
    X = validated(owner, X, reset=reset, dtype=np.float64, ensure_all_finite="allow-nan")
    check_codes(X, leaves, n_symbols if alphabet is None else alphabet.missing, n_symbols)
    return np.asarray(X)


def table_of(X: Any, leaves: tuple[str, ...], alphabet: Alphabet | None, unknown: str) -> Any:
    """Return a matrix of numbers: symbols as codes, NaN for missing values, columns of a table by name."""
    if hasattr(X, "columns") and hasattr(X, "shape"):
        X = _by_name(X, leaves)
    if _is_text(X):
        return _codes(X, leaves, alphabet, unknown)
    if isinstance(X, list | tuple):
        try:
            X = np.asarray(X)
        except ValueError:
            raise ValueError(f"The rows of X have different lengths. {_COLUMNS}.") from None
    _check_columns(np.shape(X), leaves)
    if isinstance(X, np.ndarray) and X.dtype == object:
        return _as_floats(X, leaves)
    return X


_COLUMNS = "Pass one column per leaf, with NaN for missing values"


def _check_columns(shape: tuple[int, ...], leaves: tuple[str, ...]) -> None:
    n = len(leaves)
    if len(shape) == 2 and shape[1] == n:
        return
    wanted = f"but the tree has {n} leaves ({described(leaves)}). {_COLUMNS}"
    if len(shape) == 2:
        turned = "; if each leaf is a row, pass X.T" if shape[0] == n else ""
        raise ValueError(f"X has {shape[1]} columns, {wanted}{turned}.")
    if shape == (n,):
        raise ValueError(f"X must be a matrix with one row per sample; got shape {shape}. Pass [x] for a single row.")
    raise ValueError(f"X has shape {shape}, {wanted}.")


def _as_floats(table: Floats, leaves: tuple[str, ...]) -> Floats:
    """Convert a table of objects to numbers; None and pandas.NA become NaN."""
    try:
        return np.where(_blank(table), np.nan, table).astype(np.float64)
    except (TypeError, ValueError):
        row, column = next(place for place, cell in np.ndenumerate(table) if not (_is_blank(cell) or is_number(cell)))
        raise TypeError(
            f"row {row} has {table[row, column]!r} at leaf {leaves[column]!r}, which is not a number. {_COLUMNS}."
        ) from None


def _blank(table: Floats) -> Mask:
    """Return which cells are None, NaN or pandas.NA."""
    return np.array([_is_blank(cell) for cell in table.ravel()], dtype=bool).reshape(table.shape)


def _is_blank(cell: Any) -> bool:
    try:
        return cell is None or bool(cell != cell)
    except (TypeError, ValueError):  # pandas.NA has no truth value
        return True


def _by_name(X: Any, leaves: tuple[str, ...]) -> Any:
    """Return the columns of a table in the order of the leaves; a table without names is returned unchanged."""
    columns, rows = list(X.columns), list(getattr(X, "index", ()))
    if set(leaves) <= set(rows) and not set(leaves) <= set(columns):
        raise ValueError("The leaves must be the columns of the table; got them as rows. Pass df.T.")
    if not any(isinstance(name, str) for name in columns):
        return np.asarray(X)
    twice = [name for i, name in enumerate(columns) if name in columns[:i]]
    if twice:
        raise ValueError(f"X has two columns with the name {twice[0]!r}. Keep one of them.")
    missing = [name for name in leaves if name not in columns]
    known = set(leaves)
    extra = [name for name in columns if name not in known]
    if missing:
        others = f", and columns that are not leaves, {described(extra)}" if extra else ""
        raise ValueError(
            f"X has no column for {_leaf(missing)} {described(missing)}{others}. Name the columns as the leaves, with "
            "NaN for missing values."
        )
    if extra:
        raise ValueError(f"X has columns that are not leaves of the tree, {described(extra)}. Leave them out.")
    place = {name: i for i, name in enumerate(columns)}
    return np.asarray(X)[:, [place[name] for name in leaves]]


def _leaf(names: list[str]) -> str:
    return "the leaf" if len(names) == 1 else "the leaves"


def _is_text(X: Any) -> bool:
    """Whether X contains symbols rather than numbers."""
    if isinstance(X, Sequences):
        return True
    if isinstance(X, list | tuple):
        return any(isinstance(row, str | bytes) or _holds_text(row) for row in X)
    return _holds_text(X)


def _holds_text(cells: Any) -> bool:
    if isinstance(cells, list | tuple):
        return any(isinstance(cell, str) for cell in cells)
    kind = getattr(getattr(cells, "dtype", None), "kind", None)
    return kind == "U" or (kind == "O" and any(isinstance(cell, str) for cell in np.asarray(cells).ravel()))


def _codes(X: Any, leaves: tuple[str, ...], alphabet: Alphabet | None, unknown: str) -> Floats:
    """Convert symbols to codes; missing symbols become NaN."""
    table = None if isinstance(X, Sequences) else np.asarray(X, dtype=object)
    if alphabet is None:
        if table is not None and table.ndim == 2:
            _check_columns(table.shape, leaves)
            _check_mixed(table, leaves)
        raise TypeError(
            "X contains symbols, but the tree has no alphabet. Use one such as alphabet='01', or pass numbers."
        )
    if table is not None and table.ndim == 2:
        return _cells(table, leaves, alphabet, unknown)
    X = Sequences(X, alphabet=alphabet, unknown=unknown)
    wrong = np.flatnonzero(X.lengths != len(leaves))
    if len(wrong):
        i = int(wrong[0])
        raise ValueError(
            f"{X.name(i)} has {X.lengths[i]} symbols, but the tree has {len(leaves)} leaves ({described(leaves)}). "
            "Pass one symbol per leaf."
        )
    codes = np.asarray(X.values, dtype=np.float64).reshape(len(X), len(leaves))
    return np.where(codes == alphabet.missing, np.nan, codes)


def _check_mixed(table: Floats, leaves: tuple[str, ...]) -> None:
    """Raise if a table of numbers, possibly as text, contains other text, such as '?'."""
    odd: dict[str, tuple[int, ...]] = {}
    numbers = False
    for place, cell in np.ndenumerate(table):
        try:
            numbers |= not _is_blank(cell) and bool(np.isfinite(float(cell)))
        except (TypeError, ValueError):
            odd.setdefault(str(cell), place)
    if numbers and odd:
        text, (row, column) = next(iter(odd.items()))
        raise TypeError(
            f"X contains numbers, but row {row} has {text!r} at leaf {leaves[column]!r}. For missing values, replace "
            f"{text!r} by NaN, as in df.replace({text!r}, np.nan).astype(float)."
        )


def _cells(table: Floats, leaves: tuple[str, ...], alphabet: Alphabet, unknown: str) -> Floats:
    """Convert a table of symbols to codes, one symbol at a time; None and NaN are missing."""
    _check_columns(table.shape, leaves)
    out = np.full(table.shape, np.nan)
    blank = _blank(table)
    text = table.astype(str)
    for symbol in np.unique(text[~blank]):
        here = (text == symbol) & ~blank
        try:
            code = int(alphabet.encode([str(symbol)])[0])
        except ValueError:
            if unknown == "missing":
                continue
            row, column = (int(i) for i in np.argwhere(here)[0])
            raise ValueError(
                f"row {row} has {str(symbol)!r} at leaf {leaves[column]!r}, which is not in the alphabet "
                f"{alphabet.describe()}. Use None for missing values, or unknown='missing'."
            ) from None
        out[here] = np.nan if code == alphabet.missing else code
    return out
