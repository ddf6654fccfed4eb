"""Forward, backward and the best path against enumeration, loops in the log domain, and where numbers run out."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mercer as mc
from mercer._native import forward as native
from mercer.models._forward import interface
from mercer.models._forward import interface as _shared_work
from mercer.models._forward.interface import Densities, Runs, Symbols, expectations, log_likelihoods, paths


def log(x):
    with np.errstate(divide="ignore"):
        return np.log(x)


def slow(initial, transition, table):
    """Log probability, posteriors and expected transitions of one run: plain loops of logaddexp."""
    length, n = table.shape
    if length == 0:
        return 0.0, np.zeros((0, n)), np.zeros((n, n))
    first, step = log(initial), log(transition)
    alpha, beta = np.empty((length, n)), np.zeros((length, n))
    with np.errstate(invalid="ignore"):
        alpha[0] = first + table[0]
        for t in range(1, length):
            alpha[t] = np.logaddexp.reduce(alpha[t - 1][:, None] + step, axis=0) + table[t]
        for t in range(length - 2, -1, -1):
            beta[t] = np.logaddexp.reduce(step + table[t + 1] + beta[t + 1], axis=1)
    total = np.logaddexp.reduce(alpha[-1])
    if total == -np.inf:
        return total, np.zeros((length, n)), np.zeros((n, n))
    pairs = np.zeros((n, n))
    for t in range(length - 1):
        pairs += np.exp(alpha[t][:, None] + step + table[t + 1] + beta[t + 1] - total)
    return total, np.exp(alpha + beta - total), pairs


def log_table(evidence, runs, s):
    rows = slice(runs.start[s], runs.start[s] + runs.length[s])
    if isinstance(evidence, Densities):
        return evidence.log_density[rows]
    return log(evidence.probability[runs.model[s]][:, evidence.codes[rows]]).T


def check(initial, transition, evidence, runs, tolerance=1e-9):
    """Compare everything with the slow loops."""
    found = expectations(initial, transition, evidence, runs, states=True)
    values = log_likelihoods(initial, transition, evidence, runs)
    for s, model in enumerate(runs.model):
        total, posterior, pairs = slow(initial[model], transition[model], log_table(evidence, runs, s))
        assert values[s] == pytest.approx(total, rel=tolerance, abs=tolerance)
        assert found.log_prob[s] == pytest.approx(total, rel=tolerance, abs=tolerance)
        rows = slice(runs.start[s], runs.start[s] + runs.length[s])
        np.testing.assert_allclose(found.states[rows], posterior, atol=tolerance)
        np.testing.assert_allclose(found.visits[s], posterior.sum(axis=0), rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(found.transitions[s], pairs, rtol=tolerance, atol=tolerance)
        if runs.length[s]:
            np.testing.assert_allclose(found.first[s], posterior[0], atol=tolerance)
        else:
            assert not found.first[s].any()
        if isinstance(evidence, Symbols):
            counts = np.zeros_like(found.symbols[s])
            np.add.at(counts.T, evidence.codes[rows], posterior)
            np.testing.assert_allclose(found.symbols[s], counts, rtol=tolerance, atol=tolerance)
    return found


def problem(seed, n, lengths, *, own=True, codes=0, spread=2.0):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    count = len(lengths) if own else 1
    runs = Runs.own(offsets) if own else Runs.shared(offsets)
    initial, transition = rng.dirichlet(np.ones(n), count), rng.dirichlet(np.ones(n), (count, n))
    if codes:
        evidence = Symbols(rng.integers(0, codes, offsets[-1]), rng.dirichlet(np.ones(codes), (count, n)))
    else:
        evidence = Densities(rng.normal(scale=spread, size=(offsets[-1], n)))
    return initial, transition, evidence, runs


def flat(found):
    return [x for x in found if x is not None]


# -- truth ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codes", [0, 3])
def test_enumeration_of_all_hidden_paths(codes):
    initial, transition, evidence, runs = problem(3, 3, [4, 1, 0, 5, 2], codes=codes)
    found = expectations(initial, transition, evidence, runs, states=True)
    best, value = paths(initial, transition, evidence, runs)
    for s, length in enumerate(runs.length):
        table = log_table(evidence, runs, s)
        total, posterior, pairs = 0.0, np.zeros((length, 3)), np.zeros((3, 3))
        most, top = None, -math.inf
        for path in itertools.product(range(3), repeat=int(length)):
            weight = initial[s][path[0]] if path else 1.0
            for t, state in enumerate(path):
                weight *= math.exp(table[t, state]) * (transition[s][path[t - 1], state] if t else 1.0)
            total += weight
            posterior[np.arange(length), list(path)] += weight
            for i, j in itertools.pairwise(path):
                pairs[i, j] += weight
            if weight > top:
                most, top = path, weight
        assert found.log_prob[s] == pytest.approx(math.log(total), rel=1e-12, abs=1e-12)
        rows = slice(runs.start[s], runs.start[s] + length)
        np.testing.assert_allclose(found.states[rows], posterior / total, atol=1e-12)
        np.testing.assert_allclose(found.transitions[s], pairs / total, atol=1e-12)
        assert tuple(best[rows]) == most
        assert value[s] == pytest.approx(math.log(top), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 9, 17, 20, 21, 25])
@pytest.mark.parametrize("codes", [0, 4])
def test_loops_in_the_log_domain(n, codes):
    check(*problem(n, n, [7, 0, 1, 40, 2, 3, 5, 4, 33, 6, 1, 70], codes=codes, own=n % 2 == 0))


@given(st.integers(1, 5), st.integers(1, 20), st.integers(0, 10**6))
def test_no_path_beats_the_best_and_all_together_do(n, length, seed):
    initial, transition, evidence, runs = problem(seed, n, [length])
    states, value = paths(initial, transition, evidence, runs)
    table = evidence.log_density
    joint = math.log(initial[0, states[0]]) + table[np.arange(length), states].sum()
    joint += np.log(transition[0, states[:-1], states[1:]]).sum()
    assert value[0] == pytest.approx(joint, rel=1e-11, abs=1e-11)
    total = log_likelihoods(initial, transition, evidence, runs)[0]
    assert value[0] <= total + 1e-9
    assert total <= value[0] + length * math.log(n) + 1e-9
    other = np.random.default_rng(seed).integers(0, n, length)
    weight = math.log(initial[0, other[0]]) + table[np.arange(length), other].sum()
    assert weight + np.log(transition[0, other[:-1], other[1:]]).sum() <= value[0] + 1e-9


def test_crossed_runs_are_every_pair():
    initial, transition, evidence, _ = problem(2, 3, [6, 3, 8], codes=4)
    offsets = np.array([0, 6, 9, 17])
    crossed = log_likelihoods(initial, transition, evidence, Runs.crossed(offsets, 3)).reshape(3, 3)
    for i in range(3):
        own = log_likelihoods(
            initial[i : i + 1], transition[i : i + 1], evidence._replace(probability=evidence.probability[i : i + 1]),
            Runs.shared(offsets),
        )  # fmt: skip
        np.testing.assert_array_equal(crossed[i], own)


def test_nothing_and_empty_runs():
    initial, transition = np.ones((1, 1)), np.ones((1, 1, 1))
    none = Runs.shared(np.array([0]))
    assert log_likelihoods(initial, transition, Densities(np.empty((0, 1))), none).shape == (0,)
    assert expectations(initial, transition, Densities(np.empty((0, 1))), none).transitions.shape == (0, 1, 1)
    empty = Runs.shared(np.array([0, 0, 0]))
    found = expectations(initial, transition, Densities(np.empty((0, 1))), empty, states=True)
    np.testing.assert_array_equal(found.log_prob, [0.0, 0.0])
    assert not found.visits.any()
    states, value = paths(initial, transition, Densities(np.zeros((3, 1))), Runs(*np.array([[1], [1], [0]])))
    np.testing.assert_array_equal(states, [-1, 0, -1])
    assert value[0] == 0.0


# -- the same bits ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_bits_do_not_depend_on_rare_codes_of_neighbours():
    """Few codes are looked up and counted in the lanes, many one by one: a group with one rare code takes that way."""
    initial, transition, evidence, runs = problem(4, 3, [30] * 32, codes=90)
    codes = evidence.codes % 3
    codes[-1] = 89
    evidence = evidence._replace(codes=codes)
    whole = expectations(initial, transition, evidence, runs, states=True)
    check(initial, transition, evidence, runs)
    codes[-1] = 2
    part = expectations(initial, transition, evidence, runs, states=True)
    for a, b in zip(flat(part), flat(whole), strict=True):
        np.testing.assert_array_equal(a[: 31 * (30 if len(a) > 32 else 1)], b[: 31 * (30 if len(b) > 32 else 1)])


@pytest.mark.parametrize("codes", [0, 4])
def test_bits_do_not_depend_on_threads(codes, monkeypatch):
    monkeypatch.setattr(_shared_work, "CHUNK_SECONDS", 0.0)  # threads for everything
    monkeypatch.setattr(interface, "CHUNK_SECONDS", 1e-6)  # in pieces
    initial, transition, evidence, runs = problem(8, 3, np.arange(100), codes=codes)
    # Some runs need numbers of a wider range.
    transition[::5, 0, 1], transition[::5, 1, 0] = 1e-250, 0.0
    initial[::5] = np.eye(3)[0]
    results = []
    for jobs in (1, 2):
        with mc.config(n_jobs=jobs):
            found = expectations(initial, transition, evidence, runs, states=True)
            best, value = paths(initial, transition, evidence, runs)
            results.append([*flat(found), log_likelihoods(initial, transition, evidence, runs), best, value])
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)


# -- where numbers run out --------------------------------------------------------------------------------


@pytest.mark.slow
def test_impossible_runs_beside_possible_ones():
    initial = np.array([[1.0, 0.0]])
    transition = np.array([[[1.0, 0.0], [0.5, 0.5]]])
    table = log(np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 1.0], [0.5, 0.5], [0.0, 0.0]]))
    runs = Runs.shared(np.array([0, 2, 4, 5, 6]))
    found = check(initial, transition, Densities(table), runs)
    np.testing.assert_allclose(found.log_prob, [0.0, -np.inf, math.log(0.5), -np.inf])
    assert not found.visits[1].any()
    assert not found.states[2:4].any()
    assert paths(initial, transition, Densities(table), runs)[1][1] == -np.inf


def test_impossible_symbols():
    probability = np.array([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    runs = Runs.shared(np.array([0, 3, 5]))
    found = check(np.full((1, 2), 0.5), np.full((1, 2, 2), 0.5), Symbols(np.array([0, 1, 2, 0, 1]), probability), runs)
    np.testing.assert_allclose(found.log_prob, [-np.inf, math.log(1 / 16) + math.log(4)])
    assert not found.symbols[0].any()


def test_likely_states_that_cannot_be_reached():
    """The best state is e^800 times likelier but closed: the others must not vanish beside it."""
    initial = np.array([[1.0, 0.0]])
    transition = np.eye(2)[None]
    table = np.tile([-800.0, 0.0], (3, 1))
    found = check(initial, transition, Densities(table), Runs.shared(np.array([0, 3])))
    assert found.log_prob[0] == pytest.approx(-2400, rel=1e-12)


@pytest.mark.parametrize("scale", [1e2, 1e4, 1e6])
def test_densities_far_below_the_range_of_floats(scale):
    initial, transition, evidence, runs = problem(4, 4, [50, 3, 1, 90], own=False)
    # Logarithms of this size have no more digits after the point: the slow loops neither.
    check(initial, transition, Densities(evidence.log_density * scale - scale), runs, max(1e-9, 1e-13 * scale))


@pytest.mark.parametrize("tiny", [1e-30, 1e-150, 1e-300])
@pytest.mark.parametrize("lost", [10.0, 300.0, 700.0])
def test_a_tiny_transition_that_decides(tiny, lost):
    """Half-way the other state becomes better, by more or less than the way there costs."""
    initial, transition = np.array([[1.0, 0.0]]), np.array([[[1.0, tiny], [tiny, 1.0]]])
    length = 40
    table = np.zeros((length, 2))
    table[length // 2 :, 0] = -2 * lost / length
    check(initial, transition, Densities(table), Runs.shared(np.array([0, length])))
    table[: length // 2, 1] = -800.0  # the likely state can be reached by the tiny step alone
    check(initial, transition, Densities(table), Runs.shared(np.array([0, length])))


@given(
    st.integers(1, 5), st.integers(1, 60), st.sampled_from([1.0, 30.0, 320.0]), st.floats(0, 300), st.integers(0, 10**6)
)
def test_weights_of_any_size(n, length, tiny, spread, seed):
    """Sparse models with probabilities down to 1e-320 and states that win and lose for a while."""
    rng = np.random.default_rng(seed)
    initial, transition, _, runs = problem(seed, n, [length], own=False)
    initial *= 10.0 ** -rng.uniform(0, tiny, initial.shape) * (rng.random(initial.shape) < 0.7)
    transition *= 10.0 ** -rng.uniform(0, tiny, transition.shape) * (rng.random(transition.shape) < 0.6)
    table = np.repeat(rng.normal(scale=spread, size=(8, n)), 8, axis=0)[:length]
    check(initial, transition, Densities(table), runs)
    table = np.exp(table - table.max(axis=1, keepdims=True))
    check(initial, transition, Symbols(np.arange(length), table.T[None]), runs)


def plain_is_sound(*problem):
    """Whether the results, forward only and both ways, are those of plain numbers: of a pass that trusts them all."""
    found = [*flat(expectations(*problem)), log_likelihoods(*problem)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "TRUSTED", math.inf)
        plain = [*flat(expectations(*problem)), log_likelihoods(*problem)]
    return all(np.array_equal(a, b) for a, b in zip(found, plain, strict=True))


def test_a_mixture_of_chains_that_comes_back():
    """Block-diagonal: what is lost beyond the range of floats in one half returns in the other."""
    length = 100_000
    initial, transition = np.array([[0.5, 0.3, 0.2]]), np.array([[[0.9, 0.1, 0.0], [0.2, 0.8, 0.0], [0.0, 0.0, 1.0]]])
    runs = Runs.shared(np.array([0, length]))
    table = np.random.default_rng(0).normal(size=(length, 3))
    for back in (-10.0, 0.0, 10.0):
        table[:, 2] = 0.0
        evidence = Densities(table)
        inside = log_likelihoods(
            initial[:, :2] / 0.8, transition[:, :2, :2], Densities(np.ascontiguousarray(table[:, :2])), runs
        )[0]
        # The third state is worse by far in the first half, better in the second, and in the end by e^back.
        table[: length // 2, 2] = -5.0
        table[length // 2 :, 2] = 5.0 + (inside + back) / (length - length // 2)
        found = expectations(initial, transition, evidence, runs, states=True)
        other = math.log(0.2) + table[:, 2].sum()
        total = np.logaddexp(math.log(0.8) + inside, other)
        assert found.log_prob[0] == pytest.approx(total, rel=1e-12)
        assert log_likelihoods(initial, transition, evidence, runs)[0] == pytest.approx(total, rel=1e-12)
        np.testing.assert_allclose(found.states[:, 2], math.exp(other - total), rtol=1e-9)


def test_lost_before_and_lost_after():
    """A state loses beyond the range, gains twice as much, and loses again: forward and backward both forget it.

    It ends far ahead, and no scaled weight that is kept says so.
    """
    initial, transition = np.full((1, 2), 0.5), np.eye(2)[None]
    table = np.zeros((120, 2))
    table[:40, 1], table[40:80, 1], table[80:, 1] = -30.0, 60.0, -29.0
    found = check(initial, transition, Densities(table), Runs.shared(np.array([0, 120])))
    np.testing.assert_allclose(found.states[:, 1], 1.0, rtol=1e-12)


def test_a_closed_state_that_would_explain_everything():
    """Its backward weights overflow, but nobody can be there."""
    initial, transition = np.array([[0.5, 0.5, 0.0]]), np.array([[[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.3, 0.3, 0.4]]])
    table = np.random.default_rng(1).normal(size=(300, 3))
    table[:, 2] += 50.0
    check(initial, transition, Densities(table), Runs.shared(np.array([0, 300])))


def test_a_long_left_right_chain():
    rng = np.random.default_rng(2)
    n, length = 6, 1_200
    transition = np.triu(np.tril(np.full((n, n), 0.01), 1)) + np.diag(np.full(n, 0.98))
    transition /= transition.sum(axis=1, keepdims=True)
    means = np.arange(n) * 8.0
    x = means[np.arange(length) * n // length] + rng.normal(size=length)
    table = -0.5 * (x[:, None] - means) ** 2
    runs = Runs.shared(np.array([0, length]))
    check(np.eye(n)[:1], transition[None], Densities(table), runs)
    assert plain_is_sound(np.eye(n)[:1], transition[None], Densities(table), runs)  # weights underflow, harmlessly


def test_a_hundred_thousand_observations():
    rng = np.random.default_rng(11)
    transition, initial = rng.dirichlet(np.ones(2), (1, 2)), np.full((1, 2), 0.5)
    row = rng.normal(size=2) - 5
    runs = Runs.shared(np.array([0, 100_000]))
    evidence = Densities(np.tile(row, (100_000, 1)))
    values, vectors = np.linalg.eig(transition[0] * np.exp(row))
    top = np.argmax(values)
    weight = (initial[0] * np.exp(row) @ vectors[:, top]) * np.linalg.solve(vectors, np.ones(2))[top]
    want = 99_999 * math.log(values[top]) + math.log(weight)
    assert log_likelihoods(initial, transition, evidence, runs)[0] == pytest.approx(want, rel=1e-12)
    found = expectations(initial, transition, evidence, runs)
    assert found.log_prob[0] == pytest.approx(want, rel=1e-12)
    assert found.visits[0].sum() == pytest.approx(100_000, rel=1e-9)
    assert found.transitions[0].sum() == pytest.approx(99_999, rel=1e-9)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_no_density_is_said(bad):
    initial, transition, evidence, runs = problem(0, 3, [4, 5, 6], own=False)
    evidence.log_density[6, 1] = bad
    for ask in (log_likelihoods, expectations, paths):
        with pytest.raises(ValueError, match="sequence 1 is NaN or"):
            ask(initial, transition, evidence, runs)
