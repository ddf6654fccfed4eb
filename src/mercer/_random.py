"""Random generators and seeds."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._checks import is_whole


def random_generator(random_state: Any) -> np.random.Generator:
    """Convert None, an int, a Generator or a RandomState to a Generator."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31 - 1))
    return np.random.default_rng(random_state)


def check_seed(random_state: Any, name: str = "random_state") -> None:
    """Raise unless ``random_state`` is a whole number, None or a generator."""
    generator = isinstance(random_state, np.random.RandomState | np.random.Generator)
    if not (random_state is None or generator or is_whole(random_state, 0)):
        raise ValueError(
            f"{name} must be a whole number, 0 or more, None, or a NumPy Generator or RandomState; got "
            f"{random_state!r}."
        )


def seed_of(random_state: Any) -> int:
    """Return the seed of reproducible fits: ``random_state`` itself, 0 for None, or a draw from a generator."""
    if isinstance(random_state, np.random.RandomState | np.random.Generator):
        return int(random_generator(random_state).integers(2**31 - 1))
    return 0 if random_state is None else int(random_state)
