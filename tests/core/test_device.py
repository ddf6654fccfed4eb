"""``mc.config(device=...)`` and ``batch.to(device)``; the device is torch's CPU here."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import mercer as mc
from mercer.families import gaussian_fused
from mercer.kernels import _device_choice
from mercer.kernels._device_choice import device_pairs
from mercer.models._chains import fused as chains_fused
from mercer.models.devices import moves, pairs_at_once

RNG = np.random.default_rng(0)
MODELS = mc.HMMs(
    RNG.dirichlet(np.ones(3), 6), RNG.dirichlet(np.ones(3), (6, 3)), mc.Categoricals(RNG.dirichlet(np.ones(4), (6, 3)))
)
GAUSSIANS = mc.Gaussians(RNG.normal(size=(6, 2)), RNG.gamma(2.0, size=(6, 2)))


@pytest.fixture
def moving(torch, monkeypatch):
    """Let torch's CPU stand for the GPU; return the devices of the operands that were prepared."""
    monkeypatch.setattr(_device_choice, "target", lambda: torch.device("cpu") if mc.settings().device else None)


@pytest.mark.parametrize("value", ["gpu", "cuda:x", "cuda:", 0, "cpu"])
def test_a_device_is_a_gpu(value):
    with pytest.raises(ValueError, match=f"device must be 'cuda', .* got {value!r}"):
        mc.config(device=value)


@pytest.mark.parametrize("value", ["cuda", "cuda:0"])
def test_without_a_gpu_a_kernel_says_so(torch, value):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with mc.config(device=value):
        with pytest.raises(RuntimeError, match=f"device='{value}' needs an NVIDIA GPU.*device=None"):
            mc.ProbabilityProduct()(MODELS)
        assert mc.RBF(gamma=1.0)([[0.0], [1.0]]).shape == (2, 2)  # computed where the data are


def test_without_torch_a_kernel_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with mc.config(device="cuda"), pytest.raises(ImportError, match="needs torch"):
        mc.ProbabilityProduct()(MODELS)


def test_fits_stay_on_the_cpu(monkeypatch):
    estimator, strings = mc.HMM(2, mc.Categorical(alphabet="dna"), n_iter=2), ["ACGTACGT", "CCGGTTAA"]
    with mc.config(cache_bytes=0):
        expected = estimator.fit_each(strings)
        with mc.config(device="cuda"):
            monkeypatch.setattr(_device_choice, "target", lambda: pytest.fail("a fit asked for the device"))
            found = estimator.fit_each(strings)
    np.testing.assert_array_equal(found.transition, expected.transition)


@pytest.mark.parametrize("kernel", [mc.ProbabilityProduct(length=5), mc.MeanMap(gamma=0.3, length=5)])
@pytest.mark.parametrize("models", [MODELS, GAUSSIANS])
def test_numpy_is_moved_and_results_are_brought_back(moving, monkeypatch, kernel, models):
    def results():
        kernel.fit(models)
        return (
            kernel(models), kernel(models[:2], models), kernel.log(models), kernel.diag(models),
            kernel.distance(models), kernel.transform(models[:3]),
        )  # fmt: skip

    seen = []
    couple = type(models).couple
    monkeypatch.setattr(type(models), "couple", lambda self, *a: (seen.append(self), couple(self, *a))[1])
    expected = results()
    assert all(moves(batch) for batch in seen)
    seen.clear()
    with mc.config(device="cuda", memo_bytes=0):
        found = results()
    assert seen
    assert not any(moves(batch) for batch in seen)
    for a, b in zip(found, expected, strict=True):
        assert isinstance(a, np.ndarray)
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-7)
    np.testing.assert_array_equal(kernel(models), expected[0])  # nothing stays behind


def test_all_lengths_and_kernels_of_kernels(moving):
    kernel = mc.ProbabilityProduct()
    with mc.config(device="cuda"):
        path = kernel.path(MODELS, lengths=[2, 6])
        total = (kernel + kernel)(MODELS)  # parts stay where they are
    np.testing.assert_allclose(path, kernel.path(MODELS, lengths=[2, 6]), rtol=1e-12)
    np.testing.assert_array_equal(total, (kernel + kernel)(MODELS))


def test_a_batch_moves_to_torch_and_back(torch):
    there = MODELS.to("cpu")
    assert isinstance(there.transition, torch.Tensor)
    assert isinstance(there.emission.probability, torch.Tensor)
    assert isinstance(mc.ProbabilityProduct()(there), torch.Tensor)
    back = there.to("numpy")
    assert back.digests() == MODELS.digests()


def test_sparse_models_stay():
    from scipy import sparse

    models = mc.Multinomials(sparse.csr_array([[0.5, 0.5], [1.0, 0.0]]), trials=3)
    assert not moves(models)
    with pytest.raises(TypeError, match="probability of Multinomials is sparse"):
        models.to("cpu")


def test_a_device_that_is_not_there_is_named(torch):
    with pytest.raises(ValueError, match=r"device of torch.*'nowhere'"):
        GAUSSIANS.to("nowhere")
    if not torch.cuda.is_available():
        with pytest.raises(RuntimeError, match=r"'cuda' needs an NVIDIA GPU.*to\(\"numpy\"\)"):
            GAUSSIANS.to("cuda")


def test_the_table_of_triton_kernels(torch, monkeypatch):
    """Which operands have a Triton kernel, and how many pairs it computes at once, if the GPU takes all arrays."""
    product, tiny = mc.ProbabilityProduct(rho=0.5, length=4), mc.ProbabilityProduct(rho=200.0, length=4)
    there = [MODELS.to("cpu"), GAUSSIANS.to("cpu"), mc.Poissons([[1.0], [2.0]]).to("cpu")]
    operands = [product._prepare(models) for models in there] + [tiny._prepare(there[0])]
    assert not any(map(pairs_at_once, operands))  # no GPU here
    assert device_pairs(*operands[:1]) is None
    for module in (chains_fused, gaussian_fused.cuda):
        monkeypatch.setattr(module, "usable", lambda *arrays: all(isinstance(x, torch.Tensor) for x in arrays))
    assert [pairs_at_once(operand) for operand in operands] == [2**28, 2**28, None, None]
    assert device_pairs(operands[0], operands[1]) == 2**28
    assert device_pairs(operands[0], operands[2]) is None
