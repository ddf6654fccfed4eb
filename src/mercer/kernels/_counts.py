"""Mean maps of vectors of counts, with the Gaussian kernel exp(-gamma |x - y|^2) as the base kernel (GMMK-10a)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.fft import next_fast_len

from mercer._array import Array, Floats, beside, namespace, safe_log, to_numpy
from mercer._special import gammaln
from mercer.families import Multinomials
from mercer.families.characteristic import no_counts
from mercer.families.special import times

CHUNK = 1 << 18
"""Entries of the tables of all words that are in memory at once."""
STEPS = 30
"""Largest number of steps of Newton's method; a few suffice unless gamma is very large."""
NEAR = 0.1
"""Squared distance of the means from the totals, in deviations, that is near enough."""
FARTHEST = 1e4
"""Largest logarithm of u and v."""
SMALL = -15.0
"""Log of the share of the coefficient in the sum of all, below which Fourier transforms lose its digits."""


@dataclass(frozen=True)
class CountSmoothed:
    """Mean map: log of E exp(-gamma |x - y|^2) of vectors of counts x and y, of any two totals (GMMK-10a)."""

    gamma: float

    power: ClassVar[float] = 1.0
    """A mean map is linear in the hidden weights."""

    def leaf(self, p: Any, q: Any) -> Array:
        """Compute the log kernel of all pairs, ``(*B, n) x (*B, m) -> (*B, n, m)``."""
        if not isinstance(p, Multinomials):
            raise no_counts(p)
        left, right = p.dense().probability, q.dense().probability
        xp, k = namespace(left, right), left.shape[-1]
        lead = np.broadcast_shapes(tuple(left.shape[:-2]), tuple(right.shape[:-2]))
        shape = (*lead, left.shape[-2], right.shape[-2])
        same = p is q and not lead
        places = np.array(np.triu_indices(shape[0]) if same else np.indices(shape).reshape(len(shape), -1))
        sides = []
        for side, axis in ((left, -2), (right, -1)):
            at = np.ravel_multi_index((*places[:-2], places[axis]), (*lead, shape[axis])) if places.size else places[0]
            sides.append((xp.reshape(xp.broadcast_to(side, (*lead, *side.shape[-2:])), (-1, k)), at))
        step = max(1, CHUNK // ((p.trials + 1) * (q.trials + 1) * max(k, 1)))
        value = beside(left, np.zeros(0), left.dtype)
        for begin in range(0, places.shape[1], step):
            a, b = (xp.take(side, beside(side, at[begin : begin + step]), axis=0) for side, at in sides)
            value = xp.concat([value, log_mean_maps(a, b, (p.trials, q.trials), float(self.gamma))])
        if not same:
            return xp.reshape(value, shape)
        index = np.empty(shape, dtype=np.int64)
        index[tuple(places)] = index[tuple(places[::-1])] = np.arange(places.shape[1])
        return xp.reshape(xp.take(value, beside(value, index.ravel()), axis=0), shape)


def log_mean_maps(a: Array, b: Array, trials: tuple[int, int], gamma: float) -> Array:
    r"""Log of E exp(-gamma |x - y|^2) for x ~ Multinomial(s, a) and y ~ Multinomial(t, b), ``(P, k) x (P, k) -> (P,)``.

    It is s! t! times the coefficient of u^s v^t in the product over the words of
    sum_nm (a u)^n / n! (b v)^m / m! exp(-gamma (n - m)^2). The variables u and v are scaled such that s and t are the
    mean exponents: the coefficient then is not small beside the sum of all, and Fourier transforms keep its digits.
    """
    xp, top, kind = namespace(a, b), max(trials), a.dtype
    a, b = (xp.astype(side, xp.float64) for side in (a, b))
    own = xp.max(xp.where(a > b, a, b), axis=0)
    keep = beside(a, np.flatnonzero(to_numpy(own) > 0))  # a word that neither has is a factor of one
    n = beside(a, np.arange(top + 1.0), a.dtype)
    factorial = gammaln(n + 1)
    logs = [
        times(n[: s + 1], safe_log(xp.take(side, keep, axis=1))[..., None]) - factorial[: s + 1]
        for side, s in zip((a, b), trials, strict=True)
    ]
    gap = n[: trials[0] + 1, None] - n[: trials[1] + 1]
    table = logs[0][..., :, None] + logs[1][..., None, :] - gamma * gap * gap
    tilt = _tilts(np.asarray(to_numpy(table), dtype=float), trials)
    u, v = (beside(table, np.ascontiguousarray(side), table.dtype)[:, None, None, None] for side in tilt.T)
    table = table + u * n[: trials[0] + 1, None] + v * n[: trials[1] + 1]
    value = _log_coefficient(table)
    ends = sum(factorial[s] - s * w[:, 0, 0, 0] for s, w in zip(trials, (u, v), strict=True))
    return xp.astype(value + ends, kind)


def _log_coefficient(table: Array) -> Array:
    """Log of the last coefficient of the product of the polynomials of k words, given in logs, ``(P, k, S, T)``."""
    xp = namespace(table)
    part, whole = _shares(table)
    level = whole
    while part.shape[1] > 1:
        part, more = _shares(safe_log(_products(part)))
        level = level + more
    value = safe_log(part[:, 0, -1, -1]) + level
    lost = ~(to_numpy(value - whole) > SMALL)
    if not lost.any():
        return value
    rest = _log_convolution(xp.take(table, beside(table, np.flatnonzero(lost)), axis=0))
    merged = xp.concat([value, rest])
    index = np.where(lost, len(lost) + np.cumsum(lost) - 1, np.arange(len(lost)))
    return xp.take(merged, beside(table, index), axis=0)


def _shares(logs: Array) -> tuple[Array, Array]:
    """Return every coefficient's share in the sum of its word, and the log of the product of the sums, ``(P,)``."""
    xp = namespace(logs)
    highest = xp.max(logs, axis=(-2, -1), keepdims=True)
    part = xp.exp(logs - highest)
    sums = xp.sum(part, axis=(-2, -1), keepdims=True)
    return part / sums, xp.sum(highest + xp.log(sums), axis=(1, 2, 3))


def _log_convolution(table: Array) -> Array:
    """Return the same in logarithms, term by term: slow, with all digits however small the coefficient is."""
    xp, (rows, columns) = namespace(table), table.shape[-2:]
    total = table[:, 0, ...]
    for d in range(1, table.shape[1]):
        found = xp.full_like(total, -xp.inf)
        for n, m in np.ndindex(rows, columns):
            shifted = xp.full_like(total, -xp.inf)
            shifted[:, n:, m:] = table[:, d, n, m][:, None, None] + total[:, : rows - n, : columns - m]
            found = xp.logaddexp(found, shifted)
        total = found
    return total[:, -1, -1]


def _products(tables: Array) -> Array:
    """Multiply the polynomials of words in pairs, without powers beyond the totals, ``(P, k, S, T)``."""
    xp, size = namespace(tables), tables.shape[-2:]
    half = tables.shape[1] // 2
    around = tuple(next_fast_len(2 * s - 1, real=True) for s in size)
    waves = [
        xp.fft.rfftn(side, s=around, axes=(-2, -1)) for side in (tables[:, :half, ...], tables[:, half : 2 * half, ...])
    ]
    found = xp.fft.irfftn(waves[0] * waves[1], s=around, axes=(-2, -1))[..., : size[0], : size[1]]
    return xp.concat([xp.clip(found, 0.0, None), tables[:, 2 * half :, ...]], axis=1)


def _tilts(table: Floats, trials: tuple[int, int]) -> Floats:
    """Return logarithms of u and v at which the exponents have the given means, by Newton's method, ``(P, 2)``."""
    n, m = np.arange(trials[0] + 1.0), np.arange(trials[1] + 1.0)
    tilt = np.broadcast_to(np.log(trials), (len(table), 2)).copy()
    reach, before = np.full(len(table), 2.0), np.zeros((len(table), 2))
    todo = np.arange(len(table))
    for _ in range(STEPS):
        mean, covariance = _moments(table[todo], tilt[todo], n, m)
        off = np.subtract(trials, mean)
        step = np.linalg.solve(covariance + 1e-9 * np.eye(2), off[..., None])[..., 0]
        far = np.sum(off * step, axis=-1) > NEAR
        todo, step, off = todo[far], step[far], off[far]
        if not len(todo):
            break
        turned = np.sum(before[todo] * off, axis=-1) < 0
        reach[todo] *= np.where(turned, 0.25, 2.0)  # plateaus are long where gamma is large
        before[todo] = off
        tilt[todo] += np.clip(step, -reach[todo, None], reach[todo, None])
    return np.clip(tilt, -FARTHEST, FARTHEST)


def _moments(table: Floats, tilt: Floats, n: Floats, m: Floats) -> tuple[Floats, Floats]:
    """Return means and covariances of the sums of the exponents over all words, ``(P, 2)`` and ``(P, 2, 2)``."""
    weights = table + (tilt[:, 0, None] * n)[:, None, :, None] + (tilt[:, 1, None] * m)[:, None, None, :]
    weights = np.exp(weights - weights.max(axis=(-2, -1), keepdims=True))
    weights /= weights.sum(axis=(-2, -1), keepdims=True)
    rows, columns = weights.sum(axis=-1), weights.sum(axis=-2)
    mean = np.stack([rows @ n, columns @ m], axis=-1)
    cross = (weights @ m) @ n
    second = np.stack([rows @ n**2, cross, cross, columns @ m**2], axis=-1).reshape(*mean.shape, 2)
    return mean.sum(axis=1), (second - mean[..., :, None] * mean[..., None, :]).sum(axis=1)
