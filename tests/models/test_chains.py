"""The coupled chain against enumeration, against itself in other forms, and where numbers run out."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mercer as mc
from mercer._native.chains import small_chains
from mercer.models._chains import coupled as _chain
from mercer.models._chains import sweep as _sweep
from mercer.models._chains.sweep import crossed


def log(x):
    """Return logarithms of leaf kernels of any library."""
    xp = _chain.namespace(x)
    return xp.where(x > 0, xp.log(xp.where(x > 0, x, xp.ones_like(x))), -xp.inf)


def coupled_chains(initial_a, transition_a, initial_b, transition_b, psi, log_scale, lengths):
    sides = crossed((initial_a, transition_a), (initial_b, transition_b))
    table = log(_chain.states_last(_chain.namespace(psi).reshape(psi, (*initial_a.shape, *initial_b.shape))))
    return _chain.coupled_chains(*sides, table + log_scale[:, :, None, None], lengths)


def coupled_chains_log(initial_a, transition_a, initial_b, transition_b, log_psi, lengths):
    """Return the truth: every pair by the recursion in the log domain."""
    (i, n), (j, m) = initial_a.shape, initial_b.shape
    rows, columns = np.divmod(np.arange(i * j), max(j, 1))
    pairs = log_psi.reshape(i, n, j, m)[rows, :, columns, :]
    left, right = (initial_a[rows], transition_a[rows]), (initial_b[columns], transition_b[columns])
    return _sweep.log_sweep(left, right, pairs, lengths).reshape(len(lengths), i, j)


def coupled_features(*arrays_and_lengths):
    return _chain.coupled_features(arrays_and_lengths[:3], arrays_and_lengths[3:6], arrays_and_lengths[6])


def coupled_pairs(initial, transition, psi, log_scale, lengths, *other):
    left = initial, transition
    return _chain.coupled_chains(left, other or left, log(psi) + log_scale[:, None, None], lengths)


def models(rng, count, n, k=3, zeros=0.0):
    """Draw initial, transition and emission probabilities, some of them zero."""

    def draw(*shape):
        x = rng.gamma(1.0, size=shape) * (rng.random(shape) >= zeros)
        x[..., 0] += 1e-3 * (x.sum(axis=-1) == 0)
        return x / x.sum(axis=-1, keepdims=True)

    return draw(count, n), draw(count, n, n), draw(count, n, k)


def table(weights_a, weights_b):
    k = weights_a.shape[2]
    return weights_a.reshape(-1, k) @ weights_b.reshape(-1, k).T


def arguments(a, b, rho=1.0):
    a, b = [x**rho for x in a], [x**rho for x in b]
    scale = np.zeros((a[0].shape[0], b[0].shape[0]))
    return a[0], a[1], b[0], b[1], table(a[2], b[2]), scale


def logs(initial_a, transition_a, initial_b, transition_b, psi, log_scale, lengths):
    with np.errstate(divide="ignore"):
        parts = [np.log(x) for x in (initial_a, transition_a, initial_b, transition_b, psi)]
    return coupled_chains_log(*parts, lengths) + np.reshape(lengths, (-1, 1, 1)) * log_scale


def path_weight(model, path, string, rho):
    initial, transition, emission = model
    weight = initial[path[0]] * emission[path[0], string[0]]
    for t in range(1, len(path)):
        weight *= transition[path[t - 1], path[t]] * emission[path[t], string[t]]
    return weight**rho


def enumerated(p, q, length, rho):
    """Sum over all strings and all hidden paths, as PPK-4.2 defines the kernel."""
    symbols = range(p[2].shape[1])
    total = 0.0
    for string in itertools.product(symbols, repeat=length):
        sides = [
            sum(
                path_weight(model, path, string, rho) for path in itertools.product(range(model[0].size), repeat=length)
            )
            for model in (p, q)
        ]
        total += sides[0] * sides[1]
    return math.log(total)


def one(model, index):
    return tuple(x[index] for x in model)


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture(params=["products", "lanes"])
def scheme(request, monkeypatch):
    """Run a test once with matrix products and once with vector lanes."""
    monkeypatch.setattr(_chain, "_LANE_STATES", 40 if request.param == "lanes" else 0)
    return request.param


@pytest.mark.parametrize("rho", [0.3, 0.5, 1.0, 2.0])
def test_enumeration(rng, rho, scheme):
    a, b = models(rng, 2, 2), models(rng, 3, 3)
    lengths = (1, 2, 3, 4)
    result = coupled_chains(*arguments(a, b, rho), lengths)
    truth = [[[enumerated(one(a, i), one(b, j), t, rho) for j in range(3)] for i in range(2)] for t in lengths]
    np.testing.assert_allclose(result, truth, rtol=0, atol=1e-12)
    powers = [x**rho for x in a], [x**rho for x in b]
    np.testing.assert_allclose(coupled_features(*powers[0], *powers[1], lengths), truth, rtol=0, atol=1e-12)
    np.testing.assert_allclose(logs(*arguments(a, b, rho), lengths), truth, rtol=0, atol=1e-12)


def test_unreachable_states_change_nothing(rng, scheme):
    a, b = models(rng, 3, 2), models(rng, 9, 3)
    initial, transition, emission = np.zeros((3, 5)), np.zeros((3, 5, 5)), np.zeros((3, 5, 3))
    initial[:, :2], transition[:, :2, :2], emission[:, :2] = a
    transition[:, 2:] = 0.2
    emission[:, 2:] = 1 / 3
    expected = coupled_chains(*arguments(a, b), (1, 12))
    padded = coupled_chains(*arguments((initial, transition, emission), b), (1, 12))
    np.testing.assert_allclose(padded, expected, rtol=1e-13)


def test_path_equals_single_lengths(rng, scheme):
    a, b = models(rng, 3, 3), models(rng, 9, 5)
    path = coupled_chains(*arguments(a, b, 0.5), tuple(range(1, 31)))
    for length in (1, 2, 8, 9, 17, 30):
        single = coupled_chains(*arguments(a, b, 0.5), (length,))[0]
        np.testing.assert_allclose(path[length - 1], single, rtol=1e-12)


def test_scale_counts_once_a_step(rng, scheme):
    a, b = models(rng, 3, 3), models(rng, 2, 2)
    *rest, psi, scale = arguments(a, b)
    expected = coupled_chains(*rest, psi, scale, (3, 11))
    moved = rng.normal(size=scale.shape)
    factor = np.repeat(np.repeat(np.exp(-moved), 3, axis=0), 2, axis=1)
    np.testing.assert_allclose(coupled_chains(*rest, psi * factor, moved, (3, 11)), expected, rtol=1e-12)


def test_aligned_pairs(rng):
    a, b = models(rng, 4, 3), models(rng, 4, 2)
    full = coupled_chains(*arguments(a, b, 0.5), (1, 5, 40))
    powers = [[x**0.5 for x in model] for model in (a, b)]
    psi = np.einsum("iak,ibk->iab", powers[0][2], powers[1][2])
    pairs = coupled_pairs(*powers[0][:2], psi, np.zeros(4), (1, 5, 40), *powers[1][:2])
    np.testing.assert_allclose(pairs, np.diagonal(full, axis1=1, axis2=2), rtol=1e-12)
    own = np.einsum("iak,ibk->iab", powers[0][2], powers[0][2])
    expected = np.diagonal(coupled_chains(*arguments(a, a, 0.5), (5,)), axis1=1, axis2=2)
    np.testing.assert_allclose(coupled_pairs(*powers[0][:2], own, np.zeros(4), (5,)), expected, rtol=1e-12)


# ------------------------------------------------------------------ where numbers run out


def tiny_transition(count=1, epsilon=1e-300):
    """Two states; the first emits what nobody else does, the way to the second is nearly closed."""
    initial = np.tile([1.0, 0.0], (count, 1))
    transition = np.tile([[1.0, epsilon], [0.0, 1.0]], (count, 1, 1))
    return initial, transition


def test_two_tiny_transitions_within_a_step(scheme):
    """Two probabilities of 1e-300 multiply to zero in a step; the logarithm is 600 log 0.1."""
    initial, _ = tiny_transition()
    transition = np.array([[[0.0, 1e-300], [0.0, 1.0]]])
    psi = np.eye(2)
    result = coupled_chains(initial, transition, initial, transition, psi, np.zeros((1, 1)), (1, 2, 20))
    np.testing.assert_allclose(result[:, 0, 0], [0, 2 * math.log(1e-300), 2 * math.log(1e-300)], rtol=1e-12)
    pair = coupled_pairs(initial, transition, psi[None], np.zeros(1), (2,))
    assert pair[0, 0] == pytest.approx(-1381.5510557964274, rel=1e-12)


@pytest.mark.parametrize("epsilon", [1e-300, 1e-120, 1e-8])
def test_a_lost_path_that_overtakes(scheme, epsilon):
    """The open path fades by 1e-3 a step; the nearly closed one does not, and wins in the end."""
    initial, transition = tiny_transition(3, epsilon)
    psi = np.tile([[1e-3, 0.0], [0.0, 1.0]], (3, 3))
    args = initial, transition, initial, transition, psi, np.zeros((3, 3))
    lengths = (1, 100, 1000)
    result = coupled_chains(*args, lengths)
    np.testing.assert_allclose(result, logs(*args, lengths), rtol=1e-11)
    pairs = coupled_pairs(initial, transition, psi[:2, :2][None].repeat(3, axis=0), np.zeros(3), lengths)
    np.testing.assert_allclose(pairs, result[:, 0], rtol=1e-11)
    assert result[2, 0, 0] > 2 * math.log(epsilon) - 10


def test_only_the_offending_pairs_are_redone(rng, monkeypatch, scheme):
    a = models(rng, 6, 2)
    a[0][2], a[1][2] = [1.0, 0.0], [[0.0, 1e-300], [0.0, 1.0]]
    redone, ranged = [], _chain.ranged_pairs
    monkeypatch.setattr(_chain, "ranged_pairs", lambda *args: redone.append(len(args[2])) or ranged(*args))
    result = coupled_chains(*arguments(a, a), (5,))
    np.testing.assert_allclose(result, logs(*arguments(a, a), (5,)), rtol=1e-12)
    assert sum(redone) <= 11


def test_small_leaves(scheme):
    """Leaf values of 1e-40 that all reachable states share: twenty steps are far below the floating range."""
    initial, transition = tiny_transition(3, 0.0)
    psi = np.tile([[1e-40, 0.0], [0.0, 1.0]], (3, 3))
    result = coupled_chains(initial, transition, initial, transition, psi, np.zeros((3, 3)), (1, 20))
    np.testing.assert_allclose(result[1], np.full((3, 3), 20 * math.log(1e-40)), rtol=1e-12)


@pytest.mark.parametrize("zeros", [0.0, 0.5, 0.8])
@pytest.mark.parametrize("n", [2, 4, 6])
def test_leaves_far_apart(rng, scheme, n, zeros):
    """Variances of 1e-3 and a known first state: leaf kernels of one pair of models span thousands of nats."""
    count, lengths = 20, (1, 2, 10, 60)
    initial = np.eye(n)[rng.integers(n, size=count)]
    transition = rng.gamma(0.5, size=(count, n, n)) * (rng.random((count, n, n)) >= zeros) + 1e-9 * np.eye(n)
    transition /= transition.sum(axis=-1, keepdims=True)
    mean = rng.normal(size=(count, n, 1)) + np.arange(n)[:, None]
    emission = mc.Gaussians(mean, 1e-3 * rng.gamma(2.0, size=(count, n, 1)))
    leaf = emission.couple(mc.families.PowerProduct(1.0)).reshape(count * n)
    with np.errstate(divide="ignore"):
        side = np.log(initial), np.log(transition)
    truth = coupled_chains_log(*side, *side, leaf.pair(leaf), lengths)
    kernel = mc.ProbabilityProduct(rho=1.0, normalize=False)
    found = kernel.path(mc.HMMs(initial, transition, emission), lengths=lengths, log=True)
    np.testing.assert_allclose(found, truth, rtol=1e-12, atol=1e-11)


@pytest.fixture
def no_rescue(monkeypatch):
    """Fail where a pair is redone that should not need it."""

    def careful(*_):
        raise AssertionError("an ordinary pair was redone")

    monkeypatch.setattr(_chain, "_again", careful)


def test_rows_that_sum_to_n(scheme, no_rescue):
    """rho near zero: all weights one, so that sums grow by n m in every step."""
    n = 30
    ones = np.ones((2, n)), np.ones((2, n, n))
    result = coupled_chains(*ones, *ones, np.ones((2 * n, 2 * n)), np.zeros((2, 2)), (1, 400))
    np.testing.assert_allclose(result[1], np.full((2, 2), 400 * math.log(n * n)), rtol=1e-12)


def test_zero_is_minus_infinity(scheme):
    initial, transition = np.full((2, 2), 0.5), np.full((2, 2, 2), 0.5)
    emission = np.array([[[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [0.5, 0.5]]])
    a = (initial, transition, emission)
    result = coupled_chains(*arguments(a, a), (1, 2, 100))
    assert np.isfinite(result[:, [0, 1], [0, 1]]).all()
    left_right = np.array([[[0.0, 1.0], [0.0, 0.0]]] * 2)  # dies after two steps
    result = coupled_chains(*arguments((initial, left_right, emission), a), (1, 2, 3, 50))
    assert np.isfinite(result[:2]).any()
    assert (result[2:] == -np.inf).all()
    disjoint = np.eye(2)[:, None, :].repeat(2, axis=1)
    result = coupled_chains(*arguments((initial, transition, disjoint), a), (1, 9))
    assert result[0, 1, 0] == result[1, 1, 0] == -np.inf
    assert not np.isnan(result).any()


@pytest.mark.slow
def test_log_domain_over_many_steps(rng):
    a = models(rng, 1, 2)
    args = arguments(a, a)
    np.testing.assert_allclose(logs(*args, (20_000,)), coupled_chains(*args, (20_000,)), rtol=1e-9)


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_single_precision_does_not_collapse(rng, library, no_rescue, request):
    a, b = models(rng, 3, 4), models(rng, 3, 4)
    expected = coupled_chains(*arguments(a, b), (2000,))
    xp = np if library == "numpy" else request.getfixturevalue("torch")
    single = [xp.asarray(x.astype(np.float32)) for x in arguments(a, b)]
    result = coupled_chains(*single, (2000,))
    assert result.dtype == xp.float32
    np.testing.assert_allclose(np.asarray(result), expected, rtol=1e-5)


# ------------------------------------------------------------------ other libraries, other forms


def test_same_numbers_on_other_libraries(rng, library):
    a, b = models(rng, 3, 4, zeros=0.3), models(rng, 2, 3, zeros=0.3)
    a[1][0] = [[0.0, 1e-300, 0.0, 0.0]] + [[0.0, 0.0, 0.0, 1.0]] * 3
    a[0][0], b[1][0] = [1.0, 0.0, 0.0, 0.0], [[1e-300, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    args = arguments(a, b)
    expected = coupled_chains(*args, (1, 3, 20))
    result = coupled_chains(*map(library.asarray, args), (1, 3, 20))
    np.testing.assert_allclose(np.asarray(result), expected, rtol=1e-12)
    np.testing.assert_allclose(expected, logs(*args, (1, 3, 20)), rtol=1e-12)
    inner = coupled_features(*map(library.asarray, a), *map(library.asarray, b), (1, 3, 20))
    np.testing.assert_allclose(np.asarray(inner), expected, rtol=1e-12)
    psi = np.einsum("iak,ibk->iab", a[2], a[2])
    pairs = [coupled_pairs(*[lib.asarray(x) for x in (*a[:2], psi, np.zeros(3))], (1, 20)) for lib in (np, library)]
    np.testing.assert_allclose(np.asarray(pairs[1]), pairs[0], rtol=1e-12)


def test_gradients(rng, torch):
    a, b = models(rng, 2, 2), models(rng, 2, 3)
    args = [torch.tensor(x, requires_grad=True) for x in arguments(a, b)]
    assert torch.autograd.gradcheck(lambda *x: coupled_chains(*x, (1, 3, 20)), args)
    psi = torch.tensor(rng.random((2, 2, 3)), requires_grad=True)
    pairs = [args[0], args[1], psi, torch.zeros(2, dtype=torch.float64, requires_grad=True)]
    assert torch.autograd.gradcheck(lambda *x: coupled_pairs(*x[:4], (1, 3, 12), *x[4:]), [*pairs, args[2], args[3]])


def test_gradients_stay_finite_where_a_kernel_is_zero(rng, torch):
    a = models(rng, 2, 2)
    a[2][0], a[2][1] = [[1.0, 0.0, 0.0]] * 2, [[0.0, 0.5, 0.5]] * 2
    args = [torch.tensor(x, requires_grad=True) for x in arguments(a, a)]
    values = coupled_chains(*args, (4,))
    assert values[0, 0, 1] == -math.inf
    torch.where(torch.isfinite(values), values, 0.0).sum().backward()
    assert all(torch.isfinite(x.grad).all() for x in args)


def test_gradients_of_rescued_pairs(torch):
    initial = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    transition = torch.tensor([[[0.0, 1e-200], [0.0, 1.0]]], dtype=torch.float64, requires_grad=True)
    psi, scale = torch.eye(2, dtype=torch.float64), torch.zeros((1, 1), dtype=torch.float64)
    coupled_chains(initial, transition, initial, transition, psi, scale, (3,)).sum().backward()
    assert transition.grad[0, 0, 1].item() == pytest.approx(2e200, rel=1e-12)
    assert transition.grad[0, 1, 1].item() == pytest.approx(2.0, rel=1e-12)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 5),
    m=st.integers(1, 5),
    sizes=st.tuples(st.integers(1, 3), st.integers(1, 18)),
    rho=st.sampled_from([0.3, 0.5, 1.0, 2.0]),
    zeros=st.sampled_from([0.0, 0.3, 0.7]),
    length=st.integers(1, 40),
    seed=st.integers(0, 2**32 - 1),
)
def test_three_forms_agree(n, m, sizes, rho, zeros, length, seed):
    rng = np.random.default_rng(seed)
    a, b = models(rng, sizes[0], n, zeros=zeros), models(rng, sizes[1], m, zeros=zeros)
    args = arguments(a, b, rho)
    lengths = (1, length + 1) if length % 2 else (length,)
    truth = logs(*args, lengths)
    sides = crossed(args[:2], args[2:4])
    pairs = args[4].reshape(sizes[0], n, sizes[1], m).transpose(0, 2, 1, 3)
    products = _sweep.sweep(*sides, pairs, lengths)
    powers = [x**rho for x in a], [x**rho for x in b]
    lanes = small_chains(args[:2], args[2:4], lengths, args[4])
    categorical = small_chains(powers[0], powers[1], lengths)
    for raw in (products, lanes, categorical):
        result = _chain.repaired(raw, *sides, lambda: log(pairs), lengths)
        np.testing.assert_allclose(result, truth, rtol=1e-11, atol=1e-11)


def test_lanes_reach_their_largest_size(rng):
    n = _chain._LANE_STATES
    a, b = models(rng, 2, n), models(rng, 9, n)
    args = arguments(a, b)
    np.testing.assert_allclose(small_chains(args[:2], args[2:4], (1, 12), args[4]), logs(*args, (1, 12)), rtol=1e-12)


@pytest.mark.parametrize(("n", "m"), [(1, 1), (2, 2), (3, 3), (4, 4), (1, 5), (3, 5), (4, 9), (5, 5), (7, 5), (13, 30)])
def test_blocks_with_rests_in_both_directions(rng, n, m):
    a, b = models(rng, 3, n), models(rng, 9, m)
    args = arguments(a, b, 0.5)
    np.testing.assert_allclose(small_chains(args[:2], args[2:4], (1, 12), args[4]), logs(*args, (1, 12)), rtol=1e-12)
    powers = [x**0.5 for x in a], [x**0.5 for x in b]
    np.testing.assert_allclose(small_chains(powers[0], powers[1], (12,)), logs(*args, (12,)), rtol=1e-12)


def test_powers_beyond_the_range_take_no_loop_in_python(rng, monkeypatch):
    """Probabilities of 1e-300 have squares of 1e-600, which only logarithms and numbers of wider range hold."""
    tiny, rest = 1e-300, rng.dirichlet([1.0, 1.0], (3, 2))
    transition = np.where(np.eye(2) > 0, rest, tiny)
    emission = mc.Categoricals(np.array([[[tiny, 1.0], [0.3, 0.7]]] * 3), "ab")
    models = mc.HMMs(np.array([[tiny, 1.0]] * 3), transition / transition.sum(axis=-1, keepdims=True), emission)
    lengths = (1, 2, 60)
    kernel = mc.ProbabilityProduct(rho=2.0, normalize=False)
    truth = []
    logs = [2.0 * np.log(x) for x in (models.initial, models.transition, emission.probability)]
    leaf = np.logaddexp.reduce(logs[2][:, None, :, None, :] + logs[2][None, :, None, :, :], axis=-1)
    for i, j in itertools.product(range(3), repeat=2):
        side = [(logs[0][k][None], logs[1][k][None]) for k in (i, j)]
        truth.append(_sweep.log_sweep(*side, leaf[i, j][None], lengths)[:, 0])
    monkeypatch.setattr(_chain, "log_sweep", None)
    found = [kernel.set_params(length=length).log(models) for length in lengths]
    np.testing.assert_allclose(found, np.array(truth).T.reshape(3, 3, 3), rtol=1e-12)


def test_inputs_are_not_written(rng, scheme):
    args = arguments(models(rng, 3, 3), models(rng, 3, 3))
    for x in args:
        x.setflags(write=False)
    before = [x.copy() for x in args]
    coupled_chains(*args, (9,))
    for x, y in zip(args, before, strict=True):
        np.testing.assert_array_equal(x, y)


def test_empty_sides(rng):
    a, none = models(rng, 2, 2), [x[:0] for x in models(rng, 1, 3)]
    assert coupled_chains(*arguments(a, none), (1, 2)).shape == (2, 2, 0)
    assert coupled_chains(*arguments(none, a), (1,)).shape == (1, 0, 2)


def test_tiles():
    assert [_chain.chain_tile(n) for n in (2, 8, 16, 30, 99)] == [256, 128, 64, 32, 8]
