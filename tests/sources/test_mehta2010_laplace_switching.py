"""Mehta and Gray 2010: the Laplace base kernel, latent mean maps of any model, mean maps of switching systems."""

from itertools import pairwise

import numpy as np
from scipy.integrate import quad
from scipy.stats import multivariate_normal, norm
from tests.sources.test_jebara2004_sampling import paths, switching

import mercer as mc


def test_m2_laplace_base_kernel():
    rng, beta = np.random.default_rng(0), 0.7
    x, y = rng.normal(size=(4, 2)), rng.normal(size=(3, 2)) + 1

    def average(a, b):
        return np.mean([np.exp(-beta * np.sum(np.abs(p - q))) for p in a for q in b])

    expected = [[average(a, b) for b in (x, y)] for a in (x, y)]
    found = mc.EmpiricalMeanMap(gamma=beta, base="laplace", normalize=False)([x, y])
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(mc.Laplace(beta)(x)[0, 1], np.exp(-beta * np.abs(x[0] - x[1]).sum()), rtol=1e-12)
    mean, sd = np.array([0.0, 1.5]), np.array([1.0, 0.5])
    spread = np.sqrt(sd[0] ** 2 + sd[1] ** 2)

    def term(d):
        return np.exp(-beta * abs(d)) * norm.pdf(d, mean[0] - mean[1], spread)

    integral = sum(quad(term, a, b, epsabs=0, epsrel=1e-12)[0] for a, b in pairwise([-14, -1.5, 0, 3, 12]))
    p = mc.Gaussians(mean[:, None], sd**2)
    exact = mc.MeanMap(gamma=beta, base="laplace", normalize=False)(p)
    np.testing.assert_allclose(exact[0, 1], integral, rtol=1e-9)
    random = mc.MeanMap(gamma=beta, base="laplace", normalize=False, n_components=2000)
    assert (np.abs(random(p) - exact) < 4.5 * random.standard_errors(p)).all()


def test_m13_latent_mean_map_of_a_switching_system():
    """Equation 23 with the cliques of observations with regimes and of two regimes, over all paths."""
    model, parameters = switching(2, 0)
    first, rng = parameters[0], np.random.default_rng(0)
    X = [np.array([[0.2], [1.0], [-0.5], [0.1]]), np.array([[-1.0], [0.3], [0.8]])]
    gamma, states = 0.5, 0.4

    def posterior(x):
        every = list(np.ndindex(*(len(first),) * len(x)))
        weights = np.array([p * multivariate_normal(m, s).pdf(x[:, 0]) for p, m, s in paths(parameters, len(x))])
        return list(zip(every, weights / weights.sum(), strict=True))

    def different(i, j):
        return 1.0 if i == j else np.exp(-2 * states)

    def pair(x, y):
        total = 0.0
        for (a, p), (b, q) in ((a, b) for a in posterior(x) for b in posterior(y)):
            seen = [
                np.exp(-gamma * (u - v) ** 2) * different(i, j)
                for u, i in zip(x[:, 0], a, strict=True)
                for v, j in zip(y[:, 0], b, strict=True)
            ]
            steps = [different(i, j) * different(k, m) for i, k in pairwise(a) for j, m in pairwise(b)]
            total += p * q * (np.mean(seen) + np.mean(steps))
        return total

    kernel = mc.LatentMeanMap(model, gamma=gamma, gamma_states=states, normalize=False)
    np.testing.assert_allclose(kernel(X), [[pair(x, y) for y in X] for x in X], rtol=1e-9)
    letters = mc.Gaussians(rng.normal(size=(1, 2, 1)), np.ones((1, 2)))
    chain, weights = rng.dirichlet(np.ones(2), (1, 2)), rng.dirichlet(np.ones(2), 1)
    net = mc.BayesNet({"x": "gaussian", "h": 2}, {"x": ["h"]}, ["h"], n_init=1)
    start, moves = rng.dirichlet(np.ones(2), (1, 2)), rng.dirichlet(np.ones(2), (1, 2, 2))
    factorial = mc.models.FactorialHMMs(start, moves, rng.normal(size=(1, 2, 2, 1)), np.ones((1, 1, 1)))
    hidden = mc.HMMs(weights, chain, letters), mc.Mixtures(weights, letters), factorial
    for other in (*hidden, model.systems[0][:1], net):
        assert np.linalg.eigvalsh(mc.LatentMeanMap(other).fit(X).transform(X)).min() > 0


def test_m24_mean_maps_of_switching_systems_by_sampling():
    models, length, gamma = [switching(2, 0), switching(3, 1)], 3, 0.4

    def gaussian(p, q):
        """Lemma 1 for the stacked sequence."""
        (_, m, s), (_, n, v) = p, q
        joint = np.eye(length) / (2 * gamma) + s + v
        return (np.pi / gamma) ** (length / 2) * multivariate_normal(m - n, joint).pdf(np.zeros(length))

    sides = [list(paths(parameters, length)) for _, parameters in models]
    expected = np.array([[sum(p[0] * q[0] * gaussian(p, q) for p in a for q in b) for b in sides] for a in sides])
    options = {"gamma": gamma, "length": length, "normalize": False}
    batches = [batch for batch, _ in models]
    np.testing.assert_allclose(mc.MeanMap(**options)(batches), expected, rtol=1e-9)
    drawn = [mc.MeanMap(**options, n_paths=6, random_state=i)(batches)[0, 1] for i in range(60)]  # of 8 and 27 paths
    assert abs(np.mean(drawn) - expected[0, 1]) < 4.5 * np.std(drawn) / np.sqrt(60)
    draws = [batch.sample(length, 400, random_state=i)[0].reshape(400, -1) for i, batch in enumerate(batches)]
    empirical = mc.EmpiricalMeanMap(gamma=gamma, normalize=False)(draws)[0, 1]  # for any model that can be sampled
    terms = np.exp(-gamma * np.sum((draws[0] - draws[1]) ** 2, axis=1))
    assert abs(empirical - expected[0, 1]) < 4.5 * terms.std() / np.sqrt(400)
