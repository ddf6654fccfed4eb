"""Expected statistics of joint states: through one hidden Markov model if there are few, else chain by chain."""

from __future__ import annotations

import numpy as np

from mercer._array import Floats, Indices
from mercer.models._factorial.chains import Evidence, Joint, joint_initial, joint_states, log_probabilities, smoothed
from mercer.models._forward.interface import Densities, Runs, expectations, log_likelihoods

FEW_JOINT = 64
"""Number of joint states up to which the transitions of all joint states are one table."""
MOST_JOINT = 100_000
"""Number of joint states up to which probabilities are exact."""


def check_joint(joint: int, cure: str) -> None:
    """Raise if there are too many joint states."""
    if joint > MOST_JOINT:
        raise ValueError(f"These models have {joint:,} joint states, more than {MOST_JOINT:,}. {cure}")


def joint_transition(transition: Floats) -> Floats:
    """Return the transitions of all joint states, ``(J, J)``."""
    found = np.ones((1, 1))
    for step in transition:
        found = np.kron(found, step)
    return found


def joint_log_prob(initial: Floats, transition: Floats, evidence: Evidence, offsets: Indices) -> Floats:
    """Return the log probability of every run, ``(S,)``; parameters as in `expected_joint`."""
    if initial.shape[1] ** len(initial) > FEW_JOINT:
        start = np.asarray(offsets)
        logs = lambda runs, t: evidence.log_density(start[runs] + t)  # noqa: E731
        return log_probabilities(list(initial), list(transition), logs, np.diff(offsets))
    table = Densities(evidence.log_density(np.arange(int(offsets[-1]))))
    return log_likelihoods(
        joint_initial(initial)[None], joint_transition(transition)[None], table, Runs.shared(offsets)
    )


def expected_joint(
    initial: Floats, transition: Floats, evidence: Evidence, offsets: Indices, *, by_run: bool = False
) -> Joint:
    """Return the expected statistics of all runs under one model.

    Parameters
    ----------
    initial, transition : array of shape (C, n) and (C, n, n)
        Probabilities of all chains.
    evidence : Evidence
        Likelihoods of the observations.
    offsets : array of int of shape (S + 1,)
        Run s has the observations ``offsets[s]:offsets[s + 1]``.
    by_run : bool, default=False
        Whether ``kinds`` are those of each run, rather than of all.
    """
    chains, n = initial.shape
    if n**chains > FEW_JOINT:
        return smoothed(initial, transition, evidence, offsets, by_run=by_run)
    total, size = int(offsets[-1]), len(offsets) - 1
    table = Densities(evidence.log_density(np.arange(total)))
    runs = Runs.shared(offsets)
    found = expectations(joint_initial(initial)[None], joint_transition(transition)[None], table, runs, states=True)
    assert found.states is not None
    shown = joint_states(n, chains)
    own = shown.reshape(-1, chains, n)
    first = np.einsum("sj,jci->sci", found.first, own)
    steps = np.stack([own[:, c].T @ found.transitions @ own[:, c] for c in range(chains)], axis=1)
    kinds = np.zeros((size if by_run else 1, evidence.n_kinds, n**chains))
    owner = np.repeat(np.arange(size), np.diff(offsets)) if by_run else np.zeros(total, dtype=int)
    if evidence.n_kinds == 1 and not by_run:
        kinds[0, 0] = found.states.sum(axis=0)
    else:
        np.add.at(kinds, (owner, evidence.kind), found.states)
    states = (found.states[:, None, :] @ shown).reshape(total, chains, n)
    return Joint(found.log_prob, first, steps, states, kinds)
