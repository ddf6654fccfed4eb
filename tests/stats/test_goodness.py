"""Goodness of fit: Rao's statistic in closed form, calibration, power, simulations like the data, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse, stats

import mercer as mc
from mercer.stats.goodness import simulated

STANDARD = mc.Gaussians(mean=[[0.0]], covariance=[1.0])
CHAIN = mc.MarkovChains([[0.5, 0.5]], [[[0.7, 0.3], [0.4, 0.6]]], alphabet="ab")


def strings(chain, n, length, seed):
    return mc.Sequences.from_codes(chain.sample(length, n, random_state=seed)[0], "ab")


def test_score_statistic_is_the_closed_form_for_a_gaussian():
    """Scores x and x^2 - 1 of a standard normal are uncorrelated, with variances 1 and 2."""
    x = np.random.default_rng(0).normal(size=(200, 1))
    found = mc.stats.goodness_of_fit(STANDARD, x, n_simulations=499)
    expected = x.sum() ** 2 / 200 + (x**2 - 1).sum() ** 2 / 400
    assert found.statistic == pytest.approx(expected, rel=0.05)  # the covariance is simulated
    assert found.degrees_of_freedom == 2
    assert found.p_value == pytest.approx(stats.chi2.sf(expected, 2), abs=0.06)
    assert found.deviations["mean[0]"] == pytest.approx(x.sum() / np.sqrt(200), rel=0.05)


@pytest.mark.parametrize(("method", "kernel"), [("score", None), ("kernel", mc.Spectrum(2))])
def test_p_values_are_uniform_under_the_model_and_small_under_another(method, kernel):
    def p_value(chain, seed):
        data = strings(chain, 8, 6, seed)
        options = {"method": method, "kernel": kernel, "n_simulations": 39, "random_state": seed}
        return mc.stats.goodness_of_fit(CHAIN, data, **options).p_value

    assert stats.kstest([p_value(CHAIN, s) for s in range(60)], "uniform").pvalue > 0.01
    other = mc.MarkovChains([[0.5, 0.5]], [[[0.2, 0.8], [0.8, 0.2]]], alphabet="ab")
    assert np.mean([p_value(other, s) <= 0.05 for s in range(10)]) >= 0.7


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_counts_are_simulated_with_their_totals(form):
    p = np.array([0.5, 0.3, 0.2])
    rng = np.random.default_rng(0)
    options = [{}, {"method": "kernel", "kernel": mc.Linear()}]
    found = []
    for _ in range(12):
        counts = rng.multinomial(rng.integers(5, 200, size=10), p).astype(float)
        for option in options:
            found.append(
                mc.stats.goodness_of_fit(mc.Multinomials([p]), form(counts), n_simulations=19, **option).p_value
            )
    assert np.mean(np.array(found) <= 0.05) < 0.3


def test_the_parameter_that_is_wrong_is_named():
    data = strings(mc.MarkovChains([[0.5, 0.5]], [[[0.2, 0.8], [0.4, 0.6]]], alphabet="ab"), 40, 20, 0)
    found = mc.stats.goodness_of_fit(CHAIN, data)
    assert found.p_value == 0.005
    assert next(iter(found.deviations)).startswith("transition[a")
    assert "transition[a" in str(found)


def test_training_data_are_recognized():
    data = strings(CHAIN, 30, 20, 1)
    found = mc.stats.goodness_of_fit(mc.MarkovChain(alphabet="ab").fit(data), data)
    assert found.p_value == 1.0
    assert "held out" in str(found)


def test_refit_calibrates_the_test_of_a_fitted_model():
    data = strings(CHAIN, 10, 12, 3)
    estimator = mc.MarkovChain(alphabet="ab").fit(data)
    options = {"method": "kernel", "kernel": mc.Spectrum(3), "refit": True, "n_simulations": 19}
    assert mc.stats.goodness_of_fit(estimator, data, **options).p_value > 0.05
    alternating = ["aabb" * 4, "abba" * 4, "bbaa" * 4, "baab" * 4] * 3  # of order 2
    estimator = mc.MarkovChain(alphabet="ab").fit(alternating)
    assert mc.stats.goodness_of_fit(estimator, alternating, **options).p_value == 0.05


def test_simulations_have_the_lengths_and_gaps_of_the_data():
    rng = np.random.default_rng(0)
    series = mc.Sequences([np.array([[0.0], [np.nan], [1.0]]), np.array([[2.0]]), np.array([[1.0], [2.0], [np.nan]])])
    emission = mc.Gaussians(mean=[[[0.0], [3.0]]], covariance=[[1.0, 1.0]])
    model = mc.HMMs([[0.5, 0.5]], [[[0.9, 0.1], [0.1, 0.9]]], emission)
    drawn = simulated(model, series, 2, rng)
    assert drawn.lengths.tolist() == [3, 1, 3, 3, 1, 3]
    assert np.isnan(drawn.values[:, 0]).nonzero()[0].tolist() == [1, 6, 8, 13]
    words = mc.Sequences(["ab", "b?a", "aaa"], alphabet="ab", unknown="missing")
    found = simulated(CHAIN, words, 1, rng)
    assert found.lengths.tolist() == [2, 3, 3]
    assert (found.values == words.alphabet.missing).nonzero()[0].tolist() == [3]
    points = np.array([[0.0], [np.nan]])
    assert np.isnan(simulated(STANDARD, points, 2, rng))[:, 0].tolist() == [False, True] * 2


@pytest.mark.parametrize(
    ("model", "data", "options", "match"),
    [
        (mc.HMM(2), ["ab"], {}, "not fitted"),
        ("hmm", ["ab"], {}, "fitted estimator or a batch"),
        (STANDARD, [[1.0]], {"method": "chi2"}, "method must be.*'chi2'"),
        (STANDARD, [[1.0]], {"kernel": mc.RBF()}, "method='kernel'"),
        (STANDARD, [[1.0]], {"refit": True}, "sum to zero"),
        (STANDARD, [[1.0]], {"method": "kernel"}, "kernel must be a kernel"),
        (STANDARD, [[1.0], [2.0]], {"method": "kernel", "kernel": mc.RBF(), "refit": True}, "must be an estimator"),
        (STANDARD, [[1.0]], {"n_simulations": 3}, "19 or more; got 3"),
        (STANDARD, [[1.0, 2.0]], {}, "2 coordinates"),
        (STANDARD, [], {}, "at least one|no data"),
        (STANDARD, [[1.0]], {"method": "kernel", "kernel": mc.RBF()}, "at least 2 objects; got 1"),
        (mc.Multinomials([[0.5, 0.5]]), [[1.5, 0.0]], {}, "whole numbers"),
    ],
)
def test_bad_input_gets_one_sentence(model, data, options, match):
    with pytest.raises((ValueError, TypeError), match=match):
        mc.stats.goodness_of_fit(model, data, **options)


def test_distance_is_the_sum_over_all_lengths():
    q = np.array([0.5, 0.8])
    chains = mc.MarkovChains([[0.5, 0.5]] * 2, [[[a, 1 - a], [1 - a, a]] for a in q], alphabet="ab")
    # sum over strings of p(x) q(x) for symmetric chains: 1/2 (a b + (1 - a)(1 - b))^(L - 1)
    step = q[:, None] * q + (1 - q[:, None]) * (1 - q)
    K = 0.1 / 2 / (1 - 0.9 * step)
    expected = np.sqrt(2 - 2 * K[0, 1] / np.sqrt(K[0, 0] * K[1, 1]))
    assert mc.stats.process_distance(chains)[0, 1] == pytest.approx(expected)
    assert mc.stats.process_distance(chains[:1], chains[1:]) == pytest.approx(expected)


def test_close_processes_are_told_apart():
    a, small = 0.5, 1e-6
    chains = mc.MarkovChains([[0.5, 0.5]] * 2, [[[b, 1 - b], [1 - b, b]] for b in (a, a + small)], alphabet="ab")
    # second order: the terms of the kernel are geometric in 1/2 + 2 (a - 1/2)(b - 1/2)
    ratio = 0.9 / (1 - 0.9 / 2)
    assert mc.stats.process_distance(chains)[0, 1] == pytest.approx(small * np.sqrt(2 * ratio), rel=1e-2)


def test_distance_takes_fitted_estimators_only():
    with pytest.raises(ValueError, match="not fitted"):
        mc.stats.process_distance(mc.MarkovChain(alphabet="ab"))
