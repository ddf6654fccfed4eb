"""Structured models made of families."""

from mercer.models._discount import Discounted
from mercer.models._fitting.climb import FitInfo
from mercer.models._posterior import Posterior
from mercer.models.hmm import HMMs
from mercer.models.hmm_estimator import HMM
from mercer.models.markov import MarkovChains
from mercer.models.markov_estimator import MarkovChain
from mercer.models.mixture import Mixtures
from mercer.models.mixture_estimator import Mixture

__all__ = ["HMM", "Discounted", "FitInfo", "HMMs", "MarkovChain", "MarkovChains", "Mixture", "Mixtures", "Posterior"]
