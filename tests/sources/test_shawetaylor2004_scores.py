"""Shawe-Taylor and Cristianini 2004, section 12.2 and 12.4: Fisher scores and kernels, from the source's formulas."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import mercer as mc

POINTS = np.random.default_rng(0).normal(0.5, 2.0, size=(20, 2))
MEAN, DEVIATION = np.array([0.3, -1.0]), np.array([1.7, 0.6])
NORMAL = mc.Gaussians(MEAN[None], DEVIATION[None] ** 2)
LINE = np.linspace(-3, 3, 7)


def scores(x):
    """Example 12.30 for two coordinates (E16), with the score of log sigma, which is sigma times that of sigma."""
    return np.hstack([(x - MEAN) / DEVIATION**2, ((x - MEAN) / DEVIATION) ** 2 - 1])


def practical(model, **options):
    return mc.Fisher(model, "identity", normalize=False, **options)


def words(length, letters="ab"):
    return ["".join(word) for word in itertools.product(letters, repeat=length)]


def slopes(function, at, step=1e-5):
    """Return the derivatives of a function of a vector by central differences of order four, one row each."""
    found = []
    for direction in np.eye(len(at)) * step:
        near, far = (function(at + k * direction) - function(at - k * direction) for k in (1, 2))
        found.append((8 * near - far) / (12 * step))
    return np.array(found)


# -- scores and kernels (12.2.1) -----------------------------------------------------------------------------------


def test_s20_likelihood_and_fisher_score():
    """Definitions 12.25 and 12.26: derivatives of the log likelihood of a mixture, for all its parameters."""
    at = np.array([0.4, -0.4, -1.0, 2.0, 0.1, -0.3])  # log weights, means, log standard deviations

    def log_likelihood(theta):
        weight, mean, deviation = np.exp(theta[:2]) / np.exp(theta[:2]).sum(), theta[2:4], np.exp(theta[4:])
        return np.log(stats.norm.pdf(LINE[:, None], mean, deviation) @ weight)

    weight, deviation = np.exp(at[:2]) / np.exp(at[:2]).sum(), np.exp(at[4:])
    model = mc.Mixtures(weight[None], mc.Gaussians(at[None, 2:4, None], deviation[None] ** 2))
    order = [0, 1, 2, 4, 3, 5]  # the columns: weights, then mean and log standard deviation of each component
    assert_allclose(model.log_prob(LINE[:, None])[0], log_likelihood(at), rtol=1e-12)
    found = practical(model).features(list(LINE[:, None, None]))
    assert_allclose(found, slopes(log_likelihood, at)[order].T, rtol=1e-9, atol=1e-9)


def test_s22_practical_fisher_kernel():
    assert_allclose(practical(NORMAL)(POINTS), scores(POINTS) @ scores(POINTS).T, rtol=1e-12, atol=1e-12)


def test_s23_normalized_fisher_kernel():
    K = scores(POINTS) @ scores(POINTS).T
    norm = np.sqrt(np.diag(K))
    assert_allclose(mc.Fisher(NORMAL, "identity")(POINTS), K / norm / norm[:, None], rtol=1e-12, atol=1e-13)


def test_s24_gaussian_of_the_scores():
    sigma, g = 1.3, scores(POINTS)
    expected = np.exp(-np.sum((g[:, None] - g) ** 2, axis=2) / (2 * sigma**2))
    found = mc.kernels.Gaussianized(practical(NORMAL), gamma=1 / (2 * sigma**2))(POINTS)
    assert_allclose(found, expected, rtol=1e-10, atol=1e-15)


def test_s25_one_gaussian_and_two_of_fixed_width():
    """Examples 12.30 and 12.31 with their corrections: (x, x^2 - 1) at (0, 1); means weighted by responsibilities."""
    standard = practical(mc.Gaussians([[0.0]], [1.0])).features(LINE[:, None])
    assert_allclose(standard, np.column_stack([LINE, LINE**2 - 1]), rtol=1e-12)
    high, low, sigma = 1.0, -0.5, 0.8
    density = stats.norm.pdf(LINE[:, None], [high, low], sigma)
    share = density / density.sum(axis=1, keepdims=True)
    model = mc.Mixtures([[0.5, 0.5]], mc.Gaussians([[[high], [low]]], [[sigma**2, sigma**2]]))
    columns = [k for k, name in enumerate(model.score_names()) if "mean" in name]
    expected = share * (LINE[:, None] - [high, low]) / sigma**2
    assert_allclose(model.fisher_scores(LINE[:, None])[0][:, columns], expected, rtol=1e-12, atol=1e-14)


# -- Markov strings (examples 12.32 and 12.33) ---------------------------------------------------------------------


def pair_counts(string, k, letters):
    """Return how often each context of k symbols is followed by each letter, ``(contexts, letters)``."""
    return np.array(
        [[sum(string[j:].startswith(u + x) for j in range(len(string))) for x in letters] for u in words(k)]
    )


def test_s26_markov_strings():
    """n(u s) / a(u s) - n(u) with n(u) the windows that something follows (E18), for contexts of two symbols."""
    transition, strings = np.random.default_rng(0).dirichlet(np.ones(2), size=4), ["aabab", "bbabaabb"]
    counts = np.array([pair_counts(s, 2, "ab") for s in strings])
    chain = mc.MarkovChains(np.full((1, 4), 0.25), transition[None], order=2, alphabet="ab")
    expected = counts / transition - counts.sum(axis=2, keepdims=True)
    found = practical(chain, parametrization="weight").features(strings)
    assert_allclose(found, expected.reshape(2, -1), rtol=1e-12, atol=1e-12)
    uniform = mc.MarkovChains(np.full((1, 4), 0.25), np.full((1, 4, 2), 0.5), order=2, alphabet="ab")
    expected = 2 * counts - counts.sum(axis=2, keepdims=True)
    assert_allclose(practical(uniform, parametrization="weight").features(strings), expected.reshape(2, -1), atol=1e-12)


def test_s27_end_of_strings_and_learned_transitions():
    """Remark 12.33: an end symbol follows every string; transitions are the counts of the whole corpus."""
    strings = ["aab", "bb", "abab", "ba"]
    total = sum(pair_counts(s + "$", 1, "ab$") for s in strings)
    learned = total / total.sum(axis=1, keepdims=True)
    chain = mc.MarkovChain(order=1, alphabet="ab", end=True, prior=None).fit(strings).model_
    assert_allclose(chain.transition[0], learned, rtol=1e-13)
    counts = np.array([pair_counts(s + "$", 1, "ab$") for s in strings])
    expected = counts / learned - counts.sum(axis=2, keepdims=True)
    found = practical(chain, parametrization="weight").features(strings)
    assert_allclose(found, expected.reshape(len(strings), -1), rtol=1e-12, atol=1e-12)
    lengths = [np.exp(chain.log_prob(words(n))).sum() for n in range(1, 9)]
    step = learned[:, :2]
    first = np.array([sum(s.startswith(x) for s in strings) for x in "ab"]) / len(strings)
    expected = [first @ np.linalg.matrix_power(step, n - 1) @ learned[:, 2] for n in range(1, 9)]
    assert_allclose(lengths, expected, rtol=1e-12)


# -- invariance and the empirical information (12.2.1) -------------------------------------------------------------


def test_s29_invariant_kernel_is_invariant():
    """The kernel of strings of four symbols in three parametrizations, two of them mercer's."""
    strings, start = words(4), np.array([0.75, 0.5])  # P(a | a), P(a | b)

    def log_probs(theta):
        stay = np.sin(theta) ** 2  # a third parametrization, of two angles
        step = {"a": {"a": stay[0], "b": 1 - stay[0]}, "b": {"a": stay[1], "b": 1 - stay[1]}}
        return np.array([np.log(0.5) + sum(np.log(step[b][a]) for b, a in itertools.pairwise(s)) for s in strings])

    angles = np.arcsin(np.sqrt(start))
    mass, g = np.exp(log_probs(angles)), slopes(log_probs, angles).T
    expected = g @ np.linalg.inv(g.T @ (mass[:, None] * g)) @ g.T
    chain = mc.MarkovChains([[0.5, 0.5]], [np.column_stack([start, 1 - start])], alphabet="ab")
    sample = [
        s for s, p in zip(strings, mass, strict=True) for _ in range(round(128 * p))
    ]  # in the model's proportions
    assert len(sample) == 128
    for parametrization in ("logit", "weight"):
        kernel = mc.Fisher(chain, "empirical", parametrization=parametrization, ridge=0.0, normalize=False).fit(sample)
        assert_allclose(kernel(strings), expected, rtol=1e-8, atol=1e-8)


def test_s30_empirical_information():
    """The second moment of the scores of the sample, whole and its diagonal; their covariance only at the MLE (E21)."""
    g = scores(POINTS)
    information = g.T @ g / len(g)
    full = mc.Fisher(NORMAL, "empirical", ridge=0.0, normalize=False).fit(POINTS)
    assert_allclose(full(POINTS), g @ np.linalg.inv(information) @ g.T, rtol=1e-9, atol=1e-11)
    part = mc.Fisher(NORMAL, "diagonal", ridge=0.0, normalize=False).fit(POINTS)
    assert_allclose(part(POINTS), g / np.diag(information) @ g.T, rtol=1e-11, atol=1e-12)
    estimate = mc.Fisher(mc.Gaussian("diagonal", floor=0.0, prior=None), "empirical", ridge=0.0, normalize=False)
    for kernel, at_the_estimate in ((full, False), (estimate.fit(POINTS), True)):
        whitened = np.cov(kernel.features(POINTS).T, bias=True)
        assert np.allclose(whitened, np.eye(4), atol=1e-6) == at_the_estimate


# -- hidden Markov models (12.2.2), and further reading (12.4) -----------------------------------------------------

HMM_AT = np.array([0.6, 0.4, 0.8, 0.2, 0.3, 0.7, 0.5, 0.3, 0.2, 0.1, 0.2, 0.7])


def hmm():
    emission = mc.Categoricals(HMM_AT[None, 6:].reshape(1, 2, 3), alphabet="abc")
    return mc.HMMs(HMM_AT[None, :2], HMM_AT[None, 2:6].reshape(1, 2, 2), emission)


def paths(theta, string):
    """Return all paths of states and the joint probabilities of path and string, at unnormalized weights."""
    rows = [theta[None, :2], theta[2:6].reshape(2, 2), theta[6:].reshape(2, 3)]
    initial, moves, emission = (row / row.sum(axis=1, keepdims=True) for row in rows)
    hidden, x = list(itertools.product(range(2), repeat=len(string))), ["abc".index(c) for c in string]
    joint = [
        initial[0, h[0]] * np.prod([moves[b, a] for b, a in itertools.pairwise(h)]) * np.prod(emission[list(h), x])
        for h in hidden
    ]
    return np.array(hidden), np.array(joint)


def test_s31_scores_of_hidden_markov_models():
    """The two formulas of 12.2.2 (E19, E20) by enumeration of the paths, and derivatives of the log likelihood."""
    string = "abca"
    hidden, joint = paths(HMM_AT, string)
    share = joint / joint.sum()  # P(m | s)
    visits = np.array([[share @ (hidden[:, k] == a) for a in range(2)] for k in range(4)])
    emitted = np.array([sum(v * (x == c) for v, x in zip(visits, string, strict=True)) for c in "abc"]).T
    moved = np.zeros((2, 2))  # moved[b, a] is the expected number of transitions from b to a
    for b, a in np.ndindex(2, 2):
        moved[b, a] = share @ np.sum((hidden[:, :-1] == b) & (hidden[:, 1:] == a), axis=1)
    moves, emission = HMM_AT[2:6].reshape(2, 2), HMM_AT[6:].reshape(2, 3)
    first = visits[0] / HMM_AT[:2] - 1
    moved = moved / moves - visits[:-1].sum(axis=0)[:, None]
    emitted = emitted / emission - visits.sum(axis=0)[:, None]
    found = practical(hmm(), parametrization="weight").features([string])[0]
    assert_allclose(found, np.concatenate([first, moved.ravel(), emitted.ravel()]), rtol=1e-10, atol=1e-12)
    assert_allclose(found, slopes(lambda w: np.log(paths(w, string)[1].sum()), HMM_AT, 1e-4), rtol=1e-7, atol=1e-9)
    assert_allclose(hmm().posterior([string])[0], visits, rtol=1e-11)


@pytest.mark.parametrize("k", [1, 2])
def test_s33_marginalized_kernel_and_spectrum(k):
    """Counts of symbols with their hidden states, expected given the strings; words of k + 1 as scores (12.32)."""
    strings, expected = ["abca", "bbcab"], []
    for string in strings:
        hidden, joint = paths(HMM_AT, string)
        count = dict.fromkeys(itertools.product(itertools.product("abc", range(2)), repeat=k), 0.0)
        for h, p in zip(hidden, joint / joint.sum(), strict=True):
            seen = list(zip(string, h.tolist(), strict=True))
            for t in range(len(string) - k + 1):
                count[tuple(seen[t : t + k])] += p / (len(string) - k + 1)
        expected.append(list(count.values()))
    found = mc.PosteriorCounts(hmm(), k=k, normalize=False)(strings)
    assert_allclose(found, np.array(expected) @ np.array(expected).T, rtol=1e-11)
    strings = ["aabab", "bbabaabb"]
    first_term = np.array([2 * pair_counts(s, k, "ab").ravel() for s in strings])  # without the second term
    assert_allclose(4 * mc.Spectrum(k + 1, normalize=False)(strings), first_term @ first_term.T, rtol=1e-13)
