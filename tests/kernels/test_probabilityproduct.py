"""ProbabilityProduct: every family, mixtures and hidden Markov models against enumeration and quadrature."""

import itertools
import math

import numpy as np
import pytest
from scipy import sparse
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from tests.batches import (
    STEP,
    WIDTH,
    bernoullis,
    categoricals,
    density_on_line,
    density_on_plane,
    gaussian_hmms,
    gaussians,
    hmms,
    mixtures,
    poissons,
    string_weights,
)

import mercer as mc
from mercer.testing.kernels import Gradients, KernelContract, PluralContract, by_pairs


class ProductOfPlural(PluralContract):
    rho = 0.5
    length = None

    def kernel(self):
        return mc.ProbabilityProduct(rho=self.rho, length=self.length)


class TestFullGaussians(Gradients, ProductOfPlural):
    width = WIDTH[gaussians]
    structure = "full"

    def build(self, z):
        return gaussians(z, self.structure)

    def truth(self, X):
        return by_pairs(
            lambda p, q: STEP**2 * np.sum((density_on_plane(p) * density_on_plane(q)) ** self.rho),
            X,
        )


class TestFullGaussiansAtRho1(TestFullGaussians):
    rho = 1.0


class TestDiagonalGaussiansAtRho2(TestFullGaussians):
    rho, structure = 2.0, "diagonal"


class TestIsotropicGaussians(TestFullGaussians):
    rho, structure = 0.7, "isotropic"


class TestCategoricals(Gradients, ProductOfPlural):
    features = True
    rho = 0.7
    width = WIDTH[categoricals]

    def build(self, z):
        return categoricals(z)

    def truth(self, X):
        return by_pairs(
            lambda p, q: sum((a * b) ** self.rho for a, b in zip(p.probability, q.probability, strict=True)), X
        )


class TestMultinomialsOfSeveralTrials(ProductOfPlural):
    rho = 0.5
    width = 3

    def build(self, z):
        return categoricals(z, mc.Multinomials, trials=4)

    def truth(self, X):
        counts = [c for c in itertools.product(range(5), repeat=3) if sum(c) == 4]

        def mass(p, c):
            ways = math.factorial(4) / math.prod(map(math.factorial, c))
            return ways * math.prod(a**n for a, n in zip(p.probability, c, strict=True))

        return by_pairs(lambda p, q: sum((mass(p, c) * mass(q, c)) ** self.rho for c in counts), X)


class TestBernoullis(ProductOfPlural):
    features = True
    rho = 0.8
    width = WIDTH[bernoullis]

    def build(self, z):
        return bernoullis(z)

    def truth(self, X):
        def mass(p, x):
            return math.prod(a if b else 1 - a for a, b in zip(p.probability, x, strict=True))

        points = list(itertools.product((0, 1), repeat=2))
        return by_pairs(lambda p, q: sum((mass(p, x) * mass(q, x)) ** self.rho for x in points), X)


class TestPoissons(ProductOfPlural):
    rho = 1.0
    width = WIDTH[poissons]

    def build(self, z):
        return poissons(z)

    def adversarial(self):
        z = self.free(99, 24)
        return self.build(np.concatenate([z[:8], 3 * z[8:16], z[16:17] + 1e-8 * z[16:]]))

    def truth(self, X):
        def mass(rate):
            return np.array([math.exp(-rate + n * math.log(rate) - math.lgamma(n + 1)) for n in range(80)])

        return by_pairs(
            lambda p, q: math.prod(
                np.sum((mass(a) * mass(b)) ** self.rho) for a, b in zip(p.rate, q.rate, strict=True)
            ),
            X,
        )


class TestMixtures(Gradients, ProductOfPlural):
    width = WIDTH[mixtures]

    def build(self, z):
        return mixtures(z)

    def truth(self, X):
        def powered(p):  # the power of the joint of component and point (PPK-4.0)
            c = p.components
            return sum(
                (w * density_on_line(m[0], v)) ** self.rho
                for w, m, v in zip(p.weights, c.mean, c.covariance, strict=True)
            )

        return by_pairs(lambda p, q: STEP * np.sum(powered(p) * powered(q)), X)


class TestHMMs(Gradients, ProductOfPlural):
    width = WIDTH[hmms]
    length = 3

    def build(self, z):
        return hmms(z)

    def truth(self, X):
        weights = [string_weights(p, self.length, self.rho) for p in X]
        return np.array([[a @ b for b in weights] for a in weights])

    def adversarial(self):
        z = self.free(99, 24)
        z[8:16, [2, 5]] += 12.0  # sticky chains
        z[16:] = z[16] + 1e-8 * z[16:]
        return self.build(z)


class TestLongHMMsAtRho1(TestHMMs):
    rho = 1.0

    def adversarial(self):
        self.length = 200
        return super().adversarial()


class TestGaussianHMMs(Gradients, ProductOfPlural):
    width = WIDTH[gaussian_hmms]
    length = 2
    rho = 1.0

    def build(self, z):
        return gaussian_hmms(z)

    def truth(self, X):
        def joint(p):  # density on the plane of two observations
            e = p.emission
            f = [density_on_line(m[0], v) for m, v in zip(e.mean, e.covariance, strict=True)]
            return sum(
                p.initial[i] * p.transition[i, j] * np.outer(f[i], f[j])
                for i, j in itertools.product(range(2), repeat=2)
            )

        return by_pairs(lambda p, q: STEP**2 * np.sum(joint(p) * joint(q)), X)


class TestMixedSizes(ProductOfPlural):
    """Models of one, two and three states in one batch."""

    length = 3
    libraries = False

    def data(self, seed, n):
        rng = np.random.default_rng(seed)
        sizes = [1 + i % 3 for i in range(n)]
        return mc.HMMs.concat([hmms(rng.standard_normal((1, s + s * s + 3 * s)), s) for s in sizes])

    def truth(self, X):
        weights = [string_weights(p, self.length, self.rho) for p in X]
        return np.array([[a @ b for b in weights] for a in weights])

    adversarial = KernelContract.adversarial
    nearly = KernelContract.nearly


class TestStrings(KernelContract):
    """Raw strings through an estimator."""

    features = True

    def kernel(self):
        return mc.ProbabilityProduct(mc.Categorical(prior="pooled"), rho=1.0)

    def data(self, seed, n):
        rng = np.random.default_rng(seed)
        return ["abc" + "".join(rng.choice(list("abc"), rng.integers(0, 9))) for _ in range(n)]

    def truth(self, X):
        pooled = np.array([sum(s.count(c) for s in X) for c in "abc"]) / sum(map(len, X))
        p = [(np.array([s.count(c) for c in "abc"]) + pooled) / (len(s) + 1) for s in X]
        return np.array([[a @ b for b in p] for a in p])


class TestPointSets(KernelContract):
    """Ragged arrays through an estimator."""

    def kernel(self):
        return mc.ProbabilityProduct(mc.Gaussian("diagonal", prior="pooled"))

    def data(self, seed, n):
        rng = np.random.default_rng(seed)
        return [rng.normal(rng.normal(size=2), 1.0, (rng.integers(1, 8), 2)) for _ in range(n)]

    def truth(self, X):
        points = np.concatenate(X)
        floor = 1e-3 * 2 ** np.round(np.log2(points.var(axis=0).mean()))
        mean0, second0 = points.mean(axis=0), (points**2).mean(axis=0) + floor
        models = []
        for x in X:
            mean = (x.sum(axis=0) + mean0) / (len(x) + 1)
            models.append((mean, ((x**2 + floor).sum(axis=0) + second0) / (len(x) + 1) - mean**2))
        return np.array([[self.bhattacharyya(*a, *b) for b in models] for a in models])

    @staticmethod
    def bhattacharyya(m, v, n, w):
        s = (v + w) / 2
        return np.exp(-np.sum((m - n) ** 2 / s) / 8) * np.prod((v * w) ** 0.25 / s**0.5)


class TestCounts(KernelContract):
    """Rows of word counts in a sparse matrix."""

    features = True

    def kernel(self):
        return mc.ProbabilityProduct(mc.Multinomial())

    def data(self, seed, n):
        counts = np.random.default_rng(seed).poisson(0.7, (n, 9))
        counts[:, 0] += 1
        return sparse.csr_array(counts.astype(float))

    def truth(self, X):
        p = X.toarray() / X.toarray().sum(axis=1, keepdims=True)
        return np.array([[sum(math.sqrt(a * b) for a, b in zip(r, s, strict=True)) for s in p] for r in p])

    def test_dense_and_sparse_meet(self):
        X = self.data(0, 6)
        k = self.kernel()
        expected = k(X)
        np.testing.assert_allclose(k.fit(X).transform(X.toarray()), expected, atol=1e-12)
        np.testing.assert_allclose(k.fit(X.toarray()).transform(X), expected, atol=1e-12)
        for wrapper in (mc.Centered(k), mc.EmpiricalKernelMap(k), k + k, mc.JensenShannon(k.model, form="centering")):
            K = wrapper.fit(X).transform(X)
            np.testing.assert_allclose(wrapper.transform(X.toarray()), K, atol=1e-10)
        p = k.model.fit_each(X)
        np.testing.assert_allclose(mc.ProbabilityProduct()(p.dense(), p), expected, atol=1e-12)


def test_parameters_have_no_gradients():
    torch = pytest.importorskip("torch")
    p = mc.Poissons([[1.0], [4.0]])
    value = torch.tensor(0.7, requires_grad=True)
    for kernel, name in (
        (mc.ProbabilityProduct(rho=value), "rho"),
        (mc.MeanMap(gamma=value), "gamma"),
        (mc.RBF(gamma=value), "gamma"),
        (mc.kernels.Gaussianized(mc.MeanMap(), gamma=value), "gamma"),
    ):
        with pytest.raises(TypeError, match=rf"{name} must be .* requires a gradient.* Pass {name}.item\(\)"):
            kernel.fit(p if name == "rho" or isinstance(kernel, mc.MeanMap | mc.kernels.Gaussianized) else [[0.0]])
    plain = mc.ProbabilityProduct(rho=torch.tensor(0.7, dtype=torch.float64))(p)
    np.testing.assert_allclose(plain, mc.ProbabilityProduct(rho=0.7)(p))


def test_the_length_is_needed_and_ten_thousand_is_fine():
    p = hmms(np.random.default_rng(0).standard_normal((4, 12)))
    with pytest.raises(ValueError, match=r"Pass length=10 to the kernel, .* or length=mc.Disc"):
        mc.ProbabilityProduct(length=None)(p)
    np.testing.assert_array_equal(mc.ProbabilityProduct()(p), mc.ProbabilityProduct(length=10)(p))
    k = mc.ProbabilityProduct(rho=1.0, length=10_000)
    assert np.isfinite(k(p)).all()
    assert k(p).max() <= 1
    raw = mc.ProbabilityProduct(rho=1.0, length=10_000, normalize=False)
    assert np.isfinite(raw.log(p)).all()
    assert np.all(raw(p) == 0)
    assert np.isfinite(mc.MeanMap(length=10_000)(p)).all()


@pytest.mark.parametrize("length", [0, -1, 1.5, "ten", True, np.nan, np.inf, [3]])
def test_bad_length(length):
    p = hmms(np.random.default_rng(0).standard_normal((2, 12)))
    for kernel in (mc.ProbabilityProduct(length=length), mc.MeanMap(length=length)):
        with pytest.raises(ValueError, match="the number of observations of the compared sequences"):
            kernel(p)


@pytest.mark.parametrize("length", [10**9, 10_000_001, 10**300])
def test_a_length_that_would_take_hours(length):
    p = hmms(np.random.default_rng(0).standard_normal((2, 12)))
    for kernel in (mc.ProbabilityProduct(length=length), mc.MeanMap(length=length)):
        with pytest.raises(ValueError, match=r"length must be .* to 10000000, .*; got \d+\. .*mc.Discounted"):
            kernel(p)


@pytest.mark.parametrize("rho", [0, -1.0, np.nan, np.inf, "half", None])
def test_bad_rho(rho):
    with pytest.raises(ValueError, match=r"rho must be .*; got"):
        mc.ProbabilityProduct(rho=rho)(mc.Poissons([[1.0]]))


@pytest.mark.parametrize("kernel", [mc.ProbabilityProduct, mc.MeanMap, mc.JensenShannon])
@pytest.mark.parametrize("model", [mc.Gaussian, "gaussian", mc.Poissons([[1.0]]), 3])
def test_model_that_is_none(kernel, model):
    with pytest.raises(TypeError, match=r"model must be an estimator, or None; got .* such as mc.Gaussian\(\)"):
        kernel(model)([[1.0], [2.0]])


@pytest.mark.parametrize("data", [np.zeros((3, 2)), ["ab"], np.array([1, None], dtype=object), "ab"])
def test_raw_data_without_a_model(data):
    with pytest.raises(TypeError, match=r"has no model, and .* is not a batch of distributions\. Pass a model"):
        mc.ProbabilityProduct()(data)


POISSONS = mc.Poissons(np.ones((3, 2)))
FAMILY = "Cannot pair .* must be of the same family"
TWO_SIDES = [
    (POISSONS, mc.families.Bernoullis(np.full((3, 2), 0.5)), TypeError, FAMILY),
    (POISSONS, mc.Poissons(np.ones((3, 3))), ValueError, "differ in dimension"),
    (
        mc.Categoricals([[0.5] * 2]),
        mc.Multinomials([[0.5] * 2]),
        TypeError,
        FAMILY,
    ),
    (
        mc.Categoricals([[0.25] * 4], alphabet="dna"),
        mc.Categoricals([[0.25] * 4], alphabet="rna"),
        ValueError,
        "differ in alphabet.*make both with the same alphabet",
    ),
    (
        mc.Multinomials([[0.5] * 2]),
        mc.Multinomials(sparse.csr_array([[0.5, 0.5, 0.0]])),
        ValueError,
        "differ in dimension",
    ),
    (
        mc.Gaussians(np.zeros((1, 2)), np.ones(1)),
        mc.Gaussians(np.zeros((1, 2)), np.ones((1, 2))),
        ValueError,
        "differ in structure",
    ),
]


@pytest.mark.parametrize(("a", "b", "error", "match"), TWO_SIDES)
@pytest.mark.parametrize("kernel", [mc.ProbabilityProduct(), mc.JensenShannon(), 2.0 * mc.ProbabilityProduct()])
def test_two_sides_that_do_not_match(kernel, a, b, error, match):
    with pytest.raises(error, match=match):
        kernel(a, b)
    with pytest.raises(error, match=match):
        kernel.fit(b).transform(a)


def test_hmms_that_do_not_match():
    rng = np.random.default_rng(0)
    a, b = hmms(rng.standard_normal((2, 12))), hmms(rng.standard_normal((2, 14)), symbols=4)
    with pytest.raises(ValueError, match="differ in alphabet"):
        mc.ProbabilityProduct(length=3)(a, b)


@pytest.mark.parametrize("shape", [(), (3, 3)])
def test_batch_shape(shape):
    p = mc.Poissons(np.ones((*shape, 2)))
    with pytest.raises(ValueError, match=r"a batch of shape \(N,\); got .* Use p\[3:4\] or p.reshape\(-1\)"):
        mc.ProbabilityProduct()(p)


def test_models_and_data_meet():
    """A batch on one side, data on the other; a kernel fitted to a batch knows nothing about data."""
    X = np.random.default_rng(0).normal(size=(5, 2))
    k = mc.ProbabilityProduct(mc.Gaussian("isotropic"))
    p = k.model.fit_each(X)
    np.testing.assert_allclose(k(X, p), k(X), atol=1e-12)
    np.testing.assert_allclose(k(p, X), k(X), atol=1e-12)
    np.testing.assert_allclose(k.fit(X).transform(p), k(X), atol=1e-12)
    with pytest.raises(ValueError, match=r"fitted to a batch of models .*Fit it to data"):
        k.fit(p).transform(X)


def test_extreme_members_stay_finite():
    tiny = 1e-300
    p = mc.Categoricals([[1 - 2 * tiny, tiny, tiny], [tiny, 1.0, 0.0], [0.0, 0.0, 1.0], [1 / 3] * 3])
    g = mc.Gaussians(np.array([[0.0], [1e-9], [1e6], [0.0]]), np.array([1e-12, 1e-12, 1e-12, 1e12]))
    for rho in (0.3, 0.5, 1.0, 2.0):
        for X in (p, g):
            k = mc.ProbabilityProduct(rho=rho)
            assert np.isfinite(k(X)).all()
            assert not np.isnan(k.log(X)).any()
            assert mc.gram.psd.check(k(X))
    assert np.isfinite(mc.JensenShannon()(p)).all()
    assert np.isfinite(mc.JensenShannon(form="inverse")(g)).all()
    assert np.isfinite(mc.MeanMap(gamma=1e6)(g)).all()


def test_overflow_is_a_sentence():
    p = mc.Gaussians(np.zeros((2, 60)), np.full(2, 1e-12))
    k = mc.ProbabilityProduct(rho=1.0, normalize=False)
    assert np.isfinite(k.log(p)).all()
    for ask in (k, k.diag, k.distance, mc.kernels.Gaussianized(k)):
        with pytest.raises(OverflowError, match=r"overflow. Use kernel.log\(X\), or normalize"):
            ask(p)


def test_singular_covariances_at_rho_half():
    p = mc.Gaussians(np.zeros((2, 2)), np.zeros((2, 2, 2)))
    with pytest.raises(ValueError, match="singular covariance"):
        mc.ProbabilityProduct()(p)


def test_hellinger_and_known_values():
    """PPK-1a: the un-normalised distance is sqrt(2 - 2 k); rho = 1/2 has unit self-kernels (T-3)."""
    p = mc.Poissons([[1.0], [4.0], [9.0]])
    k = mc.ProbabilityProduct(normalize=False)
    np.testing.assert_allclose(k.diag(p), 1.0, rtol=1e-12)
    np.testing.assert_allclose(k.distance(p), np.sqrt(2 - 2 * k(p)), atol=1e-7)
    g = mc.Gaussians([[0.0], [3.0]], [0.5 * 1.7**2] * 2)  # PPK-1b: an RBF kernel
    np.testing.assert_allclose(mc.ProbabilityProduct(rho=1.0)(g)[0, 1], np.exp(-9 / (2 * 1.7**2)), rtol=1e-12)


POINTS = [[[1.0, 2.0], [2.0, 3.0], [0.0, 5.0]], [[3.0, 4.0], [1.0, 1.0], [2.0, 7.0]]]


def test_matrices_of_different_kinds_meet():
    rows = [[1.0, 2.0], [2.0, 3.0], [0.0, 1.0]]
    forms = [rows, np.array(rows), tuple(map(tuple, rows)), iter(rows)]
    k = mc.ProbabilityProduct(mc.Gaussian(floor=1.0))
    pandas = pytest.importorskip("pandas")
    for other in forms:
        np.testing.assert_allclose(k(pandas.DataFrame(rows), other), k(np.array(rows)))
    np.testing.assert_allclose(k(rows, pandas.DataFrame(rows)), k(np.array(rows)))
    k = mc.ProbabilityProduct(mc.Multinomial())
    np.testing.assert_allclose(k(sparse.csr_array(np.array(rows)), rows), k(rows))


def test_wrapped_models_and_data():
    rng = np.random.default_rng(0)
    p = mc.Gaussians(rng.normal(size=(20, 2)), np.ones((20, 2)))
    wrapped, y, k = mc.objects(p), np.arange(20) % 2, mc.ProbabilityProduct()
    for form in (wrapped, wrapped[:, None], list(wrapped)):
        np.testing.assert_array_equal(k(form), k(p))
        np.testing.assert_allclose(k(form, p[:3]), k(p, p[:3]))
    classifier = SVC(kernel=k).fit(wrapped, y)
    expected = SVC(kernel="precomputed").fit(k(p), y)
    np.testing.assert_allclose(classifier.decision_function(wrapped[:5]), expected.decision_function(k(p[:5], p)))
    piped = cross_val_score(make_pipeline(k, SVC(kernel="precomputed")), wrapped, y, cv=2)
    np.testing.assert_array_equal(cross_val_score(SVC(kernel=k), wrapped, y, cv=2), piped)
    k = mc.ProbabilityProduct(mc.Categorical())
    for data in (["ab", "b"], mc.Sequences(["ab", "b"], alphabet="abc")):
        np.testing.assert_allclose(k(["a"], mc.objects(data)), k(["a"], data))
    k = mc.ProbabilityProduct(mc.Gaussian())
    np.testing.assert_allclose(k(mc.objects(np.array(POINTS))), k(POINTS))
    counts = mc.Multinomial().fit_each(sparse.csr_array(np.array([[1.0, 2.0], [0.0, 3.0]])))
    np.testing.assert_allclose(mc.ProbabilityProduct()(mc.objects(counts)), mc.ProbabilityProduct()(counts))


def test_two_array_libraries():
    torch = pytest.importorskip("torch")
    p = mc.Gaussians(np.zeros((2, 2)), np.ones((2, 2)))
    q = mc.Gaussians(torch.zeros(2, 2, dtype=torch.float64), torch.ones(2, 2, dtype=torch.float64))
    k = mc.ProbabilityProduct()
    for a, b in ((p, q), (q, p)):
        with pytest.raises(TypeError, match=r"arrays of different libraries, .*Convert one of them"):
            k(a, b)
        with pytest.raises(TypeError, match="arrays of different libraries"):
            (k + mc.MeanMap()).fit(a).transform(b)
