"""Batches of factorial hidden Markov models: several independent chains that generate the observations together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from mercer._array import Array, Floats, Indices, as_float, beside, namespace, to_numpy
from mercer._batch import Batch
from mercer._coupling import Coupling, Operand
from mercer._probability import checked_probability, drawn
from mercer._random import random_generator, whole_size
from mercer._wording import counted
from mercer.data import Sequences
from mercer.families.gaussian import Gaussians
from mercer.models._factorial.bound import ChainBound, Field
from mercer.models._factorial.joint import (
    MOST_JOINT,
    factorial_cliques,
    factorial_scores,
    joint_states,
    score_names,
)
from mercer.models._scores.weighted import check_parametrization
from mercer.models.hidden import Clique
from mercer.models.hmm import HMMs
from mercer.models.inference import double, read
from mercer.models.posterior import Posterior, long_run
from mercer.models.summaries import chain_table, headed, structure_of
from mercer.models.verbs import HasCriteria

if TYPE_CHECKING:
    from mercer.models.factorial_hmm_estimator import FactorialHMM

__all__ = ["FactorialHMMs"]


class FactorialHMMs(HasCriteria, Batch):
    r"""A batch of factorial hidden Markov models, of series of vectors.

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

    (PPK-6.1, Ghahramani and Jordan 1997). Probabilities, posteriors and kernels are exact, up to 1,024 joint states:
    they are those of the hidden Markov models of all joint states. For larger models, `mean_field` approximates
    probabilities and posteriors, and `mercer.kernels.MeanField` kernels, by lower bounds.

    Examples
    --------
    >>> import mercer as mc
    >>> models = mc.models.FactorialHMMs(
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
        if len(initial.shape) < 2:
            raise ValueError(f"initial must have shape (..., C, n); got {tuple(initial.shape)}.")
        *batch, chains, n = initial.shape
        mean, covariance = as_float(mean, "mean"), as_float(covariance, "covariance")
        if len(mean.shape) < 3:
            raise ValueError(f"mean must have shape (..., C, n, d); got {tuple(mean.shape)}.")
        d = int(mean.shape[-1])
        _check_shape("transition", transition, (*batch, chains, n, n))
        _check_shape("mean", mean, (*batch, chains, n, d))
        _check_shape("covariance", covariance, (*batch, d, d))
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
        c, n = self.n_chains, int(self.initial.shape[-1])
        d = self.dimension
        return c * (n * n - 1) + (c * (n - 1) + 1) * d + d * (d + 1) // 2

    def __repr__(self) -> str:
        return f"FactorialHMMs(shape={self.shape}, n_chains={self.n_chains}, n_states={int(self.initial.shape[-1])})"

    def estimator(self) -> FactorialHMM:
        """Return an estimator that accepts the sequences of these models."""
        from mercer.models.factorial_hmm_estimator import FactorialHMM

        return FactorialHMM(self.n_chains, int(self.initial.shape[-1]))

    def _check_alike(self, other: Batch) -> None:
        """Raise if the dimensions differ; numbers of chains and states may differ."""
        if type(self) is not type(other):
            super()._check_alike(other)
        assert isinstance(other, FactorialHMMs)
        if self.dimension != other.dimension:
            raise ValueError(
                f"Two batches of FactorialHMMs differ in dimension: {self.dimension} and {other.dimension} coordinates."
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
                "states, or approximate: mean_field(X) for sequences, mc.kernels.MeanField for kernels."
            )
        xp, batch = namespace(self.initial), self.shape
        initial, transition, mean = self.initial[..., 0, :], self.transition[..., 0, :, :], self.mean[..., 0, :, :]
        for c in range(1, self.n_chains):
            own, step, added = self.initial[..., c, :], self.transition[..., c, :, :], self.mean[..., c, :, :]
            n = initial.shape[-1] * own.shape[-1]
            initial = xp.reshape(initial[..., :, None] * own[..., None, :], (*batch, n))
            step = transition[..., :, None, :, None] * step[..., None, :, None, :]
            transition = xp.reshape(step, (*batch, n, n))
            mean = xp.reshape(mean[..., :, None, :] + added[..., None, :, :], (*batch, n, mean.shape[-1]))
        d = self.dimension
        covariance = xp.broadcast_to(self.covariance[..., None, :, :], (*batch, self.n_joint, d, d))
        return HMMs(initial, transition, Gaussians(mean, covariance))

    def read(self, X: Any) -> Any:
        """Return ``X`` as `Sequences` of vectors."""
        return read(Gaussians(np.zeros((1, self.dimension)), np.ones(1)), X)

    def log_prob(self, X: Any) -> Floats:
        """Log probability of each sequence under each model, ``(N, M)``; missing values are marginalized."""
        return self.hmms().log_prob(X)

    def posterior(self, X: Any) -> list[Floats]:
        """Posterior probabilities of the states of all chains, one array ``(T, C, n)`` per sequence.

        Parameters
        ----------
        X : Sequences, or anything that converts to them
            For a batch of shape ``(1,)``, any number of sequences; otherwise sequence i under model i.
        """
        return self._by_chain(self.hmms().posterior(X))

    def mean_field(self, X: Any) -> tuple[list[Floats], Floats]:
        r"""Approximate posteriors of all chains, and lower bounds of log probabilities, for any number of joint states.

        Parameters
        ----------
        X : Sequences, or anything that converts to them
            Sequences, assigned to models as in `posterior`.

        Returns
        -------
        posteriors : list of arrays of shape (T, C, n)
            One for each sequence.
        bounds : ndarray of shape (N,)
            Lower bounds of the log probabilities of the sequences.

        Notes
        -----
        .. math:: \log p(x) \ge E_Q[\log p(x, q^1, \dots, q^C)] + H(Q), \qquad Q = \prod_c Q_c(q^c_1, \dots, q^c_T)

        (PPK-6.1, with observations in place of the second model). One chain of Q after the other is replaced by the
        best one.

        Examples
        --------
        >>> import numpy as np, mercer as mc
        >>> mean = np.zeros((1, 12, 2, 1))
        >>> mean[0, :, 1, 0] = 2.0 ** np.arange(12)
        >>> initial, step = np.full((1, 12, 2), 0.5), np.full((1, 12, 2, 2), 0.5)
        >>> model = mc.models.FactorialHMMs(initial, step, mean, [[[0.01]]])
        >>> posteriors, bounds = model.mean_field([[[5.0], [9.0]]])
        >>> posteriors[0].shape, bounds.shape
        ((2, 12, 2), (1,))
        """
        self._require_axis()
        X = self.read(X)
        if len(self) not in (1, len(X)):
            raise ValueError(
                f"{len(self)} models need one sequence each; got {len(X)} sequences. Use one model, such as models[:1]."
            )
        groups = [X] if len(self) == 1 else [X[[i]] for i in range(len(X))]
        parameters = [double(getattr(self, name)) for name in self._arrays]
        posteriors, bounds = [], []
        for i, part in enumerate(groups):
            initial, transition, mean, covariance = (values[i] for values in parameters)
            field = Field.of_data(initial, transition, mean, covariance, part.values, part.offsets)
            found = field.maximize(field.start(None))
            states = np.stack([field.rows(chain) for chain in found.posteriors], axis=1)
            posteriors += np.split(states, part.offsets[1:-1])
            bounds.append(found.bound)
        return posteriors, np.concatenate(bounds)

    def filter(self, X: Any) -> list[Floats]:
        """Probabilities of the states of all chains given the observations up to each time, as in `posterior`."""
        return self._by_chain(self.hmms().filter(X))

    def _by_chain(self, found: Posterior) -> list[Floats]:
        chains, n = self.n_chains, int(self.initial.shape[-1])
        shown = joint_states(n, chains)
        return [(found[k] @ shown).reshape(-1, chains, n) for k in range(len(found))]

    def viterbi(self, X: Any) -> tuple[list[Indices], Floats]:
        """Most probable states of all chains together, ``(T, C)`` for each sequence, and their log probabilities.

        Sequences are assigned to models as in `posterior`.
        """
        paths, log_prob = self.hmms().viterbi(X)
        shape = (int(self.initial.shape[-1]),) * self.n_chains
        return [np.stack(np.unravel_index(path, shape), axis=1) for path in paths], log_prob

    def forecast(self, X: Any, steps: int = 1) -> tuple[Floats, Floats]:
        """Mean and covariance of the next ``steps`` observations of each sequence; see `HMMs.forecast`."""
        return self.hmms().forecast(X, steps)

    def summary(self) -> str:
        """Return one model as text: for each chain where its states start, go and stay, and what they add to the mean.

        Examples
        --------
        >>> import mercer as mc
        >>> model = mc.models.FactorialHMMs(
        ...     [[[0.5, 0.5]]], [[[[0.9, 0.1], [0.2, 0.8]]]], [[[[0.0], [4.0]]]], [[[1.0]]]
        ... )
        >>> print(model.summary())
        FactorialHMM of 1 chain of 2 states, diagonal covariance of the noise, 6 free parameters
        chain state  initial  to 0  to 1  steps  share  adds
                0 0     0.50  0.90  0.10   10.0   0.67  0
                0 1     0.50  0.20  0.80    5.0   0.33  4
        """
        self._require_one()
        initial, transition, mean = (double(part)[0] for part in (self.initial, self.transition, self.mean))
        shares, rows = long_run(initial, transition), []
        for c in range(self.n_chains):
            adds = [", ".join(f"{m:.3g}" for m in row[:4]) + ", ..." * (len(row) > 4) for row in mean[c]]
            table = chain_table(initial[c], transition[c], shares[c], adds, ("chain state", "adds"))
            rows += table[: c == 0] + [[f"{c} {row[0]}", *row[1:]] for row in table[1:]]
        noise, n = structure_of(double(self.covariance)[0]), int(initial.shape[-1])
        head = f"FactorialHMM of {counted(self.n_chains, 'chain')} of {n} states, {noise} covariance of the noise"
        return headed(head, self.n_parameters, rows)

    def sample(self, length: int, size: int = 1, random_state: Any = None, return_states: bool = False) -> Any:
        """Sample ``size`` sequences of ``length`` observations from each model, ``(N, size, length, d)``.

        With ``return_states``, the states of all chains come second, ``(N, size, length, C)``.
        """
        self._require_axis()
        length = whole_size(length, "observations", name="length", least=1)
        size = whole_size(size, "sequences")
        rng, count, mean = random_generator(random_state), len(self), to_numpy(self.mean)
        members = np.arange(count)[:, None]
        noise = rng.standard_normal((count, size * length, self.dimension))
        total = noise @ np.linalg.cholesky(to_numpy(self.covariance)).swapaxes(-2, -1)
        total = total.reshape(count, size, length, self.dimension)
        states = np.empty((count, size, length, self.n_chains), dtype=int)
        for c in range(self.n_chains):
            draw = np.cumsum(to_numpy(self.initial)[:, c], axis=-1)[:, None, :]
            step = np.cumsum(to_numpy(self.transition)[:, c], axis=-1)
            for t in range(length):
                state = drawn(draw, rng.random((count, size)))
                total[:, :, t] += mean[members, c, state]
                draw, states[:, :, t, c] = step[members, state], state
        return (total, states) if return_states else total

    def score_names(self) -> list[str]:
        """Return the names of the columns of the Fisher scores."""
        return score_names(self)

    def sequence_scores(self, X: Any, parametrization: str = "logit") -> Floats:
        """Fisher scores of each sequence under each model, ``(N, M, P)``, summed over time (FK-7, FK-9).

        Parameters
        ----------
        X : Sequences, or anything that converts to them
            M sequences.
        parametrization : {"logit", "weight"}, default="logit"
            Parametrization of probabilities: logits, or unnormalized weights at the normalized point.
        """
        self._require_axis()
        check_parametrization(parametrization)
        X = self.read(X)
        return np.stack([factorial_scores(self[i : i + 1], X, parametrization) for i in range(len(self))])

    def latent_cliques(self, X: Any) -> list[Clique]:
        """Return the mean posteriors of observations with their states, and of transitions, for latent kernels.

        Parameters
        ----------
        X : Sequences, or anything that converts to them
            The samples, for a batch of shape ``(1,)`` of up to 1,024 joint states.
        """
        self._require_one()
        return factorial_cliques(self, self.read(X))

    def require_discrete(self, kernel: str) -> None:
        """Raise: these are models of vectors."""
        raise TypeError(f"{kernel} needs models of symbols, which can be counted. Use mc.LatentMeanMap.")

    def no_samples(self) -> Any:
        """Return no sequence."""
        return Sequences([np.zeros((1, self.dimension))])[:0]

    def couple(self, coupling: Coupling, lengths: Any = None) -> Operand:
        """Prepare for a coupling of the models of all joint states (PPK-6.1, GMMK-9)."""
        return self.hmms().couple(coupling, lengths)

    def couple_mean_field(self, rho: float, length: int, n_init: int, seed: int) -> ChainBound:
        """Prepare for the structured mean field bound of the probability product (PPK-6.1)."""
        self._require_axis()
        initial, transition, mean, covariance = (double(getattr(self, name)) for name in self._arrays)
        return ChainBound(initial, transition, mean, covariance, rho, length, n_init, seed)


def _check_shape(name: str, value: Any, shape: tuple[int, ...]) -> None:
    if tuple(value.shape) != shape:
        raise ValueError(f"{name} must have shape {shape}; got {tuple(value.shape)}.")
