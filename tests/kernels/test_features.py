"""Features of kernels, and their names: every name tells what its column counts."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import mercer as mc
from mercer.kernels._names import words

DNA = ["ACGTAC", "GGTACC", "TTACGA", "ACCAGA", "GATTACA", "CATGG"]
RNG = np.random.default_rng(0)
SERIES = [RNG.normal(size=(n, 2)) for n in (8, 9, 10, 11, 8, 9)]
TABLE = RNG.normal(size=(6, 3))
TWO = mc.HMM(2, alphabet="dna", n_iter=1).fit_each(DNA[:2])


def features(X):
    return X.toarray() if sparse.issparse(X) else np.asarray(X)


@pytest.mark.parametrize(
    ("kernel", "X", "first"),
    [
        (mc.Spectrum(2), DNA, ["AA", "AC"]),
        (mc.Spectrum(7), [x * 2 for x in DNA], ["AAAAAAA", "AAAAAAC"]),
        (mc.Spectrum(3, mismatches=1), DNA, ["AAA", "AAC"]),
        (mc.Spectrum(2), [["up", "down"], ["down", "up", "up"]], ["down down", "down up"]),
        (mc.EmpiricalMeanMap(order=1), DNA, ["AA", "AC"]),
        (mc.EmpiricalMeanMap(order=5), [x * 2 for x in DNA], ["AAAAAA", "AAAAAC"]),
        (mc.EmpiricalMeanMap(n_components=3), SERIES, ["empiricalmeanmap0", "empiricalmeanmap1"]),
        (mc.Fisher(mc.MarkovChain(), information="diagonal"), DNA, ["transition[A, A]", "transition[A, C]"]),
        (mc.Fisher(mc.HMM(2, n_iter=2), information="identity"), DNA, ["initial[0]", "initial[1]"]),
        (mc.Fisher(mc.Gaussian("diagonal"), information="empirical"), SERIES, ["whitened[0]", "whitened[1]"]),
        (mc.Fisher(mc.Multinomial()), np.abs(TABLE).round() + 1, None),
        (mc.TOP(mc.Gaussian("diagonal")), TABLE, ["log_odds[0]", "log_odds[0] / "]),
        (mc.PosteriorCounts(mc.HMM(2, n_iter=2)), DNA, ["count[A, 0]", "count[A, 1]"]),
        (mc.Sampled(n_samples=4), mc.Poissons(np.abs(TABLE) + 1), ["sample[0]", "sample[1]"]),
        (mc.Marginalization(TWO, weights=[0.4, 0.6]), DNA, ["model[0]", "model[1]"]),
        (mc.PosteriorCounts(mc.HMM(2, n_iter=2), k=2), DNA, ["count[A, A, 0, 0]", "count[A, A, 0, 1]"]),
        (mc.LatentMeanMap(mc.HMM(2, n_iter=2)), DNA, ["mean[A, 0]", "mean[A, 1]"]),
        (mc.LatentMeanMap(mc.Mixture(mc.Categorical(), 2, n_iter=2)), DNA, ["mean[A, 0]", "mean[A, 1]"]),
        (mc.MeanMap(mc.Gaussian("diagonal"), n_components=3), SERIES, ["meanmap0", "meanmap1"]),
        (mc.Linear(), TABLE, ["x0", "x1"]),
        (mc.Linear(), pd.DataFrame(TABLE, columns=list("abc")), ["a", "b"]),
        (mc.EmpiricalKernelMap(mc.RBF()), TABLE, ["log k(., object 0)", "log k(., object 1)"]),
        (mc.kernels.Repaired(mc.RBF()), TABLE, ["direction[0]", "direction[1]"]),
        (mc.RBF(), TABLE, ["features0", "features1"]),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore")
def test_there_is_a_name_for_every_column(kernel, X, first):
    transformer = mc.Features(kernel, n_components=4).fit(X, np.arange(len(X)) % 2)
    found, names = transformer.transform(X), transformer.get_feature_names_out()
    assert found.shape == (len(X), len(names))
    assert len(set(names)) == len(names)
    for name, start in zip(names, first or [], strict=False):
        assert name.startswith(start)
    assert transformer.explicit_ == (not isinstance(kernel, mc.RBF))


def test_names_are_of_their_columns():
    for k in (1, 2, 3):
        names = words("ACGT", k, 4**k)
        kernel = mc.Spectrum(k, alphabet="dna", normalize=False)
        np.testing.assert_array_equal(features(mc.Features(kernel).fit_transform(names)), np.eye(4**k))
    gapped = mc.Features(mc.EmpiricalMeanMap(order=2, gamma=50.0, alphabet="ACGT", normalize=False))
    found = features(gapped.fit_transform(words("ACGT", 3, 64)))
    assert [gapped.get_feature_names_out()[i] for i in found.argmax(axis=1)] == words("ACGT", 3, 64)


def test_inner_products_are_the_kernel():
    kernel = mc.Spectrum(3)
    found = features(mc.Features(kernel).fit_transform(DNA))
    np.testing.assert_allclose(found @ found.T, kernel(DNA), atol=1e-12)


def test_posterior_names_are_of_their_columns():
    kernel = mc.LatentMeanMap(mc.HMM(2, n_iter=3), gamma=40.0, normalize=False).fit(DNA)
    transformer = mc.Features(kernel).fit(DNA)
    one = dict(zip(transformer.get_feature_names_out(), transformer.transform(["AAAA", "CCCC"]).T, strict=True))
    assert one["mean[A, 0]"][0] + one["mean[A, 1]"][0] == pytest.approx(1.0, rel=1e-6)
    assert one["mean[C, 0]"][1] + one["mean[C, 1]"][1] == pytest.approx(1.0, rel=1e-6)
    assert one["mean[A, 0]"][1] == pytest.approx(0.0, abs=1e-12)


def test_in_a_pipeline_and_as_a_frame():
    y = np.arange(6) % 2
    model = make_pipeline(mc.Features(mc.Spectrum(2)), LogisticRegression()).fit(DNA, y)
    assert model[:-1].get_feature_names_out()[0] == "AA"
    frame = mc.Features(mc.Spectrum(1)).set_output(transform="pandas").fit_transform(DNA)
    assert list(frame.columns) == list("ACGT")
    assert mc.Features(mc.Spectrum(2), n_components=3).get_params(deep=False).keys() == {
        "kernel", "n_components", "random_state",
    }  # fmt: skip


def test_landmarks_have_the_names_too():
    assert mc.Landmarks(mc.Spectrum(1)).fit(DNA).get_feature_names_out().tolist() == list("ACGT")
    assert mc.Landmarks(mc.RBF(), 2).fit(TABLE).get_feature_names_out().tolist() == ["landmarks0", "landmarks1"]


def test_too_many_to_name():
    wide = mc.Features(mc.Spectrum(6, alphabet="protein")).fit(["ACDEFGHIKL", "MNPQRSTVWY"])
    assert wide.transform(["ACDEFGHIKL"]).shape == (1, 20**6)
    with pytest.raises(ValueError, match=r"64,000,000 features.*SelectKBest"):
        wide.get_feature_names_out()


def test_messages():
    with pytest.raises(TypeError, match=r"kernel must be a kernel; got 'rbf'"):
        mc.Features("rbf").fit(TABLE)
    with pytest.raises(ValueError, match="n_components must be"):
        mc.Features(mc.RBF(), 0).fit(TABLE)
