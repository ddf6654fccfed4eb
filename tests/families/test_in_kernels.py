"""Families of vectors in kernels, as components of mixtures and as emissions of hidden Markov models."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import mercer as mc


def proportions():
    rng = np.random.default_rng(0)
    return [rng.dirichlet(a, size=30) for a in ([2.0, 3.0, 4.0], [2.0, 3.0, 3.5], [4.0, 1.0, 1.0])]


def drawn(name, *parameters):
    rng = np.random.default_rng(0)
    return [getattr(rng, name)(*values, size=(30, 1)) for values in parameters]


SCALES = (1.0,), (1.2,), (8.0,)
CASES = [
    (mc.families.Exponential(), drawn("exponential", *SCALES), True),
    (mc.families.Gamma(), drawn("gamma", (3.0, 1.0), (3.0, 1.2), (3.0, 8.0)), False),
    (mc.families.Dirichlet(), proportions(), False),
]


@pytest.mark.parametrize(("model", "sets", "has_mean_map"), CASES, ids=[type(model).__name__ for model, *_ in CASES])
def test_in_kernels_mixtures_and_hmms(model, sets, has_mean_map):
    kernels = [
        mc.ProbabilityProduct(model),
        mc.JensenShannon(model),
        mc.Fisher(model),
        mc.ProbabilityProduct(mc.Mixture(model, n_components=2)),
        mc.ProbabilityProduct(mc.HMM(2, model), length=4),
    ]
    if isinstance(model, mc.families.Gamma):
        kernels.append(mc.JensenShannon(model, form="centering"))
    if has_mean_map:
        kernels.append(mc.MeanMap(model, gamma=0.1))
    else:
        with pytest.raises(TypeError, match=r"MeanMap needs `log_mean_map`, which .* does not have"):
            mc.MeanMap(model, gamma=1.0).fit(sets)(sets)
    for kernel in kernels:
        K = kernel.fit(sets)(sets)
        assert np.all(np.isfinite(K))
        assert_allclose(np.diagonal(K), 1, rtol=1e-9)
        if kernel.model is model and not isinstance(kernel, mc.Fisher):  # scores compare directions
            assert K[0, 1] > K[0, 2]
