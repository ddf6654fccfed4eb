"""Rules that find the label of a sequence in its header line: an expression, a field, a function, a mapping."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

Labels: TypeAlias = str | int | Callable[[str], Any] | Mapping[str, Any]


def rule_of(labels: Labels, what: str = "labels") -> Callable[[str, str], Any]:
    """Return a function of header and id that gives the label, or raises LookupError with half a sentence.

    ``what`` is the name of the parameter, for messages.
    """
    if isinstance(labels, bool) or not (isinstance(labels, str | int | Mapping) or callable(labels)):
        raise TypeError(
            f"{what}={labels!r} is no rule for {what}; pass a regular expression with one group, a field number, "
            "a function of the header line, or a mapping from ids"
        )
    if isinstance(labels, str):
        return _by_pattern(labels, what)
    if isinstance(labels, int):
        return _by_field(labels, what)
    if isinstance(labels, Mapping):
        return _by_id(labels, what)
    function = labels
    return lambda header, name: function(header)


def _by_pattern(pattern: str, what: str) -> Callable[[str, str], Any]:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{what}={pattern!r} is no regular expression ({error}); correct it") from None
    if compiled.groups != 1:
        raise ValueError(
            f"{what}={pattern!r} has {compiled.groups} groups; put parentheses around the label, and no others "
            "but (?:...)"
        )

    def label(header: str, name: str) -> Any:
        found = compiled.search(header)
        if found is None or found[1] is None:
            raise LookupError(f"does not match {what}={pattern!r}; change the expression or the header")
        return found[1]

    return label


def _by_field(number: int, what: str) -> Callable[[str, str], Any]:
    def label(header: str, name: str) -> Any:
        fields = re.split(r"[|\s]+", header)
        if not -len(fields) <= number < len(fields):
            raise LookupError(f"has {len(fields)} fields, so that {what}={number} is none of them; count from 0")
        return fields[number]

    return label


def _by_id(known: Mapping[str, Any], what: str) -> Callable[[str, str], Any]:
    def label(header: str, name: str) -> Any:
        if name not in known:
            raise LookupError(f"has the id {name!r}, which is not in the mapping {what}=; add it")
        return known[name]

    return label
