"""Gradients of coupled chains by one backward sweep (PPK-4.2c), in the memory of a few steps.

Write P, P' for the transition weights, Phi_1 = pre_1 o psi, pre_1 = pi pi'^T, pre_t = P^T Phi_{t-1} P' and
Phi_t = pre_t o psi. The adjoint G of Phi_L is all ones, and G_{t-1} = P (G_t o psi) P'^T. Then

    d k / d psi = sum_t pre_t o G_t,              d k / d pi = (G_1 o psi) pi',
    d k / d P = sum_{t>1} Phi_{t-1} P' (G_t o psi)^T,   d k / d P' = sum_{t>1} Phi_{t-1}^T P (G_t o psi).

Phi is scaled every few steps and G inversely, which leaves sum(Phi_t o G_t) unchanged. Only every r-th table of Phi is
stored, with r about the square root of the length; the others are recomputed in the backward sweep.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from array_api_compat import is_torch_array

from mercer._array import Array, namespace
from mercer.models._chains.layout import Layout
from mercer.models._chains.sweep import Side, Tape, sweep


class Gradients(NamedTuple):
    """Derivatives with respect to the weights of both sides and to the leaf kernels."""

    initial_a: Array
    transition_a: Array
    initial_b: Array
    transition_b: Array
    psi: Array


class _Step(NamedTuple):
    """A recomputed step: Phi_t = factor (pre o psi)."""

    before: Array
    half: Array
    pre: Array
    total: Array | None
    factor: Array | None


def play_back(layout: Layout, left: Side, right: Side, psi: Array, tape: Tape, weights: Array) -> Gradients:
    """Run the recursion backward; ``weights`` (H, ...) are those of the log kernels."""
    xp = namespace(psi)
    # Unsound values may be infinite; setting their leaves to zero makes their gradients zero.
    sound = layout.wide(tape.sound)
    psi = xp.where(sound, psi, xp.zeros_like(psi))
    transition_a, transition_b = left[1], right[1]
    back = xp.matrix_transpose(transition_b)
    adjoint = xp.zeros_like(psi)
    d_a, d_b, d_psi = xp.zeros_like(transition_a), xp.zeros_like(transition_b), xp.zeros_like(psi)
    heights = {length: weights[h, ...] for h, length in enumerate(tape.lengths)}

    def joined(adjoint: Array, time: int, total: Array | None, factor: Array | None) -> Array:
        """Undo the scaling of a step, and add the contribution of the kernel of its length."""
        if factor is not None:
            adjoint = adjoint * layout.wide(factor)
        if time in heights:
            safe = xp.where(tape.sound, total, xp.ones_like(total))
            share = xp.where(tape.sound, heights[time] / safe, xp.zeros_like(safe))
            adjoint = adjoint + layout.wide(share)
        return adjoint

    stops = (*tape.times[1:], tape.lengths[-1])
    segments = list(zip(tape.times, stops, tape.tables, strict=False))
    for start, stop, table in reversed(segments):
        phi = xp.where(sound, table, xp.zeros_like(table))
        steps = _again(layout, left, right, psi, phi, range(start + 1, stop + 1), tape)
        for time in range(stop, start, -1):
            step = steps.pop()
            adjoint = joined(adjoint, time, step.total, step.factor)
            d_psi = d_psi + step.pre * adjoint
            inner = adjoint * psi
            d_a = d_a + layout.rows(step.half, inner)
            moved = layout.left(transition_a, inner)
            d_b = d_b + layout.columns(step.before, moved)
            adjoint = layout.right(moved, back)
    outer = layout.outer(left[0], right[0])
    total = layout.sums(outer * psi) if 1 in heights else None
    adjoint = joined(adjoint, 1, total, tape.first_factor)
    inner = adjoint * psi
    return Gradients(
        layout.weighted_rows(inner, right[0]),
        d_a,
        layout.weighted_columns(inner, left[0]),
        d_b,
        d_psi + outer * adjoint,
    )


def _again(layout: Layout, left: Side, right: Side, psi: Array, phi: Array, times: range, tape: Tape) -> list[_Step]:
    """Recompute the steps between two stored tables, as `sweep` did."""
    xp = namespace(psi)
    transposed = xp.matrix_transpose(left[1])
    wanted, steps = set(tape.lengths), []
    for time in times:
        half = layout.right(phi, right[1])
        pre = layout.left(transposed, half)
        new = pre * psi
        rest = time % tape.block == 0 and time < tape.lengths[-1]
        total = layout.sums(new) if rest or time in wanted else None
        factor = None
        if rest:
            factor = 1 / xp.where(tape.sound, total, xp.ones_like(total))
        steps.append(_Step(phi, half, pre, total, factor))
        phi = new if factor is None else new * layout.wide(factor)
    return steps


# ------------------------------------------------------------------ torch


def needs_gradient(*arrays: Array) -> bool:
    """Whether torch tracks gradients of any of the arrays."""
    if not any(is_torch_array(x) and x.requires_grad for x in arrays):
        return False
    import torch

    return bool(torch.is_grad_enabled())


def differentiable_chains(
    layout: Layout, left: Side, right: Side, psi: Array, lengths: tuple[int, ...], block: int
) -> Array:
    """Compute log kernels of torch tensors whose gradient is one backward sweep; NaN if unsound."""
    values: Array = _function().apply(layout, lengths, block, *left, *right, psi)
    return values


@functools.cache
def _function() -> Any:
    import torch

    class CoupledChains(torch.autograd.Function):
        """The contraction PPK-4.2 and its adjoint PPK-4.2c."""

        @staticmethod
        def forward(ctx: Any, layout: Layout, lengths: tuple[int, ...], block: int, *arrays: Array) -> Array:
            values, tape = sweep(layout, arrays[:2], arrays[2:4], arrays[4], lengths, block, keep=True)
            ctx.save_for_backward(*arrays)
            ctx.layout, ctx.tape = layout, tape
            return values

        @staticmethod
        def backward(ctx: Any, weights: Array) -> tuple[Array | None, ...]:
            arrays, layout, tape = ctx.saved_tensors, ctx.layout, ctx.tape
            sides = arrays[:2], arrays[2:4], arrays[4]
            if not torch.is_grad_enabled():
                return None, None, None, *play_back(layout, *sides, tape, weights)
            # For second derivatives, let torch record every step of the forward sweep.
            values, _ = sweep(layout, *sides, tape.lengths, tape.block)
            wanted = [x for x in arrays if x.requires_grad]
            found = iter(torch.autograd.grad(values, wanted, weights, create_graph=True, allow_unused=True))
            return None, None, None, *(next(found) if x.requires_grad else None for x in arrays)

    return CoupledChains
