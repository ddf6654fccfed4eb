"""Agarwal and Daume 2011: kernels of any family from the dual of its log partition, and Gaussians of known covariance.

The families here declare nothing but their log partition function; duals are computed by themselves below.
"""

import math

import numpy as np
from numpy.testing import assert_allclose
from scipy.optimize import brentq, minimize, root
from scipy.special import gammaln, psi

import mercer as mc
from mercer import families
from mercer.families import ExponentialFamily, Parameter
from mercer.families.sets import open_simplex, positive, reals, sphere
from mercer.families.special import log, log_bessel, sqrt, total


class Compositions(ExponentialFamily):
    """Dirichlet distributions."""

    theta = Parameter(positive)
    support = open_simplex

    def natural(self):
        return self.theta - 1

    def from_natural(self, theta):
        return theta + 1

    def statistic(self, x):
        return log(x)

    def partition(self, theta):
        return total(families.special.gammaln(theta + 1)) - families.special.gammaln(total(theta + 1))


class Directions(ExponentialFamily):
    """Von Mises-Fisher distributions."""

    vector = Parameter(reals)
    support = sphere

    def partition(self, theta):
        d = theta.shape[-1]
        return log_bessel(d / 2 - 1, sqrt(total(theta * theta))) + d / 2 * math.log(2 * math.pi)


def divergences(mean, dual):
    """Equation (5) of all pairs."""
    ends = np.array([dual(mu) for mu in mean])
    middle = np.array([[dual((mu + nu) / 2) for nu in mean] for mu in mean])
    return (ends[:, None] + ends) / 2 - middle


def agree(batch, mean, dual):
    psi = divergences(mean, dual)
    assert_allclose(batch.mean_parameters, mean, rtol=1e-10, atol=1e-12)
    assert_allclose(batch.dual_divergence(batch), psi, rtol=1e-8, atol=1e-12)
    assert_allclose(mc.JensenShannon(form="exp", t=0.7)(batch), np.exp(-0.7 * psi), rtol=1e-9)
    assert_allclose(mc.JensenShannon(form="inverse", t=0.7, normalize=False)(batch), 1 / (0.7 + psi), rtol=1e-9)


def test_a2_kernel_from_the_dual():
    a = np.array([[1.0, 2.0, 3.0], [4.0, 4.0, 4.0], [0.5, 0.5, 2.0]])

    def concentration(mu):
        start = np.log(np.exp(mu) / np.exp(mu).sum() * 3)
        return np.exp(root(lambda u: psi(np.exp(u)) - psi(np.exp(u).sum()) - mu, start, tol=1e-14).x)

    def dual_of_dirichlet(mu):  # theta = a - 1, and G = sum of log Gamma(a) - log Gamma(sum of a)
        found = concentration(mu)
        return (found - 1) @ mu - gammaln(found).sum() + gammaln(found.sum())

    agree(Compositions(a), psi(a) - psi(a.sum(axis=1, keepdims=True)), dual_of_dirichlet)

    vectors = np.array([[2.0, 0.0, 0.0], [1.0, -1.0, 0.5], [0.0, 0.3, 4.0]])
    kappa = np.linalg.norm(vectors, axis=1)

    def langevin(k):
        return 1 / np.tanh(k) - 1 / k

    def dual_of_directions(mu):  # on a sphere in three dimensions G = log(4 pi sinh(kappa) / kappa)
        length = np.linalg.norm(mu)
        k = brentq(lambda k: langevin(k) - length, 1e-6, 500, xtol=1e-14, rtol=1e-14)
        return k * length - np.log(4 * np.pi * np.sinh(k) / k)

    agree(Directions(vectors), vectors * (langevin(kappa) / kappa)[:, None], dual_of_directions)


def test_a11_gaussians_of_known_covariance():
    mean = np.array([[0.0, 1.0], [2.0, -1.0], [0.5, 0.5]])
    known, t = np.array([[1.0, 0.6], [0.6, 2.0]]), 0.8

    def dual(mu):  # the largest <theta, mu> - G(theta), G = theta' S theta / 2
        return -minimize(lambda theta: theta @ known @ theta / 2 - theta @ mu, np.zeros(2), tol=1e-12).fun

    p = families.GaussianMeans(mean, known)
    agree(p, mean, dual)
    white = np.linalg.solve(np.linalg.cholesky(known), mean.T).T
    assert_allclose(mc.JensenShannon(form="exp", t=t)(p), mc.RBF(gamma=t / 8)(white), rtol=1e-12)
    for rho in (0.5, 1.0, 3.0):  # "all kernels ... reduce to RBF"
        assert_allclose(mc.ProbabilityProduct(rho=rho)(p), mc.RBF(gamma=rho / 4)(white), rtol=1e-12)
    points = [np.array([[0.0, 2.0], [0.0, 0.0]]), np.array([[2.0, -1.0]]), np.array([[0.5, 0.5]])]
    kernel = mc.JensenShannon(families.GaussianMean(covariance=known), form="exp", t=t)
    assert_allclose(kernel(points), mc.RBF(gamma=t / 8)(white), rtol=1e-12)
