"""Shared by estimators with ``estimate="predictive"``: a distribution that averages over the posterior."""

from __future__ import annotations

from typing import Any, TypeVar

from sklearn.base import clone

from mercer._parameters import one_of

E = TypeVar("E")


def is_predictive(estimator: Any) -> bool:
    """Whether the estimator makes posterior predictive distributions."""
    return bool(estimator.estimate == "predictive")


ESTIMATE = one_of("point", "predictive")
"""The rule of the parameter ``estimate``."""


def check_predictive(estimator: Any) -> None:
    """Raise where a predictive distribution needs a prior that is not there (PPK-2a)."""
    if estimator.estimate == "point":
        return
    if estimator.prior is None:
        raise ValueError(
            f"estimate={estimator.estimate!r} needs a prior, because it averages over a posterior; got prior=None. "
            "Give prior='pooled' or a batch of shape (1,), or estimate='point'."
        )
    if not estimator.prior_strength > 0:
        raise ValueError(
            f"prior_strength must be positive with estimate={estimator.estimate!r}, which averages over the posterior; "
            f"got {estimator.prior_strength!r}. Give a positive number, or estimate='point'."
        )


def refuse_weights(estimator: Any) -> None:
    """Raise where EM, whose steps are point estimates, is asked for a predictive distribution."""
    if estimator.estimate != "point":
        raise ValueError(
            f"{type(estimator).__name__}(estimate={estimator.estimate!r}) is the distribution of a whole sample, and "
            "components of mixtures and emissions of hidden Markov models are point estimates. Give estimate='point'."
        )


def pointwise(estimator: E) -> E:
    """Return the same estimator of point estimates."""
    copy: Any = clone(estimator)
    copy.set_params(estimate="point")
    return copy
