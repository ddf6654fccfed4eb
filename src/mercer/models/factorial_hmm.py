"""Batches of factorial hidden Markov models: several independent chains that generate the observations together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from mercer._array import Array, Floats, as_float, beside, namespace, to_numpy
from mercer._batch import Batch
from mercer._coupling import Coupling, Operand
from mercer._probability import checked_probability, drawn
from mercer._random import random_generator, whole_size
from mercer.data import Alphabet, Sequences
from mercer.families.categorical import Categoricals
from mercer.families.gaussian import Gaussians
from mercer.models._factorial.bound import ChainBound
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

if TYPE_CHECKING:
    from mercer.models.factorial_hmm_estimator import FactorialHMM

__all__ = ["FactorialHMMs"]


class FactorialHMMs(Batch):
    r"""A batch of factorial hidden Markov models, of vectors or of symbols.

    Parameters
    ----------
    initial : array of shape (..., C, n)
        Probabilities of the first state of each of C chains.
    transition : array of shape (..., C, n, n)
        ``transition[..., c, i, j]`` is the probability that chain c goes from state i to state j.
    mean : array of shape (..., C, n, d), default=None
        Models of vectors: what each state of each chain adds to the mean of an observation.
    covariance : array of shape (..., d, d), default=None
        Models of vectors: covariance of the observations given all states.
    probability : array of shape (..., J, k), default=None
        Models of symbols: probabilities of k symbols in each of the J = n^C joint states, the states of the last chain
        varying fastest.
    alphabet : Alphabet, str, iterable or None, default=None
        Models of symbols: the symbols; None means 0, 1, ...

    Notes
    -----
    .. math:: x_t \sim \mathcal N\Big(\sum_c \mu^c_{q^c_t},\ R\Big)
              \qquad\text{or}\qquad P(x_t = o) = B_{q^1_t, \dots, q^C_t, o}

    (PPK-6.1, Ghahramani and Jordan 1997). Probabilities, posteriors and kernels are exact, up to 1,024 joint states:
    they are those of the hidden Markov models of all joint states. `mercer.kernels.MeanField` compares larger models of
    vectors by a lower bound.

    Examples
    --------
    >>> import mercer as mc
    >>> chains = dict(
    ...     initial=[[[0.5, 0.5], [0.5, 0.5]]],
    ...     transition=[[[[0.9, 0.1], [0.1, 0.9]], [[0.5, 0.5], [0.5, 0.5]]]],
    ... )
    >>> models = mc.models.FactorialHMMs(
    ...     **chains, mean=[[[[0.0], [4.0]], [[0.0], [1.0]]]], covariance=[[[1.0]]]
    ... )
    >>> models.hmms().emission.mean.tolist()
    [[[0.0], [1.0], [4.0], [5.0]]]
    >>> table = [[[0.9, 0.1], [0.5, 0.5], [0.5, 0.5], [0.1, 0.9]]]
    >>> models = mc.models.FactorialHMMs(**chains, probability=table, alphabet="ab")
    >>> models.log_prob(["aab", "bbb"]).round(3)
    array([[-2.187, -1.773]])
    """

    _arrays: ClassVar[dict[str, int]] = {"initial": 2, "transition": 3, "mean": 3, "covariance": 2, "probability": 2}
    _shared: ClassVar[tuple[str, ...]] = ("alphabet",)
    _from_header: ClassVar[dict[str, Any]] = {"alphabet": Alphabet.from_header}

    initial: Array
    transition: Array
    mean: Array
    covariance: Array
    probability: Array
    alphabet: Alphabet | None

    def __init__(
        self,
        initial: Any,
        transition: Any,
        mean: Any = None,
        covariance: Any = None,
        probability: Any = None,
        alphabet: Any = None,
    ) -> None:
        initial = checked_probability(initial, "initial")
        transition = checked_probability(transition, "transition")
        if len(initial.shape) < 2:
            raise ValueError(f"initial must have shape (..., C, n); got {tuple(initial.shape)}.")
        *batch, chains, n = initial.shape
        _check_shape("transition", transition, (*batch, chains, n, n))
        empty = beside(initial, np.zeros((*batch, 0, 0)), initial.dtype)
        if _given(probability):
            if _given(mean) or _given(covariance):
                raise ValueError(
                    "FactorialHMMs have mean and covariance, or probability; got both. Use probability for symbols."
                )
            if n**chains > MOST_JOINT:
                raise ValueError(
                    f"These models have {n**chains:,} joint states, more than {MOST_JOINT:,}. Use fewer chains or "
                    "states."
                )
            table = Categoricals(probability, alphabet)
            _check_shape("probability", table.probability, (*batch, n**chains, table.probability.shape[-1]))
            none = beside(initial, np.zeros((*batch, chains, n, 0)), initial.dtype)
            emitted = {"mean": none, "covariance": empty, "probability": table.probability, "alphabet": table.alphabet}
        else:
            emitted = {**_checked_noise(mean, covariance, (*batch, chains, n)), "probability": empty, "alphabet": None}
            if alphabet is not None:
                raise ValueError(f"alphabet is for models of symbols, with probability; got {alphabet!r}.")
        self._freeze(initial=initial, transition=transition, **emitted)

    @classmethod
    def _unpack_fields(cls, arrays: dict[str, Any], shared: dict[str, Any], prefix: str) -> dict[str, Any]:
        first = arrays[f"{prefix}initial"]
        table = {f"{prefix}probability": np.zeros((*first.shape[:-2], 0, 0))}  # files without one are of vectors
        return super()._unpack_fields(table | arrays, {"alphabet": None} | shared, prefix)

    @property
    def dimension(self) -> int | None:
        """Number of coordinates of an observation; None for symbols."""
        return None if self.of_symbols else int(self.mean.shape[-1])

    @property
    def of_symbols(self) -> bool:
        """Whether these are models of symbols, rather than of vectors."""
        return self.alphabet is not None

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
        if self.alphabet is not None:
            return c * (n * n - 1) + self.n_joint * (len(self.alphabet) - 1)
        d = int(self.mean.shape[-1])
        return c * (n * n - 1) + (c * (n - 1) + 1) * d + d * (d + 1) // 2

    def __repr__(self) -> str:
        return f"FactorialHMMs(shape={self.shape}, n_chains={self.n_chains}, n_states={int(self.initial.shape[-1])})"

    def estimator(self) -> FactorialHMM:
        """Return an estimator that accepts the sequences of these models."""
        from mercer.models.factorial_hmm_estimator import FactorialHMM

        return FactorialHMM(self.n_chains, int(self.initial.shape[-1]), alphabet=self.alphabet)

    def _check_alike(self, other: Batch) -> None:
        """Raise if the kinds of observations differ; numbers of chains and states may differ."""
        if type(self) is not type(other):
            super()._check_alike(other)
        assert isinstance(other, FactorialHMMs)
        if self.dimension != other.dimension:
            kinds = ["symbols" if d is None else f"{d} coordinates" for d in (self.dimension, other.dimension)]
            raise ValueError(f"Two batches of FactorialHMMs differ in dimension: {kinds[0]} and {kinds[1]}.")
        if self.alphabet != other.alphabet:
            raise ValueError(
                f"Two batches of FactorialHMMs differ in alphabet: {self.alphabet} and {other.alphabet}; make both "
                "with the same alphabet."
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
                "states, or compare them with mc.kernels.MeanField."
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
        if self.alphabet is not None:
            return HMMs(initial, transition, Categoricals(self.probability, self.alphabet))
        d = int(self.mean.shape[-1])
        covariance = xp.broadcast_to(self.covariance[..., None, :, :], (*batch, self.n_joint, d, d))
        return HMMs(initial, transition, Gaussians(mean, covariance))

    def read(self, X: Any) -> Any:
        """Return ``X`` as `Sequences` of vectors or of symbols."""
        if self.alphabet is not None:
            return read(Categoricals(np.full((1, len(self.alphabet)), 1 / len(self.alphabet)), self.alphabet), X)
        return read(Gaussians(np.zeros((1, int(self.mean.shape[-1]))), np.ones(1)), X)

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
        chains, n = self.n_chains, int(self.initial.shape[-1])
        shown = joint_states(n, chains)
        found = self.hmms().posterior(X)
        return [(found[k] @ shown).reshape(-1, chains, n) for k in range(len(found))]

    def sample(self, length: int, size: int = 1, random_state: Any = None) -> Floats:
        """Sample ``size`` sequences of ``length`` observations from each model.

        ``(N, size, length, d)`` for vectors, ``(N, size, length)`` codes for symbols.
        """
        self._require_axis()
        length = whole_size(length, "observations", name="length", least=1)
        size = whole_size(size, "sequences")
        rng, count = random_generator(random_state), len(self)
        members, n = np.arange(count)[:, None], int(self.initial.shape[-1])
        mean, joint = to_numpy(self.mean), np.zeros((count, size, length), dtype=np.int64)
        total = self._noise(rng, size, length)
        for c in range(self.n_chains):
            draw = np.cumsum(to_numpy(self.initial)[:, c], axis=-1)[:, None, :]
            step = np.cumsum(to_numpy(self.transition)[:, c], axis=-1)
            for t in range(length):
                state = drawn(draw, rng.random((count, size)))
                total[:, :, t] += mean[members, c, state]
                joint[:, :, t] = joint[:, :, t] * n + state
                draw = step[members, state]
        if not self.of_symbols:
            return total
        table = np.cumsum(to_numpy(self.probability), axis=-1)
        return drawn(table[members[..., None], joint], rng.random(joint.shape))

    def _noise(self, rng: np.random.Generator, size: int, length: int) -> Floats:
        """Draw the noise of all observations, ``(N, size, length, d)``."""
        count, d = len(self), int(self.mean.shape[-1])
        noise = rng.standard_normal((count, size * length, d))
        if d:
            noise = noise @ np.linalg.cholesky(to_numpy(self.covariance)).swapaxes(-2, -1)
        return noise.reshape(count, size, length, d)

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
        """Raise if these are models of vectors."""
        if not self.of_symbols:
            raise TypeError(f"{kernel} needs models of symbols, which can be counted. Use mc.LatentMeanMap.")

    def no_samples(self) -> Any:
        """Return no sequence."""
        return Sequences.from_codes([np.empty(0, dtype=int)], self.alphabet)[:0]

    def couple(self, coupling: Coupling, lengths: Any = None) -> Operand:
        """Prepare for a coupling of the models of all joint states (PPK-6.1, GMMK-9)."""
        return self.hmms().couple(coupling, lengths)

    def couple_mean_field(self, rho: float, length: int, n_init: int, seed: int) -> ChainBound:
        """Prepare for the structured mean field bound of the probability product (PPK-6.1)."""
        self._require_axis()
        if self.of_symbols:
            raise TypeError("MeanField needs models of vectors; got models of symbols. Use ProbabilityProduct.")
        names = ("initial", "transition", "mean", "covariance")
        initial, transition, mean, covariance = (double(getattr(self, name)) for name in names)
        return ChainBound(initial, transition, mean, covariance, rho, length, n_init, seed)


def _given(value: Any) -> bool:
    """Whether an optional array was passed; empty ones stand for none."""
    return value is not None and not (hasattr(value, "shape") and 0 in tuple(value.shape)[-2:])


def _check_shape(name: str, value: Any, shape: tuple[int, ...]) -> None:
    if tuple(value.shape) != shape:
        raise ValueError(f"{name} must have shape {shape}; got {tuple(value.shape)}.")


def _checked_noise(mean: Any, covariance: Any, lead: tuple[int, ...]) -> dict[str, Any]:
    """Return the effects and the covariance of the noise, checked."""
    if mean is None or covariance is None:
        raise ValueError("FactorialHMMs need mean and covariance, for vectors, or probability, for symbols.")
    mean, covariance = as_float(mean, "mean"), as_float(covariance, "covariance")
    if len(mean.shape) < 3:
        raise ValueError(f"mean must have shape (..., C, n, d); got {tuple(mean.shape)}.")
    d, batch = int(mean.shape[-1]), lead[:-2]
    _check_shape("mean", mean, (*lead, d))
    _check_shape("covariance", covariance, (*batch, d, d))
    noise = Gaussians(beside(mean, np.zeros((*batch, d)), mean.dtype), covariance)  # checks the covariance
    noise._require_regular("a factorial hidden Markov model")
    if not np.isfinite(to_numpy(mean)).all():
        raise ValueError("mean must be finite.")
    return {"mean": mean, "covariance": noise.covariance}
