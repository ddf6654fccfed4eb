"""Independence tests: the unbiased criterion by enumeration of quadruples, permutations, groups, bad input."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

import mercer as mc
from mercer.stats.independence import _centered

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
    assert np.abs(_centered(RBF(x)).sum(axis=0)).max() < 1e-14


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


@pytest.mark.parametrize(
    ("arguments", "options", "match"),
    [
        ((["a"] * 5, [1] * 4, mc.Spectrum(1)), {}, "same objects; got 5 and 4"),
        ((["a"] * 3, [1, 2, 1], mc.Spectrum(1)), {}, "at least 4 objects; got 3"),
        ((["a"] * 5, [1.5, 2.5, 3.5, 4.5, 5.5], mc.Spectrum(1)), {}, "labels of Z are different.*mc.RBF"),
        ((["a"] * 5, [1, 1, 1, 1, 1], mc.Spectrum(1)), {}, "labels of Z are equal"),
        ((["a"] * 5, [1, 1, None, 2, 2], mc.Spectrum(1)), {}, "Z has no entry for object 2"),
        ((["a"] * 5, [[1.0]] * 5, mc.Spectrum(1)), {}, "one label per object.*mc.RBF"),
        ((["a"] * 5, [1, 1, 1, 2, 2], "rbf"), {}, "kernel_x must be a kernel.*'rbf'"),
        ((["a"] * 5, [1, 1, 1, 2, 2], mc.Spectrum(1)), {"n_permutations": 1.5}, "n_permutations.*1.5"),
        ((["a"] * 6, [1, 1, 2, 2, 1, 1], mc.Spectrum(1)), {"groups": [0, 0, 1, 1, 2, 2]}, "at least 4 groups; got 3"),
    ],
)
def test_bad_input_gets_one_sentence(arguments, options, match):
    with pytest.raises((ValueError, TypeError), match=match):
        mc.stats.independence_test(*arguments, **options)
