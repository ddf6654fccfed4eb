"""Mixtures of any family, fitted by expectation maximisation through ``fit_weighted``."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from mercer._array import Array, Floats, logsumexp, namespace, safe_log, to_numpy
from mercer._batch import Batch, take_rows
from mercer.families._coupling import Coupling, Operand
from mercer.families._estimator import Context, Estimator, segment_sum, segments
from mercer.families._family import random_generator
from mercer.families._simplex import checked_probability, drawn, normalised
from mercer.families.gaussian import Gaussian
from mercer.models._fitting.mixture_steps import (
    expect,
    generator,
    numbers,
    seed_shares,
    side_by_side,
    some_segments,
    spread,
)


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

    @classmethod
    def from_sklearn(cls, models: Any) -> Mixtures:
        """Read scikit-learn's ``GaussianMixture``, one or a list of equal size, of any covariance type.

        Examples
        --------
        >>> import numpy as np, mercer as mc
        >>> from sklearn.mixture import GaussianMixture
        >>> x = np.random.default_rng(0).normal(size=(50, 2))
        >>> mc.Mixtures.from_sklearn(GaussianMixture(2, covariance_type="tied", random_state=0).fit(x))
        Mixtures(shape=(1,), components=Gaussians)
        """
        from mercer.models._interop import gaussian_mixture, joined

        found: Mixtures = joined(models, gaussian_mixture, cls.concat)
        return found

    @classmethod
    def concat(cls, batches: Sequence[Self]) -> Self:
        """Join batches of mixtures with the same number of components."""
        sizes = sorted({int(batch.weights.shape[-1]) for batch in batches})
        if len(sizes) > 1:
            raise ValueError(
                f"mixtures of {sizes[0]} and of {sizes[-1]} components do not go into one batch: keep two batches, "
                "which a kernel compares as kernel(p, q)"
            )
        return super().concat(batches)

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

    def fisher_scores(self, x: Any, parametrization: str = "logit") -> Array:
        """Scores of every point, ``(*B, T, P)``: of the weights, and of components times posteriors (FK-5)."""
        from mercer.models._scores.scores import mixture_scores  # which knows hidden Markov models, made of mixtures

        return mixture_scores(self, x, parametrization)

    def sample(self, size: int = 1, random_state: Any = None) -> Floats:
        """Draw ``size`` points from every member, ``(*B, size, *event)``."""
        rng = random_generator(random_state)
        upper = np.cumsum(to_numpy(self.weights), axis=-1)
        chosen = drawn(upper[..., None, :], rng.random((*self.shape, size)))
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
    random_state : int, Generator, RandomState or None, default=0
        Seed; a datum's starts depend on it and on the datum alone. A generator gives one seed to every fit.
    init : None or Mixtures of shape (1,), default=None
        Where every fit starts, that of the pooled mixture too; None starts from the prior or, where there is none, from
        k-means++ seeds.

    Attributes
    ----------
    model_ : Mixtures of shape (1,)
        What ``fit`` learned.
    context_ : Context
        What ``fit`` learned of the data as a whole.
    n_iter_ : int
        Iterations of the fit of ``model_``, from the best of its starts.

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
        random_state: Any = 0,
        init: Any = None,
    ) -> None:
        self.component = component
        self.n_components = n_components
        self.prior = prior
        self.prior_strength = prior_strength
        self.n_iter = n_iter
        self.tol = tol
        self.n_init = n_init
        self.random_state = random_state
        self.init = init

    @property
    def takes(self) -> str:  # type: ignore[override]
        """What the components take."""
        return self._component().takes

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
        if isinstance(self._component(), Mixture):
            raise TypeError(
                "component is a Mixture, and a mixture of mixtures is a mixture: give the family of the inner one and "
                "more components"
            )
        self._component()._check_parameters()
        for name in ("n_components", "n_iter", "n_init"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise ValueError(f"{name} = {value!r}: give a whole number, 1 or more")
        if not _is_seed(self.random_state):
            raise ValueError(
                f"random_state = {self.random_state!r}: give a whole number, 0 or more, None, or a NumPy Generator or "
                "RandomState"
            )
        self._check_init()

    def _check_init(self) -> None:
        if self.init is None:
            return
        if not isinstance(self.init, Mixtures):
            raise TypeError(f"init = {self.init!r}: give None for k-means++ starts, or Mixtures of shape (1,)")
        if self.init.shape != (1,):
            raise ValueError(f"init has shape {self.init.shape}: give Mixtures of shape (1,), such as p[3:4]")
        found = int(self.init.weights.shape[-1])
        if found != self.n_components:
            raise ValueError(f"init has {found} components, and n_components = {self.n_components}: make them equal")

    # -- the border: a mixture takes what its components take ---------------------------------------------

    def accept(self, X: Any, *, owner: Any = None, reset: bool = False, context: Context | None = None) -> Any:
        """Turn ``X`` into what the components take, checked as they check it."""
        owner = self if owner is None else owner
        return self._component().accept(X, owner=owner, reset=reset, context=context)

    def _check_context(self, X: Any, context: Context) -> None:
        self._component()._check_context(X, context)

    def _check_data(self, X: Any, offsets: Floats) -> None:
        super()._check_data(X, offsets)
        # A component checks by its own prior whether an empty datum may be: here the prior is the mixture's.
        shrunk = None if self.prior is None else "pooled"
        clone(self._component()).set_params(prior=shrunk)._check_data(X, offsets)

    # -- the fit ------------------------------------------------------------------------------------------

    def context(self, X: Any) -> Context:
        """Learn what the components share and, where it is the prior, one mixture of all data."""
        bare = self._bare_context(X)
        return replace(bare, pooled=self._fit_pooled(X, bare)[0]) if isinstance(self.prior, str) else bare

    def _bare_context(self, X: Any) -> Context:
        bare = self._component().context(X)
        x, _ = segments(X)
        return replace(bare, scale=spread(x)) if self.takes == "vectors" else bare

    def _fit_pooled(self, X: Any, context: Context) -> tuple[Mixtures, int]:
        """Fit one mixture to all data, without a prior where that is the pooled one; also count its iterations."""
        x, _ = segments(X)
        if x.shape[0] == 0:
            raise ValueError("there is nothing to fit: every datum is empty")
        offsets = np.array([0, x.shape[0]])
        self._check_data(X, offsets)
        alone = clone(self).set_params(prior=None) if isinstance(self.prior, str) else self
        found, steps = alone._fit_column(x, np.ones(x.shape[0]), offsets, context, None)
        return found, int(steps[0])

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit one mixture to all data; it becomes ``model_``, a batch of shape ``(1,)``."""
        self._check_parameters()
        X = self.accept(X, reset=True)
        context = self._bare_context(X)
        self.model_, self.n_iter_ = self._fit_pooled(X, context)
        # The pooled prior of all data is the fit itself: a second pass would only shrink it towards itself.
        self.context_ = replace(context, pooled=self.model_) if isinstance(self.prior, str) else context
        return self

    def fit_weighted(self, x: Any, weights: Floats, offsets: Floats, context: Context, start: Any = None) -> Mixtures:
        """Fit to weighted points by EM, all data at once, from the prior or from the best of several starts."""
        columns = []
        for j in range(weights.shape[1]):
            begin = None if start is None else start[:, j]
            columns.append(self._fit_column(x, weights[:, j], offsets, context, begin)[0])
        joined: Mixtures = side_by_side(columns)
        return joined

    def _fit_column(
        self, x: Any, weights: Floats, offsets: Floats, context: Context, start: Any
    ) -> tuple[Mixtures, Floats]:
        """Fit one mixture to every datum; returns them and how many iterations each took."""
        everybody = np.zeros(len(offsets) - 1, dtype=int)
        if start is None and self.init is not None:
            start = self._suited_init(x, weights, context)[everybody]
        if start is None and self.prior is not None:
            start = self._prior_batch(context)[everybody]
        if start is not None:
            found, _, steps = self._climb(x, weights, offsets, context, start)
            return found, steps
        seed = self._seed()
        begin = self._start(x, weights, offsets, context, 0, seed)
        best, score, steps = self._climb(x, weights, offsets, context, begin)
        for attempt in range(1, self.n_init):
            begin = self._start(x, weights, offsets, context, attempt, seed)
            found, reached, taken = self._climb(x, weights, offsets, context, begin)
            better = reached > score
            if better.any():
                keep = np.arange(len(score)) + np.where(better, len(score), 0)
                best = type(best).concat([best, found])[keep]
                score, steps = np.maximum(score, reached), np.where(better, taken, steps)
        return best, steps

    def _seed(self) -> int | None:
        """Return the seed, or draw one from a generator."""
        state: Any = self.random_state
        if isinstance(state, np.random.RandomState | np.random.Generator):
            return int(random_generator(state).integers(2**31 - 1))
        return None if state is None else int(state)

    def _suited_init(self, x: Any, weights: Floats, context: Context) -> Mixtures:
        """Return ``init``, or raise where its components are of another kind than those that are fitted."""
        like = self._component().fit_weighted(x, weights[:, None], np.array([0, x.shape[0]]), context)
        try:
            like._check_alike(self.init.components)
        except (TypeError, ValueError) as error:
            raise type(error)(f"init does not suit {type(self._component()).__name__} components: {error}") from None
        init: Mixtures = self.init
        return init

    def _climb(
        self, x: Any, weights: Floats, offsets: Floats, context: Context, mixture: Mixtures
    ) -> tuple[Mixtures, Floats, Floats]:
        """Iterate EM until every datum has converged by itself; returns mixtures, objectives and iterations."""
        n = len(offsets) - 1
        finished, places, objective, steps = [], [], np.full(n, -np.inf), np.zeros(n, dtype=int)
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
            mixture = self._maximise(x, shares, owner, offsets, context, mixture)
            steps[active] = iteration
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
                x, weights, offsets = some_segments(x, weights, offsets, kept)
        joined = type(mixture).concat(finished)
        return joined[np.argsort(np.concatenate(places))], objective, steps

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
        return expect(x, owner, mixture)

    def _maximise(
        self, x: Any, shares: Floats, owner: Floats, offsets: Floats, context: Context, mixture: Mixtures
    ) -> Mixtures:
        component = self._component()
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
                begin = mixture.components[:, j : j + 1]
                columns.append(one.fit_weighted(x, shares[:, j : j + 1], offsets, context, start=begin)[:, 0])
            parts = side_by_side(columns)
        return Mixtures._make(weights=normalised(mass, np.asarray(mixture.weights)), components=parts)

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

    def _start(
        self, x: Any, weights: Floats, offsets: Floats, context: Context, attempt: int, seed: int | None
    ) -> Mixtures:
        """Start from k-means++ seeds: one soft assignment to seeds far from each other."""
        shares = np.zeros((x.shape[0], self.n_components))
        for i in range(len(offsets) - 1):
            rows = slice(int(offsets[i]), int(offsets[i + 1]))
            if rows.stop > rows.start:
                shares[rows] = seed_shares(
                    numbers(x[rows], context),
                    weights[rows],
                    self.n_components,
                    generator(x[rows], seed, attempt),
                )
        shares = shares * weights[:, None]
        component = self._component()
        pooled = component.fit_weighted(x, weights[:, None], np.array([0, x.shape[0]]), context)
        everywhere = pooled[np.zeros(len(offsets) - 1, dtype=int)][:, np.zeros(self.n_components, dtype=int)]
        return Mixtures._make(
            weights=normalised(segment_sum(shares, offsets), 1.0 / self.n_components),
            components=component.fit_weighted(x, shares, offsets, context, start=everywhere),
        )


def _is_seed(state: Any) -> bool:
    if state is None or isinstance(state, np.random.RandomState | np.random.Generator):
        return True
    return isinstance(state, int | np.integer) and not isinstance(state, bool) and int(state) >= 0
