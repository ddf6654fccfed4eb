"""Derivatives of Gram matrices by rho, gamma and the other parameters, against extrapolated differences."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

import mercer as mc
from mercer.families import sets
from mercer.families.special import exp, gammaln, log
from mercer.kernels._operands import Rows
from mercer.kernels.base import Kernel

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


def agree(slope: np.ndarray, truth: np.ndarray, tolerance: float = 1e-6) -> None:
    assert np.isfinite(slope).all()
    assert np.abs(slope - truth).max() <= tolerance * max(1.0, np.abs(truth).max())


def check(kernel: Kernel, batch: Any, name: str, tolerance: float = 1e-6) -> np.ndarray:
    """Compare the derivative of the log kernel by the log of a parameter with the truth; returns it."""
    K, gradient = kernel.as_gp()(batch, eval_gradient=True)
    place = [h.name for h in kernel.as_gp().hyperparameters].index(name)
    value = float(kernel.get_params()[name])

    def logs(x: float) -> np.ndarray:
        return np.asarray(clone(kernel).set_params(**{name: x}).log(batch))

    seen = K > 1e-290
    slope = np.divide(gradient[..., place], K, where=seen, out=np.zeros_like(K))
    agree(slope, np.where(seen, value * extrapolated(logs, value), 0.0), tolerance)
    assert (gradient[..., place][~np.isfinite(logs(value))] == 0).all()
    return slope


def families(shape: tuple[int, ...], seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(*shape, 3, 3))
    return {
        "categoricals": mc.Categoricals(rng.dirichlet(np.ones(5), shape)),
        "one trial": mc.Multinomials(rng.dirichlet(np.ones(4), shape)),
        "bernoullis": mc.families.Bernoullis(rng.integers(0, 11, size=(*shape, 3)) / 10),
        "poissons": mc.Poissons(rng.uniform(0, 30, size=(*shape, 2)) * rng.integers(0, 2, size=(*shape, 2))),
        "exponentials": mc.families.Exponentials(rng.uniform(0.1, 5, size=(*shape, 2))),
        "full": mc.Gaussians(rng.normal(size=(*shape, 3)), root @ root.swapaxes(-1, -2) + 0.3 * np.eye(3)),
        "diagonal": mc.Gaussians(rng.normal(size=(*shape, 3)), rng.uniform(0.3, 2, size=(*shape, 3))),
        "isotropic": mc.Gaussians(rng.normal(size=(*shape, 3)), rng.uniform(0.3, 2, size=shape)),
    }


P = families((6,))
SMOOTHED = [name for name, p in P.items() if hasattr(p, "log_mean_map")]


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("name", P)
def test_products_of_families(name: str, rho: float):
    check(mc.ProbabilityProduct(rho=rho, normalize=False), P[name], "rho")
    check(mc.ProbabilityProduct(rho=rho), P[name], "rho")


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("name", SMOOTHED)
def test_mean_maps_of_families(name: str, gamma: float):
    check(mc.MeanMap(gamma=gamma, normalize=False), P[name], "gamma")


@pytest.mark.parametrize(
    "p",
    [
        pytest.param(mc.Poissons([[1e6], [1.001e6], [0.0], [1e-9]]), marks=pytest.mark.slow),
        mc.families.Exponentials([[1e-5], [1.0], [1e4]]),
    ],
    ids=["poissons", "exponentials"],
)
def test_large_and_small_parameters(p: Any):
    for rho in RHOS:
        check(mc.ProbabilityProduct(rho=rho), p, "rho")
    if hasattr(p, "log_mean_map") and not isinstance(p, mc.Poissons):
        check(mc.MeanMap(gamma=1e-3, normalize=False), p, "gamma")


def test_the_derivative_of_a_narrow_exponential_distribution():
    # E exp(-gamma |x - y|^2) = 1 - gamma E |x - y|^2 + ..., and E |x - y|^2 = 2 b^2 for one scale b: by log gamma,
    # the derivative is -2e-12, far below the error of a difference of two kernels near 1
    p = mc.families.Exponentials([[1e-6]])
    _, gradient = mc.MeanMap(gamma=1.0, normalize=False).as_gp()(p, eval_gradient=True)
    np.testing.assert_allclose(gradient[..., 0], -2e-12, atol=1e-9)


def test_sparse_rows_and_powers_that_underflow():
    rng = np.random.default_rng(0)
    rows = rng.dirichlet(np.full(40, 0.1), 9) * (rng.uniform(size=(9, 40)) < 0.1)
    rows[:, 0] += 1e-200 * (np.arange(9) % 2)
    rows[:, 1] += 1e-3 * (np.arange(9) == 8)
    rows /= rows.sum(axis=1, keepdims=True)
    p, q = mc.Multinomials(rows), mc.Multinomials(sparse.csr_array(rows))
    assert np.isinf(p.log_product(p)).any()
    for rho in (0.3, 2.0, 300.0):
        kernel = mc.ProbabilityProduct(rho=rho)
        np.testing.assert_allclose(check(kernel, q, "rho"), check(kernel, p, "rho"), rtol=1e-8, atol=1e-9)
    for gamma in (1e-3, 1.0, 400.0, 1e4):
        kernel = mc.MeanMap(gamma=gamma)
        np.testing.assert_allclose(check(kernel, q, "gamma"), check(kernel, p, "gamma"), atol=1e-9)


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
    "mixtures of exponentials": (mc.Mixtures(WEIGHTS, families((3, 2))["exponentials"]), None, ("rho",)),
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


@pytest.mark.parametrize("case", MODELS)
def test_models(case: str):
    batch, lengths, parameters = MODELS[case]
    length = 10 if lengths is None else lengths[0]
    for rho in RHOS if "rho" in parameters else ():
        check(mc.ProbabilityProduct(rho=rho, length=length), batch, "rho")
    for gamma in (0.02, 0.7) if "gamma" in parameters else ():
        check(mc.MeanMap(gamma=gamma, length=length), batch, "gamma")


def test_probabilities_whose_powers_underflow():
    tiny = mc.HMMs(
        [[1.0, 0.0], [1.0, 0.0]],
        [[[1 - 1e-200, 1e-200], [0.0, 1.0]], [[0.5, 0.5], [1e-100, 1 - 1e-100]]],
        mc.Categoricals([[[1.0, 0.0], [0.0, 1.0]], [[1e-150, 1.0], [0.0, 1.0]]], alphabet="ab"),
    )
    for rho in (1.0, 2.0, 5.0):
        kernel = mc.Tempered(mc.ProbabilityProduct(rho=rho, length=12), exponent=0.01)  # itself is 0 between the two
        assert np.abs(check(kernel, tiny, "kernel__rho")).max() > 1


def test_kernel_density_estimates():
    rng = np.random.default_rng(0)
    p = mc.models.KDEs(
        [s * rng.normal(size=(n, 2)) for n, s in ((5, 1), (40, 1), (1, 100), (300, 3))], [0.1, 0.2, 0.3, 1.0]
    )
    for gamma in (1e-3, 0.5, 300.0):
        check(mc.MeanMap(gamma=gamma), p, "gamma")
    for rho in (0.3, 1.0, 2.0):
        check(mc.ProbabilityProduct(rho=rho), p, "rho")


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
    "mixtures": (mc.ProbabilityProduct(rho=0.6), MODELS["mixtures of exponentials"][0]),
    "sum": (
        2.0 * mc.ProbabilityProduct(rho=0.4, length=6) + mc.kernels.Normalized(UNSCALED),
        UNLIKE,
    ),
    "product": (
        mc.Tempered(mc.ProbabilityProduct(rho=0.4, length=6) * mc.MeanMap(gamma=0.6, length=3), exponent=0.5),
        UNLIKE,
    ),
}


@pytest.mark.parametrize("case", KERNELS)
def test_whole_kernels(case: str):
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


# -- kernels of your own, and special cases --------------------------------------------------------------


class Cauchy(Kernel):
    """A kernel with a smooth parameter of its own name, 1 / (1 + |x - y|^2 / width^2)."""

    _smooth = {"width": (0.1, 10.0)}  # noqa: RUF012

    def __init__(self, width: float = 1.0, t: int = 3) -> None:
        self.width = width
        self.t = t  # not smooth, though others have a parameter of this name that is

    def _accept(self, X: Any, *, reset: bool) -> Any:
        return np.asarray(X, dtype=float)

    def _prepare(self, source: Any) -> Any:
        return Rows(source)

    def _tile(self, a: Any, b: Any) -> Any:
        return -np.log1p(a.squared_distances(b) / self.width**2)

    def _self(self, a: Any) -> Any:
        return np.zeros(len(a))


def test_kernels_of_your_own_declare_their_parameters():
    X = np.random.default_rng(0).normal(size=(6, 2))
    kernel = 2.0 * Cauchy(width=1.5) + mc.Linear()
    gp = kernel.as_gp()
    assert [h.name for h in gp.hyperparameters] == ["k0__weight", "k0__kernel__width"]
    np.testing.assert_allclose(np.exp(gp.bounds[1]), [0.1, 10.0])
    K, gradient = gp(X, eval_gradient=True)
    np.testing.assert_array_equal(K, gp(X))
    truth = 1.5 * extrapolated(lambda x: (2.0 * Cauchy(width=x) + mc.Linear())(X), 1.5)
    np.testing.assert_allclose(gradient[..., 1], truth, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(gradient[..., 0], 2.0 * Cauchy(width=1.5)(X), rtol=1e-6)


class Visits(mc.families.Coordinatewise):
    """Poisson distributions of which no other power than 1/2 is declared."""

    rate = mc.families.Parameter(sets.positive)
    support = sets.counts

    def natural(self):
        return log(self.rate)

    def partition(self, theta):
        return exp(theta)

    def base(self, x):
        return -gammaln(x + 1)


def test_products_of_one_rho_alone():
    batch, kernel = Visits([[0.5], [2.0]]), mc.ProbabilityProduct(rho=0.5)
    with pytest.raises(ValueError, match=r"no derivative by rho at .* as_gp\(\{'rho': 'fixed'\}\)"):
        kernel.as_gp()(batch, eval_gradient=True)
    assert kernel.as_gp({"rho": "fixed"})(batch, eval_gradient=True)[1].shape == (2, 2, 0)
