"""From counts to probabilities: priors, and the number of sequences that counts stand for."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats
from mercer._probability import normalized
from mercer.data import Alphabet
from mercer.models._profile.aligned import Counts
from mercer.models._profile.nodes import GROUPS

TRANSITION_MEANS = np.array([0.94, 0.04, 0.02, 0.55, 0.45, 0.6, 0.4])
"""Prior means of the transitions, in HMMER's order: round numbers that are usual for protein families."""
INSERT_STRENGTH = 100.0
"""Weight of the background in the emissions of insert states, which have few letters."""
TARGET_BITS = {"protein": 0.59, "dna": 0.62, "rna": 0.62}
"""Mean information per node that counts are scaled to, as in hmmbuild (in its order of magnitude for others)."""
LEAST_BITS = 45.0
"""Information of a whole profile, beyond that of its place, that short profiles keep."""


class Prior(NamedTuple):
    """Pseudo-counts of a profile."""

    match: Any
    """Function of counts ``(M, k)`` that returns pseudo-counts of the same shape."""
    insert: Floats
    transitions: Floats

    def profile(self, counts: Counts) -> tuple[Floats, Floats, Floats]:
        """Return the posterior means: match, insert, transitions."""
        match = normalized(counts.match + self.match(counts.match), 1 / counts.match.shape[1])
        insert = normalized(counts.insert + self.insert, 1 / counts.insert.shape[1])
        transitions = counts.transitions + self.transitions
        for group in GROUPS:
            width = group.stop - group.start
            transitions[:, group] = normalized(transitions[:, group], np.eye(width)[0])
        last = transitions[-1]
        last[2] = 0.0  # there is no delete state after the last node
        last[:3] = last[:3] / last[:3].sum() if last[:3].sum() > 0 else [1.0, 0.0, 0.0]
        transitions[[0, -1], 5:] = 1.0, 0.0  # node 0 has no delete state; after the last node comes the end
        return match, insert, transitions


def prior_of(name: Any, strength: float, transition_strength: float, background: Floats, alphabet: Alphabet) -> Prior:
    """Return the prior of a name: None, "laplace", "background" or "substitution"."""
    k = len(background)
    if name is None:
        return Prior(np.zeros_like, np.zeros(k), np.zeros(7))
    if name == "laplace":
        return Prior(np.ones_like, np.ones(k), np.ones(7))
    insert, transitions = INSERT_STRENGTH * background, transition_strength * TRANSITION_MEANS
    if name == "background":
        return Prior(lambda counts: np.broadcast_to(strength * background, counts.shape), insert, transitions)
    from mercer.models._pairs.substitution import joint_of

    joint = joint_of("BLOSUM62", None, None, alphabet).joint
    given = joint / joint.sum(axis=1, keepdims=True)

    def related(counts: Floats) -> Floats:
        """Spread the letters of a column over those that they are exchanged with."""
        return np.asarray(strength * (normalized(counts, background) @ given))

    return Prior(related, insert, transitions)


def effective_number(counts: Counts, prior: Prior, background: Floats, target: float, n: float) -> float:
    """Return the number of sequences, at most ``n``, at which nodes have ``target`` bits of information on average."""
    m = len(counts.match)
    wanted = max(target, (LEAST_BITS + np.log2(m * (m + 1) / 2)) / m)

    def bits(number: float) -> float:
        scaled = counts.match * (number / n)
        p = normalized(scaled + prior.match(scaled), background)
        logs = np.log2(np.where(p > 0, p, 1.0) / background)
        return float((np.where(p > 0, p, 0.0) * logs).sum() / m)

    if bits(n) <= wanted:
        return n
    low, high = 0.0, n
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if bits(middle) > wanted else (middle, high)
    return (low + high) / 2
