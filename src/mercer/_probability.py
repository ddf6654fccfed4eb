"""Rows of probabilities: checks, normalization, sampling."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Array, Floats, as_float, to_numpy


def checked_probability(values: Any, what: str) -> Array:
    """Return ``values`` as an array; raise if a row is not nonnegative or does not sum to one within rounding."""
    p = as_float(values, what)
    if len(p.shape) == 0 or p.shape[-1] == 0:
        raise ValueError(f"{what} must have k >= 1 probabilities on its last axis; got shape {tuple(p.shape)}.")
    rows = to_numpy(p)
    bad = np.argwhere(~(rows >= 0).all(axis=-1))
    if len(bad):
        where = tuple(map(int, bad[0]))
        value = rows[where][~(rows[where] >= 0)][0]
        raise ValueError(f"{what}{_at(where)} contains {value}; probabilities must be nonnegative numbers.")
    check_sums(rows.sum(axis=-1), rows.dtype, what)
    return p


def check_sums(total: Floats, dtype: Any, what: str) -> None:
    """Raise if the sum of a row of probabilities is not one within rounding; for dense and sparse rows alike."""
    bad = np.argwhere(~(np.abs(total - 1) <= (1e-4 if dtype == np.float32 else 1e-6)))
    if len(bad):
        where = tuple(map(int, bad[0]))
        digits = 6 if dtype == np.float32 else 8  # enough to show the excess: never "sums to 1, not to one"
        raise ValueError(
            f"{what}{_at(where)} sums to {float(total[where]):.{digits}g}, not to one. Divide counts by their sum."
        )


def _at(where: tuple[int, ...]) -> str:
    """Return the position of a row for a message; an empty string if there is only one row."""
    return f" at index {where}" if where else ""


def normalized(counts: Floats, fallback: Any) -> Floats:
    """Divide each row by its sum; a row of zeros becomes ``fallback``."""
    total = np.einsum("...k->...", counts)[..., None]  # several times as fast as np.sum over a short last axis
    visited = total > 0
    if visited.all():
        return np.asarray(counts / total)
    return np.where(visited, counts / np.where(visited, total, 1.0), fallback)


def ratio(numbers: Floats, weights: Floats) -> Floats:
    """Compute ``numbers / weights``, with 0 where the weight is 0."""
    shape = np.broadcast_shapes(np.shape(numbers), np.shape(weights))
    return np.divide(numbers, weights, out=np.zeros(shape), where=np.asarray(weights) > 0)


def shared_out(counts: Floats, coded: Floats, probability: Floats, sets: Floats) -> Floats:
    """Distribute counts of ambiguity codes ``(..., C)`` over the outcomes that they stand for, ``(..., k)``.

    ``coded`` are the probabilities of the codes, ``(..., C)``; ``sets (C, k)`` indicates the outcomes of each code.
    """
    return probability * (ratio(counts, coded) @ sets)


def drawn(upper: Floats, uniform: Floats) -> Floats:
    """Sample outcomes from cumulative probabilities ``upper (..., k)`` by uniform numbers ``uniform (...)``."""
    draws = uniform[..., None] * upper[..., -1:]
    return np.sum(draws >= upper, axis=-1).clip(0, upper.shape[-1] - 1)
