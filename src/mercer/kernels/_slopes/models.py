"""Derivatives of log kernels between models, by the chain rule: a model combines those of its leaves.

A *tangent* is an operand whose pairs come with their derivatives by rho or gamma: ``pair(other)`` returns both, each
``(*B, n, m)``. It is made once per batch by `tangent`, as an operand is by ``couple``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from mercer._array import Floats, logsumexp, to_numpy
from mercer._batch import Batch
from mercer._coupling import Coupling, PowerProduct, Smoothed
from mercer.gram._engine import fill
from mercer.kernels._operands import finite
from mercer.kernels._slopes.chains import chain_slopes
from mercer.kernels._slopes.counts import mean_of, symbol_mean_map
from mercer.kernels._slopes.families import slope_of
from mercer.kernels._slopes.markov import markov_slopes
from mercer.kernels._slopes.points import mean_squares
from mercer.models._discount import Discounted
from mercer.models.hmm import HMMs
from mercer.models.kde import KDEs
from mercer.models.markov import MarkovChains
from mercer.models.mixture import Mixtures

LogPairs = tuple[Floats, Floats]
"""Log kernels and their derivatives."""


def log_slopes(batch: Batch, coupling: Coupling, lengths: Any) -> Floats | None:
    """Return the derivatives of all log kernels of a batch, ``(N, N)``, or None where there is no closed form.

    Parameters
    ----------
    batch : Batch of shape (N,)
        The models.
    coupling : PowerProduct or Smoothed
        The kernel, not normalised: the derivative is that by its rho or gamma.
    lengths : tuple of one int, Discounted or None
        Of sequence models.
    """
    found = tangent(doubled(batch), coupling, lengths)
    return None if found is None else np.asarray(fill(lambda a, b: a.pair(b)[1], found, label="derivatives"))


def doubled(batch: Any) -> Any:
    """Return the same models as NumPy arrays in float64; what is compressed stays."""

    def array(name: str, x: Any) -> Any:
        if hasattr(x, "indptr"):
            return x
        values = to_numpy(x)
        return values.astype(np.float64) if values.dtype.kind == "f" else values

    return batch._map(array, lambda name, part: doubled(part))


def tangent(batch: Any, coupling: Coupling, lengths: Any) -> Any:
    """Prepare a batch, or return None where the family or the model has no derivatives."""
    if type(coupling) not in (PowerProduct, Smoothed):
        return None
    kind = type(batch)
    if kind is KDEs:
        return PointTangent(batch.couple(coupling), coupling) if isinstance(coupling, Smoothed) else None
    if kind is Mixtures:
        leaf = tangent(batch.possible_components(), coupling, lengths)
        return None if leaf is None else MixtureTangent(batch.couple(coupling, lengths), coupling, leaf)
    if kind in (HMMs, MarkovChains):
        if isinstance(lengths, Discounted):
            return None
        operand = batch.couple(coupling, lengths)
        if kind is MarkovChains and isinstance(coupling, PowerProduct):
            return MarkovTangent(operand, coupling)
        leaf = tangent(batch.emission, coupling, lengths) if kind is HMMs else SymbolTangent(operand.leaf, coupling)
        return None if leaf is None else ChainTangent(operand, coupling, leaf)
    slope = slope_of(batch, coupling)
    return None if slope is None else FamilyTangent(batch.couple(coupling), coupling, batch, slope)


class Tangent:
    """An operand, its coupling, and what else knows the derivatives."""

    def __init__(self, operand: Any, coupling: Any) -> None:
        self.operand = operand
        self.coupling = coupling

    @property
    def order(self) -> Floats | None:
        """The operand's hint: neighbours cost alike."""
        order: Floats | None = self.operand.order
        return order

    @property
    def tile_hint(self) -> int:
        """Rows of a tile; there are several tables of pairs."""
        return max(8, int(self.operand.tile_hint) // 2)

    def __len__(self) -> int:
        return len(self.operand)

    def __getitem__(self, key: Any) -> Self:
        return type(self)(self.operand[key], self.coupling)

    def _values(self, other: Self) -> Floats:
        return np.asarray(self.operand.pair(other.operand), dtype=np.float64)


class FamilyTangent(Tangent):
    """Members of a family."""

    def __init__(self, operand: Any, coupling: Any, batch: Any, slope: Callable[[Any, Any, Floats], Floats]) -> None:
        super().__init__(operand, coupling)
        self.batch = batch
        self.slope = slope

    def __getitem__(self, key: Any) -> Self:
        return type(self)(self.operand[key], self.coupling, self.batch[key], self.slope)

    def reshape(self, *shape: int) -> Self:
        """Return the same members in another batch shape."""
        return type(self)(self.operand.reshape(*shape), self.coupling, self.batch.reshape(*shape), self.slope)

    def pair(self, other: Self) -> LogPairs:
        """Answer every pair."""
        logs = self._values(other)
        return logs, self.slope(self.batch, other.batch, logs)


class SymbolTangent(Tangent):
    """Symbols under a mean map, of which nothing but the operand is known."""

    def reshape(self, *shape: int) -> Self:
        """Return the same members in another batch shape."""
        return type(self)(self.operand.reshape(*shape), self.coupling)

    def pair(self, other: Self) -> LogPairs:
        """Answer every pair."""
        logs = self._values(other)
        return logs, symbol_mean_map(1, self.coupling.gamma, logs)


class PointTangent(Tangent):
    """Kernel density estimates under a mean map (GMMK-4)."""

    def pair(self, other: Self) -> LogPairs:
        """Derive -(d/2) log w + log mean exp(-gamma |x - y|^2 / w), w = 1 + 2 gamma (h + h')."""
        logs, gamma = self._values(other), float(self.coupling.gamma)
        p, q = self.operand.batch, other.operand.batch
        spread = p.bandwidth[:, None] + q.bandwidth
        width = 1 + 2 * gamma * spread
        means = logs + p.dimension / 2 * np.log(width)
        sizes = p.points.sizes, q.points.sizes
        squares = mean_squares(p.points.packed, q.points.packed, sizes, gamma / width, means)
        return logs, -p.dimension * spread / width - squares / width**2


class MixtureTangent(Tangent):
    """Mixtures: derivatives of the components, averaged with the shares of all pairs of them (PPK-4.1)."""

    def __init__(self, operand: Any, coupling: Any, leaf: Any) -> None:
        super().__init__(operand, coupling)
        self.leaf = leaf

    def __getitem__(self, key: Any) -> Self:
        return type(self)(self.operand[key], self.coupling, self.leaf[key])

    def reshape(self, *shape: int) -> Self:
        """Return the same members in another batch shape."""
        m = self.operand.log_weights.shape[-1]
        return type(self)(self.operand.reshape(*shape), self.coupling, self.leaf.reshape(*shape, m))

    def pair(self, other: Self) -> LogPairs:
        """Answer every pair."""
        left, right = self.operand.log_weights, other.operand.log_weights
        (*lead, n, a), (m, b) = left.shape, right.shape[-2:]
        below = self.leaf.reshape(*lead, n * a).pair(other.leaf.reshape(*lead, m * b))
        log_psi, slopes = (x.reshape(*lead, n, a, m, b) for x in below)
        log_weights = left[..., :, :, None, None] + right[..., None, None, :, :]
        parts = log_psi + log_weights
        logs = logsumexp(parts, axis=(-3, -1))
        if isinstance(self.coupling, PowerProduct):  # hidden weights are raised to rho, too
            slopes = slopes + finite(log_weights) / self.coupling.rho
        return logs, mean_of(parts, slopes, logs, axis=(-3, -1))


class ChainTangent(Tangent):
    """Hidden Markov models: derivatives are carried through the contraction PPK-4.2."""

    def __init__(self, operand: Any, coupling: Any, leaf: Any) -> None:
        super().__init__(operand, coupling)
        self.leaf = leaf

    def __getitem__(self, key: Any) -> Self:
        part = self.operand[key]
        n = part.initial.shape[-1]  # operands are trimmed to their largest model
        return type(self)(part, self.coupling, self.leaf[key][:, :n])

    def pair(self, other: Self) -> LogPairs:
        """Answer every pair."""
        logs = self._values(other)[0]
        (i, n), (j, m) = self.operand.initial.shape, other.operand.initial.shape
        below = self.leaf.reshape(i * n).pair(other.leaf.reshape(j * m))
        log_psi, slopes = (x.reshape(i, n, j, m) for x in below)
        (length,) = self.operand.lengths
        # Weights are powers w^rho, whose derivatives are w^rho log w: their logarithm over rho. Mean maps have none.
        share = 1 / self.coupling.rho if isinstance(self.coupling, PowerProduct) else 0.0
        return logs, chain_slopes(self.operand._logs(), other.operand._logs(), share, log_psi, slopes, length, logs)


class MarkovTangent(Tangent):
    """Markov chains under a probability product: derivatives are carried along with the contexts (PPK-4.2a)."""

    def pair(self, other: Self) -> LogPairs:
        """Answer every pair."""
        logs = self._values(other)[0]
        return logs, markov_slopes(self.operand, other.operand, logs)
