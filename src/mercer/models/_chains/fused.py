"""Tiles of coupled chains on an NVIDIA GPU: one Triton kernel, and the usual repetition of pairs out of range."""

from __future__ import annotations

import math
from typing import Any

from mercer._array import Array, Floats, namespace
from mercer._coupling import InnerLeaf
from mercer.cuda import usable as usable
from mercer.models._chains.coupled import inner_products, is_calm, repaired, states_last
from mercer.models._chains.sweep import Side, crossed, steps_between_scalings
from mercer.models.discount import FIRST_LENGTHS, Discounted

MOST_STATES, MOST_SYMBOLS = 32, 256
"""Larger models are computed by matrix products of the array library."""
PAIRS = 2**28
"""Number of values, over all lengths, that a tile holds: 2 GiB, and a few times that for intermediate results."""
LEAVES = 2**27
"""Number of leaf kernels that a tile holds, if they are a table in memory."""
_RESCUED = 2**24
"""Number of leaf kernels that a repetition holds."""

Sizes = tuple[Floats, Floats]
"""Numbers of states of both sides, without padding."""


def fits(*operands: Any) -> bool:
    """Whether the Triton kernel takes the chains of these operands."""
    weights = [x for operand in operands for x in (operand.initial, operand.transition)]
    few = all(1 <= int(operand.initial.shape[-1]) <= MOST_STATES for operand in operands)
    return few and not any(operand.logarithms for operand in operands) and usable(*weights)


def in_features(leaf: Any) -> bool:
    """Whether the Triton kernel makes the leaf kernels itself, as inner products of few features."""
    return is_inner(leaf) and leaf.features.shape[-1] <= MOST_SYMBOLS and usable(leaf.features)


def is_inner(leaf: Any) -> bool:
    """Whether leaf kernels are plain inner products of features."""
    return isinstance(leaf, InnerLeaf) and leaf.trials == 1 and not leaf.underflows


def pairs_at_once(operand: Any) -> int:
    """Return the number of pairs of a tile."""
    values = PAIRS // (FIRST_LENGTHS if isinstance(operand.lengths, Discounted) else len(operand.lengths))
    return values if in_features(operand.leaf) else min(values, LEAVES // int(operand.initial.shape[-1]) ** 2)


def fused_features(left: tuple[Array, ...], right: tuple[Array, ...], sizes: Sizes, lengths: tuple[int, ...]) -> Array:
    """Compute log kernels ``(H, I, J)`` if leaf kernels are inner products of the features ``left[2]``, ``right[2]``.

    If ``right`` is ``left``, only half of the pairs are computed.
    """
    from mercer.cuda.chains import fused_chains

    xp = namespace(*left)
    bound = xp.reshape(_largest_norm(left[2]) * _largest_norm(right[2]), (1,))
    block = steps_between_scalings(left[:2], right[:2], bound)
    values = fused_chains(left, right, sizes, lengths, block).values
    other = right[0], right[1]
    if is_calm(values, (left[0], left[1]), other):
        return values
    # Leaf kernels of a few rows at a time, and only of rows with a pair in doubt.
    step, parts = max(1, _RESCUED // max(1, left[0].shape[1] * math.prod(right[0].shape))), []
    for first in range(0, left[0].shape[0], step):
        initial, transition, features = (x[first : first + step] for x in left[:3])
        sides = crossed((initial, transition), other)

        def log_psi(features: Array = features) -> Array:
            return xp.log(inner_products(features, right[2]))

        parts.append(repaired(values[:, first : first + step], *sides, log_psi, lengths))
    return xp.concat(parts, axis=1)


def fused_table(left: Side, right: Side, log_psi: Array, sizes: Sizes, lengths: tuple[int, ...]) -> Array:
    """Compute log kernels ``(H, I, J)`` from the logarithms of leaf kernels, ``(I, n, J, m)``."""
    from mercer.cuda.chains import fused_chains

    xp, (i, n, j, m) = namespace(log_psi), log_psi.shape
    block = steps_between_scalings(left, right, xp.ones_like(log_psi[:1, 0, 0, 0]))
    values, scale, lost = fused_chains(left, right, sizes, lengths, block, xp.reshape(log_psi, (i * n, j * m)))
    marked = lost != 0
    tiny = marked if bool(xp.any(marked)) else None
    return repaired(values, *crossed(left, right), lambda: states_last(log_psi), lengths, scale, tiny)


def _largest_norm(features: Array) -> Array:
    xp = namespace(features)
    return xp.sqrt(xp.max(xp.sum(features * features, axis=-1)))
