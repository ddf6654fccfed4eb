"""Generator of strings that descend from common ancestors."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats
from mercer._parameters import between, check, extent
from mercer._random import random_generator
from mercer.data import Alphabet
from mercer.datasets._make import _check_range, _labels


def make_families(
    n_samples: int = 60,
    *,
    length: int | tuple[int, int] = 80,
    n_classes: int = 3,
    mutation: float = 0.5,
    deletion: float = 0.04,
    insertion: int = 7,
    alphabet: Any = "protein",
    random_state: Any = None,
) -> tuple[list[str], Floats]:
    """Generate strings that descend from one random ancestor per class, with mutations, deletions and an insertion.

    Two members of a class share a fraction of about ``(1 - mutation)**2`` of their letters, at shifted positions.
    Nothing else distinguishes the classes: all letters are equally frequent.

    Parameters
    ----------
    n_samples : int, default=60
        Number of strings.
    length : int or (int, int), default=80
        Number of letters per ancestor, or the smallest and largest number, between which it is drawn uniformly.
    n_classes : int, default=3
        Number of classes, with one ancestor each.
    mutation : float, default=0.5
        Fraction of the letters that are redrawn.
    deletion : float, default=0.04
        Fraction of the letters that are deleted.
    insertion : int, default=7
        Largest number of letters inserted at one random position; the number is drawn uniformly from 0 on.
    alphabet : Alphabet, "dna", "rna", "protein" or iterable of symbols, default="protein"
        The letters.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None, default=None
        Source of randomness.

    Returns
    -------
    X : list of str
        The strings.
    y : array of shape (n_samples,)
        Classes in cyclic order: 0, 1, ..., 0, 1, ...

    Examples
    --------
    >>> from mercer.datasets import make_families
    >>> X, y = make_families(
    ...     4, length=12, n_classes=2, mutation=0.2, alphabet="dna", random_state=1
    ... )
    >>> X
    ['CGTCCTTTTATAACTC', 'CTCCAGAATTTG', 'CGTCATTTACTCTATT', 'CTCCGAACGTAATTTG']
    """
    check(extent(), n_samples=n_samples, n_classes=n_classes)
    check(extent(0), insertion=insertion)
    check(between(0, 1, "left"), mutation=mutation, deletion=deletion)
    rng = random_generator(random_state)
    symbols = Alphabet.of(alphabet).symbols
    if not all(isinstance(symbol, str) for symbol in symbols):
        raise TypeError(f"alphabet must consist of letters, since the samples are strings; got {symbols[0]!r}.")
    letters = np.array(symbols)
    lengths = rng.integers(*_check_range("length", length), size=n_classes, endpoint=True)
    ancestors = [rng.choice(letters, size) for size in lengths]
    y = _labels(n_samples, n_classes)
    strings = []
    for c in y:
        kept = ancestors[c][rng.random(len(ancestors[c])) >= deletion]
        changed = np.where(rng.random(len(kept)) < mutation, rng.choice(letters, len(kept)), kept)
        position, size = rng.integers(len(kept), endpoint=True), rng.integers(insertion, endpoint=True)
        strings.append("".join(np.insert(changed, position, rng.choice(letters, size))))
    return strings, y
