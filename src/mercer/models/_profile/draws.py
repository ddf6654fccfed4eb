"""Sequences drawn from profiles: flanks, and paths through the profile, node by node for all draws at once."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats, Indices
from mercer._probability import drawn
from mercer.data import Sequences
from mercer.models._profile.search import entries


class _Letters(NamedTuple):
    """Symbols with their places: sequence, segment of it, position in the segment."""

    sequence: Indices
    segment: Indices
    position: Indices
    code: Indices


def draw(models: Any, i: int, size: int, rng: np.random.Generator) -> Sequences:
    """Draw ``size`` sequences from profile ``i``."""
    background = np.cumsum(models.background[i])
    again = 0.0 if models.mode.startswith("uni") else 0.5
    m = int(models.n_nodes[i])
    length = m if models.length is None else models.length
    move = (2 + 2 * again) / (length + 2 + 2 * again)
    hits = rng.geometric(1 - again, size)
    flanks = _flanks(hits, move, background, rng)
    owner = np.repeat(np.arange(size), hits)
    number = np.arange(len(owner)) - np.repeat(np.cumsum(hits) - hits, hits)
    parts = [flanks, *_paths(models, i, owner, 2 * number + 1, rng)]
    sequence, segment, position, codes = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((position, segment, sequence))
    offsets = np.append(0, np.cumsum(np.bincount(sequence, minlength=size)))
    return Sequences._make(codes[order].astype(np.int32), offsets, models.alphabet, None)


def _flanks(hits: Indices, move: float, background: Floats, rng: np.random.Generator) -> _Letters:
    """Draw the flanks before, between and after the hits of every sequence: segments 0, 2, 4, ..."""
    count = hits + 1
    owner = np.repeat(np.arange(len(hits)), count)
    segment = 2 * (np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count))
    sizes = rng.geometric(move, len(owner)) - 1
    total = int(sizes.sum())
    position = np.arange(total) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    codes = drawn(np.broadcast_to(background, (total, len(background))), rng.random(total))
    return _Letters(np.repeat(owner, sizes), np.repeat(segment, sizes), position, codes)


def _paths(models: Any, i: int, owner: Indices, segment: Indices, rng: np.random.Generator) -> list[_Letters]:
    """Draw a path through the profile for every hit."""
    match, insert, t = models.nodes(i)
    own = insert if models.insertion == "model" else np.broadcast_to(models.background[i], insert.shape)
    m, n, glocal = len(match), len(owner), models.mode.endswith("glocal")
    ends = np.arange(m, 0, -1)
    entry = entries(t, models.mode) * (1 if glocal else ends)  # every end is equally probable
    first = drawn(np.broadcast_to(np.cumsum(entry), (n, m)), rng.random(n)) + 1
    last = np.full(n, m) if glocal else first + np.floor(rng.random(n) * (m - first + 1)).astype(int)
    in_match, found = np.zeros(n, dtype=bool), []
    place = np.zeros(n, dtype=np.int64)
    for k in range(1, m + 1):
        in_match |= first == k
        active = (first <= k) & (k <= last)
        here = np.flatnonzero(active & in_match)
        codes = drawn(np.broadcast_to(np.cumsum(match[k - 1]), (len(here), match.shape[1])), rng.random(len(here)))
        found.append(_Letters(owner[here], segment[here], place[here], codes))
        place[here] += 1
        if k == m:
            break
        u, goes = rng.random(n), active & (k < last)
        was_match = in_match.copy()
        inserts = np.flatnonzero(goes & was_match & (u >= t[k, 0]) & (u < t[k, 0] + t[k, 1]))
        in_match = np.where(was_match, u < t[k, 0] + t[k, 1], u < t[k, 5])
        in_match &= goes
        if len(inserts):
            sizes = rng.geometric(max(float(t[k, 3]), 1e-9), len(inserts))
            total = int(sizes.sum())
            position = np.repeat(place[inserts], sizes) + np.arange(total) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            codes = drawn(np.broadcast_to(np.cumsum(own[k]), (total, own.shape[1])), rng.random(total))
            found.append(
                _Letters(np.repeat(owner[inserts], sizes), np.repeat(segment[inserts], sizes), position, codes)
            )
            place[inserts] += sizes
    return found
