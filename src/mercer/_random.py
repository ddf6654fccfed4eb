"""Random generators and seeds."""

from __future__ import annotations

from typing import Any

import numpy as np


def random_generator(random_state: Any) -> np.random.Generator:
    """Convert None, an int, a Generator or a RandomState to a Generator."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31 - 1))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise ValueError(
            f"random_state must be a whole number, None or a NumPy generator; got {random_state!r}."
        ) from None


def whole_size(size: Any) -> int:
    """Return the number of points to draw; raise if it is not a whole number."""
    if not isinstance(size, int | np.integer) or isinstance(size, bool) or size < 0:
        raise ValueError(f"size must be a whole number of points, 0 or more; got {size!r}.")
    return int(size)


def seed_of(random_state: Any) -> int:
    """Return the seed of reproducible fits: ``random_state`` itself, 0 for None, or a draw from a generator."""
    if isinstance(random_state, np.random.RandomState | np.random.Generator):
        return int(random_generator(random_state).integers(2**31 - 1))
    return 0 if random_state is None else int(random_state)
