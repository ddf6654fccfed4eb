"""Checks of the objects of a file: numbers that compiled code of scikit-learn and SciPy takes as places in memory.

A crafted file could have any numbers there. The checks run when all objects of a file are complete, since a dictionary
could be filled after the object that holds it was made.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import Perceptron, SGDClassifier, SGDRegressor
from sklearn.neighbors import BallTree, KDTree, KNeighborsClassifier, KNeighborsRegressor
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM

from mercer.kernels import Kernel

SGD = (SGDClassifier, SGDRegressor, Perceptron)
NEIGHBORS = (KNeighborsClassifier, KNeighborsRegressor)
TREES: dict[Any, Any] = {"kd_tree": KDTree, "ball_tree": BallTree}


def check(made: Any) -> None:
    """Raise if an object hides methods of its class, or if its numbers do not fit together."""
    name = type(made).__name__
    for key in vars(made) if hasattr(made, "__dict__") else ():
        if any(_hides(base, key) for base in type(made).__mro__):
            raise ValueError(f"{key} of {name} would hide that of its class")
    if isinstance(made, BaseEstimator) and not _whole(vars(made).get("n_features_in_", 0)):
        raise ValueError(f"n_features_in_ of {name} is not a number of features")
    for kinds, attribute, sound in _CHECKS:
        if isinstance(made, kinds) and hasattr(made, attribute) and not sound(made):
            raise ValueError(f"{attribute} of {name} and its other arrays do not fit together")


def _hides(base: type, key: str) -> bool:
    """Whether the attribute would replace what scikit-learn's class has, such as a check, or a method of mercer's."""
    root = base.__module__.partition(".")[0]
    return key in vars(base) and (root == "sklearn" or (root == "mercer" and callable(vars(base)[key])))


def build_tree(made: Any) -> None:
    """Build the search tree of nearest neighbors as scikit-learn does when it fits them."""
    tree = TREES.get(getattr(made, "_fit_method", None)) if isinstance(made, NEIGHBORS) else None
    if tree is not None:
        made._tree = tree(made._fit_X, made.leaf_size, metric=made.effective_metric_, **made.effective_metric_params_)


def _whole(value: Any, below: float = np.inf) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(0 <= value < below)


def _places(array: Any, below: int, length: int | None = None) -> bool:
    """Whether a vector consists of whole numbers from 0 to ``below - 1``."""
    if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype.kind not in "iu":
        return False
    return length in (None, len(array)) and (not len(array) or bool(0 <= array.min() <= array.max() < below))


def _is_vocabulary(made: Any) -> bool:
    """Whether words have different columns, all of them within the matrix."""
    columns = made.vocabulary_
    n = len(columns) if type(columns) is dict else 0
    return n > 0 and all(_whole(column, n) for column in columns.values()) and len({*columns.values()}) == n


def _is_sgd(made: Any) -> bool:
    """Whether the coefficients, into which a partial fit writes, are as wide as the data."""
    coefs = [getattr(made, name, made.coef_) for name in ("coef_", "_standard_coef", "_average_coef")]
    alike = all(isinstance(x, np.ndarray) and x.shape == made.coef_.shape for x in coefs)
    return alike and made.coef_.ndim in (1, 2) and bool(made.coef_.shape[-1] == made.n_features_in_)


def _is_machine(made: Any) -> bool:
    """Whether the arrays of libsvm have the sizes that it derives from ``_n_support``, and places within the kernel."""
    n, own = len(made.support_), isinstance(made.kernel, Kernel)
    precomputed = own or made.kernel == "precomputed"
    counts, vectors, dual = made._n_support, made.support_vectors_, made._dual_coef_
    classes = len(counts)
    pairs = classes * (classes - 1) // 2
    classifier = isinstance(made, ClassifierMixin)
    if own:  # a kernel of mercer as a function of samples
        wide_enough = len(made._BaseLibSVM__Xfit) == made.shape_fit_[0] and vectors.shape[0] == 0
    elif precomputed:
        wide_enough = made.n_features_in_ == made.shape_fit_[0] and vectors.shape[0] == 0
    else:
        wide_enough = vectors.shape == (n, made.n_features_in_)
    return bool(
        (own or made.kernel in ("linear", "poly", "rbf", "sigmoid", "precomputed"))
        and wide_enough
        and counts.dtype == np.int32
        and _places(counts[: None if classifier else 1], n + 1)
        and counts[: None if classifier else 1].sum() == n
        and (classes >= 2 if classifier else classes == 2)
        and made.support_.dtype == np.int32
        and _places(made.support_, made.shape_fit_[0])
        and sparse.issparse(vectors) == sparse.issparse(dual) == bool(made._sparse)
        and not (made._sparse and precomputed)
        and dual.shape == (classes - 1, n)
        and dual.size == (classes - 1) * n
        and made._intercept_.shape == (pairs,)
        and made._probA.shape == made._probB.shape
        and made._probA.shape in ((0,), (pairs if classifier else 1,))
    )


def _is_neighborhood(made: Any) -> bool:
    """Whether the samples are as wide as the data, and the classes of a vote are classes."""
    X, n = made._fit_X, made.n_samples_fit_
    if made._fit_method not in ("brute", *TREES) or X.shape != (n, made.n_features_in_) or len(made._y) != n:
        return False
    if isinstance(made, KNeighborsRegressor):
        return True
    labels = made._y if made.outputs_2d_ else made._y[:, None]
    classes = made.classes_ if made.outputs_2d_ else [made.classes_]
    return labels.ndim == 2 and all(_places(y, len(known)) for y, known in zip(labels.T, classes, strict=True))


def _is_encoder(made: Any) -> bool:
    """Whether the columns of all categories are within the matrix."""
    features = made.n_features_in_
    if not isinstance(made.categories_, list) or len(made.categories_) != features or not features:
        return False
    if not all(isinstance(x, np.ndarray) and x.ndim == 1 and len(x) and _found(x) for x in made.categories_):
        return False
    sizes = [len(x) for x in made.categories_]
    if made._infrequent_enabled:
        groups = list(zip(made._infrequent_indices, made._default_to_infrequent_mappings, sizes, strict=True))
        if not all(_is_grouping(*group) for group in groups):
            return False
        sizes = [size if rare is None else size - len(rare) + 1 for rare, _, size in groups]
    drop = made._drop_idx_after_grouping
    if drop is not None:
        if drop.shape != (features,) or not all(x is None or _whole(x, n) for x, n in zip(drop, sizes, strict=True)):
            return False
        sizes = [n - (x is not None) for x, n in zip(drop, sizes, strict=True)]
    widths = made._n_features_outs
    return isinstance(widths, list) and all(map(_whole, widths)) and widths == sizes


def _is_grouping(rare: Any, places: Any, size: int) -> bool:
    """Whether rare categories are categories, and their group is one of the groups."""
    if rare is None or places is None:
        return rare is places
    return bool(_places(rare, size) and 0 < len(rare) == len({*rare}) and _places(places, size - len(rare) + 1, size))


def _found(categories: Any) -> bool:
    """Whether a binary search ends within the categories: they ascend, or are words, which no number is taken for."""
    known = [x for x in categories.tolist() if x is not None and x == x]  # missing values are the last ones
    try:
        if all(a < b for a, b in pairwise(known)):
            return all(x is None or x != x for x in categories.tolist()[len(known) :])
    except TypeError:  # numbers and words
        pass
    return all(isinstance(x, str | bytes) and not _is_number(x) for x in known)


def _is_number(word: str | bytes) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


_CHECKS: tuple[tuple[Any, str, Callable[[Any], bool]], ...] = (
    (CountVectorizer, "vocabulary_", _is_vocabulary),
    (SGD, "coef_", _is_sgd),
    ((SVC, SVR, NuSVC, NuSVR, OneClassSVM), "support_", _is_machine),
    (NEIGHBORS, "_fit_method", _is_neighborhood),
    (OneHotEncoder, "categories_", _is_encoder),
)
"""Types, an attribute that they have when they are fitted, and whether their numbers are sound."""
