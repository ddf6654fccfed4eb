"""Sums over runs as vector instructions: likelihoods of codes, expected counts of codes, and products of neighbors."""

from __future__ import annotations

import math

from mercer.compiled.forward_form import Form, at_once, factor, keep, parts, some
from mercer.compiled.lanes import Emitter, Value


def choose(
    e: Emitter, form: Form, likelihood: Value, at: Value, tables: Value, n_codes: Value, seen: Value, where: Value
) -> None:
    """Look up the likelihoods of the codes in ``seen`` in tables [code][state][lane]; 0 for other codes."""
    code = e.load(seen, where)
    for part in parts(form):

        def terms(c: Value, part: range = part) -> list[Value]:
            mine = e.builder.fcmp_ordered("==", code, e.filled(e.builder.sitofp(c, e.vector.element)))
            row = e.offset(e.constant(part.start * e.lanes), c, form.size)
            zero = e.number(0.0)
            return [e.builder.select(mine, value, zero) for value in some(e, len(part), tables, row)]

        keep(e, e.loop_sums(len(part), n_codes, terms), likelihood, e.offset(at, e.constant(part.start), e.lanes))


def count(
    e: Emitter, form: Form, counts: Value, code: Value, seen: Value, where: Value, gamma: Value, steps: Value
) -> None:
    """Add the posteriors of ``steps`` observations to the counts [code][state][lane] where ``code`` was observed."""
    wanted, zero = e.filled(e.builder.sitofp(code, e.vector.element)), e.number(0.0)
    for part in parts(form):
        here = e.offset(e.constant(part.start * e.lanes), code, form.size)

        def terms(t: Value, part: range = part) -> list[Value]:
            mine = e.builder.fcmp_ordered("==", e.load(seen, e.offset(where, t, e.lanes)), wanted)
            row = e.offset(e.constant(part.start * e.lanes), t, form.size)
            return [e.builder.select(mine, value, zero) for value in some(e, len(part), gamma, row)]

        start = some(e, len(part), counts, here)
        keep(e, e.loop_sums(len(part), steps, terms, start), counts, here)


def outer(
    e: Emitter, form: Form, sums: Value, i: Value, alpha: Value, at: Value, likelihood: Value, steps: Value
) -> None:
    """Add alpha_t(i) times the waiting weights of t + 1 to ``sums``, for ``steps`` observations from ``at`` on.

    In lanes, all states are processed at once, for any i; in a row, state i.
    """
    for rows, columns in _tiles(form):
        origin = e.offset(e.constant(rows.start * form.size + columns.start * e.lanes), i, form.size * form.row)
        places = [e.builder.add(origin, e.constant(k * form.size)) for k in range(len(rows))]

        def terms(t: Value, rows: range = rows, columns: range = columns) -> list[Value]:
            here = e.offset(at, t, form.size)
            weights = [factor(e, form, alpha, here, i if form.row else e.constant(k)) for k in rows]
            after = e.builder.add(here, e.constant(form.size + columns.start * e.lanes))
            values = some(e, len(columns), likelihood, after)
            return [e.multiply(weight, value) for weight in weights for value in values]

        start = [value for place in places for value in some(e, len(columns), sums, place)]
        found = e.loop_sums(len(start), steps, terms, start)
        for k, place in enumerate(places):
            keep(e, found[k * len(columns) : (k + 1) * len(columns)], sums, place)


def _tiles(form: Form) -> list[tuple[range, range]]:
    """Split a matrix of vectors of sums into nearly square tiles that fit the registers with their factors."""
    room = at_once(form)
    high = 1 if form.row else min(form.vectors, max(1, math.isqrt(room)))
    wide = min(form.vectors, max(1, (room - high) // high)) if high > 1 else min(form.vectors, room)
    return [
        (range(i, min(i + high, 1 if form.row else form.vectors)), range(j, min(j + wide, form.vectors)))
        for i in range(0, 1 if form.row else form.vectors, high)
        for j in range(0, form.vectors, wide)
    ]
