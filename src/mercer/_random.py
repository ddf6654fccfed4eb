"""Random generators and seeds."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._checks import LARGEST, is_whole


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


def whole_size(size: Any, what: str = "points", *, name: str = "size", least: int = 0) -> int:
    """Return the number of ``what`` to draw; raise if it is not a whole number that an array can have."""
    if not is_whole(size, least):
        raise ValueError(f"{name} must be a whole number of {what}, {least} or more; got {size!r}.")
    if size > LARGEST:
        raise ValueError(f"{name} must be at most {LARGEST:,}; got {size!r}.")
    return int(size)


def seed_of(random_state: Any) -> int:
    """Return the seed of a fit: ``random_state`` itself, or a draw from a generator, which is a new one for None."""
    if random_state is None or isinstance(random_state, np.random.RandomState | np.random.Generator):
        return int(random_generator(random_state).integers(2**31 - 1))
    return int(random_state)
