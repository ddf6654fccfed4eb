"""The batteries of kernels between networks and between factorial hidden Markov models."""

import itertools

import numpy as np
import pytest
from array_api_compat import array_namespace
from tests.models.test_bayesnet import brute_product
from tests.models.test_factorial_hmm import exact_product

import mercer as mc
from mercer.testing import Gradients, PluralContract


def simplex(z):
    """Probabilities from unconstrained numbers ``(..., k)``."""
    xp = array_namespace(z)
    p = xp.exp(z - xp.max(z, axis=-1, keepdims=True))
    return p / xp.sum(p, axis=-1, keepdims=True)


def network(z):
    """A hidden cause of two binary symptoms, one of which also has the other as a parent: 14 numbers."""
    xp = array_namespace(z)
    n = z.shape[0]
    tables = {
        "cause": simplex(z[:, :2]),
        "a": simplex(xp.reshape(z[:, 2:6], (n, 2, 2))),
        "b": simplex(xp.reshape(z[:, 6:14], (n, 2, 2, 2))),
    }
    return mc.BayesNets(tables, dict.fromkeys(tables, 2), {"a": ["cause"], "b": ["cause", "a"]}, ["cause"])


def factorial(z):
    """Two chains of two states, of one coordinate: 17 numbers."""
    xp = array_namespace(z)
    n = z.shape[0]
    return mc.models.FactorialHMMs(
        simplex(xp.reshape(z[:, :4], (n, 2, 2))),
        simplex(xp.reshape(z[:, 4:12], (n, 2, 2, 2))),
        xp.reshape(z[:, 12:16], (n, 2, 2, 1)),
        xp.reshape(xp.exp(z[:, 16:17]), (n, 1, 1)),
    )


class TestProductOfNetworks(Gradients, PluralContract):
    width, build = 14, staticmethod(network)

    def kernel(self):
        return mc.ProbabilityProduct(rho=0.5)

    def truth(self, X):
        pairs = itertools.product(range(len(X)), repeat=2)
        return np.array([brute_product(X, X, i, j, 0.5) for i, j in pairs]).reshape(len(X), -1)


class TestProductOfChains(PluralContract):
    width, build = 17, staticmethod(factorial)

    def kernel(self):
        return mc.ProbabilityProduct(rho=0.5, length=2)

    def truth(self, X):
        pairs = itertools.product(range(len(X)), repeat=2)
        return np.array([exact_product(X, X, i, j, 0.5, 2) for i, j in pairs]).reshape(len(X), -1)


def test_networks_of_several_structures():
    """A list of batches is one side of a matrix: its blocks are those of pairs of batches, by brute force."""
    z = np.random.default_rng(0).normal(size=(5, 14))
    tables = {name: simplex(z[3:, at : at + 2]) for name, at in (("b", 0), ("a", 2))}
    parts = [network(z[:3]), mc.BayesNets(tables, dict.fromkeys("ba", 2))]
    kernel = mc.ProbabilityProduct(rho=0.5, normalize=False)
    K = kernel(parts)
    for (i, p), (j, q) in itertools.product(enumerate(parts), repeat=2):
        block = [[brute_product(p, q, m, n, 0.5) for n in range(len(q))] for m in range(len(p))]
        np.testing.assert_allclose(K[3 * i : 3 * i + len(p), 3 * j : 3 * j + len(q)], block, rtol=1e-12)
    np.testing.assert_array_equal(kernel(parts, parts[1]), K[:, 3:])
    np.testing.assert_allclose(np.diag(mc.ProbabilityProduct()(parts)), 1.0)
    with pytest.raises(TypeError, match=r"a list of 2. Use kernel\(X\)"):
        kernel.fit(parts)


def test_hidden_markov_models_against_networks_name_the_conversion():
    """Which makes them comparable, as the message says."""
    coin = mc.Categoricals([[[0.3, 0.7], [0.1, 0.9]]], alphabet=["yes", "no"])
    hmms = mc.HMMs([[0.5, 0.5]], [[[0.9, 0.1], [0.1, 0.9]]], coin)
    tables = {"a": [[0.3, 0.7]], "b": [[[0.8, 0.2], [0.1, 0.9]]]}
    nets = mc.BayesNets(tables, dict.fromkeys(tables, ("yes", "no")), {"b": ["a"]})
    kernel = mc.ProbabilityProduct(rho=1.0)
    cure = "mc.BayesNets.from_hmm(hmms, len(nets.observed), nets.observed)"
    for pair in ((hmms, nets), (nets, hmms)):
        with pytest.raises(TypeError, match="must be of the same family") as caught:
            kernel(*pair)
        assert cure in str(caught.value)
    unrolled = eval(cure, {"mc": mc, "hmms": hmms, "nets": nets})
    strings = [list(word) for word in itertools.product(["yes", "no"], repeat=2)]
    p, q = (np.exp(models.log_prob(strings))[0] for models in (unrolled, nets))
    np.testing.assert_allclose(mc.ProbabilityProduct(rho=1.0, normalize=False)(unrolled, nets), [[p @ q]])
    np.testing.assert_allclose(p, np.exp(hmms.log_prob(strings))[0])
