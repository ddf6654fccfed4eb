"""Jebara, Kondor and Howard 2004, section 4: mixtures, hidden Markov models, networks, linear dynamical systems."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import mercer as mc

LINE = np.linspace(-25, 25, 5001)
"""A grid of real numbers, for the trapezoidal rule."""
POWERS = pytest.mark.parametrize("rho", [0.3, 0.5, 1.0, 2.0])


def integral(values):
    return np.trapezoid(values, LINE, axis=-1)


def raw(rho, *batches, **options):
    return mc.ProbabilityProduct(rho=rho, normalize=False, **options)(*batches)


# -- latent variables, and mixtures (4.1) --------------------------------------------------------------------------


def random_mixture(rng, n):
    """Return a mixture of n normal distributions, and the joint density of its component and a point of the grid."""
    weight, mean, deviation = rng.dirichlet(np.ones(n)), rng.normal(0, 2, size=n), rng.uniform(0.5, 1.5, size=n)
    batch = mc.Mixtures(weight[None], mc.Gaussians(mean[None, :, None], deviation[None] ** 2))
    return batch, weight[:, None] * stats.norm.pdf(LINE, mean[:, None], deviation[:, None])


@pytest.mark.parametrize("rho", [0.5, 2.0])
def test_j25_power_of_the_marginal(rho, rng):
    (first, p), (second, q) = random_mixture(rng, 2), random_mixture(rng, 2)
    marginal = np.array([p.sum(axis=0), q.sum(axis=0)]) ** rho
    kernel = mc.Sampled(rho=rho, n_samples=4000, normalize=False).fit(mc.Mixtures.concat([first, second]))
    error = kernel.standard_errors(first, second)[0, 0]
    expected = integral(marginal[0] * marginal[1])
    assert abs(kernel(first, second)[0, 0] - expected) < 4 * error
    assert 4 * error < 0.2 * abs(raw(rho, first, second)[0, 0] - expected)  # it is not the power of the joint density


@POWERS
def test_j26_power_of_the_joint(rho, rng):
    (first, p), (second, q) = random_mixture(rng, 2), random_mixture(rng, 3)
    expected = integral((p**rho).sum(axis=0) * (q**rho).sum(axis=0))
    assert_allclose(raw(rho, first, second)[0, 0], expected, rtol=1e-11)


@POWERS
def test_j27_a_component_in_two_parts(rho, rng):
    mixture, _ = random_mixture(rng, 3)
    share = 0.3
    one = mc.Mixtures([[1.0, 0.0]], mc.Gaussians([[[1.0], [1.0]]], np.ones((1, 2))))
    two = mc.Mixtures([[share, 1 - share]], one.components)  # the same density
    factor = share**rho + (1 - share) ** rho
    assert_allclose(raw(rho, two, mixture), factor * raw(rho, one, mixture), rtol=1e-12)


@POWERS
def test_j28_mixtures(rho, rng):
    weight, rate = (rng.dirichlet(np.ones(2)), rng.dirichlet(np.ones(3))), (rng.uniform(1, 9, 2), rng.uniform(1, 9, 3))
    pmf = [stats.poisson.pmf(np.arange(150), r[:, None]) ** rho for r in rate]
    expected = weight[0] ** rho @ (pmf[0] @ pmf[1].T) @ weight[1] ** rho  # all pairs of components
    first, second = (mc.Mixtures(w[None], mc.Poissons(r[None, :, None])) for w, r in zip(weight, rate, strict=True))
    assert_allclose(raw(rho, first, second), [[expected]], rtol=1e-12)


# -- hidden Markov models (4.2) ------------------------------------------------------------------------------------


def random_chain(rng, n):
    return rng.dirichlet(np.ones(n)), rng.dirichlet(np.ones(n), size=n)


def pseudo_code(chains, psi, T, rho):
    """The pseudo-code of section 4.2, with the primes that are missing there."""
    (start, step), (other_start, other_step) = chains
    phi = np.outer(start**rho, other_start**rho)
    for _ in range(T):
        phi = (step**rho).T @ (psi * phi) @ other_step**rho
    return np.sum(phi * psi)


@POWERS
def test_j29_hidden_markov_models(rho, rng):
    chains = random_chain(rng, 2), random_chain(rng, 3)
    letters = rng.dirichlet(np.ones(3), size=2), rng.dirichlet(np.ones(3), size=3)
    sums = []
    for (start, step), letter in zip(chains, letters, strict=True):  # of (p(x, path))^rho over all paths
        joint = [
            np.prod([start[path[0]], *(step[i, j] for i, j in itertools.pairwise(path))])
            * np.prod(letter[path, np.array(list(itertools.product(range(3), repeat=3)))], axis=1)
            for path in itertools.product(range(len(start)), repeat=3)
        ]
        sums.append(np.sum(np.power(joint, rho), axis=0))
    psi = letters[0] ** rho @ (letters[1] ** rho).T
    expected = sums[0] @ sums[1]
    assert_allclose(pseudo_code(chains, psi, 2, rho), expected, rtol=1e-12)
    models = [
        mc.HMMs(c[0][None], c[1][None], mc.Categoricals(x[None], alphabet="abc"))
        for c, x in zip(chains, letters, strict=True)
    ]
    assert_allclose(raw(rho, *models, length=3), [[expected]], rtol=1e-12)

    mean = rng.normal(size=2), rng.normal(size=3)  # any emission: normal distributions
    density = [stats.norm.pdf(LINE, m[:, None]) ** rho for m in mean]
    psi = integral(density[0][:, None] * density[1])
    models = [
        mc.HMMs(c[0][None], c[1][None], mc.Gaussians(m[None, :, None], np.ones((1, len(m)))))
        for c, m in zip(chains, mean, strict=True)
    ]
    assert_allclose(raw(rho, *models, length=5), [[pseudo_code(chains, psi, 4, rho)]], rtol=1e-10)


def test_j30_length_of_the_compared_sequences(rng):
    chains = random_chain(rng, 2), random_chain(rng, 3)
    letters = rng.dirichlet(np.ones(4), size=2), rng.dirichlet(np.ones(4), size=3)
    models = [
        mc.HMMs(c[0][None], c[1][None], mc.Categoricals(x[None], alphabet="dna"))
        for c, x in zip(chains, letters, strict=True)
    ]
    psi = letters[0] @ letters[1].T
    lengths = [1, 4, 30]  # T + 1 observations
    expected = [pseudo_code(chains, psi, length - 1, 1.0) for length in lengths]
    kernel = mc.ProbabilityProduct(rho=1.0, normalize=False)
    assert_allclose(kernel.path(*models, lengths=lengths)[:, 0, 0], expected, rtol=1e-12)
    for length, value in zip(lengths, expected, strict=True):
        assert_allclose(raw(1.0, *models, length=length), [[value]], rtol=1e-12)


# -- Bayesian networks (4.3) ---------------------------------------------------------------------------------------

SEEN = ["x0", "x1", "x2"]


def figure_3(rng):
    """A network of three observed and two hidden nodes, one of two parents, and its joint table (x0, x1, x2, a, b)."""
    tables = {
        "a": rng.dirichlet(np.ones(2)),
        "b": rng.dirichlet(np.ones(3), size=2),
        "x0": rng.dirichlet(np.ones(2), size=2),
        "x1": rng.dirichlet(np.ones(2), size=(2, 3)),
        "x2": rng.dirichlet(np.ones(2), size=3),
    }
    parents = {"b": ["a"], "x0": ["a"], "x1": ["a", "b"], "x2": ["b"]}
    nodes = {"a": 2, "b": 3} | {name: ["0", "1"] for name in SEEN}
    net = mc.BayesNets({k: v[None] for k, v in tables.items()}, nodes, parents, hidden=["a", "b"])
    return net, np.einsum("a,ab,ax,aby,bz->xyzab", *tables.values())


@POWERS
def test_j31_networks_of_different_structure(rho, rng):
    net, joint = figure_3(rng)
    (start, step), letter = random_chain(rng, 2), rng.dirichlet(np.ones(2), size=2)
    chain = np.einsum("i,ij,jk,ix,jy,kz->xyzijk", start, step, step, letter, letter, letter)
    expected = np.sum((joint**rho).sum(axis=(3, 4)) * (chain**rho).sum(axis=(3, 4, 5)))
    hmm = mc.HMMs(start[None], step[None], mc.Categoricals(letter[None], alphabet=["0", "1"]))
    unrolled = mc.BayesNets.from_hmm(hmm, 3, SEEN)
    assert_allclose(raw(rho, net, unrolled), [[expected]], rtol=1e-12)


@POWERS
def test_j32_continuous_nodes(rho, rng):
    nets, densities = [], []
    for n in (2, 3):
        weight, mean, deviation = rng.dirichlet(np.ones(n)), rng.normal(size=n), rng.uniform(0.5, 2, size=n)
        net = mc.BayesNets(
            {"h": weight[None]},
            {"h": n, "x": "gaussian"},
            {"x": ["h"]},
            hidden=["h"],
            mean={"x": mean[None]},
            variance={"x": deviation[None] ** 2},
        )
        nets.append(net)
        densities.append(((weight[:, None] * stats.norm.pdf(LINE, mean[:, None], deviation[:, None])) ** rho).sum(0))
    assert_allclose(raw(rho, *nets), [[integral(densities[0] * densities[1])]], rtol=1e-10)


def test_j33_elimination(rng):
    chains = random_chain(rng, 2), random_chain(rng, 3)
    letters = rng.dirichlet(np.ones(2), size=2), rng.dirichlet(np.ones(2), size=3)
    first, second = (
        mc.BayesNets.from_hmm(mc.HMMs(c[0][None], c[1][None], mc.Categoricals(x[None], alphabet="01")), 40)
        for c, x in zip(chains, letters, strict=True)
    )
    psi = np.sqrt(letters[0]) @ np.sqrt(letters[1]).T
    assert_allclose(raw(0.5, first, second), [[pseudo_code(chains, psi, 39, 0.5)]], rtol=1e-11)
    assert first.contraction_cost(second).largest <= 2 * 3 * 3  # of 2^40 3^40 configurations of hidden nodes


# -- linear dynamical systems (4.5) --------------------------------------------------------------------------------


def random_system(rng, n, d=2):
    A, C = 0.6 * np.linalg.qr(rng.normal(size=(n, n)))[0], rng.normal(size=(d, n))
    Q, R, S = (x @ x.T / 4 + 0.2 * np.eye(len(x)) for x in (rng.normal(size=(k, k)) for k in (n, d, n)))
    return A, C, Q, R, rng.normal(size=n), S


def unconditional(system, steps):
    """Means of the observations, by the recursions of section 4.5, and the covariance of all of them."""
    A, C, Q, R, mean, S = system
    means, blocks, state = [], {}, [S]
    for t in range(steps):
        means.append(C @ mean)
        mean = A @ mean
        for later in range(t, steps):
            cross = C @ np.linalg.matrix_power(A, later - t) @ state[t] @ C.T
            blocks[later, t], blocks[t, later] = cross, cross.T
        blocks[t, t] = C @ state[t] @ C.T + R
        state.append(A @ state[t] @ A.T + Q)
    return np.concatenate(means), np.block([[blocks[s, t] for t in range(steps)] for s in range(steps)])


def gaussian_kernel(first, second, rho):
    """Equation (5), from products of densities: N(m, S)^rho is proportional to N(m, S / rho)."""
    D, total = len(first[0]), 0.0
    for _, S in (first, second):
        total += (1 - rho) / 2 * (D * np.log(2 * np.pi) + np.linalg.slogdet(S)[1]) - D / 2 * np.log(rho)
    return np.exp(total + stats.multivariate_normal(second[0], (first[1] + second[1]) / rho).logpdf(first[0]))


@pytest.mark.parametrize("rho", [0.1, 0.5, 1.0, 2.0])
def test_j36_linear_dynamical_systems(rho, rng):
    systems = random_system(rng, 2), random_system(rng, 3)
    expected = gaussian_kernel(*(unconditional(one, 6) for one in systems), rho)
    first, second = (mc.LDSs(*(part[None] for part in one)) for one in systems)
    assert_allclose(raw(rho, first, second, length=6), [[expected]], rtol=1e-10)


@pytest.mark.parametrize("rho", [0.5, 1.0])
def test_j37_independent_time_steps(rho, rng):
    systems = random_system(rng, 2), random_system(rng, 3)
    (mean, S), (other_mean, R) = (unconditional(one, 5) for one in systems)
    expected = 1.0
    for t in (slice(i, i + 2) for i in range(0, 10, 2)):  # the diagonal blocks
        expected *= gaussian_kernel((mean[t], S[t, t]), (other_mean[t], R[t, t]), rho)
    first, second = (mc.LDSs(*(part[None] for part in one)) for one in systems)
    assert_allclose(raw(rho, first, second, length=5, time="independent"), [[expected]], rtol=1e-10)
    assert abs(np.log(raw(rho, first, second, length=5)[0, 0] / expected)) > 0.01  # the systems are not block diagonal
