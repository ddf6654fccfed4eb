"""Pair hidden Markov models with silent emissions: one hidden trajectory emits two strings (MK-5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from mercer._array import Array, Floats, as_float, namespace, to_numpy
from mercer._batch import Batch
from mercer._native.pairs import Machine
from mercer._probability import check_sums
from mercer._random import random_generator, whole_size
from mercer.data import Alphabet, Sequences
from mercer.families.categorical import Categoricals
from mercer.models._pairs.elimination import check_trajectories
from mercer.models._pairs.general import GeneralMachine, Parameters, sequence_scores
from mercer.models._pairs.machine import MachineOperand, by_itself, logs_of, matches_of
from mercer.models._scores.weighted import check_parametrization
from mercer.models.inference import read
from mercer.models.verbs import HasCriteria

if TYPE_CHECKING:
    from mercer.models._pairs.matches import Matches
    from mercer.models.pairhmm_estimator import PairHMM


class PairHMMs(HasCriteria, Batch):
    r"""A batch of pair hidden Markov models: a hidden trajectory shared by the two strings of a pair.

    A trajectory starts in a state, visits further states and stops. Each visit emits a symbol or nothing, independently
    for each string. Strings can have any length, including zero.

    Parameters
    ----------
    initial : array of shape (N, n)
        Probabilities of the first state.
    transition : array of shape (N, n, n)
        ``transition[..., i, j]`` is the probability of going from i to j.
    stop : array of shape (N, n)
        Probability that the trajectory stops after a state; it sums to one with its row of ``transition``.
    emission : Categoricals of shape (N, n)
        Distribution of the symbol of a visit, if it emits one.
    silent : array of shape (N, n)
        Probability that a visit emits nothing, independently for each string.
    empty : array of shape (N,), default=None
        Probability of a trajectory without a visit; it sums to one with ``initial``. None means 0.

    Notes
    -----
    With h the shared hidden trajectory,

    .. math:: \kappa(s, t) = \sum_h P(h)\,P(s \mid h)\,P(t \mid h)

    (MK-5): a probability of pairs of strings, and positive semi-definite. Visits that emit nothing to either string
    are eliminated exactly. The recursion then takes one step per pair of positions, :math:`O(|s|\,|t|\,n^2)` time and
    :math:`O(|s| + |t|)` memory. Ambiguity codes are marginalized, independently for each string. The recursions are
    compiled for the CPU; gradients do not flow through them.

    The strings depend on each other even with one state, because they share the number of visits:
    :math:`\kappa(s, t) \ne P(s)\,P(t)`.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> model = mc.models.PairHMMs(
    ...     initial=[[1.0, 0.0]],
    ...     transition=[[[0.6, 0.2], [0.3, 0.5]]],
    ...     stop=[[0.2, 0.2]],
    ...     emission=mc.Categoricals([[[0.9, 0.1], [0.2, 0.8]]], alphabet="ab"),
    ...     silent=[[0.1, 0.3]],
    ... )
    >>> np.exp(model.log_prob(["ab", ""])).round(4)
    array([[0.0416, 0.0228]])
    >>> history = model.shared_history(mc.Sequences(["ab", "b"], alphabet="ab"))
    >>> np.exp(history.alone()).round(4)
    array([0.0111, 0.002 ])
    """

    _arrays: ClassVar[dict[str, int]] = {"initial": 1, "transition": 2, "stop": 1, "silent": 1, "empty": 0}
    _parts: ClassVar[dict[str, int]] = {"emission": 1}
    draws_whole: ClassVar[bool] = True
    """Whether `sample` draws whole sequences, whose lengths the model decides."""

    initial: Array
    transition: Array
    stop: Array
    silent: Array
    empty: Array
    emission: Categoricals

    def __init__(self, initial: Any, transition: Any, stop: Any, emission: Any, silent: Any, empty: Any = None) -> None:
        initial, transition, stop, silent = map(as_float, (initial, transition, stop, silent))
        batch, n = tuple(initial.shape[:-1]), int(initial.shape[-1]) if len(initial.shape) else 0
        if empty is None:
            empty = namespace(initial).zeros_like(initial[..., 0]) if n else initial
        empty = as_float(empty)
        shapes = {"transition": (*batch, n, n), "stop": (*batch, n), "silent": (*batch, n), "empty": batch}
        given = {"initial": initial, "transition": transition, "stop": stop, "silent": silent, "empty": empty}
        if n == 0:
            raise ValueError(f"initial must have n >= 1 states in its last axis; got shape {tuple(initial.shape)}.")
        for name, shape in shapes.items():
            if tuple(given[name].shape) != shape:
                raise ValueError(
                    f"{name} must have shape {shape} for initial of shape {tuple(initial.shape)}; got "
                    f"{tuple(given[name].shape)}."
                )
        if not isinstance(emission, Categoricals):
            raise TypeError(
                f"emission must be mc.Categoricals, the symbols of the states; got {type(emission).__name__}."
            )
        if emission.shape != (*batch, n):
            raise ValueError(
                f"emission must have one distribution per state, shape {(*batch, n)}; got {emission.shape}."
            )
        plain = {name: to_numpy(values) for name, values in given.items()}
        for name, values in plain.items():
            _check_probabilities(values, name)
        first, steps, dtype = plain["initial"], plain["transition"], plain["initial"].dtype
        check_sums(first.sum(axis=-1) + plain["empty"], dtype, "initial with empty")
        check_sums(steps.sum(axis=-1) + plain["stop"], dtype, "transition with stop")
        for c in np.ndindex(*batch):
            where = f" of model {c[0] if len(c) == 1 else c}" if batch != (1,) and batch else ""
            check_trajectories(first[c], steps[c], plain["stop"][c], plain["silent"][c], where)
        self._freeze(**given, emission=emission)

    # -- properties --------------------------------------------------------------------------------------

    @property
    def alphabet(self) -> Alphabet:
        """The symbols."""
        return self.emission.alphabet

    @property
    def dimension(self) -> int:
        """Number of symbols."""
        return self.emission.dimension

    @property
    def n_states(self) -> int:
        """Number of states."""
        return int(self.initial.shape[-1])

    @property
    def n_parameters(self) -> Floats:
        """Number of free parameters of each model, shape ``(N,)``; probabilities of zero are not free parameters."""
        first = np.sum(to_numpy(self.initial) > 0, axis=-1) + (to_numpy(self.empty) > 0) - 1
        steps = np.sum(to_numpy(self.transition) > 0, axis=-1) + (to_numpy(self.stop) > 0) - 1
        silent = to_numpy(self.silent)
        inner = np.sum((silent > 0) & (silent < 1), axis=-1)
        return np.asarray(first + steps.sum(axis=-1) + inner + self.n_states * self.emission.n_parameters)

    @property
    def accepts_empty(self) -> bool:
        """Whether a model gives empty strings a positive probability, by empty histories or silent states."""
        return any(bool((to_numpy(p) > 0).any()) for p in (self.empty, self.silent))

    def estimator(self) -> PairHMM:
        """Return an estimator with the number of states and the alphabet of these models."""
        from mercer.models.pairhmm_estimator import PairHMM

        return PairHMM(n_states=self.n_states, alphabet=self.alphabet)

    def read(self, X: Any) -> Sequences:
        """Convert ``X`` to sequences of the alphabet."""
        return read(self.emission, X)

    # -- pairs of strings --------------------------------------------------------------------------------

    def shared_history(self, X: Any) -> MachineOperand:
        """Prepare strings for the marginalization kernel of a model of shape (1,) (MK-5).

        Examples
        --------
        >>> import numpy as np, mercer as mc
        >>> fair = mc.Categoricals([[[0.5, 0.5]]], alphabet="ab")
        >>> coin = mc.models.PairHMMs([[1.0]], [[[0.5]]], [[0.5]], fair, silent=[[0.0]])
        >>> strings = coin.shared_history(mc.Sequences(["a", "b", "ab"], alphabet="ab"))
        >>> np.exp(strings.pair(strings))
        array([[0.125   , 0.125   , 0.      ],
               [0.125   , 0.125   , 0.      ],
               [0.      , 0.      , 0.015625]])
        """
        self._require_one()
        return MachineOperand(self.read(X), self._pairs_of(0))

    def matches(self, first: Any, second: Any) -> Matches:
        """Posterior probabilities that symbols of two strings come from the same visit; needs a model of shape (1,).

        Examples
        --------
        >>> import mercer as mc
        >>> emission = mc.Categoricals([[[0.98, 0.02], [0.02, 0.98]]], alphabet="ab")
        >>> model = mc.models.PairHMMs(
        ...     [[1.0, 0.0]], [[[0.5, 0.4], [0.4, 0.5]]], [[0.1, 0.1]], emission, [[0.1, 0.1]]
        ... )
        >>> model.matches("abb", "ab").probability.round(2)
        array([[0.97, 0.  ],
               [0.02, 0.48],
               [0.  , 0.51]])
        """
        self._require_one()
        return matches_of(self._pairs_of(0), self.alphabet, first, second)

    def _pairs_of(self, c: int) -> Machine:
        """Return the states and steps of member ``c``, for pairs of strings."""
        return GeneralMachine.for_two(Parameters.of(self, c)).machine

    # -- single strings ----------------------------------------------------------------------------------

    def log_prob(self, X: Any) -> Floats:
        """Log probability of each string under each model, ``(N, M)``: the kernel summed over the other string.

        Parameters
        ----------
        X : Sequences or what makes them
            M strings. Ambiguity codes are marginalized.

        Examples
        --------
        >>> import numpy as np, mercer as mc
        >>> fair = mc.Categoricals([[[0.5, 0.5]]], alphabet="ab")
        >>> model = mc.models.PairHMMs([[1.0]], [[[0.5]]], [[0.5]], fair, silent=[[0.0]])
        >>> np.exp(model.log_prob(["", "a", "ab"]))
        array([[0.    , 0.25  , 0.0625]])
        """
        self._require_axis()
        X = self.read(X)
        machines = [GeneralMachine.for_one(Parameters.of(self, c)).machine for c in range(len(self))]
        rows = [logs_of(machine, X, *by_itself(X)) for machine in machines]
        return np.stack(rows) if rows else np.empty((0, len(X)))

    def sequence_scores(self, X: Any, parametrization: str = "logit") -> Floats:
        """Fisher scores of each string under each model, ``(N, M, P)`` (FK-7).

        The P columns are: the initial state (n + 1, the last for the empty trajectory); the transitions (n rows of
        n + 1, the last for stop); the symbols of each state; the logits of ``silent`` (n).

        Parameters
        ----------
        X : Sequences or what makes them
            M strings.
        parametrization : {"logit", "weight"}, default="logit"
            Logits of the probabilities, or unnormalized weights at the normalized point; ``silent`` is always a logit.

        Examples
        --------
        >>> import mercer as mc
        >>> fair = mc.Categoricals([[[0.5, 0.5]]], alphabet="ab")
        >>> model = mc.models.PairHMMs([[1.0]], [[[0.5]]], [[0.5]], fair, silent=[[0.0]])
        >>> model.sequence_scores(["aab"])[0, 0]
        array([ 0. ,  0. ,  0.5, -0.5,  0.5, -0.5,  0. ])
        """
        check_parametrization(parametrization)
        self._require_axis()
        X = self.read(X)
        rows = [sequence_scores(self, c, X, parametrization) for c in range(len(self))]
        return np.stack(rows) if rows else np.empty((0, len(X), len(self.score_names())))

    def score_names(self) -> list[str]:
        """Name the columns of the Fisher scores."""
        states = range(self.n_states)
        steps = [name for i in states for name in [*(f"transition[{i}, {j}]" for j in states), f"stop[{i}]"]]
        emitted = [f"emission[{i}].{name}" for i in states for name in self.emission.score_names()]
        return [*(f"initial[{i}]" for i in states), "empty", *steps, *emitted, *(f"silent[{i}]" for i in states)]

    def sample(self, size: int = 1, random_state: Any = None) -> list[Sequences]:
        """Draw ``size`` strings from each model; the model determines their lengths.

        Examples
        --------
        >>> import mercer as mc
        >>> fair = mc.Categoricals([[[0.5, 0.5]]], alphabet="ab")
        >>> model = mc.models.PairHMMs([[1.0]], [[[0.8]]], [[0.2]], fair, silent=[[0.1]])
        >>> model.sample(3, random_state=1)
        [Sequences(3 sequences of symbols from ab, lengths 3 to 8)]
        """
        return [strings for (strings,) in self._drawn(size, random_state, 1)]

    def sample_pairs(self, size: int = 1, random_state: Any = None) -> list[tuple[Sequences, Sequences]]:
        """Draw ``size`` pairs of strings from each model; both strings of pair i share a trajectory."""
        return [(first, second) for first, second in self._drawn(size, random_state, 2)]

    def _drawn(self, size: int, random_state: Any, copies: int) -> list[tuple[Sequences, ...]]:
        from mercer.models._pairs.drawn import draw_strings

        self._require_axis()
        size = whole_size(size, "strings")
        rng = random_generator(random_state)
        return [draw_strings(Parameters.of(self, c), self.alphabet, size, copies, rng) for c in range(len(self))]


def _check_probabilities(values: Floats, name: str) -> None:
    """Raise if a number is not a probability."""
    bad = np.argwhere(~((values >= 0) & (values <= 1 + 1e-6)))
    if len(bad):
        where = tuple(map(int, bad[0]))
        raise ValueError(f"{name} must be a probability from 0 to 1; got {values[where]} at index {where}.")
