"""ProbabilityProduct(marginal=True): whole powers of observed laws, against sums over all that can be observed."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import mercer as mc
from mercer.families import PowerProduct

GRID = np.linspace(-12, 12, 4801)[:, None]
STEP = GRID[1, 0] - GRID[0, 0]


def kernel(rho, marginal=True, **options):
    return mc.ProbabilityProduct(rho=rho, marginal=marginal, **{"length": 3, "normalize": False} | options)


def symbols(rng, shape, k=3):
    return mc.Categoricals(rng.dirichlet(np.ones(k), shape), alphabet="abc"[:k])


def one_trial(rng, shape):
    return mc.Multinomials(rng.dirichlet(np.ones(3), shape))


def points(rng, shape):
    return mc.Gaussians(rng.normal(size=(*shape, 1)), rng.uniform(0.3, 2.0, shape))


def mixed(rng, shape):
    return mc.Mixtures(rng.dirichlet(np.ones(2), shape), symbols(rng, (*shape, 2)))


def mixed_points(rng, shape):
    return mc.Mixtures(rng.dirichlet(np.ones(2), shape), points(rng, (*shape, 2)))


def nested(rng, shape):
    return mc.Mixtures(rng.dirichlet(np.ones(2), shape), mixed(rng, (*shape, 2)))


def chains(rng, n, count=3, emission=symbols):
    initial, transition = rng.dirichlet(np.ones(n), count), rng.dirichlet(np.ones(n), (count, n))
    return mc.HMMs(initial, transition, emission(rng, (count, n)))


def hmms(seed=0, emission=symbols, sizes=(2, 3)):
    rng = np.random.default_rng(seed)
    return mc.HMMs.concat([chains(rng, n, 2, emission) for n in sizes])


def mixtures(seed=0, count=3, m=3, emission=points):
    rng = np.random.default_rng(seed)
    return mc.Mixtures(rng.dirichlet(np.ones(m), count), emission(rng, (count, m)))


def strings(length, alphabet="abc"):
    return ["".join(s) for s in itertools.product(alphabet, repeat=length)]


def truth(values, rho, weight=1.0):
    """Sum p^rho q^rho over what can be observed: values (N, T) of probabilities or densities."""
    powered = np.asarray(values) ** rho
    return (powered * weight) @ powered.T


def emitted(emission):
    """Probabilities of symbols, with all components summed over."""
    if not isinstance(emission, mc.Mixtures):
        return np.asarray(emission.probability)
    return np.sum(np.asarray(emission.weights)[..., None] * emitted(emission.components), axis=-2)


# ------------------------------------------------------------------ chains


@pytest.mark.parametrize("emission", [symbols, mixed, nested])
@pytest.mark.parametrize("rho", [1, 2, 3])
def test_all_strings(emission, rho):
    models = hmms(emission=emission, sizes=(2, 1) if emission is nested else (2, 3))
    plain = mc.Categoricals(emitted(models.emission), alphabet="abc")
    same = mc.HMMs(models.initial, models.transition, plain, models.n_states)
    for length in (1, 2, 4):
        expected = truth(np.exp(same.log_prob(strings(length))), rho)
        np.testing.assert_allclose(kernel(rho, length=length)(models), expected, rtol=1e-12)


def test_normalised_cross_and_path():
    models, lengths = hmms(3), [3, 1, 4]
    asked = kernel(2.0, normalize=True)
    path = asked.path(models, lengths=lengths)
    for table, length in zip(path, lengths, strict=True):
        raw = truth(np.exp(models.log_prob(strings(length))), 2)
        np.testing.assert_allclose(table, raw / np.sqrt(np.outer(np.diag(raw), np.diag(raw))), rtol=1e-12)
    np.testing.assert_allclose(asked(models[:1], models), path[0][:1], rtol=1e-12)
    np.testing.assert_allclose(asked(models, chains(np.random.default_rng(4), 1)).shape, (4, 3))


def test_discounted():
    models, d = hmms(1), 0.6
    lengths = np.arange(1, 60)
    raw = kernel(2.0).path(models, lengths=lengths)
    expected = np.sum((1 - d) * d ** (lengths[:, None, None] - 1.0) * raw, axis=0)
    np.testing.assert_allclose(kernel(2.0, length=mc.Discounted(d))(models), expected, rtol=1e-10)


@pytest.mark.parametrize("emission", [points, mixed_points])
def test_two_observations_of_densities(emission):
    models = hmms(2, emission, sizes=(1, 2))
    grid = np.linspace(-9, 9, 181)
    pairs = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1).reshape(-1, 2, 1)
    density = np.exp(models.log_prob(list(pairs)))
    for rho in (2, 3):
        np.testing.assert_allclose(
            kernel(rho, length=2)(models), truth(density, rho, (grid[1] - grid[0]) ** 2), rtol=1e-9
        )


def test_small_probabilities_stay_logarithms():
    tiny = 1e-200
    transition = [[[1 - tiny, tiny], [tiny, 1 - tiny]]]
    emission = mc.Categoricals([[[1.0, 0.0], [0.0, 1.0]]], alphabet="ab")
    left, right = mc.HMMs([[1.0, 0.0]], transition, emission), mc.HMMs([[0.0, 1.0]], transition, emission)
    asked = kernel(2.0, length=2)
    assert np.isneginf(asked.log(left, right)).all()  # their first symbols differ
    even = mc.HMMs([[0.5, 0.5]], transition, emission)
    both = asked.log(left, even)[0, 0]  # aa: (1/2)^2; ab: tiny^4 (1/2)^2
    assert both == pytest.approx(2 * np.log(0.5))
    only = mc.HMMs([[1.0, 0.0]], [[[0.0, 1.0], [1.0, 0.0]]], emission)  # the string ab alone
    assert asked.log(left, only)[0, 0] == pytest.approx(2 * np.log(tiny))


def test_small_emissions_stay_logarithms():
    usual = hmms(sizes=(2,), emission=lambda rng, shape: symbols(rng, shape, 2))
    tiny = mc.HMMs([[1.0]], [[[1.0]]], mc.Categoricals([[[1 - 1e-100, 1e-100]]], alphabet="ab"))
    sure = mc.HMMs([[1.0]], [[[1.0]]], mc.Categoricals([[[0.0, 1.0]]], alphabet="ab"))
    asked = kernel(2.0, length=5)
    assert asked.log(tiny, sure)[0, 0] == pytest.approx(10 * np.log(1e-100))
    np.testing.assert_allclose(asked.log(usual, tiny)[:, 0], 2 * usual.log_prob(["aaaaa"])[:, 0], rtol=1e-12)
    np.testing.assert_array_equal(asked.log(tiny, usual), asked.log(usual, tiny).T)


# ------------------------------------------------------------------ mixtures and density estimates


@pytest.mark.parametrize("rho", [1, 2, 3])
def test_mixtures_on_a_line(rho):
    p = mixtures(1)
    np.testing.assert_allclose(kernel(rho)(p), truth(np.exp(p.log_prob(GRID)), rho, STEP), rtol=1e-12)


@pytest.mark.parametrize("structure", ["full", "diagonal", "isotropic"])
def test_mixtures_in_the_plane(structure):
    rng = np.random.default_rng(2)
    root = rng.normal(size=(2, 2, 2, 2))
    covariance = root @ np.swapaxes(root, -1, -2) + 0.3 * np.eye(2)
    if structure != "full":
        covariance = covariance[..., [0, 1], [0, 1]]
    if structure == "isotropic":
        covariance = covariance[..., 0]
    p = mc.Mixtures([[0.3, 0.7], [0.6, 0.4]], mc.Gaussians(rng.normal(size=(2, 2, 2)), covariance))
    line = np.linspace(-14, 14, 401)
    plane = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    expected = truth(np.exp(p.log_prob(plane)), 2, (line[1] - line[0]) ** 2)
    np.testing.assert_allclose(kernel(2)(p), expected, rtol=1e-10)


def test_density_estimates():
    rng = np.random.default_rng(3)
    p = mc.KDEs([rng.normal(size=(m, 1)) for m in (4, 1, 6)], [0.2, 0.5, 0.1])
    density = np.exp(p.log_prob(GRID))
    for rho in (1, 2, 3):
        np.testing.assert_allclose(kernel(rho)(p), truth(density, rho, STEP), rtol=1e-11)
    plane = mc.KDEs(rng.normal(size=(2, 3, 2)), 0.3)
    line = np.linspace(-8, 8, 321)
    where = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    expected = truth(np.exp(plane.log_prob(where)), 2, (line[1] - line[0]) ** 2)
    np.testing.assert_allclose(kernel(2)(plane), expected, rtol=1e-10)


def test_kernel_of_fitted_density_estimates():
    rng = np.random.default_rng(4)
    sets = [rng.normal(size=(m, 1)) for m in (5, 3, 8)]
    asked = mc.ProbabilityProduct(mc.KDE(), rho=2, marginal=True).fit(sets)
    K = asked(sets)
    np.testing.assert_allclose(asked(sets[1:]), K[1:, 1:], rtol=1e-12)
    np.testing.assert_allclose(asked(sets[1:], sets), K[1:], rtol=1e-12)
    assert clone(asked).marginal is True


def waits(rng, shape):
    return mc.families.Exponentials(rng.uniform(0.5, 2.0, (*shape, 1)))


def answers(rng, shape):
    return mc.families.Bernoullis(rng.uniform(0.1, 0.9, (*shape, 2)))


def observations(p):
    """Points of a quadrature and their weights, or all outcomes."""
    components = p.components
    if isinstance(components, mc.families.Bernoullis):
        return np.array(list(itertools.product((0.0, 1.0), repeat=2))), 1.0
    if isinstance(components, mc.Multinomials):
        return np.eye(3), 1.0
    nodes, weights = np.polynomial.legendre.leggauss(400)
    u = (nodes + 1) / 2
    x, weights = u**2 * (3 - 2 * u), weights / 2 * 6 * u * (1 - u)  # smooth at both ends
    return (x / (1 - x))[:, None], weights / (1 - x) ** 2


@pytest.mark.parametrize("rho", [2, 3])
@pytest.mark.parametrize("family", [waits, answers, one_trial])
def test_mixtures_of_every_closed_family(family, rho):
    p = mixtures(5, m=2, emission=family)
    x, weight = observations(p)
    np.testing.assert_allclose(kernel(rho)(p), truth(np.exp(p.log_prob(x)), rho, weight), rtol=1e-9)


# ------------------------------------------------------------------ what it promises


@given(st.integers(0, 10_000), st.integers(2, 4), st.floats(0.01, 0.99))
@settings(max_examples=15, deadline=None)
def test_splitting_a_component(seed, rho, share):
    p = mixtures(seed, count=2, m=2)
    weights = np.concatenate([p.weights[:, :1], p.weights[:, 1:] * [[share, 1 - share]]], axis=1)
    split = mc.Mixtures(weights, p.components[:, [0, 1, 1]])
    np.testing.assert_allclose(kernel(rho)(split, p), kernel(rho)(p), rtol=1e-10)
    lone, halves = mc.Mixtures([[1.0]], points(np.random.default_rng(seed), (1, 1))), [[share, 1 - share]]
    cut = mc.Mixtures(halves, lone.components[:, [0, 0]])
    ratio = kernel(rho, False)(cut, lone) / kernel(rho, False)(lone)
    assert ratio[0, 0] == pytest.approx(share**rho + (1 - share) ** rho)
    np.testing.assert_allclose(kernel(rho)(cut, lone), kernel(rho)(lone), rtol=1e-10)


def test_no_hidden_variables_no_difference():
    rng = np.random.default_rng(8)
    observed = mc.MarkovChains(rng.dirichlet(np.ones(2), 3), rng.dirichlet(np.ones(2), (3, 2)), alphabet="ab")
    for batch in (
        points(rng, (3,)),
        mc.Poissons(rng.uniform(1, 2, (3, 1))),
        mc.Multinomials([[0.5, 0.5]]),
        observed,
    ):
        for rho in (0.3, 0.5, 2.5):
            np.testing.assert_array_equal(kernel(rho)(batch), kernel(rho, False)(batch))


# ------------------------------------------------------------------ multisets


# ------------------------------------------------------------------ other libraries


@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
@pytest.mark.parametrize("make", [hmms, mixtures])
def test_other_array_libraries(library, make):
    p, library = make(10), pytest.importorskip(library)

    def convert(batch):
        return batch._map(
            lambda name, x: x if name == "n_states" else library.asarray(np.array(x)), lambda _, part: convert(part)
        )

    found = convert(p).couple(PowerProduct(2.0, marginal=True), (3,))
    expected = p.couple(PowerProduct(2.0, marginal=True), (3,))
    np.testing.assert_allclose(np.asarray(found.pair(found)), expected.pair(expected), rtol=1e-10)
    np.testing.assert_allclose(np.asarray(found.alone()), expected.alone(), rtol=1e-10)


def test_gradients():
    torch = pytest.importorskip("torch")
    mean = torch.tensor([[[0.0, 1.0], [2.0, -1.0]]], dtype=torch.float64, requires_grad=True)
    weights = torch.tensor([[0.25, 0.75]], dtype=torch.float64, requires_grad=True)
    spread = torch.eye(2, dtype=torch.float64).repeat(1, 2, 1, 1) * 0.7

    def value(mean, weights):
        p = mc.Mixtures(weights / weights.sum(), mc.Gaussians(mean, spread)).couple(PowerProduct(2.0, marginal=True))
        return p.pair(p).sum()

    assert torch.autograd.gradcheck(value, (mean, weights))
    transition = torch.tensor([[[0.9, 0.1], [0.0, 1.0]]], dtype=torch.float64, requires_grad=True)

    def chain(mean, transition):
        first = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
        p = mc.HMMs._make(
            initial=first, transition=transition, n_states=np.array([2]), emission=mc.Gaussians(mean, spread)
        ).couple(PowerProduct(2.0, marginal=True), (3,))
        return p.pair(p).sum()

    chain(mean, transition).backward()
    assert torch.isfinite(transition.grad).all()
    with torch.no_grad():
        change = torch.zeros_like(mean)
        change[0, 1, 0] = 1e-5
        difference = (chain(mean + change, transition) - chain(mean - change, transition)) / 2e-5
    assert difference.item() == pytest.approx(mean.grad[0, 1, 0].item(), rel=1e-6)


# ------------------------------------------------------------------ errors


@pytest.mark.parametrize("rho", [0.5, 1.5])
def test_only_whole_powers(rho):
    message = rf"rho must be a whole number with marginal=True, .* got {rho}\. Use rho=1 or rho=2"
    for batch in (hmms(), mixtures(), mc.KDEs(np.zeros((2, 3, 1)), 1.0)):
        with pytest.raises(ValueError, match=message):
            kernel(rho)(batch)
    for model in (mc.HMM(), mc.Mixture(mc.Gaussian()), mc.KDE()):
        with pytest.raises(ValueError, match=message):  # before anything is fitted
            mc.ProbabilityProduct(model, rho=rho, marginal=True).fit(None)


def test_bad_power():
    with pytest.raises(ValueError, match=r"marginal must be True or False; got 'both'"):
        kernel(2, "both")(mixtures())


def test_families_that_are_not_closed():
    counts = mixtures(emission=lambda rng, shape: mc.Poissons(rng.uniform(1, 2, (*shape, 1))))
    with pytest.raises(TypeError, match=r"closed under products, which Poissons is not\. Use rho=1 or marginal=False"):
        kernel(2)(counts)
    trials = mixtures(emission=lambda rng, shape: mc.Multinomials(rng.dirichlet(np.ones(2), shape), trials=3))
    with pytest.raises(ValueError, match=r"of 3 trials has a closed form at rho = 0.5 only"):
        kernel(2)(trials)


def test_powers_without_an_integral():
    singular = mc.Mixtures([[0.5, 0.5]], mc.Gaussians([[[0.0], [1.0]]], [[1.0, 0.0]]))
    with pytest.raises(ValueError, match=r"The Gaussian at index .* singular covariance, .* Add a floor"):
        kernel(2)(singular)


def test_too_many_products():
    rng = np.random.default_rng(11)
    with pytest.raises(
        ValueError, match=r"needs 2080 products of 2 of 64 components; the limit is 2048\. Use a smaller rho"
    ):
        kernel(2)(mixtures(m=64))
    with pytest.raises(ValueError, match=r"needs 528 products of 2 of 32 states; the limit is 512"):
        kernel(2)(chains(rng, 32, 1))
    with pytest.raises(ValueError, match=r"of 2 of 12 states; the limit is 32"):
        kernel(2)(
            chains(rng, 12, 1, lambda rng, shape: mc.Mixtures(np.full((*shape, 4), 0.25), symbols(rng, (*shape, 4))))
        )
    with pytest.raises(ValueError, match=r"rho = 1000000 .* fewer components"):
        kernel(1e6)(mixtures(m=1))
    with pytest.raises(ValueError, match=r"rho = 10\^300 .* needs 10\^600 products of 10\^300 of 3 comp"):
        kernel(1e300)(mixtures(m=3))
    with pytest.raises(ValueError, match=r"2 of 64 points; .* fewer points, or rho=1, or use mc.MeanMap"):
        kernel(2)(mc.KDEs(rng.normal(size=(2, 64, 1)), 1.0))
    with pytest.raises(ValueError, match=r"because Mixtures have hidden variables; got 1.0000001"):
        kernel(1.0000001)(mixtures())


def test_gradients_at_probabilities_of_zero():
    """Against one-sided differences: a chain that cannot begin in a state, or not emit a symbol, could."""
    torch = pytest.importorskip("torch")
    transition = torch.tensor([[[0.7, 0.3], [0.4, 0.6]]], dtype=torch.float64)

    def value(initial, probability):
        emission = mc.Categoricals._make(probability=probability, alphabet=mc.data.Alphabet("abc"))
        p = mc.HMMs._make(initial=initial, transition=transition, n_states=np.array([2]), emission=emission)
        operand = p.couple(PowerProduct(2.0, marginal=True), (3,))
        return operand.pair(operand).sum()

    given = [torch.tensor(part, dtype=torch.float64) for part in ([[1.0, 0.0]], [[[0.8, 0.2, 0.0], [0.0, 0.4, 0.6]]])]
    slopes = torch.autograd.grad(value(*(part.requires_grad_() for part in given)), given)
    for place, index in ((0, (0, 1)), (1, (0, 0, 2)), (1, (0, 1, 0))):
        moved = [part.detach().clone() for part in given]
        moved[place][index] = 1e-6
        difference = (value(*moved) - value(*given)) / 1e-6
        assert slopes[place][index].item() == pytest.approx(difference.item(), rel=1e-4)
        assert abs(difference) > 0.01
