"""Exponential families: one file each, plural (a batch) and singular (its estimator)."""

from mercer._coupling import CountSmoothed, Coupling, Divergence, LaplaceSmoothed, PowerProduct, Smoothed
from mercer.families.base import ExponentialFamily, Family, FamilyEstimator
from mercer.families.bernoulli import Bernoulli, Bernoullis
from mercer.families.beta import Beta, Betas
from mercer.families.categorical import Categorical, Categoricals
from mercer.families.coordinatewise import Coordinatewise, CoordinatewiseEstimator
from mercer.families.count_vector import CountVectors
from mercer.families.count_vector_estimator import CountVector
from mercer.families.dirichlet import Dirichlet, Dirichlets
from mercer.families.estimator import Context, Estimator
from mercer.families.exponential import Exponential, Exponentials
from mercer.families.gamma import Gamma, Gammas
from mercer.families.gaussian import Gaussians
from mercer.families.gaussian_estimator import Gaussian
from mercer.families.geometric import Geometric, Geometrics
from mercer.families.multinomial import Multinomial, Multinomials
from mercer.families.poisson import Poisson, Poissons
from mercer.families.rayleigh import Rayleigh, Rayleighs

__all__ = [
    "Bernoulli",
    "Bernoullis",
    "Beta",
    "Betas",
    "Categorical",
    "Categoricals",
    "Context",
    "Coordinatewise",
    "CoordinatewiseEstimator",
    "CountSmoothed",
    "CountVector",
    "CountVectors",
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
    "LaplaceSmoothed",
    "Multinomial",
    "Multinomials",
    "Poisson",
    "Poissons",
    "PowerProduct",
    "Rayleigh",
    "Rayleighs",
    "Smoothed",
]
