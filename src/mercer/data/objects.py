"""Opaque data: an object array that passes through scikit-learn's checks untouched."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._array import frozen
from mercer._immutable import Immutable


class Datum(Immutable):
    """One datum, wrapped so that nothing looks inside; equal and hashed by content.

    Parameters
    ----------
    value : object
        A string, an array (copied, read-only), one of `Sequences`, a distribution.

    Examples
    --------
    >>> from mercer.data.objects import Datum
    >>> Datum("ACGT") == Datum("ACGT"), Datum("ACGT") == Datum("ACGG")
    (True, False)
    """

    __slots__ = ("value",)
    value: Any

    def __init__(self, value: Any) -> None:
        self._fill(value=frozen(value) if isinstance(value, np.ndarray) else value)

    def digest(self) -> bytes:
        """Return 16 bytes that identify the content."""
        value = self.value
        if hasattr(value, "digests"):
            return b"".join(value.digests())
        if isinstance(value, str):
            raw, kind = value.encode("utf-8", "surrogatepass"), "str"
        elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
            raw, kind = value.tobytes(), f"{value.dtype.str}{value.shape}"
        else:
            raw, kind = pickle.dumps(value, protocol=5), type(value).__qualname__
        return blake2b(kind.encode() + b"\0" + raw, digest_size=16).digest()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Datum):
            return NotImplemented
        return self is other or self.digest() == other.digest()

    def __hash__(self) -> int:
        return hash(self.digest())

    def __reduce__(self) -> tuple[Any, ...]:
        return Datum, (self.value,)

    def __float__(self) -> float:
        raise TypeError(
            "a Datum of mc.objects is no number: this estimator wants numbers, so give it a precomputed Gram matrix, "
            "or take one that accepts objects, such as GaussianProcessClassifier(kernel, multi_class='one_vs_rest')"
        )

    def __repr__(self) -> str:
        value = self.value
        if isinstance(value, np.ndarray):
            return f"Datum({value.dtype} array of shape {value.shape})"
        text = repr(value)
        return f"Datum({text if len(text) <= 60 else text[:57] + '...'})"


def objects(data: Any) -> NDArray[np.object_]:
    """Wrap data one by one, for estimators that check their input, such as scikit-learn's Gaussian processes.

    Parameters
    ----------
    data : Sequences, batch of distributions, array or iterable
        The first axis is the sample.

    Returns
    -------
    ndarray of shape (N,), dtype object
        One `Datum` each. Every kernel takes them out again, as in ``SVC(kernel=mc.ProbabilityProduct())`` fitted to
        ``mc.objects(batch)``; so does ``Sequences(objects(X))``, with alphabet and ids.

    Examples
    --------
    >>> from mercer.data import Sequences, objects
    >>> wrapped = objects(Sequences(["ab", "b"]))
    >>> wrapped.shape, list(Sequences(wrapped[1:]))
    ((2,), ['b'])
    """
    if isinstance(data, str | bytes) or (not isinstance(data, Iterable) and not hasattr(data, "shape")):
        raise TypeError(f"the data are a {type(data).__name__}; pass a list of data")
    if hasattr(data, "iloc"):
        data = data.tolist() if getattr(data, "ndim", 1) == 1 else data.to_numpy()
    items: list[Any]
    if hasattr(data, "digests"):  # Sequences: keep alphabet and id with each
        items = [data[i : i + 1] for i in range(len(data))]
    elif hasattr(data, "shape"):
        sparse = hasattr(data, "tocsr")  # a sparse row stays a matrix of one row
        rows = data.tocsr() if sparse else data
        items = [rows[[i], :] if sparse else rows[i] for i in range(data.shape[0])]
    else:
        items = list(data)
    out = np.empty(len(items), dtype=object)
    for i, item in enumerate(items):
        out[i] = item if isinstance(item, Datum) else Datum(item)
    return out
