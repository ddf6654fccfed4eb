"""Checks of the objects of a file: numbers that compiled code takes as places in memory.

A crafted file could have any numbers there. Containers of mercer and SciPy are made from checked arrays. Estimators of
scikit-learn are checked when all objects of a file are complete, since a dictionary could be filled after the object
that holds it was made.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.pipeline import Pipeline

from mercer.data import Alphabet, Sequences
from mercer.data.csr import CSRRows, Prepared
from mercer.data.objects import Datum
from mercer.data.ragged import check_offsets
from mercer.kernels import Kernel

SPARSE = {
    f"{form}_{kind}": getattr(sparse, f"{form}_{kind}") for form in ("csr", "csc") for kind in ("array", "matrix")
}
BIT_GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
SGD = "sklearn.linear_model", "Perceptron SGDClassifier SGDRegressor"
NEIGHBORS = "sklearn.neighbors", "KNeighborsClassifier KNeighborsRegressor"
TREES = {"kd_tree": "KDTree", "ball_tree": "BallTree"}


def _classes(module: str, names: str) -> tuple[type, ...]:
    """Return classes, if they have been imported: there are no objects of others, and a server waits for imports."""
    found = (getattr(sys.modules.get(module), name, None) for name in names.split())
    return tuple(kind for kind in found if kind is not None)


def check(made: Any) -> None:
    """Raise if an object hides methods of its class, or if its numbers do not fit together."""
    name = type(made).__name__
    for key in vars(made) if hasattr(made, "__dict__") else ():
        if any(_hides(base, key) for base in type(made).__mro__):
            raise ValueError(f"{key} of {name} would hide that of its class")
    if isinstance(made, BaseEstimator) and not _whole(vars(made).get("n_features_in_", 0)):
        raise ValueError(f"n_features_in_ of {name} is not a number of features")
    for kinds, attribute, sound in _CHECKS:
        if isinstance(made, _classes(*kinds)) and hasattr(made, attribute):
            with suppress(Exception):  # an array of another kind
                if sound(made):
                    continue
            raise ValueError(f"{attribute} of {name} and its other arrays do not fit together")


def _hides(base: type, key: str) -> bool:
    """Whether the attribute would replace what scikit-learn's class has, such as a check, or a method of mercer's."""
    root = base.__module__.partition(".")[0]
    return key in vars(base) and (root == "sklearn" or (root == "mercer" and callable(vars(base)[key])))


def build_tree(made: Any) -> None:
    """Build the search tree of nearest neighbors as scikit-learn does when it fits them."""
    name = TREES.get(getattr(made, "_fit_method", "")) if isinstance(made, _classes(*NEIGHBORS)) else None
    if name is not None:
        (tree,) = _classes("sklearn.neighbors", name)
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


def _is_svm(made: Any) -> bool:
    """Whether the arrays of libsvm have the sizes that it derives from ``_n_support``, and places within the kernel."""
    n, classes, columns = len(made.support_), len(made._n_support), made.shape_fit_[0]
    pairs, classifier = classes * (classes - 1) // 2, isinstance(made, ClassifierMixin)
    counts = made._n_support if classifier else made._n_support[:1]  # libsvm does not read the second one
    dual, vectors, scaling = made._dual_coef_, made.support_vectors_, made._probA.shape
    own = isinstance(made.kernel, Kernel)  # a function of samples
    width = len(made._BaseLibSVM__Xfit) if own else made.n_features_in_
    if own or made.kernel == "precomputed":
        fits = width == columns and vectors.shape[0] == 0 and not made._sparse
    else:
        fits = made.kernel in ("linear", "poly", "rbf", "sigmoid") and vectors.shape == (n, width)
    return bool(
        fits
        and (classes >= 2 if classifier else classes == 2)
        and made.support_.dtype == made._n_support.dtype == np.int32
        and _places(made.support_, columns)
        and _places(counts, n + 1)
        and counts.sum() == n
        and sparse.issparse(vectors) == sparse.issparse(dual) == bool(made._sparse)
        and (dual.shape, dual.size) == ((classes - 1, n), (classes - 1) * n)
        and made._intercept_.shape == (pairs,)
        and scaling == made._probB.shape
        and scaling in ((0,), (pairs if classifier else 1,))
    )


def _is_neighborhood(made: Any) -> bool:
    """Whether the samples are as wide as the data, and the classes of a vote are classes."""
    X, n = made._fit_X, made.n_samples_fit_
    if made._fit_method not in ("brute", *TREES) or X.shape != (n, made.n_features_in_) or len(made._y) != n:
        return False
    if not isinstance(made, ClassifierMixin):
        return True
    labels = made._y if made.outputs_2d_ else made._y[:, None]
    classes = made.classes_ if made.outputs_2d_ else [made.classes_]
    return labels.ndim == 2 and all(_places(y, len(known)) for y, known in zip(labels.T, classes, strict=True))


def _is_one_score_each(made: Any) -> bool:
    """Whether every estimator gives one score per sample: those above zero become rows of a sparse matrix."""
    for part in made.estimators_:
        step = vars(part.steps[-1][1] if isinstance(part, Pipeline) else part)
        coef = step.get("coef_", np.zeros(1))
        alone = all(np.size(step.get(name, 0.0)) == 1 for name in ("intercept_", "_intercept_", "y_"))
        if not alone or not (coef.ndim == 1 or coef.shape[0] == 1):
            return False
    return True


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


_CHECKS: tuple[tuple[tuple[str, str], str, Callable[[Any], bool]], ...] = (
    (("sklearn.feature_extraction.text", "CountVectorizer"), "vocabulary_", _is_vocabulary),
    (SGD, "coef_", _is_sgd),
    (("sklearn.svm", "NuSVC NuSVR OneClassSVM SVC SVR"), "support_", _is_svm),
    (NEIGHBORS, "_fit_method", _is_neighborhood),
    (("sklearn.preprocessing", "OneHotEncoder"), "categories_", _is_encoder),
    (("sklearn.multiclass", "OneVsRestClassifier"), "estimators_", _is_one_score_each),
)
"""Modules and their classes, an attribute that they have when they are fitted, and whether their numbers are sound."""


# -- containers ------------------------------------------------------------------------------------------------


def _sequences(
    values: Any, offsets: Any, alphabet: Any, ids: Any, kept: Any, problems: Any, channels: Any = None
) -> Sequences:
    symbols = alphabet is not None
    if symbols and not isinstance(alphabet, Alphabet):
        raise ValueError("an alphabet of sequences is not an Alphabet")
    check_offsets(offsets, len(values))
    if offsets.dtype != np.int64:
        raise ValueError(f"offsets have dtype {offsets.dtype}, not int64")
    if values.ndim != (1 if symbols else 2) or values.dtype.kind not in ("iu" if symbols else "f"):
        raise ValueError(f"values of sequences have shape {values.shape} and dtype {values.dtype}")
    if symbols and len(values) and not (values.min() >= 0 and values.max() < len(alphabet) + len(alphabet.ambiguous)):
        raise ValueError("sequences have codes outside of their alphabet")
    n = len(offsets) - 1
    if ids is not None and (not isinstance(ids, tuple) or len(ids) != n or not all(isinstance(i, str) for i in ids)):
        raise ValueError(f"the ids of {n} sequences are not {n} strings")
    if kept.dtype != bool or kept.ndim != 1 or not isinstance(problems, dict):
        raise ValueError("the kept sequences are not given by booleans")
    if channels is not None and (not isinstance(channels, tuple) or not all(isinstance(c, str) for c in channels)):
        raise ValueError("the names of channels are not strings")
    made = Sequences._make(values.copy(), offsets.copy(), alphabet, ids, kept.copy(), problems)
    return made.with_channels(channels)


def _prepared(rows: Any) -> Prepared:
    if not isinstance(rows, CSRRows):
        raise ValueError("prepared rows are not sparse rows")
    return Prepared(rows)


def _datum(value: Any) -> Datum:
    if not isinstance(value, str | np.ndarray | Sequences) and not hasattr(value, "digests"):
        raise ValueError(f"an object of mc.objects is {type(value).__name__}")
    return Datum(value)


REBUILT: dict[type, Callable[..., Any]] = {
    Sequences: _sequences,
    Alphabet: lambda symbols, ambiguous, fold_case: Alphabet(symbols, ambiguous=ambiguous, fold_case=fold_case),
    CSRRows: CSRRows.checked,
    Prepared: _prepared,
    Datum: _datum,
}
"""Classes with the function that makes them from the arguments of their ``__reduce__``, after a check."""


def sparse_matrix(name: Any, shape: Any, data: Any, indices: Any, indptr: Any) -> Any:
    """Make a sparse matrix of SciPy, whose loops trust its indices."""
    if not indices.dtype == indptr.dtype in (np.int32, np.int64):
        raise ValueError(f"the indices of a sparse matrix are {indices.dtype} and {indptr.dtype}")
    if not 0 <= indptr[-1] <= len(indices) == len(data):  # SciPy checks nothing if the last number is negative
        raise ValueError("the entries of a sparse matrix are not within its rows")
    made = SPARSE[name]((data, indices, indptr), shape=tuple(shape))
    made.check_format(full_check=True)
    made.indices, made.indptr = indices, indptr  # of the type that they had
    return made


def generator(kind: Any, state: Any) -> Any:
    """Make a random generator of NumPy from its state."""
    name = state["bit_generator"]
    if name not in BIT_GENERATORS or kind not in ("Generator", "RandomState"):
        raise ValueError(f"{kind} with {name} is not a random generator")
    # NumPy takes these positions without a look, and reads there.
    inner, last = (state["state"]["pos"], 624) if name == "MT19937" else (state.get("buffer_pos", 0), 4)
    if type(inner) is not int or not 0 <= inner <= last:
        raise ValueError(f"the state of a random generator has the position {inner}")
    bits = getattr(np.random, name)()
    if kind == "RandomState":
        made = np.random.RandomState(bits)
        made.set_state(state)
        return made
    bits.state = state
    return np.random.Generator(bits)


def plain_state(given: Any) -> Any:
    """Return the state of an object, without compiled parts that are made again.

    These are the search tree of nearest neighbors and the loss of stochastic gradient descent, made by its fit.
    """
    state = given.__getstate__()
    if isinstance(given, _classes(*SGD)):
        return {name: value for name, value in state.items() if name != "_loss_function_"}
    trees = _classes("sklearn.neighbors", " ".join(TREES.values()))
    if isinstance(given, _classes(*NEIGHBORS)) and isinstance(state.get("_tree"), trees):
        return {**state, "_tree": None}
    return state
