"""Base class of the estimators of pair HMMs: one model for all sequences, learned from pairs of them."""

from __future__ import annotations

from typing import Any, ClassVar

from sklearn.utils.validation import check_is_fitted

from mercer._array import as_array
from mercer._parameters import Rules, nonnegative, seed, whole
from mercer.data import Sequences
from mercer.families.estimator import Context
from mercer.models._fitting.iterative import SharedEstimator


class PairEstimator(SharedEstimator):
    """An estimator of one model of pairs. A subclass implements `_fit_all`."""

    takes: ClassVar[str] = "symbols"
    of_sequences: ClassVar[bool] = True
    uses_classes: ClassVar[bool] = True
    _only_shared = (
        "A pair HMM is one model that all sequences share, so it cannot be fitted to each sample. Use fit, or a "
        "kernel under a shared model: mc.Marginalization(mc.PairHMM(...)) or mc.Fisher(mc.PairHMM(...))."
    )

    _parameters: ClassVar[Rules] = {
        "n_pairs": whole(1, cure="It is the largest number of pairs that EM uses."),
        "n_iter": whole(0, cure="With 0 there is no EM."),
        "tol": nonnegative("With 0, EM always makes n_iter iterations."),
        "random_state": seed(),
    }
    alphabet: Any
    prior: Any = None
    prior_strength: float = 0.0
    n_pairs: int
    n_iter: int
    tol: float
    init: Any
    random_state: Any

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.init is not None and self.init.shape != (1,):
            kind = type(self.init).__name__
            raise ValueError(f"init must have shape (1,); got {self.init.shape}. Pass {kind} such as p[3:4].")

    # -- data --------------------------------------------------------------------------------------------

    def accept(self, X: Any, *, owner: Any = None, reset: bool = False, context: Context | None = None) -> Any:
        """Turn ``X`` into `Sequences`; a start that is given knows the alphabet."""
        if context is None and self.alphabet is None and self.init is not None:
            context = Context(self.init.dimension, self.init.alphabet)
        X = super().accept(X, owner=owner, reset=reset, context=context)
        if reset and self.init is not None and self.init.alphabet != X.alphabet:
            raise ValueError(
                f"init has the alphabet {self.init.alphabet}, the sequences have {X.alphabet}. Read them with the "
                "alphabet of init."
            )
        return X

    def context(self, X: Sequences) -> Context:
        """Learn the alphabet."""
        assert X.alphabet is not None
        return Context(dimension=len(X.alphabet), alphabet=X.alphabet)

    def shared_context(self, X: Any) -> Context:
        """Return ``context(X)``, which is cheap."""
        return self.context(X)

    def _check_classes(self, X: Sequences, y: Any) -> None:
        """Raise if y has another length."""
        shape = (len(X),) if y is None else as_array(y, "y", "one class per sequence").shape
        if shape[:1] != (len(X),):
            raise ValueError(f"y must have one class per sequence; got shape {shape} for {len(X)} sequences.")

    # -- after the fit -----------------------------------------------------------------------------------

    def bic(self, X: Any) -> float:
        """Bayesian information criterion of the model that ``fit`` learned, on ``X``; smaller is better."""
        check_is_fitted(self, "model_")
        return float(self.model_.bic(self.accept(X, context=self.context_))[0])
