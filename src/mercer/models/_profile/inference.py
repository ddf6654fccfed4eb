"""Sequences under profiles: likelihoods, expected counts and best paths, by recursions of O(length x nodes)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats, Indices, safe_log
from mercer._parallel import n_threads, thread_map
from mercer.data import Sequences
from mercer.models._profile.search import SearchProfile, search_profile

SPARE = 1e-50
"""Entries and transitions below this are computed with logarithms from the start."""

BLOCK_CELLS = 2_000_000
"""Symbols times nodes that a thread takes at a time: some milliseconds."""


class Expected(NamedTuple):
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


def _arguments(profile: SearchProfile, length: float, logs: bool) -> tuple[Floats, ...]:
    """Return what the recursions need of a profile, for a sequence of some length."""
    arrays = (profile.odds, profile.insert_odds, profile.transitions, profile.entry, profile.leave)
    flanks = profile.flanks(length)
    return tuple(map(safe_log, (*arrays, flanks))) if logs else (*arrays, flanks)


def _is_safe(profile: SearchProfile) -> bool:
    """Whether numbers that floats lose never matter: another hit is always possible, at every node.

    Then the future of a state is at most that of the begin of the profile, divided by the least entry. Otherwise, the
    recursions watch for small numbers, and are repeated with logarithms.
    """
    m = profile.n_nodes
    return bool(profile.again > 0 and profile.leave[1] > 0 and profile.entry[1 : m + 1].min() > SPARE)


def _needs_logs(profile: SearchProfile) -> bool:
    some = np.concatenate([profile.transitions.ravel(), profile.odds.ravel()])
    return bool(((some > 0) & (some < SPARE)).any() or (some > 1 / SPARE).any())


def _own_lengths(models: Any, X: Sequences) -> Floats:
    return X.lengths.astype(float) if models.length is None else np.full(len(X), float(models.length))


def _each(X: Sequences, n_nodes: int, work: Callable[[int], None], label: str) -> None:
    """Call ``work`` for every sequence; the first in this thread, so that loops are compiled once.

    A thread takes several short sequences at a time, so that handing them out takes little of its time.
    """
    if not len(X):
        return
    work(0)
    block = np.cumsum(X.lengths[1:] * n_nodes) // BLOCK_CELLS
    parts = np.split(np.arange(1, len(X)), np.flatnonzero(np.diff(block)) + 1)

    def several(some: Indices) -> None:
        for j in some.tolist():
            work(j)

    thread_map(several, parts, threads=n_threads(), label=label)


def log_odds(models: Any, X: Sequences) -> Floats:
    """Log odds of every sequence under every profile against background symbols of its length, ``(N, M)``."""
    from mercer.compiled.profiles import recursions

    out, lengths = np.empty((len(models), len(X))), _own_lengths(models, X)
    for i in range(len(models)):
        profile = search_profile(models, i)
        careful, watch = _needs_logs(profile), not _is_safe(profile)
        fast = not careful

        def work(j: int, i: int = i, profile: SearchProfile = profile, fast: bool = fast, watch: bool = watch) -> None:
            codes, lost = X.values[X.offsets[j] : X.offsets[j + 1]], True
            if fast:
                out[i, j], lost = recursions(False).forward(codes, _arguments(profile, lengths[j], False), watch)
            if lost:
                out[i, j], _ = recursions(True).forward(codes, _arguments(profile, lengths[j], True), False)

        _each(X, profile.n_nodes, work, "profiles")
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


def expected(models: Any, i: int, X: Sequences) -> Expected:
    """Compute the expected counts of sequences under profile ``i``."""
    from mercer.compiled.profiles import recursions

    profile = search_profile(models, i)
    n, m, codes = len(X), profile.n_nodes, len(profile.odds)
    match, insert = np.zeros((n, codes, m + 2)), np.zeros((n, codes, m + 2))
    steps, entry, odds = np.zeros((n, 7, m + 2)), np.zeros((n, m + 2)), np.empty(n)
    fast, watch, lengths = not _needs_logs(profile), not _is_safe(profile), _own_lengths(models, X)

    def work(j: int) -> None:
        some, out, lost = X.values[X.offsets[j] : X.offsets[j + 1]], (match[j], insert[j], steps[j], entry[j]), True
        if fast:
            odds[j], lost = recursions(False).expected(some, _arguments(profile, lengths[j], False), watch, out)
        if lost:
            for counts in out:
                counts[:] = 0.0
            odds[j], _ = recursions(True).expected(some, _arguments(profile, lengths[j], True), False, out)

    _each(X, m, work, "profiles")
    inner = slice(1, m + 1)
    return Expected(
        match=np.swapaxes(match[:, :, inner], 1, 2),
        insert=np.swapaxes(insert[:, :, inner], 1, 2),
        transitions=np.swapaxes(steps, 1, 2)[:, : m + 1],
        entry=entry[:, inner],
        log_odds=odds,
    )


def best_paths(models: Any, i: int, X: Sequences) -> tuple[list[Indices], Floats]:
    """Best path of every sequence through profile ``i``, and its log odds against background symbols."""
    from mercer.compiled.profile_paths import best_path

    profile, lengths = search_profile(models, i), _own_lengths(models, X)
    paths = [np.zeros(n, dtype=np.int64) for n in X.lengths.tolist()]
    values = np.empty(len(X))

    def work(j: int) -> None:
        codes = X.values[X.offsets[j] : X.offsets[j + 1]]
        values[j] = best_path(codes, _arguments(profile, lengths[j], True), paths[j])

    _each(X, profile.n_nodes, work, "paths")
    return paths, values
