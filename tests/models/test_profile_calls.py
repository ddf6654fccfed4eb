"""Long calls of profile hidden Markov models are divided, so that an interrupt is answered; no bit depends on it."""

from __future__ import annotations

import numpy as np
import pytest
from tests.models.test_profile_hmm import random_profiles

from mercer import _native
from mercer._native import profiles as native

RNG = np.random.default_rng(0)
LONG = "".join(RNG.choice(list("ab"), 20_000))  # several blocks of rows
X = ["abba", LONG, "a", LONG[:500]]


def values(models):
    paths, odds = models.viterbi(X)
    return [models.log_odds(X), models.sequence_scores(X), odds, *(np.asarray(path) for path in paths)]


@pytest.fixture
def calls(monkeypatch):
    """Count the calls of each function."""
    counts = {}
    real = _native.Prepared.__call__

    def counted(self):
        counts[self._name] = counts.get(self._name, 0) + 1
        return real(self)

    monkeypatch.setattr(_native.Prepared, "__call__", counted)
    return counts


@pytest.mark.parametrize("options", [{}, {"mode": "uniglocal"}, {"mode": "glocal", "insertion": "model"}])
def test_divided_calls_give_the_same_bits(options, monkeypatch, calls):
    models = random_profiles((3,), **options)
    whole = values(models)
    before = dict(calls)
    monkeypatch.setattr(native, "LONG_CALL", 0.0)
    for found, expected in zip(values(models), whole, strict=True):
        np.testing.assert_array_equal(found, expected)
    assert calls["profiles"] - before["profiles"] > 300 + before["profiles"]
    assert calls["profile_paths"] - before["profile_paths"] > 5


def test_divided_calls_of_unlimited_range(monkeypatch, calls):
    models = random_profiles((3,), mode="uniglocal")
    with monkeypatch.context() as patch:
        patch.setattr("mercer.models._profile.inference._needs_range", lambda profile: True)
        ranged = models.log_odds(X), models.sequence_scores(X)
        patch.setattr(native, "LONG_CALL", 0.0)
        for found, expected in zip((models.log_odds(X), models.sequence_scores(X)), ranged, strict=True):
            np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(models.log_odds(X), ranged[0], rtol=1e-12)


def test_numbers_that_floats_lose_are_computed_again_in_divided_calls(monkeypatch):
    """Gaps of 1e-300 are lost by plain numbers: sequences that need them are computed twice."""
    from tests.reference.profile_cases import profiles

    models, data = profiles(6, mode="uniglocal", tiny=1e-160), ["ACGTAC", "ACG", "ACGTACGT" * 20, "A"]
    whole = models.log_odds(data), models.sequence_scores(data)
    monkeypatch.setattr("mercer.models._profile.inference._needs_range", lambda profile: False)
    monkeypatch.setattr(native, "LONG_CALL", 0.0)
    np.testing.assert_allclose(models.log_odds(data), whole[0], rtol=1e-12)
    np.testing.assert_allclose(models.sequence_scores(data), whole[1], rtol=1e-9, atol=1e-9)


def test_one_long_sequence_takes_several_calls(calls):
    """A call is a quarter of a second; 100 million cells are divided."""
    text = LONG * 5
    models = random_profiles((1000,))
    models.log_odds([text])
    assert calls["profiles"] > 1
