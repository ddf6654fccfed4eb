"""What a user composes: kernels between models, and between data."""

from mercer.kernels._base import Kernel
from mercer.kernels.algebra import Multiplied, Scaled, Sum
from mercer.kernels.empirical import EmpiricalMeanMap
from mercer.kernels.fisher import Fisher
from mercer.kernels.jensenshannon import JensenShannon
from mercer.kernels.mapped import Centered, EmpiricalMap, Repaired
from mercer.kernels.meanmap import MeanMap
from mercer.kernels.product import ProbabilityProduct
from mercer.kernels.vector import RBF, Linear
from mercer.kernels.wrappers import Gaussianized, Normalized, Tempered

__all__ = [
    "RBF",
    "Centered",
    "EmpiricalMap",
    "EmpiricalMeanMap",
    "Fisher",
    "Gaussianized",
    "JensenShannon",
    "Kernel",
    "Linear",
    "MeanMap",
    "Multiplied",
    "Normalized",
    "ProbabilityProduct",
    "Repaired",
    "Scaled",
    "Sum",
    "Tempered",
]
