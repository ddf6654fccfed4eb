"""Inputs that wrap the objects together with more data, such as `Confounded`."""

from __future__ import annotations

from typing import Any


def is_wrapped(X: Any) -> bool:
    """Whether ``X`` wraps the objects together with more data; such an input has a method ``with_objects``."""
    return hasattr(X, "with_objects")


def inside(X: Any) -> Any:
    """Return the wrapped objects, or ``X`` itself if it is not wrapped."""
    return X.objects if is_wrapped(X) else X


def wrapped_like(X: Any, objects: Any) -> Any:
    """Return new objects, wrapped with the additional data of ``X`` if ``X`` is wrapped."""
    return X.with_objects(objects) if is_wrapped(X) else objects
