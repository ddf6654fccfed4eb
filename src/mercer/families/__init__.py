"""Exponential families: one file each, plural (a batch) and singular (its estimator)."""

from mercer._coupling import Coupling, Divergence, PowerProduct, Smoothed
from mercer.families import sets, special
from mercer.families.base import Constant, Family, Parameter
from mercer.families.bernoulli import Bernoulli, Bernoullis
from mercer.families.categorical import Categorical, Categoricals
from mercer.families.coordinatewise import Coordinatewise
from mercer.families.dirichlet_multinomial import DirichletMultinomials
from mercer.families.estimator import Context, Estimator
from mercer.families.exponential import Exponential, Exponentials
from mercer.families.exponential_family import ExponentialFamily
from mercer.families.fit import CoordinatewiseEstimator, FamilyEstimator, predictive
from mercer.families.gamma import Gamma, Gammas
from mercer.families.gaussian import Gaussians
from mercer.families.gaussian_estimator import Gaussian
from mercer.families.lomax import Lomaxes
from mercer.families.multinomial import Multinomial, Multinomials
from mercer.families.negative_binomial import NegativeBinomial, NegativeBinomials
from mercer.families.poisson import Poisson, Poissons

__all__ = [
    "Bernoulli",
    "Bernoullis",
    "Categorical",
    "Categoricals",
    "Constant",
    "Context",
    "Coordinatewise",
    "CoordinatewiseEstimator",
    "Coupling",
    "DirichletMultinomials",
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
    "Lomaxes",
    "Multinomial",
    "Multinomials",
    "NegativeBinomial",
    "NegativeBinomials",
    "Parameter",
    "Poisson",
    "Poissons",
    "PowerProduct",
    "Smoothed",
    "predictive",
    "sets",
    "special",
]
