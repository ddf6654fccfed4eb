"""Real documents (agarwal2011, figures 6 and 7): errors over the size of the training set on WebKB and Reuters.

Within a run, all methods use the same documents, and larger training sets contain the smaller ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from sklearn.utils import Bunch

from mercer.datasets import fetch_r8, fetch_webkb
from mercer.papers._document_methods import document_methods
from mercer.papers._protocol import (
    Floats,
    Ints,
    Labels,
    Method,
    Rate,
    chosen_error,
    errors,
    share_wrong,
    validation_errors,
)
from mercer.papers._random_documents import LINES, Line, curves
from mercer.papers._results import Curve, Figure, Progress

NUMBERS = (1, 2, 5, 10, 20, 50, 100)
"""Numbers of training documents per class."""
TASKS: dict[str, tuple[Callable[[], Bunch], tuple[tuple[str, str], ...]]] = {
    "figure6": (fetch_webkb, (("faculty", "student"), ("student", "course"))),
    "figure7": (fetch_r8, (("acq", "earn"), ("acq", "crude"))),
}
"""Data and the two tasks of each figure."""

DIFFERS = (
    "The paper does not name its two tasks. Its parameters are the best ones (--variants adds such panels); ours are "
    "chosen within the training documents, and at n = 1, where there is nothing to choose by, averaged."
)
FIGURES = {
    "figure6": Figure("WebKB: test error over training documents per class", DIFFERS, "n", log_x=True, log_y=True),
    "figure7": Figure("Reuters: test error over training documents per class", DIFFERS, "n", log_x=True, log_y=True),
}

_FORMS = ("Exp", "Inverse")
PAPER = {
    "figure6": {
        **dict.fromkeys(_FORMS, "lower envelope, 10 % better at n = 1"),
        **dict.fromkeys(("PP", "Heat"), "worse than NB at small n"),
        "Naive Bayes": "better than PP, Heat at small n",
    },
    "figure7": {
        **dict.fromkeys(_FORMS, "lower envelope"),
        **dict.fromkeys(("PP", "Heat", "Naive Bayes"), "above Exp, Inverse"),
    },
}
"""Statements of section 5.2 about the curves."""


def figure(
    part: str,
    *,
    draws: int = 20,
    quick: bool = False,
    variants: bool = False,
    seed: int = 0,
    rate: Rate = share_wrong,
    progress: Progress = lambda what, steps: None,
) -> list[Curve]:
    """Reproduce a figure, with one panel for each of two tasks.

    Parameters
    ----------
    part, draws, quick, variants, seed, progress
        As for `mercer.papers.agarwal2011.reproduce`.
    rate : callable, default=share_wrong
        Error rate of the test documents.
    """
    fetch, tasks = TASKS[part]
    numbers = NUMBERS[1:4:2] if quick else NUMBERS
    documents = fetch()
    labels = np.array(documents.target_names)[documents.target]
    is_train = documents.split == "train"
    lines = (*LINES, "Centering", "Linear", "PP, rho=1") if variants else LINES
    found: list[Curve] = []
    for task in tasks:
        name = " vs. ".join(task)
        progress(f"{name}: kernels", 0)
        test = np.flatnonzero(~is_train & np.isin(labels, task))
        drawn = [_draw(labels, is_train, task, max(numbers), [seed, number]) for number in range(draws)]
        methods = document_methods(documents.data, np.unique(np.concatenate(drawn, axis=None)), test, variants)
        by_line = {}
        for method in methods:
            if method.name not in lines:
                continue
            progress(f"{name}: {method.name}", len(lines) * len(tasks))
            by_line[method.name] = _line(method, labels, drawn, test, numbers, rate)
        wanted = {line: by_line[line] for line in lines}
        found += curves(name, numbers, {line: errs.chosen for line, errs in wanted.items()}, PAPER[part])
        if variants:
            found += curves(f"{name}, best", numbers, {line: errs.best for line, errs in wanted.items()}, PAPER[part])
    return found


def _draw(labels: Labels, is_train: Labels, task: Sequence[str], n: int, seeds: Sequence[int]) -> Ints:
    """Draw n training documents of both classes in random order, ``(2, n)``: the first are smaller training sets."""
    names = np.unique(labels).tolist()
    rows = []
    for name in task:
        pool = np.flatnonzero(is_train & (labels == name))
        if len(pool) < n:
            raise ValueError(f"Class {name!r} has {len(pool)} training documents, so {n} cannot be drawn.")
        rows.append(np.random.default_rng([*seeds, names.index(name)]).permutation(pool)[:n])
    return np.stack(rows)


def _line(
    method: Method, labels: Labels, drawn: Sequence[Ints], test: Ints, numbers: Sequence[int], rate: Rate
) -> Line:
    """Return the errors of one method in every run at every number of training documents."""
    chosen, every = np.empty((len(drawn), len(numbers))), []
    for i, rows in enumerate(drawn):
        wrong = []
        for k, n in enumerate(numbers):
            train = np.sort(rows[:, :n], axis=None)
            wrong.append(errors(method, labels, train, test, rate))
            inside: Floats = np.zeros(len(wrong[-1]))
            if n > 1:
                inside = validation_errors(method, labels, train, folds=min(5, n))
            chosen[i, k] = chosen_error(wrong[-1], inside)
        every.append(wrong)
    return Line(chosen, np.array(every))
