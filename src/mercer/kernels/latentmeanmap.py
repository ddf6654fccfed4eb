"""Latent mean map kernels: observations and their hidden states under one shared model (Mehta and Gray 2010)."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._array import Floats
from mercer._batch import Batch
from mercer._checks import check_gamma, is_whole
from mercer._coupling import smoothed_features
from mercer._random import check_seed, seed_of
from mercer._verdict import Verdict
from mercer.data import Sequences
from mercer.data.segments import point_name, segments
from mercer.kernels._operands import InnerProducts, Rows
from mercer.kernels._weighted_points import WeightedPoints
from mercer.kernels.base.hooks import WIDE
from mercer.kernels.base.shared import SharedModelKernel
from mercer.models.hidden import hidden_chain

CHUNK = 1 << 22
"""Numbers of random features of single observations that are alive at once."""


class LatentMeanMap(InnerProducts, SharedModelKernel):
    r"""The latent mean map kernel: observations beside their hidden states, and steps of these, compared on average.

    Parameters
    ----------
    model : estimator, or batch of shape (1,)
        The shared model: `HMM` or `Mixture`, fitted to the training data, or `HMMs` or `Mixtures`, used as they are.
    gamma : float, default=1.0
        Of the base kernel ``exp(-gamma |x - y|^2)`` between observations; symbols are one-hot, so that a mismatch costs
        ``exp(-2 gamma)``.
    gamma_states : float or None, default=None
        The same between hidden states, which are one-hot; None takes ``gamma``.
    transitions : bool, default=True
        Whether the steps of a hidden Markov model are compared beside its observations. Mixtures have none.
    n_components : int or None, default=None
        Frequencies of random Fourier features of vectors, in place of their exact base kernel; then the kernel has
        explicit features, two for every frequency and state. Symbols have exact features and do not need it.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the frequencies; None is 0.
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
    .. math:: k(x, y) = \frac1{L L'} \sum_{s,t} \kappa(x_s, y_t)\,\langle\gamma_s, \Lambda \gamma'_t\rangle
              + \langle \Xi, \Lambda \Xi' \Lambda\rangle

    (LMMK-1) with posteriors :math:`\gamma_t` of the states, mean posteriors :math:`\Xi` of their steps, and the state
    kernel :math:`\Lambda`, 1 for equal states and ``exp(-2 gamma_states)`` for others. A datum of one observation has
    no steps. `Gaussianized` makes LMMK-2 of it.

    Of symbols the features are (k + 1)(n + 1) and (n + 1)^2 numbers, for k symbols and n states. Ambiguity codes count
    as what the model makes of them.

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

    _smooth = {"gamma": WIDE, "gamma_states": WIDE}  # noqa: RUF012

    _why_zero = " (nothing in it was observed)"
    _such_as = "mc.HMM() or mc.Mixture()"

    def __init__(
        self,
        model: Any = None,
        gamma: float = 1.0,
        gamma_states: float | None = None,
        transitions: bool = True,
        n_components: int | None = None,
        random_state: Any = 0,
        normalize: bool = True,
        on_zero: str = "raise",
    ) -> None:
        self.model = model
        self.gamma = gamma
        self.gamma_states = gamma_states
        self.transitions = transitions
        self.n_components = n_components
        self.random_state = random_state
        self.normalize = normalize
        self.on_zero = on_zero

    # -- parameters ---------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if isinstance(self.model, Batch):
            hidden_chain(self.model, type(self).__name__)
        check_gamma(self.gamma)
        if self.gamma_states is not None:
            check_gamma(self.gamma_states, "gamma_states")
        if not isinstance(self.transitions, bool | np.bool_):
            raise ValueError(f"transitions = {self.transitions!r}: give True or False")
        if self.n_components is not None and not is_whole(self.n_components, 1):
            raise ValueError(
                f"n_components = {self.n_components!r}: give the number of random frequencies, 1 or more, or None for "
                "the exact kernel"
            )
        check_seed(self.random_state)

    def _fixed_by_fit(self) -> tuple[str, ...]:
        return ("model", "n_components", "random_state")

    @property
    def nonnegative(self) -> bool:  # type: ignore[override]
        """Whether no value is negative: averages of base kernels; random features may lead below zero."""
        return self.n_components is None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.sparse = False
        return tags

    # -- data and what is learned -------------------------------------------------------------------------

    def _accept(self, X: Any, *, reset: bool) -> Any:
        X = super()._accept(X, reset=reset)
        points, _ = segments(X)
        if hasattr(points, "indptr"):
            raise TypeError(f"{type(self).__name__} compares vectors, and these are sparse rows: pass X.toarray()")
        if not _is_symbols(X) and np.isnan(points).any():
            bad = int(np.flatnonzero(np.isnan(points).any(axis=1))[0])
            raise ValueError(
                f"{point_name(X, bad)} has a coordinate that was not observed (NaN), and the base kernel of "
                f"{type(self).__name__} compares all of them: fill it in, leave it out, or use mc.Fisher, which "
                "marginalises it"
            )
        return X

    def _learn(self, X: Any, y: Any = None) -> None:
        super()._learn(X, y)
        hidden_chain(self.model_, type(self).__name__)
        self._frequencies = None
        if self.n_components is not None and not _is_symbols(X):
            rng = np.random.default_rng(seed_of(self.random_state))
            self._frequencies = rng.standard_normal((segments(X)[0].shape[1], int(self.n_components)))

    def _learned(self) -> Any:
        return super()._learned(), self._frequencies

    # -- values -------------------------------------------------------------------------------------------

    def _prepare(self, source: Any) -> Rows | WeightedPoints:
        gamma = float(self.gamma)
        gamma_states = gamma if self.gamma_states is None else float(self.gamma_states)
        points, offsets = segments(source)
        lengths = np.maximum(np.diff(offsets), 1)
        chain = hidden_chain(self.model_, type(self).__name__)
        if _is_symbols(source):
            counts, found = chain.symbol_counts(source)
            seen = _smoothed_table(np.swapaxes(counts / lengths[:, None, None], 1, 2), gamma, gamma_states)
            return Rows(np.concatenate([seen, self._steps(found.transitions, lengths, gamma_states)], axis=1))
        found = chain.expected(source, states=True)
        assert found.states is not None
        states = smoothed_features(found.states, gamma_states)
        steps = self._steps(found.transitions, lengths, gamma_states)
        points = np.asarray(points, dtype=np.float64)
        if self._frequencies is None:
            weights = states / np.repeat(lengths, np.diff(offsets))[:, None]
            return WeightedPoints.of(points, weights, offsets, gamma, Rows(steps))
        frequencies = np.sqrt(2 * gamma) * self._frequencies
        seen = _random_means(points, states, offsets, frequencies) / lengths[:, None]
        return Rows(np.concatenate([seen, steps], axis=1))

    def _steps(self, transitions: Floats, lengths: Floats, gamma_states: float) -> Floats:
        """Features of the mean posteriors of steps, ``(N, (n + 1)^2)``; none of mixtures."""
        if not self.transitions or not hidden_chain(self.model_, type(self).__name__).ordered:
            return np.zeros((len(transitions), 0))
        return _smoothed_table(transitions / np.maximum(lengths - 1, 1)[:, None, None], gamma_states, gamma_states)

    @property
    def psd(self) -> Verdict:
        """Always positive semi-definite."""
        return Verdict("always", "an inner product of mean embeddings of observations and their states (MM-1, LMMK-0)")


def _is_symbols(X: Any) -> bool:
    return isinstance(X, Sequences) and X.is_symbols


def _smoothed_table(tables: Floats, gamma_rows: float, gamma_columns: float) -> Floats:
    """Features of tables M ``(N, r, c)`` whose inner product is <M, K M' K'>, K = e + (1 - e) I: flat (LMMK-1)."""
    for gamma in (gamma_columns, gamma_rows):  # the last axis, then the other, which comes first again
        total = tables.sum(axis=-1, keepdims=True) * np.exp(-gamma)
        tables = np.swapaxes(np.concatenate([tables * np.sqrt(-np.expm1(-2.0 * gamma)), total], axis=-1), 1, 2)
    return np.ascontiguousarray(tables).reshape(len(tables), -1)


def _random_means(points: Floats, states: Floats, offsets: Floats, frequencies: Floats) -> Floats:
    """Sum over every datum random Fourier features times those of the states (MM-2)."""
    width = 2 * frequencies.shape[1] * states.shape[1]
    out = np.empty((len(offsets) - 1, width))
    step = max(1, CHUNK // width)
    for i in range(len(out)):  # a few observations of one datum at a time: its sum does not depend on neighbours
        total = np.zeros((2 * frequencies.shape[1], states.shape[1]))
        for begin in range(int(offsets[i]), int(offsets[i + 1]), step):
            rows = slice(begin, min(begin + step, int(offsets[i + 1])))
            angle = points[rows] @ frequencies
            total += np.concatenate([np.cos(angle), np.sin(angle)], axis=1).T @ states[rows]
        out[i] = total.ravel()
    return out / np.sqrt(frequencies.shape[1])
