"""Factories of contenders: kernels with a support vector machine, and plain baselines."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC

from mercer._array import Floats
from mercer.cli._race import Contender
from mercer.data.alphabet import Alphabet
from mercer.data.lengths import Lengths
from mercer.data.sequences import Sequences
from mercer.kernels.empiricalkernelmap import EmpiricalKernelMap
from mercer.kernels.marginalization import Marginalization
from mercer.kernels.tempered import Tempered
from mercer.models.hmm_estimator import HMM
from mercer.models.pairhmm_affine_estimator import AffinePairHMM

COSTS = (1.0, 10.0, 100.0)


def with_svm(name: str, *steps: Any, **grid: Any) -> Contender:
    """Return a kernel, the last of ``steps``, with a support vector machine.

    Parameters
    ----------
    name : str
        Name of the contender.
    *steps : transformers, then a kernel
        Steps of the pipeline.
    **grid : iterables
        Values of the kernel's parameters; parameters of other steps are prefixed as in ``step__parameter``.
    """
    pipeline = make_pipeline(*steps, SVC(kernel="precomputed"))
    kernel, others = pipeline.steps[-2][0], {step for step, _ in pipeline.steps}
    prefixed = {key if key.split("__")[0] in others else f"{kernel}__{key}": values for key, values in grid.items()}
    return Contender(name, pipeline, {"svc__C": COSTS, **prefixed})


def aligned(alphabet: Alphabet | str) -> Contender:
    """Return a power of a pair HMM kernel; by itself, its Gram matrix is nearly the identity.

    Parameters
    ----------
    alphabet : Alphabet or str
        Proteins are scored by BLOSUM62 if Biopython is installed; other symbols as equal or not.
    """
    if Alphabet.of(alphabet) == Alphabet.of("protein") and find_spec("Bio") is not None:
        pairs = AffinePairHMM("BLOSUM62", gap_open=11, gap_extend=1)
        grid: dict[str, Any] = {"kernel__model__gap_open": (8, 11)}
    else:
        pairs = AffinePairHMM((1, -1), open_probability=0.01, extend_probability=0.5, matrix_scale=0.5)
        pairs.set_params(alphabet=alphabet if isinstance(alphabet, str) else None)
        grid = {"kernel__model__matrix_scale": (0.2, 0.5)}
    return with_svm("Marginalization, pair HMM", Tempered(Marginalization(pairs)), **grid)


def same_path(hmm: HMM) -> Contender:
    """Return the kernel of equal-length strings that share a hidden path, within an empirical map."""
    return with_svm("Marginalization, HMM", EmpiricalKernelMap(Marginalization(hmm)))


def majority() -> Contender:
    """Return a classifier that always predicts the most frequent class."""
    return Contender("majority class", DummyClassifier())


def only_length(name: str) -> Contender:
    """Return a classifier that uses the length only."""
    return Contender(name, make_pipeline(Lengths(), StandardScaler(), LogisticRegression()))


def logistic(name: str, *steps: Any) -> Contender:
    """Return logistic regression on features."""
    estimator = make_pipeline(*steps, LogisticRegression(max_iter=1000))
    return Contender(name, estimator, {"logisticregression__C": (0.1, 1.0, 10.0)})


def linear_svm(name: str, *steps: Any) -> Contender:
    """Return a linear support vector machine on features."""
    return Contender(name, make_pipeline(*steps, SVC(kernel="linear")), {"svc__C": (0.01, 0.1, 1.0, 10.0)})


def rbf_svm(name: str, *steps: Any) -> Contender:
    """Return a support vector machine with a Gaussian kernel on standardized features."""
    estimator = make_pipeline(*steps, StandardScaler(), SVC())
    return Contender(name, estimator, {"svc__C": (1.0, 10.0), "svc__gamma": ("scale", 0.01, 0.1)})


def naive_bayes(name: str, *steps: Any) -> Contender:
    """Return naive Bayes on counts."""
    return Contender(name, make_pipeline(*steps, MultinomialNB()), {"multinomialnb__alpha": (0.01, 0.1, 1.0)})


def means(*, spread: bool = False) -> FunctionTransformer:
    """Return a transformer of sequences of vectors to their means and, with ``spread``, standard deviations."""
    return FunctionTransformer(_means_and_spread if spread else _means)


def moments() -> FunctionTransformer:
    """Return a transformer of sequences of vectors to means and entries of covariances."""
    return FunctionTransformer(_moments)


def shares() -> FunctionTransformer:
    """Return a transformer of sequences of symbols to the relative frequency of every code."""
    return FunctionTransformer(_shares)


def _means(X: Any) -> Floats:
    return np.array([np.mean(points, axis=0) for points in X])


def _means_and_spread(X: Any) -> Floats:
    """Return means and standard deviations of the observed values; 0 if all are missing."""
    X = Sequences(X)
    owner = np.repeat(np.arange(len(X)), X.lengths)
    seen = ~np.isnan(X.values)

    def average(values: Floats) -> Floats:
        total, count = np.zeros((2, len(X), values.shape[1]))
        np.add.at(total, owner, np.where(seen, values, 0.0))
        np.add.at(count, owner, seen)
        return total / np.maximum(count, 1)

    mean = average(X.values)
    return np.hstack([mean, np.sqrt(average((X.values - mean[owner]) ** 2))])


def _moments(X: Any) -> Floats:
    """Return means and entries of the covariances."""
    upper = np.triu_indices(len(X[0][0]))
    return np.array([[*np.mean(points, axis=0), *np.cov(points.T, bias=True)[upper]] for points in X])


def _shares(X: Any) -> Floats:
    X = Sequences(X)
    codes = X.alphabet.n_codes  # ambiguity codes have separate columns
    cells = np.repeat(np.arange(len(X)) * codes, X.lengths) + X.values
    counts = np.bincount(cells, minlength=len(X) * codes).reshape(len(X), codes)
    return counts / np.maximum(X.lengths, 1)[:, None]
