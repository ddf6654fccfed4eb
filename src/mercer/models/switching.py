"""Batches of switching linear dynamical systems: parameters, sampling, scores and couplings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from mercer._array import Array, Floats, Indices, to_numpy
from mercer._batch import Batch
from mercer._coupling import Coupling, Operand, PowerProduct, Smoothed
from mercer._probability import checked_probability, drawn
from mercer._random import random_generator, whole_size
from mercer._wording import counted
from mercer.data import Sequences
from mercer.models._dynamics.checks import possible, within_range
from mercer.models._dynamics.runs import drawn_series
from mercer.models._forward.interface import Runs
from mercer.models._switching.hypotheses import best, chains_of, explore, log_likelihoods
from mercer.models._switching.smoothing import forecasts, regime_cliques, regime_posteriors
from mercer.models.discount import check_lengths
from mercer.models.hidden import Clique
from mercer.models.inference import own_runs, read
from mercer.models.lds import LDSs
from mercer.models.posterior import Posterior, long_run
from mercer.models.summaries import chain_table, headed, n_free, structure_of
from mercer.models.verbs import HasCriteria

if TYPE_CHECKING:
    from mercer.models.switching_estimator import SwitchingLDS


@dataclass(frozen=True)
class OverPaths:
    """A coupling of the series of two regime paths, and how the paths of every model are summed over (PPK-5.1, GMMK-9).

    Mean maps are linear in the distributions, so that kernels of pairs of paths are always averaged.
    """

    coupling: PowerProduct | Smoothed
    """Of the Gaussian distributions of two series, each given its path."""
    power: float
    """Of the probabilities of paths; 1 if kernels are averaged over paths."""
    n_paths: int
    """Number of draws from each model that has more paths."""
    seed: int


class SwitchingLDSs(HasCriteria, Batch):
    r"""A batch of switching linear dynamical systems: a Markov chain of regimes, each with a system of its own.

    Parameters
    ----------
    initial : array of shape (N, K)
        Probabilities of the first regime.
    transition : array of shape (N, K, K)
        ``transition[..., j, k]`` is the probability of going from regime j to regime k.
    systems : LDSs of shape (N, K)
        The system of each regime. Emission and noise of the observations may be the same in all of them.

    Notes
    -----
    .. math:: s_1 \sim \mathcal N(\mu_{q_1}, S_{q_1}), \quad
              s_t = A_{q_t} s_{t-1} + b_{q_t} + \mathcal N(0, Q_{q_t}), \quad
              x_t = C_{q_t} s_t + c_{q_t} + \mathcal N(0, R_{q_t})

    with regimes :math:`q_t` of a Markov chain (PPK-5.1). Given a path of regimes, a series is Gaussian. There are
    :math:`K^T` paths, so probabilities of long series are estimated; see `log_prob`.

    Examples
    --------
    A point that moves up or down, with a state of its height:

    >>> import numpy as np, mercer as mc
    >>> up_down = mc.LDSs(
    ...     transition=np.ones((1, 2, 1, 1)),
    ...     emission=np.ones((1, 2, 1, 1)),
    ...     process_covariance=np.full((1, 2, 1, 1), 0.01),
    ...     observation_covariance=np.full((1, 2, 1, 1), 0.01),
    ...     initial_mean=np.zeros((1, 2, 1)),
    ...     initial_covariance=np.full((1, 2, 1, 1), 0.01),
    ...     state_offset=[[[1.0], [-1.0]]],
    ... )
    >>> model = mc.models.SwitchingLDSs([[0.5, 0.5]], [[[0.9, 0.1], [0.1, 0.9]]], up_down)
    >>> series = [[0.0, 1.0, 2.0, 3.0, 2.0, 1.0]]
    >>> model.log_prob(series).round(2)
    array([[2.26]])
    >>> model.regime_probabilities(series)[0][:, 1].round(2)
    array([0.1, 0. , 0. , 0. , 1. , 1. ])
    """

    _arrays: ClassVar[dict[str, int]] = {"initial": 1, "transition": 2}
    _parts: ClassVar[dict[str, int]] = {"systems": 1}

    initial: Array
    transition: Array
    systems: Any

    def __init__(self, initial: Any, transition: Any, systems: Any) -> None:
        initial = to_numpy(checked_probability(initial, "initial")).astype(np.float64)
        transition = to_numpy(checked_probability(transition, "transition")).astype(np.float64)
        batch, k = initial.shape[:-1], initial.shape[-1]
        if transition.shape != (*batch, k, k):
            raise ValueError(
                f"transition must have shape {(*batch, k, k)} for initial of shape {initial.shape}; got "
                f"{transition.shape}."
            )
        if not isinstance(systems, LDSs):
            raise TypeError(f"systems must be LDSs, one per regime; got a {type(systems).__name__}.")
        if systems.shape != (*batch, k):
            raise ValueError(f"systems must have one system per regime, shape {(*batch, k)}; got {systems.shape}.")
        if np.any(systems.state_dims != systems.state_dims[..., :1]):
            raise ValueError("The systems of one model must have the same number of state coordinates, in state_dims.")
        self._freeze(initial=initial, transition=transition, systems=systems)

    def _check_alike(self, other: Batch) -> None:
        """Raise if the systems emit vectors of different dimensions; numbers of regimes and of states may differ."""
        if type(self) is not type(other):
            super()._check_alike(other)
        self.systems._check_alike(other.systems)  # type: ignore[attr-defined]

    @classmethod
    def _of_one_size(cls, batches: Sequence[Self]) -> Sequence[Self]:
        found = sorted({int(batch.initial.shape[-1]) for batch in batches})
        if len(found) > 1:
            raise ValueError(
                f"A batch of SwitchingLDSs has one number of regimes; got {' and '.join(map(str, found))}. For the "
                "matrix of all pairs, pass a list of batches to the kernel, as in kernel([p, q])."
            )
        return batches

    @property
    def dimension(self) -> int:
        """Number of coordinates of an observation."""
        return int(self.systems.dimension)

    @property
    def state_dim(self) -> int:
        """Number of coordinates of the state, with the padding of smaller models."""
        return int(self.systems.state_dim)

    def read(self, X: Any) -> Sequences:
        """Return ``X`` as `Sequences` of vectors."""
        return read(self, X)

    def sample(self, length: int, size: int = 1, random_state: Any = None, return_regimes: bool = False) -> Any:
        """Sample ``size`` series of ``length`` observations from each model, ``(N, size, length, d)``.

        Parameters
        ----------
        length, size : int
            Number of observations, and of series.
        random_state : int, Generator, RandomState or None, default=None
            Seed.
        return_regimes : bool, default=False
            Whether to return the regimes as well, ``(N, size, length)``.

        Examples
        --------
        >>> import mercer as mc
        >>> walk = mc.LDSs(
        ...     [[[1.0]], [[1.0]]], [[[1.0]], [[1.0]]], [[[0.1]], [[9.0]]],
        ...     [[[0.1]], [[0.1]]], [[0.0], [0.0]], [[[1.0]], [[1.0]]],
        ... )
        >>> model = mc.models.SwitchingLDSs(
        ...     [[0.5, 0.5]], [[[0.9, 0.1], [0.1, 0.9]]], walk.reshape(1, 2)
        ... )
        >>> series, regimes = model.sample(
        ...     length=8, size=2, random_state=0, return_regimes=True
        ... )
        >>> series.shape, regimes.shape
        ((1, 2, 8, 1), (1, 2, 8))
        """
        self._require_axis()
        length = whole_size(length, "observations", name="length", least=1)
        size = whole_size(size, "series")
        rng, models = random_generator(random_state), np.arange(len(self))[:, None]
        first, step = np.cumsum(self.initial, axis=-1), np.cumsum(self.transition, axis=-1)
        regimes = np.empty((len(self), size, length), dtype=np.int64)
        for t in range(length):
            upper = step[models, regimes[..., t - 1]] if t else first[np.tile(models, size)]
            regimes[..., t] = drawn(upper, rng.random((len(self), size)))
        with np.errstate(over="ignore", invalid="ignore"):  # checked at the end
            series = within_range(drawn_series(chains_of(self).systems, regimes, rng), 2, "length", "samples")
        return (series, regimes) if return_regimes else series

    @property
    def n_parameters(self) -> Floats:
        """Number of free parameters of each model, ``(N,)``.

        Those of the chain and of all systems, less those of a change of the state, which is common to all regimes. What
        is the same in all regimes, such as the emission and the noise of the observations that `SwitchingLDS` learns,
        counts once.
        """
        systems, d = self.systems, self.dimension
        k, n = self.initial.shape[-1], systems.state_dims[..., 0]

        def times(part: Array) -> Floats:
            """Count a part once where all regimes share it, else k times."""
            value = to_numpy(part).reshape(*self.shape, k, -1)
            return np.where(np.all(value == value[..., :1, :], axis=(-2, -1)), 1, k)

        emissions, noise = times(systems.emission), systems.observation_covariance
        own = k * (2 * n * n + 3 * n) + times(systems.observation_offset) * d + times(noise) * n_free(noise)[..., 0]
        hidden = np.maximum(n - d * emissions, 0)  # coordinates of the state that no regime observes
        return np.asarray(k * k - 1 + own + emissions * n * d - n * n - n - hidden * (hidden + 1) // 2)

    def log_prob(self, X: Any, n_particles: int = 512, random_state: Any = 0) -> Floats:
        """Log probability of each series under each model, ``(N, M)``.

        Exact if a series has at most 1,024 paths of regimes. Otherwise estimated by a Rao-Blackwellized particle
        filter: a particle is a path of regimes with its Kalman filter. The estimate of the probability, not of its
        logarithm, is unbiased.

        Parameters
        ----------
        X : Sequences, or anything that converts to them
            M series. NaN is marginalized, in single coordinates too.
        n_particles : int, default=512
            Number of particles.
        random_state : int, Generator, RandomState or None, default=0
            Seed of the particles.
        """
        self._require_axis()
        n_particles = whole_size(n_particles, "particles", name="n_particles", least=1)
        X = self.read(X)
        runs, values = Runs.crossed(X.offsets, len(self)), np.asarray(X.values, dtype=np.float64)
        chains = chains_of(self)
        found = log_likelihoods(chains, values, runs, n_particles, random_state)
        return possible(found.reshape(len(self), len(X)), X, chains.systems)

    def filter(self, X: Any, n_paths: int = 64, random_state: Any = 0) -> Posterior:
        """Probabilities of the regimes given the observations up to each time; see `regime_probabilities`.

        Parameters
        ----------
        X : Sequences, or anything that converts to them
            Series, assigned to models as in `regime_probabilities`.
        n_paths : int, default=64
            Number of particles, which are paths of regimes.
        random_state : int, Generator, RandomState or None, default=0
            Seed of the particles.
        """
        return self._regimes(X, n_paths, random_state, whole=False)

    def regime_probabilities(self, X: Any, n_paths: int = 64, random_state: Any = 0) -> Posterior:
        """Posterior probabilities of the regimes at each observation given the whole series.

        Exact if a series has at most 1,024 paths of regimes. Otherwise by a particle filter: given the next regime, a
        regime has the probability that it has ten steps later.

        Parameters
        ----------
        X : Sequences, or anything that converts to them
            For a batch of shape ``(1,)``, any number of series under the one model. Otherwise N series, series i under
            model i.
        n_paths : int, default=64
            Number of particles, which are paths of regimes.
        random_state : int, Generator, RandomState or None, default=0
            Seed of the particles.

        Returns
        -------
        Posterior
            ``posterior[i]`` are the probabilities of series i, ``(T, K)``; ``posterior.states`` those of all series.
        """
        return self._regimes(X, n_paths, random_state, whole=True)

    def _regimes(self, X: Any, n_paths: Any, random_state: Any, whole: bool) -> Posterior:
        """Return the probabilities of regimes given the ``whole`` series, or the series up to each time."""
        self._require_axis()
        n_paths = whole_size(n_paths, "paths", name="n_paths", least=1)
        X, values, runs = self._own(X)
        chains = chains_of(self)
        found = regime_posteriors(chains, values, runs, int(n_paths), random_state, whole)
        return Posterior._make(X, found.regimes, None, possible(found.log_prob, X, chains.systems))

    def latent_cliques(self, X: Any) -> list[Clique]:
        """Return the mean posteriors of observations with their regimes, and of steps between regimes.

        For latent kernels. The states of the systems are summed out. Posteriors are those of `regime_probabilities`.

        Parameters
        ----------
        X : Sequences, or anything that converts to them
            The samples, for a batch of shape ``(1,)``.
        """
        self._require_one()
        return regime_cliques(chains_of(self), self.read(X), 64)

    def require_discrete(self, kernel: str) -> None:
        """Raise: these are models of vectors."""
        raise TypeError(f"{kernel} needs models of symbols, which can be counted. Use mc.LatentMeanMap.")

    def viterbi(self, X: Any, n_paths: int = 64) -> tuple[list[Indices], Floats]:
        """Most probable path of regimes of each series that a beam search finds, and its log probability.

        Parameters
        ----------
        X : Sequences, or anything that converts to them
            Series, assigned to models as in `regime_probabilities`.
        n_paths : int, default=64
            Number of paths that the search follows; exact if there are no more.

        Returns
        -------
        paths, log_prob
            A list of int arrays, and the log probabilities of the series together with these paths.
        """
        self._require_axis()
        n_paths = whole_size(n_paths, "paths", name="n_paths", least=1)
        X, values, runs = self._own(X)
        chains = chains_of(self)
        found = explore(chains, values, runs, max(int(n_paths), chains.regimes), best(chains.regimes), paths=True)
        assert found.regimes is not None
        at = found.log_weight.argmax(axis=1)
        paths = [found.regimes[at[i], a:b].astype(int) for i, (a, b) in enumerate(pairwise(X.offsets))]
        return paths, possible(found.log_weight.max(axis=1), X, chains.systems)

    def _own(self, X: Any) -> tuple[Sequences, Floats, Runs]:
        """Read series that go with the one model, or series i with model i."""
        X = self.read(X)
        return X, np.asarray(X.values, dtype=np.float64), own_runs(self, X)

    def forecast(self, X: Any, steps: int = 1, n_particles: int = 64, random_state: Any = 0) -> tuple[Floats, Floats]:
        """Predict the observations after the end of each series; series are assigned as in `regime_probabilities`.

        Means and covariances are those of the mixture over the regimes; a series of regimes unlike each other has
        predictions that are not Gaussian.

        Parameters
        ----------
        X : Sequences, or anything that converts to them
            The series so far.
        steps : int, default=1
            Number of observations to predict.
        n_particles : int, default=64
            Number of paths of regimes that the filter of the series so far follows.
        random_state : int, Generator, RandomState or None, default=0
            Seed of the filter.

        Returns
        -------
        means, covariances
            Of the predicted observations, ``(M, steps, d)`` and ``(M, steps, d, d)``.
        """
        self._require_axis()
        steps = whole_size(steps, "observations", name="steps", least=1)
        n_particles = whole_size(n_particles, "particles", name="n_particles", least=1)
        X, values, runs = self._own(X)
        chains = chains_of(self)
        with np.errstate(over="ignore", invalid="ignore"):  # checked at the end
            found = forecasts(chains, values, runs, steps, int(n_particles), random_state)
        means, covariances, log_prob = found
        possible(log_prob, X, chains.systems)
        within_range(covariances, 1, "steps", "covariances of the forecast")
        return within_range(means, 1, "steps", "forecasts"), covariances

    def summary(self) -> str:
        """Return one model as text: where each regime starts, goes and stays, and the largest modulus of its dynamics.

        Examples
        --------
        >>> import mercer as mc
        >>> walk = mc.LDSs(
        ...     [[[1.0]], [[0.5]]], [[[1.0]], [[1.0]]], [[[0.1]], [[9.0]]],
        ...     [[[0.1]], [[0.1]]], [[0.0], [0.0]], [[[1.0]], [[1.0]]],
        ... )
        >>> model = mc.models.SwitchingLDSs(
        ...     [[0.5, 0.5]], [[[0.9, 0.1], [0.1, 0.9]]], walk.reshape(1, 2)
        ... )
        >>> print(model.summary())
        SwitchingLDS of 2 regimes, 1 state coordinate, diagonal covariance of the noise, 14 free parameters
        regime  initial  to 0  to 1  steps  share  modulus
             0     0.50  0.90  0.10   10.0   0.50  1.000
             1     0.50  0.10  0.90   10.0   0.50  0.500
        """
        self._require_one()
        initial, transition, systems = self.initial[0], self.transition[0], self.systems[0]
        n, k = int(systems.state_dims[0]), len(initial)
        noise = structure_of(to_numpy(systems.observation_covariance)[0])
        moduli = [f"{np.abs(np.linalg.eigvals(one)).max():.3f}" for one in to_numpy(systems.transition)[:, :n, :n]]
        shares = long_run(self.initial, self.transition)[0]
        head = f"SwitchingLDS of {k} regimes, {counted(n, 'state coordinate')}, {noise} covariance of the noise"
        rows = chain_table(initial, transition, shares, moduli, ("regime", "modulus"))
        return headed(head, self.n_parameters, rows)

    def estimator(self) -> SwitchingLDS:
        """Return an estimator that accepts the series of these models."""
        from mercer.models.switching_estimator import SwitchingLDS

        return SwitchingLDS(n_regimes=int(self.initial.shape[-1]), state_dim=self.state_dim)

    def couple(self, coupling: Coupling, lengths: Any = None) -> Operand:
        """Prepare for a coupling over series of each of the ``lengths``."""
        from mercer.models._switching.operand import switching_operand

        if not isinstance(coupling, OverPaths):
            raise TypeError(
                "Kernels of SwitchingLDSs sum over regime paths. Use mc.kernels.SwitchingProduct or mc.MeanMap, or "
                "mc.Sampled for powers of their marginal density."
            )
        self._require_axis()
        check_lengths(lengths)
        return switching_operand(self, coupling, lengths)
