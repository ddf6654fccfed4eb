"""Sequences under profiles: likelihoods, expected counts, scores and best paths, by recursions of O(length x nodes)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats, Indices, safe_log
from mercer._native import profiles
from mercer._parallel import n_threads, thread_map
from mercer._probability import drawn, ratio, shared_out
from mercer.data import Sequences
from mercer.data.ragged import offsets_of
from mercer.models._profile.nodes import GROUPS, TRANSITIONS
from mercer.models._profile.search import SearchProfile, entries, entry_gradient, leaving, more_hits, search_profile
from mercer.models._scores.weighted import check_parametrization
from mercer.models.hidden import Clique

SPARE = 1e-50
"""Entries and transitions below this are computed with unlimited range from the start."""

BLOCK_CELLS = 2_000_000
"""Symbols times nodes that a thread takes at a time: some milliseconds."""


class ProfileExpectations(NamedTuple):
    """Expected counts of sequences under one profile of M nodes."""

    match: Floats
    """Codes in every match state, ``(N, M, codes)``."""
    insert: Floats
    """Codes in every insert state, ``(N, M, codes)``."""
    transitions: Floats
    """``(N, M + 1, 7)``, without those of begin and end."""
    entry: Floats
    """Entries into every node, ``(N, M)``."""
    log_odds: Floats
    """``(N,)``."""


def native_model(profile: SearchProfile) -> profiles.Model:
    """Return the parameters of a profile that the recursions use."""
    return profiles.Model(profile.odds, profile.insert_odds, profile.transitions, profile.entry, profile.leave)


def _is_safe(profile: SearchProfile) -> bool:
    """Whether numbers that floats lose never matter: another hit is always possible, at every node.

    Then the future of a state is at most that of the begin of the profile, divided by the least entry. Otherwise, the
    recursions watch for small numbers, and are repeated with unlimited range.
    """
    m = profile.n_nodes
    return bool(profile.again > 0 and profile.leave[1] > 0 and profile.entry[1 : m + 1].min() > SPARE)


def _needs_range(profile: SearchProfile) -> bool:
    some = np.concatenate([profile.transitions.ravel(), profile.odds.ravel()])
    return bool(((some > 0) & (some < SPARE)).any() or (some > 1 / SPARE).any())


def _own_lengths(models: Any, X: Sequences) -> Floats:
    return X.lengths.astype(float) if models.length is None else np.full(len(X), float(models.length))


def _each(models: Any, profile: SearchProfile, X: Sequences, work: Callable[..., None], label: str) -> None:
    """Call ``work(slice of sequences, codes, offsets, flanks)`` for sets of sequences of some milliseconds each."""
    if not len(X):
        return
    codes, offsets = X.values.astype(np.int64), X.offsets.astype(np.int64)
    flanks = np.stack([profile.flanks(length) for length in _own_lengths(models, X).tolist()])
    block = np.cumsum(X.lengths * profile.n_nodes) // BLOCK_CELLS
    ends = np.append(np.flatnonzero(np.diff(block)) + 1, len(X))
    parts = [slice(*pair) for pair in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True)]

    def several(some: slice) -> None:
        work(some, codes, offsets[some.start : some.stop + 1], flanks[some])

    thread_map(several, parts, threads=n_threads(), label=label)


def log_odds(models: Any, X: Sequences) -> Floats:
    """Log odds of every sequence under every profile against background symbols of its length, ``(N, M)``."""
    out = np.empty((len(models), len(X)))
    for i in range(len(models)):
        profile = search_profile(models, i)
        model, way = native_model(profile), (not _is_safe(profile), _needs_range(profile))

        def work(some: slice, *data: Any, i: int = i, model: Any = model, way: Any = way) -> None:
            out[i, some] = profiles.log_odds(model, *data, *way)

        _each(models, profile, X, work, "profiles")
    return out


def background_log_prob(models: Any, X: Sequences) -> Floats:
    """Log probability of the symbols of every sequence under the background of every profile, ``(N, M)``."""
    logs = np.log(models.background @ models.alphabet.membership.T)
    owner = np.repeat(np.arange(len(X)), X.lengths)
    counts = np.zeros((len(X), models.alphabet.n_codes))
    np.add.at(counts, (owner, X.values), 1.0)
    return np.asarray(logs @ counts.T)


def null_length(models: Any, X: Sequences) -> Floats:
    """Log probability of the length of every sequence under the null model, ``(M,)``: geometric."""
    lengths = _own_lengths(models, X)
    stay = safe_log(np.where(lengths > 0, lengths / (lengths + 1), 1.0))  # an empty sequence stays 0 times
    return np.asarray(X.lengths * stay - np.log(lengths + 1))


def expected(models: Any, i: int, X: Sequences) -> ProfileExpectations:
    """Compute the expected counts of sequences under profile ``i``."""
    profile = search_profile(models, i)
    n, m, codes = len(X), profile.n_nodes, len(profile.odds)
    match, insert = np.zeros((n, codes, m + 2)), np.zeros((n, codes, m + 2))
    steps, entry, odds = np.zeros((n, 7, m + 2)), np.zeros((n, m + 2)), np.empty(n)
    model, watch, ranged = native_model(profile), not _is_safe(profile), _needs_range(profile)

    def work(some: slice, codes: Indices, offsets: Indices, flanks: Floats) -> None:
        counts = profiles.Counts(match[some], insert[some], steps[some], entry[some])
        odds[some] = profiles.log_odds(model, codes, offsets, flanks, watch, ranged, counts)

    _each(models, profile, X, work, "profiles")
    inner = slice(1, m + 1)
    return ProfileExpectations(
        match=np.swapaxes(match[:, :, inner], 1, 2),
        insert=np.swapaxes(insert[:, :, inner], 1, 2),
        transitions=np.swapaxes(steps, 1, 2)[:, : m + 1],
        entry=entry[:, inner],
        log_odds=odds,
    )


def state_probabilities(models: Any, X: Sequences) -> list[Floats]:
    """Return the posteriors of the states of profile 0 at every symbol, ``(T, 2 M + 1)``, numbered as in paths.

    They are the expected counts if every position of a sequence is a code of its own.
    """
    profile, found = search_profile(models, 0), []
    m, watch, ranged = profile.n_nodes, not _is_safe(profile), _needs_range(profile)
    for (begin, end), length in zip(pairwise(X.offsets), _own_lengths(models, X), strict=True):
        codes, n = X.values[begin:end], int(end - begin)
        own = native_model(profile)._replace(odds=profile.odds[codes], insert_odds=profile.insert_odds[codes])
        counts = profiles.Counts(*(np.zeros((1, *shape)) for shape in ((n, m + 2), (n, m + 2), (7, m + 2), (m + 2,))))
        flanks = profile.flanks(float(length))[None]
        profiles.log_odds(own, np.arange(n), np.array([0, n]), flanks, watch, ranged, counts)
        match, insert = counts.matched[0, :, 1 : m + 1], counts.inserted[0, :, m:0:-1]
        flank = np.maximum(1 - match.sum(axis=1) - insert.sum(axis=1), 0.0)
        found.append(np.concatenate([flank[:, None], match, insert], axis=1))
    return found


def best_paths(models: Any, i: int, X: Sequences) -> tuple[list[Indices], Floats]:
    """Best path of every sequence through profile ``i``, and its log odds against background symbols."""
    profile, values = search_profile(models, i), np.empty(len(X))
    path = np.zeros(len(X.values), dtype=np.int64)
    model = profiles.Model(*(np.asarray(safe_log(part)) for part in native_model(profile)))

    def work(some: slice, codes: Indices, offsets: Indices, flanks: Floats) -> None:
        values[some] = profiles.best_paths(model, codes, offsets, np.asarray(safe_log(flanks)), path)

    _each(models, profile, X, work, "paths")
    return np.split(path, X.offsets[1:-1]), values


# Sequences drawn from profiles: flanks, and paths through the profile, node by node for all draws at once.


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


CELLS = 1 << 24
"""Expected counts of symbols in memory at once."""


def scores(models: Any, X: Sequences, parametrization: str) -> Floats:
    """Fisher scores of every sequence under every profile, ``(N, M, P)`` (FK-7); 0 for nodes that a profile lacks.

    With n the expected count of an outcome of probability p, and m that of all outcomes of its state: ``"logit"`` is
    n - p m, ``"weight"`` is n / p - m.
    """
    check_parametrization(parametrization)
    most = int(models.n_nodes.max()) if len(models) else 0
    k, own = models.dimension, models.insertion == "model"
    out = np.zeros((len(models), len(X), most * (k + 7 + own * k)))
    for i in range(len(models)):
        m = int(models.n_nodes[i])
        match, insert, transitions = models.nodes(i)
        for rows, found in _blocks(models, i, X):
            parts = [_letters(found.match, match, models, parametrization)]
            parts.append(_steps(found, transitions, models.mode, parametrization))
            if own:
                parts.append(_letters(found.insert, insert[1:], models, parametrization))
            at = 0
            for part in parts:
                width = part.shape[2]
                out[i, rows, at : at + m * width] = part.reshape(len(part), -1)
                at += most * width
    return out


def score_names(models: Any) -> list[str]:
    """Name the columns of the scores; nodes are counted from 1, node 0 is the begin."""
    most = int(models.n_nodes.max()) if len(models) else 0
    symbols = [str(s) for s in models.alphabet.symbols]
    names = [f"match[{node}, {s}]" for node in range(1, most + 1) for s in symbols]
    names += [f"transition[{node}, {t}]" for node in range(most) for t in TRANSITIONS]
    if models.insertion == "model":
        names += [f"insert[{node}, {s}]" for node in range(1, most + 1) for s in symbols]
    return names


def _blocks(models: Any, i: int, X: Sequences) -> Iterator[tuple[slice, ProfileExpectations]]:
    """Yield the expected counts of some sequences at a time, and which sequences they are."""
    step = max(1, CELLS // (2 * int(models.n_nodes[i]) * models.alphabet.n_codes))
    for begin in range(0, len(X), step):
        found = _expected(models, i, X[begin : begin + step])
        yield slice(begin, begin + len(found.log_odds)), found


def _expected(models: Any, i: int, X: Sequences) -> ProfileExpectations:
    """Compute expected counts, or raise if a sequence is impossible."""
    found = expected(models, i, X)
    bad = np.flatnonzero(~np.isfinite(found.log_odds))
    if len(bad):
        raise ValueError(
            f"{X.name(bad[0])} has probability zero under the profile {models.names[i]!r}, so it has no score. Leave "
            "it out; only an empty sequence is impossible if the profile was fitted with a prior."
        )
    return found


def _letters(counts: Floats, p: Floats, models: Any, parametrization: str) -> Floats:
    """Scores of emissions ``p (M, k)`` with expected counts of codes ``(N, M, codes)``."""
    sets = models.alphabet.membership
    weight = ratio(counts, p @ sets.T) @ sets - counts.sum(axis=2, keepdims=True)
    return np.asarray(weight if parametrization == "weight" else p * weight)


def _steps(found: ProfileExpectations, transitions: Floats, mode: str, parametrization: str) -> Floats:
    """Scores of transitions, ``(N, M, 7)``, of the nodes 0 to M - 1."""
    counts = (found.transitions + entry_gradient(transitions, mode, found.entry))[:, :-1]
    t, out = transitions[:-1], np.empty_like(counts)
    for group in GROUPS:
        total = counts[..., group].sum(axis=2, keepdims=True)
        logit = counts[..., group] - t[:, group] * total
        out[..., group] = logit if parametrization == "logit" else ratio(logit, t[:, group])
    return out


def state_counts(models: Any, X: Sequences) -> Clique:
    """Return the mean number of times that every symbol is in every match and insert state, ``(N, 2 M, k)``."""
    match, own = models.nodes(0)[0], models._inserted(0)[1:]
    sets, m = models.alphabet.membership, len(match)
    table = np.empty((len(X), 2 * m, models.dimension))
    for rows, found in _blocks(models, 0, X):
        table[rows, :m] = shared_out(found.match, match @ sets.T, match, sets)
        table[rows, m:] = shared_out(found.insert, own @ sets.T, own, sets)
    table /= np.maximum(X.lengths, 1)[:, None, None]
    states = tuple(f"{kind}{node}" for kind in ("match ", "insert ") for node in range(1, m + 1))
    return Clique(table, (states, tuple(str(s) for s in models.alphabet.symbols)), (True, False))


# Aligned rows from the best paths of sequences through a profile.


def aligned_rows(models: Any, X: Sequences) -> list[str]:
    """Return one row of equal length per sequence, in the format A2M."""
    if not models.alphabet.is_characters:
        raise TypeError("align needs an alphabet of letters. Use viterbi, which returns the states.")
    mode = models.mode if models.mode.startswith("uni") else f"uni{models.mode}"
    paths, _ = best_paths(models.configure(mode=mode), 0, X)
    m = int(models.n_nodes[0])
    columns, inserted = [], np.zeros(m + 1, dtype=int)
    for path, text in zip(paths, X, strict=True):
        letters, runs = ["-"] * m, [""] * (m + 1)
        for state, letter in zip(path.tolist(), str(text), strict=True):
            if state > 0:
                letters[state - 1] = letter.upper()
            elif state < 0:
                runs[-state] += letter.lower()
        columns.append((letters, runs))
        inserted = np.maximum(inserted, [len(run) for run in runs])
    rows = []
    for letters, runs in columns:
        padded = [run.ljust(size, ".") for run, size in zip(runs, inserted.tolist(), strict=True)]
        rows.append(padded[0] + "".join(a + b for a, b in zip(letters, padded[1:], strict=True)))
    return rows
