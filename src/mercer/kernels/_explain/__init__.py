"""What every position of an input contributes to the decision of a fitted pipeline, and whole channels to its score."""

from mercer.kernels._explain._aligned import Alignments, aligned
from mercer.kernels._explain._channels import ChannelImportance, channel_importance
from mercer.kernels._explain._explain import explain
from mercer.kernels._explain._explanation import Contribution, Explanation

__all__ = [
    "Alignments",
    "ChannelImportance",
    "Contribution",
    "Explanation",
    "aligned",
    "channel_importance",
    "explain",
]
