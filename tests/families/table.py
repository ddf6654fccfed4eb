"""The families and what their properties need: a new family is a row here, and no test file.

A row says how to make random members, and where to integrate or sum: points and weights whose weighted sums are
integrals (a fine grid in a variable in which everything is smooth) or sums over all outcomes. `exact` writes the log
partition function for mpmath.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np

from mercer import families as f

mp = mpmath.mp
RHOS = (0.3, 0.5, 1.0, 2.0)


# -- where to integrate ------------------------------------------------------------------------------------------------


def grid(*axes):
    """Points ``(T, d)`` and weights ``(T,)`` of a product of one-dimensional rules."""
    points = np.stack(np.meshgrid(*(x for x, _ in axes), indexing="ij"), axis=-1).reshape(-1, len(axes))
    weights = np.prod(np.stack(np.meshgrid(*(w for _, w in axes), indexing="ij"), axis=-1), axis=-1).ravel()
    return points, weights


def whole(n):
    return np.arange(float(n)), np.ones(n)


def line(reach=10.0, step=0.2):
    x = np.arange(-reach, reach, step)
    return x, np.full(len(x), step)


def half_line(low=-30.0, high=5.0, step=0.15):
    x = np.exp(np.arange(low, high, step))
    return x, step * x


def interval(step=0.2):
    u = np.arange(-36, 36, step)
    x = 1 / (1 + np.exp(-u))
    return x, step * x / (1 + np.exp(u))


def simplex(k, step=0.3, reach=24):
    u = np.stack(np.meshgrid(*[np.arange(-reach, reach, step)] * (k - 1), indexing="ij"), -1).reshape(-1, k - 1)
    e = np.exp(np.concatenate([u, np.zeros((len(u), 1))], axis=1))
    x = e / e.sum(axis=1, keepdims=True)
    return x, step ** (k - 1) * x.prod(axis=1)


def sphere(n=60):
    z, w = np.polynomial.legendre.leggauss(n)
    phi = 2 * np.pi * np.arange(n) / n
    z, phi = np.meshgrid(z, phi, indexing="ij")
    s = np.sqrt(1 - z * z)
    return np.stack([s * np.cos(phi), s * np.sin(phi), z], -1).reshape(-1, 3), np.repeat(w, n) * 2 * np.pi / n


def outcomes(k, s):
    x = np.array([row for row in itertools.product(range(s + 1), repeat=k) if sum(row) == s], dtype=float)
    return x, np.ones(len(x))


def definite(step=0.25):
    a, c = np.arange(-7, 3, step), np.arange(-7, 3, step)
    b = np.sinh(np.arange(-4, 4, 0.2))
    wide = 0.2 * np.cosh(np.arange(-4, 4, 0.2))
    (x, w) = grid((a, np.full(len(a), step)), (b, wide), (c, np.full(len(c), step)))
    p, q, r = np.exp(x[:, 0]), x[:, 1], np.exp(x[:, 2])
    flat = np.stack([p * p, p * q, p * q, q * q + r * r], axis=-1)
    return flat, w * 4 * p**3 * r**2


# -- the table ---------------------------------------------------------------------------------------------------------


@dataclass
class Row:
    """What the properties need to know of a family."""

    members: Callable[..., Any]
    nodes: tuple[Any, Any]
    fit: Any = None
    exact: Callable[..., Any] | None = None  # log partition of a list of mpf
    extreme: Callable[[], Any] | None = None
    boundary: Callable[[], Any] | None = None
    rhos: tuple[float, ...] = RHOS
    exponential: bool = True
    data: Any = None
    vectors: bool = True  # points are vectors of numbers
    tolerance: float = 1e-8


def uniform(low, high, d=2):
    return lambda rng, shape: rng.uniform(low, high, size=(*shape, d))


def units(rng, shape, d=3):
    x = rng.normal(size=(*shape, d))
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def covariances(rng, shape, d=2):
    a = rng.normal(size=(*shape, d, d)) / 2
    return a @ np.swapaxes(a, -1, -2) + 0.5 * np.eye(d)


def frequencies(rng, shape, k=3):
    return rng.dirichlet(np.ones(k), size=shape) * (1 - 0.01 * k) + 0.01


def column(*values):
    return np.array(values)[:, None]


def halves(t):
    return zip(t[: len(t) // 2], t[len(t) // 2 :], strict=True)


def log_bessel(c):
    return log(mp.besseli(0.5, c)) - log(c) / 2


def determinant(t):
    return t[0] * t[2] - t[1] * t[1] / 2


KNOWN = np.array([[1.0, 0.3], [0.3, 0.7]])
log, exp, lgamma = mp.log, mp.exp, mp.loggamma
ROWS: dict[str, Row] = {
    "Poisson": Row(
        lambda r, s: f.Poissons(uniform(0.3, 6)(r, s)),
        grid(whole(55), whole(55)),
        f.Poisson(),
        lambda t: sum(map(exp, t)),
        lambda: f.Poissons(column(1e-300, 1e-9, 0.3, 1e4, 1e8)),
        lambda: f.Poissons([[0.0, 2.0], [1.5, 0.0], [0.0, 0.0], [3.0, 4.0]]),
    ),
    "Bernoulli": Row(
        lambda r, s: f.Bernoullis(uniform(0.05, 0.95)(r, s)),
        grid(whole(2), whole(2)),
        f.Bernoulli(),
        lambda t: sum(log(1 + exp(v)) for v in t),
        lambda: f.Bernoullis(column(1e-200, 1e-9, 0.5, 1 - 1e-9)),
        lambda: f.Bernoullis([[0.0, 0.4], [0.3, 1.0], [1.0, 1.0], [0.0, 0.0]]),
    ),
    "Geometric": Row(
        lambda r, s: f.Geometrics(uniform(0.25, 0.9)(r, s)),
        grid(whole(120), whole(120)),
        f.Geometric(),
        lambda t: sum(-log(1 - exp(v)) for v in t),
        lambda: f.Geometrics(column(1e-9, 1e-3, 0.5, 1 - 1e-12)),
        lambda: f.Geometrics([[1.0, 0.5], [0.5, 0.9], [1.0, 1.0]]),
    ),
    "NegativeBinomial": Row(
        lambda r, s: f.NegativeBinomials(uniform(0.3, 4)(r, s), 2.5),
        grid(whole(110), whole(110)),
        f.NegativeBinomial(size=2.5),
        lambda t: sum(-2.5 * log(1 - exp(v)) for v in t),
        lambda: f.NegativeBinomials(column(1e-9, 0.3, 50.0, 3e4), 2.5),
        lambda: f.NegativeBinomials([[0.0, 2.0], [1.5, 0.0], [0.5, 0.9]], 2.5),
    ),
    "Exponential": Row(
        lambda r, s: f.Exponentials(uniform(0.5, 3)(r, s)),
        grid(half_line(), half_line()),
        f.Exponential(),
        lambda t: sum(-log(-v) for v in t),
        lambda: f.Exponentials(column(1e-150, 0.3, 4.0, 1e150)),
    ),
    "Gamma": Row(
        lambda r, s: f.Gammas(uniform(1, 4)(r, s), uniform(0.5, 2)(r, s)),
        grid(half_line(), half_line()),
        f.Gamma(floor=0.0),
        lambda t: sum(lgamma(a) - a * log(-b) for a, b in halves(t)),
        lambda: f.Gammas(column(0.9, 30.0, 1e8, 1.0001e8), column(2.0, 0.1, 1e-8, 1e-8)),
    ),
    "InverseGaussian": Row(
        lambda r, s: f.InverseGaussians(uniform(0.5, 3)(r, s), uniform(0.5, 3)(r, s)),
        grid(half_line(-7, 8.5, 0.12), half_line(-7, 8.5, 0.12)),
        f.InverseGaussian(floor=0.0),
        lambda t: sum(-log(-2 * b) / 2 - 2 * mp.sqrt(a * b) for a, b in halves(t)),
        lambda: f.InverseGaussians(column(1e-3, 1.0, 50.0), column(1e3, 1e-3, 1.0)),
    ),
    "Rayleigh": Row(
        lambda r, s: f.Rayleighs(uniform(0.5, 3)(r, s)),
        grid(half_line(-30, 3.5), half_line(-30, 3.5)),
        f.Rayleigh(),
        lambda t: sum(-log(-2 * v) for v in t),
        lambda: f.Rayleighs(column(1e-70, 0.3, 4.0, 1e70)),
    ),
    "Beta": Row(
        lambda r, s: f.Betas(uniform(1, 4)(r, s), uniform(1, 4)(r, s)),
        grid(interval(), interval()),
        f.Beta(floor=0.0),
        lambda t: sum(lgamma(a) + lgamma(b) - lgamma(a + b) for a, b in halves(t)),
        lambda: f.Betas(column(0.01, 3.0, 1e3, 1e6), column(0.02, 1e-2, 2.0, 1e6)),
    ),
    "Dirichlet": Row(
        lambda r, s: f.Dirichlets(uniform(1, 4, 3)(r, s)),
        simplex(3),
        f.Dirichlet(floor=0.0),
        lambda t: sum(map(lgamma, t)) - lgamma(sum(t)),
        lambda: f.Dirichlets([[0.01, 0.1, 1.0], [3.0, 4.0, 5.0], [1e3, 1.0, 0.1], [1e5, 1e5, 1e4]]),
    ),
    "Categorical": Row(
        lambda r, s: f.Categoricals(frequencies(r, s, 4), "dna"),
        (np.arange(4), np.ones(4)),
        f.Categorical("dna"),
        lambda t: log(sum(map(exp, t))),
        lambda: f.Categoricals([[1e-200, 1.0, 0.0, 0.0], [0.25] * 4], "dna"),
        lambda: f.Categoricals([[0.5, 0.5, 0, 0], [0, 0, 0.3, 0.7], [0.1, 0.2, 0.3, 0.4], [1, 0, 0, 0]], "dna"),
        data=["ACCAG", "GTA", "TTTACGA", "ACGT"],
        vectors=False,
    ),
    "Multinomial": Row(
        lambda r, s: f.Multinomials(frequencies(r, s), trials=3),
        outcomes(3, 3),
        f.Multinomial(trials=3),
        lambda t: 3 * log(sum(map(exp, t))),
        lambda: f.Multinomials([[1e-200, 1.0, 0.0], [0.2, 0.3, 0.5]], trials=40),
        lambda: f.Multinomials([[0.5, 0.5, 0], [0, 0.3, 0.7], [0.1, 0.2, 0.7], [1, 0, 0]], trials=3),
    ),
    "VonMisesFisher": Row(
        lambda r, s: f.VonMisesFishers(units(r, s), r.uniform(0.5, 6, s)),
        sphere(),
        f.VonMisesFisher(floor=0.0),
        lambda t: log_bessel(mp.sqrt(sum(v * v for v in t))) + 1.5 * log(2 * mp.pi),
        lambda: f.VonMisesFishers(np.eye(3), [1e-8, 1.0, 1e4]),
        lambda: f.VonMisesFishers(np.eye(3)[:2], [0.0, 2.0]),
    ),
    "Wishart": Row(
        lambda r, s: f.Wisharts(covariances(r, s) / 3, r.uniform(3, 5, s)),
        definite(),
        f.Wishart(floor=0.0),
        lambda t: log(mp.pi) / 2 + lgamma(t[3] + 1.5) + lgamma(t[3] + 1) - (t[3] + 1.5) * log(determinant(t)),
        lambda: f.Wisharts(np.array([1e-6, 1.0, 1e6])[:, None, None] * KNOWN, [0.1, 3.0, 1e5]),
        rhos=(0.3, 0.5, 1.0),
        tolerance=1e-5,
    ),
    "GaussianMean": Row(
        lambda r, s: f.GaussianMeans(r.normal(size=(*s, 2)), KNOWN),
        grid(line(), line()),
        f.GaussianMean(covariance=KNOWN.tolist()),
        lambda t: (mp.matrix([t]) * mp.matrix(KNOWN.tolist()) * mp.matrix(t))[0] / 2,
        lambda: f.GaussianMeans([[1e6, -1e6], [1e6 + 1, -1e6], [1e-6, 0.0]], KNOWN),
    ),
    "GaussianCovariance": Row(
        lambda r, s: f.GaussianCovariances(covariances(r, s), np.ones(2)),
        grid(line(14, 0.2), line(14, 0.2)),
        f.GaussianCovariance(mean=1.0, floor=0.0),
        lambda t: log(mp.pi) - log(determinant(t)) / 2,
        lambda: f.GaussianCovariances([1e-6 * KNOWN, KNOWN, 1e6 * KNOWN], 0.0),
    ),
    # not exponential families: a density and draws, perhaps a product
    "DirichletMultinomial": Row(
        lambda r, s: f.DirichletMultinomials(uniform(0.3, 4, 3)(r, s), trials=4),
        outcomes(3, 4),
        exponential=False,
        extreme=lambda: f.DirichletMultinomials([[1e-3, 1.0, 1e3], [1e6, 2e6, 1e6], [1e-3, 1e-3, 1e-3]], trials=50),
    ),
    "NegativeBinomial of any size": Row(
        lambda r, s: f.NegativeBinomials(uniform(0.3, 4)(r, s), uniform(0.5, 4)(r, s)),
        grid(whole(250), whole(250)),
        exponential=False,
    ),
    "StudentT": Row(
        lambda r, s: f.StudentTs(r.normal(size=(*s, 2)), covariances(r, s), r.uniform(5, 9, s)),
        grid(*[(np.sinh(np.arange(-8, 8, 0.1)), 0.1 * np.cosh(np.arange(-8, 8, 0.1)))] * 2),
        rhos=(),
        exponential=False,
    ),
    "Lomax": Row(
        lambda r, s: f.Lomaxes(uniform(3, 6)(r, s), uniform(0.5, 3)(r, s)),
        grid(half_line(-30, 16), half_line(-30, 16)),
        rhos=(),
        exponential=False,
    ),
}
