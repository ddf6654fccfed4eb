"""Markov chains fitted to sequences of symbols: relative frequencies of what follows what, with priors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from mercer._array import Floats, to_numpy
from mercer._checks import is_number
from mercer._probability import normalized
from mercer.data import Sequences
from mercer.data.windows import windows_of
from mercer.families.estimator import Context, Estimator
from mercer.models._fitting.mixture_steps import side_by_side
from mercer.models._markov.counts import n_heads, transitions_of
from mercer.models._markov.sparse import SparseLaws, SparseRows
from mercer.models.markov import MarkovChains, check_order

DENSE_ORDER = 2
"""Chains up to this order store all contexts, others those that they have seen."""


class MarkovChain(Estimator):
    r"""Fit Markov chains to sequences of symbols, one to each or one to all.

    Parameters
    ----------
    order : int, default=1
        Number of symbols that a chain remembers, 0 to 5.
    alphabet : Alphabet, str, iterable or None, default=None
        The symbols; None takes them from `Sequences` or finds them in the training data.
    unknown : {"raise", "missing"}, default="raise"
        What a symbol outside the alphabet is.
    end : bool, default=False
        Whether sequences end by themselves: a chain is then a law of sequences of all lengths.
    initial : {"first", "anywhere"}, default="first"
        What the law of the first ``order`` symbols is estimated from: the first symbols of the sequences, or all of
        their windows of as many symbols. One sequence begins only once.
    smoothing : float, default=0.0
        Added to every number that is counted (Laplace).
    prior : None, "pooled" or MarkovChains of shape (1,), default="pooled"
        What frequencies are shrunk to: nothing, one chain of all training data, or a given chain. To the chain of all
        data belongs one symbol of every row that is spread evenly, so that nothing new is impossible; it is also what
        ``fit`` learns.
    prior_strength : float, default=10.0
        Weight of the prior in every row, in symbols.

    Attributes
    ----------
    model_ : MarkovChains of shape (1,)
        What ``fit`` learned.
    context_ : Context
        The alphabet and, where it is the prior, the pooled chain.

    Notes
    -----
    The row of the context u is :math:`(s\,p_0(\cdot|u) + a + n(u\,\cdot)) / (s + a k + n(u))` with n the numbers
    that are counted, a the smoothing, s the strength of the prior and p0 its row (EST-1, EST-2b). A context that never
    occurred has the prior's row, without a prior a uniform one. Windows that hold an ambiguity code or a missing symbol
    are not counted; ``log_prob`` and the scores sum over what these may be.

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
    """

    takes: ClassVar[str] = "symbols"
    of_sequences: ClassVar[bool] = True

    def __init__(
        self,
        order: int = 1,
        alphabet: Any = None,
        unknown: str = "raise",
        end: bool = False,
        initial: str = "first",
        smoothing: float = 0.0,
        prior: Any = "pooled",
        prior_strength: float = 10.0,
    ) -> None:
        self.order = order
        self.alphabet = alphabet
        self.unknown = unknown
        self.end = end
        self.initial = initial
        self.smoothing = smoothing
        self.prior = prior
        self.prior_strength = prior_strength

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_order(self.order)
        if self.initial not in ("first", "anywhere"):
            raise ValueError(f"initial = {self.initial!r}: give 'first' or 'anywhere'")
        if not isinstance(self.end, bool | np.bool_):
            raise ValueError(f"end = {self.end!r}: give True where sequences end by themselves, else False")
        if self.initial == "anywhere" and self.end:
            raise ValueError("initial='anywhere' has no meaning for sequences that end: give initial='first'")
        if not is_number(self.smoothing) or self.smoothing < 0:
            raise ValueError(f"smoothing = {self.smoothing!r}: give what is added to every count, 0 or more")

    # -- what data share ---------------------------------------------------------------------------------

    def context(self, X: Sequences) -> Context:
        """Learn the alphabet and, where it is the prior, the chain of all sequences."""
        assert X.alphabet is not None
        bare = Context(dimension=len(X.alphabet), alphabet=X.alphabet)
        if not isinstance(self.prior, str):
            return bare
        alone = clone(self).set_params(prior=None)
        return replace(bare, pooled=alone._fit_together(X, bare, evenly=1.0))

    def _check_context(self, X: Sequences, context: Context) -> None:
        if X.alphabet != context.alphabet:
            raise ValueError(
                f"the sequences have the alphabet {X.alphabet}, the training data had {context.alphabet}: "
                "give alphabet= to the estimator, or make all data one mc.Sequences before splitting it"
            )

    def _check_data(self, X: Sequences, offsets: Floats) -> None:
        if self.prior is not None:
            return
        if not self.end:
            super()._check_data(X, offsets)
            short = np.flatnonzero(X.lengths < self.order)
            if len(short):
                raise ValueError(
                    f"{X.name(short[0])} has {X.lengths[short[0]]} symbols, fewer than the order {self.order}: leave "
                    "it out, lower the order, or give prior='pooled' so that it gets the prior"
                )
        nothing = np.setdiff1d(np.arange(len(X)), self._who_counts(X))
        if len(nothing):
            raise ValueError(
                f"nothing can be counted in {X.name(nothing[0])}: its missing or ambiguous symbols leave no "
                f"{self._least} next to each other; leave it out, or give prior='pooled' so that it gets the prior"
            )

    @property
    def _least(self) -> str:
        """Say how many plain symbols are the least that something can be counted in."""
        least = max(int(self.order), 1)
        return f"{least} plain symbol{'s' if least > 1 else ''}"

    def _who_counts(self, X: Sequences) -> Floats:
        """Return the sequences in which something is counted, a head or a transition."""
        k, ones = len(X.alphabet or ()), np.ones(len(X.values))
        movers = transitions_of(X.values, X.offsets, k, int(self.order), bool(self.end))[0]
        return np.union1d(movers, self._heads(X.values, ones, X.offsets, k)[0])

    def _given_prior(self, context: Context) -> Any:
        """Return the prior, a batch of shape ``(1,)``, or None."""
        prior = None if self.prior is None else self._prior_batch(context)
        if prior is None:
            return None
        wanted = {"order": int(self.order), "alphabet": context.alphabet, "end": bool(self.end)}
        if not isinstance(prior, MarkovChains):
            raise TypeError(f"the prior does not suit MarkovChain: it is a {type(prior).__name__}, not MarkovChains")
        for name, value in wanted.items():
            if getattr(prior, name) != value:
                raise ValueError(
                    f"the prior does not suit MarkovChain: its {name} is {getattr(prior, name)}, and {value} is fitted"
                )
        return prior

    # -- fitting -------------------------------------------------------------------------------------------

    def _fit_shared(self, X: Sequences, context: Context) -> MarkovChains:
        """Fit one chain to all sequences; the pooled prior of all data is that chain itself."""
        return context.pooled if isinstance(self.prior, str) else self._fit_together(X, context)

    def _fit_together(self, X: Sequences, context: Context, evenly: float = 0.0) -> MarkovChains:
        """Fit one chain to all sequences, and to ``evenly`` observations of every law that are spread evenly.

        A pooled chain has one of these, so that what no training sequence does is not impossible.
        """
        if len(X.values) == 0 and not self.end:
            raise ValueError("there is nothing to fit: every datum is empty")
        if not len(self._who_counts(X)):
            raise ValueError(
                f"there is nothing to fit: no sequence has {self._least} next to each other; give longer sequences, or "
                "lower the order"
            )
        nobody = np.zeros(len(X), dtype=int)
        return self._counted(X.values, np.ones(len(X.values)), X.offsets, nobody, 1, context, evenly)

    def _fit_alone(self, x: Any, offsets: Floats, context: Context) -> MarkovChains:
        return self._column(x, np.ones(len(x)), offsets, context)

    def _column(self, x: Any, weights: Floats, offsets: Floats, context: Context) -> MarkovChains:
        n = len(offsets) - 1
        return self._counted(np.asarray(x), weights, offsets, np.arange(n), n, context)

    def fit_weighted(
        self, x: Any, weights: Floats, offsets: Floats, context: Context, start: Any = None
    ) -> MarkovChains:
        """Fit to weighted sequences; a transition has the weight of its newest symbol."""
        columns = [self._column(x, weights[:, j], offsets, context).dense() for j in range(weights.shape[1])]
        joined: MarkovChains = side_by_side(columns)
        return joined

    def _counted(
        self, x: Floats, weights: Floats, offsets: Floats, model: Floats, n: int, context: Context, evenly: float = 0.0
    ) -> MarkovChains:
        """Count the transitions and heads of all sequences, for the ``model`` of each, and make chains of them."""
        k, order, end = context.dimension, int(self.order), bool(self.end)
        prior = self._given_prior(context)
        owner, window, position = transitions_of(x, offsets, k, order, end)
        weight = weights[position] if len(weights) else np.ones(len(position))
        who, head, head_weight = self._heads(x, weights, offsets, k)
        make = self._dense if order <= DENSE_ORDER else self._sparse
        moves, heads = (model[owner], window, weight), (model[who], head, head_weight)
        initial, transition = make(moves, heads, n, k, prior, evenly)
        return MarkovChains._make(
            initial=initial, transition=transition, order=order, alphabet=context.alphabet, end=end
        )

    def _heads(self, x: Floats, weights: Floats, offsets: Floats, k: int) -> tuple[Floats, Floats, Floats]:
        """List the heads that are counted: their sequences, their numbers and their weights."""
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
        for length in range(order):  # sequences that end before they have as many symbols
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

    def _dense(self, moves: Any, heads: Any, n: int, k: int, prior: Any, evenly: float) -> tuple[Floats, Floats]:
        order, width = int(self.order), k + bool(self.end)
        laws = []
        for (model, cell, weight), shape in ((heads, (n_heads(k, order, self.end),)), (moves, (k**order, width))):
            size = int(np.prod(shape))
            table = np.bincount(model * size + cell, weights=weight, minlength=n * size).reshape(n, *shape)
            laws.append(table + self.smoothing + evenly / shape[-1])
        fallback: list[Any] = [1.0 / law.shape[-1] for law in laws]
        if prior is not None:
            given = prior.dense()
            fallback = [to_numpy(given.initial)[0], to_numpy(given.transition)[0]]
            laws = [law + self.prior_strength * table for law, table in zip(laws, fallback, strict=True)]
        return normalized(laws[0], fallback[0]), normalized(laws[1], fallback[1])

    def _sparse(
        self, moves: Any, heads: Any, n: int, k: int, prior: Any, evenly: float
    ) -> tuple[SparseLaws, SparseRows]:
        contexts, width = k ** int(self.order), k + bool(self.end)
        strength = 0.0 if prior is None else float(self.prior_strength)
        places, place_rows = _explicit_rows(prior, width)
        model, window, weight = moves
        seen, row = np.unique(model * contexts + window // width, return_inverse=True)
        cells = np.bincount(row * width + window % width, weights=weight, minlength=len(seen) * width)
        counts = cells.reshape(len(seen), width) + self.smoothing + evenly / width
        owner, context = np.divmod(seen, contexts)
        empty = np.zeros(1, dtype=np.int64)
        shared = SparseRows(np.empty((0, width)), empty[:0], empty, place_rows, places, contexts)
        fallback = shared.shared_rows(context)
        rows = normalized(counts + strength * fallback, fallback)
        unseen = normalized(strength * place_rows + self.smoothing, place_rows)
        transition = SparseRows(rows, context, _pointers(owner, n), unseen, places, contexts)
        size = n_heads(k, int(self.order), self.end)
        return self._sparse_laws(heads, n, size, prior, strength, self.smoothing * size + evenly), transition

    def _sparse_laws(self, heads: Any, n: int, size: int, prior: Any, strength: float, even: float) -> SparseLaws:
        places, values, uniform = _explicit_law(prior)
        model, head, weight = heads
        seen, entry = np.unique(model * size + head, return_inverse=True)
        counts = np.bincount(entry, weights=weight, minlength=len(seen))
        owner, place = np.divmod(seen, size)
        total = np.bincount(owner, weights=counts, minlength=n) + even + strength
        nobody = total <= 0
        safe = np.where(nobody, 1.0, total)
        from_prior = np.where(nobody, 0.0 if prior is None else 1.0, strength / safe)
        from_uniform = np.where(nobody, 1.0 if prior is None else 0.0, even / safe)
        shares = np.stack([from_prior, from_uniform + from_prior * uniform], axis=1)
        return SparseLaws(counts / safe[owner], place, _pointers(owner, n), values, places, size, shares)

    def score_samples(self, X: Any) -> Floats:
        """Log probability of every sequence under the chain that ``fit`` learned."""
        check_is_fitted(self, "model_")
        return to_numpy(self.model_.log_prob(self.accept(X, context=self.context_)))[0]


def _pointers(owner: Floats, n: int) -> Floats:
    """Return where the entries of every chain begin, and where the last ones end; owners ascend."""
    return np.searchsorted(owner, np.arange(n + 1))


def _explicit_rows(prior: Any, width: int) -> tuple[Floats, Floats]:
    """Return the contexts of a prior and their rows; other contexts have a uniform one."""
    if prior is None:
        return np.empty(0, dtype=np.int64), np.empty((0, width))
    if prior.sparse:
        places, rows = prior.transition.merged(0)
        return places, rows
    return np.arange(prior.n_contexts), to_numpy(prior.transition)[0]


def _explicit_law(prior: Any) -> tuple[Floats, Floats, float]:
    """Return the heads of a prior, their probabilities, and its share of a uniform law beside these."""
    if prior is None:
        return np.empty(0, dtype=np.int64), np.empty(0), 0.0
    if prior.sparse:
        places, values, uniform = prior.initial.merged(0)
        return places, values, uniform
    law = to_numpy(prior.initial)[0]
    return np.arange(len(law)), law, 0.0
