"""Hidden Markov models embedded in a Hilbert space (song2010): learn, filter, predict and classify with any kernel."""

from mercer.embedding._filter import Beliefs
from mercer.embedding.belief_kernel import BeliefKernel
from mercer.embedding.classifier import EmbeddedHMMClassifier
from mercer.embedding.estimator import EmbeddedHMM
from mercer.embedding.search import EmbeddedHMMCV

__all__ = ["BeliefKernel", "Beliefs", "EmbeddedHMM", "EmbeddedHMMCV", "EmbeddedHMMClassifier"]
