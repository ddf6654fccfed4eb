"""Whole powers of the observed law of a model with hidden variables (PPK-4.0).

The power p(x)^r of p(x) = sum_h p(x, h) is a sum over r copies of the hidden variable. So it is a model of the same
kind, whose members are products of r laws. The copies are alike: multisets of members are enough, each as often as it
can be ordered.
"""

from __future__ import annotations

import math
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from mercer._array import Array, Floats, beside, logsumexp, namespace, safe_log
from mercer._checks import check_rho
from mercer._coupling import Coupling, PowerProduct
from mercer._special import gammaln

MOST_PRODUCTS = 2048
"""Products of components that a powered mixture may have: a pair of mixtures makes a table of their pairs."""
MOST_STATES = 512
"""Multisets of states, times products of components of their emissions, that a powered chain may have."""


def copies_of(coupling: Coupling, batch: Any) -> int:
    """Return how many copies of its hidden variables a model needs: 1 unless the power is of the observed law."""
    if not isinstance(coupling, PowerProduct) or not coupling.marginal:
        return 1
    check_rho(coupling.rho)
    require_whole(coupling.rho, type(batch).__name__)
    return int(coupling.rho)


def require_whole(rho: float, who: str) -> None:
    """Raise where the power of the observed law of a model with hidden variables has no exact form."""
    if not float(rho).is_integer():
        joint = "" if who == "KDEs" else ", or marginal=False"  # which has a closed form at rho = 1 alone, too
        raise ValueError(
            f"rho = {float(rho)!r} with marginal=True: {who} have hidden variables, and only whole powers of their "
            f"observed law are exact; give rho=1 or rho=2, say{joint}"
        )


def multisets(n: int, r: int, most: int, what: str, instead: str = "marginal=False") -> Floats:
    """Return the multisets of r of n members, ``(M, r)``, each in order; those of the first s members come first.

    Parameters
    ----------
    n, r : int
        Number of members, and of copies.
    most : int
        How many multisets there may be.
    what, instead : str
        What the members are, and what else a user can do, for the message.
    """
    count = math.comb(n + r - 1, r)
    if max(count, r) > most:
        raise ValueError(
            f"rho = {_shown(r)} with marginal=True takes {_shown(max(count, r))} products, of {_shown(r)} of {n} "
            f"{what} each, more than {most}: give a smaller rho, fewer {what}, or {instead}"
        )
    found = np.array(list(combinations_with_replacement(range(n), r)), dtype=np.int64).reshape(count, r)
    return found[np.argsort(found[:, -1], kind="stable")]  # sorted by their largest member, so that padding comes last


def _shown(count: int) -> str:
    return str(count) if count < 10**9 else f"10^{math.log10(count):.0f}"


def taken(batch: Any, members: Floats) -> Any:
    """Take members ``(M,)`` of the last batch axis of a batch, ``(*B, n) -> (*B, M)``."""
    *lead, n = batch.shape
    index = (np.arange(math.prod(lead))[:, None] * n + members).reshape(-1)
    return batch.reshape(-1)[index].reshape(*lead, len(members))


def products(batch: Any, members: Floats) -> tuple[Array, Any]:
    """Multiply laws: ``(*B, n)`` and members ``(M, r)`` to logarithms of constants and laws, both ``(*B, M)``."""
    r = members.shape[1]
    if not hasattr(batch, "multiplied"):
        raise TypeError(
            f"rho = {r} with marginal=True needs products of the laws of {type(batch).__name__}, which are no "
            f"{type(batch).__name__}: give rho=1 or marginal=False"
        )
    batch.couple(PowerProduct(float(r))).alone()  # raises where the power of a single law has no finite integral
    log_constant: Any = 0.0
    law = taken(batch, members[:, 0])
    for k in range(1, r):
        step, law = law.multiplied(taken(batch, members[:, k]))
        log_constant = log_constant + step
    return log_constant, law


def log_orders(members: Floats) -> Floats:
    """Logarithm of the number of orders of every multiset, ``(M, r) -> (M,)``."""
    orders = np.full(len(members), math.lgamma(members.shape[1] + 1))
    for member in np.unique(members):
        orders -= gammaln(np.sum(members == member, axis=-1) + 1.0)  # copies of one member have one order
    return orders


def weights(probability: Array, members: Floats, *, logs: bool) -> Array:
    """Probability that r independent draws are a multiset in any order, ``(..., n) -> (..., M)``; or its logarithm."""
    xp = namespace(probability)
    values = safe_log(probability) if logs else probability
    drawn = (xp.take(values, beside(values, column), axis=-1) for column in members.T)
    orders = log_orders(members)
    if logs:
        return sum(drawn, beside(values, orders, values.dtype))
    return math.prod(drawn, start=beside(values, np.rint(np.exp(orders)), values.dtype))


def transitions(transition: Array, members: Floats, *, logs: bool) -> Array:
    """Transitions of r independent copies of a chain from multisets to multisets, ``(N, n, n) -> (N, M, M)``.

    The copies move one after the other: the law of where the first k are is that of multisets of k.

    Parameters
    ----------
    transition : array of shape (N, n, n)
        Probabilities.
    members : ndarray of shape (M, r)
        All multisets.
    logs : bool
        Whether to return, and work in, logarithms.
    """
    xp, n = namespace(transition), int(transition.shape[-1])
    moves = safe_log(transition) if logs else transition
    rows = [xp.take(moves, beside(moves, column), axis=-2) for column in members.T]  # (N, M, n), one per copy
    law = rows[0]
    smaller: dict[tuple[int, ...], int] = {(j,): j for j in range(n)}
    for k in range(2, members.shape[1] + 1):
        reached = [tuple(m) for m in multisets(n, k, MOST_PRODUCTS, "states").tolist()]
        nowhere = xp.full_like(law[..., :1], -xp.inf if logs else 0.0)
        law, total = xp.concat([law, nowhere], axis=-1), None
        for j in range(n):  # the copy that moves now goes to j, where the others have reached the rest
            before = np.array([smaller[_without(m, j)] if j in m else len(smaller) for m in reached])
            rest, move = xp.take(law, beside(law, before), axis=-1), rows[k - 1][..., j : j + 1]
            term = rest + move if logs else rest * move
            if total is None:
                total = term
            else:
                total = logsumexp(xp.stack([total, term]), axis=0) if logs else total + term
        law, smaller = total, {m: i for i, m in enumerate(reached)}
    return law


def _without(multiset: tuple[int, ...], member: int) -> tuple[int, ...]:
    at = multiset.index(member)
    return multiset[:at] + multiset[at + 1 :]
