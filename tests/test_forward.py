"""The forward algorithm against enumeration, and where numbers run out."""

import itertools
import math

import numpy as np
import pytest

from mercer.models._forward import forward_log_prob


def enumerated(initial, transition, table):
    total = 0.0
    for path in itertools.product(range(initial.size), repeat=table.shape[1]):
        weight = initial[path[0]] if path else 1.0
        for t, state in enumerate(path):
            weight *= math.exp(table[state, t]) * (transition[path[t - 1], state] if t else 1.0)
        total += weight
    return math.log(total) if total else -math.inf


@pytest.fixture
def rng():
    return np.random.default_rng(11)


def test_enumeration_on_ragged_sequences(rng):
    initial, transition = rng.dirichlet(np.ones(3), 4), rng.dirichlet(np.ones(3), (4, 3))
    offsets = np.array([0, 2, 2, 6, 7, 12, 12])
    table = rng.normal(size=(4, 3, 12))
    result = forward_log_prob(initial, transition, table, offsets)
    for i, s in itertools.product(range(4), range(6)):
        piece = table[i][:, offsets[s] : offsets[s + 1]]
        assert result[i, s] == pytest.approx(enumerated(initial[i], transition[i], piece), rel=1e-12, abs=1e-12)


def test_empty_sequences_and_no_sequences(rng):
    initial, transition = np.ones((2, 1)), np.ones((2, 1, 1))
    empty = forward_log_prob(initial, transition, np.empty((2, 1, 0)), np.array([0, 0, 0]))
    np.testing.assert_array_equal(empty, np.zeros((2, 2)))
    assert forward_log_prob(initial, transition, np.empty((2, 1, 0)), np.array([0])).shape == (2, 0)


def test_impossible_sequences():
    initial = np.array([[1.0, 0.0]])
    transition = np.array([[[1.0, 0.0], [0.5, 0.5]]])
    with np.errstate(divide="ignore"):
        table = np.log(np.array([[[1.0, 1.0, 0.0, 1.0, 0.5], [0.0, 1.0, 1.0, 1.0, 0.5]]]))
    result = forward_log_prob(initial, transition, table, np.array([0, 2, 4, 5]))
    np.testing.assert_allclose(result, [[0.0, -np.inf, math.log(0.5)]], atol=1e-15)
    nowhere = forward_log_prob(initial, transition, np.full((1, 2, 3), -np.inf), np.array([0, 3]))
    assert nowhere[0, 0] == -np.inf


def test_likely_states_that_cannot_be_reached():
    """The best state is e^800 times likelier but closed: the others must not vanish beside it."""
    initial = np.array([[1.0, 0.0]])
    transition = np.array([[[1.0, 0.0], [0.0, 1.0]]])
    table = np.array([[[-800.0] * 3, [0.0] * 3]])
    assert forward_log_prob(initial, transition, table, np.array([0, 3]))[0, 0] == pytest.approx(-2400, rel=1e-12)


def test_a_hundred_thousand_observations(rng):
    transition = rng.dirichlet(np.ones(2), (1, 2))
    table = np.tile(rng.normal(size=(1, 2, 1)) - 5, (1, 1, 100_000))
    initial = np.full((1, 2), 0.5)
    result = forward_log_prob(initial, transition, table, np.array([0, 100_000]))[0, 0]
    operator = transition[0] * np.exp(table[0, :, 0])
    values, vectors = np.linalg.eig(operator)
    top = np.argmax(values)
    start = initial[0] * np.exp(table[0, :, 0])
    weight = (start @ vectors[:, top]) * np.linalg.solve(vectors, np.ones(2))[top]
    assert result == pytest.approx(99_999 * math.log(values[top]) + math.log(weight), rel=1e-9)


def test_probabilities_of_all_strings_sum_to_one(rng):
    initial, transition = rng.dirichlet(np.ones(3), 1), rng.dirichlet(np.ones(3), (1, 3))
    emission = rng.dirichlet(np.ones(2), 3)
    strings = np.array(list(itertools.product(range(2), repeat=5)))
    table = np.log(emission[:, strings.ravel()])[None]
    result = forward_log_prob(initial, transition, table, np.arange(0, strings.size + 1, 5))
    assert np.exp(result).sum() == pytest.approx(1.0, rel=1e-12)
