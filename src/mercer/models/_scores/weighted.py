"""Scores of members of any family, weighted by posteriors and summed over every sample (FK-4, FK-5, FK-7, FK-8)."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats, logsumexp, safe_log, to_numpy
from mercer._checks import is_choice
from mercer._native.moments import moments
from mercer.data.segments import segment_sum
from mercer.families._covariance import upper
from mercer.families.categorical import Categoricals
from mercer.families.gaussian import Gaussians
from mercer.families.gaussian_gaps import patterns
from mercer.families.multinomial import Multinomials
from mercer.models._forward.evidence import code_probabilities

PARAMETRIZATIONS = ("logit", "weight")


def check_parametrization(parametrization: Any) -> None:
    """Raise if the parametrization is not one of FK-0."""
    if not is_choice(parametrization, PARAMETRIZATIONS):
        raise ValueError(
            "parametrization must be 'logit', or 'weight' for unnormalized weights at the normalized point (FK-0); "
            f"got {parametrization!r}."
        )


NOISE = 1e-12
"""Scores below this fraction of the terms that they are a difference of are rounding errors."""


def difference(found: Floats, expected: Floats, scale: Floats) -> Floats:
    """Return observed minus expected counts; 0 where the difference is within rounding of either or of ``scale``.

    Missing values have equal observed and expected counts, and rounding must not give them a direction.
    """
    out = found - expected
    return np.where(np.abs(out) <= NOISE * np.maximum(np.abs(found), scale), 0.0, out)


def weighted_scores(members: Any, x: Any, offsets: Floats, weights: Floats, parametrization: str = "logit") -> Floats:
    """Sum weight times score over the points of every sample.

    Parameters
    ----------
    members : family batch or Mixtures, of shape (n,)
        States or components.
    x : array of shape (T, ...)
        Points: symbol codes, vectors or rows of counts.
    offsets : ndarray of shape (S + 1,)
        Sample s has the points ``offsets[s]:offsets[s + 1]``.
    weights : ndarray of shape (T, n)
        Posterior probabilities of the members.
    parametrization : {"logit", "weight"}
        FK-0.

    Returns
    -------
    ndarray of shape (S, n, P)
    """
    if isinstance(members, Categoricals):
        return code_scores(members, code_counts(members.alphabet.n_codes, x, offsets, weights), parametrization)
    if isinstance(members, Gaussians):
        scores = _full_scores if members.structure == "full" else _diagonal_scores
        return scores(members, x, offsets, weights)
    if hasattr(members, "responsibilities"):
        return _mixture_sums(members, x, offsets, weights, parametrization)
    columns = []
    for i in range(len(members)):
        share = weights[:, i : i + 1]
        scores = point_scores(members[i : i + 1], x, parametrization)[0]
        columns.append(segment_sum(np.where(share > 0, share * np.where(share > 0, scores, 0.0), 0.0), offsets))
    return np.stack(columns, axis=1)


def point_scores(members: Any, x: Any, parametrization: str = "logit") -> Floats:
    """Scores of every point, ``(n, T, P)``; with "weight", multinomials use weights instead of logits (FK-7)."""
    if hasattr(members, "point_scores"):  # structured families implement weights themselves
        return np.asarray(members.point_scores(x, parametrization))
    scores = to_numpy(members.fisher_scores(x))
    if parametrization == "logit" or not isinstance(members, Multinomials):
        return scores
    p = to_numpy(members.dense().probability)[:, None, :]
    bad = np.argwhere((p == 0) & (scores > 0))
    if len(bad):
        raise ValueError(
            f"Point {bad[0][1]} counts outcome {bad[0][2]}, which has probability zero under the model, so it has no "
            "score there. Fit the model with a prior."
        )
    total = to_numpy(x.row_sums() if hasattr(x, "indptr") else np.asarray(x).sum(axis=-1))[..., None]
    return np.where(p > 0, scores / np.where(p > 0, p, 1.0), -total)


# -- symbols ------------------------------------------------------------------------------------------------


def code_counts(width: int, codes: Floats, offsets: Floats, weights: Floats) -> Floats:
    """Weighted numbers of each of ``width`` codes in every datum, ``(S, n, width)``."""
    size, n = len(offsets) - 1, weights.shape[1]
    cell = np.repeat(np.arange(size) * width, np.diff(offsets)) + codes
    columns = [np.bincount(cell, weights[:, i], minlength=size * width).reshape(size, width) for i in range(n)]
    return np.stack(columns, axis=1)


def code_scores(members: Categoricals, counts: Floats, parametrization: str, ratios: Floats | None = None) -> Floats:
    """Scores from weighted counts of codes ``(S, n, n_codes)``: ambiguity codes count as expected (FK-7, FK-8).

    ``ratios`` are the counts divided by the probabilities of the codes, for probabilities too small for a division.
    """
    p, q = to_numpy(members.probability).astype(np.float64), code_probabilities(members).astype(np.float64)
    k = p.shape[-1]
    total = counts.sum(axis=-1, keepdims=True)
    divided = np.divide(counts, q, out=np.zeros_like(counts), where=q > 0)
    if ratios is not None:
        divided = np.where(q > TINY, divided, ratios)
    sets = members.alphabet.indicators(np.arange(k, q.shape[-1])).astype(np.float64)
    vague = np.zeros_like(counts[..., :k])
    for code in range(k, q.shape[-1]):  # one by one, so that the order of a sum does not depend on other samples
        if counts[..., code].any():
            vague += divided[..., code, None] * sets[code - k]
    if parametrization == "weight":
        return divided[..., :k] + vague - total
    return counts[..., :k] + p * vague - p * total


TINY = 1e-100
"""A posterior is not divided by a probability below this, because both may be inaccurate."""


# -- Gaussians ----------------------------------------------------------------------------------------------


def _diagonal_scores(members: Gaussians, x: Any, offsets: Floats, weights: Floats) -> Floats:
    """Mean and log sd (FK-4); a missing coordinate adds nothing."""
    members._require_regular("the Fisher score")
    mean = to_numpy(members.mean).astype(np.float64)
    precision = 1 / to_numpy(members._variances).astype(np.float64)
    mass, first, second, _ = moments(np.asarray(x), weights, offsets, mean[None], first=True, second=True)
    location, spread = first * precision, second * precision - mass
    if members.structure == "isotropic":
        spread = spread.sum(axis=-1, keepdims=True)
    return np.concatenate([location, spread], axis=-1)


def _full_scores(members: Gaussians, x: Any, offsets: Floats, weights: Floats) -> Floats:
    """Mean and symmetric covariance gradient (FK-4, FK-9); missing coordinates are marginalized."""
    members._require_regular("the Fisher score")
    x, n, d = np.asarray(x), len(members), members.dimension
    if not np.isnan(x).any():  # without copies, which take longer than the sums
        location, gradient = _full_gradients(members, x, offsets, weights)
        return np.concatenate([location, upper(gradient)], axis=-1)
    size = len(offsets) - 1
    location, gradient = np.zeros((size, n, d)), np.zeros((size, n, d, d))
    for rows, seen in patterns(x):
        part = members.marginal(seen)
        found = _full_gradients(part, x[np.ix_(rows, seen)], np.searchsorted(rows, offsets), weights[rows])
        location[..., seen] += found[0]
        gradient[..., seen[:, None], seen] += found[1]
    return np.concatenate([location, upper(gradient)], axis=-1)


def _full_gradients(members: Gaussians, x: Floats, offsets: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Gradients in the mean, ``(S, n, d)``, and the covariance, ``(S, n, d, d)``, of complete points."""
    mean = to_numpy(members.mean).astype(np.float64)
    mass, first, _, second = moments(x, weights, offsets, mean[None], first=True, full=True)
    precision = np.linalg.inv(to_numpy(members.covariance).astype(np.float64))
    location = (precision @ first[..., None])[..., 0]
    return location, (precision @ second @ precision - mass[..., :1, None] * precision) / 2


# -- mixtures -----------------------------------------------------------------------------------------------


def _mixture_sums(members: Any, x: Any, offsets: Floats, weights: Floats, parametrization: str) -> Floats:
    """Mixing weights, then the components one after the other, weighted by their responsibilities (FK-5)."""
    mixing = to_numpy(members.weights).astype(np.float64)
    n, m = mixing.shape
    flat = members.components.reshape(n * m)
    densities = to_numpy(flat.log_prob(x)).reshape(n, m, -1)
    log_density = logsumexp(densities + safe_log(mixing)[..., None], axis=1)
    impossible = ~np.isfinite(log_density)
    bad = np.argwhere(impossible.T & (weights > 0))
    if len(bad):
        raise ValueError(
            f"Point {bad[0][0]} has probability zero under the mixture, so it has no score. Fit the mixture with a "
            "prior."
        )
    log_density = np.where(impossible, np.inf, log_density)
    over = weights[:, :, None] * np.moveaxis(np.exp(densities - log_density[:, None]), -1, 0)  # f_k / p
    share = over * mixing
    if parametrization == "weight" and isinstance(flat, Categoricals):
        # A component may exclude a symbol that the mixture allows: its ratio is w_k / p
        ratio = (weights * np.exp(-log_density.T))[:, :, None] * mixing
        counts, ratios = (code_counts(flat.alphabet.n_codes, x, offsets, s.reshape(-1, n * m)) for s in (share, ratio))
        inner = code_scores(flat, counts, parametrization, ratios)
    else:
        inner = weighted_scores(flat, x, offsets, share.reshape(-1, n * m), parametrization)
    total = segment_sum(weights, offsets)[..., None]
    if parametrization == "weight":
        own = segment_sum(over, offsets) - total
    else:
        own = segment_sum(share, offsets) - mixing * total
    return np.concatenate([own, inner.reshape(len(own), n, inner.shape[1] * inner.shape[2] // n)], axis=-1)
