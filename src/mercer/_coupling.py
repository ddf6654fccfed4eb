"""Couplings (elementary kernels on distributions) and the operands that tiles are computed from.

A *coupling* is an elementary kernel on distributions and a power on hidden weights: `PowerProduct` (probability
product, PPK), `Smoothed` (mean maps, GMMK), `Divergence` (dual Jensen-Shannon, DJS-2).
``batch.couple(coupling, lengths)`` does the work that needs only one side, once per batch, and returns an operand; two
operands give a tile. Structured models delegate to their leaves, so a new coupling does not
change any model.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from array_api_compat import is_numpy_array

from mercer._array import Array, beside, logsumexp, namespace, safe_log, to_numpy
from mercer._batch import take_rows


class Coupling(Protocol):
    """An elementary kernel on the leaves of a model and a power on its hidden weights.

    Examples
    --------
    >>> import mercer as mc
    >>> coupling: mc.families.Coupling = mc.families.PowerProduct(rho=0.5)
    >>> coupling.power
    0.5
    """

    @property
    def power(self) -> float:
        """Power on the weights of hidden variables."""

    def leaf(self, p: Any, q: Any) -> Array:
        """Compute the log kernel of all pairs, ``(*B, n) x (*B, m) -> (*B, n, m)``."""


@dataclass(frozen=True)
class PowerProduct:
    """Probability product: log of the integral of p^rho q^rho (PPK-1).

    With hidden variables, the power is taken of the joint distribution of observed and hidden variables (PPK-4.0).

    Examples
    --------
    >>> import mercer as mc
    >>> p = mc.Poissons([[1.0], [4.0]])
    >>> mc.families.PowerProduct(rho=0.5).leaf(p, p).round(4)
    array([[ 0. , -0.5],
           [-0.5,  0. ]])
    """

    rho: float

    @property
    def power(self) -> float:
        """Hidden weights are raised to rho, too (PPK-4.0, the kernel of the joint distribution)."""
        return self.rho

    def leaf(self, p: Any, q: Any) -> Array:
        """Return the family's log product."""
        return required(p, "log_product", "ProbabilityProduct")(q, rho=self.rho)


@dataclass(frozen=True)
class Smoothed:
    """Mean map: log of E exp(-gamma |x - y|^2) (GMMK-0).

    Examples
    --------
    >>> import mercer as mc
    >>> p = mc.Gaussians([[0.0], [1.0]], [1.0, 1.0])
    >>> mc.families.Smoothed(gamma=0.5).leaf(p, p).round(4)
    array([[-0.5493, -0.716 ],
           [-0.716 , -0.5493]])
    """

    gamma: float

    @property
    def power(self) -> float:
        """A mean map is linear in the hidden weights."""
        return 1.0

    def leaf(self, p: Any, q: Any) -> Array:
        """Return the family's log mean map."""
        able = "a family that has it, such as Gaussians, Categoricals or Poissons, or ProbabilityProduct"
        if hasattr(p, "log_characteristic"):
            able = f"MeanMap(n_components=...), random features of which it has, {able}"
        return required(p, "log_mean_map", "MeanMap", able)(q, gamma=self.gamma)


@dataclass(frozen=True)
class Divergence:
    """Dual Jensen-Shannon divergence between mean parameters, not a logarithm (DJS-2).

    Examples
    --------
    >>> import mercer as mc
    >>> p = mc.Poissons([[1.0], [4.0]])
    >>> mc.families.Divergence().leaf(p, p).round(4)
    array([[0.    , 0.4819],
           [0.4819, 0.    ]])
    """

    @property
    def power(self) -> float:
        """Only families have a dual divergence, so the power is never used."""
        return 1.0

    def leaf(self, p: Any, q: Any) -> Array:
        """Return the family's dual divergence."""
        return required(p, "dual_divergence", "JensenShannon", "a family such as Gaussians or Multinomials")(q)


def required(batch: Any, method: str, kernel: str, able: str = "another model") -> Any:
    """Return a method of a batch; raise if it has none, with the kernel that needs it and what has it."""
    if not hasattr(batch, method):
        raise TypeError(f"{kernel} needs `{method}`, which {type(batch).__name__} does not have; use {able}.")
    return getattr(batch, method)


class Operand(Protocol):
    """Interface of a coupled batch for the Gram engine and structured models."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Batch shape."""

    @property
    def tile_hint(self) -> int:
        """Number of rows of a tile that fits into the caches."""

    @property
    def order(self) -> np.ndarray[Any, Any] | None:
        """A permutation that puts members of similar cost next to each other, or None."""

    def __len__(self) -> int: ...
    def __getitem__(self, key: Any) -> Self: ...

    def pair(self, other: Self) -> Array:
        """Compute all pairs: ``(*B, n) x (*B, m) -> (..., *B, n, m)``."""

    def alone(self) -> Array:
        """Compute the self-kernel of each member: ``(..., *B, n)``."""


class OneAxis:
    """Shape and order of operands that have one batch axis, and whose members cost alike."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Batch shape."""
        return (len(self),)  # type: ignore[arg-type]

    @property
    def order(self) -> np.ndarray[Any, Any] | None:
        """A permutation that puts members of similar cost next to each other, or None."""
        return None


class FieldOperand(OneAxis):
    """Base class of operands that are dataclasses: every field has one entry per object, except the shared ones.

    A field is an array, a batch, an operand or None, or a tuple, a list or a dict of these.
    """

    _shared_fields: ClassVar[tuple[str, ...]] = ()

    @property
    def tile_hint(self) -> int:
        """Number of rows of a tile that fits into the caches."""
        return 512

    def __len__(self) -> int:
        first = self._own_fields()[0][1]
        while isinstance(first, tuple | list | dict):
            first = next(iter(first.values() if isinstance(first, dict) else first))
        return int(first.shape[0]) if hasattr(first, "shape") else len(first)

    def __getitem__(self, key: Any) -> Self:
        taken = {name: _taken(value, key) for name, value in self._own_fields()}
        return replace(self, **taken)  # type: ignore[type-var]

    def _own_fields(self) -> list[tuple[str, Any]]:
        names = [field.name for field in fields(self)]  # type: ignore[arg-type]
        return [(name, getattr(self, name)) for name in names if name not in self._shared_fields]


def _taken(value: Any, key: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, dict):
        return {name: _taken(part, key) for name, part in value.items()}
    if isinstance(value, tuple | list):
        parts = [_taken(part, key) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return take_rows(value, key if isinstance(key, tuple) else (key,))
    return value[key]


class Leaf:
    """A batch of a family under a coupling: the family computes every tile."""

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
        """Number of rows of a tile that fits into the caches."""
        return int(self.batch.tile_hint)

    def __len__(self) -> int:
        return len(self.batch)

    def __getitem__(self, key: Any) -> Self:
        return type(self)(self.batch[key], self.coupling)

    def reshape(self, *shape: int) -> Self:
        """Return the same members in another batch shape."""
        return type(self)(self.batch.reshape(*shape), self.coupling)

    def pair(self, other: Self) -> Array:
        """Compute all pairs: the log kernel, or the divergence itself."""
        return self.coupling.leaf(self.batch, self.batch if other is self else other.batch)

    def alone(self) -> Array:
        """Compute the self-kernel of each member, by aligning all of its axes."""
        single = self.reshape(*self.shape, 1)
        return single.pair(single)[..., 0, 0]


@dataclass
class InnerLeaf(FieldOperand):
    """Members with explicit features: log <f, f'>^trials, by one matrix product per tile.

    Parameters
    ----------
    features : array of shape (*B, k)
        Nonnegative features.
    trials : float, default=1.0
        The power.
    logs : array of shape (*B, k) or None, default=None
        Logarithms of the features, given if some are so small that their products underflow: tiles are then computed
        in logarithms.
    floor : float or None, default=None
        Logarithm of a constant added to every inner product, given if it is too small to be a feature of its own.
    """

    _shared_fields: ClassVar[tuple[str, ...]] = ("trials", "floor")

    tile_hint: ClassVar[int] = 512

    features: Array
    trials: float = 1.0
    logs: Array | None = None
    floor: float | None = None

    @classmethod
    def of_power(cls, p: Array, rho: float, trials: float = 1.0) -> Self:
        """Create the features p^rho of probabilities."""
        xp = namespace(p)
        smallest = xp.min(xp.where(p > 0, p, xp.ones_like(p))) if p.size else 1.0
        tiny = rho * float(np.log(float(to_numpy(smallest)))) < float(np.log(xp.finfo(p.dtype).smallest_normal)) / 2
        return cls(power(p, rho), trials, rho * safe_log(p) if tiny else None)

    @classmethod
    def smoothed(cls, p: Array, gamma: float, trials: float = 1.0) -> Self:
        """Create features whose inner product is (1 - e) <a, a'> + e, e = exp(-2 gamma) (GMMK-1)."""
        if not mismatch_underflows(gamma, p):
            return cls(smoothed_features(p, gamma), trials)
        leaf = cls.of_power(p, 1.0, trials)  # 1 - e rounds to 1
        leaf.floor = -2.0 * float(gamma)
        return leaf

    @property
    def shape(self) -> tuple[int, ...]:
        """Batch shape."""
        return tuple(self.features.shape[:-1])

    def reshape(self, *shape: int) -> Self:
        """Return the same members in another batch shape."""
        xp, k = namespace(self.features), self.features.shape[-1]
        logs = None if self.logs is None else xp.reshape(self.logs, (*shape, k))
        return type(self)(xp.reshape(self.features, (*shape, k)), self.trials, logs, self.floor)

    @property
    def underflows(self) -> bool:
        """Whether products of features underflow, so that tiles must be computed in logarithms."""
        return self.logs is not None or self.floor is not None

    def log_features(self) -> Array | None:
        """Return logarithms of features with these inner products, ``(*B, K)``; None for several trials."""
        if self.trials != 1:
            return None
        logs = safe_log(self.features) if self.logs is None else self.logs
        if self.floor is None:
            return logs
        xp = namespace(logs)
        return xp.concat([logs, xp.full_like(logs[..., :1], self.floor / 2)], axis=-1)

    def pair(self, other: Self) -> Array:
        """Compute the log kernel of all pairs."""
        if self.logs is not None or other.logs is not None:
            return self._finished(self._log_inner(other))
        xp = namespace(self.features, other.features)
        return self._finished(safe_log(self.features @ xp.matrix_transpose(other.features)))

    def _finished(self, inner: Array) -> Array:
        """Add the floor to the log inner products and take the power."""
        if self.floor is not None:
            xp = namespace(inner)
            inner = xp.logaddexp(inner, xp.full_like(inner, self.floor))
        return self.trials * inner

    def _log_inner(self, other: Self) -> Array:
        """Compute log inner products, adding one feature at a time."""
        left = safe_log(self.features) if self.logs is None else self.logs
        right = safe_log(other.features) if other.logs is None else other.logs
        xp = namespace(left, right)
        total = left[..., :, None, 0] + right[..., None, :, 0]
        for i in range(1, left.shape[-1]):
            total = xp.logaddexp(total, left[..., :, None, i] + right[..., None, :, i])
        return total

    def alone(self) -> Array:
        """Compute the self-kernel of each member."""
        xp = namespace(self.features)
        if self.logs is not None:
            return self._finished(logsumexp(2 * self.logs, axis=-1))
        return self._finished(safe_log(xp.sum(self.features * self.features, axis=-1)))


def mismatch_underflows(gamma: float, p: Array) -> bool:
    """Whether exp(-2 gamma) is close to the smallest float of the dtype of ``p``."""
    return bool(2 * gamma > -0.85 * float(np.log(float(namespace(p).finfo(p.dtype).smallest_normal))))


def smoothed_features(p: Array, gamma: float) -> Array:
    """Return features whose inner product is (1 - e) <a, a'> + e, e = exp(-2 gamma)."""
    xp = namespace(p)
    column = beside(p, np.full((*p.shape[:-1], 1), np.exp(-float(gamma))), p.dtype)
    return xp.concat([p * float(np.sqrt(-np.expm1(-2.0 * gamma))), column], axis=-1)


def power(x: Array, rho: float) -> Array:
    """Compute x^rho for x >= 0, with shortcuts for rho = 1 and rho = 1/2."""
    if rho == 1:
        return x
    positive = x > 0
    if is_numpy_array(x) and rho > 0:
        plain = np.where(positive, x, np.zeros_like(x))
        return np.sqrt(plain) if rho == 0.5 else plain**rho
    xp = namespace(x)
    safe = xp.where(positive, x, xp.ones_like(x))  # keeps the gradient at 0 finite
    return xp.where(positive, xp.sqrt(safe) if rho == 0.5 else safe**rho, xp.zeros_like(x))
