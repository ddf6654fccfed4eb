"""The Martin distance and the trace form of the Binet-Cauchy kernel against long matrices and simulated series."""

import re

import numpy as np
import pytest
from scipy.linalg import orth, sqrtm, subspace_angles
from sklearn.base import clone
from tests.models.test_lds import systems

import mercer as mc


def observability(model, steps, discount=1.0):
    a, c = np.asarray(model.transition)[0] * np.sqrt(discount), np.asarray(model.emission)[0]
    return np.concatenate([c @ np.linalg.matrix_power(a, t) for t in range(steps)])


@pytest.mark.parametrize(
    ("length", "steps", "discount"), [(None, 400, 1.0), (5, 5, 1.0), (mc.Discounted(0.7), 300, 0.7)]
)
def test_angles_are_those_of_long_observability_matrices(length, steps, discount):
    models = systems(0, 5, 3, 2, radius=0.9)
    tall = [observability(models[i : i + 1], steps, discount) for i in range(5)]
    expected = [[np.log(np.cos(subspace_angles(x, y)) ** 2).sum() for y in tall] for x in tall]
    kernel = mc.SubspaceAngles(length=length)
    np.testing.assert_allclose(kernel.log(models), expected, rtol=1e-7, atol=1e-9)
    bases = [orth(x) for x in tall]
    squared = [[np.linalg.det(x.T @ y) ** 2 for y in bases] for x in bases]
    np.testing.assert_allclose(kernel(models), squared, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(clone(kernel).set_params(t=2.0)(models), np.square(squared), rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(kernel(models[:2], models[2:]), np.array(squared)[:2, 2:], rtol=1e-8, atol=1e-12)


def test_angles_do_not_depend_on_the_basis_noise_or_start():
    models, other = systems(0, 4, 3, 2), systems(1, 4, 3, 2)
    basis = np.random.default_rng(0).normal(size=(3, 3)) + 3 * np.eye(3)
    turned = mc.LDSs(
        basis @ models.transition @ np.linalg.inv(basis), models.emission @ np.linalg.inv(basis),
        other.process_covariance, other.observation_covariance, other.initial_mean, other.initial_covariance,
    )  # fmt: skip
    np.testing.assert_allclose(mc.SubspaceAngles()(turned), mc.SubspaceAngles()(models), rtol=1e-8)
    np.testing.assert_allclose(np.diag(mc.SubspaceAngles()(models, turned)), 1.0, rtol=1e-9)


def directions(degrees):
    """Systems of two outputs and one state without memory, which point in some direction."""
    angle = np.deg2rad(degrees)
    one = np.ones((len(angle), 1, 1))
    emission = np.stack([np.cos(angle), np.sin(angle)], axis=1)[..., None]
    return mc.LDSs(0 * one, emission, one, np.repeat(np.eye(2)[None], len(angle), axis=0), one[..., 0], one)


def test_whole_rates_are_kernels_and_others_are_not():
    models = systems(2, 30, 2, 2)
    for t in (1.0, 2.0, 3):
        assert mc.SubspaceAngles(t=t).psd == "always"
        assert np.linalg.eigvalsh(mc.SubspaceAngles(t=t)(models)).min() > -1e-12
    bad = mc.SubspaceAngles(t=0.5)
    assert bad.psd == "no"
    lowest = np.linalg.eigvalsh(bad(directions([0, 45, 90, 135])))[0]
    np.testing.assert_allclose(lowest, 1 - np.sqrt(2), rtol=1e-10)


def test_systems_that_have_no_angles_are_named():
    models = systems(0, 3, 2, 2)
    wild = mc.LDSs(2 * np.asarray(models.transition), *(getattr(models, name) for name in list(models._arrays)[1:6]))
    with pytest.raises(ValueError, match=r"modulus 1\.8.*length=10"):
        mc.SubspaceAngles()(wild)
    cure = mc.Discounted(0.28)
    assert np.isfinite(mc.SubspaceAngles(length=cure)(wild)).all()
    with pytest.raises(ValueError, match="same number of state coordinates; got 1 and 2"):
        mc.SubspaceAngles()(mc.LDSs.concat([systems(0, 1, 1, 2), models]))
    with pytest.raises(ValueError, match="same number of state coordinates; got 2 and 1"):
        mc.SubspaceAngles()(models, systems(0, 1, 1, 2))
    with pytest.raises(ValueError, match="not observed"):
        mc.SubspaceAngles(length=1)(systems(0, 2, 3, 2))
    for kernel in (mc.SubspaceAngles(), mc.kernels.BinetCauchy()):
        with pytest.raises(TypeError, match=r"mc\.LDS"):
            kernel(mc.Poissons([[1.0], [2.0]]))


def test_unstable_systems_are_told_the_largest_discount_and_length():
    models = systems(0, 4, 2, 2)
    factor = np.array([1.0, 1.2, 1.5, 1.0])[:, None, None]
    names = list(models._arrays)[1:8]
    wild = mc.LDSs(factor * models.transition, *(getattr(models, name) for name in names))
    modulus = np.abs(np.linalg.eigvals(wild.transition)).max(axis=1)
    kernel = mc.kernels.BinetCauchy()
    with pytest.raises(ValueError, match=r"model 2 .*any d below 0\.\d+, or .*length=10") as error:
        kernel(wild)
    bound = float(re.search(r"below (0\.\d+),", str(error.value))[1])
    np.testing.assert_allclose(bound, modulus[2] ** -2, rtol=1e-3)
    cure = float(re.search(r"Discounted\((0\.\d+)\)", str(error.value))[1])
    for length in (cure, 0.999 * modulus[2] ** -2):
        found = mc.kernels.BinetCauchy(length=mc.Discounted(length))(wild)
        assert np.linalg.eigvalsh(found).min() > -1e-10
    with pytest.raises(ValueError, match="5000 steps overflows") as error:
        mc.kernels.BinetCauchy(length=5000)(wild)
    longest = int(re.search(r"at most (\d+)", str(error.value))[1])
    for shared in (True, False):
        assert np.isfinite(mc.kernels.BinetCauchy(length=longest, shared_noise=shared)(wild)).all()
    assert np.isfinite(mc.kernels.BinetCauchy(length=10)(wild)).all()
    with pytest.raises(ValueError, match="steps overflows"):
        mc.SubspaceAngles(length=100_000)(wild)


def outputs(model, normals, steps):
    """Series of one system driven by given normals, ``(S, steps, d)``."""
    a, c, q, r, mean, covariance, b, offset = (np.asarray(getattr(model, name))[0] for name in list(model._arrays)[:8])
    n = len(a)
    state = mean + normals[:, 0, :n] @ sqrtm(covariance)
    found = []
    for t in range(steps):
        if t:
            state = state @ a.T + b + normals[:, t, :n] @ sqrtm(q)
        found.append(state @ c.T + offset + normals[:, t, n:] @ sqrtm(r))
    return np.stack(found, axis=1)


def exact(models, steps, discount, shared):
    """The kernel with all random variables as coordinates: series are affine maps of the normals."""
    d, n = models.dimension, models.state_dim
    zero = np.zeros((1, steps, n + d))
    basis = np.eye(steps * (n + d)).reshape(-1, steps, n + d)
    rows = []
    for i in range(len(models)):
        mean = outputs(models[i : i + 1], zero, steps)
        linear = outputs(models[i : i + 1], basis, steps) - mean
        parts = np.concatenate([mean, linear]) if shared else mean
        rows.append((parts * discount ** (np.arange(steps)[:, None] / 2)).ravel())
    return np.array(rows) @ np.array(rows).T


@pytest.mark.parametrize("shared", [True, False])
def test_trace_kernels_are_inner_products_of_series(shared):
    models = systems(4, 4, 2, 2, radius=0.7)
    kernel = mc.kernels.BinetCauchy(length=6, shared_noise=shared, normalize=False)
    np.testing.assert_allclose(kernel(models), exact(models, 6, 1.0, shared), rtol=1e-9)
    np.testing.assert_allclose(kernel.diag(models), np.diag(exact(models, 6, 1.0, shared)), rtol=1e-9)
    kernel = mc.kernels.BinetCauchy(length=mc.Discounted(0.5), shared_noise=shared, normalize=False)
    np.testing.assert_allclose(kernel(models), exact(models, 50, 0.5, shared), rtol=1e-9)
    found = mc.kernels.BinetCauchy(shared_noise=shared)(systems(5, 20, 2, 2, radius=0.9))
    np.testing.assert_array_equal(np.diag(found), 1.0)
    assert np.linalg.eigvalsh(found).min() > -1e-12


def test_systems_of_different_sizes_have_trace_kernels():
    small, large = systems(0, 2, 1, 2), systems(1, 2, 3, 2)
    found = mc.kernels.BinetCauchy()(mc.LDSs.concat([small, large]))
    np.testing.assert_allclose(found[:2, :2], mc.kernels.BinetCauchy()(small), rtol=1e-10)
    np.testing.assert_allclose(found[:2, 2:], mc.kernels.BinetCauchy()(small, large), rtol=1e-10)


@pytest.mark.slow
def test_comparators_take_series():
    X = [systems(i % 2, 1, 2, 2).sample(40, random_state=i)[0, 0] for i in range(6)]
    for kernel in (
        mc.SubspaceAngles(mc.LDS(2, n_iter=20, tol=0.0), length=20),
        mc.kernels.BinetCauchy(mc.LDS(2, n_iter=20, tol=0.0)),
    ):
        found = kernel.fit(X[:4]).transform(X[4:])
        assert found.shape == (2, 4)
        assert np.isfinite(found).all()
