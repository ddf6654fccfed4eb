"""Kernels for Gaussian processes: hyper-parameters, derivatives against finite differences, scikit-learn's classes."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF as SklearnRBF
from sklearn.gaussian_process.kernels import ConstantKernel, WhiteKernel

import mercer as mc
from mercer.kernels.gp import GPKernel


def vectors(n: int = 9, d: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d))


def strings(n: int = 8, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return mc.objects(
        mc.Sequences(["".join(rng.choice(list("ACGT"), rng.integers(6, 20))) for _ in range(n)], alphabet="dna")
    )


def gaussians(structure: str, n: int = 7, d: int = 3, seed: int = 0) -> mc.Gaussians:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(n, d, d))
    covariance = {
        "full": root @ root.swapaxes(1, 2) + 0.3 * np.eye(d),
        "diagonal": rng.uniform(0.2, 3, size=(n, d)),
        "isotropic": rng.uniform(0.2, 3, size=n),
    }[structure]
    return mc.Gaussians(rng.normal(size=(n, d)), covariance)


def differences(kernel: GPKernel, X: Any, step: float = 0.02) -> np.ndarray:
    """Return derivatives by differences of whole kernels at six values of every parameter: an error of step^6."""
    theta, columns = kernel.theta, []
    for place in range(len(theta)):

        def at(shift: float, place: int = place) -> np.ndarray:
            return kernel.clone_with_theta(theta + shift * np.eye(len(theta))[place])(X)

        ends = [at(i * step) - at(-i * step) for i in (1, 2, 3)]
        columns.append((45 * ends[0] - 9 * ends[1] + ends[2]) / (60 * step))
    return np.stack(columns, axis=-1)


PROFILES = mc.Multinomials(np.random.default_rng(1).dirichlet(np.ones(4), size=7))
MARKOV = mc.MarkovChain(alphabet="dna", prior="pooled")
SUMS = mc.RBF(gamma=0.3) + 0.5 * mc.Linear(normalize=False)
LOGS = 2.0 * mc.RBF(gamma=0.3) + mc.RBF(gamma=1.4) * mc.RBF(gamma=0.1)
NOT_NORMALISED = mc.ProbabilityProduct(rho=0.7, normalize=False)
TEMPERED = {"exponent", "kernel__k0__gamma", "kernel__k1__weight", "kernel__k1__kernel__gamma"}
LETTERS = mc.Categorical(alphabet="dna", prior="pooled")
CASES: dict[str, tuple[Any, Any, set[str]]] = {
    "rbf": (mc.RBF(gamma=0.3), vectors(), {"gamma"}),
    "a width that is not given": (mc.RBF(), vectors(), set()),
    "sum with a linear part": (SUMS, vectors(), {"k0__gamma", "k1__weight"}),
    "sum of logarithms": (LOGS, vectors(), {"k0__weight", "k0__kernel__gamma", "k1__k0__gamma", "k1__k1__gamma"}),
    "product with a linear part": (
        (1.5 * mc.RBF(gamma=0.4)) * mc.Linear(normalize=False),
        vectors(),
        {"k0__weight", "k0__kernel__gamma"},
    ),
    "negative weight": (mc.RBF(gamma=0.2) + (-0.3) * mc.RBF(gamma=0.9), vectors(), {"k0__gamma", "k1__kernel__gamma"}),
    "tempered": (mc.Tempered(mc.RBF(gamma=0.3) + 0.2 * mc.RBF(gamma=1.0), exponent=0.4), vectors(), TEMPERED),
    "normalised values": (mc.kernels.Normalized(SUMS), vectors(), {"kernel__k0__gamma", "kernel__k1__weight"}),
    "normalised logarithms": (mc.kernels.Normalized(NOT_NORMALISED), gaussians("full"), {"kernel__rho"}),
    "gaussianized logarithms": (
        mc.kernels.Gaussianized(mc.RBF(gamma=0.3), gamma=0.8),
        vectors(),
        {"gamma", "kernel__gamma"},
    ),
    "gaussianized values": (
        mc.kernels.Gaussianized(SUMS, gamma=0.2),
        vectors(),
        {"gamma", "kernel__k0__gamma", "kernel__k1__weight"},
    ),
    "heat": (mc.Heat(t=0.7), PROFILES, {"t"}),
    "symmetric kl": (mc.SymmetricKL(alpha=0.4, beta=0.3), gaussians("full"), {"alpha", "beta"}),
    "jensen-shannon": (mc.JensenShannon(t=0.8), PROFILES, {"t"}),
    "jensen-shannon inverse": (mc.JensenShannon(form="inverse", t=0.8), PROFILES, {"t"}),
    "jensen-shannon inverse, not normalised": (
        mc.JensenShannon(form="inverse", t=0.8, normalize=False),
        gaussians("diagonal"),
        {"t"},
    ),
    "jensen-shannon of data": (mc.JensenShannon(LETTERS, t=2.0), strings(), {"t"}),
    "product of markov chains": (mc.ProbabilityProduct(MARKOV, rho=0.6, length=5), strings(), {"rho"}),
    "mean map of markov chains": (mc.MeanMap(MARKOV, gamma=0.3, length=4), strings(), {"gamma"}),
    "product of poissons": (NOT_NORMALISED, mc.Poissons(np.abs(vectors()) + 0.2), {"rho"}),
    "points": (mc.EmpiricalMeanMap(gamma=0.6), strings(), {"gamma"}),
    "windows": (mc.EmpiricalMeanMap(order=1, gamma=0.6), strings(), {"gamma"}),
    "words": (0.7 * mc.Spectrum(2) + mc.EmpiricalMeanMap(gamma=0.3), strings(), {"k0__weight", "k1__gamma"}),
}
OF_DATA = ("jensen-shannon of data", "product of markov chains", "mean map of markov chains")
for structure in ("full", "diagonal", "isotropic"):
    for normalize in (True, False):
        end = f"{structure} gaussians{'' if normalize else ', not normalised'}"
        CASES[f"product of {end}"] = mc.ProbabilityProduct(rho=0.7, normalize=normalize), gaussians(structure), {"rho"}
        CASES[f"mean map of {end}"] = mc.MeanMap(gamma=0.4, normalize=normalize), gaussians(structure), {"gamma"}


@pytest.mark.parametrize(("case", "fitted"), [(c, f) for c in CASES for f in (False, True) if f or c not in OF_DATA])
def test_derivatives_are_those_of_differences(case: str, fitted: bool):
    kernel, X, names = CASES[case]
    kernel = clone(kernel)
    gp = (kernel.fit(X) if fitted else kernel).as_gp()
    assert {h.name for h in gp.hyperparameters} == names
    K, gradient = gp(X, eval_gradient=True)
    np.testing.assert_array_equal(K, kernel(X))
    assert gradient.shape == (len(K), len(K), len(names))
    if names:
        np.testing.assert_allclose(gradient, differences(gp, X), rtol=0, atol=2e-7 * max(1, np.abs(gradient).max()))
        assert np.abs(gradient).max(axis=(0, 1)).min() > 1e-3  # it can fail
    np.testing.assert_array_equal(gp.diag(X), K.diagonal())


def test_the_rbf_is_that_of_scikit_learn():
    X = vectors()
    ours = (2.0 * mc.RBF(gamma=0.5)).as_gp()
    K, gradient = ours(X, eval_gradient=True)
    theirs, slopes = (ConstantKernel(2.0) * SklearnRBF(1.0))(X, eval_gradient=True)
    np.testing.assert_allclose(K, theirs, rtol=1e-13)
    np.testing.assert_allclose(gradient[..., 0], slopes[..., 0], rtol=1e-6)  # the weight
    np.testing.assert_allclose(-2 * gradient[..., 1], slopes[..., 1], rtol=1e-6)  # gamma = 1 / (2 length^2)
    assert ours.is_stationary()
    assert not mc.Linear().as_gp().is_stationary()


def test_objects_without_anything_in_common_have_no_slope():
    apart = mc.Multinomials([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.2, 0.3, 0.5, 0.0]])
    for kernel in (
        mc.ProbabilityProduct(rho=0.7),
        mc.Tempered(mc.ProbabilityProduct(), exponent=0.5),
        mc.ProbabilityProduct(rho=0.7) + mc.ProbabilityProduct(rho=0.4),
        mc.SymmetricKL(),
    ):
        K, gradient = kernel.as_gp()(apart, eval_gradient=True)
        assert K[0, 1] == 0
        assert np.isfinite(gradient).all()
        assert (gradient[0, 1] == 0).all()


@pytest.mark.parametrize(
    "kernel", [mc.kernels.Normalized(mc.Linear(normalize=False) * mc.RBF(gamma=0.5), on_zero="zero")]
)
def test_objects_of_zero_norm(kernel: Any):
    X = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 2.0]])
    K, gradient = kernel.as_gp()(X, eval_gradient=True)
    assert (K[0] == 0).all()
    assert np.isfinite(gradient).all()
    np.testing.assert_allclose(gradient, differences(kernel.as_gp(), X), atol=1e-8)


def test_single_precision():
    p = gaussians("full")
    mixtures = mc.Mixtures(np.ones((7, 1)), p.reshape(7, 1))
    small = mc.Mixtures(
        np.ones((7, 1), dtype=np.float32),
        mc.Gaussians(p.mean.astype(np.float32), p.covariance.astype(np.float32)).reshape(7, 1),
    )
    gp = mc.MeanMap(gamma=0.4).as_gp()
    K, gradient = gp(small, eval_gradient=True)
    assert K.dtype == gradient.dtype == np.float64
    np.testing.assert_allclose(gradient, gp(mixtures, eval_gradient=True)[1], atol=1e-3)
    np.testing.assert_allclose(gp(mixtures, eval_gradient=True)[1], gp(p, eval_gradient=True)[1], atol=1e-6)


# -- hyper-parameters ------------------------------------------------------------------------------------


def test_theta_and_bounds():
    kernel = 2.0 * mc.RBF(gamma=0.5) + mc.Tempered(mc.RBF(gamma=3.0), exponent=0.25)
    gp = kernel.as_gp({"k0__weight": (1e-2, 10), "k1__kernel__gamma": "fixed"})
    names = [h.name for h in gp.hyperparameters]
    assert names == ["k0__weight", "k0__kernel__gamma", "k1__exponent", "k1__kernel__gamma"]
    np.testing.assert_allclose(np.exp(gp.theta), [2.0, 0.5, 0.25])
    np.testing.assert_allclose(np.exp(gp.bounds), [[1e-2, 10], [1e-5, 1e5], [1e-5, 1]])
    assert gp.n_dims == 3
    other = gp.clone_with_theta(np.log([1.0, 2.0, 0.5]))
    np.testing.assert_allclose(np.exp(other.theta), [1.0, 2.0, 0.5])
    assert (gp.kernel.k0.kernel.gamma, kernel.k0.kernel.gamma) == (0.5, 0.5)  # neither has changed
    X = vectors()
    expected = mc.RBF(gamma=2.0) + mc.Tempered(mc.RBF(gamma=3.0), exponent=0.5)
    np.testing.assert_allclose(other(X), expected(X), rtol=1e-14)
    assert gp(X, eval_gradient=True)[1].shape == (9, 9, 3)


def test_bounds_for_all_and_wider_where_needed():
    assert mc.RBF(gamma=0.5).as_gp("fixed").theta.shape == (0,)
    _, gradient = mc.RBF(gamma=0.5).as_gp("fixed")(vectors(), eval_gradient=True)
    assert gradient.shape == (9, 9, 0)
    np.testing.assert_allclose(np.exp((2 * mc.RBF(gamma=0.5)).as_gp((0.1, 3)).bounds), [[0.1, 3], [0.1, 3]])
    np.testing.assert_allclose(np.exp(mc.RBF(gamma=1e6).as_gp().bounds), [[1e-5, 1e6]])
    np.testing.assert_allclose(np.exp(mc.ProbabilityProduct().as_gp().bounds), [[0.05, 5]])


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({"rho": (0.1, 1)}, "gamma"),
        ({"gamma": (1, 0.1)}, "two increasing positive numbers"),
        ({"gamma": (0, 1)}, "two increasing positive numbers"),
        ("free", "two increasing positive numbers"),
        ({"gamma": 3.0}, "two increasing positive numbers"),
        ((1.0, np.inf), "two increasing positive numbers"),
    ],
)
def test_bounds_without_a_meaning(bounds: Any, message: str):
    with pytest.raises(ValueError, match=message):
        mc.RBF(gamma=1.0).as_gp(bounds)


def test_parameters_by_name():
    gp = (mc.RBF(gamma=0.5) + mc.Linear()).as_gp()
    assert gp.get_params()["k0__gamma"] == 0.5
    assert gp.set_params(k0__gamma=2.0).kernel.k0.gamma == 2.0
    with pytest.raises(ValueError, match=r"not a hyper-parameter. Use one of k0__gamma"):
        gp.set_params(k1__normalize=False)
    with pytest.raises(ValueError, match="positive number"):
        gp.set_params(k0__gamma=-1.0)
    with pytest.raises(ValueError, match=r"theta must have .* got 2"):
        gp.theta = [1.0, 2.0]
    with pytest.raises(ValueError, match="Leave out Y"):
        gp(vectors(), vectors(), eval_gradient=True)
    with pytest.raises(ValueError, match=r"gamma must be .*; got -1"):
        mc.RBF(gamma=-1).as_gp()


def test_repr_and_pickle():
    gp = (2.0 * mc.RBF(gamma=0.5)).as_gp({"weight": "fixed"})
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(gp))(vectors()), gp(vectors()))
    assert repr(gp) == "GPKernel(Scaled: weight=2, kernel__gamma=0.5)"
    assert repr(mc.Linear().as_gp()) == "GPKernel(Linear)"


def test_another_kernel_is_checked_and_copied():
    gp, X = mc.RBF(gamma=0.5).as_gp({"gamma": (0.1, 2.0)}), vectors()
    with pytest.raises(TypeError, match="must be a mercer kernel"):
        gp.set_params(kernel="rbf")
    with pytest.raises(NotFittedError, match="Call kernel"):
        gp.set_params(kernel=mc.Fisher(mc.Gaussian()))
    with pytest.raises(NotFittedError, match="learns shared state from the data"):
        gp.set_params(kernel=mc.ProbabilityProduct(mc.Gaussian()))
    with pytest.raises(ValueError, match=r"gamma must be .*; got -1"):
        gp.set_params(kernel=mc.RBF(gamma=-1))
    with pytest.raises(ValueError, match="'gamma' in bounds"):
        gp.set_params(kernel=2.0 * mc.RBF(gamma=0.5))
    with pytest.raises(ValueError, match="two increasing positive numbers"):
        gp.set_params(parameter_bounds={"gamma": (3, 1)})
    np.testing.assert_array_equal(gp(X), mc.RBF(gamma=0.5)(X))  # nothing has changed
    kernel = 2.0 * mc.RBF(gamma=0.5)
    gp.set_params(kernel=kernel, parameter_bounds=None, weight=3.0)
    kernel.kernel.gamma = 7.0
    np.testing.assert_allclose(gp(X), 3 * mc.RBF(gamma=0.5)(X))


# -- what was learned ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kernel",
    [
        mc.Fisher(mc.Gaussian()),
        mc.EmpiricalKernelMap(mc.RBF(gamma=1.0), gamma=0.5),
        mc.RBF() + mc.Fisher(mc.Gaussian()),
    ],
)
def test_a_kernel_that_learns_is_fitted_before(kernel: Any):
    with pytest.raises(NotFittedError, match=r"Call kernel\.fit"):
        clone(kernel).as_gp()
    X, Z = vectors(), vectors(4, seed=5)
    fitted = clone(kernel).fit(X)
    gp = clone(fitted.as_gp())
    np.testing.assert_array_equal(gp(Z, X), fitted.transform(Z))
    assert [h.name for h in gp.hyperparameters] == (["gamma"] if isinstance(kernel, mc.EmpiricalKernelMap) else [])


@pytest.mark.parametrize("case", OF_DATA)
def test_a_kernel_that_makes_models_of_data_is_fitted_before(case: str):
    kernel, X, _ = CASES[case]
    for unfitted in (clone(kernel), 2.0 * clone(kernel) + mc.Spectrum(2)):
        with pytest.raises(NotFittedError, match=f"{type(kernel).__name__} learns shared state from the data"):
            unfitted.as_gp()
    gp = kernel.fit(X).as_gp()  # so that a pair has one value, whatever comes beside it
    np.testing.assert_allclose(gp(X[:2], X[5:]), gp(X)[:2, 5:], rtol=1e-12)


def test_what_stands_inside_a_fitted_compound_can_be_changed():
    X, Z = vectors(), vectors(4, seed=5)
    kernel = 0.5 * mc.EmpiricalKernelMap(mc.RBF(gamma=1.0), gamma=0.5) + mc.RBF(gamma=2.0)
    gp = kernel.fit(X).as_gp()
    assert [h.name for h in gp.hyperparameters] == ["k0__weight", "k0__kernel__gamma", "k1__gamma"]
    np.testing.assert_allclose(gp(X, eval_gradient=True)[1], differences(gp, X), atol=1e-7)
    changed = gp.clone_with_theta(np.log([2.0, 0.7, 0.3]))
    expected = 2.0 * mc.EmpiricalKernelMap(mc.RBF(gamma=1.0), gamma=0.7) + mc.RBF(gamma=0.3)
    np.testing.assert_allclose(changed(Z, X), expected.fit(X).transform(Z), rtol=1e-13)
    np.testing.assert_array_equal(gp(Z, X), kernel.transform(Z))


def test_the_kernel_may_change_afterwards():
    X = vectors()
    kernel = mc.Fisher(mc.Gaussian()).fit(X)
    gp, before = kernel.as_gp(), kernel(X)
    kernel.fit(3 * X**2)
    np.testing.assert_array_equal(gp(X), before)
    summed = mc.RBF(gamma=1.0) + mc.Linear()
    gp = summed.as_gp()
    summed.set_params(k0__gamma=9.0)
    assert gp.kernel.k0.gamma == 1.0
    for inside in (mc.Centered(mc.RBF(gamma=1.0)), mc.kernels.Normalized(mc.Centered(mc.RBF(gamma=1.0)))):
        inside.fit(X)
        gp, before = inside.as_gp(), inside(X)
        part = inside
        while hasattr(part, "kernel"):
            part = part.kernel
        part.gamma = 5.0
        np.testing.assert_array_equal(gp(X), before)
        np.testing.assert_array_equal(clone(gp)(X), before)
    model = mc.Categorical(alphabet="dna", prior="pooled", prior_strength=1.0)
    product = mc.ProbabilityProduct(model).fit(strings())
    gp, before = product.as_gp(), product(strings())
    product.model.prior_strength = 50.0
    np.testing.assert_array_equal(gp(strings()), before)


# -- scikit-learn's processes ----------------------------------------------------------------------------


def test_the_evidence_has_the_right_derivative_on_sequences():
    X, y = strings(12), np.random.default_rng(0).normal(size=12)
    kernel = (1.0 * mc.ProbabilityProduct(MARKOV, rho=0.5, length=5) + 0.3 * mc.EmpiricalMeanMap(gamma=0.5)).fit(X)
    process = GaussianProcessRegressor(kernel.as_gp() + WhiteKernel(0.1), optimizer=None).fit(X, y)
    theta = process.kernel_.theta
    _, gradient = process.log_marginal_likelihood(theta, eval_gradient=True)
    for place in range(len(theta)):
        step = 1e-4 * np.eye(len(theta))[place]
        ends = [process.log_marginal_likelihood(theta + sign * step) for sign in (1, -1)]
        assert abs(gradient[place] - (ends[0] - ends[1]) / 2e-4) < 1e-5


def test_a_generator_does_not_move_on_between_calls():
    emission = mc.Gaussians([[[0.0, 0.0], [2.0, 1.0]]], np.array([[np.eye(2), 2 * np.eye(2)]]))
    model = mc.HMMs([[0.3, 0.7]], [[[0.9, 0.1], [0.2, 0.8]]], emission)
    rng = np.random.default_rng(5)
    X = mc.objects([rng.normal(size=(n, 2)) for n in (3, 5, 8)])
    k = (2.0 * mc.LatentMeanMap(model, n_components=20, random_state=rng)).as_gp()
    first = k(X)
    rng.normal()
    assert np.array_equal(k(X), first)


def test_mismatches_over_an_alphabet_of_the_data_ask_for_a_fit():
    with pytest.raises(NotFittedError, match="an alphabet"):
        (1.0 * mc.Spectrum(k=3, mismatches=1)).as_gp()
    assert mc.Spectrum(k=3, mismatches=1, alphabet="ab").as_gp()(mc.objects(["abab", "abba"])).shape == (2, 2)


@pytest.mark.parametrize("gamma", [1.0, 100.0, 1e4])
def test_slopes_of_random_features(gamma):
    emission = mc.Gaussians([[[0.0, 0.0], [2.0, 1.0]]], np.array([[np.eye(2), 2 * np.eye(2)]]))
    model = mc.HMMs([[0.3, 0.7]], [[[0.9, 0.1], [0.2, 0.8]]], emission)
    rng = np.random.default_rng(0)
    X = mc.objects([rng.normal(size=(n, 2)) for n in (3, 5, 8)])
    k = mc.LatentMeanMap(model, gamma=gamma, n_components=50).as_gp()
    _, slope = k(X, eval_gradient=True)
    step = 1e-6
    near, far = (k.clone_with_theta(k.theta + sign * step)(X) for sign in (1, -1))
    np.testing.assert_allclose(slope[..., 0], (near - far) / (2 * step), atol=1e-4 * np.abs(slope).max() + 1e-9)
