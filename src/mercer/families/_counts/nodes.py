"""Few counts and weights that stand for the sum over all counts, where the summand is smooth."""

from __future__ import annotations

import numpy as np
from scipy.special import erfc

from mercer._array import Floats

MOST_NODES = 1 << 18
"""Counts that a sum may take."""
SPREAD = 0.4  # of the step from single counts to nodes, in log counts: six of them make it complete to 1e-17


def count_nodes(successes: float, reach: float, rho: float) -> tuple[Floats, Floats]:
    """Return nodes x and weights w with sum of w f(x) = sum of f(0), f(1), ... to all digits.

    f is the power rho of a product of two negative binomial distributions. Small counts are summed one by one. For
    large ones the sum is an integral, since f is smooth there: the curvature of its logarithm is at most
    2 rho (1/k - 1/(k + r)), r the larger number of successes. With k = r sinh(t / 2)^2 that is at most 2 rho r in t
    everywhere, so equal steps of t, half of such a deviation and at most 1/8, integrate it to full accuracy. A smooth
    step from 0 to 1 joins the two ranges.

    Parameters
    ----------
    successes : float
        The largest number of successes of all distributions.
    reach : float
        A count beyond which f is negligible.
    rho : float
        The power.

    Returns
    -------
    nodes, weights : arrays of shape (K,)
    """
    sharp = max(1.0, 2 * rho)
    middle = 16 * sharp
    single = int(middle * np.exp(6 * SPREAD)) + 1
    if reach <= single:
        nodes = np.arange(32.0 * np.ceil((reach + 1) / 32))
        return nodes, np.ones(len(nodes))
    r = max(successes, 1.0)
    step = min(0.125, 0.5 / np.sqrt(sharp * r))
    low, high = (2 * np.arcsinh(np.sqrt(x / r)) for x in (middle * np.exp(-6 * SPREAD), reach))
    size = int((high - low) / step) + 2
    if size > MOST_NODES:
        raise ValueError(
            f"The probability product of NegativeBinomials with count = {successes:.6g}, up to counts of {reach:.6g}, "
            f"needs {float(size):.3g} terms, more than {MOST_NODES}. Divide the counts by a constant, or use Poissons "
            "(estimate='point'), which are close to negative binomials with such a count."
        )
    x = r * np.sinh((low + step * np.arange(size)) / 2) ** 2
    k = np.arange(single + 1.0)
    nodes = np.concatenate([k, x])
    weights = np.concatenate([1 - _taken(k, middle), step * np.sqrt(x) * np.sqrt(x + r) * _taken(x, middle)])
    return nodes, weights


def _taken(x: Floats, middle: float) -> Floats:
    """Return the part of a count's term that the integral takes: a smooth step from 0 to 1 about ``middle``."""
    return np.asarray(erfc(-np.log(np.maximum(x, 1e-300) / middle) / SPREAD) / 2)
