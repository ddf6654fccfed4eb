"""Data drawn from a model, with the lengths and the missing values of given data."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from mercer._array import Floats, to_numpy
from mercer.data import Sequences
from mercer.data.csr import CSRRows
from mercer.families import Multinomials
from mercer.models.scores import alphabet_of, ends_by_itself, is_sequential


def simulated(model: Any, X: Any, copies: int, rng: np.random.Generator) -> Any:
    """Draw ``copies`` data sets like ``X``, one after the other.

    Every object has the length of its counterpart in X, or its total of counts, and misses the same values, so that an
    object and its copies are exchangeable if the model is right.
    """
    if not isinstance(X, Sequences):
        return _counts(model, X, copies, rng) if hasattr(_leaf(model), "trials") else _points(model, X, copies, rng)
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


def plain(X: Any) -> Any:
    """Return accepted data in a form that can be concatenated: rows of counts become a sparse matrix."""
    if isinstance(X, CSRRows):
        return sparse.csr_array((X.data, X.indices, X.indptr), shape=X.shape)
    return X


def _leaf(model: Any) -> Any:
    while hasattr(model, "components"):
        model = model.components
    return model


def _points(model: Any, X: Any, copies: int, rng: np.random.Generator) -> Floats:
    """Draw points with the missing coordinates of X."""
    drawn = np.array(model.sample(copies * X.shape[0], random_state=rng)[0], dtype=float)
    if sparse.issparse(X):
        return sparse.csr_array(drawn)
    drawn[np.tile(np.isnan(np.asarray(to_numpy(X), dtype=float)), (copies, 1))] = np.nan
    return drawn


def _counts(model: Any, X: Any, copies: int, rng: np.random.Generator) -> Any:
    """Draw rows of counts with the totals of X."""
    if not isinstance(model, Multinomials):
        raise TypeError(
            f"Simulations of {type(model).__name__} with the totals of the data are not implemented. Use Multinomials, "
            "or compare the data with model.sample(...) by mc.stats.two_sample_test."
        )
    totals = np.asarray(X.sum(axis=1), dtype=float).ravel()
    if (totals != totals.round()).any():
        raise ValueError(
            f"Rows of counts must have whole numbers; the sum of row {int((totals != totals.round()).argmax())} is "
            f"{totals[(totals != totals.round()).argmax()]:.4g}."
        )
    probability = np.asarray(to_numpy(model.dense().probability), dtype=float)[0]
    drawn = rng.multinomial(np.tile(totals.astype(np.int64), copies), probability / probability.sum()).astype(float)
    return sparse.csr_array(drawn) if sparse.issparse(X) else drawn


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
