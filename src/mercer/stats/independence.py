"""Are two observations of the same objects independent? The Hilbert-Schmidt criterion with any two kernels."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from mercer._array import Floats
from mercer._notices import warns_once
from mercer._random import random_generator
from mercer.kernels import Confounded, Residualized
from mercer.kernels.base import unwrapped
from mercer.stats._assignments import Orders, Signs, all_or_drawn, members
from mercer.stats._confounds import Confounds
from mercer.stats._fused import Widths, fused
from mercer.stats._input import (
    Indices,
    check_count,
    check_kernel,
    check_vectors,
    columns,
    count_of,
    gram_matrix,
    means_of_units,
    numbered,
    p_of,
    unit_numbers,
)
from mercer.stats._pairs import Pairs, Side
from mercer.stats._shown import Permuted, seed_of
from mercer.stats._smoothers import Smoothers

LEAST = 4
"""Number of objects below which the unbiased criterion is not defined."""


@dataclass(frozen=True, repr=False)
class Independence(Permuted):
    """Result of `independence_test`.

    Parameters
    ----------
    p_value : float
        Probability of a statistic at least as large if X and Z are independent.
    statistic : float
        The unbiased Hilbert-Schmidt independence criterion; without kernels, the soft maximum of the correlations over
        several widths.
    correlation : float
        The criterion in units of both variances: 0 on average under independence, at most 1.
    n : int
        Number of objects, or of groups if these are permuted.
    permuted : str
        What is permuted: "objects", "groups" or "objects within groups"; with confounds, "objects within strata" or
        "signs of residuals of objects", for example.
    n_permutations : int
        Number of permutations, or of random signs.
    exact : bool
        Whether these are all permutations.
    null : ndarray of shape (n_permutations,)
        The statistic of every permutation.
    n_widths : tuple of int, default=(1, 1)
        Number of Gaussian kernels of X and of Z that the test combines.
    seed : int or None, default=None
        Seed of the permutations, if ``random_state`` was a number.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> x = np.linspace(-1, 1, 30)[:, None]
    >>> found = mc.stats.independence_test(x, x**2)
    >>> found.p_value, found.n_widths
    (0.002, (5, 5))
    """

    p_value: float
    statistic: float
    correlation: float
    n: int
    permuted: str
    n_permutations: int
    exact: bool
    null: Floats = field(repr=False)
    n_widths: tuple[int, int] = (1, 1)
    seed: int | None = None

    def __str__(self) -> str:
        verdict = "X and Z depend on each other" if self.p_value <= 0.05 else "No dependence was found"
        several = " x ".join(str(n) for n in self.n_widths if n > 1)
        widths = f"; Gaussian kernels of {several} widths" if several else ""
        return (
            f"{verdict} ({self._p_value()}; {self._drawn()}{widths}). Kernel correlation {self.correlation:.3f}; "
            f"n = {self.n}."
        )

    def _rows(self) -> dict[str, str]:
        return {"correlation": f"{self.correlation:.3f}", "n": str(self.n)}


@warns_once
def independence_test(
    X: Any,
    Z: Any,
    kernel_x: Any = None,
    kernel_z: Any = None,
    *,
    groups: Any = None,
    confounds: Any = None,
    n_permutations: int = 999,
    random_state: Any = 0,
) -> Independence:
    r"""Test whether X and Z, two observations of the same objects, are independent.

    Parameters
    ----------
    X, Z : data
        Both observations of every object, in the same order: sequences and a trait, series and documents, ... 1-D
        arrays of numbers are columns.
    kernel_x, kernel_z : Kernel, "labels" or None, default=None
        Kernels of X and of Z. "labels" is 1 for equal labels and 0 for different ones. None is "labels" for text and
        booleans, one per object, and for numbers and vectors Gaussian kernels of several widths, which are combined in
        one test; pass "labels" for classes that are numbers. A fitted kernel is used as it is; any other is fitted to
        its side. An `RBF` or `Laplace` without ``gamma`` has ``gamma="median"`` here. Columns of vectors without a
        kernel are divided by their robust deviations, so that their units do not matter.
    groups : array-like of shape (N,), default=None
        The group of every object, such as the subject that it comes from: objects of one group are not independent. If
        X or Z is the same for all objects of a group, as a diagnosis is for all recordings of a subject, groups are
        compared by the means of their kernels and permuted as a whole. Otherwise objects are permuted within groups.
    confounds : array-like of shape (N, c) or (N,), default=None
        What both may depend on, such as age or site: text, booleans and numbers with at most five values are
        categories, within which objects are permuted. Other numbers are regressed out of vectors without a kernel, and
        out of the features of both kernels, by parabolas, jumps and curves that leave-one-out errors choose, and the
        signs of residuals are drawn at random; at least ten objects per number, and ten more, are required.
    n_permutations : int, default=999
        Number of random permutations, or of random signs with confounds that are numbers. If there are no more
        permutations than that, all of them are used.
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
    root of the product of HSIC(X, X) and HSIC(Z, Z). With several widths, the statistic is the soft maximum of the
    correlations of all pairs of kernels, as in `two_sample_test`. With confounds, the matrices are those of residuals,
    the mean of the criterion under independence is subtracted, and signs :math:`w_i w_j` of the terms are drawn (a wild
    bootstrap): unlike permutations, they keep that both residuals may vary more, or be more alike, where confounds have
    some values. The level is right up to what curves cannot describe; no test of conditional independence has its level
    for all distributions (Shah and Peters 2020).

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
    check_count(n_permutations, "n_permutations", 1)
    rng = random_generator(random_state)
    X, confounds = _without_confounds(X, confounds)
    n, other = (count_of(unwrapped(side), name) for side, name in ((X, "X"), (Z, "Z")))
    if n != other:
        raise ValueError(f"X and Z must be of the same objects; got {n} and {other}.")
    given = ((X, kernel_x, "X"), (Z, kernel_z, "Z"))
    sides = [_matrices(*side) for side in given]
    units, known = unit_numbers(groups, n), None if confounds is None else Confounds.read(confounds, n)
    orders: Orders | Signs = Orders([np.arange(n)])
    permuted, what = "objects", "objects"
    if units.max() + 1 < n:
        if any(_constant(side[0], units) for side in sides):
            sides = [[means_of_units(K, units) for K in side] for side in sides]
            known, permuted, what = None if known is None else known.of_groups(units), "groups", "groups"
            orders = Orders([np.arange(len(sides[0][0]))])
        else:
            known, permuted = None if known is None else known.within(units), "objects within groups"
            orders = Orders(members(units))
    smoothers = None
    if known is not None:
        orders, permuted, smoothers = known.orders(), known.permuted(what), known.smoothers(what)
        if what == "objects" and not known.are_strata:
            sides = [_residual_matrices(*side, smoothers) or side_ for side, side_ in zip(given, sides, strict=True)]
    n = len(sides[0][0])
    if n < LEAST:
        raise ValueError(f"The test needs at least {LEAST} {permuted}; got {n}.")
    first, second = (Side.of(side, smoothers) for side in sides)
    pairs = Pairs(first, second, orders)
    cure = "Collect more objects, or coarser groups."
    drawn, exact = all_or_drawn(orders, int(n_permutations), rng, few=20, permuted=permuted, cure=cure)
    every = np.concatenate([pairs.observed()[None], pairs.drawn(drawn)])
    if every[0].size > 1:
        values, scale = fused((every / pairs.sizes()).reshape(len(every), -1).T, n), 1.0
    else:
        values = every[:, 0, 0] / (n * (n - 3) if smoothers is None else n * n)
        scale = float(np.prod([np.abs(side[0]).max() for side in sides]))
    return Independence(
        p_of(float(values[0]), values[1:], scale, exact=exact),
        float(values[0]),
        pairs.correlation(),
        n,
        permuted,
        len(drawn),
        exact,
        values[1:],
        n_widths=(len(sides[0]), len(sides[1])),
        seed=seed_of(random_state),
    )


def _without_confounds(X: Any, confounds: Any) -> tuple[Any, Any]:
    """Return objects, and the confounds that came with them or next to them."""
    if not isinstance(X, Confounded):
        return X, confounds
    if confounds is not None:
        raise TypeError("X has confounds already (mc.Confounded). Pass all confounds at once.")
    return X.objects, X.confounds


def _matrices(X: Any, kernel: Any, name: str) -> list[Floats]:
    """Return the Gram matrices of a side: that of its kernel, or those of several widths."""
    parameter = f"kernel_{name.lower()}"
    if kernel is not None:
        check_kernel(kernel, parameter, "labels")
    if isinstance(kernel, str):
        return [_labels(unwrapped(X), name)]
    X = columns(X)
    if kernel is not None:
        return [gram_matrix(kernel.kernel if isinstance(kernel, Residualized) else kernel, X)]
    if name == "Z" and _has_labels(X):
        return [_labels(X, name)]
    check_vectors(X, parameter)
    found = list(Widths.of(X))
    if np.ptp(found[0]) == 0:
        raise ValueError(f"All values of {name} are equal, so there is nothing to test. Pass data that vary.")
    return found


def _residual_matrices(X: Any, kernel: Any, name: str, smoothers: Smoothers) -> list[Floats] | None:
    """Return the matrices of vectors without a kernel, of what confounds leave of every column; None for other data."""
    X = columns(X)
    if kernel is not None or (name == "Z" and _has_labels(X)):
        return None
    values = np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=float)
    values = values / np.maximum(np.abs(values).max(axis=0), np.finfo(float).tiny)
    left = np.column_stack([smoothers.fit([np.outer(one, one)]).residuals(one) for one in values.T])
    left[:, np.abs(left).max(axis=0) <= 1e-9 * values.std(axis=0)] = 0.0
    if not left.any():
        raise ValueError(
            f"The confounds determine all values of {name}, so nothing is left to test. Use fewer confounds."
        )
    return list(Widths.of(left))


def _has_labels(X: Any) -> bool:
    """Whether there is one value per object, rather than a row or a sequence."""
    if isinstance(X, list | tuple):
        return all(isinstance(value, str | bytes) or not hasattr(value, "__len__") for value in X)
    return (isinstance(X, np.ndarray) or hasattr(X, "iloc")) and X.ndim == 1


def _labels(X: Any, name: str) -> Floats:
    """Return the kernel of labels, 1 for equal ones."""
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
