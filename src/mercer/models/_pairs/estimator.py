"""The base of the estimators of pair HMMs: one model that all sequences share, learned from pairs of them."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

from sklearn.utils.validation import check_is_fitted

from mercer._array import Floats, to_numpy
from mercer._parameters import Rules, nonnegative, seed, whole
from mercer._random import seed_of
from mercer.data import Sequences
from mercer.families.estimator import Context, Estimator

__all__ = ["PairEstimator"]


class PairEstimator(Estimator):
    """An estimator of one model of pairs. A subclass writes `fit` and `_fit_shared(X, context, y)`."""

    takes: ClassVar[str] = "symbols"
    of_sequences: ClassVar[bool] = True
    uses_classes: ClassVar[bool] = True

    _parameters: ClassVar[Rules] = {
        "n_pairs": whole(1, cure="It is the largest number of pairs that EM uses."),
        "n_iter": whole(0, cure="With 0 there is no EM."),
        "tol": nonnegative("With 0, EM always makes n_iter iterations."),
        "random_state": seed(),
    }
    prior: Any = None
    prior_strength: float = 0.0
    n_pairs: int
    n_iter: int
    tol: float
    random_state: Any

    def _seed(self) -> int:
        """Return the seed, or draw one from a generator."""
        return seed_of(self.random_state)

    # -- data --------------------------------------------------------------------------------------------

    def context(self, X: Sequences) -> Context:
        """Learn the alphabet."""
        assert X.alphabet is not None
        return Context(dimension=len(X.alphabet), alphabet=X.alphabet)

    def shared_context(self, X: Any) -> Context:
        """Return ``context(X)``, which takes no time."""
        return self.context(X)

    # -- fits --------------------------------------------------------------------------------------------

    def fit_each(self, X: Any, context: Context | None = None, *, return_info: bool = False) -> NoReturn:
        """Raise: a pair HMM is a law of pairs, and one sequence says nothing about it."""
        self._fit_accepted(X, context)

    def _fit_accepted(self, X: Any, context: Any) -> NoReturn:
        raise TypeError(
            "a pair HMM is one model that all sequences share, and is not fitted to each: use fit, or a kernel under a "
            "shared model, mc.Marginalization(mc.PairHMM(...)) or mc.Fisher(mc.PairHMM(...))"
        )

    # -- after the fit -----------------------------------------------------------------------------------

    def score_samples(self, X: Any) -> Floats:
        """Log probability of every sequence by itself under the model that ``fit`` learned."""
        check_is_fitted(self, "model_")
        return to_numpy(self.model_.log_prob(self.accept(X, context=self.context_)))[0]

    def bic(self, X: Any) -> float:
        """Bayesian information criterion of the model that ``fit`` learned, on ``X``; smaller is better."""
        check_is_fitted(self, "model_")
        return float(self.model_.bic(self.accept(X, context=self.context_))[0])
