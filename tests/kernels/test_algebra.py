"""Sums, products and multiples: values, domains, verdicts, nested parameters, and what is refused."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from tests.batches import WIDTH, Matrices, categoricals, hmms

import mercer as mc
from mercer.families.estimator import Estimator
from mercer.testing.kernels import PluralContract


class TestSumOfLogs(Matrices):
    def kernel(self):
        return 0.5 * mc.RBF(gamma=0.2) + mc.RBF(gamma=2.0)

    def truth(self, X):
        return 0.5 * self.rbf(X, 0.2) + self.rbf(X, 2.0)


class TestSignedSum(Matrices):
    def kernel(self):
        return mc.Linear(normalize=False) + 2.0 * mc.RBF(gamma=1.0)

    def truth(self, X):
        return X @ X.T + 2 * self.rbf(X, 1.0)


class TestProductOfLogs(Matrices):
    def kernel(self):
        return mc.RBF(gamma=0.2) * mc.RBF(gamma=1.0) * 3.0

    def truth(self, X):
        return 3 * self.rbf(X, 1.2)


class TestSignedProduct(Matrices):
    def kernel(self):
        return mc.Linear() * mc.RBF(gamma=0.3)

    def truth(self, X):
        norm = np.linalg.norm(X, axis=1)
        return X @ X.T / np.outer(norm, norm) * self.rbf(X, 0.3)


class TestNested(Matrices):
    """A shared model beside plain kernels: everything is fitted, nothing twice."""

    needs_fit = True

    def kernel(self):
        return (
            mc.Fisher(mc.Gaussian("isotropic"), information="identity", normalize=False)
            + mc.RBF(gamma=0.3) * mc.Linear()
        )

    def truth(self, X):
        mean = X.mean(axis=0)
        variance = np.mean((X - mean) ** 2) + 1e-3 * 2 ** np.round(np.log2(X.var(axis=0).mean()))
        score = np.column_stack([(X - mean) / variance, np.sum((X - mean) ** 2, axis=1) / variance - 3])
        norm = np.linalg.norm(X, axis=1)
        return score @ score.T + self.rbf(X, 0.3) * (X @ X.T) / np.outer(norm, norm)


class TestPlurals(PluralContract):
    width = WIDTH[categoricals]

    def kernel(self):
        return 0.3 * mc.ProbabilityProduct(rho=1.0, normalize=False) + mc.MeanMap(gamma=0.5) * mc.JensenShannon()

    def build(self, z):
        return categoricals(z)

    def test_gradients(self):
        torch = pytest.importorskip("torch")
        z = torch.asarray(self.free(2, 3)).requires_grad_()
        assert torch.autograd.gradcheck(lambda z: self.kernel()(self.build(z)), (z,), atol=1e-6)

    def truth(self, X):
        p = np.asarray(X.probability)
        e = np.exp(-1.0)
        smooth = (1 - e) * p @ p.T + e
        smooth /= np.sqrt(np.outer(np.diag(smooth), np.diag(smooth)))
        entropy = -np.sum(p * np.log(p), axis=1)
        middle = (p[:, None] + p) / 2
        psi = -np.sum(middle * np.log(middle), axis=-1) - (entropy[:, None] + entropy) / 2
        return 0.3 * p @ p.T + smooth * np.exp(-psi)


def test_domains():
    log, signed = mc.RBF(), mc.Linear()
    assert (log + log).domain == (log * log).domain == (0.5 * log).domain == "log"
    for k in (log + signed, log * signed, -1.0 * log, 0.0 * log, log + (-0.1) * log, 2.0 * signed):
        assert k.domain == "linear"
    X = 100.0 * np.arange(3.0)[:, None]
    np.testing.assert_allclose((mc.RBF(1.0) * mc.RBF(2.0)).log(X)[0], -3 * X[:, 0] ** 2)  # no underflow on the way
    np.testing.assert_allclose((mc.RBF(1.0) + mc.RBF(2.0)).log(X)[0, 1:], -(X[1:, 0] ** 2))


def test_underflow_beside_a_signed_kernel():
    """An un-normalised kernel of long sequences vanishes; normalised it does not."""
    p = hmms(np.random.default_rng(0).standard_normal((3, 12)))
    minus = -1.0 * mc.ProbabilityProduct(length=2)
    with pytest.raises(FloatingPointError, match=r"ProbabilityProduct underflow .*Normalize it"):
        (mc.ProbabilityProduct(rho=1.0, length=2_000, normalize=False) * minus)(p)
    assert np.isfinite((mc.ProbabilityProduct(rho=1.0, length=2_000) * minus)(p)).all()


def test_verdicts():
    good = mc.RBF()
    assert (good + good).psd == (good * good).psd == (2 * good).psd == "always"
    assert (-1 * good).psd == "no"
    assert "weight is -1" in (-1 * good).psd.reason
    for k in (good + (-0.1) * good, good * (-1 * good), 3 * (-1 * good)):
        assert k.psd == "no"
    assert (good + mc.Tempered(mc.ProbabilityProduct())).psd == "conditional"


def test_nested_parameters_and_search():
    k = 0.5 * mc.RBF(gamma=1.0) + mc.ProbabilityProduct(mc.Gaussian(), rho=0.5) * mc.RBF(gamma=2.0)
    names = k.get_params(deep=True)
    assert {"k0__weight", "k0__kernel__gamma", "k1__k0__rho", "k1__k0__model__covariance", "k1__k1__gamma"} <= set(
        names
    )
    other = clone(k).set_params(k1__k0__model__covariance="diagonal", k0__kernel__gamma=9.0)
    assert other.k1.k0.model.covariance == "diagonal"
    assert k.k1.k0.model.covariance == "full"
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(24, 2)), np.arange(24) % 2
    X[y == 1] += 2
    grid = {"sum__k0__weight": [0.1, 1.0], "sum__k1__k0__rho": [0.5, 1.0], "svc__C": [1.0]}
    search = GridSearchCV(make_pipeline(k, SVC(kernel="precomputed")), grid, cv=3, error_score="raise").fit(X, y)
    assert search.best_score_ > 0.8


def test_signs_make_flat_sums_and_products():
    a, b, c, d = (mc.RBF(gamma=g) for g in (1.0, 2.0, 3.0, 4.0))
    for flat in (a + b + c + d, (a + b) + (c + d), a + (b + (c + d)), mc.kernels.Sum([a, b, c, d])):
        assert type(flat) is mc.kernels.Sum
        assert flat.kernels == [a, b, c, d]
        assert (flat.k0, flat.k3, flat.get_params()["k2__gamma"]) == (a, d, 3.0)
    assert (a * b * c).kernels == [a, b, c]
    mixed = a + b * c + 0.5 * (c + d)
    assert [type(part) for part in mixed.kernels] == [mc.RBF, mc.kernels.Product, mc.kernels.Scaled]
    assert mixed.k2.kernel.kernels == [c, d]
    two = a + b
    assert len((two + c).kernels) == 3
    assert len(two.kernels) == 2  # a sum is not changed by what is made of it
    with pytest.raises(AttributeError, match="k2"):
        two.k2  # noqa: B018


@pytest.mark.parametrize("make", [mc.kernels.Sum, mc.kernels.Product])
def test_a_list_of_parts_is_their_nesting(make):
    X = points()
    parts = [
        mc.RBF(0.5),
        mc.Linear(),
        mc.RBF(
            2.0,
        ),
        0.3 * mc.RBF(1.0),
    ]
    nested = make([make([make(parts[:2]), parts[2]]), parts[3]])
    for some in (parts, parts[2:], parts[:1]):
        flat = make(some)
        combine = np.sum if make is mc.kernels.Sum else np.prod
        np.testing.assert_allclose(flat(X), combine([part(X) for part in some], axis=0), rtol=1e-14)
        assert flat.domain == ("linear" if parts[1] in some else "log")
    np.testing.assert_allclose(make(parts).fit(X).transform(X), nested(X), rtol=1e-14)


def test_parts_of_a_class_that_cannot_be_pickled():
    class Local(mc.RBF):
        pass

    X = points()
    for kernel in (mc.Centered(Local(0.5) + 0.1 * mc.Linear()), Local(0.5) * mc.Linear()):
        K = kernel.fit_transform(X)
        np.testing.assert_allclose(kernel.transform(X), K, atol=1e-12)


@pytest.mark.parametrize("wrong", [[], None, mc.RBF(), "RBF"])
def test_parts_are_a_list(wrong):
    for make in (mc.kernels.Sum, mc.kernels.Product):
        with pytest.raises(ValueError, match="kernels must be a list of one or more kernels; got"):
            make(wrong)(points())
    with pytest.raises(TypeError, match="k1 must be a kernel; got 3"):
        mc.kernels.Sum([mc.RBF(), 3])(points())


def points(n=6, seed=7):
    return np.abs(np.random.default_rng(seed).normal(size=(n, 2)))


@pytest.mark.parametrize(
    ("kernel", "change"),
    [
        (mc.RBF(1.0) + mc.RBF(2.0), {"k0__gamma": 5.0}),
        (mc.RBF() * (0.5 * mc.RBF(2.0)), {"k1__weight": 2.0}),
        (mc.Centered(mc.RBF(2.0)), {"kernel__gamma": None}),
        (mc.ProbabilityProduct(mc.Gaussian()), {"model__covariance": "diagonal"}),
        (mc.ProbabilityProduct(mc.Gaussian()), {"model": mc.Poisson()}),
        (mc.Fisher(mc.Gaussian()), {"model__prior": "pooled"}),
    ],
)
def test_parts_and_models_are_those_of_the_fit(kernel, change):
    """As in scikit-learn, a parameter that was changed after the fit takes effect in the next one."""
    X = points()
    kernel = clone(kernel)
    K = kernel.fit_transform(X)
    changed = clone(kernel).set_params(**change)
    for fitted in (kernel, pickle.loads(pickle.dumps(kernel)), copy.deepcopy(kernel)):
        np.testing.assert_allclose(fitted.set_params(**change).transform(X), K, rtol=1e-12)
    np.testing.assert_array_equal(kernel.fit_transform(X), changed.fit_transform(X))


@pytest.mark.parametrize(
    ("kernel", "change"),
    [
        (mc.RBF(1.0), {"gamma": 3.0}),
        (2.0 * mc.RBF(1.0), {"weight": 0.5}),
        (mc.kernels.Gaussianized(mc.Linear(normalize=False)), {"gamma": 0.1}),
        (mc.ProbabilityProduct(mc.Gaussian()), {"rho": 1.0, "normalize": False}),
        (mc.Centered(mc.RBF()), {"normalize": True}),
    ],
)
def test_other_parameters_take_effect_at_once(kernel, change):
    X = points()
    kernel = clone(kernel).fit(X).set_params(**change)
    np.testing.assert_allclose(kernel.transform(X), clone(kernel).fit(X).transform(X), rtol=1e-12)


def test_equal_parameters_are_no_change():
    X = points()
    kernel = mc.RBF(1.0) + mc.ProbabilityProduct(mc.Gaussian(prior_strength=1.0))
    K = kernel.fit_transform(X)
    kernel.set_params(k0=mc.RBF(1), k1__model=mc.Gaussian(prior_strength=np.float64(1.0)))
    np.testing.assert_allclose(kernel.transform(X), K, rtol=1e-12)
    p = mc.Gaussian().fit_each([points(9, seed) for seed in range(4)])
    of_models = mc.ProbabilityProduct(mc.Gaussian()).fit(p).set_params(model__covariance="diagonal")
    assert of_models.transform(p).shape == (4, 4)  # the models were given


def test_refit_on_another_width():
    k = (mc.RBF() + mc.RBF()).fit(np.ones((2, 2)))
    assert k.fit(np.ones((2, 4))).n_features_in_ == 4
    assert k.transform(np.ones((1, 4))).shape == (1, 2)
    with pytest.raises(ValueError, match="has 2 features, but RBF is expecting 4 features"):
        k.transform(np.ones((1, 2)))


def test_what_is_no_kernel():
    X = np.ones((2, 2))
    for weight in ("a", None, np.nan, np.inf, True):
        with pytest.raises(ValueError, match=r"weight must be a finite number; got"):
            mc.kernels.Scaled(mc.RBF(), weight)(X)
    for k in (
        mc.kernels.Sum([mc.RBF(), 3]),
        mc.kernels.Product([None, mc.RBF()]),
        mc.kernels.Scaled("rbf"),
        mc.kernels.Normalized(mc.RBF),
    ):
        with pytest.raises(TypeError, match=r"must be a kernel; got .* such as mc.RBF\(\)"):
            k(X)
    for combine in (lambda k: k + 1, lambda k: 1 + k, lambda k: k * "a", lambda k: k * None, lambda k: k + "a"):
        with pytest.raises(TypeError):
            combine(mc.RBF())
    assert (np.float64(0.5) * mc.RBF()).weight == 0.5
    with pytest.raises(ValueError, match=r"gamma must be .*; got -1"):
        (mc.RBF() + mc.RBF(gamma=-1))(X)


@pytest.mark.parametrize("wrap", [lambda k: k + k, mc.Centered, lambda k: 2.0 * mc.Tempered(k)])
def test_models_are_fitted_once(monkeypatch, wrap):
    """Once a part, without a cache too."""
    fitted, fit = [], Estimator._fit_data
    monkeypatch.setattr(Estimator, "_fit_data", lambda self, X, context: fitted.append(len(X)) or fit(self, X, context))
    X = np.random.default_rng(0).poisson(2.0, size=(8, 4)) + 1.0
    kernel = wrap(mc.ProbabilityProduct(mc.Multinomial()))
    with mc.config(cache_bytes=0):
        kernel.fit_transform(X)
    assert fitted == [8] * (2 if isinstance(kernel, mc.kernels.Sum) else 1)
