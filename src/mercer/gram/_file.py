"""Save and load Gram matrices: file format 1, npz with a JSON header."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer import _files
from mercer._array import as_array, to_numpy
from mercer._checks import is_listing


@dataclass(frozen=True)
class GramFile:
    """Gram matrix read from a file.

    Parameters
    ----------
    K : array of shape (N, M)
        The matrix.
    rows, columns : list of str or None
        Ids of the objects.
    kernel : str
        Description of the kernel.

    Examples
    --------
    >>> import numpy as np, mercer as mc, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "gram.npz"
    >>> mc.gram.save(path, np.eye(2), kernel="mine")
    >>> mc.load(path).kernel
    'mine'
    """

    K: np.ndarray[Any, Any]
    rows: list[str] | None
    columns: list[str] | None
    kernel: str

    @staticmethod
    def _from_file(path: str | os.PathLike[str], header: dict[str, Any], arrays: dict[str, Any]) -> GramFile:
        """Make it from the header and the arrays of a file."""
        try:
            found = GramFile(arrays["K"], header["rows"], header["columns"], header["kernel"])
            _check(found.K, found.rows, found.columns)
        except KeyError as error:
            raise ValueError(
                f"{os.fspath(path)} lacks {error}; it was not written by mercer, or it is damaged."
            ) from error
        except ValueError as error:
            raise _files.damaged(os.fspath(path), error) from error
        return found


def save(path: str | os.PathLike[str], K: Any, *, rows: Any = None, columns: Any = None, kernel: Any = "") -> None:
    """Save a Gram matrix with the ids of its objects and a description of the kernel.

    Examples
    --------
    >>> import numpy as np, mercer as mc, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "gram.npz"
    >>> mc.gram.save(path, np.eye(2), rows=["a", "b"], kernel=mc.RBF(gamma=0.1))
    >>> mc.load(path).rows
    ['a', 'b']
    """
    K = to_numpy(K if hasattr(K, "shape") else as_array(K, "K"))
    for name, given in (("rows", rows), ("columns", columns)):
        if given is not None and not is_listing(given):
            raise TypeError(f"{name} must be a list of ids; got {given!r}.")
    ids = {
        name: None if given is None else [str(i) for i in given]
        for name, given in (("rows", rows), ("columns", columns))
    }
    _check(K, **ids)
    _files.write(path, {"kind": "gram", "kernel": str(kernel), **ids}, {"K": K})


def _check(K: Any, rows: list[str] | None, columns: list[str] | None) -> None:
    """Raise unless K is a finite matrix and the ids are as many as its rows and columns."""
    if K.ndim != 2 or K.dtype.kind not in "biuf":
        raise ValueError(f"K must be a 2-D array of real numbers; got shape {K.shape} and dtype {K.dtype}.")
    if not np.isfinite(K).all():
        i, j = np.argwhere(~np.isfinite(K))[0]
        raise ValueError(f"K must be finite; got {K[i, j]} at row {i}, column {j}.")
    for name, ids, count in (("rows", rows, K.shape[0]), ("columns", columns, K.shape[1])):
        if ids is None:
            continue
        if not isinstance(ids, list) or not all(isinstance(i, str) for i in ids):
            raise ValueError(f"{name} must be a list of ids; got {ids!r}.")
        if len(ids) != count:
            raise ValueError(f"{name} must have one id for each of the {count} {name} of K; got {len(ids)}.")
