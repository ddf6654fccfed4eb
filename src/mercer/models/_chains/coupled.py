"""The coupled chain: one recursion for every kernel between hidden Markov models (PPK-4.2, GMMK-6).

For two models with initial weights pi, pi', transition weights A, A' and leaf kernels psi,

    Phi_1 = (pi pi'^T) o psi,    Phi_{t+1} = (A^T Phi_t A') o psi,    k_L = sum of Phi_L,

where o multiplies entry by entry. Weights are nonnegative and need not sum to one. The recursion is written twice:
compiled, for float64 in NumPy (`mercer._native.chains`), and in array code, for many states and other libraries
(`mercer.models._chains.sweep`, with gradients in `mercer.models._chains.adjoint`). Pairs that leave the floating-point
range are repeated with numbers of unlimited range (`mercer._native.chains`), or as logarithms.
"""

from __future__ import annotations

import itertools

import numpy as np
from array_api_compat import is_numpy_array

from mercer._array import Array, Floats, namespace
from mercer._rescue import rescued
from mercer.models._chains.adjoint import differentiable_chains, needs_gradient
from mercer.models._chains.layout import Aligned, Tile
from mercer.models._chains.rescue import (
    doubt,
    nothing_lost,
    pieces,
    replace_unsound,
    rescue,
    robust_weight,
    smallest_weight,
    take_pairs,
    upper_bound,
)
from mercer.models._chains.sweep import Side, log_sweep, steps_between_scalings, sweep

# Up to these sizes, SIMD lanes are faster than products of large matrices.
_LANE_STATES = 40
_LANE_SYMBOLS = 64


def chain_tile(n_states: int) -> int:
    """Recommend the number of models on each side of a tile.

    Parameters
    ----------
    n_states : int
        Number of hidden states.

    Returns
    -------
    int
        A multiple of eight, such that a tile takes one to ten milliseconds and its tables fit into the cache.
    """
    for states, tile in ((4, 256), (8, 128), (24, 64), (_LANE_STATES, 32)):
        if n_states <= states:
            return tile
    return 8


def coupled_chains(left: Side, right: Side, psi: Array, log_scale: Array, lengths: tuple[int, ...]) -> Array:
    """Compute the log kernels of all pairs of two sets of chains (PPK-4.2).

    Parameters
    ----------
    left, right : pair of arrays
        Initial and transition weights, probabilities to the power rho: (I, n) and (I, n, n), (J, m) and (J, m, m).
    psi : array of shape (I * n, J * m)
        Leaf kernels, each pair of models scaled to a maximum of about one.
    log_scale : array of shape (I, J)
        Logarithm of the factor taken out of ``psi``; it counts once per time step.
    lengths : tuple of int
        Strictly increasing numbers of time steps, at least 1; one sweep serves all of them.

    Returns
    -------
    array of shape (H, I, J)
        Logarithms of the kernels, one table per length; -inf if a kernel is zero.
    """
    lengths = _checked_lengths(lengths)
    values = rescue(_all_pairs(left, right, psi, lengths), left, right, psi, lengths)
    return values + _length_column(values, lengths) * log_scale


def coupled_chains_inner(left: tuple[Array, ...], right: tuple[Array, ...], lengths: tuple[int, ...]) -> Array:
    """Do the same where leaf kernels are inner products of nonnegative features.

    The features, (I, n, k) and (J, m, k), are the third array of each side; for categorical emissions they are
    probabilities to the power rho.
    """
    lengths = _checked_lengths(lengths)
    a, b, (features_a, features_b) = (left[0], left[1]), (right[0], right[1]), (left[2], right[2])
    xp, k = namespace(*left), features_a.shape[-1]

    def psi() -> Array:
        return xp.reshape(features_a, (-1, k)) @ xp.reshape(features_b, (-1, k)).T

    if k <= _LANE_SYMBOLS and fits_lanes(a[0], b[0]):
        from mercer._native.chains import small_chains

        return rescue(small_chains(left, right, lengths), a, b, psi, lengths)
    table = psi()
    return rescue(_all_pairs(a, b, table, lengths), a, b, table, lengths)


def coupled_pairs(left: Side, right: Side, psi: Array, log_scale: Array, lengths: tuple[int, ...]) -> Array:
    """Compute the log kernels of N aligned pairs of chains, (H, N); ``psi`` has shape (N, n, m), ``log_scale`` (N,)."""
    lengths = _checked_lengths(lengths)
    block = steps_between_scalings(left, right, psi)
    if needs_gradient(*left, *right, psi):
        values = differentiable_chains(Aligned, left, right, psi, lengths, block)
    else:
        values, _ = sweep(Aligned, left, right, psi, lengths, block)
    values = doubt(
        values, smallest_weight(left) * smallest_weight(right), lambda: upper_bound(left, right, psi, lengths[-1])
    )
    values = replace_unsound(values, lambda which: take_pairs(left, right, psi, which), lengths, pieces(left, right))
    return values + _length_column(values, lengths) * log_scale


def coupled_chains_log(left: Side, right: Side, log_psi: Array, lengths: tuple[int, ...]) -> Array:
    """Do as `coupled_chains` from logarithms, in the log domain: slow, and true wherever the kernels are finite."""
    xp = namespace(left[0], log_psi)
    (i, n), (j, m) = left[0].shape, right[0].shape
    pairs = xp.permute_dims(xp.reshape(log_psi, (i, n, j, m)), (0, 2, 1, 3))
    a, b = (left[0][:, None, :], left[1][:, None, :, :]), (right[0][None, :, :], right[1][None, :, :, :])
    return log_sweep(a, b, pairs, _checked_lengths(lengths))


def _checked_lengths(lengths: tuple[int, ...]) -> tuple[int, ...]:
    lengths = tuple(int(length) for length in lengths)
    if not lengths or lengths[0] < 1 or any(b <= a for a, b in itertools.pairwise(lengths)):
        raise ValueError(f"lengths must be strictly increasing and at least 1; got {lengths}.")
    return lengths


def _length_column(values: Array, lengths: tuple[int, ...]) -> Array:
    """Reshape the lengths for broadcasting against one table per length."""
    xp = namespace(values)
    column = xp.asarray(lengths, dtype=values.dtype, device=values.device)
    return xp.reshape(column, (-1,) + (1,) * (values.ndim - 1))


# ------------------------------------------------------------------ all pairs of a tile, scaled


def fits_lanes(initial_a: Array, initial_b: Array) -> bool:
    """Whether the native library takes these chains: float64 in NumPy, and not too many states."""
    if not is_numpy_array(initial_a) or initial_a.dtype != np.float64 or initial_b.dtype != np.float64:
        return False
    n, m = initial_a.shape[1], initial_b.shape[1]
    return bool(0 < n <= _LANE_STATES and n * m <= _LANE_STATES**2 and len(initial_a) and len(initial_b))


def _all_pairs(left: Side, right: Side, psi: Array, lengths: tuple[int, ...], first: Array | None = None) -> Array:
    """Compute the log kernels of a tile without scales; NaN if the sums of a pair leave the floating-point range."""
    if fits_lanes(left[0], right[0]):
        from mercer._native.chains import small_chains

        return small_chains(left, right, lengths, psi, first)
    xp = namespace(psi)
    block = steps_between_scalings(left, right, psi)
    shape = (*left[0].shape, *right[0].shape)
    table = xp.reshape(psi, shape)
    if needs_gradient(*left, *right, psi):
        return differentiable_chains(Tile, left, right, table, lengths, block)
    start = None if first is None else xp.reshape(first, shape)
    return sweep(Tile, left, right, table, lengths, block, first=start)[0]


def wide_chains(
    left: Side, right: Side, psi: Floats, log_scale: Floats, log_psi: Floats, lengths: tuple[int, ...]
) -> Floats:
    """Compute the log kernels of all pairs in NumPy if leaf kernels of a pair exceed the floating-point range.

    The leaf of the first observation has its own scale, because the first states may differ widely while later ones
    agree. If later leaves that underflow relative to the largest of their pair may matter, the pair is repeated with
    numbers of unlimited range.

    Parameters are those of `coupled_chains`, and ``log_psi``, the logarithms of the leaf kernels.
    """
    from mercer._native.chains import ranged_pairs

    lengths = _checked_lengths(lengths)
    (i, n), (j, m) = left[0].shape, right[0].shape
    starts = [np.where(side[0] > 0, 0.0, -np.inf) for side in (left, right)]
    begin = log_psi.reshape(i, n, j, m) + starts[0][:, :, None, None] + starts[1]
    first_scale = begin.max(axis=(1, 3))
    first_scale[~np.isfinite(first_scale)] = 0.0
    first = np.exp(begin - first_scale[:, None, :, None]).reshape(psi.shape)
    values = _all_pairs(left, right, psi, lengths, first)
    sound = nothing_lost(values, left, right, robust_weight(left)[:, None] * robust_weight(right), lengths)
    values += (_length_column(values, lengths) - 1) * log_scale + first_scale

    def careful(rows: Floats, columns: Floats) -> Floats:
        leaf = log_psi.reshape(i, n, j, m)[rows, :, columns, :]
        return ranged_pairs(left, right, rows, columns, leaf, lengths).T

    by_pair = np.moveaxis(values, 0, -1)
    return np.moveaxis(rescued(by_pair, sound & ~np.isnan(by_pair).any(axis=-1), careful), -1, 0)
