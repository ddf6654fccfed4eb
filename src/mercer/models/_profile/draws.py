"""Sequences drawn from profiles: flanks, and paths through the profile, node by node for all draws at once."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats, Indices
from mercer._probability import drawn
from mercer.data import Sequences
from mercer.data.ragged import offsets_of
from mercer.models._profile.search import entries, leaving, more_hits


class _Letters(NamedTuple):
    """Symbols with their places: sequence, segment of it, position in the segment."""

    sequence: Indices
    segment: Indices
    position: Indices
    code: Indices


def draw(models: Any, i: int, size: int, rng: np.random.Generator) -> Sequences:
    """Draw ``size`` sequences from profile ``i``."""
    background = np.cumsum(models.background[i])
    again = more_hits(models.mode)
    length = int(models.n_nodes[i]) if models.length is None else models.length
    hits = rng.geometric(1 - again, size)
    flanks = _flanks(hits, leaving(again, length), background, rng)
    owner = np.repeat(np.arange(size), hits)
    parts = [flanks, *_paths(models, i, owner, 2 * _counted(hits) + 1, rng)]
    sequence, segment, position, codes = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((position, segment, sequence))
    offsets = offsets_of(np.bincount(sequence, minlength=size))
    return Sequences._make(codes[order].astype(np.int32), offsets, models.alphabet, None)


def _flanks(hits: Indices, move: float, background: Floats, rng: np.random.Generator) -> _Letters:
    """Draw the flanks before, between and after the hits of every sequence: segments 0, 2, 4, ..."""
    count = hits + 1
    owner = np.repeat(np.arange(len(hits)), count)
    segment = 2 * _counted(count)
    sizes = rng.geometric(move, len(owner)) - 1
    codes = _symbols(background, int(sizes.sum()), rng)
    return _Letters(np.repeat(owner, sizes), np.repeat(segment, sizes), _counted(sizes), codes)


def _counted(sizes: Indices) -> Indices:
    """Return 0, 1, ..., sizes[0] - 1, 0, 1, ..., sizes[1] - 1, and so on."""
    return np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)


def _symbols(cumulated: Floats, n: int, rng: np.random.Generator) -> Indices:
    """Draw ``n`` symbols, given the cumulated probabilities of all symbols."""
    return drawn(np.broadcast_to(cumulated, (n, len(cumulated))), rng.random(n))


def _paths(models: Any, i: int, owner: Indices, segment: Indices, rng: np.random.Generator) -> list[_Letters]:
    """Draw a path through the profile for every hit."""
    (match, _, t), own = models.nodes(i), models._inserted(i)
    m, n, glocal = len(match), len(owner), models.mode.endswith("glocal")
    ends = np.arange(m, 0, -1)
    entry = entries(t, models.mode) * (1 if glocal else ends)  # every end is equally probable
    first = _symbols(np.cumsum(entry), n, rng) + 1
    last = np.full(n, m) if glocal else first + np.floor(rng.random(n) * (m - first + 1)).astype(int)
    in_match, found = np.zeros(n, dtype=bool), []
    place = np.zeros(n, dtype=np.int64)
    for k in range(1, m + 1):
        in_match |= first == k
        active = (first <= k) & (k <= last)
        here = np.flatnonzero(active & in_match)
        codes = _symbols(np.cumsum(match[k - 1]), len(here), rng)
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
            position = np.repeat(place[inserts], sizes) + _counted(sizes)
            codes = _symbols(np.cumsum(own[k]), int(sizes.sum()), rng)
            found.append(
                _Letters(np.repeat(owner[inserts], sizes), np.repeat(segment[inserts], sizes), position, codes)
            )
            place[inserts] += sizes
    return found
