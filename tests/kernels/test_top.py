"""TOP: log odds of the classes written out, and their gradients by finite differences."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from tests.batches import string_weights, strings

import mercer as mc
from mercer.kernels import top
from mercer.kernels._operands import CenteredCounts
from mercer.kernels.top import TOP
from mercer.testing.kernels import KernelContract


def log_odds(joint):
    """Log odds of every class against all others from log P(c) p_c(x), ``(C,)``; of two classes the second's."""
    v = np.array([own - logsumexp(np.delete(joint, c)) for c, own in enumerate(joint)])
    return v[1:] if len(joint) == 2 else v


def slow_features(x, parameters, log_density, priors, h=1e-5):
    """Log odds and their central differences in all parameters ``(C, P)`` of all models: one row of features."""

    def odds(z):
        return log_odds(np.array([log_density(x, row) for row in z]) + np.log(priors))

    gradients = []
    for place in np.ndindex(*parameters.shape):
        step = np.zeros(parameters.shape)
        step[place] = h
        gradients.append((odds(parameters + step) - odds(parameters - step)) / (2 * h))
    return np.concatenate([odds(parameters), np.array(gradients).T.ravel()])


def gaussian_log_density(x, z):
    """Sum over the points of a datum; parameters are means and log standard deviations."""
    mean, log_sd = np.split(z, 2)
    x = np.atleast_2d(x)
    return np.sum(-0.5 * ((x - mean) / np.exp(log_sd)) ** 2 - log_sd - 0.5 * np.log(2 * np.pi))


class TestGaussians(KernelContract):
    """Three given classes, one point a datum."""

    features = True
    truth_tolerance = 1e-6
    classes = 3
    priors = (0.5, 0.2, 0.3)

    def models(self):
        rng = np.random.default_rng(50)
        return mc.Gaussians(rng.normal(size=(self.classes, 2)), np.exp(rng.normal(size=(self.classes, 2))))

    def kernel(self):
        return TOP(self.models(), priors=list(self.priors))

    def data(self, seed, n):
        return np.random.default_rng(seed).normal(size=(n, 2))

    def other_data(self, seed, n):
        return None  # the models have two coordinates

    def nearly(self, epsilon):
        x = self.data(0, 1)
        return np.concatenate([x, x + epsilon * np.arange(1, 3)])

    def slow(self, X):
        p = self.models()
        z = np.concatenate([np.asarray(p.mean), np.log(np.asarray(p.covariance)) / 2], axis=1)
        return np.array([slow_features(x, z, gaussian_log_density, self.priors) for x in X])

    def truth(self, X):
        f = self.slow(X)
        return f @ f.T

    def test_features_by_differences(self):
        X = self.data(30, 7)
        found = self.kernel().set_params(normalize=False).features(X)
        np.testing.assert_allclose(found, self.slow(X), rtol=1e-6, atol=1e-8)
        names = self.kernel().fit(X).get_score_names()
        assert len(names) == found.shape[1]


class TestTwoClasses(TestGaussians):
    classes = 2
    priors = (0.3, 0.7)


class TestSets(TestGaussians):
    """A datum of several points has one class."""

    classes = 4
    priors = (0.1, 0.2, 0.3, 0.4)

    def data(self, seed, n):
        rng = np.random.default_rng(seed)
        return [rng.normal(size=(rng.integers(1, 5), 2)) for _ in range(n)]

    def nearly(self, epsilon):
        return [np.array([[0.0, 1.0]]), np.array([[epsilon, 1.0]])]


def softmax(z):
    e = np.exp(z)
    return e / e.sum(axis=-1, keepdims=True)


class TestHiddenMarkovModels(KernelContract):
    """Three classes, all hidden paths by enumeration, gradients in logits."""

    features = True
    truth_tolerance = 1e-6

    def free(self):
        return 0.8 * np.random.default_rng(51).normal(size=(3, 2 + 4 + 4))

    @staticmethod
    def built(z):
        z = np.atleast_2d(z)
        emission = mc.Categoricals(softmax(z[:, 6:].reshape(-1, 2, 2)), alphabet="ab")
        return mc.HMMs(softmax(z[:, :2]), softmax(z[:, 2:6].reshape(-1, 2, 2)), emission)

    def kernel(self):
        return TOP(self.built(self.free()))

    def data(self, seed, n):
        rng = np.random.default_rng(seed)
        return ["".join(rng.choice(list("ab"), rng.integers(1, 5))) for _ in range(n)]

    def other_data(self, seed, n):
        return None

    def slow(self, X):
        def log_density(x, z):
            place = strings(2, len(x)).index(tuple("ab".index(s) for s in x))
            return np.log(string_weights(self.built(z)[0], len(x))[place])

        return np.array([slow_features(x, self.free(), log_density, np.full(3, 1 / 3)) for x in X])

    def truth(self, X):
        f = self.slow(X)
        return f @ f.T

    def test_features_by_differences(self):
        X = self.data(31, 4)
        np.testing.assert_allclose(
            self.kernel().set_params(normalize=False).features(X), self.slow(X), rtol=1e-6, atol=1e-8
        )


# -- what follows from the definition ------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 5), st.sampled_from(["sequence", "step"]))
def test_kernel_is_the_inner_product_of_features(seed, classes, per):
    rng = np.random.default_rng(seed)
    p = mc.Categoricals(rng.dirichlet(np.ones(3), size=classes), alphabet="abc")
    X = ["".join(rng.choice(list("abc"), rng.integers(1, 30))) for _ in range(6)]
    k = TOP(p, per=per, priors=rng.dirichlet(np.full(classes, 5.0)), normalize=False)
    f, K = k.features(X), k(X)
    v = classes if classes > 2 else 1
    assert f.shape == (6, v + v * classes * 3)
    np.testing.assert_allclose(K, f @ f.T, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(k.diag(X), np.sum(f**2, axis=1), rtol=1e-9)
    np.testing.assert_array_equal(k.log_odds(X), f[:, :v])
    order = rng.permutation(classes)  # of the classes, which does not matter
    again = TOP(p[order], per=per, priors=k.priors[order], normalize=False)
    np.testing.assert_allclose(again(X), K, rtol=1e-9, atol=1e-9)
    if per == "sequence":
        own = np.log(np.asarray(p.probability))
        joint = np.array([[sum(row["abc".index(s)] for s in x) for row in own] for x in X]) + np.log(k.priors)
        np.testing.assert_allclose(f[:, :v], [log_odds(row) for row in joint], rtol=1e-9, atol=1e-9)


def three_classes(seed=0, n=10):
    rng = np.random.default_rng(seed)
    y = np.repeat(["fair", "quick", "slow"], n)
    stay = {"fair": 0.5, "quick": 0.2, "slow": 0.85}
    moves = [rng.random(rng.integers(10, 25)) >= stay[label] for label in y]
    return ["".join("ab"[s] for s in np.cumsum(move) % 2) for move in moves], y


def test_models_are_fitted_to_the_classes():
    X, y = three_classes()
    chain = mc.MarkovChain(order=1, prior=None, smoothing=1.0)
    k = TOP(chain, normalize=False).fit(X[:25], y[:25])
    assert list(k.classes_) == ["fair", "quick", "slow"]
    assert k.model_.shape == (3,)
    np.testing.assert_allclose(k.priors_, [0.4, 0.4, 0.2])
    bayes = mc.LikelihoodRatio(chain).fit(X[:25], y[:25])
    posterior = bayes.predict_proba(X)
    np.testing.assert_allclose(k.log_odds(X), np.log(posterior) - np.log1p(-posterior), rtol=1e-6, atol=1e-8)
    assert np.array_equal(k.classes_[np.argmax(k.log_odds(X), axis=1)], bayes.predict(X))
    scores = mc.Fisher(chain, by_class=True, normalize=False).fit(X[:25], y[:25]).features(X)
    found = k.features(X)
    assert found.shape == (30, 3 + 3 * 12)
    np.testing.assert_allclose(found[:, 3:7], scores[:, :4])  # the first log odds in its own model
    given_models = TOP(k.model_, priors=k.priors_, normalize=False)
    np.testing.assert_allclose(given_models(X), k(X), rtol=1e-12)
    names = list(k.get_score_names())
    assert names[:4] == ["log_odds[0]", "log_odds[1]", "log_odds[2]", f"log_odds[0] / {names[3].split(' / ')[1]}"]
    assert names[3].split(" / ")[1].startswith("model[0].")
    assert len(names) == found.shape[1]


@pytest.mark.parametrize("priors", [None, "empirical", "uniform", [0.2, 0.3, 0.5]])
def test_priors(priors):
    X, y = three_classes()
    X, y = X[:24], y[:24]
    expected = {None: [10, 10, 4], "empirical": [10, 10, 4], "uniform": [1, 1, 1]}
    wanted = np.array(priors if isinstance(priors, list) else expected[priors], dtype=float)
    k = TOP(mc.MarkovChain(order=1), priors=priors).fit(X, y)
    np.testing.assert_allclose(k.priors_, wanted / wanted.sum())


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("parametrization", ["logit", "weight"])
def test_sparse_counts(classes, parametrization):
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(12), size=classes)
    y = np.arange(30) % classes
    X = np.array([rng.multinomial(15, p[c]) for c in y]).astype(float)
    even = mc.Multinomials(np.full((1, 12), 1 / 12))
    k = TOP(mc.Multinomial(prior=even), parametrization=parametrization, normalize=False)
    dense, compressed = clone(k).fit(X, y), clone(k).fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(compressed(sparse.csr_array(X)), dense(X), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(compressed.features(sparse.csr_array(X)), dense.features(X), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(compressed.log_odds(sparse.csr_array(X)), dense.log_odds(X), rtol=1e-8, atol=1e-8)
    kept = compressed._prepare(compressed._accept(sparse.csr_array(X), reset=False)).scores[0]
    assert isinstance(kept, CenteredCounts) == (parametrization == "logit")


def test_far_from_all_but_one_class():
    """Posteriors underflow, log odds and their gradients do not."""
    p = mc.Gaussians([[0.0], [100.0], [-100.0]], [1.0, 1.0, 1.0])
    f = TOP(p, normalize=False).features([[0.0], [99.0]])
    assert np.isfinite(f).all()
    np.testing.assert_allclose(f[0, 0], 5000 - np.log(2))
    np.testing.assert_allclose(f[0, 3 : 3 + 6 : 2], [0.0, 50.0, -50.0])  # -g_k / 2, g = -100 and 100
    np.testing.assert_allclose(f[1, 1], (99**2 - 1) / 2)


def test_what_was_not_observed_has_no_direction():
    """Equal priors, and nothing seen: log odds and scores are 0, not what rounding leaves, and the datum is named."""
    rng = np.random.default_rng(3)
    emission = mc.Categoricals(rng.dirichlet(np.ones(4), (2, 5)), alphabet="dna")
    models = mc.HMMs(rng.dirichlet(np.ones(5), 2), rng.dirichlet(np.ones(5), (2, 5)), emission)
    X = mc.Sequences(["ACGTA", "N" * 40], ids=["p", "q"], alphabet="dna")
    with pytest.raises(ValueError, match=r"sequence 'q' has zero norm under TOP \(all classes are equally probable"):
        TOP(models)(X)
    np.testing.assert_array_equal(TOP(models, on_zero="zero")(X), [[1, 0], [0, 0]])
    np.testing.assert_allclose(TOP(models, priors=[0.2, 0.8]).log_odds(X)[1], np.log(4))


def test_impossible_data_are_named():
    X, y = ["abab", "baba", "aaaa"], [0, 0, 1]
    k = TOP(mc.MarkovChain(order=1, prior=None), on_zero="zero")
    with pytest.raises(
        ValueError, match=r"sequence 0 has the log probability -inf under the model of class 1, .* prior"
    ):
        k.fit(X, y).transform(X)
    p = mc.Multinomials([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]])
    for X in (np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 2.0]]), sparse.csr_array([[1.0, 1.0, 0.0], [0.0, 0.0, 2.0]])):
        with pytest.raises(ValueError, match="row 1 has the log probability -inf under the model of class 0"):
            TOP(p)(X)


def test_explicit_features_may_be_too_many(monkeypatch):
    X, y = three_classes()
    k = TOP(mc.MarkovChain(order=1)).fit(X, y)
    monkeypatch.setattr(top, "DENSE", 30 * 3 * 12 - 1)
    monkeypatch.setattr(top.Rows, "dense", lambda self: pytest.fail("made dense before it was counted"))
    with pytest.raises(ValueError, match="features of 30 samples under 3 classes are 1080 numbers"):
        k.features(X)
    monkeypatch.undo()
    monkeypatch.setattr(top, "DENSE", 30 * 3 * 12 - 1)
    assert k.features(X[:29]).shape == (29, 39)
    assert k(X).shape == (30, 30)


@pytest.mark.parametrize(
    "model",
    [
        mc.Mixture(n_components=2, tol=1e-2),
        mc.Mixture(n_components=2, tol=1e-2, prior=None),
        mc.HMM(2, n_iter=3, tol=1.0),
        mc.Gaussian(prior="pooled"),
    ],
)
def test_log_odds_are_those_of_the_likelihood_ratio(model):
    """The models are those that `fit` finds: a pooled prior is not shrunk to itself."""
    rng = np.random.default_rng(0)
    X, y = [rng.normal(rng.choice([0, 3], (9, 1)) * (i % 2), 1.0) for i in range(16)], np.arange(16) % 2
    expected = mc.LikelihoodRatio(model).fit(X, y).decision_function(X)
    np.testing.assert_allclose(TOP(model).fit(X, y).log_odds(X)[:, 0], expected, rtol=1e-9)


def test_names_of_given_models():
    p = mc.Gaussians([[0.0], [1.0]], [1.0, 1.0])
    assert list(TOP(p).get_score_names()) == list(TOP(p).fit([[0.0]]).get_score_names())
    with pytest.raises(NotFittedError):
        TOP(mc.Gaussian()).get_score_names()


def test_bad_input():
    X, y = three_classes()
    p = mc.Gaussians([[0.0], [1.0]], [1.0, 1.0])
    chain = mc.MarkovChain(order=1)
    with pytest.raises(ValueError, match=r"TOP requires y to be passed.* Call fit\(X, y\)"):
        TOP(chain).fit(X)
    with pytest.raises(ValueError, match=r"30 samples, and y of shape \(29,\)"):
        TOP(chain).fit(X, y[1:])
    with pytest.raises(ValueError, match=r"All samples are of one class, 'fair'\. TOP needs at least two classes"):
        TOP(chain).fit(X[:10], y[:10])
    with pytest.raises(ValueError, match=r"must be a batch of shape \(C,\).*; got shape \(1,\)"):
        TOP(p[:1])([[0.0]])
    with pytest.raises(TypeError, match=r"TOP needs one model per class: .* or a fitted batch of shape \(C,\)"):
        TOP().fit([[0.0]], [0])
    for strange, message in [
        (np.arange(30) * 1j, "y has dtype complex128. Pass classes"),
        (np.arange(30).astype("M8[D]"), r"y has dtype datetime64\[D\]. Pass classes"),
        ([*y[:7], None, *y[8:]], r"y\[7\] is None. Pass a class"),
    ]:
        with pytest.raises(ValueError, match=message):
            TOP(chain).fit(X, strange)
    with pytest.raises(ValueError, match="class 'quick': There is nothing to fit"):
        TOP(mc.MarkovChain(order=1, end=False, prior=None)).fit(["abab", "", "ab"], ["fair", "quick", "slow"])
    with pytest.raises(NotFittedError, match="because it learns one model per class"):
        TOP(chain)(X)
    for name, value, message in [
        ("per", "x", "'sequence' or 'step'; got 'x'"),
        ("parametrization", "x", "parametrization"),
        ("normalize", "x", "True or False; got 'x'"),
        ("priors", "x", "'empirical', 'uniform' or .*; got 'x'"),
        ("priors", "empirical", "model is a fitted batch"),
        ("priors", [0.5, 0.6], "that sum to one"),
        ("priors", [0.0, 1.0], "a class of probability zero has no log odds"),
    ]:
        with pytest.raises(ValueError, match=message):
            TOP(p, **{name: value}).fit([[0.0], [1.0]])

    class Scoreless(mc.Poissons):
        fisher_scores = property()  # hasattr says no

    with pytest.raises(TypeError, match="TOP needs `fisher_scores`, which Scoreless does not have"):
        TOP(Scoreless([[1.0], [2.0]])).fit([[1.0]])
    with pytest.raises(TypeError, match=r"not models. Pass the data themselves"):
        TOP(p)(p)
    with pytest.raises(ValueError, match="coordinates"):
        TOP(p)([[0.0, 1.0]])
