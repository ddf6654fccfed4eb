"""Rank, regularization and window by held-out error, for many series and for one."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, TimeSeriesSplit

import mercer as mc


def series(n, seed=0):
    rng = np.random.default_rng(seed)
    angle = np.cumsum(0.3 + 0.05 * rng.normal(size=n))
    return np.stack([np.cos(angle), np.sin(angle)], axis=1) + 0.1 * rng.normal(size=(n, 2))


MODEL = mc.EmbeddedHMM(mc.RBF(1.0), landmarks=20)
GRID = {"n_components": [1, 4], "alpha": [1e-3, 1e-1]}


def test_many_series_as_in_a_grid_search():
    X = [series(40, s) for s in range(6)]
    search = mc.embedding.EmbeddedHMMCV(MODEL, **GRID, cv=3).fit(X)
    reference = GridSearchCV(MODEL, GRID, cv=KFold(3)).fit(mc.objects(X))
    for one, score in zip(search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True):
        same = {name: one[name] for name in GRID}
        at = reference.cv_results_["params"].index(same)
        assert score == pytest.approx(reference.cv_results_["mean_test_score"][at], abs=1e-9)
    assert {name: search.best_params_[name] for name in GRID} == reference.best_params_
    assert search.best_score_ == pytest.approx(reference.best_score_)
    assert search.cv_results_["rank_test_score"][search.cv_results_["params"].index(search.best_params_)] == 1
    np.testing.assert_allclose(search.transform(X), reference.best_estimator_.transform(mc.objects(X)), atol=1e-9)


def test_one_long_series_is_predicted_from_its_past():
    x = series(200)
    search = mc.embedding.EmbeddedHMMCV(MODEL, **GRID, cv=4).fit([x])
    assert search.n_splits_ == 4
    assert search.best_params_["n_components"] == 4
    for k, (train, test) in enumerate(TimeSeriesSplit(4).split(x)):
        one = clone(MODEL).set_params(**search.best_params_).fit([x[train]])
        at = search.cv_results_["params"].index(search.best_params_)
        assert search.cv_results_[f"split{k}_test_score"][at] == pytest.approx(one.score([x[test]]), abs=1e-9)
    assert search.best_estimator_.n_triples_ == 198


def test_training_steps_around_a_fold_are_two_series():
    x = series(120)
    search = mc.embedding.EmbeddedHMMCV(MODEL, [3], [1e-3], cv=KFold(3)).fit([x])
    one = clone(MODEL).set_params(n_components=3, alpha=1e-3).fit([x[:40], x[80:]])
    assert search.cv_results_["split1_test_score"][0] == pytest.approx(one.score([x[40:80]]), abs=1e-9)
    few = mc.embedding.EmbeddedHMMCV(MODEL, [3], [1e-3], cv=4).fit([x[:60], x[60:]])
    assert few.n_splits_ == 4


def test_windows_symbols_and_objects():
    rng = np.random.default_rng(0)
    phase = np.cumsum(rng.choice([0, 1, 2], size=3000, p=[0.05, 0.9, 0.05])) % 3
    letters = np.where(rng.random(3000) < 0.05, 1 - phase // 2, phase // 2)  # a letter does not identify the phase
    text = "".join("ab"[i] for i in letters)
    search = mc.embedding.EmbeddedHMMCV(n_components=[2, 3], alpha=[1e-4], window=[1, 2], cv=3).fit([text])
    assert search.best_params_["window"] == 2
    assert search.predict([text[:5]])[0].shape == (5, 2)
    words = [["aab", "bba", "bab"] * 8, ["bba", "bab", "aab"] * 6]
    kernel = mc.EmbeddedHMM(mc.Spectrum(k=2, alphabet="ab"))
    found = mc.embedding.EmbeddedHMMCV(kernel, n_components=[1, 3], alpha=[1e-3], cv=2).fit(words)
    assert found.best_params_["n_components"] == 3
    assert found.forecast([["aab"]], steps=2) == [["bba", "bab"]]


def test_the_chosen_model_answers():
    search = mc.embedding.EmbeddedHMMCV(MODEL, [3], [1e-3], cv=2).fit([series(80)])
    model, X = search.best_estimator_, [series(20, 1)]
    np.testing.assert_array_equal(search.filter(X).values, model.filter(X).values)
    np.testing.assert_array_equal(search.update(X[0][0]), model.update(X[0][0]))
    np.testing.assert_array_equal(search.log_prob(X), model.log_prob(X))
    assert search.score(X) == model.score(X)
    assert clone(search).get_params()["model__landmarks"] == 20


def test_bad_input():
    X = [series(40, s) for s in range(3)]
    for parameters, match in (
        ({"n_components": 5}, "n_components must be a list"),
        ({"alpha": []}, "alpha must be a list of positive"),
        ({"window": [0]}, "window must be a list"),
        ({"cv": 1}, "cv must be"),
    ):
        with pytest.raises(ValueError, match=match):
            mc.embedding.EmbeddedHMMCV(**parameters).fit(X)
    with pytest.raises(TypeError, match="model must be an EmbeddedHMM"):
        mc.embedding.EmbeddedHMMCV(mc.HMM(2)).fit(X)
    with pytest.raises(ValueError, match=r"No candidate could be fitted.*Use a smaller window"):
        mc.embedding.EmbeddedHMMCV(window=[30], cv=3).fit(X)
    with pytest.raises(ValueError, match="4 steps are too few for 5 folds"):
        mc.embedding.EmbeddedHMMCV().fit([series(4)])
    with pytest.raises(NotFittedError):
        mc.embedding.EmbeddedHMMCV().predict(X)


def test_a_window_too_long_for_a_fold_is_not_chosen():
    search = mc.embedding.EmbeddedHMMCV(MODEL, [2], [1e-3], window=[1, 30], cv=3).fit([series(60)])
    assert search.best_params_["window"] == 1
    assert np.isnan(search.cv_results_["mean_test_score"][1])
