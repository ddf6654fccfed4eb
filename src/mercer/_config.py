"""Process-wide settings, with defaults from ``MERCER_*`` environment variables.

They are not context variables, because worker threads and joblib workers must see them: a kernel that is pickled into
a child process takes the settings along (`snapshot`, `adopt`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, fields, replace
from numbers import Integral
from typing import Any

from mercer._fork import renew_after_fork


@dataclass(frozen=True)
class Settings:
    """Settings of the process.

    Parameters
    ----------
    n_jobs : int or None
        Number of threads that compute a Gram matrix. None uses all cores if the matrix is large enough, -1 always
        uses all cores.
    progress : bool or None
        Whether to show a progress bar for work that takes more than a second. None shows it on a terminal, and
        elsewhere for work of more than 30 s.
    cache_bytes : int
        Memory for models fitted to single samples, shared by all estimators; 0 disables the cache.
    memo_bytes : int
        Memory for kernel values computed by ``fit_transform`` and ``transform``; 0 disables the memo.
    max_file_bytes : int
        Size of the largest text file or table that is read, and size to which a compressed file may be unpacked, if it
        is more than 20 times the size of the file: a few megabytes of a hostile file can unpack to many gigabytes.
    device : str or None
        "cuda" (or "cuda:1", ...) computes kernels of batches of models on an NVIDIA GPU: NumPy input is moved there,
        and the result is brought back. None computes where the arrays are.

    Examples
    --------
    >>> import mercer as mc
    >>> with mc.config(n_jobs=1):
    ...     mc.settings().n_jobs
    1
    """

    n_jobs: int | None = None
    progress: bool | None = None
    cache_bytes: int = 256 * 2**20
    memo_bytes: int = 256 * 2**20
    max_file_bytes: int = 2**30
    device: str | None = None


def _parse(name: str, text: str) -> Any:
    lowered = text.strip().lower()
    if name in ("n_jobs", "progress", "device") and lowered in ("", "none", "auto"):
        return None
    if name == "device":
        return text.strip()
    if name == "progress" and lowered in ("true", "false", "1", "0"):
        return lowered in ("true", "1")
    if name != "progress":
        try:
            return int(text)
        except ValueError:
            pass
    must = "true, false or auto" if name == "progress" else "a whole number"
    raise ValueError(f"The environment variable MERCER_{name.upper()} must be {must}; got {text!r}.")


def _check(settings: Settings) -> Settings:
    if settings.n_jobs is not None and (not _whole(settings.n_jobs) or settings.n_jobs == 0):
        raise ValueError(f"n_jobs must be a number of threads, -1 for all cores, or None; got {settings.n_jobs!r}.")
    if settings.progress is not None and not isinstance(settings.progress, bool):
        raise ValueError(f"progress must be True, False or None; got {settings.progress!r}.")
    for name in ("cache_bytes", "memo_bytes"):
        value = getattr(settings, name)
        if not _whole(value) or value < 0:
            raise ValueError(f"{name} must be a nonnegative whole number of bytes; got {value!r}. Use 0 to disable it.")
    if not _whole(settings.max_file_bytes) or settings.max_file_bytes < 0:
        raise ValueError(
            f"max_file_bytes must be a nonnegative whole number of bytes; got {settings.max_file_bytes!r}."
        )
    if settings.device is not None and not _names_device(settings.device):
        raise ValueError(
            f"device must be 'cuda', the number of a GPU as in 'cuda:1', or None; got {settings.device!r}."
        )
    return settings


def _names_device(value: Any) -> bool:
    kind, colon, index = value.partition(":") if isinstance(value, str) else ("", "", "")
    return kind == "cuda" and (index.isdecimal() if colon else True)


def _whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _from_environment(environment: Mapping[str, str]) -> Settings:
    known = {
        field.name: _parse(field.name, environment[key])
        for field in fields(Settings)
        if (key := f"MERCER_{field.name.upper()}") in environment
    }
    return _check(Settings(**known))


_default = _from_environment(os.environ)
_base = _default
"""The settings outside of all ``with`` blocks."""
_adopted: Settings | None = None
"""The settings of the parent process, in a worker."""
_changes: list[dict[str, Any]] = []
"""Changes made by the open ``with`` blocks of all threads, the latest last."""
_current = _default
_uncached = ContextVar("_uncached", default=False)
"""Whether the code that runs now does without caches."""
_lock = threading.Lock()


def settings() -> Settings:
    """Return the current settings.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.settings().progress is None
    True
    """
    return replace(_current, cache_bytes=0, memo_bytes=0) if _uncached.get() else _current


@contextmanager
def without_caches() -> Iterator[None]:
    """Neither read nor fill the caches that all objects of the process share, in this thread."""
    token = _uncached.set(True)
    try:
        yield
    finally:
        _uncached.reset(token)


def config(**changes: Any) -> AbstractContextManager[Settings]:
    """Change settings within a ``with`` block, for all threads and joblib workers.

    Without ``with`` nothing changes: to change settings for the rest of the process, use `set_config`.

    Parameters
    ----------
    **changes
        Any field of `Settings`: ``n_jobs``, ``progress``, ``cache_bytes``, ``memo_bytes``,
        ``max_file_bytes``, ``device``.

    Examples
    --------
    >>> import mercer as mc
    >>> with mc.config(n_jobs=2, progress=False) as settings:
    ...     settings.n_jobs
    2
    """
    return _changed(_checked(changes))


def set_config(**changes: Any) -> None:
    """Change settings for the rest of the process, for all threads and joblib workers.

    An open ``with mc.config(...)`` block keeps its own values until it ends.

    Parameters
    ----------
    **changes
        Any field of `Settings`: ``n_jobs``, ``progress``, ``cache_bytes``, ``memo_bytes``,
        ``max_file_bytes``, ``device``.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.set_config(n_jobs=2)
    >>> mc.settings().n_jobs
    2
    >>> mc.set_config(n_jobs=None)
    """
    global _base, _adopted
    changes = _checked(changes)
    with _lock:
        _base = replace(_base, **changes)
        _adopted = None if _adopted is None else replace(_adopted, **changes)
        _apply_changes()


def _checked(changes: dict[str, Any]) -> dict[str, Any]:
    unknown = set(changes) - {field.name for field in fields(Settings)}
    if unknown:
        names = ", ".join(field.name for field in fields(Settings))
        raise TypeError(f"Unknown setting {sorted(unknown)[0]!r}; the settings are {names}.")
    _check(replace(_current, **changes))
    return changes


@contextmanager
def _changed(values: dict[str, Any]) -> Iterator[Settings]:
    changes = dict(values)  # an object of its own, by which the end of the block finds it
    with _lock:
        _changes.append(changes)
        current = _apply_changes()
    try:
        yield current
    finally:
        with _lock:  # blocks of two threads can end in any order: each undoes only its own changes
            _changes[:] = [kept for kept in _changes if kept is not changes]
            _apply_changes()


def _apply_changes() -> Settings:
    global _current
    current = _adopted or _base
    for changes in _changes:
        current = replace(current, **changes)
    _current = current
    return current


class _Forked:
    """Gives the module a fresh lock in a forked process."""

    def after_fork(self) -> None:
        global _lock
        _lock = threading.Lock()
        _apply_changes()  # another thread may have been about to


_forked = _Forked()
renew_after_fork(_forked)


# -- workers -----------------------------------------------------------------------------------------------

HASH_PROTOCOL = 3
"""The pickle protocol of ``joblib.hash``, which no transport to another process uses."""


def snapshot(protocol: int) -> dict[str, Any] | None:
    """Return the settings and the process id for a pickled kernel; None if all settings have their defaults.

    Workers inherit the environment and therefore the defaults. A digest, as ``Pipeline(memory=...)`` and the memo of
    pairs take it, never has settings: the same kernel has the same digest inside and outside of a ``with`` block.
    """
    if protocol <= HASH_PROTOCOL or _current == _default:
        return None
    return {"pid": os.getpid(), **asdict(_current)}


def adopt(sent: dict[str, Any] | None) -> None:
    """Adopt settings from a `snapshot` of the parent process; those of any other process are ignored."""
    global _adopted
    with _lock:
        if sent is None:  # a worker that is reused after the parent's ``with`` block
            _adopted = None
        elif sent["pid"] == os.getppid():
            _adopted = Settings(**{name: value for name, value in sent.items() if name != "pid"})
        _apply_changes()
