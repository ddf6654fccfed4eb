"""Fisher: scores by finite differences, every information against g' I^+ g written out."""

import itertools

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from tests.batches import string_weights, strings

import mercer as mc
from mercer.kernels._operands import CenteredCounts
from mercer.models._scores.scores import hmm_scores
from mercer.models.hmm_estimator import HMM
from mercer.models.markov_estimator import MarkovChain
from mercer.models.posterior import Posterior
from mercer.testing.kernels import KernelContract, normalized


def gaussian_log_density(x, parameters):
    """Log density of points under independent Gaussians with parameters (means, log standard deviations)."""
    mean, log_sd = np.split(parameters, 2)
    return np.sum(-0.5 * ((x - mean) / np.exp(log_sd)) ** 2 - log_sd - 0.5 * np.log(2 * np.pi), axis=-1)


def scores_by_differences(x, parameters, log_density=gaussian_log_density, h=1e-5):
    """Gradient of the log density of every point, ``(T, P)``."""
    steps = h * np.eye(len(parameters))
    return np.stack(
        [(log_density(x, parameters + s) - log_density(x, parameters - s)) / (2 * h) for s in steps], axis=-1
    )


class Scoreless(mc.Poissons):
    fisher_scores = property()  # hasattr says no


class TestMatrix(KernelContract):
    """One point a datum, a diagonal Gaussian fitted to all."""

    needs_fit = True
    features = True
    information = "identity"
    truth_tolerance = 1e-6
    degenerate = "zero norm|singular covariance.*Add a floor"

    def kernel(self):
        return mc.Fisher(mc.Gaussian("diagonal", floor=0.0), information=self.information, ridge=0.01)

    def data(self, seed, n):
        return np.random.default_rng(seed).normal(1.0, [1.0, 2.0], size=(n, 2))

    def nearly(self, epsilon):
        x = self.data(0, 1)
        return np.concatenate([x, x + epsilon * np.arange(1, 3)])

    def scores(self, X):
        points = np.concatenate(X) if isinstance(X, list) else X
        parameters = np.concatenate([points.mean(axis=0), np.log(points.std(axis=0))])
        if isinstance(X, list):
            return np.array([scores_by_differences(x, parameters).sum(axis=0) for x in X])
        return scores_by_differences(X, parameters)

    def truth(self, X):
        g = self.scores(X)
        moment = g.T @ g / len(g)
        if self.information == "identity":
            return g @ g.T
        if self.information == "diagonal":
            moment = np.diag(np.diag(moment))
        return g @ np.linalg.inv(moment + 0.01 * np.trace(moment) / len(moment) * np.eye(len(moment))) @ g.T


class TestDiagonal(TestMatrix):
    information = "diagonal"


class TestEmpirical(TestMatrix):
    information = "empirical"


class TestSets(TestMatrix):
    """Scores are summed over the points of a set."""

    def data(self, seed, n):
        rng = np.random.default_rng(seed)
        return [rng.normal(size=(rng.integers(1, 6), 2)) for _ in range(n)]

    def nearly(self, epsilon):
        return [np.array([[0.0, 1.0]]), np.array([[epsilon, 1.0]])]


class TestGivenModel(KernelContract):
    """A batch of shape (1,) is used as it is, without fit."""

    features = True

    def kernel(self):
        return mc.Fisher(mc.Categoricals([[0.5, 0.3, 0.2]], alphabet="abc"), normalize=False)

    def other_data(self, seed, n):
        return None  # the model's alphabet is the only one

    def data(self, seed, n):
        rng = np.random.default_rng(seed)
        return ["".join(rng.choice(list("abc"), rng.integers(1, 6))) for _ in range(n)]

    def truth(self, X):
        """FK-1: the score of a symbol is its indicator minus the probabilities, summed over all pairs."""
        p = dict(zip("abc", (0.5, 0.3, 0.2), strict=True))
        square = 0.5**2 + 0.3**2 + 0.2**2

        def pair(x, y):
            return sum((a == b) - p[a] - p[b] + square for a, b in itertools.product(x, y))

        return np.array([[pair(x, y) for y in X] for x in X])


@pytest.mark.parametrize("shape", [(3, 5), (8, 5)])
@pytest.mark.parametrize("ridge", [1e-3, 0.0])
def test_empirical_information_is_the_direct_inverse(shape, ridge):
    """More parameters (10) than data (3 or 8) or fewer: the same formula; without a ridge the pseudo-inverse."""
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=shape), rng.normal(size=(4, 5))
    k = mc.Fisher(mc.Gaussian("diagonal"), information="empirical", ridge=ridge, normalize=False).fit(X)
    plain = mc.Fisher(k.model_, information="identity", normalize=False)
    g, h = plain.features(X), plain.features(new)
    moment = g.T @ g / len(g)
    if ridge:
        inverse = np.linalg.inv(moment + ridge * np.trace(moment) / 10 * np.eye(10))
    else:
        inverse = np.linalg.pinv(moment, rcond=1e-12, hermitian=True)
    np.testing.assert_allclose(k(new), h @ inverse @ h.T, rtol=1e-6, atol=1e-8)
    values = np.linalg.eigvalsh(moment)
    np.testing.assert_allclose(k.effective_rank_, values.sum() ** 2 / np.sum(values**2), rtol=1e-9)


FAMILIES = [
    mc.Gaussians([[0.5, -1.0]], [[[1.0, 0.3], [0.3, 0.5]]]),
    mc.Gaussians([[0.5, -1.0]], [[1.5, 0.5]]),
    mc.Gaussians([[0.5, -1.0]], [0.7]),
    mc.Poissons([[1.0, 4.0]]),
    mc.families.Bernoullis([[0.2, 0.6]]),
]


def test_degenerate_scores_are_no_nan():
    """A coordinate without information counts nothing; a datum at the mean has zero norm."""
    X = np.column_stack([np.arange(4.0), np.zeros(4)])
    for information in ("diagonal", "empirical"):
        for ridge in (0.0, 1e-3):
            k = mc.Fisher(mc.Gaussian("diagonal"), information=information, ridge=ridge)
            assert np.isfinite(k.fit_transform(X)).all()
    flat = mc.Fisher(mc.Categoricals([[0.5, 0.5]], alphabet="ab"))
    with pytest.raises(ValueError, match=r"sequence 1 has zero norm under Fisher"):
        flat(["a", "ab"])
    assert np.array_equal(flat.set_params(on_zero="zero")(["a", "ab"]), np.diag([1.0, 0.0]))


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("model", [mc.Multinomial(), mc.Multinomials([[0.1, 0.2, 0.3, 0.4, 0.0]])])
def test_sparse_counts_stay_sparse(model, normalize):
    X = np.random.default_rng(0).poisson(0.8, (30, 5)) + np.eye(30, 5)
    S = sparse.csr_array(X)
    k, dense = (mc.Fisher(model, normalize=normalize).fit(data) for data in (S, X))
    assert isinstance(k._prepare(k.train_), CenteredCounts)
    for data in (S, X):
        np.testing.assert_allclose(k.transform(data), dense.transform(X), rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(dense.transform(data), dense.transform(X), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(k.features(S), dense.features(X), atol=1e-12)
    np.testing.assert_allclose(k.diag(S), dense.diag(X), rtol=1e-10)
    assert k(S.astype(np.float32)).dtype == np.float64
    same = sparse.csr_array(np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]]))
    with pytest.raises(ValueError, match="zero norm"):
        mc.Fisher(mc.Multinomial()).fit_transform(same)


VECTORS = [np.random.default_rng(n).normal(size=(n, 2)) for n in (5, 9, 7, 6, 8)]
WORDS = ["abca", "bc", "ccab", "abba", "cab"]


@pytest.mark.parametrize(
    ("model", "X", "best"),
    [
        (mc.Gaussian("diagonal"), VECTORS, True),
        (mc.Mixture(mc.Gaussian("diagonal"), 2), VECTORS, True),
        (HMM(2, n_iter=3, tol=0.0), VECTORS, True),
        (HMM(2, mc.Mixture(mc.Gaussian("diagonal"), 2), n_iter=3, tol=0.0), VECTORS, True),
        (mc.Gaussian("isotropic"), np.vstack(VECTORS), True),
        (HMM(2, n_iter=3, tol=0.0), WORDS, False),
        (MarkovChain(1), WORDS, False),
        (mc.Multinomial(), np.array([[3, 1, 0], [1, 1, 4], [2, 2, 2]]), False),
        (mc.Poisson(), np.array([[3.0, 1.0], [1.0, 1.0], [2.0, 5.0]]), False),
    ],
    ids=str,
)
def test_the_default_depends_on_the_family(model, X, best):
    """Diagonal information and a power for Gaussians, the practical kernel for symbols and counts."""
    options = {"information": "diagonal", "per": "step", "power": 0.5} if best else {"information": "identity"}
    explicit = mc.Fisher(model, **options).fit(X)
    K = mc.Fisher(model).fit(X)
    np.testing.assert_array_equal(K.transform(X), explicit.transform(X))
    given = mc.Fisher(K.model_)  # the same for a model that is fitted already
    if best:
        with pytest.raises(NotFittedError, match="information='diagonal' is estimated from the training data"):
            given(X)
    np.testing.assert_array_equal(given.fit(X).transform(X), explicit.transform(X))
    # Parameters that are given count.
    own = mc.Fisher(model, per="sequence", power=0.25, normalize=False).fit(X)
    options = {"information": options["information"], "per": "sequence", "power": 0.25, "normalize": False}
    np.testing.assert_array_equal(own.transform(X), mc.Fisher(model, **options).fit(X).transform(X))
    plain = mc.Fisher(model, information="identity", normalize=False).fit(X)
    book = mc.Fisher(model, information="identity", per="sequence", power=1.0, normalize=False).fit(X)
    np.testing.assert_array_equal(plain.transform(X), book.transform(X))


def test_bad_input():
    X = np.ones((4, 2)) * np.arange(4.0)[:, None]
    for model in (None, mc.Gaussian, "gaussian", 3):
        with pytest.raises(TypeError, match=r"Fisher needs one model for all data, such as"):
            mc.Fisher(model).fit(X)
    with pytest.raises(ValueError, match=r"got shape \(2, 3\)\. Use p\[3:4\]"):
        mc.Fisher(mc.Poissons(np.ones((2, 3, 2)))).fit(X)
    with pytest.raises(TypeError, match=r"Fisher needs `fisher_scores`, which Scoreless does not have. Use a family"):
        mc.Fisher(Scoreless([[1.0, 1.0]])).fit(X)
    with pytest.raises(TypeError, match=r"compares data under one model, not models. Pass the data themselves"):
        mc.Fisher(chain()).fit(mc.Poissons(np.ones((3, 2))))
    for name, value in {"per": "point", "power": 0.0, "parametrization": "log"}.items():
        with pytest.raises(ValueError, match=f"{name} must be .*; got {value!r}"):
            mc.Fisher(mc.Gaussian(), **{name: value}).fit(X)
    with pytest.raises(TypeError, match=r"compares data under one model, not models. Pass the data themselves"):
        mc.Fisher(mc.Poisson()).fit(mc.Poissons(np.ones((3, 2))))
    with pytest.raises(ValueError, match=r"information must be 'auto'.*; got 'inverse'"):
        mc.Fisher(mc.Gaussian(), information="inverse").fit(X)
    for ridge in (-1.0, np.nan, "a", None):
        with pytest.raises(ValueError, match=r"ridge must be .*; got .* a fraction of the mean information"):
            mc.Fisher(mc.Gaussian(), ridge=ridge).fit(X)
    with pytest.raises(NotFittedError, match="information='empirical' is estimated from the training data"):
        mc.Fisher(mc.Poissons([[1.0, 1.0]]), information="empirical")(X)
    with pytest.raises(ValueError, match=r"The data have 3 coordinates, but the model of Fisher has 2"):
        mc.Fisher(mc.Gaussians([[0.0, 0.0]], [1.0]), information="identity")(np.ones((2, 3)))


# -- sequences ----------------------------------------------------------------------------------------------

INITIAL = np.array([0.7, 0.3])
TRANSITION = np.array([[0.85, 0.15], [0.4, 0.6]])
EMISSION = np.array([[0.6, 0.3, 0.1], [0.1, 0.3, 0.6]])


def chain(emission=None):
    emission = mc.Categoricals(EMISSION[None], alphabet="abc") if emission is None else emission
    return mc.HMMs(INITIAL[None], TRANSITION[None], emission)


def log_prob(initial, transition, emission, x):
    forward = initial * emission[:, x[0]]
    for symbol in x[1:]:
        forward = (forward @ transition) * emission[:, symbol]
    return np.log(forward.sum())


def slow_scores(x, h=1e-5):
    """Scores of a string under `chain` by differences in the logits."""
    parameters = np.log(np.concatenate([INITIAL, TRANSITION.ravel(), EMISSION.ravel()]))

    def value(z):
        a, b, e = (np.exp(part) for part in (z[:2], z[2:6].reshape(2, 2), z[6:].reshape(2, 3)))
        return log_prob(
            a / a.sum(), b / b.sum(1, keepdims=True), e / e.sum(1, keepdims=True), ["abc".index(s) for s in x]
        )

    return np.array([(value(parameters + s) - value(parameters - s)) / (2 * h) for s in h * np.eye(len(parameters))])


class TestHMM(KernelContract):
    """A given hidden Markov model of symbols."""

    features = True
    truth_tolerance = 1e-6

    def kernel(self):
        return mc.Fisher(chain())

    def data(self, seed, n):
        rng = np.random.default_rng(seed)
        return ["".join(rng.choice(list("abc"), rng.integers(1, 9))) for _ in range(n)]

    def other_data(self, seed, n):
        return None  # the model's alphabet is the only one

    def scores(self, X):
        return np.array([slow_scores(x) for x in X])

    def truth(self, X):
        g = self.scores(X)
        return g @ g.T


class TestSteps(TestHMM):
    """Means over time, whitened by the training data in the dual, with a power."""

    needs_fit = True

    def kernel(self):
        return mc.Fisher(chain(), information="empirical", per="step", power=0.5, ridge=0.01, normalize=False)

    def truth(self, X):
        g = self.scores(X) / np.array([len(x) for x in X])[:, None]
        moment = g.T @ g / len(g)
        values, vectors = np.linalg.eigh(moment + 0.01 * np.trace(moment) / len(moment) * np.eye(len(moment)))
        z = g @ (vectors / np.sqrt(values)) @ vectors.T  # fewer data than parameters: the symmetric root
        z = np.sign(z) * np.abs(z) ** 0.5
        return z @ z.T

    truth_tolerance = 1e-3  # a square root of differences that are nearly zero


class TestFittedHMM(TestHMM):
    """An estimator, fitted to the training data."""

    needs_fit = True
    degenerate = "zero norm"

    def kernel(self):
        return mc.Fisher(HMM(2, init=chain(), n_iter=5, tol=1.0), normalize=True)

    def truth(self, X):
        model = HMM(2, init=chain(), n_iter=5, tol=1.0).fit(X).model_
        g = hmm_scores(model, X)[0]
        return g @ g.T


class TestVectors(KernelContract):
    """A given hidden Markov model of vectors; the diagonal metric."""

    needs_fit = True
    features = True

    def kernel(self):
        emission = mc.Gaussians([[[0.0, 0.0], [2.0, 1.0]]], np.ones((1, 2, 2)))
        return mc.Fisher(chain(emission), information="diagonal", normalize=False)

    def data(self, seed, n):
        rng = np.random.default_rng(seed)
        return [rng.normal(size=(rng.integers(2, 9), 2)) for _ in range(n)]

    def other_data(self, seed, n):
        return None

    def nearly(self, epsilon):
        x = self.data(0, 1)[0]
        return [x, x + epsilon]

    def truth(self, X):
        g = hmm_scores(self.kernel().model, X)[0]
        moment = np.mean(g**2, axis=0)
        return g / (moment + 1e-3 * moment.mean()) @ g.T


def all_strings(length):
    return ["".join("abc"[s] for s in x) for x in strings(3, length)]


def test_exact_kernel_by_enumeration_is_the_same_in_both_parametrisations():
    """T-22, over all strings of four symbols."""
    X, mass = all_strings(4), string_weights(chain()[0], 4)
    kernels = []
    for parametrization in ("logit", "weight"):
        g = mc.Fisher(chain(), parametrization=parametrization, normalize=False).features(X)
        values, vectors = np.linalg.eigh((g * mass[:, None]).T @ g)
        keep = values > 1e-13 * values.max()  # FK-2: weakly identified parameters are genuine
        root = g @ (vectors[:, keep] / np.sqrt(values[keep]))
        kernels.append(root @ root.T)
    np.testing.assert_allclose(*kernels, atol=1e-4 * np.abs(kernels[0]).max())


# -- Fisher vectors -----------------------------------------------------------------------------------------


class TestMixture(KernelContract):
    """Sets of points under a given mixture."""

    features = True
    truth_tolerance = 1e-6

    def kernel(self):
        mixture = mc.Mixtures([[0.4, 0.6]], mc.Gaussians([[[0.0], [1.5]]], [[[1.0], [0.5]]]))
        return mc.Fisher(mixture, information="identity", per="step")

    def data(self, seed, n):
        rng = np.random.default_rng(seed)
        return [rng.normal(size=(rng.integers(1, 6), 1)) for _ in range(n)]

    def other_data(self, seed, n):
        return None

    def nearly(self, epsilon):
        return [np.array([[0.3], [1.0]]), np.array([[0.3 + epsilon], [1.0]])]

    def truth(self, X):
        def log_density(x, z):
            w = np.exp(z[:2]) / np.exp(z[:2]).sum()
            parts = [np.exp(gaussian_log_density(x, z[a:b])) for a, b in ((2, 4), (4, 6))]
            return np.log(w @ np.array(parts))

        z = np.array([np.log(0.4), np.log(0.6), 0.0, 0.0, 1.5, 0.5 * np.log(0.5)])
        g = np.array([scores_by_differences(x, z, log_density).mean(axis=0) for x in X])
        return g @ g.T


def test_weights_of_counts():
    """FK-7: counts over probabilities minus their total; compressed rows too."""
    p = np.array([0.5, 0.25, 0.25, 0.0])
    X = np.array([[1.0, 2.0, 0.0, 0.0], [0.0, 1.0, 1.0, 0.0], [3.0, 0.0, 0.0, 0.0]])
    k = mc.Fisher(mc.Multinomials(p[None]), parametrization="weight", normalize=False)
    expected = np.where(p > 0, X / np.where(p > 0, p, 1), 0.0) - X.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(k.features(X), expected)
    np.testing.assert_allclose(k.features(sparse.csr_array(X)), expected)
    with pytest.raises(ValueError, match="Point 1 counts outcome 3, which has probability zero"):
        k(np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]]))


# -- several models, posteriors, chains ---------------------------------------------------------------------


def test_several_models_stand_side_by_side():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8, 2))
    p = mc.Gaussians([[0.0, 0.0], [1.0, 1.0]], [1.0, 2.0])
    both = mc.Fisher(p, information="identity", normalize=False).features(X)
    np.testing.assert_array_equal(
        both, np.hstack([mc.Fisher(p[i : i + 1], information="identity", normalize=False).features(X) for i in (0, 1)])
    )
    assert mc.Fisher(p, "empirical").fit(X).transform(X).shape == (8, 8)


def two_classes(seed=0, n=12):
    rng = np.random.default_rng(seed)
    y = np.repeat(["slow", "quick"], n)
    out = []
    for c in y:
        x = [rng.integers(2)]
        for _ in range(rng.integers(8, 20)):
            x.append(x[-1] if rng.random() < (0.9 if c == "slow" else 0.3) else 1 - x[-1])
        out.append("".join("ab"[s] for s in x))
    return out, y


def test_one_model_per_class():
    X, y = two_classes()
    k = mc.Fisher(MarkovChain(order=1, prior=None, smoothing=1.0), by_class=True, normalize=False).fit(X, y)
    assert list(k.classes_) == ["quick", "slow"]
    assert k.model_.shape == (2,)
    for c, name in enumerate(k.classes_):
        own = [x for x, label in zip(X, y, strict=True) if label == name]
        alone = mc.Fisher(MarkovChain(order=1, prior=None, smoothing=1.0, alphabet="ab"), normalize=False).fit(own)
        np.testing.assert_allclose(k.features(X)[:, 4 * c : 4 * c + 4], alone.features(X), rtol=1e-10, atol=1e-12)
    with pytest.raises(ValueError, match=r"Fisher\(by_class=True\) requires y to be passed.* Call fit\(X, y\)"):
        clone(k).fit(X)
    with pytest.raises(ValueError, match="class 2: There is nothing to fit"):
        mc.Fisher(MarkovChain(order=1, prior=None), by_class=True).fit(["abab", "", "ab"], np.array([1, 2, 3]))
    with pytest.raises(ValueError, match=r"24 samples, and y of shape \(23,\)"):
        clone(k).fit(X, y[1:])
    with pytest.raises(TypeError, match=r"by_class=True .*model is a fitted batch.* by_class=False"):
        mc.Fisher(chain(), by_class=True).fit(X, y)


@pytest.mark.parametrize("parametrization", ["logit", "weight"])
@pytest.mark.parametrize("emission", [None, mc.Gaussians([[[0.0], [2.0]]], [[1.0, 0.5]])])
def test_posteriors_computed_elsewhere(emission, parametrization):
    rng = np.random.default_rng(0)
    X = ["abca", "b", "ccab"] if emission is None else [rng.normal(size=(n, 1)) for n in (4, 1, 5)]
    model = chain(emission)
    found = model.posterior(X)
    options = {"information": "identity", "parametrization": parametrization}
    expected = mc.Fisher(model, **options).fit(X)
    k = mc.Fisher.from_posteriors(model, X, found.states, found.transitions, **options)
    for given in (k, mc.Fisher(model, **options).fit(found)):
        np.testing.assert_allclose(given.fit_transform(found), expected.transform(X), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(k.features(found), expected.features(X), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(k.transform(X), expected.transform(X), rtol=1e-9, atol=1e-12)
    states = mc.Fisher.from_posteriors(model, X, found.states, **options, normalize=False)
    g = mc.Fisher(model, **options, normalize=False).features(X)
    g[:, 2:6] = 0
    np.testing.assert_allclose(
        states.features(Posterior(X if emission is not None else mc.Sequences(X, alphabet="abc"), found.states)),
        g,
        rtol=1e-9,
        atol=1e-12,
    )


@pytest.mark.parametrize("information", ["diagonal", "empirical"])
def test_metrics_of_posteriors(information):
    X, model, options = ["abca", "b", "ccab"], chain(), {"per": "step"}
    found = model.posterior(X)
    k = mc.Fisher.from_posteriors(model, X, found.states, found.transitions, information=information, **options)
    expected = mc.Fisher(model, information, **options).fit_transform(X)
    np.testing.assert_allclose(k.transform(found), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(k.transform(found[1:]), expected[1:], rtol=1e-9, atol=1e-12)


def test_posteriors_that_do_not_fit():
    X, model = mc.Sequences(["ab"], alphabet="abc"), chain()
    with pytest.raises(ValueError, match="The posteriors have 3 states"):
        mc.Fisher.from_posteriors(model, X, np.full((2, 3), 1 / 3))
    with pytest.raises(TypeError, match="must be the HMMs of shape"):
        mc.Fisher.from_posteriors(HMM(2), X, np.full((2, 2), 0.5))
    with pytest.raises(TypeError, match="Pass that model to Fisher"):
        mc.Fisher(HMM(2)).fit(Posterior(X, np.full((2, 2), 0.5)))


@pytest.mark.parametrize("information", ["identity", "diagonal", "empirical"])
def test_chains_of_high_order_stay_sparse(information):
    X = two_classes()[0]
    given = MarkovChain(order=3, alphabet="ab", smoothing=1.0).fit(X).model_
    k = mc.Fisher(given, information, per="step", power=0.5).fit(X)
    rows = k._prepare(k.train_)
    assert rows.sparse == (information in ("identity", "diagonal"))
    g = given.sequence_scores(X, sparse=False)[0] / np.array([len(x) for x in X])[:, None]
    if information in ("identity", "diagonal"):
        if information == "diagonal":
            moment = np.mean(g**2, axis=0)
            g = g / np.sqrt(moment + 1e-3 * moment.mean())
        z = np.sign(g) * np.sqrt(np.abs(g))
        np.testing.assert_allclose(k.transform(X), normalized(z @ z.T), rtol=1e-9, atol=1e-12)
    else:
        assert np.isfinite(k.transform(X)).all()


def test_dense_metrics_of_very_many_parameters_say_so(monkeypatch):
    from mercer.models import scores as _score_rows

    monkeypatch.setattr(_score_rows, "DENSE", 10)
    X = two_classes()[0]
    with pytest.raises(ValueError, match=r"information='empirical' needs a dense matrix of 24 x 16 scores"):
        mc.Fisher(MarkovChain(order=3), "empirical").fit(X)


@pytest.mark.parametrize("parametrization", ["logit", "weight"])
def test_what_was_not_observed_has_no_direction(parametrization):
    """Found as often as expected: the score is 0, not what rounding leaves, and the sequence is named."""
    rng = np.random.default_rng(3)
    first, steps = rng.dirichlet(np.ones(5), 1), rng.dirichlet(np.ones(5), (1, 5))
    symbols = mc.HMMs(first, steps, mc.Categoricals(rng.dirichlet(np.ones(4), (1, 5)), alphabet="dna"))
    vectors = mc.HMMs(first, steps, mc.Gaussians(rng.normal(size=(1, 5, 2)), np.ones((1, 5, 2))))
    for model, seen, lacking in (
        (symbols, "ACGTA", "N" * 40),
        (vectors, rng.normal(size=(9, 2)), np.full((40, 2), np.nan)),
    ):
        X = mc.Sequences([seen, lacking], ids=["p", "q"], alphabet=None if model is vectors else "dna")
        kernel = mc.Fisher(model, information="identity", parametrization=parametrization)
        np.testing.assert_array_equal(model.sequence_scores(X, parametrization)[0, 1], 0)
        with pytest.raises(
            ValueError, match=r"sequence 'q' has zero norm under Fisher \(all of its values are missing"
        ):
            kernel(X)
        np.testing.assert_array_equal(clone(kernel).set_params(on_zero="zero")(X), [[1, 0], [0, 0]])


def test_cures_of_impossible_sequences():
    first, steps = [[1.0]], [[[1.0]]]
    certain = mc.Categoricals([[[1.0, 0.0]]], alphabet="ab")
    mixed = mc.Mixtures([[[0.5, 0.5]]], mc.Categoricals([[[[1.0, 0.0], [1.0, 0.0]]]], alphabet="ab"))
    points = mc.Gaussians([[[0.0]]], [[[1e-300]]])
    for emission, X, cure in (
        (certain, ["ab"], "prior='pooled', or leave"),
        (mixed, ["ab"], "prior='pooled', or leave"),
        (mc.Poissons([[[0.0]]]), [[[1.0]]], "prior='pooled', or leave"),
        (points, [[[1e10]]], "prior='pooled', or a floor on its variances, or leave"),
    ):
        with pytest.raises(ValueError, match=f"sequence 0 has probability zero .*Fit the model with {cure}"):
            mc.Fisher(mc.HMMs(first, steps, emission), information="identity")(X)


def test_what_is_found_in_the_cache_is_the_same_and_says_the_same():
    X = [np.random.default_rng(i).normal(size=(15, 2)) for i in range(4)]
    for _ in range(2):
        with pytest.warns(ConvergenceWarning):
            kernel = mc.Fisher(mc.HMM(3, n_iter=2, tol=1e-9)).fit(X)
    with pytest.raises(ValueError, match="read-only"):
        kernel.context_.scale[:] = 9


def test_switches_and_advice():
    with pytest.raises(ValueError, match="by_class must be True or False; got 'x'"):
        mc.Fisher(mc.MarkovChain(1), by_class="x").fit(["abab", "abba"])
