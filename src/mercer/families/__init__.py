"""Exponential families: one file each, plural (a batch) and singular (its estimator)."""

from mercer.families._coupling import Coupling, Divergence, Product, Smoothed
from mercer.families._estimator import Context, Estimator, FamilyEstimator
from mercer.families._family import ExponentialFamily, Family
from mercer.families.bernoulli import Bernoulli, Bernoullis
from mercer.families.categorical import Categorical, Categoricals
from mercer.families.gaussian import Gaussians
from mercer.families.gaussian_estimator import Gaussian
from mercer.families.multinomial import Multinomial, Multinomials
from mercer.families.poisson import Poisson, Poissons

__all__ = [
    "Bernoulli",
    "Bernoullis",
    "Categorical",
    "Categoricals",
    "Context",
    "Coupling",
    "Divergence",
    "Estimator",
    "ExponentialFamily",
    "Family",
    "FamilyEstimator",
    "Gaussian",
    "Gaussians",
    "Multinomial",
    "Multinomials",
    "Poisson",
    "Poissons",
    "Product",
    "Smoothed",
]
