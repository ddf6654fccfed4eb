"""The loop of expectation maximization: for many models at once, in step, or for one model with other statistics."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, nullcontext
from functools import reduce
from typing import Any, NamedTuple, Protocol

import numpy as np

from mercer._array import Floats, Indices, Mask
from mercer._notices import notify_unconverged
from mercer._parallel import BAR_AFTER_SECONDS, progress_bar
from mercer.data.segments import segment_sum
from mercer.models._fitting.data import Data

_logger = logging.getLogger("mercer")
UNVISITED = 1e-8
"""A state with fewer expected visits counts as unvisited."""


class Impossible(Exception):
    """A sequence has probability zero under its start; the arguments are its position and that of its model."""


class Collapsed(Exception):
    """A model has become singular, such as a Gaussian without variance; the arguments are its position and why."""


class Goal(Protocol):
    """The objective of EM, the log probability of the data plus a log prior, and its two steps."""

    def log_prior(self, models: Any) -> Floats:
        """Log prior of each model, up to a constant."""
        ...

    def expect(self, models: Any, data: Data) -> tuple[Any, Any]:
        """E-step: return expectations, with ``log_prob`` and ``visits`` per sequence, and what the M-step needs."""
        ...

    def maximize(self, models: Any, data: Data, found: Any, memory: Any) -> Any:
        """M-step: refit the models to the expectations."""
        ...


class FitInfo(NamedTuple):
    """Results of several fits, from ``fit_each(X, return_info=True)``.

    Examples
    --------
    >>> import mercer as mc
    >>> models, info = mc.HMM(n_states=2).fit_each(["abab", "aabb"], return_info=True)
    >>> info.n_iter.shape, info.converged.shape, info.objective.shape
    ((2,), (2,), (2,))
    """

    n_iter: Indices
    """Number of iterations of each model, ``(N,)``."""
    converged: Mask
    """Whether each model converged before the maximum number of iterations, ``(N,)``."""
    objective: Floats
    """Log probability plus the log prior (up to a constant) of each model before the last iteration, ``(N,)``."""


class EMResults(NamedTuple):
    """Several models fitted by EM, with the objective and the number of iterations of each."""

    models: Any
    objective: Floats
    steps: Indices
    """Number of iterations of each model, ``(N,)``."""
    converged: Mask
    visits: Floats
    """Expected visits of each state in the last iteration, ``(N, n)``."""
    history: Floats | None = None
    """The objective before each iteration, ``(N, iterations)``; NaN after the last one of a model."""

    @property
    def info(self) -> FitInfo:
        """The results that a user sees."""
        return FitInfo(self.steps, self.converged, self.objective)


Found = list[tuple[EMResults, Callable[[int], str]]]
"""Fits, each with a function that names its models in messages."""


def em_batch(goal: Goal, data: Data, models: Any, n_iter: int, tol: float, label: str = "Baum-Welch") -> EMResults:
    """Run EM until the objective of each model grows by at most ``tol`` per observation; ``n_iter`` times if tol is 0.

    Models that have converged are no longer updated, so a fit does not depend on the other models. Raises `Impossible`
    if a sequence has probability zero under its start.
    """
    n, begun = data.size, time.perf_counter()
    samples = f"{len(data.model)} samples" if data.weights is None else f"{len(data.x)} points"
    about = f"{n} {type(models).__name__} of {samples}"
    objective, steps, converged = np.full(n, -np.inf), np.zeros(n, dtype=int), np.zeros(n, dtype=bool)
    visits: Any = None
    finished, places, active = [], [], np.arange(n)
    history: list[Floats] = []
    with _counted(n_iter, label) as iterations:
        for iteration in iterations:
            found, memory = _expected(goal, models, data, active)
            ends = data.sequence_offsets
            reached = segment_sum(found.log_prob, ends) + goal.log_prior(models)
            gained = reached - objective[active]
            objective[active], steps[active] = reached, iteration
            history.append(np.full(n, np.nan))
            history[-1][active] = reached
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
    _log(label, about, steps.max(), begun)
    joined = type(models).concat(finished)  # in the order in which they converged
    if len(finished) > 1:
        joined = joined[np.argsort(np.concatenate(places))]
    return EMResults(joined, objective, steps, converged, visits, np.stack(history, axis=1))


def best_of(
    goal: Goal, data: Data, starts: Iterable[Any], n_iter: int, tol: float, label: str = "Baum-Welch"
) -> EMResults:
    """Run EM from several starts, and keep the best fit of each model."""
    return reduce(better_of, (em_batch(goal, data, start, n_iter, tol, label) for start in starts))


class EMResult(NamedTuple):
    """How the iterations of one model ended."""

    model: Any
    history: Floats
    """The objective before each iteration."""
    converged: bool
    expected: Any = None
    """Result of the last E-step."""

    @property
    def objective(self) -> float:
        """The objective before the last iteration."""
        return float(self.history[-1])


def em_single(
    expect: Callable[[Any], tuple[float, Any]],
    maximize: Callable[[Any, Any], Any],
    model: Any,
    n_iter: int,
    tol: float,
    about: str,
    what: str | None = None,
) -> EMResult:
    """Iterate one model until its objective grows by at most ``tol``; ``n_iter`` times if ``tol`` is 0.

    ``expect(model)`` returns the objective and what ``maximize(model, expected)`` makes the next model of. ``about``
    is the kind of the model and its samples, for the log. Warns if ``what``, the name of the model, has not converged;
    None is one of many models, of which the caller warns.
    """
    history: list[float] = []
    begun, converged = time.perf_counter(), False
    with _counted(n_iter, "EM", what is not None) as iterations:
        for _ in iterations:
            value, expected = expect(model)
            model = maximize(model, expected)
            gained = value - history[-1] if history else np.inf
            history.append(value)
            converged = bool(tol > 0 and gained <= tol)
            if converged:
                break
    _log("EM", about, len(history), begun)
    if not converged and what is not None and tol > 0 and n_iter > 1:
        notify_unconverged("EM", n_iter, [what])
    return EMResult(model, np.array(history), converged, expected)


def _log(label: str, about: str, n_iter: int, begun: float) -> None:
    """Log a run of EM that took long: the model, the samples, the iterations and the seconds."""
    seconds = time.perf_counter() - begun
    if seconds >= BAR_AFTER_SECONDS:
        _logger.info("%s: %s, %d iterations, %.1f s", label, about, n_iter, seconds)


def joined(models: Any, fits: list[EMResult]) -> EMResults:
    """Return the fits of single models as those of a batch ``models``; visits and histories are left out."""
    objective, steps = np.array([fit.objective for fit in fits]), np.array([len(fit.history) for fit in fits])
    converged = np.array([fit.converged for fit in fits])
    return EMResults(models, objective, steps, converged, np.empty((len(fits), 0)))


def _counted(n_iter: int, label: str, shown: bool = True) -> Any:
    """Count iterations, with a progress bar in the main thread; worker threads share the bar of their thread map."""
    numbers: list[int] = list(range(1, n_iter + 1))
    if shown and threading.current_thread() is threading.main_thread():
        return closing(progress_bar(numbers, f"{label}, iteration"))
    plain: Iterator[int] = iter(numbers)
    return nullcontext(plain)


def _expected(goal: Goal, models: Any, data: Data, active: Indices) -> tuple[Any, Any]:
    """Run the E-step; raise an error with the position of the model if it fails."""
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
    """Find the first model whose E-step fails, and why."""
    for i in range(data.size):
        try:
            goal.expect(models[i : i + 1], data.some(np.array([i])))
        except ValueError as own_error:
            return i, str(own_error)
    return 0, str(error)


def better_of(best: EMResults, other: EMResults) -> EMResults:
    """Keep the fit with the higher objective for each model."""
    better = other.objective > best.objective
    if not better.any():
        return best
    rows = np.arange(len(better)) + np.where(better, len(better), 0)
    fields = [
        np.where(better.reshape(-1, *(1,) * (mine.ndim - 1)), theirs, mine)
        for mine, theirs in zip(best[1:5], other[1:5], strict=True)
    ]
    objective, steps, converged, visits = fields
    history = None
    if best.history is not None and other.history is not None:
        mine, theirs = _equally_wide(best.history, other.history)
        history = np.where(better[:, None], theirs, mine)
    joined = type(best.models).concat([best.models, other.models])[rows]
    return EMResults(joined, objective, steps, converged, visits, history)


def _equally_wide(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Return both histories with as many columns as the longer one has."""
    width = max(a.shape[1], b.shape[1])
    wide = [np.pad(one, ((0, 0), (0, width - one.shape[1])), constant_values=np.nan) for one in (a, b)]
    return wide[0], wide[1]


def in_order(pieces: list[EMResults], places: list[Indices]) -> EMResults:
    """Join fits of the models at ``places``, which may have different sizes; visits are left out."""
    order = np.concatenate(places)
    models = type(pieces[0].models).concat([piece.models for piece in pieces])
    objective, steps, converged = (np.concatenate([piece[k] for piece in pieces]) for k in (1, 2, 3))
    if not np.array_equal(order, np.arange(len(order))):
        back = np.argsort(order)
        models, objective, steps, converged = models[back], objective[back], steps[back], converged[back]
    return EMResults(models, objective, steps, converged, np.empty((len(order), 0)))
