"""The code that a comparison ends with."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline, make_pipeline

import mercer as mc
from mercer._comparison.evaluation import Contender, weight_parameter


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
    pipeline = clone(contender.estimator)
    chosen = {}
    for name, text in (parameters or {}).items():
        value = next(value for value in contender.grid[name] if repr(value) == text)
        chosen[name] = value
    pipeline.set_params(**chosen)
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
