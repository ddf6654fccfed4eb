"""The base of estimators that iterate: their parameters, their seed, and what they tell of a fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from mercer._parameters import Rules, nonnegative, seed, whole
from mercer._random import seed_of
from mercer.data.segments import datum_name
from mercer.families.estimator import Context, Estimator
from mercer.models._fitting.climb import Climbed

__all__ = ["IterativeEstimator"]


class IterativeEstimator(Estimator):
    """An estimator that climbs from one or several starts. A subclass writes `_climb_each`."""

    _parameters: ClassVar[Rules] = {
        "n_iter": whole(1),
        "n_init": whole(1),
        "tol": nonnegative("With 0, EM always makes n_iter iterations."),
        "random_state": seed(),
    }
    n_iter: int
    tol: float
    n_init: int
    random_state: Any

    def _seed(self) -> int:
        """Return the seed, or draw one from a generator."""
        return seed_of(self.random_state)

    def fit_each(self, X: Any, context: Context | None = None, *, return_info: bool = False) -> Any:
        """Fit one model to every datum.

        Parameters
        ----------
        X : data
            As for ``fit``.
        context : Context, default=None
            What the data share; by default what ``fit`` learned, or else what ``X`` shares.
        return_info : bool, default=False
            Whether to tell how the fits ended; they are then done anew, whatever the cache holds.

        Returns
        -------
        Batch of shape (N,)
            Datum i's model depends on this estimator's parameters, the context and datum i alone.
        FitInfo
            With ``return_info``: a named tuple of the arrays ``n_iter``, ``converged`` and ``objective``, ``(N,)``.
        """
        X, context = self._accepted(X, context)
        if not return_info:
            return self._fit_accepted(X, context)
        self._check_each(X, context)
        found = self._climb_each(X, context, lambda i: datum_name(X, i))
        return found.models, found.info

    def _fit_named(self, X: Any, context: Context, name: Callable[[int], str]) -> Any:
        return self._climb_each(X, context, name).models

    def _climb_each(self, X: Any, context: Context, name: Callable[[int], str]) -> Climbed:
        """Fit one model to every datum; ``name(i)`` is what the caller knows datum i by."""
        raise NotImplementedError(f"{type(self).__name__} must write _climb_each(X, context, name)")
