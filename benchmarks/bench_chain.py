"""Time the coupled chain on one thread: fraction of this machine's matrix-product rate, pairs per second.

Run as ``python benchmarks/bench_chain.py``. The kernel is the probability product kernel of hidden Markov
models with four symbols (leaf kernels included), rho = 1/2, ten time steps, one tile of the recommended size.
Operations are counted as 4 n^3 per pair and step.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from threadpoolctl import threadpool_limits

from mercer.models._chains import coupled as _chain
from mercer.models._chains.coupled import chain_tile, coupled_chains_inner

STEPS = 10
SYMBOLS = 4


def best(function: Callable[[], object], seconds: float = 0.5) -> float:
    """Return the shortest of repeated runs; the first one, which may compile, is ignored."""
    function()
    shortest, end = np.inf, time.perf_counter() + seconds
    while time.perf_counter() < end or not np.isfinite(shortest):
        start = time.perf_counter()
        function()
        shortest = min(shortest, time.perf_counter() - start)
    return shortest


def matmul_rate(seconds: float) -> float:
    """Measure operations per second of a product of two 1024 x 1024 float64 matrices."""
    a, b = np.random.default_rng(0).random((2, 1024, 1024))
    return 2 * 1024**3 / best(lambda: a @ b, seconds)


def models(count: int, n: int, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    sizes = ((count,), n), ((count, n), n), ((count, n), SYMBOLS)
    return [rng.dirichlet(np.ones(last), size) ** 0.5 for size, last in sizes]


def pair_rate(n: int, tile: int, seconds: float, threads: int = 1) -> float:
    """Measure pairs per second; every thread has its own tile."""
    tiles = [(models(tile, n, 2 * i), models(tile, n, 2 * i + 1)) for i in range(threads)]
    with ThreadPoolExecutor(threads) as pool:

        def work() -> None:
            # Four tiles per thread, so that the overhead of the pool is negligible.
            list(pool.map(lambda args: [coupled_chains_inner(*args, (STEPS,)) for _ in range(4)], tiles))

        return 4 * threads * tile**2 / best(work, seconds)


def products_tile(n: int) -> int:
    """Choose a tile size for matrix products if the dispatch would not use them."""
    return 64 if n <= 8 else min(32, chain_tile(n))


def report(sizes: list[int], choose_tile: Callable[[int], int], rate: float, seconds: float) -> None:
    for n in sizes:
        tile = choose_tile(n)
        pairs, two = (pair_rate(n, tile, seconds, threads) for threads in (1, 2))
        speed = pairs * 4 * n**3 * (STEPS - 1)
        print(
            f"n = {n:2d}  tile {tile:3d}  {pairs / 1e6:7.3f} million pairs/s  {speed / 1e9:5.1f} GFLOP/s  "
            f"{speed / rate:4.0%} of matmul  two threads {two / pairs:.2f}x"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=0.5, help="time spent on each measurement")
    parser.add_argument("--states", type=int, nargs="+", default=[2, 3, 4, 5, 6, 8, 12, 16, 20, 24, 30])
    options = parser.parse_args()
    with threadpool_limits(1):
        rate = matmul_rate(options.seconds)
        print(f"float64 matmul 1024 x 1024, one thread: {rate / 1e9:.1f} GFLOP/s")
        print("as dispatched:")
        report(options.states, chain_tile, rate, options.seconds)
        print("matrix products only:")
        _chain._LANE_WORK = np.inf
        report([n for n in options.states if n >= 6], products_tile, rate, options.seconds)


if __name__ == "__main__":
    main()
