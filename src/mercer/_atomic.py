"""Files that appear whole: written under another name in the same folder, and renamed when they are complete."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypeVar

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}
"""Numbers of the errors of a full disk."""
_LONGEST = 40  # characters of a file's name in that of its partial file: names have at most 255 bytes
_PARTIAL = re.compile(r"\.[0-9a-f]{20}\.partial$")
_OF_ZARR = re.compile(r"\.[0-9a-f]{32}\.partial$")

Made = TypeVar("Made")


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a new file that takes the place of ``path`` at once if the body of the ``with`` ends without an error.

    It keeps the mode and the owner of an existing file, and is written through a symbolic link. Devices and pipes are
    written directly. Partial files of processes that were killed are removed from the folder.
    """
    given = Path(path)
    if given.exists() and not given.is_file():
        with _explained(given), open(given, "wb") as device:
            yield device
        return
    target = Path(os.path.realpath(given))
    with _explained(target), _partial(target, lambda partial: open(partial, "xb")) as (partial, opened):
        with opened as file:
            yield file
        if target.exists():
            old = target.stat()
            with suppress(OSError, AttributeError):  # Windows has no owners; only root can give files away
                os.chown(partial, old.st_uid, old.st_gid)
            os.chmod(partial, old.st_mode & 0o7777)
        os.replace(partial, target)


@contextmanager
def new_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Make a folder that appears as ``path`` with all of its files, unless another process has made one before."""
    target = Path(path)
    with _explained(target), _partial(target, Path.mkdir) as (partial, _):
        yield partial
        try:
            partial.rename(target)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise


@contextmanager
def in_use(folder: Path) -> Iterator[None]:
    """Mark a folder of zarr as in use by this process; if no other one uses it, remove what killed ones have left."""
    lock = _lock(folder, wait=False)
    if lock is not None:
        for path in folder.rglob("*.partial"):
            if _OF_ZARR.search(path.name):
                path.unlink(missing_ok=True)
        os.close(lock)
    lock = _lock(folder, wait=True, shared=True)
    try:
        yield
    finally:
        if lock is not None:
            os.close(lock)


@contextmanager
def _partial(target: Path, make: Callable[[Path], Made]) -> Iterator[tuple[Path, Made]]:
    """Make a partial file or folder beside the target; it is locked while this process lives, and removed on errors."""
    _remove_dead(target.parent)
    while True:
        partial = target.with_name(f"{target.name[:_LONGEST]}.{secrets.token_hex(10)}.partial")
        made = make(partial)
        lock = _lock(partial, wait=True)
        if partial.exists():
            break
        if lock is not None:  # another thread or process removed it before it was locked
            os.close(lock)
    try:
        yield partial, made
    finally:
        if partial.is_dir():
            shutil.rmtree(partial, ignore_errors=True)
        else:
            partial.unlink(missing_ok=True)
        if lock is not None:
            os.close(lock)


def _lock(path: Path, *, wait: bool, shared: bool = False) -> int | None:
    """Lock a file or folder until the number that is returned is closed, or this process ends; None if that fails."""
    if fcntl is None:
        return None
    try:
        opened = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)  # NFS locks what can be written
    except OSError:
        return None
    try:
        fcntl.flock(opened, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
    except OSError:  # locked by another process, or a file system without locks
        os.close(opened)
        return None
    return opened


def _remove_dead(folder: Path) -> None:
    """Remove partial files and folders that no process holds a lock of."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            lock = _lock(Path(entry.path), wait=False) if _PARTIAL.search(entry.name) else None
            if lock is None:
                continue
            with suppress(OSError):
                shutil.rmtree(entry.path) if entry.is_dir(follow_symlinks=False) else os.unlink(entry.path)
            os.close(lock)


@contextmanager
def _explained(target: Path) -> Iterator[None]:
    """Turn errors of the system into sentences with the name of the file."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # already a sentence
            raise
        made: Any = (
            OSError(
                f"{target} was not written because the disk is full; an older file of this name is kept. Free space, "
                "or choose a folder on another disk."
            )
            if error.errno in FULL
            else type(error)(f"{target} cannot be written ({error.strerror}). Choose another name or folder.")
        )
        made.errno = error.errno  # for programs; the sentence is all that is shown
        raise made from error
