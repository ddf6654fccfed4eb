"""Sums over counts, and over vectors of counts, that several families share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from array_api_compat import is_numpy_array, is_torch_array

from mercer._array import Array, Floats, Mask, beside, logsumexp, namespace, safe_log, to_numpy
from mercer._special import gammaln
from mercer.families.special import times

PLAIN = 64
"""Counts that are summed one by one; larger ones by blocks."""
ORDER = 16
"""Nodes of a block."""
LARGEST_COUNT = 10**9
"""Largest count that sums reach: their blocks grow with its square root."""


@functools.lru_cache(maxsize=64)
def nodes(top: int, power: float) -> tuple[Floats, Floats]:
    """Return counts and weights whose weighted sums are those over 0, 1, .., top, of probabilities to this power.

    A block is four deviations long, of the narrowest distribution of counts there, the Poisson distribution. Its nodes
    are those of Gauss's rule for equal weights of consecutive numbers, the zeros of a Gram polynomial.
    """
    if top > LARGEST_COUNT:
        raise ValueError(
            f"Products of distributions of counts are summed up to {LARGEST_COUNT:,}, and these have counts of about "
            f"{top:.1g}. Count in larger units, or leave out the samples with the largest counts."
        )
    first = np.arange(min(PLAIN, top + 1), dtype=float)
    found, weights, begin, k = [first], [np.ones(len(first))], PLAIN, np.arange(1, ORDER)
    while begin <= top:
        length = max(ORDER, int(4 * np.sqrt(begin / max(power, 1.0))))
        beside_diagonal = np.sqrt(k**2 * (length**2 - k**2) / (4.0 * (4.0 * k**2 - 1)))
        values, vectors = np.linalg.eigh(np.diag(beside_diagonal, -1))  # about the middle of the block
        found.append(begin + (length - 1) / 2 + values)
        weights.append(length * vectors[0] ** 2)
        begin += length
    return np.concatenate(found), np.concatenate(weights)


def log_inner(a: Array, b: Array) -> Array:
    """Log of the sum over k of exp(a_ik + b_jk), ``(..., I, K) x (..., J, K) -> (..., I, J)``.

    One matrix product; what underflows in it is summed in logarithms.
    """
    xp = namespace(a, b)
    tops = [xp.max(side, axis=-1, keepdims=True) for side in (a, b)]
    left, right = (xp.exp(side - top) for side, top in zip((a, b), tops, strict=True))
    sums = left @ xp.matrix_transpose(right)
    value = safe_log(sums) + tops[0] + xp.matrix_transpose(tops[1])
    low = _underflows(sums)
    if not low.any():
        return value
    if is_torch_array(value):  # with a gradient
        return logsumexp(a[..., :, None, :] + b[..., None, :, :])
    out, a, b = to_numpy(value).copy(), to_numpy(a), to_numpy(b)
    for place in np.ndindex(low.shape[:-1]):
        columns = np.flatnonzero(low[place])
        if len(columns):
            out[(*place, columns)] = logsumexp(a[place] + b[place[:-1]][columns])
    return beside(value, out)


def _underflows(sums: Array) -> Mask:
    """Which sums of products may have lost terms to underflow."""
    sums = to_numpy(sums)
    limits = np.finfo(sums.dtype)
    return np.asarray(sums < limits.smallest_normal / limits.eps**2)


def log_product(p: Any, q: Any, log_mass: Callable[[Any, Array], Array], rho: float, top: int) -> Array:
    """Log of the sum over counts 0, .., top of p^rho q^rho, for views p ``(..., n, 1)`` and q ``(..., 1, m)``.

    ``log_mass(view, counts)`` may be asked between counts.
    """
    like, (at, weights) = getattr(p, next(iter(p._arrays))), nodes(top, 2 * rho)
    at, logs = (beside(like, v, like.dtype) for v in (at, np.log(weights)))
    turned = q._viewed(lambda _, v: namespace(v).moveaxis(v, -1, -2))
    return log_inner(rho * log_mass(p, at) + logs, rho * log_mass(turned, at))


# -- one count of Poisson distributions ------------------------------------------------------------------------


def steps_around(mean: float, rho: float, least: int = 8) -> range:
    """Return the steps from the largest term to those below 1e-18 of it, for a mean up to this, and at least these."""
    reach = least
    while 2 * rho * (_log_factorial(mean + reach) - _log_factorial(mean) - reach * np.log(mean + 1)) < 42:
        reach += reach // 4
    return range(-reach, reach + 1)


def _log_factorial(n: float) -> float:
    """Log of n!, for real n."""
    return float(gammaln(np.float64(n + 1)))


def log_term(n: Array, mean: Array) -> Array:
    """Compute n log mean - mean - log n! without cancellation, by Stirling's series from n = 16 on."""
    xp = namespace(n, mean)
    large = n >= 16
    safe = xp.where(large, n, xp.full_like(n, 16.0))
    gap = (mean - safe) / safe
    bend = xp.where(gap > -1, xp.log1p(xp.where(gap > -1, gap, xp.zeros_like(gap))), -xp.inf) - gap
    square = safe * safe
    rest = (1 / 12 - (1 / 360 - (1 / 1260 - 1 / (1680 * square)) / square) / square) / safe
    stirling = safe * bend - 0.5 * xp.log(2 * np.pi * safe) - rest
    small = xp.where(large, xp.zeros_like(n), n)
    direct = times(small, safe_log(mean)) - mean - gammaln(small + 1)
    return xp.where(large, stirling, direct)


# -- vectors of counts of a given total: any table of factors -------------------------------------------------


def log_count_sum(left: Array, right: Array) -> Array:
    """Log of the sum, over all vectors of counts of k outcomes with total s, of products of entries of two tables.

    It is the coefficient of z^s in the product over outcomes of sum_n exp(left_n + right_n) z^n. Every partial sum is
    divided by the norms of both sides, so that all numbers are at most 1 (Cauchy and Schwarz) and nothing cancels.

    Parameters
    ----------
    left, right : arrays of shape (..., I, k, s + 1) and (..., J, k, s + 1)
        Logarithms of nonnegative factors, of every outcome and every count from 0 to s.
    """
    k, s = left.shape[-2], left.shape[-1] - 1
    (norm_a, a), (norm_b, b) = _begun(left), _begun(right)
    now = [a[..., :, None, n] * b[..., None, :, n] for n in range(s + 1)]
    for d in range(1, k):
        (norm_a, a), (norm_b, b) = _moved(norm_a, left[..., d, :]), _moved(norm_b, right[..., d, :])
        wanted = range(s + 1) if d < k - 1 else (s,)
        now = [sum(now[j] * (a[..., :, None, n, j] * b[..., None, :, n, j]) for j in range(n + 1)) for n in wanted]
    value = safe_log(now[-1]) + (norm_a[..., :, None, s] + norm_b[..., None, :, s])
    low = _underflows(now[-1])
    if not low.any():
        return value
    logs, xp = left[..., :, None, :, :] + right[..., None, :, :, :], namespace(value)
    now = logs[..., 0, :]
    for d in range(1, k):
        own = logs[..., d, :]
        reverse = xp.flip(own, axis=-1)
        now = xp.stack([logsumexp(now[..., : n + 1] + reverse[..., s - n :]) for n in range(s + 1)], axis=-1)
    return xp.where(beside(value, low), now[..., s], value)


def _begun(logs: Array) -> tuple[Array, Array]:
    """Norms of the counts of the first outcome, and its table: 1 where possible."""
    first = logs[..., 0, :]
    return first, namespace(logs).astype(first > -np.inf, logs.dtype)


def _moved(norm: Array, logs: Array) -> tuple[Array, Array]:
    """Norms of partial sums with one more outcome, and the factors from total j to total n, ``(..., n, j)``."""
    xp, s = namespace(norm, logs), logs.shape[-1] - 1
    never = xp.full_like(norm[..., 0], -np.inf)
    rows = [[norm[..., j] + logs[..., n - j] if j <= n else never for j in range(s + 1)] for n in range(s + 1)]
    terms = xp.stack([xp.stack(row, axis=-1) for row in rows], axis=-2)
    after = logsumexp(2 * terms, axis=-1) / 2
    return after, xp.exp(terms - xp.where(after > -np.inf, after, xp.zeros_like(after))[..., None])


# -- counts of multinomials of many trials, by one convolution -------------------------------------------------

BLOCK = 1 << 17
"""Numbers of one array of counts of several pairs and outcomes: it stays in the cache."""
TOGETHER = 8
"""Outcomes whose counts are computed in one array, those of similar rates."""
LOST = 45.0
"""Terms below exp(-LOST) times the result may wrap around in the Fourier transform."""


@functools.lru_cache(maxsize=8)
def _tilted(power: float, most: float) -> tuple[Floats, ...]:
    """Return, over log rates, the log of the sum of exp(power (n log rate - log n!)), and mean and variance of n."""
    logs = np.linspace(-42 / power, np.log(most), 1500)
    n = np.arange(most + steps_around(most, power / 2).stop)
    terms = power * (n * logs[:, None] - gammaln(n + 1))
    total = logsumexp(terms)
    share = np.exp(terms - total[:, None])
    mean = share @ n
    return logs, total, mean, np.maximum(share @ n**2 - mean**2, 0.0)


def log_trials_product(left: Array, right: Array, trials: int, rho: float) -> Array:
    """Log of the sum over vectors of counts of (p q)^rho of multinomials, ``(..., I, k), (..., J, k) -> (..., I, J)``.

    With the rates l_d = L sqrt(a_d b_d) / B, B the sum of the roots, it is B^(2 rho s) Poisson(s; L)^(-2 rho) times the
    probability that independent counts of weights Poisson(n; l_d)^(2 rho) sum to s. That is one convolution, by a
    Fourier transform whose number of frequencies follows from the variance of the sum. L is such that s is near the
    mean of the sum; the result does not depend on it.
    """
    xp = namespace(left, right)
    lead = np.broadcast_shapes(tuple(left.shape[:-2]), tuple(right.shape[:-2]))
    if lead:
        a, b = (xp.broadcast_to(side, (*lead, *side.shape[-2:])) for side in (left, right))
        flat = [log_trials_product(a[(*at, ...)], b[(*at, ...)], trials, rho) for at in np.ndindex(lead)]
        return xp.reshape(xp.stack(flat, axis=0), (*lead, *flat[0].shape))
    same = is_numpy_array(left) and is_numpy_array(right) and np.array_equal(left, right)  # a symmetric tile
    out = []
    for i in range(left.shape[0]):
        keep = beside(left, np.flatnonzero(to_numpy(left[i, :]) > 0))
        own, others = xp.take(left[i, :], keep, axis=0), xp.take(right, keep, axis=1)
        out.append(_one_row(own, others[i if same else 0 :, :], trials, rho))
    if not same:
        return xp.stack(out, axis=0) if out else xp.zeros_like(left @ xp.matrix_transpose(right))
    value = np.empty((len(out), len(out)), dtype=left.dtype)
    for i, row in enumerate(out):
        value[i, i:] = value[i:, i] = row
    return value


def _one_row(own: Array, others: Array, trials: int, rho: float) -> Array:
    """Log products of one distribution over the k outcomes that it allows with others, ``(k,) x (J, k) -> (J,)``."""
    xp, power = namespace(own, others), 2 * rho
    roots = xp.sqrt(own) * xp.sqrt(others)
    both = xp.sum(roots, axis=-1)
    some = both > 0
    shares = roots / xp.where(some, both, xp.ones_like(both))[:, None]
    shares = xp.where(some[:, None], shares, xp.full_like(shares, 1 / max(own.shape[0], 1)))
    known = np.asarray(to_numpy(shares), dtype=float)
    order = np.argsort(-known.max(axis=0, initial=0.0), kind="stable")
    shares, known = xp.take(shares, beside(shares, order), axis=1), known[:, order]
    rates, size = _rates(known, trials, power)
    step, found = max(1, BLOCK // (TOGETHER * size)), []
    for begin in range(0, shares.shape[0], step):
        rate, at = shares[begin : begin + step, :], slice(begin, begin + step)
        whole = beside(rate, rates[at, None], rate.dtype)
        found.append(_log_coefficient(rate * whole, trials, power, size) - power * _prefactor(whole, trials))
    value = xp.concat(found) if found else both
    return xp.where(some, power * trials * xp.log(xp.where(some, both, xp.ones_like(both))) + value, -xp.inf)


def _prefactor(rate: Array, trials: int) -> Array:
    n = namespace(rate).full_like(rate, float(trials))
    return log_term(n, rate)[..., 0]


def _rates(shares: Floats, trials: int, power: float) -> tuple[Floats, int]:
    """Return the sum of the rates of every pair, and the number of frequencies."""
    logs, totals, means, variances = _tilted(power, float(4 * trials + 64))
    with np.errstate(divide="ignore"):
        log_shares = np.log(shares)
    shift = np.full(len(shares), np.log(trials))
    for _ in range(8):
        at = log_shares + shift[:, None]
        mean, variance = (np.interp(at, logs, table).sum(axis=-1) for table in (means, variances))
        shift = np.clip(
            shift + np.clip((np.log(trials) - np.log(mean)) * mean / (power * variance), -5, 5), None, logs[-1]
        )
    at = log_shares + shift[:, None]
    variance, level = np.interp(at, logs, variances).sum(axis=-1), np.interp(at, logs, totals).sum(axis=-1)
    around = np.full((2, len(shares)), np.inf)
    for k, (sign, factor) in enumerate((sign, factor) for sign in (1, -1) for factor in (0.3, 0.5, 1.0, 2.0)):
        tilt = factor * np.sqrt(2 * LOST / (variance + 1))  # Chernoff's bound on what is this far away
        rise = np.interp(at + sign * (tilt / power)[:, None], logs, totals).sum(axis=-1) - level - sign * tilt * trials
        around[k // 4] = np.minimum(around[k // 4], (rise + LOST) / tilt)
    widest = 2 * steps_around(float(np.exp(at.max(initial=0.0))), power / 2).stop
    size = int(max(around.max(initial=1), widest))
    return np.exp(shift), -(-size // 16) * 16


def _log_coefficient(rates: Array, trials: int, power: float, size: int) -> Array:
    """Log of the sum, over counts of a given total, of the products of Poisson(n; rate)^power, ``(P, k) -> (P,)``."""
    xp = namespace(rates)
    wave = level = begin = None
    for d in range(0, rates.shape[-1], TOGETHER):
        rate = rates[:, d : d + TOGETHER]
        widest = float(to_numpy(xp.max(rate)))
        reach = steps_around(widest, power / 2).stop
        first = xp.clip(xp.floor(rate) - reach, 0.0, None)
        width = min(2 * reach + 1, int(widest) + reach + 1)
        n = first[..., None] + xp.arange(width, dtype=rates.dtype, device=rates.device)
        mass = power * _log_poisson(n, rate[..., None])
        top = xp.max(mass, axis=-1, keepdims=True)
        mass = xp.exp(mass - top)
        sums = xp.sum(mass, axis=-1, keepdims=True)
        waves = xp.fft.rfft(mass / sums, n=size, axis=-1)
        logs = xp.sum(top + xp.log(sums), axis=(-1, -2))
        for k in range(waves.shape[1]):
            wave = waves[:, k, :] if wave is None else wave * waves[:, k, :]
        level = logs if level is None else level + logs
        begin = xp.sum(first, axis=-1) if begin is None else begin + xp.sum(first, axis=-1)
    around = xp.fft.irfft(wave, n=size, axis=-1)
    at = (trials - np.asarray(to_numpy(begin), dtype=float)) % size
    index = beside(rates, np.asarray(at, dtype=np.int64))[:, None]
    return safe_log(xp.take_along_axis(around, index, axis=-1)[:, 0]) + level


def _log_poisson(n: Array, rate: Array) -> Array:
    """Log probability of a count, without cancellation: n (log(1 + g) - g) - remainder, g = (rate - n) / n."""
    xp = namespace(n, rate)
    none = n == 0
    count = xp.where(none, xp.ones_like(n), n)
    gap = (rate - count) / count
    near = gap > -0.5
    at = np.asarray(to_numpy(count), dtype=np.int64)
    rest, logs = (beside(n, table[at], n.dtype) for table in _remainders(int(at.max(initial=1))))
    value = xp.where(near, xp.log1p(xp.where(near, gap, xp.zeros_like(gap))) - gap, safe_log(rate) - logs - gap)
    return xp.where(none, xp.zeros_like(n) - rate, count * value - rest)


@functools.lru_cache(maxsize=4)
def _stirling(top: int) -> tuple[Floats, Floats]:
    n = np.arange(1.0, top + 1)
    square = n * n
    series = 0.5 * np.log(2 * np.pi * n) + (1 / 12 - (1 / 360 - (1 / 1260 - 1 / (1680 * square)) / square) / square) / n
    small = n[:16]
    series[:16] = gammaln(small + 1) - small * np.log(small) + small
    return np.append(0.0, series), np.append(0.0, np.log(n))


def _remainders(top: int) -> tuple[Floats, Floats]:
    """Return log n! - n log n + n, by Stirling's series from 16 on, and log n, for 0, .., top or further."""
    return _stirling(1 << max(6, int(top).bit_length()))
