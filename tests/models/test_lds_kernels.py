"""Kernels of linear dynamical systems other than those of the joint distribution over time."""

import mpmath
import numpy as np
import pytest
from sklearn.base import clone
from tests.models.test_lds import joint, systems

import mercer as mc


@pytest.mark.parametrize("rho", [0.5, 1.0, 1.7])
def test_independent_steps_are_a_block_diagonal_joint_covariance(rho):
    models, length = systems(7, 3, 2, 2), 5
    joints = [joint(models[i : i + 1], length)[3:] for i in range(3)]
    blocks = np.kron(np.eye(length), np.ones((2, 2)))
    gaussians = mc.Gaussians(np.stack([m for m, _ in joints]), np.stack([s * blocks for _, s in joints]))
    for normalize in (True, False):
        options = {"length": length, "time": "independent", "normalize": normalize}
        found = mc.ProbabilityProduct(rho=rho, **options)(models)
        np.testing.assert_allclose(found, mc.ProbabilityProduct(rho=rho, normalize=normalize)(gaussians), rtol=1e-9)
        found = mc.MeanMap(gamma=rho, **options)(models)
        np.testing.assert_allclose(found, mc.MeanMap(gamma=rho, normalize=normalize)(gaussians), rtol=1e-9)
    kernel = mc.ProbabilityProduct(rho=rho, length=length)
    assert np.abs(kernel.log(models) - kernel.set_params(time="independent").log(models)).max() > 1.0


def test_independent_steps_are_the_joint_kernel_of_one_step_and_of_systems_without_memory():
    models = systems(0, 3, 2, 2)
    still = mc.LDSs(*(0.0 * np.asarray(getattr(models, name)) if name == "transition" else getattr(models, name)
                      for name in list(models._arrays)[:8]))  # fmt: skip
    for kernel in (mc.ProbabilityProduct(rho=0.7), mc.MeanMap(gamma=0.3)):
        for given, length in ((models, 1), (still, 6)):
            found = clone(kernel).set_params(time="independent", length=length)(given)
            np.testing.assert_allclose(found, clone(kernel).set_params(length=length)(given), rtol=1e-10)


@pytest.mark.slow
def test_independent_steps_have_paths_and_discounted_sums():
    models = systems(3, 3, 2, 1)
    kernel = mc.ProbabilityProduct(rho=1.0, normalize=False, time="independent")
    by_length = [mc.ProbabilityProduct(rho=1.0, length=n, normalize=False, time="independent")(models)
                 for n in range(1, 80)]  # fmt: skip
    np.testing.assert_allclose(kernel.path(models, lengths=[9, 2]), [by_length[8], by_length[1]], rtol=1e-12)
    expected = sum(0.4 * 0.6**n * value for n, value in enumerate(by_length))
    found = clone(kernel).set_params(length=mc.Discounted(0.6))(models)
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    assert np.linalg.eigvalsh(by_length[9]).min() > 0


def test_models_without_marginals_say_so():
    with pytest.raises(TypeError, match="time='joint'"):
        mc.ProbabilityProduct(time="independent")(mc.Poissons([[1.0], [2.0]]))
    wild = mc.LDSs([[[1e30]]], [[[1.0]]], [[[1.0]]], [[[1.0]]], [[1.0]], [[[1.0]]])
    with pytest.raises(ValueError, match="unstable"):
        wild.marginals(50)


def walks(*factors, start=1.0):
    """Systems of one state that is multiplied at every step."""
    one = np.ones((len(factors), 1, 1))
    return mc.LDSs(np.reshape(factors, (-1, 1, 1)), one, one, one, one[..., 0], start * one)


def exact_log_kernel(left, right, length, rho):
    """The kernel of two of these walks, from dense covariances with 60 digits."""
    with mpmath.workdps(60):
        means, covariances, determinants = [], [], []
        for factor in (left, right):
            a, variances = mpmath.mpf(factor), [mpmath.mpf(1)]
            for _ in range(length - 1):
                variances.append(a**2 * variances[-1] + 1)
            covariances.append(
                mpmath.matrix(
                    [[a ** abs(t - u) * variances[min(t, u)] + (t == u) for u in range(length)] for t in range(length)]
                )
            )
            means.append(mpmath.matrix([a**t for t in range(length)]))
        for matrix in (*covariances, covariances[0] + covariances[1]):
            root = mpmath.cholesky(matrix)
            determinants.append(2 * sum(mpmath.log(root[t, t]) for t in range(length)))
        away = means[0] - means[1]
        square = (away.T * mpmath.cholesky_solve(covariances[0] + covariances[1], away))[0]
        half = mpmath.mpf(length) / 2
        return float(
            (1 - 2 * rho) * half * mpmath.log(2 * mpmath.pi) - half * mpmath.log(rho)
            + (1 - rho) / 2 * (determinants[0] + determinants[1]) - determinants[2] / 2 - rho / 2 * square
        )  # fmt: skip


def test_kernels_of_unstable_systems_keep_their_digits():
    factors = [1.5, 1.4, 0.5, 1.5]
    models, length = walks(*factors), 40
    found = mc.ProbabilityProduct(rho=0.3, length=length, normalize=False).log(models)
    for i, j in ((0, 3), (0, 1), (0, 2)):
        np.testing.assert_allclose(found[i, j], exact_log_kernel(factors[i], factors[j], length, 0.3), atol=1e-8)
    np.testing.assert_array_equal(np.diag(found)[[0, 3]], found[0, 3])
    for kernel in (mc.ProbabilityProduct(length=2000), mc.MeanMap(gamma=0.1, length=2000)):
        table = kernel(models)
        np.testing.assert_allclose(table[0, 3], 1.0, rtol=1e-12)  # the same system
        assert table.max() <= 1 + 1e-9
        assert np.linalg.eigvalsh(table).min() > -1e-9
    slope = np.diff(mc.MeanMap(gamma=0.1, normalize=False).path(walks(1.5), lengths=[300, 301, 302], log=True)[:, 0, 0])
    np.testing.assert_allclose(slope[0], slope[1], rtol=1e-9)


def test_systems_that_are_unstable_in_almost_the_same_way_are_named():
    models = mc.LDSs.concat([walks(1.5), walks(1.5 + 1e-6), walks(1.5, start=2.0)])
    with pytest.raises(ValueError, match=r"modulus 1\.5 and 1\.5.*at most 29"):
        mc.ProbabilityProduct(length=100)(models)
    assert mc.ProbabilityProduct(length=29)(models).max() <= 1 + 1e-5
    assert mc.ProbabilityProduct(length=100)(models[:1], walks(1.4)).shape == (1, 1)
