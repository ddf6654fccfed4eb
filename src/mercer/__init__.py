"""Kernels from generative models, for scikit-learn.

Say how your data come about (a hidden Markov model, a multinomial, a Gaussian), and mercer turns the model into a
positive semi-definite kernel, and the kernel into an SVM, a kernel ridge regression, a kernel PCA.
"""

from mercer import gram
from mercer._batch import load
from mercer._config import Settings, config, settings
from mercer._verdict import Verdict
from mercer._version import __version__
from mercer.data import Alphabet, Sequences, objects
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
    Centered,
    EmpiricalMap,
    EmpiricalMeanMap,
    Fisher,
    Gaussianized,
    JensenShannon,
    Linear,
    MeanMap,
    Multiplied,
    Normalized,
    ProbabilityProduct,
    Repaired,
    Scaled,
    Sum,
    Tempered,
)
from mercer.models import HMMs, Mixture, Mixtures

__all__ = [
    "RBF",
    "Alphabet",
    "Bernoulli",
    "Bernoullis",
    "Categorical",
    "Categoricals",
    "Centered",
    "EmpiricalMap",
    "EmpiricalMeanMap",
    "Fisher",
    "Gaussian",
    "Gaussianized",
    "Gaussians",
    "HMMs",
    "JensenShannon",
    "Linear",
    "MeanMap",
    "Mixture",
    "Mixtures",
    "Multinomial",
    "Multinomials",
    "Multiplied",
    "Normalized",
    "Poisson",
    "Poissons",
    "ProbabilityProduct",
    "Repaired",
    "Scaled",
    "Sequences",
    "Settings",
    "Sum",
    "Tempered",
    "Verdict",
    "__version__",
    "config",
    "gram",
    "load",
    "objects",
    "psd",
    "settings",
]
