"""Sums over the readings of uncertain symbols, against all strings."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from mercer.models._markov.readings import Chain, Readings


@pytest.mark.parametrize("end", [False, True])
@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_sums_over_readings_are_those_of_all_strings(order, end):
    rng = np.random.default_rng(order)
    k, members = 3, np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, 1, 1]], bool)
    initial = rng.dirichlet(np.ones(k**order + (sum(k**j for j in range(order)) if end else 0)))
    rows = rng.dirichlet(np.ones(k + end), k**order)
    rows[0, 0] = 0.0
    chain = Chain(initial, rows, order, end)
    lengths = [0, 1, 5, 2, 4, 3]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    codes = rng.integers(0, len(members), offsets[-1])
    codes[3:6] = 4
    readings = Readings(codes, offsets, members, order, end)
    found = readings.log_probabilities(chain)
    owner, window, number = readings.expected_windows(chain)
    for m, length in enumerate(lengths):
        total, windows = 0.0, np.zeros(k**order * (k + end))
        for string in itertools.product(*(np.flatnonzero(members[c]) for c in codes[offsets[m] : offsets[m + 1]])):
            weight, used = _weight_and_windows(chain, k, string)
            total += weight
            windows += weight * np.bincount(used, minlength=len(windows)) if length >= order else 0.0
        if total == 0.0:  # impossible
            assert found[m] == -np.inf
            assert m not in owner
            continue
        np.testing.assert_allclose(found[m], np.log(total), rtol=1e-12, atol=1e-14)
        mine = np.bincount(window[owner == m], number[owner == m], minlength=len(windows))
        np.testing.assert_allclose(mine, windows / total, rtol=1e-12, atol=1e-14)


def _weight_and_windows(chain, k, string):
    """Probability of one string, and its windows."""
    order, size, digits = chain.order, k**chain.order, 0
    for s in string[:order]:
        digits = digits * k + s
    if len(string) < order:
        if chain.end:
            return chain.initial[size + sum(k**j for j in range(len(string))) + digits], []
        share = k ** (order - len(string))
        return chain.initial[digits * share : (digits + 1) * share].sum(), []
    weight, context, used = chain.initial[digits], digits, []
    for s in [*string[order:], *([k] if chain.end else [])]:
        weight *= chain.rows[context, s]
        used.append(context * (k + chain.end) + s)
        context = (context * k + s) % size
    return weight, np.array(used, int)
