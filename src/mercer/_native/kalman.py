"""Linear dynamical systems (ALG-KF, ALG-RTS, PPK-4.5, PPK-5.1), computed by native/kalman*.hpp.

Systems are tuples of eight arrays: transition ``(N, n, n)``, state offset ``(N, n)``, emission ``(N, d, n)``, offset of
the observation ``(N, d)``, process covariance ``(N, n, n)``, observation covariance ``(N, d, d)``, and mean ``(N, n)``
and covariance ``(N, n, n)`` of the first state.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats, Indices
from mercer._native import MORE, call

_LONG_CALL = 1e8
"""Multiply-adds of lanes in one call, about: 0.1 s."""
_LANES = 16
"""Largest number of series or pairs in one pass."""


def infer(
    systems: Any,
    x: Floats,
    series: tuple[Indices, ...],
    order: Indices,
    *,
    by_model: bool,
    block: int,
    log_prob: Floats,
    means: Floats | None = None,
    covariances: Floats | None = None,
    lags: Floats | None = None,
    sums: Floats | None = None,
    gradients: Floats | None = None,
    place: Indices | None = None,
    after: tuple[Indices, Floats, Floats] | tuple[None, None, None] = (None, None, None),
    path: tuple[Indices, Indices] | tuple[None, None] = (None, None),
    regimes: int = 1,
) -> None:
    """Filter series, and smooth them if ``sums`` is given.

    Parameters
    ----------
    systems : tuple of ndarrays
        Parameters of N systems.
    x : ndarray of shape (T, d)
        Observations; NaN is missing.
    series : three ndarrays of int of shape (S,)
        First observation, number of observations and system of every series; with paths, the system of its first step.
    order : ndarray of int of shape (O,)
        The series to work on. Those next to each other share lanes: they should be equally long.
    by_model : bool
        Whether series that share lanes must be of one system; they then share covariances with those before them.
    block : int
        Steps whose covariances are kept. Of longer series, the smoother filters parts twice.
    log_prob : ndarray of shape (S,)
        Where log probabilities are written.
    means, covariances, lags : ndarray of shape (T, n), (T, n, n) and (T, n, n), default=None
        Where means and covariances of the states are written, and the covariances of the next state and this one, the
        last only if smoothed.
    sums : ndarray of shape (S, (d + 3 n) (n + 1) + n n + d d), default=None
        Where sums over time are written, one after the other: gradients in the emission and its offset
        ``(d, n + 1)``, in the transition and its offset ``(n, n + 1)``, twice those in process and observation
        covariance, second and first moments ``(n, n + 1)`` of states with a successor and of those observed. With
        paths, every regime of a series has a row, ``(S regimes, ...)``, to which the sums are added.
    gradients : ndarray of shape (S, n + n n), default=None
        Where gradient and negative curvature of the log probability in the first predicted state are written.
    place : ndarray of int of shape (S,), default=None
        Where the states of every series are written; None means at its observations.
    after : tuple of ndarrays of shape (S,), (B, n) and (B, n, n), default=(None, None, None)
        The state that every series goes on from, and means and covariances of these states; None if series begin with
        first states.
    path : pair of ndarrays of int of shape (W,) and (S,), default=(None, None)
        The systems of all steps, and where those of every series begin; None if a series keeps its system.
    regimes : int, default=1
        System i of a path is regime ``i % regimes``.
    """
    d, n = systems[2].shape[1:]
    blocks = -(-int(series[1][order].max(initial=0)) // block)
    memory = np.empty(call("kalman_room", n=n, d=d, block=block, blocks=blocks, smooth=sums is not None))
    arguments = {
        "systems": tuple(systems), "x": x, "start": series[0], "length": series[1], "model": series[2],
        "place": series[0] if place is None else place, "parent": after[0],
        "before_mean": after[1], "before_covariance": after[2], "path": path[0], "path_start": path[1],
        "regimes": regimes, "order": order, "by_model": by_model, "block": block, "resumed": False,
        "limit": _LONG_CALL, "memory": memory, "log_prob": log_prob, "means": means, "covariances": covariances,
        "lags": lags, "sums": sums, "gradients": gradients,
    }  # fmt: skip
    while call("kalman", **arguments) == MORE:
        arguments["resumed"] = True


def pairs_at_zero(
    left: Any,
    right: Any,
    rows: Indices,
    columns: Indices,
    lengths: Indices,
    noise: float,
    extra: float,
    paths: tuple[Indices | None, Indices | None] = (None, None),
) -> Floats:
    """Compute the log density at zero of the difference of two series, for given pairs of systems.

    Parameters
    ----------
    left, right : tuples of ndarrays
        Parameters of both sides.
    rows, columns : ndarray of int of shape (P,)
        The systems of every pair, or its paths.
    lengths : ndarray of int of shape (H,)
        Strictly increasing numbers of time steps, at least 1.
    noise, extra : float
        All covariances are multiplied by ``noise``; ``extra`` is added to the variances of observations.
    paths : pair of ndarrays of int of shape (A, L) and (B, L), default=(None, None)
        The system of every step of every path; None if a pair keeps its systems.

    Returns
    -------
    ndarray of shape (H, P)
        Log densities; not finite where the covariance of a predicted observation is singular or overflows.
    """
    d, n = left[2].shape[1:]
    steps = float(lengths[-1]) * (n + right[2].shape[2] + d) ** 3
    some = _LANES * max(1, int(_LONG_CALL / steps))
    found = [np.empty((len(lengths), 0))]
    for begin in range(0, len(rows), some):
        part = slice(begin, begin + some)
        found.append(np.empty((len(lengths), len(rows[part]))))
        call(
            "system_pairs", left=tuple(left), right=tuple(right), paths_a=paths[0], paths_b=paths[1],
            rows=rows[part], columns=columns[part], lengths=lengths, noise=noise, extra=extra, log_density=found[-1],
        )  # fmt: skip
    return np.concatenate(found, axis=1)
