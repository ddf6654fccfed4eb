"""Numba: log determinants and quadratic forms of S + S' for every pair of full covariances.

The same elimination as `_planes.log_det_and_quadratic`, with 16 pairs side by side in the vector lanes: one matrix of
the left side meets 16 of the right. It works in registers and the first cache, and lets go of the interpreter's lock.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from mercer._array import Floats

LANES = 16


def packed(mean: Floats, covariance: Floats) -> tuple[Floats, Floats]:
    """Pack lower triangles and means: ``(N, d (d + 1) / 2)`` and ``(N, d)``, contiguous."""
    d = mean.shape[-1]
    rows, columns = np.tril_indices(d)
    return np.ascontiguousarray(covariance[:, rows, columns]), np.ascontiguousarray(mean)


def solve(
    left: tuple[Floats, Floats], right: tuple[Floats, Floats], scale: float, identity: float
) -> tuple[Floats, Floats]:
    """Return log|M| and v' M^{-1} v, ``(I, J)`` each, for M = scale (S + S') + identity, v = m - m'."""
    triangles, means = left
    other = _in_lanes(right[0]), _in_lanes(right[1])
    n, m = len(means), len(right[1])
    log_det, quadratic = np.empty((n, m)), np.empty((n, m))
    _solve(triangles, means, *other, scale, identity, log_det, quadratic)
    return log_det, quadratic


def _in_lanes(x: Floats) -> Floats:
    """Arrange rows as (blocks, columns, LANES); the last block repeats its last row."""
    blocks = -(-len(x) // LANES)
    index = np.minimum(np.arange(blocks * LANES), len(x) - 1)
    return np.ascontiguousarray(x[index].reshape(blocks, LANES, -1).transpose(0, 2, 1))


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
def _solve(
    triangles: Floats,
    means: Floats,
    other_triangles: Floats,
    other_means: Floats,
    scale: float,
    identity: float,
    log_det: Floats,
    quadratic: Floats,
) -> None:  # pragma: no cover - compiled
    n, d = means.shape
    m = log_det.shape[1]
    work = np.empty((d * (d + 1) // 2, LANES))
    v = np.empty((d, LANES))
    factor = np.empty(LANES)
    inverse = np.empty(LANES)
    product = np.empty(LANES)
    logs = np.empty(LANES)
    total = np.empty(LANES)
    for block in range(other_means.shape[0]):
        theirs, their_means = other_triangles[block], other_means[block]
        width = min(LANES, m - block * LANES)
        for i in range(n):
            p = 0
            for a in range(d):
                for lane in range(LANES):
                    v[a, lane] = means[i, a] - their_means[a, lane]
                for b in range(a + 1):
                    own = triangles[i, p]
                    shift = identity if a == b else 0.0
                    for lane in range(LANES):
                        work[p, lane] = scale * (own + theirs[p, lane]) + shift
                    p += 1
            for lane in range(LANES):
                logs[lane] = 0.0
                total[lane] = 0.0
                product[lane] = 1.0
            for k in range(d):
                kk = k * (k + 1) // 2 + k
                for lane in range(LANES):
                    inverse[lane] = 1.0 / work[kk, lane]
                    product[lane] *= work[kk, lane]
                    total[lane] += v[k, lane] * v[k, lane] * inverse[lane]
                # One logarithm for four pivots: it costs as much as the rest of the step.
                if k % 4 == 3 or k == d - 1:
                    for lane in range(width):
                        logs[lane] += np.log(product[lane])
                    for lane in range(LANES):
                        product[lane] = 1.0
                for a in range(k + 1, d):
                    row = a * (a + 1) // 2
                    for lane in range(LANES):
                        factor[lane] = work[row + k, lane] * inverse[lane]
                        v[a, lane] -= factor[lane] * v[k, lane]
                    for b in range(k + 1, a + 1):
                        bk = b * (b + 1) // 2 + k
                        for lane in range(LANES):
                            work[row + b, lane] -= factor[lane] * work[bk, lane]
            start = block * LANES
            for lane in range(width):
                log_det[i, start + lane] = logs[lane]
                quadratic[i, start + lane] = total[lane]
