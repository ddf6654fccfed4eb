"""Shawe-Taylor and Cristianini 2004: P-kernels, unknown topologies, the invariant Fisher kernel, kept contexts."""

import itertools

import numpy as np
import pytest

import mercer as mc


def words(length, letters="ab"):
    return ["".join(word) for word in itertools.product(letters, repeat=length)]


def test_s1_definition_of_p_kernels():
    """Definition 12.1, and the distribution on two elements that is none."""
    rng = np.random.default_rng(0)
    given = rng.dirichlet(np.ones(4), 3)  # P(x | m)
    mixed = np.einsum("m,mx,mz->xz", [0.5, 0.2, 0.3], given, given)
    swapped = np.array([[0.0, 0.5], [0.5, 0.0]])
    for P in (mixed, swapped, 2 * mixed):
        is_one = np.isclose(P.sum(), 1) and P.min() >= 0 and np.linalg.eigvalsh(P).min() > -1e-12
        assert bool(mc.gram.psd.is_p_kernel(P)) == is_one
    assert "smallest eigenvalue is -0.5" in mc.gram.psd.is_p_kernel(swapped).reason


def test_s2_kernel_divided_by_its_sum():
    """P = kappa / M; with negative values it is no probability (E12)."""
    strings = words(3)
    kappa = mc.Spectrum(2, normalize=False)(strings)
    total = sum(kappa[i, j] for i, j in np.ndindex(kappa.shape))
    P = mc.gram.psd.p_kernel(kappa)
    np.testing.assert_allclose(P, kappa / total, rtol=1e-13)
    assert mc.gram.psd.is_p_kernel(P)
    features = np.array([[2.0, 0.0], [-0.5, 1.0]])
    with pytest.raises(ValueError, match="K must be nonnegative"):
        mc.gram.psd.p_kernel(features @ features.T)


def test_s19_unknown_topology():
    """Remark 12.21: hidden states of two trees on three leaves are enumerated, the topology is a hidden variable."""
    step, weights, rows = np.array([[0.8, 0.2], [0.3, 0.7]]), (0.3, 0.7), np.indices((2,) * 3).reshape(3, -1).T
    root, slow, kernels = np.array([0.6, 0.4]), np.zeros((8, 8)), []
    for weight, newick, pair, alone in zip(
        weights, ("((a,b),c);", "((a,c),b);"), ((0, 1), (0, 2)), (2, 1), strict=True
    ):
        for top, below in np.ndindex(2, 2):
            given = step[top, rows[:, alone]] * step[below, rows[:, pair[0]]] * step[below, rows[:, pair[1]]]
            slow += weight * root[top] * step[top, below] * np.outer(given, given)
        tree = mc.HiddenTree(newick, transition=step, root=root, leaves=("a", "b", "c"), n_iter=0).fit(rows)
        kernels.append(mc.Marginalization(tree.model_, normalize=False))
    found = weights[0] * kernels[0] + weights[1] * kernels[1]
    np.testing.assert_allclose(found(rows), slow, rtol=1e-12)
    assert mc.gram.psd.is_p_kernel(found(rows))


def hmm():
    emission = mc.Categoricals([[[0.7, 0.3], [0.2, 0.8]]], "ab")
    return mc.HMMs([[0.6, 0.4]], [[[0.8, 0.2], [0.3, 0.7]]], emission)


def test_s21_invariant_fisher_kernel():
    """Definition 12.27: exact for symbols (FK-1), by the draws of a hidden Markov model within their error."""
    p, symbols = np.array([0.5, 0.3, 0.2]), ["a", "b", "c"]
    strings = words(3)
    mass = np.exp(hmm().log_prob(strings))[0]
    kernels = []
    for parametrization in ("logit", "weight"):
        options = {"parametrization": parametrization, "normalize": False}
        exact = mc.Fisher(mc.Categoricals(p[None], symbols), "model", **options).fit(symbols)
        np.testing.assert_allclose(exact(symbols), np.diag(1 / p) - 1, rtol=1e-9, atol=1e-12)
        g = mc.Fisher(hmm(), "identity", **options).features(strings)
        information = sum(q * np.outer(row, row) for q, row in zip(mass, g, strict=True))
        slow = g @ np.linalg.pinv(information, rcond=1e-11) @ g.T
        norms = np.sqrt(np.diag(slow))
        kernels.append(mc.Fisher(hmm(), "model", parametrization=parametrization).fit(strings)(strings))
        error = kernels[-1] - slow / norms[:, None] / norms
        assert np.sqrt(np.mean(error**2)) < 1 / np.sqrt(2000)
    np.testing.assert_allclose(*kernels, rtol=1e-9, atol=1e-10)  # the kernel does not depend on the parametrization


def test_s28_contexts_of_different_lengths():
    """Remark 12.33: the state is the longest kept suffix; n(u s) / a(u s) - n(u) at normalized weights (12.32, E18)."""
    kept, strings = ["", "a", "ba", "bb"], ["aababba", "bbab", "abbbba"]
    chain = mc.MarkovChain(order=2, alphabet="ab", contexts=kept, prior=None, smoothing=1.0).fit(strings).model_
    number = np.zeros((3, 4, 2))
    for i, string in enumerate(strings):
        for t in range(2, len(string)):
            state = max((u for u in kept if string[:t].endswith(u)), key=len)
            number[i, kept.index(state), "ab".index(string[t])] += 1
    total = number.sum(axis=0) + 1.0
    a = total / total.sum(axis=1, keepdims=True)
    scores = (number / a - number.sum(axis=2, keepdims=True)).reshape(3, -1)
    kernel = mc.Fisher(chain, "identity", parametrization="weight", normalize=False)
    np.testing.assert_allclose(kernel.features(strings), scores, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(kernel(strings), scores @ scores.T, rtol=1e-12, atol=1e-11)
    assert kernel.fit(strings).get_score_names()[-1] == "transition[bb, b]"
