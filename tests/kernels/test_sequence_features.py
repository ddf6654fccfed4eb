"""Random features of mean maps of sequences: transfer matrices against enumeration, draws and exact kernels."""

import math
from itertools import pairwise, product

import numpy as np
import pytest
from numpy.testing import assert_allclose

import mercer as mc
from mercer.kernels._random_features import _rounded, check_precision

RNG = np.random.default_rng(0)


def hmms(n=4, d=2, seed=0):
    """Two states with well separated Gaussians; the models differ in all parameters."""
    rng = np.random.default_rng(seed)
    emission = mc.Gaussians(rng.normal(size=(n, 2, d)), 0.2 + rng.random((n, 2, d)))
    return mc.HMMs(rng.dirichlet([1, 1], n), rng.dirichlet([2, 2], (n, 2)), emission)


def chains(n=4, order=1, seed=0, k=3):
    rng = np.random.default_rng(seed)
    initial = rng.dirichlet(np.ones(k**order), n) if order else None
    return mc.MarkovChains(initial, rng.dirichlet(np.ones(k), (n, k**order)), order=order)


def systems(n=4, seed=0):
    rng = np.random.default_rng(seed)
    return mc.LDSs(
        transition=0.6 * rng.normal(size=(n, 2, 2)),
        emission=rng.normal(size=(n, 2, 2)),
        process_covariance=np.tile(0.2 * np.eye(2), (n, 1, 1)),
        observation_covariance=np.tile(0.3 * np.eye(2), (n, 1, 1)),
        initial_mean=rng.normal(size=(n, 2)),
        initial_covariance=np.tile(np.eye(2), (n, 1, 1)),
        state_offset=rng.normal(size=(n, 2)),
        observation_offset=rng.normal(size=(n, 2)),
    )


def mixed_hmms(n=3):
    rng = np.random.default_rng(1)
    emission = mc.Mixtures(
        rng.dirichlet([1, 1], (n, 2)), mc.Gaussians(rng.normal(size=(n, 2, 2, 1)), 0.3 + rng.random((n, 2, 2, 1)))
    )
    return mc.HMMs(rng.dirichlet([1, 1], n), rng.dirichlet([2, 2], (n, 2)), emission)


def discrete_hmms(n=3):
    rng = np.random.default_rng(2)
    emission = mc.Categoricals(rng.dirichlet(np.ones(3), (n, 2)))
    return mc.HMMs(rng.dirichlet([1, 1], n), rng.dirichlet([1, 1], (n, 2)), emission)


MODELS = {
    "gaussian": (hmms(), 0.02),
    "mixtures": (mixed_hmms(), 0.05),
    "symbols": (discrete_hmms(), 0.1),
    "chains": (chains(), 0.1),
    "chains of order 2": (chains(order=2, k=2), 0.1),
    "chains of order 0": (chains(order=0), 0.1),
    "systems": (systems(), 0.02),
}


def characteristic(batch, w):
    logs, angle = batch.log_characteristic(w)
    return np.exp(logs + 1j * angle)


# -- one frequency -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("length", [1, 2, 4])
def test_chains_by_enumeration(order, length):
    p = chains(order=order, k=2)
    w = RNG.normal(size=(3, length, 2))
    strings = np.array(list(product(range(2), repeat=length)))
    probability = np.exp(p.log_prob(mc.Sequences.from_codes(strings, p.alphabet)))
    turned = np.array([[sum(w[f, t, s] for t, s in enumerate(x)) for f in range(3)] for x in strings])
    assert_allclose(characteristic(p, w), probability @ np.exp(1j * turned), rtol=1e-12, atol=1e-14)


def test_hidden_chains_by_enumeration():
    p, w = hmms(d=2), RNG.normal(size=(3, 3, 2))
    truth = np.zeros((4, 3), dtype=complex)
    for path in product(range(2), repeat=3):
        for i, f in product(range(4), range(3)):
            value = p.initial[i, path[0]] * math.prod(p.transition[i, a, b] for a, b in pairwise(path))
            for t, s in enumerate(path):
                mean, variance = p.emission.mean[i, s], p.emission.covariance[i, s]
                value = value * np.exp(1j * w[f, t] @ mean - (variance * w[f, t] ** 2).sum() / 2)
            truth[i, f] += value
    assert_allclose(characteristic(p, w), truth, rtol=1e-12, atol=1e-14)


def test_systems_by_their_joint_gaussian():
    """Mean and covariance of the whole series, by simulating the linear maps on unit noise."""
    p, T = systems(), 5
    w = RNG.normal(size=(4, T, 2))
    for i in range(len(p)):
        mean, maps = np.zeros((T, 2)), []
        s = p.initial_mean[i]
        roots = [np.linalg.cholesky(p.initial_covariance[i])] + [np.linalg.cholesky(p.process_covariance[i])] * (T - 1)
        for t in range(T):
            s = s if t == 0 else p.transition[i] @ s + p.state_offset[i]
            mean[t] = p.emission[i] @ s + p.observation_offset[i]
            for column in roots[t].T:  # a noise at t moves all later observations
                moved, v = np.zeros((T, 2)), column
                for later in range(t, T):
                    moved[later] = p.emission[i] @ v
                    v = p.transition[i] @ v
                maps.append(moved.ravel())
        covariance = np.array(maps).T @ np.array(maps) + np.kron(np.eye(T), p.observation_covariance[i])
        flat = w.reshape(4, -1)
        truth = np.exp(1j * flat @ mean.ravel() - np.einsum("fa,ab,fb->f", flat, covariance, flat) / 2)
        assert_allclose(characteristic(p, w)[i], truth, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("name", ["gaussian", "mixtures", "systems"])
def test_draws_have_these_averages(name):
    p, _ = MODELS[name]
    w = 0.4 * RNG.normal(size=(3, 4, int(p.dimension)))
    x = p.sample(length=4, size=20000, random_state=0)
    turned = np.exp(1j * np.einsum("nstd,ftd->nfs", x, w))
    spread = turned.std(axis=-1) / math.sqrt(20000)
    assert np.all(np.abs(characteristic(p, w) - turned.mean(axis=-1)) < 5 * spread)


def test_long_sequences_do_not_underflow():
    p = hmms(n=2)
    logs, _ = p.log_characteristic(RNG.normal(size=(2, 3000, 2)))
    assert np.all(np.isfinite(logs))
    assert np.all(logs < -800)


# -- the kernel --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("normalize", [True, False])
def test_exact_kernels_within_four_standard_errors(name, normalize):
    batch, gamma = MODELS[name]
    exact = mc.MeanMap(gamma=gamma, length=4, normalize=normalize)(batch)
    random = mc.MeanMap(gamma=gamma, length=4, normalize=normalize, n_components=4000)
    found = random(batch)
    assert np.all(np.abs(found - exact) < 4 * random.standard_errors(batch) + 1e-9)
    features = random.features(batch)
    assert_allclose(features @ features.T, found, atol=1e-12)
    assert np.linalg.eigvalsh(found)[0] > -1e-12


def test_errors_fall_as_the_root_of_the_number():
    batch = hmms()
    exact = mc.MeanMap(gamma=0.02, length=4, normalize=False)(batch)

    def error(count):
        kernels = (
            mc.MeanMap(gamma=0.02, length=4, n_components=count, random_state=i, normalize=False) for i in range(20)
        )
        return np.mean([(kernel(batch) - exact) ** 2 for kernel in kernels])

    assert 3 < error(300) / error(2400) < 24


def test_the_stated_error_bounds_that_of_pairs():
    """The spread over seeds, divided by the roots of the exact self-kernels, is at most sqrt(r / F)."""
    batch, count = hmms(), 400
    exact = mc.MeanMap(gamma=0.05, length=4, normalize=False)(batch)
    found = np.array([
        mc.MeanMap(gamma=0.05, length=4, n_components=count, random_state=i, normalize=False)(batch) for i in range(40)
    ])  # fmt: skip
    root = np.sqrt(np.diag(exact))
    relative = found.std(axis=0) / np.outer(root, root)
    features = mc.MeanMap(gamma=0.05, length=4, n_components=20000, normalize=False).features(batch)
    powers = features[:, :20000] ** 2 + features[:, 20000:] ** 2
    r = 20000 * (powers**2).sum(axis=1) / powers.sum(axis=1) ** 2
    assert np.all(relative < 1.5 * np.outer(r, r) ** 0.25 / math.sqrt(count))


def test_pipelines_and_estimators():
    transformer = mc.Features(mc.MeanMap(gamma=0.02, length=4, n_components=500))
    found = transformer.fit_transform(systems())
    assert transformer.explicit_
    assert found.shape == (4, 1000)
    assert_allclose(found @ found.T, transformer.kernel_(systems()), atol=1e-10)
    kernel = mc.MeanMap(mc.MarkovChain(), gamma=0.05, length=5, n_components=400)
    assert mc.Features(kernel).fit_transform(["ACGTACGT", "AACCGGTT", "ACACACAC"]).shape == (3, 800)


def test_torch_and_gradients():
    torch = pytest.importorskip("torch")
    p = hmms(n=2)
    kernel = mc.MeanMap(gamma=0.02, length=3, n_components=300)

    def matrix(mean):
        emission = mc.Gaussians(mean, torch.asarray(p.emission.covariance))
        return kernel(mc.HMMs(torch.asarray(p.initial), torch.asarray(p.transition), emission))

    mean = torch.tensor(np.array(p.emission.mean), requires_grad=True)
    assert_allclose(matrix(mean).detach().numpy(), kernel(p), atol=1e-12)
    assert torch.autograd.gradcheck(matrix, (mean,))


# -- refusals ----------------------------------------------------------------------------------------------------


def test_too_few_frequencies_are_refused_with_the_number_needed():
    p = hmms()
    with pytest.raises(ValueError, match=r"error of 13 % with n_components=60; at most 10 % .* needs about 1\d0 freq"):
        mc.MeanMap(gamma=0.001, length=3, n_components=60)(p)
    with pytest.raises(ValueError, match=r"model \d .* unknown size .* needs up to 10\^\d\d frequencies"):
        mc.MeanMap(gamma=1.0, length=50, n_components=1000)(p)
    with pytest.raises(ValueError, match="n_components=None, which is exact"):
        mc.Features(mc.MeanMap(gamma=1.0, length=50, n_components=1000)).fit(p)


def test_the_number_named_is_enough():
    p = hmms()
    with pytest.raises(ValueError, match="frequencies") as raised:
        mc.MeanMap(gamma=0.1, length=4, n_components=150)(p)
    number = int(str(raised.value).split(" frequencies. ")[0].rsplit(" ", 1)[1].replace(",", ""))
    assert 150 < number < 10000
    assert mc.MeanMap(gamma=0.1, length=4, n_components=int(1.5 * number))(p).shape == (4, 4)


def test_rare_frequencies_that_were_not_drawn_are_noticed():
    """All drawn frequencies agree, but the exact self-kernel is far larger."""
    features = np.full((1, 400), 1e-3)
    check_precision(features, None)
    with pytest.raises(ValueError, match="up to 1,000 frequencies"):
        check_precision(features, np.log([0.1]))
    with pytest.raises(ValueError, match="far more frequencies"):
        check_precision(np.zeros((1, 400)), None)
    assert _rounded(math.log10(1234)) == "1,300"
    assert _rounded(12.3) == "10^13"


def test_what_cannot():
    random = mc.MeanMap(gamma=0.02, n_components=200)
    with pytest.raises(ValueError, match=r"one length; got Discounted\(d=0.9\). Use a single number"):
        random.set_params(length=mc.Discounted(0.9))(hmms())
    with pytest.raises(ValueError, match=r"one length; got \[2, 3\]"):
        mc.MeanMap(gamma=0.02, n_components=200).path(hmms(), lengths=[2, 3])
    with pytest.raises(ValueError, match="need a length"):
        random.set_params(length=None)(hmms())
    with pytest.raises(ValueError, match="got time='independent'"):
        mc.MeanMap(gamma=0.02, n_components=200, time="independent")(systems())
    ends = mc.MarkovChain(end=True).fit_each(["ab", "ba"])
    with pytest.raises(ValueError, match="without an end"):
        mc.MeanMap(gamma=0.02, n_components=200)(ends)
    with pytest.raises(TypeError, match=r"needs `log_characteristic`, which Betas does not have. .* or LDSs"):
        mc.MeanMap(n_components=3)(mc.HMMs([[1.0]], [[[1.0]]], mc.families.Betas([[[1.0]]], [[[2.0]]])))
