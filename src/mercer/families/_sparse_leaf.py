"""Sparse rows of probabilities under a coupling, which compute tiles of a Gram matrix."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy import sparse

from mercer._array import Floats
from mercer._coupling import FieldOperand, InnerLeaf, mismatch_underflows
from mercer.data import csr as _csr
from mercer.families._gaps import jensen_gap

NEAR = 1e-2
"""Divergences of one trial below this are summed word by word: what shared words leave of log 2 has cancelled."""
PAIRS = 4096
"""Pairs of rows that are summed word by word at once."""


@dataclass
class SparseLeaf(FieldOperand):
    """Sparse rows under a coupling: log ((1 - mismatch) <f, f'> + mismatch)^trials.

    Parameters
    ----------
    rows : Prepared
        The features f.
    trials : int
        The power.
    mismatch : float, default=0.0
        Constant that is added to inner products.
    floor : float or None, default=None
        Its logarithm, where it is too small for a float; ``mismatch`` is then 0.
    base : tuple of CSRRows and float, default=None
        Rows p and a power rho with f = p^rho.
    lost : bool, default=False
        Whether products of features underflow, so that tiles are sums of logarithms.
    """

    rows: _csr.Prepared
    trials: int
    mismatch: float = 0.0
    floor: float | None = None
    base: tuple[_csr.CSRRows, float] | None = None
    lost: bool = False
    _shared_fields = ("trials", "mismatch", "floor", "base", "lost")
    tile_hint = _csr.TILE_ROWS

    @classmethod
    def of_power(cls, p: _csr.CSRRows, rho: float, trials: int, floor: float | None = None) -> Self:
        """Make the features p^rho of probabilities."""
        smallest = float(p.data.min()) if p.data.size else 1.0
        lost = rho * np.log(smallest) < np.log(float(np.finfo(p.dtype).smallest_normal)) / 2
        rows = p if rho == 1 else p.power(rho)
        return cls(_csr.Prepared(rows), trials, floor=floor, base=(p, rho), lost=bool(lost))

    @classmethod
    def smoothed(cls, p: _csr.CSRRows, gamma: float, trials: int) -> Self:
        """Make rows whose pairs are (1 - e) <a, a'> + e, e = exp(-2 gamma)."""
        if mismatch_underflows(gamma, p.data):
            return cls.of_power(p, 1.0, trials, floor=-2.0 * float(gamma))
        return cls(_csr.Prepared(p), trials, mismatch=float(np.exp(-2 * gamma)))

    @property
    def shape(self) -> tuple[int, ...]:
        """Batch shape."""
        return (len(self.rows),)

    def __getitem__(self, key: Any) -> Self:
        taken = super().__getitem__(key)
        return taken if self.base is None else replace(taken, base=(self.base[0][key], self.base[1]))

    def log_features(self) -> Any:
        """Return logarithms of the features that are not zero, a SciPy CSR array; None for several trials.

        A constant that is added to inner products is one more feature.
        """
        if self.trials != 1:
            return None
        p, rho = (self.rows.rows, 1.0) if self.base is None else self.base
        with np.errstate(divide="ignore"):  # a mismatch of 1
            scale = float(np.log1p(-self.mismatch)) / 2
        logs = sparse.csr_array((rho * np.log(p.data) + scale, p.indices, p.indptr), shape=p.shape)
        constant = float(np.log(self.mismatch)) if self.mismatch else self.floor
        if constant is None:
            return logs
        n = len(p)
        column = sparse.csr_array((np.full(n, constant / 2, p.dtype), np.zeros(n, int), np.arange(n + 1)), shape=(n, 1))
        return sparse.hstack([logs, column], format="csr")

    def pair(self, other: Self) -> Floats:
        """Compute the kernel of every pair, as a logarithm."""
        if self.lost or other.lost:
            return self._dense().pair(other._dense())
        return self._log(_csr.outer(self.rows, other.rows))

    def alone(self) -> Floats:
        """Compute the kernel of every member with itself."""
        if self.lost:
            return self._dense().alone()
        return self._log(self.rows.rows.power(2.0).row_sums())

    def _dense(self) -> InnerLeaf:
        """Return dense features, whose products are computed in logarithms where they underflow."""
        assert self.base is not None
        leaf = InnerLeaf.of_power(self.base[0].dense(), self.base[1], self.trials)
        leaf.floor = self.floor
        return leaf

    def _log(self, inner: Floats) -> Floats:
        if self.mismatch:
            inner *= 1 - self.mismatch
            inner += self.mismatch
        with np.errstate(divide="ignore"):
            np.log(inner, out=inner)
        return self._finished(inner)

    def _finished(self, inner: Floats) -> Floats:
        """Add the floor to logarithms of inner products, and take the power."""
        if self.floor is not None:
            inner = np.logaddexp(inner, inner.dtype.type(self.floor))
        if self.trials != 1:
            inner *= self.trials
        return inner


class SparseDivergence(SparseLeaf):
    """Sparse rows under the Jensen-Shannon divergence: only shared words add to it."""

    def pair(self, other: Self) -> Floats:
        """Compute the kernel of every pair: trials (log 2 - shared entropy / 2), not as a logarithm."""
        shared = _csr.shared_entropy(self.rows, other.rows)
        shared *= -0.5 * self.trials
        shared += self.trials * np.log(2.0)
        near = np.argwhere(shared < NEAR * self.trials)
        for begin in range(0, len(near), PAIRS):
            i, j = near[begin : begin + PAIRS].T
            shared[i, j] = self.trials * _divergences(self.rows.rows[i], other.rows.rows[j])
        return np.maximum(shared, 0.0, out=shared)

    def alone(self) -> Floats:
        """Return zeros: the divergence of a distribution from itself."""
        return np.zeros(len(self.rows))


def _divergences(p: _csr.CSRRows, q: _csr.CSRRows) -> Floats:
    """Return the Jensen-Shannon divergence of every row of ``p`` from the same row of ``q``, without cancellation."""
    cells = [np.repeat(np.arange(len(rows)), np.diff(rows.indptr)) * rows.n_columns + rows.indices for rows in (p, q)]
    known, place = np.unique(np.concatenate(cells), return_inverse=True)
    values = np.zeros((2, len(known)))
    values[0, place[: len(cells[0])]] = p.data
    values[1, place[len(cells[0]) :]] = q.data
    return np.bincount(known // p.n_columns, weights=jensen_gap(*values), minlength=len(p))
