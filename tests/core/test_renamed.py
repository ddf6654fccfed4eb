"""Names that are gone raise one sentence with the name to use; the package loads lazily."""

from __future__ import annotations

import subprocess
import sys

import pytest

import mercer as mc
from mercer import _renamed


@pytest.mark.parametrize(
    ("module", "renamed"), [(mc, _renamed.TOP_LEVEL), (mc.gram, _renamed.GRAM), (mc.families, _renamed.FAMILIES)]
)
def test_a_removed_name_tells_the_new_one(module, renamed):
    for old, new in renamed.items():
        with pytest.raises(AttributeError, match=rf"no attribute '{old}'; use {new}$"):
            getattr(module, old)
        for name in new.split(" and "):
            value = mc
            for part in name.split(".")[1:]:
                value = getattr(value, part)
            assert value is not None


def test_a_name_that_never_was():
    with pytest.raises(AttributeError, match=r"'mercer' has no attribute 'Hmm'$"):
        mc.Hmm  # noqa: B018


@pytest.mark.parametrize(("old", "new"), _renamed.PARAMETERS.items())
def test_a_removed_parameter_tells_the_new_one(old, new):
    with pytest.raises(TypeError, match=rf"ProbabilityProduct has no parameter '{old}'; use '{new}'"):
        mc.ProbabilityProduct(**{old: "zero"})
    assert mc.Fisher(power=0.5).power == 0.5  # a parameter of its own


BLOCKED = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("sklearn", "numba", "scipy", "matplotlib"):
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
