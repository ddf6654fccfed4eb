"""What data say about the hidden states, or components, of one shared model: what latent kernels are made of."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats, to_numpy
from mercer.data import Sequences
from mercer.data.segments import datum_name, segments
from mercer.families.categorical import Categoricals
from mercer.kernels._score_rows import is_sequential
from mercer.models._forward.evidence import evidence_of
from mercer.models._forward.interface import Evidence, Expectations, Runs, expectations
from mercer.models._scores.weighted import code_counts
from mercer.models.hmm import HMMs
from mercer.models.mixture import Mixtures

__all__ = ["Chain", "SymbolShares", "expected", "require_hidden", "require_possible", "symbol_counts"]


class Chain(NamedTuple):
    """One chain of hidden states; a mixture is one whose states do not depend on one another."""

    initial: Floats
    """``(1, n)``."""
    transition: Floats
    """``(1, n, n)``."""
    emission: Any
    """Batch of shape ``(1, n)``."""

    @classmethod
    def of(cls, model: Any) -> Chain:
        """Read `HMMs` or `Mixtures` of shape (1,)."""
        if isinstance(model, HMMs):
            return cls(_double(model.initial), _double(model.transition), model.emission)
        weights = _double(model.weights)
        return cls(weights, np.repeat(weights[:, None], weights.shape[1], axis=1), model.components)

    @property
    def n_states(self) -> int:
        """Number of hidden states."""
        return int(self.initial.shape[1])

    def evidence(self, x: Any) -> Evidence:
        """Ask the states about points ``(T, ...)``."""
        return evidence_of(self.emission, x, np.zeros(x.shape[0], dtype=int))


def require_hidden(model: Any, kernel: str) -> None:
    """Raise unless every observation has a hidden state, or component, of its own."""
    if isinstance(model, HMMs) or (isinstance(model, Mixtures) and not is_sequential(model.components)):
        return
    what = "mixtures of models of whole sequences" if isinstance(model, Mixtures) else type(model).__name__
    raise TypeError(
        f"{kernel} needs a hidden state of every observation, which {what} do not have: use mc.HMM or mc.Mixture"
    )


def expected(model: Any, X: Any, evidence: Evidence | None = None, *, states: bool) -> Expectations:
    """Posteriors of all data under the one model; with ``states`` at every observation (ALG-FB).

    ``X`` is what the model's estimator accepted: sequences, or a matrix whose rows are data of one observation.
    """
    chain = Chain.of(model)
    x, offsets = segments(X)
    evidence = chain.evidence(x) if evidence is None else evidence
    found = expectations(chain.initial, chain.transition, evidence, Runs.shared(np.asarray(offsets)), states=states)
    require_possible(X, found.log_prob)
    return found


def require_possible(X: Any, log_prob: Floats) -> None:
    """Raise where a datum has probability zero."""
    impossible = np.flatnonzero(~np.isfinite(log_prob))
    if len(impossible):
        raise ValueError(
            f"{datum_name(X, impossible[0])} has probability zero under the shared model, so that its hidden states "
            "have no posterior: fit the model with prior='pooled', or leave it out"
        )


class SymbolShares:
    """What the states of one model think of codes: which symbol an ambiguity code stands for, in every state."""

    def __init__(self, emission: Any) -> None:
        leaf = getattr(emission, "components", emission)
        if not isinstance(leaf, Categoricals):
            raise TypeError(
                f"the model emits {type(leaf).__name__}, which are no symbols that could be counted: use "
                "mc.LatentMeanMap, which compares vectors too"
            )
        p = _double(leaf.probability)[0]
        if leaf is not emission:  # a mixture of symbols in every state is one law of symbols
            p = (_double(emission.weights)[0][..., None] * p).sum(axis=-2)
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


def symbol_counts(model: Any, X: Sequences) -> tuple[Floats, Expectations]:
    """Count how often every symbol is expected in every state, ``(N, n, k)``, and what they come from.

    An ambiguity code counts as the symbols that it stands for, each as probable as the state says.
    """
    chain = Chain.of(model)
    shares = SymbolShares(chain.emission)
    evidence = chain.evidence(X.values)
    found = expected(model, X, evidence, states=chain.emission is not shares.leaf)
    codes = found.symbols
    if codes is None:
        assert found.states is not None
        codes = code_counts(shares.leaf, X.values, X.offsets, found.states)
    k = len(shares.alphabet)
    counts = codes[..., :k].copy()
    for code in range(k, codes.shape[-1]):  # one by one: the order of a sum never depends on the neighbours
        if codes[..., code].any():
            counts += codes[..., code, None] * shares.of(code)
    return counts, found


def _double(x: Any) -> Floats:
    return to_numpy(x).astype(np.float64, copy=False)
