"""Vectors of counts of random length under the probability product at rho = 1/2 (PPK-3.3)."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from array_api_compat import is_numpy_array

from mercer._array import Array, Floats, namespace
from mercer._batch import take_rows
from mercer._coupling import InnerLeaf, power
from mercer.data.csr import CSRRows
from mercer.families._sparse_leaf import SparseLeaf

NEAR = 1e-5
"""Pairs whose 1 - r is below this have lost digits to cancellation, which a long document makes many."""
CHUNK = 1 << 20
"""Numbers of differences that are alive at once."""


class LengthLeaf:
    """Frequencies and lengths: sum_s sqrt(w_s w'_s) r^s with r = sum_d sqrt(a_d a'_d), from 1 - r without cancellation.

    Parameters
    ----------
    inner : InnerLeaf or SparseLeaf
        Of the square roots of frequencies that sum to one: log r of every pair, by one product a tile.
    length : array of shape (*B)
        Expected lengths.
    distribution : {"poisson", "geometric", "fixed"}
        Of the lengths.
    dtype : dtype or None
        Dtype of the results, if they are computed in a wider one.
    """

    order: Floats | None = None

    def __init__(self, inner: Any, length: Array, distribution: str, dtype: Any = None) -> None:
        self.inner = inner
        self.length = length
        self.distribution = distribution
        self.dtype = dtype

    @classmethod
    def of(cls, probability: Any, length: Array, distribution: str) -> Self:
        """Prepare frequencies, dense ``(*B, k)`` or compressed, and lengths ``(*B)``."""
        sparse = isinstance(probability, CSRRows)
        single = (sparse or is_numpy_array(probability)) and probability.dtype == np.float32
        dtype = probability.dtype if single else None
        if single:  # lengths multiply the rounding of r
            length = length.astype(np.float64)
        if sparse:
            return cls(SparseLeaf.of_power(probability.widened().shares(), 0.5, 1), length, distribution, dtype)
        if single:
            probability = probability.astype(np.float64)
        total = namespace(probability).sum(probability, axis=-1, keepdims=True)
        return cls(InnerLeaf.of_power(probability / total, 0.5), length, distribution, dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """Batch shape."""
        return tuple(self.length.shape)

    @property
    def tile_hint(self) -> int:
        """Rows of a tile that suit the caches."""
        return int(self.inner.tile_hint)

    def __len__(self) -> int:
        return int(self.length.shape[0])

    def __getitem__(self, key: Any) -> Self:
        keys = key if isinstance(key, tuple) else (key,)
        return type(self)(self.inner[key], take_rows(self.length, keys), self.distribution, self.dtype)

    def reshape(self, *shape: int) -> Self:
        """Return the same members in another batch shape."""
        length = namespace(self.length).reshape(self.length, shape)
        return type(self)(self.inner.reshape(*shape), length, self.distribution, self.dtype)

    def pair(self, other: Self) -> Array:
        """Compute the kernel of every pair, as a logarithm."""
        log_r = self.inner.pair(other.inner)
        xp = namespace(log_r)
        gap = self._refined(other, xp.clip(-xp.expm1(log_r), 0.0, None))
        tau, other_tau = self.length[..., :, None], other.length[..., None, :]
        root, other_root = power(tau, 0.5), power(other_tau, 0.5)
        apart, together = (root - other_root) ** 2, root * other_root
        if self.distribution == "poisson":
            value = -apart / 2 - together * gap
        elif self.distribution == "geometric":  # u = sqrt((1 + tau)(1 + tau')): k = 1 / (u - together r), rewritten
            u = xp.sqrt(1 + tau) * xp.sqrt(1 + other_tau)  # the product itself may overflow
            value = -xp.log1p(apart / (u + 1 + together) + together * gap)
        else:
            near = gap < 0.5
            log_r = xp.where(near, xp.log1p(-xp.where(near, gap, xp.zeros_like(gap))), log_r)
            equal = tau == other_tau
            drawn = equal & (tau > 0)  # two empty documents are equal for any frequencies
            logs = xp.where(drawn, log_r, xp.zeros_like(log_r))
            value = xp.where(equal, tau * logs, -xp.inf)
        return value if self.dtype is None else value.astype(self.dtype)

    def alone(self) -> Array:
        """Compute the kernel of every member with itself: 1."""
        zeros = 0 * self.length
        return zeros if self.dtype is None else zeros.astype(self.dtype)

    def _refined(self, other: Self, gap: Array) -> Array:
        """Compute 1 - r = |sqrt a - sqrt a'|^2 / 2 once more for pairs that are nearly equal, from their differences.

        Of one batch axis in NumPy; elsewhere 1 - r is exact to a few units of the last digit of 1.
        """
        if not is_numpy_array(gap) or gap.ndim != 2:
            return gap
        rows, columns = np.nonzero(gap < NEAR)
        a, b = _roots(self.inner), _roots(other.inner)
        step = max(1, CHUNK // max(int(a.shape[1]), 1)) if isinstance(a, np.ndarray) else 256
        for at in range(0, len(rows), step):
            i, j = rows[at : at + step], columns[at : at + step]
            difference = a[i] - b[j]
            squares = difference * difference
            gap[i, j] = np.asarray(squares.sum(axis=1)).ravel() / 2
        return gap


def _roots(inner: Any) -> Any:
    """Return the square roots of the frequencies, as a matrix."""
    return inner.rows.rows.to_scipy() if isinstance(inner, SparseLeaf) else inner.features
