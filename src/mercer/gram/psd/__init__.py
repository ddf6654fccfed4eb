"""Positive semi-definite matrices: is a matrix one, and is it a probability of pairs, a P-kernel?"""

from mercer.gram.psd._check import Check, check, square
from mercer.gram.psd._p_kernels import PKernelCheck, is_p_kernel, p_kernel, p_mixture, p_product

__all__ = ["Check", "PKernelCheck", "check", "is_p_kernel", "p_kernel", "p_mixture", "p_product", "square"]
