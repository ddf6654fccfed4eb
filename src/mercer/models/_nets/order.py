"""Elimination orders and plans of contractions, found once per structure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import prod

BATCH = 1 << 30
"""Labels from here on are batch axes, which are never summed over; labels below are variables."""
NOMINAL = 32
"""Size of batch axes that plans are made for."""
LARGEST = 1 << 27
"""Entries of the largest table that a contraction may make for one pair or one row: 1 GiB."""
BETWEEN = 4
"""Number of products between two divisions by the maximum."""

Labels = tuple[int, ...]


@dataclass(frozen=True)
class Step:
    """The product of two factors, or the sum of one if ``right`` is -1; labels that are not in ``out`` are summed."""

    left: int
    right: int
    out: Labels
    scaled: bool


@dataclass(frozen=True)
class Plan:
    """A contraction of several factors to one over the batch axes.

    Parameters
    ----------
    inputs : tuple of labels
        Labels of each input, in ascending order.
    steps : tuple of Step
        The result of step k is factor ``len(inputs) + k``.
    kept : labels
        The batch axes.
    largest : int
        Entries of the largest table, per element of the batch.
    products : int
        Number of multiplications, per element of the batch.
    """

    inputs: tuple[Labels, ...]
    steps: tuple[Step, ...]
    kept: Labels
    largest: int
    products: int

    def check(self, what: str) -> None:
        """Raise if a table would be too large."""
        if self.largest > LARGEST:
            raise ValueError(
                f"{what} needs a table of {self.largest:,} entries and {self.products:,} multiplications, more than "
                f"{LARGEST:,} entries. Use networks with fewer parents or fewer states."
            )


@lru_cache(maxsize=512)
def find_plan(inputs: tuple[Labels, ...], sizes: tuple[int, ...], kept: Labels) -> Plan:
    """Find a plan: the better of a minimum fill and a minimum weight order.

    Parameters
    ----------
    inputs : tuple of labels
        Labels of each input, in ascending order.
    sizes : tuple of int
        Number of states of each variable.
    kept : labels
        The batch axes of the result.
    """
    plans = [_planned(inputs, sizes, kept, elimination_order(inputs, sizes, by_fill=rule)) for rule in (True, False)]
    return min(plans, key=lambda plan: plan.products)


def elimination_order(inputs: tuple[Labels, ...], sizes: tuple[int, ...], *, by_fill: bool) -> list[int]:
    """Order the variables greedily, by the number of new edges or by the size of the new table."""
    near: dict[int, set[int]] = {}
    for labels in inputs:
        own = [v for v in labels if v < BATCH]
        for v in own:
            near.setdefault(v, set()).update(own)
    for v, others in near.items():
        others.discard(v)

    def score(v: int) -> tuple[float, float, int]:
        weight = prod(sizes[u] for u in near[v]) * sizes[v]
        if not by_fill:
            return weight, 0, v
        return sum(b not in near[a] for a, b in combinations(near[v], 2)), weight, v

    scores = {v: score(v) for v in near}
    order = []
    while scores:
        v = min(scores, key=scores.__getitem__)
        order.append(v)
        del scores[v]
        around = near.pop(v)
        for u in around:
            near[u] |= around
            near[u] -= {u, v}
        touched = around.union(*(near[u] for u in around)) if by_fill else around
        for u in touched:
            scores[u] = score(u)
    return order


def _planned(inputs: tuple[Labels, ...], sizes: tuple[int, ...], kept: Labels, order: list[int]) -> Plan:
    """Eliminate variables in the given order; factors with the same batch axes are multiplied first."""
    alive = {k: frozenset(labels) for k, labels in enumerate(inputs)}
    where: dict[int, set[int]] = {}
    for k, labels in alive.items():
        for v in labels:
            where.setdefault(v, set()).add(k)
    since = dict.fromkeys(alive, 0)
    steps: list[Step] = []
    largest, products = 1, 0

    def size(labels: frozenset[int]) -> int:
        return prod(sizes[v] if v < BATCH else NOMINAL for v in labels)

    def join(a: int, b: int) -> int:
        nonlocal largest, products
        both = alive[a] | (alive[b] if b >= 0 else frozenset())
        used = {a, b}
        out = frozenset(v for v in both if v >= BATCH or where[v] - used)
        new = len(inputs) + len(steps)
        depth = since[a] + (since[b] + 1 if b >= 0 else 0)
        scaled = depth >= BETWEEN
        steps.append(Step(a, b, tuple(sorted(out)), scaled))
        free = prod(sizes[v] for v in both if v < BATCH)
        products += free
        largest = max(largest, prod(sizes[v] for v in out if v < BATCH))
        since[new] = 0 if scaled else depth
        for k in used - {-1}:
            for v in alive.pop(k):
                where[v].discard(k)
        alive[new] = out
        for v in out:
            where[v].add(new)
        return new

    def smallest_two(group: list[int]) -> tuple[int, int]:
        if len(group) > 16:
            first, second = sorted(group, key=lambda k: (size(alive[k]), k))[:2]
            return first, second
        return min(combinations(group, 2), key=lambda pair: (size(alive[pair[0]] | alive[pair[1]]), pair))

    def multiply(group: list[int]) -> int:
        while len(group) > 1:
            a, b = smallest_two(group)
            group = [k for k in group if k not in (a, b)] + [join(a, b)]
        return group[0]

    for v in order:
        if not where[v]:
            continue
        kinds: dict[frozenset[int], list[int]] = {}
        for k in sorted(where[v]):
            kinds.setdefault(frozenset(u for u in alive[k] if u >= BATCH), []).append(k)
        last = multiply([multiply(group) for group in kinds.values()])
        if v in alive[last]:
            join(last, -1)
    multiply(sorted(alive))
    return Plan(inputs, tuple(steps), kept, largest, products)
