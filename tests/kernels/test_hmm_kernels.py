"""Kernels between hidden Markov models: invariances, extremes, and slow truths for every kind of emission."""

import itertools
import math

import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.batches import STEP, density_on_line

import mercer as mc
from mercer.families import PowerProduct, Smoothed
from mercer.models._chains import coupled as _coupled
from mercer.models._chains.sweep import log_sweep

RHOS = [0.3, 0.5, 1.0, 2.0]


def chains(rng, count, n):
    return rng.dirichlet(np.ones(n), count), rng.dirichlet(np.ones(n), (count, n))


def symbols(rng, shape, k=2):
    return mc.Categoricals(rng.dirichlet(np.ones(k), shape))


def points(rng, shape):
    return mc.Gaussians(rng.normal(size=(*shape, 1)), rng.uniform(0.3, 2.0, shape))


def counts(rng, shape):
    return mc.Poissons(rng.uniform(0.2, 3.0, (*shape, 1)))


def bits(rng, shape):
    return mc.families.Bernoullis(rng.uniform(0.1, 0.9, (*shape, 2)))


def mixed(rng, shape):
    weights = rng.dirichlet(np.ones(2), shape)
    return mc.Mixtures(weights, symbols(rng, (*shape, 2)))


EMISSIONS = {"categorical": symbols, "gaussian": points, "poisson": counts, "bernoulli": bits, "mixture": mixed}


def models(seed, count=3, n=2, emission=symbols):
    rng = np.random.default_rng(seed)
    return mc.HMMs(*chains(rng, count, n), emission(rng, (count, n)))


def kernels(length, normalize=False):
    yield from (mc.ProbabilityProduct(rho=rho, length=length, normalize=normalize) for rho in RHOS)
    yield mc.MeanMap(gamma=0.7, length=length, normalize=normalize)


# ------------------------------------------------------------------ slow truths


def outcomes(emission, rho):
    """What one observation can be, as powers of its probability with everything hidden: (states, outcomes).

    Powers are of the joint probability, so that a hidden component is summed over after the power. For densities the
    outcomes are the points of a grid, and a weight makes sums integrals.
    """
    if isinstance(emission, mc.Mixtures):
        inner = emission.components.probability**rho
        return np.einsum("sc,sck->sk", emission.weights**rho, inner), 1.0
    if isinstance(emission, mc.Categoricals):
        return emission.probability**rho, 1.0
    if isinstance(emission, mc.families.Bernoullis):
        grid = np.array(list(itertools.product((0, 1), repeat=2)))
        p = emission.probability[:, None, :]
        return np.prod(np.where(grid == 1, p, 1 - p), axis=-1) ** rho, 1.0
    if isinstance(emission, mc.Poissons):
        x = np.arange(60)
        logs = x * np.log(emission.rate) - emission.rate - [math.lgamma(n + 1.0) for n in x]
        return np.exp(rho * logs), 1.0
    density = [density_on_line(m[0], v) for m, v in zip(emission.mean, emission.covariance, strict=True)]
    return np.array(density) ** rho, STEP


def string_weights(model, length, rho):
    """Sum over hidden paths of P(string, path)^rho, for every string of outcomes: by enumeration of both."""
    weights, measure = outcomes(model.emission, rho)
    n, k = weights.shape
    total = np.zeros((k,) * length)
    for path in itertools.product(range(n), repeat=length):
        chance = model.initial[path[0]] * math.prod(model.transition[a, b] for a, b in itertools.pairwise(path))
        total += chance**rho * _outer([weights[s] for s in path])
    return total.ravel(), measure**length


def _outer(vectors):
    out = vectors[0]
    for v in vectors[1:]:
        out = np.multiply.outer(out, v)
    return out


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("name", EMISSIONS)
def test_enumeration_of_strings_and_paths(name, rho):
    """PPK-4.0 and PPK-4.2 as they are defined, between models of two and of three states."""
    p, q = models(0, 2, 2, EMISSIONS[name]), models(1, 2, 3, EMISSIONS[name])
    for length in (1, 2) if name in ("gaussian", "poisson") else (1, 2, 4):
        kernel = mc.ProbabilityProduct(rho=rho, length=length, normalize=False)
        sides = [[string_weights(model, length, rho) for model in batch] for batch in (p, q)]
        truth = [[np.sum(a * b) * measure for b, _ in sides[1]] for a, measure in sides[0]]
        np.testing.assert_allclose(kernel(p, q), truth, rtol=1e-8 if name == "gaussian" else 1e-12)


# ------------------------------------------------------------------ invariances


@pytest.mark.parametrize("name", EMISSIONS)
@pytest.mark.parametrize("seed", range(3))
def test_permuted_states(name, seed):
    p, q = models(seed, 3, 4, EMISSIONS[name]), models(seed + 9, 2, 3, EMISSIONS[name])
    order = np.random.default_rng(seed).permutation(4)
    shuffled = mc.HMMs(p.initial[:, order], p.transition[:, order][:, :, order], p.emission[:, order])
    for kernel in kernels(7):
        np.testing.assert_allclose(kernel(shuffled, q), kernel(p, q), rtol=1e-11)


def split(p, share):
    """Split the last state into two that behave alike and are entered with the shares u and 1 - u."""
    n = p.initial.shape[1]
    columns = [*range(n), n - 1]
    weight = np.array([1.0] * (n - 1) + [share, 1 - share])
    return mc.HMMs(
        p.initial[:, columns] * weight, p.transition[:, columns][:, :, columns] * weight, p.emission[:, columns]
    )


@given(st.floats(0.01, 0.99), st.integers(1, 30), st.integers(0, 99))
@settings(max_examples=15)
def test_splitting_a_state(share, length, seed):
    """Nothing changes at rho = 1 and for mean maps; else k~ counts the way the latent space is written (PPK-4.0)."""
    p, q = models(seed), models(seed + 1, 2, 3)
    halves = split(p, share)
    for kernel in (mc.ProbabilityProduct(rho=1.0), mc.MeanMap(gamma=0.5)):
        kernel.set_params(length=length, normalize=False)
        np.testing.assert_allclose(kernel(halves, q), kernel(p, q), rtol=1e-11)


@pytest.mark.parametrize("rho", [0.3, 0.5, 2.0])
def test_splitting_the_only_state(rho):
    """Every visit of the split state counts u^rho + (1 - u)^rho times, whatever the length."""
    p, q, share = models(5, 3, 1), models(6, 2, 3), 0.3
    factor = share**rho + (1 - share) ** rho
    for length in (1, 2, 5):
        kernel = mc.ProbabilityProduct(rho=rho, length=length, normalize=False)
        np.testing.assert_allclose(kernel(split(p, share), q), factor**length * kernel(p, q), rtol=1e-12)
    normal = mc.ProbabilityProduct(rho=rho, length=4)
    np.testing.assert_allclose(normal(split(p, share)), normal(p), rtol=1e-12)


@pytest.mark.parametrize("rho", [0.3, 0.5, 2.0])
def test_splitting_one_state_of_several(rho):
    """At length 1 the part of the kernel that passes the split state is multiplied by u^rho + (1 - u)^rho."""
    p, q, share = models(7), models(8, 2, 3), 0.2
    kernel = mc.ProbabilityProduct(rho=rho, length=1, normalize=False)
    emission, weight = p.emission.probability**rho, p.initial**rho
    mixed = [np.einsum("is,isk->ik", weight[:, s], emission[:, s]) for s in ([0], [1])]
    other = np.einsum("js,jsk->jk", q.initial**rho, q.emission.probability**rho)
    factor = share**rho + (1 - share) ** rho
    np.testing.assert_allclose(kernel(split(p, share), q), (mixed[0] + factor * mixed[1]) @ other.T, rtol=1e-12)


@pytest.mark.parametrize("name", EMISSIONS)
def test_padding(name):
    parts = [models(n, 3, n, EMISSIONS[name]) for n in (3, 1, 4)]
    together = mc.HMMs.concat(parts)
    for kernel in kernels(6):
        K = kernel(together)
        for (i, p), (j, q) in itertools.product(enumerate(parts), repeat=2):
            block = K[3 * i : 3 * i + 3, 3 * j : 3 * j + 3]
            np.testing.assert_allclose(block, kernel(p, q), rtol=1e-11)
            np.testing.assert_allclose(block, kernel(q, p).T, rtol=1e-11)


@pytest.mark.parametrize("name", EMISSIONS)
def test_one_state_is_the_kernel_of_the_emission(name):
    p = models(11, 4, 1, EMISSIONS[name])
    for length in (1, 3, 50):
        for kernel in kernels(length):
            np.testing.assert_allclose(kernel.log(p), length * kernel.log(p.emission[:, 0]), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", ["categorical", "gaussian", "bernoulli"])
def test_length_one_is_the_mixture_kernel(name):
    p = models(12, 4, 3, EMISSIONS[name])
    for kernel in kernels(1):
        np.testing.assert_allclose(kernel(p), kernel(mc.Mixtures(p.initial, p.emission)), rtol=1e-12)


@pytest.mark.parametrize("name", ["categorical", "gaussian"])
def test_chains_without_memory(name):
    """All rows of the transition equal to the initial law: the mixture kernel to the power of the length."""
    p = models(13, 4, 3, EMISSIONS[name])
    forgetful = mc.HMMs(p.initial, np.repeat(p.initial[:, None, :], 3, axis=1), p.emission)
    mixture = mc.Mixtures(p.initial, p.emission)
    for length in (2, 9):
        for kernel in kernels(length):
            np.testing.assert_allclose(kernel.log(forgetful), length * kernel.log(mixture), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", EMISSIONS)
@pytest.mark.parametrize("length", [1, 10, 200])
def test_gram_is_psd(name, length):
    """T-2, with copies, near copies and models that stay where they are."""
    p, q = models(14, 8, 2, EMISSIONS[name]), models(15, 8, 3, EMISSIONS[name])
    sticky = mc.HMMs(p.initial, 0.999 * np.eye(2) + 0.001 * p.transition, p.emission)
    everything = mc.HMMs.concat([p, q, sticky, p[:2]])
    for kernel in kernels(length, normalize=True):
        K = kernel(everything)
        assert np.isfinite(K).all()
        assert mc.gram.psd.check(K, 1e-9), (kernel, np.linalg.eigvalsh(K)[0])


# ------------------------------------------------------------------ extremes


@pytest.mark.parametrize("coupling", [PowerProduct(0.5), PowerProduct(1.0), Smoothed(0.5)], ids=repr)
@pytest.mark.parametrize("name", ["categorical", "gaussian"])
def test_a_hundred_thousand_observations(name, coupling):
    """Against powers of the coupled operator by squaring, and the growth that is its spectral radius."""
    p, q = models(16, 2, 2, EMISSIONS[name]), models(17, 2, 3, EMISSIONS[name])
    length, power = 100_000, coupling.power
    parameters = {"normalize": False, "length": length}
    if isinstance(coupling, PowerProduct):
        kernel = mc.ProbabilityProduct(rho=coupling.rho, **parameters)
    else:
        kernel = mc.MeanMap(gamma=coupling.gamma, **parameters)
    found = kernel.path(p, q, lengths=[length - 1, length], log=True)
    assert np.isfinite(found).all()
    for i, j in itertools.product(range(2), repeat=2):
        a, b = p[i], q[j]
        psi = np.exp(a.emission.couple(coupling).pair(b.emission.couple(coupling))).ravel()
        operator = np.kron(a.transition**power, b.transition**power) * psi
        start = np.kron(a.initial**power, b.initial**power) * psi
        logs, now, rest, square, scale = 0.0, start, length - 1, operator, 0.0
        while rest:
            if rest % 2:
                now = now @ square
                logs += scale + math.log(now.sum())
                now = now / now.sum()
            top = square.max()
            square, scale, rest = (square / top) @ (square / top), 2 * (scale + math.log(top)), rest // 2
        assert found[1, i, j] == pytest.approx(logs + math.log(now.sum()), rel=1e-9)
        radius = np.abs(np.linalg.eigvals(operator)).max()
        assert found[1, i, j] - found[0, i, j] == pytest.approx(math.log(radius), abs=1e-8)
        assert found[1, i, j] / length == pytest.approx(math.log(radius), abs=1e-4)


def test_transitions_of_1e_300():
    """The only way is nearly closed, on both sides: 1e-600 is no float, its logarithm is."""
    p = mc.HMMs([[1.0, 0.0]], [[[1 - 1e-300, 1e-300], [0.0, 1.0]]], mc.Categoricals([[[1.0, 0.0], [0.0, 1.0]]]))
    q = mc.HMMs([[0.0, 1.0]], [[[0.5, 0.5], [0.0, 1.0]]], mc.Categoricals([[[1.0, 0.0], [0.0, 1.0]]]))
    for rho in (0.5, 1.0):
        kernel = mc.ProbabilityProduct(rho=rho, length=5, normalize=False)
        assert kernel.log(p)[0, 0] == pytest.approx(0.0, abs=1e-12)
        assert kernel.log(p, q)[0, 0] == -np.inf
    # State 1 must be left for state 2 by both, and only there do symbols agree afterwards.
    emission = mc.Categoricals([[[1.0, 0.0], [0.0, 1.0]]])
    closed = mc.HMMs([[1.0, 0.0]], [[[0.0, 1.0], [1.0 - 1e-300, 1e-300]]], emission)
    stay = mc.HMMs([[1.0, 0.0]], [[[0.0, 1.0], [0.0, 1.0]]], emission)
    for rho in (0.5, 1.0, 2.0):
        kernel = mc.ProbabilityProduct(rho=rho, length=4, normalize=False)
        assert kernel.log(closed, stay)[0, 0] == pytest.approx(2 * rho * math.log(1e-300), rel=1e-12)
    assert mc.ProbabilityProduct(rho=1.0, length=4)(mc.HMMs.concat([closed, stay]))[0, 1] == 0.0


@pytest.mark.parametrize("structure", ["full", "diagonal", "isotropic"])
def test_variances_of_1e_12(structure):
    """States far apart in such units: leaf kernels of exp(-1e11) lie beside others of exp(26), and all are right."""
    variance = 1e-12
    shape = {"full": variance * np.eye(2), "diagonal": np.full(2, variance), "isotropic": variance}[structure]
    means = np.array([[0.0, 0.0], [1.0, 0.0]])
    forth = [[0.0, 1.0], [1.0, 0.0]]
    emission = mc.Gaussians(np.tile(means, (2, 1, 1)), np.broadcast_to(shape, (2, 2, *np.shape(shape))))
    p = mc.HMMs([[1.0, 0.0], [0.0, 1.0]], [forth, forth], emission)  # 0, 1, 0, ... and 1, 0, 1, ...
    length = 6
    for rho in (0.5, 1.0):
        leaf = mc.ProbabilityProduct(rho=rho, normalize=False).log(emission[0])
        kernel = mc.ProbabilityProduct(rho=rho, length=length, normalize=False)
        np.testing.assert_allclose(kernel.log(p), length * leaf, rtol=1e-12)
        assert np.array_equal(kernel.set_params(normalize=True)(p), np.eye(2))
    # One state is sharp and one is wide: in 60 dimensions one self-kernel is exp(800) times the other.
    wide = mc.Gaussians(np.zeros((1, 2, 60)), np.array([[1e-12, 1.0]]))
    q = mc.HMMs([[0.0, 1.0]], [[[1.0, 0.0], [0.0, 1.0]]], wide)  # starts in the wide state and stays there
    kernel = mc.ProbabilityProduct(rho=1.0, length=3, normalize=False)
    np.testing.assert_allclose(kernel.log(q), -3 * 30 * np.log(4 * np.pi), rtol=1e-12)
    np.testing.assert_allclose(np.diag(kernel.log(q, q)), np.diag(kernel.log(q)), rtol=1e-12)


@pytest.mark.parametrize(("zeros", "redone"), [(False, False), (True, True)])
def test_only_pairs_whose_paths_need_lost_leaves_are_redone(monkeypatch, zeros, redone):
    """Sharp states lose most leaf kernels; numbers of unlimited range are for pairs whose paths may need these."""
    pairs, ranged = [], _coupled.ranged_pairs
    monkeypatch.setattr(_coupled, "ranged_pairs", lambda *args: pairs.append(len(args[2])) or ranged(*args))
    rng = np.random.default_rng(0)
    emission = mc.Gaussians(np.tile(np.arange(3.0)[None, :, None], (5, 1, 1)), np.full((5, 3), 1e-9))
    initial, transition = chains(rng, 5, 3)
    if zeros:  # one model goes round while the others do not
        initial[0], transition[0] = np.eye(3)[0], np.roll(np.eye(3), 1, axis=1)
    p = mc.HMMs(initial, transition, emission)
    K = mc.ProbabilityProduct(rho=0.5, length=1000, normalize=False).log(p)
    assert np.isfinite(K).all()
    assert bool(pairs) == redone


@pytest.mark.parametrize("structure", ["full", "diagonal"])
@pytest.mark.parametrize("d", [2, 3, 9])
def test_compiled_leaves(structure, d):
    """Enough pairs for the compiled loops, against the planes of another array library, and few columns as well."""
    rng = np.random.default_rng(d)
    count = 300
    mean, variance = rng.normal(size=(count, d)), rng.uniform(0.5, 2.0, (count, d))
    if structure == "full":
        root = rng.normal(size=(count, d, d))
        variance = root @ np.swapaxes(root, -1, -2) + np.eye(d)
    p = mc.Gaussians(mean, variance)
    q = mc.Gaussians(array_api_strict.asarray(mean), array_api_strict.asarray(variance))
    for rho in (0.5, 1.0, 2.0):
        expected = np.asarray(q.log_product(q, rho))
        np.testing.assert_allclose(p.log_product(p, rho), expected, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(p.log_product(p[:60], rho), expected[:, :60], rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(p.log_mean_map(p, 0.4), np.asarray(q.log_mean_map(q, 0.4)), rtol=1e-10, atol=1e-10)
    far = mc.Gaussians(1e5 * mean, np.full((count, d), 1e90))  # a product of four pivots is no float
    np.testing.assert_allclose(far.log_product(far, 1.0), far[:1].log_product(far[:1], 1.0)[0, 0], rtol=1e-12)


@pytest.mark.parametrize("name", ["categorical", "gaussian"])
@pytest.mark.parametrize("shape", [(40, 3), (24, 8)])
def test_whole_tiles(name, shape):
    """Enough models for the compiled sweeps, against pairs in the log domain."""
    p = models(20, *shape, EMISSIONS[name])
    for kernel in kernels(12, normalize=False):
        logs = kernel.log(p)
        some = np.array([0, 3, shape[0] - 1])
        coupling = kernel._coupling()
        leaf = p.emission.couple(coupling)
        with np.errstate(divide="ignore"):
            sides = [coupling.power * np.log(x) for x in (p.initial, p.transition)]
        for i, j in itertools.product(some, repeat=2):
            log_psi = leaf[i : i + 1].reshape(shape[1]).pair(leaf[j : j + 1].reshape(shape[1]))
            one = [x[k : k + 1] for k in (i, j) for x in sides]
            assert logs[i, j] == pytest.approx(log_sweep(one[:2], one[2:], log_psi[None], (12,))[0, 0], rel=1e-11)
