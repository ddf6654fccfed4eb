"""What points of the probability simplex share."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from mercer._probability import ratio, shared_out
from mercer.data import Alphabet


def test_ratio_is_zero_where_the_weight_is():
    with np.errstate(all="raise"):
        assert_array_equal(ratio(np.array([1.0, 2.0, 0.0]), np.array([2.0, 0.0, 0.0])), [0.5, 0, 0])
        assert_array_equal(ratio(np.ones((2, 2)), np.array([[4.0], [0.0]])), [[0.25, 0.25], [0, 0]])


def test_codes_are_shared_out_by_probability():
    """One code after the other: a count goes to the letters that it may be, as these are probable."""
    rng = np.random.default_rng(0)
    dna = Alphabet.of("dna")
    sets, p = np.asarray(dna.membership), rng.dirichlet(np.ones(4), 3)
    p[0] = [0.0, 1.0, 0.0, 0.0]  # excludes some codes
    coded = p @ sets.T
    counts = rng.random(coded.shape) * (coded > 0)
    expected = np.zeros((3, 4))
    for row in range(3):
        for code in range(len(sets)):
            if coded[row, code] > 0:
                allowed = p[row] * sets[code]
                expected[row] += counts[row, code] * allowed / allowed.sum()
    assert_allclose(shared_out(counts, coded, p, sets), expected, rtol=1e-12)
    assert_allclose(expected.sum(), counts.sum(), rtol=1e-12)
