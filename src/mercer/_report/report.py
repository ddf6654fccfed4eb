"""`report`: kernels against baselines on the user's data, written as one page."""

from __future__ import annotations

import html
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.preprocessing import StandardScaler

from mercer._atomic import replacing
from mercer._comparison.checks import (
    answers_of,
    check_answers,
    check_estimator,
    check_folds,
    check_names,
    check_splits,
    groups_of,
)
from mercer._comparison.evaluation import Contender, Task, evaluate_fold
from mercer._comparison.recipes import ContenderFactory, contenders
from mercer._comparison.results import Result
from mercer._comparison.summary import Summary
from mercer._files import check_path, check_target
from mercer._parallel import progress_bar
from mercer._sizes import human
from mercer.data.channels import inside
from mercer.data.sequences import Sequences

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
    Report('No kernel finished.', 0 methods, 13 bytes)
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
        with replacing(path) as file:
            file.write(self.html.encode())

    def __repr__(self) -> str:
        return f"Report({self.answer!r}, {len(self.rows)} methods, {human(len(self.html))})"

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
    the samples that it draws, the ids, labels and predictions, but no other data. Jinja2 and matplotlib are required,
    which the extra ``cli`` installs.

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
    try:
        from mercer._report.page import render  # matplotlib takes a second to import
    except ImportError as error:
        raise ImportError("mc.report requires jinja2 and matplotlib; run pip install jinja2 matplotlib.") from error
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
    target = Path(path)
    check_target(target, os.fspath(path))
    if not os.access(target if target.exists() else target.parent, os.W_OK):
        raise PermissionError(f"{path} cannot be written: it is read-only. Choose another name or folder.")


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
    if (names or ids is not None) and len(names) != n:
        raise ValueError(f"ids must have one name per sample, {n}; got {len(names)}.")
    kind = f"targets {y.min():.4g} to {y.max():.4g}" if y.dtype.kind == "f" else f"{len(np.unique(y))} classes"
    task = Task(f"{n:,} samples, {kind}", X, y, made, groups, ids=names)
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
        check_estimator(name, model, is_regression)
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
