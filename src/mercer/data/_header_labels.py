"""Extract labels from FASTA header lines by a regular expression, a field, a function or a mapping."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

Labels: TypeAlias = str | int | Callable[[str], Any] | Mapping[str, Any]


def rule_of(labels: Labels, what: str = "labels") -> Callable[[str, str], Any]:
    """Return a function of header and id that returns the label, or raises LookupError.

    The text of the LookupError continues the sentence "the header '...'". ``what`` is the parameter's name, for
    messages.
    """
    if isinstance(labels, bool) or not (isinstance(labels, str | int | Mapping) or callable(labels)):
        raise TypeError(
            f"{what} must be a regular expression with one group, a field number, a function of the header line, or a "
            f"mapping from ids; got {labels!r}."
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
        raise ValueError(f"{what} must be a regular expression; got {pattern!r}: {error}.") from None
    if compiled.groups != 1:
        raise ValueError(
            f"{what} must be a regular expression with one group; {pattern!r} has {compiled.groups} groups. Put "
            "parentheses around the label, and use (?:...) for other groups."
        )

    def label(header: str, name: str) -> Any:
        match = compiled.search(header)
        if match is None or match[1] is None:
            raise LookupError(f"does not match {what}={pattern!r}; change the expression or the header.")
        return match[1]

    return label


def _by_field(number: int, what: str) -> Callable[[str, str], Any]:
    def label(header: str, name: str) -> Any:
        fields = re.split(r"[|\s]+", header)
        if not -len(fields) <= number < len(fields):
            raise LookupError(
                f"has {len(fields)} field(s), so {what}={number} is out of range; fields are counted from 0."
            )
        return fields[number]

    return label


def _by_id(known: Mapping[str, Any], what: str) -> Callable[[str, str], Any]:
    def label(header: str, name: str) -> Any:
        if name not in known:
            raise LookupError(f"has the id {name!r}, which is not in the mapping {what}=; add it.")
        return known[name]

    return label
