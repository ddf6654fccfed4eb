"""Derivatives of log partitions and their Legendre duals, for families that declare no closed form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from array_api_compat import is_torch_array

from mercer._array import Array, identity, namespace, to_numpy

Function = Callable[[Array], Array]
STEPS = 9
"""Differences that Ridders' method extrapolates from."""


def gradient(function: Function, z: Array, inside: Function) -> Array:
    """Gradient of a real analytic function ``(..., D) -> (...)``, ``(..., D)``.

    It is `quick_gradient`, which has all digits, unless real differences disagree: a function may not be written for
    complex numbers, or lose a small imaginary part. Then the differences are returned. ``inside`` is infinite where no
    differences are taken.
    """
    xp = namespace(z)
    if is_torch_array(z):
        return quick_gradient(function, z)
    if z.dtype == xp.float32:
        return xp.astype(gradient(function, xp.astype(z, xp.float64), inside), xp.float32)
    radius = _finite_radius(inside, z)
    rough = _differences(function, z, radius, 1)
    try:
        exact = quick_gradient(function, z)
    except TypeError:
        exact = xp.full_like(z, xp.nan)
    if bool(xp.all(xp.abs(exact - rough) <= 1e-3 * xp.abs(rough) + 1e-5)):
        return exact
    fine = _differences(function, z, radius, STEPS)
    return xp.where(xp.abs(exact - fine) <= 1e-6 * (1 + xp.abs(fine)), exact, fine)


def quick_gradient(function: Function, z: Array) -> Array:
    """Gradient as the imaginary part of f(z + ih) / h, which does not cancel; torch differentiates by itself."""
    if is_torch_array(z):
        return _torch_gradient(function, z)
    xp, step = namespace(z), 1e-40
    moves = xp.astype(identity(z, z.shape[-1]) * step, xp.complex128) * 1j
    with np.errstate(all="ignore"):
        found = [xp.imag(function(xp.astype(z, xp.complex128) + moves[k, :])) for k in range(z.shape[-1])]
    return xp.stack(found, axis=-1) / step


def jacobian(function: Function, z: Array, inside: Function, steps: int = STEPS) -> Array:
    """Return derivatives ``(..., P, D)`` of ``(..., D) -> (..., P)``, by Ridders' extrapolation of differences."""
    xp = namespace(z)
    if is_torch_array(z):
        return _torch_jacobian(function, z)
    wide = xp.astype(z, xp.float64)
    return xp.astype(_differences(function, wide, _finite_radius(inside, wide), steps), z.dtype)


def _differences(function: Function, z: Array, radius: Array, steps: int) -> Array:
    """Central differences along every coordinate; of extrapolations, the one with the smallest error estimate."""
    xp, units, found = namespace(z), identity(z, z.shape[-1]), []
    for k in range(z.shape[-1]):
        rows: list[list[Array]] = []
        best = error = None
        for i in range(steps):
            h = radius[..., k] * (0.4 * 0.5**i if steps > 1 else 1e-3)
            move = h[..., None] * units[k, :]
            with np.errstate(all="ignore"):
                rise = function(z + move) - function(z - move)
            h = xp.reshape(h, (*h.shape, *(1 for _ in range(len(rise.shape) - len(h.shape)))))
            row = [rise / (2 * h)]
            for j in range(i):
                row.append(row[j] + (row[j] - rows[-1][j]) / (4.0 ** (j + 1) - 1))
                gap = xp.maximum(xp.abs(row[-1] - row[-2]), xp.abs(row[-1] - rows[-1][j]))
                gap = xp.where(xp.isnan(gap), xp.full_like(gap, xp.inf), gap)
                better = gap < error if error is not None else gap >= 0
                best = row[-1] if best is None else xp.where(better, row[-1], best)
                error = gap if error is None else xp.where(better, gap, error)
            rows.append(row)
        found.append(rows[0][0] if best is None else best)
    return xp.stack(found, axis=-1)


def _finite_radius(function: Function, z: Array) -> Array:
    """How far each coordinate can go to both sides, up to max(1, |z|) and by powers of two, ``(..., D)``."""
    xp, units = namespace(z), identity(z, z.shape[-1])
    found = []
    for k in range(z.shape[-1]):
        radius = xp.maximum(xp.abs(z[..., k]), xp.ones_like(z[..., k]))
        for _ in range(60):
            move = radius[..., None] * units[k, :]
            with np.errstate(all="ignore"):
                value = function(z + move) + function(z - move)
            fine = xp.isfinite(value)
            while len(fine.shape) > len(radius.shape):
                fine = xp.all(fine, axis=-1)
            if bool(xp.all(fine)):
                break
            radius = xp.where(fine, radius, radius / 2)
        found.append(radius)
    return xp.stack(found, axis=-1)


def solve(matrix: Array, vector: Array) -> Array:
    """Solve small systems of equations."""
    if vector.shape[-1] == 1:
        return vector / matrix[..., 0]
    if vector.shape[-1] == 2:
        (a, b), (c, d), (x, y) = ([m[..., k] for k in (0, 1)] for m in (matrix[..., 0, :], matrix[..., 1, :], vector))
        return namespace(vector).stack([d * x - b * y, a * y - c * x], axis=-1) / (a * d - b * c)[..., None]
    return namespace(matrix).linalg.solve(matrix, vector[..., None])[..., 0]


def maximize(
    value: Function, slope: Function, divided: Callable[[Array, Array], Array], mu: Array, start: Array
) -> Array:
    """Return theta that maximizes <theta, mu> - K(theta), by damped Newton steps: the gradient of K is mu there.

    ``divided(theta, gap)`` is the gap divided by the Hessian of K at theta.

    Every entry is iterated until its own step no longer shrinks, so that it does not depend on others. Tensors have
    a gradient through the last step: that of the inverse of the gradient of K.
    """
    xp = namespace(mu)
    if is_torch_array(mu) and (mu.requires_grad or start.requires_grad):
        theta = maximize(value, slope, divided, mu.detach(), start.detach())
        return theta + divided(theta, mu - slope(theta).detach())
    if mu.dtype == xp.float32:
        wide = maximize(value, slope, divided, xp.astype(mu, xp.float64), xp.astype(start, xp.float64))
        return xp.astype(wide, xp.float32)
    theta = start + xp.zeros_like(mu)

    def loss(z: Array) -> Array:
        with np.errstate(all="ignore"):
            found = value(z) - xp.sum(z * mu, axis=-1)
        return xp.where(xp.isnan(found), xp.full_like(found, xp.inf), found)

    now, before, active = loss(theta), None, None
    tiny = float(xp.finfo(mu.dtype).eps)
    for _ in range(300):
        rest = mu - slope(theta)
        step = divided(theta, rest)
        left = xp.sum(step * rest, axis=-1)  # twice what is missing of the maximum
        upward = left >= 0  # else the curvature is not known well, and the step is that of steepest ascent
        step = xp.where(upward[..., None], step, rest)
        left = xp.where(upward, left, xp.sum(rest * rest, axis=-1))
        close = left < 1e-8
        lost = ~close & xp.all(xp.abs(rest) <= 64 * tiny * (1 + xp.abs(mu)), axis=-1)
        if bool(xp.any(lost)):
            raise NoInterior(tuple(int(i) for i in np.argwhere(to_numpy(lost))[0]))
        settled = (left <= tiny * tiny) | (close & (left >= before) if before is not None else close & False)
        active = ~settled if active is None else active & ~settled
        if not bool(xp.any(active)):
            return theta
        length = xp.where(active, xp.ones_like(left), xp.zeros_like(left))
        for _ in range(60):
            trial = theta + length[..., None] * xp.where(xp.isfinite(step), step, xp.zeros_like(step))
            then = loss(trial)
            good = ~active | (close & xp.isfinite(then)) | (then <= now - 1e-4 * length * left)
            if bool(xp.all(good)):
                break
            length = xp.where(good, length, length / 2)
        theta, before = trial, left
        now = xp.where(active, then, now)
    raise NoInterior(tuple(int(i) for i in np.argwhere(to_numpy(active))[0]))


def positive_root(value: Function, slope: Function, target: Array, start: Array) -> Array:
    """Solve value(x) = target for x > 0, where value is monotone, by Newton's method in log x."""
    xp, x = namespace(target), start
    for _ in range(60):
        step = xp.clip((target - value(x)) / (x * slope(x)), -2.0, 2.0)
        x = x * xp.exp(step)
        if not bool(xp.any(xp.abs(step) > 1e-7)):
            break
    return x + (target - value(x)) / slope(x)


class NoInterior(ValueError):
    """Mean parameters have no member of the family: they lie on the boundary, or outside."""

    def __init__(self, where: tuple[int, ...]) -> None:
        super().__init__(f"the mean parameters at index {where} have no distribution")
        self.where = where


def _torch_gradient(function: Function, z: Any) -> Any:
    import torch

    with torch.enable_grad():
        further = z.requires_grad
        z = z if further else z.detach().requires_grad_()
        return torch.autograd.grad(function(z).sum(), z, create_graph=further)[0]


def _torch_jacobian(function: Function, z: Any) -> Any:
    import torch

    with torch.enable_grad():
        further = z.requires_grad
        z = z if further else z.detach().requires_grad_()
        out = function(z)
        sums = [out[..., p].sum() for p in range(out.shape[-1])]
        rows = [torch.autograd.grad(s, z, create_graph=further, retain_graph=True)[0] for s in sums]
        return torch.stack(rows, dim=-2)
