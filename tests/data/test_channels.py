"""Names of channels: from the columns of a table, through transformers and files, to the names of features."""

from __future__ import annotations

import io
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mercer as mc
from mercer.families.coordinatewise import Coordinatewise
from mercer.models.scores import _ALL_AXES

NAMES = ("speed", "height")
RNG = np.random.default_rng(0)
X = mc.Sequences([RNG.normal(size=(n, 2)) for n in (8, 9, 10, 11)], channels=NAMES)


def test_tables_name_the_channels():
    text = "id,time,speed,height,label\na,0,1,2,u\na,1,2,3,u\nb,0,4,5,v\nb,1,5,7,v\n"
    read = mc.read_table(io.StringIO(text))
    assert read.X.channels == read.channels == NAMES
    assert mc.read_table(io.StringIO("id,x0,x1\na,1,2\nb,3,4\n")).X.dimension == 1
    assert mc.read_table({"id": ["p", "q"], "sequence": ["AC", "GT"]}).X.channels is None
    frames = [pd.DataFrame(x, columns=NAMES) for x in X]
    assert mc.Sequences(frames).channels == NAMES
    assert mc.Sequences([frames[0], frames[1][["height", "speed"]]]).channels is None


def test_sequences_keep_them():
    assert X[[0, 2]].channels == X[1:].channels == mc.Sequences(X).channels == NAMES
    assert mc.Sequences.concat([X, X]).channels == NAMES
    assert mc.Sequences.concat([X, X.with_channels(None)]).channels is None
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
    steps = mc.Derivatives(), mc.PerStep(StandardScaler()), mc.Clock(), mc.Resample(5), mc.Standardize()
    chain = make_pipeline(*steps).fit(X)
    expected = ("speed", "height", "d1(speed)", "d1(height)", "clock")
    assert chain.transform(X).channels == expected == tuple(chain.get_feature_names_out())
    assert mc.Delays((3,)).fit_transform(X).channels == ("speed", "height", "lag3(speed)", "lag3(height)")
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
    def below(cls):
        return {cls}.union(*map(below, cls.__subclasses__()))

    own = {label for cls in below(Coordinatewise) if cls.__module__.startswith("mercer.") for label in cls.score_labels}
    assert own <= set(_ALL_AXES)
