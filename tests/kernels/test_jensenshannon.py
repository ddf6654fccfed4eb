"""JensenShannon: the dual divergence from its definition by Kullback-Leibler divergences, three forms, unsafe t."""

import itertools
import math

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError
from tests.batches import STEP, WIDTH, bernoullis, categoricals, density_on_plane, gaussians, hmms, mixtures, poissons

import mercer as mc
from mercer.families.estimator import Estimator
from mercer.testing.kernels import Gradients, KernelContract, PluralContract


def kl(p, q):
    return np.sum(np.where(p > 0, p * np.log(np.where(p > 0, p, 1.0) / q), 0.0))


class ThreeForms(PluralContract):
    """A family says what it is on a grid (``mass``), and what member has pooled moments (``middle``)."""

    form = "exp"
    t = 1.0
    cell = 1.0

    @property
    def needs_fit(self):
        return self.form == "centering"

    def kernel(self):
        return mc.JensenShannon(form=self.form, t=self.t)

    def mass(self, p):
        raise NotImplementedError

    def middle(self, members):
        raise NotImplementedError

    def psi(self, p, q):
        m = self.mass(self.middle([p, q]))
        return self.cell * (kl(self.mass(p), m) + kl(self.mass(q), m)) / 2

    def truth(self, X):
        members = list(X)
        psi = np.array([[self.psi(p, q) for q in members] for p in members])
        if self.form == "exp":
            return np.exp(-self.t * psi)
        if self.form == "inverse":
            return 1 / (self.t + psi)
        to_center = np.array([self.psi(p, self.middle(members)) for p in members])
        return to_center[:, None] + to_center - psi


class TestCategoricals(Gradients, ThreeForms):
    width = WIDTH[categoricals]

    def build(self, z):
        return categoricals(z)

    def mass(self, p):
        return np.asarray(p.probability)

    def middle(self, members):
        return mc.Categoricals(np.mean([p.probability for p in members], axis=0))


class TestMultinomialsInverse(TestCategoricals):
    form, t = "inverse", 0.3

    def build(self, z):
        return categoricals(z, mc.Multinomials)


class TestCategoricalsCentering(ThreeForms):
    form = "centering"
    width = WIDTH[categoricals]
    build, mass, middle = TestCategoricals.build, TestCategoricals.mass, TestCategoricals.middle


class TestBernoullis(ThreeForms):
    form = "inverse"
    width = WIDTH[bernoullis]

    def build(self, z):
        return bernoullis(z)

    def mass(self, p):
        corners = itertools.product((0, 1), repeat=2)
        return np.array([math.prod(a if b else 1 - a for a, b in zip(p.probability, x, strict=True)) for x in corners])

    def middle(self, members):
        return mc.families.Bernoullis(np.mean([p.probability for p in members], axis=0))


class TestPoissonsCentering(ThreeForms):
    form = "centering"
    width = WIDTH[poissons]

    def build(self, z):
        return poissons(z)

    def mass(self, p):
        n = np.arange(60)
        factorial = np.array([math.lgamma(i + 1) for i in n])
        a, b = (np.exp(-r + n * np.log(r) - factorial) for r in p.rate)
        return np.outer(a, b)

    def middle(self, members):
        return mc.Poissons(np.mean([p.rate for p in members], axis=0))


class TestFullGaussians(Gradients, ThreeForms):
    width = WIDTH[gaussians]
    cell = STEP**2
    structure = "full"
    truth_tolerance = 1e-8

    def build(self, z):
        return gaussians(z, self.structure)

    def mass(self, p):
        return np.maximum(density_on_plane(p), 1e-300)

    def middle(self, members):
        """Gaussian with the average first and second moments."""
        full = [p.covariance for p in members]
        if self.structure != "full":
            full = [np.diag(np.broadcast_to(c, 2)) for c in full]
        mean = np.mean([p.mean for p in members], axis=0)
        second = np.mean([c + np.outer(p.mean, p.mean) for c, p in zip(full, members, strict=True)], axis=0)
        covariance = second - np.outer(mean, mean)
        if self.structure == "diagonal":
            covariance = np.diag(covariance)
        if self.structure == "isotropic":
            covariance = np.mean(np.diag(covariance))
        return mc.Gaussians(mean, covariance)


class TestDiagonalGaussiansInverse(TestFullGaussians):
    structure, form, t = "diagonal", "inverse", 0.2


class TestIsotropicGaussiansSmallT(TestFullGaussians):
    structure, t = "isotropic", 0.1


class TestDocuments(KernelContract):
    """Sparse counts through an estimator."""

    def kernel(self):
        return mc.JensenShannon(mc.Multinomial(), form="inverse")

    def data(self, seed, n):
        counts = np.random.default_rng(seed).poisson(0.7, (n, 9))
        counts[:, 0] += 1
        return sparse.csr_array(counts.astype(float))

    def truth(self, X):
        rows = X.toarray() / X.toarray().sum(axis=1, keepdims=True)

        def psi(p, q):
            m = np.where(p + q > 0, (p + q) / 2, 1.0)
            return (kl(p, m) + kl(q, m)) / 2

        return np.array([[1 / (1 + psi(p, q)) for q in rows] for p in rows])

    def test_sparse_is_dense(self):
        X = self.data(0, 8)
        for form in ("exp", "inverse", "centering"):
            k = self.kernel().set_params(form=form)
            np.testing.assert_allclose(k.fit_transform(X), k.fit_transform(X.toarray()), atol=1e-10)


WITNESS = mc.Gaussians(
    np.zeros((7, 2)),
    np.array(
        [np.eye(2)]
        + [np.diag([1 + 0.9 * a, 1 + 0.9 * b]) for a in (-1, 1) for b in (-1, 1)]
        + [np.array([[1, c], [c, 1]]) for c in (-0.95, 0.95)]
    ),
)


@pytest.mark.parametrize(
    ("form", "t", "smallest"),
    [("exp", 0.2, -0.020), ("exp", 0.5, -0.018), ("centering", 1.0, -0.19), ("inverse", 10.0, -0.001)],
)
def test_unsafe_t_is_refused_for_a_reason(form, t, smallest):
    """T-26: the counterexample of DJS-5 is one."""
    k = mc.JensenShannon(form=form, t=t, normalize=False)
    with pytest.raises(ValueError, match=r"not positive semi-definite .* d = 2.*-0\.020 at t = \.2.*check_psd=False"):
        k.fit(WITNESS)
    with pytest.warns(UserWarning, match="not positive semi-definite for this family"):
        K = k.set_params(check_psd=False).fit_transform(WITNESS)
    np.testing.assert_allclose(np.linalg.eigvalsh(K)[0], smallest, atol=0.006)
    assert k.psd == "no"
    assert "DJS-5" in k.psd.reason


@pytest.mark.parametrize("t", [1.0, 1.3, 7.0])
def test_safe_t(t):
    assert mc.gram.psd.check(mc.JensenShannon(t=t)(WITNESS))
    assert mc.JensenShannon(t=t).fit(WITNESS).psd == "always"
    assert mc.JensenShannon(t=t).psd == "conditional"


def test_bad_parameters():
    p = mc.Poissons([[1.0]])
    for form in ("exponential", None, 1):
        with pytest.raises(ValueError, match=r"form must be 'exp', 'inverse' or 'centering'; got"):
            mc.JensenShannon(form=form)(p)
    for t in (0, -1.0, np.nan, np.inf, "one", None):
        with pytest.raises(ValueError, match=r"t must be a positive number; got"):
            mc.JensenShannon(t=t)(p)
    for q in (mixtures(np.zeros((2, 6))), hmms(np.zeros((2, 12)))):
        with pytest.raises(TypeError, match=r"needs an exponential family with a dual; \w+ is not one. Use a family"):
            mc.JensenShannon()(q)


def test_centering_has_a_zero():
    """Objects at the centre have zero norm: a sentence or zeros, never NaN; a changed form asks for a fit."""
    p = mc.Categoricals([[0.1, 0.9], [0.9, 0.1], [0.5, 0.5]])
    k = mc.JensenShannon(form="centering")
    with pytest.raises(ValueError, match=r"object 2 has zero norm under JensenShannon.*on_zero='zero'"):
        k.fit_transform(p)
    K = k.set_params(on_zero="zero").fit_transform(p)
    assert np.isfinite(K).all()
    assert np.array_equal(np.diag(K), [1, 1, 0])
    assert np.all(K[2] == 0)
    with pytest.raises(NotFittedError, match=r"fitted with another form.*Call fit again"):
        mc.JensenShannon().fit(p).set_params(form="centering")(p)


def test_boundary():
    """DJS-6: one-hot documents are at the divergence log 2."""
    p = mc.Multinomials(np.eye(3))
    np.testing.assert_allclose(mc.JensenShannon()(p), np.where(np.eye(3) > 0, 1.0, 0.5), rtol=1e-14)


@pytest.mark.parametrize("form", ["exp", "inverse", "centering"])
@pytest.mark.parametrize(
    ("model", "answer"),
    [
        (mc.Multinomial(), "always"),
        (mc.Multinomial(prior="pooled"), "always"),
        (mc.Categorical(), "always"),
        (mc.Categorical(alphabet="dna", prior="pooled"), "always"),
        (mc.Bernoulli(), "always"),
        (mc.Poisson(), "always"),
        (mc.Gaussian("diagonal"), "always"),
        (mc.Gaussian("isotropic", prior="pooled"), "always"),
        (mc.Gaussian(), "conditional"),
        (mc.Mixture(mc.Gaussian(), 2), "conditional"),
        (mc.Mixture(mc.Categorical(), 2), "conditional"),
        (None, "conditional"),
    ],
)
def test_a_verdict_before_fit_where_the_dimension_does_not_matter(model, answer, form):
    k = mc.JensenShannon(model, form=form, t=0.3)
    assert k.psd == answer
    assert "DJS-5" in k.psd.reason


def test_models_are_fitted_once(monkeypatch):
    """The centre is made of the models that are compared, without a cache too."""
    fitted, fit = [], Estimator._fit_data
    monkeypatch.setattr(Estimator, "_fit_data", lambda self, X, context: fitted.append(len(X)) or fit(self, X, context))
    X = np.random.default_rng(0).poisson(2.0, size=(8, 4)) + 1.0
    with mc.config(cache_bytes=0):
        mc.JensenShannon(mc.Multinomial(), form="centering").fit_transform(X)
    assert fitted == [8]


def test_another_form_asks_for_another_fit():
    p = mc.Multinomials([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]])
    k = mc.JensenShannon().fit(p).set_params(form="centering")
    for ask in (k.transform, k, k.diag):
        with pytest.raises(NotFittedError, match=r"has no center\. Call fit again"):
            ask(p)
