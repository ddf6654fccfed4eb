"""Scores of single observations: they sum to the scores of sequences, and enumeration of hidden paths is the truth."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import sparse

import mercer as mc
from mercer.data.segments import segment_sum
from mercer.models.scores import score_rows
from mercer.models.step_scores import channel_shares, prefixes, step_scores

DNA = mc.Sequences(["ACGT", "GGNTA", "T", "NACNN"], alphabet="dna")
PLAIN = mc.Sequences(["ACGT", "GGTA", "TA"], alphabet="dna")
SERIES = mc.Sequences(
    [[[0.1, 1.0], [np.nan, np.nan], [0.7, -1.0]], [[0.3, 0.2], [1.5, np.nan]], [[0.0, 0.0]]], channels=["a", "b"]
)


def models():
    yield mc.HMM(2, smoothing=0.5), DNA
    yield mc.HMM(2, mc.Mixture(mc.Categorical(), 2)), DNA
    yield mc.MarkovChain(1, smoothing=1.0), DNA
    yield mc.MarkovChain(2, smoothing=1.0, end=True), PLAIN
    yield mc.MarkovChain(3, smoothing=1.0), PLAIN
    yield mc.Mixture(mc.Categorical(), 2), DNA
    yield mc.HMM(2, mc.Gaussian("diagonal")), SERIES
    yield mc.HMM(2), SERIES
    yield mc.LDS(1), SERIES


def fitted(estimator, X):
    kernel = mc.Fisher(estimator, information="identity").fit(X)
    return kernel.model_, kernel._source(kernel._admit(X, reset=False))


@pytest.mark.parametrize("parametrization", ["logit", "weight"])
@pytest.mark.parametrize(("estimator", "X"), list(models()), ids=range(9))
@pytest.mark.filterwarnings("ignore")
def test_steps_sum_to_the_score_of_the_sequence(estimator, X, parametrization):
    found, source = fitted(estimator, X)
    rows = step_scores(found, source, parametrization)
    rows = rows.toarray() if sparse.issparse(rows) else rows
    whole = score_rows(found, source, parametrization, "sequence")
    whole = whole.toarray() if sparse.issparse(whole) else whole
    np.testing.assert_allclose(segment_sum(rows, source.offsets), whole, atol=1e-9)


def test_hidden_paths_by_enumeration():
    initial, transition = np.array([0.3, 0.7]), np.array([[0.6, 0.4], [0.1, 0.9]])
    emission = np.array([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]])
    model = mc.HMMs(initial[None], transition[None], mc.Categoricals(emission[None], alphabet="abc"))
    codes = [0, 2, 2, 1]
    weight = {}
    for path in product(range(2), repeat=4):
        p = initial[path[0]] * emission[path[0], codes[0]]
        for t in range(1, 4):
            p *= transition[path[t - 1], path[t]] * emission[path[t], codes[t]]
        weight[path] = p
    total = sum(weight.values())
    expected = np.zeros((4, 2 + 4 + 6))
    for path, p in weight.items():
        expected[0, path[0]] += p / total
        expected[0, :2] -= p / total * initial
        for t, state in enumerate(path):
            if t:
                row = slice(2 + 2 * path[t - 1], 4 + 2 * path[t - 1])
                expected[t, 2 + 2 * path[t - 1] + state] += p / total
                expected[t, row] -= p / total * transition[path[t - 1]]
            row = slice(6 + 3 * state, 9 + 3 * state)
            expected[t, 6 + 3 * state + codes[t]] += p / total
            expected[t, row] -= p / total * emission[state]
    found = step_scores(model, mc.Sequences(["accb"], alphabet="abc"))
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_beginnings():
    assert list(prefixes(PLAIN)) == ["A", "AC", "ACG", "ACGT", "G", "GG", "GGT", "GGTA", "T", "TA"]


def test_channels_of_parameters():
    model = mc.Gaussians(np.zeros((1, 2)), np.eye(2)[None])
    shares = channel_shares(model, 2)
    assert shares.sum(axis=1).tolist() == [1.0] * len(shares)
    # means of the two channels; a variance, the covariance, a variance
    assert shares.tolist() == [[1, 0, 0], [0, 1, 0], [1, 0, 0], [0.5, 0.5, 0], [0, 1, 0]]
    chain, _ = fitted(mc.HMM(1, mc.Gaussian("diagonal")), SERIES)
    assert channel_shares(chain, 2)[:3].tolist() == [[0, 0, 1], [0, 0, 1], [1, 0, 0]]
