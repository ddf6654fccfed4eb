"""Linear Gaussian networks against sums over ancestors, unrolled dynamical systems and regressions."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from tests.models.test_lds import systems

import mercer as mc

NODES = {"a": 2, "b": 1, "c": 2, "d": 1}
PARENTS = {"a": ["c"], "b": ["a", "c"], "d": ["b"]}  # c comes before a


def blocks(nodes):
    ends = np.cumsum(list(nodes.values()))
    return {name: slice(end - size, end) for (name, size), end in zip(nodes.items(), ends, strict=True)}


def nets(seed=0, size=3, hidden=()):
    rng, at, total = np.random.default_rng(seed), blocks(NODES), sum(NODES.values())
    coefficients, noise = np.zeros((size, total, total)), np.zeros((size, total, total))
    for name in NODES:
        for parent in PARENTS.get(name, []):
            coefficients[:, at[name], at[parent]] = rng.normal(size=(size, NODES[name], NODES[parent]))
        root = rng.normal(size=(size, NODES[name], NODES[name]))
        noise[:, at[name], at[name]] = root @ root.swapaxes(1, 2) + 0.2 * np.eye(NODES[name])
    return mc.models.LinearGaussianNets(rng.normal(size=(size, total)), coefficients, noise, NODES, PARENTS, hidden)


def ancestral(net, noise):
    """Values of all nodes from given noises ``(T, D)``, computed from parents to children."""
    at, found = blocks(NODES), np.zeros_like(noise)
    for name in ("c", "a", "b", "d"):
        value = noise[:, at[name]] + net.offset[0, at[name]]
        for parent in PARENTS.get(name, []):
            value = value + found[:, at[parent]] @ net.coefficients[0, at[name], at[parent]].T
        found[:, at[name]] = value
    return found


def test_distributions_are_those_of_ancestral_sampling():
    for i in range(3):
        net = nets()[i : i + 1]
        mean = ancestral(net, np.zeros((1, 6)))[0]
        linear = ancestral(net, np.eye(6)).T - mean[:, None]
        covariance = linear @ net.noise_covariance[0] @ linear.T
        np.testing.assert_allclose(net.joint().mean[0], mean, rtol=1e-10)
        np.testing.assert_allclose(net.joint().covariance[0], covariance, rtol=1e-10, atol=1e-12)
        partly = mc.models.LinearGaussianNets(
            net.offset, net.coefficients, net.noise_covariance, NODES, PARENTS, ["c", "b"]
        )
        seen = [0, 1, 5]
        x = np.random.default_rng(0).normal(size=(4, 3))
        expected = multivariate_normal(mean[seen], covariance[np.ix_(seen, seen)]).logpdf(x)
        np.testing.assert_allclose(partly.log_prob(x)[0], expected, rtol=1e-9)
    assert nets(hidden=["a"]).sample(5, random_state=0).shape == (3, 5, 4)


def test_kernels_are_those_of_the_observed_gaussians():
    models = nets(hidden=["c"])
    for kernel in (mc.ProbabilityProduct(rho=0.7), mc.MeanMap(gamma=0.2)):
        np.testing.assert_allclose(kernel(models), kernel(models.gaussians()), rtol=1e-12)


def test_an_unrolled_dynamical_system_is_a_network():
    models, length = systems(2, 3, 2, 2), 3
    state, seen = [f"s{t}" for t in range(length)], [f"x{t}" for t in range(length)]
    nodes = dict.fromkeys([*state, *seen], 2)
    parents = {state[t]: [state[t - 1]] for t in range(1, length)} | {seen[t]: [state[t]] for t in range(length)}
    at, total = blocks(nodes), 4 * length
    offset, coefficients, noise = np.zeros((3, total)), np.zeros((3, total, total)), np.zeros((3, total, total))
    for t in range(length):
        s, x = at[state[t]], at[seen[t]]
        offset[:, s] = models.state_offset if t else models.initial_mean
        noise[:, s, s] = models.process_covariance if t else models.initial_covariance
        if t:
            coefficients[:, s, at[state[t - 1]]] = models.transition
        offset[:, x], noise[:, x, x] = models.observation_offset, models.observation_covariance
        coefficients[:, x, s] = models.emission
    unrolled = mc.models.LinearGaussianNets(offset, coefficients, noise, nodes, parents, state)
    for rho in (0.5, 1.0):
        expected = mc.ProbabilityProduct(rho=rho, length=length)(models)
        np.testing.assert_allclose(mc.ProbabilityProduct(rho=rho)(unrolled), expected, rtol=1e-8)


def test_fits_are_regressions_on_the_parents():
    truth, at = nets(), blocks(NODES)
    sets = [truth[i : i + 1].sample(200 + i, random_state=i)[0] for i in range(3)]
    found = mc.models.LinearGaussianNet(NODES, PARENTS, floor=0.0).fit_each(sets)
    for i, x in enumerate(sets):
        for name in NODES:
            given = [x[:, at[parent]] for parent in PARENTS.get(name, [])]
            design = np.concatenate([np.ones((len(x), 1)), *given], axis=1)
            slope, *_ = np.linalg.lstsq(design, x[:, at[name]], rcond=None)
            np.testing.assert_allclose(found.offset[i, at[name]], slope[0], rtol=1e-6, atol=1e-8)
            column = 1
            for parent in PARENTS.get(name, []):
                block = found.coefficients[i, at[name], at[parent]]
                np.testing.assert_allclose(block.T, slope[column : column + NODES[parent]], rtol=1e-6, atol=1e-8)
                column += NODES[parent]
            rest = x[:, at[name]] - design @ slope
            np.testing.assert_allclose(found.noise_covariance[i, at[name], at[name]], rest.T @ rest / len(x), rtol=1e-6)
    for prior in ("pooled", truth[:1]):
        kernel = mc.ProbabilityProduct(mc.models.LinearGaussianNet(NODES, PARENTS, prior=prior))
        assert kernel.fit(sets[:2]).transform(sets[2:]).shape == (1, 2)
    one = mc.models.LinearGaussianNet(NODES, PARENTS).fit(sets)
    assert one.model_.shape == (1,)
    assert np.isfinite(one.score_samples(sets)).all()


def test_files_keep_the_graph(tmp_path):
    models = nets(hidden=["c"])
    models.save(tmp_path / "nets.npz")
    again = mc.load(tmp_path / "nets.npz")
    assert (again.nodes, again.parents, again.hidden) == (models.nodes, models.parents, models.hidden)
    assert again.digests() == models.digests()
    assert type(models)(*(getattr(models, name) for name in ("offset", "coefficients", "noise_covariance")),
                        NODES, PARENTS).dimension == 6  # fmt: skip


def test_bad_graphs_are_named():
    good = {"offset": np.zeros(2), "coefficients": np.zeros((2, 2)), "noise_covariance": np.eye(2)}
    graph = {"nodes": {"a": 1, "b": 1}, "parents": {"b": ["a"]}}
    for change, message in (
        ({"parents": {"a": ["b"], "b": ["a"]}}, "cycle"),
        ({"parents": {"b": ["z"]}}, "'z'"),
        ({"nodes": {"a": 0, "b": 1}}, "1 or more; got 0"),
        ({"nodes": {"a": 2, "b": 1}}, r"\(\.\.\., 3\)"),
        ({"hidden": ["a", "b"]}, "some of the nodes"),
        ({"coefficients": [[0, 1.0], [0, 0]]}, "node 'a' must be zero outside its parents"),
        ({"coefficients": [[0, 0], [np.inf, 0]]}, "finite"),
        ({"noise_covariance": [[1.0, 0.5], [0.5, 1.0]]}, "zero between node 'a' and the others"),
        ({"noise_covariance": [[1.0, 0.0], [0.0, -1.0]]}, "covariance"),
    ):
        with pytest.raises(ValueError, match=message):
            mc.models.LinearGaussianNets(**{**good, **graph, **change})
    with pytest.raises(ValueError, match="2 columns of the nodes; got 3"):
        mc.models.LinearGaussianNet(**graph).fit_each([np.zeros((4, 3))])
    twice = np.repeat(np.random.default_rng(0).integers(0, 9, size=(50, 1)) * 1.0, 3, axis=1)
    with pytest.raises(ValueError, match="floor > 0"):
        mc.models.LinearGaussianNet({"a": 1, "b": 1, "c": 1}, {"c": ["a", "b"]}, floor=0.0).fit_each([twice])
