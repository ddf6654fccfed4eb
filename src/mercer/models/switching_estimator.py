"""The estimator of switching linear dynamical systems: EM for one model of all series, or one model per series."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from mercer._array import Floats
from mercer._parameters import Rule, Rules, boolean, nonnegative, one_of, states, whole
from mercer.data import Sequences
from mercer.families.estimator import Context
from mercer.models._dynamics.checks import check_fixed, noiseless
from mercer.models._dynamics.em import Averages, LDSGoal, Regression
from mercer.models._dynamics.runs import Systems
from mercer.models._fitting.data import Data
from mercer.models._fitting.em import Collapsed, EMResults, Impossible, better_of, em_batch
from mercer.models._switching.em import OBSERVED, PathData, Prior, SwitchingGoal
from mercer.models._switching.starts import start
from mercer.models.lds_estimator import LDS, LDSContext
from mercer.models.switching import SwitchingLDSs

_WEAK = 0.01
"""Steps of a prior in the units of the data, which holds regimes that are hardly ever visited. Few, because the noise
of a quiet regime is a small fraction of these units."""
_TRIAL = 10
"""Iterations from every start, before the best one goes on."""


def _is_model(value: Any) -> bool:
    return isinstance(value, SwitchingLDSs) and value.shape == (1,)


class SwitchingLDS(LDS):
    """Fit switching linear dynamical systems by EM over regime paths, one per series or one to all series.

    Parameters
    ----------
    n_regimes : int, default=2
        Number of regimes.
    state_dim : int, default=2
        Number of coordinates of the hidden state.
    shared_emission : bool, default=True
        Whether all regimes have the same emission and observation noise. Their transitions, offsets of the state,
        process noises and starts always differ.
    noise : {"full", "diagonal", "isotropic"}, default="diagonal"
        Structure of the covariance of the observation noise.
    floor : float, default=1e-4
        Fraction of the pooled variance of each channel that is added to the variance of its noise, and fraction of 1
        that is added to the variances of the state, which starts with about unit variance. Smaller than that of `LDS`,
        because a quiet regime has a small part of the pooled variance.
    fixed : dict or None, default=None
        Parameters of the systems that are not learned, by their name in `LDSs`, as in `LDS`: an array for all regimes,
        or with a first axis one for each. NaN marks entries that are learned nevertheless; a covariance is fixed as a
        whole, in some regimes or in all.
    n_paths : int, default=16
        Number of regime paths per series that the E-step averages over.
    prior : None, "pooled" or SwitchingLDSs of shape (1,), default="pooled"
        The model that the model of each series is shrunk to (EST-2b). With "pooled", one model of all training data is
        learned first, and the model of each series starts from it, so that regimes mean the same for all series.
    prior_strength : float, default=20.0
        Weight of the prior, in observations of each regime.
    n_iter : int, default=50
        Maximum number of iterations: fewer than for `LDS`, because each of them smooths ``n_paths`` paths of regimes.
    tol : float, default=1e-4
        Stop if the objective per observation grows by at most this value; with 0 there are always ``n_iter``
        iterations.
    n_init : int, default=5
        Number of starts if there is no prior to start from, at most 5 different ones: from the steps of the state in
        local windows, their levels, their noises, the sizes of these, and all of them. The best one after 10 iterations
        is continued.
    init : None or SwitchingLDSs of shape (1,), default=None
        The start of each fit, including that of the pooled model.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the starts. None, or a generator, gives a new seed in each fit.

    Attributes
    ----------
    model_ : SwitchingLDSs of shape (1,)
        The model learned by ``fit``.
    context_ : Context
        Properties of the training data that all models share, learned by ``fit``.
    n_iter_ : int
        Number of iterations of the fit of ``model_``, from the best of its starts.
    converged_ : bool
        Whether that fit converged before ``n_iter``.
    history_ : ndarray
        The objective of that fit before each of its iterations.

    Notes
    -----
    A series of T observations has K^T regime paths. The E-step takes the ``n_paths`` most probable ones that a beam
    search finds, and those of the iteration before, with their exact weights and exactly smoothed states. The objective
    is the sum over these paths, a lower bound of the probability that never decreases; with one path this is EM along
    the most probable path, with all paths plain EM.

    A start fits one linear dynamical system (`LDS`), clusters the dynamics of its smoothed states in local windows, and
    learns regimes of the smoothed states by an HMM of linear steps.

    See Also
    --------
    SwitchingLDSs : The learned models, with ``log_prob``, ``regime_probabilities``, ``viterbi`` and ``forecast``.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> rng = np.random.default_rng(0)
    >>> speed = np.repeat([0.2, 1.2, 0.2], 40)  # a slow oscillation, a fast one, a slow one
    >>> angle = np.cumsum(speed)
    >>> series = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    >>> series += 0.05 * rng.normal(size=(120, 2))
    >>> model = mc.SwitchingLDS(n_regimes=2, state_dim=2).fit([series]).model_
    >>> fast = model.regime_probabilities([series])[0].argmax(axis=1)
    >>> bool((fast[5:38] != fast[45:78]).all() and (fast[5:38] == fast[85:118]).all())
    True
    """

    has_hidden = True
    _cures: ClassVar[str] = "Use a larger floor, fewer regimes, a smaller state_dim, or prior='pooled'."

    _parameters: ClassVar[Rules] = {
        "n_regimes": states(),
        "state_dim": whole(1),
        "shared_emission": boolean("True shares emission and observation noise between all regimes."),
        "noise": one_of("full", "diagonal", "isotropic"),
        "floor": nonnegative("It is a fraction of the pooled variance."),
        "n_paths": whole(1, cure="It is the number of regime paths per series."),
        "init": Rule("None or SwitchingLDSs of shape (1,)", lambda value: value is None or _is_model(value)),
    }

    def __init__(
        self,
        n_regimes: int = 2,
        state_dim: int = 2,
        shared_emission: bool = True,
        noise: str = "diagonal",
        floor: float = 1e-4,
        fixed: Any = None,
        n_paths: int = 16,
        prior: Any = "pooled",
        prior_strength: float = 20.0,
        n_iter: int = 50,
        tol: float = 1e-4,
        n_init: int = 5,
        init: Any = None,
        random_state: Any = 0,
    ) -> None:
        self.n_regimes = n_regimes
        self.state_dim = state_dim
        self.shared_emission = shared_emission
        self.noise = noise
        self.floor = floor
        self.fixed = fixed
        self.n_paths = n_paths
        self.prior = prior
        self.prior_strength = prior_strength
        self.n_iter = n_iter
        self.tol = tol
        self.n_init = n_init
        self.init = init
        self.random_state = random_state

    def _check_pooled(self, context: Context) -> None:
        super()._check_pooled(context)
        pooled = self._prior_batch(context)
        if self.prior is not None and pooled is not None and pooled.initial.shape[-1] != self.n_regimes:
            raise ValueError(
                f"n_regimes must be that of the prior, {pooled.initial.shape[-1]}; got {self.n_regimes}. Call fit "
                "again, or change n_regimes."
            )

    # -- the prior --------------------------------------------------------------------------------------

    def _with_prior(self, X: Sequences, bare: LDSContext) -> tuple[LDSContext, EMResults | None]:
        """Learn the pooled model, or take the given one; and what it expects of a step of the data."""
        found = None
        if isinstance(self.prior, str):
            found = clone(self).set_params(prior=None)._fit_together(X, bare)
        model = self.prior if found is None else found.models
        if model.state_dim != self.state_dim or model.initial.shape[-1] != self.n_regimes:
            raise ValueError(
                f"The prior must have {self.n_regimes} regimes and {self.state_dim} state coordinates; got "
                f"{model.initial.shape[-1]} and {model.state_dim}. Change n_regimes and state_dim."
            )
        expected: Any = self._expected(model, X, bare)
        pooled = bare.pooled if found is None else found.models
        return replace(bare, pooled=pooled, expected=expected), found

    def _expected(self, model: SwitchingLDSs, X: Sequences, context: LDSContext) -> Prior:
        """Return the expectations of every regime of a model for one step of the data."""
        data = PathData(X.values, X.offsets, np.zeros(len(X), dtype=int), 1)
        own = self._goal(context, self._weak(context), _WEAK).expect(model, data)[1].memory
        systems = own.systems

        def per_step(regression: Regression, noise: Any) -> Regression:
            count = regression.terms[:, None, None]
            moment = regression.moment / np.where(count > 0, count, 1.0)
            moment = np.where(count > 0, moment, np.eye(int(self.state_dim) + 1))  # regimes that are never visited
            return Regression(noise, np.zeros_like(regression.cross), moment, np.ones(len(noise)))

        observation = own.observation
        if self.shared_emission:
            observation = Regression(*(np.broadcast_to(part.sum(axis=0), part.shape) for part in observation))
        averages = Averages(
            systems,
            per_step(own.state, systems.process_covariance),
            per_step(observation, systems.observation_covariance),
        )
        return Prior(np.asarray(model.initial)[0], np.asarray(model.transition)[0], averages)

    def _weak(self, context: Context) -> Prior:
        """Return a weak prior: states of unit variance, observations with the variances of the data."""
        k, n, d = int(self.n_regimes), int(self.state_dim), context.dimension
        assert context.scale is not None
        assert context.center is not None
        unit = np.tile(np.eye(n), (k, 1, 1))
        systems = Systems(
            0.9 * unit, np.zeros((k, n)), np.zeros((k, d, n)), np.tile(context.center, (k, 1)), unit,
            np.tile(np.diag(context.scale), (k, 1, 1)), np.zeros((k, n)), unit,
        )  # fmt: skip
        moment, ones = np.tile(np.eye(n + 1), (k, 1, 1)), np.ones(k)
        state = Regression(systems.process_covariance, np.zeros((k, n, n + 1)), moment, ones)
        observation = Regression(systems.observation_covariance, np.zeros((k, d, n + 1)), moment, ones)
        chain = np.full((k + 1, k), 1 / (k * _WEAK))  # but one visit and one move of every regime
        return Prior(chain[0], chain[1:], Averages(systems, state, observation))

    def _goal(self, context: Context, prior: Prior, strength: float) -> SwitchingGoal:
        assert context.scale is not None
        unit = np.full(int(self.state_dim), self.floor)
        single = LDSGoal(self.noise, {}, (unit, self.floor * context.scale, unit), None, 0.0)
        shared = bool(self.shared_emission)
        return SwitchingGoal(single, prior, strength, shared, int(self.n_paths), self._fixed_each(context.dimension))

    def _fixed_each(self, d: int) -> list[dict[str, Floats]]:
        """Return the fixed parameters of every regime; one regime has no offset of the state unless it is learned."""
        k, n = int(self.n_regimes), int(self.state_dim)
        shapes: dict[str, tuple[int, ...]] = {
            "transition": (n, n), "state_offset": (n,), "process_covariance": (n, n), "initial_mean": (n,),
            "initial_covariance": (n, n), "emission": (d, n), "observation_offset": (d,),
            "observation_covariance": (d, d),
        }  # fmt: skip
        found: list[dict[str, Floats]] = [{} for _ in range(k)]
        if k == 1:
            found[0]["state_offset"] = np.zeros(int(self.state_dim))
        for name, value in (self.fixed or {}).items():
            if value is None:
                found[0].pop(name, None)
                continue
            array, shape = np.asarray(value, dtype=float), shapes[name]
            if array.shape not in (shape, (k, *shape)):
                raise ValueError(
                    f"fixed[{name!r}] must have shape {shape}, or {(k, *shape)} for one in each regime; got shape "
                    f"{array.shape}."
                )
            if self.shared_emission and name in OBSERVED and array.shape != shape:
                raise ValueError(
                    f"fixed[{name!r}] must have shape {shape}, because all regimes share it; got shape {array.shape}. "
                    "Use shared_emission=False for one in each regime."
                )
            for regime, part in zip(found, np.broadcast_to(array, (k, *shape)), strict=True):
                free = np.isnan(part)
                if name.endswith("covariance") and free.any():
                    if array.shape == shape or not free.all():
                        raise ValueError(
                            f"fixed[{name!r}] must be a whole matrix without NaN; covariances have no free entries."
                        )
                    continue  # that of this regime is learned
                regime[name] = np.array(part)
        for regime in found:
            noise = regime.get("process_covariance")
            if noise is not None and "state_offset" not in (self.fixed or {}):
                regime.setdefault("state_offset", np.where(noiseless(noise), 0.0, np.nan))
            check_fixed(regime)
        return found

    def _fixed_start(self, d: int) -> dict[str, Any]:
        """Return the fixed parameters of the single system that starts are made of: the mean over the regimes."""
        every, names = self._fixed_each(d), (self.fixed or {})
        found: dict[str, Any] = {
            name: np.mean([regime[name] for regime in every], axis=0)
            for name in names
            if all(name in regime for regime in every)
        }
        return {"state_offset": None, **found} if "state_offset" in names else found

    # -- the fit ----------------------------------------------------------------------------------------

    def _fit_models(self, data: Data, context: Context, seed: int, name: Callable[[int], str]) -> EMResults:
        """Fit models from the given start, from the prior, or from the best of several starts."""
        data = PathData(data.x, data.offsets, data.model, data.size)
        if self.prior is None:
            goal, given = self._goal(context, self._weak(context), _WEAK), None
        else:
            expected: Any = context.expected  # type: ignore[attr-defined]
            goal, given = self._goal(context, expected, float(self.prior_strength)), self._prior_batch(context)
        given = self.init if self.init is not None else given
        try:
            if given is not None:
                return self._run_em(goal, data, goal.admitted(given[np.zeros(data.size, dtype=int)]))
            if self.n_regimes == 1:
                return self._plain(data, context, seed, name)
            plain = LDS(
                self.state_dim, self.noise, self.floor, prior=None, fixed=self._fixed_start(context.dimension),
                n_iter=200, tol=1e-5, n_init=3,
            )  # fmt: skip
            systems = plain._fit_models(data, context, seed, name).models
            k = int(self.n_regimes)
            attempts = (goal.admitted(start(goal, systems, data, k, seed, attempt)) for attempt in range(self.n_init))
            if self.n_init == 1:
                return self._run_em(goal, data, next(attempts))
            best = self._run_em(goal, data, next(attempts), _TRIAL)
            for other in attempts:
                best = better_of(best, self._run_em(goal, data, other, _TRIAL))
            return self._run_em(goal, data, best.models)
        except (Collapsed, Impossible, np.linalg.LinAlgError) as error:
            raise self._failure(error, name, goal.fixed) from None

    def _plain(self, data: Data, context: Context, seed: int, name: Callable[[int], str]) -> EMResults:
        """Fit one regime: linear dynamical systems."""
        fixed = {"state_offset": None, **self._fixed_each(context.dimension)[0]}
        plain = LDS(
            self.state_dim, self.noise, self.floor, prior=None, fixed=fixed, n_iter=self.n_iter, tol=self.tol,
            n_init=self.n_init,
        )  # fmt: skip
        found = plain._fit_models(data, context, seed, name)
        size = data.size
        models = SwitchingLDSs._make(
            initial=np.ones((size, 1)),
            transition=np.ones((size, 1, 1)),
            n_regimes=np.ones(size, int),
            systems=found.models.reshape(size, 1),
        )
        return found._replace(models=models)

    def _run_em(self, goal: SwitchingGoal, data: PathData, begin: SwitchingLDSs, most: int | None = None) -> EMResults:
        data.kept.clear()
        return em_batch(goal, data, begin, self.n_iter if most is None else min(most, self.n_iter), self.tol, "EM")
