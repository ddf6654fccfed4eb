"""A tensor times two vectors, of all lengths around whole vectors and groups of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from mercer._native.contraction import Contraction, GaussianContraction


@pytest.mark.parametrize("r", [1, 7, 8, 9, 16, 17, 32, 33, 63])
def test_it_is_the_sum_over_both_vectors(r):
    rng = np.random.default_rng(r)
    tensor, b, c = rng.normal(size=(3, 4, r)), rng.normal(size=4), rng.normal(size=r)
    contract = Contraction(tensor)
    expected = np.einsum("ijk,j,k->i", tensor, b, c)
    np.testing.assert_allclose(contract(c, b), expected, rtol=1e-12, atol=1e-13)
    strided = np.repeat(b, 2)[::2]
    strided.flags.writeable = False
    np.testing.assert_array_equal(contract(c, strided), contract(c, b))


@pytest.mark.parametrize("r", [1, 8, 21])
def test_a_step_is_the_product_with_kernels_of_an_observation(r):
    rng = np.random.default_rng(r)
    tensor, points, total = rng.normal(size=(3, 3, r)), rng.normal(size=(r, 2)), rng.normal(size=3)
    contract = GaussianContraction(tensor, points, 0.7, total)
    for x in (points[0].copy(), rng.normal(size=2), np.array([30.0, 0.0])):  # at a point, near, and far from all
        b = rng.normal(size=3)
        new = np.einsum("ijk,j,k->i", tensor, b, np.exp(-0.7 * np.square(x - points).sum(axis=1)))
        belief, ratio, square = contract.step(x, b)
        np.testing.assert_allclose(ratio, total @ new, rtol=1e-10)
        np.testing.assert_allclose(belief, new / (total @ new), rtol=1e-10)
        np.testing.assert_allclose(square, belief @ belief, rtol=1e-12)
    assert contract.step(np.array([1e3, 0.0]), b)[1] == 0.0
    for wrong in (np.nan, np.inf):
        assert not np.isfinite(contract.step(np.array([wrong, 0.0]), b)[1])
    assert contract.step(np.zeros(3), b) is None
    assert contract.step(np.zeros(2, np.float32), b) is None


def test_threads_have_vectors_of_their_own():
    rng = np.random.default_rng(0)
    contract = Contraction(rng.normal(size=(20, 30, 40)))
    codes, beliefs = rng.normal(size=(200, 40)), rng.normal(size=(200, 30))
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(contract, codes, beliefs))
    np.testing.assert_array_equal(found, [contract(c, b) for c, b in zip(codes, beliefs, strict=True)])
