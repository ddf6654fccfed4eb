"""Shared code of the accuracy studies: tasks, methods with their grids, nested folds, and printing of tables."""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from _numbers import add_json, write_json
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC

import mercer as mc

Method = tuple[Any, dict[str, list[Any]]]
"""A pipeline and the grid that is searched inside the training folds."""

C = [1, 10, 100]


@dataclass
class Task:
    """Data, outer folds and methods."""

    X: mc.Sequences
    y: np.ndarray
    folds: list[tuple[np.ndarray, np.ndarray]]
    methods: dict[str, Method]
    groups: np.ndarray | None = None
    inner: int = 5


def ten_folds(y: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Split into ten stratified folds."""
    return list(StratifiedKFold(10, shuffle=True, random_state=0).split(np.zeros(len(y)), y))


def length_only(**grid: list[Any]) -> Method:
    """Baseline: an RBF support vector machine on the length only."""
    searched = {f"svc__{key}": values for key, values in ({"C": C} | grid).items()}
    return make_pipeline(mc.Lengths(), StandardScaler(), SVC()), searched


def on_symbols(kernel: Any, C: list[float] = C, **grid: list[Any]) -> Method:
    """Return a pipeline of a kernel on strings and a support vector machine."""
    name = type(kernel).__name__.lower()
    searched = {f"{name}__{key}": values for key, values in grid.items()} | {"svc__C": C}
    return make_pipeline(kernel, SVC(kernel="precomputed")), searched


def summaries(X: Any) -> np.ndarray:
    """Means and standard deviations of the observed values of each channel; 0 for a channel without any."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        found = np.array([np.r_[np.nanmean(x, axis=0), np.nanstd(x, axis=0)] for x in mc.Sequences(X)])
    return np.nan_to_num(found)


def stacked(X: Any) -> np.ndarray:
    """Series of one length as rows."""
    return np.stack([np.ravel(x) for x in mc.Sequences(X)])


def moments_svm() -> Method:
    """Baseline: an RBF support vector machine on means and standard deviations."""
    return make_pipeline(FunctionTransformer(summaries), StandardScaler(), SVC()), {"svc__C": C}


def on_vectors(kernel: Any, derivatives: bool = False, **grid: list[Any]) -> Method:
    """Standardize every channel, optionally with derivatives, then a kernel and a support vector machine."""
    steps = [mc.Derivatives(1)] if derivatives else []
    pipeline, searched = on_symbols(kernel, **grid)
    return make_pipeline(*steps, mc.PerStep(StandardScaler()), *(step for _, step in pipeline.steps)), searched


def errors(task: Task, method: Method) -> Iterator[float]:
    """Return the error of every outer fold, with parameters chosen inside its training part."""
    pipeline, grid = method
    for train, test in task.folds:
        y = task.y[train]
        groups = None if task.groups is None else task.groups[train]
        if groups is None:
            inner = StratifiedKFold(task.inner, shuffle=True, random_state=1)
        else:
            inner = GroupKFold(task.inner)
        search = GridSearchCV(pipeline, grid, cv=inner) if grid else pipeline
        if grid:
            search.fit(task.X[train], y, groups=groups)
        else:
            search.fit(task.X[train], y)
        yield float(np.mean(search.predict(task.X[test]) != task.y[test]))


def summary(found: list[float]) -> dict[str, float | None]:
    """Return the mean and the standard deviation of the errors of the folds."""
    return {"error": float(np.mean(found)), "sd": float(np.std(found, ddof=1)) if len(found) > 1 else None}


def smaller(task: Task, seed: int, most: int = 20) -> Task:
    """Return a task of at most 20 samples of each class, and methods that search nothing, but take middle values."""
    rng = np.random.default_rng(seed)
    keep = np.sort(np.concatenate([rng.permutation(np.flatnonzero(task.y == c))[:most] for c in np.unique(task.y)]))
    folds = [(np.flatnonzero(np.isin(keep, train)), np.flatnonzero(np.isin(keep, test))) for train, test in task.folds]
    methods: dict[str, Method] = {
        name: (clone(pipeline).set_params(**{key: values[len(values) // 2] for key, values in grid.items()}), {})
        for name, (pipeline, grid) in task.methods.items()
    }
    return Task(task.X[keep], task.y[keep], [pair for pair in folds if len(pair[1])], methods)


def main(
    tasks: dict[str, Callable[[], Task]], titles: Mapping[str, str], mehta2010: Mapping[str, float] | None = None
) -> None:
    """Print a table for every set that the command line names.

    ``--json`` has the errors under the titles of the sets on pages, with those that mehta2010 reports.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", choices=[[], *tasks], help="sets; all of them by default")
    parser.add_argument("--quick", action="store_true", help="at most 20 samples of a class, and no search")
    parser.add_argument("--seed", type=int, default=0, help="seed of the samples that --quick draws (0)")
    add_json(parser)
    given = parser.parse_args()
    warnings.filterwarnings("ignore", category=UserWarning)
    values: dict[str, dict[str, Any]] = {}
    times: dict[str, dict[str, Any]] = {}
    for name in given.names or list(tasks):
        task = smaller(tasks[name](), given.seed) if given.quick else tasks[name]()
        title = titles.get(name, name)
        values[title], times[title] = {}, {}
        if mehta2010 and name in mehta2010:
            values[title]["mehta2010"] = {"error": mehta2010[name]}
        lengths, classes = task.X.lengths, len(set(task.y.tolist()))
        print(f"\n{name}: {task.y.size} sequences of {lengths.min()} to {lengths.max()} steps,", end=" ")
        print(f"{classes} classes, {len(task.folds)} outer folds")
        print(f"\n| {name} | error | sd over folds | seconds |\n|---|---|---|---|", flush=True)
        for label, method in task.methods.items():
            begin = time.perf_counter()
            found = list(errors(task, method))
            seconds = time.perf_counter() - begin
            spread = f"{np.std(found, ddof=1):.3f}" if len(found) > 1 else "one split"
            print(f"| {label} | {np.mean(found):.3f} | {spread} | {seconds:.0f} |", flush=True)
            values[title][label] = summary(found)
            times[title][label] = {"seconds": seconds}
    write_json(given.json, values, times)
