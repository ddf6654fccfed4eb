"""What states think of observations: every point in the states of its own model, whatever stands beside it."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import mercer as mc
from mercer.models._forward import interface as _shared_work
from mercer.models._forward.evidence import evidence_of, row_log_prob
from mercer.models._forward.interface import Densities, Symbols

STRUCTURES = ["full", "diagonal", "isotropic"]


def gaussians(rng, shape, d, structure):
    """Random Gaussians, and their covariances as matrices."""
    root = rng.normal(size=(*shape, d, d))
    full = root @ root.swapaxes(-1, -2) + 0.1 * np.eye(d)
    variances = rng.gamma(2.0, size=(*shape, d)) + 0.01
    covariance = {"full": full, "diagonal": variances, "isotropic": variances[..., 0]}[structure]
    if structure == "isotropic":
        variances = np.broadcast_to(covariance[..., None], variances.shape)
    return mc.Gaussians(rng.normal(size=(*shape, d)), covariance), (
        full if structure == "full" else variances[..., None] * np.eye(d)
    )


def points(rng, count, models, d):
    return rng.normal(size=(count, d)), np.sort(rng.integers(0, models, count))


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize(("n", "d"), [(1, 1), (3, 2), (8, 5), (11, 3)])
def test_gaussians_against_scipy(n, d, structure):
    rng = np.random.default_rng(n)
    emission, matrices = gaussians(rng, (4, n), d, structure)
    x, owner = points(rng, 25, 4, d)
    x[3, 0], x[7], x[9, -1] = np.nan, np.nan, np.nan  # what is missing is marginalised
    table = row_log_prob(emission, x, owner)
    for t, i in enumerate(owner):
        seen = ~np.isnan(x[t])
        for j in range(n):
            mean, covariance = emission.mean[i, j][seen], matrices[i, j][np.ix_(seen, seen)]
            want = multivariate_normal(mean, covariance).logpdf(x[t][seen]) if seen.any() else 0.0
            assert table[t, j] == pytest.approx(want, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_bits_of_a_point_do_not_depend_on_others_or_threads(structure, monkeypatch):
    rng = np.random.default_rng(0)
    emission, _ = gaussians(rng, (5, 10), 4, structure)
    x, owner = points(rng, 300, 5, 4)
    whole = row_log_prob(emission, x, owner)
    np.testing.assert_array_equal(row_log_prob(emission, x[40:77], owner[40:77]), whole[40:77])
    for t in (0, 150, 299):
        alone = row_log_prob(emission[owner[t] : owner[t] + 1], x[t : t + 1], np.zeros(1, dtype=int))
        np.testing.assert_array_equal(alone, whole[t : t + 1])
    monkeypatch.setattr(_shared_work, "CHUNK_SECONDS", 0.0)  # threads for everything
    monkeypatch.setattr("mercer.models._forward.evidence.CHUNK_SECONDS", 1e-7)  # in many pieces
    for jobs in (1, 2):
        with mc.config(n_jobs=jobs):
            np.testing.assert_array_equal(row_log_prob(emission, x, owner), whole)
    x[50, 2] = np.nan
    others = np.arange(300) != 50
    np.testing.assert_array_equal(row_log_prob(emission, x, owner)[others], whole[others])


def test_variances_of_any_size():
    variance = np.array([[[1e-12, 1.0], [1e12, 1e-12]]])
    emission = mc.Gaussians(np.zeros((1, 2, 2)), variance)
    x = np.array([[1e-6, 3.0], [1e6, -1e-6]])
    want = -0.5 * (np.log(2 * np.pi * variance[0]) + x[:, None] ** 2 / variance[0]).sum(axis=-1)
    np.testing.assert_allclose(row_log_prob(emission, x, np.zeros(2, dtype=int)), want, rtol=1e-12)
    full = mc.Gaussians(np.zeros((1, 2, 2)), variance[..., None] * np.eye(2))
    np.testing.assert_allclose(row_log_prob(full, x, np.zeros(2, dtype=int)), want, rtol=1e-12)
    with pytest.raises(ValueError, match="singular covariance"):
        row_log_prob(mc.Gaussians(np.zeros((1, 1, 2)), np.array([[[1.0, 0.0]]])), x, np.zeros(2, dtype=int))


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("missing", [False, True])
def test_mixtures_sum_over_their_components(structure, missing):
    rng = np.random.default_rng(1)
    parts, _ = gaussians(rng, (3, 4, 2), 2, structure)
    weights = rng.dirichlet(np.ones(2), (3, 4))
    weights[0, 0] = 1.0, 0.0
    x, owner = points(rng, 30, 3, 2)
    if missing:
        x[4, 1] = np.nan
    table = row_log_prob(mc.Mixtures(weights, parts), x, owner)
    for t, i in enumerate(owner):
        for j in range(4):
            want = weights[i, j] @ np.exp(np.asarray(parts[i, j].log_prob(x[t : t + 1]))[:, 0])
            assert table[t, j] == pytest.approx(np.log(want), rel=1e-11)


def test_mixtures_of_symbols():
    rng = np.random.default_rng(2)
    parts = mc.Categoricals(rng.dirichlet(np.ones(4), (2, 3, 2)), alphabet="dna")
    emission = mc.Mixtures(rng.dirichlet(np.ones(2), (2, 3)), parts)
    codes = mc.Sequences(["ACGTNRA"], alphabet="dna").values
    owner = np.array([0, 0, 0, 1, 1, 1, 1])
    evidence = evidence_of(emission, codes, owner)
    assert isinstance(evidence, Densities)
    for t, i in enumerate(owner):
        want = np.asarray(emission[i].log_prob(codes[t : t + 1]))[:, 0]
        np.testing.assert_allclose(evidence.log_density[t], want, rtol=1e-12, atol=1e-15)


def test_symbols_have_a_table_of_codes():
    emission = mc.Categoricals([[[0.1, 0.2, 0.3, 0.4], [0.25, 0.25, 0.25, 0.25]]], alphabet="dna")
    X = mc.Sequences(["ACGTRN"], alphabet="dna")
    evidence = evidence_of(emission, X.values, np.zeros(6, dtype=int))
    assert isinstance(evidence, Symbols)
    np.testing.assert_allclose(evidence.probability[0][:, X.values][0], [0.1, 0.2, 0.3, 0.4, 0.4, 1.0])


@pytest.mark.parametrize("count", [1, 3])
def test_other_families(count):
    rng = np.random.default_rng(3)
    emission = mc.Poissons(rng.gamma(2.0, size=(count, 4, 2)))
    x, owner = rng.poisson(2.0, size=(20, 2)).astype(float), np.sort(rng.integers(0, count, 20))
    table = row_log_prob(emission, x, owner)
    for t, i in enumerate(owner):
        np.testing.assert_allclose(table[t], np.asarray(emission[i].log_prob(x[t : t + 1]))[:, 0], rtol=1e-12)
