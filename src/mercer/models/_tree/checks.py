"""Checks of the parameters and input of hidden trees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mercer._array import Array, Floats, to_numpy


def as_numbers(values: Any, what: str, cure: str) -> Floats:
    """Return a parameter as an array of float64; raise if it is not numeric."""
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{what} must be {cure}; got {values!r}.") from None


def check_shapes(root: Array, transition: Array, leaf: Array, parent: Floats, leaf_parent: Floats) -> None:
    """Raise if the shapes of the arrays of a batch of trees do not fit together."""
    lead, s = tuple(root.shape[:-1]), int(root.shape[-1])
    for name, array in (("parent", parent), ("leaf_parent", leaf_parent)):
        if array.dtype.kind not in "iu":
            raise TypeError(f"{name} must be integers, the numbers of internal nodes; got dtype {array.dtype}.")
        if array.ndim != len(lead) + 1 or array.shape[:-1] != lead or array.shape[-1] == 0:
            raise ValueError(
                f"{name} must have shape {(*lead, 'n')} for root of shape {(*lead, s)}; got {array.shape}."
            )
    wanted = (*lead, parent.shape[-1], s, s)
    if tuple(transition.shape) != wanted:
        raise ValueError(
            f"transition must have one matrix per node, shape {wanted}; got shape {tuple(transition.shape)}."
        )
    wanted = (*lead, leaf_parent.shape[-1], s)
    if tuple(leaf.shape[:-1]) != wanted:
        raise ValueError(f"leaf must have shape {(*wanted, 'A')} for A symbols; got {tuple(leaf.shape)}.")


def check_nodes(parent: Floats, leaf_parent: Floats) -> None:
    """Raise if a parent does not come before its children, or padding is not at the end."""
    rows, ends = parent.reshape(-1, parent.shape[-1]), leaf_parent.reshape(-1, leaf_parent.shape[-1])
    for i, (above, leaf_above) in enumerate(zip(rows, ends, strict=True)):
        real = int(np.sum(above != -2))
        place = np.arange(real)
        wrong = np.flatnonzero((above[:real] >= np.maximum(place, 0)) | (above[:real] < np.where(place == 0, -1, 0)))
        if real == 0 or len(wrong):
            v = int(wrong[0]) if len(wrong) else 0
            raise ValueError(
                f"parent of node {v} of tree {i} is {above[v]}. It must be -1 for the root, which comes first, or the "
                "number of an earlier node; -2 is padding at the end."
            )
        wrong = np.flatnonzero((leaf_above < 0) | (leaf_above >= real))
        if len(wrong):
            leaf = int(wrong[0])
            raise ValueError(
                f"leaf_parent of leaf {leaf} of tree {i} is {leaf_above[leaf]}. It must be the number of an internal "
                f"node, 0 to {real - 1}."
            )


def check_pruning(pruning: Array, lead: tuple[int, ...]) -> None:
    """Raise if ``pruning`` is not one probability per tree."""
    if tuple(pruning.shape) != lead:
        raise ValueError(f"pruning must be one number per tree, shape {lead}; got shape {tuple(pruning.shape)}.")
    values = to_numpy(pruning)
    if not np.all((values >= 0) & (values <= 1)):
        value = values[~((values >= 0) & (values <= 1))].ravel()[0]
        raise ValueError(f"pruning must be a probability, from 0 to 1; got {value}.")


def check_leaves(leaves: Sequence[str] | None, n: int) -> tuple[str, ...]:
    """Return the names of the n leaves; raise if they are not distinct strings."""
    if leaves is None:
        return tuple(str(i) for i in range(n))
    names = tuple(leaves)
    if len(names) != n or len(set(names)) != n or not all(isinstance(name, str) and name for name in names):
        raise ValueError(f"leaves must be {n} distinct names, one per leaf; got {list(names)!r}.")
    return names


def check_codes(x: Floats, leaves: Sequence[str], n_codes: int, n_symbols: int) -> None:
    """Raise if an entry of ``x (T, L)`` is neither a code below ``n_codes`` nor NaN."""
    with np.errstate(invalid="ignore"):
        bad = np.argwhere(~(np.isnan(x) | ((x >= 0) & (x < n_codes) & (x == np.floor(x)))))
    if len(bad):
        row, column = (int(i) for i in bad[0])
        raise ValueError(
            f"row {row} has {x[row, column]:g} at leaf {leaves[column]!r}. Pass whole numbers from 0 to "
            f"{n_symbols - 1} for the {n_symbols} symbols, and NaN for missing values."
        )
