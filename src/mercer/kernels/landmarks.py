"""Nystroem features from landmarks, for linear models in place of kernel machines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from mercer._array import Floats, to_numpy
from mercer._notices import notify, warns_once
from mercer._parameters import CheckedParameters, Rule, Rules, instance_of, one_of, seed, whole
from mercer._random import random_generator
from mercer.data.segments import data_digests
from mercer.kernels._choice import Draw, far_apart
from mercer.kernels._data import check_libraries, copy_columns, n_objects, unwrapped
from mercer.kernels._evaluation import Side
from mercer.kernels._subset import subset
from mercer.kernels.base.kernel import Kernel
from mercer.kernels.base.transformer import NoFeatures

BLOCK = 1 << 22
"""Number of kernel values of a block of rows."""
TOLERANCE = 1e-10
"""Eigenvalues of the landmarks' matrix below this fraction of the largest are dropped."""
EXPLICIT_COLUMNS = 4096
"""Maximum number of dense explicit features under "auto"; beyond it, landmarks need less memory and time."""


class _Drawn(NamedTuple):
    """The random part of a choice of landmarks: random numbers, the number m of landmarks, and the held-out objects."""

    draw: Draw
    m: int
    held: Floats
    rest: Floats

    @property
    def uniform(self) -> Floats:
        """Landmarks that are chosen without kernel values."""
        found: Floats = self.rest[self.draw.different(self.rest, self.m)]
        return found

    def far_apart(self, kernel: Any, source: Any) -> Floats:
        """Choose landmarks by k-means++."""
        found = far_apart(kernel, source, self.rest, self.m, self.draw)
        return found if len(found) else self.rest[:1]  # all have zero norm, as the landmarks' matrix will tell


@dataclass(eq=False, repr=False)
class Landmarks(CheckedParameters, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Approximate features of any kernel from landmarks (Nystroem), at a cost linear in the number of objects.

    It is a transformer, not a kernel: ``make_pipeline(mc.Landmarks(kernel, 500), LinearSVC())``.

    Parameters
    ----------
    kernel : Kernel
        The kernel; its parameters are ``kernel__...`` in a search.
    n_components : int, default=100
        Number of landmarks, at most the number of distinct training objects; a larger number is lowered to it, with a
        warning if it exceeds the number of objects. There may be fewer features, because directions with eigenvalues
        at the level of rounding are dropped.
    method : {"uniform", "kmeans++"}, default="uniform"
        How to choose landmarks among the distinct training objects. "uniform" evaluates no kernel values. "kmeans++"
        evaluates one column of the kernel matrix per landmark: it chooses one after the other with probabilities that
        grow with the squared distance in feature space from the nearest landmark chosen before.
    explicit : {"auto", True, False}, default="auto"
        Whether to use the kernel's own explicit features, which are exact, in place of landmarks. "auto" uses them if
        the kernel has them and they are sparse or have at most 4,096 columns. Explicit features that are computed from
        kernel values (`EmpiricalKernelMap`, `Repaired`) are those with uniform landmarks under "auto", and those with
        all training objects under True.
    held_out : int, default=100
        Number of training objects that are not used as landmarks, to estimate the error. They are drawn one by one,
        including duplicates; there are fewer if the landmarks need them.
    random_state : int, Generator, RandomState or None, default=0
        Seed. The choice depends on the seed and the objects, not on their order.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel. Its models are fitted to all training data. What it learns from kernel values, such as the mean of
        `Centered`, the chance and shift of `LogOdds`, or the weights of `TargetAligned`, is learned from
        ``n_components`` of the training objects that are chosen uniformly: with method "uniform", the landmarks.
    explicit_ : bool
        Whether the features are the kernel's own, which are exact.
    indices_ : array of shape (m,)
        Indices of the landmarks in the training data; empty for explicit features that need none.
    eigenvalues_ : array of shape (r,)
        Eigenvalues of the landmarks' matrix that were kept, in decreasing order.
    error_ : float or None
        Relative trace error on the held-out objects: :math:`\sum_i (k(x_i,x_i) - |\phi(x_i)|^2) / \sum_i k(x_i,x_i)`.
        None if no object was held out; 0 for explicit features.
    error_spread_ : float or None
        Standard error of ``error_``; None if fewer than two objects were held out.
    clipped_ : float
        Absolute sum of the dropped negative eigenvalues, as a fraction of the sum of all absolute eigenvalues.

    See Also
    --------
    sklearn.kernel_approximation.Nystroem : For kernels on matrices.

    Notes
    -----
    With the landmarks' matrix :math:`W = V \Lambda V^\top`,

    .. math:: \phi(x) = \Lambda^{-1/2}\, V^\top (k(x, z_1), \ldots, k(x, z_m))^\top, \qquad
        \langle\phi(x), \phi(y)\rangle = k(x, z)\,W^{-1} k(z, y)

    is the projection of the objects, in feature space, onto the span of the landmarks (Williams and Seeger 2001).
    Hence :math:`|\phi(x)|^2 \le k(x, x)`. The mean difference over the held-out objects is an unbiased estimate for
    new objects, given the kernel; ``error_`` divides it by their mean self-kernel, which is 1 for a normalized kernel.
    The trace error bounds the Frobenius error of the matrix.

    Kernel values are computed in blocks of rows: besides the features, at most about 4 million are in memory at once.

    References
    ----------
    C. Williams, M. Seeger, Using the Nystroem Method to Speed Up Kernel Machines, NIPS 13, 2001. D. Arthur,
    S. Vassilvitskii, k-means++: The Advantages of Careful Seeding, SODA 2007.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> landmarks = mc.Landmarks(mc.RBF(gamma=0.5), n_components=30)
    >>> features = landmarks.fit_transform(X)
    >>> features.shape, landmarks.error_ < 0.05
    ((300, 30), True)
    >>> (
    ...     round(float(features[0] @ features[1]), 2),
    ...     round(float(mc.RBF(gamma=0.5)(X[:2])[0, 1]), 2),
    ... )
    (0.85, 0.85)
    """

    _parameters: ClassVar[Rules] = {
        "kernel": instance_of(Kernel, what="a kernel", cure="Use mc.RBF(), for example."),
        "n_components": whole(1, cure="It is the number of landmarks."),
        "method": one_of("uniform", "kmeans++"),
        "explicit": Rule(
            "True, False or 'auto'",
            lambda value: isinstance(value, bool) or (isinstance(value, str) and value == "auto"),
        ),
        "held_out": whole(0, cure="It is a number of training objects."),
        "random_state": seed(),
    }

    kernel: Any
    n_components: int = 100
    method: str = "uniform"
    explicit: bool | str = "auto"
    held_out: int = 100
    random_state: Any = 0

    # -- fitting -------------------------------------------------------------------------------------------

    @warns_once
    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the kernel and choose the landmarks.

        Parameters
        ----------
        X : data
            Input of the kernel: a batch of models, sequences, a matrix, ...
        y : array, default=None
            Target, for kernels that learn from it.
        """
        self._fit(X, y)
        return self

    @warns_once
    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Fit and return the features of the training data, ``(N, r)``."""
        X = unwrapped(X)
        source = self._fit(X, y)
        return self._own(X) if self.explicit_ else self._mapped(source)

    def _fit(self, X: Any, y: Any) -> Any:
        """Fit and return the training data in the form that the kernel compares."""
        self._check_parameters()
        X = unwrapped(X)
        whole = clone(self.kernel)
        whole._fit_objects(X, y)
        copy_columns(self, whole)
        self.__dict__.pop("_landmark_side", None)
        self.__dict__.pop("_projection", None)
        source, learns, drawn = whole.train_, whole._learns_from_values, None
        self._n_training = n_objects(source)
        self.kernel_, self.indices_ = whole, np.zeros(0, dtype=int)
        if learns:  # all pairs would cost more than the features
            drawn = self._drawn(source)
            self.indices_ = drawn.uniform
            self.kernel_ = subset(whole, self.indices_)
            self.kernel_._learn_from_values(None if y is None else _safe_indexing(y, self.indices_))
        width = self._explicit_width(X)
        self.explicit_ = width is not None
        if width is not None:
            self._use_own_features(whole, width, X, y)
        else:
            drawn = drawn or self._drawn(source)
            source = self.kernel_._match(source, self.kernel_.train_)
            self.indices_ = drawn.uniform if self.method == "uniform" else drawn.far_apart(self.kernel_, source)
            if not learns:
                self.kernel_ = subset(whole, self.indices_)
            kept = self.method == "uniform" or not learns  # as the training objects of the kernel
            self._landmark_side = self.kernel_._train_side if kept else Side(source[self.indices_])
            self._whiten()
            self._judge(source[drawn.held] if len(drawn.held) else None)
        if len(self.indices_) and int(self.n_components) > self._n_training:
            notify(
                f"n_components = {self.n_components} is more than the {self._n_training} training objects, which all "
                f"become landmarks. Use n_components={self._n_training} or fewer."
            )
        return source

    def _use_own_features(self, whole: Any, width: int, X: Any, y: Any) -> None:
        """Use the explicit features of the kernel, which are exact."""
        if whole._learns_from_values and self.explicit != "auto":  # values with all training objects are wanted
            whole._learn_from_values(y)
            self.kernel_, self.indices_ = whole, self.indices_[:0]
            width = whole.features(_first(X)).shape[1]
        self._n_features_out, self.eigenvalues_ = width, np.zeros(0)
        self.error_: float | None = 0.0
        self.error_spread_: float | None = 0.0
        self.clipped_ = 0.0
        self.kernel_ = subset(self.kernel_, np.arange(1))

    def _explicit_width(self, X: Any) -> int | None:
        """Return the number of the kernel's explicit features, or None if they are not available or not wanted."""
        if self.explicit is False:
            return None
        try:
            one = self.kernel_.features(_first(X))
        except NoFeatures:
            if self.explicit is True:
                raise
            return None
        wide = not sparse.issparse(one) and one.shape[1] > EXPLICIT_COLUMNS
        return None if self.explicit == "auto" and wide else int(one.shape[1])

    def _drawn(self, source: Any) -> _Drawn:
        """Draw the random numbers of the objects, and those that are held out."""
        digests = data_digests(source)  # by value, so that the array library does not matter
        seed = int(random_generator(self.random_state).integers(2**63))
        draw = Draw(seed, digests)
        m = min(int(self.n_components), draw.n_kinds)
        held = draw.all_but(m)[: int(self.held_out)]
        rest = np.setdiff1d(np.arange(len(digests)), held)
        return _Drawn(draw, m, np.sort(held), rest)

    def _whiten(self) -> None:
        """Learn the projection from kernel columns to features, from the landmarks' matrix."""
        kernel = self.kernel_
        matrix = to_numpy(kernel._gram(self._landmark_side, None))
        # The dtype of a new value: the memo may hold single-precision values in a double-precision array.
        one = kernel._evaluation.prepared(self._landmark_side.source[:1])
        dtype = to_numpy(kernel.tile(one, one)).dtype
        precise = np.finfo(dtype).eps if dtype.kind == "f" else np.finfo(float).eps
        values, vectors = np.linalg.eigh(matrix.astype(float))
        largest = float(np.abs(values).max())
        rounding = max(TOLERANCE, len(matrix) * float(precise))
        keep = np.flatnonzero(values > rounding * largest)[::-1]
        if not len(keep):
            raise ValueError(
                f"The kernel matrix of the {len(matrix)} landmarks has no positive eigenvalue (its largest entry is "
                f"{matrix.max():.3g}). Normalize the kernel, or use one that separates the objects."
            )
        self.clipped_ = float(-values[values < 0].sum() / np.abs(values).sum())
        if values[0] < -max(rounding, 1e-8) * largest:
            notify(
                f"{type(kernel).__name__} is not positive semi-definite on the landmarks. Eigenvalues down to "
                f"{values[0]:.3g}, with {self.clipped_:.2%} of the sum of absolute values, were dropped. Use a "
                "positive semi-definite kernel if this fraction is large.",
            )
        self.eigenvalues_ = values[keep]
        self._n_features_out = len(keep)
        self._projection = vectors[:, keep] / np.sqrt(values[keep])

    def _judge(self, held: Any) -> None:
        """Estimate the relative trace error on the held-out objects."""
        self.error_, self.error_spread_ = None, None
        if held is None:
            return
        evaluation = self.kernel_._evaluation
        own = np.asarray(to_numpy(evaluation.exp(evaluation.diagonal(evaluation.prepared(held)))), dtype=float)
        missing = own - np.sum(self._mapped(held) ** 2, axis=1)
        total = float(own.sum())
        self.error_ = float(missing.sum()) / total if total > 0 else 0.0  # objects of zero norm have no error
        if len(own) > 1 and total > 0:
            left = (missing - self.error_ * own) / own.mean()  # near 1, so that squares do not overflow
            self.error_spread_ = float(np.std(left, ddof=1) / np.sqrt(len(own)))

    # -- features ------------------------------------------------------------------------------------------

    def _own(self, X: Any) -> Any:
        """Return the explicit features of the kernel: a NumPy array, or a SciPy CSR array."""
        found = self.kernel_.features(X)
        return found if sparse.issparse(found) else to_numpy(found)

    def _mapped(self, source: Any) -> Floats:
        """Return the features of objects from their kernel values with the landmarks, through the memo of pairs."""
        landmarks = self._landmark_side
        check_libraries(source, landmarks.source)
        n, step = n_objects(source), max(1, BLOCK // len(self._projection))
        blocks = [source] if n <= step else [source[at : at + step] for at in range(0, n, step)]
        found = np.empty((n, self._projection.shape[1]))
        for i, block in enumerate(blocks):
            matched = self.kernel_._match(block, landmarks.source)
            columns = to_numpy(self.kernel_._evaluation.remembered(Side(matched), landmarks))
            found[i * step : (i + 1) * step] = columns.astype(float) @ self._projection
        return found

    def _read(self, X: Any) -> Any:
        check_is_fitted(self, "kernel_")
        return unwrapped(X)

    def transform(self, X: Any) -> Any:
        """Return the features of new data, ``(M, r)``; a SciPy CSR array if explicit features are sparse.

        Parameters
        ----------
        X : data
            Input of the kernel.
        """
        X, kernel = self._read(X), self.kernel_
        return self._own(X) if self.explicit_ else self._mapped(kernel._source(kernel._admit(X, reset=False)))

    def get_feature_names_out(self, input_features: Any = None) -> Floats:
        """Return the names of the features: those of the kernel's explicit features, or numbers for landmarks.

        Parameters
        ----------
        input_features : ignored
            Present for API consistency.
        """
        check_is_fitted(self, "kernel_")
        if not self.explicit_:
            return np.asarray(super().get_feature_names_out(input_features))
        return np.array(self.kernel_._feature_names(self._n_features_out), dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if isinstance(self.kernel, Kernel):
            inner = self.kernel.__sklearn_tags__()
            tags.input_tags, tags.target_tags = inner.input_tags, inner.target_tags
        tags.transformer_tags.preserves_dtype = []
        return tags


def _first(X: Any) -> Any:
    """Return the first object of any kind of data, as data with one object."""
    if sparse.issparse(X):
        return X.tocsr()[:1]
    return _safe_indexing(X if hasattr(X, "__getitem__") else np.asarray(X), [0])
