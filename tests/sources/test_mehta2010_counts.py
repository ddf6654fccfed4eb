"""Mehta and Gray 2010, 3.2.1: the generative mean map of multinomials, which the source leaves open."""

import itertools

import numpy as np
from scipy.special import gammaln

import mercer as mc


def outcomes(a, trials):
    """All vectors of counts with this total, and their probabilities."""
    x = np.array([c for c in itertools.product(range(trials + 1), repeat=a.shape[1]) if sum(c) == trials])
    ways = np.exp(gammaln(trials + 1) - gammaln(x + 1).sum(axis=1))
    return x, ways * np.prod(a[:, None] ** x, axis=-1)


def test_m7_vectors_of_counts():
    """Equation 4, the mean of exp(-gamma |x - y|^2) over all pairs of vectors of counts of s and s' draws."""
    rng, gamma = np.random.default_rng(0), 0.3
    a, b = rng.dirichlet(np.ones(3), 4), rng.dirichlet(np.ones(3), 3)
    a[0], b[0] = [1, 0, 0], [0, 0.5, 0.5]
    exact = mc.MeanMap(gamma=gamma, base="counts", normalize=False)
    random = mc.MeanMap(gamma=gamma, base="counts", normalize=False, n_components=4000)
    for s, t in ((1, 1), (4, 4), (3, 6)):
        (x, p), (y, q) = outcomes(a, s), outcomes(b, t)
        base = np.exp(-gamma * np.sum((x[:, None] - y) ** 2, axis=-1))
        pair = mc.Multinomials(a, trials=s), mc.Multinomials(b, trials=t)
        np.testing.assert_allclose(exact(*pair), p @ base @ q.T, rtol=1e-12)
        assert (np.abs(random(*pair) - exact(*pair)) < 4.5 * random.standard_errors(*pair)).all()
    documents = np.array([[2, 0, 1], [1, 1, 4]])
    kernel = mc.MeanMap(mc.Multinomial(trials=5), gamma=gamma, base="counts", normalize=False)
    x, p = outcomes(documents / documents.sum(axis=1, keepdims=True), 5)
    base = np.exp(-gamma * np.sum((x[:, None] - x) ** 2, axis=-1))
    np.testing.assert_allclose(kernel(documents), p @ base @ p.T, rtol=1e-12)
