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
from mercer.compiled.chain_steps import LITERAL, Plan, gather, in_lanes, operations, plan_of
from mercer.compiled.code import compiled
from mercer.compiled.lanes import aligned
from mercer.compiled.layout import owned

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
    _leaf, _start, _step, _total, _scale, _ = operations(known, plan)

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
                    _leaf(n, table, weights_b, group * m * k * lanes, weights_a, i * k * n, m, k)
                else:
                    gather(psi, i * n, left, first, right, table)
                if first_psi.size > 0:
                    gather(first_psi, i * n, left, first, right, half)
                    _start(n, phi, half, initial_a, i * n, initial_b, group * m * lanes, m)
                else:
                    _start(n, phi, table, initial_a, i * n, initial_b, group * m * lanes, m)
                powers[:] = 0.0
                time = 1
                for h in range(lengths.size):
                    while time < lengths[h]:
                        if time % block == 0:
                            _total(n, sums, phi, m)
                            if _factors(sums, factors, powers):
                                rescaled = True
                                _scale(n, phi, factors, m)
                        _step(
                            n, other, half, phi, table, transition_a, i * n * n, transition_b,
                            group * m * m * lanes, m,
                        )  # fmt: skip
                        phi, other = other, phi
                        time += 1
                    _total(n, sums, phi, m)
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


def small_chains(
    left: tuple[Floats, ...],
    right: tuple[Floats, ...],
    lengths: tuple[int, ...],
    psi: Floats | None = None,
    first: Floats | None = None,
) -> Floats:
    """Compute the log values of coupled chains (PPK-4.2).

    Parameters
    ----------
    left, right : tuples of ndarrays
        Initial weights ``(I, n)`` and ``(J, m)``, transition weights ``(I, n, n)`` and ``(J, m, m)`` and, without
        ``psi``, emission weights ``(I, n, k)`` and ``(J, m, k)``, whose products, summed over symbols, are the leaf
        kernels. All are nonnegative.
    lengths : tuple of int
        Strictly increasing numbers of time steps, at least 1.
    psi : ndarray of shape (I * n, J * m), default=None
        Leaf kernel values, nonnegative.
    first : ndarray of shape (I * n, J * m), default=None
        Leaf kernels of the first observation; ``psi`` if None.

    Returns
    -------
    ndarray of shape (H, I, J)
        Logarithms. NaN marks a pair whose sums left the range of float64 or are zero: `mercer.models._chains.coupled`
        decides which.
    """
    nothing = np.empty((0, 0))
    if psi is not None:
        left, right = ((*side[:2], np.empty((len(side[0]), 0, 0))) for side in (left, right))
    (initial_a, transition_a, weights_a), (initial_b, transition_b, weights_b) = left, right
    k = weights_a.shape[2]
    n, m = initial_a.shape[1], initial_b.shape[1]
    top = float(psi.max()) if psi is not None else k * float(weights_a.max()) * float(weights_b.max())
    growth = float(transition_a.sum(axis=2).max()) * float(transition_b.sum(axis=2).max()) * top
    value = np.empty((len(lengths), initial_a.shape[0], initial_b.shape[0]))
    exponent = np.empty(value.shape)
    plan = plan_of(n)
    lanes = plan.lanes
    rescaled = _kernel(n if n <= LITERAL else 0, n == m and n <= LITERAL, plan)(
        owned(initial_a).reshape(-1), owned(transition_a).reshape(-1), owned(weights_a.swapaxes(1, 2)).reshape(-1),
        in_lanes(initial_b, (1,), lanes), in_lanes(transition_b, (2, 1), lanes), in_lanes(weights_b, (1, 2), lanes),
        owned(nothing if psi is None else psi), owned(nothing if first is None else first),
        n, m, k, np.asarray(lengths), _block(growth), aligned((4 * n * m * lanes + 3 * lanes,)), value, exponent,
    )  # fmt: skip
    # NaN fails both comparisons, so one pass of each shows whether every pair is sound.
    if not (value.min() >= _SMALLEST and value.max() <= _LARGEST):
        value = np.where((value >= _SMALLEST) & (value <= _LARGEST), value, np.nan)
    np.log(value, out=value)
    if rescaled:
        exponent *= math.log(2)
        value += exponent
    return value
