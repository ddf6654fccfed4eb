"""Empirical mean map kernels between sets of points, or windows of sequences (Mehta and Gray 2010)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mercer._array import Array, Floats
from mercer._immutable import cached_property
from mercer._parameters import NONE, Rules, gamma, one_of, seed, whole
from mercer._verdict import Verdict
from mercer.data import Sequences
from mercer.data.alphabet import ALPHABET
from mercer.data.segments import check_observed
from mercer.kernels._laplace import LaplaceSets
from mercer.kernels._names import words
from mercer.kernels._operands import LogPairs, Rows, scaled_rows
from mercer.kernels._random_features import RandomFeatures
from mercer.kernels._vector_sets import VectorSets
from mercer.kernels._windows.counts import WindowCounts
from mercer.kernels._windows.random import random_means
from mercer.kernels.base.kernel import Kernel
from mercer.kernels.base.transformer import WIDE, Bounds
from mercer.kernels.linear_rbf import median_distance, number_or_median


@dataclass(eq=False, repr=False)
class EmpiricalMeanMap(RandomFeatures, LogPairs, Kernel):
    r"""The average base kernel between the points of two sets, or the windows of two sequences.

    Parameters
    ----------
    order : int, default=0
        Compare windows of ``order + 1`` consecutive points; 0 compares points, in any order.
    gamma : float or "median", default=1.0
        Parameter of the base kernel; symbols are one-hot, so that a mismatch costs ``exp(-2 gamma)``. "median" means
        1 / m, where m is the median squared distance (of the Laplace kernel: distance) of two different points of the
        training data, 2 for symbols: it suits data in any units.
    alphabet : Alphabet, str, iterable or None, default=None
        The symbols of strings; if None, that of `Sequences`, or the symbols found in the data.
    n_components : int or None, default=None
        Number of frequencies of random Fourier features of vectors, which replace the exact base kernel: the cost is
        linear in the lengths, and there are two explicit features per frequency. Not needed for symbols, which have
        exact features.
    base : {"rbf", "laplace"}, default="rbf"
        The base kernel: the Gaussian kernel ``exp(-gamma |x - y|^2)`` as of `RBF`, or ``exp(-gamma |x - y|_1)``, with
        the sum of the absolute differences of the coordinates, as of `Laplace`. The two are equal for symbols.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the frequencies; None draws a new one in every fit.
    normalize : bool, default=True
        Whether to normalize the kernel, so that every self-kernel is 1.
    on_zero : {"raise", "zero"}, default="raise"
        Whether objects of zero norm raise an error or get zeros.

    Attributes
    ----------
    gamma_ : float
        The parameter that was learned; only for ``gamma="median"``.

    Notes
    -----
    .. math:: k(x, y) = \frac1{(L-k)(L'-k)} \sum_{s,t} \prod_{r=0}^{k} \kappa(x_{s+r}, y_{t+r}), \qquad
              \kappa(x, y) = e^{-\gamma\|x-y\|^2} \text{ or } e^{-\gamma\|x-y\|_1}

    (EMMK-2) with k = ``order``; for k = 0 the points of two sets in any order (EMMK-1). No model is needed. Kernels of
    strings are inner products of counts of windows; for large gamma they are `Spectrum` kernels. Logarithms are exact
    even where the kernel underflows.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> sets = [np.zeros((3, 2)), np.ones((5, 2))]
    >>> mc.EmpiricalMeanMap(gamma=0.5)(sets).round(4)
    array([[1.    , 0.3679],
           [0.3679, 1.    ]])
    >>> mc.EmpiricalMeanMap(order=1, alphabet="dna").features(["ACGT", "AACC"]).shape
    (2, 16)
    >>> random = mc.EmpiricalMeanMap(gamma=0.5, n_components=1000)
    >>> bool(abs(random(sets)[0, 1] - 0.3679) < 3 * random.standard_errors(sets)[0, 1])
    True
    """

    _parameters: ClassVar[Rules] = {
        "alphabet": ALPHABET,
        "order": whole(0, cure="Pass 0 for single points, or the number of neighbors in a window."),
        "gamma": number_or_median(gamma()),
        "n_components": whole(1, cure="Pass the number of random frequencies, or None for the exact kernel.") | NONE,
        "random_state": seed(),
        "base": one_of("rbf", "laplace"),
    }
    _smooth: ClassVar[Bounds] = {"gamma": WIDE}

    psd = Verdict("always", "an inner product of empirical mean embeddings (MM-1, EMMK-1)")

    order: int = 0
    gamma: float | str = 1.0
    alphabet: Any = None
    n_components: int | None = None
    base: str = "rbf"
    random_state: Any = 0
    normalize: bool = True
    on_zero: str = "raise"

    def _accept(self, X: Any, *, reset: bool) -> Sequences:
        learned = None if reset else getattr(self, "alphabet_", None)
        known = self.alphabet if self.alphabet is not None else learned
        X = Sequences(X, alphabet=known) if known is not None else Sequences(X)
        X.require_nonempty()
        if not X.is_symbols:
            check_observed(X, "Use MeanMap(Gaussian('diagonal')), which marginalizes it, or leave the point out.")
        return X

    def _learn(self, X: Sequences, y: Any = None) -> None:
        self.alphabet_ = X.alphabet
        self.dimension_ = X.dimension
        self.__dict__.pop("gamma_", None)
        if isinstance(self.gamma, str):
            distances = Rows.absolute_distances if self.base == "laplace" else Rows.squared_distances
            median = 2.0 if X.is_symbols else median_distance(X.values, np.random.default_rng(0), distances)
            self.gamma_ = 1.0 / median if median > 0 else 1.0  # the kernel of equal points is 1 for every width
        super()._learn(X, y)

    def _learned(self) -> Any:
        return super()._learned(), getattr(self, "gamma_", None)

    @property
    def _learns_from_call(self) -> bool:
        return isinstance(self.gamma, str) or super()._learns_from_call

    def _source(self, X: Sequences) -> Sequences:
        X.require_dimension(self.dimension_)
        return X.require("vectors" if self.alphabet_ is None else "symbols", "The fitted kernel")

    def _prepare(self, source: Sequences) -> WindowCounts | WindowSets | LaplaceSets | Rows:
        order, gamma = int(self.order), self.gamma_ if isinstance(self.gamma, str) else float(self.gamma)
        source.require_windows(order)
        if source.is_symbols:
            return WindowCounts.of(source, order + 1, gamma)
        if self.n_components is None:
            return (LaplaceSets if self.base == "laplace" else WindowSets)(source, order, gamma)
        with np.errstate(over="ignore", invalid="ignore"):
            rows = random_means(source, order, gamma, int(self.n_components), self._seed, self.base)
        _require_finite(rows, source, gamma)
        return Rows(rows)

    def _value_tile(self, a: Any, b: Any) -> Array | None:
        # Inner products of counts: logarithms would cost more than the products, so take them only on request.
        return a.inner(b) if isinstance(a, WindowCounts) else None

    def features(self, X: Any) -> Array:
        """Return explicit features of symbols, or random ones of vectors: their inner products are the kernel.

        Of symbols: ``(N, A^(order + 1))`` for an alphabet of A symbols, one column per window; if these
        are too many, a SciPy CSR array ``(N, (A + 1)^(order + 1))`` with one column per window with gaps. Of vectors
        with ``n_components``: ``(N, 2 n_components)``. Rows have norm 1 if the kernel is normalized.
        """
        kernel, a, _ = self.operands(X)
        values = a.operand.dense() if isinstance(a.operand, Rows) else a.operand.features()
        if a.norm is None:
            return values
        scale = np.exp(-a.norm / 2) if kernel.domain == "log" else 1 / np.sqrt(a.norm)
        return scaled_rows(values, scale)

    def _feature_names(self, width: int) -> list[str]:
        if self.alphabet_ is None:
            return super()._feature_names(width)
        return words(self.alphabet_.symbols, int(self.order) + 1, width, gap="_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.input_tags.string = True
        return tags


def _require_finite(rows: Floats, X: Sequences, gamma: float) -> None:
    """Raise if random features overflow: the products of frequencies and points are infinite."""
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(bad):
        largest = float(np.abs(X[int(bad[0])]).max())
        raise ValueError(
            f"{X.name(bad[0])} contains {largest:.6g}; with gamma = {gamma:g} its random features overflow. Rescale "
            "the data, or lower gamma."
        )


class WindowSets(VectorSets):
    """Sequences of vectors: the average Gaussian kernel of their windows, by compiled loops."""

    tile_points = 2048

    @cached_property
    def lanes(self) -> Floats:
        """All vectors, coordinate by coordinate."""
        from mercer._native.points import by_coordinate

        return by_coordinate(self.sequences.values)

    def pair(self, other: WindowSets) -> Floats:
        """Log average base kernel of every pair of sequences, exact even where all terms underflow."""
        left, right = np.divmod(np.arange(len(self) * len(other)), max(len(other), 1))
        return self._log_means(other, left, right).reshape(len(self), len(other))

    def alone(self) -> Floats:
        """Log average base kernel of every sequence with itself."""
        every = np.arange(len(self))
        return self._log_means(self, every, every)

    def _log_means(self, other: WindowSets, left: Floats, right: Floats) -> Floats:
        if self.gamma == 0:
            return np.zeros(len(left))
        from mercer._native import points

        scale = -points.LOG2_E * float(self.gamma)
        offsets, width = (self.sequences.offsets, other.sequences.offsets), self.window_order + 1

        def ask(term: int, which: Any, shift: Floats) -> Floats:
            pairs = left[which], right[which]
            return points.window_sums(
                term, self.sequences.values, other.lanes, offsets, pairs, width, scale, shift
            )  # fmt: skip

        logs = points.log_sums(ask, np.full(len(left), scale))
        count, other_count = (side.sequences.lengths - side.window_order for side in (self, other))
        return np.asarray(logs - np.log(count[left]) - np.log(other_count[right]))
