"""The one loop of expectation maximisation, for many models at once: HMMs (Baum-Welch) and mixtures."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from mercer._array import Floats
from mercer._parallel import progress_bar
from mercer.data.segments import segment_sum
from mercer.models._fitting.data import Data
from mercer.models._forward.interface import Expectations

__all__ = [
    "UNVISITED",
    "Climbed",
    "Collapsed",
    "FitInfo",
    "Goal",
    "Impossible",
    "ascend",
    "better_of",
    "climb",
    "in_order",
]

Model = TypeVar("Model")

UNVISITED = 1e-8
"""Expected visits below which nobody visits a state."""


class Impossible(Exception):
    """A sequence has probability zero where the climb starts: its position, and that of its model."""


class Collapsed(Exception):
    """A model has no density any more, such as a Gaussian without variance: its position, and what is wrong."""


class Goal(Protocol):
    """What is maximised, the log probability of the data plus a log prior, and the two steps that do it."""

    def log_prior(self, models: Any) -> Floats:
        """Log prior of every model, up to a constant."""
        ...

    def expect(self, models: Any, data: Data) -> tuple[Expectations, Any]:
        """Return what is expected of the hidden variables, and what the other step needs to remember."""
        ...

    def maximize(self, models: Any, data: Data, found: Expectations, memory: Any) -> Any:
        """Fit the models again to what is expected."""
        ...


class FitInfo(NamedTuple):
    """How the fits of several models ended, from ``fit_each(X, return_info=True)``.

    Examples
    --------
    >>> import mercer as mc
    >>> models, info = mc.HMM(n_states=2).fit_each(["abab", "aabb"], return_info=True)
    >>> info.n_iter.shape, info.converged.shape, info.objective.shape
    ((2,), (2,), (2,))
    """

    n_iter: Floats
    """Iterations of every model, ``(N,)``."""
    converged: Floats
    """Whether it converged before the largest number of them, ``(N,)``."""
    objective: Floats
    """Log probability of its data plus the log prior (up to a constant), before the last iteration, ``(N,)``."""


class Climbed(NamedTuple):
    """Where several climbs ended."""

    models: Any
    objective: Floats
    steps: Floats
    """Iterations of every model."""
    converged: Floats
    visits: Floats
    """Expected visits of every state in the last iteration, ``(N, n)``."""

    @property
    def info(self) -> FitInfo:
        """What is told of it."""
        return FitInfo(self.steps, self.converged, self.objective)


def climb(goal: Goal, data: Data, models: Any, n_iter: int, tol: float, label: str = "Baum-Welch") -> Climbed:
    """Iterate until the objective of every model grows by ``tol`` per observation at most; always, where ``tol`` is 0.

    A model that has converged leaves, so that its fit does not depend on its neighbours. Raises `Impossible` where a
    sequence has probability zero under its start.
    """
    n = data.size
    objective, steps, converged = np.full(n, -np.inf), np.zeros(n, dtype=int), np.zeros(n, dtype=bool)
    visits: Any = None
    finished, places, active = [], [], np.arange(n)
    with _counted(n_iter, label) as iterations:
        for iteration in iterations:
            found, memory = _expected(goal, models, data, active)
            ends = data.sequence_offsets
            reached = segment_sum(found.log_prob, ends) + goal.log_prior(models)
            gained = reached - objective[active]
            objective[active], steps[active] = reached, iteration
            visits = np.zeros((n, found.visits.shape[1])) if visits is None else visits
            visits[active] = segment_sum(found.visits, ends)
            models = goal.maximize(models, data, found, memory)
            done = (gained <= tol * data.mass) & (tol > 0)
            converged[active] = done
            if iteration == n_iter:
                done[:] = True
            if done.any():
                finished.append(models[np.flatnonzero(done)])
                places.append(active[done])
                kept = np.flatnonzero(~done)
                if len(kept) == 0:
                    break
                active, models, data = active[kept], models[kept], data.some(kept)
    joined = type(models).concat(finished)
    if len(finished) > 1:
        joined = joined[np.argsort(np.concatenate(places))]
    return Climbed(joined, objective, steps, converged, visits)


def ascend(
    step: Callable[[Model], tuple[float, Model]], model: Model, n_iter: int, tol: float, what: str
) -> tuple[Model, Floats, bool]:
    """Iterate one model until its objective grows by ``tol`` at most; always, where ``tol`` is 0.

    Warns where more iterations were wanted.

    Parameters
    ----------
    step : callable
        Returns the objective of a model, and the next model.
    model : object
        Where to begin.
    n_iter, tol : int and float
        When to stop.
    what : str
        Name of the model, for the warning.

    Returns
    -------
    model, objective, converged
        Where it ended, the objective before every iteration, and whether it stopped before ``n_iter``.
    """
    objective: list[float] = []
    with _counted(n_iter, "EM") as iterations:
        for _ in iterations:
            value, model = step(model)
            gained = value - objective[-1] if objective else np.inf
            objective.append(value)
            if tol > 0 and gained <= tol:
                return model, np.array(objective), True
    if tol > 0 and n_iter > 1:
        warnings.warn(
            f"EM stopped after n_iter = {n_iter} iterations, before {what} converged: raise n_iter or tol",
            ConvergenceWarning,
            stacklevel=2,
        )
    return model, np.array(objective), False


def _counted(n_iter: int, label: str) -> Any:
    """Count iterations, under a progress bar where this is the main thread; others have one of their own."""
    numbers: list[int] = list(range(1, n_iter + 1))
    if threading.current_thread() is threading.main_thread():
        return closing(progress_bar(numbers, f"{label}, iteration"))
    plain: Iterator[int] = iter(numbers)
    return nullcontext(plain)


def _expected(goal: Goal, models: Any, data: Data, active: Floats) -> tuple[Expectations, Any]:
    """Do the first step; what goes wrong names the model."""
    try:
        found, memory = goal.expect(models, data)
    except ValueError as error:
        place, reason = _first_collapsed(goal, models, data, error)
        raise Collapsed(int(active[place]), reason) from None
    if not np.isfinite(found.log_prob).all():
        sequence = int(np.flatnonzero(~np.isfinite(found.log_prob))[0])
        raise Impossible(sequence, int(active[data.model[sequence]]))
    return found, memory


def _first_collapsed(goal: Goal, models: Any, data: Data, error: ValueError) -> tuple[int, str]:
    """Find the first model that has no density, and what is wrong with it alone."""
    for i in range(data.size):
        try:
            goal.expect(models[i : i + 1], data.some(np.array([i])))
        except ValueError as alone:
            return i, str(alone)
    return 0, str(error)


def better_of(best: Climbed, other: Climbed) -> Climbed:
    """Keep the higher of two climbs for every model."""
    better = other.objective > best.objective
    if not better.any():
        return best
    rows = np.arange(len(better)) + np.where(better, len(better), 0)
    fields = [
        np.where(better.reshape(-1, *(1,) * (mine.ndim - 1)), theirs, mine)
        for mine, theirs in zip(best[1:], other[1:], strict=True)
    ]
    return Climbed(type(best.models).concat([best.models, other.models])[rows], *fields)


def in_order(pieces: list[Climbed], places: list[Floats]) -> Climbed:
    """Join climbs of the models at ``places``, of different sizes perhaps; visits are left out."""
    order = np.concatenate(places)
    models = type(pieces[0].models).concat([piece.models for piece in pieces])
    objective, steps, converged = (np.concatenate([piece[k] for piece in pieces]) for k in (1, 2, 3))
    if not np.array_equal(order, np.arange(len(order))):
        back = np.argsort(order)
        models, objective, steps, converged = models[back], objective[back], steps[back], converged[back]
    return Climbed(models, objective, steps, converged, np.empty((len(order), 0)))
