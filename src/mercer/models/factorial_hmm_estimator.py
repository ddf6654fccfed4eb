"""The estimator of factorial hidden Markov models, by EM."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, TypeAlias

import numpy as np
from sklearn.base import clone

from mercer._array import Floats, Indices
from mercer._batch import Batch
from mercer._parameters import Rule, Rules, nonnegative, one_of, states
from mercer._random import seed_of
from mercer.data import Sequences
from mercer.data.segments import check_coordinates, check_some_points, in_digest_order, in_double, in_numbers
from mercer.families.estimator import Context
from mercer.models._factorial.em import Parameters, Sums
from mercer.models._factorial.joint import MOST_JOINT
from mercer.models._fitting.checks import (
    check_range,
    check_something,
    impossible,
)
from mercer.models._fitting.em import EMResult, EMResults, em_single, joined
from mercer.models._fitting.iterative import IterativeEstimator
from mercer.models.factorial_hmm import FactorialHMMs
from mercer.models.inference import double
from mercer.models.verbs import FittedStates, Learned

__all__ = ["FactorialHMM"]

MOST_STATES = 1000
"""Number of states of all chains together that mean field takes: the M-step is a regression on all of them."""


Step: TypeAlias = tuple[Parameters, list[Floats] | None]
"""A model, and the posteriors of all chains that mean field starts from."""


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
    r"""Fit factorial hidden Markov models by EM, one per sequence or one to all sequences.

    Parameters
    ----------
    n_chains, n_states : int, default=2
        Number of chains, and of the states of each.
    inference : {"auto", "exact", "mean_field"}, default="auto"
        The E-step: exact, up to 1,024 joint states of all chains, or structured mean field, for any number of them.
        "auto" is exact where that is possible.
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
    plus the log prior, never decreases. With mean field, a lower bound takes the place of the log probability,

    .. math:: \log p(x) \ge E_Q[\log p(x, q^1, \dots, q^C)] + H(Q), \qquad Q = \prod_c Q_c(q^c_1, \dots, q^c_T),

    in which every chain keeps its own Markov chain (PPK-6.1).

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
        "inference": one_of("auto", "exact", "mean_field"),
        "floor": nonnegative("It is a fraction of the pooled variance."),
        "prior": Rule("None, 'pooled' or FactorialHMMs of shape (1,)", _is_prior),
    }

    n_chains: int = 2
    n_states: int = 2
    inference: str = "auto"
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
        joint, together = self._n_joint(), int(self.n_states) * int(self.n_chains)
        if self.inference == "exact" and joint > MOST_JOINT:
            raise ValueError(
                f"inference='exact' takes up to {MOST_JOINT:,} joint states; got {joint:,}. Use "
                "inference='mean_field', or fewer chains or states."
            )
        if together > MOST_STATES:
            raise ValueError(
                f"A model takes up to {MOST_STATES:,} states of all chains together; got {together:,}. Use fewer "
                "chains or states."
            )
        if isinstance(self.prior, FactorialHMMs):
            found, wanted = tuple(self.prior.initial.shape[1:]), (int(self.n_chains), int(self.n_states))
            if found != wanted:
                raise ValueError(
                    f"prior has {found[0]} chains of {found[1]} states; expected {wanted[0]} of {wanted[1]}. Make them "
                    f"equal, as in n_chains={found[0]}, n_states={found[1]}."
                )

    def _n_joint(self) -> int:
        return int(self.n_states) ** int(self.n_chains)

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

        exact = self.inference == "exact" or (self.inference == "auto" and self._n_joint() <= MOST_JOINT)

        def expect(step: Step) -> tuple[float, tuple[Sums, list[Floats] | None]]:
            model, guess = step
            if exact:
                objective, sums = model.expect(x, offsets)
            else:
                objective, sums, guess = model.expect_mean_field(x, offsets, guess)
            prior = 0.0 if expected is None else model.log_prior(expected, strength)
            return objective + prior - model.penalty(total(sums).size, floor), (sums, guess)

        def maximize(step: Step, found: tuple[Sums, list[Floats] | None]) -> Step:
            return step[0].maximized(total(found[0]), floor), found[1]

        about = f"FactorialHMM of {len(offsets) - 1} samples"
        fits = [em_single(expect, maximize, (start, None), int(self.n_iter), tol, about) for start in starts]
        best = max(fits, key=lambda fit: fit.objective)
        model = best.model[0]._replace(mean=best.model[0].mean + _share(context, int(self.n_chains)))
        return best._replace(model=model, expected=best.expected[0])

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
