"""The estimator: shapes, streams, gaps, stability, other kernels, bad input."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

import mercer as mc
from mercer.embedding._prediction import predicted


def series(n, seed=0):
    rng = np.random.default_rng(seed)
    angle = np.cumsum(0.3 + 0.05 * rng.normal(size=n))
    return np.stack([np.cos(angle), np.sin(angle)], axis=1) + 0.1 * rng.normal(size=(n, 2))


@pytest.fixture(scope="module")
def model():
    return mc.EmbeddedHMM(n_components=4, landmarks=30, alpha=1e-3).fit([series(300), series(100, 1)])


@pytest.fixture(scope="module")
def exact():
    return mc.EmbeddedHMM(n_components=4, alpha=1e-3).fit([series(80)])


X = [series(30, 2), series(12, 3), series(1, 4)]


class TestFilter:
    @pytest.mark.parametrize("which", ["model", "exact"])
    def test_many_sequences_together_equal_one_at_a_time(self, which, request):
        model = request.getfixturevalue(which)
        together = model.filter(X)
        apart = np.concatenate([model.filter([x]).values for x in X])
        np.testing.assert_allclose(together.values, apart, atol=1e-10)
        assert together.offsets.tolist() == [0, 30, 42, 43]

    @pytest.mark.parametrize("which", ["model", "exact"])
    def test_updates_equal_the_filter(self, which, request):
        model, belief = request.getfixturevalue(which), None
        x = X[0].copy()
        x[5:7] = np.nan
        for row in x:
            belief = model.update(row, belief)
        np.testing.assert_allclose(belief, model.filter([x]).values[-1], atol=1e-10)
        np.testing.assert_allclose(model.update(None), model.update([np.nan, np.nan]))

    @pytest.mark.parametrize("n_components", [2, 10])
    @pytest.mark.parametrize("kernel", [mc.RBF(0.1), mc.RBF(3.0), 2.0 * mc.RBF(1.0)])
    def test_updates_with_features_of_any_kind_equal_the_filter(self, n_components, kernel):
        for features in ("landmarks", "random"):
            if features == "random" and not isinstance(kernel, mc.RBF):
                continue
            model = mc.EmbeddedHMM(kernel, n_components=n_components, landmarks=60, alpha=1e-3, features=features)
            model.fit([series(150)])
            x = X[0].copy()
            x[7], x[9] = np.nan, 1e3  # missing, and impossible
            belief = None
            for row, expected in zip(x, model.filter([x]).values, strict=True):
                belief = model.update(row, belief)
                np.testing.assert_allclose(belief, expected, rtol=1e-7, atol=1e-9)
            for bad in ([np.nan, 1.0], [1e200, 1.0], [np.inf, 1.0]):
                with pytest.raises(ValueError, match=r"NaN|too large|inf"):
                    model.update(np.array(bad), belief)
            with pytest.raises(ValueError, match="belief must have shape"):
                model.update(x[0], belief * np.nan)

    def test_groups_and_spans_change_nothing(self, model, monkeypatch):
        whole = model.filter(X).values
        monkeypatch.setattr("mercer.embedding._filter.HELD", 40)
        np.testing.assert_allclose(model.filter(X).values, whole, atol=1e-12)

    def test_an_impossible_observation_restarts_and_stays_finite(self, model):
        x = X[0].copy()
        x[10] = 1e4
        found = model.filter([x])
        assert np.isfinite(found.values).all()
        assert np.flatnonzero(found.restarted).tolist() == [10]
        assert np.isfinite(model.update([1e4, 1e4])).all()

    def test_no_steps_are_the_start(self, model):
        empty = mc.Sequences([np.zeros((0, 2)), X[1]])
        np.testing.assert_allclose(model.transform(empty)[0], model.start_)
        assert model.forecast(empty, steps=2).shape == (2, 2, 2)
        nothing = mc.Sequences([np.zeros((0, 2)), np.zeros((0, 2))])
        np.testing.assert_allclose(model.transform(nothing), np.tile(model.start_, (2, 1)))
        assert model.forecast(nothing, steps=2).shape == (2, 2, 2)

    def test_beliefs_stay_bounded_for_20_000_steps(self):
        model = mc.EmbeddedHMM(n_components=8, landmarks=40, alpha=1e-6).fit([series(200, 5)])
        found = model.filter([series(20_000, 6)])
        assert np.linalg.norm(found.values, axis=1).max() <= model._learned.operators.radius * (1 + 1e-9)
        assert found.restarted.mean() < 0.01


@pytest.mark.slow
def test_a_hundred_thousand_steps_do_not_diverge():
    model = mc.EmbeddedHMM(n_components=10, landmarks=50, alpha=1e-5).fit([series(400, 5)])
    x = series(100_000, 6)
    found = model.filter([x])
    assert np.isfinite(found.values).all()
    values = predicted(model._learned, found.values, 1)  # as `predict`, without filtering again
    np.testing.assert_allclose(values[:100], model.predict([x[:100]])[0], atol=1e-10)
    errors = (values[:-1] - x[1:]) ** 2
    first, last = errors[:10_000].mean(), errors[-10_000:].mean()
    assert last < 1.2 * first < 0.2
    assert found.restarted.mean() < 1e-3


class TestPredictions:
    def test_shapes(self, model):
        assert [p.shape for p in model.predict(X)] == [(30, 2), (12, 2), (1, 2)]
        assert model.predict(X, steps=5, quantiles=[0.1, 0.5, 0.9])[0].shape == (30, 3, 2)
        assert model.forecast(X, steps=4).shape == (3, 4, 2)
        assert model.forecast(X, steps=4, quantiles=[0.5]).shape == (3, 4, 1, 2)
        assert model.transform(X).shape == (3, 4)
        assert model.log_prob(X).shape == (3,)
        assert model.n_components_ == len(model.singular_values_) == 4

    def test_forecast_is_predict_at_the_end(self, model):
        for steps in (1, 3):
            np.testing.assert_allclose(model.forecast(X, steps=3)[0, steps - 1], model.predict(X, steps=steps)[0][-1])

    def test_predictions_are_close(self, model):
        x = series(200, 7)
        assert model.score([x]) > 0.9
        for steps in (1, 4):
            predicted = model.predict([x], steps=steps)[0][:-steps]
            assert np.mean((predicted - x[steps:]) ** 2) < 0.12

    def test_quantiles_are_ordered_and_cover(self, model):
        x = series(200, 7)
        low, middle, high = np.moveaxis(model.predict([x], quantiles=[0.1, 0.5, 0.9])[0][:-1], 1, 0)
        assert (low <= middle).all()
        assert (middle <= high).all()
        inside = (x[1:] >= low) & (x[1:] <= high)
        assert 0.7 < inside.mean() < 1.0

    def test_a_typical_sequence_is_more_probable_than_a_reversed_one(self, model):
        x = series(60, 8)
        assert model.log_prob([x])[0] > model.log_prob([x[::-1]])[0] + 3


class TestLearning:
    @pytest.mark.parametrize("window", [1, 2])
    @pytest.mark.parametrize("solver", ["svd", "reduced_rank"])
    def test_blocks_equal_one_fit(self, window, solver):
        parts = [series(60, s) for s in range(3)]
        setting = {"kernel": mc.RBF(1.0), "n_components": 4, "window": window, "alpha": 1e-3, "solver": solver}
        more = {"landmarks": 30, "features": "random"}
        whole = mc.EmbeddedHMM(**setting, **more).fit(parts)
        blocks = mc.EmbeddedHMM(**setting, **more)
        for part in parts:
            blocks.partial_fit([part])
        assert blocks.n_triples_ == whole.n_triples_
        np.testing.assert_allclose(blocks.predict(X)[0], whole.predict(X)[0], atol=1e-8)
        np.testing.assert_allclose(blocks.log_prob(X), whole.log_prob(X), atol=1e-8)

    def test_the_cost_of_a_block_does_not_grow(self):
        setting = {"kernel": mc.RBF(1.0), "n_components": 4, "landmarks": 20, "features": "random"}
        parts = [series(40, s) for s in range(12)]
        model = mc.EmbeddedHMM(**setting)
        for part in parts:
            model.partial_fit([part])
            assert model._learned._third.gain.shape == (20, 400)
            assert model._learned._reads is None  # nothing was computed for all triples
        whole = mc.EmbeddedHMM(**setting).fit(parts)
        assert model.score(X[:2]) == pytest.approx(whole.score(X[:2]), abs=1e-8)
        np.testing.assert_allclose(model.update(X[0][0]), whole.update(X[0][0]), atol=1e-8)
        assert model._learned._reads is None
        for more in ({"steps": 3}, {"quantiles": [0.2, 0.9]}):
            np.testing.assert_allclose(model.predict(X, **more)[0], whole.predict(X, **more)[0], atol=1e-8)

    def test_parts_of_the_training_data_change_nothing(self, monkeypatch):
        parts = [series(50, s) for s in range(3)]
        for window in (1, 2):
            setting = {"n_components": 3, "window": window, "landmarks": 20}
            whole = mc.EmbeddedHMM(**setting).fit(parts).predict(X)[0]
            with monkeypatch.context() as patch:
                patch.setattr(
                    "mercer.embedding._solve.Block.parts",
                    lambda self, *_: (slice(i, i + 7) for i in range(0, len(self.past), 7)),
                )
                np.testing.assert_allclose(mc.EmbeddedHMM(**setting).fit(parts).predict(X)[0], whole, atol=1e-9)

    def test_blocks_of_symbols(self):
        texts = ["abcabcab", "bcacabca", "cabcabcb"] * 4
        for window in (1, 2):
            blocks = mc.EmbeddedHMM(n_components=2, window=window)
            for i in range(0, 12, 3):
                blocks.partial_fit(texts[i : i + 3])
            whole = mc.EmbeddedHMM(n_components=2, window=window).fit(texts)
            for steps in (1, 2):
                np.testing.assert_allclose(
                    blocks.predict_proba(["abca"], steps=steps)[0],
                    whole.predict_proba(["abca"], steps=steps)[0],
                    atol=1e-8,
                )
            np.testing.assert_allclose(blocks.log_prob(["abca"]), whole.log_prob(["abca"]), atol=1e-8)

    def test_blocks_after_a_fit_and_of_one_series(self):
        x, window = series(90), 2
        setting = {"kernel": mc.RBF(1.0), "n_components": 3, "window": window, "landmarks": 20, "features": "random"}
        whole = mc.EmbeddedHMM(**setting).fit([x])
        blocks = mc.EmbeddedHMM(**setting).fit([x[:40]]).partial_fit([x[40 - 2 * window :]])
        assert blocks.n_triples_ == whole.n_triples_
        np.testing.assert_allclose(blocks.predict(X)[0], whole.predict(X)[0], atol=1e-8)

    def test_the_order_of_the_sequences_does_not_matter(self):
        parts = [series(30 + s, s) for s in range(4)]
        a, b = (mc.EmbeddedHMM(n_components=3, landmarks=20).fit(p) for p in (parts, parts[::-1]))
        np.testing.assert_array_equal(a.predict(X)[0], b.predict(X)[0])

    def test_gaps_in_the_training_data_are_left_out(self):
        x = series(120)
        gappy = x.copy()
        gappy[60] = np.nan
        setting = {"kernel": mc.RBF(1.0), "n_components": 3, "landmarks": 20, "features": "random"}
        a = mc.EmbeddedHMM(**setting).fit([gappy])
        b = mc.EmbeddedHMM(**setting).fit([x[:60], x[61:]])
        assert a.n_triples_ == b.n_triples_ == 118 - 3
        np.testing.assert_allclose(a.predict(X)[0], b.predict(X)[0], atol=1e-8)

    def test_grid_search_clone_and_pickle(self):
        search = GridSearchCV(
            mc.EmbeddedHMM(mc.RBF(1.0), landmarks=15), {"n_components": [1, 4], "kernel__gamma": [1.0, 2.0]}, cv=2
        )
        search.fit(mc.objects([series(40, s) for s in range(4)]))
        assert search.best_params_["n_components"] == 4
        model = search.best_estimator_
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).transform(X), model.transform(X))

    def test_saved_models_filter_alike(self, tmp_path):
        words = [["aab", "bba", "bab"] * 8, ["bba", "bab", "aab"] * 6]
        strings = mc.EmbeddedHMM(mc.Spectrum(2, alphabet="ab"), n_components=2, window=2, landmarks=9)
        vectors = mc.EmbeddedHMM(n_components=2, window=2, landmarks=9)
        linear = mc.EmbeddedHMM(mc.Linear(normalize=False), n_components=2)
        for one, data in ((strings, words), (vectors, X[:2]), (linear, [1 + 0.1 * series(60)])):
            mc.save(one.fit(data), tmp_path / "model.mercer")
            np.testing.assert_array_equal(mc.load(tmp_path / "model.mercer").transform(data), one.transform(data))

    def test_a_start_from_the_first_windows(self):
        strings = ["ab" * 5] * 20
        first = mc.EmbeddedHMM(n_components=2, start="first").fit(strings)
        assert first.log_prob(["abab"])[0] > first.log_prob(["baba"])[0] + 2
        stationary = mc.EmbeddedHMM(n_components=2).fit(strings)
        assert stationary.log_prob(["abab"])[0] == pytest.approx(stationary.log_prob(["baba"])[0], abs=0.5)


class TestOtherKernels:
    def test_strings(self):
        words = [["aab", "bba", "bab"] * 8, ["bba", "bab", "aab"] * 6]
        model = mc.EmbeddedHMM(mc.Spectrum(k=2, alphabet="ab"), n_components=3).fit(words)
        assert model.predict([["aab", "bba", "bab"]])[0] == ["bba", "bab", "aab"]
        assert model.forecast([["aab"]], steps=3) == [["bba", "bab", "aab"]]
        assert model.log_prob([["aab", "bba"]])[0] > model.log_prob([["aab", "aab"]])[0]
        gap = model.predict([["aab", None, "bab"]])[0]
        assert gap[1] == "bab"
        np.testing.assert_allclose(model.update("aab"), model.filter([["aab"]]).values[0], atol=1e-10)

    def test_strings_with_landmarks_and_windows(self):
        words = [["aab", "bba", "bab"] * 8]
        setting = {"kernel": mc.Spectrum(k=2, alphabet="ab"), "n_components": 3, "window": 2}
        for landmarks in (None, 10):
            model = mc.EmbeddedHMM(**setting, landmarks=landmarks).fit(words)
            assert model.predict([["aab", "bba"]])[0] == ["bba", "bab"]

    def test_windows_compared_by_a_probability_product(self):
        x = series(200)
        sets = [[x[i : i + 5] for i in range(0, 200, 5)]]
        kernel = mc.ProbabilityProduct(mc.Gaussian("isotropic", prior="pooled"), rho=0.5)
        model = mc.EmbeddedHMM(kernel, n_components=3).fit(sets)
        assert model.predict([sets[0][:3]])[0][0].shape == (5, 2)
        assert model.transform([sets[0][:3]]).shape == (1, 3)

    def test_symbols_as_vectors(self):
        text = "abcabcabacab" * 10
        for kernel in (mc.RBF(1.0), mc.Linear()):
            model = mc.EmbeddedHMM(kernel, n_components=3).fit([text])
            assert np.argmax(model.predict(["abca"])[0][-1]) == 1

    def test_a_linear_kernel_has_exact_features(self):
        model = mc.EmbeddedHMM(mc.Linear(normalize=False), n_components=2).fit([1 + 0.1 * series(100)])
        assert model._learned.operators.gain.shape[0] == 2
        assert model.gamma_ is None


def refused(match, X=None, error=ValueError, **parameters):
    with pytest.raises(error, match=match):
        mc.EmbeddedHMM(**parameters).fit([series(40)] if X is None else X)


class TestBadInput:
    def test_parameters(self):
        refused("n_components must be a whole number", n_components=0)
        refused("alpha must be a positive number", alpha=0)
        refused("solver must be", solver="qr")
        refused("kernel must be a kernel", kernel="rbf", error=TypeError)
        refused("landmarks must be", landmarks=0)

    def test_short_sequences(self):
        refused("runs of 41 observed steps.* has length 40. Use a smaller window", window=20)
        with pytest.warns(UserWarning, match="1 sequences are shorter.*Use a smaller window"):
            mc.EmbeddedHMM(n_components=2).fit([series(40), series(2)])

    def test_part_of_a_step_is_missing(self, model):
        x = series(40)
        x[7, 1] = np.nan
        refused("step 7: coordinate 1 is NaN.*Impute it", [x])
        with pytest.raises(ValueError, match="step 7: coordinate 1 is NaN"):
            model.filter([x])
        with pytest.raises(ValueError, match="coordinate 1 is NaN"):
            model.update([1.0, np.nan])

    def test_rank(self):
        with pytest.warns(UserWarning, match="n_components = 10 .* reduced to 3"):
            assert mc.EmbeddedHMM().fit(["abcabbacbbacbacbcaab" * 3]).n_components_ == 3

    def test_constant_data(self):
        refused("All observations are equal", [np.ones((20, 2))])
        refused("All observations are equal", [np.ones((20, 2))], kernel=mc.RBF(1.0))
        with pytest.warns(UserWarning, match="reduced to 1"):
            assert mc.EmbeddedHMM().fit(["aaaaaa"]).predict_proba(["a"])[0].tolist() == [[1.0]]

    def test_kernels_that_are_not_positive_semi_definite(self):
        kernel = mc.SymmetricKL(mc.Gaussian("isotropic"), alpha=0.05)
        x = np.random.default_rng(0).normal(size=(40, 6, 1)) * np.exp(np.linspace(-6, 6, 40))[:, None, None]
        refused("not positive semi-definite.*eigenvalue", [list(x)], kernel=kernel, n_components=2)
        refused("not positive semi-definite", [list(x)], kernel=kernel, n_components=2, landmarks=30)

    def test_other_dimensions(self, model):
        match = "must have 2 coordinates, as the training data had; got 3"
        for method in (model.filter, model.predict, clone(model).fit([series(40)]).partial_fit):
            with pytest.raises(ValueError, match=match):
                method([np.zeros((10, 3))])
        with pytest.raises(ValueError, match="observation must have shape"):
            model.update([1.0, 2.0, 3.0])
        with pytest.raises(TypeError, match="The fitted model requires vectors; got symbols"):
            model.filter(["abc"])

    def test_blocks_need_features(self, monkeypatch):
        with pytest.raises(ValueError, match="partial_fit needs features"):
            mc.EmbeddedHMM().partial_fit([series(40)])
        monkeypatch.setattr("mercer.embedding._learning.LARGEST_TENSOR", 100)
        with pytest.raises(ValueError, match=r"products of three features.*Use fewer landmarks"):
            mc.EmbeddedHMM(landmarks=20).partial_fit([series(40)])

    def test_too_many_for_the_exact_form(self, monkeypatch):
        monkeypatch.setattr("mercer.embedding._learning.EXACT", 20)
        refused("38 training triples are too many.*Set landmarks=500")

    def test_random_features_need_vectors(self):
        refused("needs vectors and an RBF", [["ab", "ba"] * 9], kernel=mc.Spectrum(2), landmarks=4, features="random")

    def test_objects(self):
        refused("X must be a list of sequences", "ab", kernel=mc.Spectrum(2), error=TypeError)
        refused("Sequence 0 is a str", ["ab"], kernel=mc.Spectrum(2), error=TypeError)
        refused("X is empty", [], kernel=mc.Spectrum(2))
        refused("X is empty", [])

    def test_arguments(self, model):
        for call, match in (
            (lambda: model.predict(X, steps=0), "steps must be"),
            (lambda: model.predict(X, quantiles=[2.0]), "quantiles must be"),
            (lambda: model.forecast(X, steps=1000), "No training sequence has an observation 1000 steps"),
            (lambda: model.update([0.0, 0.0], belief=[1.0]), "belief must have shape"),
            (lambda: model.update([0.0, 0.0], belief=[np.nan] * 4), "belief must have shape"),
            (lambda: model.update([0.0, 1e200]), "too large to be squared"),
            (lambda: model.score([np.full((3, 2), np.nan)]), "no observed step"),
        ):
            with pytest.raises(ValueError, match=match):
                call()
        with pytest.raises(TypeError, match="quantiles need vectors"):
            mc.EmbeddedHMM(n_components=2).fit(["abcaabc" * 5]).predict(["ab"], quantiles=[0.5])
        with pytest.raises(NotFittedError):
            mc.EmbeddedHMM().filter(X)

    def test_huge_values(self):
        x = series(40)
        x[3, 0] = 1e200
        refused("step 3 has the value 1e\\+200", [x])


@pytest.mark.parametrize("kernel", [None, mc.RBF(1.0)])
def test_data_far_from_zero_keep_their_digits(kernel):
    """Such as pressures in Pa: distances were differences of squares, and the kernel not positive semi-definite."""
    rng = np.random.default_rng(0)
    X = [np.round(rng.normal(size=(n, 2)) * 1024) / 1024 for n in (12, 20, 15)]
    near, far = (mc.EmbeddedHMM(kernel).fit([x + shift for x in X]) for shift in (0.0, 2.0**20))
    assert far.score([x + 2.0**20 for x in X]) == pytest.approx(near.score(X), abs=1e-6)


@pytest.mark.parametrize("kernel", [None, mc.RBF(0.5), mc.Laplace(0.5), mc.Laplace("median")])
@pytest.mark.parametrize(
    "parameters",
    [{}, {"window": 2}, {"landmarks": 40}, {"landmarks": 60, "features": "random", "window": 2}],
    ids=str,
)
def test_embeddings_are_what_predictions_are_made_of(kernel, parameters):
    x = np.sin(np.arange(120) / 3)[:, None] + 0.1 * np.random.default_rng(0).normal(size=(120, 1))
    model = mc.EmbeddedHMM(kernel, n_components=3, **parameters).fit([x[:60], x[60:]])
    X = [x[:40], x[:7]]
    ahead = model.forecast(X, steps=4)
    for steps in (1, 4):
        weights, observations = model.embedding(X, steps)
        assert weights.shape == (2, len(observations))
        center = observations.mean(axis=0)  # the weights of a part of the triples do not quite sum to one
        found = center + weights @ (observations - center)
        np.testing.assert_allclose(found, ahead[:, steps - 1], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(model.embedding(X).weights.sum(axis=1), 1.0, rtol=1e-9)
    grid = np.linspace(-40, 40, 4001)[:, None]
    np.testing.assert_allclose(model.density(X, grid).sum(axis=1) * 0.02, 1.0, rtol=1e-3)


def test_embeddings_of_strings_and_objects():
    letters = mc.EmbeddedHMM(n_components=3).fit(["abcabcabcabc"])
    weights, observations = letters.embedding(["abca", "ab"])
    totals = [[sum(w for w, s in zip(row, observations, strict=True) if s == x) for x in "abc"] for row in weights]
    np.testing.assert_allclose(letters.density(["abca", "ab"], "abc"), totals, atol=1e-12)
    np.testing.assert_allclose(
        letters.density(["abca", "ab"], "abc"), letters.forecast(["abca", "ab"])[:, 0], atol=1e-9
    )
    words = [["aab", "bba", "bab"] * 8, ["bba", "bab", "aab"] * 6]
    model = mc.EmbeddedHMM(mc.Spectrum(k=2, alphabet="ab"), n_components=3).fit(words)
    found = model.density([["aab"]], ["aab", "bba", "bab"])
    assert ["aab", "bba", "bab"][int(found.argmax())] == model.forecast([["aab"]])[0][0]
    assert set(model.embedding([["aab"]]).observations) == {"aab", "bba", "bab"}


def test_where_a_density_is_evaluated(model):
    with pytest.raises(ValueError, match="steps must be"):
        model.embedding([np.zeros((3, 2))], steps=0)
    with pytest.raises(ValueError, match=r"at\[1\] is missing"):
        model.density([np.zeros((3, 2))], [[0.0, 0.0], [np.nan, np.nan], [1.0, 1.0]])
    with pytest.raises(ValueError, match=r"coordinates|dimension"):
        model.density([np.zeros((3, 2))], [[0.0], [1.0]])
    with pytest.raises(ValueError, match="4000 steps after"):
        model.embedding([np.zeros((3, 2))], steps=4000)
