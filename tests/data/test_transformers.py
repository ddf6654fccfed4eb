"""Transformers of sequences: against NumPy sequence by sequence, and inside scikit-learn."""

from __future__ import annotations

import pickle
import re
from itertools import product

import numpy as np
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, KBinsDiscretizer, StandardScaler
from sklearn.svm import SVC

import mercer as mc
from mercer.data.gaps import FillGaps
from mercer.data.sequences import Sequences
from mercer.data.standardize import Clock, Lengths, Resample, Standardize
from mercer.data.transformers import Derivatives, PerStep, Windows

ON_VECTORS = [
    Derivatives(),
    Derivatives((2,)),
    Windows(3, 2),
    PerStep(StandardScaler()),
    PerStep(PCA(1)),
    Standardize(),
    Standardize(per="series"),
    Clock(2.0),
    FillGaps(),
]


def series(lengths, d=2, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(n, d)).astype(dtype) for n in lengths]


ragged = st.lists(st.integers(1, 6), min_size=1, max_size=6)


class TestDerivatives:
    @given(ragged, st.sampled_from([1, 2, 3, (1,), (2,), (3, 1)]))
    def test_it_is_numpys_gradient_of_every_sequence(self, lengths, orders):
        data = series(lengths)
        found = Derivatives(orders).fit_transform(data)
        for x, z in zip(data, found, strict=True):
            blocks = [x]
            for _ in range(3):
                blocks.append(np.gradient(blocks[-1], axis=0) if len(x) > 1 else np.zeros_like(x))
            wanted = range(1, orders + 1) if isinstance(orders, int) else orders
            np.testing.assert_allclose(z, np.hstack([x, *(blocks[k] for k in wanted)]), atol=1e-14)

    def test_next_to_gaps_it_is_the_slope_between_observed_values(self):
        x = [np.nan, 1.0, np.nan, np.nan, 7.0, 4.0, np.nan]
        first, single, nothing = Derivatives().fit_transform([x, [np.nan, 5.0], [np.nan]])
        np.testing.assert_array_equal(first[:, 1], [np.nan, 2, 2, 2, 0.75, -3, np.nan])
        np.testing.assert_array_equal(single[:, 1], [np.nan, 0])
        assert np.isnan(nothing).all()


class TestWindows:
    @given(ragged, st.integers(1, 5), st.integers(1, 9))
    def test_it_reflects_every_sequence_at_its_ends(self, lengths, length, dilation):
        data = series(lengths)
        reach = length * dilation
        for x, z in zip(data, Windows(length, dilation).fit_transform(data), strict=True):
            wide = np.pad(x, ((reach, reach), (0, 0)), mode="reflect" if len(x) > 1 else "edge")
            steps = reach + dilation * (np.arange(length) - length // 2)
            np.testing.assert_array_equal(z, [wide[t + steps].ravel() for t in range(len(x))])

    @pytest.mark.parametrize("value", [0, -1, 1.5, True, "1", None, 10**30])
    def test_sizes_are_checked(self, value):
        for name in ("length", "dilation"):
            with pytest.raises(ValueError, match=f"{name} must be a whole number, from 1 to"):
                Windows(**{name: value}).fit_transform(series([3]))


@pytest.mark.parametrize("make", [Derivatives])
@pytest.mark.parametrize("value", [0, -1, 1.5, True, "1", None, (), (0,), (1, 1), (1, "2"), (True,)])
def test_numbers_are_checked(make, value):
    name = next(iter(make().get_params()))
    sentence = re.escape(f"tuple of distinct such integers; got {value!r}.")
    sentence = f"{name} must be an integer of at least 1, or a {sentence}"
    with pytest.raises(ValueError, match=sentence):
        make(value).fit(series([3]))


class TestPerStep:
    def test_it_fits_on_all_steps_and_keeps_the_cuts(self):
        data = series([3, 5, 1])
        step = PerStep(StandardScaler()).fit(data)
        expected = StandardScaler().fit(np.vstack(data))
        for x, z in zip(data, step.transform(data), strict=True):
            np.testing.assert_allclose(z, expected.transform(x))
        assert not hasattr(step.transformer, "mean_")
        assert step.get_feature_names_out(["u", "v"]).tolist() == ["u", "v"]

    def test_the_number_of_coordinates_may_change(self):
        step = PerStep(PCA(2)).fit(series([9, 8], d=4))
        assert step.transform(series([2, 3], d=4)).dimension == 2
        assert step.get_feature_names_out().tolist() == ["pca0", "pca1"]

    def test_what_is_not_observed_is_the_transformers_affair(self):
        data = [np.array([[1.0], [np.nan], [3.0]])]
        np.testing.assert_allclose(PerStep(StandardScaler()).fit_transform(data)[0][:, 0], [-1, np.nan, 1])
        with pytest.raises(ValueError, match="NaN"):
            PerStep(PCA(1)).fit(data)

    def test_sparse_whole_and_named_output(self):
        data = series([6, 7])
        bins = PerStep(KBinsDiscretizer(3, strategy="uniform")).fit_transform(data)
        assert bins.dimension == 6
        assert set(np.unique(bins.values)) == {0.0, 1.0}
        rounded = PerStep(FunctionTransformer(lambda x: np.round(x).astype(int))).fit_transform(data)
        assert rounded.values.dtype == np.float64


GAPS = [np.array([[1.0, 7.0], [np.nan, 7.0], [3.0, 7.0]]), np.array([[4.0, np.nan], [10.0, np.nan]])]


class TestStandardize:
    @given(ragged)
    def test_channels_are_scaled_as_scikit_learn_does(self, lengths):
        data = [10 * x + 3 for x in series([*lengths, 2])]
        expected = StandardScaler().fit(np.vstack(data))
        for x, z in zip(data, Standardize().fit_transform(data), strict=True):
            np.testing.assert_allclose(z, expected.transform(x), atol=1e-12)

    @given(ragged)
    def test_every_series_is_scaled_by_itself(self, lengths):
        data = [1e3 * x + 3 for x in series(lengths)]
        for x, z in zip(data, Standardize(per="series").fit_transform(data), strict=True):
            np.testing.assert_allclose(z, StandardScaler().fit_transform(x), atol=1e-9)

    def test_missing_values_are_left_out_and_constants_become_zero(self):
        first, second = Standardize(per="series").fit_transform(GAPS)
        np.testing.assert_allclose(first, [[-1, 0], [np.nan, 0], [1, 0]])
        np.testing.assert_allclose(second, [[-1, np.nan], [1, np.nan]])
        step = Standardize().fit(GAPS)
        np.testing.assert_allclose(step.mean_, [4.5, 7.0])
        np.testing.assert_allclose(step.scale_, [np.std([1, 3, 4, 10]), 1.0])
        assert Standardize().fit([[np.nan, np.nan]]).scale_.tolist() == [1.0]

    @pytest.mark.parametrize("per", ["channel", "series"])
    @pytest.mark.parametrize("level", [0.1, 1e9, -1e300, 5e-324])
    def test_a_constant_is_constant_at_every_level(self, per, level):
        step = Standardize(per=per).fit([np.full((7, 1), level)])
        np.testing.assert_array_equal(step.transform([np.full((7, 1), level)])[0], np.zeros((7, 1)))

    @pytest.mark.parametrize("per", ["channel", "series"])
    @pytest.mark.parametrize("size", [1e-300, 1e300])
    def test_extreme_sizes(self, per, size):
        z = Standardize(per=per).fit_transform([size * np.array([[1.0], [2.0], [3.0]])])[0]
        np.testing.assert_allclose(z[:, 0], np.array([-1, 0, 1]) * np.sqrt(1.5), atol=1e-12)

    def test_the_order_of_the_series_does_not_change_a_bit(self):
        data = series([30, 50, 20, 40])
        forward, backward = Standardize().fit(data), Standardize().fit(data[::-1])
        assert forward.mean_.tolist() == backward.mean_.tolist()
        assert forward.scale_.tolist() == backward.scale_.tolist()

    def test_empty_series(self):
        X = Sequences([np.zeros((0, 1)), np.array([[1.0], [2.0]])])
        for per in ("channel", "series"):
            assert Standardize(per=per).fit_transform(X).values.tolist() == [[-1.0], [1.0]]

    def test_single_series_need_no_fit(self):
        assert Standardize(per="series").transform(series([3])).dimension == 2


class TestClock:
    @given(ragged, st.sampled_from([0, 1, 2.5]))
    def test_the_time_runs_from_start_to_end(self, lengths, weight):
        data = series(lengths)
        for x, z in zip(data, Clock(weight).fit_transform(data), strict=True):
            edge = weight * np.sqrt(3)
            time = np.linspace(-edge, edge, len(x)) if len(x) > 1 else np.zeros(1)
            np.testing.assert_array_equal(z[:, :2], x)
            np.testing.assert_allclose(z[:, 2], time, atol=1e-14)

    def test_the_weight_is_its_standard_deviation(self):
        z = Clock(10.0).fit_transform([np.zeros((10_000, 1))])[0]
        np.testing.assert_allclose(z[:, 1].std(), 10.0, rtol=1e-3)
        np.testing.assert_allclose(z[[0, -1], 1], [-17.32, 17.32], atol=0.01)

    def test_points_are_compared_with_those_of_their_time(self):
        # One class rises, one falls: as sets of points they are alike.
        rng = np.random.default_rng(0)
        y = np.arange(20) % 2
        X = [np.linspace(-1, 1, 15)[:: 1 - 2 * c] + 0.1 * rng.normal(size=15) for c in y]
        for transformer, low, high in ((Clock(0.0), 0.0, 0.8), (Clock(3.0), 1.0, 1.0)):
            chain = make_pipeline(transformer, mc.EmpiricalMeanMap(gamma=4.0), SVC(kernel="precomputed", C=10))
            assert low <= chain.fit(X[:10], y[:10]).score(X[10:], y[10:]) <= high


class TestResample:
    @given(ragged, st.integers(2, 9))
    def test_it_interpolates_every_channel(self, lengths, steps):
        data = series(lengths)
        found = Resample(steps).fit_transform(Sequences(data, ids=[str(i) for i in range(len(data))]))
        assert found.ids == tuple(str(i) for i in range(len(data)))
        for x, z in zip(data, found, strict=True):
            places = np.linspace(0, len(x) - 1, steps)
            expected = np.stack([np.interp(places, np.arange(len(x)), column) for column in x.T], axis=1)
            np.testing.assert_allclose(z, expected, atol=1e-14)

    def test_the_same_number_of_steps_changes_nothing(self):
        data = series([5, 5])
        for x, z in zip(data, Resample(5).fit_transform(data), strict=True):
            np.testing.assert_allclose(z, x, atol=1e-14)

    def test_gaps_are_filled(self):
        X = [np.array([[np.nan, 1.0], [2.0, np.nan], [np.nan, 3.0], [6.0, np.nan]]), np.array([[np.nan, 5.0]])]
        first, second = Resample(4).fit_transform(X)
        np.testing.assert_allclose(first, [[2, 1], [2, 2], [4, 3], [6, 3]])
        np.testing.assert_allclose(second, [[0, 5]] * 4)  # a channel that was never observed is 0

    def test_one_step_is_the_middle(self):
        assert Resample(1).fit_transform([[0.0, 1.0, 5.0]])[0].tolist() == [[1.0]]

    def test_single_precision_is_kept(self):
        assert Resample(3).fit_transform(series([4], dtype=np.float32)).values.dtype == np.float32


def resonances(n=40, seed=0):
    """A stationary process, whose windows are Gaussian."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 60, 1))
    for t in range(2, 60):
        X[:, t] += 1.2 * X[:, t - 1] - 0.8 * X[:, t - 2]
    return list(X)


class TestFillGaps:
    @pytest.mark.parametrize("fraction", [0.1, 0.3])
    def test_it_is_closer_than_interpolation(self, fraction):
        rng = np.random.default_rng(1)
        X = Sequences(resonances())
        gone = rng.random(X.values.shape) < fraction
        gappy = X.mapped(lambda values: np.where(gone, np.nan, values))
        for train in (X, gappy):
            found = FillGaps().fit(train).transform(gappy).values
            left = np.isnan(found)
            assert left.mean() < 0.01
            flat = Resample(60).fit_transform(gappy).values
            errors = [np.square(filled - X.values)[gone & ~left].mean() for filled in (found, flat)]
            assert errors[0] < 0.6 * errors[1]

    def test_values_are_conditional_means(self):
        X = resonances(160)  # all of their windows are used
        x = X[0].copy()
        gone = [20, 22, 23]
        x[gone] = np.nan
        found = FillGaps().fit(X).transform([x])[0]
        windows = np.concatenate([[w.ravel() for w in Windows(9).fit_transform(X)[i]] for i in range(160)])
        mean, covariance = windows.mean(axis=0), np.cov(windows.T, bias=True)
        for t in gone:
            known = [k for k in range(9) if t - 4 + k not in gone]
            weights = np.linalg.solve(covariance[np.ix_(known, known)], covariance[known, 4])
            expected = mean[4] + weights @ (x[t - 4 : t + 5, 0] - mean)[known]
            np.testing.assert_allclose(found[t, 0], expected, rtol=1e-5)
        assert (np.delete(found, gone) == np.delete(x, gone)).all()

    def test_longer_gaps(self):
        """Up to 17 steps are interpolated; of longer gaps, two steps have three values around them on each side."""
        for last, missing in ((27, []), (28, list(range(12, 26)))):
            x = resonances(1)[0]
            x[10:last] = np.nan
            found = FillGaps().fit(resonances()).transform([x])[0][:, 0]
            assert np.flatnonzero(np.isnan(found)).tolist() == missing
            line = np.interp(np.arange(60), [9, last], x[[9, last], 0])
            np.testing.assert_allclose(
                found[12 : last - 2], line[12 : last - 2] + (np.nan if missing else 0.0), rtol=1e-12
            )

    def test_channels_that_are_observed_rarely(self):
        X = [np.where(np.arange(60)[:, None] % 8, np.nan, np.sin(x / 5)) for x in resonances()]
        found = FillGaps().fit_transform(X)[0][:57]
        np.testing.assert_allclose(found[:, 0], np.interp(np.arange(57), np.arange(0, 57, 8), X[0][::8, 0]))

    def test_channels_are_filled_by_themselves(self):
        X = [np.concatenate([x, 100 + 3 * x[::-1]], axis=1) for x in resonances()]
        x = X[0].copy()
        x[::5, 0] = x[::7, 1] = np.nan
        both = FillGaps().fit(X).transform([x])[0]
        for channel in (0, 1):
            only = FillGaps().fit([z[:, [channel]] for z in X]).transform([x[:, [channel]]])[0]
            np.testing.assert_allclose(both[:, [channel]], only, atol=1e-3)

    def test_what_is_never_observed_stays_missing(self):
        X = [np.array([[1.0, np.nan], [2.0, np.nan], [np.nan, np.nan]]), np.zeros((0, 2))]
        assert np.isnan(FillGaps().fit_transform(X)[0][:, 1]).all()
        assert len(FillGaps().fit_transform([np.zeros((0, 1))]).values) == 0


@pytest.mark.parametrize(
    ("ask", "data", "error", "sentence"),
    [
        (PerStep(None).fit_transform, series([3]), TypeError, r"fit and transform, such as StandardScaler\(\); got"),
        (PerStep(SVC()).fit_transform, series([3]), TypeError, r"fit and transform, such as StandardScaler\(\); got"),
        (
            PerStep(StandardScaler).fit_transform,
            series([3]),
            TypeError,
            r"got the class StandardScaler. Pass StandardScaler\(\)",
        ),
        (
            PerStep(Derivatives()).fit_transform,
            series([3]),
            TypeError,
            "single time steps; .* requires sequences. .*make_pipeline",
        ),
        (
            PerStep(FunctionTransformer(np.log)).fit_transform,
            [[0.0, 1.0]],
            ValueError,
            "must return .* finite values or NaN",
        ),
        (
            Standardize(per="step").fit_transform,
            series([3]),
            ValueError,
            "per must be 'channel' or 'series'; got 'step'",
        ),
        (Standardize().fit([[1e-200, 2e-200]]).transform, [[1e200]], ValueError, "finite values or NaN"),
        (Clock(-1).fit_transform, series([3]), ValueError, "weight must be a number, 0 or more; got"),
        (Clock(np.nan).fit_transform, series([3]), ValueError, "weight must be a number, 0 or more; got"),
        (Clock("1").fit_transform, series([3]), ValueError, "weight must be a number, 0 or more; got"),
        (FillGaps().transform, series([3]), NotFittedError, "not fitted yet"),
        (Resample(0).fit_transform, series([3]), ValueError, "n_steps must be a whole number, 1 or more; got 0"),
        (Resample(3).fit_transform, [np.zeros((0, 1)), np.ones((2, 1))], ValueError, "is empty"),
        (PerStep(StandardScaler()).transform, series([3]), NotFittedError, ""),
        (Standardize().transform, series([3]), NotFittedError, ""),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_what_is_refused(ask, data, error, sentence):
    with pytest.raises(error, match=sentence):
        ask(data)


@pytest.mark.parametrize("transformer", ON_VECTORS, ids=repr)
class TestEveryTransformer:
    def test_ids_lengths_and_dtype_are_kept(self, transformer):
        X = Sequences(series([4, 2, 7], dtype=np.float32), ids=["a", "b", "c"])
        Z = clone(transformer).fit_transform(X)
        assert Z.ids == X.ids
        assert np.array_equal(Z.offsets, X.offsets)
        assert Z.values.dtype == np.float32

    def test_forms_of_input(self, transformer):
        cube = np.stack(series([4, 4, 4]))
        expected = clone(transformer).fit_transform(Sequences(cube)).values
        for X in (cube, list(cube), mc.objects(list(cube))):
            np.testing.assert_allclose(clone(transformer).fit_transform(X).values, expected)
        univariate = clone(transformer).fit_transform(cube[:, :, 0])
        assert np.array_equal(univariate.lengths, [4, 4, 4])

    def test_the_neighbours_do_not_matter(self, transformer):
        X = Sequences(series([4, 2, 7, 1]))
        fitted = clone(transformer).fit(X)
        whole = fitted.transform(X)
        for i in range(4):
            np.testing.assert_array_equal(fitted.transform(X[[i]])[0], whole[i])

    def test_scikit_learn_contract(self, transformer):
        again = clone(transformer)
        assert str(again.get_params()) == str(transformer.get_params())
        X = series([4, 5])
        fitted = again.fit(X)
        assert fitted is again
        assert again.n_features_in_ == 2
        for copy in (pickle.loads(pickle.dumps(fitted)), fitted.fit(X)):
            np.testing.assert_array_equal(copy.transform(X).values, fitted.transform(X).values)
        with sklearn.config_context(transform_output="pandas"):
            assert isinstance(fitted.transform(X), Sequences)

    def test_a_fit_forgets_the_one_before(self, transformer):
        assert clone(transformer).fit(series([4, 5])).fit(series([4, 5], d=3)).n_features_in_ == 3

    def test_symbols(self, transformer):
        sentence = r"vectors; got symbols from ACGT. Pass numbers, or Sequences\(X\).one_hot\(\)"
        with pytest.raises(TypeError, match=sentence):
            clone(transformer).fit(["ACGT"])

    def test_another_dimension(self, transformer):
        fitted = clone(transformer).fit(series([4, 5]))
        sentence = r"must have 2 coordinates, as the training data had; got 3\.$"
        with pytest.raises(ValueError, match=sentence):
            fitted.transform(series([4], d=3))


class TestPipelines:
    def test_derivatives_and_scaling_in_front_of_a_kernel(self):
        # Both classes have the same values, one in the order of time and one backwards: only the change tells.
        rng = np.random.default_rng(0)
        ramps = [np.linspace(-1, 1, n) + 0.1 * rng.normal(size=n) for n in rng.integers(20, 40, size=24)]
        y = np.arange(24) % 2
        X = Sequences([x[::-1] if label else x for x, label in zip(ramps, y, strict=True)])
        kernel = mc.ProbabilityProduct(mc.Gaussian("diagonal", prior="pooled"))
        chain = make_pipeline(Derivatives(), PerStep(StandardScaler()), kernel, SVC(kernel="precomputed"))
        search = GridSearchCV(chain, {"derivatives__orders": [1, (2,)], "svc__C": [1, 10]}, cv=3).fit(X, y)
        assert search.best_params_["derivatives__orders"] == 1
        assert search.score(X, y) == 1.0
        plain = make_pipeline(PerStep(StandardScaler()), clone(kernel), SVC(kernel="precomputed")).fit(X[:16], y[:16])
        assert plain.score(X[16:], y[16:]) < 0.9

    def test_parameters_of_the_inner_transformer_are_searched(self):
        step = PerStep(PCA(1)).set_params(transformer__n_components=2)
        assert step.fit_transform(series([5, 6], d=3)).dimension == 2


class TestLengths:
    def test_lengths_of_any_data(self):
        for X in (["ACGT", "A"], [np.zeros((4, 2)), np.ones((1, 2))], Sequences([[0.5] * 4, [1.0]])):
            np.testing.assert_array_equal(Lengths(log=False).fit_transform(X), [[4.0], [1.0]])
            np.testing.assert_allclose(Lengths().fit_transform(X), np.log([[4.0], [1.0]]))

    def test_a_classifier_that_lives_on_lengths(self):
        X, y = ["A" * n for n in (2, 3, 2, 9, 8, 10)], [0, 0, 0, 1, 1, 1]
        chain = make_pipeline(Lengths(), StandardScaler(), LogisticRegression()).fit(X, y)
        assert chain.score(X, y) == 1.0
        assert chain[:1].get_feature_names_out().tolist() == ["log_length"]

    def test_an_empty_sequence(self):
        X = Sequences(["AC", ""], ids=["a", "b"])
        with pytest.raises(ValueError, match="sequence 'b' is empty; drop it"):
            Lengths().fit_transform(X)
        assert Lengths(log=False).fit_transform(X).tolist() == [[2.0], [0.0]]


def test_windows_have_no_probability():
    """Also after a scaler, in part, and of `Sequences.windows`."""
    data = [x + t for t, x in enumerate(series([9, 12, 10, 11], d=1))]
    X = make_pipeline(Windows(3), PerStep(StandardScaler())).fit_transform(data)[:4]
    y = [0, 0, 1, 1]
    with pytest.raises(TypeError, match=r"LikelihoodRatio requires the probability of a series; windows overlap"):
        make_pipeline(Windows(3), mc.LikelihoodRatio(mc.Gaussian())).fit(data, y)
    for model in (mc.HMM(2), mc.LDS(1), mc.Mixture(n_components=2, tol=1.0)):
        fitted = model.fit(X)
        for owner, name in product((fitted, fitted.model_), ("aic", "bic")):
            with pytest.raises(TypeError, match=f"{name} requires the probability of a series"):
                getattr(owner, name)(X)
    with pytest.raises(TypeError, match="goodness_of_fit requires"):
        mc.stats.goodness_of_fit(mc.HMM(2).fit(X), mc.Sequences(data).windows(2))
