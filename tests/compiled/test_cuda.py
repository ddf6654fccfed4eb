"""Fused programs: on an NVIDIA card, or, without one, in Triton's interpreter where Triton is installed."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import mercer as mc
from mercer.compiled import cuda
from mercer.models._fitting import on_card


@pytest.fixture
def place(torch):
    """Return the torch device on which programs run, or skip."""
    if not cuda.has_triton():
        pytest.skip("fused programs need Triton 3.2 or newer, which comes with torch for CUDA on Linux")
    if torch.cuda.is_available() and not cuda.interpreted():
        return "cuda"
    if not cuda.interpreted():
        pytest.skip("no NVIDIA card; test_in_the_interpreter runs this in Triton's interpreter")
    return "cpu"


def hmms(count, n, symbols=4, seed=0):
    rng = np.random.default_rng(seed)
    emission = mc.Categoricals(rng.dirichlet(np.ones(symbols), (count, n)))
    return mc.HMMs(rng.dirichlet(np.ones(n), count), rng.dirichlet(np.ones(n), (count, n)), emission)


def gaussians(*shape, d=3, full=True, seed=0):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(*shape, d, d + 2))
    covariance = root @ np.swapaxes(root, -1, -2) if full else rng.gamma(2.0, size=(*shape, d))
    return mc.Gaussians(rng.normal(size=(*shape, d)), covariance)


def compare(kernel, models, place, other=None, atol=1e-12):
    there = models.to(place)
    found = kernel.log(there, None if other is None else other.to(place)).cpu().numpy()
    expected = kernel.log(models, other)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=atol)
    if other is None:
        np.testing.assert_array_equal(found, np.swapaxes(found, -1, -2))
        assert mc.gram.runs()[-2].tiles == 1
    return found


@pytest.mark.parametrize(
    ("n", "m", "symbols", "length"), [(4, 3, 4, 10), (1, 2, 20, 1), (8, 16, 17, 40), (20, 5, 3, 9)]
)
def test_symbols(place, n, m, symbols, length):
    kernel = mc.ProbabilityProduct(rho=0.5, length=length)
    compare(kernel, hmms(9, n, symbols), place)
    compare(kernel, hmms(5, n, symbols), place, hmms(7, m, symbols, seed=1))


def test_sizes_and_lengths_in_one_call(place):
    models = mc.HMMs.concat([hmms(2, n, seed=n) for n in (5, 1, 18, 3)])
    kernel = mc.MeanMap(gamma=0.4)
    found = kernel.path(models.to(place), lengths=[1, 4, 21]).cpu().numpy()
    np.testing.assert_allclose(found, kernel.path(models, lengths=[1, 4, 21]), rtol=1e-12)


@pytest.mark.parametrize("order", [1, 2])
def test_markov_chains(place, order):
    strings = ["ACGTAACCGT", "AAAACGCGCG", "GGTTACCAGT", "ACCAGGGTT"]
    models = mc.MarkovChain(order=order, alphabet="dna").fit_each(strings)
    compare(mc.ProbabilityProduct(rho=0.5, length=15), models, place)
    kernel = mc.ProbabilityProduct(rho=0.5)
    found = kernel.path(models.to(place), lengths=[2, 5]).cpu().numpy()
    np.testing.assert_allclose(found, kernel.path(models, lengths=[2, 5]), rtol=1e-12)


@pytest.mark.parametrize("full", [True, False])
def test_gaussian_emissions(place, full):
    models = hmms(6, 3)
    models = mc.HMMs(models.initial, models.transition, gaussians(6, 3, full=full))
    compare(mc.ProbabilityProduct(rho=0.7, length=12), models, place)


def test_pairs_out_of_range_are_repeated(place):
    sticky = mc.HMMs(
        [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]], [np.eye(2)] * 3, mc.Categoricals([[[1.0, 0.0], [0.0, 1.0]]] * 3)
    )
    compare(mc.ProbabilityProduct(rho=1.0, length=4), sticky, place)  # a kernel is zero
    rare = mc.HMMs(
        [[1.0], [1.0]], [[[1.0]], [[1.0]]], mc.Categoricals([[[1e-30, 1.0 - 1e-30]], [[1.0 - 1e-30, 1e-30]]])
    )
    compare(mc.ProbabilityProduct(rho=1.0, length=300, normalize=False), rare, place)
    far = mc.HMMs(
        [[0.5, 0.5]] * 2,
        [[[0.9, 0.1], [0.2, 0.8]]] * 2,
        mc.Gaussians([[[0.0], [90.0]], [[1.0], [40.0]]], np.ones((2, 2))),
    )
    compare(mc.ProbabilityProduct(rho=1.0, length=20), far, place)  # leaf kernels underflow relative to others


@pytest.mark.parametrize(("d", "full"), [(1, False), (3, False), (4, True), (9, True)])
def test_gaussians(place, d, full):
    models = gaussians(19, d=d, full=full)
    compare(mc.ProbabilityProduct(rho=0.3), models, place)
    compare(mc.MeanMap(gamma=0.37), models, place)
    compare(mc.ProbabilityProduct(rho=1.0), models, place, gaussians(5, d=d, full=full, seed=1))


def test_singular_covariances_are_found(place):
    models = mc.Gaussians([[0.0, 0.0], [1.0, 1.0]], [np.eye(2), np.ones((2, 2))]).to(place)
    with pytest.raises(ValueError, match="has a singular covariance"):
        mc.ProbabilityProduct()(models)


def test_gradients_and_float32_use_array_code(torch, place):
    models = hmms(4, 3)
    initial = torch.tensor(np.asarray(models.initial), device=place, requires_grad=True)
    moved = models.to(place)
    mc.ProbabilityProduct()(mc.HMMs(initial, moved.transition, moved.emission)).sum().backward()
    assert bool(torch.isfinite(initial.grad).all())
    assert not cuda.usable(moved.initial.float())


@pytest.mark.parametrize("prior", ["pooled", None])
def test_baum_welch(torch, place, monkeypatch, prior):
    monkeypatch.setattr(on_card, "target", lambda: torch.device(place))
    monkeypatch.setattr(on_card, "LEAST_MODELS", 2)
    strings = ["ACGTAACC", "AAAACG", "GGTTACCA", "ACCA"]
    estimator = mc.HMM(n_states=2, prior=prior, n_iter=5, tol=1e-3)
    with mc.config(cache_bytes=0):
        expected, info = estimator.fit_each(strings, return_info=True)
        context = estimator.context(mc.Sequences(strings))
        with mc.config(device="cuda"):
            monkeypatch.setattr(on_card, "climb", None)  # all are fitted on the device
            found, there = estimator.fit_each(strings, context, return_info=True)
    np.testing.assert_allclose(found.transition, expected.transition, rtol=1e-9)
    np.testing.assert_allclose(found.emission.probability, expected.emission.probability, rtol=1e-9)
    np.testing.assert_allclose(there.objective, info.objective, rtol=1e-12)
    np.testing.assert_array_equal(there.n_iter, info.n_iter)
    np.testing.assert_array_equal(there.converged, info.converged)


def test_baum_welch_leaves_other_symbols_to_the_cpu(torch, place, monkeypatch):
    monkeypatch.setattr(on_card, "target", lambda: torch.device(place))
    monkeypatch.setattr(on_card, "LEAST_MODELS", 2)
    with mc.config(cache_bytes=0):
        expected = mc.HMM(n_states=2, alphabet="dna", n_iter=3, tol=0.0).fit_each(["ACGN", "AACC"])
        with mc.config(device="cuda"):
            found = mc.HMM(n_states=2, alphabet="dna", n_iter=3, tol=0.0).fit_each(["ACGN", "AACC"])
    np.testing.assert_array_equal(found.transition, expected.transition)


def test_in_the_interpreter(torch):
    """Run this file again where Triton interprets its programs on the CPU."""
    if not cuda.has_triton():
        pytest.skip("fused programs need Triton 3.2 or newer, which comes with torch for CUDA on Linux")
    if cuda.interpreted() or torch.cuda.is_available():
        pytest.skip("the programs themselves run here")
    probe = "import triton; from triton.runtime import interpreter; import numpy; int(numpy.zeros(1))"
    if subprocess.run([sys.executable, "-c", probe], capture_output=True, check=False).returncode:
        pytest.skip("this version of Triton does not interpret programs with this version of NumPy")
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", __file__]
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-3000:]
