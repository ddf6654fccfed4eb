"""The numbers of an affine pair HMM as odds against a model of single letters (MK-5b)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats, safe_log, to_numpy

__all__ = ["Odds", "odds"]


class Odds(NamedTuple):
    """What the recursion runs on.

    With the letters' reference probabilities r divided out, and x = (1-e) X / (1-o), y = (1-e) Y / (1-o)^2 in place of
    the X and Y of MK-5b, the recursion has one gap weight g = o (1-e) / (1-o) and the same form for both strings::

        M(i,j) = match[s_i,t_j] z(i-1,j-1)
        x(i,j) = inserted[s_i] (g M(i-1,j) + e x(i-1,j)),    u = M + x
        y(i,j) = inserted[t_j] (g u(i,j-1) + e y(i,j-1)),    z = u + y
        log kappa = base + log z(n,m) + sum log r[s_i] + sum log r[t_j]
    """

    match: Floats
    """c (1-o)^2 J[a,b] / (r_a r_b) of all codes, ``(C, C)``: ambiguity codes are sums over what they may be."""
    inserted: Floats
    """Probability of an inserted letter over its reference, ``(C,)``."""
    log_reference: Floats
    """log r, ``(C,)``; -inf for a letter that the model never shows."""
    gap: float
    """g, the weight of a run of insertions, without its length."""
    extend: float
    """e."""
    base: float
    """log((1-c) (1-o)^2)."""


def odds(model: Any, reference: Floats | None = None) -> Odds:
    """Compute the odds of the one model in a batch of shape (1,).

    Parameters
    ----------
    model : AffinePairHMMs of shape (1,)
        The model.
    reference : ndarray of shape (k,), default=None
        Reference probabilities of letters; the larger of insertion and marginal by default, so that no odds overflow.
    """
    joint, insertion = (to_numpy(x)[0].astype(np.float64) for x in (model.joint, model.insertion))
    o, e, c = (float(to_numpy(x)[0]) for x in (model.open, model.extend, model.continuation))
    joint = (joint + joint.T) / 2
    if reference is None:
        reference = np.maximum(insertion, joint.sum(axis=0))
    sets = model.alphabet.membership
    r = sets @ reference
    safe = np.where(r > 0, r, 1.0)
    match = (sets @ joint @ sets.T) / safe[:, None] / safe
    return Odds(
        match=c * (1 - o) ** 2 * match,
        inserted=(sets @ insertion) / safe,
        log_reference=safe_log(r),
        gap=o * (1 - e) / (1 - o),
        extend=e,
        base=float(np.log1p(-c) + 2 * np.log1p(-o)),
    )
