"""Latent mean maps, posterior counts and TOP: features linear in the number of sequences, compared with Fisher scores.

Times of features are CPU times, which depend little on the load of the machine.

Run: python benchmarks/bench_latent.py            (`--quick` takes a tenth of the sequences)
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from _measure import best, once, peak_bytes
from _numbers import add_json, write_json

import mercer as mc


def strings_and_model(count: int, length: int = 200, n: int = 5, models: int = 1) -> tuple[mc.Sequences, mc.HMMs]:
    rng = np.random.default_rng(0)
    emission = mc.Categoricals(rng.dirichlet(np.ones(4), size=(models, n)), alphabet="dna")
    model = mc.HMMs(rng.dirichlet(np.ones(n), size=models), rng.dirichlet(np.ones(n), size=(models, n)), emission)
    return mc.Sequences.from_codes(rng.integers(0, 4, size=(count, length)), "dna"), model


def least_cpu(work: Callable[[], object], repeat: int = 5) -> float:
    """Return CPU seconds, the minimum of a few runs."""
    found = []
    for _ in range(repeat):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def main(scale: int = 10) -> dict[str, dict[str, float | str]]:
    X, model = strings_and_model(2000 * scale)
    kernels = {
        "Fisher": mc.Fisher(model),
        "LatentMeanMap": mc.LatentMeanMap(model),
        "PosteriorCounts(k=1)": mc.PosteriorCounts(model),
        "PosteriorCounts(k=2)": mc.PosteriorCounts(model, k=2),
        "TOP of two classes, one model each": mc.TOP(strings_and_model(1, models=2)[1]),
    }
    print("features of DNA strings of length 200, 5 states, one thread: seconds, and microseconds per string")
    found: dict[str, dict[str, float | str]] = {}
    with mc.config(n_jobs=1, memo_bytes=0):
        for name, kernel in kernels.items():
            found[name] = {"columns": kernel.features(X[:1]).shape[1]}
            print(f"  {name}, {found[name]['columns']} columns")
            for n in (200 * scale, 500 * scale, 1000 * scale, 2000 * scale):
                seconds = least_cpu(lambda kernel=kernel, n=n: kernel.features(X[:n]))
                print(f"    {n:7,} strings: {seconds:8.4f} s, {seconds / n * 1e6:6.2f} us")
                found[name][f"of {n:,}"] = seconds / n * 1e6
            if name != "Fisher":
                models = len(kernel.model)
                ratio = seconds / n * 1e6 / found["Fisher"][f"of {n:,}"] / models
                found[name]["relative to Fisher"] = f"{ratio:.1f}"
    rng = np.random.default_rng(1)
    emission = mc.Gaussians(rng.normal(size=(1, 5, 3)), np.ones((1, 5, 3)))
    hmm = mc.HMMs(np.full((1, 5), 0.2), rng.dirichlet(np.ones(5), size=(1, 5)), emission)
    count, length = 10 * scale, 500
    series = [rng.normal(size=(length, 3)) for _ in range(count)]
    pairs = count * (count + 1) / 2 * length**2
    exact, random = mc.LatentMeanMap(hmm, gamma=0.3), mc.LatentMeanMap(hmm, gamma=0.3, n_components=200)
    print(f"{count} series of {length} points in 3 dimensions, 5 states, one thread")
    with mc.config(n_jobs=1, memo_bytes=0):
        exact(series[:2])
        seconds, K = once(lambda: exact(series))
        print(f"  exact: {seconds:.2f} s, {seconds / pairs * 1e9:.2f} ns per pair of points")
        print(f"  exact, memory: {peak_bytes(lambda: exact(series)) / 2**20:.1f} MiB; a table per pair is 1.9 MiB")
        seconds = best(lambda: random(series), repeat=2)
        error = np.abs(random(series) - K).max()
        print(f"  200 random frequencies: {seconds:.2f} s, largest error {error:.1e}")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the sequences")
    add_json(parser)
    given = parser.parse_args()
    write_json(given.json, {}, main(1 if given.quick else 10))
