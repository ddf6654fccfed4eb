"""SIMD width and number of vector registers of the machine that Numba compiles for.

Numba decides what the target is, so that ``NUMBA_CPU_NAME`` and ``NUMBA_CPU_FEATURES`` count here too. Results of
compiled loops are the same bits for any number of threads on one kind of processor; processors of different width add
in a different order, and agree to about 1e-12.
"""

from __future__ import annotations

from typing import NamedTuple

from numba.core.registry import cpu_target


class Machine(NamedTuple):
    """What compiled loops need to know of a processor."""

    width: int
    """float64 numbers in a vector register."""
    registers: int
    """Number of vector registers."""


def _machine(triple: str, features: str) -> Machine:
    """Read the target's triple and its features, such as ``+avx2,-avx512f``."""
    has = set(features.split(","))
    if triple.startswith(("aarch64", "arm64")):
        return Machine(2, 32)  # NEON
    if "+avx512f" in has:
        return Machine(8, 32)
    return Machine(4 if "+avx2" in has or "+avx" in has else 2, 16)


def _target() -> Machine:
    triple, _, features = cpu_target.target_context.codegen().magic_tuple()
    return _machine(triple, features)


MACHINE = _target()
