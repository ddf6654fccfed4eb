"""What a comparison tells: scores, paired differences, the choice made inside the training folds, and the verdict."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import stats

from mercer._array import Floats
from mercer._comparison.evaluation import Contender, Fold, Score, Task, order_of_tests

LEVEL = 0.95


@dataclass(frozen=True)
class Result:
    """Folds of one contender that are done, or why there are none."""

    task: str
    contender: Contender
    folds: list[Fold] = field(default_factory=list)
    failure: str = ""
    """Why the contender did not finish; empty if it did."""

    @property
    def scores(self) -> Floats:
        """Score of each fold."""
        return np.array([fold.score for fold in self.folds])

    @property
    def score(self) -> float:
        """Mean score over the folds."""
        return float(self.scores.mean())

    @property
    def losses(self) -> Floats:
        """Loss of each sample, in the order of the test folds."""
        return np.concatenate([fold.losses for fold in self.folds])

    @property
    def often_chosen(self) -> dict[str, str]:
        """For each parameter, the value that was chosen in most folds."""
        chosen: dict[str, str] = {}
        for name in self.folds[0].parameters:
            values = [fold.parameters[name] for fold in self.folds]
            chosen[name] = max(values, key=values.count)
        return chosen


@dataclass(frozen=True)
class Difference:
    """Difference of the scores of two contenders on the same samples, with its confidence interval."""

    mean: float
    low: float
    high: float


def chosen_inside(results: list[Result], kernels: bool) -> list[Result]:
    """Return, for each fold, the kernel (or baseline) with the best score in the inner cross-validation.

    The choice sees training data only, so that the score of what was chosen is not the best of many draws.
    """
    own = [result for result in results if result.contender.is_kernel is kernels]
    return [max(own, key=lambda result: result.folds[i].inner) for i in range(len(own[0].folds))] if own else []


def losses_of(chosen: list[Result]) -> Floats:
    """Return the losses of the contenders that were chosen fold by fold."""
    return np.concatenate([result.folds[i].losses for i, result in enumerate(chosen)])


def difference(losses: Floats, baseline: Floats, task: Task, folds: int, seed: int) -> Difference:
    """Return how much higher the score is than that of the baseline.

    For labels, the score is the accuracy; for targets, R2, with confounds that of the part that these do not explain.
    The interval is that of a paired t test over the samples,
    or over the groups where there are any, because samples of one group are not independent.

    Parameters
    ----------
    losses, baseline : arrays of shape (N,)
        Losses, in the order of the test folds.
    task : Task
        The data.
    folds, seed : int
        The folds.
    """
    order = order_of_tests(task, folds, seed)
    y = np.asarray(task.y)
    weights = np.ones(len(y)) if task.weights is None else np.asarray(task.weights, dtype=float)
    unit = weights.mean()
    if task.is_regression:
        rest = Score.learned(task, np.arange(len(y))).unexplained(task.X, y)
        unit *= np.average((rest - np.average(rest, weights=weights)) ** 2, weights=weights)
    gains = (baseline - losses) / unit
    if task.groups is not None:
        _, group = np.unique(np.asarray(task.groups)[order], return_inverse=True)
        gains = np.bincount(group, gains) * (group.max() + 1) / len(group)
    mean, n = float(gains.mean()), len(gains)
    width = float(stats.t.ppf((1 + LEVEL) / 2, n - 1) * gains.std(ddof=1) / np.sqrt(n)) if n > 1 else float("inf")
    return Difference(mean, mean - width, mean + width)


def verdict(results: list[Result], task: Task, folds: int, seed: int) -> tuple[str, bool]:
    """Return one or two sentences: does a kernel beat the baselines on this task? And whether one does."""
    done = [result for result in results if not result.failure]
    kernels, plain = (chosen_inside(done, which) for which in (True, False))
    if not kernels:
        return "No kernel finished.", False
    if not plain:
        return "No baseline finished, so the kernels cannot be compared.", False
    found = difference(losses_of(kernels), losses_of(plain), task, folds, seed)
    ours, theirs = (_names(chosen) for chosen in (kernels, plain))
    shown = f"{found.mean:+.3f} of {task.measure}, {100 * LEVEL:.0f} % interval {found.low:+.3f} to {found.high:+.3f}"
    if found.low > 0:
        return f"A kernel ({ours}) is better than the best baseline ({theirs}): {shown}.", True
    if found.high < 0:
        return f"No kernel beats the baselines: {theirs} is better than {ours}: {shown}. Use the baseline.", False
    return (
        f"No kernel is shown to beat the best baseline ({theirs}): {ours} differs by {shown}. "
        "Use the baseline, or collect more data."
    ), False


def _names(chosen: list[Result]) -> str:
    """Return the names of what was chosen, the two most frequent of them."""
    names = [result.contender.name for result in chosen]
    often = sorted(dict.fromkeys(names), key=names.count, reverse=True)
    return " or ".join(often[:2]) + (" or others" if len(often) > 2 else "")


def interval_of(result: Result, task: Task, folds: int, seed: int) -> tuple[float, float]:
    """Return the confidence interval of a score, from the losses of the samples, or groups, as in `difference`."""
    spread = difference(result.losses, np.zeros(len(result.losses)), task, folds, seed)
    width = (spread.high - spread.low) / 2
    low = -np.inf if task.is_regression else 0.0
    return float(max(result.score - width, low)), float(min(result.score + width, 1.0))


def row(result: Result, task: Task, against: Difference | None, interval: tuple[float, float]) -> dict[str, Any]:
    """Return a result as plain numbers and texts, for JSON and CSV."""
    return {
        "task": result.task,
        "method": result.contender.name,
        "is_kernel": result.contender.is_kernel,
        "measure": task.measure,
        "score": result.score,
        "sd": float(result.scores.std()),
        "score_low": interval[0],
        "score_high": interval[1],
        "difference": None if against is None else against.mean,
        "low": None if against is None else against.low,
        "high": None if against is None else against.high,
        "fit_seconds": float(np.mean([fold.fit_seconds for fold in result.folds])),
        "predict_seconds": float(np.mean([fold.predict_seconds for fold in result.folds])),
        "seconds": float(np.sum([fold.search_seconds for fold in result.folds])),
        "fold_scores": result.scores.tolist(),
        "chosen": short(result.often_chosen),
        "parameters": [fold.parameters for fold in result.folds],
    }


def short(parameters: Mapping[str, str]) -> str:
    """Return chosen parameters in a short form: "C=10, gamma=0.05, no derivatives".

    Parameters
    ----------
    parameters : mapping
        Values as code, by names such as ``svc__C``; a step of a pipeline is an estimator or ``'passthrough'``.
    """
    parts = []
    for name, text in parameters.items():
        key = name.rpartition("__")[2]
        try:
            value = ast.literal_eval(text)
        except (SyntaxError, ValueError):
            parts.append(key)  # a step that was chosen
            continue
        shown = f"{value:.4g}" if isinstance(value, float) else str(value)
        parts.append(f"no {key}" if value == "passthrough" else f"{key}={shown}")
    return ", ".join(parts)
