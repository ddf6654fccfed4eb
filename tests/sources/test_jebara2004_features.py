"""Jebara, Kondor and Howard 2004: vectors of powers, density estimates at every rho, and the Fisher kernel of 7."""

import itertools

import numpy as np

import mercer as mc


def test_j6_vectors_of_powers():
    """Section 2.1: the kernel of discrete distributions is the dot product of (p_1^rho, p_2^rho, ...)."""
    p = np.random.default_rng(0).dirichlet(np.ones(4), 5)
    g = np.random.default_rng(1).uniform(size=(5, 3))
    answers = itertools.product((0, 1), repeat=3)
    outcomes = np.stack([np.prod(np.where(x, g, 1 - g), axis=1) for x in answers], axis=1)
    for rho in (0.5, 0.8, 1.0, 2.0):
        kernel = mc.ProbabilityProduct(rho=rho, normalize=False)
        for batch, table in (
            (mc.Categoricals(p), p),
            (mc.Multinomials(p), p),
            (mc.families.Bernoullis(g), outcomes),
        ):
            np.testing.assert_allclose(kernel.features(batch), table**rho, rtol=1e-13)
            np.testing.assert_allclose(kernel(batch), (table**rho) @ (table**rho).T, rtol=1e-12)
    sphere = mc.ProbabilityProduct(rho=0.5).features(mc.Categoricals(p))
    np.testing.assert_allclose(np.linalg.norm(sphere, axis=1), 1, rtol=1e-14)  # Bhattacharyya: on the unit sphere


def test_j49_fisher_kernel_of_an_exponential_family():
    """Section 7: (T(x) - G)' I^-1 (T(x') - G) at the maximum likelihood estimate, G = K', I = K'' by differences."""
    x = np.random.default_rng(0).normal(2.0, 1.5, (7, 1))
    statistics = np.concatenate([x, x**2], axis=1)

    def log_partition(theta):  # of N(mean, variance), theta = (mean / variance, -1 / (2 variance))
        return -(theta[0] ** 2) / (4 * theta[1]) - np.log(-2 * theta[1]) / 2

    mean, variance = x.mean(), x.var()
    theta, h = np.array([mean / variance, -0.5 / variance]), 1e-4
    steps = h * np.eye(2)
    gradient = [(log_partition(theta + s) - log_partition(theta - s)) / (2 * h) for s in steps]
    information = [
        [
            sum(i * j * log_partition(theta + i * s + j * t) for i, j in itertools.product((1, -1), repeat=2))
            / (4 * h * h)
            for t in steps
        ]
        for s in steps
    ]
    centered = statistics - gradient
    np.testing.assert_allclose(gradient, statistics.mean(axis=0), rtol=1e-6)  # the maximum likelihood estimate
    kernel = mc.Fisher(mc.Gaussian("diagonal", floor=0.0), "model", per="sequence", power=1.0, normalize=False)
    slow = centered @ np.linalg.inv(information) @ centered.T
    np.testing.assert_allclose(kernel.fit(x)(x), slow, rtol=1e-4, atol=1e-4)
    u = (x - mean) / np.sqrt(variance)  # the same in closed form
    np.testing.assert_allclose(kernel(x), u @ u.T + (u**2 - 1) @ (u**2 - 1).T / 2, rtol=1e-10, atol=1e-12)


def test_j58_density_estimates_at_every_power():
    """Sections 2.2 and 4.1: a mixture of equal weights, the power taken of component and point, by quadrature."""
    sets, widths = [np.array([0.0, 1.0, 3.0]), np.array([0.5, 2.5])], (0.3, 0.8)
    x = np.linspace(-30, 30, 6001)
    for rho in (0.3, 0.5, 1.0, 2.0):
        powers = [
            np.sum(
                (np.exp(-((x - m[:, None]) ** 2) / (2 * h)) / np.sqrt(2 * np.pi * h) / len(m)) ** rho,
                axis=0,
            )
            for m, h in zip(sets, widths, strict=True)
        ]
        slow = [[np.sum(a * b) * (x[1] - x[0]) for b in powers] for a in powers]
        kernel = mc.ProbabilityProduct(rho=rho, normalize=False)
        p = mc.models.KDEs([m[:, None] for m in sets], bandwidth=np.array(widths))
        np.testing.assert_allclose(kernel(p), slow, rtol=1e-9)
