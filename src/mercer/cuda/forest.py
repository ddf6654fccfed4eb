"""Sums over the shared hidden states of pairs of samples (MK-3, MK-4, MK-6) on a GPU.

A program has some rows and 32 columns of pairs, one column per thread, and passes their messages from the leaves to the
roots. The message of the latest node stays in registers; a tree stores those of branches that wait for their siblings.
"""

# mypy: disable-error-code="misc,attr-defined"
from __future__ import annotations

import numpy as np
import torch
import triton
import triton.language as tl

from mercer._array import Array
from mercer.cuda import n_programs

COLUMNS = 32
PROGRAMS = 16
"""Number of programs per multiprocessor, each with memory for the messages that wait."""
BETWEEN = 8
"""Number of nodes between two rescalings, if all transitions are possible: messages decrease from node to node."""
LOG_2 = tl.constexpr(float(np.log(2.0)))


@triton.jit
def _exponent(x):
    """Exponent of positive numbers; -1023 for zero."""
    return ((x.to(tl.int64, bitcast=True) >> 52) & 2047).to(tl.int32) - 1023


@triton.jit
def _down(power):
    """Two to a negative power."""
    return ((1023 - power).to(tl.int64) << 52).to(tl.float64, bitcast=True)


@triton.jit(do_not_specialize=["count_a", "count_b", "nodes", "depth", "between", "tiles", "step_stride"])
def _forest(
    left, count_a, right, count_b, step, step_stride, root, children, roots, waits, numbers, stack, value,
    nodes, depth, between, tiles, S: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, HALF: tl.constexpr,
    ALONE: tl.constexpr, WATCH: tl.constexpr,
):  # fmt: skip
    least, floor = tl.load(numbers), tl.load(numbers + 1)
    wide_a, wide_b = count_a.to(tl.int64), count_b.to(tl.int64)
    across = tl.cdiv(count_b, COLUMNS)
    r, c = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    inside = r[:, None] * COLUMNS + c[None, :]
    stack += tl.program_id(0).to(tl.int64) * (depth * S * ROWS * COLUMNS)
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        i, j = (tile // across) * ROWS + r, (tile % across) * COLUMNS + c
        if (not HALF) or (tl.max(j) >= tl.min(i)):
            in_a, in_b = i < count_a, j < count_b
            one = tl.zeros((ROWS, COLUMNS), dtype=tl.float64) + 1.0
            total = one
            exponent = tl.zeros((ROWS, COLUMNS), dtype=tl.int32)
            good = exponent == 0
            empty = ()
            for _ in tl.static_range(S):
                empty += (one,)
            message = empty
            waiting = 0
            for v in range(0, nodes):
                many = tl.load(children + v)
                # The first node of another branch: the message of the finished one is stored.
                if tl.load(waits + v) != 0:
                    for a in tl.static_range(S):
                        tl.store(stack + (waiting * S + a) * (ROWS * COLUMNS) + inside, message[a])
                    waiting += 1
                    message = empty
                    tl.debug_barrier()
                # The evidence of both samples at the node, times the message of its latest child.
                here = ()
                for a in tl.static_range(S):
                    y = tl.load(right + (v * S + a) * wide_b + j, mask=in_b, other=1.0)
                    if ALONE:
                        here += ((y * y)[None, :] * message[a],)
                    else:
                        x = tl.load(left + (v * S + a) * wide_a + i, mask=in_a, other=1.0)
                        here += (x[:, None] * y[None, :] * message[a],)
                if WATCH:
                    for a in tl.static_range(S):
                        good = good & ((here[a] == 0.0) | (here[a] >= floor))
                # Messages of its other children, from the stack.
                for _more in range(1, many):
                    waiting -= 1
                    others = ()
                    for a in tl.static_range(S):
                        both = here[a] * tl.load(stack + (waiting * S + a) * (ROWS * COLUMNS) + inside)
                        others += (both,)
                        if WATCH:
                            good = good & ((both == 0.0) | (both >= floor))
                    here = others
                    tl.debug_barrier()
                # Rescale by the power of two below the largest entry.
                if (v % between == between - 1) | (many > 1):
                    top = here[0]
                    for a in tl.static_range(1, S):
                        top = tl.maximum(top, here[a])
                    if WATCH:
                        # If all states are impossible, the sum is zero.
                        kept = top >= floor
                    else:
                        kept = top >= least
                        good = good & kept
                    power = tl.where(kept, _exponent(top), 0)
                    exponent += power
                    scale = _down(power)
                    smaller = ()
                    for a in tl.static_range(S):
                        smaller += (here[a] * scale,)
                    here = smaller
                # A root ends its tree: sum over its states. Any other node sends a message to its parent.
                if tl.load(roots + v) != 0:
                    found = here[0] * tl.load(root)
                    for a in tl.static_range(1, S):
                        found += here[a] * tl.load(root + a)
                    if not WATCH:
                        good = good & (found >= least)
                    total = total * found
                    power = tl.where(total > 0.0, _exponent(total), 0)
                    exponent += power
                    total = total * _down(power)
                    message = empty
                else:
                    message = ()
                    for a in tl.static_range(S):
                        row = step + v * step_stride + a * S
                        sent = here[0] * tl.load(row)
                        for b in tl.static_range(1, S):
                            sent += here[b] * tl.load(row + b)
                        message += (sent,)
            found = tl.log(tl.where(total > 0.0, total, 1.0)) + exponent.to(tl.float64) * LOG_2
            found = tl.where(total > 0.0, found, -float("inf"))
            found = tl.where(good, found, float("nan"))
            kept = in_a[:, None] & in_b[None, :]
            if ALONE:
                tl.store(value + (i * 0)[:, None] + j[None, :], found, mask=kept & (i == 0)[:, None])
            else:
                if HALF:
                    kept = kept & (i[:, None] <= j[None, :])
                    tl.store(value + j[None, :] * wide_b + i[:, None], found, mask=kept)
                tl.store(value + i[:, None] * wide_b + j[None, :], found, mask=kept)


def forest_sums(
    left: Array, right: Array | None, step: Array, root: Array, shape: tuple[Array, Array, Array], depth: int,
    least: float, floor: float | None, *, rows: int | None = None, programs: int = PROGRAMS,
) -> Array:  # fmt: skip
    """Sum over all hidden states, for all pairs: logarithms, NaN where they are not sound.

    Parameters
    ----------
    left, right : tensor of shape (V, S, I) and (V, S, J)
        Evidence of the nodes in their order, at most 1. The same object for half of the pairs, ``right=None`` for each
        sample with itself.
    step : tensor of shape (V, S, S) or (1, S, S)
        Transitions to the state of each node, ``[v, a, b]`` from a to b, or one matrix for all.
    root : tensor of shape (S,)
        Probabilities of the states of a root.
    shape : children, roots, waits : tensors of int32 of shape (V,)
        As of `mercer.models._history.forest.Forest`.
    depth : int
        Maximum number of messages on the stack.
    least : float
        The largest entry of a message must not fall below it.
    floor : float or None
        The least possible entry, if some transitions are impossible.
    rows : int, default=None
        Number of rows of pairs per program.
    programs : int
        Number of programs per multiprocessor.

    Returns
    -------
    tensor of shape (I, J), or (I,)
    """
    alone = right is None
    other = left if right is None else right
    left = left.contiguous()
    other = left if other is left or right is None else other.contiguous()
    (nodes, states, n), m, device = left.shape, other.shape[2], left.device
    if rows is None or alone:
        rows = 1 if alone else 8 if states <= 4 else 4 if states <= 8 else 2
    tiles = (1 if alone else triton.cdiv(n, rows)) * triton.cdiv(m, COLUMNS)
    count = n_programs(tiles, programs, device)
    value = torch.empty((n,) if alone else (n, m), dtype=torch.float64, device=device)
    stack = torch.empty(count * max(1, depth) * states * rows * COLUMNS, dtype=torch.float64, device=device)
    numbers = torch.tensor([least, 0.0 if floor is None else floor], dtype=torch.float64, device=device)
    _forest[(count,)](
        left, n, other, m, step.contiguous(), states**2 if step.shape[0] > 1 else 0, root.contiguous(), *shape,
        numbers, stack, value, nodes, max(1, depth), 1 if floor is not None else BETWEEN, tiles, S=states, ROWS=rows,
        COLUMNS=COLUMNS, HALF=other is left and not alone, ALONE=alone, WATCH=floor is not None, num_warps=1,
        num_stages=1,
    )  # fmt: skip
    return value
