"""Latent mean map kernels: observations and their hidden states under one shared model (Mehta and Gray 2010)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mercer._array import Floats
from mercer._coupling import smoothed_features
from mercer._parameters import NONE, Rules, boolean, gamma, optional, seed, whole
from mercer._random import seed_of
from mercer._verdict import Verdict
from mercer.data import Sequences
from mercer.data.segments import check_observed, segments
from mercer.kernels._names import table
from mercer.kernels._operands import InnerProducts, Rows
from mercer.kernels._weighted_points import GaussianPoints, SummedPoints, WeightedPoints, clique_points, clique_rows
from mercer.kernels.base.shared import SharedModelKernel
from mercer.kernels.base.transformer import WIDE, Bounds
from mercer.models.hidden import hidden_chain

CHUNK = 1 << 22
"""Maximum number of random features of single observations in memory at once."""


@dataclass(eq=False, repr=False)
class LatentMeanMap(InnerProducts, SharedModelKernel):
    r"""Latent mean map kernel, which compares observations jointly with their hidden states and transitions.

    Parameters
    ----------
    model : estimator, or batch of shape (1,)
        The shared model: `HMM`, `FactorialHMM`, `SwitchingLDS`, `Mixture`, `LDS` or `BayesNet`, fitted to the training
        data, or a fitted batch of one of these.
    gamma : float, default=1.0
        Parameter of the base kernel ``exp(-gamma |x - y|^2)`` between observations. Symbols are one-hot encoded, so
        that a mismatch has the value ``exp(-2 gamma)``.
    gamma_states : float or None, default=None
        The same for hidden states, which are vectors for an `LDS` and one-hot encoded otherwise; None means ``gamma``.
    transitions : bool, default=True
        Whether to compare the transitions of hidden Markov models too. For other models they are not compared.
    n_components : int or None, default=None
        Number of frequencies of random Fourier features of vectors, in place of the exact base kernel. The kernel then
        has explicit features, two per frequency and state. Symbols have exact features and do not need it.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the frequencies; None draws a new one in every fit.
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
    .. math:: k(x, y) = \frac1{L L'} \sum_{s,t} \kappa(x_s, y_t)\,\langle\gamma_s, \Lambda \gamma'_t\rangle
              + \langle \Xi, \Lambda \Xi' \Lambda\rangle

    (LMMK-1) with posteriors :math:`\gamma_t` of the states, mean posteriors :math:`\Xi` of the transitions, and the
    state kernel :math:`\Lambda`, 1 for equal states and ``exp(-2 gamma_states)`` otherwise. A sequence of one
    observation has no transitions. `Gaussianized` turns this kernel into LMMK-2.

    A linear dynamical system has Gaussian posteriors of the states, :math:`N(m_t, V_t)`. Its kernel is
    :math:`\frac1{L L'} \sum_{s,t} \kappa(x_s, y_t)\, E\, e^{-\gamma_s\|h_s - h'_t\|^2}`. It depends on the basis of the
    state, except for rotations.

    A factorial hidden Markov model has one state per chain: the state kernel is the product over the chains, and the
    transitions of all chains add up (up to 1,024 joint states). Under a switching system, observations are compared
    together with their regimes, and the steps between regimes as transitions; its states, whose posteriors are mixtures
    over paths of regimes, are summed out. The samples of a network are rows or tables of rows.
    Each node is compared jointly with its parents, and the kernels of all nodes add up (LMMK-0):

    .. math:: k(x, y) = \sum_v \frac1{m m'} \sum_{i,j} E\Big[\prod_{u \in \{v\} \cup pa_v}
              \kappa_u(z_{iu}, z'_{ju}) \,\Big|\, x, y\Big]

    For k symbols and n states there are (k + 1)(n + 1) + (n + 1)^2 features. Ambiguity codes are resolved by the
    posterior of the model.

    Examples
    --------
    >>> import mercer as mc
    >>> emission = mc.Categoricals([[[0.9, 0.1], [0.1, 0.9]]], alphabet="ab")
    >>> model = mc.HMMs([[0.5, 0.5]], [[[0.9, 0.1], [0.1, 0.9]]], emission)
    >>> kernel = mc.LatentMeanMap(model, gamma=0.5)
    >>> kernel(["aabb", "abab", "bbbbb"]).round(3)
    array([[1.   , 0.984, 0.732],
           [0.984, 1.   , 0.728],
           [0.732, 0.728, 1.   ]])
    >>> kernel.features(["aabb", "abab", "bbbbb"]).shape
    (3, 18)
    """

    _parameters: ClassVar[Rules] = {
        "gamma": gamma(),
        "gamma_states": optional(gamma()),
        "transitions": boolean(),
        "n_components": whole(1, cure="It is the number of random frequencies; None computes the exact kernel.") | NONE,
        "random_state": seed(),
    }
    _smooth: ClassVar[Bounds] = {"gamma": WIDE, "gamma_states": WIDE}

    _why_zero = " (it has no observed values)"
    _needed = "one model for all data, such as mc.HMM(), mc.Mixture() or mc.LDS()"

    psd = Verdict("always", "an inner product of mean embeddings of observations and their states (MM-1, LMMK-0)")

    model: Any = None
    gamma: float = 1.0
    gamma_states: float | None = None
    transitions: bool = True
    n_components: int | None = None
    random_state: Any = 0
    normalize: bool = True
    on_zero: str = "raise"

    # -- parameters ---------------------------------------------------------------------------------------

    def _check_batch(self, model: Any) -> None:
        super()._check_batch(model)
        self._check_hidden(model)

    @property
    def nonnegative(self) -> bool:  # type: ignore[override]
        """Whether all values are nonnegative: random features can give negative values, the exact kernel cannot."""
        return self.n_components is None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = _takes_missing(self.model)
        tags.input_tags.sparse = False
        return tags

    # -- fitting ------------------------------------------------------------------------------------------

    def _accepts_empty(self) -> bool:
        return True  # with zero norm

    def _accept(self, X: Any, *, reset: bool) -> Any:
        X = super()._accept(X, reset=reset)
        points, _ = segments(X)
        if hasattr(points, "indptr"):
            raise TypeError(f"{type(self).__name__} does not support sparse rows. Pass X.toarray().")
        if not _is_symbols(X) and not _takes_missing(self.model):
            check_observed(X, "Impute it, leave the point out, or use mc.Fisher, which marginalizes it.")
        return X

    def _learn(self, X: Any, y: Any = None) -> None:
        super()._learn(X, y)
        self._check_hidden(self.model_)
        self._frequencies = None
        if self.n_components is not None and not _is_symbols(X):
            rng = np.random.default_rng(seed_of(self.random_state))
            width = segments(X)[0].shape[1] + (self.model_.state_dim if _has_vector_states(self.model_) else 0)
            self._frequencies = rng.standard_normal((width, int(self.n_components)))

    def _check_hidden(self, model: Any) -> None:
        """Raise if observations have no hidden states."""
        if not _has_vector_states(model) and not _has_cliques(model):
            hidden_chain(model, type(self).__name__)

    def _learned(self) -> Any:
        return super()._learned(), self._frequencies

    # -- values -------------------------------------------------------------------------------------------

    def _prepare(self, source: Any) -> Rows | WeightedPoints | GaussianPoints | SummedPoints:
        gamma = float(self.gamma)
        gamma_states = gamma if self.gamma_states is None else float(self.gamma_states)
        points, offsets = segments(source)
        if _has_cliques(self.model_):
            return self._of_cliques(source, gamma, gamma_states)
        if _has_vector_states(self.model_):
            states = self.model_.state_posteriors(source)
            found = GaussianPoints(
                np.asarray(points, dtype=np.float64), states, np.asarray(offsets), gamma, gamma_states
            )
            return found if self._frequencies is None else Rows(found.random_features(self._frequencies))
        lengths = np.maximum(np.diff(offsets), 1)
        chain = hidden_chain(self.model_, type(self).__name__)
        if _is_symbols(source):
            counts, expected = chain.symbol_counts(source)
            seen = _smoothed_table(np.swapaxes(counts / lengths[:, None, None], 1, 2), gamma, gamma_states)
            return Rows(np.concatenate([seen, self._steps(expected.transitions, lengths, gamma_states)], axis=1))
        expected = chain.expected(source, states=True)
        assert expected.states is not None
        states = smoothed_features(expected.states, gamma_states)
        steps = self._steps(expected.transitions, lengths, gamma_states)
        points = np.asarray(points, dtype=np.float64)
        if self._frequencies is None:
            weights = states / np.repeat(lengths, np.diff(offsets))[:, None]
            return WeightedPoints.of(points, weights, offsets, gamma, Rows(steps))
        frequencies = np.sqrt(2 * gamma) * self._frequencies
        seen = _random_means(points, states, offsets, frequencies) / lengths[:, None]
        return Rows(np.concatenate([seen, steps], axis=1))

    def _feature_names(self, width: int) -> list[str]:
        if _has_cliques(self.model_) or _has_vector_states(self.model_) or not _is_symbols(self.train_):
            return super()._feature_names(width)
        chain = hidden_chain(self.model_, type(self).__name__)
        states = range(chain.n_states)
        seen = table("mean", self.train_.alphabet.symbols, states)
        return seen + (table("step", states, states) if self.transitions and chain.ordered else [])

    def _of_cliques(self, source: Any, gamma: float, gamma_states: float) -> Rows | SummedPoints:
        """Return the operand of a graphical model, a sum over its cliques."""
        found = [clique for clique in self.model_.latent_cliques(source) if self.transitions or not clique.step]
        tables = [clique for clique in found if clique.column is None]
        rows = [clique_rows(clique, gamma, gamma_states) for clique in tables]
        points, offsets = segments(source)
        features = [np.zeros((len(offsets) - 1, 0)), *rows]
        real = [clique for clique in found if clique.column is not None]
        if self._frequencies is None and real:
            return clique_points(real, points, offsets, gamma, gamma_states, Rows(np.concatenate(features, axis=1)))
        for clique in real:
            assert self._frequencies is not None
            weights = clique_rows(clique, gamma, gamma_states)
            frequencies = np.sqrt(2 * gamma) * self._frequencies[clique.column]
            own = np.asarray(points[:, clique.column], dtype=np.float64)
            features.append(_random_means(own, weights, np.asarray(offsets), frequencies))
        return Rows(np.concatenate(features, axis=1))

    def _steps(self, transitions: Floats, lengths: Floats, gamma_states: float) -> Floats:
        """Return the features of mean transition posteriors, ``(N, (n + 1)^2)``; ``(N, 0)`` for mixtures."""
        if not self.transitions or not hidden_chain(self.model_, type(self).__name__).ordered:
            return np.zeros((len(transitions), 0))
        return _smoothed_table(transitions / np.maximum(lengths - 1, 1)[:, None, None], gamma_states, gamma_states)


def _has_vector_states(model: Any) -> bool:
    """Whether the hidden states are vectors, with Gaussian posteriors."""
    return hasattr(model, "state_posteriors")


def _has_cliques(model: Any) -> bool:
    """Whether the model is a graphical one, whose cliques are compared."""
    return hasattr(model, "latent_cliques")


def _takes_missing(model: Any) -> bool:
    """Whether missing values are replaced by their posteriors."""
    return bool(getattr(model, "infers_missing", False))


def _is_symbols(X: Any) -> bool:
    return isinstance(X, Sequences) and X.is_symbols


def _smoothed_table(tables: Floats, gamma_rows: float, gamma_columns: float) -> Floats:
    """Return flat features of tables M ``(N, r, c)`` with inner product <M, K M' K'>, K = e + (1 - e) I (LMMK-1)."""
    for width in (gamma_columns, gamma_rows):  # the last axis, then, after the swap, the other
        total = tables.sum(axis=-1, keepdims=True) * np.exp(-width)
        tables = np.swapaxes(np.concatenate([tables * np.sqrt(-np.expm1(-2.0 * width)), total], axis=-1), 1, 2)
    return np.ascontiguousarray(tables).reshape(len(tables), -1)


def _random_means(points: Floats, states: Floats, offsets: Floats, frequencies: Floats) -> Floats:
    """Sum random Fourier features times state features over each sequence (MM-2)."""
    width = 2 * frequencies.shape[1] * states.shape[1]
    out = np.empty((len(offsets) - 1, width))
    step = max(1, CHUNK // width)
    for i in range(len(out)):  # in chunks within one sequence: its sum does not depend on other sequences
        total = np.zeros((2 * frequencies.shape[1], states.shape[1]))
        for begin in range(int(offsets[i]), int(offsets[i + 1]), step):
            rows = slice(begin, min(begin + step, int(offsets[i + 1])))
            angle = points[rows] @ frequencies
            total += np.concatenate([np.cos(angle), np.sin(angle)], axis=1).T @ states[rows]
        out[i] = total.ravel()
    return out / np.sqrt(frequencies.shape[1])
