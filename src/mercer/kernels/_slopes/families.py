"""Derivatives of log probability products by rho, and of log mean maps by gamma, between members of a family.

With g proportional to (p q)^rho, the derivative of log k_rho is E_g[log p + log q]; with g proportional to
p(x) q(y) exp(-gamma |x - y|^2), that of the log mean map is -E_g |x - y|^2. Shapes are those of ``log_product``:
``(*B, n) x (*B, m) -> (*B, n, m)``. All is NumPy in float64; where a kernel is zero, so is its derivative here.

A family of your own joins by a method ``log_product_slope(other, rho)`` or ``log_mean_map_slope(other, gamma)``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer._array import Floats
from mercer._coupling import Coupling, PowerProduct, Smoothed
from mercer.families.bernoulli import Bernoullis
from mercer.families.beta import Betas
from mercer.families.categorical import Categoricals
from mercer.families.dirichlet import Dirichlets
from mercer.families.exponential import Exponentials
from mercer.families.gamma import Gammas
from mercer.families.gaussian import Gaussians
from mercer.families.geometric import Geometrics
from mercer.families.multinomial import Multinomials
from mercer.families.poisson import Poissons
from mercer.kernels._slopes import counts, densities

Slope = Callable[[Any, Any, float, Floats], Floats]
"""Of members p and q, the parameter, and the log kernels that are known already."""


def slope_of(batch: Any, coupling: Coupling) -> Callable[[Any, Any, Floats], Floats] | None:
    """Return the function of two batches like this one and their log kernels, or None where the family has none."""
    if type(coupling) is PowerProduct:
        method, table, parameter = "log_product_slope", PRODUCT, {"rho": coupling.rho}
    elif type(coupling) is Smoothed:
        method, table, parameter = "log_mean_map_slope", MEAN_MAP, {"gamma": coupling.gamma}
    else:
        return None
    if hasattr(batch, method):
        return lambda p, q, logs: np.asarray(getattr(p, method)(q, **parameter), dtype=np.float64)
    known = table.get(type(batch))
    (value,) = parameter.values()
    return None if known is None else lambda p, q, logs: known(p, q, value, logs)


PRODUCT: dict[type, Slope] = {
    Bernoullis: counts.bernoulli_product,
    Betas: densities.beta_product,
    Categoricals: counts.symbol_product,
    Dirichlets: densities.dirichlet_product,
    Exponentials: densities.exponential_product,
    Gammas: densities.gamma_product,
    Gaussians: densities.gaussian_product,
    Geometrics: counts.geometric_product,
    Multinomials: counts.multinomial_product,
    Poissons: counts.poisson_product,
}
MEAN_MAP: dict[type, Slope] = {
    Bernoullis: counts.bernoulli_mean_map,
    Categoricals: lambda p, q, gamma, logs: counts.symbol_mean_map(1, gamma, logs),
    Exponentials: densities.exponential_mean_map,
    Gaussians: densities.gaussian_mean_map,
    Geometrics: counts.geometric_mean_map,
    Multinomials: lambda p, q, gamma, logs: counts.symbol_mean_map(p.trials, gamma, logs),
    Poissons: counts.poisson_mean_map,
}
