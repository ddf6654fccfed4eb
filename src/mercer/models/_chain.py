"""The coupled chain: one recursion for every kernel between hidden Markov models (PPK-4.2, GMMK-6).

For two models with initial weights pi, pi', transition weights A, A' and leaf kernels psi,

    Phi_1 = (pi pi'^T) o psi,    Phi_{t+1} = (A^T Phi_t A') o psi,    k_L = sum of Phi_L,

where o multiplies entry by entry. Weights are nonnegative and need not sum to one. Three forms stand here:
a scaled one for a tile of pairs (matrix products), a scaled one for aligned pairs, and a slow one in the log
domain, which is the reference and takes over where the others underflow. A fourth form, for NumPy and few
states, stands in `mercer.models._chain_small`.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from array_api_compat import is_numpy_array, is_torch_array

from mercer._array import Array, logsumexp, namespace, safe_log

Side: TypeAlias = tuple[Array, Array]
"""Initial and transition weights."""

__all__ = ["chain_tile", "coupled_chains", "coupled_chains_inner", "coupled_chains_log", "coupled_pairs"]

# Where the lanes of `_chain_small` win over matrix products, measured: a table of pairs must fit into the
# first-level cache, a column of it into registers.
_LANE_STATES = 20
_LANE_SYMBOLS = 64
# Below this many operations a call takes a millisecond anyway and is not worth loading compiled code.
_LANE_WORK = 1e6

# Entries of the largest array of a sweep in the log domain: 32 MB.
_LOG_ENTRIES = 2**22
_LARGEST_BUFFER = 2**26

_buffers = threading.local()


def chain_tile(n_states: int) -> int:
    """Recommend the number of models on each side of a tile.

    Parameters
    ----------
    n_states : int
        Number of hidden states.

    Returns
    -------
    int
        A multiple of eight: a tile takes one to ten milliseconds and its tables stay in the cache.
    """
    for states, tile in ((4, 256), (8, 128), (_LANE_STATES, 64)):
        if n_states <= states:
            return tile
    return 32 if n_states <= 40 else 16


def coupled_chains(
    initial_a: Array,
    transition_a: Array,
    initial_b: Array,
    transition_b: Array,
    psi: Array,
    log_scale: Array,
    lengths: tuple[int, ...],
) -> Array:
    """Compute the log kernels of all pairs of two sets of chains (PPK-4.2).

    Parameters
    ----------
    initial_a, initial_b : array of shape (I, n) and (J, m)
        Initial weights: probabilities to the power rho.
    transition_a, transition_b : array of shape (I, n, n) and (J, m, m)
        Transition weights: probabilities to the power rho.
    psi : array of shape (I * n, J * m)
        Leaf kernels, each pair of models scaled to a maximum of about one.
    log_scale : array of shape (I, J)
        Logarithm of what was taken out of ``psi``; counted once per time step.
    lengths : tuple of int
        Strictly increasing numbers of time steps, at least 1; one sweep serves all of them.

    Returns
    -------
    array of shape (H, I, J)
        Logarithms of the kernels, one table per length; -inf where a kernel is zero.
    """
    lengths = _checked_lengths(lengths)
    values = _all_pairs(initial_a, transition_a, initial_b, transition_b, psi, lengths)
    values = _rescue(values, (initial_a, transition_a), (initial_b, transition_b), psi, lengths)
    return values + _length_column(values, lengths) * log_scale


def coupled_chains_inner(
    initial_a: Array,
    transition_a: Array,
    features_a: Array,
    initial_b: Array,
    transition_b: Array,
    features_b: Array,
    lengths: tuple[int, ...],
) -> Array:
    """Compute the log kernels of all pairs where leaf kernels are inner products of nonnegative features.

    Parameters
    ----------
    initial_a, initial_b : array of shape (I, n) and (J, m)
        Initial weights.
    transition_a, transition_b : array of shape (I, n, n) and (J, m, m)
        Transition weights.
    features_a, features_b : array of shape (I, n, k) and (J, m, k)
        Features of the leaves; for categorical emissions their probabilities to the power rho.
    lengths : tuple of int
        Strictly increasing numbers of time steps, at least 1.

    Returns
    -------
    array of shape (H, I, J)
        Logarithms of the kernels.
    """
    lengths = _checked_lengths(lengths)
    xp = namespace(initial_a, features_a)
    (i, n, k), (j, m, _) = features_a.shape, features_b.shape

    def psi() -> Array:
        return xp.reshape(features_a, (i * n, k)) @ xp.reshape(features_b, (j * m, k)).T

    if k <= _LANE_SYMBOLS and _fits_lanes(initial_a, initial_b, lengths):
        from mercer.models._chain_small import small_categorical_chains

        values = small_categorical_chains(
            initial_a, transition_a, features_a, initial_b, transition_b, features_b, lengths
        )
        return _rescue(values, (initial_a, transition_a), (initial_b, transition_b), psi, lengths)
    table = psi()
    values = _all_pairs(initial_a, transition_a, initial_b, transition_b, table, lengths)
    return _rescue(values, (initial_a, transition_a), (initial_b, transition_b), table, lengths)


def coupled_pairs(
    initial: Array,
    transition: Array,
    psi: Array,
    log_scale: Array,
    lengths: tuple[int, ...],
    initial_b: Array | None = None,
    transition_b: Array | None = None,
) -> Array:
    """Compute the log kernels of aligned pairs of chains; by default of every chain with itself.

    Parameters
    ----------
    initial : array of shape (N, n)
        Initial weights.
    transition : array of shape (N, n, n)
        Transition weights.
    psi : array of shape (N, n, m)
        Leaf kernels, each pair scaled to a maximum of about one.
    log_scale : array of shape (N,)
        Logarithm of what was taken out of ``psi``.
    lengths : tuple of int
        Strictly increasing numbers of time steps, at least 1.
    initial_b : array of shape (N, m), default=None
        Initial weights of the second side; those of the first if not given.
    transition_b : array of shape (N, m, m), default=None
        Transition weights of the second side; those of the first if not given.

    Returns
    -------
    array of shape (H, N)
        Logarithms of the kernels.
    """
    lengths = _checked_lengths(lengths)
    left = (initial, transition)
    right = (
        initial if initial_b is None else initial_b,
        transition if transition_b is None else transition_b,
    )
    values = _aligned_pairs(left, right, psi, lengths, _block(left, right, psi))
    values = _doubt(values, _floor(left) * _floor(right), lambda: _bound(left, right, psi, lengths[-1]))
    values = _replace_unsound(values, lambda which: _take_pairs(left, right, psi, which), lengths)
    return values + _length_column(values, lengths) * log_scale


def coupled_chains_log(
    log_initial_a: Array,
    log_transition_a: Array,
    log_initial_b: Array,
    log_transition_b: Array,
    log_psi: Array,
    lengths: tuple[int, ...],
) -> Array:
    """Compute the log kernels of all pairs in the log domain: slow, and true wherever they are finite.

    Parameters
    ----------
    log_initial_a, log_initial_b : array of shape (I, n) and (J, m)
        Logarithms of the initial weights.
    log_transition_a, log_transition_b : array of shape (I, n, n) and (J, m, m)
        Logarithms of the transition weights.
    log_psi : array of shape (I * n, J * m)
        Logarithms of the leaf kernels.
    lengths : tuple of int
        Strictly increasing numbers of time steps, at least 1.

    Returns
    -------
    array of shape (H, I, J)
        Logarithms of the kernels.
    """
    xp = namespace(log_initial_a, log_psi)
    (i, n), (j, m) = log_initial_a.shape, log_initial_b.shape
    pairs = xp.permute_dims(xp.reshape(log_psi, (i, n, j, m)), (0, 2, 1, 3))
    left = (log_initial_a[:, None, :], log_transition_a[:, None, :, :])
    right = (log_initial_b[None, :, :], log_transition_b[None, :, :, :])
    return _log_sweep(left, right, pairs, _checked_lengths(lengths))


def _checked_lengths(lengths: tuple[int, ...]) -> tuple[int, ...]:
    lengths = tuple(int(length) for length in lengths)
    if not lengths or lengths[0] < 1 or any(b <= a for a, b in itertools.pairwise(lengths)):
        raise ValueError(f"lengths must be strictly increasing and at least 1, got {lengths}")
    return lengths


def _length_column(values: Array, lengths: tuple[int, ...]) -> Array:
    """Shape the lengths so that they multiply a table of every length."""
    xp = namespace(values)
    column = xp.asarray(lengths, dtype=values.dtype, device=values.device)
    return xp.reshape(column, (-1,) + (1,) * (values.ndim - 1))


# ------------------------------------------------------------------ all pairs of a tile, scaled


def _fits_lanes(initial_a: Array, initial_b: Array, lengths: tuple[int, ...]) -> bool:
    """Tell whether the vector lanes of `_chain_small` serve this call, and serve it faster."""
    if not is_numpy_array(initial_a) or initial_a.dtype != np.float64 or initial_b.dtype != np.float64:
        return False
    (i, n), (j, m) = initial_a.shape, initial_b.shape
    work = 2.0 * i * j * n * m * (n + m) * lengths[-1]
    return bool(n <= _LANE_STATES and n * m <= _LANE_STATES**2 and work >= _LANE_WORK)


def _all_pairs(
    initial_a: Array,
    transition_a: Array,
    initial_b: Array,
    transition_b: Array,
    psi: Array,
    lengths: tuple[int, ...],
) -> Array:
    """Compute the log kernels of a tile without scales; NaN where a pair's sums leave the floating range."""
    if _fits_lanes(initial_a, initial_b, lengths):
        from mercer.models._chain_small import small_chains

        return small_chains(initial_a, transition_a, initial_b, transition_b, psi, lengths)
    block = _block((initial_a, transition_a), (initial_b, transition_b), psi)
    return _tile_sweep(initial_a, transition_a, initial_b, transition_b, psi, lengths, block)


def _tile_sweep(
    initial_a: Array,
    transition_a: Array,
    initial_b: Array,
    transition_b: Array,
    psi: Array,
    lengths: tuple[int, ...],
    block: int,
) -> Array:
    """Sweep a tile held alternately as [i, a, j, b] and [j, b, i, a].

    Both products read a permuted view that BLAS takes as it is and write contiguously: nothing is copied.
    """
    xp = namespace(initial_a, psi)
    (i, n), (j, m) = initial_a.shape, initial_b.shape
    left, right = xp.matrix_transpose(transition_a), xp.matrix_transpose(transition_b)
    ones = xp.ones((m,), dtype=psi.dtype, device=psi.device)

    def sums(phi: Array) -> Array:
        # First over the long way, row by row, then by a matrix-vector product: short sums are slow.
        columns = xp.sum(xp.reshape(phi, (i, n, j * m)), axis=1)
        return xp.reshape(xp.reshape(columns, (i * j, m)) @ ones, (i, j))

    def scale(phi: Array, factor: Array) -> Array:
        wide = xp.reshape(factor[:, :, None] * ones, (i, 1, j * m))
        return xp.reshape(_multiply(xp.reshape(phi, (i, n, j * m)), wide), (i * n, j * m))

    def step(phi: Array) -> Array:
        other = _matmul(right, xp.permute_dims(xp.reshape(phi, (i * n, j, m)), (1, 2, 0)), 0)
        phi = _matmul(left, xp.permute_dims(xp.reshape(other, (j * m, i, n)), (1, 2, 0)), 1)
        return _multiply(xp.reshape(phi, (i * n, j * m)), psi)

    start = xp.reshape(initial_a, (i * n, 1)) * xp.reshape(initial_b, (1, j * m))
    return _sweep(_multiply(start, psi), step, sums, scale, lengths, block)


def _matmul(a: Array, b: Array, slot: int) -> Array:
    """Multiply matrices; in NumPy into one of this thread's two buffers, for allocation costs as much."""
    if not (is_numpy_array(a) and is_numpy_array(b)):
        return a @ b
    shape = (a.shape[0], a.shape[1], b.shape[2])
    dtype = np.result_type(a, b)
    size = math.prod(shape)
    if size * dtype.itemsize > _LARGEST_BUFFER:
        return np.matmul(a, b)
    kept: dict[Any, np.ndarray[Any, Any]] = _buffers.__dict__
    buffer = kept.get(f"{dtype}{slot}")
    if buffer is None or buffer.size < size:
        buffer = kept[f"{dtype}{slot}"] = np.empty(size, dtype)
    return np.matmul(a, b, out=buffer[:size].reshape(shape))


def _multiply(fresh: Array, by: Array) -> Array:
    """Multiply entries; NumPy overwrites the first argument, which must be our own."""
    return np.multiply(fresh, by, out=fresh) if is_numpy_array(fresh) else fresh * by


# ------------------------------------------------------------------ scaling


def _sweep(
    phi: Array,
    step: Callable[[Array], Array],
    sums: Callable[[Array], Array],
    scale: Callable[[Array, Array], Array],
    lengths: tuple[int, ...],
    block: int,
) -> Array:
    """Run the recursion, rescaling every ``block`` steps; NaN where sums left the floating range.

    The factors are constants to a gradient: the value does not depend on them.
    """
    xp = namespace(phi)
    smallest, largest = _range(phi)
    wanted, rows = set(lengths), []
    log_factor: Array | None = None
    sound: Array = True
    for time in range(1, lengths[-1] + 1):
        if time > 1:
            phi = step(phi)
        rest = time % block == 0 and time < lengths[-1]
        if not rest and time not in wanted:
            continue
        total = sums(phi)
        constant = _constant(total)
        sound = sound & (constant >= smallest) & (constant <= largest)
        if time in wanted:
            row = xp.astype(safe_log(total), xp.float64)
            row = row if log_factor is None else row + log_factor
            rows.append(xp.where(sound, row, xp.nan))
        if rest:
            top = xp.where(sound, constant, xp.ones_like(constant))
            phi = scale(phi, 1 / top)
            more = xp.astype(xp.log(top), xp.float64)
            log_factor = more if log_factor is None else log_factor + more
    return xp.astype(xp.stack(rows), phi.dtype)


def _constant(x: Array) -> Array:
    """Take a number out of a gradient's sight."""
    return x.detach() if is_torch_array(x) else x


def _range(x: Array) -> tuple[float, float]:
    """Bound the sums whose small entries are still exact and whose next steps do not overflow."""
    info = namespace(x).finfo(x.dtype)
    return math.sqrt(float(info.smallest_normal)), float(info.max) * 1e-3


def _block(left: Side, right: Side, psi: Array) -> int:
    """Choose the number of steps between two rescalings from the dtype and from how fast a sum can grow."""
    xp = namespace(psi)
    info = xp.finfo(psi.dtype)
    growth = float(_constant(xp.max(psi)))
    for weights in (left[1], right[1]):
        growth *= float(_constant(xp.max(xp.sum(weights, axis=-1))))
    most = 8 if info.bits >= 64 else 4
    if growth <= 1:
        return most
    room = 0.5 * math.log(float(info.max))
    return max(1, min(most, int(room / math.log(growth)))) if math.isfinite(growth) else 1


# ------------------------------------------------------------------ aligned pairs


def _aligned_pairs(
    left: Side,
    right: Side,
    psi: Array,
    lengths: tuple[int, ...],
    block: int,
    watch: Callable[[Array], Array] = lambda phi: phi,
) -> Array:
    """Compute log kernels of aligned pairs (N), NaN where unsound; ``watch`` sees every step."""
    xp = namespace(psi)
    transposed = xp.matrix_transpose(left[1])
    return _sweep(
        left[0][:, :, None] * right[0][:, None, :] * psi,
        lambda phi: watch(transposed @ (phi @ right[1]) * psi),
        lambda phi: xp.sum(phi, axis=(1, 2)),
        lambda phi, factor: phi * factor[:, None, None],
        lengths,
        block,
    )


def _log_sweep(left: Side, right: Side, log_psi: Array, lengths: tuple[int, ...]) -> Array:
    """Run the recursion in the log domain; leading axes align and broadcast."""
    phi = left[0][..., :, None] + right[0][..., None, :] + log_psi
    wanted, rows = set(lengths), []
    for time in range(1, lengths[-1] + 1):
        if time > 1:
            half = logsumexp(phi[..., :, :, None] + right[1][..., None, :, :], axis=-2)
            phi = logsumexp(left[1][..., :, :, None] + half[..., :, None, :], axis=-3) + log_psi
        if time in wanted:
            rows.append(logsumexp(phi, axis=(-2, -1)))
    return namespace(phi).stack(rows)


# ------------------------------------------------------------------ rescue


def _rescue(
    values: Array, left: Side, right: Side, psi: Array | Callable[[], Array], lengths: tuple[int, ...]
) -> Array:
    """Redo the pairs of a tile that are NaN, and only these."""
    xp = namespace(values)
    (i, n), (j, m) = left[0].shape, right[0].shape

    def take(which: Array) -> tuple[Side, Side, Array]:
        table = psi() if callable(psi) else psi
        pairs = xp.reshape(xp.permute_dims(xp.reshape(table, (i, n, j, m)), (0, 2, 1, 3)), (i * j, n, m))
        rows, columns = which // j, which % j
        return (
            (xp.take(left[0], rows, axis=0), xp.take(left[1], rows, axis=0)),
            (xp.take(right[0], columns, axis=0), xp.take(right[1], columns, axis=0)),
            xp.take(pairs, which, axis=0),
        )

    floor = _floor(left)[:, None] * _floor(right)[None, :]
    values = _doubt(values, floor, lambda: _bound(left, right, psi() if callable(psi) else psi, lengths[-1]))
    redone = _replace_unsound(xp.reshape(values, (len(lengths), i * j)), take, lengths)
    return xp.reshape(redone, values.shape)


def _take_pairs(left: Side, right: Side, psi: Array, which: Array) -> tuple[Side, Side, Array]:
    xp = namespace(psi)
    parts = [xp.take(x, which, axis=0) for x in (*left, *right, psi)]
    return (parts[0], parts[1]), (parts[2], parts[3]), parts[4]


def _floor(side: Side) -> Array:
    """Find the smallest positive weight of every chain."""
    xp = namespace(*side)
    initial, transition = (_constant(x) for x in side)
    smallest = [xp.min(xp.where(x > 0, x, xp.inf), axis=-1) for x in (initial, transition)]
    return xp.minimum(smallest[0], xp.min(smallest[1], axis=-1))


def _bound(left: Side, right: Side, psi: Array, length: int) -> float:
    """Bound the log kernels of all pairs from above: by the largest sums of rows."""
    xp = namespace(psi)
    first = growth = float(_constant(xp.max(psi)))
    for initial, transition in (left, right):
        first *= float(_constant(xp.max(xp.sum(initial, axis=-1))))
        growth *= float(_constant(xp.max(xp.sum(transition, axis=-1))))
    if first == 0 or growth == 0:
        return -math.inf
    return math.log(first) + (length - 1) * math.log(growth)


def _doubt(values: Array, floor: Array, bound: Callable[[], float]) -> Array:
    """Set to NaN what may lack a path that was lost on the way.

    A product of two tiny transition weights can round to zero while other paths keep the sum alive; that
    loss matters if those others fade so much more quickly that the lost path would have overtaken them. It
    cannot have where the sum stayed near its upper bound: what is lost is below the square root of the
    smallest number, relative to the sum, and can grow no faster than the bound.
    """
    xp = namespace(values)
    log_tiny = math.log(float(xp.finfo(values.dtype).smallest_normal))
    plain = floor >= math.exp(log_tiny / 3)
    if bool(xp.all(plain)):
        return values
    near = _constant(values[-1, ...]) >= bound() + 0.2 * log_tiny
    return xp.where(plain | near, values, xp.nan)


def _replace_unsound(
    values: Array, take: Callable[[Array], tuple[Side, Side, Array]], lengths: tuple[int, ...]
) -> Array:
    """Redo the columns that hold a NaN, some at a time to bound the memory."""
    xp = namespace(values)

    def compute(which: Array) -> Array:
        left, right, psi = take(which)
        size = max(1, _LOG_ENTRIES // math.prod((psi.shape[1], psi.shape[2], max(psi.shape[1:]))))
        parts = []
        for first in range(0, which.shape[0], size):
            some = xp.arange(first, min(first + size, which.shape[0]), device=values.device)
            parts.append(_careful(*_take_pairs(left, right, psi, some), lengths))
        return xp.concat(parts, axis=1)

    return _patch(values, xp.any(xp.isnan(values), axis=0), compute)


def _patch(values: Array, where: Array, compute: Callable[[Array], Array]) -> Array:
    """Replace the columns of ``values`` that ``where`` marks, without writing into it."""
    xp = namespace(values)
    if not bool(xp.any(where)):
        return values
    columns = compute(xp.nonzero(where)[0])
    position = xp.cumulative_sum(xp.astype(where, xp.int64)) - 1
    position = xp.where(where, position, xp.zeros_like(position))
    return xp.where(where, xp.take(columns, position, axis=1), values)


def _careful(left: Side, right: Side, psi: Array, lengths: tuple[int, ...]) -> Array:
    """Compute aligned pairs: -inf without a path, else scaled at every step, else in the log domain."""
    xp = namespace(psi)

    def scaled(which: Array) -> Array:
        some = _take_pairs(left, right, psi, which)
        values = _watched_pairs(*some, lengths)
        return _patch(values, xp.any(xp.isnan(values), axis=0), lambda rest: logarithmic(*some, rest))

    def logarithmic(left: Side, right: Side, psi: Array, which: Array) -> Array:
        left, right, psi = _take_pairs(left, right, psi, which)
        logs = [(safe_log(side[0]), safe_log(side[1])) for side in (left, right)]
        return _log_sweep(logs[0], logs[1], safe_log(psi), lengths)

    dead = xp.full((len(lengths), psi.shape[0]), -xp.inf, dtype=psi.dtype, device=psi.device)
    return _patch(dead, _alive(left, right, psi, lengths[0]), scaled)


def _support(x: Array) -> Array:
    """Mark positive numbers by ones."""
    return namespace(x).astype(x > 0, x.dtype)


def _alive(left: Side, right: Side, psi: Array, length: int) -> Array:
    """Tell which aligned pairs have a path of nonzero weight with ``length`` time steps.

    A path longer than the number of pairs of states visits one twice, and then there are paths of any length.
    """
    transposed, other, leaf = namespace(psi).matrix_transpose(_support(left[1])), _support(right[1]), _support(psi)
    phi = _support(left[0])[:, :, None] * _support(right[0])[:, None, :] * leaf
    for _ in range(1, min(length, psi.shape[1] * psi.shape[2] + 1)):
        phi = _support(transposed @ phi @ other * leaf)
    return namespace(psi).any(phi > 0, axis=(1, 2))


def _watched_pairs(left: Side, right: Side, psi: Array, lengths: tuple[int, ...]) -> Array:
    """Compute aligned pairs scaled at every step, with NaN where any entry underflowed on the way."""
    xp = namespace(psi)
    tiny = float(xp.finfo(psi.dtype).smallest_normal)
    transposed, other, leaf = xp.matrix_transpose(_support(left[1])), _support(right[1]), _support(psi)
    marks = _support(left[0])[:, :, None] * _support(right[0])[:, None, :] * leaf
    start = left[0][:, :, None] * right[0][:, None, :] * psi
    lost = xp.any((marks > 0) & (start < tiny), axis=(1, 2))

    def watch(phi: Array) -> Array:
        nonlocal marks, lost
        marks = _support(transposed @ marks @ other * leaf)
        lost = lost | xp.any((marks > 0) & (phi < tiny), axis=(1, 2))
        return phi

    values = _aligned_pairs(left, right, psi, lengths, 1, watch)
    return xp.where(lost, xp.nan, values)
