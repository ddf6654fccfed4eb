"""Fisher scores of hidden Markov models and mixtures: gradients of log probabilities, summed over time (FK-0)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mercer._array import Array, Floats, as_rows, namespace, to_numpy
from mercer._batch import Batch
from mercer.data import Sequences
from mercer.data.segments import segment_sum
from mercer.families.categorical import Categoricals
from mercer.families.gaussian import Gaussians
from mercer.models._forward.evidence import evidence_of
from mercer.models._forward.interface import Evidence, Expectations, Runs, Symbols, expectations
from mercer.models._forward.interface import steps as step_posteriors
from mercer.models._scores.weighted import (
    TINY,
    check_parametrization,
    code_counts,
    code_scores,
    difference,
    weighted_scores,
)
from mercer.models.inference import read


def hmm_scores(models: Any, X: Any, parametrization: str = "logit") -> Floats:
    """Scores of every sequence under every model, ``(C, M, P)`` (FK-8, FK-9).

    The blocks of P are initial (n), transition (n n) and emission (n times the parameters of a state). A padded state
    has score 0, as have, with "weight", the mixtures of a state under which an observation is impossible.

    Parameters
    ----------
    models : HMMs of shape (C,)
        The models.
    X : Sequences or array-like
        M sequences. Ambiguity codes and NaN are marginalized.
    parametrization : {"logit", "weight"}, default="logit"
        Probabilities by their logits, or by unnormalized weights at the normalized point.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> from mercer.models._scores.scores import hmm_scores
    >>> emission = mc.Categoricals([[[0.5, 0.5], [0.9, 0.1]]], alphabet="ab")
    >>> models = mc.HMMs([[0.5, 0.5]], [[[0.8, 0.2], [0.2, 0.8]]], emission)
    >>> hmm_scores(models, ["ab", "aab", ""]).shape
    (1, 3, 10)
    """
    check_parametrization(parametrization)
    models._require_axis()
    X = read(models.emission, X)
    rows = [_one_model(models, c, X, parametrization) for c in range(len(models))]
    return np.stack(rows) if rows else np.empty((0, len(X), len(models.score_names())))


def hmm_step_scores(models: Any, X: Any, parametrization: str = "logit") -> Floats:
    """Scores of every observation under all models, concatenated, ``(T, C P)``: their sums are those of `hmm_scores`.

    An observation has the expected transition into it (the first one, the initial state) and its emission. Parameters
    are those of `hmm_scores`; with "weight", none may be zero.
    """
    X = read(models.emission, X)
    return np.concatenate([_one_by_one(models, c, X, parametrization) for c in range(len(models))], axis=1)


def _one_by_one(models: Any, c: int, X: Sequences, parametrization: str) -> Floats:
    initial, transition = (to_numpy(part[c : c + 1]).astype(np.float64) for part in (models.initial, models.transition))
    evidence = evidence_of(models.emission[c : c + 1], X.values, np.zeros(len(X.values), dtype=int))
    runs, offsets = Runs.shared(X.offsets), np.asarray(X.offsets, dtype=np.int64)
    states = expectations(initial, transition, evidence, runs, states=True).states
    assert states is not None
    local = np.arange(len(X.values), dtype=np.int64) - np.repeat(offsets[:-1], X.lengths)
    moves, _ = step_posteriors(initial, transition, evidence, runs)
    first = np.where((local == 0)[:, None], states, 0.0)
    each = X._make(X.values, np.arange(len(X.values) + 1, dtype=np.int64), X.alphabet, None)
    emission, symbols = models.emission[c], None
    if isinstance(emission, Categoricals):
        symbols = code_counts(emission.alphabet.n_codes, X.values, each.offsets, states)
    found = Expectations(np.empty(0), first, moves, np.empty(0), states, symbols)
    return _assembled(models, c, each, found, parametrization, Ratios(None, None, None))


def alphabet_of(models: Any) -> Any:
    """Return the alphabet of the emissions, of states or their components; None for numbers."""
    return getattr(models if hasattr(models, "alphabet") else _leaf(models), "alphabet", None)


def _leaf(models: Any) -> Any:
    """Return the family of the emissions, of states or their components."""
    parts = (getattr(models, name, None) for name in ("emission", "components"))
    inner = next((part for part in parts if isinstance(part, Batch)), None)  # the emission of an LDS is a matrix
    return models if inner is None else _leaf(inner)


def posterior_scores(models: Any, posterior: Any, parametrization: str = "logit") -> Floats:
    """Scores of one model from posteriors that were computed elsewhere, ``(1, M, P)``.

    Parameters
    ----------
    models : HMMs of shape (1,)
        The model.
    posterior : Posterior
        ``X``, ``states (T, n)`` and ``transitions (M, n, n)``; with ``transitions=None`` their block is zero. The
        score of a zero parameter is zero.
    parametrization : {"logit", "weight"}, default="logit"
        FK-0.
    """
    check_parametrization(parametrization)
    check_posterior(models, posterior)
    X, states = posterior.X, np.asarray(posterior.states, dtype=np.float64)
    size, n = len(X), states.shape[1]
    steps = np.zeros((size, n, n)) if posterior.transitions is None else np.asarray(posterior.transitions, dtype=float)
    first, full = np.zeros((size, n)), X.lengths > 0
    first[full] = states[X.offsets[:-1][full]]
    emission, symbols, unknown = models.emission[0], None, None
    if isinstance(emission, Categoricals):
        symbols = code_counts(emission.alphabet.n_codes, X.values, X.offsets, states)
        unknown = np.zeros_like(symbols)
        unknown[..., : emission.dimension] = symbols.sum(axis=-1, keepdims=True)
    found = Expectations(np.empty(0), first, steps, np.empty(0), states, symbols)
    return _assembled(models, 0, X, found, parametrization, Ratios(None, None, unknown))[None]


def check_posterior(models: Any, posterior: Any) -> None:
    """Raise if the posteriors cannot be those of the model."""
    read(models.emission, posterior.X)
    n, found = int(models.initial.shape[-1]), posterior.states.shape[1]
    if len(models) != 1 or found != n:
        raise ValueError(
            f"The posteriors have {found} states, and the model has shape {models.shape} and {n} states. Pass the one "
            "model that they were computed with."
        )


class Ratios(NamedTuple):
    """Posteriors divided by their parameters, computed without the division (FK-8)."""

    first: Floats | None
    transitions: Floats | None
    symbols: Floats | None


def _one_model(models: Any, c: int, X: Sequences, parametrization: str) -> Floats:
    initial, transition = (to_numpy(part[c : c + 1]).astype(np.float64) for part in (models.initial, models.transition))
    evidence = evidence_of(models.emission[c : c + 1], X.values, np.zeros(len(X.values), dtype=int))
    symbolic = isinstance(evidence, Symbols)
    found = expectations(initial, transition, evidence, Runs.shared(X.offsets), states=not symbolic)
    impossible = np.flatnonzero(found.log_prob == -np.inf)
    if len(impossible):
        name = X.name(impossible[0])
        floor = "" if _leaf(models).__class__ is not Gaussians else ", or a floor on its variances"
        raise ValueError(
            f"{name} has probability zero under the shared model{_which(models, c)}, so it has no score. Fit the model "
            f"with prior='pooled'{floor}, or leave the sequence out."
        )
    divided = Ratios(None, None, None)
    if parametrization == "weight" and min(initial.min(), transition.min(), _smallest(evidence)) < TINY:
        divided = ratios(initial, transition, evidence, X.offsets, X.name)
    return _assembled(models, c, X, found, parametrization, divided)


def _which(models: Any, c: int) -> str:
    return f" {c}" if len(models) > 1 else ""


def _smallest(evidence: Evidence) -> float:
    return float(evidence.probability.min()) if isinstance(evidence, Symbols) else 1.0


def _assembled(models: Any, c: int, X: Sequences, found: Expectations, parametrization: str, divided: Ratios) -> Floats:
    """Concatenate the three blocks, ``(M, P)`` (FK-7)."""
    initial, transition = (to_numpy(part[c]).astype(np.float64) for part in (models.initial, models.transition))
    first = probability_scores(found.first, initial, divided.first, parametrization)
    moved = probability_scores(found.transitions, transition, divided.transitions, parametrization)
    emission = models.emission[c]
    if isinstance(emission, Categoricals) and found.symbols is not None:
        emitted = code_scores(emission, found.symbols, parametrization, divided.symbols)
    else:
        assert found.states is not None
        emitted = weighted_scores(emission, X.values, X.offsets, found.states, parametrization)
    return np.concatenate([first, as_rows(moved), as_rows(emitted)], axis=1)


def probability_scores(counts: Floats, p: Floats, divided: Floats | None, parametrization: str) -> Floats:
    """Return counts minus p times their total; in weights, counts / p minus their total (FK-7)."""
    total = counts.sum(axis=-1, keepdims=True)
    if parametrization == "logit":
        return difference(counts, p * total, total)
    zero = total if divided is None else divided  # the score is 0 where the ratio is undefined
    return difference(
        np.divide(counts, p, out=np.broadcast_to(zero, counts.shape).copy(), where=p > TINY), total, total
    )


def ratios(
    initial: Floats, transition: Floats, evidence: Evidence, offsets: Floats, name: Callable[[int], str]
) -> Ratios:
    """Run forward-backward again for ratios at parameters that are zero or nearly zero (FK-8).

    Sample i has the observations ``offsets[i]:offsets[i + 1]`` of the evidence; ``name(i)`` names it in messages.
    """
    found = expectations(initial, transition, evidence, Runs.shared(np.asarray(offsets)), ratios=True)
    sums = found.first.sum(axis=1) + found.transitions.sum(axis=(1, 2))
    bad = np.flatnonzero(~np.isfinite(found.log_prob + sums))
    if len(bad):
        raise ArithmeticError(
            f"{name(int(bad[0]))} is too improbable under the shared model for scores of weights. Use "
            "parametrization='logit'."
        )
    return Ratios(found.first, found.transitions, found.symbols)


def mixture_scores(mixtures: Any, x: Any, parametrization: str = "logit") -> Array:
    """Scores of every point under every mixture, ``(*B, T, P)`` (FK-5).

    First the mixing weights (m), then the parameters of the components, one component after the other, times their
    responsibilities.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> from mercer.models._scores.scores import mixture_scores
    >>> components = mc.Gaussians(mean=[[[-1.0], [1.0]]], covariance=[[1.0, 1.0]])
    >>> p = mc.Mixtures([[0.5, 0.5]], components)
    >>> mixture_scores(p, np.array([[0.0]])).round(2) + 0.0
    array([[[ 0. ,  0. ,  0.5,  0. , -0.5,  0. ]]])
    """
    check_parametrization(parametrization)
    if parametrization == "weight":
        flat, points = mixtures.reshape(-1), np.arange(x.shape[0] + 1)
        scores = weighted_scores(flat, x, points, np.ones((x.shape[0], len(flat))), parametrization)
        return np.moveaxis(scores, 0, 1).reshape(*mixtures.shape, *scores[:, 0].shape)
    weights, components = mixtures.weights, mixtures.components
    xp = namespace(weights)
    share = mixtures.responsibilities(x)
    inner = components.reshape(-1).fisher_scores(x)
    inner = xp.reshape(inner, (*components.shape, *inner.shape[-2:])) * share[..., None]
    inner = xp.moveaxis(inner, -3, -2)  # (*B, T, m, P)
    own = xp.matrix_transpose(share - weights[..., None])
    return xp.concat([own, xp.reshape(inner, (*inner.shape[:-2], math.prod(inner.shape[-2:])))], axis=-1)


def family_scores(models: Any, x: Any, offsets: Floats, parametrization: str = "logit") -> Floats:
    """Scores of every sample, a set of points, under every member of a family or mixture, ``(C, M, P)``."""
    check_parametrization(parametrization)
    if parametrization == "weight" or hasattr(models, "responsibilities"):
        everything = np.ones((x.shape[0], len(models)))
        return np.moveaxis(weighted_scores(models, x, offsets, everything, parametrization), 0, 1)
    scores = to_numpy(models.fisher_scores(x))
    return np.stack([segment_sum(rows, offsets) for rows in scores])
