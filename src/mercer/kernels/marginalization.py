"""Marginalization kernels: how probably one hidden history made both data (Shawe-Taylor and Cristianini 2004, 12.1)."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import is_numpy_array

from mercer._array import Array, Floats, beside, logsumexp, safe_log, to_numpy
from mercer._batch import Batch
from mercer._verdict import Verdict
from mercer.data.segments import segment_sum, segments
from mercer.kernels._operands import LogFeatures
from mercer.kernels.base.kernel import Kernel
from mercer.kernels.base.shared import SharedModelKernel
from mercer.models.scores import is_sequential

PRECISIONS = ("float64", "float32")


class Marginalization(SharedModelKernel):
    r"""The marginalization kernel: the probability that one hidden history made both data.

    Parameters
    ----------
    model : estimator, or batch of shape (1,), or batch of shape (M,) with ``prior``
        What hidden histories look like and what they make of them: `HMM` (sequences of equal length, position by
        position), `PairHMM` and ``AffinePairHMM`` (sequences of any lengths, with gaps), `HiddenTree` (the leaves of a
        tree), `Mixture` (every position has a hidden component of its own). An estimator is fitted to the training
        data, a batch is used as it is.
    prior : array of shape (M,), "uniform" or None, default=None
        Probabilities of the members of a batch, of which one made the whole datum. Then the kernel has explicit
        features.
    precision : {"float64", "float32"}, default="float64"
        Arithmetic of ``AffinePairHMM``: "float32" is faster, right to about four decimals of the logarithm, and does
        pairs whose numbers are out of its range again in "float64".
    normalize : bool, default=True
        Whether every object has the kernel 1 with itself.
    on_zero : {"raise", "zero"}, default="raise"
        What an object of zero norm gets: an error, or zeros.

    Attributes
    ----------
    model_ : batch of shape (1,), or (M,)
        The model that all data share.

    Notes
    -----
    .. math:: \kappa(x, z) = \sum_h P(h)\, P(x \mid h)\, P(z \mid h)

    (MK-2, definition 12.4 of the source): given the history h, the two data are independent. Not normalised it is a
    P-kernel: a probability on pairs. Independent hidden symbols: MK-3; hidden Markov models: MK-4; pair HMMs: MK-5 and
    MK-5b; trees: MK-6.

    The normalized kernel of long sequences is nearly the identity (MK-5c): use it inside `EmpiricalKernelMap` or
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

    Strings of different lengths, by insertions and deletions:

    >>> kernel = mc.Marginalization(mc.AffinePairHMM(substitution=(2, -3), gap_open=5, gap_extend=2, alphabet="dna"))
    >>> kernel.fit_transform(["ACGTAC", "ACGAC", "TTTT"]).shape
    (3, 3)

    A few given models, of which one made the whole datum:

    >>> coins = mc.Categoricals([[0.5, 0.5], [0.9, 0.1]], alphabet="HT")
    >>> mc.Marginalization(coins, prior=[0.5, 0.5], normalize=False).features(["HT", "HHH"]).shape
    (2, 2)
    """

    _why_zero = " (it is impossible under the model)"
    _such_as = "mc.HMM() or mc.AffinePairHMM()"

    def __init__(
        self,
        model: Any = None,
        prior: Any = None,
        precision: str = "float64",
        normalize: bool = True,
        on_zero: str = "raise",
    ) -> None:
        self.model = model
        self.prior = prior
        self.precision = precision
        self.normalize = normalize
        self.on_zero = on_zero

    # -- parameters ---------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        if self.precision not in PRECISIONS:
            raise ValueError(f"precision = {self.precision!r}: give 'float64' or 'float32'")
        if self.prior is None:
            if isinstance(self.model, Batch) and self.model.ndim == 1 and len(self.model) > 1:
                raise ValueError(
                    f"model holds {len(self.model)} models: give prior='uniform', or their probabilities, if one of "
                    "them made each datum, or one model alone, such as p[3:4]"
                )
            super()._check_parameters()
            if isinstance(self.model, Batch):
                _require_history(self.model)
            return
        Kernel._check_parameters(self)
        if not isinstance(self.model, Batch) or self.model.ndim != 1 or len(self.model) == 0:
            raise TypeError(
                f"prior gives probabilities to the members of a batch, and model = {self.model!r} is none: pass a "
                "batch of shape (M,), such as mc.HMMs(...) or fitted.model_, or prior=None"
            )
        self._log_prior()

    def _log_prior(self) -> Floats:
        """Return the logarithms of the members' probabilities, or raise where these are none."""
        size = len(self.model)
        if isinstance(self.prior, str) and self.prior == "uniform":
            return np.full(size, -np.log(size))
        try:
            prior = np.asarray(self.prior, dtype=float)
        except (TypeError, ValueError):
            prior = np.empty(0)
        if prior.shape != (size,) or not np.all(prior >= 0) or abs(prior.sum() - 1) > 1e-6:
            raise ValueError(
                f"prior = {self.prior!r}: give {size} probabilities that sum to one, one for every model, or 'uniform'"
            )
        return safe_log(prior)

    # -- data and what is learned -------------------------------------------------------------------------

    def _learn(self, X: Any, y: Any = None) -> None:
        super()._learn(X, y)
        if self.prior is None:
            _require_history(self.model_)

    # -- values -------------------------------------------------------------------------------------------

    def _prepare(self, source: Any) -> Any:
        if self.prior is not None:
            return LogFeatures(_log_probabilities(self.model_, source).T + self._log_prior() / 2)
        if self.precision == "float64":
            return self.model_.shared_history(source)
        if self.precision not in getattr(self.model_, "precisions", ("float64",)):
            raise TypeError(
                f"precision = {self.precision!r} is for AffinePairHMM, and the model is {type(self.model_).__name__}: "
                "give precision='float64'"
            )
        return self.model_.shared_history(source, precision=self.precision)

    def _tile(self, a: Any, b: Any) -> Array:
        return a.pair(b)

    def _self(self, a: Any) -> Array:
        return a.alone()

    def _features(self, a: Any) -> Array:
        return a.values if self.prior is not None else super()._features(a)

    @property
    def psd(self) -> Verdict:
        """Always positive semi-definite (MK-2)."""
        return Verdict("always", "a sum of P(h) P(x|h) P(z|h) over hidden histories h, each of them of rank one (MK-2)")


def _require_history(model: Any) -> None:
    if not hasattr(model, "shared_history"):
        raise TypeError(
            f"Marginalization needs hidden histories, and {type(model).__name__} has none: use mc.HMM, mc.PairHMM, "
            "mc.AffinePairHMM, mc.HiddenTree or mc.Mixture, or give several models with prior="
        )


def _log_probabilities(models: Any, X: Any) -> Floats:
    """Log probability of every whole datum under every model, ``(M, N)``."""
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
