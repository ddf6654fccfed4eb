"""Sums over the readings of uncertain symbols under Markov chains, forward and backward (FK-6).

Where the last ``order`` symbols are certain, only one context is possible: steps between such contexts are plain
windows, and what lies between them are *stretches*, which do not depend on each other. All stretches are summed side by
side, step by step, over the contexts that are possible in them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats, Indices, safe_log
from mercer.data import Alphabet, Sequences
from mercer.data.ragged import windows_of
from mercer.models._markov.counts import transitions_of

NODES = 1 << 20
"""Contexts of all times of the sequences that are worked on together, about."""


class Chain(NamedTuple):
    """A chain for sums over readings."""

    initial: Floats
    """Distribution of the first ``order`` symbols, followed by that of shorter sequences if there is an end state."""
    rows: Floats
    """Probabilities of the symbols, and of the end, ``(C, w)``."""
    order: int
    end: bool


class _Layer(NamedTuple):
    """The possible contexts of all stretches after the same number of symbols, and the symbols that follow them."""

    context: Indices
    stretch: Indices
    last: Indices
    """Nodes without a symbol that follows."""
    source: Indices
    """Node of every possible reading of the next symbol."""
    target: Indices
    """Node of the next layer that it leads to."""
    symbol: Indices


class Readings:
    """The possible contexts of sequences with uncertain symbols: they are those of all chains of an order.

    Parameters
    ----------
    codes, offsets : ndarray of int
        Sequence m is ``codes[offsets[m]:offsets[m + 1]]``. Codes below k are symbols.
    members : ndarray of bool of shape (codes, k)
        Whether a code stands for a symbol.
    order : int
        Of the chains.
    end : bool
        Whether they have an end state.
    """

    def __init__(self, codes: Indices, offsets: Indices, members: Any, order: int, end: bool) -> None:
        codes, offsets = np.asarray(codes, dtype=np.int64), np.asarray(offsets, dtype=np.int64)
        self.codes, self.offsets, self.members, self.order = codes, offsets, np.asarray(members, dtype=bool), order
        self.k = k = self.members.shape[1]
        self.owner, self.window, _ = transitions_of(codes, offsets, k, order, end)
        begin, stop, long = offsets[:-1], offsets[1:], np.diff(offsets) >= order
        self.brief = np.flatnonzero(~long)
        known = np.concatenate([[0], np.cumsum(codes >= k)])  # uncertain symbols before a position
        first = np.minimum(begin + order, stop)
        headed = long & (known[first] > known[begin])  # the first context is uncertain
        self.heads = np.flatnonzero(long & ~headed)
        self.head = self._contexts(first[self.heads])
        # Symbols that follow a context, which or they themselves are uncertain; neighbors are one stretch.
        sequence = np.repeat(np.arange(len(begin)), np.diff(offsets))
        unsure = np.arange(len(codes)) >= begin[sequence] + order
        unsure[windows_of(codes, offsets, k, order + 1).start + order] = False
        at = np.flatnonzero(unsure)
        new = np.ones(len(at), dtype=bool)
        new[1:] = (at[1:] > at[:-1] + 1) | (sequence[at[1:]] > sequence[at[:-1]])
        whole = np.flatnonzero(headed & (first == stop))  # an uncertain context that nothing follows
        self.start = np.concatenate([at[new], stop[whole]])
        self.size = np.concatenate([np.bincount(np.cumsum(new) - 1), np.zeros(len(whole), dtype=np.int64)])
        self.sequence = np.concatenate([sequence[at[new]], whole])
        self.ended = (self.start + self.size == stop[self.sequence]) & end
        self.ended &= known[stop[self.sequence]] > known[np.maximum(stop[self.sequence] - order, 0)]
        self.headed = headed[self.sequence] & (self.start == first[self.sequence])
        self.layers = list(self._layers())

    def _contexts(self, ends: Indices) -> Indices:
        """Return the contexts of certain symbols before some positions."""
        found = np.zeros(len(ends), dtype=np.int64)
        for back in range(self.order, 0, -1):
            found = found * self.k + self.codes[ends - back]
        return found

    def _layers(self) -> Iterator[_Layer]:
        """Read all stretches. First contexts are read from context 0, which that many symbols leave no trace of."""
        contexts = self.k**self.order
        start = self.start - self.order * self.headed
        size = self.size + self.order * self.headed
        stretch = np.arange(len(start))
        context = np.where(self.headed, 0, self._contexts(np.where(self.headed, self.order, self.start)))
        step = 0
        while len(stretch):
            going = size[stretch] > step
            at = np.flatnonzero(going)
            source, symbol = np.nonzero(self.members[self.codes[start[stretch[at]] + step]])
            source = at[source]
            follows = context[source] * self.k % contexts + symbol * (contexts > 1)
            nodes, target = np.unique(stretch[source] * contexts + follows, return_inverse=True)
            yield _Layer(context, stretch, np.flatnonzero(~going), source, target, symbol)
            stretch, context = np.divmod(nodes, contexts)
            step += 1

    def log_probabilities(self, chain: Chain) -> Floats:
        """Log probability of every sequence, ``(M,)``."""
        return self._forward(chain)[0]

    def _factors(self, chain: Chain, step: int) -> Floats:
        """Probabilities of the readings of a step; 1 in first contexts, whose probability follows all of them."""
        layer = self.layers[step]
        found = chain.rows[layer.context[layer.source], layer.symbol]
        return np.where(self.headed[layer.stretch[layer.source]] & (step < self.order), 1.0, found)

    def _last(self, chain: Chain, layer: _Layer) -> Floats:
        """Probabilities of the end after the last contexts, or 1."""
        if not chain.end:
            return np.ones(len(layer.last))
        stop = chain.rows[layer.context[layer.last], self.k]
        return np.where(self.ended[layer.stretch[layer.last]], stop, 1.0)

    def _forward(self, chain: Chain) -> tuple[Floats, list[Floats]]:
        """Return log probabilities and the weights of all layers, whose sums are 1 in every stretch."""
        plain = safe_log(chain.rows[self.window // chain.rows.shape[1], self.window % chain.rows.shape[1]])
        logs = np.bincount(self.owner, plain, minlength=len(self.offsets) - 1).astype(np.float64)
        logs[self.heads] += safe_log(chain.initial[self.head])
        for m in self.brief:
            logs[m] = self._brief(chain, self.codes[self.offsets[m] : self.offsets[m + 1]])
        total, found, count = np.zeros(len(self.start)), [], len(self.start)
        weights: Floats = np.ones(count)
        for step, layer in enumerate(self.layers):
            if step == self.order:
                weights = weights * np.where(self.headed[layer.stretch], chain.initial[layer.context], 1.0)
            sums = np.bincount(layer.stretch, weights, minlength=count)
            present = np.bincount(layer.stretch, minlength=count) > 0
            total[present] += safe_log(sums[present])
            weights = weights / np.where(sums > 0, sums, 1.0)[layer.stretch]
            found.append(weights)
            done = np.unique(layer.stretch[layer.last])
            ends = weights[layer.last] * self._last(chain, layer)
            total[done] += safe_log(np.bincount(layer.stretch[layer.last], ends, minlength=count)[done])
            parts = weights[layer.source] * self._factors(chain, step)
            weights = np.bincount(layer.target, parts, minlength=layer.target.max(initial=-1) + 1)
        return logs + np.bincount(self.sequence, total, minlength=len(logs)), found

    def _brief(self, chain: Chain, codes: Indices) -> float:
        """Log probability of a sequence shorter than the order."""
        contexts, k = np.zeros(1, dtype=np.int64), self.k
        for code in codes:
            contexts = (contexts[:, None] * k + np.flatnonzero(self.members[code])).ravel()
        if chain.end:
            base = k**self.order + sum(k**j for j in range(len(codes)))
            return float(safe_log(chain.initial[base + contexts].sum()))
        return float(safe_log(chain.initial[: k**self.order].reshape(k ** len(codes), -1)[contexts].sum()))

    def expected_windows(self, chain: Chain) -> tuple[Indices, Indices, Floats]:
        """Compute expected numbers of windows: sequence, window ``context * w + symbol`` and number.

        Windows may occur twice. Impossible sequences have none.
        """
        logs, weights = self._forward(chain)
        width, count = chain.rows.shape[1], len(self.start)
        owner, window, number = [self.owner], [self.window], [np.ones(len(self.owner))]
        ahead = np.empty(0)
        for step in range(len(self.layers) - 1, -1, -1):
            layer, mine = self.layers[step], np.zeros(len(weights[step]))
            factors = self._factors(chain, step) * ahead[layer.target]
            mine += np.bincount(layer.source, factors, minlength=len(mine))
            mine[layer.last] = self._last(chain, layer)
            total = np.bincount(layer.stretch, weights[step] * mine, minlength=count)
            share = np.divide(1.0, total, out=np.zeros(count), where=total > 0)
            ends = self.ended[layer.stretch[layer.last]]
            for nodes, symbol, values in (
                (layer.source, layer.symbol, weights[step][layer.source] * factors),
                (layer.last[ends], self.k, (weights[step] * mine)[layer.last[ends]]),
            ):
                own = layer.stretch[nodes]
                counted = ~self.headed[own] | (step >= self.order)
                owner.append(self.sequence[own[counted]])
                window.append((layer.context[nodes] * width + symbol)[counted])
                number.append((values * share[own])[counted])
            ahead = mine * share[layer.stretch]
            if step == self.order:
                ahead = ahead * np.where(self.headed[layer.stretch], chain.initial[layer.context], 1.0)
        owners, windows, numbers = (np.concatenate(x) for x in (owner, window, number))
        possible = (logs > -np.inf)[owners] & (numbers > 0)
        return owners[possible], windows[possible], numbers[possible]


def in_parts(X: Sequences, alphabet: Alphabet, order: int, end: bool) -> Iterator[tuple[slice, Readings]]:
    """Yield some sequences and their readings, about `NODES` contexts at a time."""
    members, codes, offsets = alphabet.membership > 0, np.asarray(X.values, dtype=np.int64), np.asarray(X.offsets)
    logs = np.concatenate([np.zeros(order), np.cumsum(np.log(members.sum(axis=1)[codes]))])
    nodes = np.exp(np.minimum(logs[order:] - logs[: len(codes)], order * np.log(len(alphabet))))
    sizes = np.concatenate([[0.0], np.cumsum(nodes + 1)])[offsets]
    ends = np.searchsorted(sizes, np.arange(NODES, sizes[-1], NODES))
    for begin, stop in pairwise(np.unique([0, *ends, len(X)]).tolist()):
        part = slice(offsets[begin], offsets[stop])
        yield slice(begin, stop), Readings(codes[part], offsets[begin : stop + 1] - part.start, members, order, end)
