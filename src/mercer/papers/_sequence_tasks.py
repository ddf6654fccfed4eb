"""The seven tasks of mehta2010's table 1, as far as their data are available."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import mercer as mc
from mercer.datasets import fetch_hs3d, fetch_ucr
from mercer.papers._protocol import Ints, Labels

PER_CLASS = 500
"""Number of sequences per class of the synthetic task and of DNA."""


@dataclass(frozen=True)
class Task:
    """Sequences with classes.

    Parameters
    ----------
    name : str
        Name in the table.
    data : Sequences
        Sequences of symbols or of numbers.
    labels : array of shape (N,)
        Classes.
    states : int or "jebara"
        Number of hidden states of the model of one sequence.
    shared_states : tuple of two int
        Numbers of hidden states of the models of the first and the second class.
    groups : array of shape (N,) or None
        Groups that folds must not split.
    learned : dict
        Cache of models that methods share.
    """

    name: str
    data: mc.Sequences
    labels: Labels
    states: int | str
    shared_states: tuple[int, int]
    groups: Labels | None = None
    learned: dict[Any, Any] = field(default_factory=dict)


def two_machines() -> mc.HMMs:
    """Return the two 3-state, 2-symbol models of the synthetic task: one stays in its states, one cycles.

    Both emit the two symbols equally often, so that counts of single symbols carry little information.

    Examples
    --------
    >>> from mercer.papers._sequence_tasks import two_machines
    >>> two_machines().stationary().round(3).tolist()
    [[0.333, 0.333, 0.333], [0.333, 0.333, 0.333]]
    """
    circle = [np.roll(np.eye(3), step, axis=1) for step in range(3)]
    staying, cycling = (np.tensordot(p, circle, axes=1) for p in ((0.8, 0.1, 0.1), (0.3, 0.4, 0.3)))
    symbols = [[0.9, 0.1], [0.5, 0.5], [0.1, 0.9]]
    emission = mc.Categoricals([symbols, symbols], alphabet="01")
    return mc.HMMs(np.full((2, 3), 1 / 3), np.stack([staying, cycling]), emission)


def synthetic(seed: int, per_class: int = PER_CLASS) -> Task:
    """Draw sequences of length 100 from the two machines."""
    machines = two_machines()
    drawn = np.concatenate(list(machines.sample(100, per_class, random_state=seed)))
    strings = ["".join("01"[int(symbol)] for symbol in row) for row in drawn]
    data = mc.Sequences(strings, alphabet="01")
    return Task("Synthetic", data, np.repeat([0, 1], per_class), 3, (3, 3))


def dna(seed: int) -> Task:
    """Draw exon and intron halves of splice windows, grouped by gene."""
    found = fetch_hs3d()
    rows = drawn_rows(found.target, PER_CLASS, seed)
    return Task("HS3D", found.data[rows], found.target[rows], "jebara", (4, 8), groups=found.groups[rows])


def series(name: str, called: str, per_class: int | None = None) -> Callable[[int], Task]:
    """Return a loader of both parts of a UCR data set, optionally with ``per_class`` series per class."""

    def load(seed: int) -> Task:
        found = fetch_ucr(name)
        rows = np.arange(len(found.target)) if per_class is None else drawn_rows(found.target, per_class, seed)
        return Task(called, found.data[rows], found.target[rows], 4, (4, 4))

    return load


def drawn_rows(labels: Labels, per_class: int, seed: int) -> Ints:
    """Draw ``per_class`` objects of every class, and return their sorted indices."""
    rng = np.random.default_rng(seed)
    rows: Any = [rng.choice(np.flatnonzero(labels == name), per_class, replace=False) for name in np.unique(labels)]
    return np.sort(np.concatenate(rows))


TASKS: dict[str, Callable[[int], Task]] = {
    "Synthetic": synthetic,
    "HS3D": dna,
    "Coffee": series("Coffee", "Coffee"),
    "ECG": series("ECG200", "ECG"),
    "Gun-Point": series("GunPoint", "Gun-Point"),
    "Wafer": series("Wafer", "Wafer", 762),
    "Yoga": series("Yoga", "Yoga"),
}
"""Loaders of the tasks, given a seed."""
