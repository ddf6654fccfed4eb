"""Locks in a forked process.

A fork copies locks as they are, without the threads that hold them: one that is locked stays locked forever. Whoever
owns a lock registers here, and gets a fresh one in the child.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class LockOwner(Protocol):
    """An object with a lock."""

    def after_fork(self) -> None:
        """Make a fresh lock, and drop what another thread was changing at the time of the fork."""


_owners: weakref.WeakSet[LockOwner] = weakref.WeakSet()


def renew_after_fork(owner: LockOwner) -> None:
    """Call ``owner.after_fork()`` in every process that is forked from this one."""
    _owners.add(owner)


def _renew() -> None:
    for owner in list(_owners):
        owner.after_fork()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_renew)
