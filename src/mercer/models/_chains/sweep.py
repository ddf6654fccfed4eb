"""The recursion of coupled chains in array code: layouts of its tables, and sweeps in scaled numbers and logarithms.

A table has an entry for every pair of models and of hidden states. `Aligned` pairs each model of the left side with one
of the right, `Tile` pairs all of them; everything else is written once, in terms of their few operations.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, TypeAlias

from array_api_compat import is_torch_array

from mercer._array import Array, logsumexp, namespace, safe_log

Side: TypeAlias = tuple[Array, Array]
"""Initial and transition weights."""


class Aligned:
    """Tables (N, n, m): each chain of the left side is paired with one of the right."""

    @staticmethod
    def outer(a: Array, b: Array) -> Array:
        """Multiply initial weights, (N, n) and (N, m)."""
        return a[:, :, None] * b[:, None, :]

    @staticmethod
    def left(matrix: Array, table: Array) -> Array:
        """Multiply every table from the left by the matrix of its left chain."""
        return matrix @ table

    @staticmethod
    def right(table: Array, matrix: Array) -> Array:
        """Multiply every table from the right by the matrix of its right chain."""
        return table @ matrix

    @staticmethod
    def wide(values: Array) -> Array:
        """Reshape one number per pair of models for broadcasting against a table."""
        return values[:, None, None]

    @staticmethod
    def crossed(a: Array, b: Array) -> Array:
        """Multiply one number per model of each side."""
        return a * b

    @staticmethod
    def take(left: Side, right: Side, table: Array, which: Array) -> tuple[Side, Side, Array]:
        """Take some pairs: weights of both sides and their tables, aligned."""
        xp = namespace(table)
        a, b = ([xp.take(x, which, axis=0) for x in side] for side in (left, right))
        return (a[0], a[1]), (b[0], b[1]), xp.take(table, which, axis=0)

    states: tuple[int, ...] = (1, 2)
    """Axes of the hidden states."""


class Tile:
    """Tables (I, n, J, m): each chain of the left side is paired with each of the right.

    Products read permuted views and write contiguously; most reshapes copy nothing.
    """

    @staticmethod
    def outer(a: Array, b: Array) -> Array:
        """Multiply initial weights, (I, n) and (J, m)."""
        return a[:, :, None, None] * b

    @staticmethod
    def left(matrix: Array, table: Array) -> Array:
        """Multiply every table from the left by the matrix of its left chain."""
        i, n, j, m = table.shape
        xp = namespace(table)
        return xp.reshape(matrix @ xp.reshape(table, (i, n, j * m)), (i, matrix.shape[1], j, m))

    @staticmethod
    def right(table: Array, matrix: Array) -> Array:
        """Multiply every table from the right by the matrix of its right chain."""
        i, n, j, m = table.shape
        xp = namespace(table)
        turned = xp.permute_dims(xp.reshape(table, (i * n, j, m)), (1, 2, 0))
        product = xp.reshape(xp.matrix_transpose(matrix) @ turned, (j, matrix.shape[2], i, n))
        return xp.permute_dims(product, (2, 3, 0, 1))

    @staticmethod
    def wide(values: Array) -> Array:
        """Reshape one number per pair of models for broadcasting against a table."""
        return values[:, None, :, None]

    @staticmethod
    def crossed(a: Array, b: Array) -> Array:
        """Multiply one number per model of each side."""
        return a[:, None] * b[None, :]

    @staticmethod
    def take(left: Side, right: Side, table: Array, which: Array) -> tuple[Side, Side, Array]:
        """Take some pairs, counted row by row: weights of both sides and their tables, aligned."""
        xp = namespace(table)
        i, n, j, m = table.shape
        pairs = xp.reshape(xp.permute_dims(table, (0, 2, 1, 3)), (i * j, n, m))
        a, b = ([xp.take(x, at, axis=0) for x in side] for side, at in ((left, which // j), (right, which % j)))
        return (a[0], a[1]), (b[0], b[1]), xp.take(pairs, which, axis=0)

    states: tuple[int, ...] = (1, 3)
    """Axes of the hidden states."""


Layout: TypeAlias = "type[Aligned] | type[Tile]"


def sums(layout: Layout, table: Array) -> Array:
    """Sum over states: a number for every pair of models."""
    return namespace(table).sum(table, axis=layout.states)


def largest(layout: Layout, table: Array) -> Array:
    """Find the largest entry for every pair of models, without its gradient; 0 if it is infinite."""
    xp = namespace(table)
    top = without_gradient(xp.max(table, axis=layout.states))
    return xp.where(xp.isfinite(top), top, xp.zeros_like(top))


def sweep(layout: Layout, left: Side, right: Side, psi: Array, lengths: tuple[int, ...]) -> Array:
    """Run the recursion, rescaling every few steps.

    Gradients of torch need the memory of about twice the square root of the number of steps: the steps between are
    repeated in the backward pass.

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

    def advance(phi: Array, log_factor: Array, sound: Array, times: range) -> tuple[Any, ...]:
        rows = []
        for time in times:
            if time > 1:
                phi = layout.left(transposed, layout.right(phi, right[1])) * psi
            rest = time % block == 0 and time < last
            if rest or time in wanted:
                total = sums(layout, phi)
                constant = without_gradient(total)  # no value depends on the factors, so gradients ignore them
                sound = sound & (constant >= smallest) & (constant <= greatest)
                if time in wanted:
                    rows.append(xp.where(sound, xp.astype(safe_log(total), xp.float64) + log_factor, xp.nan))
                if rest:
                    top = xp.where(sound, constant, xp.ones_like(constant))
                    phi, log_factor = phi * layout.wide(1 / top), log_factor + xp.astype(xp.log(top), xp.float64)
        return phi, log_factor, sound, rows

    run = _repeated(advance) if needs_gradient(*left, *right, psi) else advance
    phi = layout.outer(left[0], right[0]) * psi
    zero = without_gradient(sums(layout, xp.zeros_like(phi)))
    log_factor, sound = xp.astype(zero, xp.float64), zero == 0
    step, values = max(1, round(math.sqrt(last))), []
    for first in range(1, last + 1, step):
        phi, log_factor, sound, rows = run(phi, log_factor, sound, range(first, min(first + step, last + 1)))
        values += rows
    return xp.astype(xp.stack(values), psi.dtype)


def _repeated(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make torch repeat a function in the backward pass, in place of keeping what it computes."""
    from torch.utils.checkpoint import checkpoint

    return functools.partial(checkpoint, function, use_reentrant=False, preserve_rng_state=False)


def needs_gradient(*arrays: Array) -> bool:
    """Whether torch tracks gradients of any of the arrays."""
    if not any(is_torch_array(x) and x.requires_grad for x in arrays):
        return False
    import torch

    return bool(torch.is_grad_enabled())


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
