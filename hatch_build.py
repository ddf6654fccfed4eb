"""Compile native/ once per level of the instruction set: a hook of hatchling, and a command for a checkout.

``python hatch_build.py`` builds the libraries of this machine into src/mercer/_native/; options: ``--level v3``,
``--sanitize``, ``--all`` (every level, as for a wheel). CXX chooses the compiler; without any, ziglang is used, which
pip then installs into the build environment.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # as a command, in an environment without hatchling
    BuildHookInterface = object

ROOT = Path(__file__).parent
TARGET = ROOT / "src" / "mercer" / "_native"
_specification = importlib.util.spec_from_file_location("mercer_library", TARGET / "library.py")
library: Any = importlib.util.module_from_spec(_specification)  # type: ignore[arg-type]
_specification.loader.exec_module(library)  # type: ignore[union-attr]  # without importing mercer
FLAGS = "-std=c++20 -O3 -fno-math-errno -fPIC -shared -fvisibility=hidden -fno-exceptions -fno-rtti -Wall -Wextra"
SANITIZERS = "-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer"
MOST_SECONDS = 900


def compiler() -> tuple[list[str], str]:
    """Return the command of the C++ compiler, and how it spells a level of x86-64."""
    for name in (os.environ.get("CXX"), "c++", "g++", "clang++"):
        if name and shutil.which(shlex.split(name)[0]):
            return shlex.split(name), "-march=x86-64-{}"
    return [sys.executable, "-m", "ziglang", "c++"], "-mcpu=x86_64_{}"


def levels(every: bool) -> list[str]:
    """Return the levels to build: on x86-64 all for a wheel, else the lowest, the usual one, and this machine's own."""
    able = library.supported()
    return ["v2", "v3", "v4"] if every and able != ["base"] else sorted({*able, "v3"} if "v2" in able else able)


def build(names: list[str], sanitize: bool = False) -> list[Path]:
    """Compile the libraries of some levels next to each other; raise a sentence if one fails."""
    command, spelled = compiler()
    version = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False).stdout
    # Multiply-adds as the source has them: clang's "fast" depends on the code around, gcc's "on" is none at all
    flags = f"{FLAGS} -ffp-contract={'on' if 'clang' in version else 'fast'}{f' {SANITIZERS}' if sanitize else ''}"

    def one(level: str) -> Path:
        out = TARGET / f"mercer_{level}.so"
        march = [] if level == "base" else [spelled.format(level)]
        about = "|".join([library.digest(ROOT), version.partition("\n")[0], " ".join([*flags.split(), *march])])
        partial = out.with_suffix(f".{os.getpid()}.partial")
        define = "-DMERCER_BUILD=" + '"{}"'.format(about.replace('"', "'"))
        call = [*command, *flags.split(), *march, define, "-o", str(partial), str(ROOT / "native" / "mercer.cpp")]
        try:
            done = subprocess.run(call, capture_output=True, text=True, timeout=MOST_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise RuntimeError(f"mercer's native library could not be compiled: {error}") from error
        if done.returncode:
            raise RuntimeError(
                f"mercer's native library could not be compiled for level {level} by {command[0]} "
                f"(set CXX to g++ 11, clang 14 or later): {done.stderr.strip()[-2000:]}"
            )
        partial.replace(out)
        return out

    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        return list(pool.map(one, reversed(names)))  # the highest level takes longest


def platform_tag() -> str:
    """Return the tag of a wheel for this machine, or of MERCER_WHEEL_PLATFORM."""
    import sysconfig

    return os.environ.get("MERCER_WHEEL_PLATFORM") or sysconfig.get_platform().replace("-", "_").replace(".", "_")


class NativeHook(BuildHookInterface):  # type: ignore[misc, valid-type]
    """Builds the libraries before a wheel or an editable install."""

    def dependencies(self) -> list[str]:
        """Return what the build needs besides hatchling: a compiler where there is none."""
        return ["ziglang>=0.13"] if "ziglang" in compiler()[0] else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and put the libraries into the wheel."""
        if self.target_name != "wheel":
            return
        build(levels(every=bool(os.environ.get("MERCER_ALL_LEVELS"))))
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform_tag()}"
        build_data["artifacts"].append("src/mercer/_native/*.so")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--level", action="append", help="build this level only; can be repeated")
    parser.add_argument("--all", action="store_true", help="build every level, as for a wheel")
    parser.add_argument("--sanitize", action="store_true", help="with address and undefined-behavior sanitizers")
    options = parser.parse_args()
    for path in build(options.level or levels(options.all), options.sanitize):
        print(path.relative_to(ROOT))
