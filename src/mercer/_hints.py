"""Names of hmmlearn, and of mixtures of scikit-learn, that are called otherwise here: the error tells what to use."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any, NoReturn, Self

CLASSES = {
    "CategoricalHMM": "mercer.HMM(n_states, mercer.Categorical())",
    "GMMHMM": "mercer.HMM(n_states, mercer.Mixture(mercer.Gaussian('diagonal'), n_components))",
    "GaussianHMM": "mercer.HMM(n_states, mercer.Gaussian('diagonal'))",
    "MultinomialHMM": "mercer.HMM(n_states, mercer.Multinomial())",
    "PoissonHMM": "mercer.HMM(n_states, mercer.Poisson())",
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
