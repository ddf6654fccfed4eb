"""Batches from unconstrained numbers of any array library, and slow reference implementations of their kernels."""

from __future__ import annotations

import itertools

import numpy as np
from array_api_compat import array_namespace

import mercer as mc
from mercer.testing import KernelContract


def softmax(z):
    xp = array_namespace(z)
    e = xp.exp(z - xp.max(z, axis=-1, keepdims=True))
    return e / xp.sum(e, axis=-1, keepdims=True)


def gaussians(z, structure="full"):
    """Return Gaussians in two dimensions from 5 unconstrained numbers each."""
    xp = array_namespace(z)
    mean, variance = z[:, :2], xp.exp(2 * z[:, 2:4])
    if structure == "diagonal":
        return mc.Gaussians(mean, variance)
    if structure == "isotropic":
        return mc.Gaussians(mean, variance[:, 0])
    a, b, c = xp.exp(z[:, 2]), xp.exp(z[:, 3]), z[:, 4]
    rows = [xp.stack([a * a, a * c], axis=-1), xp.stack([a * c, c * c + b * b], axis=-1)]
    return mc.Gaussians(mean, xp.stack(rows, axis=-2))


def categoricals(z, make=mc.Categoricals, **options):
    return make(softmax(z), **options)


def bernoullis(z):
    return mc.families.Bernoullis(1 / (1 + array_namespace(z).exp(-z)))


def poissons(z):
    return mc.Poissons(array_namespace(z).exp(z))


def mixtures(z):
    """Return mixtures of two Gaussians on the line from 6 unconstrained numbers each."""
    xp = array_namespace(z)
    return mc.Mixtures(softmax(z[:, :2]), mc.Gaussians(2 * z[:, 2:4, None], xp.exp(z[:, 4:])))


def hmms(z, states=2, symbols=3):
    """Return hidden Markov models of symbols from n + n n + n k unconstrained numbers each."""
    xp, n = array_namespace(z), states
    initial, transition, emission = z[:, :n], z[:, n : n + n * n], z[:, n + n * n :]
    return mc.HMMs(
        softmax(initial),
        softmax(xp.reshape(transition, (-1, n, n))),
        mc.Categoricals(softmax(xp.reshape(emission, (-1, n, symbols)))),
    )


def gaussian_hmms(z):
    """Return hidden Markov models of two states with Gaussian emissions, from 2 + 4 + 4 numbers each."""
    xp = array_namespace(z)
    emission = mc.Gaussians(z[:, 6:8, None], xp.exp(z[:, 8:10]))
    return mc.HMMs(softmax(z[:, :2]), softmax(xp.reshape(z[:, 2:6], (-1, 2, 2))), emission)


WIDTH = {gaussians: 5, categoricals: 3, bernoullis: 2, poissons: 2, mixtures: 6, hmms: 12, gaussian_hmms: 10}


def strings(symbols, length):
    return list(itertools.product(range(symbols), repeat=length))


def string_weights(model, length, rho=1.0):
    """Sum P(string, path)^rho over all hidden paths, for every string, by enumeration."""
    initial, transition = np.asarray(model.initial), np.asarray(model.transition)
    emission = np.asarray(model.emission.probability)
    weights = []
    for x in strings(emission.shape[1], length):
        total = 0.0
        for path in strings(len(initial), length):
            joint = initial[path[0]] * emission[path[0], x[0]]
            for t in range(1, length):
                joint *= transition[path[t - 1], path[t]] * emission[path[t], x[t]]
            total += joint**rho
        weights.append(total)
    return np.array(weights)


AXIS = np.linspace(-14, 14, 281)
STEP = AXIS[1] - AXIS[0]


def density_on_plane(p):
    """Return the density of a Gaussian in two dimensions on the grid AXIS x AXIS."""
    covariance = np.asarray(p.covariance)
    if p.structure != "full":
        covariance = np.diag(np.broadcast_to(covariance, 2))
    x = np.stack(np.meshgrid(AXIS, AXIS, indexing="ij"), axis=-1) - np.asarray(p.mean)
    quadratic = np.einsum("...i,ij,...j", x, np.linalg.inv(covariance), x)
    return np.exp(-quadratic / 2) / (2 * np.pi * np.sqrt(np.linalg.det(covariance)))


def density_on_line(mean, variance):
    return np.exp(-((AXIS - mean) ** 2) / (2 * variance)) / np.sqrt(2 * np.pi * variance)


class Matrices(KernelContract):
    """Battery of kernels on rows of a matrix."""

    def data(self, seed, n):
        return np.random.default_rng(seed).normal(size=(n, 3))

    def nearly(self, epsilon):
        x = self.data(0, 1)
        return np.concatenate([x, x + epsilon * np.arange(3)])

    @staticmethod
    def rbf(X, gamma):
        return np.exp(-gamma * np.sum((X[:, None] - X) ** 2, axis=-1))
