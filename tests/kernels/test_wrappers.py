"""Wrappers: Normalized, Centered, Gaussianized, EmpiricalKernelMap, Tempered, Repaired; objects of zero norm."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import KernelCenterer
from tests.batches import WIDTH, Matrices, gaussians, hmms

import mercer as mc
from mercer.kernels import tempered
from mercer.testing.kernels import PluralContract, normalized, take


class TestNormalized(Matrices):
    def kernel(self):
        return mc.kernels.Normalized(mc.Linear(normalize=False) + mc.RBF(gamma=1.0))

    def truth(self, X):
        return X @ X.T + self.rbf(X, 1.0)


class TestNormalizedLog(Matrices):
    def kernel(self):
        return mc.kernels.Normalized(0.2 * mc.RBF(gamma=0.1) + 3.0 * mc.RBF(gamma=1.0))

    def truth(self, X):
        return 0.2 * self.rbf(X, 0.1) + 3 * self.rbf(X, 1.0)


class TestCentered(Matrices):
    needs_fit = True
    normalize = False

    def kernel(self):
        return mc.Centered(mc.RBF(gamma=0.4), normalize=self.normalize)

    def truth(self, X):
        K, n = self.rbf(X, 0.4), len(X)
        H = np.eye(n) - 1 / n
        return H @ K @ H

    def test_rows_of_new_data(self):
        X, new = self.data(0, 9), self.data(1, 5)
        inner = mc.RBF(gamma=0.4)
        reference = KernelCenterer().fit(inner(X))
        k = mc.Centered(inner).fit(X)
        np.testing.assert_allclose(k.transform(new), reference.transform(inner(new, X)), atol=1e-12)
        np.testing.assert_allclose(k(X).sum(axis=0), 0, atol=1e-12)


class TestCenteredNormalized(TestCentered):
    normalize = True


class TestCenteredPlurals(PluralContract):
    needs_fit = True
    width = WIDTH[gaussians]

    def kernel(self):
        return mc.Centered(mc.ProbabilityProduct())

    def build(self, z):
        return gaussians(z)

    def truth(self, X):
        H = np.eye(len(X)) - 1 / len(X)
        return H @ mc.ProbabilityProduct()(X) @ H


class TestGaussianized(Matrices):
    def kernel(self):
        return mc.kernels.Gaussianized(mc.Linear(normalize=False), gamma=0.3)

    def truth(self, X):
        return self.rbf(X, 0.3)


class TestGaussianizedLog(PluralContract):
    width = WIDTH[gaussians]

    def kernel(self):
        return mc.kernels.Gaussianized(mc.ProbabilityProduct(rho=1.0, normalize=False), gamma=5.0)

    def build(self, z):
        return gaussians(z, "isotropic")

    def truth(self, X):
        K = mc.ProbabilityProduct(rho=1.0, normalize=False)(X)  # has its own truth
        return np.exp(-5.0 * (np.diag(K)[:, None] + np.diag(K) - 2 * K))


class TestEmpiricalMap(Matrices):
    needs_fit = True
    features = True
    gamma = None

    def kernel(self):
        return mc.EmpiricalKernelMap(mc.RBF(gamma=0.4), gamma=self.gamma)

    def describe(self, X, Z):
        return -0.4 * np.sum((X[:, None] - Z) ** 2, axis=-1)

    def truth(self, X):
        phi = self.describe(X, X)
        phi = (phi - phi.mean(axis=0)) / phi.std(axis=0)
        if self.gamma is None:
            return phi @ phi.T
        return np.exp(-self.gamma * np.sum((phi[:, None] - phi) ** 2, axis=-1) / len(X))

    def test_rows_of_new_data(self):
        """KK-1: test rows use the training columns, their means and their deviations."""
        X, new = self.data(0, 9), self.data(1, 5)
        train, test = self.describe(X, X), self.describe(new, X)
        center, scale = train.mean(axis=0), train.std(axis=0)
        expected = ((test - center) / scale) @ ((train - center) / scale).T
        found = mc.EmpiricalKernelMap(mc.RBF(gamma=0.4), normalize=False).fit(X).transform(new)
        np.testing.assert_allclose(found, expected, rtol=1e-9)


class TestEmpiricalMapGaussian(TestEmpiricalMap):
    features = False
    gamma = 0.5


class TestEmpiricalMapCenteredRows(TestEmpiricalMap):
    def kernel(self):
        return mc.EmpiricalKernelMap(mc.RBF(gamma=0.4), center_rows=True)

    def describe(self, X, Z):
        logs = super().describe(X, Z)
        return logs - logs.mean(axis=1, keepdims=True)

    def test_rows_of_new_data(self):
        X, new = self.data(0, 9), self.data(1, 5)
        train, test = self.describe(X, X), self.describe(new, X)
        center, scale = train.mean(axis=0), train.std(axis=0)
        found = mc.EmpiricalKernelMap(mc.RBF(gamma=0.4), normalize=False, center_rows=True).fit(X).features(new)
        np.testing.assert_allclose(found, (test - center) / scale, rtol=1e-9)


@pytest.mark.parametrize("center_rows", [False, True])
@pytest.mark.parametrize("n", [2, 3, 7])
@pytest.mark.parametrize("normalize", [False, True])
def test_an_empirical_map_of_identical_objects_is_zero(center_rows, n, normalize):
    """Rounding errors of log k = 0 are not features: standardized and normalized they would be any unit vectors."""
    words, inner = ["ACGTAC"] * n, mc.Spectrum(2, normalize=normalize)
    kernel = mc.EmpiricalKernelMap(inner, center_rows=center_rows, on_zero="zero").fit(words)
    assert not kernel.transform(words).any()
    assert not kernel.features(words).any()
    with pytest.raises(ValueError, match=r"sequence 0 has zero norm .*mean of those of the training objects"):
        mc.EmpiricalKernelMap(inner, center_rows=center_rows).fit_transform(words)


class TestTempered(Matrices):
    def kernel(self):
        return mc.Tempered(3.0 * mc.RBF(gamma=2.0), exponent=0.25)

    def truth(self, X):
        return self.rbf(X, 0.5)


class TestTemperedAuto(Matrices):
    """The exponent is one over the median absolute log kernel of the training pairs."""

    needs_fit = True

    def kernel(self):
        return mc.Tempered(3.0 * mc.RBF(gamma=20.0))

    def truth(self, X):
        squares = [np.sum((X[i] - X[j]) ** 2) for i in range(len(X)) for j in range(i)]
        return self.rbf(X, 20.0 * min(1.0, 1 / np.median(20.0 * np.array(squares))))


def test_a_typical_value_of_a_tempered_kernel_is_one_over_e():
    X = np.random.default_rng(0).normal(size=(40, 3))
    for gamma in (5.0, 50.0, 500.0):
        kernel = mc.Tempered(mc.RBF(gamma=gamma)).fit(X)
        K = kernel.transform(X)
        np.testing.assert_allclose(np.median(K[np.triu_indices(40, 1)]), np.exp(-1), rtol=0.01)
        np.testing.assert_allclose(kernel(X[:5], X), K[:5], rtol=1e-12)  # new data do not change the exponent
    assert mc.Tempered(mc.RBF(gamma=1e-4)).fit(X).exponent_ == 1.0  # never above 1
    assert mc.Tempered(mc.RBF(gamma=5.0)).fit(X[:1]).exponent_ == 1.0  # there is no pair


def test_the_exponent_of_many_objects_is_that_of_some(monkeypatch):
    X = np.random.default_rng(0).normal(size=(60, 3))
    whole = mc.Tempered(mc.RBF(gamma=50.0)).fit(X).exponent_
    monkeypatch.setattr(tempered, "MOST", 30)
    for kernel in (mc.RBF(gamma=50.0), mc.RBF(gamma=20.0) * mc.RBF(gamma=30.0)):
        some, shuffled = (mc.Tempered(kernel).fit(data).exponent_ for data in (X, X[::-1].copy()))
        assert some == shuffled
        np.testing.assert_allclose(some, whole, rtol=0.3)


def test_an_exponent_that_is_learned_belongs_to_the_fit():
    X = np.random.default_rng(0).normal(size=(9, 3))
    kernel = mc.Tempered(mc.RBF(gamma=5.0))
    with pytest.raises(NotFittedError, match="exponent='auto' is learned from the training data"):
        kernel(X)
    K = kernel.fit_transform(X)
    given = mc.Tempered(mc.RBF(gamma=5.0), exponent=kernel.exponent_).fit(X)
    np.testing.assert_allclose(given.transform(X), K, rtol=1e-12)
    np.testing.assert_allclose(given.set_params(exponent=0.5).transform(X), mc.RBF(gamma=2.5)(X), rtol=1e-12)
    np.testing.assert_allclose(kernel.set_params(exponent=0.5).transform(X), mc.RBF(gamma=2.5)(X), rtol=1e-12)


class TestTemperedHMMs(PluralContract):
    width = WIDTH[hmms]

    def kernel(self):
        return mc.Tempered(mc.ProbabilityProduct(rho=1.0, length=20, normalize=False), exponent=0.1)

    def build(self, z):
        return hmms(z)

    def truth(self, X):
        return normalized(mc.ProbabilityProduct(rho=1.0, length=20)(X)) ** 0.1


class TestRepaired(Matrices):
    """A difference of kernels, which is not positive semi-definite."""

    needs_fit = True
    features = True
    truth_tolerance = 1e-8

    def kernel(self):
        return mc.kernels.Repaired(mc.RBF(gamma=0.3) + (-0.8) * mc.RBF(gamma=3.0))

    def indefinite(self, X):
        return self.rbf(X, 0.3) - 0.8 * self.rbf(X, 3.0)

    def truth(self, X):
        values, vectors = np.linalg.eigh(self.indefinite(X))
        return vectors * np.maximum(values, 0) @ vectors.T

    def data(self, seed, n):
        return 0.5 * super().data(seed, n)

    def test_it_repairs(self):
        X, new = self.data(0, 12), self.data(1, 5)
        K = self.indefinite(X)
        assert np.linalg.eigvalsh(K)[0] < -0.01
        k = self.kernel().fit(X)
        np.testing.assert_allclose(k.transform(X), self.truth(X), atol=1e-10)
        values = np.linalg.eigvalsh(K)
        np.testing.assert_allclose(k.clipped_, -values[values < 0].sum() / np.abs(values).sum(), rtol=1e-9)
        both = take(np.concatenate([X, new]), range(17))
        assert mc.gram.psd.check(k(both), 1e-10)
        np.testing.assert_allclose(k(both)[12:, :12], k.transform(new), atol=1e-10)
        assert k.psd == "always"

    def test_a_good_kernel_stays(self):
        X = self.data(0, 8)
        np.testing.assert_allclose(mc.kernels.Repaired(mc.RBF(gamma=1.0)).fit_transform(X), self.rbf(X, 1.0), atol=1e-8)

    def test_nothing_left(self):
        k = mc.kernels.Repaired(0.0 * mc.RBF()).fit(self.data(0, 3))
        assert k.clipped_ == 0
        assert np.all(k(self.data(0, 3)) == 0)
        assert np.all(mc.kernels.Repaired(-1.0 * mc.RBF()).fit_transform(self.data(0, 3)) == 0)


# Two documents without a word in common, and one that the kernel maps to nothing.
SPARSE = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [1.0, 1.0, 0.0]])


class Squared(mc.kernels.Kernel):
    """<x, y>^2 in logarithms: a log kernel whose objects can have zero norm."""

    def __init__(self, normalize=True, on_zero="zero"):
        self.normalize = normalize
        self.on_zero = on_zero

    def _accept(self, X, *, reset):
        return np.asarray(X)

    def _prepare(self, source):
        return source

    def _tile(self, a, b):
        with np.errstate(divide="ignore"):
            return 2 * np.log(np.abs(a @ b.T))

    def _self(self, a):
        with np.errstate(divide="ignore"):
            return 2 * np.log(np.sum(a * a, axis=1))

    @property
    def psd(self):
        return mc.kernels.Verdict("always", "a square of an inner product")


@pytest.mark.parametrize(
    "kernel", [Squared(), mc.kernels.Normalized(Squared(normalize=False), on_zero="zero"), Squared(False)]
)
def test_objects_of_zero_norm_pass_through(kernel):
    """They resemble nothing, have distance 0 from themselves, and are never NaN in any wrapper."""
    K = kernel(SPARSE)
    assert np.all(K[2] == 0)
    assert np.all(K[:, 2] == 0)
    distance = kernel.distance(SPARSE)
    np.testing.assert_allclose(distance[2], np.sqrt(np.diag(K)), atol=1e-12)
    np.testing.assert_allclose(mc.kernels.Gaussianized(kernel)(SPARSE)[2], np.exp(-np.diag(K)), rtol=1e-12)
    tempered = mc.Tempered(kernel, exponent=0.5)(SPARSE)
    np.testing.assert_allclose(tempered, np.sqrt(normalized(K + np.diag([0, 0, 1, 0])) - np.diag([0, 0, 1, 0])))
    for wrapper in (
        mc.EmpiricalKernelMap(kernel),
        mc.EmpiricalKernelMap(kernel, gamma=1.0),
        mc.Centered(kernel),
        mc.kernels.Repaired(kernel),
    ):
        assert np.isfinite(wrapper.fit_transform(SPARSE)).all()
        assert np.isfinite(wrapper.transform(SPARSE[::-1])).all()
    for compound in (kernel + kernel, kernel * kernel, 2.0 * kernel, mc.Linear(normalize=False) * kernel):
        assert np.isfinite(compound(SPARSE)).all()


def test_zero_norm_raises_by_default():
    with pytest.raises(
        ValueError, match=r"object 2 has zero norm under Normalized, .* Leave it out, set on_zero='zero'"
    ):
        mc.kernels.Normalized(Squared(normalize=False))(SPARSE)
    with pytest.raises(ValueError, match=r"object 0 has zero norm under Centered"):
        mc.Centered(mc.RBF(), normalize=True).fit(np.ones((3, 7)) / 3)(np.ones((3, 7)) / 3)
    with pytest.raises(ValueError, match=r"object 0 has the self-kernel -1 .*Wrap it in mc.kernels.Repaired first"):
        mc.kernels.Normalized(-1.0 * mc.RBF())(SPARSE)


def test_empirical_map_keeps_what_is_below_the_floor():
    """Only -inf is replaced, by something no larger than what is finite: long sequences keep their order."""
    X = np.array([[0.0], [1.0], [30.0], [60.0]])
    k = mc.EmpiricalKernelMap(mc.RBF(gamma=5.0), normalize=False).fit(X)
    logs = -5.0 * (X - X.T) ** 2
    assert logs.min() < -700
    phi = (logs - logs.mean(axis=0)) / logs.std(axis=0)
    np.testing.assert_allclose(k(X), phi @ phi.T, rtol=1e-9)
    p = mc.Categoricals([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.5, 0.5]])
    logs = np.array([[0, np.log(0.5) / 2, -9.0], [np.log(0.5) / 2, 0, np.log(0.5)], [-9.0, np.log(0.5), 0]])
    phi = (logs - logs.mean(axis=0)) / logs.std(axis=0)
    found = mc.EmpiricalKernelMap(mc.ProbabilityProduct(), floor=-9.0, normalize=False).fit_transform(p)
    np.testing.assert_allclose(found, phi @ phi.T, rtol=1e-9, atol=1e-9)


def test_verdicts():
    good, bad = mc.RBF(), -1.0 * mc.RBF()
    for wrapper in (mc.kernels.Normalized, mc.Centered, mc.kernels.Gaussianized):
        assert wrapper(good).psd == "always"
        assert wrapper(bad).psd == "no"
        assert "weight" in wrapper(bad).psd.reason
    assert mc.Tempered(mc.ProbabilityProduct()).psd == "conditional"
    assert mc.Tempered(mc.ProbabilityProduct(), exponent=1.0).psd == "always"
    assert mc.EmpiricalKernelMap(good).psd == mc.kernels.Repaired(bad).psd == "always"


@pytest.mark.parametrize(
    ("kernel", "answer"),
    [
        (mc.RBF(), "always"),
        (mc.kernels.Gaussianized(mc.Linear()), "always"),
        (mc.kernels.Gaussianized(-1.0 * mc.RBF()), "conditional"),
        (mc.JensenShannon(mc.Multinomial()), "always"),
        (mc.JensenShannon(mc.Multinomial(), form="inverse"), "conditional"),
        (mc.JensenShannon(mc.Gaussian()), "conditional"),
        (mc.JensenShannon(mc.Gaussian("diagonal"), t=0.3), "always"),
        (mc.JensenShannon(), "conditional"),
    ],
)
def test_powers_of_infinitely_divisible_kernels(kernel, answer):
    verdict = mc.Tempered(kernel, exponent=0.3).psd
    assert verdict == answer
    assert "infinitely divisible" in verdict.reason


def test_bad_parameters():
    X = np.ones((2, 2)) * np.arange(2)[:, None]
    for exponent in (0.0, -1.0, 1.5, "half", np.nan):
        with pytest.raises(ValueError, match=r"exponent must be .* above 0 and at most 1, or 'auto'; got"):
            mc.Tempered(mc.RBF(), exponent=exponent)(X)
    for wrapper in (mc.Tempered, mc.EmpiricalKernelMap):
        with pytest.raises(ValueError, match=r"Linear.*with positive values"):
            wrapper(mc.Linear()).fit(X)
    for gamma in (-1.0, "a"):
        for wrapper in (mc.kernels.Gaussianized, mc.EmpiricalKernelMap):
            with pytest.raises(ValueError, match=r"gamma must be .*; got"):
                wrapper(mc.RBF(), gamma=gamma).fit(X)
    with pytest.raises(ValueError, match=r"method must be 'clip'; got 'flip'\. .*only repair"):
        mc.kernels.Repaired(mc.RBF(), method="flip").fit(X)
    with pytest.raises(ValueError, match=r"tolerance must be .*; got -1\. .*a fraction of the largest eigenvalue"):
        mc.kernels.Repaired(mc.RBF(), tolerance=-1).fit(X)
    with pytest.raises(ValueError, match=r"floor must be a finite number; got -inf"):
        mc.EmpiricalKernelMap(mc.RBF(), floor=-np.inf).fit(X)
    with pytest.raises(ValueError, match=r"on_zero must be .*got 'drop'"):
        mc.Centered(mc.RBF(), on_zero="drop").fit(X)


def test_diagnose_warns_of_dominance_and_the_cures_that_it_names_cure():
    """KK-5: long sequences make an identity matrix; every cure of the sentence exists and lifts the off-diagonal."""
    p = hmms(1.5 * np.random.default_rng(0).standard_normal((20, 12)))
    dominated = mc.ProbabilityProduct(length=2_000)
    with pytest.warns(
        mc.gram.DiagonalDominanceWarning, match=r"diagonally dominant.*smaller length.*EmpiricalKernelMap"
    ):
        found = mc.gram.diagnose(dominated(p))
    for cure in (
        "smaller length",
        "length=Discounted",
        "prior='pooled'",
        "prior_strength",
        "EmpiricalKernelMap",
        "Tempered",
    ):
        assert cure in found.advice
    for kernel in (
        mc.ProbabilityProduct(length=3),
        mc.Tempered(dominated, exponent=1e-3),
        mc.EmpiricalKernelMap(dominated),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            mc.gram.diagnose(kernel.fit_transform(p))
