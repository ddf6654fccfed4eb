"""Fitted kernels restricted to some training objects, and the identity of a matrix."""

from __future__ import annotations

import platform
from functools import cache, singledispatch
from typing import Any

import joblib
import numpy as np
from array_api_compat import is_array_api_obj
from sklearn.base import clone

from mercer._array import Indices, to_numpy
from mercer._cache import parameter_key
from mercer._native.library import build
from mercer._notices import collected
from mercer.data.segments import data_digests
from mercer.kernels._data import has_digests, length_of, n_objects, take, unwrapped
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


def identity(kernel: Any, X: Any, Y: Any = None) -> dict[str, Any]:
    """Return everything that the matrix of ``X`` and ``Y`` depends on; nothing is fitted.

    The digests are those of the checked input, not of the models fitted to it, which depend on the processor in the
    last digits.

    Returns
    -------
    dict
        ``kernel``, its text; ``parameters``, ``fitted`` and ``data``, digests of its parameters, of what it learned
        before the call (empty if nothing) and of the input; ``objects``, the number on each side; ``processor``, on
        which values depend to rounding.
    """
    kernel._check_parameters()
    sides = [unwrapped(side) for side in (X, Y) if side is not None]
    fitted = hasattr(kernel, "train_")
    if fitted:
        accepted = [kernel._admit(side, reset=False) for side in sides]
    else:
        accepted = [clone(kernel)._admit(side, reset=True) for side in sides]
    known, objects = parameter_key(kernel), [n_objects(side) for side in sides]
    return {
        "kernel": " ".join(str(kernel).split()),
        "parameters": "" if known is None else str(joblib.hash(known)),
        "fitted": str(joblib.hash((kernel._learned(), _digest(kernel.train_)))) if fitted else "",
        "data": str(joblib.hash([objects, *map(_digest, accepted)])),
        "objects": objects,
        "processor": processor(),
    }


def _digest(source: Any) -> Any:
    if has_digests(source):
        return np.frombuffer(b"".join(data_digests(source)), dtype=np.uint8)
    return to_numpy(source) if is_array_api_obj(source) else source


@cache
def processor() -> str:
    """Return the kind of this processor, and the level of the instruction set that the native library uses."""
    return f"{platform.machine()} {build().level}"
