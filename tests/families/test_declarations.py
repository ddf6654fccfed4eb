"""What follows from a declaration alone: a log partition function, or its dual; and what is refused."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import special
from tests.families.table import KNOWN

import mercer as mc
from mercer import families as f
from mercer.families import sets
from mercer.families.special import exp, expm1, gammaln, log, log1mexp, log1p, total
from mercer.testing.families import FamilyContract


@pytest.mark.parametrize(
    ("p", "rho", "named"),
    [
        (f.Gammas([[2.0], [0.3]], [[1.0], [1.0]]), 1.0, "0.3"),
        (f.Betas([[2.0], [0.3]], [[1.0], [1.0]]), 1.0, "a = .*0.3"),
        (f.Dirichlets([[2.0, 1.0], [0.3, 1.0]]), 1.0, r"concentration = \[0.3"),
        (f.Wisharts([KNOWN, KNOWN], [3.0, 0.9]), 2.0, "excess = 0.9"),
    ],
)
def test_products_that_are_infinite(p, rho, named):
    with pytest.raises(ValueError, match=rf"(?s)at rho = {rho:g} is infinite .*; got .*{named}"):
        p.log_product(p, rho=rho)
    with pytest.raises(ValueError, match=r"at index 1\. Use rho = 0.5"):
        mc.ProbabilityProduct(rho=rho)(p)
    assert np.isfinite(p.log_product(p, rho=0.5)).all()


class Compositions(f.ExponentialFamily):
    """Dirichlet distributions from their log partition function, without a base measure."""

    concentration = f.Parameter(sets.positive)
    support = sets.open_simplex

    def natural(self):
        return self.concentration - 1

    def from_natural(self, theta):
        return theta + 1

    def statistic(self, x):
        return log(x)

    def partition(self, theta):
        return total(gammaln(theta + 1)) - gammaln(total(theta + 1))


class Composition(f.FamilyEstimator, of=Compositions):
    """Fit compositions."""


class Passages(f.Coordinatewise):
    """Inverse Gaussian distributions from their dual alone."""

    mean = f.Parameter(sets.positive)
    concentration = f.Parameter(sets.positive)
    support = sets.positive

    def moments(self):
        return self.mean, 1 / self.mean + 1 / self.concentration

    def from_moments(self, mu):
        return mu[0], 1 / (mu[1] - 1 / mu[0])

    def legendre(self, mu):
        return -log(mu[1] - 1 / mu[0]) / 2


MEMBERS = np.array([[1.0, 2.0, 3.0], [4.0, 4.0, 4.0], [0.6, 0.8, 2.0]])


def test_a_family_from_its_log_partition_function():
    p, truth = Compositions(MEMBERS), f.Dirichlets(MEMBERS)
    x = truth[0].sample(5, random_state=0)
    assert_allclose(p.log_prob(x), truth.log_prob(x), rtol=1e-12)
    assert_allclose(p.mean_parameters, truth.mean_parameters, rtol=1e-13)
    assert_allclose(p.fisher_information(), truth.fisher_information(), rtol=1e-9)
    assert_allclose(p.kl(p), truth.kl(truth), rtol=1e-12, atol=1e-14)
    for rho in (0.3, 0.5, 0.9):
        assert_allclose(p.log_product(p, rho), truth.log_product(truth, rho), rtol=1e-12, atol=1e-13)
    assert_allclose(p.dual_divergence(p), truth.dual_divergence(truth), rtol=1e-10, atol=1e-14)
    assert_allclose(p.with_mean_parameters(p.mean_parameters).concentration, MEMBERS, rtol=1e-9)
    assert p.dual_psd("exp", 1.0) == "conditional"


class Failures(f.Coordinatewise):
    """Geometric distributions from their log partition function."""

    probability = f.Parameter(sets.probability)
    support = sets.counts

    def natural(self):
        return log1p(-self.probability)

    def from_natural(self, theta):
        return -expm1(theta)

    def partition(self, theta):
        return -log1mexp(theta)


class Failure(f.FamilyEstimator, of=Failures):
    """Fit counts of failures."""


def test_independent_coordinates_from_their_log_partition_function():
    chances = np.array([[0.5, 0.2], [0.9, 0.3], [0.05, 0.6]])
    p, truth, x = Failures(chances), f.Geometrics(chances), np.array([[0.0, 3.0], [2.0, np.nan]])
    for ask in (
        lambda r: r.log_prob(x),
        lambda r: r.mean_parameters,
        lambda r: r.fisher_scores(x),
        lambda r: r.fisher_information(),
        lambda r: r.kl(r),
        lambda r: r.dual_divergence(r),
        lambda r: r.log_product(r, 0.7),
        lambda r: r.with_mean_parameters(r.mean_parameters).probability,
        lambda r: r.log_characteristic(np.array([[0.3, -0.2]]))[1],
    ):
        assert_allclose(ask(p), ask(truth), rtol=1e-8, atol=1e-12)
    counts = np.array([[1.0, 4.0], [3.0, 2.0], [7.0, 1.0]])
    assert_allclose(Failure(floor=0.0).fit_each(counts).mean_parameters, counts, rtol=1e-9)


def test_a_family_from_its_dual():
    mean, concentration = np.array([[1.0], [3.0], [0.5]]), np.array([[2.0], [2.0], [5.0]])
    p, truth = Passages(mean, concentration), f.InverseGaussians(mean, concentration)
    assert_allclose(p.dual_divergence(p), truth.dual_divergence(truth), rtol=1e-12, atol=1e-15)
    assert_allclose(p.natural_parameters, truth.natural_parameters, rtol=1e-9)
    assert_allclose(p.kl(p), truth.kl(truth), rtol=1e-8, atol=1e-9)
    assert_allclose(np.diagonal(p.log_product(p, 0.5)), 0, atol=1e-8)
    assert_allclose(p.log_product(p, 0.5), _half(truth), rtol=1e-6, atol=1e-8)
    assert np.isfinite(mc.JensenShannon(form="centering").fit(p)(p)).all()


def _half(p):
    """K((theta + theta')/2) - K(theta)/2 - K(theta')/2, whatever constants the dual of K leaves out."""
    theta = p.natural_parameters
    middle = (theta[:, None] + theta) / 2
    return p.log_partition(middle) - (p.log_partition(theta)[:, None] + p.log_partition(theta)) / 2


@pytest.mark.slow
def test_a_family_of_a_user_everywhere(tmp_path):
    rng = np.random.default_rng(0)
    states = np.repeat([0, 1, 0, 1, 1, 0], 20)  # series that switch between two compositions
    shapes = np.array([[9, 1, 1], [1, 2, 6]])[states]
    series = [np.array([rng.dirichlet(a) for a in shapes]) for _ in range(3)]
    model = mc.HMM(2, Composition(), random_state=0).fit(series)
    found = model.model_.emission.concentration[0]
    assert_allclose(sorted(found[:, 0]), [1.0, 9.0], rtol=0.4)
    for kernel in (
        mc.ProbabilityProduct(Composition()),
        mc.JensenShannon(Composition()),
        mc.Fisher(Composition()),
        mc.SymmetricKL(Composition()),
        mc.ProbabilityProduct(mc.Mixture(Composition(), n_components=2, random_state=0)),
        mc.ProbabilityProduct(mc.HMM(2, Composition(), random_state=0), length=3),
        mc.Fisher(mc.HMM(2, Composition(), random_state=0)),
    ):
        K = kernel.fit(series)(series)
        assert np.isfinite(K).all()
        assert_allclose(np.diagonal(K), 1, rtol=1e-7)
    model.model_.save(tmp_path / "hmm.npz")
    assert mc.load(tmp_path / "hmm.npz").digests() == model.model_.digests()
    kernel = mc.ProbabilityProduct(Composition()).fit(series)
    with pytest.raises(TypeError, match=r"Pass trusted=\[Composition\]"):
        mc.save(kernel, tmp_path / "kernel.mercer")
    mc.save(kernel, tmp_path / "kernel.mercer", trusted=[Composition])
    again = mc.load(tmp_path / "kernel.mercer", trusted=[Composition])
    assert_allclose(again(series), kernel(series), rtol=1e-12)


class Binomials(f.Coordinatewise):
    """Binomial distributions by the formulas of earlier versions, with a number of trials."""

    arrays = {"probability": 1}  # noqa: RUF012
    shared = ("trials",)
    domain = "counts"

    def __init__(self, probability, trials=1):
        self.freeze(probability=np.asarray(probability), trials=trials)

    def term_natural(self, p):
        return np.log(p) - np.log1p(-p)

    def term_partition(self, theta):
        return self.trials * np.log1p(np.exp(theta))

    def term_mean(self, p):
        return self.trials * p

    def term_from_mean(self, mu):
        return mu / self.trials


class Binomial(f.CoordinatewiseEstimator):
    """Fit binomial distributions."""

    family = Binomials

    def __init__(self, trials=1, prior=None, prior_strength=1.0):
        self.trials = trials
        super().__init__(prior=prior, prior_strength=prior_strength)


def test_shared_values_are_not_lost():
    p = Binomials([[0.2, 0.5], [0.9, 0.3]], trials=4)
    assert p.with_mean_parameters(p.mean_parameters).trials == 4
    assert p.pooled().trials == 4
    found = Binomial(trials=4).fit_each([[1, 2], [4, 0]])
    assert found.trials == 4
    assert_allclose(found.probability, [[0.25, 0.5], [1.0, 0.0]])


def test_points_outside_of_the_support_are_refused():
    with pytest.raises(ValueError, match="data of Compositions must be positive rows that sum to one; row 1 is not"):
        Compositions(MEMBERS).log_prob([[0.2, 0.3, 0.5], [0.2, 0.3, 0.6]])
    with pytest.raises(ValueError, match="unit vectors"):
        f.VonMisesFishers([[1.0, 0.0]], [1.0]).log_prob([[1.7, 0.0]])


def test_a_formula_that_is_missing_is_named():
    class Half(f.ExponentialFamily):
        concentration = f.Parameter(sets.positive)

        def natural(self):
            return self.concentration - 1

        def partition(self, theta):
            return total(exp(theta))

    p = Half([[1.0, 2.0]])
    assert_allclose(p.mean_parameters, np.exp([[0.0, 1.0]]), rtol=1e-12)
    with pytest.raises(NotImplementedError, match=r"Half must implement from_natural\(theta\), as it has natural\(\)"):
        p.with_mean_parameters(p.mean_parameters)
    with pytest.raises(NotImplementedError, match=r"must implement predictive\(count\)"):
        p.predictive(np.ones((1, 1)))


class Careless(f.ExponentialFamily):
    """Von Mises-Fisher distributions, whose log partition loses or refuses imaginary parts."""

    vector = f.Parameter(sets.reals)
    support = sets.sphere

    def partition(self, theta):
        return self.bad(np.sqrt(np.sum(theta * theta, axis=-1))) + 1.5 * np.log(2 * np.pi)


class Loses(Careless):
    bad = staticmethod(lambda c: np.log(special.ive(0.5, c)) + np.abs(np.real(c)) - 0.5 * np.log(c))  # wrong near 30


class Drops(Careless):
    bad = staticmethod(lambda c: np.log(special.ive(0.5, np.abs(c))) + np.abs(c) - 0.5 * np.log(np.abs(c)))


class Refuses(Careless):
    bad = staticmethod(lambda c: np.log(special.i0e(c) * 0 + special.ive(0.5, c)) + np.abs(c) - 0.5 * np.log(c))


@pytest.mark.slow
@pytest.mark.parametrize("family", [Loses, Drops, Refuses])
def test_log_partitions_that_are_not_written_for_complex_numbers(family):
    """Real differences notice, and take over."""
    vectors = np.array([[1.0, 2.0, 2.0], [10.0, 20.0, 20.0], [0.5, 0.0, -0.5]])
    c = np.linalg.norm(vectors, axis=1)
    p, truth = family(vectors), f.VonMisesFishers(vectors / c[:, None], c)
    assert_allclose(p.mean_parameters, truth.mean_parameters, rtol=1e-9, atol=1e-10)
    assert_allclose(p.dual_divergence(p), truth.dual_divergence(truth), rtol=1e-7, atol=1e-10)
    assert_allclose(p.with_mean_parameters(truth.mean_parameters).vector, vectors, rtol=1e-6, atol=1e-7)
    assert_allclose(p.fisher_information(), truth.fisher_information(), rtol=1e-5, atol=1e-6)


def test_members_with_different_known_parameters():
    p, q = f.NegativeBinomials([[1.0]], 2.0), f.NegativeBinomials([[1.0]], 3.0)
    for pairing in (p.kl, p.dual_divergence):
        with pytest.raises(ValueError, match="differ in the known parameter size"):
            pairing(q)
    assert np.isfinite(p.log_product(q, 0.5))
    with pytest.raises(ValueError, match="differ in the known parameter covariance"):
        f.GaussianMeans([[0.0]], [[1.0]]).log_product(f.GaussianMeans([[0.0]], [[2.0]]))


def test_estimates_on_the_boundary():
    with pytest.raises(ValueError, match=r"No Dirichlets have the mean parameters at index .* Use prior='pooled'"):
        f.Dirichlet(floor=0.0).fit_each([np.array([[0.2, 0.8]])])
    one = f.Dirichlet(floor=0.0, prior="pooled").fit([np.array([[0.2, 0.8], [0.5, 0.5], [0.3, 0.7]])])
    assert np.isfinite(one.fit_each([np.array([[0.2, 0.8]])]).concentration).all()
    floored = f.Dirichlet().fit_each([np.array([[0.2, 0.8]])]).concentration
    assert_allclose(floored / floored.sum(), [[0.2, 0.8]], rtol=0.01)


class Coins(f.Coordinatewise):
    """Bernoulli distributions whose formulas are those of NumPy."""

    probability = f.Parameter(sets.unit, moment=True)
    support = sets.binary

    def natural(self):
        return special.logit(self.probability)

    def from_natural(self, theta):
        return special.expit(theta)

    def partition(self, theta):
        return np.logaddexp(0.0, np.real(theta)).astype(np.real(theta).dtype)

    def draw(self, rng, shape):
        return rng.random(shape) < self.probability


class Coin(f.FamilyEstimator, of=Coins):
    """Fit coins."""


class TestCoins(FamilyContract):
    """A family that is written for NumPy only says so."""

    libraries = ("numpy",)
    mean_map = dual_always = False

    def members(self, seed=0, shape=(3,)):
        return Coins(np.random.default_rng(seed).uniform(0.2, 0.8, size=(*shape, 2)))

    def nodes(self):
        return np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]), np.ones(4)

    def parameters(self, p):
        return special.logit(p.probability)

    def build(self, theta):
        return Coins(special.expit(theta))
