"""Checks of the input of a comparison, before anything is computed."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from sklearn.base import is_classifier, is_regressor
from sklearn.utils import get_tags

from mercer._checks import is_whole
from mercer._comparison.evaluation import INNER_FOLDS, Task, splits, too_few
from mercer._wording import counted, wording

LARGEST_TARGET = 1e100
"""Sums of squares of larger targets, and of the inverse of larger differences, may leave the range of floats."""


def answers_of(y: Any, n: int) -> Any:
    """Return labels or targets as an array of shape (n,); raise if one is missing or they are of several types."""
    if isinstance(y, list | tuple) and any(isinstance(value, str) for value in y):
        y = np.array(y, dtype=object)  # NumPy would write NaN as the string "nan"
    if y is None or isinstance(y, str | dict | set):
        raise TypeError(f"y must be a list or an array, one label or target per sample; got {type(y).__name__}.")
    try:
        y = np.asarray(y)
    except ValueError:  # lists of several lengths
        raise ValueError("y must have one label or target per sample; got lists of different lengths.") from None
    if y.shape != (n,):
        raise ValueError(f"y must have one label or target per sample, shape ({n},); got shape {y.shape}.")
    if y.dtype.kind in "Sc":
        kind, cure = ("bytes", "y.astype(str)") if y.dtype.kind == "S" else ("complex numbers", "y.real")
        raise TypeError(f"y must be labels (integers or strings) or targets (floats); got {kind}. Pass {cure}.")
    if y.dtype.kind != "O":
        return y
    for i, value in enumerate(y):
        if _is_missing(value):
            raise ValueError(f"The label of sample {i} is missing ({value!r}). Leave the sample out.")
    if all(isinstance(value, numbers.Real) for value in y):
        return np.array(y.tolist())
    kinds = sorted({type(value).__name__ for value in y})
    if len(kinds) > 1:
        raise ValueError(f"Labels must be of one type; got {' and '.join(kinds)}. Convert them to strings.")
    return y


def _is_missing(value: Any) -> bool:
    return value is None or type(value).__name__ in ("NAType", "NaTType") or (value != value) is True


def check_answers(y: Any, folds: int) -> None:
    """Raise if the labels or targets cannot be compared in folds."""
    if y.dtype.kind == "f":
        check_targets(y, folds)
        return
    classes, counts = np.unique(y, return_counts=True)
    if len(classes) < 2:
        only = f"got only {str(classes[0])!r}" if len(classes) else "got no samples"
        raise ValueError(f"At least two classes are required; {only}.")
    i = int(np.argmin(counts))
    members = int(counts[i])
    if too_few(members, folds):
        # With more folds, more members are left for the inner folds.
        fitting = [number for number in range(2, members + 1) if not too_few(members, number)]
        nearest = min(fitting, key=lambda number: abs(number - folds), default=None)
        cure = "leave the class out" if nearest is None else f"use folds={nearest}, or leave the class out"
        if y.dtype.kind in "iu":
            cure += "; if y are numbers to predict, pass floats"
        raise ValueError(
            f"Class {str(classes[i])!r} has {counted(members, 'member')}, too few for {folds} outer and "
            f"{INNER_FOLDS} inner folds; {cure}."
        )


def check_targets(y: Any, folds: int) -> None:
    """Raise if the targets cannot be predicted in folds."""
    if not np.isfinite(y).all():
        i = int(np.argmin(np.isfinite(y)))
        raise ValueError(f"Targets must be finite; got {y[i]} for sample {i}. Leave the sample out.")
    if len(y) < 2 * folds:
        cure = f"decrease {wording().phrase('folds', 'folds')}, or add samples"
        raise ValueError(f"{len(y)} samples are too few for {folds} folds; {cure}.")
    if np.abs(y).max() > LARGEST_TARGET:
        raise ValueError(f"Targets of {np.abs(y).max():.3g} are too large for squared errors. Divide them.")
    if np.ptp(y) == 0:
        raise ValueError(
            f"All targets are {y[0]:g}; there is nothing to predict. Check {wording().phrase('targets', 'y')}."
        )
    if np.ptp(y) < 1 / LARGEST_TARGET:
        raise ValueError(f"Targets differ by {np.ptp(y):.3g}, too little for squared errors. Multiply them.")


def check_folds(folds: Any, seed: Any) -> None:
    """Raise unless folds can be made, and made again: every method must be tested on the same ones."""
    if not is_whole(folds, 2):
        raise ValueError(f"folds must be a whole number, 2 or more; got {folds!r}.")
    if not (is_whole(seed, 0) and seed < 2**32):
        raise ValueError(
            f"random_state must be a whole number from 0 to 2**32 - 1, so that all methods are tested on the same "
            f"folds; got {seed!r}."
        )


def groups_of(groups: Any, n: int, folds: int) -> Any:
    """Return groups as an array of shape (n,), or None; raise if they are too few for the folds."""
    if groups is None:
        return None
    groups = np.asarray(groups)
    if groups.shape != (n,):
        raise ValueError(f"groups must have one group per sample, shape ({n},); got shape {groups.shape}.")
    for i, value in enumerate(groups):
        if _is_missing(value) or (groups.dtype.kind == "f" and np.isnan(value)):
            raise ValueError(f"The group of sample {i} is missing ({value}). Give it a group of its own.")
    number = len(set(groups.tolist()))
    needed = max(folds, INNER_FOLDS + 1)
    if number < needed:
        raise ValueError(
            f"groups has {counted(number, 'different group')}, and {folds} outer and {INNER_FOLDS} inner "
            f"folds need {needed}. " + ("Decrease folds." if number > INNER_FOLDS else "Use smaller groups.")
        )
    return groups if groups.dtype.kind != "O" else np.unique([str(value) for value in groups], return_inverse=True)[1]


def check_splits(task: Task, folds: int, seed: int) -> None:
    """Raise if groups leave a training part with too few groups for the inner folds, or with one class."""
    if task.groups is None:
        return
    y, groups = np.asarray(task.y), np.asarray(task.groups)
    cure = "Use smaller groups, or more folds."
    for train, _ in splits(task, np.arange(len(y)), folds, seed):
        number = len(np.unique(groups[train]))
        if number < INNER_FOLDS:
            raise ValueError(
                f"groups leave {number} groups for training in one of {folds} folds, and the inner folds need "
                f"{INNER_FOLDS}. {cure}"
            )
        parts = [train, *(train[some] for some, _ in splits(task, train, INNER_FOLDS, seed))]
        for part in parts:
            if not task.is_regression and len(np.unique(y[part])) < 2:
                raise ValueError(f"groups leave only the class {str(y[part[0]])!r} for training in one fold. {cure}")


def check_estimator(name: Any, model: Any, is_regression: bool) -> None:
    """Raise if a classifier is to predict targets, a regressor labels, or a model takes a Gram matrix for X."""
    if get_tags(model).input_tags.pairwise:
        raise TypeError(
            f"{name!r} takes a Gram matrix, and a report is on samples. Pass the samples as X, and a kernel in the "
            "pipeline, such as make_pipeline(kernel, SVC(kernel='precomputed'))."
        )
    if is_regression and is_classifier(model):
        raise TypeError(
            f"{name!r} is a classifier, and y has targets (floats). Use a regressor such as mc.KernelRidge, or pass "
            "labels (integers or strings)."
        )
    if not is_regression and is_regressor(model):
        raise TypeError(
            f"{name!r} is a regressor, and y has labels. Use a classifier such as SVC, or pass targets (floats)."
        )


def check_names(names: list[str]) -> None:
    """Raise if two methods have one name: their results would be mixed."""
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"Two methods are called {name!r}, and one may be a baseline. Rename the model.")
