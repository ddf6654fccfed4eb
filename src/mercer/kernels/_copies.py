"""Independent copies of fitted estimators, without the data that their parameters may hold."""

from __future__ import annotations

import copy
from typing import Any

from sklearn.base import BaseEstimator, TransformerMixin, clone

from mercer._array import Indices


def fresh(step: Any, kept: Indices | None, *, prototypes: bool = False, **changes: Any) -> Any:
    """Return an independent copy of a fitted step with other attributes.

    Parameters
    ----------
    step : estimator
        A fitted estimator.
    kept : array of shape (m,) or None
        The columns of its input that are left; None if all of them are.
    prototypes : bool, default=False
        Whether its parameters that are estimators serve ``fit`` only: they are replaced by unfitted ones.
    **changes
        Attributes of the copy, which are not copied.
    """
    made = copy.copy(step)
    vars(made).update(dict.fromkeys(changes))  # what is replaced need not be copied
    parameters = step.get_params(deep=False) if prototypes and hasattr(step, "get_params") else {}
    for name, value in parameters.items():
        if name not in changes:
            setattr(made, name, unfitted(value))
    if kept is not None:
        _set_columns(made, kept)
    made = copy.deepcopy(made)
    vars(made).update(changes)
    return made


def unfitted(value: Any) -> Any:
    """Return a parameter with estimators as they are before ``fit``, also those of a list of names and estimators."""
    if isinstance(value, list) and all(isinstance(item, tuple) for item in value):
        return [tuple(unfitted(part) for part in item) for item in value]
    while sklearn_name(value) == "FrozenEstimator":  # a clone of it is fitted
        value = value.estimator
    return clone(value) if hasattr(value, "get_params") and not isinstance(value, type) else value


def sklearn_name(step: Any) -> str:
    """Return the name of a class of scikit-learn itself; a subclass may read its input in another way."""
    kind = type(step)
    return kind.__name__ if kind.__module__.partition(".")[0] == "sklearn" else ""


def _set_columns(made: Any, kept: Indices) -> None:
    """Set the number and the names of the columns that a step expects."""
    if "n_features_in_" in vars(made):
        made.n_features_in_ = len(kept)
    if "feature_names_in_" in vars(made):
        made.feature_names_in_ = made.feature_names_in_[kept]


class Columns(TransformerMixin, BaseEstimator):
    """Some columns of a matrix: what is left of a feature selection.

    Parameters
    ----------
    index : array of shape (m,)
        The columns.
    """

    def __init__(self, index: Any = ()) -> None:
        self.index = index

    def fit(self, X: Any, y: Any = None) -> Columns:
        """Learn nothing."""
        return self

    def transform(self, X: Any) -> Any:
        """Return the columns."""
        return X.iloc[:, self.index] if hasattr(X, "iloc") else X[:, self.index]

    def __sklearn_is_fitted__(self) -> bool:
        return True
