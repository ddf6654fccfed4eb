"""Operations on data of any kind: count, concatenate, and index."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj, is_numpy_array
from scipy import sparse
from sklearn.utils.validation import check_array

from mercer import _sizes
from mercer._array import Floats, as_array
from mercer._batch import Batch
from mercer._checks import is_listing
from mercer.data import Sequences
from mercer.data.csr import CSRRows, csr_array
from mercer.data.objects import Datum
from mercer.data.segments import is_column, looks_like_matrix


def n_objects(X: Any) -> int:
    """Return the number of objects; sparse matrices have no ``len``."""
    shape = getattr(X, "shape", None)
    if shape == () or (shape is None and not isinstance(X, Sized)):
        raise TypeError(f"X must be a list of samples; got {X!r}.")
    return len(X) if shape is None else int(shape[0])


def check_matrix(n: int, m: int, name: str, itemsize: int = 8, copies: int = 1) -> None:
    """Raise if a matrix of n x m kernel values does not fit into memory; before anything is fitted."""
    if copies * n * m * itemsize < _sizes.SMALL:
        return
    samples = f"{n:,} samples" if n == m else f"{n:,} and {m:,} samples"
    _sizes.check_room(
        copies * n * m * itemsize,
        f"The matrix of {name} of {samples}",
        "Use features in place of the matrix, mc.Features(kernel) or mc.Landmarks(kernel, 500) before a linear model, "
        "or write it to disk, mc.gram.compute(kernel, X, store='gram.zarr').",
    )


def length_of(X: Any) -> int:
    """Return the number of objects of any input; 0 if it is not known yet."""
    shape = getattr(X, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else 0
    return len(X) if hasattr(X, "__len__") else 0


def object_name(source: Any, i: int) -> str:
    """Return the name of an object for a message: the id of a sequence, else the position."""
    while hasattr(source, "parts"):  # a compound kernel: several views of the same objects
        source = source.parts[0]
    sequences = getattr(source, "X", source)  # posteriors contain their sequences
    return sequences.name(i) if isinstance(sequences, Sequences) else f"object {i}"


def unwrapped(X: Any) -> Any:
    """Return input that can be read twice: iterators become lists, and `mc.objects` is unwrapped."""
    if hasattr(X, "__next__"):
        X = list(X)
    items = X
    if isinstance(X, np.ndarray) and X.dtype == object and (X.ndim == 1 or (X.ndim == 2 and X.shape[1] == 1)):
        items = X.ravel().tolist()
    if not isinstance(items, list | tuple) or not items or not all(isinstance(item, Datum) for item in items):
        return X
    values = [item.value for item in items]
    first = values[0]
    if isinstance(first, Batch):
        return type(first).concat([value if value.ndim else value.reshape(1) for value in values])
    if isinstance(first, Sequences):
        return Sequences(items)
    if sparse.issparse(first):
        return sparse.vstack([sparse.csr_array(value.reshape((1, -1))) for value in values], format="csr")
    shapes = {np.shape(value) if isinstance(value, np.ndarray) else None for value in values}
    if len(shapes) == 1 and len(first.shape if isinstance(first, np.ndarray) else ()) == 1:
        return np.stack(values)
    return values


def check_libraries(source: Any, reference: Any) -> None:
    """Raise if two sides contain arrays of different libraries, which cannot be combined."""
    found = [" and ".join(sorted(libraries(side))) for side in (source, reference)]
    if found[0] != found[1]:
        raise TypeError(
            f"The two sides contain arrays of different libraries, {found[0]} and {found[1]}. Convert one of them, "
            "as with torch.asarray(x), or x.detach().cpu().numpy()."
        )


def libraries(source: Any) -> set[str]:
    """Return the names of the libraries of the arrays of a source."""
    if isinstance(source, Batch):
        parts = [getattr(source, name) for name in (*source._arrays, *source._parts)]
    elif hasattr(source, "parts"):
        parts = source.parts
    else:
        return {type(source).__module__.partition(".")[0]} if is_array_api_obj(source) else {"numpy"}
    return set().union(*(libraries(part) for part in parts))


def concatenated(data: tuple[Any, ...]) -> Any:
    """Concatenate several inputs to learn shared state from all of them; batches of models share nothing."""
    raw = [d for d in data if not isinstance(d, Batch)]
    if len(raw) <= 1:
        return raw[0] if raw else data[0]
    raw = [list(Sequences(d)) if is_column(d) else d for d in raw]
    if any(_is_matrix(d) for d in raw):  # convert lists of rows to matrices, too
        raw = [np.asarray(d) if isinstance(d, list | tuple) and len(d) and looks_like_matrix(d) else d for d in raw]
    first = raw[0]
    for d in raw:
        if isinstance(d, Sequences):
            return Sequences.concat([s if isinstance(s, Sequences) else Sequences(s, alphabet=d.alphabet) for s in raw])
    if all(_is_matrix(d) for d in raw):
        if len({d.shape[1] for d in raw}) == 1:
            if any(sparse.issparse(d) for d in raw):
                return sparse.vstack([csr_array(d) for d in raw], format="csr")
            rows = np.concatenate([np.asarray(d) for d in raw])
            return type(first)(rows, columns=first.columns) if hasattr(first, "columns") else rows
        if sparse.issparse(first) or np.asarray(first).dtype.kind == "f":
            return first  # the number of columns of the other side is checked against it
    raw = [d.toarray() if sparse.issparse(d) else np.asarray(d) if _is_matrix(d) else d for d in raw]
    for d in raw:
        if not is_listing(d):
            raise TypeError(f"X and Y must be lists of samples; got {d!r}.")
    return [datum for d in raw for datum in d]


def _is_matrix(d: Any) -> bool:
    return hasattr(d, "shape") and len(d.shape) == 2


def has_digests(source: Any) -> bool:
    """Whether the memo can keep values of this source: only NumPy arrays, without gradients and not on a device."""
    if isinstance(source, Batch):
        fields = [getattr(source, name) for name in (*source._arrays, *source._parts)]
        return all(has_digests(field) for field in fields)
    if hasattr(source, "parts"):
        return all(has_digests(part) for part in source.parts)
    return isinstance(source, CSRRows) or is_numpy_array(source) or hasattr(source, "digests")


def take(source: Any, index: Floats) -> Any:
    """Return the objects at ``index``; if that is all of them, unchanged."""
    if len(index) == n_objects(source) and np.array_equal(index, np.arange(len(index))):
        return source
    return source[index]


def checked_targets(owner: Any, y: Any, classifier: str = "SVC(kernel='precomputed')") -> Floats:
    """Return targets as numbers, ``(N,)`` or ``(N, T)``; the message about classes names the ``classifier``."""
    if y is None:
        raise ValueError(
            f"{type(owner).__name__} requires y to be passed, but the target y is None. Pass one number per sample."
        )
    target = y if hasattr(y, "shape") else as_array(y, "y", "one number or row of numbers per sample")
    listed = np.asarray(target)
    texts = [value for value in listed.ravel() if isinstance(value, str)] if listed.dtype.kind in "USO" else []
    if texts:
        raise ValueError(f"y must be numbers; got {str(texts[0])!r} first. Use {classifier} for classes.")
    found = np.asarray(check_array(y, ensure_2d=False, allow_nd=False, dtype=float, input_name="y"))
    if np.abs(found).max() > 1e150:
        most = found.flat[np.abs(found).argmax()]
        raise ValueError(f"y contains {most:g}, whose square overflows float64. Rescale y.")
    return found


def copy_columns(owner: Any, kernel: Any) -> None:
    """Give an estimator the number and the names of columns, or channels, that its kernel was fitted to."""
    for name in ("n_features_in_", "feature_names_in_"):
        owner.__dict__.pop(name, None)
        if hasattr(kernel, name):
            setattr(owner, name, getattr(kernel, name))
