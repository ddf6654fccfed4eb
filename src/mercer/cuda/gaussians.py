"""Log kernels of all pairs of Gaussians in one Triton kernel: a thread factorizes the matrix of a pair in registers."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from mercer._array import Array

MOST_COORDINATES = 12
"""With more coordinates, the factor of a full covariance does not fit into the registers of a thread."""
ROWS, COLUMNS = 8, 16


@triton.jit(do_not_specialize=["count_a", "count_b"])
def _pairs(
    shape_a, mean_a, own, count_a, shape_b, mean_b, theirs, count_b, value, coefficients,
    D: tl.constexpr, FULL: tl.constexpr, HALF: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    across = tl.cdiv(count_b, COLUMNS)
    i = (tl.program_id(0) // across) * ROWS + tl.arange(0, ROWS)
    j = (tl.program_id(0) % across) * COLUMNS + tl.arange(0, COLUMNS)
    if (not HALF) or (tl.max(j) >= tl.min(i)):
        scale, identity, weight = tl.load(coefficients), tl.load(coefficients + 1), tl.load(coefficients + 2)
        in_a, in_b = i < count_a, j < count_b
        i64, j64 = i.to(tl.int64), j.to(tl.int64)
        quadratic = tl.zeros((ROWS, COLUMNS), dtype=tl.float64)
        logs = tl.zeros((ROWS, COLUMNS), dtype=tl.float64)
        product = quadratic + 1.0
        # L D L' row by row: `factor` holds the rows of L, `solved` the solution of L y = v.
        factor = ()
        inverse = ()
        solved = ()
        for r in tl.static_range(D):
            # Row r of L, times D (`raw`) and alone (`row`).
            raw = ()
            row = ()
            if FULL:
                for c in tl.static_range(r):
                    place = r * (r + 1) // 2 + c
                    a = tl.load(shape_a + place * count_a + i64, mask=in_a, other=0.0)
                    b = tl.load(shape_b + place * count_b + j64, mask=in_b, other=0.0)
                    entry = scale * (a[:, None] + b[None, :])
                    for k in tl.static_range(c):
                        entry -= raw[k] * factor[c * (c - 1) // 2 + k]
                    raw += (entry,)
                    row += (entry * inverse[c],)
            # Its pivot, and entry r of the solution, from the difference of the means.
            diagonal = r * (r + 3) // 2 if FULL else r
            a = tl.load(shape_a + diagonal * count_a + i64, mask=in_a, other=1.0)
            b = tl.load(shape_b + diagonal * count_b + j64, mask=in_b, other=1.0)
            pivot = scale * (a[:, None] + b[None, :]) + identity
            a = tl.load(mean_a + r * count_a + i64, mask=in_a, other=0.0)
            b = tl.load(mean_b + r * count_b + j64, mask=in_b, other=0.0)
            y = a[:, None] - b[None, :]
            if FULL:
                for k in tl.static_range(r):
                    pivot -= raw[k] * row[k]
                    y -= row[k] * solved[k]
            reciprocal = 1.0 / pivot
            quadratic += y * y * reciprocal
            product *= pivot
            if r % 4 == 3 or r == D - 1:  # logarithms are as expensive as many steps
                logs += tl.log(product)
                product = quadratic * 0.0 + 1.0
            factor += row
            inverse += (reciprocal,)
            solved += (y,)
        a = tl.load(own + i64, mask=in_a, other=0.0)
        b = tl.load(theirs + j64, mask=in_b, other=0.0)
        found = a[:, None] + b[None, :] - 0.5 * logs - weight * quadratic
        inside = in_a[:, None] & in_b[None, :]
        if HALF:
            inside = inside & (i[:, None] <= j[None, :])
            tl.store(value + j64[None, :] * count_b + i64[:, None], found, mask=inside)
        tl.store(value + i64[:, None] * count_b + j64[None, :], found, mask=inside)


def log_kernels(
    left: tuple[Array, Array], right: tuple[Array, Array], scale: float, identity: float, weight: float,
    own: Array, theirs: Array,
) -> Array:  # fmt: skip
    """Return own + theirs - log|M| / 2 - weight v' M^{-1} v, ``(I, J)``, for M = scale (S + S') + identity, v = m - m'.

    Parameters
    ----------
    left, right : pair of tensors
        Means ``(I, d)`` and covariances ``(I, d, d)`` or variances ``(I, d)`` of each side. If both are the same
        object, only half of the pairs are computed.
    scale, identity, weight : float
        Coefficients of the matrix M and of the quadratic form.
    own, theirs : tensor of shape (I,) and (J,)
        Terms added for every member of each side.

    Returns
    -------
    tensor of shape (I, J)
        Not finite where a product of four pivots left the range of float64.
    """
    symmetric = right is left
    a = _planes(*left)
    b = a if symmetric else _planes(*right)
    (d, n), m = a[1].shape, b[1].shape[1]
    value = torch.empty((n, m), dtype=torch.float64, device=own.device)
    # Triton passes numbers as float32.
    numbers = torch.tensor([scale, identity, weight], dtype=torch.float64, device=own.device)
    programs = triton.cdiv(n, ROWS) * triton.cdiv(m, COLUMNS)
    _pairs[(programs,)](
        *a, own.contiguous(), n, *b, theirs.contiguous(), m, value, numbers,
        D=d, FULL=len(a[0]) > d, HALF=symmetric, ROWS=ROWS, COLUMNS=COLUMNS, num_warps=4,
    )  # fmt: skip
    return value


def _planes(mean: Array, covariance: Array) -> tuple[Array, Array]:
    """Return one contiguous row per entry: of lower triangles ``(d (d + 1) / 2, N)`` or variances, and of means."""
    if covariance.ndim == mean.ndim:
        return covariance.T.contiguous(), mean.T.contiguous()
    rows, columns = torch.tril_indices(mean.shape[-1], mean.shape[-1], device=mean.device)
    return covariance[:, rows, columns].T.contiguous(), mean.T.contiguous()
