"""Two layouts of groups of runs in vectors, so that all forward and backward steps are written once.

In *lanes*, a vector holds one state of several runs, and n vectors hold the n states. In a *row*, a vector holds
several states of one run, and the last one is padded with states of weight zero. The numbers of lanes and of sums
in registers depend on the processor.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mercer.compiled.lanes import Emitter, Value
from mercer.compiled.machine import MACHINE

ROW = MACHINE.width
"""Number of states in one vector of a row."""
FEW_STATES = 4
"""Chains of at most this many dependent sums are short enough to hide latency."""


class Form(NamedTuple):
    """Layout of a group of runs in vectors."""

    vectors: int
    """Number of vectors for all states."""
    lanes: int
    """Number of lanes of a vector."""
    row: bool
    """Whether the lanes are states of one run, instead of several runs."""

    @classmethod
    def together(cls, n: int) -> Form:
        """Return the form with runs of n states in lanes: two registers if n is small, to hide latency."""
        return cls(n, MACHINE.width * (2 if n <= FEW_STATES else 1), False)

    @classmethod
    def alone(cls, n: int) -> Form:
        """Return the form with n states of one run in lanes."""
        return cls(-(-n // ROW), ROW, True)

    @property
    def runs(self) -> int:
        """Number of runs in a group."""
        return 1 if self.row else self.lanes

    @property
    def stride(self) -> int:
        """Distance between two states of a run in memory."""
        return 1 if self.row else self.lanes

    @property
    def size(self) -> int:
        """Total number of lanes of all vectors."""
        return self.vectors * self.lanes


def factor(e: Emitter, form: Form, array: Value, base: Value, i: Value) -> Value:
    """State i: one vector, or one number copied to all lanes."""
    if form.row:
        return e.spread(array, e.builder.add(base, i))
    return e.load(array, e.offset(base, i, form.lanes))


def some(e: Emitter, count: int, array: Value, base: Value) -> list[Value]:
    """Load vectors from ``base`` on."""
    return [e.load(array, e.builder.add(base, e.constant(k * e.lanes))) for k in range(count)]


def row(e: Emitter, form: Form, array: Value, base: Value) -> list[Value]:
    """Load the vectors of all states, from ``base`` on."""
    return some(e, form.vectors, array, base)


def keep(e: Emitter, values: list[Value], array: Value, base: Value) -> None:
    """Store vectors from ``base`` on."""
    for k, value in enumerate(values):
        e.store(value, array, e.builder.add(base, e.constant(k * e.lanes)))


def combined(e: Emitter, form: Form, values: list[Value], combine: Any) -> Value:
    """Combine over all states, in one order for both forms."""
    if not form.row:
        return e.beside(values, combine, ROW)
    together = values[0]
    for value in values[1:]:
        together = combine(together, value)
    return e.across(together, combine)


def at_once(form: Form) -> int:
    """Return the number of vectors of sums that fit the registers together with two factors."""
    each = -(-form.lanes // MACHINE.width)
    return max(1, (MACHINE.registers - 2) // each - 1)


def parts(form: Form) -> list[range]:
    """Split the vectors of all states into parts whose sums stay in registers."""
    room = at_once(form)
    return [range(first, min(first + room, form.vectors)) for first in range(0, form.vectors, room)]
