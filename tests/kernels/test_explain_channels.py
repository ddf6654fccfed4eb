"""Explanations of several channels, and of several pipelines inside one estimator."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import mercer as mc

pytestmark = pytest.mark.filterwarnings("ignore")  # of fits that stop early

EVENT = 10
LABELS = np.arange(60) % 2


def estimator(C: float = 1.0) -> SVC:
    return SVC(kernel="precomputed", C=C)


@pytest.fixture(scope="module")
def events():
    """Series of three channels of noise; half of them have an event in the first one, somewhere."""
    rng = np.random.default_rng(0)
    X, starts = rng.normal(size=(60, 60, 3)), rng.integers(5, 45, size=60)
    for x, start in zip(X[1::2], starts[1::2], strict=True):
        x[start : start + EVENT, 0] += 3 * np.hanning(EVENT)
    return mc.Sequences(list(X), channels=["event", "noise", "more"]), starts


def shares(found, starts):
    """The mean sum of contributions within the event, by channel."""
    inside = [c[start : start + EVENT].sum(axis=0) for c, start in zip(found.contributions, starts, strict=True)]
    return np.mean(inside, axis=0)


MODELS = [
    mc.SeriesClassifier("fast"),
    make_pipeline(mc.Standardize(), mc.Fisher(mc.HMM(3, random_state=0)), estimator()),
]


class TestChannels:
    @pytest.mark.slow
    @pytest.mark.parametrize("model", MODELS, ids=["classifier", "pipeline"])
    def test_noise_does_not_get_the_share_of_the_signal(self, events, model):
        X, starts = events
        model.fit(X[:44], LABELS[:44])
        found = mc.explain(model, X[45::2])
        assert (found.method, found.window, found.channels) == ("marginal", 5, ("event", "noise", "more"))
        signal, *noise = shares(found, starts[45::2])
        assert signal >= 5 * np.abs(noise).max()

    def test_shares_that_are_computed_from_one_channel_stay_exact(self, events):
        X, starts = events
        pipeline = make_pipeline(mc.Standardize(), mc.Fisher(mc.Gaussian("diagonal")), estimator())
        found = mc.explain(pipeline.fit(X, LABELS), X[1::2])
        assert (found.method, found.exact) == ("additive", True)
        signal, *noise = shares(found, starts[1::2])
        assert signal >= 5 * np.abs(noise).max()

    @pytest.mark.parametrize(
        "steps", [(mc.Fisher(mc.Gaussian("full")),), (mc.data.Clock(), mc.Fisher(mc.Gaussian("diagonal")))]
    )
    def test_shares_that_depend_on_several_are_not_the_default(self, events, steps):
        X, _ = events
        pipeline = make_pipeline(*steps, estimator()).fit(X, LABELS)
        assert mc.explain(pipeline, X[:2], method="additive").exact
        assert not mc.explain(pipeline, X[:2]).exact

    def test_without_missing_values_there_are_shares_of_whole_steps(self):
        rng = np.random.default_rng(1)
        X = [rng.normal(size=(6, 2)) + i % 2 for i in range(20)]
        pipeline = make_pipeline(mc.EmpiricalMeanMap(), estimator()).fit(X, np.arange(20) % 2)
        found, spread = mc.explain(pipeline, X[:3]), mc.explain(pipeline, X[:3], method="additive")
        assert (found.exact, found.channels, found.kind) == (True, None, "series")
        np.testing.assert_allclose(found.contributions, np.sum(spread.contributions, axis=2), atol=1e-12)
        assert found.to_frame().columns.tolist() == ["sample", "position", "name", "contribution"]
        assert found.top(1)[0][0].channel is None

    def test_one_channel_stays_exact(self):
        rng = np.random.default_rng(1)
        X = [rng.normal(size=12) + i % 2 for i in range(20)]
        pipeline = make_pipeline(mc.Fisher(mc.HMM(2, n_iter=5)), estimator()).fit(X, np.arange(20) % 2)
        found = mc.explain(pipeline, X[:2])
        assert (found.method, found.contributions[0].shape) == ("additive", (12, 1))

    def test_windows_of_the_default_length(self):
        """Truth: the decision minus that without each window, at every second step, and lines between them."""
        rng = np.random.default_rng(2)
        X = [rng.normal(size=(14, 2)) + i % 2 for i in range(20)]
        X[0][3, 1] = np.nan
        model = make_pipeline(mc.Fisher(mc.HMM(2, n_iter=5, random_state=0)), estimator()).fit(X, np.arange(20) % 2)
        expected, at = np.zeros((14, 2)), [*range(0, 14, 2), 13]
        for t in at:
            for channel in range(2):
                gap = X[0].copy()
                gap[max(t - 2, 0) : t + 3, channel] = np.nan
                expected[t, channel] = (model.decision_function([X[0]]) - model.decision_function([gap]))[0]
        expected = np.stack([np.interp(np.arange(14), at, column[at]) for column in expected.T], axis=1)
        expected[3, 1] = 0.0  # is missing
        found = mc.explain(model, X[:1])
        assert found.window == 5
        np.testing.assert_allclose(found.contributions[0], expected, atol=1e-10)


class TestSeveralPipelines:
    STRINGS = ("ACGTAC", "AGGTAA", "TTTTAC", "TTATTG", "ACGGAC", "ATTTTA", "GGGTAC", "TATTTT", "CCGTAC", "TTTAAT") * 3
    TWO = np.array([1, 1, 0, 0, 1, 0, 1, 0, 1, 0] * 3)
    THREE = np.array(["a", "b", "c", "c", "a", "b", "a", "c", "b", "c"] * 3)

    @pytest.mark.parametrize("method", ["additive", "marginal"])
    @pytest.mark.parametrize("ensemble", [True, False])
    def test_calibrated_classifiers_are_explained_by_the_mean_of_their_decisions(self, ensemble, method):
        kernel = mc.Fisher(mc.MarkovChain(1, smoothing=1.0))
        search = GridSearchCV(make_pipeline(kernel, estimator()), {"svc__C": [0.1, 1.0]}, cv=2)
        model = CalibratedClassifierCV(search, cv=3, ensemble=ensemble).fit(list(self.STRINGS), self.TWO)
        found = mc.explain(model, self.STRINGS[:3], method=method)
        members = [each.estimator for each in model.calibrated_classifiers_]
        assert len(members) == (3 if ensemble else 1)
        decisions = [each.decision_function(list(self.STRINGS[:3])) for each in members]
        np.testing.assert_allclose(found.decision, np.mean(decisions, axis=0), atol=1e-10)
        assert found.exact == (method == "additive")
        if found.exact:
            assert np.abs(found.residual).max() < 1e-10
        alone = [mc.explain(each, self.STRINGS[:3], method=method).contributions for each in members]
        for i, own in enumerate(found.contributions):
            np.testing.assert_allclose(own, np.mean([c[i] for c in alone], axis=0), atol=1e-12)
        assert found.predicted == tuple(map(str, model.predict(list(self.STRINGS[:3]))))

    def test_one_class_against_the_rest(self):
        model = OneVsRestClassifier(make_pipeline(mc.Spectrum(2), estimator())).fit(list(self.STRINGS), self.THREE)
        found = mc.explain(model, self.STRINGS[:4])
        np.testing.assert_allclose(found.decision, model.decision_function(list(self.STRINGS[:4])), atol=1e-10)
        assert found.outputs == ("a", "b", "c")
        assert np.abs(found.residual).max() < 1e-10
        one = mc.explain(model, self.STRINGS[:4], output="b")
        np.testing.assert_allclose(one.contributions[1], found.contributions[1][:, 1], atol=1e-12)
        assert one.outputs == ("b",)

    def test_several_labels_are_refused(self):
        labels = np.stack([self.TWO, 1 - self.TWO, self.TWO], axis=1)
        model = OneVsRestClassifier(make_pipeline(mc.Spectrum(2), estimator())).fit(list(self.STRINGS), labels)
        with pytest.raises(TypeError, match="OneVsRestClassifier has several labels for one sample"):
            mc.explain(model, self.STRINGS[:1])


class TestThePredictedClass:
    @pytest.fixture(scope="class")
    @staticmethod
    def found():
        model = make_pipeline(mc.Spectrum(2), estimator(10.0))
        return mc.explain(
            model.fit(list(TestSeveralPipelines.STRINGS), TestSeveralPipelines.THREE), ["ACGTAC", "TTTTTT"]
        )

    def test_it_is_the_default_of_several(self, found):
        assert len(set(found.predicted)) == 2
        chosen = found.of_output()
        for i, label in enumerate(found.predicted):
            own = found.of_output(label)
            np.testing.assert_array_equal(chosen.contributions[i], own.contributions[i])
            assert chosen.decision[i] == own.decision[i]
        assert chosen.outputs == ("the predicted class",)
        assert found[:1].of_output().outputs == found.predicted[:1]

    def test_positions_counted_from_one(self, found):
        shifted = found.counted_from(1)
        for before, after in zip(found.top(3), shifted.top(3), strict=True):
            assert [c.position + 1 for c in before] == [c.position for c in after]
            assert [c.name for c in before] == [c.name for c in after]
        assert shifted.to_frame()["position"].min() == 1
        with pytest.raises(ValueError, match="first must be a whole number, 0 or more; got -1"):
            found.counted_from(-1)
