"""Mixtures of any family, fitted by expectation maximisation through ``fit_weighted``."""

from __future__ import annotations

import warnings
from dataclasses import replace
from hashlib import blake2b
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from mercer._array import Array, logsumexp, namespace, safe_log, to_numpy
from mercer._batch import Batch, take_rows
from mercer.families._coupling import Coupling, Operand
from mercer.families._estimator import Context, Estimator, Floats, segments
from mercer.families._family import random_generator
from mercer.families._simplex import checked_probability
from mercer.families.gaussian import Gaussian

EXPECT_CELLS = 20_000
"""Points times components whose densities are computed at once: their parameters stay in the cache."""


class Mixtures(Batch):
    r"""A batch of mixtures of one family.

    Parameters
    ----------
    weights : array of shape (..., m)
        Mixing weights, rows that sum to one.
    components : family batch of shape (..., m)
        The components.

    Notes
    -----
    Probability product (PPK-4.1) :math:`\tilde k = \sum_{ij} (w_i w'_j)^\rho k_\rho(f_i, f'_j)` and mean map (GMMK-3)
    :math:`\sum_{ij} w_i w'_j k(f_i, f'_j)`. Mixtures of different sizes may meet.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> p = mc.Mixtures([[0.5, 0.5]], mc.Gaussians(mean=[[[0.0], [4.0]]], covariance=[[1.0, 1.0]]))
    >>> p.log_prob(np.array([[0.0]])).round(4)
    array([[-1.6118]])
    """

    _arrays: ClassVar[dict[str, int]] = {"weights": 1}
    _parts: ClassVar[dict[str, int]] = {"components": 1}
    tile_hint = 64

    weights: Array
    components: Any

    def __init__(self, weights: Any, components: Any) -> None:
        weights = checked_probability(weights, "weights")
        if not isinstance(components, Batch):
            raise TypeError(
                f"components is a {type(components).__name__}: give a batch of a family, such as mc.Gaussians(...)"
            )
        if components.shape != tuple(weights.shape):
            raise ValueError(f"components have shape {components.shape}: give one per weight, {tuple(weights.shape)}")
        self._freeze(weights=weights, components=components)

    @property
    def dimension(self) -> int:
        """Number of coordinates of the components."""
        return int(self.components.dimension)

    def _check_alike(self, other: Batch) -> None:
        """Mixtures of different sizes may meet; their components must be alike."""
        if type(self) is not type(other):
            super()._check_alike(other)
        self.components._check_alike(other.components)  # type: ignore[attr-defined]

    def estimator(self) -> Mixture:
        """Return the estimator that knows what data of these mixtures look like."""
        return Mixture(self.components.estimator(), n_components=int(self.weights.shape[-1]))

    def log_prob(self, x: Any) -> Array:
        """Log density of every point, ``(*B, n) x (*B, T, *event) -> (*B, n, T)``."""
        return logsumexp(self._log_joint(x), axis=-2)

    def responsibilities(self, x: Any) -> Array:
        """Posterior probabilities of the components at every point, ``(*B, m, T)``."""
        joint = self._log_joint(x)
        xp = namespace(joint)
        return xp.exp(joint - logsumexp(joint, axis=-2)[..., None, :])

    def _log_joint(self, x: Any) -> Array:
        """Log weight times density, ``(*B, m, T)``; every member sees the same points."""
        xp = namespace(self.weights)
        flat = self.components.reshape(-1)
        table = xp.reshape(flat.log_prob(x), (*self.components.shape, -1))
        return table + safe_log(self.weights)[..., None]

    def sample(self, size: int = 1, random_state: Any = None) -> Floats:
        """Draw ``size`` points from every member, ``(*B, size, *event)``."""
        rng = random_generator(random_state)
        upper = np.cumsum(to_numpy(self.weights), axis=-1)
        draws = rng.random((*self.shape, size, 1)) * upper[..., None, -1:]
        chosen = np.sum(draws >= upper[..., None, :], axis=-1).clip(0, self.weights.shape[-1] - 1)
        points = self.components.sample(size, random_state=rng)  # (*B, m, size, *event)
        points = np.moveaxis(points, self.ndim, self.ndim + 1)  # (*B, size, m, *event)
        index = chosen.reshape(*chosen.shape, 1, *(1,) * (points.ndim - self.ndim - 2))
        return np.take_along_axis(points, index, axis=self.ndim + 1)[(slice(None),) * (self.ndim + 1) + (0,)]

    def couple(self, coupling: Coupling, lengths: tuple[int, ...] | None = None) -> Operand:
        """Prepare for a coupling: powered weights and coupled components."""
        return MixtureOperand(coupling.power * safe_log(self.weights), self.components.couple(coupling, lengths))


class MixtureOperand:
    """Log weights, times the coupling's power, and coupled components: answers tiles by PPK-4.1."""

    order: Floats | None = None

    def __init__(self, log_weights: Array, leaf: Any) -> None:
        self.log_weights = log_weights
        self.leaf = leaf

    @property
    def shape(self) -> tuple[int, ...]:
        """Batch shape."""
        return tuple(self.log_weights.shape[:-1])

    @property
    def tile_hint(self) -> int:
        """Rows of a tile that suit the caches of the components."""
        return max(8, int(self.leaf.tile_hint) // max(int(self.log_weights.shape[-1]), 1))

    def __len__(self) -> int:
        return int(self.log_weights.shape[0])

    def __getitem__(self, key: Any) -> Self:
        keys = key if isinstance(key, tuple) else (key,)
        return type(self)(take_rows(self.log_weights, keys), self.leaf[key])

    def reshape(self, *shape: int) -> Self:
        """Return the same members in another batch shape."""
        m = self.log_weights.shape[-1]
        return type(self)(
            namespace(self.log_weights).reshape(self.log_weights, (*shape, m)), self.leaf.reshape(*shape, m)
        )

    def pair(self, other: Self) -> Array:
        """Log kernels of every pair, ``(*B, n) x (*B, m) -> (*B, n, m)``."""
        lead, (n, a), (m, b) = self.shape[:-1], self.log_weights.shape[-2:], other.log_weights.shape[-2:]
        xp = namespace(self.log_weights)
        log_psi = self.leaf.reshape(*lead, n * a).pair(other.leaf.reshape(*lead, m * b))
        log_psi = xp.reshape(log_psi, (*lead, n, a, m, b))
        log_weights = self.log_weights[..., :, :, None, None] + other.log_weights[..., None, None, :, :]
        return logsumexp(log_psi + log_weights, axis=(-3, -1))

    def alone(self) -> Array:
        """Log kernel of every member with itself."""
        single = self.reshape(*self.shape, 1)
        return single.pair(single)[..., 0, 0]


class Mixture(Estimator):
    """Fit mixtures by expectation maximisation, one to every datum (a set of points) or one to all.

    Parameters
    ----------
    component : estimator or None, default=None
        The family of the components; None stands for ``Gaussian("diagonal")``.
    n_components : int, default=2
        Number of components.
    prior : None, "pooled" or Mixtures of shape (1,), default="pooled"
        What every datum's mixture is shrunk to (EST-2b); with "pooled", one mixture of all data is learned first, and
        every datum's mixture starts from it, so that components keep their identity across data.
    prior_strength : float, default=10.0
        Weight of the prior, in observations per component.
    n_iter : int, default=100
        Largest number of iterations.
    tol : float, default=1e-6
        Stop when the objective per point grows by less.
    n_init : int, default=3
        Number of k-means++ starts where there is no prior to start from; the best is kept.
    random_state : int or None, default=0
        Seed; a datum's starts depend on it and on the datum alone.

    Attributes
    ----------
    model_ : Mixtures of shape (1,)
        What ``fit`` learned.
    context_ : Context
        What ``fit`` learned of the data as a whole.
    n_iter_ : int
        Iterations of the last fit.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> rng = np.random.default_rng(0)
    >>> sets = [rng.normal(rng.choice([-3, 3], (50, 1)), 1.0, size=(50, 1)) for _ in range(4)]
    >>> mc.Mixture(n_components=2).fit_each(sets)
    Mixtures(shape=(4,), components=Gaussians)
    """

    def __init__(
        self,
        component: Any = None,
        n_components: int = 2,
        prior: Any = "pooled",
        prior_strength: float = 10.0,
        n_iter: int = 100,
        tol: float = 1e-6,
        n_init: int = 3,
        random_state: int | None = 0,
    ) -> None:
        self.component = component
        self.n_components = n_components
        self.prior = prior
        self.prior_strength = prior_strength
        self.n_iter = n_iter
        self.tol = tol
        self.n_init = n_init
        self.random_state = random_state

    @property
    def takes(self) -> str:  # type: ignore[override]
        """What the components take."""
        return self._component().takes

    @property
    def alphabet(self) -> Any:
        """Alphabet of components over symbols."""
        return getattr(self._component(), "alphabet", None)

    def _component(self) -> Estimator:
        return Gaussian("diagonal") if self.component is None else self.component

    def _missing_allowed(self) -> bool:
        return self._component()._missing_allowed()

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not isinstance(self._component(), Estimator):
            raise TypeError(
                f"component = {self.component!r}: give an estimator of a family, such as mc.Gaussian('full')"
            )
        self._component()._check_parameters()
        for name in ("n_components", "n_iter", "n_init"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise ValueError(f"{name} = {value!r}: give a whole number, 1 or more")

    def context(self, X: Any) -> Context:
        """Learn what the components share and, where it is the prior, one mixture of all data."""
        bare = self._component().context(X)
        if not isinstance(self.prior, str):
            return bare
        alone = clone(self).set_params(prior=None)
        x, _ = segments(X)
        pooled = alone._fit_alone(x, np.array([0, x.shape[0]]), bare)
        return replace(bare, pooled=pooled)

    def _fit_shared(self, X: Any, context: Context) -> Any:
        # The pooled prior of all data is the fit itself: a second pass would only shrink it towards itself.
        if isinstance(self.prior, str):
            self.n_iter_ = self.n_iter
            return context.pooled
        return super()._fit_shared(X, context)

    def fit_weighted(self, x: Any, weights: Floats, offsets: Floats, context: Context, start: Any = None) -> Mixtures:
        """Fit to weighted points by EM, all data at once, from the prior or from the best of several starts."""
        n_models = weights.shape[1]
        columns = []
        for j in range(n_models):
            begin = None if start is None else start[:, j]
            columns.append(self._fit_column(x, weights[:, j], offsets, context, begin))
        if n_models == 1:
            return columns[0].reshape(len(offsets) - 1, 1)
        joined = type(columns[0]).concat([c.reshape(len(offsets) - 1, 1) for c in columns])
        order = np.arange(len(joined)).reshape(n_models, -1).T.ravel()
        return joined[order].reshape(len(offsets) - 1, n_models)

    def _fit_column(self, x: Any, weights: Floats, offsets: Floats, context: Context, start: Any) -> Mixtures:
        if start is not None:
            return self._climb(x, weights, offsets, context, start)[0]
        prior = self._prior_batch(context) if self.prior is not None else None
        if prior is not None:
            repeated = prior[np.zeros(len(offsets) - 1, dtype=int)]
            return self._climb(x, weights, offsets, context, repeated)[0]
        best: Mixtures | None = None
        score: Floats = np.zeros(0)
        for attempt in range(self.n_init):
            begin = self._start(x, weights, offsets, context, attempt)
            found, reached = self._climb(x, weights, offsets, context, begin)
            if best is None:
                best, score = found, reached
                continue
            better = np.flatnonzero(reached > score)
            if len(better):
                keep = np.arange(len(score))
                keep[better] = len(score) + better
                best, score = type(best).concat([best, found])[keep], np.maximum(score, reached)
        assert best is not None
        return best

    def _climb(
        self, x: Any, weights: Floats, offsets: Floats, context: Context, mixture: Mixtures
    ) -> tuple[Mixtures, Floats]:
        """Iterate EM until every datum has converged by itself; returns the mixtures and their objectives."""
        n = len(offsets) - 1
        component = self._shrunk_component(context)
        finished, places, objective = [], [], np.full(n, -np.inf)
        active = np.arange(n)
        for iteration in range(1, self.n_iter + 1):
            lengths = np.diff(offsets)
            owner = np.repeat(np.arange(len(lengths)), lengths)
            posterior, log_density = self._expect(x, owner, mixture)
            reached = np.bincount(owner, weights=weights * log_density, minlength=len(lengths))
            reached = reached + self._log_prior(mixture, context)
            gained = reached - objective[active]
            objective[active] = reached
            shares = posterior * weights[:, None]
            mixture = self._maximise(x, shares, owner, offsets, context, mixture, component)
            self.n_iter_ = iteration
            mass = np.bincount(owner, weights=weights, minlength=len(lengths))
            done = gained <= self.tol * mass
            if iteration == self.n_iter and not done.all():
                self._warn_unconverged(active[~done])
                done[:] = True
            if done.any():  # a datum that has converged leaves, so that its fit does not depend on its neighbours
                finished.append(mixture[np.flatnonzero(done)])
                places.append(active[done])
                kept = np.flatnonzero(~done)
                active, mixture = active[kept], mixture[kept]
                if len(kept) == 0:
                    break
                x, weights, offsets = _some_segments(x, weights, offsets, kept)
        joined = type(mixture).concat(finished)
        return joined[np.argsort(np.concatenate(places))], objective

    def _warn_unconverged(self, which: Floats) -> None:
        if self.n_iter > 1 and self.tol > 0:
            named = ", ".join(str(int(i)) for i in which[:5]) + (", ..." if len(which) > 5 else "")
            warnings.warn(
                f"EM stopped after n_iter = {self.n_iter} iterations, before datum {named} converged: raise n_iter or "
                "tol",
                ConvergenceWarning,
                stacklevel=2,
            )

    def _expect(self, x: Any, owner: Floats, mixture: Mixtures) -> tuple[Floats, Floats]:
        """Posterior of the components ``(T, m)`` and log density ``(T,)`` of every point under its own mixture."""
        m = mixture.weights.shape[-1]
        joint = np.empty((x.shape[0], m))
        logs = safe_log(np.asarray(mixture.weights))
        if hasattr(x, "indptr"):  # sparse rows cannot be aligned with a batch of models: one datum at a time
            ends = np.searchsorted(owner, np.arange(len(mixture) + 1))
            for i in range(len(mixture)):
                rows = slice(int(ends[i]), int(ends[i + 1]))
                joint[rows] = np.asarray(mixture.components[i].log_prob(x[rows])).T
        else:
            step = max(1, EXPECT_CELLS // m)
            for begin in range(0, x.shape[0], step):
                rows = slice(begin, begin + step)
                aligned = mixture.components[owner[rows]]  # every point beside its own components
                joint[rows] = np.asarray(aligned.log_prob(x[rows][:, None]))[..., 0]
        joint += logs[owner]
        log_density = np.asarray(logsumexp(joint, axis=-1))
        impossible = ~np.isfinite(log_density)
        safe = np.where(impossible, 0.0, log_density)
        posterior = np.where(impossible[:, None], 1.0 / m, np.exp(joint - safe[:, None]))
        return posterior, np.where(impossible, -1e300, log_density)

    def _maximise(
        self,
        x: Any,
        shares: Floats,
        owner: Floats,
        offsets: Floats,
        context: Context,
        mixture: Mixtures,
        component: Estimator,
    ) -> Mixtures:
        n, m = len(offsets) - 1, shares.shape[1]
        mass: Floats = np.stack([np.bincount(owner, weights=shares[:, j], minlength=n) for j in range(m)], axis=-1)
        if self.prior is None:
            parts = component.fit_weighted(x, shares, offsets, context, start=mixture.components)
        else:
            prior = self._prior_batch(context)
            mass = mass + self.prior_strength * np.asarray(prior.weights)
            columns = []
            for j in range(m):
                one = clone(component).set_params(prior=prior.components[:, j], prior_strength=self.prior_strength)
                columns.append(
                    one.fit_weighted(x, shares[:, j : j + 1], offsets, context, start=mixture.components[:, j : j + 1])
                )
            joined = type(columns[0]).concat([c.reshape(n) for c in columns])
            parts = joined[np.arange(n * m).reshape(m, n).T.ravel()].reshape(n, m)
        total = mass.sum(axis=-1, keepdims=True)
        weights = np.where(total > 0, mass / np.where(total > 0, total, 1.0), np.asarray(mixture.weights))
        return Mixtures._make(weights=weights, components=parts)

    def _shrunk_component(self, context: Context) -> Estimator:
        component = clone(self._component())
        return component.set_params(prior=None) if component.prior == "pooled" and context.pooled is None else component

    def _log_prior(self, mixture: Mixtures, context: Context) -> Floats:
        """Log conjugate prior, up to a constant: n0 E_prior[log p(x, component)] (DJS-6)."""
        if self.prior is None:
            return np.zeros(len(mixture))
        prior = self._prior_batch(context)
        w0 = np.asarray(prior.weights)[0]
        m = len(w0)
        value = self.prior_strength * (w0 * safe_log(np.asarray(mixture.weights))).sum(axis=-1)
        for j in range(m):
            divergence = np.asarray(prior.components[:, j].kl(mixture.components[:, j]))[0]
            value = value - self.prior_strength * divergence
        return np.where(np.isfinite(value), value, -1e300)

    def _start(self, x: Any, weights: Floats, offsets: Floats, context: Context, attempt: int) -> Mixtures:
        """Start from k-means++ seeds: one soft assignment to seeds far from each other."""
        shares = np.zeros((x.shape[0], self.n_components))
        for i in range(len(offsets) - 1):
            rows = slice(int(offsets[i]), int(offsets[i + 1]))
            if rows.stop > rows.start:
                shares[rows] = _seed_shares(
                    _numbers(x[rows], context), weights[rows], self.n_components, self._rng(x[rows], attempt)
                )
        pooled = self._component().fit_weighted(x, weights[:, None], np.array([0, x.shape[0]]), context)
        everywhere = pooled[np.zeros(len(offsets) - 1, dtype=int)][:, np.zeros(self.n_components, dtype=int)]
        mass = np.stack(
            [
                np.add.reduceat(np.append(shares[:, j], 0.0), offsets[:-1]) * (np.diff(offsets) > 0)
                for j in range(self.n_components)
            ],
            axis=-1,
        )
        total = mass.sum(axis=-1, keepdims=True)
        component = self._shrunk_component(context)
        parts = component.fit_weighted(x, shares * weights[:, None], offsets, context, start=everywhere)
        uniform = np.full_like(mass, 1.0 / self.n_components)
        return Mixtures._make(
            weights=np.where(total > 0, mass / np.where(total > 0, total, 1), uniform), components=parts
        )

    def _rng(self, x: Any, attempt: int) -> np.random.Generator:
        """Seed from (random_state, the datum's bytes), so that a fit does not depend on its neighbours."""
        content = x.dense() if hasattr(x, "indptr") else np.ascontiguousarray(x)
        digest = blake2b(content.tobytes(), digest_size=8).digest()
        seed = 0 if self.random_state is None else int(self.random_state)
        return np.random.default_rng([seed, attempt, int.from_bytes(digest, "little")])


def _some_segments(x: Any, weights: Floats, offsets: Floats, which: Floats) -> tuple[Any, Floats, Floats]:
    """Keep the points of some data."""
    lengths = np.diff(offsets)
    keep = np.zeros(len(lengths), dtype=bool)
    keep[which] = True
    points = np.flatnonzero(np.repeat(keep, lengths))
    return x[points], weights[points], np.concatenate([[0], np.cumsum(lengths[which])])


def _numbers(x: Any, context: Context) -> Floats:
    """Points as vectors, for distances: frequencies of counts, one-hot symbols, zeros for NaN."""
    if context.alphabet is not None:
        return np.asarray(context.alphabet.membership)[x]
    dense = x.dense() if hasattr(x, "indptr") else np.asarray(x, dtype=float)
    if context.scale is not None:
        return np.nan_to_num(dense - context.center) / np.sqrt(np.where(context.scale > 0, context.scale, 1.0))
    return np.nan_to_num(dense)


def _seed_shares(x: Floats, weights: Floats, n: int, rng: np.random.Generator) -> Floats:
    """Assign points to k-means++ seeds after a few Lloyd steps, softened so that no component starts empty."""
    first = rng.choice(len(x), p=weights / weights.sum()) if weights.sum() > 0 else 0
    centers = [x[first]]
    squared = np.sum((x - centers[0]) ** 2, axis=1)
    while len(centers) < n:
        p = squared * weights
        pick = rng.choice(len(x), p=p / p.sum()) if p.sum() > 0 else rng.integers(len(x))
        centers.append(x[pick])
        squared = np.minimum(squared, np.sum((x - x[pick]) ** 2, axis=1))
    means = np.stack(centers)
    label = np.zeros(len(x), dtype=int)
    for _ in range(5):
        label = np.argmin(((x[:, None, :] - means) ** 2).sum(axis=-1), axis=1)
        for j in range(n):
            inside = label == j
            if np.any(weights[inside] > 0):
                means[j] = np.average(x[inside], axis=0, weights=weights[inside])
    return 0.9 * np.eye(n)[label] + 0.1 / n
