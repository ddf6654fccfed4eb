"""Exact convolutions over outcomes for every pair: sums over all vectors of counts (PPK-3.3), mean maps (GMMK-10a)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import lgamma
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from array_api_compat import is_numpy_array

from mercer._array import Array, Floats, Indices, beside, logsumexp, namespace, safe_log, to_numpy
from mercer._coupling import FieldOperand
from mercer._native.counts import count_sums, log_count_sums, log_mean_maps
from mercer._rescue import rescued
from mercer._special import gammaln
from mercer.data.csr import CSRRows

MOST_STEPS = 4e9
"""Multiplications of one pair, a few seconds, beyond which a sum over counts or an exact mean map is refused."""


@dataclass(eq=False)
class CountLeaf(FieldOperand):
    """Multinomial vectors of counts under `CountSmoothed`: every pair is one exact convolution over words (GMMK-10a).

    Parameters
    ----------
    rows : CSRRows
        Word frequencies.
    totals : array of shape (n,)
        Number of draws of every row, whole numbers.
    index : array of int of shape (*B)
        Which row every member is.
    gamma : float
        Of the base kernel ``exp(-gamma |x - y|^2)`` of the counts.
    like : array
        The results have its library, device and dtype.
    """

    _shared_fields: ClassVar[tuple[str, ...]] = ("rows", "totals", "gamma", "like")

    tile_hint = 32

    rows: CSRRows
    totals: Floats
    index: Floats
    gamma: float
    like: Array

    @classmethod
    def of(cls, probability: Any, totals: Any, gamma: float) -> Self:
        """Prepare frequencies, dense ``(*B, k)`` or compressed, and whole totals that broadcast to ``(*B)``."""
        if getattr(probability, "requires_grad", False):
            raise TypeError(
                "The exact mean map of counts has no gradient. Use probability.detach(), or random features, which "
                "have one: n_components=1000."
            )
        shape = tuple(probability.shape[:-1])
        sparse = isinstance(probability, CSRRows)
        rows = probability if sparse else CSRRows.of(to_numpy(probability).reshape(-1, probability.shape[-1]))
        whole = np.broadcast_to(np.rint(to_numpy(totals)), shape).astype(np.float64).reshape(-1)
        rows = rows.widened().shares()
        index = np.arange(len(rows)).reshape(shape)
        return cls(rows, whole, index, float(gamma), probability.data[:0] if sparse else probability)

    @property
    def shape(self) -> tuple[int, ...]:
        """Batch shape."""
        return tuple(self.index.shape)

    def reshape(self, *shape: int) -> Self:
        """Return the same members in another batch shape."""
        return type(self)(self.rows, self.totals, self.index.reshape(shape), self.gamma, self.like)

    def pair(self, other: Self) -> Array:
        """Compute the kernel of every pair, as a logarithm."""
        left, right = np.broadcast_arrays(self.index[..., :, None], other.index[..., None, :])
        out = np.zeros(left.shape)
        if self.gamma > 0 and out.size:
            left, right = left.ravel(), right.ravel()
            steps = self._steps(other, left, right)
            values = log_mean_maps((self.rows, self.totals), (other.rows, other.totals), self.gamma, left, right, steps)
            values += _log_poisson_peak(self, left) + _log_poisson_peak(other, right)
            out = np.minimum(values, 0.0).reshape(out.shape)
        return beside(self.like, out, self.like.dtype)

    def alone(self) -> Array:
        """Compute the kernel of every member with itself."""
        single = self.reshape(*self.shape, 1)
        return single.pair(single)[..., 0, 0]

    def _steps(self, other: Self, left: Floats, right: Floats) -> Floats:
        """Bound the number of multiplications of every pair, ``(P,)``; raise if one would take minutes or overflow."""
        s, t = self.totals[left], other.totals[right]
        largest = float(max(s.max(), t.max()))
        if not np.isfinite(self.gamma * largest * largest):
            raise ValueError(
                f"gamma = {self.gamma!r} times the square of the count {largest:.6g} overflows. Use a smaller gamma; "
                "from 1000 on, only equal counts are similar."
            )
        mine, theirs = np.diff(self.rows.indptr)[left], np.diff(other.rows.indptr)[right]
        squares = (s + 1) * (s + 2) / 2, (t + 1) * (t + 2) / 2
        # of words that one side has, of tables that are filled once, and of words that both have, at most
        once = mine * squares[0] + theirs * squares[1] + 40 * (s + 1) * (t + 1)
        words, each = np.minimum(mine, theirs), squares[0] * squares[1]
        bound = once + words * each
        long = np.flatnonzero(bound > MOST_STEPS)
        if not len(long):
            return np.asarray(bound)
        words = _common(self.rows[left[long]], other.rows[right[long]])
        steps = once[long] + words * each[long]
        worst = int(np.argmax(steps))
        if steps[worst] > MOST_STEPS:
            at = long[worst]
            raise ValueError(
                f"The exact mean map of counts convolves {words[worst]} tables of {s[at] + 1:.6g} x {t[at] + 1:.6g} "
                f"counts for one pair, about {steps[worst]:.1e} steps, more than {MOST_STEPS:.0e}. Use "
                "n_components=1000 for random features, fewer draws or words, or, for Multinomials, base='rbf', which "
                "aligns tokens."
            )
        return np.minimum(bound, MOST_STEPS)


def _common(a: CSRRows, b: CSRRows) -> Floats:
    """Count the words that row i of ``a`` and row i of ``b`` have both."""
    return np.asarray(((a.to_scipy() > 0).astype(int) * (b.to_scipy() > 0).astype(int)).sum(axis=1)).ravel()


def _log_poisson_peak(side: CountLeaf, index: Floats) -> Floats:
    """Return minus the log probability of a total s under Poisson(s), which the tables have and a fixed total not."""
    s = side.totals[index]
    return np.asarray(gammaln(s + 1) + s - s * np.log(np.maximum(s, 1.0)))


Terms: TypeAlias = Callable[[slice], Array]
"""Logarithms of the terms of some outcomes: a slice of w outcomes gives ``(*B, n, w, trials + 1)``."""

WIDTH = 64
"""Outcomes whose terms are made at a time."""
STATE = 1 << 22
"""Bytes of the tables of pairs that are worked on together."""
FEW = 8
"""A side with fewer members than this leaves lanes idle."""


def log_factorials(n: int) -> list[float]:
    """Logarithms of 0!, ..., n!."""
    return [float(f) for f in np.cumsum(np.log(np.maximum(np.arange(n + 1), 1)))]


def log_sum_over_counts(left: Terms, right: Terms, outcomes: int, trials: int, rho: float) -> Array:
    """Log of the sum over all counts x of total ``trials`` of the product over d of the terms of x_d of both sides.

    Parameters
    ----------
    left, right : callables
        Logarithms of the terms of either side, each at most -rho log n! for the count n.
    outcomes : int
        How many there are.
    trials : int
        The total of the counts.
    rho : float
        The power in the terms.

    Returns
    -------
    array of shape (*B, n, m)
    """
    steps = outcomes * trials * trials / 2
    if steps > MOST_STEPS:
        raise ValueError(
            f"The probability product of trials = {trials} draws from {outcomes} outcomes takes about {steps:.1e} "
            f"steps per pair, more than {MOST_STEPS:.0e}. Use fewer trials or outcomes, or rho = 0.5, at which "
            "Multinomials have a closed form."
        )
    sample = left(slice(0, 1)), right(slice(0, 1))
    if all(is_numpy_array(side) and side.dtype == np.float64 and side.ndim == 3 for side in sample):
        return _in_floats(left, right, outcomes, trials, rho)
    if all(is_numpy_array(side) and side.dtype == np.float64 and side.shape[1:-2] == (1,) for side in sample):
        everyone = np.arange(len(sample[0]))  # member by member, as for self-kernels
        found = _by_logs(_members(left), _members(right), _parts(outcomes), trials, everyone, everyone)
        return found[:, None, None]
    xp = namespace(*sample)
    table: list[Array] | None = None
    for d in range(outcomes):
        mine, theirs = (side(slice(d, d + 1))[..., 0, :] for side in (left, right))
        terms = [mine[..., :, None, n] + theirs[..., None, :, n] for n in range(trials + 1)]
        if table is None:
            table = terms
            continue
        table = [
            logsumexp(xp.stack([table[j] + terms[s - j] for j in range(s + 1)], axis=-1), axis=-1)
            for s in range(trials + 1)
        ]
    assert table is not None
    return table[trials]


def _in_floats(left: Terms, right: Terms, outcomes: int, trials: int, rho: float) -> Floats:
    """Convolve floats; pairs that may have lost digits are computed again with unlimited range.

    Counts are tilted by s^(rho n), and the terms of every outcome divided by their largest, so that all are at most 1.
    What underflows on the way counts at most once for every vector of counts: a sum far above this bound has all of
    its digits.
    """
    tilt = rho * np.log(trials) * np.arange(trials + 1)
    parts = _parts(outcomes)
    n, m = len(left(slice(0, 1))), len(right(slice(0, 1)))
    value, scale = np.empty((n, m)), np.zeros((n, m))
    if m < n and m < FEW:
        return np.ascontiguousarray(_in_floats(right, left, outcomes, trials, rho).T)
    step = max(1, STATE // (8 * (trials + 1) * max(m, 1)))
    for first in range(0, n, step):
        rows = slice(first, first + step)
        tables = np.zeros((len(value[rows]), trials + 1, m))
        tables[:, 0] = 1.0  # before any outcome a total of zero is certain
        for part in parts:
            mine, theirs = left(part)[rows] + tilt, right(part) + tilt
            tops = mine.max(axis=-1), theirs.max(axis=-1)  # finite: a count of zero is never impossible
            scale[rows] += tops[0].sum(axis=-1)[:, None] + tops[1].sum(axis=-1)
            count_sums(tables, np.exp(mine - tops[0][..., None]), np.exp(theirs - tops[1][..., None]))
        value[rows] = safe_log(tables[:, -1])
    vectors = lgamma(trials + outcomes) - lgamma(trials + 1) - lgamma(outcomes)
    limits: Any = np.finfo(float)
    sound = value > np.log(limits.tiny / limits.eps) + vectors

    def careful(i: Floats, j: Floats) -> Floats:
        return _by_logs(left, right, parts, trials, i, j)

    return rescued(value + scale - 2 * tilt[-1], sound, careful)


def _members(side: Terms) -> Terms:
    """Return the terms of members ``(N, 1)`` as those of members ``(N,)``."""
    return lambda part: side(part)[:, 0]


def _parts(outcomes: int) -> list[slice]:
    """Return the outcomes whose terms are made at a time."""
    return [slice(first, min(first + WIDTH, outcomes)) for first in range(0, outcomes, WIDTH)]


def _by_logs(left: Terms, right: Terms, parts: list[slice], trials: int, i: Indices, j: Indices) -> Floats:
    """Convolve the terms of member ``i[p]`` of the left side and ``j[p]`` of the right side by logarithms, ``(P,)``."""
    logs = np.full((len(i), trials + 1), -np.inf)
    logs[:, 0] = 0.0
    for part in parts:
        log_count_sums(logs, left(part), right(part), i, j)
    return logs[:, trials]
