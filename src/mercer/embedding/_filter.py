"""The filter: beliefs of many sequences together, with restarts and bounds (HSE-4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from mercer._array import Floats, Indices, Mask
from mercer.embedding._solve import Operators

SMALLEST = 1e-12
"""Ratios of probabilities below this restart the belief."""
HELD = 1 << 22
"""Number of entries of operators that are held at a time."""


class Beliefs(NamedTuple):
    """Beliefs after every step of several sequences.

    Parameters
    ----------
    values : array of shape (T, N)
        Belief after each step; sequence i is ``values[offsets[i]:offsets[i + 1]]``.
    log_ratios : array of shape (T,)
        Estimates of log P(x_t | past) / P(x_t); 0 for missing steps and restarts.
    restarted, shrunk : boolean array of shape (T,)
        Where the belief was restarted, because a probability was not positive or after a long gap; where it was longer
        than the features of every training window and was pulled back.
    offsets : array of shape (n + 1,)
        Where each sequence begins.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> x = np.sin(np.arange(200) / 3)[:, None]
    >>> found = mc.EmbeddedHMM(n_components=3).fit([x]).filter([x, x[:50]])
    >>> found.values.shape, found.offsets.tolist(), int(found.restarted.sum())
    ((250, 3), [0, 200, 250], 0)
    """

    values: Floats
    log_ratios: Floats
    restarted: Mask
    shrunk: Mask
    offsets: Indices


Codes = Callable[[Indices], Floats]
"""``codes(steps)``: what multiplies the operators of these steps, ``(n, r)``; anything where a step is missing."""


def run(operators: Operators, codes: Codes, offsets: Indices, observed: Mask, max_gap: int | None) -> Beliefs:
    """Filter several sequences, all at once and one step after the other.

    Parameters
    ----------
    operators : Operators
        The model.
    codes : callable
        Codes of observations.
    offsets, observed
        Sequences, and which steps are not missing.
    max_gap : int or None
        The belief restarts after a longer run of missing steps.
    """
    n, lengths = operators.n, np.diff(offsets)
    total = int(offsets[-1])
    out = Beliefs(np.zeros((total, n)), np.zeros(total), np.zeros(total, bool), np.zeros(total, bool), offsets)
    late = after_gaps(observed, offsets, max_gap)
    wide = max(operators.shape)
    order = np.argsort(-lengths, kind="stable")
    group = max(HELD // wide, 1)
    for begin in range(0, len(order), group):
        members = order[begin : begin + group]
        belief = np.tile(operators.start, (len(members), 1))
        longest, time = int(lengths[members[0]]), 0
        while time < longest:
            active = int(np.sum(lengths[members] > time))
            span = min(max(HELD // (wide * active), 1), int(lengths[members[active - 1]]) - time)
            index = offsets[members[:active]] + time + np.arange(span)[:, None]  # (span, active)
            made = _made(operators, codes, index)
            for i, at in enumerate(index):
                belief = _advance(operators, belief[:active], made[i], at, observed, late, out)
            time += span
    return out


def after_gaps(observed: Mask, offsets: Indices, max_gap: int | None) -> Mask:
    """Return the observed steps that follow more than ``max_gap`` missing steps, ``(T,)``."""
    if max_gap is None or observed.all():
        return np.zeros(len(observed), dtype=bool)
    times = np.arange(len(observed))
    last = np.maximum.accumulate(np.where(observed, times, -1))
    before = np.concatenate([[-1], last[:-1]])
    begins = np.repeat(offsets[:-1], np.diff(offsets))
    return np.asarray(observed & (before >= begins) & (times - before - 1 > max_gap))


def _made(operators: Operators, codes: Codes, index: Indices) -> Floats:
    """Return the operators of the steps, ``(span, active, N, N)``, by one matrix product; codes in the exact form."""
    found, n = codes(index.ravel()), operators.n
    if operators.gain is None:
        return found.reshape(*index.shape, -1)
    return (found @ operators.gain).reshape(*index.shape, n, n)


def applied(operators: Operators, belief: Floats, made: Floats) -> Floats:
    """Apply operators to beliefs, ``(S, N)``, without normalizing."""
    if operators.reads is not None and operators.writes is not None:
        return np.asarray((made * (belief @ operators.reads.T)) @ operators.writes)
    return np.asarray((made @ belief[:, :, None])[:, :, 0])


def _advance(
    operators: Operators, belief: Floats, made: Floats, at: Indices, observed: Mask, late: Mask, out: Beliefs
) -> Floats:
    """Advance beliefs by one step, and write them down."""
    seen = observed[at]
    if late[at].any():
        belief = np.where(late[at][:, None], operators.start, belief)
        out.restarted[at[late[at]]] = True
    if seen.all():
        new = applied(operators, belief, made)
    else:
        new = belief @ operators.unseen.T
        if seen.any():
            new[seen] = applied(operators, belief[seen], made[seen])
    ratio = new @ operators.normalizer
    good = possible(ratio)
    if not good.all():
        bad = np.flatnonzero(~good)
        out.restarted[at[bad]] = True
        again = np.tile(operators.start, (len(bad), 1))
        new[bad], ratio[bad] = restarted(operators, applied(operators, again, made[bad]), seen[bad]), 1.0
    new = new / ratio[:, None]
    wide = np.flatnonzero(np.einsum("ij,ij->i", new, new) > operators.radius**2)
    if len(wide):
        new[wide] = pulled(operators, new[wide])
        out.shrunk[at[wide]] = True
    out.values[at] = new
    out.log_ratios[at] = np.where(seen & good, np.log(ratio), 0.0)
    return new


def possible(ratio: Floats) -> Mask:
    """Whether ratios of probabilities are positive and not huge, ``(n,)``; NaN is not."""
    return np.asarray((ratio > SMALLEST) & (ratio < 1 / SMALLEST))


def restarted(operators: Operators, fresh: Floats, seen: Mask) -> Floats:
    """Return beliefs that replace those whose probability is not positive, ``(n, N)``.

    Parameters
    ----------
    operators : Operators
        The model.
    fresh : array of shape (n, N)
        The first belief after the current step, not normalized; it is used only if that step is possible.
    seen : boolean array of shape (n,)
        Which steps were observed; a missing one leaves the first belief.
    """
    ratio = fresh @ operators.normalizer
    fine = possible(ratio) & seen
    return np.where(fine[:, None], fresh / np.where(fine, ratio, 1.0)[:, None], operators.start)


def last_beliefs(operators: Operators, found: Beliefs) -> Floats:
    """Return the belief after the last step of each sequence, ``(N, n)``; an empty one has the first belief."""
    out = np.tile(operators.start, (len(found.offsets) - 1, 1))
    some = np.diff(found.offsets) > 0
    out[some] = found.values[found.offsets[1:][some] - 1]
    return out


def pulled(operators: Operators, belief: Floats) -> Floats:
    """Return the points where the ways from the start to beliefs ``(n, N)`` leave the ball of the radius."""
    start = operators.start
    moved = belief - start
    square, slope = np.einsum("ij,ij->i", moved, moved), moved @ start
    inside = max(operators.radius**2 - float(start @ start), 0.0)
    share = (np.sqrt(slope**2 + square * inside) - slope) / square
    return np.asarray(start + np.where(np.isfinite(share), share, 0.0)[:, None] * np.nan_to_num(moved))
