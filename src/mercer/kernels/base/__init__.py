"""Base classes of kernels, for those who write their own.

`Kernel` is any kernel. `ModelKernel` compares one fitted model per sample, `CoupledKernel` by a coupling of batches of
models, `SharedModelKernel` samples under one model. `Compound` is made of several kernels, `Wrapper` of one. The
protocol page of the documentation describes the methods that a subclass implements.
`subset` is a generic function, for which a kernel may register its own.
"""

from mercer.kernels._data import concatenated, unwrapped
from mercer.kernels._evaluation import Prepared
from mercer.kernels._subset import subset
from mercer.kernels.base.compound import Compound, Views, Wrapper
from mercer.kernels.base.kernel import Kernel
from mercer.kernels.base.model import CoupledKernel, ModelKernel
from mercer.kernels.base.shared import SharedModelKernel
from mercer.kernels.base.transformer import NoFeatures

__all__ = [
    "Compound",
    "CoupledKernel",
    "Kernel",
    "ModelKernel",
    "NoFeatures",
    "Prepared",
    "SharedModelKernel",
    "Views",
    "Wrapper",
    "concatenated",
    "subset",
    "unwrapped",
]
