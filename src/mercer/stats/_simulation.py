"""Data drawn from a model, with the lengths and the missing values of given data."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats, to_numpy
from mercer.data import Sequences
from mercer.models.scores import alphabet_of, ends_by_itself, is_sequential


def simulated(model: Any, X: Any, copies: int, rng: np.random.Generator) -> Any:
    """Draw ``copies`` data sets like ``X``, one after the other.

    Every object has the length of its counterpart in X and misses the same values, so that an object and its copies are
    exchangeable if the model is right.
    """
    if not isinstance(X, Sequences):
        drawn = np.array(model.sample(copies * X.shape[0], random_state=rng)[0], dtype=float)
        gaps = np.isnan(np.asarray(to_numpy(X), dtype=float)) if not hasattr(X, "indptr") else None
        if gaps is not None and gaps.any():
            drawn[np.tile(gaps, (copies, 1))] = np.nan
        return drawn
    check_lengths(model)
    lengths = np.tile(X.lengths, copies)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    alphabet = alphabet_of(model)
    values = _values(model, lengths, offsets, rng)
    if alphabet is not None:
        values = np.where(np.tile(X.values == alphabet.missing, copies), alphabet.missing, values)
        return Sequences.from_codes(np.split(values, offsets[1:-1]), alphabet)
    values = np.where(np.tile(np.isnan(X.values), (copies, 1)), np.nan, values.reshape(len(values), -1))
    return Sequences(np.split(values, offsets[1:-1]))


def check_lengths(model: Any) -> None:
    """Raise if the model determines the lengths of its sequences, which simulations take from the data."""
    if ends_by_itself(model) or getattr(model, "end", False):
        raise ValueError(
            f"{type(model).__name__} determine the lengths of their sequences, and simulations take the lengths of the "
            "data. Fit a model with end=False, or compare the data with model.sample(...) by mc.stats.two_sample_test."
        )


def _values(model: Any, lengths: Floats, offsets: Floats, rng: np.random.Generator) -> Floats:
    """Return the observations of all sequences, one after the other, ``(T,)`` or ``(T, d)``."""
    if not is_sequential(model):
        return np.asarray(model.sample(int(offsets[-1]), random_state=rng)[0])
    values: Floats | None = None
    for length in np.unique(lengths[lengths > 0]):
        of_length = np.flatnonzero(lengths == length)
        drawn = np.asarray(model.sample(int(length), len(of_length), random_state=rng)[0])
        if values is None:
            values = np.empty((int(offsets[-1]), *drawn.shape[2:]), dtype=drawn.dtype)
        values[(offsets[of_length][:, None] + np.arange(length)).ravel()] = drawn.reshape(-1, *drawn.shape[2:])
    if values is None:
        raise ValueError("All sequences are empty, so there is nothing to test. Pass sequences with observations.")
    return values
