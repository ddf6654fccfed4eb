"""The cache of compiled code: never stale, one file per instance, and no failure where nothing can be written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import mercer

HELPER = """
from mercer.compiled.code import compiled


@compiled
def helper(x):
    return x + {number}
"""
USER = """
from mercer.compiled.code import compiled
from mercer.compiled.helper import helper


@compiled
def user(x):
    return 10 * helper(x)
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the package with two more compiled files, of which one calls the other."""
    folder = tmp_path_factory.mktemp("copy")
    ignored = shutil.ignore_patterns("*.nbi", "*.nbc", "__pycache__")
    shutil.copytree(Path(mercer.__file__).parent, folder / "mercer", ignore=ignored)
    (folder / "mercer" / "compiled" / "user.py").write_text(USER, encoding="utf-8")
    return folder


def run(package: Path, code: str, **environment: str) -> str:
    variables = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"} | {"PYTHONPATH": str(package)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=variables | environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip() + done.stderr.strip()


def test_an_edited_helper_is_seen_by_its_users(package: Path):
    helper = package / "mercer" / "compiled" / "helper.py"
    code = "from mercer.compiled.user import user; print(user(1))"
    entries = package / "mercer" / "compiled" / "__pycache__"
    for number, expected in [(1, "20"), (2, "30"), (1, "20")]:
        helper.write_text(HELPER.format(number=number), encoding="utf-8")
        assert run(package, code) == expected
        assert len(list(entries.glob("user.user.*.nbc"))) == 1  # the older source's is gone
    assert run(package, code) == "20"


def test_an_edited_function_in_a_closure_is_seen(package: Path):
    """A template need not import the file of the function that it is instantiated with."""
    template = "def make(inner):\n    @compiled\n    def outer(x):\n        return 10 * inner(x)\n    return outer\n"
    template = "from mercer.compiled.code import compiled\n\n\n" + template
    (package / "mercer" / "compiled" / "template.py").write_text(template, encoding="utf-8")
    code = (
        "from mercer.compiled.template import make\nfrom mercer.compiled.helper import helper\nprint(make(helper)(1))"
    )
    for number, expected in [(1, "20"), (2, "30")]:
        helper = HELPER.format(number=number)
        (package / "mercer" / "compiled" / "helper.py").write_text(helper, encoding="utf-8")
        assert run(package, code) == expected


def test_the_second_process_compiles_nothing(package: Path):
    (package / "mercer" / "compiled" / "helper.py").write_text(HELPER.format(number=1), encoding="utf-8")
    code = "from mercer.compiled.user import user; user(1); print(sum(user.stats.cache_hits.values()))"
    run(package, code)
    assert run(package, code) == "1"


def test_without_a_writable_folder_it_compiles_and_says_so(package: Path):
    """Everything that can be written is taken away: sources, home and the temporary folder."""
    (package / "mercer" / "compiled" / "helper.py").write_text(HELPER.format(number=1), encoding="utf-8")
    refuse = (
        "import tempfile\n"
        "def refuse(*args, **kwargs): raise PermissionError('read-only')\n"
        "tempfile.TemporaryFile = refuse\n"
        "from mercer.compiled.user import user; print(user(1))"
    )
    printed = run(package, refuse)
    assert printed.startswith("20")
    assert printed.count("NUMBA_CACHE_DIR") == 1


PROFILES = (
    "import mercer as mc; p = mc.ProfileHMM(alphabet='dna').fit(['ACGT', 'ACGA']).model_\n"
    "print(mc.ProbabilityProduct()(p).shape)"
)


@pytest.fixture
def read_only(package: Path) -> Iterator[Path]:
    """Put a file in the place of the folder for compiled code, which stops root, too."""
    cache = package / "mercer" / "compiled" / "__pycache__"
    shutil.rmtree(cache, ignore_errors=True)
    cache.write_text("")
    yield package
    cache.unlink()


def test_a_read_only_install_without_a_home_uses_a_temporary_folder(read_only: Path, tmp_path: Path):
    nowhere = {"HOME": "/dev/null/x", "XDG_CACHE_HOME": "/dev/null/x", "PYTHONDONTWRITEBYTECODE": "1"}
    printed = run(read_only, PROFILES, **nowhere, TMPDIR=str(tmp_path))
    assert printed.startswith("(1, 1)")
    assert printed.count("mercer stores compiled code in") == printed.count("Set NUMBA_CACHE_DIR") == 1
    (folder,) = tmp_path.glob("mercer-compiled*")
    assert list(folder.glob("*.nbc"))
    if hasattr(os, "getuid"):
        assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="every user of Windows has a temporary folder")
def test_code_in_a_folder_that_others_can_write_is_not_run(read_only: Path, tmp_path: Path):
    folder = tmp_path / f"mercer-compiled-{os.getuid()}"
    folder.mkdir()
    folder.chmod(0o777)
    nowhere = {"HOME": "/dev/null/x", "XDG_CACHE_HOME": "/dev/null/x", "PYTHONDONTWRITEBYTECODE": "1"}
    printed = run(read_only, PROFILES, **nowhere, TMPDIR=str(tmp_path))
    assert printed.startswith("(1, 1)")
    assert printed.count("mercer cannot store compiled code") == 1
    assert not list(folder.iterdir())


def test_numba_that_is_switched_off_is_switched_on_for_mercer_alone():
    code = (
        "import numba, mercer as mc\n"
        "kernel = mc.ProbabilityProduct(mc.HMM(2, alphabet='dna', n_iter=2, tol=0))\n"
        "print(kernel.fit_transform(['ACGTAC', 'GGTACA', 'TTGACG']).tolist())\n"
        "def mine(x): return x\n"
        "print(numba.config.DISABLE_JIT, numba.njit(mine) is mine)"
    )
    here = Path(mercer.__file__).parents[1]
    cache = {"NUMBA_CACHE_DIR": os.environ["NUMBA_CACHE_DIR"]} if "NUMBA_CACHE_DIR" in os.environ else {}
    values, switched_off = run(here, code, NUMBA_DISABLE_JIT="1", **cache).splitlines()
    assert switched_off == "1 True"
    assert run(here, code, NUMBA_DISABLE_JIT="0", **cache).splitlines() == [values, "0 False"]


def test_instances_of_one_factory_have_their_own_entries():
    """Instances share name and line; what tells them apart is the closure."""
    from mercer.compiled.code import compiled, function_key

    def make(k):
        @compiled
        def times(x):
            return k * x

        @compiled
        def twice(x):
            return times(times(x))

        return twice

    two, three = make(2), make(3)
    assert function_key(two.py_func) != function_key(three.py_func)
    assert function_key(two.py_func) == function_key(make(2).py_func)
    assert (two(1), three(1)) == (4, 9)


@pytest.mark.parametrize(
    ("triple", "features", "expected"),
    [
        ("x86_64-unknown-linux-gnu", "+avx,+avx2,+avx512f", (8, 32)),
        ("x86_64-unknown-linux-gnu", "+avx,+avx2,-avx512f", (4, 16)),
        ("x86_64-unknown-linux-gnu", "", (2, 16)),
        ("aarch64-unknown-linux-gnu", "+neon", (2, 32)),
        ("arm64-apple-darwin", "", (2, 32)),
    ],
)
def test_the_machine_is_read_from_the_target(triple, features, expected):
    from mercer.compiled.machine import MACHINE, _machine

    assert _machine(triple, features) == expected
    assert np.log2(MACHINE.width).is_integer()


MADE = """
import numpy as np

from mercer.compiled.code import compiled


def make(k):
    @compiled
    def helper(x, y):  # too long to be inlined
        total = 0.0
        for i in range(x.size):
            a = x[i] * k
            b = np.exp(-a) + np.sin(a) + np.log1p(a)
            for j in range(y.size):
                c = y[j] * b + np.cos(y[j])
                while c > 100.0:
                    c = c / 3.0 + np.sqrt(c)
                total += c * k
        return total

    @compiled
    def loop(x):
        return helper(x, x) + helper(x, x[:1]) + helper(x[1:], x)

    return loop
"""


def test_functions_of_one_name_that_were_compiled_in_two_processes_are_not_confused_in_a_third(package: Path):
    (package / "mercer" / "compiled" / "made.py").write_text(MADE, encoding="utf-8")
    code = "import numpy as np; from mercer.compiled.made import make; print(*(make(k)(np.ones(3)) for k in {}))"
    one, two = (run(package, code.format(which)) for which in ("[1]", "[2]"))
    assert one != two
    assert run(package, code.format("[1, 2]")) == f"{one} {two}"
    assert run(package, code.format("[2, 1]")) == f"{two} {one}"
