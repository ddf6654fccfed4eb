"""scikit-learn's own checks, for every estimator whose input is a matrix."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

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
