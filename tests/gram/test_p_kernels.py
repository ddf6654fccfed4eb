"""P-kernels: distributions over pairs that are positive semi-definite."""

import re

import numpy as np
import pytest

import mercer as mc

p_kernel, is_p_kernel = mc.gram.psd.p_kernel, mc.gram.psd.is_p_kernel


def gram(n=6, seed=0):
    x = np.random.default_rng(seed).normal(size=(n, 2))
    return mc.RBF(gamma=0.5)(x)


def test_normalized_by_its_sum():
    K = gram()
    P = p_kernel(K)
    np.testing.assert_allclose(P, K / sum(sum(row) for row in K.tolist()), rtol=1e-14)
    assert is_p_kernel(P)
    assert is_p_kernel(P).reason == ""
    assert is_p_kernel(P).total == pytest.approx(1, abs=1e-14)
    np.testing.assert_allclose(p_kernel(1e308 * K), P, rtol=1e-14)  # the sum overflows, the P-kernel does not


@pytest.mark.parametrize(
    ("P", "reason"),
    [
        (gram(), "entries sum to .*, not to 1"),
        ((1 + 1e-8) * p_kernel(gram()), r"sum to 1, not to 1 \(the difference is 1.0e-08\)"),
        ([[0.0, 0.5], [0.5, 0.0]], "not positive semi-definite: the smallest eigenvalue is -0.5"),
        ([[0.9, -0.2], [-0.2, 0.5]], r"entry at \(0, 1\) is negative, -0.2"),
    ],
)
def test_why_a_matrix_is_none(P, reason):
    found = is_p_kernel(P)
    assert not found
    assert re.search(reason, found.reason)
    assert is_p_kernel(P, tolerance=100.0)


def test_rounding_is_not_a_negative_probability():
    K = np.eye(3)
    K[0, 1] = K[1, 0] = -1e-16
    P = p_kernel(K)
    assert P.min() == 0
    assert is_p_kernel(P)


@pytest.mark.parametrize(
    ("K", "message"),
    [
        ([[4.0, -1.0], [-1.0, 1.0]], r"nonnegative, .* got -1 at \(0, 1\).* K \* K"),
        ([[0.0, 1.0], [1.0, 0.0]], r"semi-definite; its smallest eigenvalue is -1\. .*mc.kernels.Repaired"),
        (np.zeros((2, 2)), "positive entry; all entries are 0"),
        (np.ones((2, 3)), r"square matrix; got shape \(2, 3\)"),
    ],
)
def test_matrices_without_a_p_kernel(K, message):
    with pytest.raises(ValueError, match=message):
        p_kernel(K)


def test_wrong_tolerance():
    for call in (p_kernel, is_p_kernel):
        with pytest.raises(ValueError, match="tolerance must be a number, at least 0"):
            call(np.eye(2), tolerance=-1)
