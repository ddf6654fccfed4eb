"""TOP kernels: tangent vectors of posterior log odds under one model per class (Tsuda et al. 2002)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from mercer._array import Floats, logsumexp, to_numpy
from mercer._batch import Batch
from mercer._coupling import FieldOperand
from mercer._parameters import Rules, one_of
from mercer._verdict import Verdict
from mercer.data.csr import CSRRows
from mercer.data.segments import sample_name, segment_sum, segments
from mercer.kernels._classes import PRIORS, check_scores, class_priors, classes_of, learn_models
from mercer.kernels._names import channels_of
from mercer.kernels._operands import CenteredCounts, InnerProducts, Rows, are_token_counts
from mercer.kernels.base.shared import SharedModelKernel
from mercer.models.scores import DENSE, difference, is_sequential, lengths_of, score_names, score_rows


@dataclass(eq=False, repr=False)
class TOP(InnerProducts, SharedModelKernel):
    r"""TOP kernel: inner products of the log odds of the classes and of their gradients.

    Parameters
    ----------
    model : estimator, or batch of shape (C,)
        Estimator to fit to the samples of each class, or a fitted batch with one model per class, C >= 2.
    per : {"sequence", "step"}, default="sequence"
        Whether log odds and gradients are sums or means over the observations of a sequence.
    parametrization : {"logit", "weight"}, default="logit"
        Parametrization of probabilities: logits, or unnormalized weights at the normalized point (FK-0).
    priors : None, "empirical", "uniform" or array of shape (C,), default=None
        Prior probabilities of the classes: their frequencies in the training data ("empirical"), equal, or given in
        the order of ``classes_``. None means "empirical" for an estimator and "uniform" for a batch.
    normalize : bool, default=True
        Whether to normalize the kernel, so that k(x, x) = 1.
    on_zero : {"raise", "zero"}, default="raise"
        What to do with an object of zero norm: raise an error, or set its kernel values to zero.

    Attributes
    ----------
    model_ : batch of shape (C,)
        The models of the classes.
    classes_ : ndarray of shape (C,)
        The classes, if ``model`` is an estimator.
    priors_ : ndarray of shape (C,)
        Prior probabilities of the classes.

    Notes
    -----
    .. math:: v_c(x) = \log P(c)\,p_c(x) - \log\sum_{k\ne c} P(k)\,p_k(x), \qquad
              f(x) = \left(v_c(x),\ \partial_{\theta_k} v_c(x)\right)_{c,k}

    With g_k the Fisher score of model k (FK-1) and
    :math:`w_{ck} = P(k)\,p_k(x) / \sum_{j\ne c} P(j)\,p_j(x)`, the gradients are :math:`\partial_{\theta_c} v_c = g_c`
    and :math:`\partial_{\theta_k} v_c = -w_{ck}\,g_k`, so that

    .. math:: k(x, z) = \sum_c v_c v'_c + \sum_k \Big(\sum_c a_{ck} a'_{ck}\Big)\, \langle g_k, g'_k\rangle,
              \qquad a_{cc} = 1,\ a_{ck} = -w_{ck}

    costs as much as `Fisher` for all classes. Two classes have one log odds, of the second against the first, as in
    the source. The prior probabilities of the classes are fixed, not parameters.

    Examples
    --------
    >>> import mercer as mc
    >>> strings, y = ["abab", "baba", "aabb", "bbaa"], [0, 0, 1, 1]
    >>> kernel = mc.TOP(mc.MarkovChain(order=1, smoothing=1.0)).fit(strings, y)
    >>> kernel.features(strings).shape
    (4, 9)
    >>> kernel.log_odds(["ababab", "aaabbb"]).round(2)
    array([[-2.94],
           [ 2.8 ]])
    """

    _parameters: ClassVar[Rules] = {
        "per": one_of("sequence", "step", cure="'step' divides by the length."),
        "parametrization": one_of(
            "logit", "weight", cure="'weight' takes unnormalized weights at the normalized point (FK-0)."
        ),
        "priors": PRIORS,
    }
    _needed = "one model per class: an estimator such as mc.HMM(n_states=3), or a fitted batch of shape (C,)"
    _why_zero = " (all classes are equally probable, and its scores are zero)"

    psd = Verdict("always", "an inner product of log odds and their gradients")

    model: Any = None
    per: str = "sequence"
    parametrization: str = "logit"
    priors: Any = None
    normalize: bool = True
    on_zero: str = "raise"

    # -- parameters ---------------------------------------------------------------------------------------

    def _check_batch(self, model: Any) -> None:
        self._check_several(model, 2)
        if isinstance(self.priors, str) and self.priors == "empirical":
            raise ValueError(
                "priors='empirical' needs an estimator, but model is a fitted batch. Use 'uniform' or one "
                "probability per class."
            )
        check_scores(model, "TOP")

    @property
    def _needs_fit(self) -> str:
        return "" if isinstance(self.model, Batch) else "it learns one model per class"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = not isinstance(self.model, Batch)
        return tags

    # -- fitting ------------------------------------------------------------------------------------------

    def _learn(self, X: Any, y: Any = None) -> None:
        for name in ("context_", "classes_"):
            self.__dict__.pop(name, None)
        if isinstance(self.model, Batch):
            self.model_ = self.model
            counts = np.ones(len(self.model))
        else:
            counts = self._learn_classes(X, y)
        priors = class_priors(self.priors, counts)
        if not np.all(priors > 0):
            c = int(np.argmin(priors))
            raise ValueError(f"priors[{c}] = {priors[c]}: a class of probability zero has no log odds. Leave it out.")
        self.priors_ = priors

    def _learn_classes(self, X: Any, y: Any) -> Floats:
        """Fit one model to each class and return the numbers of samples."""
        self.classes_, members = classes_of(X, y, "TOP")
        if len(members) < 2:
            raise ValueError(
                f"All samples are of one class, {self.classes_.tolist()[0]!r}. TOP needs at least two classes."
            )
        learn_models(self, X, members)
        check_scores(self.model_, "TOP")
        return np.array([len(places) for places in members])

    def _learned(self) -> Any:
        return super()._learned(), self.priors_

    # -- values -------------------------------------------------------------------------------------------

    def log_odds(self, X: Any) -> Floats:
        """Return the log odds of each class against all others, ``(N, C)``; for two classes, of the second, ``(N, 1)``.

        Parameters
        ----------
        X : data
            Input of the models.
        """
        kernel, accepted, _ = self.sources(X)
        return kernel._odds(accepted)[0]

    def _odds(self, X: Any) -> tuple[Floats, Floats]:
        """Return the log odds ``(N, V)`` and the coefficients ``(N, V, C)`` of the scores in their gradients."""
        logs = _log_likelihoods(self.model_, X)
        bad = np.argwhere(~np.isfinite(logs.T))
        if len(bad):
            i, c = map(int, bad[0])
            which = repr(self.classes_.tolist()[c]) if hasattr(self, "classes_") else c
            raise ValueError(
                f"{sample_name(X, i)} has the log probability {logs[c, i]} under the model of class {which}, so it "
                "has no log odds. Use smoothing, or a prior with full support (prior='pooled' pools only within the "
                "class), or leave it out."
            )
        odds, coefficients = log_odds(logs.T + np.log(self.priors_))
        if self.per == "step":
            odds = odds / np.maximum(lengths_of(X), 1)[:, None]
        return odds, coefficients

    def _prepare(self, X: Any) -> Tangents:
        odds, coefficients = self._odds(X)
        models, count = self.model_, len(self.model_)
        scores: list[Any]
        if self.parametrization == "logit" and are_token_counts(X, models):
            scores = [CenteredCounts.of(X, row) for row in models.token_probabilities()]
        else:
            rows = score_rows(models, X, self.parametrization, self.per)
            width = rows.shape[1] // count
            parts = [rows[:, k * width : (k + 1) * width] for k in range(count)]
            scores = [Rows(CSRRows.of(part) if sparse.issparse(part) else part) for part in parts]
        return Tangents(odds, coefficients, scores)

    def _feature_names(self, width: int) -> list[str]:
        return [str(name) for name in self.get_score_names()]

    def get_score_names(self) -> Floats:
        """Return the names of the features, such as "log_odds[0]" and "log_odds[0] / model[1].mean[0]"."""
        if not isinstance(self.model, Batch):
            check_is_fitted(self, "model_")
        models = self.model if isinstance(self.model, Batch) else self.model_
        count = len(models)
        names = [f"log_odds[{c}]" for c in range(count if count > 2 else 1)]
        inner = score_names(models, channels_of(self))
        return np.array(names + [f"{odds} / {name}" for odds in names for name in inner], dtype=object)


def _log_likelihoods(models: Any, X: Any) -> Floats:
    """Return log probabilities under each model, ``(C, N)``; for sparse counts, up to a term common to all models."""
    if are_token_counts(X, models):
        p = models.token_probabilities()
        counts = X.to_scipy().astype(np.float64)
        logs = np.log(np.where(p > 0, p, 1.0))
        return np.where(((p == 0) @ counts.T) > 0, -np.inf, logs @ counts.T)
    if is_sequential(models):
        return np.asarray(to_numpy(models.log_prob(X)), dtype=np.float64)
    x, offsets = segments(X)
    return np.stack([segment_sum(row, offsets) for row in to_numpy(models.log_prob(x)).astype(np.float64)])


@dataclass
class Tangents(FieldOperand):
    """Log odds and their gradients as an operand: coefficients times scores, which are never multiplied out.

    Parameters
    ----------
    odds : array of shape (N, V)
        Log odds.
    coefficients : array of shape (N, V, C)
        Coefficient of the score of model k in the gradient of log odds v.
    scores : list of C Rows or CenteredCounts
        The scores of every model.
    """

    odds: Floats
    coefficients: Floats
    scores: list[Any]

    def inner(self, other: Self) -> Floats:
        """Return the inner products of every pair."""
        value = self.odds @ other.odds.T
        for k, (rows, others) in enumerate(zip(self.scores, other.scores, strict=True)):
            value += (self.coefficients[:, :, k] @ other.coefficients[:, :, k].T) * rows.inner(others)
        return np.asarray(value)

    def squares(self) -> Floats:
        """Return the squared norms."""
        weights = np.sum(self.coefficients**2, axis=1)
        value = np.sum(self.odds**2, axis=1)
        for k, rows in enumerate(self.scores):
            value = value + weights[:, k] * rows.squares()
        return np.asarray(value)

    def dense(self) -> Floats:
        """Return the features, ``(N, V + V C P)``: log odds, and the gradient of each with respect to every model."""
        n, v, _ = self.coefficients.shape
        size = n * v * sum(part.width if isinstance(part, Rows) else len(part.expected) for part in self.scores)
        if size > DENSE:
            raise ValueError(
                f"The explicit features of {n} samples under {len(self.scores)} classes are {size} numbers. Pass fewer "
                "samples at once, or use the Gram matrix, which does not need them."
            )
        rows = [part.dense() for part in self.scores]
        gradients = [self.coefficients[:, c, k, None] * rows[k] for c in range(v) for k in range(len(rows))]
        return np.concatenate([self.odds, *gradients], axis=1)


def log_odds(joint: Floats) -> tuple[Floats, Floats]:
    """Convert log P(c) p_c(x) ``(N, C)`` to log odds ``(N, V)`` and the coefficients of scores ``(N, V, C)``."""
    n, count = joint.shape
    scale = np.abs(joint).max(axis=1, keepdims=True)
    if count == 2:  # the other log odds are the negatives of these
        odds = difference(joint[:, 1:], joint[:, :1], scale)
        return odds, np.broadcast_to(np.array([-1.0, 1.0]), (n, 1, 2))
    others = np.where(np.eye(count, dtype=bool), -np.inf, joint[:, None, :])
    total = logsumexp(others, axis=-1)
    return difference(joint, total, scale), np.eye(count) - np.exp(others - total[..., None])
