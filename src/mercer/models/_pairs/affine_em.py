"""EM of pair HMMs with affine gaps, on pairs of sequences that are assumed to be related (MK-5b, MK-5d)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats
from mercer._native.pairs import ranged_affine
from mercer._probability import ratio, shared_out
from mercer.data import Sequences
from mercer.models._fitting.em import EMResult, em_single
from mercer.models._forward.interface import share
from mercer.models._pairs.affine_expectations import AffineParameters, Flank
from mercer.models._pairs.joint import lowest_eigenvalue

LEARNED = ("gaps", "letters", "substitution")
"""Parameters that EM can learn."""
PAIRS_OF_A_TASK = 8
"""Number of pairs that a thread processes at a time."""
SECONDS_OF_A_CELL = 6e-8
"""Approximate seconds per pair of positions of two sequences."""
SHORT_OF_THE_BORDER = 0.9
"""If a full step leaves the positive semi-definite matrices, this fraction of the way to their boundary is used."""


class _Expected(NamedTuple):
    """Expected counts of events, over all pairs."""

    log_kernel: float
    matched: Floats
    """``(k, k)``."""
    letters: Floats
    """``(k,)``, of insertions."""
    opened: float
    extended: float
    flank_opened: float
    flank_extended: float
    unmatched: float
    """Of pairs without a match; the last three are of local alignments."""
    n_pairs: int


def em_pairs(
    start: AffineParameters,
    X: Sequences,
    pairs: tuple[Floats, Floats],
    learn: tuple[str, ...],
    strength: float,
    n_iter: int,
    tol: float,
) -> EMResult:
    """Maximize the sum of log kappa over pairs plus a log prior whose mode is the start.

    Each distribution has ``strength`` pseudo-counts, spread as in the start, so nothing that the start allows becomes
    impossible. The objective never decreases. EM stops once it grows by at most ``tol`` per symbol.
    """

    def expect(affine: AffineParameters) -> tuple[float, _Expected]:
        found = _expect(affine, X, pairs)
        return found.log_kernel + _log_prior(affine, start, learn, strength), found

    def maximize(affine: AffineParameters, found: _Expected) -> AffineParameters:
        return _maximize(affine, start, found, learn, strength)

    return em_single(expect, maximize, start, n_iter, tol * _symbols(X, pairs), "the model of all data")


def _symbols(X: Sequences, pairs: tuple[Floats, Floats]) -> float:
    return float(max(1, sum(int(X.lengths[side].sum()) for side in pairs)))


def _expect(affine: AffineParameters, X: Sequences, pairs: tuple[Floats, Floats]) -> _Expected:
    """Sum expected counts over all pairs, in their order for any number of threads."""
    first, second = pairs
    n, codes = len(first), len(affine.membership)
    tables = joint, insertion, _ = affine.of_codes
    starts = list(range(0, n, PAIRS_OF_A_TASK))
    sums: list[Any] = [None] * len(starts)
    log_kernel = np.empty(n)

    def work(task: int) -> None:
        part = slice(starts[task], min(starts[task] + PAIRS_OF_A_TASK, n))
        size = len(first[part])
        counts = np.zeros((size, codes, codes)), np.zeros((size, codes)), np.zeros((size, 5))
        strings = X.values, X.offsets
        log_kernel[part] = ranged_affine(tables, strings, strings, first[part], second[part], counts)
        sums[task] = tuple(x.sum(axis=0) for x in counts)

    cells = float((X.lengths[first] + 1.0) @ (X.lengths[second] + 1.0))
    share(work, list(range(len(starts))), cells * SECONDS_OF_A_CELL)
    if not np.isfinite(log_kernel).all():
        p = int(np.flatnonzero(~np.isfinite(log_kernel))[0])
        raise ValueError(
            f"{X.name(first[p])} and {X.name(second[p])} have joint probability zero at the start of EM, so nothing "
            "can be learned from them. Use a start without zeros, such as a positive open_probability and "
            "extend_probability."
        )
    matched, letters, runs = (sum(parts) for parts in zip(*sums, strict=True))
    members = affine.membership
    # A code is distributed over its letters by their probabilities: expected counts are parameter times gradient.
    per_letter = affine.joint * (members.T @ ratio(matched, joint) @ members)
    inserted = shared_out(letters, insertion, affine.insertion, members)
    opened, extended, *ends = (float(x) for x in runs)
    return _Expected(float(log_kernel.sum()), per_letter, inserted, opened, extended, ends[0], ends[1], ends[2], n)


def _log_prior(affine: AffineParameters, start: AffineParameters, learn: tuple[str, ...], strength: float) -> float:
    """Log prior up to a constant: ``strength`` pseudo-counts per learned distribution, spread as in the start."""
    if strength == 0:  # probabilities may become zero then; 0 log 0 = 0
        return 0.0
    value = 0.0
    if "gaps" in learn:
        for now, then in zip(affine.rates, start.rates, strict=True):
            value += _cross(np.array([now, 1 - now]), np.array([then, 1 - then]))
    if "letters" in learn:
        value += _cross(affine.insertion, start.insertion)
    if "substitution" in learn:
        value += _cross(affine.joint, start.joint)
    return strength * value


def _cross(now: Floats, then: Floats) -> float:
    """Return sum then log now, where 0 log 0 = 0."""
    seen = then > 0
    return float((then[seen] * np.log(now[seen])).sum())


def _maximize(
    affine: AffineParameters, start: AffineParameters, found: _Expected, learn: tuple[str, ...], strength: float
) -> AffineParameters:
    """Refit the distributions to the expected counts."""
    if "gaps" in learn:
        matches, inserted = float(found.matched.sum()), found.opened + found.extended
        places = 2 * (matches + found.n_pairs)  # before, between and after matches, in each sequence
        if affine.flank is not None and start.flank is not None:
            ends = 2 * (2 * found.n_pairs - found.unmatched)  # a sequence without a match has one flank, others two
            places, flanked = max(0.0, places - ends), found.flank_opened + found.flank_extended
            flank = Flank(
                _rate(found.flank_opened, ends, start.flank.open, strength),
                _rate(found.flank_extended, flanked, start.flank.extend, strength),
            )
            affine = affine._replace(flank=flank)
        affine = affine._replace(
            continuation=_rate(matches, matches + found.n_pairs, start.continuation, strength),
            open=_rate(found.opened, places, start.open, strength),
            extend=_rate(found.extended, inserted, start.extend, strength),
        )
    if "letters" in learn:
        insertion = found.letters + strength * start.insertion
        if insertion.sum() > 0:
            affine = affine._replace(insertion=insertion / insertion.sum())
    if "substitution" in learn:
        joint = (found.matched + found.matched.T) / 2 + strength * start.joint
        if joint.sum() > 0:
            affine = affine._replace(joint=_toward(affine.joint, joint / joint.sum()))
    return affine


def _rate(yes: float, all_: float, start: float, strength: float) -> float:
    total = all_ + strength
    return (yes + strength * start) / total if total > 0 else start


def _toward(old: Floats, new: Floats) -> Floats:
    """Go from ``old`` to ``new``, as far as the matrices between them are positive semi-definite.

    The objective is concave on this line with its maximum at ``new``, so any step along it increases the objective.
    The positive semi-definite matrices are convex, so the feasible steps are an interval. Stopping short of its end
    leaves room for the next step.
    """

    def stays(step: float) -> bool:
        return bool(lowest_eigenvalue(old + step * (new - old)) >= -1e-13)

    if stays(1.0):
        return new
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if stays(middle) else (low, middle)
    return np.asarray(old + SHORT_OF_THE_BORDER * low * (new - old))
