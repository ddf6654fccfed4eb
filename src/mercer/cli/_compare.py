"""Tasks on built-in data and their contenders."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.datasets import load_digits, load_wine
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import StandardScaler

import mercer as mc
from mercer.cli._contenders import (
    aligned,
    linear_svm,
    logistic,
    majority,
    means,
    moments,
    naive_bayes,
    only_length,
    rbf_svm,
    with_svm,
)
from mercer.cli._race import Contender, Task
from mercer.datasets import make_dna, make_documents, make_families, make_point_sets


def documents(seed: int) -> Task:
    """Sparse counts of 2000 words in documents of 20 words, half of which copy the word before."""
    X, y = make_documents(200, 2000, length=20, noise=0.5, random_state=seed)
    return Task(
        "200 documents of 20 words from 2 classes, sparse counts of 2000 words",
        X,
        y,
        [
            majority(),
            naive_bayes("naive Bayes"),
            logistic("logistic regression"),
            linear_svm("linear SVM"),
            with_svm("JensenShannon, inverse", mc.JensenShannon(mc.Multinomial(), form="inverse"), t=(0.1, 1.0, 10.0)),
            with_svm("ProbabilityProduct", mc.ProbabilityProduct(mc.Multinomial()), rho=(0.5, 1.0)),
        ],
    )


def digits(seed: int) -> Task:
    """Images, with pixel intensities read as counts."""
    data = load_digits()
    chosen = np.random.default_rng(seed).permutation(len(data.target))[:400]
    return Task(
        "400 of scikit-learn's digits, 8 x 8 pixels read as counts, 10 classes",
        data.data[chosen],
        data.target[chosen],
        [
            majority(),
            naive_bayes("naive Bayes"),
            logistic("logistic regression", StandardScaler()),
            linear_svm("linear SVM", StandardScaler()),
            rbf_svm("RBF SVM"),
            with_svm("JensenShannon, exp", mc.JensenShannon(mc.Multinomial()), t=(1.0, 5.0, 20.0)),
            with_svm("ProbabilityProduct", mc.ProbabilityProduct(mc.Multinomial()), rho=(0.5, 1.0)),
        ],
    )


def vectors(seed: int) -> Task:
    """Plain vectors, where a model sees a single point per sample."""
    data = load_wine()
    diagonal, pooled = mc.Gaussian("diagonal"), mc.Gaussian("diagonal", prior="pooled")
    return Task(
        "scikit-learn's wine, 178 vectors of 13 measurements, 3 classes",
        data.data,
        data.target,
        [
            majority(),
            Contender("naive Bayes", GaussianNB()),
            logistic("logistic regression", StandardScaler()),
            linear_svm("linear SVM", StandardScaler()),
            rbf_svm("RBF SVM"),
            with_svm("Fisher", mc.Fisher(diagonal), information=("identity", "diagonal", "exact")),
            with_svm("JensenShannon, exp", mc.JensenShannon(pooled), t=(0.1, 1.0, 10.0)),
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
            majority(),
            only_length("number of points"),
            rbf_svm("RBF SVM on means", means()),
            logistic("logistic regression on moments", moments(), StandardScaler()),
            with_svm("ProbabilityProduct", mc.ProbabilityProduct(mc.Gaussian()), rho=(0.5, 1.0)),
            with_svm("JensenShannon, exp", mc.JensenShannon(mc.Gaussian()), t=(1.0, 2.0, 5.0)),
            with_svm("MeanMap", mc.MeanMap(mc.Gaussian()), gamma=(0.1, 1.0)),
            with_svm("EmpiricalMeanMap", mc.EmpiricalMeanMap(), gamma=(0.1, 1.0)),
        ],
    )


def dna(seed: int) -> Task:
    """Strings of different lengths, with one Markov chain per class."""
    X, y = make_dna(150, n_classes=3, concentration=5.0, random_state=seed)
    pairs = CountVectorizer(analyzer="char", lowercase=False, ngram_range=(2, 2))
    letters = CountVectorizer(analyzer="char", lowercase=False)
    return Task(
        "150 strings of 30 to 90 letters, 3 classes of Markov chains",
        np.array(X, dtype=object),
        y,
        [
            majority(),
            only_length("length"),
            logistic("logistic regression on letters", letters),
            naive_bayes("naive Bayes on pairs", pairs),
            linear_svm("linear SVM on pairs", pairs),
            with_svm("EmpiricalMeanMap, pairs", mc.EmpiricalMeanMap(order=1, alphabet="dna"), gamma=(0.1, 1.0)),
            with_svm(
                "JensenShannon on pairs",
                pairs,
                mc.JensenShannon(mc.Multinomial(), form="inverse"),
                t=(0.1, 1.0, 10.0),
            ),
            aligned("dna"),
        ],
    )


def proteins(seed: int) -> Task:
    """Strings that descend from one ancestor per class and have nothing else in common."""
    X, y = make_families(90, length=60, random_state=seed)
    pairs = CountVectorizer(analyzer="char", lowercase=False, ngram_range=(2, 2))
    letters = CountVectorizer(analyzer="char", lowercase=False)
    return Task(
        "90 strings of about 60 amino acids, 3 classes that descend from one ancestor each",
        np.array(X, dtype=object),
        y,
        [
            majority(),
            only_length("length"),
            logistic("logistic regression on letters", letters),
            linear_svm("linear SVM on pairs", pairs),
            with_svm("Spectrum", mc.Spectrum(alphabet="protein"), k=(1, 2, 3)),
            with_svm("Fisher, Markov chain", mc.Fisher(mc.MarkovChain(alphabet="protein"))),
            aligned("protein"),
        ],
    )


TASKS: dict[str, Callable[[int], Task]] = {
    "documents": documents,
    "digits": digits,
    "vectors": vectors,
    "point-sets": point_sets,
    "dna": dna,
    "proteins": proteins,
}
"""Built-in tasks: functions that create the task from a seed."""
