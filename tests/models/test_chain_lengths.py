"""Lengths of coupled chains: discounted sums, paths over lengths, and gradients."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from tests.batches import WIDTH, categoricals, gaussian_hmms, hmms, softmax

import mercer as mc
from mercer.families import PowerProduct, Smoothed
from mercer.models._chains import sweep as _sweep
from mercer.models._chains.coupled import coupled_chains
from mercer.models._chains.sweep import crossed, sweep
from mercer.models._markov.operand import ProductOperand
from mercer.models.discount import Discounted, discounted_sum
from mercer.models.markov import MarkovChains
from mercer.testing.kernels import Gradients, PluralContract, by_pairs, numpy


def free(seed, n, width):
    return 0.8 * np.random.default_rng(seed).standard_normal((n, width))


def symbols(seed, n, states=2, k=3):
    return hmms(free(seed, n, states + states**2 + states * k), states, k)


def points(seed, n):
    return gaussian_hmms(free(seed, n, 10))


def mixed_sizes(seed=3):
    return mc.HMMs.concat([symbols(seed, 3, 2), symbols(seed + 1, 2, 3), symbols(seed + 2, 1, 1)])


def resolvent(p, q, coupling, d):
    """(1 - d) v (I - d Op)^{-1} 1 for two models, with the Kronecker product written out."""
    power = coupling.power
    psi = np.exp(p.emission.couple(coupling).pair(q.emission.couple(coupling))).ravel()
    first = np.kron(p.initial**power, q.initial**power) * psi
    operator = np.kron(p.transition**power, q.transition**power) * psi
    return (1 - d) * first @ np.linalg.solve(np.eye(len(psi)) - d * operator, np.ones(len(psi)))


def raw(coupling, length):
    if isinstance(coupling, PowerProduct):
        return mc.ProbabilityProduct(rho=coupling.rho, length=length, normalize=False)
    return mc.MeanMap(gamma=coupling.gamma, length=length, normalize=False)


COUPLINGS = [PowerProduct(0.5), PowerProduct(1.0), PowerProduct(2.0), Smoothed(0.4)]


# ------------------------------------------------------------------ discounted sums


@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
@pytest.mark.parametrize("make", [symbols, points])
def test_resolvent(coupling, make):
    models = make(1, 4)
    d = 0.3 if coupling == PowerProduct(0.5) else 0.6
    truth = np.array([[resolvent(p, q, coupling, d) for q in models] for p in models])
    np.testing.assert_allclose(raw(coupling, Discounted(d))(models), truth, rtol=1e-11)
    np.testing.assert_allclose(raw(coupling, Discounted(d)).diag(models), np.diag(truth), rtol=1e-11)
    np.testing.assert_allclose(raw(coupling, Discounted(d))(models[:1], models[1:]), truth[:1, 1:], rtol=1e-11)


@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
def test_sum_over_lengths(coupling):
    """The definition itself, with models of different sizes."""
    models, d, lengths = mixed_sizes(), 0.25, np.arange(1, 121)
    values = raw(coupling, None).path(models, lengths=lengths)
    truth = np.sum((1 - d) * d ** (lengths[:, None, None] - 1.0) * values, axis=0)
    np.testing.assert_allclose(raw(coupling, Discounted(d))(models), truth, rtol=1e-12)
    own = np.sqrt(np.diag(truth))
    kernel = raw(coupling, Discounted(d)).set_params(normalize=True)
    np.testing.assert_allclose(kernel(models), truth / np.outer(own, own), rtol=1e-12)
    assert np.all(np.diag(kernel(models)) == 1)
    np.testing.assert_allclose(np.exp(kernel.log(models)), kernel(models), rtol=1e-12)


@pytest.mark.parametrize("make", [symbols, points])
def test_slow_sums(make):
    """Nearly 1 / (1 - d) terms matter: a geometric series after the first ones."""
    models, d = make(0, 4), 0.999
    truth = np.array([[resolvent(p, q, Smoothed(0.001), d) for q in models] for p in models])
    np.testing.assert_allclose(raw(Smoothed(0.001), Discounted(d))(models), truth, rtol=1e-11)


def test_terms_of_a_slow_minority():
    """A second part of the sum, with a tiny weight and a slower decay, is not overlooked."""
    d, slow = 0.99, 1e-5
    initial, transition = np.array([[1.0 - slow, slow]]), np.eye(2)[None]
    models = mc.HMMs(initial, transition, mc.Gaussians([[[0.0], [0.0]]], [[0.0797, 0.07965]]))
    truth = resolvent(models[0:1][0], models[0:1][0], PowerProduct(1.0), d)
    np.testing.assert_allclose(raw(PowerProduct(1.0), Discounted(d))(models), [[truth]], rtol=1e-11)


def test_periodic_chains():
    """The factors from term to term alternate, so that no geometric series is assumed."""
    emission = mc.Categoricals([[[0.5, 0.5], [1.0, 0.0], [0.9, 0.1]]])
    models = mc.HMMs([[1.0, 0.0, 0.0]], np.roll(np.eye(3), 1, axis=1)[None], emission)
    for d in (0.5, 0.95):
        truth = resolvent(models[0], models[0], PowerProduct(1.0), d)
        np.testing.assert_allclose(raw(PowerProduct(1.0), Discounted(d))(models), [[truth]], rtol=1e-12)


def test_slow_periodic_sums_are_given_up(monkeypatch):
    monkeypatch.setattr("mercer.models.discount.MOST_LENGTHS", 100)
    emission = mc.Categoricals([[[0.5, 0.5], [1.0, 0.0]]])
    models = mc.HMMs([[1.0, 0.0]], [[[0.0, 1.0], [1.0, 0.0]]], emission)
    with pytest.raises(ArithmeticError, match=r"not converged after 96 lengths. Use a d smaller than 0\.999"):
        mc.ProbabilityProduct(rho=1.0, length=Discounted(0.999))(models)


@pytest.mark.slow
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("log_domain", [False, True])
def test_infinite_sum_names_the_model_and_the_cure(normalize, log_domain, monkeypatch):
    """At rho = 1/2 the kernel of two uniform chains of n states grows n times with every observation."""
    wide = np.full((1, 3), 1 / 3), np.full((1, 3, 3), 1 / 3), categoricals(np.zeros((3, 4))).reshape(1, 3)
    models = mc.HMMs.concat([symbols(0, 2, 1, 4), mc.HMMs(*wide)])
    kernel = mc.ProbabilityProduct(rho=0.5, length=Discounted(0.4), normalize=normalize)
    if log_domain:
        monkeypatch.setattr("mercer.models._chains.operand._lost", lambda *_: True)
    with pytest.raises(ValueError, match=r"model 2 with itself is infinite: .* 3 times .* d = 0.4 .* below 0.3333"):
        kernel(models)
    assert np.isfinite(kernel.set_params(length=Discounted(0.33))(models)).all()
    with pytest.raises(ValueError, match="model 0 with itself is infinite"):  # the radius is 1 / d to the last digit
        kernel.set_params(length=Discounted(1 / 3))(models[2:])


def test_dense_emissions_diverge_at_rho_one_too():
    """A narrow density has a large product with itself: rho >= 1 is no guarantee."""
    narrow = mc.HMMs([[1.0]], [[[1.0]]], mc.Gaussians([[[0.0]]], [[1e-4]]))
    psi = 1 / np.sqrt(4 * np.pi * 1e-4)
    kernel = mc.ProbabilityProduct(rho=1.0, length=Discounted(0.5), normalize=False)
    with pytest.raises(ValueError, match=f"grows {psi:.6g} times"):
        kernel(narrow)
    d = 0.9 / psi
    value = kernel.set_params(length=Discounted(d))(narrow)[0, 0]
    assert value == pytest.approx((1 - d) * psi / (1 - d * psi), rel=1e-12)


def test_unreachable_states_do_not_count():
    """A state that nobody enters may grow as it likes."""
    initial, transition = np.array([[1.0, 0.0]]), np.array([[[1.0, 0.0], [0.5, 0.5]]])
    emission = mc.Gaussians([[[0.0], [0.0]]], [[1.0, 1e-12]])
    alone = mc.HMMs([[1.0]], [[[1.0]]], mc.Gaussians([[[0.0]]], [[1.0]]))
    kernel = mc.ProbabilityProduct(rho=1.0, length=Discounted(0.9), normalize=False)
    found = kernel(mc.HMMs(initial, transition, emission))
    np.testing.assert_allclose(found, kernel(alone), rtol=1e-12)


def test_tiny_weights_and_far_leaves():
    """Probabilities of 1e-300 and kernels of exp(-1e4): logarithms, not zeros."""
    transition = np.array([[[0.0, 1.0], [1e-300, 1.0]]])
    first = mc.HMMs([[1.0, 0.0]], transition, mc.Categoricals([[[1.0, 0.0], [0.0, 1.0]]]))
    second = mc.HMMs([[0.0, 1.0]], transition[:, ::-1, ::-1], mc.Categoricals([[[0.0, 1.0], [1.0, 0.0]]]))
    kernel = mc.ProbabilityProduct(rho=1.0, length=Discounted(0.5), normalize=False)
    # The same chain in another order of states.
    np.testing.assert_allclose(kernel.log(first, second), kernel.log(first), atol=1e-12)
    np.testing.assert_allclose(kernel.log(first), [[np.log(0.5 + 0.5**2 / (1 - 0.5))]], atol=1e-12)
    far = mc.HMMs([[1.0]] * 2, [[[1.0]]] * 2, mc.Gaussians([[[0.0]], [[200.0]]], np.ones((2, 1))))
    expected = -(200**2) / 4 - np.log(4 * np.pi) / 2 + np.log(0.5)
    assert kernel.log(far)[0, 1] == pytest.approx(expected, rel=1e-12)
    dead = mc.HMMs([[1.0]] * 2, [[[1.0]]] * 2, mc.Categoricals(np.eye(2)[:, None]))
    assert kernel.log(dead)[0, 1] == -np.inf
    # Two of them meet in one step: 1e-600 is no float.
    rare = mc.HMMs([[1.0, 0.0]], [[[0.0, 1.0], [0.0, 1.0]]], mc.Gaussians([[[0.0], [0.0]]], np.ones((1, 2))))
    assert np.isfinite(kernel.log(rare)).all()


def test_discounted_is_a_value():
    d = Discounted(0.9)
    assert repr(d) == "Discounted(d=0.9)"
    assert {d: 1}[Discounted(0.9)] == 1
    assert d != Discounted(0.8)
    for other in (copy.deepcopy(d), pickle.loads(pickle.dumps(d))):
        assert other == d
    assert clone(mc.MeanMap(length=d)).length == d
    for wrong in (0, 1, -0.1, 1.5, np.nan, "half", None, True):
        with pytest.raises(ValueError, match="d of Discounted must be between 0 and 1"):
            Discounted(wrong)
    with pytest.raises(ValueError, match=r"length must be .*; got 0.9. .*mc.Discounted\(0.9\)"):
        mc.ProbabilityProduct(length=0.9)(symbols(0, 2))


@given(st.floats(0.05, 0.95), st.floats(0.1, 3.0), st.integers(1, 4))
def test_sum_of_a_geometric_series(d, growth, count):
    def table(lengths, rows):
        return np.tile((lengths[:, None] - 1) * np.log(growth), (1, count))

    if d * growth < 1 - 1e-3:
        found = discounted_sum(table, d, np.arange(count))
        np.testing.assert_allclose(found, np.log((1 - d) / (1 - d * growth)), atol=1e-10)
    elif d * growth > 1 + 1e-2:
        with pytest.raises(ValueError, match="model 0 with itself is infinite"):
            discounted_sum(table, d, np.arange(count))


class TestDiscountedProduct(Gradients, PluralContract):
    """All that a kernel keeps, at a discount."""

    width, coupling = WIDTH[hmms], PowerProduct(0.5)

    def kernel(self):
        return raw(self.coupling, Discounted(0.2)).set_params(normalize=True)

    def build(self, z):
        return hmms(z)

    def truth(self, X):
        return by_pairs(lambda p, q: resolvent(p, q, self.coupling, 0.2), X)


class TestDiscountedMeanMap(TestDiscountedProduct):
    width, coupling = WIDTH[gaussian_hmms], Smoothed(0.3)

    def build(self, z):
        return gaussian_hmms(z)


@pytest.mark.parametrize("end", [False, True])
@pytest.mark.parametrize("order", [0, 1, 2, 3])
@pytest.mark.parametrize(("rho", "d"), [(0.5, 0.8), (1.0, 0.95), (2.0, 0.5), (0.3, 0.3)])
def test_markov_chains(order, end, rho, d):
    """Observed states (PPK-4.2a), against the sum over lengths."""
    rng = np.random.default_rng(order)
    starts = 2**order + (sum(2**j for j in range(order)) if end else 0)
    p = MarkovChains(
        rng.dirichlet(np.ones(starts), 4),
        rng.dirichlet(np.ones(2 + end), (4, 2**order)),
        order=order,
        alphabet="ab",
        end=end,
    )
    lengths = np.arange(1, 700)
    by_length = ProductOperand(p, rho, tuple(lengths))
    weight = np.log1p(-d) + (lengths - 1) * np.log(d)
    operand = ProductOperand(p, rho, Discounted(d))
    truth = np.logaddexp.reduce(by_length.pair(by_length) + weight[:, None, None], axis=0)
    np.testing.assert_allclose(operand.pair(operand)[0], truth, atol=1e-12)
    np.testing.assert_allclose(operand.alone()[0], np.diag(truth), atol=1e-12)
    np.testing.assert_allclose(operand[1:3].pair(operand)[0], truth[1:3], atol=1e-12)


@pytest.mark.slow
def test_markov_chains_that_diverge():
    uniform = MarkovChains(np.full((2, 3), 1 / 3), np.full((2, 3, 3), 1 / 3), alphabet="abc")
    operand = ProductOperand(uniform, 0.25, Discounted(0.6))  # grows 3 ** (1 - 2 rho) times
    with pytest.raises(ValueError, match=r"model 0 with itself is infinite: .* grows 1\.73\d* times .* d below 0\.57"):
        operand.alone()


def test_mean_map_of_markov_chains():
    rng = np.random.default_rng(3)
    p = MarkovChains(rng.dirichlet(np.ones(2), 3), rng.dirichlet(np.ones(2), (3, 2)), alphabet="ab")
    kernel, d, lengths = mc.MeanMap(gamma=0.4, normalize=False), 0.7, np.arange(1, 120)
    path = kernel.path(p, lengths=lengths)
    for h in (0, 4):
        np.testing.assert_allclose(path[h], clone(kernel).set_params(length=h + 1)(p), rtol=1e-12)
    truth = np.sum((1 - d) * d ** (lengths[:, None, None] - 1.0) * path, axis=0)
    np.testing.assert_allclose(clone(kernel).set_params(length=Discounted(d))(p), truth, rtol=1e-11)
    product = mc.ProbabilityProduct(rho=0.5).path(p, lengths=[5, 2])
    np.testing.assert_allclose(product[1], mc.ProbabilityProduct(rho=0.5, length=2)(p), rtol=1e-12)


# ------------------------------------------------------------------ paths


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
@pytest.mark.parametrize("make", [lambda: mixed_sizes(), lambda: points(0, 5)], ids=["symbols", "points"])
def test_path_is_the_kernel_of_every_length(coupling, make, normalize):
    models, lengths = make(), [7, 1, 30, 7, 2]
    kernel = raw(coupling, 3).set_params(normalize=normalize)
    path = kernel.path(models, lengths=lengths)
    cross = kernel.path(models, models[:2], lengths=lengths)
    logs = kernel.path(models, lengths=lengths, log=True)
    assert path.shape == (5, len(models), len(models))
    for h, length in enumerate(lengths):
        single = clone(kernel).set_params(length=length)
        np.testing.assert_allclose(path[h], single(models), rtol=1e-12)
        np.testing.assert_allclose(cross[h], single(models, models[:2]), rtol=1e-12)
        np.testing.assert_allclose(logs[h], single.log(models), rtol=1e-12, atol=1e-12)
        assert np.array_equal(path[h], path[h].T)
        assert np.array_equal(np.diag(path[h]), np.exp(np.diag(logs[h])))
    if normalize:
        assert np.all(path[:, np.arange(len(models)), np.arange(len(models))] == 1)
    assert kernel.length == 3
    assert "_path" not in vars(kernel)


def test_path_over_tiles_and_libraries(monkeypatch, library):
    z = free(7, 11, 12)
    kernel = mc.ProbabilityProduct(rho=0.5)
    expected = kernel.path(hmms(z), lengths=range(1, 6))
    monkeypatch.setattr("mercer.kernels._evaluation.Prepared.tile_hint", property(lambda self: 3))
    np.testing.assert_allclose(kernel.path(hmms(z), lengths=range(1, 6)), expected, rtol=1e-12)
    found = kernel.path(hmms(library.asarray(z)), lengths=[2, 1, 5])
    np.testing.assert_allclose(numpy(found), expected[[1, 0, 4]], rtol=1e-12)


@pytest.mark.slow
def test_path_of_objects_without_norm():
    """A chain that ends has no norm at longer lengths, and the path says so for every length."""
    ends = mc.HMMs([[1.0]], [[[1.0]]], mc.Categoricals([[[1.0, 0.0]]]))
    other = mc.HMMs([[1.0]], [[[1.0]]], mc.Categoricals([[[0.0, 1.0]]]))
    models = mc.HMMs.concat([ends, other])
    np.testing.assert_array_equal(
        mc.ProbabilityProduct().path(models, lengths=[1, 9]), np.broadcast_to(np.eye(2), (2, 2, 2))
    )


def test_path_errors():
    kernel, models = mc.ProbabilityProduct(), symbols(0, 2)
    with pytest.raises(TypeError, match="Categoricals has no path over lengths"):
        kernel.path(categoricals(free(0, 2, 3)), lengths=[1, 2])
    for wrong in ([], [0, 1], [2.5], ["two"], [None], None, "12", True):
        with pytest.raises(ValueError, match="lengths must be one or more whole numbers"):
            kernel.path(models, lengths=wrong)
    with pytest.raises(ValueError, match=r"lengths must be at most 10000000, .* got 1000000000"):
        kernel.path(models, lengths=[3, 10**9])
    with pytest.raises(AttributeError, match="path"):
        (kernel + mc.MeanMap()).path(models, lengths=[1])
    np.testing.assert_array_equal(kernel.path(models, lengths=4), kernel.path(models, lengths=[4]))


# ------------------------------------------------------------------ gradients


@pytest.mark.parametrize("all_pairs", [True, False])
@pytest.mark.parametrize("lengths", [(1,), (2,), (1, 4), (3, 9, 40), (1, 7, 24, 50)])
def test_gradients_against_finite_differences(all_pairs, lengths, torch):
    """All five arrays of PPK-4.2c, for a weighted sum of several lengths, over kept and recomputed tables."""
    rng = np.random.default_rng(0)
    count, shape = (3, (2, 3, 3, 2)) if all_pairs else (2, (2, 3, 2))
    shapes = (2, 3), (2, 3, 3), (count, 2), (count, 2, 2), shape
    arrays = [rng.random(size) / size[-1] for size in shapes]
    tensors = [torch.asarray(x).requires_grad_() for x in arrays]

    def sides(arrays):
        return crossed(arrays[:2], arrays[2:4]) if all_pairs else (arrays[:2], arrays[2:4])

    values = sweep(*sides(tensors), tensors[4], lengths)
    share = rng.normal(size=values.shape)
    gradients = torch.autograd.grad((values * torch.asarray(share)).sum(), tensors, allow_unused=True)

    def objective(arrays):
        return np.sum(share * coupled_chains(*sides(arrays), np.log(arrays[4]), lengths))

    np.testing.assert_allclose(np.sum(share * values.detach().numpy()), objective(arrays), rtol=1e-12)
    for at, gradient in enumerate(gradients):
        direction = rng.normal(size=arrays[at].shape)
        ends = [[x + s * 1e-6 * direction if i == at else x for i, x in enumerate(arrays)] for s in (1, -1)]
        slope = (objective(ends[0]) - objective(ends[1])) / 2e-6
        found = 0.0 if gradient is None else np.sum(gradient.numpy() * direction)
        np.testing.assert_allclose(found, slope, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize(
    "kernel",
    [*(mc.ProbabilityProduct(rho=rho) for rho in (0.5, 1.0, 2.0)), mc.MeanMap(gamma=0.3)],
    ids=["0.5", "1", "2", "mean map"],
)
@pytest.mark.parametrize("kind", ["symbols", "points"])
def test_gradcheck(kernel, kind, normalize, log, torch):
    """Models of different sizes on both sides, through the whole kernel."""
    kernel = clone(kernel).set_params(length=4, normalize=normalize)
    a, b = (torch.asarray(free(s, 2, w)).requires_grad_() for s, w in ((1, 12 if kind == "symbols" else 10), (2, 21)))

    def build(z, states):
        if kind == "symbols":
            return hmms(z, states, 3)
        initial, transition = (
            softmax(z[:, :states]),
            softmax(z[:, states : states + states**2].reshape(-1, states, states)),
        )
        means = z[:, -2 * states : -states, None]
        return mc.HMMs(initial, transition, mc.Gaussians(means, torch.exp(z[:, -states:])))

    def value(a, b):
        models = build(a, 2), build(b, 3)
        return kernel.log(*models) if log else kernel(*models)

    assert torch.autograd.gradcheck(value, (a, b), atol=1e-7)


@pytest.mark.slow
def test_ten_thousand_steps_in_the_memory_of_a_few(monkeypatch, torch):
    """Of 10,000 tables a few hundred are alive at once; the gradient is that of the growth per step."""
    parts, repeated = [], _sweep._repeated
    monkeypatch.setattr(_sweep, "_repeated", lambda run: repeated(lambda *a: parts.append(len(a[-1])) or run(*a)))
    z = torch.asarray(free(3, 1, 12)).requires_grad_()
    kernel = mc.ProbabilityProduct(rho=1.0, normalize=False, length=10_000)
    (slope,) = torch.autograd.grad(kernel.log(hmms(z)).sum(), z)
    assert max(parts) == 100
    assert len(parts) <= 400  # there and back, of a tile and of its diagonal
    direction = np.random.default_rng(0).normal(size=z.shape)
    ends = [kernel.log(hmms(z.detach().numpy() + s * 1e-6 * direction)).sum() for s in (1, -1)]
    assert np.sum(slope.numpy() * direction) == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-6)


def test_equal_chains_of_many_steps():
    """Logarithms of scales add up without rounding, so that a normalized kernel of equal models stays 1."""
    models = hmms(free(3, 2, 12))
    kernel = mc.ProbabilityProduct(rho=0.5, length=100_000)
    K = kernel(mc.HMMs.concat([models, models[:1]]))
    assert K[0, 2] == pytest.approx(1.0, abs=1e-10)


def test_pairs_that_underflow_keep_their_gradient(torch):
    """One pair goes through the log domain and the others through the sweep: no NaN, and slopes that are right."""
    initial = np.array([[1.0, 0.0], [0.5, 0.5]])
    transition = np.array([[[0.0, 1.0], [0.0, 1.0]], [[0.5, 0.5], [0.5, 0.5]]])
    leaf = torch.asarray([[0.0, -1000.0, -1.0, -2.0], [-1000.0, -900.0, -3.0, -1.0]]).double().requires_grad_()
    sides = [torch.asarray(x) for x in (initial[:1], transition[:1], initial, transition)]
    values = coupled_chains(*crossed(sides[:2], sides[2:]), leaf.reshape(1, 2, 2, 2).permute(0, 2, 1, 3), (3,))
    assert values[0, 0, 0].item() == pytest.approx(-1800.0, rel=1e-12)
    (slope,) = torch.autograd.grad(values[0, 0, 1], leaf)
    assert torch.isfinite(slope).all()
    assert slope.sum().item() == pytest.approx(3.0, rel=1e-12)  # three observations, each a leaf


def test_second_derivatives(torch):
    """Torch differentiates the forward sweep where the gradient itself is differentiated."""
    z = torch.asarray(free(3, 1, 12)).requires_grad_()
    kernel = mc.ProbabilityProduct(length=2, normalize=False)
    assert torch.autograd.gradgradcheck(lambda z: kernel.log(hmms(z)), (z,), atol=1e-6)
