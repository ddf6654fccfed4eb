"""Rules that find the label of a sequence in its header line: an expression, a field, a function, a mapping."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

Labels: TypeAlias = str | int | Callable[[str], Any] | Mapping[str, Any]


def rule_of(labels: Labels) -> Callable[[str, str], Any]:
    """Return a function of header and id that gives the label, or raises LookupError with half a sentence."""
    if isinstance(labels, bool) or not (isinstance(labels, str | int | Mapping) or callable(labels)):
        raise TypeError(
            f"labels={labels!r} is no rule for labels; pass a regular expression with one group, a field number, "
            "a function of the header line, or a mapping from ids"
        )
    if isinstance(labels, str):
        return _by_pattern(labels)
    if isinstance(labels, int):
        return _by_field(labels)
    if isinstance(labels, Mapping):
        return _by_id(labels)
    function = labels
    return lambda header, name: function(header)


def _by_pattern(pattern: str) -> Callable[[str, str], Any]:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"labels={pattern!r} is no regular expression ({error}); correct it") from None
    if compiled.groups != 1:
        raise ValueError(
            f"labels={pattern!r} has {compiled.groups} groups; put parentheses around the label, and no others "
            "but (?:...)"
        )

    def label(header: str, name: str) -> Any:
        found = compiled.search(header)
        if found is None or found[1] is None:
            raise LookupError(f"does not match labels={pattern!r}; change the expression or the header")
        return found[1]

    return label


def _by_field(number: int) -> Callable[[str, str], Any]:
    def label(header: str, name: str) -> Any:
        fields = re.split(r"[|\s]+", header)
        if not -len(fields) <= number < len(fields):
            raise LookupError(f"has {len(fields)} fields, so that labels={number} is none of them; count from 0")
        return fields[number]

    return label


def _by_id(known: Mapping[str, Any]) -> Callable[[str, str], Any]:
    def label(header: str, name: str) -> Any:
        if name not in known:
            raise LookupError(f"has the id {name!r}, which is not in the mapping labels=; add it")
        return known[name]

    return label
