"""Expectation maximization of linear dynamical systems (EST-3), with a pooled prior (EST-2b) and fixed parameters.

Both regressions, of the next state on the state and of the observation on the state, are one function: with the noise
w of a regression under the present coefficients, the E-step gives E[w w'], E[w (s, 1)'] and E[(s, 1)(s, 1)'], and the
M-step *changes* the coefficients. Nothing large is subtracted, however far from zero the states are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer._array import Floats
from mercer.data.segments import segment_sum
from mercer.models._dynamics.runs import StateExpectations, Systems, expected, systems_of
from mercer.models._fitting.data import Data
from mercer.models.lds import LDSs

NOISES = ("process_covariance", "observation_covariance", "initial_covariance")
_NOISE_OF = {"state": NOISES[0], "observation": NOISES[1]}


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
        noise = self.noise - change @ _t(self.cross) - self.cross @ _t(change) + moved @ _t(change)
        return Regression(noise, self.cross - moved, self.moment, self.terms)

    def plus(self, other: Regression, weight: float) -> Regression:
        """Add the moments of another regression relative to the same coefficients."""
        return Regression(*(mine + weight * theirs for mine, theirs in zip(self, other, strict=True)))


class Averages(NamedTuple):
    """Expectations of the pooled system for one step, relative to its own parameters: the prior of the others."""

    systems: Systems
    state: Regression
    observation: Regression


class Memory(NamedTuple):
    """Results of the E-step that the M-step uses."""

    systems: Systems
    state: Regression
    observation: Regression
    initial: Floats
    """Expected deviations of first states from their mean, ``(N, n)``."""
    initial_noise: Floats
    """Expected squares of these, ``(N, n, n)``."""
    series: Floats
    """Number of series, ``(N,)``."""


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


def memory_of(systems: Systems, found: StateExpectations, counts: Counts) -> Memory:
    """Turn gradients, summed for every system, into moments: E[w w'] is Q + Q (r r' - N) Q."""

    def noise(covariance: Floats, gradient: Floats, count: Floats) -> Floats:
        return count[:, None, None] * covariance + covariance @ gradient @ covariance

    q, r, s = systems.process_covariance, systems.observation_covariance, systems.initial_covariance
    steps, seen, series = counts
    state = Regression(
        noise(q, found.process, steps), q @ found.transition, _augmented(found.state_moment, steps), steps
    )
    observation = Regression(
        noise(r, found.observation, seen), r @ found.emission, _augmented(found.observed_moment, seen), seen
    )
    away = (s @ found.initial_mean[..., None])[..., 0]
    return Memory(systems, state, observation, away, noise(s, found.initial, series), series)


def _totals(found: StateExpectations, data: Data) -> tuple[StateExpectations, Counts]:
    """Sum the expectations of the series of every model."""
    ends = data.sequence_offsets

    def total(x: Floats) -> Floats:
        return segment_sum(x.reshape(len(x), -1), ends).reshape(-1, *x.shape[1:])

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


def expectations_of(systems: Systems, data: Data) -> tuple[Floats, Memory]:
    """Return the log probability of each series, and the expectations of systems for their series."""
    found = expected(systems, data.x, data.runs)
    return found.log_prob, memory_of(systems, *_totals(found, data))


def averages(own: Memory) -> Averages:
    """Return the expectations of systems for one step of their data."""
    systems = own.systems

    def per_step(regression: Regression, noise: Floats) -> Regression:
        # Relative to the systems themselves, noise and coefficients are their own, also where EM has not converged.
        count = regression.terms[:, None, None]  # series of one observation say nothing of steps
        moment = np.where(count > 0, regression.moment / np.maximum(count, 1e-300), np.eye(regression.moment.shape[-1]))
        return Regression(noise, np.zeros_like(regression.cross), moment, np.ones(len(noise)))

    return Averages(
        systems,
        per_step(own.state, systems.process_covariance),
        per_step(own.observation, systems.observation_covariance),
    )


class LDSGoal(NamedTuple):
    """The objective of EM, the log probability plus a log prior, and its two steps."""

    noise: str
    """Structure of the observation noise."""
    fixed: dict[str, Floats]
    """Values of parameters that are not learned; NaN entries are."""
    floors: tuple[Floats, Floats, Floats]
    """Variances that are added to those of each estimate of the `NOISES`; a fixed covariance has no floor."""
    prior: Averages | None
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
        return np.asarray(sum(self.log_prior_of(which, own) for which in ("state", "observation", "first")))

    def log_prior_of(self, which: str, own: Systems) -> Floats:
        """Log prior of one part of each system: "state", "observation" or "first"."""
        assert self.prior is not None
        base = self.prior.systems
        if which == "first":
            away = own.initial_mean - base.initial_mean
            noise = base.initial_covariance + away[..., None] * away[:, None, :]
            return self.strength * self._expected_log("initial_covariance", own, noise)
        regression: Regression = getattr(self.prior, which)
        noise = regression.at(_coefficients(own, which) - _coefficients(base, which)).noise
        return self.strength * self._expected_log(_NOISE_OF[which], own, noise)

    def _expected_log(self, name: str, own: Systems, noise: Floats) -> Floats:
        """Return E log N(w; 0, covariance) up to a constant, if E[w w'] is ``noise``."""
        covariance = getattr(own, name)
        if name in self.fixed:  # it may be singular; w has no part in its null space that is learned
            return np.asarray(-0.5 * np.trace(np.linalg.pinv(covariance, hermitian=True) @ noise, axis1=-2, axis2=-1))
        _, log_det = np.linalg.slogdet(covariance)
        return np.asarray(-0.5 * (log_det + np.trace(np.linalg.solve(covariance, noise), axis1=-2, axis2=-1)))

    def expect(self, models: LDSs, data: Data) -> tuple[Found, Memory]:
        """Return the objective of each series without the prior, and expectations that `maximize` needs."""
        systems = systems_of(models)
        log_prob, memory = expectations_of(systems, data)
        counts = memory.state.terms, memory.observation.terms, memory.series
        floors: Any = sum(count * term for count, term in zip(counts, self.floor_terms(systems), strict=True))
        off = (floors / np.maximum(memory.series, 1))[data.model]
        return Found(log_prob - off, np.empty((len(data.model), 0))), memory

    def floor_terms(self, systems: Systems) -> list[Floats]:
        """Return the penalties of the floors of the `NOISES`, as variances of a step, on its log density, ``(N,)``."""
        return [
            np.asarray(0.5 * (floor * np.diagonal(np.linalg.inv(covariance), axis1=1, axis2=2)).sum(axis=1))
            if name not in self.fixed and np.any(floor > 0)
            else np.zeros(len(covariance))
            for name, floor, covariance in zip(NOISES, self.floors, (getattr(systems, n) for n in NOISES), strict=True)
        ]

    def maximize(self, models: LDSs, data: Data, found: Found, memory: Memory) -> LDSs:
        """Refit the systems to the expectations."""
        systems = memory.systems
        transition, q = self.regressed("state", systems, memory.state)
        emission, r = self.regressed("observation", systems, memory.observation)
        mean, s = self.first(systems, memory)
        return LDSs._make(
            transition=transition[..., :-1],
            state_offset=transition[..., -1],
            emission=emission[..., :-1],
            observation_offset=emission[..., -1],
            process_covariance=self._kept("process_covariance", q),
            observation_covariance=self._kept("observation_covariance", self.structured(r)),
            initial_mean=mean,
            initial_covariance=self._kept("initial_covariance", s),
            state_dims=models.state_dims,
        )

    def regressed(self, which: str, systems: Systems, own: Regression) -> tuple[Floats, Floats]:
        """Refit the coefficients of one regression, and its noise."""
        present, count = _coefficients(systems, which), own.terms
        floor = self.floors[0 if which == "state" else 1]
        total = own._replace(noise=own.noise + count[:, None, None] * np.diag(floor))
        if self.prior is not None and self.strength > 0:
            base: Regression = getattr(self.prior, which)
            total = total.plus(base.at(present - _coefficients(self.prior.systems, which)), self.strength)
        noise = getattr(systems, _NOISE_OF[which])
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
            keep = np.flatnonzero(columns)
            part = moment[:, keep[:, None], keep]
            change[..., keep] = _t(np.linalg.solve(part, _t(total.cross[..., keep])))
            return change
        # Single entries are fixed: the normal equations of the free ones, weighted with the inverse noise.
        singular = _NOISE_OF[which] in self.fixed  # maybe, but not where a coefficient is free
        weight = np.linalg.pinv(noise, hermitian=True) if singular else np.linalg.inv(noise)
        size = present.shape[-2] * present.shape[-1]
        normal = np.einsum("nij,nkl->nikjl", weight, moment).reshape(-1, size, size)
        target = (weight @ total.cross).reshape(-1, size)
        which_free = np.flatnonzero(free[0].reshape(-1))
        part = normal[:, which_free[:, None], which_free]
        change.reshape(-1, size)[:, which_free] = np.linalg.solve(part, target[:, which_free, None])[..., 0]
        return change

    def first(self, systems: Systems, memory: Memory) -> tuple[Floats, Floats]:
        """Refit mean and covariance of the first state."""
        total, count = memory.initial, memory.series
        square = memory.initial_noise + count[:, None, None] * np.diag(self.floors[2])
        if self.prior is not None and self.strength > 0:
            away = self.prior.systems.initial_mean - systems.initial_mean
            total = total + self.strength * away
            spread = self.prior.systems.initial_covariance + away[..., None] * away[:, None, :]
            square, count = square + self.strength * spread, count + self.strength
        change = total / count[:, None]
        given = self.fixed.get("initial_mean")
        if given is not None:
            change = np.where(np.isnan(given), change, given - systems.initial_mean)
        both = total[..., None] * change[:, None, :]
        spread = square - both - _t(both) + count[:, None, None] * change[..., None] * change[:, None, :]
        covariance = spread / count[:, None, None]
        return systems.initial_mean + change, (covariance + _t(covariance)) / 2

    def structured(self, covariance: Floats) -> Floats:
        """Return the observation noise with the structure that was asked for."""
        if self.noise == "full":
            return covariance
        d = covariance.shape[-1]
        variances = np.diagonal(covariance, axis1=1, axis2=2)
        if self.noise == "isotropic":
            variances = np.repeat(variances.mean(axis=1, keepdims=True), d, axis=1)
        return np.asarray(variances[..., None] * np.eye(d))

    def _kept(self, name: str, value: Floats) -> Floats:
        """Return a covariance, or its fixed value."""
        given = self.fixed.get(name)
        return value if given is None else np.broadcast_to(given, value.shape).copy()


def _coefficients(systems: Systems, which: str) -> Floats:
    if which == "state":
        return np.concatenate([systems.transition, systems.state_offset[..., None]], axis=-1)
    return np.concatenate([systems.emission, systems.observation_offset[..., None]], axis=-1)


def _fixed_coefficients(fixed: dict[str, Floats], which: str, present: Floats) -> Floats:
    """Return fixed coefficients, ``(1, k, n + 1)``, NaN where they are learned."""
    matrix, offset = ("transition", "state_offset") if which == "state" else ("emission", "observation_offset")
    k, width = present.shape[-2:]
    found = np.full((1, k, width), np.nan)
    if matrix in fixed:
        found[..., :-1] = fixed[matrix]
    if offset in fixed:
        found[..., -1] = fixed[offset]
    return found
