"""PosteriorCounts: counts along every hidden path, and every string that a code may be, averaged."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import mercer as mc
from mercer._native import forward as native
from mercer.kernels.latentmeanmap import LatentMeanMap
from mercer.kernels.posteriorcounts import PosteriorCounts
from mercer.models import hidden as _step_counts
from mercer.testing.kernels import KernelContract

INITIAL, TRANSITION = np.array([0.3, 0.7]), np.array([[0.8, 0.2], [0.4, 0.6]])
TABLE = np.array([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]])


def model(alphabet="abc", table=TABLE):
    return mc.HMMs([INITIAL], [TRANSITION], mc.Categoricals([table], alphabet=alphabet))


def random_strings(seed, n, shortest=2, longest=6):
    rng = np.random.default_rng(seed)
    return ["".join(rng.choice(list("abc"), rng.integers(shortest, longest))) for _ in range(n)]


def slow(sets, order, initial=INITIAL, transition=TRANSITION, table=TABLE):
    """Mean counts over the positions, averaged over all paths and all strings of ``sets`` by their probabilities."""
    n, k = table.shape
    out, total = np.zeros((k,) * order + (n,) * order), 0.0
    for x in itertools.product(*sets):
        for path in itertools.product(range(n), repeat=len(x)):
            p = initial[path[0]] * table[path[0], x[0]]
            for t in range(1, len(x)):
                p *= transition[path[t - 1], path[t]] * table[path[t], x[t]]
            total += p
            steps = len(x) - order + 1
            for t in range(steps):
                out[(*x[t : t + order], *path[t : t + order])] += p / steps
    return (out / total).ravel()


def codes(x):
    return [("abc".index(s),) for s in x]


class TestFirstOrder(KernelContract):
    features = True
    order = 1

    def kernel(self):
        return PosteriorCounts(model(), k=self.order)

    def data(self, seed, n):
        return random_strings(seed, n)

    def other_data(self, seed, n):
        return None

    def slow(self, X):
        return np.array([slow(codes(x), self.order) for x in X])

    def truth(self, X):
        return self.slow(X) @ self.slow(X).T

    def test_features_by_enumeration(self):
        X = self.data(1, 9)
        kernel = self.kernel().set_params(normalize=False).fit(X)
        found = kernel.features(X)
        np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-13)
        assert len(kernel.get_count_names()) == found.shape[1]
        found = found.toarray() if sparse.issparse(found) else found
        np.testing.assert_allclose(found, self.slow(X), rtol=1e-12, atol=1e-15)


class TestSecondOrder(TestFirstOrder):
    order = 2


class TestCompressed(TestSecondOrder):
    """Many columns are held compressed."""

    @pytest.fixture(autouse=True)
    def _compressed(self, monkeypatch):
        monkeypatch.setattr(_step_counts, "DENSE_COLUMNS", 1)
        assert sparse.issparse(model().hidden_chain().step_counts(mc.Sequences(["ab"], alphabet="abc")))

    def test_features(self):
        X = self.data(9, 6)
        rows = self.ready(X).features(X)
        assert sparse.issparse(rows)
        np.testing.assert_allclose((rows @ rows.T).toarray(), self.ready(X)(X), rtol=1e-12)


class TestMixture(TestFirstOrder):
    """Hidden components do not depend on one another."""

    weights = np.array([0.4, 0.6])

    def kernel(self):
        return PosteriorCounts(mc.Mixtures([self.weights], mc.Categoricals([TABLE], alphabet="abc")), k=self.order)

    def slow(self, X):
        return np.array([slow(codes(x), self.order, self.weights, np.tile(self.weights, (2, 1))) for x in X])


class TestMixturePairs(TestMixture):
    order = 2


class TestMixturesInStates(TestFirstOrder):
    """A state emits a mixture of laws of symbols, which is one law."""

    order = 2
    parts, weights = np.random.default_rng(5).dirichlet(np.ones(3), size=(2, 2)), np.array([[0.3, 0.7], [0.6, 0.4]])

    def kernel(self):
        emission = mc.Mixtures([self.weights], mc.Categoricals([self.parts], alphabet="abc"))
        return PosteriorCounts(mc.HMMs([INITIAL], [TRANSITION], emission), k=self.order)

    def slow(self, X):
        table = (self.weights[..., None] * self.parts).sum(axis=1)
        return np.array([slow(codes(x), self.order, table=table) for x in X])


class TestFitted(KernelContract):
    needs_fit = True
    features = True

    def kernel(self):
        return PosteriorCounts(mc.HMM(n_states=1, n_iter=3), k=2)

    def data(self, seed, n):
        return random_strings(seed, n, longest=20)

    def truth(self, X):
        return mc.EmpiricalMeanMap(order=1, gamma=300.0, normalize=False)(X)  # windows of two that are equal


# -- special cases ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dense", [4096, 0])
@pytest.mark.parametrize("order", [1, 2])
def test_ambiguity_codes_are_expected_symbols(order, dense, monkeypatch):
    monkeypatch.setattr(_step_counts, "DENSE_COLUMNS", dense)
    table = np.random.default_rng(1).dirichlet(np.ones(4), size=2)
    strings = ["ARC", "NNA", "YG", "ACG", "RRRA", "NA"]
    kernel = PosteriorCounts(model("dna", table), k=order, normalize=False)
    sets = {"A": (0,), "C": (1,), "G": (2,), "T": (3,), "R": (0, 2), "Y": (1, 3), "N": (0, 1, 2, 3)}
    expected = [slow([sets[s] for s in x], order, table=table) for x in strings]
    found, alone = kernel.features(strings), kernel.features(strings[3:4])
    assert sparse.issparse(found) == (order == 2 and dense == 0)
    if sparse.issparse(found):
        rows = PosteriorCounts(model("dna", table), k=order).features(strings)
        np.testing.assert_allclose((rows @ rows.T).diagonal(), 1.0, rtol=1e-13)
        found, alone = found.toarray(), alone.toarray()
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)
    assert np.array_equal(alone[0], found[3])
    np.testing.assert_allclose(kernel(strings), found @ found.T, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("n", [5, 9, 21])  # states in one vector and in two; too many for eight sequences at once
def test_pairs_add_up_to_states_and_transitions(n):
    rng = np.random.default_rng(2)
    p = rng.dirichlet(np.ones(4), size=(1, n))
    hmm = mc.HMMs(rng.dirichlet(np.ones(n), size=1), rng.dirichlet(np.ones(n), size=(1, n)), mc.Categoricals(p, "dna"))
    strings = ["".join(rng.choice(list("ACGT"), 300)) for _ in range(5)]
    found = PosteriorCounts(hmm, k=2, normalize=False).features(strings)
    found = (found.toarray() if sparse.issparse(found) else found).reshape(5, 4, 4, n, n)
    posterior = hmm.posterior(strings)
    np.testing.assert_allclose(found.sum(axis=(1, 2)), posterior.transitions / 299, rtol=1e-10, atol=1e-14)
    one = PosteriorCounts(hmm, normalize=False).features(strings).reshape(5, 4, n)
    for i, x in enumerate(strings):
        last = np.zeros((4, n))
        last["ACGT".index(x[-1])] = posterior[i][-1]
        np.testing.assert_allclose(found[i].sum(axis=(1, 3)), (300 * one[i] - last) / 299, rtol=1e-10, atol=1e-13)


@pytest.mark.slow
def test_where_the_range_of_floats_ends():
    """A state that only the end of the sequence makes probable is revived from below the smallest float."""
    tiny = 1e-200
    table = np.array([[1 - tiny, tiny, 0.0], [tiny, 0.5, 0.5 - tiny]])
    hmm = mc.HMMs([[0.5, 0.5]], [[[1.0, 0.0], [0.0, 1.0]]], mc.Categoricals([table], alphabet="abc"))
    for x in ("aaac", "aaabbac"):  # c is impossible in state 0, so that it was state 1 all the time
        found = PosteriorCounts(hmm, k=2, normalize=False).features([x, "ab"])[0].reshape(3, 3, 2, 2)
        expected = np.zeros((3, 3, 2, 2))
        for a, b in itertools.pairwise(x):
            expected["abc".index(a), "abc".index(b), 1, 1] += 1 / (len(x) - 1)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)


def test_the_way_out_of_the_range_gives_the_same(monkeypatch):
    strings = mc.Sequences([*random_strings(3, 6), "a", "ab"], alphabet="abc")
    expected = model().hidden_chain().step_counts(strings)
    monkeypatch.setattr(native, "TRUSTED", 0.5)  # trusts nothing
    np.testing.assert_allclose(model().hidden_chain().step_counts(strings), expected, rtol=1e-12, atol=1e-15)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text("abc", min_size=2, max_size=12), min_size=1, max_size=6), st.integers(1, 2), st.integers(0, 99))
def test_both_forms_agree_and_are_a_kernel(strings, states, seed):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(3), size=(1, states))
    first, steps = rng.dirichlet(np.ones(states), size=1), rng.dirichlet(np.ones(states), size=(1, states))
    hmm = mc.HMMs(first, steps, mc.Categoricals(p, alphabet="abc"))
    X = mc.Sequences(strings, alphabet="abc")
    dense = hmm.hidden_chain().step_counts(X)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_step_counts, "DENSE_COLUMNS", 0)
        np.testing.assert_allclose(hmm.hidden_chain().step_counts(X).toarray(), dense, rtol=1e-13, atol=1e-16)
    np.testing.assert_allclose(dense.sum(axis=1), 1.0, rtol=1e-12)
    for order in (1, 2):
        assert mc.gram.psd.check(PosteriorCounts(hmm, k=order)(X), 1e-10)


def test_it_is_a_latent_mean_map_without_mismatches():
    X = random_strings(4, 7)
    found = LatentMeanMap(model(), gamma=400.0, transitions=False)(X)
    np.testing.assert_allclose(PosteriorCounts(model())(X), found, rtol=1e-12)


def test_names():
    assert list(PosteriorCounts(model()).fit(["ab"]).get_count_names()[:3]) == [
        "count[a, 0]",
        "count[a, 1]",
        "count[b, 0]",
    ]
    names = PosteriorCounts(model(), k=2).fit(["ab"]).get_count_names()
    features = PosteriorCounts(model(), k=2).features(["cb"])[0]
    assert {name[:12] for name in names[features > 0]} == {"count[c, b, "}


# -- bad input ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "error", "match"),
    [
        ({"model": None}, TypeError, r"PosteriorCounts needs one model for all data.*mc.HMM\(\)"),
        ({"model": mc.Gaussians([[0.0]], [1.0])}, TypeError, "needs a hidden state of every observation"),
        (
            {"model": mc.Mixtures([[1.0]], mc.Gaussians([[[0.0]]], [[1.0]]))},
            TypeError,
            "must emit symbols, .* got Gaussians. Use mc.LatentMeanMap",
        ),
        ({"k": 0}, ValueError, r"k must be .*; got 0\. 1 counts symbols, 2"),
        ({"k": 3}, ValueError, r"k must be .*; got 3\. 1 counts symbols, 2"),
        ({"normalize": "yes"}, ValueError, "normalize must be True or False; got 'yes'"),
    ],
)
def test_bad_parameters(parameters, error, match):
    with pytest.raises(error, match=match):
        PosteriorCounts(**{"model": model(), **parameters}).fit(["ab"])


def test_bad_data():
    X = mc.Sequences(["ab", "a"], alphabet="abc", ids=["long", "short"])
    with pytest.raises(
        ValueError, match=r"short.* has zero norm under PosteriorCounts \(it has no pair of neighbors\)"
    ):
        PosteriorCounts(model(), k=2)(X)
    assert np.array_equal(PosteriorCounts(model(), k=2, on_zero="zero")(X), [[1.0, 0.0], [0.0, 0.0]])
    with pytest.raises(ValueError, match=r"has zero norm under PosteriorCounts \(it has no symbols\)"):
        PosteriorCounts(model())(["ab", ""])
    never = model("abc", np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]))
    for order in (1, 2):
        with pytest.raises(ValueError, match=r"long.* has probability zero under the shared model"):
            PosteriorCounts(never, k=order)(X)
    with pytest.raises(TypeError, match="must emit symbols"):
        PosteriorCounts(mc.HMM(2, n_init=1)).fit([np.arange(5.0), np.arange(6.0)])
