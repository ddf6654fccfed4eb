"""The numbers of an affine pair HMM as odds against a model of single letters (MK-5b)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats, safe_log, to_numpy

__all__ = ["Factors", "Odds", "odds"]


class Factors(NamedTuple):
    """What the odds are made of. Their products may leave the range of floats, so that `affine_rescue` has them apart.

    Of letters, rows are those of all codes, ``C``: ambiguity codes are sums over what they may be.
    """

    joint: Floats
    """J, ``(C, C)``."""
    insertion: Floats
    """Law of inserted letters, ``(C,)``."""
    reference: Floats
    """r, ``(C,)``; zero for a letter that the model never shows."""
    open: float
    extend: float
    continuation: float

    @classmethod
    def of(cls, model: Any, reference: Floats | None = None) -> Factors:
        """Read the one model in a batch of shape (1,).

        ``reference (k,)`` is by default the larger of insertion and marginal, so that no odds overflow.
        """
        joint, insertion = (to_numpy(x)[0].astype(np.float64) for x in (model.joint, model.insertion))
        joint = (joint + joint.T) / 2
        if reference is None:
            reference = np.maximum(insertion, joint.sum(axis=0))
        sets = model.alphabet.membership
        numbers = (float(to_numpy(x)[0]) for x in (model.open, model.extend, model.continuation))
        return cls(np.ascontiguousarray(sets @ joint @ sets.T), sets @ insertion, sets @ reference, *numbers)

    @property
    def log_reference(self) -> Floats:
        """Logarithm of r, ``(C,)``."""
        return safe_log(self.reference)

    @property
    def base(self) -> float:
        """Logarithm of (1-c) (1-o)^2."""
        return float(np.log1p(-self.continuation) + 2 * np.log1p(-self.open))


class Odds(NamedTuple):
    """What the recursion runs on.

    With the letters' reference probabilities r divided out, and x = (1-e) X / (1-o), y = (1-e) Y / (1-o)^2 in place of
    the X and Y of MK-5b, the recursion has one gap weight g = o (1-e) / (1-o) and the same form for both strings::

        M(i,j) = match[s_i,t_j] z(i-1,j-1)
        x(i,j) = inserted[s_i] (g M(i-1,j) + e x(i-1,j)),    u = M + x
        y(i,j) = inserted[t_j] (g u(i,j-1) + e y(i,j-1)),    z = u + y
        log kappa = base + log z(n,m) + sum log r[s_i] + sum log r[t_j]

    with match[a,b] = c (1-o)^2 J[a,b] / (r_a r_b) and inserted = insertion / r. Here r is the law of insertions, so
    that inserted is 1; and numbers are tilted, divided by e per letter, which makes e 1 too.
    """

    match: Floats
    """Tilted, ``(C, C)``."""
    log_letter: Floats
    """log (r e), ``(C,)``."""
    gap: float
    """g / e, the weight of a run of insertions."""
    base: float
    """log((1-c) (1-o)^2)."""


def odds(model: Any) -> Odds:
    """Compute the tilted odds of the one model in a batch of shape (1,), whose laws of insertions have no zeros."""
    f = Factors.of(model, to_numpy(model.insertion)[0].astype(np.float64))
    o, e, c = f.open, f.extend, f.continuation
    match = f.joint / f.reference[:, None] / f.reference
    return Odds(c * (1 - o) ** 2 * match / e**2, f.log_reference + np.log(e), o * (1 - e) / (1 - o) / e, f.base)
