"""Gram matrices and their derivatives by the logarithms of parameters, for Gaussian processes.

A derivative is a central difference: two further Gram matrices of the kernel that has the parameter. In a sum, a
product or another transparent compound, the matrices of the other parts are kept, and combined again.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer._array import Floats, to_numpy
from mercer._checks import is_number
from mercer._coupling import FieldOperand
from mercer.kernels.base.compound import Compound, Views
from mercer.kernels.base.kernel import Kernel
from mercer.kernels.base.transformer import Transformer

STEP = 1e-4
"""Step of central differences in the logarithm of a parameter: a relative error of about STEP^2 / 6."""
LINEAR_STEP = 1e-5
"""The same for kernels in the linear domain, whose curvature is larger: small values are exponentials."""
SINGLE_STEP = 2e-2
"""The same for kernels in float32, whose rounding a smaller step would magnify."""


def smooth_parameters(kernel: Kernel) -> Iterator[tuple[str, float, tuple[float, float]]]:
    """Yield the name, such as ``k0__gamma``, the value and the usual bounds of every parameter with a derivative."""
    for name, bounds in _own_parameters(kernel).items():
        yield name, float(getattr(kernel, name)), bounds
    for part in parts_of(kernel):
        for name, value, bounds in smooth_parameters(getattr(kernel, part)):
            yield f"{part}__{name}", value, bounds


def _own_parameters(kernel: Kernel) -> dict[str, tuple[float, float]]:
    values = {name: getattr(kernel, name) for name in kernel._smooth_parameters()}
    return {name: kernel._smooth[name] for name, value in values.items() if is_number(value) and float(value) > 0}


def parts_of(kernel: Kernel) -> tuple[str, ...]:
    """Return the names of the parts whose parameters may change after ``fit``: those of a transparent compound."""
    return kernel._names() if isinstance(kernel, Compound) and kernel._transparent else ()


def gram_and_slopes(kernel: Kernel, source: Any, wanted: Collection[str]) -> tuple[Floats, dict[str, Floats]]:
    """Return the Gram matrix and its derivatives by the logarithms of some parameters.

    Parameters
    ----------
    kernel : Kernel
        A kernel that can be evaluated.
    source : batch or data
        The compared objects, as its ``sources`` returns them.
    wanted : names
        Names of parameters from `smooth_parameters`.
    """
    leaves = {path: _Leaf(leaf, data) for path, leaf, data in _leaves(kernel, source)}
    log = kernel.domain == "log"
    step = LINEAR_STEP
    if any(leaf.values.dtype == np.float32 for leaf in leaves.values()):
        step = SINGLE_STEP
    elif log:
        step = STEP
    slopes = {}
    for name in wanted:
        *path, last = name.split("__")
        ahead, behind = (_changed(kernel, leaves, tuple(path), last, math.exp(move)) for move in (step, -step))
        known = np.isfinite(ahead) & np.isfinite(behind)
        slopes[name] = np.subtract(ahead, behind, where=known, out=np.zeros_like(ahead)) / (2 * step)
    gram = _gram(kernel, source, leaves)
    return gram, {name: gram * slope if log else slope for name, slope in slopes.items()}


def _gram(kernel: Kernel, source: Any, leaves: dict[Any, _Leaf]) -> Floats:
    """Return the Gram matrix, bit-identical to that of the kernel itself."""
    if all(type(leaf.kernel)._value_tile is Transformer._value_tile for leaf in leaves.values()):
        return _assembled(kernel, leaves, log=False)
    evaluation = kernel._evaluation
    return np.asarray(to_numpy(evaluation.matrix(evaluation.prepared(source), None)), dtype=np.float64)


def _leaves(kernel: Any, source: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Yield the path, the kernel and the source of every part that is not a transparent compound."""
    names = parts_of(kernel)
    if not names:
        yield path, kernel, source
    for name, part, data in zip(names, kernel._parts() if names else (), source.parts if names else (), strict=True):
        yield from _leaves(part, data, (*path, name))


class _Leaf:
    """A kernel, its source, and its Gram matrix in its domain."""

    def __init__(self, kernel: Kernel, source: Any) -> None:
        self.kernel = kernel
        self.source = source
        self.values = self.matrix()

    def matrix(self, name: str | None = None, factor: float = 1.0) -> Floats:
        """Return the Gram matrix in the kernel's domain, with one of its parameters multiplied."""
        kernel = self.kernel if name is None else _with(self.kernel, name, factor)
        evaluation = kernel._evaluation
        try:
            values = evaluation.matrix(evaluation.prepared(self.source), None, log=kernel.domain == "log")
        except (ValueError, TypeError, OverflowError) as error:
            if name is None:
                raise
            raise ValueError(
                f"{type(kernel).__name__} has no derivative by {name} at {getattr(self.kernel, name):g} ({error}). "
                f"Fix it with as_gp({{'{name}': 'fixed'}}), under its name in the whole kernel, such as "
                f"kernel__{name}"
            ) from None
        return np.asarray(to_numpy(values))


def _with(kernel: Any, name: str, factor: float) -> Any:
    """Return a copy with one of its own parameters multiplied."""
    changed = copy.copy(kernel)
    setattr(changed, name, float(getattr(kernel, name)) * factor)
    return changed


def _changed(kernel: Kernel, leaves: dict[Any, _Leaf], path: tuple[str, ...], name: str, factor: float) -> Floats:
    """Return the values of the whole kernel in its domain, with one parameter multiplied."""
    log = kernel.domain == "log"
    if path in leaves:
        return _assembled(kernel, leaves, log=log, other=(path, leaves[path].matrix(name, factor)))
    return _assembled(kernel, leaves, log=log, change=(path, name, factor))


def _assembled(kernel: Any, leaves: dict[Any, _Leaf], *, log: bool, other: Any = None, change: Any = None) -> Floats:
    """Combine the matrices of the leaves; one matrix may be replaced, or one parameter of a compound changed."""
    known, source = _with_known_leaves(kernel, leaves, other, change, ())
    evaluation = known._evaluation
    return np.asarray(evaluation.matrix(evaluation.prepared(source), None, log=log), dtype=np.float64)


def _with_known_leaves(kernel: Any, leaves: dict[Any, _Leaf], other: Any, change: Any, path: Any) -> tuple[Any, Any]:
    """Return a copy whose leaves have known matrices, and the source for it."""
    if path in leaves:
        values = other[1] if other is not None and other[0] == path else leaves[path].values
        return _Known(values, kernel.domain), _Places(np.arange(len(values)))
    copied = copy.copy(kernel)
    if change is not None and change[0] == path:
        copied = _with(copied, *change[1:])
    parts = zip(kernel._names(), kernel._parts(), strict=True)
    found = [_with_known_leaves(part, leaves, other, change, (*path, name)) for name, part in parts]
    copied.kernels_ = tuple(part for part, _ in found)
    return copied, Views(tuple(source for _, source in found))


@dataclass
class _Places(FieldOperand):
    """Row indices of a known matrix, as a source and as an operand."""

    index: Floats


class _Known(Kernel):
    """A kernel whose Gram matrix is known."""

    def __init__(self, values: Any = None, domain: str = "log") -> None:
        self.values = values
        self.domain = domain

    def _prepare(self, source: _Places) -> _Places:
        return source

    def _tile(self, a: _Places, b: _Places) -> Floats:
        return np.asarray(self.values[np.ix_(a.index, b.index)])

    def _self(self, a: _Places) -> Floats:
        return np.asarray(self.values[a.index, a.index])
