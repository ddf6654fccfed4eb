"""Coupled chains (PPK-4.2) in SIMD lanes: one model of the left side with several of the right side at once.

    Phi_1 = (pi pi'^T) o psi,    Phi_{t+1} = (A^T Phi_t A') o psi,    k_L = sum of Phi_L

The matrix products of a small model are too small for BLAS; `mercer.compiled.chain_steps` contains the step.

Few states are a compile-time constant, more are a loop bound (`mercer.compiled.chain_steps`).
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from mercer._array import Floats
from mercer.compiled.chain_steps import LITERAL, Plan, gather, operations, owned, plan_of, to_lanes
from mercer.compiled.code import compiled
from mercer.compiled.lanes import aligned

__all__ = ["small_categorical_chains", "small_chains"]

_SMALLEST = math.sqrt(np.finfo(np.float64).tiny)
_LARGEST = 1e300
_CALM = 1e50  # sums between 1 / _CALM and _CALM are not rescaled


@compiled
def _factors(sums: Floats, factors: Floats, exponents: Floats) -> bool:
    """Choose a power of two per lane that scales its sum to about 1; NaN marks underflow."""
    if sums.min() > 1 / _CALM and sums.max() < _CALM:
        return False
    for lane in range(sums.size):
        factors[lane] = np.nan
        if _SMALLEST <= sums[lane] <= _LARGEST:
            exponent = math.frexp(sums[lane])[1]
            factors[lane] = math.ldexp(1.0, -exponent)
            exponents[lane] += exponent
    return True


@functools.cache
def _kernel(known: int, square: bool, plan: Plan) -> Any:
    """Compile the recursion for a ``known`` number of states, or 0, and, if ``square``, also on the right side."""
    lanes = plan.lanes
    _leaf, _start, _step, _total, _scale, _ = operations(plan)

    @compiled
    def sweep(
        initial_a: Floats, transition_a: Floats, weights_a: Floats,
        initial_b: Floats, transition_b: Floats, weights_b: Floats,
        psi: Floats, first_psi: Floats, left: int, right: int, k: int, lengths: Any, block: int,
        work: Floats, value: Floats, exponent: Floats,
    ) -> bool:  # fmt: skip
        n = known if known > 0 else left
        m = known if square else right  # a constant bound lets the compiler unroll the loops over states
        size = n * m * lanes
        table, phi, other, half = (
            work[:size],
            work[size : 2 * size],
            work[2 * size : 3 * size],
            work[3 * size : 4 * size],
        )
        rest = work[4 * size :]
        sums, factors, powers = rest[:lanes], rest[lanes : 2 * lanes], rest[2 * lanes : 3 * lanes]
        models, columns = value.shape[1], value.shape[2]
        rescaled = False
        for first in range(0, columns, lanes):
            group = first // lanes
            for i in range(models):
                if k > 0:
                    _leaf(known, n, table, weights_b, group * m * k * lanes, weights_a, i * k * n, m, k)
                else:
                    gather(psi, i * n, left, first, right, table)
                if first_psi.size > 0:
                    gather(first_psi, i * n, left, first, right, half)
                    _start(known, n, phi, half, initial_a, i * n, initial_b, group * m * lanes, m)
                else:
                    _start(known, n, phi, table, initial_a, i * n, initial_b, group * m * lanes, m)
                powers[:] = 0.0
                time = 1
                for h in range(lengths.size):
                    while time < lengths[h]:
                        if time % block == 0:
                            _total(known, n, sums, phi, m)
                            if _factors(sums, factors, powers):
                                rescaled = True
                                _scale(known, n, phi, factors, m)
                        _step(
                            known, n, other, half, phi, table, transition_a, i * n * n, transition_b,
                            group * m * m * lanes, m,
                        )  # fmt: skip
                        phi, other = other, phi
                        time += 1
                    _total(known, n, sums, phi, m)
                    for lane in range(min(lanes, columns - first)):
                        value[h, i, first + lane] = sums[lane]
                        exponent[h, i, first + lane] = powers[lane]
        return rescaled

    return sweep


def _block(growth: float) -> int:
    """Return the number of steps between two checks of the sums: up to 8, fewer if a sum could overflow."""
    if growth <= 1:
        return 8
    return max(1, min(8, int(100 / math.log10(growth)))) if math.isfinite(growth) else 1


def _run(
    left: tuple[Floats, Floats, Floats],
    right: tuple[Floats, Floats, Floats],
    psi: Floats,
    first: Floats,
    k: int,
    lengths: tuple[int, ...],
) -> Floats:
    """Call the compiled recursion and take logarithms."""
    (initial_a, transition_a, weights_a), (initial_b, transition_b, weights_b) = left, right
    n, m = initial_a.shape[1], initial_b.shape[1]
    top = float(psi.max()) if k == 0 else k * float(weights_a.max()) * float(weights_b.max())
    growth = float(transition_a.sum(axis=2).max()) * float(transition_b.sum(axis=2).max()) * top
    value = np.empty((len(lengths), initial_a.shape[0], initial_b.shape[0]))
    exponent = np.empty(value.shape)
    plan = plan_of(n)
    lanes = plan.lanes
    rescaled = _kernel(n if n <= LITERAL else 0, n == m and n <= LITERAL, plan)(
        owned(initial_a).reshape(-1), owned(transition_a).reshape(-1), owned(weights_a.swapaxes(1, 2)).reshape(-1),
        to_lanes(initial_b, (1,), lanes), to_lanes(transition_b, (2, 1), lanes), to_lanes(weights_b, (1, 2), lanes),
        owned(psi), owned(first), n, m, k, np.asarray(lengths), _block(growth),
        aligned((4 * n * m * lanes + 3 * lanes,)), value, exponent,
    )  # fmt: skip
    # NaN fails both comparisons, so one pass of each shows whether every pair is sound.
    if not (value.min() >= _SMALLEST and value.max() <= _LARGEST):
        value = np.where((value >= _SMALLEST) & (value <= _LARGEST), value, np.nan)
    np.log(value, out=value)
    if rescaled:
        exponent *= math.log(2)
        value += exponent
    return value


def small_chains(
    initial_a: Floats,
    transition_a: Floats,
    initial_b: Floats,
    transition_b: Floats,
    psi: Floats,
    lengths: tuple[int, ...],
    first: Floats | None = None,
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
    first : ndarray of shape (I * n, J * m), default=None
        Leaf kernels of the first observation; ``psi`` if None.

    Returns
    -------
    ndarray of shape (H, I, J)
        Logarithms. NaN marks a pair whose sums left the range of float64 or are zero: `mercer.models._chains.coupled`
        decides which.
    """
    left = (initial_a, transition_a, np.empty((initial_a.shape[0], 0, 0)))
    right = (initial_b, transition_b, np.empty((initial_b.shape[0], 0, 0)))
    return _run(left, right, psi, np.empty((0, 0)) if first is None else first, 0, lengths)


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
    return _run(left, right, np.empty((0, 0)), np.empty((0, 0)), weights_a.shape[2], lengths)
