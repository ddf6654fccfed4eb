"""The estimator of factorial hidden Markov models, by EM."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import clone

from mercer._array import Floats, Indices
from mercer._batch import Batch
from mercer._parameters import Rule, Rules, nonnegative, states
from mercer._probability import normalized
from mercer._random import seed_of
from mercer.data import Sequences
from mercer.data.segments import check_coordinates, check_some_points, in_digest_order, in_double, in_numbers
from mercer.families.estimator import Context
from mercer.families.gaussian import Gaussians
from mercer.models._factorial.joint import MOST_JOINT, ByChain, joint_states
from mercer.models._fitting.checks import (
    check_range,
    check_something,
    impossible,
)
from mercer.models._fitting.em import EMResult, EMResults, em_single, joined
from mercer.models._fitting.iterative import IterativeEstimator
from mercer.models._forward.evidence import evidence_of
from mercer.models._forward.interface import Runs, expectations
from mercer.models.factorial_hmm import FactorialHMMs
from mercer.models.inference import double
from mercer.models.verbs import FittedStates, Learned

__all__ = ["FactorialHMM"]


@dataclass(frozen=True)
class FactorialContext(Context):
    """The context of series, with the expectations of the prior for one observation."""

    expected: Any = None


def _is_prior(value: Any) -> bool:
    if isinstance(value, Batch):
        return isinstance(value, FactorialHMMs) and value.shape == (1,)
    return value is None or (isinstance(value, str) and value == "pooled")


@dataclass(eq=False, repr=False)
class FactorialHMM(FittedStates, IterativeEstimator):
    """Fit factorial hidden Markov models by EM, one per sequence or one to all sequences.

    Parameters
    ----------
    n_chains, n_states : int, default=2
        Number of chains, and of the states of each. There may be 1,024 joint states.
    floor : float, default=1e-3
        Fraction of the pooled variance of each channel that is added to the variance of the noise.
    prior : "pooled", None or FactorialHMMs of shape (1,), default="pooled"
        What the model of each sequence is shrunk to, and where its fit starts: one model of all training data, or a
        given one.
    prior_strength : float, default=20.0
        Weight of the prior, in observations. Of a given model, this is the weight in each row of each table of
        probabilities.
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
    initial_, transition_, mean_, covariance_
        Its parameters, without the batch axis.
    context_ : Context
        Properties of the training data that all models share.
    n_iter_ : int
        Number of iterations of the fit of ``model_``, from the best of its starts.
    converged_ : bool
        Whether that fit converged before ``n_iter``.

    Notes
    -----
    A vector is a sum of effects of all chains plus Gaussian noise (PPK-6.1; Ghahramani and Jordan 1997). Missing values
    (NaN) are marginalized, also in single coordinates. The objective, the log probability
    plus the log prior, never decreases.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> rng = np.random.default_rng(0)
    >>> slow = np.repeat(rng.integers(2, size=20), 10)
    >>> fast = np.repeat(rng.integers(2, size=50), 4)
    >>> series = 4.0 * slow + 1.0 * fast + 0.2 * rng.normal(size=200)
    >>> model = mc.FactorialHMM(n_chains=2, n_states=2).fit([series[:, None]]).model_
    >>> effects = model.mean[0, :, :, 0]
    >>> sorted(np.abs(effects[:, 1] - effects[:, 0]).round().tolist())
    [1.0, 4.0]
    """

    of_sequences: ClassVar[bool] = True

    _parameters: ClassVar[Rules] = {
        "n_chains": states(),
        "n_states": states(),
        "floor": nonnegative("It is a fraction of the pooled variance."),
        "prior": Rule("None, 'pooled' or FactorialHMMs of shape (1,)", _is_prior),
    }

    n_chains: int = 2
    n_states: int = 2
    floor: float = 1e-3
    prior: Any = "pooled"
    prior_strength: float = 20.0
    n_iter: int = 100
    tol: float = 1e-4
    n_init: int = 3
    random_state: Any = 0

    initial_, transition_, mean_, covariance_ = Learned(), Learned(), Learned(), Learned()

    # -- checks ----------------------------------------------------------------------------------------------

    def _missing_allowed(self) -> bool:
        return True

    def _check_parameters(self) -> None:
        super()._check_parameters()
        joint_states = int(self.n_states) ** int(self.n_chains)
        if joint_states > MOST_JOINT:
            raise ValueError(
                f"A model takes up to {MOST_JOINT:,} joint states; got {joint_states:,}. Use fewer chains or states."
            )
        if isinstance(self.prior, FactorialHMMs):
            found, wanted = tuple(self.prior.initial.shape[1:]), (int(self.n_chains), int(self.n_states))
            if found != wanted:
                raise ValueError(
                    f"prior has {found[0]} chains of {found[1]} states; expected {wanted[0]} of {wanted[1]}. Make them "
                    f"equal, as in n_chains={found[0]}, n_states={found[1]}."
                )

    def accept(self, X: Any, *, owner: Any = None, reset: bool = False, context: Context | None = None) -> Sequences:
        """Convert ``X`` to `Sequences` of vectors; a 2-D array is N univariate series."""
        X = in_double(in_numbers(self._sequences(X, owner, reset)))
        X.require("vectors", self, "Use mc.HMM.")
        self._check_vectors(X)
        if isinstance(self.prior, FactorialHMMs) and X.dimension not in (None, self.prior.dimension):
            raise ValueError(
                f"prior has {self.prior.dimension} coordinates; the data have {X.dimension}. Make them equal."
            )
        check_range(X)
        return X

    def _check_data(self, X: Any, offsets: Floats) -> None:
        super()._check_data(X, offsets)
        if self.prior is None:
            check_coordinates(X, offsets)

    # -- what all models share -------------------------------------------------------------------------------

    def _learn(self, X: Any, each: bool = False) -> tuple[Context, EMResults | None]:
        check_some_points(X)
        X = in_digest_order(X)
        check_something(X, self)
        scale = np.nanvar(X.values, axis=0)
        scale = np.where(scale > 0, scale, 1.0)
        found = FactorialContext(dimension=X.dimension, center=np.nanmean(X.values, axis=0), scale=scale)
        if self.prior is None:
            return found, None
        if isinstance(self.prior, FactorialHMMs):
            return replace(found, expected=_centered(self.prior, found).prior_sums()), None
        fit = clone(self).set_params(prior=None)._best(X.values, X.offsets, found)
        sums, pooled = fit.expected, _batch([fit])
        return replace(found, pooled=pooled, expected=Sums(*(part / sums.size for part in sums))), joined(pooled, [fit])

    # -- fits ------------------------------------------------------------------------------------------------

    def _fit_together(self, X: Any, context: Context) -> EMResults:
        X = in_digest_order(X)
        fit = self._best(X.values, X.offsets, context)
        found = joined(_batch([fit]), [fit])
        self._warn_unconverged([(found, lambda i: "the model of all series")])
        return found

    def _em_each(self, X: Any, context: Context, name: Callable[[int], str]) -> EMResults:
        fits = []
        for i, (begin, end) in enumerate(pairwise(X.offsets)):
            fits.append(self._best(X.values[begin:end], np.array([0, end - begin]), context))
            if np.isneginf(fits[-1].objective):
                raise impossible(name(i), self._source())
        found = joined(_batch(fits), fits)
        self._warn_unconverged([(found, name)])
        return found

    def _best(self, x: Floats, offsets: Indices, context: Context) -> EMResult:
        """Fit one model to one or several series, from the prior or from the best of several starts."""
        assert context.scale is not None
        expected: Sums | None = getattr(context, "expected", None) if self.prior is not None else None
        if expected is not None:
            starts = [_centered(self.prior if isinstance(self.prior, FactorialHMMs) else context.pooled, context)]
        else:
            starts = [self._start(context, k) for k in range(int(self.n_init))]
        strength, floor = float(self.prior_strength), float(self.floor) * context.scale
        x, tol = x - context.center, self.tol * max(len(x), 1)

        def total(sums: Sums) -> Sums:
            return sums if expected is None else sums.plus(expected, strength)

        def expect(model: Parameters) -> tuple[float, Sums]:
            objective, sums = model.expect(x, offsets)
            prior = 0.0 if expected is None else model.log_prior(expected, strength)
            return objective + prior - model.penalty(total(sums).size, floor), sums

        def maximize(model: Parameters, sums: Sums) -> Parameters:
            return model.maximized(total(sums), floor)

        about = f"FactorialHMM of {len(offsets) - 1} samples"
        fits = [em_single(expect, maximize, start, int(self.n_iter), tol, about) for start in starts]
        best = max(fits, key=lambda fit: fit.objective)
        return best._replace(model=best.model._replace(mean=best.model.mean + _share(context, int(self.n_chains))))

    def _start(self, context: Context, k: int) -> Parameters:
        rng = np.random.default_rng([seed_of(self.random_state), k])
        chains, n = int(self.n_chains), int(self.n_states)
        assert context.scale is not None
        transition = np.full((chains, n, n), 0.3 / n) + 0.7 * np.eye(n)
        mean = np.sqrt(context.scale / chains) * rng.standard_normal((chains, n, len(context.scale)))
        return Parameters(np.full((chains, n), 1 / n), transition, mean, np.diag(context.scale))


def _share(context: Context, chains: int) -> Any:
    """Return the centers of the effects of each chain; without them, squares would cancel."""
    return context.center / chains  # type: ignore[operator]


def _centered(models: FactorialHMMs, context: Context) -> Parameters:
    """Return the parameters of one model, of centered data."""
    initial, transition, mean, covariance = (double(getattr(models, part))[0] for part in Parameters._fields)
    return Parameters(initial, transition, mean - _share(context, len(mean)), covariance)


def _batch(fits: list[EMResult]) -> FactorialHMMs:
    return FactorialHMMs(*(np.stack(parts) for parts in zip(*(fit.model for fit in fits), strict=True)))


class Sums(NamedTuple):
    """Expected statistics: of states and transitions, of observations with states, and of pairs of states."""

    first: Floats
    transitions: Floats
    crossed: Floats
    """Sum of eta x', ``(C n, d)``, with eta the indicators of all states."""
    states: Floats
    """Sum of eta eta', ``(C n, C n)``."""
    squares: Floats
    """Sum of x x', ``(d, d)``."""
    size: float

    def plus(self, other: Sums, weight: float) -> Sums:
        """Add other statistics, with a weight."""
        pairs: Any = zip(self, other, strict=True)
        return Sums(*(a + weight * b for a, b in pairs))


class Parameters(NamedTuple):
    """One model: ``(C, n)``, ``(C, n, n)``, ``(C, n, d)`` and ``(d, d)``."""

    initial: Floats
    transition: Floats
    mean: Floats
    covariance: Floats

    @property
    def effects(self) -> Floats:
        """Effects of all states, ``(C n, d)``."""
        return self.mean.reshape(-1, self.mean.shape[-1])

    def expect(self, x: Floats, offsets: Indices) -> tuple[float, Sums]:
        """Return the log probability and the expected statistics.

        A missing coordinate is replaced by its expectation given the joint state and the other coordinates.
        """
        chains, n = self.initial.shape
        shown = joint_states(n, chains)
        means, covariance = shown @ self.effects, self.covariance
        covariances = np.broadcast_to(covariance, (1, len(means), *covariance.shape))
        chain = zip(self.initial, self.transition, strict=True)
        initial, step = reduce(lambda a, b: (np.kron(a[0], b[0]), np.kron(a[1], b[1])), chain)
        evidence = evidence_of(Gaussians(means[None], covariances), x, np.zeros(len(x), dtype=int))
        found = expectations(initial[None], step[None], evidence, Runs.shared(offsets), states=True)
        assert found.states is not None
        crossed, squares = np.zeros_like(means), np.zeros_like(covariance)
        kinds, kind = np.unique(np.isnan(x), axis=0, return_inverse=True)
        for k, missing in enumerate(kinds):
            rows, seen = np.flatnonzero(kind.reshape(-1) == k), np.flatnonzero(~missing)
            states = found.states[rows]
            # E[x | state] = gain (what is seen) + given, with the covariance spread
            gain = np.linalg.solve(covariance[np.ix_(seen, seen)], covariance[seen]).T
            gain[seen] = np.eye(len(seen))
            given, spread = means - means[:, seen] @ gain.T, covariance - gain @ covariance[seen]
            y = x[np.ix_(rows, seen)] @ gain.T
            own, mass = states.T @ y, states.sum(axis=0)[:, None]
            both = own.T @ given
            crossed += own + mass * given
            squares += y.T @ y + both + both.T + given.T @ (mass * given) + len(rows) * spread
        pairs = shown.T @ (found.states.sum(axis=0)[:, None] * shown)
        by_chain = ByChain.of(found, n, chains)
        first, steps = by_chain.first.sum(axis=0), by_chain.transitions.sum(axis=0)
        return float(found.log_prob.sum()), Sums(first, steps, shown.T @ crossed, pairs, squares, float(len(x)))

    def maximized(self, sums: Sums, floor: Floats) -> Parameters:
        """Refit a model to expected statistics; ``floor`` is added to the variances."""
        if sums.size <= 0:
            return self
        # One state per chain is redundant: the least squares solution of smallest norm.
        mean = np.linalg.pinv(sums.states, rcond=1e-10, hermitian=True) @ sums.crossed
        covariance = _residual(mean, sums) / sums.size
        covariance = (covariance + covariance.T) / 2 + np.diag(floor)
        first, steps = normalized(sums.first, self.initial), normalized(sums.transitions, self.transition)
        return Parameters(first, steps, mean.reshape(self.mean.shape), covariance)

    def penalty(self, count: float, floor: Floats) -> float:
        """Return the penalty of the floor on the objective."""
        return float(count * (np.diag(np.linalg.inv(self.covariance)) @ floor) / 2)

    def log_prior(self, expected: Sums, strength: float) -> float:
        """Return the expected log probability of ``strength`` observations of the prior, up to a constant."""
        _, log_det = np.linalg.slogdet(self.covariance)
        value = -np.sum(np.linalg.inv(self.covariance) * _residual(self.effects, expected)) / 2
        value -= expected.size * log_det / 2
        return float(strength * (value + sum(map(_log_of, expected[:2], self))))

    def prior_sums(self) -> Sums:
        """Return the expectations of a given model for one observation, if all states are equally probable."""
        chains, n = self.initial.shape
        states = np.full((chains * n, chains * n), 1 / n**2)
        for c in range(chains):
            states[c * n : (c + 1) * n, c * n : (c + 1) * n] = np.eye(n) / n
        squares = self.effects.T @ states @ self.effects + self.covariance
        return Sums(self.initial, self.transition, states @ self.effects, states, squares, 1.0)


def _residual(mean: Floats, sums: Sums) -> Floats:
    """Sum of squares of what the effects of the states leave, ``(d, d)``."""
    explained = mean.T @ sums.crossed
    return np.asarray(sums.squares - explained - explained.T + mean.T @ sums.states @ mean)


def _log_of(counts: Floats, p: Floats) -> float:
    """Return the log probability of counts, up to a constant."""
    seen = counts > 0
    return float(np.sum(counts[seen] * np.log(np.maximum(p[seen], 1e-300))))
