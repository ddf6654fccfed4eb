"""A Gram matrix on disk: the rate of pairs compared with that in memory, resident memory, and the rate of products.

ProbabilityProduct of HMMs of 4 states and 4 symbols, length 10. The rate in memory is that of a smaller matrix, which
fits; both use all cores.

Run: python benchmarks/bench_store.py 20000 [folder]
"""

from __future__ import annotations

import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from bench_hmm import LENGTH, categorical

import mercer as mc

IN_MEMORY = 6000


def seconds_of(work: object) -> float:
    start = time.perf_counter()
    work()  # type: ignore[operator]
    return time.perf_counter() - start


def main(n: int, where: str | None) -> None:
    kernel, models = mc.ProbabilityProduct(length=LENGTH), categorical(n, 4)
    kernel(models[:500])  # compile
    few = models[: min(n, IN_MEMORY)]
    pairs, few_pairs = (k * (k + 1) / 2 for k in (n, len(few)))
    memory = min(seconds_of(lambda: kernel(few)) for _ in range(2))
    folder = Path(tempfile.mkdtemp(dir=where))
    try:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        disk = seconds_of(lambda: mc.gram.compute(kernel, models, store=folder / "gram.zarr"))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        K = mc.gram.open(folder / "gram.zarr")
        first = seconds_of(lambda: K @ np.ones(n))
        second = seconds_of(lambda: K @ np.ones(n))
    finally:
        shutil.rmtree(folder)
    rate, in_memory = pairs / disk, few_pairs / memory
    print(f"in memory: {len(few)} models in {memory:.2f} s, {in_memory / 1e6:.2f} million pairs/s")
    print(f"on disk:   {n} models in {disk:.2f} s, {rate / 1e6:.2f} million pairs/s, {100 * rate / in_memory:.0f} %")
    print(f"           {size / 1e9:.2f} GB; resident at most {peak / 2**20:.2f} GiB ({before / 2**20:.2f} before)")
    print(f"           K @ v: {first:.2f} s with checksums, then {second:.2f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000, sys.argv[2] if len(sys.argv) > 2 else None)
