"""What a user composes: kernels between models, and between data."""

from mercer.kernels._base import Kernel
from mercer.kernels.algebra import Multiplied, Scaled, Sum
from mercer.kernels.aligned import Aligned, align
from mercer.kernels.confounds import Confounded
from mercer.kernels.empirical import EmpiricalMeanMap
from mercer.kernels.fisher import Fisher
from mercer.kernels.heat import Heat
from mercer.kernels.jensenshannon import JensenShannon
from mercer.kernels.landmarks import Landmarks
from mercer.kernels.latentmeanmap import LatentMeanMap
from mercer.kernels.likelihood import LikelihoodRatio
from mercer.kernels.mapped import Centered, EmpiricalMap, Repaired
from mercer.kernels.marginalization import Marginalization
from mercer.kernels.meanmap import MeanMap
from mercer.kernels.posteriorcounts import PosteriorCounts
from mercer.kernels.product import ProbabilityProduct
from mercer.kernels.residualized import Residualized
from mercer.kernels.spectrum import Spectrum
from mercer.kernels.symmetrickl import SymmetricKL
from mercer.kernels.top import TOP
from mercer.kernels.vector import RBF, Linear
from mercer.kernels.wrappers import Gaussianized, Normalized, Tempered

__all__ = [
    "RBF",
    "TOP",
    "Aligned",
    "Centered",
    "Confounded",
    "EmpiricalMap",
    "EmpiricalMeanMap",
    "Fisher",
    "Gaussianized",
    "Heat",
    "JensenShannon",
    "Kernel",
    "Landmarks",
    "LatentMeanMap",
    "LikelihoodRatio",
    "Linear",
    "Marginalization",
    "MeanMap",
    "Multiplied",
    "Normalized",
    "PosteriorCounts",
    "ProbabilityProduct",
    "Repaired",
    "Residualized",
    "Scaled",
    "Spectrum",
    "Sum",
    "SymmetricKL",
    "Tempered",
    "align",
]
