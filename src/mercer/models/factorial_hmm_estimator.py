"""The estimator of factorial hidden Markov models: exact EM, or structured variational EM."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import clone

from mercer._array import Floats, Indices
from mercer._notices import notify_unconverged
from mercer._parameters import Rule, Rules, nonnegative, one_of, states
from mercer._random import seed_of
from mercer.data import Sequences
from mercer.data.segments import in_digest_order, in_double
from mercer.families.estimator import Context
from mercer.models._factorial.em import Parameters, Sums, exact, log_prior, maximized, penalty, variational
from mercer.models._fitting.checks import check_range, warn_of_one_series
from mercer.models._fitting.climb import Climbed
from mercer.models._fitting.iterative import IterativeEstimator
from mercer.models.factorial_hmm import MOST_JOINT, FactorialHMMs

__all__ = ["FactorialHMM"]

FEW_JOINT = 64
"""Number of joint states up to which ``inference="auto"`` is exact."""


@dataclass(frozen=True)
class FactorialContext(Context):
    """What series share: besides the rest, what the pooled model expects of one observation."""

    expected: Sums | None = None


class _Fit(NamedTuple):
    model: Parameters
    objective: float
    steps: int
    converged: bool
    sums: Sums


class FactorialHMM(IterativeEstimator):
    """Fit factorial hidden Markov models by EM, one per series or one to all series.

    Parameters
    ----------
    n_chains, n_states : int, default=2
        Number of chains, and of the states of each.
    inference : {"auto", "exact", "variational"}, default="auto"
        The E-step: through all joint states, or structured mean field, which keeps the Markov chain of each chain.
        "auto" is exact for up to 64 joint states.
    floor : float, default=1e-3
        Fraction of the pooled variance of each channel that is added to the variance of the noise.
    prior : {"pooled"} or None, default="pooled"
        What the model of each series is shrunk to: one model of all training data, from which its fit also starts.
    prior_strength : float, default=20.0
        Weight of the prior, in observations.
    n_iter, tol : int and float, default=100 and 1e-4
        The maximum number of iterations, and the growth of the objective per observation at which they stop.
    n_init : int, default=3
        Number of starts, if there is no prior to start from; the best fit is kept.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the starts.

    Attributes
    ----------
    model_ : FactorialHMMs of shape (1,)
        What ``fit`` learned.
    context_ : Context
        Properties of the training data that all models share.

    Notes
    -----
    The observation is a sum of effects of all chains plus Gaussian noise (PPK-6.1; Ghahramani and Jordan 1997). The
    objective, the log probability or its lower bound plus the log prior, never decreases.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> rng = np.random.default_rng(0)
    >>> slow, fast = np.repeat(rng.integers(2, size=20), 10), np.repeat(rng.integers(2, size=50), 4)
    >>> series = 4.0 * slow + 1.0 * fast + 0.2 * rng.normal(size=200)
    >>> model = mc.FactorialHMM(n_chains=2, n_states=2).fit([series[:, None]]).model_
    >>> effects = model.mean[0, :, :, 0]
    >>> sorted(np.abs(effects[:, 1] - effects[:, 0]).round().tolist())
    [1.0, 4.0]
    """

    of_sequences: ClassVar[bool] = True
    has_hidden: ClassVar[bool] = True

    _parameters: ClassVar[Rules] = {
        "n_chains": states(),
        "n_states": states(),
        "inference": one_of("auto", "exact", "variational"),
        "floor": nonnegative("It is a fraction of the pooled variance."),
        "prior": Rule(
            "None or 'pooled'", lambda value: value is None or (isinstance(value, str) and value == "pooled")
        ),
    }

    def __init__(
        self,
        n_chains: int = 2,
        n_states: int = 2,
        inference: str = "auto",
        floor: float = 1e-3,
        prior: str | None = "pooled",
        prior_strength: float = 20.0,
        n_iter: int = 100,
        tol: float = 1e-4,
        n_init: int = 3,
        random_state: Any = 0,
    ) -> None:
        self.n_chains = n_chains
        self.n_states = n_states
        self.inference = inference
        self.floor = floor
        self.prior = prior
        self.prior_strength = prior_strength
        self.n_iter = n_iter
        self.tol = tol
        self.n_init = n_init
        self.random_state = random_state

    def _check_parameters(self) -> None:
        super()._check_parameters()
        joint = int(self.n_states) ** int(self.n_chains)
        if self.inference == "exact" and joint > MOST_JOINT:
            raise ValueError(
                f"inference='exact' takes up to {MOST_JOINT:,} joint states; got {joint:,}. Use 'variational'."
            )

    def accept(self, X: Any, *, owner: Any = None, reset: bool = False, context: Context | None = None) -> Sequences:
        """Convert ``X`` to `Sequences` of vectors; a 2-D array is N univariate series."""
        if isinstance(X, list | tuple) and not len(X):
            raise ValueError("X must have at least one sample; got an empty list.")
        if context is None:
            warn_of_one_series(X)
        X = in_double(Sequences(X))
        self._check_vectors(X)
        self._check_observed(X)
        check_range(X)
        return X

    def context(self, X: Any) -> Context:
        """Learn the moments of the channels and, with a pooled prior, one model of all series."""
        X = in_digest_order(X)
        if not len(X.values):
            raise ValueError("There is nothing to fit: every sample is empty.")
        scale = X.values.var(axis=0)
        scale = np.where(scale > 0, scale, 1.0)
        found = FactorialContext(dimension=X.dimension, center=X.values.mean(axis=0), scale=scale)
        if self.prior is None:
            return found
        alone = clone(self).set_params(prior=None)
        fit = alone._best(X.values, X.offsets, found)
        return replace(found, pooled=_batch([fit]), expected=fit.sums.per_observation())

    def _fit_shared(self, X: Any, context: Context) -> Any:
        if context.pooled is not None:
            return context.pooled
        X = in_digest_order(X)
        fit = self._best(X.values, X.offsets, context)
        self._warn([fit], lambda i: "the model of all series")
        return _batch([fit])

    def _climb_each(self, X: Any, context: Context, name: Callable[[int], str]) -> Climbed:
        fits = []
        for begin, end in pairwise(X.offsets):
            fits.append(self._best(X.values[begin:end], np.array([0, end - begin]), context))
        self._warn(fits, name)
        objective = np.array([fit.objective for fit in fits])
        steps, converged = np.array([fit.steps for fit in fits]), np.array([fit.converged for fit in fits])
        return Climbed(_batch(fits), objective, steps, converged, np.empty((len(fits), 0)))

    def _warn(self, fits: list[_Fit], name: Callable[[int], str]) -> None:
        if self.tol > 0 and self.n_iter > 1:
            late = [name(i) for i, fit in enumerate(fits) if not fit.converged]
            notify_unconverged("EM", int(self.n_iter), late)

    def _best(self, x: Floats, offsets: Indices, context: Context) -> _Fit:
        """Fit one model to one or several series, from the pooled model or from the best of several starts."""
        assert context.center is not None
        expected = getattr(context, "expected", None) if self.prior is not None else None
        share = context.center / int(self.n_chains)  # fits are centered, so that squares do not cancel
        if expected is not None:
            pooled = Parameters(*(getattr(context.pooled, part)[0] for part in Parameters._fields))
            starts = [pooled._replace(mean=pooled.mean - share)]
        else:
            starts = [self._start(context, k) for k in range(int(self.n_init))]
        fits = [self._climb(x - context.center, offsets, start, context, expected) for start in starts]
        best = max(fits, key=lambda fit: fit.objective)
        return best._replace(model=best.model._replace(mean=best.model.mean + share))

    def _start(self, context: Context, k: int) -> Parameters:
        assert context.scale is not None
        rng = np.random.default_rng([seed_of(self.random_state), k])
        chains, n, d = int(self.n_chains), int(self.n_states), context.dimension
        spread = np.sqrt(context.scale / chains)
        mean = spread * rng.standard_normal((chains, n, d))
        transition = np.full((chains, n, n), 0.3 / n) + 0.7 * np.eye(n)
        return Parameters(np.full((chains, n), 1 / n), transition, mean, np.diag(context.scale))

    def _climb(self, x: Floats, offsets: Indices, model: Parameters, context: Context, expected: Sums | None) -> _Fit:
        assert context.scale is not None
        floor, strength = float(self.floor) * context.scale, float(self.prior_strength)
        joint = int(self.n_states) ** int(self.n_chains)
        whole = self.inference == "exact" or (self.inference == "auto" and joint <= FEW_JOINT)
        before, states = -np.inf, None
        for step in range(1, int(self.n_iter) + 1):
            if whole:
                objective, sums = exact(model, x, offsets)
            else:
                objective, sums, states = variational(model, x, offsets, states)
            total = sums
            if expected is not None:
                objective += log_prior(model, expected, strength)
                total = sums.plus(expected, strength)
            objective -= penalty(model, total.size, floor)
            settled = self.tol > 0 and objective - before <= self.tol * max(len(x), 1)
            if total.size > 0:
                model = maximized(total, model, floor)
            if settled:
                return _Fit(model, objective, step, True, sums)
            before = objective
        return _Fit(model, objective, int(self.n_iter), self.tol == 0, sums)


def _batch(fits: list[_Fit]) -> FactorialHMMs:
    return FactorialHMMs(*(np.stack([getattr(fit.model, part) for fit in fits]) for part in Parameters._fields))
