"""Kernels in scikit-learn: pipelines, searches, workers, and every estimator that takes a kernel."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.cluster import SpectralClustering
from sklearn.decomposition import KernelPCA
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold, cross_val_predict, cross_val_score
from sklearn.multiclass import OneVsOneClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import SVC

import mercer as mc

N = 36
LABELS = np.arange(N) % 2
PRODUCT = "probabilityproduct"


def strings():
    rng = np.random.default_rng(0)
    bias = np.array([[0.5, 0.2, 0.2, 0.1], [0.1, 0.2, 0.2, 0.5]])
    return ["".join(rng.choice(list("ACGT"), size=rng.integers(15, 40), p=bias[c])) for c in LABELS]


def ragged():
    rng = np.random.default_rng(0)
    return [rng.normal(c, 1 + c, size=(rng.integers(8, 20), 2)) for c in LABELS]


def counts():
    rng = np.random.default_rng(0)
    rates = np.array([[3.0] * 5 + [1.0] * 5, [1.0] * 5 + [3.0] * 5])
    return sparse.csr_array(rng.poisson(rates[LABELS]).astype(float))


SETS = mc.Gaussian(prior="pooled")
DNA = mc.Categorical(alphabet="dna", prior="pooled")
PLURAL = SETS.fit_each(ragged())

DATA = {
    "strings": (strings(), mc.ProbabilityProduct(DNA), f"{PRODUCT}__model__prior_strength"),
    "sequences": (
        mc.Sequences(strings(), alphabet="dna"),
        mc.ProbabilityProduct(DNA),
        f"{PRODUCT}__model__prior_strength",
    ),
    "ragged arrays": (ragged(), mc.ProbabilityProduct(SETS), f"{PRODUCT}__model__covariance"),
    "3-D array": (
        np.stack([x[:8] for x in ragged()]),
        mc.ProbabilityProduct(SETS),
        f"{PRODUCT}__model__prior_strength",
    ),
    "CSR": (counts(), mc.ProbabilityProduct(mc.Multinomial(prior="pooled")), f"{PRODUCT}__model__prior_strength"),
    "CSR matrix": (
        sparse.csr_matrix(counts()),
        mc.ProbabilityProduct(mc.Multinomial(prior="pooled")),
        f"{PRODUCT}__model__prior_strength",
    ),
    "matrix": (
        counts().toarray(),
        mc.ProbabilityProduct(mc.Poisson(prior="pooled")),
        f"{PRODUCT}__model__prior_strength",
    ),
    "data frame": (
        pd.DataFrame(counts().toarray(), columns=[f"word{i}" for i in range(10)]),
        mc.ProbabilityProduct(mc.Poisson(prior="pooled")),
        f"{PRODUCT}__model__prior_strength",
    ),
    "plural": (PLURAL, mc.ProbabilityProduct(), f"{PRODUCT}__normalize"),
    "wrapped objects": (mc.objects(strings()), mc.ProbabilityProduct(DNA), f"{PRODUCT}__model__prior_strength"),
    "wrapped plural": (mc.objects(ragged()), mc.ProbabilityProduct(SETS), f"{PRODUCT}__model__prior_strength"),
}
VALUES = {"covariance": ["full", "diagonal"], "prior_strength": [0.5, 5.0], "normalize": [True, False]}


def estimator(kernel, **parameters):
    return make_pipeline(kernel, SVC(kernel="precomputed", **parameters))


@pytest.fixture(params=list(DATA))
def case(request):
    return DATA[request.param]


class TestPipelines:
    def test_cross_validation(self, case):
        X, kernel, _ = case
        with warnings.catch_warnings():
            warnings.simplefilter("error", FitFailedWarning)
            scores = cross_val_score(estimator(kernel), X, LABELS, cv=StratifiedKFold(4), error_score="raise")
        assert np.isfinite(scores).all()
        assert scores.mean() > 0.8

    def test_search_over_kernel_model_and_svm(self, case):
        X, kernel, name = case
        grid = {f"{PRODUCT}__rho": [0.5, 1.0], name: VALUES[name.split("__")[-1]], "svc__C": [0.1, 10.0]}
        search = GridSearchCV(estimator(kernel), grid, cv=3, error_score="raise").fit(X, LABELS)
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()
        assert search.best_score_ > 0.8
        assert len(search.predict(X)) == N


@pytest.mark.slow
@pytest.mark.parametrize("name", ["strings", "ragged arrays", "CSR", "plural", "sequences"])
def test_two_workers(name):
    X, kernel, parameter = DATA[name]
    grid = {f"{PRODUCT}__rho": [0.5, 1.0], parameter: VALUES[parameter.split("__")[-1]]}
    one = GridSearchCV(estimator(kernel), grid, cv=3, error_score="raise").fit(X, LABELS)
    two = GridSearchCV(estimator(kernel), grid, cv=3, error_score="raise", n_jobs=2).fit(X, LABELS)
    np.testing.assert_array_equal(one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"])


class TestAlphabets:
    """A symbol that one sequence has, in a fold of its own."""

    X = (*strings()[:-1], "ACGTN" + "T" * 20)

    def test_a_rare_symbol_with_an_alphabet(self):
        scores = cross_val_score(estimator(mc.ProbabilityProduct(DNA)), list(self.X), LABELS, cv=4, error_score="raise")
        assert np.isfinite(scores).all()
        held = mc.Sequences(list(self.X), alphabet="dna")
        kernel = mc.ProbabilityProduct(mc.Categorical(prior="pooled"))
        assert np.isfinite(cross_val_score(estimator(kernel), held, LABELS, cv=4, error_score="raise")).all()

    def test_without_one_the_error_names_the_cure(self):
        kernel = mc.ProbabilityProduct(mc.Categorical(prior="pooled"))
        with pytest.raises(ValueError, match=r"'N'.*alphabet=") as caught:
            cross_val_score(estimator(kernel), list(self.X), LABELS, cv=KFold(4), error_score="raise")
        assert "Sequences" in str(caught.value)

    def test_found_at_once_it_is_shared_by_all_folds(self):
        held = mc.Sequences(list(self.X))
        kernel = mc.ProbabilityProduct(mc.Categorical(prior="pooled"))
        scores = cross_val_score(estimator(kernel), held, LABELS, cv=KFold(4), error_score="raise")
        assert np.isfinite(scores).all()


MATRIX = np.random.default_rng(1).normal(size=(N, 3)) + LABELS[:, None]


class TestOtherEstimators:
    def gram(self):
        return mc.ProbabilityProduct(DNA).fit_transform(strings())

    def test_svc_with_a_callable(self):
        for kernel in (mc.RBF(gamma=0.5), mc.Linear(), mc.RBF(gamma=0.5) + mc.Linear()):
            called = SVC(kernel=kernel).fit(MATRIX, LABELS)
            given = SVC(kernel="precomputed").fit(kernel(MATRIX), LABELS)
            np.testing.assert_allclose(
                called.decision_function(MATRIX), given.decision_function(kernel(MATRIX)), rtol=1e-6, atol=1e-9
            )
            scores = cross_val_score(SVC(kernel=kernel), MATRIX, LABELS, error_score="raise")
            assert np.isfinite(scores).all()

    def test_svc_with_a_fitted_kernel(self):
        kernel = mc.Fisher(mc.Gaussian("diagonal"), on_zero="zero").fit(MATRIX)
        assert SVC(kernel=kernel).fit(MATRIX, LABELS).score(MATRIX, LABELS) > 0.5
        with pytest.raises(NotFittedError, match=r"kernel\.fit\(training_data\)"):
            SVC(kernel=mc.Fisher(mc.Gaussian("diagonal"))).fit(MATRIX, LABELS)

    def test_kernel_pca(self):
        coordinates = make_pipeline(
            mc.ProbabilityProduct(DNA), KernelPCA(n_components=2, kernel="precomputed"), LogisticRegression()
        )
        assert cross_val_score(coordinates, strings(), LABELS, error_score="raise").mean() > 0.8
        a = KernelPCA(n_components=2, kernel="precomputed").fit_transform(mc.RBF(gamma=0.3)(MATRIX))
        b = KernelPCA(n_components=2, kernel="rbf", gamma=0.3).fit_transform(MATRIX)
        np.testing.assert_allclose(np.abs(a), np.abs(b), atol=1e-10)

    def test_kernel_ridge(self):
        ridge = make_pipeline(mc.ProbabilityProduct(DNA), KernelRidge(alpha=0.1, kernel="precomputed"))
        predicted = cross_val_predict(ridge, strings(), LABELS.astype(float), cv=4)
        assert np.mean((predicted > 0.5) == LABELS) > 0.8

    def test_spectral_clustering(self):
        found = SpectralClustering(n_clusters=2, affinity="precomputed", random_state=0).fit_predict(self.gram())
        assert max(np.mean(found == LABELS), np.mean(found != LABELS)) > 0.8

    def test_nearest_neighbours_by_the_distance(self):
        distances = mc.ProbabilityProduct(DNA).distance(strings())
        nearest = KNeighborsClassifier(3, metric="precomputed").fit(distances, LABELS)
        assert nearest.score(distances, LABELS) > 0.8


class TestTransformer:
    def test_other_names_are_refused(self):
        kernel = mc.RBF(gamma=0.5).fit(pd.DataFrame(MATRIX, columns=list("abc")))
        with pytest.raises(ValueError, match="feature names"):
            kernel.transform(pd.DataFrame(MATRIX, columns=list("abd")))
        with pytest.raises(ValueError, match="2 features"):
            mc.RBF().fit(MATRIX).transform(MATRIX[:, :2])

    def test_feature_union(self):
        union = FeatureUnion([("near", mc.RBF(gamma=1.0)), ("cosine", mc.Linear())])
        both = union.fit_transform(MATRIX)
        np.testing.assert_allclose(both, np.hstack([mc.RBF(gamma=1.0)(MATRIX), mc.Linear()(MATRIX)]))
        assert list(union.get_feature_names_out())[:1] == ["near__rbf0"]
        scores = cross_val_score(make_pipeline(union, LogisticRegression()), MATRIX, LABELS, error_score="raise")
        assert np.isfinite(scores).all()

    def test_search_inside_sums_and_wrappers(self):
        kernel = mc.kernels.Normalized(mc.RBF(gamma=1.0) + 0.5 * mc.Linear(normalize=False))
        grid = {"normalized__kernel__k0__gamma": [0.1, 1.0], "normalized__kernel__k1__weight": [0.1, 1.0]}
        search = GridSearchCV(estimator(kernel), grid, error_score="raise").fit(MATRIX, LABELS)
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()

    def test_a_search_may_exchange_the_kernel(self):
        pipeline = Pipeline([("kernel", mc.RBF()), ("svc", SVC(kernel="precomputed"))])
        grid = {"kernel": [mc.RBF(), mc.Linear(), mc.ProbabilityProduct(mc.Gaussian())]}
        search = GridSearchCV(pipeline, grid, error_score="raise").fit(MATRIX, LABELS)
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()

    def test_pipeline_memory(self, tmp_path):
        plain = estimator(mc.ProbabilityProduct(DNA)).fit(strings(), LABELS)
        for _ in range(2):
            stored = Pipeline(plain.steps, memory=str(tmp_path)).fit(strings(), LABELS)
            np.testing.assert_allclose(stored.decision_function(strings()), plain.decision_function(strings()))
        assert len(list(tmp_path.rglob("output.pkl"))) == 1  # the second fit found it


def test_one_vs_one_takes_positions():
    """It validates its input as a matrix of numbers; the pipeline looks the sequences up."""
    strings, y = ["abab", "baba", "aabb", "bbaa", "cccc", "caca"], np.array([0, 0, 1, 1, 2, 2])
    lookup = FunctionTransformer(lambda positions: [strings[int(i)] for i in positions[:, 0]])
    estimator = make_pipeline(lookup, mc.Spectrum(2, alphabet="abc"), SVC(kernel="precomputed", C=10))
    positions = np.arange(6)[:, None]
    assert OneVsOneClassifier(estimator).fit(positions, y).predict(positions).shape == (6,)
