"""The border between Python and C++: the table of signatures, the checks of arrays, the choice of a library."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mercer._native import call, fields, library
from mercer._native.signatures import GROUPS, SIGNATURES

SOURCES = Path(__file__).parents[2] / "native"
CODES = {"double": "f64", "float": "f32", "int64_t": "i64", "int32_t": "i32", "uint8_t": "u8"}
DTYPES = {"float64": "f64", "float32": "f32", "int64": "i64", "int32": "i32", "uint8": "u8"}


def structs() -> dict[str, list[tuple[str, str]]]:
    """Parse the structs in native/: for each the names of its fields and their types, with those of inner structs."""
    found = {}
    for path in SOURCES.glob("*.hpp"):
        pattern = r"struct (\w+)(?: : (\w+))? \{\n(.*?)\n\};"
        for name, base, body in re.findall(pattern, path.read_text(encoding="utf-8"), re.S):
            body = re.sub(r"\s*\n\s+", " ", re.sub(r"//.*", "", body.split("\n\n")[0]))
            parts = [part.strip() for part in body.split(";") if part.strip()]
            own = [tuple(part.rsplit(" ", 1)[::-1]) for part in parts]
            found[name] = [("", base), *own] if base else own
    return {name: [one for field in found[name] for one in inner(*field, found)] for name in found if "Arg" in name}


def inner(field: str, kind: str, known: dict[str, list[tuple[str, str]]]) -> list[tuple[str, str]]:
    """Return a field, or those of an inner struct; fields of a group have its name before a dot."""
    before = f"{field}." if kind in GROUPS else ""
    return [(before + part, own) for part, own in known[kind]] if kind in known else [(field, kind)]


def prototypes() -> dict[str, str]:
    """Parse the exported functions: for each the struct that it takes."""
    source = (SOURCES / "mercer.cpp").read_text(encoding="utf-8")
    return dict(re.findall(r"^MERCER_CALL\((\w+), (\w+),", source, re.M))


def spelled(field) -> str:
    if field.dtype is None:
        return {"q": "int64_t", "d": "double"}[field.code]
    kind = next(c for c, short in CODES.items() if short == DTYPES[field.dtype.name])
    return f"View<{'' if field.written else 'const '}{kind}, {len(field.sizes)}>"


def test_every_exported_function_has_a_signature():
    assert sorted(prototypes()) == sorted(SIGNATURES)


@pytest.mark.parametrize("name", SIGNATURES)
def test_the_table_is_that_of_the_structs(name):
    assert [(field.name, spelled(field)) for field in fields(name)] == structs()[prototypes()[name]]


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
