"""Metrics of Fisher scores: inverse roots of an information matrix, estimated, exact or complete (FK-2)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from mercer._array import Floats, to_numpy


class Diagonal(NamedTuple):
    """Scale every column."""

    columns: Floats

    def applied(self, scores: Any) -> Any:
        """Multiply scores, dense or sparse, with the matrix."""
        return scores.multiply(self.columns).tocsr() if sparse.issparse(scores) else scores * self.columns

    def pulled(self, weights: Floats) -> Floats:
        """Return the weights of scores, given those of whitened scores: multiply with the transposed matrix."""
        return weights * self.columns


class LowRank(NamedTuple):
    """The symmetric matrix ``V' diag(inside) V + rest``, which is never formed; the rows of V are orthonormal."""

    rows: Floats
    inside: Floats
    rest: float

    def applied(self, scores: Floats) -> Floats:
        """Multiply scores with the matrix."""
        return (scores @ self.rows.T * self.inside) @ self.rows + self.rest * scores

    def pulled(self, weights: Floats) -> Floats:
        """Return the weights of scores, given those of whitened scores; the matrix is symmetric."""
        return self.applied(weights)


class Blocks(NamedTuple):
    """A block-diagonal matrix: vectors are diagonal blocks."""

    parts: tuple[Floats, ...]

    def applied(self, scores: Floats) -> Floats:
        """Multiply scores with the matrix."""
        ends = np.cumsum([len(part) for part in self.parts])
        columns = np.split(scores, ends[:-1], axis=1)
        return np.concatenate(
            [g * part if part.ndim == 1 else g @ part for g, part in zip(columns, self.parts, strict=True)], axis=1
        )

    def pulled(self, weights: Floats) -> Floats:
        """Return the weights of scores, given those of whitened scores: multiply with the transposed matrix."""
        return Blocks(tuple(part.T for part in self.parts)).applied(weights)


Metric = Diagonal | LowRank | Blocks


# -- roots --------------------------------------------------------------------------------------------------


def inverse_root(values: Floats, ridge: float) -> Floats:
    """Return (values + ridge)^{-1/2}; without a ridge 0 if a value is below 1e-12 of the largest (FK-2)."""
    values = np.maximum(values, 0.0)
    raised = values + ridge * values.mean()
    keep = raised > (0.0 if ridge else 1e-12 * values.max())
    return np.where(keep, 1 / np.sqrt(np.where(keep, raised, 1.0)), 0.0)


def effective_rank(values: Floats) -> float:
    """Return (sum of eigenvalues)^2 / sum of their squares."""
    values = np.maximum(values, 0.0)
    return float(values.sum() ** 2 / max(np.sum(values**2), 1e-300))


def root(information: Floats, ridge: float) -> tuple[Floats, Floats]:
    """Return a matrix W with W W' = (I + ridge)^-1, the pseudo-inverse without a ridge, and the eigenvalues of I."""
    values, vectors = np.linalg.eigh(information)
    return vectors * inverse_root(values, ridge), values


def estimated(scores: Any, ridge: float, *, diagonal: bool) -> tuple[Metric, Floats]:
    """Root of the second moment of scores ``(N, P)``, or of its diagonal; and its eigenvalues."""
    n, p = scores.shape
    if diagonal:
        squares = scores.multiply(scores) if sparse.issparse(scores) else scores * scores
        values = np.asarray(squares.sum(axis=0)).ravel() / n
        return Diagonal(inverse_root(values, ridge)), values
    if n >= p:
        whole, values = root(scores.T @ scores / n, ridge)
        return Blocks((whole,)), values
    _, singular, right = np.linalg.svd(scores, full_matrices=False)
    # The p - n eigenvalues that are 0 come last: (I + r)^{-1/2} = r^{-1/2} (1 - V V') + V (values + r)^{-1/2} V'
    values = np.append(singular**2 / n, np.zeros(p - n))
    inverse = inverse_root(values, ridge)
    return LowRank(right, inverse[:n] - inverse[-1], float(inverse[-1])), values


# -- closed forms -------------------------------------------------------------------------------------------


def exact(models: Any, parametrization: str) -> tuple[Blocks, Floats]:
    """Root of the models' own information."""
    information = to_numpy(models.fisher_information())
    if parametrization == "weight" and hasattr(models, "n_draws"):
        parts = tuple(part[0] for part in _members(models, parametrization))
        return Blocks(parts), np.concatenate([np.linalg.eigvalsh(block) for block in information])
    found = [root(block, 0.0) for block in information]
    return Blocks(tuple(part for part, _ in found)), np.concatenate([values for _, values in found])


def complete(models: Any, lengths: Floats, parametrization: str, per: str) -> Blocks:
    """Root of the complete-data information, as if hidden variables were observed: FK-5's Fisher vector.

    It equals the information if components are well separated. For hidden Markov models it is that of sequences with
    the lengths of the training data; scores that are means per step are divided by these lengths.
    """
    share = np.where(lengths > 0, 1.0 / np.maximum(lengths, 1) ** (2 if per == "step" else 0), 0.0)
    parts: list[Floats] = []
    for c in range(len(models)):
        if hasattr(models, "emission"):
            initial, transition = to_numpy(models.initial)[c], to_numpy(models.transition)[c]
            left, visits = _expected_visits(initial, transition, lengths, share)
            parts.append(_simplex_root(initial, parametrization, float(np.mean(share))))
            parts += [_simplex_root(*row) for row in zip(transition, [parametrization] * len(left), left, strict=True)]
            parts += _scaled(_members(models.emission[c], parametrization), visits)
        else:
            parts += [part for member in _members(models[c : c + 1], parametrization) for part in member]
    return Blocks(tuple(parts))


def _expected_visits(initial: Floats, transition: Floats, lengths: Floats, share: Floats) -> tuple[Floats, Floats]:
    """Return the expected numbers of transitions from and visits to every state; ``share`` weights the lengths."""
    longer = np.bincount(lengths, weights=share)[::-1].cumsum()[
        ::-1
    ]  # longer[t]: the weight of sequences of t observations or more
    state, left, visits = initial, np.zeros(len(initial)), np.zeros(len(initial))
    for t in range(1, len(longer)):
        visits += longer[t] / len(lengths) * state
        if t + 1 < len(longer):
            left += longer[t + 1] / len(lengths) * state
        state = state @ transition
    return left, visits


def _members(members: Any, parametrization: str) -> list[list[Floats]]:
    """Roots of the blocks of every member of a family or mixture, of shape ``(n,)``."""
    if hasattr(members, "n_draws"):
        dense = members.dense() if hasattr(members, "dense") else members
        return [[_simplex_root(p, parametrization, members.n_draws)] for p in to_numpy(dense.probability)]
    if hasattr(members, "components"):
        found = []
        for i, mixing in enumerate(to_numpy(members.weights)):
            inner = _scaled(_members(members.components[i], parametrization), mixing)
            found.append([_simplex_root(mixing, parametrization, 1.0), *inner])
        return found
    blocks = to_numpy(members.fisher_information())
    if np.all(blocks == blocks * np.eye(blocks.shape[-1])):
        return [[inverse_root(np.diagonal(block), 0.0)] for block in blocks]
    return [[root(block, 0.0)[0]] for block in blocks]


def _scaled(members: list[list[Floats]], mass: Floats) -> list[Floats]:
    """Divide the roots of every member by the square root of its expected count; 0 if that is 0."""
    factor = inverse_mass(mass)
    return [factor[i] * part for i, member in enumerate(members) for part in member]


def _simplex_root(p: Floats, parametrization: str, draws: float) -> Floats:
    """Return the diagonal W with |W g|^2 = g' I^+ g = sum of g^2 / p per draw, since scores of logits sum to 0."""
    scale = inverse_mass(np.asarray(draws))
    return scale * (np.sqrt(p) if parametrization == "weight" else inverse_mass(p))


def inverse_mass(mass: Floats) -> Floats:
    """Return mass^{-1/2}; 0 where the mass is 0."""
    return np.where(mass > 0, 1 / np.sqrt(np.where(mass > 0, mass, 1.0)), 0.0)
