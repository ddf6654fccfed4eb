"""Declared parameter checks: what each rule accepts, what it says, and how rules are inherited."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from sklearn.base import BaseEstimator

import mercer as mc
from mercer import _parameters as rules
from mercer._parameters import NONE, CheckedParameters, declared

RULES = {
    "number": (rules.number(), [0, -1.5, np.float32(2)], ["1", None, np.nan, np.inf, True, [1, 2]]),
    "positive": (rules.positive(), [1e-9, 3], [0, -1, "1", None]),
    "nonnegative": (rules.nonnegative(), [0, 3.5], [-1e-9, "0", None, np.nan]),
    "both": (rules.between(0, 1), [0, 0.5, 1], [-0.1, 1.1, "0.5"]),
    "left": (rules.between(0, 1, "left"), [0, 0.5], [1, -1]),
    "right": (rules.between(0, 1, "right"), [1, 0.5], [0, 2]),
    "neither": (rules.between(0, 1, "neither"), [0.5], [0, 1]),
    "whole": (rules.whole(1), [1, np.int64(7)], [0, 1.0, True, "2", None]),
    "whole to": (rules.whole(0, 5), [0, 5], [-1, 6]),
    "boolean": (rules.boolean(), [True, np.False_], [0, 1, None, "yes"]),
    "one of": (rules.one_of("a", "b"), ["a", "b"], ["c", None, np.array(["a", "b"]), ["a"]]),
    "function": (rules.function(), [len], [3]),
    "instance": (rules.instance_of(mc.Gaussian), [mc.Gaussian()], [mc.Gaussian, 3]),
    "either": (rules.whole(1) | rules.one_of("auto") | NONE, [1, "auto", None], [0, "other", 1.5]),
    "seed": (rules.seed(), [None, 0, np.random.default_rng(0), np.random.RandomState(0)], [-1, 1.5, "x"]),
    "rho": (rules.rho(), [0.5, 1], [0, -1, "half", np.inf]),
    "gamma": (rules.gamma(), [0, 1.5], [-1, "wide", np.nan]),
    "optional": (rules.optional(rules.gamma()), [None, 1.5], [-1]),
}


@pytest.mark.parametrize("name", RULES)
def test_rules(name):
    rule, good, bad = RULES[name]
    for value in good:
        rule("weight", value)
    for value in bad:
        with pytest.raises((ValueError, TypeError), match=r"^weight must be .*; got "):
            rule("weight", value)


def test_messages():
    with pytest.raises(ValueError, match=r"^tol must be a number, 0 or more; got -1\. With 0 it goes on\.$"):
        rules.nonnegative("With 0 it goes on.")("tol", -1)
    with pytest.raises(ValueError, match="n must be a whole number, 1 or more, or 'auto' or 'all', or None; got 0"):
        (rules.whole(1) | rules.one_of("auto", "all") | NONE)("n", 0)
    with pytest.raises(TypeError, match=r"^model must be an instance of Gaussian, or None; got 3\. Give one\.$"):
        (rules.instance_of(mc.Gaussian, cure="Give one.") | NONE)("model", 3)


class Base(CheckedParameters, BaseEstimator):
    _parameters = {"a": rules.positive(), "b": rules.positive()}  # noqa: RUF012

    def __init__(self, a=1, b=1, c=1):
        self.a = a
        self.b = b
        self.c = c


class Derived(Base):
    _parameters = {"b": None, "c": rules.whole(2), "a": rules.number()}  # noqa: RUF012

    def _check_parameters(self):
        super()._check_parameters()
        if self.a > self.c:
            raise ValueError("a must be at most c")


def test_a_class_adds_replaces_and_drops_rules():
    assert list(declared(Derived)) == ["a", "c"]
    Derived(a=-1, b="anything", c=2)._check_parameters()
    with pytest.raises(ValueError, match="b must be a positive number; got 'anything'"):
        Base(b="anything")._check_parameters()
    with pytest.raises(ValueError, match="c must be a whole number, 2 or more; got 1"):
        Derived()._check_parameters()
    with pytest.raises(ValueError, match="a must be at most c"):
        Derived(a=3, c=2)._check_parameters()


def test_parts_are_checked_too():
    with pytest.raises(ValueError, match=r"prior_strength must be .*; got -1"):
        rules.instance_of(mc.Gaussian)("model", mc.Gaussian(prior_strength=-1))


def test_every_declared_name_is_a_parameter():
    """A rule for a name that nobody has would fail only where a user fits that estimator."""
    found = [cls for cls in vars(mc).values() if inspect.isclass(cls) and issubclass(cls, CheckedParameters)]
    assert len(found) > 10
    for cls in found:
        known = set(inspect.signature(cls).parameters)
        unknown = [name for name in declared(cls) if name not in known and not hasattr(cls, name)]
        assert not unknown, f"{cls.__name__} declares {unknown}"
