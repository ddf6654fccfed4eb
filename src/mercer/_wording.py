"""How messages name parameters, as keyword arguments or options of a command line, and numbers with units."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any

SEVERAL: Any = [...]
"""The value of an option that is a list of the user's."""


class Wording:
    """The words of Python; those of a command line override them."""

    def option(self, name: str, value: Any = ...) -> str:
        """Return a parameter with its value, which may be left to the user: "label='x'", "label="."""
        return f"{name}={'' if value is ... else '[...]' if value is SEVERAL else repr(value)}"

    def passing(self, name: str, value: Any = ..., *, start: bool = False) -> str:
        """Return the cure of passing a parameter, which may start a sentence."""
        return f"{'Pass' if start else 'pass'} {self.option(name, value)}"

    def must_be(self, name: str, what: str) -> str:
        """Return the start of a sentence about a value that is not allowed."""
        return f"{name} must be {what}"

    def covariate(self, column: str) -> str:
        """Return what a column of covariates is called."""
        return "covariate"

    def phrase(self, topic: str, text: str) -> str:
        """Return a phrase that only readers of some topic understand."""
        return text


class _Before(Wording):
    """Messages for a fitted model, which has no ``unknown=``: they suggest making `Sequences` first."""

    def option(self, name: str, value: Any = ...) -> str:
        said = super().option(name, value)
        return f"mc.Sequences(X, alphabet=..., {said})" if name == "unknown" else said


_PYTHON, _BEFORE = Wording(), _Before()
_wording: ContextVar[Wording] = ContextVar("mercer_wording", default=_PYTHON)


def wording() -> Wording:
    """Return the words of the messages that are made here and now."""
    return _wording.get()


@contextmanager
def worded(words: Wording) -> Iterator[None]:
    """Make messages in other words."""
    token = _wording.set(words)
    try:
        yield
    finally:
        _wording.reset(token)


def read_before(given: bool = True) -> AbstractContextManager[None]:
    """Make messages of Python where a given model reads data."""
    return worded(_BEFORE if given and wording() is _PYTHON else wording())


def option(name: str, value: Any = ...) -> str:
    """Return a parameter with its value; see `Wording.option`."""
    return wording().option(name, value)


def passing(name: str, value: Any = ..., *, start: bool = False) -> str:
    """Return the cure of passing a parameter; see `Wording.passing`."""
    return wording().passing(name, value, start=start)


def counted(n: float, what: str) -> str:
    """Return a number and its unit: "1 class", "2 classes"."""
    plural = what + ("es" if what.endswith("s") else "s") if n != 1 and what != "series" else what
    return f"{n:.15g} {plural}"
