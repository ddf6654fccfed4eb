"""The estimator of Markov chains: relative frequencies of transitions, with priors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from mercer._array import Floats, Indices, to_numpy
from mercer._checks import is_whole
from mercer._parameters import Rules, boolean, nonnegative, one_of
from mercer._probability import normalized
from mercer.data import Sequences
from mercer.data.alphabet import ALPHABET
from mercer.data.ragged import windows_of
from mercer.data.segments import check_some_points
from mercer.families.estimator import Context, Estimator
from mercer.models._fitting.mixture_steps import side_by_side
from mercer.models._markov.contexts import Tie, Words, canonical, check_contexts, frequent, tie_of
from mercer.models._markov.counts import CELLS, n_heads, transitions_of
from mercer.models.markov import MarkovChains, check_order


@dataclass(eq=False, repr=False)
class MarkovChain(Estimator):
    r"""Fit Markov chains to sequences of symbols, one to each or one to all.

    Parameters
    ----------
    order : int, default=1
        Number of previous symbols that a symbol depends on, 0 to 5.
    alphabet : Alphabet, str, iterable or None, default=None
        The symbols; None takes them from `Sequences` or infers them from the training data.
    unknown : {"raise", "missing"}, default="raise"
        Whether a symbol outside the alphabet raises an error or is a missing symbol.
    end : bool, default=False
        Whether to model the ends of sequences: a chain is then a distribution over sequences of all lengths.
    initial : {"first", "anywhere"}, default="first"
        How the distribution of the first ``order`` symbols is estimated: from the first symbols of each sequence, or
        from all windows of ``order`` symbols. A sequence has only one start, so "anywhere" uses more data.
    smoothing : float, default=0.0
        Pseudo-count added to each count (Laplace smoothing).
    contexts : None, int or list, default=None
        Contexts of different lengths, up to ``order`` symbols: the context of a position is the longest kept one that
        is a suffix of its past. A list of strings, or of lists of symbols, the oldest first, with the empty context
        among them; or the smallest number of times that a context must occur in the training data to be kept. None
        keeps all contexts of ``order`` symbols.
    prior : None, "pooled" or MarkovChains of shape (1,), default="pooled"
        What frequencies are shrunk to: nothing, one chain of all training data, or a given chain. The pooled chain
        includes one additional symbol per row, spread evenly, so that all transitions are possible. It is also the
        chain that ``fit`` learns.
    prior_strength : float, default=10.0
        Weight of the prior in each row, in symbols.

    Attributes
    ----------
    model_ : MarkovChains of shape (1,)
        The chain learned by ``fit``.
    context_ : Context
        The alphabet and, with a pooled prior, the pooled chain.

    Notes
    -----
    The row of the context u is :math:`(s\,p_0(\cdot|u) + a + n(u\,\cdot)) / (s + a k + n(u))`, with n the counts, a the
    smoothing, s the strength of the prior and p0 its row (EST-1, EST-2b). With ``contexts`` (FK-6, remark 12.33 of the
    source), n(u s) counts s at all positions whose longest kept suffix is u. A context that did not occur has the row
    of the prior, or a uniform row without a prior. Windows with an ambiguity code or a missing symbol are not counted;
    ``log_prob`` and the scores marginalize them.

    Examples
    --------
    >>> import mercer as mc
    >>> p = mc.MarkovChain(order=1, alphabet="ab", prior=None).fit_each(["aabab", "bbbba"])
    >>> p.transition.round(2)
    array([[[0.33, 0.67],
            [1.  , 0.  ]],
    <BLANKLINE>
           [[0.5 , 0.5 ],
            [0.25, 0.75]]])
    >>> chain = mc.MarkovChain(order=2, alphabet="ab", contexts=["", "a", "ba"])
    >>> # the empty context is that of all positions after b
    >>> chain.fit(["aabab", "bbbba"]).model_.score_names()[::2]
    ['transition[a]', 'transition[a, a]', 'transition[ba, a]']
    """

    takes: ClassVar[str] = "symbols"
    of_sequences: ClassVar[bool] = True
    quick_scores: ClassVar[bool] = True

    _parameters: ClassVar[Rules] = {
        "alphabet": ALPHABET,
        "unknown": one_of("raise", "missing"),
        "order": lambda name, value: check_order(value),
        "initial": one_of("first", "anywhere"),
        "end": boolean("True is for sequences that end by themselves."),
        "smoothing": nonnegative("It is added to every count."),
        "contexts": check_contexts,
    }

    order: int = 1
    alphabet: Any = None
    unknown: str = "raise"
    end: bool = False
    initial: str = "first"
    smoothing: float = 0.0
    contexts: Any = None
    prior: Any = "pooled"
    prior_strength: float = 10.0

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.initial == "anywhere" and self.end:
            raise ValueError("initial must be 'first' with end=True; got 'anywhere'. Use initial='first'.")

    @property
    def accepts_empty(self) -> bool:
        """Whether an empty sequence has an observation: its end."""
        return bool(self.end)

    # -- context and checks ------------------------------------------------------------------------------

    def context(self, X: Sequences) -> Context:
        """Learn the alphabet and, with a pooled prior, the chain of all sequences."""
        assert X.alphabet is not None
        bare = Context(dimension=len(X.alphabet), alphabet=X.alphabet)
        if not isinstance(self.prior, str) and not is_whole(self.contexts):
            return bare
        # the pooled chain has the contexts that were chosen, also where it is not the prior
        unshrunk = self.for_classes(X).set_params(prior=None)
        return replace(bare, pooled=unshrunk._fit_together(X, bare, evenly=1.0))

    def for_classes(self, X: Sequences) -> MarkovChain:
        """Return the estimator for parts of the data, such as classes: its contexts are chosen from all of ``X``."""
        if not is_whole(self.contexts):
            return clone(self)
        assert X.alphabet is not None
        found = frequent(X, X.alphabet, int(self.order), bool(self.end), int(self.contexts))
        return clone(self).set_params(contexts=found)

    def _words(self, context: Context) -> Words | None:
        """Return the kept contexts, given or chosen; None if all are."""
        if is_whole(self.contexts):
            found: Words | None = context.pooled.contexts
            return found
        alphabet = context.alphabet
        assert alphabet is not None
        return None if self.contexts is None else canonical(self.contexts, alphabet, int(self.order))

    def _check_context(self, X: Sequences, context: Context) -> None:
        if X.alphabet != context.alphabet:
            raise ValueError(
                f"The sequences must have the alphabet of the training data, {context.alphabet}; got {X.alphabet}. "
                "Pass alphabet= to the estimator, or create one mc.Sequences of all data before splitting it."
            )

    def _check_data(self, X: Sequences, offsets: Floats) -> None:
        if self.prior is not None:
            return
        if not self.end:
            super()._check_data(X, offsets)
            short = np.flatnonzero(X.lengths < self.order)
            if len(short):
                raise ValueError(
                    f"{X.name(short[0])} has {X.lengths[short[0]]} symbols, fewer than the order {self.order}. Leave "
                    "it out, lower the order, or use prior='pooled' to give it the prior."
                )
        without_counts = np.setdiff1d(np.arange(len(X)), self._with_counts(X))
        if len(without_counts):
            raise ValueError(
                f"{X.name(without_counts[0])} has no {self._least}, because of missing or ambiguous symbols. Leave it "
                "out, or use prior='pooled' to give it the prior."
            )

    @property
    def _least(self) -> str:
        """Return the smallest run of plain symbols that can be counted, for messages."""
        return "plain symbols" if self.order <= 1 else f"{self.order} consecutive plain symbols"

    def _with_counts(self, X: Sequences) -> Indices:
        """Return the sequences with at least one head or transition to count."""
        k, ones = len(X.alphabet or ()), np.ones(len(X.values))
        movers = transitions_of(X.values, X.offsets, k, int(self.order), bool(self.end))[0]
        return np.union1d(movers, self._heads(X.values, ones, X.offsets, k)[0])

    def _given_prior(self, context: Context) -> Any:
        """Return the prior, a batch of shape ``(1,)``, or None."""
        prior = None if self.prior is None else self._prior_batch(context)
        if prior is None:
            return None
        wanted = {
            "order": int(self.order),
            "alphabet": context.alphabet,
            "end": bool(self.end),
            "contexts": self._words(context),
        }
        if not isinstance(prior, MarkovChains):
            raise TypeError(f"prior must be MarkovChains of shape (1,); got {type(prior).__name__}.")
        for name, value in wanted.items():
            if getattr(prior, name) != value:
                raise ValueError(
                    f"The prior does not suit MarkovChain: its {name} must be {value}; got {getattr(prior, name)}."
                )
        return prior

    # -- fitting -------------------------------------------------------------------------------------------

    def _fit_shared(self, X: Sequences, context: Context) -> MarkovChains:
        """Fit one chain to all sequences; a pooled prior is that chain itself."""
        return context.pooled if isinstance(self.prior, str) else self._fit_together(X, context)

    def _fit_together(self, X: Sequences, context: Context, evenly: float = 0.0) -> MarkovChains:
        """Fit one chain to all sequences, and to ``evenly`` additional observations per row, spread evenly.

        A pooled chain has one of these per row, so that all transitions are possible.
        """
        if not self.end:
            check_some_points(X)
        if not len(self._with_counts(X)):
            raise ValueError(
                f"There is nothing to fit: no sequence has {self._least}. Pass longer sequences, or lower the order."
            )
        model = np.zeros(len(X), dtype=int)
        return self._counted(X.values, np.ones(len(X.values)), X.offsets, model, 1, context, evenly)

    def _fit_alone(self, x: Any, offsets: Floats, context: Context) -> MarkovChains:
        return self._column(x, np.ones(len(x)), offsets, context)

    def _column(self, x: Any, weights: Floats, offsets: Floats, context: Context) -> MarkovChains:
        n = len(offsets) - 1
        return self._counted(np.asarray(x), weights, offsets, np.arange(n), n, context)

    def fit_weighted(
        self, x: Any, weights: Floats, offsets: Floats, context: Context, start: Any = None
    ) -> MarkovChains:
        """Fit to weighted sequences; the weight of a transition is that of its last symbol."""
        columns = [self._column(x, weights[:, j], offsets, context) for j in range(weights.shape[1])]
        joined: MarkovChains = side_by_side(columns)
        return joined

    def _counted(
        self, x: Floats, weights: Floats, offsets: Floats, model: Floats, n: int, context: Context, evenly: float = 0.0
    ) -> MarkovChains:
        """Count the transitions and heads of all sequences, per ``model``, and estimate chains from them."""
        k, order, end = context.dimension, int(self.order), bool(self.end)
        prior = self._given_prior(context)
        owner, window, position = transitions_of(x, offsets, k, order, end)
        weight = weights[position] if len(weights) else np.ones(len(position))
        head_owner, head, head_weight = self._heads(x, weights, offsets, k)
        moves, heads = (model[owner], window, weight), (model[head_owner], head, head_weight)
        words, alphabet = self._words(context), context.alphabet
        assert alphabet is not None
        tie = None if words is None else tie_of(words, alphabet, order)
        initial, transition = self._estimated(moves, heads, n, k, prior, evenly, tie)
        return MarkovChains._make(
            initial=initial, transition=transition, order=order, alphabet=alphabet, end=end, contexts=words
        )

    def _heads(self, x: Floats, weights: Floats, offsets: Floats, k: int) -> tuple[Floats, Floats, Floats]:
        """Return the heads to count: their sequences, codes and weights."""
        order, lengths = int(self.order), np.diff(offsets)
        if order == 0:
            nothing = np.empty(0, dtype=np.int64)
            return nothing, nothing, np.empty(0)
        found = windows_of(x, offsets, k, order)
        keep = slice(None) if self.initial == "anywhere" else found.start == offsets[:-1][found.owner]
        owner, head, at = found.owner[keep], found.code[keep], found.start[keep] + order - 1
        weight = weights[at] if len(weights) else np.ones(0)
        if not self.end:
            return owner, head, weight
        base = k**order
        for length in range(order):  # sequences shorter than the order
            short = np.flatnonzero(lengths == length)
            code, plain = np.zeros(len(short), dtype=np.int64), np.ones(len(short), dtype=bool)
            for j in range(length):
                symbol = x[offsets[short] + j]
                plain &= symbol < k
                code = code * k + symbol
            owner, head = np.append(owner, short[plain]), np.append(head, base + code[plain])
            last = weights[offsets[short[plain]] + length - 1] if length else np.ones(int(plain.sum()))
            weight, base = np.append(weight, last), base + k**length
        return owner, head, weight

    def _estimated(
        self, moves: Any, heads: Any, n: int, k: int, prior: Any, evenly: float, tie: Tie | None
    ) -> tuple[Floats, Floats]:
        """Estimate ``initial`` and ``transition`` of n chains from weighted counts: models, cells and weights."""
        order, width = int(self.order), k + bool(self.end)
        if n * k**order * width > CELLS:
            raise ValueError(
                f"{n} Markov chains of order {order} over {k} symbols have {n * k**order * width:.3g} transitions, of "
                f"at most {CELLS:.3g}. Lower the order, use fewer chains, or mc.Spectrum(k={order + 1}), which counts "
                "observed words only."
            )
        tables = []
        for (model, cell, weight), shape in ((heads, (n_heads(k, order, self.end),)), (moves, (k**order, width))):
            size = int(np.prod(shape))
            table = np.bincount(model * size + cell, weights=weight, minlength=n * size).reshape(n, *shape)
            if tie is not None and len(shape) == 2:
                table = tie.summed(table)
            tables.append(table + (self.smoothing + evenly / shape[-1]))
        fallback: list[Any] = [1.0 / table.shape[-1] for table in tables]
        if prior is not None:
            rows = to_numpy(prior.transition)[0]
            fallback = [to_numpy(prior.initial)[0], rows if tie is None else rows[tie.first]]
            tables = [table + self.prior_strength * p for table, p in zip(tables, fallback, strict=True)]
        transition = normalized(tables[1], fallback[1])
        return normalized(tables[0], fallback[0]), transition if tie is None else transition[:, tie.row]
