"""Coupled chains of few states and their derivatives: eight pairs side by side, as in `mercer.models._chains.lanes`.

`mercer.kernels._slopes.chains` imports this file when it needs it.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from mercer._array import Floats
from mercer.compiled.code import compiled, intrinsic
from mercer.compiled.lanes import LANES, Emitter, Value, aligned, operation
from mercer.models._chains.lanes import _factors, _lanes, _owned, _scale, _start, _total

__all__ = ["swept"]


@intrinsic(prefer_literal=True)
def _turned_step(
    typing: Any, n: Any, new: Any, turned: Any, phi: Any, before: Any, psi: Any, slope: Any, left: Any, bent: Any,
    i: Any, right: Any, bowed: Any, j: Any, m: Any, d: Any,
) -> Any:  # fmt: skip
    """Compute new[d] = psi[d] o (A^T (phi^T A'[d])), and its derivative, for one d.

    ``before`` is the derivative of phi, ``bent`` that of A, ``bowed`` that of A', ``slope`` that of log psi.
    """

    def emit(
        e: Emitter, n: int, new: Value, turned: Value, phi: Value, before: Value, psi: Value, slope: Value,
        left: Value, bent: Value, i: Value, right: Value, bowed: Value, j: Value, m: Value, d: Value,
    ) -> None:  # fmt: skip
        row = e.builder.add(j, e.builder.mul(e.builder.mul(d, m), e.constant(LANES)))

        def terms(c: Value) -> list[Value]:
            at = e.offset(row, c, LANES)
            weight, change = e.load(right, at), e.load(bowed, at)
            now = [e.load(phi, e.cell(c, n, a)) for a in range(n)]
            then = [e.load(before, e.cell(c, n, a)) for a in range(n)]
            return [e.multiply(weight, x) for x in now] + [
                e.add(e.multiply(weight, y), e.multiply(change, x)) for x, y in zip(now, then, strict=True)
            ]

        sums = e.loop_sums(2 * n, m, terms)
        values = e.products(sums[:n], left, i)
        first, second = e.products(sums[n:], left, i), e.products(sums[:n], bent, i)
        for a in range(n):
            at = e.cell(d, n, a)
            leaf = e.load(psi, at)
            value = e.multiply(values[a], leaf)
            change = e.multiply(e.add(first[a], second[a]), leaf)
            e.store(value, new, at)
            e.store(e.add(change, e.multiply(value, e.load(slope, at))), turned, at)

    return operation(n, (new, turned, phi, before, psi, slope, left, bent, i, right, bowed, j, m, d), emit)


@functools.cache
def _kernel(n: int) -> Any:
    """Compile the sweep for ``n`` states on the left side."""

    @compiled
    def sweep(
        initial_a: Floats, first_a: Floats, transition_a: Floats, bent: Floats,
        initial_b: Floats, first_b: Floats, transition_b: Floats, bowed: Floats,
        psi: Floats, slopes: Floats, m: int, length: int, block: int,
        work: Floats, value: Floats, turned: Floats, exponent: Floats,
    ) -> None:  # fmt: skip  # pragma: no cover - compiled
        size = n * m * LANES
        table, slope = work[:size], work[size : 2 * size]
        phi, then = work[2 * size : 3 * size], work[3 * size : 4 * size]
        other, next_ = work[4 * size : 5 * size], work[5 * size : 6 * size]
        rest = work[6 * size :]
        sums, factors, powers = rest[:LANES], rest[LANES : 2 * LANES], rest[2 * LANES : 3 * LANES]
        models, columns = value.shape
        for first in range(0, columns, LANES):
            group = first // LANES
            for i in range(models):
                for lane in range(LANES):
                    at = min(first + lane, columns - 1) * m
                    for a in range(n):
                        for b in range(m):
                            table[(b * n + a) * LANES + lane] = psi[i * n + a, at + b]
                            slope[(b * n + a) * LANES + lane] = slopes[i * n + a, at + b]
                here = group * m * LANES
                for b in range(m):
                    _start(n, phi, table, initial_a, i * n, initial_b, here, b)
                for b in range(m):
                    for a in range(n):
                        for lane in range(LANES):
                            cell = (b * n + a) * LANES + lane
                            log_weight = first_a[i * n + a] + first_b[here + b * LANES + lane]
                            then[cell] = phi[cell] * (slope[cell] + log_weight)
                powers[:] = 0.0
                for time in range(1, length):
                    if time % block == 0:
                        _total(n, sums, phi, m)
                        if _factors(sums, factors, powers):
                            for b in range(m):
                                _scale(n, phi, factors, b)
                                _scale(n, then, factors, b)
                    for d in range(m):
                        _turned_step(
                            n, other, next_, phi, then, table, slope, transition_a, bent, i * n * n, transition_b,
                            bowed, group * m * m * LANES, m, d,
                        )  # fmt: skip
                    phi, other = other, phi
                    then, next_ = next_, then
                _total(n, sums, phi, m)
                for lane in range(min(LANES, columns - first)):
                    value[i, first + lane] = sums[lane]
                    exponent[i, first + lane] = powers[lane]
                _total(n, sums, then, m)
                for lane in range(min(LANES, columns - first)):
                    turned[i, first + lane] = sums[lane]

    return sweep


def swept(
    left: tuple[Floats, Floats, Floats, Floats],
    right: tuple[Floats, Floats, Floats, Floats],
    psi: Floats,
    slopes: Floats,
    length: int,
    block: int,
) -> tuple[Floats, Floats]:
    """Return derivatives of log kernels, and log kernels, ``(I, J)``, NaN where numbers are lost.

    Parameters
    ----------
    left, right : four arrays
        Initial weights, derivatives of their logarithms, transition weights, and derivatives of these.
    psi, slopes : array of shape (I, n, J, m)
        Leaf kernels of maximum about one, and derivatives of their logarithms.
    length, block : int
        Numbers of steps, and of those between two looks at the sums.
    """
    i, n, j, m = psi.shape
    value, turned, exponent = (np.empty((i, j)) for _ in range(3))
    rows = [_owned(x).reshape(-1) for x in left]
    columns = [_lanes(x, axes) for x, axes in zip(right, ((1,), (1,), (2, 1), (2, 1)), strict=True)]
    _kernel(n)(
        *rows, *columns, _owned(psi.reshape(i * n, j * m)), _owned(slopes.reshape(i * n, j * m)), m, length, block,
        aligned((6 * n * m * LANES + 3 * LANES,)), value, turned, exponent,
    )  # fmt: skip
    return turned / value, np.log(value) + exponent * math.log(2)
