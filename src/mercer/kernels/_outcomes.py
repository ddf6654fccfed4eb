"""Explicit features of distributions over few outcomes: p^rho of every outcome (PPK-1, section 2.1 of the source)."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from scipy import sparse

from mercer._array import Array, beside, namespace, safe_log
from mercer._coupling import InnerLeaf, Leaf, PowerProduct
from mercer.families._sparse_leaf import SparseDivergence, SparseLeaf
from mercer.families.bernoulli import Bernoullis
from mercer.kernels._names import words

MOST_ANSWERS = 12
"""Coordinates of Bernoullis with explicit features: 2^12 columns."""


def log_features(operand: Any) -> Array | None:
    """Return logarithms of explicit features of coupled distributions, ``(N, K)``; None if they have none.

    The features of sparse distributions are a SciPy CSR array of the logarithms of those that are not zero.
    """
    if isinstance(operand, InnerLeaf) and operand.trials == 1:
        logs = safe_log(operand.features) if operand.logs is None else operand.logs
        return logs if operand.floor is None else _with_column(logs, operand.floor / 2)
    if isinstance(operand, SparseLeaf) and operand.trials == 1 and not isinstance(operand, SparseDivergence):
        return _sparse(operand)
    if isinstance(operand, Leaf) and isinstance(operand.coupling, PowerProduct):
        batch = operand.batch
        if isinstance(batch, Bernoullis) and batch.dimension <= MOST_ANSWERS:
            p = batch.probability
            answers = np.array(list(product((0.0, 1.0), repeat=batch.dimension)))
            return operand.coupling.rho * batch.log_prob(beside(p, answers, p.dtype))
    return None


def described(operand: Any) -> str:
    """Return what an operand without features compares, for messages; empty if it does not say."""
    if isinstance(operand, InnerLeaf | SparseLeaf):
        return f"; got Multinomials of {operand.trials} trials"
    batch = operand.batch if isinstance(operand, Leaf) else None
    if batch is None:
        return ""
    size = f" of {batch.dimension} coordinates" if isinstance(batch, Bernoullis) else ""
    return f"; got {type(batch).__name__}{size}"


def outcome_names(batch: Any, width: int) -> list[str] | None:
    """Return the names of the features: the outcomes; None if they have no names."""
    if isinstance(batch, Bernoullis):
        return words("01", int(batch.dimension), width)
    alphabet = getattr(batch, "alphabet", None)
    if alphabet is None or width - len(alphabet) not in (0, 1):
        return None
    names = [str(symbol) for symbol in alphabet.symbols]
    return names + ["constant"] * (width - len(names))


def _with_column(logs: Array, value: float) -> Array:
    xp = namespace(logs)
    return xp.concat([logs, xp.full_like(logs[:, :1], value)], axis=1)


def _sparse(leaf: SparseLeaf) -> Any:
    """Return the logarithms of sparse features, and of the constant that a mean map adds."""
    p, rho = (leaf.rows.rows, 1.0) if leaf.base is None else leaf.base
    with np.errstate(divide="ignore"):  # a mismatch of 1
        scale = float(np.log1p(-leaf.mismatch)) / 2
    logs = sparse.csr_array((rho * np.log(p.data) + scale, p.indices, p.indptr), shape=p.shape)
    constant = float(np.log(leaf.mismatch)) if leaf.mismatch else leaf.floor
    if constant is None:
        return logs
    n = len(p)
    column = sparse.csr_array((np.full(n, constant / 2, p.dtype), np.zeros(n, int), np.arange(n + 1)), shape=(n, 1))
    return sparse.hstack([logs, column], format="csr")
