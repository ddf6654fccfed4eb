"""What kernels ask of models besides the methods of batches and estimators: checks, lengths, names and scores."""

from mercer.models._discount import Discounted, check_lengths
from mercer.models._inference import read_before
from mercer.models._posterior import Posterior
from mercer.models._powers import require_whole
from mercer.models._scores.names import score_names
from mercer.models._scores.scores import alphabet_of, check_posterior
from mercer.models._scores.weighted import check_parametrization, difference

__all__ = [
    "Discounted",
    "Posterior",
    "alphabet_of",
    "check_lengths",
    "check_parametrization",
    "check_posterior",
    "difference",
    "read_before",
    "require_whole",
    "score_names",
]
