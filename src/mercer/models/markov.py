"""Batches of Markov chains of order 0 to 5: probabilities, sampling, scores, and couplings of two chains."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from array_api_compat import is_numpy_array

from mercer._array import Array, Floats, Indices, Mask, beside, inner_logs, namespace, safe_log, to_numpy
from mercer._batch import Batch
from mercer._checks import check_rho
from mercer._coupling import Coupling, Operand, PowerProduct
from mercer._probability import checked_probability, drawn
from mercer._random import random_generator, whole_size
from mercer.data import Alphabet, Sequences
from mercer.models._chains.characteristic import chain_characteristic
from mercer.models._markov.contexts import LONGEST, Tie, Words, canonical, from_header, tie_of
from mercer.models._markov.counts import counted, heads_of, n_heads
from mercer.models._markov.operand import ProductOperand, check_cells, gram_operand, on_grams
from mercer.models._markov.readings import Chain, in_parts
from mercer.models._markov.scores import sequence_scores
from mercer.models.discount import check_lengths
from mercer.models.inference import read
from mercer.models.posterior import long_run_of_contexts
from mercer.models.verbs import HasCriteria

if TYPE_CHECKING:
    from mercer.models.markov_estimator import MarkovChain

SPARSE_ORDER = 3
"""Chains of this order and above have sparse scores, because few contexts occur in a sequence."""
MODEL_CELLS = 1 << 22
"""Maximum number of log probabilities of windows in memory at once."""


class MarkovChains(HasCriteria, Batch):
    r"""A batch of Markov chains over one alphabet.

    Parameters
    ----------
    initial : array of shape (..., k^order) or None
        Distribution of the first ``order`` symbols, read as digits with the oldest first; None for order 0. With
        ``end``, the probabilities of all shorter sequences follow, by length: ``1 + k + ... + k^(order-1)`` more.
    transition : array of shape (..., k^order, k)
        ``transition[..., u, s]`` is the probability of the symbol s after the context u, the last ``order`` symbols.
        With ``end``, a last column has the probability that the sequence ends.
    order : int, default=1
        Number of previous symbols that a symbol depends on.
    alphabet : Alphabet, str or iterable, default=None
        The k symbols; None means the integers 0 .. k-1.
    end : bool, default=False
        Whether the chains are distributions over sequences of all lengths, with probabilities of the end.
    contexts : list of str, or of lists of symbols, default=None
        Contexts of at most ``order`` symbols, the oldest first, with the empty one among them: rows of ``transition``
        whose longest kept suffix is the same must be equal, and have one score. None keeps all contexts of ``order``
        symbols.

    Notes
    -----
    Two chains are coupled on sequences of ``length`` symbols. Probability product (PPK-4.2a), exact for every rho:

    .. math:: k = v M^{L-m} 1,\quad v = (\pi\circ\pi')^\rho,\quad M = (A\circ A')^\rho

    on contexts of m = ``order`` symbols. With ``end``, the sum is over sequences that end after ``length`` symbols.
    Mean map: GMMK-5.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> sticky, restless = [[0.9, 0.1], [0.1, 0.9]], [[0.1, 0.9], [0.9, 0.1]]
    >>> p = mc.MarkovChains(
    ...     initial=[[0.5, 0.5]] * 2, transition=[sticky, restless], alphabet="ab"
    ... )
    >>> np.exp(p.log_prob(["aab", "aba"])).round(3)
    array([[0.045, 0.005],
           [0.045, 0.405]])
    >>> mc.ProbabilityProduct(rho=0.5, length=3)(p).round(2)
    array([[1.  , 0.36],
           [0.36, 1.  ]])
    """

    _arrays: ClassVar[dict[str, int]] = {"initial": 1, "transition": 2}
    _shared: ClassVar[tuple[str, ...]] = ("order", "alphabet", "end", "contexts")
    _from_header: ClassVar[dict[str, Any]] = {"alphabet": Alphabet.from_header, "contexts": from_header}
    emits_sequences: ClassVar[bool] = True

    initial: Any
    transition: Any
    order: int
    alphabet: Alphabet
    end: bool
    contexts: Words | None = None

    def __init__(
        self,
        initial: Any,
        transition: Any,
        order: int = 1,
        alphabet: Any = None,
        end: bool = False,
        contexts: Any = None,
    ) -> None:
        check_order(order)
        transition = checked_probability(transition, "transition")
        if initial is None and order == 0:
            initial = namespace(transition).ones_like(transition[..., 0])
        initial = checked_probability(initial, "initial")
        k = int(transition.shape[-1]) - bool(end)
        symbols = Alphabet.of(range(k) if alphabet is None else alphabet)
        if len(symbols) != k:
            raise ValueError(
                f"transition must have one probability per row for each of the {len(symbols)} symbols"
                f"{' and the end' if end else ''}; got {transition.shape[-1]}."
            )
        batch = tuple(transition.shape[:-2])
        wanted = (*batch, n_heads(k, order, end)), (*batch, k**order, k + bool(end))
        for name, value, shape in (("initial", initial, wanted[0]), ("transition", transition, wanted[1])):
            if tuple(value.shape) != shape:
                raise ValueError(
                    f"{name} must have shape {shape} for chains of order {order} over {k} symbols; got "
                    f"{tuple(value.shape)}."
                )
        words = None if contexts is None else canonical(contexts, symbols, int(order))
        if words is not None:
            _check_tied(to_numpy(transition), tie_of(words, symbols, int(order)))
        self._freeze(
            initial=initial, transition=transition, order=int(order), alphabet=symbols, end=bool(end), contexts=words
        )

    def __repr__(self) -> str:
        if self.contexts is None:
            return super().__repr__()
        return f"{self._replaced(contexts=None)!r}"[:-1] + f", {len(self.contexts)} contexts)"

    def _shared_header(self) -> dict[str, Any]:
        """Leave out contexts that are not there, as files did before there were any."""
        header = super()._shared_header()
        return {name: value for name, value in header.items() if name != "contexts" or value is not None}

    @property
    def _tie(self) -> Tie | None:
        return None if self.contexts is None else tie_of(self.contexts, self.alphabet, self.order)

    @property
    def dimension(self) -> int:
        """Number of symbols."""
        return len(self.alphabet)

    @property
    def n_contexts(self) -> int:
        """Number of contexts, k^order."""
        return len(self.alphabet) ** self.order

    @property
    def n_parameters(self) -> int:
        """Number of free parameters of one chain, including contexts that did not occur."""
        k, tie = len(self.alphabet), self._tie
        rows = self.n_contexts if tie is None else len(tie.kept)
        return n_heads(k, self.order, self.end) - 1 + rows * (k + self.end - 1)

    @property
    def accepts_empty(self) -> bool:
        """Whether an empty sequence has an observation: its end."""
        return self.end

    def estimator(self) -> MarkovChain:
        """Return an estimator that accepts the sequences of these chains."""
        from mercer.models.markov_estimator import MarkovChain

        return MarkovChain(order=self.order, alphabet=self.alphabet, end=self.end, contexts=self.contexts)

    def read(self, X: Any) -> Sequences:
        """Convert ``X`` to sequences of the alphabet."""
        return read(self, X)

    # -- probabilities -------------------------------------------------------------------------------------

    def log_prob(self, X: Any) -> Array:
        """Log probability of each sequence under each chain, ``(N, M)``.

        The probability of a sequence shorter than the order is the sum over its continuations (with ``end``, its own
        probability); that of an empty sequence is 1. Ambiguity codes and missing symbols are marginalized.

        Parameters
        ----------
        X : Sequences, or anything that converts to them
            M sequences.

        Examples
        --------
        >>> import numpy as np, mercer as mc
        >>> p = mc.MarkovChains([[0.5, 0.5]], [[[0.9, 0.1], [0.2, 0.8]]], alphabet="ab")
        >>> np.exp(p.log_prob(["aa", "ab", "a"])).round(4)
        array([[0.45, 0.05, 0.5 ]])
        """
        self._require_axis()
        X = self.read(X)
        usual = self._usual(X)
        if usual.all():
            return self._log_prob_of_windows(X)
        out = np.empty((len(self), len(X)))
        out[:, usual] = to_numpy(self._log_prob_of_windows(X[usual]))
        self._sum_over_readings(X[~usual], out, np.flatnonzero(~usual))
        return out if is_numpy_array(self.initial) else beside(self.initial, out)

    def _usual(self, X: Sequences) -> Mask:
        """Whether each sequence contains only plain symbols, at least as many as the order."""
        uncertain = np.zeros(len(X), dtype=bool)
        uncertain[np.repeat(np.arange(len(X)), X.lengths)[X.values >= len(self.alphabet)]] = True
        return ~uncertain & (X.lengths >= self.order)

    def _log_prob_of_windows(self, X: Sequences) -> Array:
        """Sum log probabilities over all windows, as a product of their counts with a table of logarithms."""
        windows, counts = counted(X, len(self.alphabet), self.order, self.end)
        heads, head = np.unique(heads_of(X, len(self.alphabet), self.order), return_inverse=True)
        contexts, symbols = np.divmod(windows, len(self.alphabet) + self.end)
        if not is_numpy_array(self.initial):
            xp, width = namespace(self.initial), self.transition.shape[-1]
            flat = xp.reshape(self.transition, (len(self), -1))
            rows = xp.take(flat, beside(flat, contexts * width + symbols), axis=1)
            first = xp.take(self.initial, beside(self.initial, heads[head]), axis=1)
            logs = inner_logs(beside(flat, counts.toarray(), flat.dtype), safe_log(rows))
            return safe_log(first) + xp.matrix_transpose(logs)
        out = np.empty((len(self), len(X)))
        step = max(1, MODEL_CELLS // max(len(windows), 1))
        for begin in range(0, len(self), step):
            chunk = slice(begin, begin + step)
            logs = safe_log(self.transition[chunk][:, contexts, symbols])
            possible = np.isfinite(logs)
            out[chunk] = (counts @ np.where(possible, logs, 0.0).T).T
            if not possible.all():
                out[chunk][(counts @ (~possible).astype(float).T).T > 0] = -np.inf
            out[chunk] += safe_log(self.initial[chunk][:, heads])[:, head]
        return out

    def _lookup(self, i: int) -> Chain:
        """Return chain ``i`` for sums over readings."""
        return Chain(to_numpy(self.initial[i]), to_numpy(self.transition[i]), self.order, self.end)

    def _sum_over_readings(self, X: Sequences, out: Floats, columns: Indices) -> None:
        """Fill the columns of sequences with ambiguous symbols, or shorter than the order, by a forward recursion."""
        for part, readings in in_parts(X, self.alphabet, self.order, self.end):
            for i in range(len(self)):
                out[i, columns[part]] = readings.log_probabilities(self._lookup(i))

    def stationary(self) -> Floats:
        """Return the long-run distribution of the contexts, from the initial distribution on, ``(N, k^order)``.

        This is the time average of the distributions of the last ``order`` symbols (the Cesaro limit). If the
        stationary distribution is unique, the result equals it.
        """
        self._require_axis()
        if self.end:
            raise ValueError("Chains with end=True have no stationary distribution. Fit them with end=False.")
        return long_run_of_contexts(self)

    def sample(self, length: int, size: int = 1, random_state: Any = None) -> Floats:
        """Sample ``size`` sequences of ``length`` symbols from each chain, as codes ``(N, size, length)``.

        With ``end``, sequences that end earlier are padded with -1, and none is longer than ``length``.
        `Sequences.from_codes` converts the codes to sequences.

        Examples
        --------
        >>> import mercer as mc
        >>> p = mc.MarkovChains([[1.0, 0.0]], [[[0.0, 1.0], [1.0, 0.0]]], alphabet="ab")
        >>> list(mc.Sequences.from_codes(p.sample(4, 2)[0], p.alphabet))
        ['abab', 'abab']
        """
        self._require_axis()
        length = whole_size(length, "symbols", name="length", least=1)
        size = whole_size(size, "sequences")
        rng = random_generator(random_state)
        out = np.empty((len(self), size, length), dtype=int)
        for i in range(len(self)):
            out[i] = self._sampled(self._lookup(i), length, rng.random((size, length + 1)))
        return out

    def _sampled(self, chain: Chain, length: int, uniform: Floats) -> Floats:
        k, upper = len(self.alphabet), np.cumsum(chain.rows, axis=-1)
        codes = np.full((len(uniform), self.order + length), -1)
        top = np.cumsum(chain.initial)
        # The head is the first ``order`` symbols, or a whole sequence that is shorter than the order.
        head = np.searchsorted(top, uniform[:, 0] * top[-1], side="right").clip(0, len(top) - 1)
        running, base = head < self.n_contexts, self.n_contexts
        for j in range(self.order):
            codes[running, j] = head[running] // k ** (self.order - 1 - j) % k
        for n in range(self.order if self.end else 0):
            ended = (head >= base) & (head < base + k**n)
            for j in range(n):
                codes[ended, j] = (head[ended] - base) // k ** (n - 1 - j) % k
            base += k**n
        context = np.where(running, head, 0)
        for t in range(max(length - self.order, 0)):
            symbol = drawn(upper[context], uniform[:, 1 + t])
            running &= symbol < k
            codes[running, self.order + t] = symbol[running]
            context = np.where(running, (context * k + symbol) % self.n_contexts, context)
        return codes[:, :length]

    # -- kernels -------------------------------------------------------------------------------------------

    def sequence_scores(self, X: Any, parametrization: str = "logit", *, sparse: bool | str = "auto") -> Any:
        """Fisher scores of sequences in the rows of ``transition``, ``(N, M, k^order * w)`` (FK-6, FK-7).

        With ``contexts``, there is one row for each of those that are the longest kept suffix of some past. The scores
        are conditional on the first ``order`` symbols (FK-6). With n(u s) the number of times that s follows
        u, ``"logit"`` is n(u s) - p(s|u) n(u), ``"weight"`` is n(u s) / p(s|u) - n(u). Ambiguous and missing symbols
        contribute expected counts. A sequence of probability zero has no score and raises an error.

        Parameters
        ----------
        X : Sequences, or anything that converts to them
            M sequences.
        parametrization : {"logit", "weight"}, default="logit"
            Parametrization of the probabilities (FK-0).
        sparse : bool or "auto", default="auto"
            Whether to return a SciPy CSR array of shape ``(N M, P)``, chain by chain; the scores of contexts that do
            not occur are zero. "auto" returns one from order 3 on.

        Examples
        --------
        >>> import mercer as mc
        >>> p = mc.MarkovChains([[0.5, 0.5]], [[[0.5, 0.5], [0.5, 0.5]]], alphabet="ab")
        >>> p.sequence_scores(["aab"])
        array([[[0., 0., 0., 0.]]])
        """
        self._require_axis()
        if not isinstance(sparse, bool | np.bool_) and not (isinstance(sparse, str) and sparse == "auto"):
            raise ValueError(f"sparse must be True, False or 'auto'; got {sparse!r}.")
        as_sparse = self.order >= SPARSE_ORDER if isinstance(sparse, str) else bool(sparse)
        return sequence_scores(self, self.read(X), parametrization, as_sparse)

    def score_names(self) -> list[str]:
        """Return the names of the columns of the scores, such as "transition[ab, c]": c after the context ab."""
        symbols = [str(symbol) for symbol in self.alphabet.symbols]
        between = "" if all(len(symbol) == 1 for symbol in symbols) else " "
        tie = self._tie
        words: Any = product(symbols, repeat=self.order) if tie is None else tie.kept
        contexts = [between.join(map(str, word)) for word in words]
        outcomes = [*symbols, "end"] if self.end else symbols
        return [f"transition[{context}{', ' if context else ''}{s}]" for context in contexts for s in outcomes]

    def couple(self, coupling: Coupling, lengths: Any = None) -> Operand:
        """Prepare for a coupling over sequences of each of the ``lengths``, or of all lengths (`Discounted`)."""
        self._require_axis()
        check_lengths(lengths)
        if isinstance(coupling, PowerProduct):
            check_rho(coupling.rho)
            check_cells(self)
            return ProductOperand(self, float(coupling.rho), lengths)
        return gram_operand(self, coupling, lengths)

    def log_characteristic(self, frequencies: Floats) -> tuple[Array, Array]:
        """Log modulus and angle of E exp(i sum_t w_t[y_t]) at each of ``frequencies (F, T, k)``, each ``(N, F)``.

        Symbols are one-hot encoded: a frequency has one number per step and symbol.
        """
        return chain_characteristic(*on_grams(self), frequencies)


def check_order(order: Any) -> None:
    """Raise if ``order`` is not a whole number from 0 to 5."""
    if isinstance(order, bool) or not isinstance(order, int | np.integer) or not 0 <= order <= LONGEST:
        raise ValueError(f"order must be a whole number from 0 to {LONGEST}; got {order!r}.")


def _check_tied(transition: Floats, tie: Tie) -> None:
    """Raise if rows of contexts with the same longest kept suffix differ."""
    differ = np.abs(transition - transition[..., tie.first[tie.row], :]).max(axis=-1) > 1e-12
    if differ.any():
        u = int(np.argwhere(differ)[0][-1])
        raise ValueError(
            f"transition must have the same row for all pasts whose longest kept suffix is {tie.kept[tie.row[u]]!r}; "
            f"the rows {tie.first[tie.row[u]]} and {u} differ. Fit chains with mc.MarkovChain(contexts=...), or "
            "leave contexts out."
        )
