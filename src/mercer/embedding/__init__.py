"""Hidden Markov models embedded in a Hilbert space (song2010): learn, filter and predict with any kernel."""

from mercer.embedding._filter import Beliefs
from mercer.embedding._prediction import Embedding
from mercer.embedding.estimator import BeliefKernel, EmbeddedHMM

__all__ = ["BeliefKernel", "Beliefs", "EmbeddedHMM", "Embedding"]
