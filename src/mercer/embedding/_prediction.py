"""The predictions of an embedded hidden Markov model, as its public methods."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer._array import Floats
from mercer._checks import is_whole
from mercer._random import random_generator, whole_size
from mercer._renamed import LENGTH, STEPS, no_keyword
from mercer.embedding._filter import Beliefs, last_beliefs
from mercer.embedding._learning import Learned
from mercer.embedding._readout import TINY, Readout
from mercer.embedding._steps import Steps, take


def whole_steps(steps: Any) -> int:
    """Check a number of steps ahead."""
    if not is_whole(steps, 1):
        raise ValueError(f"steps must be a whole number, 1 or more; got {steps!r}.")
    return int(steps)


class Prediction:
    """What an estimator predicts from what it has learned."""

    _learned: Learned
    max_gap: int | None

    def _known(self) -> Learned:
        if "_learned" not in self.__dict__:  # the check itself would be a tenth of a step of a stream
            check_is_fitted(self, "_learned")
        return self._learned

    def _readout(self) -> Readout:
        return Readout(self._known())

    def _filtered(self, X: Any) -> Beliefs:
        learned = self._known()
        return learned.filter(learned.steps(X), self.max_gap)

    def _before(self, steps: Steps) -> Floats:
        """Return the belief before every step, ``(T, N)``."""
        learned = self._known()
        found, start = learned.filter(steps, self.max_gap), learned.operators.start
        before = np.concatenate([start[None], found.values[:-1]]) if len(steps) else found.values
        before[steps.offsets[:-1][np.diff(steps.offsets) > 0]] = start
        return before

    def predict(self, X: Any, steps: int = 1, quantiles: Any = None, best: bool = False) -> list[Any]:
        """Predict the observation ``steps`` after each step, from all observations up to that step.

        Parameters
        ----------
        X : list of sequences
            As in ``fit``.
        steps : int, default=1
            Number of steps ahead.
        quantiles : array of shape (Q,) or None, default=None
            Probabilities: predict these quantiles of each coordinate in place of the mean.
        best : bool, default=False
            Whether to predict the training observation with the highest predicted density; always for objects.

        Returns
        -------
        list of arrays of shape (T, d), (T, Q, d) or (T, n_symbols), or of lists
            For each sequence: means or best training points of vectors, quantiles, probabilities of symbols, or the
            best objects. Row t predicts step ``t + steps``.
        """
        readout = self._readout()
        ahead, levels = whole_steps(steps), readout.levels(quantiles)
        found = self._filtered(X)
        values = readout.predicted(found.values, ahead, levels, best)
        return [values[a:b] for a, b in zip(found.offsets[:-1], found.offsets[1:], strict=True)]

    @no_keyword(horizon=STEPS, n_steps=STEPS)
    def forecast(self, X: Any, steps: int = 1, quantiles: Any = None) -> Any:
        """Predict the ``steps`` observations after the end of each sequence.

        Each step ahead has its own weights over the training data, as in the paper, so that errors do not build up.

        Parameters
        ----------
        X : list of sequences
            As in ``fit``.
        steps : int, default=1
            Number of steps.
        quantiles : array of shape (Q,) or None, default=None
            Predict these quantiles in place of the mean.

        Returns
        -------
        array of shape (N, steps, d), (N, steps, Q, d) or (N, steps, n_symbols), or list of lists
        """
        readout = self._readout()
        ahead, levels = whole_steps(steps), readout.levels(quantiles)
        readout.ahead_of(ahead)
        last = last_beliefs(self._learned.operators, self._filtered(X))
        each = [readout.predicted(last, i, levels, False) for i in range(1, ahead + 1)]
        if isinstance(each[0], list):
            return [list(row) for row in zip(*each, strict=True)]
        return np.stack(each, axis=1)

    def log_prob(self, X: Any) -> Floats:
        """Estimate the log probability of each sequence, ``(N,)``: the sum of the logarithms of one-step predictions.

        It is an estimate, not the logarithm of a density that integrates to one: the predicted density of vectors is
        smoothed by the Gaussian kernel, clipped at zero, and mixed with one percent of the marginal density. Symbols
        have probabilities. For other kernels it is relative to an unknown constant per step. Missing steps count 0.

        Parameters
        ----------
        X : list of sequences
            As in ``fit``.
        """
        readout, steps = self._readout(), self._known().steps(X)
        each = readout.log_densities(self._before(steps), steps)
        return np.array([each[a:b].sum() for a, b in zip(steps.offsets[:-1], steps.offsets[1:], strict=True)])

    def score_samples(self, X: Any) -> Floats:
        """Return `log_prob`, the estimated log probability of each sequence, ``(N,)``."""
        return self.log_prob(X)

    def score(self, X: Any, y: Any = None) -> float:
        """Score one-step predictions; larger is better.

        Vectors: the explained fraction of the variance around the training mean. Symbols and objects: the estimated log
        probability per observed step.

        Parameters
        ----------
        X : list of sequences
            As in ``fit``.
        y : None
            Ignored.
        """
        readout, learned = self._readout(), self._known()
        steps = learned.steps(X)
        if not steps.observed.any():
            raise ValueError("X has no observed step to score. Pass sequences with observations.")
        before = self._before(steps)
        if not learned.comparison.vectors:
            return float(readout.log_densities(before, steps)[steps.observed].mean())
        predicted = readout.predicted(before, 1, None, False)[steps.observed]
        truth = steps.values[steps.observed]
        spread = np.sum((truth - learned.center()) ** 2)
        return float(1 - np.sum((truth - predicted) ** 2) / max(float(spread), TINY))

    @no_keyword(n_samples=LENGTH)
    def sample(self, length: int, size: int = 1, random_state: Any = None) -> list[Any]:
        """Draw sequences: each step is a training observation, drawn by the predicted weights, clipped at zero.

        Parameters
        ----------
        length : int
            Number of steps.
        size : int, default=1
            Number of sequences.
        random_state : int, Generator, RandomState or None, default=None
            Seed.

        Returns
        -------
        list of arrays of shape (length, d), of arrays of symbols, or of lists of objects
        """
        readout, learned = self._readout(), self._known()
        if not is_whole(length, 1):
            raise ValueError(f"length must be a whole number, 1 or more; got {length!r}.")
        rng = random_generator(random_state)
        observations = take(learned.train.values, learned.times)
        out = []
        for _ in range(whole_size(size)):
            belief, chosen = learned.operators.start, []
            for _ in range(int(length)):
                weights = readout.weights(belief[None])[0]
                chosen.append(int(np.searchsorted(np.cumsum(weights), rng.random() * weights.sum(), side="right")))
                chosen[-1] = min(chosen[-1], len(weights) - 1)
                belief = learned.advanced(belief, take(observations, np.array(chosen[-1:])))
            out.append(readout.decoded(take(observations, np.array(chosen))))
        return out
