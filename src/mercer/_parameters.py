"""Declared parameter checks: a class names a rule for each parameter, and one mixin checks them all.

An estimator or a kernel inherits `CheckedParameters` and declares its rules::

    class HMM(CheckedParameters, BaseEstimator):
        _parameters: ClassVar[Rules] = {
            "n_states": whole(1) | one_of("jebara"),
            "tol": nonnegative("With 0, EM always makes n_iter iterations."),
            "init": instance_of(HMMs) | NONE,
            "random_state": seed(),
        }

`fit` (or a call) runs ``self._check_parameters()``, which checks the rules of all base classes first and those of the
class itself last; a subclass may replace the rule of a name, or drop it with ``None``. A condition on several
parameters is written out: override ``_check_parameters``, call ``super()._check_parameters()``, then test it.

A rule is a callable ``rule(name, value)`` that raises. The rules here raise a `ValueError` (`instance_of`: a
`TypeError`) that reads "NAME must be WHAT; got VALUE. CURE". ``a | b`` accepts what either accepts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from mercer._checks import LARGEST, check_gamma, check_rho, is_choice, is_number, is_whole
from mercer._wording import wording

Check = Callable[[str, Any], None]
"""A rule: ``rule(name, value)`` raises if the parameter ``name`` cannot have this value."""
MOST_STATES = 10_000
"""Number of states beyond which the transitions of one model take more than 0.8 GB."""
Rules = Mapping[str, Check | None]
"""Parameter -> rule; None drops the rule of a base class."""


@dataclass(frozen=True)
class Rule:
    """Rule for the values of a parameter.

    Parameters
    ----------
    what : str
        Completes "NAME must be ...": "a whole number, 1 or more".
    good : callable
        Whether a value is allowed; it must not raise for any value.
    cure : str, default=""
        A sentence that tells the user what to pass.
    error : type, default=ValueError
        The exception to raise.
    """

    what: str
    good: Callable[[Any], bool]
    cure: str = ""
    error: type[Exception] = ValueError

    def __call__(self, name: str, value: Any) -> None:
        """Raise unless ``value`` is allowed."""
        if not self.good(value):
            raise self.error(f"{wording().must_be(name, self.what)}; got {value!r}.{' ' * bool(self.cure)}{self.cure}")
        if hasattr(value, "_check_parameters"):  # an estimator or kernel with parameters of its own
            value._check_parameters()

    def __or__(self, other: Rule) -> Rule:
        """Return the rule that accepts what either rule accepts; the first cure and error are kept."""
        return replace(
            self,
            what=f"{self.what}, or {other.what}",
            good=lambda value: self.good(value) or other.good(value),
            cure=self.cure or other.cure,
        )


NONE = Rule("None", lambda value: value is None)


def number(cure: str = "") -> Rule:
    """Accept any finite number."""
    return Rule("a finite number", is_number, cure)


def positive(cure: str = "") -> Rule:
    """Accept finite numbers above 0."""
    return Rule("a positive number", lambda value: is_number(value) and value > 0, cure)


def nonnegative(cure: str = "") -> Rule:
    """Accept finite numbers, 0 or more."""
    return Rule("a number, 0 or more", lambda value: is_number(value) and value >= 0, cure)


def between(low: float, high: float, closed: str = "both", cure: str = "") -> Rule:
    """Accept numbers from ``low`` to ``high``; ``closed`` is "both", "left", "right" or "neither"."""
    left, right = closed in ("both", "left"), closed in ("both", "right")

    def good(value: Any) -> bool:
        return is_number(value) and (low < value < high or (left and value == low) or (right and value == high))

    lower, upper = "at least" if left else "above", "at most" if right else "below"
    return Rule(f"a number, {lower} {low:g} and {upper} {high:g}", good, cure)


def whole(least: int = 1, most: int | None = None, cure: str = "") -> Rule:
    """Accept whole numbers from ``least`` to ``most``."""

    def good(value: Any) -> bool:
        return is_whole(value, least) and (most is None or value <= most)

    span = f"{least} or more" if most is None else f"from {least} to {most}"
    return Rule(f"a whole number, {span}", good, cure)


def extent(least: int = 1) -> Check:
    """Accept whole numbers, ``least`` or more, that are no larger than an axis of an array can be."""

    def rule(name: str, value: Any) -> None:
        whole(least)(name, value)
        if value > LARGEST:
            raise ValueError(f"{name} must be at most {LARGEST:,}; got {value!r}.")

    return rule


def states() -> Rule:
    """Accept a number of hidden states, or of other parts that all depend on each other."""
    return whole(1, MOST_STATES, cure="A model of n states has n x n transitions.")


def boolean(cure: str = "") -> Rule:
    """Accept True and False."""
    return Rule("True or False", lambda value: isinstance(value, bool | np.bool_), cure)


def one_of(*choices: str, cure: str = "") -> Rule:
    """Accept one of several strings."""
    *first, last = map(repr, choices)
    what = f"{', '.join(first)} or {last}" if first else last
    return Rule(what, lambda value: is_choice(value, choices), cure)


def function(cure: str = "") -> Rule:
    """Accept anything that can be called."""
    return Rule("a callable", callable, cure)


def instance_of(*classes: type, what: str = "", cure: str = "") -> Rule:
    """Accept instances of ``classes``, else raise a `TypeError`; an instance with parameters has these checked too."""
    names = " or ".join(cls.__name__ for cls in classes)
    return Rule(what or f"an instance of {names}", lambda value: isinstance(value, classes), cure, TypeError)


def seed() -> Rule:
    """Accept what ``random_state`` may be: a whole number, None or a NumPy generator."""
    kinds = (np.random.RandomState, np.random.Generator)
    return whole(0) | NONE | Rule("a NumPy Generator or RandomState", lambda value: isinstance(value, kinds))


def rho() -> Check:
    """Accept the power of a probability product: a positive float, not a tensor that requires a gradient."""
    return lambda name, value: check_rho(value, name)


def gamma() -> Check:
    """Accept the width of a Gaussian base kernel: a float, 0 or more, not a tensor that requires a gradient."""
    return lambda name, value: check_gamma(value, name)


def optional(check: Check) -> Check:
    """Accept None and what ``check`` accepts; for a `Rule`, ``rule | NONE`` is better, since its message says so."""
    return lambda name, value: None if value is None else check(name, value)


def check(rule: Check, **values: Any) -> None:
    """Check arguments of a function that have the same rule, given by their names."""
    for name, value in values.items():
        rule(name, value)


class CheckedParameters:
    """A mixin that checks declared parameters."""

    _parameters: ClassVar[Rules] = {}

    def _check_parameter(self, name: str) -> None:
        """Raise if one parameter, which is read before ``fit``, breaks its rule."""
        declared(type(self))[name](name, getattr(self, name))

    def _check_parameters(self) -> None:
        """Raise if a parameter breaks its rule."""
        for name, check in declared(type(self)).items():
            check(name, getattr(self, name))


def declared(cls: type) -> dict[str, Check]:
    """Return the rules of a class and of its base classes, these first."""
    merged: dict[str, Check | None] = {}
    for base in reversed(cls.__mro__):
        merged.update(vars(base).get("_parameters", {}))
    return {name: check for name, check in merged.items() if check is not None}
