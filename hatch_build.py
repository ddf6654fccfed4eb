"""Compile native/ once per level of the instruction set: a hook of hatchling, and a command for a checkout.

``python hatch_build.py`` builds the libraries of this machine into src/mercer/_native/; options: ``--level v3``,
``--sanitize``, ``--all`` (every level, as for a wheel). CXX chooses the compiler; without any, ziglang is used, which
pip then installs into the build environment. MERCER_WHEEL_PLATFORM makes a wheel for one of `TARGETS`, by ziglang.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # as a command, in an environment without hatchling
    BuildHookInterface = object

ROOT = Path(__file__).parent
FOLDER = ROOT / "src" / "mercer" / "_native"
_specification = importlib.util.spec_from_file_location("mercer_library", FOLDER / "library.py")
library: Any = importlib.util.module_from_spec(_specification)  # type: ignore[arg-type]
_specification.loader.exec_module(library)  # type: ignore[union-attr]  # without importing mercer
# -fwrapv: where a number is not finite, the exponent that it has in another lane may overflow.
FLAGS = "-std=c++20 -O3 -fwrapv -fno-math-errno -fPIC -shared -fvisibility=hidden -fno-exceptions -fno-rtti -Wall"
SANITIZERS = "-O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer"
MOST_SECONDS = 900
TARGETS = {  # platform tags of wheels, and zig's names of the systems
    "manylinux_2_17_x86_64": "x86_64-linux-gnu.2.17",
    "manylinux_2_17_aarch64": "aarch64-linux-gnu.2.17",
    "macosx_11_0_x86_64": "x86_64-macos.11.0",
    "macosx_11_0_arm64": "aarch64-macos.11.0",
}
ZIG = [sys.executable, "-m", "ziglang", "c++"]


def platform_asked() -> str | None:
    """Return the platform of MERCER_WHEEL_PLATFORM; None for this machine."""
    asked = os.environ.get("MERCER_WHEEL_PLATFORM") or None
    if asked is not None and asked not in TARGETS:
        raise SystemExit(f"MERCER_WHEEL_PLATFORM must be one of {', '.join(TARGETS)}; got {asked!r}.")
    return asked


def compiler() -> list[str]:
    """Return the command of the C++ compiler."""
    if os.environ.get("CXX"):
        return shlex.split(os.environ["CXX"])
    asked = platform_asked()
    if asked is not None:
        return [*ZIG, "-target", TARGETS[asked]]
    return next(([name] for name in ("c++", "g++", "clang++") if shutil.which(name)), ZIG)


def spelled(command: list[str], level: str) -> list[str]:
    """Return the flags of a compiler for a level; zig would compile a C++ runtime, which is not used, and debug it."""
    zig = any("zig" in Path(word).name for word in command)
    own = ["-nostdlib++", "-s"] if zig else []
    return own if level == "base" else [*own, f"-mcpu=x86_64_{level}" if zig else f"-march=x86-64-{level}"]


def levels(every: bool = False) -> list[str]:
    """Return the levels to build: on x86-64 all for a wheel, else the lowest, the usual one, and this machine's own."""
    asked, able = platform_asked(), library.supported()
    if asked is not None or every:
        return ["v2", "v3", "v4"] if ("x86_64" in asked if asked else able != ["base"]) else ["base"]
    return sorted({*able, "v3"} if "v2" in able else able)


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run the compiler; end in a sentence if that is impossible."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=MOST_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = f"took over {MOST_SECONDS} s" if isinstance(error, subprocess.TimeoutExpired) else error.strerror
        raise SystemExit(
            f"mercer's native library could not be compiled: {command[0]}: {reason}. Set CXX to a C++ compiler."
        ) from error


def build(names: list[str], folder: Path = FOLDER, sanitize: bool = False) -> list[Path]:
    """Compile the libraries of some levels into a folder; those of the same sources, compiler and flags are kept."""
    command = compiler()
    plain = ZIG if command[: len(ZIG)] == ZIG else command  # asked with a target, zig leaves an empty a.o
    version = run([*plain, "--version"]).stdout.partition("\n")[0]
    # Multiply-adds as the source has them: clang's "fast" depends on the code around, gcc's "on" is none at all
    contract = f"-ffp-contract={'on' if 'clang' in version else 'fast'}"

    def one(level: str) -> Path:
        out = folder / f"mercer_{level}.so"
        flags = [*FLAGS.split(), contract, *(SANITIZERS.split() if sanitize else []), *spelled(command, level)]
        about = "|".join([library.digest(ROOT), version, " ".join([*command[1:], *flags])]).replace('"', "'")
        if out.exists() and not library.is_cut(out) and about.encode() + b"\0" in out.read_bytes():
            return out
        partial = out.with_suffix(f".{os.getpid()}.partial")
        texts = {"BUILD": about, "SIGNATURES": library.signatures(ROOT)}
        defines = [f'-DMERCER_{name}="{text}"' for name, text in texts.items()]
        done = run([*command, *flags, *defines, "-o", str(partial), str(ROOT / "native" / "mercer.cpp")])
        if done.returncode:
            raise SystemExit(
                f"{done.stderr.strip()}\nmercer's native library could not be compiled for level {level} by "
                f"{command[0]}, whose messages are above. Set CXX to g++ 11, clang 14 or later."
            )
        partial.replace(out)
        return out

    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        return list(pool.map(one, reversed(names)))  # the highest level takes longest


class NativeHook(BuildHookInterface):  # type: ignore[misc, valid-type]
    """Builds the libraries before a wheel or an editable install."""

    def dependencies(self) -> list[str]:
        """Return what the build needs besides hatchling: a compiler where there is none."""
        return ["ziglang>=0.13"] if "ziglang" in compiler() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and put the libraries into the wheel."""
        if self.target_name != "wheel":
            return
        asked = platform_asked()
        self.folder = tempfile.TemporaryDirectory()  # lives as long as the hook
        for path in build(levels(), FOLDER if asked is None else Path(self.folder.name)):
            build_data["force_include"][str(path)] = f"mercer/_native/{path.name}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{asked or sysconfig.get_platform().replace('-', '_').replace('.', '_')}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--level", action="append", help="build this level only; can be repeated")
    parser.add_argument("--all", action="store_true", help="build every level, as for a wheel")
    parser.add_argument("--sanitize", action="store_true", help="with address and undefined-behavior sanitizers")
    options = parser.parse_args()
    for path in build(options.level or levels(options.all), sanitize=options.sanitize):
        print(path.relative_to(ROOT))
