"""Importance of whole channels: the scores of written-out loops, and noise that is told from signal and from copies."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import GroupKFold, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import mercer as mc
from mercer.kernels import channel_importance

RNG = np.random.default_rng(0)
SPEED = RNG.uniform(0.1, 0.9, size=36)
WAVES = [
    np.sin(s * np.arange(40 + i)[:, None] + [0, 1]) + 0.3 * RNG.normal(size=(40 + i, 2)) for i, s in enumerate(SPEED)
]
X = mc.Sequences([np.column_stack([x, RNG.normal(size=len(x))]) for x in WAVES], channels=["wave", "echo", "noise"])
FISHER = mc.Fisher(mc.Gaussian("diagonal"))
REGRESSOR = make_pipeline(mc.Derivatives(), mc.Standardize(), FISHER, mc.KernelRidge())


@pytest.mark.slow
def test_is_the_loop_that_it_replaces():
    folds = KFold(3, shuffle=True, random_state=0)
    found = channel_importance(REGRESSOR, X, SPEED, cv=folds, scoring="neg_mean_absolute_error")
    score = {"cv": folds, "scoring": "neg_mean_absolute_error"}
    np.testing.assert_array_equal(found.scores, cross_val_score(REGRESSOR, list(X), SPEED, **score))
    for c in range(3):
        rest = [np.delete(x, c, axis=1) for x in X]
        np.testing.assert_array_equal(found.without[c], cross_val_score(REGRESSOR, rest, SPEED, **score))
        only = [x[:, [c]] for x in X]
        np.testing.assert_array_equal(found.alone[c], cross_val_score(REGRESSOR, only, SPEED, **score))
    np.testing.assert_allclose(found.importance, [np.mean(found.scores - lost) for lost in found.without])
    assert found.to_frame()["channel"].tolist() == ["wave", "echo", "noise"]
    assert f"lost without: wave {found.importance[0]:.3f} (error" in repr(found)


def test_noise_copies_and_signal_differ():
    found = channel_importance(REGRESSOR, X, SPEED, cv=3)
    assert np.abs(found.importance).max() < 0.25  # either wave can go
    assert found.alone.mean(axis=1)[:2].min() > 0.6
    assert found.alone.mean(axis=1)[2] < 0.2
    two = channel_importance(REGRESSOR, [x[:, [0, 2]] for x in X], SPEED, cv=3)
    assert two.channels == ("x0", "x1")
    assert two.importance[0] > 0.5 > 0.15 > abs(two.importance[1])
    np.testing.assert_array_equal(two.alone, two.without[::-1])


def test_classes_groups_and_confounds():
    y, groups = np.where(SPEED > 0.5, "fast", "slow"), np.arange(36) // 2
    pipeline = make_pipeline(FISHER, SVC(kernel="precomputed"))
    found = channel_importance(pipeline, X, y, cv=GroupKFold(3), groups=groups)
    expected = cross_val_score(pipeline, X, y, cv=GroupKFold(3), groups=groups)
    np.testing.assert_array_equal(found.scores, expected)
    both = mc.Confounded(X, RNG.normal(size=36))
    assert channel_importance(mc.KernelRidge(FISHER), both, SPEED, cv=2).without.shape == (3, 2)


@pytest.mark.parametrize("data", [["ACGT"] * 6, [np.zeros(4)] * 6])
def test_one_channel_cannot_be_left_out(data):
    with pytest.raises(ValueError, match=r"X must have two or more channels.* got Sequences"):
        channel_importance(REGRESSOR, data, np.arange(6.0))


def test_one_fold_has_no_standard_error():
    found = channel_importance(mc.KernelRidge(FISHER), X, SPEED, cv=[(np.arange(18), np.arange(18, 36))])
    assert np.isnan(found.error).all()
    assert np.isfinite(found.importance).all()
    mc.plot.importance(found)
