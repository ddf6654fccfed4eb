"""What every position of an input contributes to the decision of a fitted pipeline."""

from mercer.kernels._explain._aligned import Alignments, aligned
from mercer.kernels._explain._explain import explain
from mercer.kernels._explain._explanation import Contribution, Explanation

__all__ = ["Alignments", "Contribution", "Explanation", "aligned", "explain"]
