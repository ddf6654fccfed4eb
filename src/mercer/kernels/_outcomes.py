"""Explicit features of distributions over few outcomes: p^rho of every outcome (PPK-1, section 2.1 of the source)."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from mercer._array import Array, beside
from mercer._coupling import Leaf, PowerProduct
from mercer.families.bernoulli import Bernoullis
from mercer.kernels._names import words

MOST_ANSWERS = 12
"""Coordinates of Bernoullis with explicit features: 2^12 columns."""


def log_features(operand: Any) -> Array | None:
    """Return logarithms of explicit features of coupled distributions, ``(N, K)``; None if they have none.

    The features of sparse distributions are a SciPy CSR array of the logarithms of those that are not zero.
    """
    if hasattr(operand, "log_features"):
        found: Array | None = operand.log_features()
        return found
    batch = operand.batch if isinstance(operand, Leaf) and isinstance(operand.coupling, PowerProduct) else None
    if not isinstance(batch, Bernoullis) or batch.dimension > MOST_ANSWERS:
        return None
    p = batch.probability
    answers = np.array(list(product((0.0, 1.0), repeat=batch.dimension)))
    return operand.coupling.power * batch.log_prob(beside(p, answers, p.dtype))


def described(operand: Any) -> str:
    """Return what an operand without features compares, for messages; empty if it does not say."""
    if hasattr(operand, "log_features"):
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
