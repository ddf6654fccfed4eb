"""Empirical mean maps of windows (EMMK-2): strings against dense histograms, series against tables of distances.

One thread. A dense histogram version counts windows string by string with np.bincount into a tensor of A^(order + 1)
cells. Then (i) a loop over pairs contracts two tensors with the base kernel along every axis by einsum, timed on some
pairs and scaled; (ii) the fastest method with NumPy, smoothed tensors of all strings times all tensors in one matrix
product. Both are normalized, and compared with ours. The matrix product at peak speed is a lower bound of (ii).

Run: python benchmarks/bench_windows.py            (`--quick` takes a tenth of the data)
"""

from __future__ import annotations

import argparse

import numpy as np
from _measure import best, matmul_rate, once
from _numbers import add_json, write_json
from scipy.spatial.distance import cdist

import mercer as mc

TIMES: dict[str, dict[str, float | str]] = {}


def base_kernel(k: int, gamma: float = 1.0) -> np.ndarray:
    e = np.exp(-2 * gamma)
    return e + (1 - e) * np.eye(k)


def histograms(X: mc.Sequences, k: int, width: int) -> np.ndarray:
    """Return the relative frequency of every window in every string, (N, k, ..., k), directly."""
    tensors = []
    for codes in np.split(X.values.astype(np.int64), X.offsets[1:-1]):
        windows = sum(codes[r : len(codes) - width + 1 + r] * k ** (width - 1 - r) for r in range(width))
        tensors.append(np.bincount(windows, minlength=k**width).reshape((k,) * width) / len(windows))
    return np.stack(tensors)


def normalized(K: np.ndarray) -> np.ndarray:
    scale = 1 / np.sqrt(np.diag(K))
    return K * scale[:, None] * scale


def dense_product(X: mc.Sequences, k: int, width: int) -> np.ndarray:
    """Return the Gram matrix by one matrix product of dense tensors."""
    H = histograms(X, k, width)
    smoothed = H
    for axis in range(1, width + 1):
        smoothed = np.moveaxis(np.tensordot(smoothed, base_kernel(k), axes=(axis, 0)), -1, axis)
    return normalized(smoothed.reshape(len(H), -1) @ H.reshape(len(H), -1).T)


def dense_pairs(X: mc.Sequences, k: int, width: int) -> np.ndarray:
    """Return the Gram matrix by a loop over pairs of dense tensors, smoothed once per string."""
    H = histograms(X, k, width)
    first, second = "abcdefgh"[:width], "ABCDEFGH"[:width]
    expression = ",".join([second, *(f"{a}{b}" for a, b in zip(first, second, strict=True))]) + f"->{first}"
    smoothed = [np.einsum(expression, h, *[base_kernel(k)] * width, optimize=True) for h in H]
    K = np.empty((len(H), len(H)))
    for i in range(len(H)):
        for j in range(i + 1):
            K[i, j] = K[j, i] = np.einsum(f"{first},{first}->", smoothed[i], H[j])
    return normalized(K)


def strings(alphabet: str, k: int, orders: tuple[int, ...], count: int, dense_up_to: int) -> None:
    rng = np.random.default_rng(0)
    X = mc.Sequences.from_codes(rng.integers(0, k, size=(count, 200)), alphabet)
    rate = matmul_rate()
    print(f"{count:,} strings of length 200, {k} symbols ({alphabet}); matrix products run at {rate / 1e9:.1f} Gflop/s")
    for order in orders:
        width, cells = order + 1, k ** (order + 1)
        kernel = mc.EmpiricalMeanMap(order=order)
        ours = best(lambda s=kernel: s(X), repeat=5)
        line = f"  order {order}, {cells:7,} cells: {ours:8.4f} s"
        row = TIMES[f"{'DNA' if alphabet == 'dna' else 'proteins'}, order {order} ({cells:,})"] = {"mercer": ours}
        if cells <= dense_up_to:
            product = best(lambda w=width: dense_product(X, k, w), repeat=3)
            few = X[:60]
            pairs = once(lambda w=width, few=few: dense_pairs(few, k, w))[0] * (count * (count + 1)) / (60 * 61)
            apart = np.abs(dense_product(few, k, width) - kernel(few)).max()
            row |= {"dense product": f"{product / ours:.1f} times", "loop over pairs": f"{pairs / ours:.0f} times"}
            line += f"; one dense product {product:7.3f} s = {product / ours:5.1f}x"
            line += f", a loop over pairs about {pairs:5.0f} s = {pairs / ours:5.0f}x"
            line += f"; the product at peak {2 * count**2 * cells / rate:7.4f} s; largest difference {apart:.0e}"
        print(line)


def shifted(x: np.ndarray, y: np.ndarray, order: int, gamma: float, room: np.ndarray) -> float:
    """Return the kernel of two series from their table of squared distances and its shifts, in NumPy and SciPy."""
    squared = cdist(x, y, "sqeuclidean", out=room[0])
    n, m = len(x) - order, len(y) - order
    total = room[1, :n, :m]
    total[:] = squared[:n, :m]
    for r in range(1, order + 1):
        total += squared[r : r + n, r : r + m]
    total *= -gamma
    return float(np.exp(total, out=total).mean())


def series(count: int, length: int = 500) -> None:
    rng = np.random.default_rng(1)
    for d, order in ((1, 0), (3, 2), (12, 5), (12, 20)):
        X = [rng.normal(size=(length, d)) for _ in range(count)]
        pairs = count * (count + 1) / 2 * length**2
        gamma = 0.3 / d / (order + 1)
        kernel = mc.EmpiricalMeanMap(order=order, gamma=gamma, normalize=False)
        ours = best(lambda s=kernel, X=X: s(X), repeat=2)
        room = np.empty((2, length, length))
        table = best(lambda X=X, o=order, g=gamma, room=room: shifted(X[0], X[1], o, g, room), repeat=50)
        apart = abs(kernel(X[:2])[0, 1] / shifted(X[0], X[1], order, gamma, room) - 1)
        print(
            f"{count} series of {length} points in {d} dimensions, order {order}: {ours:.3f} s, "
            f"{ours / pairs * 1e9:.2f} ns a pair of windows; a table and its shifts in NumPy and SciPy "
            f"{table / length**2 * 1e9:.1f} ns; relative difference {apart:.0e}"
        )
    X = [rng.normal(i % 2, 1.0, size=(length, 3)) for i in range(count)]
    exact = mc.EmpiricalMeanMap(order=2, gamma=0.1)(X)
    for n in (100, 1000):
        random = mc.EmpiricalMeanMap(order=2, gamma=0.1, n_components=n)
        seconds = best(lambda s=random, X=X: s(X), repeat=2)
        found = np.linalg.norm(random(X) - exact) / np.linalg.norm(exact)
        print(
            f"3 dimensions, order 2, {n} random frequencies: {seconds:.3f} s; relative error {found:.4f}, reported "
            f"{np.linalg.norm(random.standard_errors(X)) / np.linalg.norm(exact):.4f}"
        )


def main(scale: int = 10) -> None:
    with mc.config(n_jobs=1, memo_bytes=0):
        strings("dna", 4, (0, 1, 2, 3, 4, 5), 200 * scale, dense_up_to=4096)
        strings("protein", 20, (1, 2, 3), 200 * scale, dense_up_to=8000)
        series(2 * scale)
        rng = np.random.default_rng(2)
        long = mc.Sequences.from_codes(rng.integers(0, 4, size=(scale, 100_000)), "dna")
        kernel = mc.EmpiricalMeanMap(order=2)
        print(f"{scale} strings of length 100,000, order 2: {best(lambda: kernel(long), repeat=2):.3f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the data")
    add_json(parser)
    given = parser.parse_args()
    main(1 if given.quick else 10)
    write_json(given.json, {}, TIMES)
