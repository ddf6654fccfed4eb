"""How the emissions of HMMs take part in Baum-Welch: what they think of observations, and how they are fitted again.

Symbols go by counts of codes, everything else by one weighted fit per state, through ``fit_weighted``. A mixture is a
wider emission: every pair of a state and a component is a column of the weighted fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import clone

from mercer._array import Floats, logsumexp, safe_log, to_numpy
from mercer.families._estimator import Context, Estimator, segment_sum
from mercer.families.categorical import Categorical, Categoricals
from mercer.families.gaussian import Gaussian, Gaussians
from mercer.models._fitting.gaussian_step import fit_gaussians
from mercer.models._fitting.mixture_steps import side_by_side
from mercer.models._forward.evidence import code_probabilities, row_log_prob
from mercer.models._forward.interface import Densities, Evidence, Expectations, Runs, Symbols
from mercer.models.mixture import Mixture, Mixtures

__all__ = ["Data", "DensityStep", "EmissionStep", "SymbolStep", "emission_step", "expected_log", "leaf_of", "shares_of"]


@dataclass(frozen=True)
class Data:
    """Observations of several models: the sequences of a model stand together, models in order.

    Parameters
    ----------
    x : array of shape (T, ...)
        All observations.
    offsets : array of shape (S + 1,)
        Sequence s has the observations ``offsets[s]:offsets[s + 1]``.
    model : array of shape (S,)
        Model of every sequence, ascending from 0.
    size : int
        Number of models.
    """

    x: Floats
    offsets: Floats
    model: Floats
    size: int

    @cached_property
    def runs(self) -> Runs:
        """The sequences, each under its model."""
        return Runs(self.offsets[:-1], np.diff(self.offsets), self.model)

    @cached_property
    def owner(self) -> Floats:
        """Model of every observation."""
        return np.repeat(self.model, np.diff(self.offsets))

    @cached_property
    def sequence_offsets(self) -> Floats:
        """Model i has the sequences ``[i]:[i + 1]`` of these."""
        return np.searchsorted(self.model, np.arange(self.size + 1))

    @cached_property
    def point_offsets(self) -> Floats:
        """Model i has the observations ``[i]:[i + 1]`` of these."""
        return np.asarray(self.offsets[self.sequence_offsets])

    @cached_property
    def incomplete(self) -> Floats:
        """Observations with a coordinate that is NaN."""
        return np.flatnonzero(np.isnan(self.x).any(axis=1))

    def some(self, which: Floats) -> Data:
        """Keep the sequences of some models, which are ascending."""
        keep = np.zeros(self.size, dtype=bool)
        keep[which] = True
        place = np.cumsum(keep) - 1
        inside, lengths = keep[self.model], np.diff(self.offsets)
        points = np.flatnonzero(np.repeat(inside, lengths))
        offsets = np.concatenate([[0], np.cumsum(lengths[inside])])
        return Data(self.x[points], offsets, place[self.model[inside]], len(which))


class EmissionStep:
    """What an emission contributes to one iteration of Baum-Welch."""

    def evidence(self, emission: Any, data: Data) -> tuple[Evidence, Any]:
        """Return what the states think of the observations, and what `maximise` needs of it."""
        raise NotImplementedError

    def maximise(self, emission: Any, data: Data, found: Expectations, memory: Any) -> Any:
        """Fit the emissions again to the observations, as far as their states were visited."""
        raise NotImplementedError

    def log_prior(self, emission: Any) -> Floats:
        """Log conjugate prior of every model's emissions, up to a constant: n0 E_prior[log p] (DJS-6)."""
        raise NotImplementedError


class SymbolStep(EmissionStep):
    """Emissions of symbols: frequencies of expected counts.

    An ambiguity code counts for its symbols by their current probabilities in the state, which is what EM does with
    a symbol that was not read exactly; a missing one counts for nothing.
    """

    def __init__(self, prior: Floats | None, strength: float) -> None:
        self.prior = None if prior is None else strength * prior  # pseudo-counts (1, n, k) or (k,)

    def evidence(self, emission: Categoricals, data: Data) -> tuple[Evidence, Any]:
        """Return the probability of every code."""
        if len(emission.alphabet.ambiguity):
            return Symbols(data.x, code_probabilities(emission)), None
        p = to_numpy(emission.probability)
        table = np.ones((*p.shape[:-1], p.shape[-1] + 1))  # the missing code is certain
        table[..., :-1] = p
        return Symbols(data.x, table), None

    def maximise(self, emission: Categoricals, data: Data, found: Expectations, memory: Any) -> Categoricals:
        """Return frequencies; a state that nobody visits stays what it was."""
        counts = segment_sum(np.asarray(found.symbols), data.sequence_offsets)
        p = to_numpy(emission.probability)
        k, sets = p.shape[-1], emission.alphabet.ambiguity
        plain = counts[..., :k]
        if len(sets):
            within = p @ sets.T
            share = counts[..., k:-1] / np.where(within > 0, within, 1.0)
            plain = plain + p * (share @ sets)
        if self.prior is not None:
            plain = plain + self.prior
        return Categoricals._make(probability=shares_of(plain, p), alphabet=emission.alphabet)

    def log_prior(self, emission: Categoricals) -> Floats:
        """Log Dirichlet prior."""
        p = to_numpy(emission.probability)
        if self.prior is None:
            return np.zeros(len(p))
        return expected_log(self.prior, p).sum(axis=-1)


class DensityStep(EmissionStep):
    """Emissions of any family, or mixtures of it: one weighted fit for every state, or state and component."""

    def __init__(self, leaf: Estimator, context: Context, prior: Any, strength: float) -> None:
        self.leaf = leaf
        self.context = context
        self.prior: Any = None  # of every column (1, n * m), or one for all of them (1,)
        self.strength = strength
        self.weights: Floats | None = None  # pseudo-counts of the components (1, n, m)
        self.columns: list[Any] = []
        if prior is not None:
            self.prior = _leaves(prior)
            self.weights = strength * to_numpy(prior.weights) if isinstance(prior, Mixtures) else None
            self.columns = [
                clone(leaf).set_params(prior=self.prior[:, j], prior_strength=strength)
                for j in range(self.prior.shape[1])
            ]
        elif leaf.prior is not None:  # of the family itself
            self.prior, self.strength = leaf._prior_batch(context), float(leaf.prior_strength)

    def evidence(self, emission: Any, data: Data) -> tuple[Evidence, Any]:
        """Return log densities; remember what the components of a mixture share."""
        leaves = _leaves(emission)
        owner = data.owner
        table = row_log_prob(leaves, data.x, owner) - self._floor_cost(leaves, data)
        if not isinstance(emission, Mixtures):
            return Densities(table), None
        joint = table.reshape(len(table), *emission.weights.shape[1:]) + safe_log(to_numpy(emission.weights))[owner]
        total: Floats = np.asarray(logsumexp(joint, axis=-1))
        possible = np.asarray(np.isfinite(total))[..., None]
        share = np.exp(joint - np.where(possible, total[..., None], 0.0))
        return Densities(total), np.where(possible, share, 1.0 / joint.shape[-1])

    def maximise(self, emission: Any, data: Data, found: Expectations, memory: Any) -> Any:
        """Fit every column; a state that nobody visits stays what it was, or what the prior says."""
        shares = found.states
        assert shares is not None
        if memory is not None:
            shares = (shares[..., None] * memory).reshape(len(shares), -1)
        leaves, offsets = _leaves(emission), data.point_offsets
        if type(self.leaf) is Gaussian:
            fitted = fit_gaussians(data.x, shares, offsets, self.context.floor, leaves, self.prior, self.strength)
        elif not self.columns:
            fitted = self.leaf.fit_weighted(data.x, shares, offsets, self.context, start=leaves)
        else:
            fitted = side_by_side(
                [
                    column.fit_weighted(
                        data.x, shares[:, j : j + 1], offsets, self.context, start=leaves[:, j : j + 1]
                    )[:, 0]
                    for j, column in enumerate(self.columns)
                ]
            )
        if memory is None:
            return fitted
        weights = to_numpy(emission.weights)
        mass = segment_sum(shares, offsets).reshape(weights.shape)
        mass = mass if self.weights is None else mass + self.weights
        return Mixtures._make(weights=shares_of(mass, weights), components=fitted.reshape(*weights.shape))

    def log_prior(self, emission: Any) -> Floats:
        """Log conjugate prior of weights and components."""
        value = np.zeros(emission.shape[0])
        if self.prior is None:
            return value
        leaves = _leaves(emission)
        if self.weights is not None:
            weights = to_numpy(emission.weights)
            value += expected_log(self.weights, weights).sum(axis=-1)
        for j in range(leaves.shape[1]):
            prior = self.prior if self.prior.ndim == 1 else self.prior[:, j]
            value -= self.strength * _divergence(prior, leaves[:, j])
        return np.asarray(np.where(np.isfinite(value), value, -1e300))

    def _floor_cost(self, leaves: Any, data: Data) -> Floats | float:
        """Give every observation the floor as a variance of its own, as the fit of a Gaussian does.

        A fit to points that vary by themselves maximises E log N(x + noise) = log N(x) - floor tr(S^-1) / 2. The E
        step must see the same, or the objective could fall.
        """
        floor = self.context.floor
        if not isinstance(leaves, Gaussians) or floor == 0:
            return 0.0
        covariance, owner = to_numpy(leaves.covariance), data.owner
        if leaves.structure == "full":
            return np.asarray(floor / 2 * np.trace(np.linalg.inv(covariance), axis1=-2, axis2=-1))[owner]
        if leaves.structure == "isotropic":
            return np.asarray(floor / 2 * leaves.dimension / covariance)[owner]
        precision = 1.0 / covariance
        cost = np.asarray(floor / 2 * precision.sum(axis=-1))[owner]
        rows = data.incomplete
        seen = ~np.isnan(data.x[rows])
        cost[rows] = floor / 2 * np.sum(precision[owner[rows]] * seen[:, None, :], axis=-1)
        return cost


def emission_step(estimator: Estimator, context: Context, prior: Any, strength: float) -> EmissionStep:
    """Return the step of an emission's estimator.

    Parameters
    ----------
    estimator : Estimator
        A family, or a `Mixture` of one.
    context : Context
        What the data share.
    prior : batch of shape (1, n), or None
        What the states of every model are shrunk to; None leaves it to the family's own prior.
    strength : float
        Weight of the prior, in observations.
    """
    leaf = leaf_of(estimator)
    if isinstance(estimator, Categorical):
        if prior is not None:
            return SymbolStep(to_numpy(prior.probability), strength)
        own = None if leaf.prior is None else to_numpy(leaf._prior_batch(context).probability)[0]
        return SymbolStep(own, float(leaf.prior_strength))
    return DensityStep(leaf, context, prior, strength)


def shares_of(counts: Floats, fallback: Floats) -> Floats:
    """Divide every row by its sum; a row of zeros becomes ``fallback``. For many short rows."""
    total = np.einsum("...k->...", counts)[..., None]  # several times the speed of a sum over a short last axis
    visited = total > 0
    if visited.all():
        return np.asarray(counts / total)
    return np.where(visited, counts / np.where(visited, total, 1.0), fallback)


def expected_log(counts: Floats, p: Floats) -> Floats:
    """Sum of counts times log probabilities over the last axis; what underflows to zero is not infinitely unlikely."""
    return np.asarray(np.sum(counts * np.log(np.maximum(p, 1e-300)), axis=-1))


def leaf_of(estimator: Estimator) -> Estimator:
    """Return the family of an emission: of the components, where it is a mixture."""
    return estimator._component() if isinstance(estimator, Mixture) else estimator


def _leaves(emission: Any) -> Any:
    """Columns of the weighted fit: states, or pairs of a state and a component."""
    if not isinstance(emission, Mixtures):
        return emission
    size, n, m = emission.weights.shape
    return emission.components.reshape(size, n * m)


def _divergence(prior: Any, current: Any) -> Floats:
    """KL(prior || current) up to a constant, for a prior of shape (1,) and N current ones: ``(N,)``."""
    if isinstance(current, Gaussians) and current.structure != "full":
        variance, spread = _variances(current), _variances(prior)
        difference = to_numpy(current.mean) - to_numpy(prior.mean)
        return np.asarray(np.sum(np.log(variance) + (spread + difference**2) / variance, axis=-1) / 2)
    return np.asarray(to_numpy(prior.kl(current))[0])


def _variances(batch: Gaussians) -> Floats:
    """Variances of the coordinates, ``(N, d)``."""
    variance = to_numpy(batch.covariance)
    return variance if batch.structure == "diagonal" else np.repeat(variance[:, None], batch.dimension, axis=1)
