"""Latent kernels of networks and factorial hidden Markov models against sums over all hidden states (LMMK-0)."""

import itertools

import numpy as np
import pytest
from tests.models.test_bayesnet import assignments, density, random_net
from tests.models.test_factorial_hmm import models
from tests.models.test_factorial_joint import SERIES

import mercer as mc
from mercer.testing import KernelContract

NAN = np.nan
GAMMA, STATES = 0.4, 0.7


def posteriors(net, row):
    """All assignments of states that agree with a row, with their probabilities given it."""
    seen = {name: v for name, v in zip(net.observed, row, strict=True) if not np.isnan(v)}
    nodes = dict(net.nodes)
    values = {name: v for name, v in seen.items() if not nodes[name]}
    found = []
    for states in assignments(net):
        if all(states[n] == nodes[n][int(v)] for n, v in seen.items() if nodes[n]):
            found.append((density(net, 0, states, values), states, values))
    total = sum(p for p, _, _ in found)
    return [(p / total, states, values) for p, states, values in found]


def truth(net, x, y, sharp=False):
    """The sum over all nodes of mean products of base kernels of the node and its parents."""
    nodes, parents = dict(net.nodes), dict(net.parents)
    off = {name: 0.0 if sharp else np.exp(-2 * (STATES if name in net.hidden else GAMMA)) for name in nodes}
    total = 0.0
    for a, b in itertools.product(x, y):
        for (p, z, v), (q, w, u) in itertools.product(posteriors(net, a), posteriors(net, b)):
            for name in nodes:
                family = [*parents[name], *([name] if nodes[name] else [])]
                kappa = np.prod([1.0 if z[n] == w[n] else off[n] for n in family])
                if not nodes[name]:
                    kappa *= np.exp(-GAMMA * (v[name] - u[name]) ** 2)
                total += p * q * kappa
    return total / (len(x) * len(y))


def by_truth(net, X, **options):
    return np.array([[truth(net, x, y, **options) for y in X] for x in X])


TABLES = [np.array(x) for x in ([[0, 1, 0]], [[1, NAN, 1.0], [0, 2, 0]], [[NAN, 1, NAN], [1, 2, 1]])]


@pytest.mark.parametrize("seed", range(2))
def test_networks_are_sums_over_all_states(seed):
    net = random_net(seed, size=1)
    kernel = mc.LatentMeanMap(net, gamma=GAMMA, gamma_states=STATES, normalize=False)
    np.testing.assert_allclose(kernel(TABLES), by_truth(net, TABLES), rtol=1e-10)
    rows = np.concatenate(TABLES)
    np.testing.assert_allclose(kernel(rows), by_truth(net, rows[:, None]), rtol=1e-10)
    features = kernel.features(TABLES)
    np.testing.assert_allclose(features @ features.T, kernel(TABLES), rtol=1e-10)
    counts = mc.PosteriorCounts(net, normalize=False)
    np.testing.assert_allclose(counts(TABLES), by_truth(net, TABLES, sharp=True), rtol=1e-10)
    names = counts.fit(TABLES).get_count_names()
    assert counts.features(TABLES).shape == (3, len(names))
    assert all(name.startswith("count[") for name in names)


def test_gaussian_leaves_are_points():
    net = random_net(1, size=1, gaussian=True)
    X = [
        np.column_stack([table, np.random.default_rng(k).normal(size=(len(table), 2))])
        for k, table in enumerate(TABLES)
    ]
    kernel = mc.LatentMeanMap(net, gamma=GAMMA, gamma_states=STATES, normalize=False)
    np.testing.assert_allclose(kernel(X), by_truth(net, X), rtol=1e-10)
    many = mc.LatentMeanMap(net, GAMMA, STATES, n_components=4000, normalize=False).fit(X)
    np.testing.assert_allclose(many(X), kernel(X), atol=0.1)
    X[1][0, 3] = NAN
    with pytest.raises(ValueError, match=r"Row 1 has no value of 'x'.*mc\.Fisher"):
        kernel(X)
    with pytest.raises(TypeError, match=r"got the Gaussian node 'x'\. Use mc\.LatentMeanMap"):
        mc.PosteriorCounts(net)(X)


def test_networks_are_fitted_to_tables():
    kernel = mc.LatentMeanMap(mc.BayesNet({"a": 2, "h": 2, "b": 3}, {"a": ["h"], "b": ["h"]}, ["h"]))
    X = [table[:, :2] for table in TABLES]
    assert mc.gram.psd.check(kernel.fit_transform(X))
    counts = mc.PosteriorCounts(mc.BayesNet({"a": 2, "h": 2, "b": 3}, {"a": ["h"], "b": ["h"]}, ["h"])).fit(X)
    names = counts.get_count_names().tolist()
    assert [names[0], *names[4:6]] == ["count[h=0, a=0]", "count[h=0]", "count[h=1]"]
    with pytest.raises(ValueError, match="k must be 1 for BayesNets"):
        mc.PosteriorCounts(random_net(0, size=1), k=2)(TABLES)
    sure = mc.BayesNets({"a": [[1.0, 0.0]]}, {"a": 2})
    with pytest.raises(ValueError, match="Row 1 has probability zero"):
        mc.LatentMeanMap(sure)([[0], [1]])


def test_one_chain_of_vectors_is_a_hidden_markov_model():
    one = models(1, 1, chains=1, n=3, d=2)
    covariance = np.repeat(one.covariance[:, None], 3, axis=1)
    plain = mc.HMMs(one.initial[:, 0], one.transition[:, 0], mc.Gaussians(one.mean[:, 0], covariance))
    for options in ({}, {"gamma_states": 0.2, "transitions": False}, {"n_components": 50}):
        kernels = [mc.LatentMeanMap(m, gamma=0.3, **options).fit(SERIES) for m in (one, plain)]
        np.testing.assert_allclose(kernels[0](SERIES), kernels[1](SERIES), rtol=1e-10)
    with pytest.raises(TypeError, match=r"PosteriorCounts needs models of symbols.*mc\.LatentMeanMap"):
        mc.PosteriorCounts(one)(SERIES)
    with pytest.raises(ValueError, match="2,048 joint states"):
        mc.LatentMeanMap(models(0, 1, chains=11, d=2))(SERIES)


def test_two_chains_compare_the_states_of_both():
    """The state kernel is a product over the chains, and the transitions of the chains add up."""
    model = models(3, 1, d=2)
    joint = model.hmms()
    kernel = mc.LatentMeanMap(model, GAMMA, STATES, normalize=False)
    off = np.where(np.eye(2, dtype=bool), 1.0, np.exp(-2 * STATES))
    found = joint.posterior(SERIES)
    shares = [np.asarray(found[k]) / len(x) for k, x in enumerate(SERIES)]
    both = np.kron(off, off)

    def observations(i, j):
        near = np.exp(-GAMMA * ((SERIES[i][:, None] - SERIES[j]) ** 2).sum(axis=-1))
        return np.sum(near * (shares[i] @ both @ shares[j].T))

    expected = np.array([[observations(i, j) for j in range(4)] for i in range(4)])
    without = mc.LatentMeanMap(model, GAMMA, STATES, transitions=False, normalize=False)
    np.testing.assert_allclose(without(SERIES), expected, rtol=1e-10)
    lengths = np.array([len(x) for x in SERIES])
    for c in range(2):
        steps = found.transitions.reshape(-1, 2, 2, 2, 2).sum(axis=(2 - c, 4 - c))
        steps = steps / np.maximum(lengths - 1, 1)[:, None, None]
        expected = expected + np.einsum("nij,ik,mkl,lj->nm", steps, off, steps, off)
    np.testing.assert_allclose(kernel(SERIES), expected, rtol=1e-10)


class TestNetworks(KernelContract):
    features = True
    net = random_net(4, size=1)

    def kernel(self):
        return mc.LatentMeanMap(self.net, gamma=GAMMA, gamma_states=STATES)

    def data(self, seed, n):
        return self.net.sample(n, random_state=seed)[0]

    def other_data(self, seed, n):
        return None

    def truth(self, X):
        return by_truth(self.net, X[:, None])
