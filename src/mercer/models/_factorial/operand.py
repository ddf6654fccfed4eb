"""Coupled factorial hidden Markov models: through hidden Markov models of few joint states, else chain by chain."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from array_api_compat import is_numpy_array
from scipy.spatial.distance import cdist

from mercer._array import Array, Floats
from mercer._coupling import Coupling, OneAxis, PowerProduct, Smoothed, power
from mercer.families.categorical import Categoricals
from mercer.families.gaussian import Gaussians
from mercer.models._factorial.chains import joint_states, log_probabilities
from mercer.models._factorial.dense import FEW_JOINT
from mercer.models.discount import Discounted
from mercer.models.inference import double

MOST_PAIRS = 1 << 24
"""Most pairs of joint states of two models."""


class FactorialOperand(OneAxis):
    """A batch of factorial hidden Markov models under a coupling (PPK-6.1, GMMK-9)."""

    by_length: ClassVar[bool] = True

    def __init__(self, models: Any, coupling: Coupling, lengths: Any) -> None:
        self.models = models
        self.coupling = coupling
        self.lengths = lengths
        if self._is_flat(self):
            _ = self.flat  # now, because threads share the operand

    @cached_property
    def flat(self) -> Any:
        """The operand of the hidden Markov models of all joint states."""
        return self.models.hmms().couple(self.coupling, self.lengths)

    @property
    def tile_hint(self) -> int:
        """Number of rows of a tile."""
        return int(self.flat.tile_hint) if self._is_flat(self) else 8

    def __len__(self) -> int:
        return len(self.models)

    def __getitem__(self, key: Any) -> Self:
        found = object.__new__(type(self))
        found.models, found.coupling, found.lengths = self.models[key], self.coupling, self.lengths
        if "flat" in self.__dict__:
            found.__dict__["flat"] = self.flat[key]
        return found

    def pair(self, other: Self) -> Array:
        """Compute the log kernel of all pairs, ``(H, I, J)`` with H lengths."""
        if self._is_flat(other):
            found: Array = self.flat.pair(other.flat)
            return found
        rows = [[self._one(i, other, j) for j in range(len(other))] for i in range(len(self))]
        return np.moveaxis(np.array(rows).reshape(len(self), len(other), -1), -1, 0)

    def alone(self) -> Array:
        """Compute the self-kernel of each member, ``(H, I)``."""
        if self._is_flat(self):
            found: Array = self.flat.alone()
            return found
        return np.stack([self._one(i, self, i) for i in range(len(self))], axis=-1)

    def _is_flat(self, other: FactorialOperand) -> bool:
        """Whether two batches are compared through hidden Markov models of all joint states."""
        by_chains = (
            is_numpy_array(self.models.initial)
            and not isinstance(self.lengths, Discounted)
            and isinstance(self.coupling, PowerProduct | Smoothed)
            and not (isinstance(self.coupling, PowerProduct) and self.coupling.marginal and self.coupling.rho != 1)
        )
        return not by_chains or max(self.models.n_joint, other.models.n_joint) <= FEW_JOINT

    def _one(self, i: int, other: FactorialOperand, j: int) -> Floats:
        """Compute the log kernels of one pair for all lengths, ``(H,)``."""
        pairs = self.models.n_joint * other.models.n_joint
        if pairs > MOST_PAIRS:
            cure = "Use fewer chains or states." if self.models.of_symbols else "Use mc.MeanField."
            raise ValueError(
                f"Two of these models have {pairs:,} pairs of joint states, more than {MOST_PAIRS:,}. {cure}"
            )
        left, right = self.models[i : i + 1], other.models[j : j + 1]
        logs = _log_leaves(left, right, self.coupling).reshape(1, -1)
        chains = [
            (power(first, self.coupling.power), power(step, self.coupling.power))
            for side in (left, right)
            for first, step in zip(double(side.initial)[0], double(side.transition)[0], strict=True)
        ]
        initial, transition = [first for first, _ in chains], [step for _, step in chains]
        lengths = np.array(self.lengths)
        return log_probabilities(initial, transition, lambda runs, t: np.repeat(logs, len(runs), axis=0), lengths)


def _log_leaves(left: Any, right: Any, coupling: Coupling) -> Floats:
    """Return the log kernels of the emissions of all joint states of two models, ``(J, J')``."""
    if left.of_symbols:
        sides = [Categoricals(double(side.probability)[0], side.alphabet) for side in (left, right)]
        return np.asarray(coupling.leaf(*sides))
    # Covariances are the same in all joint states: the kernel is a Gaussian function of the distance of the means.
    zero = np.zeros((1, left.dimension))
    noise = [Gaussians(zero, double(side.covariance)) for side in (left, right)]
    spread = double(left.covariance)[0] + double(right.covariance)[0]
    if isinstance(coupling, Smoothed):
        weight = np.linalg.inv(spread + np.eye(len(spread)) / (2 * coupling.gamma))
    else:
        weight = coupling.power * np.linalg.inv(spread)
    root = np.linalg.cholesky((weight + weight.T) / 2)
    means = [_joint_means(side) @ root for side in (left, right)]
    logs = float(np.asarray(coupling.leaf(*noise))[0, 0])
    return np.asarray(logs - cdist(means[0], means[1], "sqeuclidean") / 2)


def _joint_means(model: Any) -> Floats:
    mean = double(model.mean)[0]
    return joint_states(mean.shape[1], len(mean)) @ mean.reshape(-1, mean.shape[2])
