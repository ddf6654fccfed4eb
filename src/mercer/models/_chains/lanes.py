"""Coupled chains for models of few states: eight pairs side by side in vector lanes.

The matrix products of a small model are too small for BLAS. Here one model of the left side meets eight of
the right side at once, and every number of the recursion becomes a vector of eight, one lane per pair. A
compiler often keeps such loops scalar because it cannot know that two buffers do not overlap; so the
innermost operations are written as vector instructions, and the loops around them are plain Numba.

Only the number of states of the left side is a compile-time constant (about a second of compilation, kept
on disk); that of the right side is a loop bound. `mercer.models._chains.coupled` imports this file when it needs it.
"""

from __future__ import annotations

import functools
import math
from typing import Any, TypeAlias

import numpy as np

from mercer.compiled.code import compiled, intrinsic
from mercer.compiled.lanes import LANES, Emitter, Value, aligned, operation

__all__ = ["small_categorical_chains", "small_chains"]

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
_SMALLEST = math.sqrt(np.finfo(np.float64).tiny)
_LARGEST = 1e300
_CALM = 1e50  # sums between 1 / _CALM and _CALM are left as they are


# In what follows n, the number of states on the left, is a literal, and tables of pairs lie as [b][a][lane].
# These operations stand at module level because the key of a compiled function on disk includes its closure.


@intrinsic(prefer_literal=True)
def _leaf(typing: Any, n: Any, psi: Any, left: Any, i: Any, right: Any, j: Any, k: Any, b: Any) -> Any:
    """Compute psi[b, a] = sum over s of left[i, s, a] right[j, b, s], for one b."""

    def emit(e: Emitter, n: int, psi: Value, left: Value, i: Value, right: Value, j: Value, k: Value, b: Value) -> None:
        row = e.builder.add(j, e.builder.mul(e.builder.mul(b, k), e.constant(LANES)))

        def terms(s: Value) -> list[Value]:
            weight = e.load(right, e.offset(row, s, LANES))
            return [e.multiply(weight, e.spread(left, e.offset(i, s, n, a))) for a in range(n)]

        for a, value in enumerate(e.loop_sums(n, k, terms)):
            e.store(value, psi, e.cell(b, n, a))

    return operation(n, (psi, left, i, right, j, k, b), emit)


@intrinsic(prefer_literal=True)
def _start(typing: Any, n: Any, phi: Any, psi: Any, left: Any, i: Any, right: Any, j: Any, b: Any) -> Any:
    """Compute phi[b, a] = psi[b, a] left[i, a] right[j, b], for one b."""

    def emit(
        e: Emitter, n: int, phi: Value, psi: Value, left: Value, i: Value, right: Value, j: Value, b: Value
    ) -> None:
        weight = e.load(right, e.offset(j, b, LANES))
        for a in range(n):
            both = e.multiply(weight, e.spread(left, e.builder.add(i, e.constant(a))))
            e.store(e.multiply(both, e.load(psi, e.cell(b, n, a))), phi, e.cell(b, n, a))

    return operation(n, (phi, psi, left, i, right, j, b), emit)


@intrinsic(prefer_literal=True)
def _step(
    typing: Any, n: Any, new: Any, phi: Any, psi: Any, left: Any, i: Any, right: Any, j: Any, m: Any, d: Any
) -> Any:
    """Compute new[d] = psi[d] o (left[i]^T (phi^T right[j, d])), for one d."""

    def emit(
        e: Emitter,
        n: int,
        new: Value,
        phi: Value,
        psi: Value,
        left: Value,
        i: Value,
        right: Value,
        j: Value,
        m: Value,
        d: Value,
    ) -> None:
        row = e.builder.add(j, e.builder.mul(e.builder.mul(d, m), e.constant(LANES)))

        def terms(c: Value) -> list[Value]:
            weight = e.load(right, e.offset(row, c, LANES))
            return [e.multiply(weight, e.load(phi, e.cell(c, n, a))) for a in range(n)]

        for a, value in enumerate(e.products(e.loop_sums(n, m, terms), left, i)):
            e.store(e.multiply(value, e.load(psi, e.cell(d, n, a))), new, e.cell(d, n, a))

    return operation(n, (new, phi, psi, left, i, right, j, m, d), emit)


@intrinsic(prefer_literal=True)
def _total(typing: Any, n: Any, sums: Any, phi: Any, m: Any) -> Any:
    """Compute sums = sum over a and b of phi[b, a]."""

    def emit(e: Emitter, n: int, sums: Value, phi: Value, m: Value) -> None:
        columns = e.loop_sums(n, m, lambda b: [e.load(phi, e.cell(b, n, a)) for a in range(n)])
        e.store(functools.reduce(e.add, columns), sums, e.constant(0))

    return operation(n, (sums, phi, m), emit)


@intrinsic(prefer_literal=True)
def _scale(typing: Any, n: Any, phi: Any, factors: Any, b: Any) -> Any:
    """Multiply phi[b] by the factors, for one b."""

    def emit(e: Emitter, n: int, phi: Value, factors: Value, b: Value) -> None:
        factor = e.load(factors, e.constant(0))
        for a in range(n):
            e.store(e.multiply(factor, e.load(phi, e.cell(b, n, a))), phi, e.cell(b, n, a))

    return operation(n, (phi, factors, b), emit)


@compiled
def _factors(sums: Floats, factors: Floats, exponents: Floats) -> bool:
    """Choose a power of two per lane that brings its sum near 1; NaN marks what has underflowed."""
    if sums.min() > 1 / _CALM and sums.max() < _CALM:
        return False
    for lane in range(LANES):
        factors[lane] = np.nan
        if _SMALLEST <= sums[lane] <= _LARGEST:
            exponent = math.frexp(sums[lane])[1]
            factors[lane] = math.ldexp(1.0, -exponent)
            exponents[lane] += exponent
    return True


@functools.cache
def _kernel(n: int, square: bool) -> Any:
    """Compile the sweep for ``n`` states on the left side and, if ``square``, as many on the right."""

    @compiled
    def sweep(
        initial_a: Floats, transition_a: Floats, weights_a: Floats,
        initial_b: Floats, transition_b: Floats, weights_b: Floats,
        psi: Floats, states: int, k: int, lengths: Any, block: int,
        work: Floats, value: Floats, exponent: Floats,
    ) -> bool:  # fmt: skip
        m = n if square else states  # a constant bound lets the compiler unroll the loops over states
        size = n * m * LANES
        table, phi, other = work[:size], work[size : 2 * size], work[2 * size : 3 * size]
        rest = work[3 * size :]
        sums, factors, powers = rest[:LANES], rest[LANES : 2 * LANES], rest[2 * LANES : 3 * LANES]
        models, columns = value.shape[1], value.shape[2]
        rescaled = False
        for first in range(0, columns, LANES):
            group = first // LANES
            for i in range(models):
                if k > 0:
                    for b in range(m):
                        _leaf(n, table, weights_a, i * k * n, weights_b, group * m * k * LANES, k, b)
                else:
                    for lane in range(LANES):
                        at = min(first + lane, columns - 1) * m
                        for a in range(n):
                            for b in range(m):
                                table[(b * n + a) * LANES + lane] = psi[i * n + a, at + b]
                for b in range(m):
                    _start(n, phi, table, initial_a, i * n, initial_b, group * m * LANES, b)
                powers[:] = 0.0
                time = 1
                for h in range(lengths.size):
                    while time < lengths[h]:
                        if time % block == 0:
                            _total(n, sums, phi, m)
                            if _factors(sums, factors, powers):
                                rescaled = True
                                for b in range(m):
                                    _scale(n, phi, factors, b)
                        for d in range(m):
                            _step(
                                n,
                                other,
                                phi,
                                table,
                                transition_a,
                                i * n * n,
                                transition_b,
                                group * m * m * LANES,
                                m,
                                d,
                            )
                        phi, other = other, phi
                        time += 1
                    _total(n, sums, phi, m)
                    for lane in range(min(LANES, columns - first)):
                        value[h, i, first + lane] = sums[lane]
                        exponent[h, i, first + lane] = powers[lane]
        return rescaled

    return sweep


def _lanes(x: Floats, axes: tuple[int, ...]) -> Floats:
    """Bring (J, ...) into groups of eight models: (groups, *axes, 8), flat; the last model fills up."""
    groups = -(-x.shape[0] // LANES)
    index = np.minimum(np.arange(groups * LANES), x.shape[0] - 1)
    out = aligned((groups, *(x.shape[axis] for axis in axes), LANES))
    np.copyto(out, np.moveaxis(x[index].reshape(groups, LANES, *x.shape[1:]), 1, -1).transpose(0, *axes, -1))
    return out.reshape(-1)


def _block(growth: float) -> int:
    """Count the steps between two looks at the sums: up to 8, fewer where a sum could overflow."""
    if growth <= 1:
        return 8
    return max(1, min(8, int(100 / math.log10(growth)))) if math.isfinite(growth) else 1


def _run(
    left: tuple[Floats, Floats, Floats],
    right: tuple[Floats, Floats, Floats],
    psi: Floats,
    k: int,
    lengths: tuple[int, ...],
) -> Floats:
    """Call the compiled sweep and take logarithms."""
    (initial_a, transition_a, weights_a), (initial_b, transition_b, weights_b) = left, right
    n, m = initial_a.shape[1], initial_b.shape[1]
    top = float(psi.max()) if k == 0 else k * float(weights_a.max()) * float(weights_b.max())
    growth = float(transition_a.sum(axis=2).max()) * float(transition_b.sum(axis=2).max()) * top
    value = np.empty((len(lengths), initial_a.shape[0], initial_b.shape[0]))
    exponent = np.empty(value.shape)
    rescaled = _kernel(n, n == m and n <= 5)(
        _owned(initial_a).reshape(-1), _owned(transition_a).reshape(-1), _owned(weights_a.swapaxes(1, 2)).reshape(-1),
        _lanes(initial_b, (1,)), _lanes(transition_b, (2, 1)), _lanes(weights_b, (1, 2)),
        _owned(psi), m, k, np.asarray(lengths), _block(growth),
        aligned((3 * n * m * LANES + 3 * LANES,)), value, exponent,
    )  # fmt: skip
    # NaN fails both comparisons, so one pass of each tells whether every pair is sound.
    if not (value.min() >= _SMALLEST and value.max() <= _LARGEST):
        value = np.where((value >= _SMALLEST) & (value <= _LARGEST), value, np.nan)
    np.log(value, out=value)
    if rescaled:
        exponent *= math.log(2)
        value += exponent
    return value


def _owned(x: Floats) -> Floats:
    """Make an array contiguous and writable: Numba would compile anew for one that is not."""
    return np.require(x, np.float64, ["C", "W"])


def small_chains(
    initial_a: Floats,
    transition_a: Floats,
    initial_b: Floats,
    transition_b: Floats,
    psi: Floats,
    lengths: tuple[int, ...],
) -> Floats:
    """Compute the log values of coupled chains from a table of leaf kernels (PPK-4.2).

    Parameters
    ----------
    initial_a, initial_b : ndarray of shape (I, n) and (J, m)
        Initial weights, nonnegative.
    transition_a, transition_b : ndarray of shape (I, n, n) and (J, m, m)
        Transition weights, nonnegative.
    psi : ndarray of shape (I * n, J * m)
        Leaf kernel values, nonnegative.
    lengths : tuple of int
        Strictly increasing numbers of time steps, at least 1.

    Returns
    -------
    ndarray of shape (H, I, J)
        Logarithms. NaN marks a pair whose sums left the range of float64 or are zero: `mercer.models._chains.coupled`
        decides which.
    """
    left = (initial_a, transition_a, np.empty((initial_a.shape[0], 0, 0)))
    right = (initial_b, transition_b, np.empty((initial_b.shape[0], 0, 0)))
    return _run(left, right, psi, 0, lengths)


def small_categorical_chains(
    initial_a: Floats,
    transition_a: Floats,
    weights_a: Floats,
    initial_b: Floats,
    transition_b: Floats,
    weights_b: Floats,
    lengths: tuple[int, ...],
) -> Floats:
    """Compute the log values of coupled chains with categorical leaves (PPK-4.2).

    Parameters
    ----------
    initial_a, initial_b : ndarray of shape (I, n) and (J, m)
        Initial weights, nonnegative.
    transition_a, transition_b : ndarray of shape (I, n, n) and (J, m, m)
        Transition weights, nonnegative.
    weights_a, weights_b : ndarray of shape (I, n, k) and (J, m, k)
        Emission weights, ``B ** rho``: the leaf kernels are their products, summed over symbols.
    lengths : tuple of int
        Strictly increasing numbers of time steps, at least 1.

    Returns
    -------
    ndarray of shape (H, I, J)
        Logarithms, with NaN as in `small_chains`.
    """
    left, right = (initial_a, transition_a, weights_a), (initial_b, transition_b, weights_b)
    return _run(left, right, np.empty((0, 0)), weights_a.shape[2], lengths)
