"""The arrays of profiles, rows of probabilities per node, and what files say about each profile."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np

from mercer._array import Floats, to_numpy
from mercer._checks import is_listing
from mercer._probability import check_sums, checked_probability
from mercer.data import Alphabet
from mercer.data.ragged import offsets_of
from mercer.models._ragged_points import Points

TRANSITIONS = ("m->m", "m->i", "m->d", "i->m", "i->i", "d->m", "d->d")
"""The columns of the transitions of a node, in HMMER's order."""
GROUPS = (slice(0, 3), slice(3, 5), slice(5, 7))
"""The columns of the transitions from a match, an insert and a delete state; each group sums to one."""
MATCH, INSERT, DELETE = GROUPS


class NodeRows(Points):
    """Rows of numbers, one per node, of N profiles: ``rows.set(i)`` are those of profile i."""

    def __repr__(self) -> str:
        return f"NodeRows({len(self)} profiles, {len(self.data)} rows of {self.dimension} numbers)"

    def __array__(self, dtype: Any = None, copy: Any = None) -> Floats:
        raise TypeError("The rows of several profiles are not one matrix. Use rows.set(i) for those of profile i.")


def rows_of(values: Any, what: str, width: int | None, extra: int) -> NodeRows:
    """Convert one matrix, or N matrices, of shape ``(M + extra, width)`` to `NodeRows`, or raise."""
    if isinstance(values, NodeRows):
        if len(values) and (values.dimension != width or values.sizes.min() < 1 + extra):
            raise ValueError(f"{what} must have {1 + extra} or more rows of {width} numbers per profile; got {values}.")
        return values
    if not is_listing(values):
        raise TypeError(f"{what} must be a list with one matrix per profile; got {values!r}.")
    try:
        single = np.ndim(values) == 2
    except ValueError:  # matrices of different sizes
        single = False
    matrices = [_matrix(x, what, i) for i, x in enumerate([values] if single else values)]
    for i, x in enumerate(matrices):
        wanted = matrices[0].shape[1] if width is None else width
        if x.shape[1] != wanted or len(x) < 1 + extra:
            raise ValueError(
                f"{what} of profile {i} must have {1 + extra} or more rows of {wanted} numbers; got shape {x.shape}."
            )
    flat = np.concatenate(matrices) if matrices else np.empty((0, width or 1))
    return NodeRows(flat, offsets_of([len(x) for x in matrices]), single)


def _matrix(x: Any, what: str, i: int) -> Floats:
    try:
        found = np.asarray(to_numpy(x), dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{what} of profile {i} must be a matrix of numbers; got {x!r}.") from None
    if found.ndim != 2:
        raise ValueError(f"{what} of profile {i} must be a matrix with a row per node; got shape {found.shape}.")
    return found


def check_nodes(match: NodeRows, insert: NodeRows, transitions: NodeRows) -> None:
    """Raise if the three arrays are not those of the same profiles, or a row is not a distribution."""
    for name, rows in (("insert", insert), ("transitions", transitions)):
        if len(rows) != len(match) or rows.single != match.single:
            raise ValueError(f"{name} must have one matrix per profile; got {len(rows)} for {len(match)} profiles.")
        bad = np.flatnonzero(rows.sizes != match.sizes + 1)
        if len(bad):
            i = int(bad[0])
            raise ValueError(
                f"{name} of profile {i} must have {match.sizes[i] + 1} rows, node 0 and one per node; got "
                f"{rows.sizes[i]}."
            )
    for name, rows in (("match", match), ("insert", insert), ("transitions", transitions)):
        _check_rows(rows, name)


def _check_rows(rows: NodeRows, name: str) -> None:
    first = 1 if name == "match" else 0
    for i, (begin, end) in enumerate(pairwise(rows.indptr)):
        part = rows.data[begin:end]
        bad = np.argwhere(~(part >= 0))
        if len(bad):
            node, column = map(int, bad[0])
            raise ValueError(
                f"{name} of profile {i} contains {part[node, column]} at node {node + first}; probabilities must be "
                "nonnegative numbers."
            )
        for group in GROUPS if name == "transitions" else (slice(None),):
            where = f"{name}[{group.start}:{group.stop}]" if name == "transitions" else name
            check_sums(part[:, group].sum(axis=1), part.dtype, f"{where} of profile {i}, node counted from {first},")
        if name == "transitions" and (part[-1, 2] != 0 or part[-1, 6] != 0):
            raise ValueError(
                f"transitions of profile {i} lead from the last node, {len(part) - 1}, to a delete state that does not "
                "exist. Set m->d and d->d of the last node to 0."
            )


# Background frequencies of letters, which emissions are compared with.

AMINO_ACIDS = (
    0.0787945, 0.0151600, 0.0535222, 0.0668298, 0.0397062, 0.0695071, 0.0229198, 0.0590092, 0.0594422, 0.0963728,
    0.0237718, 0.0414386, 0.0482904, 0.0395639, 0.0540978, 0.0683364, 0.0540687, 0.0673417, 0.0114135, 0.0304133,
)  # fmt: skip
"""Frequencies of the amino acids in Swiss-Prot 50.8, in the order of their letters; HMMER's null model has them too."""


def background_of(alphabet: Alphabet) -> Floats:
    """Return the usual background: frequencies of Swiss-Prot for proteins, else equal frequencies."""
    if alphabet == Alphabet.of("protein"):
        p = np.array(AMINO_ACIDS)
        return p / p.sum()
    return np.full(len(alphabet), 1 / len(alphabet))


def checked_background(values: Any, alphabet: Alphabet, batch: tuple[int, ...]) -> Floats:
    """Return the background of every profile, ``(*batch, k)``; raise if a letter has probability zero."""
    k = len(alphabet)
    if values is None:
        found = background_of(alphabet)
    else:
        found = np.asarray(to_numpy(checked_probability(values, "background")), dtype=np.float64)
    if found.shape not in ((k,), (*batch, k)):
        raise ValueError(f"background must have one probability per symbol, shape ({k},); got shape {found.shape}.")
    if not (found > 0).all():
        letter = alphabet.symbols[int(np.argwhere(found <= 0)[0][-1])]
        raise ValueError(f"background must be positive for every symbol; got 0 for {letter!r}. Add a pseudo-count.")
    return np.broadcast_to(found, (*batch, k))


class Annotations(Points):
    """One dictionary per profile, stored as the bytes of its JSON text; immutable.

    Parameters
    ----------
    data : array of uint8
        The texts of all profiles, concatenated.
    indptr : array of shape (N + 1,)
        Text i is ``data[indptr[i]:indptr[i + 1]]``.
    single : bool, default=False
        Whether this is the single profile of a batch of shape ().
    """

    dtype: ClassVar[Any] = np.dtype(np.uint8)
    _axes: ClassVar[int] = 1

    def __init__(self, data: Any, indptr: Any, single: Any = False) -> None:
        super().__init__(data, indptr, single)
        if not all(isinstance(notes, dict) for notes in self.dictionaries()):
            raise ValueError("the annotations of a profile are not a dictionary")

    @classmethod
    def of(cls, values: Any, count: int, single: bool) -> Self:
        """Store None, a dictionary or a list of dictionaries, one per profile."""
        if isinstance(values, cls):
            found = values
        else:
            several = [values] if values is None or isinstance(values, Mapping) else values
            if not is_listing(several) or not all(x is None or isinstance(x, Mapping) for x in several):
                raise TypeError(f"annotations must be a list of dictionaries, one per profile; got {values!r}.")
            several = list(several) * (count if values is None else 1)
            texts = [_text(i, dict(x or {})) for i, x in enumerate(several)]
            flat = np.frombuffer(b"".join(texts), dtype=np.uint8)
            found = cls(flat, offsets_of([len(text) for text in texts]), single)
        if len(found) != count:
            raise ValueError(f"annotations must have one dictionary per profile; got {len(found)} for {count}.")
        return found

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the batch."""
        return () if self.single else (len(self),)

    def dictionaries(self) -> list[dict[str, Any]]:
        """Return the dictionary of every profile."""
        return [json.loads(self.data[begin:end].tobytes()) for begin, end in pairwise(self.indptr)]

    def row_digests(self) -> list[bytes]:
        """Return equal digests: what a profile is called does not change its values."""
        return [b""] * len(self)


def _text(i: int, notes: dict[str, Any]) -> bytes:
    """Return the JSON text of the annotations of one profile."""
    try:
        return json.dumps(notes, sort_keys=True).encode()
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"annotations of profile {i} must be strings, numbers, lists and dictionaries; got {notes!r} ({error}). "
            "Convert the others, such as arrays by .tolist()."
        ) from error
