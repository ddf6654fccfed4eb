"""The steps of the scaled forward and backward recursions as vector instructions (ALG-FB).

Both layouts (`mercer.compiled.forward_form`) do the same operations in the same order: the results of a run are
bit-identical in both.

Positive numbers never become zero here. Positive probabilities, relative densities, and scaled weights of the forward
and backward recursions below `FLOOR` are raised to it, so no product underflows, zero means impossible, and every
result is an upper bound. `mercer.compiled.forward` says when the error of the bound is negligible.
"""

from __future__ import annotations

import math

from mercer.compiled.forward_form import Form, combined, factor, keep, parts, row, some
from mercer.compiled.lanes import Emitter, Value

FLOOR = 1e-100
_LOG_FLOOR = math.log(FLOOR)

# Rows of a group's record, with one number per lane.
LINES = 8
PRODUCT, EXPONENT, SHIFT, ERROR, LEAST, LOW, TOP, LENGTH = range(LINES)


def _times_matrix(e: Emitter, form: Form, array: Value, base: Value, matrix: Value, states: Value) -> list[Value]:
    """Multiply a row by a matrix: every state sums over all states in order."""
    found: list[Value] = []
    for part in parts(form):

        def terms(i: Value, part: range = part) -> list[Value]:
            weight = factor(e, form, array, base, i)
            row = e.offset(e.constant(part.start * form.lanes), i, form.size)
            return [e.multiply(weight, value) for value in some(e, len(part), matrix, row)]

        found += e.loop_sums(len(part), states if form.row else e.constant(form.vectors), terms)
    return found


def _raised(e: Emitter, values: list[Value], possible: list[Value]) -> list[Value]:
    """Raise positive numbers to the floor; zeros and NaN stay."""
    zero = e.number(0.0)
    return [
        e.where(p, ">", zero, e.at_least(value, FLOOR), zero, unordered=True)
        for value, p in zip(values, possible, strict=True)
    ]


def _line(e: Emitter, row: int) -> Value:
    return e.constant(row * e.lanes)


def _arrived(
    e: Emitter, form: Form, weights: list[Value], alpha: Value, at: Value, inverse: Value, where: Value,
    record: Value, time: Value,
) -> None:  # fmt: skip
    """Scale the weights of a new observation to sum 1, and record the divisor."""
    zero, one = e.number(0.0), e.number(1.0)
    total = combined(e, form, weights, e.add)
    # A lane that has ended has zero weight: its inverse is set to zero, which keeps everything after it at zero.
    scale = e.where(total, ">", zero, e.builder.fdiv(one, total), zero, unordered=True)
    keep(e, _raised(e, [e.multiply(w, scale) for w in weights], weights), alpha, at)
    e.store(scale, inverse, where)
    running = e.builder.fcmp_ordered("<", e.filled(time), e.load(record, _line(e, LENGTH)))
    divided = e.builder.select(running, total, one)
    e.store(e.multiply(e.load(record, _line(e, PRODUCT)), divided), record, _line(e, PRODUCT))
    least = e.load(record, _line(e, LEAST))
    candidate = e.builder.select(running, total, least)
    e.store(e.where(candidate, ">=", least, least, candidate), record, _line(e, LEAST))
    # The smallest possible weight before scaling: it is below the floor if any weight was raised.
    lowest = e.load(record, _line(e, LOW))
    for weight in weights:
        lowest = e.where(e.where(weight, ">", zero, weight, one), "<", lowest, weight, lowest)
    e.store(lowest, record, _line(e, LOW))


def weigh(e: Emitter, form: Form, likelihood: Value, at: Value, record: Value) -> None:
    """Convert log densities to densities relative to the best state, whose log density is added to the shift."""
    logs = row(e, form, likelihood, at)
    nowhere = e.number(float("-inf"))
    top = combined(e, form, logs, e.larger)
    top = e.where(top, "==", nowhere, e.number(0.0), top)
    values = []
    for log in logs:
        relative = e.builder.fsub(log, top)
        value = e.exponential(e.at_least(relative, _LOG_FLOOR))
        values.append(e.where(relative, "==", nowhere, e.number(0.0), value))
    keep(e, values, likelihood, at)
    # Compensated summation: rounding errors add up over a hundred thousand steps.
    before = e.load(record, _line(e, SHIFT))
    after = e.builder.fadd(before, top)
    share = e.builder.fsub(after, before)
    error = e.builder.fadd(e.builder.fsub(before, e.builder.fsub(after, share)), e.builder.fsub(top, share))
    e.store(after, record, _line(e, SHIFT))
    e.store(e.builder.fadd(e.load(record, _line(e, ERROR)), error), record, _line(e, ERROR))


def begin(
    e: Emitter, form: Form, alpha: Value, at: Value, initial: Value, likelihood: Value, there: Value,
    inverse: Value, where: Value, record: Value, time: Value,
) -> None:  # fmt: skip
    """Process the first observation: alpha = initial o likelihood, scaled."""
    pairs = zip(row(e, form, initial, e.constant(0)), row(e, form, likelihood, there), strict=True)
    weights = [e.multiply(p, value) for p, value in pairs]
    _arrived(e, form, weights, alpha, at, inverse, where, record, time)


def forward(
    e: Emitter, form: Form, alpha: Value, before: Value, at: Value, transition: Value, likelihood: Value,
    there: Value, inverse: Value, where: Value, record: Value, time: Value, states: Value,
) -> None:  # fmt: skip
    """Process the next observation: alpha[at] = (alpha[before] transition) o likelihood, scaled."""
    expected = _times_matrix(e, form, alpha, before, transition, states)
    pairs = zip(expected, row(e, form, likelihood, there), strict=True)
    weights = [e.multiply(p, value) for p, value in pairs]
    _arrived(e, form, weights, alpha, at, inverse, where, record, time)


def settle(e: Emitter, form: Form, record: Value) -> None:
    """Move the exponent of the product of all sums to a separate integer, so that it never underflows."""
    mantissa, exponent = e.split(e.load(record, _line(e, PRODUCT)))
    e.store(mantissa, record, _line(e, PRODUCT))
    e.store(e.add(e.load(record, _line(e, EXPONENT)), exponent), record, _line(e, EXPONENT))


def backward(
    e: Emitter, form: Form, alpha: Value, at: Value, transposed: Value, likelihood: Value, inverse: Value,
    where: Value, visits: Value, gamma: Value, there: Value, record: Value, time: Value, states: Value,
) -> None:  # fmt: skip
    """Process the observation at ``at`` backward; the next one comes after it in ``likelihood``.

    Replaces likelihoods there by likelihood o beta / sum, which earlier observations need. Adds the posterior to
    visits, and writes it to ``gamma`` at ``there``.
    """
    zero, one = e.number(0.0), e.number(1.0)
    following = e.builder.add(at, e.constant(form.size))
    beta = _times_matrix(e, form, likelihood, following, transposed, states)
    beta = _raised(e, beta, beta)
    last = e.builder.fcmp_ordered("==", e.add(e.filled(time), one), e.load(record, _line(e, LENGTH)))
    weights = row(e, form, alpha, at)
    # Ignore unreachable states: their beta may have any value, even infinity.
    beta = [
        e.where(a, ">", zero, e.builder.select(last, one, value), zero) for a, value in zip(weights, beta, strict=True)
    ]
    posterior = [e.multiply(a, value) for a, value in zip(weights, beta, strict=True)]
    keep(e, posterior, gamma, there)
    sums = row(e, form, visits, e.constant(0))
    keep(e, [e.add(v, p) for v, p in zip(sums, posterior, strict=True)], visits, e.constant(0))
    scale, top = e.load(inverse, where), e.load(record, _line(e, TOP))
    waiting = []
    for value, weight in zip(beta, row(e, form, likelihood, at), strict=True):
        scaled = e.multiply(value, scale)
        top = e.larger(scaled, top)
        waiting.append(e.multiply(weight, scaled))
    e.store(top, record, _line(e, TOP))
    keep(e, waiting, likelihood, at)
