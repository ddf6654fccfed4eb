"""The recursion of coupled chains itself: scaled every few steps, for aligned pairs, and in the log domain."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from array_api_compat import is_torch_array

from mercer._array import Array, logsumexp, namespace, safe_log

Side: TypeAlias = tuple[Array, Array]
"""Initial and transition weights."""


def sweep(
    phi: Array,
    step: Callable[[Array], Array],
    sums: Callable[[Array], Array],
    scale: Callable[[Array, Array], Array],
    lengths: tuple[int, ...],
    block: int,
) -> Array:
    """Run the recursion, rescaling every ``block`` steps; NaN where sums left the floating range.

    The factors are constants to a gradient: the value does not depend on them.
    """
    xp = namespace(phi)
    smallest, largest = floating_range(phi)
    wanted, rows = set(lengths), []
    log_factor: Array | None = None
    sound: Array = True
    for time in range(1, lengths[-1] + 1):
        if time > 1:
            phi = step(phi)
        rest = time % block == 0 and time < lengths[-1]
        if not rest and time not in wanted:
            continue
        total = sums(phi)
        constant = without_gradient(total)
        sound = sound & (constant >= smallest) & (constant <= largest)
        if time in wanted:
            row = xp.astype(safe_log(total), xp.float64)
            row = row if log_factor is None else row + log_factor
            rows.append(xp.where(sound, row, xp.nan))
        if rest:
            top = xp.where(sound, constant, xp.ones_like(constant))
            phi = scale(phi, 1 / top)
            more = xp.astype(xp.log(top), xp.float64)
            log_factor = more if log_factor is None else log_factor + more
    return xp.astype(xp.stack(rows), phi.dtype)


def without_gradient(x: Array) -> Array:
    """Take a number out of a gradient's sight."""
    return x.detach() if is_torch_array(x) else x


def floating_range(x: Array) -> tuple[float, float]:
    """Bound the sums whose small entries are still exact and whose next steps do not overflow."""
    info = namespace(x).finfo(x.dtype)
    return math.sqrt(float(info.smallest_normal)), float(info.max) * 1e-3


def steps_between_scalings(left: Side, right: Side, psi: Array) -> int:
    """Choose the number of steps between two rescalings from the dtype and from how fast a sum can grow."""
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


def aligned_pairs(
    left: Side,
    right: Side,
    psi: Array,
    lengths: tuple[int, ...],
    block: int,
    watch: Callable[[Array], Array] = lambda phi: phi,
) -> Array:
    """Compute log kernels of aligned pairs (N), NaN where unsound; ``watch`` sees every step."""
    xp = namespace(psi)
    transposed = xp.matrix_transpose(left[1])
    return sweep(
        left[0][:, :, None] * right[0][:, None, :] * psi,
        lambda phi: watch(transposed @ (phi @ right[1]) * psi),
        lambda phi: xp.sum(phi, axis=(1, 2)),
        lambda phi, factor: phi * factor[:, None, None],
        lengths,
        block,
    )


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
