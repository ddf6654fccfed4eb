"""Fitted pipelines of every kind, small and quick to fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn import config_context
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.decomposition import PCA, KernelPCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
)
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.impute import SimpleImputer
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import (
    Lasso,
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
    Perceptron,
    Ridge,
    RidgeCV,
    SGDClassifier,
    SGDRegressor,
)
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    RandomizedSearchCV,
    RepeatedKFold,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.multioutput import MultiOutputRegressor
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, MinMaxScaler, OneHotEncoder, StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC, NuSVC, NuSVR, OneClassSVM

import mercer as mc

N = 24
METHODS = ("predict", "predict_proba", "decision_function", "transform")


def data() -> dict[str, Any]:
    """Return inputs and targets, by name."""
    rng = np.random.RandomState(20261116)
    table = rng.normal(size=(N, 3))
    frame = pd.DataFrame(table, columns=list("abc"))
    frame["d"] = ["u", "v"] * (N // 2)
    likely = ([0.4, 0.1, 0.2, 0.3], [0.1, 0.4, 0.3, 0.2])
    dna = ["".join(rng.choice(list("ACGT"), p=likely[i % 2], size=10 + i % 3)) for i in range(N)]
    series = [rng.normal(size=(6 + i % 3, 2)) + 2 * (i % 2) for i in range(N)]
    names = np.array(["up", "down", "same"])[np.arange(N) % 3]
    return {
        "table": table, "frame": frame, "dna": dna, "objects": mc.objects(dna),
        "confounded": mc.Confounded(dna, table[:, 2]), "series": series,
        "rounded": np.round(2 * table), "ones": np.sign(table), "binary": np.arange(N) % 2,
        "outputs": np.stack([np.arange(N) % 2, np.arange(N) // 2 % 2], axis=1), "numbers": table[:, :2] + table[:, 1:],
        "always": np.stack([np.arange(N) % 2, np.ones(N, int)], axis=1),
        "names": names, "number": table[:, 0] * 2 + table[:, 1], "none": None,
    }  # fmt: skip


def split(values: Any) -> tuple[Any, Any]:
    """Return what pipelines are fitted to, and what is new to them."""
    if values is None:
        return None, None
    if hasattr(values, "iloc"):
        return values.iloc[: N - 6], values.iloc[N - 6 :]
    return values[: N - 6], values[N - 6 :]


def cases() -> dict[str, tuple[Any, str, str]]:
    """Return pipelines with the names of their input and target."""
    svc = lambda: SVC(kernel="precomputed")  # noqa: E731
    spectrum = lambda: make_pipeline(mc.Spectrum(2), svc())  # noqa: E731
    columns = (StandardScaler(), ["a", "b"]), (OneHotEncoder(handle_unknown="ignore"), ["d"])
    folds = StratifiedKFold(3, shuffle=True, random_state=np.random.RandomState(0))
    with config_context(enable_metadata_routing=True):
        requesting = Ridge().set_fit_request(sample_weight=True)
    return {
        "svc": (make_pipeline(StandardScaler(), SVC()), "table", "names"),
        "nusvc": (NuSVC(), "table", "binary"),
        "sgd": (SGDClassifier(loss="log_loss", average=True, random_state=0), "table", "names"),
        "perceptron": (Perceptron(random_state=0), "table", "binary"),
        "linearsvc": (LinearSVC(), "table", "names"),
        "oneclass": (OneClassSVM(), "table", "none"),
        "svr": (SVR(), "table", "number"),
        "nusvr": (NuSVR(), "table", "number"),
        "spectrum-svc": (spectrum(), "dna", "names"),
        "spectrum-svr": (make_pipeline(mc.Spectrum(2), SVR(kernel="precomputed")), "dna", "number"),
        "spectrum-ridge": (make_pipeline(mc.Spectrum(2), KernelRidge(kernel="precomputed")), "dna", "number"),
        "kernelpca": (
            make_pipeline(mc.Spectrum(2), KernelPCA(3, kernel="precomputed"), LogisticRegression()), "dna", "names",
        ),
        "fisher-calibrated": (
            make_pipeline(mc.Fisher(mc.MarkovChain()), CalibratedClassifierCV(svc(), cv=3, ensemble=False)),
            "dna", "names",
        ),
        "sigmoid": (CalibratedClassifierCV(spectrum(), cv=3), "dna", "names"),
        "isotonic": (CalibratedClassifierCV(spectrum(), cv=3, method="isotonic"), "dna", "names"),
        "search": (GridSearchCV(spectrum(), {"spectrum__k": [1, 2], "svc__C": [1, 10]}, cv=3), "dna", "binary"),
        "search-scorer": (
            GridSearchCV(spectrum(), {"spectrum__k": [1, 2]}, cv=folds, scoring="balanced_accuracy"), "dna", "names",
        ),
        "search-scorers": (
            GridSearchCV(SVR(), {"C": [1, 10]}, scoring={"a": "r2", "b": "neg_mean_squared_error"}, refit="a"),
            "table", "number",
        ),
        "random-search": (RandomizedSearchCV(SVR(), {"C": [1, 10]}, n_iter=1, random_state=0), "table", "number"),
        "gpc": (GaussianProcessClassifier(1.0 * RBF()), "table", "names"),
        "gpr": (GaussianProcessRegressor(1.0 * RBF() + WhiteKernel()), "table", "number"),
        "gpr-mercer": (GaussianProcessRegressor((1.0 * mc.RBF(gamma=0.5)).as_gp(), alpha=0.1), "table", "number"),
        "gpr-strings": (GaussianProcessRegressor(mc.Spectrum(2).as_gp(), alpha=0.1), "objects", "number"),
        "union": (make_union(StandardScaler(), PCA(2)), "table", "none"),
        "columns": (
            make_pipeline(make_column_transformer(*columns, remainder=MinMaxScaler()), LogisticRegression()),
            "frame", "names",
        ),
        "columns-passthrough": (make_column_transformer(*columns, remainder="passthrough"), "frame", "none"),
        "words": (
            make_pipeline(CountVectorizer(analyzer="char", ngram_range=(1, 2)), TfidfTransformer(), MultinomialNB()),
            "dna", "names",
        ),
        "tfidf": (make_pipeline(TfidfVectorizer(analyzer="char"), Ridge()), "dna", "number"),
        "one-rest": (OneVsRestClassifier(SVC()), "table", "names"),
        "one-one": (OneVsOneClassifier(SVC()), "table", "names"),
        "functions": (
            make_pipeline(FunctionTransformer(np.square), SelectKBest(f_regression, k=2), RidgeCV()),
            "table", "number",
        ),
        "target": (TransformedTargetRegressor(Ridge(), transformer=StandardScaler()), "table", "number"),
        "voting": (VotingClassifier([("a", SVC()), ("b", GaussianNB())]), "table", "names"),
        "stacking": (StackingRegressor([("a", SVR()), ("b", Ridge())]), "table", "number"),
        "bagging": (BaggingRegressor(Ridge(), random_state=0), "table", "number"),
        "neighbors": (KNeighborsClassifier(algorithm="brute"), "table", "names"),
        "neighbors-tree": (KNeighborsClassifier(1), "table", "names"),
        "neighbors-ball": (KNeighborsRegressor(algorithm="ball_tree", p=1, weights="distance"), "table", "number"),
        "imputer-lda": (make_pipeline(SimpleImputer(), LinearDiscriminantAnalysis()), "table", "names"),
        "logistic-cv": (LogisticRegressionCV(Cs=3, cv=3), "table", "binary"),
        "sum": (
            make_pipeline(mc.kernels.Sum([mc.Spectrum(1), mc.kernels.Normalized(mc.Spectrum(3))]), svc()),
            "dna", "binary",
        ),
        "landmarks": (make_pipeline(mc.Landmarks(mc.Spectrum(2), 5), LogisticRegression()), "dna", "binary"),
        "ridge": (make_pipeline(mc.Spectrum(2), mc.KernelRidge()), "dna", "number"),
        "ridge-confounds": (mc.KernelRidge(mc.Spectrum(2)), "confounded", "number"),
        "features": (make_pipeline(mc.Features(mc.Spectrum(2)), RidgeCV()), "dna", "number"),
        "series": (
            make_pipeline(mc.ProbabilityProduct(mc.Gaussian("diagonal")), svc()), "series", "binary",
        ),
        "svc-sparse": (make_pipeline(CountVectorizer(analyzer="char"), SVC()), "dna", "names"),
        "svc-kernel": (SVC(kernel=mc.RBF(gamma=0.5)), "table", "names"),
        "one-hot-rare": (
            make_pipeline(OneHotEncoder(min_frequency=7, handle_unknown="infrequent_if_exist"), Ridge()),
            "rounded", "number",
        ),
        "one-hot-drop": (make_pipeline(OneHotEncoder(drop="first"), Lasso()), "ones", "number"),
        "neighbors-outputs": (KNeighborsClassifier(3), "table", "outputs"),
        "outputs": (MultiOutputRegressor(SVR()), "table", "numbers"),
        "bagging-classes": (BaggingClassifier(SVC(), 2, max_features=2, random_state=0), "table", "names"),
        "stacking-classes": (StackingClassifier([("a", SVC()), ("b", DummyClassifier())], cv=2), "table", "names"),
        "frozen": (FrozenEstimator(Ridge().fit(np.eye(3), [1.0, 2.0, 4.0])), "table", "number"),
        "constant": (make_pipeline(MaxAbsScaler(), DummyRegressor()), "table", "number"),
        "folds": (GridSearchCV(LinearRegression(), {}, cv=KFold(2)), "table", "number"),
        "folds-repeated": (GridSearchCV(Ridge(), {}, cv=RepeatedKFold(n_splits=2, n_repeats=1)), "table", "number"),
        "folds-shuffled": (GridSearchCV(Ridge(), {}, cv=ShuffleSplit(2, random_state=0)), "table", "number"),
        "folds-in-time": (GridSearchCV(Ridge(), {}, cv=TimeSeriesSplit(2)), "table", "number"),
        "sgd-regression": (SGDRegressor(average=True, random_state=0), "table", "number"),
        "labels": (OneVsRestClassifier(LogisticRegression()), "table", "always"),
        "requests": (requesting, "table", "number"),
        "nested": (
            GridSearchCV(make_pipeline(mc.Centered(mc.Spectrum(2)), svc()), {"svc__C": [1.0, 10.0]}, cv=2),
            "dna", "binary",
        ),
    }  # fmt: skip
