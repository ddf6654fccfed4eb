"""estimate="predictive" (PPK-2a): laws of the next observation, against integrals over the posterior."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import integrate, sparse, special, stats

import mercer as mc
from mercer.families.negative_binomial import NegativeBinomials

COUNTS = np.array([[3.0, 0.0, 2.0], [0.0, 0.0, 7.0], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]])
SETS = [np.random.default_rng(i).normal(i, [1.0, 3.0], size=(n, 2)) for i, n in enumerate((5, 2, 9, 3))]


def estimators(**parameters):
    return [
        (mc.Multinomial(trials=4, **parameters), COUNTS),
        (mc.Poisson(**parameters), COUNTS),
        (mc.Gaussian("full", **parameters), SETS),
        (mc.Gaussian("diagonal", **parameters), SETS),
        (mc.Gaussian("isotropic", **parameters), SETS),
        (mc.Categorical(alphabet="abc", **parameters), ["abca", "", "bb", "c"]),
    ]


def predictive(**parameters):
    return estimators(estimate="predictive", **({"prior": "pooled", "prior_strength": 2.5} | parameters))


# -- the laws ----------------------------------------------------------------------------------------------------


@settings(max_examples=20, deadline=None)
@given(counts=st.tuples(st.integers(0, 6), st.integers(0, 6)), rate=st.floats(0.05, 0.95), s=st.floats(0.3, 9))
def test_multinomial_is_an_integral_over_the_posterior(counts, rate, s):
    prior = mc.Multinomials([[rate, 1 - rate]], trials=3)
    p = mc.Multinomial(trials=3, prior=prior, prior_strength=s, estimate="predictive").fit_each([counts])
    a, b = s * rate + counts[0], s * (1 - rate) + counts[1]
    t, weights = special.roots_jacobi(8, b - 1, a - 1)  # Gauss, for the beta law of the frequency (1 + t) / 2
    for x in range(4):
        truth = stats.binom.pmf(x, 3, (1 + t) / 2) @ weights / weights.sum()
        assert_allclose(np.exp(p.log_prob([[x, 3 - x]])[0, 0]), truth, rtol=1e-9)


@settings(max_examples=20, deadline=None)
@given(counts=st.lists(st.integers(0, 9), max_size=4), rate=st.floats(0.1, 8.0), s=st.floats(0.5, 9))
def test_poisson_is_an_integral_over_the_posterior(counts, rate, s):
    points = np.array(counts, dtype=float).reshape(-1, 1)
    p = mc.Poisson(prior=mc.Poissons([[rate]]), prior_strength=s, estimate="predictive").fit_each([points])
    assert isinstance(p, NegativeBinomials)
    shape, scale = s * rate + points.sum(), s + len(points)
    assert_allclose(p.mean, shape / scale, rtol=1e-12)
    t, weights = special.roots_genlaguerre(100, shape - 1)  # Gauss, for the gamma law of the rate t / scale
    for k in (0, 2, 5):
        truth = stats.poisson.pmf(k, t / scale) @ weights / weights.sum()
        assert_allclose(np.exp(p.log_prob([[k]])[0, 0]), truth, rtol=1e-6, atol=1e-10)


def test_gaussian_is_an_integral_over_the_posterior():
    sets = [np.array([[0.0], [2.0], [1.0]]), np.array([[5.0], [6.0]]), np.zeros((0, 1))]
    p = mc.Gaussian("diagonal", floor=0.0, prior="pooled", prior_strength=1.5, estimate="predictive").fit_each(sets)
    within = (2.0 + 0.5) / 3  # squares about the means, by degrees of freedom
    middle = 14 / 5
    for i, points in enumerate(sets):
        for x in (-1.0, 3.0):

            def joint(m, points=points):
                return np.exp(stats.norm.logpdf(points, m, within**0.5).sum()) * stats.norm.pdf(
                    m, middle, (within / 1.5) ** 0.5
                )

            evidence = integrate.quad(joint, -15, 20, points=[1.0, 3.0, 5.0])[0]
            density = integrate.quad(
                lambda m, x=x: joint(m) * stats.norm.pdf(x, m, within**0.5), -15, 20, points=[1.0, 3.0, 5.0]
            )[0]
            assert_allclose(np.exp(p.log_prob([[x]])[i, 0]), density / evidence, rtol=1e-6)


@pytest.mark.parametrize("structure", ["full", "diagonal", "isotropic"])
def test_gaussian_moments(structure):
    s = 2.5
    estimator = mc.Gaussian(structure, floor=1e-2, prior="pooled", prior_strength=s, estimate="predictive").fit(SETS)
    p = estimator.fit_each([*SETS, np.zeros((0, 2))])
    n = np.array([len(points) for points in SETS] + [0])
    middle = np.concatenate(SETS).mean(axis=0)
    means = np.array([points.mean(axis=0) for points in SETS] + [[0.0, 0.0]])
    assert_allclose(p.mean, (s * middle + n[:, None] * means) / (s + n)[:, None], rtol=1e-12)
    rest = np.concatenate([points - points.mean(axis=0) for points in SETS])
    within = rest.T @ rest / (len(rest) - len(SETS)) + estimator.context_.floor * np.eye(2)
    within = {"full": within, "diagonal": np.diag(within), "isotropic": np.diag(within).mean()}[structure]
    assert_allclose(p.covariance, [within * (1 + 1 / (s + m)) for m in n], rtol=1e-12)


def test_gaussian_with_missing_coordinates_and_a_given_prior():
    sets = [np.array([[1.0, np.nan], [3.0, 4.0]]), np.array([[np.nan, 8.0], [np.nan, 10.0]])]
    prior = mc.Gaussians([[0.0, 1.0]], [[1.0, 1.0]])
    p = mc.Gaussian("diagonal", floor=0.0, prior=prior, prior_strength=1.0, estimate="predictive").fit_each(sets)
    assert_allclose(p.mean, [[4 / 3, 5 / 2], [0.0, 19 / 3]])
    assert_allclose(p.covariance, np.array([2.0, 2.0]) * (1 + 1 / np.array([[3.0, 2.0], [1.0, 3.0]])))


def test_poisson_with_missing_coordinates():
    X = np.array([[3.0, np.nan], [1.0, 2.0]])
    p = mc.Poisson(prior="pooled", prior_strength=1.0, estimate="predictive").fit_each(X)
    assert_allclose(p.count, [[5.0, 2.0], [3.0, 4.0]])
    assert_allclose(p.probability, [[2 / 3, 1 / 2], [2 / 3, 2 / 3]])


def test_categorical_is_the_point_estimate():
    X = ["abca", "bbb", ""]
    point, law = (
        mc.Categorical(alphabet="abc", prior="pooled", prior_strength=2.0, estimate=e).fit_each(X)
        for e in ("point", "predictive")
    )
    assert law.digests() == point.digests()


# -- kernels -----------------------------------------------------------------------------------------------------


def test_kernel_of_multinomials_is_a_sum_over_counts():
    model = mc.Multinomial(trials=2, prior="pooled", prior_strength=2.0, estimate="predictive")
    x = np.array([[2, 0, 0], [0, 2, 0], [0, 0, 2], [1, 1, 0], [1, 0, 1], [0, 1, 1]])
    chances = np.exp(model.fit_each(COUNTS).log_prob(x))
    gram = mc.ProbabilityProduct(model, rho=0.7, normalize=False)(COUNTS)
    assert_allclose(gram, chances**0.7 @ (chances**0.7).T, rtol=1e-12)


def test_many_points_are_a_gaussian_about_their_mean():
    rng = np.random.default_rng(0)
    sets = [rng.normal(m, 1.0, size=(2000, 1)) for m in (0.0, 1.0)]
    p = mc.Gaussian(floor=0.0, prior="pooled", estimate="predictive").fit_each(sets)
    q = mc.Gaussian(floor=0.0).fit_each(sets)
    assert_allclose(p.log_product(p), q.log_product(q), atol=2e-3)


def test_sparse_counts_equal_dense_counts():
    model = mc.Multinomial(trials=3, prior="pooled", estimate="predictive").fit(COUNTS)
    rows = sparse.csr_array(COUNTS)
    assert model.fit_each(rows).digests() == model.fit_each(COUNTS).digests()
    assert_allclose(model.score_samples(rows), model.score_samples(COUNTS))


def test_vocabulary_of_the_prior():
    prior = mc.Multinomials([[0.5, 0.25, 0.25]], trials=2, alphabet=["a", "b", "c"])
    assert mc.Multinomial(trials=2, prior=prior, estimate="predictive").fit_each(COUNTS).alphabet == prior.alphabet


# -- messages ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"estimate": "mean"}, r"estimate must be .*; got 'mean'"),
        ({"estimate": None}, r"estimate must be .*; got None"),
        ({"prior": None}, "got prior=None. Use prior='pooled' or a batch"),
        ({"prior_strength": 0}, r"prior_strength must be .*; got 0\. .*positive number"),
    ],
)
def test_messages(parameters, message):
    for model, X in predictive(**parameters) if "estimate" not in parameters else estimators(**parameters):
        for method in (model.fit, model.fit_each, mc.ProbabilityProduct(model)):
            with pytest.raises(ValueError, match=message):
                method(X)


def test_components_are_point_estimates():
    message = r"\(estimate='predictive'\) is the distribution of a whole sample, .* estimate='point'"
    words, rows = np.ones((6, 3)) + np.eye(6, 3), [np.arange(8.0).reshape(4, 2)] * 3
    with pytest.raises(ValueError, match=message):
        mc.Mixture(mc.Multinomial(prior="pooled", estimate="predictive"), n_components=2).fit(words)
    for emission in (mc.Gaussian("diagonal", prior="pooled", estimate="predictive"),
                     mc.Poisson(prior="pooled", estimate="predictive")):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            mc.Mixture(emission, n_components=2).fit(rows)
        with pytest.raises(ValueError, match=message):
            mc.HMM(2, emission=emission).fit(rows)


def test_gaussians_that_do_not_vary():
    with pytest.raises(ValueError, match="do not vary enough about the means of their samples"):
        mc.Gaussian(floor=0.0, prior="pooled", estimate="predictive").fit_each([[[1.0, 2.0], [3.0, 4.0]]])
    p = mc.Gaussian("isotropic", prior="pooled", estimate="predictive").fit_each([[[1.0, 2.0], [3.0, 4.0]]])
    assert np.all(p.covariance > 0)
    with pytest.raises(ValueError, match=r"no sample has several points that could vary .* Use estimate='point'"):
        mc.Gaussian("isotropic", prior="pooled", estimate="predictive").fit_each([[1.0, 2.0], [3.0, 4.0]])
    sets = [[[1.0, np.nan], [2.0, np.nan]], [[1.0, 3.0], [2.0, np.nan]]]
    with pytest.raises(ValueError, match="several points in coordinate 1"):
        mc.Gaussian("diagonal", prior="pooled", estimate="predictive").fit_each(sets)


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_data_too_large_for_squares(covariance):
    for estimate in ("point", "predictive"):
        with pytest.raises(ValueError, match=r"squares of the data overflow. Divide the data"):
            mc.Gaussian(covariance, prior="pooled", estimate=estimate).fit_each([[[1e300, 2.0], [2.0, 5e300]]])


@pytest.mark.parametrize("estimator", [mc.Poisson, mc.Gaussian, mc.Multinomial, mc.families.CountVector])
def test_strengths_too_small_for_digits(estimator):
    with pytest.raises(ValueError, match=r"prior_strength must be .* at least 1e-100; got 1e-310"):
        estimator(prior="pooled", prior_strength=1e-310).fit_each([[1.0, 2.0], [3.0, 4.0]])


def test_a_column_that_nobody_saw():
    with pytest.raises(ValueError, match=r"Column 1 is missing .* in every sample.* Leave the column out"):
        mc.Poisson(prior="pooled").fit_each([[1.0, np.nan], [2.0, np.nan]])


PREDICTIVE = [
    mc.families.DirichletMultinomials([[1.0, 2.0], [3.0, 1.0]], trials=2),
    mc.families.NegativeBinomials([[1.0], [2.0]], [[0.5], [0.5]]),
]


@pytest.mark.parametrize("batch", PREDICTIVE, ids=lambda batch: type(batch).__name__)
@pytest.mark.parametrize(
    "kernel",
    [
        mc.MeanMap(),
        mc.MeanMap(base="counts"),
        mc.MeanMap(n_components=10),
        mc.JensenShannon(),
        mc.Heat(),
        mc.SymmetricKL(),
    ],
    ids=str,
)
def test_kernels_without_predictive_laws_name_the_other_estimate(kernel, batch):
    with pytest.raises((TypeError, ValueError), match="estimate='point'"):
        kernel(batch)


def test_fisher_names_the_other_estimate():
    with pytest.raises(TypeError, match=r"Fisher needs `fisher_scores`.* or estimate='point'"):
        mc.Fisher(mc.Poisson(prior="pooled", estimate="predictive")).fit([[1.0], [2.0]])


def test_one_draw_is_a_categorical_law_under_both_base_kernels():
    X, law = [[2, 2, 0], [0, 1, 3]], mc.Multinomial(prior="pooled", estimate="predictive")
    np.testing.assert_array_equal(mc.MeanMap(law, base="counts")(X), mc.MeanMap(law)(X))
    point = mc.Multinomial(prior="pooled")
    np.testing.assert_allclose(mc.MeanMap(law, base="counts")(X), mc.MeanMap(point, base="counts")(X), rtol=1e-12)


def test_a_context_of_another_estimate():
    point = mc.Gaussian("diagonal", prior="pooled").fit(SETS)
    with pytest.raises(ValueError, match=r"learned with another covariance or estimate. Call fit again"):
        point.set_params(estimate="predictive").fit_each(SETS)
    law = mc.Gaussian("diagonal", prior="pooled", estimate="predictive").fit(SETS)
    assert law.set_params(estimate="point").fit_each(SETS).shape == (4,)


def test_counts_that_no_sum_holds():
    with pytest.raises(ValueError, match=r"overflow. Divide the counts"):
        mc.Multinomial(prior="pooled", estimate="predictive").fit_each([[1.5e308, 1.5e308], [1.0, 1.0]])
