"""Names that were renamed: accessing an old one raises an error that states the new one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

TOP_LEVEL = {
    "Aligned": "mercer.TargetAligned",
    "EmpiricalMap": "mercer.EmpiricalKernelMap",
    "Matches": "mercer.models.Matches",
    "Multiplied": "mercer.Product",
    "Posterior": "mercer.models.Posterior",
    "Settings": "mercer.config and mercer.settings",
    "Verdict": "mercer.kernels.Verdict",
    "align": "mercer.target_aligned",
    "psd": "mercer.gram.psd",
}
GRAM = {"alignment": "mercer.gram.target_alignment", "load": "mercer.load"}
FAMILIES = {"Product": "mercer.families.PowerProduct"}
PARAMETERS = {"power": "marginal", "zero": "on_zero"}
"""Old and new keywords of kernels."""


def missing(module: str, name: str, renamed: Mapping[str, str]) -> NoReturn:
    """Raise AttributeError for a missing attribute of a module; the message states its new name, if it has one."""
    hint = f"; use {renamed[name]}" if name in renamed else ""
    raise AttributeError(f"module {module!r} has no attribute {name!r}{hint}")


class Removed:
    """A class attribute that no longer exists: asking for it names its successor."""

    def __init__(self, successor: str) -> None:
        self.successor = successor

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = f"{owner.__name__}.{name}"

    def __get__(self, instance: Any, owner: Any) -> NoReturn:
        raise AttributeError(f"{self.name} was removed; use {self.successor}")
