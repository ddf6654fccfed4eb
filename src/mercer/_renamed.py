"""Names that were renamed: accessing an old one raises an error that states the new one."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn, Self

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
PARAMETERS = {
    "AffinePairHMM": {"scale": "matrix_scale"},
    "CountVector": {"law": "length_distribution"},
    "CountVectors": {"law": "length_distribution"},
    "Dirichlet": {"normalize": "divide_by_sum"},
    "Kernel": {"zero": "on_zero"},
    "LikelihoodRatio": {"zero": "on_zero"},
    "Marginalization": {"prior": "weights"},
    "PosteriorCounts": {"order": "k"},
    "ProbabilityProduct": {"power": "marginal"},
    "Tempered": {"beta": "exponent"},
}
"""Class -> old and new parameters, which its subclasses have too."""


def missing(module: str, name: str, renamed: Mapping[str, str]) -> NoReturn:
    """Raise AttributeError for a missing attribute of a module; the message states its new name, if it has one."""
    hint = f"; use {renamed[name]}" if name in renamed else ""
    raise AttributeError(f"module {module!r} has no attribute {name!r}{hint}")


class RenamedParameters:
    """A mixin that names the new parameter where an old one is passed."""

    def __new__(cls, *args: Any, **parameters: Any) -> Self:
        check_names(cls, parameters)
        return super().__new__(cls)


def check_names(cls: type, parameters: Iterable[str]) -> None:
    """Raise where a parameter of a class was renamed; a subclass may have one of its own under the old name."""
    renamed = {old: new for base in cls.__mro__ for old, new in PARAMETERS.get(base.__name__, {}).items()}
    for old in parameters:
        if old in renamed and old not in inspect.signature(cls.__init__).parameters:  # type: ignore[misc]
            raise TypeError(f"{cls.__name__} has no parameter {old!r}. Use {renamed[old]!r}.")


class Removed:
    """A class attribute that no longer exists: asking for it names its successor."""

    def __init__(self, successor: str) -> None:
        self.successor = successor

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = f"{owner.__name__}.{name}"

    def __get__(self, instance: Any, owner: Any) -> NoReturn:
        raise AttributeError(f"{self.name} was removed; use {self.successor}")
