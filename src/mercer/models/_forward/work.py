"""Threads for the loops over sequences: pieces of a millisecond, and no threads for less than two of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from mercer._parallel import n_threads, thread_map

CHUNK_SECONDS = 1e-3
"""Work that one thread takes at a time; less than two of these stay on one thread."""

Item = TypeVar("Item")


def share(work: Callable[[Item], None], items: list[Item], seconds: float) -> None:
    """Process the items, on threads if they take long enough together."""
    if seconds < 2 * CHUNK_SECONDS:  # less than the overhead of the thread map
        for item in items:
            work(item)
        return
    thread_map(work, items, threads=min(n_threads(), len(items)), label="forward-backward")
