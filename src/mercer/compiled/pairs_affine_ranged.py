"""Forward and backward recursions of pair HMMs with affine gaps in numbers of unlimited range (MK-5b).

Values of two sequences can leave the range of float64 in any direction: they decrease by a gap off the diagonal, and by
a match along it. So every value and every probability has its own exponent (`mercer.compiled.ranged`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats
from mercer.compiled.code import compiled
from mercer.compiled.ranged import INVERSE, LOG_RADIX, NEVER, RADIX, plus, split, tidy, times

EXPONENTS = np.int32
"""Type of stored exponents: thousands of tiny factors do not fit 16 bits."""


class _Weights(NamedTuple):
    """A model; tables and probabilities that may be tiny have exponents."""

    match: Floats
    match_k: Any
    letter: Floats
    letter_k: Any
    open: float
    open_k: int
    extend: float
    extend_k: int
    stay: float
    """1 - open; like the next two it is 1e-16 at least, or 1."""
    leave: float
    """1 - extend."""
    end: float
    """1 - continuation."""


@compiled(contract=True)
def _weights(joint: Floats, insertion: Floats, o: float, e: float, c: float) -> _Weights:  # pragma: no cover - compiled
    """Convert a model to such numbers; ``joint`` and ``insertion`` have one row per code."""
    match, match_k = split(joint)
    letter, letter_k = split(insertion)
    cv, ck = tidy(c, 0)
    ov, ok = tidy(o, 0)
    ev, ek = tidy(e, 0)
    for a in range(len(match)):
        for b in range(len(match)):
            match[a, b], match_k[a, b] = times(match[a, b], match_k[a, b], cv, ck)
    return _Weights(match, match_k, letter, letter_k, ov, ok, ev, ek, 1.0 - o, 1.0 - e, 1.0 - c)


@compiled(contract=True)
def _before_match(v: Floats, k: Any, i: int, j: int, w: _Weights) -> tuple[float, int]:  # pragma: no cover - compiled
    """Return the weight of all paths to a cell that continue with a match or the end."""
    a, ka = plus(w.stay * w.stay * v[0, i, j], k[0, i, j], w.leave * w.stay * v[1, i, j], k[1, i, j])
    return plus(a, ka, w.leave * v[2, i, j], k[2, i, j])


@compiled(contract=True)
def _run(
    a: float, ka: int, b: float, kb: int, code: int, w: _Weights
) -> tuple[float, int]:  # pragma: no cover - compiled
    """Return the weight of one more inserted letter: the first of a run after ``a``, or another one after ``b``."""
    a, ka = times(a, ka, w.open, w.open_k)
    b, kb = times(b, kb, w.extend, w.extend_k)
    a, ka = plus(a, ka, b, kb)
    return times(a, ka, w.letter[code], w.letter_k[code])


@compiled(contract=True)
def _forward(s: Any, t: Any, w: _Weights, v: Floats, k: Any) -> tuple[float, int]:  # pragma: no cover - compiled
    """Compute values ``v`` and exponents ``k``: match or start, run of s, run of t; return kappa.

    They have shape (3, n + 1, m + 1), or (3, 2, m + 1) if only the last two rows are needed.
    """
    n, m, depth = len(s), len(t), v.shape[1]
    for i in range(n + 1):
        here, above = i % depth, (i - 1) % depth
        for j in range(m + 1):
            v[0, here, j], k[0, here, j] = (1.0, 0) if i == 0 and j == 0 else (0.0, NEVER)
            v[1, here, j], k[1, here, j] = 0.0, NEVER
            v[2, here, j], k[2, here, j] = 0.0, NEVER
            if i > 0 and j > 0:
                a, ka = _before_match(v, k, above, j - 1, w)
                p, q = s[i - 1], t[j - 1]
                v[0, here, j], k[0, here, j] = times(a, ka, w.match[p, q], w.match_k[p, q])
            if i > 0:
                v[1, here, j], k[1, here, j] = _run(
                    v[0, above, j], k[0, above, j], v[1, above, j], k[1, above, j], s[i - 1], w
                )
            if j > 0:
                a, ka = plus(
                    w.stay * v[0, here, j - 1], k[0, here, j - 1], w.leave * v[1, here, j - 1], k[1, here, j - 1]
                )
                v[2, here, j], k[2, here, j] = _run(a, ka, v[2, here, j - 1], k[2, here, j - 1], t[j - 1], w)
    a, ka = _before_match(v, k, n % depth, m, w)
    return tidy(w.end * a, ka)


@compiled(contract=True)
def _matches_only(s: Any, t: Any, w: _Weights) -> tuple[float, int]:  # pragma: no cover - compiled
    """Return kappa of a model without insertions, which matches letter i with letter i."""
    v, k = (1.0, 0) if len(s) == len(t) else (0.0, NEVER)
    for i in range(min(len(s), len(t))):
        v, k = times(v, k, w.match[s[i], t[i]], w.match_k[s[i], t[i]])
    return tidy(w.end * v, k)


@compiled
def ranged_kernels(
    left: Any, left_offsets: Any, right: Any, right_offsets: Any, rows: Any, columns: Any,
    joint: Floats, insertion: Floats, o: float, e: float, c: float, out: Floats,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Write log kappa of the pairs (rows[p], columns[p]), given codes and offsets of both sides; -inf if impossible."""
    w = _weights(joint, insertion, o, e, c)
    for p in range(len(rows)):
        s = left[left_offsets[rows[p]] : left_offsets[rows[p] + 1]]
        t = right[right_offsets[columns[p]] : right_offsets[columns[p] + 1]]
        if o == 0.0:
            total, exponent = _matches_only(s, t, w)
        else:
            v, k = np.empty((3, 2, len(t) + 1)), np.empty((3, 2, len(t) + 1), dtype=EXPONENTS)
            total, exponent = _forward(s, t, w, v, k)
        out[p] = np.log(total) + exponent * LOG_RADIX if total > 0.0 else -np.inf


@compiled(contract=True)
def _share(a: float, ka: int, b: float, kb: int, inverse: float, k: int) -> float:  # pragma: no cover - compiled
    """Return a b / kappa, given 1 / kappa: at most slightly above 1, so that the remaining exponent is at most 1."""
    left = ka + kb - k
    if left < -1:
        return 0.0
    value = a * inverse * b
    if left == -1:
        return value * INVERSE
    return value * RADIX if left == 1 else value


@compiled(contract=True)
def _backward(
    s: Any, t: Any, w: _Weights, v: Floats, k: Any, total: float, exponent: int, matched: Floats, letters: Floats,
    runs: Floats, probability: Floats,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Add the expected counts given both sequences, after `_forward` has computed all rows."""
    n, m = len(s), len(t)
    keep = probability.size > 0
    inverse = 1.0 / total
    b, kb = np.zeros((2, 3, m + 2)), np.full((2, 3, m + 2), NEVER)
    for i in range(n, -1, -1):
        here, below = i % 2, (i + 1) % 2
        for j in range(m, -1, -1):
            # The next event: a match or the end; a letter of s or of t, the first of a run or another one.
            a, ka, x, kx, y, ky = 0.0, NEVER, 0.0, NEVER, 0.0, NEVER
            if i == n and j == m:
                a, ka = w.end, 0
            if i < n and j < m:
                p, q = s[i], t[j]
                a, ka = times(b[below, 0, j + 1], kb[below, 0, j + 1], w.match[p, q], w.match_k[p, q])
            if i < n:
                x, kx = times(b[below, 1, j], kb[below, 1, j], w.letter[s[i]], w.letter_k[s[i]])
            if j < m:
                y, ky = times(b[here, 2, j + 1], kb[here, 2, j + 1], w.letter[t[j]], w.letter_k[t[j]])
            first_s, k_first_s = times(x, kx, w.open, w.open_k)
            more_s, k_more_s = times(x, kx, w.extend, w.extend_k)
            first_t, k_first_t = times(y, ky, w.open, w.open_k)
            more_t, k_more_t = times(y, ky, w.extend, w.extend_k)
            both, k_both = plus(
                w.stay * a, ka, first_t, k_first_t
            )  # a match or a run of t, after a run of s or directly
            b[here, 0, j], kb[here, 0, j] = plus(w.stay * both, k_both, first_s, k_first_s)
            b[here, 1, j], kb[here, 1, j] = plus(w.leave * both, k_both, more_s, k_more_s)
            b[here, 2, j], kb[here, 2, j] = plus(w.leave * a, ka, more_t, k_more_t)

            if i > 0 and j > 0:
                chance = _share(v[0, i, j], k[0, i, j], b[here, 0, j], kb[here, 0, j], inverse, exponent)
                matched[s[i - 1], t[j - 1]] += chance
                if keep:
                    probability[i - 1, j - 1] = min(chance, 1.0)
            if i > 0:
                letters[s[i - 1]] += _share(v[1, i, j], k[1, i, j], b[here, 1, j], kb[here, 1, j], inverse, exponent)
            if j > 0:
                letters[t[j - 1]] += _share(v[2, i, j], k[2, i, j], b[here, 2, j], kb[here, 2, j], inverse, exponent)
            runs[0] += _share(v[0, i, j], k[0, i, j], first_s, k_first_s, inverse, exponent)
            runs[0] += w.stay * _share(v[0, i, j], k[0, i, j], first_t, k_first_t, inverse, exponent)
            runs[0] += w.leave * _share(v[1, i, j], k[1, i, j], first_t, k_first_t, inverse, exponent)
            runs[1] += _share(v[1, i, j], k[1, i, j], more_s, k_more_s, inverse, exponent)
            runs[1] += _share(v[2, i, j], k[2, i, j], more_t, k_more_t, inverse, exponent)


@compiled(contract=True)
def pair_expected(
    s: Any, t: Any, joint: Floats, insertion: Floats, o: float, e: float, c: float, matched: Floats, letters: Floats,
    runs: Floats, probability: Floats,
) -> float:  # fmt: skip  # pragma: no cover - compiled
    """Return log kappa of two sequences of codes, and add the expected counts given both, unless it is -inf.

    ``joint`` and ``insertion`` have one row per code; ambiguity codes sum over their symbols. ``matched`` (codes x
    codes): matches; ``letters`` (codes): inserted letters; ``runs`` (2): opened and extended runs; ``probability
    (n, m)``: of every match, or empty to skip it.
    """
    w = _weights(joint, insertion, o, e, c)
    shape = (3, len(s) + 1, len(t) + 1)
    v, k = np.empty(shape), np.empty(shape, dtype=EXPONENTS)
    total, exponent = _forward(s, t, w, v, k)
    if total == 0.0:
        return -np.inf
    _backward(s, t, w, v, k, total, exponent, matched, letters, runs, probability)
    return np.log(total) + exponent * LOG_RADIX


@compiled(contract=True)
def pairs_expected(
    values: Any, offsets: Any, first: Any, second: Any, joint: Floats, insertion: Floats, o: float, e: float, c: float,
    matched: Floats, letters: Floats, runs: Floats, log_kernel: Floats,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Do the same for pairs of sequences; each has a row of ``matched``, ``letters`` and ``runs``."""
    nothing = np.empty((0, 0))
    for p in range(len(first)):
        s = values[offsets[first[p]] : offsets[first[p] + 1]]
        t = values[offsets[second[p]] : offsets[second[p] + 1]]
        log_kernel[p] = pair_expected(s, t, joint, insertion, o, e, c, matched[p], letters[p], runs[p], nothing)


@compiled(contract=True)
def single_expected(
    values: Any, offsets: Any, match: Floats, insertion: Floats, o: float, e: float, c: float, log_prob: Floats,
    events: Floats, matched: Floats, letters: Floats,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Compute the log probability of every sequence, and its gradients in every parameter as a free weight.

    ``events (S, 3)``: in c, o and e; ``matched``, ``letters (S, codes)``: in the probability of a code as a match, and
    as an insertion. Multiplied by its parameter, each is an expected count. Arrays without rows are skipped. The two
    states of a position depend on the same two of the previous one, so that one scale for both is enough.
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
        # Products of backward and forward values sum to 1 at every position.
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
