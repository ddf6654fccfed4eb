"""Summary of a comparison: rows of a table, verdicts, the kernel to recommend, and its code."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline, make_pipeline

import mercer as mc
from mercer._comparison import results as found
from mercer._comparison.evaluation import Contender, Task, weight_parameter


class Summary:
    """Results of contenders on tasks, summarized.

    Parameters
    ----------
    tasks : dict
        Tasks by name.
    results : list of Result
        Contenders that finished, and those that did not.
    folds, seed : int
        Outer folds.
    """

    def __init__(self, tasks: dict[str, Task], results: list[found.Result], folds: int, seed: int) -> None:
        self.tasks, self.results, self.folds, self.seed = tasks, results, folds, seed
        self.done = [result for result in results if not result.failure]
        self.rows: list[dict[str, Any]] = []
        self.verdicts: dict[str, tuple[str, bool]] = {}
        for name, task in tasks.items():
            own = [result for result in self.done if result.task == name]
            plain = found.best_of(own, False)
            n = found.independent(task)
            self.verdicts[name] = found.verdict(own, task, folds, seed)
            recommended = found.best_of(own, self.verdicts[name][1])
            for result in own:
                against = None
                if plain is not None and result.contender.is_kernel:
                    against = found.difference(result, plain, task, folds, seed)
                interval = found.interval_of(result, task, n, folds, seed)
                row = found.row(result, task, against, interval)
                self.rows.append({**row, "recommended": result is recommended})

    @property
    def unfinished(self) -> list[found.Result]:
        """Contenders that did not finish."""
        return [result for result in self.results if result.failure]

    def recommended(self) -> found.Result | None:
        """Return the best kernel of the task on which kernels lead most; None where no kernel beats the baselines."""
        winning = [name for name, (_, wins) in self.verdicts.items() if wins]
        if not winning:
            return None

        def lead(name: str) -> float:
            return max(row["difference"] for row in self.rows if row["task"] == name and row["is_kernel"])

        return found.best_of([r for r in self.done if r.task == max(winning, key=lead)], True)

    def best(self, task: str, *, kernels: bool = False) -> found.Result | None:
        """Return the result with the highest score on a task, if any finished; that of the kernels only, if asked."""
        return found.best_of([r for r in self.done if r.task == task], True if kernels else None)

    def code(self, result: found.Result) -> str:
        """Return code that fits the contender."""
        task = self.tasks[result.task]
        return snippet(result.contender, result.often_chosen, task.reading, weighted=task.weights is not None)


def snippet(
    contender: Contender, parameters: Mapping[str, str] | None = None, reading: str = "", *, weighted: bool = False
) -> str:
    """Return code that fits a contender to the user's data.

    Parameters
    ----------
    contender : Contender
        A pipeline, or one estimator.
    parameters : mapping, optional
        Parameters that were chosen, as text; others keep their values.
    reading : str
        Line of code that reads X and y.
    weighted : bool
        Whether it also reads weights, with which models are fitted that take them.
    """
    pipeline = clone(contender.estimator).set_params(**found.values_of(contender, parameters or {}))
    is_pipeline = isinstance(pipeline, Pipeline)
    imports = ["from sklearn.pipeline import make_pipeline"] if is_pipeline else []
    parts = [step for _, step in pipeline.steps if step != "passthrough"] if is_pipeline else [pipeline]
    steps = ", ".join(_code(part, imports) for part in parts)
    lines = ["import mercer as mc", *imports, *([reading.rstrip()] if reading else [])]
    made = make_pipeline(*parts) if is_pipeline else pipeline
    weight = weight_parameter(made) if weighted else None
    fit = "model.fit(X, y)" if weight is None else f"model.fit(X, y, {weight}=weights)"
    return "\n".join([*lines, f"model = {f'make_pipeline({steps})' if is_pipeline else steps}", fit])


def _code(estimator: BaseEstimator, imports: list[str]) -> str:
    """Return an estimator as code, and add the imports that it requires."""
    text = re.sub(r"\s+", " ", repr(estimator))
    for part in (estimator, *(v for v in estimator.get_params().values() if isinstance(v, BaseEstimator))):
        name, module = type(part).__name__, type(part).__module__
        if module.startswith("mercer."):
            address = name if name in mc.__all__ else f"{module.split('.')[1]}.{name}"
            text = re.sub(rf"(?<![\w.]){name}\(", f"mc.{address}(", text)
        elif (line := f"from {module.split('._')[0]} import {name}") not in imports:
            imports.append(line)
    ast.parse(text)  # a text that was cut short must not be shown as code
    return text
