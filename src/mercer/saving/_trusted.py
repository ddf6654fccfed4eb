"""The types that a file may contain: an explicit list of other libraries' types, and mercer's own classes.

The list is published in docs/saving.md and compared with it by a test. A file names types by the names below, which are
public where possible, so that it does not depend on the private modules of a version.
"""

from __future__ import annotations

import importlib
import re
from typing import Any

import numpy as np

_SKLEARN = {
    "calibration": "CalibratedClassifierCV _CalibratedClassifier _SigmoidCalibration",
    "compose": "ColumnTransformer TransformedTargetRegressor",
    "compose._column_transformer": "_RemainderColsList",
    "decomposition": "KernelPCA PCA",
    "discriminant_analysis": "LinearDiscriminantAnalysis",
    "dummy": "DummyClassifier DummyRegressor",
    "ensemble": "BaggingClassifier BaggingRegressor StackingClassifier StackingRegressor VotingClassifier",
    "feature_extraction.text": "CountVectorizer TfidfTransformer TfidfVectorizer",
    "feature_selection": "SelectKBest",
    "frozen": "FrozenEstimator",
    "gaussian_process": "GaussianProcessClassifier GaussianProcessRegressor",
    "gaussian_process._gpc": "_BinaryGaussianProcessClassifierLaplace",
    "gaussian_process.kernels": "ConstantKernel Product RBF Sum WhiteKernel",
    "impute": "SimpleImputer",
    "isotonic": "IsotonicRegression",
    "kernel_ridge": "KernelRidge",
    "linear_model": """
        Lasso LinearRegression LogisticRegression LogisticRegressionCV Perceptron Ridge RidgeCV SGDClassifier
        SGDRegressor
    """,
    "metrics._scorer": "_MultimetricScorer _PassthroughScorer _Scorer",
    "model_selection": """
        GridSearchCV GroupKFold KFold RandomizedSearchCV RepeatedKFold ShuffleSplit StratifiedGroupKFold
        StratifiedKFold TimeSeriesSplit
    """,
    "multiclass": "OneVsOneClassifier OneVsRestClassifier _ConstantPredictor",
    "multioutput": "MultiOutputRegressor",
    "naive_bayes": "GaussianNB MultinomialNB",
    "neighbors": "KNeighborsClassifier KNeighborsRegressor",
    "pipeline": "FeatureUnion Pipeline",
    "preprocessing": """
        FunctionTransformer KernelCenterer LabelBinarizer LabelEncoder MaxAbsScaler MinMaxScaler OneHotEncoder
        StandardScaler
    """,
    "svm": "LinearSVC NuSVC NuSVR OneClassSVM SVC SVR",
    "utils": "Bunch",
    "utils._metadata_requests": "MetadataRequest MethodMetadataRequest",
}
_FUNCTIONS = {
    "feature_selection": "chi2 f_classif f_regression mutual_info_classif mutual_info_regression r_regression",
    "metrics": """
        accuracy_score average_precision_score balanced_accuracy_score brier_score_loss cohen_kappa_score
        d2_tweedie_score explained_variance_score f1_score fbeta_score jaccard_score log_loss matthews_corrcoef
        max_error
        mean_absolute_error mean_absolute_percentage_error mean_poisson_deviance mean_squared_error
        mean_squared_log_error median_absolute_error precision_score r2_score recall_score roc_auc_score
        root_mean_squared_error root_mean_squared_log_error top_k_accuracy_score
    """,
    "preprocessing": "maxabs_scale minmax_scale normalize robust_scale scale",
}
_NUMPY_FUNCTIONS = "abs absolute cbrt ceil cos exp exp2 expm1 floor log log10 log1p log2 rint sign sin sqrt square tanh"
_NUMPY_TYPES = """
    bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128 str_ object_
"""

TYPES = frozenset(f"sklearn.{module}.{name}" for module, names in _SKLEARN.items() for name in names.split())
"""Classes of scikit-learn that a file may contain."""
FUNCTIONS = frozenset(f"sklearn.{module}.{name}" for module, names in _FUNCTIONS.items() for name in names.split()) | {
    "mercer.embedding._comparison.delta",
    "mercer.kernels.gaussianprocess.search",
    *(f"numpy.{name}" for name in _NUMPY_FUNCTIONS.split()),
}
"""Functions that a file may name: metrics of scorers, scores of feature selection, functions of one array."""
PLAIN_TYPES: dict[str, type] = {f"builtins.{kind.__name__}": kind for kind in (bool, int, float, complex, str, object)}
PLAIN_TYPES |= {f"numpy.{name}": getattr(np, name) for name in _NUMPY_TYPES.split()}
"""Types that a file may name as values of parameters such as ``dtype``."""
ROOMS = ("data", "embedding", "families", "gram", "kernels", "models")
"""Packages of mercer whose classes a file may contain; those of core are ``_batch``, ``_verdict`` and the like."""


def name_of(cls: type, allowed: dict[str, type]) -> str | None:
    """Return the name of a type in a file; None if it is not trusted."""
    own = f"{cls.__module__}.{cls.__qualname__}"
    if allowed.get(own) is cls:
        return own
    root = cls.__module__.partition(".")[0]
    if root == "mercer":
        import mercer

        if mercer._public(cls.__name__) is cls:
            return f"mercer.{cls.__name__}"
        return own if _mercer_type(own) is cls else None
    if root == "sklearn":
        return next((name for name in _ending(TYPES, cls.__name__) if _attribute(name) is cls), None)
    return None


def type_of(name: Any, allowed: dict[str, type]) -> type | None:
    """Return the type of a name in a file, or None; imports nothing but scikit-learn and mercer."""
    if not isinstance(name, str):
        return None
    if name in allowed:
        return allowed[name]
    if name.startswith("mercer."):
        return _mercer_type(name)
    found = _attribute(name) if name in TYPES else None
    return found if isinstance(found, type) else None


def function_name(function: Any) -> str | None:
    """Return the name of a function in a file; None if it is not on the list."""
    name = getattr(function, "__name__", "")
    return next((found for found in _ending(FUNCTIONS, name) if _attribute(found) is function), None)


def function_of(name: Any) -> Any:
    """Return the function of a name in a file, or None."""
    return _attribute(name) if isinstance(name, str) and name in FUNCTIONS else None


def _ending(names: frozenset[str], last: str) -> list[str]:
    return sorted(name for name in names if name.rpartition(".")[2] == last)


def _attribute(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    try:
        return getattr(importlib.import_module(module), attribute, None)
    except ImportError:  # a private module that this version of scikit-learn does not have
        return None


def _mercer_type(name: str) -> type | None:
    """Return a class of mercer, by its public name or by the module that defines it."""
    import mercer

    parts = name.split(".")
    if len(parts) == 2:
        found = mercer._public(parts[1])
    else:
        inside = parts[1] in ROOMS or parts[1].startswith("_")
        if not inside or not re.fullmatch(r"mercer(\.[a-z][a-z0-9_]*|\._[a-z0-9_]+)+\.\w+", name):
            return None
        found = _attribute(name)
        found = found if getattr(found, "__module__", None) == ".".join(parts[:-1]) else None
    return found if isinstance(found, type) and not issubclass(found, BaseException) else None
