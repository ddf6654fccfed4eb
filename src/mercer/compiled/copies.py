"""Copies of vectors. An assignment of slices would compile broadcasting and its messages, which takes two seconds."""

from __future__ import annotations

from mercer._array import Floats
from mercer.compiled.code import compiled


@compiled
def copy_to(out: Floats, values: Floats) -> None:  # pragma: no cover - compiled
    """Copy ``values`` to the beginning of ``out``."""
    for i in range(len(values)):
        out[i] = values[i]
