"""Parallel execution: a thread map with a progress bar and one BLAS thread per worker."""

from __future__ import annotations

import logging
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from functools import lru_cache
from typing import Any, TypeVar

from mercer._config import settings
from mercer._fork import renew_after_fork

Item = TypeVar("Item")

BAR_AFTER_SECONDS = 1.0
"""A progress bar appears after this time."""
LONG_SECONDS = 30.0
"""Longer work has a bar even if the output is not a terminal."""
LOG_SECONDS = 10.0
"""Time between updates of a bar that is not on a terminal, each of which may be a line of a log."""
_logger = logging.getLogger("mercer")
_inside: ContextVar[bool] = ContextVar("_inside", default=False)
"""Whether this is work of a thread map, which has the only progress bar."""


@lru_cache(maxsize=1)
def _controller() -> Any:
    # Finding the loaded BLAS libraries takes milliseconds, limiting known ones microseconds.
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _limited() -> Any:
    """Limit BLAS to one thread, in the whole process or, if BLAS uses OpenMP, in this Python thread."""
    return _controller().limit(limits=1, user_api="blas")


class _SingleBlas:
    """Context manager that limits BLAS to one thread: the first to enter sets the limit, the last to leave restores it.

    Separate limits of several threads would overlap in time: each would restore the value that it found on entry, and
    BLAS could stay at one thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside: set[object] = set()
        self._limit: Any = None
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Get a fresh lock in a forked process, which has no other threads inside; the next to leave restores BLAS."""
        self._lock = threading.Lock()
        self._inside = set()

    @contextmanager
    def __call__(self) -> Iterator[None]:
        visit = object()
        with self._lock:
            if self._limit is None:
                self._limit = _limited()
            self._inside.add(visit)
        try:
            yield
        finally:
            with self._lock:
                self._inside.discard(visit)
                if not self._inside and self._limit is not None:
                    _release_blas()
                    self._limit.restore_original_limits()
                    self._limit = None
                    _release_blas()


def _release_blas() -> None:
    """Let any thread set limits: threadpoolctl 3.7 and later obeys only the first thread that set one."""
    from threadpoolctl import OpenBLASController

    if hasattr(OpenBLASController, "clear_controlling_thread"):
        OpenBLASController.clear_controlling_thread(force=True)


single_blas = _SingleBlas()
"""``with single_blas():`` limits BLAS to one thread, so that results do not depend on the number of threads."""


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def n_threads() -> int:
    """Return the number of threads to use; 1 inside a worker thread or process."""
    if multiprocessing.current_process().name != "MainProcess":
        return 1
    if threading.current_thread() is not threading.main_thread():
        return 1
    wanted, cores = settings().n_jobs, usable_cores()
    if wanted is None:
        return cores
    return wanted if wanted > 0 else max(1, cores + 1 + wanted)


class Doing:
    """Names of the work that runs now, which a progress bar shows; work that took long is logged."""

    def __init__(self, label: str) -> None:
        self.label = label
        self._names: list[str] = []

    def __str__(self) -> str:
        return ", ".join(dict.fromkeys(self._names))

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        begun = time.perf_counter()
        self._names.append(name)
        try:
            yield
        finally:
            self._names.remove(name)
        seconds = time.perf_counter() - begun
        if seconds >= BAR_AFTER_SECONDS:
            _logger.info("%s: %s, %.1f s", self.label, name, seconds)


def progress_bar(items: list[Item], label: str, doing: Doing | None = None) -> Generator[Item, None, None]:
    """Yield ``items``, with a progress bar if the work takes more than a second.

    If the output is not a terminal, and no bar is requested, it appears after `LONG_SECONDS`. There is no bar inside
    the work of a thread map, which has one already, and none of a single item that has no name in ``doing``.
    """
    shown = settings().progress
    few = len(items) < (2 if doing is None else 1)
    if shown is False or _inside.get() or few or sys.stderr is None:
        yield from items
        return
    from tqdm.auto import tqdm

    on_terminal = sys.stderr.isatty()
    delay = BAR_AFTER_SECONDS if shown or on_terminal else LONG_SECONDS
    pause = 0.1 if on_terminal else LOG_SECONDS
    bar = tqdm(items, desc=label, leave=False, delay=delay, mininterval=pause)
    with _redrawn(bar, delay, max(pause, BAR_AFTER_SECONDS), doing):
        yield from bar


@contextmanager
def _redrawn(bar: Any, delay: float, pause: float, doing: Doing | None) -> Iterator[None]:
    """Draw a bar after ``delay`` seconds, then every ``pause`` seconds: tqdm draws only when an item is finished."""
    ended = threading.Event()

    def draw() -> None:
        wait = delay
        while not ended.wait(wait):
            with bar.get_lock():
                if not bar.disable:  # after the end, its line has been removed
                    bar.set_postfix_str("" if doing is None else str(doing), refresh=False)
                    bar.refresh(nolock=True)
                    bar.delay = 0.0  # it has been shown, so its end removes it
            wait = pause

    thread = threading.Thread(target=draw, name="mercer progress bar", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def thread_map(
    work: Callable[[Item], None],
    items: list[Item],
    *,
    threads: int,
    label: str,
    name: Callable[[Item], str] | None = None,
) -> None:
    """Call ``work`` on every item, on ``threads`` threads with a single BLAS thread each.

    ``work`` stores its result itself, so at most ``threads`` intermediate results exist at a time. The first error
    stops the remaining work. The progress bar shows the ``name`` of the items that are worked on.
    """
    several, doing = len(items) > 1, None if name is None else Doing(label)

    def run(item: Item) -> None:
        token = _inside.set(several or _inside.get())  # the bar of a single item would tell nothing
        try:
            with nullcontext() if doing is None or name is None else doing(name(item)):
                work(item)
        finally:
            _inside.reset(token)

    with single_blas(), closing(progress_bar(items, label, doing if several else None)) as bar:
        if threads <= 1 or len(items) <= 1:
            for item in bar:
                run(item)
            return
        turn, waiting = threading.Lock(), iter(items)
        next(bar, None)  # it counts the items that are finished
        end = object()
        errors: list[BaseException] = []

        def worker() -> None:
            try:
                with _limited():
                    while not errors:
                        with turn:
                            item: Any = next(waiting, end)
                        if item is end:
                            return
                        run(item)
                        with turn:
                            next(bar, None)
            except BaseException as error:
                errors.append(error)

        with ThreadPoolExecutor(min(threads, len(items))) as pool:
            try:
                # Workers share the notices of the caller; a context runs in one thread at a time.
                contexts = [copy_context() for _ in range(min(threads, len(items)))]
                for future in [pool.submit(context.run, worker) for context in contexts]:
                    future.result()
            except BaseException as interrupt:  # a keyboard interrupt of the waiting thread
                errors.append(interrupt)
        if errors:
            raise errors[0]
