"""Sets that parameters and observations lie in: a declaration names a set, and checks and error sentences follow.

Of single numbers: `reals`, `positive`, `nonnegative`, `counts`, `closed_unit`, `probability`, `unit`, `binary`; of
vectors and matrices: `simplex`, `open_simplex`, `sphere`, `definite`, `flat_definite`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer._array import Array, Floats, as_float, namespace, to_numpy
from mercer._checks import checked_parameter
from mercer._probability import checked_probability
from mercer.data import Sequences
from mercer.data.segments import point_name

ANY = "Values must be finite numbers, 0 or more."
LARGEST = 1e300
"""Estimators refuse data beyond this: sums of a hundred million numbers below it stay finite."""


@dataclass(frozen=True)
class Set:
    """A set of numbers.

    Parameters
    ----------
    must : str
        Completes "rate must ...", the sentence about a parameter.
    has : callable
        Which entries of an array lie in the set; false for NaN.
    center : float, default=0.0
        A number well inside: what the standard member has, and what stands for a missing value while it is masked.
    data : str, default=""
        Completes "The data of Gamma must be ...".
    cure : str, default=""
        What to do about data outside.
    count : bool, default=False
        Whether a message calls the numbers counts, and their rows documents.
    name : str, default="real"
        Short name of the set.
    """

    must: str
    has: Callable[[Array], Array]
    center: float = 0.0
    data: str = ""
    cure: str = ""
    count: bool = False
    name: str = "real"

    @property
    def positive_only(self) -> bool:
        """Whether no negative number lies in the set."""
        return not bool(self.has(np.asarray(-0.5)))

    def parameter(self, value: Any, name: str, axes: int) -> Array:
        """Return a parameter as an array; raise, with its name and place, if an entry lies outside."""
        if axes:
            return checked_parameter(value, name, self.has, self.must)
        return checked_parameter(as_float(value, name)[..., None], name, self.has, self.must)[..., 0]

    def contains(self, parameter: Array, axes: int) -> Array:
        """Whether every distribution's parameter lies in the set, ``(..., *event) -> (...)``."""
        inside = self.has(parameter)
        return namespace(inside).all(inside, axis=tuple(range(-axes, 0))) if axes else inside

    def filled(self, shape: tuple[int, ...], axes: int) -> Floats:
        """Return the parameter of the standard member."""
        return np.full(shape, self.center)

    def check(self, x: Array, who: str, X: Any = None, first: int = 0) -> None:
        """Raise if an observed entry of the points ``x (..., T, d)``, of the data ``X``, lies outside."""
        xp = namespace(x)
        bad = ~(self.has(x) | xp.isnan(x))
        if not bool(xp.any(bad)):
            return
        values = to_numpy(x)
        *_, row, column = where = tuple(int(i) for i in np.argwhere(to_numpy(bad))[0])
        value = values[where]
        name = f"document {row + first}" if self.count and not isinstance(X, Sequences) else point_name(X, row)
        if self.positive_only and (value < 0 or value == np.inf) and self.has(np.asarray(1.5)):
            # scikit-learn's own sentence comes first: its checks look for it.
            kind = "Negative" if value < 0 else "Infinite"
            what, rule = ("the count ", "Counts must be nonnegative and finite.") if self.count else ("", ANY)
            raise ValueError(
                f"{kind} values in data passed to {who}: {name} has {what}{value} in column {column}. {rule}"
            )
        raise ValueError(
            f"The data of {who} must be {self.data}; got {value or 0} at {name}, column {column}. {self.cure}".rstrip()
        )


class Simplex(Set):
    """Rows of probabilities."""

    def parameter(self, value: Any, name: str, axes: int) -> Array:
        return checked_probability(value, name)

    def filled(self, shape: tuple[int, ...], axes: int) -> Floats:
        return np.full(shape, 1.0 / shape[-1])


class Rows(Set):
    """Vectors or matrices, each tested as a whole by ``row(x)``."""

    def __init__(self, name: str, must: str, data: str, row: Callable[[Floats], Floats], cure: str = "") -> None:
        super().__init__(must, _finite, 0.0, data, cure, name=name)
        object.__setattr__(self, "row", row)

    row: Callable[[Floats], Floats]

    def contains(self, parameter: Array, axes: int) -> Array:
        return self.row(to_numpy(parameter))

    def parameter(self, value: Any, name: str, axes: int) -> Array:
        array = as_float(value, name)
        if len(array.shape) < axes or 0 in array.shape[len(array.shape) - axes :]:
            raise ValueError(
                f"{name} must have {axes} axes of one distribution or more; got shape {tuple(array.shape)}."
            )
        bad = np.argwhere(~self.row(to_numpy(array)))
        if len(bad):
            raise ValueError(f"{name} at index {tuple(map(int, bad[0]))} must {self.must}.")
        return array

    def filled(self, shape: tuple[int, ...], axes: int) -> Floats:
        if axes == 2:
            return np.broadcast_to(np.eye(shape[-1]), shape)
        return np.eye(1, shape[-1])[0] + np.zeros(shape)

    def check(self, x: Array, who: str, X: Any = None, first: int = 0) -> None:
        bad = np.argwhere(~self.row(to_numpy(x)))
        if len(bad):
            name = point_name(X, int(bad[0][-1]))
            raise ValueError(f"The data of {who} must be {self.data}; {name} is not. {self.cure}".rstrip())


def check_summable(x: Floats, who: str, X: Any, largest: float = LARGEST) -> None:
    """Raise if a number of the data ``X`` is so large that sums could overflow."""
    if not np.any(x > largest):
        return
    row, column = (int(i) for i in np.argwhere(x > largest)[0])
    raise ValueError(
        f"The data of {who} must be at most {largest:g}, so that their sums are finite; got {x[row, column]:.6g} at "
        f"{point_name(X, row)}, column {column}. Divide the data by a constant."
    )


def _definite(c: Floats) -> Floats:
    """Which matrices are finite, symmetric and have positive eigenvalues."""
    if c.shape[-2:] != c.shape[-1:] * 2:
        return np.zeros(c.shape[:-2], dtype=bool)
    finite = np.isfinite(c).all(axis=(-1, -2))
    c = np.where(np.asarray(finite)[..., None, None], c, np.eye(c.shape[-1])).astype(float)
    skew, size = (np.abs(v).max(axis=(-1, -2), initial=0) for v in (c - np.swapaxes(c, -1, -2), c))
    return np.asarray(finite & (skew <= 1e-4 * size) & (np.linalg.eigvalsh(c)[..., 0] > 0))


def _flat_definite(x: Floats) -> Floats:
    d = round(x.shape[-1] ** 0.5)
    return _definite(x.reshape(*x.shape[:-1], d, d))


def _finite(x: Array) -> Array:
    return namespace(x).isfinite(x)


def _sums_to_one(x: Floats) -> Floats:
    return np.asarray((x > 0).all(axis=-1) & (np.abs(x.sum(axis=-1) - 1) <= (1e-4 if x.dtype == np.float32 else 1e-6)))


reals = Set("be finite", _finite, data="finite numbers")
anything = Set("be a number", lambda x: x == x, 0.5, name="anything")  # checked elsewhere
positive = Set(
    "be positive and finite",
    lambda x: (x > 0) & (x < np.inf),
    1.0,
    "positive",
    "Replace zeros by the smallest value that could be measured, as in smallest=1e-3.",
    name="positive",
)
nonnegative = Set("be 0 or more, and finite", lambda x: (x >= 0) & (x < np.inf), 1.0, "0 or more", name="nonnegative")
counts = Set("be 0 or more, and finite", lambda x: (x >= 0) & (x < np.inf), 0.0, "0 or more", count=True, name="counts")
closed_unit = Set("be between 0 and 1", lambda x: (x >= 0) & (x <= 1), 0.5, "between 0 and 1", name="closed_unit")
probability = Set(
    "be above 0 and at most 1", lambda x: (x > 0) & (x <= 1), 0.5, "above 0 and at most 1", name="probability"
)
unit = Set(
    "be above 0 and below 1",
    lambda x: (x > 0) & (x < 1),
    0.5,
    "above 0 and below 1",
    "Move 0 and 1 inside by what could be measured.",
    name="unit",
)
binary = Set(
    "be 0 or 1",
    lambda x: (x == 0) | (x == 1),
    0.0,
    "0 or 1, or NaN where missing",
    "Use threshold=0, for example.",
    name="binary",
)
simplex = Simplex("sum to one", _finite, data="rows that sum to one", name="simplex")
open_simplex = Rows(
    "open_simplex", "be positive and sum to one", "positive rows that sum to one", _sums_to_one, "Add a small count."
)
sphere = Rows(
    "sphere",
    "be unit vectors",
    "unit vectors",
    lambda x: np.asarray(np.abs(np.sum(x * x, axis=-1) - 1) <= 1e-4),
    "Divide by the norm.",
)
definite = Rows("definite", "be symmetric and positive definite", "positive definite matrices", _definite)
flat_definite = Rows("flat_definite", "be positive definite", "positive definite matrices, row by row", _flat_definite)
DOMAINS = {"real": anything, "nonnegative": nonnegative, "counts": counts, "binary": binary}
"""Names of supports of single coordinates that are checked one by one."""
