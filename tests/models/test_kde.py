"""Kernel density estimates: densities, mean maps and expected likelihoods against quadrature and double sums."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from scipy.stats import gaussian_kde, multivariate_normal
from sklearn.base import clone
from sklearn.neighbors import KernelDensity
from sklearn.svm import SVC

import mercer as mc
from mercer.models._ragged_points import Points
from mercer.models.kde import KDEs
from mercer.models.kde_estimator import KDE, criterion, cross_validated, silverman
from mercer.testing.kernels import KernelContract, by_pairs

SIZES = (1, 3, 4, 8, 9, 17)


def sets(seed=0, sizes=SIZES, d=2, scale=1.0):
    rng = np.random.default_rng(seed)
    return [rng.normal(rng.normal(size=d), scale, size=(m, d)) for m in sizes]


def estimates(seed=0, sizes=SIZES, d=2):
    return KDEs(sets(seed, sizes, d), np.random.default_rng(seed + 100).uniform(0.1, 1.0, size=len(sizes)))


def squared(x, y):
    return ((x[:, None, :] - y[None, :, :]) ** 2).sum(axis=-1)


def mean_map(x, h, y, k, gamma):
    """GMMK-4 as it is printed, lambda = 2 gamma, as a logarithm."""
    lam, d = 2 * gamma, x.shape[1]
    h0 = 1 + lam * (h + k)
    return logsumexp(-lam * squared(x, y) / (2 * h0)) - np.log(len(x) * len(y)) - d / 2 * np.log(h0)


def expected_likelihood(x, h, y, k):
    d, w = x.shape[1], h + k
    return logsumexp(-squared(x, y) / (2 * w)) - np.log(len(x) * len(y)) - d / 2 * np.log(2 * np.pi * w)


def every_pair(pair, p, q):
    return np.array(
        [
            [pair(p.points.set(i), p.bandwidth[i], q.points.set(j), q.bandwidth[j]) for j in range(len(q))]
            for i in range(len(p))
        ]
    )


class TestDensities:
    @pytest.mark.parametrize("d", [1, 2, 7])
    def test_sums_of_gaussians(self, d):
        p = estimates(d=d)
        x = np.random.default_rng(5).normal(size=(11, d))
        slow = [
            np.mean([multivariate_normal(c, h * np.eye(d)).pdf(x) for c in p.points.set(i)], axis=0)
            for i, h in enumerate(p.bandwidth)
        ]
        assert_allclose(np.exp(p.log_prob(x)), slow, rtol=1e-12)

    def test_integral_is_one(self):
        x = np.linspace(-15, 15, 6001)
        assert_allclose(np.exp(estimates(d=1).log_prob(x[:, None])).sum(axis=1) * (x[1] - x[0]), 1, rtol=1e-10)

    def test_scikit_learn(self):
        x, z = sets(1, (50,), 3)[0], sets(2, (20,), 3)[0]
        theirs = [KernelDensity(bandwidth=b, rtol=0).fit(x) for b in (0.5, "silverman", 2)]
        p = KDEs.from_sklearn(theirs)
        assert p.shape == (3,)
        assert_allclose(p.log_prob(z), [k.score_samples(z) for k in theirs], rtol=1e-10)
        assert_allclose(p.bandwidth, [k.bandwidth_**2 for k in theirs])
        assert KDEs.from_sklearn(theirs[0]).shape == (1,)

    def test_far_points_keep_their_logarithm(self):
        p = KDEs([np.array([[0.0], [3.0]])], 0.5)
        x = np.array([[-1e3], [60.0], [2.0], [1e7]])
        slow = logsumexp(-((x - [[0.0, 3.0]]) ** 2), axis=1) - np.log(2) - 0.5 * np.log(np.pi)
        assert_allclose(p.log_prob(x)[0], slow, rtol=1e-14)
        assert p.log_prob([[1e300]]) == -np.inf

    def test_single_estimate(self):
        p, x = estimates(), np.zeros((3, 2))
        assert p[2].shape == ()
        assert_array_equal(p[2].log_prob(x), p.log_prob(x)[2])
        assert p[2].sample(4, random_state=0).shape == (4, 2)
        assert_array_equal(p[2].reshape(1).log_prob(x), p[2:3].log_prob(x))
        assert p.log_prob(np.zeros((0, 2))).shape == (6, 0)

    def test_samples(self):
        p = KDEs([np.array([[0.0, 5.0], [2.0, 5.0]]), np.array([[9.0, 9.0]])], [0.25, 4.0])
        x = p.sample(40_000, random_state=0)
        assert x.shape == (2, 40_000, 2)
        error = 5 * np.sqrt(4.0 / 40_000)
        assert_allclose(x.mean(axis=1), [[1, 5], [9, 9]], atol=error)
        assert_allclose(x.var(axis=1), [[1.25, 0.25], [4, 4]], rtol=0.05)
        assert_array_equal(p.sample(3, random_state=1), p.sample(3, random_state=1))
        with pytest.raises(ValueError, match=r"size must be a whole number .* got -1"):
            p.sample(-1)


class TestPairs:
    @pytest.mark.parametrize("d", [1, 2, 5, 20])
    def test_double_sums(self, d):
        p, q = estimates(0, d=d), estimates(1, (2, 12, 5), d=d)
        assert_allclose(p.log_product(q, rho=1.0), every_pair(expected_likelihood, p, q), rtol=1e-12)
        for gamma in (0.01, 0.7, 50.0):
            slow = every_pair(lambda *pair, gamma=gamma: mean_map(*pair, gamma), p, q)
            assert_allclose(p.log_mean_map(q, gamma=gamma), slow, rtol=1e-12, atol=1e-14)

    def test_quadrature(self):
        p, x = estimates(3, (2, 5), 1), np.linspace(-12, 12, 2001)
        density, step = np.exp(p.log_prob(x[:, None])), x[1] - x[0]
        assert_allclose(np.exp(p.log_product(p, rho=1.0)), density @ density.T * step, rtol=1e-9)
        base = np.exp(-0.7 * (x[:, None] - x) ** 2)
        assert_allclose(np.exp(p.log_mean_map(p, gamma=0.7)), density @ base @ density.T * step**2, rtol=1e-9)

    @pytest.mark.parametrize("rho", [0.3, 0.5, 2.0])
    def test_other_powers_by_quadrature(self, rho):
        """The power of the joint distribution of component and point, integrated over x (PPK-4.0)."""
        p, x = estimates(3, (2, 5), 1), np.linspace(-25, 25, 5001)
        joint = []
        for i, h in enumerate(p.bandwidth):
            points = p.points.set(i)[:, 0]
            each = np.exp(-((x - points[:, None]) ** 2) / (2 * h)) / np.sqrt(2 * np.pi * h) / len(points)
            joint.append((each**rho).sum(axis=0))
        joint = np.stack(joint)
        assert_allclose(np.exp(p.log_product(p, rho=rho)), joint @ joint.T * (x[1] - x[0]), rtol=1e-9)

    @pytest.mark.parametrize("rho", [0.5, 1.0, 1.7])
    def test_other_powers_are_those_of_mixtures(self, rho):
        p = estimates(5, (4, 4), 3)
        mixtures = mc.Mixtures(
            np.full((2, 4), 0.25),
            mc.Gaussians(p.points.data.reshape(2, 4, 3), np.repeat(p.bandwidth[:, None], 4, axis=1)),
        )
        kernel = mc.ProbabilityProduct(rho=rho, normalize=False)
        assert_allclose(kernel(p), kernel(mixtures), rtol=1e-12)
        assert_array_equal(np.diag(kernel(p)), kernel.diag(p))

    def test_quadrature_in_the_plane(self):
        p, line = estimates(3, (2, 5), 2), np.linspace(-7, 7, 141)
        grid = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
        density = np.exp(p.log_prob(grid))
        assert_allclose(np.exp(p.log_product(p, rho=1.0)), density @ density.T * (line[1] - line[0]) ** 2, rtol=1e-8)

    @settings(max_examples=40, deadline=None)
    @given(
        st.lists(st.integers(1, 20), min_size=1, max_size=4),
        st.integers(1, 9),
        st.floats(-6, 6),
        st.floats(-4, 4),
        st.integers(0, 10**6),
    )
    def test_any_scale(self, sizes, d, log_spread, log_width, seed):
        rng = np.random.default_rng(seed)
        far = 10.0**log_spread
        p = KDEs([rng.normal(far * rng.normal(size=d), 1.0, (m, d)) for m in sizes], 10.0**log_width)
        assert_allclose(p.log_product(p), every_pair(expected_likelihood, p, p), rtol=1e-11, atol=1e-11)
        slow = every_pair(lambda *pair: mean_map(*pair, 0.3), p, p)
        assert_allclose(p.log_mean_map(p, gamma=0.3), slow, rtol=1e-11, atol=1e-11)

    def test_far_sets_keep_their_logarithm(self):
        p = KDEs([np.zeros((9, 2)), np.full((3, 2), 1e4) + np.arange(3)[:, None], np.full((1, 2), 1e200)], 1e-3)
        logs = p.log_mean_map(p, gamma=1.0)
        assert_allclose(logs[:2, :2], every_pair(lambda *pair: mean_map(*pair, 1.0), p[:2], p[:2]), rtol=1e-13)
        assert logs[0, 2] == -np.inf
        assert np.isfinite(np.diag(logs)).all()
        assert logs[0, 1] < -1e7

    def test_limits(self):
        p = estimates(4)
        points = KDEs(p.points, 1e-14)
        empirical = mc.EmpiricalMeanMap(gamma=0.4, normalize=False)(sets(4))
        assert_allclose(np.exp(points.log_mean_map(points, gamma=0.4)), empirical, rtol=1e-9)
        gamma = 1e9  # a base kernel that is nearly a point mass of weight (pi / gamma)^(d / 2)
        sharp = p.log_mean_map(p, gamma=gamma) - np.log(np.pi / gamma)
        assert_allclose(sharp, p.log_product(p), rtol=1e-7, atol=1e-7)
        assert_array_equal(p.log_mean_map(p, gamma=0.0), np.zeros((6, 6)))

    def test_memory_stays_small(self):
        import tracemalloc

        p = KDEs([np.random.default_rng(i).normal(size=(3000, 2)) for i in range(2)], 0.1)
        p.log_product(p)
        tracemalloc.start()
        p.log_product(p)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 50_000  # a table of pairs has 72 million bytes


class TestBandwidths:
    @pytest.mark.parametrize("d", [1, 3])
    def test_criterion_is_the_integrated_squared_error(self, d):
        """EST-6 is the integral of the squared estimate, minus twice the average of the left-out densities."""
        x, h = sets(0, (13,), d)[0], 0.3
        pairs = KDEs([x], h)
        out = [KDEs([np.delete(x, i, axis=0)], h).log_prob(x[i : i + 1])[0, 0] for i in range(13)]
        slow = np.exp(pairs.log_product(pairs)[0, 0]) - 2 * np.mean(np.exp(out))
        points = Points(x, [0, 13])
        found = criterion(points.packed, np.array([13]), np.array([h]), np.array([0.7]))
        assert_allclose(found * (4 * np.pi * 0.7) ** (-d / 2), slow, rtol=1e-11)

    @pytest.mark.parametrize("d", [1, pytest.param(2, marks=pytest.mark.slow)])
    def test_least_of_the_criterion(self, d):
        data = [np.concatenate([sets(s, (40,), d, 0.3)[0], sets(s + 50, (30,), d, 1.0)[0]]) for s in range(4)]
        points = Points(np.concatenate(data), np.arange(5) * 70)
        found = cross_validated(points.data, points.indptr, np.full(4, 1e-4))
        log_grid = np.log(silverman(points.data, points.indptr)[:, None]) + np.linspace(np.log(4), -8, 1500)
        for i, x in enumerate(data):
            distances = squared(x, x)

            def slow(h, distances=distances):
                m, kept = len(distances), ~np.eye(len(distances), dtype=bool)
                first = np.exp(-distances / (4 * h)).mean() * (4 * np.pi * h) ** (-d / 2)
                second = np.exp(-distances[kept] / (2 * h)).sum() * (2 * np.pi * h) ** (-d / 2)
                return first - 2 * second / (m * (m - 1))

            grid = np.exp(log_grid[i])
            least = min(slow(h) for h in grid[grid >= 1e-4])
            assert slow(found[i]) <= least + 1e-9 * abs(least)

    def test_silverman_of_scipy(self):
        x = sets(0, (25, 7), 1)
        points = Points(np.concatenate(x), [0, 25, 32])
        expected = [gaussian_kde(s[:, 0], bw_method="silverman").covariance[0, 0] for s in x]
        assert_allclose(silverman(points.data, points.indptr), expected, rtol=1e-12)

    def test_cross_validation_sees_clusters(self):
        rng = np.random.default_rng(0)
        x = [rng.normal(rng.choice([-4.0, 4.0], (300, 1)), 0.5)]
        wide, narrow = (KDE(rule).fit_each(x).bandwidth[0] for rule in ("silverman", "lscv"))
        assert narrow < wide / 5
        fresh = rng.normal(rng.choice([-4.0, 4.0], (500, 1)), 0.5)
        assert KDEs(x, narrow).log_prob(fresh).mean() > KDEs(x, wide).log_prob(fresh).mean()

    @pytest.mark.parametrize("rule", ["silverman", "lscv"])
    def test_floor(self, rule):
        x = [np.zeros((1, 1)), np.ones((5, 1)), np.array([[0.0], [10.0], [3.0], [4.0], [8.0]])]
        p = KDE(rule, floor=0.01).fit_each(x)
        assert p.bandwidth[0] == p.bandwidth[1] > 0
        assert p.bandwidth[2] >= p.bandwidth[0]
        variance = np.concatenate(x).var()
        assert 0.01 / 2 <= p.bandwidth[0] / variance <= 0.01 * 2
        with pytest.raises(
            ValueError, match=r"sequence 0 has a single point, or only equal points, and floor is 0\. Use floor > 0"
        ):
            KDE(rule, floor=0.0).fit_each(x)

    @pytest.mark.parametrize("rule", ["silverman", pytest.param("lscv", marks=pytest.mark.slow)])
    def test_prior(self, rule):
        x = [*sets(0, (20, 30, 400), 2), np.zeros((1, 2)), np.ones((6, 2))]
        own = KDE(rule, floor=0.0).fit_each(x[:3]).bandwidth
        m, power = np.array([20, 30, 400]), 2 / 6
        scale = np.exp(np.average(np.log(own * m**power), weights=m))
        model = KDE(rule, floor=0.0, prior="pooled", prior_strength=5.0).fit(x)
        found = model.fit_each(x).bandwidth
        logs = (m * np.log(own * m**power) + 5 * np.log(scale)) / (m + 5)
        assert_allclose(found[:3], np.exp(logs) / m**power, rtol=1e-10)
        assert_allclose(found[3:], scale / np.array([1, 6]) ** power, rtol=1e-10)
        given = KDEs([np.zeros((1, 2))], scale)
        again = KDE(rule, floor=0.0, prior=given, prior_strength=5.0).fit_each(x).bandwidth
        assert_allclose(again, found, rtol=1e-12)
        assert_allclose(KDE(rule, prior="pooled", prior_strength=0.0).fit_each(x[:3]).bandwidth, own, rtol=1e-10)
        assert KDE(rule, prior="pooled").fit_each([np.zeros((1, 1)), np.ones((1, 1))]).bandwidth.min() > 0

    def test_equal_points_do_not_pull_the_bandwidth_to_zero(self):
        x = [np.round(np.random.default_rng(0).normal(size=(200, 1)), 1)]  # many ties: EST-6 falls without end
        assert KDE("lscv", floor=0.01).fit_each(x).bandwidth[0] >= 0.005

    def test_a_datum_alone(self):
        x = sets(2, (30, 12, 50), 2)
        for rule in ("silverman", "lscv"):
            model = KDE(rule).fit(x)
            with mc.config(cache_bytes=0):
                whole = model.fit_each(x)
                parts = model.fit_each(x[::-1])
                with mc.config(n_jobs=1):
                    assert_array_equal(model.fit_each(x).bandwidth, whole.bandwidth)
            assert_array_equal(parts.bandwidth, whole.bandwidth[::-1])
            assert parts.digests() == whole.digests()[::-1]


class TestEstimator:
    def test_one_for_all(self):
        x = sets(0)
        model = KDE("lscv").fit(x)
        assert model.model_.shape == (1,)
        by_row = lambda rows: rows[np.lexsort(rows.T)]  # noqa: E731
        assert_array_equal(by_row(model.model_.points.data), by_row(np.concatenate(x)))
        assert_allclose(model.score_samples(x), [model.model_.log_prob(s).sum() for s in x])

    def test_given_bandwidth(self):
        assert_array_equal(KDE(0.3).fit_each(sets(0)).bandwidth, np.full(6, 0.3))

    def test_a_row_is_a_point(self):
        x = np.random.default_rng(0).normal(size=(5, 2))
        p = KDE(0.5).fit_each(x)
        assert p.shape == (5,)
        assert_array_equal(p.points.data, x)

    def test_cache_and_new_data(self):
        x = sets(3, (10, 11, 12))
        model = KDE("lscv").fit(x)
        p = model.fit_each(x)
        again = model.fit_each([x[2], sets(9, (7,))[0], x[0]])
        assert again[[0, 2]].digests() == p[[2, 0]].digests()
        assert_array_equal(again.n_points, [12, 7, 10])

    def test_parameters(self):
        model = KDE("lscv", floor=0.1)
        assert clone(model).get_params() == {"bandwidth": "lscv", "floor": 0.1, "prior": None, "prior_strength": 1.0}
        for bad in (KDE("scott"), KDE(0.0), KDE(-1.0), KDE(np.inf), KDE(None), KDE(True)):
            with pytest.raises(ValueError, match=r"bandwidth must be .*; got"):
                bad.fit(sets(0))
        with pytest.raises(ValueError, match=r"floor must be .*; got -1"):
            KDE(floor=-1).fit(sets(0))

    def test_bad_data(self):
        x = sets(0)
        with pytest.raises(ValueError, match=r"sequence 1 is empty; .* Leave it out"):
            KDE().fit_each([x[0], np.zeros((0, 2)), x[1]])
        with pytest.raises(ValueError, match=r"sequence 1 \(point 1\) has a missing coordinate"):
            KDE().fit_each([x[1], np.array([[0.0, 1.0], [np.nan, 0.0]])])
        with pytest.raises(TypeError, match="requires vectors; got symbols"):
            KDE().fit_each(["abc", "ab"])
        with pytest.raises(ValueError, match="coordinates"):
            KDE().fit(x).fit_each(sets(0, d=3))
        with pytest.raises(TypeError, match=r"cannot be components of other models.* Use mc\.Gaussian"):
            mc.Mixture(KDE(), prior=None).fit(x)
        for bad in (mc.Poissons([[1.0]]), "other", estimates()):
            with pytest.raises((TypeError, ValueError), match="prior"):
                KDE(prior=bad).fit(x)
        for rule in ("silverman", 0.5):
            with pytest.raises(ValueError, match=r"prior must have the dimension of the data, 2; got 3"):
                KDE(rule, prior=estimates(d=3)[:1]).fit_each(x)


class TestBatch:
    def test_indexing(self):
        p = estimates()
        assert len(p) == 6
        assert p.shape == (6,)
        assert p.dimension == 2
        assert_array_equal(p.n_points, SIZES)
        for key in (slice(1, 4), [3, 0], np.array([True, False] * 3), slice(None, None, -2), slice(0, 0)):
            part = p[key]
            assert_array_equal(part.n_points, p.n_points[key])
            assert_array_equal(part.bandwidth, p.bandwidth[key])
            assert part.digests() == [p.digests()[i] for i in np.arange(6)[key]]
        assert_array_equal(p[-1].points.data, p.points.set(5))
        assert [q.n_points for q in p] == list(SIZES)
        for bad in (6, (0, 0)):
            with pytest.raises(IndexError):
                p[bad]
        with pytest.raises(IndexError):
            p[0][0]

    def test_indexing_after_tiles_were_made(self):
        p = estimates()
        expected = p[[4, 1, 5]].log_product(p[2:])
        p.couple(mc.families.PowerProduct(1.0))
        assert_array_equal(p[[4, 1, 5]].log_product(p[2:]), expected)
        assert_array_equal(p[[4, 1, 5]][::-1][:2].log_product(p[2:][1:]), expected[::-1][:2, 1:])

    def test_joining(self):
        p, q = estimates(0), estimates(1, (2, 3))
        joined = KDEs.concat([p, q, p[:0]])
        assert joined.digests() == p.digests() + q.digests()
        assert_array_equal(joined.log_product(q)[6:], q.log_product(q))
        with pytest.raises(ValueError, match="differ in dimension"):
            KDEs.concat([p, estimates(d=3)])
        with pytest.raises(ValueError, match="differ in dimension"):
            p.log_product(estimates(d=3))
        with pytest.raises(TypeError, match=r"KDEs with Poissons.*same family"):
            p.log_product(mc.Poissons([[1.0, 2.0]]))

    def test_files_and_pickles(self, tmp_path):
        p = estimates()
        for q in (p, p[3], p[:0], p[[2, 2]]):
            q.save(tmp_path / "p.npz")
            for other in (mc.load(tmp_path / "p.npz"), KDEs.load(tmp_path / "p.npz"), pickle.loads(pickle.dumps(q))):
                assert other.shape == q.shape
                assert_array_equal(other.points.data, q.points.data)
                assert_array_equal(other.points.indptr, q.points.indptr)
                assert_array_equal(other.bandwidth, q.bandwidth)
                with pytest.raises(ValueError, match="read-only"):
                    other.points.data[...] = 0
        assert copy.deepcopy(p) is p

    def test_shapes(self):
        p = estimates()
        assert p.reshape(-1).digests() == p.digests()
        assert p[:1].reshape().shape == ()
        for bad in ((2, 3), (5,), ()):
            with pytest.raises(ValueError, match="one batch axis"):
                p.reshape(*bad)
        with pytest.raises(ValueError, match=r"must have shape \(N,\)"):
            p[0].log_product(p)
        assert p.nbytes == 42 * 2 * 8 + 7 * 8 + 6 * 8

    def test_representation(self):
        assert repr(estimates()) == "KDEs(shape=(6,), 1 to 17 points of 2 coordinates)"
        assert repr(KDEs([[[1.0]]], 1.0)) == "KDEs(shape=(1,), 1 point of 1 coordinate)"

    def test_forms_of_points(self):
        cube = np.arange(24.0).reshape(2, 4, 3)
        assert KDEs(cube, 1.0).digests() == KDEs(list(cube), 1.0).digests()
        assert KDEs([np.array([1.0, 2.0]), np.array([3.0])], 1.0).dimension == 1
        assert KDEs([s.astype(np.float32) for s in sets(0)], 1.0).log_product(KDEs(sets(0), 1.0)).dtype == np.float64

    def test_bad_input(self):
        x = sets(0)
        for bad in (0.0, -1.0, np.nan, np.inf):
            with pytest.raises(ValueError, match=r"bandwidth must be positive and finite; got .* at index 3"):
                KDEs(x, [1.0, 1.0, 1.0, bad, 1.0, 1.0])
        for bad in (np.ones(5), np.ones((6, 1)), "wide"):
            with pytest.raises(ValueError, match=r"one variance, or one per estimate, shape \(6,\); got"):
                KDEs(x, bad)
        with pytest.raises(ValueError, match=r"sequence 1 .*empty"):
            KDEs([x[0], np.zeros((0, 2))], 1.0)
        with pytest.raises(ValueError, match=r"finite coordinates; got .* at sequence 1 \(point 0\)\. Leave it out"):
            KDEs([x[0], np.array([[np.nan, 1.0]])], 1.0)
        with pytest.raises(TypeError, match="KDE requires vectors; got symbols"):
            KDEs(["ab"], 1.0)
        p = KDEs(x, 1.0)
        for bad in (np.zeros((3, 3)), np.zeros(2)):
            with pytest.raises(ValueError, match=r"must have shape \(T, 2\)"):
                p.log_prob(bad)
        with pytest.raises(ValueError, match=r"finite coordinates; got .* at point 1\. Leave it out"):
            p.log_prob([[0.0, 0.0], [np.nan, 0.0]])
        with pytest.raises(ValueError, match=r"rho must be .* got 0"):
            p.log_product(p, rho=0)
        with pytest.raises(ValueError, match="gamma"):
            p.log_mean_map(p, gamma=-1.0)
        with pytest.raises(TypeError, match="cannot be part of another model"):
            p.couple(mc.families.PowerProduct(1.0)).reshape(2, 3)

    def test_scikit_learn_models_that_are_none(self):
        x = sets(0, (20,))[0]
        for model, message in (
            (KernelDensity(), "Fit it first"),
            (KernelDensity(kernel="tophat").fit(x), "kernel='gaussian' .* got 'tophat'"),
            (KernelDensity(metric="manhattan").fit(x), "'manhattan'"),
            (KernelDensity().fit(x, sample_weight=np.arange(1.0, 21.0)), "Fit it without weights"),
        ):
            with pytest.raises(ValueError, match=message):
                KDEs.from_sklearn(model)
        with pytest.raises(TypeError, match="must be KernelDensity of scikit-learn; got a SVC"):
            KDEs.from_sklearn(SVC())


class TestMeanMapOfEstimates(KernelContract):
    def kernel(self):
        return mc.MeanMap(gamma=0.4)

    def data(self, seed, n):
        rng = np.random.default_rng(seed)
        points = [rng.normal(rng.normal(size=2), 0.5, size=(m, 2)) for m in rng.integers(1, 15, n)]
        return KDEs(points, rng.uniform(0.05, 0.5, n))

    def nearly(self, epsilon):
        x = np.array([[0.0, 1.0], [2.0, 0.5], [1.0, 1.0]])
        return KDEs([x, x + epsilon * np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])], 0.2)

    def truth(self, X):
        def pair(p, q):
            return np.exp(mean_map(p.points.data, p.bandwidth, q.points.data, q.bandwidth, 0.4))

        return by_pairs(pair, X)


class TestExpectedLikelihoodOfData(KernelContract):
    def kernel(self):
        return mc.ProbabilityProduct(KDE(0.3), rho=1.0)

    def data(self, seed, n):
        rng = np.random.default_rng(seed)
        return [rng.normal(rng.normal(size=2), 0.5, size=(m, 2)) for m in rng.integers(2, 12, n)]

    def truth(self, X):
        return by_pairs(lambda x, y: np.exp(expected_likelihood(x, 0.3, y, 0.3)), X)


class TestMeanMapOfData(KernelContract):
    def kernel(self):
        return mc.MeanMap(KDE("lscv"), gamma=0.4)

    def data(self, seed, n):
        return TestExpectedLikelihoodOfData().data(seed, n)

    def truth(self, X):
        p = KDE("lscv").fit_each(X)
        return np.exp(every_pair(lambda *pair: mean_map(*pair, 0.4), p, p))


def test_points_that_are_very_far_apart():
    x = np.random.default_rng(0).normal(size=(3, 1))
    p = mc.models.KDEs([x, x + 1.234e10, x + 7.7e10], 1.0)
    logs = p.log_product(p)
    assert np.isfinite(logs).all()
    nearest = min(abs(a - b) for a in x[:, 0] + 1.234e10 for b in x[:, 0] + 7.7e10)
    np.testing.assert_allclose(logs[1, 2], -(nearest**2) / 4, rtol=1e-12)
    np.testing.assert_allclose(
        mc.models.KDEs([[[0.0], [0.01]]], 1.0).log_prob([[1.1e10]])[0], -(1.1e10**2) / 2, rtol=1e-9
    )
