"""Which models and operands can be computed on devices.

Neither a batch nor an operand knows of devices: arithmetic follows the arrays, and Triton kernels for NVIDIA GPUs
(`mercer.cuda`) take what their own modules accept. `kernels/_device_choice.py` decides by this table.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from array_api_compat import is_numpy_array

from mercer._batch import Batch
from mercer._coupling import Leaf
from mercer.families import gaussian_fused
from mercer.families.categorical import Categoricals
from mercer.families.coordinatewise import Coordinatewise
from mercer.families.gaussian import Gaussians
from mercer.families.multinomial import Multinomials
from mercer.models._chains import fused as chains
from mercer.models._chains.operand import ChainOperand
from mercer.models._dynamics import fused as systems
from mercer.models._dynamics.operand import SystemOperand
from mercer.models._history import fused as histories
from mercer.models._history.lane_operand import LaneOperand
from mercer.models._history.operand import PlaneOperand, moved_operand
from mercer.models._markov.operand import ProductOperand, fits_gpu
from mercer.models._pairs import affine_fused as pair_hmms
from mercer.models._pairs.affine_operand import AffineOperand
from mercer.models.hmm import HMMs
from mercer.models.markov import MarkovChains
from mercer.models.mixture import Mixtures

ARRAY_CODE = (Coordinatewise, Categoricals, Multinomials, Gaussians, Mixtures, HMMs, MarkovChains)
"""Models whose kernels are array code of any library."""


def moves(source: Any) -> bool:
    """Whether a batch consists of NumPy arrays, and its kernels run on other devices."""
    if not isinstance(source, ARRAY_CODE) or not all(is_numpy_array(getattr(source, name)) for name in source._arrays):
        return False
    if isinstance(source, MarkovChains) and not fits_gpu(source):
        return False  # compiled for the CPU, and slower in array code
    return all(moves(getattr(source, name)) for name in source._parts)


@functools.singledispatch
def on_device(operand: Any, device: Any) -> Any:
    """Return an operand on a torch device; the same operand if it has no Triton kernel there."""
    return operand


on_device.register(AffineOperand, pair_hmms.on_gpu)
on_device.register(SystemOperand, systems.on_gpu)


@on_device.register
def _(operand: LaneOperand, device: Any) -> Any:
    logs = operand.evidence.logarithms()[:, np.argsort(operand.history.forest.order)]
    return moved_operand(operand.history, logs, operand.shift, operand.example, device)


@functools.singledispatch
def pairs_at_once(operand: Any) -> int | None:
    """Return the number of pairs that a Triton kernel computes at once; None if there is none for this operand."""
    return None


@pairs_at_once.register
def _(operand: ChainOperand) -> int | None:
    return chains.pairs_at_once(operand) if chains.fits(operand) else None


@pairs_at_once.register
def _(operand: ProductOperand) -> int | None:
    return None if operand.as_chains is None else chains.PAIRS // len(operand.lengths)


@pairs_at_once.register
def _(operand: PlaneOperand) -> int | None:
    return histories.PAIRS if histories.fits(operand.history, operand.evidence) else None


@pairs_at_once.register
def _(operand: pair_hmms.GPUOperand) -> int | None:
    return pair_hmms.PAIRS


@pairs_at_once.register
def _(operand: systems.GPUSystems) -> int | None:
    return systems.PAIRS // len(operand.lengths)


@pairs_at_once.register
def _(operand: Leaf) -> int | None:
    batch: Batch = operand.batch
    return gaussian_fused.PAIRS if isinstance(batch, Gaussians) and gaussian_fused.fits(batch) else None
