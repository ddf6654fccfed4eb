"""Learning of Bayesian networks: counts, EM, Fisher scores, and networks that are other models."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import approx_fprime
from sklearn.base import clone
from tests.models.test_bayesnet import made, random_net

import mercer as mc

NODES = {"h": 2, "a": ["no", "yes"], "b": 3, "x": "gaussian"}
PARENTS = {"a": ["h"], "b": ["h", "a"], "x": ["h"]}


def tables(n=3, seed=0, missing=0.2, gaussian=False):
    net = random_net(seed, size=n, gaussian=gaussian)
    rng = np.random.default_rng(seed)
    sets = [net[i : i + 1].sample(40 + 10 * i, random_state=i)[0] for i in range(n)]
    for x in sets:
        x[rng.random(x.shape) < missing] = np.nan
    parts = {name: list(states) or "gaussian" for name, states in net.nodes}, {n: list(u) for n, u in net.parents}
    return net, parts, sets


def test_complete_data_are_counted():
    """Against a table of counts, with one pseudo-observation in each row."""
    net = random_net(0, hidden=())
    nodes, parents = {n: list(s) for n, s in net.nodes}, {n: list(u) for n, u in net.parents}
    x = net.sample(50, random_state=0)
    found = mc.BayesNet(nodes, parents).fit_each(list(x))
    for i in range(2):
        for name, states in nodes.items():
            above = [list(nodes).index(u) for u in parents[name]]
            counts = np.full([len(nodes[u]) for u in parents[name]] + [len(states)], 1 / len(states))
            for row in x[i].astype(int):
                counts[(*row[above], row[list(nodes).index(name)])] += 1
            np.testing.assert_allclose(found.table(name)[i], counts / counts.sum(axis=-1, keepdims=True), rtol=1e-12)
    _, info = mc.BayesNet(nodes, parents).fit_each(list(x), return_info=True)
    assert info.converged.all()
    assert (info.n_iter == 1).all()
    plain = mc.BayesNet(nodes, parents, prior=None).fit(x[0]).model_
    better = plain.log_prob(x[0]).sum()
    assert better >= max(net[:1].log_prob(x[0]).sum(), found[:1].log_prob(x[0]).sum())


@pytest.mark.slow
@pytest.mark.parametrize("prior", [None, "uniform", "pooled"])
def test_em_increases_the_objective(prior):
    _, (nodes, parents), sets = tables(gaussian=True)
    reached = []
    for n_iter in (1, 2, 5, 20):
        model = mc.BayesNet(nodes, parents, ["h", "k"], prior=prior, n_iter=n_iter, tol=0)
        if not reached:  # the pooled network is the same for all
            context = clone(model).set_params(n_iter=5).fit(sets).context_
        found, info = model.fit_each(sets, context, return_info=True)
        reached.append(info.objective)
        assert found.shape == (3,)
    reached = np.array(reached)
    assert (np.diff(reached, axis=0) >= -1e-9).all()
    assert (reached[-1] > reached[0]).all()
    if prior is None:  # the objective is the log probability before the last iteration
        logs = [found[i : i + 1].log_prob(x).sum() for i, x in enumerate(sets)]
        assert (np.array(logs) >= reached[-1] - 1e-9).all()


def test_em_is_at_a_stationary_point():
    """Finite differences of the log probability in logits vanish where EM converges."""
    _, (nodes, parents), sets = tables(1, missing=0.3)
    found = mc.BayesNet(nodes, parents, ["h", "k"], prior=None, tol=1e-13, n_iter=3000).fit(sets[0]).model_
    scores = found.fisher_scores(sets[0])[0].sum(axis=0)
    assert np.abs(scores).max() < 1e-3


@pytest.mark.slow
def test_scores_are_derivatives():
    net = random_net(1, gaussian=True)[:1]
    x = net.sample(3, random_state=0)[0]
    x[0, 1] = x[1, 3] = x[2, 0] = np.nan
    graph, size = net._graph, net.probability.shape[1]

    def built(theta):
        p = np.empty(size)
        for v in graph.discrete:
            rows = np.exp(theta[graph.places[v]]).reshape(-1, graph.sizes[v])
            p[graph.places[v]] = (rows / rows.sum(axis=1, keepdims=True)).ravel()
        mean, sd = np.empty(graph.n_means), np.empty(graph.n_means)
        at = size
        for v in graph.gaussian:
            n = graph.places[v].stop - graph.places[v].start
            mean[graph.places[v]], sd[graph.places[v]] = theta[at : at + n], theta[at + n : at + 2 * n]
            at += 2 * n
        return made(net, p, mean, np.exp(2 * sd))

    parts = [np.log(net.probability[0])]
    for v in graph.gaussian:
        parts += [net.mean[0, graph.places[v]], np.log(net.variance[0, graph.places[v]]) / 2]
    theta = np.concatenate(parts)
    scores = net.fisher_scores(x)[0]
    for row in range(3):
        slopes = approx_fprime(theta, lambda t, row=row: float(built(t).log_prob(x[row : row + 1])[0]), 1e-7)
        np.testing.assert_allclose(scores[row], slopes, atol=2e-6)
    names = net.score_names()
    assert len(names) == scores.shape[1] == len(set(names))
    weight = net.fisher_scores(x, "weight")[0][:, :size]
    np.testing.assert_allclose(weight * net.probability[0], scores[:, :size], atol=1e-12)


def test_fisher_kernel_of_rows_and_tables():
    _, (nodes, parents), sets = tables()
    model = mc.BayesNet(nodes, parents, ["h", "k"], n_iter=5, tol=0)
    K = mc.Fisher(model).fit_transform(sets[0])
    assert K.shape == (40, 40)
    kernel = mc.Fisher(model).fit(sets)
    rows = [kernel.model_.fisher_scores(x)[0].sum(axis=0) for x in sets]
    np.testing.assert_allclose(mc.Fisher(kernel.model_, normalize=False)(sets), np.array(rows) @ np.array(rows).T)


def test_kernels_fit_one_network_per_table():
    _, (nodes, parents), sets = tables(gaussian=True)
    for prior in ("uniform", "pooled", random_net(0, gaussian=True)[:1]):
        kernel = mc.ProbabilityProduct(mc.BayesNet(nodes, parents, ["h", "k"], prior=prior, n_iter=5, tol=0), rho=1.0)
        assert kernel.fit(sets[:2]).transform(sets[2:]).shape == (1, 2)


def test_the_order_of_rows_does_not_matter():
    _, (nodes, parents), sets = tables(gaussian=True)
    model = mc.BayesNet(nodes, parents, ["h", "k"], n_iter=4, tol=0)
    turned = [x[::-1] for x in sets]
    assert clone(model).fit(sets).model_.digests() == clone(model).fit(turned[::-1]).model_.digests()
    assert model.fit_each(sets).digests() == model.fit_each(turned).digests()
    assert model.fit_each(sets[1:], model.fit(sets).context_).digests() == model.fit_each(sets).digests()[1:]


def test_data_by_name_and_bad_data():
    frame = pytest.importorskip("pandas").DataFrame
    net = mc.BayesNet({"s": ["no", "yes"], "t": ["lo", "hi"]}, {"t": ["s"]})
    first, second = frame({"t": ["lo", "hi"], "s": ["no", None]}), frame({"s": ["yes"], "t": ["hi"]})
    found = net.fit_each([first, second])
    expected = net.fit_each([np.array([[0, 0], [np.nan, 1]]), np.array([[1.0, 1.0]])])
    assert found.digests() == expected.digests()
    assert net.fit(first).model_.digests() == net.fit([["no", "lo"], [None, "hi"]]).model_.digests()
    assert np.isfinite(net.score(first))
    with pytest.raises(ValueError, match="2 columns"):
        net.fit(np.zeros((3, 3)))
    with pytest.raises(ValueError, match="Row 1 has 2 in 't'"):
        net.fit([[0, 0], [0, 2]])
    with pytest.raises(ValueError, match="cycle"):
        mc.BayesNet({"s": 2, "t": 2}, {"t": ["s"], "s": ["t"]}).fit([[0, 0]])
    with pytest.raises(ValueError, match="prior must be"):
        mc.BayesNet({"s": 2}, prior="flat").fit([[0]])
    other = mc.BayesNets({"s": [[0.5, 0.5]]}, {"s": 2})
    with pytest.raises(ValueError, match="same nodes"):
        mc.BayesNet({"s": 2, "t": 2}, prior=other).fit([[0, 0]])
    with pytest.warns(match="converge"):
        mc.BayesNet({"h": 2, "s": 2, "t": 2}, {"s": ["h"], "t": ["h"]}, ["h"], n_iter=2, tol=1e-12).fit(
            [[0, 1], [1, 1]]
        )


def hmms(seed=0, n=3, states=2):
    rng = np.random.default_rng(seed)
    emission = mc.Categoricals(rng.dirichlet(np.ones(3), size=(n, states)), alphabet="abc")
    initial = rng.dirichlet(np.ones(states), size=n)
    return mc.HMMs(initial, rng.dirichlet(np.ones(states), size=(n, states)), emission)


@pytest.mark.slow
def test_an_unrolled_hmm_is_a_network():
    """T-12, and an HMM against a network of another structure."""
    p, q, length = hmms(), hmms(1, 2, 3), 5
    left, right = (mc.BayesNets.from_hmm(models, length) for models in (p, q))
    for rho in (0.5, 1.0, 2.0):
        kernel = mc.ProbabilityProduct(rho=rho, length=length)
        np.testing.assert_allclose(kernel(left, right), kernel(p, q), rtol=1e-12)
        np.testing.assert_allclose(kernel(left), kernel(p), rtol=1e-12)
    kernel = mc.MeanMap(gamma=0.3, length=length)
    np.testing.assert_allclose(kernel(left, right), kernel(p, q), rtol=1e-12)
    words = ["abcab", "cccaa"]
    np.testing.assert_allclose(left.log_prob([list(w) for w in words]), p.log_prob(words), rtol=1e-12)
    free = mc.BayesNets(
        {f"x{t}": [[0.2, 0.3, 0.5]] for t in range(length)}, {f"x{t}": list("abc") for t in range(length)}
    )
    coin = mc.HMMs([[1.0]], [[[1.0]]], mc.Categoricals([[[0.2, 0.3, 0.5]]], alphabet="abc"))
    kernel = mc.ProbabilityProduct(rho=1.0, length=length)
    np.testing.assert_allclose(kernel(left, free), kernel(p, coin), rtol=1e-12)


@pytest.mark.slow
def test_an_unrolled_gaussian_hmm_is_a_network():
    rng = np.random.default_rng(0)
    for covariance in (rng.gamma(2.0, size=(3, 2, 1)), rng.gamma(2.0, size=(3, 2))):
        p = mc.HMMs(hmms().initial, hmms().transition, mc.Gaussians(rng.normal(size=(3, 2, 1)), covariance))
        left = mc.BayesNets.from_hmm(p, 4)
        for kernel in (mc.ProbabilityProduct(rho=0.5, length=4), mc.MeanMap(gamma=0.3, length=4)):
            np.testing.assert_allclose(kernel(left), kernel(p), rtol=1e-12)
        x = rng.normal(size=(2, 4))
        np.testing.assert_allclose(left.log_prob(x), p.log_prob(x), rtol=1e-12)
    with pytest.raises(TypeError, match="Poissons"):
        mc.BayesNets.from_hmm(mc.HMMs([[1.0]], [[[1.0]]], mc.Poissons([[[1.0]]])), 2)
    with pytest.raises(ValueError, match="length must be"):
        mc.BayesNets.from_hmm(hmms(), 0)
    with pytest.raises(ValueError, match="2 different names"):
        mc.BayesNets.from_hmm(hmms(), 2, ["a", "a"])


class Table:
    """What pgmpy's TabularCPD looks like."""

    def __init__(self, variables, values, state_names):
        self.variable, self.variables, self.values, self.state_names = variables[0], variables, values, state_names


class Network:
    """What pgmpy's DiscreteBayesianNetwork looks like."""

    def __init__(self, *cpds):
        self.cpds = cpds

    def nodes(self):
        return ["rain", "wet"]

    def get_cpds(self):
        return list(self.cpds)


def test_networks_of_pgmpy():
    rain = Table(["rain"], np.array([0.2, 0.8]), {"rain": ["yes", "no"]})
    wet = Table(["wet", "rain"], np.array([[0.1, 0.9], [0.9, 0.1]]), {"wet": ["dry", "soaked"], "rain": ["no", "yes"]})
    net = mc.BayesNets.from_pgmpy(Network(rain, wet), hidden=["rain"])
    np.testing.assert_array_equal(net.table("wet")[0], [[0.9, 0.1], [0.1, 0.9]])
    assert net.hidden == ("rain",)
    with pytest.raises(ValueError, match="no table for 'wet'"):
        mc.BayesNets.from_pgmpy(Network(rain))
    with pytest.raises(TypeError, match="pgmpy; got int"):
        mc.BayesNets.from_pgmpy(3)


@pytest.mark.parametrize("name", ["alarm", "child", "insurance", "hailfinder"])
def test_posteriors_are_those_of_pgmpy(name, real_folder):
    readwrite = pytest.importorskip("pgmpy.readwrite", reason="compares with pgmpy: pip install pgmpy")
    import gzip

    from pgmpy.inference import VariableElimination

    text = gzip.decompress((real_folder / "bif" / f"{name}.bif.gz").read_bytes()).decode()
    theirs = readwrite.BIFReader(string=text).get_model()
    net = mc.BayesNets.from_pgmpy(theirs)
    x = net.sample(1, random_state=0)[0, 0]
    known = {n: dict(net.nodes)[n][int(v)] for n, v in list(zip(net.observed, x, strict=True))[::3]}
    node = net.observed[1]
    found = VariableElimination(theirs).query([node], evidence=known, show_progress=False)
    expected = [found.get_value(**{node: state}) for state in dict(net.nodes)[node]]
    np.testing.assert_allclose(mc.read_bif(text).posterior(known, node)[0, 0], expected, atol=1e-8)


def enumerated(net, evidence, node):
    """Posterior of a node of a network of binary nodes by the sum over all joint states."""
    names = [name for name, _ in net.nodes]
    found = np.zeros(2)
    for states in itertools.product((0, 1), repeat=len(names)):
        at = dict(zip(names, states, strict=True))
        if all(at[name] == value for name, value in evidence.items()):
            tables = (net.table(name)[0][tuple(at[u] for u in (*above, name))] for name, above in net.parents)
            found[at[node]] += np.prod(list(tables))
    return found / found.sum()


def test_verbs_of_the_estimator():
    """What a fitted estimator predicts, against the sum over all joint states."""
    nodes = dict.fromkeys(("cause", "a", "b", "c"), ("no", "yes"))
    net = mc.BayesNet(nodes, {"a": ["cause"], "b": ["cause"], "c": ["a", "b"]}, hidden=["cause"], n_iter=20)
    X = np.random.default_rng(0).integers(0, 2, (30, 3)).astype(float)
    X[:, 1] = np.where(np.arange(30) % 3, X[:, 0], X[:, 1])
    X[4, 1] = np.nan
    net.fit(X)
    frame = pd.DataFrame(X, columns=list("abc"), index=range(100, 130))
    evidence = [{name: value for name, value in zip("abc", row, strict=True) if value == value} for row in X]
    for node, given in (("cause", frame), ("c", frame), ("c", frame[["b", "a"]])):
        found = net.predict_proba(given, node)
        wanted = [enumerated(net.model_, {k: v for k, v in e.items() if k != node}, node) for e in evidence]
        np.testing.assert_allclose(found, wanted, rtol=1e-10)
        assert (list(found.columns), found.columns.name, list(found.index)) == (["no", "yes"], node, list(frame.index))
        assert net.predict(given, node).tolist() == found.idxmax(axis=1).tolist()
    np.testing.assert_array_equal(net.predict(X), net.predict(frame, "cause"))
    total = net.model_.log_prob(X).sum()
    assert net.score(X) == pytest.approx(total / 30)
    assert net.bic(X) == pytest.approx(9 * np.log(30) - 2 * total)
    assert net.aic(frame) == pytest.approx(18 - 2 * total)
    assert net.sample(5, random_state=0).shape == (5, 3)
    assert net.summary().splitlines()[0] == "BayesNet of 4 nodes (1 hidden), 9 free parameters"
    with pytest.raises(ValueError, match="must be one of cause, a, b, c"):
        net.predict(X, "d")
    with pytest.raises(ValueError, match="0 hidden nodes, not one"):
        mc.BayesNet({"a": 2}).fit(X[:, :1]).predict(X[:, :1])


def test_numbered_states_are_predicted_as_numbers():
    rows = pd.DataFrame({"a": [0, 1, 2, 2], "b": [0, 1, 1, 1]})
    net = mc.BayesNet({"a": 3, "b": ["0", "1"]}, {"b": ["a"]}).fit(rows)
    assert net.predict({"b": [0, 1]}, "a").tolist() == [0, 2]
    assert net.predict_proba({"b": [0, 1]}, "a").columns.tolist() == [0, 1, 2]
    assert net.predict(rows, "b").tolist() == ["0", "1", "1", "1"]
    with pytest.raises(ValueError, match=r"same length; got {'a': 2, 'b': 1}"):
        net.predict({"a": [0, 1], "b": [0]}, "a")


def test_frames_of_several_networks():
    nets = mc.BayesNets({"a": [[0.2, 0.8], [0.5, 0.5]], "b": np.full((2, 2, 2), 0.5)}, {"a": 2, "b": 2}, {"b": ["a"]})
    found = nets.posterior(pd.DataFrame({"b": [0, 1, None]}, index=list("xyz")), "a", as_frame=True)
    assert found.index.tolist() == [(i, x) for i in range(2) for x in "xyz"]
    np.testing.assert_allclose(found.loc[(0, "y")], [0.2, 0.8])
