"""Triton kernels for NVIDIA GPUs. Triton comes with torch on Linux.

Nothing here is imported unless `usable` says so; without Triton, array code computes the same on torch tensors.
"""

from __future__ import annotations

import functools
import os
from typing import Any

from array_api_compat import is_torch_array

LEAST_TRITON = (3, 2)
"""Older versions have no tuples of tensors."""


def usable(*arrays: Any) -> bool:
    """Whether Triton kernels take these arrays: float64 torch tensors on one CUDA device, without gradients."""
    if not all(is_torch_array(x) and not x.requires_grad for x in arrays):
        return False
    if any(str(x.dtype) != "torch.float64" for x in arrays) or len({x.device for x in arrays}) != 1:
        return False
    return takes(arrays[0].device)


def takes(device: Any) -> bool:
    """Whether Triton kernels run on a torch device."""
    return (device.type == "cuda" or interpreted()) and has_triton()


def interpreted() -> bool:
    """Whether Triton runs its programs in Python on the CPU, for tests."""
    return os.environ.get("TRITON_INTERPRET") == "1"


@functools.cache
def has_triton() -> bool:
    """Whether Triton is installed, and new enough."""
    try:
        import triton
    except ImportError:
        return False
    return tuple(int(part) for part in triton.__version__.split(".")[:2]) >= LEAST_TRITON


def n_programs(jobs: int, programs: int, device: Any) -> int:
    """Return the number of programs to launch: at most one per job, and ``programs`` per multiprocessor of a GPU."""
    import torch

    many = torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1
    return max(1, min(jobs, programs * many))
