"""SIMD width and number of vector registers of the machine that Numba compiles for.

The target is that of Numba, so that ``NUMBA_CPU_NAME`` and ``NUMBA_CPU_FEATURES`` apply here too. On one kind of
processor, results of compiled loops are bit-identical for any number of threads; processors of different width sum in
a different order, and agree to about 1e-12.
"""

from __future__ import annotations

from typing import NamedTuple

from numba.core.registry import cpu_target


class Machine(NamedTuple):
    """The properties of a processor that compiled loops depend on."""

    width: int
    """Number of float64 values in a vector register."""
    registers: int
    """Number of vector registers."""


def _machine(triple: str, features: str) -> Machine:
    """Parse the target triple and its features, such as ``+avx2,-avx512f``."""
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


def name() -> str:
    """Return the architecture and the processor that Numba compiles for, such as "x86_64 znver3"."""
    triple, cpu, _ = cpu_target.target_context.codegen().magic_tuple()
    return f"{triple.partition('-')[0]} {cpu}"
