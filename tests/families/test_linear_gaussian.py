"""Linear Gaussian networks that are learned: regressions of each node on its parents, and hidden nodes by EM."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.decomposition import FactorAnalysis

import mercer as mc

GRAPH = {"d": ["b", "a"], "a": [], "b": ["a"], "c": ["b"]}  # columns d, a, b, c


def table(seed=0, size=40):
    rng = np.random.default_rng(seed)
    a = rng.normal(3.0, 2.0, size)
    b = 1.0 - 0.5 * a + rng.normal(size=size)
    c = 2.0 * b + 0.1 * rng.normal(size=size)
    d = a - b + 10.0 + rng.normal(size=size)
    return np.stack([d, a, b, c], axis=1)


def regressions(x, graph=GRAPH):
    """Least squares of each column on those of its parents, and the Gaussian that this is."""
    names = list(graph)
    offset, B, S = np.zeros(len(names)), np.zeros((len(names),) * 2), np.zeros((len(names),) * 2)
    for v, name in enumerate(names):
        pa = [names.index(u) for u in graph[name]]
        design = np.column_stack([np.ones(len(x)), x[:, pa]])
        found = np.linalg.lstsq(design, x[:, v], rcond=None)[0]
        offset[v], B[v, pa] = found[0], found[1:]
        S[v, v] = np.mean((x[:, v] - design @ found) ** 2)
    away = np.linalg.inv(np.eye(len(names)) - B)
    return offset, B, S, away @ offset, away @ S @ away.T


def test_each_node_is_regressed_on_its_parents():
    x = table()
    offset, B, S, mean, covariance = regressions(x)
    model = mc.Gaussian(parents=GRAPH, floor=0.0).fit([x])
    np.testing.assert_allclose(model.network_.offset[0], offset, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(model.network_.coefficients[0], B, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(model.network_.noise_covariance[0], S, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(model.model_.mean[0], mean, rtol=1e-9)
    np.testing.assert_allclose(model.model_.covariance[0], covariance, rtol=1e-9)
    each = mc.Gaussian(parents=GRAPH, floor=0.0).fit_each([x, table(1, 30)])
    np.testing.assert_allclose(each.covariance[1], regressions(table(1, 30))[4], rtol=1e-9)


def test_a_complete_graph_is_a_full_covariance_and_an_empty_one_a_diagonal():
    x = [table(k) for k in range(3)]
    complete = {"d": ["a", "b", "c"], "a": [], "b": ["a"], "c": ["a", "b"]}
    for prior in (None, "pooled"):
        full = mc.Gaussian(prior=prior).fit_each(x)
        found = mc.Gaussian(parents=complete, prior=prior).fit_each(x)
        np.testing.assert_allclose(found.covariance, full.covariance, rtol=1e-9, atol=1e-12)
        empty = mc.Gaussian(parents={name: [] for name in GRAPH}).fit_each(x)
        np.testing.assert_allclose(
            empty.covariance, [np.diag(np.diag(c)) for c in mc.Gaussian().fit_each(x).covariance]
        )


def test_kernels_are_those_of_the_observed_coordinates():
    x = [table(k) for k in range(3)]
    kernel = mc.ProbabilityProduct(mc.Gaussian(parents=GRAPH, floor=0.0))
    truth = [regressions(part) for part in x]
    batch = mc.Gaussians([t[3] for t in truth], [t[4] for t in truth])
    np.testing.assert_allclose(kernel.fit_transform(x), mc.ProbabilityProduct()(batch), rtol=1e-8)


def test_columns_of_frames_are_found_by_name():
    x = [pd.DataFrame(table(k), columns=list(GRAPH)) for k in range(2)]
    shuffled = [part[["c", "a", "d", "b"]] for part in x]
    wanted = mc.Gaussian(parents=GRAPH).fit_each([part.to_numpy() for part in x])
    found = mc.Gaussian(parents=GRAPH).fit_each(shuffled)
    np.testing.assert_array_equal(found.covariance, wanted.covariance)
    whole = mc.Gaussian(parents=GRAPH).fit(shuffled[0])
    np.testing.assert_array_equal(whole.model_.mean, mc.Gaussian(parents=GRAPH).fit(x[0].to_numpy()).model_.mean)
    np.testing.assert_allclose(whole.score(x[0]), whole.score(shuffled[0]))


def test_one_hidden_node_is_a_factor_analysis():
    rng = np.random.default_rng(0)
    h = rng.normal(size=(500, 1))
    x = h @ [[2.0, -1.5, 1.0, 1.5]] + [1.0, 2.0, 3.0, 4.0] + rng.normal(size=(500, 4))
    graph = {"h": []} | {name: ["h"] for name in "abcd"}
    model = mc.Gaussian(parents=graph, hidden=["h"], floor=0.0).fit([x])
    truth = FactorAnalysis(1, tol=1e-10, max_iter=5000, svd_method="lapack").fit(x)
    np.testing.assert_allclose(model.score([x]) / 500, truth.score(x), rtol=1e-7)
    np.testing.assert_allclose(model.model_.covariance[0], truth.get_covariance(), rtol=1e-3)
    assert not hasattr(model, "network_")


def test_a_hidden_node_between_two_others_is_integrated_out():
    graph = {"a": [], "h": ["a"], "b": ["h"]}  # what a and h, h and b tell is the covariance of a and b
    x = table()[:, :2]
    found = mc.Gaussian(parents=graph, hidden=["h"], floor=0.0).fit([x]).model_
    np.testing.assert_allclose(found.mean[0], x.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(found.covariance[0], np.cov(x.T, bias=True), rtol=1e-6)


@pytest.mark.slow
def test_hidden_nodes_with_a_pooled_prior_and_in_kernels():
    x = [table(k, 12) for k in range(3)]
    graph = {"h": [], "a": ["h"], "b": ["h", "a"], "c": ["h"], "d": []}
    kernel = mc.ProbabilityProduct(mc.Gaussian(parents=graph, hidden=["h"], prior="pooled"))
    K = kernel.fit_transform(x)
    np.testing.assert_allclose(np.diag(K), 1.0)
    np.testing.assert_allclose(kernel.transform(x), K, rtol=1e-10)
    heavy = mc.Gaussian(parents=graph, hidden=["h"], prior="pooled", prior_strength=1e9).fit_each(x)
    pooled = mc.Gaussian(parents=graph, hidden=["h"], prior="pooled").fit(x).context_.pooled
    np.testing.assert_allclose(heavy.covariance[0], pooled.marginal([1, 2, 3, 4]).covariance[0], rtol=1e-6)


def test_missing_values_never_decrease_the_density():
    x = table(0, 20)
    x[3, 2] = x[7, 0] = x[9, 1] = np.nan
    graph = {"d": ["b"], "a": [], "b": ["a"], "c": []}
    estimator = mc.Gaussian(parents=graph, floor=0.0).fit([x])
    best, gains = estimator.score([x]), []
    net = estimator.network_
    for k in range(20):  # networks nearby are not better
        rng = np.random.default_rng(k)
        B = net.coefficients * (1 + 0.02 * rng.normal(size=net.coefficients.shape))
        S = net.noise_covariance * np.exp(0.02 * rng.normal(size=(1, 4, 4)))
        other = mc.Gaussians.from_network(net.offset + 0.01 * rng.normal(size=(1, 4)), B, S)
        gains.append(other.log_prob(x)[0].sum() - best)
    assert max(gains) < 0


def test_components_of_mixtures_have_the_structure():
    x = [np.concatenate([table(k), table(k) + 20.0]) for k in range(2)]
    with_edges = mc.Mixture(mc.Gaussian(parents=GRAPH), 2, n_iter=5, tol=0.1).fit(x).model_
    precision = np.linalg.inv(with_edges.components.covariance[0])
    np.testing.assert_allclose(precision[:, 3, [0, 1]] / precision[:, 3, [3]], 0.0, atol=1e-9)  # c given b
    with pytest.raises(TypeError, match="cannot be a component or an emission"):
        mc.Mixture(mc.Gaussian(parents=GRAPH | {"h": []}, hidden=["h"]), 2, n_iter=1).fit(x)


def test_files_and_clones(tmp_path):
    model = mc.Gaussian(parents={0: [], 1: [0]}).fit([table()[:, :2]])
    mc.save(model, tmp_path / "model.mercer")
    again = mc.load(tmp_path / "model.mercer")
    assert again.parents == {0: [], 1: [0]}
    np.testing.assert_array_equal(again.network_.coefficients, model.network_.coefficients)
    assert clone(model).parents == model.parents


def test_bad_graphs_are_named():
    x = [table()[:, :2]]
    for options, match in (
        ({"parents": {"a": ["b"], "b": ["a"]}}, r"no cycle; got (a -> b -> a|b -> a -> b)\. Leave out"),
        ({"parents": {"a": [], "b": ["z"]}}, r"nodes among 'a', 'b'; got 'z'\. Add 'z': \[\]"),
        ({"parents": {"a": [], "b": ["a", "a"]}}, "each node once"),
        ({"parents": {"a": [], "b": []}, "hidden": ["z"]}, "hidden must name nodes among 'a', 'b', each once; got 'z'"),
        ({"parents": {"a": [], "b": []}, "hidden": ["a", "b"]}, "At least one node must be observed"),
        ({"hidden": ["a"]}, "which is None"),
        ({"parents": {"a": [], "b": []}, "covariance": "diagonal"}, "needs covariance='full'"),
        ({"parents": {"a": [], "b": [], "c": []}}, r"3 columns, one per observed node \(a, b, c\); got 2"),
    ):
        with pytest.raises(ValueError, match=match):
            mc.Gaussian(**options).fit(x)
    with pytest.raises(TypeError, match="parents must map each node"):
        mc.Gaussian(parents={"a": "b"}).fit(x)
    few = mc.Gaussian(parents={"a": [], "b": ["a"]}, floor=0.0)
    with pytest.raises(
        ValueError, match=r"has 2 points; with floor=0, the regression of node 'b' on its 1 parents needs"
    ):
        few.fit_each([x[0], x[0][:2]])
    with pytest.raises(ValueError, match="'c' is not one"):
        few.fit(pd.DataFrame(table()[:, :3], columns=["a", "b", "c"]))
