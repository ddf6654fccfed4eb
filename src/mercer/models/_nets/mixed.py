"""Networks of several structures in one batch, for one Gram matrix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NoReturn, Self

import numpy as np

from mercer._array import Array, Indices, beside, namespace
from mercer._batch import Batch
from mercer._coupling import Coupling, OneAxis


class MixedNets(Batch):
    """Networks of several structures over the same observed variables, as `BayesNets.together` returns them."""

    _arrays: ClassVar[dict[str, int]] = {"place": 0}
    _shared: ClassVar[tuple[str, ...]] = ("groups",)

    place: Array
    """Places of the members among all networks of the groups, one group after the other."""
    groups: tuple[Any, ...]

    def __init__(self, groups: Sequence[Any]) -> None:
        for group in groups:
            group._require_axis()
            groups[0]._check_alike(group)
        self._freeze(place=np.arange(sum(map(len, groups))), groups=tuple(groups))

    @property
    def dimension(self) -> int:
        """Number of observed nodes."""
        return int(self.groups[0].dimension)

    @property
    def observed(self) -> tuple[str, ...]:
        """Names of the observed nodes."""
        found: tuple[str, ...] = self.groups[0].observed
        return found

    def __repr__(self) -> str:
        return f"MixedNets(shape={self.shape}, n_structures={len(self.groups)})"

    def _ends(self) -> Indices:
        return np.cumsum([0, *map(len, self.groups)])

    def _check_alike(self, other: Batch) -> None:
        """Raise if the observed variables differ."""
        self.groups[0]._check_alike(getattr(other, "groups", (other,))[0])

    def adapted(self, other: Batch) -> Self:
        """Return these networks."""
        return self

    @classmethod
    def concat(cls, batches: Sequence[Any]) -> Any:
        """Concatenate batches of networks."""
        groups, places, start = [], [], 0
        for batch in batches:
            for group, begin, where in batch._members():
                groups.append(group[batch.place[where] - begin])
                places.append(start + where)
            start += len(batch)
        return cls(groups)[np.argsort(np.concatenate(places))]

    def _members(self) -> list[tuple[Any, int, Indices]]:
        """Return each group with members, where it starts, and which members belong to it."""
        ends, found = self._ends(), []
        for k, group in enumerate(self.groups):
            where = np.flatnonzero((self.place >= ends[k]) & (self.place < ends[k + 1]))
            if len(where):
                found.append((group, int(ends[k]), where))
        return found

    def digests(self) -> list[bytes]:
        """Return one digest per member; it depends on the content only."""
        every = [digest for group in self.groups for digest in group.digests()]
        return [every[i] for i in self.place]

    def save(self, path: Any) -> NoReturn:
        """Raise: networks of several structures are saved one structure at a time."""
        raise TypeError("Networks of several structures cannot be saved together. Save each batch of BayesNets.")

    def couple(self, coupling: Coupling, lengths: Any = None) -> MixedOperand:
        """Prepare for a coupling; ``lengths`` is ignored."""
        return self._operand(lambda group: group.couple(coupling, lengths))

    def couple_mean_field(self, rho: float, length: Any, n_init: int, seed: int) -> MixedOperand:
        """Prepare for the mean field bound of the probability product (PPK-6); ``length`` is ignored."""
        return self._operand(lambda group: group.couple_mean_field(rho, length, n_init, seed))

    def _operand(self, couple: Callable[[Any], Any]) -> MixedOperand:
        parts, which, place = [], np.empty(len(self), dtype=int), np.empty(len(self), dtype=int)
        for k, (group, start, where) in enumerate(self._members()):
            parts.append(couple(group))
            which[where], place[where] = k, self.place[where] - start
        return MixedOperand(parts, which, place)


class MixedOperand(OneAxis):
    """Operands of several structures; each pair of structures has its own block."""

    tile_hint: ClassVar[int] = 64

    def __init__(self, parts: list[Any], which: Indices, place: Indices) -> None:
        self.parts = parts
        self.which = which
        self.place = place

    def __len__(self) -> int:
        return len(self.which)

    def __getitem__(self, key: Any) -> Self:
        return type(self)(self.parts, self.which[key], self.place[key])

    def _blocks(self) -> tuple[list[Any], Indices]:
        """Return the operand of each structure, and where its members belong."""
        kinds = np.unique(self.which)
        where = [np.flatnonzero(self.which == k) for k in kinds]
        return [self.parts[k][self.place[w]] for k, w in zip(kinds, where, strict=True)], np.argsort(
            np.concatenate([*where, np.empty(0, int)])
        )

    def pair(self, other: Self) -> Array:
        """Compute the log kernel of all pairs, ``(I, J)``."""
        (rows, up), (columns, across) = self._blocks(), other._blocks()
        blocks = [[a.pair(b) for b in columns] for a in rows]
        xp = namespace(blocks[0][0])
        value = xp.concat([xp.concat(row, axis=1) for row in blocks], axis=0)
        return _taken(_taken(value, up, 0), across, 1)

    def alone(self) -> Array:
        """Compute the self-kernel of each member."""
        rows, order = self._blocks()
        found = [a.alone() for a in rows]
        return _taken(namespace(found[0]).concat(found, axis=0), order, 0)


def _taken(value: Array, order: Indices, axis: int) -> Array:
    return namespace(value).take(value, beside(value, order), axis=axis)
