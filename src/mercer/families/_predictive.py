"""Shared by estimators with ``estimate="predictive"``: a distribution that averages over the posterior."""

from __future__ import annotations

from typing import Any, ClassVar

from mercer._parameters import CheckedParameters, Rules, one_of


class Predictive(CheckedParameters):
    """A mixin of estimators with the parameter ``estimate``: a point estimate, or the predictive distribution."""

    _parameters: ClassVar[Rules] = {"estimate": one_of("point", "predictive")}
    estimate: str
    prior: Any
    prior_strength: float

    @property
    def _is_predictive(self) -> bool:
        return self.estimate != "point"

    @property
    def accepts_empty(self) -> bool:
        """Whether an empty sample has a law: the predictive distribution of no observation."""
        return self._is_predictive

    def _check_parameters(self) -> None:
        """Raise, too, if a predictive distribution needs a prior and there is none (PPK-2a)."""
        super()._check_parameters()
        if self._is_predictive and self.prior is None:
            raise ValueError(
                f"estimate={self.estimate!r} needs a prior, because it averages over a posterior; got prior=None. Use "
                "prior='pooled' or a batch of shape (1,), or estimate='point'."
            )
        if self._is_predictive and not self.prior_strength > 0:
            raise ValueError(
                f"prior_strength must be positive with estimate={self.estimate!r}, which averages over the posterior; "
                f"got {self.prior_strength!r}. Use a positive number, or estimate='point'."
            )

    def _refuse_weights(self) -> None:
        """Raise if EM, whose steps are point estimates, is used with a predictive estimator."""
        if self._is_predictive:
            raise ValueError(
                f"{type(self).__name__}(estimate={self.estimate!r}) is the distribution of a whole sample, and "
                "components of mixtures and emissions of hidden Markov models are point estimates. Use "
                "estimate='point'."
            )
