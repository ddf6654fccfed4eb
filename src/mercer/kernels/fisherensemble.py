"""A ready kernel for time series: the mean of Fisher kernels of windows and of hidden Markov models."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from sklearn.pipeline import make_pipeline

from mercer._array import Floats, Indices
from mercer._parallel import n_threads, thread_map
from mercer._parameters import NONE, Rule, Rules, positive, seed, whole
from mercer._random import seed_of
from mercer._verdict import Verdict
from mercer.data import Sequences
from mercer.data.gaps import FillGaps
from mercer.data.segments import segment_sum
from mercer.data.standardize import Standardize
from mercer.data.transformers import Derivatives
from mercer.kernels._operands import InnerProducts, Rows
from mercer.kernels._subset import subset
from mercer.kernels.base.kernel import Kernel
from mercer.kernels.fisher import Fisher
from mercer.kernels.windowscores import WindowScores
from mercer.models.hmm_estimator import HMM

MANY = 200
"""Number of training series with which hidden Markov models have half the weight that they have with few."""
NEGLIGIBLE = 0.02
"""Models with a smaller weight, relative to windows, are left out."""
LENGTHS = {"shape": 9, "level": 5}
"""Number of steps of the windows of each kind."""
LENGTHS_OF_CHANNELS = {"shape": 5, "level": 3}
"""The same if there are several channels, all of which are in a window."""


@dataclass(eq=False, repr=False)
class FisherEnsemble(InnerProducts, Kernel):
    r"""The mean of Fisher kernels of windows and of hidden Markov models: the kernel of `SeriesClassifier`.

    It takes series of any length, with gaps (NaN), of one or many channels, and needs neither scaling before nor
    tuning: ``make_pipeline(mc.FisherEnsemble(), SVC(kernel="precomputed", C=10))``.

    Parameters
    ----------
    n_states : int or None, default=6
        Number of states of two left-right hidden Markov models (`HMM`), at most half the median length of the training
        series: one of the values as they are, and one of every series standardized by itself. None leaves them out.
    windows : tuple of "shape" and "level", default=("shape", "level")
        Windows of the series at all scales, under mixtures of Gaussians: without their means and sizes, and as they
        are. () leaves them out.
    n_components : int, default=32
        Number of components of these mixtures.
    power : float, default=0.5
        Whitened scores z become sign(z) abs(z)^power, as in `Fisher`.
    n_iter : int, default=30
        Iterations of the fit of each hidden Markov model, which need not converge, because several are averaged.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the fits; None draws a new one in every fit.

    Attributes
    ----------
    kernels_ : tuple of Kernel
        The fitted parts.
    weights_ : array of shape (n_kernels,)
        Their weights, which sum to 1.
    n_features_in_ : int
        Number of channels.
    feature_names_in_ : array of str
        Names of the training data's channels, if they have names: new data with another order are put in this one.

    Notes
    -----
    With Fisher kernels :math:`k_m` the kernel is

    .. math:: k(x, y) \propto \frac1{|V|} \sum_{v\in V} k_v(x, y)
              + \frac a2 \sum_{m=1}^2 k_m(f_m(x), f_m(y)), \qquad a = \frac{0.4}{1 + (n / 200)^2},

    where :math:`k_v` is the mean over all scales for each kind v of windows, and each hidden Markov model m has a
    transformer :math:`f_m`, which also appends derivatives. Windows see shapes anywhere in a series, models the order
    of events; few series need both, many series (n in training) the windows only: models with a < 0.02 are left out.
    The fits use no labels, and run in parallel (``mc.config(n_jobs=...)``).

    A window kernel averages the scores of overlapping windows: that of a composite likelihood, not of a model of the
    series. Windows are whitened (at most 32 directions) and get the time in the series as one more coordinate; scores
    are averaged over the series and over each half of it. Short gaps are filled before (`FillGaps`); in longer ones,
    missing values have their conditional means under the Gaussian of all windows, windows with fewer than half of their
    values are left out, and models marginalize.

    The kernel is an inner product of explicit features, whose number does not depend on the data (``features``), so
    that the cost of linear models grows linearly with the number of series.

    See Also
    --------
    Fisher : A single part.
    TargetAligned : Weights of kernels that are learned from y.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.svm import SVC
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(40) % 2
    >>> # chirps of different lengths
    >>> X = [np.sin(np.linspace(0, 3 + c, rng.integers(30, 60)) ** 2) for c in y]
    >>> X = [x + 0.2 * rng.normal(size=len(x)) for x in X]
    >>> classifier = make_pipeline(
    ...     mc.FisherEnsemble(), SVC(kernel="precomputed", C=10)
    ... )
    >>> bool(classifier.fit(X[:20], y[:20]).score(X[20:], y[20:]) >= 0.85)
    True
    """

    _parameters: ClassVar[Rules] = {
        "n_states": whole(1, cure="None leaves hidden Markov models out.") | NONE,
        "windows": Rule(
            "a tuple of 'shape' and 'level'",
            lambda value: isinstance(value, tuple | list) and all(kind in tuple(LENGTHS) for kind in value),
            "Use () for no windows.",
        ),
        "n_components": whole(1),
        "power": positive(),
        "n_iter": whole(1),
        "random_state": seed(),
    }
    domain = "linear"
    psd = Verdict("always", "a mean of inner products of scores (FK-1)")
    _needs_fit = "it learns models of the training series"

    n_states: int | None = 6
    windows: Any = ("shape", "level")
    n_components: int = 32
    power: float = 0.5
    n_iter: int = 30
    random_state: Any = 0

    def _accept(self, X: Any, *, reset: bool) -> Sequences:
        X = Sequences(X).require("vectors", self, "For symbols use mc.Fisher(mc.HMM()).").require_nonempty()
        unseen = np.flatnonzero(segment_sum((~np.isnan(X.values)).any(axis=1).astype(float), X.offsets) == 0)
        if len(unseen):
            raise ValueError(f"{X.name(int(unseen[0]))} has no observed value (all are NaN). Leave it out.")
        if reset:
            self.n_features_in_ = X.dimension
        else:
            X.require_dimension(self.n_features_in_)
        return X.mapped(lambda values: values.astype(np.float64))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not self.windows and self.n_states is None:
            raise ValueError("windows is empty and n_states is None. Pass windows=('shape',), for example.")

    def _check_empty(self, X: Sequences) -> None:
        """Do nothing: `_accept` raises for empty series."""

    def _cheap_pairs(self, source: Any) -> bool:
        return True

    # -- parts ---------------------------------------------------------------------------------------------

    def _learn(self, X: Sequences, y: Any = None) -> None:
        parts, self._view_of = self._parts(X)
        X = self.transformer_.fit_transform(X)
        views = [view.fit_transform(X) for view in self.transformers_]

        def fitted(at: int) -> Floats:
            part = parts[at]
            part._check_parameters()
            data = part._accept(views[self._view_of[at]], reset=True)
            part._fit_accepted(data, None)
            part._keep_training(data)
            rows = self._part_rows(part, data, self.weights_[at])
            parts[at] = subset(part, np.arange(1))  # features need no training series
            return rows

        features, self._ends = self._joined(fitted, len(parts))
        self.kernels_ = tuple(parts)
        self._train_side.keep("features", features)

    def _parts(self, X: Sequences) -> tuple[list[Kernel], list[int]]:
        """Make the transformers, the weights, the parts, and the transformer of each part."""
        seed, channels, most = seed_of(self.random_state), X.values.shape[1], max(1, int(np.median(X.lengths)) // 2)
        share = 0.4 / (1 + (len(X) / MANY) ** 2)  # of windows: 1
        lengths = LENGTHS if channels == 1 else LENGTHS_OF_CHANNELS
        self.transformer_ = make_pipeline(Standardize(), FillGaps())
        self.transformers_ = [
            make_pipeline("passthrough"),
            make_pipeline(Derivatives(), Standardize()),
            make_pipeline(Standardize(per="series"), Derivatives(), Standardize()),
        ]
        parts: list[Kernel] = [
            WindowScores(kind, lengths[kind], self.n_components, self.power, random_state=seed) for kind in self.windows
        ]
        view_of, weights = [0] * len(parts), [1 / max(len(parts), 1)] * len(parts)
        for view in (1, 2) if share >= NEGLIGIBLE or not parts else ():
            if self.n_states is None:
                break
            states = min(int(self.n_states), most)
            model = _Rough(states, topology="left-right", n_init=1, n_iter=self.n_iter, random_state=seed)
            parts.append(Fisher(model, information="diagonal", per="step", power=self.power))
            view_of.append(view)
            weights.append(share / 2)
        self.weights_: Floats = np.array(weights) / sum(weights)
        return parts, view_of

    def views(self, X: Sequences) -> list[Sequences]:
        """Return the series as every part takes them."""
        X = self.transformer_.transform(X)
        views = [view.transform(X) for view in self.transformers_]
        return [part._accept(views[at], reset=False) for part, at in zip(self.kernels_, self._view_of, strict=True)]

    @staticmethod
    def _part_rows(part: Any, source: Any, weight: Any) -> Floats:
        """Return the features of one part, times the root of its weight."""
        prepared = part._evaluation.prepared(source)
        rows = part._features(prepared.operand)
        return np.asarray(rows * np.sqrt(weight if prepared.norm is None else weight / prepared.norm[:, None]))

    def _joined(self, rows: Any, n: int) -> tuple[Floats, Indices]:
        """Return the features of n parts side by side, which ``rows`` computes, and the columns where parts end."""
        blocks: list[Any] = [None] * n

        def work(at: int) -> None:
            blocks[at] = rows(at)

        thread_map(work, list(range(n)), threads=n_threads(), label="FisherEnsemble")
        ends: Indices = np.cumsum([0] + [block.shape[1] for block in blocks])
        found = np.empty((len(blocks[0]), ends[-1]))
        for at, (start, stop) in enumerate(pairwise(ends)):  # in turn: memory is enough for one copy
            found[:, start:stop] = blocks[at]
            blocks[at] = None
        return found, ends

    # -- values --------------------------------------------------------------------------------------------

    def _prepare(self, source: Sequences) -> Rows:
        features = self._kept(source, "features")
        if features is None:
            views = self.views(source)
            features, _ = self._joined(
                lambda at: self._part_rows(self.kernels_[at], views[at], self.weights_[at]), len(views)
            )
        return Rows(features)

    def features(self, X: Any) -> Floats:
        """Return explicit features whose inner products are the kernel."""
        if hasattr(self, "train_"):
            self._train_side.spend("features")  # those that `fit` keeps: memory is enough for one copy
        return np.asarray(super().features(X))

    def fit_features(self, X: Any) -> Floats:
        """Fit the kernel, and return the features of the training series.

        Parameters
        ----------
        X : Sequences or array-like
            Series.
        """
        found: Floats = self.fit(X)._prepare(self.train_).values
        norm = np.linalg.norm(found, axis=1, keepdims=True)
        return np.divide(found, norm, out=found, where=norm > 0)

    def split(self, weights: Floats) -> list[Floats]:
        """Split weights of features, ``(R, P)``, into those of the features of every part."""
        parts = np.split(weights, self._ends[1:-1], axis=1)
        return [np.sqrt(weight) * part for weight, part in zip(self.weights_, parts, strict=True)]

    def _learned(self) -> Any:
        return [part._learned() for part in self.kernels_], self.weights_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = HMM().__sklearn_tags__().input_tags
        return tags


class _Rough(HMM):
    """A model whose fit may stop after ``n_iter`` without a warning: averages do not need more."""

    def _warn_unconverged(self, found: Any) -> None:
        pass

    def _warn_unvisited(self, found: Any, cure: str) -> None:
        pass
