"""Pairs of Gaussians on an NVIDIA GPU, by one Triton kernel."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from mercer import cuda
from mercer._array import Array, namespace

if TYPE_CHECKING:
    from mercer.families._gaussian_pairs import GaussianPairs

MOST_COORDINATES = 12
"""Coordinates of full covariances whose factors fit into the registers of a thread."""
PAIRS = 2**28
"""Number of pairs that a tile holds."""


def fits(*batches: GaussianPairs) -> bool:
    """Whether the Triton kernel takes these batches."""
    few = all(p.structure != "full" or p.dimension <= MOST_COORDINATES for p in batches)
    vectors = all(p.ndim == 1 and len(p) > 0 for p in batches)
    return few and vectors and cuda.usable(*(x for p in batches for x in (p.mean, p.covariance)))


def surely_regular(p: GaussianPairs) -> bool:
    """Whether the Triton kernel takes a batch, and its pivots are well above rounding; else NumPy decides."""
    if not fits(p):
        return False
    xp = namespace(p.mean)
    if p.structure != "full":
        return bool(xp.min(p.covariance) > 0)
    import torch

    factor, failed = torch.linalg.cholesky_ex(p.covariance)
    pivots, variances = (x.diagonal(0, -2, -1) for x in (factor, p.covariance))
    rounding = 45 * xp.finfo(variances.dtype).eps * p.dimension
    return not bool(failed.any()) and bool((pivots**2 > rounding * variances).all())


def log_kernels(
    p: GaussianPairs, q: GaussianPairs, scale: float, identity: float, weight: float, own: Array, theirs: Array
) -> Array | None:
    """Do as `mercer._native.gaussians.log_kernels`; None if a product of pivots leaves the range of floats."""
    from mercer.cuda import gaussians as triton_kernels

    left = p.mean, p._entries
    right = left if q is p else (q.mean, q._entries)
    value = triton_kernels.log_kernels(left, right, scale, identity, weight, own, theirs)
    return value if math.isfinite(float(value.sum())) else None
