"""Latency of one-row ``transform``: four kernels fitted to 2,000 strings of 200 letters.

    python benchmarks/bench_latency.py [--size 2000] [--length 200] [--calls 20]

Every call gets a new string, so that nothing about it is cached. The median is printed, and the slowest call after
the first one, which prepares the training strings.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np

import mercer as mc


def strings(n: int, length: int, seed: int) -> list[str]:
    """Draw random DNA, every string with its own letter frequencies."""
    rng = np.random.default_rng(seed)
    letters = np.array(list("ACGT"))
    return ["".join(rng.choice(letters, size=length, p=rng.dirichlet(np.full(4, 5.0)))) for _ in range(n)]


def kernels(train: list[str]) -> dict[str, mc.kernels.Kernel]:
    """Return the kernels, with a few iterations of EM, since fitting is not measured."""
    hmm = mc.HMM(n_states=3, emission=mc.Categorical(alphabet="dna"), n_iter=5, n_init=1)
    shared = hmm.fit(train[:50]).model_
    affine = mc.AffinePairHMM(substitution=(2, -3), gap_open=5, gap_extend=2, alphabet="dna")
    return {
        "ProbabilityProduct(HMM)": mc.ProbabilityProduct(hmm),
        "Fisher(HMM)": mc.Fisher(shared),
        "Marginalization(affine pair HMM)": mc.Marginalization(affine),
        "Spectrum(k=6)": mc.Spectrum(k=6, alphabet="dna"),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=2000)
    parser.add_argument("--length", type=int, default=200)
    parser.add_argument("--calls", type=int, default=20)
    options = parser.parse_args()
    train = strings(options.size, options.length, 0)
    new = strings(options.calls + 1, options.length, 1)
    for name, kernel in kernels(train).items():
        start = time.perf_counter()
        kernel.fit(train)
        fitted = time.perf_counter() - start
        start = time.perf_counter()
        kernel.transform(new[:1])
        first = time.perf_counter() - start
        seconds = []
        for string in new[1:]:
            start = time.perf_counter()
            kernel.transform([string])
            seconds.append(time.perf_counter() - start)
        print(
            f"{name:34} fit {fitted:6.2f} s, first call {1e3 * first:8.1f} ms, "
            f"then median {1e3 * statistics.median(seconds):8.2f} ms, slowest {1e3 * max(seconds):8.2f} ms",
            flush=True,
        )


if __name__ == "__main__":
    import warnings

    warnings.simplefilter("ignore")  # EM is stopped early on purpose
    main()
