"""Filters of switching systems: many regime paths of a series at once, each with the Kalman filter of its systems.

All filters branch every path into all regimes at every step; they differ in which paths go on (`mercer.models.
_switching.selection`). While all paths fit, none is dropped and the result is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats, Indices, safe_log, to_numpy
from mercer._native import kalman
from mercer._parallel import n_threads, thread_map
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
