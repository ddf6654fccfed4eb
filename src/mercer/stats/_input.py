"""Gram matrices, units and sentences that all tests share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from mercer._array import Floats, as_array, to_numpy
from mercer._batch import Batch
from mercer._checks import is_choice, is_whole
from mercer.kernels.base import Kernel, concatenated, unwrapped

Indices = NDArray[np.int64]


def check_kernel(kernel: Any, name: str = "kernel", *words: str) -> None:
    """Raise unless ``kernel`` is a kernel or one of the ``words``."""
    if not isinstance(kernel, Kernel) and not is_choice(kernel, words):
        or_words = "".join(f" or {word!r}" for word in words)
        raise TypeError(f"{name} must be a kernel, such as mc.RBF(){or_words}; got {kernel!r}.")


def check_count(value: Any, name: str, least: int) -> int:
    """Return a number of permutations or simulations; raise if it is not a whole number."""
    if not is_whole(value, least):
        raise ValueError(f"{name} must be a whole number, {least} or more; got {value!r}. Use 999, for example.")
    return int(value)


def check_level(level: Any) -> float:
    """Return the level of an interval; raise unless it is between 0 and 1."""
    if not isinstance(level, float | np.floating) or not 0 < level < 1:
        raise ValueError(f"level must be a number between 0 and 1; got {level!r}. Use 0.95, for example.")
    return float(level)


def pooled(X: Any, Y: Any) -> tuple[Any, int, int]:
    """Concatenate two samples; return them and the number of objects of each."""
    X, Y = unwrapped(X), unwrapped(Y)
    sizes = [count_of(side, name) for side, name in ((X, "X"), (Y, "Y"))]
    if isinstance(X, Batch) or isinstance(Y, Batch):
        if type(X) is not type(Y):
            raise TypeError(
                f"X and Y must both be data or both be models of one kind; got {type(X).__name__} and "
                f"{type(Y).__name__}."
            )
        return type(X).concat([X, Y]), *sizes
    return concatenated((X, Y)), *sizes


def count_of(side: Any, name: str) -> int:
    """Return the number of objects of a sample; raise if there are not two."""
    shape = getattr(side, "shape", None)
    if shape == () or (shape is None and (isinstance(side, str | bytes) or not hasattr(side, "__len__"))):
        raise TypeError(f"{name} must be a list of samples; got {side!r}.")
    n = len(side) if shape is None else int(shape[0])
    if n < 2:
        raise ValueError(f"{name} must have at least 2 objects; got {n}. One object has no distribution to compare.")
    return n


def gram_matrix(kernel: Any, X: Any) -> Floats:
    """Return the Gram matrix of ``X``: a fitted kernel is used as it is, another is fitted to ``X``."""
    K = kernel(X) if hasattr(kernel, "train_") else clone(kernel).fit_transform(X)
    K = np.asarray(to_numpy(K), dtype=float)
    if not np.isfinite(K).all():
        i, j = np.argwhere(~np.isfinite(K))[0]
        raise ValueError(
            f"The kernel of objects {i} and {j} is {K[i, j]}. Normalize the kernel (normalize=True), or leave them out."
        )
    return K


def unit_numbers(groups: Any, n: int) -> Indices:
    """Return the number of the group of every object; without groups every object is a unit of its own."""
    if groups is None:
        return np.arange(n)
    values = as_array(groups, "groups", "one group per object")
    if values.shape != (n,):
        raise ValueError(f"groups must have one entry for each of {n} objects; got shape {values.shape}.")
    missing = np.array([value is None or value != value for value in values.tolist()], dtype=bool)
    if missing.any():
        raise ValueError(f"groups has no entry for object {int(missing.argmax())}. Leave it out, or give it a group.")
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(value, len(numbers)) for value in values.tolist()], dtype=np.int64)


def p_of(observed: float, null: Floats, *, exact: bool) -> float:
    """Return the share of permutations with a statistic at least as large; equal up to rounding counts as equal.

    The observed order is one of all permutations, so it is counted: among all of them it is contained in ``null``,
    otherwise it is added.
    """
    noise = 1e-12 * max(abs(observed), float(np.abs(null).max(initial=0.0)))
    count = int(np.sum(null >= observed - noise))
    return count / len(null) if exact else (count + 1) / (len(null) + 1)


def p_text(p: float) -> str:
    """Return a p-value for a sentence."""
    return f"p = {p:.3f}" if p >= 0.001 else f"p = {p:.1e}"
