"""Compute, diagnose, check, save and load Gram matrices."""

from mercer.gram import psd
from mercer.gram._compute import Estimate, compute, estimate
from mercer.gram._diagnose import Diagnosis, DiagonalDominanceWarning, alignment, diagnose
from mercer.gram._engine import Run, runs
from mercer.gram._file import GramFile, load, save
from mercer.gram._memo import memo

__all__ = [
    "Diagnosis",
    "DiagonalDominanceWarning",
    "Estimate",
    "GramFile",
    "Run",
    "alignment",
    "compute",
    "diagnose",
    "estimate",
    "load",
    "memo",
    "psd",
    "runs",
    "save",
]
