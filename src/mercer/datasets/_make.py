"""Generators of documents, point sets and DNA, with one generative model per class."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from mercer._checks import is_whole
from mercer._parameters import between, check, extent, positive
from mercer._random import random_generator

_Labels = np.ndarray[tuple[int], np.dtype[np.int64]]


def make_documents(
    n_samples: int = 100,
    n_words: int = 100,
    *,
    length: int = 20,
    n_classes: int = 2,
    noise: float = 0.0,
    concentration: float = 1.0,
    random_state: Any = None,
) -> tuple[Any, _Labels]:
    """Generate documents from one random multinomial per class (agarwal2011, section 5.1).

    A document consists of ``length`` draws from the distribution of its class over ``n_words`` words. The
    ratio ``n_words / length`` determines the difficulty of the task: the paper uses 20 draws and a ratio of 5
    (dense) or 100 (sparse). With ``noise``, every draw copies the previous draw with that probability, so
    that the documents are no longer multinomial.

    Parameters
    ----------
    n_samples : int, default=100
        Number of documents.
    n_words : int, default=100
        Size of the vocabulary; 2000 is the paper's sparse setting.
    length : int, default=20
        Number of words per document.
    n_classes : int, default=2
        Number of classes.
    noise : float, default=0.0
        Probability that a draw copies the previous one, from 0 to 1.
    concentration : float, default=1.0
        Parameter of the symmetric Dirichlet distribution from which the distributions of the classes are drawn.
        The paper says only that they are random; 1 is uniform on the simplex, and smaller values make the
        classes easier to separate.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None, default=None
        Source of randomness.

    Returns
    -------
    X : scipy.sparse.csr_array of shape (n_samples, n_words)
        Word counts, float64; every row sums to ``length``.
    y : array of shape (n_samples,)
        Classes in cyclic order: 0, 1, ..., 0, 1, ...

    Examples
    --------
    >>> from mercer.datasets import make_documents
    >>> X, y = make_documents(6, n_words=50, length=20, random_state=0)
    >>> X.shape, X.sum(axis=1).tolist()
    ((6, 50), [20.0, 20.0, 20.0, 20.0, 20.0, 20.0])
    >>> y.tolist()
    [0, 1, 0, 1, 0, 1]
    """
    check(extent(), n_samples=n_samples, n_words=n_words, length=length, n_classes=n_classes)
    check(positive(), concentration=concentration)
    check(between(0, 1), noise=noise)
    rng = random_generator(random_state)
    y = _labels(n_samples, n_classes)
    cumulative = np.cumsum(rng.dirichlet(np.full(n_words, float(concentration)), size=n_classes), axis=1)
    words = _inverse_cdf(cumulative, y, rng.random((n_samples, length)))
    fresh = rng.random((n_samples, length)) >= noise
    fresh[:, 0] = True
    # A copied draw equals the last fresh draw before it.
    last = np.maximum.accumulate(np.where(fresh, np.arange(length), 0), axis=1)
    words = np.take_along_axis(words, last, axis=1)
    rows = np.repeat(np.arange(n_samples), length)
    # scikit-learn's linear models require 32-bit indices.
    indices = rows.astype(np.int32), words.ravel().astype(np.int32)
    counts = csr_array((np.ones(words.size), indices), shape=(n_samples, n_words))
    counts.sum_duplicates()
    return counts, y


def make_point_sets(
    n_samples: int = 60,
    n_features: int = 2,
    *,
    size: int | tuple[int, int] = (10, 40),
    n_classes: int = 2,
    n_components: int = 1,
    elongation: float = 6.0,
    random_state: Any = None,
) -> tuple[list[np.ndarray[Any, Any]], _Labels]:
    """Generate point sets from classes with the same mean and different covariances.

    The points of class c are drawn from a Gaussian, or a mixture of Gaussians, with mean zero, variance
    ``elongation`` along one direction and 1 across it. The direction is rotated by ``pi c / n_classes`` in a
    plane that all classes share, so the classes differ only in their direction.

    Parameters
    ----------
    n_samples : int, default=60
        Number of sets.
    n_features : int, default=2
        Dimension of the points, at least 2.
    size : int or (int, int), default=(10, 40)
        Number of points per set, or the smallest and largest number, between which it is drawn uniformly.
    n_classes : int, default=2
        Number of classes.
    n_components : int, default=1
        1 for Gaussians; otherwise the number of unit Gaussians in a row along the direction of the class, with
        the same total mean and covariance as the Gaussian.
    elongation : float, default=6.0
        Variance along the direction of the class, at least 1; at 1 the classes are identical.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None, default=None
        Source of randomness.

    Returns
    -------
    X : list of arrays of shape (n_points, n_features)
        The point sets.
    y : array of shape (n_samples,)
        Classes in cyclic order: 0, 1, ..., 0, 1, ...

    Examples
    --------
    >>> from mercer.datasets import make_point_sets
    >>> X, y = make_point_sets(4, size=(5, 9), random_state=0)
    >>> all(5 <= len(points) <= 9 and points.shape[1] == 2 for points in X)
    True
    >>> y.tolist()
    [0, 1, 0, 1]
    """
    check(extent(), n_samples=n_samples, n_classes=n_classes, n_components=n_components)
    check(extent(2), n_features=n_features)
    low, high = _check_range("size", size)
    check(between(1, np.inf, "left"), elongation=elongation)
    rng = random_generator(random_state)
    y = _labels(n_samples, n_classes)
    sizes = rng.integers(low, high, size=n_samples, endpoint=True)
    directions = _directions(n_classes, n_features, rng)[np.repeat(y, sizes)]
    points = rng.standard_normal((int(sizes.sum()), n_features))
    along = _along(points, directions, n_components, elongation, rng)
    points += (along - np.sum(points * directions, axis=1))[:, None] * directions
    return np.split(points, np.cumsum(sizes)[:-1]), y


def make_dna(
    n_samples: int = 60,
    *,
    length: int | tuple[int, int] = (30, 90),
    n_classes: int = 2,
    concentration: float = 2.0,
    random_state: Any = None,
) -> tuple[list[str], _Labels]:
    """Generate DNA strings of different lengths from one random Markov chain per class.

    Every string starts with a letter drawn uniformly from A, C, G, T and continues with the transition
    matrix of its class, whose rows are drawn from a symmetric Dirichlet distribution.

    Parameters
    ----------
    n_samples : int, default=60
        Number of strings.
    length : int or (int, int), default=(30, 90)
        Number of letters per string, or the smallest and largest number, between which it is drawn uniformly.
    n_classes : int, default=2
        Number of classes.
    concentration : float, default=2.0
        Parameter of the Dirichlet distribution; smaller values make the classes easier to separate.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None, default=None
        Source of randomness.

    Returns
    -------
    X : list of str
        The strings.
    y : array of shape (n_samples,)
        Classes in cyclic order: 0, 1, ..., 0, 1, ...

    Examples
    --------
    >>> from mercer.datasets import make_dna
    >>> X, y = make_dna(3, length=(4, 8), random_state=0)
    >>> all(4 <= len(string) <= 8 and set(string) <= set("ACGT") for string in X)
    True
    >>> y.tolist()
    [0, 1, 0]
    """
    check(extent(), n_samples=n_samples, n_classes=n_classes)
    check(positive(), concentration=concentration)
    low, high = _check_range("length", length)
    rng = random_generator(random_state)
    y = _labels(n_samples, n_classes)
    lengths = rng.integers(low, high, size=n_samples, endpoint=True)
    # One row per class and letter: the chain in state s of class c draws from row 4 c + s.
    cumulative = np.cumsum(rng.dirichlet(np.full(4, float(concentration)), size=4 * n_classes), axis=1)
    states = np.empty((n_samples, high), dtype=np.int64)
    states[:, 0] = rng.integers(4, size=n_samples)
    uniform = rng.random((high, n_samples))
    for t in range(1, high):
        states[:, t] = _inverse_cdf(cumulative, 4 * y + states[:, t - 1], uniform[t][:, None])[:, 0]
    letters = np.frombuffer(b"ACGT", dtype=np.uint8)[states]
    return [row[:n].tobytes().decode() for row, n in zip(letters, lengths, strict=True)], y


def _labels(n_samples: int, n_classes: int) -> _Labels:
    return np.arange(n_samples) % n_classes


def _inverse_cdf(
    cumulative: np.ndarray[Any, Any], row: np.ndarray[Any, Any], uniform: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """Draw from the categorical in ``cumulative[row[i]]`` for every number in ``uniform[i]``."""
    k = cumulative.shape[1]
    # A single sorted search over all rows: row r occupies the interval [r, r + 1]. The last entry of a row
    # is 1 only up to rounding, hence the clip.
    table = (np.clip(cumulative, 0, 1) + np.arange(len(cumulative))[:, None]).ravel()
    found = np.searchsorted(table, uniform + row[:, None], side="right") - k * row[:, None]
    return np.clip(found, 0, k - 1)


def _directions(n_classes: int, n_features: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Return one unit vector per class, at equal angles in a random plane: shape (n_classes, n_features)."""
    plane = np.linalg.qr(rng.standard_normal((n_features, 2)))[0]
    angle = np.pi * np.arange(n_classes) / n_classes
    return np.stack([np.cos(angle), np.sin(angle)], axis=1) @ plane.T


def _along(
    points: np.ndarray[Any, Any],
    directions: np.ndarray[Any, Any],
    n_components: int,
    elongation: float,
    rng: np.random.Generator,
) -> np.ndarray[Any, Any]:
    """Return coordinates along the directions of the classes, with variance ``elongation``."""
    standard = np.sum(points * directions, axis=1)
    if n_components == 1:
        return math.sqrt(elongation) * standard
    centers = np.linspace(-1, 1, n_components)
    centers *= math.sqrt((elongation - 1) / np.mean(centers**2))
    return standard + rng.choice(centers, size=len(points))


def _check_range(name: str, value: Any) -> tuple[int, int]:
    pair = value if isinstance(value, tuple | list) else (value, value)
    if len(pair) != 2 or not all(map(is_whole, pair)) or pair[0] > pair[1]:
        raise ValueError(
            f"{name} must be an integer of at least 1, or a pair (smallest, largest) of such integers; got {value!r}."
        )
    check(extent(), **{name: pair[1]})
    return int(pair[0]), int(pair[1])
