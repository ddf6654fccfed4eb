"""Derivatives of Gram matrices with respect to the logarithms of kernel parameters, for Gaussian processes."""
