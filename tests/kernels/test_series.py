"""Ready estimators for series: input of all kinds, probabilities, explanations, files, and scikit-learn's checks."""

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.metrics import log_loss
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer as mc
from mercer.kernels.series import SeriesClassifier, SeriesRegressor


def waves(n, seed=0, classes=2):
    """A short wave somewhere in noise, whose direction is the class."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    X = []
    for c in y:
        x = 0.3 * rng.normal(size=rng.integers(35, 50))
        start = rng.integers(2, len(x) - 12)
        x[start : start + 10] += np.sin(np.linspace(0, 2 * np.pi, 10)) * (-1) ** c * (1 + c // 2)
        X.append(x)
    return X, y


FAST = SeriesClassifier("fast")


def test_classes_and_probabilities():
    X, y = waves(90, classes=3)
    names = np.array(["up", "down", "up twice"])[y]
    model = clone(FAST).fit(X[:60], names[:60])
    assert model.classes_.tolist() == ["down", "up", "up twice"]
    assert model.score(X[60:], names[60:]) >= 0.8
    assert abs(model.inner_score_ - model.score(X[60:], names[60:])) < 0.2
    p = model.predict_proba(X[60:])
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert (model.predict(X[60:]) == model.classes_[p.argmax(axis=1)]).all()
    assert model.decision_function(X[60:]).shape == (30, 3)


def test_probabilities_are_calibrated():
    """With a quarter of the labels wrong, no left-out prediction can be right more often than three times of four."""
    X, y = waves(240)
    y = np.where(np.random.default_rng(1).random(240) < 0.25, 1 - y, y)
    model = SeriesClassifier("fast").fit(X[:160], y[:160])
    p = model.predict_proba(X[160:])
    sure = p.max(axis=1).mean()
    assert abs(sure - model.score(X[160:], y[160:])) < 0.12


@pytest.mark.slow
@pytest.mark.parametrize("n", [60, 300])
def test_the_inner_score_of_random_labels_is_at_chance(n):
    X, _ = waves(n)
    for preset in ("fast", "best"):
        scores = []
        for seed in range(6 if n == 300 else 60):
            y = np.random.default_rng(seed).permutation(np.arange(n) % 2)
            scores.append(SeriesClassifier(preset).fit(X, y).inner_score_)
        assert abs(np.mean(scores) - 0.5) < 3 * 0.5 / np.sqrt(n * len(scores))


def test_noisy_labels_are_regularized_more():
    X, y = waves(160)
    noisy = np.where(np.random.default_rng(0).random(160) < 0.3, 1 - y, y)
    assert clone(FAST).fit(X, noisy).alpha_ > 5 * clone(FAST).fit(X, y).alpha_


@pytest.mark.parametrize("classes", [2, 3])
def test_the_inner_score_is_that_of_regressions_without_one_series(classes):
    """One by one, on features that were learned without labels; the regularization is the chosen one."""
    X, y = waves(20, classes=classes)
    model = SeriesClassifier("fast").fit(X, y)
    K = model.kernel.fit_transform(X)
    target = np.eye(classes)[y] if classes > 2 else y[:, None] - 0.5
    right = []
    for i in range(20):
        rest = np.arange(20) != i
        ridge = mc.KernelRidge(alpha=model.alpha_).fit(K[np.ix_(rest, rest)], target[rest])
        decision = ridge.predict(K[[i]][:, rest])[0] + (target[i] - target.mean(axis=0)) / 19  # the mean of all
        right.append((decision.argmax() if classes > 2 else int(decision[0] > 0)) == y[i])
    assert model.inner_score_ == np.mean(right)
    ridge = mc.KernelRidge(alpha=model.alpha_).fit(K, target)
    decisions = ridge.predict(model.kernel.fit(X).transform(X))
    np.testing.assert_allclose(model.decision_function(X).reshape(20, -1), decisions, atol=1e-6)


@pytest.mark.parametrize("preset", ["fast", "best"])
def test_without_information_everything_is_at_chance(preset):
    """The corrected predictions are equal up to rounding, which knows the class."""
    for classes in (2, 3):
        model = SeriesClassifier(preset).fit([np.ones(20)] * 12, np.arange(12) % classes)
        assert model.inner_score_ == pytest.approx(1 / classes)
        np.testing.assert_allclose(model.predict_proba([np.ones(20)]), 1 / classes)
    p = SeriesClassifier(preset).fit(waves(2)[0], [0, 1]).predict_proba(waves(20, seed=1)[0])
    assert np.abs(p - 0.5).max() < 0.2


def agree(model, X):
    """Check that the class that is predicted has the largest probability, and that probabilities are sound."""
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert np.isfinite(model.temperature_)
    assert np.isfinite(p).all()
    np.testing.assert_array_equal(model.predict(X), model.classes_[p.argmax(axis=1)])
    return p


@example(labels=[1, 0, 1, 0], seed=0, kind=0)
@example(labels=[0, 1, 2, 0, 1, 2], seed=0, kind=1)
@example(labels=[0, 1, 2, 3], seed=0, kind=2)
@given(labels=st.lists(st.integers(0, 4), min_size=4, max_size=16), seed=st.integers(0, 9), kind=st.integers(0, 2))
def test_the_predicted_class_has_the_largest_probability(labels, seed, kind):
    """With noise labels, identical series, ties, and classes of one series."""
    assume(len(set(labels)) > 1)
    X = np.random.default_rng(seed).normal(size=(len(labels), 15))
    X = [X, np.ones_like(X), X[np.arange(len(X)) // 2]][kind]
    model = SeriesClassifier("fast").fit(X, labels)
    p = agree(model, np.concatenate([X, np.random.default_rng(99).normal(size=(5, 15))]))
    assert np.isfinite(log_loss(labels, p[: len(X)], labels=model.classes_))
    counts = np.bincount(labels)
    assert np.isnan(model.inner_score_) == (counts.max() == 1)


def walks_of_classes(n, per):
    rng = np.random.default_rng(0)
    centers = np.cumsum(rng.normal(size=(n, 80)), axis=1) / 5
    y = np.repeat(np.arange(n), per)
    return centers[y] + 0.1 * rng.normal(size=(len(y), 80)), y


@pytest.mark.parametrize("preset", ["fast", "best"])
def test_one_series_per_class(preset, tmp_path):
    """Nothing can be measured by leaving a series out, but its probabilities tell the classes apart."""
    X, y = walks_of_classes(15, 6)
    first = np.arange(0, len(y), 6)
    model = SeriesClassifier(preset).fit(X[first], y[first])
    p = agree(model, X)
    assert (p.argmax(axis=1) == y).mean() > 0.95
    assert log_loss(y, p) < 0.7 * np.log(15)
    assert np.isnan(model.inner_score_)
    assert any(isinstance(part, mc.Fisher) for part in model.kernel_.kernels_) == (preset == "best")
    mc.save(model, tmp_path / "model.mercer")
    np.testing.assert_array_equal(mc.load(tmp_path / "model.mercer").predict_proba(X), p)


def test_the_classes_with_more_than_one_series_are_measured():
    """Four classes of three series, and three of one; many classes of one series do not hide the others."""
    X, y = walks_of_classes(7, 6)
    kept = np.concatenate([np.flatnonzero(y == c)[: 3 if c < 4 else 1] for c in range(7)])
    model = SeriesClassifier("fast").fit(X[kept], y[kept])
    assert model.inner_score_ == 1.0
    p = agree(model, X)
    assert (p.argmax(axis=1) == y).mean() > 0.95
    kept = np.concatenate([np.flatnonzero(y == c)[: 2 if c < 1 else 1] for c in range(7)])
    assert SeriesClassifier("fast").fit(X[kept], y[kept]).score(X, y) > 0.95


def test_an_infinite_temperature_of_an_earlier_version_keeps_the_order():
    X, y = waves(40)
    model = SeriesClassifier("fast").fit(X, y)
    expected = model.predict(X)
    model.temperature_ = np.inf
    np.testing.assert_array_equal(model.predict(X), expected)
    np.testing.assert_array_equal(model.classes_[model.predict_proba(X).argmax(axis=1)], expected)


def test_models_are_chosen_without_their_labels():
    """Regimes that come again need ergodic models, events in an order left-right ones or none."""
    X, y = mc.datasets.make_hmm_sequences(60, n_features=2, length=(15, 45), noise=0.3, random_state=0)
    model = SeriesClassifier().fit(X, y)
    topologies = {part.model.topology for part in model.kernel_.kernels_ if isinstance(part, mc.Fisher)}
    assert topologies == {"ergodic"}
    np.testing.assert_allclose(model.kernel_.weights_.sum(), 1.0)
    assert model.coef_.shape[1] == model.kernel_.features(X[:1]).shape[1]
    found = model.explain(X[:3], method="additive")
    np.testing.assert_allclose(found.totals + found.bias, model.decision_function(X[:3]), atol=1e-9)


@pytest.mark.parametrize("every", [4, 10, 25])
def test_series_that_are_observed_rarely(every):
    X, y = waves(24)
    both = [
        np.stack([x, np.where(np.arange(len(x)) % every, np.nan, x + c)], axis=1) for x, c in zip(X, y, strict=True)
    ]
    model = SeriesClassifier("best").fit(both, y)
    assert np.isfinite(model.predict_proba(both)).all()
    only = [x[:, 1:] for x in both]
    assert SeriesClassifier("best").fit(only, y).score(only, y) > 0.9


def test_few_series_make_nobody_sure():
    X, y = waves(40)
    X = [x + 10.0 * c * np.sin(np.arange(len(x))) for x, c in zip(X, y, strict=True)]
    model = clone(FAST).fit(X, y)
    assert model.inner_score_ == 1.0
    assert 0.9 < model.predict_proba(X).max() < 1 - 1e-4


def test_input_of_all_forms():
    rng = np.random.default_rng(0)
    cube, y = rng.normal(size=(12, 20, 2)), np.arange(12) % 2
    cube[y == 1, 5:9] += 2.0
    p = clone(FAST).fit(cube, y).predict_proba(cube)
    for form in (list(cube), mc.Sequences(cube), mc.Sequences.from_aeon(np.swapaxes(cube, 1, 2))):
        np.testing.assert_allclose(clone(FAST).fit(form, y).predict_proba(form), p)
    pd = pytest.importorskip("pandas")
    frames = [pd.DataFrame(x, columns=["a", "b"]) for x in cube]
    model = clone(FAST).fit(frames, y)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    np.testing.assert_allclose(model.predict_proba([frame[["b", "a"]] for frame in frames]), p)


def test_gaps_and_short_series():
    X, y = waves(40)
    rng = np.random.default_rng(0)
    X = [np.where(rng.random(len(x)) < 0.2, np.nan, x) for x in X]
    X[3] = X[3][:3]
    X[4] = np.ones(20)
    model = SeriesClassifier().fit(X, y)
    assert np.isfinite(model.predict_proba(X)).all()


@pytest.mark.parametrize("preset", ["fast", "best"])
def test_a_value_that_is_far_outside_is_not_too_large(preset):
    X, y = waves(40)
    model = SeriesClassifier(preset).fit(X, y)
    far = []
    for value in (1e9, 1e300):
        x = X[0].copy()
        x[-1] = value
        far.append(model.decision_function([x])[0])
    assert abs(far[0] - far[1]) < 1e-3


def pulses(n, seed, noise=0.0):
    """Pulses of two widths, and nothing else."""
    rng = np.random.default_rng(seed)
    y, X = np.arange(n) % 2, np.zeros((n, 100))
    for x, c in zip(X, y, strict=True):
        start = rng.integers(10, 70)
        x[start : start + 9 - 3 * c] = 1.0
    return X + noise * rng.normal(size=X.shape), y


def test_noise_that_no_training_series_has():
    model = clone(FAST).fit(*pulses(40, 0))
    for noise in (1e-6, 1e-4, 1e-3):
        assert model.score(*pulses(60, 1, noise)) == 1.0


CONSTANTS = [np.full(20, i % 2 + 0.1 * np.sin(i)) for i in range(30)]


@pytest.mark.parametrize("preset", ["fast", "best"])
@pytest.mark.parametrize("X", [CONSTANTS, pulses(30, 0)[0]], ids=["constants", "pulses"])
def test_the_last_digit_of_exact_data_does_not_matter(preset, X):
    """Many of their scores are exactly zero."""
    X, y = list(X), np.arange(30) % 2
    model = SeriesClassifier(preset).fit(X, y)
    other = [np.where(np.arange(len(x)) == 6, x + 1e-12, x) for x in X]
    expected = model.decision_function(X)
    np.testing.assert_allclose(model.decision_function(other), expected, atol=1e-6)
    again = SeriesClassifier(preset).fit([*X[:7], other[7], *X[8:]], y)
    np.testing.assert_allclose(again.decision_function(X), expected, atol=1e-6)


def test_series_that_are_alike():
    """Up to rounding, which must not decide with huge weights."""
    x = np.sin(np.arange(30.0))
    X = [x + 1e-12 * (np.arange(30) == i) for i in range(20)]
    model = SeriesClassifier().fit(X, np.arange(20) % 2)
    assert np.abs(model.coef_).max() < 1.0
    assert np.abs(model.decision_function([x, x + 0.01, -x])).max() < 1.0


def test_explanations_find_the_wave():
    X, y = waves(80)
    model = SeriesClassifier().fit(X[:60], y[:60])
    found = model.explain(X[60:])
    decision = model.decision_function(X[60:])
    np.testing.assert_allclose(found.totals + found.bias, decision, atol=1e-8)
    np.testing.assert_array_equal(mc.explain(model, X[60:]).totals, found.totals)
    np.testing.assert_allclose(mc.compact(model).decision_function(X[60:]), decision)


def test_files_and_threads(tmp_path):
    X, y = waves(24)
    model = SeriesClassifier("fast", n_jobs=2).fit(X, y)
    mc.save(model, tmp_path / "model.mercer")
    again = mc.load(tmp_path / "model.mercer")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(clone(model).set_params(n_jobs=1).fit(X, y).predict_proba(X), model.predict_proba(X))


def test_the_score_without_a_series_is_that_of_a_regression_of_noise():
    X, _ = waves(12)
    scores = []
    for seed in range(20):
        y = np.random.default_rng(seed).normal(size=12)
        scores.append(SeriesRegressor("fast").fit(X, y).inner_score_)
    assert np.mean(scores) < 0


def test_training_series_are_predicted_with_the_features_that_were_fitted():
    """Also those that have no windows in one half."""
    X, y = waves(20)
    X[2][: len(X[2]) // 2 + 5] = np.nan
    X[3] = X[3][:1]
    model = SeriesClassifier("fast").fit(X, y)
    kernel = model.kernel.fit(X)
    np.testing.assert_allclose(np.diag(kernel.transform(X)), 1 - 0.25 * np.isin(np.arange(20), [2, 3]), atol=1e-9)
    ridge = mc.KernelRidge(alpha=model.alpha_).fit(kernel.fit_transform(X), y - 0.5)
    np.testing.assert_allclose(model.decision_function(X), ridge.predict(kernel.transform(X)), atol=1e-9)


def test_in_pipelines():
    X, y = waves(20)
    chain = make_pipeline(mc.Derivatives(), clone(FAST)).fit(X, y)
    found = mc.explain(chain, X[:3])
    np.testing.assert_allclose(found.totals + found.bias, chain.decision_function(X[:3]), atol=1e-9)
    small = mc.compact(chain)
    assert small.kept_ == []
    np.testing.assert_allclose(small.predict_proba(X), chain.predict_proba(X))


def test_in_cross_validation():
    X, y = waves(40)
    assert np.mean(cross_val_score(FAST, mc.objects(X), y, cv=2)) > 0.7


def test_regression():
    rng = np.random.default_rng(0)
    speed = rng.uniform(0.2, 1.0, size=60)
    X = [np.sin(s * np.arange(40) + rng.uniform(0, 6)) + 0.1 * rng.normal(size=40) for s in speed]
    model = SeriesRegressor("fast").fit(X[:40], speed[:40])
    assert model.score(X[40:], speed[40:]) > 0.8
    assert model.inner_score_ > 0.8
    found = model.explain(X[40:])
    np.testing.assert_allclose(found.totals + found.bias, model.predict(X[40:]), atol=1e-8)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda X, y: SeriesClassifier("slow").fit(X, y), "preset must be"),
        (lambda X, y: SeriesClassifier(n_jobs=-2).fit(X, y), "n_jobs must be"),
        (lambda X, y: SeriesClassifier("fast").fit(X, y[:5]), r"10 samples, and y of shape \(5,\)\. Pass one"),
        (lambda X, y: SeriesClassifier("fast").fit(X, np.ones(10)), "two classes or more; got 1 class"),
        (lambda X, y: SeriesClassifier("fast").fit(X, np.linspace(0, 1, 10)), "Unknown label type"),
        (lambda X, y: SeriesClassifier("fast").predict(X), "not fitted yet"),
        (lambda X, y: SeriesClassifier("fast").fit(X, [None, "a"] * 5), r"y\[0\] is None"),
        (lambda X, y: SeriesRegressor("fast").fit(X, ["a"] * 10), "y must be numbers"),
        (lambda X, y: SeriesClassifier("fast").fit([], []), "X is empty"),
        (lambda X, y: SeriesClassifier("fast").fit(X, y).predict([X[0] * np.nan]), "has no observed value"),
    ],
)
def test_bad_calls(make, message):
    X, y = waves(10)
    with pytest.raises((ValueError, TypeError), match=message):
        make(X, y)


ROWS = "the rows of a matrix are series of one channel and any length, which have no features"
EXPECTED_FAILURES = {
    "check_n_features_in": ROWS,
    "check_n_features_in_after_fitting": ROWS,
    "check_classifiers_train": ROWS,
    "check_fit2d_predict1d": "a 1-D array is a single series, and the message says so",
    "check_estimators_empty_data_messages": "the message names the empty series",
    "check_estimator_sparse_tag": "the message asks for a list or an array",
    "check_estimator_sparse_array": "the message asks for a list or an array",
    "check_estimator_sparse_matrix": "the message asks for a list or an array",
}
"""Checks of input and messages that cannot pass, each with the reason."""


@pytest.mark.filterwarnings("ignore:X is read as")
@parametrize_with_checks(
    [SeriesClassifier("fast"), SeriesRegressor("fast")], expected_failed_checks=lambda estimator: EXPECTED_FAILURES
)
def test_scikit_learn(estimator, check):
    check(estimator)
