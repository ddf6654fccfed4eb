"""Two forms in which groups of runs lie in vectors, for one source of all steps of forward and backward.

In *lanes*, a vector holds one state of several runs, and n vectors hold the n states. In a *row*, a vector holds
several states of one run, and the last one is filled up with states of weight zero. The numbers of lanes and of sums
in registers follow the machine.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mercer.compiled.lanes import Emitter, Value
from mercer.compiled.machine import MACHINE

ROW = MACHINE.width
"""States in one vector of a row."""
FEW_STATES = 4
"""So short chains of sums take less time than their latency."""


class Form(NamedTuple):
    """How a group of runs lies in vectors."""

    vectors: int
    """Vectors that hold all states."""
    lanes: int
    """Numbers in a vector."""
    row: bool
    """Whether the lanes are states of one run, rather than runs."""

    @classmethod
    def together(cls, n: int) -> Form:
        """Put runs of n states side by side: two registers full of them where n is small, so that none waits."""
        return cls(n, MACHINE.width * (2 if n <= FEW_STATES else 1), False)

    @classmethod
    def alone(cls, n: int) -> Form:
        """Put n states of one run side by side."""
        return cls(-(-n // ROW), ROW, True)

    @property
    def runs(self) -> int:
        """Runs of a group."""
        return 1 if self.row else self.lanes

    @property
    def stride(self) -> int:
        """Distance of two states of a run."""
        return 1 if self.row else self.lanes

    @property
    def size(self) -> int:
        """Numbers of all vectors."""
        return self.vectors * self.lanes


def factor(e: Emitter, form: Form, array: Value, base: Value, i: Value) -> Value:
    """State i: a vector of its own, or one number for all lanes."""
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
    """Count the vectors of sums that stay in registers beside a factor and what it is multiplied by."""
    each = -(-form.lanes // MACHINE.width)
    return max(1, (MACHINE.registers - 2) // each - 1)


def parts(form: Form) -> list[range]:
    """Cut the vectors of all states into parts whose sums stay in registers."""
    room = at_once(form)
    return [range(first, min(first + room, form.vectors)) for first in range(0, form.vectors, room)]
