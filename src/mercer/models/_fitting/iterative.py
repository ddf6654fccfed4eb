"""Base classes of estimators: those that iterate, for one model or many, and those of one model that all share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NoReturn, Self

import numpy as np

from mercer._array import Floats, Indices
from mercer._notices import notify_unconverged, warns_once
from mercer._parallel import n_threads, thread_map
from mercer._parameters import Rules, boolean, check, nonnegative, seed, whole
from mercer.data.segments import refuse_paths, sample_name
from mercer.families.estimator import Context, Estimator
from mercer.models._fitting.em import EMResults, Found, in_order

CHUNK = 512
"""Number of samples that one thread fits together."""


class IterativeEstimator(Estimator):
    """An estimator that runs EM from one or several starts.

    A subclass implements `_learn`, `_fit_together` (one model of all samples) and `_em_each` (one of each).
    """

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
    _em: ClassVar[str] = "EM"
    """Name of the iterations, in messages."""

    def _learn(self, X: Any, each: bool = False) -> tuple[Context, EMResults | None]:
        """Learn what samples share, for one model of all or one of ``each``; and the fit, if the pooled prior is it."""
        raise NotImplementedError(f"{type(self).__name__} must implement _learn(X, each).")

    def _fit_together(self, X: Any, context: Context) -> EMResults:
        """Fit one model to all samples."""
        raise NotImplementedError(f"{type(self).__name__} must implement _fit_together(X, context).")

    def _em_each(self, X: Any, context: Context, name: Callable[[int], str]) -> EMResults:
        """Fit one model to each sample; ``name(i)`` is the name of sample i in messages."""
        raise NotImplementedError(f"{type(self).__name__} must implement _em_each(X, context, name).")

    def context(self, X: Any) -> Context:
        """Learn what all samples share and, with a pooled prior, the model of all samples."""
        return self._learn(X, each=True)[0]

    @warns_once
    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit one model to all samples; it becomes ``model_``, a batch of shape ``(1,)``."""
        self._check_parameters()
        self._check_unused(X, y)
        X = self.accept(X, reset=True)
        refuse_paths(type(self).__name__, X, y)
        # A pooled prior is the fit itself; a second pass would only shrink the model to itself.
        self.context_, found = self._learn(X)
        found = self._fit_together(X, self.context_) if found is None else found
        self.model_, self.n_iter_, self.converged_ = found.models, int(found.steps[0]), bool(found.converged[0])
        if found.history is not None:
            self.history_ = found.history[0, : self.n_iter_]
        return self

    def _fit_shared(self, X: Any, context: Context) -> Any:
        return context.pooled if isinstance(self.prior, str) else self._fit_together(X, context).models

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

    def _source(self) -> str:
        """Return the name of the start of the fits, for messages."""
        given = getattr(self, "init", None)
        return "init" if given is not None else "the prior" if self.prior is not None else "every start"

    def _on_threads(
        self, groups: list[Indices], fit: Callable[[Indices], EMResults], name: Callable[[int], str]
    ) -> tuple[EMResults, Found]:
        """Fit the samples of all groups in chunks, on several threads; also return the fits of the chunks."""
        tasks = [members[begin : begin + CHUNK] for members in groups for begin in range(0, len(members), CHUNK)]
        pieces: dict[int, EMResults] = {}

        def work(number: int) -> None:
            pieces[number] = fit(tasks[number])

        thread_map(work, list(range(len(tasks))), threads=n_threads(), label=self._em)
        done = [pieces[number] for number in range(len(tasks))]
        named: Found = [
            (found, lambda i, members=members: name(int(members[i])))  # type: ignore[misc]
            for found, members in zip(done, tasks, strict=True)
        ]
        self._warn_unconverged(named)
        return in_order(done, tasks), named

    def _warn_unconverged(self, found: Found) -> None:
        """Warn, once for all models, of those that have not converged."""
        if self.n_iter > 1 and self.tol > 0:
            late = [name(int(i)) for fit, name in found for i in np.flatnonzero(~fit.converged)]
            notify_unconverged(self._em, int(self.n_iter), late)


def learned(objective: Floats, converged: bool, **others: Any) -> dict[str, Any]:
    """Return the attributes of an estimator that EM learned, and others."""
    return {"objective_": objective, "converged_": converged, "n_iter_": len(objective)} | others


class SharedEstimator(Estimator):
    """An estimator of one model that all samples share. A subclass implements `_fit_all`."""

    _only_shared: ClassVar[str] = ""
    """Why no model is fitted to each sample, and what to do instead."""

    @warns_once
    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit one model to all samples; it becomes ``model_``, of shape ``(1,)``.

        Parameters
        ----------
        X : data
            The training data: sequences, aligned sequences with gaps for `ProfileHMM`, a table for `HiddenTree`.
        y : array of shape (N,), default=None
            Classes, for models that learn from pairs of one class.
        """
        self._check_parameters()
        X = self.accept(X, reset=True)
        if not self.uses_classes:
            refuse_paths(type(self).__name__, X, y)
        self.context_ = self.context(X)
        self.model_, others = self._fit_all(X, self.context_, y)
        self.__dict__.update(others)
        return self

    def _fit_all(self, X: Any, context: Context, y: Any = None) -> tuple[Any, dict[str, Any]]:
        """Fit the model to validated data; also return the other attributes that are learned."""
        raise NotImplementedError

    def _fit_shared(self, X: Any, context: Context, y: Any = None) -> Any:
        return self._fit_all(X, context, y)[0]

    def fit_each(self, X: Any, context: Context | None = None, **_: Any) -> NoReturn:
        """Raise TypeError, because the model describes what samples share."""
        self._fit_accepted(X, context)

    def _fit_accepted(self, X: Any, context: Any) -> NoReturn:
        raise TypeError(self._only_shared)
