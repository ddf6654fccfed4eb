"""Names that are elsewhere, misspelled, or those of other libraries: the error tells what to use."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, NoReturn, Self

CLASSES = {
    "BayesianNetwork": "mercer.BayesNet(nodes, parents)",
    "CategoricalHMM": "mercer.HMM(n_states, mercer.Categorical())",
    "GMMHMM": "mercer.HMM(n_states, mercer.Mixture(mercer.Gaussian('diagonal'), n_components))",
    "DiscreteBayesianNetwork": "mercer.BayesNet(nodes, parents)",
    "GaussianHMM": "mercer.HMM(n_states, mercer.Gaussian('diagonal'))",
    "GaussianMixture": "mercer.Mixture(mercer.Gaussian('full'), n_components)",
    "KalmanFilter": "mercer.LDS(n_states)",
    "MultinomialHMM": "mercer.HMM(n_states, mercer.Multinomial())",
    "PoissonHMM": "mercer.HMM(n_states, mercer.Poisson())",
    "VariationalCategoricalHMM": "mercer.HMM(n_states, mercer.Categorical()), which is fitted by EM with a prior",
    "VariationalGaussianHMM": "mercer.HMM(n_states, mercer.Gaussian('full')), which is fitted by EM with a prior",
    "VariationalHMM": "mercer.HMM(n_states, mercer.Gaussian('full')), which is fitted by EM with a prior",
}
PARAMETERS = {
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
ATTRIBUTES = {
    "startprob_": "initial_",
    "transmat_": "transition_",
    "means_": "emission_.mean",
    "covars_": "emission_.covariance",
    "emissionprob_": "emission_.probability",
    "lambdas_": "emission_.rate",
    "weights_": "emission_.weights",
    "n_components": "n_states",
    "n_features": "context_.dimension",
    "monitor_": "history_, n_iter_ and converged_",
    "get_stationary_distribution": "model_.stationary()[0]",
}
"""Attributes of hidden Markov models."""


class HintedParameters:
    """A mixin that names the parameter to use where one of another library is passed."""

    def __new__(cls, *args: Any, **parameters: Any) -> Self:
        _check_names(cls, parameters)
        return super().__new__(cls)

    def set_params(self, **parameters: Any) -> Self:
        """Set the parameters of this estimator, those of its parts as ``part__parameter``."""
        _check_names(type(self), parameters)
        return super().set_params(**parameters)  # type: ignore[misc]


def _check_names(cls: type, parameters: Iterable[str]) -> None:
    """Raise for a parameter of another library; a subclass may have one of its own under that name."""
    cures: dict[str, str] = {}
    for base in cls.__mro__:
        cures |= PARAMETERS.get(base.__name__, {})
    for name in parameters:
        if name in cures and name not in inspect.signature(cls.__init__).parameters:  # type: ignore[misc]
            raise TypeError(f"{cls.__name__} has no parameter {name!r}. {cures[name]}")


def missing(owner: str, name: str, known: dict[str, str]) -> NoReturn:
    """Raise AttributeError; the message tells what to use, if that is known."""
    hint = f"; use {known[name]}" if name in known else ""
    raise AttributeError(f"{owner} has no attribute {name!r}{hint}")


def missing_from_package(name: str, rooms: tuple[str, ...], top: Iterable[str]) -> NoReturn:
    """Raise AttributeError for a name that ``mercer`` does not have: one of a room, misspelled, or of another library.

    Parameters
    ----------
    name : str
        The name.
    rooms : tuple of str
        The public modules of the package.
    top : iterable of str
        The names that ``mercer`` has.
    """
    known: dict[str, str] = {}
    if not name.startswith("_"):  # others are asked for by programs
        known = CLASSES | names_of_rooms(rooms)
    if known and name not in known:
        places = {public.lower(): place for public, place in known.items() if public not in CLASSES}
        places |= {public.lower(): f"mercer.{public}" for public in top}
        near = get_close_matches(name.lower(), places, n=1, cutoff=0.8)
        if near:
            raise AttributeError(f"module 'mercer' has no attribute {name!r}. Did you mean {places[near[0]]}?")
    missing("module 'mercer'", name, known)


@cache
def names_of_rooms(rooms: tuple[str, ...]) -> dict[str, str]:
    """Return the place of every public name of the rooms, from their sources: importing all of them takes a second."""
    found: dict[str, str] = {}
    for room in reversed(rooms):  # the first room of a name counts
        folder = Path(__file__).parent / room
        source = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
        for node in ast.parse(source.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                found |= {name: f"mercer.{room}.{name}" for name in ast.literal_eval(node.value)}
    return found
