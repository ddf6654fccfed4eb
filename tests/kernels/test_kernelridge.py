"""Kernel ridge regression against explicit ridge regression, refits without a sample, and written-out confounds."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GroupKFold, cross_val_predict, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline

import mercer as mc

RNG = np.random.default_rng(0)
N = 30
X = RNG.normal(size=(N, 4))
C = RNG.normal(size=(N, 2)) + np.array([100.0, 0.0])
W = RNG.uniform(0.5, 2.0, size=N)
Y = X @ [1.0, -1.0, 0.5, 0.0] + 3 * C[:, 0] + 50 + 0.3 * RNG.normal(size=N)
K = X @ X.T


def explicit(alpha, features, target, weights, confounds, intercept=True):
    """Ridge regression of features with free coefficients of the confounds and the intercept, by one solve."""
    free = np.column_stack([np.ones(len(features)), confounds] if intercept else [confounds])
    both = np.column_stack([features, free])
    penalty = np.diag([alpha] * features.shape[1] + [0.0] * free.shape[1])
    return np.linalg.solve(both.T @ (weights[:, None] * both) + penalty, both.T @ (weights[:, None] * target))


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("alpha", [1e-3, 1.0, 100.0])
def test_is_explicit_ridge_regression(alpha, intercept):
    targets = np.column_stack([Y, Y**2 / 100])
    theta = explicit(alpha, X, targets, W, C, intercept)
    model = mc.KernelRidge(alpha=alpha, intercept=intercept).fit(K, targets, sample_weight=W, confounds=C)
    both = np.column_stack([X, *([np.ones(N)] * intercept), C])
    np.testing.assert_allclose(model.predict(K, confounds=C), both @ theta, rtol=1e-9)
    np.testing.assert_allclose(model.confound_coef_, theta[-2:], rtol=1e-7)
    np.testing.assert_allclose(X.T @ model.dual_coef_, theta[:4], rtol=1e-7, atol=1e-10)


def test_is_sklearns_ridge_with_an_intercept():
    model, ridge = mc.KernelRidge(alpha=2.0).fit(K, Y, W), Ridge(alpha=2.0).fit(X, Y, W)
    np.testing.assert_allclose(model.predict(K), ridge.predict(X), rtol=1e-12)
    assert model.intercept_ == pytest.approx(ridge.intercept_, rel=1e-12)
    assert model.score(K, Y, W) == pytest.approx(ridge.score(X, Y, W), rel=1e-10)


@pytest.mark.parametrize("confounds", [None, C])
@pytest.mark.parametrize("weights", [None, W, np.where(np.arange(N) % 7, W, 0.0)])
@pytest.mark.parametrize("alpha", [1e-2, 3.0])
def test_leave_one_out_is_that_of_refits(alpha, weights, confounds):
    Z = np.exp(-((X[:, None] - X[None]) ** 2).sum(-1) / 4)
    fit = {"sample_weight": weights, "confounds": confounds}
    found = mc.KernelRidge(alpha=alpha).fit(Z, Y, **fit).loo_predictions_
    for i in range(0, N, 3):
        rest = np.arange(N) != i
        kept = {name: value if value is None else value[rest] for name, value in fit.items()}
        again = mc.KernelRidge(alpha=alpha).fit(Z[np.ix_(rest, rest)], Y[rest], **kept)
        one = again.predict(Z[i : i + 1, rest], confounds=None if confounds is None else confounds[i : i + 1])
        assert found[i] == pytest.approx(one[0], rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("confounds", [None, C])
@pytest.mark.parametrize("weights", [None, np.where(np.arange(N) % 7, W, 0.0)])
@pytest.mark.parametrize("targets", [Y, np.column_stack([Y, Y**2 / 100])])
@pytest.mark.parametrize("intercept", [True, False])
def test_intervals_are_those_of_refits(confounds, weights, targets, intercept):
    Z = np.exp(-((X[:, None] - X[None]) ** 2).sum(-1) / 4)
    new, columns = np.exp(-((X[:8, None] - 0.3 - X[None]) ** 2).sum(-1) / 4), None if confounds is None else C[:8] + 1
    model = mc.KernelRidge(alpha=0.5, intercept=intercept, intervals=True)
    model.fit(Z, targets, sample_weight=weights, confounds=confounds)
    used = np.flatnonzero(np.ones(N) if weights is None else weights)
    ends = []
    for i in used:
        rest = used[used != i]
        kept = {"sample_weight": weights, "confounds": confounds}
        kept = {name: value if value is None else value[rest] for name, value in kept.items()}
        again = mc.KernelRidge(alpha=0.5, intercept=intercept).fit(Z[np.ix_(rest, rest)], targets[rest], **kept)
        own = again.predict(Z[i : i + 1, rest], confounds=None if confounds is None else C[i : i + 1])[0]
        ends.append((again.predict(new[:, rest], confounds=columns), np.abs(targets[i] - own)))
    for coverage in (0.5, 0.8, 0.95):
        low, high = model.predict_interval(new, coverage, confounds=columns)
        assert low.shape == high.shape == (8, *targets.shape[1:])
        rank = int(np.ceil(coverage * (len(used) + 1) - 1e-9))
        expected = np.sort([fit + error for fit, error in ends], axis=0)[rank - 1]
        np.testing.assert_allclose(high, expected, rtol=1e-10, atol=1e-10)
        expected = np.sort([fit - error for fit, error in ends], axis=0)[-rank]
        np.testing.assert_allclose(low, expected, rtol=1e-10, atol=1e-10)


class TestIntervals:
    def test_coverage(self):
        inside, rng = [], np.random.default_rng(1)
        for _ in range(60):
            x = rng.normal(size=(40, 5))
            y = 1e3 + x[:, 0] + rng.standard_t(3, size=40)
            low, high = mc.KernelRidge(mc.RBF(gamma=0.2), intervals=True).fit(x[:25], y[:25]).predict_interval(x[25:])
            inside.append((low <= y[25:]) & (y[25:] <= high))
        assert 0.87 <= np.mean(inside) <= 0.95

    def test_a_sample_that_nothing_else_explains(self):
        alone = np.zeros((N, 1))
        alone[3] = 1.0
        model = mc.KernelRidge(alpha=1.0, intervals=True).fit(K, Y, confounds=alone)
        low, high = model.predict_interval(K[:2], 0.9, confounds=alone[:2])
        assert np.isfinite([low, high]).all()
        low, high = model.predict_interval(K[:2], N / (N + 1), confounds=alone[:2])
        assert (low == -np.inf).all()
        assert (high == np.inf).all()

    def test_messages(self, tmp_path):
        model = mc.KernelRidge(mc.RBF(gamma=0.2), intervals=True).fit(X, Y)
        mc.save(model, tmp_path / "a.mercer")
        np.testing.assert_array_equal(mc.load(tmp_path / "a.mercer").predict_interval(X), model.predict_interval(X))
        with pytest.raises(ValueError, match=r"coverage must be at most N / \(N \+ 1\) = 0.9677 for the N = 30"):
            model.predict_interval(X, 0.97)
        with pytest.raises(ValueError, match=r"coverage must be a number, at least 0.5 and below 1; got 95"):
            model.predict_interval(X, 95)
        for other in (mc.compact(model), mc.KernelRidge(mc.RBF(gamma=0.2)).fit(X, Y)):
            with pytest.raises(ValueError, match="Fit it with intervals=True"):
                other.predict_interval(X)


def test_alpha_with_the_smallest_leave_one_out_error():
    alphas = [0.01, 0.1, 1.0, 10.0, 100.0]
    losses = {a: np.mean((mc.KernelRidge(alpha=a).fit(K, Y).loo_predictions_ - Y) ** 2) for a in alphas}
    assert mc.KernelRidge(alpha=alphas).fit(K, Y).alpha_ == min(losses, key=losses.get)
    model = mc.KernelRidge().fit(K, Y - 3 * C[:, 0])
    assert model.loo_score_ > 0.9
    assert np.mean((model.loo_predictions_ - Y + 3 * C[:, 0]) ** 2) < 0.2


@pytest.mark.parametrize("size", [1.0, 1e8])
@pytest.mark.parametrize("kernel", [mc.RBF(gamma=0.7), mc.Linear(normalize=False)], ids=["rbf", "linear"])
def test_samples_that_are_all_alike_predict_the_mean(kernel, size):
    """Rounding errors of the kernel matrix are not fitted: they predicted 1e12 away from the training samples."""
    x, y = np.full((10, 2), size), np.random.default_rng(0).normal(size=10)
    model = mc.KernelRidge(kernel, intervals=True).fit(x, y)
    new = [[0.0, 0.0], [size, size], [5.0, 5.0]]
    np.testing.assert_allclose(model.predict(new), y.mean(), atol=1e-10)
    assert np.abs(model.predict_interval(new, 0.5)).max() <= np.abs(y).max() + 1
    assert model.loo_score_ < 0


def test_one_target_is_not_favored_for_its_unit():
    two = np.column_stack([Y, RNG.normal(size=N)])
    assert mc.KernelRidge().fit(K, two * [1.0, 1e-6]).alpha_ == pytest.approx(mc.KernelRidge().fit(K, two).alpha_)


class TestFirstTry:
    """The obvious pipeline works, without centering anything."""

    def test_targets_far_from_zero(self):
        words = ["".join(RNG.choice(list("ACGT"), size=20, p=p)) for p in RNG.dirichlet(np.ones(4), size=60)]
        target = 1000 + np.array([word.count("G") - word.count("A") for word in words], dtype=float)
        for model in (make_pipeline(mc.Spectrum(2), mc.KernelRidge()), mc.KernelRidge(mc.Spectrum(2))):
            assert cross_val_score(model, words, target).mean() > 0.8

    def test_kernel_and_precomputed_are_one(self):
        one = mc.KernelRidge(mc.RBF(gamma=0.2)).fit(X, Y)
        other = make_pipeline(mc.RBF(gamma=0.2), mc.KernelRidge()).fit(X, Y)
        np.testing.assert_allclose(one.predict(X[:5]), other.predict(X[:5]), rtol=1e-12)
        assert one.n_features_in_ == 4

    def test_cross_validation_slices_both_sides(self):
        found = cross_val_predict(mc.KernelRidge(alpha=1.0), K, Y, cv=5)
        np.testing.assert_allclose(found, cross_val_predict(Ridge(alpha=1.0), X, Y, cv=5), rtol=1e-9)


class TestConfounds:
    groups = np.arange(N) // 3

    def written_out(self, alpha=1.0):
        """The loop that users had to write: kernel and target without confounds, both learned in the fold."""
        both, scores = mc.Confounded(X, C), []
        for train, test in GroupKFold(5).split(X, Y, self.groups):
            rest = Y - LinearRegression().fit(C[train], Y[train]).predict(C)
            kernel = mc.Residualized(mc.Linear(normalize=False))
            gram = kernel.fit_transform(both[train])
            model = mc.KernelRidge(alpha=alpha, intercept=False).fit(gram, rest[train])
            scores.append(model.score(kernel.transform(both[test]), rest[test]))
        return scores

    def test_without_a_loop(self):
        model = mc.KernelRidge(mc.Linear(normalize=False), alpha=1.0)
        found = cross_val_score(model, mc.Confounded(X, C), Y, groups=self.groups, cv=GroupKFold(5))
        np.testing.assert_allclose(found, self.written_out(), rtol=1e-9)

    def test_as_metadata(self):
        pipeline = make_pipeline(mc.Residualized(mc.Linear(normalize=False)), mc.KernelRidge(alpha=1.0))
        with sklearn.config_context(enable_metadata_routing=True):
            pipeline.fit(X, Y, confounds=C)
            one = pipeline.predict(X[:3], confounds=C[:3])
            ridge = mc.KernelRidge(mc.Linear(normalize=False), alpha=1.0)
            scores = cross_validate(ridge, X, Y, cv=GroupKFold(5), params={"confounds": C, "groups": self.groups})
        np.testing.assert_allclose(scores["test_score"], self.written_out(), rtol=1e-9)
        model = mc.KernelRidge(mc.Linear(normalize=False), alpha=1.0).fit(X, Y, confounds=C)
        np.testing.assert_allclose(one, model.predict(X[:3], confounds=C[:3]), rtol=1e-9)

    def test_what_is_left_of_a_target(self):
        model = mc.KernelRidge().fit(K, Y, confounds=C)
        np.testing.assert_allclose(model.unexplained(Y, C), Y - LinearRegression().fit(C, Y).predict(C), atol=1e-9)

    def test_units_copies_and_constants_change_nothing(self):
        one = mc.KernelRidge(alpha=1.0).fit(K, Y, confounds=C)
        more = np.column_stack([C * [1e8, 1e-8], C[:, 0] * 3, np.ones(N)])
        other = mc.KernelRidge(alpha=1.0).fit(K, Y, confounds=more)
        np.testing.assert_allclose(other.predict(K, confounds=more), one.predict(K, confounds=C), rtol=1e-8)
        np.testing.assert_allclose(other.loo_predictions_, one.loo_predictions_, rtol=1e-8)

    def test_as_many_as_samples(self):
        model = mc.KernelRidge().fit(K[:5, :5], Y[:5], confounds=np.eye(5))
        np.testing.assert_allclose(model.predict(K[:5, :5], confounds=np.eye(5)), Y[:5], rtol=1e-12)
        assert np.isnan(model.loo_predictions_).all()


class TestMessages:
    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"alpha": 0}, "alpha must be .* got 0"),
            ({"alpha": [1.0, -1.0]}, r"alpha must be .* got \[1.0, -1.0\]"),
            ({"alpha": "cv"}, "alpha must be 'loo'"),
            ({"kernel": "rbf"}, r"kernel must be 'precomputed' or a kernel; got 'rbf'. .*mc.RBF\(\)"),
            ({"intercept": 2}, "intercept must be True or False"),
        ],
    )
    def test_parameters(self, parameters, message):
        with pytest.raises(ValueError, match=message):
            mc.KernelRidge(**parameters).fit(K, Y)

    def test_no_kernel_matrix(self):
        with pytest.raises(ValueError, match=r"one that is of shape \(30, 4\).*make_pipeline\(mc.RBF"):
            mc.KernelRidge().fit(X, Y)
        with pytest.raises(ValueError, match="not symmetric"):
            mc.KernelRidge().fit(np.triu(K), Y)

    def test_confounds_on_one_side_only(self):
        with pytest.raises(ValueError, match=r"fitted with confounds. Predict confounds=..."):
            mc.KernelRidge().fit(K, Y, confounds=C).predict(K)
        with pytest.raises(ValueError, match="fitted with no confounds"):
            mc.KernelRidge().fit(K, Y).predict(K, confounds=C)
        with pytest.raises(ValueError, match="1 columns, but had 2"):
            mc.KernelRidge().fit(K, Y, confounds=C).predict(K, confounds=C[:, 0])
        with pytest.raises(TypeError, match="confounds already"):
            mc.KernelRidge(mc.RBF()).fit(mc.Confounded(X, C), Y, confounds=C)

    def test_an_indefinite_matrix(self):
        with pytest.raises(ValueError, match=r"eigenvalue -.*mc.kernels.Repaired"):
            mc.KernelRidge(alpha=0.1, intercept=False).fit(-K, Y)

    def test_weights(self):
        for weights in (-W, 0 * W):
            with pytest.raises(ValueError, match=r"[Ss]ample.weights? must"):
                mc.KernelRidge().fit(K, Y, weights)

    @pytest.mark.parametrize("n", [1, 2])
    def test_few_samples(self, n):
        model = mc.KernelRidge().fit(K[:n, :n], Y[:n])
        assert np.isfinite(model.predict(K[:4, :n])).all()

    def test_a_constant_target(self):
        assert mc.KernelRidge().fit(K, np.full(N, 7.0)).predict(K) == pytest.approx(7.0)


def test_classes_are_named():
    for y in (["a", "b", "c"], np.array(["a", "b", "c"], dtype=object), pd.Categorical(["a", "b", "c"])):
        with pytest.raises(ValueError, match=r"y must be numbers; got 'a' first. Use SVC"):
            mc.KernelRidge().fit(np.eye(3), y)
    with pytest.raises(ValueError, match=r"y contains -1e\+200, whose square overflows"):
        mc.KernelRidge().fit(np.eye(3), [1.0, -1e200, 0.0])
