"""Are two observations of the same objects independent? The Hilbert-Schmidt criterion with any two kernels."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mercer._array import Floats
from mercer._notices import notify, warns_once
from mercer._parallel import n_threads, thread_map
from mercer._random import random_generator
from mercer.kernels.base import unwrapped
from mercer.stats._assignments import Orders, members
from mercer.stats._input import (
    Indices,
    check_count,
    check_kernel,
    count_of,
    gram_matrix,
    numbered,
    p_of,
    p_text,
    unit_numbers,
)

LEAST = 4
"""Number of objects below which the unbiased criterion is not defined."""


@dataclass(frozen=True)
class Independence:
    """Result of `independence_test`.

    Parameters
    ----------
    p_value : float
        Probability of a statistic at least as large if X and Z are independent.
    statistic : float
        The unbiased Hilbert-Schmidt independence criterion.
    correlation : float
        The same in units of both variances: 0 on average under independence, at most 1.
    n : int
        Number of objects, or of groups if these are permuted.
    permuted : str
        "objects", "groups" or "objects within groups".
    n_permutations : int
        Number of permutations.
    exact : bool
        Whether these are all permutations.
    null : ndarray of shape (n_permutations,)
        The statistic of every permutation.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> x = np.linspace(-1, 1, 30)[:, None]
    >>> found = mc.stats.independence_test(x, x**2, mc.RBF(gamma=4.0), mc.RBF(gamma=4.0))
    >>> round(found.p_value, 3), bool(found.correlation > 0.3)
    (0.001, True)
    """

    p_value: float
    statistic: float
    correlation: float
    n: int
    permuted: str
    n_permutations: int
    exact: bool
    null: Floats = field(repr=False)

    def __str__(self) -> str:
        verdict = "X and Z depend on each other" if self.p_value <= 0.05 else "No dependence was found"
        count = f"{'all ' if self.exact else ''}{self.n_permutations:,} permutations of {self.permuted}"
        return f"{verdict} ({p_text(self.p_value)}; {count}). Kernel correlation {self.correlation:.3f}; n = {self.n}."


@warns_once
def independence_test(
    X: Any,
    Z: Any,
    kernel_x: Any,
    kernel_z: Any = "labels",
    *,
    groups: Any = None,
    n_permutations: int = 999,
    random_state: Any = 0,
) -> Independence:
    r"""Test whether X and Z, two observations of the same objects, are independent.

    Parameters
    ----------
    X, Z : data
        Both observations of every object, in the same order: sequences and a trait, series and documents, ...
    kernel_x : Kernel or "labels"
        Kernel of X. A fitted kernel is used as it is; any other is fitted to X.
    kernel_z : Kernel or "labels", default="labels"
        Kernel of Z; "labels" is 1 for equal labels and 0 for different ones.
    groups : array-like of shape (N,), default=None
        The group of every object, such as the subject that it comes from: objects of one group are not independent. If
        X or Z is the same for all objects of a group, as a diagnosis is for all recordings of a subject, groups are
        compared by the means of their kernels and permuted as a whole. Otherwise objects are permuted within groups.
    n_permutations : int, default=999
        Number of random permutations. If there are no more than that, all of them are used.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the permutations.

    Returns
    -------
    Independence
        The p-value and the kernel correlation. ``print`` it.

    Notes
    -----
    .. math:: \mathrm{HSIC} = \frac{1}{n (n - 3)} \sum_{i \ne j} \tilde K_{ij} \tilde L_{ij}

    with matrices that are centered without their diagonals, which makes the estimate unbiased (Song et al. 2012,
    Szekely and Rizzo 2014). It is the squared Hilbert-Schmidt norm of the cross-covariance operator, which is zero only
    for independent X and Z if both kernels are characteristic (Gretton et al. 2008). The correlation divides by the
    root of the product of HSIC(X, X) and HSIC(Z, Z).

    Examples
    --------
    >>> import mercer as mc
    >>> words = ["aab", "aaab", "aba", "baa"] * 4 + ["bba", "bbab", "bab", "abb"] * 4
    >>> labels = [0] * 16 + [1] * 16
    >>> found = mc.stats.independence_test(words, labels, mc.Spectrum(1))
    >>> found.p_value, round(found.correlation, 3)
    (0.001, 0.975)
    >>> print(str(found).partition(" (")[0])
    X and Z depend on each other
    """
    check_kernel(kernel_x, "kernel_x", "labels")
    check_kernel(kernel_z, "kernel_z", "labels")
    check_count(n_permutations, "n_permutations", 1)
    rng = random_generator(random_state)
    X, Z = unwrapped(X), unwrapped(Z)
    n, other = count_of(X, "X"), count_of(Z, "Z")
    if n != other:
        raise ValueError(f"X and Z must be of the same objects; got {n} and {other}.")
    K, L = _matrix(kernel_x, X, "X"), _matrix(kernel_z, Z, "Z")
    units = unit_numbers(groups, n)
    blocks, permuted = [np.arange(n)], "objects"
    if groups is not None and units.max() + 1 < n:
        if _constant(L, units) or _constant(K, units):
            K, L, permuted = _group_means(K, units), _group_means(L, units), "groups"
            blocks = [np.arange(len(K))]
        else:
            blocks, permuted = members(units), "objects within groups"
    if len(K) < LEAST:
        raise ValueError(f"The test needs at least {LEAST} {permuted}; got {len(K)}.")
    scale_of_terms = float(np.abs(K).max() * np.abs(L).max())
    K, L = _centered(K), _centered(L)
    n = len(K)
    scale = n * (n - 3)
    permutations = Orders(blocks)
    count = permutations.count()
    exact = count <= n_permutations
    if count < 20:
        notify(
            f"There are only {count} permutations of {permuted}, so the smallest possible p-value is {1 / count:.2g}. "
            "Collect more objects, or coarser groups."
        )
    orders = permutations.every() if exact else permutations.drawn(int(n_permutations), rng)
    null = np.empty(len(orders))

    def work(b: int) -> None:
        null[b] = np.vdot(K, L[np.ix_(orders[b], orders[b])]) / scale

    thread_map(work, list(range(len(orders))), threads=n_threads(), label="permutations")
    statistic = float(np.vdot(K, L)) / scale
    size = float(np.sqrt(np.vdot(K, K) * np.vdot(L, L))) / scale
    correlation = statistic / size if size > 0 else 0.0
    return Independence(
        p_of(statistic, null, scale_of_terms, exact=exact), statistic, correlation, n, permuted, len(null), exact, null
    )


def _matrix(kernel: Any, X: Any, name: str) -> Floats:
    if not isinstance(kernel, str):
        return gram_matrix(kernel, X)
    if np.ndim(X) != 1:
        raise ValueError(
            f"With 'labels', {name} must have one label per object; got shape {np.shape(X)}. Pass a kernel for other "
            "data, such as mc.RBF()."
        )
    numbers = numbered(X, count_of(X, name), name)
    if numbers.max() + 1 in (1, len(numbers)):
        what = "equal" if numbers.max() == 0 else "different"
        raise ValueError(f"All labels of {name} are {what}, so there is nothing to test. For numbers pass mc.RBF().")
    return np.asarray(numbers[:, None] == numbers, dtype=float)


def _constant(L: Floats, units: Indices) -> bool:
    """Whether all objects of a group are the same to the kernel: at distance zero of the first of them."""
    leader = np.unique(units, return_index=True)[1][units]
    own = np.diag(L)
    squared = own + own[leader] - 2 * L[np.arange(len(L)), leader]
    return bool((squared <= 1e-12 * np.abs(own).max()).all())


def _group_means(K: Floats, units: Indices) -> Floats:
    """Return the kernel of the mean embeddings of groups."""
    share = np.zeros((units.max() + 1, len(units)))
    share[units, np.arange(len(units))] = 1.0
    share /= share.sum(axis=1, keepdims=True)
    return np.asarray(share @ K @ share.T)


def _centered(K: Floats) -> Floats:
    """Return a matrix with zero diagonal whose off-diagonal rows sum to zero."""
    n, size = len(K), float(np.abs(K).max())
    K = K.copy()
    np.fill_diagonal(K, 0.0)
    rows = K.sum(axis=0)
    K -= (rows[:, None] + rows) / (n - 2)
    K += rows.sum() / ((n - 1) * (n - 2))
    np.fill_diagonal(K, 0.0)
    return K if np.abs(K).max() > 1e-13 * size else np.zeros_like(K)  # a constant kernel leaves rounding only
