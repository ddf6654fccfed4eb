"""The border between Python and C++: the description of arguments, the checks of arrays, the choice of a library."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.linalg import _umath_linalg

from mercer._native import call, library

SOURCE = """
struct Side {
  View<const double, 2> mean;  // [N d]

  int64_t count() const { return mean.shape[0]; }
};
struct Base {
  int64_t width;
};
struct Arguments : Base {
  Side left;
  Side right;  // [N=M]
  View<const uint8_t, 1> kept;  // [3*d]? which
  double scale;
  View<double, 2> out;  // [N M] results
};
MERCER_CALL(distances, Arguments, distances(*a))
"""


def described(folder, source: str) -> str:
    (folder / "native").mkdir(exist_ok=True)
    (folder / "native" / "mercer.cpp").write_text(source, encoding="utf-8")
    return library.signatures(folder)


def test_signatures_are_read_from_structs(tmp_path):
    expected = (
        "distances width: int64_t; left.mean: const double[N d]; right.mean: const double[M d]; "
        "kept: const uint8_t[3*d]?; scale: double; out: double[N M]"
    )
    assert described(tmp_path, SOURCE) == expected


@pytest.mark.parametrize(
    ("member", "other"),
    [
        ("View<double, 2> out;  // [N M]", "View<double, 2> out;  // N M"),
        ("View<double, 2> out;  // [N M]", "View<double, 2> out;  // [N]"),
        ("double scale;", "double scale, other;"),
    ],
)
def test_members_that_cannot_be_read_fail_the_build(tmp_path, member, other):
    with pytest.raises(ValueError, match=r"Arguments.* (needs a comment|cannot be read)"):
        described(tmp_path, SOURCE.replace(member, other))


def good() -> dict:
    transition = np.full((1, 2, 2), 0.5)
    return {
        "left": (np.full((1, 2), 0.5), transition), "right": (np.full((1, 2), 0.5), transition), "logarithms": 0,
        "rows": np.zeros(1, np.int64), "columns": np.zeros(1, np.int64), "log_psi": np.zeros((1, 2, 2)),
        "lengths": np.array([1, 3]), "log_value": np.empty((2, 1)),
    }  # fmt: skip


def test_a_good_call():
    arguments = good()
    call("ranged_chains", **arguments)
    np.testing.assert_allclose(arguments["log_value"], 0.0, atol=1e-15)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"log_value": np.empty((2, 1), np.float32)}, "log_value must be a contiguous float64 array with 2 axes"),
        ({"log_value": np.empty((2, 2))[:, ::2]}, "log_value must be a contiguous"),
        ({"log_value": np.broadcast_to(0.0, (2, 1))}, "log_value must be a contiguous"),
        ({"log_value": np.empty((3, 1))}, r"log_value has shape \(3, 1\); H must be 2"),
        ({"log_psi": np.zeros((1, 3, 2))}, r"log_psi has shape \(1, 3, 2\); n must be 2"),
        ({"left": (np.zeros(2), np.zeros((1, 2, 2)))}, "left.initial must be a contiguous float64 array with 2 axes"),
    ],
)
def test_arrays_are_checked(change, message):
    with pytest.raises(ValueError, match=message):
        call("ranged_chains", **(good() | change))


def test_other_dtypes_and_layouts_of_inputs_are_copied():
    arguments = good() | {"right": (np.full((1, 2), 0.5), np.asfortranarray(np.full((1, 2, 2), 0.5, np.float32)))}
    call("ranged_chains", **arguments)
    np.testing.assert_allclose(arguments["log_value"], 0.0, atol=1e-15)


def test_a_missing_argument_is_named():
    with pytest.raises(ValueError, match="takes"):
        call("ranged_chains", lengths=np.zeros(2))


# ------------------------------------------------------------------ the choice of a library


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | environment, check=False
    )


@pytest.mark.parametrize("level", library.supported())
def test_every_level_of_this_processor_loads(level):
    found = run("from mercer._native import library; print(library.build())", MERCER_ISA=level)
    assert f"level='{level}'" in found.stdout, found.stderr


def test_a_level_that_the_processor_lacks_is_refused(monkeypatch):
    monkeypatch.setenv("MERCER_ISA", "v9")
    with pytest.raises(ImportError, match=r"MERCER_ISA=v9 cannot run on this processor\. It supports"):
        library._level()


def test_a_missing_library_is_named(monkeypatch, tmp_path):
    monkeypatch.delenv("MERCER_ISA", raising=False)
    monkeypatch.setattr(library, "_FOLDER", tmp_path)
    monkeypatch.delenv("MERCER_ISA", raising=False)
    with pytest.raises(ImportError, match=r"native library is missing.*python hatch_build\.py"):
        library._level()


def test_a_stale_library_is_refused(monkeypatch):
    monkeypatch.setattr(library, "digest", lambda root: "other")
    with pytest.raises(ImportError, match=r"older than its sources.*python hatch_build\.py"):
        library.loaded.__wrapped__()


@pytest.fixture
def copy_of_library(tmp_path, monkeypatch):
    """Load from a folder of its own."""
    monkeypatch.setattr(library, "_FOLDER", tmp_path)
    monkeypatch.delenv("MERCER_ISA", raising=False)
    level = library.supported()[-1]
    return tmp_path / f"mercer_{level}.so"


@pytest.mark.skipif(sys.platform != "linux", reason="ELF")
@pytest.mark.parametrize("share", [0.0, 1e-5, 0.01, 0.5, 0.99])
def test_a_library_that_is_cut_short_is_refused(copy_of_library, share):
    whole = next(Path(library.__file__).parent.glob("mercer_*.so")).read_bytes()
    copy_of_library.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(ImportError, match=r"library .*mercer_.*\.so cannot be loaded \(.*short\).*pip install --force"):
        library.loaded.__wrapped__()


def test_another_library_in_its_place_is_refused(copy_of_library):
    copy_of_library.symlink_to(_umath_linalg.__file__)
    with pytest.raises(ImportError, match=r"cannot be loaded \(.*mercer_build.*\)\. In a checkout, build it"):
        library.loaded.__wrapped__()


def test_a_file_that_is_no_library_is_refused(copy_of_library):
    copy_of_library.write_bytes(b"no library" * 100)
    with pytest.raises(ImportError, match=r"cannot be loaded \(.*\)\. In a checkout, build it: python hatch_build"):
        library.loaded.__wrapped__()
