"""The battery of families that are not exponential families, without moments and duals."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from mercer.testing.families import FamilyContract


class PlainFamilyContract(FamilyContract):
    """Define members, nodes and parameters, as for `FamilyContract`."""

    dual_always = mean_map = False
    test_exponential_form = test_mean_parameters = test_members_from_mean_parameters = test_kl = None
    test_dual_is_the_legendre_dual_up_to_an_affine_function = test_divergence_to_the_midpoint = None
    test_bhattacharyya = test_log_mean_map = test_sharp_mean_map_is_the_product = test_on_the_boundary = None
    test_fisher_scores = None

    def converted(self, p, convert):
        return type(p)(*(convert(getattr(p, name)) for name in p._arrays), **self.shared(p))

    def shared(self, p):
        return {name: getattr(p, name) for name in self.constants}

    def pairings(self):
        yield from (lambda p, q, rho=rho: p.log_product(q, rho=rho) for rho in (0.3, 0.5, 1.0, 2.0))

    def answers(self, p, q, convert=lambda x: x):
        yield from (pairing(p, q) for pairing in self.pairings())
        yield from (p.log_prob(convert(self.points(self.members()))), p.mean)

    @staticmethod
    def parameters_of(p):
        return p.mean

    def test_bhattacharyya_of_equal_distributions(self):
        p = self.members()
        assert_allclose(np.diagonal(p.log_product(p, rho=0.5)), 0, atol=1e-12)

    def test_sample(self):
        p, size = self.members(), 4000
        x = p.sample(size, random_state=0)
        assert x.shape == (3, size, p.dimension)
        mean = getattr(p, "mean_parameters", p.mean)
        assert np.all(np.abs(x.mean(axis=1) - mean) <= 5 * x.std(axis=1) / np.sqrt(size) + 1e-12)
        assert_array_equal(x, p.sample(size, random_state=np.random.default_rng(0)))
        nodes = self.nodes()[0][:6]
        seen = (x[:, :, None] == nodes).all(axis=-1).mean(axis=1)
        chance = np.exp(p.log_prob(nodes))
        assert np.all(np.abs(seen - chance) <= 5 * np.sqrt(chance * (1 - chance) / size) + 1e-12)

    def test_float32(self):
        p, q = self.pair()
        a, b = (self.converted(r, lambda x: np.asarray(x, np.float32)) for r in (p, q))
        for ours, truth in zip(self.answers(a, b), self.answers(p, q), strict=True):
            assert_allclose(ours, truth, rtol=2e-4, atol=2e-4)
        assert {pairing(a, b).dtype for pairing in self.pairings()} == {np.dtype(np.float32)}
