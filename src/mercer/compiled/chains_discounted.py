"""Discounted kernels of coupled chains (PPK-4.2b) in SIMD lanes: the series over all lengths, summed from the right.

With W_0 = psi and W_{t+1} = psi o (f A W_t A'^T), where f is the discount times the scale of psi, the
sum over lengths is the sum over t of pi^T W_t pi'. `mercer.compiled.chain_steps` contains the step; here it takes
transposed transition weights.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from mercer._array import Floats
from mercer.compiled.chain_steps import LITERAL, Plan, gather, in_lanes, operations, plan_of
from mercer.compiled.code import compiled
from mercer.compiled.copies import copy_to
from mercer.compiled.lanes import aligned
from mercer.compiled.layout import owned

_EVERY = 4  # steps between two bounds of the remaining terms
_HOPELESS = 1e100


@functools.cache
def _kernel(known: int, square: bool, plan: Plan) -> Any:
    """Compile the series for a ``known`` number of states, or 0, and, if ``square``, also on the right side."""
    lanes = plan.lanes
    _, _start, _step, _, _scale, _dot = operations(known, plan)

    @compiled
    def series(
        initial_a: Floats, transition_a: Floats, growth_a: Floats, initial_b: Floats, transition_b: Floats,
        growth_b: Floats, psi: Floats, factors: Floats, left: int, right: int, tail: float, patience: int, work: Floats,
        value: Floats,
    ) -> None:  # fmt: skip  # pragma: no cover - compiled
        n = known if known > 0 else left
        m = known if square else right
        size, width = n * m * lanes, m * m * lanes
        table, phi, other, half = (
            work[:size],
            work[size : 2 * size],
            work[2 * size : 3 * size],
            work[3 * size : 4 * size],
        )
        outer, ones = work[4 * size : 5 * size], work[5 * size : 6 * size]
        scaled, rest = work[6 * size : 6 * size + width], work[6 * size + width :]
        totals, most, alive = rest[:lanes], rest[lanes : 2 * lanes], rest[2 * lanes : 3 * lanes]
        models, columns = value.shape
        ones[:] = 1.0
        for first in range(0, columns, lanes):
            group = first // lanes
            here = min(lanes, columns - first)
            for i in range(models):
                gather(psi, i * n, left, first, right, table)
                _start(n, outer, ones, initial_a, i * n, initial_b, group * m * lanes, m)
                for lane in range(lanes):
                    j = first + min(lane, here - 1)
                    totals[lane], alive[lane] = 0.0, 1.0
                    # A bound of the terms after W_t: f times the largest row sums, times its largest entry.
                    most[lane] = factors[i, j] * growth_a[i] * growth_b[j]
                    for c in range(m * m):
                        at = c * lanes + lane
                        scaled[at] = factors[i, j] * transition_b[group * width + at]
                copy_to(phi, table)
                _dot(n, totals, phi, outer, m)
                waiting, time = here, 0
                while waiting > 0 and time < patience:
                    _step(n, other, half, phi, table, transition_a, i * n * n, scaled, 0, m)
                    phi, other = other, phi
                    _dot(n, totals, phi, outer, m)
                    time += 1
                    if time % _EVERY == 0:
                        ended = False
                        for lane in range(here):
                            if alive[lane] > 0.0:
                                largest = 0.0
                                for c in range(n * m):
                                    entry = phi[c * lanes + lane]
                                    if not entry <= largest:
                                        largest = entry
                                bound = largest * most[lane]
                                if bound <= tail or not bound < _HOPELESS:
                                    value[i, first + lane] = totals[lane] if bound <= tail else np.nan
                                    alive[lane] = 0.0
                                    waiting -= 1
                                    ended = True
                        if ended:  # further steps for neighboring lanes do not change this pair
                            _scale(n, phi, alive, m)
                for lane in range(here):
                    if alive[lane] > 0.0:
                        value[i, first + lane] = np.nan

    return series


def discounted_lanes(
    left: tuple[Floats, Floats],
    right: tuple[Floats, Floats],
    psi: Floats,
    factors: Floats,
    tail: float,
    patience: int,
) -> Floats:
    """Sum v (f Op)^t 1 over all t >= 0 for all pairs of two sets of chains.

    Parameters
    ----------
    left, right : pair of ndarrays
        Initial and transition weights, (I, n) and (I, n, n), (J, m) and (J, m, m); transition weights from
        unreachable states are zero.
    psi : ndarray of shape (I * n, J * m)
        Leaf kernels, each pair of models scaled to a maximum of about one.
    factors : ndarray of shape (I, J)
        The discount times the scale of ``psi``.
    tail : float
        Tolerance of the truncation, relative to the sum.
    patience : int
        Largest number of steps.

    Returns
    -------
    ndarray of shape (I, J)
        Sums; NaN where a series did not converge within ``patience`` steps.
    """
    (initial_a, transition_a), (initial_b, transition_b) = left, right
    n, m = initial_a.shape[1], initial_b.shape[1]
    plan = plan_of(n)
    lanes = plan.lanes
    value = np.empty((len(initial_a), len(initial_b)))
    growth = [x.sum(axis=2).max(axis=1) for x in (transition_a, transition_b)]
    _kernel(n if n <= LITERAL else 0, n == m and n <= LITERAL, plan)(
        owned(initial_a).reshape(-1), owned(transition_a.swapaxes(1, 2)).reshape(-1), growth[0],
        in_lanes(initial_b, (1,), lanes), in_lanes(transition_b, (1, 2), lanes), growth[1],
        owned(psi), owned(factors), n, m, tail, patience,
        aligned((6 * n * m * lanes + m * m * lanes + 3 * lanes,)), value,
    )  # fmt: skip
    return value
