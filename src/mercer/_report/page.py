"""The page on a comparison: what its template shows, from the results."""

from __future__ import annotations

import base64
import hashlib
import platform
import re
from importlib.metadata import version
from importlib.resources import files
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader
from markupsafe import Markup
from matplotlib import style
from scipy import sparse

from mercer._array import Floats
from mercer._comparison.evaluation import INNER_FOLDS, Task
from mercer._comparison.results import LEVEL, signed
from mercer._comparison.summary import Summary
from mercer._report import figures
from mercer._report.details import Curve, Details, class_order, details_of, shares_of
from mercer._version import __version__
from mercer.data.channels import inside
from mercer.data.sequences import Sequences

SHOWN_CLASSES = 12
"""Classes that a confusion matrix, or the typical samples, show at most."""
NAMED_CLASSES = 24
"""Classes that a legend shows at most."""
SHOWN_ITEMS = 3
"""Typical samples of each class, ambiguous samples and errors."""
LONGEST_TIP = 80
"""Characters of an id or a label that a tip shows at most; 2,000 long names would make a large page."""
LETTERS, WORDS = 240, 12
"""What is shown of a sample at most."""


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
    environment = Environment(
        loader=PackageLoader("mercer", "_report"), autoescape=True, finalize=_printable, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["signed"] = signed
    script = files("mercer._report").joinpath("page.js").read_text("utf-8")
    packages = ("numpy", "scipy", "scikit-learn")
    with style.context(["default", figures.STYLE]):
        tasks = [_on_task(summary, name, task) for name, task in summary.tasks.items()]
    return environment.get_template("page.html").render(
        title=title,
        command=command,
        tasks=tasks,
        level=f"{100 * LEVEL:.0f} %",
        folds=summary.folds,
        inner_folds=INNER_FOLDS,
        seed=summary.seed,
        versions=[("mercer", __version__), ("Python", platform.python_version())]
        + [(name, version(name)) for name in packages],
        platform=platform.platform(terse=True),
        script=Markup(script),
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        glyphs="●■▲◆▼✚✖★",  # of the markers of figures
        color=figures.color,
        negligible=f"{figures.NEGLIGIBLE:g}",
    )


def _printable(value: Any) -> Any:
    """Return text for the page: control characters of data become spaces."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return "".join(letter if letter.isprintable() else " " for letter in value)


def _on_task(summary: Summary, name: str, task: Task) -> dict[str, Any]:
    rows = sorted((row for row in summary.rows if row["task"] == name), key=lambda row: -row["score"])
    shown = summary.best(name, kernels=True) or summary.best(name)
    made: dict[str, Any] = {
        "name": name,
        "answer": summary.verdicts[name][0],
        "about": task.about,
        "unfinished": [f"{r.contender.name} {r.failure}" for r in summary.unfinished if r.task == name],
        "rows": rows,
    }
    if shown is None:
        return made
    found = details_of(task, shown, summary.folds, summary.seed)
    ids = list(task.ids) or [str(i) for i in range(len(task.y))]
    low = max(min(row["score_low"] for row in rows), -1.0)
    made |= {
        "low": low,
        "span": (max(row["score_high"] for row in rows) - low) or 1.0,
        "is_regression": task.is_regression,
        "method": shown.contender.name,
        "chosen": next(row["chosen"] for row in rows if row["method"] == shown.contender.name),
        "tips": [
            f"{_cut(ids[i])}: {answer(task, found.predicted[i], i)}"
            for i in np.argsort(figures.codes_of(task), kind="stable")
        ],
        "classes": _classes(task),
        "gram": _gram(task, found),
        "components": figures.components(task, found) if found.embedding is not None else "",
        "curves": [
            (curve.name, about_curve(curve, task.measure), figures.error_curve(curve, task.measure))
            for curve in found.curves
        ],
        "samples": _samples(task, found, ids),
        "spectrum": figures.spectrum(found.eigenvalues) if found.eigenvalues is not None else "",
        "diagnosis": _diagnosis(found),
        "advice": found.diagnosis.advice if found.diagnosis is not None else "",
        "code": summary.code(shown),
    }
    if task.is_regression:
        errors = np.abs(task.y - found.predicted)
        return made | {
            "residuals": figures.residuals(task, found),
            "rmse": f"{np.sqrt(np.mean(errors**2)):.4g}",
            "median_error": f"{np.median(errors):.4g}",
            "coverage": figures.coverage(figures.coverages(task, found)),
            "splits": figures.SPLITS,
            "halves": "samples" if task.groups is None else "groups",
        }
    assert found.probabilities is not None
    confusion = confused(task.y, found.predicted)
    return made | {"confusion": confusion, "calibration": figures.calibration(task, found.probabilities)}


def answer(task: Task, predicted: Any, i: int) -> str:
    """Return the label or target of a sample, and what is predicted if it is another one."""
    truth = np.asarray(task.y)[i]
    if task.is_regression:
        return f"{truth:.4g}, predicted {predicted:.4g}"
    return _cut(truth) + ("" if truth == predicted else f", predicted {_cut(predicted)}")


def _cut(value: object) -> str:
    whole = str(value)
    return whole if len(whole) <= LONGEST_TIP else f"{whole[: LONGEST_TIP - 1]}…"


def _classes(task: Task) -> dict[str, Any]:
    """Return the names and sizes of the classes; for targets, the smallest and the largest."""
    if task.is_regression:
        return {"ends": [f"{end:.4g}" for end in (task.y.min(), task.y.max())]}
    names, counts = np.unique(task.y, return_counts=True)
    shown = [(str(name), int(count)) for name, count in zip(names, counts, strict=True)]
    return {"all": shown, "named": shown[:NAMED_CLASSES]}


def _gram(task: Task, found: Details) -> dict[str, Any] | None:
    """Return the normalized Gram matrix, ordered by class or target, and the range of its colors."""
    if found.gram is None:
        return None
    root = np.sqrt(np.maximum(np.diag(found.gram), np.finfo(float).tiny))
    K = found.gram / root / root[:, None]
    order = class_order(task.y, K)
    by = "target" if task.is_regression else "class"
    K = K[np.ix_(order, order)]
    ends = figures.limits(K)
    image = figures.heat_map(K, f"Gram matrix of {len(K)} samples, ordered by {by}", ends)
    return {"image": image, "ends": [f"{end:.3g}" for end in ends]}


VALID = {
    "always": "guaranteed for this kernel: {}",
    "conditional": "guaranteed under a condition: {}",
    "approximate": "true up to the error of an estimate: {}",
    "no": "not guaranteed for this kernel: {}",
}
"""Whether the Gram matrices of a kernel are positive semi-definite, by its verdict."""


def _diagnosis(found: Details) -> list[tuple[str, str, str]]:
    """Return the name, the value and the meaning of each number of the diagnosis, for readers without the theory."""
    if found.diagnosis is None or found.kernel is None:
        return []
    numbers, n = found.diagnosis, found.diagnosis.n
    least, _, median, _, most = (f"{value:.3g}" for value in numbers.off_diagonal.values())
    similar = f"The median; all are between {least} and {most}, and 1 is the similarity of a sample with itself."
    patterns = "About as many independent patterns describe the samples. Near the number of samples, "
    patterns += f"{n}, each of them would be similar to itself only."
    rank = f"{numbers.effective_rank:.1f}"
    rows = [("Similarity of two samples", median, similar), ("Effective rank", rank, patterns)]
    if numbers.alignment is not None:
        meaning = "How well similarities agree with what is predicted: 0 is not at all, 1 is perfectly."
        rows.append(("Alignment", f"{numbers.alignment:.3f}", meaning))
    reason = re.sub(r" \((?:[A-Z]+-[\w.]+(?:, )?)+\)", "", found.kernel.psd.reason)  # ids of formulas
    valid = f"It must not be below zero, apart from rounding, which is {VALID[found.kernel.psd].format(reason)}."
    rows.append(("Smallest eigenvalue", f"{numbers.smallest:.3g}", valid))
    return rows


def confused(y: Any, predicted: Any) -> dict[str, Any]:
    """Return the confusion matrix; of many classes, its picture and the most frequent confusions."""
    classes, codes = np.unique(y, return_inverse=True)
    counts = np.zeros((len(classes), len(classes)), dtype=int)
    np.add.at(counts, (codes, np.searchsorted(classes, predicted)), 1)
    shares = counts / counts.sum(axis=1, keepdims=True)
    names = [str(label) for label in classes]
    if len(classes) <= SHOWN_CLASSES:
        levels = np.rint(4 * shares).astype(int)
        return {"names": names, "rows": [list(zip(*pair, strict=True)) for pair in zip(counts, levels, strict=True)]}
    pairs = sorted(((counts[i, j], i, j) for i, j in np.argwhere(counts) if i != j), reverse=True)
    title = f"confusion matrix of {len(classes)} classes, rows are the true ones"
    return {
        "image": figures.heat_map(shares, title, (0.0, 1.0)),
        "pairs": [(names[i], names[j], count) for count, i, j in pairs[:SHOWN_CLASSES]],
    }


def about_curve(curve: Curve, measure: str) -> str:
    """Return where the error is the smallest."""
    values = [f"{value:g}" for value in curve.values]
    least = curve.means.min()
    best = np.flatnonzero(curve.means < least + figures.SAME)
    if len(best) == len(values):
        return f"1 - {measure} is {least:.3f} at every {curve.name} from {values[0]} to {values[-1]}."
    where = ", ".join(values[i] for i in best)
    about = (
        f"The smallest error is {least:.3f}, at {curve.name} = {where}; the band is one standard deviation over the "
        "folds."
    )
    if curve.chosen is not None:
        about += " The line marks the value that was chosen most often within the training folds."
    edge = set(best) <= {0, len(values) - 1} and np.ptp(curve.means) > 0.01
    return about + (" The smallest error lies at an end of the range that was searched." if edge else "")


def _samples(task: Task, found: Details, ids: list[str]) -> dict[str, Any]:
    """Return the most typical and the most ambiguous samples, and the clearest errors."""
    y, order = np.asarray(task.y), np.argsort(-found.margins, kind="stable")
    if task.is_regression:
        groups = [
            ("Predicted best", "Samples with the smallest errors.", order[:SHOWN_ITEMS]),
            ("Predicted worst", "Samples with the largest errors.", order[::-1][:SHOWN_ITEMS]),
        ]
    else:
        classes = np.unique(y)
        each = SHOWN_ITEMS if len(classes) <= 3 else 1
        typical = np.concatenate([order[y[order] == label][:each] for label in classes[:SHOWN_CLASSES]])
        close = np.argsort(np.abs(found.margins), kind="stable")[:SHOWN_ITEMS]
        wrong = order[::-1][found.predicted[order[::-1]] != y[order[::-1]]][:SHOWN_ITEMS]
        groups = [
            ("Most typical", "Samples of each class that are recognized most clearly.", typical),
            ("Most ambiguous", "Samples nearest to the boundary between classes.", close),
            ("Clearest errors", "Samples that are recognized as another class; are their labels right?", wrong),
        ]
    shares = shares_of(task, found, list(dict.fromkeys(int(i) for _, _, some in groups for i in some)))
    shown = []
    for heading, about, numbers in groups:
        cards = [
            {"name": ids[i], "tip": answer(task, found.predicted[i], i), **item(task.X, i, shares.get(int(i)))}
            for i in numbers
        ]
        shown += [(heading, about, cards)] if cards else []
    return {"groups": shown, "colored": bool(shares)}


def item(X: Any, i: int, shares: Floats | None = None) -> dict[str, Any]:
    """Return one sample as a card shows it: letters of a string, a figure of a series, or words.

    Parameters
    ----------
    X : Sequences, sparse matrix, array, DataFrame or list
        The samples.
    i : int
        Number of the sample.
    shares : array of shape (T,) or (T, d), optional
        What each position, or each channel of a time step, contributes to the decision, which colors them.
    """
    X = inside(X)
    if sparse.issparse(X):
        row = sparse.csr_array(X)[[i]]
        order = np.argsort(-row.data, kind="stable")
        words = ", ".join(f"{row.indices[j]} ({row.data[j]:g})" for j in order[:WORDS])
        rest = f" and {len(order) - WORDS} more" if len(order) > WORDS else ""
        return {"note": f"columns (counts): {words}{rest}"}
    one = X.iloc[i] if hasattr(X, "iloc") else X[i]
    levels = None
    if shares is not None and np.any(shares):
        levels = np.rint(3 * np.asarray(shares, dtype=float) / np.abs(shares).max()).astype(int)
    if isinstance(one, str) or (isinstance(X, Sequences) and X.is_symbols):
        kinds = [
            "" if level == 0 else f"{'p' if level > 0 else 'n'}{abs(level)}"
            for level in (() if levels is None else levels)
        ]
        kinds += [""] * (len(one) - len(kinds))
        letters = [(str(symbol), kind) for symbol, kind in zip(one[:LETTERS], kinds, strict=False)]
        rest = f"and {len(one) - LETTERS} more" if len(one) > LETTERS else ""
        return {"letters": letters, "apart": "" if isinstance(one, str) else " ", "note": rest}
    values = np.asarray(one)
    if not (values.dtype.kind in "fiub" and values.ndim in (1, 2) and values.size):
        shown = repr(one)
        return {"letters": [(shown[:LETTERS], "")], "note": "..." if len(shown) > LETTERS else ""}
    values = values.reshape(len(values), -1).astype(float)
    T, d = values.shape
    channels: tuple[str, ...] = getattr(X, "channels", None) or ()
    more = f"; {figures.CHANNELS} of {d} channels" if d > figures.CHANNELS else ""
    name = f"; {channels[0]}" if len(channels) == d == 1 else ""
    return {"figure": figures.series(values, levels, channels), "note": f"{T} steps{name}{more}"}
