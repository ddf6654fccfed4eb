"""Odd calls end in one sentence that names the parameter or the sample, or in the right value, without a warning."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import mercer as mc

pytestmark = pytest.mark.filterwarnings("error")

SERIES = np.random.default_rng(0).normal(size=(4, 5, 2))
RATES = mc.Poissons([[1.0], [2.0]])


class TestRagged:
    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda: mc.Gaussians([[0.0, 1.0], [2.0]], [1.0, 1.0]), r"mean must be .* entry 1 has shape \(1,\)"),
            (lambda: mc.Categoricals([[0.5, 0.5], [1.0]]), "probabilit.* nested lists of different lengths"),
            (lambda: mc.Poissons([[1.0], [1.0, 2.0]]), "rate must be an array of numbers; got nested lists"),
            (lambda: mc.Poissons([[[1.0]], [[1.0], [2.0]]]), "rate must be .* different lengths"),
            (lambda: mc.Gaussian().fit_each([[[1.0, 2.0], [3.0]], [[1.0, 2.0]]]), "sequence 0"),
            (lambda: mc.Gaussian().fit([[[1.0, 2.0], [3.0]], [[1.0, 2.0]]]), "sequence 0"),
        ],
    )
    def test_is_named(self, call, message):
        with pytest.raises(ValueError, match=message):
            call()

    def test_counts_of_several_lengths(self):
        with pytest.raises(TypeError, match="Poisson is a model of numbers; got lists of integers of several lengths"):
            mc.ProbabilityProduct(mc.Poisson())([[3, 1, 2], [1, 2]])


class TestLargeNumbers:
    @pytest.mark.parametrize("size", [1e150, 1e200, 1e300, 1.7e308])
    def test_rbf_is_exact(self, size):
        found = mc.RBF(gamma=1.0)([[size], [0.0], [-size], [size]])
        np.testing.assert_array_equal(found, [[1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0], [1, 0, 0, 1]])

    def test_linear_says_so(self):
        with pytest.raises(ValueError, match="self-kernel that is not finite"):
            mc.Linear()([[1e200], [1.0]])
        with pytest.raises(OverflowError, match="Rescale the data, or normalize"):
            mc.Linear(normalize=False)([[1e200], [1.0]])

    def test_divergences(self):
        means = mc.Gaussians([[1e200], [0.0]], [[1.0], [1.0]])
        np.testing.assert_array_equal(mc.SymmetricKL()(means), np.eye(2))

    @pytest.mark.parametrize("model", [mc.Gaussian(), mc.Gaussian("full"), mc.LikelihoodRatio(mc.Gaussian())])
    def test_fits(self, model):
        with pytest.raises(ValueError, match="squares of the data overflow"):
            model.fit(SERIES * 1e300, [0, 1, 0, 1])


class TestSizes:
    @pytest.mark.parametrize("n", [10**6, 10**30])
    def test_states(self, n):
        with pytest.raises(ValueError, match=r"n_states must be a whole number, from 1 to 10000.* n x n transitions"):
            mc.HMM(n).fit(["ACGT", "GGT"])

    @pytest.mark.parametrize("n", [10**5, 10**30])
    def test_delays(self, n):
        with pytest.raises(ValueError, match="must be at most 10000"):
            mc.Delays(n).fit_transform(SERIES)

    def test_a_number_too_large_for_a_float(self):
        with pytest.raises(ValueError, match="gamma must be a number"):
            mc.RBF(gamma=10**400)([[1.0]])

    def test_a_single_number(self):
        with pytest.raises(TypeError, match="list of samples; got a single number"):
            mc.objects(np.array(2.0))

    def test_no_coordinates(self):
        for model in (mc.Gaussian(), mc.KDE(), mc.Mixture()):
            with pytest.raises(ValueError, match="at least one coordinate"):
                model.fit(np.zeros((2, 3, 0)))

    def test_no_samples(self):
        model = mc.AffinePairHMM("BLOSUM62", gap_open=11, gap_extend=1)
        with pytest.raises(ValueError, match="at least one sample"):
            model.fit(pd.Series([], dtype=object))


class TestWrongParts:
    @pytest.mark.parametrize("kernel", [mc.Fisher, mc.Marginalization])
    @pytest.mark.parametrize("model", [mc.HMM(emission="gaussian"), mc.Mixture("gaussian")])
    def test_a_name_for_a_family(self, kernel, model):
        with pytest.raises(TypeError, match=r"must be an estimator, or None; got 'gaussian'"):
            kernel(model).fit(SERIES)

    def test_no_kernel(self):
        for kernel in (mc.Normalized(mc.Landmarks(mc.RBF(), 2)), mc.Scaled(mc.Derivatives())):
            with pytest.raises(TypeError, match="kernel must be a kernel; got "):
                _ = kernel.psd
        with pytest.raises(TypeError, match="kernel must be a kernel"):
            mc.gram.estimate(mc.LikelihoodRatio(mc.Gaussian()), SERIES)
        with pytest.raises(TypeError, match="must be a kernel; got Derivatives"):
            _ = mc.Sum([mc.Derivatives(), mc.RBF()]).psd

    def test_a_tree_has_no_probability_product(self):
        with pytest.raises(TypeError, match="HiddenTree"):
            mc.ProbabilityProduct(mc.HiddenTree("((a,b),c);"))([[0, 1, 0], [1, 1, 0]])


class TestBatches:
    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda: RATES.reshape("a"), "whole numbers"),
            (lambda: RATES.reshape(7), r"shape \(2,\) cannot be reshaped to \(7,\)"),
            (lambda: RATES.concat(3), "needs a list of batches; got 3"),
            (lambda: RATES.concat([3]), "needs a list of batches"),
            (lambda: RATES.concat([RATES[0]]), "no axis to concatenate"),
            (lambda: RATES["x"], r"'x' is not an index of a batch of shape \(2,\)"),
            (lambda: RATES[7], "7 is not an index"),
            (lambda: RATES[[0.5]], "is not an index"),
            (lambda: RATES.sample(size=[]), r"size must be a whole number of points, 0 or more; got \[\]"),
            (lambda: RATES.sample(size=-1), "size must be a whole number"),
            (lambda: RATES.sample(3, random_state="x"), "random_state must be .* got 'x'"),
        ],
    )
    def test_nonsense(self, call, message):
        with pytest.raises((TypeError, ValueError, IndexError), match=message):
            call()
