"""Posteriors of the hidden states, or components, of one shared model, from which latent kernels are computed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse

from mercer._array import Floats
from mercer.data import Sequences
from mercer.data.segments import sample_name, segments
from mercer.families.categorical import Categoricals
from mercer.models._forward.evidence import evidence_of
from mercer.models._forward.interface import Evidence, Expectations, Runs, expectations, steps
from mercer.models._scores.weighted import code_counts
from mercer.models.inference import double

__all__ = ["Clique", "HiddenChain", "SymbolShares", "hidden_chain"]


class Clique(NamedTuple):
    """Variables that a graphical model relates, such as a node and its parents: their mean posterior (LMMK-0)."""

    table: Floats
    """Mean posteriors of each sample, ``(N, *axes)``, or, of a clique with points, of each observation, divided by the
    number of observations of its sample, ``(T, *axes)``."""
    names: tuple[tuple[str, ...], ...]
    """Names of the states of the variable of each axis."""
    hidden: tuple[bool, ...]
    """Whether the variable of each axis is hidden."""
    step: bool = False
    """Whether it is a transition of hidden states."""
    column: slice | None = None
    """Columns of the data that are a point, if a variable is real."""


def hidden_chain(model: Any, kernel: str) -> HiddenChain:
    """Return the chain of hidden states of one shared model.

    A model that has one answers ``hidden_chain()``; raises if there is none, with the name of the kernel.

    Examples
    --------
    >>> import mercer as mc
    >>> from mercer.models.hidden import hidden_chain
    >>> letters = mc.Categoricals([[[0.9, 0.1], [0.2, 0.8]]], alphabet="ab")
    >>> model = mc.Mixtures([[0.5, 0.5]], letters)
    >>> chain = hidden_chain(model, "PosteriorCounts")
    >>> counts, _ = chain.symbol_counts(mc.Sequences(["ab"], alphabet="ab"))
    >>> counts.round(2)
    array([[[0.82, 0.11],
            [0.18, 0.89]]])
    """
    chain: HiddenChain | None = model.hidden_chain() if hasattr(model, "hidden_chain") else None
    if chain is None:
        what = "mixtures of models of whole sequences" if hasattr(model, "hidden_chain") else type(model).__name__
        raise TypeError(
            f"{kernel} needs a hidden state of every observation, which {what} do not have. Use mc.HMM or mc.Mixture."
        )
    return chain


class HiddenChain(NamedTuple):
    """One chain of hidden states; a mixture is one whose states do not depend on one another."""

    initial: Floats
    """``(1, n)``."""
    transition: Floats
    """``(1, n, n)``."""
    emission: Any
    """Batch of shape ``(1, n)``."""
    ordered: bool
    """Whether states depend on one another."""

    @classmethod
    def of(cls, initial: Any, transition: Any, emission: Any) -> HiddenChain:
        """Read the parameters of one model; None is the transition of a mixture, whose weights are initial."""
        first = double(initial)
        step = np.repeat(first[:, None], first.shape[1], axis=1) if transition is None else double(transition)
        return cls(first, step, emission, transition is not None)

    @property
    def n_states(self) -> int:
        """Number of hidden states."""
        return int(self.initial.shape[1])

    def evidence(self, x: Any) -> Evidence:
        """Compute the likelihoods of points ``(T, ...)`` under the states."""
        return evidence_of(self.emission, x, np.zeros(x.shape[0], dtype=int))

    def expected(self, X: Any, evidence: Evidence | None = None, *, states: bool) -> Expectations:
        """Posteriors of all data; with ``states`` at every observation (ALG-FB).

        ``X`` is the result of the estimator's ``accept``: sequences, or a matrix with one observation per row.
        """
        x, offsets = segments(X)
        evidence = self.evidence(x) if evidence is None else evidence
        runs = Runs.shared(np.asarray(offsets))
        found = expectations(self.initial, self.transition, evidence, runs, states=states)
        require_possible(X, found.log_prob)
        return found

    def symbol_counts(self, X: Sequences) -> tuple[Floats, Expectations]:
        """Count how often every symbol is expected in every state, ``(N, n, k)``, and what they come from.

        An ambiguity code counts as the symbols that it stands for, each as probable as the state says.
        """
        shares = SymbolShares(self.emission)
        evidence = self.evidence(X.values)
        found = self.expected(X, evidence, states=self.emission is not shares.leaf)
        codes = found.symbols
        if codes is None:
            assert found.states is not None
            codes = code_counts(shares.leaf.alphabet.n_codes, X.values, X.offsets, found.states)
        k = len(shares.alphabet)
        counts = codes[..., :k].copy()
        for code in range(k, codes.shape[-1]):  # one by one: the order of a sum never depends on the neighbors
            if codes[..., code].any():
                counts += codes[..., code, None] * shares.of(code)
        return counts, found

    def step_counts(self, X: Sequences) -> Any:
        """Mean over the steps of every sequence, ``(N, k k n n)``: dense, or a CSR matrix where there are many columns.

        Columns are the two symbols, then the two states. A sequence without a step has zeros.
        """
        shares, cells = SymbolShares(self.emission), _Cells.of(X)
        found = _table(len(X), shares, cells, _summed(self, X, cells))
        return found.toarray() if found.shape[1] <= DENSE_COLUMNS else found


def require_possible(X: Any, log_prob: Floats) -> None:
    """Raise if a sample has probability zero."""
    impossible = np.flatnonzero(~np.isfinite(log_prob))
    if len(impossible):
        raise ValueError(
            f"{sample_name(X, impossible[0])} has probability zero under the shared model, so its hidden states have "
            "no posterior. Fit the model with prior='pooled', or leave it out."
        )


class SymbolShares:
    """Probabilities of the symbols of an ambiguity code in every state of one model."""

    def __init__(self, emission: Any) -> None:
        leaf = getattr(emission, "components", emission)
        if not isinstance(leaf, Categoricals):
            raise TypeError(
                f"The model must emit symbols, which can be counted; got {type(leaf).__name__}. Use mc.LatentMeanMap, "
                "which compares vectors too."
            )
        p = double(leaf.probability)[0]
        if leaf is not emission:  # a mixture of symbols in every state is one distribution of symbols
            p = (double(emission.weights)[0][..., None] * p).sum(axis=-2)
        self.alphabet = leaf.alphabet
        self.leaf = leaf
        self.probability = p

    def of(self, code: int) -> Floats:
        """Probability of every symbol given the code, in every state, ``(n, k)``; 0 where the code is impossible."""
        wanted = self.alphabet.indicators(np.array([code]))[0]
        if code < len(self.alphabet):
            return np.broadcast_to(wanted, self.probability.shape)
        parts = self.probability * wanted
        total = parts.sum(axis=1, keepdims=True)
        return np.divide(parts, total, out=np.zeros_like(parts), where=total > 0)


# Expected numbers of pairs of neighboring symbols and their hidden states (MK-7, second order).

DENSE_COLUMNS = 4096
"""Largest number of columns of a dense matrix of counts."""
STEPS = 1 << 22
"""Posteriors of steps that are computed together."""


class _Cells(NamedTuple):
    """Cells in which steps are summed: one per sequence and pair of codes that occurs in it."""

    owner: Floats
    """Sequence of every cell, ascending."""
    first: Floats
    second: Floats
    """Codes of every cell."""
    step: Floats
    """Observations that are not the first of their sequence, ascending."""
    place: Floats
    """Cell of the step into each of them."""

    @classmethod
    def of(cls, X: Sequences) -> Self:
        """Find the pairs of codes that occur, sequence by sequence."""
        codes, width = np.asarray(X.values, dtype=np.int64), int(X.values.max(initial=0)) + 1
        owner = np.repeat(np.arange(len(X)), X.lengths)
        step = np.flatnonzero(owner[1:] == owner[:-1]) + 1
        found, place = np.unique((owner[step] * width + codes[step - 1]) * width + codes[step], return_inverse=True)
        pair, second = np.divmod(found, width)
        return cls(*np.divmod(pair, width), second, step, place)


def _summed(chain: HiddenChain, X: Sequences, cells: _Cells) -> Floats:
    """Mean posteriors of the steps of every cell, ``(cells, n, n)``, some sequences at a time."""
    n, offsets = chain.n_states, np.asarray(X.offsets)
    ends = np.searchsorted(offsets, np.arange(STEPS // n**2, offsets[-1], STEPS // n**2))
    out = np.zeros((len(cells.owner), n * n))
    for i, j in pairwise(np.unique([0, *ends, len(X)]).tolist()):
        rows = slice(offsets[i], offsets[j])
        evidence, runs = chain.evidence(X.values[rows]), Runs.shared(offsets[i : j + 1] - offsets[i])
        values, log_prob = steps(chain.initial, chain.transition, evidence, runs)
        require_possible(X[i:j], log_prob)
        mine = slice(*np.searchsorted(cells.step, offsets[[i, j]]))
        own = slice(*np.searchsorted(cells.owner, [i, j]))
        where = cells.place[mine] - own.start, cells.step[mine] - rows.start
        share = 1 / (X.lengths[cells.owner[cells.place[mine]]] - 1.0)
        shape = (own.stop - own.start, len(values))
        out[own] = sparse.csr_array((share, where), shape=shape) @ values.reshape(len(values), n * n)
    return out.reshape(-1, n, n)


def _table(size: int, shares: SymbolShares, cells: Any, values: Floats) -> Any:
    n, k = shares.probability.shape
    states = np.arange(n * n)
    plain = (cells.first < k) & (cells.second < k)
    begin = (cells.first[plain] * k + cells.second[plain]) * (n * n)
    rows, columns, data = [np.repeat(cells.owner[plain], n * n)], [(begin[:, None] + states).ravel()], [values[plain]]
    for mine, left, right in _vague(shares, cells, plain):
        a, b = np.flatnonzero(left.any(axis=0)), np.flatnonzero(right.any(axis=0))
        part = np.einsum("sij,ia,jb->sabij", values[mine], left[:, a], right[:, b])
        places = (a[:, None] * k + b).reshape(-1, 1) * (n * n) + states
        rows.append(np.repeat(cells.owner[mine], part[0].size))
        columns.append(np.tile(places.ravel(), len(mine)))
        data.append(part)
    entries = np.concatenate([part.ravel() for part in data])
    where = np.concatenate(rows), np.concatenate(columns)
    out = sparse.coo_matrix((entries, where), shape=(size, (n * k) ** 2)).tocsr()
    out.sum_duplicates()
    return out


def _vague(shares: SymbolShares, cells: Any, plain: Floats) -> Iterator[tuple[Floats, Floats, Floats]]:
    """Iterate over pairs of codes with an ambiguity code: their cells, and the shares of the symbols in them."""
    rest = np.flatnonzero(~plain)
    first, second = cells.first[rest], cells.second[rest]
    for a, b in np.unique(np.stack([first, second], axis=1), axis=0):
        yield rest[(first == a) & (second == b)], shares.of(int(a)), shares.of(int(b))
