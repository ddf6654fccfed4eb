"""Fisher scores of profiles, and expected counts of symbols in their states."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mercer._array import Floats
from mercer._probability import ratio, shared_out
from mercer.data import Sequences
from mercer.models._profile.inference import ProfileExpectations, best_paths, expected
from mercer.models._profile.nodes import GROUPS, TRANSITIONS
from mercer.models._profile.search import entry_gradient
from mercer.models._scores.weighted import check_parametrization
from mercer.models.hidden import Clique

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
