"""What two distributions are asked when they meet, and the operand that a tile is made from.

A *coupling* is an elementary kernel on distributions and a power on hidden weights: `PowerProduct` (probability
product, PPK), `Smoothed`, `LaplaceSmoothed` and `CountSmoothed` (mean maps, GMMK), `Divergence` (dual
Jensen-Shannon, DJS-2). ``batch.couple(coupling, lengths)`` does once per batch what does not depend
on the other side, and returns an operand; two operands answer a tile. Structured models ask their leaves, so that a new
coupling costs no edit in any model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np

from mercer._array import Array, beside, logsumexp, namespace, safe_log, to_numpy
from mercer._batch import take_rows


class Coupling(Protocol):
    """An elementary kernel on the leaves of a model and a power on its hidden weights."""

    @property
    def power(self) -> float:
        """Power on the weights of hidden variables."""

    def leaf(self, p: Any, q: Any) -> Array:
        """Answer every pair, ``(*B, n) x (*B, m) -> (*B, n, m)``, as a logarithm."""


@dataclass(frozen=True)
class PowerProduct:
    """Probability product: log of the integral of p^rho q^rho (PPK-1).

    With ``marginal`` the power is of the observed law: a model with hidden variables then multiplies copies of itself
    (`mercer.models.powers`); without, of the joint law of observed and hidden variables (PPK-4.0).
    """

    rho: float
    marginal: bool = False

    @property
    def power(self) -> float:
        """Hidden weights are raised to rho too (PPK-4.0, the kernel of the joint)."""
        return self.rho

    def leaf(self, p: Any, q: Any) -> Array:
        """Ask the family for its log product."""
        return _capability(p, "log_product", "ProbabilityProduct")(q, rho=self.rho)


@dataclass(frozen=True)
class _MeanMap:
    """What mean maps share."""

    gamma: float

    @property
    def power(self) -> float:
        """A mean map is linear in the hidden weights."""
        return 1.0


@dataclass(frozen=True)
class Smoothed(_MeanMap):
    """Mean map: log of E exp(-gamma |x - y|^2) (GMMK-0)."""

    def leaf(self, p: Any, q: Any) -> Array:
        """Ask the family for its log mean map."""
        able = "a family that has it, such as Gaussians, Categoricals or Poissons, or ProbabilityProduct"
        return _capability(p, "log_mean_map", "MeanMap", able)(q, gamma=self.gamma)


@dataclass(frozen=True)
class LaplaceSmoothed(_MeanMap):
    """Mean map of another base kernel: log of E exp(-gamma |x - y|_1) (GMMK-2a)."""

    def leaf(self, p: Any, q: Any) -> Array:
        """Ask the family for its log mean map."""
        able = (
            "Gaussians with variances of coordinates, or Mixtures or HMMs of these, or base='rbf', or "
            "n_components=1000 for random features"
        )
        return _capability(p, "log_laplace_mean_map", "MeanMap(base='laplace')", able)(q, gamma=self.gamma)


@dataclass(frozen=True)
class CountSmoothed(_MeanMap):
    """Mean map of vectors of counts: log of E exp(-gamma |x - y|^2) of the counts themselves (GMMK-10a)."""

    def leaf(self, p: Any, q: Any) -> Array:
        """Ask the family for its log mean map."""
        able = "a family of counts, Multinomials, CountVectors or Poissons, or base='rbf'"
        return _capability(p, "log_count_mean_map", "MeanMap(base='counts')", able)(q, gamma=self.gamma)


@dataclass(frozen=True)
class Divergence:
    """Dual Jensen-Shannon divergence between mean parameters, not a logarithm (DJS-2)."""

    @property
    def power(self) -> float:
        """Only families have a dual; the power is never used."""
        return 1.0

    def leaf(self, p: Any, q: Any) -> Array:
        """Ask the family for its dual divergence."""
        return _capability(p, "dual_divergence", "JensenShannon", "a family such as Gaussians or Multinomials")(q)


def _capability(batch: Any, method: str, kernel: str, able: str = "another model") -> Any:
    if not hasattr(batch, method):
        raise TypeError(
            f"{kernel} needs `{method}`, which {type(batch).__name__} does not have; use {able}{or_point(batch)}"
        )
    return getattr(batch, method)


def or_point(batch: Any) -> str:
    """Return the cure that a kernel has for predictive laws besides others, for messages; else nothing."""
    return ", or estimate='point'" if getattr(batch, "is_predictive", False) else ""


class Operand(Protocol):
    """All that the Gram engine and structured models may touch of a coupled batch."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Batch shape."""

    @property
    def tile_hint(self) -> int:
        """Rows of a tile that suit the caches."""

    @property
    def order(self) -> np.ndarray[Any, Any] | None:
        """A permutation in which neighbours cost alike, or None."""

    def __len__(self) -> int: ...
    def __getitem__(self, key: Any) -> Self: ...

    def pair(self, other: Self) -> Array:
        """Answer every pair: ``(*B, n) x (*B, m) -> (..., *B, n, m)``."""

    def alone(self) -> Array:
        """Answer every member with itself: ``(..., *B, n)``."""


class Leaf:
    """A family batch under a coupling: asks the family for every tile."""

    order: np.ndarray[Any, Any] | None = None

    def __init__(self, batch: Any, coupling: Coupling) -> None:
        self.batch = batch
        self.coupling = coupling

    @property
    def shape(self) -> tuple[int, ...]:
        """Batch shape."""
        return tuple(self.batch.shape)

    @property
    def tile_hint(self) -> int:
        """Rows of a tile that suit the caches."""
        return int(self.batch.tile_hint)

    def __len__(self) -> int:
        return len(self.batch)

    def __getitem__(self, key: Any) -> Self:
        return type(self)(self.batch[key], self.coupling)

    def reshape(self, *shape: int) -> Self:
        """Return the same members in another batch shape."""
        return type(self)(self.batch.reshape(*shape), self.coupling)

    def pair(self, other: Self) -> Array:
        """Answer every pair, as a logarithm (a divergence: as it is)."""
        return self.coupling.leaf(self.batch, other.batch)

    def alone(self) -> Array:
        """Answer every member with itself, by aligning all of its axes."""
        single = self.reshape(*self.shape, 1)
        return single.pair(single)[..., 0, 0]


class InnerLeaf:
    """Members with explicit features: log <f, f'>^trials, by one matrix product a tile.

    Parameters
    ----------
    features : array of shape (*B, k)
        Nonnegative features.
    trials : float, default=1.0
        The power.
    logs : array of shape (*B, k) or None, default=None
        Logarithms of the features, where some are so small that their products underflow: then tiles are sums of
        logarithms.
    floor : float or None, default=None
        Logarithm of what is added to every inner product, where it is too small for a feature of its own.
    """

    order: np.ndarray[Any, Any] | None = None
    tile_hint = 512

    def __init__(
        self, features: Array, trials: float = 1.0, logs: Array | None = None, floor: float | None = None
    ) -> None:
        self.features = features
        self.trials = trials
        self.logs = logs
        self.floor = floor

    @classmethod
    def of_power(cls, p: Array, rho: float, trials: float = 1.0) -> Self:
        """Make the features p^rho of probabilities."""
        xp = namespace(p)
        smallest = xp.min(xp.where(p > 0, p, xp.ones_like(p))) if p.size else 1.0
        tiny = rho * float(np.log(float(to_numpy(smallest)))) < float(np.log(xp.finfo(p.dtype).smallest_normal)) / 2
        return cls(power(p, rho), trials, rho * safe_log(p) if tiny else None)

    @classmethod
    def smoothed(cls, p: Array, gamma: float, trials: float = 1.0) -> Self:
        """Make features whose inner product is (1 - e) <a, a'> + e, e = exp(-2 gamma) (GMMK-1)."""
        if not mismatch_underflows(gamma, p):
            return cls(smoothed_features(p, gamma), trials)
        leaf = cls.of_power(p, 1.0, trials)  # 1 - e is 1
        leaf.floor = -2.0 * float(gamma)
        return leaf

    @property
    def shape(self) -> tuple[int, ...]:
        """Batch shape."""
        return tuple(self.features.shape[:-1])

    def __len__(self) -> int:
        return int(self.features.shape[0])

    def __getitem__(self, key: Any) -> Self:
        keys = key if isinstance(key, tuple) else (key,)
        logs = None if self.logs is None else take_rows(self.logs, keys)
        return type(self)(take_rows(self.features, keys), self.trials, logs, self.floor)

    def reshape(self, *shape: int) -> Self:
        """Return the same members in another batch shape."""
        xp, k = namespace(self.features), self.features.shape[-1]
        logs = None if self.logs is None else xp.reshape(self.logs, (*shape, k))
        return type(self)(xp.reshape(self.features, (*shape, k)), self.trials, logs, self.floor)

    @property
    def underflows(self) -> bool:
        """Whether products of features leave the range of floats, so that only logarithms are right."""
        return self.logs is not None or self.floor is not None

    def pair(self, other: Self) -> Array:
        """Answer every pair, as a logarithm."""
        if self.logs is not None or other.logs is not None:
            return self._finished(self._log_inner(other))
        xp = namespace(self.features, other.features)
        return self._finished(safe_log(self.features @ xp.matrix_transpose(other.features)))

    def _finished(self, inner: Array) -> Array:
        """Add the floor to the logarithms of inner products, and take the power."""
        if self.floor is not None:
            xp = namespace(inner)
            inner = xp.logaddexp(inner, xp.full_like(inner, self.floor))
        return self.trials * inner

    def _log_inner(self, other: Self) -> Array:
        """Sum in logarithms, one feature at a time."""
        left = safe_log(self.features) if self.logs is None else self.logs
        right = safe_log(other.features) if other.logs is None else other.logs
        xp = namespace(left, right)
        total = left[..., :, None, 0] + right[..., None, :, 0]
        for i in range(1, left.shape[-1]):
            total = xp.logaddexp(total, left[..., :, None, i] + right[..., None, :, i])
        return total

    def alone(self) -> Array:
        """Answer every member with itself."""
        xp = namespace(self.features)
        if self.logs is not None:
            return self._finished(logsumexp(2 * self.logs, axis=-1))
        return self._finished(safe_log(xp.sum(self.features * self.features, axis=-1)))


def mismatch_underflows(gamma: float, p: Array) -> bool:
    """Whether exp(-2 gamma) comes near the smallest float of the probabilities ``p``."""
    return bool(2 * gamma > -0.85 * float(np.log(float(namespace(p).finfo(p.dtype).smallest_normal))))


def smoothed_features(p: Array, gamma: float) -> Array:
    """Features whose inner product is (1 - e) <a, a'> + e, e = exp(-2 gamma)."""
    xp = namespace(p)
    column = beside(p, np.full((*p.shape[:-1], 1), np.exp(-float(gamma))), p.dtype)
    return xp.concat([p * float(np.sqrt(-np.expm1(-2.0 * gamma))), column], axis=-1)


def power(x: Array, rho: float) -> Array:
    """Raise to ``rho``; the two most common powers without the cost of a general one."""
    xp = namespace(x)
    if rho == 1:
        return x
    positive = x > 0
    safe = xp.where(positive, x, xp.ones_like(x))  # keeps the gradient at 0 finite
    return xp.where(positive, xp.sqrt(safe) if rho == 0.5 else safe**rho, xp.zeros_like(x))
