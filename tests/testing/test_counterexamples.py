"""The search for counterexamples finds functions that are not kernels, and nothing against those that are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.utils.validation import validate_data

import mercer as mc
from mercer.kernels import Kernel, Verdict
from mercer.testing import Counterexample, KernelContract, find_counterexample


class Objects:
    """A list of objects as an operand."""

    order, tile_hint = None, 1000

    def __init__(self, objects):
        self.objects = list(objects)

    def __len__(self):
        return len(self.objects)

    def __getitem__(self, key):
        return Objects([self.objects[i] for i in np.arange(len(self))[key]])


@dataclass(eq=False, repr=False)
class OfPairs(Kernel):
    """A function of two objects, said to be a kernel."""

    function: Any = None
    normalize: bool = False
    on_zero: str = "raise"
    domain = "linear"

    def _accept(self, X, *, reset):
        return X

    def _prepare(self, source):
        return Objects(source)

    def _tile(self, a, b):
        return np.array([[self.function(x, y) for y in b.objects] for x in a.objects], dtype=float)

    def _self(self, a):
        return np.array([self.function(x, x) for x in a.objects], dtype=float)

    @property
    def psd(self):
        return Verdict("always", "nobody has found a counterexample")


class Power(Kernel):
    """exp(-|x - y|^power), said to be a kernel."""

    domain = "log"

    def __init__(self, power=3, order=2, normalize=True, on_zero="raise"):
        self.power, self.order, self.normalize, self.on_zero = power, order, normalize, on_zero

    def _accept(self, X, *, reset):
        return validate_data(self, X, reset=reset, dtype=float)

    def _prepare(self, source):
        return source

    def _tile(self, a, b):
        return -(np.linalg.norm(a[:, None] - b, self.order, axis=-1) ** self.power)

    def _self(self, a):
        return np.zeros(len(a))

    @property
    def psd(self):
        return Verdict("always", "20 random objects have positive eigenvalues")


def edits(x, y):
    """Return the edit distance of two strings."""
    row = list(range(len(y) + 1))
    for i, a in enumerate(x):
        before, row[0] = row[0], i + 1
        for j, b in enumerate(y):
            before, row[j + 1] = row[j + 1], min(row[j + 1] + 1, row[j] + 1, before + (a != b))
    return row[-1]


def hausdorff(x, y):
    D = np.linalg.norm(x[:, None] - y, axis=-1)
    return max(D.min(axis=0).max(), D.min(axis=1).max())


def vectors(n=12, d=6):
    return np.random.default_rng(0).normal(size=(n, d))


def counts(n=12):
    return np.random.default_rng(0).poisson(3.0, size=(n, 6)).astype(float)


def strings(n=12):
    rng = np.random.default_rng(0)
    return ["".join(rng.choice(list("abc"), rng.integers(3, 8))) for _ in range(n)]


def sets(n=12):
    rng = np.random.default_rng(0)
    return [rng.normal(size=(rng.integers(2, 5), 2)) for _ in range(n)]


def networks(n=12):
    return mc.Multinomials(np.random.default_rng(0).dirichlet(np.ones(3), n), trials=1)


SLOW = pytest.mark.slow  # loops in Python
FALSE = {
    "cube of a distance": (Power(), vectors()),
    "cube of a distance of counts": (Power(3, 1), counts()),
    "cube of a distance, large units": (Power(), 1e5 * vectors()),
    "cube of a distance, small units": (Power(), 1e-3 * vectors()),
    "power a little above 2": (Power(2.2), vectors()),
    "squared sum of absolute differences": (Power(2, 1), vectors()),
    "largest difference": (Power(1, np.inf), vectors()),
}
FALSE_PAIRS = {
    "sigmoid": (lambda x, y: np.tanh(0.2 * x @ y - 1), vectors()),
    "edit distance": (lambda x, y: np.exp(-0.2 * edits(x, y) ** 2), strings()),
    "Hausdorff distance": (lambda x, y: np.exp(-0.2 * hausdorff(x, y) ** 2), sets()),
}
TRUE = {
    "Gaussian": (Power(2), vectors()),
    "Laplacian": (Power(1, 1), vectors()),
    "Laplacian of counts": (Power(1, 1), counts()),
    "vectors of any length": (mc.Linear(on_zero="zero"), vectors()),
    "letters": (mc.Spectrum(1), strings()),
    "sets": (mc.EmpiricalMeanMap(gamma=1.0), sets()),
    "series": (mc.EmpiricalMeanMap(gamma=1.0), mc.Sequences(sets())),
}


@pytest.mark.parametrize("name", FALSE)
def test_what_is_not_a_kernel_is_found(name):
    kernel, data = FALSE[name]
    found = find_counterexample(kernel, data)
    np.testing.assert_allclose(found.matrix, kernel(found.objects), rtol=1e-12)
    check(found)


@SLOW
@pytest.mark.parametrize("name", FALSE_PAIRS)
def test_what_is_not_a_kernel_of_other_objects_is_found(name):
    function, data = FALSE_PAIRS[name]
    found = find_counterexample(OfPairs(function), data)
    K = np.array([[function(x, y) for y in found.objects] for x in found.objects])
    scale = np.sqrt(np.abs(np.diag(K)))
    np.testing.assert_allclose(found.matrix, K / scale[:, None] / scale, rtol=1e-12)
    check(found)


def check(found):
    assert found.eigenvalue < -1e-4
    assert found.eigenvalue == pytest.approx(np.linalg.eigvalsh(found.matrix)[0])
    assert found.coefficients @ found.matrix @ found.coefficients == pytest.approx(found.eigenvalue)
    assert len(found.matrix) < 20


@pytest.mark.parametrize("name", TRUE)
def test_nothing_is_found_against_a_kernel(name):
    kernel, data = TRUE[name]
    assert find_counterexample(kernel, data) is None


def test_parameters_of_distributions_are_mixed():
    found = find_counterexample(mc.Heat(t=10.0), networks())  # is a kernel for small t only
    assert isinstance(found.objects, mc.Multinomials)
    assert np.linalg.eigvalsh(mc.Heat(t=10.0)(found.objects))[0] == pytest.approx(found.eigenvalue)
    assert find_counterexample(mc.ProbabilityProduct(), networks()) is None


@pytest.mark.parametrize("name", ["counts", "shares", "sphere"])
def test_what_all_objects_have_in_common_is_kept(name):
    seen = []

    class Recorded(Power):
        def _prepare(self, source):
            seen.append(source)
            return source

    shares = np.random.default_rng(0).dirichlet(np.ones(4), 12)
    sphere = vectors() / np.linalg.norm(vectors(), axis=1, keepdims=True)
    find_counterexample(Recorded(2), {"counts": counts(), "shares": shares, "sphere": sphere}[name])
    every = np.concatenate(seen)
    assert len(np.unique(every, axis=0)) > 40
    if name == "counts":
        assert np.array_equal(every, np.abs(np.rint(every)))
    elif name == "shares":
        assert (every >= 0).all()
        np.testing.assert_allclose(every.sum(axis=1), 1)
    else:
        np.testing.assert_allclose(np.linalg.norm(every, axis=1), 1)


def test_sparse_counts_stay_sparse():
    found = find_counterexample(mc.Heat(mc.Multinomial(), t=10.0), sparse.csr_array(counts() + 1))
    assert sparse.issparse(found.objects)
    assert found.eigenvalue < -1e-5


def test_objects_that_the_kernel_refuses_are_left_out():
    class OnlySmall(Power):
        def _prepare(self, source):
            if np.abs(source).max() > 5:
                raise ValueError("too large")
            return source

    assert find_counterexample(OnlySmall(), vectors()).eigenvalue < -1e-3
    with pytest.raises(ValueError, match="too large"):  # what it refuses of the data themselves is an error
        find_counterexample(OnlySmall(), 100 * vectors())
    with pytest.raises(ValueError, match="at least 2; got 1"):
        find_counterexample(mc.RBF(), vectors()[:1])


def test_a_kernel_that_has_to_be_fitted_is_fitted_to_the_data():
    kernel = mc.Fisher(mc.Gaussian("diagonal"))
    assert find_counterexample(kernel, vectors()) is None
    assert not hasattr(kernel, "model_")


def test_a_negative_square_is_a_counterexample_of_one_object():
    found = find_counterexample(OfPairs(lambda x, y: -float(x @ y)), vectors(6))
    assert (found.eigenvalue, len(found.objects)) == (-1.0, 1)


def test_the_search_is_seeded_and_shown():
    kernel = Power()
    first, again, other = (find_counterexample(kernel, vectors(), random_state=seed) for seed in (1, 1, 2))
    assert np.array_equal(first.objects, again.objects)
    assert not np.array_equal(first.matrix, other.matrix)
    shown = repr(Counterexample(-0.5, ["a", "b"], np.array([[1.0, 1.5], [1.5, 1.0]]), np.ones(2)))
    assert shown.startswith("Counterexample(2 objects with the smallest eigenvalue -0.5:\n['a', 'b']\nGram matrix")
    assert repr(Counterexample(-1, [0] * 9, np.eye(9), np.ones(9))).endswith(
        "(9 objects with the smallest eigenvalue -1)"
    )


@pytest.mark.parametrize("order", [1, 2])
def test_the_battery_fails_for_a_false_verdict(order):
    class Battery(KernelContract):
        def kernel(self):
            return Power(3, order)

        def data(self, seed, n):
            return np.random.default_rng(seed).poisson(3.0, size=(n, 6)).astype(float)

    Battery().test_adversarial_gram_is_psd()  # random objects are too far apart
    with pytest.raises(AssertionError, match=r"psd is 'always' \(20 random objects .*there is a Counterexample\("):
        Battery().test_no_counterexample_to_the_verdict()
