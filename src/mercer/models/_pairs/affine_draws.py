"""Samples from pair HMMs with affine gaps: single sequences, and pairs that share their matches (MK-5b)."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats
from mercer._random import random_generator, whole_size
from mercer.data import Sequences
from mercer.data.ragged import offsets_of
from mercer.models._pairs.affine import EXTEND, OPEN, AffineParameters

MOST_LETTERS = 2e8
"""Largest expected number of letters: a gigabyte. More is probably a mistake."""
LETTERS_AT_ONCE = 2e6
"""Expected number of letters of the sequences that are drawn at once."""


def drawn(model: Any, size: int, random_state: Any, copies: int) -> list[tuple[Sequences, ...]]:
    """Draw ``size`` sets of matches of every model, and ``copies`` sequences of each, with independent insertions."""
    size = whole_size(size, "sequences")
    rng = random_generator(random_state)
    return [_of_one(AffineParameters.of(model, i), model.alphabet, size, rng, copies) for i in range(len(model))]


def _of_one(
    affine: AffineParameters, alphabet: Any, size: int, rng: np.random.Generator, copies: int
) -> tuple[Sequences, ...]:
    mean, (continuation, _, extended) = affine.mean_length, affine.rates[:3]
    if mean * size * copies > MOST_LETTERS:
        raise ValueError(
            f"Sequences of the model have {mean:.3g} letters on average (continuation {continuation:.17g}, "
            f"extend {max(extended, affine.flank[1]):.17g}), and {size * copies} of them more than "
            f"{MOST_LETTERS:.0e}. Draw fewer, or use a smaller continuation or extend."
        )
    some = int(np.clip(LETTERS_AT_ONCE / max(mean, 1e-9), 1, max(size, 1)))
    parts: list[list[tuple[Floats, Floats]]] = [[] for _ in range(copies)]
    for begin in range(0, size, some):
        count = rng.geometric(1.0 - continuation, size=min(some, size - begin)) - 1
        k = len(affine.insertion)
        pair = rng.choice(k * k, p=affine.joint.reshape(-1) / affine.joint.sum(), size=count.sum())
        for side, letters in zip(parts, divmod(pair, k), strict=False):
            side.append(_with_runs(affine, count, letters, rng))
    return tuple(_joined(side, alphabet) for side in parts)


def _joined(parts: list[tuple[Floats, Floats]], alphabet: Any) -> Sequences:
    codes = np.concatenate([np.empty(0, dtype=np.int32), *(codes for codes, _ in parts)])
    lengths = np.concatenate([np.empty(0, dtype=np.int64), *(lengths for _, lengths in parts)])
    return Sequences._make(codes, offsets_of(lengths), alphabet, None)


def _with_runs(
    affine: AffineParameters, matches: Floats, letters: Floats, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Add insertions before, between and after the matched letters of every sequence; return all codes, and lengths."""
    ends = np.cumsum(matches + 1)
    places = int((matches + 1).sum())
    opened, left = np.full(places, affine.rates[OPEN]), np.full(places, 1.0 - affine.rates[EXTEND])
    for at in (ends - 1, ends - 1 - matches):  # the last and the first run of each sequence
        opened[at], left[at] = affine.flank[0], 1.0 - affine.flank[1]
    run = (rng.random(places) < opened) * rng.geometric(left)
    follows = np.ones(places, dtype=np.int64)  # a match after every run except the last of a sequence
    follows[ends - 1] = 0
    kind = np.repeat(np.tile([False, True], places), np.stack([run, follows], axis=1).reshape(-1))
    codes = np.empty(len(kind), dtype=np.int32)
    codes[kind] = letters
    codes[~kind] = rng.choice(
        len(affine.insertion), p=affine.insertion / affine.insertion.sum(), size=int((~kind).sum())
    )
    owner = np.repeat(np.arange(len(matches)), matches + 1)
    return codes, np.bincount(owner, weights=run, minlength=len(matches)).astype(np.int64) + matches
