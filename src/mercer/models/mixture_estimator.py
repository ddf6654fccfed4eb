"""The estimator of mixtures of any family: expectation maximisation through ``fit_weighted``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import clone

from mercer._array import Floats
from mercer._probability import normalized
from mercer.data import Sequences
from mercer.data.segments import segment_sum, segments
from mercer.families.estimator import Context, Estimator
from mercer.families.gaussian_estimator import Gaussian
from mercer.models._fitting.checks import check_something, check_spread, impossible, warn_of_unconverged
from mercer.models._fitting.climb import Climbed, Collapsed, Impossible, better_of, climb
from mercer.models._fitting.data import Data
from mercer.models._fitting.emission_steps import DensityStep, evenly
from mercer.models._fitting.iterative import IterativeEstimator, check_whole
from mercer.models._fitting.mixture_goal import MixtureGoal
from mercer.models._fitting.mixture_steps import generator, numbers, seed_shares, side_by_side, spread
from mercer.models.mixture import Mixtures


class Mixture(IterativeEstimator):
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
        Stop when the objective per point grows by no more; 0 makes ``n_iter`` iterations always.
    n_init : int, default=3
        Number of k-means++ starts where there is no prior to start from; the best is kept.
    random_state : int, Generator, RandomState or None, default=0
        Seed; a datum's starts depend on it and on the datum alone. None is 0; a generator gives one seed to every fit.
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
    converged_ : bool
        Whether that fit converged before ``n_iter``.

    Notes
    -----
    The objective is the log density of the points plus, with a prior, the logarithm of its conjugate density, and never
    decreases. A Gaussian's ``floor`` is a variance of every point, in both steps. The pooled mixture counts, in every
    component, one observation more, spread evenly (a symbol of every kind alike, a fair coin, the mean count), so that
    what the training data lack is not impossible in new data.

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
        if not isinstance(self._component(), Estimator) or self._component().of_sequences:
            raise TypeError(
                f"component = {self.component!r}: give an estimator of a family, such as mc.Gaussian('full')"
            )
        if isinstance(self._component(), Mixture):
            raise TypeError(
                "component is a Mixture, and a mixture of mixtures is a mixture: give the family of the inner one and "
                "more components"
            )
        self._component()._check_parameters()
        check_whole("n_components", self.n_components)
        self._check_given("init", self.init, "None for k-means++ starts")
        if not isinstance(self.prior, str):
            self._check_given("prior", self.prior, "None, 'pooled'")

    def _check_given(self, name: str, given: Any, other: str) -> None:
        if given is None:
            return
        if not isinstance(given, Mixtures):
            raise TypeError(f"{name} = {given!r}: give {other}, or Mixtures of shape (1,)")
        if given.shape != (1,):
            raise ValueError(f"{name} has shape {given.shape}: give Mixtures of shape (1,), such as p[3:4]")
        found = int(given.weights.shape[-1])
        if found != self.n_components:
            raise ValueError(f"{name} has {found} components, and n_components = {self.n_components}: make them equal")

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
        return replace(bare, pooled=self._fit_pooled(X, bare).models) if isinstance(self.prior, str) else bare

    def _bare_context(self, X: Any) -> Context:
        if isinstance(X, Sequences):
            check_spread(X)
        bare = self._component().context(X)
        x, _ = segments(X)
        return replace(bare, scale=spread(x)) if self.takes == "vectors" else bare

    def _check_pooled(self, context: Context) -> None:
        super()._check_pooled(context)
        if not isinstance(self.prior, str):
            return
        if not isinstance(context.pooled, Mixtures):
            raise TypeError("the context was learned by another estimator than a Mixture: call fit again")
        found = int(context.pooled.weights.shape[-1])
        if found != self.n_components:
            raise ValueError(
                f"the context was learned with n_components={found}, and n_components = {self.n_components} now: call "
                "fit again"
            )

    def _fit_pooled(self, X: Any, context: Context) -> Climbed:
        """Fit one mixture to all data, without a prior where that is the pooled one."""
        x, _ = segments(X)
        if x.shape[0] == 0:
            raise ValueError("there is nothing to fit: every datum is empty")
        alone, offsets = self, np.array([0, x.shape[0]])
        if self.prior is None or isinstance(self.prior, str):
            check_something(X, self._component())
        self._check_data(X, offsets)
        if isinstance(self.prior, str):
            alone = clone(evenly(self, x, context)).set_params(prior=None)
        return alone._climb_named(x, offsets, context, lambda i: "the mixture of all data")

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit one mixture to all data; it becomes ``model_``, a batch of shape ``(1,)``."""
        self._check_parameters()
        X = self.accept(X, reset=True)
        context = self._bare_context(X)
        found = self._fit_pooled(X, context)
        self.model_, self.n_iter_, self.converged_ = found.models, int(found.steps[0]), bool(found.converged[0])
        # The pooled prior of all data is the fit itself: a second pass would only shrink it towards itself.
        self.context_ = replace(context, pooled=self.model_) if isinstance(self.prior, str) else context
        return self

    def fit_weighted(self, x: Any, weights: Floats, offsets: Floats, context: Context, start: Any = None) -> Mixtures:
        """Fit to weighted points by EM, all data at once, from the prior or from the best of several starts."""
        columns = []
        for j in range(weights.shape[1]):
            begin = None if start is None else start[:, j]
            columns.append(self._climb_column(x, weights[:, j], offsets, context, begin).models)
        joined: Mixtures = side_by_side(columns)
        return joined

    def _climb_each(self, X: Any, context: Context, name: Callable[[int], str]) -> Climbed:
        return self._climb_named(*segments(X), context, name)

    def _climb_named(self, x: Any, offsets: Floats, context: Context, name: Callable[[int], str]) -> Climbed:
        """Fit one mixture to every datum; what goes wrong is said with its name."""
        try:
            found = self._climb_column(x, np.ones(x.shape[0]), offsets, context, None)
        except Impossible as error:
            source = "init" if self.init is not None else "the prior" if self.prior is not None else "every start"
            raise impossible(name(error.args[1]), source) from None
        except Collapsed as error:
            raise ValueError(f"{name(error.args[0])} cannot be fitted: {error.args[1]}") from None
        if self.n_iter > 1 and self.tol > 0:
            warn_of_unconverged([(found, name)], self.n_iter, "EM")
        return found

    def _climb_column(self, x: Any, weights: Floats, offsets: Floats, context: Context, start: Any) -> Climbed:
        """Fit one mixture to every datum, from a start, the prior, or the best of several starts."""
        n = len(offsets) - 1
        data = Data(x, offsets, np.arange(n), n, weights)
        prior = None if self.prior is None else self._suited_to("prior", self._prior_batch(context), x, context)
        strength = float(self.prior_strength)
        step = DensityStep(self._component(), context, None if prior is None else prior.reshape(1, 1), strength)

        def climbed(begin: Mixtures) -> Climbed:
            return climb(MixtureGoal(step), data, begin, self.n_iter, self.tol, "EM")

        everybody = np.zeros(n, dtype=int)
        if start is None and self.init is not None:
            start = self._suited_to("init", self.init, x, context)[everybody]
        if start is None and prior is not None:
            start = prior[everybody]
        if start is not None:
            return climbed(start)
        seed = self._seed()
        best = climbed(self._start(x, weights, offsets, context, 0, seed))
        for attempt in range(1, self.n_init):
            best = better_of(best, climbed(self._start(x, weights, offsets, context, attempt, seed)))
        return best

    def _suited_to(self, name: str, given: Mixtures, x: Any, context: Context) -> Mixtures:
        """Return what was given as prior or start, or raise where its components are not those that are fitted."""
        alone = clone(self._component()).set_params(prior=None)
        if x.shape[0]:
            point = x[:1] if hasattr(x, "indptr") else np.nan_to_num(x[:1])
            like = alone.fit_weighted(point, np.ones((1, 1)), np.array([0, 1]), context)
            try:
                like._check_alike(given.components)
            except (TypeError, ValueError) as error:
                raise type(error)(f"{name} does not suit {type(alone).__name__} components: {error}") from None
        return given

    def _start(self, x: Any, weights: Floats, offsets: Floats, context: Context, attempt: int, seed: int) -> Mixtures:
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
            weights=normalized(segment_sum(shares, offsets), 1.0 / self.n_components),
            components=component.fit_weighted(x, shares, offsets, context, start=everywhere),
        )
