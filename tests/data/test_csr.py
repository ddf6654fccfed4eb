"""Sparse rows against dense NumPy truth."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.special import xlogy

import mercer as mc
from mercer.data import csr
from mercer.data.csr import CSRRows, Prepared, outer, shared_entropy

PAIRINGS = [outer, shared_entropy]


def dense_shared_entropy(A, B):
    a, b = A[:, None, :].astype(float), B[None, :, :].astype(float)
    terms = xlogy(a + b, a + b) - xlogy(a, a) - xlogy(b, b)
    return np.where((a > 0) & (b > 0), terms, 0.0).sum(-1)


def dense_pairing(pairing, A, B):
    if pairing is outer:
        return A.astype(float) @ B.T.astype(float)
    return dense_shared_entropy(A, B)


def random_rows(seed, n, d, density, dtype=np.float64):
    rng = np.random.default_rng(seed)
    dense = np.where(rng.random((n, d)) < density, rng.gamma(0.5, size=(n, d)) + 1e-3, 0.0).astype(dtype)
    if n > 2:
        dense[n // 2] = 0
    return dense


@st.composite
def messy(draw):
    """A CSR matrix with duplicates, unsorted indices, stored zeros and empty rows."""
    n, d = draw(st.integers(0, 6)), draw(st.integers(1, 7))
    entry = st.tuples(st.integers(0, d - 1), st.sampled_from([0.0, 0.25, 0.5, 1.0, 3.0]))
    rows = draw(st.lists(st.lists(entry, max_size=9), min_size=n, max_size=n))
    flat = [pair for row in rows for pair in row]
    indptr = np.cumsum([0] + [len(row) for row in rows])
    data = np.asarray([value for _, value in flat], dtype=draw(st.sampled_from([np.float32, np.float64])))
    return sparse.csr_array((data, np.asarray([w for w, _ in flat], dtype=np.int64), indptr), shape=(n, d))


@given(messy())
def test_canonical_form(X):
    before = [part.copy() for part in (X.data, X.indices, X.indptr)]
    rows = CSRRows.of(X)
    assert_array_equal(rows.dense(), X.toarray())
    assert rows.dtype == X.dtype
    assert rows.indices.dtype == rows.indptr.dtype == np.int32
    assert np.all(rows.data != 0)
    for i in range(len(rows)):
        assert np.all(np.diff(rows.indices[rows.indptr[i] : rows.indptr[i + 1]]) > 0)
    for part, old in zip((X.data, X.indices, X.indptr), before, strict=True):
        assert_array_equal(part, old)
    assert not rows.data.flags.writeable


def test_stale_flag_of_canonical_form():
    X = sparse.csr_array((np.asarray([1.0, 2.0]), np.asarray([0, 2]), np.asarray([0, 2])), shape=(1, 3))
    assert X.has_canonical_format
    X.indices[:] = [2, 0]
    assert_array_equal(CSRRows.of(X).indices, [0, 2])


def test_small_integers_do_not_overflow():
    X = sparse.coo_array((np.asarray([200, 100], np.uint8), ([0, 0], [1, 1])), shape=(1, 2))
    assert_array_equal(CSRRows.of(X).dense(), [[0.0, 300.0]])


@given(messy(), messy(), st.sampled_from(PAIRINGS))
@settings(deadline=None)
def test_pairings_against_dense(X, Y, pairing):
    d = max(X.shape[1], Y.shape[1])
    X, Y = (sparse.csr_array((Z.data, Z.indices, Z.indptr), shape=(Z.shape[0], d)) for Z in (X, Y))
    A, B = CSRRows.of(X), CSRRows.of(Y)
    out = pairing(A, B)
    assert out.dtype == np.result_type(X.dtype, Y.dtype)
    tolerance = 1e-6 if out.dtype == np.float32 else 1e-12
    assert_allclose(out, dense_pairing(pairing, A.dense(), B.dense()), rtol=tolerance, atol=0)


@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize(
    ("n", "m", "d", "density"),
    [(30, 40, 200, 0.05), (30, 40, 200, 0.35), (17, 9, 50, 1.0), (5, 70, 1, 0.5), (3, 1, 8, 0.5), (1, 2, 20_000, 1.0)],
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_pairings_at_all_densities(pairing, n, m, d, density, dtype):
    A, B = random_rows(0, n, d, density, dtype), random_rows(1, m, d, density, dtype)
    out = pairing(CSRRows.of(A), CSRRows.of(B))
    assert out.dtype == dtype
    tolerance = 1e-12 if dtype == np.float64 else 1e-6
    assert_allclose(out, dense_pairing(pairing, A, B), rtol=tolerance, atol=0)


@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize(("n", "m", "d"), [(0, 3, 4), (3, 0, 4), (0, 0, 4), (2, 3, 0)])
def test_pairings_of_nothing(pairing, n, m, d):
    out = pairing(CSRRows.of(np.zeros((n, d))), CSRRows.of(np.zeros((m, d))))
    assert_array_equal(out, np.zeros((n, m)))


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_one_long_document_among_short_ones(pairing):
    dense = random_rows(2, 40, 20_000, 0.002)
    dense[7] = random_rows(3, 1, 20_000, 1.0)
    rows = CSRRows.of(dense)
    truth = np.concatenate([dense_pairing(pairing, dense, dense[j : j + 1]) for j in range(40)], axis=1)
    assert_allclose(pairing(rows, rows), truth, rtol=1e-12, atol=0)


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_gram_is_exactly_symmetric(pairing):
    rows = CSRRows.of(random_rows(4, 60, 90, 0.3))
    out = pairing(rows, rows)
    assert_array_equal(out, out.T)


def test_shared_entropy_is_jensen_shannon():
    """DJS-2 with F(a) = sum a log a (DJS-4): psi = (F(a) + F(b)) / 2 - F((a + b) / 2)."""
    dense = random_rows(5, 20, 30, 0.4)
    dense[10, 3] = 1  # rows here sum to one, so that none may be empty
    dense /= dense.sum(1, keepdims=True)
    F = xlogy(dense, dense).sum(1)
    middle = (dense[:, None] + dense[None]) / 2
    psi = (F[:, None] + F[None]) / 2 - xlogy(middle, middle).sum(-1)
    rows = CSRRows.of(dense)
    assert_allclose(np.log(2) - shared_entropy(rows, rows) / 2, psi, atol=1e-14)


def exact_term(a, b):
    with localcontext() as context:
        context.prec = 60
        x, y = Decimal(float(a)), Decimal(float(b))
        return float((x + y) * (x + y).ln() - x * x.ln() - y * y.ln())


@given(st.floats(1e-30, 1e6), st.floats(1e-30, 1e6))
@settings(deadline=None)
def test_shared_term_is_exact_where_the_plain_formula_cancels(a, b):
    out = shared_entropy(CSRRows.of([[a]]), CSRRows.of([[b]]))[0, 0]
    assert out == pytest.approx(exact_term(a, b), rel=5e-15)


def test_logarithm_against_numpy():
    """With a = 1 and log a = log b the last part vanishes: what stays is (1 + b) log(1 + b).

    Six roundings of ours, three of NumPy's, each at most 1.1e-16: the bound is 1e-15.
    """
    b = np.concatenate([np.linspace(0, 1, 20_001), np.logspace(-300, 0, 2_000)])
    left, right = Prepared(CSRRows.of([[1.0]])), Prepared(CSRRows.of(b[:, None]))
    out = csr._pairs("csr_entropies", left, right, np.zeros(1), np.zeros(len(right.index.postings)))
    assert_allclose(out[0], (1 + b) * np.log1p(b), rtol=1e-15, atol=0)


@given(messy(), st.data())
def test_selection_equals_dense_selection(X, data):
    rows, n = CSRRows.of(X), X.shape[0]
    key = data.draw(
        st.one_of(
            st.slices(n) if n else st.just(slice(None)),
            hnp.arrays(bool, n),
            hnp.arrays(np.int64, st.integers(0, 8), elements=st.integers(-n, n - 1)) if n else st.just([]),
        )
    )
    assert_array_equal(rows[key].dense(), X.toarray()[key])
    assert_array_equal(Prepared(rows)[key].rows.dense(), X.toarray()[key])
    assert rows[key].row_digests() == [rows.row_digests()[i] for i in np.arange(n)[key]]


def test_contiguous_slices_share_memory_and_are_kept():
    rows = CSRRows.of(random_rows(6, 20, 30, 0.3))
    assert np.shares_memory(rows[5:9].data, rows.data)
    operand = Prepared(rows)
    assert operand[5:9] is operand[5:9]
    assert operand[5:9].index is operand[5:9].index
    assert operand[:] is operand
    assert operand[::-1] is not operand[::-1]


@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("edge", [7, 16, 50])
@pytest.mark.parametrize("permuted", [False, True])
def test_tiles_equal_the_whole_for_any_threads(pairing, edge, permuted):
    rows = CSRRows.of(random_rows(7, 50, 120, 0.2))
    operand, whole = Prepared(rows), pairing(rows, rows)
    order = np.random.default_rng(0).permutation(50) if permuted else np.arange(50)
    starts = range(0, 50, edge)
    keys = [order[s : s + edge] if permuted else slice(s, s + edge) for s in starts]

    def tile(pair):
        return pairing(operand[keys[pair[0]]], operand[keys[pair[1]]])

    pairs = [(i, j) for i in range(len(keys)) for j in range(len(keys))]
    with ThreadPoolExecutor(4) as pool:
        parallel = list(pool.map(tile, pairs))
    for pair, out in zip(pairs, parallel, strict=True):
        assert_array_equal(out, tile(pair))
        part = whole[order][:, order][pair[0] * edge :][:edge, pair[1] * edge :][:, :edge]
        assert_allclose(out, part, rtol=1e-12)


def test_prepared_rows_can_be_pickled():
    operand = Prepared(CSRRows.of(random_rows(8, 9, 12, 0.4)))
    truth = outer(operand, operand[2:5])
    copy = pickle.loads(pickle.dumps(operand))
    assert_array_equal(outer(copy, copy[2:5]), truth)


@given(messy(), st.sampled_from([0.5, 1.0, 1.7, 2.0]))
def test_power_sums_and_scaling(X, exponent):
    rows, dense = CSRRows.of(X), X.toarray()
    tolerance = 1e-6 if X.dtype == np.float32 else 1e-14
    assert_allclose(rows.power(exponent).dense(), dense**exponent, rtol=tolerance)
    assert_allclose(rows.row_sums(), dense.sum(1), rtol=tolerance)
    factors = np.arange(X.shape[0]) * 0.5
    assert_allclose(rows.scaled(factors).dense(), dense * factors[:, None], rtol=tolerance)
    assert rows.power(exponent).dtype == rows.scaled(factors).dtype == X.dtype


def test_empty_row_survives_division_by_its_sum():
    rows = CSRRows.of([[0.0, 0.0], [1.0, 3.0]])
    with np.errstate(divide="ignore"):
        assert_array_equal(rows.scaled(1 / rows.row_sums()).dense(), [[0.0, 0.0], [0.25, 0.75]])


def test_underflow_keeps_the_canonical_form():
    rows = CSRRows.of([[1e-200, 2.0], [0.0, 1e-300]]).power(2)
    assert_array_equal(rows.data, [4.0])
    assert_array_equal(rows.indptr, [0, 1, 1])


@given(messy(), messy())
def test_digests_are_equal_iff_rows_are(X, Y):
    X, Y = X.astype(np.float64), Y.astype(np.float64)
    A, B = CSRRows.of(X), CSRRows.of(Y)
    everything = CSRRows.joined([A[i : i + 1] for i in range(len(A))] + [A[:0]])
    assert everything.row_digests() == A.row_digests()
    wide = [np.pad(Z.toarray(), ((0, 0), (0, 7 - Z.shape[1]))) for Z in (X, Y)]
    for a, row in zip(A.row_digests(), wide[0], strict=True):
        assert len(a) == 16
        for b, other in zip(B.row_digests(), wide[1], strict=True):
            assert (a == b) == np.array_equal(row, other)


def test_digests_tell_the_dtype():
    X = np.asarray([[1.0, 0.0, 2.0]])
    assert CSRRows.of(X).row_digests() != CSRRows.of(X.astype(np.float32)).row_digests()


@given(st.lists(messy(), min_size=1, max_size=3))
def test_concat(parts):
    d = max(X.shape[1] for X in parts)
    parts = [sparse.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], d)) for X in parts]
    whole = CSRRows.joined([CSRRows.of(X) for X in parts])
    assert_array_equal(whole.dense(), np.concatenate([X.toarray() for X in parts]))
    assert whole.dtype == np.result_type(*parts)


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf, -np.inf])
def test_check_counts_names_the_entry(value):
    dense = random_rows(9, 12, 6, 0.5)
    CSRRows.of(dense).check_counts()
    dense[5:7] = 0
    dense[7, 3] = dense[9, 1] = value
    dense[7, :3] = 1
    message = f"document 7 has the count {value} for word 3. Counts must be nonnegative and finite."
    with pytest.raises(ValueError) as caught:
        CSRRows.of(dense).check_counts()
    assert str(caught.value) == message


TWO, THREE = CSRRows.of(np.eye(2)), CSRRows.of(np.eye(3))


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: CSRRows.of(np.ones(3)), ValueError, "shape"),
        (lambda: CSRRows.of(np.ones((1, 1, 1))), ValueError, "shape"),
        (lambda: CSRRows.of(np.ones((2, 2), complex)), TypeError, "complex"),
        (lambda: THREE[1], TypeError, r"X\[3:4\]"),
        (lambda: THREE[np.asarray([3])], IndexError, ""),
        (lambda: THREE[np.asarray([True])], IndexError, ""),
        (lambda: TWO.power(0), ValueError, "positive"),
        (lambda: TWO.power(-1.0), ValueError, "positive"),
        (lambda: TWO.power(np.nan), ValueError, "positive"),
        (lambda: CSRRows.joined([]), ValueError, "nothing"),
        (lambda: CSRRows.joined([TWO, THREE]), ValueError, "vocabulary; got 2 and 3 words"),
        (lambda: outer(TWO, THREE), ValueError, "vocabulary; got 2 and 3 words"),
        (lambda: shared_entropy(TWO, THREE), ValueError, "vocabulary; got 2 and 3 words"),
    ],
)
def test_what_is_refused(call, error, sentence):
    with pytest.raises(error, match=sentence):
        call()


def damaged(form, bad):
    """Return a sparse matrix with one index out of range, changed by hand."""
    X = sparse.csr_matrix(np.random.default_rng(0).poisson(2.0, size=(12, 6)) + np.eye(12, 6)).asformat(form[:3])
    if form == "coo":
        X.col[30] = bad
    elif form == "csr pointers":
        X.indptr[3] = bad
    elif form == "csr end":
        X.indptr[-1] = bad
    else:
        X.indices[30] = bad
    return X


READERS = {
    "Multinomial": lambda X: mc.Multinomial().fit_each(X),
    "Multinomials": mc.Multinomials,
    "log_prob": lambda X: mc.Multinomials(np.full((1, 6), 1 / 6)).log_prob(X),
    "Linear": mc.Linear(),
    "RBF": mc.RBF(gamma=1.0),
    "JensenShannon": lambda X: mc.JensenShannon(mc.Multinomial()).fit(X),
    "two_sample_test": lambda X: mc.stats.two_sample_test(X, X),
}


@pytest.mark.parametrize("bad", [10**6, 2**31 - 1, -7])
@pytest.mark.parametrize("form", ["csr", "csc", "coo", "csr pointers", "csr end"])
@pytest.mark.parametrize("reader", READERS)
def test_indices_out_of_range_are_refused(reader, form, bad):
    """SciPy's loops trust them, and would end the process."""
    with pytest.raises(ValueError, match=r"sparse matrix .*damaged\. Make it again, as sparse\.csr_array"):
        READERS[reader](damaged(form, bad))


def test_entries_after_the_last_pointer_are_no_damage():
    X = sparse.csr_matrix(np.eye(3))
    X.indptr[-1] = 2
    assert CSRRows.of(X).dense().tolist() == [[1.0, 0, 0], [0, 1.0, 0], [0, 0, 0]]
