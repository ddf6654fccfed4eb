"""Mean field bounds of networks: all variables of both networks are independent (PPK-6)."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from string import ascii_lowercase, ascii_uppercase
from typing import ClassVar, Self

import numpy as np

from mercer._array import Floats, safe_log, to_numpy
from mercer.families.gaussian import Gaussians
from mercer.models._nets.contraction import BATCH, Labels
from mercer.models._nets.operand import Layout, NetOperand

TOLERANCE = 1e-7
"""Sweeps over a pair end if its bound grows by no more than this."""
SWEEPS = 500
"""Most sweeps over all variables."""
IMPOSSIBLE = -1e6
"""The logarithm of zero during the sweeps."""
GRADUAL = (-3.0, -10.0, -30.0)
"""Logarithms of zero before that, if there are zeros; with the last one at once, sweeps would end at the next state."""
NEGLIGIBLE = 1e-30
"""Probabilities of the bounding distribution below this are set to zero."""
SPREADS = (0.1, 2.0)
"""Standard deviations of the logits of the first start, and of the others."""


@dataclass
class NetBound(NetOperand):
    """A batch of networks of one structure whose probability products are bounded from below."""

    _shared_fields: ClassVar[tuple[str, ...]] = ("graph", "coupling", "n_init", "seed")

    n_init: int = 1
    seed: int = 0

    @classmethod
    def of(cls, operand: NetOperand, n_init: int, seed: int) -> NetBound:
        """Return the operand of the bound of what an operand computes."""
        tables = {
            t: x if isinstance(x, Gaussians) else to_numpy(x).astype(np.float64) for t, x in operand.tables.items()
        }
        scale = None if operand.log_scale is None else to_numpy(operand.log_scale)
        return cls(operand.graph, tables, operand.coupling, scale, n_init, seed)

    def _widest(self, layout: Layout) -> int:
        sizes = layout.sizes  # factors are not multiplied, so the largest table is one of them
        return sum(sizes) + max(prod(sizes[v] for v in factor.labels if v < BATCH) for factor in layout.factors)

    def _values(self, other: Self, layout: Layout, *, aligned: bool = False) -> Floats:
        """Compute the log bounds of all pairs, or of aligned ones, the best of several starts."""
        field = Field(
            [factor.labels for factor in layout.factors],
            [x if in_logs else safe_log(x) for x, in_logs in self._factors(other, layout, aligned=aligned)],
            layout.sizes,
            (len(self),) if aligned else (len(self), len(other)),
        )
        starts = [(np.random.default_rng([self.seed, k]), SPREADS[k > 0]) for k in range(self.n_init)]
        best = np.max([field.maximize(*start) for start in starts], axis=0)
        return np.asarray(best + self._log_scales(other, aligned=aligned))


@dataclass
class Field:
    """Factors of variables that are independent of each other under the bounding distribution."""

    labels: list[Labels]
    """Variables of each factor, then its batch axes."""
    logs: list[Floats]
    sizes: tuple[int, ...]
    """Number of states of each variable."""
    batch: tuple[int, ...]
    """Number of pairs along each batch axis."""

    def maximize(self, rng: np.random.Generator, scale: float) -> Floats:
        """Sweep over the variables until no bound grows; each update is the best for its variable."""
        uses: dict[int, list[int]] = {}
        for k, labels in enumerate(self.labels):
            for v in labels:
                if v < BATCH:
                    uses.setdefault(v, []).append(k)
        q = {}
        for v in sorted(uses):
            logits = scale * rng.standard_normal((self.sizes[v], *(1,) * len(self.batch)))
            q[v] = _probabilities(logits + np.zeros(self.batch))  # the same start for every pair
        found, grows = np.full(self.batch, -np.inf), np.ones(self.batch, dtype=bool)
        zeros = any(np.isneginf(x).any() for x in self.logs)
        for least in GRADUAL if zeros else ():
            self._sweep([np.maximum(x, least) for x in self.logs], uses, q)
        best, clipped = dict(q), [np.maximum(x, IMPOSSIBLE) for x in self.logs]
        for _ in range(SWEEPS):
            self._sweep(clipped, uses, q)
            bound = sum(self._expected(k, x, q) for k, x in enumerate(clipped)) - sum(
                map(_negative_entropy, q.values())
            )
            increase = bound - found
            found = np.where(grows, bound, found)  # a pair ends where it would end without the others
            best = {v: np.where(grows, x, best[v]) for v, x in q.items()}
            grows &= increase > TOLERANCE
            if not grows.any():
                break
        lost = sum(self._expected(k, 1.0 * np.isneginf(x), best) for k, x in enumerate(self.logs))
        return np.where(lost > 0, -np.inf, found)

    def _sweep(self, logs: list[Floats], uses: dict[int, list[int]], q: dict[int, Floats]) -> None:
        """Replace the distribution of each variable by the best one given the others."""
        for v, factors in uses.items():
            q[v] = _probabilities(sum(self._expected(k, logs[k], q, v) for k in factors) + np.zeros(self.batch))

    def _expected(self, k: int, values: Floats, q: dict[int, Floats], given: int | None = None) -> Floats:
        """Return the expectation of a table over the variables of factor k, or over all but ``given``."""
        letters, batch = dict(zip(self.labels[k], ascii_lowercase, strict=False)), ascii_uppercase[: len(self.batch)]
        letters |= {BATCH + axis: letter for axis, letter in enumerate(batch)}
        x, own = values, "".join(letters[v] for v in self.labels[k])
        for v in self.labels[k]:
            if v < BATCH and v != given:  # two factors at a time, in order, take the least time
                out = own.replace(letters[v], "").rstrip(batch) + batch
                x, own = np.einsum(f"{own},{letters[v]}{batch}->{out}", x, q[v]), out
        missing = [BATCH + axis for axis, letter in enumerate(batch) if letter not in own]
        return np.expand_dims(x, tuple(1 + label - BATCH for label in missing))


def _probabilities(logits: Floats) -> Floats:
    """Return probabilities with these logarithms, up to a constant, along the first axis."""
    p = np.exp(logits - logits.max(axis=0))
    p = np.where(p < NEGLIGIBLE, 0.0, p)
    return np.asarray(p / p.sum(axis=0))


def _negative_entropy(p: Floats) -> Floats:
    return np.sum(p * np.log(np.where(p > 0, p, 1.0)), axis=0)
