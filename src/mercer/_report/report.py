"""`report`: kernels against baselines on the user's data, written as one page."""

from __future__ import annotations

import html
import os
import platform
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.preprocessing import StandardScaler

from mercer._comparison.contenders import ContenderFactory
from mercer._comparison.evaluation import INNER_FOLDS, Contender, Task, evaluate_fold
from mercer._comparison.recipes import contenders
from mercer._comparison.results import Result
from mercer._comparison.summary import Summary
from mercer._files import check_path, check_target
from mercer._parallel import progress_bar
from mercer._report import sections
from mercer._report.checks import (
    answers_of,
    check_answers,
    check_folds,
    check_machine,
    check_names,
    check_splits,
    groups_of,
)
from mercer._report.details import details_of
from mercer._report.drawing import text
from mercer._report.page import page
from mercer._report.shares import shares_of
from mercer._version import __version__
from mercer.data.sequences import Sequences
from mercer.data.wrapped import inside

LARGEST = 2000
"""Number of samples of a report at most: its Gram matrix and predictions are computed exactly."""


@dataclass(frozen=True)
class Report:
    """A report: a page, and the numbers in it.

    Parameters
    ----------
    html : str
        The page.
    answer : str
        Does a kernel beat the baselines?
    rows : list of dict
        Scores, intervals, times and chosen parameters of each method.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.Report("<html></html>", "No kernel finished.", [])
    Report('No kernel finished.', 0 methods, 0 kB)
    """

    html: str
    answer: str
    rows: list[dict[str, Any]]

    def save(self, path: Any) -> None:
        """Write the page to a file.

        Parameters
        ----------
        path : str or path
            Where to write it; the name should end in ``.html``.
        """
        _check_path(path)
        Path(path).write_text(self.html, encoding="utf-8")

    def __repr__(self) -> str:
        return f"Report({self.answer!r}, {len(self.rows)} methods, {len(self.html) / 1e3:.0f} kB)"

    def _repr_html_(self) -> str:
        """Return the page in a frame, for notebooks."""
        return f'<iframe srcdoc="{html.escape(self.html)}" style="width:100%;height:800px;border:0"></iframe>'


def report(
    X: Any,
    y: Any,
    models: Any = None,
    *,
    path: Any = None,
    groups: Any = None,
    ids: Any = None,
    title: str = "Kernels and baselines",
    folds: int = 5,
    random_state: int = 0,
) -> Report:
    """Compare kernels with plain baselines, and write a page with the answer, the scores and pictures.

    Parameters
    ----------
    X : array-like
        The samples: sequences, series, a matrix of counts, or whatever ``models`` take.
    y : array-like of shape (N,)
        Labels (integers or strings), which are compared by accuracy, or targets (floats), by R2.
    models : estimator, list or dict of estimators, default=None
        Pipelines with a kernel of mercer, or searches over their parameters; a dict gives their names. Baselines
        that suit the data are always added. By default, the kernels that ``mercer compare`` would try.
    path : str or path, default=None
        Where to write the page.
    groups : array-like of shape (N,), default=None
        Samples of one group are kept in one fold.
    ids : iterable of str, default=None
        Names of the samples; by default those of ``X``, or numbers from 0.
    title : str, default="Kernels and baselines"
        Title of the page.
    folds : int, default=5
        Number of folds of the outer cross-validation.
    random_state : int, default=0
        Seed of the folds.

    Returns
    -------
    Report
        The page (``html``), the ``answer`` and the ``rows`` of the table; ``save`` writes the page.

    See Also
    --------
    mercer.gram.diagnose : The diagnosis of one Gram matrix.

    Notes
    -----
    The scores come from nested cross-validation: parameters are chosen within the training folds. The pictures show
    one method, the kernel that is recommended or otherwise the best one, with the parameters that were chosen most
    often, and predictions of samples that it was not fitted to. The page loads nothing from the network, and contains
    the samples that it draws, the ids, labels and predictions, but no other data.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.svm import SVC
    >>> rng = np.random.default_rng(0)
    >>> shares = [[0.4, 0.1, 0.1, 0.4]] * 15 + [[0.1, 0.4, 0.4, 0.1]] * 15
    >>> X = ["".join(rng.choice(list("ACGT"), 30, p=p)) for p in shares]
    >>> y = np.repeat(["AT", "GC"], 15)
    >>> kernel = make_pipeline(mc.Spectrum(2), SVC(kernel="precomputed"))
    >>> found = mc.report(mc.Sequences(X), y, {"Spectrum(2)": kernel}, folds=3)
    >>> [row["method"] for row in found.rows]
    ['majority class', 'linear, frequencies', 'linear, positions', 'Spectrum(2)']
    """
    if path is not None:
        _check_path(path)
    task = _task(X, y, models, groups, ids, folds, random_state)
    rounds = [(contender, fold) for contender in task.contenders for fold in range(folds)]
    done: dict[str, list[Any]] = {contender.name: [] for contender in task.contenders}
    for contender, fold in progress_bar(rounds, "Comparison"):
        try:
            done[contender.name].append(evaluate_fold(task, contender, fold, folds, random_state))
        except Exception as error:
            error.add_note(f"This was {contender.name!r} on fold {fold}; samples are counted within the fold.")
            raise
    results = [Result("data", contender, done[contender.name]) for contender in task.contenders]
    summary = Summary({"data": task}, results, folds, random_state)
    found = Report(render(summary, title, ""), summary.verdicts["data"][0], summary.rows)
    if path is not None:
        found.save(path)
    return found


def _check_path(path: Any) -> None:
    """Raise if the page cannot be written there."""
    check_path(path)
    check_target(Path(path), os.fspath(path))


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
    versions = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "scikit-learn", "numba"))
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
        sections.outcomes(task, found, key),
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
    truth = np.asarray(task.y)[i]
    if task.is_regression:
        return f"{name}: {truth:.4g}, predicted {predicted:.4g}"
    return f"{name}: {truth}" + ("" if truth == predicted else f", predicted {predicted}")


def _task(X: Any, y: Any, models: Any, groups: Any, ids: Any, folds: int, seed: int) -> Task:
    """Return the data with the contenders."""
    check_folds(folds, seed)
    if not (sparse.issparse(inside(X)) or isinstance(inside(X), Sequences) or models is not None):
        X = Sequences(X)
    elif isinstance(X, str) or not hasattr(X, "__len__"):
        raise TypeError(f"X must be a list, an array or Sequences; got {type(X).__name__}.")
    elif sparse.issparse(X):
        X = X.tocsr()  # other formats have no rows to choose
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    y = answers_of(y, n)
    if n > LARGEST:
        raise ValueError(f"A report is on at most {LARGEST} samples; got {n}. Pass a random subset.")
    check_answers(y, folds)
    groups = groups_of(groups, n, folds)
    factory = ContenderFactory(y.dtype.kind == "f", X is not inside(X))
    made = (
        _baselines(X, factory, seed) + _own(models, y.dtype.kind == "f")
        if models is not None
        else contenders(X, factory, seed)
    )
    check_names([contender.name for contender in made])
    names = getattr(inside(X), "ids", None) if ids is None else ids
    if isinstance(names, str) or not (names is None or hasattr(names, "__iter__")):
        raise TypeError(f"ids must be a list of names, one per sample; got {names!r}.")
    names = tuple(str(name) for name in names) if names is not None else ()
    if names and len(names) != n:
        raise ValueError(f"ids must have one name per sample, {n}; got {len(names)}.")
    task = Task(f"{n} samples", X, y, made, groups, ids=names)
    check_splits(task, folds, seed)
    return task


def _own(models: Any, is_regression: bool) -> list[Contender]:
    """Return the user's estimators as contenders; a search gives its grid."""
    if not isinstance(models, dict):
        given = list(models) if isinstance(models, (list, tuple)) else [models]
        models = {f"model {i + 1}" if len(given) > 1 else "model": model for i, model in enumerate(given)}
    if not models:
        raise ValueError("models is empty. Pass pipelines, or None to try the kernels that suit the data.")
    made = []
    for name, model in models.items():
        if isinstance(model, type) or not hasattr(model, "fit"):
            got = f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__
            raise TypeError(f"models must be estimators; got {got} for {name!r}. Pass pipelines.")
        if not hasattr(model, "predict"):
            raise TypeError(
                f"{type(model).__name__} for {name!r} cannot predict. Pass a pipeline, such as "
                "make_pipeline(kernel, SVC(kernel='precomputed'))."
            )
        check_machine(name, model, is_regression)
        if isinstance(getattr(model, "param_grid", None), dict) and hasattr(model, "estimator"):
            made.append(Contender(str(name), model.estimator, dict(model.param_grid)))
        else:
            made.append(Contender(str(name), model))
    return made


def _baselines(X: Any, factory: ContenderFactory, seed: int) -> list[Contender]:
    """Return the plain baselines for the data."""
    objects = inside(X)
    if sparse.issparse(objects) or isinstance(objects, Sequences):
        return [one for one in contenders(X, factory, seed) if not one.is_kernel]
    plain = factory.trivial()
    if np.ndim(objects) == 2 and np.asarray(objects).dtype.kind in "fiu" and not factory.confounded:
        plain += [factory.linear("linear", StandardScaler()), factory.rbf_svm("RBF SVM")]
    return plain
