"""Sums, products and multiples: values, domains, verdicts, nested parameters, and what is refused."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import mercer as mc
from contract import WIDTH, Matrices, PluralContract, categoricals, hmms
from mercer.families._estimator import Estimator


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
        return mc.Fisher(mc.Gaussian("isotropic"), normalize=False) + mc.RBF(gamma=0.3) * mc.Linear()

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
    with pytest.raises(FloatingPointError, match=r"all values of ProbabilityProduct underflow .*: normalise it"):
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
    assert {"k1__weight", "k1__kernel__gamma", "k2__k1__rho", "k2__k1__model__covariance", "k2__k2__gamma"} <= set(
        names
    )
    other = clone(k).set_params(k2__k1__model__covariance="diagonal", k1__kernel__gamma=9.0)
    assert other.k2.k1.model.covariance == "diagonal"
    assert k.k2.k1.model.covariance == "full"
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(24, 2)), np.arange(24) % 2
    X[y == 1] += 2
    grid = {"sum__k1__weight": [0.1, 1.0], "sum__k2__k1__rho": [0.5, 1.0], "svc__C": [1.0]}
    search = GridSearchCV(make_pipeline(k, SVC(kernel="precomputed")), grid, cv=3, error_score="raise").fit(X, y)
    assert search.best_score_ > 0.8


def test_memo_belongs_to_the_fitted_parts():
    """Parameters changed after fit do not reach the fitted parts, nor may they mislead the memo."""
    X = np.random.default_rng(7).normal(size=(4, 2))
    stale = (mc.RBF(1.0) + mc.RBF(2.0)).fit(X).set_params(k1__gamma=5.0)
    np.testing.assert_allclose(stale.transform(X), (mc.RBF(1.0) + mc.RBF(2.0))(X), rtol=1e-12)
    fresh = mc.RBF(5.0) + mc.RBF(2.0)
    np.testing.assert_allclose(fresh.fit_transform(X), fresh(X), rtol=1e-12)


def test_refit_on_another_width():
    k = (mc.RBF() + mc.RBF()).fit(np.ones((2, 2)))
    assert k.fit(np.ones((2, 4))).n_features_in_ == 4
    assert k.transform(np.ones((1, 4))).shape == (1, 2)
    with pytest.raises(ValueError, match="has 2 features, but RBF is expecting 4 features"):
        k.transform(np.ones((1, 2)))


def test_what_is_no_kernel():
    X = np.ones((2, 2))
    for weight in ("a", None, np.nan, np.inf, True):
        with pytest.raises(ValueError, match=r"weight = .*: give a finite number"):
            mc.Scaled(mc.RBF(), weight)(X)
    for k in (mc.Sum(mc.RBF(), 3), mc.Multiplied(None, mc.RBF()), mc.Scaled("rbf"), mc.Normalized(mc.RBF)):
        with pytest.raises(TypeError, match=r"=.*: give a kernel, such as mc.RBF\(\)"):
            k(X)
    for combine in (lambda k: k + 1, lambda k: 1 + k, lambda k: k * "a", lambda k: k * None, lambda k: k + "a"):
        with pytest.raises(TypeError):
            combine(mc.RBF())
    assert (np.float64(0.5) * mc.RBF()).weight == 0.5
    with pytest.raises(ValueError, match="gamma = -1"):
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
    assert fitted == [8] * (2 if isinstance(kernel, mc.Sum) else 1)
