"""Where a kernel computes: on the device of the settings, or where its arrays are."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import is_numpy_array

from mercer._array import Array, to_numpy
from mercer._config import settings
from mercer._device import target
from mercer.gram.engine import fill
from mercer.kernels._evaluation import Evaluation, Prepared, Side
from mercer.kernels.base.model import CoupledKernel
from mercer.kernels.marginalization import Marginalization
from mercer.models.devices import moves, on_device, pairs_at_once
from mercer.models.hmm import HMMs
from mercer.models.lds import LDSs
from mercer.models.tree import HiddenTrees


class Moved(Prepared):
    """Objects that were NumPy arrays, on the device of the settings; results are brought back."""

    def on_host(self) -> Prepared:
        """Return the same objects on the host."""
        return Prepared(self.operand.host, None if self.norm is None else to_numpy(self.norm), self.zero)


class DeviceEvaluation(Evaluation):
    """The values of a kernel, on the device of the settings; `mercer.models.devices` lists what runs there.

    Compounds of kernels, and all kernels that are not named here, compute where their arrays are.
    """

    def prepared_for_matrix(self, side: Side) -> Prepared:
        """Return the prepared objects of a side, on the device of the settings if the kernel runs there.

        What was moved is kept as long as the side.
        """
        if settings().device is None:
            return self.prepared_side(side)
        kernel, source = self.kernel, side.source
        array_code = isinstance(kernel, CoupledKernel) and getattr(kernel, "n_components", None) is None
        if array_code and moves(source):
            device = target()
            there: Side = side.once(f"on {device}", (), lambda: Side(source.to(device)))
            found = self.prepared_side(there)
            return Moved(found.operand, found.norm, found.zero)
        systems = isinstance(kernel, CoupledKernel) and isinstance(source, LDSs) and kernel.time == "joint"
        shared = isinstance(kernel, Marginalization) and kernel.weights is None
        if not systems and not shared:
            return self.prepared_side(side)
        device = target()
        made: Prepared = side.once(
            f"prepared on {device}", self._parameters, lambda: self._prepared_there(source, device)
        )
        return made

    def _prepared_there(self, source: Any, device: Any) -> Prepared:
        """Prepare samples on the host, and move the operand if it can be paired on the device."""
        kernel = self.kernel
        if isinstance(kernel, Marginalization) and _gives_evidence(kernel.model_):
            operand = kernel.model_.to(device).shared_history(source)  # evidence is computed there
        else:
            here = kernel._prepare(source)
            operand = on_device(here, device)
            if operand is here:
                return self._normalized(here, source)
        found = self._normalized(operand, source)
        return Moved(found.operand, found.norm, found.zero)

    def returned(self, values: Array, a: Prepared) -> Array:
        """Bring values back to NumPy if the input was moved."""
        return to_numpy(values) if isinstance(a, Moved) else values

    def matrix(self, a: Prepared, b: Prepared | None, *, log: bool = False) -> Array:
        """Compute the matrix of two prepared sides, both on the host if only one could be moved."""
        if b is not None and isinstance(a, Moved) != isinstance(b, Moved):
            a, b = (
                side.on_host() if isinstance(side, Moved) and hasattr(side.operand, "host") else side for side in (a, b)
            )
        return super().matrix(a, b, log=log)

    def _fill(self, tile: Any, a: Prepared, b: Prepared | None, diagonal: Array | None, label: str) -> Array:
        pairs = device_pairs(a.operand, (a if b is None else b).operand)
        return fill(tile, a, b, diagonal=diagonal, label=label, to_host=isinstance(a, Moved), device_pairs=pairs)


def device_pairs(*operands: Any) -> int | None:
    """Return the number of pairs that Triton kernels compute at once; None if one operand has no Triton kernel."""
    sizes = [pairs_at_once(operand) for operand in operands]
    known = [size for size in sizes if size is not None]
    return min(known) if len(known) == len(operands) else None


def _gives_evidence(model: Any) -> bool:
    """Whether a shared model of NumPy arrays computes the evidence of samples on a device, too."""
    if isinstance(model, HMMs):
        return bool(moves(model) and model.initial.dtype == np.float64)
    return isinstance(model, HiddenTrees) and is_numpy_array(model.root) and bool(model.root.dtype == np.float64)
