"""Parameters of an affine pair HMM as odds relative to independent letters (MK-5b)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mercer._array import Floats
from mercer.models._pairs.affine_expectations import Laws

__all__ = ["Odds", "odds"]


class Odds(NamedTuple):
    """Parameters of the recursion.

    With the reference probabilities r of the letters divided out, and x = (1-e) X / (1-o), y = (1-e) Y / (1-o)^2
    instead of the X and Y of MK-5b, the recursion has one gap weight g = o (1-e) / (1-o) and the same form for both
    strings::

        M(i,j) = match[s_i,t_j] z(i-1,j-1)
        x(i,j) = inserted[s_i] (g M(i-1,j) + e x(i-1,j)),    u = M + x
        y(i,j) = inserted[t_j] (g u(i,j-1) + e y(i,j-1)),    z = u + y
        log kappa = base + log z(n,m) + sum log r[s_i] + sum log r[t_j]

    with match[a,b] = c (1-o)^2 J[a,b] / (r_a r_b) and inserted = insertion / r. Here r is the distribution of
    insertions, so inserted is 1; and numbers are tilted, that is, divided by e per letter, so e is 1, too.
    """

    match: Floats
    """Tilted, ``(C, C)``."""
    log_letter: Floats
    """log (r e), ``(C,)``."""
    gap: float
    """g / e, the weight of a run of insertions."""
    base: float
    """log((1-c) (1-o)^2)."""


def odds(laws: Laws) -> Odds:
    """Compute the tilted odds of a model whose distribution of insertions has no zeros."""
    joint, r, o, e, c = laws.of_codes
    match = c * (1 - o) ** 2 * (joint / r[:, None] / r) / e**2
    base = float(np.log1p(-c) + 2 * np.log1p(-o))
    return Odds(match, np.log(r) + np.log(e), o * (1 - e) / (1 - o) / e, base)
