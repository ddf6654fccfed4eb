"""Section 5 of Jebara, Kondor and Howard 2004: sampling approximations, and switching systems."""

from itertools import pairwise, product

import numpy as np
from scipy.stats import multivariate_normal, norm

import mercer as mc

MEAN, SD = np.array([0.0, 0.7, -0.4]), np.array([1.0, 0.8, 1.5])
NORMALS = mc.Gaussians(MEAN[:, None], SD**2)


def expected_likelihood(rho):
    """The integrals of p^rho q^rho on a grid."""
    x = np.linspace(-14, 14, 20001)
    powers = norm.pdf(x, MEAN[:, None], SD[:, None]) ** rho
    return powers @ powers.T * (x[1] - x[0])


def by_both_sides(rho, beta, seed, size=300):
    """The printed estimate: beta/N sum Z q(x_i)^rho + (1 - beta)/N sum Z' p(y_i)^rho, with the row first."""
    kernel = mc.Sampled(rho=rho, proposal="pairs", beta=beta, n_samples=size, random_state=seed, normalize=False)
    return kernel, kernel(NORMALS)


def test_j38_two_sided_monte_carlo_of_the_expected_likelihood():
    exact, found = expected_likelihood(1.0), []
    for seed in range(30):
        kernel, value = by_both_sides(1.0, 0.3, seed)
        found.append(value)
        assert (np.abs(value - exact) < 5 * kernel.standard_errors(NORMALS)).all()
    error = np.std(found, axis=0, ddof=1) / np.sqrt(30)
    assert (np.abs(np.mean(found, axis=0) - exact) < 4.5 * error).all()  # unbiased
    draws = kernel.fit(NORMALS)._prepare(NORMALS).draws  # the printed sum over the same draws, one pair at a time
    one = 0.3 * norm.pdf(draws[2][:, 0], MEAN[0], SD[0]).mean() + 0.7 * norm.pdf(draws[0][:, 0], MEAN[2], SD[2]).mean()
    np.testing.assert_allclose([value[2, 0], value[0, 2]], one, rtol=1e-9)  # the lower triangle is replicated
    assert kernel.psd == "no"


def test_j39_general_powers_through_normalized_powers():
    rho, exact, found = 0.6, expected_likelihood(0.6), []
    for seed in range(30):
        kernel, value = by_both_sides(rho, 0.5, seed)
        found.append(value)
        assert (np.abs(value - exact) < 5 * kernel.standard_errors(NORMALS)).all()
    error = np.std(found, axis=0, ddof=1) / np.sqrt(30)
    assert (np.abs(np.mean(found, axis=0) - exact) < 4.5 * error).all()
    draws = [x[:, 0] for x in kernel.fit(NORMALS)._prepare(NORMALS).draws]  # of N(m, s^2 / rho)
    z = np.sqrt(2 * np.pi * SD**2) ** (1 - rho) / np.sqrt(rho)  # the integral of a power
    sides = [(1, 0), (0, 1)]
    one = np.mean([z[i] * np.mean(norm.pdf(draws[i], MEAN[j], SD[j]) ** rho) for i, j in sides])
    np.testing.assert_allclose(value[1, 0], one, rtol=1e-9)
    assert all(abs(np.std(x) / (s / np.sqrt(rho)) - 1) < 0.2 for x, s in zip(draws, SD, strict=True))


def switching(regimes, seed):
    """One model of one-dimensional states and observations, and its parameters."""
    rng = np.random.default_rng(seed)
    first, step = rng.dirichlet(np.ones(regimes)), rng.dirichlet(np.ones(regimes), regimes)
    parts = [rng.uniform(0.3, 1.0, regimes) for _ in range(6)]
    a, c, q, r, mean, s = parts
    columns = [part.reshape(1, regimes, 1, 1) for part in (a, c, q, r)]
    systems = mc.LDSs(*columns, mean.reshape(1, regimes, 1), s.reshape(1, regimes, 1, 1))
    return mc.models.SwitchingLDSs(first[None], step[None], systems), (first, step, *parts)


def paths(parameters, length):
    """Probability, mean and covariance of the observations of every path of regimes."""
    first, step, a, c, q, r, mean, s = parameters
    for path in product(range(len(first)), repeat=length):
        probability = first[path[0]] * np.prod([step[i, j] for i, j in pairwise(path)])
        center, spread = np.zeros(length), np.zeros((length, length))
        for t, k in enumerate(path):
            center[t] = a[k] * center[t - 1] if t else mean[k]
            spread[t, :t] = spread[:t, t] = a[k] * spread[t - 1, :t] if t else 0
            spread[t, t] = a[k] ** 2 * spread[t - 1, t - 1] + q[k] if t else s[k]
        gain, noise = np.array([c[k] for k in path]), np.diag([r[k] for k in path])
        yield probability, gain * center, gain[:, None] * spread * gain + noise


def test_j42_switching_systems_of_different_numbers_of_regimes():
    """The hybrid: averages over pairs of paths of the closed form of Gaussians, here over all of them."""
    (two, left), (three, right) = switching(2, 0), switching(3, 1)
    rho, length = 0.5, 3

    def gaussian(p, q):
        """Equation 5 at 1/2, the Bhattacharyya coefficient of two Gaussians."""
        (_, m, s), (_, n, v) = p, q
        half, gap = (s + v) / 2, m - n
        log = -gap @ np.linalg.solve(half, gap) / 8 - np.linalg.slogdet(half)[1] / 2
        return np.exp(log + (np.linalg.slogdet(s)[1] + np.linalg.slogdet(v)[1]) / 4)

    sides = [list(paths(parameters, length)) for parameters in (left, right)]
    for switches, power in (("expected", 1.0), ("joint", rho)):
        expected = [
            [sum((p[0] * q[0]) ** power * gaussian(p, q) for p in one for q in other) for other in sides]
            for one in sides
        ]
        kernel = mc.kernels.SwitchingProduct(rho=rho, length=length, switches=switches, normalize=False)
        np.testing.assert_allclose(kernel([two, three]), expected, rtol=1e-9)
        np.testing.assert_allclose(kernel(two, three), [[expected[0][1]]], rtol=1e-9)
    drawn = mc.kernels.SwitchingProduct(rho=rho, length=9, switches="expected", n_paths=4)([two, three])
    assert np.linalg.eigvalsh(drawn).min() > -1e-12  # always a valid kernel
    density = sum(p * multivariate_normal(m, s).pdf(np.zeros(length)) for p, m, s in sides[0])
    np.testing.assert_allclose(np.exp(two.log_prob([np.zeros((length, 1))])), [[density]], rtol=1e-9)
