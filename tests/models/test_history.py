"""Shared hidden histories: chains and trees against enumeration, and where numbers leave the floating range."""

from __future__ import annotations

import itertools

import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

import mercer as mc
from mercer.models._history.operand import PlaneOperand, history_operand
from mercer.models._history.planes import Evidence

# -- slow truths: all hidden states one after the other, and a recursion in logarithms --------------------------


def enumerated(parent, transition, root, es, et):
    """Sum over all assignments of states to nodes of P(states) P(s | states) P(t | states)."""
    total = 0.0
    for states in itertools.product(range(len(root)), repeat=len(parent)):
        weight = 1.0
        for v, a in enumerate(states):
            step = transition if np.ndim(transition) == 2 else transition[v]
            weight *= root[a] if parent[v] < 0 else step[states[parent[v]], a]
            weight *= np.exp(es[v, a] + et[v, a])
        total += weight
    return total


def enumerated_prunings(parent, transition, root, es, et, p):
    """Sum over all sets of nodes where the data part, none below another, and over all states."""
    nodes = range(len(parent))
    inner = [v for v in nodes if v in set(parent)]

    def ancestors(v):
        while parent[v] >= 0:
            v = parent[v]
            yield v

    total = 0.0
    for size in range(len(inner) + 1):
        for cut in itertools.combinations(inner, size):
            if any(set(ancestors(v)) & set(cut) for v in cut):
                continue
            below = {v for v in nodes if set(ancestors(v)) & set(cut)}
            uncut = [v for v in inner if v not in cut and v not in below]
            total += p**size * (1 - p) ** len(uncut) * _parted(parent, transition, root, es, et, below)
    return total


def _parted(parent, transition, root, es, et, below):
    """Sum over the shared states; what is below a cut is summed for both data, each by itself."""
    shared = [v for v in range(len(parent)) if v not in below]
    total = 0.0
    for chosen in itertools.product(range(len(root)), repeat=len(shared)):
        states, weight = dict(zip(shared, chosen, strict=True)), 1.0
        for v in shared:
            step = transition if np.ndim(transition) == 2 else transition[v]
            weight *= root[states[v]] if parent[v] < 0 else step[states[parent[v]], states[v]]
            weight *= np.exp(es[v, states[v]] + et[v, states[v]])
        for evidence in (es, et):
            weight *= _alone(parent, transition, evidence, sorted(below), states)
        total += weight
    return total


def _alone(parent, transition, evidence, below, states):
    total = 0.0
    for chosen in itertools.product(range(evidence.shape[1]), repeat=len(below)):
        all_states, weight = dict(states) | dict(zip(below, chosen, strict=True)), 1.0
        for v in below:
            step = transition if np.ndim(transition) == 2 else transition[v]
            weight *= step[all_states[parent[v]], all_states[v]] * np.exp(evidence[v, all_states[v]])
        total += weight
    return total


def by_logarithms(parent, transition, root, es, et):
    """The recursion with np.logaddexp, one pair and one state at a time."""
    with np.errstate(divide="ignore"):
        log_t, log_root = np.log(transition), np.log(root)
    message, value = es + et, 0.0
    for v in range(len(parent) - 1, -1, -1):
        if parent[v] < 0:
            value += np.logaddexp.reduce(log_root + message[v])
            continue
        step = log_t if log_t.ndim == 2 else log_t[v]
        message[parent[v]] += np.logaddexp.reduce(step + message[v][None, :], axis=1)
    return value


def by_pairs(function, parent, transition, root, evidence, *more):
    return np.array([[function(parent, transition, root, s, t, *more) for t in evidence] for s in evidence])


def random_tree(rng, nodes):
    return np.array([-1, *(int(rng.integers(0, v)) for v in range(1, nodes))])


def random_history(rng, nodes, states, data, shared=False):
    transition = rng.dirichlet(np.ones(states), states if shared else (nodes, states))
    evidence = np.log(rng.random((data, nodes, states)))
    return transition, rng.dirichlet(np.ones(states)), evidence


# -- values -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_trees_against_enumeration(seed):
    rng = np.random.default_rng(seed)
    nodes, states = int(rng.integers(1, 7)), int(rng.integers(1, 4))
    parent = random_tree(rng, nodes)
    transition, root, evidence = random_history(rng, nodes, states, 11, shared=bool(seed % 2))
    expected = by_pairs(enumerated, parent, transition, root, evidence)
    operand = history_operand(parent, transition, root, evidence)
    np.testing.assert_allclose(np.exp(operand.pair(operand)), expected, rtol=1e-12)
    np.testing.assert_allclose(np.exp(operand.alone()), np.diag(expected), rtol=1e-12)
    part = operand[np.array([3, 0])].pair(operand[2:9])
    np.testing.assert_allclose(np.exp(part), expected[[3, 0]][:, 2:9], rtol=1e-12)


def test_several_roots_are_independent():
    rng = np.random.default_rng(0)
    parent = np.array([-1, 0, -1, 2, 2, -1])
    transition, root, evidence = random_history(rng, 6, 2, 5)
    operand = history_operand(parent, transition, root, evidence)
    np.testing.assert_allclose(
        np.exp(operand.pair(operand)), by_pairs(enumerated, parent, transition, root, evidence), rtol=1e-12
    )


@pytest.mark.parametrize("seed", range(4))
def test_prunings_against_enumeration(seed):
    rng = np.random.default_rng(seed)
    parent, p = random_tree(rng, 5), float(rng.uniform(0.1, 0.9))
    transition, root, evidence = random_history(rng, 5, 2, 3)
    if seed == 3:  # impossible transitions and observations
        transition[2] = [[1.0, 0.0], [0.5, 0.5]]
        evidence[0, 4, 0] = -np.inf
    expected = by_pairs(enumerated_prunings, parent, transition, root, evidence, p)
    operand = history_operand(parent, transition, root, evidence, pruning=p)
    np.testing.assert_allclose(np.exp(operand.pair(operand)), expected, rtol=1e-12)
    np.testing.assert_allclose(np.exp(operand.alone()), np.diag(expected), rtol=1e-12)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(1, 5), st.booleans(), st.booleans())
def test_any_forest_by_lanes_and_planes(seed, nodes, states, sparse, impossible):
    rng = np.random.default_rng(seed)
    parent = np.array([-1, *(int(rng.integers(-1, v)) for v in range(1, nodes))])
    transition, root, evidence = random_history(rng, nodes, states, 5)
    if sparse:
        transition = transition * (rng.random(transition.shape) < 0.6)
        root = root * (rng.random(states) < 0.8)
    if impossible:
        evidence[rng.random(evidence.shape) < 0.1] = -np.inf
    expected = by_pairs(by_logarithms, parent, transition, root, evidence)
    lanes, planes = both_ways(parent, transition, root, evidence)
    for operand in (lanes, planes):
        np.testing.assert_allclose(operand.pair(operand), expected, rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(operand.alone(), np.diag(expected), rtol=1e-11, atol=1e-11)


def both_ways(parent, transition, root, evidence):
    """The same data as an operand of vector lanes, and of planes in NumPy."""
    lanes = history_operand(parent, transition, root, evidence)
    strict = history_operand(parent, *(array_api_strict.asarray(np.asarray(x)) for x in (transition, root, evidence)))
    history = type(strict.history)(
        strict.history.forest, np.asarray(transition), np.asarray(root), 0.0, strict.history.range
    )
    return lanes, PlaneOperand(history, Evidence(np.asarray(strict.evidence.logs)), np.asarray(strict.shift), None)


# -- the order of a forest ----------------------------------------------------------------------------------------


def test_bad_histories():
    transition, root, evidence = random_history(np.random.default_rng(0), 3, 2, 4)
    for parent, message in (
        ([-1, 2, 0], "got 2 for node 1"),
        ([-2, 0, 0], "got -2 for node 0"),
        ([0.0, 1.0], "one whole number per node"),
    ):
        with pytest.raises(ValueError, match=message):
            history_operand(parent, transition, root, evidence)
    with pytest.raises(ValueError, match=r"transition must have shape \(2, 2\) or \(3, 2, 2\); got \(2, 2, 2\)"):
        history_operand([-1, 0, 0], transition[:2], root, evidence)
    with pytest.raises(ValueError, match=r"shape \(N, 3, 2\); got \(4, 2, 2\)"):
        history_operand([-1, 0, 0], transition, root, evidence[:, :2])
    with pytest.raises(ValueError, match="evidence contains NaN"):
        history_operand([-1, 0, 0], transition, root, np.full_like(evidence, np.nan))
    with pytest.raises(ValueError, match=r"pruning must be a probability; got 1.5"):
        history_operand([-1, 0, 0], transition, root, evidence, pruning=1.5)
    one, other = (history_operand(np.arange(-1, n - 1), transition[0], root, np.zeros((1, n, 2))) for n in (2, 3))
    with pytest.raises(ValueError, match="hidden nodes; got 2 and 3"):
        one.pair(other)


# -- where numbers leave the floating range -----------------------------------------------------------------------


def check_range(parent, transition, root, evidence, rtol=1e-9):
    expected = by_pairs(by_logarithms, parent, np.asarray(transition, float), np.asarray(root, float), evidence)
    assert not np.isnan(expected).any()
    for operand in both_ways(parent, transition, root, evidence):
        with np.errstate(all="raise", under="ignore"):
            found = operand.pair(operand)
        np.testing.assert_allclose(found, expected, rtol=rtol)
        np.testing.assert_allclose(operand.alone(), np.diag(expected), rtol=rtol)
    return expected


def test_evidence_beyond_the_range():
    rng = np.random.default_rng(0)
    transition, root, evidence = random_history(rng, 20, 3, 4)
    parent = random_tree(rng, 20)
    check_range(parent, transition, root, 1e6 * evidence)  # states are exp(-1e6) of each other
    check_range(parent, transition, root, evidence - 1e6)
    check_range(parent, transition, root, 300 * evidence)


@pytest.mark.slow
def test_transitions_of_all_sizes():
    rng = np.random.default_rng(1)
    for exponent in (20, 90, 110, 200, 300):
        tiny = 10.0**-exponent
        transition = np.array([[1 - tiny, tiny], [tiny, 1 - tiny]])
        evidence = 3.0 * np.log(rng.random((4, 60, 2)))
        # Every datum begins in the first state, and two of them end in the other.
        evidence[:, 0] = [0.0, -np.inf]
        evidence[1:3, 40:] -= [2000.0, 0.0]
        check_range(np.arange(-1, 59), transition, [0.5, 0.5], evidence)


@pytest.mark.parametrize(
    "transition", [np.eye(2), [[0.9, 0.1], [0.0, 1.0]], [[1.0, 0.0], [0.1, 0.9]], [[1 - 1e-200, 1e-200], [0.1, 0.9]]]
)
def test_a_lost_entry_that_decides_later(transition):
    # The end speaks against the first state, step by step, until its entry is lost beside that of the other. The
    # beginning speaks against the second one, louder: what was lost decides, where no chain can change its state.
    evidence = np.zeros((3, 60, 2))
    evidence[:, 30:] = [-15.0, 0.0]
    evidence[:, :30] = [0.0, -60.0]
    evidence[1, 30:45] = 0.0
    expected = check_range(np.arange(-1, 59), transition, [0.5, 0.5], evidence)
    if np.array_equal(transition, np.eye(2)):
        np.testing.assert_allclose(expected[0], np.log(0.5) + np.array([-900.0, -675.0, -900.0]))


def test_products_of_children_that_underflow():
    transition = np.array([[1 - 1e-90, 1e-90], [1e-90, 1 - 1e-90]])
    evidence = np.zeros((2, 9, 2))
    evidence[0, 1:] = [-1000.0, 0.0]
    evidence[0, 0] = [0.0, -1500.0]
    check_range(np.array([-1, 0, 0, 0, 0, 0, 0, 0, 0]), transition, [0.5, 0.5], evidence)


def test_impossible_pairs():
    rng = np.random.default_rng(2)
    transition, root, evidence = random_history(rng, 6, 2, 4)
    evidence[0, 3], evidence[1, 3] = [0.0, -np.inf], [-np.inf, 0.0]  # never the same state
    evidence[2, 4] = -np.inf  # impossible by itself
    expected = check_range(random_tree(rng, 6), transition, root, evidence)
    assert expected[0, 1] == expected[2, 2] == -np.inf
    assert np.isfinite(expected[3, 3])
    # The chain cannot leave the second state, in which it begins.
    expected = check_range(np.arange(-1, 5), [[0.5, 0.5], [0.0, 1.0]], [0.0, 1.0], evidence)
    assert expected[0, 0] == -np.inf
    assert np.isfinite(expected[1, 1])


@pytest.mark.parametrize("banded", [False, True])
def test_chain_of_100000_steps(banded):
    rng = np.random.default_rng(4)
    length, transition = 100_000, np.array([[0.9, 0.1], [0.2, 0.8]])
    transition = np.array([[0.9, 0.1], [0.0, 1.0]]) if banded else transition
    evidence = rng.normal(-30.0, 1.0, size=(2, length, 2))
    operand = history_operand(np.arange(-1, length - 1), transition, [0.5, 0.5], evidence)
    expected = by_logarithms(np.arange(-1, length - 1), transition, np.array([0.5, 0.5]), *evidence)
    np.testing.assert_allclose(operand.pair(operand)[0, 1], expected, rtol=1e-12)


def test_prunings_beyond_the_range():
    rng = np.random.default_rng(5)
    parent = random_tree(rng, 5)
    transition, root, evidence = random_history(rng, 5, 2, 3)
    for offset in (0.0, -1e5):
        operand = history_operand(parent, transition, root, 400 * evidence + offset, pruning=0.3)
        # Subtract the best states' own evidence, which the enumeration cannot hold.
        tops = (400 * evidence).max(axis=2)
        expected = by_pairs(enumerated_prunings, parent, transition, root, 400 * evidence - tops[..., None], 0.3)
        found = operand.pair(operand) - (tops.sum(1)[:, None] + tops.sum(1)) - 10 * offset
        np.testing.assert_allclose(np.exp(found), expected, rtol=1e-8, atol=1e-300)


# -- bits -----------------------------------------------------------------------------------------------------------


# -- other array libraries ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pruning", [0.0, 0.4])
def test_torch_with_gradients(pruning):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(7)
    parent = np.array([-1, 0, 0, 1, -1])
    arrays = random_history(rng, 5, 2, 3)
    expected = history_operand(parent, *arrays, pruning=pruning)

    def kernel(transition, root, evidence):
        operand = history_operand(parent, transition, root, evidence, pruning=pruning)
        return torch.exp(operand.pair(operand[:2])), torch.exp(operand.alone())

    tensors = [torch.tensor(x, requires_grad=True) for x in arrays]
    found, own = kernel(*tensors)
    np.testing.assert_allclose(found.detach().numpy(), np.exp(expected.pair(expected[:2])), rtol=1e-12)
    np.testing.assert_allclose(own.detach().numpy(), np.exp(expected.alone()), rtol=1e-12)
    assert torch.autograd.gradcheck(kernel, tensors)


def test_gradients_of_pairs_that_go_through_logarithms():
    torch = pytest.importorskip("torch")
    evidence = torch.zeros((2, 3, 2), dtype=torch.float64)
    evidence[0, :, 0] = -500.0
    evidence[1, :, 1] = -500.0
    evidence[0, 1, 0] = -torch.inf
    transition = torch.tensor([[0.9, 0.1], [0.2, 0.8]], dtype=torch.float64, requires_grad=True)

    def kernel(transition):
        operand = history_operand([-1, 0, 1], transition, torch.tensor([0.5, 0.5], dtype=torch.float64), evidence)
        return operand.pair(operand)

    assert torch.autograd.gradcheck(kernel, [transition])


@pytest.mark.parametrize("pruning", [0.0, 0.4])
def test_strict_arrays(pruning):
    rng = np.random.default_rng(8)
    parent = random_tree(rng, 6)
    arrays = random_history(rng, 6, 3, 5)
    arrays[2][1] *= 400  # through the log domain
    expected = history_operand(parent, *arrays, pruning=pruning)
    operand = history_operand(parent, *(array_api_strict.asarray(x) for x in arrays), pruning=pruning)
    for found, known in ((operand[1:].pair(operand), expected[1:].pair(expected)), (operand.alone(), expected.alone())):
        assert isinstance(found, type(array_api_strict.zeros(1)))
        np.testing.assert_allclose(np.asarray(found), known, rtol=1e-12)


def test_float32_keeps_its_logarithms():
    rng = np.random.default_rng(9)
    transition, root, evidence = random_history(rng, 300, 2, 4, shared=True)
    parent = np.arange(-1, 299)
    expected = history_operand(parent, transition, root, evidence).alone()
    small = (array_api_strict.asarray(x, dtype=array_api_strict.float32) for x in (transition, root, evidence))
    np.testing.assert_allclose(np.asarray(history_operand(parent, *small).alone()), expected, rtol=1e-5)


# -- hidden Markov models (MK-4) ------------------------------------------------------------------------------------


def random_hmm(rng, states=2, symbols="ab"):
    emission = mc.Categoricals(rng.dirichlet(np.ones(len(symbols)), (1, states)), alphabet=symbols)
    return mc.HMMs(rng.dirichlet(np.ones(states), 1), rng.dirichlet(np.ones(states), (1, states)), emission)


def hidden_paths(model, s, t):
    """Sum over all paths of states; a code beyond the alphabet is a set of symbols."""
    first, step, table = model.initial[0], model.transition[0], model.emission.probability[0]
    alphabet, total = model.emission.alphabet, 0.0
    codes = [[alphabet.indicators(np.array([c]))[0] > 0 for c in alphabet.encode(x)] for x in (s, t)]
    for path in itertools.product(range(len(first)), repeat=len(s)):
        weight = 1.0
        for i, a in enumerate(path):
            weight *= first[a] if i == 0 else step[path[i - 1], a]
            weight *= table[a, codes[0][i]].sum() * table[a, codes[1][i]].sum()
        total += weight
    return total


@pytest.mark.parametrize("length", [1, 2, 3, pytest.param(4, marks=pytest.mark.slow)])
def test_hmm_all_pairs_of_strings(length):
    model = random_hmm(np.random.default_rng(length), states=3)
    strings = ["".join(x) for x in itertools.product("ab", repeat=length)]
    operand = model.shared_history(strings)
    found = np.exp(operand.pair(operand))
    expected = np.array([[hidden_paths(model, s, t) for t in strings] for s in strings])
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert np.isclose(found.sum(), 1.0, rtol=1e-12)
    np.testing.assert_allclose(found.sum(axis=1), np.exp(model.log_prob(strings)[0]), rtol=1e-12)
    assert np.linalg.eigvalsh(found).min() > -1e-15


def test_hmm_with_ambiguity_codes():
    rng = np.random.default_rng(1)
    model = mc.HMMs(
        rng.dirichlet(np.ones(2), 1),
        rng.dirichlet(np.ones(2), (1, 2)),
        mc.Categoricals(rng.dirichlet(np.ones(4), (1, 2)), alphabet="dna"),
    )
    strings = ["ACR", "NNN", "AAC", "TYN"]
    operand = model.shared_history(strings)
    expected = np.array([[hidden_paths(model, s, t) for t in strings] for s in strings])
    np.testing.assert_allclose(np.exp(operand.pair(operand)), expected, rtol=1e-12)


def test_hmm_with_gaussian_emissions_and_nan():
    rng = np.random.default_rng(2)
    first, step = rng.dirichlet(np.ones(3), 1), rng.dirichlet(np.ones(3), (1, 3))
    mean, variance = rng.normal(size=(1, 3, 2)), rng.gamma(2.0, size=(1, 3, 2))
    model = mc.HMMs(first, step, mc.Gaussians(mean, variance))
    X = rng.normal(size=(5, 12, 2))
    X[0, 3, 1], X[1, 4] = np.nan, np.nan
    density = norm.logpdf(X[:, :, None, :], mean[0], np.sqrt(variance[0]))
    evidence = np.where(np.isnan(density), 0.0, density).sum(axis=-1)
    f = np.exp(evidence)
    expected = np.empty((5, 5))
    for i, j in itertools.product(range(5), repeat=2):  # forward, as in MK-4
        row = first[0] * f[i, 0] * f[j, 0]
        for t in range(1, 12):
            row = (row @ step[0]) * f[i, t] * f[j, t]
        expected[i, j] = np.log(row.sum())
    operand = model.shared_history(list(X))
    np.testing.assert_allclose(operand.pair(operand), expected, rtol=1e-11)


def test_hmm_in_torch():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(5)
    first, step, table = (rng.dirichlet(np.ones(2), n) for n in (1, (1, 2), (1, 2)))
    X, mean = rng.normal(size=(3, 4, 1)), rng.normal(size=(1, 2, 1))

    def symbols(first, step, table):
        operand = mc.HMMs(first, step, mc.Categoricals(table, alphabet="ab")).shared_history(["abb", "bab", "aaa"])
        return operand.pair(operand)

    def vectors(first, step, mean):
        operand = mc.HMMs(first, step, mc.Gaussians(mean, mean**2 + 1)).shared_history(list(X))
        return operand.pair(operand)

    for kernel, last in ((symbols, table), (vectors, mean)):
        tensors = [torch.tensor(x, requires_grad=True) for x in (first, step, last)]
        np.testing.assert_allclose(kernel(*tensors).detach().numpy(), kernel(first, step, last), rtol=1e-12)
        logits = [torch.log(x.detach()).requires_grad_() for x in tensors[:2]]

        def free(a, b, mean, kernel=kernel):
            last = torch.softmax(mean, -1) if kernel is symbols else mean
            return kernel(torch.softmax(a, -1), torch.softmax(b, -1), last)

        assert torch.autograd.gradcheck(free, [*logits, tensors[2]])


def test_hmm_messages():
    model = random_hmm(np.random.default_rng(6))
    X = mc.Sequences(["abab", "ab", "abb"], ids=["one", "two", "three"])
    with pytest.raises(ValueError, match=r"two.* has 2 observations and .*one.* has 4. .*mc.AffinePairHMM"):
        model.shared_history(X)
    with pytest.raises(ValueError, match=r"sequence 1 is empty.*Leave empty sequences out|1 .*has 0 observations"):
        model.shared_history(["a", ""])
    with pytest.raises(ValueError, match="is empty"):
        model.shared_history(["", ""])
    with pytest.raises(ValueError, match=r"must have shape \(1,\); got \(2,\)"):
        mc.HMMs.concat([model, model]).shared_history(["ab"])
    with pytest.raises(ValueError, match=r"2 observations and .* 3 observations.*mc.PairHMM"):
        model.shared_history(["ab"]).pair(model.shared_history(["abb"]))


# -- mixtures (MK-3) ------------------------------------------------------------------------------------------------


def test_mixture_of_symbols_is_a_product_of_tables():
    rng = np.random.default_rng(7)
    weights, table = rng.dirichlet(np.ones(3), 1), rng.dirichlet(np.ones(2), (1, 3))
    model = mc.Mixtures(weights, mc.Categoricals(table, alphabet="ab"))
    pairs = np.einsum("h,ha,hb->ab", weights[0], table[0], table[0])
    strings = ["".join(x) for x in itertools.product("ab", repeat=4)]
    codes = np.array([[c == "b" for c in x] for x in strings], dtype=int)
    expected = pairs[codes[:, None], codes[None]].prod(axis=-1)
    operand = model.shared_history(mc.Sequences(strings, alphabet="ab"))
    np.testing.assert_allclose(np.exp(operand.pair(operand)), expected, rtol=1e-12)
    np.testing.assert_allclose(expected.sum(), 1.0)
    with pytest.raises(ValueError, match="must have the same length"):
        model.shared_history(["ab", "a"])


def test_mixture_of_gaussians_on_rows_and_series():
    rng = np.random.default_rng(8)
    weights, mean = rng.dirichlet(np.ones(3), 1), rng.normal(size=(1, 3, 2))
    model = mc.Mixtures(weights, mc.Gaussians(mean, np.full((1, 3, 2), 0.7)))
    X = rng.normal(size=(6, 2))
    density = np.exp(norm.logpdf(X[:, None], mean[0], np.sqrt(0.7)).sum(-1))
    expected = np.einsum("h,ih,jh->ij", weights[0], density, density)
    operand = model.shared_history(X)
    np.testing.assert_allclose(np.exp(operand.pair(operand)), expected, rtol=1e-12)
    series = model.shared_history(mc.Sequences([X[:3], X[3:]]))
    np.testing.assert_allclose(np.exp(series.pair(series)[0, 1]), np.diag(expected[:3, 3:]).prod(), rtol=1e-12)


def test_mixture_of_hidden_markov_models():
    rng = np.random.default_rng(10)
    models = mc.HMMs.concat([random_hmm(rng), random_hmm(rng)])
    mixture = mc.Mixtures([[0.3, 0.7]], models.reshape(1, 2))
    strings = ["".join(x) for x in itertools.product("ab", repeat=3)]
    operand = mixture.shared_history(strings)
    parts = [models[k : k + 1].shared_history(strings) for k in range(2)]
    expected = 0.3 * np.exp(parts[0].pair(parts[0])) + 0.7 * np.exp(parts[1].pair(parts[1]))
    found = np.exp(operand[:5].pair(operand))
    np.testing.assert_allclose(found, expected[:5], rtol=1e-12)
    np.testing.assert_allclose(np.exp(operand.alone()), np.diag(expected), rtol=1e-12)
    assert operand.shape == (8,)
    assert len(operand) == 8
    assert operand.tile_hint >= 16
