"""A compute-bound Gram matrix on 1, 2 and 4 local Dask workers: the same matrix, then one that grows with the workers.

ProbabilityProduct of HMMs of 16 states and 4 symbols, length 10; a worker is a process with one thread. Models are made
before the clock starts, the best of three runs counts; sending them to the workers and the results back is included.

Run: python benchmarks/bench_cluster.py [models]
"""

from __future__ import annotations

import argparse
from typing import Any

import joblib
from _measure import once
from _numbers import add_json, write_json
from bench_hmm import LENGTH, categorical

import mercer as mc


def _seconds(kernel: mc.ProbabilityProduct, models: mc.HMMs, client: Any) -> float:
    if client is None:
        return once(lambda: mc.gram.compute(kernel, models))[0]
    with joblib.parallel_config(backend="dask"):
        return once(lambda: mc.gram.compute(kernel, models, client="joblib"))[0]


def main(count: int) -> dict[str, dict[str, float | str]]:
    from dask.distributed import Client, LocalCluster

    kernel = mc.ProbabilityProduct(length=LENGTH)
    sizes = {workers: round(count * workers**0.5) for workers in (1, 2, 4)}
    models = categorical(max(sizes.values()), 16)
    with mc.config(n_jobs=1):
        kernel(models[:100])  # warm up
        alone = _seconds(kernel, models[:count], None)
        print(f"{count} models in this process, one thread: {alone:.2f} s")
    columns = {"same": f"{count:,} models", "grown": "pairs in proportion to the workers"}
    found: dict[str, dict[str, float | str]] = {"none, one thread": {columns["same"]: alone}}
    first: dict[str, float] = {}
    for workers, grown in sizes.items():
        with (
            LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster,
            Client(cluster) as client,
        ):
            client.run(categorical, 2, 16)  # import
            _seconds(kernel, models[:200], client)  # import in the workers
            for name, n in (("same", count), ("grown", grown)):
                seconds = min(_seconds(kernel, models[:n], client) for _ in range(3))
                base = first.setdefault(name, seconds)
                ratio = base / seconds if name == "same" else (n / count) ** 2 * base / seconds
                print(f"{workers} worker(s), {name:5s}: {n} models in {seconds:6.2f} s, {ratio:.2f} times one worker")
                label = f"{workers}, on two cores" if workers > 2 else str(workers)
                shown = f"{seconds:.1f} s" + (f" ({ratio:.2f})" if workers > 1 else "")
                found.setdefault(label, {})[columns[name]] = shown
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="?", type=int, default=1500)
    add_json(parser)
    given = parser.parse_args()
    write_json(given.json, {}, main(given.models))
