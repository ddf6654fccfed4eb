"""The estimator of factorial hidden Markov models, by EM."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from mercer._array import Floats, Indices
from mercer._batch import Batch
from mercer._parameters import Rule, Rules, nonnegative, one_of, states
from mercer._random import seed_of
from mercer.data import Sequences
from mercer.data.alphabet import ALPHABET
from mercer.data.segments import check_coordinates, check_some_points, in_digest_order, in_double
from mercer.families.categorical import Categorical
from mercer.families.estimator import Context
from mercer.models._factorial import em
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
class FactorialHMM(IterativeEstimator):
    """Fit factorial hidden Markov models by EM, one per sequence or one to all sequences.

    Sequences of vectors have additive Gaussian emissions, sequences of symbols a table over all joint states.

    Parameters
    ----------
    n_chains, n_states : int, default=2
        Number of chains, and of the states of each. There may be 1,024 joint states.
    floor : float, default=1e-3
        Fraction of the pooled variance of each channel that is added to the variance of the noise.
    alphabet : Alphabet, str, iterable or None, default=None
        Alphabet of symbols; None takes it from `Sequences` or infers it from the training data.
    unknown : {"raise", "missing"}, default="raise"
        Whether a symbol outside the alphabet raises an error or is a missing symbol.
    prior : "pooled", None or FactorialHMMs of shape (1,), default="pooled"
        What the model of each sequence is shrunk to, and where its fit starts: one model of all training data, or a
        given one.
    prior_strength : float, default=20.0
        Weight of the prior, in observations. Of a model of symbols and of a given model, this is the weight in each row
        of each table of probabilities.
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
    n_iter_ : int
        Number of iterations of the fit of ``model_``, from the best of its starts.
    converged_ : bool
        Whether that fit converged before ``n_iter``.

    Notes
    -----
    A vector is a sum of effects of all chains plus Gaussian noise (PPK-6.1; Ghahramani and Jordan 1997). Missing values
    (NaN, missing symbols) are marginalized, also in single coordinates. The objective, the log probability
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
    has_hidden: ClassVar[bool] = True

    _parameters: ClassVar[Rules] = {
        "n_chains": states(),
        "n_states": states(),
        "floor": nonnegative("It is a fraction of the pooled variance."),
        "alphabet": ALPHABET,
        "unknown": one_of("raise", "missing"),
        "prior": Rule("None, 'pooled' or FactorialHMMs of shape (1,)", _is_prior),
    }

    n_chains: int = 2
    n_states: int = 2
    floor: float = 1e-3
    alphabet: Any = None
    unknown: str = "raise"
    prior: Any = "pooled"
    prior_strength: float = 20.0
    n_iter: int = 100
    tol: float = 1e-4
    n_init: int = 3
    random_state: Any = 0

    # -- checks ----------------------------------------------------------------------------------------------

    @property
    def _joint(self) -> int:
        return int(self.n_states) ** int(self.n_chains)

    def _missing_allowed(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        return tags

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self._joint > MOST_JOINT:
            raise ValueError(
                f"A model takes up to {MOST_JOINT:,} joint states; got {self._joint:,}. Use fewer chains or states."
            )
        if isinstance(self.prior, FactorialHMMs):
            found, wanted = tuple(self.prior.initial.shape[1:]), (int(self.n_chains), int(self.n_states))
            if found != wanted:
                raise ValueError(
                    f"prior has {found[0]} chains of {found[1]} states; expected {wanted[0]} of {wanted[1]}. Make them "
                    f"equal, as in n_chains={found[0]}, n_states={found[1]}."
                )

    def accept(self, X: Any, *, owner: Any = None, reset: bool = False, context: Context | None = None) -> Sequences:
        """Convert ``X`` to `Sequences`; a 2-D array is N univariate series if floats, N strings if integers."""
        X = self._sequences(X, owner, reset, self._known_alphabet(context), self.unknown)
        if context is not None:
            X.require("vectors" if context.alphabet is None else "symbols", "The fitted model")
        if isinstance(self.prior, FactorialHMMs):
            self._check_prior(X)
        if X.is_symbols:
            accepted: Sequences = Categorical(X.alphabet, self.unknown).accept(X)
            return accepted
        X = in_double(X)
        self._check_vectors(X)
        check_range(X)
        return X

    def _known_alphabet(self, context: Context | None) -> Any:
        if context is not None:
            return context.alphabet
        given = self.prior.alphabet if isinstance(self.prior, FactorialHMMs) else None
        return given if self.alphabet is None else self.alphabet

    def _check_prior(self, X: Sequences) -> None:
        X.require("symbols" if self.prior.of_symbols else "vectors", "prior")
        if not X.is_symbols and X.dimension not in (None, self.prior.dimension):
            raise ValueError(
                f"prior has {self.prior.dimension} coordinates; the data have {X.dimension}. Make them equal."
            )

    def _check_data(self, X: Any, offsets: Floats) -> None:
        super()._check_data(X, offsets)
        if self.prior is None and not X.is_symbols:
            check_coordinates(X, offsets)

    # -- what all models share -------------------------------------------------------------------------------

    def _learn(self, X: Any, each: bool = False) -> tuple[Context, EMResults | None]:
        check_some_points(X)
        X = in_digest_order(X)
        check_something(X, Categorical() if X.is_symbols else self)
        if X.is_symbols:
            found = FactorialContext(dimension=len(X.alphabet), alphabet=X.alphabet)
        else:
            scale = np.nanvar(X.values, axis=0)
            scale = np.where(scale > 0, scale, 1.0)
            found = FactorialContext(dimension=X.dimension, center=np.nanmean(X.values, axis=0), scale=scale)
        if self.prior is None:
            return found, None
        if isinstance(self.prior, FactorialHMMs):
            return replace(found, expected=_centered(self.prior, found).prior_sums()), None
        alone = clone(self).set_params(prior=None)
        fit = alone._best(X.values, X.offsets, found, smooth=True)
        sums = fit.expected
        expected = fit.model.prior_sums() if X.is_symbols else em.Sums(*(part / sums.size for part in sums))
        pooled = _batch([fit], found)
        return replace(found, pooled=pooled, expected=expected), joined(pooled, [fit])

    # -- fits ------------------------------------------------------------------------------------------------

    def _fit_together(self, X: Any, context: Context) -> EMResults:
        X = in_digest_order(X)
        fit = self._best(X.values, X.offsets, context)
        found = joined(_batch([fit], context), [fit])
        self._warn_unconverged([(found, lambda i: "the model of all series")])
        return found

    def _em_each(self, X: Any, context: Context, name: Callable[[int], str]) -> EMResults:
        fits = []
        for i, (begin, end) in enumerate(pairwise(X.offsets)):
            fits.append(self._best(X.values[begin:end], np.array([0, end - begin]), context))
            if np.isneginf(fits[-1].objective):
                raise impossible(name(i), self._source())
        found = joined(_batch(fits, context), fits)
        self._warn_unconverged([(found, name)])
        return found

    def _best(self, x: Any, offsets: Indices, context: Context, *, smooth: bool = False) -> EMResult:
        """Fit one model to one or several series, from the prior or from the best of several starts.

        With ``smooth``, each joint state of a model of symbols has seen one observation that is spread evenly.
        """
        expected = getattr(context, "expected", None) if self.prior is not None else None
        if expected is not None:
            starts = [_centered(self.prior if isinstance(self.prior, FactorialHMMs) else context.pooled, context)]
        else:
            starts = [self._start(context, k, x) for k in range(int(self.n_init))]
        strength = float(self.prior_strength)
        if smooth and context.alphabet is not None:
            expected, strength = starts[0].even_sums(), 1.0
        fits = [self._run_em(x, offsets, start, context, expected, strength) for start in starts]
        best = max(fits, key=lambda fit: fit.objective)
        if context.alphabet is not None:
            return best
        return best._replace(model=best.model._replace(mean=best.model.mean + _share(context, int(self.n_chains))))

    def _start(self, context: Context, k: int, x: Any) -> Any:
        rng = np.random.default_rng([seed_of(self.random_state), k])
        chains, n, d = int(self.n_chains), int(self.n_states), context.dimension
        transition = np.full((chains, n, n), 0.3 / n) + 0.7 * np.eye(n)
        if context.alphabet is not None:
            often = np.bincount(x, minlength=d)[:d] + 1.0
            rows = often / often.sum() * rng.gamma(1.0, size=(self._joint, d)) + 1e-3
            return em.TableParameters(np.full((chains, n), 1 / n), transition, rows / rows.sum(axis=1, keepdims=True))
        assert context.scale is not None
        mean = np.sqrt(context.scale / chains) * rng.standard_normal((chains, n, d))
        return em.Parameters(np.full((chains, n), 1 / n), transition, mean, np.diag(context.scale))

    def _run_em(
        self, x: Any, offsets: Indices, start: Any, context: Context, expected: Any, strength: float
    ) -> EMResult:
        """Fit one model of centered vectors, or of symbols, from a start."""
        floor = None
        if context.alphabet is None:
            assert context.scale is not None
            x, floor = x - context.center, float(self.floor) * context.scale

        def total(sums: Any) -> Any:
            return sums if expected is None else em.plus(sums, expected, strength)

        def expect(model: Any) -> tuple[float, Any]:
            objective, sums = model.expect(x, offsets, context.alphabet)
            prior = 0.0 if expected is None else model.log_prior(expected, strength)
            return objective + prior - model.penalty(total(sums).size, floor), sums

        def maximize(model: Any, sums: Any) -> Any:
            return model.maximized(total(sums), floor)

        return em_single(expect, maximize, start, int(self.n_iter), self.tol * max(len(x), 1))


def _share(context: Context, chains: int) -> Any:
    """Return the centers of the effects of each chain; without them, squares would cancel."""
    return context.center / chains  # type: ignore[operator]


def _centered(models: FactorialHMMs, context: Context) -> Any:
    """Return the parameters of one model, of centered data."""
    kind = em.Parameters if context.alphabet is None else em.TableParameters
    parts = kind(*(double(getattr(models, part))[0] for part in kind._fields))
    if isinstance(parts, em.Parameters):
        return parts._replace(mean=parts.mean - _share(context, len(parts.mean)))
    return parts


def _batch(fits: list[EMResult], context: Context) -> FactorialHMMs:
    names = type(fits[0].model)._fields
    return FactorialHMMs(
        **{name: np.stack([getattr(fit.model, name) for fit in fits]) for name in names}, alphabet=context.alphabet
    )
