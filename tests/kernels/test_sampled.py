"""Kernels estimated from samples: closed forms within standard errors, objects of the user's own, messages."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from tests.batches import gaussians, hmms, string_weights, strings

import mercer as mc
from mercer.testing import KernelContract


class Normal:
    """An object of the user's own, with the interface that the documentation asks for."""

    def __init__(self, mean, sd=1.0):
        self.mean, self.sd = mean, sd

    def log_prob(self, X):
        return stats.norm.logpdf(X, self.mean, self.sd).sum(axis=-1)

    def sample(self, size, random_state=None):
        return np.random.default_rng(random_state).normal(self.mean, self.sd, size=(size, 1))


class Simulator:
    """Something that can only be sampled."""

    def __init__(self, mean):
        self.mean = mean

    def sample(self, size, random_state=None):
        return np.random.default_rng(random_state).normal(self.mean, 1.0, size=(size, 1))


def free(seed, n, width):
    return 0.6 * np.random.default_rng(seed).standard_normal((n, width))


def deviations(K, exact, errors):
    """Return the deviations in standard errors; entries without an error must be exact."""
    assert np.all(np.isfinite(errors))
    np.testing.assert_allclose(K[errors < 1e-12], exact[errors < 1e-12], rtol=1e-9)
    return np.abs(K - exact) / np.where(errors < 1e-12, 1.0, errors)


CLOSED = {
    "gaussians": gaussians(free(0, 6, 5)),
    "diagonal": gaussians(free(0, 6, 5), "diagonal"),
    "poissons": mc.Poissons(np.exp(free(1, 6, 2) + 1)),
    "categoricals": mc.Categoricals(np.random.default_rng(2).dirichlet(np.ones(4), 6)),
    "objects": [Normal(m, s) for m, s in ((0.0, 1.0), (0.5, 1.5), (2.0, 0.7))],
}


def closed_form(name, **parameters):
    p = CLOSED[name]
    if isinstance(p, list):
        p = mc.Gaussians([[q.mean] for q in p], [q.sd**2 for q in p])
    return mc.ProbabilityProduct(**parameters)(p)


def test_kernels_made_of_samples_remember_their_training_distributions():
    p = gaussians(free(0, 6, 5))
    kernel = 2.0 * mc.Sampled(n_samples=50)
    with mc.config(memo_bytes=0):
        expected = clone(kernel).fit_transform(p[:2])
    clone(kernel).fit(p).transform(p)
    np.testing.assert_array_equal(clone(kernel).fit_transform(p[:2]), expected)


# -- T-28: closed forms within 5 standard errors ---------------------------------------------------------------


@pytest.mark.parametrize("name", CLOSED)
@pytest.mark.parametrize("rho", [0.5, 1.0, 1.5])
@pytest.mark.parametrize("normalize", [True, False])
def test_probability_product(name, rho, normalize):
    p = CLOSED[name]
    k = mc.Sampled(rho=rho, n_samples=2000, normalize=normalize)
    K = k.fit_transform(p)
    exact = closed_form(name, rho=rho, normalize=normalize)
    assert deviations(K, exact, k.standard_errors(p)).max() < 5


def test_any_power_of_the_marginal_of_hmms():
    models, length = hmms(free(4, 4, 12)), 3
    marginal = np.array([string_weights(models[i], length) for i in range(4)])
    assert len(strings(3, length)) == marginal.shape[1]
    for rho in (0.5, 0.7, 2.0):
        k = mc.Sampled(rho=rho, length=length, n_samples=3000, normalize=False)
        exact = (marginal**rho) @ (marginal**rho).T
        assert deviations(k.fit_transform(models), exact, k.standard_errors(models)).max() < 5


def test_errors_shrink_and_are_honest():
    p = CLOSED["gaussians"]
    exact, found, errors = closed_form("gaussians"), [], []
    for seed in range(40):
        k = mc.Sampled(n_samples=600, random_state=seed)
        found.append(k.fit_transform(p))
        errors.append(k.standard_errors(p))
    spread = np.std(found, axis=0)
    upper = np.triu_indices(6, 1)
    ratio = np.mean(errors, axis=0)[upper] / spread[upper]
    assert ratio.min() > 0.7  # strata make the true error smaller than the estimate, never larger
    assert np.abs(np.mean(found, axis=0) - exact)[upper].max() < 5 * (spread[upper] / np.sqrt(40)).max() + 2e-3
    many = mc.Sampled(n_samples=60_000).fit(p).standard_errors(p)
    np.testing.assert_allclose(many[upper], np.mean(errors, axis=0)[upper] / 10, rtol=0.3)


# -- positive semi-definite or not -------------------------------------------------------------------------------


# -- the samples -------------------------------------------------------------------------------------------------


def test_rows_of_new_objects():
    X = CLOSED["objects"]
    k = mc.Sampled(n_samples=400).fit(X)
    np.testing.assert_allclose(k.transform(X[2:5]), k(X)[2:5], rtol=1e-9)


def test_the_same_seed_gives_the_same_samples():
    for X in (CLOSED["gaussians"], CLOSED["objects"]):
        a, b, c = (mc.Sampled(n_samples=50, random_state=s).fit_transform(X) for s in (3, 3, 4))
        assert np.array_equal(a, b)
        assert not np.array_equal(a, c)


def test_samples_are_drawn_in_fit_from_the_training_models():
    p = CLOSED["gaussians"]
    k = mc.Sampled(n_samples=100).fit(p[:3])
    before = k.samples_.copy()
    assert k.samples_.shape == (100, 2)
    k.transform(p[3:])
    assert np.array_equal(k.samples_, before)
    g = np.log(np.mean(np.exp(p[:3].log_prob(before)), axis=0))
    np.testing.assert_allclose(k.log_proposal_, g, rtol=1e-12)


def test_fewer_samples_than_models():
    p = gaussians(free(7, 30, 5))
    k = mc.Sampled(n_samples=7, on_zero="zero")
    assert k.fit(p).samples_.shape == (7, 2)
    assert np.isfinite(k(p)).all()


def test_logarithms_of_long_sequences():
    models = hmms(free(8, 3, 12))
    k = mc.Sampled(rho=1.0, length=2000, n_samples=30, normalize=False).fit(models)
    logs = k.log(models)
    assert np.isfinite(logs).all()
    assert logs.max() < -1000


# -- scikit-learn, objects, models ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_models_by_an_estimator():
    X, y = mc.datasets.make_point_sets(16, random_state=0)
    k = mc.Sampled(mc.Gaussian(prior="pooled"), n_samples=500)
    assert cross_val_score(make_pipeline(k, SVC(kernel="precomputed")), X, y, cv=2).mean() > 0.8
    np.testing.assert_allclose(k.fit_transform(X), mc.ProbabilityProduct(mc.Gaussian(prior="pooled"))(X), atol=0.25)
    series = [np.random.default_rng(i).normal(i % 2, 1.0, size=(15 + i, 1)) for i in range(4)]
    K = mc.Sampled(mc.HMM(n_states=2, n_iter=30, tol=0.1), rho=0.7, length=3, n_samples=300).fit_transform(series)
    assert K.shape == (4, 4)
    assert np.isfinite(K).all()


def test_a_list_of_members_is_a_batch():
    p = CLOSED["gaussians"]
    assert np.array_equal(mc.Sampled().fit_transform(list(p)), mc.Sampled().fit_transform(p))


@pytest.mark.parametrize(
    "p",
    [
        mc.MarkovChains([[0.5, 0.5], [0.9, 0.1]], [[[0.9, 0.1], [0.1, 0.9]]] * 2, alphabet="ab"),
        pytest.param(
            mc.LDSs([[[0.9]], [[0.1]]], [[[1.0]]] * 2, [[[1.0]]] * 2, [[[0.5]]] * 2, [[0.0]] * 2, [[[1.0]]] * 2),
            marks=pytest.mark.slow,
        ),
        mc.models.KDEs([np.zeros((3, 2)), np.ones((2, 2))], [0.5, 0.5]),
        mc.Multinomials([[0.5, 0.5], [0.9, 0.1]], trials=4),
    ],
    ids=lambda p: type(p).__name__,
)
def test_batches_of_many_kinds(p):
    K = mc.Sampled(n_samples=300, length=4).fit_transform(p)
    assert 0 < K[0, 1] < 1


@pytest.mark.torch
def test_torch_distributions():
    torch = pytest.importorskip("torch")
    means = torch.tensor([0.0, 1.0, 2.0], dtype=torch.float64)
    X = [torch.distributions.Independent(torch.distributions.Normal(m.reshape(1), 1.0), 1) for m in means]
    exact = mc.ProbabilityProduct()(mc.Gaussians(means.numpy()[:, None], np.ones(3)))
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    k = mc.Sampled(n_samples=1000)
    K = k.fit_transform(X)
    assert isinstance(K, np.ndarray)
    assert deviations(K, exact, k.standard_errors(X)).max() < 5
    assert np.array_equal(k.fit_transform(X), K)
    assert torch.equal(torch.rand(3), expected)  # the caller's generator is left alone
    with pytest.raises(ValueError, match=r"one number per point.*Independent"):
        mc.Sampled(n_samples=10).fit([torch.distributions.Normal(torch.zeros(2), 1.0)])


# -- messages ------------------------------------------------------------------------------------------------------


def changed(**methods):
    return type("Changed", (Normal,), methods)(0.0)


@pytest.mark.parametrize(
    ("X", "error", "match"),
    [
        ([Simulator(0.0)], TypeError, r"object 0 .* no method log_prob"),
        ([Normal(0.0), 3], TypeError, r"object 1 .* no method log_prob"),
        ([changed(log_prob=lambda self, X: np.full(len(X), np.nan))], ValueError, r"log density nan .* finite"),
        ([changed(log_prob=lambda self, X: np.full(len(X), np.inf))], ValueError, r"log density inf .* finite"),
        ([changed(log_prob=lambda self, X: np.full(len(X), -np.inf))], ValueError, "same distribution"),
        ([changed(log_prob=lambda self, X: np.zeros((len(X), 1)))], ValueError, "one number per point"),
        ([changed(sample=lambda self, size: np.zeros((size + 1, 1)))], ValueError, "must return 10 points"),
        ([changed(sample=lambda self, size: np.full((size, 1), np.nan))], ValueError, "not finite"),
        (mc.Gaussians([[0.0], [1.0]], [0.0, 1.0]), ValueError, "singular|point mass"),
        (np.zeros((3, 2)), TypeError, "has no model"),
        (["ab", "ba"], TypeError, "has no model"),
        (
            mc.MarkovChains([[0.5, 0.25, 0.25]], [[[0.5, 0.2, 0.3]] * 2], alphabet="ab", end=True),
            ValueError,
            "end=False",
        ),
    ],
)
def test_messages(X, error, match):
    with pytest.raises(error, match=match):
        mc.Sampled(n_samples=10).fit_transform(X)


@pytest.mark.parametrize(
    "parameters",
    [
        {"n_samples": 0},
        {"rho": 0},
        {"length": None},
    ],
)
def test_parameters(parameters):
    with pytest.raises(ValueError, match=next(iter(parameters))):
        mc.Sampled(**parameters).fit(CLOSED["gaussians"])


def test_other_messages():
    p = CLOSED["gaussians"]
    with pytest.raises(TypeError, match="lists on both sides"):
        mc.Sampled().fit(p).transform([Normal(0.0), Simulator(0.0)][:1])
    with pytest.raises(ValueError, match="2 or more"):
        mc.Sampled(n_samples=1, on_zero="zero").fit(p).standard_errors(p)
    wide = changed(sample=lambda self, size: np.zeros((size, 2)))
    with pytest.raises(ValueError, match="different shapes"):
        mc.Sampled(n_samples=10).fit([Normal(0.0), wide])


# -- the batteries of all kernels ----------------------------------------------------------------------------------


class SampledContract(KernelContract):
    def data(self, seed, n):
        return gaussians(free(seed, n, 5))

    def other_data(self, seed, n):
        return mc.Poissons(np.exp(free(seed, n, 3)))


class TestCommon(SampledContract):
    needs_fit = True
    features = True
    truth_tolerance = 0.2

    def kernel(self):
        return mc.Sampled(n_samples=504)  # the same number from each of 8 objects, in any order

    def models(self):  # what is drawn depends on the bytes of the samples
        return {kind: given for kind, given in super().models().items() if kind != "sparse counts"}

    def truth(self, X):
        return mc.ProbabilityProduct(normalize=False)(X)


@pytest.mark.parametrize("size", [200, 203, 7])
def test_the_order_of_the_training_data_does_not_matter(size):
    batch = gaussians(np.random.default_rng(3).normal(size=(10, 5)))
    order = np.random.default_rng(0).permutation(10)
    kernels = [mc.Sampled(rho=0.5, n_samples=size).fit(x) for x in (batch, batch[order])]
    one, other = (kernel.transform(batch) for kernel in kernels)
    np.testing.assert_allclose(other[:, np.argsort(order)], one, rtol=1e-9, atol=1e-12)
