"""E- and M-step of HMM emissions.

Symbols are fitted by counts of codes, all other emissions by one weighted fit per state (``fit_weighted``). With
mixtures, each pair of a state and a component is a column of the weighted fit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from mercer._array import Floats, logsumexp, safe_log, to_numpy
from mercer._probability import normalized
from mercer.data.segments import segment_sum
from mercer.families.categorical import Categorical, Categoricals
from mercer.families.estimator import Context, Estimator
from mercer.families.exponential_family import ExponentialFamily
from mercer.families.fit import FamilyEstimator
from mercer.families.gaussian import Gaussians
from mercer.families.gaussian_estimator import Gaussian, fit_gaussians
from mercer.families.gaussian_gaps import gaps_of
from mercer.models._fitting.data import Data
from mercer.models._fitting.mixture_steps import side_by_side
from mercer.models._forward.evidence import code_probabilities, row_log_prob
from mercer.models._forward.interface import Densities, Evidence, Expectations, Symbols
from mercer.models.mixture import Mixtures

COLLAPSED = 1e-30
"""Fraction of the pooled variance below which a Gaussian has collapsed onto a point."""

LARGEST_LOG = 690.0
"""Bound on natural parameters: a probability that rounding made 0 or 1 must not give an infinite divergence."""


class EmissionStep:
    """The contribution of the emissions to one iteration of Baum-Welch."""

    def evidence(self, emission: Any, data: Data) -> tuple[Evidence, Any]:
        """Return the likelihoods of the observations under the states, and intermediate results for `maximize`."""
        raise NotImplementedError

    def maximize(self, emission: Any, data: Data, found: Expectations, memory: Any) -> Any:
        """Refit the emissions to the observations, weighted by the posteriors of the states."""
        raise NotImplementedError

    def log_prior(self, emission: Any) -> Floats:
        """Log conjugate prior of the emissions of each model, up to a constant: n0 E_prior[log p] (DJS-6)."""
        raise NotImplementedError

    def start(self, emission: Any) -> Any:
        """Return emissions to start from, which obey the constraints of a fit."""
        return emission


class SymbolStep(EmissionStep):
    """Emissions of symbols, fitted by expected counts.

    The count of an ambiguity code is distributed over its symbols in proportion to their current probabilities in the
    state, as EM requires for partially observed symbols. Missing symbols are not counted.
    """

    def __init__(self, prior: Floats | None, strength: float) -> None:
        self.prior = None if prior is None else strength * prior  # pseudo-counts (1, n, k) or (k,)

    def evidence(self, emission: Categoricals, data: Data) -> tuple[Evidence, Any]:
        """Return the probability of each code."""
        return Symbols(data.x, code_probabilities(emission)), None

    def maximize(self, emission: Categoricals, data: Data, found: Expectations, memory: Any) -> Categoricals:
        """Return frequencies; an unvisited state keeps its emission."""
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
        return Categoricals._make(probability=normalized(plain, p), alphabet=emission.alphabet)

    def log_prior(self, emission: Categoricals) -> Floats:
        """Log Dirichlet prior."""
        p = to_numpy(emission.probability)
        if self.prior is None:
            return np.zeros(len(p))
        return expected_log(self.prior, p).sum(axis=-1)


class DensityStep(EmissionStep):
    """Emissions of any family, or mixtures of it: one weighted fit per state, or per state and component."""

    def __init__(self, leaf: Estimator, context: Context, prior: Any, strength: float) -> None:
        self.leaf = leaf
        self.context = context
        self.prior: Any = None  # one per column (1, n * m), or one for all columns (1,)
        self.strength = strength
        self.weights: Floats | None = None  # pseudo-counts of the components (1, n, m)
        self.columns: list[Any] = []
        self.tied = type(leaf) is Gaussian and leaf.covariance == "tied"
        if isinstance(leaf, FamilyEstimator):
            leaf.require_point()
        if prior is not None:
            self.prior = _leaves(prior)
            self.weights = strength * to_numpy(prior.weights) if isinstance(prior, Mixtures) else None
            self.columns = [
                clone(leaf).set_params(prior=self.prior[:, j], prior_strength=strength)
                for j in range(self.prior.shape[1])
            ]
        elif leaf.prior is not None:  # the family's own prior
            self.prior, self.strength = leaf._prior_batch(context), float(leaf.prior_strength)

    def evidence(self, emission: Any, data: Data) -> tuple[Evidence, Any]:
        """Return log densities, and the posteriors of the components if the emissions are mixtures."""
        leaves = _leaves(emission)
        owner = data.owner
        self._check_collapse(leaves)
        table = row_log_prob(leaves, data.x, owner) - self._floor_cost(leaves, data)
        if not isinstance(emission, Mixtures):
            return Densities(table), None
        joint = table.reshape(len(table), *emission.weights.shape[1:]) + safe_log(to_numpy(emission.weights))[owner]
        total: Floats = np.asarray(logsumexp(joint, axis=-1))
        possible = np.asarray(np.isfinite(total))[..., None]
        share = np.exp(joint - np.where(possible, total[..., None], 0.0))
        return Densities(total), np.where(possible, share, 1.0 / joint.shape[-1])

    def maximize(self, emission: Any, data: Data, found: Expectations, memory: Any) -> Any:
        """Fit each column; an unvisited state keeps its emission, or gets that of the prior."""
        shares = found.states
        assert shares is not None
        if memory is not None:
            shares = (shares[..., None] * memory).reshape(len(shares), -1)
        leaves, offsets = _leaves(emission), data.point_offsets
        if type(self.leaf) is Gaussian:
            fitted = self.leaf.structured(
                fit_gaussians(data.x, shares, offsets, self.context.floor, leaves, self.prior, self.strength)
            )
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
        if self.tied:
            mass = segment_sum(shares * np.isfinite(data.x).any(axis=1, keepdims=True), offsets)
            fitted = tied(fitted, mass if self.prior is None else mass + self.strength)
        if memory is None:
            return fitted
        weights = to_numpy(emission.weights)
        mass = segment_sum(shares, offsets).reshape(weights.shape)
        mass = mass if self.weights is None else mass + self.weights
        return Mixtures._make(weights=normalized(mass, weights), components=fitted.reshape(*weights.shape))

    def start(self, emission: Any) -> Any:
        """Return emissions to start from: with one covariance if it is tied, or the first step could lose."""
        if not self.tied:
            return emission
        leaves = _leaves(emission)
        shared = tied(leaves, np.ones(leaves.shape))
        return (
            emission._replaced(components=shared.reshape(*emission.weights.shape))
            if isinstance(emission, Mixtures)
            else shared
        )

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

    def _check_collapse(self, leaves: Any) -> None:
        """Raise if a Gaussian without a floor has collapsed onto equal observations, long before it is singular."""
        if not isinstance(leaves, Gaussians) or self.context.floor > 0 or self.context.scale is None:
            return
        variance = to_numpy(leaves.covariance)
        if leaves.structure == "full":
            variance = np.diagonal(variance, axis1=-2, axis2=-1)
        elif leaves.structure == "isotropic":
            variance = variance[..., None]
        bad = np.argwhere((variance < COLLAPSED * self.context.scale) & (variance > 0))
        if len(bad):
            raise ValueError(
                f"the variance of a Gaussian has collapsed to {variance[tuple(bad[0])]:.1g}, around a single "
                "observation or equal ones. Use a floor, such as mc.Gaussian(floor=1e-3)."
            )

    def _floor_cost(self, leaves: Any, data: Data) -> Floats | float:
        """Return the expected loss in log density if each observation has the floor as a variance of its own.

        The fit of a Gaussian maximizes E log N(x + noise) = log N(x) - floor tr(S^-1) / 2. The E-step must use the same
        density, or the objective could decrease.
        """
        floor = self.context.floor
        if not isinstance(leaves, Gaussians) or floor == 0:
            return 0.0
        covariance, owner, rows = to_numpy(leaves.covariance), data.owner, data.incomplete
        if leaves.structure == "full":
            cost = np.asarray(floor / 2 * np.trace(np.linalg.inv(covariance), axis1=-2, axis2=-1))[owner]
            cost[rows] = 0.0
            for part in gaps_of(data.x, owner).blocks(leaves.shape[1]) if len(rows) else ():
                trace = np.trace(part.precisions(covariance), axis1=-2, axis2=-1)
                cost[part.rows] = floor / 2 * trace[part.group]
            return cost
        d = leaves.dimension
        if leaves.structure == "isotropic":
            cost = np.asarray(floor / 2 * d / covariance)[owner]
            covariance = np.repeat(covariance[..., None], d, axis=-1)
        else:
            cost = np.asarray(floor / 2 * (1.0 / covariance).sum(axis=-1))[owner]
        seen = ~np.isnan(data.x[rows])
        cost[rows] = floor / 2 * np.sum(seen[:, None, :] / covariance[owner[rows]], axis=-1)
        return cost


def emission_step(estimator: Estimator, context: Context, prior: Any, strength: float) -> EmissionStep:
    """Return the steps of Baum-Welch for an emission.

    Parameters
    ----------
    estimator : Estimator
        A family, or a `Mixture` of one.
    context : Context
        Properties that all samples share.
    prior : batch of shape (1, n), or None
        The emissions that the states of each model are shrunk to; None uses the family's own prior.
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


def tied(gaussians: Gaussians, mass: Floats) -> Gaussians:
    """Give the Gaussians of each model, ``(N, k)``, one covariance: their mean, weighted by ``mass``.

    It maximizes the expected log density plus the log prior if ``mass`` counts the observations of both.
    """
    total = mass.sum(axis=1, keepdims=True)
    shares = np.where(total > 0, mass / np.where(total > 0, total, 1.0), 1.0 / mass.shape[1])
    covariance = np.einsum("nk,nkij->nij", shares, to_numpy(gaussians.covariance))
    covariance = (covariance + covariance.swapaxes(-2, -1)) / 2
    return gaussians._replaced(covariance=np.repeat(covariance[:, None], mass.shape[1], axis=1))


def expected_log(counts: Floats, p: Floats) -> Floats:
    """Sum counts times log probabilities over the last axis; probabilities are clipped to keep the sum finite."""
    return np.asarray(np.sum(counts * np.log(np.maximum(p, 1e-300)), axis=-1))


def leaf_of(estimator: Estimator) -> Estimator:
    """Return the family of an emission, or of its components if it is a mixture."""
    leaf: Estimator = estimator._component() if hasattr(estimator, "_component") else estimator
    return leaf


def evenly(estimator: Estimator, x: Any, context: Context) -> Estimator:
    """Return the estimator of a pooled model, smoothed by one observation per state, spread evenly over all outcomes.

    An outcome that does not occur in the training data ``x`` then has positive probability. A prior that was given to
    the family is kept.
    """
    leaf = leaf_of(estimator)
    smoothing = leaf._even(x, context) if leaf.prior is None or isinstance(leaf.prior, str) else None
    if smoothing is None:
        return estimator
    smoothed: Estimator = clone(leaf).set_params(prior=smoothing, prior_strength=1.0)
    return smoothed if leaf is estimator else clone(estimator).set_params(component=smoothed)


def _leaves(emission: Any) -> Any:
    """Return the columns of the weighted fit: states, or pairs of a state and a component."""
    if not isinstance(emission, Mixtures):
        return emission
    size, n, m = emission.weights.shape
    return emission.components.reshape(size, n * m)


def _divergence(prior: Any, current: Any) -> Floats:
    """Compute KL(prior || current) up to a constant, for a prior of shape (1,) and N current emissions: ``(N,)``."""
    if isinstance(current, Gaussians) and current.structure != "full":
        variance, spread = _variances(current), _variances(prior)
        difference = to_numpy(current.mean) - to_numpy(prior.mean)
        return np.asarray(np.sum(np.log(variance) + (spread + difference**2) / variance, axis=-1) / 2)
    if isinstance(current, Gaussians) or not isinstance(current, ExponentialFamily):
        return np.asarray(to_numpy(prior.kl(current))[0])
    # A probability that rounding made 0 or 1 would have infinite divergence from a prior that is close to it.
    theta = np.clip(to_numpy(current.natural_parameters), -LARGEST_LOG, LARGEST_LOG)
    value = to_numpy(current.log_partition(theta)) - theta @ to_numpy(prior.mean_parameters)[0]
    return np.asarray(value / getattr(current, "n_draws", 1))  # the prior of a multinomial counts words


def _variances(batch: Gaussians) -> Floats:
    """Variances of the coordinates, ``(N, d)``."""
    variance = to_numpy(batch.covariance)
    return variance if batch.structure == "diagonal" else np.repeat(variance[:, None], batch.dimension, axis=1)
