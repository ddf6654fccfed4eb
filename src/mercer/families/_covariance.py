"""Covariances of Gaussians by structure: checks, and the algebra of symmetric matrices."""

from __future__ import annotations

from typing import Literal

import numpy as np

from mercer._array import Array, Floats, beside, namespace, to_numpy

Structure = Literal["full", "diagonal", "isotropic"]


def structure_of(mean: tuple[int, ...], covariance: tuple[int, ...]) -> Structure:
    if covariance == (*mean, mean[-1]):
        return "full"
    if covariance == mean:
        return "diagonal"
    if covariance == mean[:-1]:
        return "isotropic"
    raise ValueError(
        f"covariance must have shape {(*mean, mean[-1])} (full), {mean} (diagonal) or {mean[:-1]} (isotropic) for "
        f"means of shape {mean}; got {covariance}."
    )


def smallest_eigenvalue(covariance: Floats, structure: str) -> Floats:
    """Smallest eigenvalue of every covariance (or 1); rounding below 1e-14 of the largest counts as zero."""
    if structure == "isotropic":
        return covariance
    if structure == "diagonal":
        return np.min(covariance, axis=-1)
    rounding = 45 * np.finfo(covariance.dtype).eps * covariance.shape[-1]
    wide = covariance.astype(np.float64)
    try:
        pivots = np.diagonal(np.linalg.cholesky(wide), axis1=-2, axis2=-1) ** 2
        if np.all(pivots > rounding * np.diagonal(wide, axis1=-2, axis2=-1)):
            return np.ones(covariance.shape[:-2])
    except np.linalg.LinAlgError:
        pass
    values = np.linalg.eigvalsh(wide)
    largest = np.maximum(np.abs(values).max(axis=-1), np.finfo(float).tiny)
    return np.where(np.abs(values[..., 0]) <= rounding * largest, 0.0, values[..., 0])


def check_covariances(mean: Array, covariance: Array, structure: str) -> None:
    m, c = to_numpy(mean), to_numpy(covariance)
    bad = np.argwhere(~np.isfinite(m).all(axis=-1))
    if len(bad):
        raise ValueError(f"The mean at index {tuple(map(int, bad[0]))} must be finite; got {m[tuple(bad[0])]}.")
    event = {"full": (-1, -2), "diagonal": (-1,), "isotropic": ()}[structure]
    bad = np.argwhere(~np.isfinite(c).all(axis=event)) if event else np.argwhere(~np.isfinite(c))
    if len(bad):
        raise ValueError(f"The covariance at index {tuple(map(int, bad[0]))} must be finite.")
    if structure == "full":
        scale = np.maximum(np.abs(c).max(axis=(-1, -2)), np.finfo(float).tiny)
        skew = np.abs(c - np.swapaxes(c, -1, -2)).max(axis=(-1, -2)) if c.size else np.zeros(c.shape[:-2])
        tolerance = 1e-4 if c.dtype == np.float32 else 1e-8
        bad = np.argwhere(skew > tolerance * scale)
        if len(bad):
            raise ValueError(f"The covariance at index {tuple(map(int, bad[0]))} must be symmetric. Use (C + C.T) / 2.")
    smallest = smallest_eigenvalue(c, structure)
    bad = np.argwhere(smallest < 0)
    if len(bad):
        where = tuple(map(int, bad[0]))
        raise ValueError(
            f"The covariance at index {where} is not positive semi-definite (smallest eigenvalue "
            f"{float(smallest[where]):.3g}). Pass covariances, not precisions or correlations with errors."
        )


def flat(matrices: Array) -> Array:
    return namespace(matrices).reshape(matrices, (*matrices.shape[:-2], -1))


def upper(matrices: Array) -> Array:
    """Upper triangle with off-diagonal entries times sqrt 2, so that inner products are Frobenius."""
    xp, d = namespace(matrices), matrices.shape[-1]
    columns = [matrices[..., i, j] * (1.0 if i == j else float(np.sqrt(2))) for i in range(d) for j in range(i, d)]
    return xp.stack(columns, axis=-1)


def covariance_information(precision: Array) -> Array:
    """Information of the (scaled upper triangle of the) covariance: E<G, U><G, V> = tr(P U P V) / 2."""
    xp, d = namespace(precision), precision.shape[-1]
    basis = []
    for i in range(d):
        for j in range(i, d):
            unit = np.zeros((d, d))
            unit[i, j] = unit[j, i] = 1.0 if i == j else float(np.sqrt(0.5))
            basis.append(beside(precision, unit, precision.dtype))
    moved = [precision @ unit @ precision for unit in basis]
    rows = [xp.stack([xp.sum(m * u, axis=(-1, -2)) / 2 for u in basis], axis=-1) for m in moved]
    return xp.stack(rows, axis=-2)


def block_diagonal(a: Array, b: Array) -> Array:
    xp = namespace(a, b)
    corner = beside(a, np.zeros((*a.shape[:-2], a.shape[-1], b.shape[-1])), a.dtype)
    top = xp.concat([a, corner], axis=-1)
    return xp.concat([top, xp.concat([xp.matrix_transpose(corner), b], axis=-1)], axis=-2)
