"""Pair HMMs of local alignments against enumeration of matches, sums of mass, and the global model as a limit."""

import itertools
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import mercer as mc
from mercer.data import Sequences
from mercer.models._pairs import affine as affine_parts
from mercer.models._pairs.affine import AffineParameters
from mercer.models._pairs.affine_range import FlankWeights, rows_of_group
from mercer.models.pairhmm_affine import AffinePairHMMs, LocalPairHMMs

RATES = ("open", "extend", "continuation", "flank_open", "flank_extend")
SETTINGS = [
    (0.1, 0.4, 0.8, 0.9, 0.95),
    (0.3, 0.5, 0.6, 0.2, 0.5),
    (0.05, 0.7, 0.95, 0.999, 0.999),
]
EXTREMES = [
    (0.3, 0.5, 0.6, 0.6, 0.2),  # flanks shorter than gaps
    (0.1, 0.4, 0.8, 0.0, 0.9),  # no flanks
    (0.1, 0.4, 0.8, 0.7, 0.0),  # flanks of one letter
    (0.0, 0.4, 0.8, 0.9, 0.9),  # no gaps
    (0.1, 0.4, 0.0, 0.9, 0.9),  # no matches
]


def model(rates, k=2, seed=0, alphabet=None):
    rng = np.random.default_rng(seed)
    emission = rng.random((k, k)) ** 3
    emission /= emission.sum(axis=0)
    joint = (emission * rng.dirichlet(np.full(k, 5.0))) @ emission.T
    numbers = {name: [rate] for name, rate in zip(RATES, rates, strict=True)}
    return LocalPairHMMs([joint], [rng.dirichlet(np.full(k, 5.0))], **numbers, alphabet=alphabet)


def codes(strings, p):
    return Sequences.from_codes([np.asarray(s, dtype=int) for s in strings], p.alphabet)


def words(longest, k=2):
    return [w for n in range(longest + 1) for w in itertools.product(range(k), repeat=n)]


def log_kernel(p, left, right=None):
    left, right = (p.shared_history(codes(x, p)) for x in (left, left if right is None else right))
    return left.pair(right)


def enumerated(p, s, t):
    """Add up all sets of matches (MK-5d, the definition); return the kernel, and the part of every match."""
    joint, q = np.asarray(p.joint[0]), np.asarray(p.insertion[0])
    o, e, c, fo, fe = (float(getattr(p, name)[0]) for name in RATES)

    def run(letters, opened, extended):
        size = len(letters)
        number = 1 - opened if size == 0 else opened * (1 - extended) * extended ** (size - 1)
        return number * np.prod(q[list(letters)])

    def inserted(word, matched):
        if not matched:
            return run(word, fo, fe)
        between = [run(word[a + 1 : b], o, e) for a, b in itertools.pairwise(matched)]
        return run(word[: matched[0]], fo, fe) * np.prod(between) * run(word[matched[-1] + 1 :], fo, fe)

    total, parts = 0.0, np.zeros((len(s), len(t)))
    for count in range(min(len(s), len(t)) + 1):
        for i in itertools.combinations(range(len(s)), count):
            for j in itertools.combinations(range(len(t)), count):
                letters = np.prod([joint[s[a], t[b]] for a, b in zip(i, j, strict=True)])
                weight = (1 - c) * c**count * letters * inserted(s, i) * inserted(t, j)
                total += weight
                parts[list(i), list(j)] += weight
    return total, parts


# -- values -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("rates", SETTINGS + EXTREMES)
def test_all_short_strings_by_enumeration(rates):
    p, strings = model(rates), words(3)
    truth = np.array([[enumerated(p, s, t)[0] for t in strings] for s in strings])
    got = log_kernel(p, strings)
    assert_array_equal(np.isneginf(got), truth == 0)
    assert_allclose(np.exp(got), truth, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("rates", SETTINGS)
def test_positive_semidefinite(rates):
    logs = log_kernel(model(rates), words(5))
    assert_allclose(logs, logs.T, rtol=1e-12)
    half = np.diag(logs) / 2
    assert np.linalg.eigvalsh(np.exp(logs - half[:, None] - half))[0] > -1e-12


@pytest.mark.slow
def test_flanks_like_gaps_are_global_alignments():
    p = model((0.2, 0.6, 0.9, 0.2, 0.6), k=4)
    whole = AffinePairHMMs(p.joint, p.insertion, p.open, p.extend, p.continuation)
    rng = np.random.default_rng(0)
    strings = [rng.integers(0, 4, n) for n in (0, 1, 8, 17, 60, 200)]
    assert_allclose(log_kernel(p, strings), log_kernel(whole, strings), rtol=1e-12)
    X = codes(strings, p)
    assert_allclose(p.log_prob(X), whole.log_prob(X), rtol=1e-12)
    local, plain = p.matches(X[3:4], X[4:5]), whole.matches(X[3:4], X[4:5])
    assert_allclose(local.probability, plain.probability, atol=1e-13)


@pytest.mark.slow
def test_mass():
    """A missing symbol stands for all, so n of them for all strings of length n."""
    p = model((0.3, 0.5, 0.4, 0.7, 0.8), k=3)
    everything = [[p.alphabet.missing] * n for n in range(250)]
    K = np.exp(log_kernel(p, everything))
    assert_allclose(K.sum(), 1.0, rtol=1e-12)
    strings = [*words(2, 3), *np.random.default_rng(0).integers(0, 3, (3, 20))]
    rows = np.exp(log_kernel(p, strings, everything)).sum(axis=1)
    assert_allclose(np.exp(p.log_prob(codes(strings, p))[0]), rows, rtol=1e-12)


@pytest.mark.slow
def test_long_flanks():
    """A shared word in unrelated strings of thousands of letters, in lanes and in numbers of unlimited range."""
    rng = np.random.default_rng(0)
    word = rng.integers(0, 20, 60)
    left, right = ([rng.integers(0, 20, n) for n in sizes] for sizes in ((700, 100), (50, 10_000)))
    strings = [np.r_[left[0], word, left[1]], np.r_[right[0], word, right[1]], rng.integers(0, 20, 10), word]
    p = mc.AffinePairHMM(local=True, flank_extend=0.999).fit(Sequences.from_codes(strings, "protein")).model_
    X = p.shared_history(Sequences.from_codes(strings, "protein"))
    rows, columns = np.array([0, 2, 1, 0]), np.array([1, 1, 3, 3])
    got = X.pair(X)
    assert_allclose(got[rows, columns], X.some(X, rows, columns), rtol=1e-13)
    assert np.isfinite(got).all()
    assert_allclose(got, got.T, rtol=1e-13)
    q = np.log(np.asarray(p.insertion[0]))
    odds = got - [[q[s].sum() + q[t].sum() for t in strings] for s in strings]
    assert odds[0, 1] > odds[0, 2] + 30  # the word stands out from chance, whatever surrounds it
    first, second = (Sequences.from_codes([s], "protein") for s in (strings[0], strings[1][:400]))
    assert p.matches(first, second).probability[700:760, 50:110].trace() > 55


def test_probabilities_of_1e_minus_300():
    p = LocalPairHMMs([np.diag([1e-300, 1.0])], [[1e-300, 1.0]], [1e-300], [1e-300], [0.5], [1e-300], [1e-300])
    strings = [[0], [1, 0], [0, 0, 1], [1] * 30]
    got = log_kernel(p, strings)
    tiny = np.log(1e-300)
    # One match and no flank; one match with a flank of one letter in one string; no match at all.
    assert_allclose(got[0, 0], np.log(0.25) + tiny, rtol=1e-12)
    assert_allclose(got[3, 3], np.log(0.5) * 31, rtol=1e-12)
    assert_allclose(got[0, 1], np.log(0.25) + 2 * tiny, rtol=1e-12)
    assert np.isfinite(got).all()


def test_the_lanes_know_what_they_cannot():
    even = FlankWeights(0.01, 0.014, 1.4)
    assert rows_of_group(100.0, 0.01, even) > rows_of_group(100.0, 0.01, FlankWeights(0.01, 1e-9, 1.4))
    assert rows_of_group(100.0, 0.01, FlankWeights(0.01, 0.01, 1e9)) is None


@pytest.mark.slow
def test_two_strong_words_far_apart():
    """Between them, numbers fall by thousands of powers of two: exponents must follow, without a drift."""
    rng = np.random.default_rng(1)
    words_, far = rng.integers(0, 20, (2, 350)), rng.integers(0, 20, 2500)
    strings = [np.r_[words_[0], words_[1]], np.r_[words_[0], far, words_[1]], np.r_[words_[1], far, words_[0]]]
    X = Sequences.from_codes(strings, "protein")
    p = mc.AffinePairHMM(local=True).fit(X).model_
    short = LocalPairHMMs(p.joint, p.insertion, p.open, p.extend, p.continuation, [0.3], [0.9], p.alphabet)
    for model_ in (p, short):
        X_ = model_.shared_history(X)
        rows, columns = np.array([0, 0, 1, 2]), np.array([1, 2, 0, 0])
        assert X_.fast is not None
        assert_allclose(X_.pair(X_)[rows, columns], X_.some(X_, rows, columns), rtol=1e-13)


# -- the batch ----------------------------------------------------------------------------------------------


def test_batch(tmp_path):
    p = LocalPairHMMs.concat([model(rates, k=3, alphabet="abc") for rates in SETTINGS])
    assert p.shape == (3,)
    assert p.n_parameters == 5 + 2 + 5
    mc.save(p, tmp_path / "p.mercer")
    for again in (mc.load(tmp_path / "p.mercer"), pickle.loads(pickle.dumps(p)), p[[0, 1, 2]]):
        assert again.digests() == p.digests()
    X = ["ab", "", "ccab"]
    assert_array_equal(p.log_prob(X)[1], p[1:2].log_prob(X)[0])
    estimator = p[1:2].estimator()
    assert estimator.local
    assert estimator.fit(X).model_.digests() == p[1:2].digests()
    assert clone(estimator).fit(X).model_.flank_open == 0.2


GOOD = {name: [0.5] for name in RATES} | {"joint": [[[0.4, 0.1], [0.1, 0.4]]], "insertion": [[0.5, 0.5]]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"flank_open": [1.0]}, r"flank_open must be a probability below 1; got 1.0 at index \(0,\)"),
        ({"flank_extend": [np.nan]}, r"flank_extend must be a probability below 1; got nan"),
        ({"flank_extend": [0.1, 0.2]}, r"flank_extend must have shape \(1,\)"),
    ],
)
def test_bad_batches(change, message):
    with pytest.raises(ValueError, match=message):
        LocalPairHMMs(**GOOD | change)


# -- the estimator and the kernel -----------------------------------------------------------------------------

PROTEINS = ["MKTAYIAKQRQISFVK", "GGGSGGGSMKTYIAKQRQISVKPPAPPAPP", "MKSAYLAKQQISFVK", "GSHMLEDPVDAFLK"]


def test_estimator_defaults():
    found = mc.AffinePairHMM(local=True).fit(["ACDEF" * 40])
    p = found.model_
    assert isinstance(p, LocalPairHMMs)
    assert_allclose(p.flank_extend, 64 / 65)  # a quarter of 200 letters, as a power of two
    assert_allclose(p.flank_open, p.flank_extend)
    assert_allclose(p.continuation, 64 / 65, rtol=0.02)
    given = mc.AffinePairHMM(local=True, flank_extend=0.9).fit(PROTEINS).model_
    assert (given.flank_open[0], given.flank_extend[0]) == (0.9, 0.9)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"flank_extend": 0.5}, "flank_extend = 0.5 needs local=True"),
        ({"local": True, "flank_extend": 11}, "flank_extend must be .*; got 11. It is the probability of one more"),
        ({"local": "yes"}, "local must be True or False; got 'yes'"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        mc.AffinePairHMM(**parameters).fit(PROTEINS)


@pytest.mark.slow
def test_kernel(tmp_path):
    kernel = mc.Marginalization(mc.AffinePairHMM(local=True)).fit(PROTEINS)
    K = kernel.log(PROTEINS)
    whole = mc.Marginalization(mc.AffinePairHMM()).fit(PROTEINS).log(PROTEINS)
    assert K[0, 1] > whole[0, 1] + 5  # the two strings share their middle
    mc.save(kernel, tmp_path / "kernel.mercer")
    assert_array_equal(mc.load(tmp_path / "kernel.mercer").log(PROTEINS), K)
    assert_allclose(kernel.log(PROTEINS[1:3], PROTEINS), K[1:3], rtol=1e-12)


# -- expectations -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("rates", SETTINGS + EXTREMES)
def test_matches_by_enumeration(rates):
    p = model(rates, alphabet="ab")
    for s, t in [("abb", "ab"), ("babab", "abba"), ("", "ab"), ("b", "b")]:
        total, parts = enumerated(p, ["ab".index(a) for a in s], ["ab".index(a) for a in t])
        if total == 0:
            with pytest.raises(ValueError, match="joint probability zero"):
                p.matches(s, t)
            continue
        found = p.matches(s, t)
        assert_allclose(found.log_kernel, np.log(total), rtol=1e-12)
        assert_allclose(found.probability, parts / total, atol=1e-13)


def theta_of(p):
    c, *others = (float(getattr(p, name)[0]) for name in ("continuation", "open", "extend", *RATES[3:]))
    return np.array([c, *others, *np.asarray(p.joint[0]).sum(axis=1), *np.asarray(p.insertion[0])])


def log_prob_of(theta, word):
    """Log probability of one string, by all sets of matched positions."""
    (c, o, e, fo, fe), letters = theta[:5], theta[5:]
    k, total = len(letters) // 2, 0.0
    match, q = letters[:k], letters[k:]

    def run(part, opened, extended):
        number = 1 - opened if not len(part) else opened * (1 - extended) * extended ** (len(part) - 1)
        return number * np.prod(q[list(part)])

    for count in range(len(word) + 1):
        for at in itertools.combinations(range(len(word)), count):
            weight = (1 - c) * c**count * np.prod([match[word[i]] for i in at])
            if not at:
                weight *= run(word, fo, fe)
            else:
                weight *= run(word[: at[0]], fo, fe) * run(word[at[-1] + 1 :], fo, fe)
                weight *= np.prod([run(word[a + 1 : b], o, e) for a, b in itertools.pairwise(at)])
            total += weight
    return np.log(total)


def test_single_strings_and_scores_by_enumeration():
    p, h = model((0.3, 0.5, 0.6, 0.7, 0.8), k=3), 1e-6
    theta, strings = theta_of(p), [(), (1,), (0, 2, 1), (2, 2, 0, 1, 0)]
    assert_allclose(p.log_prob(codes(strings, p))[0], [log_prob_of(theta, s) for s in strings], rtol=1e-12)

    def moved(j, by):
        new = theta.copy()
        new[j] = new[j] * np.exp(by) / (1 - new[j] + new[j] * np.exp(by)) if j < 5 else new[j] * np.exp(by)
        for block in (slice(5, 8), slice(8, 11)):
            new[block] /= new[block].sum()
        return new

    truth = [
        [(log_prob_of(moved(j, h), s) - log_prob_of(moved(j, -h), s)) / (2 * h) for j in range(11)] for s in strings
    ]
    assert_allclose(p.sequence_scores(codes(strings, p))[0], truth, atol=1e-8)
    assert p.score_names()[3:5] == ["flank_open", "flank_extend"]


def test_scores_have_zero_mean():
    p = model((0.3, 0.5, 0.6, 0.7, 0.8), k=3)
    X = codes([[p.alphabet.missing] * n for n in range(300)], p)
    mass = np.exp(p.log_prob(X))
    assert_allclose(mass.sum(), 1.0, rtol=1e-12)
    for parametrization in ("logit", "weight"):
        assert_allclose(mass[0] @ p.sequence_scores(X, parametrization)[0], 0.0, atol=1e-9)


def test_draws():
    p = model((0.2, 0.5, 0.8, 0.7, 0.9), alphabet="ab")
    first, second = p.sample_pairs(4000, random_state=0)[0]
    mean = 4 + (4 - 0.8) * 0.2 / 0.5 + 1.8 * 0.7 / 0.1
    assert_allclose([first.lengths.mean(), second.lengths.mean()], mean, rtol=0.05)
    single = p.sample(4000, random_state=1)[0]
    assert_allclose(np.mean(single.lengths == 0), np.exp(p.log_prob([""])[0, 0]), atol=0.02)


@pytest.mark.slow
def test_em_learns_flanks_and_never_falls():
    truth = model((0.05, 0.5, 0.9, 0.8, 0.95), k=4, seed=3, alphabet="dna")
    first, second = truth.sample_pairs(30, random_state=0)[0]
    X, y = Sequences.concat([first, second]), np.tile(np.arange(30), 2)
    fields = truth.joint, truth.insertion, truth.open, truth.extend, truth.continuation
    init = LocalPairHMMs(*fields, [0.5], [0.5], truth.alphabet)
    start = mc.AffinePairHMM(init=init, learn=("gaps",), n_iter=8, tol=0, prior_strength=1.0)
    found = start.fit(X, y)
    assert (np.diff(found.objective_) >= -1e-9 * np.abs(found.objective_[0])).all()
    assert_allclose(found.model_.flank_extend, 0.95, atol=0.02)
    assert_allclose(found.model_.flank_open, 0.8, atol=0.15)
    assert isinstance(found.model_, LocalPairHMMs)


@pytest.mark.slow
def test_expected_counts_are_gradients():
    """For fixed others, a count is its probability times the derivative of the log kernel, as a free weight."""
    s, t, h = "ababba", "bbabba", 1e-6
    p = model((0.3, 0.5, 0.7, 0.6, 0.7), alphabet="ab")
    X = Sequences([s, t], alphabet="ab")
    _, found = affine_parts._expect(AffineParameters.of(p), X, (np.array([0]), np.array([1])))
    names = ("continuation", "open", "extend", "flank_open", "flank_extend")
    counts = dict(zip(names, zip(found.yes, found.chances, strict=True), strict=True))
    assert_allclose(counts["continuation"], (found.matched.sum(), found.matched.sum() + 1))
    assert_allclose(
        counts["open"][0] + counts["flank_open"][0],
        counts["extend"][1] + counts["flank_extend"][1] - (counts["extend"][0] + counts["flank_extend"][0]),
    )
    rates = {name: float(getattr(p, name)[0]) for name in RATES}
    for name, (yes, chances) in counts.items():

        def value(by, name=name):
            fields = {field: [rate + by * (field == name)] for field, rate in rates.items()}
            q = LocalPairHMMs(p.joint, p.insertion, **fields, alphabet="ab")
            return float(q.shared_history([s]).pair(q.shared_history([t]))[0, 0])

        slope = yes / rates[name] - (chances - yes) / (1 - rates[name])
        assert_allclose((value(h) - value(-h)) / (2 * h), slope, rtol=1e-6)
    assert_allclose(found.letters.sum() + 2 * found.matched.sum(), 12)  # every letter is matched or inserted
