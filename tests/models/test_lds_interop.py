"""Linear dynamical systems of pykalman, statsmodels and dynamax."""

from types import SimpleNamespace

import numpy as np
import pytest
from tests.models.test_lds import systems

import mercer as mc

NAMES = list(mc.LDSs._arrays)[:8]


def parts(model):
    """Return the parameters of a batch of one system."""
    return [np.asarray(getattr(model, name))[0] for name in NAMES]


def same(found, expected):
    for name in mc.LDSs._arrays:
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)


def as_pykalman(model):
    a, c, q, r, mean, covariance, b, offset = parts(model)
    return SimpleNamespace(
        transition_matrices=a, observation_matrices=c, transition_covariance=q, observation_covariance=r,
        initial_state_mean=mean, initial_state_covariance=covariance, transition_offsets=b, observation_offsets=offset,
        n_dim_state=len(a), n_dim_obs=len(c),
    )  # fmt: skip


def as_statsmodels(model):
    a, c, q, r, mean, covariance, b, offset = parts(model)
    values, vectors = np.linalg.eigh(q)
    found = SimpleNamespace(
        transition=a[..., None], design=c[..., None], selection=vectors[..., None],
        state_cov=np.diag(values)[..., None], obs_cov=r[..., None], state_intercept=b[:, None],
        obs_intercept=np.repeat(offset[:, None], 5, axis=1), initial_state=mean,
        initial_state_cov=covariance, initial_diffuse_state_cov=np.zeros_like(q),
    )  # fmt: skip
    return SimpleNamespace(filter_results=found)


def as_dynamax(model, diagonal=False):
    a, c, q, r, mean, covariance, b, offset = (
        [np.asarray(getattr(model, name)) for name in NAMES] if len(model) > 1 else parts(model)
    )
    none = np.zeros((*mean.shape, 0))
    return SimpleNamespace(
        initial=SimpleNamespace(mean=mean, cov=covariance),
        dynamics=SimpleNamespace(weights=a, bias=b, cov=q, input_weights=none),
        emissions=SimpleNamespace(weights=c, bias=offset, cov=np.diagonal(r) if diagonal else r, input_weights=none),
    )


def test_filters_of_pykalman():
    small, large = systems(0, 1, 2, 2), systems(1, 1, 3, 2)
    same(mc.LDSs.from_pykalman(as_pykalman(small)), small)
    same(mc.LDSs.from_pykalman([as_pykalman(small), as_pykalman(large)]), mc.LDSs.concat([small, large]))
    bare = SimpleNamespace(**dict.fromkeys(vars(as_pykalman(small))))  # what is not set is the identity, or zero
    bare.n_dim_state, bare.n_dim_obs = 3, 2
    found = mc.LDSs.from_pykalman(bare)
    np.testing.assert_array_equal(found.emission, np.eye(2, 3)[None])
    np.testing.assert_array_equal(found.state_offset, np.zeros((1, 3)))
    varying = as_pykalman(small)
    varying.transition_matrices = np.stack([varying.transition_matrices] * 4)
    with pytest.raises(ValueError, match="transition_matrices changes over time"):
        mc.LDSs.from_pykalman(varying)
    with pytest.raises(TypeError, match="KalmanFilter of pykalman"):
        mc.LDSs.from_pykalman(SimpleNamespace())
    with pytest.raises(ValueError, match="empty list"):
        mc.LDSs.from_pykalman([])


def test_results_of_statsmodels():
    model = systems(0, 1, 2, 2)
    found = mc.LDSs.from_statsmodels([as_statsmodels(model)] * 2)
    assert found.shape == (2,)
    for name in NAMES:
        np.testing.assert_allclose(getattr(found, name)[1:], getattr(model, name), rtol=1e-12, err_msg=name)
    varying = as_statsmodels(model)
    varying.filter_results.design = np.arange(8.0).reshape(2, 2, 2)
    with pytest.raises(ValueError, match="design changes over time"):
        mc.LDSs.from_statsmodels(varying)
    diffuse = as_statsmodels(model)
    diffuse.filter_results.initial_diffuse_state_cov = np.eye(2)
    with pytest.raises(ValueError, match="initialize_approximate_diffuse"):
        mc.LDSs.from_statsmodels(diffuse)
    with pytest.raises(TypeError, match="statsmodels"):
        mc.LDSs.from_statsmodels(SimpleNamespace())


def test_parameters_of_dynamax():
    models = systems(0, 3, 2, 2)
    same(mc.LDSs.from_dynamax(as_dynamax(models)), models)
    same(mc.LDSs.from_dynamax([as_dynamax(models[:1]), as_dynamax(models[2:])]), models[[0, 2]])
    found = mc.LDSs.from_dynamax(as_dynamax(models[:1], diagonal=True))
    np.testing.assert_array_equal(found.observation_covariance, models[:1].observation_covariance * np.eye(2))
    driven = as_dynamax(models[:1])
    driven.dynamics.input_weights = np.ones((2, 1))
    with pytest.raises(ValueError, match="input_dim=0"):
        mc.LDSs.from_dynamax(driven)
    with pytest.raises(TypeError, match="LinearGaussianSSM"):
        mc.LDSs.from_dynamax(SimpleNamespace())


def test_one_system_goes_to_pykalman(monkeypatch):
    monkeypatch.setattr("mercer.models._dynamics.interop.import_module", lambda name: pytest.fail(name))
    with pytest.raises(ValueError, match=r"models\[3:4\]"):
        systems(0, 2).to_pykalman()

    def absent(name):
        raise ImportError(name)

    monkeypatch.setattr("mercer.models._dynamics.interop.import_module", absent)
    with pytest.raises(ImportError, match="pip install pykalman"):
        systems(0, 1).to_pykalman()
    library = SimpleNamespace(KalmanFilter=lambda **given: given)
    monkeypatch.setattr("mercer.models._dynamics.interop.import_module", lambda name: library)
    both = mc.LDSs.concat([systems(0, 1, 2), systems(1, 1, 4)])
    same(mc.LDSs.from_pykalman(SimpleNamespace(**both[:1].to_pykalman(), n_dim_state=2, n_dim_obs=2)), systems(0, 1, 2))


# -- the libraries themselves -----------------------------------------------------------------------------------


def test_pykalman_agrees():
    pytest.importorskip("pykalman", reason="pykalman is not installed")
    model = systems(3, 1, 3, 2)
    x = model.sample(40, random_state=0)[0, 0]
    written = model.to_pykalman()
    np.testing.assert_allclose(model.log_prob([x])[0, 0], written.loglikelihood(x), rtol=1e-9)
    same(mc.LDSs.from_pykalman(written), model)
    np.testing.assert_allclose(model.posterior([x]).means, written.smooth(x)[0], rtol=1e-8)


def test_statsmodels_agrees():
    api = pytest.importorskip("statsmodels.api", reason="statsmodels is not installed")
    x = np.cumsum(np.random.default_rng(0).normal(size=60))
    x[10:13] = np.nan
    for model, parameters in (
        (api.tsa.SARIMAX(x, order=(2, 0, 1), trend="c"), [0.3, 0.5, 0.2, 0.4, 1.3]),
        (api.tsa.UnobservedComponents(x, "local linear trend"), [0.5, 0.2, 0.1]),
    ):
        model.ssm.loglikelihood_burn = 0
        results = model.filter(parameters)
        found = mc.LDSs.from_statsmodels(results).log_prob([x])[0, 0]
        np.testing.assert_allclose(found, results.llf, rtol=1e-9)


def test_dynamax_agrees():
    ssm = pytest.importorskip("dynamax.linear_gaussian_ssm", reason="dynamax is not installed")
    import jax

    jax.config.update("jax_enable_x64", True)
    model = systems(3, 1, 3, 2)
    x = model.sample(40, random_state=0)[0, 0]
    a, c, q, r, mean, covariance, b, offset = parts(model)
    filterer = ssm.LinearGaussianSSM(3, 2)
    params, _ = filterer.initialize(
        jax.random.PRNGKey(0), initial_mean=mean, initial_covariance=covariance, dynamics_weights=a, dynamics_bias=b,
        dynamics_covariance=q, emission_weights=c, emission_bias=offset, emission_covariance=r,
    )  # fmt: skip
    same(mc.LDSs.from_dynamax(params), model)
    expected = float(filterer.marginal_log_prob(params, jax.numpy.asarray(x)))
    np.testing.assert_allclose(model.log_prob([x])[0, 0], expected, rtol=1e-9)
