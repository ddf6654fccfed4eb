"""Shared hidden nodes: the probability that one configuration of the hidden nodes generates two samples (MK-2)."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from mercer._array import Floats, logsumexp, safe_log
from mercer._coupling import FieldOperand
from mercer.models._nets.evidence import log_probabilities
from mercer.models._nets.graph import Graph, graph_of

MOST = 1 << 16
"""Most configurations of the hidden nodes."""
CELLS = 1 << 22
"""Configurations times samples that are evaluated at once."""


@dataclass
class SharedNodes(FieldOperand):
    """Log features log P(x, h) - log P(h) / 2 of samples, ``(N, H)``; the kernel is the sum of their products."""

    logs: Floats

    @property
    def shape(self) -> tuple[int, ...]:
        """Batch shape."""
        return (len(self.logs),)

    def pair(self, other: SharedNodes) -> Floats:
        """Compute the log kernel of all pairs."""
        tops = [np.maximum(x.logs.max(axis=1), -1e300) for x in (self, other)]
        left, right = (np.exp(x.logs - top[:, None]) for x, top in zip((self, other), tops, strict=True))
        value = safe_log(left @ right.T)
        for i, j in np.argwhere(value < -500):  # terms that underflowed may matter
            value[i, j] = logsumexp(self.logs[i] - tops[0][i] + other.logs[j] - tops[1][j])
        return np.asarray(value + tops[0][:, None] + tops[1])

    def alone(self) -> Floats:
        """Compute the self-kernel of each sample."""
        return np.asarray(logsumexp(2 * self.logs, axis=1))


def shared_nodes(graph: Graph, table: Floats, parameters: tuple[Floats, Floats, Floats]) -> SharedNodes:
    """Compute the log features of all rows, for all configurations of the hidden nodes."""
    hidden = [graph.number[name] for name in graph.hidden]
    if not hidden:
        raise ValueError("Marginalization needs a network with hidden nodes; got one without. Use hidden=[...].")
    for v in hidden:
        seen = [graph.names[u] for u in graph.above[v] if u not in hidden]
        if seen:
            raise ValueError(
                f"Marginalization needs hidden nodes whose parents are hidden, because two samples share them; "
                f"{graph.names[v]!r} has the observed parent {seen[0]!r}."
            )
    count = prod(graph.sizes[v] for v in hidden)
    if count > MOST:
        raise ValueError(f"The hidden nodes have {count:,} configurations, more than {MOST:,}. Use fewer hidden nodes.")
    configurations = np.indices([graph.sizes[v] for v in hidden]).reshape(len(hidden), -1).T
    whole = graph_of(graph.nodes, graph.parents, ())
    rows = np.full((count, len(graph.names)), np.nan)
    rows[:, hidden] = configurations
    prior = _logs(whole, rows, parameters)
    logs = np.empty((len(table), count))
    size = max(1, CELLS // count)
    for start in range(0, len(table), size):
        part = table[start : start + size]
        joint = np.repeat(rows[None], len(part), axis=0)
        joint[:, :, list(graph.observed)] = part[:, None]
        logs[start : start + size] = _logs(whole, joint.reshape(-1, rows.shape[1]), parameters).reshape(-1, count)
    possible = np.isfinite(prior)
    return SharedNodes(np.where(possible, logs - np.where(possible, prior, 0.0) / 2, -np.inf))


def _logs(graph: Graph, rows: Floats, parameters: tuple[Any, Any, Any]) -> Floats:
    return np.asarray(log_probabilities(graph, rows, *parameters))[0]
