"""The battery of families; that of their estimators is in `mercer.testing.estimators`.

A test class defines random members and `nodes`: points and weights whose weighted sums are integrals (a fine grid,
spectrally exact for Gaussians) or sums over all outcomes. Closed forms are compared with these sums.
"""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import mercer as mc
from mercer._array import namespace, to_numpy
from mercer.families import ExponentialFamily
from mercer.testing.batches import BatchContract
from mercer.testing.estimators import EstimatorContract

__all__ = ["EstimatorContract", "FamilyContract"]

RHOS = (0.3, 0.5, 1.0, 2.0)
GAMMAS = (0.05, 0.7, 3.0)

seeds = given(seed=st.integers(0, 10**6))
few = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.differing_executors])


def smallest_ratio(gram):
    values = np.linalg.eigvalsh(gram)
    return values[0] / values[-1]


def dual_gram(psi, form, t=1.0, to_center=None):
    """Compute DJS-3 from divergences."""
    if form == "exp":
        return np.exp(-t * psi)
    return 1 / (t + psi) if form == "inverse" else to_center[:, None] + to_center[None, :] - psi


class FamilyContract(BatchContract):
    """Battery of families: define ``members(seed, shape)``, ``nodes()``, ``parameters(p)`` and ``build(theta)``."""

    mean_map = True
    rhos = RHOS  # (0.5,) for a family with only the generic formula
    dual_always = True  # whether every form and t of JensenShannon is positive semi-definite
    libraries = ("numpy", "array_api_strict", "torch")  # ("numpy",) for formulas that call SciPy
    sharp = None  # gamma, offset(gamma), tolerance: log_mean_map + offset -> log_product at rho = 1 (T-14)

    # -- methods that a test class writes --------------------------------------------------------------

    def nodes(self):
        """Return points ``(T, *event)`` and weights ``(T,)``."""
        raise NotImplementedError

    def parameters(self, p):
        """Return the parameters of fisher_scores (FK-0), ``(*B, P)``."""
        raise NotImplementedError

    def build(self, theta):
        """Invert `parameters`, in any array library."""
        raise NotImplementedError

    def points(self, p):
        """Return a few points for log_prob."""
        return p.reshape(-1)[0].sample(4, random_state=1)

    def base_kernel(self, gamma):
        x, _ = self.nodes()
        return np.exp(-gamma * np.sum((x[:, None] - x[None]) ** 2, axis=-1))

    def expected_base_kernel(self, p, q, gamma):
        _, w = self.nodes()
        return (self.mass(p) * w) @ self.base_kernel(gamma) @ (self.mass(q) * w).T

    def edge(self):
        """Return members on the boundary of the parameter space, or None."""

    # -- helpers ----------------------------------------------------------------------------------------

    def mass(self, p):
        return np.exp(p.log_prob(self.nodes()[0]))

    def pair(self, seed=0):
        return self.members(seed, (3,)), self.members(seed + 1, (2,))

    def converted(self, p, convert):
        fields = {name: convert(getattr(p, name)) for name in p._arrays}
        return type(p)(**fields, **{name: getattr(p, name) for name in self.constants_of(p)})

    def pairings(self):
        yield from (lambda p, q, rho=rho: p.log_product(q, rho=rho) for rho in self.rhos)
        if self.mean_map:
            yield from (lambda p, q, gamma=gamma: p.log_mean_map(q, gamma=gamma) for gamma in GAMMAS)
        yield lambda p, q: p.dual_divergence(q)
        yield lambda p, q: p.kl(q)

    @staticmethod
    def generic(formula, p, q, *arguments):
        """Return a default of `ExponentialFamily` for all pairs, which a family may replace."""
        return p._pairs(q, lambda a, b: getattr(ExponentialFamily, formula)(a, b, *arguments))

    def derived(self, p):
        return [p.pooled(), p.with_mean_parameters(p.mean_parameters)] if isinstance(p, ExponentialFamily) else []

    # -- the exponential family ---------------------------------------------------------------------------

    @few
    @seeds
    def test_normalized(self, seed):
        assert_allclose(self.mass(self.members(seed)) @ self.nodes()[1], 1, rtol=1e-9)

    def test_exponential_form(self):
        p, (x, _) = self.members(), self.nodes()
        theta = p.natural_parameters
        value = theta @ p.statistics(x).T + p.log_base(x) - p.log_partition(theta)[:, None]
        assert_allclose(value, p.log_prob(x), rtol=1e-9, atol=1e-9)

    def test_mean_parameters(self):
        p, (x, w) = self.members(), self.nodes()
        assert_allclose(p.mean_parameters, (self.mass(p) * w) @ p.statistics(x), rtol=1e-8, atol=1e-8)
        theta, h = p.natural_parameters, 1e-5
        steps = h * np.eye(theta.shape[-1])
        rise = p.log_partition(theta[:, None] + steps) - p.log_partition(theta[:, None] - steps)
        assert_allclose(rise / (2 * h), p.mean_parameters, rtol=1e-6, atol=1e-6)

    def test_members_from_mean_parameters(self):
        p = self.members(shape=(2, 3))
        again = p.with_mean_parameters(p.mean_parameters)
        assert again.shape == p.shape
        for name in p._arrays:
            assert_allclose(getattr(again, name), getattr(p, name), rtol=1e-10, atol=1e-12)
        mu = p.mean_parameters.copy()
        again = p.with_mean_parameters(mu)
        mu[:] = np.nan  # a batch owns its arrays
        assert_allclose(again.mean_parameters, p.mean_parameters, rtol=1e-10)

    @few
    @seeds
    def test_dual_is_the_legendre_dual_up_to_an_affine_function(self, seed):
        p, q = self.pair(seed)
        middle = p.with_mean_parameters((p.mean_parameters[:, None] + q.mean_parameters[None]) / 2)

        def legendre(r):
            theta = r.natural_parameters
            return np.sum(theta * r.mean_parameters, axis=-1) - r.log_partition(theta)

        truth = (legendre(p)[:, None] + legendre(q)[None]) / 2 - legendre(middle)
        assert_allclose(p.dual_divergence(q), truth, rtol=1e-9, atol=1e-9)
        dual = p.dual
        psi = (dual(p.mean_parameters)[:, None] + dual(q.mean_parameters)) / 2 - dual(middle.mean_parameters)
        assert_allclose(psi, truth, rtol=1e-9, atol=1e-9)
        assert_allclose(self.generic("divergence", p, q), truth, rtol=1e-9, atol=1e-9)

    # -- pairs --------------------------------------------------------------------------------------------

    @few
    @seeds
    def test_kl(self, seed):
        p, q = self.pair(seed)
        (x, w), mass = self.nodes(), self.mass(p)
        truth = np.sum((w * mass)[:, None] * (p.log_prob(x)[:, None] - q.log_prob(x)[None]), axis=-1)
        assert_allclose(p.kl(q), truth, rtol=1e-8, atol=1e-9)
        assert_allclose(self.generic("relative_entropy", p, q), truth, rtol=1e-8, atol=1e-9)
        assert_allclose(np.diagonal(p.kl(p)), 0, atol=1e-12)

    @pytest.mark.parametrize("rho", RHOS)
    @few
    @seeds
    def test_log_product(self, rho, seed):
        if rho not in self.rhos:
            return
        p, q = self.pair(seed)
        x, w = self.nodes()
        truth = np.log(np.exp(rho * p.log_prob(x)) * w @ np.exp(rho * q.log_prob(x)).T)
        assert_allclose(p.log_product(q, rho=rho), truth, rtol=1e-9, atol=1e-9)
        own, theirs = (np.diagonal(r.log_product(r, rho=rho)) for r in (p, q))
        assert np.all(p.log_product(q, rho=rho) <= (own[:, None] + theirs) / 2 + 1e-12)  # T-4

    def test_bhattacharyya(self):
        """T-3, and the generic formula of PPK-3.0 against the closed form."""
        p, q = self.pair()
        assert_allclose(np.diagonal(p.log_product(p, rho=0.5)), 0, atol=1e-13)
        assert_allclose(self.generic("product", p, q, 0.5), p.log_product(q, rho=0.5), rtol=1e-9, atol=1e-10)
        if p.base is not None:
            with pytest.raises(ValueError, match=r"rho = 0.5 only.*1.5"):
                ExponentialFamily.power_partition(p, 3.0, p.natural())

    @few
    @seeds
    def test_divergence_to_the_midpoint(self, seed):
        """DJS-2, T-24."""
        p, q = self.pair(seed)
        psi = p.dual_divergence(q)
        middle = p.with_mean_parameters((p.mean_parameters[:, None] + q.mean_parameters[None]) / 2)
        halves = [
            [
                (p[i : i + 1].kl(middle[i, j : j + 1]) + q[j : j + 1].kl(middle[i, j : j + 1]))[0, 0] / 2
                for j in range(len(q))
            ]
            for i in range(len(p))
        ]
        assert_allclose(psi, halves, rtol=1e-8, atol=1e-10)
        assert np.all(psi >= 0)
        assert_allclose(q.dual_divergence(p), psi.T, rtol=1e-12, atol=1e-15)
        assert_allclose(np.diagonal(p.dual_divergence(p)), 0, atol=1e-12)

    @pytest.mark.parametrize("gamma", GAMMAS)
    def test_log_mean_map(self, gamma):
        if not self.mean_map:
            assert not hasattr(self.members(), "log_mean_map")
            return
        p, q = self.pair()
        assert_allclose(p.log_mean_map(q, gamma=gamma), np.log(self.expected_base_kernel(p, q, gamma)), rtol=1e-8)
        assert_array_equal(p.log_mean_map(q, gamma=0.0), np.zeros((3, 2)))  # T-14

    def test_sharp_mean_map_is_the_product(self):
        if self.sharp is None:
            pytest.skip("no mean map whose limit is the probability product")
        gamma, offset, tolerance = self.sharp
        p, q = self.pair()
        value = p.log_mean_map(q, gamma=gamma) + offset
        assert_allclose(value, p.log_product(q, rho=1.0), rtol=tolerance, atol=tolerance)

    def test_gram_matrices_are_psd(self):
        """T-2 and the safe rows of DJS-5."""
        p = self.members(5, (20,))
        for rho in self.rhos:
            assert smallest_ratio(np.exp(p.log_product(p, rho=rho))) > -1e-10
        for gamma in GAMMAS if self.mean_map else ():
            assert smallest_ratio(np.exp(p.log_mean_map(p, gamma=gamma))) > -1e-10
        if not self.dual_always:
            return
        psi, to_center = p.dual_divergence(p), p.dual_divergence(p.pooled())[:, 0]
        for form in ("exp", "inverse", "centering"):
            for t in (0.1, 0.5, 1.0, 10.0):
                assert p.dual_psd(form, t) == "always"
                assert smallest_ratio(dual_gram(psi, form, t, to_center)) > -1e-10

    def test_on_the_boundary(self):
        """Zeros: sums over outcomes agree, F is finite (DJS-6), KL is +inf if q is 0 where p is not; never NaN."""
        p = self.edge()
        if p is None:
            pytest.skip("no members on the boundary")
        _, w = self.nodes()
        mass = self.mass(p)
        assert_allclose(mass @ w, 1, rtol=1e-9)
        with np.errstate(divide="ignore"):
            for rho in self.rhos:
                assert_allclose(p.log_product(p, rho=rho), np.log(mass**rho * w @ (mass**rho).T), rtol=1e-9, atol=1e-9)
        terms = np.where(mass[:, None] > 0, np.inf, 0.0)
        both = (mass[:, None] > 0) & (mass[None] > 0)
        logs = np.log(np.where(both, mass[:, None] / np.where(both, mass[None], 1), 1))
        terms = np.where(both, mass[:, None] * logs, terms)
        truth = np.sum(w * terms, axis=-1)
        assert np.isinf(truth).any()
        assert_allclose(p.kl(p), truth, rtol=1e-8, atol=1e-9)
        assert np.all(np.isfinite(p.dual(p.mean_parameters)))
        assert np.all(np.isfinite(p.dual_divergence(p)))
        if self.mean_map:
            assert_allclose(p.log_mean_map(p, gamma=0.7), np.log(self.expected_base_kernel(p, p, 0.7)), rtol=1e-9)

    # -- scores and samples ---------------------------------------------------------------------------------

    def test_fisher_scores(self):
        """T-22: finite differences, zero mean under the model, information = E[g g']."""
        p, (x, w) = self.members(), self.nodes()
        some = slice(None, None, max(1, len(x) // 7))
        theta, h = self.parameters(p), 1e-5
        scores = p.fisher_scores(x)
        assert scores.shape == (3, len(x), theta.shape[-1])
        for j, step in enumerate(h * np.eye(theta.shape[-1])):
            rise = self.build(theta + step).log_prob(x[some]) - self.build(theta - step).log_prob(x[some])
            assert_allclose(scores[:, some, j], rise / (2 * h), rtol=1e-6, atol=1e-6)
        weighted = (self.mass(p) * w)[..., None] * scores
        assert_allclose(weighted.sum(axis=1), 0, atol=1e-7)
        information = np.swapaxes(weighted, 1, 2) @ scores
        assert_allclose(p.fisher_information(), information, rtol=1e-7, atol=1e-7)
        assert_allclose(p[0].fisher_scores(x), scores[0], rtol=1e-12)

    def test_sample(self):
        p, size = self.members(), 4000
        x = p.sample(size, random_state=0)
        assert x.shape[:2] == (3, size)
        for i in range(3):
            statistics = p.statistics(x[i])
            error = statistics.std(axis=0) / np.sqrt(size)
            assert np.all(np.abs(statistics.mean(axis=0) - p.mean_parameters[i]) <= 5 * error + 1e-12)
        assert_array_equal(x, p.sample(size, random_state=np.random.default_rng(0)))
        assert p[0].sample(2, random_state=np.random.RandomState(0)).shape == x[0, :2].shape

    # -- shapes ----------------------------------------------------------------------------------------------

    def test_leading_axes_align(self):
        p, q = self.members(0, (2, 3)), self.members(1, (2, 4))
        for pairing in self.pairings():
            out = pairing(p, q)
            assert out.shape == (2, 3, 4)
            for b in range(2):
                assert_allclose(out[b], pairing(p[b], q[b]), rtol=1e-12, atol=1e-13)
            assert_allclose(pairing(p[:1], q)[1], pairing(p[0], q[1]), rtol=1e-12, atol=1e-13)
        x = self.points(p)
        batched = np.stack([x[:3], x[1:4]])
        for method in ("log_prob", "fisher_scores")[: 1 + isinstance(p, ExponentialFamily)]:
            assert getattr(p, method)(x).shape[:3] == (2, 3, 4)
            out = getattr(p, method)(batched)
            assert out.shape[:3] == (2, 3, 3)
            for b in range(2):
                assert_allclose(out[b], getattr(p[b], method)(batched[b]), rtol=1e-12)
        assert p[0, 1].log_prob(x).shape == (4,)
        assert_allclose(p[0, 1].log_prob(x), p[0].log_prob(x)[1], rtol=1e-12)
        assert p[0, :0].log_product(q[0], rho=0.5).shape == (0, 4)
        if isinstance(p, ExponentialFamily):
            with pytest.raises(ValueError, match=r"is empty.*pool"):
                p[0, :0].pooled()
        with pytest.raises(ValueError, match="at least one axis; index with a slice"):
            p[0, 1].log_product(q[0], rho=0.5)

    def test_points_are_checked(self):
        p, x = self.members(), self.points(self.members())
        if x.ndim != 2:
            pytest.skip("points are not vectors")
        with pytest.raises(ValueError, match=r"Points must have shape \(T, \d+\)"):
            p.log_prob(np.concatenate([x, x], axis=1))
        if p.support.name != "real":  # a set that numbers can be outside of
            with pytest.raises(ValueError, match=f"data (of|passed to) {type(p).__name__}"):
                p.log_prob(x - 1e3)

    def test_bad_pairs_and_parameters(self):
        p = self.members()
        stranger = mc.Gaussians([[0.0]], [1.0]) if not isinstance(p, mc.Gaussians) else mc.Poissons([[1.0]])
        for pairing in self.pairings():
            with pytest.raises(TypeError, match="both sides must be of the same family"):
                pairing(p, stranger)
            with pytest.raises(TypeError, match=f"{type(p).__name__} .*got ndarray"):
                pairing(p, np.zeros((2, 2)))
        for rho in (0, -1.0, np.nan, np.inf, "half", None):
            with pytest.raises(ValueError, match="rho must be a positive number; got"):
                p.log_product(p, rho=rho)
        for gamma in (-0.1, np.nan, "wide") if self.mean_map else ():
            with pytest.raises(ValueError, match=r"gamma must be .*; got"):
                p.log_mean_map(p, gamma=gamma)

    # -- array libraries ----------------------------------------------------------------------------------------

    def answers(self, p, q, convert=lambda x: x):
        x = convert(self.points(self.members()))
        yield from (pairing(p, q) for pairing in self.pairings())
        yield from (p.log_prob(x), p.fisher_scores(x), p.fisher_information(), p.statistics(x), p.log_base(x))
        yield from (p.natural_parameters, p.mean_parameters, p.dual(p.mean_parameters))
        yield from (p.log_partition(p.natural_parameters), p.pooled().mean_parameters)
        yield p.with_mean_parameters(p.mean_parameters).log_product(q, rho=0.5)

    @pytest.mark.parametrize("name", ["array_api_strict", "torch"])
    def test_same_numbers_in_every_library(self, name):
        if name not in self.libraries:
            pytest.skip(f"is not written for {name}")
        library = pytest.importorskip(name)
        p, q = self.pair()
        a, b = (self.converted(r, lambda x: library.asarray(np.array(x))) for r in (p, q))
        answers = list(self.answers(a, b, library.asarray))
        for ours, truth in zip(answers, self.answers(p, q), strict=True):
            assert namespace(ours) is namespace(library.asarray([0.0]))
            assert_allclose(to_numpy(ours), truth, rtol=1e-11, atol=1e-12)
        assert a.digests() == p.digests()
        assert_array_equal(to_numpy(self.parameters_of(a[np.array([2, 0])])), self.parameters_of(p[[2, 0]]))

    @staticmethod
    def parameters_of(p):
        return p.mean_parameters

    def test_gradients(self):
        if "torch" not in self.libraries:
            pytest.skip("is not written for torch")
        torch = pytest.importorskip("torch")
        left, right = (torch.asarray(self.parameters(r), requires_grad=True) for r in self.pair())
        for pairing in self.pairings():
            assert torch.autograd.gradcheck(lambda a, b, f=pairing: f(self.build(a), self.build(b)), (left, right))

    def test_float32(self):
        p, q = self.pair()
        a, b = (self.converted(r, lambda x: np.asarray(x, np.float32)) for r in (p, q))
        x = self.points(p)
        x = x.astype(np.float32) if x.dtype.kind == "f" else x
        for ours, truth in zip(self.answers(a, b), self.answers(p, q), strict=True):
            assert_allclose(ours, truth, rtol=2e-4, atol=2e-4)
        narrow = [pairing(a, b) for pairing in self.pairings()]
        narrow += [
            a.log_prob(x),
            a.fisher_scores(x),
            a.fisher_information(),
            a.mean_parameters,
            a.pooled().mean_parameters,
        ]
        assert {value.dtype for value in narrow} == {np.dtype(np.float32)}
