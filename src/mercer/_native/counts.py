"""Sums over all vectors of counts (PPK-3.3) and their exact mean maps (GMMK-10a), by native/counts.hpp.

Long sums are computed in parts, so that they can be interrupted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats, Indices
from mercer._native import call
from mercer._special import gammaln

STEPS, CAREFUL_STEPS = 2e9, 1e8
"""Multiplications of one call, in floats and in numbers of unlimited range."""


def count_sums(tables: Floats, left: Floats, right: Floats) -> None:
    """Convolve all tables, in place, with the products of the terms of both sides.

    Parameters
    ----------
    tables : ndarray of shape (I, s + 1, J)
        Sums for every total so far.
    left, right : ndarray of shape (I, w, s + 1) and (J, w, s + 1)
        Terms of w outcomes.
    """
    at_once = max(1, int(STEPS / (tables.size * tables.shape[1] + 1)))
    for first in range(0, left.shape[1], at_once):
        part = slice(first, first + at_once)
        call("count_sums", left=left[:, part], right=right[:, part], tables=tables)


def log_count_sums(logs: Floats, left: Floats, right: Floats, rows: Indices, columns: Indices) -> None:
    """Convolve the tables of given pairs, in place, in numbers of unlimited range.

    Parameters
    ----------
    logs : ndarray of shape (P, s + 1)
        Logarithms of the sums for every total so far.
    left, right : ndarray of shape (I, w, s + 1) and (J, w, s + 1)
        Logarithms of the terms of w outcomes.
    rows, columns : ndarray of int of shape (P,)
        Members of each pair.
    """
    at_once = max(16, int(CAREFUL_STEPS / (left.shape[1] * logs.shape[1] ** 2)))
    for first in range(0, len(rows), at_once):
        part = slice(first, first + at_once)
        call("log_count_sums", left=left, right=right, rows=rows[part], columns=columns[part], logs=logs[part])


def log_mean_maps(
    left: tuple[Any, Floats], right: tuple[Any, Floats], gamma: float, rows: Indices, columns: Indices, steps: Floats
) -> Floats:
    """Compute log E exp(-gamma |x - y|^2) of given pairs of rows, up to factors of the totals.

    Parameters
    ----------
    left, right : pair of CSRRows and ndarray
        Word frequencies, and the number of draws of every row.
    gamma : float
        Of the base kernel of the counts.
    rows, columns : ndarray of int of shape (P,)
        The rows of each pair.
    steps : ndarray of shape (P,)
        Number of multiplications of each pair.

    Returns
    -------
    ndarray of shape (P,)
    """
    found = np.empty(len(rows))
    largest = max(side[1].max() for side in (left, right))
    sides = [(words.data, words.indices, words.indptr, totals) for words, totals in (left, right)]
    log_factorials = gammaln(np.arange(largest + 1) + 1.0)
    ends = np.unique(np.searchsorted(np.cumsum(steps), np.arange(STEPS, steps.sum(), STEPS), side="right"))
    for first, last in zip([0, *ends], [*ends, len(rows)], strict=True):
        part = slice(first, last)
        call(
            "count_mean_maps", left=sides[0], right=sides[1], log_factorials=log_factorials, gamma=gamma,
            rows=rows[part], columns=columns[part], log_value=found[part],
        )  # fmt: skip
    return found
