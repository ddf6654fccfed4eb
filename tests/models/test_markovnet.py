"""Markov networks against sums over all configurations."""

import itertools
import warnings

import numpy as np
import pytest

import mercer as mc
from mercer.models._nets import contraction

NODES = {"a": ("low", "high"), "b": ("low", "high", "top"), "h": 2, "c": ("low", "high")}
CLIQUES = [("a", "b"), ("b", "h"), ("h", "c"), ("c", "a"), ("b",)]


def network(seed=0, size=2, hidden=("h",), zeros=False, cliques=CLIQUES, nodes=NODES):
    """Networks with a loop of four nodes."""
    rng = np.random.default_rng(seed)
    n_states = {name: states if isinstance(states, int) else len(states) for name, states in nodes.items()}
    tables = {clique: rng.gamma(0.7, size=(size, *(n_states[u] for u in clique))) + 0.01 for clique in cliques}
    if zeros:
        tables["a", "b"][:, 0, 0] = 0.0
    return mc.models.MarkovNetworks(tables, nodes, hidden)


def weights(net, i):
    """Every configuration of all nodes, and the product of its factors."""
    names, sizes = net._graph.names, net._graph.sizes
    for states in itertools.product(*map(range, sizes)):
        at = dict(zip(names, states, strict=True))
        yield at, np.prod([net.table(*clique)[(i, *(at[u] for u in clique))] for clique in net.cliques])


def probabilities(net, i):
    """Probabilities of the observed nodes, by their states."""
    found = {}
    for at, weight in weights(net, i):
        key = tuple(at[name] for name in net.observed)
        found[key] = found.get(key, 0.0) + weight
    total = sum(found.values())
    return {key: value / total for key, value in found.items()}


def brute_kernel(p, q, i, j, rho, gamma=None):
    """The sum over pairs of configurations, which share their observed nodes unless there is a gamma."""
    sides = [[(at, weight) for at, weight in weights(net, k)] for net, k in ((p, i), (q, j))]
    totals = [sum(weight for _, weight in side) for side in sides]
    found = 0.0
    for (at, one), (other, two) in itertools.product(*sides):
        differ = sum(at[name] != other[name] for name in p.observed)
        if gamma is None:
            found += (one / totals[0] * two / totals[1]) ** rho * (differ == 0)
        else:
            found += one / totals[0] * two / totals[1] * np.exp(-2 * gamma * differ)
    return found


@pytest.mark.parametrize("zeros", [False, True])
def test_probabilities_are_sums_over_hidden_states(zeros):
    net = network(zeros=zeros)
    for i in range(2):
        total = sum(weight for _, weight in weights(net, i))
        np.testing.assert_allclose(net.log_partition()[i], np.log(total), rtol=1e-12)
        truth = probabilities(net, i)
        rows = np.array(list(truth), dtype=float)
        np.testing.assert_allclose(np.exp(net.log_prob(rows)[i]), list(truth.values()), rtol=1e-12, atol=1e-300)
        missing = [np.nan, 1.0, np.nan]
        wanted = sum(p for states, p in truth.items() if states[1] == 1)
        np.testing.assert_allclose(np.exp(net.log_prob([missing])[i, 0]), wanted, rtol=1e-12)


def test_posteriors_are_ratios_of_sums():
    net = network()
    for i in range(2):
        sums = np.zeros(2)
        for at, weight in weights(net, i):
            sums[at["h"]] += weight * (at["b"] == 2)
        np.testing.assert_allclose(net.posterior({"b": "top"}, "h")[i, 0], sums / sums.sum(), rtol=1e-12)
    assert net[:1].posterior({"b": "top"}, "h", as_frame=True).shape == (1, 2)


@pytest.mark.parametrize("rho", [0.5, 1.0])
def test_products_are_sums_over_pairs(rho):
    p = network(0)
    q = network(
        1, 3, hidden=("k",), cliques=[("k", "c"), ("b", "a", "k")], nodes={"k": 3} | {n: NODES[n] for n in "cba"}
    )
    kernel = mc.ProbabilityProduct(rho=rho, normalize=False)
    wanted = [[brute_kernel(p, q, i, j, rho) for j in range(3)] for i in range(2)]
    np.testing.assert_allclose(kernel(p, q), wanted, rtol=1e-12)
    np.testing.assert_allclose(kernel.diag(p), [brute_kernel(p, p, i, i, rho) for i in range(2)], rtol=1e-12)
    bound = mc.kernels.MeanField(rho=rho, normalize=False)(p, q)
    assert (bound <= np.array(wanted) * (1 + 1e-9)).all()
    assert (bound >= np.array(wanted) / 30).all()


def test_mean_maps_are_sums_over_pairs():
    p, q = network(0), network(1)
    wanted = [[brute_kernel(p, q, i, j, 1.0, gamma=0.4) for j in range(2)] for i in range(2)]
    np.testing.assert_allclose(mc.MeanMap(gamma=0.4, normalize=False)(p, q), wanted, rtol=1e-12)


def test_scores_are_gradients():
    net, rows = network(size=1), np.array([[0, 2, 1], [1, np.nan, 0]])
    found, step = net.fisher_scores(rows)[0], 1e-6
    for k in range(len(net.score_names())):
        moved = [
            net._replaced(factors=net.factors * np.exp(s * np.eye(net.factors.shape[1])[k])) for s in (step, -step)
        ]
        slope = (moved[0].log_prob(rows)[0] - moved[1].log_prob(rows)[0]) / (2 * step)
        np.testing.assert_allclose(found[:, k], slope, atol=1e-8)
    weight = net.fisher_scores(rows, "weight")[0]
    np.testing.assert_allclose(weight * net.factors[0], found, rtol=1e-10, atol=1e-14)


def test_samples_have_the_probabilities():
    net, size = network(), 20_000
    rows = net.sample(size, random_state=0)
    assert rows.shape == (2, size, 3)
    for i in range(2):
        for states, p in probabilities(net, i).items():
            share = (rows[i] == states).all(axis=1).mean()
            assert abs(share - p) < 5 * np.sqrt(p * (1 - p) / size) + 1e-12


def test_bayesian_networks_without_directions_are_the_same():
    rng = np.random.default_rng(0)
    tables = {"a": rng.dirichlet(np.ones(2), size=2), "b": rng.dirichlet(np.ones(3), size=(2, 2))}
    nets = mc.BayesNets(tables, {"a": 2, "b": 3}, {"b": ["a"]}, hidden=["a"])
    same = mc.models.MarkovNetworks.from_bayes_nets(nets)
    np.testing.assert_allclose(same.log_partition(), 0.0, atol=1e-14)
    np.testing.assert_allclose(same.log_prob([[0], [2]]), nets.log_prob([[0], [2]]), rtol=1e-12)
    for kernel in (mc.ProbabilityProduct(rho=0.5), mc.MeanMap(gamma=0.3)):
        np.testing.assert_allclose(kernel(same), kernel(nets), rtol=1e-12)
    with pytest.raises(ValueError, match="'x' is Gaussian"):
        mc.models.MarkovNetworks.from_bayes_nets(
            mc.BayesNets({}, {"x": "gaussian"}, mean={"x": [0.0]}, variance={"x": [1.0]})
        )


def test_files_slices_and_names(tmp_path):
    net = network(size=3)
    mc.save(net, tmp_path / "net.mercer")
    again = mc.load(tmp_path / "net.mercer")
    assert again.cliques == net.cliques
    np.testing.assert_array_equal(again.factors, net.factors)
    assert net[1:].shape == (2,)
    assert mc.models.MarkovNetworks.concat([net[:1], net[1:]]).shape == (3,)
    assert net.n_parameters == (1 + 2 + 1 + 1) + (2 + 2 + 1 + 1)
    assert net.score_names()[:2] == ["a=low, b=low", "a=low, b=high"]
    assert "4 nodes (1 hidden), 11 free" in net.summary()


# Learning


def likelihood(X, cliques, nodes):
    """The largest log likelihood of complete data, by Newton's method on the logarithms of the factors (SciPy)."""
    from scipy.optimize import minimize

    sizes = list(nodes.values())
    cells = np.array(list(itertools.product(*map(range, sizes))))
    names = list(nodes)
    columns = []
    for clique in cliques:
        at = [names.index(u) for u in clique]
        for states in itertools.product(*(range(sizes[k]) for k in at)):
            columns.append((cells[:, at] == states).all(axis=1))
    design = np.array(columns, dtype=float).T
    counts = np.array([(cell == X).all(axis=1).sum() for cell in cells])

    def loss(theta):
        logs = design @ theta
        top = logs.max()
        log_z = top + np.log(np.exp(logs - top).sum())
        return len(X) * log_z - counts @ logs, len(X) * (np.exp(logs - log_z) @ design) - counts @ design

    return -minimize(loss, np.zeros(design.shape[1]), jac=True, method="BFGS", options={"gtol": 1e-9}).fun


def test_fits_maximize_the_likelihood_of_a_loop():
    nodes = dict.fromkeys("abcd", 2)
    cliques = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")]
    X = network(0, 1, (), cliques=cliques, nodes=nodes).sample(200, random_state=0)[0]
    net = mc.models.MarkovNetwork(nodes, cliques, prior=None, tol=1e-12).fit(X)
    np.testing.assert_allclose(net.model_.log_prob(X).sum(), likelihood(X, cliques, nodes), rtol=1e-8)
    np.testing.assert_allclose(net.model_.log_partition(), 0.0, atol=1e-10)


def test_a_chain_with_a_prior_has_a_closed_form():
    nodes = {"a": 2, "b": 3, "c": 2}
    rng = np.random.default_rng(0)
    X = np.stack([rng.integers(k, size=30) for k in nodes.values()], axis=1).astype(float)
    net = mc.models.MarkovNetwork(nodes, [("a", "b"), ("b", "c")], prior_strength=6.0, tol=1e-12).fit(X).model_
    pairs = [np.full(shape, 1.0) for shape in ((2, 3), (3, 2))]  # six pseudo-observations, evenly
    for a, b, c in X.astype(int):
        pairs[0][a, b] += 1
        pairs[1][b, c] += 1
    wanted = np.einsum("ab,bc->abc", pairs[0] / 36, pairs[1] / pairs[1].sum(axis=1, keepdims=True))
    rows = np.array(list(itertools.product(*map(range, nodes.values()))), dtype=float)
    np.testing.assert_allclose(np.exp(net.log_prob(rows)[0]), wanted.ravel(), rtol=1e-9)


def test_the_objective_never_decreases_with_hidden_nodes_and_missing_values():
    X = [network(k, 1).sample(60, random_state=k)[0] for k in range(2)]
    X[0][5, 1] = X[1][3, 0] = np.nan
    reached = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n_iter in (1, 2, 4, 8):
            net = mc.models.MarkovNetwork(NODES, CLIQUES, ["h"], n_iter=n_iter, tol=0)
            reached.append(net.fit_each(X, return_info=True)[1].objective)
    assert (np.diff(reached, axis=0) >= -1e-9).all()


def test_fitted_networks_in_kernels():
    X = [network(k % 2, 1).sample(40, random_state=k)[0] for k in range(4)]
    model = mc.models.MarkovNetwork(NODES, CLIQUES, ["h"], prior="pooled", n_iter=5, tol=0.1)
    for kernel in (
        mc.ProbabilityProduct(model),
        mc.MeanMap(model, gamma=0.5),
        mc.Fisher(model),
        mc.LatentMeanMap(model),
    ):
        K = kernel.fit_transform(X)
        assert np.linalg.eigvalsh(K).min() > -1e-9, kernel
        assert np.isfinite(K).all()
    assert model.fit(X).predict(X[0], "c").tolist()[:1][0] in ("low", "high")
    assert np.isfinite(model.bic(X[0]))
    with pytest.raises(TypeError, match="MarkovNetworks has none"):
        mc.Marginalization(model).fit(X[0])


def test_bad_networks_are_named(monkeypatch):
    make, good = mc.models.MarkovNetworks, {("a", "b"): np.ones((1, 2, 2))}
    two = {"a": 2, "b": 2}
    for call, match in (
        (lambda: make({("a", "z"): np.ones((1, 2, 2))}, two), "cliques must name nodes among a, b; got 'z'"),
        (lambda: make({("a", "a"): np.ones((1, 2, 2))}, two), "each once"),
        (lambda: make({"a": np.ones((1, 2))}, two), r"'b' has none\. Add the clique \('b',\)"),
        (lambda: make({("a", "b"): np.ones((1, 2, 3))}, two), r"factor of a, b must have shape \(\.\.\., 2, 2\)"),
        (lambda: make({("a", "b"): [[[1.0, -1.0], [1.0, 1.0]]]}, two), "got -1 for a=0, b=1 in network 0"),
        (lambda: make({("a", "b"): np.zeros((1, 2, 2))}, two), "no configuration"),
        (lambda: make(good, two | {"c": "gaussian"}), "'c' is Gaussian"),
        (lambda: make(good, two, hidden=["a", "b"]), "must be observed"),
        (lambda: make(good, two).table("b", "a"), "no factor of"),
        (lambda: mc.ProbabilityProduct()(make(good, two), network()), "observed in only one"),
        (lambda: mc.models.MarkovNetwork(two, [("a", "b")] * 2).fit([[0, 1]]), r"\('a', 'b'\) is there twice"),
        (lambda: mc.models.MarkovNetwork(two, [("a", "z")]).fit([[0, 1]]), "got 'z'"),
        (lambda: mc.models.MarkovNetwork(two, [("a", "b")]).fit([[0, 2]]), "a code from 0 to 1"),
    ):
        with pytest.raises(ValueError, match=match):
            call()
    with pytest.raises(TypeError, match="factors must map cliques to tables"):
        make(np.ones((1, 4)), two)
    net = network()
    monkeypatch.setattr(contraction, "LARGEST", 2)
    with pytest.raises(ValueError, match="sum over all configurations of these networks needs a table"):
        net.log_partition()


def test_one_impossible_network_is_named_without_an_index():
    with pytest.raises(ValueError, match=r"^The network has no configuration"):
        mc.models.MarkovNetworks({("a", "b"): np.zeros((2, 2))}, {"a": 2, "b": 2})
