"""Measurements of the benchmarks: the best of several runs, ratios within one run, one thread by default."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits


def once(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds of one run, and its result."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def best(work: Callable[[], Any], repeat: int = 5) -> float:
    """Return the seconds of the fastest of several runs, after one warm-up run."""
    work()
    return min(once(work)[0] for _ in range(repeat))


def matmul_rate(threads: int = 1, n: int = 1024) -> float:
    """Return this machine's flops per second in a product of two n x n float64 matrices."""
    rng = np.random.default_rng(0)
    a, b = rng.random((n, n)), rng.random((n, n))
    with threadpool_limits(threads, user_api="blas"):
        return 2 * n**3 / best(lambda: a @ b, repeat=10)


def peak_bytes(work: Callable[[], Any]) -> int:
    """Return the peak number of bytes allocated by Python and NumPy while ``work`` runs."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
