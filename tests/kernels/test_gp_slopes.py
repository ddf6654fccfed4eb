"""Closed forms of derivatives by rho and gamma, against extrapolated differences of log kernels."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import mercer as mc
from mercer._coupling import Smoothed
from mercer.families import PowerProduct
from mercer.kernels._slopes import chains as chain_slopes
from mercer.kernels._slopes import compound
from mercer.kernels._slopes.families import slope_of
from mercer.kernels._slopes.models import log_slopes

RHOS = (0.3, 0.5, 1.0, 2.0)
GAMMAS = (1e-3, 0.4, 5.0)


def extrapolated(f: Callable[[float], np.ndarray], x: float, step: float = 0.02) -> np.ndarray:
    """Return f'(x) by Richardson's extrapolation of central differences: an error of step^8."""

    def finite(x: float) -> np.ndarray:
        values = np.asarray(f(x), dtype=float)
        return np.where(values > -np.inf, values, 0.0)

    steps = [step * x / 2**i for i in range(4)]
    slopes = [(finite(x + h) - finite(x - h)) / (2 * h) for h in steps]
    for k in (1, 2, 3):
        slopes = [(4**k * fine - coarse) / (4**k - 1) for coarse, fine in itertools.pairwise(slopes)]
    return slopes[0]


def agree(slope: np.ndarray, truth: np.ndarray, tolerance: float = 1e-8) -> None:
    assert np.isfinite(slope).all()
    assert np.abs(slope - truth).max() <= tolerance * max(1.0, np.abs(truth).max())


def families(shape: tuple[int, ...], seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(*shape, 3, 3))
    return {
        "categoricals": mc.Categoricals(rng.dirichlet(np.ones(5), shape)),
        "multinomials": mc.Multinomials(rng.dirichlet(np.ones(4), shape), trials=4),
        "one trial": mc.Multinomials(rng.dirichlet(np.ones(4), shape)),
        "bernoullis": mc.Bernoullis(rng.integers(0, 11, size=(*shape, 3)) / 10),
        "poissons": mc.Poissons(rng.uniform(0, 30, size=(*shape, 2)) * rng.integers(0, 2, size=(*shape, 2))),
        "geometrics": mc.Geometrics(np.minimum(rng.uniform(0.1, 1.2, size=(*shape, 2)), 1)),
        "exponentials": mc.Exponentials(rng.uniform(0.1, 5, size=(*shape, 2))),
        "gammas": mc.Gammas(rng.uniform(1, 4, size=(*shape, 2)), rng.uniform(0.2, 4, size=(*shape, 2))),
        "betas": mc.Betas(rng.uniform(1, 4, size=(*shape, 2)), rng.uniform(1, 4, size=(*shape, 2))),
        "dirichlets": mc.Dirichlets(rng.uniform(1, 4, size=(*shape, 4))),
        "full": mc.Gaussians(rng.normal(size=(*shape, 3)), root @ root.swapaxes(-1, -2) + 0.3 * np.eye(3)),
        "diagonal": mc.Gaussians(rng.normal(size=(*shape, 3)), rng.uniform(0.3, 2, size=(*shape, 3))),
        "isotropic": mc.Gaussians(rng.normal(size=(*shape, 3)), rng.uniform(0.3, 2, size=shape)),
    }


P, Q = families((2, 4)), families((2, 3), seed=1)
SMOOTHED = [name for name, p in P.items() if hasattr(p, "log_mean_map")]


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("name", P)
def test_products_of_families(name: str, rho: float):
    p, q = P[name], Q[name]  # leading axes align, last axes cross
    slope = slope_of(p, PowerProduct(rho))(p, q, p.log_product(q, rho=rho))
    assert slope.shape == (2, 4, 3)
    agree(slope, extrapolated(lambda x: p.log_product(q, rho=x), rho))


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("name", SMOOTHED)
def test_mean_maps_of_families(name: str, gamma: float):
    p, q = P[name], Q[name]
    slope = slope_of(p, Smoothed(gamma))(p, q, p.log_mean_map(q, gamma=gamma))
    agree(slope, extrapolated(lambda x: p.log_mean_map(q, gamma=x), gamma))


@pytest.mark.parametrize(
    "p",
    [
        mc.Gammas(np.array([[1e8], [3e8], [1.1e8]]), np.array([[1e-8], [0.3e-8], [0.9e-8]])),
        mc.Dirichlets(np.array([[1e7, 2e7, 3e7], [1.1e7, 2e7, 2.9e7]])),
        mc.Poissons([[1e6], [1.001e6], [0.0], [1e-9]]),
        mc.Exponentials([[1e-5], [1.0], [1e4]]),
        mc.Geometrics([[1e-7], [1.0], [0.5]]),
    ],
    ids=["gammas", "dirichlets", "poissons", "exponentials", "geometrics"],
)
def test_large_and_small_parameters(p: Any):
    for rho in RHOS:
        slope = slope_of(p, PowerProduct(rho))(p, p, p.log_product(p, rho=rho))
        agree(slope, extrapolated(lambda x: p.log_product(p, rho=x), rho), 1e-7)
    if hasattr(p, "log_mean_map") and not isinstance(p, mc.Poissons):
        slope = slope_of(p, Smoothed(1e-3))(p, p, p.log_mean_map(p, gamma=1e-3))
        truth = extrapolated(lambda x: p.log_mean_map(p, gamma=x), 1e-3)
        np.testing.assert_allclose(slope, truth, rtol=1e-5, atol=1e-7)  # the difference loses digits, not the slope


def test_the_derivative_of_a_narrow_exponential_law():
    # E exp(-gamma |x - y|^2) = 1 - gamma E |x - y|^2 + ..., E |x - y|^2 = 2 b^2 for one scale b
    p = mc.Exponentials([[1e-6]])
    slope = slope_of(p, Smoothed(1.0))(p, p, p.log_mean_map(p, gamma=1.0))
    np.testing.assert_allclose(slope, -2e-12, rtol=1e-6)


def test_sparse_rows_and_powers_that_underflow():
    rng = np.random.default_rng(0)
    rows = rng.dirichlet(np.full(40, 0.1), 9) * (rng.uniform(size=(9, 40)) < 0.1)
    rows[:, 0] += 1e-200 * (np.arange(9) % 2)
    rows[:, 1] += 1e-3 * (np.arange(9) == 8)
    rows /= rows.sum(axis=1, keepdims=True)
    p, q = mc.Multinomials(rows), mc.Multinomials(sparse.csr_array(rows))
    assert np.isinf(p.log_product(p)).any()
    for rho in (0.3, 2.0, 300.0):
        slope = log_slopes(p, PowerProduct(rho), None)
        agree(slope, extrapolated(lambda x: p.log_product(p, rho=x), rho))
        np.testing.assert_allclose(log_slopes(q, PowerProduct(rho), None), slope, rtol=1e-12)
        assert (slope[p.log_product(p) == -np.inf] == 0).all()
    for gamma in (1e-3, 1.0, 400.0, 1e4):
        slope = log_slopes(p, Smoothed(gamma), None)
        agree(slope, extrapolated(lambda x: p.log_mean_map(p, gamma=x), gamma), 1e-7)
        np.testing.assert_allclose(log_slopes(q, Smoothed(gamma), None), slope, atol=1e-12)


# -- models ----------------------------------------------------------------------------------------------


def hmms(count: int, n: int, seed: int = 0, sparse_rows: bool = False) -> mc.HMMs:
    rng = np.random.default_rng(seed)
    initial, transition = rng.dirichlet(np.ones(n), count), rng.dirichlet(np.ones(n), (count, n))
    emitted = rng.dirichlet(np.ones(4), (count, n))
    if sparse_rows:  # what is impossible stays so
        transition = transition * (rng.uniform(size=transition.shape) < 0.6) + 1e-3 * np.eye(n)
        emitted = emitted * (rng.uniform(size=emitted.shape) < 0.5)
        emitted[..., 0] += 1e-3
        transition, emitted = (x / x.sum(axis=-1, keepdims=True) for x in (transition, emitted))
    return mc.HMMs(initial, transition, mc.Categoricals(emitted))


def of_gaussians(spread: float) -> mc.HMMs:
    rng = np.random.default_rng(3)
    emission = mc.Gaussians(spread * rng.normal(size=(4, 3, 2)), np.full((4, 3, 2), 0.3))
    return mc.HMMs(rng.dirichlet(np.ones(3), 4), rng.dirichlet(np.ones(3), (4, 3)), emission)


def of_mixtures() -> mc.HMMs:
    rng = np.random.default_rng(4)
    emission = mc.Mixtures(rng.dirichlet(np.ones(3), (4, 2)), mc.Poissons(rng.uniform(0.1, 9, size=(4, 2, 3, 1))))
    return mc.HMMs(rng.dirichlet(np.ones(2), 4), rng.dirichlet(np.ones(2), (4, 2)), emission)


def chains(order: int, end: bool = False) -> mc.MarkovChains:
    rng = np.random.default_rng(order)
    k = 3 if end else 2
    transition = rng.dirichlet(np.ones(k), (4, 2**order)) * (rng.uniform(size=(4, 2**order, k)) < 0.8)
    transition[..., 0] += 1e-3
    transition /= transition.sum(axis=-1, keepdims=True)
    starts = 2**order + (2**order - 1 if end else 0)
    return mc.MarkovChains(rng.dirichlet(np.ones(starts), 4), transition, order=order, alphabet="ab", end=end)


UNLIKE = mc.HMMs.concat([hmms(2, 2), hmms(2, 4, 1), hmms(2, 1, 2), hmms(2, 3, 5, sparse_rows=True)])
WEIGHTS = [[0.5, 0.5], [1.0, 0.0], [0.3, 0.7]]
MODELS: dict[str, tuple[Any, Any, tuple[str, ...]]] = {
    "hmms, L = 1": (UNLIKE, (1,), ("rho", "gamma")),
    "hmms, L = 10": (UNLIKE, (10,), ("rho", "gamma")),
    "hmms, L = 200": (UNLIKE, (200,), ("rho", "gamma")),
    "hmms of gaussians": (of_gaussians(2.0), (20,), ("rho", "gamma")),
    "hmms of gaussians far apart": (of_gaussians(100.0), (7,), ("rho", "gamma")),
    "hmms of mixtures": (of_mixtures(), (7,), ("rho", "gamma")),
    "mixtures of gammas": (mc.Mixtures(WEIGHTS, families((3, 2))["gammas"]), None, ("rho",)),
    "mixtures of bernoullis": (mc.Mixtures(WEIGHTS, families((3, 2))["bernoullis"]), None, ("rho", "gamma")),
    "mixtures of mixtures": (
        mc.Mixtures(WEIGHTS, mc.Mixtures(np.full((3, 2, 2), 0.5), families((3, 2, 2))["full"])),
        None,
        ("rho", "gamma"),
    ),
    "chains without a memory": (chains(0), (5,), ("rho", "gamma")),
    "chains, L = 1": (chains(2), (1,), ("rho", "gamma")),
    "chains, L = 10": (chains(2), (10,), ("rho", "gamma")),
    "chains, L = 200": (chains(1), (200,), ("rho", "gamma")),
    "chains of order 3": (chains(3), (9,), ("rho",)),
    "chains with an end": (chains(1, end=True), (6,), ("rho",)),
}


def log_kernel(batch: Any, coupling: Any, lengths: Any) -> np.ndarray:
    operand = batch.couple(coupling, lengths)
    values = operand.pair(operand)
    return values if lengths is None else values[0]


@pytest.mark.parametrize("case", MODELS)
def test_models(case: str):
    batch, lengths, parameters = MODELS[case]
    for name, coupling, values in (("rho", PowerProduct, RHOS), ("gamma", Smoothed, (0.02, 0.7))):
        for value in values if name in parameters else ():
            slope = log_slopes(batch, coupling(value), lengths)
            truth = extrapolated(lambda x: log_kernel(batch, coupling(x), lengths), value)  # noqa: B023
            agree(slope, truth, 1e-7)
            assert (slope[log_kernel(batch, coupling(value), lengths) == -np.inf] == 0).all()


@pytest.mark.parametrize("coupling", [PowerProduct(0.6), Smoothed(0.6)])
def test_three_ways_to_sweep_chains(coupling: Any, monkeypatch: pytest.MonkeyPatch):
    batch = mc.HMMs.concat([hmms(5, 2), hmms(4, 2, 7, sparse_rows=True)])
    slope = log_slopes(batch, coupling, (30,))
    monkeypatch.setattr(chain_slopes, "LANE_WORK", 0.0)
    np.testing.assert_allclose(log_slopes(batch, coupling, (30,)), slope, rtol=1e-12)
    monkeypatch.setattr(chain_slopes, "AGREE", -1.0)  # all in logarithms
    np.testing.assert_allclose(log_slopes(batch, coupling, (30,)), slope, rtol=1e-11)


def test_probabilities_whose_powers_underflow():
    tiny = mc.HMMs(
        [[1.0, 0.0], [1.0, 0.0]],
        [[[1 - 1e-200, 1e-200], [0.0, 1.0]], [[0.5, 0.5], [1e-100, 1 - 1e-100]]],
        mc.Categoricals([[[1.0, 0.0], [0.0, 1.0]], [[1e-150, 1.0], [0.0, 1.0]]], alphabet="ab"),
    )
    for rho in (1.0, 2.0, 5.0):
        slope = log_slopes(tiny, PowerProduct(rho), (12,))
        agree(slope, extrapolated(lambda x: log_kernel(tiny, PowerProduct(x), (12,)), rho), 1e-7)
        assert np.abs(slope).max() > 100


def test_kernel_density_estimates():
    rng = np.random.default_rng(0)
    p = mc.KDEs([s * rng.normal(size=(n, 2)) for n, s in ((5, 1), (40, 1), (1, 100), (300, 3))], [0.1, 0.2, 0.3, 1.0])
    for gamma in (1e-3, 0.5, 300.0):
        truth = extrapolated(lambda x: p.log_mean_map(p, gamma=x), gamma)
        np.testing.assert_allclose(log_slopes(p, Smoothed(gamma), None), truth, rtol=1e-9)
    with pytest.raises(ValueError, match=r"as_gp\(\{'rho': 'fixed'\}\)"):
        mc.ProbabilityProduct(rho=1.0).as_gp()(p, eval_gradient=True)
    assert mc.ProbabilityProduct(rho=1.0).as_gp("fixed")(p, eval_gradient=True)[1].shape == (4, 4, 0)


# -- whole kernels ---------------------------------------------------------------------------------------


def text(n: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return mc.objects(mc.Sequences(["".join(rng.choice(list("abc"), rng.integers(8, 14))) for _ in range(n)]))


def series(n: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return mc.objects([rng.normal(size=(rng.integers(5, 12), 2)) for _ in range(n)])


LETTERS = mc.HMMs(
    [[0.5, 0.5]], [[[0.9, 0.1], [0.3, 0.7]]], mc.Categoricals([[[0.6, 0.2, 0.2], [0.1, 0.4, 0.5]]], alphabet="abc")
)
VECTORS = mc.HMMs(
    [[0.3, 0.7]], [[[0.9, 0.1], [0.2, 0.8]]], mc.Gaussians([[[0.0, 0.0], [1.0, 1.0]]], np.ones((1, 2, 2)))
)
UNSCALED = mc.MeanMap(gamma=0.6, length=3, normalize=False)
ALIKE = mc.objects(["abcabcabcabc", "abcabcabcabb", "b" * 11])
KERNELS: dict[str, tuple[Any, Any]] = {
    "points": (mc.EmpiricalMeanMap(gamma=0.7), series(6)),
    "points, not normalised": (mc.EmpiricalMeanMap(gamma=0.7, normalize=False), series(6)),
    "far points": (mc.EmpiricalMeanMap(gamma=2e3, normalize=False), series(4)),
    "windows of points": (mc.EmpiricalMeanMap(order=2, gamma=0.3), series(6)),
    "letters": (mc.EmpiricalMeanMap(gamma=0.7), text(6)),
    "windows of letters": (mc.EmpiricalMeanMap(order=2, gamma=0.7), text(6)),
    "windows that differ": (mc.EmpiricalMeanMap(order=3, gamma=9.0, normalize=False), text(6)),
    "long windows": (mc.EmpiricalMeanMap(order=7, gamma=0.2, normalize=False), text(5)),
    "longer windows": (
        mc.EmpiricalMeanMap(order=8, gamma=0.2, alphabet="abc"),
        ALIKE,
    ),
    "states of letters": (mc.LatentMeanMap(LETTERS, gamma=0.7), text(6)),
    "states of letters, two gammas": (mc.LatentMeanMap(LETTERS, gamma=0.7, gamma_states=0.2), text(6)),
    "states of vectors": (mc.LatentMeanMap(VECTORS, gamma=0.7), series(6)),
    "states of vectors, two gammas": (
        mc.LatentMeanMap(VECTORS, gamma=0.7, gamma_states=0.2, normalize=False),
        series(6),
    ),
    "states without steps": (mc.LatentMeanMap(VECTORS, gamma=0.7, transitions=False), series(6)),
    "random features of vectors": (mc.LatentMeanMap(VECTORS, gamma=0.7, n_components=30), series(6)),
    "random features, two gammas": (mc.LatentMeanMap(VECTORS, gamma=2.0, gamma_states=0.3, n_components=30), series(6)),
    "hmms": (mc.ProbabilityProduct(rho=0.6, length=6), UNLIKE),
    "mean map of hmms": (mc.MeanMap(gamma=0.6, length=6, normalize=False), UNLIKE),
    "mixtures": (mc.ProbabilityProduct(rho=0.6), MODELS["mixtures of gammas"][0]),
    "sum": (
        2.0 * mc.ProbabilityProduct(rho=0.4, length=6) + mc.Normalized(UNSCALED),
        UNLIKE,
    ),
    "product": (
        mc.Tempered(mc.ProbabilityProduct(rho=0.4, length=6) * mc.MeanMap(gamma=0.6, length=3), beta=0.5),
        UNLIKE,
    ),
}


@pytest.mark.parametrize("case", KERNELS)
def test_kernels_without_a_difference(case: str, monkeypatch: pytest.MonkeyPatch):
    kernel, X = KERNELS[case]
    gp = kernel.as_gp()
    K, gradient = gp(X, eval_gradient=True)
    theta = gp.theta
    for place in range(len(theta)):

        def at(value: float, place: int = place) -> np.ndarray:
            moved = theta.copy()
            moved[place] = np.log(value)
            return gp.clone_with_theta(moved)(X)

        value = float(np.exp(theta[place]))
        truth = value * extrapolated(at, value)
        np.testing.assert_allclose(gradient[..., place], truth, rtol=1e-6, atol=1e-8 * np.abs(K).max())
        assert np.abs(gradient[..., place]).max() > 0
    monkeypatch.setattr(compound, "_numeric_slope", None)  # nothing calls it
    np.testing.assert_array_equal(gp(X, eval_gradient=True)[1], gradient)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.floats(-1.5, 1.0), st.floats(-3.0, 1.5), st.integers(1, 40))
def test_any_models_and_parameters(seed: int, rho: float, gamma: float, length: int):
    batch = mc.HMMs.concat([hmms(2, 2, seed, sparse_rows=True), hmms(2, 3, seed)])
    product = mc.ProbabilityProduct(rho=float(np.exp(rho)), length=length)
    gp = (product + mc.MeanMap(gamma=float(np.exp(gamma)), length=length)).as_gp()
    _, gradient = gp(batch, eval_gradient=True)
    for place in (0, 1):
        step = 1e-4 * np.eye(2)[place]
        ahead, behind = (gp.clone_with_theta(gp.theta + sign * step)(batch) for sign in (1, -1))
        np.testing.assert_allclose(gradient[..., place], (ahead - behind) / 2e-4, atol=1e-6 * (1 + length) ** 2)


# -- what has no closed form ------------------------------------------------------------------------------


class Bare(mc.Exponentials):
    """A family that offers no derivative."""


class Told(mc.Exponentials):
    """A family that offers one."""

    def log_product_slope(self, other: Any, rho: float) -> np.ndarray:
        """Derive the log product by rho."""
        a, b = self.scale[..., :, None, :], other.scale[..., None, :, :]
        return np.sum(-np.log(a * b) - 1 / rho, axis=-1)


def test_families_of_your_own(monkeypatch: pytest.MonkeyPatch):
    scale = np.random.default_rng(0).uniform(0.2, 3, size=(5, 2))
    known, told, bare = (kind(scale) for kind in (mc.Exponentials, Told, Bare))
    assert slope_of(bare, PowerProduct(0.5)) is None
    gp = mc.ProbabilityProduct(rho=0.7, normalize=False).as_gp()
    expected = gp(known, eval_gradient=True)[1]
    np.testing.assert_allclose(gp(bare, eval_gradient=True)[1], expected, rtol=1e-5)
    monkeypatch.setattr(compound, "_numeric_slope", None)
    np.testing.assert_allclose(gp(told, eval_gradient=True)[1], expected, rtol=1e-12)
    weights = np.full((5, 1), 1.0)
    mixed = gp(mc.Mixtures(weights, told.reshape(5, 1)), eval_gradient=True)[1]
    np.testing.assert_allclose(mixed, expected, rtol=1e-12)


def test_discounted_lengths_are_differences():
    gp = mc.ProbabilityProduct(rho=1.2, length=mc.Discounted(0.6)).as_gp()
    _, gradient = gp(UNLIKE, eval_gradient=True)
    truth = 1.2 * extrapolated(lambda x: mc.ProbabilityProduct(rho=x, length=mc.Discounted(0.6))(UNLIKE), 1.2)
    np.testing.assert_allclose(gradient[..., 0], truth, atol=1e-6)


def test_single_precision_is_derived_in_double():
    batch = hmms(4, 2)
    small = mc.HMMs(
        batch.initial.astype(np.float32),
        batch.transition.astype(np.float32),
        mc.Categoricals(batch.emission.probability.astype(np.float32)),
    )
    slope = log_slopes(small, PowerProduct(0.7), (10,))
    assert slope.dtype == np.float64
    np.testing.assert_allclose(slope, log_slopes(batch, PowerProduct(0.7), (10,)), rtol=1e-5)


def test_a_marginal_power_is_not_searched():
    kernel = mc.ProbabilityProduct(rho=2.0, marginal=True)
    assert kernel.as_gp().theta.shape == (0,)
    assert (3.0 * kernel).as_gp().theta.shape == (1,)


def test_what_never_occurs_has_no_slope():
    """A component of weight zero may have an infinite power."""
    k = mc.ProbabilityProduct(rho=2.0, normalize=False).as_gp()
    mixture = mc.Mixtures([[1.0, 0.0]], mc.Gammas([[[2.0], [0.7]]], [[[1.0], [1.0]]]))
    found, expected = (k(p, eval_gradient=True) for p in (mixture, mc.Gammas([[2.0]], [[1.0]])))
    for mine, plain in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, plain, rtol=1e-12)


@pytest.mark.parametrize(
    ("batch", "rho"),
    [
        (mc.KDEs(np.zeros((2, 3, 1)), 1.0), 1.0),
        (mc.CountVectors([[0.5, 0.5], [0.1, 0.9]], [3.0, 4.0], law="geometric"), 0.5),
    ],
)
def test_products_of_one_rho_alone(batch, rho):
    kernel = mc.ProbabilityProduct(rho=rho)
    with pytest.raises(ValueError, match=r"no derivative by rho, since rho = .* as_gp\(\{'rho': 'fixed'\}\)"):
        kernel.as_gp()(batch, eval_gradient=True)
    assert kernel.as_gp({"rho": "fixed"})(batch, eval_gradient=True)[1].shape == (2, 2, 0)
