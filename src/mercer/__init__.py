"""Kernels from generative models, for scikit-learn.

Say how your data come about (a hidden Markov model, a multinomial, a Gaussian), and mercer turns the model into a
positive semi-definite kernel, and the kernel into an SVM, a kernel ridge regression, a kernel PCA.
"""

from typing import Any

from mercer import gram, plot
from mercer._batch import load
from mercer._config import Settings, config, settings
from mercer._verdict import Verdict
from mercer._version import __version__
from mercer.data import (
    Alphabet,
    Delays,
    Derivatives,
    Lengths,
    PerStep,
    Sequences,
    objects,
    read_fasta,
    read_ts,
    read_ucr,
)
from mercer.families import (
    Bernoulli,
    Bernoullis,
    Categorical,
    Categoricals,
    Gaussian,
    Gaussians,
    Multinomial,
    Multinomials,
    Poisson,
    Poissons,
)
from mercer.gram import psd
from mercer.kernels import (
    RBF,
    TOP,
    Aligned,
    Centered,
    Confounded,
    EmpiricalMap,
    EmpiricalMeanMap,
    Fisher,
    Gaussianized,
    Heat,
    JensenShannon,
    Landmarks,
    LikelihoodRatio,
    Linear,
    Marginalization,
    MeanMap,
    Multiplied,
    Normalized,
    ProbabilityProduct,
    Repaired,
    Residualized,
    Scaled,
    Spectrum,
    Sum,
    SymmetricKL,
    Tempered,
    align,
)
from mercer.models import (
    HMM,
    AffinePairHMM,
    AffinePairHMMs,
    Discounted,
    HiddenTree,
    HiddenTrees,
    HMMs,
    MarkovChain,
    MarkovChains,
    Matches,
    Mixture,
    Mixtures,
    PairHMM,
    PairHMMs,
    Posterior,
)

__all__ = [
    "HMM",
    "RBF",
    "TOP",
    "AffinePairHMM",
    "AffinePairHMMs",
    "Aligned",
    "Alphabet",
    "Bernoulli",
    "Bernoullis",
    "Categorical",
    "Categoricals",
    "Centered",
    "Confounded",
    "Delays",
    "Derivatives",
    "Discounted",
    "EmpiricalMap",
    "EmpiricalMeanMap",
    "Fisher",
    "Gaussian",
    "Gaussianized",
    "Gaussians",
    "HMMs",
    "Heat",
    "HiddenTree",
    "HiddenTrees",
    "JensenShannon",
    "Landmarks",
    "Lengths",
    "LikelihoodRatio",
    "Linear",
    "Marginalization",
    "MarkovChain",
    "MarkovChains",
    "Matches",
    "MeanMap",
    "Mixture",
    "Mixtures",
    "Multinomial",
    "Multinomials",
    "Multiplied",
    "Normalized",
    "PairHMM",
    "PairHMMs",
    "PerStep",
    "Poisson",
    "Poissons",
    "Posterior",
    "ProbabilityProduct",
    "Repaired",
    "Residualized",
    "Scaled",
    "Sequences",
    "Settings",
    "Spectrum",
    "Sum",
    "SymmetricKL",
    "Tempered",
    "Verdict",
    "__version__",
    "align",
    "config",
    "gram",
    "load",
    "objects",
    "plot",
    "psd",
    "read_fasta",
    "read_ts",
    "read_ucr",
    "settings",
]


def __getattr__(name: str) -> Any:
    """Import `mercer.datasets` where it is first asked for: few programs need it."""
    if name == "datasets":
        import mercer.datasets as datasets

        return datasets
    raise AttributeError(f"module 'mercer' has no attribute {name!r}")
