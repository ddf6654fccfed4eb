"""Hidden Markov models embedded in a Hilbert space (song2010): learn, filter and predict with any kernel."""

from mercer._own_names import name_methods
from mercer.embedding._filter import Beliefs
from mercer.embedding.estimator import BeliefKernel, EmbeddedHMM

__all__ = ["BeliefKernel", "Beliefs", "EmbeddedHMM"]

name_methods(globals(), __all__)
