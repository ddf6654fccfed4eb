"""Mehta and Gray 2010, sections 2 and 3: the mean map, and the generative mean map kernel."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import mercer as mc

LAMBDA = 0.7
"""The base kernel is exp(-LAMBDA |x - y|^2 / 2), as in section 3 of the paper."""
LINE = np.linspace(-14, 14, 561)
"""A grid of real numbers; the trapezoidal rule is exact to rounding for smooth densities that vanish at its ends."""


def base(x, y):
    """Gaussian kernels of all pairs of points; points are rows."""
    return np.exp(-LAMBDA / 2 * np.sum((np.asarray(x)[:, None] - np.asarray(y)) ** 2, axis=-1))


def mismatches(n):
    """Base kernel of one-hot encoded symbols, and of hidden states."""
    return base(np.eye(n), np.eye(n))


def over_line(densities):
    """Integrals of p(x) p'(y) k(x, y) of all pairs of densities on the grid."""
    step = LINE[1] - LINE[0]
    return densities @ base(LINE[:, None], LINE[:, None]) @ densities.T * step**2


def mean_map(*batches, **options):
    return mc.MeanMap(gamma=LAMBDA / 2, normalize=False, **options)(*batches)


def random_chain(rng, n):
    return rng.dirichlet(np.ones(n)), rng.dirichlet(np.ones(n), size=n)


def indices(n, length):
    return np.array(list(itertools.product(range(n), repeat=length)))


def over_strings(p, q, k, length):
    """Sum over all pairs of strings, whose base kernel is the product over time."""
    every = indices(len(k), length)
    return p @ np.prod(k[every[:, None], every], axis=-1) @ q


# -- section 2: the mean map ---------------------------------------------------------------------------------------


def test_m1_empirical_mean_map(rng):
    sets = [rng.normal(size=(n, 2)) for n in (3, 5)]
    expected = [[base(x, y).mean() for y in sets] for x in sets]
    assert_allclose(mc.EmpiricalMeanMap(gamma=LAMBDA / 2, normalize=False)(sets), expected, rtol=1e-12)
    points = np.array([[0.4], [-1.0]])  # equation (1): the mean map of N(1, 2) as a function
    expected = np.trapezoid(stats.norm.pdf(LINE, 1, np.sqrt(2)) * base(points, LINE[:, None]), LINE)
    at_points = mc.Gaussians(points, np.zeros((2, 1)))
    assert_allclose(mean_map(mc.Gaussians([[1.0]], [[2.0]]), at_points)[0], expected, rtol=1e-12)


def test_m3_cliques_of_a_graphical_model(rng):
    net = mc.BayesNets(
        {"a": [[0.5, 0.5]], "b": rng.dirichlet(np.ones(3), size=(1, 2)), "c": rng.dirichlet(np.ones(2), size=(1, 3))},
        {"a": 2, "b": 3, "c": 2},
        {"b": ["a"], "c": ["b"]},
    )
    tables = [np.stack([rng.integers(k, size=n) for k in (2, 3, 2)], axis=1) for n in (4, 6)]

    def kernel(x, y):  # over the cliques {a}, {a, b}, {b, c}: the mean over pairs of instances, and products of nodes
        same = np.where(x[:, None] == y, 1.0, np.exp(-LAMBDA))
        return sum(np.prod(same[..., clique], axis=-1).mean() for clique in ([0], [0, 1], [1, 2]))

    expected = [[kernel(x, y) for y in tables] for x in tables]
    found = mc.LatentMeanMap(net, gamma=LAMBDA / 2, normalize=False)([x.astype(float) for x in tables])
    assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("order", [1, 2])
def test_m4_cliques_of_markov_models(order, rng):
    series = [rng.normal(size=(n, 2)) for n in (5, 8)]
    strings = ["".join(rng.choice(list("abc"), size=n)) for n in (6, 9)]
    one_hot = [np.eye(3)[["abc".index(letter) for letter in x]] for x in strings]
    for data, vectors in ((series, series), (strings, one_hot)):
        windows = [np.array([x[t : t + order + 1].ravel() for t in range(len(x) - order)]) for x in vectors]
        expected = [[base(x, y).mean() for y in windows] for x in windows]
        found = mc.EmpiricalMeanMap(order=order, gamma=LAMBDA / 2, normalize=False)(data)
        assert_allclose(found, expected, rtol=1e-12)


# -- section 3: the generative mean map kernel ---------------------------------------------------------------------


def test_m5_generative_mean_map(rng):
    mean, variance = np.array([0.0, 1.5, -2.0]), np.array([1.0, 0.5, 1.5])
    normal = stats.norm.pdf(LINE, mean[:, None], np.sqrt(variance)[:, None])
    assert_allclose(mean_map(mc.Gaussians(mean[:, None], variance)), over_line(normal), rtol=1e-11)
    weight = rng.dirichlet(np.ones(3), size=2)
    components = mc.Gaussians(np.stack([mean[:, None]] * 2), np.stack([variance] * 2))
    found = mean_map(mc.Mixtures(weight, components))
    assert_allclose(found, over_line(weight @ normal), rtol=1e-11)
    many = mc.Gaussians(rng.normal(size=(30, 2)), rng.uniform(0.1, 3, size=30))
    assert np.linalg.eigvalsh(mean_map(many))[0] > -1e-13  # proposition 1


def test_m6_discrete_distributions(rng):
    a = rng.dirichlet(np.ones(4), size=3)
    expected = [
        [sum(p[i] * q[j] * np.exp(-LAMBDA * (i != j)) for i in range(4) for j in range(4)) for q in a] for p in a
    ]
    assert_allclose(mean_map(mc.Categoricals(a, alphabet="abcd")), expected, rtol=1e-13)


def test_m8_gaussians(rng):
    factors, mean = rng.normal(size=(2, 2, 4)), rng.normal(size=(2, 2))
    covariance = factors @ factors.transpose(0, 2, 1) / 8
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    grid = np.array(list(itertools.product(nodes, repeat=2)))
    weights = np.outer(weights, weights).ravel() / (2 * np.pi)
    x, y = (m + grid @ np.linalg.cholesky(S).T for m, S in zip(mean, covariance, strict=True))
    expected = weights @ base(x, y) @ weights  # the double integral of lemma 1
    assert_allclose(mean_map(mc.Gaussians(mean, covariance))[0, 1], expected, rtol=1e-9)

    (m, n), (S, R), eye = mean, covariance, np.eye(2)
    P, Q, W = np.linalg.inv(S), np.linalg.inv(R), np.linalg.inv(np.linalg.inv(S) + LAMBDA * eye)
    alpha, beta = -P @ W @ P + Q + P, LAMBDA * P @ W @ m + Q @ n  # E25: minus in front of the first term
    delta = -(LAMBDA**2) * m @ W @ m + n @ Q @ n + LAMBDA * m @ m
    equation_8 = np.exp((beta @ np.linalg.solve(alpha, beta) - delta) / 2)  # E25: plus in the exponent
    equation_8 /= np.sqrt(np.linalg.det(eye + LAMBDA * (S + R)))
    assert_allclose(equation_8, expected, rtol=1e-9)


def test_m9_markov_models(rng):
    length, every = 4, indices(3, 4)
    chains = random_chain(rng, 3), random_chain(rng, 3)
    p, q = (start[every[:, 0]] * np.prod(step[every[:, :-1], every[:, 1:]], axis=1) for start, step in chains)
    models = mc.MarkovChains([c[0] for c in chains], [c[1] for c in chains], alphabet="abc")
    expected = over_strings(p, q, mismatches(3), length)
    assert_allclose(mean_map(models, length=length)[0, 1], expected, rtol=1e-12)


def test_m9_markov_models_of_real_numbers():
    slope, noise = np.array([0.8, -0.4]), np.array([0.5, 0.9])  # x_t = slope x_{t-1} + noise, from N(0, 1)
    step = LINE[1] - LINE[0]
    moves = [stats.norm.pdf(LINE, a * LINE[:, None], np.sqrt(v)) for a, v in zip(slope, noise, strict=True)]
    kappa = base(LINE[:, None], LINE[:, None])
    start = stats.norm.pdf(LINE)
    table = np.outer(start, start) * kappa
    for _ in range(2):  # equation (11), one variable after the other
        table = (moves[0].T @ table @ moves[1]) * kappa * step**2
    one = np.ones((2, 1, 1))
    models = mc.LDSs(slope[:, None, None], one, noise[:, None, None], 0 * one, np.zeros((2, 1)), one)
    assert_allclose(mean_map(models, length=3)[0, 1], table.sum() * step**2, rtol=1e-10)


def figure_1(chains, psi, length):
    """The algorithm of figure 1, with the corrections of E26."""
    (start, step), (other_start, other_step) = chains
    phi = np.outer(start, other_start) * psi
    for _ in range(length - 1):
        phi = (step.T @ phi @ other_step) * psi
    return phi.sum()


def test_m10_hidden_markov_models(rng):
    length, every = 3, indices(3, 3)
    chains = random_chain(rng, 2), random_chain(rng, 3)
    letters = rng.dirichlet(np.ones(3), size=2), rng.dirichlet(np.ones(3), size=3)
    p, q = (
        sum(
            start[path[0]] * np.prod(step[path[:-1], path[1:]]) * np.prod(letter[path, every], axis=1)
            for path in indices(len(start), length)
        )
        for (start, step), letter in zip(chains, letters, strict=True)
    )
    expected = over_strings(p, q, mismatches(3), length)
    psi = letters[0] @ mismatches(3) @ letters[1].T
    assert_allclose(figure_1(chains, psi, length), expected, rtol=1e-12)
    first, second = (
        mc.HMMs(c[0][None], c[1][None], mc.Categoricals(x[None], alphabet="abc"))
        for c, x in zip(chains, letters, strict=True)
    )
    assert_allclose(mean_map(first, second, length=length), [[expected]], rtol=1e-12)


def test_m10_mixtures_as_emissions(rng):
    chains, models, densities = [], [], []
    for n in (2, 3):
        start, step = random_chain(rng, n)
        weight, mean = rng.dirichlet(np.ones(2), size=n), rng.normal(size=(n, 2))
        emission = mc.Mixtures(weight[None], mc.Gaussians(mean[None, ..., None], np.ones((1, n, 2))))
        chains.append((start, step))
        models.append(mc.HMMs(start[None], step[None], emission))
        densities.append(np.einsum("im,imx->ix", weight, stats.norm.pdf(LINE, mean[..., None])))
    psi = over_line(np.concatenate(densities))[:2, 2:]
    assert_allclose(mean_map(*models, length=4), [[figure_1(chains, psi, 4)]], rtol=1e-10)


def joint(system, steps):
    """Mean and covariance of the observations: x = C q + v, and every q is a sum of noises that A has moved."""
    A, C, R, mean, S = system
    n, d = len(A), len(C)
    noise = np.zeros((steps * n, steps * n))
    noise[:n, :n] = S
    noise[n:, n:] = np.eye((steps - 1) * n)
    move = np.block(
        [[np.linalg.matrix_power(A, t - s) if t >= s else np.zeros((n, n)) for s in range(steps)] for t in range(steps)]
    )
    seen = np.kron(np.eye(steps), C) @ move
    first = np.concatenate([mean, np.zeros((steps - 1) * n)])
    return seen @ first, seen @ noise @ seen.T + np.kron(np.eye(steps), R), d


def of_gaussians(m, S, n, R):
    """Lemma 1 as an integral over x - x', whose distribution is normal too."""
    total = np.eye(len(m)) + LAMBDA * (S + R)
    gap = m - n
    return np.exp(-LAMBDA / 2 * gap @ np.linalg.solve(total, gap)) / np.sqrt(np.linalg.det(total))


def test_m11_linear_dynamical_systems(rng):
    systems, steps = [], 4
    for n in (2, 3):
        factors = rng.normal(size=(2, 2))
        A, C = 0.6 * np.linalg.qr(rng.normal(size=(n, n)))[0], rng.normal(size=(2, n)) / 2
        systems.append((A, C, factors @ factors.T / 4 + 0.2 * np.eye(2), rng.normal(size=n), np.eye(n) / 2))
    (m, S, d), (n, R, _) = (joint(one, steps) for one in systems)
    first, second = (
        mc.LDSs(A[None], C[None], np.eye(len(A))[None], noise[None], mean[None], start[None])
        for A, C, noise, mean, start in systems
    )
    exact = of_gaussians(m, S, n, R)
    assert_allclose(mean_map(first, second, length=steps), [[exact]], rtol=1e-10)
    block = np.kron(np.eye(steps), np.ones((d, d)))  # as printed: the covariance is block diagonal
    printed = of_gaussians(m, S * block, n, R * block)
    assert_allclose(mean_map(first, second, length=steps, time="independent"), [[printed]], rtol=1e-10)
    assert abs(np.log(printed / exact)) > 0.001


def test_m12_kernel_density_estimates(rng):
    sets, width = [rng.normal(i, 1, size=(n, 1)) for i, n in enumerate((3, 5))], (0.3, 0.8)
    densities = np.array([stats.norm.pdf(LINE, x, np.sqrt(h)).mean(axis=0) for x, h in zip(sets, width, strict=True)])
    expected = over_line(densities)
    kdes = mc.models.KDEs(sets, bandwidth=width)
    assert_allclose(mean_map(kdes), expected, rtol=1e-11)
    h = 1 + LAMBDA * sum(width)  # equation (19)
    gaps = np.sum((sets[0][:, None] - sets[1]) ** 2, axis=-1)
    assert_allclose(np.exp(-LAMBDA * gaps / (2 * h)).mean() / np.sqrt(h), expected[0, 1], rtol=1e-11)


def test_m12_bandwidth_by_the_integrated_squared_error(rng):
    x = np.concatenate([rng.normal(-2, 0.5, size=30), rng.normal(2, 0.5, size=30)])
    gaps = x[:, None] - x
    off = ~np.eye(60, dtype=bool)

    def risk(h):
        return stats.norm.pdf(gaps, 0, np.sqrt(2 * h)).mean() - 2 * stats.norm.pdf(gaps[off], 0, np.sqrt(h)).mean()

    grid = np.geomspace(0.005, 2, 600)
    risks = [risk(h) for h in grid]
    found = mc.KDE(bandwidth="lscv").fit_each([x[:, None]]).bandwidth[0]
    assert risk(found) <= min(risks) + 1e-6
    assert_allclose(found, grid[np.argmin(risks)], rtol=0.02)
