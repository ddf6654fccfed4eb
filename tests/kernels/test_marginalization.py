"""Marginalization kernels: every model against an enumeration of its hidden histories, and the kernel's own manners."""

import itertools

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import mercer as mc
from mercer.testing.kernels import KernelContract, by_pairs

LETTERS = "abc"
RNG = np.random.default_rng(0)


def strings(seed, n, shortest=3, longest=3):
    rng = np.random.default_rng(seed)
    found = ["abca"[i : i + shortest] for i in range(2)]
    while len(found) < n:
        word = "".join(rng.choice(list(LETTERS), size=rng.integers(shortest, longest + 1)))
        found.append(word)
    return found[:n]


def codes(word):
    return [LETTERS.index(letter) for letter in word]


# -- a shared path of states (MK-4) ------------------------------------------------------------------------

INITIAL, STEP, SHOWN = RNG.dirichlet(np.ones(2)), RNG.dirichlet(np.ones(2), 2), RNG.dirichlet(np.ones(3), 2)


def chain():
    return mc.HMMs(INITIAL[None], STEP[None], mc.Categoricals(SHOWN[None], LETTERS))


def along_a_path(s, t):
    total = 0.0
    for path in itertools.product(range(2), repeat=len(s)):
        weight = INITIAL[path[0]] * np.prod([STEP[a, b] for a, b in itertools.pairwise(path)])
        total += weight * np.prod([SHOWN[a, x] * SHOWN[a, y] for a, x, y in zip(path, codes(s), codes(t), strict=True)])
    return total


class TestHMM(KernelContract):
    def kernel(self):
        return mc.Marginalization(chain())

    def data(self, seed, n):
        return strings(seed, n)

    def other_data(self, seed, n):
        return None  # the model is given

    def truth(self, X):
        return by_pairs(along_a_path, X)


class TestFittedHMM(KernelContract):
    needs_fit = True

    def kernel(self):
        return mc.Marginalization(mc.HMM(n_states=1, n_iter=5, random_state=0), normalize=False)

    def data(self, seed, n):
        return strings(seed, n)

    def truth(self, X):
        """One hidden state: both data are independent, P(s) P(t) (T-19)."""
        prob = np.exp(self.ready(X).model_.log_prob(X)[0])
        return np.outer(prob, prob)


# -- independent hidden symbols (MK-3) ---------------------------------------------------------------------


class TestMixture(KernelContract):
    def kernel(self):
        return mc.Marginalization(mc.Mixtures(INITIAL[None], mc.Categoricals(SHOWN[None], LETTERS)))

    def data(self, seed, n):
        return strings(seed, n)

    def other_data(self, seed, n):
        return None

    def truth(self, X):
        table = np.einsum("h,ha,hb->ab", INITIAL, SHOWN, SHOWN)
        return by_pairs(lambda s, t: np.prod([table[x, y] for x, y in zip(codes(s), codes(t), strict=True)]), X)


# -- a whole datum from one of a few models (MK-2) ---------------------------------------------------------


class TestPrior(KernelContract):
    features = True

    def kernel(self):
        return mc.Marginalization(mc.Categoricals(SHOWN, LETTERS), weights=[0.3, 0.7])

    def data(self, seed, n):
        return strings(seed, n, 1, 5)

    def other_data(self, seed, n):
        return None

    def truth(self, X):
        prob = np.array([[np.prod(law[codes(word)]) for law in SHOWN] for word in X])
        return np.einsum("h,ih,jh->ij", [0.3, 0.7], prob, prob)


class TestPriorOfChains(TestPrior):
    def kernel(self):
        models = [chain(), mc.HMMs([[1.0]], [[[1.0]]], mc.Categoricals(SHOWN[None, :1], LETTERS))]
        return mc.Marginalization(mc.HMMs.concat(models), weights="uniform", normalize=False)

    def truth(self, X):
        prob = np.exp(self.kernel().model.log_prob(X))
        return prob.T @ prob / 2


# -- insertions and deletions (MK-5, MK-5b) ----------------------------------------------------------------


class TestPairHMM(KernelContract):
    """States 0 -> 1 -> end, each visited at most once: all histories are enumerated."""

    initial, step, stop = np.array([0.6, 0.3]), np.array([[0.0, 0.7], [0.0, 0.0]]), np.array([0.3, 1.0])
    empty, silent = 0.1, np.array([0.2, 0.5])

    def kernel(self):
        emission = mc.Categoricals(SHOWN[None], LETTERS)
        return mc.Marginalization(
            mc.models.PairHMMs(
                self.initial[None], self.step[None], self.stop[None], emission, self.silent[None], [self.empty]
            )
        )

    def data(self, seed, n):
        rng = np.random.default_rng(seed)
        return ["a", "bc", *("".join(rng.choice(list(LETTERS), size=rng.integers(0, 3))) for _ in range(n))][:n]

    def other_data(self, seed, n):
        return None

    def histories(self):
        yield (), self.empty
        for a in range(2):
            yield (a,), self.initial[a] * self.stop[a]
        yield (0, 1), self.initial[0] * self.step[0, 1] * self.stop[1]

    def given(self, word, history):
        """Probability of a word given the visits: every visit shows a letter or nothing."""
        total = 0.0
        for shown in itertools.product([False, True], repeat=len(history)):
            if sum(shown) == len(word):
                letters = iter(codes(word))
                weights = [
                    (1 - self.silent[a]) * SHOWN[a, next(letters)] if seen else self.silent[a]
                    for a, seen in zip(history, shown, strict=True)
                ]
                total += np.prod(weights)
        return total

    def truth(self, X):
        return by_pairs(lambda s, t: sum(w * self.given(s, h) * self.given(t, h) for h, w in self.histories()), X)


class TestAffinePairHMM(KernelContract):
    joint = np.einsum("h,ha,hb->ab", INITIAL, SHOWN, SHOWN)
    insertion = np.array([0.5, 0.3, 0.2])
    gap, longer, more = 0.2, 0.4, 0.7

    def kernel(self):
        model = mc.models.AffinePairHMMs(
            self.joint[None], self.insertion[None], [self.gap], [self.longer], [self.more], LETTERS
        )
        return mc.Marginalization(model)

    def data(self, seed, n):
        return strings(seed, n, 2, 5)

    def other_data(self, seed, n):
        return None

    def run(self, word):
        if not word:
            return 1 - self.gap
        letters = np.prod(self.insertion[codes(word)])
        return self.gap * (1 - self.longer) * self.longer ** (len(word) - 1) * letters

    def pair(self, s, t):
        total = 0.0
        for size in range(min(len(s), len(t)) + 1):
            for i, j in itertools.product(
                itertools.combinations(range(len(s)), size), itertools.combinations(range(len(t)), size)
            ):
                weight = (1 - self.more) * self.more**size
                weight *= np.prod([self.joint[codes(s[a])[0], codes(t[b])[0]] for a, b in zip(i, j, strict=True)])
                for word, at in ((s, i), (t, j)):
                    ends = [-1, *at, len(word)]
                    weight *= np.prod([self.run(word[a + 1 : b]) for a, b in itertools.pairwise(ends)])
                total += weight
        return total

    def truth(self, X):
        return by_pairs(self.pair, X)


# -- leaves of a tree (MK-6) -------------------------------------------------------------------------------


class TestHiddenTree(KernelContract):
    needs_fit = True
    tree = "((A:0.3,B:0.5):0.2,(C:0.1,D:0.4):0.6);"

    def kernel(self):
        return mc.Marginalization(mc.HiddenTree(self.tree, n_iter=0))

    def data(self, seed, n):
        return np.random.default_rng(seed).integers(0, 2, size=(n, 4)).astype(float)

    def other_data(self, seed, n):
        return None

    def truth(self, X):
        """Equal rates: a change along t with probability (1 - exp(-2 t)) / 2, one expected change per unit."""

        def law(t):
            p = (1 - np.exp(-2 * t)) / 2
            return np.array([[1 - p, p], [p, 1 - p]])

        left, right = law(0.2), law(0.6)
        leaves = [law(t) for t in (0.3, 0.5, 0.1, 0.4)]

        def pair(x, z):
            total = 0.0
            for root, u, v in itertools.product(range(2), repeat=3):
                weight = 0.5 * left[root, u] * right[root, v]
                for leaf, above in enumerate((u, u, v, v)):
                    weight *= leaves[leaf][above, int(x[leaf])] * leaves[leaf][above, int(z[leaf])]
                total += weight
            return total

        return by_pairs(pair, X)


# -- manners -----------------------------------------------------------------------------------------------


def test_explicit_features_do_not_underflow():
    kernel = mc.Marginalization(mc.Categoricals(SHOWN, LETTERS), weights="uniform")
    X = ["abc" * 2000, "a" * 6000, "c" * 6000]
    features = kernel.features(X)
    np.testing.assert_allclose(features @ features.T, kernel(X), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(np.diag(kernel(X)), 1.0)
    raw = mc.Marginalization(mc.Categoricals(SHOWN, LETTERS), weights="uniform", normalize=False).log(X)
    logs = np.array([[np.log(law[codes(word)]).sum() for law in SHOWN] for word in X])
    expected = np.logaddexp.reduce(logs[:, None] + logs - np.log(2), axis=-1)
    np.testing.assert_allclose(raw, expected, rtol=1e-12)


@pytest.mark.slow
def test_classes_restrict_the_pairs_of_training():
    """Pairs of different classes share no history: they are left out where the model learns from pairs."""
    X, y = strings(3, 12, 2, 6), np.array(["u", "v"] * 6)
    model = mc.PairHMM(n_states=2, n_iter=3, tol=0.0, random_state=0)
    told, alone = mc.Marginalization(model).fit(X, y).model_, mc.Marginalization(model).fit(X).model_
    by_hand = model.fit(X, y).model_
    assert told.digests() == by_hand.digests()
    assert told.digests() != alone.digests()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: mc.Marginalization()(["ab"]), TypeError, "needs one model"),
        (lambda: mc.Marginalization(mc.Gaussian()).fit([[0.0], [1.0]]), TypeError, "hidden histories; .* has none"),
        (lambda: mc.Marginalization(mc.Categoricals(SHOWN, LETTERS))(["ab"]), ValueError, "weights='uniform'"),
        (lambda: mc.Marginalization(mc.Categoricals(SHOWN, LETTERS)[:1])(["ab"]), TypeError, "Categoricals has none"),
        (lambda: mc.Marginalization(mc.HMM(), weights=[1.0]).fit(["ab"]), TypeError, "model must be a batch"),
        (lambda: mc.Marginalization(chain(), weights=[0.5, 0.5])(["ab"]), ValueError, "must be 1 probabilities"),
        (lambda: mc.Marginalization(mc.Categoricals(SHOWN, LETTERS), weights="even")(["a"]), ValueError, "'uniform'"),
        (lambda: mc.Marginalization(mc.Categoricals(SHOWN, LETTERS), weights=[-1, 2])(["a"]), ValueError, "sum to one"),
        (lambda: mc.Marginalization(chain(), normalize="yes")(["ab"]), ValueError, "True or False; got 'yes'"),
        (lambda: mc.Marginalization(chain())(["ab", "abc"]), ValueError, "mc.PairHMM"),
        (lambda: mc.Marginalization(chain())(["abz", "abc"]), ValueError, "'z'"),
        (lambda: mc.Marginalization(mc.Categoricals(SHOWN, LETTERS), "uniform")(["az"]), ValueError, "Sequences"),
        (lambda: mc.Marginalization(chain())(chain()), TypeError, "Pass the data themselves"),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_fitted_estimator_is_not_taken_for_a_model():
    strings = ["aab", "abb", "bba"]
    for estimator in (mc.HMM(n_states=1, alphabet="ab"), mc.AffinePairHMM((2, -3), alphabet="ab")):
        with pytest.raises(NotFittedError, match=r"one model for all data. Call kernel.fit"):
            mc.Marginalization(estimator)(strings)
        estimator.fit(strings)
        with pytest.raises(NotFittedError, match=r"\(pass model.model_ .*\). Call kernel.fit"):
            mc.Marginalization(estimator)(strings)
        assert mc.Marginalization(estimator.model_)(strings).shape == (3, 3)


def test_given_models_of_another_library():
    torch = pytest.importorskip("torch")
    tensors = mc.HMMs(
        torch.asarray(INITIAL[None]), torch.asarray(STEP[None]), mc.Categoricals(torch.asarray(SHOWN[None]), LETTERS)
    )
    X = strings(0, 5)
    kernel, expected = mc.Marginalization(tensors), mc.Marginalization(chain())(X)
    np.testing.assert_allclose(kernel.fit_transform(X), expected, rtol=1e-12)
    np.testing.assert_allclose(kernel.transform(X[:2]), expected[:2], rtol=1e-12)
    x = np.array([[0.0, 1.0], [2.0, 3.0]])
    mean, covariance = np.array([[0.0, 0.0], [1.0, 2.0]]), np.ones(2)
    K = mc.Marginalization(mc.Gaussians(torch.asarray(mean), torch.asarray(covariance)), weights="uniform")(x)
    np.testing.assert_allclose(K, mc.Marginalization(mc.Gaussians(mean, covariance), weights="uniform")(x), rtol=1e-12)


def test_prior_of_mixtures_of_whole_sequences():
    pairs = mc.HMMs.concat([chain(), chain()[:1]]).reshape(1, 2)
    X = strings(0, 4)
    K = mc.Marginalization(mc.Mixtures([[0.3, 0.7]], pairs), weights="uniform", normalize=False)(X)
    prob = np.exp(chain().log_prob(X)[0])  # both components are the same
    np.testing.assert_allclose(K, np.outer(prob, prob), rtol=1e-12)
    with pytest.raises(TypeError, match="Fisher needs"):
        mc.Fisher(mc.Mixtures([[0.3, 0.7]], pairs))(X)


def test_impossible_data_have_zero_norm():
    sure = mc.HMMs([[1.0]], [[[1.0]]], mc.Categoricals([[[1.0, 0.0, 0.0]]], LETTERS))
    with pytest.raises(ValueError, match=r"sequence 1 .* probability under the model is zero"):
        mc.Marginalization(sure)(["aa", "ab"])
    K = mc.Marginalization(sure, on_zero="zero")(["aa", "ab"])
    np.testing.assert_array_equal(K, [[1.0, 0.0], [0.0, 0.0]])


@pytest.mark.slow
@pytest.mark.parametrize("form", [TestHMM, TestMixture, TestPrior, TestPairHMM, TestAffinePairHMM])
def test_p_kernel_on_all_short_strings(form):
    """A probability of pairs: never negative, positive semi-definite, and at most one in all."""
    words = ["".join(word) for word in itertools.product(LETTERS, repeat=3)]
    if form in (TestPairHMM, TestAffinePairHMM):
        shortest = 0 if form is TestPairHMM else 1  # an estimator refuses empty strings
        words = ["".join(word) for n in range(shortest, 4) for word in itertools.product(LETTERS, repeat=n)]
    K = form().kernel().set_params(normalize=False)(words)
    assert K.min() >= 0
    assert mc.gram.psd.check(K)
    if form in (TestHMM, TestMixture, TestPrior, TestPairHMM):  # all that these can make
        np.testing.assert_allclose(K.sum(), 1.0, rtol=1e-10)
    else:
        assert K.sum() < 1
