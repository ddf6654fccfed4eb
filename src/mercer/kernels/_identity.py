"""What the values of a matrix depend on, as text: a matrix on disk is continued only for the same kernel and data."""

from __future__ import annotations

import functools
import platform
from typing import Any

import joblib
import numpy as np
from array_api_compat import is_array_api_obj
from sklearn.base import clone

from mercer._array import to_numpy
from mercer._cache import parameter_key
from mercer._native.library import build
from mercer.data.segments import data_digests
from mercer.kernels._data import has_digests, n_objects, unwrapped


def identity(kernel: Any, X: Any, Y: Any = None) -> dict[str, Any]:
    """Return everything that the matrix of ``X`` and ``Y`` depends on; nothing is fitted.

    The digests are those of the checked input, not of the models fitted to it, which depend on the processor in the
    last digits.

    Returns
    -------
    dict
        ``kernel``, its text; ``parameters``, ``fitted`` and ``data``, digests of its parameters, of what it learned
        before the call (empty if nothing) and of the input; ``objects``, the number on each side; ``processor``, on
        which values depend to rounding.
    """
    kernel._check_parameters()
    sides = [unwrapped(side) for side in (X, Y) if side is not None]
    fitted = hasattr(kernel, "train_")
    if fitted:
        accepted = [kernel._admit(side, reset=False) for side in sides]
    else:
        accepted = [clone(kernel)._admit(side, reset=True) for side in sides]
    known, objects = parameter_key(kernel), [n_objects(side) for side in sides]
    return {
        "kernel": " ".join(str(kernel).split()),
        "parameters": "" if known is None else str(joblib.hash(known)),
        "fitted": str(joblib.hash((kernel._learned(), _digest(kernel.train_)))) if fitted else "",
        "data": str(joblib.hash([objects, *map(_digest, accepted)])),
        "objects": objects,
        "processor": processor(),
    }


def _digest(source: Any) -> Any:
    if has_digests(source):
        return np.frombuffer(b"".join(data_digests(source)), dtype=np.uint8)
    return to_numpy(source) if is_array_api_obj(source) else source


@functools.cache
def processor() -> str:
    """Return the kind of this processor, and the level of the instruction set that the native library uses."""
    return f"{platform.machine()} {build().level}"
