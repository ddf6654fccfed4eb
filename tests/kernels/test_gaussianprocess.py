"""Gaussian processes in pipelines, against written-out formulas at the tuned parameters and scikit-learn's objects."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessClassifier as Theirs
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, WhiteKernel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import mercer as mc
from mercer.kernels import GaussianProcessClassifier

RNG = np.random.default_rng(0)
WORDS = ["".join(RNG.choice(list("ACGT"), 30, p=p)) for p in RNG.dirichlet(np.ones(4), size=45)]
COUNTS = 100 + np.array([word.count("G") for word in WORDS]) + RNG.normal(scale=0.5, size=45)
CLASSES = np.array(["few", "some", "many"])[np.digitize(COUNTS, [104, 109])]
LETTERS = mc.ProbabilityProduct(mc.Categorical(prior="pooled"), rho=0.6)
SPEED = RNG.uniform(0.1, 0.9, size=30)
SERIES = [np.column_stack([np.sin(s * np.arange(20 + i)), RNG.normal(size=20 + i)]) for i, s in enumerate(SPEED)]
KERNELS = {
    "nothing to tune": (mc.Spectrum(2), WORDS),
    "a power": (LETTERS, WORDS),
    "a sum": (0.5 * mc.RBF(gamma=0.1) + mc.Linear(normalize=False), RNG.normal(size=(45, 2))),
}


def tunable(kernel):
    return {k: v for k, v in kernel.get_params().items() if k.rpartition("__")[2] in ("rho", "gamma", "weight")}


def written_out(K, rows, own, y, variance, noise):
    """Mean and standard deviation of new measurements by one inverse."""
    inverse = np.linalg.inv(variance * K + noise * np.eye(len(K)))
    std = np.sqrt(variance * own + noise - variance**2 * np.einsum("ij,jk,ik->i", rows, inverse, rows))
    return variance * rows @ inverse @ (y - y.mean()) + y.mean(), std


@pytest.mark.parametrize("case", KERNELS)
@pytest.mark.slow
@pytest.mark.parametrize("bounds", [None, "fixed"])
def test_is_the_formula_at_the_tuned_parameters(case, bounds):
    kernel, X = KERNELS[case]
    model = mc.GaussianProcess(kernel, bounds).fit(X[:35], COUNTS[:35])
    mean, std = model.predict(X[35:], return_std=True)
    found = tunable(model.kernel_)
    tuned = clone(kernel).set_params(**found).fit(X[:35])
    K, rows, own = (np.asarray(part) for part in (tuned(X[:35]), tuned.transform(X[35:]), tuned.diag(X[35:])))
    expected = written_out(K, rows, own, COUNTS[:35], model.variance_, model.noise_)
    np.testing.assert_allclose(mean, expected[0], rtol=1e-8)
    np.testing.assert_allclose(std, expected[1], rtol=1e-6)
    np.testing.assert_array_equal(mean, model.predict(X[35:]))
    np.testing.assert_allclose(rows @ model.dual_coef_ + model.intercept_, mean, rtol=1e-10)
    changed = [found[name] != value for name, value in tunable(kernel).items()]
    assert not any(changed) if bounds else all(changed)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The optimal value found")  # theirs
def test_is_what_scikit_learn_finds():
    ours = mc.GaussianProcess(LETTERS).fit(WORDS, COUNTS)
    prior = ConstantKernel() * clone(LETTERS).fit(WORDS).as_gp() + WhiteKernel(0.1)
    wrapped = mc.objects(WORDS)
    theirs = GaussianProcessRegressor(prior, normalize_y=True).fit(wrapped, COUNTS)
    for found, expected in zip(ours.predict(WORDS[:9], True), theirs.predict(wrapped[:9], True), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-3)
    classes = Theirs(ConstantKernel() * clone(LETTERS).fit(WORDS).as_gp()).fit(wrapped, CLASSES)
    model = GaussianProcessClassifier(LETTERS).fit(WORDS, CLASSES)
    np.testing.assert_allclose(model.predict_proba(WORDS), classes.predict_proba(wrapped), atol=1e-3)
    assert (model.predict(WORDS) == classes.predict(wrapped)).all()
    assert list(model.classes_) == ["few", "many", "some"]


def test_probabilities_are_the_integral_of_the_link():
    y = (COUNTS > 106).astype(int)
    model = GaussianProcessClassifier(mc.Spectrum(2)).fit(WORDS[:35], y[:35])
    kernel = mc.Spectrum(2).fit(WORDS[:35])
    variance = model.process_.kernel_.k1.k1.constant_value
    K, rows = variance * np.asarray(kernel(WORDS[:35])), variance * np.asarray(kernel.transform(WORDS[35:]))
    f = np.zeros(35)  # the mode of the posterior, by Newton's steps
    for _ in range(50):
        p = 1 / (1 + np.exp(-f))
        f = np.linalg.solve(np.linalg.inv(K + 1e-10 * np.eye(35)) + np.diag(p * (1 - p)), p * (1 - p) * f + y[:35] - p)
    p = 1 / (1 + np.exp(-f))
    spread = variance - np.einsum("ij,jk,ik->i", rows, np.linalg.inv(K + np.diag(1 / (p * (1 - p)))), rows)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    links = 1 / (1 + np.exp(-(rows @ (y[:35] - p))[:, None] - np.sqrt(spread)[:, None] * nodes))
    expected = links @ weights / weights.sum()
    np.testing.assert_allclose(model.predict_proba(WORDS[35:])[:, 1], expected, atol=2e-3)  # of five error functions


@pytest.mark.slow
def test_noise_and_coverage_are_learned():
    x = RNG.uniform(0, 6, size=(160, 1))
    y = 1e4 + 1e-3 * (np.sin(2 * x[:, 0]) + 0.2 * RNG.normal(size=160))
    model = mc.GaussianProcess(mc.RBF(gamma=1.0)).fit(x[:80], y[:80])
    assert model.noise_ == pytest.approx(4e-8, rel=0.4)
    mean, std = model.predict(x[80:], return_std=True)
    assert 0.88 <= np.mean(np.abs(mean - y[80:]) < 1.96 * std) <= 1


def test_a_search_passes_parameters_without_a_covariance():
    counts = RNG.poisson(RNG.gamma(1, 2, size=(50, 8)))
    shares = counts[:, 0] / counts.sum(axis=1)
    model = mc.GaussianProcess(mc.Heat(mc.Multinomial(prior="pooled"))).fit(counts[:40], shares[:40])
    assert model.kernel_.t != 1.0
    assert model.score(counts[40:], shares[40:]) > 0.9


class TestInPipelines:
    @pytest.mark.slow
    def test_series_of_a_list(self, tmp_path):
        model = make_pipeline(mc.Derivatives(), mc.Standardize(), mc.GaussianProcess(mc.Fisher(mc.HMM(2))))
        assert cross_val_score(model, SERIES, SPEED, cv=3).mean() > 0.5
        found = model.fit(SERIES, SPEED).predict(SERIES[:4], return_std=True)
        mc.save(model, tmp_path / "a.mercer")
        for one, other in zip(mc.load(tmp_path / "a.mercer").predict(SERIES[:4], return_std=True), found, strict=True):
            np.testing.assert_array_equal(one, other)
        shares = mc.explain(model, SERIES[:2], method="additive")
        assert abs(shares.residual).max() < 1e-10
        np.testing.assert_allclose(shares.decision, found[0][:2])

    @pytest.mark.slow
    def test_searches_and_classes(self, tmp_path):
        model = make_pipeline(mc.Standardize(), GaussianProcessClassifier(mc.Fisher(mc.HMM(2))))
        search = GridSearchCV(model, {"gaussianprocessclassifier__kernel__model__n_states": [1, 2]}, cv=2)
        y = np.where(SPEED > 0.5, "fast", "slow")
        assert search.fit(SERIES, y).best_score_ > 0.6
        proba = search.predict_proba(SERIES)
        np.testing.assert_allclose(proba.sum(axis=1), 1)
        mc.save(search, tmp_path / "a.mercer")
        np.testing.assert_array_equal(mc.load(tmp_path / "a.mercer").predict_proba(SERIES), proba)

    def test_channels_go_by_name(self):
        pd = pytest.importorskip("pandas")
        frames = [pd.DataFrame(x, columns=["a", "b"]) for x in SERIES]
        model = mc.GaussianProcess(mc.Fisher(mc.HMM(2))).fit(frames, SPEED)
        assert list(model.feature_names_in_) == ["a", "b"]
        expected = model.predict(frames)
        np.testing.assert_array_equal(model.predict([frame[["b", "a"]] for frame in frames]), expected)

    def test_several_targets(self):
        both = np.column_stack([COUNTS, -1e3 * COUNTS])
        model = mc.GaussianProcess(mc.Spectrum(2)).fit(WORDS, both)
        mean, std = model.predict(WORDS[:3], return_std=True)
        np.testing.assert_allclose(mean[:, 1], -1e3 * mean[:, 0])
        np.testing.assert_allclose(std[:, 1], 1e3 * std[:, 0])
        column = mc.GaussianProcess(mc.Spectrum(2)).fit(WORDS, COUNTS[:, None])
        assert [part.shape for part in (column.predict(WORDS), *column.predict(WORDS, True))] == [(45, 1)] * 3

    def test_confounds_go_with_the_kernel(self):
        both = mc.Confounded(WORDS, RNG.normal(size=45))
        model = mc.GaussianProcess(mc.Residualized(mc.Spectrum(2))).fit(both, COUNTS)
        assert model.predict(both[:3]).shape == (3,)


class TestMessages:
    def test_parameters(self):
        with pytest.raises(TypeError, match=r"kernel must be a kernel; got 'rbf'. Pass an instance, such as mc.RBF"):
            mc.GaussianProcess("rbf").fit(WORDS, COUNTS)
        with pytest.raises(ValueError, match=r"Unknown hyper-parameter 'gamma' in bounds: .* searched over rho"):
            mc.GaussianProcess(LETTERS, {"gamma": (1.0, 2.0)}).fit(WORDS, COUNTS)

    def test_targets(self):
        with pytest.raises(ValueError, match=r"y must be numbers; .* Use mc.kernels.GaussianProcessClassifier"):
            mc.GaussianProcess(mc.Spectrum(2)).fit(WORDS, CLASSES)
        with pytest.raises(ValueError, match=r"[Uu]nknown label type"):
            GaussianProcessClassifier(mc.Spectrum(2)).fit(WORDS, COUNTS)
        with pytest.raises(ValueError, match=r"2 samples or more, .* got 1 sample"):
            mc.GaussianProcess(mc.RBF()).fit([[1.0]], [5.0])  # it was certain of 5 to .003, everywhere

    def test_no_covariance(self):
        with pytest.raises(ValueError, match=r"eigenvalue -.*Wrap the kernel in mc.kernels.Repaired"):
            mc.GaussianProcess(mc.RBF(gamma=0.5) + (-0.9) * mc.RBF(gamma=5.0)).fit(RNG.normal(size=(45, 2)), COUNTS)

    def test_a_kernel_of_its_own_is_not_fitted_before(self):
        with pytest.raises(ValueError, match=r"or use mc.GaussianProcess\(kernel\), which fits it"):
            LETTERS.as_gp()

    @pytest.mark.parametrize("y", [np.full(45, 7.0), np.arange(45.0)])
    def test_no_noise_is_no_event(self, y, recwarn):
        model = mc.GaussianProcess(mc.Spectrum(3)).fit(WORDS, y)
        assert np.isfinite(model.predict(WORDS, return_std=True)).all()
        assert not [str(w.message) for w in recwarn]

    def test_the_kernel_comes_in_it(self):
        with pytest.raises(TypeError, match="kernel"):
            make_pipeline(mc.Spectrum(2), mc.GaussianProcess())  # type: ignore[call-arg]
        assert make_pipeline(mc.Spectrum(2), SVC()).fit(WORDS, CLASSES)
