"""Models of other libraries: stand-ins with the attributes that these libraries have, and the libraries themselves."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture

import mercer as mc

START, STEP = np.array([0.6, 0.4]), np.array([[0.7, 0.3], [0.2, 0.8]])
MEANS = np.array([[0.0, 1.0], [2.0, -1.0]])
FULL = np.array([[[1.0, 0.3], [0.3, 2.0]], [[0.5, 0.0], [0.0, 1.5]]])


def forward(density):
    """Probability of a sequence whose observations have these densities, ``(T, n)``."""
    alpha = START * density[0]
    for row in density[1:]:
        alpha = (alpha @ STEP) * row
    return np.log(alpha.sum())


def normal(x, means, covariances):
    return np.stack([multivariate_normal(m, c).pdf(x) for m, c in zip(means, covariances, strict=True)], axis=-1)


X = np.random.default_rng(0).normal(size=(6, 2))


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical", "spherical, fitted"])
def test_gaussian_hmms_of_hmmlearn(kind):
    spread = {"full": FULL, "tied": FULL[[0, 0]], "diag": FULL * np.eye(2)}.get(
        kind, np.stack([np.eye(2), 3 * np.eye(2)])
    )
    given = np.repeat(spread, 2, axis=0) if kind == "spherical, fitted" else spread  # as hmmlearn 0.3 has it after fit
    model = SimpleNamespace(
        startprob_=START, transmat_=STEP, means_=MEANS, covars_=given, covariance_type=kind.split(",")[0]
    )
    found = mc.HMMs.from_hmmlearn(model)
    structure = {"diag": "diagonal", "spherical": "isotropic"}.get(model.covariance_type, "full")
    assert found.emission.structure == structure
    np.testing.assert_allclose(found.log_prob([X])[0, 0], forward(normal(X, MEANS, spread)), rtol=1e-12)


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_gmm_hmms_of_hmmlearn(kind):
    rng = np.random.default_rng(1)
    weights, means = rng.dirichlet(np.ones(3), 2), rng.normal(size=(2, 3, 2))
    root = rng.normal(size=(2, 3, 2, 2))
    full = root @ root.mT + np.eye(2)
    given = {"full": full, "tied": full[:, 0], "diag": full.diagonal(axis1=-2, axis2=-1), "spherical": full[..., 0, 0]}[
        kind
    ]
    spread = {
        "full": full,
        "tied": np.repeat(full[:, :1], 3, axis=1),
        "diag": full * np.eye(2),
        "spherical": full[..., :1, :1] * np.eye(2),
    }[kind]
    model = SimpleNamespace(
        startprob_=START, transmat_=STEP, weights_=weights, means_=means, covars_=given, covariance_type=kind
    )
    density = np.stack([normal(X, means[i], spread[i]) @ weights[i] for i in range(2)], axis=-1)
    np.testing.assert_allclose(mc.HMMs.from_hmmlearn(model).log_prob([X])[0, 0], forward(density), rtol=1e-12)


def test_categorical_and_poisson_hmms_of_hmmlearn_one_or_many():
    p = np.array([[0.1, 0.2, 0.7], [0.5, 0.3, 0.2]])
    model = SimpleNamespace(startprob_=START, transmat_=STEP, emissionprob_=p)
    codes = np.array([[0, 2, 1, 1]])
    np.testing.assert_allclose(mc.HMMs.from_hmmlearn(model).log_prob(codes)[0, 0], forward(p.T[codes[0]]), rtol=1e-12)
    single = SimpleNamespace(startprob_=np.ones(1), transmat_=np.ones((1, 1)), emissionprob_=p[:1])
    many = mc.HMMs.from_hmmlearn([model, single])
    assert many.n_states.tolist() == [2, 1]
    np.testing.assert_allclose(many.log_prob(codes)[1, 0], np.log(p[0, codes[0]]).sum(), rtol=1e-12)
    counts = SimpleNamespace(startprob_=START, transmat_=STEP, lambdas_=np.array([[1.0], [4.0]]))
    assert isinstance(mc.HMMs.from_hmmlearn(counts).emission, mc.Poissons)


@pytest.mark.parametrize("mean", ["state", "shared", "no"])
@pytest.mark.parametrize("kind", ["full", "diag", "sharedfull", "shareddiag", "identity"])
def test_models_of_glhmm(kind, mean):
    shape = 7.0
    spread = {
        "full": FULL,
        "diag": FULL * np.eye(2),
        "sharedfull": FULL[[0, 0]],
        "shareddiag": (FULL * np.eye(2))[[0, 0]],
        "identity": np.stack([np.eye(2)] * 2),
    }[kind]
    rate = shape * (spread if kind.endswith("full") else spread.diagonal(axis1=-2, axis2=-1))
    sigma = [{"rate": rate[k], "shape": shape} for k in range(1 if kind.startswith("shared") else 2)]
    means = {"state": MEANS, "shared": MEANS[[0, 0]], "no": np.zeros((2, 2))}[mean]
    model = SimpleNamespace(
        hyperparameters={"covtype": kind, "model_mean": mean},
        Pi=START,
        P=STEP,
        Sigma=[{}] if kind == "identity" else sigma,
        mean=None if mean == "no" else [{"Mu": MEANS[k]} for k in range(1 if mean == "shared" else 2)],
        beta=None,
    )
    if (kind, mean) == ("identity", "no"):
        with pytest.raises(ValueError, match="neither means nor covariances"):
            mc.HMMs.from_glhmm(model)
        return
    found = mc.HMMs.from_glhmm(model)
    np.testing.assert_allclose(found.log_prob([X])[0, 0], forward(normal(X, means, spread)), rtol=1e-12)
    assert mc.HMMs.from_glhmm([model, model]).shape == (2,)
    model.beta = [{"Mu": np.zeros((2, 2))}]
    with pytest.raises(ValueError, match="Fit it with model_beta='no'"):
        mc.HMMs.from_glhmm(model)


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_mixtures_of_scikit_learn(kind):
    x = np.random.default_rng(2).normal(size=(80, 2)) * [1.0, 3.0]
    fitted = [GaussianMixture(2, covariance_type=kind, random_state=seed).fit(x) for seed in (0, 1)]
    found = mc.Mixtures.from_sklearn(fitted)
    assert found.shape == (2,)
    np.testing.assert_allclose(found.log_prob(x), [m.score_samples(x) for m in fitted], rtol=1e-10)
    np.testing.assert_allclose(found.responsibilities(x)[0].T, fitted[0].predict_proba(x), atol=1e-10)
    assert mc.Mixtures.from_sklearn(BayesianGaussianMixture(n_components=2, random_state=0).fit(x)).shape == (1,)


def test_what_cannot_be_read_gets_one_clear_sentence(monkeypatch):
    with pytest.raises(ValueError, match=r"GaussianMixture has no weights_\. Fit it first"):
        mc.Mixtures.from_sklearn(GaussianMixture(2))
    with pytest.raises(TypeError, match="must be GaussianMixture of scikit-learn; got a dict"):
        mc.Mixtures.from_sklearn({})
    x = np.random.default_rng(3).normal(size=(40, 1))
    with pytest.raises(ValueError, match="same number of components; got 1 and 2"):
        mc.Mixtures.from_sklearn([GaussianMixture(m).fit(x) for m in (1, 2)])
    with pytest.raises(ValueError, match="at least one model; got an empty list"):
        mc.HMMs.from_hmmlearn([])
    for wrong in (None, [3.0], object()):
        with pytest.raises(TypeError, match=r"must be CategoricalHMM, .* of hmmlearn; got a \w+"):
            mc.HMMs.from_hmmlearn(wrong)
    with pytest.raises(TypeError, match=r"must be CategoricalHMM, .* of hmmlearn; got a \w+"):
        mc.HMMs.from_hmmlearn(SimpleNamespace(startprob_=START, transmat_=STEP))
    many = SimpleNamespace(startprob_=START, transmat_=STEP, emissionprob_=np.ones((2, 1)), n_trials=5)
    with pytest.raises(TypeError, match=r"must be CategoricalHMM, .* of hmmlearn; got a \w+"):
        mc.HMMs.from_hmmlearn(many)
    monkeypatch.setitem(sys.modules, "hmmlearn", None)
    monkeypatch.setitem(sys.modules, "hmmlearn.hmm", None)
    model = mc.HMMs([[1.0]], [[[1.0]]], mc.Categoricals([[[0.5, 0.5]]]))
    with pytest.raises(ImportError, match="to_hmmlearn needs hmmlearn, which is not installed"):
        model.to_hmmlearn()


class Recorder:
    """Stands in for hmmlearn's module and its models: keeps what it is given."""

    def __init__(self, **parameters):
        self.parameters = parameters


def test_models_are_written_for_hmmlearn(monkeypatch):
    kinds = {name: type(name, (Recorder,), {}) for name in ("CategoricalHMM", "GaussianHMM", "GMMHMM", "PoissonHMM")}
    monkeypatch.setitem(sys.modules, "hmmlearn", SimpleNamespace(hmm=SimpleNamespace(**kinds)))
    monkeypatch.setitem(sys.modules, "hmmlearn.hmm", SimpleNamespace(**kinds))
    large = mc.HMMs(START[None], STEP[None], mc.Gaussians(MEANS[None], FULL[None]))
    small = mc.HMMs([[1.0]], [[[1.0]]], mc.Gaussians(MEANS[None, :1], FULL[None, :1]))
    first, second = mc.HMMs.concat([large, small]).to_hmmlearn()
    assert type(first).__name__ == "GaussianHMM"
    assert first.parameters == {"n_components": 2, "covariance_type": "full"}
    np.testing.assert_array_equal(first.covars_, FULL)
    assert second.startprob_.shape == (1,)
    assert second.means_.shape == (1, 2)
    mixtures = mc.Mixtures(np.full((1, 2, 1), 1.0), mc.Gaussians(MEANS[None, :, None], np.ones((1, 2, 1))))
    for emission, kind in (
        (mc.Categoricals(np.full((1, 2, 3), 1 / 3)), "CategoricalHMM"),
        (mixtures, "GMMHMM"),
        (mc.Poissons(np.ones((1, 2, 1))), "PoissonHMM"),
    ):
        (written,) = mc.HMMs(START[None], STEP[None], emission).to_hmmlearn()
        assert type(written).__name__ == kind
        np.testing.assert_array_equal(written.transmat_, STEP)
        if kind == "GMMHMM":
            written.covariance_type = written.parameters["covariance_type"]
        again = mc.HMMs.from_hmmlearn(written)
        assert type(again.emission) is type(emission)
    with pytest.raises(TypeError, match="for hmmlearn; got Bernoullis"):
        mc.HMMs(START[None], STEP[None], mc.families.Bernoullis(np.full((1, 2, 1), 0.5))).to_hmmlearn()


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_the_real_hmmlearn(kind):
    hmm = pytest.importorskip("hmmlearn.hmm")
    x = np.random.default_rng(4).normal(size=(60, 2))
    for model in (hmm.GaussianHMM(2, kind, random_state=0), hmm.GMMHMM(2, 2, covariance_type=kind, random_state=0)):
        found = mc.HMMs.from_hmmlearn(model.fit(x))
        np.testing.assert_allclose(found.log_prob([x])[0, 0], model.score(x), rtol=1e-10)
        np.testing.assert_allclose(found.posterior([x])[0], model.predict_proba(x), atol=1e-10)
        np.testing.assert_allclose(found.to_hmmlearn()[0].score(x), model.score(x), rtol=1e-10)


@pytest.mark.parametrize("kind", ["full", "diag", "sharedfull", "shareddiag"])
def test_the_real_glhmm(kind):
    glhmm = pytest.importorskip("glhmm.glhmm")
    rng = np.random.default_rng(5)
    x = rng.normal(rng.choice([-3.0, 3.0], (60, 1)), 1.0, (60, 2))
    for _ in range(20):  # from some of its random starts glhmm gives up
        model = glhmm.glhmm(K=2, covtype=kind, model_mean="state", model_beta="no")
        try:
            model.train(X=None, Y=x, indices=np.array([[0, 60]]), options={"cyc": 5, "verbose": False})
            break
        except Exception as error:
            if "NaN were generated" not in str(error):
                raise
    else:
        pytest.fail("glhmm gave up from all of its starts")
    found = mc.HMMs.from_glhmm(model)
    np.testing.assert_allclose(found.emission.mean[0], model.get_means().T)
    assert np.isfinite(found.log_prob([x])).all()


def test_what_is_no_model_of_glhmm():
    with pytest.raises(TypeError, match=r"must be trained glhmm.* got a int"):
        mc.HMMs.from_glhmm(3)
