"""Given HMMs: whole Gram matrices, as a fraction of this machine's matrix product and in pairs per second.

Float64, length 10, rho = 1, the whole call with the symmetric half counted once. First categorical emissions of 4
symbols (flops are 4 n^3 (length - 1) per pair), then Gaussian ones in 3 dimensions, with the coupling of the
emissions included in the time but not in the flops (4 n^3 length per pair), then the cost of other lengths.

Run: python benchmarks/bench_hmm.py
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from _measure import best, matmul_rate

import mercer as mc

LENGTH = 10


def make(count: int, n: int, emission: mc.Categoricals | mc.Gaussians) -> mc.HMMs:
    rng = np.random.default_rng(0)
    return mc.HMMs(rng.dirichlet(np.ones(n), count), rng.dirichlet(np.ones(n), (count, n)), emission)


def categorical(count: int, n: int, symbols: int = 4) -> mc.HMMs:
    rng = np.random.default_rng(1)
    return make(count, n, mc.Categoricals(rng.dirichlet(np.ones(symbols), (count, n))))


def gaussian(count: int, n: int, structure: str, d: int = 3) -> mc.HMMs:
    rng = np.random.default_rng(1)
    mean = rng.normal(size=(count, n, d))
    if structure == "diagonal":
        return make(count, n, mc.Gaussians(mean, rng.gamma(2.0, size=(count, n, d))))
    root = rng.normal(size=(count, n, d, d + 2))
    return make(count, n, mc.Gaussians(mean, root @ np.swapaxes(root, -1, -2) / (d + 2)))


def sets() -> Iterator[tuple[str, int, mc.HMMs]]:
    for n, count in ((2, 4000), (3, 4000), (4, 3000), (5, 2000), (6, 2000), (8, 1500), (16, 800), (30, 400)):
        yield "categorical", n, categorical(count, n)
    for structure in ("diagonal", "full"):
        for n, count in ((3, 1000), (4, 1000), (8, 600), (16, 300)):
            yield f"{structure} Gaussian", n, gaussian(count, n, structure)


def main() -> None:
    for threads in (1, 2):
        rate = matmul_rate(threads)
        print(f"{threads} thread(s): matrix product {rate / 1e9:.1f} GFLOP/s")
        for name, n, models in sets():
            kernel = mc.ProbabilityProduct(rho=1.0, length=LENGTH)
            pairs = len(models) * (len(models) + 1) // 2
            with mc.config(n_jobs=threads):
                seconds = best(lambda k=kernel, m=models: k(m), repeat=3)
            flops = 4 * n**3 * (LENGTH - 1) * pairs / seconds  # the first observation needs no product
            print(
                f"  {name:17s} n = {n:2d}: {len(models)} models in {seconds:6.3f} s, "
                f"{pairs / seconds / 1e6:6.2f} million pairs/s, "
                f"{flops / 1e9:5.1f} GFLOP/s = {100 * flops / rate:4.1f} % of the matrix product"
            )
    lengths()


def lengths(n: int = 4, count: int = 400) -> None:
    models = gaussian(count, n, "diagonal")
    kernel = mc.MeanMap(gamma=0.1, length=LENGTH)
    with mc.config(n_jobs=1):
        single = best(lambda: kernel(models), repeat=3)
        many = best(lambda: kernel.path(models, lengths=range(1, LENGTH + 1)), repeat=3)
        print(f"one length {single:.3f} s; all {LENGTH} by path {many:.3f} s = {many / single:.2f} times that")
        for d in (0.5, 0.9, 0.99):
            discounted = mc.MeanMap(gamma=0.1, length=mc.Discounted(d))
            seconds = best(lambda k=discounted: k(models), repeat=3)
            print(f"Discounted({d}): {seconds:.3f} s = {seconds / single:.2f} times one length")


if __name__ == "__main__":
    main()
