"""What the predictions of cross-validation are worth: confusions and calibration, or residuals and coverage."""

from __future__ import annotations

import numpy as np

from mercer._comparison.evaluation import Task
from mercer._comparison.results import wilson
from mercer._report.details import Details
from mercer._report.drawing import Axes, heat_map, text
from mercer._report.sections import SHOWN_CLASSES, section

LONGEST = 24
"""Characters of a label that the confusion matrix shows at most."""


def outcomes(task: Task, found: Details, hover: str) -> str:
    """Return the confusion matrix and the calibration of labels; the residuals and the coverage for targets."""
    if task.is_regression:
        parts = _residuals(task, found, hover), _coverage(task, found)
    else:
        parts = _confusion(task, found), _calibration(task, found)
    return f'<div class="pair">{"".join(parts)}</div>'


def _confusion(task: Task, found: Details) -> str:
    classes, codes = np.unique(task.y, return_inverse=True)
    guessed = np.searchsorted(classes, found.predicted)
    counts = np.zeros((len(classes), len(classes)), dtype=int)
    np.add.at(counts, (codes, guessed), 1)
    if len(classes) > SHOWN_CLASSES:
        pairs = [(counts[i, j], i, j) for i in range(len(classes)) for j in range(len(classes)) if i != j]
        lines = "".join(
            f"<tr><th scope='row'>{text(classes[i])}</th><td>{text(classes[j])}</td><td>{count}</td></tr>"
            for count, i, j in sorted(pairs, reverse=True)[:SHOWN_CLASSES]
            if count
        )
        head = "<tr><th scope='col'>class</th><th scope='col'>recognized as</th><th scope='col'>samples</th></tr>"
        body = f'<table class="scores"><thead>{head}</thead><tbody>{lines}</tbody></table>'
        shares = counts / counts.sum(axis=1, keepdims=True)
        image = heat_map(shares, f"confusion matrix of {len(classes)} classes, rows are the true ones")
        about = "Rows are the true classes, columns the predictions, both in alphabetical order."
        return section("Confusions", f'<div class="square small">{image}</div>', body, about=about)
    head = "".join(f'<th scope="col">{_short(label)}</th>' for label in classes)
    totals = counts.sum(axis=1, keepdims=True)
    lines = ""
    for label, row, levels in zip(classes, counts, np.rint(4 * counts / totals).astype(int), strict=True):
        cells = "".join(f'<td class="h{level}">{count}</td>' for count, level in zip(row, levels, strict=True))
        lines += f'<tr><th scope="row">{_short(label)}</th>{cells}</tr>'
    table = f'<table class="confusion"><thead><tr><td></td>{head}</tr></thead><tbody>{lines}</tbody></table>'
    about = "Rows are the true classes, columns the predictions."
    return section("Confusion matrix", f'<div class="wide">{table}</div>', about=about)


def _short(label: object) -> str:
    """Return a label, cut where it is long; the whole label appears when it is pointed at."""
    whole = str(label)
    return text(whole) if len(whole) <= LONGEST else f'<span title="{text(whole)}">{text(whole[: LONGEST - 1])}…</span>'


def _calibration(task: Task, found: Details) -> str:
    assert found.probabilities is not None
    confidence = found.probabilities.max(axis=1)
    right = np.unique(task.y)[found.probabilities.argmax(axis=1)] == task.y
    bins = np.array_split(np.argsort(confidence, kind="stable"), max(1, min(8, len(confidence) // 15)))
    low = float(confidence.min())
    drawn = Axes((min(low, 0.5), 1.0), (0.0, 1.0), "stated probability", "share that is right", "calibration")
    drawn.line([low, 1.0], [low, 1.0], kind="mark")
    for some in bins:
        k, n, at = int(right[some].sum()), len(some), float(confidence[some].mean())
        drawn.bar(at, *wilson(k / n, n))
    drawn.line(
        [float(confidence[some].mean()) for some in bins], [float(right[some].mean()) for some in bins], dots=True
    )
    about = (
        "Probabilities from the decisions, fitted on the other folds. On the diagonal, samples that are called 80 % "
        "sure are right in 80 % of the cases. Bars are 95 % intervals."
    )
    return section("Calibration", drawn.svg(), about=about)


def _residuals(task: Task, found: Details, hover: str) -> str:
    y, predicted = np.asarray(task.y), found.predicted
    low, high = float(min(y.min(), predicted.min())), float(max(y.max(), predicted.max()))
    drawn = Axes((low, high), (low, high), "prediction", "target", "targets over predictions")
    drawn.line([low, high], [low, high], kind="mark")
    drawn.points(predicted, y, np.zeros(len(y)))
    residual = y - predicted
    about = (
        f"Root mean squared error {np.sqrt(np.mean(residual**2)):.4g}, median absolute error "
        f"{np.median(np.abs(residual)):.4g}. On the line, the prediction is exact."
    )
    return section("Targets and predictions", drawn.svg(hover=hover), about=about)


def _coverage(task: Task, found: Details) -> str:
    errors = np.abs(np.asarray(task.y) - found.predicted)
    levels = np.linspace(0.1, 0.9, 9)
    half = np.arange(len(errors)) % 2 == 0
    inside = [float((errors[~half] <= np.quantile(errors[half], level)).mean()) for level in levels]
    drawn = Axes((0.0, 1.0), (0.0, 1.0), "stated coverage", "share inside", "coverage of intervals")
    drawn.line([0, 1], [0, 1], kind="mark")
    drawn.line(levels, inside, dots=True)
    about = (
        "Intervals of one width around the predictions, taken from the errors of every second sample and checked on "
        "the others. On the diagonal, the stated coverage holds."
    )
    return section("Coverage of intervals", drawn.svg(), about=about)
