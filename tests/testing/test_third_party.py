"""The shipped batteries check a stranger's kernel and family in a repository of their own, and find what is wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

KERNEL = """
import numpy as np

from mercer.kernels import Kernel, Verdict
from mercer.testing import KernelContract, by_pairs


class Laplacian(Kernel):
    domain = "log"

    def __init__(self, gamma=1.0, normalize=True, on_zero="raise"):
        self.gamma, self.normalize, self.on_zero = gamma, normalize, on_zero

    def _accept(self, X, *, reset):
        return np.asarray(X, dtype=float)

    def _prepare(self, X):
        return X

    def _tile(self, a, b):
        return -self.gamma * np.abs(a[:, None] - b).sum(axis=-1)

    def _self(self, a):
        return np.zeros(len(a))

    @property
    def psd(self):
        return Verdict("always", "a product of characteristic functions (Bochner)")


class TestLaplacian(KernelContract):
    other_data = lambda self, seed, n: None  # the sketch above does not check its number of columns

    def kernel(self):
        return Laplacian(gamma={gamma})

    def data(self, seed, n):
        return np.random.default_rng(seed).normal(size=(n, 5))

    def truth(self, X):
        return by_pairs(lambda x, y: np.exp(-0.3 * sum(abs(a - b) for a, b in zip(x, y))), X)
"""


@pytest.fixture
def results(pytester: pytest.Pytester):
    """Run a file of tests elsewhere, in a process of its own, without this project's settings."""

    def run(source: str) -> pytest.RunResult:
        pytester.makepyfile(test_mine=source)
        return pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider", "-p", "no:xdist")

    return run


@pytest.mark.slow
def test_a_right_kernel_passes(results):
    outcome = results(KERNEL.replace("{gamma}", "0.3")).parseoutcomes()
    assert outcome.keys() <= {"passed", "skipped"}, outcome
    assert outcome["passed"] >= 20


@pytest.mark.slow
def test_a_wrong_kernel_is_found(results):
    run = results(KERNEL.replace("{gamma}", "0.4"))
    assert run.parseoutcomes()["failed"] == 1
    run.stdout.re_match_lines([r".*test_slow_truth.*"])
    assert "Not equal to tolerance" in run.stdout.str()


def of_page(*names: str) -> str:
    """Return the blocks of CONTRIBUTING.md that define these classes, as one test file."""
    page = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    return "\nimport mercer as mc\n".join(next(b for b in blocks if f"class {name}(" in b) for name in names)


WAITING = """
from mercer.testing import EstimatorContract, FamilyContract


class TestWaiting(EstimatorContract):
    def estimator(self, **parameters):
        return Waiting(**{"floor": 0.0} | parameters)

    def sets(self):
        rng = np.random.default_rng(0)
        return [1.0 + rng.poisson(3.0, size=(n, 2)) for n in (1, 4, 2, 7)]

    def empty(self):
        return np.zeros((0, 2))

    def totals(self, sample):
        return sample.sum(axis=0), len(sample)


class TestWaitings(FamilyContract):
    mean_map = False

    def members(self, seed=0, shape=(3,)):
        return Waitings(np.random.default_rng(seed).uniform(0.3, 0.9, size=(*shape, 1)))

    def nodes(self):
        return np.arange(300.0)[:, None], np.ones(300)

    def parameters(self, p):
        return log_complement(p.probability)

    def build(self, theta):
        return Waitings(-expm1(theta))

    @staticmethod
    def parameters_of(p):
        return p.probability
"""


@pytest.mark.slow
def test_the_family_of_contributing_passes(results):
    """Under the battery that the same page shows."""
    run = results(of_page("Geometrics").replace("Geometric", "Waiting") + WAITING)
    outcome = run.parseoutcomes()
    assert outcome.keys() <= {"passed", "skipped", "warnings"}, run.stdout.str()[-3000:]
    assert outcome["passed"] + outcome.get("skipped", 0) >= 40  # tests of tensors are skipped without torch
    assert outcome["passed"] >= 35


@pytest.mark.slow
def test_the_model_of_contributing_passes(results):
    outcome = results(of_page("ChangePoints", "TestChangePoints")).parseoutcomes()
    assert outcome.keys() <= {"passed", "skipped", "warnings"}, outcome
    assert outcome["passed"] >= 14


WRONG = {  # the test that finds it: what is right, and what is wrong
    "test_probability_product": ("2 * self.power * np.log", "2 * np.log"),  # hidden weights without their power
    "test_sample": ("np.arange(length) >= change", "np.arange(length) > change"),
    "test_fits_depend_on_no_order": ("self._fitted(in_digest_order(X), context)", "self._fitted(X[:1], context)"),
}


@pytest.mark.slow
def test_a_wrong_model_is_found(results):
    source = of_page("ChangePoints", "TestChangePoints")
    for right, wrong in WRONG.values():
        assert right in source
        source = source.replace(right, wrong)
    run = results(source)
    for name in WRONG:
        run.stdout.re_match_lines_random([rf"FAILED .*{name}.*"])


PARAMETERS = """
import numpy as np
from mercer.kernels import Verdict
from mercer.kernels.base import ModelKernel
from mercer.testing import KernelContract, by_pairs
import mercer as mc


class Overlap(ModelKernel):
    domain = "linear"

    def __init__(self, model=None, normalize=True, on_zero="raise"):
        self.model, self.normalize, self.on_zero = model, normalize, on_zero

    def _prepare(self, batch):
        return np.asarray(batch.probability)  # of sparse counts, the rows are sparse

    def _tile(self, a, b):
        return a @ b.T

    def _self(self, a):
        return (a * a).sum(axis=-1)

    @property
    def psd(self):
        return Verdict("always", "an inner product of probabilities")


class TestOverlap(KernelContract):
    def kernel(self):
        return Overlap()

    def data(self, seed, n):
        return mc.Multinomials(np.random.default_rng(seed).dirichlet(np.ones(5), n), trials=1)

    def truth(self, X):
        return X.probability @ X.probability.T
"""


@pytest.mark.slow
def test_a_kernel_that_forgets_sparse_data_is_found(results):
    run = results(PARAMETERS)
    assert run.parseoutcomes()["failed"] == 1
    run.stdout.re_match_lines([r"FAILED .*test_models_of_every_kind_of_data.*"])


@pytest.mark.slow
def test_a_whole_module_that_is_skipped_fails(pytester: pytest.Pytester):
    """The rule of this project's own tests, in tests/conftest.py."""
    pytester.makeconftest((Path(__file__).parents[1] / "conftest.py").read_text(encoding="utf-8"))
    pytester.makefile(".txt", slow="")
    pytester.makepyfile(test_skipped="import pytest\npytest.importorskip('no_such_library')\ndef test_it(): pass")
    run = pytester.runpytest_subprocess("-q", "-p", "no:xdist", "-p", "no:cacheprovider")
    assert run.ret != 0
    assert "skipped as a whole" in run.stdout.str()
