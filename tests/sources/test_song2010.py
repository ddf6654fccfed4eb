"""Song, Boots, Siddiqi, Gordon and Smola 2010: embeddings, the observable operators, algorithm 1, and its figures."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.sources.truths import Errors

import mercer as mc

START, MOVES = np.array([0.5, 0.5]), np.array([[0.75, 0.25], [0.25, 0.75]])  # MOVES[b, a] is P(a | b)
EMISSION = np.array([[0.5, 0.25, 0.25], [0.25, 0.0, 0.75]])
WORD = [0, 2, 1, 0, 2, 2, 0]


def delta(a, b):
    return (np.asarray(a)[:, None] == np.asarray(b)).astype(float)


def rbf(gamma):
    return lambda a, b: np.exp(-gamma * np.sum((np.asarray(a)[:, None] - np.asarray(b)[None]) ** 2, axis=-1))


def of_code(codes):
    return mc.Sequences(np.asarray(codes), alphabet=range(3))


def draw(size, length, seed=0):
    """Draw codes of symbols of the model above, ``(size, length)``."""
    rng = np.random.default_rng(seed)
    state, found = rng.integers(0, 2, size), []
    for _ in range(length):
        found.append((rng.random((size, 1)) > np.cumsum(EMISSION, axis=1)[state]).sum(axis=1))
        state = (rng.random(size) > MOVES[state, 0]).astype(int)
    return np.array(found).T


def in_proportion():
    """All strings of three symbols, each as often as its probability: 2,048 strings."""
    strings = np.array(list(itertools.product(range(3), repeat=3)))
    forward = START * EMISSION.T[strings[:, 0]]
    for x in strings.T[1:]:
        forward = forward @ MOVES * EMISSION.T[x]
    return np.repeat(strings, np.rint(2048 * forward.sum(axis=1)).astype(int), axis=0)


def states(word):
    """Return P(x_1 .. x_t, H_{t+1} = .) for every t, by the forward recursion."""
    state, found = START, []
    for x in word:
        state = (state * EMISSION[:, x]) @ MOVES
        found.append(state)
    return np.array(found)


def algorithm_1(K, L, F, first, n, alpha, compared, conditional=None):
    """Algorithm 1 with the corrections E22 and E23, from kernel matrices only.

    ``first`` has the inner products of the futures with the mean that the filter starts from, G 1 / m in the paper, and
    ``compared`` those of the current observations with every step of a sequence; ``conditional`` is their own matrix if
    windows are longer than one. Returns the logarithms of P(x_t | past) / P(x_t), and the weights of the training
    triples before every step and after the last one.
    """
    m = len(K)
    values, vectors = np.linalg.eigh(L)
    kept = values > 1e-10 * values[-1]
    root = vectors[:, kept] * np.sqrt(values[kept])
    omega, Z = np.linalg.eigh(root.T @ K @ root)  # of L K L a = omega L a, where a' L a = 1
    omega, A = omega[-n:], (vectors[:, kept] / np.sqrt(values[kept])) @ Z[:, -n:]
    Q = K @ L @ A / omega
    b, total, ratios = A.T @ first, Q.sum(axis=0), []
    b = b / (total @ b)
    weights = [Q @ b]
    for step in compared.T:
        share = np.linalg.solve((L if conditional is None else conditional) + alpha * m * np.eye(m), step)
        b = m * A.T @ F @ (share * (Q @ b))
        ratios.append(total @ b)
        b = b / ratios[-1]
        weights.append(Q @ b)
    return np.log(ratios), np.array(weights)


def tables(X, word, alpha, n=2):
    """Algorithm 1 with the delta kernel, on tables of frequencies of the symbols of strings.

    Returns C_{2,1}, (U' C_{2,1})^+, the frequencies, and the beliefs before every step of a word and after the last.
    """
    one = np.eye(3)
    past, current, later = X[:, :-2].ravel(), X[:, 1:-1].ravel(), X[:, 2:].ravel()
    second, share = one[current].T @ one[past] / len(past), one[current].mean(axis=0)
    U = np.linalg.svd(second)[0][:, :n]
    inverse = np.linalg.pinv(U.T @ second)
    total, beliefs = one[past].mean(axis=0) @ inverse, [U.T @ share]
    for x in word:
        seen = current == x
        third = one[later[seen]].T @ one[past[seen]] / len(past)
        beliefs.append(U.T @ third @ inverse @ beliefs[-1] / (share[x] + alpha))
    return second, inverse, share, np.array([b / (total @ b) for b in beliefs])


def agrees(model, X, ratios, rtol=1e-9):
    found = model.filter(X)
    assert not np.any(found.restarted | found.shrunk)  # the rules of mercer's filter had no part
    assert_allclose(found.log_ratios, ratios, rtol=rtol, atol=rtol)


# -- embeddings (3.1 to 3.3) ---------------------------------------------------------------------------------------


def test_h1_mean_map_and_its_estimate():
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(7, 2)), rng.normal(1.0, size=(4, 2))
    found = mc.EmpiricalMeanMap(gamma=0.3, normalize=False)([first], [second])
    assert_allclose(found, [[rbf(0.3)(first, second).mean()]], rtol=1e-12)
    strings = ["aab", "abcc"]  # with the delta kernel, the embedding is the vector of probabilities
    share = np.array([[s.count(x) / len(s) for x in "abc"] for s in strings])
    found = mc.EmpiricalMeanMap(gamma=400.0, alphabet="abc", normalize=False)(strings)
    assert_allclose(found, share @ share.T, rtol=1e-12)


def test_h3_conditional_embedding_of_pairs():
    """Equation 15: the weights (K + lambda m)^-1 k_x are those of kernel ridge regression; with delta, P(Y | X)."""
    rng = np.random.default_rng(0)
    x, new, alpha = rng.normal(size=(12, 2)), rng.normal(size=(3, 2)), 1e-2
    expected = np.linalg.solve(rbf(0.5)(x, x) + alpha * 12 * np.eye(12), rbf(0.5)(x, new)).T
    fitted = mc.KernelRidge(mc.RBF(0.5), alpha=alpha * 12, intercept=False).fit(x, np.eye(12))
    assert_allclose(fitted.predict(new), expected, rtol=1e-8, atol=1e-10)
    letters, y = list("aababcbbac"), np.eye(2)[[0, 1, 1, 0, 0, 1, 1, 1, 0, 0]]
    same = mc.EmpiricalMeanMap(gamma=400.0, alphabet="abc", normalize=False)
    table = mc.KernelRidge(same, alpha=alpha, intercept=False).fit(letters, y).predict(list("abc"))
    counts = np.array([y[[k for k, s in enumerate(letters) if s == x]].sum(axis=0) for x in "abc"])
    assert_allclose(table, counts / (counts.sum(axis=1, keepdims=True) + alpha), rtol=1e-9)


# -- observable operators (3.4) ------------------------------------------------------------------------------------


def test_h4_observable_operators():
    """Equations 16 to 29 on tables of a known model: their product is the joint distribution (E22)."""
    emit, move, past = EMISSION.T, MOVES.T, np.diag(START)  # O, T and C_{H,H}
    first, second = emit @ START, emit @ move @ past @ emit.T  # mu_1 and C_{2,1}
    third = [emit @ move @ np.diag(row) @ move @ past @ emit.T for row in emit]  # C_{3,x,1}, A_x = T diag(P(x | .))
    U = np.linalg.svd(second)[0][:, :2]
    inverse = np.linalg.pinv(U.T @ second)
    b, last, operators = U.T @ first, second @ inverse, [U.T @ C @ inverse for C in third]
    products = []
    for x in WORD:
        b = operators[x] @ b
        products.append(last @ b)
    joint = states(WORD) @ EMISSION
    assert_allclose(products, joint, rtol=1e-10)
    model = mc.EmbeddedHMM(n_components=2, alpha=1e-12).fit(of_code(in_proportion()))
    conditional = joint / joint.sum(axis=1, keepdims=True)
    assert_allclose(model.predict_proba(of_code([WORD]))[0], conditional, rtol=1e-7)
    before = np.vstack([first, conditional[:-1]])[range(len(WORD)), WORD]
    agrees(model, of_code([WORD]), np.log(before / first[WORD]), 1e-7)


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_h5_several_steps_ahead(steps):
    """C_{i+1,1} in place of C_{2,1}, of the training strings; with many of them, the distribution of the model."""
    X, alpha = draw(400, 4), 1e-3
    one, (_, inverse, _, beliefs) = np.eye(3), tables(X, WORD[:3], alpha)
    begins = 4 - max(steps, 2)  # of the triples in which the step ahead is known, too
    ahead = one[X[:, steps : steps + begins].ravel()].T @ one[X[:, :begins].ravel()] / (begins * len(X))
    expected = ahead @ inverse @ beliefs[-1]
    found = mc.EmbeddedHMM(n_components=2, alpha=alpha).fit(of_code(X)).predict_proba(of_code([WORD[:3]]), steps=steps)
    assert_allclose(found[0][-1], expected / expected.sum(), rtol=1e-9)
    if steps < 3:
        exact = mc.EmbeddedHMM(n_components=2, alpha=1e-12).fit(of_code(in_proportion()))
        future = states(WORD[:3])[-1] @ np.linalg.matrix_power(MOVES, steps - 1) @ EMISSION
        found = exact.predict_proba(of_code([WORD[:3]]), steps=steps)[0][-1]
        assert_allclose(found, future / future.sum(), rtol=1e-7)


# -- the kernel spectral algorithm (3.5 to 3.8) --------------------------------------------------------------------


def oscillation(size, length, seed=0):
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0, 6, size=(size, 1)) + 0.7 * np.arange(length)
    return np.stack([np.cos(angle), np.sin(angle)], axis=-1) + 0.1 * rng.normal(size=(size, length, 2))


def test_h6_algorithm_1():
    """Independent triples, all of them landmarks; the filter starts from the mean of the first observations."""
    triples, x, alpha, k = oscillation(40, 3), oscillation(1, 6, seed=1)[0], 1e-2, rbf(0.5)
    one, two, three = triples.transpose(1, 0, 2)
    first = k(two, one).mean(axis=1)
    ratios, weights = algorithm_1(k(one, one), k(two, two), k(two, three), first, 3, alpha, k(two, x))
    model = mc.EmbeddedHMM(mc.RBF(0.5), n_components=3, alpha=alpha, start="first").fit(list(triples))
    agrees(model, [x], ratios, 1e-6)
    assert_allclose(model.predict([x])[0], weights[1:] @ two, rtol=1e-5, atol=1e-6)


def test_h8_windows():
    """Windows of two symbols for past and future, and the current symbol for the operators."""
    X, alpha = draw(300, 5), 1e-3
    past, future, shifted = (X[:, i : i + 2] @ [3, 1] for i in (0, 2, 3))  # codes of pairs
    current, L = X[:, 2], delta(future, future)
    matrices = delta(past, past), L, delta(future, shifted), L.mean(axis=1)
    ratios, weights = algorithm_1(*matrices, 2, alpha, delta(current, WORD), delta(current, current))
    model = mc.EmbeddedHMM(n_components=2, window=2, alpha=alpha).fit(of_code(X))
    agrees(model, of_code([WORD]), ratios)
    assert_allclose(model.predict_proba(of_code([WORD]))[0], weights[1:] @ np.eye(3)[current], rtol=1e-8)


@pytest.mark.parametrize("kind", ["gaussian", "delta", "strings"])
def test_h9_kernels_of_observations(kind):
    alpha, objects = 1e-2, ["aab", "abb", "bba", "bab"]
    codes = np.minimum(draw(60, 3), 2)
    if kind == "gaussian":
        given, k, train, test = mc.RBF(0.5), rbf(0.5), oscillation(40, 3), oscillation(1, 5, seed=1)
    elif kind == "delta":
        given, k, train, test = None, delta, codes, np.array([WORD])
    else:
        given = mc.Spectrum(2, alphabet="ab")
        k = lambda a, b: given(list(a), list(b))  # noqa: E731
        train, test = np.array(objects)[codes], np.array([["aab", "bba", "abb", "bab"]])
    one, two, three = train.swapaxes(0, 1)
    matrices = k(one, one), k(two, two), k(two, three), k(two, two).mean(axis=1)
    ratios, weights = algorithm_1(*matrices, 2, alpha, k(two, test[0]))
    model = mc.EmbeddedHMM(given, n_components=2, alpha=alpha)
    if kind == "delta":
        model, test = model.fit(of_code(train)), of_code(test)
    else:
        model, test = model.fit([list(t) for t in train] if kind == "strings" else list(train)), list(test)
    agrees(model, test, ratios, 1e-6)
    if kind == "strings":  # the predicted object has the largest embedded density
        assert model.predict(test)[0] == [str(two[i]) for i in np.argmax(weights[1:] @ k(two, two), axis=1)]


def test_h11_median_rule_and_regularization():
    """Experiments: the variance of the Gaussian kernel is the median of the squared distances, and lambda is 1e-4."""
    x = oscillation(1, 30)[0]
    model = mc.EmbeddedHMM(n_components=2).fit([x])
    squared = np.sum((x[:, None] - x) ** 2, axis=-1)[np.triu_indices(30, 1)]
    assert model.gamma_ == pytest.approx(1 / (2 * np.median(squared)), rel=1e-10)
    assert model.alpha == 1e-4


def test_h12_one_model_per_class():
    """The class under whose model a sequence is most probable; 1 % of the share of a symbol is mixed in."""
    X = [draw(2000, 4, seed) for seed in (0, 1)]
    X[1] = 2 - X[1]  # the second class has the letters in reverse
    new, y = np.vstack([draw(5, 6, 2), 2 - draw(5, 6, 3)]), np.repeat([0, 1], 2000)
    model = mc.LikelihoodRatio(mc.EmbeddedHMM(n_components=2), priors="uniform").fit(of_code(np.vstack(X)), y)
    expected = np.zeros((10, 2))
    for (i, word), (c, train) in itertools.product(enumerate(new), enumerate(X)):
        second, inverse, share, beliefs = tables(train, word, 1e-4)
        before = beliefs[:-1] @ (second @ inverse).T
        assert before.min() > 0
        expected[i, c] = np.log((0.99 * before + 0.01 * share)[range(6), word]).sum()
    assert_allclose(model.log_likelihood(of_code(new)), expected, rtol=1e-7)
    assert model.predict(of_code(new)).tolist() == expected.argmax(axis=1).tolist()


# -- figures -------------------------------------------------------------------------------------------------------


HORIZONS = [1, 2, 5, 10, 20, 50, 100]


def test_h13_figure_2_and_the_audio_figure():
    """The methods and horizons of figure 2, and what of its order holds on our recordings; the paper's are private."""
    found = Errors("song2010_horizon")
    names = ["mean", "last value", "lds, subspace", "em, gaussian hmm", "parzen windows, reduced-rank hmm"]
    names += ["ridge autoregression", "embedded hmm"]
    for recording in ("watch", "pen"):
        mean, last, _, hmm, reduced_rank, plain, embedded = (
            np.array([found(str(h), name, recording) for h in HORIZONS]) for name in names
        )
        assert np.all(embedded[:6] < reduced_rank[:6])  # as in the paper: better than the reduced-rank HMM, to 50 steps
        assert np.all(embedded[:3] < hmm[:3])  # and than the HMM by EM, to 5 steps
        assert np.all(embedded[:5] < mean[:5])  # and than the mean, to 20 steps
        assert np.all(embedded[4:6] < last[4:6])  # and than the last value, at 20 and 50 steps
        assert np.all(plain[:2] < embedded[:2])  # not in the paper: ridge autoregression is better at first
    audio = Errors("song2010_audio")
    for name in ("embedded hmm", "em, gaussian hmm"):
        errors = [audio(str(n), name, "fsdd") for n in (10, 20, 30, 40, 50)]
        assert max(errors) < 0.2  # of ten digits
    known = Errors("song2010_known")
    errors = [known(str(m), "svd", "symbols") for m in (1000, 3000, 10_000, 30_000, 100_000)]
    slope = np.polyfit(np.log([1000, 3000, 10_000, 30_000, 100_000]), np.log(errors), 1)[0]
    assert slope == pytest.approx(-0.5, abs=0.1)  # errors of order m^(-1/2)
