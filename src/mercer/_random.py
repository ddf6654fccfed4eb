"""Random generators and seeds."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats, Indices
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


def generator(seed: int, attempt: int) -> np.random.Generator:
    """Return the generator of one start, the same for all data: a fit then changes little if the data change little."""
    return np.random.default_rng([seed, attempt])


def along_axis(x: Floats) -> Indices:
    """Return the order of points along (about) their first principal axis.

    What is drawn by its place in this order depends neither on the order of the points nor on their last digits. A
    fixed number of power iterations is continuous in the points, and determines the sign of the axis.
    """
    centered = x - x.mean(axis=0)
    axis = 1.0 / np.arange(1, x.shape[1] + 1)
    for _ in range(8):
        axis = centered.T @ (centered @ axis)
        axis /= np.linalg.norm(axis) or 1.0
    return np.argsort(centered @ axis, kind="stable")


def seeds(x: Floats, weights: Floats, n: int, rng: np.random.Generator) -> Indices:
    """Return the indices of n k-means++ seeds."""
    order, squared = along_axis(x), np.ones(len(x))
    chosen: list[int] = []
    while len(chosen) < n:
        reach = np.cumsum((squared * weights)[order])
        if reach[-1] == 0:
            reach = np.arange(1.0, len(x) + 1)
        chosen.append(int(order[np.searchsorted(reach, rng.random() * reach[-1], side="right")]))
        distance = np.sum((x - x[chosen[-1]]) ** 2, axis=1)
        squared = np.minimum(squared, distance) if len(chosen) > 1 else distance
    return np.array(chosen)
