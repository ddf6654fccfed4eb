"""Settings of the process, with defaults from ``MERCER_*`` environment variables.

They are process-wide rather than context variables, because worker threads and joblib workers must
see them: a kernel that is pickled into a child process brings the settings along (`snapshot`, `adopt`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from numbers import Integral
from typing import Any


@dataclass(frozen=True)
class Settings:
    """What can be set for the whole process.

    Parameters
    ----------
    n_jobs : int or None
        Threads that fill a Gram matrix; None means every core where the work is worth it, -1 always every core.
    progress : bool or None
        Progress bars on work that lasts over a second; None shows them on a terminal only.
    cache_bytes : int
        Memory for models fitted to single data, shared by all estimators; 0 turns the cache off.
    memo_bytes : int
        Memory for kernel values of pairs seen by ``fit_transform`` and ``transform``; 0 turns the memo off.

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


def _parse(name: str, text: str) -> Any:
    lowered = text.strip().lower()
    if name in ("n_jobs", "progress") and lowered in ("", "none", "auto"):
        return None
    if name == "progress" and lowered in ("true", "false", "1", "0"):
        return lowered in ("true", "1")
    if name != "progress":
        try:
            return int(text)
        except ValueError:
            pass
    raise ValueError(f"environment variable MERCER_{name.upper()}={text!r} is not a valid value of {name}")


def _check(settings: Settings) -> Settings:
    if settings.n_jobs is not None and (not _whole(settings.n_jobs) or settings.n_jobs == 0):
        raise ValueError(f"n_jobs={settings.n_jobs!r}: give a number of threads, -1 for every core, or None")
    if settings.progress is not None and not isinstance(settings.progress, bool):
        raise ValueError(f"progress={settings.progress!r}: give True, False or None")
    for name in ("cache_bytes", "memo_bytes"):
        if not _whole(getattr(settings, name)) or getattr(settings, name) < 0:
            raise ValueError(f"{name}={getattr(settings, name)!r}: give a whole number of bytes, 0 to turn it off")
    return settings


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
_current = _default
_lock = threading.Lock()
_changes: list[dict[str, Any]] = []
"""What the open ``with`` blocks of all threads change, the latest last."""


def settings() -> Settings:
    """Return the settings in force.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.settings().progress is None
    True
    """
    return _current


@contextmanager
def config(**changes: Any) -> Iterator[Settings]:
    """Change settings for the length of a ``with`` block, for every thread and joblib worker.

    Parameters
    ----------
    **changes
        Any field of `Settings`: ``n_jobs``, ``progress``, ``cache_bytes``, ``memo_bytes``.

    Examples
    --------
    >>> import mercer as mc
    >>> with mc.config(n_jobs=2, progress=False) as settings:
    ...     settings.n_jobs
    2
    """
    unknown = set(changes) - {field.name for field in fields(Settings)}
    if unknown:
        names = ", ".join(field.name for field in fields(Settings))
        raise TypeError(f"unknown setting {sorted(unknown)[0]!r}: the settings are {names}")
    _check(replace(_current, **changes))
    with _lock:
        _changes.append(changes)
        now = _put_in_force()
    try:
        yield now
    finally:
        with _lock:  # blocks of two threads can end in any order: each takes back its own changes alone
            _changes[:] = [kept for kept in _changes if kept is not changes]
            _put_in_force()


def _put_in_force() -> Settings:
    global _current
    _current = _adopted or _default
    for changes in _changes:
        _current = replace(_current, **changes)
    return _current


def snapshot() -> dict[str, Any] | None:
    """Return what a pickled kernel brings to a worker: the settings and this process's number, None for the defaults.

    Workers inherit the environment, and so the defaults; and without them a kernel has the same pickle in every
    process, as ``Pipeline(memory=...)`` needs.
    """
    return None if _current == _default else {"pid": os.getpid(), **asdict(_current)}


def adopt(sent: dict[str, Any] | None) -> None:
    """Take over the settings of the parent process; a file read years later changes nothing."""
    global _adopted
    with _lock:
        if sent is None:  # a worker that is used again, after the parent's ``with`` block
            _adopted = None
        elif sent["pid"] == os.getppid():
            _adopted = Settings(**{name: value for name, value in sent.items() if name != "pid"})
        _put_in_force()


_adopted: Settings | None = None
