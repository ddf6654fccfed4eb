"""Song et al. 2010: the embedding that algorithm 1 returns, and the Laplace kernel."""

import numpy as np
import pytest

import mercer as mc


def algorithm(past, now, after, sequence, kernel, n, ridge):
    """Algorithm 1 with kernel matrices (its ridge is lambda m, as in equation 15): the weights over the triples."""
    m = len(now)
    k, ell = kernel(past, past), kernel(now, now)
    g, f = kernel(now, past), kernel(now, after)
    values, vectors = np.linalg.eigh(ell)
    keep = values > 1e-10 * values[-1]
    half = vectors[:, keep] * np.sqrt(values[keep])
    omega, turned = np.linalg.eigh(half.T @ k @ half)  # L K L a = omega L a
    omega, turned = omega[::-1][:n], turned[:, ::-1][:, :n]
    a = (vectors[:, keep] / np.sqrt(values[keep])) @ turned  # a' L a = 1, so that D is the identity
    belief, q = a.T @ g.sum(axis=1) / m, k @ ell @ a / omega
    for x in sequence:
        w = np.linalg.solve(ell + ridge * m * np.eye(m), kernel(now, [x])[:, 0])
        belief = m * a.T @ f @ (w * (q @ belief))
        belief = belief / (q @ belief).sum()  # the marginal P(x) in the algorithm is never needed
    return q @ belief


def matched(model, X, now, weights):
    """Both weights, in one order of the training observations, which are all different."""
    found = model.embedding(X)
    order, other = np.argsort(found.observations[:, 0]), np.argsort(now)
    np.testing.assert_array_equal(found.observations[order, 0], now[other])
    return found.weights[0, order], weights[other]


def made(seed=0, m=60):
    rng = np.random.default_rng(seed)
    state = rng.integers(2, size=m)
    steps = [state, (state + (rng.random(m) < 0.2)) % 2]
    steps.append((steps[1] + (rng.random(m) < 0.2)) % 2)
    return [step * 1.5 + 0.5 * rng.normal(size=m) for step in steps]


def test_h7_the_embedding_of_algorithm_1():
    x1, x2, x3 = made()
    triples = [np.array(row)[:, None] for row in zip(x1, x2, x3, strict=True)]
    for kernel, gram, integral in (
        (mc.RBF(1.0), lambda x, y: np.exp(-(np.subtract.outer(x, y) ** 2)), np.sqrt(np.pi)),
        (mc.Laplace(1.0), lambda x, y: np.exp(-np.abs(np.subtract.outer(x, y))), 2.0),
    ):
        model = mc.EmbeddedHMM(kernel, n_components=2, alpha=1e-2, start="first").fit(triples)
        sequence, at = np.array([0.2, 1.4, 0.9]), np.linspace(-2, 4, 7)
        weights = algorithm(x1, x2, x3, sequence, gram, 2, 1e-2)
        X = [sequence[:, None]]
        assert not model.filter(X).shrunk.any()
        np.testing.assert_allclose(*matched(model, X, x2, weights), atol=1e-6 * np.abs(weights).max())
        expected = gram(at, x2) @ weights / integral
        np.testing.assert_allclose(model.density(X, at[:, None])[0], expected, rtol=1e-5)
    strings = ["abc", "bca", "cab", "bcb", "aab", "bba", "cca"] * 3
    codes = np.array([["abc".index(x) for x in word] for word in strings])
    model = mc.EmbeddedHMM(n_components=2, alpha=1e-2, start="first").fit(strings)
    weights = algorithm(*codes.T, [1, 2], lambda x, y: np.equal.outer(x, y).astype(float), 2, 1e-2)
    expected = [weights[codes[:, 1] == x].sum() for x in range(3)]
    np.testing.assert_allclose(model.density(["bc"], "abc")[0], expected, rtol=1e-9)
    with pytest.raises(ValueError, match=r"at\[1\] is missing"):
        mc.EmbeddedHMM(mc.RBF(1.0), n_components=2).fit(triples).density(X, [[0.0], [np.nan]])


def test_h10_laplace_kernel():
    x1, x2, x3 = made(1)
    triples = [np.array(row)[:, None] for row in zip(x1, x2, x3, strict=True)]
    model = mc.EmbeddedHMM(mc.Laplace(0.8), n_components=2, alpha=1e-2, start="first").fit(triples)
    weights = algorithm(x1, x2, x3, [0.5], lambda x, y: np.exp(-0.8 * np.abs(np.subtract.outer(x, y))), 2, 1e-2)
    np.testing.assert_allclose(model.predict([[[0.5]]])[0], [[weights @ x2]], rtol=1e-6)
    assert model.gamma_ == 0.8
    random = mc.EmbeddedHMM(mc.Laplace(0.8), n_components=2, landmarks=300, features="random").fit(triples)
    phi = random._learned.maps[0]
    x, y = np.array([[0.0], [0.4], [2.0]]), np.array([[0.3], [-1.0]])
    np.testing.assert_allclose(phi(x) @ phi(y).T, np.exp(-0.8 * np.abs(x - y.T)), atol=4.5 / np.sqrt(150))
