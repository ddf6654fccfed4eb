"""Warnings of library code: collected per call, and given to the user once, at the end of the call.

Python's own ``warnings.catch_warnings`` changes the state of the whole process, which two threads can leave changed
for good. Here messages are gathered in a context variable: every thread has its own, and `thread_map` passes that of
its caller to its workers.
"""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])

_NOT_THE_USER = ("joblib", "mercer", "sklearn")
"""Packages whose lines a warning does not point at."""
NAMED = 5
"""Models that are named in a message; the others are counted."""


class Notice(NamedTuple):
    """A message and its category."""

    message: str
    category: type[Warning]


class Unconverged(NamedTuple):
    """Models that EM has left before they converged; those of one call are joined."""

    who: str
    """The algorithm."""
    n_iter: int
    names: tuple[str, ...]
    """The first `NAMED` models."""
    total: int
    """How many there are."""


_gathered: ContextVar[list[Notice | Unconverged] | None] = ContextVar("mercer_notices", default=None)


def notify(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn the user, at the end of the call that the user made."""
    _add([Notice(message, category)])


def notify_unconverged(who: str, n_iter: int, names: list[str]) -> None:
    """Warn the user of models that have not converged."""
    if names:
        _add([Unconverged(who, n_iter, tuple(names[:NAMED]), len(names))])


def repeat(notices: list[Notice | Unconverged]) -> None:
    """Give notices again, such as those of a fit that was found in a cache."""
    _add(notices)


def _add(notices: list[Notice | Unconverged]) -> None:
    gathered = _gathered.get()
    if gathered is None:
        _warn(notices)
    else:
        gathered += notices


@contextmanager
def collected(notices: list[Notice | Unconverged] | None = None) -> Iterator[list[Notice | Unconverged]]:
    """Collect the notices of a block; whoever opens it decides what becomes of them."""
    notices = [] if notices is None else notices
    token = _gathered.set(notices)
    try:
        yield notices
    finally:
        _gathered.reset(token)


def warns_once(function: Function) -> Function:
    """Decorate a public function: the notices of one call become warnings when it ends, each once."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if _gathered.get() is not None:  # called by another one
            return function(*args, **kwargs)
        notices: list[Notice | Unconverged] = []
        try:
            with collected(notices):
                result = function(*args, **kwargs)
        except BaseException:
            with suppress(Warning):  # where warnings are errors, the error of the call comes first
                _warn(notices)  # a warning may tell why it failed
            raise
        _warn(notices)
        return result

    return cast(Function, wrapper)


def _warn(notices: list[Notice | Unconverged]) -> None:
    plain = [notice for notice in notices if isinstance(notice, Notice)]
    late = [notice for notice in notices if isinstance(notice, Unconverged)]
    for message, category in dict.fromkeys([*plain, *_joined(late)]):
        level, frame = 1, sys._getframe()
        while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _NOT_THE_USER:
            level, frame = level + 1, frame.f_back
        warnings.warn(message, category, stacklevel=level)


def _joined(late: list[Unconverged]) -> list[Notice]:
    """Make one message of all models that have not converged."""
    if not late:
        return []
    from sklearn.exceptions import ConvergenceWarning

    sentences = []
    for who, n_iter in dict.fromkeys((notice.who, notice.n_iter) for notice in late):
        alike = [notice for notice in late if (notice.who, notice.n_iter) == (who, n_iter)]
        names = list(dict.fromkeys(name for notice in alike for name in notice.names))[:NAMED]
        others = sum(notice.total for notice in alike) - len(names)
        named = ", ".join(names) + (f" and {others} others" if others else "")
        sentences.append(f"{who} stopped after n_iter = {n_iter} iterations, before {named} converged.")
    return [Notice(" ".join([*sentences, "Increase n_iter or tol."]), ConvergenceWarning)]
