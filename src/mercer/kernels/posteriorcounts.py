"""Marginalised count kernels: symbols counted beside the hidden states that made them (Tsuda, Kin and Asai 2002)."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer._array import Array, Floats
from mercer._batch import Batch
from mercer._checks import is_whole
from mercer._verdict import Verdict
from mercer.data import Sequences
from mercer.data.csr import CSRRows
from mercer.kernels._operands import InnerProducts, Rows
from mercer.kernels.base.shared import SharedModelKernel
from mercer.models.hidden import SymbolShares, hidden_chain


class PosteriorCounts(InnerProducts, SharedModelKernel):
    r"""The marginalised count kernel: how often every symbol was made in every hidden state, as the model expects.

    Parameters
    ----------
    model : estimator, or batch of shape (1,)
        The shared model of symbols: `HMM` or `Mixture`, fitted to the training data, or `HMMs` or `Mixtures`, used as
        they are.
    order : {1, 2}, default=1
        Count symbols and their states, or pairs of neighbours and their states.
    normalize : bool, default=True
        Whether every object has the kernel 1 with itself.
    on_zero : {"raise", "zero"}, default="raise"
        What an object of zero norm gets: an error, or zeros.

    Attributes
    ----------
    model_ : batch of shape (1,)
        The model that all data share.

    Notes
    -----
    .. math:: c_{o,i}(x) = \frac1L \sum_t P(h_t = i, x_t = o \mid x), \qquad k(x, y) = \langle c(x), c(y)\rangle

    (MK-7); of order 2 :math:`c_{o,o',i,j} = \frac1{L-1}\sum_t P(h_t = i, x_t = o, h_{t+1} = j, x_{t+1} = o' \mid x)`.
    Features are n k numbers, or (n k)^2, for n states and k symbols. An ambiguity code counts as the symbols that it
    stands for, each as probable as the model says.

    Examples
    --------
    >>> import mercer as mc
    >>> emission = mc.Categoricals([[[0.9, 0.1], [0.1, 0.9]]], alphabet="ab")
    >>> model = mc.HMMs([[0.5, 0.5]], [[[0.9, 0.1], [0.1, 0.9]]], emission)
    >>> kernel = mc.PosteriorCounts(model, normalize=False).fit(["aab", "bbb"])
    >>> kernel.features(["aab"]).round(3)
    array([[0.613, 0.054, 0.15 , 0.183]])
    >>> list(kernel.get_count_names())
    ['count[a, 0]', 'count[a, 1]', 'count[b, 0]', 'count[b, 1]']
    """

    nonnegative = True
    _such_as = "mc.HMM() or mc.Mixture(mc.Categorical())"

    def __init__(self, model: Any = None, order: int = 1, normalize: bool = True, on_zero: str = "raise") -> None:
        self.model = model
        self.order = order
        self.normalize = normalize
        self.on_zero = on_zero

    @property
    def _why_zero(self) -> str:  # type: ignore[override]
        return " (it has no symbols)" if self.order == 1 else " (it has no pair of neighbours)"

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if isinstance(self.model, Batch):
            self._check_model(self.model)
        if not is_whole(self.order, 1) or self.order > 2:
            raise ValueError(f"order = {self.order!r}: give 1 to count symbols, or 2 to count pairs of neighbours")
        if not isinstance(self.normalize, bool | np.bool_):
            raise ValueError(f"normalize = {self.normalize!r}: give True or False")

    @staticmethod
    def _check_model(model: Any) -> None:
        SymbolShares(hidden_chain(model, "PosteriorCounts").emission)

    def _learn(self, X: Any, y: Any = None) -> None:
        super()._learn(X, y)
        self._check_model(self.model_)

    def _prepare(self, source: Sequences) -> Rows:
        chain = hidden_chain(self.model_, "PosteriorCounts")
        if self.order == 2:
            counts = chain.step_counts(source)
            return Rows(counts if isinstance(counts, np.ndarray) else CSRRows.of(counts))
        counts, _ = chain.symbol_counts(source)
        means = counts / np.maximum(source.lengths, 1)[:, None, None]
        return Rows(np.swapaxes(means, 1, 2).reshape(len(means), -1))

    def features(self, X: Any) -> Array:
        """Return the expected counts, divided by their lengths where the kernel is normalised.

        ``(N, n k)``, or ``(N, (n k)^2)`` of order 2: a SciPy CSR array where there are more than 4,096 columns.
        """
        return super().features(X)

    def _features(self, a: Rows) -> Any:
        return a.values.rows.to_scipy() if a.sparse else a.values

    def get_count_names(self) -> Floats:
        """Name the columns of ``features``: "count[a, 0]" is symbol a in state 0, "count[a, b, 0, 1]" a step."""
        check_is_fitted(self, "model_")
        chain = hidden_chain(self.model_, "PosteriorCounts")
        symbols = SymbolShares(chain.emission).alphabet.symbols
        order, states = int(self.order), range(chain.n_states)
        places = product(*[symbols] * order, *[states] * order)
        return np.array([f"count[{', '.join(map(str, place))}]" for place in places], dtype=object)

    @property
    def psd(self) -> Verdict:
        """Always positive semi-definite."""
        return Verdict("always", "an inner product of expected counts (MK-7)")
