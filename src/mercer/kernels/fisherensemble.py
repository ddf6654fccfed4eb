"""A ready kernel for time series: the mean of Fisher kernels of several hidden Markov models."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.pipeline import make_pipeline

from mercer._array import Array, Floats, as_array
from mercer._checks import kind_of_target
from mercer._parallel import n_threads, thread_map
from mercer._parameters import NONE, Rule, Rules, boolean, one_of, positive, seed, whole
from mercer._random import seed_of
from mercer._verdict import Verdict
from mercer.data import Sequences
from mercer.data.segments import segment_sum
from mercer.data.standardize import Clock, Resample, Standardize
from mercer.data.transformers import Derivatives
from mercer.kernels._classes import check_target
from mercer.kernels.base.compound import Compound, Views
from mercer.kernels.base.kernel import Kernel
from mercer.kernels.empiricalmeanmap import EmpiricalMeanMap
from mercer.kernels.fisher import Fisher
from mercer.models.hmm_estimator import HMM

MANY = 200
"""Number of training series from which ``by_class="auto"`` fits models of the classes too."""
CLOCK_STEPS = 100
"""Time steps of the series that the part with the clock compares."""
CLOCK_GAMMA = 8.0
"""Of the base kernel of that part, for the mean over channels of squared differences."""


class FisherEnsemble(Compound):
    r"""The mean of Fisher kernels of several hidden Markov models: the first choice for time series.

    It takes series of any length, with gaps (NaN), of one or many channels, and needs neither scaling before nor
    tuning: ``make_pipeline(mc.FisherEnsemble(), SVC(kernel="precomputed", C=10))``.

    Parameters
    ----------
    n_states : tuple of int, default=(4, 6, 8, 12, 16, 24)
        Numbers of states of the models, at most half the median length of the training series.
    topologies : tuple, default=("left-right", "ergodic")
        Topologies of the models, as in `HMM`. There is a model of each size and topology.
    scales : tuple of "channel" and "series", default=("channel", "series")
        How values and derivatives are standardized (`Standardize`): "channel" keeps the levels of the series, "series"
        their shapes only. There are models of each.
    power : float, default=0.5
        Whitened scores z become sign(z) abs(z)^power, as in `Fisher`.
    clock : float or None, default=10.0
        Weight of the time (`Clock`) in one more kernel, an `EmpiricalMeanMap` of series that are resampled to 100
        steps. It compares values of about the same time. None leaves it out.
    by_class : bool or "auto", default="auto"
        Whether there are further models, of each class of the training series by itself. "auto" adds them for 200
        series or more, if y has classes.
    n_iter : int, default=30
        Iterations of the fit of each model, which need not converge.
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
    With normalized Fisher kernels :math:`\hat k` (``information="diagonal"``, ``per="step"``) the kernel is

    .. math:: k(x, y) = \frac1B \sum_{b=1}^{B} \frac1{|M_b|} \sum_{m\in M_b} \hat k_m(f_b(x), f_b(y)),

    where every block b has a transformer :math:`f_b` and models :math:`M_b`: one block for each of ``scales``, one more
    each for the models of classes, and one for the clock. So k(x, x) = 1. The models are fitted in parallel
    (``mc.config(n_jobs=...)``).

    The cost grows linearly with the number of series, except for the clock: :math:`100^2` evaluations of the base
    kernel for every pair, about 50 microseconds.

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
    ...     mc.FisherEnsemble(n_states=(3, 6)), SVC(kernel="precomputed", C=10)
    ... )
    >>> bool(classifier.fit(X[:20], y[:20]).score(X[20:], y[20:]) >= 0.85)
    True
    """

    _parameters: ClassVar[Rules] = {
        "n_states": Rule(
            "a tuple of one or more whole numbers, 1 or more",
            lambda value: _is_list(value) and all(whole(1).good(n) for n in value),
            "Use (4, 6, 8, 12, 16, 24), for example.",
        ),
        "topologies": Rule("a tuple of one or more topologies", lambda value: _is_list(value), "See HMM for them."),
        "scales": Rule(
            "a tuple of 'channel' and 'series', or one of them",
            lambda value: _is_list(value) and all(scale in ("channel", "series") for scale in value),
            "Use ('channel', 'series') for levels and shapes.",
        ),
        "power": positive(),
        "clock": positive("It is the weight of the time; None leaves it out.") | NONE,
        "by_class": boolean() | one_of("auto"),
        "n_iter": whole(1),
        "random_state": seed(),
    }
    domain = "linear"
    _needs_fit = "it learns models of the training series"
    _takes_confounds = False

    weights_: Floats

    def __init__(
        self,
        n_states: Any = (4, 6, 8, 12, 16, 24),
        topologies: Any = ("left-right", "ergodic"),
        scales: Any = ("channel", "series"),
        power: float = 0.5,
        clock: float | None = 10.0,
        by_class: Any = "auto",
        n_iter: int = 30,
        random_state: Any = 0,
    ) -> None:
        self.n_states = n_states
        self.topologies = topologies
        self.scales = scales
        self.power = power
        self.clock = clock
        self.by_class = by_class
        self.n_iter = n_iter
        self.random_state = random_state

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

    def _make_parts(self, X: Sequences) -> None:
        """Make the transformers, the parts and their weights."""
        most = max(1, int(np.median(X.lengths)) // 2)
        sizes = sorted({min(int(n), most) for n in self.n_states})
        by_class = self.by_class is True or (self.by_class == "auto" and len(X) >= MANY)
        seed = seed_of(self.random_state)
        self.transformers_, blocks = [], []  # a block: the number of its transformer, and kernels of equal weight
        for scale in self.scales:
            first = [Standardize(per="series")] if scale == "series" else []
            self.transformers_.append(make_pipeline(*first, Derivatives(), Standardize()))
            view = len(self.transformers_) - 1
            blocks.append((view, [self._fisher(n, t, seed) for t in self.topologies for n in sizes]))
            if by_class:
                blocks.append((view, [self._fisher(n, self.topologies[0], seed, by_class=True) for n in sizes[::2]]))
        if self.clock is not None:
            gamma = CLOCK_GAMMA / (2 * X.values.shape[1])
            clock = Clock(float(self.clock) * np.sqrt(CLOCK_GAMMA / 2 / gamma))
            self.transformers_.append(make_pipeline(Derivatives(), Standardize(), Resample(CLOCK_STEPS), clock))
            blocks.append((len(self.transformers_) - 1, [EmpiricalMeanMap(gamma=gamma)]))
        self.kernels_ = tuple(part for _, parts in blocks for part in parts)
        self.weights_ = np.concatenate([np.full(len(parts), 1 / len(parts) / len(blocks)) for _, parts in blocks])
        self._view_of = [view for view, parts in blocks for _ in parts]
        for part in self.kernels_:
            part._check_parameters()

    def _fisher(self, n: int, topology: Any, seed: int, *, by_class: bool = False) -> Fisher:
        model = _Rough(n, topology=topology, n_init=1, n_iter=self.n_iter, random_state=seed)
        return Fisher(model, information="diagonal", per="step", power=self.power, by_class=by_class)

    def _learn(self, X: Sequences, y: Any = None) -> None:
        self._make_parts(X)
        views = self._computed["views"] = self._views(X, reset=True)
        if self.by_class == "auto" and not _has_classes(y, views.parts[0]):
            for part in self.kernels_[:-1] if self.clock is not None else self.kernels_:
                part.by_class = False

        def work(task: tuple[Any, Any]) -> None:
            part, data = task
            part._fit_accepted(data, y)

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

    @property
    def psd(self) -> Verdict:
        """Always positive semi-definite."""
        return Verdict("always", "a mean of inner products of scores (FK-1) and of mean maps")

    def __sklearn_tags__(self) -> Any:
        tags = Kernel.__sklearn_tags__(self)
        tags.input_tags = HMM().__sklearn_tags__().input_tags
        tags.target_tags.required = self.by_class is True
        return tags


class _Rough(HMM):
    """A model whose fit may stop after ``n_iter`` without a warning: averages do not need more."""

    def _warn_unconverged(self, found: Any) -> None:
        pass

    def _warn_unvisited(self, found: Any, cure: str) -> None:
        pass


def _is_list(value: Any) -> bool:
    return isinstance(value, tuple | list) and len(value) > 0


def _has_classes(y: Any, X: Sequences) -> bool:
    """Whether y names classes, rather than numbers to be predicted, with models that can be fitted to each of them."""
    if y is None:
        return False
    target = as_array(y, "y", "one class or number per sample")
    check_target(target, len(X))
    if target.dtype.kind == "f" and not np.isfinite(target).all():
        raise ValueError("y contains NaN or infinity. Pass a class or a number for every sample.")
    if kind_of_target(y) not in ("binary", "multiclass"):
        return False
    owner = np.repeat(np.unique(y, return_inverse=True)[1], X.lengths)
    seen = [~np.isnan(X.values[owner == label]).all(axis=0) for label in range(owner.max() + 1)]
    return bool(np.all(seen))
