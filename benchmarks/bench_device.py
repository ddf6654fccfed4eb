"""The same source on another device: Gram matrices of torch tensors against NumPy on one thread of this machine.

Run: python benchmarks/bench_device.py --device cuda
     python benchmarks/bench_device.py --device cuda --whole     rates of whole calls, with Triton kernels
     python benchmarks/bench_device.py --device cuda --hidden    shared histories, linear systems, discounted lengths
     python benchmarks/bench_device.py --device cuda --float32   errors of float32 by kernel
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from bench_history import LENGTH, chain, tree
from bench_hmm import categorical, gaussian
from bench_lds import systems
from bench_pair_hmm import model as pair_hmm
from bench_pair_hmm import proteins

import mercer as mc


def seconds(work: Callable[[], Any], device: str, repeat: int = 3) -> float:
    """Return the time of the fastest of several runs, waiting for the device to finish."""
    runs = []
    for _ in range(repeat + 1):
        start = time.perf_counter()
        work()
        if device.startswith("cuda"):
            torch.cuda.synchronize()
        runs.append(time.perf_counter() - start)
    return min(runs[1:])


def make_gaussians(n: int, d: int) -> mc.Gaussians:
    """Draw Gaussians with full covariances."""
    rng = np.random.default_rng(0)
    factors = rng.standard_normal((n, d, 2 * d))
    return mc.Gaussians(rng.standard_normal((n, d)), factors @ factors.swapaxes(1, 2) / (2 * d))


def compare(name: str, kernel: Any, host: Any, guest: Any, device: str, other: Any = None) -> None:
    """Time a kernel on CPU and device; if only the model is moved, ``other`` is the kernel on the device."""
    other = kernel if other is None else other
    with mc.config(n_jobs=1):
        ours = seconds(lambda: kernel(host), "cpu")
    theirs = seconds(lambda: other(guest), device)
    difference = np.abs(other(guest).cpu().numpy() - kernel(host)).max()
    print(
        f"{name:45s} NumPy {ours:7.3f} s, torch on {device} {theirs:7.3f} s ({ours / theirs:6.1f}x), "
        f"difference {difference:.1e}"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the numbers of models")
    parser.add_argument("--whole", action="store_true", help="rates of whole calls")
    parser.add_argument("--hidden", action="store_true", help="shared histories, linear systems, discounted lengths")
    parser.add_argument("--float32", action="store_true", help="errors of float32")
    arguments = parser.parse_args()
    device, scale = arguments.device, arguments.scale
    if arguments.whole:
        return whole(device, scale)
    if arguments.hidden:
        return hidden(device, scale)
    if arguments.float32:
        return float32(device)

    def move(x: Any) -> torch.Tensor:
        return torch.tensor(np.asarray(x), device=device)

    p = make_gaussians(int(4000 * scale), 8)
    q = mc.Gaussians(move(p.mean), move(p.covariance))
    compare("ProbabilityProduct, full Gaussians, d = 8", mc.ProbabilityProduct(rho=0.5), p, q, device)
    compare("MeanMap, full Gaussians, d = 8", mc.MeanMap(gamma=0.5), p, q, device)
    compare("JensenShannon, full Gaussians, d = 8", mc.JensenShannon(t=8.0), p, q, device)
    for n, count in ((4, 2000), (16, 800), (30, 400)):
        h = categorical(int(count * scale), n)
        g = mc.HMMs(move(h.initial), move(h.transition), mc.Categoricals(move(h.emission.probability)))
        compare(
            f"ProbabilityProduct, HMMs, n = {n}, length 10", mc.ProbabilityProduct(rho=1.0, length=10), h, g, device
        )
    h = gaussian(int(600 * scale), 8, "diagonal")
    g = mc.HMMs(move(h.initial), move(h.transition), mc.Gaussians(move(h.emission.mean), move(h.emission.covariance)))
    compare("ProbabilityProduct, Gaussian HMMs, n = 8, d = 3", mc.ProbabilityProduct(rho=0.5, length=10), h, g, device)
    compare("MeanMap, the same, Discounted(0.9)", mc.MeanMap(gamma=0.1, length=mc.Discounted(0.9)), h, g, device)
    histories(scale, device, move)


def whole(device: str, scale: float) -> None:
    """Time calls on NumPy batches from beginning to end, with the result left on the device or brought back."""
    count = int(10_000 * scale)
    product = mc.ProbabilityProduct(rho=0.5, length=10)
    cases: list[tuple[str, Any, Any, float]] = [
        (f"symbols, n = {n}", product, categorical(count, n), 36.0 * n**3) for n in (4, 8, 16, 32)
    ]
    cases += [
        ("full Gaussians, d = 8", product, make_gaussians(count, 8), 0.0),
        ("the same, MeanMap", mc.MeanMap(gamma=0.5), make_gaussians(count, 8), 0.0),
        ("Gaussian HMMs, n = 8, d = 3, diagonal", product, gaussian(count, 8, "diagonal"), 36.0 * 8**3),
        ("Gaussian HMMs, n = 4, d = 3, full", product, gaussian(count, 4, "full"), 36.0 * 4**3),
    ]
    rng = np.random.default_rng(2)
    chains = mc.MarkovChains(rng.dirichlet(np.ones(4), count), rng.dirichlet(np.ones(4), (count, 4)), alphabet="dna")
    cases += [("Markov chains, order 1, dna", product, chains, 0.0)]
    for name, kernel, models, operations in cases:
        left = seconds(lambda k=kernel, m=models: k(m.to(device)), device)
        result = kernel(models.to(device))
        copy = seconds(lambda r=result: r.cpu(), device)
        del result
        with mc.config(device=device):
            back = seconds(lambda k=kernel, m=models: k(m), device)
        few = models[:200]
        error = np.abs(kernel.log(few.to(device)).cpu().numpy() - kernel.log(few)).max()
        with mc.config(n_jobs=2):
            two = seconds(lambda k=kernel, m=models[:500]: k(m), "cpu", 1) * (count / 500) ** 2
        print(
            f"{name:40s} {1e3 * left:7.1f} ms, {count**2 / left:.2e} ordered pairs/s, half of them computed "
            f"({count**2 / 2 / left * operations / 1e12:4.1f} TFLOP/s); brought back {1e3 * back:5.0f} ms, plain copy "
            f"{1e3 * copy:4.0f} ms; about {two / left:5.0f}x of two cores; log differs by {error:.0e}",
            flush=True,
        )


def on_two_cores(work: Callable[[], Any]) -> float:
    """Return the time of the faster of two runs on two processors."""
    everyone = os.sched_getaffinity(0)
    os.sched_setaffinity(0, set(sorted(everyone)[:2]))
    try:
        with mc.config(n_jobs=2):
            return seconds(work, "cpu", 2)
    finally:
        os.sched_setaffinity(0, everyone)


def hidden(device: str, scale: float) -> None:
    """Time whole calls on NumPy data, brought back to NumPy, against two cores, which compute some of the pairs."""
    cases: list[tuple[str, Any, Any, int]] = []
    for length in (200, 1000):
        count = int((4000 if length == 200 else 1000) * scale)
        cases += [(f"pair HMM, proteins of {length}", mc.Marginalization(pair_hmm()), proteins(count, length), 300)]
    p = tree()
    leaves = p.sample(int(10_000 * scale), random_state=3)[0]
    cases += [("tree of 100 leaves, 2 states", mc.Marginalization(p), leaves, 1000)]
    for name, h in (("4", chain(4)), ("8", chain(8)), ("16", chain(16)), ("4, left to right", chain(4, zeros=True))):
        X = mc.Sequences.from_codes(h.sample(LENGTH, int(8000 * scale), random_state=4)[0], "dna")
        cases += [(f"HMM of {name} states, length {LENGTH}", mc.Marginalization(h), X, 600)]
    product = mc.ProbabilityProduct(rho=0.5, length=50)
    cases += [("linear systems, 4 and 3 coordinates, length 50", product, systems(int(4000 * scale)), 400)]
    summed = mc.ProbabilityProduct(rho=1.0, length=mc.Discounted(0.9))
    for n in (4, 8, 16):
        cases += [(f"HMMs, symbols, n = {n}, Discounted(0.9)", summed, categorical(int(8000 * scale), n), 400)]
    smooth = mc.MeanMap(gamma=0.1, length=mc.Discounted(0.9))
    cases += [
        ("Gaussian HMMs, n = 8, d = 3, the same, MeanMap", smooth, gaussian(int(4000 * scale), 8, "diagonal"), 400)
    ]
    for name, kernel, X, few in cases:
        with mc.config(memo_bytes=0):
            two = on_two_cores(lambda k=kernel, x=X, m=few: k(x[:m])) / (few * (few + 1))
            expected = kernel.log(X[:100])
            with mc.config(device=device):
                back = seconds(lambda k=kernel, x=X: k(x), device) / (len(X) * (len(X) + 1))
                error = np.abs(kernel.log(X[:100]) - expected).max()
        print(
            f"{name:48s} two cores {0.5 / two:8.2e} pairs/s, device {0.5 / back:8.2e} ({two / back:5.0f}x), "
            f"{back * len(X) * (len(X) + 1):6.3f} s for {len(X)}; log differs by {error:.0e}",
            flush=True,
        )


def float32(device: str) -> None:
    """Compare normalized Gram matrices of float32 tensors with those of float64."""
    cases: list[tuple[str, Any, Any]] = []
    for length in (10, 100):
        product = mc.ProbabilityProduct(rho=0.5, length=length)
        cases += [(f"HMMs, symbols, n = {n}, length {length}", product, categorical(300, n)) for n in (4, 16)]
        cases += [(f"HMMs, Gaussians, n = 8, length {length}", product, gaussian(300, 8, "diagonal"))]
    cases += [
        ("full Gaussians, d = 8", mc.ProbabilityProduct(), make_gaussians(300, 8)),
        ("full Gaussians, d = 8, MeanMap", mc.MeanMap(gamma=0.5), make_gaussians(300, 8)),
        ("full Gaussians, d = 8, JensenShannon", mc.JensenShannon(t=8.0), make_gaussians(300, 8)),
    ]
    for name, kernel, models in cases:
        moved = models.to(device)
        narrow = moved._map(_narrowed, lambda _, part: part._map(_narrowed, lambda _, inner: inner))
        exact, found = kernel(moved), kernel(narrow)
        print(f"{name:40s} largest difference {float((exact - found.double()).abs().max()):.1e}", flush=True)


def _narrowed(name: str, x: Any) -> Any:
    return x.float() if isinstance(x, torch.Tensor) else x


def histories(scale: float, device: str, move: Callable[[Any], torch.Tensor]) -> None:
    """Compare data under one hidden chain or tree: the model is on the device, and the evidence is computed there."""
    p = tree()
    q = mc.models.HiddenTrees(p.parent, move(p.root), move(p.transition), p.leaf_parent, move(p.leaf))
    X = p.sample(int(5000 * scale), random_state=3)[0]
    a, b = mc.Marginalization(p), mc.Marginalization(q)
    compare("Marginalization, tree of 100 leaves", a, X, X, device, b)
    for n, count in ((4, 2000), (16, 1000)):
        h = chain(n)
        g = mc.HMMs(move(h.initial), move(h.transition), mc.Categoricals(move(h.emission.probability), alphabet="dna"))
        Y = mc.Sequences.from_codes(h.sample(LENGTH, int(count * scale), random_state=4)[0], "dna")
        a, b = mc.Marginalization(h), mc.Marginalization(g)
        compare(f"Marginalization, HMM, n = {n}, length {LENGTH}", a, Y, Y, device, b)


if __name__ == "__main__":
    main()
