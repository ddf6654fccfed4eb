"""The bits of a sample depend on no neighbor and no order, at every level of the instruction set."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.native.bits import CASES, check

from mercer._native import library


@pytest.mark.parametrize("name", CASES)
def test_neighbors_do_not_change_a_bit(name):
    check(name)


@pytest.mark.parametrize("level", library.supported()[:-1])  # the highest runs above
def test_neighbors_do_not_change_a_bit_at_lower_levels(level):
    found = subprocess.run(
        [sys.executable, "-m", "tests.native.bits"],
        env=os.environ | {"MERCER_ISA": level}, cwd=Path(__file__).parents[2],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr[-2000:]
    assert found.stdout.splitlines() == list(CASES)
