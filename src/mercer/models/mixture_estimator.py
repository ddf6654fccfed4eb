"""The estimator of mixtures of any family: expectation maximization by weighted fits of the components."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from mercer._array import Floats, to_numpy
from mercer._hints import HintedParameters
from mercer._parameters import NONE, Rules, instance_of, whole
from mercer._probability import normalized
from mercer._random import generator, seed_of
from mercer.data import Sequences
from mercer.data.segments import check_some_points, in_digest_order, segment_sum, segments
from mercer.families.estimator import Context, Estimator
from mercer.families.fit import FamilyEstimator
from mercer.families.gaussian_estimator import Gaussian
from mercer.models._fitting.checks import check_something, check_spread, impossible
from mercer.models._fitting.data import Data
from mercer.models._fitting.em import Collapsed, EMResults, Impossible, best_of
from mercer.models._fitting.emission_steps import DensityStep, evenly
from mercer.models._fitting.goals import MixtureGoal
from mercer.models._fitting.iterative import IterativeEstimator
from mercer.models._fitting.mixture_steps import numbers, seed_shares, side_by_side, spread
from mercer.models.mixture import Mixtures
from mercer.models.verbs import FittedModel, Learned


@dataclass(eq=False, repr=False)
class Mixture(HintedParameters, FittedModel, IterativeEstimator):
    """Fit mixtures by expectation maximization, one per sample (a set of points) or one to all samples.

    Parameters
    ----------
    component : estimator or None, default=None
        The family of the components; None means ``Gaussian("diagonal")``: not "full", the default of `Gaussian`,
        because a component has a part of the points only.
    n_components : int, default=2
        Number of components.
    prior : None, "pooled" or Mixtures of shape (1,), default="pooled"
        The mixture that the mixture of each sample is shrunk to (EST-2b). With "pooled", one mixture of all samples is
        learned first, and the mixture of each sample starts from it, so that components keep their identity across
        samples.
    prior_strength : float, default=10.0
        Weight of the prior, in observations per component.
    n_iter : int, default=100
        Maximum number of iterations.
    tol : float, default=1e-6
        Stop if the objective per point grows by at most this value; with 0 there are always ``n_iter`` iterations. It
        is smaller than for models of sequences, because an iteration is cheaper.
    n_init : int, default=3
        Number of k-means++ starts if there is no prior to start from; the best fit is kept.
    init : None or Mixtures of shape (1,), default=None
        The start of each fit, including that of the pooled mixture. None starts from the prior or, without a prior,
        from k-means++ seeds.
    random_state : int, Generator, RandomState or None, default=0
        Seed; the starts of a sample depend only on it and on the sample. None, or a generator, gives a new seed in each
        call of fit.

    Attributes
    ----------
    model_ : Mixtures of shape (1,)
        The mixture learned by ``fit``.
    weights_, components_
        Its parts, without the batch axis.
    context_ : Context
        Properties of the training data that all mixtures share, learned by ``fit``.
    n_iter_ : int
        Number of iterations of the fit of ``model_``, from the best of its starts.
    converged_ : bool
        Whether that fit converged before ``n_iter``.
    history_ : ndarray
        The objective of that fit before each of its iterations.

    Notes
    -----
    The objective is the log density of the points plus, with a prior, the logarithm of its conjugate density. It never
    decreases. The ``floor`` of a Gaussian is a variance of each point, in both steps. The pooled mixture includes, in
    each component, one additional observation that is spread evenly (all symbols equally, a fair coin, the mean count),
    so that outcomes that do not occur in the training data have positive probability.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> rng = np.random.default_rng(0)
    >>> sets = [
    ...     rng.normal(rng.choice([-3, 3], (50, 1)), 1.0, size=(50, 1)) for _ in range(4)
    ... ]
    >>> mc.Mixture(n_components=2).fit_each(sets)
    Mixtures(shape=(4,), components=Gaussians)
    """

    _parameters: ClassVar[Rules] = {
        "component": instance_of(Estimator, what="an estimator", cure="Use a family, such as mc.Gaussian('full').")
        | NONE,
        "n_components": whole(1),
    }

    component: Any = None
    n_components: int = 2
    prior: Any = "pooled"
    prior_strength: float = 10.0
    n_iter: int = 100
    tol: float = 1e-6
    n_init: int = 3
    init: Any = None
    random_state: Any = 0

    weights_, components_ = Learned(), Learned()

    def predict(self, X: Any) -> Any:
        """Most probable component of each point: an array, or one for each sample that is a set of points."""
        found = self.predict_proba(X)
        return found.argmax(axis=1) if isinstance(found, np.ndarray) else [p.argmax(axis=1) for p in found]

    def predict_proba(self, X: Any) -> Any:
        """Posterior probabilities of the components at each point, ``(N, m)``, or a list for sets of points."""
        X = self._known(X)
        x, offsets = segments(X)
        found = to_numpy(self.model_.responsibilities(x))[0].T
        return [found[a:b] for a, b in pairwise(offsets)] if isinstance(X, Sequences) else found

    def sample(self, size: int = 1, random_state: Any = None) -> Floats:
        """Sample ``size`` points of ``model_``, ``(size, ...)``."""
        check_is_fitted(self, "model_")
        return np.asarray(self.model_.sample(size, random_state)[0])

    @property
    def takes(self) -> str:  # type: ignore[override]
        """The kind of observation that the components take."""
        return self._component().takes

    def _component(self) -> Estimator:
        self._check_parameter("component")
        return Gaussian("diagonal") if self.component is None else self.component

    def _missing_allowed(self) -> bool:
        return self._component()._missing_allowed()

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self._component().of_sequences:
            raise TypeError(f"component must be a family; got {self.component!r}. Use mc.Gaussian('full'), say.")
        if isinstance(self._component(), Mixture):
            raise TypeError(
                "component must not be a Mixture, because a mixture of mixtures is a mixture. Use the family of its "
                "components, and a larger n_components."
            )
        self._check_given("init", self.init, "None for k-means++ starts")
        if not isinstance(self.prior, str):
            self._check_given("prior", self.prior, "None, 'pooled'")

    def _check_given(self, name: str, given: Any, other: str) -> None:
        if given is None:
            return
        if not isinstance(given, Mixtures):
            raise TypeError(f"{name} must be {other}, or Mixtures of shape (1,); got {given!r}.")
        if given.shape != (1,):
            raise ValueError(f"{name} must be Mixtures of shape (1,), such as p[3:4]; got shape {given.shape}.")
        found = int(given.weights.shape[-1])
        if found != self.n_components:
            raise ValueError(
                f"{name} has {found} components, but n_components is {self.n_components}. Make them equal."
            )

    # -- validation of the input, by the components --------------------------------------------------------

    def accept(self, X: Any, *, owner: Any = None, reset: bool = False, context: Context | None = None) -> Any:
        """Convert and check ``X`` as the components do."""
        owner = self if owner is None else owner
        return self._component().accept(X, owner=owner, reset=reset, context=context)

    def _check_context(self, X: Any, context: Context) -> None:
        self._component()._check_context(X, context)

    def _check_data(self, X: Any, offsets: Floats) -> None:
        super()._check_data(X, offsets)
        # A family allows empty samples if it has a prior; here the prior is that of the mixture.
        component = self._component()
        clone(component).set_params(prior=component.prior if self.prior is None else "pooled")._check_data(X, offsets)

    # -- the fit ------------------------------------------------------------------------------------------

    def _learn(self, X: Any, each: bool = False) -> tuple[Context, EMResults | None]:
        bare = self._bare_context(X)
        if not isinstance(self.prior, str):
            return bare, None
        found = self._fit_together(X, bare)
        return replace(bare, pooled=found.models), found

    def _bare_context(self, X: Any) -> Context:
        if isinstance(X, Sequences):
            check_spread(X)
        bare = self._component().context(X)
        x, _ = segments(in_digest_order(X))
        return replace(bare, scale=spread(x)) if self.takes == "vectors" else bare

    def _check_pooled(self, context: Context) -> None:
        super()._check_pooled(context)
        if not isinstance(self.prior, str):
            return
        if not isinstance(context.pooled, Mixtures):
            raise TypeError(
                f"The context must be learned by a Mixture; got pooled {type(context.pooled).__name__}. Call fit again."
            )
        found = int(context.pooled.weights.shape[-1])
        if found != self.n_components:
            raise ValueError(
                f"The context was learned with n_components={found}, but n_components is now {self.n_components}. Call "
                "fit again."
            )

    def _fit_together(self, X: Any, context: Context) -> EMResults:
        """Fit one mixture to all samples; without a prior if the prior is pooled."""
        check_some_points(X)
        x, _ = segments(in_digest_order(X))
        estimator, offsets = self, np.array([0, x.shape[0]])
        if self.prior is None or isinstance(self.prior, str):
            check_something(X, self._component())
        self._check_data(X, offsets)
        if isinstance(self.prior, str):
            estimator = clone(evenly(self, x, context)).set_params(prior=None)
        return estimator._em_named(x, offsets, context, lambda i: "the mixture of all data")

    def _fit_shared(self, X: Any, context: Context) -> Mixtures:
        models: Mixtures = Estimator._fit_shared(self, X, context)  # with a pooled prior, too
        return models

    def fit_weighted(self, x: Any, weights: Floats, offsets: Floats, context: Context, start: Any = None) -> Mixtures:
        """Fit to weighted points by EM, all samples at once, from the prior or from the best of several starts."""
        columns = []
        for j in range(weights.shape[1]):
            begin = None if start is None else start[:, j]
            columns.append(self._em_column(x, weights[:, j], offsets, context, begin).models)
        joined: Mixtures = side_by_side(columns)
        return joined

    def _em_each(self, X: Any, context: Context, name: Callable[[int], str]) -> EMResults:
        return self._em_named(*segments(X), context, name)

    def _em_named(self, x: Any, offsets: Floats, context: Context, name: Callable[[int], str]) -> EMResults:
        """Fit one mixture to each sample; errors and warnings contain the name of the sample."""
        try:
            found = self._em_column(x, np.ones(x.shape[0]), offsets, context, None)
        except Impossible as error:
            raise impossible(name(error.args[1]), self._source()) from None
        except Collapsed as error:
            raise ValueError(f"{name(error.args[0])} cannot be fitted: {error.args[1]}") from None
        self._warn_unconverged([(found, name)])
        return found

    def _em_column(self, x: Any, weights: Floats, offsets: Floats, context: Context, start: Any) -> EMResults:
        """Fit one mixture to each sample, from a start, the prior, or the best of several starts."""
        n = len(offsets) - 1
        data = Data(x, offsets, np.arange(n), n, weights)
        prior = None if self.prior is None else self._suited_to("prior", self._prior_batch(context), x, context)
        strength = float(self.prior_strength)
        step = DensityStep(self._component(), context, None if prior is None else prior.reshape(1, 1), strength)

        repeated = np.zeros(n, dtype=int)
        if start is None and self.init is not None:
            start = self._suited_to("init", self.init, x, context)[repeated]
        if start is None and prior is not None:
            start = prior[repeated]
        seed, attempts = seed_of(self.random_state), range(self.n_init if start is None else 1)
        starts = (self._start(x, weights, offsets, context, k, seed) if start is None else start for k in attempts)
        begins = (step.start(begin.reshape(-1, 1)).reshape(-1) for begin in starts)
        return best_of(MixtureGoal(step), data, begins, self.n_iter, self.tol, "EM")

    def _suited_to(self, name: str, given: Mixtures, x: Any, context: Context) -> Mixtures:
        """Return the given prior or start; raise if its components differ in kind from those that are fitted."""
        component = clone(self._component()).set_params(prior=None)
        if x.shape[0]:
            if isinstance(component, FamilyEstimator):
                like = component.template(context)
            else:
                point = x[:1] if hasattr(x, "indptr") else np.nan_to_num(x[:1])
                like = component.fit_weighted(point, np.ones((1, 1)), np.array([0, 1]), context)
            try:
                like._check_alike(given.components)
            except (TypeError, ValueError) as error:
                raise type(error)(f"{name} does not suit {type(component).__name__} components: {error}") from None
        return given

    def _start(self, x: Any, weights: Floats, offsets: Floats, context: Context, attempt: int, seed: int) -> Mixtures:
        """Return a start from k-means++ seeds, by a soft assignment of the points to the seeds."""
        shares = np.zeros((x.shape[0], self.n_components))
        for i in range(len(offsets) - 1):
            rows = slice(int(offsets[i]), int(offsets[i + 1]))
            if rows.stop > rows.start:
                shares[rows] = seed_shares(
                    numbers(x[rows], context),
                    weights[rows],
                    self.n_components,
                    generator(seed, attempt),
                )
        shares = shares * weights[:, None]
        component = self._component()
        pooled = component.fit_weighted(x, weights[:, None], np.array([0, x.shape[0]]), context)
        repeated = pooled[np.zeros(len(offsets) - 1, dtype=int)][:, np.zeros(self.n_components, dtype=int)]
        return Mixtures._make(
            weights=normalized(segment_sum(shares, offsets), 1.0 / self.n_components),
            components=component.fit_weighted(x, shares, offsets, context, start=repeated),
        )
