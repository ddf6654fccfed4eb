"""Whole powers of the observed distribution of a model with hidden variables (PPK-4.0).

The power p(x)^r of p(x) = sum_h p(x, h) is a sum over r copies of the hidden variable. It is therefore a model of the
same kind, whose members are products of r distributions. The copies are interchangeable, so multisets of members are
enough, each weighted by its number of orders.
"""

from __future__ import annotations

import math
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from mercer._array import Array, Floats, Indices, beside, logsumexp, namespace, safe_log
from mercer._checks import check_rho
from mercer._coupling import Coupling, PowerProduct
from mercer._special import gammaln

MOST_PRODUCTS = 2048
"""Maximum number of products of components in a powered mixture; a pair of mixtures needs a table of their pairs."""
MOST_STATES = 512
"""Maximum number of multisets of states, times products of components of their emissions, in a powered chain."""


def copies_of(coupling: Coupling, batch: Any) -> int:
    """Return the number of copies of the hidden variables of a model; 1 unless ``coupling.marginal``."""
    if not isinstance(coupling, PowerProduct) or not coupling.marginal:
        return 1
    check_rho(coupling.rho)
    require_whole(coupling.rho, type(batch).__name__)
    return int(coupling.rho)


def require_whole(rho: float, who: str) -> None:
    """Raise if ``rho`` is not a whole number: only whole powers of the observed distribution are exact."""
    if not float(rho).is_integer():
        joint = "" if who == "KDEs" else ", or marginal=False"  # for KDEs, that too has a closed form only at rho = 1
        raise ValueError(
            f"rho must be a whole number with marginal=True, because {who} have hidden variables; got {float(rho)!r}. "
            f"Use rho=1 or rho=2, for example{joint}."
        )


def multisets(n: int, r: int, most: int, what: str, instead: str = "marginal=False") -> Indices:
    """Return the multisets of r of n members, ``(M, r)``, each sorted; those of the first s members come first.

    Parameters
    ----------
    n, r : int
        Number of members, and of copies.
    most : int
        Maximum number of multisets.
    what, instead : str
        The kind of the members, and an alternative for the user, for the message.
    """
    count = math.comb(n + r - 1, r)
    if max(count, r) > most:
        raise ValueError(
            f"rho = {_shown(r)} with marginal=True needs {_shown(max(count, r))} products of {_shown(r)} of {n} "
            f"{what}; the limit is {most}. Use a smaller rho, fewer {what}, or {instead}."
        )
    found = np.array(list(combinations_with_replacement(range(n), r)), dtype=np.int64).reshape(count, r)
    return found[np.argsort(found[:, -1], kind="stable")]  # by their largest member, so that padding comes last


def _shown(count: int) -> str:
    return str(count) if count < 10**9 else f"10^{math.log10(count):.0f}"


def taken(batch: Any, members: Indices) -> Any:
    """Select members ``(M,)`` along the last batch axis, ``(*B, n) -> (*B, M)``."""
    *lead, n = batch.shape
    index = (np.arange(math.prod(lead))[:, None] * n + members).reshape(-1)
    return batch.reshape(-1)[index].reshape(*lead, len(members))


def products(batch: Any, members: Indices) -> tuple[Array, Any]:
    """Multiply r members each, ``(*B, n)`` and ``(M, r)`` to log constants and distributions, both ``(*B, M)``."""
    r = members.shape[1]
    if not hasattr(batch, "multiplied"):
        raise TypeError(
            f"rho = {r} with marginal=True needs a family that is closed under products, which {type(batch).__name__} "
            "is not. Use rho=1 or marginal=False."
        )
    batch.couple(PowerProduct(float(r))).alone()  # raises if the power of a single distribution is not integrable
    log_constant: Any = 0.0
    product = taken(batch, members[:, 0])
    for k in range(1, r):
        step, product = product.multiplied(taken(batch, members[:, k]))
        log_constant = log_constant + step
    return log_constant, product


def log_orders(members: Indices) -> Floats:
    """Return the logarithm of the number of orders of each multiset, ``(M, r) -> (M,)``."""
    orders = np.full(len(members), math.lgamma(members.shape[1] + 1))
    for member in np.unique(members):
        orders -= gammaln(np.sum(members == member, axis=-1) + 1.0)  # equal members have only one order
    return orders


def weights(probability: Array, members: Indices, *, logs: bool) -> Array:
    """Compute the probability, or its log, that r independent draws are a multiset, ``(..., n) -> (..., M)``."""
    xp = namespace(probability)
    values = safe_log(probability) if logs else probability
    drawn = (xp.take(values, beside(values, column), axis=-1) for column in members.T)
    orders = log_orders(members)
    if logs:
        return sum(drawn, beside(values, orders, values.dtype))
    return math.prod(drawn, start=beside(values, np.rint(np.exp(orders)), values.dtype))


def transitions(transition: Array, members: Indices, *, logs: bool) -> Array:
    """Compute transitions of r independent copies of a chain between multisets, ``(N, n, n) -> (N, M, M)``.

    The copies move one after the other; after k moves, the distribution of the first k copies is over multisets of k.

    Parameters
    ----------
    transition : array of shape (N, n, n)
        Probabilities.
    members : ndarray of shape (M, r)
        All multisets.
    logs : bool
        Whether to compute and return logarithms.
    """
    xp, n = namespace(transition), int(transition.shape[-1])
    moves = safe_log(transition) if logs else transition
    rows = [xp.take(moves, beside(moves, column), axis=-2) for column in members.T]  # (N, M, n), one per copy
    reached_by = rows[0]  # distribution of the copies that have moved
    smaller: dict[tuple[int, ...], int] = {(j,): j for j in range(n)}
    for k in range(2, members.shape[1] + 1):
        reached = [tuple(m) for m in multisets(n, k, MOST_PRODUCTS, "states").tolist()]
        zero = xp.full_like(reached_by[..., :1], -xp.inf if logs else 0.0)
        reached_by, total = xp.concat([reached_by, zero], axis=-1), None
        for j in range(n):  # copy k moves to j, after the other copies have reached the rest of the multiset
            before = np.array([smaller[_without(m, j)] if j in m else len(smaller) for m in reached])
            rest, move = xp.take(reached_by, beside(reached_by, before), axis=-1), rows[k - 1][..., j : j + 1]
            term = rest + move if logs else rest * move
            if total is None:
                total = term
            else:
                total = logsumexp(xp.stack([total, term]), axis=0) if logs else total + term
        reached_by, smaller = total, {m: i for i, m in enumerate(reached)}
    return reached_by


def _without(multiset: tuple[int, ...], member: int) -> tuple[int, ...]:
    at = multiset.index(member)
    return multiset[:at] + multiset[at + 1 :]
