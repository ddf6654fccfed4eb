"""Time the tiles of sparse documents against SciPy's sparse product, in one run.

    MERCER_DATA=... python benchmarks/bench_csr.py [--tiles 256 512 1024 2048] [--repeats 5] [--threads 2]

Documents are those of Reuters R8 (the folder ``reuters_r8`` of MERCER_DATA), else synthetic ones with
Zipf's law. SciPy computes only the sparse ``P @ P.T``; ours computes the dense symmetric matrix: the
tiles on and above the diagonal, prepared, computed, copied into place and mirrored. Numbers are the
best of all repeats, with the ratio to SciPy's best; "first" is the first call, which also allocates
new memory.
"""

from __future__ import annotations

import argparse
import gzip
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from mercer.data.csr import TILE_ROWS, CSRRows, Prepared, outer, shared_entropy

Pairing = Callable[[Any, Any], Any]


def documents() -> tuple[CSRRows, str]:
    folder = Path(os.environ.get("MERCER_DATA", "")) / "reuters_r8"
    files = sorted(folder.glob("r8-*.txt.gz")) if "MERCER_DATA" in os.environ else []
    if files:
        return reuters(files), "Reuters R8"
    return zipf(), "MERCER_DATA has no reuters_r8: synthetic documents with Zipf's law"


def reuters(files: list[Path]) -> CSRRows:
    vocabulary: dict[str, int] = {}
    words: list[int] = []
    ends = [0]
    for file in files:
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            for line in lines:
                text = line.rstrip("\n").split("\t")[1]
                words += [vocabulary.setdefault(word, len(vocabulary)) for word in text.split()]
                ends.append(len(words))
    parts = (np.ones(len(words)), np.asarray(words), np.asarray(ends))
    return CSRRows.of(sparse.csr_array(parts, shape=(len(ends) - 1, len(vocabulary))))


def zipf(n_documents: int = 7674, n_words: int = 17387, seed: int = 0) -> CSRRows:
    rng = np.random.default_rng(seed)
    law = 1 / np.arange(1, n_words + 1)
    lengths = rng.geometric(1 / 65, n_documents)
    words = rng.choice(n_words, lengths.sum(), p=law / law.sum())
    ends = np.concatenate([[0], np.cumsum(lengths)])
    return CSRRows.of(sparse.csr_array((np.ones(words.size), words, ends), shape=(n_documents, n_words)))


def gram(pairing: Pairing, rows: CSRRows, edge: int, threads: int = 1) -> np.ndarray[Any, Any]:
    operand = Prepared(rows)
    n = len(operand)
    out = np.empty((n, n))

    def fill(corner: tuple[int, int]) -> None:
        above, below = (slice(start, min(start + edge, n)) for start in corner)
        tile = pairing(operand[above], operand[below])
        out[above, below] = tile
        if above != below:
            out[below, above] = tile.T

    corners = [(i, j) for j in range(0, n, edge) for i in range(0, j + 1, edge)]
    if threads == 1:
        for corner in corners:
            fill(corner)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(fill, corners))
    return out


def in_turn(jobs: dict[str, Callable[[], Any]], repeats: int) -> dict[str, list[float]]:
    """Time every job ``repeats`` times back to back, in two rounds.

    Back to back, since a job is slower if others have used its memory in between: SciPy's product takes
    1.5 to 3 times as long. Two rounds, since a shared machine is sometimes busy.
    """
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for name, job in 2 * list(jobs.items()):
        for _ in range(repeats):
            start = time.perf_counter()
            job()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiles", type=int, nargs="+", default=[256, 512, 1024, 2048])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()

    counts, source = documents()
    shares = counts.scaled(1 / counts.row_sums())
    roots = shares.power(0.5)
    scipy_roots = roots.to_scipy()
    print(f"{source}: {counts.shape[0]} documents, {counts.shape[1]} words, {counts.data.size} entries")
    gram(outer, roots[:99], 64)  # compile
    gram(shared_entropy, shares[:99], 64)

    jobs: dict[str, Callable[[], Any]] = {"SciPy P @ P.T": lambda: scipy_roots @ scipy_roots.T}
    for edge in options.tiles:
        for pairing, rows in ((outer, roots), (shared_entropy, shares)):
            for threads in sorted({1, options.threads} if edge == TILE_ROWS else {1}):
                name = f"{pairing.__name__}, tiles of {edge}, threads {threads}"
                jobs[name] = lambda f=pairing, r=rows, e=edge, t=threads: gram(f, r, e, t)
    seconds = in_turn(jobs, options.repeats)
    reference = min(seconds["SciPy P @ P.T"])
    for name, taken in seconds.items():
        best = min(taken)
        print(f"{name:45s} {best:7.3f} s = {best / reference:5.2f} x SciPy (first {taken[0]:.3f} s)")

    exact = (scipy_roots @ scipy_roots.T).toarray()
    print(f"largest difference from SciPy: {np.abs(gram(outer, roots, TILE_ROWS) - exact).max():.1e}")
    for pairing, rows in ((outer, roots), (shared_entropy, shares)):
        one, several = (gram(pairing, rows, TILE_ROWS, t) for t in (1, options.threads))
        print(f"{pairing.__name__}: same bits with {options.threads} threads: {np.array_equal(one, several)}")


if __name__ == "__main__":
    main()
