"""A ready kernel for time series: the mean of Fisher kernels of windows and of hidden Markov models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mercer._array import Floats, Indices
from mercer._parallel import n_threads, thread_map
from mercer._parameters import Rule, Rules, between, positive, seed, whole
from mercer._random import seed_of
from mercer._verdict import Verdict
from mercer.data import Sequences
from mercer.data.gaps import FillGaps
from mercer.data.segments import in_numbers, segment_sum
from mercer.data.standardize import Standardize
from mercer.data.transformers import Derivatives
from mercer.kernels._operands import InnerProducts, Rows
from mercer.kernels.base.kernel import Kernel
from mercer.kernels.fisher import Fisher
from mercer.kernels.windowscores import WindowScores
from mercer.models.hmm_estimator import HMM

MANY = 200
"""Number of training series at which the weight of hidden Markov models is halved."""
NEGLIGIBLE = 0.02
"""Models with a smaller weight, relative to windows, are left out."""
FAR = 1e6
"""Standard deviations at which values are clipped, so that their squares are not too large."""
WEIGHTS = {"shape": 2.0, "level": 1.0}
"""Weights of the kinds of windows, relative to each other."""
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
    n_states : tuple of int, default=(6,)
        Numbers of states of hidden Markov models (`HMM`), at most half the median length of the training series. For
        each number and topology there are two: of the values as they are, and of every series standardized by itself.
        () leaves the models out.
    topologies : tuple, default=("left-right", "ergodic")
        Topologies of the models, as in `HMM`: parts of a series that follow each other, and regimes that come again.
    model_weight : float, default=0.4
        Weight of all models relative to that of all windows, for few training series.
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
    filling_ : tuple of transformers
        What all series pass through first: `Standardize` and `FillGaps`.
    transformers_ : tuple of tuples of transformers
        What they pass through next, for every part.
    weights_ : array of shape (n_kernels,)
        Their weights, which sum to 1.
    n_features_in_ : int
        Number of channels.
    feature_names_in_ : array of str
        Names of the training data's channels, if they have names: new data with another order are put in this one.

    Notes
    -----
    With Fisher kernels :math:`k_m` the kernel is

    .. math:: k(x, y) \propto \frac23 k_{\text{shape}}(x, y) + \frac13 k_{\text{level}}(x, y)
              + \frac a{|M|} \sum_{m\in M} k_m(f_m(x), f_m(y)), \qquad a = \frac w{1 + (n / 200)^2},

    where the kernel of each kind of windows is the mean over all scales, each hidden Markov model m has transformers
    :math:`f_m`, which also append derivatives, and w is ``model_weight``. Windows see shapes anywhere in a series,
    models the order of events; few series need both, many series (n in training) the windows only: models with a < 0.02
    are left out. The fits use no labels, and run in parallel (``mc.config(n_jobs=...)``).

    A window kernel averages the scores of overlapping windows: that of a composite likelihood, not of a model of the
    series. Windows are whitened (at most 32 directions) and get the time in the series as one more coordinate; scores
    are averaged over the series and over each half of it. Short gaps are filled before (`FillGaps`); in longer ones,
    missing values have their conditional means under the Gaussian of all windows, windows with fewer than half of their
    values are left out, and models marginalize.

    The kernel is an inner product of explicit features (``features``). Their number grows with the logarithm of the
    length, not with the number of series, so that linear models learn from thousands of series in linear time.

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
        "n_states": Rule(
            "a tuple of whole numbers, 1 or more",
            lambda value: isinstance(value, tuple | list) and all(whole(1).good(n) for n in value),
            "Use (6,), for example, or () for no hidden Markov models.",
        ),
        "topologies": Rule(
            "a tuple of one or more topologies",
            lambda value: isinstance(value, tuple | list) and len(value) > 0,
            "See HMM for them.",
        ),
        "model_weight": positive(cure="n_states=() leaves hidden Markov models out."),
        "windows": Rule(
            "a tuple of 'shape' and 'level'",
            lambda value: isinstance(value, tuple | list) and all(kind in tuple(LENGTHS) for kind in value),
            "Use () for no windows.",
        ),
        "n_components": whole(1),
        "power": between(0, 1, "right"),
        "n_iter": whole(1),
        "random_state": seed(),
    }
    psd = Verdict("always", "a mean of inner products of scores (FK-1)")
    _needs_fit = "it learns models of the training series"

    n_states: Any = (6,)
    topologies: Any = ("left-right", "ergodic")
    model_weight: float = 0.4
    windows: Any = ("shape", "level")
    n_components: int = 32
    power: float = 0.5
    n_iter: int = 30
    random_state: Any = 0

    def _accept(self, X: Any, *, reset: bool) -> Sequences:
        X = in_numbers(Sequences(X)).require("vectors", self, "For symbols use mc.Fisher(mc.HMM()).").require_nonempty()
        unseen = np.flatnonzero(segment_sum((~np.isnan(X.values)).any(axis=1).astype(float), X.offsets) == 0)
        if len(unseen):
            raise ValueError(f"{X.name(int(unseen[0]))} has no observed value (all are NaN). Leave it out.")
        if reset:
            never = np.flatnonzero(np.isnan(X.values).all(axis=0))
            if len(never):
                name = int(never[0]) if X.channels is None else repr(X.channels[never[0]])
                raise ValueError(f"Channel {name} is not observed in any series (all values are NaN). Leave it out.")
            self.n_features_in_ = X.dimension
        else:
            X.require_dimension(self.n_features_in_)
        return X.mapped(lambda values: values.astype(np.float64))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not (self.windows or self.n_states):
            raise ValueError("windows and n_states are empty. Pass windows=('shape',), for example.")

    def _cheap_pairs(self, source: Any) -> bool:
        return True

    # -- parts ---------------------------------------------------------------------------------------------

    def _learn(self, X: Sequences, y: Any = None) -> None:
        self._make_parts(X)
        filled = self._filled(X, fit=True)

        def fitted(at: int) -> Floats:
            part = self.kernels_[at]
            part._fit_objects(_through(self.transformers_[at], filled, fit=True), None)
            rows = part._training_features()
            part._set_training(part.train_[[0]])  # features need no training series
            return rows

        features, self._ends = self._joined(fitted)
        self._train_side.keep("features", features)

    def _filled(self, X: Sequences, *, fit: bool = False) -> Sequences:
        """Return the standardized series without short gaps."""
        return _through(self.filling_, X, fit=fit).mapped(lambda values: np.clip(values, -FAR, FAR))

    def _make_parts(self, X: Sequences) -> None:
        """Make the parts, which are not fitted yet, their transformers and weights."""
        start, several = seed_of(self.random_state), X.values.shape[1] > 1
        lengths = LENGTHS_OF_CHANNELS if several else LENGTHS
        parts: list[tuple[float, Any, Kernel]] = []
        kinds = tuple(dict.fromkeys(self.windows))
        total = sum(WEIGHTS[kind] for kind in kinds)
        for kind in kinds:
            kernel = WindowScores(kind, lengths[kind], self.n_components, self.power, random_state=start)
            parts.append((WEIGHTS[kind] / total, (), kernel))
        share = float(self.model_weight) / (1 + (len(X) / MANY) ** 2)  # windows have 1
        most = max(1, int(np.median(X.lengths)) // 2)
        sizes = sorted({min(int(n), most) for n in self.n_states}) if share >= NEGLIGIBLE or not parts else []
        for first in ((), (Standardize(per="series"),)):
            for topology in self.topologies:
                for n in sizes:
                    model = _Rough(n, topology=topology, n_init=1, n_iter=self.n_iter, random_state=start)
                    kernel = Fisher(model, information="diagonal", per="step", power=self.power)
                    weight = share / (2 * len(self.topologies) * len(sizes))
                    parts.append((weight, (*first, Derivatives(), Standardize()), kernel))
        weights, self.transformers_, self.kernels_ = zip(*parts, strict=True)
        self.weights_: Floats = np.array(weights) / sum(weights)
        self.filling_ = Standardize(), FillGaps()

    # -- values --------------------------------------------------------------------------------------------

    def _prepare(self, source: Sequences) -> Rows:
        features = self._kept(source, "features")
        if features is None:
            filled = self._filled(source)
            features, _ = self._joined(lambda at: self.kernels_[at].features(_through(self.transformers_[at], filled)))
        return Rows(features)

    def features(self, X: Any) -> Floats:
        """Return explicit features whose inner products are the kernel.

        Parameters
        ----------
        X : Sequences or array-like
            Series.
        """
        if hasattr(self, "train_"):
            self._train_side.spend("features")  # of the training series: memory is for one copy
        return np.asarray(super().features(X))

    def _joined(self, rows: Callable[[int], Floats]) -> tuple[Floats, Indices]:
        """Return the features of all parts side by side, times the roots of their weights, and the columns' ends."""
        blocks: list[Any] = [None] * len(self.weights_)

        def work(at: int) -> None:
            blocks[at] = rows(at)

        every = list(range(len(blocks)))
        names = [_part_name(part) for part in self.kernels_]
        thread_map(work, every, threads=n_threads(), label="FisherEnsemble", name=names.__getitem__)
        ends = np.cumsum([0] + [block.shape[1] for block in blocks])
        found = np.empty((len(blocks[0]), ends[-1]))
        for at, weight in enumerate(self.weights_):  # one after the other: they are large
            np.multiply(blocks[at], np.sqrt(weight), out=found[:, ends[at] : ends[at + 1]])
            blocks[at] = None
        return found, ends

    # -- a choice of parts ---------------------------------------------------------------------------------

    def _choices(self) -> list[Floats]:
        """Return factors of the parts' weights: of all, and with the models of one topology or none only."""
        models = np.array([isinstance(part, Fisher) for part in self.kernels_])
        kept = [models]
        if len(self.topologies) > 1 and models.any():
            own = [part.model.topology if isinstance(part, Fisher) else None for part in self.kernels_]
            kept += [np.array([one is topology for one in own]) for topology in self.topologies]
        if models.any() and not models.all():
            kept.append(np.zeros_like(models))
        factors = [np.where(models, some * models.sum() / max(some.sum(), 1), 1.0) for some in kept]
        return [own / (self.weights_ @ own) for own in factors]

    def _choose(self, factors: Floats) -> None:
        """Multiply the weights of a fitted kernel by some factors, and forget the parts that have no weight then."""
        kept = np.flatnonzero(factors)
        self.weights_ = (self.weights_ * factors)[kept]
        self.kernels_, self.transformers_ = (
            tuple(parts[at] for at in kept) for parts in (self.kernels_, self.transformers_)
        )
        self._ends = np.cumsum(np.append(0, np.diff(self._ends)[kept]))
        self._train_side.spend("features")

    def _learned(self) -> Any:
        return [part._learned() for part in self.kernels_], self.weights_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = HMM().__sklearn_tags__().input_tags
        return tags


def _part_name(part: Any) -> str:
    """Return the name of a part, for the progress bar."""
    return f"HMM({part.model.n_states})" if isinstance(part, Fisher) else f"windows ({part.view})"


def _through(steps: tuple[Any, ...], X: Sequences, *, fit: bool = False) -> Sequences:
    """Return series after several transformers; `Pipeline` takes as long to check itself as these to transform one."""
    for step in steps:
        X = step.fit_transform(X) if fit else step.transform(X)
    return X


class _Rough(HMM):
    """A model whose fit may stop after ``n_iter`` without a warning: averages do not need more."""

    def _warn_unconverged(self, found: Any) -> None:
        pass

    def _warn_unvisited(self, found: Any, cure: str) -> None:
        pass
