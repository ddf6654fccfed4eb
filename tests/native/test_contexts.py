"""Products of Markov chains against slow truths, and chains whose work takes several calls."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from mercer._native import chains
from mercer._native.chains import context_products
from mercer.models._markov.operand import _log_products


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("k", [1, 2, 3, 5])
@pytest.mark.parametrize("spread", [1, 100, 140])
def test_sound_products_are_those_of_logarithms(order, k, spread):
    rng = np.random.default_rng(order + 10 * k)
    size, steps = k**order, np.array([0, 1, 7, 300])
    logs = [-spread * np.log(10) * rng.random((11, *shape)) for shape in ((size,), (size, k), (size,))]
    logs[1][rng.random(logs[1].shape) < 0.2] = -np.inf
    tables = [np.exp(x) for x in logs]
    found = context_products(tuple(x[:3] for x in tables), tuple(x[3:] for x in tables), steps)
    assert spread > 1 or np.isfinite(found).any()
    for i, j in itertools.product(range(3), range(8)):
        expected = _log_products(*(x[i : i + 1] + x[3 + j : 4 + j] for x in logs), steps)[:, 0]
        mine = found[:, i, j]
        sound = ~np.isnan(mine)  # the others are computed in logarithms
        np.testing.assert_allclose(mine[sound], expected[sound], rtol=1e-12, atol=1e-11)


def test_work_of_several_calls_has_the_same_bits(monkeypatch):
    rng, lengths, pair = np.random.default_rng(0), (1, 7, 20), np.arange(21) % 5
    left, right = ((rng.random((k, 3)), rng.random((k, 3, 3)), rng.random((k, 3, 3))) for k in (5, 21))
    psi, log_psi = rng.random((15, 63)), np.log(rng.random((21, 3, 3)))

    def results():
        yield chains.small_chains(left, right, lengths)
        yield chains.small_chains(left[:2], right[:2], lengths, psi)
        yield chains.ranged_pairs(left[:2], right[:2], pair, np.arange(21), log_psi, lengths)
        yield context_products((left[0], left[2], left[0]), (right[0], right[2], right[0]), np.array([0, 9]))

    whole = list(results())
    calls = []
    real = chains.call
    monkeypatch.setattr(chains, "call", lambda name, **given: calls.append(name) or real(name, **given))
    monkeypatch.setattr(chains, "STEPS", 5000.0)
    for parts, expected in zip(results(), whole, strict=True):
        np.testing.assert_array_equal(parts, expected)
    assert {name: calls.count(name) for name in calls} == {"chains": 30, "ranged_chains": 3, "context_products": 3}
