"""Mehta and Gray 2010, sections 4 and 5: the latent mean map kernel, and the limit of large lambda."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import gammaln

import mercer as mc

LAMBDA = 0.7
"""The base kernel is exp(-LAMBDA |x - y|^2 / 2), as in section 3 of the paper."""


def base(x, y):
    """Gaussian kernels of all pairs of numbers."""
    return np.exp(-LAMBDA / 2 * (np.asarray(x)[:, None] - np.asarray(y)) ** 2)


def indices(n, length):
    return np.array(list(itertools.product(range(n), repeat=length)))


# -- section 4: the latent mean map kernel -------------------------------------------------------------------------

START, STEP = np.array([0.6, 0.4]), np.array([[0.8, 0.2], [0.3, 0.7]])
LETTERS = np.array([[0.6, 0.3, 0.1], [0.1, 0.2, 0.7]])
MEAN, VARIANCE = np.array([0.0, 1.0]), np.array([1.0, 0.5])
DISCRETE = mc.HMMs(START[None], STEP[None], mc.Categoricals(LETTERS[None], alphabet="abc"))
CONTINUOUS = mc.HMMs(START[None], STEP[None], mc.Gaussians(MEAN[None, :, None], VARIANCE[None]))
SERIES = [np.array([0.1, 0.9, 1.2, -0.3]), np.array([1.1, 0.2, 0.5])]
CODES = [np.array([0, 2, 2, 1]), np.array([2, 0, 1])]


def posterior(likelihood):
    """All hidden paths, and their probabilities given the observations."""
    paths = indices(2, len(likelihood))
    p = START[paths[:, 0]] * np.prod(STEP[paths[:, :-1], paths[:, 1:]], axis=1)
    p = p * np.prod(likelihood[np.arange(len(likelihood)), paths], axis=1)
    return paths, p / p.sum()


def cliques(alike, likelihoods):
    """Equation (23) by enumeration: the means of the kernels of both cliques over all pairs of hidden paths."""
    (paths, p), (others, q) = (posterior(one) for one in likelihoods)
    seen = linked = 0.0
    e = np.exp(-LAMBDA)
    for (path, a), (other, b) in itertools.product(zip(paths, p, strict=True), zip(others, q, strict=True)):
        same = np.where(path[:, None] == other, 1.0, e)
        seen += a * b * np.mean(alike * same)
        linked += a * b * np.mean(same[:-1, :-1] * same[1:, 1:])
    return seen, linked


@pytest.mark.parametrize("kind", ["discrete", "continuous"])
def test_m15_hidden_markov_models(kind):
    if kind == "discrete":
        model, data = DISCRETE, ["".join("abc"[c] for c in x) for x in CODES]
        alike = np.where(CODES[0][:, None] == CODES[1], 1.0, np.exp(-LAMBDA))
        likelihoods = [LETTERS[:, x].T for x in CODES]
    else:
        model, data, alike = CONTINUOUS, SERIES, base(*SERIES)
        likelihoods = [
            np.exp(-((x[:, None] - MEAN) ** 2) / (2 * VARIANCE)) / np.sqrt(2 * np.pi * VARIANCE) for x in SERIES
        ]
    seen, linked = cliques(alike, likelihoods)
    kernel = mc.LatentMeanMap(model, gamma=LAMBDA / 2, transitions=False, normalize=False)
    assert_allclose(kernel(data)[0, 1], seen, rtol=1e-12)  # equations (29) to (31) without the case j = i (E28)
    both = mc.LatentMeanMap(model, gamma=LAMBDA / 2, normalize=False)
    assert_allclose(both(data)[0, 1], seen + linked, rtol=1e-12)  # and equation (32)


def test_m14_gaussians_of_the_distance():
    K, nu = mc.LatentMeanMap(CONTINUOUS, normalize=False)([*SERIES, np.array([0.0, 0.3])]), 2.5
    expected = [[np.exp(-nu * (K[i, i] - 2 * K[i, j] + K[j, j])) for j in range(3)] for i in range(3)]
    kernel = mc.kernels.Gaussianized(mc.LatentMeanMap(CONTINUOUS, normalize=False), gamma=nu)
    assert_allclose(kernel([*SERIES, np.array([0.0, 0.3])]), expected, rtol=1e-12)


def taylor_mean(x, terms=40):
    """Mean of the explicit features of exp(-LAMBDA (x - y)^2 / 2): a Taylor series that is cut off."""
    n = np.arange(terms)
    factor = np.exp((n * np.log(LAMBDA) - gammaln(n + 1)) / 2)
    return np.mean(factor * x[:, None] ** n * np.exp(-LAMBDA * x[:, None] ** 2 / 2), axis=0)


def test_m16_explicit_features():
    by_series = np.array([taylor_mean(x) for x in SERIES])
    exact = by_series @ by_series.T
    assert_allclose(exact[0, 1], base(*SERIES).mean(), rtol=1e-12)
    kernel = mc.EmpiricalMeanMap(gamma=LAMBDA / 2, n_components=4000, normalize=False)
    features = kernel.features(SERIES)  # of finite length, so that their means are computed once per series
    assert features.shape == (2, 8000)
    assert np.all(np.abs(features @ features.T - exact) <= 4 * kernel.standard_errors(SERIES) + 1e-12)

    options = {"gamma": LAMBDA / 2, "normalize": False}
    exact = mc.LatentMeanMap(CONTINUOUS, **options)(SERIES)
    random = mc.LatentMeanMap(CONTINUOUS, n_components=4000, **options).features(SERIES)
    assert_allclose(random @ random.T, exact, atol=0.01)  # a standard error is at most 4000 ** -0.5 = 0.016


# -- section 5: probability products -------------------------------------------------------------------------------

PAIR = mc.Gaussians([[0.0], [1.0]], [[1.0], [0.5]])


def scaled(gamma):
    """The mean map of exp(-gamma |x - y|^2), divided by its integral."""
    return np.sqrt(gamma / np.pi) * mc.MeanMap(gamma=gamma, normalize=False)(PAIR)[0, 1]


def test_m17_probability_product_as_a_limit():
    x = np.linspace(-15, 15, 6001)
    densities = np.exp(-((x - PAIR.mean) ** 2) / (2 * np.array([[1.0], [0.5]]))) / np.sqrt([[2 * np.pi], [np.pi]])
    limit = np.trapezoid(densities[0] * densities[1], x)
    assert_allclose(scaled(1e7), limit, rtol=1e-6)
    gaps = [abs(scaled(gamma) - limit) for gamma in (100.0, 1000.0)]
    assert 9 < gaps[0] / gaps[1] < 11  # of order 1 / lambda (E29), not exponential


def test_m17_mean_of_probability_products():
    gamma = 1.3  # lambda of section 5, where the standard deviation of the normal distributions is sigma
    sigma = (2 * gamma) ** -0.5
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / np.sqrt(2 * np.pi)
    sides = []
    for fixed, drawn in ((0, 1), (1, 0)):
        points = PAIR.mean[drawn] + np.sqrt(PAIR.covariance[drawn].item()) * nodes
        around = mc.Gaussians(points[:, None], np.full((60, 1), sigma**2))
        products = mc.ProbabilityProduct(rho=1.0, normalize=False)(PAIR[fixed : fixed + 1], around)
        sides.append(products[0] @ weights)
    assert_allclose(sides, scaled(gamma), rtol=1e-12)  # equation (34): both are the scaled mean map


def test_m18_networks(rng):
    tables = {"h": rng.dirichlet(np.ones(2)), "x0": rng.dirichlet(np.ones(2), 2), "x1": rng.dirichlet(np.ones(2), 2)}
    net = mc.BayesNets(
        {name: table[None] for name, table in tables.items()},
        {"h": 2, "x0": ["0", "1"], "x1": ["0", "1"]},
        {"x0": ["h"], "x1": ["h"]},
        hidden=["h"],
    )
    p = np.einsum("h,hx,hy->xy", *tables.values())
    letters = LETTERS[:, :2] / LETTERS[:, :2].sum(axis=1, keepdims=True)
    hmm = mc.HMMs(START[None], STEP[None], mc.Categoricals(letters[None], alphabet=["0", "1"]))
    q = np.einsum("i,ij,ix,jy->xy", START, STEP, letters, letters)
    k = np.where(np.eye(2), 1.0, np.exp(-LAMBDA))  # couples every observed variable with its partner
    expected = np.einsum("ab,cd,ac,bd->", p, q, k, k)
    kernel = mc.MeanMap(gamma=LAMBDA / 2, normalize=False)
    assert_allclose(kernel(net, mc.BayesNets.from_hmm(hmm, 2, ["x0", "x1"])), [[expected]], rtol=1e-12)
