"""Hidden Markov models embedded in a Hilbert space, and the kernel between two filtered sequences (HSE-9)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone

from mercer._array import Floats, as_float, to_numpy
from mercer._notices import warns_once
from mercer._parameters import NONE, CheckedParameters, Rules, instance_of, one_of, positive, seed, whole
from mercer._verdict import Verdict
from mercer.data import Sequences
from mercer.data.channels import by_name
from mercer.data.segments import refuse_paths
from mercer.embedding._filter import Beliefs, last_beliefs
from mercer.embedding._learning import Learned
from mercer.embedding._prediction import Prediction
from mercer.embedding._steps import compares_vectors, read_objects, read_series
from mercer.kernels import Kernel, Linear


def _numbers(value: Any, name: str) -> tuple[Floats, bool]:
    """Return numbers as an array, and whether the sum of their squares is finite."""
    found = value if type(value) is np.ndarray and value.dtype == np.float64 else to_numpy(as_float(value, name))
    with np.errstate(over="ignore", invalid="ignore"):
        return found, bool(np.isfinite(np.vdot(found, found)))


@dataclass(eq=False, repr=False)
class EmbeddedHMM(CheckedParameters, Prediction, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Hidden Markov model of any observations that have a kernel, learned without local minima (HSE-1 to HSE-9).

    The model represents the distribution of the next observations by its mean in the feature space of a kernel, and
    the state by the coordinates of that mean in the subspace in which past and future windows covary.

    Parameters
    ----------
    kernel : Kernel or None, default=None
        Kernel of observations. None is the Gaussian kernel with the median rule for vectors (of observations and of
        windows separately), and the delta kernel for symbols. With `RBF`, `Laplace` or `Linear`, observations are
        vectors; with any other kernel, each step of a sequence is an object that the kernel compares.
    n_components : int, default=10
        Dimension of the state, at most the numerical rank of the covariance of past and future windows.
    window : int, default=1
        Number of consecutive observations that represent the past and the future (HSE-7).
    alpha : float, default=1e-4
        Regularization of conditional distributions, relative to the mean of the kernel's diagonal if it is 1.
    solver : {"svd", "reduced_rank"}, default="svd"
        How the subspace is chosen: by the singular vectors of the covariance of future and past windows, as in the
        paper, or of the regression of the future on the past.
    landmarks : None or int, default=None
        Number of windows of the training sequences, drawn at random, onto which windows and observations are projected;
        the cost is linear in the number of observations. None takes all of them, exactly, at a cost of O(m^3). Symbols
        with up to 1,024 different windows, and linear kernels, have exact features, which are always used.
    features : {"landmarks", "random"}, default="landmarks"
        Features if ``landmarks`` is a number: projections onto landmarks, or random Fourier features of an `RBF` or
        `Laplace` kernel.
    start : {"stationary", "first"}, default="stationary"
        The first belief: the mean of all windows, or of those that sequences begin with.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the landmarks, the frequencies, and the observations of the median rule.

    Attributes
    ----------
    n_components_ : int
        Dimension of the state.
    singular_values_ : array of shape (n_components,)
        Singular values of the components, in decreasing order.
    start_ : array of shape (n_components,)
        The belief before the first observation.
    n_triples_ : int
        Number of training triples: past window, future window, and future window one step later.
    gamma_ : float or None
        gamma of the Gaussian or Laplace kernel of observations; None for other kernels.

    See Also
    --------
    LikelihoodRatio : A classifier with one model per class.
    BeliefKernel : The kernel between two filtered sequences.
    HMM : A hidden Markov model with a family of emissions, learned by EM.

    Notes
    -----
    Steps of NaN (vectors), missing or ambiguous symbols and None (objects) are missing: they are summed out. Training
    triples with a missing step are left out. Estimated probabilities can be negative or large. A belief restarts where
    the probability of an observation is not positive, and is pulled toward the first belief where it is longer than the
    features of every training window, which no mean of them can be; `filter` reports where.

    References
    ----------
    L. Song, B. Boots, S. Siddiqi, G. Gordon, A. Smola, Hilbert Space Embeddings of Hidden Markov Models, ICML 2010.
    D. Hsu, S. Kakade, T. Zhang, A Spectral Algorithm for Learning Hidden Markov Models, 2012.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> rng = np.random.default_rng(0)
    >>> angle = np.cumsum(0.3 + 0.02 * rng.normal(size=400))
    >>> x = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    >>> x += 0.05 * rng.normal(size=(400, 2))
    >>> model = mc.EmbeddedHMM(n_components=5).fit([x[:300]])
    >>> model.filter([x[300:]]).values.shape
    (100, 5)
    >>> model.score([x[300:]]) > 0.9  # explained fraction of the variance, one step ahead
    True
    >>> model.forecast([x[300:390]], steps=10).shape
    (1, 10, 2)
    """

    _parameters: ClassVar[Rules] = {
        "kernel": instance_of(Kernel, what="a kernel", cure="Use mc.RBF(gamma=0.5), for example.") | NONE,
        "n_components": whole(1, cure="It is the dimension of the state."),
        "window": whole(1, cure="It is a number of observations."),
        "alpha": positive("It regularizes conditional distributions; use 1e-4, for example."),
        "solver": one_of("svd", "reduced_rank"),
        "landmarks": whole(1) | NONE,
        "features": one_of("landmarks", "random"),
        "start": one_of("stationary", "first"),
        "random_state": seed(),
    }

    kernel: Any = None
    n_components: int = 10
    window: int = 1
    alpha: float = 1e-4
    solver: str = "svd"
    landmarks: Any = None
    features: str = "landmarks"
    start: str = "stationary"
    random_state: Any = 0

    # -- learning ------------------------------------------------------------------------------------------

    def accept(self, X: Any, *, owner: Any = None, reset: bool = False, context: Any = None) -> Any:
        """Convert ``X`` to `Sequences` of vectors or symbols, or to sequences of objects."""
        if not reset and hasattr(self, "_learned"):
            return self._learned.read(X)
        X = by_name(self if owner is None else owner, X, reset=reset)
        return read_series(X, getattr(context, "alphabet", None)) if compares_vectors(self.kernel) else read_objects(X)

    def _begun(self, X: Any, y: Any) -> Learned:
        """Read the training sequences, and learn the features."""
        X = self.accept(X, reset=True)
        if isinstance(X, Sequences):
            refuse_paths(type(self).__name__, X, y)
        return Learned(clone(self), X)

    @warns_once
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from sequences: one long series ``[x]``, or many of different lengths.

        Parameters
        ----------
        X : list of sequences
            Arrays ``(T, d)``, strings or arrays of symbols, or lists of objects.
        y : None
            Ignored.
        """
        self._check_parameters()
        learned = self._begun(X, y)
        learned.learn(int(self.n_components), float(self.alpha))
        self._learned = learned
        return self

    @warns_once
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn from further sequences, with the features of the first call.

        The result equals that of ``fit`` on all sequences with these features. It needs features: ``landmarks``, or
        symbols. The cost does not depend on the number of earlier calls: sums of products of three features are kept,
        r^3 numbers, up to r = 322. For blocks of one long series, repeat the last ``2 * window`` steps of a block at
        the beginning of the next, so that no triple is lost.

        Parameters
        ----------
        X : list of sequences
            As in ``fit``.
        y : None
            Ignored.
        """
        self._check_parameters()
        fresh = not hasattr(self, "_learned")
        learned = self._begun(X, y) if fresh else self._learned
        learned.extend(None if fresh else X, int(self.n_components), float(self.alpha))
        self._learned = learned
        return self

    @property
    def n_components_(self) -> int:
        """Dimension of the state."""
        return self._known().operators.n

    @property
    def singular_values_(self) -> Floats:
        """Singular values of the components."""
        return self._known().operators.singular_values

    @property
    def start_(self) -> Floats:
        """The belief before the first observation."""
        return self._known().operators.start

    @property
    def n_triples_(self) -> int:
        """Number of training triples."""
        return len(self._known().times)

    @property
    def gamma_(self) -> float | None:
        """The inverse width of the Gaussian or Laplace kernel of observations; None for other kernels."""
        found = self._known().comparison.base
        return None if found is None else found.gamma

    # -- filtering -----------------------------------------------------------------------------------------

    @warns_once
    def filter(self, X: Any) -> Beliefs:
        """Return the belief after every step, for many sequences at once (HSE-4).

        Parameters
        ----------
        X : list of sequences
            As in ``fit``, of any length.
        """
        return self._filtered(X)

    def update(self, observation: Any, belief: Any = None) -> Floats:
        """Return the belief after one more observation, at a constant cost: for streams.

        Parameters
        ----------
        observation : vector, symbol or object
            The next observation; None or NaN if it is missing.
        belief : array of shape (n_components,) or None, default=None
            The belief before it; None is the first one.

        Returns
        -------
        array of shape (n_components,)
        """
        learned = self._known()
        start = learned.operators.start
        before, finite = (start, True) if belief is None else _numbers(belief, "belief")
        if before.shape != start.shape or not finite:
            raise ValueError(f"belief must have shape ({len(start)},) and finite values; got shape {before.shape}.")
        return learned.advanced(before, self._observation(learned, observation))

    @staticmethod
    def _observation(learned: Learned, observation: Any) -> Any:
        """Return one observation as data with one row; None if it is missing."""
        if observation is None:
            return None
        if learned.dimension is None:
            steps = learned.steps([[observation]])
            return steps.values if steps.observed[0] else None
        row, finite = _numbers(observation, "observation")
        row = np.atleast_1d(row)
        if row.shape != (learned.dimension,):
            raise ValueError(f"observation must have shape ({learned.dimension},); got shape {row.shape}.")
        if finite:
            return row[None]
        return learned.steps([row[None]]).values if not np.isnan(row).all() else None

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def transform(self, X: Any) -> Floats:
        """Return the belief after the last step of each sequence as features, ``(N, n_components_)``."""
        found = self._filtered(X)
        return last_beliefs(self._learned.operators, found)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = []
        return tags


class BeliefKernel(Linear):
    r"""Kernel between sequences that an `EmbeddedHMM` has filtered: of their predicted distributions (HSE-9).

    Parameters
    ----------
    model : EmbeddedHMM or None, default=None
        The model, fitted to the training sequences; None is ``EmbeddedHMM()``.
    when : {"last", "mean"}, default="last"
        Which belief represents a sequence: that after its last step, or the mean over its steps.
    normalize : bool, default=True
        Whether to normalize the kernel, so that k(x, x) = 1.
    on_zero : {"raise", "zero"}, default="raise"
        What to do with a sequence of zero norm: raise an error, or set its kernel values to zero.

    Notes
    -----
    With the weights :math:`v = Qb` of the training windows in the prediction after the sequence,

    .. math:: k(x, y) = v_x^\top L\, v_y
              = \langle\hat\mu_{\text{future}\mid x}, \hat\mu_{\text{future}\mid y}\rangle

    is the inner product of the two predicted distributions, embedded in the feature space.

    Examples
    --------
    >>> import mercer as mc
    >>> strings = ["abcabcabc", "bcabcabc", "cabcab", "abcabca"]
    >>> kernel = mc.embedding.BeliefKernel(mc.EmbeddedHMM(n_components=3))
    >>> kernel.fit_transform(strings).round(2)
    array([[1., 1., 0., 0.],
           [1., 1., 0., 0.],
           [0., 0., 1., 0.],
           [0., 0., 0., 1.]])
    """

    _parameters: ClassVar[Rules] = {
        "model": instance_of(EmbeddedHMM, type(None), what="an EmbeddedHMM or None"),
        "when": one_of("last", "mean"),
    }
    psd = Verdict("always", "an inner product of embedded distributions")
    model_: EmbeddedHMM

    def __init__(self, model: Any = None, when: str = "last", normalize: bool = True, on_zero: str = "raise") -> None:
        super().__init__(normalize=normalize, on_zero=on_zero)
        self.model = model
        self.when = when

    def _accept(self, X: Any, *, reset: bool) -> Any:
        reader = (EmbeddedHMM() if self.model is None else self.model) if reset else self.model_
        return reader.accept(X, owner=self, reset=reset)

    def _learn(self, X: Any, y: Any = None) -> None:
        self.model_ = EmbeddedHMM() if self.model is None else clone(self.model)
        self.model_.fit(X)

    @property
    def _needs_fit(self) -> str:
        return "it learns one model for all sequences"

    def _source(self, X: Any) -> Floats:
        """Return features whose inner products are the kernel, ``(N, n_components_)``."""
        operators = self.model_._known().operators
        values, vectors = np.linalg.eigh(operators.metric)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        if self.when == "last":
            return np.asarray(self.model_.transform(X)) @ root
        found = self.model_.filter(X)
        parts = zip(found.offsets[:-1], found.offsets[1:], strict=True)
        means = [found.values[a:b].mean(axis=0) if b > a else operators.start for a, b in parts]
        return np.array(means) @ root

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        self._check_parameter("model")
        tags.input_tags = (EmbeddedHMM() if self.model is None else self.model).__sklearn_tags__().input_tags
        return tags
