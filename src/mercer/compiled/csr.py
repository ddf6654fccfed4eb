"""The loops behind `mercer.data.csr`, compiled by Numba on first use.

Only `mercer.data.csr` imports this module, and only inside functions: importing mercer never
loads Numba. The loops release the GIL, write to their own output only, and sum the words of a
row in order, so that results do not depend on the number of threads.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from mercer.compiled.code import compiled

Vector: TypeAlias = np.ndarray[Any, Any]

# "contract" allows fused multiply-adds and nothing else: NaN and infinities keep their meaning.
# The NumPy error model has no check for division by zero, which would prevent vectorization.

# log((1 + z) / (1 - z)) = z * (_C0 + _C1 z^2 + ...) for 0 <= z <= 1/3, by interpolation at the
# Chebyshev nodes of z^2 in [0, 1/9]; relative error 9e-17 with the coefficients rounded as printed.
_C0 = 2.0
_C1 = 0.6666666666668257
_C2 = 0.399999999952876
_C3 = 0.2857142911165716
_C4 = 0.22222190861346283
_C5 = 0.1818285980047391
_C6 = 0.15363676248891633
_C7 = 0.13591305485579894
_C8 = 0.09880789048764786
_C9 = 0.17780763826113302


@compiled(contract=True)
def shared_term(a: float, log_a: float, b: float, log_b: float) -> float:
    """Compute (a+b) log(a+b) - a log a - b log b for positive a and b (DJS-2, DJS-4).

    With M the larger and m the smaller number this is (a+b) log(1 + m/M) + m log(M/m): two
    nonnegative terms, so nothing cancels when m is tiny, and the only new logarithm has its argument
    in [1, 2], where a short polynomial without branches suffices (so the loop around it vectorizes).
    Zero for b = 0 with log_b = 0, which means an absent word.
    """
    small = min(a, b)
    large = max(a, b)
    total = a + b
    z = small / (large + total)  # log(1 + m/M) = 2 artanh(z), z in [0, 1/3]
    x = z * z
    x2 = x * x
    # Estrin's scheme: shorter chains of dependent operations than Horner's.
    low = (_C0 + _C1 * x) + x2 * (_C2 + _C3 * x)
    high = ((_C4 + _C5 * x) + x2 * (_C6 + _C7 * x)) + (x2 * x2) * (_C8 + _C9 * x)
    return total * (z * (low + (x2 * x2) * high)) + small * abs(log_a - log_b)


@compiled(contract=True)
def invert(
    values: Vector, indices: Vector, indptr: Vector, n_columns: int, share: float
) -> tuple[Vector, Vector, Vector, Vector]:
    """List the rows that contain each word.

    Parameters
    ----------
    values, indices, indptr : ndarray
        Canonical CSR rows; ``indptr`` may start anywhere.
    n_columns : int
        Number of words.
    share : float
        A word in more than this share of the rows is listed for *all* rows, with zeros. Its
        postings are then indexed by row, and the loops below need no scattered writes.

    Returns
    -------
    words, starts, rows, postings : ndarray
        Word ``words[s]`` has the values ``postings[starts[s]:starts[s + 1]]`` in the rows
        ``rows[starts[s]:starts[s + 1]]``.
    """
    width = indptr.size - 1
    slot = np.zeros(n_columns, np.int64)  # first the number of rows of a word, then its position in `words`
    for k in range(indices.size):
        slot[indices[k]] += 1
    words = np.empty(np.count_nonzero(slot), indices.dtype)
    starts = np.zeros(words.size + 1, np.int64)
    s = 0
    for w in range(n_columns):
        if slot[w] > 0:
            words[s] = w
            starts[s + 1] = starts[s] + (width if slot[w] > share * width else slot[w])
            slot[w] = s
            s += 1
    rows = np.zeros(starts[-1], np.int32)
    postings = np.zeros(starts[-1], np.float64)
    free = starts[:-1].copy()
    for r in range(width):
        for k in range(indptr[r], indptr[r + 1]):
            s = slot[indices[k]]
            if starts[s + 1] - starts[s] == width:
                p = starts[s] + r
            else:
                p = free[s]
                free[s] += 1
            rows[p] = r
            postings[p] = values[k]
    return words, starts, rows, postings


@compiled(contract=True)
def _slots(words: Vector, n_columns: int) -> Vector:
    """Map a word to its position in ``words``, or to -1; one array per tile keeps an index small."""
    slots = np.full(n_columns, -1, np.int32)
    for s in range(words.size):
        slots[words[s]] = s
    return slots


@compiled(contract=True)
def outer(
    values: Vector,
    indices: Vector,
    indptr: Vector,
    n_columns: int,
    words: Vector,
    starts: Vector,
    rows: Vector,
    postings: Vector,
    out: Vector,
) -> None:
    """Fill ``out`` (I, J) with the inner products of CSR rows and the rows of an index (PPK-3.3, s = 1)."""
    slots = _slots(words, n_columns)
    for i in range(out.shape[0]):
        line = out[i]
        line[:] = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            s = slots[indices[k]]
            if s < 0:
                continue
            a = values[k]
            b = postings[starts[s] : starts[s + 1]]
            if b.size == line.size:
                for j in range(b.size):
                    line[j] += a * b[j]
            else:
                columns = rows[starts[s] : starts[s + 1]]
                for p in range(b.size):
                    line[columns[p]] += a * b[p]


@compiled(contract=True)
def shared_entropy(
    values: Vector,
    logs: Vector,
    indices: Vector,
    indptr: Vector,
    n_columns: int,
    words: Vector,
    starts: Vector,
    rows: Vector,
    postings: Vector,
    posting_logs: Vector,
    out: Vector,
) -> None:
    """Fill ``out`` (I, J) with the sums of `shared_term` over the words of both rows (DJS-2)."""
    slots = _slots(words, n_columns)
    terms = np.empty(out.shape[1], np.float64)
    for i in range(out.shape[0]):
        line = out[i]
        line[:] = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            s = slots[indices[k]]
            if s < 0:
                continue
            a, log_a = values[k], logs[k]
            b = postings[starts[s] : starts[s + 1]]
            log_b = posting_logs[starts[s] : starts[s + 1]]
            if b.size == line.size:
                for j in range(b.size):
                    line[j] += shared_term(a, log_a, b[j], log_b[j])
            else:
                columns = rows[starts[s] : starts[s + 1]]
                # Two loops: the first vectorizes, the scattered sum of the second cannot.
                for p in range(b.size):
                    terms[p] = shared_term(a, log_a, b[p], log_b[p])
                for p in range(b.size):
                    line[columns[p]] += terms[p]
