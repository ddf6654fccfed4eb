"""What a kernel can see before it is fitted: too little memory, and a second kernel after it."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.cluster import SpectralClustering
from sklearn.decomposition import KernelPCA
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, SVR

import mercer as mc
from mercer import _memory
from mercer._units import human

X = np.random.default_rng(0).normal(size=(12, 2))
Y = np.arange(12) % 2


class TestMemory:
    @pytest.fixture(autouse=True)
    def little(self, monkeypatch):
        monkeypatch.setattr(_memory, "free_bytes", lambda: 10 * 2**30)

    def test_before_anything_is_fitted(self, monkeypatch):
        monkeypatch.setattr(mc.Fisher, "fit", None)  # is not reached
        many = np.broadcast_to(0.0, (100_000, 2))
        with pytest.raises(
            MemoryError,
            match=r"matrix of Fisher of 100,000 samples needs 74.5 GiB of memory, and 10.0 GiB are free. .*"
            r"mc.Features\(kernel\) or mc.Landmarks.*store=",
        ):
            mc.Fisher(mc.Gaussian()).fit_transform(many)

    def test_new_samples_and_calls(self):
        kernel = mc.RBF().fit(X)
        many = np.broadcast_to(0.0, (2**30, 2))
        with pytest.raises(MemoryError, match=r"of 1,073,741,824 and 12 samples needs 96.0 GiB"):
            kernel.transform(many)
        with pytest.raises(MemoryError, match="of 1,073,741,824 samples needs"):
            mc.RBF()(many)
        with pytest.raises(MemoryError, match="and 12 samples"):
            mc.RBF()(many, X)

    def test_the_regression(self, monkeypatch):
        monkeypatch.setattr(_memory, "SMALL", 0)
        monkeypatch.setattr(_memory, "free_bytes", lambda: 4000)
        with pytest.raises(MemoryError, match=r"KernelRidge .* needs 4.5 KiB of memory, and 3.9 KiB are free"):
            mc.KernelRidge().fit(X @ X.T, Y)


def test_what_fits_is_computed():
    assert mc.RBF().fit_transform(X).shape == (12, 12)
    free = _memory.free_bytes()
    assert free is None or free > 2**20


def test_a_container_has_less(monkeypatch, tmp_path):
    for name, text in (("max", "5000000"), ("current", "4000000"), ("stat", "anon 1\ninactive_file 500000\n")):
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(_memory, "_CGROUPS", (tuple(tmp_path / name for name in ("max", "current", "stat")),))
    monkeypatch.setattr(_memory, "_of_machine", lambda: 2**40)
    assert _memory.free_bytes() == 1_500_000
    (tmp_path / "max").write_text("max\n")
    assert _memory.free_bytes() == 2**40
    monkeypatch.setattr(_memory, "_of_machine", lambda: None)
    assert _memory.free_bytes() is None


@pytest.mark.parametrize(
    ("size", "text"), [(10, "10 bytes"), (2048, "2.0 KiB"), (80e9, "74.5 GiB"), (2**50, "1024.0 TiB")]
)
def test_human_units(size, text):
    assert human(size) == text


class TestSecondKernel:
    @pytest.mark.parametrize(
        ("last", "said"),
        [
            (SVC(), r"SVC\(kernel='rbf'\) comes after RBF.*SVC\(kernel='precomputed'\), or mc.Features\(RBF"),
            (SVR(kernel="linear"), r"SVR\(kernel='linear'\)"),
            (mc.KernelRidge(mc.RBF()), r"KernelRidge\(kernel=...\)"),
            (
                GaussianProcessRegressor(),
                r"GaussianProcessRegressor\(kernel=...\).*Use GaussianProcessRegressor\(RBF\(...\).fit\(X\).as_gp\(\)\)"
                r".fit\(mc.objects\(X\), y\)",
            ),
            (KernelPCA(1), r"KernelPCA\(kernel='linear'\)"),
            (SpectralClustering(2), r"SpectralClustering\(affinity='rbf'\)"),
        ],
    )
    def test_is_seen(self, last, said):
        with pytest.warns(UserWarning, match=said):
            make_pipeline(mc.RBF(), last).fit(X, Y)

    def test_what_is_said_about_a_gaussian_process_works(self):
        estimator = GaussianProcessClassifier()
        with pytest.warns(UserWarning, match="comes after Fisher") as told:
            make_pipeline(mc.Fisher(mc.Gaussian("diagonal")), estimator).fit(X, Y)
        advice = str(told[0].message).partition("Use ")[2].partition(" without")[0]
        code = advice.replace("Fisher(...)", "mc.Fisher(mc.Gaussian('diagonal'))")
        scope = {"mc": mc, "GaussianProcessClassifier": GaussianProcessClassifier, "X": X, "y": Y}
        assert set(eval(code, scope).predict(mc.objects(X))) <= set(Y)

    def test_in_a_longer_pipeline_and_a_search(self, tmp_path):
        long = make_pipeline(None, mc.RBF(), "passthrough", SVC())
        with pytest.warns(UserWarning, match="comes after RBF"):
            long.fit(X, Y)
        with pytest.warns(UserWarning, match="comes after RBF"):
            GridSearchCV(make_pipeline(mc.RBF(), SVC()), {"svc__C": [1.0]}, cv=2).fit(X, Y)
        with pytest.warns(UserWarning, match="comes after RBF"):
            make_pipeline(mc.RBF(), SVC(), memory=str(tmp_path)).fit(X, Y)

    @pytest.mark.parametrize(
        "model",
        [
            make_pipeline(mc.RBF(), SVC(kernel="precomputed")),
            make_pipeline(mc.RBF(), mc.KernelRidge()),
            make_pipeline(mc.RBF(), LogisticRegression()),
            make_pipeline(mc.Features(mc.Linear()), SVC()),
            make_pipeline(mc.RBF(), SpectralClustering(2, affinity="precomputed")),
        ],
    )
    def test_others_are_not(self, model):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.fit(X, Y)

    def test_a_regression_without_an_intercept(self):
        model = make_pipeline(mc.RBF(), KernelRidge(kernel="precomputed"))
        with pytest.warns(UserWarning, match=r"no intercept, .* the mean 100\.5. Use mc\.KernelRidge\(\)"):
            model.fit(X, Y + 100)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.fit(X, Y - 0.5)

    def test_outside_of_a_pipeline(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            SVC().fit(mc.RBF().fit_transform(X), Y)  # nothing tells the kernel who reads its matrix
