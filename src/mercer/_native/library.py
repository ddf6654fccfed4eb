"""Find and load the library of the highest level that is both present and supported; one is ever loaded."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import re
import struct
from pathlib import Path
from typing import NamedTuple

_FOLDER = Path(__file__).parent
_ROOT = _FOLDER.parents[2]
REBUILD = "python hatch_build.py"
_INSTALL = "pip install --force-reinstall --no-deps mercer"
_CURE = f"In a checkout, build it: {REBUILD}. Otherwise install mercer again: {_INSTALL}"
# Features as /proc/cpuinfo spells them; a level needs these and those of the levels below it.
_NEEDS = {
    "v2": {"sse4_2", "popcnt", "ssse3"},
    "v3": {"avx2", "fma", "bmi1", "bmi2", "movbe", "f16c"},
    "v4": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
}


class Build(NamedTuple):
    """How the loaded library was built."""

    level: str
    digest: str
    compiler: str
    flags: str


def supported() -> list[str]:
    """Return the levels that this processor can run, the lowest first."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return ["base"]
    features = _features()
    found: list[str] = []
    for level, needs in _NEEDS.items():
        if features is not None and not needs <= features:
            break
        found.append(level)
    return found


def _features() -> set[str] | None:
    """Return the features of the processor; None where the system does not list them."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return set().union(*(_NEEDS[level] for level in ("v2", "v3")))
    return next((set(line.split()) for line in text.splitlines() if line.startswith("flags")), None)


_STRUCT = re.compile(r"^struct (\w+)(?: : (\w+))? \{\n(.*?)^\};", re.DOTALL | re.MULTILINE)
_MEMBER = re.compile(r"^  (?:View<((?:const )?\w+), (\d)>|(\w+)) (\w+);(?: *// *\[(.*?)\](\??))?", re.MULTILINE)


def _sources(root: Path) -> list[Path]:
    return sorted((root / "native").glob("*.?pp"))


def digest(root: Path) -> str:
    """Return a digest of the sources in a checkout and of this file, which reads signatures; a library carries it."""
    found = hashlib.sha256()
    for path in (*_sources(root), Path(__file__)):
        found.update(path.name.encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:16]


def signatures(root: Path) -> str:
    """Return the arguments of all functions, which a library carries: read from the structs in a checkout.

    The text is ``function field; field|function ...``. A field is ``name: type``, arrays with ``[sizes]`` and ``?`` if
    they can be None; fields of a base are its own, those of a member that is a struct have its name before a dot.
    """
    text = "".join(path.read_text(encoding="utf-8") for path in _sources(root))
    structs = {name: (base, body.split("\n\n")[0]) for name, base, body in _STRUCT.findall(text)}

    def fields(struct: str, before: str, renamed: dict[str, str]) -> list[str]:
        base, body = structs[struct]
        members = _MEMBER.findall(body)
        if len(members) != re.sub(r"//.*", "", body).count(";"):
            raise ValueError(f"native: {struct} has a member that cannot be read; write one per line, as type name;")
        found = fields(base, before, renamed) if base else []
        for array, axes, kind, name, sizes, optional in members:
            if kind in structs:
                found += fields(kind, f"{name}.", dict(size.split("=") for size in sizes.split()))
                continue
            names = [renamed.get(size, size) for size in sizes.split()]
            if array and len(names) != int(axes):
                raise ValueError(f"native: {struct}.{name} needs a comment with the names of its sizes: // [n m]")
            found.append(f"{before}{name}: {array or kind}" + (f"[{' '.join(names)}]{optional}" if array else ""))
        return found

    calls = re.findall(r"^MERCER_CALL\((\w+), (\w+),", text, re.MULTILINE)
    return "|".join(f"{name} " + "; ".join(fields(struct, "", {})) for name, struct in calls)


def _level() -> str:
    """Choose a level; MERCER_ISA forces one."""
    present = {path.stem.removeprefix("mercer_") for path in _FOLDER.glob("mercer_*.so")}
    able, forced = supported(), os.environ.get("MERCER_ISA")
    if forced:
        if forced not in able:
            raise ImportError(f"MERCER_ISA={forced} cannot run on this processor. It supports {', '.join(able)}.")
        if forced not in present:
            raise ImportError(f"There is no native library of level {forced}. Build it: {REBUILD} --level {forced}")
        return forced
    usable = [level for level in able if level in present]
    if not usable:
        raise ImportError(f"mercer's native library is missing. {_CURE}")
    return usable[-1]


def is_cut(path: Path) -> bool:
    """Whether an ELF file ends before its table of sections, the last thing in it: to load it can end the process."""
    with open(path, "rb") as file:
        head = file.read(64)
    if head[:5] != b"\x7fELF\x02" or len(head) < 64:
        return False  # not ELF of 64 bits, or hardly begun: the system refuses it
    offset, size, count = *struct.unpack_from("<Q", head, 0x28), *struct.unpack_from("<HH", head, 0x3A)
    return bool(offset + size * count > path.stat().st_size)


@functools.cache
def loaded() -> ctypes.CDLL:
    """Return the library, loaded on first use."""
    path = _FOLDER / f"mercer_{_level()}.so"
    try:
        if is_cut(path):
            raise OSError("the file is cut short")
        found = ctypes.CDLL(str(path))
        found.mercer_build.restype = found.mercer_signatures.restype = ctypes.c_char_p
    except (OSError, AttributeError) as error:  # not a library, or another one
        reason = str(error).removeprefix(f"{path}: ")
        raise ImportError(f"mercer's native library {path} cannot be loaded ({reason}). {_CURE}") from error
    if (_ROOT / "native").is_dir() and found.mercer_build().decode().partition("|")[0] != digest(_ROOT):
        raise ImportError(f"The native library is older than its sources in native/. Build it again: {REBUILD}")
    return found


def build() -> Build:
    """Return how the loaded library was built."""
    digest, compiler, flags = loaded().mercer_build().decode().split("|", 2)
    return Build(_level(), digest, compiler, flags)
