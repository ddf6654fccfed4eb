"""A new sequence that is empty is never compared or classified: it raises, or has zero similarity to everything."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import mercer as mc
from mercer.kernels.base.kernel import Kernel

RNG = np.random.default_rng(0)
STRINGS = mc.Sequences(["ACGTACGTAC", "GGTACCATTG", "ACCATGACGT", "TTACAGGCAT"], alphabet="dna")
NEW_STRINGS = mc.Sequences(["ACGTT", ""], alphabet="dna", ids=["full", "void"])
SERIES = mc.Sequences([RNG.normal(size=(n, 2)) for n in (9, 12, 10, 11)])
NEW_SERIES = mc.Sequences([RNG.normal(size=(5, 2)), np.zeros((0, 2))], ids=["full", "void"])
Y = np.array([0, 1, 0, 1])


def hmm():
    return mc.HMM(n_states=2, n_iter=1, n_init=1, random_state=0)


def chain():
    return mc.MarkovChain(1)


WRAPPED = mc.ProbabilityProduct(chain())
ON_STRINGS = {
    mc.ProbabilityProduct: lambda: mc.ProbabilityProduct(chain()),
    mc.JensenShannon: lambda: mc.JensenShannon(mc.Categorical(prior="pooled")),
    mc.SymmetricKL: lambda: mc.SymmetricKL(mc.Categorical(prior="pooled")),
    mc.Heat: lambda: mc.Heat(mc.Categorical(prior="pooled")),
    mc.Sampled: lambda: mc.Sampled(mc.Categorical(prior="pooled"), random_state=0),
    mc.Fisher: lambda: mc.Fisher(hmm()),
    mc.TOP: lambda: mc.TOP(chain(), priors=[0.2, 0.8]),
    mc.Spectrum: lambda: mc.Spectrum(2),
    mc.LatentMeanMap: lambda: mc.LatentMeanMap(hmm()),
    mc.PosteriorCounts: lambda: mc.PosteriorCounts(hmm()),
    mc.Marginalization: lambda: mc.Marginalization(mc.PairHMM(n_states=2, n_iter=1, random_state=0)),
    mc.Centered: lambda: mc.Centered(WRAPPED),
    mc.EmpiricalKernelMap: lambda: mc.EmpiricalKernelMap(WRAPPED),
    mc.kernels.Gaussianized: lambda: mc.kernels.Gaussianized(WRAPPED),
    mc.kernels.Normalized: lambda: mc.kernels.Normalized(WRAPPED),
    mc.kernels.Product: lambda: mc.Spectrum(2) * WRAPPED,
    mc.kernels.Repaired: lambda: mc.kernels.Repaired(WRAPPED),
    mc.kernels.Scaled: lambda: 2.0 * WRAPPED,
    mc.kernels.Sum: lambda: mc.Spectrum(2) + WRAPPED,
    mc.kernels.TargetAligned: lambda: mc.kernels.TargetAligned([WRAPPED, mc.Spectrum(2)]),
    mc.Tempered: lambda: mc.Tempered(WRAPPED, 0.5),
    mc.LikelihoodRatio: lambda: mc.LikelihoodRatio(chain()),
    mc.kernels.LogOdds: lambda: mc.kernels.LogOdds(WRAPPED),
    mc.Landmarks: lambda: mc.Landmarks(WRAPPED, n_components=2, random_state=0),
}
ON_SERIES = {
    mc.MeanMap: lambda: mc.MeanMap(mc.Gaussian(prior="pooled")),
    mc.EmpiricalMeanMap: lambda: mc.EmpiricalMeanMap(),
    mc.FisherEnsemble: lambda: mc.FisherEnsemble(n_states=(2,), random_state=0),
    mc.SubspaceAngles: lambda: mc.SubspaceAngles(mc.LDS(1, n_iter=1)),
    mc.kernels.BinetCauchy: lambda: mc.kernels.BinetCauchy(mc.LDS(1, n_iter=1)),
    mc.embedding.BeliefKernel: lambda: mc.embedding.BeliefKernel(mc.EmbeddedHMM(n_components=2)),
}
OF_NO_SEQUENCES = {mc.Laplace, mc.Linear, mc.RBF, mc.Residualized}
"""They compare vectors, or objects with confounds, which the test below has."""


def test_every_kernel_is_here():
    public = {
        value for name in mc.__all__ if isinstance(value := getattr(mc, name), type) and issubclass(value, Kernel)
    }
    assert public <= {*ON_STRINGS, *ON_SERIES} | OF_NO_SEQUENCES


@pytest.mark.parametrize("cls", [*ON_STRINGS, *ON_SERIES], ids=lambda cls: cls.__name__)
def test_an_empty_sequence_raises(cls):
    strings = cls in ON_STRINGS
    X, new = (STRINGS, NEW_STRINGS) if strings else (SERIES, NEW_SERIES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = (ON_STRINGS if strings else ON_SERIES)[cls]().fit(X, Y)
        use = fitted.transform if hasattr(fitted, "transform") else fitted.predict
        assert len(use(new[:1])) == 1
        with pytest.raises(ValueError, match=r"'void' (is empty|has zero norm|of length 0)"):
            use(new)
        if isinstance(fitted, Kernel):
            with pytest.raises(ValueError, match=r"'void' (is empty|has zero norm|of length 0)"):
                fitted(X, new)


def test_zero_similarity_is_a_mask():
    for kernel in (mc.Fisher(chain(), on_zero="zero"), mc.Spectrum(2, on_zero="zero")):
        assert np.all(kernel.fit(STRINGS).transform(NEW_STRINGS)[1] == 0)


def test_with_confounds():
    kernel = mc.Residualized(WRAPPED).fit(STRINGS, confounds=np.arange(4.0)[:, None])
    with pytest.raises(ValueError, match="'void' is empty"):
        kernel.transform(NEW_STRINGS, confounds=np.zeros((2, 1)))


def pair_hmms(silent):
    return mc.models.PairHMMs([[1.0]], [[[0.5]]], [[0.5]], mc.Categoricals([[[0.25] * 4]], alphabet="dna"), [[silent]])


@pytest.mark.parametrize(
    ("kernel", "accepts"),
    [
        (mc.ProbabilityProduct(mc.MarkovChain(1, end=True), length=mc.Discounted(0.9)), True),
        (mc.ProbabilityProduct(mc.Categorical(prior="pooled")), False),
        (mc.Marginalization(pair_hmms(0.2)), True),
        (mc.Marginalization(pair_hmms(0.0)), False),
    ],
)
def test_a_model_that_defines_the_law_of_nothing(kernel, accepts):
    """The end is an observation, and silent states emit no symbol."""
    kernel = kernel.fit(STRINGS)
    assert kernel.model.accepts_empty == accepts
    if accepts:
        assert np.isfinite(kernel.transform(NEW_STRINGS)).all()
    else:
        with pytest.raises(ValueError, match="'void' is empty"):
            kernel.transform(NEW_STRINGS)
