"""Inference of linear dynamical systems over ragged series: groups of series on threads."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats, Indices, to_numpy
from mercer._native import kalman
from mercer._parallel import n_threads, thread_map
from mercer.models._forward.interface import Runs

__all__ = [
    "StateExpectations",
    "States",
    "Systems",
    "drawn_series",
    "expected",
    "filtered",
    "log_likelihoods",
    "smoothed",
    "systems_of",
]

_LANES = 16
"""Series that go through a step together, at most."""
_TOGETHER, _SHARED = 8 * _LANES, 32 * _LANES  # series that one thread takes at a time, of different models and of one
_RECORDS = 4096
"""Steps whose covariances are kept for the next series of the same model."""
_MOST = 2**21
"""Numbers that the smoother keeps of the steps of a series; of a longer one it filters parts again."""
_FEWEST = 256
"""Steps that are kept at least: of systems with many coordinates, and in filters of series that share nothing."""


class Systems(NamedTuple):
    """Parameters of N systems with n state and d observed coordinates, in double precision."""

    transition: Floats
    """``(N, n, n)``."""
    state_offset: Floats
    """``(N, n)``."""
    emission: Floats
    """``(N, d, n)``."""
    observation_offset: Floats
    """``(N, d)``."""
    process_covariance: Floats
    """``(N, n, n)``."""
    observation_covariance: Floats
    """``(N, d, d)``."""
    initial_mean: Floats
    """``(N, n)``."""
    initial_covariance: Floats
    """``(N, n, n)``."""

    @property
    def size(self) -> tuple[int, int]:
        """Numbers of state and observed coordinates."""
        return int(self.emission.shape[-1]), int(self.emission.shape[-2])


def shapes_of(n: int, d: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the parameters of one system with n state and d observed coordinates."""
    return dict(zip(Systems._fields, ((n, n), (n,), (d, n), (d,), (n, n), (d, d), (n,), (n, n)), strict=True))


def systems_of(models: Any) -> Systems:
    """Return the parameters of a batch."""
    return Systems(*(np.ascontiguousarray(to_numpy(getattr(models, name)), np.float64) for name in Systems._fields))


class States(NamedTuple):
    """States at every observation."""

    log_prob: Floats
    """``(S,)``."""
    means: Floats
    """``(T, n)``."""
    covariances: Floats
    """``(T, n, n)``."""
    lags: Floats
    """Covariances of the next state and this one, ``(T, n, n)``; zero at the end of a series."""


class StateExpectations(NamedTuple):
    """Results of the E-step for every series; the sums are gradients of the log probability, except moments.

    With r_t the gradient in the predicted state of step t + 1 and N_t its negative curvature, E the smoothed
    expectation: ``noise`` sums r r' - N, and likewise for observations.
    """

    log_prob: Floats
    emission: Floats
    """Gradient in the emission and the offset of the observation, ``(S, d, n + 1)``."""
    transition: Floats
    """Gradient in the transition and the offset of the state, ``(S, n, n + 1)``."""
    process: Floats
    """Twice the gradient in the process covariance, ``(S, n, n)``."""
    observation: Floats
    """Twice the gradient in the observation covariance, ``(S, d, d)``."""
    state_moment: Floats
    """Second and first moments of the states with a successor, ``(S, n, n + 1)``."""
    observed_moment: Floats
    """Second and first moments of the states at which something was observed, ``(S, n, n + 1)``."""
    initial_mean: Floats
    """Gradient in the mean of the first state, ``(S, n)``."""
    initial: Floats
    """Twice the gradient in the covariance of the first state, ``(S, n, n)``."""


def _by_model(x: Floats, runs: Runs) -> Indices:
    """Return the runs of every model, longest first, those without gaps before the others."""
    gaps = np.zeros(len(runs.length), dtype=bool)
    if np.isnan(x.sum()):  # a sum is much faster than a search along short rows
        missing = np.concatenate([[0], np.cumsum(np.isnan(x).any(axis=1))])
        gaps = missing[runs.start + runs.length] > missing[runs.start]
    return np.lexsort((-runs.length, gaps, runs.model))


def _infer(systems: Systems, x: Floats, runs: Runs, records: int, **outputs: Any) -> None:
    """Filter or smooth all series, longest first, on threads; ``outputs`` are those of `kalman.infer`.

    ``records`` is the number of steps whose covariances are kept, at most, where series do not share a model.
    """
    if not len(runs.length):
        return
    plain = runs.plain
    points = np.ascontiguousarray(x, np.float64)
    shared = len(runs.length) >= 2 * _LANES * len(systems.transition)  # then series of one model share covariances
    order = _by_model(points, plain) if shared else np.argsort(-plain.length, kind="stable")
    step = _SHARED if shared else _TOGETHER
    block = max(min(int(runs.length.max()), max(records, _RECORDS) if shared else records), 1)

    def work(order: Indices) -> None:
        kalman.infer(systems, points, tuple(plain), order, by_model=shared, block=block, **outputs)

    thread_map(
        work, [order[k : k + step] for k in range(0, len(order), step)], threads=n_threads(), label="Kalman filter"
    )


def log_likelihoods(systems: Systems, x: Floats, runs: Runs) -> Floats:
    """Log probability of every series under its model, ``(S,)``."""
    found = np.empty(len(runs.length))
    _infer(systems, x, runs, _FEWEST, log_prob=found)
    return found


def filtered(systems: Systems, x: Floats, runs: Runs) -> States:
    """States given the observations so far (ALG-KF)."""
    n, count = systems.size[0], len(x)
    found = States(np.empty(len(runs.length)), np.empty((count, n)), np.empty((count, n, n)), np.empty(0))
    _infer(
        systems, x, runs, _FEWEST, log_prob=found.log_prob, means=found.means, covariances=found.covariances
    )  # fmt: skip
    return found


def records(systems: Systems) -> int:
    """Return the number of steps that the smoother keeps, at most."""
    return max(_MOST // (2 * (sum(systems.size) + 1) ** 2), _FEWEST)


def sums_size(n: int, d: int) -> int:
    """Return how many numbers `split_sums` takes of a series."""
    return (d + 3 * n) * (n + 1) + n * n + d * d


def split_sums(n: int, d: int, sums: Floats) -> list[Floats]:
    """Return the sums of the smoother, ``(S, sums_size)``, as the fields of `StateExpectations` from emission on."""
    shapes = [(d, n + 1), (n, n + 1), (n, n), (d, d), (n, n + 1), (n, n + 1)]
    ends = [0, *itertools.accumulate(rows * columns for rows, columns in shapes)]
    parts = zip(itertools.pairwise(ends), shapes, strict=True)
    return [sums[:, begin:end].reshape(len(sums), *shape) for (begin, end), shape in parts]


def _smooth(systems: Systems, x: Floats, runs: Runs, **outputs: Floats) -> tuple[Floats, Floats, Floats]:
    """Run the smoother; return log probabilities, the sums of every series, and gradients in the first state."""
    (n, d), size = systems.size, len(runs.length)
    log_prob = np.empty(size)
    sums, first = np.empty((size, sums_size(n, d))), np.empty((size, n + n * n))
    _infer(systems, x, runs, records(systems), log_prob=log_prob, sums=sums, gradients=first, **outputs)
    return log_prob, sums, first


def smoothed(systems: Systems, x: Floats, runs: Runs) -> States:
    """States given all observations of a series (ALG-RTS)."""
    n, count = systems.size[0], len(x)
    means, covariances, lags = np.empty((count, n)), np.empty((count, n, n)), np.zeros((count, n, n))
    log_prob, _, _ = _smooth(systems, x, runs, means=means, covariances=covariances, lags=lags)
    return States(log_prob, means, covariances, lags)


def expected(systems: Systems, x: Floats, runs: Runs) -> StateExpectations:
    """Return the sums of every series that scores and EM use (FK-10)."""
    n, d = systems.size
    log_prob, sums, first = _smooth(systems, x, runs)
    r, curve = first[:, :n], first[:, n:].reshape(-1, n, n)
    return StateExpectations._make([log_prob, *split_sums(n, d, sums), r, r[:, :, None] * r[:, None, :] - curve])


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
