"""Recursions over the contexts of Markov chains: pairs of chains, and uncertain symbols.

Contexts are integers: the last ``order`` symbols as digits, the oldest first. After the symbol s, the context c
becomes ``(c * k + s) % C`` with ``C = k ** order``.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

from mercer.compiled.code import compiled
from mercer.compiled.copies import copy_to
from mercer.compiled.machine import MACHINE

Vector: TypeAlias = np.ndarray[Any, Any]


LANES = 2 * MACHINE.width
"""Number of pairs that are computed in SIMD lanes."""
DROPPED = 1e-200
"""If less than this share of the mass is left, terms lost by underflow may matter."""
SMALL = 1e-290
"""Numbers below this may underflow soon."""


@compiled
def couple_pairs(
    first: Vector,
    step: Vector,
    stop: Vector,
    floor: Vector,
    other_first: Vector,
    other_step: Vector,
    other_stop: Vector,
    other_floor: Vector,
    wanted: Vector,
    out: Vector,
) -> None:
    """Fill ``out (H, I, J)`` with the log kernels of every pair of powered chains, `LANES` columns in SIMD lanes.

    A kernel is the log of v M^(L - order) stop (PPK-4.2a); NaN where precision was lost.

    Parameters
    ----------
    first, step, stop, floor : ndarray of shape (I, C), (I, C, k), (I, C) and (I,)
        Powered probabilities of the left side, and the smallest positive entry of every ``step``.
    other_first, other_step, other_stop, other_floor : ndarray of shape (C, J), (C, k, J), (C, J) and (J,)
        The same for the right side, with the chains last; J is a multiple of `LANES`.
    wanted : ndarray of int of shape (H,)
        Numbers of steps L - order, ascending.
    """
    n_contexts, k = step.shape[1], step.shape[2]
    stride = 1 if n_contexts > 1 else 0
    now, after = np.empty((n_contexts, LANES)), np.empty((n_contexts, LANES))
    total, low, scale, log_scale = np.empty(LANES), np.empty(LANES), np.empty(LANES), np.empty(LANES)
    lossy = np.empty(LANES, np.bool_)
    for i in range(first.shape[0]):
        for j in range(0, other_first.shape[1], LANES):
            log_scale[:] = 0.0
            lossy[:] = False
            for c in range(n_contexts):
                for a in range(LANES):
                    now[c, a] = first[i, c] * other_first[c, j + a]
            done = 0
            for h in range(wanted.size):
                while done < wanted[h]:
                    total[:] = 0.0
                    low[:] = math.inf
                    for c in range(n_contexts):
                        for a in range(LANES):
                            x = now[c, a]
                            total[a] += x
                            low[a] = min(low[a], x if x > 0.0 else math.inf)
                    for a in range(LANES):
                        if total[a] < DROPPED and lossy[a]:
                            log_scale[a] = math.nan
                        scale[a] = 0.0
                        if total[a] > 0.0:
                            scale[a] = 1.0 / total[a]
                            log_scale[a] += math.log(total[a])
                            lossy[a] |= low[a] * scale[a] * (floor[i] * other_floor[j + a]) < SMALL
                    after[:] = 0.0
                    target = 0
                    for c in range(n_contexts):
                        for a in range(LANES):
                            now[c, a] *= scale[a]
                        for s in range(k):
                            weight = step[i, c, s]
                            if weight > 0.0:
                                at = target + s * stride
                                for a in range(LANES):
                                    after[at, a] += now[c, a] * (weight * other_step[c, s, j + a])
                        target += k * stride
                        if target == n_contexts:
                            target = 0
                    now, after = after, now
                    done += 1
                total[:] = 0.0
                for c in range(n_contexts):
                    for a in range(LANES):
                        total[a] += now[c, a] * (stop[i, c] * other_stop[c, j + a])
                for a in range(LANES):
                    if total[a] < DROPPED and lossy[a]:
                        log_scale[a] = math.nan
                    out[h, i, j + a] = (math.log(total[a]) if total[a] > 0.0 else -math.inf) + log_scale[a]


@compiled
def _prefixes(codes: Vector, members: Vector, k: int, found: Vector, spare: Vector) -> int:
    """Write all readings of a few codes as integers to ``found``; return their number."""
    found[0] = 0
    count = 1
    for code in codes:
        grown = 0
        for i in range(count):
            for s in range(k):
                if members[code, s]:
                    spare[grown] = found[i] * k + s
                    grown += 1
        for i in range(grown):
            found[i] = spare[i]
        count = grown
    return count


@compiled
def _short(initial: Vector, readings: Vector, length: int, order: int, k: int, end: bool) -> float:
    """Sum the probability of all readings of a sequence shorter than the order."""
    total = 0.0
    if end:
        base = k**order
        for j in range(length):
            base += k**j
        for u in readings:
            total += initial[base + u]
        return total
    width = k ** (order - length)
    for u in readings:
        for c in range(u * width, (u + 1) * width):
            total += initial[c]
    return total


@compiled(inline=True)
def _advance(
    context: Vector,
    weight: Vector,
    slots: Vector,
    rows: Vector,
    readings: Vector,
    where: Vector,
    reached: Vector,
    after: Vector,
) -> tuple[int, float]:
    """Read one symbol: move the weights of contexts to the contexts that follow, scaled to sum 1.

    Parameters
    ----------
    context, weight : ndarray of shape (n,)
        The contexts that are possible, and their weights.
    readings : ndarray of bool of shape (k,)
        The symbols that the code stands for.
    where : ndarray of int of shape (C,)
        Work array that is -1 everywhere, before and after.
    reached, after : ndarray
        Overwritten by the contexts that follow and their weights, in the order in which they are reached.

    Returns
    -------
    tuple of int and float
        The number of contexts that follow, and the sum of their weights before scaling.
    """
    k = readings.size
    count, total = 0, 0.0
    for i in range(context.size):
        row = rows[slots[context[i]]]
        for s in range(k):
            x = weight[i] * row[s]
            if readings[s] and x > 0.0:
                target = (context[i] * k + s) % where.size
                if where[target] < 0:
                    where[target] = count
                    reached[count] = target
                    after[count] = 0.0
                    count += 1
                after[where[target]] += x
                total += x
    for i in range(count):
        where[reached[i]] = -1
        after[i] /= total
    return count, total


@compiled
def forward(
    initial: Vector,
    slots: Vector,
    rows: Vector,
    order: int,
    k: int,
    end: bool,
    codes: Vector,
    offsets: Vector,
    members: Vector,
    out: Vector,
) -> None:
    """Log probability of sequences with uncertain symbols under one chain: a sum over all possible contexts.

    Parameters
    ----------
    initial : ndarray of shape (H,)
        Distribution of the first ``order`` symbols, followed by that of shorter sequences if there is an end state.
    slots : ndarray of int of shape (C,)
        Row of every context in ``rows``, ``(R, w)``.
    members : ndarray of bool of shape (n_codes, k)
        The symbols that every code stands for.
    """
    n_contexts = k**order
    live, spare = np.empty(n_contexts, np.int64), np.empty(n_contexts, np.int64)
    now, after = np.empty(n_contexts), np.empty(n_contexts)
    where = np.full(n_contexts, -1, np.int64)
    for m in range(offsets.size - 1):
        start, stop = offsets[m], offsets[m + 1]
        head = min(start + order, stop)
        count = _prefixes(codes[start:head], members, k, live, spare)
        if stop - start < order:
            total = _short(initial, live[:count], stop - start, order, k, end)
            out[m] = math.log(total) if total > 0.0 else -math.inf
            continue
        for i in range(count):
            now[i] = initial[live[i]]
        value = 0.0
        for t in range(head, stop):
            count, total = _advance(live[:count], now[:count], slots, rows, members[codes[t]], where, spare, after)
            value += math.log(total) if total > 0.0 else -math.inf
            live, spare = spare, live
            now, after = after, now
        total = 0.0
        for i in range(count):
            total += now[i] * (rows[slots[live[i]], k] if end else 1.0)
        out[m] = value + math.log(total) if total > 0.0 else -math.inf


@compiled
def _grown(x: Vector, size: int) -> Vector:
    larger = np.empty(max(size, 2 * x.size), x.dtype)
    copy_to(larger, x)
    return larger


@compiled
def expected_windows(
    initial: Vector,
    slots: Vector,
    rows: Vector,
    order: int,
    k: int,
    end: bool,
    codes: Vector,
    offsets: Vector,
    members: Vector,
) -> tuple[Vector, Vector, Vector]:
    """Compute the expected numbers of windows (context, symbol) in sequences with uncertain symbols.

    Parameters are those of `forward`. Returns the sequence, the window ``context * w + symbol`` and the expected number
    of every edge between two layers of contexts; windows may occur twice. Impossible sequences have no windows.
    """
    n_contexts, width = k**order, rows.shape[1]
    owner, window, number = np.empty(64, np.int64), np.empty(64, np.int64), np.empty(64)
    found = 0
    where = np.full(n_contexts, -1, np.int64)
    context, alpha = np.empty(max(64, n_contexts), np.int64), np.empty(max(64, n_contexts))
    for m in range(offsets.size - 1):
        start, stop = offsets[m], offsets[m + 1]
        if stop - start < order:
            continue
        layers = np.zeros(stop - start - order + 2, np.int64)
        spare = np.empty(n_contexts, np.int64)
        count = _prefixes(codes[start : start + order], members, k, context, spare)
        for i in range(count):
            alpha[i] = initial[context[i]]
        layers[1] = count
        for t in range(start + order, stop):  # forward; every layer is scaled to sum 1
            layer = t - start - order
            begin, close = layers[layer], layers[layer + 1]
            size = close + (close - begin) * k
            if close + n_contexts > context.size and size > context.size:
                context, alpha = _grown(context, size), _grown(alpha, size)
            live, now = context[begin:close], alpha[begin:close]
            grown, _ = _advance(live, now, slots, rows, members[codes[t]], where, context[close:], alpha[close:])
            layers[layer + 2] = close + grown
        n_layers = layers.size - 1
        top = layers[n_layers]
        beta = np.zeros(top)
        total = 0.0
        for i in range(layers[n_layers - 1], top):
            beta[i] = rows[slots[context[i]], k] if end else 1.0
            total += alpha[i] * beta[i]
        if not total > 0.0:
            continue
        for i in range(layers[n_layers - 1], top):
            beta[i] /= total
            if end:
                if found == owner.size:
                    owner, window, number = _grown(owner, 0), _grown(window, 0), _grown(number, 0)
                owner[found], window[found] = m, context[i] * width + k
                number[found] = alpha[i] * beta[i]
                found += 1
        for layer in range(n_layers - 2, -1, -1):
            t = start + order + layer
            for i in range(layers[layer + 1], layers[layer + 2]):
                where[context[i]] = i
            total = 0.0
            for i in range(layers[layer], layers[layer + 1]):
                row = rows[slots[context[i]]]
                for s in range(k):
                    target = where[(context[i] * k + s) % n_contexts]
                    if members[codes[t], s] and target >= 0:
                        beta[i] += row[s] * beta[target]
                total += alpha[i] * beta[i]
            for i in range(layers[layer], layers[layer + 1]):
                row = rows[slots[context[i]]]
                for s in range(k):
                    target = where[(context[i] * k + s) % n_contexts]
                    if members[codes[t], s] and target >= 0:
                        if found == owner.size:
                            owner, window, number = _grown(owner, 0), _grown(window, 0), _grown(number, 0)
                        owner[found], window[found] = m, context[i] * width + s
                        number[found] = alpha[i] * row[s] * beta[target] / total
                        found += 1
                beta[i] /= total
            for i in range(layers[layer + 1], layers[layer + 2]):
                where[context[i]] = -1
    return owner[:found], window[:found], number[:found]
