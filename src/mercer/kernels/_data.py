"""What kernels do with data of any kind: count, join, and take some of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import is_numpy_array
from scipy import sparse

from mercer._batch import Batch
from mercer.data import Sequences
from mercer.families._csr import CSRRows

Floats = np.ndarray[Any, Any]


def len_of(X: Any) -> int:
    """Return the number of objects; sparse matrices have no ``len``."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def joined(data: tuple[Any, ...]) -> Any:
    """Put several data sets together, so that what they share is learned from all; batches of models share nothing."""
    raw = [d for d in data if not isinstance(d, Batch)]
    if len(raw) <= 1:
        return raw[0] if raw else data[0]
    first = raw[0]
    for d in raw:
        if isinstance(d, Sequences):
            return Sequences.concat([s if isinstance(s, Sequences) else Sequences(s, alphabet=d.alphabet) for s in raw])
    if all(hasattr(d, "shape") and len(d.shape) == 2 for d in raw):
        if len({d.shape[1] for d in raw}) == 1:
            if any(sparse.issparse(d) for d in raw):
                return sparse.vstack([sparse.csr_array(d) for d in raw], format="csr")
            rows = np.concatenate([np.asarray(d) for d in raw])
            return type(first)(rows, columns=first.columns) if hasattr(first, "columns") else rows
        if sparse.issparse(first) or np.asarray(first).dtype.kind == "f":
            return first  # the other side's width is checked against it
    return [datum for d in raw for datum in d]


def hashable(source: Any) -> bool:
    """Whether the memo can keep this source's values: it holds NumPy numbers, no gradients and nothing on a device."""
    if isinstance(source, Batch):
        fields = [getattr(source, name) for name in (*source._arrays, *source._parts)]
        return all(hashable(field) for field in fields)
    if hasattr(source, "parts"):
        return all(hashable(part) for part in source.parts)
    return isinstance(source, CSRRows) or is_numpy_array(source) or hasattr(source, "digests")


def some(source: Any, index: Floats) -> Any:
    """Return the objects at ``index``; all of them as they are."""
    if len(index) == len_of(source) and np.array_equal(index, np.arange(len(index))):
        return source
    return source[index]
