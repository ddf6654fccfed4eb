"""Shawe-Taylor and Cristianini 2004, section 12.1: kernels that sum over what two samples share, by enumeration."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import mercer as mc

INITIAL, MOVES = np.array([0.3, 0.7]), np.array([[0.9, 0.1], [0.2, 0.8]])  # MOVES[b, a] is P(a | b)
EMISSION = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
LETTERS = "abc"


def codes(strings):
    return [[LETTERS.index(x) for x in string] for string in strings]


def words(length):
    return ["".join(word) for word in itertools.product(LETTERS, repeat=length)]


def emissions():
    return mc.Categoricals(EMISSION[None], alphabet=LETTERS)


def raw(model, **options):
    return mc.Marginalization(model, normalize=False, **options)


def shared(prior, given):
    """Definition 12.4: the sum over models m of P(m) P(x|m) P(z|m), with the table ``given[m, x]``."""
    return sum(weight * np.outer(row, row) for weight, row in zip(prior, given, strict=True))


# -- P-kernels (12.1) and one hidden model (12.1.1) ----------------------------------------------------------------


def test_s3_product_of_a_distribution_with_itself():
    p = np.array([0.2, 0.3, 0.5])
    kernel = raw(mc.Categoricals(p[None], alphabet=LETTERS), weights="uniform")
    assert_allclose(kernel(list(LETTERS)), np.outer(p, p), rtol=1e-13)
    assert_allclose(kernel.features(list(LETTERS)).ravel(), p, rtol=1e-13)  # the embedding x -> P(x)


def test_s4_model_class_with_a_prior():
    """Definition 12.2: the margin of the kernel is the distribution of the data under the class."""
    prior, strings = np.array([0.2, 0.5, 0.3]), words(3)
    probability = np.random.default_rng(0).dirichlet(np.ones(3), size=3)
    given = probability[:, codes(strings)].prod(axis=2)  # P(x | m)
    K = raw(mc.Categoricals(probability, alphabet=LETTERS), weights=prior)(strings)
    assert_allclose(K.sum(axis=1), prior @ given, rtol=1e-12)
    assert K.sum() == pytest.approx(1, rel=1e-12)
    with pytest.raises(ValueError, match="probabilities that sum to one"):
        raw(mc.Categoricals(probability, alphabet=LETTERS), weights=[0.2, 0.5, 0.4])(strings)


def test_s5_marginalization_kernel_and_its_features():
    prior, rate, counts = np.array([0.2, 0.8]), np.array([1.5, 3.0]), np.array([[0, 3], [2, 1], [5, 0]])
    given = stats.poisson.pmf(counts, rate[:, None, None]).prod(axis=2)  # P(x | m) of samples of two counts
    kernel, samples = raw(mc.Poissons(rate[:, None]), weights=prior), counts[:, :, None]
    assert_allclose(kernel(samples), shared(prior, given), rtol=1e-12)
    assert_allclose(kernel.features(samples), (np.sqrt(prior)[:, None] * given).T, rtol=1e-12)


def test_s6_graphical_models_with_hidden_variables():
    """P(A) P(B|A) P(C|A) P(D|C, B), the network of figure 12.1; then with A hidden."""
    rng = np.random.default_rng(0)
    A, B, C, D = (rng.dirichlet(np.ones(2), size=size) for size in ((), (2,), (2,), (2, 2)))
    joint = np.einsum("a,ab,ac,cbd->abcd", A, B, C, D)
    tables = {"A": [A], "B": [B], "C": [C], "D": [D]}
    graph = dict.fromkeys("ABCD", ("no", "yes")), {"B": ["A"], "C": ["A"], "D": ["C", "B"]}
    rows = np.indices((2,) * 4).reshape(4, -1).T
    assert_allclose(np.exp(mc.BayesNets(tables, *graph).log_prob(rows))[0], joint.ravel(), rtol=1e-12)
    expected = shared(A, (joint / A[:, None, None, None]).reshape(2, -1))
    K = raw(mc.BayesNets(tables, *graph, hidden=["A"]))(np.indices((2,) * 3).reshape(3, -1).T)
    assert_allclose(K, expected, rtol=1e-12)


# -- strings (12.1.2 to 12.1.5) ------------------------------------------------------------------------------------

SILENT, STOP = np.array([0.2, 0.4]), np.array([0.1, 0.3])


def visits():
    step = MOVES * (1 - STOP)[:, None]
    return mc.models.PairHMMs(0.9 * INITIAL[None], step[None], STOP[None], emissions(), SILENT[None], [0.1])


def over_trajectories(*strings):
    """Sum P(h) P(s|h) P(t|h) ... over all trajectories h from start to end, as one system of linear equations.

    An unknown is the weight of all beginnings of trajectories after which so many symbols of each string are written
    and the last visit was to a state; each visit writes the next symbol of a string, or the empty one.
    """
    lengths, step = [len(s) for s in strings], MOVES * (1 - STOP)[:, None]
    places = list(np.ndindex(*(n + 1 for n in lengths)))
    W, begun = np.zeros((len(places), 2, len(places), 2)), np.zeros((len(places), 2))
    for i, before in enumerate(places):
        for j, after in enumerate(places):
            if not all(0 <= q - p <= 1 for p, q in zip(before, after, strict=True)):
                continue
            given = np.ones(2)
            for s, p, q in zip(strings, before, after, strict=True):
                given = given * ((1 - SILENT) * EMISSION[:, s[p]] if q > p else SILENT)
            W[i, :, j, :] = step * given
            if i == 0:
                begun[j] = 0.9 * INITIAL * given
    size = 2 * len(places)
    weight = np.linalg.solve(np.eye(size) - W.reshape(size, size).T, begun.ravel()).reshape(-1, 2)
    return weight[-1] @ STOP + 0.1 * (not any(lengths))


def test_s7_start_end_and_empty_symbol():
    strings = ["", "b", "ab", "cabb"]
    expected = [over_trajectories(s) for s in codes(strings)]
    X = mc.Sequences(strings, alphabet=LETTERS)
    assert_allclose(np.exp(visits().log_prob(X))[0], expected, rtol=1e-11)


def test_s8_independent_hidden_symbols():
    """Equation 12.1, from the sum over all hidden strings."""
    strings, prior = ["abca", "acba", "bbca"], np.array([0.4, 0.6])
    hidden = list(itertools.product(range(2), repeat=4))
    given = [[np.prod(EMISSION[list(h), s]) for s in codes(strings)] for h in hidden]
    expected = shared([np.prod(prior[list(h)]) for h in hidden], given)
    assert_allclose(raw(mc.Mixtures(prior[None], emissions()))(strings), expected, rtol=1e-12)


def test_s9_products_of_p_kernels():
    """P-kernels of disjoint components multiply to a P-kernel; a product of kernels is one entry by entry."""
    prior = np.array([[0.4, 0.6], [0.5, 0.5]])
    parts = [raw(mc.Mixtures(row[None], emissions()))(list(LETTERS)) for row in prior]
    tables = {"h": [prior[0]], "g": [prior[1]], "x": [EMISSION], "y": [EMISSION]}
    states = {"h": ("0", "1"), "g": ("0", "1"), "x": tuple(LETTERS), "y": tuple(LETTERS)}
    net = mc.BayesNets(tables, states, {"x": ["h"], "y": ["g"]}, hidden=["h", "g"])
    K = raw(net)(np.indices((3, 3)).reshape(2, -1).T)
    assert_allclose(K, np.kron(*parts), rtol=1e-12)
    assert K.sum() == pytest.approx(1, rel=1e-12)
    first, second = (raw(mc.Mixtures(row[None], emissions())) for row in prior)
    assert_allclose((first * second)(list(LETTERS)), parts[0] * parts[1], rtol=1e-12)


def test_s10_strings_of_one_length():
    """Equation 12.2 for symbols and for vectors, by enumeration of the states; one symbol too (E13)."""
    means, points = np.array([-1.0, 2.0]), [[-0.5, 1.0, 2.5], [0.0, 2.0, 2.0]]
    density = stats.norm.pdf(np.array(points)[..., None], means)  # (strings, positions, states)
    vectors = mc.HMMs(INITIAL[None], MOVES[None], mc.Gaussians(means[None, :, None], np.ones((1, 2))))
    symbols = mc.HMMs(INITIAL[None], MOVES[None], emissions())
    cases = [(symbols, X, EMISSION.T[codes(X)]) for X in (["abca", "acba", "bbca"], ["a", "c"])]
    cases.append((vectors, [np.array(x)[:, None] for x in points], density))
    for model, X, likelihood in cases:
        n = likelihood.shape[1]
        hidden = list(itertools.product(range(2), repeat=n))
        prior = [INITIAL[h[0]] * np.prod([MOVES[b, a] for b, a in itertools.pairwise(h)]) for h in hidden]
        given = [likelihood[:, range(n), h].prod(axis=1) for h in hidden]
        assert_allclose(raw(model)(X), shared(prior, given), rtol=1e-12)


def test_s11_strings_of_any_length():
    """Code fragment 12.2 with stop weights (E14): visits that give nothing to both strings are part of the system."""
    strings = ["ab", "b", "cab", ""]
    expected = [[over_trajectories(s, t) for t in codes(strings)] for s in codes(strings)]
    assert_allclose(raw(visits())(mc.Sequences(strings, alphabet=LETTERS)), expected, rtol=1e-11)


# -- alignments (example 12.12, remark 12.15) ----------------------------------------------------------------------

JOINT = np.einsum("h,ha,hb->ab", INITIAL, EMISSION, EMISSION)  # two readings of one hidden letter
LOST, LONGER, AGAIN = 0.3, 0.4, 0.8


def affine(joint=JOINT, lost=LOST):
    letters = np.full((1, 3), 1 / 3)
    return mc.models.AffinePairHMMs(joint[None], letters, [lost], [LONGER], [AGAIN], alphabet=LETTERS)


def test_s13_homologous_sequences():
    """Sum the probabilities of all alignments: matched positions, and a run of letters of its own before each."""
    s, t = codes(["abcab", "bcb"])

    def run(length):
        return LOST * (1 - LONGER) * LONGER ** (length - 1) * 3.0**-length if length else 1 - LOST

    total, matched = 0.0, np.zeros((len(s), len(t)))
    for k in range(min(len(s), len(t)) + 1):
        for left, right in itertools.product(
            itertools.combinations(range(len(s)), k), itertools.combinations(range(len(t)), k)
        ):
            weight = (1 - AGAIN) * AGAIN**k * np.prod([JOINT[s[i], t[j]] for i, j in zip(left, right, strict=True)])
            for places, n in ((left, len(s)), (right, len(t))):
                weight *= np.prod([run(b - a - 1) for a, b in itertools.pairwise((-1, *places, n))])
            total += weight
            matched[left, right] += weight
    found = affine().matches("abcab", "bcb")
    assert_allclose(raw(affine())(["abcab"], ["bcb"]), [[total]], rtol=1e-12)
    assert_allclose(found.probability, matched / total, rtol=1e-11, atol=1e-15)


def test_s14_models_defined_on_pairs():
    """A joint distribution of pairs must itself be a P-kernel; then every model of matches is a kernel."""
    strings = words(2)
    K = raw(affine(lost=0.0))(strings)  # without insertions only strings of one length match
    expected = [[(1 - AGAIN) * AGAIN**2 * np.prod(JOINT[s, t]) for t in codes(strings)] for s in codes(strings)]
    assert_allclose(K, expected, rtol=1e-12)
    with pytest.raises(ValueError, match="positive semi-definite"):
        affine(joint=np.array([[0.0, 0.5, 0.0], [0.5, 0.0, 0.0], [0.0, 0.0, 0.0]]))


# -- trees (12.1.6) ------------------------------------------------------------------------------------------------


STAR, LEAVES = (-1, 0, 0), (0, 1, 1, 1, 2, 2)  # a root with two internal children and a leaf; these have leaves only


def random_tree(states, symbols, parent=STAR, leaf_parent=LEAVES):
    """Return the table of the root, those of the internal nodes, those of the leaves, and some rows of symbols."""
    rng = np.random.default_rng(0)
    root, edges = rng.dirichlet(np.ones(states)), rng.dirichlet(np.ones(states), size=(len(parent), states))
    leaf = rng.dirichlet(np.ones(symbols), size=(len(leaf_parent), states))
    return root, edges, leaf, rng.integers(0, symbols, size=(5, len(leaf_parent)))


def trees(root, edges, leaf, parent=STAR, leaf_parent=LEAVES, **options):
    return mc.models.HiddenTrees([parent], [root], [edges], [leaf_parent], [leaf], **options)


def tree_tables(root, edges, leaf, rows, parent=STAR, leaf_parent=LEAVES):
    """Return all states of the internal nodes, their probabilities, and those of the rows given the states."""
    hidden = np.array(list(itertools.product(range(len(root)), repeat=len(parent))))
    prior, given = root[hidden[:, 0]], np.ones((len(hidden), len(rows)))
    for node, above in enumerate(parent[1:], start=1):
        prior = prior * edges[node, hidden[:, above], hidden[:, node]]
    for k, above in enumerate(leaf_parent):
        given *= leaf[k][hidden[:, above]][:, rows[:, k]]
    return hidden, prior, given


def test_s15_hidden_trees():
    """The sum of code fragment 12.3 with tables per edge, over hidden states of internal nodes only (E15)."""
    *tables, rows = random_tree(3, 4)
    _, prior, given = tree_tables(*tables, rows)
    assert_allclose(raw(trees(*tables))(rows), shared(prior, given), rtol=1e-12)


def test_s16_states_that_fix_the_number_of_children():
    """Given that the states fit the tree, it is a tree with tables of its own; the kernel is a multiple of theirs."""
    root, edges, leaf, rows = random_tree(3, 4)
    three, two = np.array([1, 1, 0]), np.array([0, 0, 1])  # states 0 and 1 are of nodes with three children
    hidden, prior, given = tree_tables(root, edges, leaf, rows)
    fits = (three[hidden[:, 0]] * three[hidden[:, 1]] * two[hidden[:, 2]]).astype(bool)
    first, second = edges[1] @ three, edges[2] @ two  # P(the child fits | the state of the root)
    top, own = root * three * first * second, edges.copy()
    own[1], own[2] = edges[1] * three / first[:, None], edges[2] * two / second[:, None]
    found = top.sum() * raw(trees(top / top.sum(), own, leaf))(rows)
    assert_allclose(found, shared(prior[fits], given[fits]), rtol=1e-12)


def test_s17_phylogenetic_profiles():
    """Examples 12.16, 12.19 (with the table of E15) and 12.20."""
    epsilon, delta, tau = 0.2, 0.05, 0.4
    child = np.array([[1 - delta, delta], [epsilon, 1 - epsilon]])
    rows = np.array([[0, 0, 1, 1], [0, 1, 1, 1], [1, 1, 0, 0]])

    def kernel(s, t):
        first, second = ([np.prod(child[a, [*s[i], *t[i]]]) for a in (0, 1)] for i in (slice(0, 2), slice(2, 4)))
        zero = ((1 - delta) * first[0] + delta * first[1]) * ((1 - delta) * second[0] + delta * second[1])
        one = (epsilon * first[0] + (1 - epsilon) * first[1]) * (epsilon * second[0] + (1 - epsilon) * second[1])
        return (1 - tau) * zero + tau * one

    tree = mc.HiddenTree("((a,b),(c,d));", transition=child, root=[1 - tau, tau], leaves=tuple("abcd"), n_iter=0)
    assert_allclose(raw(tree.fit(rows).model_)(rows), [[kernel(s, t) for t in rows] for s in rows], rtol=1e-12)


def test_s18_prunings():
    """Remark 12.21: complete subtrees below pruned nodes are not shared; all sets of pruned nodes are enumerated."""
    parent, leaf_parent, p = (-1, 0, 1, 0), (1, 2, 2, 3, 0), 0.3
    *tables, rows = random_tree(2, 3, parent, leaf_parent)
    hidden, prior, given = tree_tables(*tables, rows, parent, leaf_parent)
    expected = np.zeros((len(rows), len(rows)))
    for pruned in itertools.product((False, True), repeat=len(parent)):
        kept = [0]  # the nodes whose states are shared: those without a pruned node above them
        for node in (1, 2, 3):
            kept += [node] * (parent[node] in kept and not pruned[parent[node]])
        chance = np.prod([p if cut else 1 - p for cut in pruned])
        for states in itertools.product((0, 1), repeat=len(kept)):
            at = np.all(hidden[:, kept] == states, axis=1)
            row = prior[at] @ given[at]  # P(shared states) P(s | shared states)
            expected += chance * np.outer(row, row) / prior[at].sum()
    assert_allclose(raw(trees(*tables, parent, leaf_parent, pruning=[p]))(rows), expected, rtol=1e-12)
