"""The race of kernels and plain baselines on built-in data: what runs, without how it is printed."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.datasets import load_digits, load_wine
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

import mercer as mc
from mercer.datasets import make_dna, make_documents, make_point_sets
from mercer.kernels import Kernel

Floats = np.ndarray[Any, Any]
INNER_FOLDS = 3
COSTS = (1.0, 10.0, 100.0)


@dataclass(frozen=True)
class Contender:
    """A classifier and the grid from which its parameters are chosen inside the training data."""

    name: str
    estimator: Any
    grid: dict[str, Any] = field(default_factory=dict)

    @property
    def kernel(self) -> Kernel | None:
        """The mercer kernel in it, None for a baseline."""
        steps = self.estimator.steps if isinstance(self.estimator, Pipeline) else []
        return next((step for _, step in steps if isinstance(step, Kernel)), None)


@dataclass(frozen=True)
class Task:
    """Labelled data, and who races on them."""

    about: str
    X: Any
    y: Any
    contenders: list[Contender]


@dataclass(frozen=True)
class Outcome:
    """What a contender reached on a task."""

    task: str
    method: str
    is_kernel: bool
    accuracy: float
    sd: float
    seconds: float


def race(name: str, task: Task, contender: Contender, folds: int, seed: int) -> Outcome:
    """Cross-validate a contender; all of its parameters are chosen inside the training folds.

    Parameters
    ----------
    name : str
        Of the task.
    task : Task
        The data.
    contender : Contender
        Who races.
    folds : int
        Outer folds.
    seed : int
        Of the shuffled folds.
    """
    inner = StratifiedKFold(INNER_FOLDS, shuffle=True, random_state=seed)
    search = GridSearchCV(contender.estimator, contender.grid, cv=inner, error_score="raise")
    outer = StratifiedKFold(folds, shuffle=True, random_state=seed)
    start = time.perf_counter()
    # Problems this small are slower on several BLAS threads, much slower on a busy machine.
    with warnings.catch_warnings(), mc.config(progress=False), threadpool_limits(1):
        warnings.simplefilter("ignore", ConvergenceWarning)
        scores = cross_val_score(search, task.X, task.y, cv=outer, error_score="raise")
    seconds = time.perf_counter() - start
    is_kernel = contender.kernel is not None
    return Outcome(name, contender.name, is_kernel, float(scores.mean()), float(scores.std()), seconds)


def winners(outcomes: list[Outcome]) -> set[tuple[str, str]]:
    """Return (task, method) of the highest accuracy of every task, all of them where several are equal."""
    top: dict[str, float] = {}
    for o in outcomes:
        top[o.task] = max(top.get(o.task, 0.0), o.accuracy)
    return {(o.task, o.method) for o in outcomes if o.accuracy >= top[o.task] - 1e-12}


def snippet(contender: Contender) -> str:
    """Return three lines that use a contender's kernel on the reader's own data."""
    steps, needs = [], ""
    for _, step in contender.estimator.steps[:-1]:
        text = re.sub(r"\s+", " ", repr(step))
        if isinstance(step, Kernel):
            steps.append(re.sub(r"\b([A-Z]\w*)\(", r"mc.\1(", text))
        else:
            steps.append(text)
            needs = f"; from sklearn.feature_extraction.text import {type(step).__name__}"
    return (
        f"import mercer as mc; from sklearn.pipeline import make_pipeline; from sklearn.svm import SVC{needs}\n"
        f"classifier = make_pipeline({', '.join(steps)}, SVC(kernel='precomputed', C=10))\n"
        "classifier.fit(X, y)"
    )


# -- the contenders ------------------------------------------------------------------------------------------


def _with_svm(name: str, *steps: Any, **grid: Any) -> Contender:
    """Return a kernel, the last of ``steps``, with a support vector machine."""
    prefix = type(steps[-1]).__name__.lower()
    named = {f"{prefix}__{key}": values for key, values in grid.items()}
    return Contender(name, make_pipeline(*steps, SVC(kernel="precomputed")), {"svc__C": COSTS, **named})


def _majority() -> Contender:
    return Contender("majority class", DummyClassifier())


def _only_length(name: str) -> Contender:
    steps = FunctionTransformer(_lengths), StandardScaler(), LogisticRegression()
    return Contender(name, make_pipeline(*steps))


def _logistic(name: str, *steps: Any) -> Contender:
    estimator = make_pipeline(*steps, LogisticRegression(max_iter=1000))
    return Contender(name, estimator, {"logisticregression__C": (0.1, 1.0, 10.0)})


def _linear_svm(name: str, *steps: Any) -> Contender:
    return Contender(name, make_pipeline(*steps, SVC(kernel="linear")), {"svc__C": (0.01, 0.1, 1.0, 10.0)})


def _rbf_svm(name: str, *steps: Any) -> Contender:
    estimator = make_pipeline(*steps, StandardScaler(), SVC())
    return Contender(name, estimator, {"svc__C": (1.0, 10.0), "svc__gamma": ("scale", 0.01, 0.1)})


def _naive_bayes(name: str, *steps: Any) -> Contender:
    return Contender(name, make_pipeline(*steps, MultinomialNB()), {"multinomialnb__alpha": (0.01, 0.1, 1.0)})


def _lengths(X: Any) -> Floats:
    return np.array([[len(datum)] for datum in X], dtype=float)


def _means(X: Any) -> Floats:
    return np.array([np.mean(points, axis=0) for points in X])


def _moments(X: Any) -> Floats:
    """Means and entries of the covariances."""
    upper = np.triu_indices(len(X[0][0]))
    return np.array([[*np.mean(points, axis=0), *np.cov(points.T, bias=True)[upper]] for points in X])


# -- the tasks -----------------------------------------------------------------------------------------------


def documents(seed: int) -> Task:
    """Sparse word counts: the paper's 2000 words and 20 draws, half of which copy the one before."""
    X, y = make_documents(200, 2000, length=20, noise=0.5, random_state=seed)
    return Task(
        "200 documents of 20 words from 2 classes, sparse counts of 2000 words",
        X,
        y,
        [
            _majority(),
            _naive_bayes("naive Bayes"),
            _logistic("logistic regression"),
            _linear_svm("linear SVM"),
            _with_svm("JensenShannon, inverse", mc.JensenShannon(mc.Multinomial(), form="inverse"), t=(0.1, 1.0, 10.0)),
            _with_svm("ProbabilityProduct", mc.ProbabilityProduct(mc.Multinomial()), rho=(0.5, 1.0)),
        ],
    )


def digits(seed: int) -> Task:
    """Images as counts of ink per pixel."""
    data = load_digits()
    some = np.random.default_rng(seed).permutation(len(data.target))[:400]
    return Task(
        "400 of scikit-learn's digits, 8 x 8 pixels read as counts, 10 classes",
        data.data[some],
        data.target[some],
        [
            _majority(),
            _naive_bayes("naive Bayes"),
            _logistic("logistic regression", StandardScaler()),
            _linear_svm("linear SVM", StandardScaler()),
            _rbf_svm("RBF SVM"),
            _with_svm("JensenShannon, exp", mc.JensenShannon(mc.Multinomial()), t=(1.0, 5.0, 20.0)),
            _with_svm("ProbabilityProduct", mc.ProbabilityProduct(mc.Multinomial()), rho=(0.5, 1.0)),
        ],
    )


def vectors(seed: int) -> Task:
    """Plain vectors, where one point is all that a model sees of a datum."""
    data = load_wine()
    diagonal, pooled = mc.Gaussian("diagonal"), mc.Gaussian("diagonal", prior="pooled")
    return Task(
        "scikit-learn's wine, 178 vectors of 13 measurements, 3 classes",
        data.data,
        data.target,
        [
            _majority(),
            Contender("naive Bayes", GaussianNB()),
            _logistic("logistic regression", StandardScaler()),
            _linear_svm("linear SVM", StandardScaler()),
            _rbf_svm("RBF SVM"),
            _with_svm("Fisher", mc.Fisher(diagonal), information=("identity", "diagonal", "exact")),
            _with_svm("JensenShannon, exp", mc.JensenShannon(pooled), t=(0.1, 1.0, 10.0)),
        ],
    )


def point_sets(seed: int) -> Task:
    """Point sets of different size that differ in their covariance alone."""
    X, y = make_point_sets(90, size=(8, 30), n_classes=3, elongation=3.0, random_state=seed)
    return Task(
        "90 sets of 8 to 30 points in the plane, 3 classes with the same mean",
        mc.Sequences(X),
        y,
        [
            _majority(),
            _only_length("number of points"),
            _rbf_svm("RBF SVM on means", FunctionTransformer(_means)),
            _logistic("logistic regression on moments", FunctionTransformer(_moments), StandardScaler()),
            _with_svm("ProbabilityProduct", mc.ProbabilityProduct(mc.Gaussian()), rho=(0.5, 1.0)),
            _with_svm("JensenShannon, exp", mc.JensenShannon(mc.Gaussian()), t=(1.0, 2.0, 5.0)),
            _with_svm("MeanMap", mc.MeanMap(mc.Gaussian()), gamma=(0.1, 1.0)),
            _with_svm("EmpiricalMeanMap", mc.EmpiricalMeanMap(), gamma=(0.1, 1.0)),
        ],
    )


def dna(seed: int) -> Task:
    """Strings of different length, one Markov chain a class."""
    X, y = make_dna(150, n_classes=3, concentration=5.0, random_state=seed)
    pairs = CountVectorizer(analyzer="char", lowercase=False, ngram_range=(2, 2))
    letters = CountVectorizer(analyzer="char", lowercase=False)
    return Task(
        "150 strings of 30 to 90 letters, 3 classes of Markov chains",
        np.array(X, dtype=object),
        y,
        [
            _majority(),
            _only_length("length"),
            _logistic("logistic regression on letters", letters),
            _naive_bayes("naive Bayes on pairs", pairs),
            _linear_svm("linear SVM on pairs", pairs),
            _with_svm("EmpiricalMeanMap, pairs", mc.EmpiricalMeanMap(order=1, alphabet="dna"), gamma=(0.1, 1.0)),
            _with_svm(
                "JensenShannon on pairs",
                pairs,
                mc.JensenShannon(mc.Multinomial(), form="inverse"),
                t=(0.1, 1.0, 10.0),
            ),
        ],
    )


TASKS: dict[str, Callable[[int], Task]] = {
    "documents": documents,
    "digits": digits,
    "vectors": vectors,
    "point-sets": point_sets,
    "dna": dna,
}
"""What can be raced on: a maker of the task from a seed."""
