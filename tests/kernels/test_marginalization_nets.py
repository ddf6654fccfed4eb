"""Marginalization kernels of Bayesian networks: two samples share the hidden nodes (MK-2)."""

import itertools

import numpy as np
import pytest

import mercer as mc

PARENTS = {"k": ["h"], "a": ["h"], "b": ["k", "a"], "x": ["k"]}


def net(seed=0, gaussian=False):
    rng = np.random.default_rng(seed)
    nodes = {"h": 2, "k": 3, "a": 2, "b": 2} | ({"x": "gaussian"} if gaussian else {})
    above = {name: u for name, u in PARENTS.items() if name in nodes}
    tables = {
        name: rng.dirichlet(np.ones(size), size=(1, *(nodes[u] for u in above.get(name, []))))
        for name, size in nodes.items()
        if size != "gaussian"
    }
    extra = {"mean": {"x": rng.normal(size=(1, 3))}, "variance": {"x": rng.gamma(2.0, size=(1, 3))}}
    return mc.BayesNets(tables, nodes, above, ["h", "k"], **(extra if gaussian else {}))


def test_it_is_the_sum_over_shared_hidden_states():
    model = net()
    points = np.array(list(itertools.product(range(2), repeat=2)), dtype=float)
    expected = np.zeros((4, 4))
    for h, k in itertools.product(range(2), range(3)):
        prior = model.table("h")[0, h] * model.table("k")[0, h, k]
        given = np.array([model.table("a")[0, h, int(a)] * model.table("b")[0, k, int(a), int(b)] for a, b in points])
        expected += prior * np.outer(given, given)
    found = mc.Marginalization(model, normalize=False)(points)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(found.sum(), 1, rtol=1e-12)
    np.testing.assert_allclose(found.sum(axis=1), np.exp(model.log_prob(points)[0]), rtol=1e-12)
    missing = mc.Marginalization(model, normalize=False)([[np.nan, 0]], points)
    np.testing.assert_allclose(missing, expected[[0, 2]].sum(axis=0, keepdims=True), rtol=1e-12)
    np.testing.assert_allclose(mc.Marginalization(model, normalize=False).diag(points), np.diag(expected), rtol=1e-12)


def test_gaussian_nodes_learned_models_and_far_points():
    model = net(gaussian=True)
    X = model.sample(6, random_state=0)[0]
    X[0, 2] = np.nan
    K = mc.Marginalization(model)(X)
    assert np.linalg.eigvalsh(K).min() > -1e-12
    far = np.array([[0, 0, 1e4], [0, 0, -1e4]])
    assert np.isfinite(mc.Marginalization(model).log(far)).all()
    estimator = mc.BayesNet(
        dict.fromkeys("hkab", 2), {"k": ["h"], "a": ["h"], "b": ["k", "a"]}, ["h", "k"], n_iter=3, tol=0
    )
    assert mc.Marginalization(estimator).fit_transform(X[:, :2]).shape == (6, 6)


@pytest.mark.slow
def test_special_cases():
    rng = np.random.default_rng(0)
    emission = mc.Categoricals(rng.dirichlet(np.ones(3), size=(1, 2)), alphabet="abc")
    hmm = mc.HMMs(rng.dirichlet(np.ones(2), size=1), rng.dirichlet(np.ones(2), size=(1, 2)), emission)
    words = ["abca", "bbca", "cccc"]
    codes = [["abc".index(letter) for letter in word] for word in words]
    chain = mc.Marginalization(mc.BayesNets.from_hmm(hmm, 4), normalize=False)
    np.testing.assert_allclose(chain(codes), mc.Marginalization(hmm, normalize=False)(words), rtol=1e-12)


def test_bad_networks_are_named():
    tables = {"a": [[0.5, 0.5]], "h": [[[0.5, 0.5]] * 2]}
    bad = mc.BayesNets(tables, {"a": 2, "h": 2}, {"h": ["a"]}, ["h"])
    with pytest.raises(ValueError, match="'h' has the observed parent 'a'"):
        mc.Marginalization(bad)([[0]])
    with pytest.raises(ValueError, match="got one without"):
        mc.Marginalization(mc.BayesNets({"a": [[0.5, 0.5]]}, {"a": 2}))([[0]])
    many = {f"h{k}": np.full((1, 2), 0.5) for k in range(17)} | {"a": [[0.5, 0.5]]}
    with pytest.raises(ValueError, match="131,072 configurations"):
        mc.Marginalization(mc.BayesNets(many, dict.fromkeys(many, 2), None, list(many)[:-1]))([[0]])
    with pytest.raises(ValueError, match="one row"):
        mc.Marginalization(net())([np.zeros((2, 2)), np.zeros((3, 2))])
