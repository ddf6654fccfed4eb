"""Compute, diagnose, check, save and load Gram matrices."""

from mercer.gram import psd
from mercer.gram._compute import Estimate, compute, estimate
from mercer.gram._diagnose import Diagnosis, DiagonalDominanceWarning, diagnose, target_alignment
from mercer.gram._file import GramFile, save
from mercer.gram._solve import solve
from mercer.gram.engine import Run, runs
from mercer.gram.pair_memo import memo

__all__ = [
    "Diagnosis",
    "DiagonalDominanceWarning",
    "Estimate",
    "GramFile",
    "Run",
    "compute",
    "diagnose",
    "estimate",
    "memo",
    "psd",
    "runs",
    "save",
    "solve",
    "target_alignment",
]
