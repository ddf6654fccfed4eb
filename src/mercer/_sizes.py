"""Sizes and times in the units that people read, and whether a matrix fits into memory."""

from __future__ import annotations

import os
from pathlib import Path

SMALL = 2**28
"""Sizes below this are not compared with the free memory."""
_MEMINFO = Path("/proc/meminfo")
_CGROUPS = (
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current"), Path("/sys/fs/cgroup/memory.stat")),
    (
        Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
        Path("/sys/fs/cgroup/memory/memory.usage_in_bytes"),
        Path("/sys/fs/cgroup/memory/memory.stat"),
    ),
)


def free_bytes() -> int | None:
    """Return the free memory and swap space, within the limit of a container; None if the system does not tell."""
    free = _of_system()
    if free is None:
        return None
    for limit, used, stat in _CGROUPS:
        try:
            most, now = int(limit.read_text()), int(used.read_text())
            kept = dict(line.split() for line in stat.read_text().splitlines())
        except (OSError, ValueError):  # no such file, or "max"
            continue
        cached = int(kept.get("inactive_file", kept.get("total_inactive_file", 0)))  # given back when it is needed
        free = min(free, max(most - now + cached, 0))
    return free


def _of_system() -> int | None:
    try:
        entries = dict(line.split(":") for line in _MEMINFO.read_text().splitlines())
        return 1024 * sum(int(entries[name].split()[0]) for name in ("MemAvailable", "SwapFree"))
    except (OSError, ValueError, KeyError):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def check_room(needed: int, what: str, cure: str) -> None:
    """Raise a `MemoryError` if ``needed`` bytes are not free."""
    if needed < SMALL:
        return
    free = free_bytes()
    if free is not None and needed > free:
        raise MemoryError(f"{what} needs {human(needed)} of memory, and {human(free)} are free. {cure}")


def human(size: float) -> str:
    """Return a number of bytes, such as "74.5 GiB"."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def duration(seconds: float) -> str:
    """Return a time, such as "2.5 min"."""
    if seconds < 100:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 6000 else f"{seconds / 3600:.3g} h"
