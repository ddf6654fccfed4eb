"""The estimator of linear dynamical systems: EM for one system of all series, or one system per series."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from mercer._array import Floats, Indices
from mercer._parameters import NONE, Rule, Rules, nonnegative, one_of, whole
from mercer._random import seed_of
from mercer.data import Sequences
from mercer.data.segments import check_some_points, in_digest_order, in_double, in_numbers
from mercer.families.estimator import Context
from mercer.families.gaussian_estimator import Gaussian
from mercer.models._dynamics.checks import check_fixed, noiseless
from mercer.models._dynamics.em import LDSGoal, Moments, averages, expectations_of, start
from mercer.models._dynamics.runs import Systems, shapes_of, systems_of
from mercer.models._fitting.checks import check_range, check_spread
from mercer.models._fitting.data import Data
from mercer.models._fitting.em import Collapsed, EMResults, Impossible, best_of
from mercer.models._fitting.iterative import IterativeEstimator
from mercer.models._fitting.mixture_steps import spread
from mercer.models.hidden_states import HiddenStates
from mercer.models.lds import LDSs
from mercer.models.verbs import FittedSeries, Learned

_FIXABLE = Systems._fields


@dataclass(frozen=True)
class LDSContext(Context):
    """The context of series, with the expectations of the pooled system, or of the given prior, for one step."""

    expected: Moments | None = None


def _is_fixed(value: Any) -> bool:
    return isinstance(value, dict) and set(value) <= set(_FIXABLE)


class SystemEstimator(FittedSeries, IterativeEstimator):
    """EM for linear dynamical systems, plain or switching: the input, the prior, and the fits of one or many."""

    of_sequences = True

    _parameters: ClassVar[Rules] = {
        "state_dim": whole(1),
        "noise": one_of("full", "diagonal", "isotropic"),
        "floor": nonnegative("It is a fraction of the pooled variance."),
    }
    state_dim: int
    noise: str
    floor: float
    prior_strength: float
    init: Any
    fixed: Any = None

    def _check_model(self, model: Any) -> None:
        """Raise if the prior has other sizes than the models."""
        if model.state_dim != self.state_dim:
            raise ValueError(
                f"state_dim must be that of the prior, {model.state_dim}; got {self.state_dim}. Call fit again, or "
                "change state_dim."
            )

    def _expected(self, model: Any, data: Data, context: LDSContext) -> Any:
        """Return what a model expects of a step of its data, for the prior of others."""
        raise NotImplementedError

    def _fit_starts(self, data: Data, context: Context, seed: int, name: Callable[[int], str]) -> EMResults:
        """Fit models from the given start, from the prior, or from the best of several starts."""
        raise NotImplementedError

    # -- validation of the input --------------------------------------------------------------------------

    def _missing_allowed(self) -> bool:
        return True

    def accept(self, X: Any, *, owner: Any = None, reset: bool = False, context: Context | None = None) -> Sequences:
        """Convert ``X`` to `Sequences` of vectors; a 2-D array is N univariate series."""
        X = in_double(in_numbers(self._sequences(X, owner, reset)))
        check_range(X.require("vectors", self, "Use mc.HMM."))
        return X

    def _check_each(self, X: Any, context: Context) -> None:
        super()._check_each(X, context)
        if getattr(context, "expected", None) is None and self.prior is not None:
            raise ValueError("The context was learned with another prior. Call fit again.")

    def _check_pooled(self, context: Context) -> None:
        super()._check_pooled(context)
        if self.prior is not None:
            self._check_model(self._prior_batch(context))

    def _check_data(self, X: Any, offsets: Indices) -> None:
        if self.prior is not None:
            return
        seen = np.isfinite(X.values).any(axis=1).astype(float)
        counts = np.add.reduceat(np.append(seen, 0.0), offsets[:-1]) * (np.diff(offsets) > 0)
        short = np.flatnonzero(counts <= self.state_dim)
        if len(short):
            name = X.name(int(short[0])) if len(offsets) == len(X) + 1 else "The data"
            raise ValueError(
                f"{name} has {int(counts[short[0]])} observations, too few for a transition of {self.state_dim} state "
                "coordinates. Use prior='pooled', a smaller state_dim, or leave it out."
            )

    # -- the fit ----------------------------------------------------------------------------------------

    def _learn(self, X: Any, each: bool = False) -> tuple[Context, EMResults | None]:
        X = in_digest_order(X)
        bare = self._bare_context(X)
        if self.prior is None:
            return bare, None
        found = None
        if isinstance(self.prior, str):
            found = clone(self).set_params(prior=None)._fit_together(X, bare)
        model = self.prior if found is None else found.models
        self._check_model(model)
        expected = self._expected(model, _one_model(X), bare)
        return replace(bare, pooled=bare.pooled if found is None else model, expected=expected), found

    def _bare_context(self, X: Sequences) -> LDSContext:
        check_some_points(X)
        unseen = np.flatnonzero(np.isnan(X.values).all(axis=0))
        if len(unseen):
            raise ValueError(
                f"Channel {int(unseen[0])} has no value in any series (all NaN), so its emission cannot be learned. "
                "Leave the channel out."
            )
        check_spread(X)
        values = X.values
        found = Gaussian("diagonal").context(Sequences([values]))
        shared = {field.name: getattr(found, field.name) for field in fields(found)}
        return LDSContext(**{**shared, "scale": spread(values)})

    def _fit_together(self, X: Sequences, context: Context) -> EMResults:
        """Fit one system to all series."""
        X = in_digest_order(X)
        self._check_data(X, np.array([0, len(X.values)]))
        seed = seed_of(self.random_state)
        found = self._fit_models(_one_model(X), context, seed, lambda i: "The system of all series")
        self._warn_unconverged([(found, lambda i: "the system of all series")])
        return found

    def _em_each(self, X: Any, context: Context, name: Callable[[int], str]) -> EMResults:
        """Fit one system to each series, in chunks, on several threads."""
        seed = seed_of(self.random_state)

        def fit(members: Indices) -> EMResults:
            part = X[members]
            data = Data(part.values, part.offsets, np.arange(len(part)), len(part))
            return self._fit_models(data, context, seed, lambda i: name(int(members[i])))

        return self._on_threads([np.arange(len(X))], fit, name)[0]

    _cures: ClassVar[str] = "Use a larger floor, a smaller state_dim, or prior='pooled'."

    def _fit_models(self, data: Data, context: Context, seed: int, name: Callable[[int], str]) -> EMResults:
        """Fit models; raise if one ended in a singular covariance."""
        try:
            return self._fit_starts(data, context, seed, name)
        except (Collapsed, Impossible, np.linalg.LinAlgError) as error:
            place = error.args[1] if isinstance(error, Impossible) else error.args[0]
        who = name(int(place) if isinstance(place, int | np.integer) else 0)
        key = "observation_covariance"
        given = (self.fixed or {}).get(key)
        if given is not None and noiseless(np.asarray(given, dtype=float)).any():
            raise ValueError(
                f"{who} cannot be fitted: fixed[{key!r}] is singular, and the state does not vary where it is, so that "
                "observations have no density. Add a small multiple of the identity to it."
            )
        raise ValueError(
            f"{who} cannot be fitted: a covariance became singular, because a channel does not vary or the series is "
            f"too short. {self._cures}"
        )


def _one_model(X: Sequences) -> Data:
    """Return series that one model explains."""
    return Data(X.values, X.offsets, np.zeros(len(X), dtype=int), 1)


@dataclass(eq=False, repr=False)
class LDS(SystemEstimator):
    """Fit linear dynamical systems by EM, one per series or one to all series.

    Parameters
    ----------
    state_dim : int, default=2
        Number of coordinates of the hidden state.
    noise : {"full", "diagonal", "isotropic"}, default="diagonal"
        Structure of the covariance of the observation noise.
    floor : float, default=1e-3
        Fraction of the pooled variance of each channel that is added to the variance of its noise. The state starts
        with about unit variance; the same fraction of 1 is added to the variances of its noise.
    fixed : dict or None, default=None
        Parameters that are not learned, by their name in `LDSs`: ``fixed={"transition": [[1.0, 1.0], [0.0, 1.0]]}``.
        NaN marks entries that are learned nevertheless, except in covariances, which are fixed as a whole and may be
        singular if the coefficients without noise are fixed too. None as a value learns ``state_offset``, which is
        zero otherwise.
    prior : None, "pooled" or LDSs of shape (1,), default="pooled"
        The system that the system of each series is shrunk to (EST-2b). With "pooled", one system of all training data
        is learned first, and the system of each series starts from it, so that the coordinates of the state mean the
        same for all series. None is maximum likelihood.
    prior_strength : float, default=20.0
        Weight of the prior, in observations.
    n_iter : int, default=100
        Maximum number of iterations.
    tol : float, default=1e-4
        Stop if the objective per observation grows by at most this value; with 0 there are always ``n_iter``
        iterations.
    n_init : int, default=3
        Number of starts if there is no prior to start from: subspace identification, and random perturbations of it.
        The best fit is kept.
    init : None or LDSs of shape (1,), default=None
        The start of each fit, including that of the pooled system.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the perturbed starts. None, or a generator, gives a new seed in each fit.

    Attributes
    ----------
    model_ : LDSs of shape (1,)
        The system learned by ``fit``.
    transition_, emission_, process_covariance_, observation_covariance_, initial_mean_, initial_covariance_, ...
        Its parameters, without the batch axis.
    context_ : Context
        Properties of the training data that all systems share, learned by ``fit``.
    n_iter_ : int
        Number of iterations of the fit of ``model_``, from the best of its starts.
    converged_ : bool
        Whether that fit converged before ``n_iter``.
    history_ : ndarray
        The objective of that fit before each of its iterations.

    Notes
    -----
    Series can have different lengths and missing values (NaN), in single channels or whole steps. The objective is the
    log probability of the series plus, with a prior, its logarithm; it never decreases. Expected statistics (EST-3) are
    shrunk to ``prior_strength`` times those of one step of the pooled system.

    See Also
    --------
    LDSs : The learned systems, with ``log_prob``, ``filter``, ``posterior``, ``forecast``, ``impute`` and ``sample``.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> rng = np.random.default_rng(0)
    >>> series = [np.cumsum(rng.normal(size=(30 + i, 2)), axis=0) for i in range(4)]
    >>> models = mc.LDS(state_dim=2).fit_each(series)
    >>> models.shape, models.transition.shape
    ((4,), (4, 2, 2))
    >>> means, covariances = models.forecast(series, steps=3)
    >>> means.shape, covariances.shape
    ((4, 3, 2), (4, 3, 2, 2))
    """

    _parameters: ClassVar[Rules] = {
        "fixed": Rule(f"a dict with keys among {', '.join(_FIXABLE)}", _is_fixed) | NONE,
        "init": Rule("None or LDSs of shape (1,)", lambda v: v is None or (isinstance(v, LDSs) and v.shape == (1,))),
    }

    state_dim: int = 2
    noise: str = "diagonal"
    floor: float = 1e-3
    fixed: Any = None
    prior: Any = "pooled"
    prior_strength: float = 20.0
    n_iter: int = 100
    tol: float = 1e-4
    n_init: int = 3
    init: Any = None
    random_state: Any = 0

    transition_, emission_, state_offset_, observation_offset_ = Learned(), Learned(), Learned(), Learned()
    process_covariance_, observation_covariance_ = Learned(), Learned()
    initial_mean_, initial_covariance_ = Learned(), Learned()

    def smooth(self, X: Any) -> HiddenStates:
        """Hidden states given the whole series: ``model_.posterior(X)``."""
        found: HiddenStates = self._of_model("posterior", X)
        return found

    def _expected(self, model: LDSs, data: Data, context: LDSContext) -> Moments:
        systems = systems_of(model)
        return averages(systems, expectations_of(systems, data)[1])

    def _fit_starts(self, data: Data, context: Context, seed: int, name: Callable[[int], str]) -> EMResults:
        prior: Moments | None = None if self.prior is None else context.expected  # type: ignore[attr-defined]
        assert context.scale is not None
        unit = np.full(int(self.state_dim), self.floor)
        floors = unit, self.floor * context.scale, unit
        goal = LDSGoal(self.noise, self._fixed(context.dimension), floors, prior, float(self.prior_strength))
        given = self.init if self.init is not None else None if prior is None else self._prior_batch(context)
        if given is not None:
            starts = iter([goal.admitted(given[np.zeros(data.size, dtype=int)])])
        else:
            starts = (goal.admitted(self._start(data, context, seed, k)) for k in range(self.n_init))
        return best_of(goal, data, starts, self.n_iter, self.tol, "EM")

    def _start(self, data: Data, context: Context, seed: int, attempt: int) -> LDSs:
        """Return a start of every model, from its own series."""
        assert context.center is not None
        assert context.scale is not None
        found = []
        for i in range(data.size):
            first, last = data.sequence_offsets[i], data.sequence_offsets[i + 1]
            offsets = data.offsets[first : last + 1]
            x = data.x[offsets[0] : offsets[-1]]
            seen = np.isfinite(x)
            count = np.maximum(seen.sum(axis=0), 1)
            center = np.where(seen.any(axis=0), np.where(seen, x, 0.0).sum(axis=0) / count, context.center)
            variance = np.where(seen, x - center, 0.0)
            variance = (variance**2).sum(axis=0) / count
            scale = np.maximum(variance, 1e-3 * context.scale)
            found.append(start(x, offsets - offsets[0], int(self.state_dim), center, scale, seed, attempt))
        joined = {key: np.stack([one[key] for one in found]) for key in found[0]}
        return LDSs._make(**joined, state_dims=np.full(data.size, int(self.state_dim)))

    def _fixed(self, d: int) -> dict[str, Floats]:
        """Return the fixed parameters as arrays; the offset of the state is zero unless it is to be learned."""
        n = int(self.state_dim)
        shapes = shapes_of(n, d)
        found: dict[str, Floats] = {"state_offset": np.zeros(n)}
        for name, value in (self.fixed or {}).items():
            if value is None:
                found.pop(name, None)
                continue
            array = np.asarray(value, dtype=float)
            if array.shape != shapes[name]:
                raise ValueError(f"fixed[{name!r}] must have shape {shapes[name]}; got shape {array.shape}.")
            if name.endswith("covariance") and np.isnan(array).any():
                raise ValueError(
                    f"fixed[{name!r}] must be a whole matrix without NaN; covariances have no free entries."
                )
            found[name] = array
        check_fixed(found)
        return found
