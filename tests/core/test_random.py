"""``random_state``: 0 by default, and None is fresh randomness in every fit."""

import numpy as np
import pytest

import mercer as mc
from mercer._cache import parameter_key

POINTS = np.random.default_rng(0).normal(size=(6, 8, 2))


@pytest.mark.parametrize(
    "make",
    [
        lambda **seed: mc.EmpiricalMeanMap(n_components=3, **seed),
        lambda **seed: mc.Sampled(mc.Gaussian(), n_samples=5, **seed),
        lambda **seed: mc.ProbabilityProduct(mc.Mixture(n_components=2, n_init=1, n_iter=1, tol=0.0, **seed)),
    ],
)
def test_none_is_random_and_the_default_is_not(make):
    X = list(POINTS)
    np.testing.assert_array_equal(make().fit_transform(X), make(random_state=0).fit_transform(X))
    kernels = [make(random_state=None) for _ in range(12)]  # two starts can be the same by chance
    matrices = [kernel.fit_transform(X) for kernel in kernels]
    assert not all(np.array_equal(matrices[0], matrix) for matrix in matrices)
    assert parameter_key(kernels[0]) is None  # neither the memo of pairs nor the cache of fits knows it
    assert parameter_key(make()) is not None
