"""What is learned from classes: which they are, who belongs to which, and the alphabet that all of them share."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from mercer._array import Floats
from mercer.families._estimator import Context
from mercer.kernels._data import len_of


def classes_of(X: Any, y: Any, who: str) -> tuple[Floats, list[Floats]]:
    """Return the classes, and for every class the places of its data."""
    if y is None:
        raise ValueError(f"{who} requires y to be passed, but the target y is None: call fit(X, y) with the classes")
    y = column_or_1d(y, warn=True)
    check_classification_targets(y)
    if len(y) != len_of(X):
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: {len_of(X)} data, {len(y)} classes of them; "
            "give one for each"
        )
    classes, member = np.unique(y, return_inverse=True)
    return classes, [np.flatnonzero(member == c) for c in range(len(classes))]


def shared_alphabet(X: Any) -> Context | None:
    """Return a context of the alphabet that was found in all data, so that every class knows it."""
    alphabet = getattr(X, "alphabet", None)
    return None if alphabet is None else Context(len(alphabet), alphabet)
