"""Input forms: lists and arrays of sequences, flattened into values and offsets.

`flatten` reads every form that `mercer.data.Sequences` accepts. It does not handle alphabets. An invalid sequence
becomes a `Problem`, so that the caller can either raise at the first one or report all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mercer._array import to_numpy
from mercer._notices import notify
from mercer._wording import passing
from mercer.data._frames import is_frame
from mercer.data.ragged import offsets_of

Kind: TypeAlias = Literal["characters", "tokens", "integers", "vectors", "empty"]

ONE_SERIES = "A 2-D array is read as N univariate series; pass one series x of shape (T, d) as [x]."


@dataclass(frozen=True)
class Problem:
    """Reason why one sequence is invalid: the exception type, and a message that follows the sequence's name."""

    error: type[Exception]
    text: str


@dataclass
class Flat:
    """Concatenated sequences of one kind; ``values`` is a fresh array that is not shared.

    ``values`` holds code points (uint8 or uint32) for characters, an object array of str or int for tokens
    (None means missing), int64 for integers and floats of shape ``(T, d)`` for vectors. In lists, an invalid
    sequence has length 0.
    """

    kind: Kind
    values: NDArray[Any]
    offsets: NDArray[np.int64]
    problems: dict[int, Problem] = field(default_factory=dict)


def code_points(text: str) -> NDArray[Any]:
    """Return the code points of ``text``, as uint8 if all of them fit."""
    try:
        return np.frombuffer(text.encode("latin-1"), dtype=np.uint8).copy()
    except UnicodeEncodeError:
        return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(np.uint32)


def as_integers(x: NDArray[Any]) -> NDArray[np.int64]:
    """Copy integers or booleans as int64."""
    if x.dtype.kind == "u" and x.size and x.max() > np.iinfo(np.int64).max:
        raise ValueError(f"The symbol {x.max()} does not fit into int64; number the symbols from 0.")
    return x.astype(np.int64)


def as_floats(x: NDArray[Any]) -> NDArray[Any]:
    """Copy numbers as float64; float32 is kept, and float16 is widened to float32."""
    if x.dtype.kind == "f" and x.dtype.itemsize <= 4:
        return x.astype(np.float32)
    return x.astype(np.float64)


def flatten(data: Any) -> Flat:
    """Flatten any input form."""
    if isinstance(data, str | bytes):
        raise TypeError("X must be a list of strings; got a single string. Pass [text].")
    if isinstance(data, Mapping):
        raise TypeError(
            f"X must be a list of strings or arrays; got a {type(data).__name__}. Pass its values as the data and its "
            "keys as ids, as in Sequences(list(d.values()), ids=list(d))."
        )
    if isinstance(data, Set):
        raise TypeError("X must be a list of strings or arrays; got a set, which has no order. Pass a list.")
    if is_frame(data):
        from mercer.data._frame_readers import flat_of_frame

        return flat_of_frame(data)
    if hasattr(getattr(data, "dtype", None), "pyarrow_dtype"):  # pandas with Arrow
        return _from_column(data.array.__arrow_array__())
    if hasattr(data, "iloc"):  # pandas
        return from_array(data.to_numpy())
    if type(data).__module__.partition(".")[0] in ("pyarrow", "polars", "awkward"):
        return _from_column(data)
    if hasattr(data, "__arrow_c_stream__"):  # other columnar libraries
        import pyarrow as pa

        return _from_column(pa.chunked_array(data))
    if isinstance(data, list | tuple):
        return _from_items(data)
    if hasattr(data, "__array__") or hasattr(data, "__dlpack__"):
        return from_array(to_numpy(data) if not isinstance(data, np.ndarray) else data)
    if hasattr(data, "tocsr") or not isinstance(data, Iterable):
        raise TypeError(f"X must be a list of strings or arrays; got an object of type {type(data).__name__}.")
    return _from_items(list(data))


def _from_column(data: Any) -> Flat:
    """Read a column of Arrow, polars or Awkward as a list in which nulls are None; single precision is kept."""
    lists = getattr(data, "to_pylist", None) or getattr(data, "to_list", None)
    if lists is None:
        raise TypeError(f"X must be a column of strings or lists; got a {type(data).__name__}. Pass a column.")
    items = lists()
    width = next((len(x) for item in items if isinstance(item, list) for x in item if isinstance(x, list)), None)
    if width is not None:  # a null among points is a missing point
        gone = [np.nan] * width
        items = [item and [gone if x is None else x for x in item] for item in items]
    flat = _from_items(items)
    kind = str(getattr(data, "type", None) or data.dtype)
    if flat.kind == "vectors" and re.search(r"\b(float|halffloat|float16|[fF]loat32)\b", kind):
        flat.values = flat.values.astype(np.float32)
    return flat


def from_array(a: NDArray[Any]) -> Flat:
    """Read an array whose first axis indexes samples."""
    if np.ma.is_masked(a):
        raise TypeError("X is a masked array; fill it first, as in a.filled(np.nan).")
    if a.ndim == 0:
        raise TypeError(f"X must be a list of sequences; got the single value {a!r}.")
    kind = a.dtype.kind
    if kind in "OUST":
        return _from_items(a.tolist() if a.ndim == 1 else list(a))
    if kind not in "biuf":
        raise TypeError(f"X must contain strings, integers or real numbers; got dtype {a.dtype}.")
    if a.ndim == 1:
        if len(a) == 0:
            return _from_items([])
        raise ValueError(
            "X is a 1-D array of numbers, which is a single sequence; pass a list of sequences, such as [x], "
            "or x[:, None] for sequences of length 1."
        )
    if a.ndim > 3:
        raise ValueError(f"X must have at most 3 axes, (n_samples, n_timepoints, n_dimensions); got {a.ndim} axes.")
    offsets = np.arange(a.shape[0] + 1, dtype=np.int64) * a.shape[1]
    if a.ndim == 2 and kind in "biu":
        return Flat("integers", as_integers(a).reshape(-1), offsets)
    d = 1 if a.ndim == 2 else a.shape[2]
    if a.ndim == 2 and a.shape[1] < 10 and a.shape[0] > 10 * a.shape[1]:
        notify(
            f"X is read as {a.shape[0]} series of {a.shape[1]} values. {ONE_SERIES} Pass "
            "X[:, :, None] to confirm that every row is a series."
        )
    if a.ndim == 3 and d > a.shape[1]:
        notify(
            f"X has shape {a.shape}, read as (n_samples, n_timepoints, n_dimensions), with more dimensions than "
            "time points. If the last axis is time, use Sequences.from_aeon.",
        )
    return Flat("vectors", np.ascontiguousarray(as_floats(a)).reshape(offsets[-1], d), offsets)


def notify_channels_first(data: Any) -> None:
    """Warn the user of a list of arrays that all have the same rows, and more columns: time may be their last axis."""
    items = data if isinstance(data, list) else []
    shapes: set[tuple[int, ...]] = {item.shape if isinstance(item, np.ndarray) else () for item in items}
    wide = shapes and all(len(shape) == 2 and 0 < shape[0] < shape[1] for shape in shapes)
    if wide and len({shape[0] for shape in shapes}) == 1:
        notify(
            f"X is a list of arrays of shape {min(shapes)}, read as (n_timepoints, n_dimensions), with more dimensions "
            "than time points. If the last axis is time, use Sequences.from_aeon."
        )


def _from_items(items: Sequence[Any]) -> Flat:
    """Read a list of sequences, one by one unless all are strings."""
    if all(issubclass(t, str) for t in set(map(type, items))) and items:
        lengths = np.fromiter(map(len, items), dtype=np.int64, count=len(items))
        return Flat("characters", code_points("".join(items)), offsets_of(lengths))
    if any(map(is_frame, items)):
        from mercer.data._frame_readers import flat_of_frames

        with_time = flat_of_frames(list(items))
        if with_time is not None:
            return with_time
    pieces: list[NDArray[Any] | str] = []
    kinds: list[Kind] = []
    problems: dict[int, Problem] = {}
    for i, item in enumerate(items):
        result = read_item(item)
        if isinstance(result, Problem):
            problems[i] = result
            kinds.append("empty")
            pieces.append(np.empty(0))
        else:
            kinds.append(result[0])
            pieces.append(result[1])
    return _join(kinds, pieces, problems)


def read_item(item: Any) -> tuple[Kind, NDArray[Any] | str] | Problem:
    """Read one sequence; characters are returned as one str, vectors with shape ``(T, d)``."""
    if isinstance(item, str):
        return "characters", item
    if isinstance(item, Problem):
        return item
    if isinstance(item, bytes):
        try:
            return "characters", item.decode("ascii")
        except UnicodeDecodeError as e:
            text = f"has the byte {item[e.start]:#x} at position {e.start}, which is not ASCII"
            return Problem(ValueError, f"{text}; decode it to str first.")
    if item is None:
        return Problem(TypeError, f"is None; drop it, or {passing('invalid', 'mask')}.")
    if isinstance(item, Mapping | Set) or not (isinstance(item, Iterable) or hasattr(item, "__array__")):
        text = repr(item)
        text = text if len(text) <= 40 else type(item).__name__
        return Problem(TypeError, f"is {text}, which is not a sequence; pass strings or arrays.")
    if isinstance(item, list | tuple) and item and isinstance(item[0], str):
        a = np.empty(len(item), dtype=object)  # np.asarray would turn ["a", 1] into strings
        a[:] = item
    else:
        try:
            a = item if isinstance(item, np.ndarray) else to_numpy(item)
        except TypeError:
            text = f"is a {type(item).__name__}, not a single sequence; pass strings or arrays."
            if hasattr(item, "offsets"):  # the X of (X, y)
                text += " Of what a reader returns, pass the sequences, as in mc.read_fasta(path).X."
            return Problem(TypeError, text)
        except ValueError:
            return Problem(ValueError, "has points of different dimensions; pass a (T, d) array.")
        if a.dtype.kind == "U" and not isinstance(item, np.ndarray) and not hasattr(item, "dtype"):
            a = np.array(list(item), dtype=object)
    if np.ma.is_masked(a):
        return Problem(TypeError, "is a masked array; fill it first, as in a.filled(np.nan).")
    if a.ndim == 0:
        return Problem(TypeError, f"is the single value {a.item()!r}, which is not a sequence; pass [{a.item()!r}].")
    if a.ndim > 2:
        return Problem(ValueError, f"has {a.ndim} axes; pass a 1-D array or a (T, d) array.")
    return _read_array(a)


def _read_array(a: NDArray[Any]) -> tuple[Kind, NDArray[Any]] | Problem:
    """Classify a 1-D or 2-D array that is one sequence."""
    kind = a.dtype.kind
    if a.size == 0 and (a.ndim == 1 or a.shape[1] == 0):
        return "empty", np.empty(0)
    if kind in "biuf" and (a.ndim == 2 or kind == "f"):
        return "vectors", a if a.ndim == 2 else a[:, None]
    if kind in "biu":
        return "integers", a
    if a.ndim == 2 and kind != "O":
        return Problem(TypeError, f"is a 2-D array of dtype {a.dtype}; pass a 1-D array of symbols, or real numbers.")
    if kind in "UT":
        return "tokens", a.astype(object)
    if kind == "S":
        try:
            return "tokens", np.char.decode(a, "ascii").astype(object)
        except UnicodeDecodeError:
            return Problem(ValueError, "has a byte that is not ASCII; decode it to str first.")
    if kind != "O":
        return Problem(TypeError, f"has dtype {a.dtype}; pass strings, integers or real numbers.")
    a = np.array([None if is_null(s) else s for s in a.flat] + [None], dtype=object)[:-1].reshape(a.shape)
    types = {type(s) for s in a.flat} - {type(None)}
    if all(issubclass(t, str) for t in types) and a.ndim == 1:
        return "tokens", a
    if all(issubclass(t, int | np.integer | np.bool_) for t in types) and a.ndim == 1:
        return "tokens", np.array([None if s is None else int(s) for s in a] + [None], dtype=object)[:-1]
    if all(issubclass(t, int | float | np.integer | np.floating | np.bool_) for t in types):
        return "vectors", (a if a.ndim == 2 else a[:, None]).astype(np.float64)
    if any(issubclass(t, list | tuple | np.ndarray) for t in types):
        return Problem(ValueError, "has points of different dimensions; pass a (T, d) array.")
    names = " and ".join(sorted(t.__name__ for t in types))
    return Problem(TypeError, f"mixes values of type {names}; pass strings, integers or real numbers.")


def is_null(s: Any) -> bool:
    """Whether a value is None or the missing value of pandas: NA or NaT."""
    return s is None or type(s).__name__ in ("NAType", "NaTType")


def _join(kinds: list[Kind], pieces: list[Any], problems: dict[int, Problem]) -> Flat:
    """Concatenate sequences that were read one by one; the first non-empty one decides between text and numbers."""
    contents = [_content(k, p) for k, p in zip(kinds, pieces, strict=True)]
    expected = next((c for c in contents if c is not None), None)
    for i, content in enumerate(contents):
        if content is not None and content != expected:
            text = f"contains {content}, but the sequences before it contain {expected}; do not mix the two."
            problems[i] = Problem(TypeError, text)
            kinds[i], pieces[i] = "empty", np.empty(0)
    seen = set(kinds) - {"empty"}
    if "vectors" in seen:
        return _join_vectors(pieces, kinds, problems)
    offsets = offsets_of([len(p) for p in pieces])
    if not seen:
        return Flat("empty", np.empty(0), offsets, problems)
    if seen == {"characters"}:
        text = "".join(p for p in pieces if isinstance(p, str))
        return Flat("characters", code_points(text), offsets, problems)
    if seen == {"integers"}:
        return Flat("integers", np.concatenate([as_integers(p) for p in pieces]), offsets, problems)
    out = np.empty(offsets[-1], dtype=object)
    for p, (a, b) in zip(pieces, pairwise(offsets), strict=True):
        out[a:b] = list(p) if isinstance(p, str) else p.tolist()
    return Flat("tokens", out, offsets, problems)


def _content(kind: Kind, piece: Any) -> str | None:
    """Return "text" or "numbers", or None if the sequence is empty or entirely missing."""
    if kind in ("integers", "vectors"):
        return "numbers"
    if kind == "empty" or len(piece) == 0:
        return None
    if kind == "characters":
        return "text"
    first = next((s for s in piece if s is not None), None)
    return None if first is None else "text" if isinstance(first, str) else "numbers"


def _join_vectors(pieces: list[Any], kinds: list[Kind], problems: dict[int, Problem]) -> Flat:
    """Concatenate (T, d) arrays of the same d; 1-D arrays of numbers among them are univariate series."""
    out: list[NDArray[Any]] = []
    d = -1
    numbers = [p for kind, p in zip(kinds, pieces, strict=True) if kind in ("integers", "tokens", "vectors")]
    channels_first = all(p.ndim == 2 and len(p) == len(numbers[0]) < p.shape[1] for p in numbers)
    for i, (kind, p) in enumerate(zip(kinds, pieces, strict=True)):
        if kind not in ("integers", "tokens", "vectors"):
            continue
        x = as_floats(p if p.ndim == 2 else p.reshape(-1, 1))  # None among tokens becomes NaN
        d = x.shape[1] if d < 0 else d
        if x.shape[1] == d:
            out.append(x)
            continue
        text = f"has dimension {x.shape[1]}, but the sequences before it have dimension {d}; they must be equal."
        if channels_first:
            text += f" All arrays have {len(x)} rows; if a row is a channel, use Sequences.from_aeon."
        problems[i] = Problem(ValueError, text)
        pieces[i] = np.empty(0)
    return Flat("vectors", np.concatenate(out), offsets_of([len(p) for p in pieces]), problems)
