"""The sections of a report on one task, as HTML."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._comparison.evaluation import Task
from mercer._comparison.results import LEVEL
from mercer._report.details import Curve, Details, class_order
from mercer._report.drawing import Axes, color, heat_map, marker, text
from mercer._report.items import draw

SHOWN_CLASSES = 12
"""Classes that a confusion matrix, or the typical samples, show at most."""
NAMED_CLASSES = 24
"""Classes that a legend shows at most."""
NEGLIGIBLE = 1e-12
"""Eigenvalues that are smaller than this fraction of the largest one are rounding errors."""
SAME = 1e-9
"""Errors that differ by less are equal."""
SHOWN_ITEMS = 3
"""Typical samples of each class, ambiguous samples and errors."""


def section(title: str, *body: str, about: str = "") -> str:
    """Return a section with a heading and a sentence that says what it shows."""
    lead = f"<p>{about}</p>" if about else ""
    return f"<section><h3>{text(title)}</h3>{lead}{''.join(body)}</section>"


def scores(rows: list[dict[str, Any]]) -> str:
    """Return the table of methods with their scores, intervals and times."""
    low = min(row["score_low"] for row in rows)
    high = max(row["score_high"] for row in rows)
    low, span = max(low, -1.0), (high - max(low, -1.0)) or 1.0
    lines = []
    for row in sorted(rows, key=lambda row: -row["score"]):
        at = [160 * (max(row[key], low) - low) / span for key in ("score_low", "score", "score_high")]
        drawn = (
            f'<svg class="interval" viewBox="-4 0 168 12" aria-hidden="true"><line x1="{at[0]:.1f}" x2="{at[2]:.1f}" '
            f'y1="6" y2="6"/><circle cx="{at[1]:.1f}" cy="6" r="3.5"/></svg>'
        )
        against = ""
        if row["difference"] is not None:
            against = f"{row['difference']:+.3f} [{row['low']:+.3f}, {row['high']:+.3f}]"
        cells = (
            f"{row['score']:.3f}",
            f"[{row['score_low']:.3f}, {row['score_high']:.3f}]",
            drawn,
            against,
        )
        times = f"{row['fit_seconds']:.2f} s", f"{1000 * row['predict_seconds']:.2f} ms"
        name = text(row["method"]) + (" <small>(mercer)</small>" if row["is_kernel"] else "")
        if row["chosen"]:
            name += f"<br><small>{text(row['chosen'])}</small>"
        kind = ' class="best"' if row["recommended"] else ""
        body = "".join(f"<td>{cell}</td>" for cell in cells)
        body += "".join(f'<td class="time">{time}</td>' for time in times)
        lines.append(f'<tr{kind}><th scope="row">{name}</th>{body}</tr>')
    headings = ("method", rows[0]["measure"], f"{100 * LEVEL:.0f} % interval", "", "against the baseline")
    head = "".join(f'<th scope="col">{text(heading)}</th>' for heading in headings)
    head += '<th scope="col" class="time">fit</th><th scope="col" class="time">predict one</th>'
    about = (
        "Mean over the test folds. Parameters were chosen within the training folds; those that were chosen most often "
        "are shown. Against the baseline: difference of this method by itself from the baseline that was chosen within "
        "the training folds. What the sentence above recommends is highlighted."
    )
    return (
        f'<div class="wide" tabindex="0"><table class="scores"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div><p>{about}</p>"
    )


def legend(y: Any) -> str:
    """Return the legend of the classes."""
    classes, counts = np.unique(y, return_counts=True)
    shown = [
        f"<li>{marker(i)} {text(label)} <small>({count})</small></li>"
        for i, (label, count) in enumerate(zip(classes[:NAMED_CLASSES], counts, strict=False))
    ]
    rest = len(classes) - NAMED_CLASSES
    return f'<ul class="legend">{"".join(shown)}{f"<li>and {rest} more</li>" if rest > 0 else ""}</ul>'


def gram(task: Task, found: Details, hover: str) -> str:
    """Return the Gram matrix ordered by class, and the first two kernel principal components."""
    if found.gram is None:
        return ""
    K = found.gram
    root = np.sqrt(np.maximum(np.diag(K), np.finfo(float).tiny))
    normalized = K / root / root[:, None]
    order = class_order(task.y, normalized)
    by = "target" if task.is_regression else "class"
    title = f"Gram matrix of {len(K)} samples, ordered by {by}"
    image = f'<div class="square">{heat_map(normalized[np.ix_(order, order)], title)}{_strip(task, order)}</div>'
    about = (
        "Every pixel is the similarity of two samples, ordered by target, the smallest first."
        if task.is_regression
        else "Every pixel is the similarity of two samples, ordered by class (the bar below). Bright blocks on the "
        "diagonal are classes that the kernel sees."
    )
    parts = [section("Gram matrix", image, about=about)]
    if found.embedding is not None:
        parts.append(_components(task, found, hover))
    return f'<div class="pair">{"".join(parts)}</div>'


def _strip(task: Task, order: Any) -> str:
    """Return a bar of the classes, or of the targets, below the Gram matrix."""
    y = np.asarray(task.y)[order]
    n = len(y)
    if task.is_regression:
        low, high = float(y.min()), float(y.max())
        return f'<div class="ends"><small>{low:.4g}</small><small>{high:.4g}</small></div>'
    _, counts = np.unique(y, return_counts=True)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    parts = [
        f'<rect class="c{color(i)}" x="{start}" y="0" width="{count}" height="1"/>'
        for i, (start, count) in enumerate(zip(starts, counts, strict=True))
    ]
    return (
        f'<svg class="strip" viewBox="0 0 {n} 1" preserveAspectRatio="none" aria-hidden="true">{"".join(parts)}</svg>'
        + legend(task.y)
    )


def _components(task: Task, found: Details, hover: str) -> str:
    assert found.embedding is not None
    x, y = found.embedding.T
    first, second = (f"component {i + 1} ({100 * part:.0f} % of the variance)" for i, part in enumerate(found.share))
    drawn = Axes((x.min(), x.max()), (y.min(), y.max()), first, second, "kernel principal components", (460, 440))
    if task.is_regression:
        drawn.points(x, y, levels_of(task.y), kind="q")
    else:
        drawn.points(x, y, np.unique(task.y, return_inverse=True)[1])
    color = " The strongest shade marks the largest targets." if task.is_regression else ""
    about = f"Similar samples are close.{color} Point at one, or press the arrow keys, to see which it is."
    return section("Kernel principal components", drawn.svg(hover=hover), about=about)


def levels_of(y: Any) -> Any:
    """Return targets in five levels of equal numbers, from 0."""
    return np.searchsorted(np.quantile(y, (0.2, 0.4, 0.6, 0.8)), y)


def curves(found: Details, measure: str) -> str:
    """Return the error of cross-validation over the regularization and the main parameter."""
    parts = [
        section(f"Error over {curve.name}", _curve(curve, measure), about=_about_curve(curve, measure))
        for curve in found.curves
    ]
    return f'<div class="pair">{"".join(parts)}</div>' if parts else ""


def _curve(curve: Curve, measure: str) -> str:
    """Return the picture; none of an error that is the same everywhere."""
    if np.ptp(curve.means) < SAME:
        return ""
    values = np.asarray(curve.values)
    logarithmic = bool(values.min() > 0 and values.max() / values.min() > 20)
    x = np.log10(values) if logarithmic else values
    low, high = np.maximum(curve.means - curve.deviations, 0), curve.means + curve.deviations
    if measure == "accuracy":
        high = np.minimum(high, 1)
    ticks = [(float(at), f"{value:g}") for at, value in zip(x, values, strict=True)]
    drawn = Axes(
        (x.min(), x.max()), (low.min(), high.max()), curve.name, f"1 - {measure}", f"error over {curve.name}",
        x_ticks=ticks,
    )  # fmt: skip
    drawn.band(list(x), list(low), list(high))
    drawn.line(x, curve.means, dots=True)
    if curve.chosen is not None and values.min() <= curve.chosen <= values.max():
        drawn.mark(float(np.log10(curve.chosen)) if logarithmic else curve.chosen, "chosen")
    return drawn.svg()


def _about_curve(curve: Curve, measure: str) -> str:
    name, values = text(curve.name), [f"{value:g}" for value in curve.values]
    least = curve.means.min()
    best = np.flatnonzero(curve.means < least + SAME)
    if len(best) == len(values):
        return f"1 - {text(measure)} is {least:.3f} at every {name} from {values[0]} to {values[-1]}."
    where = ", ".join(values[i] for i in best)
    about = (
        f"The smallest error is {least:.3f}, at {name} = {where}; the band is one standard deviation over the folds."
    )
    if curve.chosen is not None:
        about += " The line marks the value that was chosen most often within the training folds."
    edge = set(best) <= {0, len(values) - 1} and np.ptp(curve.means) > 0.01
    return about + (" The smallest error lies at an end of the range that was searched." if edge else "")


def items(task: Task, found: Details, ids: list[str], shares: dict[int, Any]) -> str:
    """Return the most typical and the most ambiguous samples, and the clearest errors, drawn."""
    chosen = chosen_items(task, found)
    body = []
    for heading, about, numbers in chosen:
        cards = "".join(_card(task, found, ids, i, shares.get(i)) for i in numbers)
        if cards:
            body.append(f'<h4>{text(heading)}</h4><p>{about}</p><div class="cards">{cards}</div>')
    note = ""
    if shares:
        note = (
            "<p>Colored positions contribute to what the model, fitted to all samples, predicts: "
            '<span class="p3">raising</span> or <span class="n3">lowering</span> it.</p>'
            if task.is_regression
            else "<p>Colored positions speak <span class='p3'>for</span> or <span class='n3'>against</span> the class "
            "that the model, fitted to all samples, predicts.</p>"
        )
    return section("Samples to look at", note, *body)


def chosen_items(task: Task, found: Details) -> list[tuple[str, str, list[int]]]:
    """Return the samples that are drawn, by heading, each with a sentence."""
    order = np.argsort(-found.margins, kind="stable")
    if task.is_regression:
        return [
            ("Predicted best", "Samples with the smallest errors.", [int(i) for i in order[:SHOWN_ITEMS]]),
            ("Predicted worst", "Samples with the largest errors.", [int(i) for i in order[::-1][:SHOWN_ITEMS]]),
        ]
    y = np.asarray(task.y)
    classes = np.unique(y)
    each = SHOWN_ITEMS if len(classes) <= 3 else 1
    typical = [int(i) for label in classes[:SHOWN_CLASSES] for i in order[y[order] == label][:each]]
    close = np.argsort(np.abs(found.margins), kind="stable")
    wrong = [int(i) for i in order[::-1] if found.predicted[i] != y[i]]
    return [
        ("Most typical", "Samples of each class that are recognized most clearly.", typical),
        ("Most ambiguous", "Samples nearest to the boundary between classes.", [int(i) for i in close[:SHOWN_ITEMS]]),
        ("Clearest errors", "Samples that are recognized as another class; are their labels right?",
         wrong[:SHOWN_ITEMS]),
    ]  # fmt: skip


def _card(task: Task, found: Details, ids: list[str], i: int, shares: Any) -> str:
    truth, guess = np.asarray(task.y)[i], found.predicted[i]
    if task.is_regression:
        shown = f"{truth:.4g}, predicted {guess:.4g}"
    else:
        shown = str(truth) if truth == guess else f"{truth}, predicted {guess}"
    return f"<figure><figcaption><b>{text(ids[i])}</b> {text(shown)}</figcaption>{draw(task.X, i, shares)}</figure>"


def spectrum(found: Details) -> str:
    """Return the eigenvalues of the Gram matrix, its diagnosis, and whether the kernel is positive semi-definite."""
    if found.eigenvalues is None or found.diagnosis is None:
        return ""
    values = np.maximum(found.eigenvalues, found.eigenvalues[0] * NEGLIGIBLE)
    kept = np.unique(np.geomspace(1, len(values), min(len(values), 120)).astype(int)) - 1
    logs = np.log10(values[kept])
    drawn = Axes((1, len(values)), (logs.min(), logs.max()), "number", "log10 of the eigenvalue", "eigenvalues")
    drawn.line(kept + 1.0, logs)
    verdict = ""
    if found.kernel is not None:
        psd = found.kernel.psd
        verdict = f"<p>Positive semi-definite: <b>{text(psd)}</b>, {text(psd.reason)}.</p>"
    about = f"Eigenvalues of the Gram matrix, largest first; those below {NEGLIGIBLE:g} of the largest are drawn there."
    return section("Spectrum and diagnosis", drawn.svg(), f"<p>{text(found.diagnosis)}</p>", verdict, about=about)
