"""Kernels of sequences of random length: a geometrically weighted sum over all lengths (PPK-4.2b)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from mercer._array import Array, Floats, Indices, namespace, to_numpy
from mercer._checks import is_number

TAIL = 1e-13
"""Relative error of a truncated discounted sum."""
MOST_STEPS = 100_000
"""Maximum number of terms of a discounted sum."""
_HOPELESS = 300.0  # no bound of a convergent sum has so large a logarithm
_FIRST_STEPS = 64  # lengths that the sum of a table begins with
_TRIAL = 2000  # after this many terms the rate of convergence shows if MOST_STEPS are enough


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


def too_slow(d: float, steps: int) -> ArithmeticError:
    """Return the error of a sum that has not converged after ``steps`` terms."""
    return ArithmeticError(
        f"The discounted kernel of a pair has not converged after {steps} lengths. Use a d smaller than {d}."
    )


def infinite(i: int, growth: float, d: float) -> ValueError:
    """Return the error of a model whose self-kernel is infinite."""
    return ValueError(
        f"The discounted kernel of model {i} with itself is infinite: its kernel grows {growth:.6g} times with every "
        f"observation, and d = {d} times that is not below 1. Use a d below {1 / growth:.4g}."
    )


def discounted_sum(terms: Iterable[tuple[Array, Array]], d: float) -> Array:
    """Sum the kernels of all lengths, in logarithms, until the remainder is negligible.

    Parameters
    ----------
    terms : iterable of pairs of arrays
        For L = 1, 2, ...: the logarithms of k_L, and those of numbers g_L (of a shape that broadcasts) for which
        ``k_{L+M} <= g_L k_M`` for all M >= 1. With ``k_L = v Op^{L-1} 1`` the largest entry of ``Op^L 1`` is one.
    d : float
        The discount.

    Returns
    -------
    array
        log of ``sum (1 - d) d^(L-1) k_L``, with a relative error of 1e-13; NaN where the sum has not converged after
        ``MOST_STEPS`` terms.

    Notes
    -----
    The remainder after the first L terms is at most ``x + x^2 + ...`` times their sum, with ``x = d^L g_L``.
    """
    total: Array = None
    for count, (log_kernel, log_bound) in enumerate(terms):
        xp = namespace(log_kernel)
        term = log_kernel + (count * float(np.log(d)) + float(np.log1p(-d)))
        total = term if total is None else xp.logaddexp(total, term)
        rest = to_numpy(log_bound) + (count + 1) * np.log(d)
        if not np.any(rest > np.log(TAIL)):
            return total
        slow = count == _TRIAL and np.any(rest > np.log(TAIL) * _TRIAL / MOST_STEPS)
        if slow or count + 1 >= MOST_STEPS or np.any(rest > _HOPELESS):
            break
    xp = namespace(total)
    unfinished = np.broadcast_to(rest > np.log(TAIL), total.shape)
    return xp.where(xp.asarray(unfinished, device=total.device), xp.nan, total)


def summed_table(table: Callable[[Indices], Floats], d: float, models: Indices) -> Floats:
    """Sum the kernels of all lengths, for kernels that end up multiplied by the same factor at every further length.

    Parameters
    ----------
    table : callable
        Log kernels of P pairs at lengths ``(H,)``, as ``(H, P)``.
    d : float
        The discount.
    models : array of int of shape (P,)
        Model of each pair that an error names.

    Returns
    -------
    array of shape (P,)
        log of ``sum (1 - d) d^(L-1) k_L``.
    """
    count = _FIRST_STEPS
    while True:
        lengths = np.arange(1, count + 1)
        terms = table(lengths) + (lengths[:, None] - 1) * np.log(d) + np.log1p(-d)
        rates = np.diff(terms[-3:], axis=0)  # negative where the sum converges
        steady = np.abs(rates[1] - rates[0]) <= TAIL * np.maximum(np.abs(rates[1]), 1.0)
        top = terms.max(axis=0)
        total = top + np.log(np.exp(terms - top).sum(axis=0))
        gone = terms[-1] - total < np.log(TAIL)
        if np.all(steady | (gone & (rates[1] < 0))):
            break
        if count >= MOST_STEPS:
            raise too_slow(d, count)
        count = min(2 * count, MOST_STEPS)
    growing = np.flatnonzero(rates[1] >= 0)
    if len(growing):
        raise infinite(int(models[growing[0]]), float(np.exp(rates[1][growing[0]]) / d), d)
    return np.asarray(np.logaddexp(total, terms[-1] + rates[1] - np.log(-np.expm1(rates[1]))))
