"""MeanMap(n_components=...): characteristic functions one at a time, and the exact kernels within standard errors."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from tests.batches import WIDTH, categoricals, gaussians, mixtures, poissons

import mercer as mc
from mercer.families import characteristic
from mercer.models import kde
from mercer.testing.kernels import Gradients, KernelContract, PluralContract


def frequencies(gamma, count, d, seed=0):
    rng = np.random.default_rng(seed)
    return math.sqrt(2 * gamma) * rng.standard_normal((count, d))


def full(covariance, d):
    return {0: covariance * np.eye(d), 1: np.diag(np.atleast_1d(covariance)), 2: covariance}[np.ndim(covariance)]


def gaussian_characteristic(mean, covariance, w):
    return np.exp(1j * w @ mean - w @ full(covariance, len(mean)) @ w / 2)


def gram(characteristic):
    characteristic = np.array(characteristic)
    return (characteristic @ characteristic.conj().T).real / characteristic.shape[1]


class Features:
    features = True
    gamma, count = 0.3, 30

    def kernel(self):
        return mc.MeanMap(gamma=self.gamma, n_components=self.count)


class TestFullGaussians(Features, Gradients, PluralContract):
    width, structure = WIDTH[gaussians], "full"

    def build(self, z):
        return gaussians(z, self.structure)

    def adversarial(self):  # wide ones underflow, which has a test of its own
        z = self.free(99, 24)
        return self.build(np.concatenate([z[:16], z[16:17] + 1e-8 * z[16:]]))

    def truth(self, X):
        w = frequencies(self.gamma, self.count, 2)
        return gram([[gaussian_characteristic(p.mean, p.covariance, f) for f in w] for p in X])


class TestMixtures(Features, Gradients, PluralContract):
    width, gamma = WIDTH[mixtures], 0.5

    def build(self, z):
        return mixtures(z)

    def truth(self, X):
        w = frequencies(self.gamma, self.count, 1)

        def characteristic(p, f):
            parts = zip(p.weights, p.components.mean, p.components.covariance, strict=True)
            return sum(a * gaussian_characteristic(m, v, f) for a, m, v in parts)

        return gram([[characteristic(p, f) for f in w] for p in X])


class TestKDEs(Features, KernelContract):
    test_other_array_libraries = None  # computes with NumPy only

    def data(self, seed, n):
        rng = np.random.default_rng(seed)
        return mc.models.KDEs(
            [rng.normal(size=(size, 2)) for size in rng.integers(1, 9, size=n)], rng.uniform(0.1, 1, size=n)
        )

    def truth(self, X):
        w = frequencies(self.gamma, self.count, 2)
        characteristic = [
            [np.mean([gaussian_characteristic(x, p.bandwidth, f) for x in p.points.set(0)]) for f in w]
            for p in (X[i] for i in range(len(X)))
        ]
        return gram(characteristic)


# -- against the exact kernels -----------------------------------------------------------------------------------


def free(n, width, seed=0):
    return 0.6 * np.random.default_rng(seed).standard_normal((n, width))


def sets(seed=0):
    rng = np.random.default_rng(seed)
    return mc.models.KDEs([rng.normal(i % 3, 1, size=(5 + i, 2)) for i in range(5)], 0.3)


BATCHES = {
    "full": gaussians(free(5, 5)),
    "diagonal": gaussians(free(5, 5), "diagonal"),
    "isotropic": gaussians(free(5, 5), "isotropic"),
    "points": mc.Gaussians(free(5, 2), np.zeros(5)),
    "mixtures": mixtures(free(5, 6)),
    "kdes": sets(),
    "categoricals": categoricals(free(5, 4)),
    "multinomials": categoricals(free(5, 4), mc.Multinomials),
    "poissons": poissons(free(5, 2)),
    "mixtures of categoricals": mc.Mixtures(
        np.full((4, 2), 0.5), mc.Categoricals(np.random.default_rng(1).dirichlet(np.ones(3), (4, 2)))
    ),
}


@pytest.mark.parametrize("name", BATCHES)
@pytest.mark.parametrize("normalize", [True, False])
def test_exact_kernel_within_the_reported_errors(name, normalize):
    batch = BATCHES[name]
    kernel = mc.MeanMap(gamma=0.4, normalize=normalize)
    exact = kernel(batch)
    random = mc.MeanMap(gamma=0.4, normalize=normalize, n_components=4000)
    found, said = random(batch), random.standard_errors(batch)
    assert np.all(np.abs(found - exact) < 4 * said + 1e-9)
    assert np.mean(said) < 0.03
    assert np.linalg.eigvalsh(found).min() > -1e-12
    assert_allclose(random.features(batch) @ random.features(batch).T, found, atol=1e-12)


def test_errors_fall_as_the_root_of_the_number():
    """Mean squares over seeds: a sixteenth for 16 times the frequencies, within what 40 seeds tell."""
    batch = gaussians(free(4, 5))
    exact = mc.MeanMap(gamma=0.4, normalize=False)(batch)

    def error(count):
        kernels = (mc.MeanMap(gamma=0.4, n_components=count, random_state=i, normalize=False) for i in range(40))
        return np.mean([(k(batch) - exact) ** 2 for k in kernels])

    assert 8 < error(50) / error(800) < 32


# -- the pieces --------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), shift=st.sampled_from([0.0, -800.0, -1e5]))
def test_averages_in_logarithms(seed, shift):
    """Against plain complex arithmetic; moduli may be far below the smallest number."""
    rng = np.random.default_rng(seed)
    weights, logs, angle = rng.dirichlet(np.ones(4)), rng.normal(size=(4, 3)), 20 * rng.normal(size=(4, 3))
    with np.errstate(divide="ignore"):
        found, turned = characteristic.log_average(np.log(weights), logs + shift, angle)
    truth = weights @ np.exp(logs + 1j * angle)
    assert_allclose(np.exp(found - shift + 1j * turned), truth, rtol=1e-9, atol=1e-11)


def test_characteristic_functions_that_cancel():
    logs, angle = characteristic.log_polar(np.zeros(2), np.array([0.0, 2.0]))
    assert_allclose(np.exp(logs), [0, 2])
    assert_allclose(angle, [0, math.pi / 2])
    torch = pytest.importorskip("torch")
    zero = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    logs, angle = characteristic.log_polar(zero, zero)
    (torch.exp(logs) * torch.cos(angle)).sum().backward()
    assert torch.isfinite(zero.grad).all()


@pytest.mark.parametrize("structure", ["full", "diagonal", "isotropic"])
def test_any_batch_shape(structure):
    w = frequencies(0.4, 3, 2)
    p = gaussians(free(6, 5), structure)
    logs, angle = p.log_characteristic(w)
    for shape in ((2, 3), (6, 1)):
        for found, flat in zip(p.reshape(*shape).log_characteristic(w), (logs, angle), strict=True):
            assert_allclose(found, flat.reshape(*shape, 3), rtol=1e-14)
    assert_allclose(p[4].log_characteristic(w), (logs[4], angle[4]), rtol=1e-14)
    single = sets()[2].log_characteristic(w)
    assert_allclose(single, [part[2] for part in sets().log_characteristic(w)], rtol=1e-14)


def test_pieces_change_nothing(monkeypatch):
    kernel = mc.MeanMap(gamma=0.4, n_components=9)
    batches = [gaussians(free(4, 5)), mixtures(free(4, 6)), sets()]
    whole = [kernel.features(batch) for batch in batches]
    monkeypatch.setattr(characteristic, "CHUNK", 10)
    monkeypatch.setattr(kde, "VALUES", 6)
    for batch, expected in zip(batches, whole, strict=True):
        assert expected.shape == (len(batch), 18)
        assert_allclose(kernel.features(batch), expected, rtol=1e-12, atol=1e-14)


def test_single_precision():
    z = free(4, 5)
    found = mc.MeanMap(gamma=0.4, n_components=100)(gaussians(z.astype(np.float32)))
    assert found.dtype == np.float32
    assert_allclose(found, mc.MeanMap(gamma=0.4, n_components=100)(gaussians(z)), atol=1e-4)


def test_singular_and_rounded_covariances_have_no_modulus_above_one():
    rng = np.random.default_rng(0)
    v = 1e10 * rng.normal(size=(5, 3))
    p = mc.Gaussians(np.zeros((5, 3)), v[:, :, None] * v[:, None, :])
    logs, _ = p.log_characteristic(frequencies(1.0, 200, 3))
    assert np.all(logs <= 0)
    assert_allclose(mc.MeanMap(gamma=0.0, n_components=3)(p), 1.0)


def test_through_estimators():
    rng = np.random.default_rng(0)
    data = [rng.normal(i % 2, 1, size=(12, 2)) for i in range(6)]
    for model in (mc.Gaussian(), mc.KDE(), mc.Mixture(mc.Gaussian("diagonal"), n_components=2)):
        kernel = mc.MeanMap(model, gamma=0.5, n_components=60).fit(data)
        assert_allclose(kernel.transform(data), kernel(data), rtol=1e-9)
        assert mc.gram.psd.check(kernel(data))
    other = mc.MeanMap(mc.Gaussian(), gamma=0.5, n_components=60, random_state=1)(data)
    assert np.abs(other - mc.MeanMap(mc.Gaussian(), gamma=0.5, n_components=60)(data)).max() > 1e-3


def test_what_cannot():
    random = mc.MeanMap(n_components=3)
    for lacking in (
        mc.HMMs([[1.0]], [[[1.0]]], mc.families.Betas([[[1.0]]], [[[1.0]]])),
        mc.families.Betas([[1.0]], [[1.0]]),
        mc.Mixtures([[1.0]], mc.families.Betas([[[1.0]]], [[[1.0]]])),
    ):
        with pytest.raises(TypeError, match=r"needs `log_characteristic`, which .* does not have. Use Gaussians"):
            random(lacking)
    mixture = mc.Mixtures([[1.0]], mc.Multinomials([[[0.5, 0.5]]], trials=2))
    with pytest.raises(ValueError, match=r"aligns the 2 tokens of Multinomials, .* Use n_components=None"):
        random(mixture)
    with pytest.raises(ValueError, match=r"zero norm under MeanMap \(its features underflow .* use a smaller gamma"):
        random(mc.Gaussians([[0.0, 0.0]], [1e9]))
    with pytest.raises(ValueError, match=r"features of member 1 are not finite, .* Scale the data"):
        mc.MeanMap(n_components=30)(mc.Gaussians([[0.0], [1.7e308]], [0.0, 0.0]))
    with pytest.raises(ValueError, match="differ in dimension"):
        random(mc.Gaussians([[0.0]], [1.0]), mc.Gaussians([[0.0, 0.0]], [1.0]))


def test_features_from_the_log_partition_function():
    """The characteristic function continues it: features are near the closed form, where a family has one."""
    p = mc.families.Exponentials([[1.0, 2.0], [3.0, 0.5], [0.2, 1.0]])
    exact = mc.MeanMap(gamma=0.2)(p)
    assert_allclose(mc.MeanMap(gamma=0.2, n_components=20_000, random_state=0)(p), exact, atol=0.02)
    q = mc.families.Gammas([[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]], p.scale)  # the same distributions
    assert_allclose(mc.MeanMap(gamma=0.2, n_components=20_000, random_state=0)(q), exact, atol=0.02)


def test_few_frequencies_say_nothing():
    p = mc.Gaussians([[0.0], [1.0]], [1.0, 1.0])
    for seed in range(22, 25):
        kernel = mc.MeanMap(gamma=1e3, n_components=100, random_state=seed)
        assert np.isinf(kernel.standard_errors(p)).all()
        assert np.isinf(kernel.standard_errors(p, p[:1])).all()
    gone = mc.MeanMap(gamma=1e30, n_components=100, on_zero="zero")
    assert not gone(p).any()
    assert np.isinf(gone.standard_errors(p)).all()
    mixed = mc.Gaussians([[0.0], [1.0]], [1.0, 0.0])  # a point has full power at every frequency
    errors = mc.MeanMap(gamma=1e3, n_components=100).standard_errors(mixed)
    assert np.isinf(errors).tolist() == [[True, True], [True, False]]


def test_where_enough_frequencies_count_errors_are_right():
    p = mc.Gaussians([[0.0], [1.0]], [1.0, 1.0])
    truth = mc.MeanMap(gamma=100.0)(p)
    kernels = [mc.MeanMap(gamma=100.0, n_components=800, random_state=seed) for seed in range(60)]
    off = np.array([(k(p) - truth)[0, 1] / k.standard_errors(p)[0, 1] for k in kernels])
    assert 0.7 < off.std() < 1.4
