"""Structured models made of families."""

from mercer.models.hmm import HMMs
from mercer.models.mixture import Mixture, Mixtures

__all__ = ["HMMs", "Mixture", "Mixtures"]
