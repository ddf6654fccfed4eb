"""Divergences of counts whose means are many times the size, against many digits."""

import mpmath
import numpy as np
import pytest

import mercer as mc
from mercer import families as f


def divergence(a, b, size):
    with mpmath.workdps(400):
        a, b, r = map(mpmath.mpf, (a, b, size))
        xlogx = lambda x: x * mpmath.log(x) if x else mpmath.mpf(0)  # noqa: E731
        gap = lambda x, y: (xlogx(x) + xlogx(y)) / 2 - xlogx((x + y) / 2)  # noqa: E731
        return float(gap(a, b) - gap(a + r, b + r))


MEANS = [0.0, 1e-200, 1.5, 1e5, 3e8, 1e12, 1.5e12, 1e16, 1e20, 1e150]


@pytest.mark.parametrize("size", [1.0, 2.5])
def test_divergences_of_large_means_are_no_rounding(size):
    p = f.NegativeBinomials(np.array(MEANS)[:, None], size)
    expected = [[divergence(a, b, size) for b in MEANS] for a in MEANS]
    np.testing.assert_allclose(-np.log(mc.JensenShannon()(p)), expected, rtol=1e-8, atol=1e-9)


def test_geometric_distributions_of_large_means_stay_apart():
    p = f.Geometrics([[0.4], [1e-20], [0.5]])
    expected = [divergence(1.5, 1e20, 1), divergence(1, 1e20, 1)]
    np.testing.assert_allclose(-np.log(mc.JensenShannon()(p)[1, [0, 2]]), expected, rtol=1e-9)


@pytest.mark.parametrize("size", [1.0, 2.5])
def test_relative_entropies_of_large_means_are_no_rounding(size):
    def entropy(a, b):
        with mpmath.workdps(400):
            a, b, r = map(mpmath.mpf, (a, b, size))
            return float((a * mpmath.log(a / b) if a else 0) - (a + r) * mpmath.log((a + r) / (b + r)))

    means = MEANS[1:]
    p = f.NegativeBinomials(np.array(means)[:, None], size)
    np.testing.assert_allclose(p.kl(p), [[entropy(a, b) for b in means] for a in means], rtol=1e-8, atol=1e-9)


def test_counts_that_no_sum_reaches_are_refused():
    p = mc.families.NegativeBinomials([[2.0], [1e150]], [[1.0], [3.0]])
    with pytest.raises(ValueError, match=r"summed up to 1,000,000,000, .* Count in larger units"):
        mc.ProbabilityProduct()(p)
