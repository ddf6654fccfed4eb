"""Channels go by their names: what enters an estimator is put in the order that it learned in ``fit``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mercer.data._container import Container, difference
from mercer.data._forms import Problem
from mercer.data._frames import channels_of, dtypes_of, is_frame, is_nested, is_panel, time_columns


def is_wrapped(X: Any) -> bool:
    """Whether ``X`` wraps the objects together with more data; such an input has a method ``with_objects``."""
    return hasattr(X, "with_objects")


def inside(X: Any) -> Any:
    """Return the wrapped objects, or ``X`` itself if it is not wrapped."""
    return X.objects if is_wrapped(X) else X


def wrapped_like(X: Any, objects: Any) -> Any:
    """Return new objects, wrapped with the additional data of ``X`` if ``X`` is wrapped."""
    return X.with_objects(objects) if is_wrapped(X) else objects


def by_name(owner: Any, X: Any, *, reset: bool) -> Any:
    """Return sequences with the channels in the order of those that ``owner`` was fitted to.

    Sequences and lists of DataFrames have names; other input, and input without names, is returned as it is.

    Parameters
    ----------
    owner : estimator
        Has the names in ``feature_names_in_``, if its training data had names.
    X : data
        The input; objects with their confounds, too.
    reset : bool
        Whether ``X`` is training data, whose names ``owner`` learns.
    """
    objects = inside(X)
    names = channel_names(objects)
    if reset:
        owner.__dict__.pop("feature_names_in_", None)
        if names is not None:
            owner.feature_names_in_ = np.array(names, dtype=object)
        return X
    known = getattr(owner, "feature_names_in_", None)
    if names is None or known is None or names == tuple(known):
        return X
    return wrapped_like(X, _ordered(objects, tuple(known)))


def channel_names(X: Any) -> tuple[str, ...] | None:
    """Return the names of the channels of Sequences, or of a DataFrame, alone or in a list; None without names.

    A DataFrame with one row per series has none, but one with a MultiIndex, or with series in its cells.
    """
    if isinstance(X, Container):
        return X.channels
    if is_panel(X) or is_nested(X):
        return _names(X)
    return next((names for names in map(_names, _listed(X)) if names is not None), None)


def in_order(X: Any, names: tuple[str, ...], where: str) -> Any:
    """Return a list of DataFrames with the columns ``names``, in their order; a `Problem` in place of other items.

    A column of the time stays, after them.
    """
    if is_frame(X):
        columns = _names(X) or ()
        if different := difference(columns, names, where):
            raise ValueError(f"X {different}")
        return X if columns == names else X[[*names, *time_columns(X)]]
    out = []
    for item in _listed(X):
        own = _names(item)
        if own == names:
            out.append(item)
            continue
        if own is None:
            wrong = "has no names of channels, unlike others. Pass DataFrames only, or arrays only."
        else:
            wrong = difference(own, names, where)
        chosen = item.select if hasattr(item, "column_names") else item.__getitem__
        out.append(Problem(ValueError, wrong) if wrong else chosen([*names, *time_columns(item)]))
    return out


def _listed(X: Any) -> Sequence[Any]:
    """Return the items of a list, or of a column or 1-D array of objects; none of other data."""
    if getattr(X, "dtype", None) == np.dtype(object) and getattr(X, "ndim", None) == 1:
        return list(X)
    return X if isinstance(X, list | tuple) else ()


def _names(item: Any) -> tuple[str, ...] | None:
    """Return the names of the channels of a DataFrame; None if they are numbers, or not distinct, or if it is none."""
    if not is_frame(item) or len(set(dtypes_of(item))) < np.shape(item)[1]:
        return None
    names = tuple(channels_of(item))
    return names if all(isinstance(name, str) for name in names) and len(set(names)) == len(names) else None


def _ordered(X: Any, names: tuple[str, ...]) -> Any:
    if isinstance(X, Container):
        return X.in_channels(names)
    frames = in_order(X, names, "in fit")
    if is_frame(frames):
        return frames
    for i, frame in enumerate(frames):
        if isinstance(frame, Problem):
            raise frame.error(f"sequence {i} {frame.text}")
    return frames
