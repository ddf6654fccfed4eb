"""Hidden Markov models as a given batch: probabilities, samples, and the coupling of two of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np

from mercer._array import Array, Floats, beside, namespace, to_numpy
from mercer._batch import Batch
from mercer.data import Sequences
from mercer.families._coupling import Coupling, Operand
from mercer.families._family import random_generator
from mercer.families._simplex import checked_probability, drawn
from mercer.models._chain_operand import chain_operand
from mercer.models._forward import forward_log_prob


class HMMs(Batch):
    r"""A batch of hidden Markov models.

    Parameters
    ----------
    initial : array of shape (N, n)
        Probabilities of the first state.
    transition : array of shape (N, n, n)
        ``transition[..., i, j]`` is the probability of going from i to j.
    emission : family batch of shape (N, n), or Mixtures
        What every state emits.
    n_states : array of int of shape (N,), default=None
        Numbers of states where models of different sizes were padded to a common one; see `concat`.

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
                f"transition has shape {tuple(transition.shape)}: for initial of shape {tuple(initial.shape)} give "
                f"{(*batch, n, n)}"
            )
        if not isinstance(emission, Batch):
            raise TypeError(
                f"emission is a {type(emission).__name__}: give a batch of a family, such as mc.Categoricals(...)"
            )
        if emission.shape != (*batch, n):
            raise ValueError(f"emission has shape {emission.shape}: give one distribution per state, {(*batch, n)}")
        sizes = np.full(batch, n) if n_states is None else np.asarray(n_states)
        if sizes.shape != batch or sizes.dtype.kind not in "iu" or np.any(sizes < 1) or np.any(sizes > n):
            raise ValueError(f"n_states must hold whole numbers from 1 to {n}, of shape {batch}")
        beyond = np.arange(n) >= sizes[..., None]
        entering = np.where(beyond[..., :, None], 0.0, to_numpy(transition)).max(axis=-2, initial=0.0)
        if np.any(beyond & ((to_numpy(initial) > 0) | (entering > 0))):
            raise ValueError("n_states leaves out a state that can be reached: it counts the states before the padding")
        self._freeze(initial=initial, transition=transition, n_states=sizes, emission=emission)

    @property
    def dimension(self) -> int | None:
        """Number of coordinates of an observation, or of symbols."""
        return getattr(self.emission, "dimension", None)

    def _check_alike(self, other: Batch) -> None:
        """Models of different sizes may meet; their emissions must be alike."""
        if type(self) is not type(other):
            super()._check_alike(other)
        self.emission._check_alike(other.emission)  # type: ignore[attr-defined]

    @classmethod
    def concat(cls, batches: Sequence[Self]) -> Self:
        """Join batches; smaller models are padded with unreachable states, which change no result."""
        if not batches:
            raise ValueError("HMMs.concat needs at least one batch")
        for other in batches[1:]:
            batches[0]._check_alike(other)
        largest = max(b.initial.shape[-1] for b in batches)
        padded = [b._padded(largest) for b in batches]
        return cls._make(
            initial=namespace(padded[0].initial).concat([b.initial for b in padded], axis=0),
            transition=namespace(padded[0].initial).concat([b.transition for b in padded], axis=0),
            n_states=np.concatenate([b.n_states for b in padded]),
            emission=type(padded[0].emission).concat([b.emission for b in padded]),
        )

    def _padded(self, n: int) -> Self:
        """Add self-looping states that nobody reaches and that emit what the first state emits."""
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

    # -- probabilities -----------------------------------------------------------------------------------

    def log_prob(self, X: Any) -> Floats:
        """Log probability of every sequence under every model, ``(N, M)``.

        Parameters
        ----------
        X : Sequences or what makes them
            M sequences. Ambiguity codes and NaN are marginalised where the emission can.
        """
        self._require_axis()
        alphabet = getattr(self.emission, "alphabet", None)
        X = Sequences(X, alphabet=alphabet) if alphabet is not None else Sequences(X)
        n_models, n = self.initial.shape[0], self.initial.shape[-1]
        flat = self.emission.reshape(n_models * n)
        table = to_numpy(flat.log_prob(X.values)).reshape(n_models, n, -1)
        return forward_log_prob(to_numpy(self.initial), to_numpy(self.transition), table, X.offsets)

    def sample(self, length: int, size: int = 1, random_state: Any = None) -> Floats:
        """Draw ``size`` sequences of ``length`` observations from every model, ``(N, size, length, ...)``."""
        self._require_axis()
        if length < 1:
            raise ValueError(f"length = {length}: a sequence has at least one observation")
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
        chosen = emitted[models, states.reshape(len(self), -1), where]
        return chosen.reshape(len(self), size, length, *emitted.shape[3:])

    # -- coupling -----------------------------------------------------------------------------------------

    def couple(self, coupling: Coupling, lengths: tuple[int, ...] | None = None) -> Operand:
        """Prepare for a coupling over sequences of every one of ``lengths`` observations."""
        self._require_axis()
        if lengths is None:
            raise ValueError(
                "an HMM is no distribution until the length of its sequences is fixed: give the kernel length=10, say"
            )
        leaf = self.emission.couple(coupling, lengths)
        return chain_operand(self.initial, self.transition, leaf, self.n_states, coupling.power, lengths)

    def _require_axis(self) -> None:
        if self.ndim != 1:
            raise ValueError(f"this needs a batch of shape (N,), not {self.shape}: use p[3:4] for a single model")
