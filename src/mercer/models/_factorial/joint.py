"""Joint states of several chains, and what they say of each chain: expectations, scores and cliques (PPK-6.1)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats
from mercer.models._forward.interface import Expectations
from mercer.models._scores.scores import probability_scores
from mercer.models._scores.weighted import weighted_scores
from mercer.models.hidden import Clique
from mercer.models.inference import double

MOST_JOINT = 1024
"""Number of joint states up to which models are turned into hidden Markov models."""
AT_ONCE = 1 << 24
"""Expected transitions between joint states that are kept at once."""


def joint_states(n: int, chains: int) -> Floats:
    """Return indicators of the states of all chains in each joint state, ``(n^C, C n)``."""
    return np.eye(n)[np.indices((n,) * chains).reshape(chains, -1).T].reshape(-1, chains * n)


class ByChain(NamedTuple):
    """Expected statistics of each chain."""

    first: Floats
    """Posteriors of the first states, ``(S, C, n)``."""
    transitions: Floats
    """Expected numbers of transitions, ``(S, C, n, n)``."""

    @classmethod
    def of(cls, found: Expectations, n: int, chains: int) -> ByChain:
        """Sum over the joint states that share a state of a chain."""
        own = joint_states(n, chains).reshape(-1, chains, n)
        moved = [own[:, c].T @ found.transitions @ own[:, c] for c in range(chains)]
        return cls(np.einsum("sj,jci->sci", found.first, own), np.stack(moved, axis=1))


def factorial_cliques(model: Any, X: Any) -> list[Clique]:
    """Return the clique of observations and all states, then those of the transitions of each chain (LMMK-0)."""
    chains, n = (int(size) for size in model.initial.shape[-2:])
    lengths, states = np.diff(X.offsets), tuple(str(i) for i in range(n))
    found = model.hmms().hidden_chain().expected(X, states=True)
    share = np.repeat(1 / np.maximum(lengths, 1), lengths)
    table = (found.states * share[:, None]).reshape(-1, *(n,) * chains)
    steps = ByChain.of(found, n, chains).transitions / np.maximum(lengths - 1, 1)[:, None, None, None]
    cliques = [Clique(table, (states,) * chains, (True,) * chains, column=slice(0, model.dimension))]
    return cliques + [Clique(steps[:, c], (states, states), (True, True), step=True) for c in range(chains)]


def factorial_scores(model: Any, X: Any, parametrization: str) -> Floats:
    """Return the scores of all sequences under one model, ``(M, P)`` (FK-7, FK-9)."""
    step = max(1, AT_ONCE // model.n_joint**2)
    parts = [_scores(model, X[k : k + step], parametrization) for k in range(0, len(X), step)]
    return np.concatenate([np.empty((0, len(score_names(model)))), *parts])


def _scores(model: Any, X: Any, parametrization: str) -> Floats:
    chains, n = (int(size) for size in model.initial.shape[-2:])
    chain, d = model.hmms().hidden_chain(), model.dimension
    found = chain.expected(X, states=True)
    counts = ByChain.of(found, n, chains)
    emitted = weighted_scores(chain.emission[0], X.values, X.offsets, found.states, parametrization)
    rows = [
        probability_scores(counts.first, double(model.initial)[0], None, parametrization),
        probability_scores(counts.transitions, double(model.transition)[0], None, parametrization),
        joint_states(n, chains).T @ emitted[..., :d],  # an effect adds to the means of several joint states
        emitted[..., d:].sum(axis=1),
    ]
    return np.concatenate([part.reshape(len(X), -1) for part in rows], axis=1)


def score_names(models: Any) -> list[str]:
    """Name the columns of the scores."""
    (chains, n), d = models.initial.shape[-2:], models.dimension
    names = [f"initial[{c}, {i}]" for c in range(chains) for i in range(n)]
    names += [f"transition[{c}, {i}, {j}]" for c in range(chains) for i in range(n) for j in range(n)]
    names += [f"mean[{c}, {i}, {k}]" for c in range(chains) for i in range(n) for k in range(d)]
    return names + [f"covariance[{k}, {m}]" for k in range(d) for m in range(k, d)]
