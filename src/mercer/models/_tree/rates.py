"""Continuous-time Markov chains along branches: transition matrices, and expected jumps and times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mercer._array import Array, Floats, to_numpy
from mercer._probability import ratio
from mercer.models.posterior import long_run


def as_numbers(values: Any, what: str, cure: str) -> Floats:
    """Return a parameter as an array of float64; raise if it is not numeric."""
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{what} must be {cure}; got {values!r}.") from None


def check_shapes(root: Array, transition: Array, leaf: Array, parent: Floats, leaf_parent: Floats) -> None:
    """Raise if the shapes of the arrays of a batch of trees do not fit together."""
    lead, s = tuple(root.shape[:-1]), int(root.shape[-1])
    for name, above in (("parent", parent), ("leaf_parent", leaf_parent)):
        if above.dtype.kind not in "iu":
            raise TypeError(f"{name} must be integers, the numbers of internal nodes; got dtype {above.dtype}.")
    n, n_leaves = (array.shape[-1] if array.ndim and array.shape[-1] else "n" for array in (parent, leaf_parent))
    for name, shape, wanted in (
        ("parent", parent.shape, (*lead, n)),
        ("leaf_parent", leaf_parent.shape, (*lead, n_leaves)),
        ("transition", tuple(transition.shape), (*lead, n, s, s)),
        ("leaf", tuple(leaf.shape), (*lead, n_leaves, s, leaf.shape[-1])),
    ):
        if shape != wanted:
            raise ValueError(f"{name} must have shape {wanted} for root of shape {(*lead, s)}; got {shape}.")


def check_nodes(parent: Floats, leaf_parent: Floats) -> None:
    """Raise if a parent does not come before its children."""
    n = parent.shape[-1]
    place = np.arange(n)
    least = np.where(place == 0, -1, 0)
    must = "-1 for the root, which comes first, or the number of an earlier node"
    for name, values, low, high, wanted in (
        ("parent", parent, least, place, must),
        ("leaf_parent", leaf_parent, 0, n, f"the number of an internal node, 0 to {n - 1}"),
    ):
        rows = values.reshape(-1, values.shape[-1])
        bad = np.argwhere((rows < low) | (rows >= high))
        if len(bad):
            i, k = (int(at) for at in bad[0])
            raise ValueError(f"{name}[{k}] of tree {i} is {rows[i, k]}. It must be {wanted}.")


def check_pruning(pruning: Array, lead: tuple[int, ...]) -> None:
    """Raise if ``pruning`` is not one probability per tree."""
    if tuple(pruning.shape) != lead:
        raise ValueError(f"pruning must be one number per tree, shape {lead}; got shape {tuple(pruning.shape)}.")
    values = to_numpy(pruning)
    if not np.all((values >= 0) & (values <= 1)):
        value = values[~((values >= 0) & (values <= 1))].ravel()[0]
        raise ValueError(f"pruning must be a probability, from 0 to 1; got {value}.")


def check_leaves(leaves: Sequence[str] | None, n: int) -> tuple[str, ...]:
    """Return the names of the n leaves; raise if they are not distinct strings."""
    if leaves is None:
        return tuple(str(i) for i in range(n))
    names = tuple(leaves)
    if len(names) != n or len(set(names)) != n or not all(isinstance(name, str) and name for name in names):
        raise ValueError(f"leaves must be {n} distinct names, one per leaf; got {list(names)!r}.")
    return names


FURTHEST = 1e30
"""Bound on the expected changes along a branch, far beyond which its ends are independent."""
TERMS = 18
"""Number of terms of the series of a matrix exponential: for norm 1/2 the remainder is below 1e-21."""


def equal_rate(n: int) -> Floats:
    """Return the matrix of equal rates, with one expected change per unit of length.

    Examples
    --------
    >>> equal_rate(3)
    array([[-1. ,  0.5,  0.5],
           [ 0.5, -1. ,  0.5],
           [ 0.5,  0.5, -1. ]])
    """
    if n == 1:
        return np.zeros((1, 1))
    return (np.ones((n, n)) - n * np.eye(n)) / (n - 1)


def checked_rate(rate: Any, n: int) -> Floats:
    """Return a matrix of rates whose rows sum to exactly zero; raise if it is not a rate matrix."""
    if isinstance(rate, str):
        if rate != "equal":
            raise ValueError(f"rate must be 'equal', or a matrix of rates of shape {(n, n)}; got {rate!r}.")
        return equal_rate(n)
    q = as_numbers(rate, "rate", f"'equal', or a matrix of rates of shape {(n, n)}")
    if q.shape != (n, n):
        raise ValueError(f"rate must have shape {(n, n)} for n_states = {n}; got shape {q.shape}.")
    off = ~np.eye(n, dtype=bool)
    bad = np.argwhere(~np.isfinite(q) | (off & (q < 0)))
    if len(bad):
        a, b = (int(i) for i in bad[0])
        raise ValueError(f"rate must be finite, and nonnegative off the diagonal; got {q[a, b]} at rate[{a}, {b}].")
    out = np.where(off, q, 0.0).sum(axis=1)
    wrong = np.flatnonzero(np.abs(q.sum(axis=1)) > 1e-6 * np.maximum(out, 1.0))
    if len(wrong):
        a = int(wrong[0])
        raise ValueError(
            f"rate[{a}] sums to {q[a].sum():.6g}, not to zero. Its diagonal entry must be {-out[a]:.6g}, minus the sum "
            "of the other rates."
        )
    q[~off] = -out
    return q


def stationary_of(rate: Floats) -> Floats:
    """Return the long-run distribution of the chain from a uniform start."""
    n = len(rate)
    fastest = max(float(-np.diagonal(rate).min()), 1e-300)
    return np.asarray(long_run(np.full((1, n), 1.0 / n), (np.eye(n) + rate / (2 * fastest))[None])[0])


def changes(rate: Floats, lengths: Floats) -> Floats:
    """Compute probabilities of change along branches, ``(E, S, S)``: exp(length rate), with rows that sum to one.

    Examples
    --------
    >>> changes(np.array([[-1.0, 1.0], [3.0, -3.0]]), np.array([0.0, 1e200]))[:, 0].round(4)
    array([[1.  , 0.  ],
           [0.75, 0.25]])
    """
    parts, halvings = _parts(rate, lengths)
    found = _rows(exponentials(parts[:, None, None] * rate))
    for _ in range(halvings):
        found = _rows(found @ found)
    return found


def _parts(rate: Floats, lengths: Floats) -> tuple[Floats, int]:
    """Halve branches until few changes occur along them; return the lengths and the number of halvings."""
    fastest = float(-np.diagonal(rate).min(initial=0.0))
    if fastest > 0:
        lengths = np.minimum(lengths, FURTHEST / fastest)
    norm = fastest * float(lengths.max(initial=0.0))
    halvings = max(0, int(np.ceil(np.log2(norm)))) if norm > 0 else 0
    return lengths / 2.0**halvings, halvings


def _rows(found: Floats) -> Floats:
    """Renormalize rows, so that they do not drift under repeated squaring."""
    return found / found.sum(axis=-1, keepdims=True)


def exponentials(matrices: Floats) -> Floats:
    """Compute exponentials of matrices ``(E, n, n)`` that are nonnegative off the diagonal, all at once.

    A multiple of the identity makes the diagonal nonnegative; then a short series is squared repeatedly. There are no
    subtractions, so small probabilities have full relative accuracy, too.

    Examples
    --------
    >>> rates = np.array([[[-1.0, 1.0], [0.0, 0.0]], [[-50.0, 50.0], [0.0, 0.0]]])
    >>> exponentials(rates)[:, 0].round(4)
    array([[0.3679, 0.6321],
           [0.    , 1.    ]])
    """
    shift = np.maximum(-np.diagonal(matrices, axis1=1, axis2=2).min(axis=1, initial=0.0), 0.0)[:, None, None]
    positive = matrices + shift * np.eye(matrices.shape[-1])
    norm = float(np.max(positive.sum(axis=-1), initial=0.0))
    halvings = max(0, int(np.ceil(np.log2(norm))) + 1) if norm > 0 else 0
    small = positive / 2.0**halvings
    term = np.broadcast_to(np.eye(matrices.shape[-1]), matrices.shape)
    found = term.copy()
    for k in range(1, TERMS):
        term = term @ small / k
        found = found + term
    found = found * np.exp(-shift / 2.0**halvings)
    for _ in range(halvings):
        found = found @ found
    return found


def jumps_and_times(rate: Floats, lengths: Floats, matrices: Floats, counts: Floats) -> tuple[Floats, Floats]:
    r"""Return expected numbers of jumps ``(S, S)`` and times in the states ``(S,)``, summed over branches.

    Given expected numbers n(a, b) of branches of length t from state a to state b, with probabilities P, both follow
    from one integral per branch, :math:`M = \int_0^t e^{R(t-u)} W^\top e^{Ru} du` with W = n / P. The expected number
    of jumps from i to j is R[i, j] M[j, i], and the expected time in i is M[i, i]. The integral is a block of the
    exponential of a matrix of twice the size (Van Loan 1978).

    Examples
    --------
    >>> # a branch of length 2 from 0 to 0: no jump, all time in 0
    >>> rate = np.array([[-1.0, 1.0], [0.0, 0.0]])
    >>> lengths, counts = np.array([2.0]), np.array([[[1.0, 0.0], [0.0, 0.0]]])
    >>> jumps, times = jumps_and_times(rate, lengths, changes(rate, lengths), counts)
    >>> jumps.round(6) + 0.0, times.round(6)
    (array([[0., 0.],
           [0., 0.]]), array([2., 0.]))
    """
    s = len(rate)
    weights = ratio(counts, matrices)
    parts, halvings = _parts(rate, lengths)
    double = np.zeros((len(lengths), 2 * s, 2 * s))
    double[:, :s, :s] = double[:, s:, s:] = parts[:, None, None] * rate
    scale = np.maximum(weights.max(axis=(1, 2), keepdims=True), 1e-300)  # so that large counts do not swamp the rates
    double[:, :s, s:] = np.swapaxes(weights / scale, 1, 2)
    both = exponentials(double)  # for the halved branch; the integral is in units of its length
    change, within = _rows(both[:, :s, :s]), both[:, :s, s:]
    for _ in range(halvings):
        within = change @ within + within @ change
        change = _rows(change @ change)
    integral = np.maximum((within * scale * parts[:, None, None]).sum(axis=0), 0.0)
    times = np.diagonal(integral).copy()
    jumps = rate * integral.T
    np.fill_diagonal(jumps, 0.0)
    return jumps, times
