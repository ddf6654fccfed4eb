"""Convert any input form to checked arrays: ids, alphabet, codes, and the problems of single sequences."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer._checks import is_listing
from mercer._parameters import check, one_of
from mercer.data import ragged as _ragged
from mercer.data._container import naming
from mercer.data._forms import Flat, Problem, flatten
from mercer.data.alphabet import Alphabet
from mercer.data.objects import Datum


class Built(NamedTuple):
    """Content of `Sequences`, in the argument order of `Container._hold`."""

    values: NDArray[Any]
    offsets: NDArray[np.int64]
    alphabet: Alphabet | None
    ids: tuple[str, ...] | None
    kept: NDArray[np.bool_]
    problems: dict[str | int, str]


def check_ids(ids: Iterable[Any] | None, n: int) -> tuple[str, ...] | None:
    """Return ids as a tuple of n distinct strings."""
    if ids is None:
        return None
    if isinstance(ids, str):
        raise TypeError(f"ids must be a list of strings; got the string {ids!r}. Pass [{ids!r}].")
    if not is_listing(ids):
        raise TypeError(f"ids must be a list of strings; got {ids!r}.")
    names = tuple(str(name) for name in ids)
    if len(names) != n:
        raise ValueError(f"ids must have one entry per sequence; got {len(names)} ids for {n} sequences.")
    if len(set(names)) != n:
        seen: dict[str, int] = {}
        for i, name in enumerate(names):
            if name in seen:
                raise ValueError(f"ids must be distinct; got {name!r} at positions {seen[name]} and {i}.")
            seen[name] = i
    return names


def unwrap(data: Any) -> Any:
    """Return the values of an array made by `objects`; return any other input unchanged."""
    items = data if isinstance(data, list | tuple) else None
    if isinstance(data, np.ndarray) and data.dtype == object and data.ndim == 1:
        items = data.tolist()
    if items and any(isinstance(x, Datum) for x in items):
        return [x.value if isinstance(x, Datum) else x for x in items]
    return data


def build(data: Any, alphabet: Any, unknown: str, ids: Iterable[Any] | None, invalid: str) -> Built:
    """Read ``data``; raise at the first invalid sequence, or leave out all invalid ones."""
    check(one_of("raise", "missing"), unknown=unknown)
    check(one_of("raise", "mask"), invalid=invalid)
    return build_flat(flatten(data), alphabet, unknown, ids, invalid)


def build_flat(flat: Flat, alphabet: Any, unknown: str, ids: Iterable[Any] | None, invalid: str) -> Built:
    """Check flat sequences; raise at the first invalid one, or leave out all invalid ones."""
    n = len(flat.offsets) - 1
    names = check_ids(ids, n)
    if invalid == "raise":
        _raise_first(flat.problems, names)
    known = None if alphabet is None else Alphabet.of(alphabet)
    if flat.kind == "vectors" and known is None:
        _find_infinities(flat)
        values: NDArray[Any] = flat.values
    else:
        known = _find_alphabet(flat, names) if known is None else known
        values = _encode(flat, known, unknown, names)
    if invalid == "raise":
        _raise_first(flat.problems, names)
    kept = np.ones(n, dtype=bool)
    kept[list(flat.problems)] = False
    offsets = flat.offsets
    if flat.problems:
        values, offsets = _ragged.gather(values, offsets, np.flatnonzero(kept))
    kept_ids = tuple(name for name, keep in zip(names, kept, strict=True) if keep) if names is not None else None
    messages: dict[str | int, str] = {}
    for i in sorted(flat.problems):
        messages[i if names is None else names[i]] = f"{naming(names, i)} {flat.problems[i].text}"
    return Built(values, offsets, known, kept_ids, kept, messages)


def _raise_first(problems: dict[int, Problem], names: tuple[str, ...] | None) -> None:
    """Raise the first problem, if any."""
    if problems:
        i = min(problems)
        raise problems[i].error(f"{naming(names, i)} {problems[i].text}")


def _find_alphabet(flat: Flat, names: tuple[str, ...] | None) -> Alphabet:
    """Return the alphabet of the valid sequences."""
    good = np.setdiff1d(np.arange(len(flat.offsets) - 1), list(flat.problems))
    if flat.problems and len(good) == 0:
        i = min(flat.problems)
        raise ValueError(f"All sequences are invalid: {naming(names, i)} {flat.problems[i].text}")
    if flat.kind == "empty":
        if not len(good):
            raise ValueError("X is empty; pass at least one sequence, or for symbols pass alphabet=.")
        raise ValueError(
            "All sequences are empty, so symbols cannot be told from vectors. For symbols, pass alphabet=."
        )
    values = _ragged.gather(flat.values, flat.offsets, good)[0] if flat.problems else flat.values
    return Alphabet._found(flat.kind, values)


def _find_infinities(flat: Flat) -> None:
    """Add a problem for every sequence with an infinite coordinate."""
    bad = np.flatnonzero(np.isinf(flat.values).any(axis=1))
    for i, at in zip(*_ragged.locate(flat.offsets, bad), strict=True):
        row = flat.values[flat.offsets[i] + at]
        value = row[np.isinf(row)][0]
        text = f"has the value {value} at position {at}; use NaN for missing values."
        flat.problems.setdefault(int(i), Problem(ValueError, text))


def _encode(flat: Flat, alphabet: Alphabet, unknown: str, names: tuple[str, ...] | None) -> NDArray[np.int32]:
    """Encode flat symbols, and add a problem for every sequence with an unknown symbol."""
    first = int(np.argmax(np.diff(flat.offsets) > 0)) if len(flat.offsets) > 1 else 0
    name = naming(names, first) if len(flat.offsets) > 1 else "X"
    codes = alphabet._lookup(flat.kind, flat.values, name)
    bad = np.flatnonzero(codes < 0)
    if not len(bad):
        return codes
    if unknown == "missing":
        codes[bad] = alphabet.missing
        return codes
    for i, at in zip(*_ragged.locate(flat.offsets, bad), strict=True):
        text = alphabet._unknown(flat.kind, flat.values[flat.offsets[i] + at], int(at))
        flat.problems.setdefault(int(i), Problem(ValueError, text))
    return codes
