"""A family of vectors in kernels, as components of mixtures and as emissions of hidden Markov models."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose

import mercer as mc


def test_in_kernels_mixtures_and_hmms():
    sets = [np.random.default_rng(0).exponential(scale, size=(30, 1)) for scale in (1.0, 1.2, 8.0)]
    model = mc.families.Exponential()
    kernels = [
        mc.ProbabilityProduct(model),
        mc.JensenShannon(model),
        mc.Fisher(model),
        mc.MeanMap(model, gamma=0.1),
        mc.ProbabilityProduct(mc.Mixture(model, n_components=2)),
        mc.ProbabilityProduct(mc.HMM(2, model), length=4),
    ]
    for kernel in kernels:
        K = kernel.fit(sets)(sets)
        assert np.all(np.isfinite(K))
        assert_allclose(np.diagonal(K), 1, rtol=1e-9)
        if kernel.model is model and not isinstance(kernel, mc.Fisher):  # scores compare directions
            assert K[0, 1] > K[0, 2]


def test_gammas_in_kernels_and_mixtures():
    rng = np.random.default_rng(0)
    sets, model = [rng.gamma(3.0, scale, size=(30, 1)) for scale in (1.0, 1.2, 8.0)], mc.families.Gamma()
    for kernel in (mc.ProbabilityProduct(model), mc.JensenShannon(model, form="centering"), mc.Fisher(model)):
        np.testing.assert_allclose(np.diagonal(kernel.fit(sets)(sets)), 1, rtol=1e-9)
    K = mc.ProbabilityProduct(mc.Mixture(model, n_components=2)).fit(sets)(sets)
    assert K[0, 1] > K[0, 2]
