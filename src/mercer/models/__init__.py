"""Structured models, made of families, and their estimators.

Mixtures and kernel density estimates; Markov chains; hidden Markov models, factorial, pair and profile ones too; linear
dynamical systems, plain and switching; Bayesian networks; Markov networks; hidden trees.
"""

from mercer.models._fitting.em import FitInfo
from mercer.models._pairs.matches import Matches
from mercer.models.bayesnet import BayesNets, ContractionCost
from mercer.models.bayesnet_estimator import BayesNet
from mercer.models.bif import read_bif
from mercer.models.discount import Discounted
from mercer.models.factorial_hmm import FactorialHMMs
from mercer.models.factorial_hmm_estimator import FactorialHMM
from mercer.models.hidden_states import HiddenStates
from mercer.models.hmm import HMMs
from mercer.models.hmm_estimator import HMM
from mercer.models.hmmer import read_hmmer, write_hmmer
from mercer.models.kde import KDEs
from mercer.models.kde_estimator import KDE
from mercer.models.lds import LDSs
from mercer.models.lds_estimator import LDS
from mercer.models.markov import MarkovChains
from mercer.models.markov_estimator import MarkovChain
from mercer.models.markovnet import MarkovNetworks
from mercer.models.markovnet_estimator import MarkovNetwork
from mercer.models.mixture import Mixtures
from mercer.models.mixture_estimator import Mixture
from mercer.models.pairhmm import PairHMMs
from mercer.models.pairhmm_affine import AffinePairHMMs, LocalPairHMMs
from mercer.models.pairhmm_affine_estimator import AffinePairHMM
from mercer.models.pairhmm_estimator import PairHMM
from mercer.models.posterior import Posterior
from mercer.models.profile_hmm import ProfileHMMs
from mercer.models.profile_hmm_estimator import ProfileHMM
from mercer.models.switching import SwitchingLDSs
from mercer.models.switching_estimator import SwitchingLDS
from mercer.models.tree import HiddenTrees
from mercer.models.tree_estimator import HiddenTree

__all__ = [
    "HMM",
    "KDE",
    "LDS",
    "AffinePairHMM",
    "AffinePairHMMs",
    "BayesNet",
    "BayesNets",
    "ContractionCost",
    "Discounted",
    "FactorialHMM",
    "FactorialHMMs",
    "FitInfo",
    "HMMs",
    "HiddenStates",
    "HiddenTree",
    "HiddenTrees",
    "KDEs",
    "LDSs",
    "LocalPairHMMs",
    "MarkovChain",
    "MarkovChains",
    "MarkovNetwork",
    "MarkovNetworks",
    "Matches",
    "Mixture",
    "Mixtures",
    "PairHMM",
    "PairHMMs",
    "Posterior",
    "ProfileHMM",
    "ProfileHMMs",
    "SwitchingLDS",
    "SwitchingLDSs",
    "read_bif",
    "read_hmmer",
    "write_hmmer",
]
