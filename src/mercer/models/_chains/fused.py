"""Tiles of coupled chains on an NVIDIA GPU: one Triton kernel, and the usual rescue of pairs out of range."""

from __future__ import annotations

import functools
import math
from typing import Any

from mercer._array import Array, Floats, beside, namespace
from mercer._coupling import InnerLeaf
from mercer.cuda import usable as usable
from mercer.models._chains.rescue import pieces, rescue, restore_lost, smallest_weight, take_from_tile
from mercer.models._chains.sweep import Side, steps_between_scalings
from mercer.models.discount import Discounted

MOST_STATES, MOST_SYMBOLS = 32, 256
"""Larger models are computed by matrix products of the array library."""
PAIRS = 2**28
"""Number of values, over all lengths, that a tile holds: 2 GiB, and a few times that for intermediate results."""
LEAVES = 2**27
"""Number of leaf kernels that a tile holds, if they are a table in memory."""
_RESCUED = 2**24
"""Number of leaf kernels that a rescue holds."""


def fits(*operands: Any) -> bool:
    """Whether the Triton kernel takes the chains of these operands."""
    weights = [x for operand in operands for x in (operand.initial, operand.transition)]
    few = all(1 <= int(operand.initial.shape[-1]) <= MOST_STATES for operand in operands)
    return few and usable(*weights)


def in_features(leaf: Any) -> bool:
    """Whether the Triton kernel makes the leaf kernels itself, as inner products of few features."""
    inner = isinstance(leaf, InnerLeaf) and leaf.trials == 1 and not leaf.underflows
    return inner and leaf.features.shape[-1] <= MOST_SYMBOLS and usable(leaf.features)


def pairs_at_once(operand: Any) -> int:
    """Return the number of pairs of a tile."""
    values = PAIRS // (1 if isinstance(operand.lengths, Discounted) else len(operand.lengths))
    return values if in_features(operand.leaf) else min(values, LEAVES // int(operand.initial.shape[-1]) ** 2)


def fused_features(
    left: tuple[Array, ...], right: tuple[Array, ...], sizes: tuple[Floats, Floats], lengths: tuple[int, ...]
) -> Array:
    """Compute log kernels ``(H, I, J)`` if leaf kernels are inner products of the features ``left[2]``, ``right[2]``.

    If ``right`` is ``left``, only half of the pairs are computed.
    """
    from mercer.cuda.chains import fused_chains

    xp = namespace(*left)
    bound = xp.reshape(_largest_norm(left[2]) * _largest_norm(right[2]), (1,))
    block = steps_between_scalings(left[:2], right[:2], bound)
    values = fused_chains(left, right, sizes, lengths, block).values
    weights = smallest_weight((left[0], left[1])), smallest_weight((right[0], right[1]))
    if _calm(values, *weights):
        return values
    # Leaf kernels of a few rows at a time, and only of rows with a pair in doubt.
    (i, n), (j, m), k = left[0].shape, right[0].shape, left[2].shape[-1]
    step = max(1, _RESCUED // max(1, n * j * m))
    parts = []
    for first in range(0, i, step):
        rows = slice(first, min(first + step, i))
        mine, some = values[:, rows], (left[0][rows], left[1][rows])
        if not _calm(mine, weights[0][rows], weights[1]):
            psi = xp.reshape(left[2][rows], (-1, k)) @ xp.reshape(right[2], (-1, k)).T
            mine = rescue(mine, some, (right[0], right[1]), psi, lengths)
        parts.append(mine)
    return xp.concat(parts, axis=1)


def fused_table(
    left: Side, right: Side, log_psi: Array, sizes: tuple[Floats, Floats], lengths: tuple[int, ...]
) -> Array:
    """Compute log kernels ``(H, I, J)`` from the logarithms of leaf kernels, ``(I * n, J * m)``."""
    from mercer.cuda.chains import fused_chains

    xp, (i, n), (j, m) = namespace(log_psi), left[0].shape, right[0].shape
    block = steps_between_scalings(left, right, xp.ones_like(log_psi[:1, 0]))
    values, scale, lost = fused_chains(left, right, sizes, lengths, block, log_psi)

    def psi() -> Array:
        wide = scale[:, None, :, None]
        return xp.reshape(xp.exp(xp.reshape(log_psi, (i, n, j, m)) - wide), (i * n, j * m))

    if not _calm(values, smallest_weight(left), smallest_weight(right)):
        values = rescue(values, left, right, psi, lengths)
    values = values + beside(values, lengths, values.dtype)[:, None, None] * scale
    if not bool(xp.any(lost)):
        return values
    take = functools.partial(take_from_tile, left, right, log_psi)
    flat, marked = xp.reshape(values, (len(lengths), -1)), xp.reshape(lost, (-1,))
    return xp.reshape(restore_lost(flat, marked, take, lengths, pieces(left, right)), values.shape)


def fused_discounted(
    left: tuple[Array, ...], right: tuple[Array, ...], log_psi: Array | None, sizes: tuple[Floats, Floats], d: float
) -> Array:
    """Compute log discounted kernels ``(I, J)``; NaN where another method is needed.

    Leaf kernels have the logarithms ``log_psi``, or are inner products of the features ``left[2]`` and ``right[2]``.
    """
    from mercer.cuda.chains import fused_chains

    values, scale, _ = fused_chains(left, right, sizes, (1,), 1, log_psi, d)
    found = values[0, ...] + math.log1p(-d)
    return found if scale is None else found + scale


def _largest_norm(features: Array) -> Array:
    xp = namespace(features)
    return xp.sqrt(xp.max(xp.sum(features * features, axis=-1)))


def _calm(values: Array, left: Array, right: Array) -> bool:
    """Whether no pair left the floating-point range, and no path can have been lost."""
    xp = namespace(values)
    plain = float(xp.finfo(values.dtype).smallest_normal) ** (1 / 3)
    return float(xp.min(left)) * float(xp.min(right)) >= plain and not bool(xp.any(xp.isnan(values)))
