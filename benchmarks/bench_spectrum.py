"""Spectrum kernels of 1,000 DNA strings of length 200, from strings to Gram matrix, against strkernels if installed.

One thread, Gram matrices without normalization. The spectrum kernel of strkernels (in C) is the sum over k up to its
order, and so is ours in the comparison; the two matrices are compared.

Run: python benchmarks/bench_spectrum.py
"""

from __future__ import annotations

import importlib.util
import time

import numpy as np
from _measure import best

import mercer as mc


def strings(count: int, length: int) -> list[str]:
    rng = np.random.default_rng(0)
    return ["".join(row) for row in rng.choice(list("ACGT"), size=(count, length))]


def blended(X: list[str], order: int) -> np.ndarray:
    return sum(mc.Spectrum(k, alphabet="dna", normalize=False)(X) for k in range(1, order + 1))


def main() -> None:
    X = strings(1000, 200)
    with mc.config(n_jobs=1, memo_bytes=0):
        for k, mismatches in ((3, 0), (3, 1), (5, 0), (6, 0), (6, 1), (8, 0), (12, 0), (16, 0)):
            kernel = mc.Spectrum(k, mismatches, alphabet="dna", normalize=False)
            print(f"k = {k:2d}, {mismatches} mismatches: {best(lambda s=kernel: s(X), repeat=3):.4f} s")
        if importlib.util.find_spec("strkernels") is None:
            print("strkernels is not installed: only mercer")
            return
        from strkernels import SpectrumStringKernel

        ours = best(lambda: blended(X, 3), repeat=3)
        start = time.perf_counter()
        K = SpectrumStringKernel(normalizer=None, order=3)(X, X)
        theirs = time.perf_counter() - start
        apart = np.abs(K - blended(X, 3)).max()
        print(
            f"k = 1 + 2 + 3: {ours:.4f} s, strkernels {theirs:.2f} s = {theirs / ours:.0f}x, largest difference {apart}"
        )


if __name__ == "__main__":
    main()
