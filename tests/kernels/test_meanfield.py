"""Mean field bounds of networks with probabilities of 0: never above the exact kernel, and 0 where it is 0."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import mercer as mc


def table(rng, *shape):
    """Draw distributions with many zeros."""
    rows = rng.dirichlet(np.ones(shape[-1]), size=shape[:-1]) * (rng.random(shape) < 0.6)
    empty = rows.sum(axis=-1) == 0
    rows[empty] = np.eye(shape[-1])[rng.integers(shape[-1], size=int(empty.sum()))]
    return rows / rows.sum(axis=-1, keepdims=True)


def enumerated(a, b, c, rho):
    """Sum the powers of both joint probabilities over all states of the chain a -> b -> c."""
    joint = [[a[i, x] * b[i, x, y] * c[i, y, z] for x, y, z in product(range(3), repeat=3)] for i in range(len(a))]
    powers = np.array(joint) ** rho
    return powers @ powers.T


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("rho", [0.5, 1.0])
def test_bounds_of_networks_with_zeros(rho):
    rng, zeros, stuck = np.random.default_rng(0), 0, 0
    for _ in range(10):
        tables = {"a": table(rng, 4, 3), "b": table(rng, 4, 3, 3), "c": table(rng, 4, 3, 3)}
        nets = mc.BayesNets(tables, {"a": 3, "b": 3, "c": 3}, {"b": ["a"], "c": ["b"]})
        exact, kernel = enumerated(*tables.values(), rho), mc.MeanField(rho=rho, normalize=False)
        bound, gap = kernel(nets), kernel.gap(nets)
        assert (bound <= exact * (1 + 1e-9)).all()
        zero = exact == 0
        assert np.isneginf(kernel.log(nets)[zero]).all()
        np.testing.assert_array_equal(gap[zero], 0.0)
        found = ~zero & (bound > 0)
        np.testing.assert_allclose(gap[found], np.log(exact[found] / bound[found]), atol=1e-9)
        assert np.isposinf(gap[~zero & (bound == 0)]).all()
        zeros, stuck = zeros + int(zero.sum()), stuck + int((~zero & (bound == 0)).sum())
    assert zeros > 10
    assert stuck <= 2


def test_a_pair_does_not_depend_on_its_neighbors():
    rng = np.random.default_rng(1)
    tables = {"a": table(rng, 6, 3), "b": table(rng, 6, 3, 3)}
    nets = mc.BayesNets(tables, {"a": 3, "b": 3}, {"b": ["a"]})
    kernel = mc.MeanField(normalize=False)
    whole = kernel(nets)
    for i in range(6):
        np.testing.assert_allclose(kernel(nets[[i]], nets), whole[[i]], rtol=1e-12)
