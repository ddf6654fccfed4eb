"""The estimator of hidden trees: its forms of data and parameters, its EM, and the kernels that use it."""

import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import expm
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from mercer.data import Sequences
from mercer.kernels.fisher import Fisher
from mercer.kernels.marginalization import Marginalization
from mercer.models._tree.rates import changes, equal_rate, jumps_and_times, stationary_of
from mercer.models.tree_estimator import HiddenTree
from mercer.testing.kernels import KernelContract

TREE = "((a:1,b:0.5)ab:0.7,(c:0.5,d:0.3)cd:1.2)top;"
RATE = np.array([[-0.3, 0.3], [0.8, -0.8]])
FLIP = np.array([[0.9, 0.1], [0.3, 0.7]])


def given(tree=TREE, **parameters):
    """The model as given, whatever the data."""
    estimator = HiddenTree(tree, n_iter=0, **parameters)
    return estimator.fit(np.full((1, 4), np.nan)).model_


def draws(n=600, seed=0, missing=0.0, **parameters):
    x = given(**({"rate": RATE, "root": [0.6, 0.4]} | parameters)).sample(n, random_state=seed)[0]
    x[np.random.default_rng(seed).random(x.shape) < missing] = np.nan
    return x


# -- rates -----------------------------------------------------------------------------------------------------


def test_rates_become_probabilities():
    model = given(rate=RATE)
    assert_allclose(model.transition[0, 1], expm(0.7 * RATE), rtol=1e-12)
    assert_allclose(model.transition[0, 2], expm(1.2 * RATE), rtol=1e-12)
    assert_allclose(model.leaf[0], [expm(t * RATE) for t in (1, 0.5, 0.5, 0.3)], rtol=1e-12)
    assert_allclose(model.root[0], [8 / 11, 3 / 11], rtol=1e-12)
    assert_allclose(model.root[0] @ RATE, 0, atol=1e-12)
    assert_allclose(given().leaf[0, 0], expm(equal_rate(2)), rtol=1e-12)
    assert_allclose(stationary_of(equal_rate(4)), 0.25)


def test_jumps_and_times_by_quadrature():
    rng = np.random.default_rng(0)
    rate = rng.random((3, 3))
    np.fill_diagonal(rate, 0)
    np.fill_diagonal(rate, -rate.sum(axis=1))
    lengths, counts = np.array([0.4, 2.0]), rng.random((2, 3, 3)) * [[[100.0]], [[1.0]]]
    jumps, times = jumps_and_times(rate, lengths, changes(rate, lengths), counts)
    expected, (nodes, weights) = np.zeros((3, 3)), np.polynomial.legendre.leggauss(20)
    for t, n in zip(lengths, counts, strict=True):
        for u, w in zip((nodes + 1) * t / 2, weights * t / 2, strict=True):
            expected += w * expm(rate * u).T @ (n / expm(rate * t)) @ expm(rate * (t - u)).T
    assert_allclose(times, np.diag(expected), rtol=1e-9)
    off = ~np.eye(3, dtype=bool)
    assert_allclose(jumps[off], (rate * expected)[off], rtol=1e-9)
    assert_allclose(times.sum(), (lengths * counts.sum(axis=(1, 2))).sum(), rtol=1e-12)


def test_endless_branches_end_in_the_long_run():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = changes(RATE, np.array([1e-3, 1e3, 1e20, 1e300]))
        jumps, times = jumps_and_times(RATE, np.array([1e300]), found[3:], np.ones((1, 2, 2)))
    assert_allclose(found[0], expm(1e-3 * RATE), rtol=1e-14)  # beside branches that are halved a hundred times
    assert_allclose(found[1:], np.broadcast_to(stationary_of(RATE), (3, 2, 2)), rtol=1e-14)
    assert_allclose(jumps[0, 1] / times[0], 0.3, rtol=1e-12)
    assert_allclose(times / times.sum(), stationary_of(RATE), rtol=1e-12)


# -- what is given ---------------------------------------------------------------------------------------------


def test_one_matrix_for_all_edges():
    model = given("((a,b),c,d);", transition=FLIP)
    assert_array_equal(model.transition[0, 1], FLIP)
    assert_array_equal(model.leaf[0], [FLIP] * 4)
    assert_array_equal(model.root, [[0.5, 0.5]])
    default = given("((a,b),c,d);", n_states=3)
    assert_allclose(default.leaf[0, 0], [[0.9, 0.05, 0.05], [0.05, 0.9, 0.05], [0.05, 0.05, 0.9]])


def test_leaves_show_their_state_another_or_symbols():
    assert_allclose(given(transition=FLIP, emission=0.2).leaf[0, 0], FLIP @ [[0.8, 0.2], [0.2, 0.8]])
    table = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
    assert_allclose(given(transition=FLIP, emission=table).leaf[0, 0], FLIP @ table)


def test_columns_in_any_order():
    x = draws(20)
    turned = HiddenTree(TREE, leaves=["d", "a", "b", "c"], rate=RATE, n_iter=0).fit(x[:, [3, 0, 1, 2]])
    assert turned.leaves_ == ("d", "a", "b", "c")
    assert_allclose(turned.score_samples(x[:, [3, 0, 1, 2]]), given(rate=RATE).log_prob(x)[0], rtol=1e-12)


def test_the_estimator_of_a_batch_reads_its_data():
    for model in (given(rate=RATE), given(emission=np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]]))):
        reader = model.estimator()
        x = model.sample(5, random_state=0)[0]
        assert_array_equal(reader.accept(x), x)
        again = reader.set_params(n_iter=0).fit(x)
        assert again.leaves_ == model.leaves
        assert_array_equal(again.model_.leaf_parent, model.leaf_parent)


# -- data ------------------------------------------------------------------------------------------------------


def test_forms_of_data():
    pd = pytest.importorskip("pandas")
    x = np.array([[0, 1, 1, 0], [1, 1, np.nan, 0]])
    tree = HiddenTree(TREE, alphabet="01")
    table = pd.DataFrame(x, columns=list("abcd"))[list("dbca")]
    text = np.array([["0", "1", "1", "0"], ["1", "1", None, "0"]], dtype=object)
    same = [
        x, x.tolist(), table, pd.DataFrame(x), text, pd.DataFrame(text, columns=list("abcd")), text.tolist(),
        Sequences(["0110", "11-0"], alphabet="01", unknown="missing"),
    ]  # fmt: skip
    for X in same:
        found = clone(tree).accept(X, reset=True)
        assert found.dtype == np.float64
        assert_array_equal(found, x)
    assert_array_equal(tree.accept(["0110"]), x[:1])
    assert_array_equal(tree.accept(x[:1] == 1), x[:1])
    assert_array_equal(tree.accept(np.array([["0", "1", "1", "0"]])), x[:1])


def test_ambiguity_codes():
    tree = HiddenTree("(x:1,y:1);", n_states=4, alphabet="dna", n_iter=0).fit(["AC"])
    assert_allclose(tree.score_samples(["RC"]), np.logaddexp(*tree.score_samples(["AC", "GC"])), rtol=1e-12)
    assert_allclose(tree.score_samples(["NN"]), 0, atol=1e-12)
    learned = HiddenTree("(x:1,y:1);", n_states=4, alphabet="dna", tol=0, n_iter=15).fit(["AC", "RC", "GN", "TT"])
    assert np.all(np.diff(learned.objective_) > -1e-9)


@pytest.mark.parametrize(
    ("X", "sentence"),
    [
        ([[0, 1, 1]], r"X has 3 columns, but the tree has 4 leaves \('a', 'b', 'c', 'd'\)\. Pass one column per leaf"),
        ([[0, 1]] * 4, "2 columns, but the tree has 4 leaves .* values; if each leaf is a row, pass X.T"),
        ([["0", "1"]] * 4, "2 columns, but the tree has 4 leaves .* values; if each leaf is a row, pass X.T"),
        ([0, 1, 1, 0], r"one row per sample; got shape \(4,\)\..*or \[x\] for a single row"),
        ([[0, 1, 1, 0], [0, 1]], r"one row per sample; got shape \(2,\)\. Pass one column per leaf"),
        ([[0, 1, 1, 2]], "row 0 has 2 at leaf 'd'. Pass whole numbers from 0 to 1 for the 2 symbols, and NaN"),
        ([[0, 1, 1, 0], [0, -1, 1, 0]], "row 1 has -1 at leaf 'b'"),
        ([[0, 1, 0.5, 0]], r"row 0 has 0\.5 at leaf 'c'"),
        (["0110", "011"], r"sequence 1 has 3 symbols, but the tree has 4 leaves \('a', .* Pass one symbol per leaf"),
        ([["0", "1", "1", "z"]], "row 0 has 'z' at leaf 'd', which is not in the alphabet 01. Use None for missing"),
        (["0110", "01z0"], "sequence 1 has the symbol 'z' at position 2.* unknown='missing'"),
        ([[0, 1, 1, np.inf]], "first at row 0, column 3"),
    ],
)
def test_data_refused(X, sentence):
    with pytest.raises(ValueError, match=sentence):
        HiddenTree(TREE, alphabet="01").fit(X)


def test_unknown_symbols_may_be_missing():
    tree = HiddenTree(TREE, alphabet="01", n_iter=0, unknown="missing").fit(["0110"])
    expected = tree.score_samples([[0, 1, np.nan, 0]])
    for X in (["01z0"], [["0", "1", "z", "0"]]):
        assert_array_equal(tree.score_samples(X), expected)


def test_what_pandas_has_not():
    pd = pytest.importorskip("pandas")
    tree = HiddenTree(TREE, alphabet="01", n_iter=0).fit([[0, 1, 1, 0]])
    expected = tree.score_samples([[np.nan, 1, 1, 0], [0, np.nan, 1, 0]])
    symbols = pd.DataFrame([[pd.NA, "1", "1", "0"], ["0", None, "1", "0"]], columns=list("abcd"))
    numbers = pd.DataFrame([[pd.NA, 1, 1, 0], [0, pd.NA, 1, 0]], columns=list("abcd"), dtype="Int64")
    for X in (symbols, numbers, numbers.to_numpy(), [[None, "1", "1", "0"], ["0", None, "1", "0"]]):
        assert_array_equal(tree.score_samples(X), expected)
    late = [[None] * 4, ["0", "1", "1", "0"]]  # the first row holds no symbol
    assert_array_equal(tree.score_samples(late), tree.score_samples([[np.nan] * 4, [0, 1, 1, 0]]))


def test_tables_refused():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(np.zeros((2, 4)), columns=list("abce"))
    with pytest.raises(ValueError, match=r"no column for 'd', and columns that are not leaves, 'e'\. Name the columns"):
        HiddenTree(TREE).fit(table)
    with pytest.raises(ValueError, match=r"X has no column for 'c', 'd'\. Name the columns as the"):
        HiddenTree(TREE).fit(table[["a", "b"]])
    with pytest.raises(ValueError, match=r"X has two columns with the name 'a'\. Keep one"):
        HiddenTree(TREE).fit(table[list("aabce")])
    with pytest.raises(
        ValueError, match=r"X must have at least one row; got none\. Pass rows with one column per leaf"
    ):
        HiddenTree(TREE).fit([])
    table["d"] = 0.0
    with pytest.raises(ValueError, match=r"X has columns that are not leaves, 'e'\. Name the columns"):
        HiddenTree(TREE).fit(table)
    with pytest.raises(TypeError, match=r"X contains symbols, but the tree has no alphabet\. .*alphabet='01'"):
        HiddenTree(TREE).fit(["0110"])
    mixed = pd.DataFrame({"d": ["0", "?"], "c": [0, 1], "b": [1, 1], "a": [0, 0]})
    for X in (mixed, [[0, 1, 0, 0], [0, 1, 1, "?"]]):
        with pytest.raises(TypeError, match=r"at leaf 'd', but the tree has no alphabet\. Use one .* NaN if missing"):
            HiddenTree(TREE).fit(X)
    assert HiddenTree(TREE).fit(mixed.replace("?", np.nan).astype(float)).n_features_in_ == 4


def test_a_tree_in_a_file(tmp_path):
    file = tmp_path / "tree.nwk"
    file.write_text(TREE + "\n")
    X = np.array([[0, 1, 1, 0]])
    assert_array_equal(HiddenTree(file).fit(X).model_.leaf, HiddenTree(TREE).fit(X).model_.leaf)
    kernel = Marginalization(HiddenTree(file))
    assert kernel.fit(X).model_.leaf.shape == (1, 4, 2, 2)
    file.write_text("(d,c,b,a);")  # what is fitted to a file is not remembered by its name
    assert kernel.fit(X).model_.leaves == ("d", "c", "b", "a")
    with pytest.raises(FileNotFoundError, match=r"none\.nwk"):
        HiddenTree(tmp_path / "none.nwk").fit(X)


def test_names_of_the_nodes_of_every_tree():
    assert HiddenTree("((a,b)ab,(c,d))r;").fit(np.zeros((1, 4))).nodes_ == ("r", "ab", "")


@pytest.mark.parametrize(
    ("parameters", "error", "sentence"),
    [
        ({"tree": "((a,b);"}, ValueError, "expected ',' or"),
        ({"tree": 3}, TypeError, "tree must be a Newick string.* got 3"),
        ({"tree": [TREE]}, TypeError, "tree must be a Newick string"),
        ({"tree": "data/tree.nwk"}, ValueError, r"looks like a file name\. Pass Path\('data/tree.nwk'\)"),
        ({"n_states": 0}, ValueError, r"n_states must be .*; got 0"),
        ({"n_iter": -1}, ValueError, r"n_iter must be .*; got -1"),
        ({"tol": -1}, ValueError, r"tol must be .*; got -1"),
        ({"prior_strength": -1}, ValueError, r"prior_strength must be .*; got -1"),
        ({"pruning": 2}, ValueError, r"pruning must be .*; got 2"),
        ({"unknown": "skip"}, ValueError, r"unknown must be .*; got 'skip'"),
        (
            {"learn": ("roots",)},
            ValueError,
            r"learn must be some of 'root', .*; got 'roots'",
        ),
        ({"learn": "emission"}, ValueError, r"emission=None.* Use emission=0\.05"),
        ({"alphabet": "dna"}, ValueError, r"ACGT \(dna\) has 4 symbols, but leaves show 2. Use n_states=4"),
        ({"rate": RATE, "transition": FLIP}, ValueError, "one of rate and transition can be given; got both"),
        ({"rate": "fast"}, ValueError, "rate must be 'equal', .* got 'fast'"),
        (
            {"rate": [["x"]]},
            ValueError,
            r"rate must be 'equal', or a matrix of rates of shape \(2, 2\); got \[\['x'\]\]",
        ),
        ({"root": "uniform"}, ValueError, r"root must be None, or probabilities of shape \(2,\); got 'uniform'"),
        ({"root": [0.5, 0.6]}, ValueError, "^root sums to 1.1, not to one"),
        ({"root": [1.5, -0.5]}, ValueError, "^root contains -0.5; probabilities must be nonnegative"),
        ({"emission": "noisy"}, ValueError, r"emission must be .* shape \(2, 'A'\).*; got 'noisy'"),
        ({"transition": "x"}, ValueError, r"transition must be .* shape \(2, 2\); got 'x'"),
        ({"alphabet": "nucleotide"}, ValueError, "'dna', 'rna', 'protein' .* got 'nucleotide', .* 'e' twice"),
        ({"rate": FLIP}, ValueError, r"rate\[0\] sums to 1, .* diagonal entry must be -0\.1"),
        ({"rate": -RATE}, ValueError, r"rate must be .*; got -0\.3 at rate\[0, 1\]"),
        ({"rate": np.zeros((3, 3))}, ValueError, r"rate must have shape \(2, 2\) .*; got shape \(3, 3\)"),
        ({"tree": "((a,b:1)x:1,c:1);", "rate": "equal"}, ValueError, "The branch above 'a' has no length"),
        ({"transition": 2 * FLIP}, ValueError, "transition at index .* sums to 2"),
        ({"tree": "((a,b:1)x:1,c:1);"}, ValueError, "branch above 'a' has no length.* or use transition="),
        ({"learn": 5}, TypeError, "learn must be a tuple of 'root'.* got 5"),
        ({"learn": None}, TypeError, r"learn must be .* or \(\) for nothing; got None"),
        ({"leaves": 5}, TypeError, "leaves must be the names of the leaves.* got 5"),
        ({"root": [1.0]}, ValueError, r"root must have shape \(2,\) for n_states = 2; got shape \(1,\)"),
        ({"emission": 1.5}, ValueError, r"emission must be a probability of showing another state, .* got 1\.5"),
        (
            {"emission": np.ones((3, 1))},
            ValueError,
            r"emission must have shape .* for n_states = 2 .* got shape \(3, 1\)",
        ),
        ({"leaves": ["a", "b", "c"]}, ValueError, r"must be those of the tree, .* got \['a', 'b', 'c'\]"),
    ],
)
def test_parameters_refused(parameters, error, sentence):
    with pytest.raises(error, match=sentence):
        HiddenTree(**{"tree": TREE} | parameters).fit(np.zeros((2, 4)))


def test_one_model_of_all_data():
    with pytest.raises(
        TypeError, match=r"HiddenTree cannot be fitted to single samples.* mc.Marginalization or mc.Fisher"
    ):
        HiddenTree(TREE).fit_each(np.zeros((2, 4)))


# -- the fit ---------------------------------------------------------------------------------------------------

FITS = {
    "rate": {},
    "a rate with zeros": {"rate": [[0.0, 0.0], [0.5, -0.5]], "root": [0.5, 0.5], "emission": 0.05},
    "tied": {"transition": FLIP},
    "noisy leaves": {"emission": 0.1, "learn": ("root", "edges", "emission")},
    "nothing": {"learn": ()},
}


@pytest.mark.parametrize("prior_strength", [0.0, 1.0, 5.0])
@pytest.mark.parametrize("name", FITS)
def test_em_never_goes_down(name, prior_strength):
    x = draws(200, missing=0.1)
    fitted = HiddenTree(**{"tree": TREE} | FITS[name], tol=0, n_iter=25, prior_strength=prior_strength).fit(x)
    assert fitted.n_iter_ == 25
    assert np.all(np.diff(fitted.objective_) > -1e-9 * np.abs(fitted.objective_[0]))
    assert np.isfinite(fitted.score_samples(x)).all()
    if prior_strength == 0 and name != "nothing":
        assert fitted.score(x) * len(x) >= fitted.objective_[-1] - 1e-9
        assert fitted.objective_[-1] > fitted.objective_[0] + 1


@pytest.mark.slow
def test_em_is_at_a_stationary_point():
    """The gradient of the log probability with respect to the one matrix of all edges, by the scores, vanishes."""
    x, (n, s) = draws(300, missing=0.1), (6, 2)
    fits = [HiddenTree(TREE, transition=FLIP, prior_strength=0, tol=0, n_iter=k).fit(x) for k in (0, 1500)]
    sums = [fitted.model_.fisher_scores(x)[0].sum(axis=0)[s:].reshape(n, s * s).sum(axis=0) for fitted in fits]
    assert np.abs(sums[0]).max() > 10
    assert np.abs(sums[1]).max() < 1e-2


@pytest.mark.slow
def test_recovers_rates():
    x = draws(20_000, missing=0.05)
    fitted = HiddenTree(TREE, tol=1e-9, n_iter=500).fit(x)
    assert fitted.converged_
    assert_allclose(fitted.rate_, RATE, atol=0.04)
    assert_allclose(fitted.model_.root[0], [0.6, 0.4], atol=0.05)


def scaled(s):
    return f"((a:{s},b:{0.5 * s})ab:{0.7 * s},(c:{0.5 * s},d:{0.3 * s})cd:{1.2 * s})top;"


@pytest.mark.parametrize(
    "parameters",
    [
        pytest.param({}, marks=pytest.mark.slow),
        pytest.param({"rate": "equal"}, marks=pytest.mark.slow),
    ],
)
def test_the_unit_of_lengths_does_not_matter(parameters):
    x = draws(400, missing=0.05)
    units = 10.0 ** np.arange(-4, 5)
    fits = [HiddenTree(scaled(s), n_iter=60, tol=0, **parameters).fit(x) for s in units]
    for s, fitted in zip(units, fits, strict=True):
        assert_allclose(fitted.objective_, fits[4].objective_, rtol=1e-9)
        assert_allclose(fitted.score_samples(x), fits[4].score_samples(x), rtol=1e-7)
        if not parameters:
            assert_allclose(s * fitted.rate_, fits[4].rate_, rtol=1e-6)


@pytest.mark.parametrize("speed", [0.01, 0.1, 1.0, 10.0])
def test_rates_far_from_the_tree(speed):
    """Never worse than the truth by more than the prior is worth."""
    x = draws(2000, rate=speed * RATE)
    fitted = HiddenTree(TREE, n_iter=200, tol=0).fit(x)
    truth = given(rate=speed * RATE, root=[0.6, 0.4]).log_prob(x)[0].sum()
    assert fitted.score_samples(x).sum() > truth - 3


@pytest.mark.slow
@pytest.mark.parametrize("start", [1e-6, 1e-3, 1e3])
def test_a_bad_start_is_a_weak_prior(start):
    """One observation, in the unit of the tree: it costs a few nats of thousands, not a hundred."""
    x = draws(2000)
    best = HiddenTree(TREE, n_iter=300, tol=1e-8).fit(x).score_samples(x).sum()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        bad = HiddenTree(TREE, rate=start * RATE, root=[0.6, 0.4], n_iter=500, tol=1e-8).fit(x)
    assert bad.score_samples(x).sum() > best - 3


def test_recovers_tied_probabilities():
    x = draws(20_000, transition=FLIP, rate=None, root=[0.5, 0.5])
    fitted = HiddenTree("((a,b),(c,d));", tol=1e-9, n_iter=2000, learn="edges").fit(x)
    assert_allclose(fitted.model_.leaf[0, 0], FLIP, atol=0.02)


def test_what_is_not_learned_stays():
    x = draws(100)
    fitted = HiddenTree(TREE, rate=RATE, root=[0.2, 0.8], learn="root", n_iter=5, tol=0).fit(x)
    assert_array_equal(fitted.rate_, RATE)
    assert not np.allclose(fitted.model_.root, [[0.2, 0.8]])
    assert not hasattr(HiddenTree(TREE, transition=FLIP, n_iter=0).fit(x), "rate_")


def test_nothing_learned_has_no_objective():
    fitted = HiddenTree(TREE, n_iter=0).fit(draws(10))
    assert fitted.objective_.shape == (fitted.n_iter_,) == (0,)
    assert fitted.converged_


def test_fits_on_other_threads_have_the_same_bits():
    x = draws(50)
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(lambda: HiddenTree(TREE, n_iter=4, tol=0).fit(x)).result()
    assert other.model_.digests() == HiddenTree(TREE, n_iter=4, tol=0).fit(x).model_.digests()


@pytest.mark.parametrize(
    ("parameters", "n_free"),
    [
        ({}, 1 + 2),
        ({"n_iter": 0}, 0),
        ({"learn": "edges"}, 2),
        ({"rate": [[0.0, 0.0], [0.5, -0.5]], "root": [0.5, 0.5], "emission": 0.05}, 1 + 1),
        ({"transition": FLIP}, 1 + 2),
        ({"emission": 0.1, "learn": ("root", "edges", "emission")}, 1 + 2 + 2),
    ],
)
def test_bic_counts_what_is_learned(parameters, n_free):
    x = draws(40, missing=0.1)
    fitted = HiddenTree(**{"tree": TREE, "n_iter": 3, "tol": 0} | parameters).fit(x)
    assert_allclose(fitted.bic(x), n_free * np.log(40) - 2 * fitted.score_samples(x).sum())


def test_order_and_copies_of_data():
    x = draws(120, missing=0.1)
    first = HiddenTree(TREE, tol=0, n_iter=5).fit(x).model_
    assert HiddenTree(TREE, tol=0, n_iter=5).fit(x[::-1]).model_.digests() == first.digests()
    twice = HiddenTree(TREE, tol=0, n_iter=5, prior_strength=2.0).fit(np.concatenate([x, x])).model_
    assert_allclose(twice.leaf, first.leaf, rtol=1e-9)


def test_prior_strength_keeps_what_is_possible():
    x = np.zeros((50, 4))
    bare = HiddenTree(TREE, transition=FLIP, prior_strength=0, tol=0, n_iter=200).fit(x).model_
    kept = HiddenTree(TREE, transition=FLIP, tol=0, n_iter=200).fit(x).model_
    assert bare.log_prob([[1, 1, 1, 1]])[0, 0] < -40
    assert kept.log_prob([[1, 1, 1, 1]])[0, 0] > -20
    assert (kept.leaf >= 0.1 / 301).all()  # one row of FLIP next to at most 300 changes


def test_says_what_went_wrong():
    with pytest.warns(ConvergenceWarning, match="EM stopped after n_iter = 2 iterations, before the tree converged"):
        HiddenTree(TREE, n_iter=2).fit(draws(100))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        HiddenTree(TREE, n_iter=500).fit(draws(100))
        HiddenTree(TREE, n_iter=1).fit(draws(100))  # who asks for one step, or for all of them, gets what was asked for
        HiddenTree(TREE, n_iter=3, tol=0).fit(draws(100))
    stiff = "((a:0,b:0):1,(c:1,d:1):1);"
    with pytest.raises(ValueError, match="row 1 has probability zero under the tree that the fit starts from"):
        HiddenTree(stiff).fit([[0, 0, 0, 0], [0, 1, 0, 0], [1, 0, 0, 0]])
    with pytest.raises(ValueError, match="nothing to learn from: all values are missing"):
        Marginalization(HiddenTree(TREE)).fit(np.full((3, 4), np.nan))
    assert HiddenTree(stiff, n_iter=0).fit([[0, 1, 0, 0]]).score_samples([[0, 1, 0, 0]]) == -np.inf


# -- kernels ---------------------------------------------------------------------------------------------------


class TestMarginalization(KernelContract):
    needs_fit = True

    def kernel(self):
        return Marginalization(HiddenTree(TREE, n_iter=3, tol=0, pruning=0.1))

    def data(self, seed, n):
        return draws(n, seed, missing=0.1)

    def other_data(self, seed, n):
        return None

    def truth(self, X):
        model = HiddenTree(TREE, n_iter=3, tol=0).fit(X).model_
        states = np.array(np.meshgrid([0, 1], [0, 1], [0, 1], indexing="ij")).reshape(3, -1).T
        one, two = model.transition[0, 1], model.transition[0, 2]

        def below(x, v, a):
            seen = [leaf for leaf in range(4) if model.leaf_parent[0, leaf] == v and not np.isnan(x[leaf])]
            return np.prod([model.leaf[0, leaf, a, int(x[leaf])] for leaf in seen])

        def apart(x, a):
            return np.prod([sum(m[a, b] * below(x, v, b) for b in (0, 1)) for v, m in ((1, one), (2, two))])

        def pair(x, y):
            shared = sum(
                model.root[0, r] * one[r, b] * two[r, c] * np.prod([below(z, 1, b) * below(z, 2, c) for z in (x, y)])
                for r, b, c in states
            )
            return 0.9 * shared + 0.1 * sum(model.root[0, r] * apart(x, r) * apart(y, r) for r in (0, 1))

        return np.array([[pair(x, y) for y in X] for x in X])


class TestFisher(KernelContract):
    needs_fit = True
    features = True

    def kernel(self):
        return Fisher(HiddenTree(TREE, n_iter=3, tol=0))

    def data(self, seed, n):
        return draws(n, seed, missing=0.1)

    def other_data(self, seed, n):
        return None

    def truth(self, X):
        scores = HiddenTree(TREE, n_iter=3, tol=0).fit(X).model_.fisher_scores(X)[0]
        return scores @ scores.T


def test_kernels_of_given_models():
    x = draws(12, missing=0.1)
    single = given(rate=RATE)
    assert_allclose(Marginalization(single)(x), Marginalization(HiddenTree(TREE, rate=RATE, n_iter=0)).fit(x)(x))
    K = Fisher(single).fit(x)(x)
    assert np.isfinite(K).all()
    assert np.linalg.eigvalsh(K)[0] > -1e-9


def test_tables_reach_the_kernel():
    pd = pytest.importorskip("pandas")
    x = draws(10)
    kernel = Marginalization(HiddenTree(TREE, n_iter=0)).fit(x)
    assert_array_equal(kernel(pd.DataFrame(x, columns=list("abcd"))[list("cbda")]), kernel(x))


def test_a_large_tree():
    """Two thousand leaves, half of them a caterpillar, by a recursion in logarithms."""
    rng = np.random.default_rng(0)
    nodes = [f"l{i}" for i in range(2000)]
    deep, rest = nodes[:1000], nodes[1000:]
    text = "(" * 999 + deep[0] + "".join(f",{name})" for name in deep[1:])
    while len(rest) > 1:
        rest = [f"({','.join(rest[i : i + 2])})" for i in range(0, len(rest), 2)]
    tree = HiddenTree(f"({text},{rest[0]});", n_iter=1, tol=0)
    x = rng.integers(0, 2, (2, 2000)).astype(float)
    model = tree.fit(x).model_
    transition, root, leaf = np.log(model.transition[0, 1:]), np.log(model.root[0]), np.log(model.leaf[0])

    def truth(*rows):
        """All rows, with the same hidden states."""
        inside = np.zeros((model.parent.shape[1], 2))
        for row in rows:
            for end, v in enumerate(model.leaf_parent[0]):
                inside[v] += leaf[end, :, int(row[end])]
        for v in range(len(inside) - 1, 0, -1):
            inside[model.parent[0, v]] += np.logaddexp.reduce(transition[v - 1] + inside[v], axis=1)
        return np.logaddexp.reduce(root + inside[0])

    logs = tree.score_samples(x)
    assert (logs < -600).all()
    assert_allclose(logs, [truth(row) for row in x], rtol=1e-12)
    operand = model.shared_history(x)
    assert_allclose(operand.pair(operand), [[truth(a, b) for b in x] for a in x], rtol=1e-12)
