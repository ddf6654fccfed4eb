"""Tasks on built-in data, each with kernels that suit it and honest baselines."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import StandardScaler

import mercer as mc
from mercer._comparison.evaluation import Task
from mercer._comparison.recipes import ContenderFactory
from mercer.data.baseline_features import Flat, Means, Moments, Summary
from mercer.datasets import (
    make_documents,
    make_families,
    make_hmm_sequences,
    make_point_sets,
    make_profiles,
)

_for = ContenderFactory()


def series(seed: int) -> Task:
    """Series of two channels, of different lengths and with gaps, whose classes differ in how they move.

    Two of the classes pass through the same states in opposite order, which no statistic of the values tells.
    """
    X, y = make_hmm_sequences(90, length=(30, 60), n_classes=3, n_features=2, certainty=0.7, random_state=seed)
    rng = np.random.default_rng(seed)
    gappy = mc.Sequences([np.where(rng.random(np.shape(x)) < 0.2, np.nan, np.asarray(x)) for x in X])
    hmm = mc.HMM(n_states=3, n_iter=30, n_init=1, random_state=seed)
    return Task(
        "90 series of 2 channels and 30 to 60 steps, a fifth of the values missing, 3 classes",
        gappy,
        y,
        [
            *_for.trivial(),
            _for.only_length("length"),
            _for.linear("linear, summaries", Summary(), StandardScaler()),
            _for.rbf_svm("RBF SVM, summaries", Summary()),
            _for.nearest("nearest neighbor", mc.Standardize(), Flat()),
            _for.with_kernel("Fisher, HMM", mc.Standardize(), mc.Fisher(hmm)),
            _for.series(seed),
        ],
    )


def documents(seed: int) -> Task:
    """Sparse counts of 2000 words in documents of 20 words, half of which copy the word before."""
    X, y = make_documents(200, 2000, length=20, noise=0.5, random_state=seed)
    return Task(
        "200 documents of 20 words from 2 classes, sparse counts of 2000 words",
        X,
        y,
        [
            *_for.trivial(),
            _for.naive_bayes("naive Bayes"),
            _for.linear("logistic regression"),
            _for.linear_svm("linear SVM"),
            _for.with_kernel(
                "JensenShannon, inverse", mc.JensenShannon(mc.Multinomial(), form="inverse"), t=(0.1, 1.0, 10.0)
            ),
            _for.with_kernel("ProbabilityProduct", mc.ProbabilityProduct(mc.Multinomial()), rho=(0.5, 1.0)),
        ],
    )


def point_sets(seed: int) -> Task:
    """Point sets of different sizes whose classes differ only in their covariance."""
    X, y = make_point_sets(90, size=(8, 30), n_classes=3, elongation=3.0, random_state=seed)
    return Task(
        "90 sets of 8 to 30 points in the plane, 3 classes with the same mean",
        mc.Sequences(X),
        y,
        [
            *_for.trivial(),
            _for.only_length("number of points"),
            _for.rbf_svm("RBF SVM on means", Means()),
            _for.linear("logistic regression on moments", Moments(), StandardScaler()),
            _for.with_kernel("ProbabilityProduct", mc.ProbabilityProduct(mc.Gaussian()), rho=(0.5, 1.0)),
            _for.with_kernel("JensenShannon, exp", mc.JensenShannon(mc.Gaussian()), t=(1.0, 2.0, 5.0)),
            _for.with_kernel("MeanMap", mc.MeanMap(mc.Gaussian()), gamma=(0.1, 1.0)),
            _for.with_kernel("EmpiricalMeanMap", mc.EmpiricalMeanMap(), gamma=(0.1, 1.0)),
        ],
    )


def proteins(seed: int) -> Task:
    """Strings that descend from one ancestor per class and have nothing else in common."""
    X, y = make_families(90, length=60, random_state=seed)
    return Task(
        "90 strings of about 60 amino acids, 3 classes that descend from one ancestor each",
        np.array(X, dtype=object),
        y,
        [
            *_for.trivial(),
            _for.only_length("length"),
            _for.linear("logistic regression on letters", _words(1)),
            _for.linear_svm("linear SVM on pairs", _words(2)),
            _for.with_kernel("Spectrum", mc.Spectrum(alphabet="protein"), k=(1, 2, 3)),
            _for.with_kernel("Fisher, Markov chain", mc.Fisher(mc.MarkovChain(alphabet="protein"))),
            _for.aligned("protein"),
        ],
    )


def phylogeny(seed: int) -> Task:
    """Genes that are present or absent in the leaves of a known tree; classes share the history at the ancestors."""
    tree = f"{_balanced(5)[:-3]};"
    profiles = make_profiles(90, tree=tree, n_classes=6, rate=1.0, missing=0.5, random_state=seed)
    model = mc.HiddenTree(tree, n_iter=10)
    shared = mc.Tempered(mc.Marginalization(mc.HiddenTree(tree, pruning=0.05, n_iter=10)))
    filled = SimpleImputer(keep_empty_features=True)
    return Task(
        "structure: 90 genes, present or absent in the 32 leaves of a tree, half of the entries missing, 6 classes",
        profiles.data,
        profiles.target,
        [
            *_for.trivial(),
            _for.linear("logistic regression", filled),
            _for.linear_svm("linear SVM", filled),
            _for.rbf_svm("RBF SVM", filled),
            _for.with_kernel("Marginalization, tree", shared, exponent=(0.1, 0.3)),
            _for.with_kernel("Fisher, tree", mc.Fisher(model, on_zero="zero")),
        ],
    )


def _balanced(depth: int, name: int = 0) -> str:
    """Return a balanced tree in Newick notation, with the length .2 above every node."""
    if depth == 0:
        return f"{name}:.2"
    return f"({_balanced(depth - 1, 2 * name)},{_balanced(depth - 1, 2 * name + 1)}):.2"


def _words(k: int) -> CountVectorizer:
    return CountVectorizer(analyzer="char", lowercase=False, ngram_range=(k, k))


TASKS: dict[str, Callable[[int], Task]] = {
    "series": series,
    "proteins": proteins,
    "documents": documents,
    "phylogeny": phylogeny,
    "point-sets": point_sets,
}
"""Built-in tasks: functions that create the task from a seed."""
SHOWN = ("series", "proteins", "documents", "point-sets")
"""Tasks of the demonstration: less than a minute on two cores."""
