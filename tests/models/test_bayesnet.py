"""Bayesian networks against sums over all states."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

import mercer as mc
from mercer.models._nets import evidence, operand
from mercer.models._nets.contraction import LARGEST

STATES = ("low", "high", "top")


def random_net(seed, observed=("a", "b", "c"), hidden=("h", "k"), size=2, gaussian=False, zeros=False):
    """Networks of a random structure; observed nodes have the same states for every seed, hidden ones do not."""
    rng = np.random.default_rng(seed)
    order = list(rng.permutation([*observed, *hidden]))
    n_states = {name: 2 + k % 2 for k, name in enumerate(observed)} | {name: int(rng.integers(2, 4)) for name in hidden}
    nodes = {name: STATES[: n_states[name]] for name in [*hidden, *observed]}
    parents = {name: [u for u in order[:k] if rng.random() < 0.6][:3] for k, name in enumerate(order)}
    tables = {}
    for name in order:
        shape = (size, *(n_states[u] for u in parents[name]), n_states[name])
        table = rng.gamma(0.7, size=shape) + 1e-3
        if zeros:
            table[rng.random(shape) < 0.3] = 0.0
            table[..., 0] += 1e-3
        tables[name] = table / table.sum(axis=-1, keepdims=True)
    extra = {}
    if gaussian:
        nodes = nodes | {"x": "gaussian", "y": "gaussian"}
        parents |= {"x": [observed[0], hidden[0]], "y": []}
        shape = (size, n_states[observed[0]], n_states[hidden[0]])
        extra = {
            "mean": {"x": rng.normal(size=shape), "y": rng.normal(size=(size,))},
            "variance": {"x": rng.gamma(2.0, size=shape), "y": rng.gamma(2.0, size=(size,))},
        }
    return mc.BayesNets(tables, nodes, parents, hidden, **extra)


def made(net, probability, mean, variance):
    """A network of the same structure from the entries of all tables."""
    parts = {"probability": probability, "mean": mean, "variance": variance}
    return mc.BayesNets._make(**parts, nodes=net.nodes, parents=net.parents, hidden=net.hidden)


def rows_of(net):
    return dict(net.nodes), dict(net.parents)


def density(net, i, states, values, power=1.0):
    """Probability of one assignment of states (by name) and of values of Gaussian nodes, to a power."""
    nodes, parents = rows_of(net)
    total = 1.0
    for name, own in nodes.items():
        above = tuple(nodes[u].index(states[u]) for u in parents[name])
        if own:
            total *= net.table(name)[(i, *above, own.index(states[name]))] ** power
        elif name in values:
            at = net._graph.places[net._graph.number[name]].start
            row = int(np.ravel_multi_index(above, net._graph.shapes[net._graph.number[name]])) if above else 0
            total *= norm.pdf(values[name], net.mean[i, at + row], np.sqrt(net.variance[i, at + row])) ** power
    return total


def assignments(net, names=None):
    nodes, _ = rows_of(net)
    names = [name for name in nodes if nodes[name]] if names is None else names
    for states in itertools.product(*(nodes[name] for name in names)):
        yield dict(zip(names, states, strict=True))


def brute_product(p, q, i, j, rho):
    """The sum over shared observed and separate hidden states of p^rho q^rho."""
    seen = [name for name in p.observed if dict(p.nodes)[name]]
    total = 0.0
    for x in assignments(p, seen):
        left = sum(density(p, i, x | h, {}, rho) for h in assignments(p, p.hidden))
        right = sum(density(q, j, x | h, {}, rho) for h in assignments(q, q.hidden))
        total += left * right
    return total


@given(st.integers(0, 1000), st.booleans())
def test_log_probabilities_are_sums_over_what_is_missing(seed, zeros):
    net = random_net(seed, zeros=zeros)
    rng = np.random.default_rng(seed)
    x = net.sample(4, random_state=seed)[1]
    x[rng.random(x.shape) < 0.4] = np.nan
    nodes, _ = rows_of(net)
    found = net.log_prob(x)
    for row, point in enumerate(x):
        for i in range(2):
            expected = sum(
                density(net, i, states, {})
                for states in assignments(net)
                if all(np.isnan(v) or nodes[n].index(states[n]) == v for n, v in zip(net.observed, point, strict=True))
            )
            np.testing.assert_allclose(np.exp(found[i, row]), expected, rtol=1e-10, atol=1e-300)


def test_all_points_sum_to_one_and_groups_agree(monkeypatch):
    net = random_net(3)
    x = np.array(list(itertools.product(*([np.nan, *range(len(s))] for n, s in net.nodes if n not in net.hidden))))
    together = net.log_prob(x)
    complete = ~np.isnan(x).any(axis=1)
    np.testing.assert_allclose(np.exp(together[:, complete]).sum(axis=1), 1, rtol=1e-12)
    monkeypatch.setattr(evidence, "PATTERN_COST", 0)
    monkeypatch.setattr(evidence, "MEMORY", 50)
    np.testing.assert_allclose(net.log_prob(x), together, rtol=1e-12, atol=1e-14)


def test_posteriors_are_ratios(monkeypatch):
    net = random_net(5, gaussian=True)
    x = net.sample(6, random_state=1)[0]
    x[0, 0] = x[1, 1] = x[2, 3] = x[3] = np.nan
    nodes, _ = rows_of(net)
    for cost in (evidence.PATTERN_COST, 0):
        monkeypatch.setattr(evidence, "PATTERN_COST", cost)
        for name in ("h", "k", "a"):
            found = net.posterior(x, name)
            for row, point in enumerate(x):
                known = {n: v for n, v in zip(net.observed, point, strict=True) if not np.isnan(v)}
                values = {n: known[n] for n in ("x", "y") if n in known}
                weight = np.zeros(len(nodes[name]))
                for states in assignments(net):
                    if all(nodes[n].index(states[n]) == v for n, v in known.items() if nodes[n]):
                        weight[nodes[name].index(states[name])] += density(net, 0, states, values)
                np.testing.assert_allclose(found[0, row], weight / weight.sum(), rtol=1e-10, atol=1e-14)


@given(st.integers(0, 500), st.sampled_from([0.3, 0.5, 1.0, 2.0]), st.booleans())
def test_products_of_two_structures_are_sums_over_all_states(seed, rho, zeros):
    p = random_net(seed, zeros=zeros)
    q = random_net(seed + 1, observed=("a", "b", "c"), hidden=("k", "z", "w")[: 1 + seed % 3], size=3, zeros=zeros)
    found = mc.ProbabilityProduct(rho=rho, normalize=False)(p, q)
    expected = [[brute_product(p, q, i, j, rho) for j in range(3)] for i in range(2)]
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-300)


@given(st.integers(0, 500))
def test_mean_maps_of_two_structures_are_expectations(seed):
    p, q = random_net(seed), random_net(seed + 1, hidden=("w",))
    gamma = 0.3
    points = np.array(list(itertools.product(range(2), range(3), range(2))), dtype=float)
    different = (points[:, None] != points).sum(axis=-1)
    expected = np.exp(p.log_prob(points)) @ np.exp(-2 * gamma * different) @ np.exp(q.log_prob(points)).T
    np.testing.assert_allclose(mc.MeanMap(gamma=gamma, normalize=False)(p, q), expected, rtol=1e-11)


@pytest.mark.parametrize("kernel", [mc.ProbabilityProduct(rho=0.7), mc.MeanMap(gamma=0.4)])
def test_gaussian_leaves_are_integrated(kernel):
    """By quadrature over both Gaussian nodes; x has an observed and a hidden parent."""
    p, q = random_net(0, gaussian=True), random_net(1, gaussian=True)
    kernel = kernel.set_params(normalize=False)
    rho = getattr(kernel, "rho", 1.0)
    grid, weight = np.polynomial.legendre.leggauss(120)
    grid, weight = 12 * grid, 12 * weight
    nodes, _ = rows_of(p)

    def parts(net, i):
        """Sums over hidden states of powers, for all observed states and values: (states, values of x, of y)."""
        found = []
        for states in assignments(net, [n for n in net.observed if nodes[n]]):
            total = 0.0
            for h in assignments(net, net.hidden):
                row = states | h
                along = [density(net, i, row, {n: grid}, rho) for n in ("x", "y")]
                total = total + along[0][:, None] * along[1] / density(net, i, row, {}, rho)
            found.append(total)
        return np.array(found)

    left, right = parts(p, 1), parts(q, 0)
    if isinstance(kernel, mc.MeanMap):
        close = np.exp(-kernel.gamma * (grid[:, None] - grid) ** 2)
        states = list(itertools.product(range(2), range(3), range(2)))
        differ = np.exp(-2 * kernel.gamma * (np.array(states)[:, None] != np.array(states)).sum(axis=-1))
        moved = np.einsum("uv,vxy,xz,yw->uzw", differ, right * weight[:, None] * weight, close, close, optimize=True)
        expected = (left * weight[:, None] * weight * moved).sum()
    else:
        expected = (left * right * weight[:, None] * weight).sum()
    np.testing.assert_allclose(kernel(p, q)[1, 0], expected, rtol=1e-6)
    np.testing.assert_allclose(kernel.diag(p), np.diag(kernel(p, p)), rtol=1e-12)


def test_states_and_variables_are_matched_by_name():
    p = random_net(0, hidden=("h",))
    turned = {n: s[::-1] for n, s in p.nodes}
    tables = {n: np.flip(p.table(n), axis=tuple(range(1, p.table(n).ndim))) for n, _ in p.nodes}
    q = mc.BayesNets(dict(reversed(tables.items())), dict(reversed(turned.items())), dict(p.parents), p.hidden)
    for kernel in (mc.ProbabilityProduct(rho=0.5), mc.MeanMap(gamma=0.3)):
        np.testing.assert_allclose(kernel(p, q), kernel(p), rtol=1e-12)
        np.testing.assert_allclose(kernel(q, p), kernel(p), rtol=1e-12)


def test_numbers_that_underflow_are_rescued(monkeypatch):
    """A chain that is only possible through entries of 1e-200 each."""
    names = [f"n{k}" for k in range(6)]
    tiny = np.array([[[1e-200, 1.0], [1e-200, 1.0]]])
    tables = {"n0": tiny[:, 0]} | dict.fromkeys(names[1:], tiny)
    parents = {names[k]: [names[k - 1]] for k in range(1, 6)}
    nets = mc.BayesNets(tables, dict.fromkeys(names, 2), parents)
    assert nets.log_prob(np.zeros((1, 6)))[0, 0] == pytest.approx(-1200 * np.log(10), rel=1e-12)
    certain = {n: np.broadcast_to([1.0, 0.0], t.shape) for n, t in tables.items()}
    zero = mc.BayesNets(certain, dict.fromkeys(names, 2), parents)
    kernel = mc.ProbabilityProduct(rho=1.0, normalize=False)
    assert kernel.log(nets, zero)[0, 0] == pytest.approx(-1200 * np.log(10), rel=1e-12)
    assert kernel.log(nets)[0, 0] == pytest.approx(0, abs=1e-12)
    p, q = random_net(0, size=4), random_net(1, size=5)
    fast = kernel.log(p, q)
    monkeypatch.setattr("mercer.models._nets.contraction.UNSOUND", 1.0)
    monkeypatch.setattr(operand, "MEMORY", 100)
    np.testing.assert_allclose(kernel.log(p, q), fast, rtol=1e-12)
    np.testing.assert_allclose(kernel.diag(p), np.diag(kernel(p)), rtol=1e-12)


def test_samples_have_the_probabilities():
    net = random_net(7, gaussian=True)
    x = net.sample(20_000, random_state=0)
    points = np.array(list(itertools.product(range(2), range(3), range(2))), dtype=float)
    expected = np.exp(net.log_prob(np.concatenate([points, np.full((12, 2), np.nan)], axis=1)))
    for i in range(2):
        found = (x[i, :, None, :3] == points).all(axis=-1).mean(axis=0)
        np.testing.assert_allclose(found, expected[i], atol=0.02)
    assert net.sample(0).shape == (2, 0, 5)
    with pytest.raises(ValueError, match="size must be"):
        net.sample(-1)


def test_data_by_name():
    net = random_net(0)
    frame = pytest.importorskip("pandas").DataFrame({"c": ["low", None], "a": ["high", "low"], "b": ["top", "low"]})
    expected = net.log_prob([[1, 2, 0], [0, 0, np.nan]])
    np.testing.assert_array_equal(net.log_prob(frame), expected)
    np.testing.assert_array_equal(net.log_prob([["high", "top", "low"], ["low", "low", None]]), expected)
    np.testing.assert_array_equal(net.log_prob({"a": "low", "b": 0}), expected[:, 1:])
    with pytest.raises(ValueError, match="'huge' in 'a'"):
        net.log_prob({"a": "huge"})
    with pytest.raises(ValueError, match="'q' is not one"):
        net.log_prob({"q": 1})
    with pytest.raises(ValueError, match="Row 0 has 3 in 'b'"):
        net.log_prob([[0, 3, 0]])
    with pytest.raises(ValueError, match=r"shape \(T, 3\)"):
        net.log_prob([[0, 1]])


def test_batches_keep_their_structure(tmp_path):
    net = random_net(0, gaussian=True)
    net.save(tmp_path / "nets.npz")
    again = mc.load(tmp_path / "nets.npz")
    assert again.digests() == net.digests()
    assert (again.nodes, again.parents, again.hidden) == (net.nodes, net.parents, net.hidden)
    assert mc.BayesNets.concat([net, again]).shape == (4,)
    assert net[0].shape == ()
    assert net.reshape(2, 1).log_prob(net.sample(3)[0]).shape == (2, 1, 3)
    with pytest.raises(ValueError, match="one structure"):
        mc.BayesNets.concat([random_net(0), random_net(1)])
    assert set(net.tables()) == {"h", "k", "a", "b", "c", "x", "y"}


@pytest.mark.slow
def test_gradients_flow(torch):
    plain = random_net(0, gaussian=True)
    fields = [torch.tensor(getattr(plain, name), requires_grad=True) for name in ("probability", "mean", "variance")]
    net = made(plain, *fields)
    kernel = mc.ProbabilityProduct(rho=0.5)
    np.testing.assert_allclose(kernel(net).detach().numpy(), kernel(plain), rtol=1e-10)
    kernel.log(net)[0, 1].backward()
    assert all(torch.isfinite(field.grad).all() for field in fields)


@pytest.mark.slow
def test_the_cost_is_known_before_and_a_hopeless_one_is_refused():
    many = [f"n{k}" for k in range(30)]
    ring = {n: np.full((1, 2, 2, 2), 0.5) for n in many}
    grid = {many[k]: [many[k - 1], many[k - 5]] for k in range(5, 30)}
    tables = {n: np.full((1, 2), 0.5) for n in many} | {n: ring[n] for n in grid}
    wide = mc.BayesNets(tables, dict.fromkeys(many, 2), grid)
    assert wide.contraction_cost().largest < LARGEST
    tables = {n: np.full((1, 8), 1 / 8) for n in many} | {n: np.full((1, 8, 8, 8), 1 / 8) for n in grid}
    wide = mc.BayesNets(tables, dict.fromkeys(many, 8), grid)
    shuffled = np.random.default_rng(0).permutation(many)
    other = {str(shuffled[k]): [str(shuffled[k - 1]), str(shuffled[k - 7])] for k in range(7, 30)}
    tables = {n: np.full((1, *([8] * len(other.get(n, []))), 8), 1 / 8) for n in many}
    with pytest.raises(ValueError, match=r"needs a table of .* entries"):
        mc.ProbabilityProduct()(wide, mc.BayesNets(tables, dict.fromkeys(many, 8), other))


GOOD = {"probability": {"a": [0.5, 0.5], "b": [[0.5, 0.5], [0.1, 0.9]]}, "nodes": {"a": 2, "b": ["u", "v"]}}


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"parents": {"a": ["b"], "b": ["a"]}}, "cycle; got"),
        ({"parents": {"b": ["z"]}}, "got 'z'"),
        ({"parents": {"b": ["a", "a"]}}, "each node once"),
        ({"hidden": ["z"]}, "got 'z'"),
        ({"hidden": ["a", "b"]}, "At least one node"),
        ({"nodes": {}}, "at least one node"),
        ({"nodes": {"a": 2, "b": ["u", "u"]}}, "'u' twice"),
        ({"nodes": {"a": 2, "b": "real"}}, "'gaussian'; got 'real'"),
        ({"nodes": {"a": 3, "b": ["u", "v"]}}, r"shape \(..., 3\)"),
        ({"probability": {"a": [0.5, 0.5]}}, "'b' has none"),
        ({"probability": GOOD["probability"] | {"c": [1.0]}}, "got 'c'"),
        ({"probability": GOOD["probability"] | {"a": [0.5, 0.6]}}, "'a' sums to 1.1"),
        ({"probability": GOOD["probability"] | {"b": [[0.5, 0.5], [0.1, 0.8]]}}, "'b' given a=1 sums to 0.9"),
        ({"probability": GOOD["probability"] | {"b": [[0.5, 0.5], [-1, 2]]}}, "'b' given a=1 contains -1"),
        ({"probability": np.ones(5)}, "the 6 entries"),
        ({"mean": {"a": 1.0}}, "got 'a'"),
        ({"nodes": GOOD["nodes"] | {"x": "gaussian"}}, "mean must have a table for every node; 'x' has none"),
    ],
)
def test_bad_networks_are_named(change, match):
    good = GOOD | {"parents": {"b": ["a"]}}
    assert mc.BayesNets(**good).shape == ()
    with pytest.raises(ValueError, match=match):
        mc.BayesNets(**(good | change))


def test_bad_pairs_are_named():
    p = random_net(0)
    with pytest.raises(ValueError, match="'c' is observed in only one"):
        mc.ProbabilityProduct()(p, random_net(0, observed=("a", "b")))
    nodes = dict(p.nodes) | {"a": ("low", "none")}
    with pytest.raises(ValueError, match="same states of 'a'"):
        mc.ProbabilityProduct()(p, mc.BayesNets(p.tables(), nodes, p.parents, p.hidden))
    with pytest.raises(ValueError, match="node must be one of"):
        p.posterior({"a": 0}, "z")
    certain = mc.BayesNets({"a": [[1.0, 0.0]], "b": [[0.5, 0.5]]}, {"a": 2, "b": 2}, hidden=["b"])
    with pytest.raises(ValueError, match="Row 0 has probability zero"):
        certain.posterior({"a": 1}, "b")


def test_columns_that_a_frame_does_not_have_are_missing():
    pandas = pytest.importorskip("pandas")
    p = random_net(0)
    observed = [name for name in dict(p.nodes) if name not in p.hidden]
    rng = np.random.default_rng(0)
    whole = pandas.DataFrame({name: rng.integers(0, 2, 5) for name in observed})
    for left in (observed[:1], observed[1:]):
        some = whole.drop(columns=left)
        marked = whole.assign(**dict.fromkeys(left))  # columns of None
        for name in left:
            np.testing.assert_array_equal(p.posterior(some, name), p.posterior(marked, name))
        np.testing.assert_array_equal(p.log_prob(some), p.log_prob(marked))
    with pytest.raises(ValueError, match=r"'age' is not one\. Rename or drop it"):
        p.posterior(whole.assign(age=1), observed[0])
    net = mc.BayesNet({"x": 2, "y": 2}, {"y": ["x"]})
    with pytest.raises(ValueError, match=r"'y' is missing\. Add it"):  # a fit learns nothing about it
        net.fit(pandas.DataFrame({"x": [0, 1]}))


def binary_net(seed, observed, hidden, size=1):
    """Networks of binary nodes over a random graph with up to three parents."""
    rng = np.random.default_rng(seed)
    names = [*(f"x{k}" for k in range(observed)), *(f"h{k}" for k in range(hidden))]
    order = list(rng.permutation(names))
    above = {name: list(rng.permutation(order[:k])[: rng.integers(0, 4)]) for k, name in enumerate(order)}
    tables = {name: rng.dirichlet([1, 1], size=(size, *(2,) * len(above[name]))) for name in names}
    return mc.BayesNets(tables, dict.fromkeys(names, 2), above, names[observed:])


def whole_table(net, observed, power=1.0):
    """The table of the observed nodes: powers of all joint probabilities, summed over the hidden nodes."""
    names = [name for name, _ in net.nodes]
    joint = np.ones((2,) * len(names))
    for name, above in net.parents:
        family = [names.index(v) for v in (*above, name)]
        axes = np.argsort(family)
        shape = [2 if k in family else 1 for k in range(len(names))]
        joint = joint * np.transpose(np.asarray(net.table(name))[0] ** power, axes).reshape(shape)
    return joint.sum(axis=tuple(range(observed, len(names))))


@pytest.mark.parametrize(("observed", "hidden"), [(12, 0), (8, 4), (5, 7), (1, 11)])
def test_twelve_binary_nodes_by_brute_force(observed, hidden):
    p, q = binary_net(0, observed, hidden), binary_net(1, observed, max(hidden - 2, 0))
    for rho in (0.3, 0.5, 1.0, 2.0):
        expected = (whole_table(p, observed, rho) * whole_table(q, observed, rho)).sum()
        found = mc.ProbabilityProduct(rho=rho, normalize=False)(p, q)
        np.testing.assert_allclose(found, [[expected]], rtol=1e-10)
    smooth = whole_table(q, observed)
    for axis in range(observed):  # a mismatch has the value exp(-2 gamma)
        smooth = smooth + np.exp(-0.8) * np.flip(smooth, axis)
    expected = (whole_table(p, observed) * smooth).sum()
    np.testing.assert_allclose(mc.MeanMap(gamma=0.4, normalize=False)(p, q), [[expected]], rtol=1e-10)
    every = np.indices((2,) * observed).reshape(observed, -1).T
    logs = np.log(whole_table(p, observed).ravel())
    np.testing.assert_allclose(p.log_prob(every)[0], logs, rtol=1e-9)
