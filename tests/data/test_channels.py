"""Names of channels: from the columns of a table, through transformers and files, to the names of features."""

from __future__ import annotations

import io
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import mercer as mc
from mercer.data.baseline_features import Summary
from mercer.models.scores import _with_channels

NAMES = ("speed", "height")
RNG = np.random.default_rng(0)
X = mc.Sequences([RNG.normal(size=(n, 2)) for n in (8, 9, 10, 11)], channels=NAMES)


def swapped(X):
    """Return the same series with the channels in another order."""
    return mc.Sequences([x[:, ::-1] for x in X], channels=X.channels[::-1])


def test_tables_name_the_channels():
    text = "id,time,speed,height,label\na,0,1,2,u\na,1,2,3,u\nb,0,4,5,v\nb,1,5,7,v\n"
    read = mc.read_table(io.StringIO(text))
    assert read.X.channels == read.channels == NAMES
    assert mc.read_table(io.StringIO("id,x0,x1\na,1,2\nb,3,4\n")).X.dimension == 1
    assert mc.read_table({"id": ["p", "q"], "sequence": ["AC", "GT"]}).X.channels is None
    frames = [pd.DataFrame(x, columns=NAMES) for x in X]
    assert mc.Sequences(frames).channels == NAMES


def test_frames_of_one_list_in_another_order():
    frames = [pd.DataFrame(x, columns=NAMES) for x in X]
    mixed = [frames[0], frames[1][["height", "speed"]], *frames[2:]]
    assert mc.Sequences(mixed).digests() == X.digests()
    other = [frames[0], frames[1].rename(columns={"speed": "pace"})]
    wrong = "sequence 1 must have the channels 'speed', 'height', as sequence 0; missing: 'speed'; unexpected: 'pace'"
    with pytest.raises(ValueError, match=wrong):
        mc.Sequences(other)
    assert mc.Sequences(other, invalid="mask").problems == {1: f"{wrong}."}


def test_frames_in_columns_of_objects_and_next_to_arrays():
    frames = [pd.DataFrame(x, columns=NAMES) for x in X]
    mixed = [frames[0], frames[1][["height", "speed"]], *frames[2:]]
    as_array = np.empty(4, dtype=object)
    as_array[:] = mixed
    for form in (as_array, pd.Series(mixed)):
        assert mc.Sequences(form).digests() == X.digests()
        assert mc.Sequences(form).channels == NAMES
    fitted = mc.Gaussian().fit(frames)
    for odd in (X[1], pd.DataFrame(X[1])):  # in which order?
        for read in (mc.Sequences, fitted.score):
            with pytest.raises(ValueError, match=r"sequence 1 has no names of channels.* DataFrames only"):
                read([frames[0], odd])
            with pytest.raises(ValueError, match="sequence 0 has no names of channels"):
                read([odd, mixed[1]])


def test_sequences_keep_them():
    assert X[[0, 2]].channels == X[1:].channels == mc.Sequences(X).channels == NAMES
    assert mc.Sequences.concat([X, X]).channels == NAMES
    assert mc.Sequences.concat([X, X.with_channels(None)]).channels is None
    assert mc.Sequences.concat([X, swapped(X)]).digests() == X.digests() * 2
    with pytest.raises(ValueError, match="channels 'speed', 'height', as part 0; missing: 'speed'; unexpected: 'pace'"):
        mc.Sequences.concat([X, X.with_channels(["pace", "height"])])
    assert pickle.loads(pickle.dumps(X)).channels == NAMES
    assert X.mapped(lambda x: 2 * x).channels == NAMES
    assert X.mapped(lambda x: x[:, :1]).channels is None
    assert X.digests() == X.with_channels(None).digests()


@pytest.mark.parametrize("channels", [["a"], ["a", "a"], ["a", "b", "c"]])
def test_they_are_as_many_as_coordinates(channels):
    with pytest.raises(ValueError, match="2 distinct names"):
        X.with_channels(channels)


def test_symbols_have_none():
    with pytest.raises(TypeError, match="Omit channels="):
        mc.Sequences(["ACGT"], channels=["x"])
    with pytest.raises(TypeError, match="list of strings"):
        X.with_channels("xy")


def test_transformers_pass_them_on():
    steps = mc.Derivatives(), mc.PerStep(StandardScaler()), mc.data.Clock(), mc.data.Resample(5), mc.Standardize()
    chain = make_pipeline(*steps).fit(X)
    expected = ("speed", "height", "d1(speed)", "d1(height)", "clock")
    assert chain.transform(X).channels == expected == tuple(chain.get_feature_names_out())
    names = ("speed[-3]", "height[-3]", "speed[+0]", "height[+0]", "speed[+3]", "height[+3]")
    assert mc.Windows(3, 3).fit_transform(X).channels == names
    assert mc.PerStep(PCA(2)).fit_transform(X).channels == ("pca0", "pca1")
    assert list(mc.Derivatives().fit([[1.0, 2.0]]).get_feature_names_out()) == ["x0", "d1(x0)"]
    assert list(mc.Derivatives().fit(X).get_feature_names_out(["a", "b"])) == ["a", "b", "d1(a)", "d1(b)"]
    with pytest.raises(ValueError, match="2 names"):
        mc.Derivatives().fit(X).get_feature_names_out(["a"])


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (mc.HMM(2, n_iter=1), {"transition[0, 1]", "emission[1].mean[height]", "emission[0].log_sd[speed]"}),
        (mc.HMM(1, mc.Gaussian("full"), n_iter=1), {"emission[0].covariance[speed, height]"}),
        (mc.Mixture(mc.Gaussian("diagonal"), 2, n_iter=1), {"weights[0]", "components[1].mean[speed]"}),
        (mc.LDS(1, n_iter=1), {"emission[height, 0]", "observation_offset[speed]", "initial_mean[0]"}),
        (mc.FactorialHMM(2, 2, n_iter=1), {"mean[1, 0, height]", "covariance[speed, height]", "transition[0, 1, 1]"}),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore")
def test_features_tell_channels(model, expected):
    plain = mc.Features(mc.Fisher(model, information="identity")).fit(X.with_channels(None)).get_feature_names_out()
    names = mc.Features(mc.Fisher(model, information="identity")).fit(X).get_feature_names_out()
    assert expected <= set(names)
    assert len(set(names)) == len(plain)


@pytest.mark.filterwarnings("ignore")
def test_they_are_saved(tmp_path):
    fitted = mc.Features(mc.Fisher(mc.HMM(1, n_iter=1), information="diagonal")).fit(X)
    mc.save(fitted, tmp_path / "m.mercer")
    again = mc.load(tmp_path / "m.mercer")
    assert list(again.get_feature_names_out()) == list(fitted.get_feature_names_out())
    assert mc.file_info(tmp_path / "m.mercer").input["channels"] == list(NAMES)


@pytest.mark.filterwarnings("ignore")
def test_odds_tell_channels():
    names = mc.TOP(mc.HMM(1, n_iter=1)).fit(X, [0, 1, 0, 1]).get_score_names()
    assert "log_odds[0] / model[1].emission[0].mean[height]" in names


def test_all_families_are_known():
    for family in (mc.Poissons, mc.families.Gammas, mc.families.NegativeBinomials):
        for label in family.labels:
            assert _with_channels(f"emission[0].{label}[1]", ("left", "right")) == f"emission[0].{label}[right]"


class TestByName:
    """An estimator finds channels in another order by their names."""

    SMALL = mc.HMM(2, tol=0.1, n_init=1)
    Y = np.arange(12) % 2
    NAMED = mc.Sequences([RNG.normal(size=(9, 2)) * [1, 5] + [3 * c, 0] for c in Y], channels=NAMES)

    def others(self):
        """Return the same series in forms that have names, in another order."""
        frames = [pd.DataFrame(x, columns=NAMES)[["height", "speed"]] for x in self.NAMED]
        return swapped(self.NAMED), frames, pd.Series(frames)

    @pytest.mark.parametrize(
        "kernel",
        [
            mc.Fisher(SMALL),
            mc.Fisher(SMALL.fit(NAMED).model_),
            mc.ProbabilityProduct(mc.Gaussian()),
            mc.ProbabilityProduct(SMALL, length=3),
            mc.EmpiricalMeanMap(gamma=0.1),
            mc.FisherEnsemble((2,), windows=(), n_iter=2),
            mc.Fisher(SMALL) + mc.EmpiricalMeanMap(gamma=0.1),
            mc.EmpiricalMeanMap(gamma=0.1) * mc.Fisher(SMALL),
            mc.kernels.Normalized(mc.EmpiricalMeanMap(gamma=0.1)),
            mc.LatentMeanMap(SMALL),
            mc.embedding.BeliefKernel(mc.EmbeddedHMM(n_components=2)),
        ],
        ids=lambda kernel: type(kernel).__name__,
    )
    def test_kernels(self, kernel):
        fitted = clone(kernel).fit(self.NAMED, self.Y)
        assert fitted.feature_names_in_.tolist() == list(NAMES)
        expected = fitted.transform(self.NAMED)
        for other in self.others():
            np.testing.assert_array_equal(fitted.transform(other), expected)
        np.testing.assert_array_equal(fitted.transform(list(self.NAMED)), expected)  # without names, by position
        with pytest.raises(ValueError, match=r"'speed', 'height', as in fit; missing: 'height'; unexpected: 'depth'\."):
            fitted.transform(self.NAMED.with_channels(["depth", "speed"]))
        assert not hasattr(fitted.fit(list(self.NAMED), self.Y), "feature_names_in_")

    def test_both_sides_of_a_call(self):
        kernel = mc.EmpiricalMeanMap(gamma=0.1)
        np.testing.assert_allclose(kernel(self.NAMED, swapped(self.NAMED)), kernel(self.NAMED), rtol=1e-12)

    def test_gaussian_processes(self):
        process = mc.Fisher(self.SMALL).fit(self.NAMED).as_gp()
        both = (process(mc.objects(X)) for X in (self.NAMED, swapped(self.NAMED)))
        np.testing.assert_array_equal(*both)

    @pytest.mark.parametrize(
        "model",
        [SMALL, mc.LDS(1, n_iter=2, tol=0.1), mc.Gaussian(), mc.Mixture(n_components=2), mc.KDE(), mc.Standardize(),
         mc.Derivatives(), mc.Windows(3), mc.data.Clock(), mc.data.FillGaps(), mc.data.Resample(4),
         mc.PerStep(StandardScaler()), Summary(), mc.EmbeddedHMM(n_components=2), mc.LikelihoodRatio(mc.Gaussian()),
         mc.FactorialHMM(n_chains=2, n_states=2, n_iter=2, tol=0.1)],
        ids=lambda model: type(model).__name__,
    )  # fmt: skip
    def test_models_and_transformers(self, model):
        fitted = clone(model).fit(self.NAMED, self.Y)
        assert fitted.feature_names_in_.tolist() == list(NAMES)
        ask = next(getattr(fitted, name) for name in ("score_samples", "transform", "predict") if hasattr(fitted, name))
        expected = ask(self.NAMED)
        for other in self.others():
            found = ask(other)
            if isinstance(expected, mc.Sequences):
                assert found.channels == expected.channels
                assert found.digests() == expected.digests()
            else:
                np.testing.assert_array_equal(found, expected)
        with pytest.raises(ValueError, match=r"'speed', 'height', as in fit; missing: 'speed'; unexpected: 'depth'\."):
            ask([pd.DataFrame(x, columns=["depth", "height"]) for x in self.NAMED])

    def test_saved_and_compact_pipelines(self, tmp_path):
        estimator = SVC(kernel="precomputed", C=10)
        for steps in ((mc.Fisher(self.SMALL),), (mc.Derivatives(), mc.Standardize(), mc.Fisher(self.SMALL))):
            pipeline = make_pipeline(*steps, estimator).fit(self.NAMED, self.Y)
            mc.save(pipeline, tmp_path / "pipeline.mercer")
            mc.save(mc.compact(pipeline), tmp_path / "compact.mercer")
            expected = pipeline.decision_function(self.NAMED)
            for name in ("pipeline", "compact"):
                loaded = mc.load(tmp_path / f"{name}.mercer")
                assert loaded.feature_names_in_.tolist() == list(NAMES)
                for other in self.others():
                    np.testing.assert_allclose(loaded.decision_function(other), expected, rtol=1e-9)
                with pytest.raises(ValueError, match="missing: 'speed'; unexpected: 'pace'"):
                    loaded.predict(self.NAMED.with_channels(["pace", "height"]))

    def test_confounds_and_explanations(self):
        ages = np.arange(12.0)
        kernel = mc.Residualized(mc.EmpiricalMeanMap(gamma=0.1)).fit(mc.Confounded(self.NAMED, ages))
        both = (kernel.transform(mc.Confounded(X, ages)) for X in (self.NAMED, swapped(self.NAMED)))
        np.testing.assert_array_equal(*both)
        steps = mc.Derivatives(), mc.Fisher(self.SMALL), SVC(kernel="precomputed")
        pipeline = make_pipeline(*steps).fit(self.NAMED, self.Y)
        one, other = (mc.explain(pipeline, X) for X in (self.NAMED, swapped(self.NAMED)))
        assert one.channels == other.channels == NAMES
        np.testing.assert_array_equal(one.contributions[3], other.contributions[3])
