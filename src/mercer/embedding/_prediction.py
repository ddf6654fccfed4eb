"""Predictions from beliefs: means, quantiles, best training points, probabilities (HSE-5, HSE-6)."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer._array import Floats, Indices
from mercer._checks import is_whole
from mercer._random import random_generator, whole_size
from mercer.data import Sequences
from mercer.embedding._filter import Beliefs, last_beliefs
from mercer.embedding._learning import Learned
from mercer.embedding._steps import Steps, take

MARGINAL = 0.01
"""Weight of the marginal distribution in the estimate of a probability, which is never zero so."""
TINY = 1e-300
ROWS = 256
"""Number of beliefs whose weights over all training points are held at a time."""


class Readout:
    """Predictions from beliefs.

    Parameters
    ----------
    learned : Learned
        The fitted model.
    """

    def __init__(self, learned: Learned) -> None:
        self.learned = learned

    def levels(self, quantiles: Any) -> Floats | None:
        """Check the probabilities of quantiles; None is none."""
        if quantiles is None:
            return None
        if not self.learned.comparison.vectors:
            raise TypeError("quantiles need vectors; got symbols or objects. Leave quantiles out.")
        try:
            levels = np.asarray(quantiles, dtype=float)
        except (TypeError, ValueError):
            levels = np.array(np.nan)
        if levels.ndim != 1 or not len(levels) or not np.all((levels >= 0) & (levels <= 1)):
            raise ValueError(f"quantiles must be a list of probabilities from 0 to 1; got {quantiles!r}.")
        return levels

    def weights(self, beliefs: Floats) -> Floats:
        """Return weights over the training triples, clipped at zero, ``(n, m)``; equal ones if none is positive."""
        weights = np.maximum(beliefs @ self.learned.reading().T, 0.0)
        total = weights.sum(axis=1, keepdims=True)
        return np.where(total > 0, weights / np.where(total > 0, total, 1.0), 1 / weights.shape[1])

    def ahead_of(self, ahead: int) -> tuple[Indices, Indices]:
        """Return the triples whose observation ``ahead`` steps after the past is known, and its time."""
        train, at = self.learned.train, self.learned.times
        times = at + ahead - 1
        known = times < train.ends[at]
        known[known] = train.observed[times[known]]
        if not known.any():
            raise ValueError(
                f"No training sequence has an observation {ahead} steps after a window. Use fewer steps, or longer "
                "training sequences."
            )
        return np.flatnonzero(known), times[known]

    def predicted(self, beliefs: Floats, ahead: int, levels: Floats | None, best: bool) -> Any:
        """Return the predictions from beliefs ``(n, N)``, as `EmbeddedHMM.predict` does."""
        if levels is not None or best or self.learned.comparison.is_objects:
            known, times = self.ahead_of(ahead)
            if levels is not None:
                return self.quantiles(beliefs, known, times, levels)
            found = self.best(beliefs, known, times)
            return self.decoded(take(self.learned.train.values, times[found]))
        if self.learned.comparison.vectors:
            center, readout = self.means(ahead)
            return center + beliefs @ readout.T
        return self.probabilities(*self.table(ahead), beliefs)

    def means(self, ahead: int) -> tuple[Floats, Floats]:
        """Return the mean of the observations ``(d,)``, and what a belief adds to it, ``(d, N)``."""
        operators = self.learned.operators
        if ahead == 1 and operators.mean is not None:
            center = self.learned.center()
            return center, operators.mean - np.outer(center, operators.normalizer)
        # Deviations from the mean: a part of the triples has weights that do not quite sum to one.
        known, times = self.ahead_of(ahead)
        x, reads = self.learned.train.values[times], self.learned.reading()
        center = x.mean(axis=0)
        return center, (x - center).T @ reads[known] * (len(reads) / len(known))

    def table(self, ahead: int) -> tuple[Floats, Floats]:
        """Return the sums of the weights of each symbol ``(n_symbols, N)``, and its share, ``(n_symbols,)``."""
        operators = self.learned.operators
        if ahead == 1 and operators.mean is not None:
            return operators.mean, self.learned.center()
        known, times = self.ahead_of(ahead)
        codes, table = self.learned.train.values[times], np.zeros((len(self.learned.alphabet), operators.n))
        np.add.at(table, codes, self.learned.reading()[known])
        return table, np.bincount(codes, minlength=len(table)) / len(codes)

    def probabilities(self, table: Floats, share: Floats, beliefs: Floats) -> Floats:
        """Return the probabilities of symbols, clipped at zero and normalized, ``(n, n_symbols)``."""
        found = np.maximum(beliefs @ table.T, 0.0)
        total = found.sum(axis=1, keepdims=True)
        return np.where(total > 0, found / np.where(total > 0, total, 1.0), share)

    def best(self, beliefs: Floats, known: Indices, times: Indices) -> Indices:
        """Return, for each belief, the known triple whose observation has the highest predicted density."""
        candidates = take(self.learned.train.values, times)
        reads = self.learned.reading()[known]
        if self.learned.maps is None:
            readout = self.learned.comparison.observations(candidates, candidates) @ reads
        else:
            features = self.learned.compared(candidates)
            readout = features @ (features.T @ reads)
        parts = [beliefs[i : i + ROWS] @ readout.T for i in range(0, len(beliefs), ROWS)]
        return np.concatenate([np.argmax(part, axis=1) for part in parts] or [np.zeros(0, dtype=np.int64)])

    def quantiles(self, beliefs: Floats, known: Indices, times: Indices, levels: Floats) -> Floats:
        """Return quantiles of the known observations, weighted, ``(n, Q, d)``."""
        x = self.learned.train.values[times]
        order = np.argsort(x, axis=0)
        out = np.zeros((len(beliefs), len(levels), x.shape[1]))
        for begin in range(0, len(beliefs), ROWS):
            part = slice(begin, begin + ROWS)
            weights = self.weights(beliefs[part])[:, known]
            for j in range(x.shape[1]):
                sums = np.cumsum(weights[:, order[:, j]], axis=1)
                sums /= np.maximum(sums[:, -1:], TINY)
                at = np.stack([np.argmax(sums >= min(level, 1 - 1e-12), axis=1) for level in levels], axis=1)
                out[part, :, j] = x[order[:, j], j][at]
        return out

    def log_densities(self, before: Floats, steps: Steps) -> Floats:
        """Return the logarithm of the predicted density at every step, ``(T,)``; 0 where it is missing.

        Parameters
        ----------
        before : array of shape (T, N)
            The belief before every step.
        steps : Steps
            The observations.
        """
        out = np.zeros(len(steps))
        seen = np.flatnonzero(steps.observed)
        if self.learned.comparison.is_delta:
            table, share = self.table(1)
            found = self.probabilities(table, share, before[seen])
            found = (1 - MARGINAL) * found + MARGINAL * share
            out[seen] = np.log(np.maximum(found[np.arange(len(seen)), steps.values[seen]], TINY))
            return out
        gammas, constant = self.learned.comparison.gammas(), 0.0
        if gammas is not None and self.learned.dimension is not None:
            constant = self.learned.dimension / 2 * np.log(gammas[0] / np.pi)
        density = self.learned.operators.density
        for begin in range(0, len(seen), ROWS):
            at = seen[begin : begin + ROWS]
            compared = self.learned.compared(take(steps.values, at))
            if density is None:
                values = np.einsum("tm,tm->t", compared, before[at] @ self.learned.reading().T)
                marginal = compared.mean(axis=1)
            else:
                values = np.einsum("tr,tr->t", compared, before[at] @ density.T)
                marginal = compared @ self.learned.mean_features()
            mixed = (1 - MARGINAL) * np.maximum(values, 0.0) + MARGINAL * np.maximum(marginal, TINY)
            out[at] = np.log(mixed) + constant
        return out

    def decoded(self, values: Any) -> Any:
        """Return symbols in place of codes; vectors and objects as they are."""
        if self.learned.alphabet is None or isinstance(values, list) or values.ndim == 2:
            return values
        return Sequences.from_codes([values], self.learned.alphabet)[0]


def whole_steps(steps: Any) -> int:
    """Check a number of steps ahead."""
    if not is_whole(steps, 1):
        raise ValueError(f"steps must be a whole number, 1 or more; got {steps!r}.")
    return int(steps)


class Prediction:
    """Predictions of a fitted estimator."""

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
