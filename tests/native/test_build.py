"""The build of the native library: compilers, levels, wheels for other systems, and sentences when it fails."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import struct
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def builder(monkeypatch):
    for name in ("CXX", "MERCER_WHEEL_PLATFORM"):
        monkeypatch.delenv(name, raising=False)
    specification = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_the_compiler_is_asked_for_found_or_fetched(builder, monkeypatch):
    monkeypatch.setattr(builder.shutil, "which", lambda name: name if name == "clang++" else None)
    assert builder.compiler() == ["clang++"]
    monkeypatch.setattr(builder.shutil, "which", lambda name: None)
    assert builder.compiler() == [sys.executable, "-m", "ziglang", "c++"]
    monkeypatch.setenv("CXX", "ccache g++ -m64")
    assert builder.compiler() == ["ccache", "g++", "-m64"]


def test_a_wheel_for_another_system_is_built_by_zig(builder, monkeypatch):
    monkeypatch.setenv("MERCER_WHEEL_PLATFORM", "manylinux_2_17_aarch64")
    assert builder.compiler()[-3:] == ["c++", "-target", "aarch64-linux-gnu.2.17"]
    assert builder.levels() == ["base"]
    monkeypatch.setenv("MERCER_WHEEL_PLATFORM", "manylinux_2_17_x86_64")
    assert builder.levels() == ["v2", "v3", "v4"]
    monkeypatch.setenv("MERCER_WHEEL_PLATFORM", "windows")
    with pytest.raises(SystemExit, match=r"must be one of manylinux_2_17_x86_64.*got 'windows'"):
        builder.levels()


def test_levels_of_this_machine(builder, monkeypatch):
    for able, usual, every in (
        (["v2"], ["v2", "v3"], ["v2", "v3", "v4"]),
        (["v2", "v3", "v4"], ["v2", "v3", "v4"], ["v2", "v3", "v4"]),
        (["base"], ["base"], ["base"]),
    ):
        monkeypatch.setattr(builder.library, "supported", lambda able=able: able)
        assert (builder.levels(), builder.levels(every=True)) == (usual, every)


def test_levels_are_spelled_for_the_compiler(builder):
    assert builder.spelled(["g++"], "v3") == ["-march=x86-64-v3"]
    assert builder.spelled(["python", "-m", "ziglang", "c++"], "v3") == ["-nostdlib++", "-s", "-mcpu=x86_64_v3"]
    assert builder.spelled(["clang++"], "base") == []


def elf(content):
    """Return an ELF file whose table of sections should begin after its end."""
    return b"\x7fELF\x02" + bytes(35) + struct.pack("<Q", 10**6) + bytes(16) + content


def test_a_library_is_kept_while_sources_compiler_and_flags_are_the_same(builder, monkeypatch, tmp_path):
    compiled = []

    def run(command):
        if "--version" not in command:
            compiled.append(command)
            define = next(word for word in command if word.startswith("-DMERCER_BUILD="))
            about = define.partition("=")[2].strip('"').encode()
            Path(command[command.index("-o") + 1]).write_bytes(b"code" + about + b"\0")
        return SimpleNamespace(returncode=0, stdout="compiler 1\n", stderr="")

    monkeypatch.setattr(builder, "run", run)
    for _ in range(2):
        assert builder.build(["v2", "v3"], tmp_path) == [tmp_path / "mercer_v3.so", tmp_path / "mercer_v2.so"]
    assert len(compiled) == 2
    (tmp_path / "mercer_v2.so").write_bytes(elf((tmp_path / "mercer_v2.so").read_bytes()))
    builder.build(["v2"], tmp_path)
    assert len(compiled) == 3  # one that is cut short is built again
    builder.build(["v3"], tmp_path, sanitize=True)
    monkeypatch.setattr(builder.library, "digest", lambda root: "changed")
    builder.build(["v3"], tmp_path, sanitize=True)
    assert len(compiled) == 5
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mercer_v2.so", "mercer_v3.so"]


def test_a_build_that_fails_ends_in_a_sentence(builder, monkeypatch, tmp_path):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(SystemExit, match=r"could not be compiled: no-such-compiler: No such file.*Set CXX"):
        builder.build(["v2"], tmp_path)
    failed = SimpleNamespace(returncode=1, stdout="old 1", stderr="error: unknown -std=c++20\n")
    monkeypatch.setattr(builder, "run", lambda command: failed)
    with pytest.raises(
        SystemExit, match=r"unknown -std=c\+\+20\nmercer's .* for level v2 by no-such-compiler.*g\+\+ 11"
    ):
        builder.build(["v2"], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("platform", ["manylinux_2_17_x86_64", "manylinux_2_17_aarch64", "macosx_11_0_arm64"])
def test_zig_compiles_for_other_systems(builder, monkeypatch, tmp_path, platform):
    """Compile, not run: this takes about a minute for each, with ziglang."""
    pytest.importorskip("ziglang")
    monkeypatch.setenv("MERCER_WHEEL_PLATFORM", platform)
    built = builder.build(builder.levels(), tmp_path)
    start = b"\xcf\xfa\xed\xfe" if "macosx" in platform else b"\x7fELF"
    assert all(path.read_bytes()[:4] == start for path in built)
    if platform.endswith(f"linux_2_17_{os.uname().machine}"):
        for path in built:
            ctypes.CDLL(str(path), os.RTLD_NOW)  # raises if a symbol is missing, such as one of a C++ runtime
    machine = {"x86_64": 0x3E, "aarch64": 0xB7}.get(platform.partition("2_17_")[2])
    assert machine is None or all(path.read_bytes()[18] == machine for path in built)


def test_the_command_builds_one_level():
    done = subprocess.run(
        [sys.executable, str(ROOT / "hatch_build.py"), "--help"], capture_output=True, text=True, check=True
    )
    assert "--sanitize" in done.stdout
