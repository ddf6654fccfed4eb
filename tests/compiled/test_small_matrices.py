"""Products, factors and solves of small matrices in lanes, against NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mercer.compiled import small_entries as entries
from mercer.compiled import small_matrices as small
from mercer.compiled.lanes import aligned
from mercer.compiled.small_layout import LANES, ZERO

SIZES = st.integers(1, 7)


class Buffer:
    """A buffer whose first vector is zero, with matrices at fixed places."""

    def __init__(self):
        self.w = aligned((200 * LANES,))
        self.w[:] = np.nan
        self.w[:LANES] = 0.0

    def put(self, place, matrices):
        flat = np.moveaxis(matrices, 0, -1).ravel()
        self.w[place * LANES : place * LANES + flat.size] = flat
        return place * LANES

    def get(self, place, rows, columns):
        flat = self.w[place * LANES : (place + rows * columns) * LANES]
        return np.moveaxis(flat.reshape(rows, columns, LANES), -1, 0)


@given(SIZES, SIZES, SIZES, st.booleans(), st.booleans(), st.sampled_from([1.0, -1.0]), st.booleans())
def test_product(rows, inner, columns, left_transposed, right_transposed, sign, from_zero):
    rng = np.random.default_rng([rows, inner, columns])
    a, b = rng.normal(size=(LANES, rows, inner)), rng.normal(size=(LANES, inner, columns))
    start = rng.normal(size=(LANES, rows, columns))
    buffer = Buffer()
    left = buffer.put(1, a.swapaxes(1, 2) if left_transposed else a)
    right = buffer.put(50, b.swapaxes(1, 2) if right_transposed else b)
    begin = ZERO if from_zero else buffer.put(100, start)
    ai, ak = (1, rows) if left_transposed else (inner, 1)
    bk, bj = (1, inner) if right_transposed else (columns, 1)
    small.product(buffer.w, 150 * LANES, begin, left, ai, ak, right, bk, bj, rows, inner, columns, sign)
    expected = sign * a @ b + (0.0 if from_zero else start)
    np.testing.assert_allclose(buffer.get(150, rows, columns), expected, atol=1e-12)


def test_a_block_product_leaves_the_rest_of_its_rows_alone():
    rng = np.random.default_rng(0)
    a, b, around = rng.normal(size=(LANES, 3, 2)), rng.normal(size=(LANES, 2, 2)), rng.normal(size=(LANES, 3, 5))
    buffer = Buffer()
    left, right, out = buffer.put(1, a), buffer.put(20, b), buffer.put(40, around)
    block = out + 2 * LANES
    small.block_product(buffer.w, block, 5, block, 5, left, 2, 1, right, 2, 1, 3, 2, 2, 1.0)
    expected = around.copy()
    expected[:, :, 2:4] += a @ b
    np.testing.assert_allclose(buffer.get(40, 3, 5), expected, atol=1e-12)


@given(SIZES, SIZES)
def test_cholesky_and_solves(n, columns):
    rng = np.random.default_rng([n, columns])
    root = rng.normal(size=(LANES, n, n))
    matrix, b = root @ root.swapaxes(1, 2) + 0.1 * np.eye(n), rng.normal(size=(LANES, n, columns))
    buffer = Buffer()
    place, right = buffer.put(1, matrix), buffer.put(60, b)
    small.cholesky(buffer.w, 120 * LANES, 170 * LANES, place, n)
    lower = np.linalg.cholesky(matrix)
    found = np.tril(buffer.get(120, n, n))
    np.testing.assert_allclose(found, lower, atol=1e-12)
    np.testing.assert_allclose(buffer.get(170, n, 1)[..., 0], 1 / np.diagonal(lower, axis1=1, axis2=2), rtol=1e-12)
    small.solve_lower(buffer.w, right, 120 * LANES, 170 * LANES, right, n, columns)
    np.testing.assert_allclose(buffer.get(60, n, columns), np.linalg.solve(lower, b), atol=1e-9)
    small.solve_upper(buffer.w, right, 120 * LANES, 170 * LANES, right, n, columns)
    np.testing.assert_allclose(buffer.get(60, n, columns), np.linalg.solve(matrix, b), atol=1e-8)


def test_only_the_lane_of_an_indefinite_matrix_is_nan():
    matrix = np.tile(np.eye(2), (LANES, 1, 1))
    matrix[1] = [[1.0, 2.0], [2.0, 1.0]]
    buffer = Buffer()
    small.cholesky(buffer.w, 20 * LANES, 30 * LANES, buffer.put(1, matrix), 2)
    bad = np.isnan(buffer.get(30, 2, 1)).any(axis=(1, 2))
    assert bad.tolist() == [lane == 1 for lane in range(LANES)]


@pytest.mark.parametrize("size", [1e-200, 1.0, 1e200])
def test_determinants_do_not_leave_the_range(size):
    factors = np.random.default_rng(0).uniform(1, 2, (LANES, 40, 1)) * size
    buffer = Buffer()
    buffer.put(1, np.ones((LANES, 1, 1)))
    buffer.put(2, np.zeros((LANES, 1, 1)))
    entries.multiply_determinant(buffer.w, LANES, 2 * LANES, buffer.put(3, factors), 1, ZERO, 40)
    found = np.log(buffer.get(1, 1, 1)) + buffer.get(2, 1, 1) * np.log(2)
    np.testing.assert_allclose(found[:, 0, 0], np.log(factors).sum(axis=(1, 2)), rtol=1e-12)


def test_entry_by_entry():
    rng = np.random.default_rng(0)
    a, b, mark = rng.normal(size=(3, LANES, 4, 3))
    mark = mark[:, :1, :1]
    buffer = Buffer()
    at, other, by = buffer.put(1, a), buffer.put(20, b), buffer.put(40, mark)
    entries.add(buffer.w, 60 * LANES, at, other, by, 12)
    np.testing.assert_allclose(buffer.get(60, 4, 3), a + mark * b)
    entries.choose(buffer.w, 60 * LANES, at, other, by, 12)
    np.testing.assert_array_equal(buffer.get(60, 4, 3), np.where(mark > 0, a, b))
    rows = buffer.put(80, a[:, :, :1])
    entries.scale_rows(buffer.w, 60 * LANES, other, rows, 4, 3)
    np.testing.assert_allclose(buffer.get(60, 4, 3), a[:, :, :1] * b)
    square = buffer.put(100, rng.normal(size=(LANES, 3, 3)))
    lower = np.tril(buffer.get(100, 3, 3))
    entries.symmetrize(buffer.w, square, 3)
    np.testing.assert_array_equal(buffer.get(100, 3, 3), lower + np.tril(lower, -1).swapaxes(1, 2))
