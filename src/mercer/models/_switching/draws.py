"""Draws from switching systems: regimes of a Markov chain, and series of time-varying linear dynamical systems."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats, Indices
from mercer._probability import drawn
from mercer._random import random_generator
from mercer.models._dynamics.runs import Systems

__all__ = ["drawn_regimes", "drawn_series"]


def drawn_regimes(
    initial: Floats, transition: Floats, length: int, size: int, random_state: Any
) -> tuple[Indices, np.random.Generator]:
    """Draw paths of N chains, ``(N, size, length)``; return also the generator."""
    rng, n = random_generator(random_state), len(initial)
    first, step = np.cumsum(initial, axis=-1), np.cumsum(transition, axis=-1)
    regimes = np.empty((n, size, length), dtype=np.int64)
    models = np.arange(n)[:, None]
    for t in range(length):
        upper = step[models, regimes[..., t - 1]] if t else np.broadcast_to(first[:, None], (n, size, first.shape[-1]))
        regimes[..., t] = drawn(upper, rng.random((n, size)))
    return regimes, rng


def drawn_series(systems: Systems, regimes: Indices, rng: np.random.Generator) -> Floats:
    """Draw a series for every path of regimes, ``(N, size, length, d)``."""
    n, d = systems.size
    size = regimes.shape[:2]
    k = len(systems.transition) // max(len(regimes), 1)
    base = k * np.arange(len(regimes))[:, None]
    roots = [_root(part) for part in
             (systems.initial_covariance, systems.process_covariance, systems.observation_covariance)]  # fmt: skip

    def noise(root: Floats, which: Indices, width: int) -> Floats:
        return np.asarray(np.einsum("...ij,...j->...i", root[which], rng.normal(size=(*size, width))))

    out = np.empty((*regimes.shape, d))
    state = np.empty((*size, n))
    for t in range(regimes.shape[2]):
        which = base + regimes[..., t]
        if t:
            moved = np.einsum("...ij,...j->...i", systems.transition[which], state)
            state = moved + systems.state_offset[which] + noise(roots[1], which, n)
        else:
            state = systems.initial_mean[which] + noise(roots[0], which, n)
        seen = np.einsum("...ij,...j->...i", systems.emission[which], state)
        out[:, :, t] = seen + systems.observation_offset[which] + noise(roots[2], which, d)
    return out


def _root(covariance: Floats) -> Floats:
    """Return B with B B' equal to covariances, which may be singular."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :])
