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
        Where the belief was restarted, because a probability was not positive; where it was longer than the features of
        every training window and was pulled back.
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


class Advanced(NamedTuple):
    """Beliefs of S sequences after one step."""

    values: Floats
    log_ratios: Floats
    restarted: Mask
    shrunk: Mask


def run(operators: Operators, features: Callable[[Indices], Floats], offsets: Indices, observed: Mask) -> Beliefs:
    """Filter several sequences, all at once and one step after the other.

    Parameters
    ----------
    operators : Operators
        The model.
    features : callable
        Returns the features of observed steps, ``(n, s)``.
    offsets, observed
        Sequences, and which steps are not missing.
    """
    n, lengths, total = operators.n, np.diff(offsets), int(offsets[-1])
    out = Beliefs(np.zeros((total, n)), np.zeros(total), np.zeros(total, bool), np.zeros(total, bool), offsets)
    order = np.argsort(-lengths, kind="stable")
    belief, time = np.tile(operators.start, (len(order), 1)), 0
    while time < lengths.max(initial=0):
        active = int(np.sum(lengths > time))
        span = min(max(HELD // (n * n * active), 1), int(lengths[order[active - 1]]) - time)
        index = offsets[order[:active]] + time + np.arange(span)[:, None]  # (span, active)
        steps, seen = index.ravel(), observed[index]
        made = np.empty((len(steps), n * n))
        made[~seen.ravel()] = operators.unseen.ravel()
        made[seen.ravel()] = features(steps[seen.ravel()]) @ operators.gain
        for at, own, one in zip(index, made.reshape(*index.shape, n, n), seen, strict=True):
            found = advanced(operators, belief[:active], own, one)
            for column, value in zip(out, found, strict=False):
                column[at] = value
            belief = found.values
        time += span
    return out


def advanced(operators: Operators, belief: Floats, made: Floats, seen: Mask) -> Advanced:
    """Advance beliefs by one step with operators ``(S, N, N)``.

    A step that is impossible restarts the belief, and counts only if it was observed.
    """
    new = (made @ belief[:, :, None])[:, :, 0]
    ratio = new @ operators.normalizer
    good = possible(ratio)
    if not good.all():
        fresh = made[~good] @ operators.start
        again = fresh @ operators.normalizer
        fine = possible(again) & seen[~good]
        new[~good] = np.where(fine[:, None], fresh / np.where(fine, again, 1.0)[:, None], operators.start)
        ratio[~good] = 1.0
    new = new / ratio[:, None]
    wide = np.einsum("ij,ij->i", new, new) > operators.radius**2
    if wide.any():
        new[wide] = pulled(operators, new[wide])
    return Advanced(new, np.where(seen & good, np.log(ratio), 0.0), ~good, wide)


def possible(ratio: Floats) -> Mask:
    """Whether ratios of probabilities are positive and not huge, ``(n,)``; NaN is not."""
    return np.asarray((ratio > SMALLEST) & (ratio < 1 / SMALLEST))


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
