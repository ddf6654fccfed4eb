"""Objects with their confounds, which are converted to a matrix of finite numbers."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import _safe_indexing

from mercer._array import Floats, to_numpy
from mercer.kernels._data import n_objects, unwrapped


class Confounded:
    """Objects with their confounds, in one container that scikit-learn can split into folds.

    `Residualized` accepts it as ``X`` where confounds cannot be a separate argument: named scorers
    (``scoring="roc_auc"``), ``GridSearchCV.predict``, and kernels built on `Residualized`.

    Parameters
    ----------
    objects : data
        N objects of any kind that a kernel compares.
    confounds : array or data frame of shape (N, c) or (N,)
        Numbers, one row per object.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> X = mc.Confounded(["acca", "caac", "acac"], [20.0, 35.0, 50.0])
    >>> X
    Confounded(3 objects, 1 confound)
    >>> len(X), X[1:].confounds.tolist()
    (3, [[35.0], [50.0]])
    """

    def __init__(self, objects: Any, confounds: Any) -> None:
        if isinstance(objects, Confounded):
            raise TypeError("These objects have confounds already. Pass all confounds at once.")
        self.objects = unwrapped(objects)
        self.confounds = _numbers(confounds)
        self.names = _names(confounds)
        if len(self.confounds) != n_objects(self.objects):
            raise ValueError(
                f"confounds must have one row per object; got {len(self.confounds)} rows for {n_objects(self.objects)} "
                "objects."
            )

    def __repr__(self) -> str:
        count = self.confounds.shape[1]
        names = "" if self.names is None else f": {', '.join(map(str, self.names))}"
        return f"Confounded({len(self)} objects, {count} confound{'' if count == 1 else 's'}{names})"

    @property
    def shape(self) -> tuple[int]:
        """Number of objects."""
        return (len(self),)

    def __len__(self) -> int:
        return n_objects(self.objects)

    def __getitem__(self, key: Any) -> Confounded:
        key = key[0] if isinstance(key, tuple) else key
        taken = object.__new__(Confounded)
        taken.objects = _safe_indexing(self.objects, key)
        taken.confounds = self.confounds[key]
        taken.names = self.names
        return taken

    def with_objects(self, objects: Any) -> Confounded:
        """Return other objects with the same confounds, such as the output of a transformer.

        Parameters
        ----------
        objects : data
            N objects of any kind, in the same order.

        Examples
        --------
        >>> import mercer as mc
        >>> X = mc.Confounded([[0.0, 1.0, 4.0], [5.0, 5.0]], [20.0, 35.0])
        >>> mc.Derivatives().fit_transform(X).objects
        Sequences(2 sequences of 2-dimensional vectors (float64), lengths 2 to 3)
        """
        if n_objects(objects) != len(self):
            raise ValueError(
                f"{n_objects(objects)} objects for the confounds of {len(self)}. Pass one object per row of confounds."
            )
        other = object.__new__(Confounded)
        other.objects, other.confounds, other.names = objects, self.confounds, self.names
        return other


def _names(confounds: Any) -> list[Any] | None:
    """Return the names of the columns; None if they have no names."""
    columns = getattr(confounds, "columns", None)
    return None if columns is None else list(columns)


def _numbers(confounds: Any) -> Floats:
    """Return confounds as a float matrix of finite numbers."""
    if sparse.issparse(confounds):
        confounds = confounds.toarray()
    frame = hasattr(confounds, "iloc") and hasattr(confounds, "columns")
    # Column by column, since one column of text would turn the whole matrix into objects.
    columns = [confounds.iloc[:, j] for j in range(confounds.shape[1])] if frame else None
    if columns is None:
        values = _as_array(confounds)
        if values.ndim not in (1, 2):
            raise ValueError(f"confounds must be a matrix, objects by confounds; got shape {values.shape}.")
        columns = list(values.T) if values.ndim == 2 else [values]
    titles = _names(confounds) or range(len(columns))
    found = [_column(column, title) for column, title in zip(columns, titles, strict=True)]
    return np.column_stack(found) if found else np.zeros((n_objects(confounds), 0))


def _as_array(confounds: Any) -> Floats:
    try:
        return np.asarray(confounds if isinstance(confounds, list | tuple) else to_numpy(confounds))
    except ValueError:
        raise ValueError("confounds must be a matrix, objects by confounds; got rows of different lengths.") from None


def _column(column: Any, title: Any) -> Floats:
    values = np.asarray(column)
    if values.dtype.kind not in "biuf":
        times = [value for value in values if isinstance(value, date | timedelta | np.datetime64 | np.timedelta64)]
        if times:
            raise ValueError(
                f"confound {title!r} contains the date or time {str(times[0])!r}, which is not a number. Convert dates "
                "to numbers of days."
            )
        try:
            if values.dtype.kind == "c" or any(isinstance(value, str) for value in values):
                raise ValueError
            values = values.astype(float)
        except (TypeError, ValueError):
            wrong = values[0].item() if isinstance(values[0], np.generic) else values[0]  # 'a', not np.str_('a')
            raise ValueError(
                f"confound {title!r} contains {wrong!r}, which is not a number. Encode categories as columns of 0 and "
                "1, with sklearn.preprocessing.OneHotEncoder or pandas.get_dummies."
            ) from None
    values = values.astype(float)
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise ValueError(
            f"confound {title!r} is {values[bad[0]]} for object {bad[0]}. Leave such objects out, or impute the value "
            "with sklearn.impute.SimpleImputer, fitted to the training data."
        )
    return values
