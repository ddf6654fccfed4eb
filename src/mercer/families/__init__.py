"""Exponential families: one file each, plural (a batch) and singular (its estimator)."""

from mercer._coupling import Coupling, Divergence, PowerProduct, Smoothed
from mercer.families.base import ExponentialFamily, Family, FamilyEstimator
from mercer.families.bernoulli import Bernoulli, Bernoullis
from mercer.families.categorical import Categorical, Categoricals
from mercer.families.coordinatewise import Coordinatewise, CoordinatewiseEstimator
from mercer.families.estimator import Context, Estimator
from mercer.families.exponential import Exponential, Exponentials
from mercer.families.gamma import Gamma, Gammas
from mercer.families.gaussian import Gaussians
from mercer.families.gaussian_estimator import Gaussian
from mercer.families.linear_gaussian import LinearNetwork
from mercer.families.multinomial import Multinomial, Multinomials
from mercer.families.poisson import Poisson, Poissons

__all__ = [
    "Bernoulli",
    "Bernoullis",
    "Categorical",
    "Categoricals",
    "Context",
    "Coordinatewise",
    "CoordinatewiseEstimator",
    "Coupling",
    "Divergence",
    "Estimator",
    "Exponential",
    "ExponentialFamily",
    "Exponentials",
    "Family",
    "FamilyEstimator",
    "Gamma",
    "Gammas",
    "Gaussian",
    "Gaussians",
    "LinearNetwork",
    "Multinomial",
    "Multinomials",
    "Poisson",
    "Poissons",
    "PowerProduct",
    "Smoothed",
]
