"""Dirichlets and their estimator against quadrature, and arbitrary precision."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special, stats

import mercer as mc
from mercer.families._gamma_functions import solve_concentration
from mercer.families.dirichlet import Dirichlet, Dirichlets
from mercer.testing.families import EstimatorContract, FamilyContract


def logistic(reach, step):
    """Fractions, evenly in log odds, with 1 - x and the weights of integrals over x."""
    u = np.arange(-reach, reach + step / 2, step)
    x, rest = special.expit(u), special.expit(-u)
    return x, rest, step * x * rest


class TestDirichlets(FamilyContract):
    mean_map = False
    dual_always = False

    @staticmethod
    def parameters_of(p):
        return p.natural_parameters  # the same bits in every library, unlike digamma

    def members(self, seed=0, shape=(3,)):
        return Dirichlets(np.random.default_rng(seed).uniform(1, 5, size=(*shape, 3)))

    def nodes(self):
        """The triangle by sticks: the first part, and the second of what is left, each evenly in log odds."""
        x, rest, w = logistic(24, 0.22)
        first = np.broadcast_to(x[:, None], (len(x), len(x)))
        points = np.stack([first, rest[:, None] * x, rest[:, None] * rest], axis=-1)
        return points.reshape(-1, 3), (w[:, None] * rest[:, None] * w).reshape(-1)

    def parameters(self, p):
        return 1 * p.concentration  # a copy, which torch may write to

    def build(self, theta):
        return Dirichlets(theta)


class TestDirichlet(EstimatorContract):
    exact = {"floor": 0.0}  # noqa: RUF012

    def estimator(self, **parameters):
        return Dirichlet(**parameters)

    def sets(self):
        rng = np.random.default_rng(0)
        return [rng.dirichlet([3.0, 0.5, 1.0], size=n) for n in (3, 4, 2, 7)]

    def empty(self):
        return np.zeros((0, 3))

    def totals(self, sample):
        return np.log(sample).sum(axis=0), len(sample)


def test_against_scipy():
    p = Dirichlets([[0.3, 0.7, 2.0], [10.0, 3.0, 1.0]])
    x = p[0].sample(7, random_state=0)
    truth = [[stats.dirichlet.logpdf(row / row.sum(), a) for row in x] for a in p.concentration]
    assert_allclose(p.log_prob(x), truth, rtol=1e-10)


@pytest.mark.parametrize("k", [2, 3, 20])
def test_solver_from_all_magnitudes(k):
    """Newton's method inverts mean logarithms; digits are lost to these as the concentration grows, not to it."""
    rng = np.random.default_rng(k)
    for low, high, tolerance in ((-6, -2, 1e-9), (-3, 0, 1e-10), (-1, 1, 1e-11), (0, 3, 1e-9), (-3, 4, 1e-6)):
        a = 10 ** rng.uniform(low, high, size=(300, k))
        mu = special.digamma(a) - special.digamma(a.sum(axis=-1, keepdims=True))
        found = solve_concentration(mu)
        assert_allclose(found, a, rtol=tolerance)
        assert_array_equal(solve_concentration(mu[7:9]), found[7:9])  # whatever stands beside


@pytest.mark.parametrize("rho", [0.5, 1.0, 2.0])
def test_large_concentrations_keep_their_digits(rho):
    """PPK-3.7 and the divergence in arbitrary precision, where the terms are 10^9 and the answer is 1."""
    mpmath = pytest.importorskip("mpmath")
    laws = [[0.9, 1.5, 3.0], [30.0, 2.0, 8.0], [1e8, 2e8, 1e6], [1.0001e8, 2e8, 1e6]]
    p = Dirichlets(laws)
    product, kl = p.log_product(p, rho), p.kl(p)
    with mpmath.workdps(60):

        def log_beta(a):
            return sum(map(mpmath.loggamma, a)) - mpmath.loggamma(sum(a))

        exact = [[mpmath.mpf(v) for v in row] for row in laws]
        for (i, a), (j, b) in itertools.product(enumerate(exact), repeat=2):
            middle = [rho * (s + t - 2) + 1 for s, t in zip(a, b, strict=True)]
            truth = log_beta(middle) - rho * (log_beta(a) + log_beta(b))
            assert_allclose(product[i, j], float(truth), rtol=1e-11, atol=1e-7)
            truth = log_beta(b) - log_beta(a)
            truth += sum((s - t) * (mpmath.digamma(s) - mpmath.digamma(sum(a))) for s, t in zip(a, b, strict=True))
            assert_allclose(kl[i, j], float(truth), rtol=1e-9, atol=1e-7)


def test_products_that_diverge_are_refused():
    p = Dirichlets([[2.0, 1.0], [0.3, 4.0]])
    with pytest.raises(ValueError, match=r"Dirichlets at rho = 1 .* got 0.3 for the distribution at index 1"):
        p.log_product(p, rho=1.0)
    assert np.all(np.isfinite(p.log_product(p, rho=0.5)))


def test_dual_divergence_of_three_proportions_is_not_negative_definite():
    """The counterexample that `dual_psd` names, some of its divergences in 40 digits."""
    mpmath = pytest.importorskip("mpmath")
    p = Dirichlets(list(itertools.product([1e-4, 1.0], repeat=3)))
    psi = p.dual_divergence(p)
    for i, j in ((0, 7), (1, 6), (3, 5)):
        assert_allclose(psi[i, j], exact_divergence(mpmath, p.concentration[i], p.concentration[j]), rtol=1e-8)
    assert_allclose(np.linalg.eigvalsh(np.exp(-0.01 * psi))[0], -0.0062, atol=1e-4)
    assert_allclose(np.linalg.eigvalsh(np.exp(-0.03 * psi))[0], -0.008, atol=1e-4)
    assert np.linalg.eigvalsh(1 / (100 + psi))[0] < -1e-5
    center = np.eye(8) - 1 / 8
    assert np.linalg.eigvalsh(-center @ psi @ center)[0] < -0.1
    for form, t in (("centering", 1.0), ("exp", 0.03), ("inverse", 100.0)):
        assert p.dual_psd(form, t) == "no"
        with pytest.raises(ValueError, match="not positive semi-definite for this family"):
            mc.JensenShannon(form=form, t=t).fit(p)
    for form, t in (("exp", 1.0), ("inverse", 1.0)):
        assert p.dual_psd(form, t) == "conditional"
    for k in (4, 5):
        more = Dirichlets(list(itertools.product([1e-4, 1.0], repeat=k)))
        assert np.linalg.eigvalsh(np.exp(-0.03 * more.dual_divergence(more)))[0] < -0.008


def exact_divergence(mpmath, a, b):
    """DJS-2, the concentrations of the middle found by Newton's method in 40 digits."""
    with mpmath.workdps(40):
        a, b = ([mpmath.mpf(float(v)) for v in side] for side in (a, b))

        def means(c):
            return [mpmath.digamma(v) - mpmath.digamma(sum(c)) for v in c]

        def dual(c):
            log_beta = sum(map(mpmath.loggamma, c)) - mpmath.loggamma(sum(c))
            return sum(v * m for v, m in zip(c, means(c), strict=True)) - log_beta

        middle = [(s + t) / 2 for s, t in zip(means(a), means(b), strict=True)]
        start = solve_concentration(np.array([float(v) for v in middle]))
        found = mpmath.findroot(
            lambda *c: [m - v for m, v in zip(means(c), middle, strict=True)], [mpmath.mpf(float(v)) for v in start]
        )
        return float((dual(a) + dual(b)) / 2 - dual(list(found)))


def test_one_point_and_equal_points_have_a_law():
    x = np.array([0.2, 0.3, 0.5])
    for floor in (1e-3, 1e-2):
        p = Dirichlet(floor=floor).fit_each([x[None], np.tile(x, (4, 1))])
        total = p.concentration.sum(axis=1)
        assert_allclose(total, 1 / floor, rtol=2 * floor)
        assert_allclose(p.concentration / total[:, None], [x, x], atol=2 * floor)
    degenerate = Dirichlet(floor=0).fit_each([x]).concentration
    assert np.all(np.isfinite(degenerate))
    assert np.all(degenerate > 0)


def test_zeros_ones_and_sums():
    x = np.array([[0.0, 0.4, 0.6], [0.2, 0.3, 0.5]])
    with pytest.raises(ValueError, match=r"got 0 at row 0, column 0. .* smallest=1e-3"):
        Dirichlet().fit_each(x)
    raised = np.maximum(x, 0.01)
    raised /= raised.sum(axis=1, keepdims=True)
    found = Dirichlet(smallest=0.01).fit(x).model_.concentration
    assert_allclose(found, Dirichlet().fit(raised).model_.concentration)
    assert_allclose(Dirichlet(smallest=0.01, divide_by_sum=True).fit(7 * x).model_.concentration, found)
    assert_allclose(Dirichlet(smallest=0.01).fit_each([x]).concentration, found)
    with pytest.raises(ValueError, match=r"must sum to 1; got 7 for row 0.* divide_by_sum=True"):
        Dirichlet().fit(7 * x)
    with pytest.raises(ValueError, match="got 7 for row 0"):
        Dirichlet(smallest=0.01).fit(7 * x)
    with pytest.raises(ValueError, match="row 1 contains only zeros"):
        Dirichlet(divide_by_sum=True).fit([[1.0, 2.0], [0.0, 0.0]])
    even = Dirichlet(divide_by_sum=True, smallest=0.1).fit_each([[1.0, 2.0], [0.0, 0.0]]).concentration[1]
    assert_allclose(even[0], even[1])


def test_a_missing_proportion_raises():
    with pytest.raises(ValueError, match=r"row 0 has a missing coordinate \(NaN\)"):
        Dirichlet().fit_each([[0.5, np.nan]])
    with pytest.raises(ValueError, match=r"\(point 0\) has a missing coordinate \(NaN\)"):
        Dirichlet().fit_each([np.array([[0.5, np.nan]])])


def test_small_concentrations_draw_points_inside():
    x = Dirichlets([[1e-3, 1e-3, 1e-3]]).sample(1000, random_state=0)
    assert np.all(x > 0)
    assert_allclose(x.sum(axis=-1), 1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Dirichlets([[1.0, 0.0]]), r"concentration must be positive.*; got 0.0 at index \(0, 1\)"),
        (lambda: Dirichlets([[1.0]]), r"k >= 2 proportions in its last axis; got shape \(1, 1\)"),
        (lambda: Dirichlet(divide_by_sum="l1").fit([[0.5, 0.5]]), r"divide_by_sum must be .*; got 'l1'"),
        (lambda: Dirichlet(smallest=-1).fit([[0.5, 0.5]]), r"smallest must be .*; got -1"),
        (lambda: Dirichlet().fit([[1.0]]), r"2 or more proportions; got 1 feature\(s\)"),
        (lambda: Dirichlet().fit([[1.5, -0.5]]), "Negative values in data passed to Dirichlet: row 0 has -0.5"),
        (lambda: Dirichlets([[1.0, 1.0]]).log_prob([[0.5, 0.6]]), "Dirichlets must sum to 1; got 1.1 for row 0"),
        (lambda: Dirichlets([[1.0, 1.0]]).log_prob([[0.5]]), r"shape \(T, 2\), one row per point; got \(1, 1\)"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.slow
def test_one_large_concentration_among_tiny_ones():
    p = mc.families.Dirichlets([[100.0, 1e-10], [100.0, 2e-10], [1.0, 1.0], [1e8, 1e-5]])
    np.testing.assert_allclose(np.diag(p.dual_divergence(p)), 0.0, atol=1e-6)
    assert np.all(mc.JensenShannon()(p) <= 1 + 1e-9)
    rng = np.random.default_rng(0)
    for k in range(2, 7):
        q = mc.families.Dirichlets(10 ** rng.uniform(-10, 8, size=(60, k)))
        np.testing.assert_allclose(np.diag(q.dual_divergence(q)), 0.0, atol=1e-3)


@pytest.mark.parametrize("tiny", [1e-12, 1e-17])
def test_products_of_tiny_concentrations_do_not_cancel(tiny):
    for p in (
        mc.families.Gammas([[tiny]], [[1.0]]),
        mc.families.Dirichlets([[tiny, 1.0]]),
    ):
        np.testing.assert_allclose(p.log_product(p, rho=0.5), 0.0, atol=1e-12)


@pytest.mark.parametrize("total", [1.0, 1e3, 1e6, 1e9, 1e12])
def test_densities_of_narrow_laws(total):
    """Against fifty digits, of the numbers as they are; rounded points are off the simplex by 1e-16."""
    mp = pytest.importorskip("mpmath")
    rng = np.random.default_rng(3)
    a = total * rng.dirichlet(np.ones(4), size=2)
    x = np.concatenate([rng.dirichlet(np.maximum(row, 0.5), size=3) for row in a])

    def truth(row, point):
        powers = mp.fsum((c - 1) * mp.log(v) for c, v in zip(row, point, strict=True))
        return float(powers + mp.loggamma(mp.fsum(row)) - mp.fsum(mp.loggamma(c) for c in row))

    with mp.workdps(50):
        laws, points = ([[mp.mpf(float(v)) for v in row] for row in rows] for rows in (a, x))
        slow = np.array([[truth(row, point) for point in points] for row in laws])
    error = 1e-15 * np.sqrt(total) + 1e-12
    assert_allclose(Dirichlets(a).log_prob(x), slow, rtol=1e-12, atol=error)
    assert_allclose(Dirichlets(a[0]).log_prob(x), Dirichlets(a).log_prob(x)[0], rtol=1e-12)
    wide = [1.0, 2.0, 3.0, 4.0]
    assert_allclose(Dirichlets([a[0], wide]).log_prob(x)[1], Dirichlets([wide]).log_prob(x)[0], rtol=1e-13)


@pytest.mark.slow
def test_tiny_and_huge_concentrations_together():
    """The density and PPK-3.7 against arbitrary precision, without a warning."""
    mpmath = pytest.importorskip("mpmath")
    laws, x = [[1e-300, 1e300], [1e-5, 1e8], [1e160, 2e160], [1.0, 1.0]], [0.25, 0.75]
    p = Dirichlets(laws)
    with np.errstate(all="raise", under="ignore"):
        found, products = p.log_prob([x])[:, 0], p.log_product(p)[0]
    with mpmath.workdps(700):

        def log_beta(v):
            return sum(map(mpmath.loggamma, v)) - mpmath.loggamma(sum(v))

        laws = [[mpmath.mpf(a) for a in law] for law in laws]
        density = [sum((a - 1) * mpmath.log(t) for a, t in zip(law, x, strict=True)) - log_beta(law) for law in laws]
        product = [
            log_beta([(a + b) / 2 for a, b in zip(laws[0], law, strict=True)]) - (log_beta(laws[0]) + log_beta(law)) / 2
            for law in laws
        ]
    assert_allclose(found, [float(v) for v in density], rtol=1e-10)
    assert_allclose(products, [float(v) for v in product], rtol=1e-10, atol=1e-12)


def test_points_that_were_not_observed():
    """All of a point may be missing, and is marginalised; a part of it raises."""
    x = np.array([[0.2, 0.3, 0.5], [np.nan] * 3, [0.6, 0.3, 0.1]])
    laws = Dirichlets([[[2.0, 3.0, 4.0], [5e4, 1e4, 1e4]]])
    assert_allclose(laws.log_prob(x)[0, :, [0, 2]], laws.log_prob(x[[0, 2]])[0].T)
    assert np.array_equal(laws.log_prob(x)[0, :, 1], [0, 0])
    assert np.array_equal(laws[0, 0].log_prob(x)[1:2], [0.0])
    assert not laws[0].fisher_scores(x)[:, 1].any()
    hmm = mc.HMMs([[0.5, 0.5]], [[[0.9, 0.1], [0.2, 0.8]]], laws)
    density = np.exp(laws.log_prob(x)[0])
    two = np.array([[0.9, 0.1], [0.2, 0.8]]) @ np.array([[0.9, 0.1], [0.2, 0.8]])
    truth = np.log(0.5 * density[:, 0] @ two @ density[:, 2])
    assert_allclose(hmm.log_prob([x]), [[truth]], rtol=1e-12)
    x[1, 0] = 0.2
    with pytest.raises(ValueError, match=r"row 1 has missing \(NaN\) and observed proportions"):
        laws.log_prob(x)
