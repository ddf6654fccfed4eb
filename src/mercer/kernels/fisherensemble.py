"""A ready kernel for time series: the mean of Fisher kernels of windows and of hidden Markov models."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.pipeline import make_pipeline

from mercer._array import Array, Floats
from mercer._parallel import n_threads, thread_map
from mercer._parameters import NONE, Rule, Rules, positive, seed, whole
from mercer._random import seed_of
from mercer._verdict import Verdict
from mercer.data import Sequences
from mercer.data.segments import segment_sum
from mercer.data.standardize import Clock, Resample, Standardize
from mercer.data.transformers import Derivatives
from mercer.kernels.base.compound import Compound, Views
from mercer.kernels.base.kernel import Kernel
from mercer.kernels.base.transformer import NoFeatures
from mercer.kernels.empiricalmeanmap import EmpiricalMeanMap
from mercer.kernels.fisher import Fisher
from mercer.kernels.windowscores import WindowScores
from mercer.models.hmm_estimator import HMM

MANY = 200
"""Number of training series with which hidden Markov models have half the weight that they have with few."""
NEGLIGIBLE = 0.05
"""Models with a smaller weight, relative to windows, are left out."""
LENGTHS = {"shape": 9, "change": 9, "level": 5}
"""Number of steps of the windows of each kind."""
CLOCK_STEPS = 100
"""Time steps of the series that the part with the clock compares."""
CLOCK_GAMMA = 8.0
"""Of the base kernel of that part, for the mean over channels of squared differences."""


@dataclass(eq=False, repr=False)
class FisherEnsemble(Compound):
    r"""The mean of Fisher kernels of windows and of hidden Markov models: the kernel of `SeriesClassifier`.

    It takes series of any length, with gaps (NaN), of one or many channels, and needs neither scaling before nor
    tuning: ``make_pipeline(mc.FisherEnsemble(), SVC(kernel="precomputed", C=10))``.

    Parameters
    ----------
    n_states : tuple of int, default=(6, 12)
        Numbers of states of the hidden Markov models, at most half the median length of the training series. () leaves
        the models out.
    topologies : tuple, default=("left-right", "ergodic")
        Topologies of the models, as in `HMM`. There is a model of each size and topology.
    scales : tuple of "channel" and "series", default=("channel", "series")
        How values and derivatives are standardized (`Standardize`): "channel" keeps the levels of the series, "series"
        their shapes only. There are models of each.
    windows : tuple of "shape", "change" and "level", default=("shape", "change", "level")
        Windows of the series at all scales, under mixtures of Gaussians: without their means, of differences, and as
        they are. There is a kernel for every dilation 1, 2, 4, ... with which a window is shorter than a series of
        median length. () leaves them out.
    n_components : int, default=32
        Number of components of these mixtures.
    power : float, default=0.5
        Whitened scores z become sign(z) abs(z)^power, as in `Fisher`.
    clock : float or None, default=10.0
        Weight of the time (`Clock`) in one more kernel, an `EmpiricalMeanMap` of series that are resampled to 100
        steps. It compares values of about the same time. None leaves it out.
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

    .. math:: k(x, y) \propto \frac12 \sum_{v} \frac1{|M_v|} \sum_{m\in M_v} k_m(x, y)
              + \frac{a}{B} \sum_{b=1}^{B} \frac1{|M_b|} \sum_{m\in M_b} k_m(f_b(x), f_b(y)),

    where :math:`M_v` are the dilations of each kind v of windows, and every block b has a transformer :math:`f_b` and
    hidden Markov models :math:`M_b`: one block for each of ``scales``, and one for the clock. Windows see shapes
    anywhere in a series, models the order of events; few series need both, many series the windows only:
    :math:`a = 1.5 / (1 + (n / 200)^2)` for n training series, and nothing below 0.05. The fits use no labels, and run
    in parallel (``mc.config(n_jobs=...)``).

    A window kernel averages the scores of overlapping windows: that of a composite likelihood, not of a model of the
    series. Windows are whitened (at most 16 directions) and get the time in the series as one more coordinate; scores
    are averaged over the series and over each half of it. Missing values are replaced by their conditional means under
    the Gaussian of all windows; windows with fewer than half of their values are left out.

    The cost grows linearly with the number of series, except for the clock: :math:`100^2` evaluations of the base
    kernel for every pair, about 50 microseconds. Without it the kernel has explicit features (``features``).

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
    ...     mc.FisherEnsemble(n_states=(3,)), SVC(kernel="precomputed", C=10)
    ... )
    >>> bool(classifier.fit(X[:20], y[:20]).score(X[20:], y[20:]) >= 0.85)
    True
    """

    _parameters: ClassVar[Rules] = {
        "windows": Rule(
            "a tuple of 'shape', 'change' and 'level'",
            lambda value: isinstance(value, tuple | list) and all(kind in tuple(LENGTHS) for kind in value),
            "Use () for no windows.",
        ),
        "n_components": whole(1),
        "n_states": Rule(
            "a tuple of whole numbers, 1 or more",
            lambda value: isinstance(value, tuple | list) and all(whole(1).good(n) for n in value),
            "Use (6, 12), for example.",
        ),
        "topologies": Rule("a tuple of one or more topologies", lambda value: _is_list(value), "See HMM for them."),
        "scales": Rule(
            "a tuple of 'channel' and 'series', or one of them",
            lambda value: _is_list(value) and all(scale in ("channel", "series") for scale in value),
            "Use ('channel', 'series') for levels and shapes.",
        ),
        "power": positive(),
        "clock": positive("It is the weight of the time; None leaves it out.") | NONE,
        "n_iter": whole(1),
        "random_state": seed(),
    }
    domain = "linear"
    _needs_fit = "it learns models of the training series"
    _takes_confounds = False

    n_states: Any = (6, 12)
    topologies: Any = ("left-right", "ergodic")
    scales: Any = ("channel", "series")
    windows: Any = ("shape", "change", "level")
    n_components: int = 32
    power: float = 0.5
    clock: float | None = 10.0
    n_iter: int = 30
    random_state: Any = 0

    # -- parts ---------------------------------------------------------------------------------------------

    def _names(self) -> tuple[str, ...]:
        return ()

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
        if not (self.windows or self.n_states or self.clock is not None):
            raise ValueError("windows and n_states are empty and clock is None. Pass windows=('shape',), for example.")

    def _make_parts(self, X: Sequences) -> None:
        """Make the transformers, the parts and their weights."""
        typical, seeds = int(np.median(X.lengths)), itertools.count(seed_of(self.random_state))
        share = 1.5 / (1 + (len(X) / MANY) ** 2)  # of windows, three times 0.5
        self.transformers_, blocks = [], []  # a block: the number of its transformer, and kernels of equal weight
        if share >= NEGLIGIBLE or not self.windows:
            blocks = self._models(X.values.shape[1], max(1, typical // 2), seeds)
        weights = [share / max(len(blocks), 1)] * len(blocks) + [0.5] * len(self.windows)
        if self.windows:
            self.transformers_.append(Standardize())
        for kind in self.windows:
            length = LENGTHS[kind]
            dilations = [1] + [2**j for j in range(1, 31) if (length - 1) * 2**j < typical]
            parts = [self._window(kind, length, dilation, next(seeds)) for dilation in dilations]
            blocks.append((len(self.transformers_) - 1, parts))
        self.kernels_ = tuple(part for _, parts in blocks for part in parts)
        each = [weight / len(parts) for weight, (_, parts) in zip(weights, blocks, strict=True) for _ in parts]
        self.weights_: Floats = np.array(each) / sum(weights)
        self._view_of = [view for view, parts in blocks for _ in parts]
        for part in self.kernels_:
            part._check_parameters()

    def _models(self, channels: int, most: int, seeds: Any) -> list[tuple[int, list[Any]]]:
        """Make the blocks of hidden Markov models, with at most ``most`` states, and of the clock."""
        blocks: list[tuple[int, list[Any]]] = []
        sizes = sorted({min(int(n), most) for n in self.n_states})
        for scale in self.scales if sizes else ():
            first = [Standardize(per="series")] if scale == "series" else []
            self.transformers_.append(make_pipeline(*first, Derivatives(), Standardize()))
            blocks.append((len(blocks), [self._fisher(n, t, next(seeds)) for t in self.topologies for n in sizes]))
        if self.clock is not None:
            gamma = CLOCK_GAMMA / (2 * channels)
            clock = Clock(float(self.clock) * np.sqrt(CLOCK_GAMMA / 2 / gamma))
            self.transformers_.append(make_pipeline(Derivatives(), Standardize(), Resample(CLOCK_STEPS), clock))
            blocks.append((len(blocks), [EmpiricalMeanMap(gamma=gamma)]))
        return blocks

    def _fisher(self, n: int, topology: Any, seed: int) -> Fisher:
        model = _Rough(n, topology=topology, n_init=1, n_iter=self.n_iter, random_state=seed)
        return Fisher(model, information="diagonal", per="step", power=self.power)

    def _window(self, kind: str, length: int, dilation: int, seed: int) -> WindowScores:
        return WindowScores(kind, length, dilation, n_components=self.n_components, power=self.power, random_state=seed)

    def _learn(self, X: Sequences, y: Any = None) -> None:
        self._make_parts(X)
        views = self._computed["views"] = self._views(X, reset=True)

        def work(task: tuple[Any, Any]) -> None:
            part, data = task
            part._fit_accepted(data, None)

        tasks = list(zip(self.kernels_, views.parts, strict=True))
        thread_map(work, tasks, threads=n_threads(), label="FisherEnsemble")

    def _views(self, X: Sequences, *, reset: bool = False) -> Views:
        """Return the series as every part accepts them."""
        views = [one.fit_transform(X) if reset else one.transform(X) for one in self.transformers_]
        parts = zip(self.kernels_, self._view_of, strict=True)
        return Views(tuple(part._accept(views[view], reset=reset) for part, view in parts))

    def _training(self, X: Sequences) -> Any:
        return super()._training(self._computed.pop("views"))

    def _source(self, X: Sequences) -> Any:
        return super()._source(self._views(X))

    def _check_empty(self, X: Sequences) -> None:
        """Do nothing: `_accept` raises for empty series."""

    def _learned(self) -> Any:
        return super()._learned(), self.weights_

    # -- values --------------------------------------------------------------------------------------------

    def _tile(self, a: Views, b: Views) -> Array:
        return self._mean(self._tiles(a, b))

    def _self(self, a: Views) -> Array:
        return self._mean(self._diagonals(a))

    def _mean(self, values: list[Array]) -> Array:
        return sum(float(w) * v for w, v in zip(self.weights_, values, strict=True))

    def features(self, X: Any) -> Array:
        """Return explicit features whose inner products are the kernel, in single precision; ``clock`` must be None."""
        kernel, source, _ = self.sources(X)
        ends = np.cumsum([0] + [block.shape[1] for block in kernel._blocks(kernel._in_turn(source[:1]))])
        found = np.empty((len(source), ends[-1]), np.float32)
        for start, stop, block in zip(ends, ends[1:], kernel._blocks(kernel._in_turn(source)), strict=False):
            found[:, start:stop] = block
        return found

    def _in_turn(self, source: Views) -> Iterator[Any]:
        """Prepare the data of one part after the other: those of all parts together are larger than the features."""
        for part, data in zip(self.kernels_, source.parts, strict=True):
            part._train_side.spend("scores")  # those of the training series, which `fit` keeps for their Gram matrix
            yield part._evaluation.prepared(data)

    def _features(self, a: Views) -> Array:
        return np.concatenate(list(self._blocks(a.parts)), axis=1)

    def _blocks(self, operands: Iterable[Any]) -> Iterator[Array]:
        """Yield the features of every part."""
        if any(isinstance(part, EmpiricalMeanMap) for part in self.kernels_):
            raise NoFeatures("FisherEnsemble has explicit features only without the clock. Use clock=None.")
        for part, weight, operand in zip(self.kernels_, self.weights_, operands, strict=True):
            rows = part._features(operand.operand)
            norm = np.sqrt(operand.norm)[:, None] if part.normalize else 1.0
            yield (rows * (np.sqrt(weight) / norm)).astype(np.float32)

    @property
    def psd(self) -> Verdict:
        """Always positive semi-definite."""
        return Verdict("always", "a mean of inner products of scores (FK-1) and of mean maps")

    def __sklearn_tags__(self) -> Any:
        tags = Kernel.__sklearn_tags__(self)
        tags.input_tags = HMM().__sklearn_tags__().input_tags
        return tags


class _Rough(HMM):
    """A model whose fit may stop after ``n_iter`` without a warning: averages do not need more."""

    def _warn_unconverged(self, found: Any) -> None:
        pass

    def _warn_unvisited(self, found: Any, cure: str) -> None:
        pass


def _is_list(value: Any) -> bool:
    return isinstance(value, tuple | list) and len(value) > 0
