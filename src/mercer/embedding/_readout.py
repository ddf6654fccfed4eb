"""Predictions from beliefs: means, quantiles, best training points, probabilities (HSE-5, HSE-6)."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats, Indices
from mercer.data import Sequences
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
