"""Files that appear whole: written under another name in the same folder, and renamed when they are complete.

The other name is ``{name}.{machine}-{random}.partial``. Its writer holds a lock on it, which ends with the process,
so that a later save can tell what a dead process left from what another thread, process or container is writing.
"""

from __future__ import annotations

import errno
import functools
import os
import platform
import re
import secrets
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}
"""Numbers of the errors of a full disk."""
LEFT_FOR_GOOD = 24 * 3600.0
"""Seconds without a change after which a partial file of another machine, or without locks, is given up."""
_LONGEST = 40  # characters of a file's name in that of its partial file: names have at most 255 bytes
_PARTIAL = re.compile(r"\.([0-9a-f]{8}-[0-9a-f]{8}|\d+)\.partial")  # earlier versions: the process id


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a new file that takes the place of ``path`` at once if the body of the ``with`` ends without an error.

    It keeps the mode and the owner of an existing file, is written through a symbolic link, and what dead processes
    left of earlier attempts is removed. Devices and pipes are written directly.
    """
    given = Path(path)
    if given.exists() and not given.is_file():
        with _explained(given), open(given, "wb") as device:
            yield device
        return
    target = Path(os.path.realpath(given))
    with _explained(target), renamed(target) as file:
        _remove_dead(target, os.fstat(file.fileno()).st_mtime)
        yield file


@contextmanager
def renamed(target: Path) -> Iterator[IO[bytes]]:
    """Open a new file under another name, and give it the name ``target`` when it is complete."""
    with _new_partial(target) as file:
        partial = Path(file.name)
        try:
            yield file
            if fcntl is None:  # Windows renames closed files only
                file.close()
            else:  # locked until it has its name
                file.flush()
            put_in_place(partial, target)
        except BaseException:
            with suppress(OSError):  # on a full disk, what is left in the buffer cannot be written
                file.close()
            partial.unlink(missing_ok=True)
            raise


def put_in_place(partial: Path, target: Path) -> None:
    """Rename a finished file to its name, which replaces an older one at once.

    Windows refuses while another program, such as a virus scanner, has the older one open.
    """
    for pause in (0.05, 0.2, 1.0, None):
        try:
            os.replace(partial, target)
            return
        except PermissionError:
            if os.name != "nt":
                raise
            if pause is None:
                raise PermissionError(
                    f"{target} is open in another program; close it, or choose another name."
                ) from None
            time.sleep(pause)


def _new_partial(target: Path) -> IO[bytes]:
    """Create and lock a file next to ``target``, with its mode and owner if it exists."""
    old = target.stat() if target.exists() else None
    create = functools.partial(os.open, mode=0o666 if old is None else old.st_mode & 0o777)
    while True:
        name = target.with_name(f"{target.name[:_LONGEST]}.{_machine()}-{secrets.token_hex(4)}.partial")
        file = open(name, "xb", opener=create)  # noqa: SIM115 - the caller closes it
        if _lock(file) is not False and name.exists():  # or another process has just taken it for a dead one's
            break
        file.close()
    if old is not None:
        with suppress(OSError, AttributeError):  # Windows has no owners; only root can give files away
            os.chown(name, old.st_uid, old.st_gid)
        with suppress(OSError):
            os.chmod(name, old.st_mode & 0o7777)
    return file


def _lock(file: IO[bytes]) -> bool | None:
    """Lock a file as long as it is open; return False if another one has it, None if there are no locks here."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # some network file systems
        return None
    return True


def _remove_dead(target: Path, now: float) -> None:
    """Remove partial files of ``target`` that no process writes any more; ``now`` is the time of the file system."""
    start = target.name[:_LONGEST]
    with suppress(OSError):  # a folder that may be written, but not listed
        for entry in os.scandir(target.parent):
            if entry.name.startswith(start) and _PARTIAL.fullmatch(entry.name, len(start)):
                remove_if_dead(Path(entry.path), now)


def remove_if_dead(partial: Path, now: float) -> None:
    """Remove a partial file if its lock is free, which says enough on its own machine, and otherwise if it is old too.

    A lock of another machine may not be seen through a network file system.
    """
    with suppress(OSError):  # removed by another process, or not ours to remove
        known = fcntl is not None and f".{_machine()}-" in partial.name
        if not known and now - partial.stat().st_mtime < LEFT_FOR_GOOD:
            return
        if fcntl is None:
            partial.unlink(missing_ok=True)  # Windows refuses if it is open
            return
        with open(partial, "r+b") as file:
            if _lock(file):
                partial.unlink(missing_ok=True)


@functools.cache
def _machine() -> str:
    """Return a name of this machine since it was started; all of its containers have the same, and the same locks."""
    try:
        name = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
    except OSError:
        name = platform.node()
    return f"{zlib.crc32(name.encode()):08x}"


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
