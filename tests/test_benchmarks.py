"""The comparison of two checkouts: every row runs, and a comparison with this checkout itself."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from benchmarks import bench_native

import mercer as mc


@pytest.mark.parametrize("name", bench_native.ROWS)
def test_every_row_runs(name: str):
    with mc.config(n_jobs=1, progress=False):
        assert math.isfinite(bench_native.summary(bench_native.ROWS[name](True)()))


@pytest.mark.slow
def test_a_checkout_against_itself(capfd: pytest.CaptureFixture[str]):
    source = str(Path(bench_native.__file__).parents[1] / "src")
    bench_native.main(["--quick", "--rows", "gram HMM, states 3", "points", "--against", source])
    out = capfd.readouterr().out
    assert "geometric mean of 4 ratios" in out
    assert "differ" not in out


def test_a_folder_without_mercer_is_named(tmp_path: Path):
    with pytest.raises(SystemExit, match="has no mercer"):
        bench_native.main(["--quick", "--rows", "points", "--against", str(tmp_path)])


def test_an_unknown_row_lists_all(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        bench_native.main(["--rows", "nothing"])
    assert "gram HMM, states 30" in capsys.readouterr().err
