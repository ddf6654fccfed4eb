"""Filters of switching systems: many regime paths of a series at once, each with the Kalman filter of its systems.

All filters branch every path into all regimes at every step; they differ in which paths go on (`mercer.models.
_switching.selection`). While all paths fit, none is dropped and the result is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats, Indices, Mask, logsumexp, safe_log, to_numpy
from mercer._native import kalman
from mercer._parallel import n_threads, thread_map
from mercer._random import random_generator
from mercer.models._dynamics.runs import Systems, systems_of
from mercer.models._forward.interface import Runs

__all__ = ["Chains", "Explored", "States", "advance", "chains_of", "explore"]

_BLOCK = 2**21
"""Numbers of the states of all branches of a block of runs."""

Select = Callable[[Floats, int, int, Indices], tuple[Indices, Floats]]
"""``select(weights (S, C), most, t, runs)`` picks ``most`` of C branches: positions and log weights ``(S, most)``."""


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
    if not len(system):  # one that nothing comes from
        n = systems.size[0]
        return np.empty(0), States(np.zeros((1, n)), np.zeros((1, n, n)))
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


class _Trace:
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
        Called as ``visit(points, weights, regimes, states)`` at every step of a block of runs: observations ``(S,)``,
        log weights and regimes ``(S, H)``, and states ``(S, H, n)`` and ``(S, H, n, n)``.
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
        trace = _Trace() if paths else None
        weights[block] = _follow(chains, points, starts, lengths, models, block, most, select, trace, visit)
        if trace is not None and layers is not None:
            trace.write(layers, starts, lengths)

    blocks = [order[k : k + step] for k in range(0, len(order), step)]
    thread_map(work, blocks, threads=n_threads(), label="Regime paths")
    return Explored(weights, layers)


def _follow(
    chains: Chains, x: Floats, starts: Indices, lengths: Indices, models: Indices, names: Indices, most: int,
    select: Select, trace: _Trace | None, visit: Callable[..., None] | None,
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
        alive = np.flatnonzero(children > -np.inf)
        run, child = np.divmod(alive, width * k)
        parent = run * width + child // k if t else np.full(len(alive), -1)
        density, branches = advance(chains.systems, x, states, parent, model[run] * k + child % k, point[run])
        children.reshape(-1)[alive] += density
        place = np.zeros(children.size, int)
        place[alive] = np.arange(len(alive))
        if width * k <= most:
            picked, weight = np.tile(np.arange(width * k), (active, 1)), children
        else:
            picked, weight = select(children, most, t, names[:active])
        rows = place.reshape(active, -1)[np.arange(active)[:, None], picked]
        regime = picked % k
        shape = (active, picked.shape[1])
        states = States(*(part[rows.reshape(-1)] for part in branches))
        if trace is not None:
            trace.parents.append(picked // k)
            trace.regimes.append(regime)
        if visit is not None:
            visit(point, weight, regime, States(states[0].reshape(*shape, n), states[1].reshape(*shape, n, n)))
        last = lengths[:active] == t + 1
        found[np.flatnonzero(last), : weight.shape[1]] = weight[last]
    return found


# Probabilities of series under switching systems: sums over all regime paths, or particle filters.

METHODS = ("auto", "exact", "particles")
FEW = 1024
"""Number of regime paths that are summed without being asked for."""
_MOST = 2**18
_FILTERS = 8
"""Independent filters, whose spread gives a standard error."""


def numbers_of_paths(n_regimes: Any, lengths: Any) -> Floats:
    """Return the numbers of regime paths of series, as float; infinite for long ones."""
    with np.errstate(over="ignore"):
        return np.asarray(np.asarray(n_regimes, float) ** np.asarray(lengths, float))


def few_paths(numbers: Floats) -> Mask:
    """Whether series have so few regime paths that they are all summed."""
    return numbers <= FEW


def picked_runs(runs: Runs, which: Indices) -> Runs:
    """Return some runs."""
    return Runs(*(np.asarray(part)[which] for part in runs))


def log_likelihoods(
    chains: Chains, n_regimes: Indices, x: Floats, runs: Runs, method: str, n_particles: int, random_state: Any
) -> tuple[Floats, Floats]:
    """Return the log probability of every run and its standard error, ``(S,)``."""
    numbers = numbers_of_paths(n_regimes[runs.model], runs.length)
    exact = np.zeros(len(numbers), bool) if method == "particles" else few_paths(numbers)
    if method == "exact":
        exact[:] = True
        if len(numbers) and numbers.max() > _MOST:
            s = int(numbers.argmax())
            raise ValueError(
                f"A series of {int(runs.length[s])} observations has {numbers[s]:.3g} regime paths, too many to sum "
                "over. Use method='particles'."
            )
    found, errors = np.zeros(len(numbers)), np.zeros(len(numbers))
    for count in np.unique(numbers[exact]):
        which = np.flatnonzero(exact & (numbers == count))
        some = explore(chains, x, picked_runs(runs, which), int(count), best(chains.regimes))
        found[which] = logsumexp(some.log_weight, axis=1)
    rest = np.flatnonzero(~exact)
    if len(rest):
        several = picked_runs(runs, np.repeat(rest, _FILTERS))
        longest = int(np.asarray(several.length).max(initial=0))
        uniform = random_generator(random_state).random((longest, _FILTERS))
        select = unbiased(uniform, np.tile(np.arange(_FILTERS), len(rest)))
        logs = logsumexp(explore(chains, x, several, n_particles, select).log_weight, axis=1).reshape(-1, _FILTERS)
        found[rest] = logsumexp(logs, axis=1) - np.log(_FILTERS)
        ratios = np.exp(logs - found[rest, None])
        errors[rest] = ratios.std(axis=1, ddof=1) / np.sqrt(_FILTERS)
    return found, errors


# Which regime paths go on: the best ones, or a random choice that leaves every sum of weights unbiased.


def best(regimes: int) -> Callable[..., tuple[Indices, Floats]]:
    """Return a selection of the paths of largest weight, among them the best one of every present regime."""

    def select(weights: Floats, most: int, t: int, runs: Indices) -> tuple[Indices, Floats]:
        rows = np.arange(len(weights))[:, None]
        key = weights.copy()
        if most >= regimes:
            each = weights.reshape(len(weights), -1, regimes)
            leaders = each.argmax(axis=1) * regimes + np.arange(regimes)
            key[rows, leaders] = np.where(weights[rows, leaders] > -np.inf, np.inf, -np.inf)
        picked = np.argpartition(-key, most - 1, axis=1)[:, :most]
        return picked, weights[rows, picked]

    return select


def unbiased(uniform: Floats, group: Indices) -> Callable[..., tuple[Indices, Floats]]:
    """Return the random selection of Fearnhead and Clifford (2003), in which no path occurs twice.

    Paths above a threshold are kept; of the others some are drawn by systematic sampling and get the threshold as
    their weight. Of all unbiased selections it has the smallest variance of the weights.

    Parameters
    ----------
    uniform : array of shape (steps, G)
        Uniform numbers of every step and group.
    group : array of int of shape (S,)
        Group of every run.
    """

    def select(weights: Floats, most: int, t: int, runs: Indices) -> tuple[Indices, Floats]:
        rows = np.arange(len(weights))[:, None]
        order = np.argsort(-weights, axis=1, kind="stable")
        logs = weights[rows, order]
        top = np.where(logs[:, :1] > -np.inf, logs[:, :1], 0.0)
        w = np.exp(logs - top)
        tail = np.cumsum(w[:, ::-1], axis=1)[:, ::-1][:, :most]  # the sum of this weight and all smaller ones
        level = tail / (most - np.arange(most))
        kept = np.argmax(w[:, :most] <= level * (1 + 1e-15), axis=1)[:, None]  # number of weights above the threshold
        threshold = level[rows, kept]
        open_ = (np.arange(w.shape[1]) >= kept) & (threshold > 0)
        share = np.divide(w, threshold, out=np.zeros_like(w), where=open_)
        drawn = most - kept
        reached = np.minimum(np.cumsum(share, axis=1), drawn)
        reached[:, -1:] = drawn
        passed = np.floor(reached - uniform[t, group[runs]][:, None] + 1)
        chosen = np.diff(passed, axis=1, prepend=0.0) > 0
        chosen |= np.arange(w.shape[1]) < kept
        few = threshold[:, 0] <= 0  # nothing is left to choose from: the first ones, some of weight zero
        chosen[few] = np.arange(w.shape[1]) < most
        places = np.argsort(~chosen, axis=1, kind="stable")[:, :most]  # as many, also where a sum was rounded
        raised = (places >= kept) & ~few[:, None]
        with np.errstate(divide="ignore"):
            flat = np.log(threshold) + top
        return order[rows, places], np.where(raised, flat, logs[rows, places])

    return select
