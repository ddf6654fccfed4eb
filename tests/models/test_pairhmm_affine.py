"""Affine pair HMMs against enumeration of matches, sums of mass, and a plain recursion in logarithms."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from mercer.data import Alphabet, Sequences
from mercer.models._pairs.affine_range import rows_of_group
from mercer.models.pairhmm_affine import AffinePairHMMs

PROBABILITY = st.floats(0.01, 0.95)


def model(k=2, seed=0, open=0.1, extend=0.4, continuation=0.8, sharp=1.0, zeros=False, alphabet=None):
    """A random model whose joint comes from hidden letters; ``sharp`` makes these differ."""
    rng = np.random.default_rng(seed)
    emission = rng.random((k, k)) ** sharp
    if zeros:
        emission = np.where(rng.random((k, k)) < 0.5, 0.0, emission) + np.eye(k)
    emission /= emission.sum(axis=0)
    joint = (emission * rng.dirichlet(np.full(k, 5.0))) @ emission.T
    insertion = rng.dirichlet(np.full(k, 5.0))
    return AffinePairHMMs([joint], [insertion], [open], [extend], [continuation], alphabet=alphabet)


def numbers(p):
    return p.joint[0], p.insertion[0], float(p.open[0]), float(p.extend[0]), float(p.continuation[0])


def codes(strings, p):
    return Sequences.from_codes([np.asarray(s, dtype=int) for s in strings], p.alphabet)


def words(k, longest):
    return [w for n in range(longest + 1) for w in itertools.product(range(k), repeat=n)]


def log_kernel(p, left, right=None):
    right = left if right is None else right
    return p.shared_history(codes(left, p)).pair(p.shared_history(codes(right, p)))


# -- slow truths --------------------------------------------------------------------------------------------


def by_matches(p, s, t):
    """Add up all sets of matches, each with the probabilities of its runs (MK-5b, the definition)."""
    joint, q, o, e, c = numbers(p)

    def runs(word, matched):
        ends = [-1, *matched, len(word)]
        pieces = [word[a + 1 : b] for a, b in itertools.pairwise(ends)]
        return np.prod([np.prod(q[list(w)]) * o * (1 - e) * e ** (len(w) - 1) if w else 1 - o for w in pieces])

    total = 0.0
    for count in range(min(len(s), len(t)) + 1):
        for i in itertools.combinations(range(len(s)), count):
            for j in itertools.combinations(range(len(t)), count):
                letters = np.prod([joint[s[a], t[b]] for a, b in zip(i, j, strict=True)])
                total += (1 - c) * c**count * letters * runs(s, i) * runs(t, j)
    return total


def in_logs(p, s, t):
    """The three recursions of MK-5b as they are printed, in logarithms, one antidiagonal at a time."""
    joint, q, o, e, c = numbers(p)
    s, t = np.asarray(s, dtype=int), np.asarray(t, dtype=int)
    n, m = len(s), len(t)
    with np.errstate(divide="ignore"):
        pair, letter, opened, extended, o_, e_, match = map(np.log, (joint, q, o, e, 1 - o, 1 - e, c))
    never = np.full(n + 1, -np.inf)
    (M, X, Y), before = (never.copy(), never, never), (never, never, never)
    M[0] = 0.0  # cell (i, d - i) of antidiagonal d stands at i
    add = np.logaddexp
    for d in range(1, n + m + 1):
        rows = np.arange(max(0, d - m), min(n, d) + 1)
        up, left, inner = rows[rows > 0], rows[rows < d], rows[(rows > 0) & (rows < d)]
        m_new, x_new, y_new = never.copy(), never.copy(), never.copy()
        a = inner - 1
        reached = add(add(2 * o_ + before[0][a], e_ + o_ + before[1][a]), e_ + before[2][a])
        m_new[inner] = match + pair[s[a], t[d - inner - 1]] + reached
        x_new[up] = letter[s[up - 1]] + add(opened + M[up - 1], extended + X[up - 1])
        begun = opened + add(o_ + M[left], e_ + X[left])
        y_new[left] = letter[t[d - left - 1]] + add(begun, extended + Y[left])
        before, (M, X, Y) = (M, X, Y), (m_new, x_new, y_new)
    return np.log1p(-c) + add(add(2 * o_ + M[n], e_ + o_ + X[n]), e_ + Y[n])


def alone(p, s):
    """Probability of one string: a chain of matches and insertions, without the other string."""
    joint, q, o, e, c = numbers(p)
    single = joint.sum(axis=0)
    M, X = 1.0, 0.0
    for a in s:
        M, X = c * single[a] * ((1 - o) * M + (1 - e) * X), q[a] * (o * M + e * X)
    return (1 - c) * ((1 - o) * M + (1 - e) * X)


# -- values -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_all_short_strings_by_enumeration(seed):
    rng = np.random.default_rng(seed)
    p = model(seed=seed, **dict(zip(("open", "extend", "continuation"), rng.uniform(0.02, 0.95, 3), strict=True)))
    strings = words(2, 4)
    truth = np.array([[by_matches(p, s, t) for t in strings] for s in strings])
    assert_allclose(np.exp(log_kernel(p, strings)), truth, rtol=1e-12)


@pytest.mark.parametrize(("open", "extend", "continuation"), [(0.0, 0.4, 0.8), (0.1, 0.0, 0.8), (0.1, 0.4, 0.0)])
def test_limits_by_enumeration(open, extend, continuation):
    p = model(open=open, extend=extend, continuation=continuation)
    strings = words(2, 3)
    truth = np.array([[by_matches(p, s, t) for t in strings] for s in strings])
    got = log_kernel(p, strings)
    assert_array_equal(np.isneginf(got), truth == 0)
    assert_allclose(np.exp(got), truth, rtol=1e-12)
    if open == 0.0:  # without gaps, only strings of one length have a history in common
        lengths = np.array([len(s) for s in strings])
        assert_array_equal(np.isfinite(got), lengths[:, None] == lengths)


def test_letters_that_are_never_inserted_or_never_matched():
    joint = np.array([[0.6, 0.0, 0.0], [0.0, 0.4, 0.0], [0.0, 0.0, 0.0]])
    p = AffinePairHMMs([joint], [[0.5, 0.0, 0.5]], [0.2], [0.3], [0.7])
    strings = words(3, 3)
    truth = np.array([[by_matches(p, s, t) for t in strings] for s in strings])
    got = log_kernel(p, strings)
    assert_array_equal(np.isneginf(got), truth == 0)
    assert_allclose(np.exp(got), truth, rtol=1e-12)


@settings(deadline=None, max_examples=25)
@given(open=PROBABILITY, extend=PROBABILITY, continuation=PROBABILITY, seed=st.integers(0, 100))
def test_positive_semidefinite_and_symmetric(open, extend, continuation, seed):
    p = model(seed=seed, open=open, extend=extend, continuation=continuation, sharp=4.0, zeros=seed % 3 == 0)
    logs = log_kernel(p, words(2, 5))
    assert_allclose(logs, logs.T, rtol=1e-12)
    half = np.diag(logs) / 2
    K = np.exp(logs - half[:, None] - half)
    assert np.linalg.eigvalsh((K + K.T) / 2)[0] > -1e-12


def test_total_mass_is_one():
    """A missing symbol stands for all, so n of them for all strings of length n."""
    p = model(k=3, open=0.3, extend=0.5, continuation=0.4)
    everything = [[p.alphabet.missing] * n for n in range(120)]
    assert_allclose(np.exp(log_kernel(p, everything)).sum(), 1.0, rtol=1e-12)


def test_row_sums_are_probabilities_of_single_strings():
    p = model(k=3, open=0.3, extend=0.5, continuation=0.4, seed=2)
    everything = [[p.alphabet.missing] * n for n in range(150)]
    strings = [*words(3, 3), *np.random.default_rng(0).integers(0, 3, (5, 20))]
    rows = np.exp(log_kernel(p, strings, everything)).sum(axis=1)
    assert_allclose(rows, [alone(p, s) for s in strings], rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("letters", "parameters"),
    [
        (20, {}),
        (20, {"open": 0.01, "extend": 0.9, "continuation": 0.99, "sharp": 8.0}),
        (4, {"open": 0.6, "extend": 0.05, "continuation": 0.9}),
        (4, {"extend": 1e-6}),
        (4, {"open": 1e-12}),
        (4, {"open": 1e-12, "extend": 1e-6, "zeros": True}),
        (4, {"open": 0.5, "extend": 0.999, "continuation": 1e-9, "zeros": True}),
        (4, {"open": 0.999, "extend": 1e-4, "continuation": 0.999}),
        (4, {"open": 0.0, "zeros": True}),
        (4, {"extend": 0.0}),
        (4, {"continuation": 0.0}),
    ],
)
def test_any_lengths_against_logarithms(letters, parameters):
    p = model(k=letters, seed=3, **parameters)
    rng = np.random.default_rng(0)
    core = rng.integers(0, letters, 60)
    strings = [rng.integers(0, letters, n) for n in (0, 1, 7, 8, 9, 31, 100, 300)]
    # A long gap first and matches later: the best path is far from the rows' largest numbers.
    strings += [core, np.r_[rng.integers(0, letters, 140), core], np.r_[core, rng.integers(0, letters, 140)]]
    truth = np.array([[in_logs(p, s, t) for t in strings] for s in strings])
    for got in (log_kernel(p, strings), log_kernel(p, strings).T):
        assert not np.isnan(got).any()
        assert_allclose(got, truth, rtol=1e-10, atol=1e-12)
    assert_allclose(p.shared_history(codes(strings, p)).alone(), np.diag(truth), rtol=1e-10)


def test_strings_of_five_thousand_letters_do_not_underflow():
    p = model(k=20, seed=1, sharp=3.0, open=0.05, extend=0.5, continuation=0.99)
    strings = np.random.default_rng(0).integers(0, 20, (2, 5000))
    got = log_kernel(p, [*strings, strings[0][:10]])
    assert np.isfinite(got).all()
    assert_allclose(got[2, 1], in_logs(p, strings[0][:10], strings[1]), rtol=1e-10)
    assert got[0, 0] > got[0, 1]


def test_ambiguity_codes_are_sums_over_what_they_stand_for():
    p = model(k=4, seed=5, alphabet=Alphabet.of("dna"))
    strings = ["ACGT", "NRA", "TYN", "G"]
    readings = {"N": "ACGT", "R": "AG", "Y": "CT"}
    plain = [["".join(w) for w in itertools.product(*(readings.get(a, a) for a in s))] for s in strings]
    got = np.exp(p.shared_history(strings).pair(p.shared_history(strings)))
    for i, left in enumerate(plain):
        for j, right in enumerate(plain):
            values = p.shared_history(left).pair(p.shared_history(right))
            assert_allclose(got[i, j], np.exp(values).sum(), rtol=1e-12)


def test_probabilities_near_the_smallest_float():
    """Products of two of them are below all floats."""
    tiny = AffinePairHMMs([[[1e-25, 0.0], [0.0, 1.0]]], [[0.5, 0.5]], [0.0], [0.4], [1e-300])
    assert_allclose(log_kernel(tiny, [[0, 0]]), [[2 * np.log(1e-300) + 2 * np.log(1e-25)]], rtol=1e-12)
    rare = AffinePairHMMs([np.diag([1e-310, 1.0])], [[1e-310, 1.0]], [1e-310], [1e-310], [0.5])
    strings = [[0], [1, 0], [0, 0, 1], [1] * 40]
    truth = [[in_logs(rare, s, t) for t in strings] for s in strings]
    assert_allclose(log_kernel(rare, strings), truth, rtol=1e-11)


def test_extreme_parameters_never_take_the_lanes():
    assert rows_of_group(match=1e200, gap=1.0) is None
    assert rows_of_group(match=1.0, gap=1e-150) is None


# -- the batch ----------------------------------------------------------------------------------------------


def test_no_axis_and_no_members():
    p = AffinePairHMMs(**GOOD, alphabet="ab")
    assert p[:0].log_prob(["a", "b"]).shape == (0, 2)
    assert p[:0].sequence_scores(["a"]).shape == (0, 1, 7)
    assert (p[:0].sample(2), p[:0].bic(["a"]).shape) == ([], (0,))
    with pytest.raises(ValueError, match=r"got a batch of shape \(0,\)"):
        p[:0].estimator()
    assert p[0].estimator().fit(["ab"]).model_.digests() == p.digests()
    with pytest.raises(ValueError, match=r"must have shape \(N,\)"):
        p[0].log_prob(["a"])


def test_bic():
    p = AffinePairHMMs.concat([AffinePairHMMs(**GOOD, alphabet="ab"), model(seed=3, alphabet="ab")])
    X = ["abba", "", "b"]
    assert_allclose(p.bic(X), (2 + 1 + 3) * np.log(5) - 2 * p.log_prob(X).sum(axis=1))
    assert p[:1].estimator().fit(X).bic(X) == pytest.approx(p.bic(X)[0])


GOOD = {
    "joint": [[[0.4, 0.1], [0.1, 0.4]]],
    "insertion": [[0.5, 0.5]],
    "open": [0.1],
    "extend": [0.4],
    "continuation": [0.8],
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"joint": [[[0.5, 0.1], [0.1, 0.4]]]}, "joint at index .0,. sums to 1.1, not to one"),
        ({"joint": [[[0.7, -0.1], [-0.1, 0.5]]]}, "nonnegative probabilities; got -0.1 at index .0, 0, 1."),
        (
            {"joint": [[[0.5, 0.2], [0.1, 0.2]]]},
            "got 0.2 at index .0, 0, 1. and 0.1 at .0, 1, 0.",
        ),
        (
            {"joint": [[[0.1, 0.4], [0.4, 0.1]]]},
            "scaled to a diagonal of ones, at index .0,. it has the eigenvalue -3",
        ),
        ({"joint": [[[1.0 - 2e-9, 1e-9], [1e-9, 0.0]]]}, "scaled to a diagonal of ones, .* it has the eigenvalue -inf"),
        # A rare letter that goes with another one more than with itself: the eigenvalue of joint itself is -3e-15.
        (
            {"joint": [[[1.0 - 2e-7, 1e-7], [1e-7, 1e-14 / 1.5]]]},
            "scaled to a diagonal of ones, .* it has the eigenvalue -0.2",
        ),
        ({"joint": [[0.5, 0.5]]}, "k x k probabilities of pairs .* got shape .1, 2."),
        ({"joint": [[[np.nan, 0.1], [0.1, 0.4]]]}, "got nan at index .0, 0, 0."),
        ({"insertion": [[0.5, 0.6]]}, "insertion at index .0,. sums to 1.1"),
        (
            {"insertion": [[0.5, 0.25, 0.25]]},
            "insertion must have shape .1, 2. for a joint of shape .1, 2, 2.; got .1, 3.",
        ),
        ({"open": [1.0]}, "open must be a probability below 1; got 1.0 at index .0,."),
        ({"extend": [-0.1]}, "extend must be a probability below 1; got -0.1 at index .0,."),
        ({"continuation": [np.nan]}, "continuation must be a probability below 1; got nan at index .0,."),
        ({"open": [0.1, 0.2]}, "open must have shape .1,. for a joint of shape .1, 2, 2.; got .2,."),
        ({"alphabet": "abc"}, "got 2 rows for an alphabet of 3 symbols"),
    ],
)
def test_bad_parameters(change, message):
    with pytest.raises(ValueError, match=message):
        AffinePairHMMs(**GOOD | change)


def test_rounding_is_forgiven():
    joint = np.outer([0.3, 0.7], [0.3, 0.7])  # of rank one: the smallest eigenvalue is zero, or -1e-17
    assert AffinePairHMMs(**GOOD | {"joint": [joint]}).shape == (1,)
    assert AffinePairHMMs(**GOOD | {"joint": np.asarray([joint], np.float32)}).shape == (1,)


def test_bad_questions():
    p = AffinePairHMMs(**GOOD, alphabet="ab")
    with pytest.raises(ValueError, match=r"'c' at position 1, which is not in the alphabet ab"):
        p.shared_history(["ab", "ac"])
    with pytest.raises(ValueError, match=r"shared model must have shape \(1,\)"):
        p[[0, 0]].shared_history(["ab"])
