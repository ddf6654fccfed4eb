"""Embedded HMMs against known filters, the tabular algorithm, and one another."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import mercer as mc
from mercer.embedding._comparison import OneHot
from mercer.embedding._solve import Block, Moments, Third, solved

INITIAL = np.array([0.5, 0.5])
TRANSITION = np.array([[0.75, 0.25], [0.25, 0.75]])
EMISSION = np.array([[0.5, 0.25, 0.25], [0.25, 0.0, 0.75]])


def exact_predictions(codes, initial=INITIAL, transition=TRANSITION, emission=EMISSION):
    """Return P(x_{t+1} | x_1 .. x_t) of a hidden Markov model of symbols after every step, (T, k)."""
    state, out = initial, []
    for x in codes:
        state = state * emission[:, x]
        state = state / state.sum() @ transition
        out.append(state @ emission)
    return np.array(out)


def draw_codes(length, rng, initial=INITIAL, transition=TRANSITION, emission=EMISSION, size=None):
    """Draw one string of codes, (length,), or several, (size, length)."""
    state, out = rng.choice(len(initial), p=initial, size=size or 1), []
    for _ in range(length):
        out.append((rng.random((len(state), 1)) > np.cumsum(emission, axis=1)[state]).sum(axis=1))
        state = (rng.random((len(state), 1)) > np.cumsum(transition, axis=1)[state]).sum(axis=1)
    found = np.minimum(np.array(out).T, emission.shape[1] - 1)
    return found if size else found[0]


@pytest.fixture(scope="module")
def population():
    """All strings of three symbols, each as often as its probability: 2,048 strings of the model above."""
    strings = []
    for word in product(range(3), repeat=3):
        state = INITIAL
        for x in word:
            state = (state * EMISSION[:, x]) @ TRANSITION
        count = 2048 * state.sum()
        assert abs(count - round(count)) < 1e-9
        strings += ["".join("abc"[x] for x in word)] * round(count)
    return strings


WORD = "abcacbbaccab".replace("bb", "ba")


def codes_of(word):
    return np.array(["abc".index(x) for x in word])


def tabular(first, second, third, n, alpha, k=3):
    """The algorithm of Hsu, Kakade and Zhang on tables of counts; returns predictions of a function of codes."""
    m = len(first)
    p1, p21 = np.bincount(second, minlength=k) / m, np.zeros((k, k))
    p31 = np.zeros((k, k, k))
    for a, b, c in zip(first, second, third, strict=True):
        p21[b, a] += 1 / m
        p31[b, c, a] += 1 / m
    u = np.linalg.svd(p21)[0][:, :n]
    inverse = np.linalg.pinv(u.T @ p21)
    operators = [u.T @ p31[x] @ inverse / (np.mean(second == x) + alpha) for x in range(k)]
    normalizer = p21.sum(axis=0) @ inverse

    def predict(codes):
        start, out = u.T @ p1, []
        b = start = start / (normalizer @ start)
        for x in codes:
            if normalizer @ operators[x] @ b <= 1e-12:  # the rules of the filter: a restart, and a pull into the ball
                b = start
            b = operators[x] @ b
            b = b / (normalizer @ b)
            low, high = 0.0, 1.0
            for _ in range(60):
                middle = (low + high) / 2
                inside = np.linalg.norm(start + middle * (b - start)) <= 1
                low, high = (middle, high) if inside else (low, middle)
            b = start + low * (b - start) if np.linalg.norm(b) > 1 else b
            out.append(p21 @ inverse @ b)
        return np.array(out)

    return predict


@pytest.mark.parametrize("solver", ["svd", "reduced_rank"])
def test_the_population_has_the_exact_filter(population, solver):
    model = mc.EmbeddedHMM(n_components=2, alpha=1e-12, solver=solver).fit(population)
    assert model.n_triples_ == 2048
    found = model.predict_proba([WORD])[0]
    np.testing.assert_allclose(found, exact_predictions(codes_of(WORD)), atol=1e-8)
    ratios = model.filter([WORD]).log_ratios
    marginal = np.array([0.5, 0.5]) @ EMISSION
    before = np.vstack([marginal, exact_predictions(codes_of(WORD))[:-1]])
    expected = np.log(before[np.arange(len(WORD)), codes_of(WORD)] / marginal[codes_of(WORD)])
    np.testing.assert_allclose(ratios, expected, atol=1e-8)


def test_log_prob_is_that_of_the_model(population):
    model = mc.EmbeddedHMM(n_components=2, alpha=1e-12).fit(population)
    marginal = np.array([0.5, 0.5]) @ EMISSION
    before = np.vstack([marginal, exact_predictions(codes_of(WORD))[:-1]])
    mixed = 0.99 * before + 0.01 * marginal
    np.testing.assert_allclose(model.log_prob([WORD]), np.log(mixed[np.arange(len(WORD)), codes_of(WORD)]).sum())
    assert model.score([WORD]) == pytest.approx(model.log_prob([WORD])[0] / len(WORD))


def test_missing_symbols_are_summed_out(population):
    model = mc.EmbeddedHMM(n_components=2, alpha=1e-12).fit(population)
    state = np.array([0.5, 0.5]) * EMISSION[:, 0]
    state = state / state.sum() @ TRANSITION @ TRANSITION @ TRANSITION
    codes = np.array([0, 3, 3])  # 3 is the code of a missing symbol
    gap = mc.Sequences.from_codes([codes], model._learned.alphabet)
    np.testing.assert_allclose(model.predict_proba(gap)[0][-1], state @ EMISSION, atol=1e-8)


def test_forecasts_are_those_of_the_model():
    rng = np.random.default_rng(0)
    model = mc.EmbeddedHMM(n_components=2).fit(draw_codes(8, rng, size=4000))
    state = np.array([0.5, 0.5]) * EMISSION[:, 1]
    state = state / state.sum()
    expected = [state @ np.linalg.matrix_power(TRANSITION, i) @ EMISSION for i in range(1, 5)]
    np.testing.assert_allclose(model.forecast([np.array([1])], steps=4)[0], expected, atol=0.03)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_delta_kernel_is_the_tabular_algorithm(n):
    codes = draw_codes(150, np.random.default_rng(1))
    model = mc.EmbeddedHMM(n_components=n, alpha=1e-3).fit([codes])
    # Three components of two states: the third is noise, whose probabilities are negative now and then.
    assert model.filter([codes[:20]]).restarted.any() == (n == 3)
    predict = tabular(codes[:-2], codes[1:-1], codes[2:], n, 1e-3)
    expected = np.maximum(predict(codes[:20]), 0)
    np.testing.assert_allclose(
        model.predict_proba([codes[:20]])[0], expected / expected.sum(1, keepdims=True), atol=1e-8
    )


@pytest.mark.parametrize("solver", ["svd", "reduced_rank"])
def test_sums_of_products_of_features_equal_features(solver):
    codes = draw_codes(120, np.random.default_rng(2))
    z, at = OneHot(3)(codes), np.arange(118)
    block = Block(z, at, at + 1, at + 2, at[:1], z[1:-1], z[1:-1])
    a = solved(Moments(block), block, "stationary", 2, 1e-3, solver)
    b = solved(Moments(block), Third.of(block, z, z), "stationary", 2, 1e-3, solver)
    for name in ("gain", "unseen", "density", "mean", "start", "right", "metric"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), atol=1e-12)
    assert (z[:-2] @ a.right @ a.start).sum() == pytest.approx(1.0)


def by_matrices(x, y, gamma, n, window, alpha, solver):
    """Return the weights of all training triples after every step of y, from kernel matrices (HSE-3, HSE-7)."""

    def rbf(a, b):
        return np.exp(-gamma * ((a[:, None] - b[None]) ** 2).sum(axis=2))

    times = np.arange(window, len(x) - window)
    rows = np.array([x[t : t + window].ravel() for t in range(len(x) - window + 1)]) / np.sqrt(window)
    past, future, shifted = rows[times - window], rows[times], rows[times + 1]
    m, middle, L = len(times), rbf(past, past), rbf(future, future)
    if solver == "reduced_rank":
        middle = middle @ np.linalg.inv(middle + alpha * m * np.eye(m))
    values, vectors = np.linalg.eigh(L)
    keep = values > 1e-10 * values[-1]
    roots, vectors = np.sqrt(values[keep]), vectors[:, keep]
    z = np.linalg.eigh((vectors * roots).T @ middle @ (vectors * roots))[1][:, ::-1]
    directions = (vectors / roots) @ z[:, :n]  # orthonormal in the feature space
    reach = rbf(past, past) @ L @ directions
    reads = np.linalg.solve((L @ directions).T @ reach, reach.T).T
    writes, belief, out = rbf(shifted, future) @ directions, directions.T @ L.mean(axis=0), []
    ridge = np.linalg.inv(rbf(x[times], x[times]) + alpha * m * np.eye(m))
    for one in y:
        belief = (ridge @ rbf(x[times], one[None])[:, 0] * (reads @ belief)) @ writes
        belief = belief / reads.sum(axis=0).dot(belief)
        out.append(reads @ belief)
    return np.array(out), x[times]


def series(n, seed, d=2):
    rng = np.random.default_rng(seed)
    angle = np.cumsum(0.3 + 0.05 * rng.normal(size=n))
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)[:, :d] + 0.1 * rng.normal(size=(n, d))


@pytest.mark.parametrize("window", [1, 3])
@pytest.mark.parametrize("solver", ["svd", "reduced_rank"])
def test_all_windows_as_landmarks_are_the_kernel_matrices(window, solver):
    x, y = series(50, 3), series(40, 4)
    exact = mc.EmbeddedHMM(mc.RBF(gamma=2.0), n_components=4, window=window, alpha=1e-2, solver=solver).fit([x])
    found = exact.filter([y])
    assert not (found.shrunk | found.restarted).any()
    weights, now = by_matrices(x, y, 2.0, 4, window, 1e-2, solver)
    np.testing.assert_allclose(found.values @ exact._learned.reading().T, weights, atol=1e-7)
    np.testing.assert_allclose(exact.predict([y])[0], weights @ now, atol=1e-6)


@pytest.mark.parametrize("landmarks", [None, 30])
def test_scaling_the_kernel_with_alpha_changes_nothing(landmarks):
    x, y = series(100, 5), series(30, 6)
    found = []
    for factor in (1.0, 16.0):
        kernel = factor * (mc.RBF(gamma=1.0) + 0.0 * mc.RBF(gamma=1.0)) if factor > 1 else mc.RBF(gamma=1.0)
        model = mc.EmbeddedHMM(kernel, n_components=3, alpha=1e-3 * factor, landmarks=landmarks).fit([x])
        found.append(model.predict([y])[0])
    np.testing.assert_allclose(found[0], found[1], atol=1e-7)


def test_independent_data_have_the_marginal_as_prediction():
    rng = np.random.default_rng(7)
    codes = rng.choice(3, size=3000, p=[0.5, 0.3, 0.2])
    model = mc.EmbeddedHMM(n_components=1).fit([codes])
    expected = np.bincount(codes[1:-1]) / 2998
    np.testing.assert_allclose(model.predict_proba([codes[:5]])[0], np.tile(expected, (5, 1)), atol=0.02)
    x = rng.normal(size=(400, 1))
    vectors = mc.EmbeddedHMM(mc.RBF(0.5), n_components=1, landmarks=40).fit([x])
    np.testing.assert_allclose(vectors.predict([x[:20]])[0], x.mean(), atol=0.1)


def test_weights_sum_to_one():
    x = series(100, 8)
    for window in (1, 2):
        model = mc.EmbeddedHMM(n_components=4, window=window).fit([x])
        reads = model._learned.reading()
        np.testing.assert_allclose((model.filter([x[:30]]).values @ reads.T).sum(axis=1), 1.0, atol=1e-9)


def test_windows_identify_states_that_one_symbol_does_not():
    """Three states that emit two symbols: one observation does not identify the state."""
    rng = np.random.default_rng(9)
    transition = np.array([[0.05, 0.9, 0.05], [0.05, 0.05, 0.9], [0.9, 0.05, 0.05]])
    emission = np.array([[0.95, 0.05], [0.95, 0.05], [0.05, 0.95]])
    initial = np.full(3, 1 / 3)
    train, test = (draw_codes(n, rng, initial, transition, emission) for n in (4000, 200))
    truth = exact_predictions(test, initial, transition, emission)
    errors = []
    for window in (1, 2):
        model = mc.EmbeddedHMM(n_components=2 + (window > 1), window=window).fit([train])
        errors.append(np.abs(model.predict_proba([test])[0] - truth).mean())
    assert errors[1] < 0.03 < 0.1 < errors[0]


def gaussian_hmm(n, seed):
    """Draw a series of three states, and return it with the exact predictive mean after each step."""
    rng = np.random.default_rng(seed)
    transition = np.array([[0.8, 0.15, 0.05], [0.05, 0.8, 0.15], [0.15, 0.05, 0.8]])
    means, state, x, out = np.array([-2.0, 0.0, 2.0]), 0, [], []
    belief = np.full(3, 1 / 3)
    for _ in range(n):
        x.append(means[state] + 0.5 * rng.normal())
        belief = belief * np.exp(-2 * (x[-1] - means) ** 2)
        belief = belief / belief.sum() @ transition
        out.append(belief @ means)
        state = rng.choice(3, p=transition[state])
    return np.array(x)[:, None], np.array(out)[:, None]


def test_continuous_model_has_the_mean_of_the_exact_filter():
    train, _ = gaussian_hmm(1500, 10)
    x, truth = gaussian_hmm(200, 11)
    model = mc.EmbeddedHMM(n_components=3, landmarks=60, alpha=1e-3).fit([train])
    error = np.abs(model.predict([x])[0] - truth).mean()
    assert error < 0.2 < 1.0 < np.abs(truth - train.mean()).mean()


def test_error_falls_with_the_square_root_of_the_data():
    """The table of HSE: mean L1 error of the predictive distribution over m."""
    rng, errors, sizes = np.random.default_rng(12), [], [10**3, 10**4, 10**5]
    test = draw_codes(200, rng)
    truth = exact_predictions(test)
    for m in sizes:
        strings = [draw_codes(102, rng, size=m // 100) for _ in range(3)]  # 100 triples each
        found = [mc.EmbeddedHMM(n_components=2).fit(some).predict_proba([test])[0] for some in strings]
        errors.append(np.mean([np.abs(one - truth).sum(axis=1).mean() for one in found]))
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert -0.75 < slope < -0.3, errors
    assert errors[-1] < 0.03


def transfer(density, grid):
    """Return the transition matrix of a grid from the density of x' given x."""
    p = np.array([density(grid, x) for x in grid])
    return p / p.sum(axis=1, keepdims=True)


def test_noisy_logistic_map_has_the_transfer_operator():
    """x' = 4x(1 - x) plus small noise, folded into [0, 1]: the predicted mean over a grid is E[x' | x]."""
    rng, x = np.random.default_rng(13), np.zeros(3000)
    x[0] = 0.3
    for t in range(2999):
        y = 4 * x[t] * (1 - x[t]) + 0.05 * rng.normal()
        x[t + 1] = abs(y) if y < 0.5 else 1 - abs(1 - y)
    grid = np.linspace(0, 1, 401)

    def density(y, at):
        center = 4 * at * (1 - at)
        return sum(np.exp(-((z - center) ** 2) / (2 * 0.05**2)) for z in (y, -y, 2 - y))

    truth = transfer(density, grid) @ grid
    points = np.linspace(0.05, 0.95, 19)
    model = mc.EmbeddedHMM(mc.RBF(20.0), n_components=8, landmarks=60, alpha=1e-5).fit([x[:, None]])
    # One observation determines the state, so that the prediction after it alone is the transfer operator.
    found = np.array([model.predict([np.array([[p]])])[0][0, 0] for p in points])
    assert np.abs(found - np.interp(points, grid, truth)).max() < 0.08


def test_prinz_potential_has_the_transfer_operator():
    """Langevin dynamics in the potential of Prinz et al. with four wells."""
    rng, step = np.random.default_rng(14), 1e-3

    def force(x):
        wells = [(0.8, 80.0, 0.0), (0.2, 80.0, 0.5), (0.5, 40.0, -0.5)]
        pull = sum(4 * 2 * a * b * (x - c) * np.exp(-b * (x - c) ** 2) for a, b, c in wells)
        return pull - 4 * 8 * x**7

    paths = rng.uniform(-1, 1, size=100)
    out = []
    for _ in range(50):  # a step of the series is ten steps of the integrator
        out.append(paths.copy())
        for _ in range(10):
            paths = paths + step * force(paths) + np.sqrt(2 * step) * rng.normal(size=100)
    grid = np.linspace(-1.6, 1.6, 321)
    one = transfer(lambda y, at: np.exp(-((y - at - step * force(at)) ** 2) / (4 * step)), grid)
    truth = np.linalg.matrix_power(one, 10) @ grid
    points = np.linspace(-0.9, 0.9, 13)
    series_ = [x[:, None] for x in np.array(out).T]
    model = mc.EmbeddedHMM(mc.RBF(10.0), n_components=10, landmarks=80, alpha=1e-5).fit(series_)
    found = np.array([model.predict([np.array([[p]])])[0][0, 0] for p in points])
    assert np.abs(found - np.interp(points, grid, truth)).max() < 0.15
