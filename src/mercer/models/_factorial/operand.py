"""Coupled factorial hidden Markov models: through hidden Markov models of few joint states, else chain by chain."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise, repeat
from typing import Any, ClassVar, Self

import numpy as np
from array_api_compat import is_numpy_array
from scipy.spatial.distance import cdist

from mercer._array import Array, Floats
from mercer._coupling import Coupling, OneAxis, PowerProduct, Smoothed, power
from mercer._probability import ratio
from mercer.families._covariance import upper
from mercer.families.categorical import Categoricals
from mercer.families.gaussian import Gaussians
from mercer.models._factorial.em import Parameters, sums_of
from mercer.models._factorial.joint import FEW_JOINT, Joint, joint_states, log_probabilities
from mercer.models._factorial.missing import Patterns
from mercer.models._factorial.table import symbol_counts
from mercer.models._scores.weighted import code_scores
from mercer.models.discount import Discounted
from mercer.models.hidden import Clique
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
        logs = _log_leaves(left, right, self.coupling).ravel()
        chains = [
            (power(first, self.coupling.power), power(step, self.coupling.power))
            for side in (left, right)
            for first, step in zip(double(side.initial)[0], double(side.transition)[0], strict=True)
        ]
        initial, transition = [first for first, _ in chains], [step for _, step in chains]
        found = log_probabilities(initial, transition, lambda: repeat(logs, max(self.lengths)))
        return np.asarray(found[np.array(self.lengths) - 1])


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


# Mean posteriors of observations with the states of all chains, and of the transitions of each chain (LMMK-0).


def factorial_cliques(model: Any, X: Any) -> list[Clique]:
    """Return the clique of observations and all states, then those of the transitions of each chain."""
    chains, n = (int(size) for size in model.initial.shape[-2:])
    lengths = np.diff(X.offsets)
    found = model._expected(0, X, by_run=True)
    states = tuple(str(i) for i in range(n))
    share = 1 / np.maximum(lengths, 1)
    if model.of_symbols:
        counts = [symbol_counts(double(model.probability)[0], model.alphabet, row) for row in found.kinds]
        tables = np.array(counts).reshape(len(X), n**chains, len(model.alphabet)).swapaxes(1, 2) * share[:, None, None]
        names, column = (tuple(map(str, model.alphabet.symbols)), *(states,) * chains), None
        table = tables.reshape(len(X), len(model.alphabet), *(n,) * chains)
    else:
        joint = model.hmms().hidden_chain().expected(X, states=True).states
        names, column = (states,) * chains, slice(0, model.dimension)
        table = (joint * np.repeat(share, lengths)[:, None]).reshape(-1, *(n,) * chains)
    steps = found.transitions / np.maximum(lengths - 1, 1)[:, None, None, None]
    hidden = (*(False,) * model.of_symbols, *(True,) * chains)
    cliques = [Clique(table, names, hidden, column=column)]
    return cliques + [Clique(steps[:, c], (states, states), (True, True), step=True) for c in range(chains)]


# Fisher scores of factorial hidden Markov models: expected counts and moments under the joint states (FK-7, FK-9).


def factorial_scores(models: Any, i: int, X: Any, parametrization: str) -> Floats:
    """Return the scores of all sequences under model i, ``(M, P)``."""
    if not len(X):
        return np.empty((0, len(score_names(models))))
    found: Joint = models._expected(i, X, by_run=True)
    initial, transition = double(models.initial)[i], double(models.transition)[i]
    parts = [
        _count_scores(found.first, initial, parametrization),
        _count_scores(found.transitions, transition, parametrization),
    ]
    if models.of_symbols:
        table = Categoricals(double(models.probability)[i], models.alphabet)
        parts.append(code_scores(table, found.kinds.swapaxes(1, 2), parametrization))
    else:
        model = Parameters(initial, transition, double(models.mean)[i], double(models.covariance)[i])
        parts += _gaussian_scores(model, double(X.values), X.offsets, found)
    return np.concatenate([part.reshape(len(X), -1) for part in parts], axis=1)


def _count_scores(counts: Floats, p: Floats, parametrization: str) -> Floats:
    total = counts.sum(axis=-1, keepdims=True)
    return np.asarray(counts - p * total if parametrization == "logit" else ratio(counts, p) - total)


def _gaussian_scores(model: Parameters, x: Floats, offsets: Floats, found: Joint) -> list[Floats]:
    """Return the scores of the effects and of the covariance, from expected moments with nothing missing."""
    precision = np.linalg.inv(model.covariance)
    mean = model.mean.reshape(-1, model.mean.shape[2])
    whole = Patterns(x)
    location, spread = [], []
    for s, (begin, end) in enumerate(pairwise(offsets)):
        part = whole.part(begin, end)
        own = found.first[s : s + 1], found.transitions[s : s + 1], found.states[begin:end], found.kinds[s : s + 1]
        one = Joint(found.log_prob[s : s + 1], *own)
        sums = sums_of(model, part, one, found.kinds[s])
        location.append((sums.crossed - sums.states @ mean) @ precision)
        explained = mean.T @ sums.crossed
        residual = sums.squares - explained - explained.T + mean.T @ sums.states @ mean
        spread.append((precision @ residual @ precision - sums.size * precision) / 2)
    return [np.array(location), upper(np.array(spread))]


def score_names(models: Any) -> list[str]:
    """Name the columns of the scores."""
    chains, n = models.initial.shape[-2:]
    names = [f"initial[{c}, {i}]" for c in range(chains) for i in range(n)]
    names += [f"transition[{c}, {i}, {j}]" for c in range(chains) for i in range(n) for j in range(n)]
    if models.of_symbols:
        symbols = models.alphabet.symbols
        return names + [f"emission[{j}].probability[{symbol}]" for j in range(models.n_joint) for symbol in symbols]
    d = int(models.mean.shape[-1])
    names += [f"mean[{c}, {i}, {k}]" for c in range(chains) for i in range(n) for k in range(d)]
    return names + [f"covariance[{k}, {m}]" for k in range(d) for m in range(k, d)]
