"""Kernels of switching systems against double sums over all regime paths of dense joint distributions."""

from itertools import pairwise, product

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from tests.models.test_lds import systems
from tests.models.test_switching import enumerated, path_joint, path_probability, switching

import mercer as mc
from mercer.kernels import SwitchingProduct

pytestmark = pytest.mark.slow


def by_paths(models, length):
    """Joint Gaussians of all paths of every model, and the probabilities of the paths, ``(N, P)``."""
    paths = list(product(range(models.initial.shape[-1]), repeat=length))
    joints = [[path_joint(models[i : i + 1], path) for path in paths] for i in range(len(models))]
    means, covariances = (np.array([[joint[part] for joint in row] for row in joints]) for part in (0, 1))
    weights = np.array([[path_probability(models[i : i + 1], path) for path in paths] for i in range(len(models))])
    return weights, mc.Gaussians(means, covariances)


@pytest.mark.parametrize("rho", [0.3, 0.5, 1.0, 2.0])
def test_probability_products_are_double_sums_over_all_paths(rho):
    models, length = switching(0, 3, 2), 3
    weights, gaussians = by_paths(models, length)
    flat = gaussians.reshape(-1)
    table = np.exp(flat.log_product(flat, rho=rho)).reshape(3, 8, 3, 8)
    for switches, power in (("joint", rho), ("expected", 1.0)):
        expected = np.einsum("ia,jb,iajb->ij", weights**power, weights**power, table)
        kernel = SwitchingProduct(rho=rho, length=length, normalize=False, switches=switches)
        np.testing.assert_allclose(kernel(models), expected, rtol=1e-8)
    mixtures = mc.Mixtures(weights, gaussians)  # a power of the joint probability of series and regimes
    joint = SwitchingProduct(rho=rho, length=length)(models)
    np.testing.assert_allclose(joint, mc.ProbabilityProduct(rho=rho)(mixtures), rtol=1e-8)


def test_the_three_kernels_are_in_order():
    """For powers of at most 1 the expected kernel is the smallest, then that of the marginal, then the joint one."""
    models, options = switching(2, 3, 2), {"length": 2, "normalize": False}
    expected = SwitchingProduct(rho=0.5, switches="expected", **options)(models)
    joint = SwitchingProduct(rho=0.5, **options)(models)
    sampled = mc.Sampled(rho=0.5, n_samples=4000, **options)
    marginal = sampled.fit_transform(models)
    error = 4 * sampled.standard_errors(models)
    assert (expected <= marginal + error).all()
    assert (marginal <= joint + error).all()
    np.testing.assert_allclose(np.diag(marginal), 1.0, atol=0.05)


@pytest.mark.parametrize("kernel", [SwitchingProduct(rho=0.5, length=3), mc.MeanMap(gamma=0.4, length=3)])
def test_numbers_of_regimes_may_differ(kernel):
    """Models of 2 and 3 regimes, with states of different dimensions too, against all pairs of paths."""
    two, three = switching(0, 2, 2), switching(1, 2, 3, n=3)
    sides = [by_paths(models, 3) for models in (two, three)]
    if isinstance(kernel, SwitchingProduct):
        tables = [[np.exp(p.reshape(-1).log_product(q.reshape(-1), rho=0.5)) for _, q in sides] for _, p in sides]
        power = 0.5
    else:
        tables = [[np.exp(p.reshape(-1).log_mean_map(q.reshape(-1), gamma=0.4)) for _, q in sides] for _, p in sides]
        power = 1.0
    blocks = [
        [
            np.einsum("ia,jb,iajb->ij", w**power, v**power, tables[i][j].reshape(*w.shape, *v.shape))
            for j, (v, _) in enumerate(sides)
        ]
        for i, (w, _) in enumerate(sides)
    ]
    kernel = kernel.set_params(normalize=False)
    np.testing.assert_allclose(kernel([two, three]), np.block(blocks), rtol=1e-8)
    np.testing.assert_allclose(kernel(two, three), blocks[0][1], rtol=1e-8)
    np.testing.assert_allclose(kernel.fit(two).transform(three), blocks[1][0], rtol=1e-8)
    with pytest.raises(ValueError, match=r"one number of regimes; got 2 and 3.*kernel\(\[p, q\]\)"):
        mc.models.SwitchingLDSs.concat([two, three])
    with pytest.raises(TypeError, match="got a list of 2"):
        kernel.fit([two, three])


def test_drawn_paths_of_mean_maps_are_unbiased_and_positive_semi_definite():
    models = switching(4, 3, 3)
    options = {"gamma": 0.3, "length": 4, "normalize": False}
    exact = mc.MeanMap(**options, n_paths=81)(models)
    drawn = np.stack([mc.MeanMap(**options, n_paths=40, random_state=i)(models) for i in range(40)])
    off, errors = ~np.eye(3, dtype=bool), drawn.std(axis=0) / np.sqrt(40)
    assert (errors[off] > 0).all()
    assert (np.abs(drawn.mean(axis=0) - exact)[off] <= 4 * errors[off]).all()
    assert np.linalg.eigvalsh(mc.MeanMap(gamma=0.3, length=9, n_paths=3)(models)).min() > -1e-12
    np.testing.assert_array_equal(mc.MeanMap(length=3).fit(models).standard_errors(models), 0.0)
    with pytest.raises(ValueError, match=r"more than n_paths=5 .*raise n_paths"):
        mc.MeanMap(n_paths=5).fit(models).standard_errors(models)
    one = mc.MeanMap(length=9, n_paths=3, random_state=1)(models)
    assert np.abs(mc.MeanMap(length=9, n_paths=3, random_state=2)(models) - one).max() > 1e-6


def test_latent_mean_maps_compare_observations_with_their_regimes():
    """Against double sums over the posteriors of all regime paths (LMMK-1)."""
    model = switching(3, 1, 2)
    X = [np.asarray(x) for x in model.sample(4, 3, random_state=1)[0]] + [model.sample(1, 1, random_state=2)[0, 0]]
    gamma, states = 0.2, 0.6

    def features(x):
        paths, logs = enumerated(model, x)
        weights = np.exp(logs - logs.max())
        weights /= weights.sum()
        seen = np.array([[weights[paths[:, t] == k].sum() for k in range(2)] for t in range(len(x))])
        steps = np.zeros((2, 2))
        for path, weight in zip(paths, weights, strict=True):
            for j, k in pairwise(path):
                steps[j, k] += weight / (len(x) - 1)
        return x, seen, steps

    alike = np.where(np.eye(2), 1.0, np.exp(-2 * states))

    def pair(a, b):
        base = np.exp(-gamma * cdist(a[0], b[0], "sqeuclidean"))
        seen = np.sum(base * (a[1] @ alike @ b[1].T)) / len(a[0]) / len(b[0])
        return seen + np.sum(a[2] * (alike @ b[2] @ alike))

    found = [features(x) for x in X]
    kernel = mc.LatentMeanMap(model, gamma=gamma, gamma_states=states, normalize=False)
    np.testing.assert_allclose(kernel(X), [[pair(a, b) for b in found] for a in found], rtol=1e-9)
    alone = kernel.set_params(transitions=False)(X)
    assert (alone < kernel.set_params(transitions=True)(X) + 1e-12).all()
    with pytest.raises(ValueError, match="missing"):
        kernel([np.array([[0.0, np.nan]])])
    with pytest.raises(TypeError, match="LatentMeanMap"):
        mc.PosteriorCounts(model)(X)


def test_one_regime_is_the_linear_dynamical_system():
    plain = systems(0, 3, 2, 2)
    models = mc.models.SwitchingLDSs(np.ones((3, 1)), np.ones((3, 1, 1)), plain.reshape(3, 1))
    found = SwitchingProduct(rho=0.7, length=40)(models)
    np.testing.assert_allclose(found, mc.ProbabilityProduct(rho=0.7, length=40)(plain), rtol=1e-9)
    lengths = [30, 1, 7]
    expected = mc.ProbabilityProduct(rho=0.3).path(plain, lengths=lengths)
    np.testing.assert_allclose(SwitchingProduct(rho=0.3).path(models, lengths=lengths), expected, rtol=1e-9)


def test_equal_regimes_are_one_for_the_expected_kernel():
    plain = systems(2, 2, 2, 2)
    both = mc.LDSs.concat([plain, plain])[np.array([[0, 2], [1, 3]])]
    models = mc.models.SwitchingLDSs([[0.3, 0.7]] * 2, [[[0.5, 0.5], [0.2, 0.8]]] * 2, both)
    kernel = SwitchingProduct(rho=0.5, length=12, switches="expected", n_paths=5)
    np.testing.assert_allclose(kernel(models), mc.ProbabilityProduct(rho=0.5, length=12)(plain), rtol=1e-9)


@pytest.mark.parametrize(
    "kernel",
    [
        SwitchingProduct(rho=0.5, length=4),
        SwitchingProduct(rho=1.0, length=4),
        SwitchingProduct(rho=0.5, length=4, switches="expected"),
    ],
)
def test_drawn_paths_are_unbiased_and_positive_semi_definite(kernel):
    models = switching(4, 4, 3)
    exact = kernel.set_params(normalize=False, n_paths=81)(models)
    drawn = np.stack([kernel.set_params(n_paths=60, random_state=i)(models) for i in range(40)])
    off, errors = ~np.eye(4, dtype=bool), drawn.std(axis=0) / np.sqrt(40)
    assert (errors[off] > 0).all()
    assert (np.abs(drawn.mean(axis=0) - exact)[off] <= 4 * errors[off]).all()
    for seed in range(3):
        few = kernel.set_params(n_paths=3, random_state=seed)(models)
        assert np.linalg.eigvalsh(few).min() > -1e-10 * np.abs(few).max()


def test_draws_belong_to_a_model_not_to_a_matrix():
    models = mc.models.SwitchingLDSs.concat([switching(0, 3, 3), switching(1, 2, 3)])
    kernel = SwitchingProduct(rho=0.5, length=6, n_paths=7)
    whole = kernel(models)
    np.testing.assert_allclose(kernel(models[:2], models[2:]), whole[:2, 2:], rtol=1e-10)
    np.testing.assert_allclose(kernel(switching(0, 3, 3)), whole[:3, :3], rtol=1e-10)
    fitted = kernel.fit(models[:3])
    np.testing.assert_allclose(fitted.transform(models[3:]), whole[3:, :3], rtol=1e-10)


def test_paths_over_lengths_are_those_of_single_lengths():
    models = switching(0, 2, 2)
    kernel = SwitchingProduct(rho=0.5, n_paths=64)
    table = kernel.path(models, lengths=[1, 4, 6])
    for length, found in zip([1, 4, 6], table, strict=True):
        np.testing.assert_allclose(found, kernel.set_params(length=length)(models), rtol=1e-9)
    drawn = SwitchingProduct(rho=0.5, n_paths=300, normalize=False).path(models, lengths=[2, 8])[0]
    exact = SwitchingProduct(rho=0.5, length=2, normalize=False)(models)
    np.testing.assert_allclose(drawn, exact, rtol=0.3)


def test_messages():
    models = switching(0, 2)
    with pytest.raises(TypeError, match=r"mc\.kernels\.SwitchingProduct or mc\.MeanMap.*mc\.Sampled"):
        mc.ProbabilityProduct()(models)
    with pytest.raises(ValueError, match=r"Discounted\(d=0\.5\)"):
        SwitchingProduct(length=mc.Discounted(0.5))(models)
    with pytest.raises(TypeError, match=r"LDSs do not have.*ProbabilityProduct"):
        SwitchingProduct()(systems(0, 2))
    with pytest.raises(ValueError, match="n_paths must be"):
        SwitchingProduct(n_paths=0)(models)
    wild = models.systems._replaced(transition=3 * np.asarray(models.systems.transition))
    with pytest.raises(ValueError, match=r"Model \d.*loses too many digits at length 60. Use a length of at most \d+"):
        SwitchingProduct(length=60)(models._replaced(systems=wild))
    with pytest.raises(TypeError, match="time='joint'"):
        mc.ProbabilityProduct(time="independent")(models)
    with pytest.raises(ValueError, match="observed coordinates"):
        SwitchingProduct()(models, switching(0, 2, d=1))
