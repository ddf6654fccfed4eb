"""Triton kernels: on an NVIDIA GPU, or, without one, in Triton's interpreter where Triton is installed."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import mercer as mc
from mercer import cuda
from mercer.kernels import _device_choice
from mercer.models._dynamics import fused as systems_on_gpu


@pytest.fixture
def device(torch):
    """Return the torch device on which Triton kernels run, or skip."""
    if not cuda.has_triton():
        pytest.skip("Triton kernels need Triton 3.2 or newer, which comes with torch for CUDA on Linux")
    if torch.cuda.is_available() and not cuda.interpreted():
        return "cuda"
    if not cuda.interpreted():
        pytest.skip("no NVIDIA GPU; test_in_the_interpreter runs this in Triton's interpreter")
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


def compare(kernel, models, device, other=None, atol=1e-12):
    there = models.to(device)
    found = kernel.log(there, None if other is None else other.to(device)).cpu().numpy()
    expected = kernel.log(models, other)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=atol)
    if other is None:
        np.testing.assert_array_equal(found, np.swapaxes(found, -1, -2))
        assert mc.gram.runs()[-2].tiles == 1
    return found


@pytest.mark.parametrize(
    ("n", "m", "symbols", "length"), [(4, 3, 4, 10), (1, 2, 20, 1), (8, 16, 17, 40), (20, 5, 3, 9)]
)
def test_symbols(device, n, m, symbols, length):
    kernel = mc.ProbabilityProduct(rho=0.5, length=length)
    compare(kernel, hmms(9, n, symbols), device)
    compare(kernel, hmms(5, n, symbols), device, hmms(7, m, symbols, seed=1))


def test_sizes_and_lengths_in_one_call(device):
    models = mc.HMMs.concat([hmms(2, n, seed=n) for n in (5, 1, 18, 3)])
    kernel = mc.MeanMap(gamma=0.4)
    found = kernel.path(models.to(device), lengths=[1, 4, 21]).cpu().numpy()
    np.testing.assert_allclose(found, kernel.path(models, lengths=[1, 4, 21]), rtol=1e-12)


@pytest.mark.parametrize("order", [1, 2])
def test_markov_chains(device, order):
    strings = ["ACGTAACCGT", "AAAACGCGCG", "GGTTACCAGT", "ACCAGGGTT"]
    models = mc.MarkovChain(order=order, alphabet="dna").fit_each(strings)
    compare(mc.ProbabilityProduct(rho=0.5, length=15), models, device)
    kernel = mc.ProbabilityProduct(rho=0.5)
    found = kernel.path(models.to(device), lengths=[2, 5]).cpu().numpy()
    np.testing.assert_allclose(found, kernel.path(models, lengths=[2, 5]), rtol=1e-12)


@pytest.mark.parametrize("full", [True, False])
def test_gaussian_emissions(device, full):
    models = hmms(6, 3)
    models = mc.HMMs(models.initial, models.transition, gaussians(6, 3, full=full))
    compare(mc.ProbabilityProduct(rho=0.7, length=12), models, device)


@pytest.mark.parametrize("n", [1, 3])
def test_discounted(device, n):
    kernel = mc.ProbabilityProduct(rho=1.0, length=mc.Discounted(0.9))
    compare(kernel, hmms(5, n), device)
    compare(kernel, hmms(2, n), device, hmms(3, 2, seed=1))
    compare(mc.MeanMap(gamma=0.4, length=mc.Discounted(0.5)), mc.HMMs.concat([hmms(2, 2), hmms(1, 5)]), device)
    models = hmms(3, n)
    models = mc.HMMs(models.initial, models.transition, gaussians(3, n))
    compare(mc.MeanMap(gamma=0.3, length=mc.Discounted(0.8)), models, device)


def test_pairs_out_of_range_are_repeated(device):
    sticky = mc.HMMs(
        [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]], [np.eye(2)] * 3, mc.Categoricals([[[1.0, 0.0], [0.0, 1.0]]] * 3)
    )
    compare(mc.ProbabilityProduct(rho=1.0, length=4), sticky, device)  # a kernel is zero
    rare = mc.HMMs(
        [[1.0], [1.0]], [[[1.0]], [[1.0]]], mc.Categoricals([[[1e-30, 1.0 - 1e-30]], [[1.0 - 1e-30, 1e-30]]])
    )
    compare(mc.ProbabilityProduct(rho=1.0, length=300, normalize=False), rare, device)
    far = mc.HMMs(
        [[0.5, 0.5]] * 2,
        [[[0.9, 0.1], [0.2, 0.8]]] * 2,
        mc.Gaussians([[[0.0], [90.0]], [[1.0], [40.0]]], np.ones((2, 2))),
    )
    compare(mc.ProbabilityProduct(rho=1.0, length=20), far, device)  # leaf kernels underflow relative to others


@pytest.mark.parametrize(("d", "full"), [(1, False), (3, False), (4, True), (9, True)])
def test_gaussians(device, d, full):
    models = gaussians(19, d=d, full=full)
    compare(mc.ProbabilityProduct(rho=0.3), models, device)
    compare(mc.MeanMap(gamma=0.37), models, device)
    compare(mc.ProbabilityProduct(rho=1.0), models, device, gaussians(5, d=d, full=full, seed=1))


def test_singular_covariances_are_found(device):
    models = mc.Gaussians([[0.0, 0.0], [1.0, 1.0]], [np.eye(2), np.ones((2, 2))]).to(device)
    with pytest.raises(ValueError, match="has a singular covariance"):
        mc.ProbabilityProduct()(models)


def test_gradients_and_float32_use_array_code(torch, device):
    models = hmms(4, 3)
    initial = torch.tensor(np.asarray(models.initial), device=device, requires_grad=True)
    moved = models.to(device)
    mc.ProbabilityProduct()(mc.HMMs(initial, moved.transition, moved.emission)).sum().backward()
    assert bool(torch.isfinite(initial.grad).all())
    assert not cuda.usable(moved.initial.float())


@pytest.fixture
def moving(torch, device, monkeypatch):
    """Let operands move to the device on which Triton kernels run."""
    monkeypatch.setattr(_device_choice, "target", lambda: torch.device(device) if mc.settings().device else None)


def compare_moved(kernel, X, Y=None, atol=1e-12):
    expected = kernel.log(X, Y)
    with mc.config(device="cuda", memo_bytes=0):
        found, values = kernel.log(X, Y), kernel(X, Y)
    assert isinstance(found, np.ndarray)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=atol)
    np.testing.assert_allclose(values, np.exp(expected), rtol=1e-9, atol=1e-300)
    if Y is None:
        np.testing.assert_array_equal(found, found.T)


def strings(count, longest, seed=0):
    rng = np.random.default_rng(seed)
    return ["".join(rng.choice(list("ACGT"), k)) for k in rng.integers(1, longest, count)]


def test_pair_hmm(moving):
    model = mc.AffinePairHMM(substitution=(2, -3), gap_open=5, gap_extend=2, alphabet="dna").fit(["ACGT"]).model_
    X = [*strings(5, 20), "ACGNNACGT"]
    compare_moved(mc.Marginalization(model), X)
    compare_moved(mc.Marginalization(model, normalize=False), X[-2:], strings(4, 30, seed=1))


def test_pair_hmm_in_numbers_of_unlimited_range(moving):
    model = mc.models.AffinePairHMMs(
        [np.eye(4) / 4], [np.full(4, 0.25)], open=[1e-3], extend=[1e-3], continuation=[1 - 1e-9], alphabet="dna"
    )
    X = ["A" * 9, "C" * 18, "ACGT" * 5]
    compare_moved(mc.Marginalization(model, normalize=False), X)  # matches grow by 1e6 a letter
    tiny = mc.models.AffinePairHMMs(
        [np.eye(4) / 4], [np.full(4, 0.25)], open=[1e-70], extend=[1e-70], continuation=[0.5], alphabet="dna"
    )
    compare_moved(mc.Marginalization(tiny, normalize=False), X[1:])  # stays on the CPU


@pytest.mark.parametrize(("n", "zeros"), [(1, False), (3, False), (9, False), (4, True)])
def test_shared_chain(moving, n, zeros):
    one = hmms(1, n, seed=n)
    transition = np.triu(one.transition) / np.triu(one.transition).sum(-1, keepdims=True) if zeros else one.transition
    emission = mc.Categoricals(one.emission.probability, alphabet="dna")
    model = mc.HMMs(one.initial, transition, emission)
    X = mc.Sequences.from_codes(model.sample(11, 12, random_state=0)[0], "dna")
    compare_moved(mc.Marginalization(model), X)
    compare_moved(mc.Marginalization(model, normalize=False), X, X[:5])


def test_shared_chain_out_of_range(moving):
    far = mc.HMMs([[0.5, 0.5]], [[[0.9, 0.1], [0.2, 0.8]]], mc.Gaussians([[[0.0], [60.0]]], np.ones((1, 2))))
    X = [np.array([[0.0], [60.0], [0.0]]), np.array([[60.0], [0.0], [60.0]]), np.array([[30.0], [20.0], [40.0]])]
    compare_moved(mc.Marginalization(far, normalize=False), X)
    never = mc.HMMs([[1.0, 0.0]], [np.eye(2)], mc.Categoricals([[[1.0, 0.0], [0.5, 0.5]]], alphabet="ab"))
    found = mc.Marginalization(never, normalize=False, on_zero="zero")
    with mc.config(device="cuda", memo_bytes=0):
        np.testing.assert_array_equal(found(["aa", "ab"]), [[1.0, 0.0], [0.0, 0.0]])


def test_shared_tree_and_mixture(moving):
    rng = np.random.default_rng(3)
    parent = [[-1, 0, 0, 1, 1, 2, 1]]
    tree = mc.models.HiddenTrees(
        parent, rng.dirichlet(np.ones(2), 1), rng.dirichlet(np.ones(2), (1, 7, 2)), [[3, 4, 5, 6, 0]],
        rng.dirichlet(np.ones(3), (1, 5, 2)),
    )  # fmt: skip
    compare_moved(mc.Marginalization(tree), tree.sample(10, random_state=1)[0])
    coins = mc.Mixtures([[0.3, 0.7]], mc.Categoricals([[[0.9, 0.1], [0.2, 0.8]]], alphabet="HT"))
    compare_moved(mc.Marginalization(coins), ["HHT", "HTT", "THT"])


def systems(count, n, d, seed=0):
    rng = np.random.default_rng(seed)

    def covariance(k):
        root = rng.normal(size=(count, k, k))
        return root @ root.swapaxes(1, 2) / k + 0.5 * np.eye(k)

    turn = np.linalg.qr(rng.normal(size=(count, n, n)))[0] * rng.uniform(0.5, 0.9, (count, 1, 1))
    return mc.LDSs(
        turn, rng.normal(size=(count, d, n)), covariance(n), covariance(d), rng.normal(size=(count, n)), covariance(n),
        observation_offset=rng.normal(size=(count, d)),
    )  # fmt: skip


@pytest.mark.parametrize(("n", "d"), [(1, 1), (2, 3)])
def test_linear_systems(moving, monkeypatch, n, d):
    monkeypatch.setattr(systems_on_gpu, "LEAST_SYSTEMS", 2)
    models = systems(7, n, d)
    compare_moved(mc.ProbabilityProduct(rho=0.5, length=4), models, atol=1e-11)
    compare_moved(mc.ProbabilityProduct(length=25, normalize=False), models[:2], systems(3, 1, d, seed=1), atol=1e-11)
    kernel = mc.MeanMap(gamma=0.3)
    with mc.config(device="cuda", memo_bytes=0):
        found = kernel.path(models, lengths=[1, 4])
    np.testing.assert_allclose(found, kernel.path(models, lengths=[1, 4]), rtol=1e-10)


def test_linear_systems_that_lose_digits(moving, monkeypatch):
    monkeypatch.setattr(systems_on_gpu, "LEAST_SYSTEMS", 2)
    exact = mc.LDSs([[[0.5]], [[0.7]]], [[[1.0]]] * 2, [[[1.0]]] * 2, [[[1e-9]]] * 2, [[0.0]] * 2, [[[1.0]]] * 2)
    compare_moved(mc.ProbabilityProduct(length=5, normalize=False), exact)


def test_one_side_on_the_gpu_only(moving, monkeypatch):
    monkeypatch.setattr(systems_on_gpu, "LEAST_SYSTEMS", 3)
    compare_moved(mc.ProbabilityProduct(length=3), systems(3, 1, 1), systems(2, 1, 1, seed=1))  # both on the CPU


def test_in_the_interpreter(torch):
    """Run this file again where Triton interprets its kernels on the CPU."""
    if not cuda.has_triton():
        pytest.skip("Triton kernels need Triton 3.2 or newer, which comes with torch for CUDA on Linux")
    if cuda.interpreted() or torch.cuda.is_available():
        pytest.skip("the Triton kernels themselves run here")
    probe = "import triton; from triton.runtime import interpreter; import numpy; int(numpy.zeros(1))"
    if subprocess.run([sys.executable, "-c", probe], capture_output=True, check=False).returncode:
        pytest.skip("this version of Triton does not interpret kernels with this version of NumPy")
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", __file__]
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-3000:]
