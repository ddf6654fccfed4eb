"""Jebara, Kondor and Howard 2004, sections 2 and 3: the kernel, how models are estimated, and exponential families."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.optimize import minimize_scalar
from scipy.special import gammaln

import mercer as mc

LINE = np.linspace(-40, 40, 8001)
"""A grid of real numbers; the trapezoidal rule is exact to rounding for smooth densities that vanish at its ends."""
HALF_LINE = np.linspace(-200, 8, 40001)
"""Logarithms of a grid of positive numbers."""
NORMALS = mc.Gaussians(mean=[[0.0], [1.5], [-2.0]], covariance=[1.0, 0.5, 3.0])
DENSITIES = stats.norm.pdf(LINE, NORMALS.mean, np.sqrt([[1.0], [0.5], [3.0]]))
FREQUENCIES = np.random.default_rng(4).dirichlet(np.ones(4), size=3)


def integral(values, x=LINE):
    """Trapezoidal rule over the last axis."""
    return np.trapezoid(values, x, axis=-1)


def over_positive(density_of_x, rho):
    """Integrals of p^rho q^rho of all pairs of densities on the positive numbers, in log x."""
    x = np.exp(HALF_LINE)
    powers = density_of_x(x) ** rho
    return integral(powers[:, None] * powers * x, HALF_LINE)


def raw(rho, batch):
    return mc.ProbabilityProduct(rho=rho, normalize=False)(batch)


def compositions(total, parts):
    """All vectors of counts with a given sum."""
    return np.array([c for c in itertools.product(range(total + 1), repeat=parts) if sum(c) == total])


def multinomial_coefficients(counts):
    return np.exp(gammaln(counts.sum(axis=1) + 1) - gammaln(counts + 1).sum(axis=1))


# -- section 2: the kernel -----------------------------------------------------------------------------------------


def test_j1_gaussian_rbf(rng):
    x, sigma = rng.normal(size=(5, 3)), 1.7
    expected = [[np.exp(-sum((a - b) ** 2) / (2 * sigma**2)) for b in x] for a in x]
    assert_allclose(mc.RBF(gamma=1 / (2 * sigma**2))(x), expected, rtol=1e-12)


@pytest.mark.parametrize("rho", [0.3, 0.5, 1.0, 2.0])
def test_j2_probability_product(rho):
    powers = DENSITIES**rho
    expected = integral(powers[:, None] * powers)
    assert_allclose(raw(rho, NORMALS), expected, rtol=1e-11)
    counts = stats.poisson.pmf(np.arange(200), [[1.0], [4.0], [30.0]]) ** rho
    found = raw(rho, mc.Poissons([[1.0], [4.0], [30.0]]))
    assert_allclose(found, counts @ counts.T, rtol=1e-11)
    assert np.linalg.eigvalsh(found).min() > 0


def test_j3_bhattacharyya():
    expected = integral(np.sqrt(DENSITIES[:, None] * DENSITIES))
    assert_allclose(raw(0.5, NORMALS), expected, rtol=1e-11)
    for batch in (NORMALS, mc.Multinomials(FREQUENCIES, trials=7), mc.families.Gammas([[0.2], [9.0]], [[1.0], [4.0]])):
        assert_allclose(np.diag(raw(0.5, batch)), 1, rtol=1e-13)


def test_j4_hellinger_distance():
    kernel = mc.ProbabilityProduct(rho=0.5)
    roots = np.sqrt(DENSITIES)
    squared = integral((roots[:, None] - roots) ** 2) / 2
    assert_allclose(kernel.distance(NORMALS) ** 2, 2 * squared, rtol=1e-9, atol=1e-12)
    assert_allclose(1 - kernel(NORMALS), squared, rtol=1e-9, atol=1e-12)
    logs = stats.norm.logpdf(LINE, NORMALS.mean, np.sqrt([[1.0], [0.5], [3.0]]))
    divergence = integral(DENSITIES[:, None] * (logs[:, None] - logs))
    assert_allclose(NORMALS.kl(NORMALS), divergence, rtol=1e-9, atol=1e-12)
    off = ~np.eye(3, dtype=bool)
    assert np.all(2 * squared[off] <= NORMALS.kl(NORMALS)[off])


def test_j5_expected_likelihood():
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    mean, deviation = np.array([0.0, 1.5]), np.array([1.0, 1.2])
    pair = mc.Gaussians(mean=mean[:, None], covariance=deviation**2)
    for i, j in ((0, 1), (1, 0)):  # the mean of one density under the other, both ways
        at = mean[i] + deviation[i] * nodes
        expected = weights @ stats.norm.pdf(at, mean[j], deviation[j]) / np.sqrt(2 * np.pi)
        assert_allclose(raw(1.0, pair)[i, j], expected, rtol=1e-10)
    assert_allclose(raw(1.0, mc.Categoricals(FREQUENCIES)), FREQUENCIES @ FREQUENCIES.T, rtol=1e-13)


# -- section 2.2: estimates ----------------------------------------------------------------------------------------


def test_j7_maximum_likelihood(rng):
    samples = [rng.gamma(3.0, 2.0, size=n) for n in (20, 35)]
    columns = [x[:, None] for x in samples]
    families = (mc.Gaussian(floor=0.0), mc.families.Exponential(), mc.families.Gamma(floor=1e-12))
    normal, exponential, gamma = (family.fit_each(columns) for family in families)
    for i, x in enumerate(samples):
        mean, deviation = stats.norm.fit(x)
        assert_allclose([normal.mean[i, 0], normal.covariance[i].item()], [mean, deviation**2], rtol=1e-10)
        assert_allclose(exponential.scale[i, 0], stats.expon.fit(x, floc=0)[1], rtol=1e-12)
        shape, _, scale = stats.gamma.fit(x, floc=0)
        assert_allclose([gamma.concentration[i, 0], gamma.scale[i, 0]], [shape, scale], rtol=1e-6)


def test_j8_maximum_a_posteriori():
    x, strength = np.array([3.0, 5.0, 4.0, 9.0]), 2.5
    prior = mc.Poissons([[1.5]])

    def loss(theta):  # minus the log likelihood, and minus the log of the conjugate prior of theta = log rate
        return -sum(stats.poisson.logpmf(x, np.exp(theta))) - strength * (1.5 * theta - np.exp(theta))

    best = minimize_scalar(loss, bounds=(-3, 5), method="bounded", options={"xatol": 1e-10}).x
    found = mc.Poisson(prior=prior, prior_strength=strength).fit_each([x[:, None]])
    assert_allclose(found.rate, [[np.exp(best)]], rtol=1e-6)
    counts, uniform = np.array([[4.0, 0.0, 1.0]]), mc.Multinomials([[1 / 3, 1 / 3, 1 / 3]])
    found = mc.Multinomial(prior=uniform, prior_strength=6.0).fit_each(counts)  # the mode of Dirichlet(3, 3, 3)
    assert_allclose(found.probability, (counts + 2) / 11, rtol=1e-13)


def test_j10_rbf_as_a_probability_product(rng):
    x, sigma = rng.normal(size=(4, 2)), 1.3
    around_points = mc.Gaussians(mean=x, covariance=np.full(4, sigma**2 / 2))
    expected = np.exp(-np.sum((x[:, None] - x) ** 2, axis=-1) / (2 * sigma**2))
    assert_allclose(mc.ProbabilityProduct(rho=1.0)(around_points), expected, rtol=1e-12)


def test_j11_kernel_density_estimates(rng):
    sets, width = [rng.normal(i, 1.0, size=(n, 1)) for i, n in enumerate((3, 5))], 0.4
    densities = np.array([stats.norm.pdf(LINE, x, np.sqrt(width)).mean(axis=0) for x in sets])
    kernel = mc.ProbabilityProduct(mc.KDE(bandwidth=width), rho=1.0, normalize=False)
    assert_allclose(kernel(sets), integral(densities[:, None] * densities), rtol=1e-11)


# -- section 3: exponential families -------------------------------------------------------------------------------


def test_j13_table_1(rng):
    x, shape, scale = np.array([0.3, 1.0, 4.2]), 2.3, 1.7
    exponential = mc.families.Exponentials([[scale]])
    theta = -1 / scale
    assert_allclose(exponential.natural_parameters, [[theta]])
    assert_allclose(exponential.log_partition(np.array([[theta]])), -np.log(-theta))
    assert_allclose(exponential.log_prob(x[:, None])[0], theta * x + np.log(-theta), rtol=1e-12)

    gamma = mc.families.Gammas([[shape]], [[1.0]])  # the table has the shape only
    by_table = shape * np.log(x) - np.log(x) - x - gammaln(shape)
    assert_allclose(gamma.log_prob(x[:, None])[0], by_table, rtol=1e-12)

    counts = np.array([0.0, 1.0, 6.0])
    poisson = mc.Poissons([[3.0]])
    theta = poisson.natural_parameters
    assert_allclose(theta, np.log([[3.0]]))
    assert_allclose(poisson.log_partition(theta), np.exp(theta[0]))
    assert_allclose(poisson.log_prob(counts[:, None])[0], theta[0] * counts - gammaln(counts + 1) - 3, rtol=1e-12)

    every, trials = compositions(4, 4).astype(float), 4
    documents = mc.Multinomials(FREQUENCIES[:1], trials=trials)
    found = documents.log_prob(every)[0]
    assert_allclose(found, np.log(multinomial_coefficients(every)) + every @ np.log(FREQUENCIES[0]), rtol=1e-12)
    assert_allclose(np.exp(found).sum(), 1, rtol=1e-12)  # K = 0, where the table prints 1
    theta = rng.normal(size=(1, 4))  # off the simplex K = s log of the sum of exp(theta)
    total = multinomial_coefficients(every) @ np.exp(every @ theta[0])
    assert_allclose(documents.log_partition(theta), [np.log(total)], rtol=1e-12)


def test_j14_bhattacharyya_of_any_exponential_family():
    def kernel(log_partition, theta):
        ends = np.array([log_partition(t) for t in theta])
        middle = np.array([[log_partition((t + u) / 2) for u in theta] for t in theta])
        return np.exp(middle - (ends[:, None] + ends) / 2)

    a, b = np.array([0.7, 2.0, 5.0]), np.array([1.0, 0.4, 3.0])
    theta = np.stack([a, -1 / b], axis=1)
    expected = kernel(lambda t: gammaln(t[0]) - t[0] * np.log(-t[1]), theta)
    assert_allclose(raw(0.5, mc.families.Gammas(a[:, None], b[:, None])), expected, rtol=1e-12)
    assert_allclose(raw(0.5, mc.Poissons(a[:, None])), kernel(np.exp, np.log(a)), rtol=1e-12)
    theta = np.stack([a / b, -1 / (2 * b)], axis=1)
    expected = kernel(lambda t: -(t[0] ** 2) / (4 * t[1]) - np.log(-2 * t[1]) / 2, theta)
    assert_allclose(raw(0.5, mc.Gaussians(a[:, None], b)), expected, rtol=1e-12)
    expected = kernel(lambda t: 5 * np.log(np.exp(t).sum()), np.log(FREQUENCIES))
    assert_allclose(raw(0.5, mc.Multinomials(FREQUENCIES, trials=5)), expected, rtol=1e-12)
    own = mc.families.ExponentialFamily.log_product(mc.Poissons(a[:, None]), mc.Poissons(a[:, None]))
    assert_allclose(np.exp(own), kernel(np.exp, np.log(a)), rtol=1e-12)  # what a family of a user inherits


def equation_5(mean, covariance, rho):
    """Equation (5) as printed."""
    (m, n), (S, R), D = mean, covariance, len(mean[0])
    inverse = [np.linalg.inv(S), np.linalg.inv(R)]
    joint = np.linalg.inv(inverse[0] + inverse[1])
    mixed = inverse[0] @ m + inverse[1] @ n
    exponent = m @ inverse[0] @ m + n @ inverse[1] @ n - mixed @ joint @ mixed
    front = (2 * np.pi) ** ((1 - 2 * rho) * D / 2) * rho ** (-D / 2) * np.sqrt(np.linalg.det(joint))
    return front * (np.linalg.det(S) * np.linalg.det(R)) ** (-rho / 2) * np.exp(-rho / 2 * exponent)


@pytest.mark.parametrize("rho", [0.3, 0.5, 1.0, 2.0])
def test_j16_gaussians(rho, rng):
    factors, mean = rng.normal(size=(2, 3, 5)), rng.normal(size=(2, 3))
    covariance = factors @ factors.transpose(0, 2, 1) / 3
    found = raw(rho, mc.Gaussians(mean, covariance))[0, 1]
    assert_allclose(found, equation_5(mean, covariance, rho), rtol=1e-10)


def test_j17_isotropic_gaussians(rng):
    mean, variance, D = rng.normal(size=(2, 3)), 0.8, 3
    squared = np.sum((mean[0] - mean[1]) ** 2)
    pair = mc.Gaussians(mean, np.full(2, variance))
    for rho in (0.4, 0.5, 1.0, 3.0):
        front = (2 * rho) ** (-D / 2) * (2 * np.pi * variance) ** ((1 - 2 * rho) * D / 2)
        assert_allclose(raw(rho, pair)[0, 1], front * np.exp(-squared / (4 * variance / rho)), rtol=1e-12)
    expected = (4 * np.pi * variance) ** (-D / 2) * np.exp(-squared / (4 * variance))
    assert_allclose(raw(1.0, pair)[0, 1], expected, rtol=1e-12)


@pytest.mark.parametrize("rho", [0.3, 0.5, 1.0, 2.0])
def test_j18_bernoullis(rho, rng):
    g = rng.uniform(size=(3, 4))
    points = np.array(list(itertools.product((0, 1), repeat=4)))
    powers = np.prod(np.where(points, g[:, None], 1 - g[:, None]), axis=-1) ** rho
    assert_allclose(raw(rho, mc.families.Bernoullis(g)), powers @ powers.T, rtol=1e-12)


def test_j19_multinomials():
    s, every = 5, compositions(5, 4)
    probability = multinomial_coefficients(every) * np.prod(FREQUENCIES[:, None] ** every, axis=-1)
    found = raw(0.5, mc.Multinomials(FREQUENCIES, trials=s))
    assert_allclose(found, np.sqrt(probability) @ np.sqrt(probability).T, rtol=1e-12)
    assert_allclose(found, (np.sqrt(FREQUENCIES) @ np.sqrt(FREQUENCIES).T) ** s, rtol=1e-12)  # equation (6)
    documents = np.array([[2, 0, 3, 1], [1, 1, 0, 2]])
    estimate = documents.sum(axis=0) / documents.sum()
    assert_allclose(mc.Multinomial().fit(documents).model_.probability[0], estimate, rtol=1e-13)


def test_j22_weights_of_powers():
    r = np.sqrt(FREQUENCIES) @ np.sqrt(FREQUENCIES).T
    length = np.array([5.0, 8.0, 2.5])  # mean lengths of documents, whose lengths have Poisson distributions
    weights = np.sqrt(stats.poisson.pmf(np.arange(60), length[:, None]))
    expected = np.einsum("is,js,sij->ij", weights, weights, r ** np.arange(60)[:, None, None])
    assert_allclose(raw(0.5, mc.Poissons(length[:, None] * FREQUENCIES)), expected, rtol=1e-12)
    documents = np.array([[2, 0, 3, 1], [1, 1, 0, 2]])  # a finite series with any weights is a sum of kernels
    one, two = (mc.ProbabilityProduct(mc.Multinomial(trials=s)) for s in (1, 2))
    f = np.sqrt(documents / documents.sum(axis=1, keepdims=True))
    assert_allclose((0.7 * one + 0.2 * two)(documents), 0.7 * (f @ f.T) + 0.2 * (f @ f.T) ** 2, rtol=1e-12)


def test_j23_gammas():
    a, b = np.array([[0.8], [3.0], [6.5]]), np.array([[2.0], [0.5], [1.0]])
    for rho in (0.3, 0.5, 1.0, 2.0):
        expected = over_positive(lambda x: stats.gamma.pdf(x, a, scale=b), rho)
        assert_allclose(raw(rho, mc.families.Gammas(a, b)), expected, rtol=1e-9)
    with pytest.raises(ValueError, match="concentration"):  # the integral of p^2 is infinite
        raw(1.0, mc.families.Gammas([[0.5], [2.0]], [[1.0], [1.0]]))


def test_j24_exponentials():
    b = np.array([[0.7], [2.5], [1.0]])
    for rho in (0.3, 0.5, 1.0, 2.0):
        found = raw(rho, mc.families.Exponentials(b))
        assert_allclose(found, 1 / (rho * (1 / b + 1 / b.T) * (b * b.T) ** rho), rtol=1e-12)
        assert_allclose(found, over_positive(lambda x: stats.expon.pdf(x, scale=b), rho), rtol=1e-8)
