"""Data under one hidden chain or tree of few states, in NumPy: tiles by compiled loops."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Self

import numpy as np

from mercer._array import Floats, safe_log
from mercer.compiled.lanes import LANES
from mercer.models._history.loops import log_pairs
from mercer.models._history.planes import History, check_alike
from mercer.models._history.sweeps import Model, lane_sums, log_lane_sums, packed, raised

__all__ = ["LaneOperand"]


class Packed(NamedTuple):
    """Evidence of N data relative to the best state of every node, nodes in the order of the forest."""

    values: Floats
    """``(N, V, S)``."""
    groups: Floats | None
    """The same for vector lanes, ``(groups, V, S, 8)``; None where it has to be made."""
    logs: Floats | None
    """Logarithms, where numbers cannot hold some of the values."""

    @classmethod
    def of(cls, logs: Floats, watched: bool) -> Packed:
        """Take logarithms; zero means impossible where entries are watched."""
        values = np.exp(logs)
        lost = bool(np.any((values < np.finfo(np.float64).tiny) & (logs > -np.inf)))
        values = raised(values, logs) if watched else values
        return cls(values, packed(values), logs if lost else None)

    def take(self, key: Any) -> Packed:
        """Take some data; neighbours that begin with a group share its memory."""
        groups = None
        if isinstance(key, slice) and self.groups is not None:
            start, stop, step = key.indices(len(self.values))
            if step == 1 and start % LANES == 0:
                groups = self.groups[start // LANES : -(-stop // LANES)]
        return Packed(self.values[key], groups, None if self.logs is None else self.logs[key])

    def lanes(self) -> Floats:
        """Return the groups, made now where they do not exist."""
        return packed(self.values) if self.groups is None else self.groups

    def logarithms(self, which: Floats) -> Floats:
        """Return logarithms of some data."""
        return np.asarray(safe_log(self.values[which]) if self.logs is None else self.logs[which])


class LaneOperand:
    """Data with the evidence of a shared hidden tree: answers tiles by loops over vector lanes (MK-3, MK-4, MK-6)."""

    order: Floats | None = None

    def __init__(self, model: Model, evidence: Packed, shift: Floats, example: str | None) -> None:
        self.model = model
        self.evidence = evidence
        self.shift = shift
        self.example = example

    @classmethod
    def of(cls, history: History, logs: Floats, shift: Floats, example: str | None) -> Self:
        """Take the logarithms of relative evidence, ``(N, V, S)``, and the sums of what it is relative to."""
        ordered = np.ascontiguousarray(logs[:, history.forest.order])
        return cls(Model.of(history), Packed.of(ordered, not history.range.plain), shift, example)

    @property
    def nodes(self) -> int:
        """Number of hidden nodes."""
        return int(self.evidence.values.shape[1])

    @property
    def shape(self) -> tuple[int, ...]:
        """Batch shape."""
        return (len(self.shift),)

    @property
    def tile_hint(self) -> int:
        """Rows of a tile: about a millisecond of work, in whole groups."""
        states = self.evidence.values.shape[2]
        pairs = 2e7 / (self.nodes * (states * states + 4 * states))
        return min(512, max(16, 16 * round(math.sqrt(pairs) / 16)))

    def __len__(self) -> int:
        return len(self.shift)

    def __getitem__(self, key: Any) -> Self:
        return type(self)(self.model, self.evidence.take(key), self.shift[key], self.example)

    def pair(self, other: Self) -> Floats:
        """Log kernels of every pair, ``(I, J)``."""
        check_alike(self, other)
        values, sound = lane_sums(self.model, self.evidence.values, other.evidence.lanes(), len(other), own=False)
        if not sound.all():
            rows, columns = np.nonzero(~sound)
            values[rows, columns] = self._again(other, rows, columns)
        values += self.shift[:, None] + other.shift[None, :]
        return values

    def alone(self) -> Floats:
        """Log kernel of every datum with itself, ``(N,)``: the bits of `pair`."""
        values, sound = lane_sums(self.model, self.evidence.values, self.evidence.lanes(), len(self), own=True)
        if not sound.all():
            which = np.flatnonzero(~sound)
            values[which] = self._again(self, which, which)
        return values + 2 * self.shift

    def _again(self, other: Self, rows: Floats, columns: Floats) -> Floats:
        """Compute some pairs from log evidence, and what is doubtful even so in the log domain throughout."""
        blocks, place = np.unique(np.stack([rows, columns // LANES]), axis=1, return_inverse=True)
        (left, i), (groups, g) = (np.unique(x, return_inverse=True) for x in blocks)
        inside = np.minimum(groups[:, None] * LANES + np.arange(LANES), len(other) - 1).ravel()
        mine, theirs = self.evidence.logarithms(left), other.evidence.logarithms(inside)
        found, fine = log_lane_sums(self.model, mine, packed(theirs), i, g)
        place = place.reshape(-1)
        out, sound = found[place, columns % LANES], fine[place, columns % LANES]
        if not sound.all():
            model, rest = self.model, np.flatnonzero(~sound)
            worst = np.empty(len(rest))
            log_pairs(
                model.children, model.roots, model.depth, safe_log(model.step), safe_log(model.root), mine, theirs,
                i[place[rest]], g[place[rest]] * LANES + columns[rest] % LANES, worst,
            )  # fmt: skip
            out[rest] = worst
        return out
