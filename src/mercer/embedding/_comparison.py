"""How observations and windows are compared: kernels, and features whose inner products are the kernel."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.base import clone

from mercer._array import Floats, Indices, to_numpy
from mercer.embedding._steps import take, windows
from mercer.families.characteristic import random_frequencies
from mercer.kernels import RBF, Kernel, Laplace, Linear
from mercer.kernels.linear_rbf import median_distance

EXPLICIT_COLUMNS = 1024
"""Maximum number of windows of symbols that are one-hot encoded; beyond it, the delta kernel is evaluated."""
NEGATIVE = 1e-8
"""Eigenvalues below minus this fraction of the largest are not rounding."""

Gram = Callable[[Any, Any], Floats]
"""``gram(a, b)``: the kernel matrix of two collections of objects."""
Features = Callable[[Any], Floats]
"""``features(objects)``: one row of features per object."""


def delta(a: Any, b: Any) -> Floats:
    """Return 1 where two symbols are equal, else 0."""
    return (np.asarray(a)[:, None] == np.asarray(b)[None, :]).astype(float)


@dataclass(frozen=True)
class Gaussian:
    """The kernel exp(-gamma |x - y|^2) of rows, computed by one matrix product."""

    gamma: float
    base: ClassVar[str] = "rbf"

    def log_integral(self, dimension: int) -> float:
        """Return the logarithm of the integral of the kernel over x."""
        return dimension / 2 * math.log(math.pi / self.gamma)

    def __call__(self, a: Floats, b: Floats) -> Floats:
        a, b = a - b[0], b - b[0]  # from an origin that is near: far from zero, distances lose digits
        out = a @ (2.0 * b).T
        out -= np.einsum("ij,ij->i", a, a)[:, None]
        out -= np.einsum("ij,ij->i", b, b)
        np.minimum(out, 0.0, out=out)
        out *= self.gamma
        return np.asarray(np.exp(out, out=out))


@dataclass(frozen=True)
class Absolute:
    """The Laplace kernel exp(-gamma |x - y|_1) of rows."""

    gamma: float
    base: ClassVar[str] = "laplace"

    def log_integral(self, dimension: int) -> float:
        """Return the logarithm of the integral of the kernel over x."""
        return dimension * math.log(2 / self.gamma)

    def __call__(self, a: Floats, b: Floats) -> Floats:
        return np.exp(-self.gamma * cdist(a, b, "cityblock"))


@dataclass(frozen=True)
class Fitted:
    """The matrix of a fitted kernel."""

    kernel: Kernel

    def __call__(self, a: Any, b: Any) -> Floats:
        return np.asarray(to_numpy(self.kernel(a) if b is a else self.kernel(a, b)), dtype=float)


@dataclass(frozen=True)
class Positions:
    """The product of a kernel over the positions of windows."""

    gram: Gram

    def __call__(self, a: Any, b: Any) -> Floats:
        out = self.gram(a[0], b[0])
        for x, y in zip(a[1:], b[1:], strict=True):
            out = out * self.gram(x, y)
        return out


@dataclass(frozen=True)
class Explicit:
    """The explicit features of a fitted kernel."""

    kernel: Kernel

    def __call__(self, rows: Floats) -> Floats:
        return np.asarray(self.kernel.features(rows), dtype=float)


class Comparison:
    """Kernel matrices of observations and of windows.

    Parameters
    ----------
    kernel : Kernel or None
        None is the delta kernel of symbols, and the Gaussian kernel with the median rule for vectors.
    values : array or list
        Observed training observations.
    starts : array of int
        Beginnings of the training windows.
    window : int
        Length of a window.
    rng : Generator
        Draws the observations of the median rule.
    """

    def __init__(self, kernel: Any, values: Any, starts: Indices, window: int, rng: np.random.Generator) -> None:
        self.window = window
        self.vectors = isinstance(values, np.ndarray) and values.ndim == 2
        self.is_linear, self.is_objects = False, isinstance(values, list)
        self.is_delta = not self.vectors and kernel is None
        if self.is_delta:
            self._grams: tuple[Any, Any] = (delta, Positions(delta))
            return
        if not self.vectors:
            fitted = clone(kernel).fit(take(values, np.unique(starts[:, None] + np.arange(window))))
            self._grams = (Fitted(fitted), Positions(Fitted(fitted)))
            return
        sides = [values[starts]] + [windows(values, starts, window)] * (window > 1)
        made = [self._of_vectors(kernel, side, rng, size) for side, size in zip(sides, (1, window), strict=False)]
        self._grams = (made[0], made[-1])
        self.is_linear = isinstance(kernel, Linear)

    @staticmethod
    def _of_vectors(kernel: Any, rows: Floats, rng: np.random.Generator, window: int) -> Any:
        median = median_distance(rows, rng) if kernel is None else 1.0
        if median == 0 or np.all(rows == rows[0]):
            raise ValueError(
                f"All observations are equal ({rows[0][:3]} ...), so there is nothing to predict. Pass data that vary."
            )
        if kernel is None:
            return Gaussian(0.5 / median)
        if isinstance(kernel, RBF):
            return Gaussian(clone(kernel).fit(rows).inverse_width(rows.shape[1]))
        if isinstance(kernel, Laplace):  # of windows, whose rows are divided by sqrt(window): means over the steps, too
            return Absolute(clone(kernel).fit(rows / np.sqrt(window)).inverse_width(rows.shape[1]) / np.sqrt(window))
        return Fitted(clone(kernel).fit(rows))

    def observations(self, a: Any, b: Any) -> Floats:
        """Return the kernel of every pair of observations."""
        return np.asarray(self._grams[0](a, b))

    @property
    def base(self) -> Gaussian | Absolute | None:
        """The kernel of observations; None if it is neither Gaussian nor Laplace."""
        return self._grams[0] if isinstance(self._grams[0], Gaussian | Absolute) else None

    def exact_features(self, width: int) -> tuple[Features, Features] | None:
        """Return the features of observations of ``width`` symbols or coordinates, and of windows, if they are few."""
        if self.is_delta and width**self.window <= EXPLICIT_COLUMNS:
            return OneHot(width), OneHot(width, self.window)
        if self.is_linear:
            return Explicit(self._grams[0].kernel), Explicit(self._grams[1].kernel)
        return None

    def random_features(self, n: int, width: int, rng: np.random.Generator) -> tuple[Features, Features]:
        """Return n random features of observations and of windows."""
        if self.base is None:
            raise ValueError("features='random' needs vectors and an RBF or Laplace kernel. Use features='landmarks'.")
        first = Fourier(self._grams[0], width, n, rng)
        return first, first if self.window == 1 else Fourier(self._grams[1], width * self.window, n, rng)

    def landmark_features(self, observations: Any, windows: Any) -> tuple[Features, Features]:
        """Return the projections of observations and of windows onto those that are landmarks."""
        first = Nystroem(self._grams[0], observations)
        return first, first if self.window == 1 else Nystroem(self._grams[1], windows)


def check_semidefinite(eigenvalues: Floats, what: str) -> None:
    """Raise if eigenvalues of a kernel matrix are negative beyond rounding."""
    least, largest = float(eigenvalues.min()), float(np.abs(eigenvalues).max())
    if not np.isfinite(largest):
        raise ValueError(f"The kernel matrix of the {what} is not finite. Rescale the data, or use another kernel.")
    if largest == 0:
        raise ValueError(f"The kernel matrix of the {what} is zero. Use a kernel that separates the observations.")
    if least < -NEGATIVE * largest:
        raise ValueError(
            f"The kernel is not positive semi-definite: its matrix of the {what} has the eigenvalue {least:.3g}, and "
            f"the largest is {largest:.3g}. Use a positive semi-definite kernel, or wrap it in mc.kernels.Repaired."
        )


class Nystroem:
    """Features from landmarks: projections onto their span.

    Parameters
    ----------
    gram : callable
        The kernel.
    landmarks : data
        What ``gram`` compares.
    """

    def __init__(self, gram: Gram, landmarks: Any) -> None:
        self.gram, self.landmarks = gram, landmarks
        values, vectors = np.linalg.eigh(gram(landmarks, landmarks))
        check_semidefinite(values, "landmarks")
        keep = values > 1e-10 * values[-1]
        self.projection = vectors[:, keep] / np.sqrt(values[keep])

    def __call__(self, objects: Any) -> Floats:
        """Return the features, ``(n, r)``."""
        return self.gram(objects, self.landmarks) @ self.projection


class Fourier:
    r"""Random Fourier features of a kernel of differences: cosines and sines at ``n // 2`` frequencies (MM-2)."""

    def __init__(self, kernel: Gaussian | Absolute, dimension: int, n: int, rng: np.random.Generator) -> None:
        self.frequencies = random_frequencies(rng, kernel.gamma, (dimension, max(n // 2, 1)), kernel.base)

    def __call__(self, rows: Floats) -> Floats:
        """Return the features, ``(n, r)``."""
        angles = rows @ self.frequencies
        return np.concatenate([np.cos(angles), np.sin(angles)], axis=1) / np.sqrt(self.frequencies.shape[1])


class OneHot:
    """Exact features of the delta kernel of windows of symbols.

    Parameters
    ----------
    n_symbols : int
        Size of the alphabet.
    window : int
        Number of positions.
    """

    def __init__(self, n_symbols: int, window: int = 1) -> None:
        self.n_symbols, self.window = n_symbols, window

    def __call__(self, codes: Any) -> Floats:
        """Return the features, ``(n, n_symbols^window)``."""
        positions = codes if isinstance(codes, list) else [codes]
        code = np.zeros(len(positions[0]), dtype=np.int64)
        for one in positions:
            code = code * self.n_symbols + one
        return np.eye(self.n_symbols**self.window)[code]
