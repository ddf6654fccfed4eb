"""What estimators with ``estimate="predictive"`` share: a datum's law averages over the posterior of its parameters."""

from __future__ import annotations

from typing import Any, TypeVar

from sklearn.base import clone

E = TypeVar("E")


def is_predictive(estimator: Any) -> bool:
    """Whether posterior predictive laws are asked for."""
    return bool(estimator.estimate == "predictive")


def check_estimate(estimator: Any) -> None:
    """Raise where ``estimate`` is unknown, or needs a prior that is not there (PPK-2a)."""
    if not isinstance(estimator.estimate, str) or estimator.estimate not in ("point", "predictive"):
        raise ValueError(f"estimate = {estimator.estimate!r}: give 'point' or 'predictive'")
    if not is_predictive(estimator):
        return
    if estimator.prior is None:
        raise ValueError(
            "estimate='predictive' averages over a posterior, which takes a prior: give prior='pooled' or a batch of "
            "shape (1,), or estimate='point'"
        )
    if not estimator.prior_strength > 0:
        raise ValueError(
            f"prior_strength = {estimator.prior_strength!r} leaves no prior to average over: give a positive number "
            "with estimate='predictive', or estimate='point'"
        )


def refuse_weights(estimator: Any) -> None:
    """Raise where a predictive law is asked for in EM, whose steps are point estimates."""
    if is_predictive(estimator):
        raise ValueError(
            f"{type(estimator).__name__}(estimate='predictive') is the law of a whole datum, and components of "
            "mixtures and emissions of hidden Markov models are point estimates: give estimate='point'"
        )


def pointwise(estimator: E) -> E:
    """Return the same estimator of point estimates."""
    copy: Any = clone(estimator)
    copy.set_params(estimate="point")
    return copy
