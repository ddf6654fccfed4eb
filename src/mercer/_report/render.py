"""The page on a comparison, from its results."""

from __future__ import annotations

import html
import platform
from importlib.metadata import version
from typing import Any

import numpy as np

from mercer._comparison.evaluation import INNER_FOLDS, Task
from mercer._comparison.results import Result
from mercer._comparison.summary import Summary
from mercer._report import sections
from mercer._report.details import details_of
from mercer._report.drawing import text
from mercer._report.outcomes import outcomes
from mercer._report.page import page
from mercer._report.shares import shares_of
from mercer._version import __version__

LONGEST_TIP = 80
"""Characters of an id or a label that a tip shows at most."""


def render(summary: Summary, title: str, command: str) -> str:
    """Return the page on a comparison.

    Parameters
    ----------
    summary : Summary
        Results on one or more tasks.
    title : str
        The title.
    command : str
        The command that made them; empty if they come from Python.
    """
    several = len(summary.tasks) > 1
    hover: dict[str, list[str]] = {}
    body, lead = [], []
    if several:
        links = "".join(f'<li><a href="#task-{i}">{text(name)}</a></li>' for i, name in enumerate(summary.tasks))
        lead.append(f'<nav aria-label="Tasks"><ul>{links}</ul></nav>')
    for i, (name, task) in enumerate(summary.tasks.items()):
        heading = f'<h2 id="task-{i}">{text(name)}</h2>' if several else ""
        body.append(heading + _on_task(summary, name, task, f"samples-{i}", hover))
    if command:
        body.append(sections.section("Command", f"<pre>{html.escape(command)}</pre>"))
    versions = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "scikit-learn"))
    provenance = (
        f"mercer {__version__}, Python {platform.python_version()}, {versions}, {platform.platform(terse=True)}",
        f"{summary.folds} outer and {INNER_FOLDS} inner folds, seed {summary.seed}",
    )
    return page(title, "".join(lead), "".join(body), hover, provenance)


def _on_task(summary: Summary, name: str, task: Task, key: str, hover: dict[str, list[str]]) -> str:
    parts = [f'<p class="answer">{text(summary.verdicts[name][0])}</p>', f"<p>{text(task.about)}</p>"]
    rows = [row for row in summary.rows if row["task"] == name]
    parts += [
        f'<p class="warning">{text(f"{result.contender.name} {result.failure}")}</p>'
        for result in summary.unfinished
        if result.task == name
    ]
    if not rows:
        return "".join(parts)
    parts.append(sections.section("Scores", sections.scores(rows)))
    shown = summary.best(name, kernels=True) or summary.best(name)
    assert shown is not None
    found = details_of(task, shown, summary.folds, summary.seed)
    ids = list(task.ids) or [str(i) for i in range(len(task.y))]
    hover[key] = [_hovered(task, found.predicted[i], ids[i], i) for i in range(len(task.y))]
    drawn = [i for _, _, numbers in sections.chosen_items(task, found) for i in numbers]
    shares = shares_of(task, found, list(dict.fromkeys(drawn)))
    parts += [
        f"<h2>A closer look at {text(shown.contender.name)}</h2><p>With the parameters that were chosen most often"
        f"{f' ({text(chosen)})' if (chosen := _often_chosen(rows, shown)) else ''}. Predictions are those of "
        "cross-validation.</p>",
        sections.gram(task, found, key),
        outcomes(task, found, key),
        sections.curves(found, task.measure),
        sections.items(task, found, ids, shares),
        sections.spectrum(found),
        sections.section("Code", f"<pre>{html.escape(summary.code(shown))}</pre>"),
    ]
    return "".join(parts)


def _often_chosen(rows: list[dict[str, Any]], result: Result) -> str:
    """Return the parameters that were chosen most often for a result."""
    return next(str(row["chosen"]) for row in rows if row["method"] == result.contender.name)


def _hovered(task: Task, predicted: Any, name: str, i: int) -> str:
    truth, name = np.asarray(task.y)[i], _cut(name)
    if task.is_regression:
        return f"{name}: {truth:.4g}, predicted {predicted:.4g}"
    return f"{name}: {_cut(truth)}" + ("" if truth == predicted else f", predicted {_cut(predicted)}")


def _cut(value: object) -> str:
    """Return text that is not longer than a tip; 2,000 long names would make a large page."""
    whole = str(value)
    return whole if len(whole) <= LONGEST_TIP else f"{whole[: LONGEST_TIP - 1]}…"
