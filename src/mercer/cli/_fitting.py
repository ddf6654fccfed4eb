"""Fit a recipe to all data, predict with it, and explain predictions."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, replace
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, is_regressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.pipeline import Pipeline, make_pipeline
from threadpoolctl import threadpool_limits

import mercer as mc
from mercer._comparison.evaluation import Contender, Task, searched, splits
from mercer._comparison.recipes import ContenderFactory, contenders, slug
from mercer._notices import collected
from mercer.cli._data_options import Reading
from mercer.cli._own_data import Known
from mercer.cli._readers import Read, read
from mercer.kernels import Kernel

FOLDS = 5
LETTERS = 80
"""Longest sequence that is drawn as a logo."""


@dataclass(frozen=True)
class FittedContender:
    """A fitted model, its score in cross-validation, and the parameters that were chosen."""

    model: Any
    score: float
    parameters: dict[str, Any]


def chosen(text: str, factory: ContenderFactory, known: Callable[[], list[Contender]]) -> Contender:
    """Return the recipe of this name among the known ones, or a kernel that is given as code, with an estimator.

    Parameters
    ----------
    text : str
        Name of a recipe, or code.
    factory : ContenderFactory
        Gives a kernel its estimator.
    known : callable
        Returns the recipes; it is not called if the text is code.
    """
    if "(" in text:
        return factory.with_kernel(text, kernel_of(text))
    recipes = {slug(contender.name): contender for contender in known()}
    if text not in recipes:
        names = ", ".join(recipes)
        raise ValueError(f"--kernel must be one of {names}, or code such as 'Spectrum(k=4)'; got {text!r}.")
    return recipes[text]


def kernel_of(text: str) -> Kernel:
    """Return the kernel that code such as ``"Fisher(HMM(n_states=4))"`` describes; nothing else is evaluated."""
    shown = repr(text if len(text) <= 60 else f"{text[:57]}...")
    try:
        made = _made(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, RecursionError):
        raise ValueError(f"--kernel is not valid code: {shown}. Write it as in Python, 'Spectrum(k=4)'.") from None
    if not isinstance(made, Kernel):
        raise ValueError(f"--kernel must be a kernel of mercer, such as 'Spectrum(k=4)'; got {shown}.")
    return made


def _made(node: ast.expr, depth: int = 0) -> Any:
    if depth > 10:
        raise ValueError("--kernel is nested more than 10 times; write a simpler one.")
    if not isinstance(node, ast.Call):
        try:
            return ast.literal_eval(node)
        except ValueError:
            raise ValueError(
                f"--kernel may contain calls of mercer, numbers and strings; got {ast.unparse(node)!r}."
            ) from None
    name = ast.unparse(node.func).rpartition(".")[2]
    public = mc._public(name)
    if not (isinstance(public, type) and issubclass(public, BaseEstimator)) and public is not mc.Discounted:
        raise ValueError(f"--kernel: mercer has no estimator called {name!r}; check the name.")
    if any(keyword.arg is None for keyword in node.keywords):
        raise ValueError(f"--kernel: write the parameters of {name} one by one.")
    given = [_made(one, depth + 1) for one in node.args]
    named = {str(keyword.arg): _made(keyword.value, depth + 1) for keyword in node.keywords}
    try:
        return public(*given, **named)
    except TypeError as error:
        said = str(error)
        if said.endswith("."):  # a sentence of mercer, which tells what the parameter is called here
            raise ValueError(f"--kernel: {said}") from None
        parameters = ", ".join(signature(public).parameters)
        raise ValueError(f"--kernel: the parameters of {name} are {parameters}; got {ast.unparse(node)}.") from None


def fitted(task: Task, contender: Contender, *, proba: bool, seed: int) -> FittedContender:
    """Choose the parameters of a contender by cross-validation, and fit it to all data.

    Parameters
    ----------
    task : Task
        The data.
    contender : Contender
        What to fit.
    proba : bool
        Whether to calibrate probabilities, by further folds.
    seed : int
        Seed of the folds.
    """
    everything = np.arange(len(task.y))
    with collected(), threadpool_limits(1):  # as in a comparison: models that do not converge are used
        search = searched(task, contender, everything, seed)
        model: Any = search.model
        if proba and not isinstance(model, mc.SeriesClassifier):  # which has calibrated probabilities
            model = CalibratedClassifierCV(model, cv=splits(task, everything, FOLDS, seed), ensemble=False)
            model.fit(task.X, np.asarray(task.y))
    return FittedContender(model, search.score, search.parameters)


def opened(
    path: Path,
    source: Path,
    *,
    skip_bad: bool,
    label_table: Path | None = None,
    id: str | None = None,
    time: str | None = None,
) -> tuple[Any, Read]:
    """Return a fitted model, and new data, read as its training data were."""
    info = mc.file_info(path)
    if info.kind != "pipeline":
        raise ValueError(f"{path} contains a {info.kind}, not a fitted model; pass a file that mercer fit wrote.")
    model = mc.load(path)
    options = info.metadata.get("reading", {})
    if not isinstance(options, dict):
        raise ValueError(f"{path} is damaged: its reading options are not a table.")
    if not hasattr(model, "predict"):
        raise ValueError(f"{path} contains a {type(model).__name__}, which does not predict; save a whole pipeline.")
    known = {name: value for name, value in options.items() if name in Reading.__dataclass_fields__}
    before = Known.from_file(info.metadata.get("known", {}))
    if label_table is not None and not known.get("confounds"):
        raise ValueError(f"--label-table tells confounds, and {path} was fitted without them; omit it.")
    table = None if label_table is None else str(label_table)
    new = {"skip_bad": skip_bad, "label_table": table, "id": id, "time": time}
    return model, read(source, Reading(**{**known, **new}), known=before)


def predicted(path: Path, source: Path, *, proba: bool, **options: Any) -> tuple[list[dict[str, Any]], Read]:
    """Return a row per new sample, its id, prediction and with ``proba`` probabilities, and what was read."""
    model, records = opened(path, source, **options)
    if proba and not hasattr(model, "predict_proba"):
        cure = "omit --proba: it predicts numbers" if is_regressor(model) else "fit it again with mercer fit --proba"
        raise ValueError(f"{path} does not predict probabilities; {cure}.")
    X = records.data
    predictions = np.asarray(model.predict(X)).tolist()
    rows = [{"id": str(name), "prediction": one} for name, one in zip(records.ids, predictions, strict=True)]
    if proba:
        columns = [str(name) for name in model.classes_]
        for row, values in zip(rows, model.predict_proba(X).tolist(), strict=True):
            row |= dict(zip(columns, values, strict=True))
    return rows, records


def shown(found: mc.Explanation, output: str | None) -> mc.Explanation:
    """Return the explanation of the output that is named, or else of the class that is predicted for each sample."""
    pairs = found.n_outputs > 1 and not set(found.predicted or ()) <= set(found.outputs)  # of classes, by SVC
    return found if output is not None or found.predicted is None or pairs else found.of_predicted()


def explained(found: mc.Explanation, output: str | None, top: int) -> list[dict[str, Any]]:
    """Return a row per sample: its id, an output, its decision and bias, and the largest contributions to it.

    The output is that which is named or predicted, or else the largest one.
    """
    one = shown(found, output)
    decisions, biases = (values.reshape(len(one), -1) for values in (one.decision, one.bias))
    names = one.predicted if output is None and one.predicted and one.n_outputs == 1 else None
    rows = []
    for i, at in enumerate(decisions.argmax(axis=1).tolist()):
        places = [
            {"position": c.position, "name": c.name, "channel": c.channel, "contribution": c.value}
            for c in one[i].top(top, None if one.n_outputs == 1 else one.outputs[at])[0]
        ]
        own = {"decision": float(decisions[i, at]), "bias": float(biases[i, at])}
        rows.append({"id": one.ids[i], "output": names[i] if names else one.outputs[at], **own, "top": places})
    return rows


def table(found: mc.Explanation) -> list[dict[str, Any]]:
    """Return a row per position of each sample; the output is named in every row, if there are classes or several."""
    columns = found.columns()
    if found.classes is not None and found.n_outputs == 1:
        columns["output"] = [found.outputs[0]] * len(columns["sample"])
        columns["contribution"] = columns.pop("contribution")  # the last column
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def drawn(found: mc.Explanation, output: str | None, X: Any) -> Any:
    """Return the figure of series over their contributions, of a logo of a single sample, or else of tracks."""
    one = shown(found, output)
    one = one if one.n_outputs == 1 else one.of_output(one.outputs[0])
    if one.kind == "series":
        return mc.plot.explained_series(one, X)[0, 0].figure
    if one.predicted is not None:
        names = zip(one.ids, one.predicted, strict=True)
        one = replace(one, ids=tuple(f"{name}: predicted {label}" for name, label in names))
    is_logo = len(one) == 1 and one.kind == "symbols" and len(one.names[0]) <= LETTERS
    ax = mc.plot.logo(one) if is_logo else mc.plot.track(one)
    if len(one) == 1:
        ax.set_title(one.ids[0], loc="left", fontsize="medium", parse_math=False)
    return ax.figure


def kernel_of_data(X: Any, kernel: str | None, seed: int) -> tuple[str, Any, Any]:
    """Return the name of a kernel, by default the first recipe for such data, its input, and the kernel."""
    factory = ContenderFactory()

    def known() -> list[Contender]:
        return [each for each in contenders(X, factory, seed) if each.is_kernel]

    contender = known()[0] if kernel is None else chosen(kernel, factory, known)
    if not isinstance(contender.estimator, Pipeline):
        return kernel or slug(type(contender.kernel).__name__), X, contender.kernel
    *before, made = (step for _, step in contender.estimator.steps[:-1])
    return kernel or slug(contender.name), make_pipeline(*before).fit_transform(X) if before else X, made
