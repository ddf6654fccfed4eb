"""The contenders for data of each kind: trivial baselines, plain features, and kernels."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from mercer._comparison.contenders import ContenderFactory
from mercer._comparison.evaluation import Contender
from mercer.data.baseline_features import Flat, Frequencies, Positions, Summary
from mercer.data.channels import inside
from mercer.data.sequences import Sequences
from mercer.data.standardize import Clock, Resample, Standardize
from mercer.data.transformers import Derivatives
from mercer.families.multinomial import Multinomial
from mercer.kernels.empiricalmeanmap import EmpiricalMeanMap
from mercer.kernels.fisher import Fisher
from mercer.kernels.fisherensemble import FisherEnsemble
from mercer.kernels.jensenshannon import JensenShannon
from mercer.kernels.meanmap import MeanMap
from mercer.kernels.probabilityproduct import ProbabilityProduct
from mercer.kernels.spectrum import Spectrum
from mercer.models.hmm_estimator import HMM
from mercer.models.markov_estimator import MarkovChain

CELLS = 5e9
"""Maximum number of symbol pairs for alignment kernels: about ten seconds on a core for each of two settings."""


def contenders(X: Any, factory: ContenderFactory, seed: int = 0) -> list[Contender]:
    """Return the contenders for these data.

    Parameters
    ----------
    X : Sequences, sparse matrix of counts, or Confounded
        The data.
    factory : ContenderFactory
        ContenderFactory for labels or for numeric targets.
    seed : int
        Seed of the models.
    """
    objects = inside(X)
    if sparse.issparse(objects):
        return factory.trivial() + _on_counts(factory)
    varying = len(set(objects.lengths)) > 1
    lengths = [factory.only_length("length only")] if varying else []
    rest = _on_symbols(objects, factory, seed) if objects.is_symbols else _on_vectors(objects, factory, seed)
    return factory.trivial() + lengths + rest


def can_be_aligned(X: Sequences) -> bool:
    """Whether the strings are few and short enough for alignment kernels."""
    return float(X.lengths.sum()) ** 2 / 2 <= CELLS


def slug(name: str) -> str:
    """Return a contender's name as it is typed on the command line: ``"Fisher, HMM"`` is ``"fisher-hmm"``."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _on_symbols(X: Sequences, factory: ContenderFactory, seed: int) -> list[Contender]:
    assert X.alphabet is not None
    hmm, with_kernel = _hmm(seed), factory.with_kernel
    alignments = [factory.aligned(X.alphabet)] if can_be_aligned(X) else []
    aligned = []
    if len(set(X.lengths)) == 1:
        aligned.append(factory.linear("linear, positions", Positions()))
        alignments.append(factory.same_path(hmm))
    return [
        factory.linear("linear, frequencies", Frequencies(), StandardScaler()),
        *aligned,
        with_kernel("Spectrum", Spectrum(3, on_zero="zero"), k=(2, 3, 4, 5)),
        with_kernel("Fisher, Markov chain", Fisher(MarkovChain(2), on_zero="zero"), model__order=(1, 2)),
        with_kernel("Fisher, HMM", Fisher(hmm)),
        with_kernel("ProbabilityProduct, Markov chain", ProbabilityProduct(MarkovChain(1), length=10), length=(5, 20)),
        with_kernel("ProbabilityProduct, HMM", ProbabilityProduct(hmm, length=10), length=(5, 20)),
        *alignments,
    ]


def _on_vectors(X: Sequences, factory: ContenderFactory, seed: int) -> list[Contender]:
    hmm, with_kernel = _hmm(seed), factory.with_kernel
    steps = Derivatives(), Standardize()
    with_or_without: dict[str, Any] = {"derivatives": (Derivatives(), "passthrough")}
    near = 0.1 / (X.dimension or 1)  # the mean squared distance of standardized vectors is 2 d
    gammas = (near, 10 * near)
    complete = not np.isnan(X.values).any()  # distances of points are not defined if a coordinate is missing
    widths = {"gamma": gammas, **with_or_without}
    neighbor = [] if factory.confounded else [factory.nearest("nearest neighbor", Standardize(), Flat())]
    return [
        factory.linear("linear, summaries", Summary(), StandardScaler()),
        factory.rbf_svm("RBF SVM, summaries", Summary()),
        *neighbor,
        with_kernel("FisherEnsemble", FisherEnsemble(random_state=seed)),
        with_kernel(
            "EmpiricalMeanMap, clock",
            *(*steps, Resample(100), Clock(10.0), EmpiricalMeanMap(gamma=40 * near)),
            svc__C=(10.0, 100.0, 1000.0),
            gamma=(10 * near, 40 * near),
        ),
        with_kernel(
            "ProbabilityProduct, HMM", *steps, ProbabilityProduct(hmm, length=10), length=(5, 20), **with_or_without
        ),
        with_kernel("MeanMap, HMM", *steps, MeanMap(hmm, gamma=near, length=10), **widths),
        with_kernel("Fisher, HMM", *steps, Fisher(hmm), **with_or_without),
        *([with_kernel("EmpiricalMeanMap", *steps, EmpiricalMeanMap(gamma=near), **widths)] if complete else []),
    ]


def _on_counts(factory: ContenderFactory) -> list[Contender]:
    with_kernel = factory.with_kernel
    plain = [] if factory.confounded else [factory.linear("linear", MaxAbsScaler())]
    if not (factory.regression or factory.confounded):
        plain += [factory.naive_bayes("naive Bayes"), factory.linear_svm("linear SVM", MaxAbsScaler())]
    return [
        *plain,
        with_kernel("JensenShannon, inverse", JensenShannon(Multinomial(), form="inverse"), t=(0.1, 1.0, 10.0)),
        with_kernel("ProbabilityProduct", ProbabilityProduct(Multinomial()), rho=(0.5, 1.0)),
    ]


def _hmm(seed: int) -> HMM:
    """Return a small model that is fast to fit, for a first look."""
    return HMM(n_states=3, n_iter=30, n_init=1, random_state=seed)
