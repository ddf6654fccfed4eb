"""Hand-made joint emissions on pairs of symbols: which of them make a kernel, and why the others do not (MK-5)."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats, to_numpy
from mercer.data import Alphabet

TOLERANCE = 1e-7
"""Entries of a table of probabilities that differ by less are equal."""


def split_pair_emissions(pair: Any, alphabet: Alphabet) -> tuple[Floats, Floats]:
    """Split tables ``(..., n, k + 1, k + 1)`` into the probability of nothing ``(..., n)`` and letters ``(..., n, k)``.

    Raises if a table is not the outer product of one distribution with itself.
    """
    tables = np.asarray(to_numpy(pair), dtype=np.float64)
    k = len(alphabet)
    if tables.ndim < 3 or tables.shape[-2:] != (k + 1, k + 1):
        raise ValueError(
            f"pair has shape {tables.shape}: for {k} symbols give (N, n, {k + 1}, {k + 1}), the last index of both "
            "axes being nothing"
        )
    if not (tables >= 0).all():
        raise ValueError("pair holds a number that is no probability: give nonnegative ones")
    names = [*map(str, alphabet.symbols), "nothing"]
    for where in np.ndindex(*tables.shape[:-2]):
        place = f"state {where[-1]}" + (f" of model {where[0]}" if len(where) > 1 and tables.shape[0] > 1 else "")
        _check_table(tables[where], place, names)
    law = (tables.sum(axis=-1) + tables.sum(axis=-2)) / 2
    law /= law.sum(axis=-1, keepdims=True)
    heard = law[..., :k].sum(axis=-1, keepdims=True)
    letters = np.where(heard > 0, law[..., :k] / np.where(heard > 0, heard, 1.0), 1.0 / k)
    return law[..., k], letters


def _check_table(table: Floats, place: str, names: list[str]) -> None:
    """Raise if the table of a state is not the outer product of a distribution with itself."""
    total = table.sum()
    if abs(total - 1) > 1e-6:
        raise ValueError(
            f"the pair emissions of {place} sum to {total:.8g}, not to one: divide counts by their sum first"
        )
    lowest = float(np.linalg.eigvalsh((table + table.T) / 2)[0])
    odd = np.argwhere(np.abs(table - table.T) > TOLERANCE)
    advice = (
        "let both strings be written independently given the state (PairHMMs(..., silent=...)), or use "
        "AffinePairHMM(...), whose gaps stay positive semi-definite"
    )
    if len(odd):
        i, j = odd[0]
        more = f", and their symmetric part has the eigenvalue {lowest:.3g}" if lowest < -TOLERANCE else ""
        raise ValueError(
            f"the pair emissions of {place} are not symmetric: ({names[i]}, {names[j]}) has {table[i, j]:.3g} and "
            f"({names[j]}, {names[i]}) has {table[j, i]:.3g}{more}, so that the kernel need not be positive "
            f"semi-definite: {advice}"
        )
    if lowest < -TOLERANCE:
        raise ValueError(
            f"the pair emissions of {place} are not positive semi-definite: as a matrix they have the eigenvalue "
            f"{lowest:.3g}, as every state has that gives a symbol to one string only when the other gets none: "
            f"{advice}"
        )
    law = table.sum(axis=1)
    if np.abs(table - np.outer(law, law)).max() > TOLERANCE:
        raise ValueError(
            f"the pair emissions of {place} are positive semi-definite, but not the product of one law with itself: "
            "give one state for each hidden letter, in which the two strings are independent"
        )
