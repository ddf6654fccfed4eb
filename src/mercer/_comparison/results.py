"""Results of a comparison: scores, paired differences, the choice made inside the training folds, and the verdict."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import stats

from mercer._array import Floats
from mercer._comparison.evaluation import Contender, Fold, Score, Task, order_of_tests
from mercer.data.channels import inside
from mercer.data.identical import n_distinct

LEVEL = 0.95


@dataclass(frozen=True)
class Result:
    """Folds of one contender that are done, or why there are none."""

    task: str
    contender: Contender
    folds: list[Fold] = field(default_factory=list)
    failure: str = ""
    """Why the contender did not finish; empty if it did."""
    cure: str = ""
    """What a user of the command line can do about it."""

    @property
    def reason(self) -> str:
        """Why the contender did not finish, and the cure."""
        return f"{self.failure}; {self.cure}" if self.cure else self.failure.rstrip(".")

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


def values_of(contender: Contender, chosen: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of chosen parameters, which are given as text."""
    return {name: next(v for v in contender.grid[name] if repr(v) == text) for name, text in chosen.items()}


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
    The interval is that of a paired t test over the samples, or over the groups where there are any, because samples
    of one group are not independent. Where all gains are equal, as those of two methods that make no error, it would
    have no width; for labels, half a sample is then added to each cell of the table of who is right (Agresti and Min,
    2005): methods that agree on these samples may still differ on others.

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
    mean = float(gains.mean())
    if not task.is_regression and np.ptp(gains) == 0:
        gains = np.append(gains, [np.sqrt(0.5), -np.sqrt(0.5)])  # as four halves that gain 1, -1, 0 and 0
    middle, n = float(gains.mean()), len(gains)
    width = float(stats.t.ppf((1 + LEVEL) / 2, n - 1) * gains.std(ddof=1) / np.sqrt(n)) if n > 1 else float("inf")
    return Difference(mean, middle - width, middle + width)


def verdict(results: list[Result], task: Task, folds: int, seed: int) -> tuple[str, bool]:
    """Return a few sentences: does a kernel beat the baselines on this task? And whether one does."""
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
    larger = _larger(done, losses_of(plain), task, folds, seed)
    if found.high < 0:
        return (
            f"No kernel beats the baselines: {theirs} is better than {ours}: {shown}. {larger}Use the baseline.",
            False,
        )
    return (
        f"No kernel is shown to beat the best baseline ({theirs}): {ours} differs by {shown}. {larger}"
        "Use the baseline, or collect more data."
    ), False


def _larger(results: list[Result], baseline: Floats, task: Task, folds: int, seed: int) -> str:
    """Return a sentence on the kernel whose own interval is above zero although the choice inside is not shown to win.

    Of many kernels, one is the best by luck: the choice that is made without the test folds has no such luck.
    """
    kernels = [result for result in results if result.contender.is_kernel]
    own = {r.contender.name: difference(r.losses, baseline, task, folds, seed) for r in kernels}
    name = max(own, key=lambda name: own[name].low)
    if own[name].low <= 0:
        return ""
    return (
        f"This compares what was chosen within the training folds; the {own[name].mean:+.3f} of {name} by itself is "
        f"the best of {len(own)} kernels on the test folds, which is partly luck. "
    )


def _names(chosen: list[Result]) -> str:
    """Return the names of what was chosen, the two most frequent of them."""
    names = [result.contender.name for result in chosen]
    often = sorted(dict.fromkeys(names), key=names.count, reverse=True)
    return " or ".join(often[:2]) + (" or others" if len(often) > 2 else "")


def interval_of(result: Result, task: Task, n: float, folds: int, seed: int) -> tuple[float, float]:
    """Return the confidence interval of a score: of R2 from losses, as in `difference`; Wilson's of an accuracy.

    The ``n`` samples of the latter are `independent`.
    """
    if not task.is_regression:
        return wilson(result.score, n)
    spread = difference(result.losses, np.zeros(len(result.losses)), task, folds, seed)
    width = (spread.high - spread.low) / 2
    return result.score - width, min(result.score + width, 1.0)


def wilson(share: float, n: float) -> tuple[float, float]:
    """Return the interval of the rates that a score test does not reject, which has a width even at shares 0 and 1.

    Parameters
    ----------
    share : float
        Share of the observations, such as that of correct predictions.
    n : float
        Number of independent observations.
    """
    square = stats.norm.ppf((1 + LEVEL) / 2) ** 2 / n
    middle = share + square / 2
    width = np.sqrt(square * (share * (1 - share) + square / 4))
    return float(max(middle - width, 0.0) / (1 + square)), float(min((middle + width) / (1 + square), 1.0))


def independent(task: Task) -> float:
    """Return the number of independent samples of a task.

    Identical samples count once, those of one group count once, because they need not be independent, and unequal
    weights count less than equal ones (Kish's effective size).
    """
    n: float = n_distinct(inside(task.X))
    if task.groups is not None:
        n = min(n, len(np.unique(task.groups)))
    if task.weights is not None:
        weights = np.asarray(task.weights, dtype=float)
        n = min(n, float(weights.sum() ** 2 / (weights**2).sum()))
    return n


def supported(results: list[Result], wins: bool) -> Result | None:
    """Return the recommendation for one task: the best kernel, or the baseline that is chosen most often."""
    if wins:
        return max((result for result in results if result.contender.is_kernel), key=lambda result: result.score)
    plain = chosen_inside(results, kernels=False)
    return max(plain, key=plain.count, default=None)


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
