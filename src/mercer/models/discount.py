"""Kernels of sequences of random length: a geometrically weighted sum over all lengths (PPK-4.2b)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from mercer._array import Array, Floats, Indices, Mask, beside, logsumexp, namespace, to_numpy
from mercer._checks import is_number

TAIL = 1e-13
"""Relative error of a sum over all lengths."""
FIRST_LENGTHS, MOST_LENGTHS = 48, 3 << 16
"""Numbers of lengths that a sum begins with, and after which it is given up."""
_ENOUGH = 1024
"""Number of lengths after which a sum whose terms still grow is infinite."""
_NUMBERS = 1 << 23
"""Maximum number of terms in memory at once, except of one row: 64 MB."""


@dataclass(frozen=True)
class Discounted:
    r"""A sum over all lengths, in which length L has the weight :math:`(1-d) d^{L-1}`.

    Pass it as the ``length`` of `ProbabilityProduct` or `MeanMap`. The compared sequences then have a random length,
    one observation or more, :math:`1/(1-d)` on average.

    Parameters
    ----------
    d : float
        Between 0 and 1. Near 0 only the first observation counts, near 1 long sequences do.

    Notes
    -----
    .. math:: k_d = \sum_{L \ge 1} (1-d)\, d^{L-1} k_L

    (PPK-4.2b): a positive sum of kernels, so a kernel. It is finite where d times the spectral radius of the coupled
    operator is below 1. That always holds for mean maps, and for probability products of symbols and counts at
    rho >= 1; otherwise an error names a model for which it does not. If it holds for every model with itself, it
    holds for every pair (Cauchy and Schwarz, first for k_L, then for the sum).

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> coins = mc.HMMs(
    ...     initial=[[1.0], [1.0]],
    ...     transition=[[[1.0]], [[1.0]]],
    ...     emission=mc.Categoricals([[[0.5, 0.5]], [[0.9, 0.1]]], alphabet="HT"),
    ... )
    >>> mc.ProbabilityProduct(rho=1.0, length=mc.Discounted(0.8))(coins).round(4)
    array([[1.    , 0.5913],
           [0.5913, 1.    ]])
    """

    d: float

    def __post_init__(self) -> None:
        if not is_number(self.d) or not 0 < float(self.d) < 1:
            raise ValueError(f"d of Discounted must be between 0 and 1, such as 0.9; got {self.d!r}.")


Lengths: TypeAlias = "tuple[int, ...] | Discounted"
"""The lengths that a kernel of sequence models uses: one table per length, or one discounted sum."""


def check_lengths(lengths: Lengths | None) -> None:
    """Raise if a kernel of sequence models has no length."""
    if lengths is None:
        raise ValueError(
            "Kernels between models of sequences need a length. Pass length=10 to the kernel, for "
            "example, or length=mc.Discounted(0.9) for all lengths at once."
        )


def discounted_sum(table: Callable[[Indices, slice], Array], d: float, models: Indices) -> Array:
    """Sum log kernels over all lengths L, with the weights ``(1 - d) d^(L - 1)``.

    The first lengths are added up. What follows them is negligible or, where every further length multiplies a kernel
    by the same factor, a geometric series; otherwise twice as many are added up.

    Parameters
    ----------
    table : callable
        Called with lengths ``(H,)``, 1 to H, and a slice of R rows; returns log kernels, ``(H, R, ...)``.
    d : float
        The discount.
    models : ndarray of int of shape (N,)
        The model of each row, which an error names.

    Returns
    -------
    array of shape (N, ...)
        Logarithms.
    """

    def over(begin: int, end: int, count: int) -> Array:
        lengths = np.arange(1, count + 1)
        terms = table(lengths, slice(begin, end))
        xp = namespace(terms)
        weights = beside(terms, np.log1p(-d) + (lengths - 1) * np.log(d), terms.dtype)
        terms = terms + xp.reshape(weights, (-1, *(1 for _ in terms.shape[1:])))
        total = logsumexp(terms, axis=0)
        rate, negligible, steady = _rest(to_numpy(terms), to_numpy(total))
        infinite = np.argwhere((steady | (count >= _ENOUGH)) & ~negligible & (rate > -1e-12))
        if len(infinite):
            growth = float(np.exp(rate[tuple(infinite[0])])) / d
            raise ValueError(
                f"The discounted kernel of model {models[begin + infinite[0][0]]} with itself is infinite: its kernel "
                f"grows {growth:.6g} times with every observation, and d = {d} times that is not below 1. Use a d "
                f"below {1 / growth:.4g}."
            )
        series = beside(total, steady & ~negligible)
        factor = xp.where(series, (terms[-1, ...] - terms[-1 - count // 8, ...]) / (count // 8), -1.0)
        found = xp.where(series, xp.logaddexp(total, terms[-1, ...] + factor - xp.log(-xp.expm1(factor))), total)
        if (negligible | steady).all():
            return found
        if 2 * count > MOST_LENGTHS:
            raise ArithmeticError(
                f"The discounted kernel of a pair has not converged after {count} lengths. Use a d smaller than {d}."
            )
        step = max(1, _NUMBERS // (2 * count * int(np.prod(terms.shape[2:]))))
        parts = [over(first, min(first + step, end), 2 * count) for first in range(begin, end, step)]
        return xp.where(beside(total, negligible | steady), found, xp.concat(parts, axis=0))

    return over(0, len(models), FIRST_LENGTHS)


def sum_of_pairs(left: Any, right: Any) -> Array:
    """Log kernels of all pairs of operands over all lengths, ``(1, I, J)``; the method ``at`` sets their lengths."""

    def table(lengths: Indices, rows: slice) -> Array:
        first, second = left.at(lengths), right.at(lengths)
        if rows != slice(0, len(left)):
            return first[rows].pair(second)
        return first.pair(first if left is right else second)

    return discounted_sum(table, left.lengths.d, np.arange(len(left)))[None, ...]


def sum_of_selves(operand: Any) -> Array:
    """Log self-kernels of an operand over all lengths, ``(1, N)``; raises if one is infinite."""
    models = np.arange(len(operand))
    return discounted_sum(lambda lengths, rows: operand.at(lengths)[rows].alone(), operand.lengths.d, models)[None, ...]


def _rest(terms: Floats, total: Floats) -> tuple[Floats, Mask, Mask]:
    """Judge what follows the first terms, ``(H, ...)``, of sums with the logarithms ``total``.

    Returns the logarithm of the factor from one term to the next, averaged over the last eighth of the terms; whether
    what follows is negligible; and whether it is a geometric series, because that factor does not change any more.
    """
    count, window = len(terms), len(terms) // 8
    last, before = terms[-window:].max(axis=0), terms[-2 * window : -window].max(axis=0)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        rate = np.where(last > -np.inf, (last - before) / window, -np.inf)
        weight = np.where(rate < 0, -1 / np.expm1(np.minimum(rate, -1e-300)), np.inf)  # of all terms after one
        share = np.exp(last + np.log(weight) - total)  # of what follows, in the sum
        negligible = (rate < 0) & ~(share > TAIL)
        change = np.abs(np.diff(terms[-window - 1 :], axis=0) - rate).max(axis=0)
        noise = 8 * np.finfo(terms.dtype).eps * np.maximum(np.abs(terms[-1]), 1.0)
        # A slow change hides in rounding errors: there must be as many terms as matter of those after them.
        steady = (change <= noise + TAIL / (weight * share)) & ((weight <= count) | (rate > -1e-12))
    return rate, negligible, steady
