"""Warnings of library code: collected per call, and given to the user once, at the end of the call.

Python's own ``warnings.catch_warnings`` changes the state of the whole process, which two threads can leave changed
for good. Here messages are gathered in a context variable: every thread has its own, and `thread_map` passes that of
its caller to its workers.
"""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, NamedTuple, Self, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])

_NOT_THE_USER = ("joblib", "mercer", "sklearn")
"""Packages whose lines a warning does not point at."""
NAMED = 5
"""Names in a message; the others are counted."""


class Notice(NamedTuple):
    """A message and its category."""

    message: str
    category: type[Warning]


class Finding(NamedTuple):
    """What a fit found out about one model; a cache of fits keeps it with the model."""

    topic: str
    """Findings of one topic share one sentence."""
    sentence: str
    """``{names}`` stands for the first models and the number of others, ``{first}`` for one and that number."""
    category: type[Warning] = UserWarning
    cure: str = ""
    """Ends the message; topics with the same cure share one message."""


class About(NamedTuple):
    """A finding about a model, by the model's name in messages."""

    finding: Finding
    name: str


class SampleName(str):
    """The name of a sample in messages, which knows the place of the sample among those that are fitted."""

    place: int

    def __new__(cls, name: str, place: int) -> Self:
        self = super().__new__(cls, name)
        self.place = place
        return self


_gathered: ContextVar[list[Notice | About] | None] = ContextVar("mercer_notices", default=None)


def notify(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn the user, at the end of the call that the user made."""
    repeat([Notice(message, category)])


def notify_unconverged(who: str, n_iter: int, names: list[str]) -> None:
    """Warn the user of models that have not converged."""
    if names:
        from sklearn.exceptions import ConvergenceWarning

        sentence = f"{who} stopped after n_iter = {n_iter} iterations, before {{names}} converged."
        finding = Finding(sentence, sentence, ConvergenceWarning, "Increase n_iter or tol.")
        repeat([About(finding, name) for name in names])


def repeat(notices: Iterable[Notice | About]) -> None:
    """Give notices, perhaps again, such as those of a fit that was found in a cache."""
    gathered = _gathered.get()
    if gathered is None:
        _warn(list(notices))
    else:
        gathered += notices


def by_place(notices: Iterable[Notice | About], n: int) -> tuple[list[list[Finding]], list[Notice | About]]:
    """Return the findings about each of ``n`` samples that are named by a `SampleName`, and all other notices."""
    findings: list[list[Finding]] = [[] for _ in range(n)]
    others: list[Notice | About] = []
    for notice in notices:
        if isinstance(notice, About) and isinstance(notice.name, SampleName):
            findings[notice.name.place].append(notice.finding)
        else:
            others.append(notice)
    return findings, others


@contextmanager
def collected(notices: list[Notice | About] | None = None) -> Iterator[list[Notice | About]]:
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
        notices: list[Notice | About] = []
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


def _warn(notices: list[Notice | About]) -> None:
    plain = [notice for notice in notices if isinstance(notice, Notice)]
    found = [notice for notice in notices if isinstance(notice, About)]
    for message, category in dict.fromkeys([*plain, *_joined(found)]):
        level, frame = 1, sys._getframe()
        while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _NOT_THE_USER:
            level, frame = level + 1, frame.f_back
        warnings.warn(message, category, stacklevel=level)


def _joined(found: list[About]) -> list[Notice]:
    """Make one sentence of each topic, and one message of all sentences with the same cure."""
    topics: dict[str, list[About]] = {}
    for one in found:
        topics.setdefault(one.finding.topic, []).append(one)
    messages: dict[tuple[str, str], list[str]] = {}
    categories: dict[tuple[str, str], type[Warning]] = {}
    for topic, members in topics.items():
        finding = members[0].finding
        key = (finding.cure, "" if finding.cure else topic)
        messages.setdefault(key, []).append(_sentence(finding.sentence, [name for _, name in members]))
        categories[key] = finding.category
    return [
        Notice(" ".join([*sentences, *[cure] * bool(cure)]), categories[cure, topic])
        for (cure, topic), sentences in messages.items()
    ]


def described(names: Collection[Any], at_most: int = NAMED) -> str:
    """Return the first few names and the number of the others, for a message."""
    shown = ", ".join(repr(name) for name in list(names)[:at_most])
    return shown + (f" and {len(names) - at_most} others" if len(names) > at_most else "")


def _sentence(sentence: str, names: list[str]) -> str:
    """Put the first names and the number of the others into a sentence."""
    shown = list(dict.fromkeys(names))[:NAMED]
    others = len(names) - len(shown)
    several = ", ".join(shown) + (f" and {others} others" if others else "")
    first = shown[0] + (f" (and {len(names) - 1} others)" if len(names) > 1 else "")
    return sentence.replace("{names}", several).replace("{first}", first)
