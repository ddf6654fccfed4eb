"""Coupled chains (PPK-4.2) in one Triton kernel: tables and leaf kernels of a pair stay on the chip for all steps.

    Phi_1 = (pi pi'^T) o psi,    Phi_{t+1} = (A^T Phi_t A') o psi,    k_L = sum of Phi_L

A program is one warp. It holds one tile of 16 x 16 states (32 x 32 if a model has more than 16) and steps it by two
products on tensor cores. Small models share a tile: transition matrices are blocks on the diagonal, initial weights and
emissions are stacked, so that a tile holds the tables of g x g' pairs. Numbers of states are padded to powers of two.
Models are packed into tiles before, so that a program loads each tile as it is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl

from mercer._array import Array, Floats

CHUNK = 8
"""Number of tiles per program, so that the left side is loaded once for all of them."""
SMALLEST, LARGEST = tl.constexpr(2.0**-511), tl.constexpr(1e305)
"""Sums outside of this range are marked: small entries may have been lost."""
LOG_2 = tl.constexpr(float(np.log(2.0)))


_OPTIONS = {16: {"num_warps": 1, "num_stages": 1, "maxnreg": 128}, 32: {"num_warps": 1, "num_stages": 1}}
"""How a tile of 16 or 32 states is compiled; with more registers, fewer programs run on a multiprocessor at once."""


class Result(NamedTuple):
    """Log kernels of all pairs."""

    values: Array
    """Logarithms, ``(H, I, J)``, without the scale of leaf kernels; NaN if a sum left the floating-point range."""
    scale: Array
    """Logarithm of the factor taken out of the leaf kernels, ``(I, J)``; None for symbols."""
    lost: Array
    """Whether a leaf kernel underflows relative to the largest one, ``(I, J)``; None for symbols."""


@triton.jit
def _sums(table, GA: tl.constexpr, NA: tl.constexpr, GB: tl.constexpr, NB: tl.constexpr):
    """Sum over the states of every pair of models, (GA, GB)."""
    return tl.sum(tl.sum(tl.reshape(table, (GA, NA, GB, NB)), axis=3), axis=1)


@triton.jit
def _wide(numbers, GA: tl.constexpr, NA: tl.constexpr, GB: tl.constexpr, NB: tl.constexpr):
    """Repeat one number per pair of models for all of its states, (GA NA, GB NB)."""
    return tl.reshape(tl.broadcast_to(numbers[:, None, :, None], (GA, NA, GB, NB)), (GA * NA, GB * NB))


_SIZES = ["count_a", "states_a", "count_b", "states_b", "n_lengths", "block", "rows_total", "columns_total"]


@triton.jit(do_not_specialize=_SIZES)
def _chains(
    weights_a, steps_a, features_a, rows, count_a, states_a,
    weights_b, steps_b, features_b, columns, count_b, states_b,
    log_psi, symbols, lengths, n_lengths, block, value, scale, lost, rows_total, columns_total,
    NA: tl.constexpr, GA: tl.constexpr, NB: tl.constexpr, GB: tl.constexpr, SYMBOLS: tl.constexpr,
    HALF: tl.constexpr, MIRROR: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    TA: tl.constexpr = NA * GA
    TB: tl.constexpr = NB * GB
    # A program has one group of left models and up to CHUNK groups of right ones.
    plane = rows_total.to(tl.int64) * columns_total
    groups = tl.cdiv(count_b, GB)
    chunks = tl.cdiv(groups, CHUNK)
    group = tl.program_id(0) // chunks
    first = (tl.program_id(0) % chunks) * CHUNK
    last = tl.minimum(first + CHUNK, groups)
    if HALF:  # both sides are the same models: tiles below the diagonal are mirrored
        first = tl.maximum(first, group)
    p = tl.arange(0, TA)
    q = tl.arange(0, TB)
    row_a = group.to(tl.int64) * TA + p
    weight_a = tl.load(weights_a + row_a)
    step_a = tl.load(steps_a + row_a[None, :] * TA + p[:, None])  # transposed
    if not SYMBOLS:
        member_a, state_a = group * GA + p // NA, p % NA
        row = tl.load(rows + member_a, mask=member_a < count_a, other=0)
        there_a = (member_a < count_a) & (state_a < states_a)
    i = group * GA + tl.arange(0, GA)
    row_i = tl.load(rows + i, mask=i < count_a, other=0)
    for other in range(first, last):
        row_b = tl.cast(other, tl.int64) * TB + q
        weight_b = tl.load(weights_b + row_b)
        step_b = tl.load(steps_b + row_b[:, None] * TB + q[None, :])
        j = other * GB + tl.arange(0, GB)
        column_j = tl.load(columns + j, mask=j < count_b, other=0)
        inside = (i < count_a)[:, None] & (j < count_b)[None, :]
        if HALF:
            inside = inside & (i[:, None] <= j[None, :])
        at = row_i[:, None] * columns_total + column_j[None, :]
        mirrored = column_j[None, :] * columns_total + row_i[:, None]
        psi = tl.zeros((TA, TB), dtype=tl.float64)
        # Leaf kernels: inner products of features, or given as logarithms, divided by the largest one of each pair.
        if SYMBOLS:
            for k in range(0, symbols, 16):
                symbol = k + tl.arange(0, 16)
                feature_a = tl.load(features_a + row_a[:, None] * symbols + symbol[None, :])
                feature_b = tl.load(features_b + row_b[None, :] * symbols + symbol[:, None])
                psi += tl.dot(feature_a, feature_b, out_dtype=tl.float64)
        else:
            member_b, state_b = other * GB + q // NB, q % NB
            column = tl.load(columns + member_b, mask=member_b < count_b, other=0)
            there_b = (member_b < count_b) & (state_b < states_b)
            both = there_a[:, None] & there_b[None, :]
            at_psi = (row * states_a + state_a)[:, None] * (columns_total * states_b)
            at_psi = at_psi + (column * states_b + state_b)[None, :]
            logs = tl.load(log_psi + at_psi, mask=both, other=-float("inf"))
            blocks = tl.reshape(logs, (GA, NA, GB, NB))
            top = tl.max(tl.max(blocks, axis=3), axis=1)
            top = tl.where(tl.abs(top) < float("inf"), top, 0.0)
            psi = tl.exp(logs - _wide(top, GA, NA, GB, NB))
            gone = _sums(((psi == 0.0) & (logs > -float("inf"))).to(tl.int32), GA, NA, GB, NB)
            tl.store(scale + at, top, mask=inside)
            tl.store(lost + at, (gone > 0).to(tl.int8), mask=inside)
            if MIRROR:
                tl.store(scale + mirrored, top, mask=inside)
                tl.store(lost + mirrored, (gone > 0).to(tl.int8), mask=inside)
        phi = weight_a[:, None] * weight_b[None, :] * psi
        # Step from one length to the next; `exponent` is what rescaling has taken out of phi.
        exponent = tl.zeros((GA, GB), dtype=tl.int64)
        sound = exponent == 0
        for h in range(0, n_lengths):
            for t in range(tl.load(lengths + h), tl.load(lengths + h + 1)):
                if t % block == 0:
                    total = _sums(phi, GA, NA, GB, NB)
                    sound = sound & (total >= SMALLEST) & (total <= LARGEST)
                    # Divide by the power of two below the sum: exact.
                    power = tl.where(sound, ((total.to(tl.int64, bitcast=True) >> 52) & 2047) - 1023, 0)
                    factor = ((1023 - power) << 52).to(tl.float64, bitcast=True)
                    exponent += power
                    phi = phi * _wide(factor, GA, NA, GB, NB)
                half = tl.dot(phi, step_b, out_dtype=tl.float64)
                phi = tl.dot(step_a, half, out_dtype=tl.float64) * psi
            total = _sums(phi, GA, NA, GB, NB)
            good = sound & (total >= SMALLEST) & (total <= LARGEST)
            found = tl.log(tl.where(good, total, 1.0)) + exponent.to(tl.float64) * LOG_2
            found = tl.where(good, found, float("nan"))
            tl.store(value + h * plane + at, found, mask=inside)
            if MIRROR:
                tl.store(value + h * plane + mirrored, found, mask=inside)


def fused_chains(
    left: tuple[Array, ...], right: tuple[Array, ...], sizes: tuple[Floats, Floats], lengths: tuple[int, ...],
    block: int, log_psi: Array | None = None,
) -> Result:  # fmt: skip
    """Compute the log kernels of all pairs of two sets of chains.

    Parameters
    ----------
    left, right : tuple of tensors
        Initial weights ``(I, n)`` and ``(J, m)``, transition weights ``(I, n, n)`` and ``(J, m, m)`` and, without
        ``log_psi``, features of emissions ``(I, n, k)`` and ``(J, m, k)``, whose inner products are the leaf kernels.
        If both sides are the same object, only half of the pairs are computed.
    sizes : pair of ndarrays of int
        Numbers of states without padding of each side.
    lengths : tuple of int
        Strictly increasing numbers of time steps, at least 1.
    block : int
        Number of steps between two rescalings.
    log_psi : tensor of shape (I * n, J * m), default=None
        Logarithms of the leaf kernels.

    Returns
    -------
    Result
    """
    (i, n), (j, m) = left[0].shape, right[0].shape
    symmetric = right is left
    device = left[0].device
    value = torch.empty((len(lengths), i, j), dtype=torch.float64, device=device)
    scale = lost = None
    if log_psi is not None:
        log_psi = log_psi.contiguous()
        scale = torch.empty((i, j), dtype=torch.float64, device=device)
        lost = torch.empty((i, j), dtype=torch.int8, device=device)
    at = torch.tensor((1, *lengths), dtype=torch.int32, device=device)
    classes = _classes(sizes[0], device), _classes(sizes[1], device)
    nothing = value
    for a, (na, rows) in enumerate(classes[0]):
        for b, (nb, columns) in enumerate(classes[1]):
            if symmetric and b < a:
                continue
            tile = 16 if max(na, nb) <= 16 else 32
            ga, gb = tile // na, tile // nb
            tiles_a = _tiles(left, rows, na, ga)
            tiles_b = tiles_a if symmetric and a == b else _tiles(right, columns, nb, gb)
            programs = triton.cdiv(len(rows), ga) * triton.cdiv(triton.cdiv(len(columns), gb), CHUNK)
            _chains[(programs,)](
                *tiles_a, rows, len(rows), n, *tiles_b, columns, len(columns), m,
                nothing if log_psi is None else log_psi, 0 if log_psi is not None else tiles_a[2].shape[2], at,
                len(lengths), block, value, nothing if scale is None else scale,
                nothing if lost is None else lost, i, j, NA=na, GA=ga, NB=nb, GB=gb, SYMBOLS=log_psi is None,
                HALF=symmetric and a == b, MIRROR=symmetric, CHUNK=CHUNK,
                **_OPTIONS[tile],
            )  # fmt: skip
    return Result(value, scale, None if lost is None else lost != 0)


def _classes(sizes: Floats, device: Any) -> list[tuple[int, Array]]:
    """Group models by the power of two to which their number of states is padded."""
    padded = 1 << np.ceil(np.log2(np.maximum(sizes, 1))).astype(int)
    return [(int(n), torch.from_numpy(np.flatnonzero(padded == n)).to(device)) for n in np.unique(padded)]


def _tiles(side: tuple[Array, ...], rows: Array, n: int, g: int) -> tuple[Array, Array, Array]:
    """Pack models into tiles of ``g`` models of ``n`` states: initial weights, transitions in blocks, features."""
    count, groups = len(rows), triton.cdiv(len(rows), g)
    states = min(n, side[0].shape[1])

    def padded(x: Array, shape: tuple[int, ...]) -> Array:
        out = torch.zeros((groups * g, *shape), dtype=x.dtype, device=x.device)
        out[(slice(count), *(slice(size) for size in x.shape[1:]))] = x
        return out

    weights = padded(side[0][rows, :states], (n,))
    blocks = padded(side[1][rows, :states, :states], (n, n)).reshape(groups, g, n, n)
    steps = torch.zeros((groups, g, n, g, n), dtype=blocks.dtype, device=blocks.device)
    for k in range(g):
        steps[:, k, :, k] = blocks[:, k]
    features = weights  # the leaf kernels are given
    if len(side) > 2:
        symbols = 16 * triton.cdiv(side[2].shape[2], 16)  # the inner size of a product
        features = padded(side[2][rows, :states], (n, symbols))
    return weights, steps, features
