"""Random trajectories of a pair HMM, and the strings that they emit (MK-5)."""

from __future__ import annotations

import numpy as np

from mercer._array import Floats
from mercer._native.pairs import walk
from mercer._probability import drawn
from mercer.data import Alphabet, Sequences
from mercer.models._pairs.elimination import expected_visits
from mercer.models._pairs.general_single import Parameters

MOST_VISITS = 2e8
"""Largest expected number of visits, which may emit a gigabyte of symbols. More is probably a mistake."""


def draw_strings(
    model: Parameters, alphabet: Alphabet, size: int, copies: int, rng: np.random.Generator
) -> tuple[Sequences, ...]:
    """Draw ``size`` trajectories, and ``copies`` independent strings from each of them."""
    n, k = len(model.silent), len(alphabet)
    mean = float(expected_visits(model.initial, model.transition).sum())
    if not mean * size * copies <= MOST_VISITS:
        raise ValueError(
            f"Strings of the model take {mean:.3g} visits on average, and {size * copies} of them more than "
            f"{MOST_VISITS:.0e}. Draw fewer, or use a larger stop (its smallest is {model.transition[:, n].min():.3g})."
        )
    begin, step = np.cumsum(model.initial), np.cumsum(model.transition, axis=1)
    letters = np.cumsum(model.letters[:, :k], axis=1)
    state = drawn(np.broadcast_to(begin, (size, n + 1)), rng.random(size))
    drawn_symbols = walk(rng, state, step, model.silent, letters, copies)
    return tuple(_strings(owner, codes, size, alphabet) for owner, codes in drawn_symbols)


def _strings(owner: Floats, codes: Floats, size: int, alphabet: Alphabet) -> Sequences:
    """Group symbols by string, in the order of emission."""
    order = np.argsort(owner, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=size))])
    return Sequences._make(codes[order], offsets, alphabet, None)
