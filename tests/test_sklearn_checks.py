"""scikit-learn's own checks, for every estimator whose input is a matrix, and for some whose input is series."""

from __future__ import annotations

from pathlib import Path

import pytest
import sklearn
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks
from sklearn.utils.fixes import parse_version

import mercer as mc

ONE_OF_A_KIND = [
    mc.Gaussian(),
    mc.Multinomial(),
    mc.Poisson(),
    mc.Mixture(mc.Gaussian("diagonal")),
    mc.KDE(),
    mc.ProbabilityProduct(mc.Gaussian()),
    mc.EmpiricalMeanMap(n_components=20),
    mc.MeanMap(mc.Gaussian("diagonal")),
    mc.JensenShannon(mc.Gaussian("diagonal")),
    mc.Fisher(mc.Gaussian("diagonal")),
    mc.RBF(),
    mc.Laplace(),
    mc.RBF() + mc.Linear(on_zero="zero"),
    mc.kernels.Normalized(mc.RBF() + mc.Linear(normalize=False)),
    mc.kernels.LogOdds(mc.RBF(), on_zero="zero"),
    mc.KernelRidge(),
]
OTHERS = [
    mc.Gaussian("diagonal"),
    mc.Gaussian("isotropic"),
    mc.Bernoulli(threshold=0.0),
    mc.families.Exponential(),
    mc.families.Gamma(smallest=0.01),
    mc.MeanMap(mc.KDE()),
    mc.JensenShannon(mc.Multinomial(prior="pooled"), form="inverse"),
    mc.Marginalization(mc.Mixture(mc.Gaussian("diagonal"))),
    mc.Heat(mc.Multinomial(prior="pooled")),
    mc.SymmetricKL(mc.Gaussian("diagonal")),
    mc.TOP(mc.Gaussian("diagonal")),
    mc.LatentMeanMap(mc.Mixture(mc.Gaussian("diagonal"))),
    mc.Linear(on_zero="zero"),
    mc.RBF() * mc.ProbabilityProduct(mc.Gaussian()),
    0.5 * mc.RBF(),
    mc.Tempered(mc.RBF()),
    mc.kernels.Gaussianized(mc.Linear(normalize=False)),
    mc.Centered(mc.RBF()),
    mc.EmpiricalKernelMap(mc.RBF(), on_zero="zero"),
    mc.kernels.Repaired(mc.RBF()),
    mc.LikelihoodRatio(mc.Gaussian("diagonal")),
    mc.KernelRidge(mc.RBF(), alpha=1.0),  # leave-one-out of a repeated sample is not that of one of weight 2
    mc.KernelRidge(mc.RBF(), alpha=1.0, intercept=False),
    mc.Landmarks(mc.RBF(), 10),
    mc.GaussianProcess(mc.RBF()),
    mc.kernels.GaussianProcessClassifier(mc.RBF()),
]

EXPECTED_FAILURES: dict[str, dict[str, str]] = {}
"""By class: checks that cannot pass, each with the reason."""


def expected_failures(estimator) -> dict[str, str]:
    return EXPECTED_FAILURES.get(type(estimator).__name__, {})


@parametrize_with_checks(ONE_OF_A_KIND, expected_failed_checks=expected_failures)
def test_scikit_learn_check(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(OTHERS, expected_failed_checks=expected_failures)
def test_scikit_learn_check_of_the_others(estimator, check):
    check(estimator)


OF_SERIES = [
    mc.HMM(2, n_iter=3),
    mc.LDS(1, n_iter=3),
    mc.Fisher(mc.HMM(2, n_iter=3)),
    mc.FisherEnsemble(n_states=(2,), n_iter=2),
    mc.SeriesClassifier("fast"),
    mc.SeriesRegressor("fast"),
    mc.Standardize(),
    mc.Derivatives(),
]
LENGTHS = "a 2-D array is series of one channel: `n_features_in_` is 1, and series of any length are accepted"
SPARSE = "a sparse matrix is refused, but not in the words of the check"
NUMBERS = "complex numbers and objects are refused, but not in the words of the check"
SYMBOLS = "integers are symbols, and a transformer of vectors refuses them"
SEQUENCES = "the result is `Sequences`, not an array"
FAILURES = {
    LENGTHS: (
        "n_features_in n_features_in_after_fitting fit2d_predict1d estimators_empty_data_messages classifiers_train "
        "transformer_general"
    ),
    SPARSE: "estimator_sparse_tag estimator_sparse_array estimator_sparse_matrix",
    NUMBERS: "complex_data dtype_object",
    SYMBOLS: "estimators_dtypes",
    SEQUENCES: (
        "estimators_pickle fit_idempotent methods_sample_order_invariance methods_subset_invariance "
        "pipeline_consistency transformer_data_not_an_array transformer_preserve_dtypes"
    ),
}
"""Checks that cannot pass for series, by their reason, without the prefix ``check_``."""


def failed(estimator) -> set[str]:
    results = check_estimator(estimator, on_fail=None, on_skip=None)
    return {result["check_name"].removeprefix("check_") for result in results if result["status"] == "failed"}


def table(found: dict[str, set[str]]) -> str:
    """Return the table of the page: reasons, checks, and the estimators for which one of them fails."""
    lines = ["| reason | checks that fail, `check_...` | of |", "|---|---|---|"]
    for reason, names in FAILURES.items():
        of = [f"`{name}`" for name, checks in found.items() if checks & set(names.split())]
        lines.append(f"| {reason} | {', '.join(f'`{name}`' for name in names.split())} | {', '.join(of)} |")
    return "\n".join(lines)


@pytest.mark.slow
def test_what_fails_for_series_is_on_the_page():
    found = {type(estimator).__name__: failed(estimator) for estimator in OF_SERIES}
    known = {name for names in FAILURES.values() for name in names.split()}
    assert set().union(*found.values()) <= known
    if parse_version(sklearn.__version__) >= parse_version("1.9"):  # earlier versions have fewer checks
        page = (Path(__file__).parents[1] / "docs" / "faq.md").read_text(encoding="utf-8")
        assert table(found) in page, f"docs/faq.md must have this table:\n{table(found)}"
