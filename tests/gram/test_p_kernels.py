"""P-kernels on finite sets: what is one, and how they are made from others (MK-1)."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mercer.gram import psd


def random_p_kernel(rng, size, rank=3):
    """A mixture of products of equal laws: sum_h w_h B_h B_h'."""
    weights, laws = rng.dirichlet(np.ones(rank)), rng.dirichlet(np.ones(size), size=rank)
    return np.einsum("h,ha,hb->ab", weights, laws, laws)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 6), st.integers(1, 5))
def test_mixtures_of_independent_pairs_are_p_kernels(seed, size, rank):
    K = random_p_kernel(np.random.default_rng(seed), size, rank)
    found = psd.is_p_kernel(K)
    assert found
    assert found.reason == ""
    np.testing.assert_allclose(found.total, 1.0, rtol=1e-12)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31), st.integers(2, 5))
def test_what_breaks_one_property_is_refused_with_it(seed, size):
    rng = np.random.default_rng(seed)
    K = random_p_kernel(rng, size, rank=size)
    assert "sum to" in psd.is_p_kernel(K * 1.01).reason
    different = (1 - np.eye(size)) / (size * (size - 1))
    assert "smallest eigenvalue" in psd.is_p_kernel(different).reason
    v = np.where(np.arange(size) == 0, -1.0, 1.0)
    negative = np.outer(v, v) + 10 * size * np.eye(size)
    assert "(0, 1)" in psd.is_p_kernel(negative / negative.sum()).reason


def test_products_are_laws_of_tuples():
    rng = np.random.default_rng(0)
    parts = [random_p_kernel(rng, size) for size in (2, 3, 2)]
    K = psd.p_product(*parts)
    objects = list(itertools.product(range(2), range(3), range(2)))
    truth = [[np.prod([P[a, b] for P, a, b in zip(parts, x, z, strict=True)]) for z in objects] for x in objects]
    np.testing.assert_allclose(K, truth, rtol=1e-12)
    assert psd.is_p_kernel(K)


def test_mixtures_are_averages():
    rng = np.random.default_rng(1)
    kernels = [random_p_kernel(rng, 4) for _ in range(3)]
    K = psd.p_mixture(kernels, [0.2, 0.3, 0.5])
    np.testing.assert_allclose(K, 0.2 * kernels[0] + 0.3 * kernels[1] + 0.5 * kernels[2], rtol=1e-12)
    assert psd.is_p_kernel(K)


def test_a_kernel_divided_by_its_sum():
    x = np.random.default_rng(2).normal(size=(5, 2))
    K = np.exp(-((x[:, None] - x) ** 2).sum(-1))
    assert not psd.is_p_kernel(K)
    assert psd.is_p_kernel(psd.p_kernel(K))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: psd.p_kernel([[1.0, -2.0], [-2.0, 4.0]]), "negative"),
        (lambda: psd.p_kernel([[1.0, 2.0], [2.0, 1.0]]), "must be positive semi-definite; .* -0.166667"),
        (lambda: psd.p_kernel([[0.0]]), "positive sum"),
        (lambda: psd.p_product(), "at least one"),
        (lambda: psd.p_product([[1.0]], [[2.0]]), "Kernel 1 is not a P-kernel: the entries must sum to 1; got 2"),
        (lambda: psd.p_mixture([[[1.0]], np.eye(2) / 2], [0.5, 0.5]), "1, 2"),
        (lambda: psd.p_mixture([[[1.0]], [[1.0]]], [0.5, 0.6]), "2 probabilities that sum to 1"),
        (lambda: psd.p_mixture([[[1.0]]], [0.5, 0.5]), "1 probabilities that sum to 1"),
        (lambda: psd.is_p_kernel([[0.5, 0.5]]), "square"),
        (lambda: psd.is_p_kernel([[np.nan]]), "nan"),
        (lambda: psd.is_p_kernel([[1.0, 2.0], [3.0]]), "got rows of different lengths"),
        (lambda: psd.is_p_kernel([["a", "b"], ["c", "d"]]), "matrix of numbers"),
        (lambda: psd.is_p_kernel([[1.0]], tolerance="a"), "tolerance must be a number, at least 0, .* got 'a'"),
        (lambda: psd.is_p_kernel([[1.0]], tolerance=-1e-9), "tolerance must be a number, at least 0, .* got -1e-09"),
        (lambda: psd.check([[1.0]], tolerance=-1), "tolerance must be a number, at least 0, .* got -1"),
        (lambda: psd.p_mixture(3, [1]), "kernels must be a list of matrices; got 3"),
        (lambda: psd.p_mixture(np.eye(2) / 2, [1]), "kernels must be a list of matrices; got array"),
        (lambda: psd.p_mixture([[[1.0]]], "even"), "1 probabilities that sum to 1; got 'even'"),
        (lambda: psd.p_mixture([[[1.0]]], [np.nan]), "1 probabilities that sum to 1; got .nan."),
        (lambda: psd.p_product([[0.5, 0.5], [0.0, 0.0]]), "must be symmetric; got 0.5 .* and 0 "),
    ],
)
def test_bad_input(call, message):
    with pytest.raises((ValueError, TypeError), match=message.replace("(", r"\(")):
        call()


def test_a_matrix_that_is_not_symmetric_is_none():
    found = psd.is_p_kernel([[0.5, 0.3], [0.1, 0.1]])
    assert not found
    assert found.reason == "the matrix must be symmetric; got 0.3 at (0, 1) and 0.1 at (1, 0)."
