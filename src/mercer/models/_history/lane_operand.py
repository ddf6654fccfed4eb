"""Samples under one hidden chain or tree of few states: tiles by compiled loops, and soundness checks."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Self

import numpy as np

from mercer._array import Floats, safe_log
from mercer._coupling import OneAxis
from mercer._rescue import rescued
from mercer.compiled import forest
from mercer.compiled.forest import LANES
from mercer.compiled.lanes import aligned
from mercer.compiled.layout import owned, to_lanes
from mercer.models._history.forest import Range
from mercer.models._history.planes import History, check_alike


class Model(NamedTuple):
    """A hidden tree in the layout of the compiled loops: nodes in the order of the forest, contiguous arrays."""

    children: Floats
    """``(V,)`` int."""
    roots: Floats
    """``(V,)`` int, 1 for a root."""
    waits: Floats
    """``(V,)`` int, 1 if the message of another branch is pushed to the stack."""
    depth: int
    step: Floats
    """Transitions of each node, ``(V, S, S)``, or one for all nodes, ``(1, S, S)``."""
    root: Floats
    """``(S,)``."""
    range: Range

    @classmethod
    def of(cls, history: History) -> Model:
        """Sort the nodes."""
        order, step = history.forest, np.asarray(history.transition)
        children, roots, waits = (x.astype(np.int64) for x in (order.children, order.roots, order.waits))
        step = step[None] if step.ndim == 2 else step[order.order]
        return cls(children, roots, waits, order.depth, owned(step), owned(history.root), history.range)

    @property
    def states(self) -> int:
        """Number of hidden states."""
        return len(self.root)

    def fast(
        self, left: Floats, right: Floats, rows: Floats, groups: Floats, targets: Floats, columns: Floats,
        shape: tuple[int, int], *, logarithms: bool = False,
    ) -> tuple[Floats, Floats]:  # fmt: skip
        """Sum over all hidden states, for rows of the left side paired with groups of the right side.

        Parameters
        ----------
        left, right : ndarray of shape (I, V, S) and (groups, V, S, LANES)
            Evidence, or its ``logarithms``.
        rows, groups : ndarray of int of shape (K, side) and (K,)
            Pairs of rows and groups, several rows at once.
        targets, columns : ndarray of int of shape (K, side) and (K,)
            Rows, and groups of columns, of the result.
        shape : (R, C)
            Shape of the result.

        Returns
        -------
        values, sound : ndarrays of shape (R, C)
            Logarithms, relative to the scales of the evidence, and whether they are accurate.
        """
        limits, side = self.range, rows.shape[1]
        record = np.empty((4 if logarithms else 3, *shape))
        step = owned(np.swapaxes(self.step, 1, 2)).reshape(-1)
        forest.sweep(self.states, side, not limits.plain, logarithms)(
            self.children, self.roots, self.waits, owned(left).reshape(-1), owned(right).reshape(-1), step,
            self.states**2 if len(self.step) > 1 else 0, self.root, limits.floor,
            *(np.require(x, np.int64, ["C", "W"]) for x in (rows, groups, targets, columns)),
            aligned(((self.depth + 1) * self.states * side * LANES,)), np.empty((2, side), dtype=np.int64), record,
        )  # fmt: skip
        product, exponent, low = record[:3]
        steps = len(self.children) + int(self.roots.sum())
        values = np.asarray(safe_log(product)) + (exponent - 1023.0 * steps) * math.log(2.0)
        values = values + record[3] if logarithms else values
        return values, low >= (limits.least if limits.plain else limits.floor)

    def careful(self, left: Floats, right: Floats, rows: Floats, columns: Floats) -> Floats:
        """Compute pairs of samples from their log evidence, in the log domain throughout."""
        out = np.empty(len(rows))
        logs = safe_log(self.step), safe_log(self.root)
        forest.careful_pairs(self.children, self.roots, self.depth, *logs, left, right, rows, columns, out)
        return out


class Packed(NamedTuple):
    """Evidence of N samples relative to the best state of every node, nodes in the order of the forest."""

    values: Floats
    """``(N, V, S)``."""
    groups: Floats | None
    """The same in SIMD lanes, ``(groups, V, S, LANES)``; None if not computed yet."""
    logs: Floats | None
    """Logarithms, if some values underflow float64."""

    @classmethod
    def of(cls, logs: Floats, watched: bool) -> Packed:
        """Create from logarithms; zero means impossible if entries are checked."""
        values = np.exp(logs)
        lost = bool(np.any((values < np.finfo(np.float64).tiny) & (logs > -np.inf)))
        if watched:  # raised values are reported as unsound later
            values = np.where(logs > -np.inf, np.maximum(values, forest.SMALLEST), 0.0)
        return cls(values, _in_lanes(values), logs if lost else None)

    def take(self, key: Any) -> Packed:
        """Select samples; a contiguous selection that starts at a group shares its memory."""
        groups = None
        if isinstance(key, slice) and self.groups is not None:
            start, stop, step = key.indices(len(self.values))
            if step == 1 and start % LANES == 0:
                groups = self.groups[start // LANES : -(-stop // LANES)]
        return Packed(self.values[key], groups, None if self.logs is None else self.logs[key])

    def lanes(self) -> Floats:
        """Return the groups, computed on first use."""
        return _in_lanes(self.values) if self.groups is None else self.groups

    def logarithms(self, which: Any) -> Floats:
        """Return logarithms of selected samples."""
        return np.asarray(safe_log(self.values[which]) if self.logs is None else self.logs[which])


class LaneOperand(OneAxis):
    """Samples with the evidence of a shared hidden tree: computes tiles by loops over SIMD lanes (MK-3, MK-4, MK-6)."""

    def __init__(self, history: History, model: Model, evidence: Packed, shift: Floats, example: str | None) -> None:
        self.history = history
        self.model = model
        self.evidence = evidence
        self.shift = shift
        self.example = example

    @classmethod
    def of(cls, history: History, logs: Floats, shift: Floats, example: str | None) -> Self:
        """Create from the logarithms of relative evidence, ``(N, V, S)``, and the sums of its scales."""
        ordered = np.ascontiguousarray(logs[:, history.forest.order])
        return cls(history, Model.of(history), Packed.of(ordered, not history.range.plain), shift, example)

    @property
    def nodes(self) -> int:
        """Number of hidden nodes."""
        return int(self.evidence.values.shape[1])

    @property
    def tile_hint(self) -> int:
        """Rows of a tile: about a millisecond of work, in whole groups."""
        states = self.model.states
        pairs = 2e7 / (self.nodes * (states * states + 4 * states))
        return min(512, max(16, 16 * round(math.sqrt(pairs) / 16)))

    def __len__(self) -> int:
        return len(self.shift)

    def __getitem__(self, key: Any) -> Self:
        return type(self)(self.history, self.model, self.evidence.take(key), self.shift[key], self.example)

    def pair(self, other: Self) -> Floats:
        """Log kernels of every pair, ``(I, J)``."""
        check_alike(self, other)
        lanes, side = other.evidence.lanes(), forest.rows_at_once(self.model.states)
        rows, groups = _blocks(np.arange(len(self)), len(lanes), side)
        shape = len(self), len(lanes) * LANES
        values, sound = self.model.fast(self.evidence.values, lanes, rows, groups, rows, groups, shape)
        values, sound = values[:, : len(other)], sound[:, : len(other)]
        rescued(values, sound, lambda i, j: self._again(other, i, j))
        values += self.shift[:, None] + other.shift[None, :]
        return values

    def alone(self) -> Floats:
        """Log kernel of every sample with itself, ``(N,)``: bit-identical to `pair`."""
        lanes, side = self.evidence.lanes(), forest.rows_at_once(self.model.states)
        targets, groups = _blocks(np.arange(LANES), len(lanes), side)
        rows = np.minimum(groups[:, None] * LANES + targets, len(self) - 1)
        shape = LANES, len(lanes) * LANES
        found = self.model.fast(self.evidence.values, lanes, rows, groups, targets, groups, shape)
        every = np.arange(len(self))
        values, sound = (x[every % LANES, every] for x in found)
        return rescued(values, sound, lambda i: self._again(self, i, i)) + 2 * self.shift

    def _again(self, other: Self, rows: Floats, columns: Floats) -> Floats:
        """Compute some pairs from log evidence; repeat those that are still unsound in the log domain."""
        blocks, place = np.unique(np.stack([rows, columns // LANES]), axis=1, return_inverse=True)
        (left, i), (groups, g) = (np.unique(x, return_inverse=True) for x in blocks)
        inside = np.minimum(groups[:, None] * LANES + np.arange(LANES), len(other) - 1).ravel()
        mine, theirs = self.evidence.logarithms(left), other.evidence.logarithms(inside)
        every, shape = np.arange(len(i)), (len(i), LANES)
        found = self.model.fast(
            mine, _in_lanes(theirs), i[:, None], g, every[:, None], np.zeros_like(every), shape, logarithms=True
        )
        place = place.reshape(-1)
        values, sound = (x[place, columns % LANES] for x in found)
        i, j = i[place], g[place] * LANES + columns % LANES
        return rescued(values, sound, lambda k: self.model.careful(mine, theirs, i[k], j[k]))


def _in_lanes(values: Floats) -> Floats:
    """Arrange (N, V, S) in groups, (groups, V, S, LANES), padded by the last sample."""
    return to_lanes(values, (1, 2), LANES)


def _blocks(rows: Floats, groups: int, side: int) -> tuple[Floats, Floats]:
    """List all blocks of ``side`` rows, padded by the last row, with every group: (K, side) and (K,)."""
    count = -(-len(rows) // side)
    some = (
        rows[np.minimum(np.arange(count * side), len(rows) - 1)].reshape(count, side) if len(rows) else rows[:0, None]
    )
    return np.tile(some, (groups, 1)), np.repeat(np.arange(groups), count)
