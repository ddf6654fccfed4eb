"""Profile hidden Markov models: forward log odds, expected counts, best paths and products, by native/profile*.hpp."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats, Indices
from mercer._native import MORE, Prepared, call

LONG_CALL = 6e7
"""Work of one call, a quarter of a second: more is done in several, so that an interrupt is answered."""


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
    _finish(
        "profiles", **model._asdict(), codes=codes, offsets=offsets, flanks=flanks, watch=watch, ranged=ranged,
        limit=LONG_CALL, memory=_memory(model, offsets, counts is not None), log_odds=value, **outputs,
    )  # fmt: skip
    return value


def best_paths(log_model: Model, codes: Indices, offsets: Indices, log_flanks: Floats, path: Indices) -> Floats:
    """Write the best paths, and return their log odds, ``(S,)``; the model and the flanks are logarithms.

    ``path`` has the shape of ``codes``: k for the match state of node k, -k for its insert state, 0 for a flank.
    """
    value = np.empty(len(log_flanks))
    _finish(
        "profile_paths", **log_model._asdict(), codes=codes, offsets=offsets, flanks=log_flanks,
        limit=LONG_CALL, memory=_memory(log_model, offsets, True), value=value, path=path,
    )  # fmt: skip
    return value


def _memory(model: Model, offsets: Indices, counts: bool) -> Floats:
    """Return memory for what is kept of one sequence from call to call."""
    longest = int(np.diff(offsets).max(initial=0))
    return np.empty(call("profile_room", nodes=len(model.entry) - 2, length=longest, counts=counts))


def _finish(name: str, **arguments: Any) -> None:
    """Call a function until it is finished; each call is short, so that an interrupt is answered."""
    run = Prepared(name, place=np.zeros(4, np.int64), **arguments)
    while run() == MORE:
        pass


class ProfileNodes(NamedTuple):
    """All nodes of N profiles, each with one node for the begin and one for the end."""

    nodes: Floats
    """Emissions of the match and of the insert state, whose last symbol is that of begin and end, and transitions: mm,
    im, dm, md, dd into a node, where mm into the begin is 1, and mi, ii at it, ``(T, 2 (A + 1) + 7)``."""
    powers: Floats
    """Powers of all numbers."""
    offsets: Indices
    """Profile n has the nodes ``offsets[n]`` to ``offsets[n + 1] - 1``."""
    plain: Indices
    """Whether plain numbers may do for a profile, ``(N,)``; the others are computed with unlimited range."""
    alike: Indices
    """Whether all insert states of a profile emit alike, ``(N,)``."""


def profile_products(
    left: tuple[ProfileNodes, Indices], right: tuple[ProfileNodes, Indices], rho: float, ranged: bool
) -> Floats:
    """Compute the log products of all pairs of profiles (PPK-4.2d), ``(I, J)``.

    Parameters
    ----------
    left, right : tuples of ProfileNodes and ndarray of int
        Profiles, and the indices of those to compute.
    rho : float
        Power of all probabilities.
    ranged : bool
        Whether to compute all pairs in numbers of unlimited range, not only those that need it.
    """
    order = np.argsort(np.diff(right[0].offsets)[right[1]], kind="stable")  # lanes end at about the same node
    value, out = (np.empty((len(left[1]), len(order))) for _ in range(2))
    _finish(
        "profile_products", left=(*left[0], left[1]), right=(*right[0], right[1][order]), rho=rho, ranged=ranged,
        log_value=value,
    )  # fmt: skip
    out[:, order] = value
    return out
