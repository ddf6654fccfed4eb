"""Hidden trees against enumeration of their hidden states: probabilities, shared histories, prunings, scores (MK-6)."""

import itertools

import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from mercer.data import Alphabet
from mercer.models._tree.messages import through
from mercer.models.mixture import Mixtures
from mercer.models.tree import HiddenTrees

seeds = st.integers(0, 10**6)
few = settings(max_examples=12, deadline=None)
FLIP = np.array([[0.9, 0.1], [0.3, 0.7]])


def random_tree(seed, states=None, symbols=None, zeros=False, pruning=0.0):
    """A tree with up to 4 internal nodes and up to 5 leaves, of any shape."""
    rng = np.random.default_rng(seed)
    s, v = states or int(rng.integers(2, 4)), int(rng.integers(1, 5))
    n_leaves, a = int(rng.integers(1, 6)), symbols or int(rng.integers(2, 4))
    rows = lambda *shape: rng.dirichlet(np.ones(shape[-1]), shape[:-1])  # noqa: E731
    transition, leaf = rows(v, s, s), rows(n_leaves, s, a)
    if zeros:
        transition[-1], leaf[0] = np.eye(s), np.eye(a)[np.arange(s) % a]
    parent = [-1, *(int(rng.integers(0, i)) for i in range(1, v))]
    return HiddenTrees([parent], rows(1, s), [transition], [rng.integers(0, v, n_leaves)], [leaf], pruning=[pruning])


def all_points(p, missing=False):
    symbols = [*range(p.n_symbols), *([np.nan] if missing else [])]
    return np.array(list(itertools.product(symbols, repeat=p.dimension)), dtype=float)


def leaf_factor(p, leaf, state, symbol):
    return 1.0 if np.isnan(symbol) else p.leaf[0, leaf, state, int(symbol)]


def shown(p, x, h):
    """Probability of the leaves given the states of internal nodes."""
    return np.prod([leaf_factor(p, leaf, h[v], x[leaf]) for leaf, v in enumerate(p.leaf_parent[0])])


def hidden(p):
    """All states of the internal nodes, and their probability."""
    for h in itertools.product(range(p.n_states), repeat=p.parent.shape[1]):
        steps = [p.transition[0, v, h[p.parent[0, v]], h[v]] for v in range(1, len(h))]
        yield h, p.root[0, h[0]] * np.prod(steps)


def slow_kernel(p, x, y):
    """Enumerate the shared hidden states."""
    return sum(weight * shown(p, x, h) * shown(p, y, h) for h, weight in hidden(p))


def slow_pruned(p, x, y, pruning):
    """Enumerate where two data part, then the states of each; a state is shared where nothing above it parted."""
    parent, v = p.parent[0], p.parent.shape[1]
    total = 0.0
    for parted in itertools.product([0, 1], repeat=v):
        chance = np.prod([pruning if c else 1 - pruning for c in parted])
        shared = [True] * v
        for node in range(1, v):
            shared[node] = shared[parent[node]] and not parted[parent[node]]
        own = [node for node in range(v) if not shared[node]]
        for h, weight in hidden(p):
            for other in itertools.product(range(p.n_states), repeat=len(own)):
                g = list(h)
                for node, state in zip(own, other, strict=True):
                    g[node] = state
                steps = np.prod([p.transition[0, node, g[parent[node]], g[node]] for node in own])
                total += chance * weight * steps * shown(p, x, h) * shown(p, y, g)
    return total


def kernel(p, x, y=None):
    """Kernels of pairs, from the operand."""
    a = p.shared_history(x)
    return np.exp(a.pair(a if y is None else p.shared_history(y)))


# -- probabilities ---------------------------------------------------------------------------------------------


@few
@given(seed=seeds, zeros=st.booleans())
def test_log_prob_by_enumeration(seed, zeros):
    p = random_tree(seed, zeros=zeros)
    x = all_points(p, missing=True)
    x = x[np.random.default_rng(seed).permutation(len(x))[:40]]
    expected = [sum(weight * shown(p, row, h) for h, weight in hidden(p)) for row in x]
    assert_allclose(np.exp(p.log_prob(x))[0], expected, rtol=1e-12, atol=1e-300)
    assert_allclose(np.exp(p.log_prob(all_points(p))).sum(), 1.0, rtol=1e-12)


def test_nothing_observed_is_certain():
    p = random_tree(1)
    assert_allclose(p.log_prob(np.full((1, p.dimension), np.nan)), 0.0, atol=1e-15)


def test_impossible_is_minus_infinity():
    star = HiddenTrees([[-1]], [[0.5, 0.5]], [[np.eye(2)]], [[0, 0]], [[np.eye(2), np.eye(2)]])
    assert_array_equal(star.log_prob([[0, 1], [0, 0]]), [[-np.inf, np.log(0.5)]])


def test_ambiguity_codes_are_summed():
    dna = Alphabet.of("dna")
    rng = np.random.default_rng(0)
    leaf = rng.dirichlet(np.ones(4), (1, 2, 2))
    p = HiddenTrees([[-1]], [[0.4, 0.6]], [[np.eye(2)]], [[0, 0]], leaf, alphabet="dna")
    r, n = int(dna.encode("R")[0]), dna.missing
    direct = np.exp(p.log_prob([[0, 1], [2, 1]])).sum()
    assert_allclose(np.exp(p.log_prob([[r, 1]])), direct, rtol=1e-12)
    with pytest.raises(ValueError, match="row 0 has 14 at leaf '0'"):
        p.log_prob([[n, 1]])
    assert_allclose(kernel(p, [[r, 1]], [[2, 3]]), kernel(p, [[0, 1], [2, 1]], [[2, 3]]).sum(), rtol=1e-12)


def test_deep_caterpillar():
    """As a hidden Markov model of 3,000 steps that shows its state with noise, by a recursion in logarithms."""
    n, rng = 3000, np.random.default_rng(0)
    x = rng.integers(0, 2, (3, n)).astype(float)
    x[2, ::3] = np.nan
    p = HiddenTrees(
        [np.arange(n) - 1], [[0.2, 0.8]], [np.tile(FLIP, (n, 1, 1))], [np.arange(n)], [np.tile(FLIP, (n, 1, 1))]
    )
    for row, found in zip(x, p.log_prob(x)[0], strict=True):
        f = np.log([0.2, 0.8])
        for t, symbol in enumerate(row):
            if t:
                f = np.logaddexp.reduce(f[:, None] + np.log(FLIP), axis=0)
            f = f if np.isnan(symbol) else f + np.log(FLIP[:, int(symbol)])
        assert_allclose(found, np.logaddexp.reduce(f), rtol=1e-12)
        assert found < -600
    pair = p.shared_history(x[:2])
    assert np.isfinite(pair.pair(pair)).all()


def test_evidence_on_the_other_side_of_a_branch_of_length_zero():
    """An entry of 1e-700 relative to the largest is all that is left, where the rest of the tree excludes the other."""
    n = 1000
    leaf = np.tile([[0.9, 0.1], [0.1, 0.9]], (n, 1, 1))
    sure = np.eye(2)[None]
    p = HiddenTrees(
        [[-1, 0]], [[0.5, 0.5]], [[np.eye(2), np.eye(2)]], [np.append(np.ones(n, dtype=int), 0)],
        [np.concatenate([leaf, sure])],
    )  # fmt: skip
    x = np.append(np.zeros(n), 1.0)[None]
    assert_allclose(p.log_prob(x), np.log(0.5) + n * np.log(0.1), rtol=1e-12)
    operand = p.shared_history(x)
    assert_allclose(operand.alone(), np.log(0.5) + 2 * n * np.log(0.1), rtol=1e-12)


@few
@given(seed=seeds)
def test_messages_over_any_range(seed):
    rng = np.random.default_rng(seed)
    message = rng.normal(size=(3, 6)) * 10.0 ** rng.integers(0, 4, 6)
    message[rng.random((3, 6)) < 0.2] = -np.inf
    matrix = np.where(rng.random((3, 3)) < 0.4, 0.0, 10.0 ** -rng.integers(0, 300, (3, 3)))
    with np.errstate(divide="ignore"):
        expected = np.logaddexp.reduce(np.log(matrix)[:, :, None] + message[None], axis=1)
    assert_allclose(through(message, matrix), expected, rtol=1e-12)
    assert_array_equal(through(message[:, 2:3], matrix), through(message, matrix)[:, 2:3])


def test_a_datum_does_not_depend_on_its_neighbours():
    p = random_tree(5, states=3)
    x = all_points(p, missing=True)
    whole = p.log_prob(x)
    for rows in ([3], [5, 3, 8], np.arange(len(x))[::-1]):
        assert_array_equal(p.log_prob(x[rows]), whole[:, rows])
        assert_array_equal(p.fisher_scores(x[rows]), p.fisher_scores(x)[:, rows])


@few
@given(seed=seeds, zeros=st.booleans())
def test_posterior_by_enumeration(seed, zeros):
    p = random_tree(seed, zeros=zeros)
    x = all_points(p, missing=True)
    x = x[np.isfinite(p.log_prob(x)[0])]
    x = x[np.random.default_rng(seed).permutation(len(x))[:10]]
    expected = np.zeros((len(x), p.parent.shape[1], p.n_states))
    for row, found in zip(x, expected, strict=True):
        for h, weight in hidden(p):
            found[np.arange(len(h)), h] += weight * shown(p, row, h)
    expected /= expected.sum(axis=-1, keepdims=True)
    assert_allclose(p.posterior(x), expected[None], rtol=1e-11, atol=1e-300)


def test_batches_read_tables_and_symbols():
    pd = pytest.importorskip("pandas")
    p = random_tree(3, states=2, symbols=2)
    p = HiddenTrees(
        p.parent, p.root, p.transition, p.leaf_parent, p.leaf, leaves=list("abcde")[: p.dimension], alphabet="01"
    )
    x = all_points(p)
    table = pd.DataFrame(x, columns=p.leaves)[list(p.leaves)[::-1]]
    text = ["".join(str(int(cell)) for cell in row) for row in x]
    for form in (table, text):
        assert_array_equal(p.log_prob(form), p.log_prob(x))
        assert_array_equal(p.shared_history(form).alone(), p.shared_history(x).alone())
        assert_array_equal(p.fisher_scores(form), p.fisher_scores(x))
    with pytest.raises(
        ValueError, match=r"pass mc.Sequences\(X, alphabet=..., unknown='missing'\) to treat it as missing"
    ):
        p.log_prob(["z" * p.dimension])


def test_batches_read_what_is_missing_as_the_estimator_does():
    pd = pytest.importorskip("pandas")
    p = HiddenTrees([[-1, 0]], [[0.4, 0.6]], [[FLIP, FLIP]], [[0, 1, 1]], [[FLIP] * 3], leaves=list("abc"))
    x = np.array([[np.nan, 1, 1], [0, 1, 0], [1, np.nan, np.nan]])
    objects = np.where(np.isnan(x), None, x)
    mixture = Mixtures([[1.0]], p.reshape(1, 1))
    for form in (pd.DataFrame(x, columns=p.leaves).astype("Int64"), objects, objects.tolist()):
        for name in ("log_prob", "posterior", "fisher_scores"):
            assert_array_equal(getattr(p, name)(form), getattr(p, name)(x))
        assert_array_equal(mixture.responsibilities(form), mixture.responsibilities(x))
    objects[1, 0] = {}
    with pytest.raises(TypeError, match=r"row 1 has {} at leaf 'a', which is not a number\. Pass one column per leaf"):
        p.log_prob(objects)


# -- shared histories ------------------------------------------------------------------------------------------


@few
@given(seed=seeds, zeros=st.booleans())
def test_kernel_by_enumeration(seed, zeros):
    p = random_tree(seed, zeros=zeros)
    x = all_points(p, missing=True)
    x = x[np.random.default_rng(seed).permutation(len(x))[:6]]
    expected = [[slow_kernel(p, a, b) for b in x] for a in x]
    assert_allclose(kernel(p, x), expected, rtol=1e-11, atol=1e-300)
    assert_allclose(np.exp(p.shared_history(x).alone()), np.diag(expected), rtol=1e-11, atol=1e-300)


@few
@given(seed=seeds, pruning=st.sampled_from([0.0, 0.3, 0.8, 1.0]))
def test_total_mass_and_row_sums(seed, pruning):
    p = random_tree(seed, pruning=pruning)
    x = all_points(p)
    K = kernel(p, x)
    assert_allclose(K.sum(), 1.0, rtol=1e-10)
    assert_allclose(K.sum(axis=1), np.exp(p.log_prob(x))[0], rtol=1e-10)
    values = np.linalg.eigvalsh((K + K.T) / 2)
    assert values[0] > -1e-14 * values[-1]


@settings(max_examples=6, deadline=None)
@given(seed=seeds, pruning=st.floats(0, 1))
def test_prunings_by_enumeration(seed, pruning):
    p = random_tree(seed, states=2, symbols=2, pruning=pruning)
    rng = np.random.default_rng(seed)
    x = all_points(p, missing=True)
    x = x[rng.permutation(len(x))[:2]]
    expected = [[slow_pruned(p, a, b, pruning) for b in x] for a in x]
    assert_allclose(kernel(p, x), expected, rtol=1e-10)


def test_pruning_everywhere_shares_the_root_alone():
    p = random_tree(8, states=3, pruning=1.0)
    x = all_points(p)
    given_root = [
        np.exp(HiddenTrees(p.parent, np.eye(3)[a][None], p.transition, p.leaf_parent, p.leaf).log_prob(x))[0]
        for a in range(3)
    ]
    expected = np.einsum("a,ai,aj->ij", p.root[0], given_root, given_root)
    assert_allclose(kernel(p, x), expected, rtol=1e-11)


def test_star_is_a_mixture():
    rng = np.random.default_rng(2)
    root, leaf = rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(2), (4, 3))
    p = HiddenTrees([[-1]], [root], [[np.eye(3)]], [[0] * 4], [leaf])
    x = all_points(p)
    given_state = np.prod([leaf[i][:, x[:, i].astype(int)] for i in range(4)], axis=0)
    assert_allclose(kernel(p, x), np.einsum("a,ai,aj->ij", root, given_state, given_state), rtol=1e-12)


def test_caterpillar_is_a_fixed_length_chain():
    """MK-4, written out."""
    rng = np.random.default_rng(3)
    n, pi, A, B = 5, rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(3), 3), rng.dirichlet(np.ones(2), 3)
    p = HiddenTrees([np.arange(n) - 1], [pi], [np.tile(A, (n, 1, 1))], [np.arange(n)], [np.tile(B, (n, 1, 1))])
    x = all_points(p)[::3]

    def mk4(s, t):
        f = pi * B[:, s[0]] * B[:, t[0]]
        for i in range(1, n):
            f = (f @ A) * B[:, s[i]] * B[:, t[i]]
        return f.sum()

    codes = x.astype(int)
    assert_allclose(kernel(p, x), [[mk4(s, t) for t in codes] for s in codes], rtol=1e-12)


def test_one_hidden_state_makes_data_independent():
    leaf = np.random.default_rng(4).dirichlet(np.ones(3), (3, 1))
    p = HiddenTrees([[-1, 0]], [[1.0]], [np.ones((2, 1, 1))], [[0, 1, 1]], [leaf])
    x = all_points(p)
    own = np.exp(p.log_prob(x))[0]
    assert_allclose(kernel(p, x), own[:, None] * own, rtol=1e-12)


def test_history_needs_one_tree():
    p = random_tree(0)
    with pytest.raises(ValueError, match=r"shared model must have shape \(1,\)"):
        HiddenTrees.concat([p, p]).shared_history(np.zeros((1, p.dimension)))


# -- scores ----------------------------------------------------------------------------------------------------


def rebuilt(p, theta):
    """The tree with other logits, in the order of the scores."""
    s, a, v, n = p.n_states, p.n_symbols, p.parent.shape[1], p.dimension
    soft = lambda z: np.exp(z) / np.exp(z).sum(axis=-1, keepdims=True)  # noqa: E731
    cut = s + (v - 1) * s * s
    transition = np.concatenate([np.eye(s)[None], soft(theta[s:cut].reshape(v - 1, s, s))])
    leaf = soft(theta[cut:].reshape(n, s, a))
    return HiddenTrees(p.parent, soft(theta[:s])[None], transition[None], p.leaf_parent, leaf[None])


def logits(p):
    return np.log(np.concatenate([p.root[0], p.transition[0, 1:].ravel(), p.leaf[0].ravel()]))


@few
@given(seed=seeds)
def test_scores_by_finite_differences(seed):
    p = random_tree(seed)
    x = all_points(p, missing=True)
    x = x[np.random.default_rng(seed).permutation(len(x))[:10]]
    theta, h = logits(p), 1e-5
    steps = h * np.eye(len(theta))
    expected = [(rebuilt(p, theta + e).log_prob(x) - rebuilt(p, theta - e).log_prob(x))[0] / (2 * h) for e in steps]
    scores = p.fisher_scores(x)
    assert scores.shape == (1, len(x), len(p.score_names()))
    assert_allclose(scores[0], np.transpose(expected), atol=1e-7)
    assert p.n_parameters == len(theta) - 1 - p.n_states * (p.parent.shape[1] - 1 + p.dimension)


@few
@given(seed=seeds)
def test_scores_have_zero_mean(seed):
    p = random_tree(seed)
    x = all_points(p)
    mass = np.exp(p.log_prob(x))[0]
    for parametrization in ("logit", "weight"):
        assert_allclose(mass @ p.fisher_scores(x, parametrization)[0], 0, atol=1e-12)


def test_scores_of_weights():
    """Counts divided by probabilities where these are positive; by derivatives where they are zero."""
    p = random_tree(7, states=2, symbols=2)
    x = all_points(p, missing=True)
    theta = np.exp(logits(p))
    assert_allclose(p.fisher_scores(x, "weight") * theta, p.fisher_scores(x), atol=1e-12)
    star = HiddenTrees([[-1]], [[0.3, 0.7]], [[np.eye(2)]], [[0, 0]], [[[[1.0, 0.0], [0.4, 0.6]], FLIP]])
    names, h = star.score_names(), 1e-7
    row = np.array([1.0, h]) / (1 + h)
    moved = HiddenTrees([[-1]], [[0.3, 0.7]], [[np.eye(2)]], [[0, 0]], [[[row, [0.4, 0.6]], FLIP]])
    x = all_points(star)
    expected = (moved.log_prob(x) - star.log_prob(x))[0] / h
    assert_allclose(star.fisher_scores(x, "weight")[0][:, names.index("leaf[0, 0, 1]")], expected, rtol=1e-5, atol=1e-6)


def test_a_leaf_that_was_not_observed_has_no_score():
    p = random_tree(11)
    x = np.full((1, p.dimension), np.nan)
    assert_array_equal(p.fisher_scores(x), np.zeros((1, 1, len(p.score_names()))))


def test_impossible_data_have_no_score():
    star = HiddenTrees([[-1]], [[0.5, 0.5]], [[np.eye(2)]], [[0, 0]], [[np.eye(2), np.eye(2)]])
    with pytest.raises(ValueError, match="point 1 has probability zero under the tree, so it has no posterior"):
        star.posterior([[0, 0], [0, 1]])
    with pytest.raises(ValueError, match="point 1 has probability zero under the tree"):
        star.fisher_scores([[0, 0], [0, 1]])


def test_score_names():
    p = HiddenTrees([[-1, 0]], [[0.5, 0.5]], [[FLIP, FLIP]], [[0, 1]], [[FLIP, FLIP]], leaves=["x", "y"], alphabet="ab")
    names = p.score_names()
    assert names[:4] == ["root[0]", "root[1]", "transition[1, 0, 0]", "transition[1, 0, 1]"]
    assert names[-1] == "leaf[y, 1, b]"


# -- the batch -------------------------------------------------------------------------------------------------


def converted(p, convert):
    floats = {name: convert(getattr(p, name)) for name in ("root", "transition", "leaf", "pruning")}
    return HiddenTrees(p.parent, leaf_parent=p.leaf_parent, **floats)


def test_other_array_libraries():
    torch = pytest.importorskip("torch")
    p = random_tree(4, states=3)
    x = all_points(p, missing=True)
    assert len(x) > 20
    for convert in (torch.asarray, array_api_strict.asarray):
        q = converted(p, lambda a, convert=convert: convert(np.array(a)))
        assert_allclose(np.asarray(q.log_prob(x)), p.log_prob(x), rtol=1e-12, atol=1e-15)
        assert_allclose(np.asarray(q.fisher_scores(x)), p.fisher_scores(x), rtol=1e-12, atol=1e-15)
        operand = q.shared_history(x[:4])
        assert_allclose(np.asarray(operand.pair(operand)), np.log(kernel(p, x[:4])), rtol=1e-9)


def test_gradients():
    torch = pytest.importorskip("torch")
    p = random_tree(6, states=2)
    x = all_points(p, missing=True)[::5]
    start = [torch.tensor(np.log(getattr(p, name)), requires_grad=True) for name in ("root", "transition", "leaf")]

    def trees(root, transition, leaf):
        soft = lambda z: torch.softmax(z, dim=-1)  # noqa: E731
        return HiddenTrees(p.parent, soft(root), soft(transition), p.leaf_parent, soft(leaf))

    def pairs(*logs):
        operand = trees(*logs).shared_history(x[:3])
        return operand.pair(operand)

    assert torch.autograd.gradcheck(lambda *logs: trees(*logs).log_prob(x), start)
    assert torch.autograd.gradcheck(pairs, start)


def test_sample():
    p = random_tree(9, states=2, symbols=2)
    x = all_points(p)
    drawn = p.sample(20_000, random_state=0)[0]
    codes = drawn @ 2 ** np.arange(p.dimension)[::-1]
    found = np.bincount(codes.astype(int), minlength=len(x)) / len(drawn)
    mass = np.exp(p.log_prob(x))[0]
    assert np.all(np.abs(found - mass) < 5 * np.sqrt(mass * (1 - mass) / len(drawn)) + 1e-9)
    assert p.sample(0).shape == (1, 0, p.dimension)
    assert_array_equal(p.sample(7, random_state=3), p.sample(7, random_state=3))


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"parent": [[0, 0]]}, r"parent\[0\] of tree 0 is 0. It must be -1 for the root"),
        ({"parent": [[-1, 1]]}, r"parent\[1\] of tree 0 is 1"),
        ({"parent": [[-1, -1]]}, r"parent\[1\] of tree 0 is -1"),
        ({"parent": [[-1, 0, 0]]}, r"transition must have shape \(1, 3, 2, 2\) .*; got \(1, 2, 2, 2\)"),
        ({"parent": [-1, 0]}, r"parent must have shape .* got \(2,\)"),
        (
            {"leaf_parent": [[0, 2]]},
            r"leaf_parent\[1\] of tree 0 is 2. It must be the number of an internal node",
        ),
        ({"leaf_parent": [[0]]}, r"leaf must have shape \(1, 1, 2, 2\) .* got \(1, 2, 2, 2\)"),
        ({"root": [[0.5, 0.6]]}, r"root at index \(0,\) sums to 1.1, not to one"),
        ({"transition": [[FLIP, 2 * FLIP]]}, r"transition at index \(0, 1, 0\) sums to 2"),
        ({"leaf": [[FLIP, -FLIP]]}, r"leaf at index \(0, 1, 0\) contains -0.9"),
        ({"pruning": [1.5]}, "pruning must be a probability, from 0 to 1; got 1.5"),
        ({"pruning": [0.5, 0.5]}, r"pruning must be one number per tree, shape \(1,\); got shape \(2,\)"),
        ({"leaves": ["x", "x"]}, "must be 2 distinct names"),
        ({"alphabet": "abc"}, "leaf must have the 3 symbols of the alphabet abc; got 2"),
    ],
)
def test_refused(changed, sentence):
    fields = {
        "parent": [[-1, 0]], "root": [[0.5, 0.5]], "transition": [[FLIP, FLIP]], "leaf_parent": [[0, 1]],
        "leaf": [[FLIP, FLIP]],
    }  # fmt: skip
    HiddenTrees(**fields)
    with pytest.raises(ValueError, match=sentence):
        HiddenTrees(**fields | changed)


def test_refused_types_and_points():
    with pytest.raises(TypeError, match=r"parent must be integers.* got dtype float64"):
        HiddenTrees([[-1.0]], [[1.0]], [[[[1.0]]]], [[0]], [[[[1.0]]]])
    p = HiddenTrees([[-1]], [[0.5, 0.5]], [[FLIP]], [[0, 0]], [[FLIP, FLIP]], leaves=["human", "mouse"])
    with pytest.raises(ValueError, match=r"row 1 has 2 at leaf 'mouse'\. Pass whole numbers from 0 to 1"):
        p.log_prob([[0, 1], [0, 2]])
    with pytest.raises(ValueError, match=r"row 0 has 0\.5 at leaf 'human'"):
        p.log_prob([[0.5, 1]])
    with pytest.raises(ValueError, match=r"X has 3 columns, but the tree has 2 leaves \('human', 'mouse'\)"):
        p.log_prob([[0, 1, 1]])
    with pytest.raises(ValueError, match=r"one row per sample; got shape \(2,\).*or \[x\] for a single row"):
        p.log_prob([0, 1])
    with pytest.raises(ValueError, match=r"size must be a whole number .* got -1"):
        p.sample(-1)
    other = HiddenTrees([[-1]], [[0.5, 0.5]], [[FLIP]], [[0, 0]], [[FLIP, FLIP]])
    with pytest.raises(ValueError, match=r"differ in leaves: \('human', 'mouse'\) and \('0', '1'\)"):
        HiddenTrees.concat([p, other])
