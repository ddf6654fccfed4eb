"""SIMD operations of the compiled loops, for any number of lanes."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mercer.compiled.code import compiled
from mercer.compiled.lanes import aligned, vector_function


def applied(lanes, operate):
    """Compile a function that applies ``operate(emitter, vector)`` to all numbers of an array."""

    @vector_function(lanes)
    def vector(e, x, at, out):
        e.store(operate(e, e.load(x, at)), out, at)

    @compiled
    def loop(x, out):
        for at in range(0, len(x), lanes):
            vector(x, at, out)

    def run(x):
        values, out = aligned((len(x),)), aligned((len(x),))
        values[:] = x
        loop(values, out)
        return out

    return run


@pytest.mark.parametrize("lanes", [1, 2, 4, 8])
def test_exponentials(lanes):
    t = np.random.default_rng(0).uniform(-1020, 1000, 64)
    t[:3] = -1020, 0, 1000
    assert_allclose(applied(lanes, lambda e, x: e.exp2([x])[0])(t), np.exp2(t), rtol=1e-15)
    x = t * 0.68
    assert_allclose(applied(lanes, lambda e, x: e.exponential(x))(x), np.exp(x), rtol=1e-15)


def test_powers_of_two():
    k = np.arange(-1022.0, 1018.0)
    assert_array_equal(applied(8, lambda e, x: e.power_of_two(x))(k), np.exp2(k))
    x = np.array([1.0, 1.99, 2.0, 3e300, 1e-300, 0.75, 0.0, 5.0])
    factor = applied(8, lambda e, x: e.inverse_power(x)[0])(x)
    assert_array_equal(factor[x > 0], np.exp2(-np.floor(np.log2(x[x > 0]))))
    assert factor[6] == 2.0**1023
    counted = applied(8, lambda e, x: e.builder.sitofp(e.inverse_power(x)[1], e.vector))(x)
    assert_array_equal(factor, np.exp2(1023 - counted))


@pytest.mark.parametrize("lanes", [1, 4, 8])
def test_loops_combine(lanes):
    x = np.random.default_rng(1).normal(size=8 * lanes)

    def smallest(e, _):
        trips = e.constant(8)
        start = [e.number(np.inf)]
        return e.loop(start, trips, lambda k: [e.load(e.args[0], e.offset(e.constant(0), k, lanes))], e.smaller)[0]

    assert_array_equal(applied(lanes, smallest)(x).reshape(8, lanes), np.tile(x.reshape(8, lanes).min(axis=0), (8, 1)))
