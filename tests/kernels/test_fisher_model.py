"""Fisher(information="model"): the information of the model itself, against closed forms and enumeration."""

import itertools

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

import mercer as mc
from mercer.families import Bernoullis, Gammas


def hmm():
    emission = mc.Categoricals([[[0.7, 0.3], [0.2, 0.8]]], "ab")
    return mc.HMMs([[0.6, 0.4]], [[[0.8, 0.2], [0.3, 0.7]]], emission)


def strings(length, letters="ab"):
    return ["".join(s) for s in itertools.product(letters, repeat=length)]


def plain(model, X, **options):
    return mc.Fisher(model, "identity", normalize=False, **options).features(X)


def invariant(model, X, everything, mass, **options):
    """Definition 12.27 of the source, the expectation being a sum over everything that can happen."""
    g, all_scores = plain(model, X, **options), plain(model, everything, **options)
    return g @ np.linalg.pinv(all_scores.T @ (mass[:, None] * all_scores), rcond=1e-10) @ g.T


def test_enumeration_of_strings():
    """Draws estimate what the sum over all strings gives, up to a few standard errors of 1 / sqrt(2000)."""
    X = strings(4)
    exact = invariant(hmm(), X, X, np.exp(hmm().log_prob(X))[0])
    d = np.sqrt(np.diag(exact))
    kernel = mc.Fisher(hmm(), "model").fit(X)
    assert kernel.n_draws_ == 2000
    error = kernel(X) - exact / d[:, None] / d
    assert np.sqrt(np.mean(error**2)) < 0.022
    assert np.abs(error).max() < 0.1
    assert np.abs(mc.Fisher(hmm(), "identity")(X) - exact / d[:, None] / d).max() > 0.3


@pytest.mark.parametrize("normalize", [True, False])
def test_weights_and_logits_give_the_same_kernel(normalize):
    """With the same draws the estimate is invariant, not only its limit."""
    X = strings(4)
    options = {"information": "model", "normalize": normalize}
    logit, weight = (mc.Fisher(hmm(), parametrization=p, **options).fit(X)(X) for p in ("logit", "weight"))
    np.testing.assert_allclose(weight, logit, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("parametrization", ["logit", "weight"])
@pytest.mark.parametrize("per", ["sequence", "step"])
def test_closed_form_of_symbols(parametrization, per):
    """One symbol: delta / p - 1; samples of several points have as many times the information, on average."""
    p = mc.Categoricals([[0.5, 0.3, 0.2]], "abc")
    X = ["a", "b", "c", "aab", "cccca"]
    options = {"per": per, "parametrization": parametrization, "normalize": False}
    kernel = mc.Fisher(p, "model", **options).fit(X)
    assert kernel.n_draws_ == 0
    counts = np.array([[x.count(s) for s in "abc"] for x in X])
    sizes = counts.sum(axis=1)
    number = np.mean(sizes) if per == "sequence" else np.mean(1 / sizes)
    scale = 1 if per == "sequence" else sizes
    slow = (counts / p.probability[0]) @ counts.T - np.outer(sizes, sizes)
    np.testing.assert_allclose(kernel(X), slow / number / np.outer(scale, np.ones(5)) / scale, rtol=1e-10, atol=1e-12)


def test_documents_of_words():
    """The information of a row of n words is n (diag a - a a')."""
    counts = np.array([[3.0, 1.0, 0.0], [1.0, 2.0, 5.0], [0.0, 2.0, 2.0]])
    a = counts.sum(axis=0) / counts.sum()
    g = counts - counts.sum(axis=1, keepdims=True) * a
    slow = g @ np.linalg.pinv(counts.sum(axis=1).mean() * (np.diag(a) - np.outer(a, a))) @ g.T
    for X in (counts, sparse.csr_array(counts)):
        kernel = mc.Fisher(mc.Multinomial(), "model", normalize=False)
        np.testing.assert_allclose(kernel.fit(X)(X), slow, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("model", "X"),
    [
        (mc.Gaussians([[1.0, -1.0]], [[[2.0, 0.5], [0.5, 1.0]]]), np.random.default_rng(0).normal(size=(5, 2))),
        (mc.Gaussians([[1.0, -1.0]], [2.0]), np.random.default_rng(0).normal(size=(5, 2))),
        (Bernoullis([[0.2, 0.6]]), np.array([[0.0, 1.0], [1.0, 1.0], [1.0, 0.0]])),
        (mc.Poissons([[0.7, 4.0]]), np.array([[0.0, 3.0], [2.0, 5.0], [1.0, 4.0]])),
        (Gammas([[2.0]], [[1.5]]), np.array([[0.5], [2.0], [4.0]])),
    ],
    ids=lambda x: type(x).__name__,
)
def test_closed_forms_are_moments_of_draws(model, X):
    kernel = mc.Fisher(model, "model", normalize=False).fit(X)
    g, drawn = plain(model, X), plain(model, model.sample(200_000, random_state=0)[0])
    slow = g @ np.linalg.inv(drawn.T @ drawn / len(drawn)) @ g.T
    assert kernel.n_draws_ == 0
    np.testing.assert_allclose(kernel(X), slow, rtol=0.03, atol=0.03 * np.abs(slow).max())


def chain(**options):
    return mc.MarkovChain(alphabet="ab", prior=None, smoothing=1.0, **options).fit(["aabbbab", "babba", "abaab"]).model_


def mixture():
    return mc.Mixtures([[0.4, 0.6]], mc.Categoricals([[[0.8, 0.2], [0.3, 0.7]]], "ab"))


@pytest.mark.parametrize(
    ("model", "X"),
    [
        (chain(order=1), ["abab", "aabb", "ab", "bbba"]),
        (chain(order=2, contexts=["", "a", "ba"]), ["abab", "aabb", "ab", "bbbabaab"]),
        (chain(order=3), ["abab", "aabb", "ab", "bbbabaab"]),
        (mixture(), ["abab", "aabb", "ab", "bbba"]),
    ],
    ids=["chain", "contexts", "sparse", "mixture"],
)
def test_lengths_are_those_of_the_training_samples(model, X):
    """The information is the mean of those of the lengths 4, 4, 2, 4: all strings of each are enumerated."""
    total, options = 0.0, {"per": "step"}
    for x in X:
        everything = strings(len(x))
        if hasattr(model, "components"):  # every symbol has its own component
            table = model.weights[0] @ model.components.probability[0]
            mass = np.array([np.prod([table["ab".index(s)] for s in string]) for string in everything])
        else:
            mass = np.exp(model.log_prob(everything))[0]
        g = plain(model, everything, **options)
        g = g.toarray() if sparse.issparse(g) else g
        total = total + g.T @ (mass[:, None] * g) / len(X)
    g = plain(model, X, **options)
    g = g.toarray() if sparse.issparse(g) else g
    exact = g @ np.linalg.pinv(total, rcond=1e-10) @ g.T
    kernel = mc.Fisher(model, "model", normalize=False, **options).fit(X)
    assert kernel.n_draws_ == 2000
    np.testing.assert_allclose(kernel(X), exact, atol=0.12 * np.abs(exact).max())


def test_chains_that_end_are_drawn_to_their_end():
    """Strings of all lengths: the information of a context is its expected number of visits (FK-6)."""
    end = mc.MarkovChains([1.0], [[0.4, 0.3, 0.3]], order=0, alphabet="ab", end=True).reshape(1)
    X = ["", "ab", "bbaba"]
    kernel = mc.Fisher(end, "model", normalize=False).fit(X)
    counts = np.array([[x.count("a"), x.count("b"), 1] for x in X], dtype=float)
    g = counts - counts.sum(axis=1, keepdims=True) * [0.4, 0.3, 0.3]
    p = np.array([0.4, 0.3, 0.3])
    exact = g @ np.linalg.pinv((np.diag(p) - np.outer(p, p)) / 0.3) @ g.T
    np.testing.assert_allclose(kernel(X), exact, atol=0.1 * np.abs(exact).max())
    never = mc.MarkovChains([1.0], [[0.6, 0.4 - 1e-9, 1e-9]], order=0, alphabet="ab", end=True).reshape(1)
    with pytest.raises(ValueError, match=r"some of MarkovChains have not ended after \d+ symbols.* end=False"):
        mc.Fisher(never, "model").fit(["ab" * 50])


def test_several_models_have_a_block_each():
    X = ["abab", "aabb", "bbba"]
    both = mc.Categoricals([[0.5, 0.5], [0.9, 0.1]], "ab")
    kernel = mc.Fisher(both, "model", normalize=False).fit(X)
    parts = [mc.Fisher(both[i : i + 1], "model", normalize=False).fit(X)(X) for i in (0, 1)]
    np.testing.assert_allclose(kernel(X), sum(parts), rtol=1e-12)


@pytest.mark.filterwarnings("ignore")  # of fits that stop early
@pytest.mark.parametrize(
    ("model", "X"),
    [
        (mc.HMM(2, mc.Gaussian("diagonal"), n_iter=2), "vectors"),
        (mc.LDS(1, n_iter=2), "vectors"),
        (mc.FactorialHMM(2, 2, n_iter=2), "vectors"),
        (mc.Mixture(mc.Gaussian("diagonal"), 2, n_iter=2), "vectors"),
        (mc.Mixture(mc.Gaussian("diagonal"), 2, n_iter=2), "rows"),
        (mc.Mixture(mc.Multinomial(prior="pooled"), 2, n_iter=2), "counts"),
        (mc.HMM(2, mc.Poisson(), n_iter=2), "counts of sequences"),
        (mc.HMM(2, alphabet="ab", n_iter=2), "strings"),
        (mc.PairHMM(2, alphabet="ab", n_iter=2, fit_to="sequences"), "strings"),
        (mc.HiddenTree("((a,b),c);", n_iter=2), "tree"),
    ],
    ids=lambda x: type(x).__name__ if not isinstance(x, str) else x,
)
def test_every_kind_of_model(model, X):
    """Whitened scores of draws have the identity as their second moment, in the directions that exist."""
    rng = np.random.default_rng(0)
    data = {
        "vectors": [rng.normal(size=(n, 2)) for n in (9, 5, 12, 7)],
        "rows": rng.normal(size=(12, 2)),
        "counts": 1.0 + rng.poisson(2.0, (12, 4)),
        "counts of sequences": [rng.poisson(2.0, (n, 2)).astype(float) for n in (9, 5, 12, 7)],
        "strings": ["".join(rng.choice(list("ab"), n)) for n in (9, 5, 12, 7)],
        "tree": rng.integers(0, 2, (12, 3)),
    }[X]
    kernel = mc.Fisher(model, "model", per="sequence", power=1.0).fit(data)
    K = kernel.fit_transform(data)
    assert np.isfinite(K).all()
    assert mc.gram.psd.check(K)
    assert kernel.n_draws_ >= 2000
    assert kernel.n_draws_ % len(K) == 0
    np.testing.assert_array_equal(K, mc.Fisher(model, "model", per="sequence", power=1.0).fit_transform(data))


def test_seeds_and_orders():
    X = strings(3)
    first, again, other = (mc.Fisher(hmm(), "model", random_state=seed).fit(X)(X) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert 1e-4 < np.abs(first - other).max() < 0.2
    backwards = mc.Fisher(hmm(), "model").fit(X[::-1])(X)
    np.testing.assert_array_equal(first, backwards)


def test_wrong_use():
    with pytest.raises(NotFittedError, match="information='model' is that of samples as long as the training samples"):
        mc.Fisher(hmm(), "model")(["ab"])
    wide = mc.MarkovChains(None, np.full((1, 1, 12_000), 1 / 12_000), order=0)
    with pytest.raises(ValueError, match=r"matrix of 12000 x 12000 numbers.* 'diagonal'"):
        mc.Fisher(wide, "model").fit([[0, 1]])

    class Silent(mc.Poissons):
        fisher_information = sample = property()  # hasattr says no

        def estimator(self):
            return mc.Poisson()

    with pytest.raises(TypeError, match=r"needs fisher_information or sample, which Silent .*'empirical'"):
        mc.Fisher(Silent([[1.0]]), "model").fit([[1.0], [2.0]])


def test_saved_kernels(tmp_path):
    X = strings(3)
    kernel = mc.Fisher(hmm(), "model").fit(X)
    mc.save(kernel, tmp_path / "fisher.npz")
    np.testing.assert_array_equal(mc.load(tmp_path / "fisher.npz").transform(X), kernel.transform(X))
