"""Derivatives of log kernels between laws of numbers and proportions; see `mercer.kernels._slopes.families`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import special

from mercer._array import Floats
from mercer.families._gamma_functions import HALF_LOG_TWO_PI, binet, excess, gap
from mercer.families.exponential import joined_rates
from mercer.families.gaussian import Gaussians
from mercer.kernels._slopes.counts import planes


def exponential_product(p: Any, q: Any, rho: float, logs: Floats) -> Floats:
    return sum((-(np.log(a) + np.log(b)) - 1 / rho for a, b in planes(p.scale, q.scale)), np.zeros_like(logs))


def exponential_mean_map(p: Any, q: Any, gamma: float, logs: Floats) -> Floats:
    slope = np.zeros_like(logs)
    for a, b in planes(p.scale, q.scale):
        with np.errstate(over="ignore"):
            x, y = (np.minimum(0.5 / math.sqrt(gamma) / side, 1e100) for side in (a, b))  # beyond it the slope is 0
        slope -= (_bent(x) + _bent(y)) / (special.erfcx(x) + special.erfcx(y)) / (2 * gamma)
    return slope


def _bent(x: Floats) -> Floats:
    """Compute (1 + 2 x^2) erfcx(x) - 2 x / sqrt(pi); far out, where its terms cancel, by its series."""
    far = x > 8
    safe = np.where(far, x, 8.0)
    y, series, term = 1 / (2 * safe * safe), np.zeros_like(x), np.ones_like(x)
    for n in range(1, 21):
        term = -term * (2 * n - 1) * y
        series = series - 2 * n * term  # of (-1)^n (2n - 1)!! + (-1)^(n+1) (2n + 1)!! = (-1)^(n+1) (2n - 1)!! 2n
    near = np.where(far, 8.0, x)
    direct = (1 + 2 * near * near) * special.erfcx(near) - 2 * near / math.sqrt(math.pi)
    return np.where(far, series / (math.sqrt(math.pi) * safe), direct)


def gamma_product(p: Any, q: Any, rho: float, logs: Floats) -> Floats:
    """Average both log densities under the gamma law of shape s and mean m, with Stirling's formula taken out."""
    slope = np.zeros_like(logs)
    shapes, scales = planes(p.concentration, q.concentration), planes(p.scale, q.scale)
    for (a, c), (b, d) in zip(shapes, scales, strict=True):
        shape = rho * (a + c) + (1 - 2 * rho)
        joined, *shares = joined_rates(b, d)
        log_mean = np.log(shape) + (np.log(joined) - math.log(rho))
        for own, scale, share in zip((a, c), (b, d), shares, strict=True):
            slope += 0.5 * np.log(own) - binet(own) - HALF_LOG_TWO_PI - log_mean - (own - 1) * gap(shape)
            slope -= excess(shape * (share / rho), own, log_mean - np.log(scale))  # of the mean, in scales
    return slope


def beta_product(p: Any, q: Any, rho: float, logs: Floats) -> Floats:
    pairs = zip(planes(p.a, q.a), planes(p.b, q.b), strict=True)
    return sum((_proportions([first, second], rho) for first, second in pairs), np.zeros_like(logs))


def dirichlet_product(p: Any, q: Any, rho: float, logs: Floats) -> Floats:
    return _proportions(list(planes(p.concentration, q.concentration)), rho)


def _proportions(concentrations: list[tuple[Floats, Floats]], rho: float) -> Floats:
    """Average both log densities under the Dirichlet law between, with Stirling's formula taken out (PPK-3.7)."""
    k = len(concentrations)
    between = [rho * (a + b) + (1 - 2 * rho) for a, b in concentrations]
    total = sum(between)
    slope: Any = 0.0
    for side in (0, 1):
        own = [pair[side] for pair in concentrations]
        whole = sum(own)
        slope = slope + binet(whole) - 0.5 * np.log(whole) + (whole - k) * gap(total) - (k - 1) * HALF_LOG_TWO_PI
        for a, middle in zip(own, between, strict=True):
            log_share = np.log(middle) - np.log(total)
            slope = slope - excess(middle * (whole / total), a, log_share + np.log(whole))
            slope = slope - log_share - (a - 1) * gap(middle)
            slope = slope - binet(a) + 0.5 * np.log(a)
    return np.asarray(slope)


# -- Gaussians -----------------------------------------------------------------------------------------------


def gaussian_product(p: Gaussians, q: Gaussians, rho: float, logs: Floats) -> Floats:
    """Derive from the kernel at 2 rho: log k = a + b rho - (d/2) log rho (PPK-3.1)."""
    further = np.asarray(p.log_product(q, rho=2 * rho), dtype=np.float64)
    return np.asarray((further - logs + p.dimension / 2 * (math.log(2.0) - 1.0)) / rho)


def gaussian_mean_map(p: Gaussians, q: Gaussians, gamma: float, logs: Floats) -> Floats:
    r"""Derive -log|M|/2 - gamma v' M^{-1} v with M = 1 + 2 gamma (S + S'), v = m - m' (GMMK-2)."""
    difference = [a - b for a, b in planes(p.mean, q.mean)]
    if p.structure == "full":
        d = p.dimension
        spread = [
            [p.covariance[..., :, None, i, j] + q.covariance[..., None, :, i, j] for j in range(i + 1)]
            for i in range(d)
        ]
        return _factorised(spread, difference, gamma)
    if p.structure == "isotropic":
        spreads = [p.covariance[..., :, None] + q.covariance[..., None, :]] * p.dimension
    else:
        spreads = [a + b for a, b in planes(p.covariance, q.covariance)]
    slope = np.zeros_like(logs)
    for spread, v in zip(spreads, difference, strict=True):
        width = 1 + 2 * gamma * spread
        slope -= spread / width + (v / width) ** 2
    return slope


def _factorised(spread: list[list[Floats]], v: list[Floats], gamma: float) -> Floats:
    """Factorise M = L D L' on planes of pairs, as `families._planes` does, with the derivative of every entry beside.

    ``spread`` is the lower triangle of S + S'; the derivative of M is twice that, and that of v is zero.
    """
    d = len(v)
    entry = [[2 * gamma * spread[i][j] + (i == j) for j in range(i + 1)] for i in range(d)]
    turned = [[2 * spread[i][j] for j in range(i + 1)] for i in range(d)]
    bent = [np.zeros_like(x) for x in v]
    log_det, quadratic, change = np.zeros_like(v[0]), np.zeros_like(v[0]), np.zeros_like(v[0])
    for k in range(d):
        inverse = 1 / entry[k][k]
        pace = turned[k][k] * inverse  # of the logarithm of the pivot
        log_det += pace
        term = v[k] * inverse
        quadratic += v[k] * term
        change += term * (2 * bent[k] - v[k] * pace)
        for i in range(k + 1, d):
            factor = entry[i][k] * inverse
            shift = turned[i][k] * inverse - factor * pace
            bent[i] = bent[i] - shift * v[k] - factor * bent[k]
            v[i] = v[i] - factor * v[k]
            for j in range(k + 1, i + 1):
                turned[i][j] = turned[i][j] - shift * entry[j][k] - factor * turned[j][k]
                entry[i][j] = entry[i][j] - factor * entry[j][k]
    return np.asarray(-log_det / 2 - quadratic - gamma * change)
