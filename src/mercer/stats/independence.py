"""Are two observations of the same objects independent? The Hilbert-Schmidt criterion with any two kernels."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from mercer._array import Floats
from mercer._notices import warns_once
from mercer._parallel import n_threads, thread_map
from mercer._random import random_generator
from mercer.kernels import Confounded, Residualized
from mercer.kernels.base import unwrapped
from mercer.stats._assignments import Orders, all_or_drawn, members
from mercer.stats._confounds import Confounds, residual
from mercer.stats._fused import Widths, fused
from mercer.stats._input import (
    Indices,
    check_count,
    check_kernel,
    check_vectors,
    columns,
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
        The unbiased Hilbert-Schmidt independence criterion; without kernels, the soft maximum of the correlations over
        several widths.
    correlation : float
        The criterion in units of both variances: 0 on average under independence, at most 1.
    n : int
        Number of objects, or of groups if these are permuted.
    permuted : str
        What is permuted: "objects", "groups" or "objects within groups"; with confounds, "residuals of objects" or
        "objects within strata", for example.
    n_permutations : int
        Number of permutations.
    exact : bool
        Whether these are all permutations.
    null : ndarray of shape (n_permutations,)
        The statistic of every permutation.
    n_widths : tuple of int, default=(1, 1)
        Number of Gaussian kernels of X and of Z that the test combines.

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

    def __str__(self) -> str:
        verdict = "X and Z depend on each other" if self.p_value <= 0.05 else "No dependence was found"
        count = f"{'all ' if self.exact else ''}{self.n_permutations:,} permutations of {self.permuted}"
        if max(self.n_widths) > 1:
            count += f"; Gaussian kernels of {' x '.join(str(n) for n in self.n_widths if n > 1)} widths"
        return f"{verdict} ({p_text(self.p_value)}; {count}). Kernel correlation {self.correlation:.3f}; n = {self.n}."


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
        its side. An `RBF` or `Laplace` without ``gamma`` has ``gamma="median"`` here.
    groups : array-like of shape (N,), default=None
        The group of every object, such as the subject that it comes from: objects of one group are not independent. If
        X or Z is the same for all objects of a group, as a diagnosis is for all recordings of a subject, groups are
        compared by the means of their kernels and permuted as a whole. Otherwise objects are permuted within groups.
    confounds : array-like of shape (N, c) or (N,), default=None
        What both may depend on, such as age or site: text, booleans and numbers with at most five values are
        categories, within which objects are permuted. Other numbers are regressed out of the features of both kernels
        by a cubic spline, and residuals are permuted (Freedman and Lane 1983).
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
    root of the product of HSIC(X, X) and HSIC(Z, Z). With several widths, the statistic is the soft maximum of the
    correlations of all pairs of kernels, as in `two_sample_test`. With confounds, the matrices are those of residuals,
    and the mean of the criterion under independence is subtracted.

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
    sides = [_matrices(X, kernel_x, "X"), _matrices(Z, kernel_z, "Z")]
    units, known = unit_numbers(groups, n), None if confounds is None else Confounds.read(confounds, n)
    orders, permuted = Orders([np.arange(n)]), "objects"
    if units.max() + 1 < n:
        if any(_constant(side[0], units) for side in sides):
            sides = [[_group_means(K, units) for K in side] for side in sides]
            known, permuted = None if known is None else known.of_groups(units), "groups"
            orders = Orders([np.arange(len(sides[0][0]))])
        else:
            known, permuted = None if known is None else known.within(units), "objects within groups"
            orders = Orders(members(units))
    if known is not None:
        orders, permuted = known.orders(), known.permuted(permuted.partition(" ")[0])
    n = len(sides[0][0])
    if n < LEAST:
        raise ValueError(f"The test needs at least {LEAST} {permuted}; got {n}.")
    scale = float(np.prod([np.abs(side[0]).max() for side in sides]))
    pairs = Pairs.of(sides, known)
    cure = "Collect more objects, or coarser groups."
    drawn, exact = all_or_drawn(orders, int(n_permutations), rng, few=20, permuted=permuted, cure=cure)
    null = np.empty((len(drawn), len(sides[0]), len(sides[1])))

    def work(b: int) -> None:
        null[b] = pairs.correlations(drawn[b])

    thread_map(work, list(range(len(drawn))), threads=n_threads(), label="permutations")
    every = np.concatenate([pairs.correlations(np.arange(n))[None], null])
    if every[0].size > 1:
        values, scale = fused(every.reshape(len(every), -1).T, n), 1.0
    else:
        values = every[:, 0, 0] * pairs.size
    p = p_of(float(values[0]), values[1:], scale, exact=exact)
    widths = len(sides[0]), len(sides[1])
    return Independence(
        p,
        float(values[0]),
        pairs.first.correlation(pairs.second),
        n,
        permuted,
        len(drawn),
        exact,
        values[1:],
        n_widths=widths,
    )


@dataclass(frozen=True)
class Side:
    """Centered Gram matrices of one side, each divided by its norm.

    Parameters
    ----------
    matrices : ndarray of shape (A, n, n)
        The matrices.
    means : ndarray of shape (A,)
        Products of the means of both sides are the correlations under independence that centering leaves.
    norms : ndarray of shape (A,)
        What the matrices were divided by.
    """

    matrices: Floats
    means: Floats
    norms: Floats

    @classmethod
    def of(cls, matrices: Floats, freedom: float) -> Self:
        """Normalize matrices; ``freedom`` scales the contribution of their traces to each product."""
        traces = np.einsum("knn->k", matrices) / np.sqrt(freedom)
        norms = np.sqrt(np.maximum((matrices**2).sum(axis=(1, 2)) - traces**2, 0.0))
        divisor = np.where(norms > 0, norms, 1.0)
        return cls(matrices / divisor[:, None, None], traces / divisor, norms)

    def correlations(self, other: Side) -> Floats:
        """Return the correlation of every matrix with every one of the other side, ``(A, B)``."""
        flat = [side.matrices.reshape(len(side.matrices), -1) for side in (self, other)]
        return np.asarray(flat[0] @ flat[1].T - np.outer(self.means, other.means))

    def correlation(self, other: Side) -> float:
        """Return the correlation of the mean matrices of both sides."""
        size = np.sqrt(self.correlations(self).mean() * other.correlations(other).mean())
        return float(self.correlations(other).mean() / size) if size > 0 else 0.0


@dataclass(frozen=True)
class Pairs:
    """Both sides: centered without their diagonals or, with confounds, those of residuals."""

    first: Side
    second: Side
    basis: Floats | None
    again: bool
    """Whether permuted residuals are regressed on the confounds again (Freedman and Lane)."""

    @classmethod
    def of(cls, sides: list[list[Floats]], confounds: Confounds | None) -> Self:
        """Center the matrices of both sides."""
        if confounds is None:
            first, second = (Side.of(np.stack([_centered(K) for K in side]), 1.0) for side in sides)
            return cls(first, second, None, False)
        basis = confounds.basis()
        freedom = len(basis) - basis.shape[1]
        first, second = (Side.of(np.stack([residual(K, basis) for K in side]), freedom) for side in sides)
        return cls(first, second, basis, confounds.numbers.shape[1] > 0)

    @property
    def size(self) -> float:
        """Factor that turns the first correlation into the criterion."""
        n = self.first.matrices.shape[1]
        return float(self.first.norms[0] * self.second.norms[0]) / (n * (n - 3) if self.basis is None else n * n)

    def correlations(self, order: Indices) -> Floats:
        """Return the correlations with the objects of the second side in another order, ``(A, B)``."""
        moved = self.second.matrices[:, order[:, None], order]
        if not self.again or self.basis is None:
            return self.first.correlations(Side(moved, self.second.means, self.second.norms))
        freedom = len(self.basis) - self.basis.shape[1]
        return self.first.correlations(Side.of(np.stack([residual(K, self.basis) for K in moved]), freedom))


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
