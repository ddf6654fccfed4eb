"""Process-wide settings, with defaults from ``MERCER_*`` environment variables.

They are not context variables, because worker threads and joblib workers must see them: a kernel that is pickled into
a child process takes the settings along (`snapshot`, `adopt`).
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
    """Settings of the process.

    Parameters
    ----------
    n_jobs : int or None
        Number of threads that compute a Gram matrix. None uses all cores if the matrix is large enough, -1 always
        uses all cores.
    progress : bool or None
        Whether to show a progress bar for work that takes more than a second; None shows it only on a terminal.
    cache_bytes : int
        Memory for models fitted to single samples, shared by all estimators; 0 disables the cache.
    memo_bytes : int
        Memory for kernel values computed by ``fit_transform`` and ``transform``; 0 disables the memo.

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
"""Changes made by the open ``with`` blocks of all threads, the latest last."""


def settings() -> Settings:
    """Return the current settings.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.settings().progress is None
    True
    """
    return _current


@contextmanager
def config(**changes: Any) -> Iterator[Settings]:
    """Change settings within a ``with`` block, for all threads and joblib workers.

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
        raise TypeError(f"Unknown setting {sorted(unknown)[0]!r}; the settings are {names}.")
    _check(replace(_current, **changes))
    with _lock:
        _changes.append(changes)
        now = _apply_changes()
    try:
        yield now
    finally:
        with _lock:  # blocks of two threads can end in any order: each undoes only its own changes
            _changes[:] = [kept for kept in _changes if kept is not changes]
            _apply_changes()


def _apply_changes() -> Settings:
    global _current
    _current = _adopted or _default
    for changes in _changes:
        _current = replace(_current, **changes)
    return _current


def snapshot() -> dict[str, Any] | None:
    """Return the settings and the process id for a pickled kernel; None if all settings have their defaults.

    Workers inherit the environment and therefore the defaults. Without them a kernel has the same pickle in every
    process, as ``Pipeline(memory=...)`` requires.
    """
    return None if _current == _default else {"pid": os.getpid(), **asdict(_current)}


def adopt(sent: dict[str, Any] | None) -> None:
    """Adopt settings from a `snapshot` of the parent process; those of any other process are ignored."""
    global _adopted
    with _lock:
        if sent is None:  # a worker that is reused after the parent's ``with`` block
            _adopted = None
        elif sent["pid"] == os.getppid():
            _adopted = Settings(**{name: value for name, value in sent.items() if name != "pid"})
        _apply_changes()


_adopted: Settings | None = None
