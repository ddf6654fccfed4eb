"""Categorical distributions over an alphabet of symbols."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np

from mercer._array import Array, namespace, safe_log, to_numpy
from mercer.data import Alphabet, Sequences
from mercer.families._coupling import Coupling, InnerLeaf, Leaf, Operand, Product, Smoothed
from mercer.families._estimator import Context, Estimator, Floats
from mercer.families._family import check_gamma, check_rho, random_generator
from mercer.families._simplex import Simplex, checked_probability


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

    alphabet: Alphabet

    def __init__(self, probability: Any, alphabet: Any = None) -> None:
        p = checked_probability(probability, "probability")
        symbols = Alphabet.of(range(p.shape[-1]) if alphabet is None else alphabet)
        if len(symbols) != p.shape[-1]:
            raise ValueError(f"{p.shape[-1]} probabilities for an alphabet of {len(symbols)} symbols")
        self._freeze(probability=p, alphabet=symbols)

    @classmethod
    def _unpack_fields(cls, arrays: dict[str, Any], shared: dict[str, Any], prefix: str) -> dict[str, Any]:
        shared = shared | {"alphabet": Alphabet.from_header(shared["alphabet"])}
        return super()._unpack_fields(arrays, shared, prefix)

    def with_mean_parameters(self, mu: Array) -> Self:
        """Return the distributions with these probabilities."""
        return self._make(probability=mu, alphabet=self.alphabet)

    def estimator(self) -> Categorical:
        """Return the estimator over this alphabet."""
        return Categorical(alphabet=self.alphabet)

    def couple(self, coupling: Coupling, lengths: tuple[int, ...] | None = None) -> Operand:
        """Prepare for a coupling; products and mean maps are inner products of features."""
        if isinstance(coupling, Product):
            check_rho(coupling.rho)
            return InnerLeaf(power(self.probability, coupling.rho))
        if isinstance(coupling, Smoothed):
            check_gamma(coupling.gamma)
            return InnerLeaf(smoothed_features(self.probability, coupling.gamma))
        return Leaf(self, coupling)

    def log_product(self, other: Self, rho: float = 0.5) -> Array:
        """Log of the sum of (a a')^rho (PPK-3.3)."""
        self._check_pair(other)
        return self.couple(Product(rho)).pair(other.couple(Product(rho)))

    def log_mean_map(self, other: Self, gamma: float) -> Array:
        """Log of (1 - e) <a, a'> + e, e = exp(-2 gamma) (GMMK-1)."""
        self._check_pair(other)
        return self.couple(Smoothed(gamma)).pair(other.couple(Smoothed(gamma)))

    def _codes(self, x: Any) -> Floats:
        """Codes of symbols: of `Sequences` as they are, of anything else by the alphabet."""
        if isinstance(x, Sequences):
            if x.alphabet != self.alphabet:
                raise ValueError(f"the sequences have the alphabet {x.alphabet}, the model has {self.alphabet}")
            return np.asarray(x.values)
        codes = to_numpy(x)
        if codes.dtype.kind not in "iu" or (codes.size and (codes.min() < 0 or codes.max() >= self.alphabet.n_codes)):
            raise ValueError(
                f"expected integer codes from 0 to {self.alphabet.n_codes - 1}: encode strings with mc.Sequences first"
            )
        return codes

    def statistics(self, x: Array) -> Array:
        """Return one row of the alphabet's membership per symbol."""
        return self._membership()[self._codes(x)]

    def log_base(self, x: Array) -> Array:
        """Return zeros."""
        return np.zeros(self._codes(x).shape)

    def _membership(self) -> Array:
        return namespace(self.probability).asarray(self.alphabet.membership, dtype=self.probability.dtype)

    def log_prob(self, x: Any) -> Array:
        """Log probability of every symbol, ``(*B, n) x (*B, T) -> (*B, n, T)``; an ambiguity code is a sum."""
        xp = namespace(self.probability)
        table = safe_log(self.probability @ xp.matrix_transpose(self._membership()))
        # The full set is certain: exactly 0, whatever rounding does to a sum of probabilities.
        certain = xp.asarray(np.arange(self.alphabet.n_codes) == self.alphabet.missing)
        table = xp.where(certain, xp.zeros_like(table), table)
        codes = xp.asarray(self._codes(x).astype(np.int64))
        if len(codes.shape) == 1:
            return xp.take(table, codes, axis=-1)
        shape = (*table.shape[:-1], codes.shape[-1])  # leading axes align
        return xp.take_along_axis(table, xp.broadcast_to(codes[..., None, :], shape), axis=-1)

    def fisher_scores(self, x: Any) -> Array:
        """Scores of the logits: expected indicator minus probability, ``(*B, n, T, k)`` (FK-7)."""
        xp = namespace(self.probability)
        p = self.probability[..., None, :]
        inside = p * self._membership()
        total = xp.sum(inside, axis=-1, keepdims=True)
        expected = inside / xp.where(total > 0, total, xp.ones_like(total))
        return xp.take(expected - p, xp.asarray(self._codes(x).astype(np.int64)), axis=-2)

    def sample(self, size: int = 1, random_state: Any = None) -> Floats:
        """Draw ``size`` symbols (as codes) from every member, ``(*B, size)``."""
        rng = random_generator(random_state)
        upper = np.cumsum(to_numpy(self.probability), axis=-1)
        draws = rng.random((*self.shape, size)) * upper[..., -1:]
        return np.sum(draws[..., None] >= upper[..., None, :], axis=-1).clip(0, self.dimension - 1)


class Categorical(Estimator):
    """Fit categorical distributions to sequences of symbols, one to each or one to all.

    Parameters
    ----------
    alphabet : Alphabet, str, iterable or None, default=None
        The symbols; None takes them from `Sequences` or finds them in the training data.
    unknown : {"raise", "missing"}, default="raise"
        What a symbol outside the alphabet is.
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

    def __init__(
        self, alphabet: Any = None, unknown: str = "raise", prior: Any = None, prior_strength: float = 1.0
    ) -> None:
        self.alphabet = alphabet
        self.unknown = unknown
        self.prior = prior
        self.prior_strength = prior_strength

    def context(self, X: Sequences) -> Context:
        """Learn the alphabet and, where it is the prior, the pooled frequencies."""
        assert X.alphabet is not None
        bare = Context(dimension=len(X.alphabet), alphabet=X.alphabet)
        if not isinstance(self.prior, str):
            return bare
        counts = np.bincount(X.values, minlength=X.alphabet.n_codes)[None, None]
        pooled = self._from_counts(counts, bare, None, shrink=False)[:, 0]
        return replace(bare, pooled=pooled)

    def _check_context(self, X: Sequences, context: Context) -> None:
        if X.alphabet != context.alphabet:
            raise ValueError(
                f"the sequences have the alphabet {X.alphabet}, the training data had {context.alphabet}: "
                "give alphabet= to the estimator, or make all data one mc.Sequences before splitting it"
            )

    def fit_weighted(
        self, x: Any, weights: Floats, offsets: Floats, context: Context, start: Any = None
    ) -> Categoricals:
        """Fit to weighted symbols: relative frequencies, with ambiguity codes shared out by EM."""
        if context.alphabet is None:
            raise ValueError("a categorical model needs an alphabet")
        n_codes, n = context.alphabet.n_codes, len(offsets) - 1
        cell = np.repeat(np.arange(n), np.diff(offsets)) * n_codes + x
        columns = [np.bincount(cell, weights=weights[:, j], minlength=n * n_codes) for j in range(weights.shape[1])]
        counts = np.stack(columns, axis=-1).reshape(n, n_codes, -1).swapaxes(1, 2)
        return self._from_counts(counts, context, start, shrink=True)

    def _from_counts(self, counts: Floats, context: Context, start: Any, *, shrink: bool) -> Categoricals:
        """Turn counts of codes ``(N, n, n_codes)`` into frequencies."""
        assert context.alphabet is not None
        k, membership = context.dimension, context.alphabet.membership
        prior = np.zeros(k)
        if shrink and self.prior is not None:
            prior = self.prior_strength * np.asarray(self._prior_batch(context).probability)[0]
        plain = counts[..., :k] + prior
        ambiguous = counts[..., k:-1]
        p = _normalised(plain + ambiguous @ membership[k:-1] / membership[k:-1].sum(axis=1).max(initial=1), start)
        if np.any(ambiguous):
            for _ in range(200):  # EM: an ambiguous symbol counts for what it may be, by the current estimate
                inside = p @ membership[k:-1].T
                share = ambiguous / np.where(inside > 0, inside, 1.0)
                updated = _normalised(plain + p * (share @ membership[k:-1]), start)
                if np.max(np.abs(updated - p)) < 1e-12:
                    break
                p = updated
        return Categoricals._make(probability=p, alphabet=context.alphabet)

    def _check_data(self, X: Sequences, offsets: Floats) -> None:
        super()._check_data(X, offsets)
        if self.prior is None and X.alphabet is not None:
            seen = np.add.reduceat(X.values != X.alphabet.missing, offsets[:-1]) if len(X.values) else np.zeros(0)
            if len(seen) and not seen.all():
                i = int(np.flatnonzero(seen == 0)[0])
                raise ValueError(f"sequence {i} holds missing symbols only: leave it out, or give prior='pooled'")


def _normalised(counts: Floats, start: Any) -> Floats:
    total = counts.sum(axis=-1, keepdims=True)
    fallback = 1.0 / counts.shape[-1] if start is None else np.asarray(start.probability)
    return np.where(total > 0, counts / np.where(total > 0, total, 1.0), fallback)


def power(x: Array, rho: float) -> Array:
    """Raise to ``rho``; the two most common powers without the cost of a general one."""
    xp = namespace(x)
    if rho == 1:
        return x
    positive = x > 0
    safe = xp.where(positive, x, xp.ones_like(x))  # keeps the gradient at 0 finite
    return xp.where(positive, xp.sqrt(safe) if rho == 0.5 else safe**rho, xp.zeros_like(x))


def smoothed_features(p: Array, gamma: float) -> Array:
    """Features whose inner product is (1 - e) <a, a'> + e, e = exp(-2 gamma)."""
    xp = namespace(p)
    e = np.exp(-2.0 * gamma)
    column = xp.full((*p.shape[:-1], 1), float(np.sqrt(e)), dtype=p.dtype)
    return xp.concat([p * float(np.sqrt(-np.expm1(-2.0 * gamma))), column], axis=-1)
