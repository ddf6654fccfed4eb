"""Nystroem features: a few objects as landmarks, and a linear model in place of a kernel machine."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple, Self

import joblib
import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from mercer._array import Floats, to_numpy
from mercer._cache import ByteCache
from mercer._checks import is_number, is_whole
from mercer._config import settings
from mercer._random import check_seed, random_generator
from mercer.data.segments import data_digests
from mercer.kernels._changes import check_unchanged, values_of
from mercer.kernels._choice import Draw, far_apart
from mercer.kernels._data import check_libraries, has_digests, n_objects, unwrapped
from mercer.kernels._evaluation import Side
from mercer.kernels._trained import TrainedWrapper
from mercer.kernels.base.compound import Compound
from mercer.kernels.base.hooks import NoFeatures
from mercer.kernels.base.kernel import Kernel

EXPLICIT_COLUMNS = 4096
"""Dense explicit features of more columns are not taken unless asked for: landmarks need less memory and time."""

_choices = ByteCache()
"""Landmarks that were chosen before, by the kernel, the objects and the parameters: a search chooses them once."""


class Errors(NamedTuple):
    """Relative errors of approximate features.

    Parameters
    ----------
    trace : float
        Share of the objects' squared norms in feature space that the features miss.
    frobenius : float
        Frobenius norm of the error of their Gram matrix, divided by that of the exact one.

    Examples
    --------
    >>> import numpy as np, mercer as mc
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> found = mc.Landmarks(mc.RBF(gamma=0.1), n_components=20).fit(X).errors(X)
    >>> found.trace < 0.01, found.frobenius < 0.01
    (True, True)
    """

    trace: float
    frobenius: float


class Landmarks(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Features of any kernel from a few landmarks (Nystroem), for linear models: linear in the number of objects.

    It is a transformer, not a kernel: ``make_pipeline(mc.Landmarks(kernel, 500), LinearSVC())``.

    Parameters
    ----------
    kernel : Kernel
        The kernel; its parameters are ``kernel__...`` in a search.
    n_components : int, default=100
        Number of landmarks, all different objects where there are fewer. The features may be fewer: equal objects, and
        directions that only rounding would fill, are left out.
    method : {"uniform", "kmeans++"}, default="uniform"
        How landmarks are chosen among the different training objects: all alike, or one after the other with
        probabilities that grow with the squared distance in feature space from those chosen before. The latter
        evaluates one column of the kernel matrix for every landmark.
    explicit : {"auto", True, False}, default="auto"
        Whether the kernel's own explicit features are taken in place of landmarks, which is exact. "auto": where the
        kernel has them, sparse or with up to 4,096 columns.
    ridge : float, default=0.0
        Added to the eigenvalues of the landmarks' matrix, as a fraction of its mean diagonal: shortens what is noise.
    tolerance : float, default=1e-10
        Eigenvalues of the landmarks' matrix below this fraction of the largest are left out.
    held_out : int, default=100
        Number of training objects that are kept from being landmarks, to estimate the error: drawn one by one, equal
        ones too; fewer where the landmarks need them.
    random_state : int, Generator, RandomState or None, default=0
        Seed. Who is chosen depends on it and on the objects, not on their order.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel, fitted to all training data.
    explicit_ : bool
        Whether the features are the kernel's own, which are exact.
    indices_ : array of shape (m,)
        Places of the landmarks in the training data; empty for explicit features.
    eigenvalues_ : array of shape (r,)
        Of the landmarks' matrix, those that were kept, the largest first.
    error_ : float or None
        Relative trace error on the objects held out: :math:`\sum_i (k(x_i,x_i) - |\phi(x_i)|^2) / \sum_i k(x_i,x_i)`.
        None where no object was left to be held out; 0 for explicit features.
    error_spread_ : float or None
        Standard error of ``error_``; None where fewer than two objects were held out.
    clipped_ : float
        Sum of the negative eigenvalues that were left out, as a fraction of the sum of all absolute ones.

    See Also
    --------
    sklearn.kernel_approximation.Nystroem : For kernels on matrices.

    Notes
    -----
    With the landmarks' matrix :math:`W = V \Lambda V^\top`,

    .. math:: \phi(x) = (\Lambda + \rho)^{-1/2}\, V^\top (k(x, z_1), \ldots, k(x, z_m))^\top, \qquad
        \langle\phi(x), \phi(y)\rangle = k(x, z)\,(W + \rho)^{-1} k(z, y)

    is the projection of the objects, in feature space, on the span of the landmarks (Williams and Seeger 2001). So
    :math:`|\phi(x)|^2 \le k(x, x)`. The mean of what is missing over objects that played no part in the choice is an
    unbiased estimate for new objects, given the kernel; ``error_`` divides it by their mean self-kernel, which is 1
    for a normalised kernel. The trace error bounds the Frobenius error of the matrix.

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
    >>> round(float(features[0] @ features[1]), 2), round(float(mc.RBF(gamma=0.5)(X[:2])[0, 1]), 2)
    (0.85, 0.85)
    """

    error_: float | None
    error_spread_: float | None

    def __init__(
        self,
        kernel: Any,
        n_components: int = 100,
        method: str = "uniform",
        explicit: bool | str = "auto",
        ridge: float = 0.0,
        tolerance: float = 1e-10,
        held_out: int = 100,
        random_state: Any = 0,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.method = method
        self.explicit = explicit
        self.ridge = ridge
        self.tolerance = tolerance
        self.held_out = held_out
        self.random_state = random_state

    def _check_parameters(self) -> None:
        if not isinstance(self.kernel, Kernel):
            raise TypeError(f"Landmarks(kernel={self.kernel!r}): give a kernel, such as mc.RBF()")
        if not is_whole(self.n_components, 1):
            raise ValueError(f"n_components = {self.n_components!r}: give the number of landmarks, 1 or more")
        if self.method not in ("uniform", "kmeans++"):
            raise ValueError(f"method = {self.method!r}: give 'uniform' or 'kmeans++'")
        if not isinstance(self.explicit, bool) and self.explicit != "auto":
            raise ValueError(f"explicit = {self.explicit!r}: give True, False, or 'auto'")
        for name in ("ridge", "tolerance"):
            value = getattr(self, name)
            if not is_number(value) or value < 0:
                raise ValueError(f"{name} = {value!r}: give a fraction, 0 or more")
        if self.tolerance >= 1:
            raise ValueError(f"tolerance = {self.tolerance!r}: give a fraction of the largest eigenvalue, below 1")
        if not is_whole(self.held_out, 0):
            raise ValueError(f"held_out = {self.held_out!r}: give a number of objects, 0 or more")
        check_seed(self.random_state)

    # -- fitting -------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the kernel to all training data, and choose landmarks among them.

        Parameters
        ----------
        X : data
            What the kernel compares: a batch of models, sequences, a matrix, ...
        y : array, default=None
            For kernels that learn from it.
        """
        self._fit(X, y)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Fit, and return the features of the training data, ``(N, r)``."""
        X = unwrapped(X)
        source = self._fit(X, y)
        return self.kernel_.features(X) if self.explicit_ else self._mapped(source)

    def _fit(self, X: Any, y: Any) -> Any:
        """Fit, and return the training data as the kernel compares them."""
        self._check_parameters()
        X = unwrapped(X)
        self.kernel_ = clone(self.kernel).fit(X, y)
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)
            if hasattr(self.kernel_, name):
                setattr(self, name, getattr(self.kernel_, name))
        source, width = self.kernel_.train_, self._explicit_width(X)
        self.explicit_ = width is not None
        self.__dict__.pop("_landmark_side", None)
        self.__dict__.pop("_projection", None)
        if width is not None:
            self._n_features_out, self.indices_, self.eigenvalues_ = width, np.zeros(0, dtype=int), np.zeros(0)
            self.error_, self.error_spread_, self.clipped_ = 0.0, 0.0, 0.0
            _keep(self.kernel_, np.arange(1))
        else:
            held = self._choose(source)
            self._whiten()
            self._judge(source[held] if len(held) else None)
            _keep(self.kernel_, self.indices_)
        self._fitted_with = values_of(self, tuple(self.get_params(deep=False)))
        return source

    def _explicit_width(self, X: Any) -> int | None:
        """Return the number of the kernel's own features, None where it has none or they are not wanted."""
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

    def _choose(self, source: Any) -> Floats:
        """Choose landmarks; returns the places of those held out."""
        n = n_objects(source)
        digests = data_digests(source)  # of any array library: its numbers count, not their places
        seed = int(random_generator(self.random_state).integers(2**63))
        draw = Draw(seed, digests)
        m = min(int(self.n_components), draw.n_kinds)
        held = draw.beside(m)[: int(self.held_out)]
        rest = np.setdiff1d(np.arange(n), held)
        if self.method == "uniform":
            self.indices_ = rest[draw.different(rest, m)]
            return np.sort(held)
        setting = self.kernel_._setting() if has_digests(source) else None
        key = None if setting is None else ("landmarks", setting, joblib.hash(digests), m, seed, len(held))
        known = None if key is None else _choices.get(key)
        self.indices_ = far_apart(self.kernel_, source, rest, m, draw) if known is None else known
        if key is not None and known is None:
            _choices.put(key, self.indices_, size=self.indices_.nbytes + 256, budget=settings().cache_bytes)
        return np.sort(held)

    def _whiten(self) -> None:
        """Learn how columns become features, from the landmarks' matrix."""
        kernel = self.kernel_
        landmarks = kernel.train_[self.indices_]
        self._landmark_side = Side(landmarks)
        matrix = to_numpy(kernel._gram(self._landmark_side, None))
        # Of a value that was not remembered: the memo may keep single precision among double.
        one = kernel._evaluation.prepared(landmarks[:1])
        dtype = to_numpy(kernel.tile(one, one)).dtype
        precise = np.finfo(dtype).eps if dtype.kind == "f" else np.finfo(float).eps
        values, vectors = np.linalg.eigh(matrix.astype(float))
        largest = float(np.abs(values).max())
        rounding = max(float(self.tolerance), len(matrix) * float(precise))
        keep = np.flatnonzero(values > rounding * largest)[::-1]
        if not len(keep):
            raise ValueError(
                f"the kernel matrix of the {len(matrix)} landmarks has no positive eigenvalue (its largest entry is "
                f"{matrix.max():.3g}): normalise the kernel, or take one that tells the objects apart"
            )
        self.clipped_ = float(-values[values < 0].sum() / np.abs(values).sum())
        if values[0] < -max(rounding, 1e-8) * largest:
            warnings.warn(
                f"{type(kernel).__name__} is not positive semi-definite on the landmarks: eigenvalues down to "
                f"{values[0]:.3g}, with {self.clipped_:.2%} of the sum of absolute values, were left out",
                stacklevel=4,
            )
        self.eigenvalues_ = values[keep]
        self._n_features_out = len(keep)
        shift = float(self.ridge) * float(np.trace(matrix)) / len(matrix)
        self._projection = vectors[:, keep] / np.sqrt(values[keep] + shift)

    def _judge(self, held: Any) -> None:
        """Estimate the relative trace error on those held out."""
        self.error_, self.error_spread_ = None, None
        if held is None:
            return
        evaluation = self.kernel_._evaluation
        own = np.asarray(to_numpy(evaluation.exp(evaluation.diagonal(evaluation.prepared(held)))), dtype=float)
        missing = own - np.sum(self._mapped(held) ** 2, axis=1)
        total = float(own.sum())
        self.error_ = float(missing.sum()) / total if total > 0 else 0.0  # of objects of zero norm, nothing is missing
        if len(own) > 1 and total > 0:
            left = missing - self.error_ * own
            self.error_spread_ = float(np.std(left, ddof=1) / np.sqrt(len(own)) / own.mean())

    # -- features ------------------------------------------------------------------------------------------

    def _mapped(self, source: Any) -> Floats:
        """Return the features of objects, from their kernels with the landmarks through the memo of pairs."""
        landmarks = self._landmark_side
        check_libraries(source, landmarks.source)
        matched = self.kernel_._match(source, landmarks.source)
        columns = to_numpy(self.kernel_._gram(Side(matched), landmarks))
        return np.asarray(columns.astype(float) @ self._projection)

    def _read(self, X: Any) -> Any:
        check_is_fitted(self, "kernel_")
        check_unchanged(self, self._fitted_with, tuple(self.get_params(deep=False)))
        return unwrapped(X)

    def transform(self, X: Any) -> Any:
        """Return the features of new data, ``(M, r)``; a SciPy CSR array where explicit features are sparse.

        Parameters
        ----------
        X : data
            What the kernel compares.
        """
        X, kernel = self._read(X), self.kernel_
        return kernel.features(X) if self.explicit_ else self._mapped(kernel._source(kernel._admit(X, reset=False)))

    def errors(self, X: Any) -> Errors:
        """Compare the features of any data with the exact kernel, whose whole matrix is computed.

        Parameters
        ----------
        X : data
            What the kernel compares; landmarks among them have no error of their own.

        Returns
        -------
        Errors
            ``trace`` and ``frobenius``, both relative.
        """
        X = self._read(X)
        exact = np.asarray(to_numpy(self.kernel_(X)), dtype=float)
        features = self.transform(X)
        found = features @ features.T
        wrong = exact - (found.toarray() if sparse.issparse(found) else found)
        size = float(np.linalg.norm(exact)) or 1.0
        return Errors(float(np.trace(wrong) / (np.trace(exact) or 1.0)), float(np.linalg.norm(wrong)) / size)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if isinstance(self.kernel, Kernel):
            inner = self.kernel.__sklearn_tags__()
            tags.input_tags, tags.target_tags = inner.input_tags, inner.target_tags
        tags.transformer_tags.preserves_dtype = []
        return tags


def _first(X: Any) -> Any:
    """Return the first object of data of any kind, as data of one object."""
    if sparse.issparse(X):
        return X.tocsr()[:1]
    return _safe_indexing(X if hasattr(X, "__getitem__") else np.asarray(X), [0])


def _keep(kernel: Any, index: Floats) -> None:
    """Let a fitted kernel forget all training objects but some, unless it compares others with all of them."""
    if isinstance(kernel, TrainedWrapper):
        return
    kernel.train_ = kernel.train_[index]
    kernel._train_side = Side(kernel.train_)
    for part in kernel.kernels_ if isinstance(kernel, Compound) else ():
        _keep(part, index)
