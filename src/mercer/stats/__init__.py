"""Tests between groups of samples and between models, with any kernel."""

from mercer.stats.distance import process_distance
from mercer.stats.goodness import GoodnessOfFit, goodness_of_fit
from mercer.stats.independence import Independence, independence_test
from mercer.stats.two_sample import TwoSample, two_sample_test

__all__ = [
    "GoodnessOfFit",
    "Independence",
    "TwoSample",
    "goodness_of_fit",
    "independence_test",
    "process_distance",
    "two_sample_test",
]
