"""Models that Mehta and Gray (2010) reach by sampling (8), here exactly, against sums and draws."""

from __future__ import annotations

import itertools

import numpy as np

import mercer as mc


def test_m24_factorial_hmms_and_random_fields():
    """E exp(-gamma |x - y|^2) of random fields by enumeration, and of factorial models by draws."""
    rng, gamma = np.random.default_rng(0), 0.3
    tables = {pair: rng.gamma(1.0, size=(2, 2, 2)) for pair in (("a", "b"), ("b", "c"), ("c", "a"))}
    p = np.stack([np.einsum("ab,bc,ca->abc", *(table[i] for table in tables.values())) for i in (0, 1)])
    p /= p.sum(axis=(1, 2, 3), keepdims=True)
    states, truth = list(itertools.product((0, 1), repeat=3)), np.zeros((2, 2))
    for x, y in itertools.product(states, repeat=2):
        differ = sum(a != b for a, b in zip(x, y, strict=True))
        truth += np.outer(p[(slice(None), *x)], p[(slice(None), *y)]) * np.exp(-2 * gamma * differ)
    fields = mc.models.MarkovNetworks(tables, dict.fromkeys("abc", 2))
    np.testing.assert_allclose(mc.MeanMap(gamma=gamma, normalize=False)(fields), truth, rtol=1e-9)
    factorial = mc.models.FactorialHMMs(
        rng.dirichlet([1, 1], size=(2, 2)), rng.dirichlet([1, 1], size=(2, 2, 2)), rng.normal(size=(2, 2, 2, 1)),
        [[[0.5]], [[1.0]]],
    )  # fmt: skip
    x, y = factorial.sample(3, 40_000, random_state=0)
    values = np.exp(-gamma * ((x - y) ** 2).sum(axis=(1, 2)))
    found = mc.MeanMap(gamma=gamma, length=3, normalize=False)(factorial)[0, 1]
    assert abs(found - values.mean()) < 5 * values.std() / 200
