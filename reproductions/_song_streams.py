"""Predictors of series over a horizon, for the comparison of Song et al.

A predictor is called with standardized training and test series and the horizons, and returns, for every horizon, one
array ``(T, d)`` per test series: row t predicts step t + horizon.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
from _protocol import Array
from sklearn.cluster import KMeans
from sklearn.model_selection import GridSearchCV

import mercer as mc

Series = Sequence[Array]
Predicted = dict[int, list[Array]]
Predictor = Callable[[Series, Series, Sequence[int]], Predicted]

WINDOW = 20
"""Length of windows and of Hankel matrices, as in the paper."""


def mean(train: Series, test: Series, horizons: Sequence[int]) -> Predicted:
    """Predict the training mean, which is zero."""
    return {h: [np.zeros_like(x) for x in test] for h in horizons}


def last(train: Series, test: Series, horizons: Sequence[int]) -> Predicted:
    """Predict the last value."""
    return {h: list(test) for h in horizons}


def delayed(x: Array, window: int = WINDOW) -> Array:
    """Return the last ``window`` observations at every step, zeros before the beginning, ``(T, window d)``."""
    padded = np.concatenate([np.zeros((window - 1, x.shape[1])), x])
    return np.concatenate([padded[i : i + len(x)] for i in range(window)], axis=1)


def autoregression(train: Series, test: Series, horizons: Sequence[int]) -> Predicted:
    """Predict by ridge regression on the last 20 observations, one regression per horizon."""
    features = [delayed(x) for x in train]
    found = {}
    for h in horizons:
        a = np.concatenate([f[WINDOW : max(len(f) - h, WINDOW)] for f in features])
        b = np.concatenate([x[WINDOW + h :] for x in train])
        weights = np.linalg.solve(a.T @ a + np.eye(a.shape[1]), a.T @ b)
        found[h] = [delayed(x) @ weights for x in test]
    return found


def subspace(train: Series, test: Series, horizons: Sequence[int], n: int = 20) -> Predicted:
    """Predict by a linear dynamical system from the singular vectors of past and future windows of 20 steps."""
    pasts, futures, nexts, now = [], [], [], []
    for x in train:
        f = delayed(x)
        pasts.append(f[WINDOW - 1 : -WINDOW - 1])
        futures.append(f[2 * WINDOW - 1 : -1])
        nexts.append(f[WINDOW:-WINDOW])
        now.append(x[WINDOW - 1 : -WINDOW - 1])
    past, future, after, x = (np.concatenate(parts) for parts in (pasts, futures, nexts, now))
    regression = np.linalg.solve(past.T @ past + np.eye(past.shape[1]), past.T @ future)
    _, _, directions = np.linalg.svd(past @ regression, full_matrices=False)
    to_state = regression @ directions[:n].T  # the state is a function of the past 20 observations
    s, s_next = past @ to_state, after @ to_state
    transition = np.linalg.lstsq(s, s_next, rcond=None)[0]
    emission = np.linalg.lstsq(s, x, rcond=None)[0]
    radius = np.abs(np.linalg.eigvals(transition)).max()
    transition = transition / max(radius, 1.0)
    powers = {h: np.linalg.matrix_power(transition, h) @ emission for h in horizons}
    return {h: [delayed(one) @ to_state @ powers[h] for one in test] for h in horizons}


def kalman(train: Series, test: Series, horizons: Sequence[int], n: int = 6) -> Predicted:
    """Predict by a linear dynamical system learned by EM."""
    model = mc.LDS(n, n_iter=20, tol=1e-3, n_init=1).fit(list(train)).model_
    a, c, offset = model.transition[0], model.emission[0], model.observation_offset[0]
    found: Predicted = {h: [] for h in horizons}
    for x in test:
        states = np.asarray(model.filter([x]).means)
        for h in horizons:
            found[h].append(states @ (c @ np.linalg.matrix_power(a, h)).T + offset)
    return found


def gaussian_hmm(train: Series, test: Series, horizons: Sequence[int], n: int = 20) -> Predicted:
    """Predict by a hidden Markov model with Gaussian emissions learned by EM."""
    model = mc.HMM(n, mc.Gaussian("diagonal"), n_iter=20, tol=1e-3, n_init=1, random_state=0).fit(list(train)).model_
    transition, means = np.asarray(model.transition[0]), np.asarray(model.emission.mean[0])
    found: Predicted = {h: [] for h in horizons}
    for x in test:
        logs = np.asarray(model.emission[0].log_prob(x)).T  # (T, n)
        likelihoods = np.exp(logs - logs.max(axis=1, keepdims=True))
        belief, beliefs = np.asarray(model.initial[0]), []
        for row in likelihoods:
            belief = belief * row
            belief = belief / belief.sum()
            beliefs.append(belief)
            belief = belief @ transition
        for h in horizons:
            found[h].append(np.array(beliefs) @ np.linalg.matrix_power(transition, h) @ means)
    return found


def tabular(train: Series, test: Series, horizons: Sequence[int], symbols: int = 50, n: int = 20) -> Predicted:
    """Predict by a reduced-rank HMM of quantized observations: the spectral algorithm on tables."""
    clusters = KMeans(symbols, n_init=1, random_state=0).fit(np.concatenate(train))
    codes = mc.Sequences([clusters.predict(x) for x in train], alphabet=range(symbols))
    model = mc.EmbeddedHMM(n_components=n).fit(codes)
    seen = mc.Sequences([clusters.predict(x) for x in test], alphabet=range(symbols))
    return {h: [p @ clusters.cluster_centers_ for p in model.predict_proba(seen, steps=h)] for h in horizons}


def parzen(train: Series, test: Series, horizons: Sequence[int], centers: int = 50, n: int = 20) -> Predicted:
    """Predict by a reduced-rank HMM with Parzen windows: the spectral algorithm on soft assignments to centers.

    An observation is a vector of its normalized Gaussian kernels with the centers, as in Siddiqi, Boots and Gordon
    (2010); so is a window of 20, for the past and the future. Its operator is the mean of those of the centers.
    """
    alone, windows = (Parzen([f(x) for x in train], centers) for f in (np.asarray, delayed))
    past, future, shifted, now = [], [], [], []
    ahead: Predicted = {h: [] for h in horizons}
    for x in train:
        z = windows(delayed(x))  # row t: the window that ends at t
        times = np.arange(WINDOW, len(x) - WINDOW)
        past.append(z[times - 1])
        future.append(z[times + WINDOW - 1])
        shifted.append(z[times + WINDOW])
        now.append(alone(x[times]))
        for h in horizons:  # NaN beyond the end of the series
            ahead[h].append(np.concatenate([x, np.full((h, x.shape[1]), np.nan)])[times + h - 1])
    first, second, third, seen = (np.concatenate(parts) for parts in (past, future, shifted, now))
    m = len(first)
    crossed = second.T @ first / m
    u = np.linalg.svd(crossed)[0][:, :n]
    inverse = np.linalg.pinv(u.T @ crossed)
    reads, writes = first @ inverse / m, third @ u
    operators = np.einsum("la,lb,lc->cab", writes, reads, seen, optimize=True)
    readouts = {h: _readout(np.concatenate(ahead[h]), reads) for h in horizons}
    normalizer, start, longest = reads.sum(axis=0), u.T @ second.mean(axis=0), np.linalg.norm(second @ u, axis=1).max()
    found: Predicted = {h: [] for h in horizons}
    for x in test:
        belief, beliefs = start / (normalizer @ start), []
        for code in alone(x):
            new = np.tensordot(code, operators, 1) @ belief
            total = normalizer @ new
            # As in `EmbeddedHMM`: a belief without a positive probability, or longer than all windows, restarts.
            new = new / total if total > 1e-12 else np.full(len(start), np.inf)
            belief = new if np.linalg.norm(new) <= longest else start / (normalizer @ start)
            beliefs.append(belief)
        for h in horizons:
            found[h].append(np.array(beliefs) @ readouts[h].T)
    return found


def _readout(values: Array, reads: Array) -> Array:
    """Return the mean of the known values from a belief, ``(d, N)``, with the weights of their triples."""
    known = ~np.isnan(values).any(axis=1)
    return np.asarray(values[known].T @ reads[known] * (len(values) / int(np.sum(known))))


class Parzen:
    """Soft assignments to centers: Gaussian kernels of the median width, which sum to one."""

    def __init__(self, rows: list[Array], centers: int) -> None:
        pooled = np.concatenate(rows)
        self.centers = KMeans(centers, n_init=1, random_state=0).fit(pooled).cluster_centers_
        squares = np.sum((self.centers[:, None] - self.centers) ** 2, axis=2)
        # Half the median distance of the centers: they are far from one another, unlike observations.
        self.gamma = 2.0 / float(np.median(squares[np.triu_indices(centers, 1)]))

    def __call__(self, rows: Array) -> Array:
        """Return the assignments, ``(n, centers)``."""
        squares = np.sum((rows[:, None] - self.centers) ** 2, axis=2)
        values = np.exp(-self.gamma * (squares - squares.min(axis=1, keepdims=True)))
        return np.asarray(values / values.sum(axis=1, keepdims=True))


def embedded(**parameters: Any) -> Predictor:
    """Predict by `EmbeddedHMM` with these parameters."""

    def predictor(train: Series, test: Series, horizons: Sequence[int]) -> Predicted:
        model = mc.EmbeddedHMM(**parameters).fit(list(train))
        return {h: model.predict(list(test), steps=h) for h in horizons}

    return predictor


def chosen(most: int, landmarks: int) -> Predictor:
    """Predict by `EmbeddedHMM` with rank, regularization and window by cross-validation on the training series."""

    def predictor(train: Series, test: Series, horizons: Sequence[int]) -> Predicted:
        model = mc.EmbeddedHMM(landmarks=landmarks)
        grid = {
            "n_components": [n for n in (5, 10, 20) if n <= most],
            "alpha": [1e-4, 1e-3, 1e-2],
            "window": [2, 5, WINDOW],
        }
        pieces = list(train) if len(train) > 1 else np.array_split(train[0], 2)
        best = GridSearchCV(model, grid, cv=2).fit(pieces).best_estimator_
        return {h: best.predict(list(test), steps=h) for h in horizons}

    return predictor


def koopman(train: Series, test: Series, horizons: Sequence[int], rank: int = 25, most: int = 2000) -> Predicted:
    """Predict by kooplearn's Nystroem kernel regression on delay vectors of the first series.

    Version 2.0.3 returns x_t for ``n_steps=1`` in its kernel estimators, so it is asked for one step more.
    """
    from kooplearn.kernel import NystroemKernelRidge

    x = delayed(train[0])[WINDOW - 1 :][:most]
    squares = np.sum((x[:300, None] - x[None, :300]) ** 2, axis=2)
    gamma = 0.5 / float(np.median(squares[np.triu_indices(len(squares), 1)]))
    model = NystroemKernelRidge(n_components=rank, kernel="rbf", gamma=gamma, alpha=1e-4, n_centers=200, random_state=0)
    model.fit(x)
    d = train[0].shape[1]
    rows = [delayed(one) for one in test]
    return {h: [np.asarray(model.predict(r, n_steps=h + 1))[:, -d:] for r in rows] for h in horizons}


def predictors(components: int, landmarks: int) -> dict[str, Predictor]:
    """Return all predictors that can run here, by name."""
    setting = {"n_components": components, "window": WINDOW, "alpha": 1e-4, "landmarks": landmarks}
    found: dict[str, Predictor] = {
        "mean": mean,
        "last value": last,
        "ridge autoregression": autoregression,
        "LDS, subspace": subspace,
        "LDS, EM": kalman,
        "Gaussian HMM, EM": gaussian_hmm,
        "reduced-rank HMM, tables": tabular,
        "reduced-rank HMM, Parzen windows": parzen,
        "embedded HMM": embedded(**setting),
        "embedded HMM, reduced_rank": embedded(**setting, solver="reduced_rank"),
        "embedded HMM, chosen": chosen(components, landmarks),
    }
    if find_spec("kooplearn") is not None:
        found["kooplearn"] = koopman
    return found


def errors(predicted: Predicted, test: Series) -> dict[int, list[float]]:
    """Return the mean squared error of every test series that is long enough, after its first 20 steps, by horizon."""
    found = {}
    for h, each in predicted.items():
        long = [(p, x) for p, x in zip(each, test, strict=True) if len(x) > WINDOW + h + 1]
        pairs = [(p[WINDOW : len(x) - h], x[WINDOW + h :]) for p, x in long]
        found[h] = [float(np.mean((p - x) ** 2)) for p, x in pairs]
    return found
