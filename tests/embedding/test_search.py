"""Rank, regularization and window by scikit-learn's search, and one model per class."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit

import mercer as mc


def series(n, seed=0, speed=0.3):
    rng = np.random.default_rng(seed)
    angle = np.cumsum(speed + 0.05 * rng.normal(size=n))
    return np.stack([np.cos(angle), np.sin(angle)], axis=1) + 0.1 * rng.normal(size=(n, 2))


MODEL = mc.EmbeddedHMM(mc.RBF(1.0), landmarks=20)


@pytest.mark.parametrize("wrap", [list, mc.objects])
def test_pieces_of_a_series_are_predicted_from_those_before(wrap):
    pieces = np.array_split(series(200), 5)
    grid = {"n_components": [1, 4], "alpha": [1e-3, 1e-1], "kernel__gamma": [1.0]}
    search = GridSearchCV(MODEL, grid, cv=TimeSeriesSplit(4)).fit(wrap(pieces))
    assert search.best_params_["n_components"] == 4
    one = clone(MODEL).set_params(**search.best_params_)
    for k in range(4):
        score = search.cv_results_[f"split{k}_test_score"][search.best_index_]
        assert score == pytest.approx(one.fit(pieces[: k + 1]).score(pieces[k + 1 : k + 2]), abs=1e-9)
    np.testing.assert_allclose(search.transform(pieces), one.fit(pieces).transform(pieces), atol=1e-9)


def test_windows_symbols_and_objects():
    rng = np.random.default_rng(0)
    phase = np.cumsum(rng.choice([0, 1, 2], size=3000, p=[0.05, 0.9, 0.05])) % 3
    letters = np.where(rng.random(3000) < 0.05, 1 - phase // 2, phase // 2)  # a letter does not identify the phase
    texts = ["".join("ab"[i] for i in part) for part in np.array_split(letters, 3)]
    search = GridSearchCV(mc.EmbeddedHMM(n_components=3), {"window": [1, 2]}, cv=3)
    with pytest.warns(UserWarning, match="reduced to 2"):
        assert search.fit(texts).best_params_ == {"window": 2}
    words = [["aab", "bba", "bab"] * 8, ["bba", "bab", "aab"] * 6]
    kernel = mc.EmbeddedHMM(mc.Spectrum(k=2, alphabet="ab"), alpha=1e-3)
    found = GridSearchCV(kernel, {"n_components": [1, 3]}, cv=2).fit(words)
    assert found.best_params_ == {"n_components": 3}
    assert found.best_estimator_.forecast([["aab"]], steps=2) == [["bba", "bab"]]


def test_one_model_per_class():
    X = [series(30, s, speed) for s in range(8) for speed in (0.3, -0.3)]
    y = np.array(["left", "right"] * 8)
    model = mc.EmbeddedHMM(mc.RBF(2.0), n_components=4, landmarks=30, start="first")
    clf = mc.LikelihoodRatio(model).fit(X[:10], y[:10])
    assert clf.score(X[10:], y[10:]) == 1.0
    assert clf.predict_proba(X[10:]).shape == (6, 2)
    strings = mc.LikelihoodRatio(mc.EmbeddedHMM(n_components=1)).fit(["abab", "baba", "aabb", "bbaa"], [0, 0, 1, 1])
    assert strings.log_likelihood(["abab"]).shape == (1, 2)
    with pytest.raises(TypeError, match="model must be an estimator"):
        mc.LikelihoodRatio(mc.embedding.BeliefKernel()).fit(X, y)
