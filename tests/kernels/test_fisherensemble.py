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

SMALL = {"n_states": (2, 3), "windows": (), "n_iter": 5}
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
    """The formula, by a kernel for every part and, for the clock, by loops over points."""

    needs_fit = True

    def kernel(self):
        return mc.FisherEnsemble(**SMALL)

    def data(self, seed, n):
        return series(seed, n)

    def other_data(self, seed, n):
        return series(seed, n, d=2)

    def truth(self, X):
        levels = make_pipeline(mc.Derivatives(), mc.Standardize()).fit_transform(X)
        shapes = make_pipeline(mc.Standardize("series"), mc.Derivatives(), mc.Standardize()).fit_transform(X)
        return (self.fishers(levels, 0) + self.fishers(shapes, 4) + self.clock(levels)) / 3

    @staticmethod
    def fishers(data, seed):
        found = []
        for topology in (("left-right", 2), "ergodic"):
            for n in (2, 3):
                model = mc.HMM(n, topology=topology, n_init=1, n_iter=5, random_state=seed + len(found))
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found.append(mc.Fisher(model, information="diagonal", per="step", power=0.5).fit_transform(data))
        return np.mean(found, axis=0)

    @staticmethod
    def clock(X):
        data = []
        for x in X:
            places = np.linspace(0, len(x) - 1, 100)
            data.append(np.stack([np.interp(places, np.arange(len(x)), column) for column in x.T], axis=1))
        time = 10 * np.sqrt(3) * np.linspace(-1, 1, 100)
        apart = 4 * (time[:, None] - time) ** 2  # of one channel and its derivative; gamma is 8 over their number

        def base(x, y):
            squares = ((x[:, None] - y[None]) ** 2).sum(axis=-1)
            return np.exp(-4 * squares - apart).mean()

        K = np.array([[base(x, y) for y in data] for x in data])
        return K / np.sqrt(np.outer(np.diag(K), np.diag(K)))


def test_the_parts():
    X, _ = two_classes(12)
    kernel = mc.FisherEnsemble(n_states=(3, 60), windows=(), n_iter=2).fit(X)
    states = [part.model.n_states for part in kernel.kernels_[:-1]]
    assert states == [3, int(np.median([len(x) for x in X])) // 2] * 4
    np.testing.assert_allclose(kernel.weights_, [1 / 12] * 8 + [1 / 3])
    assert isinstance(kernel.kernels_[-1], mc.EmpiricalMeanMap)
    np.testing.assert_allclose(np.diag(kernel(X)), 1.0, rtol=1e-12)
    few = mc.FisherEnsemble(
        n_states=(2,), topologies=("ergodic",), scales=("series",), windows=(), clock=None, n_iter=2
    ).fit(X)
    assert len(few.kernels_) == 1


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
        shares.append(kernel.weights_[~windows].sum() / kernel.weights_[windows].sum() * 1.5)
    np.testing.assert_allclose(shares, [1.5 / (1 + 0.012**2), 0.75, 0.0])
    assert len(mc.FisherEnsemble(windows=(), n_states=(2,), n_iter=2).fit(X).kernels_) == 5  # nothing else is there


def test_features_are_those_of_prepared_series():
    X = series(0, 7)
    kernel = mc.FisherEnsemble((2,), clock=None, n_components=4, n_iter=2).fit(X)
    whole = kernel.features(X)
    np.testing.assert_array_equal(whole, kernel._features(kernel.operands(X)[1].operand))
    np.testing.assert_allclose(whole @ whole.T, kernel.transform(X), atol=1e-6)
    X[3] = 1e200 * X[3]
    with pytest.raises(ValueError, match="sequence 3"):
        kernel.features(X)


def test_windows_of_all_scales():
    X = series(0, 5, low=40, high=41)
    kernel = mc.FisherEnsemble((), clock=None, n_components=4).fit(X)
    scales = {kind: [part.dilation for part in kernel.kernels_ if part.view == kind] for kind in fisherensemble.LENGTHS}
    assert scales == {"shape": [1, 2, 4], "change": [1, 2, 4], "level": [1, 2, 4, 8]}
    np.testing.assert_allclose(kernel.weights_, np.repeat([1 / 9, 1 / 9, 1 / 12], [3, 3, 4]))
    F = kernel.features(X)
    assert F.dtype == np.float32
    np.testing.assert_allclose(F @ F.T, kernel(X), atol=1e-6)
    with pytest.raises(TypeError, match=r"only without the clock\. Use clock=None"):
        mc.FisherEnsemble(**SMALL).fit(X).features(X)


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

    def test_levels_do_not_matter_to_shapes(self):
        X = series(1, 6)
        kernel = mc.FisherEnsemble(scales=("series",), clock=None, **SMALL)
        moved = [2.0**i * x for i, x in enumerate(X)]  # powers of two: the same bits
        np.testing.assert_allclose(kernel.fit_transform(moved), kernel.fit_transform(X), rtol=1e-9, atol=1e-10)

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
            mc.FisherEnsemble(n_states=(2, 4), n_iter=2).fit_transform(X, y)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_states": 4}, r"n_states must be a tuple of whole numbers, 1 or more; got 4\. Use \(6, 12"),
        ({"n_states": (4, 0)}, "n_states must be"),
        ({"topologies": "ergodic"}, "topologies must be a tuple of one or more topologies; got 'ergodic'"),
        ({"topologies": ("left-right", 2)}, "topology must be"),
        ({"scales": ("step",)}, "scales must be a tuple of 'channel' and 'series', or one of them; got"),
        ({"power": 0.0}, "power must be"),
        ({"clock": 0.0}, "clock must be a positive number, or None; got 0.0. .* None leaves it out"),
        ({"windows": ("shapes",)}, "windows must be a tuple of 'shape', 'change' and 'level'; got"),
        ({"n_components": 0}, "n_components must be"),
        ({"n_states": (), "windows": (), "clock": None}, "windows and n_states are empty and clock is None. Pass"),
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
