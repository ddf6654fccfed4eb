"""Batches of linear dynamical systems: probabilities, states, forecasts, sampling, scores and couplings."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from mercer._array import Array, Floats, as_float, to_numpy
from mercer._batch import Batch
from mercer._coupling import Coupling, Operand
from mercer._random import random_generator, whole_size
from mercer._wording import counted
from mercer.data import Sequences
from mercer.families.gaussian import Gaussians
from mercer.models._chains.characteristic import system_characteristic
from mercer.models._dynamics import runs
from mercer.models._dynamics.checks import checked_systems, possible, within_range
from mercer.models._dynamics.interop import Exchanged
from mercer.models._dynamics.scores import score_names, sequence_scores
from mercer.models._forward.interface import Runs
from mercer.models.discount import check_lengths
from mercer.models.hidden_states import HiddenStates
from mercer.models.inference import own_runs, read
from mercer.models.summaries import headed, mode_table, n_free, structure_of
from mercer.models.verbs import HasCriteria

if TYPE_CHECKING:
    from mercer.models.lds_estimator import LDS


class LDSs(Exchanged, HasCriteria, Batch):
    r"""A batch of linear dynamical systems, which emit series of vectors.

    Parameters
    ----------
    transition : array of shape (N, n, n)
        A: the next state is ``A s + state_offset`` plus noise.
    emission : array of shape (N, d, n)
        C: an observation is ``C s + observation_offset`` plus noise.
    process_covariance : array of shape (N, n, n)
        Covariance of the noise of the state, may be singular.
    observation_covariance : array of shape (N, d, d)
        Covariance of the noise of the observations.
    initial_mean : array of shape (N, n)
        Mean of the first state.
    initial_covariance : array of shape (N, n, n)
        Covariance of the first state, may be singular.
    state_offset : array of shape (N, n), default=None
        None means zero.
    observation_offset : array of shape (N, d), default=None
        None means zero.
    state_dims : array of int of shape (N,), default=None
        Number of state coordinates of each system, if systems of different sizes were padded to a common size; see
        `concat`.

    Notes
    -----
    .. math:: s_1 \sim \mathcal N(\mu_0, S_0), \quad s_t = A s_{t-1} + b + \mathcal N(0, Q), \quad
              x_t = C s_t + c + \mathcal N(0, R)

    Kernels compare the joint distributions of series of a given ``length`` (PPK-4.5, GMMK-7). Their observations are
    dependent: the covariance of the joint distribution is not block diagonal.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> models = mc.LDSs(
    ...     transition=[[[0.9]], [[0.5]]],
    ...     emission=[[[1.0]], [[1.0]]],
    ...     process_covariance=[[[0.1]], [[0.1]]],
    ...     observation_covariance=[[[0.5]], [[0.5]]],
    ...     initial_mean=[[0.0], [0.0]],
    ...     initial_covariance=[[[1.0]], [[1.0]]],
    ... )
    >>> models.log_prob([[0.3, 0.1, -0.2], [1.0]]).round(3)
    array([[-2.865, -1.455],
           [-2.62 , -1.455]])
    >>> mc.ProbabilityProduct(rho=0.5, length=20)(models).round(3)
    array([[1.   , 0.703],
           [0.703, 1.   ]])
    """

    _arrays: ClassVar[dict[str, int]] = {
        "transition": 2, "emission": 2, "process_covariance": 2, "observation_covariance": 2, "initial_mean": 1,
        "initial_covariance": 2, "state_offset": 1, "observation_offset": 1, "state_dims": 0,
    }  # fmt: skip
    emits_sequences: ClassVar[bool] = True

    transition: Array
    emission: Array
    process_covariance: Array
    observation_covariance: Array
    initial_mean: Array
    initial_covariance: Array
    state_offset: Array
    observation_offset: Array
    state_dims: Any

    def __init__(
        self,
        transition: Any,
        emission: Any,
        process_covariance: Any,
        observation_covariance: Any,
        initial_mean: Any,
        initial_covariance: Any,
        state_offset: Any = None,
        observation_offset: Any = None,
        state_dims: Any = None,
    ) -> None:
        self._freeze(
            **checked_systems(
                transition=transition,
                emission=emission,
                process_covariance=process_covariance,
                observation_covariance=observation_covariance,
                initial_mean=initial_mean,
                initial_covariance=initial_covariance,
                state_offset=state_offset,
                observation_offset=observation_offset,
                state_dims=state_dims,
            )
        )

    @property
    def dimension(self) -> int:
        """Number of coordinates of an observation."""
        return int(self.emission.shape[-2])

    @property
    def state_dim(self) -> int:
        """Number of coordinates of the state, with the padding of smaller systems."""
        return int(self.emission.shape[-1])

    def _check_alike(self, other: Batch) -> None:
        """Raise if the systems emit vectors of different dimensions; state dimensions may differ."""
        if type(self) is not type(other):
            super()._check_alike(other)
        if self.dimension != other.dimension:  # type: ignore[attr-defined]
            raise ValueError(
                f"Two batches of LDSs must have the same number of observed coordinates; got {self.dimension} and "
                f"{other.dimension}."  # type: ignore[attr-defined]
            )

    @classmethod
    def _of_one_size(cls, batches: Sequence[Self]) -> Sequence[Self]:
        """Pad smaller systems with states that are not observed and change no result."""
        largest = max(batch.state_dim for batch in batches)
        return [batch._padded(largest) for batch in batches]

    def _padded(self, n: int) -> Self:
        """Add states of unit variance that influence nothing."""
        extra = n - self.state_dim
        if extra == 0:
            return self
        square = ((0, 0),) * self.ndim + ((0, extra), (0, extra))
        own = np.zeros((n, n))
        own[n - extra :, n - extra :] = np.eye(extra)
        wide = {"transition": square, "process_covariance": square, "initial_covariance": square}
        wide |= {"emission": ((0, 0),) * (self.ndim + 1) + ((0, extra),)}
        wide |= dict.fromkeys(("initial_mean", "state_offset"), ((0, 0),) * self.ndim + ((0, extra),))
        fields = {name: to_numpy(getattr(self, name)) for name in self._arrays}
        fields |= {name: np.pad(fields[name], width) for name, width in wide.items()}
        for name in ("process_covariance", "initial_covariance"):
            fields[name] = fields[name] + own
        return self._make(**fields)

    def _trimmed(self, n: int) -> Self:
        """Drop the state coordinates after the first ``n``, which must be padding."""
        if n == self.state_dim:
            return self
        fields = {name: to_numpy(getattr(self, name)) for name in self._arrays}
        for name in ("transition", "process_covariance", "initial_covariance"):
            fields[name] = fields[name][..., :n, :n]
        for name in ("emission", "initial_mean", "state_offset"):
            fields[name] = fields[name][..., :n]
        return self._make(**fields)

    # -- probabilities and states ------------------------------------------------------------------------

    def read(self, X: Any) -> Sequences:
        """Return ``X`` as `Sequences` of vectors."""
        return read(self, X)

    def log_prob(self, X: Any) -> Floats:
        """Log probability of each series under each system, ``(N, M)``.

        Parameters
        ----------
        X : Sequences, or anything that converts to them
            M series. NaN is marginalized, in single coordinates too.
        """
        self._require_axis()
        X = self.read(X)
        values, pairs = np.asarray(X.values, dtype=np.float64), Runs.crossed(X.offsets, len(self))
        systems = runs.systems_of(self)
        found = runs.log_likelihoods(systems, values, pairs)
        return possible(found.reshape(len(self), len(X)), X, systems)

    def _own(self, X: Any, infer: Any) -> tuple[Sequences, runs.States]:
        """Infer the states of series that go with the one system, or of series i with system i."""
        self._require_axis()
        X, systems = self.read(X), runs.systems_of(self)
        found = infer(systems, np.asarray(X.values, dtype=np.float64), own_runs(self, X))
        possible(found.log_prob, X, systems)
        return X, found

    def filter(self, X: Any) -> HiddenStates:
        """Posteriors of the states given the observations so far (ALG-KF); of one more observation: `update`.

        Parameters
        ----------
        X : Sequences, or anything that converts to them
            For a batch of shape ``(1,)``, any number of series under the one system. Otherwise N series, series i under
            system i.
        """
        X, found = self._own(X, runs.filtered)
        return HiddenStates(X, found.means, found.covariances, found.log_prob)

    def update(self, observation: Any, belief: Any = None) -> tuple[Floats, Floats]:
        """Distribution of the state after one more observation, at a constant cost: for streams.

        Parameters
        ----------
        observation : number, array of shape (d,) or None
            The next observation; NaN marks missing coordinates, None an observation that is missing.
        belief : tuple of arrays (mean, covariance), default=None
            The result of the last call; None before the first observation.

        Returns
        -------
        mean : ndarray of shape (n,)
        covariance : ndarray of shape (n, n)

        Examples
        --------
        >>> import mercer as mc
        >>> walk = mc.LDSs([[[1.0]]], [[[1.0]]], [[[0.1]]], [[[1.0]]], [[0.0]], [[[1.0]]])
        >>> belief = None
        >>> for x in (0.0, None, 3.0):
        ...     belief = walk.update(x, belief)
        >>> mean, covariance = belief
        >>> mean.round(2), covariance.round(2)
        (array([1.24]), array([[0.41]]))
        """
        self._require_one()
        n, d = self.state_dim, self.dimension
        series = [
            np.full((1, d), np.nan) if observation is None else np.atleast_2d(as_float(observation, "observation"))
        ]
        start = self
        if belief is not None:
            if not isinstance(belief, tuple) or len(belief) != 2:
                raise TypeError(f"belief must be a mean and a covariance, as update returns them; got {belief!r}.")
            mean, covariance = (to_numpy(as_float(part, "belief"))[None] for part in belief)
            if mean.shape != (1, n) or covariance.shape != (1, n, n):
                raise ValueError(
                    f"belief must be a mean of shape ({n},) and a covariance of shape ({n}, {n}); got shapes "
                    f"{mean.shape[1:]} and {covariance.shape[1:]}."
                )
            start = self._replaced(initial_mean=mean, initial_covariance=covariance)
            series.insert(0, np.full((1, d), np.nan))  # of the last state, nothing more is seen
        found = start.filter([np.concatenate(series)])
        return found.means[-1], found.covariances[-1]

    def posterior(self, X: Any) -> HiddenStates:
        """Posteriors of the states given the whole series (ALG-RTS); series are assigned as in `filter`.

        Examples
        --------
        >>> import numpy as np, mercer as mc
        >>> walk = mc.LDSs([[[1.0]]], [[[1.0]]], [[[0.1]]], [[[1.0]]], [[0.0]], [[[1.0]]])
        >>> states = walk.posterior([[0.0, np.nan, 3.0]])
        >>> states.means.round(2).tolist()
        [[0.88], [1.06], [1.24]]
        """
        X, found = self._own(X, runs.smoothed)
        return HiddenStates(X, found.means, found.covariances, found.log_prob, found.lags)

    def state_posteriors(self, X: Any) -> Gaussians:
        """Posteriors of `posterior` at every observation of all series, as one batch ``(T,)``."""
        found = self.posterior(X)
        return Gaussians(found.means, found.covariances)

    def forecast(self, X: Any, steps: int = 1) -> tuple[Floats, Floats]:
        """Predict the observations after the end of each series; series are assigned as in `filter`.

        Parameters
        ----------
        X : Sequences, or anything that converts to them
            The series so far.
        steps : int, default=1
            Number of observations to predict.

        Returns
        -------
        means, covariances
            Of the predicted observations, ``(M, steps, d)`` and ``(M, steps, d, d)``.

        Examples
        --------
        >>> import mercer as mc
        >>> decay = mc.LDSs([[[0.5]]], [[[1.0]]], [[[0.1]]], [[[0.01]]], [[0.0]], [[[1.0]]])
        >>> means, covariances = decay.forecast([[8.0, 4.0]], steps=2)
        >>> means.round(2).tolist(), covariances.round(2).tolist()
        ([[[2.0], [1.0]]], [[[[0.11]], [[0.14]]]])
        """
        steps = whole_size(steps, "observations", name="steps", least=1)
        X, found = self._own(X, runs.filtered)
        own = runs.Systems(*(part[own_runs(self, X).model] for part in runs.systems_of(self)))
        mean, covariance = np.array(own.initial_mean), np.array(own.initial_covariance)
        some = np.flatnonzero(X.lengths)  # an empty series is predicted from its start
        last = X.offsets[1:][some] - 1
        mean[some], covariance[some] = found.means[last], found.covariances[last]
        ahead = _observations(own._replace(initial_mean=mean, initial_covariance=covariance), steps + 1)
        which = np.arange(len(X))[:, None], (X.lengths > 0)[:, None] + np.arange(steps)
        means, covariances = (part[which] for part in ahead)
        within_range(covariances, 1, "steps", "covariances of the forecast")
        return within_range(means, 1, "steps", "forecasts"), covariances

    def impute(self, X: Any) -> Sequences:
        """Replace missing coordinates (NaN) by their expectations given the whole series; assigned as in `filter`.

        Examples
        --------
        >>> import numpy as np, mercer as mc
        >>> walk = mc.LDSs([[[1.0]]], [[[1.0]]], [[[0.1]]], [[[0.01]]], [[0.0]], [[[1.0]]])
        >>> walk.impute([[0.0, np.nan, 1.0]])[0].round(2).tolist()
        [[0.0], [0.5], [1.0]]
        """
        X, found = self._own(X, runs.smoothed)
        values, systems = np.asarray(X.values, dtype=np.float64), runs.systems_of(self)
        owner, filled = np.repeat(own_runs(self, X).model, X.lengths), values.copy()
        for t in np.flatnonzero(np.isnan(values).any(axis=1)):
            missing = np.isnan(values[t])
            seen, m = ~missing, owner[t]
            center = systems.emission[m] @ found.means[t] + systems.observation_offset[m]
            noise = systems.observation_covariance[m]
            away = np.linalg.solve(noise[np.ix_(seen, seen)], values[t, seen] - center[seen])
            filled[t, missing] = center[missing] + noise[np.ix_(missing, seen)] @ away
        return Sequences([filled[a:b] for a, b in pairwise(X.offsets)], ids=X.ids, channels=X.channels)

    def sample(self, length: int, size: int = 1, random_state: Any = None) -> Floats:
        """Sample ``size`` series of ``length`` observations from each system, ``(N, size, length, d)``.

        Examples
        --------
        >>> import mercer as mc
        >>> walk = mc.LDSs([[[1.0]]], [[[1.0]]], [[[0.1]]], [[[0.01]]], [[0.0]], [[[1.0]]])
        >>> walk.sample(length=5, size=2, random_state=0).shape
        (1, 2, 5, 1)
        """
        self._require_axis()
        length = whole_size(length, "observations", name="length", least=1)
        size = whole_size(size, "series")
        rng, own = random_generator(random_state), runs.systems_of(self)
        regimes = np.zeros((len(self), size, length), dtype=np.int64)
        with np.errstate(over="ignore", invalid="ignore"):  # checked at the end
            return within_range(runs.drawn_series(own, regimes, rng), 2, "length", "samples")

    def marginals(self, length: int) -> Gaussians:
        """Distributions of the observations at steps 1 to ``length``, each by itself, ``(N, length)``.

        Examples
        --------
        >>> import mercer as mc
        >>> walk = mc.LDSs([[[1.0]]], [[[1.0]]], [[[0.1]]], [[[0.5]]], [[0.0]], [[[1.0]]])
        >>> walk.marginals(3).covariance[0, :, 0, 0].round(2).tolist()
        [1.5, 1.6, 1.7]
        """
        self._require_axis()
        length = whole_size(length, "observations", name="length", least=1)
        means, covariances = _observations(runs.systems_of(self), length)
        if not np.isfinite(means).all() or not np.isfinite(covariances).all():
            raise ValueError(
                f"The distribution of an observation within {length} steps overflows because a transition is unstable. "
                "Use a smaller length, or a transition with eigenvalues of at most 1."
            )
        return Gaussians(means, covariances)

    @property
    def n_parameters(self) -> Floats:
        """Number of free parameters of each system, ``(N,)``.

        All entries count, less those that no series can tell: an affine change of the state (n^2 + n), and, with fewer
        observed channels than states, a part of the process noise and of the first state that stays in the null space
        of the emission. The covariance of the observation noise counts as what it is: full, diagonal or isotropic.
        """
        n, d = self.state_dims, self.dimension
        hidden = np.maximum(n - d, 0)
        return np.asarray(n * d + n * (n + 2) + d + n_free(self.observation_covariance) - hidden * (hidden + 1) // 2)

    def summary(self) -> str:
        """Return one system as text: its sizes, its noise, and its modes, the eigenvalues of the transition.

        A mode fades by a factor e in ``steps``, and turns once in ``period`` steps.

        Examples
        --------
        >>> import mercer as mc
        >>> decay = mc.LDSs([[[0.5]]], [[[1.0]]], [[[0.1]]], [[[0.01]]], [[0.0]], [[[1.0]]])
        >>> print(decay.summary())
        LDS of 1 state coordinate and 1 channel, diagonal covariance of the noise, 6 free parameters
        mode  modulus  steps  period
           0    0.500    1.4  -
        """
        self._require_one()
        one = self._trimmed(int(self.state_dims[0]))
        n, d = one.state_dim, one.dimension
        noise = structure_of(to_numpy(one.observation_covariance)[0])
        head = f"LDS of {counted(n, 'state coordinate')} and {counted(d, 'channel')}, {noise} covariance of the noise"
        return headed(head, one.n_parameters, mode_table(to_numpy(one.transition)[0]))

    def estimator(self) -> LDS:
        """Return an estimator that accepts the series of these systems."""
        from mercer.models.lds_estimator import LDS

        return LDS(state_dim=self.state_dim)

    # -- scores and couplings ----------------------------------------------------------------------------

    def score_names(self) -> list[str]:
        """Return the names of the columns of the Fisher scores."""
        return score_names(self.state_dim, self.dimension)

    def sequence_scores(self, X: Any, parametrization: str = "logit") -> Floats:
        """Fisher scores of each series under each system, ``(N, M, P)``, summed over time (FK-10)."""
        self._require_axis()
        return sequence_scores(self, self.read(X))

    def couple(self, coupling: Coupling, lengths: Any = None) -> Operand:
        """Prepare for a coupling over series of each of the ``lengths``."""
        from mercer.models._dynamics.operand import system_operand

        self._require_axis()
        check_lengths(lengths)
        return system_operand(self, coupling, lengths)

    def log_characteristic(self, frequencies: Floats) -> tuple[Array, Array]:
        """Log modulus and angle of E exp(i sum_t <w_t, x_t>) at each of ``frequencies (F, T, d)``, each ``(N, F)``."""
        return system_characteristic(self, frequencies)

    def couple_subspaces(self, length: Any = None) -> Any:
        """Prepare for angles between observability subspaces of ``length`` steps (CMP-3)."""
        from mercer.models._dynamics.comparators import SubspaceOperand

        self._require_axis()
        return SubspaceOperand.of(self, length)

    def couple_moments(self, length: Any, shared_noise: bool) -> Any:
        """Prepare for expected inner products of series (CMP-4)."""
        from mercer.models._dynamics.comparators import MomentOperand

        self._require_axis()
        return MomentOperand.of(self, length, shared_noise)


def _observations(systems: runs.Systems, steps: int) -> tuple[Floats, Floats]:
    """Return means ``(N, steps, d)`` and covariances of the first observations of systems, if nothing is seen."""
    size, d = systems.observation_offset.shape
    nothing = np.full((size * steps, d), np.nan)
    states = runs.filtered(systems, nothing, Runs.own(steps * np.arange(size + 1)))
    c, shape = systems.emission[:, None], (size, steps)
    with np.errstate(over="ignore", invalid="ignore"):  # the caller checks
        means = (c @ states.means.reshape(*shape, -1, 1))[..., 0] + systems.observation_offset[:, None]
        spread = c @ states.covariances.reshape(*shape, *systems.transition.shape[1:]) @ c.swapaxes(-1, -2)
        return means, spread + systems.observation_covariance[:, None]
