"""Cost of a pair and memory of a sample for common kernels, on one thread; fitting models is not included.

Run: python benchmarks/bench_costs.py
"""

from __future__ import annotations

import argparse
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
from _measure import best
from _numbers import add_json, write_json
from bench_hmm import categorical, gaussian

import mercer as mc

N = 400


def cases() -> Iterator[tuple[str, Any, Any]]:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(2000, 100))
    dna = ["".join(rng.choice(list("ACGT"), size=200)) for _ in range(N)]
    series = [rng.normal(size=(100, 3)).cumsum(axis=0) / 5 for _ in range(100)]
    yield "`RBF`, 100 columns", mc.RBF(gamma=0.01), vectors
    yield "`Spectrum(5)`, DNA of length 200", mc.Spectrum(5, alphabet="ACGT"), dna
    yield "`ProbabilityProduct`, full Gaussians, d = 8", mc.ProbabilityProduct(), _full(rng, 8)
    yield "`ProbabilityProduct`, Markov chains of DNA", mc.ProbabilityProduct(mc.MarkovChain(alphabet="ACGT")), dna
    yield "`ProbabilityProduct`, HMMs, 4 states, 4 symbols", mc.ProbabilityProduct(length=10), categorical(1000, 4)
    yield "`ProbabilityProduct`, HMMs, 16 states, 4 symbols", mc.ProbabilityProduct(length=10), categorical(N, 16)
    yield (
        "`ProbabilityProduct`, HMMs, 4 states, Gaussian, d = 3",
        mc.ProbabilityProduct(length=10),
        gaussian(N, 4, "diagonal"),
    )
    yield "`MeanMap`, HMMs, 4 states, Gaussian, d = 3", mc.MeanMap(length=10, gamma=0.5), gaussian(N, 4, "diagonal")
    yield "`Fisher(HMM(4))`, DNA of length 200", mc.Fisher(mc.HMM(4, alphabet="ACGT", n_init=1)).fit(dna), dna
    yield "`Marginalization(HMM(4))`, series of 100 steps", mc.Marginalization(mc.HMM(4, n_init=1)).fit(series), series


def _full(rng: np.random.Generator, d: int) -> mc.Gaussians:
    root = rng.normal(size=(1000, d, d + 2))
    return mc.Gaussians(rng.normal(size=(1000, d)), root @ np.swapaxes(root, -1, -2))


def main() -> dict[str, dict[str, float | str]]:
    found: dict[str, dict[str, float | str]] = {}
    print("| kernel | a pair | memory of a sample |\n|---|---|---|")
    with mc.config(n_jobs=1, memo_bytes=0):
        for name, kernel, X in cases():
            ready, prepared, _ = kernel.operands(X)
            n = len(prepared)
            seconds = best(lambda k=ready, p=prepared: k._evaluation.matrix(p, None), repeat=2)
            size = len(pickle.dumps(prepared)) / n
            pair = seconds / (n * (n + 1) / 2)
            print(f"| {name} | {pair * 1e6:.3g} us | {size:,.0f} bytes |", flush=True)
            found[name] = {"a pair": pair, "memory of a sample": f"{size:,.0f} bytes"}
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_json(parser)
    given = parser.parse_args()
    write_json(given.json, {}, main())
