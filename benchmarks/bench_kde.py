"""Kernel density estimates: mean maps of 200 sets of 1,000 points in 5 dimensions, against KeOps and scikit-learn.

Run: python benchmarks/bench_kde.py            (KeOps if pykeops is installed; `--quick` takes 40 sets)
"""

from __future__ import annotations

import argparse

import numpy as np
from _measure import once, peak_bytes
from sklearn.metrics.pairwise import rbf_kernel

import mercer as mc

try:
    import pykeops
    from pykeops.numpy import LazyTensor

    pykeops.set_verbose(False)
except ImportError:
    pykeops = None

GAMMA, BANDWIDTH = 0.5, 0.1


def keops(sets: list[np.ndarray], factor: float) -> np.ndarray:
    """Sum base kernels of every pair: one reduction per set, over the points of this and all later sets."""
    n, m = len(sets), len(sets[0])
    points, total = np.concatenate(sets), np.zeros((n, n))
    for i, y in enumerate(sets):
        x = LazyTensor(points[i * m :, None, :])
        sums = (-factor * ((x - LazyTensor(y[None, :, :])) ** 2).sum(-1)).exp().sum(axis=1)
        total[i, i:] = np.asarray(sums).reshape(n - i, m).sum(axis=1)
    return np.triu(total) + np.triu(total, 1).T


def scikit_learn(sets: list[np.ndarray], factor: float) -> np.ndarray:
    """Compute the same sums from a table of base kernels for every pair."""
    n, total = len(sets), np.zeros((len(sets), len(sets)))
    for i in range(n):
        for j in range(i, n):
            total[i, j] = total[j, i] = rbf_kernel(sets[i], sets[j], gamma=factor).sum()
    return total


def main(n: int = 200, m: int = 1000, d: int = 5) -> None:
    rng = np.random.default_rng(0)
    sets = [rng.normal(rng.normal(size=d), 1.0, size=(m, d)) for _ in range(n)]
    pairs = n * (n + 1) // 2 * m * m
    width = 1 + 4 * GAMMA * BANDWIDTH
    print(f"{n} sets of {m:,} points, d = {d}: {pairs:.3g} pairs of points")
    p, kernel = mc.models.KDEs(sets, BANDWIDTH), mc.MeanMap(gamma=GAMMA, normalize=False)
    kernel(p[:2])
    for threads in (1, 2):
        with mc.config(n_jobs=threads, memo_bytes=0):
            seconds, K = once(lambda: kernel(p))
        print(f"  mercer, {threads} thread(s): {seconds:7.2f} s, {seconds / pairs * 1e9:5.2f} ns per pair")
    with mc.config(n_jobs=1, memo_bytes=0):
        peak = peak_bytes(lambda: kernel(mc.models.KDEs(sets[:20], BANDWIDTH)))
    print(f"  mercer, extra memory for 20 sets: {peak / p[:20].nbytes:.1f}x their points")
    ours = K * width ** (d / 2) * m * m
    if pykeops is not None:
        keops(sets[:2], GAMMA / width)  # compile
        theirs, total = once(lambda: keops(sets, GAMMA / width))
        worst = np.abs(ours / total - 1).max()
        print(
            f"  KeOps {pykeops.__version__}, all cores: {theirs:7.2f} s, {theirs / pairs * 1e9:5.2f} ns per pair: "
            f"{theirs / seconds:.1f}x slower than mercer on two; largest relative difference {worst:.1e}"
        )
    few = min(n, 20)
    theirs, total = once(lambda: scikit_learn(sets[:few], GAMMA / width))
    rate, worst = theirs / (few * (few + 1) // 2 * m * m), np.abs(ours[:few, :few] / total - 1).max()
    print(
        f"  scikit-learn's rbf_kernel ({few} sets), all cores: {rate * 1e9:5.2f} ns per pair: "
        f"{rate * pairs / seconds:.1f}x slower than mercer on two; largest relative difference {worst:.1e}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="40 sets")
    main(40 if parser.parse_args().quick else 200)
