"""The contenders for data of each kind: trivial baselines, plain features, and kernels with an estimator."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.naive_bayes import MultinomialNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from sklearn.svm import SVC, SVR

import mercer as mc
from mercer._comparison.evaluation import Contender
from mercer.data.baseline_features import ConfoundsOnly, Flat, Frequencies, Positions, ScaledFeatures, Summary
from mercer.data.channels import inside

COSTS = (1.0, 10.0, 100.0)
CELLS = 5e9
"""Maximum number of symbol pairs for alignment kernels: about ten seconds on a core for each of two settings."""


SITE = 500
"""Maximum length of strings whose positions are compared by a kernel: windows around a site."""


@dataclass(frozen=True)
class ContenderFactory:
    """Makes contenders for labels or for targets, with or without confounds and weights.

    Parameters
    ----------
    regression : bool
        Whether the targets are numbers.
    confounded : bool
        Whether the data come with confounds: they are regressed out of all features and kernels, and of the targets.
    weighted : bool
        Whether the samples have weights.
    """

    regression: bool = False
    confounded: bool = False
    weighted: bool = False

    def series(self, seed: int) -> Contender:
        """Return the ready estimator for time series; with confounds or weights, which it does not take, its kernel."""
        if self.confounded or self.weighted:
            return self.with_kernel("FisherEnsemble", mc.FisherEnsemble(random_state=seed))
        made = mc.SeriesRegressor(random_state=seed) if self.regression else mc.SeriesClassifier(random_state=seed)
        return Contender(type(made).__name__, made)

    def with_kernel(self, name: str, *steps: Any, **grid: Any) -> Contender:
        """Return a kernel, the last of ``steps``, with a support vector machine or kernel ridge regression.

        Parameters
        ----------
        name : str
            Name of the contender.
        *steps : transformers, then a kernel
            Steps of the pipeline.
        **grid : iterables
            Values of the kernel's parameters; parameters of other steps are prefixed as in ``step__parameter``.
        """
        *before, kernel = steps
        costs = {} if self.regression else {"svc__C": COSTS}
        if self.regression:
            grid.pop("svc__C", None)
            # With a kernel of its own, the regression has the confounds of the target, too.
            end = (mc.KernelRidge(kernel),) if self.confounded else (kernel, mc.KernelRidge())
        else:
            end = (mc.Residualized(kernel) if self.confounded else kernel, SVC(kernel="precomputed"))
        pipeline = make_pipeline(*before, *end)
        names = [step for step, _ in pipeline.steps]
        prefix = f"{names[len(before)]}__{'kernel__' if self.confounded else ''}"
        own = {key if key.split("__")[0] in names else prefix + key: values for key, values in grid.items()}
        return Contender(name, pipeline, {**costs, **own})

    def aligned(self, alphabet: mc.data.Alphabet | str) -> Contender:
        """Return a power of a pair HMM kernel; by itself, its Gram matrix is nearly the identity.

        Parameters
        ----------
        alphabet : Alphabet or str
            Proteins are scored by BLOSUM62, other symbols as equal or not.
        """
        if mc.data.Alphabet.of(alphabet) == mc.data.Alphabet.of("protein"):
            pairs = mc.AffinePairHMM("BLOSUM62", gap_open=11, gap_extend=1)
            grid: dict[str, Any] = {"kernel__model__gap_open": (8, 11)}
        else:
            pairs = mc.AffinePairHMM((1, -1), open_probability=0.01, extend_probability=0.5, matrix_scale=0.5)
            pairs.set_params(alphabet=alphabet if isinstance(alphabet, str) else None)
            grid = {"kernel__model__matrix_scale": (0.2, 0.5)}
        return self.with_kernel("Marginalization, pair HMM", mc.Tempered(mc.Marginalization(pairs)), **grid)

    def same_path(self, hmm: mc.HMM) -> Contender:
        """Return the kernel of equal-length strings that share a hidden path, within an empirical map."""
        return self.with_kernel("Marginalization, HMM", mc.EmpiricalKernelMap(mc.Marginalization(hmm)))

    # -- baselines -----------------------------------------------------------------------------------------

    def trivial(self) -> list[Contender]:
        """Return contenders that ignore the data: the most frequent class or the mean, and confounds alone."""
        constant = (
            Contender("mean", DummyRegressor()) if self.regression else Contender("majority class", DummyClassifier())
        )
        if not self.confounded:
            return [constant]
        end = LinearRegression() if self.regression else LogisticRegression(max_iter=1000)
        return [constant, Contender("confounds only", make_pipeline(ConfoundsOnly(), StandardScaler(), end))]

    def only_length(self, name: str) -> Contender:
        """Return a predictor that uses the length only."""
        return self.linear(name, mc.Lengths(), StandardScaler())

    def linear(self, name: str, *steps: Any) -> Contender:
        """Return logistic or ridge regression on features."""
        if self.confounded:
            return self._confounded(name, *steps, mc.Linear(normalize=False))
        if self.regression:
            return Contender(name, make_pipeline(*steps, Ridge()), {"ridge__alpha": (0.01, 1.0, 100.0)})
        estimator = make_pipeline(*steps, LogisticRegression(max_iter=1000))
        return Contender(name, estimator, {"logisticregression__C": (0.1, 1.0, 10.0)})

    def linear_svm(self, name: str, *steps: Any) -> Contender:
        """Return a linear support vector machine on features."""
        return Contender(name, make_pipeline(*steps, SVC(kernel="linear")), {"svc__C": (0.01, 0.1, 1.0, 10.0)})

    def rbf_svm(self, name: str, *steps: Any) -> Contender:
        """Return a support vector machine with a Gaussian kernel on standardized features."""
        if self.confounded:
            return self._confounded(name, *steps, mc.RBF(), gamma=(0.01, 0.1))
        svm = SVR() if self.regression else SVC()
        estimator = make_pipeline(*steps, StandardScaler(), svm)
        key = estimator.steps[-1][0]
        return Contender(name, estimator, {f"{key}__C": (1.0, 10.0), f"{key}__gamma": ("scale", 0.01, 0.1)})

    def nearest(self, name: str, *steps: Any) -> Contender:
        """Return the nearest neighbor by the Euclidean distance of features; for targets, the mean of a few."""
        if self.regression:
            estimator: Pipeline = make_pipeline(*steps, KNeighborsRegressor())
            return Contender(name, estimator, {"kneighborsregressor__n_neighbors": (1, 3, 10)})
        return Contender(name, make_pipeline(*steps, KNeighborsClassifier(1)))

    def naive_bayes(self, name: str, *steps: Any) -> Contender:
        """Return naive Bayes on counts."""
        return Contender(name, make_pipeline(*steps, MultinomialNB()), {"multinomialnb__alpha": (0.01, 0.1, 1.0)})

    def _confounded(self, name: str, *steps: Any, **grid: Any) -> Contender:
        """Return a plain kernel, the last of ``steps``, of features whose confounds are regressed out."""
        *features, kernel = steps
        before = [step for step in features if not isinstance(step, StandardScaler)]  # it does not know of confounds
        made = self.with_kernel(name, *before, ScaledFeatures(), kernel, **grid)
        return Contender(f"{name}, deconfounded", made.estimator, made.grid, is_baseline=True)


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


def can_be_aligned(X: mc.Sequences) -> bool:
    """Whether the strings are few and short enough for alignment kernels."""
    return float(X.lengths.sum()) ** 2 / 2 <= CELLS


def slug(name: str) -> str:
    """Return a contender's name as it is typed on the command line: ``"Fisher, HMM"`` is ``"fisher-hmm"``."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _on_symbols(X: mc.Sequences, factory: ContenderFactory, seed: int) -> list[Contender]:
    assert X.alphabet is not None
    hmm, with_kernel = _hmm(seed), factory.with_kernel
    alignments = [factory.aligned(X.alphabet)] if can_be_aligned(X) else []
    aligned, at_site = [], []
    if len(set(X.lengths)) == 1:
        aligned.append(factory.linear("linear, positions", Positions()))
        if X.lengths[0] <= SITE:
            oligo = mc.kernels.Oligo(3, on_zero="zero")
            at_site.append(with_kernel("Oligo", oligo, k=(2, 3, 4), sigma=(0.5, 1.0, 2.0)))
        alignments.append(factory.same_path(hmm))
    return [
        factory.linear("linear, frequencies", Frequencies(), StandardScaler()),
        *aligned,
        with_kernel("Spectrum", mc.Spectrum(3, on_zero="zero"), k=(2, 3, 4, 5)),
        *at_site,
        with_kernel("Fisher, Markov chain", mc.Fisher(mc.MarkovChain(2), on_zero="zero"), model__order=(1, 2)),
        with_kernel("Fisher, HMM", mc.Fisher(hmm)),
        with_kernel(
            "ProbabilityProduct, Markov chain", mc.ProbabilityProduct(mc.MarkovChain(1), length=10), length=(5, 20)
        ),
        with_kernel("ProbabilityProduct, HMM", mc.ProbabilityProduct(hmm, length=10), length=(5, 20)),
        *alignments,
    ]


def _on_vectors(X: mc.Sequences, factory: ContenderFactory, seed: int) -> list[Contender]:
    hmm, with_kernel = _hmm(seed), factory.with_kernel
    steps = mc.Derivatives(), mc.Standardize()
    with_or_without: dict[str, Any] = {"derivatives": (mc.Derivatives(), "passthrough")}
    near = 0.1 / (X.dimension or 1)  # the mean squared distance of standardized vectors is 2 d
    gammas = (near, 10 * near)
    complete = not np.isnan(X.values).any()  # distances of points are not defined if a coordinate is missing
    widths = {"gamma": gammas, **with_or_without}
    neighbor = [] if factory.confounded else [factory.nearest("nearest neighbor", mc.Standardize(), Flat())]
    return [
        factory.linear("linear, summaries", Summary(), StandardScaler()),
        factory.rbf_svm("RBF SVM, summaries", Summary()),
        *neighbor,
        factory.series(seed),
        with_kernel(
            "EmpiricalMeanMap, clock",
            *(*steps, mc.data.Resample(100), mc.data.Clock(10.0), mc.EmpiricalMeanMap(gamma=40 * near)),
            svc__C=(10.0, 100.0, 1000.0),
            gamma=(10 * near, 40 * near),
        ),
        with_kernel(
            "ProbabilityProduct, HMM", *steps, mc.ProbabilityProduct(hmm, length=10), length=(5, 20), **with_or_without
        ),
        with_kernel("MeanMap, HMM", *steps, mc.MeanMap(hmm, gamma=near, length=10), **widths),
        with_kernel("Fisher, HMM", *steps, mc.Fisher(hmm), **with_or_without),
        *([with_kernel("EmpiricalMeanMap", *steps, mc.EmpiricalMeanMap(gamma=near), **widths)] if complete else []),
    ]


def _on_counts(factory: ContenderFactory) -> list[Contender]:
    with_kernel = factory.with_kernel
    plain = [] if factory.confounded else [factory.linear("linear", MaxAbsScaler())]
    if not (factory.regression or factory.confounded):
        plain += [factory.naive_bayes("naive Bayes"), factory.linear_svm("linear SVM", MaxAbsScaler())]
    return [
        *plain,
        with_kernel("JensenShannon, inverse", mc.JensenShannon(mc.Multinomial(), form="inverse"), t=(0.1, 1.0, 10.0)),
        with_kernel("ProbabilityProduct", mc.ProbabilityProduct(mc.Multinomial()), rho=(0.5, 1.0)),
    ]


def _hmm(seed: int) -> mc.HMM:
    """Return a small model that is fast to fit, for a first look."""
    return mc.HMM(n_states=3, n_iter=30, n_init=1, random_state=seed)
