"""Forward and backward recursions of pair HMMs with affine gaps in numbers of unlimited range (MK-5b, MK-5d).

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
    local: bool
    """Whether alignments are local, with flanks; if not, the next two are zero."""
    flank_open: float
    flank_extend: float


@compiled(contract=True)
def _weights(joint: Floats, insertion: Floats, rates: Floats) -> _Weights:  # pragma: no cover - compiled
    """Convert a model to such numbers; ``joint`` and ``insertion`` have one row per code.

    ``rates``: open, extend, continuation, and if alignments are local, open and extend of flanks.
    """
    match, match_k = split(joint)
    letter, letter_k = split(insertion)
    o, e, c = rates[0], rates[1], rates[2]
    local = len(rates) > 3
    cv, ck = tidy(c, 0)
    ov, ok = tidy(o, 0)
    ev, ek = tidy(e, 0)
    for a in range(len(match)):
        for b in range(len(match)):
            match[a, b], match_k[a, b] = times(match[a, b], match_k[a, b], cv, ck)
    return _Weights(
        match, match_k, letter, letter_k, ov, ok, ev, ek, 1.0 - o, 1.0 - e, 1.0 - c, local,
        rates[3] if local else 0.0, rates[4] if local else 0.0,
    )  # fmt: skip


class _Flanks(NamedTuple):
    """Weights of the letters of one sequence before its first match, and after its last one; empty if global."""

    before: Floats
    """Of the first i letters."""
    before_k: Any
    after: Floats
    """Of all but the first i letters."""
    after_k: Any


@compiled(contract=True)
def _flanks(s: Any, w: _Weights) -> _Flanks:  # pragma: no cover - compiled
    n = len(s)
    size = n + 1 if w.local else 0
    before, before_k = np.empty(size), np.empty(size, np.int64)
    after, after_k = np.empty(size), np.empty(size, np.int64)
    if w.local:
        leave = 1.0 - w.flank_extend
        open_v, open_k = tidy(w.flank_open, 0)
        extend_v, extend_k = tidy(w.flank_extend, 0)
        before[0], before_k[0] = 1.0 - w.flank_open, 0
        after[n], after_k[n] = 1.0 - w.flank_open, 0
        a, ka, b, kb = open_v, open_k, open_v, open_k
        for i in range(n):
            first, last = s[i], s[n - 1 - i]
            a, ka = times(a, ka, w.letter[first], w.letter_k[first])
            b, kb = times(b, kb, w.letter[last], w.letter_k[last])
            before[i + 1], before_k[i + 1] = tidy(leave * a, ka)
            after[n - 1 - i], after_k[n - 1 - i] = tidy(leave * b, kb)
            a, ka = times(a, ka, extend_v, extend_k)
            b, kb = times(b, kb, extend_v, extend_k)
    return _Flanks(before, before_k, after, after_k)


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
def _forward(
    s: Any, t: Any, w: _Weights, fs: _Flanks, ft: _Flanks, v: Floats, k: Any
) -> tuple[float, int]:  # pragma: no cover - compiled
    """Compute values ``v`` and exponents ``k``: match or start, run of s, run of t; return kappa.

    They have shape (3, n + 1, m + 1), or (3, 2, m + 1) if only the last two rows are needed. Local alignments begin at
    any match, after flanks ``fs`` and ``ft``, and end with any.
    """
    n, m, depth = len(s), len(t), v.shape[1]
    total, exponent = 0.0, NEVER
    if w.local:
        total, exponent = times(fs.before[n], fs.before_k[n], ft.before[m], ft.before_k[m])
    for i in range(n + 1):
        here, above = i % depth, (i - 1) % depth
        for j in range(m + 1):
            v[0, here, j], k[0, here, j] = (0.0, NEVER)
            if i == 0 and j == 0 and not w.local:
                v[0, here, j], k[0, here, j] = 1.0, 0
            v[1, here, j], k[1, here, j] = 0.0, NEVER
            v[2, here, j], k[2, here, j] = 0.0, NEVER
            if i > 0 and j > 0:
                a, ka = _before_match(v, k, above, j - 1, w)
                p, q = s[i - 1], t[j - 1]
                if w.local:
                    b, kb = times(fs.before[i - 1], fs.before_k[i - 1], ft.before[j - 1], ft.before_k[j - 1])
                    a, ka = plus(a, ka, b, kb)
                v[0, here, j], k[0, here, j] = times(a, ka, w.match[p, q], w.match_k[p, q])
                if w.local:
                    b, kb = times(fs.after[i], fs.after_k[i], ft.after[j], ft.after_k[j])
                    b, kb = times(b, kb, v[0, here, j], k[0, here, j])
                    total, exponent = plus(total, exponent, b, kb)
                    total, exponent = tidy(total, exponent)
            if i > 0:
                v[1, here, j], k[1, here, j] = _run(
                    v[0, above, j], k[0, above, j], v[1, above, j], k[1, above, j], s[i - 1], w
                )
            if j > 0:
                a, ka = plus(
                    w.stay * v[0, here, j - 1], k[0, here, j - 1], w.leave * v[1, here, j - 1], k[1, here, j - 1]
                )
                v[2, here, j], k[2, here, j] = _run(a, ka, v[2, here, j - 1], k[2, here, j - 1], t[j - 1], w)
    if not w.local:
        total, exponent = _before_match(v, k, n % depth, m, w)
    return tidy(w.end * total, exponent)


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
    joint: Floats, insertion: Floats, rates: Floats, out: Floats,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Write log kappa of the pairs (rows[p], columns[p]), given codes and offsets of both sides; -inf if impossible."""
    w = _weights(joint, insertion, rates)
    for p in range(len(rows)):
        s = left[left_offsets[rows[p]] : left_offsets[rows[p] + 1]]
        t = right[right_offsets[columns[p]] : right_offsets[columns[p] + 1]]
        if rates[0] == 0.0 and not w.local:
            total, exponent = _matches_only(s, t, w)
        else:
            v, k = np.empty((3, 2, len(t) + 1)), np.empty((3, 2, len(t) + 1), dtype=EXPONENTS)
            total, exponent = _forward(s, t, w, _flanks(s, w), _flanks(t, w), v, k)
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
    s: Any, t: Any, w: _Weights, fs: _Flanks, ft: _Flanks, v: Floats, k: Any, total: float, exponent: int,
    matched: Floats, letters: Floats, runs: Floats, probability: Floats,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Add the expected counts given both sequences, after `_forward` has computed all rows."""
    n, m = len(s), len(t)
    keep = probability.size > 0
    inverse = 1.0 / total
    # Probabilities that the flank before the first match has i letters, and that the one after the last follows i.
    head_s, tail_s, head_t, tail_t = np.zeros(n + 1), np.zeros(n + 1), np.zeros(m + 1), np.zeros(m + 1)
    b, kb = np.zeros((2, 3, m + 2)), np.full((2, 3, m + 2), NEVER)
    for i in range(n, -1, -1):
        here, below = i % 2, (i + 1) % 2
        for j in range(m, -1, -1):
            # The next event: a match or the end; a letter of s or of t, the first of a run or another one.
            a, ka, x, kx, y, ky = 0.0, NEVER, 0.0, NEVER, 0.0, NEVER
            if i == n and j == m and not w.local:
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
            if w.local:
                end, k_end = times(fs.after[i], fs.after_k[i], ft.after[j], ft.after_k[j])
                b[here, 0, j], kb[here, 0, j] = plus(b[here, 0, j], kb[here, 0, j], w.end * end, k_end)
                chance = _share(v[0, i, j], k[0, i, j], w.end * end, k_end, inverse, exponent)
                tail_s[i] += chance
                tail_t[j] += chance
                begin, k_begin = times(fs.before[i], fs.before_k[i], ft.before[j], ft.before_k[j])
                chance = _share(begin, k_begin, a, ka, inverse, exponent)
                head_s[i] += chance
                head_t[j] += chance

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
    if w.local:
        begin, k_begin = times(fs.before[n], fs.before_k[n], ft.before[m], ft.before_k[m])
        unmatched = _share(begin, k_begin, w.end, 0, inverse, exponent)
        head_s[n] += unmatched
        head_t[m] += unmatched
        runs[4] += unmatched
        _count_flanks(s, head_s, tail_s, letters, runs)
        _count_flanks(t, head_t, tail_t, letters, runs)


@compiled(contract=True)
def _count_flanks(
    s: Any, first: Floats, last: Floats, letters: Floats, runs: Floats
) -> None:  # pragma: no cover - compiled
    """Add the expected counts of the flanks of one sequence, given the probabilities of their lengths."""
    n = len(s)
    inside = 0.0
    for i in range(n - 1, -1, -1):  # letter i is in the flank if that has more than i letters
        inside += first[i + 1]
        letters[s[i]] += inside
        runs[3] += inside
    runs[2] += inside
    runs[3] -= inside
    inside = 0.0
    for i in range(n):
        inside += last[i]
        letters[s[i]] += inside
        runs[3] += inside
    runs[2] += inside
    runs[3] -= inside


@compiled(contract=True)
def pair_expected(
    s: Any, t: Any, joint: Floats, insertion: Floats, rates: Floats, matched: Floats, letters: Floats,
    runs: Floats, probability: Floats,
) -> float:  # fmt: skip  # pragma: no cover - compiled
    """Return log kappa of two sequences of codes, and add the expected counts given both, unless it is -inf.

    ``joint`` and ``insertion`` have one row per code; ambiguity codes sum over their symbols. ``matched`` (codes x
    codes): matches; ``letters`` (codes): inserted letters; ``runs`` (5): opened and extended runs, opened and extended
    flanks, and the probability of no match (the last three of local alignments only); ``probability (n, m)``: of every
    match, or empty to skip it.
    """
    w = _weights(joint, insertion, rates)
    fs, ft = _flanks(s, w), _flanks(t, w)
    shape = (3, len(s) + 1, len(t) + 1)
    v, k = np.empty(shape), np.empty(shape, dtype=EXPONENTS)
    total, exponent = _forward(s, t, w, fs, ft, v, k)
    if total == 0.0:
        return -np.inf
    _backward(s, t, w, fs, ft, v, k, total, exponent, matched, letters, runs, probability)
    return np.log(total) + exponent * LOG_RADIX


@compiled(contract=True)
def pairs_expected(
    values: Any, offsets: Any, first: Any, second: Any, joint: Floats, insertion: Floats, rates: Floats,
    matched: Floats, letters: Floats, runs: Floats, log_kernel: Floats,
) -> None:  # fmt: skip  # pragma: no cover - compiled
    """Do the same for pairs of sequences; each has a row of ``matched``, ``letters`` and ``runs``."""
    nothing = np.empty((0, 0))
    for p in range(len(first)):
        s = values[offsets[first[p]] : offsets[first[p] + 1]]
        t = values[offsets[second[p]] : offsets[second[p] + 1]]
        log_kernel[p] = pair_expected(s, t, joint, insertion, rates, matched[p], letters[p], runs[p], nothing)
