"""Predictions from beliefs: means, quantiles, best training points, probabilities, samples (HSE-5, HSE-6)."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats, Indices
from mercer._checks import is_whole
from mercer._random import random_generator, whole_size
from mercer.data import Sequences
from mercer.embedding._filter import Beliefs, Operator, advance_one, last_beliefs
from mercer.embedding._solve import Operators
from mercer.embedding._steps import Steps, take

MARGINAL = 0.01
"""Weight of the marginal distribution in the estimate of a probability, which is never zero so."""
TINY = 1e-300
ROWS = 256
"""Number of beliefs whose weights over all training points are held at a time."""


class Prediction:
    """What a fitted `EmbeddedHMM` predicts; the estimator provides the operators, the training data and the filter."""

    _comparison: Any
    _maps: Any
    _dimension: int | None
    _alphabet: Any

    @property
    def _train(self) -> Steps:
        raise NotImplementedError

    @property
    def _times(self) -> Indices:
        raise NotImplementedError

    def _operators(self) -> Operators:
        raise NotImplementedError

    def _steps(self, X: Any, *, reset: bool = False) -> Steps:
        raise NotImplementedError

    def _filter(self, operators: Operators, steps: Steps) -> Beliefs:
        raise NotImplementedError

    def _compared(self, values: Any) -> Floats:
        raise NotImplementedError

    def _operator(self, operators: Operators, value: Any) -> Operator:
        raise NotImplementedError

    def _reading(self) -> Floats:
        raise NotImplementedError

    def _center(self) -> Floats:
        raise NotImplementedError

    def _mean_features(self) -> Floats:
        raise NotImplementedError

    # -- public --------------------------------------------------------------------------------------------

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
        operators = self._operators()
        ahead = self._ahead(steps)
        levels = None if quantiles is None else self._levels(quantiles)
        found = self._filter(operators, self._steps(X))
        values = self._predicted(operators, found.values, ahead, levels, best)
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
        operators = self._operators()
        ahead = self._ahead(steps)
        levels = None if quantiles is None else self._levels(quantiles)
        self._ahead_of(ahead)
        found = self._filter(operators, self._steps(X))
        last = last_beliefs(operators, found)
        each = [self._predicted(operators, last, i, levels, False) for i in range(1, ahead + 1)]
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
        operators = self._operators()
        steps = self._steps(X)
        each = self._log_densities(operators, steps)
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
        operators = self._operators()
        steps = self._steps(X)
        if not steps.observed.any():
            raise ValueError("X has no observed step to score. Pass sequences with observations.")
        if not self._comparison.vectors:
            return float(self._log_densities(operators, steps)[steps.observed].mean())
        before = self._before(operators, steps)
        predicted = self._predicted(operators, before, 1, None, False)[steps.observed]
        truth = steps.values[steps.observed]
        spread = np.sum((truth - self._center()) ** 2)
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
        operators = self._operators()
        if not is_whole(length, 1):
            raise ValueError(f"length must be a whole number, 1 or more; got {length!r}.")
        rng = random_generator(random_state)
        observations = take(self._train.values, self._times)
        out = []
        for _ in range(whole_size(size)):
            belief, chosen = operators.start, []
            for _ in range(int(length)):
                weights = self._weights(operators, belief[None])[0]
                chosen.append(int(np.searchsorted(np.cumsum(weights), rng.random() * weights.sum(), side="right")))
                chosen[-1] = min(chosen[-1], len(weights) - 1)
                one = take(observations, np.array(chosen[-1:]))
                belief = advance_one(operators, belief, self._operator(operators, one))
            drawn = take(observations, np.array(chosen))
            out.append(self._decoded(drawn))
        return out

    # -- parts ---------------------------------------------------------------------------------------------

    @staticmethod
    def _ahead(steps: Any) -> int:
        if not is_whole(steps, 1):
            raise ValueError(f"steps must be a whole number, 1 or more; got {steps!r}.")
        return int(steps)

    def _levels(self, quantiles: Any) -> Floats:
        if not self._comparison.vectors:
            raise TypeError("quantiles need vectors; got symbols or objects. Leave quantiles out.")
        try:
            levels = np.asarray(quantiles, dtype=float)
        except (TypeError, ValueError):
            levels = np.array(np.nan)
        if levels.ndim != 1 or not len(levels) or not np.all((levels >= 0) & (levels <= 1)):
            raise ValueError(f"quantiles must be a list of probabilities from 0 to 1; got {quantiles!r}.")
        return levels

    def _before(self, operators: Operators, steps: Steps) -> Floats:
        """Return the belief before every step, ``(T, N)``."""
        found = self._filter(operators, steps)
        before = np.concatenate([operators.start[None], found.values[:-1]]) if len(steps) else found.values
        before[steps.offsets[:-1][np.diff(steps.offsets) > 0]] = operators.start
        return before

    def _weights(self, operators: Operators, beliefs: Floats) -> Floats:
        """Return weights over the training triples, clipped at zero, ``(n, m)``; equal ones if none is positive."""
        weights = np.maximum(beliefs @ self._reading().T, 0.0)
        total = weights.sum(axis=1, keepdims=True)
        return np.where(total > 0, weights / np.where(total > 0, total, 1.0), 1 / weights.shape[1])

    def _ahead_of(self, ahead: int) -> tuple[Indices, Indices]:
        """Return the triples whose observation ``ahead`` steps after the past is known, and its time."""
        times = self._times + ahead - 1
        known = times < self._train.ends[self._times]
        known[known] = self._train.observed[times[known]]
        if not known.any():
            raise ValueError(
                f"No training sequence has an observation {ahead} steps after a window. Use fewer steps, or longer "
                "training sequences."
            )
        return np.flatnonzero(known), times[known]

    def _predicted(self, operators: Operators, beliefs: Floats, ahead: int, levels: Floats | None, best: bool) -> Any:
        if levels is not None or best or self._comparison.is_objects:
            known, times = self._ahead_of(ahead)
            if levels is not None:
                return self._quantiles(operators, beliefs, known, times, levels)
            found = self._best(operators, beliefs, known, times)
            return self._decoded(take(self._train.values, times[found]))
        if self._comparison.vectors:
            center, readout = self._means(operators, ahead)
            return center + beliefs @ readout.T
        return self._probabilities(*self._table(operators, ahead), beliefs)

    def _means(self, operators: Operators, ahead: int) -> tuple[Floats, Floats]:
        """Return the mean of the observations ``(d,)``, and what a belief adds to it, ``(d, N)``."""
        if ahead == 1 and operators.mean is not None:
            center = self._center()
            return center, operators.mean - np.outer(center, operators.normalizer)
        # Deviations from the mean: a part of the triples has weights that do not quite sum to one.
        known, times = self._ahead_of(ahead)
        x, reads = self._train.values[times], self._reading()
        center = x.mean(axis=0)
        return center, (x - center).T @ reads[known] * (len(reads) / len(known))

    def _table(self, operators: Operators, ahead: int) -> tuple[Floats, Floats]:
        """Return the sums of the weights of each symbol ``(n_symbols, N)``, and its share, ``(n_symbols,)``."""
        if ahead == 1 and operators.mean is not None:
            return operators.mean, self._center()
        known, times = self._ahead_of(ahead)
        codes, table = self._train.values[times], np.zeros((len(self._alphabet), operators.n))
        np.add.at(table, codes, self._reading()[known])
        return table, np.bincount(codes, minlength=len(table)) / len(codes)

    def _probabilities(self, table: Floats, share: Floats, beliefs: Floats) -> Floats:
        """Return the probabilities of symbols, clipped at zero and normalized, ``(n, n_symbols)``."""
        found = np.maximum(beliefs @ table.T, 0.0)
        total = found.sum(axis=1, keepdims=True)
        return np.where(total > 0, found / np.where(total > 0, total, 1.0), share)

    def _best(self, operators: Operators, beliefs: Floats, known: Indices, times: Indices) -> Indices:
        """Return, for each belief, the known triple whose observation has the highest predicted density."""
        candidates = take(self._train.values, times)
        reads = self._reading()[known]
        if self._maps is None:
            readout = self._comparison.observations(candidates, candidates) @ reads
        else:
            features = self._compared(candidates)
            readout = features @ (features.T @ reads)
        parts = [beliefs[i : i + ROWS] @ readout.T for i in range(0, len(beliefs), ROWS)]
        return np.concatenate([np.argmax(part, axis=1) for part in parts] or [np.zeros(0, dtype=np.int64)])

    def _quantiles(
        self, operators: Operators, beliefs: Floats, known: Indices, times: Indices, levels: Floats
    ) -> Floats:
        x = self._train.values[times]
        order = np.argsort(x, axis=0)
        out = np.zeros((len(beliefs), len(levels), x.shape[1]))
        for begin in range(0, len(beliefs), ROWS):
            part = slice(begin, begin + ROWS)
            weights = self._weights(operators, beliefs[part])[:, known]
            for j in range(x.shape[1]):
                sums = np.cumsum(weights[:, order[:, j]], axis=1)
                sums /= np.maximum(sums[:, -1:], TINY)
                at = np.stack([np.argmax(sums >= min(level, 1 - 1e-12), axis=1) for level in levels], axis=1)
                out[part, :, j] = x[order[:, j], j][at]
        return out

    def _log_densities(self, operators: Operators, steps: Steps) -> Floats:
        """Return the logarithm of the predicted density at every step, ``(T,)``; 0 where it is missing."""
        before = self._before(operators, steps)
        out = np.zeros(len(steps))
        seen = np.flatnonzero(steps.observed)
        if self._comparison.is_delta:
            table, share = self._table(operators, 1)
            found = self._probabilities(table, share, before[seen])
            found = (1 - MARGINAL) * found + MARGINAL * share
            out[seen] = np.log(np.maximum(found[np.arange(len(seen)), steps.values[seen]], TINY))
            return out
        gammas, constant = self._comparison.gammas(), 0.0
        if gammas is not None and self._dimension is not None:
            constant = self._dimension / 2 * np.log(gammas[0] / np.pi)
        for begin in range(0, len(seen), ROWS):
            at = seen[begin : begin + ROWS]
            compared = self._compared(take(steps.values, at))
            if operators.density is None:
                values = np.einsum("tm,tm->t", compared, before[at] @ self._reading().T)
                marginal = compared.mean(axis=1)
            else:
                values = np.einsum("tr,tr->t", compared, before[at] @ operators.density.T)
                marginal = compared @ self._mean_features()
            mixed = (1 - MARGINAL) * np.maximum(values, 0.0) + MARGINAL * np.maximum(marginal, TINY)
            out[at] = np.log(mixed) + constant
        return out

    def _decoded(self, values: Any) -> Any:
        """Return symbols in place of codes; vectors and objects as they are."""
        if self._alphabet is None or isinstance(values, list) or values.ndim == 2:
            return values
        return Sequences.from_codes([values], self._alphabet)[0]
