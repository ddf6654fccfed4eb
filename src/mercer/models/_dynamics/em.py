"""Expectation maximization of linear dynamical systems (EST-3): a pooled prior (EST-2b), fixed parameters, starts.

The regressions of the next state on the state, of the observation on the state, and of the first state on nothing are
one function: with the noise w under the present coefficients, the E-step gives E[w w'], E[w (s, 1)'] and
E[(s, 1)(s, 1)'], and the M-step *changes* the coefficients. Nothing large is subtracted, however far from zero the
states are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats, Indices
from mercer.data.segments import segment_sum
from mercer.models._dynamics.runs import StateExpectations, Systems, expected, systems_of
from mercer.models._fitting.data import Data
from mercer.models.lds import LDSs

PARTS = {
    "state": ("transition", "state_offset", "process_covariance"),
    "observation": ("emission", "observation_offset", "observation_covariance"),
    "first": ("", "initial_mean", "initial_covariance"),
}
"""The regressions: matrix, offset and covariance of the noise. The first state has no matrix, only an offset."""


class Regression(NamedTuple):
    """Expected second moments of a linear regression y = B (s, 1) + w, relative to present coefficients B."""

    noise: Floats
    """E[w w'], ``(N, k, k)``."""
    cross: Floats
    """E[w (s, 1)'], ``(N, k, n + 1)``."""
    moment: Floats
    """E[(s, 1)(s, 1)'], ``(N, n + 1, n + 1)``."""
    terms: Floats
    """Number of terms, ``(N,)``."""

    def at(self, change: Floats) -> Regression:
        """Return the moments relative to coefficients that are larger by ``change``."""
        moved = change @ self.moment
        shared = change @ _t(self.cross)
        noise = self.noise - shared - _t(shared) + moved @ _t(change)
        return Regression(noise, self.cross - moved, self.moment, self.terms)

    def plus(self, other: Regression, weight: float) -> Regression:
        """Add the moments of another regression relative to the same coefficients."""
        return Regression(*(mine + weight * theirs for mine, theirs in zip(self, other, strict=True)))


class Moments(NamedTuple):
    """Regressions relative to the parameters of systems: what the E-step expects, or what a prior expects of a step."""

    systems: Systems
    state: Regression
    observation: Regression
    first: Regression


class Counts(NamedTuple):
    """Numbers of terms of the sums of every system."""

    steps: Floats
    """Of steps of the state, ``(N,)``."""
    seen: Floats
    """Of observations with a value, ``(N,)``."""
    series: Floats
    """``(N,)``."""


class Found(NamedTuple):
    """Results of the E-step that the loop of EM uses."""

    log_prob: Floats
    visits: Floats


def _t(x: Floats) -> Floats:
    return x.swapaxes(-2, -1)


def moments_of(systems: Systems, found: StateExpectations, counts: Counts) -> Moments:
    """Turn gradients, summed for every system, into moments: E[w w'] is Q + Q (r r' - N) Q."""

    def regression(covariance: Floats, gradient: Floats, slope: Floats, moment: Floats, count: Floats) -> Regression:
        noise = count[:, None, None] * covariance + covariance @ gradient @ covariance
        return Regression(noise, covariance @ slope, moment, count)

    q, r, s = systems.process_covariance, systems.observation_covariance, systems.initial_covariance
    steps, seen, series = counts
    return Moments(
        systems,
        regression(q, found.process, found.transition, _augmented(found.state_moment, steps), steps),
        regression(r, found.observation, found.emission, _augmented(found.observed_moment, seen), seen),
        regression(s, found.initial, found.initial_mean[..., None], series[:, None, None], series),
    )


def _totals(found: StateExpectations, data: Data) -> tuple[StateExpectations, Counts]:
    """Sum the expectations of the series of every model."""
    ends = data.sequence_offsets
    alone = bool(np.all(np.diff(ends) == 1))

    def total(x: Floats) -> Floats:
        return x if alone else segment_sum(x.reshape(len(x), -1), ends).reshape(-1, *x.shape[1:])

    steps = total(np.maximum(np.diff(data.offsets) - 1, 0).astype(float))
    sums = StateExpectations(found.log_prob, *(total(part) for part in found[1:]))
    return sums, Counts(steps, data.observed, np.diff(ends).astype(float))


def _augmented(moments: Floats, count: Floats) -> Floats:
    """Return second moments of (s, 1)."""
    second, first = moments[..., :-1], moments[..., -1]
    n = first.shape[-1]
    out = np.empty((len(first), n + 1, n + 1))
    out[:, :n, :n], out[:, :n, n], out[:, n, :n], out[:, n, n] = (second + _t(second)) / 2, first, first, count
    return out


def expectations_of(systems: Systems, data: Data) -> tuple[Floats, Moments]:
    """Return the log probability of each series, and the expectations of systems for their series."""
    found = expected(systems, data.x, data.runs)
    return found.log_prob, moments_of(systems, *_totals(found, data))


def averages(systems: Systems, own: Moments | None = None) -> Moments:
    """Return the expectations of systems for one step of their data; of states with unit moments without data."""

    def per_step(which: str) -> Regression:
        # Relative to the systems themselves, noise and coefficients are their own, also where EM has not converged.
        noise, none = getattr(systems, PARTS[which][2]), np.zeros_like(_coefficients(systems, which))
        moment = np.tile(np.eye(none.shape[-1]), (len(noise), 1, 1))
        if own is not None:
            regression: Regression = getattr(own, which)
            count = regression.terms[:, None, None]  # series of one observation say nothing of steps
            moment = np.where(count > 0, regression.moment / np.maximum(count, 1e-300), moment)
        return Regression(noise, none, moment, np.ones(len(noise)))

    return Moments(systems, *map(per_step, PARTS))


class LDSGoal(NamedTuple):
    """The objective of EM, the log probability plus a log prior, and its two steps."""

    noise: str
    """Structure of the observation noise."""
    fixed: dict[str, Floats]
    """Values of parameters that are not learned; NaN entries are."""
    floors: tuple[Floats, Floats, Floats]
    """Variances that are added to those of each estimate of the noises of `PARTS`; a fixed covariance has no floor."""
    prior: Moments | None
    strength: float
    """Weight of the prior, in steps."""

    def admitted(self, models: LDSs) -> LDSs:
        """Return systems with the structure of the noise and the fixed parameters, to start from."""
        values = {name: np.array(getattr(models, name)) for name in LDSs._arrays}
        values["observation_covariance"] = self.structured(values["observation_covariance"])
        for name, given in self.fixed.items():
            values[name] = np.where(np.isnan(given), values[name], given)
        return LDSs._make(**values)

    def log_prior(self, models: LDSs) -> Floats:
        """Log prior of each system, up to a constant: ``strength`` times what the pooled system expects of a step."""
        if self.prior is None:
            return np.zeros(len(models))
        own = systems_of(models)
        return np.asarray(sum(self.log_prior_of(which, own) for which in PARTS))

    def log_prior_of(self, which: str, own: Systems) -> Floats:
        """Log prior of one of the `PARTS` of each system."""
        assert self.prior is not None
        base = self.prior.systems
        regression: Regression = getattr(self.prior, which)
        noise = regression.at(_coefficients(own, which) - _coefficients(base, which)).noise
        return self.strength * self._expected_log(PARTS[which][2], own, noise)

    def _expected_log(self, name: str, own: Systems, noise: Floats) -> Floats:
        """Return E log N(w; 0, covariance) up to a constant, if E[w w'] is ``noise``."""
        covariance = getattr(own, name)
        if name in self.fixed:  # it may be singular; w has no part in its null space that is learned
            return np.asarray(-0.5 * np.trace(np.linalg.pinv(covariance, hermitian=True) @ noise, axis1=-2, axis2=-1))
        _, log_det = np.linalg.slogdet(covariance)
        return np.asarray(-0.5 * (log_det + np.trace(np.linalg.solve(covariance, noise), axis1=-2, axis2=-1)))

    def expect(self, models: LDSs, data: Data) -> tuple[Found, Moments]:
        """Return the objective of each series without the prior, and expectations that `maximize` needs."""
        systems = systems_of(models)
        log_prob, memory = expectations_of(systems, data)
        parts = zip(memory[1:], self.floor_terms(systems), strict=True)
        floors: Any = sum(part.terms * term for part, term in parts)
        off = (floors / np.maximum(memory.first.terms, 1))[data.model]
        return Found(log_prob - off, np.empty((len(data.model), 0))), memory

    def floor_terms(self, systems: Systems) -> list[Floats]:
        """Return the penalties of the floors, as variances of one step of each of the `PARTS`, ``(N,)``."""
        found = []
        for floor, (_, _, name) in zip(self.floors, PARTS.values(), strict=True):
            covariance, term = getattr(systems, name), np.zeros(len(systems.transition))
            if name not in self.fixed and np.any(floor > 0):
                term = 0.5 * (floor * np.diagonal(np.linalg.inv(covariance), axis1=1, axis2=2)).sum(axis=1)
            found.append(term)
        return found

    def maximize(self, models: LDSs, data: Data, found: Found, memory: Moments) -> LDSs:
        """Refit the systems to the expectations."""
        values = {}
        for (which, (matrix, offset, noise)), floor in zip(PARTS.items(), self.floors, strict=True):
            coefficients, covariance = self.regressed(which, floor, memory)
            values[offset] = coefficients[..., -1]
            if matrix:
                values[matrix] = coefficients[..., :-1]
            if which == "observation":
                covariance = self.structured(covariance)
            given = self.fixed.get(noise)
            values[noise] = covariance if given is None else np.broadcast_to(given, covariance.shape).copy()
        return LDSs._make(**values, state_dims=models.state_dims)

    def regressed(self, which: str, floor: Floats, memory: Moments) -> tuple[Floats, Floats]:
        """Refit the coefficients of one regression, and its noise."""
        own: Regression = getattr(memory, which)
        present = _coefficients(memory.systems, which)
        total = own._replace(noise=own.noise + own.terms[:, None, None] * np.diag(floor))
        if self.prior is not None and self.strength > 0:
            base: Regression = getattr(self.prior, which)
            total = total.plus(base.at(present - _coefficients(self.prior.systems, which)), self.strength)
        noise = getattr(memory.systems, PARTS[which][2])
        change = self._change(which, present, total, noise)
        after = total.at(change)
        counted = np.maximum(total.terms, 1e-300)[:, None, None]
        covariance = np.where(total.terms[:, None, None] > 0, after.noise / counted, noise)
        return present + change, (covariance + _t(covariance)) / 2

    def _change(self, which: str, present: Floats, total: Regression, noise: Floats) -> Floats:
        """Return the best change of the free coefficients."""
        free = np.isnan(_fixed_coefficients(self.fixed, which, present))
        nothing = total.terms[:, None, None] == 0
        moment = np.where(nothing, np.eye(total.moment.shape[-1]), total.moment)
        columns = free[0].any(axis=0)
        change = np.zeros_like(present)
        if (free[0] == columns).all():  # whole columns are fixed, or none: a smaller regression
            if columns.all():
                return _t(np.linalg.solve(moment, _t(total.cross)))
            keep = np.flatnonzero(columns)
            part = moment[:, keep[:, None], keep]
            change[..., keep] = _t(np.linalg.solve(part, _t(total.cross[..., keep])))
            return change
        # Single entries are fixed: the normal equations of the free ones, weighted with the inverse noise.
        singular = PARTS[which][2] in self.fixed  # maybe, but not where a coefficient is free
        weight = np.linalg.pinv(noise, hermitian=True) if singular else np.linalg.inv(noise)
        size = present.shape[-2] * present.shape[-1]
        normal = np.einsum("nij,nkl->nikjl", weight, moment).reshape(-1, size, size)
        target = (weight @ total.cross).reshape(-1, size)
        which_free = np.flatnonzero(free[0].reshape(-1))
        part = normal[:, which_free[:, None], which_free]
        change.reshape(-1, size)[:, which_free] = np.linalg.solve(part, target[:, which_free, None])[..., 0]
        return change

    def structured(self, covariance: Floats) -> Floats:
        """Return the observation noise with the structure that was asked for."""
        if self.noise == "full":
            return covariance
        d = covariance.shape[-1]
        variances = np.diagonal(covariance, axis1=1, axis2=2)
        if self.noise == "isotropic":
            variances = np.repeat(variances.mean(axis=1, keepdims=True), d, axis=1)
        return np.asarray(variances[..., None] * np.eye(d))


def _coefficients(systems: Systems, which: str) -> Floats:
    matrix, offset, _ = PARTS[which]
    last = getattr(systems, offset)[..., None]
    return np.concatenate([getattr(systems, matrix), last], axis=-1) if matrix else last


def _fixed_coefficients(fixed: dict[str, Floats], which: str, present: Floats) -> Floats:
    """Return fixed coefficients, ``(1, k, n + 1)``, NaN where they are learned."""
    matrix, offset, _ = PARTS[which]
    found = np.full((1, *present.shape[1:]), np.nan)
    if matrix in fixed:
        found[..., :-1] = fixed[matrix]
    if offset in fixed:
        found[..., -1] = fixed[offset]
    return found


_STABLE = 0.98
"""Largest absolute eigenvalue of the transition of a start."""
_NOISE = 0.05
"""Least share of a variance that a start leaves to the noise."""


def lagged_covariances(x: Floats, offsets: Indices, lags: int) -> Floats:
    """Covariances of observations ``k`` steps apart, ``(lags + 1, d, d)``, of centered series; NaN is left out."""
    seen = np.isfinite(x)
    filled = np.where(seen, x, 0.0)
    place = np.arange(len(x)) - np.repeat(offsets[:-1], np.diff(offsets))
    found = np.zeros((lags + 1, x.shape[1], x.shape[1]))
    for k in range(min(lags + 1, len(x))):
        later = np.flatnonzero(place >= k)
        if len(later):
            now, before = filled[later], filled[later - k]
            count = seen[later].T.astype(float) @ seen[later - k].astype(float)
            found[k] = now.T @ before / np.maximum(count, 1.0)
    return found


def start(
    x: Floats, offsets: Indices, n: int, center: Floats, scale: Floats, seed: int, attempt: int
) -> dict[str, Floats]:
    """Return the parameters of one system, each without a batch axis: the state has about unit variance.

    Parameters
    ----------
    x : array of shape (T, d)
        Observations; NaN is missing.
    offsets : array of shape (S + 1,)
        Series s has the observations ``offsets[s]:offsets[s + 1]``.
    n : int
        Number of state coordinates.
    center, scale : array of shape (d,)
        Mean and variance of each channel; the scale is positive.
    seed, attempt : int
        Starts after the first are perturbed at random.
    """
    d = x.shape[1]
    deviation = np.sqrt(scale)
    blocks = max(2, -(-n // d) + 1)
    covariances = lagged_covariances((x - center) / deviation, offsets, 2 * blocks)
    rng = np.random.default_rng([seed, attempt])
    hankel = np.block([[covariances[i + j + 1] for j in range(blocks)] for i in range(blocks)])
    if attempt:
        hankel = hankel + 0.3 * rng.normal(size=hankel.shape) * np.abs(hankel).max(initial=0.1)
    left, values, _ = np.linalg.svd(hankel)
    values = np.maximum(values[:n], 1e-3 * max(values[0], 1e-3))
    observability = left[:, :n] * np.sqrt(values)
    a = np.linalg.lstsq(observability[:-d], observability[d:], rcond=1e-6)[0]
    radius = np.abs(np.linalg.eigvals(a)).max(initial=0.0)
    a = a * min(1.0, _STABLE / max(radius, 1e-12))
    # State variances are singular values, as in a balanced realization, less where they exceed those of the data.
    c = observability[:d] / np.sqrt(values)
    share = np.minimum(1.0, (1 - _NOISE) / np.maximum((c**2 * values).sum(axis=1), 1e-12))
    root = np.sqrt(values)
    transition = a * root[None, :] / root[:, None]
    emission = c * root * np.sqrt(share.min())
    process = np.eye(n) - transition @ transition.T
    low, vectors = np.linalg.eigh((process + process.T) / 2)
    process = (vectors * np.maximum(low, _NOISE)) @ vectors.T
    noise = np.maximum(1.0 - (emission**2).sum(axis=1), _NOISE)
    return {
        "transition": transition,
        "emission": emission * deviation[:, None],
        "process_covariance": process,
        "observation_covariance": np.diag(noise * scale),
        "initial_mean": np.zeros(n),
        "initial_covariance": np.eye(n),
        "state_offset": np.zeros(n),
        "observation_offset": np.array(center),
    }
