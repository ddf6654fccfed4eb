"""EM of pair HMMs with affine gaps, on pairs of sequences that are assumed to be related (MK-5b, MK-5d)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mercer._array import Floats, Indices
from mercer.data import Sequences
from mercer.models._fitting.em import EMResult, em_single
from mercer.models._pairs.affine import AffineMachine, AffineParameters
from mercer.models._pairs.joint import lowest_eigenvalue
from mercer.models._pairs.machine import gradients

LEARNED = ("gaps", "letters", "substitution")
"""Parameters that EM can learn."""
SHORT_OF_THE_BORDER = 0.9
"""If a full step leaves the positive semi-definite matrices, this fraction of the way to their boundary is used."""


class _Expected(NamedTuple):
    """Expected counts of events, over all pairs."""

    matched: Floats
    """``(k, k)``."""
    letters: Floats
    """``(k,)``, of insertions."""
    yes: Floats
    """Events of every rate, ``(R,)``."""
    chances: Floats
    """Of these events, ``(R,)``."""


def em_pairs(
    start: AffineParameters,
    X: Sequences,
    pairs: tuple[Indices, Indices],
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
        log_kernel, found = _expect(affine, X, pairs)
        return log_kernel + _log_prior(affine, start, learn, strength), found

    def maximize(affine: AffineParameters, found: _Expected) -> AffineParameters:
        return _maximize(affine, start, found, learn, strength)

    symbols = max(1, sum(int(X.lengths[side].sum()) for side in pairs))
    return em_single(expect, maximize, start, n_iter, tol * symbols, "the model of all data")


def _expect(affine: AffineParameters, X: Sequences, pairs: tuple[Indices, Indices]) -> tuple[float, _Expected]:
    """Return the sum of log kernels and the expected counts over all pairs."""
    form = AffineMachine.of(affine, 2)
    found = gradients(form.machine, X, X, *pairs)
    if not np.isfinite(found.log_kernel).all():
        first, second = (side[np.flatnonzero(~np.isfinite(found.log_kernel))[0]] for side in pairs)
        raise ValueError(
            f"{X.name(first)} and {X.name(second)} have joint probability zero at the start of EM, so nothing can be "
            "learned from them. Use a start without zeros, such as a positive open_probability and extend_probability."
        )
    free, chances = (x.sum(axis=0) for x in form.rates(found))
    matched, inserted = np.split(found.table.sum(axis=0), [form.n_matched])
    members = affine.membership  # a code is distributed over its letters by their probabilities
    matched = affine.joint * (members.T @ matched.reshape(len(members), -1) @ members)
    counts = _Expected(matched, affine.insertion * (inserted @ members), affine.rates * free, chances)
    return float(found.log_kernel.sum()), counts


def _log_prior(affine: AffineParameters, start: AffineParameters, learn: tuple[str, ...], strength: float) -> float:
    """Log prior up to a constant: ``strength`` pseudo-counts per learned distribution, spread as in the start."""
    if strength == 0:  # probabilities may become zero then; 0 log 0 = 0
        return 0.0
    value = 0.0
    if "gaps" in learn:
        value += _cross(affine.rates, start.rates) + _cross(1 - affine.rates, 1 - start.rates)
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
        total = found.chances + strength
        seen = np.where(total > 0, total, 1.0)
        affine = affine._replace(rates=np.where(total > 0, (found.yes + strength * start.rates) / seen, start.rates))
    if "letters" in learn:
        insertion = found.letters + strength * start.insertion
        if insertion.sum() > 0:
            affine = affine._replace(insertion=insertion / insertion.sum())
    if "substitution" in learn:
        joint = (found.matched + found.matched.T) / 2 + strength * start.joint
        if joint.sum() > 0:
            affine = affine._replace(joint=_toward(affine.joint, joint / joint.sum()))
    return affine


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
