"""Scores of windows: against their formula by loops, and on series of all kinds."""

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import norm

import mercer as mc
from mercer.kernels.windowscores import WindowScores
from mercer.testing.kernels import KernelContract


def series(seed, n, d=1, low=12, high=20):
    rng = np.random.default_rng(seed)
    return [np.cumsum(rng.normal(size=(length, d)), axis=0) for length in rng.integers(low, high, size=n)]


def window(x, t, length, dilation):
    """One window, reflected at the ends of the series, channel by channel."""
    wide = np.pad(x, ((length * dilation,) * 2, (0, 0)), mode="reflect")
    steps = t + length * dilation + dilation * (np.arange(length) - length // 2)
    return wide[steps].T


class Truth(KernelContract):
    """The mixture and the scale are those that were fitted; the scores are derivatives, window by window."""

    needs_fit = True
    features = True
    truth_tolerance = 1e-6  # the root of a score near zero
    degenerate = "zero norm"

    def kernel(self):
        return WindowScores(self.view, 5, n_components=3)

    def data(self, seed, n):
        return series(seed, n, d=2)

    def other_data(self, seed, n):
        return series(seed, n, d=1)

    def truth(self, X):
        kernel = self.kernel().fit(X)
        scales = [self.of_scale(kernel, X, at, 2**at) for at in range(len(kernel.dilations_))]
        assert len(scales) >= 2
        return np.mean(scales, axis=0)

    def of_scale(self, kernel, X, at, dilation):
        model = kernel.model_
        w, mean, variance = model.weights[at], model.components.mean[at], model.components.covariance[at]
        rows = []
        windows = [[window(x, t, 5, dilation) for t in range(len(x))] for x in X]
        within = np.concatenate(windows).var(axis=2)  # of about 2,500 windows of each series: of all
        floor = 0.3 * np.sqrt(within.mean(axis=0) + 1e-8 * np.concatenate(windows).var(axis=(0, 2)))
        for own in windows:
            scores = []
            for t, y in enumerate(own):
                if self.view == "shape":
                    y = (y - y.mean(axis=1, keepdims=True)) / (y.std(axis=1) + floor)[:, None]
                y = (y.ravel() - kernel.center_[at]) @ kernel.whitening_[at]
                used = kernel.whitening_[at].any(axis=0)
                y = np.append(y, np.sqrt(3) * (2 * t / (len(own) - 1) - 1))
                share = softmax(np.log(w) + norm.logpdf(y, mean, np.sqrt(variance)).sum(axis=1))[:, None]
                a = (share[:, 0] - w)[:, None] / np.sqrt(w)[:, None]
                b = share * (y - mean) / np.sqrt(variance) / np.sqrt(w)[:, None]
                c = share * ((y - mean) ** 2 / variance - 1) / np.sqrt(2 * w)[:, None]
                kept = np.append(used, True)
                scores.append(np.concatenate([a, b[:, kept], c[:, kept]], axis=1).ravel())
            half = len(own) // 2
            rows.append([np.mean(part, axis=0) for part in (scores, scores[:half], scores[half:])])
        parts = np.array(rows)
        size = np.sqrt((parts**2).mean(axis=0))
        z = parts / (size + 0.05 * np.sqrt((size**2).mean(axis=1, keepdims=True)))
        z = np.sign(z) * np.sqrt(np.abs(z))
        z /= np.linalg.norm(z, axis=2, keepdims=True)
        return np.einsum("ncp,mcp,c->nm", z, z, [0.5, 0.25, 0.25])


class TestShapes(Truth):
    view = "shape"


class TestLevels(Truth):
    view = "level"


def test_whitened_windows_have_variance_one():
    X = series(0, 30, d=2, low=30, high=40)
    kernel = WindowScores("level", 5).fit(X)
    assert kernel.dilations_ == (1, 2, 4, 8)
    for at, dilation in enumerate(kernel.dilations_):
        windows = np.concatenate([[window(x, t, 5, dilation).ravel() for t in range(len(x))] for x in X])
        white = (windows - kernel.center_[at]) @ kernel.whitening_[at]
        np.testing.assert_allclose(np.cov(white.T, bias=True), np.eye(10), atol=1e-6)


def test_shapes_have_no_mean_and_nearly_one_size():
    X = series(0, 30, d=2, low=30, high=40)
    kernel = WindowScores("shape", 5).fit(X)
    assert kernel.whitening_.shape == (4, 10, 8)  # without the mean of either channel
    np.testing.assert_allclose(kernel.whitening_.reshape(4, 2, 5, 8).sum(axis=2), 0.0, atol=1e-9)
    larger = kernel.fit_transform([1000 * x + 5 for x in X])  # Standardize is a step before
    np.testing.assert_allclose(larger, WindowScores("shape", 5).fit_transform(X), atol=1e-6)
    K = kernel.fit(X)([x * [10.0, 1.0] for x in X], X)  # of smooth series, most windows are larger than the floor
    assert np.diag(K).mean() > 0.5 > np.diag(WindowScores("level", 5).fit(X)([x * [10.0, 1.0] for x in X], X)).mean()


def test_long_gaps_have_conditional_means():
    """Given the rest of each window, under the Gaussian of all windows."""
    X = series(0, 30, low=30, high=31)
    kernel = WindowScores("level", 5).fit(X)
    gappy = X[0].copy()
    gappy[8:11] = np.nan
    at = 2  # dilation 4
    found = kernel._points(kernel._accept([gappy], reset=False), np.arange(30))[at]
    windows = np.concatenate([[window(x, t, 5, 4).ravel() for t in range(30)] for x in X])
    mean, covariance = windows.mean(axis=0), np.cov(windows.T, bias=True)
    for t in range(30):
        y = window(gappy, t, 5, 4).ravel()
        gone = np.isnan(y)
        gain = covariance[np.ix_(gone, ~gone)] @ np.linalg.inv(covariance[np.ix_(~gone, ~gone)])
        y[gone] = mean[gone] + gain @ (y - mean)[~gone]
        np.testing.assert_allclose(found[t, :-1], (y - mean) @ kernel.whitening_[at], atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("view", ["shape", "level"])
def test_gaps_of_smooth_series(view):
    """Filled, also in the training series: closer to the truth than with interpolation."""
    lost = np.zeros((2, 2))
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = [np.sin(np.arange(80) * f + s)[:, None] for f, s in rng.uniform([0.1, 0], [0.3, 6], size=(30, 2))]
        gappy = [np.where(rng.random((80, 1)) < 0.3, np.nan, x) for x in X]
        flat = mc.data.Resample(80).fit_transform(gappy)
        for row, train in zip(lost, (X, gappy), strict=True):
            fill = mc.data.FillGaps().fit(train)
            kernel = WindowScores(view, 9).fit(fill.transform(train))
            row += [1 - np.diag(kernel(Y, X)).mean() for Y in (fill.transform(gappy), flat)]
    assert (lost[:, 0] < 0.85 * lost[:, 1]).all()


def test_windows_with_few_values_do_not_count():
    X = series(1, 8, low=30, high=31)
    kernel = WindowScores("level", 5).fit(X)
    empty = np.full((30, 1), np.nan)
    almost = empty.copy()
    almost[[4, 9]] = 1.0
    assert kernel([empty, almost], X).tolist() == np.zeros((2, 8)).tolist()
    part = X[0].copy()
    part[15:] = np.nan
    whole, few = (kernel._scores(kernel._accept([x], reset=False))[0] for x in (X[0], part))
    assert np.abs(whole[1, 0] - few[1, 0]).max() < 1.0  # the first half has its windows
    assert np.isfinite(few).all()


@pytest.mark.parametrize("odd", [np.zeros((40, 1)), np.ones((1, 1)), np.arange(3.0)[:, None]])
def test_constant_and_short_series(odd):
    X = [*series(2, 6), odd]
    for view in ("shape", "level"):
        K = WindowScores(view, 9).fit_transform(X)
        assert np.isfinite(K).all()
        assert np.abs(K).max() <= 1 + 1e-6
    assert np.isfinite(WindowScores("shape", 9).fit_transform([odd, odd])).all()
