"""Names that were renamed: accessing an old one raises an error that states the new one."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, NoReturn, Self, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])

TOP_LEVEL = {
    "Aligned": "mercer.kernels.TargetAligned",
    "EmpiricalMap": "mercer.EmpiricalKernelMap",
    "EmbeddedHMMCV": "mercer.EmbeddedHMM",
    "EmbeddedHMMClassifier": "mercer.LikelihoodRatio",
    "Matches": "mercer.models.Matches",
    "Multiplied": "mercer.kernels.Product",
    "Posterior": "mercer.models.Posterior",
    "Settings": "mercer.config and mercer.settings",
    "Verdict": "mercer.kernels.Verdict",
    "align": "mercer.kernels.target_aligned",
    "psd": "mercer.gram.psd",
}
STACKED = "Use mc.Sequences.from_hmmlearn(X, lengths), which splits stacked rows into sequences."
STEPS = "It is called 'steps' here."
LENGTH = "Use length, the number of observations of a sequence, and size, the number of sequences."
"""What to use in place of keywords of other libraries: lengths; horizon and the like; n_samples."""
HMMLEARN = {
    "CategoricalHMM": "mercer.HMM(n_states, mercer.Categorical())",
    "GMMHMM": "mercer.HMM(n_states, mercer.Mixture(mercer.Gaussian('diagonal'), n_components))",
    "GaussianHMM": "mercer.HMM(n_states, mercer.Gaussian('diagonal'))",
    "MultinomialHMM": "mercer.HMM(n_states, mercer.Multinomial())",
    "PoissonHMM": "mercer.HMM(n_states, mercer.Poisson())",
}
"""Classes of hmmlearn, and what they are here."""
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
ELSEWHERE = {
    "Gaussian": {
        "covariance_type": "It is called 'covariance' here: 'full', 'diagonal' or 'isotropic'.",
        "reg_covar": "It is called 'floor' here, a fraction of the pooled variance.",
    },
    "HMM": {
        "algorithm": "Use decode(X, algorithm='map') after fit.",
        "covariance_type": "It belongs to the emission here: mc.HMM(3, mc.Gaussian('full')).",
        "implementation": "Leave it out: probabilities of any size are safe.",
        "init_params": "Use init, a start as HMMs.",
        "min_covar": "Use the emission mc.Gaussian('diagonal', floor=1e-3).",
        "n_components": "It is called 'n_states' here.",
        "n_mix": "Use the emission mc.Mixture(mc.Gaussian('diagonal'), n_components=2).",
        "params": "Use fixed, a dict of the parts that are not learned.",
        "startprob_prior": "It is smoothing={'initial': alpha - 1} here.",
        "transmat_prior": "It is smoothing={'transition': alpha - 1} here.",
        "verbose": "Use mc.set_config(progress=True), or history_ after fit.",
    },
    "Mixture": {
        "covariance_type": "It belongs to the component here: mc.Mixture(mc.Gaussian('full'), 3).",
        "max_iter": "It is called 'n_iter' here.",
        "reg_covar": "Use the component mc.Gaussian('diagonal', floor=1e-3).",
    },
}
"""Class -> parameters that similar classes of hmmlearn and scikit-learn have, each with what to use instead."""


def missing(module: str, name: str, renamed: Mapping[str, str]) -> NoReturn:
    """Raise AttributeError for a missing attribute of a module; the message states its new name, if it has one."""
    known = {**renamed, **HMMLEARN} if module == "mercer" else renamed
    hint = f"; use {known[name]}" if name in known else ""
    raise AttributeError(f"module {module!r} has no attribute {name!r}{hint}")


class RenamedParameters:
    """A mixin that names the new parameter where an old one is passed."""

    def __new__(cls, *args: Any, **parameters: Any) -> Self:
        check_names(cls, parameters)
        return super().__new__(cls)


def check_names(cls: type, parameters: Iterable[str]) -> None:
    """Raise where a parameter of a class was renamed; a subclass may have one of its own under the old name."""
    cures: dict[str, str] = {}
    for base in cls.__mro__:
        cures |= {old: f"Use {new!r}." for old, new in PARAMETERS.get(base.__name__, {}).items()}
        cures |= ELSEWHERE.get(base.__name__, {})
    for old in parameters:
        if old in cures and old not in inspect.signature(cls.__init__).parameters:  # type: ignore[misc]
            raise TypeError(f"{cls.__name__} has no parameter {old!r}. {cures[old]}")


def no_keyword(**cures: str) -> Callable[[Function], Function]:
    """Decorate a method: keywords that similar methods of other libraries have raise, with what to use instead."""

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def wrapper(self: Any, *args: Any, **keywords: Any) -> Any:
            for name in keywords:
                if name in cures:
                    called = f"{type(self).__name__}.{function.__name__}"
                    raise TypeError(f"{called} has no parameter {name!r}. {cures[name]}")
            return function(self, *args, **keywords)

        return cast(Function, wrapper)

    return decorate


class Removed:
    """A class attribute that no longer exists: asking for it names its successor."""

    was: ClassVar[str] = "was removed"

    def __init__(self, successor: str) -> None:
        self.successor = successor

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: Any) -> NoReturn:
        raise AttributeError(f"{owner.__name__}.{self.name} {self.was}; use {self.successor}")


class Elsewhere(Removed):
    """A class attribute that similar classes of other libraries have: asking for it names what is here instead."""

    was = "does not exist"
