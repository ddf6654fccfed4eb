"""Embedded hidden Markov models: the fit against its own matrix products, a filter step, kooplearn on its benchmark.

One thread; ratios within one run. The fit with r landmarks and N components has to compute the projection onto the
landmarks, two r x r covariances, one decomposition, and the r x N x N tensor of all triples; its time is compared with
these on random matrices of the same shapes, without the kernel itself. kooplearn's benchmark is 5,000 points, rank 25;
it is skipped if kooplearn is not installed. Reading the tensor once is the faster of NumPy's maximum and a product
with a vector.

Run: python benchmarks/bench_embedding.py            (--full: m = 20,000 and r = 500, and the scaling in m)
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from _measure import best, peak_bytes
from threadpoolctl import threadpool_limits

import mercer as mc
import mercer.embedding  # loads all libraries of linear algebra, so that their threads can be limited


def series(n: int, d: int = 3, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    angle = np.cumsum(0.2 + 0.05 * rng.normal(size=n))
    waves = [np.cos((i + 1) * angle) for i in range(d)]
    return np.stack(waves, axis=1) + 0.2 * rng.normal(size=(n, d))


def in_turn(*works: Callable[[], object], rounds: int, repeat: int = 1) -> list[float]:
    """Return the best time of each of several works, which take turns: neighbors on the machine disturb all of them."""
    return list(np.min([[best(work, repeat=repeat) for work in works] for _ in range(rounds)], axis=0))


def needed(m: int, r: int, n: int) -> Callable[[], None]:
    """Return the products and the decomposition of a fit, as a function that computes them."""
    rng = np.random.default_rng(0)
    z, square, pairs = rng.normal(size=(m, r)), rng.normal(size=(r, r)), rng.normal(size=(1024, n * n))
    other = z.copy()

    def work() -> None:
        z @ square
        np.linalg.svd(z.T @ other)
        tensor = np.zeros((r, n * n))
        for begin in range(0, m, 1024):
            part = z[begin : begin + 1024]
            tensor += part.T @ pairs[: len(part)]
        np.linalg.solve(z.T @ z + np.eye(r), tensor)

    return work


def fits(m: int, r: int, n: int) -> None:
    x = [series(m + 2, d=6)]
    model = mc.EmbeddedHMM(mc.RBF(0.5), n_components=n, landmarks=r)
    model.fit(x)
    r, n = model._learned.operators.gain.shape[0], model.n_components_  # those that rounding has left
    fit, floor = in_turn(lambda: model.fit(x), needed(m, r, n), rounds=2)
    peak, least = peak_bytes(lambda: model.fit(x)), 8 * (m * r + r * n * n)
    print(
        f"fit, m = {m}, r = {r}, N = {n}: {fit:.2f} s, {fit / floor:.2f} of its matrix products; peak memory "
        f"{peak / 2**20:.0f} MiB, {peak / least:.1f} of m r + r N^2 numbers"
    )


def steps(r: int, n: int, length: int = 1000) -> None:
    model = mc.EmbeddedHMM(mc.RBF(2.0), n_components=n, landmarks=r, alpha=1e-5).fit([series(4 * r, d=6)])
    x = series(length, d=6, seed=1)
    belief, gain = model.start_, model._learned.operators.gain
    model.update(x[0], belief)
    code, flat = np.ones(len(gain)), gain.T.reshape(-1)
    filtered, *others = in_turn(
        lambda: model.filter([x]),
        lambda: [model.update(row, belief) for row in x[:100]],
        lambda: [flat.max() for _ in range(100)],
        lambda: [gain.T.dot(code) for _ in range(100)],
        rounds=8,
        repeat=3,
    )
    one, *readings = (1e6 * time / 100 for time in others)
    read = min(readings)
    print(
        f"step, r = {gain.shape[0]}, N = {model.n_components_}: filter {1e6 * filtered / length:.0f} us, update "
        f"{one:.0f} us; reading the tensor once {read:.0f} us (maximum, product with a vector: "
        f"{', '.join(f'{time:.0f}' for time in readings)}), update / reading {one / read:.2f}"
    )


def blocks(r: int, n: int, size: int, count: int) -> None:
    model = mc.EmbeddedHMM(mc.RBF(0.5), n_components=n, landmarks=r, features="random")
    model.partial_fit([series(size)])
    times = [best(lambda: model.partial_fit([series(size, seed=1)]), repeat=1) for _ in range(count)]
    print(
        f"partial_fit, r = {r}, N = {n}, blocks of {size}: {1e3 * np.median(times[:5]):.0f} ms for the first 5, "
        f"{1e3 * np.median(times[-5:]):.0f} ms for the last 5 of {2 * count}"
    )


def peers() -> None:
    try:
        from kooplearn.kernel import NystroemKernelRidge
    except ImportError:
        print("kooplearn is not installed")
        return
    x = series(5000)
    ours = mc.EmbeddedHMM(mc.RBF(0.5), n_components=25, landmarks=300)
    other = NystroemKernelRidge(n_components=25, kernel="rbf", gamma=0.5, alpha=1e-4, n_centers=300, random_state=0)
    mine, theirs = in_turn(lambda: ours.fit([x]), lambda: other.fit(x), rounds=7)
    print(
        f"5,000 points, rank 25, 300 landmarks: {mine:.3f} s; kooplearn's Nystroem regression {theirs:.3f} s, "
        f"ratio {theirs / mine:.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--only", choices=["fits", "steps", "blocks", "peers"], action="append")
    args = parser.parse_args()
    wanted = args.only or ["fits", "steps", "blocks", "peers"]
    with threadpool_limits(1, user_api="blas"):
        if "fits" in wanted:
            for m in (2500, 5000, 10_000, 20_000) if args.full else (2000, 4000):
                fits(m, 200, 20)
            if args.full:
                fits(20_000, 500, 50)
        if "steps" in wanted:
            steps(100, 50)
            steps(500, 50)
        if "blocks" in wanted:
            blocks(100, 20, 500, 30)
        if "peers" in wanted:
            peers()


if __name__ == "__main__":
    main()
