"""Batches of hidden Markov models: probabilities, posteriors, sampling, and couplings of two models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from mercer._array import Array, Floats, beside, namespace, to_numpy
from mercer._batch import Batch
from mercer._coupling import Coupling, Operand
from mercer._parameters import boolean, check
from mercer._probability import checked_probability, drawn
from mercer._random import random_generator, whole_size
from mercer.models._chains.characteristic import chain_characteristic
from mercer.models._chains.operand import chain_operand
from mercer.models._interop import from_glhmm, from_hmmlearn, joined, to_hmmlearn
from mercer.models._scores.scores import hmm_scores
from mercer.models.discount import check_lengths
from mercer.models.hidden import HiddenChain
from mercer.models.hmm_decoding import Decoded
from mercer.models.inference import best_paths, crossed_log_prob, own_expectations, read
from mercer.models.posterior import Posterior, long_run
from mercer.models.verbs import n_common

if TYPE_CHECKING:
    from mercer.models.hmm_estimator import HMM


class HMMs(Decoded, Batch):
    r"""A batch of hidden Markov models.

    Parameters
    ----------
    initial : array of shape (N, n)
        Probabilities of the first state.
    transition : array of shape (N, n, n)
        ``transition[..., i, j]`` is the probability of going from i to j.
    emission : family batch of shape (N, n), or Mixtures
        The emission distributions of the states.
    n_states : array of int of shape (N,), default=None
        Number of states of each model, if models of different sizes were padded to a common size; see `concat`.

    Notes
    -----
    Two models are coupled by the recursion PPK-4.2, here for sequences of ``length`` observations:

    .. math:: \Phi_1 = (\pi^\rho {\pi'}^{\rho\top}) \circ \psi,\quad
              \Phi_{t+1} = ({A^\rho}^\top \Phi_t {A'}^\rho) \circ \psi,\quad \tilde k = \sum \Phi_L

    with :math:`\psi_{ij}` the kernel of the emissions of states i and j.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> models = mc.HMMs(
    ...     initial=[[0.5, 0.5], [1.0, 0.0]],
    ...     transition=[[[0.9, 0.1], [0.1, 0.9]], [[0.5, 0.5], [0.5, 0.5]]],
    ...     emission=mc.Categoricals(np.full((2, 2, 4), 0.25), alphabet="dna"),
    ... )
    >>> np.exp(models.log_prob(["ACG", "T"])).round(6)
    array([[0.015625, 0.25    ],
           [0.015625, 0.25    ]])
    """

    _arrays: ClassVar[dict[str, int]] = {"initial": 1, "transition": 2, "n_states": 0}
    _parts: ClassVar[dict[str, int]] = {"emission": 1}
    takes_posteriors: ClassVar[bool] = True
    """Whether scores can be computed from posteriors of hidden states (`Posterior`)."""
    emits_sequences: ClassVar[bool] = True

    initial: Array
    transition: Array
    emission: Any
    n_states: Any

    def __init__(self, initial: Any, transition: Any, emission: Any, n_states: Any = None) -> None:
        initial = checked_probability(initial, "initial")
        transition = checked_probability(transition, "transition")
        n = int(initial.shape[-1])
        batch = tuple(initial.shape[:-1])
        if tuple(transition.shape) != (*batch, n, n):
            raise ValueError(
                f"transition must have shape {(*batch, n, n)} for initial of shape {tuple(initial.shape)}; got "
                f"{tuple(transition.shape)}."
            )
        if not isinstance(emission, Batch):
            raise TypeError(
                f"emission must be a batch of a family, such as mc.Categoricals(...); got a {type(emission).__name__}."
            )
        if emission.shape != (*batch, n):
            raise ValueError(
                f"emission must have one distribution per state, shape {(*batch, n)}; got shape {emission.shape}."
            )
        sizes = np.full(batch, n) if n_states is None else np.asarray(n_states)
        if sizes.shape != batch or sizes.dtype.kind not in "iu" or np.any(sizes < 1) or np.any(sizes > n):
            raise ValueError(f"n_states must be whole numbers from 1 to {n}, of shape {batch}; got {n_states!r}.")
        beyond = np.arange(n) >= sizes[..., None]
        entering = np.where(beyond[..., :, None], 0.0, to_numpy(transition)).max(axis=-2, initial=0.0)
        if np.any(beyond & ((to_numpy(initial) > 0) | (entering > 0))):
            raise ValueError(
                "n_states must count all states that can be reached; got a model that can reach a state beyond it."
            )
        self._freeze(initial=initial, transition=transition, n_states=sizes, emission=emission)

    @property
    def dimension(self) -> int | None:
        """Number of coordinates of an observation, or of symbols."""
        return getattr(self.emission, "dimension", None)

    @property
    def alphabet(self) -> Any:
        """The alphabet of the emitted symbols; None for vectors."""
        return getattr(getattr(self.emission, "components", self.emission), "alphabet", None)

    def _check_alike(self, other: Batch) -> None:
        """Raise if the emissions differ in family or dimension; numbers of states may differ."""
        if type(self) is not type(other):
            super()._check_alike(other)
        self.emission._check_alike(other.emission)  # type: ignore[attr-defined]

    @classmethod
    def _of_one_size(cls, batches: Sequence[Self]) -> Sequence[Self]:
        """Pad smaller models with unreachable states, which do not change any result."""
        largest = max(b.initial.shape[-1] for b in batches)
        return [b._padded(largest) for b in batches]

    def _padded(self, n: int) -> Self:
        """Add unreachable states with a self-loop and the emission of the first state."""
        extra = n - int(self.initial.shape[-1])
        if extra == 0:
            return self
        xp = namespace(self.initial)
        size = len(self)
        first, dtype = self.initial, self.initial.dtype
        initial = xp.concat([first, beside(first, np.zeros((size, extra)), dtype)], axis=-1)
        right = beside(first, np.zeros((size, first.shape[-1], extra)), dtype)
        below = beside(first, np.tile(np.eye(n)[n - extra :], (size, 1, 1)), dtype)
        transition = xp.concat([xp.concat([self.transition, right], axis=-1), below], axis=-2)
        columns = np.concatenate([np.arange(self.initial.shape[-1]), np.zeros(extra, dtype=int)])
        return self._make(
            initial=initial, transition=transition, n_states=self.n_states, emission=self.emission[:, columns]
        )

    def _trimmed(self, n: int) -> Self:
        """Drop the states after the first ``n``, which must be padding."""
        if np.any(self.n_states > n):
            raise ValueError(f"A model with {int(np.max(self.n_states))} states cannot be trimmed to {n} states.")
        if n == self.initial.shape[-1]:
            return self
        return self._make(
            initial=self.initial[..., :n],
            transition=self.transition[..., :n, :n],
            n_states=self.n_states,
            emission=self.emission[..., :n],
        )

    # -- other libraries --------------------------------------------------------------------------------

    @classmethod
    def from_hmmlearn(cls, models: Any) -> HMMs:
        """Convert a model of hmmlearn, or a list of models, which may have different sizes.

        Supports ``CategoricalHMM`` (the symbols are integers from 0), ``GaussianHMM`` and ``GMMHMM`` of all covariance
        types, and ``PoissonHMM``. Any object with the same attributes is accepted:

        Examples
        --------
        >>> import numpy as np, mercer as mc
        >>> from types import SimpleNamespace
        >>> fitted = SimpleNamespace(
        ...     startprob_=np.array([0.5, 0.5]),
        ...     transmat_=np.array([[0.9, 0.1], [0.2, 0.8]]),
        ...     emissionprob_=np.array([[0.7, 0.3], [0.1, 0.9]]),
        ... )
        >>> mc.HMMs.from_hmmlearn([fitted, fitted])
        HMMs(shape=(2,), emission=Categoricals)
        """
        return joined(models, lambda model: cls(*from_hmmlearn(model)), cls.concat)

    def to_hmmlearn(self) -> list[Any]:
        """Return a list of hmmlearn models, one per member; requires hmmlearn."""
        self._require_axis()
        found = []
        for i in range(len(self)):
            one = self[i : i + 1]._trimmed(int(self.n_states[i]))
            found.append(to_hmmlearn(to_numpy(one.initial), to_numpy(one.transition), one.emission))
        return found

    @classmethod
    def from_glhmm(cls, models: Any) -> HMMs:
        """Convert a glhmm model without regression (``model_beta="no"``), or a list of models.

        The means and covariances are those of the data after glhmm's own preprocessing.
        """
        return joined(models, lambda model: cls(*from_glhmm(model)), cls.concat)

    # -- probabilities -----------------------------------------------------------------------------------

    def read(self, X: Any) -> Any:
        """Return ``X`` as `Sequences` of the kind that the models emit."""
        return read(self.emission, X)

    def log_prob(self, X: Any) -> Floats:
        """Log probability of each sequence under each model, ``(N, M)``.

        Parameters
        ----------
        X : Sequences, or anything that converts to them
            M sequences. Ambiguity codes and NaN are marginalized if the emission supports it.

        Examples
        --------
        >>> import mercer as mc
        >>> emission = mc.Categoricals([[[0.9, 0.1], [0.1, 0.9]]], alphabet="ab")
        >>> model = mc.HMMs([[0.5, 0.5]], [[[0.9, 0.1], [0.1, 0.9]]], emission)
        >>> model.log_prob(["aab", "a"]).round(2)
        array([[-2.61, -0.69]])
        """
        self._require_axis()
        return crossed_log_prob(self, self.read(X))

    def posterior(self, X: Any) -> Posterior:
        """Posteriors of the hidden states (ALG-FB).

        Parameters
        ----------
        X : Sequences, or anything that converts to them
            For a batch of shape ``(1,)``, any number of sequences under the one model. Otherwise N sequences,
            sequence i under model i.

        Returns
        -------
        Posterior
            With the fields ``states`` (at each observation), ``transitions`` (expected counts) and ``log_prob``.

        Examples
        --------
        >>> import mercer as mc
        >>> emission = mc.Categoricals([[[0.9, 0.1], [0.1, 0.9]]], alphabet="ab")
        >>> model = mc.HMMs([[0.5, 0.5]], [[[0.9, 0.1], [0.1, 0.9]]], emission)
        >>> model.posterior(["aab"])[0].round(2)
        array([[0.94, 0.06],
               [0.9 , 0.1 ],
               [0.45, 0.55]])
        """
        self._require_axis()
        X = self.read(X)
        found = own_expectations(self, X)
        assert found.states is not None
        return Posterior._make(X, found.states, found.transitions, found.log_prob)

    def viterbi(self, X: Any) -> tuple[list[Floats], Floats]:
        """Most probable hidden states of each sequence, and the joint log probabilities of sequences and states.

        Sequences are assigned to models as in `posterior`.

        Examples
        --------
        >>> import mercer as mc
        >>> emission = mc.Categoricals([[[0.9, 0.1], [0.1, 0.9]]], alphabet="ab")
        >>> model = mc.HMMs([[0.5, 0.5]], [[[0.9, 0.1], [0.1, 0.9]]], emission)
        >>> states, log_prob = model.viterbi(["aabbb", "b"])
        >>> [path.tolist() for path in states]
        [[0, 0, 1, 1, 1], [1]]
        """
        self._require_axis()
        return best_paths(self, self.read(X))

    def stationary(self) -> Floats:
        """Long-run fraction of time that each model spends in each state, ``(N, n)``.

        This is the limit of the time average of the chain that starts with ``initial``. If the stationary distribution
        is unique, the result equals it for any initial distribution. Otherwise the chain ends in one of several
        recurrent classes, with probabilities that depend on ``initial``.

        Examples
        --------
        >>> import mercer as mc
        >>> emission = mc.Gaussians([[[0.0], [1.0]]], [[1.0, 1.0]])
        >>> mc.HMMs([[1.0, 0.0]], [[[0.9, 0.1], [0.3, 0.7]]], emission).stationary().round(4)
        array([[0.75, 0.25]])
        """
        self._require_axis()
        return long_run(to_numpy(self.initial), to_numpy(self.transition))

    @property
    def n_parameters(self) -> Floats:
        """Number of free parameters of each model, ``(N,)``; probabilities of exactly zero are not counted.

        A covariance that all states share, as that of ``Gaussian("tied")``, counts once.
        """
        n = self.initial.shape[-1]
        beyond = np.arange(n) >= self.n_states[..., None]
        first = np.sum(to_numpy(self.initial) > 0, axis=-1) - 1
        step = np.sum((to_numpy(self.transition) > 0) & ~beyond[..., :, None], axis=(-2, -1)) - self.n_states
        own = np.broadcast_to(self.emission.n_parameters, beyond.shape)
        return np.asarray(first + step + (own * ~beyond).sum(axis=-1) - (self.n_states - 1) * n_common(self.emission))

    def estimator(self) -> HMM:
        """Return an estimator that accepts the sequences of these models."""
        from mercer.models.hmm_estimator import HMM

        return HMM(n_states=int(self.initial.shape[-1]), emission=self.emission.estimator())

    def sample(self, length: int, size: int = 1, random_state: Any = None, return_states: bool = False) -> Any:
        """Sample ``size`` sequences of ``length`` observations from each model, ``(N, size, length, ...)``.

        Symbols are returned as codes, which ``mc.Sequences.from_codes(codes, alphabet)`` converts to sequences. With
        ``return_states``, the hidden states come second, ``(N, size, length)``.

        Examples
        --------
        >>> import mercer as mc
        >>> emission = mc.Categoricals([[[0.9, 0.1], [0.1, 0.9]]], alphabet="ab")
        >>> model = mc.HMMs([[0.5, 0.5]], [[[0.9, 0.1], [0.1, 0.9]]], emission)
        >>> codes = model.sample(length=8, size=2, random_state=0)
        >>> codes.shape, model.alphabet.decode(codes[0, 0])
        ((1, 2, 8), 'baaaaaaa')
        >>> mc.Sequences.from_codes(codes[0], model.alphabet)
        Sequences(2 sequences of symbols from ab, lengths 8)
        """
        self._require_axis()
        length = whole_size(length, "observations", name="length", least=1)
        size = whole_size(size, "sequences")
        check(boolean(), return_states=return_states)
        rng = random_generator(random_state)
        models = np.arange(len(self))[:, None]
        states = np.empty((len(self), size, length), dtype=int)
        draw = np.cumsum(to_numpy(self.initial), axis=-1)[:, None, :]
        step = np.cumsum(to_numpy(self.transition), axis=-1)
        for t in range(length):
            states[..., t] = drawn(draw, rng.random((len(self), size)))
            draw = step[models, states[..., t]]
        emitted = self.emission.sample(size * length, random_state=rng)  # (N, n, size * length, ...)
        where = np.arange(size * length)
        chosen = emitted[models, states.reshape(len(self), size * length), where]
        observed = chosen.reshape(len(self), size, length, *emitted.shape[3:])
        return (observed, states) if return_states else observed

    def hidden_chain(self) -> HiddenChain:
        """Return the chain of hidden states of one model, for kernels that compare what states are expected to be."""
        return HiddenChain.of(self.initial, self.transition, self.emission)

    def score_names(self) -> list[str]:
        """Return the names of the columns of the Fisher scores."""
        n = int(self.initial.shape[-1])
        first = [f"initial[{i}]" for i in range(n)]
        steps = [f"transition[{i}, {j}]" for i in range(n) for j in range(n)]
        emitted = self.emission.score_names()
        return first + steps + [f"emission[{i}].{name}" for i in range(n) for name in emitted]

    def sequence_scores(self, X: Any, parametrization: str = "logit") -> Floats:
        """Fisher scores of each sequence under each model, ``(N, M, P)``, summed over time (FK-8, FK-9).

        Parameters
        ----------
        X : Sequences, or anything that converts to them
            M sequences.
        parametrization : {"logit", "weight"}, default="logit"
            Parametrization of probabilities: logits, or unnormalized weights at the normalized point.
        """
        return hmm_scores(self, X, parametrization)

    # -- coupling -----------------------------------------------------------------------------------------

    def couple(self, coupling: Coupling, lengths: Any = None) -> Operand:
        """Prepare for a coupling over sequences of each of the ``lengths``."""
        self._require_axis()
        check_lengths(lengths)
        leaf = self.emission.couple(coupling, lengths)
        return chain_operand(self.initial, self.transition, leaf, self.n_states, coupling.power, lengths)

    def log_characteristic(self, frequencies: Floats) -> tuple[Array, Array]:
        """Log modulus and angle of E exp(i sum_t <w_t, y_t>) at each of ``frequencies (F, T, d)``, each ``(N, F)``."""
        return chain_characteristic(self.initial, self.transition, self.emission, frequencies)

    # -- one history behind two sequences -----------------------------------------------------------------

    def shared_history(self, X: Any) -> Operand:
        r"""Prepare sequences for `Marginalization`: the probability that one hidden path emits both of two (MK-4).

        Parameters
        ----------
        X : Sequences, or anything that converts to them
            Sequences of equal length, for a batch of shape ``(1,)``. Ambiguity codes and NaN are marginalized
            separately in each sequence, if the emission supports it.

        Returns
        -------
        operand
            Its ``pair(other)`` returns :math:`\log \sum_h P(h) P(s \mid h) P(t \mid h)` for all pairs.

        Examples
        --------
        >>> import mercer as mc
        >>> emission = mc.Categoricals([[[0.9, 0.1], [0.1, 0.9]]], alphabet="ab")
        >>> model = mc.HMMs([[0.5, 0.5]], [[[0.9, 0.1], [0.1, 0.9]]], emission)
        >>> operand = model.shared_history(["aab", "abb", "bba"])
        >>> operand.pair(operand).round(2)
        array([[-3.61, -5.13, -7.22],
               [-5.13, -3.61, -5.71],
               [-7.22, -5.71, -3.61]])
        """
        from mercer.models._history.from_models import shared_chain

        return shared_chain(self, X)
