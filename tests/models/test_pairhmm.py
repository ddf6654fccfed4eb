"""Pair HMMs with silent visits (MK-5): enumeration, closure, identities, range, scores, samples, bad input."""

import functools
import itertools
import pickle

import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln, logsumexp

import mercer as mc
from mercer._native.pairs import log_kernels
from mercer.kernels.marginalization import Marginalization
from mercer.models._pairs.elimination import eliminate, expected_visits
from mercer.models._pairs.general import GeneralMachine, Parameters, expected_counts
from mercer.models.pairhmm import PairHMMs


def strings(longest, letters="ab"):
    return ["".join(s) for n in range(longest + 1) for s in itertools.product(letters, repeat=n)]


def cyclic(seed=0, n=3, letters="ab", stop=0.3, zeros=0.0):
    """A random model whose trajectories are short."""
    rng = np.random.default_rng(seed)
    first, step = rng.dirichlet(np.ones(n + 1)), rng.dirichlet(np.ones(n), n)
    step = np.where(rng.random((n, n)) < zeros, 0.0, step) + 1e-3 * np.eye(n)
    step *= (1 - stop) / step.sum(axis=1, keepdims=True)
    letter = rng.dirichlet(np.ones(len(letters)), (1, n))
    emission = mc.Categoricals(letter, alphabet=letters)
    silent = rng.uniform(0.05, 0.6, (1, n))
    return PairHMMs(first[None, :n], step[None], np.full((1, n), stop), emission, silent, first[None, n])


def acyclic(seed=0, n=3):
    """A random model whose states are visited once at most, in their order."""
    rng = np.random.default_rng(seed)
    step = np.triu(rng.random((n, n)), 1)
    stop = rng.uniform(0.2, 1.0, n)
    total = step.sum(axis=1) + stop
    first = rng.dirichlet(np.ones(n + 1))
    emission = mc.Categoricals(rng.dirichlet(np.ones(2), (1, n)), alphabet="ab")
    silent = rng.uniform(0.1, 0.6, (1, n))
    return PairHMMs(
        first[None, :n], (step / total[:, None])[None], (stop / total)[None], emission, silent, first[None, n]
    )


def trajectories(model):
    """Every trajectory of an acyclic model, and its probability."""
    n = model.n_states
    yield (), float(model.empty[0])
    for size in range(1, n + 1):
        for path in itertools.combinations(range(n), size):
            p = model.initial[0, path[0]] * model.stop[0, path[-1]]
            for a, b in itertools.pairwise(path):
                p *= model.transition[0, a, b]
            yield path, float(p)


def placements(model, path, s):
    """Every way in which a trajectory writes a string: the visits that write it, and the probability."""
    letter, silent = model.emission.probability[0], model.silent[0]
    for visits in itertools.combinations(range(len(path)), len(s)):
        p = 1.0
        for place, a in enumerate(path):
            if place in visits:
                p *= (1 - silent[a]) * letter[a, model.alphabet.encode(s[visits.index(place)])[0]]
            else:
                p *= silent[a]
        yield visits, p


def enumerated(model, X):
    """Kernel of all pairs by a sum over trajectories, each string's placements by themselves."""
    K = np.zeros((len(X), len(X)))
    for path, p in trajectories(model):
        written = np.array([sum(q for _, q in placements(model, path, s)) for s in X])
        K += p * np.outer(written, written)
    return K


def expanded(model, X, visits=120):
    """Kernel of all pairs by time expansion: visit after visit, silent ones too, without any elimination."""
    n = model.n_states
    codes = [model.alphabet.encode(s) for s in X]
    longest = max(len(c) for c in codes)
    table = (1 - model.silent[0])[:, None] * model.emission.probability[0]
    emits = np.zeros((len(X), longest + 1, n))  # weight of writing symbol i of string x
    for x, c in enumerate(codes):
        emits[x, : len(c)] = table[:, c].T
    T, stop, silent = model.transition[0], model.stop[0], model.silent[0]
    weight = np.zeros((len(X), len(X), longest + 1, longest + 1, n))
    weight[:, :, 0, 0] = model.initial[0]  # of entering a state
    ends = np.array([len(c) for c in codes])
    K = np.where(np.add.outer(ends, ends) == 0, model.empty[0], 0.0)
    for _ in range(visits):
        s, t = emits[:, None, :, None, :], emits[None, :, None, :, :]
        been = weight * silent**2
        been[:, :, 1:, :] += (weight * s * silent)[:, :, :-1, :]
        been[:, :, :, 1:] += (weight * t * silent)[:, :, :, :-1]
        been[:, :, 1:, 1:] += (weight * s * t)[:, :, :-1, :-1]
        K += (been @ stop)[np.arange(len(X))[:, None], np.arange(len(X)), ends[:, None], ends]
        weight = been @ T
    return K


def kernel(model, X):
    X = mc.Sequences(X, alphabet=model.alphabet)
    operand = model.shared_history(X)
    return np.exp(operand.pair(operand))


def log_domain(model, s, t):
    """One log kernel by the closure DP in logarithms."""
    n = model.n_states
    T, stop, silent = model.transition[0], model.stop[0], model.silent[0]
    closure = np.linalg.inv(np.eye(n) - T @ np.diag(silent**2))
    with np.errstate(divide="ignore"):
        emits = np.log((1 - silent)[:, None] * model.emission.probability[0])
        logs = [np.log(x) for x in (T, closure, stop, silent, model.initial[0])]
    T, closure, stop, silent, first = logs

    def times(row, matrix):
        return logsumexp(row[:, None] + matrix, axis=0)

    sources = {}
    for i in range(len(s) + 1):
        for j in range(len(t) + 1):
            terms = [np.full(n, -np.inf)]
            if i + j == 0:
                terms.append(first + 2 * silent)
            if i:
                terms.append(sources[i - 1, j] + emits[:, s[i - 1]] + silent)
            if j:
                terms.append(sources[i, j - 1] + emits[:, t[j - 1]] + silent)
            if i and j:
                terms.append(sources[i - 1, j - 1] + emits[:, s[i - 1]] + emits[:, t[j - 1]])
            F = times(logsumexp(terms, axis=0), closure)
            source = times(F, T)
            sources[i, j] = np.logaddexp(source, first) if i + j == 0 else source
    return logsumexp(F + stop)


# -- values ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_enumeration_of_trajectories_and_placements(seed):
    model, X = acyclic(seed), strings(4)
    K = kernel(model, X)
    np.testing.assert_allclose(K, enumerated(model, X), rtol=1e-13, atol=0)
    assert np.all(K[15:] == 0)  # three visits write no string of four
    np.testing.assert_allclose(K.sum(), 1, rtol=1e-13)
    np.testing.assert_allclose(K.sum(axis=1), np.exp(model.log_prob(X)[0]), rtol=1e-13, atol=0)


@pytest.mark.parametrize(("seed", "n", "zeros"), [(0, 1, 0.0), (1, 2, 0.0), (2, 3, 0.5)])
def test_time_expansion(seed, n, zeros):
    model, X = cyclic(seed, n, zeros=zeros), strings(4)
    np.testing.assert_allclose(kernel(model, X), expanded(model, X), rtol=1e-12, atol=1e-16)


def test_elimination_is_the_closure_and_its_rows_sum_to_one():
    model = cyclic(4, 5, zeros=0.4)
    parameters = Parameters.of(model, 0)
    T, stop, eps, first = parameters.transition[:, :5], parameters.transition[:, 5], parameters.silent, model.initial[0]
    for found, D, kept in (
        (GeneralMachine.for_two(parameters).eliminated, eps**2, np.ones(5)),
        (GeneralMachine.for_one(parameters).eliminated, eps, 1 - eps),
    ):
        closure = np.linalg.inv(np.eye(5) - T @ np.diag(D))
        np.testing.assert_allclose(found.step[:, :5], closure @ T * kept, rtol=1e-13, atol=1e-18)
        np.testing.assert_allclose(found.step[:, 5], closure @ stop, rtol=1e-13)
        start = (first + first * D @ closure @ T) * kept
        np.testing.assert_allclose(found.start, np.append(start, model.empty[0] + first * D @ closure @ stop))
        loud = np.where(kept == 1, 1 - D, 1.0)  # weights of emissions that have their own
        np.testing.assert_allclose(found.step @ np.append(loud, 1), 1, rtol=1e-14)
        np.testing.assert_allclose(found.start @ np.append(loud, 1), 1, rtol=1e-14)


def test_elimination_keeps_digits_where_nearly_everything_is_silent():
    step, quiet, loud = np.array([[1 - 1e-12, 1e-12]]), np.array([1 - 1e-13]), np.array([1e-13])
    found = eliminate(np.array([1.0, 0.0]), step, quiet, loud, np.ones(1))
    leave = 1e-12 + (1 - 1e-12) * 1e-13  # stop, or emit: an inverse would know three digits of it
    np.testing.assert_allclose(found.step[0], [(1 - 1e-12) / leave, 1e-12 / leave], rtol=1e-12)


def one_state(goes_on, silent, p):
    return PairHMMs([[1.0]], [[[goes_on]]], [[1 - goes_on]], mc.Categoricals([[p]], alphabet="ab"), [[silent]])


def test_unrolled_chain_without_silent_visits_is_the_fixed_length_kernel():
    rng = np.random.default_rng(6)
    p, length = 2, 4
    first, step = rng.dirichlet(np.ones(p)), rng.dirichlet(np.ones(p), p)
    letter = rng.dirichlet(np.ones(2), p)
    n = p * length
    T, stop = np.zeros((n, n)), np.zeros(n)
    for t in range(length - 1):
        T[t * p : (t + 1) * p, (t + 1) * p : (t + 2) * p] = step
    stop[-p:] = 1.0
    initial = np.append(first, np.zeros(n - p))
    emission = mc.Categoricals(np.tile(letter, (length, 1))[None], alphabet="ab")
    model = PairHMMs(initial[None], T[None], stop[None], emission, np.zeros((1, n)))
    X = ["".join(s) for s in itertools.product("ab", repeat=length)]

    def fixed(s, t):  # MK-4
        f = first * letter[:, s[0]] * letter[:, t[0]]
        for a, b in zip(s[1:], t[1:], strict=True):
            f = f @ step * letter[:, a] * letter[:, b]
        return f.sum()

    codes = [model.alphabet.encode(s) for s in X]
    np.testing.assert_allclose(kernel(model, X), [[fixed(s, t) for t in codes] for s in codes], rtol=1e-13)
    assert kernel(model, ["aaaa", "aaa"])[0, 1] == 0


def test_ambiguity_codes_are_sums_on_each_side():
    model = cyclic(7, 3, "ACGT")
    model = PairHMMs(
        model.initial,
        model.transition,
        model.stop,
        mc.Categoricals(model.emission.probability, "dna"),
        model.silent,
        model.empty,
    )
    K = kernel(model, ["ARN", "AG"])
    readings = [f"A{r}{n}" for r in "AG" for n in "ACGT"]
    full = kernel(model, [*readings, "AG"])
    np.testing.assert_allclose(K[0, 0], full[:8, :8].sum(), rtol=1e-13)
    np.testing.assert_allclose(K[0, 1], full[:8, 8].sum(), rtol=1e-13)
    np.testing.assert_allclose(
        np.exp(model.log_prob(["ARN"])[0, 0]), np.exp(model.log_prob(readings)[0]).sum(), rtol=1e-13
    )


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 3), st.sampled_from([0.02, 0.3, 0.9]), st.sampled_from([0.0, 0.6]))
def test_psd_on_all_strings_up_to_length_five(seed, n, stop, zeros):
    X = mc.Sequences(strings(5), alphabet="ab")
    operand = cyclic(seed, n, stop=stop, zeros=zeros).shared_history(X)
    logs = operand.pair(operand)
    own = np.diag(logs)
    K = np.exp(logs - (own[:, None] + own) / 2)
    assert np.array_equal(logs, logs.T)
    assert np.linalg.eigvalsh(K)[0] > -1e-12 * len(X)


# -- the range ---------------------------------------------------------------------------------------------


def test_five_thousand_by_five_thousand():
    silent, goes_on, length = 0.2, 0.999, 5000
    model = one_state(goes_on, silent, [0.5, 0.5])
    m = np.arange(length, 60_000, dtype=float)
    binomial = gammaln(m + 1) - gammaln(length + 1) - gammaln(m - length + 1)
    written = binomial + length * np.log(1 - silent) + (m - length) * np.log(silent)
    expected = logsumexp(np.log(1 - goes_on) + (m - 1) * np.log(goes_on) + 2 * written) + 2 * length * np.log(0.5)
    X = mc.Sequences.from_codes(np.random.default_rng(0).integers(0, 2, (2, length)), "ab")
    operand = model.shared_history(X)
    np.testing.assert_allclose(operand[:1].pair(operand[1:]), expected, rtol=1e-10)


@pytest.mark.slow
def test_long_strings_against_logarithms():
    model, rng = cyclic(8, 3, stop=0.01, zeros=0.3), np.random.default_rng(1)
    X = mc.Sequences([rng.integers(0, 2, 60), rng.integers(0, 2, 45), rng.integers(0, 2, 7)], alphabet=range(2))
    model = PairHMMs(
        model.initial,
        model.transition,
        model.stop,
        mc.Categoricals(model.emission.probability),
        model.silent,
        model.empty,
    )
    operand = model.shared_history(X)
    logs = operand.pair(operand)
    for i, j in ((0, 1), (2, 0), (1, 1)):
        np.testing.assert_allclose(logs[i, j], log_domain(model, list(X[i]), list(X[j])), rtol=1e-12)


def wide(model, X):
    size = len(X)
    first, second = np.repeat(np.arange(size), size), np.tile(np.arange(size), size)
    strings = X.values, X.offsets
    value = log_kernels(model.shared_history(X).machine, strings, strings, first, second, False)
    return value.reshape(size, size)


def parted(tail):
    """Two ways through: only the one that hates "a" can write "c"."""
    letter = mc.Categoricals([[[1 - 1e-9, 1e-9, 0.0], [1e-3, 0.5, 0.499]]], alphabet="abc")
    return PairHMMs([[0.5, 0.5]], [[[1 - tail, 0.0], [0.0, 1 - tail]]], [[tail, tail]], letter, [[0.1, 0.1]])


def test_a_way_that_decides_is_not_lost():
    model = parted(0.01)
    alone = PairHMMs([[1.0]], [[[0.99]]], [[0.01]], model.emission[:, 1:], [[0.1]])
    X = mc.Sequences(["a" * 400 + "c", "a" * 380 + "c", "a" * 400, "c"], alphabet="abc")
    operand, other = model.shared_history(X), alone.shared_history(X)
    logs, expected = operand.pair(operand), other.pair(other) + np.log(0.5)
    ends = np.array([0, 1, 3])
    np.testing.assert_allclose(logs[np.ix_(ends, ends)], expected[np.ix_(ends, ends)], rtol=1e-12)
    assert logs[0, 0] < -2000 * np.log(10) / 2
    np.testing.assert_allclose(logs, wide(model, X), rtol=1e-12)
    np.testing.assert_allclose(model.log_prob(X)[0, :2], alone.log_prob(X)[0, :2] + np.log(0.5), rtol=1e-12)


def test_probabilities_that_are_hardly_there():
    emission = mc.Categoricals([[[1.0, 1e-290], [0.5, 0.5]]], alphabet="ab")
    model = PairHMMs([[1.0, 0.0]], [[[0.5, 1e-280], [0.0, 0.5]]], [[0.5, 0.5]], emission, [[0.1, 1e-250]])
    X = mc.Sequences(["ab", "bbb", "a"], alphabet="ab")
    operand = model.shared_history(X)
    logs = operand.pair(operand)
    assert not operand.machine.easy
    for i, j in itertools.product(range(3), repeat=2):
        np.testing.assert_allclose(
            logs[i, j], log_domain(model, X.alphabet.encode(X[i]), X.alphabet.encode(X[j])), rtol=1e-12
        )


# -- single strings ----------------------------------------------------------------------------------------


def logits(model):
    p = Parameters.of(model, 0)
    k = model.dimension
    with np.errstate(divide="ignore"):
        blocks = [np.log(p.initial), np.log(p.transition), np.log(p.letters[:, :k])]
    return [*blocks, np.log(p.silent / (1 - p.silent))]


def rebuilt(model, blocks):
    first, step, letter = (np.exp(b) / np.exp(b).sum(axis=-1, keepdims=True) for b in blocks[:3])
    n = model.n_states
    silent = 1 / (1 + np.exp(-blocks[3]))
    emission = mc.Categoricals(letter[None], alphabet=model.alphabet)
    return PairHMMs(first[None, :n], step[None, :, :n], step[None, :, n], emission, silent[None], first[None, n])


def differences(model, value, h=1e-5):
    """Central differences of ``value`` of a model in all logits."""
    blocks, columns = logits(model), []
    for b, block in enumerate(blocks):
        for place in np.ndindex(*block.shape):
            ends = []
            for sign in (1, -1):
                moved = [x.copy() for x in blocks]
                moved[b][place] += sign * h
                ends.append(value(rebuilt(model, moved)))
            columns.append((ends[0] - ends[1]) / (2 * h))
    return np.stack(columns, axis=-1)


def test_scores_are_gradients_in_logits():
    model, X = cyclic(12, 3), ["", "a", "abba", "bbbabab"]
    found = model.sequence_scores(X)
    assert found.shape == (1, 4, len(model.score_names()))
    np.testing.assert_allclose(found[0], differences(model, lambda m: m.log_prob(X)[0]), atol=1e-8)


def test_scores_of_ambiguity_codes():
    model = cyclic(13, 2, "ACGT")
    model = PairHMMs(
        model.initial,
        model.transition,
        model.stop,
        mc.Categoricals(model.emission.probability, "dna"),
        model.silent,
        model.empty,
    )
    X = ["ARN", "NNA"]
    np.testing.assert_allclose(model.sequence_scores(X)[0], differences(model, lambda m: m.log_prob(X)[0]), atol=1e-8)


@pytest.mark.slow
def test_scores_in_weights_where_parameters_are_zero():
    emission = mc.Categoricals([[[1.0, 0.0], [0.3, 0.7]]], alphabet="ab")
    step, stop = np.array([[0.5, 0.3], [0.0, 0.6]]), np.array([0.2, 0.4])
    model = PairHMMs([[0.8, 0.2]], step[None], stop[None], emission, [[0.2, 0.4]])
    X = ["ab", "aab", "", "b"]
    found = model.sequence_scores(X, "weight")[0]
    rows = [np.array([[0.8, 0.2, 0.0]]), np.column_stack([step, stop]), emission.probability[0].copy()]
    names, h, column = model.score_names(), 1e-7, 0

    def value(rows):
        first, moves, letter = (r / r.sum(axis=-1, keepdims=True) for r in rows)
        changed = mc.Categoricals(letter[None], alphabet="ab")
        steps, ends = moves[None, :, :2], moves[None, :, 2]
        return PairHMMs(first[:, :2], steps, ends, changed, model.silent, first[:, 2]).log_prob(X)[0]

    for b, block in enumerate(rows):
        for place in np.ndindex(*block.shape):
            moved = [r.copy() for r in rows]
            moved[b][place] += h
            np.testing.assert_allclose(
                found[:, column], (value(moved) - value(rows)) / h, atol=2e-5, err_msg=names[column]
            )
            column += 1


@pytest.mark.parametrize("parametrization", ["logit", "weight"])
def test_scores_have_zero_mean(parametrization):
    model, X = acyclic(14), strings(3)
    scores, p = model.sequence_scores(X, parametrization)[0], np.exp(model.log_prob(X)[0])
    np.testing.assert_allclose(p.sum(), 1, rtol=1e-13)
    numbers = Parameters.of(model, 0)
    free = np.concatenate([part.ravel() > 0 for part in (*numbers[:2], numbers.letters[:, :2], numbers.silent)])
    assert free.sum() == 25 - 6  # a zero that becomes positive allows longer strings, and need not have mean zero
    np.testing.assert_allclose((p @ scores)[free], 0, atol=1e-13)
    assert np.abs(scores[:, free]).max() > 0.1


def test_impossible_strings():
    model = acyclic(15)
    assert model.log_prob(["aaaa"])[0, 0] == -np.inf
    with pytest.raises(ValueError, match=r"sequence 1 has probability zero under the shared model.*smoothing"):
        model.sequence_scores(["a", "aaaa"])


def test_fisher_of_strings():
    model, X = cyclic(16, 2), ["abba", "b", "", "aaab", "ab"]
    fisher = mc.Fisher(model, information="identity", normalize=False)
    scores = model.sequence_scores(X)[0]
    np.testing.assert_allclose(fisher(X), scores @ scores.T, rtol=1e-10, atol=1e-10 * np.abs(scores @ scores.T).max())
    assert list(fisher.fit(X).get_score_names()) == model.score_names()


# -- pairs -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_expected_numbers_of_pairs_are_gradients():
    model = cyclic(17, 3)
    X = mc.Sequences(["", "a", "abba", "bbabab", "bb"], alphabet="ab")
    first, second = np.array([0, 1, 2, 3, 4, 4]), np.array([0, 3, 2, 4, 0, 2])
    found, p = expected_counts(Parameters.of(model, 0), X, (first, second)), Parameters.of(model, 0)

    def value(model):
        operand = model.shared_history(X)
        return operand.pair(operand)[first, second]

    np.testing.assert_allclose(found.log_prob, value(model), rtol=1e-13)
    letters = found.symbols[..., :2]
    blocks = [
        found.initial - p.initial * found.initial.sum(axis=-1, keepdims=True),
        found.transition - p.transition * found.transition.sum(axis=-1, keepdims=True),
        letters - p.letters[:, :2] * letters.sum(axis=-1, keepdims=True),
        found.silent - p.silent * (found.silent + letters.sum(axis=-1)),
    ]
    gradient = np.concatenate([b.reshape(len(first), -1) for b in blocks], axis=1)
    np.testing.assert_allclose(gradient, differences(model, value), atol=1e-8)
    np.testing.assert_allclose(2 * found.visits, found.silent + letters.sum(axis=-1), rtol=1e-12)
    np.testing.assert_allclose(letters.sum(axis=(1, 2)), X.lengths[first] + X.lengths[second], rtol=1e-12)


@pytest.mark.slow
def test_expected_numbers_have_the_same_bits_beside_anybody():
    model, rng = cyclic(22, 3, stop=0.05, zeros=0.4), np.random.default_rng(5)
    X = mc.Sequences(["".join(rng.choice(list("ab"), k)) for k in (0, 1, 5, 40, 41, 80, 33, 2, 64, 9)], alphabet="ab")
    first, second = np.repeat(np.arange(10), 10), np.tile(np.arange(10), 10)
    parameters = Parameters.of(model, 0)
    lanes = expected_counts(parameters, X, (first, second))
    some = rng.permutation(100)[:13]
    for part, whole in zip(expected_counts(parameters, X, (first[some], second[some])), lanes, strict=True):
        assert np.array_equal(part, whole[some])  # the same bits beside anybody


@pytest.mark.slow
def test_expected_numbers_of_long_pairs():
    model, rng = cyclic(18, 3, stop=0.01), np.random.default_rng(4)
    X = mc.Sequences.from_codes(rng.integers(0, 2, (2, 700)), "ab")
    found = expected_counts(Parameters.of(model, 0), X, (np.array([0]), np.array([1])))
    np.testing.assert_allclose(found.symbols.sum(), 1400, rtol=1e-10)
    np.testing.assert_allclose(found.transition[..., -1].sum(), 1, rtol=1e-10)
    np.testing.assert_allclose(found.initial.sum(), 1, rtol=1e-10)


def test_matches_are_posteriors():
    model, s, t = acyclic(19, 3), "aba", "bb"
    expected, total = np.zeros((3, 2)), 0.0
    for path, p in trajectories(model):
        for (mine, q), (theirs, r) in itertools.product(placements(model, path, s), placements(model, path, t)):
            total += p * q * r
            for i, j in itertools.product(range(3), range(2)):
                expected[i, j] += p * q * r * (mine[i] == theirs[j])
    found = model.matches(s, t)
    np.testing.assert_allclose(found.probability, expected / total, rtol=1e-12)
    np.testing.assert_allclose(found.log_kernel, np.log(total), rtol=1e-12)
    with pytest.raises(ValueError, match="joint probability zero"):
        model.matches("aaaaa", "a")
    assert model.matches("", "").probability.shape == (0, 0)


def test_expected_numbers_of_a_way_that_decides():
    X = mc.Sequences(["a" * 400 + "c", "a" * 380 + "c"], alphabet="abc")
    found = expected_counts(Parameters.of(parted(0.01), 0), X, (np.array([0]), np.array([1])))
    np.testing.assert_allclose(found.symbols.sum(axis=(0, 2)), [0, X.lengths.sum()], rtol=1e-12, atol=1e-12)


def test_samples_have_their_probabilities():
    model, X, size = cyclic(20, 3), ["", "a", "b", "ab", "bba"], 40_000
    drawn = np.array(list(model.sample(size, random_state=0)[0]))
    p = np.exp(model.log_prob(X)[0])
    frequency = np.array([np.mean(drawn == s) for s in X])
    assert np.all(np.abs(frequency - p) < 5 * np.sqrt(p / size))
    left, right = (np.array(list(side)) for side in model.sample_pairs(size, random_state=1)[0])
    for (i, s), (j, t) in itertools.product(enumerate(X), repeat=2):
        p = kernel(model, X)[i, j]
        assert abs(np.mean((left == s) & (right == t)) - p) < 5 * np.sqrt(p / size)


def test_a_long_string_and_one_that_is_too_long():
    long = one_state(1 - 1e-6, 0.25, [0.7, 0.3]).sample(1, random_state=0)[0]
    assert long.lengths[0] > 10**5
    share = np.mean(long.values == 0)
    assert abs(share - 0.7) < 5 * np.sqrt(0.21 / len(long.values))
    endless = one_state(1 - 1e-9, 0.25, [0.7, 0.3])
    for ask in (endless.sample, endless.sample_pairs):
        with pytest.raises(ValueError, match=r"take 1e\+09 visits on average, .* use a larger stop \(its smallest is"):
            ask(1)
    assert len(endless.sample(0)[0]) == 0


def test_expected_visits():
    for seed in range(3):
        model = cyclic(seed, 4, zeros=0.5)
        p = Parameters.of(model, 0)
        truth = p.initial[:4] @ np.linalg.inv(np.eye(4) - p.transition[:, :4])
        np.testing.assert_allclose(expected_visits(p.initial, p.transition), truth, rtol=1e-12)
    stuck = np.array([[0.5, 0.0, 0.5], [0.0, 1.0, 0.0]])  # a state that nobody enters need not end
    np.testing.assert_allclose(expected_visits(np.array([1.0, 0.0, 0.0]), stuck), [2, 0])
    np.testing.assert_allclose(expected_visits(np.array([0.0, 0.0, 1.0]), stuck), [0, 0])


# -- the batch ---------------------------------------------------------------------------------------------


def test_a_batch_of_models(tmp_path):
    parts = [cyclic(seed, 2) for seed in range(3)]
    models = PairHMMs.concat(parts)
    X = ["ab", "", "bbab"]
    assert models.shape == (3,)
    np.testing.assert_array_equal(models.log_prob(X), np.concatenate([p.log_prob(X) for p in parts]))
    np.testing.assert_array_equal(models.sequence_scores(X)[1], parts[1].sequence_scores(X)[0])
    models.save(tmp_path / "pairs.npz")
    for other in (mc.load(tmp_path / "pairs.npz"), pickle.loads(pickle.dumps(models))):
        np.testing.assert_array_equal(other.log_prob(X), models.log_prob(X))
    assert models[2:3].digests() == models.digests()[2:]
    assert models[0].shape == ()
    with pytest.raises(ValueError, match=r"shape \(1,\); got \(3,\)"):
        models.shared_history(X)
    features = Marginalization(models, weights="uniform", normalize=False).features(X)
    np.testing.assert_allclose(features, np.sqrt(1 / 3) * np.exp(models.log_prob(X)).T, rtol=1e-12)
    assert list(models.n_parameters) == [2 + 2 * 2 + 2 + 2] * 3
    np.testing.assert_allclose(models.bic(X) - models.aic(X), 10 * (np.log(sum(map(len, X))) - 2))
    reader = models.estimator()
    assert (reader.n_states, reader.alphabet) == (2, models.alphabet)
    with pytest.raises(ValueError, match=r"shared model must have shape \(1,\); got \(3,\)"):
        models.matches("ab", "b")


def test_no_models_at_all():
    models, X = cyclic(24, 2)[:0], ["ab", "", "bbab"]
    assert models.log_prob(X).shape == (0, 3)
    assert models.sequence_scores(X, "weight").shape == (0, 3, len(models.score_names()))
    assert models.bic(X).shape == models.n_parameters.shape == (0,)
    assert models.sample(2) == models.sample_pairs(2) == []
    assert models.estimator().n_states == 2


@pytest.mark.parametrize("library", ["array_api_strict", "torch", "float32"])
def test_other_arrays(library):
    if library == "float32":
        make = functools.partial(np.asarray, dtype=np.float32)
    else:
        make = array_api_strict.asarray if library == "array_api_strict" else pytest.importorskip("torch").tensor
    model, X = cyclic(23, 2), ["ab", "", "bba"]
    names = ("initial", "transition", "stop", "silent", "empty")
    parts = {name: make(np.array(getattr(model, name))) for name in names}
    other = PairHMMs(**parts, emission=mc.Categoricals(make(np.array(model.emission.probability)), alphabet="ab"))
    np.testing.assert_allclose(other.log_prob(X), model.log_prob(X), rtol=1e-6)
    np.testing.assert_allclose(kernel(other, X), kernel(model, X), rtol=1e-6)
    assert list(other.n_parameters) == list(model.n_parameters)


FAIR = mc.Categoricals([[[0.5, 0.5], [0.5, 0.5]]], alphabet="ab")
GOOD = {
    "initial": [[0.5, 0.5]],
    "transition": [[[0.4, 0.4], [0.3, 0.3]]],
    "stop": [[0.2, 0.4]],
    "emission": FAIR,
    "silent": [[0.1, 0.2]],
}


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"initial": [[0.5, 0.6]]}, r"initial with empty at index \(0,\) sums to 1.1, not to one"),
        ({"empty": [0.1]}, r"initial with empty at index \(0,\) sums to 1.1, not to one"),
        ({"stop": [[0.2, 0.5]]}, r"transition with stop at index \(0, 1\) sums to 1.1, not to one"),
        ({"silent": [[0.1, 1.5]]}, r"silent must be a probability .*; got 1.5 at index \(0, 1\)"),
        ({"silent": [[0.1, np.nan]]}, r"silent .*; got nan at index \(0, 1\)"),
        ({"transition": [[[0.4, 0.4], [0.7, -0.1]]]}, r"transition .*; got -0.1 at index \(0, 1, 1\)"),
        ({"stop": [[0.2]]}, r"stop must have shape \(1, 2\) .*; got \(1, 1\)"),
        ({"emission": FAIR[:, :1]}, r"emission must have one distribution per state.*; got \(1, 1\)"),
        (
            {"transition": [[[0.4, 0.4], [0.0, 1.0]]], "stop": [[0.2, 0.0]]},
            "State 1 can be entered but never reaches the end",
        ),
        (
            {"transition": [[[0.4, 0.4], [0.0, 1.0]]], "stop": [[0.2, 0.0]], "silent": [[0.1, 1.0]]},
            "State 1 never emits and never stops, so silent visits never end",
        ),
        (
            {"transition": [[[0.5, 0.5], [0.5, 0.5]]], "stop": [[0.0, 0.0]], "silent": [[1.0, 1.0]]},
            "States 0, 1 never emit and never stop",
        ),
    ],
)
def test_what_is_no_model(changed, sentence):
    assert PairHMMs(**GOOD).shape == (1,)
    with pytest.raises(ValueError, match=sentence):
        PairHMMs(**GOOD | changed)


def test_what_is_no_emission():
    with pytest.raises(TypeError, match=r"emission must be mc.Categoricals, .* got list"):
        PairHMMs(**GOOD | {"emission": [[0.5, 0.5]]})


def test_a_state_that_cannot_be_entered_need_not_end():
    model = PairHMMs(**GOOD | {"initial": [[1.0, 0.0]], "transition": [[[0.8, 0.0], [0.0, 1.0]]], "stop": [[0.2, 0.0]]})
    np.testing.assert_allclose(kernel(model, ["a"])[0, 0], expanded(model, ["a"])[0, 0], rtol=1e-12)


def test_states_that_are_always_silent():
    model = PairHMMs(**GOOD | {"silent": [[0.3, 1.0]]})
    X = strings(3)
    np.testing.assert_allclose(kernel(model, X), expanded(model, X), rtol=1e-12)
    np.testing.assert_allclose(np.exp(model.log_prob([""])[0, 0]), kernel(model, strings(8))[0].sum(), rtol=1e-6)
    X = ["", "a", "ba"]
    np.testing.assert_allclose(
        model.sequence_scores(X)[0][:, :9],
        differences(PairHMMs(**GOOD | {"silent": [[0.3, 1 - 1e-15]]}), lambda m: m.log_prob(X)[0], h=1e-6)[:, :9],
        atol=1e-7,
    )


def test_models_that_write_nothing():
    never = PairHMMs(**GOOD | {"initial": [[0.0, 0.0]], "empty": [1.0]})
    silent = PairHMMs(**GOOD | {"silent": [[1.0, 1.0]]})
    for model in (never, silent):
        np.testing.assert_allclose(kernel(model, ["", "a"]), [[1, 0], [0, 0]], rtol=1e-14)
        np.testing.assert_allclose(np.exp(model.log_prob(["", "a"])), [[1, 0]], rtol=1e-14)
        assert list(model.sample(3, random_state=0)[0]) == ["", "", ""]
        assert np.isfinite(model.sequence_scores([""])).all()
        nothing = mc.Sequences(["a"], alphabet="ab")[:0]
        assert model.log_prob(nothing).shape == (1, 0)
        assert model.shared_history(nothing).alone().shape == (0,)
        assert Marginalization(model, on_zero="zero")(["", "a"])[1, 1] == 0


def test_symbols_outside_the_alphabet():
    model = PairHMMs(**GOOD)
    for ask in (model.log_prob, model.shared_history, Marginalization(model), model.sequence_scores):
        with pytest.raises(ValueError, match=r"sequence 1 has the symbol 'c' at position 1"):
            ask(["ab", "ac"])
