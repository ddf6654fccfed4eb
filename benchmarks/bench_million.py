"""Features of many DNA strings, block by block, into a linear model: time and memory.

``python benchmarks/bench_million.py [numbers of strings]``. Strings of length 200 from two Markov chains are generated
in blocks of 10,000. Each kernel is fitted to the first block, and ``SGDClassifier.partial_fit`` learns from features
of all blocks but the last, which measures the accuracy. Every row is a process of its own, for its peak of memory, and
times are processor time of one thread.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from _numbers import add_json, cells, write_json
from sklearn.linear_model import SGDClassifier
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import mercer as mc

BLOCK, LENGTH = 10_000, 200
KERNELS = {
    "Spectrum(5)": lambda: mc.Features(mc.Spectrum(5, alphabet="dna")),
    "Fisher(MarkovChain)": lambda: mc.Features(mc.Fisher(mc.MarkovChain(alphabet="dna"))),
    "Landmarks(ProbabilityProduct(MarkovChain), 500)": lambda: mc.Landmarks(
        mc.ProbabilityProduct(mc.MarkovChain(alphabet="dna", prior="pooled"), length=10), 500
    ),
}


def blocks(n: int) -> Iterator[tuple[mc.Sequences, Any]]:
    """Yield strings of two classes, whose chains differ a little, and their labels."""
    rng = np.random.default_rng(0)
    base = rng.dirichlet(np.full(4, 5.0), 4)
    tables = np.stack([base, 0.8 * base + 0.2 * rng.dirichlet(np.full(4, 5.0), 4)])
    upper = np.cumsum(tables, axis=-1)
    for begin in range(0, n, BLOCK):
        size = min(BLOCK, n - begin)
        y = rng.integers(2, size=size)
        codes = np.empty((size, LENGTH), dtype=np.int64)
        codes[:, 0] = rng.integers(4, size=size)
        for t in range(1, LENGTH):
            codes[:, t] = (rng.random(size)[:, None] > upper[y, codes[:, t - 1]][:, :3]).sum(axis=1)
        yield mc.Sequences.from_codes(codes, "dna"), y


def measure(name: str, n: int) -> str:
    """Fit, compute features and learn; return a row of the table."""
    transformer, model = KERNELS[name](), SGDClassifier(random_state=0)
    transformer.fit(next(blocks(BLOCK))[0][:600])  # imports
    X, _ = next(blocks(BLOCK))
    begin = time.process_time()
    transformer.fit(X)
    fitted = time.process_time() - begin
    scaler = StandardScaler(copy=False).fit(transformer.transform(X))  # SGD needs columns of like scales
    computing = learning = 0.0
    score = float("nan")
    for number, (X, y) in enumerate(blocks(n)):
        begin = time.process_time()
        features = transformer.transform(X)
        computing += time.process_time() - begin
        if number == (n - 1) // BLOCK and number:
            score = model.score(scaler.transform(features), y)
            continue
        begin = time.process_time()
        model.partial_fit(scaler.transform(features), y, classes=[0, 1])
        learning += time.process_time() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    width = features.shape[1]
    return (
        f"| `{name}` | {n:,} | {width:,} | {fitted:.1f} s | {computing:.1f} s | {1e6 * computing / n:.0f} µs | "
        f"{learning:.1f} s | {peak:,.0f} MB | {score:.3f} |"
    )


HEADER = "| kernel | strings | columns | fit to 10,000 | features | per string | SGD | peak memory | accuracy |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sizes", nargs="*", type=int, default=[20_000, 100_000], help="numbers of strings")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    add_json(parser)
    given = parser.parse_args()
    if given.one:
        with mc.config(n_jobs=1), threadpool_limits(1):
            print(measure(given.one, given.sizes[0]), flush=True)
        raise SystemExit
    found: dict[str, dict[str, str]] = {}
    print(f"{HEADER}\n|---|---|---|---|---|---|---|---|---|", flush=True)
    for n in given.sizes:
        for name in KERNELS:  # each in a process of its own, for its peak of memory
            row = subprocess.check_output([sys.executable, __file__, "--one", name, str(n)], text=True)
            print(row, end="", flush=True)
            found |= cells(row, HEADER, labels=2)
    write_json(given.json, {}, found)
