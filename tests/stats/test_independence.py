"""Independence tests: the unbiased criterion by enumeration of quadruples, permutations, groups, bad input."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

import mercer as mc
from mercer.stats._pairs import centered

RBF = mc.RBF(gamma=1.0)


def by_quadruples(K, L):
    """The U-statistic of Gretton et al. over all ordered quadruples of different objects."""
    values = [K[i, j] * (L[i, j] + L[q, r] - 2 * L[i, q]) for i, j, q, r in itertools.permutations(range(len(K)), 4)]
    return np.mean(values)


def test_statistic_is_the_mean_over_quadruples():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(7, 1))
    z = x + rng.normal(size=(7, 1))
    found = mc.stats.independence_test(x, z, RBF, RBF, n_permutations=19)
    assert found.statistic == pytest.approx(by_quadruples(RBF(x), RBF(z)))
    assert np.abs(centered(RBF(x)).sum(axis=0)).max() < 1e-14


def test_exact_p_value_is_that_of_all_orders():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(5, 1))
    z = x**2
    K, L = RBF(x), RBF(z)
    values = [by_quadruples(K, L[np.ix_(order, order)]) for order in itertools.permutations(range(5))]
    found = mc.stats.independence_test(x, z, RBF, RBF)
    assert found.exact
    assert found.p_value == pytest.approx(np.mean(np.array(values) >= values[0] - 1e-14))


def test_null_p_values_are_uniform_and_dependence_is_found():
    rng = np.random.default_rng(2)
    p = [
        mc.stats.independence_test(*rng.normal(size=(2, 12, 1)), RBF, RBF, n_permutations=99, random_state=i).p_value
        for i in range(100)
    ]
    assert stats.kstest(p, "uniform").pvalue > 0.01
    x = rng.normal(size=(60, 1))
    found = mc.stats.independence_test(x, np.cos(3 * x), RBF, RBF)
    assert found.p_value < 0.01
    assert 0 < found.correlation <= 1
    assert mc.stats.independence_test(x, x, RBF, RBF, n_permutations=19).correlation == pytest.approx(1.0)


def test_a_trait_of_subjects_is_tested_by_subject():
    """Subjects have their own level, and the trait is a coin: objects are no evidence, subjects are."""
    rng = np.random.default_rng(3)
    p = []
    for i in range(40):
        subject = np.repeat(np.arange(8), 6)
        x = rng.normal(size=(8, 1))[subject] + 0.1 * rng.normal(size=(48, 1))
        trait = rng.permutation([0, 0, 0, 0, 1, 1, 1, 1])[subject]
        found = mc.stats.independence_test(x, trait, RBF, groups=subject, n_permutations=99, random_state=i)
        assert found.permuted == "groups"
        p.append(found.p_value)
    swapped = mc.stats.independence_test(trait, x, "labels", RBF, groups=subject, n_permutations=99, random_state=39)
    found = mc.stats.independence_test(x, trait, RBF, "labels", groups=subject, n_permutations=99, random_state=39)
    assert (swapped.statistic, swapped.permuted) == (pytest.approx(found.statistic), "groups")
    assert np.mean(np.array(p) < 0.05) < 0.2


def test_objects_are_permuted_within_groups_where_both_vary():
    rng = np.random.default_rng(5)
    subject = np.repeat(np.arange(10), 5)
    level = 5 * rng.normal(size=(10, 1))[subject]
    x, z = level + rng.normal(size=(50, 1)), level + rng.normal(size=(50, 1))
    plain = mc.stats.independence_test(x, z, mc.RBF(gamma=0.1), mc.RBF(gamma=0.1))
    within = mc.stats.independence_test(x, z, mc.RBF(gamma=0.1), mc.RBF(gamma=0.1), groups=subject)
    assert within.permuted == "objects within groups"
    assert plain.p_value < 0.01 < 0.05 < within.p_value


def test_labels_and_constant_input():
    found = mc.stats.independence_test(["aa", "ab", "bb", "ba"] * 3, ["x", "y", "y", "x"] * 3, mc.Spectrum(1))
    assert found.n == 12
    constant = mc.stats.independence_test(["ab"] * 8, list("xyxyxyxy"), mc.Spectrum(1), n_permutations=49)
    assert (constant.p_value, constant.correlation) == (1.0, 0.0)


# -- widths from the data -----------------------------------------------------------------------------------------


def fused_by_definition(x, z):
    """The soft maximum of the correlations of all pairs of widths, by quadruples."""

    def kernels(values):
        low, high = np.quantile(values, [0.1, 0.9], axis=0)
        values = values / (high - low) * (2 * stats.norm.ppf(0.9))
        squared = ((values[:, None] - values) ** 2).sum(axis=-1)
        low, high = np.sqrt(np.quantile(squared[np.tril_indices(len(values), -1)], [0.05, 0.95]))
        return [np.exp(-squared / (2 * s**2)) for s in np.geomspace(low / 2, 2 * high, 5)]

    def correlation(K, L):
        return by_quadruples(K, L) / np.sqrt(by_quadruples(K, K) * by_quadruples(L, L))

    n = len(x)
    values = np.array([correlation(K, L) for K in kernels(x) for L in kernels(z)])
    means = [sum(K / np.sqrt(by_quadruples(K, K)) for K in kernels(side)) for side in (x, z)]
    return np.log(np.mean(np.exp(np.sqrt(n * (n - 1)) * values))) / np.sqrt(n * (n - 1)), correlation(*means)


def test_every_permutation_computes_the_whole_fused_statistic():
    rng = np.random.default_rng(6)
    x = rng.normal(size=(5, 2))
    z = x[:, 0] ** 2 + 0.1 * rng.normal(size=5)
    found = mc.stats.independence_test(x, z)
    orders = list(itertools.permutations(range(5)))
    assert (found.exact, found.n_permutations, found.n_widths) == (True, 120, (5, 5))
    assert (found.statistic, found.correlation) == pytest.approx(fused_by_definition(x, z[:, None]))
    some = [fused_by_definition(x, z[list(order), None])[0] for order in orders[1:4]]
    assert np.abs(np.array(some)[:, None] - found.null).min(axis=1).max() < 1e-12
    assert found.p_value == pytest.approx(np.mean(found.null >= found.statistic - 1e-12))
    assert "Gaussian kernels of 5 x 5 widths" in str(found)


def test_units_of_columns_do_not_matter():
    """One of two columns tells z: the other one is noise, in units of its own."""
    rng = np.random.default_rng(11)
    X = rng.normal(size=(60, 2))
    z = X[:, 0] + 0.8 * rng.normal(size=60)
    found = [mc.stats.independence_test(X * [1, s], z, n_permutations=199) for s in (1, 1000, 1e-6)]
    assert [one.p_value for one in found] == [1 / 200] * 3
    assert [one.statistic for one in found] == pytest.approx([found[0].statistic] * 3)


@pytest.mark.parametrize("kernels", [(), (mc.RBF(), mc.RBF())], ids=["fused", "median"])
def test_units_do_not_matter(kernels):
    rng = np.random.default_rng(7)
    x = rng.normal(size=40)
    z = x**2 + 0.3 * rng.normal(size=40)
    found = [mc.stats.independence_test(s * x, z / s, *kernels, n_permutations=199) for s in (1e-3, 1, 1e3)]
    assert [one.p_value for one in found] == [1 / 200] * 3
    assert [one.correlation for one in found] == pytest.approx([found[0].correlation] * 3)


def test_each_side_has_its_own_width():
    rng = np.random.default_rng(8)
    x, z = rng.normal(size=(20, 1)), 1000 * rng.normal(size=(20, 1))
    K, L = (mc.RBF(gamma="median").fit(side) for side in (x, z))
    expected = mc.stats.independence_test(x, z, K, L, n_permutations=19).statistic
    assert mc.stats.independence_test(x, z, mc.RBF(), mc.RBF(), n_permutations=19).statistic == pytest.approx(expected)


def test_two_numbers_are_the_same_test_as_two_labels():
    rng = np.random.default_rng(9)
    x, y = rng.normal(size=(20, 1)), np.arange(20) % 2
    numbers, labels = (mc.stats.independence_test(x, y, RBF, kernel) for kernel in (None, "labels"))
    assert numbers.p_value == labels.p_value
    assert numbers.correlation == pytest.approx(labels.correlation)


def test_several_samples_are_compared_by_their_labels():
    rng = np.random.default_rng(12)
    X = np.concatenate([rng.normal(size=(15, 2)), rng.normal(size=(15, 2)), rng.normal(size=(15, 2)) + 1.5])
    samples = np.repeat([0, 1, 2], 15)
    assert mc.stats.independence_test(X, samples, kernel_z="labels").p_value < 0.01
    with pytest.raises(TypeError, match=r'got a ndarray of 15 objects. .*independence_test\(.*kernel_z="labels"'):
        mc.stats.two_sample_test(X[:15], X[15:30], X[30:])


def test_results_are_shown_in_a_line_a_sentence_and_a_table():
    rng = np.random.default_rng(13)
    x = rng.normal(size=30)
    found = mc.stats.independence_test(x, x + 3 * rng.normal(size=30), n_permutations=99, random_state=7)
    error = np.sqrt(found.p_value * (1 - found.p_value) / 99)
    assert found.monte_carlo_error == pytest.approx(error)
    assert f"(p = {found.p_value:.3f} +/- {error:.2g}; 99 random permutations of objects, seed 7;" in str(found)
    assert repr(found) == f"Independence(p_value={found.p_value:.3g}, correlation={found.correlation:.3f}, n=30)"
    assert f"<th>correlation</th><td>{found.correlation:.3f}</td>" in found._repr_html_()
    drawn = mc.stats.independence_test(x, x, n_permutations=99, random_state=np.random.default_rng(0))
    assert "seed" not in str(drawn)
    exact = mc.stats.independence_test(x[:5], x[:5] ** 2)
    assert exact.monte_carlo_error == 0
    assert "; all 120 permutations of objects;" in str(exact)
    assert "+/-" not in str(exact)


@pytest.mark.slow
def test_fused_level_and_power():
    rng, rejected = np.random.default_rng(10), []
    for seed in range(200):
        x, z = rng.normal(size=(2, 30))
        pairs = (x, z), (x, np.sin(3 * x) + 0.5 * z)
        rejected.append(
            [mc.stats.independence_test(*p, n_permutations=99, random_state=seed).p_value <= 0.05 for p in pairs]
        )
    level, power = np.mean(rejected, axis=0)
    assert 0.02 <= level <= 0.085
    assert power > 0.5


@pytest.mark.parametrize(
    ("arguments", "options", "match"),
    [
        ((["a"] * 5, [1] * 4, mc.Spectrum(1)), {}, "same objects; got 5 and 4"),
        ((["a"] * 3, [1, 2, 1], mc.Spectrum(1)), {}, "at least 4 objects; got 3"),
        ((["a"] * 5, list("abcde"), mc.Spectrum(1)), {}, "labels of Z are different.*mc.RBF"),
        ((["a"] * 5, [1, 1, 1, 1, 1], mc.Spectrum(1)), {}, "values of Z are equal"),
        ((["a"] * 5, ["b"] * 5, mc.Spectrum(1)), {}, "labels of Z are equal"),
        ((["a"] * 5, ["a", "a", None, "b", "b"], mc.Spectrum(1)), {}, "Z has no entry for object 2"),
        ((["a"] * 5, [[1.0]] * 5, mc.Spectrum(1), "labels"), {}, "one label per object.*mc.RBF"),
        ((["a", "b"] * 3, [1, 2, 3, 4, 5, 6]), {}, r"got strings. Pass kernel_x, such as mc.Spectrum\(3\)"),
        (([1, 2, 3, 4], [[[1.0]], [[2.0], [1.0]]] * 2), {}, r"got series. Pass kernel_z, such as mc.Fisher"),
        ((["a"] * 5, [1, 1, 1, 2, 2], "rbf"), {}, "kernel_x must be a kernel.*'rbf'"),
        ((["a"] * 5, [1, 1, 1, 2, 2], mc.Spectrum(1)), {"n_permutations": 1.5}, "n_permutations.*1.5"),
        ((["a"] * 6, [1, 1, 2, 2, 1, 1], mc.Spectrum(1)), {"groups": [0, 0, 1, 1, 2, 2]}, "at least 4 groups; got 3"),
    ],
)
def test_bad_input_gets_one_sentence(arguments, options, match):
    with pytest.raises((ValueError, TypeError), match=match):
        mc.stats.independence_test(*arguments, **options)
