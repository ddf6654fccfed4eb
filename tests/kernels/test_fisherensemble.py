"""The ensemble of Fisher kernels: against its formula, on series of all kinds, and in scikit-learn."""

import os
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import mercer as mc
from mercer import _parallel
from mercer.kernels import fisherensemble
from mercer.kernels.windowscores import WindowScores
from mercer.testing.kernels import KernelContract

SMALL = {"n_states": (3,), "windows": (), "n_iter": 5}
BOTH = {"n_states": (2,), "n_components": 4, "n_iter": 5}


def series(seed, n, d=1, low=12, high=20):
    rng = np.random.default_rng(seed)
    return [np.cumsum(rng.normal(size=(length, d)), axis=0) for length in rng.integers(low, high, size=n)]


def two_classes(n=24, seed=0):
    """Chirps of two speeds, of different lengths and levels."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    lengths = rng.integers(30, 50, size=n)
    waves = [np.sin(np.linspace(0, 3 + c, length) ** 2) for c, length in zip(y, lengths, strict=True)]
    return [x + 0.2 * rng.normal(size=len(x)) for x in waves], y


class TestOnSeries(KernelContract):
    """The formula, by a kernel for every part."""

    needs_fit = True
    features = True

    def kernel(self):
        return mc.FisherEnsemble(**BOTH)

    def data(self, seed, n):
        return series(seed, n)

    def other_data(self, seed, n):
        return series(seed, n, d=2)

    def truth(self, X):
        levels = make_pipeline(mc.Derivatives(), mc.Standardize()).fit_transform(X)
        shapes = make_pipeline(mc.Standardize("series"), mc.Derivatives(), mc.Standardize()).fit_transform(X)
        models = []
        for topology in ("left-right", "ergodic"):
            model = mc.HMM(2, topology=topology, n_init=1, n_iter=5, random_state=0)
            fisher = mc.Fisher(model, information="diagonal", per="step", power=0.5)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                models += [fisher.fit_transform(data) for data in (levels, shapes)]
        scaled = mc.Standardize().fit_transform(X)
        shape, level = (WindowScores(kind, n, 4).fit_transform(scaled) for kind, n in (("shape", 9), ("level", 5)))
        share = 0.4 / (1 + (len(X) / 200) ** 2)
        return ((2 * shape + level) / 3 + share * np.mean(models, axis=0)) / (1 + share)


def test_the_parts():
    X, _ = two_classes(12)
    kernel = mc.FisherEnsemble(n_states=(60,), windows=(), n_iter=2).fit(X)
    assert [part.model.n_states for part in kernel.kernels_] == [int(np.median([len(x) for x in X])) // 2] * 4
    np.testing.assert_allclose(kernel.weights_, [0.25] * 4)
    several = mc.FisherEnsemble((2, 3), ("ergodic", "left-right"), 3.0, n_iter=2).fit(X)
    assert len(several.kernels_) == 2 + 8
    share = 3.0 / (1 + (12 / 200) ** 2)
    np.testing.assert_allclose(several.weights_ * (1 + share), [2 / 3, 1 / 3, *[share / 8] * 8])
    few = mc.FisherEnsemble(n_states=(), windows=("shape",)).fit(X)
    assert [type(part) for part in few.kernels_] == [WindowScores]


def test_the_parts_of_training_series_and_of_the_same_series_later():
    """Both models have a transformer of their own, also where these are of one kind."""
    X, _ = two_classes(12)
    X = [np.stack([x, np.arange(len(x)) * x], axis=1) for x in X]
    kernel = mc.FisherEnsemble(**BOTH)
    K = kernel.fit_transform(X)
    np.testing.assert_allclose(kernel.transform(X), K, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(np.diag(kernel.transform(X)), 1.0, rtol=1e-12)


def test_series_of_two_steps():
    X = [np.array([0.0, 1.0]), np.array([1.0, 0.0]), np.array([0.5, 0.5])]
    K = mc.FisherEnsemble().fit_transform(X)
    assert np.isfinite(K).all()


def test_many_series_are_compared_by_their_windows(monkeypatch):
    X = series(0, 12)
    shares = []
    for many in (1000, 12, 1):
        monkeypatch.setattr(fisherensemble, "MANY", many)
        kernel = mc.FisherEnsemble(n_states=(2,), n_iter=2).fit(X)
        windows = np.array([isinstance(part, WindowScores) for part in kernel.kernels_])
        shares.append(kernel.weights_[~windows].sum() / kernel.weights_[windows].sum())
    np.testing.assert_allclose(shares, [0.4 / (1 + 0.012**2), 0.2, 0.0])
    assert len(mc.FisherEnsemble(n_states=(2,), windows=(), n_iter=2).fit(X).kernels_) == 4  # nothing else is there


def test_features():
    X = series(0, 7)
    kernel = mc.FisherEnsemble(**BOTH)
    K = kernel.fit_transform(X)
    features = kernel.features(X)
    np.testing.assert_allclose(features @ features.T, K, atol=1e-12)


def test_windows_of_all_scales():
    X = series(0, 5, low=40, high=41)
    kernel = mc.FisherEnsemble(n_states=(), n_components=4).fit(X)
    scales = {part.view: (part.length, part.dilations_) for part in kernel.kernels_}
    assert scales == {"shape": (9, (1, 2, 4)), "level": (5, (1, 2, 4, 8))}
    several = mc.FisherEnsemble(n_states=(), n_components=4).fit(series(0, 5, d=2))
    assert [part.length for part in several.kernels_] == [5, 3]


class TestKindsOfSeries:
    def test_lengths_gaps_channels_and_constants(self):
        rng = np.random.default_rng(0)
        X = series(0, 10, d=3)
        for x in X[::2]:
            x[rng.random(x.shape) < 0.2] = np.nan
        X[1][:, 2] = 7.0  # constant
        X[2][:, 1] = np.nan  # not observed at all
        X[3] = X[3][:1]  # one step
        kernel = mc.FisherEnsemble(**BOTH)
        K = kernel.fit_transform(X)
        assert np.isfinite(K).all()
        np.testing.assert_allclose(kernel.transform(X[4:6]), K[4:6], rtol=1e-9, atol=1e-10)

    def test_units_of_channels_do_not_matter(self):
        X = series(2, 6, d=2)
        kernel = mc.FisherEnsemble(**BOTH)
        other = [x * [1024.0, 0.5] for x in X]
        np.testing.assert_allclose(kernel.fit_transform(other), kernel.fit_transform(X), rtol=1e-9, atol=1e-10)

    def test_single_precision_is_the_same_numbers(self):
        X = [x.astype(np.float32) for x in series(3, 6)]
        kernel = mc.FisherEnsemble(**BOTH)
        np.testing.assert_array_equal(kernel.fit_transform(X), kernel.fit_transform([x.astype(float) for x in X]))

    def test_forms_of_input(self):
        cube = np.random.default_rng(4).normal(size=(6, 15, 1))
        kernel = mc.FisherEnsemble(**SMALL)
        K = kernel.fit_transform(cube)
        for form in (cube[:, :, 0], list(cube), mc.Sequences(cube), mc.objects(list(cube))):
            np.testing.assert_array_equal(kernel.fit_transform(form), K)


class TestInScikitLearn:
    @pytest.mark.parametrize("n_jobs", [1, 2])
    def test_there_is_one_progress_bar(self, n_jobs, monkeypatch, capsys):
        monkeypatch.setattr(_parallel, "BAR_AFTER_SECONDS", -1.0)
        with mc.config(progress=True, cache_bytes=0, n_jobs=n_jobs):
            mc.FisherEnsemble(**SMALL).fit(series(5, 6))
        shown = capsys.readouterr().err
        assert "FisherEnsemble" in shown
        assert "Baum-Welch" not in shown
        assert "forward-backward" not in shown

    def test_no_warnings(self):
        X, y = two_classes(12)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            mc.FisherEnsemble(n_states=(4,), n_iter=2).fit_transform(X, y)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_states": 4}, r"n_states must be a tuple of whole numbers, 1 or more; got 4\. Use \(6,\), for example"),
        ({"n_states": (4, 0)}, "n_states must be"),
        ({"topologies": "ergodic"}, "topologies must be a tuple of one or more topologies; got 'ergodic'"),
        ({"topologies": ("left-right", 2)}, "topology must be"),
        ({"model_weight": 0.0}, r"model_weight must be a positive number; got 0.0. n_states=\(\) leaves"),
        ({"power": 2.0}, "power must be a number, above 0 and at most 1"),
        ({"power": 0.0}, "power must be"),
        ({"windows": ("shapes",)}, "windows must be a tuple of 'shape' and 'level'; got"),
        ({"n_components": 0}, "n_components must be"),
        ({"n_states": (), "windows": ()}, "windows and n_states are empty. Pass"),
        ({"n_iter": 0}, "n_iter must be"),
        ({"random_state": "x"}, "random_state"),
    ],
)
def test_bad_parameters(change, message):
    with pytest.raises((ValueError, TypeError), match=message):
        mc.FisherEnsemble(**change).fit(series(0, 4))


def test_bad_data():
    kernel = mc.FisherEnsemble(**SMALL).fit(series(0, 4))
    with pytest.raises(ValueError, match="must have 1 coordinates, as the training data had; got 2"):
        kernel.transform(series(0, 2, d=2))
    with pytest.raises(TypeError, match="requires vectors; got symbols from ACGT"):
        kernel.fit(["ACGT", "AC"])
    with pytest.raises(ValueError, match=r"sequence 1 has no observed value \(all are NaN\). Leave it out"):
        kernel.fit([np.zeros((3, 1)), np.full((4, 1), np.nan)])
    with pytest.raises(ValueError, match=r"Channel 1 is not observed in any series .* Leave it out"):
        kernel.fit([np.array([[1.0, np.nan], [2.0, np.nan]])] * 3)
    with pytest.raises(ValueError, match="sequence 1 is empty"):
        kernel.fit([np.zeros((3, 1)), np.zeros((0, 1))])


DATA = Path(os.environ.get("MERCER_DATA", "")) / "ucr_more"


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("MERCER_DATA") or not DATA.is_dir(), reason="MERCER_DATA/ucr_more is not there")
@pytest.mark.parametrize(("name", "floor"), [("Chinatown", 0.95), ("ShakeGestureWiimoteZ", 0.86)])
def test_accuracy_on_real_series(name, floor):
    """One length, and many lengths; nearest neighbors by dynamic time warping reach .95 and .84."""
    (X, y), (X_test, y_test) = (mc.read_ucr(DATA / f"{name}_{part}.tsv.gz") for part in ("TRAIN", "TEST"))
    classifier = make_pipeline(mc.FisherEnsemble(), SVC(kernel="precomputed", C=10)).fit(X, y)
    assert classifier.score(X_test, y_test) >= floor


def test_checking_the_data_learns_nothing():
    kernel = mc.FisherEnsemble(n_states=(2,))
    kernel._accept([np.arange(9.0), np.arange(8.0)], reset=True)
    assert not hasattr(kernel, "kernels_")
    assert not hasattr(kernel, "transformers_")
