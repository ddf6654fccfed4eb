"""Numba: forward and backward through pair HMMs with affine gaps (MK-5b), of two sequences and of one.

Values of two sequences leave the range of floats in any direction: off the diagonal they fall by a gap, along it by a
match. So every value, and every probability, has an exponent of its own (`wide_numbers`).
"""

from __future__ import annotations

import numpy as np

from mercer._array import Floats
from mercer.compiled.code import compiled
from mercer.compiled.ranged import INVERSE, LOG_RADIX, NEVER, RADIX, plus, split, tidy, times

__all__ = ["EXPONENTS", "LOG_RADIX", "pair_backward", "pair_forward", "pairs_expected", "single_expected"]

EXPONENTS = np.int32
"""Type of the exponents that are kept: thousands of tiny factors leave 16 bits."""


@compiled(contract=True)
def _share(a: float, ka: int, b: float, kb: int, inverse: float, k: int) -> float:  # pragma: no cover - compiled
    """Return a b / kappa, given 1 / kappa: a probability or not much more, so that the exponent left is 1 at most."""
    left = ka + kb - k
    if left < -1:
        return 0.0
    value = a * inverse * b
    if left == -1:
        return value * INVERSE
    return value * RADIX if left == 1 else value


@compiled(contract=True)
def _match_table(joint: Floats, c: float) -> tuple[Floats, Floats]:  # pragma: no cover - compiled
    """Return c J as numbers and exponents: their product may be below all floats."""
    v, k = split(joint)
    cv, ck = tidy(c, 0)
    for a in range(len(v)):
        for b in range(len(v)):
            v[a, b], k[a, b] = times(v[a, b], k[a, b], cv, ck)
    return v, k


@compiled(contract=True)
def _before_match(
    v: Floats, k: Floats, i: int, j: int, stay: float, leave: float
) -> tuple[float, int]:  # pragma: no cover - compiled
    """Weight of everything up to a cell after which a match, or the end, comes next."""
    a, ka = plus(stay * stay * v[0, i, j], k[0, i, j], leave * stay * v[1, i, j], k[1, i, j])
    return plus(a, ka, leave * v[2, i, j], k[2, i, j])


@compiled(contract=True)
def pair_forward(
    s: Floats, t: Floats, joint: Floats, insertion: Floats, o: float, e: float, c: float, v: Floats, k: Floats
) -> tuple[float, int]:  # pragma: no cover - compiled
    """Fill values ``v`` and exponents ``k``, ``(3, n + 1, m + 1)``: match or start, run of s, run of t; return kappa.

    ``joint`` and ``insertion`` have a row for every code, ambiguity codes summed over what they may be.
    """
    n, m = len(s), len(t)
    stay, leave = 1.0 - o, 1.0 - e  # 1e-16 at least, or 1
    match, match_k = _match_table(joint, c)
    letter, letter_k = split(insertion)
    ov, ok = tidy(o, 0)
    ev, ek = tidy(e, 0)
    for i in range(n + 1):
        for j in range(m + 1):
            v[0, i, j], k[0, i, j] = (1.0, 0) if i == 0 and j == 0 else (0.0, NEVER)
            v[1, i, j], k[1, i, j] = 0.0, NEVER
            v[2, i, j], k[2, i, j] = 0.0, NEVER
            if i > 0 and j > 0:
                a, ka = _before_match(v, k, i - 1, j - 1, stay, leave)
                p, q = s[i - 1], t[j - 1]
                v[0, i, j], k[0, i, j] = times(a, ka, match[p, q], match_k[p, q])
            if i > 0:
                a, ka = times(v[0, i - 1, j], k[0, i - 1, j], ov, ok)
                x, kx = times(v[1, i - 1, j], k[1, i - 1, j], ev, ek)
                a, ka = plus(a, ka, x, kx)
                v[1, i, j], k[1, i, j] = times(a, ka, letter[s[i - 1]], letter_k[s[i - 1]])
            if j > 0:
                a, ka = plus(stay * v[0, i, j - 1], k[0, i, j - 1], leave * v[1, i, j - 1], k[1, i, j - 1])
                a, ka = times(a, ka, ov, ok)
                y, ky = times(v[2, i, j - 1], k[2, i, j - 1], ev, ek)
                a, ka = plus(a, ka, y, ky)
                v[2, i, j], k[2, i, j] = times(a, ka, letter[t[j - 1]], letter_k[t[j - 1]])
    a, ka = _before_match(v, k, n, m, stay, leave)
    return tidy((1.0 - c) * a, ka)


@compiled(contract=True)
def pair_backward(
    s: Floats,
    t: Floats,
    joint: Floats,
    insertion: Floats,
    o: float,
    e: float,
    c: float,
    v: Floats,
    k: Floats,
    total: float,
    exponent: int,
    matched: Floats,
    letters: Floats,
    runs: Floats,
    probability: Floats,
) -> None:  # pragma: no cover - compiled
    """Add what is expected given both sequences, after `pair_forward`.

    ``matched`` (codes x codes): matches; ``letters`` (codes): inserted letters; ``runs`` (2): runs that were opened,
    and extended; ``probability (n, m)``: of every match, or of no shape to leave it out.
    """
    n, m = len(s), len(t)
    stay, leave = 1.0 - o, 1.0 - e
    match, match_k = _match_table(joint, c)
    letter, letter_k = split(insertion)
    ov, ok = tidy(o, 0)
    ev, ek = tidy(e, 0)
    keep = probability.size > 0
    inverse = 1.0 / total
    b, kb = np.zeros((2, 3, m + 2)), np.full((2, 3, m + 2), NEVER)
    for i in range(n, -1, -1):
        here, below = i % 2, (i + 1) % 2
        for j in range(m, -1, -1):
            # What follows: a match or the end; a letter of s or of t, the first of a run or a further one.
            a, ka, x, kx, y, ky = 0.0, NEVER, 0.0, NEVER, 0.0, NEVER
            if i == n and j == m:
                a, ka = 1.0 - c, 0
            if i < n and j < m:
                a, ka = times(b[below, 0, j + 1], kb[below, 0, j + 1], match[s[i], t[j]], match_k[s[i], t[j]])
            if i < n:
                x, kx = times(b[below, 1, j], kb[below, 1, j], letter[s[i]], letter_k[s[i]])
            if j < m:
                y, ky = times(b[here, 2, j + 1], kb[here, 2, j + 1], letter[t[j]], letter_k[t[j]])
            first_s, k_first_s = times(x, kx, ov, ok)
            more_s, k_more_s = times(x, kx, ev, ek)
            first_t, k_first_t = times(y, ky, ov, ok)
            more_t, k_more_t = times(y, ky, ev, ek)
            both, k_both = plus(stay * a, ka, first_t, k_first_t)  # a match or a run of t, after a run of s or none
            b[here, 0, j], kb[here, 0, j] = plus(stay * both, k_both, first_s, k_first_s)
            b[here, 1, j], kb[here, 1, j] = plus(leave * both, k_both, more_s, k_more_s)
            b[here, 2, j], kb[here, 2, j] = plus(leave * a, ka, more_t, k_more_t)

            if i > 0 and j > 0:
                p = _share(v[0, i, j], k[0, i, j], b[here, 0, j], kb[here, 0, j], inverse, exponent)
                matched[s[i - 1], t[j - 1]] += p
                if keep:
                    probability[i - 1, j - 1] = min(p, 1.0)
            if i > 0:
                letters[s[i - 1]] += _share(v[1, i, j], k[1, i, j], b[here, 1, j], kb[here, 1, j], inverse, exponent)
            if j > 0:
                letters[t[j - 1]] += _share(v[2, i, j], k[2, i, j], b[here, 2, j], kb[here, 2, j], inverse, exponent)
            runs[0] += _share(v[0, i, j], k[0, i, j], first_s, k_first_s, inverse, exponent)
            runs[0] += stay * _share(v[0, i, j], k[0, i, j], first_t, k_first_t, inverse, exponent)
            runs[0] += leave * _share(v[1, i, j], k[1, i, j], first_t, k_first_t, inverse, exponent)
            runs[1] += _share(v[1, i, j], k[1, i, j], more_s, k_more_s, inverse, exponent)
            runs[1] += _share(v[2, i, j], k[2, i, j], more_t, k_more_t, inverse, exponent)


@compiled(contract=True)
def pairs_expected(
    values: Floats,
    offsets: Floats,
    first: Floats,
    second: Floats,
    joint: Floats,
    insertion: Floats,
    o: float,
    e: float,
    c: float,
    matched: Floats,
    letters: Floats,
    runs: Floats,
    log_kernel: Floats,
) -> None:  # pragma: no cover - compiled
    """Add what is expected of pairs of sequences, row by row of ``matched``, ``letters`` and ``runs``."""
    nothing = np.empty((0, 0))
    for p in range(len(first)):
        s = values[offsets[first[p]] : offsets[first[p] + 1]]
        t = values[offsets[second[p]] : offsets[second[p] + 1]]
        v = np.empty((3, len(s) + 1, len(t) + 1))
        k = np.empty((3, len(s) + 1, len(t) + 1), dtype=EXPONENTS)
        total, exponent = pair_forward(s, t, joint, insertion, o, e, c, v, k)
        log_kernel[p] = np.log(total) + exponent * LOG_RADIX if total > 0.0 else -np.inf
        if total > 0.0:
            pair_backward(
                s, t, joint, insertion, o, e, c, v, k, total, exponent, matched[p], letters[p], runs[p], nothing
            )


@compiled(contract=True)
def single_expected(
    values: Floats,
    offsets: Floats,
    match: Floats,
    insertion: Floats,
    o: float,
    e: float,
    c: float,
    log_prob: Floats,
    events: Floats,
    matched: Floats,
    letters: Floats,
) -> None:  # pragma: no cover - compiled
    """Log probability of every sequence, and gradients of it in every parameter taken as a free weight.

    ``events (S, 3)``: in c, o and e; ``matched``, ``letters (S, codes)``: in the probability of a code as a match, and
    as an insertion. Times its parameter, each is an expected number. Of no rows: left out. The two states of a position
    come from the same two of the last, so that one scale for both is enough.
    """
    stay, leave = 1.0 - o, 1.0 - e
    keep = len(events) > 0
    for r in range(len(offsets) - 1):
        begin, length = offsets[r], offsets[r + 1] - offsets[r]
        forward, scale = np.zeros((length + 1, 2)), np.ones(length + 1)
        forward[0, 0], logs = 1.0, 0.0
        for i in range(1, length + 1):
            code = values[begin + i - 1]
            at, inside = forward[i - 1, 0], forward[i - 1, 1]
            a, x = c * match[code] * (stay * at + leave * inside), insertion[code] * (o * at + e * inside)
            size = a + x
            if size == 0.0:
                logs = -np.inf
                break
            forward[i, 0], forward[i, 1], scale[i] = a / size, x / size, size
            logs += np.log(size)
        end = (1.0 - c) * (stay * forward[length, 0] + leave * forward[length, 1])
        log_prob[r] = logs + np.log(end) if end > 0.0 and logs > -np.inf else -np.inf
        if not keep or log_prob[r] == -np.inf:
            continue
        # Backward values times forward ones sum to 1 at every position.
        b0, b1 = (1.0 - c) * stay / end, (1.0 - c) * leave / end
        for i in range(length, 0, -1):
            code = values[begin + i - 1]
            at, inside = forward[i - 1, 0], forward[i - 1, 1]
            mix = (stay * at + leave * inside) / scale[i] * b0
            run = b1 / scale[i]
            events[r, 0] += match[code] * mix
            matched[r, code] += c * mix
            events[r, 1] += insertion[code] * at * run
            events[r, 2] += insertion[code] * inside * run
            letters[r, code] += (o * at + e * inside) * run
            to_match, to_run = c * match[code] * b0 / scale[i], insertion[code] * run
            b0, b1 = stay * to_match + o * to_run, leave * to_match + e * to_run
