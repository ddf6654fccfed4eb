"""Compute, diagnose, check, save and load Gram matrices."""

from typing import Any

from mercer import _renamed
from mercer.gram import psd
from mercer.gram._compute import Estimate, compute, estimate
from mercer.gram._diagnose import Diagnosis, DiagonalDominanceWarning, diagnose, target_alignment
from mercer.gram._file import GramFile, save
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
    "target_alignment",
]


def __getattr__(name: str) -> Any:
    """Raise for a name that is not here, with the name to use where it was renamed."""
    _renamed.missing(__name__, name, _renamed.GRAM)
