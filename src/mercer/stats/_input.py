"""Gram matrices, units and sentences that all tests share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from mercer._array import Floats, to_numpy
from mercer._batch import Batch
from mercer._checks import is_choice, is_listing, is_whole
from mercer._notices import notify
from mercer.data import Sequences
from mercer.data.segments import looks_like_matrix
from mercer.families.estimator import Estimator
from mercer.gram import DiagonalDominanceWarning
from mercer.kernels import RBF, Laplace
from mercer.kernels.base import Kernel, concatenated, unwrapped

Indices = NDArray[np.int64]
SIMILAR, DOMINATED = 0.95, 1e-3
"""A test is blind if this share of pairs has a normalized kernel below the second number."""


def check_kernel(kernel: Any, name: str = "kernel", *words: str) -> None:
    """Raise unless ``kernel`` is a kernel or one of the ``words``."""
    if not isinstance(kernel, Kernel) and not is_choice(kernel, words):
        or_words = "".join(f" or {word!r}" for word in words)
        shown = repr(kernel) if isinstance(kernel, str | type(None)) else f"a {type(kernel).__name__}"
        raise TypeError(f"{name} must be a kernel, such as mc.RBF(){or_words}; got {shown}.")


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
    X, Y = columns(X), columns(Y)
    sizes = [count_of(side, name) for side, name in ((X, "X"), (Y, "Y"))]
    if isinstance(X, Batch) or isinstance(Y, Batch):
        if type(X) is not type(Y):
            raise TypeError(
                f"X and Y must both be data or both be models of one kind; got {type(X).__name__} and "
                f"{type(Y).__name__}."
            )
        return type(X).concat([X, Y]), *sizes
    names = [list(getattr(side, "columns", [])) for side in (X, Y)]
    if all(names) and names[0] != names[1]:
        if set(names[0]) != set(names[1]):
            raise ValueError(f"X and Y must have the same columns; got {names[0]} and {names[1]}.")
        Y = Y[names[0]]
    widths = [side.shape[1] for side in (X, Y) if len(getattr(side, "shape", ())) == 2]
    if len(set(widths)) > 1:
        raise ValueError(f"X and Y must have the same number of columns; got {widths[0]} and {widths[1]}.")
    return concatenated((X, Y)), *sizes


def columns(X: Any) -> Any:
    """Return data that can be read twice; numbers, one per object, as a matrix of one column."""
    X = unwrapped(X)
    if isinstance(X, list | tuple):
        numbers = len(X) > 0 and all(isinstance(x, int | float | np.number) and not isinstance(x, bool) for x in X)
    else:
        is_array = isinstance(X, np.ndarray) or hasattr(X, "iloc")
        numbers = is_array and X.ndim == 1 and np.asarray(X).dtype.kind in "biuf"
    return np.asarray(X, dtype=float)[:, None] if numbers else X


def check_vectors(X: Any, name: str = "kernel") -> None:
    """Raise, naming a kernel, unless the data are vectors, which have a kernel by default."""
    if isinstance(X, Batch):
        what, such = f"models ({type(X).__name__})", "mc.ProbabilityProduct()"
    elif looks_like_matrix(X):
        return
    else:
        try:
            symbols = Sequences(X).alphabet is not None
        except (TypeError, ValueError):
            symbols = False
        what, such = ("strings", "mc.Spectrum(3)") if symbols else ("series", "mc.Fisher(mc.HMM(n_states=4))")
    raise TypeError(f"Vectors have a kernel by default; got {what}. Pass {name}, such as {such}.")


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
    return fitted_gram(kernel, X)[1]


def fitted_gram(kernel: Any, X: Any) -> tuple[Any, Floats]:
    """Return the fitted kernel, and the Gram matrix of ``X``."""
    made = kernel if hasattr(kernel, "train_") else with_median_widths(kernel)
    K = made(X) if made is kernel else made.fit_transform(X)
    return made, checked_gram(K)


def with_median_widths(kernel: Any) -> Any:
    """Return a copy in which kernels without a width take it from the data: 1 / n_features suits few units."""
    made = clone(kernel)
    for part in (made, *made.get_params().values()):
        if isinstance(part, RBF | Laplace) and part.gamma is None:
            part.gamma = "median"
    return made


def checked_gram(K: Any) -> Floats:
    """Return a Gram matrix; raise if a value is not finite, and warn if the matrix is nearly diagonal."""
    K = np.asarray(to_numpy(K), dtype=float)
    if not np.isfinite(K).all():
        i, j = np.argwhere(~np.isfinite(K))[0]
        raise ValueError(
            f"The kernel of objects {i} and {j} is {K[i, j]}. Normalize the kernel (normalize=True), or leave them out."
        )
    root = np.sqrt(np.maximum(np.diag(K), np.finfo(float).tiny))
    off = np.abs(K / root / root[:, None])[~np.eye(len(K), dtype=bool)]
    if len(K) > 2 and np.quantile(off, SIMILAR) < DOMINATED:
        notify(
            f"The Gram matrix is nearly diagonal: {SIMILAR:.0%} of the pairs of different objects have a normalized "
            f"kernel below {DOMINATED}, so that a test finds hardly any difference. Use a wider kernel, such as "
            "mc.RBF(gamma='median') for vectors or mc.EmpiricalMeanMap(gamma='median') for sets, or scale the data.",
            DiagonalDominanceWarning,
        )
    return K


def numbered(values: Any, n: int, name: str) -> Indices:
    """Return a number for every value, equal for equal values, in the order of their first occurrence.

    Values are compared one by one: an array of them would turn numbers and missing values into text.
    """
    found = values.tolist() if hasattr(values, "tolist") else list(values) if is_listing(values) else values
    if not isinstance(found, list) or len(found) != n or any(isinstance(value, list) for value in found):
        what = f"{len(found)} entries" if isinstance(found, list) else repr(values)
        raise ValueError(f"{name} must have one entry for each of {n} objects; got {what}.")
    numbers: dict[Any, int] = {}
    out = np.empty(n, dtype=np.int64)
    for i, value in enumerate(found):
        if value is None or value != value or type(value).__name__ in ("NAType", "NaTType"):
            raise ValueError(f"{name} has no entry for object {i}. Leave the object out, or give it one.")
        out[i] = numbers.setdefault((isinstance(value, str), value), len(numbers))
    return out


def unit_numbers(groups: Any, n: int) -> Indices:
    """Return the number of the group of every object; without groups every object is a unit of its own."""
    return np.arange(n) if groups is None else numbered(groups, n, "groups")


def means_of_units(K: Floats, units: Indices) -> Floats:
    """Return the kernel of the mean embeddings of groups; that of objects if every one is a unit of its own."""
    counts = np.bincount(units)
    if len(counts) == len(K):
        return K
    share = (units == np.arange(len(counts))[:, None]) / counts[:, None]
    return np.asarray(share @ K @ share.T)


def p_of(observed: float, null: Floats, scale: float, *, exact: bool) -> float:
    """Return the share of permutations with a statistic at least as large; equal up to rounding counts as equal.

    The observed order is one of all permutations, so it is counted: among all of them it is contained in ``null``,
    otherwise it is added. ``scale`` is the size of the numbers that the statistics are sums of.
    """
    if not np.isfinite(observed) or not np.isfinite(null).all():
        raise ValueError("The statistic is not a number, because there are too few objects. Collect more of them.")
    count = int(np.sum(null >= observed - 1e-12 * scale))
    return count / len(null) if exact else (count + 1) / (len(null) + 1)


def critical_share(observed: float, null: Floats, p: float, level: float, *, exact: bool) -> float:
    """Return the critical value of a test by the observed statistic; below 1 exactly if p is at most ``1 - level``."""
    if p > 1 - level + 1e-12:
        return 1.0
    allowed = int((1 - level) * (len(null) + (not exact)) + 1e-9) - (not exact)
    critical = float(np.sort(null)[::-1][min(allowed, len(null) - 1)])
    return float(np.clip(critical / observed, 0.0, 1 - 1e-12)) if observed > 0 else 0.0


def p_text(p: float) -> str:
    """Return a p-value for a sentence."""
    return f"p = {p:.3f}" if p >= 0.001 else f"p = {p:.1e}"


def one_model(model: Any, name: str = "model") -> Any:
    """Return the batch of a fitted estimator, or a batch, with at least one axis."""
    batch = getattr(model, "model_", None) if isinstance(model, Estimator) else model
    if isinstance(model, Estimator) and batch is None:
        raise ValueError(f"This {type(model).__name__} is not fitted. Call fit with training data first.")
    if not isinstance(batch, Batch):
        raise TypeError(f"{name} must be a fitted estimator or a batch of models; got {model!r}.")
    return batch.reshape(1) if batch.ndim == 0 else batch
