"""From data to rows of Fisher scores under a batch of models, and which models have scores at all."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from scipy import sparse

from mercer._array import Floats
from mercer.data import Sequences
from mercer.data.segments import segment_sum, segments
from mercer.families.coordinatewise import coordinate_labels
from mercer.models._scores.scores import alphabet_of, check_posterior, family_scores, posterior_scores
from mercer.models._scores.weighted import check_parametrization, difference
from mercer.models.hmm import HMMs
from mercer.models.posterior import Posterior

__all__ = [
    "DENSE",
    "alphabet_of",
    "check_parametrization",
    "check_posterior",
    "dense",
    "difference",
    "ends_by_itself",
    "has_scores",
    "is_posterior",
    "is_sequential",
    "lengths_of",
    "score_names",
    "score_rows",
]

DENSE = 1 << 27
"""Numbers of a matrix of scores that may be made dense: 1 GiB."""


def is_posterior(X: Any) -> bool:
    """Whether ``X`` holds posteriors of hidden states."""
    return isinstance(X, Posterior)


def is_sequential(models: Any) -> bool:
    """Whether models are of whole sequences, rather than of single points."""
    return hasattr(models, "sequence_scores")


def ends_by_itself(models: Any) -> bool:
    """Whether models draw whole sequences, so that no length is needed."""
    return bool(getattr(models, "draws_whole", False))


def has_scores(models: Any) -> bool:
    """Whether the models, or their components, have scores."""
    if isinstance(models, HMMs):
        return has_scores(models.emission)
    if hasattr(models, "components"):  # of points: a mixture of models of whole sequences has none
        return has_scores(models.components) and not is_sequential(models.components)
    return hasattr(models, "sequence_scores") or hasattr(models, "fisher_scores")


def lengths_of(X: Any) -> Floats:
    """Return the number of observations of each sample; a row of a matrix is one observation."""
    return np.asarray(X.lengths) if isinstance(X, Sequences | Posterior) else np.ones(X.shape[0], dtype=int)


_ALL_AXES = (
    "covariance", "log_sd", "mean", "observation_covariance", "observation_offset", "probability",
)  # fmt: skip
_FIRST_AXIS, _LAST_AXIS = ("emission",), ("mean",)
"""Parameters whose indices are channels: all of them; of a matrix, the first; of a table of states, the last."""


def score_names(models: Any, channels: tuple[str, ...] | None = None) -> list[str]:
    """Name the columns of the scores under every member of a batch of shape ``(C,)``, one member after the other.

    Parameters
    ----------
    models : Batch of shape (C,)
        Models with scores.
    channels : tuple of str, optional
        Names of the coordinates of the data, which stand in place of their numbers.

    Examples
    --------
    >>> import mercer as mc
    >>> from mercer.models.scores import score_names
    >>> score_names(mc.Mixtures([[0.5, 0.5]], mc.Gaussians([[[0.0], [1.0]]], [[1.0, 1.0]])))
    ['weights[0]', 'weights[1]', 'components[0].mean[0]', 'components[0].log_sd', 'components[1].mean[0]', \
'components[1].log_sd']
    """
    names: list[str] = models.score_names()
    if channels is not None:
        names = [_with_channels(name, channels) for name in names]
    return names if len(models) == 1 else [f"model[{c}].{name}" for c in range(len(models)) for name in names]


def _with_channels(name: str, channels: tuple[str, ...]) -> str:
    """Replace the numbers of channels in the name of a score, such as "emission[0].mean[1]"."""
    start, dot, last = name.rpartition("].")
    match = re.fullmatch(r"(\w+)\[(\d+(?:, \d+)*)\]", last)
    if match is None:
        return name
    parameter, index = match[1], match[2].split(", ")
    chosen = slice(0, 0)
    if len(index) == 3 and parameter in _LAST_AXIS:
        chosen = slice(2, 3)
    elif len(index) == 2 and parameter in _FIRST_AXIS:
        chosen = slice(0, 1)
    elif len(index) < 3 and (parameter in _ALL_AXES or parameter in coordinate_labels):
        chosen = slice(None)
    index[chosen] = [channels[int(i)] for i in index[chosen]]
    return f"{start}{dot}{parameter}[{', '.join(index)}]"


def score_rows(models: Any, X: Any, parametrization: str, per: str) -> Any:
    """Scores of each sample under all models, concatenated, ``(N, C P)``; CSR if the model returns CSR."""
    rows = _scores(models, X, parametrization)
    if sparse.issparse(rows):  # model by model, one below the other
        n = rows.shape[0] // len(models)
        rows = sparse.hstack([rows[c * n : (c + 1) * n] for c in range(len(models))], format="csr")
    else:
        rows = np.moveaxis(rows, 0, 1).reshape(rows.shape[1], -1)
    if per == "sequence":
        return rows
    scale = (1 / np.maximum(lengths_of(X), 1))[:, None]
    return rows.multiply(scale).tocsr() if sparse.issparse(rows) else rows * scale


def _scores(models: Any, X: Any, parametrization: str) -> Any:
    if is_posterior(X):
        return posterior_scores(models, X, parametrization)
    if is_sequential(models):
        return _of_observed(models.sequence_scores(X, parametrization), X)
    x, offsets = segments(X)
    return family_scores(models, x, offsets, parametrization)


def _of_observed(scores: Any, X: Any) -> Any:
    """Return scores ``(N, M, P)`` with exact zeros for series of numbers that are missing as a whole.

    Sums that cancel, or averages over random paths, would give them a direction that normalization makes large.
    """
    if sparse.issparse(scores) or not isinstance(X, Sequences) or X.is_symbols:
        return scores
    blank = segment_sum((~np.isnan(X.values)).any(axis=1).astype(int), X.offsets) == 0
    return np.where(blank[:, None], 0.0, scores) if blank.any() else scores


def dense(scores: Any, what: str) -> Floats:
    """Return scores as an ordinary matrix, or raise if it would be too large."""
    if not sparse.issparse(scores):
        return np.asarray(scores)
    if scores.shape[0] * scores.shape[1] > DENSE:
        raise ValueError(
            f"{what} needs a dense matrix of {scores.shape[0]} x {scores.shape[1]} scores; got a sparse one. Use "
            "information='identity' or 'diagonal', or a chain of lower order."
        )
    return np.asarray(scores.toarray())
