"""Fisher kernels: data compared by how they would change one shared model (Shawe-Taylor and Cristianini 2004)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import NotFittedError

from mercer._array import to_numpy
from mercer._batch import Batch
from mercer._verdict import Verdict
from mercer.families._csr import CSRRows
from mercer.families._estimator import segment_sum, segments
from mercer.families._family import is_number
from mercer.families.multinomial import Multinomials
from mercer.kernels._base import is_whole
from mercer.kernels._model import SharedModelKernel
from mercer.kernels._operands import CenteredCounts, InnerProducts, Rows

Floats = np.ndarray[Any, Any]
INFORMATION = ("identity", "diagonal", "empirical", "sampled", "exact")


class LowRank(NamedTuple):
    """The symmetric matrix ``V' diag(inside) V + rest``, which is never formed; the rows of V are orthonormal."""

    rows: Floats
    inside: Floats
    rest: float

    def applied(self, scores: Floats) -> Floats:
        """Multiply scores with the matrix."""
        return (scores @ self.rows.T * self.inside) @ self.rows + self.rest * scores


class Fisher(InnerProducts, SharedModelKernel):
    r"""The Fisher kernel: inner products of scores under one model that all data share.

    Parameters
    ----------
    model : estimator, or batch of shape (1,)
        The shared model: fitted to the training data, or used as it is.
    information : {"identity", "diagonal", "empirical", "sampled", "exact"}, default="identity"
        The metric of the scores: none (the practical kernel), the diagonal or all of the training data's second moment,
        that of points drawn from the model, or the model's own information.
    ridge : float, default=1e-3
        Added to an estimated information, as a fraction of its mean diagonal; 0 takes the pseudo-inverse.
    n_samples : int, default=10000
        Points drawn for ``information="sampled"``.
    random_state : int or None, default=0
        Seed of these draws.
    normalize : bool, default=True
        Whether every object has the kernel 1 with itself.
    zero : {"raise", "zero"}, default="raise"
        What an object of zero norm gets: an error, or zeros.

    Attributes
    ----------
    model_ : batch of shape (1,)
        The shared model.
    effective_rank_ : float
        Of the information that was estimated.

    Notes
    -----
    .. math:: g(x) = \nabla_\theta \log p_\theta(x), \qquad k(x, z) = g(x)^\top I^{-1} g(z)

    (FK-1). A datum of several points has the sum of their scores. Parameters are logits, means, log standard deviations
    (FK-0); the kernel with exact information does not depend on them.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> X = np.array([[0.0], [1.0], [5.0]])
    >>> mc.Fisher(mc.Gaussian("diagonal"), information="exact").fit(X).features(X).shape
    (3, 2)
    """

    def __init__(
        self,
        model: Any = None,
        information: str = "identity",
        ridge: float = 1e-3,
        n_samples: int = 10_000,
        random_state: int | None = 0,
        normalize: bool = True,
        zero: str = "raise",
    ) -> None:
        self.model = model
        self.information = information
        self.ridge = ridge
        self.n_samples = n_samples
        self.random_state = random_state
        self.normalize = normalize
        self.zero = zero

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.information not in INFORMATION:
            raise ValueError(f"information = {self.information!r}: give one of {', '.join(map(repr, INFORMATION))}")
        if not is_number(self.ridge) or self.ridge < 0:
            raise ValueError(f"ridge = {self.ridge!r}: give a fraction of the mean information, 0 or more")
        if not is_whole(self.n_samples, 1):
            raise ValueError(f"n_samples = {self.n_samples!r}: give the number of points to draw, 1 or more")
        if isinstance(self.model, Batch):
            self._check_scores(self.model)

    @staticmethod
    def _check_scores(model: Any) -> None:
        if not hasattr(model, "fisher_scores"):
            raise TypeError(f"Fisher needs `fisher_scores`, which {type(model).__name__} does not have; use a family")

    @property
    def _needs_fit(self) -> str:
        if self.information in ("diagonal", "empirical"):
            return f"information={self.information!r} is estimated from the training data"
        return super()._needs_fit

    def _learn(self, X: Any, y: Any = None) -> None:
        super()._learn(X, y)
        self._check_scores(self.model_)
        self._whiten = self._whitening(X)
        self._asked = self._asks()

    def _asks(self) -> tuple[Any, ...]:
        """Parameters that the metric was made with."""
        names = {"diagonal": 1, "empirical": 1, "sampled": 3}.get(self.information, 0)
        return (self.information, *(self.ridge, self.n_samples, self.random_state)[:names])

    def _check_metric(self) -> None:
        if self._asked != self._asks():
            raise NotFittedError(
                f"this Fisher learned its metric with {self._asked}, and is asked for {self._asks()} (information, "
                "ridge, n_samples, random_state): call fit again"
            )

    def _scores(self, X: Any) -> Floats:
        """Scores of every datum, ``(N, P)``: sums over its points."""
        x, offsets = segments(X)
        return segment_sum(to_numpy(self.model_.fisher_scores(x))[0], offsets)

    def _whitening(self, X: Any) -> Floats | LowRank | None:
        """Return what scores are multiplied with: a vector (diagonal), a matrix (of few parts), or nothing."""
        if self.information == "identity":
            return None
        if self.information == "exact":
            return self._root(to_numpy(self.model_.fisher_information())[0], ridge=0.0)
        if self.information == "sampled":
            points = self.model_.sample(int(self.n_samples), random_state=self.random_state)[0]
            scores = to_numpy(self.model_.fisher_scores(points))[0]
            return self._root(scores.T @ scores / len(scores), self.ridge)
        scores = self._scores(X)
        if self.information == "diagonal":
            return self._inverse_root(np.mean(scores * scores, axis=0), self.ridge)
        if scores.shape[0] >= scores.shape[1]:
            return self._root(scores.T @ scores / len(scores), self.ridge)
        return self._dual_root(scores)

    def _root(self, information: Floats, ridge: float) -> Floats:
        """Return a matrix W with W W' = (I + ridge)^-1, the pseudo-inverse without a ridge."""
        values, vectors = np.linalg.eigh(information)
        return np.asarray(vectors * self._inverse_root(values, ridge))

    def _dual_root(self, scores: Floats) -> LowRank:
        """Return the same for the second moment of fewer scores than parameters, without forming P x P."""
        n, p = scores.shape
        _, singular, right = np.linalg.svd(scores, full_matrices=False)
        # The p - n eigenvalues that are 0 come last: (I + r)^{-1/2} = r^{-1/2} (1 - V V') + V (values + r)^{-1/2} V'
        inverse = self._inverse_root(np.append(singular**2 / n, np.zeros(p - n)), self.ridge)
        return LowRank(right, inverse[:n] - inverse[-1], float(inverse[-1]))

    def _inverse_root(self, values: Floats, ridge: float) -> Floats:
        """Return (values + ridge)^{-1/2}; without a ridge 0 where a value is below 1e-12 of the largest (FK-2)."""
        values = np.maximum(values, 0.0)
        self.effective_rank_ = float(values.sum() ** 2 / max(np.sum(values**2), 1e-300))
        raised = values + ridge * values.mean()
        keep = raised > (0.0 if ridge else 1e-12 * values.max())
        return np.where(keep, 1 / np.sqrt(np.where(keep, raised, 1.0)), 0.0)

    def _prepare(self, source: Any) -> Rows | CenteredCounts:
        self._check_metric()
        if self._whiten is None and isinstance(source, CSRRows) and isinstance(self.model_, Multinomials):
            return CenteredCounts.of(source, to_numpy(self.model_.dense().probability)[0].astype(np.float64))
        scores, whiten = self._scores(source), self._whiten
        if whiten is None:
            return Rows(scores)
        if isinstance(whiten, LowRank):
            return Rows(whiten.applied(scores))
        return Rows(scores * whiten if whiten.ndim == 1 else scores @ whiten)

    def _learned(self) -> Any:
        self._check_metric()
        return super()._learned(), self._whiten

    @property
    def psd(self) -> Verdict:
        """Always positive semi-definite."""
        return Verdict("always", "an inner product of (whitened) scores (FK-1)")
