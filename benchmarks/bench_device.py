"""The same source on another device: Gram matrices of torch tensors against NumPy on one thread of this machine.

Run: python benchmarks/bench_device.py --device cuda
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from bench_gaussian import make as make_gaussians
from bench_history import LENGTH, chain, tree
from bench_hmm import categorical, gaussian

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
    arguments = parser.parse_args()
    device, scale = arguments.device, arguments.scale

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
    gradients(int(100 * scale), device, move)


def histories(scale: float, device: str, move: Callable[[Any], torch.Tensor]) -> None:
    """Compare data under one hidden chain or tree: the model is on the device, and the evidence is computed there."""
    p = tree()
    q = mc.HiddenTrees(p.parent, move(p.root), move(p.transition), p.leaf_parent, move(p.leaf))
    X = p.sample(int(5000 * scale), random_state=3)[0]
    a, b = mc.Marginalization(p), mc.Marginalization(q)
    compare("Marginalization, tree of 100 leaves", a, X, X, device, b)
    for n, count in ((4, 2000), (16, 1000)):
        h = chain(n)
        g = mc.HMMs(move(h.initial), move(h.transition), mc.Categoricals(move(h.emission.probability), alphabet="dna"))
        Y = mc.Sequences.from_codes(h.sample(LENGTH, int(count * scale), random_state=4)[0], "dna")
        a, b = mc.Marginalization(h), mc.Marginalization(g)
        compare(f"Marginalization, HMM, n = {n}, length {LENGTH}", a, Y, Y, device, b)


def gradients(count: int, device: str, move: Callable[[Any], torch.Tensor]) -> None:
    """Compare gradients of a Gram matrix by the adjoint pass, on the device and on the CPU."""
    h = gaussian(count, 8, "diagonal")
    kernel, found, spent = mc.ProbabilityProduct(rho=0.5, length=50), [], []
    for place in ("cpu", device):
        mean = torch.tensor(np.asarray(h.emission.mean), device=place, requires_grad=True)
        fixed = [torch.tensor(np.asarray(x), device=place) for x in (h.initial, h.transition, h.emission.covariance)]

        def work(mean: torch.Tensor = mean, fixed: list[torch.Tensor] = fixed) -> torch.Tensor:
            models = mc.HMMs(fixed[0], fixed[1], mc.Gaussians(mean, fixed[2]))
            return torch.autograd.grad(kernel(models).sum(), mean)[0]

        spent.append(seconds(work, place))
        found.append(work().cpu())
    difference = float((found[0] - found[1]).abs().max() / found[0].abs().max())
    print(
        f"{'gradient of a Gram matrix, length 50':45s} torch on cpu {spent[0]:7.3f} s, on {device} {spent[1]:7.3f} s "
        f"({spent[0] / spent[1]:6.1f}x), difference {difference:.1e}"
    )


if __name__ == "__main__":
    main()
