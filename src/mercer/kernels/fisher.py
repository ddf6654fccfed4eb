"""Fisher kernels: inner products of scores under a shared model (Shawe-Taylor and Cristianini 2004)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy import sparse
from scipy.linalg import block_diag
from sklearn.utils.validation import check_is_fitted

from mercer._array import Floats
from mercer._batch import Batch
from mercer._parameters import NONE, Rules, between, boolean, nonnegative, one_of, seed
from mercer._random import seed_of
from mercer._verdict import Verdict
from mercer.data.csr import CSRRows
from mercer.data.segments import digest_order
from mercer.families.gaussian import Gaussians
from mercer.kernels._classes import check_scores, classes_of, learn_models
from mercer.kernels._information import information_of
from mercer.kernels._names import channels_of
from mercer.kernels._operands import CHEAP_COLUMNS, CenteredCounts, InnerProducts, Rows, are_token_counts
from mercer.kernels.base.shared import SharedModelKernel
from mercer.models.posterior import Posterior
from mercer.models.scores import (
    check_posterior,
    dense,
    is_posterior,
    score_names,
    score_rows,
)

INFORMATION = ("auto", "identity", "diagonal", "empirical", "model")


@dataclass(eq=False, repr=False)
class Fisher(InnerProducts, SharedModelKernel):
    r"""The Fisher kernel: inner products of scores under one shared model, or one model per class.

    Parameters
    ----------
    model : estimator, or batch of shape (C,)
        The shared model: an estimator is fitted to the training data, a batch is used as it is. The scores of several
        models (C > 1) are concatenated.
    information : {"auto", "identity", "diagonal", "empirical", "model"}, default="auto"
        The metric of the scores: the identity (the practical kernel), the diagonal of the second moment of the training
        scores, the full matrix, or the information of the model itself (the invariant kernel, see Notes). "auto" is
        "diagonal" for Gaussian models, and hidden Markov models and mixtures of Gaussians, with ``per="step"`` and
        ``power=0.5``; for all other models it is "identity".
    per : {"sequence", "step"} or None, default=None
        Whether scores are sums or means over the observations of a sequence. A normalized kernel with "identity" does
        not depend on it. None is "sequence", unless "auto" says otherwise.
    parametrization : {"logit", "weight"}, default="logit"
        Parameters of probabilities: logits, or unnormalized weights, evaluated where they sum to 1 (FK-0).
    power : float or None, default=None
        Whitened scores z become sign(z) abs(z)^power; 0.5 is usual for Fisher vectors. None is 1, unless "auto" says
        otherwise.
    ridge : float, default=1e-3
        Added to an information that is estimated from training scores, as a fraction of its mean diagonal; 0 uses the
        pseudo-inverse, as "model" does.
    by_class : bool, default=False
        Whether to fit one model to every class of the target.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the samples that are drawn for "model".
    normalize : bool, default=True
        Whether to normalize the kernel, so that every self-kernel is 1.
    on_zero : {"raise", "zero"}, default="raise"
        Whether objects of zero norm raise an error or get zeros.

    Attributes
    ----------
    model_ : batch of shape (1,), or (C,)
        The shared model, or the models of the classes.
    classes_ : ndarray of shape (C,)
        The classes, if there is one model for each.
    effective_rank_ : float
        Effective rank of the information.
    n_draws_ : int
        Number of samples drawn for "model"; 0 where the model has a closed form.

    Notes
    -----
    .. math:: g(x) = \nabla_\theta \log p_\theta(x), \qquad k(x, z) = g(x)^\top I^{-1} g(z)

    (FK-1, definition 12.27 of the source). With ``information="model"``,

    .. math:: I = E_{x \sim p_\theta}\, g(x)\, g(x)^\top,

    and the kernel does not depend on the parametrization. Families have a closed form (FK-3). For other models, I is
    the mean over samples that the model draws: at least as many as training samples, 2,000, and 20 per parameter, with
    the lengths of the training samples. With M draws, the standard error of an entry of the normalized kernel is about
    :math:`(1 - k^2)/\sqrt M` for Gaussian scores, and larger for scores with heavy tails. The matrix is inverted by a
    pseudo-inverse. For several models, it has one block for each.

    The score of a sample of several points is the sum of their scores. Parameters are logits, means, log
    standard deviations (FK-0). Mixtures: FK-5; Markov
    chains: FK-6; pair HMMs: FK-7; hidden Markov models: FK-8 and FK-9.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> X = np.array([[0.0], [1.0], [5.0]])
    >>> mc.Fisher(mc.Gaussian("diagonal"), information="empirical").fit(X).features(X).shape
    (3, 2)
    >>> emission = mc.Categoricals([[[0.5, 0.5], [0.9, 0.1]]], alphabet="ab")
    >>> model = mc.HMMs([[0.5, 0.5]], [[[0.8, 0.2], [0.2, 0.8]]], emission)
    >>> mc.Fisher(model)(["abab", "aaaa", "bb"]).shape
    (3, 3)
    """

    _parameters: ClassVar[Rules] = {
        "information": one_of(*INFORMATION),
        "per": one_of("sequence", "step", cure="'step' divides scores by the length.") | NONE,
        "parametrization": one_of("logit", "weight"),
        "power": between(0, 1, "right") | NONE,
        "ridge": nonnegative("It is a fraction of the mean information."),
        "by_class": boolean(),
        "random_state": seed(),
    }
    _why_zero = " (all of its values are missing, or its score is exactly zero)"

    psd = Verdict("always", "an inner product of (whitened) scores (FK-1)")

    model: Any = None
    information: str = "auto"
    per: str | None = None
    parametrization: str = "logit"
    power: float | None = None
    ridge: float = 1e-3
    by_class: bool = False
    random_state: Any = 0
    normalize: bool = True
    on_zero: str = "raise"

    @classmethod
    def from_posteriors(cls, model: Any, X: Any, states: Any, transitions: Any = None, **parameters: Any) -> Self:
        """Return a Fisher kernel that is fitted to given posteriors of hidden states.

        Parameters
        ----------
        model : HMMs of shape (1,)
            The model that the posteriors were computed with.
        X : Sequences, or data that can be converted
            N sequences, with T observations in all.
        states : array of shape (T, n), or list of arrays (T_i, n)
            Posterior probabilities of the states for every observation.
        transitions : array of shape (N, n, n) or (number of steps, n, n), default=None
            Expected numbers of transitions in every sequence, or posteriors of every step; if None, the scores of the
            transitions are zero.
        **parameters
            Parameters of this kernel.

        Examples
        --------
        >>> import numpy as np, mercer as mc
        >>> model = mc.HMMs(
        ...     [[0.5, 0.5]],
        ...     [[[0.5, 0.5]] * 2],
        ...     mc.Categoricals([[[0.9, 0.1], [0.1, 0.9]]], "ab"),
        ... )
        >>> states = np.array([[0.9, 0.1], [0.1, 0.9], [0.9, 0.1]])
        >>> mc.Fisher.from_posteriors(model, ["ab", "a"], states).features(["b"]).shape
        (1, 10)
        """
        if not getattr(model, "takes_posteriors", False):
            raise TypeError(
                f"model must be the HMMs of shape (1,) that the posteriors were computed with; got {model!r}."
            )
        kernel = cls(model, **parameters)
        kernel._check_parameters()
        return kernel.fit(Posterior(kernel._accept(X, reset=False), states, transitions))

    # -- parameters ---------------------------------------------------------------------------------------

    def _check_batch(self, model: Any) -> None:
        self._check_several(model, 1)
        check_scores(model, "Fisher")
        if self.by_class:
            raise TypeError(
                "by_class=True fits one model to every class, but model is a fitted batch. Pass an estimator, such as "
                "mc.HMM(...), or a batch with one model per class and by_class=False."
            )

    def _recipe(self) -> _Recipe:
        """Return the metric, and how scores are summed and raised to a power, with "auto" and None resolved."""
        best = self.information == "auto" and isinstance(_leaf(getattr(self, "model_", self.model)), Gaussians)
        information = self.information if self.information != "auto" else "diagonal" if best else "identity"
        per = self.per if self.per is not None else "step" if best else "sequence"
        power = self.power if self.power is not None else 0.5 if best else 1.0
        return _Recipe(information, per, float(power))

    @property
    def _needs_fit(self) -> str:
        information = self._recipe().information
        if information in ("diagonal", "empirical"):
            return f"information={information!r} is estimated from the training data"
        if information == "model":
            return "information='model' is that of samples as long as the training samples"
        return super()._needs_fit

    # -- data ---------------------------------------------------------------------------------------------

    def _accepts_empty(self) -> bool:
        return True  # with zero norm

    def _accept(self, X: Any, *, reset: bool) -> Any:
        if is_posterior(X):
            if not getattr(self.model, "takes_posteriors", False):
                raise TypeError(
                    "Posteriors belong to the model that they were computed with. Pass that model to Fisher, as in "
                    "Fisher(hmm.model_)"
                )
            check_posterior(self.model, X)
            return X
        return super()._accept(X, reset=reset)

    # -- learned state ------------------------------------------------------------------------------------

    def _learn(self, X: Any, y: Any = None) -> None:
        self.__dict__.pop("classes_", None)
        for name in ("effective_rank_", "n_draws_"):
            self.__dict__.pop(name, None)
        if self.by_class:
            self._learn_classes(X, y)
        else:
            super()._learn(X, y)
        check_scores(self.model_, "Fisher")
        self._whiten = self._metric(X)

    def _learn_classes(self, X: Any, y: Any) -> None:
        self.classes_, members = classes_of(X, y, "Fisher(by_class=True)")
        learn_models(self, X, members)

    def _metric(self, X: Any) -> Metric | None:
        """Return the root of the information that scores are multiplied with; None for the identity."""
        information = self._recipe().information
        if information == "identity":
            return None
        scores = self._scores(X)
        if information != "diagonal":
            scores = dense(scores, f"information={information!r}")
        self._train_side.keep("scores", scores)  # reused for the operand of the training data
        metric: Metric
        if information == "model":
            metric, values = self._of_model(X)
        else:
            metric, values = estimated(scores[digest_order(X)], self.ridge, diagonal=information == "diagonal")
        self.effective_rank_ = effective_rank(values)
        return metric

    def _of_model(self, X: Any) -> tuple[Metric, Floats]:
        """Return the root of the pseudo-inverse of the models' own information, and its eigenvalues."""
        matrices, self.n_draws_ = information_of(
            self.model_, X, self.parametrization, self._recipe().per, seed_of(self.random_state)
        )
        values, vectors = zip(*map(np.linalg.eigh, matrices), strict=True)
        roots = [v * inverse_root(own, 0.0) for own, v in zip(values, vectors, strict=True)]
        return Full(block_diag(*roots)), np.concatenate(values)

    def _scores(self, X: Any) -> Any:
        """Return the score of every sample, ``(N, P)``."""
        return score_rows(self.model_, X, self.parametrization, self._recipe().per)

    def _learned(self) -> Any:
        return super()._learned(), self._whiten

    # -- values -------------------------------------------------------------------------------------------

    def _cheap_pairs(self, source: Any) -> bool:
        return self._reader().quick_scores and len(score_names(self.model_)) <= CHEAP_COLUMNS

    def _prepare(self, source: Any) -> Rows | CenteredCounts:
        power = self._recipe().power
        plain = self._whiten is None and power == 1 and self.parametrization == "logit" and len(self.model_) == 1
        if plain and are_token_counts(source, self.model_):
            return CenteredCounts.of(source, self.model_.token_probabilities()[0])
        scores = self._kept(source, "scores")
        if scores is None:
            scores = self._scores(source)
        if self._whiten is not None:
            if not isinstance(self._whiten, Diagonal):
                scores = dense(scores, f"information={self.information!r}")
            scores = self._whiten.applied(scores)
        if power != 1:
            scores = _powered(scores, power)
        return Rows(CSRRows.of(scores) if sparse.issparse(scores) else scores)

    def _feature_names(self, width: int) -> list[str]:
        if self._whiten is None or isinstance(self._whiten, Diagonal):
            return [str(name) for name in self.get_score_names()]
        return [f"whitened[{i}]" for i in range(width)]  # a full matrix mixes the parameters

    def get_score_names(self) -> Floats:
        """Return the names of the parameters of the unwhitened scores, such as "transition[0, 1]"."""
        check_is_fitted(self, "model_")
        return np.array(score_names(self.model_, channels_of(self)), dtype=object)


class _Recipe(NamedTuple):
    """Operations of a Fisher kernel on scores."""

    information: str
    per: str
    power: float


def _leaf(model: Any) -> Any:
    """Return the family that hidden Markov models and mixtures are made of; of other models, the model itself."""
    for name in ("emission", "components"):
        if isinstance(getattr(model, name, None), Batch):
            return _leaf(getattr(model, name))
    return model


def _powered(scores: Any, power: float) -> Any:
    """Raise the entries of a matrix, dense or sparse, to a power, with their signs."""
    if not sparse.issparse(scores):
        return np.sign(scores) * np.abs(scores) ** power
    out = scores.copy()
    out.data = np.sign(out.data) * np.abs(out.data) ** power
    return out


class Diagonal(NamedTuple):
    """Scale every column."""

    columns: Floats

    def applied(self, scores: Any) -> Any:
        """Multiply scores, dense or sparse, with the matrix."""
        return scores.multiply(self.columns).tocsr() if sparse.issparse(scores) else scores * self.columns

    def pulled(self, weights: Floats) -> Floats:
        """Return the weights of scores, given those of whitened scores: multiply with the transposed matrix."""
        return weights * self.columns


class LowRank(NamedTuple):
    """The symmetric matrix ``V' diag(inside) V + rest``, which is never formed; the rows of V are orthonormal."""

    rows: Floats
    inside: Floats
    rest: float

    def applied(self, scores: Floats) -> Floats:
        """Multiply scores with the matrix."""
        return (scores @ self.rows.T * self.inside) @ self.rows + self.rest * scores

    def pulled(self, weights: Floats) -> Floats:
        """Return the weights of scores, given those of whitened scores; the matrix is symmetric."""
        return self.applied(weights)


class Full(NamedTuple):
    """Multiply with a matrix."""

    matrix: Floats

    def applied(self, scores: Floats) -> Floats:
        """Multiply scores with the matrix."""
        return scores @ self.matrix

    def pulled(self, weights: Floats) -> Floats:
        """Return the weights of scores, given those of whitened scores: multiply with the transposed matrix."""
        return weights @ self.matrix.T


Metric = Diagonal | LowRank | Full


def inverse_root(values: Floats, ridge: float) -> Floats:
    """Return (values + ridge)^{-1/2}; without a ridge 0 if a value is below 1e-12 of the largest (FK-2)."""
    values = np.maximum(values, 0.0)
    raised = values + ridge * values.mean()
    keep = raised > (0.0 if ridge else 1e-12 * values.max())
    return np.where(keep, 1 / np.sqrt(np.where(keep, raised, 1.0)), 0.0)


def effective_rank(values: Floats) -> float:
    """Return (sum of eigenvalues)^2 / sum of their squares."""
    values = np.maximum(values, 0.0)
    return float(values.sum() ** 2 / max(np.sum(values**2), 1e-300))


def estimated(scores: Any, ridge: float, *, diagonal: bool) -> tuple[Metric, Floats]:
    """Root of the second moment of scores ``(N, P)``, or of its diagonal; and its eigenvalues."""
    n, p = scores.shape
    if diagonal:
        squares = scores.multiply(scores) if sparse.issparse(scores) else scores * scores
        values = np.asarray(squares.sum(axis=0)).ravel() / n
        return Diagonal(inverse_root(values, ridge)), values
    if n >= p:
        values, vectors = np.linalg.eigh(scores.T @ scores / n)
        return Full(vectors * inverse_root(values, ridge)), values
    _, singular, right = np.linalg.svd(scores, full_matrices=False)
    # The p - n eigenvalues that are 0 come last: (I + r)^{-1/2} = r^{-1/2} (1 - V V') + V (values + r)^{-1/2} V'
    values = np.append(singular**2 / n, np.zeros(p - n))
    inverse = inverse_root(values, ridge)
    return LowRank(right, inverse[:n] - inverse[-1], float(inverse[-1])), values
