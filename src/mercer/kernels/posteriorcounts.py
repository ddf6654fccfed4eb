"""Marginalized count kernels of symbols and hidden states (Tsuda, Kin and Asai 2002)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer._array import Array, Floats
from mercer._batch import Batch
from mercer._parameters import Rules, whole
from mercer._verdict import Verdict
from mercer.data import Sequences
from mercer.data.csr import CSRRows
from mercer.kernels._operands import InnerProducts, Rows
from mercer.kernels.base.shared import SharedModelKernel
from mercer.models.hidden import SymbolShares, hidden_chain


@dataclass(eq=False, repr=False)
class PosteriorCounts(InnerProducts, SharedModelKernel):
    r"""Marginalized count kernel: expected counts of each symbol in each hidden state.

    Parameters
    ----------
    model : estimator, or batch of shape (1,)
        The shared model of symbols: `HMM` or `Mixture`, a `BayesNet` of discrete nodes, or a
        `ProfileHMM`, fitted to the training data, or a fitted batch of one of these.
    k : {1, 2}, default=1
        Length of the counted words, which are counted with their states: symbols (1) or pairs of neighboring symbols
        (2) (the paper calls it the order).
    normalize : bool, default=True
        Whether to normalize the kernel, so that k(x, x) = 1.
    on_zero : {"raise", "zero"}, default="raise"
        What to do with an object of zero norm: raise an error, or set its kernel values to zero.

    Attributes
    ----------
    model_ : batch of shape (1,)
        The model shared by all samples.

    Notes
    -----
    .. math:: c_{o,i}(x) = \frac1L \sum_t P(h_t = i, x_t = o \mid x), \qquad k(x, y) = \langle c(x), c(y)\rangle

    (MK-7); for k = 2, :math:`c_{o,o',i,j} = \frac1{L-1}\sum_t P(h_t = i, x_t = o, h_{t+1} = j, x_{t+1} = o' \mid x)`.
    A network counts the states of each node jointly with those of its parents, averaged over the rows of a sample (k =
    1); a factorial hidden Markov model counts symbols with the states of all chains. For n states and s symbols there
    are (n s)^k features. The count of an ambiguity code is distributed over its symbols by their posterior
    probabilities.

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

    _parameters: ClassVar[Rules] = {"k": whole(1, 2, cure="1 counts symbols, 2 counts pairs of neighbors.")}
    nonnegative = True
    _needed = "one model for all data, such as mc.HMM() or mc.Mixture(mc.Categorical())"

    psd = Verdict("always", "an inner product of expected counts (MK-7)")

    model: Any = None
    k: int = 1
    normalize: bool = True
    on_zero: str = "raise"

    @property
    def _why_zero(self) -> str:  # type: ignore[override]
        return " (it has no symbols)" if self.k == 1 else " (it has no pair of neighbors)"

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if isinstance(self.model, Batch):
            self._check_model(self.model)

    def _check_model(self, model: Any) -> None:
        if hasattr(model, "latent_cliques"):
            if self.k != 1:
                raise ValueError(f"k must be 1 for {type(model).__name__}, which has no pairs of neighbors; got k = 2.")
            model.require_discrete("PosteriorCounts")
            return
        SymbolShares(hidden_chain(model, "PosteriorCounts").emission)

    def _accepts_empty(self) -> bool:
        return True  # with zero norm

    def _learn(self, X: Any, y: Any = None) -> None:
        super()._learn(X, y)
        self._check_model(self.model_)

    def _prepare(self, source: Sequences) -> Rows:
        if hasattr(self.model_, "latent_cliques"):
            tables = [clique.table for clique in self._cliques(source)]
            return Rows(np.concatenate([table.reshape(len(table), -1) for table in tables], axis=1))
        chain = hidden_chain(self.model_, "PosteriorCounts")
        if self.k == 2:
            counts = chain.step_counts(source)
            return Rows(counts if isinstance(counts, np.ndarray) else CSRRows.of(counts))
        counts, _ = chain.symbol_counts(source)
        means = counts / np.maximum(source.lengths, 1)[:, None, None]
        return Rows(np.swapaxes(means, 1, 2).reshape(len(means), -1))

    def features(self, X: Any) -> Array:
        """Return the expected counts, scaled to unit norm if the kernel is normalized.

        ``(N, (n s)^k)`` for n states and s symbols; a SciPy CSR array if there are more than 4,096 columns.
        """
        return super().features(X)

    def _features(self, a: Rows) -> Any:
        return a.values.rows.to_scipy() if a.sparse else a.values

    def _cliques(self, source: Any) -> list[Any]:
        return [clique for clique in self.model_.latent_cliques(source) if not clique.step]

    def _feature_names(self, width: int) -> list[str]:
        return [str(name) for name in self.get_count_names()]

    def get_count_names(self) -> Floats:
        """Return the names of the columns of ``features``, such as "count[a, 0]" for symbol a in state 0."""
        check_is_fitted(self, "model_")
        if hasattr(self.model_, "latent_cliques"):
            named = [product(*clique.names) for clique in self._cliques(self.model_.no_samples())]
            return np.array([f"count[{', '.join(place)}]" for places in named for place in places], dtype=object)
        chain = hidden_chain(self.model_, "PosteriorCounts")
        symbols = SymbolShares(chain.emission).alphabet.symbols
        k, states = int(self.k), range(chain.n_states)
        places = product(*[symbols] * k, *[states] * k)
        return np.array([f"count[{', '.join(map(str, place))}]" for place in places], dtype=object)
