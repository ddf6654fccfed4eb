"""Movement of arrays between NumPy and the device of the settings; torch is imported only if a device is set."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import is_numpy_array

from mercer import _config
from mercer._array import Array, Floats, to_numpy


def target() -> Any:
    """Return the torch device of the settings; None to compute where the arrays are. Raise if it is not there."""
    name = _config.settings().device
    if name is None:
        return None
    return checked(name, "Use mc.set_config(device=None) to compute on the CPU.")


def checked(name: Any, cure: str) -> Any:
    """Return a torch device by its name; raise, in a sentence that ends with the cure, if it is not there."""
    try:
        import torch
    except ImportError:
        raise ImportError(f"device={name!r} needs torch, which is not installed. {cure}") from None
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError, ValueError):
        raise ValueError(f"device must be a device of torch, such as 'cuda' or 'cpu'; got {name!r}. {cure}") from None
    if device.type != "cuda":
        return device
    if not torch.cuda.is_available():
        raise RuntimeError(f"device={name!r} needs an NVIDIA GPU, and torch {torch.__version__} finds none. {cure}")
    if device.index is not None and device.index >= torch.cuda.device_count():
        raise RuntimeError(f"device={name!r} does not exist; torch finds {torch.cuda.device_count()} device(s). {cure}")
    return device


class _Writable:
    """A view that hides the read-only flag of an array, because torch warns even if it only reads."""

    def __init__(self, x: Floats) -> None:
        self.base = x
        self.__array_interface__ = {**x.__array_interface__, "data": (x.__array_interface__["data"][0], False)}


def moved(x: Array, device: Any) -> Array:
    """Return a NumPy array as a torch tensor on a device; other arrays, and host memory for ``"cpu"``, as NumPy."""
    if str(device) == "numpy":
        return to_numpy(x)
    import torch

    if not is_numpy_array(x):
        return x.to(device) if hasattr(x, "to") else torch.asarray(to_numpy(x), device=device)
    whole = np.ascontiguousarray(x)
    if whole.size == 0 or whole.flags.writeable or str(device) == "cpu":
        return torch.tensor(whole, device=device)
    return torch.from_numpy(np.asarray(_Writable(whole))).to(device)
