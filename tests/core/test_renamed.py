"""Names that are gone raise one sentence with the name to use; the package loads lazily."""

from __future__ import annotations

import inspect
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


@pytest.mark.parametrize("name", _renamed.PARAMETERS)
def test_a_removed_parameter_tells_the_new_one(name):
    cls = mc.RBF if name == "Kernel" else mc._public(name)
    for old, new in _renamed.PARAMETERS[name].items():
        with pytest.raises(TypeError, match=rf"{cls.__name__} has no parameter '{old}'\. Use '{new}'\.$"):
            cls(**{old: "zero"})
        if name != "Kernel":
            assert new in inspect.signature(cls).parameters
            assert old not in inspect.signature(cls).parameters


def test_a_removed_parameter_of_a_part():
    kernel = mc.Centered(mc.Tempered(mc.RBF()))
    with pytest.raises(TypeError, match=r"Tempered has no parameter 'beta'\. Use 'exponent'\.$"):
        kernel.set_params(kernel__beta=0.1)
    assert kernel.set_params(kernel__exponent=0.1).kernel.exponent == 0.1


def test_a_subclass_may_use_an_old_name():
    class Own(mc.RBF):
        def __init__(self, gamma=None, zero=1):
            super().__init__(gamma)
            self.zero = zero

    assert Own(zero=2).set_params(zero=3).zero == 3


@pytest.mark.parametrize(
    ("owner", "old", "new"),
    [
        (mc.families.CountVectors([[0.5, 0.5]], 3.0), "law", "length_distribution"),
        (mc.AffinePairHMM(), "scale_", "matrix_scale_"),
    ],
)
def test_a_removed_attribute_tells_the_new_one(owner, old, new):
    with pytest.raises(AttributeError, match=rf"\.{old} was removed.*{new}"):
        getattr(owner, old)


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
