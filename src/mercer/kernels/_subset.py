"""Fitted kernels with some of their training objects, for landmarks, compact pipelines and estimates of time."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np
from sklearn.base import clone

from mercer._array import Indices
from mercer._notices import collected
from mercer.kernels._data import length_of, n_objects, take, unwrapped
from mercer.kernels.base.compound import Compound, Views


@singledispatch
def subset(kernel: Any, index: Indices) -> Any:
    """Return a copy of a fitted kernel that compares new objects with some of the training objects only.

    Kernels that keep more than ``train_`` of every training object register a function of their own.

    Parameters
    ----------
    kernel : Kernel
        A fitted kernel.
    index : array of shape (m,)
        The training objects that stay, in increasing order.
    """
    made = kernel._copy()
    everything = np.arange(n_objects(kernel.train_))
    if not np.array_equal(index, everything):
        made._taken = (everything if kernel._taken is None else kernel._taken)[index]
    made._set_training(take(kernel.train_, index))
    return made


@subset.register
def of_compound(kernel: Compound, index: Indices) -> Any:
    """Return the same of all parts."""
    parts = tuple(subset(part, index) for part in kernel.kernels_)
    return with_parts(kernel, parts, index, Views(tuple(part.train_ for part in parts)))


def with_parts(kernel: Any, parts: tuple[Any, ...], index: Indices, source: Views) -> Any:
    """Return a copy of a compound with other fitted parts, and the objects ``index`` of the training data."""
    made = subset.dispatch(object)(kernel, index)
    beyond = kernel.train_.parts[len(parts) :]  # such as confounds
    made._set_training(Views((*source.parts, *(take(part, index) for part in beyond))))
    made.kernels_ = parts
    made.set_params(**{name: clone(getattr(kernel, name)) for name in kernel._names()})  # one may be fitted to data
    return made


FEW = 50
"""Number of objects from whose kernel values a kernel learns that is only timed."""


def to_be_timed(kernel: Any, X: Any, Y: Any = None) -> tuple[Any, Any, Any]:
    """Return what ``kernel.sources`` does, for a kernel that must be fitted too, for `mercer.gram.estimate`."""
    if Y is not None or hasattr(kernel, "train_") or not kernel._needs_fit:
        found: tuple[Any, Any, Any] = kernel.sources(X, Y)
        return found
    made, X = clone(kernel), unwrapped(X)
    required, n = kernel.__sklearn_tags__().target_tags.required, length_of(X)
    made._fit_objects(X, np.arange(n) % 2 if required else None)
    index = np.unique(np.linspace(0, n - 1, FEW).round().astype(int))
    few = subset(made, index)
    with collected():  # what so few objects tell is not for the user
        few._learn_from_values(np.arange(len(index)) % 2 if required else None)
    return few, few._match(made.train_, few.train_), None
