"""A family that a user writes: what it gets from its log-partition, and that kernels take it."""

from typing import ClassVar

import numpy as np
import pytest
from numpy.testing import assert_allclose

import mercer as mc
from mercer._array import as_float, namespace
from mercer.families import Coordinatewise, CoordinatewiseEstimator, ExponentialFamily
from mercer.testing.families import EstimatorContract, FamilyContract


class Waits(ExponentialFamily):
    """Exponential laws of given means."""

    _arrays: ClassVar[dict[str, int]] = {"scale": 1}

    def __init__(self, scale):
        self._freeze(scale=as_float(scale))

    def statistics(self, x):
        return as_float(x)

    def log_base(self, x):
        return 0 * as_float(x)[..., 0]

    @property
    def natural_parameters(self):
        return -1 / self.scale

    def log_partition(self, theta):
        return namespace(theta).sum(-namespace(theta).log(-theta), axis=-1)

    @property
    def mean_parameters(self):
        return self.scale

    def with_mean_parameters(self, mu):
        return self._make(scale=mu)

    def dual(self, mu):
        return namespace(mu).sum(-namespace(mu).log(mu), axis=-1)


SCALE = np.array([0.5, 1.0, 3.0])
P = Waits(SCALE[:, None])
BHATTACHARYYA = 2 * np.sqrt(np.outer(SCALE, SCALE)) / np.add.outer(SCALE, SCALE)  # PPK-3.5
PSI = np.log(np.add.outer(SCALE, SCALE) / 2) - np.log(np.outer(SCALE, SCALE)) / 2  # DJS-4


def test_what_it_gets():
    x = np.array([[0.1], [2.0]])
    assert_allclose(P.log_prob(x), -np.log(SCALE)[:, None] - x[:, 0] / SCALE[:, None])
    assert_allclose(P[1].log_prob(x), P.log_prob(x)[1])
    ratio = SCALE[:, None] / SCALE
    assert_allclose(P.kl(P), ratio - 1 - np.log(ratio), atol=1e-15)
    assert_allclose(P.log_product(P), np.log(BHATTACHARYYA), atol=1e-15)
    assert_allclose(P.dual_divergence(P), PSI, atol=1e-15)
    assert_allclose(P.fisher_scores(x)[2, :, 0], x[:, 0] - 3.0)
    assert_allclose(P.pooled().scale, [[1.5]])
    assert P.dual_psd("exp", 1.0) == "conditional"


def test_kernels_take_it(tmp_path):
    assert_allclose(mc.ProbabilityProduct()(P), BHATTACHARYYA, rtol=1e-13)
    assert_allclose(mc.JensenShannon(t=0.7)(P), np.exp(-0.7 * PSI), rtol=1e-13)
    inverse = mc.JensenShannon(form="inverse", t=2.0, normalize=False)
    assert_allclose(inverse(P), 1 / (2 + PSI), rtol=1e-13)
    centred = mc.JensenShannon(form="centering", normalize=False).fit(P)
    to_center = P.dual_divergence(P.pooled())[:, 0]
    assert_allclose(centred.transform(P), to_center[:, None] + to_center - PSI, atol=1e-14)
    P.save(tmp_path / "waits.npz")
    assert Waits.load(tmp_path / "waits.npz").digests() == P.digests()


def test_what_it_lacks():
    with pytest.raises(ValueError, match=r"Waits .* rho = 0.5 only .*; got rho = 1.0"):
        mc.ProbabilityProduct(rho=1.0)(P)
    with pytest.raises(TypeError, match="MeanMap needs `log_mean_map`, which Waits does not have"):
        mc.MeanMap(gamma=1.0)(P)
    with pytest.raises(NotImplementedError, match=r"Waits must implement sample\(size, random_state\)"):
        P.sample(3)
    with pytest.raises(NotImplementedError, match=r"Waits must implement estimator\(\)"):
        P.estimator()
    bare = type("Bare", (ExponentialFamily,), {"_arrays": {"scale": 1}})._make(scale=SCALE[:, None])
    for use in (bare.pooled, lambda: bare.log_product(bare), lambda: bare.log_prob([[1.0]]), lambda: bare.dual(1.0)):
        with pytest.raises(NotImplementedError, match="Bare must implement"):
            use()


class Minimal(Coordinatewise):
    """Exponential distributions again, from the required formulas of one coordinate only."""

    _arrays: ClassVar[dict[str, int]] = {"scale": 1}
    domain = "nonnegative"

    def __init__(self, scale):
        self._freeze(scale=as_float(scale))

    def estimator(self):
        return MinimalEstimator()

    def term_natural(self, scale):
        return -1 / scale

    def term_partition(self, theta):
        return -namespace(theta).log(-theta)

    def term_mean(self, scale):
        return scale

    def term_from_mean(self, mu):
        return mu

    def term_dual(self, mu):
        return -namespace(mu).log(mu)

    def term_variance(self, scale):
        return scale**2

    def term_sample(self, rng, scale):
        return rng.exponential(scale)


class MinimalEstimator(CoordinatewiseEstimator):
    family = Minimal


class TestMinimal(FamilyContract):
    mean_map = False
    rhos = (0.5,)
    dual_always = False

    def members(self, seed=0, shape=(3,)):
        return Minimal(np.random.default_rng(seed).uniform(0.5, 2, size=(*shape, 1)))

    def nodes(self):
        x, w = np.polynomial.legendre.leggauss(400)
        return 40 * (x[:, None] + 1), 40 * w

    def parameters(self, p):
        return -1 / p.scale

    def build(self, theta):
        return Minimal(-1 / theta)


class TestMinimalEstimator(EstimatorContract):
    def estimator(self, **parameters):
        return MinimalEstimator(**parameters)

    def sets(self):
        rng = np.random.default_rng(0)
        return [rng.exponential(3.0, size=(n, 2)) for n in (1, 4, 2, 7)]

    def empty(self):
        return np.zeros((0, 2))

    def totals(self, sample):
        return sample.sum(axis=0), len(sample)


def test_a_minimal_family_has_names_and_missing_values():
    p = Minimal([[1.0, 2.0], [0.5, 4.0]])
    assert p.score_names() == ["parameter[0]", "parameter[1]"]
    x = np.array([[1.0, np.nan], [2.0, 3.0]])
    truth = mc.families.Exponentials(p.scale)
    assert_allclose(p.log_prob(x), truth.log_prob(x), rtol=1e-14)
    assert_allclose(p.fisher_information(), truth.fisher_information())
    with pytest.raises(ValueError, match="Negative values in data passed to MinimalEstimator"):
        MinimalEstimator().fit([[-1.0]])
