"""The experiments of Song et al. run, and the truth is where it should be."""

from __future__ import annotations

import _song_streams as streams
import numpy as np
import pytest
import song2010


def test_errors_fall_with_the_data():
    curves = song2010.reproduce("known", quick=True)
    assert {c.method for c in curves} == {"svd", "reduced_rank"}
    assert all(c.error[1] < c.error[0] for c in curves)


def test_predictors_of_a_turning_point():
    angle = 0.3 * np.arange(300)
    x = np.stack([np.cos(angle), np.sin(angle)], axis=1) + 0.02 * np.random.default_rng(0).normal(size=(300, 2))
    methods = streams.predictors(5, 40)
    for name in ("mean", "last value", "ridge autoregression", "LDS, subspace", "embedded HMM", "embedded HMM, chosen"):
        found = streams.errors(methods[name]([x[:200]], [x[200:]], [1, 10]), [x[200:]])
        assert all(e[0] < 0.05 for e in found.values()) == (name not in ("mean", "last value")), name


def test_parzen_windows_predict_a_turning_point():
    angle = 0.3 * np.arange(600)
    x = np.stack([np.cos(angle), np.sin(angle)], axis=1) + 0.02 * np.random.default_rng(0).normal(size=(600, 2))
    found = streams.errors(streams.parzen([x[:500]], [x[500:]], [1, 10], centers=20, n=5), [x[500:]])
    assert all(e[0] < 0.25 for e in found.values())  # the mean has 0.5
    soft = streams.Parzen([x], 10)(x)
    np.testing.assert_allclose(soft.sum(axis=1), 1.0)


@pytest.mark.slow
@pytest.mark.usefixtures("real")
def test_real_streams_and_digits_run():
    curves = song2010.reproduce("horizon", quick=True)
    errors = {(c.panel, c.method): c.error[0] for c in curves}
    assert errors["watch", "embedded HMM"] < 0.6 * errors["watch", "mean"]
    digits = {c.method: c.error[0] for c in song2010.reproduce("audio", quick=True)}
    assert digits["embedded HMM"] < 0.5
