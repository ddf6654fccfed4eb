"""Fisher scores, split into the parts of single observations."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from scipy import sparse

from mercer._array import Floats, to_numpy
from mercer.data import Sequences
from mercer.data.ragged import offsets_of
from mercer.data.segments import segments
from mercer.models._markov.scores import chain_step_scores
from mercer.models._scores.scores import family_scores, hmm_step_scores
from mercer.models._scores.weighted import TINY
from mercer.models.hmm import HMMs
from mercer.models.markov import MarkovChains
from mercer.models.scores import is_sequential, score_names, score_rows

__all__ = ["channel_shares", "prefixes", "step_scores"]


def step_scores(models: Any, X: Any, parametrization: str = "logit") -> Any:
    r"""Return the part of every observation in the scores of its sample, ``(T, C P)``; CSR if the model returns CSR.

    Parts of a sample sum to its score. Of hidden Markov models, the part of observation t are the posterior
    expectations of its transition, or of the initial state, and of its emission. Of Markov chains, it is the
    transition into t. Of all other models of sequences, it is what the score changes by when t is appended to the
    observations before it.

    Parameters
    ----------
    models : batch of shape (C,)
        Models with scores.
    X : Sequences, or matrix with one observation per row
        Samples, as the models read them.
    parametrization : {"logit", "weight"}, default="logit"
        FK-0.

    Examples
    --------
    >>> import mercer as mc
    >>> from mercer.models.step_scores import step_scores
    >>> chain = mc.MarkovChains([[0.5, 0.5]], [[[0.5, 0.5], [0.5, 0.5]]], alphabet="ab")
    >>> step_scores(chain, mc.Sequences(["aab"], alphabet="ab"))
    array([[ 0. ,  0. ,  0. ,  0. ],
           [ 0.5, -0.5,  0. ,  0. ],
           [-0.5,  0.5,  0. ,  0. ]])
    """
    if not is_sequential(models):
        x, _ = segments(X)
        rows = family_scores(models, x, np.arange(len(x) + 1), parametrization)
        return np.moveaxis(rows, 0, 1).reshape(len(x), -1)
    if isinstance(models, MarkovChains) and not np.any(X.values >= len(models.alphabet)):
        return chain_step_scores(models, X, parametrization)
    if isinstance(models, HMMs) and (parametrization == "logit" or _smallest(models) >= TINY):
        return hmm_step_scores(models, X, parametrization)
    return _appended(score_rows(models, prefixes(X), parametrization, "sequence"), X.offsets)


def prefixes(X: Sequences) -> Sequences:
    """Return all nonempty beginnings of sequences, one per observation, in the order of the observations."""
    ends = np.arange(len(X.values)) - np.repeat(X.offsets[:-1], X.lengths) + 1
    out = offsets_of(ends)
    where = np.repeat(np.repeat(X.offsets[:-1], X.lengths) - out[:-1], ends) + np.arange(out[-1])
    return Sequences._make(X.values[where], out, X.alphabet, None, None, None, X.channels)


def channel_shares(models: Any, channels: int) -> Floats:
    """Return how the parameters belong to the channels of observations, ``(C P, channels + 1)``; rows sum to 1.

    A covariance belongs to two channels. The last column are parameters that belong to no channel, such as transitions,
    and all parameters of models whose parts are changes of the score.
    """
    names = score_names(models, tuple(f"\0{i}\0" for i in range(channels)))
    leaves = {str(leaf): i for i, leaf in enumerate(getattr(models, "leaves", ()))}
    found = np.zeros((len(names), channels + 1))
    if is_sequential(models) and not isinstance(models, HMMs):
        found[:, -1] = 1.0
        return found
    for row, name in enumerate(names):
        leaf = re.search(r"leaf\[(.+), [^,]+, [^,]+\]$", name) if leaves else None
        at = [int(i) for i in re.findall("\0(\\d+)\0", name)] if leaf is None else [leaves[leaf[1]]]
        for i in at or [channels]:
            found[row, i] += 1 / max(len(at), 1)
    return found


def _smallest(models: Any) -> float:
    parts = [models.initial, models.transition]
    if hasattr(models.emission, "probability"):
        parts.append(models.emission.probability)
    return float(min(to_numpy(part).min() for part in parts))


def _appended(rows: Any, offsets: Floats) -> Any:
    """Return the differences of the scores of every beginning and the one before it."""
    start = np.zeros(rows.shape[0], dtype=bool)
    start[offsets[:-1][np.diff(offsets) > 0]] = True
    before = np.flatnonzero(~start)
    if not sparse.issparse(rows):
        out = rows.copy()
        out[before] -= rows[before - 1]
        return out
    move = sparse.csr_array((np.ones(len(before)), (before, before - 1)), shape=(rows.shape[0],) * 2)
    return sparse.csr_array(rows - move @ rows)
