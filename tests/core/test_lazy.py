"""Names that do not exist, and the package loads lazily."""

from __future__ import annotations

import subprocess
import sys

import pytest

import mercer as mc


def test_a_name_that_never_was():
    with pytest.raises(AttributeError, match=r"'mercer' has no attribute 'Hmm'$"):
        mc.Hmm  # noqa: B018


def test_a_subclass_may_have_a_parameter_of_another_library():
    class Own(mc.HMM):
        def __init__(self, n_components=2):
            super().__init__(n_components)
            self.n_components = n_components

    assert Own(n_components=3).set_params(n_components=4).get_params()["n_components"] == 4


BLOCKED = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("sklearn", "scipy", "matplotlib"):
            raise ImportError(f"{name} is blocked")
sys.meta_path.insert(0, Refuse())
"""


def run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BLOCKED + code, *arguments], capture_output=True, text=True, check=False
    )


def test_the_package_loads_lazily():
    done = run("import mercer; print(mercer.__version__, mercer.settings().n_jobs)")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--help"], "compare"),
        (["compare", "--help"], "FASTA"),
        (["compare", "--folds", "x"], "folds"),
        (["nope"], "nope"),
    ],
)
def test_help_and_usage_errors_need_no_scikit_learn(arguments, text):
    done = run("from mercer.cli import main; main()", *arguments)
    assert "blocked" not in done.stderr
    assert text in done.stdout + done.stderr
