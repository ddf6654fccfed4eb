"""Tests with confounds: permutations by enumeration, regressions by least squares, levels, bad input."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import mercer as mc
from mercer.stats._confounds import Confounds, residual

LINEAR = mc.Linear(normalize=False)


def squared_effect(features, first, confounds):
    """The squared coefficient of the sample by the residual variance, minus its mean, from two regressions."""
    n, rank = confounds.shape
    full = np.column_stack([confounds, first])
    coefficient = np.linalg.lstsq(full, features, rcond=None)[0]
    within = np.sum((features - full @ coefficient) ** 2) / (n - rank - 1)
    precision = np.sum((first - confounds @ np.linalg.lstsq(confounds, first, rcond=None)[0]) ** 2)
    return (coefficient[-1] @ coefficient[-1] - within / precision) / within


def test_freedman_and_lane_by_least_squares():
    """Residuals of the regression on age are permuted and added again, and the whole regression is fitted again."""
    rng = np.random.default_rng(0)
    age, first = rng.normal(size=6), np.array([1.0, 1, 1, 0, 0, 0])
    features = rng.normal(size=(6, 2)) + age[:, None]
    design = np.column_stack([np.ones(6), age])
    fitted = design @ np.linalg.lstsq(design, features, rcond=None)[0]
    values = []
    for order in itertools.permutations(range(6)):
        moved = fitted + (features - fitted)[list(order)]
        values.append(squared_effect(moved, first, design))
    found = mc.stats.two_sample_test(features[:3], features[3:], LINEAR, confounds=(age[:3], age[3:]))
    assert (found.exact, found.permuted, found.n_permutations) == (True, "residuals of objects", 720)
    assert found.p_value == pytest.approx(np.mean(np.array(values) >= values[0] - 1e-12))
    variance = np.sum((features - fitted) ** 2) / 4
    assert found.statistic / variance == pytest.approx(values[0])
    assert found.effect_size == pytest.approx(np.sqrt(max(values[0], 0)))


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
    subject, age = np.repeat(np.arange(12), 3), np.repeat(rng.normal(size=12), 3)
    X = rng.normal(size=(36, 2)) + age[:, None]
    found = mc.stats.two_sample_test(X[:18], X[18:], LINEAR, groups=subject, confounds=age, n_permutations=99)
    means, ages = X.reshape(12, 3, 2).mean(axis=1), age[::3]
    plain = mc.stats.two_sample_test(means[:6], means[6:], LINEAR, confounds=ages, n_permutations=99)
    assert (found.p_value, found.statistic) == (plain.p_value, pytest.approx(plain.statistic))
    assert found.permuted == "residuals of groups"
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
    basis = read.basis()
    assert basis.shape == (40, 4 + 5)  # a cubic spline with four knots has five columns next to a constant
    np.testing.assert_allclose(basis.T @ basis, np.eye(9), atol=1e-12)
    x = read.numbers[:, 0]
    for explained in (x, x**2, x**3, read.strata == 2):
        np.testing.assert_allclose(residual(np.outer(explained, explained), basis), 0, atol=1e-9)
    assert Confounds.read(rng.normal(size=20), 20).basis().shape == (20, 2)  # too few objects for a spline


def test_independence_given_a_confound_by_least_squares():
    rng = np.random.default_rng(5)
    c = rng.normal(size=6)
    x, z = rng.normal(size=(6, 2)) + c[:, None], rng.normal(size=(6, 1)) - c[:, None]
    design = np.column_stack([np.ones(6), c])

    def rest(values):
        return values - design @ np.linalg.lstsq(design, values, rcond=None)[0]

    def correlation(a, b):
        K, L, free = a @ a.T, b @ b.T, 4

        def product(A, B):
            return np.sum(A * B) - np.trace(A) * np.trace(B) / free

        return product(K, L) / np.sqrt(product(K, K) * product(L, L))

    values = [correlation(rest(x), rest(rest(z)[list(order)])) for order in itertools.permutations(range(6))]
    found = mc.stats.independence_test(x, z, LINEAR, LINEAR, confounds=c)
    assert (found.exact, found.permuted, found.correlation) == (True, "residuals of objects", pytest.approx(values[0]))
    assert found.p_value == pytest.approx(np.mean(np.array(values) >= values[0] - 1e-12))
    given = mc.stats.independence_test(mc.Confounded(x, c), z, mc.Residualized(LINEAR), LINEAR)
    assert given.p_value == found.p_value


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
        (["a"] * 6 + ["b"] * 6, {}, "tell which sample an object is in"),
        ([1.0, float("nan")] * 6, {}, "confound 0 has no entry for object 1"),
        (np.eye(12)[:, :11] + np.arange(12.0)[:, None], {}, "explain .* of 12 objects"),
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
