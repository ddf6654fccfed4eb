"""Kernels of linear dynamical systems other than those of the joint distribution over time."""

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
