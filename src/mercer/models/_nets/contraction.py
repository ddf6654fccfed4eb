"""Sums of products of factors over all of their variables: an order of elimination, and array products along it.

A factor is a nonnegative array with a label for each axis: a variable, which is summed over, or, from `BATCH` on, an
axis of a batch. Labels ascend, so batch axes come last. Factors are divided by their maxima on the way, and sums in
which entries that underflow may matter are computed in logarithms.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from heapq import heapify, heappop, heappush
from itertools import combinations
from math import prod
from string import ascii_letters
from typing import Any

import numpy as np
from array_api_compat import is_numpy_array

from mercer._array import Array, Floats, beside, logsumexp, namespace, safe_log

BATCH = 1 << 30
"""Labels from here on are batch axes, which are never summed over; labels below are variables."""
NOMINAL = 32
"""Size of batch axes that plans are made for."""
LARGEST = 1 << 27
"""Entries of the largest table that a contraction may make for one pair or one row: 1 GiB."""
UNSOUND = -560.0
"""Below this logarithm of a scaled product, terms that underflowed may matter: the log domain is used."""

Labels = tuple[int, ...]


@dataclass(frozen=True)
class Plan:
    """A contraction of several factors to one over the batch axes."""

    labels: tuple[Labels, ...]
    """Labels of the inputs, then of the result of each step."""
    steps: tuple[tuple[int, int], ...]
    """The two factors of each step, by number; variables that its result lacks are summed. -1 is no factor."""
    scaled: frozenset[int]
    """Numbers of the factors that are divided by their maxima."""
    kept: Labels
    """The batch axes of the result."""
    largest: int
    """Entries of the largest table, per element of the batch."""
    products: int
    """Number of multiplications, per element of the batch."""

    @property
    def n_inputs(self) -> int:
        """Number of factors to multiply."""
        return len(self.labels) - len(self.steps)

    def check(self, what: str) -> None:
        """Raise if a table would be too large."""
        if self.largest > LARGEST:
            raise ValueError(
                f"{what} needs a table of {self.largest:,} entries and {self.products:,} multiplications, more than "
                f"{LARGEST:,} entries. Use networks with fewer edges or fewer states; mc.kernels.MeanField compares "
                "networks of any structure by a bound."
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
        own = {v for v in labels if v < BATCH}
        for v in own:
            near.setdefault(v, set()).update(own - {v})

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
    factors = [frozenset(labels) for labels in inputs]
    alive = set(range(len(factors)))
    steps: list[tuple[int, int]] = []
    scaled = set(alive)
    where: dict[int, set[int]] = {}
    for k, labels in enumerate(factors):
        for v in labels:
            where.setdefault(v, set()).add(k)
    largest, products = 1, 0

    def size(k: int) -> int:
        return prod(sizes[v] if v < BATCH else NOMINAL for v in factors[k])

    def join(a: int, b: int) -> int:
        nonlocal largest, products
        used = {a, b} - {-1}
        both = frozenset().union(*(factors[k] for k in used))
        out = frozenset(v for v in both if v >= BATCH or where[v] - used)
        products += prod(sizes[v] for v in both if v < BATCH)
        largest = max(largest, prod(sizes[v] for v in out if v < BATCH))
        new = len(factors)
        steps.append((a, b))
        factors.append(out)
        alive.difference_update(used)
        alive.add(new)
        for v in both:
            where[v] -= used
        for v in out:
            where[v].add(new)
        return new

    def multiply(group: list[int]) -> int:
        waiting = [(size(k), k) for k in group]
        heapify(waiting)
        while len(waiting) > 1:
            new = join(heappop(waiting)[1], heappop(waiting)[1])
            heappush(waiting, (size(new), new))
        return waiting[0][1]

    for v in order:
        if where[v]:
            kinds: dict[Labels, list[int]] = {}
            for k in where[v]:
                kinds.setdefault(tuple(sorted(u for u in factors[k] if u >= BATCH)), []).append(k)
            last = multiply([multiply(group) for group in kinds.values()])
            scaled.add(join(last, -1) if v in factors[last] else last)
    multiply(sorted(alive))
    return Plan(
        tuple(tuple(sorted(labels)) for labels in factors), tuple(steps), frozenset(scaled), kept, largest, products
    )


def log_sums(plan: Plan, inputs: list[Array]) -> Array:
    """Contract nonnegative factors; return the logarithms of the sums over the batch axes of the plan."""
    return _logarithms(plan, inputs, *_forward(plan, inputs))


def posteriors(plan: Plan, inputs: list[Floats]) -> tuple[Floats, list[Floats]]:
    """Return what `log_sums` returns, and the posterior probabilities of the variables of every input (NumPy).

    One backward pass gives the derivatives of the logarithm of the result; times the factor, these are posteriors.
    Elements of probability zero give zeros. Every input must have all batch axes.
    """
    values, tops = _forward(plan, inputs)
    n, last = plan.n_inputs, values[-1]
    seed = np.divide(1.0, last, out=np.zeros(last.shape), where=last > 0)
    slopes: dict[int, tuple[Any, Labels]] = {len(values) - 1: (seed, plan.labels[-1])}
    for k in reversed(range(n, len(values))):
        slope, own = slopes.pop(k)
        if k in tops:
            slope = slope / tops[k]
        for mine, other in (plan.steps[k - n], plan.steps[k - n][::-1]):
            if other < 0:
                slopes[mine] = slope, own
            elif mine >= 0:
                theirs = plan.labels[other]
                wanted = tuple(v for v in plan.labels[mine] if v in own or v in theirs)
                slopes[mine] = _product(slope, own, values[other], theirs, wanted), wanted
    found = [values[k] * _spread(*slopes[k], plan.labels[k]) for k in range(n)]
    return _logarithms(plan, inputs, values, tops), found


def relabeled(x: Array, own: Labels, wanted: Labels) -> Array:
    """Order axes by their labels; of labels that occur twice, the diagonal is taken."""
    xp = namespace(x)
    for v in {v for v in own if own.count(v) > 1}:
        i, j = (k for k, label in enumerate(own) if label == v)
        rest = [k for k in range(len(own)) if k not in (i, j)]
        n, shape = x.shape[i], [x.shape[k] for k in rest]
        flat = xp.reshape(xp.permute_dims(x, (i, j, *rest)), (n * n, *shape))
        x, own = xp.take(flat, beside(x, np.arange(n) * (n + 1)), axis=0), (v, *(own[k] for k in rest))
    return xp.permute_dims(x, tuple(own.index(v) for v in wanted))


def _forward(plan: Plan, inputs: list[Array]) -> tuple[list[Array], dict[int, Array]]:
    """Return all factors, and the maxima over the variables of those that are divided by it, over their batch axes."""
    values: list[Array] = []
    tops: dict[int, Array] = {}
    for k, labels in enumerate(plan.labels):
        if k < plan.n_inputs:
            value = np.ascontiguousarray(inputs[k]) if is_numpy_array(inputs[k]) else inputs[k]  # batch axes last
        else:
            a, b = plan.steps[k - plan.n_inputs]
            value = (
                _summed(values[a], plan.labels[a], labels)
                if b < 0
                else _product(values[a], plan.labels[a], values[b], plan.labels[b], labels)
            )
        if k in plan.scaled:
            xp, axes = namespace(value), tuple(j for j, v in enumerate(labels) if v < BATCH)
            top = xp.max(value, axis=axes) if axes else value
            tops[k] = xp.where(top > 0, top, xp.ones_like(top))
            value = value / tops[k]
        values.append(value)
    return values, tops


def _logarithms(plan: Plan, inputs: list[Array], values: list[Array], tops: dict[int, Array]) -> Array:
    """Add up the logarithms of the result and of all maxima."""
    xp, total, of_inputs = namespace(values[-1]), safe_log(values[-1]), 0.0
    total = _spread(total, plan.labels[-1], plan.kept)
    for k, top in tops.items():
        part = _spread(xp.log(top), tuple(v for v in plan.labels[k] if v >= BATCH), plan.kept)
        if k < plan.n_inputs:
            of_inputs = of_inputs + part
        else:
            total = total + part
    lost = total < UNSOUND
    total = total + of_inputs
    return xp.where(lost, _in_logarithms(plan, inputs), total) if bool(xp.any(lost)) else total


def _in_logarithms(plan: Plan, inputs: list[Array]) -> Array:
    """Contract factors in logarithms; slow, and exact for every range."""
    values = [safe_log(x) for x in inputs]
    for (a, b), labels in zip(plan.steps, plan.labels[plan.n_inputs :], strict=True):
        both = tuple(sorted({v for k in (a, b) if k >= 0 for v in plan.labels[k]}))
        value = sum(_spread(values[k], plan.labels[k], both) for k in (a, b) if k >= 0)
        axes = tuple(j for j, v in enumerate(both) if v not in labels)
        values.append(logsumexp(value, axis=axes) if axes else value)
    return _spread(values[-1], plan.labels[-1], plan.kept)


def _product(a: Array, la: Labels, b: Array, lb: Labels, out: Labels) -> Array:
    """Multiply two factors and sum over the labels that are not in ``out``."""
    both = tuple(sorted({*la, *lb}))
    if not is_numpy_array(a):
        return _summed(_spread(a, la, both) * _spread(b, lb, both), both, out)
    letter = dict(zip(both, ascii_letters, strict=False))
    one, other, result = ("".join([letter[v] for v in own]) for own in (la, lb, out))
    matrices = not any(v in la and v in lb for v in out)
    return np.einsum(f"{one},{other}->{result}", a, b, optimize=matrices)


def _summed(x: Array, own: Labels, wanted: Any) -> Array:
    axes = tuple(k for k, v in enumerate(own) if v not in wanted)
    return namespace(x).sum(x, axis=axes) if axes else x


def _spread(x: Array, own: Labels, wanted: Labels) -> Array:
    """Insert axes of size 1 for the labels that are missing."""
    size = dict(zip(own, x.shape, strict=True))
    return x if own == wanted else namespace(x).reshape(x, tuple(size.get(v, 1) for v in wanted))
