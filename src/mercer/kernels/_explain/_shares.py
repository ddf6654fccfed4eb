"""Shares of positions in weighted sums of kernel values, for kernels whose features are sums over positions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from mercer._array import Floats, to_numpy
from mercer._refusals import NotAdditive
from mercer.data.csr import CSRRows
from mercer.data.segments import segment_sum
from mercer.data.sequences import Sequences
from mercer.kernels._data import n_objects


@dataclass
class Shares:
    """Shares of positions in the outputs, and what belongs to no position.

    Parameters
    ----------
    values : array of shape (S, D, R)
        Shares of S positions of all samples, one after the other, with D channels, in R outputs.
    offsets : array of shape (n_samples + 1,)
        Sample i has the positions ``offsets[i]`` to ``offsets[i + 1]``.
    bias : array of shape (n_samples, R)
        What belongs to no position.
    near : array of shape (n_samples, R, 2) or None
        Sums of the absolute terms of features near zero, where a power is steep, and of all features.
    """

    values: Floats
    offsets: Floats
    bias: Floats
    near: Floats | None = None

    @staticmethod
    def zeros(source: Any, outputs: int) -> Shares:
        """Return no shares, for the positions of a source."""
        positions, channels, offsets = layout(source)
        return Shares(np.zeros((positions, channels, outputs)), offsets, np.zeros((len(offsets) - 1, outputs)))

    def scaled(self, factor: Floats) -> Shares:
        """Multiply all shares of a sample by a number, ``(n_samples,)``."""
        repeated = np.repeat(factor, np.diff(self.offsets))
        near = None if self.near is None else self.near * np.abs(factor)[:, None, None]
        return Shares(self.values * repeated[:, None, None], self.offsets, self.bias * factor[:, None], near)

    def plus(self, other: Shares) -> Shares:
        """Add shares of the same positions."""
        near = [part.near for part in (self, other) if part.near is not None]
        total = sum(near) if near else None
        return Shares(self.values + other.values, self.offsets, self.bias + other.bias, total)  # type: ignore[arg-type]

    def with_bias(self, bias: Floats) -> Shares:
        """Add constants, ``(n_samples, R)`` or ``(R,)``."""
        return replace(self, bias=self.bias + bias)

    def sums(self) -> Floats:
        """Return the sum of the shares of every sample, ``(n_samples, R)``."""
        return segment_sum(self.values.sum(axis=1), self.offsets)


@dataclass(frozen=True)
class Weights:
    """Weights of reference objects, or of explicit features, in R outputs.

    Parameters
    ----------
    values : array of shape (R, N) or (R, P)
        The weights.
    reference : source or None
        The reference objects; None for weights of features.
    """

    values: Floats
    reference: Any = None

    @property
    def over_features(self) -> bool:
        """Whether features are weighted."""
        return self.reference is None

    def scaled(self, factor: Any) -> Weights:
        """Multiply the weights, by a number or one number per column."""
        return Weights(self.values * factor, self.reference)


Handler = Callable[[Any, Any, Any, Weights], Shares]
"""From a kernel, its input, the source made from it and weights to shares, before normalization."""
HANDLERS: dict[type, Handler] = {}


def handles(*kinds: type) -> Callable[[Handler], Handler]:
    """Register the function for some kernels, and their subclasses."""

    def register(handler: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(kinds, handler))
        return handler

    return register


def shares_of(kernel: Any, data: Any, source: Any, weights: Weights) -> Shares:
    """Return the shares of all positions in weighted sums of kernel values or features.

    Parameters
    ----------
    kernel : Kernel
        A fitted kernel.
    data : input of the kernel
        Data, as they were passed to the kernel.
    source : source
        The compared objects that the kernel makes of them.
    weights : Weights
        Weights of reference objects or of features.
    """
    handler = next((HANDLERS[kind] for kind in type(kernel).__mro__ if kind in HANDLERS), None)
    if handler is None:
        raise not_additive(kernel, "is not a sum over positions")
    if not kernel.normalize:
        return handler(kernel, data, source, weights)
    if not weights.over_features:
        weights = weights.scaled(unit_factor(kernel, weights.reference))
    return handler(kernel, data, source, weights).scaled(unit_factor(kernel, source))


def not_additive(kernel: Any, why: str) -> NotAdditive:
    """Return the error of a kernel that has no shares."""
    return NotAdditive(
        f"{type(kernel).__name__} {why}, so its decisions have no exact shares. Use method='marginal', which leaves "
        "out positions."
    )


def unit_factor(kernel: Any, source: Any) -> Floats:
    """Return the factors that normalize the features of objects, ``(N,)``; 0 for objects of zero norm."""
    prepared = kernel._evaluation.prepared(source)
    norm = np.asarray(to_numpy(prepared.norm), dtype=np.float64)
    factor = np.exp(-norm / 2) if kernel.domain == "log" else 1 / np.sqrt(norm)
    return np.where(prepared.zero, 0.0, factor) if prepared.zero is not None else factor


def layout(source: Any) -> tuple[int, int, Floats]:
    """Return the number of positions and channels of data, and the offsets of the samples."""
    if isinstance(source, Sequences):
        return len(source.values), source.dimension or 1, np.asarray(source.offsets)
    if isinstance(source, CSRRows):  # the positions of a sparse row are its entries
        return len(source.indices), 1, np.asarray(source.indptr)
    n = n_objects(source)
    return n, int(np.shape(source)[1]), np.arange(n + 1)


def observed(source: Any) -> Floats:
    """Return which values are observed, ``(S, D)``: not NaN, and not the code of a missing symbol."""
    if isinstance(source, Sequences) and source.alphabet is not None:
        return np.asarray(source.values != source.alphabet.missing)[:, None]
    if isinstance(source, CSRRows):
        return np.ones((len(source.indices), 1), dtype=bool)
    values = source.values if isinstance(source, Sequences) else np.asarray(source)
    return ~np.isnan(values)


def over_channels(steps: Floats, source: Any) -> Floats:
    """Spread shares of whole steps, ``(S, R)``, equally over the observed channels, ``(S, D, R)``."""
    seen = observed(source)
    fraction = seen / np.maximum(seen.sum(axis=1, keepdims=True), 1)
    return np.asarray(steps[:, None, :] * fraction[:, :, None])


class FeatureWeights:
    """Weights of explicit features, for the columns that occur in the reference objects only.

    Parameters
    ----------
    weights : array of shape (R, N)
        Weights of objects.
    rows : array or sparse array of shape (N, P)
        Features of the objects.
    """

    def __init__(self, weights: Floats, rows: Any) -> None:
        self.columns: Floats | None = None
        if not sparse.issparse(rows):
            self.values = weights @ np.asarray(to_numpy(rows), dtype=np.float64)
            return
        rows = sparse.csr_array(rows)
        self.columns, place = np.unique(rows.indices, return_inverse=True)
        shape = (rows.shape[0], max(len(self.columns), 1))
        self.values = weights @ sparse.csr_array((rows.data, place, rows.indptr), shape=shape)

    def sums(self, rows: Any) -> Floats:
        """Return the weighted sums of rows of features, ``(M, R)``."""
        if not sparse.issparse(rows):
            rows = np.asarray(to_numpy(rows), dtype=np.float64)
            return rows @ self.values.T if self.columns is None else rows[:, self.columns] @ self.values.T
        rows = sparse.csr_array(rows)
        if self.columns is None:
            return np.asarray(rows @ self.values.T)
        if not len(self.columns):
            return np.zeros((rows.shape[0], len(self.values)))
        at = np.minimum(np.searchsorted(self.columns, rows.indices), len(self.columns) - 1)
        data = np.where(self.columns[at] == rows.indices, rows.data, 0.0)
        return np.asarray(
            sparse.csr_array((data, at, rows.indptr), shape=(rows.shape[0], len(self.columns))) @ self.values.T
        )
