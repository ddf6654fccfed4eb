"""Exponential families: one file each, plural (a batch) and singular (its estimator)."""

from mercer._coupling import Coupling, Divergence, PowerProduct, Smoothed
from mercer.families import sets, special
from mercer.families.base import Constant, Family, Parameter
from mercer.families.bernoulli import Bernoulli, Bernoullis
from mercer.families.beta import Beta, Betas
from mercer.families.categorical import Categorical, Categoricals
from mercer.families.coordinatewise import Coordinatewise
from mercer.families.dirichlet import Dirichlet, Dirichlets
from mercer.families.dirichlet_multinomial import DirichletMultinomials
from mercer.families.estimator import Context, Estimator
from mercer.families.exponential import Exponential, Exponentials
from mercer.families.exponential_family import ExponentialFamily
from mercer.families.fit import CoordinatewiseEstimator, FamilyEstimator, predictive
from mercer.families.gamma import Gamma, Gammas
from mercer.families.gaussian import Gaussians
from mercer.families.gaussian_estimator import Gaussian
from mercer.families.gaussian_known import GaussianCovariance, GaussianCovariances, GaussianMean, GaussianMeans
from mercer.families.geometric import Geometric, Geometrics
from mercer.families.inverse_gaussian import InverseGaussian, InverseGaussians
from mercer.families.linear_gaussian import LinearNetwork
from mercer.families.lomax import Lomaxes
from mercer.families.multinomial import Multinomial, Multinomials
from mercer.families.negative_binomial import NegativeBinomial, NegativeBinomials
from mercer.families.poisson import Poisson, Poissons
from mercer.families.rayleigh import Rayleigh, Rayleighs
from mercer.families.student_t import StudentTs
from mercer.families.von_mises_fisher import VonMisesFisher, VonMisesFishers
from mercer.families.wishart import Wishart, Wisharts

__all__ = [
    "Bernoulli",
    "Bernoullis",
    "Beta",
    "Betas",
    "Categorical",
    "Categoricals",
    "Constant",
    "Context",
    "Coordinatewise",
    "CoordinatewiseEstimator",
    "Coupling",
    "Dirichlet",
    "DirichletMultinomials",
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
    "GaussianCovariance",
    "GaussianCovariances",
    "GaussianMean",
    "GaussianMeans",
    "Gaussians",
    "Geometric",
    "Geometrics",
    "InverseGaussian",
    "InverseGaussians",
    "LinearNetwork",
    "Lomaxes",
    "Multinomial",
    "Multinomials",
    "NegativeBinomial",
    "NegativeBinomials",
    "Parameter",
    "Poisson",
    "Poissons",
    "PowerProduct",
    "Rayleigh",
    "Rayleighs",
    "Smoothed",
    "StudentTs",
    "VonMisesFisher",
    "VonMisesFishers",
    "Wishart",
    "Wisharts",
    "predictive",
    "sets",
    "special",
]
