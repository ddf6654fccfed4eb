"""Background frequencies of letters, which emissions are compared with."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats, to_numpy
from mercer._probability import checked_probability
from mercer.data import Alphabet

AMINO_ACIDS = (
    0.0787945, 0.0151600, 0.0535222, 0.0668298, 0.0397062, 0.0695071, 0.0229198, 0.0590092, 0.0594422, 0.0963728,
    0.0237718, 0.0414386, 0.0482904, 0.0395639, 0.0540978, 0.0683364, 0.0540687, 0.0673417, 0.0114135, 0.0304133,
)  # fmt: skip
"""Frequencies of the amino acids in Swiss-Prot 50.8, in the order of their letters; HMMER's null model has them too."""


def background_of(alphabet: Alphabet) -> Floats:
    """Return the usual background: frequencies of Swiss-Prot for proteins, else equal frequencies."""
    if alphabet == Alphabet.of("protein"):
        p = np.array(AMINO_ACIDS)
        return p / p.sum()
    return np.full(len(alphabet), 1 / len(alphabet))


def checked_background(values: Any, alphabet: Alphabet, batch: tuple[int, ...]) -> Floats:
    """Return the background of every profile, ``(*batch, k)``; raise if a letter has probability zero."""
    k = len(alphabet)
    if values is None:
        found = background_of(alphabet)
    else:
        found = np.asarray(to_numpy(checked_probability(values, "background")), dtype=np.float64)
    if found.shape not in ((k,), (*batch, k)):
        raise ValueError(f"background must have one probability per symbol, shape ({k},); got shape {found.shape}.")
    if not (found > 0).all():
        letter = alphabet.symbols[int(np.argwhere(found <= 0)[0][-1])]
        raise ValueError(f"background must be positive for every symbol; got 0 for {letter!r}. Add a pseudo-count.")
    return np.broadcast_to(found, (*batch, k))
