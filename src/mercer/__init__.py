"""Kernels from generative models, for scikit-learn.

Choose a generative model of your data (a hidden Markov model, a multinomial, a Gaussian). mercer turns the model into
a positive semi-definite kernel for an SVM, a Gaussian process or kernel PCA. The page "Which kernel for my data?" of
the documentation helps to choose a kernel.

Names are imported on first use, so ``import mercer`` is fast and does not import scikit-learn.
"""

# ruff: noqa: F401, F403 - type checkers read the imports, Python the table below
from importlib import import_module
from typing import TYPE_CHECKING, Any

from mercer import _hints
from mercer._config import config as config
from mercer._config import set_config as set_config
from mercer._config import settings as settings
from mercer._version import __version__ as __version__

if TYPE_CHECKING:
    from mercer import data, datasets, embedding, families, gram, kernels, models, plot, stats
    from mercer._report import *
    from mercer.data import *
    from mercer.embedding import *
    from mercer.families import *
    from mercer.kernels import *
    from mercer.models import *
    from mercer.saving import *

_ROOMS = ("data", "datasets", "embedding", "families", "gram", "kernels", "models", "plot", "stats")
_HOMES = {
    "mercer.data": """
        Derivatives Lengths PerStep Sequences Standardize Windows objects read_fasta read_table read_ts read_ucr
    """,
    "mercer.families": """
        Bernoulli Categorical Categoricals Gaussian Gaussians Multinomial Multinomials Poisson Poissons
    """,
    "mercer.models": """
        AffinePairHMM BayesNet BayesNets Discounted FactorialHMM HMM HMMs HiddenTree KDE LDS LDSs
        MarkovChain MarkovChains Mixture Mixtures PairHMM ProfileHMM SwitchingLDS read_bif
    """,
    "mercer.kernels": """
        Centered Confounded EmpiricalKernelMap EmpiricalMeanMap Features Fisher FisherEnsemble GaussianProcess
        Heat JensenShannon KernelRidge Landmarks Laplace LatentMeanMap LikelihoodRatio Linear Marginalization MeanMap
        PosteriorCounts ProbabilityProduct RBF Residualized Sampled SeriesClassifier SeriesRegressor
        Spectrum SubspaceAngles SymmetricKL TOP Tempered compact aligned explain
    """,
    "mercer.embedding": "EmbeddedHMM",
    "mercer.saving": "file_info load save",
    "mercer._report": "Report report",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}
_HERE = ("__version__", "config", "set_config", "settings")

__all__ = sorted((*_HOME, *_ROOMS, *_HERE))


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name in _ROOMS:
        return import_module(f"mercer.{name}")
    if name not in _HOME:
        _hints.missing_from_package(name, (*_ROOMS, "testing"), __all__)
    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value


def _public(name: str) -> Any:
    """Return a public class or function by its bare name, in whichever module it is; None if there is none."""
    for room in ("data", "families", "models", "kernels", "embedding"):
        module = import_module(f"mercer.{room}")
        if name in module.__all__:
            return getattr(module, name)
    return getattr(import_module(_HOME[name]), name) if name in _HOME else None


def __dir__() -> list[str]:
    return __all__
