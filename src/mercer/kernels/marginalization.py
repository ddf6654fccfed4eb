"""Marginalization kernels over a shared hidden history (Shawe-Taylor and Cristianini 2004, section 12.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import is_numpy_array

from mercer._array import Array, Floats, beside, logsumexp, safe_log, to_numpy
from mercer._batch import Batch
from mercer._verdict import Verdict
from mercer.data.segments import segment_sum, segments
from mercer.kernels._operands import LogFeatures, LogPairs
from mercer.kernels.base.shared import SharedModelKernel
from mercer.models.scores import is_sequential


@dataclass(eq=False, repr=False)
class Marginalization(LogPairs, SharedModelKernel):
    r"""Marginalization kernel: the probability that one hidden history generates both samples.

    Parameters
    ----------
    model : estimator, or batch of shape (1,), or batch of shape (M,) with ``weights``
        Model of the hidden histories and of the samples given a history: `HMM` (sequences of equal length, position by
        position), `PairHMM` and ``AffinePairHMM`` (sequences of any length, with gaps), `HiddenTree` (the leaves of a
        tree), `Mixture` (each position has its own hidden component). An estimator is fitted to the training data; a
        batch is not fitted again.
    weights : array of shape (M,), "uniform" or None, default=None
        Probabilities of the models of a batch, if one of them generates each whole sample. The kernel then has
        explicit features.
    normalize : bool, default=True
        Whether to normalize the kernel, so that k(x, x) = 1.
    on_zero : {"raise", "zero"}, default="raise"
        What to do with an object of zero norm: raise an error, or set its kernel values to zero.

    Attributes
    ----------
    model_ : batch of shape (1,), or (M,)
        The model or models shared by all samples.

    Notes
    -----
    .. math:: \kappa(x, z) = \sum_h P(h)\, P(x \mid h)\, P(z \mid h)

    (MK-2, definition 12.4 of the source): given the history h, the two samples are independent. Without
    normalization it is a P-kernel, a probability distribution on pairs. Independent hidden symbols: MK-3; hidden
    Markov models: MK-4; pair HMMs: MK-5 and MK-5b; trees: MK-6.

    The normalized kernel of long sequences is nearly the identity (MK-5c); use it inside `EmpiricalKernelMap` or
    `Tempered`.

    Examples
    --------
    >>> import mercer as mc
    >>> emission = mc.Categoricals([[[0.9, 0.1], [0.1, 0.9]]], alphabet="ab")
    >>> model = mc.HMMs([[0.5, 0.5]], [[[0.9, 0.1], [0.1, 0.9]]], emission)
    >>> mc.Marginalization(model)(["aab", "aaa", "bbb"]).round(3)
    array([[1.   , 0.349, 0.044],
           [0.349, 1.   , 0.003],
           [0.044, 0.003, 1.   ]])

    Strings of different lengths, with insertions and deletions:

    >>> kernel = mc.Marginalization(
    ...     mc.AffinePairHMM(substitution=(2, -3), gap_open=5, gap_extend=2, alphabet="dna")
    ... )
    >>> kernel.fit_transform(["ACGTAC", "ACGAC", "TTTT"]).shape
    (3, 3)

    Several given models, one of which generates each sample:

    >>> coins = mc.Categoricals([[0.5, 0.5], [0.9, 0.1]], alphabet="HT")
    >>> kernel = mc.Marginalization(coins, weights=[0.5, 0.5], normalize=False)
    >>> kernel.features(["HT", "HHH"]).shape
    (2, 2)
    """

    _why_zero = " (its probability under the model is zero)"
    _needed = "one model for all data, such as mc.HMM() or mc.AffinePairHMM()"

    psd = Verdict("always", "a sum of P(h) P(x|h) P(z|h) over hidden histories h, each term of rank one (MK-2)")

    model: Any = None
    weights: Any = None
    normalize: bool = True
    on_zero: str = "raise"

    # -- parameters ---------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.weights is not None and not isinstance(self.model, Batch):
            raise TypeError(
                f"model must be a batch of shape (M,) if weights is set; got {self.model!r}. Pass a batch, such as "
                "mc.HMMs(...) or fitted.model_, or weights=None."
            )

    def _check_batch(self, model: Any) -> None:
        if self.weights is not None:
            self._check_several(model, 1)
            self._log_weights()
            return
        if model.ndim == 1 and len(model) > 1:
            raise ValueError(
                f"model must be a single model if weights is None; got {len(model)} models. Set weights='uniform', or "
                "their probabilities, if one of them generates each sample, or pass one model, such as p[3:4]."
            )
        super()._check_batch(model)
        _require_history(model)

    def _log_weights(self) -> Floats:
        """Return the log probabilities of the models; raise if they are not a distribution."""
        size = len(self.model)
        if isinstance(self.weights, str) and self.weights == "uniform":
            return np.full(size, -np.log(size))
        try:
            weights = np.asarray(self.weights, dtype=float)
        except (TypeError, ValueError):
            weights = np.empty(0)
        if weights.shape != (size,) or not np.all(weights >= 0) or abs(weights.sum() - 1) > 1e-6:
            raise ValueError(
                f"weights must be {size} probabilities that sum to one, one per model, or 'uniform'; got "
                f"{self.weights!r}."
            )
        return safe_log(weights)

    # -- fitting ------------------------------------------------------------------------------------------

    def _learn(self, X: Any, y: Any = None) -> None:
        super()._learn(X, y)
        if self.weights is None:
            _require_history(self.model_)

    # -- values -------------------------------------------------------------------------------------------

    def _prepare(self, source: Any) -> Any:
        if self.weights is not None:
            return LogFeatures(_log_probabilities(self.model_, source).T + self._log_weights() / 2)
        return self.model_.shared_history(source)

    def _log_chance(self, source: Any) -> Floats:
        """Return the log probability of each sample, ``(N,)``: the kernel summed over the other sample."""
        logs = _log_probabilities(self.model_, source)
        return logsumexp(logs + self._log_weights()[:, None], axis=0) if self.weights is not None else logs.reshape(-1)

    def _features(self, a: Any) -> Array:
        return a.values if self.weights is not None else super()._features(a)

    def _feature_names(self, width: int) -> list[str]:
        return [f"model[{i}]" for i in range(width)]


def _require_history(model: Any) -> None:
    if not hasattr(model, "shared_history"):
        raise TypeError(
            f"Marginalization needs a model with hidden histories; {type(model).__name__} has none. Use mc.HMM, "
            "mc.PairHMM, mc.AffinePairHMM, mc.HiddenTree, mc.BayesNet or mc.Mixture, or pass several models with "
            "weights=."
        )


def _log_probabilities(models: Any, X: Any) -> Floats:
    """Return the log probability of each whole sample under each model, ``(M, N)``."""
    if is_sequential(models):
        return to_numpy(models.log_prob(X))
    if is_sequential(getattr(models, "components", None)):  # a mixture of models of whole sequences
        logs = _log_probabilities(models.components.reshape(-1), X)
        joint = logs.reshape(*models.components.shape, -1) + safe_log(to_numpy(models.weights))[..., None]
        return logsumexp(joint, axis=1)
    x, offsets = segments(X)
    first = getattr(models, next(iter(models._arrays)))
    if not is_numpy_array(first) and not hasattr(x, "indptr") and x.dtype.kind == "f":
        x = beside(first, x, first.dtype)
    return segment_sum(to_numpy(models.log_prob(x)).T, offsets).T
