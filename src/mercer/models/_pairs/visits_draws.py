"""Random trajectories of a pair HMM, and the strings that they write (MK-5)."""

from __future__ import annotations

import numpy as np

from mercer._array import Floats
from mercer._probability import drawn
from mercer.compiled.code import compiled
from mercer.data import Alphabet, Sequences
from mercer.models._pairs.elimination import expected_visits
from mercer.models._pairs.visits_single import Parameters

__all__ = ["draw_strings"]

MOST_VISITS = 2e8
"""More visits than this are expected by mistake: they may write a gigabyte of symbols."""


def draw_strings(
    model: Parameters, alphabet: Alphabet, size: int, copies: int, rng: np.random.Generator
) -> tuple[Sequences, ...]:
    """Draw ``size`` trajectories, and from every one of them ``copies`` strings, each by itself."""
    n, k = len(model.silent), len(alphabet)
    mean = float(expected_visits(model.initial, model.transition).sum())
    if not mean * size * copies <= MOST_VISITS:
        raise ValueError(
            f"strings of the model take {mean:.3g} visits on average, and {size * copies} of them more than "
            f"{MOST_VISITS:.0e}: draw fewer, or give a larger stop (its smallest is {model.transition[:, n].min():.3g})"
        )
    begin, step = np.cumsum(model.initial), np.cumsum(model.transition, axis=1)
    letters = np.cumsum(model.letters[:, :k], axis=1)
    state = drawn(np.broadcast_to(begin, (size, n + 1)), rng.random(size))
    owner, symbol, used = _walk(rng, state, step, model.silent, letters, copies)
    return tuple(
        _strings(who[:number], codes[:number], size, alphabet)
        for who, codes, number in zip(owner, symbol, used, strict=True)
    )


@compiled
def _walk(
    rng: np.random.Generator, state: Floats, step: Floats, silent: Floats, letters: Floats, copies: int
) -> tuple[Floats, Floats, Floats]:  # pragma: no cover - compiled
    """Let all trajectories make one visit after the other; return who wrote what, in order, and how much that is."""
    n, on = len(silent), np.flatnonzero(state < len(silent))
    used, loud = np.zeros(copies, np.int64), np.empty(len(on), np.bool_)
    owner, symbol = np.empty((copies, 1024), np.int32), np.empty((copies, 1024), np.int32)
    while len(on):
        if used.max() + len(on) > owner.shape[1]:
            more = np.empty((copies, owner.shape[1] + len(on)), np.int32)
            owner, symbol = np.concatenate((owner, more), axis=1), np.concatenate((symbol, more), axis=1)
        for copy in range(copies):
            for q, who in enumerate(on):
                loud[q] = rng.random() >= silent[state[who]]
            for q, who in enumerate(on):
                if loud[q]:
                    owner[copy, used[copy]] = who
                    symbol[copy, used[copy]] = _outcome(letters[state[who]], rng.random())
                    used[copy] += 1
        for who in on:
            state[who] = _outcome(step[state[who]], rng.random())
        on = on[state[on] < n]
    return owner, symbol, used


@compiled
def _outcome(upper: Floats, uniform: float) -> int:  # pragma: no cover - compiled
    """Draw from cumulated probabilities, as `mercer.families._simplex.drawn` does."""
    draw, k = uniform * upper[-1], 0
    while k < len(upper) - 1 and draw >= upper[k]:
        k += 1
    return k


def _strings(owner: Floats, codes: Floats, size: int, alphabet: Alphabet) -> Sequences:
    """Collect symbols, in the order in which they were written, by the string that they belong to."""
    order = np.argsort(owner, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=size))])
    return Sequences._make(codes[order], offsets, alphabet, None)
