"""Linear dynamical systems of pykalman and statsmodels."""

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


# -- the libraries themselves -----------------------------------------------------------------------------------


def test_pykalman_agrees():
    pykalman = pytest.importorskip("pykalman", reason="pykalman is not installed")
    model = systems(3, 1, 3, 2)
    x = model.sample(40, random_state=0)[0, 0]
    given = {name: value for name, value in vars(as_pykalman(model)).items() if not name.startswith("n_dim")}
    written = pykalman.KalmanFilter(**given)
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
