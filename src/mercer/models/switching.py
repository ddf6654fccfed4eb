"""Batches of switching linear dynamical systems: parameters, sampling, scores and couplings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from mercer._array import Array, Floats, Indices, to_numpy
from mercer._batch import Batch
from mercer._coupling import Coupling, Operand, PowerProduct, Smoothed
from mercer._probability import checked_probability, drawn
from mercer._random import random_generator, whole_size
from mercer.data import Sequences
from mercer.models._dynamics.checks import within_range
from mercer.models._dynamics.runs import drawn_series
from mercer.models._scores.weighted import check_parametrization
from mercer.models._switching.hypotheses import chains_of
from mercer.models.discount import check_lengths
from mercer.models.inference import read
from mercer.models.lds import LDSs
from mercer.models.switching_decoding import DecodedRegimes

if TYPE_CHECKING:
    from mercer.models.switching_estimator import SwitchingLDS


@dataclass(frozen=True)
class OverPaths:
    """A coupling of the series of two regime paths, and how the paths of every model are summed over (PPK-5.1)."""

    base: PowerProduct | Smoothed
    expected: bool
    """Whether kernels are averaged over paths, so that only densities given a path are raised to a power."""
    n_paths: int
    """Number of draws from each model that has more paths."""
    seed: int

    @property
    def power(self) -> float:
        """Power on the probabilities of regimes."""
        return 1.0 if self.expected else self.base.power

    def leaf(self, p: Any, q: Any) -> Array:
        """Return the log kernel of the distributions of observations."""
        return self.base.leaf(p, q)


class SwitchingLDSs(DecodedRegimes, Batch):
    r"""A batch of switching linear dynamical systems: a Markov chain of regimes, each with a system of its own.

    Parameters
    ----------
    initial : array of shape (N, K)
        Probabilities of the first regime.
    transition : array of shape (N, K, K)
        ``transition[..., j, k]`` is the probability of going from regime j to regime k.
    systems : LDSs of shape (N, K)
        The system of each regime. Emission and noise of the observations may be the same in all of them.
    n_regimes : array of int of shape (N,), default=None
        Number of regimes of each model, if models of different sizes were padded to a common size; see `concat`.

    Notes
    -----
    .. math:: s_1 \sim \mathcal N(\mu_{q_1}, S_{q_1}), \quad
              s_t = A_{q_t} s_{t-1} + b_{q_t} + \mathcal N(0, Q_{q_t}), \quad
              x_t = C_{q_t} s_t + c_{q_t} + \mathcal N(0, R_{q_t})

    with regimes :math:`q_t` of a Markov chain (PPK-5.1). Given a path of regimes, a series is Gaussian. There are
    :math:`K^T` paths, so probabilities of long series are estimated; see `log_prob_estimate`.

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

    _arrays: ClassVar[dict[str, int]] = {"initial": 1, "transition": 2, "n_regimes": 0}
    _parts: ClassVar[dict[str, int]] = {"systems": 1}

    initial: Array
    transition: Array
    systems: Any
    n_regimes: Any

    def __init__(self, initial: Any, transition: Any, systems: Any, n_regimes: Any = None) -> None:
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
        sizes = np.full(batch, k) if n_regimes is None else np.asarray(n_regimes)
        if sizes.shape != batch or sizes.dtype.kind not in "iu" or np.any(sizes < 1) or np.any(sizes > k):
            raise ValueError(f"n_regimes must be whole numbers from 1 to {k}, of shape {batch}; got {n_regimes!r}.")
        beyond = np.arange(k) >= sizes[..., None]
        entering = np.where(beyond[..., :, None], 0.0, transition).max(axis=-2, initial=0.0)
        if np.any(beyond & ((initial > 0) | (entering > 0))):
            raise ValueError(
                "n_regimes must count all regimes that can be reached; got a model that can reach one beyond it."
            )
        self._freeze(initial=initial, transition=transition, n_regimes=sizes, systems=systems)

    @property
    def dimension(self) -> int:
        """Number of coordinates of an observation."""
        return int(self.systems.dimension)

    @property
    def state_dim(self) -> int:
        """Number of coordinates of the state, with the padding of smaller models."""
        return int(self.systems.state_dim)

    def _check_alike(self, other: Batch) -> None:
        """Raise if observations differ in dimension; numbers of regimes and state dimensions may differ."""
        if type(self) is not type(other):
            super()._check_alike(other)
        self.systems._check_alike(other.systems)  # type: ignore[attr-defined]

    @classmethod
    def concat(cls, batches: Sequence[Self]) -> Self:
        """Concatenate batches; smaller models are padded with regimes that are never reached, and with unused states.

        Padding changes no result.
        """
        cls._check_batches(batches)
        for other in batches[1:]:
            batches[0]._check_alike(other)
        k = max(batch.initial.shape[-1] for batch in batches)
        padded = [batch._padded(k) for batch in batches]
        fields = {name: np.concatenate([getattr(one, name) for one in padded]) for name in cls._arrays}
        return cls._make(**fields, systems=LDSs.concat([one.systems for one in padded]))

    def _padded(self, k: int) -> Self:
        """Add regimes that are never reached, with the system of the first one."""
        extra = k - self.initial.shape[-1]
        if extra == 0:
            return self
        initial = np.pad(self.initial, ((0, 0), (0, extra)))
        transition = np.pad(self.transition, ((0, 0), (0, extra), (0, extra)))
        transition[:, k - extra :] = np.eye(k)[k - extra :]
        columns = np.concatenate([np.arange(k - extra), np.zeros(extra, int)])
        return self._make(
            initial=initial, transition=transition, n_regimes=self.n_regimes, systems=self.systems[:, columns]
        )

    def _trimmed(self, k: int, n: int) -> Self:
        """Drop regimes and state coordinates that are padding."""
        return self._make(
            initial=np.ascontiguousarray(self.initial[..., :k]),
            transition=np.ascontiguousarray(self.transition[..., :k, :k]),
            n_regimes=self.n_regimes,
            systems=self.systems[..., :k]._trimmed(n),
        )

    # -- samples, scores and couplings -------------------------------------------------------------------

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
        regimes, rng = drawn_regimes(self.initial, self.transition, length, size, random_state)
        with np.errstate(over="ignore", invalid="ignore"):  # checked at the end
            series = within_range(drawn_series(chains_of(self).systems, regimes, rng), 2, "length", "samples")
        return (series, regimes) if return_regimes else series

    @property
    def n_parameters(self) -> Floats:
        """Number of free parameters of each model, ``(N,)``, if no two regimes share any.

        Those of the chain and of all systems, less those of a change of the state, which is common to all regimes.
        """
        k, n = self.n_regimes, self.systems.state_dims[..., 0]
        own = self.systems.n_parameters[..., 0] + n * n + n
        return np.asarray(k * k - 1 + k * own - n * n - n)

    def score_names(self) -> list[str]:
        """Return the names of the columns of `sequence_scores`."""
        from mercer.models._switching.scores import score_names

        return score_names(int(self.initial.shape[-1]), self.state_dim, self.dimension)

    def sequence_scores(
        self, X: Any, parametrization: str = "logit", n_paths: int = 64, random_state: Any = 0
    ) -> Floats:
        """Fisher scores of each series under each model, ``(N, M, P)``, summed over time (FK-10).

        They are the expected scores of the regimes and states given the series (Fisher's identity). Exact if a series
        has at most 1,024 paths of regimes; otherwise averages over ``n_paths`` paths, drawn as in
        `regime_probabilities`. Every regime has scores of its own, of a shared emission too.

        Parameters
        ----------
        X : Sequences, or anything that converts to them
            M series. NaN is marginalized.
        parametrization : {"logit", "weight"}, default="logit"
            Probabilities of regimes by their logits, or by unnormalized weights at the normalized point (FK-0).
        n_paths : int, default=64
            Number of paths.
        random_state : int, Generator, RandomState or None, default=0
            Seed of the paths.
        """
        from mercer.models._switching.scores import sequence_scores

        self._require_axis()
        check_parametrization(parametrization)
        n_paths = whole_size(n_paths, "paths", name="n_paths", least=1)
        return sequence_scores(self, self.read(X), parametrization, n_paths, random_state)

    def estimator(self) -> SwitchingLDS:
        """Return an estimator that accepts the series of these models."""
        from mercer.models.switching_estimator import SwitchingLDS

        return SwitchingLDS(n_regimes=int(self.initial.shape[-1]), state_dim=self.state_dim)

    def own_digests(self) -> list[bytes]:
        """Return digests of the models that do not depend on their padding."""
        k, n = self.initial.shape[-1], self.state_dim
        found = self.digests()
        sizes = self.n_regimes, self.systems.state_dims[:, 0]
        for i in np.flatnonzero((sizes[0] < k) | (sizes[1] < n)):
            found[i] = self[i : i + 1]._trimmed(int(sizes[0][i]), int(sizes[1][i])).digests()[0]
        return found

    def couple(self, coupling: Coupling, lengths: Any = None) -> Operand:
        """Prepare for a coupling over series of each of the ``lengths``."""
        from mercer.models._switching.operand import switching_operand

        if not isinstance(coupling, OverPaths):
            raise TypeError(
                "Kernels of SwitchingLDSs sum over regime paths. Use mc.kernels.SwitchingProduct or SwitchingMeanMap, "
                "or mc.Sampled for powers of their marginal density."
            )
        self._require_axis()
        check_lengths(lengths)
        return switching_operand(self, coupling, lengths)


def drawn_regimes(
    initial: Floats, transition: Floats, length: int, size: int, random_state: Any
) -> tuple[Indices, np.random.Generator]:
    """Draw paths of N chains, ``(N, size, length)``; return also the generator."""
    rng, n = random_generator(random_state), len(initial)
    first, step = np.cumsum(initial, axis=-1), np.cumsum(transition, axis=-1)
    regimes = np.empty((n, size, length), dtype=np.int64)
    models = np.arange(n)[:, None]
    for t in range(length):
        upper = step[models, regimes[..., t - 1]] if t else np.broadcast_to(first[:, None], (n, size, first.shape[-1]))
        regimes[..., t] = drawn(upper, rng.random((n, size)))
    return regimes, rng
