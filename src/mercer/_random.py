"""Random generators and seeds."""

from __future__ import annotations

from typing import Any

import numpy as np


def random_generator(random_state: Any) -> np.random.Generator:
    """Convert None, an int, a Generator or a RandomState to a Generator."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31 - 1))
    return np.random.default_rng(random_state)


def seed_of(random_state: Any) -> int:
    """Return the seed of reproducible fits: ``random_state`` itself, 0 for None, or a draw from a generator."""
    if isinstance(random_state, np.random.RandomState | np.random.Generator):
        return int(random_generator(random_state).integers(2**31 - 1))
    return 0 if random_state is None else int(random_state)
