"""Shared hidden histories: whole Gram matrices of `Marginalization` over trees and chains, and loops over pairs.

Float64, the whole call with the symmetric half counted once. A tree of 100 leaves and 99 hidden nodes of 2 states with
5,000 profiles, compared with a recursive Python function; a hidden Markov model of 4 states and 4 symbols with 2,000
sequences of length 140, compared with a loop over pairs in NumPy (MK-4 directly). The loops are timed on some pairs.
Flops are those of the recursion without its scaling: 2 S^2 + 2 S per node. Then other numbers of states, and
transitions with zeros (every entry is checked for underflow).

Run: python benchmarks/bench_history.py
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

import numpy as np
from _measure import best, matmul_rate
from _numbers import add_json, write_json

import mercer as mc

LEAVES, LENGTH = 100, 140
TIMES: dict[str, dict[str, str]] = {}


def tree(leaves: int = LEAVES, states: int = 2) -> mc.models.HiddenTrees:
    """Return a random binary tree: nodes are joined in pairs, and the last one is the root."""
    rng = np.random.default_rng(0)
    nodes = leaves - 1
    above: dict[str, int] = {}
    left = [f"leaf {k}" for k in range(leaves)]
    for v in range(nodes - 1, -1, -1):  # the root is node 0
        pair = [left.pop(int(rng.integers(len(left)))) for _ in range(2)]
        above |= dict.fromkeys(pair, v)
        left.append(f"node {v}")
    parent = [above.get(f"node {v}", -1) for v in range(nodes)]
    return mc.models.HiddenTrees(
        [parent],
        rng.dirichlet(np.ones(states), 1),
        rng.dirichlet(np.ones(states), (1, nodes, states)),
        [[above[f"leaf {k}"] for k in range(leaves)]],
        rng.dirichlet(np.ones(2), (1, leaves, states)),
    )


def chain(states: int, zeros: bool = False, symbols: int = 4) -> mc.HMMs:
    rng = np.random.default_rng(1)
    transition = rng.dirichlet(np.ones(states), (1, states))
    if zeros:  # from left to right
        transition = np.triu(transition) / np.triu(transition).sum(axis=-1, keepdims=True)
    emission = mc.Categoricals(rng.dirichlet(np.ones(symbols), (1, states)), alphabet="dna")
    return mc.HMMs(rng.dirichlet(np.ones(states), 1), transition, emission)


def recursive(p: mc.models.HiddenTrees) -> Callable[[np.ndarray, np.ndarray], float]:
    """Return log kappa of two profiles by MK-6, directly; it does not underflow at this size."""
    nodes, states = range(p.parent.shape[-1]), range(p.root.shape[-1])
    children = [[c for c in nodes if p.parent[0][c] == v] for v in nodes]
    leaves = [[k for k, above in enumerate(p.leaf_parent[0]) if above == v] for v in nodes]
    root, steps, shown = p.root[0].tolist(), p.transition[0].tolist(), p.leaf[0].tolist()

    def message(v: int, s: list[int], t: list[int]) -> list[float]:
        values = [1.0 for _ in states]
        for k in leaves[v]:
            for a in states:
                values[a] *= shown[k][a][s[k]] * shown[k][a][t[k]]
        for c in children[v]:
            below = message(c, s, t)
            for a in states:
                values[a] *= sum(steps[c][a][b] * below[b] for b in states)
        return values

    def pair(s: np.ndarray, t: np.ndarray) -> float:
        top = message(0, s.astype(int).tolist(), t.astype(int).tolist())
        return math.log(sum(root[a] * top[a] for a in states))

    return pair


def by_loop(p: mc.HMMs, s: np.ndarray, t: np.ndarray) -> float:
    """Return log kappa of two sequences of codes by MK-4."""
    table, step = p.emission.probability[0], p.transition[0]
    shown, logs = table[:, s] * table[:, t], 0.0
    f = p.initial[0] * shown[:, 0]
    for i in range(1, len(s)):
        total = f.sum()
        logs += np.log(total)
        f = (f / total @ step) * shown[:, i]
    return float(logs + np.log(f.sum()))


def compare(name: str, model: mc.models.HiddenTrees | mc.HMMs, X: object, pair: Callable[[int, int], float]) -> None:
    """Time the whole matrix on one and two threads, and a loop over some pairs."""
    kernel = mc.Marginalization(model, normalize=False)
    count, nodes, states = len(X), *shape_of(model)  # type: ignore[arg-type]
    pairs, some = count * (count + 1) // 2, [(i, i + 7) for i in range(20)]
    slow = best(lambda: [pair(i, j) for i, j in some], repeat=2) / len(some)
    found = kernel.log(X)
    error = max(abs(found[i, j] - pair(i, j)) for i, j in some)
    times = []
    for threads in (1, 2):
        rate = matmul_rate(threads)
        with mc.config(n_jobs=threads):
            seconds = best(lambda: kernel(X), repeat=2)
        times.append(seconds)
        flops = pairs * nodes * (2 * states**2 + 2 * states) / seconds
        print(
            f"{name}, {threads} thread(s): {seconds:6.3f} s, {pairs / seconds / 1e6:5.2f} million pairs/s, "
            f"{slow * pairs / seconds:6.0f} times a loop ({slow * pairs:.0f} s), {flops / 1e9:5.1f} GFLOP/s = "
            f"{100 * flops / rate:4.1f} % of the matrix product; logarithms differ by {error:.0e}"
        )
    TIMES[name] = {
        "time": f"{times[0]:.2f} s (two threads {times[1]:.2f} s)",
        "pairs per second": f"{pairs / times[0] / 1e6:.2g} million",
        "a loop takes": f"{slow * pairs / times[0]:,.0f} times as long",
    }


def shape_of(model: mc.models.HiddenTrees | mc.HMMs) -> tuple[int, int]:
    """Return the numbers of hidden nodes and of their states."""
    if isinstance(model, mc.HMMs):
        return LENGTH, int(model.initial.shape[-1])
    return int(model.parent.shape[-1]), int(model.root.shape[-1])


def fraction(states: int, zeros: bool, count: int = 384) -> None:
    """Compare a chain with the matrix product on one thread."""
    model, rng = chain(states, zeros), np.random.default_rng(2)
    X, kernel = mc.Sequences.from_codes(rng.integers(0, 4, (count, LENGTH)), "dna"), mc.Marginalization(model)
    with mc.config(n_jobs=1, memo_bytes=0):
        seconds = best(lambda: kernel(X), repeat=2)
    flops = count * (count + 1) // 2 * LENGTH * (2 * states**2 + 2 * states) / seconds
    name = "with zeros" if zeros else "all positive"
    print(
        f"chain of {LENGTH}, {states:2d} states, {name:12s}: {seconds:6.3f} s, {100 * flops / matmul_rate(1):5.1f} % "
        "of the matrix product"
    )


def main() -> None:
    model = tree()
    X = model.sample(5000, random_state=3)[0]
    slow = recursive(model)
    compare("HiddenTree of 100 leaves and 2 states, 5,000 profiles", model, X, lambda i, j: slow(X[i], X[j]))
    hidden = chain(4)
    Y = mc.Sequences.from_codes(hidden.sample(LENGTH, 2000, random_state=4)[0], "dna")
    rows = Y.values.reshape(-1, LENGTH)
    compare(
        "HMM of 4 states and 4 symbols, 2,000 sequences of 140 steps",
        hidden,
        Y,
        lambda i, j: by_loop(hidden, rows[i], rows[j]),
    )
    for states in (2, 4, 8, 16):
        for zeros in (False, True):
            fraction(states, zeros)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_json(parser)
    given = parser.parse_args()
    main()
    write_json(given.json, {}, TIMES)
