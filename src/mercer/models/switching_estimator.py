"""The estimator of switching linear dynamical systems: EM for one model of all series, or one model per series."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar

import numpy as np

from mercer._array import Floats, Indices
from mercer._parameters import Rule, Rules, states, whole
from mercer.families.estimator import Context
from mercer.models._dynamics.em import LDSGoal, Regression, averages
from mercer.models._dynamics.runs import Systems, smoothed, systems_of
from mercer.models._fitting.data import Data
from mercer.models._fitting.em import EMResults, better_of, em_batch
from mercer.models._switching.em import Prior, SwitchingGoal, path_moments
from mercer.models.lds import LDSs
from mercer.models.lds_estimator import LDS, LDSContext, SystemEstimator
from mercer.models.switching import SwitchingLDSs
from mercer.models.verbs import FittedChain, Learned

_WEAK = 0.01
"""Steps of a prior in the units of the data, which holds regimes that are hardly ever visited. Few, because the noise
of a quiet regime is a small fraction of these units."""
_TRIAL = 10
"""Iterations from every start, before the best one goes on."""


def _is_model(value: Any) -> bool:
    return isinstance(value, SwitchingLDSs) and value.shape == (1,)


@dataclass(eq=False, repr=False)
class SwitchingLDS(FittedChain, SystemEstimator):
    """Fit switching linear dynamical systems by EM over regime paths, one per series or one to all series.

    Parameters
    ----------
    n_regimes : int, default=2
        Number of regimes.
    state_dim : int, default=2
        Number of coordinates of the hidden state.
    noise : {"full", "diagonal", "isotropic"}, default="diagonal"
        Structure of the covariance of the observation noise.
    floor : float, default=1e-4
        Fraction of the pooled variance of each channel that is added to the variance of its noise, and fraction of 1
        that is added to the variances of the state, which starts with about unit variance. Smaller than that of `LDS`,
        because a quiet regime has a small part of the pooled variance.
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
    n_init : int, default=4
        Number of starts if there is no prior to start from. 4, because there are as many different ones: from the steps
        of the state in local windows, their levels, their noises, and all of these. The best one after 10 iterations is
        continued.
    init : None or SwitchingLDSs of shape (1,), default=None
        The start of each fit, including that of the pooled model.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the starts. None, or a generator, gives a new seed in each fit.

    Attributes
    ----------
    model_ : SwitchingLDSs of shape (1,)
        The model learned by ``fit``.
    initial_, transition_, systems_
        Its parts, without the batch axis.
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
    All regimes have the same emission and observation noise; their transitions, offsets of the state, process noises
    and starts differ.

    A series of T observations has K^T regime paths. The E-step takes the ``n_paths`` most probable ones that a beam
    search finds, with their exact weights and exactly smoothed states. The objective is the sum over these paths, a
    lower bound of the probability; with one path this is EM along the most probable path, with all paths plain EM.

    A start fits one linear dynamical system (`LDS`), clusters the dynamics of its smoothed states in local windows, and
    learns the systems of the clusters.

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

    _cures: ClassVar[str] = "Use a larger floor, fewer regimes, a smaller state_dim, or prior='pooled'."

    _parameters: ClassVar[Rules] = {
        "n_regimes": states(),
        "n_paths": whole(1, cure="It is the number of regime paths per series."),
        "init": Rule("None or SwitchingLDSs of shape (1,)", lambda value: value is None or _is_model(value)),
    }

    n_regimes: int = 2
    state_dim: int = 2
    noise: str = "diagonal"
    floor: float = 1e-4
    n_paths: int = 16
    prior: Any = "pooled"
    prior_strength: float = 20.0
    n_iter: int = 50
    tol: float = 1e-4
    n_init: int = 4
    init: Any = None
    random_state: Any = 0

    initial_, transition_, systems_ = Learned(), Learned(), Learned()

    _posterior: ClassVar[str] = "regime_probabilities"

    def _check_model(self, model: Any) -> None:
        super()._check_model(model)
        if model.initial.shape[-1] != self.n_regimes:
            raise ValueError(
                f"n_regimes must be that of the prior, {model.initial.shape[-1]}; got {self.n_regimes}. Call fit "
                "again, or change n_regimes."
            )

    def _expected(self, model: SwitchingLDSs, data: Data, context: LDSContext) -> Prior:
        own = self._goal(context, self._weak(context), _WEAK).expect(model, data)[1].memory
        # All regimes share the regression of the observations.
        shared = Regression(*(np.broadcast_to(part.sum(axis=0), part.shape) for part in own.observation))
        expected = averages(own.systems, own._replace(observation=shared))
        return Prior(np.asarray(model.initial)[0], np.asarray(model.transition)[0], expected)

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
        chain = np.full((k + 1, k), 1 / (k * _WEAK))  # but one visit and one move of every regime
        return Prior(chain[0], chain[1:], averages(systems))

    def _goal(self, context: Context, prior: Prior, strength: float) -> SwitchingGoal:
        assert context.scale is not None
        unit = np.full(int(self.state_dim), self.floor)
        # One regime is a linear dynamical system, whose state has no offset.
        fixed = {"state_offset": np.zeros(int(self.state_dim))} if self.n_regimes == 1 else {}
        single = LDSGoal(self.noise, fixed, (unit, self.floor * context.scale, unit), None, 0.0)
        return SwitchingGoal(single, prior, strength, int(self.n_paths))

    def _fit_starts(self, data: Data, context: Context, seed: int, name: Callable[[int], str]) -> EMResults:
        if self.prior is None:
            goal, given = self._goal(context, self._weak(context), _WEAK), None
        else:
            expected: Any = context.expected  # type: ignore[attr-defined]
            goal, given = self._goal(context, expected, float(self.prior_strength)), self._prior_batch(context)
        given = self.init if self.init is not None else given

        def run(begin: SwitchingLDSs, n_iter: int) -> EMResults:
            return em_batch(goal, data, begin, n_iter, self.tol, "EM")

        if given is not None:
            return run(goal.admitted(given[np.zeros(data.size, dtype=int)]), self.n_iter)
        plain = LDS(self.state_dim, self.noise, self.floor, prior=None, n_iter=200, tol=1e-5)
        systems, k = plain._fit_models(data, context, seed, name).models, int(self.n_regimes)
        attempts = (goal.admitted(start(goal, systems, data, k, seed, i)) for i in range(self.n_init))
        if self.n_init == 1:
            return run(next(attempts), self.n_iter)
        trials = (run(begin, min(_TRIAL, self.n_iter)) for begin in attempts)
        return run(reduce(better_of, trials).models, self.n_iter)


_STAYS = 0.95
"""Probability that a regime of a start stays."""
_ATTEMPTS = ((8, "steps"), (4, "levels"), (8, "noises"), (16, "all"))
"""Steps of the windows of each attempt, at least, and what is clustered."""
_TURNS = 10
"""Iterations of EM with the regimes held fixed."""


def start(goal: SwitchingGoal, plain: LDSs, data: Data, k: int, seed: int, attempt: int) -> SwitchingLDSs:
    """Return switching systems with k regimes, from one linear dynamical system per model, ``(N,)``.

    Parameters
    ----------
    goal : SwitchingGoal
        Its M-step.
    plain : LDSs of shape (N,)
        Systems fitted to the series.
    data : Data
        The series.
    k : int
        Number of regimes.
    seed, attempt : int
        Attempts differ in windows and in random numbers.
    """
    window, kind = _ATTEMPTS[attempt % len(_ATTEMPTS)]
    means = smoothed(systems_of(plain), data.x, data.runs).means
    features = _features(means, data, max(window, plain.state_dim + 2), kind)
    labels = np.zeros(len(data.x), int)
    for i in range(data.size):
        rows = slice(int(data.point_offsets[i]), int(data.point_offsets[i + 1]))
        labels[rows] = _clustered(features[rows], k, [seed, attempt])
    models = SwitchingLDSs._make(
        initial=np.full((data.size, k), 1 / k),
        transition=np.tile(_STAYS * np.eye(k) + (1 - _STAYS) / k, (data.size, 1, 1)),
        systems=plain[np.repeat(np.arange(data.size)[:, None], k, axis=1)],
    )
    certain = np.ones((len(data.offsets) - 1, 1))
    for _ in range(_TURNS):
        models = goal.maximize(models, data, None, path_moments(goal.chains(models), data, labels[None], certain))
    return models


def _features(means: Floats, data: Data, window: int, kind: str) -> Floats:
    """Return coefficients, levels and log noises in windows around every observation, ``(T, features)``."""
    n, size = means.shape[1], len(means)
    before = np.concatenate([np.zeros((1, n)), means[:-1]])
    rows = np.concatenate([before, np.ones((size, 1)), means], axis=1)
    series = np.repeat(np.arange(len(data.offsets) - 1), np.diff(data.offsets))
    first, last = data.offsets[series], data.offsets[series + 1]
    middle = np.arange(size)
    rows[first == middle] = 0.0  # no step
    moments = rows[:, :, None] * rows[:, None, :]
    total = np.concatenate([np.zeros((1, *moments.shape[1:])), np.cumsum(moments, axis=0)])
    low = np.maximum(first, np.minimum(middle - window // 2, last - window))
    high = np.minimum(last, np.maximum(middle - window // 2, first) + window)
    local = total[high] - total[low]
    inner = local[:, : n + 1, : n + 1] + 0.1 * np.eye(n + 1)
    crossed = local[:, : n + 1, n + 1 :]
    coefficients = np.linalg.solve(inner, crossed)
    rest = np.diagonal(local[:, n + 1 :, n + 1 :], axis1=1, axis2=2) - (coefficients * crossed).sum(axis=1)
    noise = np.log(np.maximum(rest, 0.0) / np.maximum(high - low, 1)[:, None] + 1e-3)
    level = local[:, n, :n] / np.maximum(local[:, n, n], 1.0)[:, None]
    used = {"steps": coefficients.reshape(size, -1), "levels": level, "noises": noise}
    return used[kind] if kind in used else np.concatenate(list(used.values()), axis=1)


def _clustered(features: Floats, k: int, seed: list[int]) -> Indices:
    """Cluster the windows of one model; fewer windows than regimes are dealt out."""
    from sklearn.cluster import KMeans  # takes as long to import as many models

    distinct, alike = np.unique(features, axis=0, return_inverse=True)
    if len(distinct) <= k:
        return np.asarray(alike).reshape(-1)
    spread = features.std(axis=0)
    scaled = (features - features.mean(axis=0)) / np.where(spread > 1e-12, spread, 1.0)
    number = int(np.random.SeedSequence(seed).generate_state(1)[0] >> 1)
    return np.asarray(KMeans(k, n_init=3, random_state=number).fit_predict(np.clip(scaled, -4, 4)))
