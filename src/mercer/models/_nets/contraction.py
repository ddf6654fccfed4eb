"""Contractions: plans run through batched array products, scaled or in logarithms, and their derivatives."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, product
from math import prod
from typing import Any

import numpy as np
from array_api_compat import is_numpy_array

from mercer._array import Array, logsumexp, namespace, safe_log

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


UNSOUND = -560.0
"""Below this logarithm of a scaled product, terms that underflowed may matter: the log domain is used."""
CALL, PRODUCT = 2000, 300
"""Cost of a call on whole arrays and of one small matrix product, in multiplications."""


def run(plan: Plan, inputs: list[Array]) -> tuple[Array, Array]:
    """Contract factors, each divided by its maximum.

    Parameters
    ----------
    plan : Plan
        What to multiply and to sum.
    inputs : list of arrays
        Nonnegative factors, with one axis per label, in the order of the plan.

    Returns
    -------
    logs : array
        Logarithms of the results, over the batch axes of the plan.
    lost : array of bool
        Where terms that underflowed may matter.
    """
    return _totals(plan, inputs, *_forward(plan, inputs))


def _totals(
    plan: Plan, inputs: list[Array], values: list[Array], logs: list[Any], scales: list[Any]
) -> tuple[Array, Array]:
    """Add up the logarithms of the result and of all scales."""
    total = safe_log(_spread(values[-1], _labels(plan)[len(values) - 1], plan.kept))
    for _, top, own in scales:
        total = total + _spread(namespace(top).log(top), own, plan.kept)
    lost = total < UNSOUND
    for part, own in logs:
        total = total + _spread(part, own, plan.kept)
    xp = namespace(total)
    shape = _batch_sizes(plan, inputs)
    return xp.broadcast_to(total, shape), xp.broadcast_to(lost, shape)


def _batch_sizes(plan: Plan, inputs: list[Array]) -> tuple[int, ...]:
    sizes = {v: n for labels, x in zip(plan.inputs, inputs, strict=True) for v, n in zip(labels, x.shape, strict=True)}
    return tuple(sizes.get(v, 1) for v in plan.kept)


def run_logs(plan: Plan, inputs: list[Array]) -> Array:
    """Contract logarithms of factors, in logarithms; slow, and exact for every range."""
    values = list(inputs)
    labels = _labels(plan)
    for step in plan.steps:
        a, la = values[step.left], labels[step.left]
        if step.right < 0:
            values.append(_log_sum(a, la, step.out))
            continue
        b, lb = values[step.right], labels[step.right]
        both = tuple(sorted({*la, *lb}))
        values.append(_log_sum(_spread(a, la, both) + _spread(b, lb, both), both, step.out))
    total = _spread(values[-1], labels[len(values) - 1], plan.kept)
    return namespace(total).broadcast_to(total, _batch_sizes(plan, inputs))


def posteriors(plan: Plan, inputs: list[Any]) -> tuple[Any, Any, list[Any]]:
    """Return what `run` returns, and the posterior probabilities of the variables of every input (NumPy).

    One backward pass gives the derivatives of the logarithm of the result; times the factor, these are posteriors.
    Where a batch axis is not one of the input, they are sums over it. Elements of probability zero give zeros.
    """
    values, logs, scales = _forward(plan, inputs)
    totals, lost = _totals(plan, inputs, values, logs, scales)
    labels, n = _labels(plan), len(plan.inputs)
    tops = {k: top for k, top, _ in scales}
    own = labels[len(values) - 1]
    last = np.broadcast_to(_spread(values[-1], own, plan.kept), _batch_sizes(plan, inputs))
    seed = np.divide(1.0, last, out=np.zeros(last.shape), where=last > 0)
    slopes: dict[int, Any] = {len(values) - 1: _summed(seed, plan.kept, own)}
    for k in reversed(range(len(plan.steps))):
        step, slope = plan.steps[k], slopes.pop(n + k)
        if n + k in tops:
            slope = slope / _aligned(tops[n + k], step.out)
        if step.right < 0:
            slopes[step.left] = _broadcast(slope, step.out, labels[step.left], values[step.left].shape)
            continue
        for mine, other in ((step.left, step.right), (step.right, step.left)):
            wanted = tuple(v for v in labels[mine] if v in step.out or v in labels[other])
            found = contract(slope, step.out, values[other], labels[other], wanted)
            slopes[mine] = _broadcast(found, wanted, labels[mine], values[mine].shape)
    return totals, lost, [values[k] * slopes[k] for k in range(n)]


def contract(a: Array, la: Labels, b: Array, lb: Labels, out: Labels) -> Array:
    """Multiply two factors and sum over the labels that are not in ``out``; axes are in the order of the labels."""
    xp = namespace(a, b)
    a, la = _summed(a, la, {*out, *lb}), tuple(v for v in la if v in out or v in lb)
    b, lb = _summed(b, lb, {*out, *la}), tuple(v for v in lb if v in out or v in la)
    inner = tuple(v for v in la if v in lb and v not in out)
    if not inner:
        return _spread(a, la, out) * _spread(b, lb, out)
    shared = tuple(v for v in la if v in lb and v in out)
    size = dict(zip(la, a.shape, strict=True)) | dict(zip(lb, b.shape, strict=True))
    left = tuple(v for v in la if v not in lb)
    right = tuple(v for v in lb if v not in la)
    products, terms, plane = _size(size, shared), _size(size, inner), _size(size, left) * _size(size, right)
    if terms * (CALL + products * plane) < products * (PRODUCT + terms * plane / 3):
        return _planes(a, la, b, lb, inner, out)
    x = _ordered(a, la, shared + left + inner, (_size(size, shared), _size(size, left), _size(size, inner)))
    y = _ordered(b, lb, shared + inner + right, (_size(size, shared), _size(size, inner), _size(size, right)))
    flat = shared + left + right
    value = xp.reshape(x @ y, tuple(size[v] for v in flat))
    return xp.permute_dims(value, tuple(flat.index(v) for v in out))


def _planes(a: Array, la: Labels, b: Array, lb: Labels, inner: Labels, out: Labels) -> Array:
    """Add up products of planes over all labels of ``out``, the batch axes last."""
    every = inner + out
    a, b = (_spread(x, own, every, ordered=False) for x, own in ((a, la), (b, lb)))
    sizes = [max(a.shape[k], b.shape[k]) for k in range(len(inner))]
    total: Any = None
    buffer: Any = None
    for at in product(*map(range, sizes)):
        if total is None:
            total = a[(*at, ...)] * b[(*at, ...)]
        elif is_numpy_array(total):
            buffer = np.multiply(a[at], b[at], out=buffer)
            total += buffer
        else:
            total = total + a[(*at, ...)] * b[(*at, ...)]
    return total


def _forward(plan: Plan, inputs: list[Array]) -> tuple[list[Array], list[Any], list[Any]]:
    """Return all scaled factors, the logarithms of the scales of the inputs, and the scales of the steps."""
    values, logs, scales = [], [], []
    for x, labels in zip(inputs, plan.inputs, strict=True):
        top = _maximum(x, labels)
        values.append(x / _aligned(top, labels))
        logs.append((namespace(top).log(top), _batch_of(labels)))
    named = _labels(plan)
    for step in plan.steps:
        a, la = values[step.left], named[step.left]
        if step.right < 0:
            value = _summed(a, la, step.out)
        else:
            value = contract(a, la, values[step.right], named[step.right], step.out)
        if step.scaled:
            top = _maximum(value, step.out)
            value = value / _aligned(top, step.out)
            scales.append((len(values), top, _batch_of(step.out)))
        values.append(value)
    return values, logs, scales


def _batch_of(labels: Labels) -> Labels:
    return tuple(v for v in labels if v >= BATCH)


def _labels(plan: Plan) -> dict[int, Labels]:
    return dict(enumerate((*plan.inputs, *(step.out for step in plan.steps))))


def _maximum(x: Array, labels: Labels) -> Array:
    """Return the largest entry over the variables, 1 where all are zero."""
    xp = namespace(x)
    axes = tuple(k for k, v in enumerate(labels) if v < BATCH)
    top = xp.max(x, axis=axes) if axes else x
    return xp.where(top > 0, top, xp.ones_like(top))


def _aligned(top: Array, labels: Labels) -> Array:
    """Give an array over the batch axes of ``labels``, which come last, an axis of size 1 for every variable."""
    return namespace(top).reshape(top, (*(1 for v in labels if v < BATCH), *top.shape))


def _size(size: dict[int, int], labels: Labels) -> int:
    return prod(size[v] for v in labels)


def _ordered(x: Array, own: Labels, wanted: Labels, shape: tuple[int, ...]) -> Array:
    xp = namespace(x)
    return xp.reshape(xp.permute_dims(x, tuple(own.index(v) for v in wanted)), shape)


def _spread(x: Array, own: Labels, wanted: Labels, *, ordered: bool = True) -> Array:
    """Insert axes of size 1 for the labels that are missing; ``ordered`` if the axes need no permutation."""
    xp = namespace(x)
    if not ordered:
        mine = tuple(v for v in wanted if v in own)
        x, own = xp.permute_dims(x, tuple(own.index(v) for v in mine)), mine
    size = dict(zip(own, x.shape, strict=True))
    return x if own == wanted else xp.reshape(x, tuple(size.get(v, 1) for v in wanted))


def _broadcast(x: Any, own: Labels, wanted: Labels, shape: tuple[int, ...]) -> Any:
    return np.broadcast_to(_spread(x, own, wanted), shape)


def _summed(x: Array, own: Labels, wanted: Any) -> Array:
    axes = tuple(k for k, v in enumerate(own) if v not in wanted)
    return namespace(x).sum(x, axis=axes) if axes else x


def _log_sum(x: Array, own: Labels, wanted: Labels) -> Array:
    axes = tuple(k for k, v in enumerate(own) if v not in wanted)
    return logsumexp(x, axis=axes) if axes else x
