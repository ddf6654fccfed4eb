"""Opaque objects: object arrays that pass scikit-learn's input checks unchanged."""

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
    """One sample, wrapped as an opaque object; compared and hashed by content.

    Parameters
    ----------
    value : object
        A string, an array (copied, read-only), a `Sequences` of length 1, or a distribution.

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
        """Return a 16-byte hash of the content."""
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
            "An entry of mc.objects cannot be converted to a number, which this estimator requires. Pass a "
            "precomputed Gram matrix, or use an estimator that accepts objects, such as "
            "GaussianProcessClassifier(kernel, multi_class='one_vs_rest')."
        )

    def __repr__(self) -> str:
        value = self.value
        if isinstance(value, np.ndarray):
            return f"Datum({value.dtype} array of shape {value.shape})"
        text = repr(value)
        return f"Datum({text if len(text) <= 60 else text[:57] + '...'})"


def objects(data: Any) -> NDArray[np.object_]:
    """Wrap samples one by one, for estimators that validate their input, such as scikit-learn's Gaussian processes.

    Parameters
    ----------
    data : Sequences, batch of distributions, array or iterable
        Samples, indexed by the first axis.

    Returns
    -------
    ndarray of shape (N,), dtype object
        One `Datum` per sample. Every kernel unwraps them, as in ``SVC(kernel=mc.ProbabilityProduct())`` fitted to
        ``mc.objects(batch)``; so does ``Sequences(objects(X))``, which keeps alphabet and ids.

    Examples
    --------
    >>> from mercer.data import Sequences, objects
    >>> wrapped = objects(Sequences(["ab", "b"]))
    >>> wrapped.shape, list(Sequences(wrapped[1:]))
    ((2,), ['b'])
    """
    if isinstance(data, str | bytes) or (not isinstance(data, Iterable) and not hasattr(data, "shape")):
        raise TypeError(f"data must be a list of samples; got an object of type {type(data).__name__}.")
    if hasattr(data, "iloc"):
        data = data.tolist() if getattr(data, "ndim", 1) == 1 else data.to_numpy()
    items: list[Any]
    if hasattr(data, "digests"):  # Sequences: slices keep alphabet and id
        items = [data[i : i + 1] for i in range(len(data))]
    elif hasattr(data, "shape"):
        sparse = hasattr(data, "tocsr")  # keep a sparse row as a matrix of one row
        rows = data.tocsr() if sparse else data
        items = [rows[[i], :] if sparse else rows[i] for i in range(data.shape[0])]
    else:
        items = list(data)
    out = np.empty(len(items), dtype=object)
    for i, item in enumerate(items):
        out[i] = item if isinstance(item, Datum) else Datum(item)
    return out
