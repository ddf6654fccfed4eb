"""The one thread map of the library: a progress bar, threads, and BLAS held to one thread each."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, TypeVar

from mercer._config import settings

Item = TypeVar("Item")


@lru_cache(maxsize=1)
def _controller() -> Any:
    # Finding the loaded BLAS libraries takes milliseconds, using what was found takes microseconds.
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def single_blas() -> Any:
    """Return a context in which BLAS runs one thread, so that results do not depend on their number."""
    return _controller().limit(limits=1, user_api="blas")


def n_threads() -> int:
    """Return how many threads may be used here: one inside a worker of somebody else's pool."""
    if multiprocessing.current_process().name != "MainProcess":
        return 1
    if threading.current_thread() is not threading.main_thread():
        return 1
    wanted = settings().n_jobs
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if wanted is None:
        return cores
    return wanted if wanted > 0 else max(1, cores + 1 + wanted)


def progress_bar(items: Iterable[Item], total: int, label: str) -> Iterable[Item]:
    """Wrap ``items`` in a bar that appears only when the work has lasted over a second."""
    shown = settings().progress
    if shown is False or (shown is None and not sys.stderr.isatty()):
        return items
    from tqdm.auto import tqdm

    bar: Iterable[Item] = tqdm(items, total=total, desc=label, delay=1.0, leave=False)
    return bar


def thread_map(work: Callable[[Item], None], items: list[Item], *, threads: int, label: str) -> None:
    """Call ``work`` on every item, on ``threads`` threads, each with a single BLAS thread.

    The items write their results themselves, so that no more than ``threads`` results are alive beside
    the final one. The first error stops the rest.
    """
    with single_blas():
        if threads <= 1 or len(items) <= 1:
            for item in progress_bar(items, len(items), label):
                work(item)
            return
        with ThreadPoolExecutor(min(threads, len(items))) as pool:
            futures = [pool.submit(work, item) for item in items]
            try:
                for future in progress_bar(futures, len(futures), label):
                    future.result()
            except BaseException:
                for future in futures:
                    future.cancel()
                raise
