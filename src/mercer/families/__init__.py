"""Exponential families: one file each, plural (a batch) and singular (its estimator)."""

from mercer.families._coupling import Coupling, Divergence, Product, Smoothed
from mercer.families._estimator import Context, Estimator, FamilyEstimator
from mercer.families._family import ExponentialFamily, Family
from mercer.families.bernoulli import Bernoulli, Bernoullis
from mercer.families.beta import Beta, Betas
from mercer.families.categorical import Categorical, Categoricals
from mercer.families.dirichlet import Dirichlet, Dirichlets
from mercer.families.exponential import Exponential, Exponentials
from mercer.families.gamma import Gamma, Gammas
from mercer.families.gaussian import Gaussians
from mercer.families.gaussian_estimator import Gaussian
from mercer.families.geometric import Geometric, Geometrics
from mercer.families.multinomial import Multinomial, Multinomials
from mercer.families.poisson import Poisson, Poissons

__all__ = [
    "Bernoulli",
    "Bernoullis",
    "Beta",
    "Betas",
    "Categorical",
    "Categoricals",
    "Context",
    "Coupling",
    "Dirichlet",
    "Dirichlets",
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
    "Geometric",
    "Geometrics",
    "Multinomial",
    "Multinomials",
    "Poisson",
    "Poissons",
    "Product",
    "Smoothed",
]
