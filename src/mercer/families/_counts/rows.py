"""Rows of counts, dense or compressed, as the laws of word counts take them."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from mercer._array import Array, as_float, namespace
from mercer.families._csr import CSRRows
from mercer.families._family import is_number
from mercer.families.poisson import check_counts


def check_trials(trials: Any) -> None:
    """Raise unless ``trials`` is a number of draws."""
    if not is_number(trials) or int(trials) != trials or trials < 1:
        raise ValueError(f"trials = {trials!r}: give the number of draws, 1 or more")


def dense_counts(x: Any) -> Array:
    """Return counts as a dense array of floats."""
    if sparse.issparse(x):
        return np.asarray(sparse.csr_array(x).toarray(), dtype=float)
    return x.dense() if isinstance(x, CSRRows) else as_float(x)


def checked_rows(x: Any, columns: int, who: str) -> Array:
    """Return rows of counts, dense, or raise where they have another shape, are negative or were not observed."""
    x = dense_counts(x)
    if len(x.shape) < 2 or x.shape[-1] != columns:
        raise ValueError(f"points have shape {tuple(x.shape)}: give (T, {columns}), one row a point")
    check_counts(x, who)
    if bool(namespace(x).any(namespace(x).isnan(x))):
        raise ValueError("a row of counts holds NaN: give all of its counts, or leave it out")
    return x
