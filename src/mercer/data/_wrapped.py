"""Data that hold more than the objects, such as `Confounded`: transformers work on what is inside."""

from __future__ import annotations

from typing import Any


def is_wrapped(X: Any) -> bool:
    """Whether the data are objects with something beside them: they say so by a method ``with_objects``."""
    return hasattr(X, "with_objects")


def inside(X: Any) -> Any:
    """Return the objects, without what is beside them."""
    return X.objects if is_wrapped(X) else X


def wrapped_like(X: Any, objects: Any) -> Any:
    """Return new objects with what was beside the old ones in ``X``."""
    return X.with_objects(objects) if is_wrapped(X) else objects
