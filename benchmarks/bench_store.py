"""A Gram matrix on disk: the rate of pairs compared with that in memory, resident memory, and the rate of products.

ProbabilityProduct of HMMs of 4 states and 4 symbols, length 10. The rate in memory is that of a smaller matrix, which
fits; both use all cores.

Run: python benchmarks/bench_store.py 20000 [folder]
"""

from __future__ import annotations

import argparse
import resource
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import zarr
from _numbers import add_json, write_json
from bench_hmm import LENGTH, categorical

import mercer as mc

IN_MEMORY = 12_000


def seconds_of(work: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds of the clock and of the processor."""
    start, busy = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - start, time.process_time() - busy


def main(n: int, where: str | None) -> dict[str, dict[str, float | str]]:
    kernel, models = mc.ProbabilityProduct(length=LENGTH), categorical(n, 4)
    kernel(models[:500])  # warm up
    few = models[: min(n, IN_MEMORY)]
    pairs, few_pairs = (k * (k + 1) / 2 for k in (n, len(few)))
    memory, memory_busy = min(seconds_of(lambda: kernel(few)) for _ in range(2))
    folder = Path(tempfile.mkdtemp(dir=where))
    try:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        disk, disk_busy = seconds_of(lambda: mc.gram.compute(kernel, models, store=folder / "gram.zarr"))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        K = zarr.open_array(folder / "gram.zarr", mode="r")
        reading = seconds_of(lambda: [K[at : at + 1024] @ np.ones(n) for at in range(0, n, 1024)])[0]
    finally:
        shutil.rmtree(folder)
    rate, in_memory = pairs / disk, few_pairs / memory
    of_processor = pairs / disk_busy / (few_pairs / memory_busy)
    print(f"in memory: {len(few)} models in {memory:.2f} s, {in_memory / 1e6:.2f} million pairs/s")
    print(f"on disk:   {n} models in {disk:.2f} s, {rate / 1e6:.2f} million pairs/s, {100 * rate / in_memory:.0f} %")
    print(f"           {100 * of_processor:.0f} % of the pairs per second of processor time")
    print(f"           {size / 1e9:.2f} GB; resident at most {peak / 2**20:.2f} GiB ({before / 2**20:.2f} before)")
    print(f"           K @ v: {reading:.2f} s, with checksums")
    resident = "resident in the whole process, at most"
    return {
        f"in memory, {len(few):,} models": {
            "seconds": memory,
            "million pairs per second": in_memory / 1e6,
            resident: f"{before / 2**20:.1f} GiB",
        },
        f"on disk, {n:,} models": {
            "seconds": disk,
            "million pairs per second": f"{rate / 1e6:.1f} ({100 * rate / in_memory:.0f} %)",
            "on disk": f"{size / 1e9:.1f} GB",
            resident: f"{peak / 2**20:.1f} GiB",
            "K @ v, with checksums": reading,
        },
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="?", type=int, default=20_000)
    parser.add_argument("folder", nargs="?", help="where the matrix is written")
    add_json(parser)
    given = parser.parse_args()
    write_json(given.json, {}, main(given.models, given.folder))
