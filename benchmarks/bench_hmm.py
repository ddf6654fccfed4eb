"""Given categorical HMMs: whole Gram matrices, as a share of this machine's matrix product and in pairs a second.

Float64, 4 symbols, length 10, rho = 1, the whole call with the symmetric half counted once;
flops are 4 n^3 (length - 1) a pair.

Run: python benchmarks/bench_hmm.py
"""

from __future__ import annotations

import numpy as np
from _measure import best, matmul_rate

import mercer as mc


def make(count: int, n: int, symbols: int = 4) -> mc.HMMs:
    rng = np.random.default_rng(0)
    return mc.HMMs(
        initial=rng.dirichlet(np.ones(n), count),
        transition=rng.dirichlet(np.ones(n), (count, n)),
        emission=mc.Categoricals(rng.dirichlet(np.ones(symbols), (count, n))),
    )


def main(length: int = 10) -> None:
    for threads in (1, 2):
        rate = matmul_rate(threads)
        print(f"{threads} thread(s): matrix product {rate / 1e9:.1f} GFLOP/s")
        for n, count in ((2, 4000), (3, 4000), (4, 3000), (5, 2000), (6, 2000), (8, 1500), (16, 800), (30, 400)):
            models = make(count, n)
            kernel = mc.ProbabilityProduct(rho=1.0, length=length)
            pairs = count * (count + 1) // 2
            with mc.config(n_jobs=threads):
                seconds = best(lambda k=kernel, m=models: k(m), repeat=3)
            flops = 4 * n**3 * (length - 1) * pairs / seconds
            print(
                f"  n = {n:2d}: {count} models in {seconds:6.3f} s, {pairs / seconds / 1e6:6.2f} million pairs/s, "
                f"{flops / 1e9:5.1f} GFLOP/s = {100 * flops / rate:4.1f} % of the matrix product"
            )


if __name__ == "__main__":
    main()
