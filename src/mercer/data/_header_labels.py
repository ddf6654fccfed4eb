"""Extract labels from FASTA header lines by a key, a regular expression, a field, a function or a mapping."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from mercer.data._names import looks_like

Labels: TypeAlias = str | int | Callable[[str], Any] | Mapping[str, Any]


_KEY = r"[A-Za-z_][\w.\-]*="


def rule_of(labels: Labels, what: str = "labels") -> Callable[[str, str], Any]:
    """Return a function of header and id that returns the label, or raises LookupError.

    The text of the LookupError continues the sentence "the header '...'". ``what`` is the parameter's name, for
    messages.
    """
    if isinstance(labels, bool) or not (isinstance(labels, str | int | Mapping) or callable(labels)):
        raise TypeError(
            f"{what} must be a regular expression with one group, a key such as 'class=', a field number, a function "
            f"of the header line, or a mapping from ids; got {labels!r}."
        )
    if isinstance(labels, str):
        return _by_key(labels, what) if re.fullmatch(_KEY, labels) else _by_pattern(labels, what)
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
            "parentheses around the label, and use (?:...) for other groups, or 'key=' for headers with key=value."
        )

    def label(header: str, name: str) -> Any:
        match = compiled.search(header)
        if match is None or match[1] is None:
            raise LookupError(f"does not match {what}={pattern!r}; change the expression or the header.")
        return match[1]

    return label


def _by_key(key: str, what: str) -> Callable[[str, str], Any]:
    """Find ``key=value``; the value ends at white space, at ``|``, ``;`` or ``,``, or at its closing quote."""
    compiled = re.compile(rf"""(?:^|[\s|;,\[(]){re.escape(key)}(?:"([^"]*)"|'([^']*)'|([^\s|;,\])]+))""")

    def label(header: str, name: str) -> Any:
        match = compiled.search(header)
        if match is None:
            raise LookupError(f"does not have {key}..., which {what}={key!r} looks for; change one of them.")
        return next(value for value in match.groups() if value is not None)

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


def guessed(descriptions: tuple[str, ...]) -> str | int:
    """Return the key or the field of the headers that looks like a class: it repeats, and it is in all headers.

    A key named like a label wins; otherwise the key or field must be the only one with few values.
    """
    keys = dict.fromkeys(re.findall(r"(?:^|[\s|;,\[(])([A-Za-z_][\w.\-]*=)", descriptions[0]))
    found: dict[str | int, int] = {}
    for rule in (*keys, *range(1, len(re.split(r"[|\s]+", descriptions[0])))):
        try:
            values = [rule_of(rule)(description, "") for description in descriptions]
        except LookupError:
            continue
        different = len(set(values))
        if 1 < different <= max(2, len(values) // 2) and not ("=" in values[0] and isinstance(rule, int)):
            found[rule] = different
    named: list[str | int] = [rule for rule in found if isinstance(rule, str) and looks_like("label", [rule])]
    if len(named) == 1 or len(found) == 1:
        return (named or list(found))[0]
    if not found:
        raise ValueError(
            f"no key or field of the headers, such as {descriptions[0]!r}, repeats like a class; pass labels= with a "
            "field number, a key such as 'class=', a regular expression or a mapping from ids."
        )
    shown = " and ".join(f"labels={rule!r}" for rule in list(found)[:2])
    raise ValueError(
        f"several parts of the headers, such as {descriptions[0]!r}, could be the class: {shown}; pass one."
    )
