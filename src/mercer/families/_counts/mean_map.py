"""Exact mean maps of vectors of counts with a Gaussian base kernel (GMMK-10a)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from mercer._array import Array, Floats, beside, to_numpy
from mercer._coupling import FieldOperand
from mercer._native.counts import log_mean_maps
from mercer._special import gammaln
from mercer.data.csr import CSRRows

MOST_STEPS = 4e9
"""Multiplications of one pair, a few seconds, beyond which an exact mean map is refused."""


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
