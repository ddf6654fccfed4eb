"""The estimator of distributions of count vectors: frequencies of words, and how many there are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from mercer._array import Floats
from mercer._parameters import Rules
from mercer._probability import normalized
from mercer.data import Sequences
from mercer.data.csr import CSRRows
from mercer.data.segments import in_digest_order, sample_name, segment_sum, segments
from mercer.families._counts.rows import DocumentEstimator, check_finite_sum, pooled_counts, weighted_counts
from mercer.families.count_vector import LENGTH_DISTRIBUTION, CountVectors
from mercer.families.estimator import Context


@dataclass(eq=False, repr=False)
class CountVector(DocumentEstimator):
    """Fit distributions of count vectors to rows of counts: frequencies of words, and how many there are.

    Parameters
    ----------
    length_distribution : {"poisson", "geometric", "fixed"}, default="poisson"
        Distribution of the number of words, see `CountVectors`.
    prior : None, "pooled" or CountVectors of shape (1,), default=None
        What expected counts are shrunk to, hence both frequencies and length; with ``length_distribution="fixed"``
        lengths stay as they are. A prior makes sparse rows dense.
    prior_strength : float, default=1.0
        Weight of the prior, in documents.

    Attributes
    ----------
    model_ : CountVectors of shape (1,)
        What ``fit`` learned.
    context_ : Context
        Properties of the training data that all models share.

    Notes
    -----
    Expected counts are ``(n0 mu0 + sum of counts) / (n0 + n)`` of a sample of n rows, the conjugate estimate (DJS-6);
    the length is their sum, the frequencies are their shares.

    Examples
    --------
    >>> import mercer as mc
    >>> p = mc.families.CountVector(prior="pooled").fit_each([[6, 2, 0], [0, 1, 3]])
    >>> p.length, p.probability.round(4)
    (array([7., 5.]), array([[0.6429, 0.25  , 0.1071],
           [0.3   , 0.25  , 0.45  ]]))
    """

    _parameters: ClassVar[Rules] = {"length_distribution": LENGTH_DISTRIBUTION}

    length_distribution: str = "poisson"
    prior: Any = None
    prior_strength: float = 1.0

    def context(self, X: Any) -> Context:
        """Learn the number of words and, where it is the prior, the expected counts of a document."""
        x, _ = segments(X)
        bare = Context(dimension=x.shape[1])
        if not isinstance(self.prior, str):
            return bare
        total = pooled_counts(segments(in_digest_order(X))[0])
        return replace(bare, pooled=self._batch(total[None] / x.shape[0], total[None]))

    def _batch(self, mean: Floats, weights: Floats, fallback: Any = 0.0) -> CountVectors:
        """Make a batch of these expected counts; ``weights`` are the same up to a factor, or 0: then ``fallback``."""
        alphabet = getattr(self.prior, "alphabet", None)  # counts have no words: those of the prior become the model's
        frequencies = normalized(weights, fallback)
        return self._make(frequencies, mean.sum(axis=-1), alphabet)

    def _make(self, probability: Any, length: Floats, alphabet: Any = None) -> CountVectors:
        return CountVectors._make(
            probability=probability, length=length, length_distribution=self.length_distribution, alphabet=alphabet
        )

    def _even(self, x: Any, context: Context) -> CountVectors:
        k = context.dimension
        length = (1 + float(np.sum(_totals(x)))) / (1 + x.shape[0])  # of all data and one more word: never zero
        return self._make(np.full((1, k), 1.0 / k), np.array([length]))

    def _check_data(self, X: Any, offsets: Floats) -> None:
        rows = np.diff(offsets)
        total = segment_sum(_totals(segments(X)[0]), offsets)

        def name(i: int) -> str:
            return sample_name(X, i) if isinstance(X, Sequences) else f"document {int(i)}"

        empty = np.flatnonzero(total == 0)
        if len(empty) and self.prior is None:
            raise ValueError(
                f"{name(empty[0])} is empty (no words), so its frequencies are undefined. Leave it out, or use "
                "prior='pooled' to give it the frequencies of all documents."
            )
        huge = np.flatnonzero(~np.isfinite(total))
        if len(huge):
            check_finite_sum(np.inf, name(huge[0]))
        mean = total / np.maximum(rows, 1)
        broken = np.flatnonzero((self.length_distribution == "fixed") & (mean != np.rint(mean)))
        if len(broken):
            first = broken[0]
            if rows[first] > 1:
                raise ValueError(
                    "length_distribution='fixed' cannot be fitted to documents of several lengths, as in a mixture or "
                    f"a hidden Markov model; the rows of {name(first) if len(rows) > 1 else 'all data'} have "
                    f"{mean[first]:.6g} words on average, not a whole number. Use length_distribution='poisson'."
                )
            raise ValueError(
                f"The number of words must be whole with length_distribution='fixed'; got {mean[first]:.6g} for "
                f"{name(first)}. Pass whole counts, or use length_distribution='poisson'."
            )

    def _fit_alone(self, x: Any, offsets: Floats, context: Context) -> CountVectors:
        if isinstance(x, CSRRows) and self.prior is None and np.all(np.diff(offsets) == 1):
            return self._make(x.shares(), x.row_sums().astype(x.dtype))  # stays sparse
        batch: CountVectors = super()._fit_alone(x, offsets, context)
        return batch

    def fit_weighted(
        self, x: Any, weights: Floats, offsets: Floats, context: Context, start: Any = None
    ) -> CountVectors:
        """Fit to weighted rows: mean counts of words."""
        total = weighted_counts(x, weights, offsets)
        mass = np.stack([segment_sum(column, offsets) for column in weights.T], axis=1)[..., None]
        own = total.sum(axis=-1, keepdims=True) / np.where(mass > 0, mass, 1.0)
        known = np.full(context.dimension, 1.0 / context.dimension)  # for an unvisited component
        if self.prior is not None:
            prior = self._prior_batch(context)
            template = self._make(np.zeros(context.dimension), np.zeros(()), getattr(prior, "alphabet", None))
            known = np.asarray(self._suited(prior, template).mean_parameters)[0]
            with np.errstate(over="ignore"):
                total, mass = total + self.prior_strength * known, mass + self.prior_strength
                check_finite_sum(float(total.sum(axis=-1).max(initial=0.0)), "a document and its prior")
        if start is not None:
            known = np.asarray(start.mean_parameters)
        mean = np.where(mass > 0, total / np.where(mass > 0, mass, 1.0), known)
        batch = self._batch(mean, np.where(mass > 0, total, known), normalized(known, 1.0 / context.dimension))
        return self._of_fixed(batch, own[..., 0]) if self.length_distribution == "fixed" else batch

    def _of_fixed(self, batch: CountVectors, own: Floats) -> CountVectors:
        """Give the documents their own lengths, which a prior does not shrink."""
        if np.any(own != np.rint(own)):
            raise ValueError(
                "length_distribution='fixed' cannot be fitted to weighted documents of several lengths, as in a "
                "mixture. Use length_distribution='poisson'."
            )
        return batch._replaced(length=own)


def _totals(x: Any) -> Floats:
    with np.errstate(over="ignore"):  # overflow raises below
        return x.row_sums() if isinstance(x, CSRRows) else np.asarray(x.sum(axis=1))
