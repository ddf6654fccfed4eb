"""Distances between processes over all lengths."""

from __future__ import annotations

from typing import Any

from mercer._array import Array
from mercer.kernels.probabilityproduct import ProbabilityProduct
from mercer.models.discount import Discounted
from mercer.stats._input import one_model


def process_distance(p: Any, q: Any = None, *, discount: float = 0.9, rho: float = 1.0) -> Array:
    r"""Return distances between processes, over sequences of all lengths, in closed form.

    Parameters
    ----------
    p, q : batch, or fitted estimator
        Hidden Markov models, Markov chains, linear dynamical systems, ...: models of sequences. Without q, distances
        within p.
    discount : float, default=0.9
        Sequences of length L have the weight ``(1 - discount) discount^(L - 1)``: the mean length is
        ``1 / (1 - discount)``.
    rho : float, default=1.0
        Power of the probabilities. 1 compares the distributions of the observations; for models with hidden states,
        any other power compares joint distributions of states and observations.

    Returns
    -------
    array of shape (N, M)
        Distances from 0 to the root of 2.

    Notes
    -----
    The distance is that of normalized functions,

    .. math:: d(p, q)^2 = 2 - 2 \frac{k(p, q)}{\sqrt{k(p, p)\,k(q, q)}}, \qquad
        k(p, q) = \sum_L (1 - d)\,d^{L-1} \sum_{x_{1:L}} p(x)^\rho q(x)^\rho

    (PPK-4.2b), computed as :math:`-2\,\mathrm{expm1}` of a difference of logarithms: squared distances are exact to
    about 1e-15, so that distances down to about 1e-7 can be told apart. Two models with different numbers of hidden
    states have distance 0 if they are the same process.

    Examples
    --------
    >>> import mercer as mc
    >>> coins = mc.MarkovChains(
    ...     [[0.5, 0.5]] * 2, [[[q, 1 - q], [1 - q, q]] for q in (0.5, 0.9)], alphabet="ab"
    ... )
    >>> mc.stats.process_distance(coins).round(4)
    array([[0.    , 0.7872],
           [0.7872, 0.    ]])
    """
    first = one_model(p, "p")
    second = None if q is None else one_model(q, "q")
    kernel = ProbabilityProduct(rho=rho, length=Discounted(discount))
    return kernel.distance(first) if second is None else kernel.distance(first, second)
