"""Output as data frames: ``set_output`` and scikit-learn's ``transform_output``, for every transformer."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

import mercer as mc
from mercer.kernels.base import Kernel

Y = np.arange(20) % 2
SERIES = [np.random.default_rng(i).normal(size=(12 + i % 5, 2)) + label for i, label in enumerate(Y)]
TABLE = np.array([x.mean(axis=0) for x in SERIES])

SEQUENCES = [
    mc.Standardize(),
    mc.Derivatives(),
    mc.Windows(3),
    mc.data.Resample(8),
    mc.data.Clock(1.0),
    mc.data.FillGaps(),
    mc.PerStep(StandardScaler()),
]
TABLES = [
    mc.Lengths(),
    mc.EmbeddedHMM(n_components=3),
    mc.embedding.BeliefKernel(mc.EmbeddedHMM(n_components=3)),
    mc.Landmarks(mc.ProbabilityProduct(mc.Gaussian("diagonal")), 5),
    mc.Features(mc.Fisher(mc.Gaussian("diagonal"))),
    mc.ProbabilityProduct(mc.Gaussian("diagonal")),
]


def by_name(transformer):
    return type(transformer).__name__


def test_every_transformer_is_here():
    public = [getattr(room, n) for room in (mc.data, mc.kernels, mc.embedding) for n in room.__all__]
    found = {one for one in public if isinstance(one, type) and hasattr(one, "transform")}
    others = {one for one in found if not issubclass(one, Kernel)}
    assert others - {mc.kernels.Compacted} <= {type(transformer) for transformer in SEQUENCES + TABLES}


@pytest.mark.parametrize("transformer", SEQUENCES, ids=by_name)
def test_sequences_stay_sequences(transformer):
    expected = sklearn.clone(transformer).fit_transform(SERIES)
    found = sklearn.clone(transformer).set_output(transform="pandas")
    assert isinstance(found.fit_transform(SERIES), mc.Sequences)
    with sklearn.config_context(transform_output="pandas"):
        np.testing.assert_array_equal(sklearn.clone(transformer).fit_transform(SERIES).values, expected.values)


@pytest.mark.parametrize("transformer", TABLES, ids=by_name)
def test_tables_become_data_frames_with_names(transformer):
    expected = sklearn.clone(transformer).fit_transform(SERIES, Y)
    found = sklearn.clone(transformer).set_output(transform="pandas")
    frame = found.fit_transform(SERIES, Y)
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == list(found.get_feature_names_out())
    np.testing.assert_array_equal(frame.to_numpy(), expected)
    with sklearn.config_context(transform_output="pandas"):
        assert isinstance(sklearn.clone(transformer).fit_transform(SERIES, Y), pd.DataFrame)


def pipelines():
    fisher = mc.Fisher(mc.Gaussian("diagonal"))
    estimator = SVC(kernel="precomputed", C=10)
    scaled = make_pipeline(mc.Features(fisher), StandardScaler(), LogisticRegression())
    return {
        "kernel": make_pipeline(*SEQUENCES, mc.ProbabilityProduct(mc.Gaussian("diagonal")), estimator)
        .fit(SERIES, Y)
        .decision_function(SERIES),
        "landmarks": make_pipeline(mc.Landmarks(mc.Centered(fisher), 9), LinearSVC()).fit(SERIES, Y).predict(SERIES),
        "compact": mc.compact(make_pipeline(mc.Standardize(), fisher, estimator).fit(SERIES, Y)).predict(SERIES[:3]),
        "explained": mc.explain(scaled.fit(SERIES, Y), SERIES[:2]).decision,
        "ridge": make_pipeline(fisher, mc.KernelRidge()).fit(SERIES, 1.0 * Y).predict(SERIES),
        "test": mc.stats.two_sample_test(SERIES[::2], SERIES[1::2], fisher, n_permutations=19).p_value,
        "beliefs": make_pipeline(TABLES[1], LogisticRegression()).fit(SERIES, Y).predict(SERIES),
    }


@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_global_output_changes_no_result(container):
    expected = pipelines()
    with sklearn.config_context(transform_output=container):
        found = pipelines()
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-9, err_msg=name)


def test_a_pipeline_passes_it_on():
    pipeline = make_pipeline(*SEQUENCES, mc.ProbabilityProduct(mc.Gaussian("diagonal"))).set_output(transform="pandas")
    assert isinstance(pipeline.fit_transform(SERIES), pd.DataFrame)
