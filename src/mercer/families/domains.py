"""The values that a coordinate can take: checks of points and of data, one for each domain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer._array import Array, Floats, namespace, to_numpy
from mercer.data import Sequences
from mercer.data.segments import point_name

LARGEST = 1e300
"""Estimators refuse data beyond this: sums of a hundred million numbers below it stay finite."""


def check_summable(x: Floats, who: str, X: Any, largest: float = LARGEST) -> None:
    """Raise if a number of the data ``X`` is so large that sums could overflow."""
    if not np.any(x > largest):
        return
    row, column = (int(i) for i in np.argwhere(x > largest)[0])
    raise ValueError(
        f"The data of {who} must be at most {largest:g}, so that their sums are finite; got {x[row, column]:.6g} at "
        f"{point_name(X, row)}, column {column}. Divide the data by a constant."
    )


def check_nonnegative(x: Array, who: str, X: Any = None) -> None:
    """Raise if a number is negative or infinite."""
    _check_finite(x, who, "", "Values must be finite numbers, 0 or more.", lambda row: point_name(X, row))


def check_counts(x: Array, who: str, X: Any = None, first: int = 0) -> None:
    """Raise if a count is negative or infinite; ``first`` is the index of the first row of ``x``."""

    def name(row: int) -> str:
        return point_name(X, row) if isinstance(X, Sequences) else f"document {row + first}"

    _check_finite(x, who, "the count ", "Counts must be nonnegative and finite.", name)


def _check_finite(x: Array, who: str, what: str, cure: str, name: Callable[[int], str]) -> None:
    """Raise if a number is negative or infinite."""
    if not bool(namespace(x).any((x < 0) | (x == float("inf")))):
        return
    values = to_numpy(x)
    *_, row, column = where = tuple(int(i) for i in np.argwhere((values < 0) | (values == np.inf))[0])
    # scikit-learn's own sentence comes first: its checks look for it.
    problem = "Negative" if values[where] < 0 else "Infinite"
    raise ValueError(
        f"{problem} values in data passed to {who}: {name(row)} has {what}{values[where]} in column {column}. {cure}"
    )


def check_binary(x: Array, who: str, X: Any = None) -> None:
    """Raise if a number is neither 0 nor 1 nor missing."""
    xp = namespace(x)
    bad = ~xp.isnan(x) & (x != 0) & (x != 1)
    if not bool(xp.any(bad)):
        return
    *_, row, column = where = tuple(int(i) for i in np.argwhere(to_numpy(bad))[0])
    raise ValueError(
        f"The data of {who} must be 0 or 1, or NaN where missing; got {to_numpy(x)[where]} at {point_name(X, row)}, "
        f"column {column}. Use threshold=0, for example."
    )


def _any_number(x: Array, who: str, X: Any = None) -> None:
    pass


DOMAINS: dict[str, Callable[..., None]] = {
    "real": _any_number,
    "nonnegative": check_nonnegative,
    "counts": check_counts,
    "binary": check_binary,
}
"""``check(x, who, X=None)`` raises if a point is outside of a domain; ``X`` are the data that the points come from."""
