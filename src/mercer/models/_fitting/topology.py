"""Topologies (allowed transitions) of HMMs, and a heuristic for the number of states."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Mask, as_array

LEFT_RIGHT_STEP = 2
"""Largest step of "left-right": the fit of unbounded steps is worse on series, since starts skip most states."""
NAMES = ("ergodic", "left-right", "banded")


def check_topology(topology: Any) -> None:
    """Raise if ``topology`` is not a name, a pair of a name and a width, or a boolean mask."""
    name, width = topology if isinstance(topology, tuple) and len(topology) == 2 else (topology, 1)
    named = isinstance(name, str) and name in NAMES and not (name == "ergodic" and isinstance(topology, tuple))
    whole = isinstance(width, int | np.integer) and not isinstance(width, bool) and width >= 1
    if named and (whole or (name == "left-right" and width is None)):
        return
    if topology is None or isinstance(topology, str | tuple):
        raise ValueError(
            f"topology must be 'ergodic', 'left-right', 'banded', a pair such as ('left-right', 1) with the largest "
            f"step (None for any step), or a boolean mask of shape (n, n); got {topology!r}."
        )
    mask = as_array(topology, "topology", "a boolean mask of shape (n, n)")
    if mask.dtype != bool or mask.ndim != 2 or mask.shape[0] != mask.shape[1]:
        raise ValueError(
            f"topology must be a boolean mask of shape (n, n), True where a transition is allowed; got an array of "
            f"dtype {mask.dtype} and shape {mask.shape}."
        )
    stuck = np.flatnonzero(~mask.any(axis=1))
    if len(stuck):
        raise ValueError(
            f"topology allows no transition from state {stuck[0]}. Allow at least one, such as that to itself."
        )


def allowed(topology: Any, n: int) -> tuple[Mask, Mask]:
    """Return the allowed initial states ``(n,)`` and transitions ``(n, n)``.

    - "ergodic": all.
    - "left-right": from i to i <= j <= i + 2, starting in state 0; ("left-right", w): to i <= j <= i + w;
      ("left-right", None): to j >= i.
    - "banded": |i - j| <= 1; ("banded", w): |i - j| <= w. A path may start in any state.
    - a mask: the transitions of the mask. A path may start in any state.
    """
    name, width = topology if isinstance(topology, tuple) else (topology, LEFT_RIGHT_STEP)
    anywhere = np.ones(n, dtype=bool)
    step = np.arange(n) - np.arange(n)[:, None]
    if isinstance(name, str) and name == "left-right":
        return np.arange(n) == 0, (step >= 0) & (step <= (n if width is None else width))
    if isinstance(name, str) and name == "banded":
        return anywhere, np.abs(step) <= (width if isinstance(topology, tuple) else 1)
    if isinstance(name, str):
        return anywhere, np.ones((n, n), dtype=bool)
    mask = np.asarray(topology)
    if mask.shape != (n, n):
        raise ValueError(f"topology must be a mask of shape {(n, n)} for {n} states; got shape {mask.shape}.")
    return anywhere, mask.copy()


def jebara_states(length: int, symbols: int, ratio: float = 0.1) -> int:
    """Return the number of states, at least 2, for about ``ratio * length`` free parameters (PPK-7).

    Examples
    --------
    >>> [jebara_states(length, 4) for length in (100, 1000, 10_000)]
    [3, 9, 30]
    """
    root = np.sqrt(symbols**2 + 4 * (length * ratio + symbols + 1))
    return max(2, int(np.floor(root / 2 - symbols / 2)) + 1)
