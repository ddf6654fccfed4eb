"""Predictions from beliefs: means, quantiles, probabilities, objects (HSE-5, HSE-6)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from mercer._array import Floats, Indices
from mercer._checks import is_whole
from mercer._probability import drawn
from mercer._random import random_generator, whole_size
from mercer.embedding._filter import Beliefs, advanced, last_beliefs
from mercer.embedding._learning import Learned
from mercer.embedding._steps import Steps, take

MARGINAL = 0.01
"""Weight of the marginal distribution in the estimate of a probability, which is never zero so."""
TINY = 1e-300
ROWS = 256
"""Number of beliefs whose weights over all training points are held at a time."""


def whole_steps(steps: Any) -> int:
    """Check a number of steps ahead."""
    if not is_whole(steps, 1):
        raise ValueError(f"steps must be a whole number, 1 or more; got {steps!r}.")
    return int(steps)


def _levels(learned: Learned, quantiles: Any) -> Floats | None:
    """Check the probabilities of quantiles; None is none."""
    if quantiles is None:
        return None
    if not learned.comparison.vectors:
        raise TypeError("quantiles need vectors; got symbols or objects. Leave quantiles out.")
    try:
        levels = np.asarray(quantiles, dtype=float)
    except (TypeError, ValueError):
        levels = np.array(np.nan)
    if levels.ndim != 1 or not len(levels) or not np.all((levels >= 0) & (levels <= 1)):
        raise ValueError(f"quantiles must be a list of probabilities from 0 to 1; got {quantiles!r}.")
    return levels


def ahead_of(learned: Learned, ahead: int) -> tuple[Indices, Indices]:
    """Return the triples whose observation ``ahead`` steps after the past is known, and its time."""
    train, at = learned.train, learned.times
    times = at + ahead - 1
    known = times < train.ends[at]
    known[known] = train.observed[times[known]]
    if not known.any():
        raise ValueError(
            f"No training sequence has an observation {ahead} steps after a window. Use fewer steps, or longer "
            "training sequences."
        )
    return np.flatnonzero(known), times[known]


def predicted(learned: Learned, beliefs: Floats, ahead: int, levels: Floats | None = None) -> Any:
    """Return the predictions from beliefs ``(n, N)``: of symbols their probabilities, else as `EmbeddedHMM.predict`."""
    comparison, operators = learned.comparison, learned.operators
    if levels is not None:
        return _quantiles(learned, beliefs, ahead, levels)
    if comparison.is_objects:
        return _best(learned, beliefs, ahead)
    if ahead == 1:
        center, readout, total = learned.center(), operators.mean, operators.normalizer
    else:  # the known triples stand for all
        known, times = ahead_of(learned, ahead)
        x, reads = learned.numbers(learned.train.values[times]), learned.reading()
        share = len(reads) / len(known)
        center, readout, total = x.mean(axis=0), x.T @ reads[known] * share, reads[known].sum(axis=0) * share
    if comparison.vectors:  # deviations from the mean: the weights of a part of the triples do not quite sum to one
        return center + beliefs @ (readout - np.outer(center, total)).T
    return _probabilities(readout, center, beliefs)


def _probabilities(readout: Floats, share: Floats, beliefs: Floats) -> Floats:
    """Return the probabilities of symbols, clipped at zero and normalized, ``(n, n_symbols)``."""
    found = np.maximum(beliefs @ readout.T, 0.0)
    total = found.sum(axis=1, keepdims=True)
    return np.where(total > 0, found / np.where(total > 0, total, 1.0), share)


def _best(learned: Learned, beliefs: Floats, ahead: int) -> list[Any]:
    """Return, for each belief, the known training object with the highest predicted density."""
    known, times = ahead_of(learned, ahead)
    candidates = take(learned.train.values, times)
    features = learned.compared(candidates)
    readout = features @ (features.T @ learned.reading()[known])
    parts = [beliefs[i : i + ROWS] @ readout.T for i in range(0, len(beliefs), ROWS)]
    return [candidates[i] for part in parts for i in np.argmax(part, axis=1)]


def _quantiles(learned: Learned, beliefs: Floats, ahead: int, levels: Floats) -> Floats:
    """Return quantiles of the known observations, with weights clipped at zero, ``(n, Q, d)``."""
    known, times = ahead_of(learned, ahead)
    x, reads = learned.train.values[times], learned.reading()[known]
    order = np.argsort(x, axis=0)
    out = np.zeros((len(beliefs), len(levels), x.shape[1]))
    for begin in range(0, len(beliefs), ROWS):
        part = slice(begin, begin + ROWS)
        weights = np.maximum(beliefs[part] @ reads.T, 0.0)
        weights[weights.sum(axis=1) <= 0] = 1.0  # none is positive
        for j in range(x.shape[1]):
            sums = np.cumsum(weights[:, order[:, j]], axis=1)
            sums /= sums[:, -1:]
            at = np.stack([np.argmax(sums >= min(level, 1 - 1e-12), axis=1) for level in levels], axis=1)
            out[part, :, j] = x[order[:, j], j][at]
    return out


def log_densities(learned: Learned, before: Floats, steps: Steps) -> Floats:
    """Return the logarithm of the predicted density at every step, ``(T,)``; 0 where it is missing.

    Parameters
    ----------
    learned : Learned
        The fitted model.
    before : array of shape (T, N)
        The belief before every step.
    steps : Steps
        The observations.
    """
    operators, moments = learned.operators, learned.moments
    out, seen = np.zeros(len(steps)), np.flatnonzero(steps.observed)
    if learned.comparison.is_delta:
        share = learned.center()
        found = (1 - MARGINAL) * _probabilities(operators.mean, share, before[seen]) + MARGINAL * share
        out[seen] = np.log(np.maximum(found[np.arange(len(seen)), steps.values[seen]], TINY))
        return out
    constant = -learned.log_integral()
    for begin in range(0, len(seen), ROWS):
        at = seen[begin : begin + ROWS]
        compared = learned.compared(take(steps.values, at))
        values = np.einsum("tr,tr->t", compared, before[at] @ operators.density.T)
        marginal = compared @ (moments.seen / moments.count)
        out[at] = np.log((1 - MARGINAL) * np.maximum(values, 0.0) + MARGINAL * np.maximum(marginal, TINY)) + constant
    return out


class Embedding(NamedTuple):
    r"""Embedded distributions of one observation, as weights on training observations: :math:`\sum_l v_l \phi(x_l)`.

    Parameters
    ----------
    weights : array of shape (N, m)
        Weights of each distribution. They sum to one, and some can be negative.
    observations : array of shape (m, d), string or array of m symbols, or list of m objects
        The training observations, one per training triple whose observation is known.

    Examples
    --------
    >>> import mercer as mc
    >>> model = mc.EmbeddedHMM(n_components=3).fit(["abcabcabcabc"])
    >>> found = model.embedding(["abca"])
    >>> found.weights.shape, found.observations
    ((1, 10), 'bcabcabcab')
    >>> round(float(found.weights.sum()), 6)
    1.0
    """

    weights: Floats
    observations: Any


def weighted(learned: Learned, beliefs: Floats, ahead: int) -> tuple[Floats, Any]:
    """Return the weights of training observations in the predictions from beliefs ``(n, N)``, and the observations."""
    known, times = ahead_of(learned, ahead)
    reads = learned.reading()
    weights = beliefs @ reads[known].T * (len(reads) / len(known))  # the known triples stand for all
    return weights, take(learned.train.values, times)


class Prediction:
    """Predictions of a fitted estimator."""

    _learned: Learned

    def _known(self) -> Learned:
        if "_learned" not in self.__dict__:  # the check itself would be a tenth of a step of a stream
            check_is_fitted(self, "_learned")
        return self._learned

    def _filtered(self, X: Any) -> Beliefs:
        learned = self._known()
        return learned.filter(learned.steps(X))

    def _before(self, steps: Steps) -> Floats:
        """Return the belief before every step, ``(T, N)``."""
        found, start = self._learned.filter(steps), self._learned.operators.start
        before = np.concatenate([start[None], found.values[:-1]]) if len(steps) else found.values
        before[steps.offsets[:-1][np.diff(steps.offsets) > 0]] = start
        return before

    def _of_symbols(self) -> bool:
        return "_learned" not in self.__dict__ or self._learned.comparison.is_delta

    def predict(self, X: Any, steps: int = 1, quantiles: Any = None) -> list[Any]:
        """Predict the observation ``steps`` after each step, from all observations up to that step.

        Parameters
        ----------
        X : list of sequences
            As in ``fit``.
        steps : int, default=1
            Number of steps ahead.
        quantiles : array of shape (Q,) or None, default=None
            Probabilities: predict these quantiles of each coordinate in place of the mean.

        Returns
        -------
        list of arrays of shape (T, d) or (T, Q, d), of strings or arrays of T symbols, or of lists
            For each sequence: means or quantiles of vectors, the most probable symbols, or the training objects with
            the highest predicted densities. Item t predicts step ``t + steps``.
        """
        learned = self._known()
        found = self._predicted(X, whole_steps(steps), _levels(learned, quantiles))
        return [learned.alphabet.decode(p.argmax(axis=1)) for p in found] if learned.comparison.is_delta else found

    def _predicted(self, X: Any, ahead: int, levels: Floats | None = None) -> list[Any]:
        found = self._filtered(X)
        values = predicted(self._learned, found.values, ahead, levels)
        return [values[a:b] for a, b in pairwise(found.offsets)]

    @available_if(_of_symbols)
    def predict_proba(self, X: Any, steps: int = 1) -> list[Floats]:
        """Predict the probabilities of the symbol ``steps`` after each step; only of a model of symbols.

        Parameters
        ----------
        X : list of sequences
            As in ``fit``.
        steps : int, default=1
            Number of steps ahead.

        Returns
        -------
        list of arrays of shape (T, n_symbols)
        """
        self._known()
        return self._predicted(X, whole_steps(steps))

    def sample(self, length: int, size: int = 1, random_state: Any = None) -> Any:
        """Sample sequences: each observation is drawn from its prediction, and updates the belief.

        Symbols are drawn from their predicted probabilities. Vectors and objects are those of the training sequences,
        drawn with their weights in the prediction, where these are positive.

        Parameters
        ----------
        length, size : int
            Number of observations, and of sequences.
        random_state : int, Generator, RandomState or None, default=None
            Seed.

        Returns
        -------
        array of shape (size, length, d), codes of symbols (size, length), or list of lists of objects
        """
        learned = self._known()
        length, size = whole_size(length, "observations", name="length", least=1), whole_size(size, "sequences")
        rng, operators, symbols = random_generator(random_state), learned.operators, learned.comparison.is_delta
        known, times = ahead_of(learned, 1)
        candidates = np.arange(learned.width) if symbols else take(learned.train.values, times)
        reads = operators.mean if symbols else learned.reading()[known]
        belief, chosen = np.tile(operators.start, (size, 1)), np.empty((size, length), dtype=np.int64)
        for t in range(length):
            share = _probabilities(reads, np.full(len(reads), 1 / len(reads)), belief)
            chosen[:, t] = drawn(np.cumsum(share, axis=1), rng.random(size))
            made = learned.compared(take(candidates, chosen[:, t])) @ operators.gain
            belief = advanced(operators, belief, made.reshape(size, *(operators.n,) * 2), np.ones(size, bool)).values
        return [take(candidates, row) for row in chosen] if learned.comparison.is_objects else candidates[chosen]

    def summary(self) -> str:
        """Return the model as text: what it observes, its sizes, its kernel and its singular values."""
        learned = self._known()
        kind = "vectors" if learned.comparison.vectors else "symbols" if learned.comparison.is_delta else "objects"
        kernel = learned.setting.kernel or ("the delta kernel" if kind == "symbols" else "RBF with the median rule")
        values = ", ".join(f"{value:.3g}" for value in learned.operators.singular_values)
        head = f"EmbeddedHMM of {kind}, {learned.operators.n} components, windows of {learned.setting.window}"
        return f"{head}, {len(learned.times)} training triples\nkernel  {kernel}\nsingular values  {values}"

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
        learned = self._known()
        ahead, levels = whole_steps(steps), _levels(learned, quantiles)
        ahead_of(learned, ahead)
        last = last_beliefs(learned.operators, self._filtered(X))
        each = [predicted(learned, last, i, levels) for i in range(1, ahead + 1)]
        if isinstance(each[0], list):
            return [list(row) for row in zip(*each, strict=True)]
        return np.stack(each, axis=1)

    def embedding(self, X: Any, steps: int = 1) -> Embedding:
        r"""Return the embedded distribution of the observation ``steps`` after the end of each sequence.

        It is the output of algorithm 1 of the source, :math:`\hat\mu = \sum_l v_l \phi(x_l)` with
        :math:`v = Q b_t` for the belief :math:`b_t` after the sequence (HSE-4). Every prediction is computed from it:
        a mean is :math:`\sum_l v_l x_l`.

        Parameters
        ----------
        X : list of sequences
            As in ``fit``.
        steps : int, default=1
            Number of steps ahead.

        Returns
        -------
        Embedding
            ``weights`` over training observations, ``(N, m)``, and the ``observations``.

        Examples
        --------
        >>> import numpy as np, mercer as mc
        >>> x = np.sin(np.arange(200) / 3)[:, None]
        >>> model = mc.EmbeddedHMM(n_components=3).fit([x])
        >>> found = model.embedding([x[:50]])
        >>> found.weights.shape, found.observations.shape
        ((1, 198), (198, 1))
        >>> mean = found.weights @ found.observations
        >>> bool(np.allclose(mean, model.forecast([x[:50]])[:, 0]))
        True
        """
        learned = self._known()
        ahead = whole_steps(steps)
        weights, observations = weighted(learned, last_beliefs(learned.operators, self._filtered(X)), ahead)
        symbols = learned.comparison.is_delta
        return Embedding(weights, learned.alphabet.decode(observations) if symbols else observations)

    def density(self, X: Any, at: Any, steps: int = 1) -> Floats:
        r"""Return the embedded distribution after each sequence, evaluated at points.

        .. math:: \hat p(x) = \frac1c \langle\hat\mu, \phi(x)\rangle = \frac1c \sum_l v_l\, k(x_l, x)

        with the weights of `embedding`. For `RBF` and `Laplace` kernels, c is the integral of the kernel: the estimate
        is a density, smoothed by the kernel, that integrates to one. For symbols it is a probability, with c = 1. For
        other kernels, c = 1 and the values are relative to an unknown constant. Estimates can be negative.

        Parameters
        ----------
        X : list of sequences
            As in ``fit``.
        at : array of shape (n, d), string or array of n symbols, or list of n objects
            Where to evaluate.
        steps : int, default=1
            Number of steps ahead.

        Returns
        -------
        array of shape (N, n)

        Examples
        --------
        >>> import mercer as mc
        >>> model = mc.EmbeddedHMM(n_components=3).fit(["abcabcabcabc"])
        >>> abs(model.density(["abca"], "abc").round(4))
        array([[0., 1., 0.]])
        """
        learned = self._known()
        ahead = whole_steps(steps)
        points = learned.steps([at])
        if not points.observed.all():
            raise ValueError(f"at[{int(np.argmin(points.observed))}] is missing. Leave it out.")
        weights, seen = weighted(learned, last_beliefs(learned.operators, self._filtered(X)), ahead)
        comparison, rows = learned.comparison, np.arange(len(points))
        parts = (rows[i : i + ROWS] for i in range(0, len(rows), ROWS))
        found = [weights @ comparison.observations(seen, take(points.values, part)) for part in parts]
        return np.concatenate([np.empty((len(weights), 0)), *found], axis=1) * np.exp(-learned.log_integral())

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
        learned = self._known()
        steps = learned.steps(X)
        each = log_densities(learned, self._before(steps), steps)
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
        learned = self._known()
        steps = learned.steps(X)
        if not steps.observed.any():
            raise ValueError("X has no observed step to score. Pass sequences with observations.")
        before = self._before(steps)
        if not learned.comparison.vectors:
            return float(log_densities(learned, before, steps)[steps.observed].mean())
        found, truth = predicted(learned, before, 1)[steps.observed], steps.values[steps.observed]
        spread = np.sum((truth - learned.center()) ** 2)
        return float(1 - np.sum((truth - found) ** 2) / max(float(spread), TINY))
