"""LatentMeanMap: double sums over positions and over all hidden paths of both data, written out."""

import itertools
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from tests.batches import hmms

import mercer as mc
from mercer._coupling import smoothed_features
from mercer.kernels import latentmeanmap
from mercer.kernels._operands import Rows
from mercer.kernels._weighted_points import WeightedPoints
from mercer.kernels.latentmeanmap import LatentMeanMap
from mercer.testing.kernels import KernelContract, by_pairs


def paths(initial, transition, likelihood):
    """Every hidden path of a datum with likelihoods ``(L, n)``, and its posterior."""
    found = []
    for path in itertools.product(range(len(initial)), repeat=len(likelihood)):
        p = initial[path[0]] * likelihood[0][path[0]]
        for t in range(1, len(path)):
            p *= transition[path[t - 1]][path[t]] * likelihood[t][path[t]]
        found.append((path, p))
    total = sum(p for _, p in found)
    return [(path, p / total) for path, p in found]


def slow(x, y, left, right, base, mismatch, steps=True):
    """Expected average over all pairs of cliques, of paths ``left`` and ``right`` drawn by themselves (LMMK-0)."""
    value = 0.0
    for (q, p), (r, p2) in itertools.product(left, right):
        own = sum(
            base(x[s], y[t]) * (1.0 if q[s] == r[t] else mismatch)
            for s, t in itertools.product(range(len(x)), range(len(y)))
        ) / (len(x) * len(y))
        if steps and len(x) > 1 and len(y) > 1:
            own += sum(
                (1.0 if q[s] == r[t] else mismatch) * (1.0 if q[s + 1] == r[t + 1] else mismatch)
                for s, t in itertools.product(range(len(x) - 1), range(len(y) - 1))
            ) / ((len(x) - 1) * (len(y) - 1))
        value += p * p2 * own
    return value


def symbol_likelihood(model, x, alphabet="abc"):
    table = np.asarray(model.emission.probability)[0]
    return np.array([table[:, alphabet.index(s)] for s in x])


def symbolic_model(seed=0, states=2):
    free = np.random.default_rng(seed).normal(size=(1, states + states**2 + 3 * states))
    model = hmms(free, states=states)
    return mc.HMMs(model.initial, model.transition, mc.Categoricals(model.emission.probability, alphabet="abc"))


def random_strings(seed, n, shortest=1, longest=5):
    rng = np.random.default_rng(seed)
    return ["".join(rng.choice(list("abc"), rng.integers(shortest, longest))) for _ in range(n)]


class TestStrings(KernelContract):
    features = True
    gamma, gamma_states, transitions = 0.4, None, True

    def kernel(self):
        return LatentMeanMap(
            symbolic_model(), gamma=self.gamma, gamma_states=self.gamma_states, transitions=self.transitions
        )

    def data(self, seed, n):
        return random_strings(seed, n)

    def other_data(self, seed, n):
        return None  # the model has an alphabet

    def truth(self, X):
        model = symbolic_model()
        initial, transition = np.asarray(model.initial)[0], np.asarray(model.transition)[0]
        hidden = {x: paths(initial, transition, symbol_likelihood(model, x)) for x in X}
        mismatch = np.exp(-2 * (self.gamma if self.gamma_states is None else self.gamma_states))

        def base(a, b):
            return 1.0 if a == b else np.exp(-2 * self.gamma)

        return by_pairs(lambda x, y: slow(x, y, hidden[x], hidden[y], base, mismatch, self.transitions), X)


class TestStringsWithoutSteps(TestStrings):
    gamma_states, transitions = 1.3, False


class TestMixture(KernelContract):
    """Every symbol has a component of its own, and there are no steps."""

    features = True
    weights = np.array([0.3, 0.7])

    def model(self):
        return mc.Mixtures([self.weights], mc.Categoricals([[[0.6, 0.3, 0.1], [0.1, 0.2, 0.7]]], alphabet="abc"))

    def kernel(self):
        return LatentMeanMap(self.model(), gamma=0.7)

    def data(self, seed, n):
        return random_strings(seed, n)

    def other_data(self, seed, n):
        return None

    def truth(self, X):
        table = np.array([[0.6, 0.3, 0.1], [0.1, 0.2, 0.7]])
        independent = np.tile(self.weights, (2, 1))
        hidden = {x: paths(self.weights, independent, table.T[["abc".index(s) for s in x]]) for x in X}
        e = np.exp(-1.4)
        return by_pairs(
            lambda x, y: slow(x, y, hidden[x], hidden[y], lambda a, b: 1.0 if a == b else e, e, steps=False), X
        )


MEAN, VARIANCE = np.array([[0.0, 0.0], [1.0, -1.0]]), np.array([[1.0, 0.5], [0.7, 1.5]])
INITIAL, TRANSITION = np.array([0.3, 0.7]), np.array([[0.8, 0.2], [0.4, 0.6]])


def density(x):
    apart = np.asarray(x)[:, None, :] - MEAN
    return np.exp(-0.5 * (apart**2 / VARIANCE).sum(-1)) / np.sqrt(VARIANCE.prod(-1))


class TestVectors(KernelContract):
    gamma, gamma_states = 0.3, 0.8

    def model(self):
        return mc.HMMs([INITIAL], [TRANSITION], mc.Gaussians([MEAN], [VARIANCE]))

    def kernel(self):
        return LatentMeanMap(self.model(), gamma=self.gamma, gamma_states=self.gamma_states)

    def data(self, seed, n):
        rng = np.random.default_rng(seed)
        return [rng.normal(size=(rng.integers(1, 5), 2)) for _ in range(n)]

    def other_data(self, seed, n):
        return None

    def nearly(self, epsilon):
        x = self.data(0, 3)[1]
        return [x, x + epsilon]

    def hidden(self, x):
        return paths(INITIAL, TRANSITION, density(x))

    def truth(self, X):
        def base(a, b):
            return np.exp(-self.gamma * np.sum((a - b) ** 2))

        return by_pairs(
            lambda x, y: slow(x, y, self.hidden(x), self.hidden(y), base, np.exp(-2 * self.gamma_states)), X
        )


class TestMatrix(TestVectors):
    """Rows of a matrix under a mixture: data of one point."""

    def model(self):
        return mc.Mixtures([INITIAL], mc.Gaussians([MEAN], [VARIANCE]))

    def data(self, seed, n):
        return np.random.default_rng(seed).normal(size=(n, 2))

    def nearly(self, epsilon):
        return np.array([[0.1, 0.2], [0.1 + epsilon, 0.2]])

    def truth(self, X):
        shares = INITIAL * density(X)
        shares /= shares.sum(axis=1, keepdims=True)
        e = np.exp(-2 * self.gamma_states)
        base = np.exp(-self.gamma * np.sum((X[:, None] - X) ** 2, axis=-1))
        return base * (shares @ (e + (1 - e) * np.eye(2)) @ shares.T)


class TestFitted(KernelContract):
    """An estimator is fitted to the training data; one state, so that their order does not matter."""

    needs_fit = True
    features = True

    def kernel(self):
        return LatentMeanMap(mc.HMM(n_states=1, n_iter=3), gamma=0.5)

    def data(self, seed, n):
        return random_strings(seed, n, shortest=2, longest=20)

    def truth(self, X):
        return mc.EmpiricalMeanMap(gamma=0.5, normalize=False)(X) + 1


class TestRandomFeatures(KernelContract):
    features = True

    def kernel(self):
        return LatentMeanMap(TestVectors().model(), gamma=0.3, n_components=7)

    def data(self, seed, n):
        return TestVectors().data(seed, n)

    def other_data(self, seed, n):
        return None

    def nearly(self, epsilon):
        return TestVectors().nearly(epsilon)

    def truth(self, X):
        frequencies = np.sqrt(0.6) * np.random.default_rng(0).standard_normal((2, 7))
        e = np.exp(-0.6)
        hidden = {id(x): TestVectors().hidden(x) for x in X}

        def base(a, b):
            return np.mean(np.cos((a - b) @ frequencies))

        return by_pairs(lambda x, y: slow(x, y, hidden[id(x)], hidden[id(y)], base, e), X)

    def test_error_falls_with_the_root(self):
        X = self.data(3, 8)
        exact = self.kernel().set_params(n_components=None)(X)
        few, many = (
            np.sqrt(
                np.mean([(self.kernel().set_params(n_components=r, random_state=s)(X) - exact) ** 2 for s in range(20)])
            )
            for r in (20, 2000)
        )
        assert 5 < few / many < 20

    def test_chunks(self, monkeypatch):
        X = self.data(5, 4)
        expected = self.kernel().features(X)
        monkeypatch.setattr(latentmeanmap, "CHUNK", 1)
        np.testing.assert_allclose(self.kernel().features(X), expected, rtol=1e-12, atol=1e-14)


# -- special cases ------------------------------------------------------------------------------------------


def test_one_state_is_the_empirical_mean_map():
    """T-18: v_xq = EMMK-1 and v_qq = 1."""
    strings = random_strings(1, 6, shortest=2)
    model = mc.HMMs([[1.0]], [[[1.0]]], mc.Categoricals([[[0.2, 0.3, 0.5]]], alphabet="abc"))
    plain = mc.EmpiricalMeanMap(gamma=0.6, alphabet="abc", normalize=False)(strings)
    for transitions in (True, False):
        found = LatentMeanMap(model, gamma=0.6, transitions=transitions, normalize=False)(strings)
        np.testing.assert_allclose(found, plain + transitions, rtol=1e-13)
    rng = np.random.default_rng(2)
    series = [rng.normal(size=(n, 3)) for n in (2, 5, 40, 9)]
    model = mc.HMMs([[1.0]], [[[1.0]]], mc.Gaussians([[[0.0] * 3]], [[[1.0] * 3]]))
    plain = mc.EmpiricalMeanMap(gamma=0.2, normalize=False)(series)
    np.testing.assert_allclose(LatentMeanMap(model, gamma=0.2, normalize=False)(series), plain + 1, rtol=1e-12)


def test_large_gamma_is_the_kernel_of_marginalised_counts():
    """T-18: lam -> inf is MK-7, plus expected transitions."""
    model, strings = symbolic_model(3, states=3), random_strings(3, 8, shortest=2, longest=30)
    counts, steps = [], []
    posterior = model.posterior(strings)
    for i, x in enumerate(strings):
        seen = np.eye(3)[["abc".index(s) for s in x]]
        counts.append((seen.T @ posterior[i]).ravel() / len(x))
        steps.append(posterior.transitions[i].ravel() / (len(x) - 1))
    f = np.concatenate([counts, steps], axis=1)
    np.testing.assert_allclose(LatentMeanMap(model, gamma=400.0, normalize=False)(strings), f @ f.T, rtol=1e-12)
    errors = [np.abs(LatentMeanMap(model, gamma=g, normalize=False)(strings) - f @ f.T).max() for g in (3.0, 4.0)]
    np.testing.assert_allclose(errors[0] / errors[1], np.exp(2), rtol=0.05)  # the error is of order exp(-2 gamma)


def test_zero_gamma_sees_no_difference():
    strings = random_strings(4, 5, shortest=2)
    np.testing.assert_allclose(LatentMeanMap(symbolic_model(), gamma=0.0, normalize=False)(strings), 2.0, rtol=1e-13)


def test_gaussianized_is_the_gaussian_of_the_distance():
    """LMMK-2 (equation 24)."""
    kernel, strings = LatentMeanMap(symbolic_model(), gamma=0.5, normalize=False), random_strings(5, 7)
    K = kernel(strings)
    squared = np.diag(K)[:, None] + np.diag(K) - 2 * K
    np.testing.assert_allclose(mc.kernels.Gaussianized(kernel, gamma=3.0)(strings), np.exp(-3 * squared), rtol=1e-12)
    assert mc.kernels.Gaussianized(kernel, gamma=3.0).psd == "always"


def test_mixture_of_symbols_in_every_state():
    rng = np.random.default_rng(6)
    weights, p = rng.dirichlet(np.ones(2), size=(1, 2)), rng.dirichlet(np.ones(3), size=(1, 2, 2))
    mixed = mc.HMMs([INITIAL], [TRANSITION], mc.Mixtures(weights, mc.Categoricals(p, alphabet="abc")))
    plain = mc.HMMs([INITIAL], [TRANSITION], mc.Categoricals((weights[..., None] * p).sum(2), alphabet="abc"))
    strings = random_strings(6, 9)
    np.testing.assert_allclose(LatentMeanMap(mixed)(strings), LatentMeanMap(plain)(strings), rtol=1e-12)


def test_ambiguity_codes_are_expected_symbols():
    """The features of a string are the posterior average of those of all strings that it may be."""
    rng = np.random.default_rng(7)
    table = rng.dirichlet(np.ones(4), size=(1, 2))
    model = mc.HMMs([INITIAL], [TRANSITION], mc.Categoricals(table, alphabet="dna"))
    kernel = LatentMeanMap(model, gamma=0.5, normalize=False)
    for x, sets in (("ARC", ["A", "AG", "C"]), ("NNA", ["ACGT", "ACGT", "A"]), ("YG", ["CT", "G"])):
        full = ["".join(s) for s in itertools.product(*sets)]
        p = np.exp(model.log_prob(full)).ravel()
        expected = (p / p.sum()) @ kernel.features(full)
        np.testing.assert_allclose(kernel.features([x])[0], expected, rtol=1e-12)


def test_long_series_without_a_table():
    """Base kernels of two series of 3,000 points are 72 MB; an eighth of that is too much already."""
    rng = np.random.default_rng(8)
    model = TestVectors().model()
    kernel = LatentMeanMap(model, gamma=0.3, normalize=False)
    kernel([rng.normal(size=(5, 2))])
    x = [rng.normal(size=(3000, 2)) for _ in range(2)]
    tracemalloc.start()
    kernel(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3000 * 3000 * 8 / 8


def test_points_far_away():
    model = mc.Mixtures([[1.0]], mc.Gaussians([[[0.0]]], [[[1e6]]]))
    K = LatentMeanMap(model, gamma=1.0)([[0.0], [500.0], [1e6 + 1], [1e6]])
    np.testing.assert_allclose(K[2, 3], np.exp(-1), rtol=1e-12)
    assert K[0, 1] < 1e-200
    assert K[0, 2] < 1e-200


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.lists(st.floats(-3, 3), min_size=1, max_size=12), min_size=2, max_size=6),
    st.floats(0, 5),
    st.floats(0, 5),
)
def test_values_are_those_of_posteriors(series, gamma, gamma_states):
    model = mc.HMMs([INITIAL], [TRANSITION], mc.Gaussians([[[0.0], [1.0]]], [[[1.0], [0.5]]]))
    posterior = model.posterior(series)
    e = np.exp(-2 * gamma_states)
    states = e + (1 - e) * np.eye(2)

    def pair(i, j):
        base = np.exp(-gamma * (np.array(series[i])[:, None] - np.array(series[j])) ** 2)
        value = np.mean(base * (posterior[i] @ states @ posterior[j].T))
        a, b = (posterior.transitions[k] / max(len(series[k]) - 1, 1) for k in (i, j))
        return value + np.sum(a * (states @ b @ states))

    kernel = LatentMeanMap(model, gamma=gamma, gamma_states=gamma_states, normalize=False)
    expected = by_pairs(pair, range(len(series)))
    found = kernel(series)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-14)
    assert mc.gram.psd.check(found, 1e-10)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text("abc", min_size=1, max_size=9), min_size=2, max_size=6), st.floats(0, 10), st.integers(1, 4))
def test_strings_are_points_of_one_hot_vectors(strings, gamma, states):
    """The features of symbols give what the double sum over positions gives."""
    model = symbolic_model(9, states)
    kernel = LatentMeanMap(model, gamma=gamma, transitions=False, normalize=False)
    posterior = model.posterior(strings)
    one_hot = np.concatenate([np.eye(3)[["abc".index(s) for s in x]] for x in strings])
    lengths = posterior.lengths
    weights = smoothed_features(posterior.states, gamma) / np.repeat(lengths, lengths)[:, None]
    operand = WeightedPoints.of(one_hot, weights, posterior.offsets, gamma, Rows(np.zeros((len(strings), 0))))
    np.testing.assert_allclose(kernel(strings), operand.inner(operand), rtol=1e-11, atol=1e-15)


# -- bad input ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "error", "match"),
    [
        ({"model": None}, TypeError, r"LatentMeanMap needs one model for all data, such as mc.HMM\(\)"),
        ({"model": mc.Gaussians([[0.0]], [1.0])}, TypeError, "needs a hidden state of every observation.*Use mc.HMM"),
        ({"gamma": -1.0}, ValueError, r"gamma must be .*; got -1.0"),
        ({"gamma": "scale"}, ValueError, r"gamma must be .*; got 'scale'"),
        ({"gamma_states": -1.0}, ValueError, r"gamma_states must be .*; got -1.0"),
        ({"transitions": "yes"}, ValueError, r"transitions must be True or False; got 'yes'"),
        ({"n_components": 0}, ValueError, r"n_components must be .*; got 0\. .*number of random frequencies"),
        ({"on_zero": "no"}, ValueError, r"on_zero must be .*; got 'no'"),
    ],
)
def test_bad_parameters(parameters, error, match):
    with pytest.raises(error, match=match):
        LatentMeanMap(**{"model": symbolic_model(), **parameters}).fit(["ab"])


def test_bad_data():
    kernel = LatentMeanMap(TestVectors().model())
    X = mc.Sequences([[[0.0, 1.0]], [[1.0, 1.0], [np.nan, 0.0]]], ids=["one", "two"])
    with pytest.raises(ValueError, match=r"two.* \(point 1\) has a missing coordinate \(NaN\)"):
        kernel(X)
    never = mc.HMMs([INITIAL], [TRANSITION], mc.Categoricals([[[1.0, 0.0], [1.0, 0.0]]], alphabet="ab"))
    with pytest.raises(ValueError, match=r"bad.* has probability zero under the shared model.*leave it out"):
        LatentMeanMap(never)(mc.Sequences(["aa", "ab"], alphabet="ab", ids=["good", "bad"]))
    with pytest.raises(ValueError, match=r"has zero norm under LatentMeanMap \(it has no observed values\)"):
        LatentMeanMap(symbolic_model())(["ab", ""])
    assert np.array_equal(LatentMeanMap(symbolic_model(), on_zero="zero")(["ab", ""])[1], [0.0, 0.0])
    mixture = mc.Mixtures([[0.5, 0.5]], mc.Multinomials([[[0.5, 0.5], [0.9, 0.1]]]))
    with pytest.raises(TypeError, match=r"sparse rows\. Pass X.toarray\(\)"):
        LatentMeanMap(mixture)(sparse.csr_matrix([[1.0, 2.0], [3.0, 0.0]]))
    chains = mc.HMMs(INITIAL[None, None], TRANSITION[None, None], mc.Gaussians(MEAN[None, None], VARIANCE[None, None]))
    with pytest.raises(TypeError, match="mixtures of models of whole sequences do not have"):
        LatentMeanMap(mc.Mixtures([[1.0]], chains))(TestVectors().data(0, 2))
    with pytest.raises(TypeError, match=r"Gaussians do not have. Use mc\.HMM or mc\.Mixture"):
        LatentMeanMap(mc.Gaussian("diagonal")).fit(np.eye(3))
