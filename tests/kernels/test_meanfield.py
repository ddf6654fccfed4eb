"""Mean field bounds of factorial hidden Markov models and networks against the sums that they bound (T-13)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.models.test_bayesnet import brute_product, random_net
from tests.models.test_factorial_hmm import exact_product, models

import mercer as mc
from mercer.models._factorial import bound
from mercer.models._nets import bound as net_bound
from mercer.models._nets import contraction


def field(**options):
    return mc.kernels.MeanField(normalize=False, **options)


@given(st.integers(0, 1000), st.sampled_from([0.5, 1.0]))
def test_bounds_are_below_the_sum(seed, rho):
    p, q = models(seed, 1, d=2), models(seed + 1, 1, chains=1, d=2)
    for left, right in ((p, q), (p, p)):
        exact = np.log(exact_product(left, right, 0, 0, rho, 2))
        found = field(rho=rho, length=2, n_init=2).log(left, right)[0, 0]
        assert exact - 3 < found <= exact + 1e-9


def test_one_chain_against_one_state_is_exact():
    p = models(0, 3, chains=1, n=3, d=2)
    one = mc.models.FactorialHMMs(np.ones((1, 1, 1)), np.ones((1, 1, 1, 1)), np.ones((1, 1, 1, 2)), [np.eye(2)])
    expected = [[exact_product(p, one, i, 0, 0.7, 3)] for i in range(3)]
    np.testing.assert_allclose(field(rho=0.7, length=3)(p, one), expected, rtol=1e-9)


def test_bounds_never_decrease(monkeypatch):
    p, q = models(0, 2, chains=3), models(1, 3, chains=2)
    kernel, reached = field(length=4, n_init=1), []
    for sweeps in (1, 2, 3, 6, 12):
        monkeypatch.setattr(bound, "SWEEPS", sweeps)
        reached.append(kernel.log(p, q))
    assert (np.diff(reached, axis=0) >= -1e-12).all()
    assert (field(length=4, n_init=3).log(p, q) >= reached[-1]).all()
    np.testing.assert_allclose(kernel.diag(p), np.diag(kernel(p, p)), rtol=1e-12)


def test_a_pair_does_not_depend_on_its_neighbors():
    p = models(0, 6)
    whole = field(length=3)(p)
    for i in range(6):
        # rounding may add a sweep, in which a bound grows by at most 1e-9
        np.testing.assert_allclose(field(length=3)(p[[i]], p), whole[[i]], rtol=2e-9)


def test_models_with_too_many_joint_states_are_compared():
    large = models(0, 2, chains=12)
    with pytest.raises(ValueError, match=r"4,096 joint states.*mc\.kernels\.MeanField"):
        mc.ProbabilityProduct(length=2)(large)
    assert np.isfinite(field(length=2, n_init=1).log(large)).all()


def test_the_matrix_is_marked_and_repaired():
    kernel = mc.kernels.MeanField(length=3)
    assert kernel.psd == "no"
    assert mc.gram.psd.check(mc.kernels.Repaired(kernel).fit_transform(models(0, 6)))
    with pytest.raises(TypeError, match="FactorialHMMs"):
        kernel(mc.Poissons([[1.0]]))
    with pytest.raises(ValueError, match="length must be"):
        mc.kernels.MeanField(length=None)(models())


def test_models_are_fitted_to_series():
    rng = np.random.default_rng(0)
    kernel = mc.kernels.MeanField(mc.models.FactorialHMM(n_iter=2, n_init=1), length=3)
    K = kernel.fit_transform([rng.normal(size=(8, 2)) for _ in range(3)])
    np.testing.assert_allclose(np.diag(K), 1.0)


KINDS = [{}, {"gaussian": True}, {"zeros": True}]


@pytest.mark.slow
@pytest.mark.parametrize("options", KINDS, ids=str)
@pytest.mark.parametrize("rho", [0.5, 1.0])
def test_bounds_of_networks_are_below_the_sum(options, rho):
    for seed in range(4):
        p = random_net(seed, ("a", "b"), ("h",), size=2, **options)
        q = p if "gaussian" in options else random_net(seed + 9, ("a", "b"), ("h",), size=2, **options)
        exact = np.log([[brute_product(p, q, i, j, rho) for j in range(2)] for i in range(2)])
        found = field(rho=rho).log(p, q)
        assert (found <= exact + 1e-9).all()
        assert (found >= exact - 6).all()


def test_independent_nodes_are_exact():
    rng = np.random.default_rng(0)
    p, q = (mc.BayesNets({n: rng.dirichlet(np.ones(3), size=3) for n in "ab"}, {"a": 3, "b": 3}) for _ in range(2))
    for rho in (0.3, 1.0):
        exact = mc.ProbabilityProduct(rho=rho, normalize=False)
        np.testing.assert_allclose(field(rho=rho)(p, q), exact(p, q), rtol=1e-9)
        np.testing.assert_allclose(field(rho=rho).diag(p), exact.diag(p), rtol=1e-9)


def test_bounds_of_networks_never_decrease(monkeypatch):
    p, q = random_net(1, size=2), random_net(2, size=3)
    kernel, reached = field(n_init=1), []
    for sweeps in (1, 2, 4, 8):
        monkeypatch.setattr(net_bound, "SWEEPS", sweeps)
        reached.append(kernel.log(p, q))
    assert (np.diff(reached, axis=0) >= -1e-12).all()
    np.testing.assert_allclose(kernel.diag(p), np.diag(kernel(p, p)), rtol=1e-12)


def test_networks_that_elimination_cannot_sum_over_are_compared(monkeypatch):
    nets = random_net(0, size=2)
    monkeypatch.setattr(contraction, "LARGEST", 2)
    with pytest.raises(ValueError, match=r"entries.*mc\.kernels\.MeanField"):
        mc.ProbabilityProduct()(nets)
    K = mc.kernels.MeanField(n_init=1)(nets)
    np.testing.assert_allclose(np.diag(K), 1.0)
    assert 0 < K[0, 1] < 1


def test_networks_are_fitted_and_compared():
    rng = np.random.default_rng(0)
    X = [rng.integers(2, size=(20, 2)).astype(float) for _ in range(3)]
    K = mc.kernels.MeanField(mc.BayesNet({"a": 2, "b": 2}, {"b": ["a"]})).fit_transform(X)
    np.testing.assert_allclose(np.diag(K), 1.0)
