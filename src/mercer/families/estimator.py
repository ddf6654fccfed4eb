"""Base classes of estimators: fit one model to all samples, or one to every sample."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from mercer._array import Floats, Indices, to_numpy
from mercer._batch import Batch
from mercer._cache import ByteCache, parameter_key
from mercer._checks import is_number
from mercer._config import settings
from mercer._notices import About, Finding, SampleName, by_place, collected, repeat, warns_once
from mercer._parameters import CheckedParameters, Rule, Rules
from mercer.data import Alphabet, Sequences
from mercer.data.channels import by_name
from mercer.data.csr import CSRRows
from mercer.data.segments import (
    check_observed,
    check_some_points,
    columns_as_symbols,
    data_digests,
    in_digest_order,
    in_double,
    looks_like_matrix,
    refuse_paths,
    sample_name,
    segment_sum,
    segments,
    validated,
)

fits = ByteCache()
"""Cache of the models fitted to single samples, shared by all estimators of the process."""
ENTRY = 500
"""Bytes of an entry of the cache besides the model: keys, digests and tuples."""
LEAST_STRENGTH = 1e-100
"""Smallest weight of a prior whose products and inverses are not subnormal."""


@dataclass(frozen=True)
class Context:
    """Statistics learned from the training data and shared by all samples.

    Parameters
    ----------
    dimension : int
        Number of coordinates, words or symbols.
    alphabet : Alphabet or None
        Alphabet of symbols.
    center, scale : array or None
        For vectors, shape ``(dimension,)``: a point near the pooled mean, and rounded pooled variances.
    floor : float
        Constant that is added to every variance.
    pooled : Batch or None
        One model of all training data, shape ``(1,)``: the initial value and the prior of the others.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.Poisson().fit([[3, 0], [1, 2]]).context_.dimension
    2
    """

    dimension: int
    alphabet: Alphabet | None = None
    center: Floats | None = None
    scale: Floats | None = None
    floor: float = 0.0
    pooled: Any = None

    def __post_init__(self) -> None:
        for values in (self.center, self.scale):  # contexts are cached, and shared by whoever learns the same
            if values is not None:
                values.setflags(write=False)


def _is_prior(value: Any) -> bool:
    if isinstance(value, Batch):
        return value.shape == (1,)
    return value is None or (isinstance(value, str) and value == "pooled")


def strength(unit: str) -> Rule:
    """Accept the weight of a prior, in some unit: 0, or large enough that products and inverses keep their digits."""

    def good(value: Any) -> bool:
        return is_number(value) and (value == 0 or value >= LEAST_STRENGTH)

    return Rule(f"a number of {unit}, 0 or at least {LEAST_STRENGTH:.0e}", good)


class Estimator(CheckedParameters, BaseEstimator):
    """Base class of estimators. A subclass writes `context` and `fit_weighted` and inherits the rest.

    ``takes`` says what one sample is: ``"vectors"`` (a row of a matrix, or a set of points), ``"counts"`` (a row of
    counts, dense or CSR) or ``"symbols"`` (a string or a sequence of symbols).

    Examples
    --------
    >>> import mercer as mc
    >>> estimator = mc.Poisson()
    >>> isinstance(estimator, mc.families.Estimator), estimator.takes
    (True, 'vectors')
    """

    takes: ClassVar[str] = "vectors"
    of_sequences: ClassVar[bool] = False
    """Whether it is a model of whole sequences, rather than of the points in them."""
    quick_scores: ClassVar[bool] = False
    """Whether Fisher scores are read off the data, without a recursion over them."""
    uses_classes: ClassVar[bool] = False
    """Whether one model of all data learns from pairs, of the same class where classes are known."""

    _parameters: ClassVar[Rules] = {
        "prior": Rule("None, 'pooled' or a batch of shape (1,)", _is_prior, "Pass one member, such as p[3:4]."),
        "prior_strength": strength("observations"),
    }
    prior: Any
    prior_strength: float

    @property
    def accepts_empty(self) -> bool:
        """Whether the models define the law of an empty sample, so that a new one is an ordinary sample."""
        return False

    # -- the border ------------------------------------------------------------------------------------

    def accept(self, X: Any, *, owner: Any = None, reset: bool = False, context: Context | None = None) -> Any:
        """Turn ``X`` into a matrix (one row a sample) or `Sequences`, checked as scikit-learn checks.

        Numbers become float64, so that a fit to float32 has the bits of a fit to the same values in float64.

        Parameters
        ----------
        X : matrix, CSR matrix, list of strings or arrays, Sequences
            The data.
        owner : estimator, default=None
            Whose ``n_features_in_`` is set or checked; this estimator by default.
        reset : bool, default=False
            Whether ``X`` is training data.
        context : Context, default=None
            Whose alphabet strings are read with.
        """
        if self.takes == "symbols":
            alphabet = getattr(self, "alphabet", None)
            if alphabet is None and context is not None:
                alphabet = context.alphabet
            X = self._sequences(columns_as_symbols(X), owner, reset, alphabet, getattr(self, "unknown", "raise"))
            return X.require("symbols", self, "Use Gaussian, or pass strings.")
        if isinstance(X, Sequences) or not looks_like_matrix(X):
            X = self._sequences(X, owner, reset)
            self._check_vectors(X)
            return in_double(X)
        X = validated(
            owner if owner is not None else self,
            X,
            reset=reset,
            dtype=np.float64,
            accept_sparse="csr" if self.takes == "counts" else False,
            ensure_all_finite="allow-nan",
        )
        if sparse.issparse(X):
            return CSRRows.of(X)
        if not self._missing_allowed():
            self._check_observed(X)
        return X

    def _sequences(self, X: Any, owner: Any, reset: bool, alphabet: Any = None, unknown: str = "raise") -> Sequences:
        """Return ``X`` as one sequence or more, with the channels in the order that the owner learned in ``fit``."""
        X = Sequences(X, alphabet=alphabet, unknown=unknown).require_some()
        named: Sequences = by_name(self if owner is None else owner, X, reset=reset)
        return named

    def _check_vectors(self, X: Sequences) -> None:
        """Raise if sequences hold symbols or no coordinate."""
        X.require("vectors", self, "Use Categorical.")
        if X.dimension == 0:
            raise ValueError("X must have at least one coordinate; got points of 0 coordinates.")

    def _check_observed(self, X: Any) -> None:
        """Raise if a point of the data holds NaN."""
        check_observed(X, f"{type(self).__name__} cannot be fitted to such data; leave it out or fill it in.")

    def _missing_allowed(self) -> bool:
        return False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = self.takes != "symbols"
        tags.input_tags.three_d_array = self.takes == "vectors"
        tags.input_tags.string = self.takes == "symbols"
        tags.input_tags.sparse = self.takes == "counts"
        tags.input_tags.positive_only = self.takes == "counts"
        tags.input_tags.allow_nan = self._missing_allowed()
        return tags

    # -- methods of subclasses -------------------------------------------------------------------------

    def context(self, X: Any) -> Context:
        """Learn properties that all samples share, from the result of `accept`.

        Sums over all samples are made in the order of `in_digest_order`, so that the order of ``X`` does not matter.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement context(X)")

    def fit_weighted(self, x: Any, weights: Floats, offsets: Floats, context: Context, start: Any = None) -> Any:
        """Fit to weighted data.

        Parameters
        ----------
        x : array of shape (T, ...)
            Points of all samples, concatenated.
        weights : array of shape (T, n)
            Weight of every point in every one of n models.
        offsets : array of shape (N + 1,)
            Sample i has the points ``offsets[i]:offsets[i + 1]``.
        context : Context
            Properties that all samples share.
        start : Batch, default=None
            Of shape ``(N, n)``: where an iterative fit begins.

        Returns
        -------
        Batch of shape (N, n)
        """
        if self.of_sequences:
            raise TypeError(
                f"{type(self).__name__} is a model of sequences, not of weighted points; it cannot be a component or "
                "an emission."
            )
        raise NotImplementedError(f"{type(self).__name__} must implement fit_weighted(...)")

    def _even(self, x: Any, context: Context) -> Any:
        """Return a smoothing prior of one observation, ``(1,)``, or None if the family has full support.

        A pooled model counts it with the training data ``x``, so that what these lack is not impossible in new data.
        """
        return None

    # -- derived methods -------------------------------------------------------------------------------

    @warns_once
    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit one model to all data; it becomes ``model_``, a batch of shape ``(1,)``."""
        self._check_parameters()
        self._check_unused(X, y)
        X = self.accept(X, reset=True)
        refuse_paths(type(self).__name__, X, y)
        self.context_ = self.context(X)
        self.model_ = self._fit_shared(X, self.context_)
        return self

    def _check_unused(self, X: Any, y: Any) -> None:
        """Raise if y, which a model of sequences does not use, is the lengths of stacked sequences, as in hmmlearn."""
        if y is None or not self.of_sequences or not looks_like_matrix(X) or len(np.shape(X)) != 2:
            return
        lengths = y.tolist() if isinstance(y, np.ndarray) else y
        if not isinstance(lengths, list | tuple) or not all(isinstance(x, int | np.integer) for x in lengths):
            return
        n = np.shape(X)[0]
        if len(lengths) != n and sum(lengths) == n:
            raise ValueError(
                f"y has {len(lengths)} numbers that sum to the {n} rows of X, like the lengths of hmmlearn. Pass "
                "mc.Sequences.from_hmmlearn(X, lengths), which splits the rows into sequences."
            )

    def _fit_shared(self, X: Any, context: Context) -> Any:
        """Fit one model to all of the validated data."""
        check_some_points(X)
        x, _ = segments(in_digest_order(X))
        self._check_data(X, np.array([0, x.shape[0]]))
        return self._fit_alone(x, np.array([0, x.shape[0]]), context)

    @warns_once
    def fit_each(self, X: Any, context: Context | None = None) -> Any:
        """Fit one model to every sample.

        Parameters
        ----------
        X : data
            As for ``fit``.
        context : Context, default=None
            Properties that all samples share; by default those learned by ``fit``, or else those of ``X``.

        Returns
        -------
        Batch of shape (N,)
            Sample i's model depends only on this estimator's parameters, the context and sample i.
        """
        return self._fit_accepted(*self._accepted(X, context))

    def _accepted(self, X: Any, context: Context | None) -> tuple[Any, Context]:
        """Validate the data of `fit_each`, and learn the context."""
        self._check_parameters()
        if context is None:
            context = getattr(self, "context_", None)
        elif not isinstance(context, Context):
            raise TypeError(f"context must be what {type(self).__name__}.context(X) returns; got {context!r}.")
        if context is None:  # nothing is kept: a copy remembers the width of X, and is forgotten
            X = self.accept(X, owner=copy(self), reset=True)
            return X, self.context(X)
        return self.accept(X, context=context), context

    def _fit_accepted(self, X: Any, context: Context) -> Any:
        """Fit one model to every sample of the validated data."""
        self._check_each(X, context)
        return self._fit_cached(X, context)

    def _check_each(self, X: Any, context: Context) -> None:
        """Raise if data, context and parameters do not match."""
        self._check_context(X, context)
        self._check_pooled(context)
        self._check_data(X, segments(X)[1])

    def _check_pooled(self, context: Context) -> None:
        """Raise if the context was learned with other parameters."""
        if isinstance(self.prior, str) and context.pooled is None:
            raise ValueError(
                "The context was learned without a pooled model, which prior='pooled' needs. Call fit again."
            )

    def _check_context(self, X: Any, context: Context) -> None:
        if isinstance(X, Sequences):
            X.require_dimension(context.dimension)
        elif X.shape[1] != context.dimension:
            raise ValueError(
                f"The data must have {context.dimension} coordinates, as the training data had; got {X.shape[1]}."
            )

    def _fit_cached(self, X: Any, context: Context) -> Any:
        budget = settings().cache_bytes
        key = parameter_key(self, context) if budget > 0 and len(X) > 0 and self._cacheable() else None
        if key is None:
            return self._fit_named(X, context, lambda i: sample_name(X, i))
        keys = [(key, digest) for digest in data_digests(X)]
        found = [fits.get(k) for k in keys]
        missing = np.array([i for i, entry in enumerate(found) if entry is None], dtype=int)
        if len(missing):
            part = X if len(missing) == len(X) else X[missing]
            batch, findings = self._fit_noted(part, context, lambda i: sample_name(X, missing[i]))
            for rows in _blocks(batch, budget):
                part = batch if len(rows) == len(batch) else batch[rows]
                entries = {keys[missing[row]]: (part, place, findings[row]) for place, row in enumerate(rows.tolist())}
                fits.put_together(entries, size=part.nbytes + ENTRY * len(rows), budget=budget)
            for row, i in enumerate(missing):
                found[i] = (batch, row, findings[row])
        # Fits from the cache warn as fresh ones.
        repeat(About(finding, sample_name(X, i)) for i, entry in enumerate(found) for finding in entry[2])
        return batch if len(missing) == len(X) else _gather([(batch, row) for batch, row, _ in found])

    def _fit_noted(self, X: Any, context: Context, name: Callable[[int], str]) -> tuple[Any, list[list[Finding]]]:
        """Fit one model to every sample, and return what the fit found out about each; the cache keeps both."""
        notices: list[Any] = []
        try:
            with collected(notices):
                batch = self._fit_named(X, context, lambda i: SampleName(name(i), i))
        except BaseException:
            repeat(notices)  # a warning may tell why it failed
            raise
        findings, others = by_place(notices, len(X))
        repeat(others)
        return batch, findings

    def shared_context(self, X: Any) -> Context:
        """Return ``context(X)``, cached if it takes an iterative fit, because a grid search needs it repeatedly."""
        return self._shared_context("context", X, self.context)

    def shared_context_of_one(self, X: Any) -> Context:
        """Return the context of one model of all data, which may be learned with less effort than that of many."""
        return self.shared_context(X)

    def _shared_context(self, what: str, X: Any, compute: Callable[[Any], Context]) -> Context:
        # The pooled model itself has no prior, so that all strengths share it.
        found: Context = self._once(what, clone(self).set_params(prior_strength=0.0), X, lambda: compute(X))
        return found

    def _once(self, what: str, owner: Any, X: Any, compute: Callable[[], Any], *more: Any) -> Any:
        """Compute what ``owner`` learns from all of the data, or find it in the cache of fits."""
        budget = settings().cache_bytes
        iterative = hasattr(self, "n_iter") and self._cacheable()
        key = parameter_key(owner, what, data_digests(X), more) if iterative and budget > 0 else None
        if key is None:
            return compute()
        found = fits.get(key)
        if found is None:
            with collected() as notices:
                found = compute()
            size = sum(getattr(part, "nbytes", 0) for part in (found, getattr(found, "pooled", None))) + 1000
            found = found, notices
            fits.put(key, found, size=size, budget=budget)
        repeat(found[1])  # of cached results, too
        return found[0]

    def _cacheable(self) -> bool:
        return isinstance(getattr(self, "random_state", 0), int | np.integer)

    def _fit_named(self, X: Any, context: Context, name: Callable[[int], str]) -> Any:
        """Fit one model to every sample; ``name(i)`` is the name of sample i in messages."""
        return self._fit_data(X, context)

    def _fit_data(self, X: Any, context: Context) -> Any:
        return self._fit_alone(*segments(X), context)

    def _fit_alone(self, x: Any, offsets: Floats, context: Context) -> Any:
        weights = np.ones((x.shape[0], 1))
        return self.fit_weighted(x, weights, offsets, context)[:, 0]

    def _check_data(self, X: Any, offsets: Floats) -> None:
        """Raise if a sample is empty and there is no prior."""
        empty = np.flatnonzero(np.diff(offsets) == 0)
        if len(empty) and self.prior is None:
            raise ValueError(
                f"{sample_name(X, empty[0])} is empty. Leave it out, or use prior='pooled' to give it the prior."
            )

    def _prior_batch(self, context: Context) -> Any:
        return context.pooled if isinstance(self.prior, str) else self.prior

    def _suited(self, prior: Any, template: Any) -> Any:
        """Return the prior of a family, or raise if it differs in kind from ``template``."""
        try:
            template._check_alike(prior)
        except (TypeError, ValueError) as error:
            raise type(error)(f"The prior does not suit {type(self).__name__}: {error}") from None
        return prior

    def _known(self, X: Any) -> Any:
        """Return data as those of ``fit`` were read."""
        check_is_fitted(self, "model_")
        X = self.accept(X, context=self.context_)
        self._check_context(X, self.context_)
        return X

    def score_samples(self, X: Any) -> Floats:
        """Log probability of every sample under the model that ``fit`` learned."""
        X = self._known(X)
        if self.of_sequences:
            return to_numpy(self.model_.log_prob(X))[0]
        x, offsets = segments(X)
        return segment_sum(np.asarray(self.model_.log_prob(x))[0], offsets)

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log probability of a sample under the model that ``fit`` learned."""
        self._check_unused(X, y)
        return float(np.mean(self.score_samples(X)))


def _blocks(batch: Any, budget: int) -> list[Indices]:
    """Divide the rows of a batch into blocks that are small parts of the budget; a block is kept or dropped whole."""
    n = len(batch)
    count = min(n, -(-8 * (batch.nbytes + ENTRY * n) // budget))
    return np.array_split(np.arange(n), count)


def _gather(found: list[Any]) -> Any:
    """Collect (batch, row) pairs into one batch."""
    batches: dict[int, tuple[Any, list[int], list[int]]] = {}
    for position, (batch, row) in enumerate(found):
        entry = batches.setdefault(id(batch), (batch, [], []))
        entry[1].append(row)
        entry[2].append(position)
    pieces = [batch[np.array(rows)] for batch, rows, _ in batches.values()]
    order = np.concatenate([np.array(positions) for _, _, positions in batches.values()])
    joined = pieces[0] if len(pieces) == 1 else type(pieces[0]).concat(pieces)
    return joined if np.array_equal(order, np.arange(len(order))) else joined[np.argsort(order)]
