"""Coupled switching systems as operands of the Gram engine: double sums over regime paths (PPK-5.1, GMMK-9)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from mercer._array import Floats, Indices, logsumexp, safe_log, to_numpy
from mercer._coupling import FieldOperand, Operand, PowerProduct, Smoothed
from mercer._native.kalman import pairs_at_zero
from mercer._probability import drawn
from mercer.models._dynamics.operand import LOG_2PI, LOST, check_finite, coupled
from mercer.models._dynamics.runs import Systems, systems_of
from mercer.models.discount import Discounted, Lengths

_BLOCK = 2**20
"""Pairs of paths that are computed at a time."""


def switching_operand(models: Any, coupling: Any, lengths: Lengths) -> Operand:
    """Prepare switching systems for a coupling `OverPaths`."""
    if isinstance(lengths, Discounted):
        raise ValueError(
            f"length must be a number of observations for switching linear dynamical systems; got {lengths!r}. Use "
            "length=10, for example."
        )
    steps = np.asarray(lengths)
    seeds = [int.from_bytes(digest[:8], "little") ^ coupling.seed for digest in models.digests()]
    paths = regime_paths(models.initial, models.transition, steps, coupling.power, coupling.n_paths, seeds)
    systems = systems_of(models.systems)
    _check_growth(systems, paths, int(steps.max()))
    zeros = np.zeros((len(models), *paths.log_weight.shape[1:]))
    return SwitchingOperand(systems, paths, zeros, coupling, steps).with_determinants()


def _check_growth(systems: Systems, paths: Paths, length: int) -> None:
    """Raise where a motion that two paths have in common, and their difference does not show, grows beyond float64."""
    moduli = np.abs(np.linalg.eigvals(systems.transition)).max(axis=-1, initial=0.0)
    growth = 2 * np.log(np.maximum(moduli, 1.0))
    if growth.max(initial=0.0) * (length - 1) <= LOST:
        return
    along = np.take_along_axis(growth[:, None], paths.regimes[..., 1:], axis=2).sum(axis=2).max(axis=1)
    worst = int(np.argmax(along))
    if along[worst] > LOST:
        raise ValueError(
            f"Model {worst} of switching linear dynamical systems has a regime with an eigenvalue of modulus "
            f"{moduli[worst].max():.6g}: it is unstable, and the kernel loses too many digits at length {length}. "
            f"Use a length of at most {1 + int(LOST / growth[worst].max())}."
        )


@dataclass(frozen=True)
class SwitchingOperand(FieldOperand):
    """Models that answer tiles: the log kernels of series of each length."""

    _shared_fields: ClassVar[tuple[str, ...]] = ("coupling", "lengths")

    systems: Systems
    """Parameters ``(N, K, ...)``."""
    paths: Paths
    log_determinants: Floats
    """Of the joint covariance of a series with a path, ``(N, H, P)``; only if the power is not 1."""
    coupling: Any
    """`OverPaths`."""
    lengths: Indices

    by_length: ClassVar[bool] = True
    """Answers have a first axis of lengths."""
    tile_hint: ClassVar[int] = 4  # pairs of models are many pairs of paths

    def with_determinants(self) -> SwitchingOperand:
        """Add the log determinants: the difference of two series of one path has twice their covariance."""
        if isinstance(self.coupling.coupling, Smoothed) or self.coupling.coupling == PowerProduct(1.0):
            return self
        n, count = len(self), self.paths.regimes.shape[1]
        every = np.arange(n * count)
        found = self._at_zero(self, np.stack([every, every], axis=1), 1.0, 0.0).reshape(-1, n, count)
        return replace(self, log_determinants=(-2 * found - self._observed * (LOG_2PI + np.log(2))).swapaxes(0, 1))

    @property
    def drawn(self) -> bool:
        """Whether some models have more regime paths than are drawn, so that the kernels are estimates."""
        return self.paths.regimes.shape[1] < float(self.systems.transition.shape[1]) ** int(self.lengths.max())

    @property
    def _observed(self) -> Floats:
        return np.asarray(self.lengths * self.systems.size[1], float)[:, None, None]

    def pair(self, other: SwitchingOperand) -> Floats:
        """Log kernels of every pair, ``(H, I, J)`` with H lengths."""
        i, j = np.divmod(np.arange(len(self) * len(other)), max(len(other), 1))
        return self._summed(other, i, j).reshape(-1, len(self), len(other))

    def alone(self) -> Floats:
        """Log kernel of every model with itself, ``(H, N)``."""
        every = np.arange(len(self))
        return self._summed(self, every, every)

    def _summed(self, other: SwitchingOperand, i: Indices, j: Indices) -> Floats:
        """Log sums over all pairs of paths of some pairs of models, ``(H, B)``."""
        found, (p, q) = np.empty((len(self.lengths), len(i))), (side.paths.regimes.shape[1] for side in (self, other))
        step = max(1, _BLOCK // (p * q))
        for begin in range(0, len(i), step):
            left, right = i[begin : begin + step], j[begin : begin + step]
            rows, columns = left[:, None] * p + np.arange(p), right[:, None] * q + np.arange(q)
            pairs = np.stack([np.repeat(rows, q, axis=1).ravel(), np.tile(columns, p).ravel()], axis=1)
            weights = self.paths.log_weight[left][..., :, None] + other.paths.log_weight[right][..., None, :]
            terms = self._kernels(other, pairs).reshape(len(found), len(left), -1)
            terms = terms + weights.swapaxes(0, 1).reshape(terms.shape)
            found[:, begin : begin + step] = logsumexp(terms, axis=-1)
        return found

    def _kernels(self, other: SwitchingOperand, pairs: Indices) -> Floats:
        """Log kernels of pairs of paths, ``(H, Q)``."""
        observed = self._observed[..., 0]

        def determinants() -> Floats:
            sides = (self.log_determinants, other.log_determinants)
            own, others = (side.swapaxes(0, 1).reshape(len(observed), -1) for side in sides)
            return np.asarray(own[:, pairs[:, 0]] + others[:, pairs[:, 1]])

        def density(noise: float, extra: float) -> Floats:
            return self._at_zero(other, pairs, noise, extra)

        return coupled(self.coupling.coupling, observed, len(pairs), density, determinants)

    def _at_zero(self, other: SwitchingOperand, pairs: Indices, noise: float, extra: float) -> Floats:
        """Log density at zero of the difference of two series, for pairs of paths, ``(H, Q)``."""
        left, right = ([part.reshape(-1, *part.shape[2:]) for part in side.systems] for side in (self, other))
        paths = self._flat_paths, other._flat_paths
        out = pairs_at_zero(left, right, pairs[:, 0], pairs[:, 1], self.lengths, noise, extra, paths)
        return check_finite(out, "switching linear dynamical systems")

    @property
    def _flat_paths(self) -> Indices:
        """The system of every step of every path, ``(N P, L)``."""
        size, count, length = self.paths.regimes.shape
        k = self.systems.transition.shape[1]
        return np.asarray((self.paths.regimes + k * np.arange(size)[:, None, None]).reshape(size * count, length))


# Regime paths of every model, all of them or drawn once, with their weights in a kernel (PPK-5.1).


class Paths(NamedTuple):
    """Weighted regime paths of N models."""

    regimes: Indices
    """``(N, P, L)``."""
    log_weight: Floats
    """Of the first steps of a path up to each of H lengths, ``(N, H, P)``; -inf where there are fewer paths."""


def regime_paths(initial: Any, transition: Any, lengths: Indices, power: float, most: int, seeds: list[int]) -> Paths:
    """Return all paths of the models if there are at most ``most``, else draws.

    Sums over weighted paths are sums over all paths of ``p(path)^power``, or unbiased estimates of them.

    Parameters
    ----------
    initial, transition : array of shape (N, K) and (N, K, K)
        Markov chains of regimes.
    lengths : array of int of shape (H,)
        Numbers of steps, ascending.
    power : float
        The power of the probabilities.
    most : int
        Number of draws.
    seeds : list of N int
        Seed of each model.
    """
    first, step = (power * safe_log(np.asarray(to_numpy(part), np.float64)) for part in (initial, transition))
    (size, k), length = first.shape, int(lengths[-1])
    if k == 1 or length * np.log(k) <= np.log(most) + 1e-9:
        every = np.indices((k,) * length).reshape(length, -1).T if k > 1 else np.zeros((1, length), int)
        moves = step[:, every[:, :-1], every[:, 1:]]
        logs = np.cumsum(np.concatenate([first[:, every[:, :1]], moves], axis=2), axis=2)[..., lengths - 1]
        logs = logs - (length - lengths) * np.log(k)  # a prefix occurs so many times
        return Paths(np.tile(every, (size, 1, 1)), logs.swapaxes(1, 2))
    uniform = np.stack([np.random.default_rng(seed).random((most, length)) for seed in seeds])
    return _drawn(first, step, uniform, lengths)


def _drawn(first: Floats, step: Floats, uniform: Floats, lengths: Indices) -> Paths:
    """Draw paths from chains to a power.

    The probability of a path, to the power, is a Markov chain with the weights of all ways to go on. The first steps
    of a path have these weights too, which are divided out.
    """
    size, most, length = uniform.shape
    ahead = np.zeros((length, *first.shape))
    for t in range(length - 2, -1, -1):
        ahead[t] = logsumexp(step + ahead[t + 1][:, None], axis=-1)
    total = logsumexp(first + ahead[0], axis=-1)
    regimes = np.empty((size, most, length), dtype=np.int64)
    models = np.arange(size)[:, None]
    for t in range(length):
        if t:
            before = regimes[..., t - 1]
            logs = step[models, before] + ahead[t][:, None] - ahead[t - 1][models, before][..., None]
        else:
            logs = np.broadcast_to((first + ahead[0] - total[:, None])[:, None], (size, most, first.shape[1]))
        regimes[..., t] = drawn(np.cumsum(np.exp(logs), axis=-1), uniform[..., t])
    ends = [ahead[n - 1][models, regimes[..., n - 1]] for n in lengths]
    return Paths(regimes, np.stack([total[:, None] - end - np.log(most) for end in ends], axis=1))
