"""Probability products of 500 Bayesian networks of 20 binary nodes with treewidth 3, against pgmpy pair by pair.

Run: python benchmarks/bench_nets.py           (pgmpy if it is installed; `--quick` takes 100 networks)
"""

from __future__ import annotations

import argparse

import numpy as np
from _measure import once

import mercer as mc

try:
    from pgmpy.factors import factor_product
    from pgmpy.factors.discrete import DiscreteFactor
except ImportError:
    DiscreteFactor = None


def random_nets(n: int, seed: int = 0, size: int = 20, width: int = 3) -> mc.BayesNets:
    """Draw networks over one graph: the parents of a node are up to ``width`` members of one earlier clique."""
    rng = np.random.default_rng(seed)
    names, parents, cliques = [f"n{k}" for k in range(size)], {}, [[]]
    for k, name in enumerate(names):
        clique = cliques[rng.integers(len(cliques))]
        above = [clique[i] for i in rng.permutation(len(clique))[:width]]
        parents[name] = above
        cliques.append([*above, name])
        if k == 0:
            cliques.pop(0)
    tables = {name: rng.dirichlet([1, 1], size=(n, *(2,) * len(parents[name]))) for name in names}
    return mc.BayesNets(tables, dict.fromkeys(names, 2), parents)


def by_pgmpy(nets: mc.BayesNets, i: int, j: int) -> float:
    """Eliminate all variables of the product of two networks with the factors of pgmpy, children first."""
    factors = []
    for k in (i, j):
        for name, above in nets.parents:
            family = [*above, name]
            factors.append(DiscreteFactor(family, [2] * len(family), nets.table(name)[k]))
    for name, _ in reversed(nets.nodes):  # of this graph, an order of width 3
        near = [factor for factor in factors if name in factor.variables]
        factors = [factor for factor in factors if name not in factor.variables]
        joined = factor_product(*near)
        if len(joined.variables) == 1:
            factors.append(DiscreteFactor([], [], joined.values.sum()))
        else:
            factors.append(joined.marginalize([name], inplace=False))
    return float(np.prod([factor.values for factor in factors]))


def main(n: int) -> None:
    nets = random_nets(n)
    print(f"{n} networks of {len(nets.nodes)} binary nodes; {nets.contraction_cost()}")
    kernel = mc.ProbabilityProduct(rho=1.0, normalize=False)
    kernel(nets[:8])  # finds the elimination order
    (took, K), pairs = once(lambda: kernel(nets)), n * (n + 1) // 2
    print(f"mercer: {took:.2f} s, {1e6 * took / pairs:.2f} us per pair")
    if DiscreteFactor is None:
        print("pgmpy is not installed")
        return
    some = [(i, i + 1) for i in range(10)]
    total, values = once(lambda: [by_pgmpy(nets, i, j) for i, j in some])
    each = total / len(some)
    np.testing.assert_allclose([K[i, j] for i, j in some], values, rtol=1e-8)
    print(f"pgmpy: {1e3 * each:.1f} ms per pair, {each * pairs / took:.0f} times as long")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    main(100 if parser.parse_args().quick else 500)
