"""The recursion of coupled chains in array code, in scaled numbers and in logarithms.

A table (*B, n, m) has an entry for every pair of models and of their hidden states. The batch shapes of both sides
broadcast to that of the table: (N,) if each model is paired with one other, (I, 1) and (1, J) for all pairs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, TypeAlias

from array_api_compat import is_torch_array

from mercer._array import Array, logsumexp, namespace, needs_gradient, safe_log

Side: TypeAlias = tuple[Array, Array]
"""Initial and transition weights."""


def crossed(left: Side, right: Side) -> tuple[Side, Side]:
    """Give weights of I and of J chains batch shapes (I, 1) and (1, J), which pair each of them with all others."""
    a, b = ([x[:, None, ...] for x in left], [x[None, ...] for x in right])
    return (a[0], a[1]), (b[0], b[1])


def outer(a: Array, b: Array) -> Array:
    """Multiply weights of states, (*B, n) and (*B, m)."""
    return a[..., :, None] * b[..., None, :]


def largest(table: Array) -> Array:
    """Find the largest entry for every pair of models, without its gradient; 0 if it is infinite."""
    xp = namespace(table)
    top = without_gradient(xp.max(table, axis=(-2, -1)))
    return xp.where(xp.isfinite(top), top, xp.zeros_like(top))


def taken(left: Side, right: Side, table: Array, which: Array) -> tuple[Side, Side, Array]:
    """Take some pairs, counted row by row: weights of both sides and their tables, aligned."""
    xp, batch = namespace(table), table.shape[:-2]
    rows = (which // batch[1], which % batch[1]) if len(batch) == 2 else (which, which)
    a, b = (
        [xp.take(xp.reshape(x, (-1, *x.shape[len(batch) :])), at, axis=0) for x in side]
        for side, at in zip((left, right), rows, strict=True)
    )
    return (a[0], a[1]), (b[0], b[1]), xp.take(xp.reshape(table, (-1, *table.shape[-2:])), which, axis=0)


def sweep(left: Side, right: Side, psi: Array, lengths: tuple[int, ...]) -> Array:
    """Run the recursion, rescaling every few steps by powers of two, whose exponents add up without rounding.

    Gradients of torch need the memory of about twice the square root of the number of steps: the steps between are
    repeated in the backward pass.

    Parameters
    ----------
    left, right : pair of arrays
        Initial and transition weights.
    psi : array
        Leaf kernels, a table.
    lengths : tuple of int
        Strictly increasing numbers of time steps, at least 1.

    Returns
    -------
    array
        Log kernels, one row per length; NaN if sums leave the floating-point range.
    """
    xp, last, wanted = namespace(psi), lengths[-1], set(lengths)
    info = xp.finfo(psi.dtype)
    # Sums between these bounds have accurate small entries, and their next steps do not overflow.
    smallest, greatest = math.sqrt(float(info.smallest_normal)), float(info.max) * 1e-3
    block = steps_between_scalings(left, right, psi)
    transposed = xp.matrix_transpose(left[1])

    def advance(phi: Array, power: Array, sound: Array, times: range) -> tuple[Any, ...]:
        rows = []
        for time in times:
            if time > 1:
                phi = (transposed @ (phi @ right[1])) * psi
            rest = time % block == 0 and time < last
            if rest or time in wanted:
                total = xp.sum(phi, axis=(-2, -1))
                constant = without_gradient(total)  # no value depends on the factors, so gradients ignore them
                sound = sound & (constant >= smallest) & (constant <= greatest)
                if time in wanted:
                    log_factor = math.log(2.0) * power
                    rows.append(xp.where(sound, xp.astype(safe_log(total), xp.float64) + log_factor, xp.nan))
                if rest:
                    exponent = xp.round(xp.log2(xp.where(sound, constant, xp.ones_like(constant))))
                    phi, power = phi * (2.0**-exponent)[..., None, None], power + xp.astype(exponent, xp.float64)
        return phi, power, sound, rows

    run = _repeated(advance) if needs_gradient(*left, *right, psi) else advance
    phi = outer(left[0], right[0]) * psi
    zero = without_gradient(xp.sum(xp.zeros_like(phi), axis=(-2, -1)))
    power, sound = xp.astype(zero, xp.float64), zero == 0
    step, values = max(1, round(math.sqrt(last))), []
    for first in range(1, last + 1, step):
        phi, power, sound, rows = run(phi, power, sound, range(first, min(first + step, last + 1)))
        values += rows
    return xp.astype(xp.stack(values), psi.dtype)


def _repeated(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make torch repeat a function in the backward pass, in place of keeping what it computes."""
    from torch.utils.checkpoint import checkpoint

    return functools.partial(checkpoint, function, use_reentrant=False, preserve_rng_state=False)


def without_gradient(x: Array) -> Array:
    """Detach a number from gradients."""
    return x.detach() if is_torch_array(x) else x


def steps_between_scalings(left: Side, right: Side, psi: Array) -> int:
    """Choose the number of steps between two rescalings from the dtype and the growth rate of sums."""
    if 0 in psi.shape:
        return 1
    xp = namespace(psi)
    info = xp.finfo(psi.dtype)
    growth = float(without_gradient(xp.max(psi)))
    for weights in (left[1], right[1]):
        growth *= float(without_gradient(xp.max(xp.sum(weights, axis=-1))))
    most = 8 if info.bits >= 64 else 4
    if growth <= 1:
        return most
    room = 0.5 * math.log(float(info.max))
    return max(1, min(most, int(room / math.log(growth)))) if math.isfinite(growth) else 1


def log_sweep(left: Side, right: Side, log_psi: Array, lengths: tuple[int, ...]) -> Array:
    """Run the recursion of aligned pairs in the log domain."""
    phi = left[0][:, :, None] + right[0][:, None, :] + log_psi
    wanted, rows = set(lengths), []
    for time in range(1, lengths[-1] + 1):
        if time > 1:
            half = logsumexp(phi[:, :, :, None] + right[1][:, None, :, :], axis=-2)
            phi = logsumexp(left[1][:, :, :, None] + half[:, :, None, :], axis=-3) + log_psi
        if time in wanted:
            rows.append(logsumexp(phi, axis=(-2, -1)))
    return namespace(phi).stack(rows)
