"""Derivatives of Gram matrices with respect to the logarithms of kernel parameters, for Gaussian processes."""

from __future__ import annotations

import copy
import math
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from mercer._array import Floats, to_numpy
from mercer._checks import is_number
from mercer._coupling import PowerProduct, Smoothed
from mercer.families.count_vector import CountVectors
from mercer.kernels._base import Kernel
from mercer.kernels._operands import finite
from mercer.kernels._slopes.data import value_slopes
from mercer.kernels._slopes.models import log_slopes
from mercer.kernels.algebra import Product, Scaled, Sum
from mercer.kernels.empiricalmeanmap import EmpiricalMeanMap
from mercer.kernels.heat import Heat
from mercer.kernels.jensenshannon import JensenShannon
from mercer.kernels.latentmeanmap import LatentMeanMap
from mercer.kernels.linear_rbf import RBF
from mercer.kernels.mapped import EmpiricalKernelMap
from mercer.kernels.meanmap import MeanMap
from mercer.kernels.probabilityproduct import ProbabilityProduct
from mercer.kernels.symmetrickl import SymmetricKL
from mercer.kernels.wrappers import Gaussianized, Normalized, Tempered
from mercer.models.kde import KDEs

SMOOTH = ("rho", "gamma", "gamma_states", "t", "alpha", "beta", "weight")
"""Names of parameters on which kernels depend smoothly, and which are positive."""
TRANSPARENT = (Sum, Product, Scaled, Normalized, Tempered, Gaussianized)
"""Compounds that learn nothing of their own, so that a parameter of a part may change after ``fit``."""
STEP = 1e-3
"""Of central differences in the logarithm of a parameter: a relative error of about STEP^2 / 6."""
LINEAR_STEP = 1e-5
"""The same for kernels that are no logarithms, which bend more: random features turn with the root of gamma."""
SINGLE_STEP = 2e-2
"""The same for kernels in float32, whose rounding a smaller step would magnify."""


def smooth_parameters(kernel: Kernel) -> Iterator[tuple[str, float]]:
    """Yield the name, such as ``k1__gamma``, and the value of every parameter that has a derivative."""
    for name in _own_parameters(kernel):
        yield name, float(getattr(kernel, name))
    for part in _part_names(kernel):
        for name, value in smooth_parameters(getattr(kernel, part)):
            yield f"{part}__{name}", value


def _own_parameters(kernel: Kernel) -> list[str]:
    if isinstance(kernel, JensenShannon) and kernel.form == "centering":
        return []  # which does not look at t
    known = kernel.get_params(deep=False)
    if isinstance(kernel, ProbabilityProduct) and kernel.marginal:
        del known["rho"]  # a whole number, where there are hidden variables
    # A parameter that went into what was learned would have to be learned again.
    names = [name for name in SMOOTH if name in known and name not in kernel._fixed_by_fit()]
    return [name for name in names if is_number(known[name]) and float(known[name]) > 0]


def _part_names(kernel: Kernel) -> tuple[str, ...]:
    return kernel._names() if isinstance(kernel, TRANSPARENT) and type(kernel) in TRANSPARENT else ()


def gram_and_slopes(kernel: Kernel, source: Any, wanted: Collection[str]) -> tuple[Floats, dict[str, Floats]]:
    """Return the Gram matrix and its derivatives with respect to the logarithms of some parameters.

    Parameters
    ----------
    kernel : Kernel
        A kernel that can answer.
    source : what it compares
        As its ``sources`` gives it.
    wanted : names
        Of `smooth_parameters`.
    """
    level = _level(kernel, source, wanted)
    # Of a compound, and in float32, the engine knows best: what it says of objects of zero norm, and its bits.
    if _part_names(kernel) or type(kernel)._matrix is not Kernel._matrix or level.single:
        gram = _double(kernel._matrix(kernel._prepared(source), None, log=False))
    else:
        gram = level.exponentiated(kernel).values
    return gram, {name: gram * slope if level.log else slope for name, slope in level.slopes.items()}


class _Level:
    """Values of a kernel in its domain, (N, N), and their derivatives; where a logarithm is -inf, these are 0."""

    single = False
    """Whether the kernel computes in float32."""

    def __init__(self, values: Floats, log: bool, slopes: dict[str, Floats]) -> None:
        self.values = values
        self.log = log
        self.slopes = slopes

    def exponentiated(self, kernel: Kernel) -> _Level:
        """Return the same as values, if they are logarithms."""
        if not self.log:
            return self
        values = np.asarray(kernel._exp(self.values))
        return _Level(values, False, {name: values * slope for name, slope in self.slopes.items()})

    def normalized(self) -> _Level:
        """Divide by the norms (C-5); objects of zero norm stay as they are."""
        own = self.values.diagonal()
        if self.log:
            values = self.values - _halves(finite(own))
            return _Level(
                values, True, {name: slope - _halves(slope.diagonal()) for name, slope in self.slopes.items()}
            )
        own = np.where(own > 0, own, 1.0)
        values = self.values / np.sqrt(np.outer(own, own))
        slopes = {
            name: slope / np.sqrt(np.outer(own, own)) - values * _halves(slope.diagonal() / own)
            for name, slope in self.slopes.items()
        }
        return _Level(values, False, slopes)


def _halves(diagonal: Floats) -> Floats:
    """Return the mean of the two objects' numbers for every pair."""
    mean: Floats = (diagonal[:, None] + diagonal) / 2
    return mean


def _level(kernel: Kernel, source: Any, wanted: Collection[str]) -> _Level:
    """Evaluate a kernel, and the derivatives of its own parameters and of those of its parts."""
    own = [name for name in _own_parameters(kernel) if name in wanted]
    names = _part_names(kernel)
    if not names:
        values = _values(kernel, source)
        slopes = {name: _double(_own_slope(kernel, name, values, source)) for name in own}
        level = _Level(_double(values), kernel.domain == "log", slopes)
        level.single = values.dtype == np.float32
        return level
    parts = []
    for name, part, data in zip(names, kernel._parts(), source.parts, strict=True):
        prefix = f"{name}__"
        below = _level(part, data, [asked.removeprefix(prefix) for asked in wanted if asked.startswith(prefix)])
        below.slopes = {prefix + inner: slope for inner, slope in below.slopes.items()}
        parts.append(below if kernel.domain == "log" else below.exponentiated(part))
    level = _combined(kernel, parts)
    for name in own:
        # A weight is added to logarithms; beta and gamma are factors of them.
        whole = name == "weight" and level.log
        level.slopes[name] = np.ones_like(level.values) if whole else finite(level.values)
    return level


def _combined(kernel: Any, parts: list[_Level]) -> _Level:
    """Return a compound from its parts, which are in its domain (those of a Gaussian of distances in their own)."""
    first, log = parts[0], kernel.domain == "log"
    if isinstance(kernel, Sum):
        second = parts[1]
        if not log:
            return _Level(first.values + second.values, False, first.slopes | second.slopes)
        values = np.logaddexp(first.values, second.values)
        shares = [np.exp(part.values - finite(values)) for part in parts]
        slopes = {n: share * s for part, share in zip(parts, shares, strict=True) for n, s in part.slopes.items()}
        return _Level(values, True, slopes)
    if isinstance(kernel, Product):
        second = parts[1]
        if log:
            return _Level(first.values + second.values, True, first.slopes | second.slopes)
        slopes = {name: slope * second.values for name, slope in first.slopes.items()}
        slopes |= {name: slope * first.values for name, slope in second.slopes.items()}
        return _Level(first.values * second.values, False, slopes)
    if isinstance(kernel, Scaled):
        if log:
            return _Level(first.values + math.log(kernel.weight), True, first.slopes)
        slopes = {name: kernel.weight * slope for name, slope in first.slopes.items()}
        return _Level(kernel.weight * first.values, False, slopes)
    if isinstance(kernel, Normalized):
        return first.normalized()
    if isinstance(kernel, Tempered):
        inner, factor = first.normalized(), float(kernel.beta)
        return _Level(factor * inner.values, True, {name: factor * slope for name, slope in inner.slopes.items()})
    factor = -float(kernel.gamma)  # Gaussianized
    own = first.values.diagonal()
    squared = kernel._inner._squared_distances(first.values, own, own)
    plain = first.exponentiated(kernel._inner)
    slopes = {name: factor * 2 * (_halves(slope.diagonal()) - slope) for name, slope in plain.slopes.items()}
    return _Level(factor * np.asarray(squared), True, slopes)


def _values(kernel: Kernel, source: Any) -> Floats:
    """Evaluate the Gram matrix in the kernel's domain."""
    return np.asarray(to_numpy(kernel._matrix(kernel._prepared(source), None, log=kernel.domain == "log")))


def _double(values: Any) -> Floats:
    return np.asarray(to_numpy(values), dtype=np.float64)


def _own_slope(kernel: Any, name: str, values: Floats, source: Any) -> Floats:
    """Return the derivative of a kernel's values, in its domain, with respect to the logarithm of its parameter."""
    kind = type(kernel)
    if kind in (RBF, EmpiricalKernelMap) or (kind is JensenShannon and kernel.form == "exp"):
        return finite(values)  # the logarithm is proportional to the parameter
    if kind is Heat:
        return -finite(values)
    if kind is SymmetricKL:  # beta is what an object has with itself
        return (
            finite(values) - kernel.beta * (values > -np.inf) if name == "alpha" else np.full_like(values, kernel.beta)
        )
    if kind is JensenShannon:
        return _inverse_slope(kernel, values, source)
    if kind in (ProbabilityProduct, MeanMap):
        found = _model_slope(kernel, source)
    elif kind in (EmpiricalMeanMap, LatentMeanMap):
        found = _data_slope(kernel, name, source)
    else:
        found = None
    return _numeric_slope(kernel, name, source, values) if found is None else found


def _inverse_slope(kernel: JensenShannon, values: Floats, source: Any) -> Floats:
    """Derive -log(t + psi), normalised or not."""
    if not kernel.normalize:
        return -kernel.t * np.exp(values)
    norm = _double(kernel._prepared(source).norm)
    slope = -kernel.t * np.exp(values + _halves(norm))
    return slope - _halves(slope.diagonal())


def _model_slope(kernel: Any, source: Any) -> Floats | None:
    """Derive a kernel between models by log rho or log gamma; None where a family or a model has no closed form."""
    coupling = kernel._coupling()
    if kernel.domain == "linear" or not isinstance(coupling, PowerProduct | Smoothed):
        return None
    only_one_rho = isinstance(source, KDEs) or (isinstance(source, CountVectors) and source.law != "poisson")
    if only_one_rho and isinstance(coupling, PowerProduct):
        raise ValueError(
            f"the probability product of these {type(source).__name__} has no derivative by rho, since rho = "
            f"{coupling.rho:g} alone has a closed form: fix it, as_gp({{'rho': 'fixed'}}), under the "
            "name that the whole kernel has for it, such as kernel__rho"
        )
    slope = log_slopes(source, coupling, kernel._lengths())
    if slope is None:
        return None
    slope = slope * (coupling.rho if isinstance(coupling, PowerProduct) else coupling.gamma)
    return slope - _halves(slope.diagonal()) if kernel.normalize else slope


def _data_slope(kernel: Any, name: str, source: Any) -> Floats | None:
    """Derive a mean map between data by the logarithm of a parameter; None where there is no closed form."""
    found = value_slopes(kernel, name, source)
    if found is None:
        return None
    plain, slope = found[0], found[1] * float(getattr(kernel, name))
    if not kernel.normalize:
        return slope
    level = _Level(plain, kernel.domain == "log", {name: slope}).normalized()
    return level.slopes[name]


def _numeric_slope(kernel: Kernel, name: str, source: Any, values: Floats) -> Floats:
    """Take a central difference: what is compared does not depend on the parameter, and is made once."""
    step = SINGLE_STEP if values.dtype == np.float32 else STEP if kernel.domain == "log" else LINEAR_STEP
    here = float(getattr(kernel, name))
    beside = (here * math.exp(step), here * math.exp(-step))
    ahead, behind = (_double(_values(_with(kernel, name, value), source)) for value in beside)
    known = np.isfinite(ahead) & np.isfinite(behind)
    return np.subtract(ahead, behind, where=known, out=np.zeros_like(ahead)) / (2 * step)


def _with(kernel: Any, name: str, value: float) -> Any:
    """Return a copy with another value of one of its own parameters."""
    changed = copy.copy(kernel)
    setattr(changed, name, value)
    return changed
