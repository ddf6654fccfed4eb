"""Containers of mercer and SciPy that are made from checked arrays, because compiled loops trust their content."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from mercer.data import Alphabet, Sequences
from mercer.data.csr import CSRRows, Prepared
from mercer.data.objects import Datum
from mercer.saving._checks import NEIGHBORS, SGD, TREES

SPARSE = {
    f"{form}_{kind}": getattr(sparse, f"{form}_{kind}") for form in ("csr", "csc") for kind in ("array", "matrix")
}
BIT_GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")


def _sequences(
    values: Any, offsets: Any, alphabet: Any, ids: Any, kept: Any, problems: Any, channels: Any = None
) -> Sequences:
    symbols = alphabet is not None
    if symbols and not isinstance(alphabet, Alphabet):
        raise ValueError("an alphabet of sequences is not an Alphabet")
    _check_offsets(offsets, len(values), np.int64)
    if values.ndim != (1 if symbols else 2) or values.dtype.kind not in ("iu" if symbols else "f"):
        raise ValueError(f"values of sequences have shape {values.shape} and dtype {values.dtype}")
    if symbols and len(values) and not (values.min() >= -1 and values.max() < _codes(alphabet)):
        raise ValueError("sequences have codes outside of their alphabet")
    n = len(offsets) - 1
    if ids is not None and (not isinstance(ids, tuple) or len(ids) != n or not all(isinstance(i, str) for i in ids)):
        raise ValueError(f"the ids of {n} sequences are not {n} strings")
    if kept.dtype != bool or kept.ndim != 1 or not isinstance(problems, dict):
        raise ValueError("the kept sequences are not given by booleans")
    if channels is not None and (not isinstance(channels, tuple) or not all(isinstance(c, str) for c in channels)):
        raise ValueError("the names of channels are not strings")
    made = Sequences._make(values.copy(), offsets.copy(), alphabet, ids, kept.copy(), problems)
    return made.with_channels(channels)


def _codes(alphabet: Alphabet) -> int:
    return len(alphabet) + len(alphabet.ambiguous)


def _check_offsets(offsets: Any, total: int, dtype: Any = None) -> None:
    """Raise unless offsets ascend from 0 to the number of values."""
    sound = isinstance(offsets, np.ndarray) and offsets.ndim == 1 and len(offsets) and offsets.dtype.kind == "i"
    if not sound or offsets[0] != 0 or offsets[-1] != total or (np.diff(offsets) < 0).any():
        raise ValueError("offsets do not ascend from 0 to the number of values")
    if dtype is not None and offsets.dtype != dtype:
        raise ValueError(f"offsets have dtype {offsets.dtype}, not {np.dtype(dtype)}")


def _alphabet(symbols: Any, ambiguous: Any, fold_case: Any) -> Alphabet:
    return Alphabet(symbols, ambiguous=ambiguous, fold_case=fold_case)


def _rows(data: Any, indices: Any, indptr: Any, n_columns: Any) -> CSRRows:
    _check_offsets(indptr, len(data))
    if data.dtype not in (np.float32, np.float64) or data.ndim != 1 or indices.shape != data.shape:
        raise ValueError("sparse rows are not vectors of entries and columns of one length")
    _check_columns(indices, indptr, n_columns)
    return CSRRows(data.copy(), indices.copy(), indptr.copy(), n_columns)


def _check_columns(indices: Any, indptr: Any, n_columns: Any) -> None:
    """Raise unless the columns of every row ascend within the range."""
    if type(n_columns) is not int or indices.dtype.kind != "i":
        raise ValueError("the columns of sparse rows are not whole numbers")
    if len(indices) and not (indices.min() >= 0 and indices.max() < n_columns):
        raise ValueError(f"sparse rows have columns outside of 0, ..., {n_columns - 1}")
    inside = np.ones(len(indices), dtype=bool)
    inside[indptr[:-1][indptr[:-1] < len(indices)]] = False  # the first entry of a row follows nothing
    if (np.diff(indices, prepend=-1)[inside] <= 0).any():
        raise ValueError("the columns of sparse rows do not ascend")


def _prepared(rows: Any) -> Prepared:
    if not isinstance(rows, CSRRows):
        raise ValueError("prepared rows are not sparse rows")
    return Prepared(rows)


def _datum(value: Any) -> Datum:
    if not isinstance(value, str | np.ndarray | Sequences) and not hasattr(value, "digests"):
        raise ValueError(f"an object of mc.objects is {type(value).__name__}")
    return Datum(value)


REBUILT: dict[type, Callable[..., Any]] = {
    Sequences: _sequences,
    Alphabet: _alphabet,
    CSRRows: _rows,
    Prepared: _prepared,
    Datum: _datum,
}
"""Classes with the function that makes them from the arguments of their ``__reduce__``, after a check."""


def sparse_matrix(name: Any, shape: Any, data: Any, indices: Any, indptr: Any) -> Any:
    """Make a sparse matrix of SciPy, whose loops trust its indices."""
    if not indices.dtype == indptr.dtype in (np.int32, np.int64):
        raise ValueError(f"the indices of a sparse matrix are {indices.dtype} and {indptr.dtype}")
    if not 0 <= indptr[-1] <= len(indices) == len(data):  # SciPy checks nothing if the last number is negative
        raise ValueError("the entries of a sparse matrix are not within its rows")
    made = SPARSE[name]((data, indices, indptr), shape=tuple(shape))
    made.check_format(full_check=True)
    made.indices, made.indptr = indices, indptr  # of the type that they had
    return made


def generator(kind: Any, state: Any) -> Any:
    """Make a random generator of NumPy from its state."""
    name = state["bit_generator"]
    if name not in BIT_GENERATORS or kind not in ("Generator", "RandomState"):
        raise ValueError(f"{kind} with {name} is not a random generator")
    # NumPy takes these positions without a look, and reads there.
    inner, last = (state["state"]["pos"], 624) if name == "MT19937" else (state.get("buffer_pos", 0), 4)
    if type(inner) is not int or not 0 <= inner <= last:
        raise ValueError(f"the state of a random generator has the position {inner}")
    bits = getattr(np.random, name)()
    if kind == "RandomState":
        made = np.random.RandomState(bits)
        made.set_state(state)
        return made
    bits.state = state
    return np.random.Generator(bits)


def plain_state(given: Any) -> Any:
    """Return the state of an object, without compiled parts that are made again.

    These are the search tree of nearest neighbors and the loss of stochastic gradient descent, made by its fit.
    """
    state = given.__getstate__()
    if isinstance(given, SGD):
        return {name: value for name, value in state.items() if name != "_loss_function_"}
    if isinstance(given, NEIGHBORS) and isinstance(state.get("_tree"), tuple(TREES.values())):
        return {**state, "_tree": None}
    return state
