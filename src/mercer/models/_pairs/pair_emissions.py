"""User-defined joint emissions on pairs of symbols: which of them define a kernel, and why others do not (MK-5)."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats, to_numpy
from mercer.data import Alphabet

TOLERANCE = 1e-7
"""Tolerance for equality of entries of a table of probabilities."""


def split_pair_emissions(pair: Any, alphabet: Alphabet) -> tuple[Floats, Floats]:
    """Split tables ``(..., n, k + 1, k + 1)`` into the probability of nothing ``(..., n)`` and letters ``(..., n, k)``.

    Raises if a table is not the outer product of one distribution with itself.
    """
    tables = np.asarray(to_numpy(pair), dtype=np.float64)
    k = len(alphabet)
    if tables.ndim < 3 or tables.shape[-2:] != (k + 1, k + 1):
        raise ValueError(
            f"pair must have shape (N, n, {k + 1}, {k + 1}) for {k} symbols, with no symbol as the last index of both "
            f"axes; got {tables.shape}."
        )
    if not (tables >= 0).all():
        raise ValueError("pair must be nonnegative probabilities.")
    names = [*map(str, alphabet.symbols), "nothing"]
    for where in np.ndindex(*tables.shape[:-2]):
        place = f"state {where[-1]}" + (f" of model {where[0]}" if len(where) > 1 and tables.shape[0] > 1 else "")
        _check_table(tables[where], place, names)
    marginal = (tables.sum(axis=-1) + tables.sum(axis=-2)) / 2
    marginal /= marginal.sum(axis=-1, keepdims=True)
    heard = marginal[..., :k].sum(axis=-1, keepdims=True)
    letters = np.where(heard > 0, marginal[..., :k] / np.where(heard > 0, heard, 1.0), 1.0 / k)
    return marginal[..., k], letters


def _check_table(table: Floats, place: str, names: list[str]) -> None:
    """Raise if the table of a state is not the outer product of a distribution with itself."""
    total = table.sum()
    if abs(total - 1) > 1e-6:
        raise ValueError(
            f"The pair emissions of {place} must sum to one; got {total:.8g}. Divide counts by their sum first."
        )
    lowest = float(np.linalg.eigvalsh((table + table.T) / 2)[0])
    odd = np.argwhere(np.abs(table - table.T) > TOLERANCE)
    advice = (
        "Emit both strings independently given the state (PairHMMs(..., silent=...)), or use "
        "AffinePairHMM(...), which is positive semi-definite with gaps."
    )
    if len(odd):
        i, j = odd[0]
        more = f", and their symmetric part has the eigenvalue {lowest:.3g}" if lowest < -TOLERANCE else ""
        raise ValueError(
            f"The pair emissions of {place} are not symmetric: ({names[i]}, {names[j]}) has {table[i, j]:.3g} and "
            f"({names[j]}, {names[i]}) has {table[j, i]:.3g}{more}, so the kernel need not be positive semi-definite. "
            f"{advice}"
        )
    if lowest < -TOLERANCE:
        raise ValueError(
            f"The pair emissions of {place} are not positive semi-definite: as a matrix they have the eigenvalue "
            f"{lowest:.3g}, like every state that gives a symbol to one string only when the other gets none. {advice}"
        )
    marginal = table.sum(axis=1)
    if np.abs(table - np.outer(marginal, marginal)).max() > TOLERANCE:
        raise ValueError(
            f"The pair emissions of {place} are positive semi-definite, but not the product of one distribution with "
            "itself. Use one state per hidden letter, in which the two strings are independent."
        )
