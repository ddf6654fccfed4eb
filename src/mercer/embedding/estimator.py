"""Hidden Markov models embedded in a Hilbert space, learned by a kernel singular value decomposition."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from mercer._array import Floats, Indices, as_float, to_numpy
from mercer._notices import warns_once
from mercer._parameters import NONE, Rule, Rules, instance_of, one_of, positive, seed, whole
from mercer.data import Sequences
from mercer.data.segments import in_double
from mercer.embedding._filter import Beliefs, Operator, advance_one, last_beliefs, run
from mercer.embedding._learning import Learning
from mercer.embedding._prediction import Prediction
from mercer.embedding._solve import Operators
from mercer.embedding._step import Stepper
from mercer.embedding._steps import (
    ObjectSequences,
    Steps,
    compares_vectors,
    read_objects,
    steps_of,
    take,
)
from mercer.kernels import Kernel


def _is_landmarks(value: Any) -> bool:
    return value is None or isinstance(value, list | tuple | np.ndarray | Sequences | ObjectSequences)


def _numbers(value: Any, name: str) -> Floats:
    """Return numbers as an array; that of a stream, nearly always, without a check."""
    if type(value) is np.ndarray and value.dtype == np.float64:
        return value
    return np.asarray(to_numpy(as_float(value, name)))


def _squares(x: Floats) -> bool:
    """Whether the sum of squares is finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        return math.isfinite(x.dot(x))


class EmbeddedHMM(Learning, Prediction, TransformerMixin, BaseEstimator):
    r"""Hidden Markov model of any observations that have a kernel, learned without local minima (HSE-1 to HSE-9).

    The model represents the distribution of the next observations by its mean in the feature space of a kernel, and
    the state by the coordinates of that mean in the subspace in which past and future windows covary.

    Parameters
    ----------
    kernel : Kernel or None, default=None
        Kernel of observations. None is the Gaussian kernel with the median rule for vectors (of observations and of
        windows separately), and the delta kernel for symbols. With `RBF` or `Linear`, observations are vectors; with
        any other kernel, each step of a sequence is an object that the kernel compares.
    n_components : int, default=10
        Dimension of the state, at most the numerical rank of the covariance of past and future windows.
    window : int, default=1
        Number of consecutive observations that represent the past and the future (HSE-7).
    alpha : float, default=1e-4
        Regularization of conditional distributions, relative to the mean of the kernel's diagonal if it is 1.
    solver : {"svd", "reduced_rank"}, default="svd"
        How the subspace is chosen: by the singular vectors of the covariance of future and past windows, as in the
        paper, or of the regression of the future on the past.
    landmarks : None, int or sequences, default=None
        None computes with kernel matrices of all training windows, exactly, at a cost of O(m^3). A number of landmarks,
        or sequences whose windows are landmarks, makes the cost linear in the number of observations. Symbols with up
        to 1,024 different windows, and linear kernels, have exact features, which are always used.
    features : {"landmarks", "random"}, default="landmarks"
        Features if ``landmarks`` is a number: projections onto landmarks, or random Fourier features of an `RBF`.
    start : {"stationary", "first"}, default="stationary"
        The first belief: the mean of all windows, or of those that sequences begin with.
    max_gap : int or None, default=100
        The belief restarts after a longer run of missing steps; None means never.
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
        gamma of the Gaussian kernel of observations; None for other kernels.

    See Also
    --------
    EmbeddedHMMClassifier : One model per class.
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
    >>> x = np.stack([np.cos(angle), np.sin(angle)], axis=1) + 0.05 * rng.normal(size=(400, 2))
    >>> model = mc.EmbeddedHMM(n_components=5).fit([x[:300]])
    >>> model.filter([x[300:]]).values.shape
    (100, 5)
    >>> model.score([x[300:]]) > 0.9                       # the explained fraction of the variance, one step ahead
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
        "landmarks": whole(1) | Rule("None or sequences", _is_landmarks),
        "features": one_of("landmarks", "random"),
        "start": one_of("stationary", "first"),
        "max_gap": whole(0, cure="It is a number of missing steps.") | NONE,
        "random_state": seed(),
    }

    def __init__(
        self,
        kernel: Any = None,
        n_components: int = 10,
        window: int = 1,
        alpha: float = 1e-4,
        solver: str = "svd",
        landmarks: Any = None,
        features: str = "landmarks",
        start: str = "stationary",
        max_gap: int | None = 100,
        random_state: Any = 0,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.window = window
        self.alpha = alpha
        self.solver = solver
        self.landmarks = landmarks
        self.features = features
        self.start = start
        self.max_gap = max_gap
        self.random_state = random_state

    # -- input ---------------------------------------------------------------------------------------------

    def accept(self, X: Any, *, owner: Any = None, reset: bool = False, context: Any = None) -> Any:
        """Convert ``X`` to `Sequences` of vectors or symbols, or to sequences of objects."""
        if not compares_vectors(self.kernel):
            return read_objects(X)
        alphabet = getattr(context, "alphabet", None) if reset or not hasattr(self, "_alphabet") else self._alphabet
        if isinstance(X, list | tuple) and not len(X):
            raise ValueError("X must not be empty; pass at least one sequence.")
        X = in_double(Sequences(X, alphabet=alphabet) if alphabet is not None else Sequences(X))
        if len(X) == 0:
            raise ValueError("X must not be empty; pass at least one sequence.")
        if not reset and hasattr(self, "_dimension") and X.dimension != self._dimension:
            had = "symbols" if self._dimension is None else f"vectors of {self._dimension} coordinates"
            got = "symbols" if X.dimension is None else f"vectors of {X.dimension} coordinates"
            raise ValueError(f"The sequences have {got}, but the model was fitted to {had}. Pass the same kind.")
        return X

    def _steps(self, X: Any, *, reset: bool = False) -> Steps:
        return steps_of(self.accept(X, reset=reset), one_hot=self.kernel is not None)

    @property
    def n_components_(self) -> int:
        """Dimension of the state."""
        return self._operators().n

    @property
    def singular_values_(self) -> Floats:
        """Singular values of the components."""
        return self._operators().singular_values

    @property
    def start_(self) -> Floats:
        """The belief before the first observation."""
        return self._operators().start

    @property
    def n_triples_(self) -> int:
        """Number of training triples."""
        check_is_fitted(self, "_parts")
        return sum(map(len, self._found))

    @property
    def gamma_(self) -> float | None:
        """The inverse width of the Gaussian kernel of observations; None for other kernels."""
        check_is_fitted(self, "_parts")
        found = self._comparison.gammas()
        return None if found is None else found[0]

    # -- filtering -----------------------------------------------------------------------------------------

    @warns_once
    def filter(self, X: Any) -> Beliefs:
        """Return the belief after every step, for many sequences at once (HSE-4).

        Parameters
        ----------
        X : list of sequences
            As in ``fit``, of any length.
        """
        operators = self._operators()
        return self._filter(operators, self._steps(X))

    def _filter(self, operators: Operators, steps: Steps) -> Beliefs:
        def codes(index: Indices) -> Floats:
            seen = steps.observed[index]
            if seen.all():
                return operators.codes(self._compared(take(steps.values, index)))
            out = np.zeros((len(index), operators.shape[0]))
            if seen.any():
                out[seen] = operators.codes(self._compared(take(steps.values, index[seen])))
            return out

        return run(operators, codes, steps.offsets, steps.observed, self.max_gap)

    def _compared(self, values: Any) -> Floats:
        """Return the features of observations, or their kernel values with the training observations."""
        if self._maps is not None:
            return np.asarray(self._maps[0](values))
        return self._comparison.observations(values, take(self._train.values, self._times))

    def update(self, observation: Any, belief: Any = None) -> Floats:
        """Return the belief after one more observation, at a constant cost: for streams.

        Parameters
        ----------
        observation : vector, symbol or object
            The next observation; None or NaN if it is missing.
        belief : array of shape (n_components,) or None, default=None
            The belief before it; None is the first one. Pass None after a gap longer than ``max_gap``, of which a
            single step does not know; `filter` does that by itself.

        Returns
        -------
        array of shape (n_components,)
        """
        operators = self._operators()
        if belief is None:
            before = operators.start
        else:
            before = _numbers(belief, "belief")
            if before.shape != operators.start.shape or not _squares(before):
                raise ValueError(
                    f"belief must have shape ({operators.n},) and finite values; got shape {before.shape}."
                )
        value = self._observation(observation)
        return advance_one(operators, before, self._operator(operators, value), is_missing=value is None)

    def _operator(self, operators: Operators, value: Any) -> Operator:
        """Return the operator of one observation, or of a missing step."""
        if value is None:
            return operators.unseen.dot
        stepper: Stepper | None = self.__dict__.get("_stepper")
        if stepper is None or stepper.operators is not operators:
            features = None if self._maps is None else self._maps[0]
            stepper = self._stepper = Stepper(operators, self._compared, features, self._comparison.of_one)
        return stepper.operator(value)

    def _observation(self, observation: Any) -> Any:
        """Return one observation as data with one row; None if it is missing."""
        if observation is None:
            return None
        if self._dimension is None:
            steps = self._steps([[observation]])
            return steps.values if steps.observed[0] else None
        row = _numbers(observation, "observation")
        if row.ndim == 0:
            row = row[None]
        if row.shape != (self._dimension,):
            raise ValueError(f"observation must have shape ({self._dimension},); got shape {row.shape}.")
        if _squares(row):
            return row[None]
        return self._steps([row[None]]).values if not np.isnan(row).all() else None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in dict(super().__getstate__()).items() if name != "_stepper"}

    def transform(self, X: Any) -> Floats:
        """Return the belief after the last step of each sequence as features, ``(N, n_components_)``."""
        operators = self._operators()
        return last_beliefs(operators, self._filter(operators, self._steps(X)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = []
        return tags
