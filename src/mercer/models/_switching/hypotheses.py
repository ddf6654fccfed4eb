"""Filters of switching systems: many regime paths of a series at once, each with the Kalman filter of its systems.

All filters branch every path into all regimes at every step; they differ in which paths go on. While all paths fit,
none is dropped and the result is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats, Indices, logsumexp, safe_log, to_numpy
from mercer._native import kalman
from mercer._parallel import n_threads, thread_map
from mercer._random import random_generator
from mercer.models._dynamics.runs import Systems, systems_of
from mercer.models._forward.interface import Runs

_BLOCK = 2**21
"""Numbers of the states of all branches of a block of runs."""

Select = Callable[[Floats, int, int], tuple[Indices, Floats]]
"""``select(weights (S, C), most, t)`` picks ``most`` of C branches: positions and log weights ``(S, most)``."""


class Chains(NamedTuple):
    """Parameters of N switching systems with K regimes."""

    log_initial: Floats
    """``(N, K)``."""
    log_transition: Floats
    """``(N, K, K)``."""
    systems: Systems
    """Regime k of model i is system ``i * K + k``."""
    bonus: Floats | None = None
    """Added to the log weight of a path at first observations, later ones and those with a value, ``(3, N, K)``."""

    @property
    def regimes(self) -> int:
        """Number of regimes."""
        return int(self.log_initial.shape[1])


def chains_of(models: Any) -> Chains:
    """Return the parameters of a batch."""
    initial, transition = (np.asarray(to_numpy(x), np.float64) for x in (models.initial, models.transition))
    return Chains(safe_log(initial), safe_log(transition), systems_of(models.systems.reshape(-1)))


class States(NamedTuple):
    """Gaussian states: means ``(B, n)`` and covariances ``(B, n, n)``."""

    means: Floats
    covariances: Floats


def advance(
    systems: Systems, x: Floats, states: States | None, parent: Indices, system: Indices, point: Indices
) -> tuple[Floats, States]:
    """Continue states under some systems to some observations; return log densities ``(B,)`` and filtered states.

    Parameters
    ----------
    systems : Systems
        All systems.
    x : array of shape (T, d)
        Observations; NaN is missing.
    states : States or None
        The states so far; None where series begin.
    parent, system, point : array of int of shape (B,)
        State, system and observation of every branch.
    """
    size, n, each = len(system), systems.size[0], np.arange(len(system))
    density, found = np.empty(size), States(np.empty((size, n)), np.empty((size, n, n)))
    kalman.infer(
        systems, x, (point, np.ones_like(each), system), each, by_model=False, block=1, log_prob=density,
        means=found.means, covariances=found.covariances, place=each,
        after=(None, None, None) if states is None else (parent, *states),
    )  # fmt: skip
    return density, found


class Explored(NamedTuple):
    """Weighted regime paths of every run."""

    log_weight: Floats
    """``(S, H)``; -inf where there are fewer paths."""
    regimes: Indices | None
    """Regimes of every path at every observation, ``(H, T)``, if asked for; each series is in one run then."""


class Trace:
    """Where every path came from, to read paths backwards."""

    def __init__(self) -> None:
        self.parents: list[Indices] = []
        self.regimes: list[Indices] = []

    def write(self, out: Indices, starts: Indices, lengths: Indices) -> None:
        """Write the paths of runs, longest first, into layers ``(H, T)``."""
        most = out.shape[0]
        at = np.tile(np.arange(most), (len(starts), 1))
        for t in range(len(self.parents) - 1, -1, -1):
            parents, regimes = self.parents[t], self.regimes[t]
            active, width = parents.shape
            here = np.minimum(at[:active], width - 1)  # paths that do not exist have no weight
            rows = np.arange(active)[:, None]
            out[:, starts[:active] + t] = regimes[rows, here].T
            at[:active] = parents[rows, here]


def explore(
    chains: Chains,
    x: Floats,
    runs: Runs,
    most: int,
    select: Select,
    *,
    paths: bool = False,
    visit: Callable[..., None] | None = None,
) -> Explored:
    """Follow the regime paths of every run, at most ``most`` at a time.

    Parameters
    ----------
    chains : Chains
        Models.
    x : array of shape (T, d)
        Observations; NaN is missing.
    runs : Runs
        Series and their models.
    most : int
        Number of paths per run.
    select : callable
        Picks branches where there are more.
    paths : bool, default=False
        Whether to return regimes.
    visit : callable or None, default=None
        Called as ``visit(points, weights, states, trace)`` at every step of a block of runs, with all branches:
        observations ``(S,)``; log weights ``(S, C)`` and states ``(S, C, n)`` and ``(S, C, n, n)`` of branches; and the
        paths so far. Branch c goes on from path ``c // K`` to regime ``c % K``.
    """
    n = chains.systems.size[0]
    order = np.argsort(-np.asarray(runs.length), kind="stable")
    weights = np.full((len(order), most), -np.inf)
    weights[:, 0] = 0.0  # of an empty series
    layers = np.zeros((most, len(x)), np.int16) if paths else None
    points = np.ascontiguousarray(x, np.float64)
    step = max(1, _BLOCK // (most * chains.regimes * (n + 1) * n))

    def work(block: Indices) -> None:
        starts, lengths, models = (np.asarray(part)[block] for part in runs)
        trace = Trace() if paths or visit is not None else None
        weights[block] = _follow(chains, points, starts, lengths, models, most, select, trace, visit)
        if trace is not None and layers is not None:
            trace.write(layers, starts, lengths)

    blocks = [order[k : k + step] for k in range(0, len(order), step)]
    thread_map(work, blocks, threads=n_threads(), label="Regime paths")
    return Explored(weights, layers)


def _follow(
    chains: Chains, x: Floats, starts: Indices, lengths: Indices, models: Indices, most: int, select: Select,
    trace: Trace | None, visit: Callable[..., None] | None,
) -> Floats:  # fmt: skip
    """Follow the paths of a block of runs, longest first; return the log weights, ``(S, most)``."""
    k, n = chains.regimes, chains.systems.size[0]
    found = np.full((len(starts), most), -np.inf)
    found[:, 0] = 0.0
    weight, regime, states = np.zeros((len(starts), 1)), np.zeros((len(starts), 1), int), None
    for t in range(int(lengths.max(initial=0))):
        active = int(np.searchsorted(-lengths, -t, side="left"))  # runs with more than t observations
        model, point, width = models[:active], starts[:active] + t, weight.shape[1]
        log_step = chains.log_transition[model[:, None], regime[:active]] if t else chains.log_initial[model][:, None]
        children = weight[:active, :, None] + log_step
        if chains.bonus is not None:
            seen = np.isfinite(x[point]).any(axis=1)
            bonus = chains.bonus[min(t, 1)][model] + np.where(seen[:, None], chains.bonus[2][model], 0.0)
            children = children + bonus[:, None]
        children = children.reshape(active, width * k)
        run, child = np.divmod(np.arange(children.size), width * k)
        density, branches = advance(
            chains.systems, x, states, run * width + child // k, model[run] * k + child % k, point[run]
        )
        children = np.where(children > -np.inf, children + density.reshape(children.shape), -np.inf)
        if visit is not None:
            shape = (active, width * k)
            visit(point, children, States(branches[0].reshape(*shape, n), branches[1].reshape(*shape, n, n)), trace)
        if width * k <= most:
            picked, weight = np.tile(np.arange(width * k), (active, 1)), children
        else:
            picked, weight = select(children, most, t)
        rows = (np.arange(active)[:, None] * width * k + picked).reshape(-1)
        regime = picked % k
        states = States(*(part[rows] for part in branches))
        if trace is not None:
            trace.parents.append(picked // k)
            trace.regimes.append(regime)
        last = lengths[:active] == t + 1
        found[np.flatnonzero(last), : weight.shape[1]] = weight[last]
    return found


# Probabilities of series under switching systems: sums over all regime paths, or particle filters.

FEW = 1024
"""Number of regime paths that are all summed."""


def groups(
    chains: Chains, runs: Runs, n_particles: int, random_state: Any
) -> Iterator[tuple[Indices, Runs, int, Select]]:
    """Iterate over groups of runs: their positions, the runs, and the number and the selection of their paths.

    Runs with few paths follow all of them, the others as many as there are particles.
    """
    lengths, few = np.asarray(runs.length), best(chains.regimes)
    with np.errstate(over="ignore"):
        numbers = float(chains.regimes) ** lengths.astype(float)
    for count in np.unique(np.minimum(numbers, FEW + 1)):
        which = np.flatnonzero(np.minimum(numbers, FEW + 1) == count)
        some = Runs(*(np.asarray(part)[which] for part in runs))
        if count <= FEW:
            yield which, some, int(count), few
        else:
            yield which, some, n_particles, unbiased(random_generator(random_state).random(int(some.length.max())))


def log_likelihoods(chains: Chains, x: Floats, runs: Runs, n_particles: int, random_state: Any) -> Floats:
    """Return the log probability of every run, ``(S,)``: exact for few paths, else that of a particle filter."""
    found = np.zeros(len(runs.length))
    for which, some, most, select in groups(chains, runs, n_particles, random_state):
        found[which] = logsumexp(explore(chains, x, some, most, select).log_weight, axis=1)
    return found


# Which regime paths go on: the best ones, or a random choice that leaves every sum of weights unbiased.


def best(regimes: int) -> Select:
    """Return a selection of the paths of largest weight, among them the best one of every present regime."""

    def select(weights: Floats, most: int, t: int) -> tuple[Indices, Floats]:
        rows = np.arange(len(weights))[:, None]
        key = weights.copy()
        if most >= regimes:
            each = weights.reshape(len(weights), -1, regimes)
            leaders = each.argmax(axis=1) * regimes + np.arange(regimes)
            key[rows, leaders] = np.where(weights[rows, leaders] > -np.inf, np.inf, -np.inf)
        picked = np.argpartition(-key, most - 1, axis=1)[:, :most]
        return picked, weights[rows, picked]

    return select


def unbiased(uniform: Floats) -> Select:
    """Return the random selection of Fearnhead and Clifford (2003), in which no path occurs twice.

    Paths above a threshold are kept; of the others some are drawn by systematic sampling and get the threshold as
    their weight. Of all unbiased selections it has the smallest variance of the weights.

    ``uniform`` are uniform numbers, one for every step, ``(steps,)``.
    """

    def select(weights: Floats, most: int, t: int) -> tuple[Indices, Floats]:
        rows = np.arange(len(weights))[:, None]
        order = np.argsort(-weights, axis=1, kind="stable")
        logs = weights[rows, order]
        top = np.where(logs[:, :1] > -np.inf, logs[:, :1], 0.0)
        w = np.exp(logs - top)
        tail = np.cumsum(w[:, ::-1], axis=1)[:, ::-1][:, :most]  # the sum of this weight and all smaller ones
        level = tail / (most - np.arange(most))
        kept = np.argmax(w[:, :most] <= level * (1 + 1e-15), axis=1)  # number of weights above the threshold
        threshold = level[rows, kept[:, None]]
        share = np.divide(w, threshold, out=np.ones_like(w), where=w < threshold)
        reached = np.minimum(np.cumsum(share, axis=1), most)
        reached[:, -1:] = most
        chosen = np.diff(np.floor(reached - uniform[t] + 1), axis=1, prepend=0.0) > 0
        chosen[threshold[:, 0] <= 0] = np.arange(w.shape[1]) < most  # others have weight zero
        places = np.argsort(~chosen, axis=1, kind="stable")[:, :most]  # as many, also where a sum was rounded
        with np.errstate(divide="ignore"):
            flat = np.log(threshold) + top
        return order[rows, places], np.maximum(logs[rows, places], flat)

    return select
