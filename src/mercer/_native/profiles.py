"""Profile hidden Markov models (Plan 7): forward log odds, expected counts and best paths, by native/profiles.hpp."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mercer._array import Floats, Indices
from mercer._native import call


class Model(NamedTuple):
    """A profile of M nodes; arrays over nodes have places for node 0 and node M + 1, zero where there is none."""

    odds: Floats
    """Odds of every code in every match state, ``(codes, M + 2)``."""
    insert_odds: Floats
    """The same of insert states."""
    steps: Floats
    """Transitions, ``(7, M + 2)``, in HMMER's order."""
    entry: Floats
    """``(M + 2,)``."""
    leave: Floats
    """``(M + 2,)``."""


class Counts(NamedTuple):
    """Expected counts of S sequences: outputs."""

    matched: Floats
    """Codes in match states, ``(S, codes, M + 2)``."""
    inserted: Floats
    """Codes in insert states, ``(S, codes, M + 2)``."""
    stepped: Floats
    """Transitions, ``(S, 7, M + 2)``."""
    entered: Floats
    """Entries, ``(S, M + 2)``."""


def log_odds(
    model: Model,
    codes: Indices,
    offsets: Indices,
    flanks: Floats,
    watch: bool,
    ranged: bool,
    counts: Counts | None = None,
) -> Floats:
    """Return the log odds of sequences against background symbols, ``(S,)``, and write their expected ``counts``.

    Parameters
    ----------
    model : Model
        The profile.
    codes, offsets : ndarray of int
        Sequence s is ``codes[offsets[s] : offsets[s + 1]]``; codes are below ``len(model.odds)``.
    flanks : ndarray of shape (S, 4)
        Probabilities to stay in and to leave a flank, of one more hit and of no more.
    watch : bool
        Whether small numbers may matter: a sequence that may have lost some is computed again with unlimited range.
    ranged : bool
        Whether to compute all sequences with unlimited range.
    counts : Counts, default=None
        Outputs, or none.
    """
    value = np.empty(len(flanks))
    outputs = dict.fromkeys(Counts._fields) if counts is None else counts._asdict()
    call(
        "profiles", **model._asdict(), codes=codes, offsets=offsets, flanks=flanks, watch=watch, ranged=ranged,
        log_odds=value, **outputs,
    )  # fmt: skip
    return value


def best_paths(log_model: Model, codes: Indices, offsets: Indices, log_flanks: Floats, path: Indices) -> Floats:
    """Write the best paths, and return their log odds, ``(S,)``; the model and the flanks are logarithms.

    ``path`` has the shape of ``codes``: k for the match state of node k, -k for its insert state, 0 for a flank.
    """
    value = np.empty(len(log_flanks))
    call(
        "profile_paths", **log_model._asdict(), codes=codes, offsets=offsets, flanks=log_flanks, value=value,
        path=path,
    )  # fmt: skip
    return value
