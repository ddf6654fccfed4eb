"""Inference for switching systems: probabilities of series, regimes over time, forecasts and a criterion."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats, Indices
from mercer._random import whole_size
from mercer.data import Sequences
from mercer.models._dynamics.checks import computed, possible, within_range
from mercer.models._dynamics.runs import Systems
from mercer.models._forward.interface import Runs
from mercer.models._switching.hypotheses import METHODS, best, chains_of, explore, log_likelihoods
from mercer.models._switching.smoothing import regime_posteriors
from mercer.models.inference import own_runs
from mercer.models.posterior import Posterior


class LogProbEstimate(NamedTuple):
    """Log probabilities and their standard errors, from ``SwitchingLDSs.log_prob_estimate``.

    Examples
    --------
    >>> import mercer as mc
    >>> walk = mc.LDSs([[[1.0]]], [[[1.0]]], [[[0.1]]], [[[1.0]]], [[0.0]], [[[1.0]]])
    >>> model = mc.models.SwitchingLDSs([[1.0]], [[[1.0]]], walk.reshape(1, 1))
    >>> found = model.log_prob_estimate([[0.0, 3.0]])
    >>> found.log_prob.round(2), found.standard_error
    (array([[-5.23]]), array([[0.]]))
    """

    log_prob: Floats
    """``(N, M)``."""
    standard_error: Floats
    """``(N, M)``; zero where all regime paths were summed."""


class DecodedRegimes:
    """Methods of a batch of switching systems: probabilities, regimes, forecasts and a criterion."""

    n_regimes: Any
    n_parameters: Any
    read: Any
    _require_axis: Any
    __len__: Any

    def log_prob(self, X: Any, method: str = "auto", n_particles: int = 64, random_state: Any = 0) -> Floats:
        """Log probability of each series under each model, ``(N, M)``; parameters as in `log_prob_estimate`."""
        return self.log_prob_estimate(X, method, n_particles, random_state).log_prob

    def log_prob_estimate(
        self, X: Any, method: str = "auto", n_particles: int = 64, random_state: Any = 0
    ) -> LogProbEstimate:
        """Log probability of each series under each model, with standard errors.

        Parameters
        ----------
        X : Sequences, or anything that converts to them
            M series. NaN is marginalized, in single coordinates too.
        method : {"auto", "exact", "particles"}, default="auto"
            "exact" sums over all paths of regimes. "particles" estimates the sum by Rao-Blackwellized particle filters:
            a particle is a path of regimes with its Kalman filter. "auto" is exact for at most 1,024 paths.
        n_particles : int, default=64
            Number of particles of each of 8 independent filters, whose spread gives the standard error.
        random_state : int, Generator, RandomState or None, default=0
            Seed of the particles.

        Returns
        -------
        LogProbEstimate
            ``log_prob`` and ``standard_error``, ``(N, M)``. The estimate of the probability, not of its logarithm, is
            unbiased. Standard errors are reliable where the model suits the series; where it does not, most estimates
            are a little too small, and a few too large.

        Examples
        --------
        >>> import numpy as np, mercer as mc
        >>> walk = mc.LDSs(
        ...     [[[1.0]], [[1.0]]], [[[1.0]], [[1.0]]], [[[0.1]], [[2.0]]],
        ...     [[[0.1]], [[0.1]]], [[0.0], [0.0]], [[[1.0]], [[1.0]]],
        ... )
        >>> model = mc.models.SwitchingLDSs(
        ...     [[0.5, 0.5]], [[[0.9, 0.1], [0.1, 0.9]]], walk.reshape(1, 2)
        ... )
        >>> series = np.cumsum(np.random.default_rng(0).normal(size=(1, 10)), axis=1)
        >>> exact = model.log_prob(series, method="exact")
        >>> found = model.log_prob_estimate(series, method="particles", n_particles=16)
        >>> bool(abs(found.log_prob - exact).max() <= 4 * found.standard_error.max())
        True
        """
        self._require_axis()
        if not isinstance(method, str) or method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(map(repr, METHODS))}; got {method!r}.")
        n_particles = whole_size(n_particles, "particles", name="n_particles", least=1)
        X = self.read(X)
        runs = Runs.crossed(X.offsets, len(self))
        values = np.asarray(X.values, dtype=np.float64)
        chains = chains_of(self)
        before: list[Floats] = []

        def estimated(systems: Systems) -> LogProbEstimate:
            every = chains._replace(systems=systems)
            logs, errors = log_likelihoods(every, self.n_regimes, values, runs, method, n_particles, random_state)
            before.append(logs)
            return LogProbEstimate(np.where(errors > 0, before[0], logs), errors)  # digits of estimates do not count

        found = computed(estimated, chains.systems, X)
        return LogProbEstimate(*(part.reshape(len(self), len(X)) for part in found))

    def regime_probabilities(self, X: Any, n_paths: int = 64, random_state: Any = 0) -> Posterior:
        """Posterior probabilities of the regimes at each observation given the whole series.

        Exact if a series has at most 1,024 paths of regimes. Otherwise the average over ``n_paths`` paths that are
        drawn backwards from the results of a particle filter; the filtered states of each regime are replaced by a
        Gaussian with the same mean and covariance.

        Parameters
        ----------
        X : Sequences, or anything that converts to them
            For a batch of shape ``(1,)``, any number of series under the one model. Otherwise N series, series i under
            model i.
        n_paths : int, default=64
            Number of paths, and of particles.
        random_state : int, Generator, RandomState or None, default=0
            Seed of particles and paths.

        Returns
        -------
        Posterior
            ``posterior[i]`` are the probabilities of series i, ``(T, K)``; ``posterior.states`` those of all series.
        """
        self._require_axis()
        n_paths = whole_size(n_paths, "paths", name="n_paths", least=1)
        X, values, runs = self._own(X)
        chains = chains_of(self)
        found, log_prob = regime_posteriors(chains, self.n_regimes, values, runs, int(n_paths), random_state)
        return Posterior._make(X, found, None, possible(log_prob, X, chains.systems))

    def viterbi(self, X: Any, n_paths: int = 64) -> tuple[list[Indices], Floats]:
        """Most probable path of regimes of each series that a beam search finds, and its log probability.

        Parameters
        ----------
        X : Sequences, or anything that converts to them
            Series, assigned to models as in `regime_probabilities`.
        n_paths : int, default=64
            Number of paths that the search follows; exact if there are no more.

        Returns
        -------
        paths, log_prob
            A list of int arrays, and the log probabilities of the series together with these paths.
        """
        self._require_axis()
        n_paths = whole_size(n_paths, "paths", name="n_paths", least=1)
        X, values, runs = self._own(X)
        chains = chains_of(self)
        found = explore(chains, values, runs, max(int(n_paths), chains.regimes), best(chains.regimes), paths=True)
        assert found.regimes is not None
        at = found.log_weight.argmax(axis=1)
        paths = [found.regimes[at[i], a:b].astype(int) for i, (a, b) in enumerate(pairwise(X.offsets))]
        return paths, possible(found.log_weight.max(axis=1), X, chains.systems)

    def _own(self, X: Any) -> tuple[Sequences, Floats, Runs]:
        """Read series that go with the one model, or series i with model i."""
        X = self.read(X)
        return X, np.asarray(X.values, dtype=np.float64), own_runs(self, X)

    def forecast(self, X: Any, steps: int = 1, n_particles: int = 64, random_state: Any = 0) -> tuple[Floats, Floats]:
        """Predict the observations after the end of each series; series are assigned as in `regime_probabilities`.

        Means and covariances are those of the mixture over the regimes; a series of regimes unlike each other has
        predictions that are not Gaussian.

        Parameters
        ----------
        X : Sequences, or anything that converts to them
            The series so far.
        steps : int, default=1
            Number of observations to predict.
        n_particles : int, default=64
            Number of paths of regimes that the filter of the series so far follows.
        random_state : int, Generator, RandomState or None, default=0
            Seed of the filter.

        Returns
        -------
        means, covariances
            Of the predicted observations, ``(M, steps, d)`` and ``(M, steps, d, d)``.
        """
        from mercer.models._switching.smoothing import forecasts

        self._require_axis()
        steps = whole_size(steps, "observations", name="steps", least=1)
        n_particles = whole_size(n_particles, "particles", name="n_particles", least=1)
        X, values, runs = self._own(X)
        chains = chains_of(self)
        with np.errstate(over="ignore", invalid="ignore"):  # checked at the end
            found = forecasts(chains, values, runs, steps, int(n_particles), random_state)
        means, covariances, log_prob = found
        possible(log_prob, X, chains.systems)
        within_range(covariances, 1, "steps", "covariances of the forecast")
        return within_range(means, 1, "steps", "forecasts"), covariances

    def bic(self, X: Any) -> Floats:
        """Bayesian information criterion of each model on all of ``X``, ``(N,)``; smaller is better."""
        X = self.read(X)
        seen = int(np.isfinite(np.asarray(X.values, dtype=float)).any(axis=1).sum())
        return np.asarray(self.n_parameters * np.log(max(seen, 1)) - 2 * self.log_prob(X).sum(axis=1))
