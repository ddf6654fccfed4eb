"""Kernels estimated from draws of both distributions of a pair: closed forms, bias, errors, messages."""

import numpy as np
import pytest
from scipy import stats
from tests.kernels.test_sampled import Normal

import mercer as mc
from mercer.kernels._draws import Objects
from mercer.kernels._pair_draws import powered

RNG = np.random.default_rng(0)
BATCHES = {
    "isotropic": mc.Gaussians(RNG.normal(size=(3, 2)), RNG.uniform(0.5, 2, 3)),
    "diagonal": mc.Gaussians(RNG.normal(size=(3, 2)), RNG.uniform(0.5, 2, (3, 2))),
    "full": mc.Gaussians(RNG.normal(size=(3, 2)), np.array([[[1, 0.3], [0.3, 1]]] * 3)),
    "categoricals": mc.Categoricals(RNG.dirichlet(np.ones(4), 3)),
    "bernoullis": mc.families.Bernoullis(RNG.uniform(0.1, 0.9, (3, 3))),
    "exponentials": mc.families.Exponentials(RNG.uniform(0.5, 2, (3, 2))),
    "gammas": mc.families.Gammas(RNG.uniform(1.2, 3, (3, 1)), RNG.uniform(0.5, 2, (3, 1))),
    "poissons": mc.Poissons(RNG.uniform(1, 4, (3, 2))),
}
CLOSED = ["isotropic", "diagonal", "full", "categoricals", "bernoullis", "exponentials", "gammas"]


def kernel(**parameters):
    return mc.Sampled(**{"proposal": "pairs"} | parameters)


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("rho", [0.5, 0.8, 1.0])
@pytest.mark.parametrize("name", BATCHES)
def test_closed_forms_within_standard_errors(name, rho, normalize):
    p = BATCHES[name]
    estimate = kernel(rho=rho, n_samples=400, beta=0.3, normalize=normalize)
    exact = mc.ProbabilityProduct(rho=rho, normalize=normalize)(p)
    found, errors = estimate(p), estimate.standard_errors(p)
    sure = errors < 1e-12
    np.testing.assert_allclose(found[sure], exact[sure], rtol=1e-9)
    assert (np.abs(found - exact)[~sure] < 4.5 * errors[~sure]).all()
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_allclose(estimate.fit(p).transform(p[1:])[:, 0], found[1:, 0], rtol=1e-12)


@pytest.mark.parametrize("rho", [0.4, 1.5])
@pytest.mark.parametrize("name", CLOSED)
def test_powers_of_families_are_distributions(name, rho):
    """p^rho = Z times the density of the family, at draws of p."""
    p = BATCHES[name]
    tilted, log_z = powered(p, rho)
    x = p.sample(5, random_state=0)[0]
    np.testing.assert_allclose(rho * p.log_prob(x), log_z[:, None] + tilted.log_prob(x), rtol=1e-10, atol=1e-12)


def test_families_that_are_not_closed_under_powers_are_weighted():
    assert powered(BATCHES["poissons"], 0.5) is None
    assert powered(mc.families.Gammas([[0.2]], [[1.0]]), 2.0) is None  # x^-1.6 has no finite integral
    assert powered(BATCHES["poissons"], 1.0) is not None
    assert powered(mc.HMM(1).fit(["abab"]).model_, 0.5) is None


def test_the_formula_of_the_source():
    """Estimates from the draws themselves, with the share beta of the row in the lower triangle."""
    p = BATCHES["diagonal"]
    estimate = kernel(rho=1.0, beta=0.2, n_samples=30, normalize=False)
    operand = estimate.fit(p)._prepare(p)
    density = [[np.exp(p[j : j + 1].log_prob(x))[0] for j in range(3)] for x in operand.draws]
    own = [[np.mean(density[i][j]) for j in range(3)] for i in range(3)]
    expected = np.array(
        [[0.2 * own[max(i, j)][min(i, j)] + 0.8 * own[min(i, j)][max(i, j)] for j in range(3)] for i in range(3)]
    )
    np.testing.assert_allclose(estimate(p), expected, rtol=1e-12)
    rows = [[0.2 * own[i][j] + 0.8 * own[j][i] for j in range(2)] for i in range(2)]
    np.testing.assert_allclose(estimate(p[:2], p)[:, :2], rows, rtol=1e-12)  # the row is the first of a pair


def test_estimates_are_unbiased_and_errors_shrink():
    p, exact = BATCHES["isotropic"], mc.ProbabilityProduct(rho=0.7, normalize=False)(BATCHES["isotropic"])
    spread = []
    for size in (25, 400):
        found = [kernel(rho=0.7, n_samples=size, random_state=i, normalize=False)(p) for i in range(50)]
        error = np.std(found, axis=0, ddof=1)
        assert (np.abs(np.mean(found, axis=0) - exact) < 4.5 * error / np.sqrt(50) + 1e-12).all()
        spread.append(error[1, 0])
    assert 2.5 < spread[0] / spread[1] < 6.5  # a quarter of the error for 16 times the samples


def test_matrices_are_not_positive_semi_definite_and_can_be_repaired():
    rng = np.random.default_rng(0)
    p = mc.Gaussians(rng.normal(size=(12, 1)), np.exp(0.5 * rng.normal(size=12)))
    estimate = kernel(n_samples=20)
    assert estimate.psd == "no"
    assert "(PPK-5a)" in estimate.psd.reason
    assert np.linalg.eigvalsh(estimate(p)).min() < -0.1
    assert mc.Sampled().psd == "always"
    repaired = mc.kernels.Repaired(estimate)
    assert np.linalg.eigvalsh(repaired.fit_transform(p)).min() > -1e-10
    assert estimate._smooth_parameters() == ()
    assert repaired.transform(p[:2]).shape == (2, 12)
    assert (estimate * 2.0).psd == "no"


def test_objects_and_models_of_sequences():
    objects = [Normal(0.0), Normal(0.5, 1.5)]
    estimate = kernel(rho=0.5, n_samples=500)
    exact = np.sqrt(2 * 1.5 / (1 + 1.5**2)) * np.exp(-(0.5**2) / 4 / (1 + 1.5**2))
    assert abs(estimate(objects)[0, 1] - exact) < 4 * estimate.standard_errors(objects)[0, 1]
    np.testing.assert_allclose(np.diag(estimate.set_params(normalize=False)(objects)), 1.0, rtol=1e-12)
    models = mc.HMM(2, n_init=1, random_state=0).fit_each(["abaabb", "bbbbab"])
    estimate = kernel(rho=1.0, length=3, n_samples=400, normalize=False)
    exact = mc.ProbabilityProduct(rho=1.0, length=3, normalize=False)(models)
    assert (np.abs(estimate(models) - exact) < 4 * estimate.standard_errors(models)).all()
    assert isinstance(estimate.fit(objects).train_, Objects)
    assert not hasattr(estimate, "samples_")


def test_pairs_that_do_not_overlap_have_no_reliable_error():
    p = mc.Gaussians([[0.0], [9.0]], [1.0, 1.0])
    assert np.isinf(kernel(rho=1.0, n_samples=100).standard_errors(p)[0, 1])
    with pytest.raises(ValueError, match="n_samples must be 2"):
        kernel(n_samples=1).standard_errors(p)


class Wrong(Normal):
    def log_prob(self, X):
        return np.where(X[:, 0] > 0, -np.inf, 0.0)


@pytest.mark.parametrize(
    ("parameters", "X", "match"),
    [
        ({"beta": 1.2}, BATCHES["full"], r"beta.*1\.2"),
        ({"proposal": "both"}, BATCHES["full"], "proposal.*'both'"),
        ({}, [Normal(0.0), Wrong(1.0)], "object 1 has the density 0 at a point"),
        ({}, [Normal(0.0), stats.norm()], "no method (log_prob|sample)"),
    ],
)
def test_messages(parameters, X, match):
    with pytest.raises((TypeError, ValueError), match=match):
        kernel(**parameters)(X)


def test_no_features():
    with pytest.raises(TypeError, match="proposal='average'"):
        kernel().fit(BATCHES["full"]).features(BATCHES["full"])
