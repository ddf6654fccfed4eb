"""`mc.compact`: the same predictions from the training objects that they need."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Lasso, LogisticRegression, Ridge, SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline, make_union
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC, NuSVC, NuSVR, OneClassSVM

import mercer as mc
from mercer.families import estimator as estimators
from mercer.gram import pair_memo

RNG = np.random.default_rng(0)
N = 60
TABLE = RNG.normal(size=(N, 3)) + 1
NEW = RNG.normal(size=(20, 3)) + 1
TWO = (TABLE[:, 0] + 0.3 * TABLE[:, 1] > 1).astype(int)
NAMES = np.array(["low", "middle", "high"])[np.digitize(TABLE[:, 0], [0.6, 1.4])]
NUMBER = TABLE[:, 0] * 2 + TABLE[:, 1]
AGE = TABLE[:, 2] * 10
METHODS = ("predict", "decision_function", "predict_proba", "score_samples", "transform")


def svc(**given):
    return SVC(kernel="precomputed", **given)


def rbf(gamma=0.3):
    return mc.RBF(gamma=gamma)


def assert_equal(small, pipeline, new, **params):
    """Compare all outputs, up to 1e-12 of the largest; classes exactly."""
    asked = [name for name in METHODS if hasattr(pipeline, name)]
    assert asked
    assert [name for name in METHODS if hasattr(small, name)] == asked
    for name in asked:
        expected, found = (np.asarray(getattr(one, name)(new, **params)) for one in (pipeline, small))
        assert expected.shape == found.shape
        if expected.dtype.kind in "US":
            assert (expected == found).all()
        else:
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12 * max(np.abs(expected).max(), 1))


# Name -> pipeline, target, fraction of the training objects that may stay at most.
ESTIMATORS = {
    "svc": (make_pipeline(rbf(), svc()), TWO, 0.7),
    "svc, three classes": (make_pipeline(rbf(), svc(C=10)), NAMES, 0.9),
    "svc, one against one": (make_pipeline(rbf(), svc(decision_function_shape="ovo")), NAMES, 0.95),
    "svc, ties": (make_pipeline(rbf(), svc(break_ties=True)), NAMES, 0.95),
    "nusvc": (make_pipeline(rbf(), NuSVC(nu=0.2, kernel="precomputed")), TWO, 0.5),
    "svr": (make_pipeline(rbf(), SVR(kernel="precomputed", epsilon=0.5)), NUMBER, 0.8),
    "nusvr": (make_pipeline(rbf(), NuSVR(kernel="precomputed", nu=0.2)), NUMBER, 0.8),
    "no support": (make_pipeline(rbf(), SVR(kernel="precomputed", epsilon=100.0)), NUMBER, 0.05),
    "one class": (make_pipeline(rbf(), OneClassSVM(kernel="precomputed", nu=0.2)), None, 0.4),
    "ridge": (make_pipeline(rbf(), mc.KernelRidge()), NUMBER, 1.0),
    "ridge with its kernel": (mc.KernelRidge(rbf()), NUMBER, 1.0),
    "ridge after a scaler": (make_pipeline(StandardScaler(), mc.KernelRidge(rbf())), NUMBER, 1.0),
    "ridge, two targets": (mc.KernelRidge(rbf()), np.column_stack([NUMBER, AGE]), 1.0),
    "ridge of scikit-learn": (make_pipeline(rbf(), KernelRidge(kernel="precomputed")), NUMBER, 1.0),
    "lasso on rows": (make_pipeline(rbf(), Lasso(alpha=0.01)), NUMBER, 0.6),
    "l1 on rows": (make_pipeline(rbf(), LinearSVC(penalty="l1", dual=False)), TWO, 0.6),
    "logistic on rows": (make_pipeline(rbf(), LogisticRegression()), NAMES, 1.0),
    "stochastic on rows": (make_pipeline(rbf(), SGDClassifier(random_state=0)), NAMES, 1.0),
    "linear on features": (make_pipeline(mc.Landmarks(rbf(), 10), LinearSVC()), TWO, 0.2),
    "logistic on explicit features": (make_pipeline(mc.Features(mc.Linear()), LogisticRegression()), TWO, 0.05),
    "landmarks of a centered kernel": (make_pipeline(mc.Landmarks(mc.Centered(rbf()), 5), Ridge()), NUMBER, 1.0),
    "scaler before": (make_pipeline(StandardScaler(), rbf(), svc()), TWO, 0.7),
    "passthrough": (Pipeline([("k", rbf()), ("nothing", "passthrough"), ("m", svc())]), TWO, 0.7),
    "a kernel of rows": (make_pipeline(rbf(), mc.Linear(), svc()), TWO, 1.0),
    "search": (GridSearchCV(make_pipeline(rbf(), svc()), {"svc__C": [1, 10]}, cv=2), TWO, 0.7),
    "search of the SVM": (make_pipeline(rbf(), GridSearchCV(svc(), {"C": [1, 10]}, cv=2)), TWO, 0.7),
    "no coefficient": (make_pipeline(rbf(), Lasso(alpha=1e6)), NUMBER, 0.05),
}


@pytest.fixture(scope="module")
def fitted():
    """Return every pipeline fitted, with its compact form."""
    found = {}
    for name, (pipeline, y, most) in ESTIMATORS.items():
        pipeline = clone(pipeline).fit(TABLE, y)
        found[name] = pipeline, mc.compact(pipeline), most
    return found


@pytest.mark.filterwarnings("ignore:Linear")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_predictions_are_the_same(fitted, name, tmp_path):
    pipeline, small, most = fitted[name]
    before = pickle.dumps(pipeline)
    assert_equal(small, pipeline, NEW)
    assert_equal(small, pipeline, NEW[:1])
    assert small.kept_
    assert max(objects.kept / max(objects.of, 1) for objects in small.kept_) <= most
    assert_equal(pickle.loads(pickle.dumps(small)), pipeline, NEW)
    assert pickle.dumps(pipeline) == before
    if "stochastic" not in name:  # not on the list of types that files may contain
        mc.save(small, tmp_path / "small.mercer")
        again = mc.load(tmp_path / "small.mercer")
        assert_equal(again, pipeline, NEW)
        assert repr(again) == repr(small)


# Kernels, and whether they need all training objects.
KERNELS = {
    "centered": (mc.Centered(rbf()), True),
    "centered, flat": (mc.Centered(rbf(1e-6)), True),
    "centered, normalized inside": (mc.Centered(mc.kernels.Normalized(rbf() + mc.Linear())), True),
    "centered twice": (mc.Centered(mc.Centered(rbf())), True),
    "centered, in a sum": (mc.Centered(rbf()) + 0.5 * mc.Centered(mc.Linear(normalize=False)), True),
    "tempered": (mc.Tempered(rbf(3.0)), False),
    "tempered product": (mc.Tempered(rbf(3.0) * rbf(1.0), exponent=0.5), False),
    "log odds": (mc.kernels.LogOdds(rbf(), normalize=False), True),
    "log odds, normalized": (mc.kernels.LogOdds(rbf()), True),
    "product": (rbf() * mc.Linear(normalize=False) * mc.kernels.Normalized(rbf(2.0)), False),
    "aligned": (mc.kernels.TargetAligned([rbf(), mc.Centered(rbf(3.0)), mc.Linear()]), False),
    "centered, normalized": (mc.Centered(rbf(), normalize=True), True),
    "normalized, centered": (mc.kernels.Normalized(mc.Centered(rbf())), True),
    "centered, in a product": (mc.Centered(rbf()) * rbf(), True),
    "map": (mc.EmpiricalKernelMap(rbf(3.0)), True),
    "map, gamma": (mc.EmpiricalKernelMap(rbf(3.0), gamma=1.0), True),
    "repaired": (mc.kernels.Repaired(rbf() + (-0.3) * rbf(2.0)), True),
    "centered map": (mc.Centered(mc.EmpiricalKernelMap(rbf(3.0))), True),
}


@pytest.mark.filterwarnings("ignore:Centered leaves")
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("estimator", [svc(), SVR(kernel="precomputed", epsilon=0.3), mc.KernelRidge()])
def test_kernels_that_learn_from_the_training_data(name, estimator):
    kernel, reference = KERNELS[name]
    y = TWO if is_classifier(estimator) else NUMBER
    pipeline = make_pipeline(clone(kernel), clone(estimator)).fit(TABLE, y)
    small = mc.compact(pipeline)
    assert_equal(pickle.loads(pickle.dumps(small)), pipeline, NEW)
    assert (len(small.kept_) > 1) == reference
    if reference:
        assert small.kept_[-1].kept == N
        assert "compares every object with all of them" in repr(small)
    else:
        assert len(small[0]._parts()[0].train_) == small.kept_[0].kept


def test_confounds_that_are_routed():
    with config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(mc.Residualized(rbf()), mc.KernelRidge()).fit(TABLE, NUMBER, confounds=AGE)
        small = mc.compact(pipeline)
        expected = pipeline.predict(NEW, confounds=NEW[:, 2] * 10)
        # One prediction is near 0 by cancellation: its error is that of the largest.
        scale = 1e-14 * np.abs(expected).max()
        np.testing.assert_allclose(small.predict(NEW, confounds=NEW[:, 2] * 10), expected, rtol=1e-12, atol=scale)
        score = small.score(NEW, NEW[:, 0], confounds=NEW[:, 2] * 10)
        assert score == pytest.approx(pipeline.score(NEW, NEW[:, 0], confounds=NEW[:, 2] * 10))
    assert len(small.kept_) == 2


def test_weights_of_samples():
    weights = np.where(np.arange(N) % 3 == 0, 0.0, 1.0 + np.arange(N) % 2)
    for estimator, name, y in (
        (mc.KernelRidge(), "kernelridge", NUMBER),
        (KernelRidge(kernel="precomputed"), "kernelridge", NUMBER),
        (svc(), "svc", NAMES),
    ):
        pipeline = make_pipeline(mc.Centered(rbf()), estimator).fit(TABLE, y, **{f"{name}__sample_weight": weights})
        small = mc.compact(pipeline)
        assert_equal(small, pipeline, NEW)
        assert small.kept_[0].kept <= 40


def test_data_of_every_kind():
    strings = ["ACGTACGT", "GGTAGGA", "TTACGTT", "ACCAACC", "GATTACA", "CATCATC"] * 5
    y = np.arange(30) % 2
    frame = pd.DataFrame(TABLE, columns=list("abc"))
    sets = [RNG.normal(i % 2, 1.0, size=(5 + i % 3, 2)) for i in range(30)]
    for kernel, X, target in (
        (mc.Spectrum(2), strings, y),
        (mc.Centered(mc.Spectrum(2)), mc.Sequences(strings), y),
        (mc.Fisher(mc.MarkovChain()), strings, y),
        (mc.ProbabilityProduct(mc.Gaussian("diagonal", prior="pooled")), sets, y),
        (rbf(), frame, TWO),
    ):
        pipeline = make_pipeline(kernel, svc()).fit(X, target)
        small = mc.compact(pipeline)
        assert_equal(small, pipeline, X[:7])
        assert getattr(small, "n_features_in_", None) == getattr(pipeline, "n_features_in_", None)
    with pytest.raises(ValueError, match="feature names"):
        small.predict(frame[["c", "b", "a"]])


def test_names_of_columns_and_pandas_output():
    pipeline = make_pipeline(rbf(), svc()).set_output(transform="pandas").fit(TABLE, TWO)
    small = mc.compact(pipeline)
    assert_equal(small, pipeline, NEW)
    index = pipeline[-1].support_
    assert list(small[0].get_feature_names_out()) == [f"rbf{i}" for i in np.sort(index)]
    assert list(small[-1].feature_names_in_) == list(small[0].get_feature_names_out())


def test_it_is_small_and_has_no_other_training_data():
    X = np.random.default_rng(3).normal(size=(500, 40))
    y = (X[:, 0] > 0).astype(int)
    pipeline = make_pipeline(mc.Linear(), NuSVC(nu=0.05, kernel="precomputed")).fit(X, y)
    small = mc.compact(pipeline)
    kept = small.kept_[0].kept
    assert kept < 100
    assert len(pickle.dumps(small)) < 0.3 * len(pickle.dumps(pipeline))
    other = np.setdiff1d(np.arange(500), pipeline[-1].support_)
    text = pickle.dumps(small)
    assert not any(X[i].tobytes() in text for i in other)


def test_fitted_parameters_keep_no_data():
    inner = rbf().fit(TABLE)
    ridge = mc.KernelRidge(mc.Centered(inner)).fit(TABLE, NUMBER, sample_weight=np.r_[np.ones(9), np.zeros(N - 9)])
    small = mc.compact(ridge)
    assert_equal(small, ridge, NEW)
    assert not hasattr(small.kernel.kernel, "train_")


def test_it_neither_reads_nor_fills_caches():
    sets = [RNG.normal(i % 2, 1.0, size=(5 + i % 3, 2)) for i in range(30)]
    kernel = mc.Tempered(mc.ProbabilityProduct(mc.Mixture(mc.Gaussian("diagonal"), 2, prior="pooled", tol=0.1)))
    pipeline = make_pipeline(kernel, svc()).fit(sets[:20], np.arange(20) % 2)
    small = mc.compact(pipeline)
    caches = (estimators.fits, pair_memo.memo)
    before = [(len(cache), cache._bytes) for cache in caches]
    small.predict(sets[20:])
    assert [(len(cache), cache._bytes) for cache in caches] == before
    assert mc.settings().memo_bytes > 0
    pipeline.predict(sets[20:])
    assert [(len(cache), cache._bytes) for cache in caches] != before


def test_the_kernel_of_an_estimator_that_reads_values_as_features_is_named():
    x = np.arange(8.0)[:, None]
    with pytest.raises(TypeError, match=r"a pipeline that ends in RBF and SVC\(kernel='rbf'\)"):
        mc.compact(make_pipeline(mc.RBF(), SVC()).fit(x, np.arange(8) % 2))


def test_it_is_an_estimator_that_cannot_be_fitted():
    pipeline = make_pipeline(rbf(), svc()).fit(TABLE, NAMES)
    small = mc.compact(pipeline)
    assert mc.compact(small) is small
    assert clone(small) is small
    assert is_classifier(small)
    assert small.score(TABLE, NAMES) == pipeline.score(TABLE, NAMES)
    assert list(small.classes_) == list(pipeline.classes_)
    assert list(small.named_steps) == ["rbf", "svc"]
    assert not hasattr(small, "predict_proba")
    assert not hasattr(small, "nothing")
    with pytest.raises(TypeError, match="Fit the pipeline it was made from"):
        small.fit(TABLE, NAMES)


class OwnSVC(SVC):
    """An estimator that reads its input in a way of its own."""

    def decision_function(self, X):
        return super().decision_function(X) + np.asarray(X).sum(axis=1)


@pytest.mark.parametrize(
    "model",
    [
        make_pipeline(rbf(), OwnSVC(kernel="precomputed")),
        make_pipeline(rbf(), StandardScaler(), Lasso()),
        make_pipeline(make_union(rbf(), mc.Linear()), Lasso()),
        make_pipeline(make_column_transformer((rbf(), [0, 1])), Lasso()),
        make_pipeline(rbf(), KNeighborsClassifier(3)),
        make_pipeline(StandardScaler(), rbf()),
        make_pipeline(StandardScaler(), LogisticRegression()),
        make_pipeline(svc()),
        CalibratedClassifierCV(make_pipeline(rbf(), svc()), cv=2),
        OneVsRestClassifier(make_pipeline(rbf(), svc())),
        StackingClassifier([("a", make_pipeline(rbf(), svc()))], cv=2),
        VotingClassifier([("a", make_pipeline(rbf(), svc()))]),
        SVC(kernel=rbf()),
        rbf(),
    ],
    ids=lambda model: str(model)[:40],
)
def test_what_it_does_not_take(model):
    model = clone(model).fit(TABLE @ TABLE.T if isinstance(model, Pipeline) and len(model.steps) == 1 else TABLE, TWO)
    with pytest.raises(TypeError, match=r"mc\.compact takes a fitted pipeline that ends in a kernel") as error:
        mc.compact(model)
    last = model.steps[-1][1] if isinstance(model, Pipeline) else model
    assert type(last).__name__ in str(error.value).partition("got ")[2]


@pytest.mark.parametrize("odd", [None, 3, "rbf", [], {}, SVC, mc.RBF, object(), TABLE, lambda x: x])
def test_no_pipeline(odd):
    with pytest.raises(TypeError, match=r"mc\.compact takes a fitted pipeline .* got"):
        mc.compact(odd)


def test_a_compact_pipeline_inside_of_others():
    small = mc.compact(make_pipeline(rbf(), svc()).fit(TABLE, TWO))
    calibrated = CalibratedClassifierCV(FrozenEstimator(small)).fit(TABLE, TWO)
    stacked = StackingClassifier([("a", small)], cv="prefit").fit(TABLE, TWO)
    for model in (calibrated, stacked):
        assert model.score(TABLE, TWO) > 0.9
        assert TABLE.tobytes()[:200] not in pickle.dumps(model)


@pytest.mark.parametrize(
    "pipeline",
    [
        make_pipeline(mc.RBF(), SVC(kernel="precomputed")),
        mc.RBF(),
        mc.KernelRidge(mc.RBF()),
        GridSearchCV(make_pipeline(mc.RBF(), svc()), {"svc__C": [1]}),
        make_pipeline(mc.Landmarks(mc.RBF()), Lasso()),
    ],
)
def test_unfitted(pipeline):
    with pytest.raises(NotFittedError, match=r"is not fitted\. Call fit\(X, y\) first"):
        mc.compact(pipeline)


def test_a_search_without_refit():
    search = GridSearchCV(make_pipeline(mc.RBF(), svc()), {"svc__C": [1]}, cv=2, refit=False).fit(TABLE, TWO)
    with pytest.raises(NotFittedError, match="Call fit"):
        mc.compact(search)


FITTED = {name: clone(kernel).fit(TABLE, TWO) for name, (kernel, _) in KERNELS.items() if "flat" not in name}
FITTED["centered, flat"] = FITTED["centered"]


def test_the_choice_of_a_container_returns_the_compact_pipeline():
    X = np.random.default_rng(0).normal(size=(12, 2))
    pipeline = make_pipeline(StandardScaler(), mc.RBF(), SVC(kernel="precomputed")).fit(X, X[:, 0] > 0)
    small = mc.compact(pipeline)
    assert small.set_output(transform="pandas") is small
    assert isinstance(small[0].transform(X), pd.DataFrame)
    assert isinstance(pipeline[0].transform(X), np.ndarray)


@pytest.mark.parametrize(
    "model", [mc.KernelRidge(mc.RBF(gamma=0.3)), make_pipeline(mc.RBF(gamma=0.3), SVC(kernel="precomputed"))]
)
def test_score_needs_a_target(model):
    small = mc.compact(model.fit(TABLE, TWO))
    for call in (lambda: small.score(TABLE), lambda: small.score(TABLE, None), lambda: small.score(TABLE, y=None)):
        with pytest.raises(ValueError, match="score requires y to be passed"):
            call()
    assert small.score(TABLE, TWO) == small.score(TABLE, y=TWO) == model.score(TABLE, TWO)
