"""Random Fourier features of windows of vectors, and the error of their kernel (MM-2)."""

from __future__ import annotations

import numpy as np

from mercer._array import Floats
from mercer.data import Sequences
from mercer.families.characteristic import random_frequencies

CHUNK = 1 << 18
"""Number of random features of single windows computed at once, so that they stay in the cache."""
FEWEST = 20
"""Smallest effective number of frequencies of an object for reliable standard errors."""


def random_means(X: Sequences, order: int, gamma: float, n_components: int, seed: int, base: str = "rbf") -> Floats:
    """Average cosines and sines of random projections over the windows of every sequence, ``(N, 2 n_components)``.

    Inner products of rows are, on average over seeds, the exact kernel (EMMK-2, MM-2). The cost is linear in
    the lengths.
    """
    d = X.values.shape[1]
    frequencies = random_frequencies(np.random.default_rng(seed), gamma, ((order + 1) * d, n_components), base)
    out = np.empty((len(X), 2 * n_components))
    step = max(1, CHUNK // n_components)
    for i in range(len(X)):  # a few windows of one sequence at a time: its mean does not depend on its neighbors
        points = np.asarray(X[i], dtype=np.float64).reshape(-1, d)
        windows = np.lib.stride_tricks.sliding_window_view(points, (order + 1, d))[:, 0]
        total = np.zeros((2, n_components))
        for begin in range(0, len(windows), step):
            angles = windows[begin : begin + step].reshape(-1, (order + 1) * d) @ frequencies
            total += np.cos(angles).sum(axis=0), np.sin(angles).sum(axis=0)
        out[i] = total.ravel() / len(windows)
    return out / np.sqrt(n_components)


def spread(a: Floats, b: Floats, normalize: bool) -> Floats:
    """Estimate the standard errors of the kernels of every pair of rows of `random_means`, ``(N, M)``.

    A kernel is the mean over frequencies of v_f = c_f c'_f + s_f s'_f, which are independent. If the kernel is
    normalized, the self-kernels vary with it: v_f is replaced by its linearization in all three (delta method).
    Infinite if a few frequencies carry the whole norm of an object: their variance says nothing about the others.
    """
    count = a.shape[1] // 2
    if normalize:
        a, b = _unit(a), _unit(b)
    left, right = _Moments(a), _Moments(b)
    kernel = a @ b.T
    variance = count * (left.products @ right.products.T)  # the mean of v_f^2
    if normalize:  # v_f - kernel (p_f + p'_f) / 2 has the mean 0
        selves = left.fourth[:, None] + right.fourth + 2 * count * (left.powers @ right.powers.T)
        mixed = count * (left.weighted @ b.T + a @ right.weighted.T)
        variance += kernel**2 * selves / 4 - kernel * mixed
    else:
        variance -= kernel**2
    errors = np.sqrt(np.maximum(variance, 0.0) / (count - 1))  # for two equal rows only rounding errors are left
    errors[~left.enough] = np.inf
    errors[:, ~right.enough] = np.inf
    return errors


class _Moments:
    """The terms of the variance over frequencies."""

    def __init__(self, rows: Floats) -> None:
        cosine, sine = np.split(rows, 2, axis=1)
        self.products = np.concatenate([cosine**2, sine**2, np.sqrt(2) * cosine * sine], axis=1)
        self.powers = cosine**2 + sine**2
        self.weighted = rows * np.concatenate([self.powers, self.powers], axis=1)
        squares = (self.powers**2).sum(axis=1)
        self.fourth = cosine.shape[1] * squares
        # (sum p)^2 / sum p^2 is the effective number of frequencies
        self.enough = (squares > 0) & (self.powers.sum(axis=1) ** 2 >= FEWEST * squares)


def _unit(rows: Floats) -> Floats:
    """Divide rows by their norms; rows of zeros stay zero."""
    norms = np.sqrt((rows**2).sum(axis=1, keepdims=True))
    return np.asarray(rows / np.where(norms > 0, norms, 1.0))
