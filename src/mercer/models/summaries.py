"""Models as text: what their families and covariances are, and tables of their parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mercer._array import Floats, to_numpy
from mercer.models.verbs import n_common

__all__ = ["chain_table", "described", "headed", "kind_of", "mode_table", "n_free", "structure_of"]

SHOWN = 8
"""Number of states that a row of transitions shows."""


def structure_of(covariance: Floats) -> str:
    """Say whether a covariance ``(d, d)`` is full, diagonal or isotropic; one variance is diagonal."""
    variances = np.diagonal(covariance)
    if np.any(covariance != np.diag(variances)):
        return "full"
    return "isotropic" if len(variances) > 1 and np.all(variances == variances[0]) else "diagonal"


def n_free(covariance: Any) -> Floats:
    """Return the number of free parameters of each covariance ``(*B, d, d)``, in the batch shape."""
    *batch, d, _ = covariance.shape
    free = {"full": d * (d + 1) // 2, "diagonal": d, "isotropic": 1}
    found = [free[structure_of(one)] for one in to_numpy(covariance).reshape(-1, d, d)]
    return np.array(found, dtype=int).reshape(batch)


def kind_of(family: Any) -> str:
    """Name the family of a batch, and the structure of its covariances."""
    if hasattr(family, "components"):
        return f"Mixtures of {family.weights.shape[-1]} {kind_of(family.components)}"
    tied = family.shape[-1] > 1 and np.all(n_common(family))
    structure = "tied" if tied else getattr(family, "structure", None)
    return type(family).__name__ + (f" of {structure} covariance" if structure else "")


def headed(head: str, n_parameters: Any, rows: Sequence[Sequence[str]] = ()) -> str:
    """Return a head with the number of free parameters, and rows of one width below it; the last column is ragged."""
    widths = [max(len(row[c]) for row in rows) for c in range(len(rows[0]) - 1)] if rows else []
    lines = ["  ".join([*(cell.rjust(w) for cell, w in zip(row, widths, strict=False)), row[-1]]) for row in rows]
    return "\n".join([f"{head}, {int(np.ravel(n_parameters)[0])} free parameters", *lines])


def chain_table(
    initial: Floats, transition: Floats, shares: Floats, last: Sequence[str], names: tuple[str, str]
) -> list[list[str]]:
    """Return rows of one chain: for each state where it starts, goes and stays, its share of the time, and ``last``.

    Parameters
    ----------
    initial, transition, shares : ndarray of shape (n,), (n, n) and (n,)
        The chain.
    last : list of n str
        What is in the last column.
    names : pair of str
        What a state and the last column are called.
    """
    n = len(initial)
    shown = min(n, SHOWN)
    columns = [f"to {j}" for j in range(shown)] + ["..."] * (n > shown)
    rows = [[names[0], "initial", *columns, "steps", "share", names[1]]]
    for i in range(n):
        stay = transition[i, i]
        steps = f"{1 / (1 - stay):.1f}" if stay < 1 - 1e-6 else "inf"
        goes = [f"{p:.2f}" for p in transition[i, :shown]] + [""] * (n > shown)
        rows.append([str(i), f"{initial[i]:.2f}", *goes, steps, f"{shares[i]:.2f}", last[i]])
    return rows


def mode_table(transition: Floats) -> list[list[str]]:
    """Return rows of the eigenvalues of a transition: how fast the state fades and turns."""
    rows = [["mode", "modulus", "steps", "period"]]
    for value in np.linalg.eigvals(transition):
        modulus, angle = float(np.abs(value)), float(np.angle(value))
        if angle >= 0:  # one of each pair
            fades = 0.0 if modulus == 0 else -1 / np.log(modulus) if modulus < 1 else np.inf
            turns = f"{2 * np.pi / angle:.1f}" if angle > 0 else "-"
            rows.append([str(len(rows) - 1), f"{modulus:.3f}", f"{fades:.1f}", turns])
    return rows


def described(member: Any) -> str:
    """Describe one distribution in a few words: the most probable symbols, means and deviations, or its parameters."""
    from mercer.models._forward.filtering import emission_moments  # here, because it imports the mixtures

    if hasattr(member, "probability") and getattr(member, "alphabet", None) is not None:
        p = to_numpy(member.probability)
        best = np.argsort(-p, kind="stable")[:4]
        return ", ".join(f"{member.alphabet.symbols[k]} {p[k]:.2f}" for k in best)
    try:
        mean, covariance = (part[0, 0] for part in emission_moments(member.reshape(1, 1)))
    except TypeError:
        return _parameters_of(member)
    spread = np.sqrt(np.diagonal(covariance))
    shown = [f"{m:.3g} ± {s:.2g}" for m, s in zip(mean[:4], spread[:4], strict=True)]
    return ", ".join(shown) + (", ..." if len(mean) > 4 else "")


def _parameters_of(member: Any) -> str:
    """Describe a distribution without known moments: its parameters, or the components of a mixture."""
    if hasattr(member, "components"):
        weights = to_numpy(member.weights)
        parts = [f"{weights[k]:.2f} of ({described(member.components[k])})" for k in range(min(len(weights), SHOWN))]
        return " + ".join(parts) + (" + ..." if len(weights) > SHOWN else "")
    fields = {name: getattr(member, name) for name in (*member._arrays, *member._shared)}
    found = []
    for name, value in fields.items():
        numbers = np.ravel(to_numpy(value) if name in member._arrays else value)
        if numbers.dtype.kind in "iuf" and numbers.size:
            found.append(f"{name} {' '.join(f'{x:.3g}' for x in numbers[:4])}{' ...' if numbers.size > 4 else ''}")
    return ", ".join(found) or repr(member)
