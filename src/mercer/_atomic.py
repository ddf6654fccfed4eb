"""Files that appear whole: written under another name in the same folder, and renamed when they are complete."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}
"""Numbers of the errors of a full disk."""
_LONGEST = 40  # characters of a file's name in that of its partial file: names have at most 255 bytes


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a new file that takes the place of ``path`` at once if the body of the ``with`` ends without an error.

    It keeps the mode and the owner of an existing file, and is written through a symbolic link. Devices and pipes are
    written directly.
    """
    given = Path(path)
    if given.exists() and not given.is_file():
        with _explained(given), open(given, "wb") as device:
            yield device
        return
    target = Path(os.path.realpath(given))
    partial = target.with_name(f"{target.name[:_LONGEST]}.{secrets.token_hex(8)}.partial")
    with _explained(target):
        try:
            with open(partial, "xb") as file:
                yield file
            if target.exists():
                old = target.stat()
                with suppress(OSError, AttributeError):  # Windows has no owners; only root can give files away
                    os.chown(partial, old.st_uid, old.st_gid)
                os.chmod(partial, old.st_mode & 0o7777)
            os.replace(partial, target)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise


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
