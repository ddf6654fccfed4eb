"""Categorical distributions over an alphabet of symbols."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from scipy.special import xlogy

from mercer._array import Array, Floats, beside, namespace, safe_log, to_numpy
from mercer._checks import check_gamma, check_rho
from mercer._coupling import Coupling, InnerLeaf, Leaf, Operand, PowerProduct, Smoothed
from mercer._parameters import Rules, one_of
from mercer._probability import checked_probability, drawn, normalized
from mercer._random import random_generator, whole_size
from mercer.data import Alphabet, Sequences
from mercer.data.alphabet import ALPHABET
from mercer.data.csr import CSRRows
from mercer.data.segments import sample_name, segment_sum
from mercer.families._simplex import Simplex
from mercer.families.estimator import Context, Estimator
from mercer.families.fit import FamilyEstimator


class Categoricals(Simplex):
    r"""A batch of categorical distributions.

    Parameters
    ----------
    probability : array of shape (..., k)
        Rows that sum to one.
    alphabet : Alphabet, str or iterable, default=None
        The k symbols; None stands for the integers 0 .. k-1.

    Notes
    -----
    Probability product (PPK-3.3) :math:`\sum_d (a_d a'_d)^\rho` and mean map (GMMK-1)
    :math:`(1-e)\langle a,a'\rangle + e`, :math:`e = \exp(-2\gamma)`.

    Examples
    --------
    >>> import mercer as mc
    >>> p = mc.Categoricals([[0.5, 0.5, 0, 0], [0.25, 0.25, 0.25, 0.25]], alphabet="dna")
    >>> p.log_product(p, rho=1.0).round(3)
    array([[-0.693, -1.386],
           [-1.386, -1.386]])
    """

    _shared: ClassVar[tuple[str, ...]] = ("alphabet",)
    _from_header: ClassVar[dict[str, Any]] = {"alphabet": Alphabet.from_header}

    alphabet: Alphabet

    def __init__(self, probability: Any, alphabet: Any = None) -> None:
        if sparse.issparse(probability) or isinstance(probability, CSRRows):
            raise TypeError(
                "Categoricals must be dense; got a sparse matrix. Use mc.Multinomials, which stay sparse and are the "
                "same distributions for one trial, or pass probability.toarray()."
            )
        p = checked_probability(probability, "probability")
        symbols = Alphabet.of(range(p.shape[-1]) if alphabet is None else alphabet)
        if len(symbols) != p.shape[-1]:
            raise ValueError(
                f"probability must have one column per symbol; got {p.shape[-1]} columns for an alphabet of "
                f"{len(symbols)} symbols."
            )
        self._freeze(probability=p, alphabet=symbols)

    def predictive(self, count: Any) -> Self:
        return self

    def estimator(self) -> Categorical:
        """Return the estimator over this alphabet."""
        return Categorical(alphabet=self.alphabet)

    def couple(self, coupling: Coupling, lengths: tuple[int, ...] | None = None) -> Operand:
        """Prepare for a coupling; products and mean maps are inner products of features."""
        if isinstance(coupling, PowerProduct):
            check_rho(coupling.rho)
            return InnerLeaf.of_power(self.probability, coupling.rho)
        if isinstance(coupling, Smoothed):
            check_gamma(coupling.gamma)
            return InnerLeaf.smoothed(self.probability, coupling.gamma)
        return Leaf(self, coupling)

    def log_product(self, other: Self, rho: float = 0.5) -> Array:
        """Log of the sum of (a a')^rho (PPK-3.3)."""
        self._check_pair(other)
        return self.couple(PowerProduct(rho)).pair(other.couple(PowerProduct(rho)))

    def log_mean_map(self, other: Self, gamma: float) -> Array:
        """Log of (1 - e) <a, a'> + e, e = exp(-2 gamma) (GMMK-1)."""
        self._check_pair(other)
        return self.couple(Smoothed(gamma)).pair(other.couple(Smoothed(gamma)))

    def _codes(self, x: Any) -> Floats:
        """Codes of symbols: of `Sequences` as they are, of anything else by the alphabet."""
        if isinstance(x, Sequences):
            if x.alphabet != self.alphabet:
                raise ValueError(
                    f"The sequences have the alphabet {x.alphabet}, the model has {self.alphabet}. Use "
                    "X.recode(alphabet), or make the sequences with the alphabet of the model."
                )
            return np.asarray(x.values)
        codes = to_numpy(x)
        if codes.dtype.kind not in "iu" or (codes.size and (codes.min() < 0 or codes.max() >= self.alphabet.n_codes)):
            raise ValueError(
                f"Symbols must be integer codes from 0 to {self.alphabet.n_codes - 1}. Encode strings with "
                "mc.Sequences first."
            )
        return codes

    def statistics(self, x: Array) -> Array:
        """Return one row of the alphabet's membership per symbol."""
        return beside(self.probability, self.alphabet.indicators(self._codes(x)), self.probability.dtype)

    def log_base(self, x: Array) -> Array:
        """Return zeros."""
        return beside(self.probability, np.zeros(self._codes(x).shape), self.probability.dtype)

    def log_prob(self, x: Any) -> Array:
        """Log probability of every symbol, ``(*B, n) x (*B, T) -> (*B, n, T)``; an ambiguity code is a sum."""
        xp, p = namespace(self.probability), self.probability
        sets = beside(p, self.alphabet.ambiguity.copy(), p.dtype)
        # The full set is certain: exactly 1, without the rounding error of a sum of probabilities.
        table = safe_log(xp.concat([p, p @ xp.matrix_transpose(sets), xp.ones_like(p[..., :1])], axis=-1))
        codes = beside(table, self._codes(x).astype(np.int64))
        if len(codes.shape) == 1:
            return xp.take(table, codes, axis=-1)
        self._check_lead(tuple(codes.shape))
        shape = (*table.shape[:-1], codes.shape[-1])  # leading axes align
        return xp.take_along_axis(table, xp.broadcast_to(codes[..., None, :], shape), axis=-1)

    def _check_lead(self, shape: tuple[int, ...]) -> None:
        """Raise unless the leading axes of codes are those of the batch."""
        lead = shape[:-1]
        fits = all(n in (1, m) for n, m in zip(reversed(lead), reversed(self.shape[:-1]), strict=False))
        if not shape or len(lead) >= len(self.shape) or not fits:
            raise ValueError(
                f"Codes must have shape (T,), or leading axes as the batch of shape {self.shape}; got shape {shape}."
            )

    def fisher_scores(self, x: Any) -> Array:
        """Scores of the logits: expected indicator minus probability, ``(*B, n, T, k)`` (FK-7)."""
        xp = namespace(self.probability)
        p, codes = self.probability[..., None, :], self._codes(x)
        if codes.ndim != 1:
            self._check_lead(codes.shape)
        occurs = np.zeros(self.alphabet.n_codes, dtype=bool)
        occurs[codes] = True
        codes = (np.cumsum(occurs) - 1)[codes]  # positions among the codes that occur: no table of all
        inside = p * beside(p, self.alphabet.indicators(np.flatnonzero(occurs)), p.dtype)
        total = xp.sum(inside, axis=-1, keepdims=True)
        expected = inside / xp.where(total > 0, total, xp.ones_like(total))
        # A symbol that may be any tells nothing: its score is 0, not what rounding leaves of it.
        expected = xp.where(xp.all(inside == p, axis=-1, keepdims=True), p, expected)
        scores = expected - p
        if codes.ndim == 1:
            return xp.take(scores, beside(scores, codes.astype(np.int64)), axis=-2)
        shape = (*scores.shape[:-2], codes.shape[-1], self.dimension)  # leading axes align
        index = beside(scores, codes.astype(np.int64))[..., None, :, None]
        return xp.take_along_axis(scores, xp.broadcast_to(index, shape), axis=-2)

    def sample(self, size: int = 1, random_state: Any = None) -> Floats:
        """Draw ``size`` symbols (as codes) from every member, ``(*B, size)``."""
        size = whole_size(size)
        rng = random_generator(random_state)
        upper = np.cumsum(to_numpy(self.probability), axis=-1)
        return drawn(upper[..., None, :], rng.random((*self.shape, size)))


@dataclass(eq=False, repr=False)
class Categorical(FamilyEstimator, of=Categoricals):
    """Fit categorical distributions, one to every sample (a string, a sequence of symbols) or one to all.

    Parameters
    ----------
    alphabet : Alphabet, str, iterable or None, default=None
        The symbols; None takes them from `Sequences` or finds them in the training data.
    unknown : {"raise", "missing"}, default="raise"
        How to treat a symbol outside the alphabet.
    estimate : {"point", "predictive"}, default="point"
        The average of the distributions over the posterior, which needs a prior, is that at the MAP estimate (PPK-2a):
        both give the same.
    prior : None, "pooled" or Categoricals of shape (1,), default=None
        What frequencies are shrunk to; a uniform one of strength k alpha is Laplace smoothing.
    prior_strength : float, default=1.0
        Weight of the prior, in symbols.

    Attributes
    ----------
    model_ : Categoricals of shape (1,)
        What ``fit`` learned.
    context_ : Context
        The alphabet and, where it is the prior, the pooled model.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.Categorical(alphabet="dna").fit_each(["ACGT", "AACN"]).probability.round(2)
    array([[0.25, 0.25, 0.25, 0.25],
           [0.67, 0.33, 0.  , 0.  ]])
    """

    takes: ClassVar[str] = "symbols"
    _parameters: ClassVar[Rules] = {"alphabet": ALPHABET, "unknown": one_of("raise", "missing")}

    alphabet: Any = None
    unknown: str = "raise"

    def template(self, context: Context) -> Categoricals:
        """Return the uniform distribution, of shape ``()``."""
        k = context.dimension
        return Categoricals._make(probability=np.full(k, 1.0 / k), alphabet=context.alphabet)

    def _missing_allowed(self) -> bool:
        return False

    def context(self, X: Sequences) -> Context:
        """Learn the alphabet and, where it is the prior, the pooled frequencies."""
        assert X.alphabet is not None
        bare = Context(dimension=len(X.alphabet), alphabet=X.alphabet)
        if not isinstance(self.prior, str):
            return bare
        counts = np.bincount(X.values, minlength=X.alphabet.n_codes)[None, None]
        pooled = self._from_counts(counts, bare, None, shrink=False)[:, 0]
        return replace(bare, pooled=pooled)

    def _even(self, x: Any, context: Context) -> Categoricals:
        return self.template(context).reshape(1)

    def _check_context(self, X: Sequences, context: Context) -> None:
        if X.alphabet != context.alphabet:
            raise ValueError(
                f"The sequences have the alphabet {X.alphabet}, the training data had {context.alphabet}. Pass "
                "alphabet= to the estimator, or make all data one mc.Sequences before splitting it."
            )

    def fit_weighted(
        self, x: Any, weights: Floats, offsets: Floats, context: Context, start: Any = None
    ) -> Categoricals:
        """Fit to weighted symbols: relative frequencies, with ambiguity codes shared out by EM."""
        if context.alphabet is None:
            raise ValueError(
                "A categorical model needs an alphabet. Pass alphabet= to the estimator, or mc.Sequences as data."
            )
        n_codes, n = context.alphabet.n_codes, len(offsets) - 1
        cell = np.repeat(np.arange(n), np.diff(offsets)) * n_codes + x
        columns = [np.bincount(cell, weights=weights[:, j], minlength=n * n_codes) for j in range(weights.shape[1])]
        counts = np.stack(columns, axis=-1).reshape(n, n_codes, -1).swapaxes(1, 2)
        return self._from_counts(counts, context, start, shrink=True)

    def _from_counts(self, counts: Floats, context: Context, start: Any, *, shrink: bool) -> Categoricals:
        """Turn counts of codes ``(N, n, n_codes)`` into frequencies."""
        assert context.alphabet is not None
        k, sets = context.dimension, context.alphabet.ambiguity
        plain, fallback = counts[..., :k], np.full(k, 1.0 / k)
        if shrink and self.prior is not None:
            fallback = np.asarray(self._suited(self._prior_batch(context), self.template(context)).probability)[0]
            plain = plain + self.prior_strength * fallback
        if start is not None:
            fallback = np.asarray(start.probability)
        ambiguous = counts[..., k:-1]
        unsure = np.any(ambiguous > 0, axis=-1)
        guess = plain + ambiguous @ sets / sets.sum(axis=1).max(initial=1) if np.any(unsure) else plain
        p = normalized(guess, fallback)
        if np.any(unsure):
            p[unsure] = _shared_out(plain[unsure], ambiguous[unsure], sets, p[unsure])
        return Categoricals._make(probability=p, alphabet=context.alphabet)

    def _check_data(self, X: Sequences, offsets: Floats) -> None:
        Estimator._check_data(self, X, offsets)
        if self.prior is None and X.alphabet is not None:
            unseen = np.flatnonzero(segment_sum((X.values != X.alphabet.missing).astype(int), offsets) == 0)
            if len(unseen):
                name = sample_name(X, unseen[0])
                raise ValueError(f"{name} contains only missing symbols. Leave it out, or use prior='pooled'.")


def _shared_out(plain: Floats, ambiguous: Floats, sets: Floats, p: Floats) -> Floats:
    """Maximize the likelihood of counts of symbols ``(R, k)`` and of sets of symbols ``(R, c)``, from ``p``.

    EM: an ambiguous symbol counts for what it may be, by the current estimate. Its steps shrink by as little as one
    part in the number of ambiguous symbols, so that two of them are extrapolated (SQUAREM), never below EM's own
    likelihood. Every row goes until it stands still by itself, whatever the others do.
    """

    def inside(p: Floats) -> Floats:
        return (p[:, None] @ sets.T)[:, 0]  # one product a row: the same bits for any number of rows

    def step(p: Floats, at: Floats) -> Floats:
        within = inside(p)
        share = ambiguous[at] / np.where(within > 0, within, 1.0)
        counts = plain[at] + p * (share[:, None] @ sets)[:, 0]
        return np.asarray(counts / counts.sum(axis=-1, keepdims=True))

    def likelihood(p: Floats, at: Floats) -> Floats:
        return np.sum(xlogy(plain[at], p), axis=-1) + np.sum(xlogy(ambiguous[at], inside(p)), axis=-1)

    p, at = p.copy(), np.arange(len(p))
    for _ in range(1000):
        first = step(p[at], at)
        second = step(first, at)
        change, bend = first - p[at], second - 2 * first + p[at]
        ratio = np.linalg.norm(change, axis=-1) / np.maximum(np.linalg.norm(bend, axis=-1), 1e-300)
        stride = np.clip(ratio, 1.0, 1e6)[:, None]
        far = np.maximum(p[at] + 2 * stride * change + stride**2 * bend, 0.01 * second)
        far = far / far.sum(axis=-1, keepdims=True)
        better = likelihood(far, at) > likelihood(second, at)
        p[at] = np.where(better[:, None], far, second)
        at = at[np.max(np.abs(second - first), axis=-1) > 1e-13]
        if not len(at):
            break
    return p
