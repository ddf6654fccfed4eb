"""Cases for `test_bits`: whether the bits of a result depend on its neighbors, which share SIMD lanes with it.

A case is a function ``case_<name>(rng)`` that returns ``compute(left, right)`` and the numbers of members of both
sides: ``compute`` gives one entry per pair of the members with these indices, pairs in the first two axes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import mercer as mc

Case = tuple[Callable[[Any, Any], Any], int, int]


def hmms(rng: Any, count: int, n: int) -> mc.HMMs:
    emission = mc.Categoricals(rng.dirichlet(np.ones(4), (count, n)), "acgt")
    return mc.HMMs(rng.dirichlet(np.ones(n), count), rng.dirichlet(np.ones(n), (count, n)), emission)


def chains(n: int, length: Any) -> Callable[[Any], Case]:
    def case(rng: Any) -> Case:
        models = hmms(rng, 13, n)
        kernel = mc.ProbabilityProduct(length=length, normalize=False)
        return (lambda left, right: kernel.log(models[left], models[right])), 13, 13

    return case


def case_sparse_products(rng: Any) -> Case:
    from mercer.data.csr import CSRRows, outer

    rows = CSRRows.of(rng.poisson(0.4, (21, 40)).astype(float))
    return (lambda left, right: outer(rows[np.asarray(left)], rows[np.asarray(right)])), 21, 21


def case_sparse_entropies(rng: Any) -> Case:
    from mercer.data.csr import CSRRows, shared_entropy

    rows = CSRRows.of(rng.poisson(0.4, (21, 40)) / 7.0)
    return (lambda left, right: shared_entropy(rows[np.asarray(left)], rows[np.asarray(right)])), 21, 21


def gaussians(structure: str) -> Callable[[Any], Case]:
    def case(rng: Any) -> Case:
        factors = rng.normal(size=(19, 5, 9))
        covariance = factors @ factors.swapaxes(1, 2)
        if structure == "diagonal":
            covariance = np.diagonal(covariance, axis1=1, axis2=2)
        models = mc.Gaussians(rng.normal(size=(19, 5)), covariance)
        return (lambda left, right: models[left].log_product(models[right], 0.5)), 19, 19

    return case


def points(order: int, d: int) -> Callable[[Any], Case]:
    def case(rng: Any) -> Case:
        series = [rng.normal(size=(size, d)) for size in (3, 9, 17, 8, 30, 5, 64)]
        kernel = mc.EmpiricalMeanMap(order=order, gamma=0.3, normalize=False)
        return (lambda left, right: kernel.log([series[i] for i in left], [series[j] for j in right])), 7, 7

    return case


def case_density_estimates(rng: Any) -> Case:
    models = mc.KDE(bandwidth=0.4).fit_each([rng.normal(size=(size, 2)) for size in (3, 9, 17, 8, 30, 5, 64)])
    return (lambda left, right: mc.ProbabilityProduct(rho=1, normalize=False).log(models[left], models[right])), 7, 7


CASES = {name.removeprefix("case_"): case for name, case in list(globals().items()) if name.startswith("case_")}
CASES |= {f"chains of {n} states": chains(n, 12) for n in (1, 3, 4, 6, 9)}
CASES |= {f"windows of {order + 1} points": points(order, d) for order, d in ((0, 3), (1, 1), (2, 2))}
CASES |= {f"gaussians, {structure}": gaussians(structure) for structure in ("full", "diagonal")}


def check(name: str) -> None:
    """Compare all pairs at once with every right member alone, and with another order of both sides."""
    rng = np.random.default_rng(0)
    compute, n, m = CASES[name](rng)
    rows, columns = np.arange(n), np.arange(m)
    whole = np.asarray(compute(rows, columns))
    assert np.isfinite(whole).all(), name
    alone = np.stack([np.asarray(compute(rows[:3], columns[j : j + 1]))[:, 0] for j in range(m)], axis=1)
    np.testing.assert_array_equal(whole[:3], alone, err_msg=f"{name}: alone")
    left, right = rng.permutation(n), rng.permutation(m)
    moved = np.asarray(compute(left, right))
    np.testing.assert_array_equal(whole[left][:, right], moved, err_msg=f"{name}: another order")


if __name__ == "__main__":
    for case in sys.argv[1:] or CASES:
        check(case)
        print(case)
