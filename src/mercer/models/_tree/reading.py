"""Conversion of input (matrices, tables, strings) to a matrix of codes with one column per leaf."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mercer._array import Floats
from mercer._checks import is_missing
from mercer._notices import described
from mercer._wording import option
from mercer.data import Alphabet, Sequences
from mercer.data.segments import validated

_COLUMNS = "Pass one column per leaf, with NaN for missing values"


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
    if isinstance(X, Sequences) or (isinstance(X, list | tuple) and any(isinstance(row, str | bytes) for row in X)):
        return _codes(X, leaves, alphabet, unknown)
    if hasattr(X, "columns"):
        X = _by_name(X, leaves)
    elif not hasattr(X, "shape"):
        rows = list(X) if len({np.shape(row) for row in X}) == 1 else []
        X = np.array(rows, dtype=object) if rows else np.empty(len(X), dtype=object)
    shape, n = np.shape(X), len(leaves)
    if len(shape) != 2:
        raise ValueError(
            f"X must be a matrix with one row per sample; got shape {shape}. {_COLUMNS}, or [x] for a single row."
        )
    if shape[1] != n:
        turned = "; if each leaf is a row, pass X.T" if shape[0] == n else ""
        raise ValueError(
            f"X has {shape[1]} columns, but the tree has {n} leaves ({described(leaves)}). {_COLUMNS}{turned}."
        )
    return _cells(X, leaves, alphabet, unknown) if getattr(X.dtype, "kind", "f") in "OUS" else X


def check_codes(x: Floats, leaves: Sequence[str], n_codes: int, n_symbols: int) -> None:
    """Raise if an entry of ``x (T, L)`` is neither a code below ``n_codes`` nor NaN."""
    with np.errstate(invalid="ignore"):
        bad = np.argwhere(~(np.isnan(x) | ((x >= 0) & (x < n_codes) & (x == np.floor(x)))))
    if len(bad):
        row, column = (int(i) for i in bad[0])
        raise ValueError(
            f"row {row} has {x[row, column]:g} at leaf {leaves[column]!r}. Pass whole numbers from 0 to "
            f"{n_symbols - 1} for the {n_symbols} symbols, and NaN for missing values."
        )


def _by_name(X: Any, leaves: tuple[str, ...]) -> Any:
    """Return the columns of a table in the order of the leaves; a table without names is returned unchanged."""
    columns = list(X.columns)
    if not any(isinstance(name, str) for name in columns):
        return np.asarray(X)
    twice = [name for i, name in enumerate(columns) if name in columns[:i]]
    if twice:
        raise ValueError(f"X has two columns with the name {twice[0]!r}. Keep one of them.")
    missing, extra = [name for name in leaves if name not in columns], [name for name in columns if name not in leaves]
    if missing or extra:
        parts = [f"no column for {described(missing)}"] if missing else []
        parts += [f"columns that are not leaves, {described(extra)}"] if extra else []
        raise ValueError(f"X has {', and '.join(parts)}. Name the columns as the leaves, with NaN for missing values.")
    return np.asarray(X)[:, [columns.index(name) for name in leaves]]


def _codes(X: Any, leaves: tuple[str, ...], alphabet: Alphabet | None, unknown: str) -> Floats:
    """Convert strings with one symbol per leaf to codes; missing symbols become NaN."""
    if alphabet is None:
        raise TypeError(
            "X contains symbols, but the tree has no alphabet. Use one such as alphabet='01', or pass numbers."
        )
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


def _cells(table: Any, leaves: tuple[str, ...], alphabet: Alphabet | None, unknown: str) -> Floats:
    """Convert a table of numbers or symbols, one cell at a time; None, NaN and pandas.NA are missing."""
    out = np.full(table.shape, np.nan)
    for (row, column), cell in np.ndenumerate(table):
        if is_missing(cell):
            continue
        here = f"row {row} has {cell!r} at leaf {leaves[column]!r}"
        if not isinstance(cell, str):
            try:
                out[row, column] = float(cell)
            except (TypeError, ValueError):
                raise TypeError(f"{here}, which is not a number. {_COLUMNS}.") from None
            continue
        if alphabet is None:
            raise TypeError(f"{here}, but the tree has no alphabet. Use one such as alphabet='01', or NaN if missing.")
        try:
            code = int(alphabet.encode([str(cell)])[0])
        except ValueError:
            if unknown == "raise":
                raise ValueError(
                    f"{here}, which is not in the alphabet {alphabet.describe()}. Use None for missing values, or "
                    f"{option('unknown', 'missing')}."
                ) from None
            code = alphabet.missing
        out[row, column] = np.nan if code == alphabet.missing else code
    return out
