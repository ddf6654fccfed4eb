"""Where a kernel computes: on the device of the settings, or where its arrays are."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import is_numpy_array

from mercer._device import target
from mercer.kernels.base.model import CoupledKernel
from mercer.kernels.marginalization import Marginalization
from mercer.models.devices import moves, on_device, pairs_at_once
from mercer.models.hmm import HMMs
from mercer.models.lds import LDSs
from mercer.models.tree import HiddenTrees


class DeviceChoice:
    """Decides where a kernel computes; `mercer.models.devices` lists what runs on a device.

    Compounds of kernels, and all kernels that are not named here, compute where their arrays are.

    Parameters
    ----------
    kernel : Kernel
        A kernel that can be evaluated.
    """

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel

    def of_models(self, source: Any) -> Any:
        """Return the device to which the models of a batch move; None if they stay. Raise if it is not there."""
        kernel = self.kernel
        array_code = isinstance(kernel, CoupledKernel) and getattr(kernel, "n_components", None) is None
        return target() if array_code and moves(source) else None

    def of_operands(self, source: Any) -> Any:
        """Return the device to which prepared samples move while their source stays; None if they stay, too."""
        kernel = self.kernel
        systems = isinstance(kernel, CoupledKernel) and isinstance(source, LDSs) and kernel.time == "joint"
        shared = isinstance(kernel, Marginalization) and kernel.weights is None
        return target() if systems or shared else None

    def prepared(self, source: Any, device: Any) -> tuple[Any, bool]:
        """Return an operand, on a device if it moves there, and whether it does."""
        kernel = self.kernel
        if isinstance(kernel, Marginalization) and kernel.precision == "float64" and _gives_evidence(kernel.model_):
            return kernel.model_.to(device).shared_history(source), True  # evidence is computed there
        operand = kernel._prepare(source)
        there = on_device(operand, device)
        return there, there is not operand


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
