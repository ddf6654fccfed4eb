"""The recursion of coupled chains in array code: scaled every few steps, and in the log domain."""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

from array_api_compat import is_torch_array

from mercer._array import Array, logsumexp, namespace, safe_log
from mercer.models._chains.layout import Layout

Side: TypeAlias = tuple[Array, Array]
"""Initial and transition weights."""


class Tape(NamedTuple):
    """Intermediate results for the backward sweep of `mercer.models._chains.adjoint`."""

    lengths: tuple[int, ...]
    block: int
    times: tuple[int, ...]
    tables: tuple[Array, ...]
    """Phi, scaled, after the steps of ``times``."""
    first_factor: Array | None
    sound: Array


def sweep(
    layout: Layout,
    left: Side,
    right: Side,
    psi: Array,
    lengths: tuple[int, ...],
    block: int,
    *,
    first: Array | None = None,
    keep: bool = False,
) -> tuple[Array, Tape]:
    """Run the recursion, rescaling every ``block`` steps.

    Parameters
    ----------
    layout : Aligned or Tile
        Memory layout of the tables.
    left, right : pair of arrays
        Initial and transition weights.
    psi : array
        Leaf kernels, a table.
    lengths : tuple of int
        Strictly increasing numbers of time steps, at least 1.
    block : int
        Number of steps between two scalings. No value depends on the factors, so gradients ignore them.
    first : array, default=None
        Leaf kernels of the first observation; ``psi`` if not given.
    keep : bool
        Store every r-th table for a backward sweep, with r about the square root of the length.

    Returns
    -------
    values : array
        Log kernels, one row per length; NaN if sums leave the floating-point range.
    tape : Tape
    """
    xp = namespace(psi)
    smallest, largest = floating_range(psi)
    last = lengths[-1]
    spacing = block * max(1, round(math.sqrt(last) / block))
    wanted, rows, times, tables = set(lengths), [], [], []
    phi = layout.outer(left[0], right[0]) * (psi if first is None else first)
    log_factor, first_factor, sound = None, None, True
    for time in range(1, last + 1):
        if time > 1:
            phi = layout.step(left[1], phi, right[1]) * psi
        rest = time % block == 0 and time < last
        if rest or time in wanted:
            total = layout.sums(phi)
            constant = without_gradient(total)
            sound = sound & (constant >= smallest) & (constant <= largest)
            if time in wanted:
                row = xp.astype(safe_log(total), xp.float64)
                row = row if log_factor is None else row + log_factor
                rows.append(xp.where(sound, row, xp.nan))
            if rest:
                top = xp.where(sound, constant, xp.ones_like(constant))
                phi = phi * layout.wide(1 / top)
                more = xp.astype(xp.log(top), xp.float64)
                log_factor = more if log_factor is None else log_factor + more
                first_factor = 1 / top if time == 1 else first_factor
        if keep and (time == 1 or time % spacing == 0) and time < last:
            times.append(time)
            tables.append(phi)
    values = xp.astype(xp.stack(rows), psi.dtype)
    return values, Tape(lengths, block, tuple(times), tuple(tables), first_factor, sound)


def without_gradient(x: Array) -> Array:
    """Detach a number from gradients."""
    return x.detach() if is_torch_array(x) else x


def floating_range(x: Array) -> tuple[float, float]:
    """Return bounds of sums whose small entries are still exact and whose next steps do not overflow."""
    info = namespace(x).finfo(x.dtype)
    return math.sqrt(float(info.smallest_normal)), float(info.max) * 1e-3


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
    """Run the recursion in the log domain; leading axes align and broadcast."""
    phi = left[0][..., :, None] + right[0][..., None, :] + log_psi
    wanted, rows = set(lengths), []
    for time in range(1, lengths[-1] + 1):
        if time > 1:
            half = logsumexp(phi[..., :, :, None] + right[1][..., None, :, :], axis=-2)
            phi = logsumexp(left[1][..., :, :, None] + half[..., :, None, :], axis=-3) + log_psi
        if time in wanted:
            rows.append(logsumexp(phi, axis=(-2, -1)))
    return namespace(phi).stack(rows)
