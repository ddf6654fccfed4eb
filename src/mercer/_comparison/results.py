"""Results of a comparison: scores, paired differences, the choice made inside the training folds, and the verdict."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import stats
from sklearn.utils import _safe_indexing

from mercer._array import Floats
from mercer._comparison.evaluation import Contender, Fold, Score, Task, splits
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

    def shown(self, measure: str) -> str:
        """Return the difference and its interval as text."""
        interval = f"{signed(self.low)} to {signed(self.high)}"
        return f"{signed(self.mean)} of {measure}, {100 * LEVEL:.0f} % interval {interval}"


def signed(value: float) -> str:
    """Return a number with its sign and three decimals, or with more if these would be zeros: "+0.0004"."""
    digits = next((digits for digits in range(3, 7) if value == 0 or round(value, digits) != 0), 3)
    return f"{value:+.{digits}f}"


def chosen_inside(results: list[Result], kernels: bool | None = None) -> list[Result]:
    """Return, for each fold, the kernel (or baseline) with the best score in the inner cross-validation.

    The choice sees training data only, so that the score of what was chosen is not the best of many draws. Without
    ``kernels``, all contenders are considered.
    """
    own = [result for result in results if kernels in (None, result.contender.is_kernel)]
    return [max(own, key=lambda result: result.folds[i].inner) for i in range(len(own[0].folds))] if own else []


def best_of(results: list[Result], kernels: bool | None = None) -> Result | None:
    """Return the kernel (or baseline) with the best score on the test folds; without ``kernels``, of all."""
    own = (result for result in results if kernels in (None, result.contender.is_kernel))
    return max(own, key=lambda result: result.score, default=None)


def joined(chosen: list[Result]) -> Result:
    """Return the contenders that were chosen fold by fold as one result."""
    names = [result.contender.name for result in chosen]
    often = sorted(dict.fromkeys(names), key=names.count, reverse=True)
    name = " or ".join(often[:2]) + (" or others" if len(often) > 2 else "")
    folds = [result.folds[i] for i, result in enumerate(chosen)]
    return Result(chosen[0].task, replace(chosen[0].contender, name=name), folds)


def difference(result: Result, baseline: Result | None, task: Task, folds: int, seed: int) -> Difference:
    """Return how much higher the score is than that of the baseline: exactly the difference of the two scores.

    For labels, the score is the accuracy; for targets, R2, with confounds that of the part that these do not explain.
    The interval is that of a paired t test over the samples, or over the groups where there are any, because samples
    of one group are not independent. Where all gains are equal, as those of two methods that make no error, it would
    have no width; for labels, half a sample is then added to each cell of the table of who is right (Agresti and Min,
    2005): methods that agree on these samples may still differ on others.

    Parameters
    ----------
    result, baseline : Result
        Folds of two contenders; without a baseline, the losses themselves are compared with none.
    task : Task
        The data.
    folds, seed : int
        The folds.
    """
    parts = splits(task, np.arange(len(task.y)), folds, seed)
    order = np.concatenate([test for _, test in parts])
    shares = np.concatenate([_shares(task, train, test) for train, test in parts])
    saved = (np.zeros(len(order)) if baseline is None else baseline.losses) - result.losses
    gains = saved * shares * (len(order) / folds)
    if task.groups is not None:
        _, group = np.unique(np.asarray(task.groups)[order], return_inverse=True)
        gains = np.bincount(group, gains) * (group.max() + 1) / len(group)
    mean = float(gains.mean())
    if not task.is_regression and (np.ptp(saved) == 0 or np.ptp(gains) == 0):
        gains = np.append(gains, [np.sqrt(0.5), -np.sqrt(0.5)])  # as four halves that gain 1, -1, 0 and 0
    middle, n = float(gains.mean()), len(gains)
    width = float(stats.t.ppf((1 + LEVEL) / 2, n - 1) * gains.std(ddof=1) / np.sqrt(n)) if n > 1 else float("inf")
    return Difference(mean, middle - width, middle + width)


def _shares(task: Task, train: Any, test: Any) -> Floats:
    """Return what a unit of loss of each test sample takes from the score of the fold."""
    weights = np.ones(len(test)) if task.weights is None else np.asarray(task.weights, dtype=float)[test]
    score = Score.learned(task, train)
    total = score.total(_safe_indexing(task.X, test), np.asarray(task.y)[test], weights)
    return np.full(len(test), 1 / total if total > 0 else 0.0)  # R2 of equal targets depends on no loss


def verdict(results: list[Result], task: Task, folds: int, seed: int) -> tuple[str, bool]:
    """Return a few sentences: does a kernel beat the baselines on this task? And whether one does.

    What is said to be better was chosen within the training folds, and is compared with the best of the others on the
    test folds. Luck of that choice is on the side of the others, so that it is never the reason for a claim.
    """
    done = [result for result in results if not result.failure]
    ours, theirs = best_of(done, True), best_of(done, False)
    if ours is None:
        return "No kernel finished.", False
    if theirs is None:
        return "No baseline finished, so the kernels cannot be compared.", False
    kernel, baseline = (joined(chosen_inside(done, which)) for which in (True, False))
    name = theirs.contender.name
    found = difference(kernel, theirs, task, folds, seed)
    if found.low > 0:
        shown = found.shown(task.measure)
        return f"A kernel ({kernel.contender.name}) is better than the best baseline ({name}): {shown}.", True
    reverse = difference(baseline, ours, task, folds, seed)
    if reverse.low > 0:
        return (
            f"No kernel beats the baselines: {baseline.contender.name} is better than {ours.contender.name}, the best "
            f"kernel: {reverse.shown(task.measure)}. Use {name}."
        ), False
    if not task.is_regression and not (ours.losses.any() or theirs.losses.any()):
        return (
            f"No kernel is shown to beat the best baseline ({name}): neither {name} nor {ours.contender.name} makes an "
            f"error, so these data cannot tell which is better. Use {name}, which is simpler."
        ), False
    return (
        f"No kernel is shown to beat the best baseline ({name}): {kernel.contender.name} differs by "
        f"{found.shown(task.measure)}. {_lucky(done, theirs, task, folds, seed)}Use {name}, or collect more data."
    ), False


def _lucky(results: list[Result], baseline: Result, task: Task, folds: int, seed: int) -> str:
    """Return a sentence on the kernel whose own interval is above zero although the choice inside is not shown to win.

    Of many kernels, one is the best by luck, and so is one of the baselines: the choice that is made without the test
    folds has no such luck.
    """
    kernels = [result for result in results if result.contender.is_kernel]
    own = {r.contender.name: difference(r, baseline, task, folds, seed) for r in kernels}
    name = max(own, key=lambda name: own[name].low)
    if own[name].low <= 0:
        return ""
    others = len(results) - len(kernels)
    count = f", as {baseline.contender.name} is the best of {others} baselines" if others > 1 else ""
    return (
        f"The kernel of this comparison was chosen within the training folds; the {signed(own[name].mean)} of {name} "
        f"in the table is that of the best of {len(own)} kernels on the test folds, which is partly luck{count}. "
    )


def interval_of(result: Result, task: Task, n: float, folds: int, seed: int) -> tuple[float, float]:
    """Return the confidence interval of a score: of R2 from losses, as in `difference`; Wilson's of an accuracy.

    The ``n`` samples of the latter are `independent`.
    """
    if not task.is_regression:
        return wilson(result.score, n)
    spread = difference(result, None, task, folds, seed)
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
