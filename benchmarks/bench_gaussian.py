"""Full-covariance Gaussians: a Gram matrix of 2,000 in 8 dimensions against a loop over pairs with SciPy.

Run: python benchmarks/bench_gaussian.py
"""

from __future__ import annotations

import time

import numpy as np
from _measure import best, peak_bytes
from scipy.linalg import cho_factor, cho_solve

import mercer as mc


def make(n: int, d: int) -> mc.Gaussians:
    rng = np.random.default_rng(0)
    factors = rng.standard_normal((n, d, 2 * d))
    return mc.Gaussians(rng.standard_normal((n, d)), factors @ factors.swapaxes(1, 2) / (2 * d))


def scipy_pair(m1: np.ndarray, s1: np.ndarray, m2: np.ndarray, s2: np.ndarray, product: bool) -> float:
    """One straightforward log kernel: PPK at rho = 1/2 (log determinants given), or mean map, gamma = 1/2."""
    total = s1 + s2 if product else s1 + s2 + np.eye(len(m1))
    factor = cho_factor(total, lower=True, check_finite=False)
    difference = m1 - m2
    log_det = 2 * np.log(np.diag(factor[0])).sum()
    return -0.5 * log_det - 0.25 * difference @ cho_solve(factor, difference, check_finite=False)


def scipy_seconds_per_pair(p: mc.Gaussians, product: bool, pairs: int = 4000) -> float:
    rng = np.random.default_rng(1)
    index = rng.integers(len(p), size=(pairs, 2))
    runs = []
    for _ in range(3):
        start = time.perf_counter()
        for i, j in index:
            scipy_pair(p.mean[i], p.covariance[i], p.mean[j], p.covariance[j], product)
        runs.append((time.perf_counter() - start) / pairs)
    return min(runs)


def main(n: int = 2000, d: int = 8) -> None:
    p = make(n, d)
    pairs = n * (n + 1) // 2
    print(f"{n} Gaussians with full covariance, d = {d}: {pairs:,} pairs")
    for name, kernel, product in (
        ("ProbabilityProduct", mc.ProbabilityProduct(rho=0.5), True),
        ("MeanMap", mc.MeanMap(gamma=0.5), False),
    ):
        loop = scipy_seconds_per_pair(p, product)
        for threads in (1, 2):
            with mc.config(n_jobs=threads):
                seconds = best(lambda k=kernel: k(p), repeat=3)
            print(
                f"  {name:20s} {threads} thread(s): {seconds:6.3f} s, {seconds / pairs * 1e9:6.1f} ns per pair, "
                f"{loop * pairs / seconds:6.0f}x a SciPy loop ({loop * 1e6:.1f} us per pair)"
            )
        with mc.config(n_jobs=1):
            peak = peak_bytes(lambda k=kernel: k(p))
        print(f"  {name:20s} peak memory: {peak / (8 * n * n):.2f}x the result")


if __name__ == "__main__":
    main()
