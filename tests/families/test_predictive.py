"""What posteriors predict: averages over the members, against draws and formulas."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import special, stats
from sklearn.base import clone
from tests.families.table import KNOWN, ROWS

import mercer as mc
from mercer import families as f


def points(p, size=4):
    return p.reshape(-1)[0].sample(size, random_state=1)


CONJUGATE = {
    "Poisson": (lambda n, nu, rng, size: f.Poissons(rng.gamma(nu, size=(size, 1)) / n), f.Poissons([[1.7]])),
    "Exponential": (
        lambda n, nu, rng, size: f.Exponentials(nu / rng.gamma(n + 1, size=(size, 1))),
        f.Exponentials([[1.7]]),
    ),
    "Multinomial": (
        lambda n, nu, rng, size: f.Multinomials(rng.dirichlet(nu, size=size), trials=2),
        f.Multinomials([[0.2, 0.3, 0.5]], trials=2),
    ),
    "GaussianMean": (
        lambda n, nu, rng, size: f.GaussianMeans(rng.multivariate_normal(nu / n, KNOWN / n, size=size), KNOWN),
        f.GaussianMeans([[0.3, -1.0]], KNOWN),
    ),
}


@pytest.mark.parametrize("name", CONJUGATE)
def test_predictions_average_over_the_posterior(name):
    draw, p = CONJUGATE[name]
    n, rng = 4.0, np.random.default_rng(0)
    mu = p.mean_parameters[0]
    x = points(p, 6)
    members = np.exp(draw(n, n * mu, rng, 100_000).log_prob(x))
    found = np.exp(p.predictive(np.array([[n]])).log_prob(x))[0]
    assert np.all(np.abs(members.mean(axis=0) - found) <= 5 * members.std(axis=0) / np.sqrt(100_000) + 1e-12)


def test_gaussians_predict_t_distributions():
    """Against draws of the posterior: normal, and inverse Wishart with n + d + 2 degrees of freedom."""
    p, n, d = mc.Gaussians([[0.5, -1.0]], KNOWN[None]), 5.0, 2
    t = p.predictive(np.array([[n]]))
    x = np.array([[0.0, 0.0], [1.0, -2.0], [5.0, 3.0]])
    s = stats.invwishart(df=n + d + 2, scale=n * KNOWN).rvs(40_000, random_state=0)
    m = p.mean[0] + (np.linalg.cholesky(s / n) @ np.random.default_rng(0).normal(size=(40_000, d, 1)))[..., 0]
    members = np.exp(mc.Gaussians(m, s).log_prob(x))
    assert np.all(np.abs(members.mean(axis=0) - np.exp(t.log_prob(x))[0]) <= 5 * members.std(axis=0) / 200)


def test_isotropic_gaussians_predict_t_distributions():
    """The density of natural parameters is flat, so that the variance has an inverse gamma posterior."""
    p, n, d, variance = mc.Gaussians([[0.5, -1.0]], [0.7]), 5.0, 2, 0.7
    t = p.predictive(np.array([[n]]))
    x = np.array([[0.0, 0.0], [1.0, -2.0], [5.0, 3.0]])
    v = stats.invgamma((n + 1) * d / 2 + 1, scale=n * d * variance / 2).rvs(40_000, random_state=0)
    m = p.mean[0] + np.sqrt(v / n)[:, None] * np.random.default_rng(0).normal(size=(40_000, d))
    members = np.exp(mc.Gaussians(m, v).log_prob(x))
    assert np.all(np.abs(members.mean(axis=0) - np.exp(t.log_prob(x))[0]) <= 5 * members.std(axis=0) / 200)


@pytest.mark.slow
def test_the_gaussian_estimator_predicts():
    rng = np.random.default_rng(0)
    sets = [rng.normal(i, 1.0, size=(5 + i, 2)) for i in range(3)]
    point = mc.Gaussian(prior="pooled", prior_strength=2.0).fit(sets)
    t = mc.Gaussian(prior="pooled", prior_strength=2.0, estimate="predictive").fit(sets).fit_each(sets)
    p = point.fit_each(sets)
    assert_allclose(t.location, p.mean)
    assert_allclose(t.degrees, 3 + 2 + np.array([5, 6, 7]))
    assert_allclose(t.scale * (t.degrees / (t.degrees - 2))[:, None, None], p.covariance)  # wider tails, as wide a law
    K = mc.Sampled(mc.Gaussian(prior="pooled", estimate="predictive"), n_samples=500).fit(sets)(sets)
    assert_allclose(np.diagonal(K), 1)
    with pytest.raises(ValueError, match="full' or 'isotropic"):
        mc.Gaussian("diagonal", prior="pooled", estimate="predictive").fit_each(sets)
    with pytest.raises(ValueError, match=r"without missing coordinates \(NaN\)"):
        mc.Gaussian(prior="pooled", estimate="predictive").fit_each([np.array([[1.0, np.nan], [2.0, 3.0]]), *sets])
    for model in (
        mc.Mixture(mc.Gaussian(prior="pooled", estimate="predictive"), n_components=1),
        mc.HMM(2, mc.Gaussian(prior="pooled", estimate="predictive")),
    ):
        with pytest.raises(ValueError, match="point estimates"):
            model.fit(sets)
    with pytest.raises(TypeError, match="ProbabilityProduct needs `log_product`, which StudentTs does not have"):
        mc.ProbabilityProduct()(t)


@pytest.mark.parametrize(("estimator", "data"), [
    (mc.Poisson(), [[3, 0], [1, 2]]), (mc.families.Exponential(), [[3.0, 0.5], [1.0, 2.0]]),
    (mc.Multinomial(trials=2), [[3, 0], [1, 2]]), (mc.Categorical("ab"), ["abba", "aab"]),
])  # fmt: skip
def test_predictions_have_the_moments_of_the_map_estimate(estimator, data):
    point = clone(estimator).set_params(prior="pooled", prior_strength=3.0)
    predicted = clone(point).set_params(estimate="predictive").fit_each(data)
    drawn = predicted.sample(40_000, random_state=0)
    if drawn.ndim == 2:
        drawn = np.eye(2)[drawn.astype(int)]
    mean = point.fit_each(data).mean_parameters
    assert np.all(np.abs(drawn.mean(axis=1) - mean) <= 5 * drawn.std(axis=1) / 200 + 1e-12)


@pytest.mark.parametrize("name", ["StudentT", "Lomax", "DirichletMultinomial"])
def test_densities_and_draws_are_enough_for_sampled(name):
    p = ROWS[name].members(np.random.default_rng(0), (4,))
    K = mc.Sampled(rho=0.5, n_samples=2000).fit(p)(p)
    assert_allclose(np.diagonal(K), 1)
    assert np.linalg.eigvalsh(K)[0] > -1e-12
    if hasattr(p, "log_product"):
        assert_allclose(K, np.exp(p.log_product(p, 0.5)), atol=0.1)


def test_predictive_from_prior_and_counts():
    prior = f.Poissons([[2.0, 0.5]])
    p = f.predictive(prior, 3.0, np.array([[4.0, 1.0], [0.0, 0.0]]), np.array([2, 0]))
    assert_allclose(p.rate, [[(6 + 4) / 5, (1.5 + 1) / 5], [2.0, 0.5]])
    assert_allclose(p.size, [[10, 2.5], [6.0, 1.5]])
    counts = np.array([[4.0, 1.0], [0.0, 2.0], [1.0, 1.0]])
    fitted = f.Poisson(prior=prior, prior_strength=3.0, estimate="predictive").fit_each(counts)
    assert_allclose(fitted.rate, (3 * prior.rate + counts) / 4)
    assert_allclose(fitted.size, 3 * prior.rate + counts)
    K = mc.ProbabilityProduct(f.Poisson(prior="pooled", estimate="predictive"), rho=1.0)(counts)
    assert_allclose(np.diagonal(K), 1)
    docs = f.Multinomial(trials=3, prior="pooled", prior_strength=2.0, estimate="predictive")
    docs = docs.fit_each([[3, 0, 1], [0, 5, 0]])
    assert isinstance(docs, f.DirichletMultinomials)
    assert_allclose(docs.concentration.sum(axis=1), [6.0, 7.0])
    with pytest.raises(ValueError, match="needs a prior"):
        f.Poisson(estimate="predictive").fit(counts)
    with pytest.raises(ValueError, match="point estimates"):
        mc.Mixture(f.Poisson(prior="pooled", estimate="predictive"), n_components=2).fit(counts)


@pytest.mark.parametrize("trials", [7, pytest.param(60, marks=pytest.mark.slow)])
@pytest.mark.parametrize("rho", [0.3, 1.0, 2.0])
def test_products_of_dirichlet_multinomials(trials, rho):
    """All vectors of counts of two outcomes, of concentrations far apart."""
    p = f.DirichletMultinomials([[0.01, 3.0], [5.0, 0.2], [1e4, 1e4], [1e-3, 1e5]], trials=trials)
    x = np.stack([np.arange(trials + 1.0), trials - np.arange(trials + 1.0)], axis=1)
    each = rho * p.log_prob(x)
    truth = special.logsumexp(each[:, None] + each, axis=-1)
    assert_allclose(p.log_product(p, rho), truth, rtol=1e-9, atol=1e-9)


def test_products_of_negative_binomials_of_any_size():
    """At rho = 1 the sum over counts is a hypergeometric function (PPK-2a)."""
    mpmath = pytest.importorskip("mpmath")
    p = f.NegativeBinomials([[0.7], [3.0]], [[2.5], [0.5]])
    found = p.log_product(p, 1.0)
    for i, j in np.ndindex(2, 2):
        r, s = p.size[i, 0], p.size[j, 0]
        a, b = r / (r + p.rate[i, 0]), s / (s + p.rate[j, 0])
        truth = r * np.log(a) + s * np.log(b) + np.log(float(mpmath.hyp2f1(r, s, 1, (1 - a) * (1 - b))))
        assert_allclose(found[i, j], truth, rtol=1e-12)
