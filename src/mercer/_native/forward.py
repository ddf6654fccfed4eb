"""Forward and backward recursions and best paths of many runs (ALG-FB): native/forward.hpp, native/best_path.hpp."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer._array import Floats
from mercer._native import call

TRUSTED = 1e75
"""Bound of the numbers of sound results: native/forward.hpp says which. Others are repeated with unlimited range."""
TARGETS = dict.fromkeys(("first", "transitions", "visits", "states", "symbols", "steps"))
"""Results that can be requested, besides log probabilities."""


def sweep(
    models: tuple[Floats, Floats],
    evidence: tuple[Any, Any, Any],
    runs: tuple[Any, Any, Any],
    order: Any,
    log_prob: Floats,
    *,
    ratios: bool = False,
    **targets: Any,
) -> Callable[[slice], int]:
    """Return the function that processes a slice of ``order``, and returns 0 or 1 + the run that has no likelihood.

    Parameters
    ----------
    models : pair of ndarrays
        Initial probabilities ``(N, n)`` and transitions ``(N, n, n)``.
    evidence : (log densities (T, n), None, None), or (None, codes (T,), their probabilities (N, k, n))
        Likelihoods of the observations.
    runs : triple of ndarrays of int of shape (S,)
        First observation, number of observations and model of every run.
    order : ndarray of int
        Runs that are not empty, the longest first.
    log_prob : ndarray of shape (S,)
        Output array; -inf for impossible runs.
    ratios : bool, default=False
        Whether to divide posteriors by their own factors (FK-8).
    **targets
        Output arrays by the names of `TARGETS`: all of ``first (S, n)``, ``transitions (S, n, n)`` and ``visits (S,
        n)``, with ``states (T, n)`` and ``symbols (S, n, k)`` if wanted; or ``steps (T, n, n)``.
    """
    arguments = _common(models, evidence, runs, order)
    arguments |= {"trusted": TRUSTED, "ratios": ratios, "log_prob": log_prob} | TARGETS | targets
    return lambda part: call("forward", begin=part.start, end=part.stop, **arguments)


def best_paths(
    models: tuple[Floats, Floats],
    evidence: tuple[Any, Any, Any],
    runs: tuple[Any, Any, Any],
    order: Any,
    path: Any,
    value: Floats,
) -> Callable[[slice], int]:
    """Return the function that finds the best paths of a slice of ``order``.

    Parameters are those of `sweep`, all of them logarithms. ``path (T,)`` becomes the states, int32, ``value (S,)``
    the log probabilities of observations and states.
    """
    arguments = _common(models, evidence, runs, order)
    return lambda part: call("best_paths", begin=part.start, end=part.stop, path=path, value=value, **arguments)


def _common(models: Any, evidence: Any, runs: Any, order: Any) -> dict[str, Any]:
    """Arrange what both take, copied once where that is needed."""
    log_density, codes, probability = evidence
    given = {"initial": models[0], "transition": models[1], "log_density": log_density, "probability": probability}
    found: dict[str, Any] = {k: None if v is None else np.ascontiguousarray(v, np.float64) for k, v in given.items()}
    whole = dict(zip(("codes", "start", "length", "model", "order"), (codes, *runs, order), strict=True))
    return found | {k: None if v is None else np.ascontiguousarray(v, np.int64) for k, v in whole.items()}
