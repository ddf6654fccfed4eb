"""Which transitions an HMM may make, and how many states it has."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats

__all__ = ["allowed", "check_topology", "jebara_states"]

NAMES = ("ergodic", "left-right", "banded")


def check_topology(topology: Any) -> None:
    """Raise where ``topology`` is no name, no pair of a name and a width, and no mask of booleans."""
    name, width = topology if isinstance(topology, tuple) and len(topology) == 2 else (topology, 1)
    whole = isinstance(width, int | np.integer) and not isinstance(width, bool) and width >= 1
    if isinstance(name, str) and name in NAMES and whole and not (name == "ergodic" and isinstance(topology, tuple)):
        return
    if topology is None or isinstance(topology, str | tuple):
        raise ValueError(
            f"topology = {topology!r}: give 'ergodic', 'left-right', 'banded', a pair such as ('left-right', 1) that "
            "says how far a step may go, or a boolean mask of shape (n, n)"
        )
    mask = np.asarray(topology)
    if mask.dtype != bool or mask.ndim != 2 or mask.shape[0] != mask.shape[1]:
        raise ValueError(
            f"topology is an array of {mask.dtype} and shape {mask.shape}: give a boolean mask of shape (n, n), True "
            "where a transition is allowed"
        )
    stuck = np.flatnonzero(~mask.any(axis=1))
    if len(stuck):
        raise ValueError(f"topology lets nothing leave state {stuck[0]}: allow one transition, such as to itself")


def allowed(topology: Any, n: int) -> tuple[Floats, Floats]:
    """Return where a path may start ``(n,)`` and which steps it may make ``(n, n)``, as booleans.

    - "ergodic": everything.
    - "left-right": from i to j >= i, from state 0 on; ("left-right", w): to j <= i + w at most.
    - "banded": |i - j| <= 1; ("banded", w): |i - j| <= w. A path may start anywhere.
    - a mask: what it says. A path may start anywhere.
    """
    name, width = topology if isinstance(topology, tuple) else (topology, None)
    anywhere = np.ones(n, dtype=bool)
    step = np.arange(n) - np.arange(n)[:, None]
    if isinstance(name, str) and name == "left-right":
        return np.arange(n) == 0, (step >= 0) & (step <= (n if width is None else width))
    if isinstance(name, str) and name == "banded":
        return anywhere, np.abs(step) <= (width or 1)
    if isinstance(name, str):
        return anywhere, np.ones((n, n), dtype=bool)
    mask = np.asarray(topology)
    if mask.shape != (n, n):
        raise ValueError(f"topology is a mask of shape {mask.shape}, and the model has {n} states: give {(n, n)}")
    return anywhere, mask.copy()


def jebara_states(length: int, symbols: int, ratio: float = 0.1) -> int:
    """Return so many states that an HMM has about ``ratio * length`` free parameters (PPK-7); 2 at least.

    Examples
    --------
    >>> [jebara_states(length, 4) for length in (100, 1000, 10_000)]
    [3, 9, 30]
    """
    root = np.sqrt(symbols**2 + 4 * (length * ratio + symbols + 1))
    return max(2, int(np.floor(root / 2 - symbols / 2)) + 1)
