"""Batches of factorial hidden Markov models: several independent chains whose effects on the observations add up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from mercer._array import Array, Floats, as_float, beside, namespace, to_numpy
from mercer._batch import Batch
from mercer._checks import check_rho, is_whole
from mercer._coupling import Coupling, Operand
from mercer._parameters import check, whole
from mercer._probability import checked_probability, drawn
from mercer._random import random_generator, whole_size
from mercer.families.gaussian import Gaussians
from mercer.models._factorial.bound import ChainBound
from mercer.models.hmm import HMMs
from mercer.models.inference import read

if TYPE_CHECKING:
    from mercer.models.factorial_hmm_estimator import FactorialHMM

__all__ = ["FactorialHMMs"]

MOST_JOINT = 1024
"""Number of joint states up to which models are turned into hidden Markov models."""


class FactorialHMMs(Batch):
    r"""A batch of factorial hidden Markov models with additive Gaussian emissions.

    Parameters
    ----------
    initial : array of shape (..., C, n)
        Probabilities of the first state of each of C chains.
    transition : array of shape (..., C, n, n)
        ``transition[..., c, i, j]`` is the probability that chain c goes from state i to state j.
    mean : array of shape (..., C, n, d)
        What each state of each chain adds to the mean of an observation.
    covariance : array of shape (..., d, d)
        Covariance of the observations given all states.

    Notes
    -----
    .. math:: x_t \sim \mathcal N\Big(\sum_c \mu^c_{q^c_t},\ R\Big)

    (PPK-6.1, Ghahramani and Jordan 1997). Everything is exact: it is computed by the hidden Markov model of all
    joint states, of which there may be 1,024. `mercer.kernels.MeanField` compares larger models by a lower bound.

    Examples
    --------
    >>> import mercer as mc
    >>> models = mc.FactorialHMMs(
    ...     initial=[[[0.5, 0.5], [0.5, 0.5]]],
    ...     transition=[[[[0.9, 0.1], [0.1, 0.9]], [[0.5, 0.5], [0.5, 0.5]]]],
    ...     mean=[[[[0.0], [4.0]], [[0.0], [1.0]]]],
    ...     covariance=[[[1.0]]],
    ... )
    >>> models.hmms().emission.mean.tolist()
    [[[0.0], [1.0], [4.0], [5.0]]]
    """

    _arrays: ClassVar[dict[str, int]] = {"initial": 2, "transition": 3, "mean": 3, "covariance": 2}

    initial: Array
    transition: Array
    mean: Array
    covariance: Array

    def __init__(self, initial: Any, transition: Any, mean: Any, covariance: Any) -> None:
        initial = checked_probability(initial, "initial")
        transition = checked_probability(transition, "transition")
        mean, covariance = as_float(mean, "mean"), as_float(covariance, "covariance")
        if len(initial.shape) < 2 or len(mean.shape) < 3:
            raise ValueError(
                "initial and mean must have shapes (..., C, n) and (..., C, n, d); got "
                f"{tuple(initial.shape)} and {tuple(mean.shape)}."
            )
        *batch, chains, n = initial.shape
        d = int(mean.shape[-1])
        wanted = {
            "transition": (transition, (*batch, chains, n, n)),
            "mean": (mean, (*batch, chains, n, d)),
            "covariance": (covariance, (*batch, d, d)),
        }
        for name, (value, shape) in wanted.items():
            if tuple(value.shape) != shape:
                raise ValueError(f"{name} must have shape {shape}; got {tuple(value.shape)}.")
        noise = Gaussians(beside(mean, np.zeros((*batch, d)), mean.dtype), covariance)  # checks the covariance
        noise._require_regular("a factorial hidden Markov model")
        if not np.isfinite(to_numpy(mean)).all():
            raise ValueError("mean must be finite.")
        self._freeze(initial=initial, transition=transition, mean=mean, covariance=noise.covariance)

    @property
    def dimension(self) -> int:
        """Number of coordinates of an observation."""
        return int(self.mean.shape[-1])

    @property
    def n_chains(self) -> int:
        """Number of chains."""
        return int(self.initial.shape[-2])

    @property
    def n_joint(self) -> int:
        """Number of joint states of all chains."""
        return int(self.initial.shape[-1]) ** self.n_chains

    @property
    def n_parameters(self) -> int:
        """Number of free parameters of one model."""
        c, n, d = self.n_chains, int(self.initial.shape[-1]), self.dimension
        return c * (n * n - 1) + (c * (n - 1) + 1) * d + d * (d + 1) // 2

    def __repr__(self) -> str:
        return f"FactorialHMMs(shape={self.shape}, n_chains={self.n_chains}, n_states={int(self.initial.shape[-1])})"

    def estimator(self) -> FactorialHMM:
        """Return an estimator that accepts the sequences of these models."""
        from mercer.models.factorial_hmm_estimator import FactorialHMM

        return FactorialHMM(n_chains=self.n_chains, n_states=int(self.initial.shape[-1]))

    def _check_alike(self, other: Batch) -> None:
        """Raise if the dimensions differ; numbers of chains and states may differ."""
        if type(self) is not type(other):
            super()._check_alike(other)
        assert isinstance(other, FactorialHMMs)
        if self.dimension != other.dimension:
            raise ValueError(
                f"Two batches of FactorialHMMs differ in dimension: {self.dimension} and {other.dimension}."
            )

    @classmethod
    def _of_one_size(cls, batches: Any) -> Any:
        if len({tuple(batch.initial.shape[1:]) for batch in batches}) > 1:
            raise ValueError("FactorialHMMs can be concatenated if they have the same numbers of chains and states.")
        return batches

    def hmms(self) -> HMMs:
        """Return the hidden Markov models of all joint states, the states of the last chain varying fastest."""
        if self.n_joint > MOST_JOINT:
            raise ValueError(
                f"These models have {self.n_joint:,} joint states, more than {MOST_JOINT:,}. Use fewer chains or "
                "states, or compare them with mc.MeanField."
            )
        xp, batch = namespace(self.initial), self.shape
        initial, transition, mean = self.initial[..., 0, :], self.transition[..., 0, :, :], self.mean[..., 0, :, :]
        for c in range(1, self.n_chains):
            own, step, added = self.initial[..., c, :], self.transition[..., c, :, :], self.mean[..., c, :, :]
            n = initial.shape[-1] * own.shape[-1]
            initial = xp.reshape(initial[..., :, None] * own[..., None, :], (*batch, n))
            step = transition[..., :, None, :, None] * step[..., None, :, None, :]
            transition = xp.reshape(step, (*batch, n, n))
            mean = xp.reshape(mean[..., :, None, :] + added[..., None, :, :], (*batch, n, self.dimension))
        shape = (*batch, self.n_joint, self.dimension, self.dimension)
        covariance = xp.broadcast_to(self.covariance[..., None, :, :], shape)
        return HMMs(initial, transition, Gaussians(mean, covariance))

    def read(self, X: Any) -> Any:
        """Return ``X`` as `Sequences` of vectors."""
        return read(Gaussians(np.zeros((1, self.dimension)), np.ones(1)), X)

    def log_prob(self, X: Any) -> Floats:
        """Log probability of each sequence under each model, ``(N, M)``; NaN is marginalized."""
        self._require_axis()
        return self.hmms().log_prob(X)

    def posterior(self, X: Any) -> list[Floats]:
        """Posterior probabilities of the states of all chains, one array ``(T, C, n)`` per sequence.

        Parameters
        ----------
        X : Sequences, or anything that converts to them
            For a batch of shape ``(1,)``, any number of sequences; otherwise sequence i under model i.
        """
        self._require_axis()
        joint = self.hmms().posterior(X)
        n, chains = int(self.initial.shape[-1]), self.n_chains
        found = []
        for i in range(len(joint)):
            states = np.asarray(joint[i]).reshape(-1, *(n,) * chains)
            rows = [states.sum(axis=tuple(k + 1 for k in range(chains) if k != c)) for c in range(chains)]
            found.append(np.stack(rows, axis=1))
        return found

    def sample(self, length: int, size: int = 1, random_state: Any = None) -> Floats:
        """Sample ``size`` sequences of ``length`` observations from each model, ``(N, size, length, d)``."""
        self._require_axis()
        length = whole_size(length, "observations", name="length", least=1)
        size = whole_size(size, "sequences")
        rng, count = random_generator(random_state), len(self)
        mean, members = to_numpy(self.mean), np.arange(count)[:, None]
        noise = rng.standard_normal((count, size * length, self.dimension))
        total = noise @ np.linalg.cholesky(to_numpy(self.covariance)).swapaxes(-2, -1)
        total = total.reshape(count, size, length, self.dimension)
        for c in range(self.n_chains):
            draw = np.cumsum(to_numpy(self.initial)[:, c], axis=-1)[:, None, :]
            step = np.cumsum(to_numpy(self.transition)[:, c], axis=-1)
            for t in range(length):
                state = drawn(draw, rng.random((count, size)))
                total[:, :, t] += mean[members, c, state]
                draw = step[members, state]
        return total

    def couple(self, coupling: Coupling, lengths: Any = None) -> Operand:
        """Prepare for a coupling of the models of all joint states (PPK-6.1, GMMK-9)."""
        self._require_axis()
        found: Operand = self.hmms().couple(coupling, lengths)
        return found

    def couple_mean_field(self, rho: float, length: Any, n_init: int, seed: int) -> ChainBound:
        """Prepare for the structured mean field bound of the probability product (PPK-6.1)."""
        check_rho(rho)
        check(whole(0), seed=seed)
        check(whole(1), n_init=n_init)
        self._require_axis()
        if not is_whole(length):
            raise ValueError(f"length must be a whole number of observations, 1 or more; got {length!r}.")
        initial, transition, mean, covariance = (to_numpy(getattr(self, n)).astype(np.float64) for n in self._arrays)
        return ChainBound(initial, transition, mean, covariance, float(rho), int(length), int(n_init), seed)
