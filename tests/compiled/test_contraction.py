"""A tensor times two vectors, of all lengths around whole vectors and groups of them."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.compiled.contraction import LANES, SUMS, Contraction


@pytest.mark.parametrize("r", [1, LANES, LANES + 1, SUMS * LANES, SUMS * LANES + 1, 2 * SUMS * LANES - 1])
def test_it_is_the_sum_over_both_vectors(r):
    rng = np.random.default_rng(r)
    tensor, b, c = rng.normal(size=(3, 4, r)), rng.normal(size=4), rng.normal(size=r)
    contract = Contraction(tensor)
    expected = np.einsum("ijk,j,k->i", tensor, b, c)
    np.testing.assert_allclose(contract(c, b), expected, rtol=1e-12, atol=1e-13)
    strided = np.repeat(b, 2)[::2]
    strided.flags.writeable = False
    np.testing.assert_array_equal(contract(c, strided), contract(c, b))
