"""Random trajectories of a pair HMM, and the strings that they write (MK-5)."""

from __future__ import annotations

import numpy as np

from mercer._array import Floats
from mercer.data import Alphabet, Sequences
from mercer.families._simplex import drawn
from mercer.models._pairs.visits_single import Parameters

__all__ = ["draw_strings"]


def draw_strings(
    model: Parameters, alphabet: Alphabet, size: int, copies: int, rng: np.random.Generator
) -> tuple[Sequences, ...]:
    """Draw ``size`` trajectories, and from every one of them ``copies`` strings, each by itself."""
    n, k = len(model.silent), len(alphabet)
    begin, step = np.cumsum(model.initial), np.cumsum(model.transition, axis=1)
    letters = np.cumsum(model.letters[:, :k], axis=1)
    state = drawn(np.broadcast_to(begin, (size, n + 1)), rng.random(size))
    written: list[tuple[list[Floats], list[Floats]]] = [([], []) for _ in range(copies)]
    on = np.flatnonzero(state < n)
    while len(on):
        here = state[on]
        for owner, symbol in written:
            loud = rng.random(len(on)) >= model.silent[here]
            owner.append(on[loud])
            symbol.append(drawn(letters[here[loud]], rng.random(int(loud.sum()))))
        state[on] = drawn(step[here], rng.random(len(on)))
        on = on[state[on] < n]
    return tuple(_strings(owner, symbol, size, alphabet) for owner, symbol in written)


def _strings(owner: list[Floats], symbol: list[Floats], size: int, alphabet: Alphabet) -> Sequences:
    """Collect symbols, in the order in which they were written, by the string that they belong to."""
    nobody = np.empty(0, dtype=np.int64)
    who, codes = np.concatenate([nobody, *owner]), np.concatenate([nobody, *symbol])
    order = np.argsort(who, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(who, minlength=size))])
    return Sequences._make(codes[order].astype(np.int32), offsets, alphabet, None)
