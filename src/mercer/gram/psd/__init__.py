"""Check whether a matrix is positive semi-definite, or a P-kernel."""

from mercer.gram.psd._check import Check, check
from mercer.gram.psd._check import square as square
from mercer.gram.psd._p_kernels import PKernelCheck, is_p_kernel, p_kernel, p_mixture, p_product

__all__ = ["Check", "PKernelCheck", "check", "is_p_kernel", "p_kernel", "p_mixture", "p_product"]
