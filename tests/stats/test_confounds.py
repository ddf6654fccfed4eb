"""Tests with confounds: permutations by enumeration, regressions by least squares, levels, bad input."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import mercer as mc
from mercer.stats._confounds import Confounds
from mercer.stats._smoothers import PENALTIES, UNDERSMOOTHING, Smoother, Smoothers

LINEAR = mc.Linear(normalize=False)


def squared_effect(features, first, confounds):
    """The squared coefficient of the sample by the residual variance, minus its mean, from two regressions."""
    n, rank = confounds.shape
    full = np.column_stack([confounds, first])
    coefficient = np.linalg.lstsq(full, features, rcond=None)[0]
    within = np.sum((features - full @ coefficient) ** 2) / (n - rank - 1)
    precision = np.sum((first - confounds @ np.linalg.lstsq(confounds, first, rcond=None)[0]) ** 2)
    return (coefficient[-1] @ coefficient[-1] - within / precision) / within


def test_categories_are_strata_and_the_test_is_exact():
    rng = np.random.default_rng(1)
    site, first = np.array(list("aabbaabb")), np.arange(8) < 4
    features = rng.normal(size=(8, 2)) + 5 * (site == "a")[:, None] + 0.7 * first[:, None]
    dummies = np.column_stack([site == "a", site == "b"]).astype(float)
    strata = [np.flatnonzero(site == s) for s in "ab"]
    values = []
    for chosen in itertools.product(*(itertools.combinations(s, 2) for s in strata)):
        values.append(squared_effect(features, np.isin(np.arange(8), chosen).astype(float), dummies))
    observed = squared_effect(features, first.astype(float), dummies)
    found = mc.stats.two_sample_test(features[:4], features[4:], LINEAR, confounds=site)
    assert (found.exact, found.permuted) == (True, "objects within strata")
    assert found.p_value == pytest.approx(np.mean(np.array(values) >= observed - 1e-12))
    sides = list(site[:4]), list(site[4:])
    for options in (
        {"groups": site, "confounds": site},
        {"confounds": sides},
        {"confounds": np.repeat(site == "a", 1)},
    ):
        again = mc.stats.two_sample_test(features[:4], features[4:], LINEAR, **options)
        assert again.p_value == pytest.approx(found.p_value)


def test_whole_groups_are_compared_by_their_means():
    rng = np.random.default_rng(2)
    subject, age = np.repeat(np.arange(24), 3), np.repeat(rng.normal(size=24), 3)
    X = rng.normal(size=(72, 2)) + age[:, None]
    found = mc.stats.two_sample_test(X[:36], X[36:], LINEAR, groups=subject, confounds=age, n_permutations=99)
    means, ages = X.reshape(24, 3, 2).mean(axis=1), age[::3]
    plain = mc.stats.two_sample_test(means[:12], means[12:], LINEAR, confounds=ages, n_permutations=99)
    assert (found.p_value, found.statistic) == (plain.p_value, pytest.approx(plain.statistic))
    assert found.permuted == "signs of residuals of groups"
    np.testing.assert_allclose(found.weights, np.repeat(plain.weights / 3, 3))


def test_confounds_come_with_the_samples_in_a_tuple_or_in_one_table():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(3)
    age, X = rng.normal(size=30), rng.normal(size=(30, 2))
    A, B, a, b = X[:14], X[14:], age[:14], age[14:]
    expected = mc.stats.two_sample_test(A, B, mc.RBF(), confounds=(a, b), n_permutations=99)
    with_them = mc.Confounded(A, a), mc.Confounded(B, b)
    for found in (
        mc.stats.two_sample_test(A, B, mc.RBF(), confounds=pd.DataFrame({"age": age}), n_permutations=99),
        mc.stats.two_sample_test(*with_them, mc.RBF(), n_permutations=99),
        mc.stats.two_sample_test(*with_them, mc.Residualized(mc.RBF()), n_permutations=99),
        mc.stats.two_sample_test(A, B, mc.Residualized(mc.RBF()), confounds=(a, b), n_permutations=99),
    ):
        assert (found.p_value, found.statistic) == (expected.p_value, pytest.approx(expected.statistic))
    assert repr(with_them[0]) == "Confounded(14 objects, 1 confound)"
    both = mc.Confounded(A, pd.DataFrame({"age": a, "motion": a**2}))
    assert repr(both) == "Confounded(14 objects, 2 confounds: age, motion)"


def test_text_few_numbers_and_many_numbers():
    rng = np.random.default_rng(4)
    read = Confounds.read(
        [[s, k, x] for s, k, x in zip("ab" * 20, [1, 1, 2, 2] * 10, rng.normal(size=40), strict=True)], 40
    )
    assert read.strata.max() == 3
    assert read.numbers.shape == (40, 1)
    smoothers = read.smoothers("objects")
    x = read.numbers[:, 0]
    fixed = Smoother(smoothers.fixed, np.ones(smoothers.fixed.shape[1]))
    for explained in (x, x**2, (read.strata == 2).astype(float)):
        np.testing.assert_allclose(fixed.residuals(explained), 0, atol=1e-9)


# -- regressions ----------------------------------------------------------------------------------------------------


def ridge(basis, variances, penalty, fixed, values, train):
    """Penalized least squares on some objects by the normal equations: predictions for all objects."""
    both = np.column_stack([fixed, basis])
    cost = np.diag(np.r_[np.zeros(fixed.shape[1]), penalty / variances])
    part = both[train]
    return both @ np.linalg.solve(part.T @ part + cost, part.T @ values[train])


def test_leave_one_out_errors_are_those_of_refits():
    """The family and the penalty that are chosen have the least error of fits that leave out one object each."""
    rng = np.random.default_rng(10)
    n, c = 24, rng.normal(size=(24, 1))
    values = np.column_stack([np.sin(3 * c[:, 0]), c[:, 0] ** 3]) + 0.1 * rng.normal(size=(n, 2))
    smoothers = Smoothers.of(np.zeros(n, dtype=int), c)
    fixed = Smoother(smoothers.fixed, np.ones(3))
    table = {}
    for family, features in enumerate(smoothers.features):
        basis, singular = np.linalg.svd(fixed.residuals(features), full_matrices=False)[:2]
        keep = singular > 1e-4 * singular[0]
        basis, variances = basis[:, keep], singular[keep] ** 2 / np.sum(singular[keep] ** 2)
        for penalty in PENALTIES:
            if np.sum(variances / (variances + penalty)) > n / 2:
                continue
            errors = []
            for i in range(n):
                train = np.arange(n) != i
                fitted = ridge(basis, variances, penalty, smoothers.fixed, values, train)
                errors.append(np.sum((values[i] - fitted[i]) ** 2))
            table[family, penalty] = np.mean(errors)
    error, chosen = smoothers._best([values @ values.T])
    assert error == pytest.approx(np.log(min(table.values())))
    assert chosen.shares.sum() > 3


def test_a_chosen_regression_is_less_smooth():
    rng = np.random.default_rng(11)
    n, c = 80, rng.normal(size=(80, 1))
    values = np.sin(2 * c[:, 0]) + 0.5 * rng.normal(size=n)
    smoothers = Smoothers.of(np.zeros(n, dtype=int), c)
    chosen = smoothers._best([np.outer(values, values)])[1]
    basis, shares = chosen.basis[:, 3:], chosen.shares[3:]
    errors = {}
    for features in smoothers.features:
        left = Smoother(smoothers.fixed, np.ones(3)).residuals(features)
        variances = np.linalg.svd(left, compute_uv=False)[: len(shares)] ** 2
        for penalty in PENALTIES / UNDERSMOOTHING:
            found = variances / variances.sum()
            if len(found) == len(shares):
                errors[penalty] = min(errors.get(penalty, 1), np.abs(found / (found + penalty) - shares).max())
    assert min(errors.values()) < 0.05
    np.testing.assert_allclose(basis.T @ basis, np.eye(len(shares)), atol=1e-9)


def test_a_step_is_found_as_a_jump():
    rng = np.random.default_rng(12)
    c = rng.normal(size=(60, 1))
    step = np.where(c[:, 0] > 0.3, 1.0, -1.0)
    values = step + 0.2 * rng.normal(size=60)
    chosen = Smoothers.of(np.zeros(60, dtype=int), c).fit([np.outer(values, values)])
    assert np.abs(chosen.residuals(step)).max() < 0.02
    smooth = Smoothers.of(np.zeros(60, dtype=int), c)._best([np.outer(values, values)])[1]
    assert np.abs(smooth.residuals(step)).max() > 0.1


def test_residual_gram_and_covariance_by_definition():
    rng = np.random.default_rng(13)
    basis = np.linalg.qr(rng.normal(size=(9, 4)))[0]
    smoother = Smoother(basis, np.array([1.0, 0.9, 0.5, 0.1]))
    R = np.eye(9) - basis @ np.diag(smoother.shares) @ basis.T
    K = (lambda A: A @ A.T)(rng.normal(size=(9, 3)))
    np.testing.assert_allclose(smoother.residual_gram(K), R @ K @ R.T, atol=1e-12)
    np.testing.assert_allclose(smoother.covariance(), R @ R.T, atol=1e-12)


@pytest.mark.parametrize("kernels", [(LINEAR, LINEAR), (mc.RBF(), LINEAR)], ids=["linear", "gaussian"])
def test_independence_by_drawing_signs_of_residuals(kernels):
    """Statistic, factor and signs from matrices that are written out."""
    rng = np.random.default_rng(5)
    n, c = 30, rng.normal(size=30)
    x, z = rng.normal(size=(n, 2)) + c[:, None], rng.normal(size=(n, 1)) - c[:, None] ** 2
    found = mc.stats.independence_test(x, z, *kernels, confounds=c, n_permutations=199, random_state=3)
    smoothers = Smoothers.of(np.zeros(n, dtype=int), c[:, None])
    sides = []
    for kernel, values in zip(kernels, (x, z), strict=True):
        K = np.asarray((mc.RBF("median").fit(values) if isinstance(kernel, mc.RBF) else kernel)(values))
        fit = smoothers.fit([K])
        R = np.eye(n) - fit.basis @ np.diag(fit.shares) @ fit.basis.T
        sides.append((R @ K @ R, R))
    (K, R), (L, S) = sides
    factor = np.sum((R.T @ S) ** 2) / np.sum((R**2).sum(axis=1) * (S**2).sum(axis=1))
    statistic = (np.sum(K * L) - factor * np.sum(np.diag(K) * np.diag(L))) / n**2
    signs = np.random.default_rng(3).choice([-1.0, 1.0], size=(199, n))
    null = [factor * (w @ (K * L) @ w - np.sum(np.diag(K) * np.diag(L))) / n**2 for w in signs]
    assert (found.permuted, found.exact) == ("signs of residuals of objects", False)
    assert found.statistic == pytest.approx(statistic)
    np.testing.assert_allclose(found.null, null, atol=1e-12)
    assert found.p_value == (1 + np.sum(np.array(null) >= statistic)) / 200
    given = mc.stats.independence_test(
        mc.Confounded(x, c), z, mc.Residualized(kernels[0]), kernels[1], n_permutations=199, random_state=3
    )
    assert given.p_value == found.p_value


def test_two_samples_by_drawing_signs_of_residuals():
    rng = np.random.default_rng(6)
    n, first = 30, np.arange(30) < 14
    age = rng.normal(size=n) + 0.5 * first
    X = rng.normal(size=(n, 2)) + age[:, None]
    found = mc.stats.two_sample_test(
        X[:14], X[14:], LINEAR, confounds=(age[:14], age[14:]), n_permutations=199, random_state=3
    )
    smoothers = Smoothers.of(np.zeros(n, dtype=int), age[:, None])
    matrices = []
    for fit in (smoothers.smooth(first.astype(float)), smoothers.fit([X @ X.T])):
        matrices.append(np.eye(n) - fit.basis @ np.diag(fit.shares) @ fit.basis.T)
    u, residual = matrices[0] @ first, matrices[1] @ X
    R = matrices[1]
    noise = np.sum((R.T @ u) ** 2)  # the mean of |sum_i u_i e_i|^2 for errors of variance 1
    factor = noise / np.sum(u**2 * (R**2).sum(axis=1))
    own = np.sum(u**2 * (residual**2).sum(axis=1))
    statistic = (np.sum((u @ residual) ** 2) - factor * own) / (u @ u) ** 2
    signs = np.random.default_rng(3).choice([-1.0, 1.0], size=(199, n))
    null = [factor * (np.sum(((w * u) @ residual) ** 2) - own) / (u @ u) ** 2 for w in signs]
    assert found.permuted == "signs of residuals of objects"
    assert found.statistic == pytest.approx(statistic)
    np.testing.assert_allclose(found.null, null, atol=1e-12)
    assert found.p_value == (1 + np.sum(np.array(null) >= statistic)) / 200
    np.testing.assert_allclose(found.weights, u / (u @ u))


def test_the_factor_is_that_of_simulated_errors():
    """Sums over pairs of residuals of independent errors have the mean of scaled sums with drawn signs."""
    rng = np.random.default_rng(14)
    n, c = 30, rng.normal(size=30)
    smoothers = Smoothers.of(np.zeros(n, dtype=int), c[:, None])
    fits = [smoothers.fit([np.outer(values, values)]) for values in (np.sin(3 * c), c**3)]
    covariances = [fit.covariance() for fit in fits]
    factor = np.sum(covariances[0] * covariances[1]) / (np.diag(covariances[0]) @ np.diag(covariances[1]))
    errors = [fit.residuals(rng.normal(size=(n, 20_000))) for fit in fits]
    products = errors[0] * errors[1]
    assert np.mean(products.sum(axis=0) ** 2) / np.mean((products**2).sum(axis=0)) == pytest.approx(factor, rel=0.05)
    assert factor > 1.1


def test_groups_are_said_where_groups_were_passed():
    rng = np.random.default_rng(15)
    groups, site = np.repeat(np.arange(10), 4), ["a", "b"] * 20
    x, z = rng.normal(size=(2, 40))
    within = mc.stats.independence_test(x, z, groups=groups, confounds=site, n_permutations=19)
    assert within.permuted == "objects within groups and strata"
    numbers = mc.stats.independence_test(x, z, groups=groups, confounds=rng.normal(size=40), n_permutations=19)
    assert numbers.permuted == "signs of residuals of objects"


# -- levels: groups differ in the confound only ---------------------------------------------------------------------


def samples(rng, kind, n=40):
    """Two samples that depend on a confound in a curve, and nothing else; the confound differs between samples."""
    if kind == "site":
        confounds = [rng.choice(3, size=n, p=p).astype(float) for p in ([0.6, 0.3, 0.1], [0.2, 0.3, 0.5])]
    else:
        confounds = [rng.normal(size=n), rng.normal(size=n) + 0.8]
    X, Y = (np.column_stack([c, c**2 / 2]) + rng.normal(size=(n, 2)) for c in confounds)
    return X, Y, tuple(confounds)


def rates(kind, kernel, runs):
    """Share of rejections with and without the confound."""
    rng, given, naive = np.random.default_rng(100), [], []
    for seed in range(runs):
        X, Y, confounds = samples(rng, kind)
        options = {"n_permutations": 99, "random_state": seed}
        given.append(mc.stats.two_sample_test(X, Y, kernel, confounds=confounds, **options).p_value <= 0.05)
        if seed < 30:
            naive.append(mc.stats.two_sample_test(X, Y, kernel, **options).p_value <= 0.05)
    return np.mean(given), np.mean(naive)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [None, mc.RBF(), LINEAR], ids=["fused", "median", "linear"])
@pytest.mark.parametrize("kind", ["age", "site"])
def test_level_where_samples_differ_in_the_confound_only(kind, kernel):
    given, naive = rates(kind, kernel, 400)
    assert 0.03 <= given <= 0.08
    assert naive > 0.3


def test_level_in_a_few_runs():
    given, naive = rates("age", mc.RBF(), 30)
    assert given < 0.25 < naive


CURVES = {"linear": lambda c: c, "quadratic": np.square, "sine": lambda c: np.sin(3 * c), "step": np.sign}


def level(curve, n, irrelevant, runs, **kernels):
    """Share of rejections where both sides follow a confound closely, and nothing else."""
    rejected = []
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        c = rng.normal(size=(n, 1 + irrelevant))
        x, z = CURVES[curve](c[:, 0]) + 0.3 * rng.normal(size=(2, n))
        found = mc.stats.independence_test(x, z, confounds=c, n_permutations=99, random_state=seed, **kernels)
        rejected.append(found.p_value <= 0.05)
    return np.mean(rejected)


@pytest.mark.slow
@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize(("n", "irrelevant", "runs"), [(40, 0, 200), (60, 2, 100), (200, 0, 60)])
def test_level_where_both_sides_follow_a_confound_closely(curve, n, irrelevant, runs):
    assert level(curve, n, irrelevant, runs) <= 0.05 + 2.5 * np.sqrt(0.05 * 0.95 / runs)


def test_level_where_both_sides_follow_a_confound_closely_in_a_few_runs():
    """Splines with four knots rejected in .43 of runs; 8 or more of 20 at level .05 has probability 2e-6."""
    assert level("linear", 100, 0, 8) <= 3 / 8


@pytest.mark.slow
def test_level_where_both_variances_grow_with_a_confound():
    """Permutations of residuals reject in .3 of runs: large residuals meet large ones."""
    rejected = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        c = rng.normal(size=60)
        x, z = np.exp(c) * rng.normal(size=(2, 60))
        found = mc.stats.independence_test(x, z, confounds=c, n_permutations=99, random_state=seed)
        rejected.append(found.p_value <= 0.05)
    assert np.mean(rejected) <= 0.09


def test_dependence_given_a_confound_is_found():
    rng = np.random.default_rng(16)
    c, e = rng.normal(size=(2, 80))
    x, z = np.sin(3 * c) + 0.3 * e, np.sign(c) + 0.3 * (0.8 * e + 0.6 * rng.normal(size=80))
    assert mc.stats.independence_test(x, z, confounds=c).p_value < 0.01
    assert mc.stats.independence_test(x, z, mc.RBF(), mc.RBF(), confounds=c).p_value < 0.01


def test_a_side_that_the_confounds_tell_has_nothing_left():
    rng = np.random.default_rng(17)
    c, z = rng.normal(size=(2, 40))
    with pytest.raises(ValueError, match="determine all values of X, so nothing is left"):
        mc.stats.independence_test(3 * c - 1, z, confounds=c)


@pytest.mark.slow
def test_level_of_independence_given_a_confound():
    rng, rejected = np.random.default_rng(7), []
    for seed in range(200):
        c = rng.normal(size=40)
        X, z = np.column_stack([c, c**2 / 2]) + rng.normal(size=(40, 2)), c + rng.normal(size=40)
        found = mc.stats.independence_test(X, z, confounds=c, n_permutations=99, random_state=seed)
        rejected.append(found.p_value <= 0.05)
    assert 0.02 <= np.mean(rejected) <= 0.085


@pytest.mark.parametrize(
    ("confounds", "options", "match"),
    [
        (np.ones((5, 1)), {}, "one row for each of 12 objects"),
        (["a"] * 6 + ["b"] * 6, {}, "determine which sample an object is in"),
        ([1.0, float("nan")] * 6, {}, "confound 0 has no entry for object 1"),
        (np.arange(12.0), {}, "with 1 columns of numbers and 1 strata need at least 20 objects .*; got 12"),
        (list("abcdefghijab"), {}, "0 columns of numbers and 10 strata need at least 13 objects"),
        (list("abababababab"), {"groups": np.arange(12) // 2}, "Objects 0 and 1 are of one group"),
    ],
)
def test_bad_confounds_get_one_sentence(confounds, options, match):
    X = np.random.default_rng(8).normal(size=(12, 2))
    with pytest.raises((ValueError, TypeError), match=match):
        mc.stats.two_sample_test(X[:6], X[6:], mc.RBF(), confounds=confounds, **options)


def test_confounds_are_passed_once_and_for_both_samples():
    X, c = np.random.default_rng(9).normal(size=(12, 2)), np.arange(12.0)
    with pytest.raises(TypeError, match="both have confounds"):
        mc.stats.two_sample_test(mc.Confounded(X[:6], c[:6]), X[6:], mc.RBF())
    with pytest.raises(TypeError, match="got no confounds"):
        mc.stats.two_sample_test(X[:6], X[6:], mc.Residualized(mc.RBF()))
    with pytest.raises(TypeError, match="confounds already"):
        mc.stats.independence_test(mc.Confounded(X, c), c, confounds=c)


@pytest.mark.parametrize("unit", [2.0**-1000, 2.0**-600, 2.0**600, 2.0**1000])
def test_the_unit_of_a_confound_does_not_matter_even_if_its_square_overflows(unit):
    rng = np.random.default_rng(0)
    X, Z, confound = rng.normal(size=(40, 2)), rng.normal(size=(40, 1)), rng.normal(size=40)
    expected, found = (
        mc.stats.independence_test(X, Z, confounds=confound * scale, n_permutations=19) for scale in (1.0, unit)
    )
    assert found.p_value == expected.p_value
    assert found.correlation == pytest.approx(expected.correlation, abs=1e-12)
