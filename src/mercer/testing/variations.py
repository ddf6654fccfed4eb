"""Variations of objects for the search for counterexamples: what lies between two objects, and around one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

import mercer as mc
from mercer._array import Floats
from mercer._batch import Batch

GIVEN = 8
"""Number of given objects that are used."""
CORNERS = 4
"""Number of coordinates of a cube, and of a cross."""
ROUNDING = 1e-9

Join = Callable[[list[Any]], Any]


def variations_of(data: Any, rng: np.random.Generator) -> Variations:
    """Return some objects of any input form, and how they are varied."""
    n = data.shape[0] if hasattr(data, "shape") else len(data)
    if n < 2:
        raise ValueError(f"A search for counterexamples mixes objects, and needs at least 2; got {n}.")
    chosen = [int(i) for i in np.sort(rng.permutation(n)[:GIVEN])]
    if sparse.issparse(data):
        return Vectors(list(data.tocsr()[chosen].toarray()), rng, lambda new: sparse.csr_array(np.array(new)))
    if isinstance(data, np.ndarray) and data.ndim > 1:
        return (Vectors if data.ndim == 2 else Arrays)(list(data[chosen]), rng, np.array)
    if isinstance(data, Batch):
        return Batches([data[i : i + 1] for i in chosen], rng, type(data).concat)
    if isinstance(data, mc.Sequences):
        objects, join = list(data[chosen]), _sequences_like(data)
    elif isinstance(data, list | tuple):
        objects, join = [data[i] for i in chosen], list
    else:
        return Variations(chosen, rng, lambda new: data[np.array(new)])
    kinds: tuple[tuple[type, type[Variations]], ...] = (str, Strings), (np.ndarray, Arrays)
    kind = next((made for of, made in kinds if all(isinstance(x, of) for x in objects)), Variations)
    return kind(objects, rng, join)


def _sequences_like(X: mc.Sequences) -> Join:
    return lambda new: mc.Sequences(new, alphabet=X.alphabet, channels=X.channels)


class Variations:
    """Objects that can be repeated, but not changed.

    Parameters
    ----------
    objects : list
        Some of the data.
    rng : numpy.random.Generator
        Makes the choices.
    join : callable
        Returns objects in the form of the data.
    """

    unlimited = False
    """Whether a line may be longer than the distance of its two objects."""

    def __init__(self, objects: list[Any], rng: np.random.Generator, join: Join) -> None:
        self.objects, self.rng, self.joined = objects, rng, join

    def line(self, x: Any, y: Any, at: Iterable[float]) -> list[Any]:
        """Return objects from ``x`` (at 0) to ``y`` (at 1)."""
        return []

    def around(self, x: Any, y: Any, step: float) -> list[list[Any]]:
        """Return groups of objects near ``x``, whose distances to it are ``step`` times that of ``y``."""
        return []

    def edits(self, x: Any, y: Any) -> list[list[Any]]:
        """Return groups of other objects that are made of ``x`` and ``y``."""
        return []


class Vectors(Variations):
    """Vectors; what all of them have in common is kept: signs, whole numbers, their sum or their norm."""

    def __init__(self, objects: list[Any], rng: np.random.Generator, join: Join) -> None:
        super().__init__(objects, rng, join)
        rows = np.concatenate([x.reshape(-1, x.shape[-1] if x.ndim == self._axes else 1) for x in objects])
        self.codes = rows.dtype.kind not in "fc"
        self.nonnegative, self.whole = bool((rows >= 0).all()), bool((rows == np.rint(rows)).all())
        wide = rows.shape[1] > 1
        self.total, self.norm = (_common(x) if wide else None for x in (rows.sum(axis=1), (rows**2).sum(axis=1)))
        self.unlimited = not (self.codes or self.nonnegative or self.total is not None or self.norm is not None)

    _axes = 1
    """Number of axes of an object with several coordinates."""

    def kept(self, x: Floats) -> Floats:
        """Return the nearest object that has what all objects have in common."""
        x = np.maximum(x, 0) if self.nonnegative else x
        x = np.rint(x) if self.whole else x
        with np.errstate(all="ignore"):
            if self.total is not None and not self.whole:
                x = x * (self.total / x.sum(axis=-1, keepdims=True))
            elif self.norm is not None and not self.whole:
                x = x * np.sqrt(self.norm / (x**2).sum(axis=-1, keepdims=True))
        return x

    def line(self, x: Any, y: Any, at: Iterable[float]) -> list[Any]:
        """Return points on the line; codes of symbols are exchanged one after the other."""
        y = self._as_long(y, x)
        if not self.codes:
            return [self.kept(x + t * (y - x)) for t in at]
        counts = sorted({round(min(t, 1.0) * x.size) for t in at})
        return [np.where(np.arange(x.size).reshape(x.shape) < n, y, x) for n in counts]

    def _as_long(self, y: Any, x: Any) -> Any:
        return y

    def around(self, x: Any, y: Any, step: float) -> list[list[Any]]:
        """Return the corners of a cube, the ends of a cross, and a line along an axis."""
        if self.codes:
            return []
        some = self.rng.permutation(x.size)[:CORNERS]
        far = step * np.linalg.norm(self._as_long(y, x) - x)
        axes = np.zeros((len(some), x.size))
        axes[np.arange(len(some)), some] = max(far, 1.0) if self.whole else far
        corners = np.array(list(product((0, 1), repeat=len(some)))) @ axes
        line = np.arange(2, 6)[:, None] * axes[0]
        return [[self.kept(x + move.reshape(x.shape)) for move in moves] for moves in (corners, -axes, line)]

    def edits(self, x: Any, y: Any) -> list[list[Any]]:
        """Return multiples, unless all vectors have one sum or norm."""
        if self.codes or self.total is not None or self.norm is not None:
            return []
        return [[self.kept(f * x) for f in ((0.1, 10.0, -1.0) if self.unlimited else (0.1, 0.5, 10.0))]]


def _common(values: Floats) -> float | None:
    """Return the value that all have; None if they differ or are zero."""
    first = float(values[0])
    return first if first > 0 and np.abs(values - first).max() <= ROUNDING * first else None


class Arrays(Vectors):
    """Point sets or series: arrays of shape (T, d) or (T,), of one or of several lengths."""

    _axes = 2

    def __init__(self, objects: list[Any], rng: np.random.Generator, join: Join) -> None:
        super().__init__(objects, rng, join)
        self.lengths = _Lengths(objects)

    def _as_long(self, y: Any, x: Any) -> Any:
        return y[np.arange(len(x)) % len(y)] if len(y) else np.zeros_like(x)

    def edits(self, x: Any, y: Any) -> list[list[Any]]:
        """Return objects that lose, repeat and exchange points, or are reversed."""
        parts = [x[:n] for n in range(1, min(len(x), 4))]
        whole = [x[::-1], np.roll(x, 1, axis=0), np.concatenate([x[: len(x) // 2], y[len(y) // 2 :]])]
        more = [np.repeat(x, 2, axis=0), np.concatenate([x, x]), np.concatenate([x, y])]
        return [*super().edits(x, y), *map(self.lengths.allowed, (parts, whole, more))]


class Strings(Variations):
    """Strings, of one or of several lengths."""

    def __init__(self, objects: list[Any], rng: np.random.Generator, join: Join) -> None:
        super().__init__(objects, rng, join)
        self.lengths = _Lengths(objects)
        self.letters = sorted(set("".join(objects)))

    def line(self, x: Any, y: Any, at: Iterable[float]) -> list[Any]:
        """Return strings that begin as ``y`` and end as ``x``."""
        made = (y[: round(t * len(y))] + x[round(t * len(x)) :] for t in at if t <= 1)
        return self.lengths.allowed(dict.fromkeys(made))

    def edits(self, x: Any, y: Any) -> list[list[Any]]:
        """Return strings that lose, repeat and exchange letters, and short ones."""
        short = [*self.letters[:CORNERS], *(x[:n] for n in range(1, 5)), *(a + b for a, b in zip(x, y, strict=False))]
        changed = [letter + x[1:] for letter in self.letters[:CORNERS]] + [x[:-1] + letter for letter in self.letters]
        whole = [x[::-1], x[1:] + x[:1], x[1:], x[:-1]]
        more = [x + x, x + y, y + x, *(letter * len(x) for letter in self.letters[:CORNERS])]
        return [self.lengths.allowed(dict.fromkeys(some)) for some in (short, changed, whole, more)]


class _Lengths:
    """The lengths that objects may have: one, if all have it, or else from the shortest to twice the longest."""

    def __init__(self, objects: list[Any]) -> None:
        lengths = {len(x) for x in objects}
        self.least, self.most = min(lengths), max(lengths) * (2 if len(lengths) > 1 else 1)

    def allowed(self, objects: Iterable[Any]) -> list[Any]:
        return [x for x in objects if self.least <= len(x) <= self.most]


class Batches(Variations):
    """Distributions, whose parameters are mixed: probabilities, means and covariances stay what they are."""

    def line(self, x: Any, y: Any, at: Iterable[float]) -> list[Any]:
        """Return members with parameters between those of two; none if these are not plain arrays of one shape."""
        return self._mixtures([x, y], [(1 - t, t) for t in at])

    def around(self, x: Any, y: Any, step: float) -> list[list[Any]]:
        """Return the corners of a cube whose edges lead from ``x`` to other members."""
        others = [self.objects[i] for i in self.rng.permutation(len(self.objects))[:CORNERS]]
        corners = min(step, 1 / CORNERS) * np.array(list(product((0, 1), repeat=len(others))))
        return [self._mixtures([x, *others], np.column_stack([1 - corners.sum(axis=1), corners]))]

    def edits(self, x: Any, y: Any) -> list[list[Any]]:
        """Return means of all pairs with ``x``."""
        return [self.line(x, z, (0.5,)) for z in self.objects]

    @staticmethod
    def _mixtures(members: list[Any], weights: Iterable[Iterable[float]]) -> list[Any]:
        try:
            return [_mixed(members, list(some)) for some in weights]
        except (TypeError, ValueError, AttributeError):
            return []


def _mixed(members: list[Batch], weights: list[float]) -> Batch:
    """Return a member whose parameters are the means of those of several."""
    first = members[0]
    fields: dict[str, Any] = {name: _mean([getattr(p, name) for p in members], weights) for name in first._arrays}
    parts = {name: _mixed([getattr(p, name) for p in members], weights) for name in first._parts}
    return first._replaced(**fields, **parts)


def _mean(values: list[NDArray[Any]], weights: list[float]) -> NDArray[Any]:
    if not all(isinstance(x, np.ndarray) for x in values):
        raise TypeError("Only plain arrays are mixed.")
    if values[0].dtype.kind != "f":
        return values[0]
    mean: NDArray[Any] = sum(w * x for w, x in zip(weights, values, strict=True))
    return mean
