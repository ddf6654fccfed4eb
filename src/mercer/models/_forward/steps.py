"""The steps of the scaled forward and backward recursions as vector instructions (ALG-FB).

Two forms share every line. In *lanes*, a vector holds one state of eight runs, and n vectors hold the n states. In a
*row*, a vector holds eight states of one run, and the last one is filled up with states of weight zero. A positive
literal ``form`` is the number of states of the first form, a negative one counts the vectors of the second.
Both do the same operations on every number in the same order: a run has the same bits in both.

What is possible never becomes zero here. Positive probabilities, relative densities, and scaled weights of the
forward and backward recursions below `FLOOR` are raised to it, so no product underflows, zero means impossible, and
every result is an upper bound. `mercer.models._forward.loops` says when the bound is as good as the truth.
"""

from __future__ import annotations

import math
from typing import Any

from numba.core import cgutils
from numba.extending import intrinsic

from mercer.compiled.lanes import LANES, Emitter, Value, operation

__all__ = ["FLOOR", "backward", "begin", "forward", "outer", "settle", "weigh"]

FLOOR = 1e-100
_LOG_FLOOR = math.log(FLOOR)

# Rows of a run's record, eight numbers each.
LINES = 8
PRODUCT, EXPONENT, SHIFT, ERROR, LEAST, LOW, TOP, LENGTH = range(LINES)


def _factor(e: Emitter, form: int, array: Value, base: Value, i: Value) -> Value:
    """State i: a vector of its own, or one number for all lanes."""
    if form > 0:
        return e.load(array, e.offset(base, i, LANES))
    return e.spread(array, e.builder.add(base, i))


def _row(e: Emitter, form: int, array: Value, base: Value) -> list[Value]:
    """Load all states that start at ``base``."""
    return [e.load(array, e.builder.add(base, e.constant(k * LANES))) for k in range(abs(form))]


def _keep(e: Emitter, values: list[Value], array: Value, base: Value) -> None:
    for k, value in enumerate(values):
        e.store(value, array, e.builder.add(base, e.constant(k * LANES)))


def _combined(e: Emitter, form: int, values: list[Value], combine: Any) -> Value:
    """Combine over all states, in one order for both forms."""
    if form > 0:
        return e.beside(values, combine)
    together = values[0]
    for value in values[1:]:
        together = combine(together, value)
    return e.across(together, combine)


def _times_matrix(e: Emitter, form: int, array: Value, base: Value, matrix: Value, states: Value) -> list[Value]:
    """Multiply a row by a matrix: every state sums over the others in their order."""
    count = abs(form)

    def terms(i: Value) -> list[Value]:
        weight = _factor(e, form, array, base, i)
        row = e.offset(e.constant(0), i, count * LANES)
        return [e.multiply(weight, value) for value in _row(e, form, matrix, row)]

    return e.loop_sums(count, e.constant(form) if form > 0 else states, terms)


def _raised(e: Emitter, values: list[Value], possible: list[Value]) -> list[Value]:
    """Raise what is possible to the floor, and leave zeros; NaN stays."""
    zero = e.number(0.0)
    return [
        e.where(p, ">", zero, e.at_least(value, FLOOR), zero, unordered=True)
        for value, p in zip(values, possible, strict=True)
    ]


def _line(e: Emitter, row: int) -> Value:
    return e.constant(row * LANES)


def _arrived(
    e: Emitter, form: int, weights: list[Value], alpha: Value, at: Value, inverse: Value, where: Value,
    record: Value, time: Value,
) -> None:  # fmt: skip
    """Scale the weights of a new observation to sum one, and take down what was divided out."""
    zero, one = e.number(0.0), e.number(1.0)
    total = _combined(e, form, weights, e.add)
    # An ended lane has no weight left: its inverse is zero, which keeps all that follows at zero.
    scale = e.where(total, ">", zero, e.builder.fdiv(one, total), zero, unordered=True)
    _keep(e, _raised(e, [e.multiply(w, scale) for w in weights], weights), alpha, at)
    e.store(scale, inverse, where)
    running = e.builder.fcmp_ordered("<", e.filled(time), e.load(record, _line(e, LENGTH)))
    divided = e.builder.select(running, total, one)
    e.store(e.multiply(e.load(record, _line(e, PRODUCT)), divided), record, _line(e, PRODUCT))
    least = e.load(record, _line(e, LEAST))
    candidate = e.builder.select(running, total, least)
    e.store(e.where(candidate, ">=", least, least, candidate), record, _line(e, LEAST))
    # The smallest possible weight before scaling: it is below the floor wherever something was raised.
    lowest = e.load(record, _line(e, LOW))
    for weight in weights:
        lowest = e.where(e.where(weight, ">", zero, weight, one), "<", lowest, weight, lowest)
    e.store(lowest, record, _line(e, LOW))


@intrinsic(prefer_literal=True)
def weigh(typing: Any, form: Any, likelihood: Any, at: Any, record: Any) -> Any:
    """Turn log densities into densities relative to the best state, whose logarithm adds to the shift."""

    def emit(e: Emitter, form: int, likelihood: Value, at: Value, record: Value) -> None:
        logs = _row(e, form, likelihood, at)
        nowhere = e.number(float("-inf"))
        top = _combined(e, form, logs, e.larger)
        top = e.where(top, "==", nowhere, e.number(0.0), top)
        values = []
        for log in logs:
            relative = e.builder.fsub(log, top)
            value = e.exponential(e.at_least(relative, _LOG_FLOOR))
            values.append(e.where(relative, "==", nowhere, e.number(0.0), value))
        _keep(e, values, likelihood, at)
        # The sum's rounding errors are summed on their own: a hundred thousand of them are many.
        before = e.load(record, _line(e, SHIFT))
        after = e.builder.fadd(before, top)
        share = e.builder.fsub(after, before)
        error = e.builder.fadd(e.builder.fsub(before, e.builder.fsub(after, share)), e.builder.fsub(top, share))
        e.store(after, record, _line(e, SHIFT))
        e.store(e.builder.fadd(e.load(record, _line(e, ERROR)), error), record, _line(e, ERROR))

    return operation(form, (likelihood, at, record), emit)


@intrinsic(prefer_literal=True)
def begin(
    typing: Any, form: Any, alpha: Any, at: Any, initial: Any, likelihood: Any, there: Any, inverse: Any, where: Any,
    record: Any, time: Any,
) -> Any:  # fmt: skip
    """Meet the first observation: alpha = initial o likelihood, scaled."""

    def emit(
        e: Emitter, form: int, alpha: Value, at: Value, initial: Value, likelihood: Value, there: Value,
        inverse: Value, where: Value, record: Value, time: Value,
    ) -> None:  # fmt: skip
        pairs = zip(_row(e, form, initial, e.constant(0)), _row(e, form, likelihood, there), strict=True)
        weights = [e.multiply(p, value) for p, value in pairs]
        _arrived(e, form, weights, alpha, at, inverse, where, record, time)

    return operation(form, (alpha, at, initial, likelihood, there, inverse, where, record, time), emit)


@intrinsic(prefer_literal=True)
def forward(
    typing: Any, form: Any, alpha: Any, before: Any, at: Any, transition: Any, likelihood: Any, there: Any,
    inverse: Any, where: Any, record: Any, time: Any, states: Any,
) -> Any:  # fmt: skip
    """Meet the next observation: alpha[at] = (alpha[before] transition) o likelihood, scaled."""

    def emit(
        e: Emitter, form: int, alpha: Value, before: Value, at: Value, transition: Value, likelihood: Value,
        there: Value, inverse: Value, where: Value, record: Value, time: Value, states: Value,
    ) -> None:  # fmt: skip
        expected = _times_matrix(e, form, alpha, before, transition, states)
        pairs = zip(expected, _row(e, form, likelihood, there), strict=True)
        weights = [e.multiply(p, value) for p, value in pairs]
        _arrived(e, form, weights, alpha, at, inverse, where, record, time)

    kinds = (alpha, before, at, transition, likelihood, there, inverse, where, record, time, states)
    return operation(form, kinds, emit)


@intrinsic(prefer_literal=True)
def settle(typing: Any, form: Any, record: Any) -> Any:
    """Move the exponent of the product of all sums into a count of its own: it never underflows."""

    def emit(e: Emitter, form: int, record: Value) -> None:
        mantissa, exponent = e.split(e.load(record, _line(e, PRODUCT)))
        e.store(mantissa, record, _line(e, PRODUCT))
        e.store(e.add(e.load(record, _line(e, EXPONENT)), exponent), record, _line(e, EXPONENT))

    return operation(form, (record,), emit)


@intrinsic(prefer_literal=True)
def backward(
    typing: Any, form: Any, alpha: Any, at: Any, transposed: Any, likelihood: Any, inverse: Any, where: Any,
    visits: Any, gamma: Any, record: Any, time: Any, states: Any,
) -> Any:  # fmt: skip
    """Go back to the observation at ``at``; what the next one holds lies behind it in ``likelihood``.

    There, likelihoods are replaced by likelihood o beta / sum, which all that is earlier needs. Visits grow by the
    posterior, which stays in ``gamma``.
    """

    def emit(
        e: Emitter, form: int, alpha: Value, at: Value, transposed: Value, likelihood: Value, inverse: Value,
        where: Value, visits: Value, gamma: Value, record: Value, time: Value, states: Value,
    ) -> None:  # fmt: skip
        zero, one = e.number(0.0), e.number(1.0)
        following = e.builder.add(at, e.constant(abs(form) * LANES))
        beta = _times_matrix(e, form, likelihood, following, transposed, states)
        beta = _raised(e, beta, beta)
        last = e.builder.fcmp_ordered("==", e.add(e.filled(time), one), e.load(record, _line(e, LENGTH)))
        weights = _row(e, form, alpha, at)
        # A state that cannot be reached has no say: its beta may be anything, even infinite.
        beta = [
            e.where(a, ">", zero, e.builder.select(last, one, value), zero)
            for a, value in zip(weights, beta, strict=True)
        ]
        posterior = [e.multiply(a, value) for a, value in zip(weights, beta, strict=True)]
        _keep(e, posterior, gamma, e.constant(0))
        sums = _row(e, form, visits, e.constant(0))
        _keep(e, [e.add(v, p) for v, p in zip(sums, posterior, strict=True)], visits, e.constant(0))
        scale, top = e.load(inverse, where), e.load(record, _line(e, TOP))
        waiting = []
        for value, weight in zip(beta, _row(e, form, likelihood, at), strict=True):
            scaled = e.multiply(value, scale)
            top = e.larger(scaled, top)
            waiting.append(e.multiply(weight, scaled))
        e.store(top, record, _line(e, TOP))
        _keep(e, waiting, likelihood, at)

    kinds = (alpha, at, transposed, likelihood, inverse, where, visits, gamma, record, time, states)
    return operation(form, kinds, emit)


@intrinsic(prefer_literal=True)
def outer(typing: Any, form: Any, sums: Any, i: Any, alpha: Any, at: Any, likelihood: Any, steps: Any) -> Any:
    """Add alpha_t(i) times what waits behind it, for ``steps`` observations from ``at`` on, to row i of ``sums``."""

    def emit(
        e: Emitter, form: int, sums: Value, i: Value, alpha: Value, at: Value, likelihood: Value, steps: Value
    ) -> None:
        b, width = e.builder, abs(form) * LANES
        row = e.offset(e.constant(0), i, width)
        cells = [cgutils.alloca_once(b, e.vector) for _ in range(abs(form))]
        for cell, value in zip(cells, _row(e, form, sums, row), strict=True):
            b.store(value, cell)
        with cgutils.for_range(b, steps) as loop:
            here = e.offset(at, loop.index, width)
            weight = _factor(e, form, alpha, here, i)
            for cell, value in zip(cells, _row(e, form, likelihood, b.add(here, e.constant(width))), strict=True):
                b.store(e.add(b.load(cell), e.multiply(weight, value)), cell)
        _keep(e, [b.load(cell) for cell in cells], sums, row)

    return operation(form, (sums, i, alpha, at, likelihood, steps), emit)
