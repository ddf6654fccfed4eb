"""Kernels between models, and between data."""

from mercer._verdict import Verdict
from mercer.kernels._explain import Alignments, ChannelImportance, Explanation, aligned, channel_importance, explain
from mercer.kernels.algebra import Product, Scaled, Sum
from mercer.kernels.base import Kernel
from mercer.kernels.binetcauchy import BinetCauchy
from mercer.kernels.centered import Centered
from mercer.kernels.compacted import Compacted, compact
from mercer.kernels.confounds import Confounded
from mercer.kernels.empiricalkernelmap import EmpiricalKernelMap
from mercer.kernels.empiricalmeanmap import EmpiricalMeanMap
from mercer.kernels.features import Features
from mercer.kernels.fisher import Fisher
from mercer.kernels.fisherensemble import FisherEnsemble
from mercer.kernels.gaussianized import Gaussianized
from mercer.kernels.gaussianprocess import GaussianProcess, GaussianProcessClassifier
from mercer.kernels.heat import Heat
from mercer.kernels.jensenshannon import JensenShannon
from mercer.kernels.kernelridge import KernelRidge
from mercer.kernels.landmarks import Landmarks
from mercer.kernels.latentmeanmap import LatentMeanMap
from mercer.kernels.likelihoodratio import LikelihoodRatio
from mercer.kernels.linear_rbf import RBF, Laplace, Linear
from mercer.kernels.logodds import LogOdds
from mercer.kernels.marginalization import Marginalization
from mercer.kernels.meanfield import MeanField
from mercer.kernels.meanmap import MeanMap
from mercer.kernels.normalized import Normalized
from mercer.kernels.oligo import Oligo
from mercer.kernels.posteriorcounts import PosteriorCounts
from mercer.kernels.probabilityproduct import ProbabilityProduct
from mercer.kernels.repaired import Repaired
from mercer.kernels.residualized import Residualized
from mercer.kernels.sampled import Sampled
from mercer.kernels.series import SeriesClassifier, SeriesRegressor
from mercer.kernels.spectrum import Spectrum
from mercer.kernels.subspaceangles import SubspaceAngles
from mercer.kernels.switching import SwitchingProduct
from mercer.kernels.symmetrickl import SymmetricKL
from mercer.kernels.targetaligned import TargetAligned
from mercer.kernels.tempered import Tempered
from mercer.kernels.top import TOP

__all__ = [
    "RBF",
    "TOP",
    "Alignments",
    "BinetCauchy",
    "Centered",
    "ChannelImportance",
    "Compacted",
    "Confounded",
    "EmpiricalKernelMap",
    "EmpiricalMeanMap",
    "Explanation",
    "Features",
    "Fisher",
    "FisherEnsemble",
    "GaussianProcess",
    "GaussianProcessClassifier",
    "Gaussianized",
    "Heat",
    "JensenShannon",
    "Kernel",
    "KernelRidge",
    "Landmarks",
    "Laplace",
    "LatentMeanMap",
    "LikelihoodRatio",
    "Linear",
    "LogOdds",
    "Marginalization",
    "MeanField",
    "MeanMap",
    "Normalized",
    "Oligo",
    "PosteriorCounts",
    "ProbabilityProduct",
    "Product",
    "Repaired",
    "Residualized",
    "Sampled",
    "Scaled",
    "SeriesClassifier",
    "SeriesRegressor",
    "Spectrum",
    "SubspaceAngles",
    "Sum",
    "SwitchingProduct",
    "SymmetricKL",
    "TargetAligned",
    "Tempered",
    "Verdict",
    "aligned",
    "channel_importance",
    "compact",
    "explain",
]
