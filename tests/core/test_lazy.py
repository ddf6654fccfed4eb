"""Names that do not exist, and the package loads lazily."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import mercer as mc


def test_a_name_that_never_was():
    with pytest.raises(AttributeError, match=r"'mercer' has no attribute 'Perceptron'$"):
        mc.Perceptron  # noqa: B018


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Bernoullis", "; use mercer.families.Bernoullis"),
        ("MeanField", "; use mercer.kernels.MeanField"),
        ("SwitchingProduct", "; use mercer.kernels.SwitchingProduct"),
        ("two_sample_test", "; use mercer.stats.two_sample_test"),
        ("HMMM", ". Did you mean mercer.HMM?"),
        ("Hmm", ". Did you mean mercer.HMM?"),
        ("SeriesClasifier", ". Did you mean mercer.SeriesClassifier?"),
        ("two_samples_test", ". Did you mean mercer.stats.two_sample_test?"),
        ("regression", ""),
        ("KernelContract", "; use mercer.testing.KernelContract"),
        ("GaussianHMM", "; use mercer.HMM(n_states, mercer.Gaussian('diagonal'))"),
        ("VariationalHMM", "; use mercer.HMM(n_states, mercer.Gaussian('full')), which is fitted by EM with a prior"),
        ("__path_of__", ""),
    ],
)
def test_a_name_that_is_elsewhere(name, hint):
    with pytest.raises(AttributeError) as caught:
        getattr(mc, name)
    assert str(caught.value) == f"module 'mercer' has no attribute {name!r}{hint}"


def test_the_names_of_all_rooms_are_known():
    from mercer import _ROOMS
    from mercer._hints import names_of_rooms

    known = names_of_rooms((*_ROOMS, "testing"))
    for room in _ROOMS:
        for name in importlib.import_module(f"mercer.{room}").__all__:
            place = importlib.import_module(known[name].rpartition(".")[0])
            assert getattr(place, name) is getattr(importlib.import_module(f"mercer.{room}"), name)
            if not hasattr(mc, name):
                with pytest.raises(AttributeError, match=f"; use {known[name]}$"):
                    getattr(mc, name)


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
