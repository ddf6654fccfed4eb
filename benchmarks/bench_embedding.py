"""Embedded hidden Markov models: the fit against its own matrix products, a filter step, kooplearn on its benchmark.

One thread. The fit with r landmarks and N components has to compute r x r covariances, one decomposition, and the
r x N x N tensor of all triples; its time is compared with these on random matrices of the same shapes. kooplearn's
benchmark is 5,000 points, rank 25; it is skipped if kooplearn is not installed.

Run: python benchmarks/bench_embedding.py            (--full: m = 20,000 and r = 500)
"""

from __future__ import annotations

import argparse

import numpy as np
from _measure import best
from threadpoolctl import threadpool_limits

import mercer as mc
from mercer.embedding._solve import products


def series(n: int, d: int = 3, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    angle = np.cumsum(0.2 + 0.05 * rng.normal(size=n))
    waves = [np.cos((i + 1) * angle) for i in range(d)]
    return np.stack(waves, axis=1) + 0.2 * rng.normal(size=(n, d))


def fits(m: int, r: int, n: int) -> None:
    x = [series(m + 2)]
    fit = best(lambda: mc.EmbeddedHMM(mc.RBF(0.5), n_components=n, landmarks=r).fit(x), repeat=1)
    rng = np.random.default_rng(0)
    z, w = rng.normal(size=(m, r)), rng.normal(size=(m, n))

    def needed() -> None:
        np.linalg.svd(z.T @ z)
        z @ rng.normal(size=(r, r))  # the projection onto the landmarks
        np.linalg.solve(z.T @ z + np.eye(r), products(z, w, w))

    floor = best(needed, repeat=1)
    print(f"fit, m = {m}, r = {r}, N = {n}: {fit:.2f} s, {fit / floor:.2f} of its matrix products")


def steps(r: int, n: int, length: int = 5000) -> None:
    model = mc.EmbeddedHMM(mc.RBF(2.0), n_components=n, landmarks=r, alpha=1e-5).fit([series(4 * r)])
    x = series(length, seed=1)
    filtered = best(lambda: model.filter([x]), repeat=2) / length
    belief = model.start_
    one = best(lambda: [model.update(row, belief) for row in x[:200]], repeat=3) / 200
    gain = model._operators().gain
    read = best(lambda: gain.sum(), repeat=5)
    print(
        f"step, r = {gain.shape[0]}, N = {model.n_components_}: filter {1e6 * filtered:.0f} us, "
        f"update {1e6 * one:.0f} us; reading the tensor once {1e6 * read:.0f} us"
    )


def peers() -> None:
    try:
        from kooplearn.kernel import NystroemKernelRidge
    except ImportError:
        print("kooplearn is not installed")
        return
    x = series(5000)
    ours = best(lambda: mc.EmbeddedHMM(mc.RBF(0.5), n_components=25, landmarks=300).fit([x]), repeat=2)
    other = NystroemKernelRidge(n_components=25, kernel="rbf", gamma=0.5, alpha=1e-4, n_centers=300, random_state=0)
    theirs = best(lambda: other.fit(x), repeat=2)
    print(f"5,000 points, rank 25, 300 landmarks: {ours:.2f} s; kooplearn's Nystroem regression {theirs:.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true")
    full = parser.parse_args().full
    with threadpool_limits(1, user_api="blas"):
        for m in (2000, 4000, 8000):
            fits(m, 200, 20)
        if full:
            fits(20_000, 500, 50)
        steps(100, 50)
        steps(500, 50, 2000)
        peers()


if __name__ == "__main__":
    main()
