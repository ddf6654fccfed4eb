"""Sequences of observations of any kind: vectors, symbols, or objects that a kernel compares."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer._array import Indices, Mask
from mercer._notices import notify
from mercer.data import Sequences
from mercer.data.objects import Datum
from mercer.data.segments import in_double
from mercer.kernels import RBF, Laplace, Linear

LARGEST = 1e150
"""The square of a larger number, and sums of such squares, overflow float64."""


class ObjectSequences:
    """Sequences of objects: strings, point sets, anything that a kernel compares. None marks a missing step.

    Parameters
    ----------
    items : list of lists
        The observations of every sequence.
    """

    alphabet = None

    def __init__(self, items: list[list[Any]]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    @property
    def shape(self) -> tuple[int]:
        """Number of sequences, as a shape."""
        return (len(self.items),)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, int | np.integer):
            return self.items[key]
        if isinstance(key, slice):
            return ObjectSequences(self.items[key])
        index = np.arange(len(self))[np.asarray(key)]
        return ObjectSequences([self.items[i] for i in index])

    def name(self, i: int) -> str:
        """Return the name of a sequence, for a message."""
        return f"sequence {int(i)}"

    def digests(self) -> list[bytes]:
        """Return a hash of every sequence."""
        return [Datum(tuple(Datum(x).digest() for x in item)).digest() for item in self.items]


@dataclass(frozen=True)
class Steps:
    """All observations of ragged sequences, one after the other.

    Parameters
    ----------
    values : array of shape (T, d), array of shape (T,), or list
        Vectors, codes of symbols, or objects.
    offsets : array of shape (N + 1,)
        Sequence i is ``values[offsets[i]:offsets[i + 1]]``.
    observed : boolean array of shape (T,)
        Which steps are not missing.
    """

    values: Any
    offsets: Indices
    observed: Mask

    def __len__(self) -> int:
        return len(self.observed)

    @property
    def ends(self) -> Indices:
        """End of the sequence of every step, ``(T,)``."""
        return np.repeat(self.offsets[1:], np.diff(self.offsets))


def joined(first: Steps, second: Steps) -> Steps:
    """Return the sequences of both parts."""
    both = [part.values for part in (first, second)]
    values = both[0] + both[1] if isinstance(both[0], list) else np.concatenate(both)
    offsets = np.concatenate([first.offsets, len(first) + second.offsets[1:]])
    return Steps(values, offsets, np.concatenate([first.observed, second.observed]))


def take(values: Any, index: Indices) -> Any:
    """Return the observations at ``index``, of any kind."""
    return [values[i] for i in index] if isinstance(values, list) else values[index]


def compares_vectors(kernel: Any) -> bool:
    """Whether observations are vectors or symbols rather than objects: no kernel, RBF, Laplace, Linear, or of them."""
    if kernel is None or isinstance(kernel, Linear | RBF | Laplace):
        return True
    parts = list(getattr(kernel, "kernels", None) or ()) or [p for p in (getattr(kernel, "kernel", None),) if p]
    return bool(parts) and all(compares_vectors(part) for part in parts)


def read_series(X: Any, alphabet: Any) -> Sequences:
    """Read sequences of vectors or symbols."""
    return in_double(Sequences(X, alphabet=alphabet).require_some())


def read_objects(X: Any) -> ObjectSequences:
    """Read sequences of objects: a list of lists, or arrays whose first axis is time."""
    if isinstance(X, ObjectSequences):
        return X
    if isinstance(X, str | bytes | dict) or not isinstance(X, Iterable) or getattr(X, "shape", None) == ():
        raise TypeError(f"X must be a list of sequences of objects; got {type(X).__name__}. Use [[x1, x2, ...], ...].")
    found = []
    for i, item in enumerate(X):
        if isinstance(item, Datum):
            item = item.value
        if isinstance(item, str | bytes | dict) or not isinstance(item, Iterable) or np.ndim(_shape(item)) == 0:
            raise TypeError(
                f"Sequence {i} is a {type(item).__name__}, but this kernel compares objects, one per step. Pass a list "
                "of objects for every sequence."
            )
        found.append(list(item))
    if not found:
        raise ValueError("X is empty; pass at least one sequence.")
    return ObjectSequences(found)


def _shape(item: Any) -> Any:
    return getattr(item, "shape", (1,)) or 0


def check_vectors(X: Sequences) -> None:
    """Raise if a step is missing in some coordinates only, or too large to be squared."""
    missing = np.isnan(X.values)
    partly = np.flatnonzero(missing.any(axis=1) & ~missing.all(axis=1))
    large = np.flatnonzero((np.abs(np.nan_to_num(X.values)) > LARGEST).any(axis=1))
    for at in (*partly[:1], *large[:1]):
        i = int(np.searchsorted(X.offsets, at, side="right")) - 1
        where = f"{X.name(i)}, step {at - X.offsets[i]}"
        if at in partly[:1]:
            raise ValueError(
                f"{where}: coordinate {int(np.argmax(missing[at]))} is NaN, but others are not. Impute it, or set the "
                "whole step to NaN, which marks it as missing."
            )
        raise ValueError(f"{where} has the value {np.abs(X.values[at]).max():g}, too large to be squared. Rescale it.")


def steps_of(X: Any, *, one_hot: bool = False) -> Steps:
    """Return the observations of accepted sequences; symbols as vectors with ``one_hot``."""
    if isinstance(X, ObjectSequences):
        values = [x for item in X.items for x in item]
        offsets = np.concatenate([[0], np.cumsum([len(item) for item in X.items])]).astype(np.int64)
        return Steps(values, offsets, np.array([x is not None for x in values], dtype=bool))
    if not X.is_symbols:
        check_vectors(X)
        values = X.values.astype(np.float64, copy=False)
        return Steps(values, X.offsets, ~np.isnan(values).any(axis=1))
    plain = X.values < len(X.alphabet)
    if not one_hot:
        return Steps(X.values, X.offsets, plain)
    return Steps(np.where(plain[:, None], X.values[:, None] == np.arange(len(X.alphabet)), np.nan), X.offsets, plain)


def triples(steps: Steps, window: int) -> Indices:
    """Return the times t of all training triples: the windows at t - window, t and t + 1 are observed, ``(m,)``."""
    begins = np.repeat(steps.offsets[:-1], np.diff(steps.offsets))
    times = np.arange(len(steps))
    inside = (times - window >= begins) & (times + window < steps.ends)
    seen = np.concatenate([[0], np.cumsum(steps.observed)])
    found = times[inside]
    return found[seen[found + window + 1] - seen[found - window] == 2 * window + 1]


def checked_triples(steps: Steps, window: int, X: Any) -> Indices:
    """Return the times of the triples of sequences X; raise if there are none, warn of sequences without any."""
    needed = 2 * window + 1
    lengths = np.diff(steps.offsets)
    times = triples(steps, window)
    if len(times) < 2:
        raise ValueError(
            f"There are {len(times)} runs of {needed} observed steps, the past, the future and one step more; the "
            f"longest sequence, {X.name(int(np.argmax(lengths)))}, has length {lengths.max()}. Use a smaller "
            "window or longer sequences."
        )
    short = np.flatnonzero(lengths < needed)
    if len(short):
        notify(
            f"{len(short)} sequences are shorter than two windows and one step, {needed}, and were not used, "
            f"such as {X.name(int(short[0]))} of length {lengths[short[0]]}. Use a smaller window to include them."
        )
    return times


def first_windows(steps: Steps, window: int) -> Indices:
    """Return the beginnings of sequences whose first window is observed."""
    seen = np.concatenate([[0], np.cumsum(steps.observed)])
    begins = steps.offsets[:-1][np.diff(steps.offsets) >= window]
    return np.asarray(begins[seen[begins + window] - seen[begins] == window])


def together(*starts: Indices) -> Indices:
    """Return the different beginnings of windows, in increasing order."""
    marked = np.zeros(max((int(at.max()) for at in starts if len(at)), default=-1) + 1, dtype=bool)
    for at in starts:
        marked[at] = True
    return np.flatnonzero(marked)


def windows(values: Any, starts: Indices, window: int) -> Any:
    """Cut windows: vectors become rows divided by sqrt(window), others a list of the observations at each position.

    With that factor, squared distances of windows are means over their steps.
    """
    if window == 1:
        return take(values, starts)
    if isinstance(values, np.ndarray) and values.ndim == 2:
        return values[starts[:, None] + np.arange(window)].reshape(len(starts), -1) / np.sqrt(window)
    return [take(values, starts + i) for i in range(window)]
