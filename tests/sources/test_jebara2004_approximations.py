"""Jebara, Kondor and Howard 2004, sections 5 to 7: samples, mean fields, and other kernels between distributions."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import logsumexp
from sklearn.svm import SVC

import mercer as mc

LINE = np.linspace(-40, 40, 8001)
"""A grid of real numbers, for the trapezoidal rule."""

# -- section 5: samples --------------------------------------------------------------------------------------------


class Density:
    """A normal distribution that is sampled by a Markov chain (random walk Metropolis)."""

    def __init__(self, mean, deviation):
        self.normal = stats.norm(mean, deviation)

    def log_prob(self, X):
        return self.normal.logpdf(X[:, 0])

    def sample(self, size, random_state=None):
        rng = np.random.default_rng(random_state)
        x = np.zeros((size, 1))
        for _ in range(60):
            proposed = x + 2 * self.normal.std() * rng.normal(size=x.shape)
            accepted = np.log(rng.uniform(size=size)) < self.log_prob(proposed) - self.log_prob(x)
            x[accepted] = proposed[accepted]
        return x


def test_j40_matrices_that_are_not_positive_semidefinite(rng):
    x, new, labels = rng.normal(size=(12, 2)), rng.normal(size=(5, 2)), np.arange(12) % 2
    indefinite = mc.RBF(gamma=1.0) + (-0.9) * mc.RBF(gamma=3.0)
    K, rows = indefinite(x), indefinite(new, x)
    values, vectors = np.linalg.eigh(K)
    assert values[0] < -0.01
    kept = vectors[:, values > 1e-9]
    repaired = mc.kernels.Repaired(indefinite).fit(x)
    assert_allclose(repaired.transform(x), kept @ np.diag(values[values > 1e-9]) @ kept.T, atol=1e-12)
    assert_allclose(repaired.transform(new), rows @ kept @ kept.T, atol=1e-12)  # projected on the same features
    assert_allclose(K, np.tril(K) + np.tril(K, -1).T, rtol=0)  # one half is computed and mirrored
    assert SVC(kernel="precomputed").fit(K, labels).fit_status_ == 0  # sequential minimal optimization converges


@pytest.mark.parametrize("rho", [0.5, 1.0])
def test_j41_importance_sampling(rho):
    pair = [Density(0.0, 1.0), Density(1.0, 1.5)]
    kernel = mc.Sampled(rho=rho, n_samples=4000, normalize=False).fit(pair)
    x = kernel.samples_
    logs = np.array([one.log_prob(x) for one in pair])
    weights = np.exp(logsumexp(logs, axis=0) - np.log(2))  # draws are from the average of both
    powers = np.exp(rho * logs)
    assert_allclose(kernel(pair), powers / weights @ powers.T / 4000, rtol=1e-11)
    densities = np.array([one.normal.pdf(LINE) for one in pair]) ** rho
    exact = np.trapezoid(densities[:, None] * densities, LINE)
    assert np.all(np.abs(kernel(pair) - exact) <= 5 * kernel.standard_errors(pair) + 1e-12)


# -- section 6: mean field -----------------------------------------------------------------------------------------


def random_factorial(rng, chains):
    """Return a factorial hidden Markov model of binary chains, and of each chain its paths of length 2."""
    initial, transition = rng.dirichlet([1, 1], size=chains), rng.dirichlet([1, 1], size=(chains, 2))
    mean = rng.normal(size=(chains, 2, 1))
    paths = np.array(list(itertools.product((0, 1), repeat=2)))
    log_prior = np.log([initial[c, paths[:, 0]] * transition[c, paths[:, 0], paths[:, 1]] for c in range(chains)])
    batch = mc.models.FactorialHMMs(initial[None], transition[None], mean[None], np.ones((1, 1, 1)))
    return batch, log_prior, mean[:, paths, 0]  # (C, 4), and (C, 4, 2): what each path adds at each step


def log_potential(first, second, rho):
    """Log of the sum over x of all factors of two models, for all paths of all chains."""
    (_, prior, effect), (_, other_prior, other_effect) = first, second
    D = len(prior) + len(other_prior)
    total, difference = np.zeros((4,) * D), np.zeros((4,) * D + (2,))
    for c, (log_prior, add) in enumerate(
        zip((*prior, *other_prior), (*effect, *(-e for e in other_effect)), strict=True)
    ):
        shape = [4 if i == c else 1 for i in range(D)]
        total = total + rho * log_prior.reshape(shape)
        difference = difference + add.reshape(*shape, 2)
    at_zero = (1 - 2 * rho) / 2 * np.log(2 * np.pi) - np.log(2 * rho) / 2  # of two normal distributions of variance 1
    return total + np.sum(at_zero - rho / 4 * difference**2, axis=-1)


def mean_field(potential, rng):
    """Maximize E_Q[potential] + H(Q) over products of distributions of paths, by coordinate ascent, several starts."""
    D, found = potential.ndim, []
    for _ in range(4):
        q = list(rng.dirichlet(np.ones(4), size=D))
        for c in itertools.islice(itertools.cycle(range(D)), 60 * D):
            axes = [x for i in range(D) if i != c for x in (q[i], [i])]
            expected = np.einsum(potential, range(D), *axes, [c])
            q[c] = np.exp(expected - logsumexp(expected))
        everything = [x for i in range(D) for x in (q[i], [i])]
        found.append(np.einsum(potential, range(D), *everything, []) + sum(stats.entropy(one) for one in q))
    return max(found)


@pytest.mark.parametrize("rho", [0.5, 1.0])
def test_j44_structured_mean_field(rho, rng):
    first, second = random_factorial(rng, 2), random_factorial(rng, 1)
    potential = log_potential(first, second, rho)
    options = {"rho": rho, "length": 2, "normalize": False}
    exact = logsumexp(potential)
    assert_allclose(mc.ProbabilityProduct(**options).log(first[0], second[0]), [[exact]], rtol=1e-11)
    bound = mc.kernels.MeanField(**options, n_init=6).log(first[0], second[0])[0, 0]
    assert_allclose(bound, mean_field(potential, rng), rtol=1e-6)
    assert bound < exact


# -- section 7: other kernels --------------------------------------------------------------------------------------


def test_j47_heat_kernel_of_multinomials(rng):
    p, t = rng.dirichlet(np.ones(4), size=3), 0.8
    angle = np.arccos(np.minimum(np.sqrt(p) @ np.sqrt(p).T, 1))
    expected = np.exp(-(angle**2) / t)
    assert_allclose(mc.Heat(t=t)(mc.Multinomials(p)), expected, rtol=1e-7)
    product = mc.ProbabilityProduct(rho=0.5)(mc.Multinomials(p))  # the same inner product of square roots
    assert_allclose(np.cos(np.sqrt(-t * np.log(mc.Heat(t=t)(mc.Multinomials(p))))), product, rtol=1e-9)


@pytest.mark.parametrize("k", [1, 2])
def test_j50_marginalized_count_kernel(k, rng):
    start, step, letter = rng.dirichlet(np.ones(2)), rng.dirichlet(np.ones(2), 2), rng.dirichlet(np.ones(3), 2)
    model = mc.HMMs(start[None], step[None], mc.Categoricals(letter[None], alphabet="abc"))

    def annotated(string):
        """Yield all paths with their posterior, and the share of each word of letters and states."""
        x = ["abc".index(c) for c in string]
        paths = list(itertools.product((0, 1), repeat=len(x)))
        joint = [
            start[h[0]] * np.prod([step[i, j] for i, j in itertools.pairwise(h)]) * np.prod(letter[list(h), x])
            for h in paths
        ]
        for h, weight in zip(paths, np.divide(joint, np.sum(joint)), strict=True):
            words = list(zip(*(zip(x[i:], h[i:], strict=True) for i in range(k)), strict=False))
            yield weight, {word: words.count(word) / len(words) for word in words}

    strings = ["abca", "cba"]
    expected = [
        [
            sum(
                a * b * sum(share * other.get(word, 0) for word, share in one.items())
                for a, one in annotated(s)
                for b, other in annotated(r)
            )
            for r in strings
        ]
        for s in strings
    ]
    assert_allclose(mc.PosteriorCounts(model, k=k, normalize=False)(strings), expected, rtol=1e-11)


def test_j51_exponentiated_kl():
    mean, deviation, a, b = np.array([0.0, 1.5, -2.0]), np.array([1.0, 0.7, 2.0]), 0.3, 0.2
    logs = stats.norm.logpdf(LINE, mean[:, None], deviation[:, None])
    divergence = np.trapezoid(np.exp(logs)[:, None] * (logs[:, None] - logs), LINE)
    expected = np.exp(-a * divergence - a * divergence.T + b)
    batch = mc.Gaussians(mean[:, None], deviation**2)
    assert_allclose(mc.SymmetricKL(alpha=a, beta=b)(batch), expected, rtol=1e-9)
