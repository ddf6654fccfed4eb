"""Input forms: lists and arrays of data, flattened into values and offsets.

`flatten` reads every form that `mercer.data.Sequences` accepts. It decides nothing about alphabets; what is
wrong with a single datum becomes a `Problem`, so that the caller can stop at the first or report all.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mercer._array import to_numpy

Kind: TypeAlias = Literal["characters", "tokens", "integers", "vectors", "empty"]


@dataclass(frozen=True)
class Problem:
    """What is wrong with one datum: the exception's type, and the sentence after the datum's name."""

    error: type[Exception]
    text: str


@dataclass
class Flat:
    """Data of one kind, end to end; ``values`` are fresh arrays that nobody else holds.

    ``values`` are code points (uint8 or uint32) for characters, an object array of str or int for tokens
    (None = not observed), int64 for integers and floats of shape ``(T, d)`` for vectors. Read from a list, a
    datum with a problem is empty.
    """

    kind: Kind
    values: NDArray[Any]
    offsets: NDArray[np.int64]
    problems: dict[int, Problem] = field(default_factory=dict)


def offsets_of(lengths: Any) -> NDArray[np.int64]:
    """Turn N lengths into N + 1 offsets."""
    lengths = np.asarray(lengths, dtype=np.int64)
    out = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=out[1:])
    return out


def code_points(text: str) -> NDArray[Any]:
    """Return the code points of ``text``, one byte each where all of them fit."""
    try:
        return np.frombuffer(text.encode("latin-1"), dtype=np.uint8).copy()
    except UnicodeEncodeError:
        return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(np.uint32)


def as_integers(x: NDArray[Any]) -> NDArray[np.int64]:
    """Copy integers or booleans as int64."""
    if x.dtype.kind == "u" and x.size and x.max() > np.iinfo(np.int64).max:
        raise ValueError(f"the symbol {x.max()} does not fit into 64 bits; number the symbols from 0")
    return x.astype(np.int64)


def as_floats(x: NDArray[Any]) -> NDArray[Any]:
    """Copy numbers as float64, or as float32 if they are that; half precision is widened to float32."""
    if x.dtype.kind == "f" and x.dtype.itemsize <= 4:
        return x.astype(np.float32)
    return x.astype(np.float64)


def flatten(data: Any) -> Flat:
    """Flatten any input form."""
    if isinstance(data, str | bytes):
        raise TypeError("the data are one string; pass a list of strings, such as [text]")
    if isinstance(data, Mapping):
        raise TypeError(
            "the data are a mapping; pass its values as the data and its keys as ids, such as "
            "Sequences(list(d.values()), ids=list(d))"
        )
    if isinstance(data, Set):
        raise TypeError("the data are a set, which has no order; pass a list")
    library = type(data).__module__.partition(".")[0]
    if library in ("pyarrow", "awkward"):
        from mercer.data._columnar import from_arrow, from_awkward

        return from_arrow(data) if library == "pyarrow" else from_awkward(data)
    if hasattr(data, "iloc"):  # pandas
        if hasattr(getattr(data, "dtype", None), "pyarrow_dtype"):
            from mercer.data._columnar import from_arrow

            return from_arrow(data.array.__arrow_array__())
        return _from_array(data.to_numpy())
    if hasattr(data, "__arrow_c_stream__"):  # polars and other columns
        from mercer.data._columnar import from_arrow_stream

        return from_arrow_stream(data)
    if isinstance(data, list | tuple):
        return _from_items(data)
    if hasattr(data, "__array__") or hasattr(data, "__dlpack__"):
        return _from_array(to_numpy(data) if not isinstance(data, np.ndarray) else data)
    if hasattr(data, "tocsr") or not isinstance(data, Iterable):
        raise TypeError(f"the data are a {type(data).__name__}; pass a list of strings or of arrays")
    return _from_items(list(data))


def _from_array(a: NDArray[Any]) -> Flat:
    """Read an array whose first axis is the sample."""
    if np.ma.is_masked(a):
        raise TypeError("the data are a masked array; fill it first, such as with a.filled(np.nan)")
    if a.ndim == 0:
        raise TypeError(f"the data are the single value {a!r}; pass a list of sequences")
    kind = a.dtype.kind
    if kind in "OUST":
        return _from_items(a.tolist() if a.ndim == 1 else list(a))
    if kind not in "biuf":
        raise TypeError(f"the data have dtype {a.dtype}; pass strings, integers or real numbers")
    if a.ndim == 1:
        if len(a) == 0:
            return _from_items([])
        raise ValueError(
            "a 1-D array of numbers is one sequence, not many; pass a list of sequences, such as [x], "
            "or x[:, None] for sequences of length 1"
        )
    if a.ndim > 3:
        raise ValueError(f"the data have {a.ndim} axes; pass at most 3: (sample, time, dimension)")
    offsets = np.arange(a.shape[0] + 1, dtype=np.int64) * a.shape[1]
    if a.ndim == 2 and kind in "biu":
        return Flat("integers", as_integers(a).reshape(-1), offsets)
    d = 1 if a.ndim == 2 else a.shape[2]
    if a.ndim == 3 and d > a.shape[1]:
        warnings.warn(
            f"a 3-D array is read as (sample, time, dimension), here {a.shape}: more dimensions than "
            "time points; if the last axis is time, use Sequences.from_aeon",
            UserWarning,
            stacklevel=5,
        )
    return Flat("vectors", np.ascontiguousarray(as_floats(a)).reshape(offsets[-1], d), offsets)


def _from_items(items: Sequence[Any]) -> Flat:
    """Read a list of data, one by one unless all are strings."""
    if all(issubclass(t, str) for t in set(map(type, items))) and items:
        lengths = np.fromiter(map(len, items), dtype=np.int64, count=len(items))
        return Flat("characters", code_points("".join(items)), offsets_of(lengths))
    pieces: list[NDArray[Any] | str] = []
    kinds: list[Kind] = []
    problems: dict[int, Problem] = {}
    for i, item in enumerate(items):
        got = read_item(item)
        if isinstance(got, Problem):
            problems[i] = got
            kinds.append("empty")
            pieces.append(np.empty(0))
        else:
            kinds.append(got[0])
            pieces.append(got[1])
    return _join(kinds, pieces, problems)


def read_item(item: Any) -> tuple[Kind, NDArray[Any] | str] | Problem:
    """Read one datum; characters are returned as one str, vectors with shape ``(T, d)``."""
    if isinstance(item, str):
        return "characters", item
    if isinstance(item, bytes):
        try:
            return "characters", item.decode("ascii")
        except UnicodeDecodeError as e:
            text = f"has the byte {item[e.start]:#x} at position {e.start}, which is not ASCII"
            return Problem(ValueError, f"{text}; decode it to str first")
    if item is None:
        return Problem(TypeError, "is None; leave it out, or pass invalid='mask'")
    if isinstance(item, Mapping | Set) or not (isinstance(item, Iterable) or hasattr(item, "__array__")):
        text = repr(item)
        text = text if len(text) <= 40 else type(item).__name__
        return Problem(TypeError, f"is {text}, not a sequence; pass strings or arrays")
    if isinstance(item, list | tuple) and item and isinstance(item[0], str):
        a = np.empty(len(item), dtype=object)  # np.asarray would turn ["a", 1] into strings
        a[:] = item
    else:
        try:
            a = item if isinstance(item, np.ndarray) else to_numpy(item)
        except TypeError:
            text = f"is a {type(item).__name__}, not one sequence; pass strings or arrays"
            return Problem(TypeError, text)
        except ValueError:
            return Problem(ValueError, "has points of different dimensions; pass a (T, d) array")
        if a.dtype.kind == "U" and not isinstance(item, np.ndarray) and not hasattr(item, "dtype"):
            a = np.array(list(item), dtype=object)
    if np.ma.is_masked(a):
        return Problem(TypeError, "is a masked array; fill it first, such as with a.filled(np.nan)")
    if a.ndim == 0:
        return Problem(TypeError, f"is the single value {a.item()!r}, not a sequence; pass [{a.item()!r}]")
    if a.ndim > 2:
        return Problem(ValueError, f"has {a.ndim} axes; pass a 1-D array, or a (T, d) array")
    return _read_array(a)


def _read_array(a: NDArray[Any]) -> tuple[Kind, NDArray[Any]] | Problem:
    """Classify a 1-D or 2-D array that is one datum."""
    kind = a.dtype.kind
    if a.size == 0 and (a.ndim == 1 or a.shape[1] == 0):
        return "empty", np.empty(0)
    if kind in "biuf" and (a.ndim == 2 or kind == "f"):
        return "vectors", a if a.ndim == 2 else a[:, None]
    if kind in "biu":
        return "integers", a
    if a.ndim == 2 and kind != "O":
        return Problem(TypeError, f"is a 2-D array of dtype {a.dtype}; pass 1-D symbols, or real numbers")
    if kind in "UT":
        return "tokens", a.astype(object)
    if kind == "S":
        try:
            return "tokens", np.char.decode(a, "ascii").astype(object)
        except UnicodeDecodeError:
            return Problem(ValueError, "has a byte that is not ASCII; decode it to str first")
    if kind != "O":
        return Problem(TypeError, f"has dtype {a.dtype}; pass strings, integers or real numbers")
    a = np.array([None if _is_null(s) else s for s in a.flat] + [None], dtype=object)[:-1].reshape(a.shape)
    types = {type(s) for s in a.flat} - {type(None)}
    if all(issubclass(t, str) for t in types) and a.ndim == 1:
        return "tokens", a
    if all(issubclass(t, int | np.integer | np.bool_) for t in types) and a.ndim == 1:
        return "tokens", np.array([None if s is None else int(s) for s in a] + [None], dtype=object)[:-1]
    if all(issubclass(t, int | float | np.integer | np.floating | np.bool_) for t in types):
        return "vectors", (a if a.ndim == 2 else a[:, None]).astype(np.float64)
    if any(issubclass(t, list | tuple | np.ndarray) for t in types):
        return Problem(ValueError, "has points of different dimensions; pass a (T, d) array")
    names = " and ".join(sorted(t.__name__ for t in types))
    return Problem(TypeError, f"mixes values of type {names}; pass strings, integers or real numbers")


def _is_null(s: Any) -> bool:
    return s is None or type(s).__name__ == "NAType"


def _join(kinds: list[Kind], pieces: list[Any], problems: dict[int, Problem]) -> Flat:
    """Join data that were read one by one; the first one with content decides between text and numbers."""
    families = [_family(k, p) for k, p in zip(kinds, pieces, strict=True)]
    sort = next((f for f in families if f is not None), None)
    for i, f in enumerate(families):
        if f is not None and f != sort:
            text = f"holds {f}, but the data before it hold {sort}; pass data of one sort"
            problems[i] = Problem(TypeError, text)
            kinds[i], pieces[i] = "empty", np.empty(0)
    seen = set(kinds) - {"empty"}
    if "vectors" in seen:
        return _join_vectors(pieces, kinds, problems)
    offsets = offsets_of([len(p) for p in pieces])
    if not seen:
        return Flat("empty", np.empty(0), offsets, problems)
    if seen == {"characters"}:
        joined = "".join(p for p in pieces if isinstance(p, str))
        return Flat("characters", code_points(joined), offsets, problems)
    if seen == {"integers"}:
        return Flat("integers", np.concatenate([as_integers(p) for p in pieces]), offsets, problems)
    out = np.empty(offsets[-1], dtype=object)
    for p, (a, b) in zip(pieces, pairwise(offsets), strict=True):
        out[a:b] = list(p) if isinstance(p, str) else p.tolist()
    return Flat("tokens", out, offsets, problems)


def _family(kind: Kind, piece: Any) -> str | None:
    """Text or numbers; None if the datum is empty or all unobserved, and fits anywhere."""
    if kind in ("integers", "vectors"):
        return "numbers"
    if kind == "empty" or len(piece) == 0:
        return None
    if kind == "characters":
        return "text"
    known = next((s for s in piece if s is not None), None)
    return None if known is None else "text" if isinstance(known, str) else "numbers"


def _join_vectors(pieces: list[Any], kinds: list[Kind], problems: dict[int, Problem]) -> Flat:
    """Join (T, d) arrays of one dimension; 1-D numbers among them are univariate series."""
    out: list[NDArray[Any]] = []
    d = -1
    for i, (kind, p) in enumerate(zip(kinds, pieces, strict=True)):
        if kind not in ("integers", "tokens", "vectors"):
            continue
        x = as_floats(p if p.ndim == 2 else p.reshape(-1, 1))  # None among tokens becomes NaN
        d = x.shape[1] if d < 0 else d
        if x.shape[1] == d:
            out.append(x)
            continue
        text = f"has dimension {x.shape[1]}, but the data before it have dimension {d}; give all the same"
        problems[i] = Problem(ValueError, text)
        pieces[i] = np.empty(0)
    return Flat("vectors", np.concatenate(out), offsets_of([len(p) for p in pieces]), problems)
