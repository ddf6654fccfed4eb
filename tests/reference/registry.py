"""The registry of reference cases, and random models and data that several of them use."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

import mercer as mc

EXACT = 1e-12
"""Kernels, scores and likelihoods of given parameters agree to this."""
FITTED = 1e-8
"""Log-likelihoods of fitted models agree to this."""

Values = Mapping[str, Any]


class Case(NamedTuple):
    """A function of no arguments that returns named arrays, and how closely they must agree."""

    compute: Callable[[], Values]
    tolerance: float


CASES: dict[str, Case] = {}
"""All cases by their ids: the compiled file, a dash, and what is special."""


def case(name: str, *arguments: Any, tolerance: float = EXACT) -> Callable[..., Callable[..., Values]]:
    """Register a function as one case or, with ``arguments``, as one case for each of them, named ``name-argument``."""

    def register(function: Callable[..., Values]) -> Callable[..., Values]:
        for argument in arguments:
            CASES[f"{name}-{argument}"] = Case(functools.partial(_computed, function, argument), tolerance)
        if not arguments:
            CASES[name] = Case(functools.partial(_computed, function), tolerance)
        return function

    return register


def _computed(function: Callable[..., Values], *arguments: Any) -> Values:
    """Call a function so that nothing comes from a cache."""
    with mc.config(n_jobs=1, memo_bytes=0, cache_bytes=0):
        return function(*arguments)


def generator(*seed: object) -> np.random.Generator:
    """Return a generator whose stream depends on the seeds only, not on the order of the cases."""
    return np.random.default_rng(zlib.crc32(repr(seed).encode()))


def probabilities(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Return rows that sum to one, all of them well above zero."""
    x = rng.random(shape) + 0.1
    return x / x.sum(axis=-1, keepdims=True)


def chains(count: int, n: int, emission: Any, seed: object = 0) -> mc.HMMs:
    """Return random HMMs with the given emissions of shape (count, n)."""
    rng = generator("chains", n, seed)
    return mc.HMMs(probabilities(rng, count, n), probabilities(rng, count, n, n), emission)


def symbol_hmms(count: int, n: int, k: int = 4, seed: object = 0) -> mc.HMMs:
    """Return random HMMs that emit symbols, letters of DNA if there are four."""
    rng = generator("symbols", n, k, seed)
    alphabet = "dna" if k == 4 else None
    return chains(count, n, mc.Categoricals(probabilities(rng, count, n, k), alphabet=alphabet), seed)


def gaussian_emissions(count: int, n: int, d: int, structure: str, seed: object = 0) -> mc.Gaussians:
    """Return random Gaussians, (count, n)."""
    rng = generator("gaussians", n, d, structure, seed)
    mean = 2 * rng.normal(size=(count, n, d))
    if structure == "isotropic":
        return mc.Gaussians(mean, rng.uniform(0.5, 2.0, (count, n)))
    if structure == "diagonal":
        return mc.Gaussians(mean, rng.uniform(0.5, 2.0, (count, n, d)))
    root = rng.normal(size=(count, n, d, d))
    return mc.Gaussians(mean, root @ root.swapaxes(-1, -2) / d + 0.5 * np.eye(d))


def gaussian_hmms(count: int, n: int, d: int = 2, structure: str = "diagonal", seed: object = 0) -> mc.HMMs:
    """Return random HMMs that emit vectors."""
    return chains(count, n, gaussian_emissions(count, n, d, structure, seed), seed)


def strings(*lengths: int, k: int = 4, seed: object = 0) -> mc.Sequences:
    """Return random strings of the given lengths: DNA for four letters, proteins for 20."""
    rng = generator("strings", k, seed)
    codes = [rng.integers(0, k, length) for length in lengths]
    return mc.Sequences.from_codes(codes, {4: "dna", 20: "protein"}[k]) if k in (4, 20) else mc.Sequences(codes)


def series(*lengths: int, d: int = 2, gaps: float = 0.0, seed: object = 0) -> mc.Sequences:
    """Return random walks around zero of the given lengths, in which a share of the values is missing."""
    rng = generator("series", d, seed)
    found = []
    for length in lengths:
        x = 0.5 * rng.normal(size=(length, d)) + np.sin(np.arange(length) / 7)[:, None]
        x[rng.random(x.shape) < gaps] = np.nan
        found.append(x)
    return mc.Sequences(found)


def thinned(x: Any, most: int = 40) -> np.ndarray:
    """Return every k-th row, at most about ``most`` of them, and the sums over all: enough to notice a difference."""
    x = np.asarray(x, dtype=np.float64)
    return np.concatenate([x[:: -(-len(x) // most)], x.sum(axis=0, keepdims=True)])
