"""The base class of iterative estimators: parameters, seed and fit results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from mercer._notices import warns_once
from mercer._parameters import Rules, boolean, check, nonnegative, seed, whole
from mercer.data.segments import sample_name
from mercer.families.estimator import Context, Estimator
from mercer.models._fitting.em import EMResults


class IterativeEstimator(Estimator):
    """An estimator that runs EM from one or several starts. A subclass implements `_em_each`."""

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

    @warns_once
    def fit_each(self, X: Any, context: Context | None = None, *, return_info: bool = False) -> Any:
        """Fit one model to each sample.

        Parameters
        ----------
        X : data
            As for ``fit``.
        context : Context, default=None
            Properties that all samples share; by default those learned by ``fit``, or else those of ``X``.
        return_info : bool, default=False
            Whether to return information about the fits; the cache is then not used.

        Returns
        -------
        Batch of shape (N,)
            The model of sample i depends only on the parameters of the estimator, the context and sample i.
        FitInfo
            Only if ``return_info``: a named tuple of the arrays ``n_iter``, ``converged`` and ``objective``, ``(N,)``.
        """
        check(boolean(), return_info=return_info)
        X, context = self._accepted(X, context)
        if not return_info:
            return self._fit_accepted(X, context)
        self._check_each(X, context)
        found = self._em_each(X, context, lambda i: sample_name(X, i))
        return found.models, found.info

    def _fit_named(self, X: Any, context: Context, name: Callable[[int], str]) -> Any:
        return self._em_each(X, context, name).models

    def _em_each(self, X: Any, context: Context, name: Callable[[int], str]) -> EMResults:
        """Fit one model to each sample; ``name(i)`` is the name of sample i in messages."""
        raise NotImplementedError(f"{type(self).__name__} must implement _em_each(X, context, name).")
