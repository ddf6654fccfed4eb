"""Multinomial distributions: word frequencies, dense or sparse."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse

from mercer._array import Array, Floats, as_float, inner_logs, namespace, safe_log, to_numpy
from mercer._batch import Batch
from mercer._checks import check_gamma, check_rho, is_whole
from mercer._coupling import Coupling, Divergence, InnerLeaf, Leaf, Operand, PowerProduct, Smoothed
from mercer._parameters import Rules, whole
from mercer._probability import check_sums, checked_probability, normalized
from mercer._special import gammaln
from mercer.data import Alphabet, Sequences
from mercer.data import csr as _csr
from mercer.data.csr import CSRRows, csr_array
from mercer.data.segments import in_digest_order, sample_name, segment_sum, segments
from mercer.families._simplex import Simplex
from mercer.families._sparse_leaf import SparseDivergence, SparseLeaf
from mercer.families.counting import log_count_sum, log_trials_product
from mercer.families.dirichlet_multinomial import DirichletMultinomials
from mercer.families.estimator import Context
from mercer.families.fit import FamilyEstimator
from mercer.families.sets import LARGEST
from mercer.families.sets import counts as nonnegative_counts

FEW = 24
"""Trials up to which all partial sums of counts are made; beyond, one convolution by Fourier transforms is faster."""


def dense_counts(x: Any) -> Array:
    """Return counts as a dense array of floats."""
    if sparse.issparse(x):
        return np.asarray(csr_array(x).toarray(), dtype=float)
    return x.dense() if isinstance(x, CSRRows) else as_float(x)


class SparseRows(Batch):
    """A batch whose ``probability`` may be stored as a sparse matrix of shape (N, k)."""

    probability: Any

    @property
    def sparse(self) -> bool:
        """Whether the probabilities are stored as a sparse matrix."""
        return isinstance(self.probability, CSRRows)

    def dense(self) -> Self:
        """Return the same distributions with dense probabilities."""
        return self._replaced(probability=self.probability.dense()) if self.sparse else self

    def matched(self, reference: Batch) -> Self:
        """Return this batch sparse or dense, as ``reference`` is."""
        matched = super().matched(reference)
        if not reference.sparse:  # type: ignore[attr-defined]
            return matched.dense()
        return matched if matched.sparse else matched._replaced(probability=CSRRows.of(self.probability))

    def __getitem__(self, key: Any) -> Self:
        """Select members; a single one of a sparse batch is dense."""
        if self.sparse and isinstance(key, int | np.integer):
            at = range(len(self))[key]
            return self[at : at + 1].dense().reshape()
        return super().__getitem__(key)

    @staticmethod
    def _pack_array(name: str, value: Any) -> dict[str, Any]:
        if not isinstance(value, CSRRows):
            return {name: to_numpy(value)}
        parts = {"data": value.data, "indices": value.indices, "indptr": value.indptr, "columns": value.n_columns}
        return {f"{name}/{part}": np.asarray(values) for part, values in parts.items()}

    @classmethod
    def _unpack_fields(cls, arrays: dict[str, Any], shared: dict[str, Any], prefix: str) -> dict[str, Any]:
        name = f"{prefix}probability"
        if name not in arrays:
            parts = (arrays[f"{name}/{part}"] for part in ("data", "indices", "indptr", "columns"))
            data, indices, indptr, columns = parts
            arrays = arrays | {name: CSRRows.checked(data, indices, indptr, columns[()])}
        return super()._unpack_fields(arrays, shared, prefix)


class Multinomials(SparseRows, Simplex):
    r"""A batch of multinomial distributions.

    Parameters
    ----------
    probability : array of shape (..., k), or sparse matrix of shape (N, k)
        Rows that sum to one. A sparse matrix stays sparse.
    trials : int, default=1
        Number of draws that are compared; 1 compares word frequencies. It is not the length of a document.
    alphabet : Alphabet, iterable of words or None, default=None
        The vocabulary, one word per column. Batches are compared only where they have the same one, or none.

    Notes
    -----
    Probability product (PPK-3.3): :math:`(\sum_d \sqrt{a_d a'_d})^s` at rho = 1/2,
    :math:`\sum_d (a_d a'_d)^\rho` for one trial and any rho, and the sum over all vectors of counts otherwise, by one
    convolution. Mean map of aligned tokens (GMMK-10c): :math:`((1-e)\langle a,a'\rangle+e)^s`.
    `MeanMap` with ``base="counts"`` compares vectors of counts, of any two numbers of trials (GMMK-10a).

    Examples
    --------
    >>> import mercer as mc
    >>> p = mc.Multinomials([[0.5, 0.5], [1.0, 0.0]], trials=2)
    >>> p.log_product(p, rho=0.5).round(4) + 0.0
    array([[ 0.    , -0.6931],
           [-0.6931,  0.    ]])
    """

    support = nonnegative_counts
    _shared: ClassVar[tuple[str, ...]] = ("trials", "alphabet")

    trials: int
    alphabet: Alphabet | None = None

    def __init__(self, probability: Any, trials: int = 1, alphabet: Any = None) -> None:
        if not is_whole(trials):
            raise ValueError(f"trials must be an int of 1 or more, the number of draws; got {trials!r}.")
        if sparse.issparse(probability) or isinstance(probability, CSRRows):
            rows = CSRRows.of(probability)
            rows.check_counts()
            check_sums(rows.row_sums(), rows.dtype, "probability")
            checked: Any = rows
        else:
            checked = checked_probability(probability, "probability")
        words, columns = None if alphabet is None else Alphabet.of(alphabet), checked.shape[-1]
        if words is not None and len(words) != columns:
            raise ValueError(
                f"The vocabulary must have one word per column; got {len(words)} words for {columns} probabilities."
            )
        self._freeze(probability=checked, trials=int(trials), alphabet=words)

    @property
    def n_draws(self) -> int:
        """Number of independent draws that make one observation: the trials."""
        return self.trials

    def token_probabilities(self) -> Floats:
        """Return the probability of every word in one draw, dense, ``(*B, k)``, float64.

        Counts x of n words have the score x - n p under logits, and the log likelihood sum x log p up to a constant.
        """
        return np.asarray(to_numpy(self.dense().probability), dtype=np.float64)

    def _shared_header(self) -> dict[str, Any]:
        """Leave out a vocabulary that is not there, as files did before there were any."""
        header = super()._shared_header()
        return {name: value for name, value in header.items() if name != "alphabet" or value is not None}

    def with_mean_parameters(self, mu: Array) -> Self:
        """Return the distributions with these expected counts."""
        return self._replaced(probability=mu / self.trials)

    def predictive(self, count: Any) -> DirichletMultinomials:
        return DirichletMultinomials(count * self.mean_parameters, trials=self.trials)

    def pooled(self) -> Self:
        """Return the average distribution, as a batch of shape ``(1,)``."""
        if not self.sparse or 0 in self.shape:
            return super().pooled()
        average = np.asarray(self.probability.to_scipy().mean(axis=0)).reshape(1, -1)
        return self._replaced(probability=CSRRows.of(average))

    def estimator(self) -> Multinomial:
        """Return the estimator of this family."""
        return Multinomial(trials=self.trials)

    # -- coupling ----------------------------------------------------------------------------------------

    def couple(self, coupling: Coupling, lengths: tuple[int, ...] | None = None) -> Operand:
        """Prepare for a coupling; inner products of features wherever the formula is one."""
        if isinstance(coupling, PowerProduct):
            check_rho(coupling.rho)
            if self.trials == 1 or coupling.rho == 0.5:
                kind: Any = SparseLeaf if self.sparse else InnerLeaf
                return kind.of_power(self.probability, coupling.rho, self.trials)
        if isinstance(coupling, Smoothed):
            check_gamma(coupling.gamma)
            kind = SparseLeaf if self.sparse else InnerLeaf
            return kind.smoothed(self.probability, coupling.gamma, self.trials)
        if isinstance(coupling, Divergence) and self.sparse:
            return SparseDivergence(_csr.Prepared(self.probability), self.trials)
        return TrialsLeaf(self, coupling) if self.sparse else Leaf(self, coupling)

    def log_product(self, other: Self, rho: float = 0.5) -> Array:
        """Log of the sum of p^rho q^rho over all vectors of counts, for any rho (PPK-3.3)."""
        self._check_pair(other)
        check_rho(rho)
        if self.trials == 1 or rho == 0.5:
            pair: Array = self.couple(PowerProduct(rho)).pair(other.matched(self).couple(PowerProduct(rho)))
            return pair
        own, theirs = (side.dense() for side in (self, other))
        if self.trials > FEW:
            left = own.probability
            return log_trials_product(left, left if other is self else theirs.probability, self.trials, float(rho))
        return log_count_sum(own._count_table(rho), theirs._count_table(rho))

    def _count_table(self, rho: float) -> Array:
        """Rho times the log probabilities of every word and count from 0 to s, the factor s! shared out."""
        log_p, xp = safe_log(self.probability)[..., None], namespace(self.probability)
        n = xp.arange(self.trials + 1, dtype=log_p.dtype, device=log_p.device)
        power = xp.where(n > 0, n * xp.where(n > 0, log_p, xp.zeros_like(log_p)), xp.zeros_like(n))
        return rho * (power - gammaln(n + 1) + gammaln(n[-1:] + 1) / self.dimension)

    def log_mean_map(self, other: Self, gamma: float) -> Array:
        """Log of ((1 - e) <a, a'> + e)^s, e = exp(-2 gamma): aligned tokens (GMMK-10c)."""
        check_gamma(gamma)
        self._check_pair(other)
        return self.couple(Smoothed(gamma)).pair(other.matched(self).couple(Smoothed(gamma)))

    def dual_divergence(self, other: Self) -> Array:
        """Return s times the Jensen-Shannon divergence of the frequencies (DJS-2)."""
        self._check_pair(other)
        if self.sparse and other.sparse:
            return self.couple(Divergence()).pair(other.couple(Divergence()))
        return super(Multinomials, self.dense()).dual_divergence(other.dense())

    # -- counts --------------------------------------------------------------------------------------------

    def statistics(self, x: Any) -> Array:
        """Return the counts."""
        return dense_counts(x)

    def log_base(self, x: Any) -> Array:
        """Return log n! - sum log x!, n the row's own total."""
        x = dense_counts(x)
        xp = namespace(x)
        return gammaln(xp.sum(x, axis=-1) + 1) - xp.sum(gammaln(x + 1), axis=-1)

    def _rows(self, x: Any) -> tuple[Self, Array]:
        """Return dense members and rows of counts that were checked."""
        dense = self.dense()
        x = dense._checked_points(dense_counts(x))
        if bool(namespace(x).any(namespace(x).isnan(x))):
            raise ValueError("A row of counts contains NaN. Fill it in, or leave the row out.")
        return dense._crossable(x)

    def log_prob(self, x: Any) -> Array:
        """Log probability of every row of counts given its total, ``(*B, n) x (*B, T, k) -> (*B, n, T)``."""
        single, x = self._rows(x)
        value = namespace(x).matrix_transpose(inner_logs(x, safe_log(single.probability)))
        value = value + single.log_base(x)[..., None, :]
        return value if self.shape else value[..., 0, :]

    def fisher_scores(self, x: Any) -> Array:
        """Scores of the logits: counts minus expected counts, ``(*B, n, T, k)`` (FK-3)."""
        single, x = self._rows(x)
        total = namespace(x).sum(x, axis=-1, keepdims=True)
        value = x[..., None, :, :] - total[..., None, :, :] * single.probability[..., :, None, :]
        return value if self.shape else value[..., 0, :, :]

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
        p = np.broadcast_to(to_numpy(self.probability).astype(float), (*shape, self.dimension))
        return rng.multinomial(self.trials, p / p.sum(axis=-1, keepdims=True))

    def sample(self, size: int = 1, random_state: Any = None) -> Floats:
        """Draw ``size`` rows of counts of ``trials`` draws from every member, ``(*B, size, k)``."""
        return Simplex.sample(self.dense(), size, random_state)


class TrialsLeaf(Leaf):
    """Sparse rows under a coupling that needs dense ones, of which one tile is dense at a time."""

    def alone(self) -> Floats:
        """Compute the self-kernel of each member."""
        found = [Leaf(self.batch[i : i + 1].dense(), self.coupling).alone() for i in range(len(self))]
        return np.concatenate(found) if found else np.zeros(0)


@dataclass(eq=False, repr=False)
class Multinomial(FamilyEstimator, of=Multinomials):
    """Fit multinomial distributions, one to every sample (a row of counts, dense or sparse) or one to all.

    Parameters
    ----------
    trials : int, default=1
        Number of draws of the distributions that are compared; 1 compares word frequencies.
    estimate : {"point", "predictive"}, default="point"
        The distribution at the MAP estimate, or the Dirichlet-multinomial distribution that its posterior predicts
        (PPK-2a), which needs a prior. Then ``prior_strength`` and counts of words are divided by ``trials``: an
        observation is a row of so many words.
    prior : None, "pooled" or Multinomials of shape (1,), default=None
        What frequencies are shrunk to, whatever its own ``trials``; a uniform one of strength k alpha is Laplace
        smoothing. A prior makes every frequency positive, so that sparse rows become dense.
    prior_strength : float, default=1.0
        Weight of the prior, in words.

    Attributes
    ----------
    model_ : Multinomials of shape (1,)
        What ``fit`` learned.
    context_ : Context
        Properties of the training data that all models share.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.Multinomial().fit_each([[2, 2, 0], [0, 1, 3]]).probability
    array([[0.5 , 0.5 , 0.  ],
           [0.  , 0.25, 0.75]])
    """

    takes: ClassVar[str] = "counts"
    _parameters: ClassVar[Rules] = {"trials": whole(1, cure="Pass the number of draws as an int.")}

    trials: int = 1

    def template(self, context: Context, alphabet: Alphabet | None = None, trials: int | None = None) -> Multinomials:
        """Return the uniform distribution, of shape ``()``."""
        p = np.full(context.dimension, 1.0 / context.dimension)
        return Multinomials._make(probability=p, trials=trials or self.trials, alphabet=alphabet)

    def _check_support(self, x: Any, X: Any) -> None:
        if not isinstance(x, CSRRows):
            super()._check_support(x, X)
            return self._check_observed(X)
        who, bad = type(self).__name__, np.flatnonzero(~((x.data >= 0) & (x.data <= LARGEST)))
        if len(bad):
            row = int(np.searchsorted(x.indptr, int(bad[0]), side="right")) - 1
            nonnegative_counts.check(x[row : row + 1].dense(), who, first=row)
            if x.data[bad[0]] > LARGEST:
                raise ValueError(
                    f"document {row} has the count {x.data[bad[0]]:g}, and sums of such counts may overflow. Divide "
                    "the counts by a constant."
                )
        x.check_counts()  # NaN
        return None

    def context(self, X: Any) -> Context:
        """Learn the number of words and, where it is the prior, the pooled frequencies."""
        x, _ = segments(X)
        bare = Context(dimension=x.shape[1])
        if not isinstance(self.prior, str):
            return bare
        x = segments(in_digest_order(X))[0]
        total = np.asarray((x.to_scipy() if isinstance(x, CSRRows) else x).sum(axis=0)).ravel()
        if total.sum() == 0:
            raise ValueError("Every document is empty; there is nothing to learn from.")
        return replace(bare, pooled=self.template(bare)._replaced(probability=(total / total.sum())[None]))

    def _even(self, x: Any, context: Context) -> Multinomials:
        return self.template(context).reshape(1)

    def _check_data(self, X: Any, offsets: Floats) -> None:
        x, _ = segments(X)
        total = x.row_sums() if isinstance(x, CSRRows) else x.sum(axis=1)
        empty = np.flatnonzero(segment_sum(total, offsets) == 0)
        if len(empty) and self.prior is None:
            name = sample_name(X, empty[0]) if isinstance(X, Sequences) else f"document {int(empty[0])}"
            raise ValueError(
                f"{name} is empty (no words), so its frequencies are undefined. Leave it out, or use prior='pooled' to "
                "give it the frequencies of all documents."
            )

    def _fit_alone(self, x: Any, offsets: Floats, context: Context) -> Any:
        if isinstance(x, CSRRows) and np.all(np.diff(offsets) == 1):
            if self.prior is None:
                return self.template(context)._replaced(probability=x.shares())  # stays sparse
            return self._predicted(self._shrunk(x, context), self._observations(x.row_sums()[:, None]))
        return super()._fit_alone(x, offsets, context)

    def _shrunk(self, x: CSRRows, context: Context) -> Multinomials:
        """Shrink sparse rows: (n_i f_i + s f) / (n_i + s) of row sums n_i, frequencies f_i and those of the prior f.

        All frequencies become positive, so that the result is dense; it is the only dense array that is made.
        """
        frequencies, alphabet = self._prior_frequencies(context)
        strength = self.prior_strength
        total = x.row_sums() + strength
        weight = np.where(total > 0, strength / np.where(total > 0, total, 1.0), 1.0)  # an empty row gets the prior
        probability = weight[:, None] * frequencies
        rows = np.repeat(np.arange(len(x)), np.diff(x.indptr))
        probability[rows, x.indices] += x.data / np.where(total > 0, total, 1.0)[rows]  # no word comes twice in a row
        return self.template(context, alphabet)._replaced(probability=probability)

    def fit_weighted(self, x: Any, weights: Floats, offsets: Floats, context: Context, start: Any = None) -> Any:
        """Fit to weighted rows: relative frequencies of words."""
        counts = _weighted_counts(x, weights, offsets)
        words = counts.sum(axis=-1, keepdims=True)
        alphabet, fallback = None, np.full(context.dimension, 1.0 / context.dimension)
        if self.prior is not None:
            fallback, alphabet = self._prior_frequencies(context)
            counts = counts + self.prior_strength * fallback
        if start is not None:
            fallback = np.asarray(start.dense().probability)
        batch = self.template(context, alphabet)._replaced(probability=normalized(counts, fallback))
        return self._predicted(batch, self._observations(words))

    def _observations(self, words: Floats) -> Floats:
        """Return how many observations, of ``trials`` words each, there are in the data and the prior."""
        return (words + self.prior_strength) / self.trials

    def _prior_frequencies(self, context: Context) -> tuple[Floats, Alphabet | None]:
        """Return the frequencies of the prior, and its words, which become the model's: counts have none."""
        prior = self._prior_batch(context)
        alphabet = getattr(prior, "alphabet", None)
        template = self.template(context, alphabet, getattr(prior, "trials", 1))  # only frequencies of a prior count
        return np.asarray(self._suited(prior, template).dense().probability)[0], alphabet


def _weighted_counts(x: Any, weights: Floats, offsets: Floats) -> Floats:
    """Sum the rows of each sample with the weights of each model, ``(T, k)`` and ``(T, n)`` to ``(N, n, k)``."""
    rows = np.diff(offsets)
    owner = np.repeat(np.arange(len(rows)), rows)
    place = (owner, np.arange(len(owner)))
    matrix = x.to_scipy() if isinstance(x, CSRRows) else x
    shares = (sparse.csr_array((column, place), shape=(len(rows), len(owner))) for column in weights.T)
    return np.stack([dense_counts(share @ matrix) for share in shares], axis=1)
