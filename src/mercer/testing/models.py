"""The battery of structured models and their estimators.

A test class defines random members, all outcomes (or nodes of a quadrature; strings are listed for you) and ``joint``,
the probabilities of hidden values and outcomes by the definition. Densities, kernels and samples follow by sums.
"""

import itertools
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import mercer as mc
from mercer.families import PowerProduct, Smoothed
from mercer.testing.batches import BatchContract
from mercer.testing.kernels import take


class ModelContract(BatchContract):
    """Battery of models: define `members`, `outcomes` and `joint`, and what else the model has."""

    lengths = None
    """``(L,)`` for a model of sequences whose outcomes are all sequences of L observations."""
    alphabet = None
    """Symbols, as a string, of a model of strings: the outcomes are then all strings of L symbols."""
    rhos = (0.5, 1.0, 2.0)

    # -- methods that a test class writes --------------------------------------------------------------

    def outcomes(self):
        """Return what `log_prob` takes, and weights (T,): weighted sums over it are integrals, or sums over all."""
        X = ["".join(word) for word in itertools.product(self.alphabet, repeat=self.lengths[0])]
        return X, np.ones(len(X))

    def joint(self, p):
        """Return the probabilities of every hidden value and outcome under one model, (H, T), by the definition."""
        raise NotImplementedError

    def base_kernel(self, gamma):
        """Return exp(-gamma |x - y|^2) of all outcomes, (T, T), or None if there are no mean maps."""
        if self.alphabet is not None:
            letters = np.array([list(x) for x in self.outcomes()[0]])
            return np.exp(-2 * gamma * (letters[:, None] != letters).sum(axis=-1))
        return None

    def parameters(self, p):
        """Return the parameters of the scores, (N, P), or None if there are no scores."""

    def build(self, theta):
        """Invert `parameters`."""
        raise NotImplementedError

    def estimator(self):
        """Return an estimator of these models, or None."""

    def draw(self, p, size, seed):
        """Return samples of one model, of shape (1,), as `log_prob` and `fit` take them."""
        if self.lengths is None:
            return p.sample(size, random_state=seed)[0]
        x = p.sample(self.lengths[0], size, random_state=seed)[0]
        return list(x) if x.dtype.kind == "f" else list(mc.Sequences.from_codes(x, self.alphabet))

    def scores(self, p, X):
        """Return the Fisher scores, (N, T, P)."""
        return p.fisher_scores(X) if self.lengths is None else p.sequence_scores(X)

    # -- probabilities -------------------------------------------------------------------------------------

    def each(self, p):
        return [np.asarray(self.joint(p[i : i + 1])) for i in range(len(p))]

    def density(self, p):
        return np.stack([joint.sum(axis=0) for joint in self.each(p)])

    def test_log_prob(self):
        p, (X, w) = self.members(), self.outcomes()
        with np.errstate(divide="ignore"):
            assert_allclose(p.log_prob(X), np.log(self.density(p)), rtol=1e-9, atol=1e-9)
        assert_allclose(self.density(p) @ w, 1, rtol=1e-9)
        assert_allclose(p[1:2].log_prob(X)[0], p.log_prob(X)[1], rtol=1e-12)
        assert_allclose(p.log_prob(take(X, [2, 0])), p.log_prob(X)[:, [2, 0]], rtol=1e-12)

    def test_sample(self):
        """The mean of every member's log density is its integral, up to the error of 4,000 samples."""
        p, (_, w), size = self.members(), self.outcomes(), 4000
        density = self.density(p)
        with np.errstate(divide="ignore", invalid="ignore"):
            truth = np.nansum(density[:, None] * np.log(density) * w, axis=-1)  # 0 log 0 = 0
        for i in range(len(p)):
            X = self.draw(p[i : i + 1], size, i)
            assert_array_equal(np.asarray(X), np.asarray(self.draw(p[i : i + 1], size, i)))
            logs = p.log_prob(X)
            assert np.all(np.abs(logs.mean(axis=1) - truth[i]) <= 5 * logs.std(axis=1) / np.sqrt(size) + 1e-12)

    def test_scores(self):
        p, (X, w) = self.members(), self.outcomes()
        theta, h = self.parameters(p), 1e-5
        if theta is None:
            pytest.skip("has no scores")
        scores = self.scores(p, X)
        for j, step in enumerate(h * np.eye(theta.shape[-1])):
            rise = self.build(theta + step).log_prob(X) - self.build(theta - step).log_prob(X)
            assert_allclose(scores[..., j], rise / (2 * h), rtol=1e-5, atol=1e-6)
        assert_allclose(np.einsum("nt,ntp->np", self.density(p) * w, scores), 0, atol=1e-7)

    # -- couplings -----------------------------------------------------------------------------------------

    def paired(self, coupling, p, q):
        """Return what the operands compute, without the axis of lengths."""
        a, b = p.couple(coupling, self.lengths), q.couple(coupling, self.lengths)
        values = a.pair(b), a.pair(a), a.alone()
        return values if self.lengths is None else tuple(value[0] for value in values)

    def check_coupling(self, coupling, truth):
        p, q = self.members(0, (3,)), self.members(1, (2,))
        cross, own, alone = self.paired(coupling, p, q)
        assert_allclose(cross, np.log(truth(p, q)), rtol=1e-8, atol=1e-8)
        assert_allclose(own, np.log(truth(p, p)), rtol=1e-8, atol=1e-8)
        assert_allclose(alone, np.diagonal(own), rtol=1e-10, atol=1e-10)
        operand = p.couple(coupling, self.lengths)
        assert len(operand) == 3
        assert operand.tile_hint >= 1
        assert operand.order is None or sorted(operand.order) == [0, 1, 2]
        part = operand[np.array([2, 0])].pair(operand[1:])
        assert_allclose(part if self.lengths is None else part[0], own[[2, 0], 1:], rtol=1e-10, atol=1e-10)
        if self.lengths is not None:
            several = (1, *self.lengths)
            assert_allclose(p.couple(coupling, several).pair(q.couple(coupling, several))[1], cross, rtol=1e-10)

    @pytest.mark.parametrize("rho", [0.5, 1.0, 2.0])
    def test_probability_product(self, rho):
        if rho not in self.rhos:
            return
        w = self.outcomes()[1]

        def truth(p, q):  # PPK-4.0: the joint distribution of what is hidden and observed
            f, g = ([(joint**rho).sum(axis=0) for joint in self.each(r)] for r in (p, q))
            return np.array(f) * w @ np.array(g).T

        self.check_coupling(PowerProduct(rho), truth)

    def test_mean_map(self):
        if self.base_kernel(0.4) is None:
            pytest.skip("has no mean maps")
        w = self.outcomes()[1]
        self.check_coupling(
            Smoothed(0.4), lambda p, q: self.density(p) * w @ self.base_kernel(0.4) @ (self.density(q) * w).T
        )

    def kernel(self, model=None):
        length = {} if self.lengths is None else {"length": self.lengths[0]}
        return mc.ProbabilityProduct(model, rho=self.rhos[0], **length)

    def test_gram_matrix(self):
        p = self.members(5, (20,))
        K = self.kernel()(p)
        assert mc.gram.psd.check(K, 1e-10), np.linalg.eigvalsh(K)[0]
        assert np.all(np.diag(K) == 1)
        assert_allclose(self.kernel()(p[[3, 0]], p), K[[3, 0]], rtol=1e-9)

    # -- the estimator -------------------------------------------------------------------------------------

    def samples(self):
        """Return different samples, such as sets of points or sequences, for one model each."""
        p = self.members(7, (5,))
        drawn = [self.draw(p[i : i + 1], 30 if self.lengths is None else 1, i) for i in range(5)]
        return drawn if self.lengths is None else [x for (x,) in drawn]

    def fitting(self):
        estimator = self.estimator()
        if estimator is None:
            pytest.skip("has no estimator")
        return estimator, self.samples()

    def test_fits_depend_on_no_order_and_no_neighbor(self):
        estimator, X = self.fitting()
        order = [3, 0, 4, 2, 1]
        with mc.config(cache_bytes=0):
            first = estimator.fit(X).model_.digests()
            each = estimator.fit_each(X)
            assert each.digests() == estimator.fit_each(X).digests()
            assert take(each, order).digests() == estimator.fit_each(take(X, order)).digests()
            assert [estimator.fit_each([x]).digests()[0] for x in X] == each.digests()
            assert clone(estimator).fit(take(X, order)).model_.digests() == first
        assert estimator.fit_each(X).digests() == each.digests()  # from the cache, too
        assert estimator.model_.shape == (1,)
        assert type(self.members()) is type(each)
        assert each.estimator().fit(X).model_.shape == (1,)

    def test_a_fit_explains_its_data(self):
        estimator, _ = self.fitting()
        p = self.members()
        X = self.draw(p[:1], 200, 0)
        fitted = estimator.fit(X)
        found, others = fitted.model_.log_prob(X).mean(), p.log_prob(X).mean(axis=1)
        assert found > others[1:].max()
        assert found > others[0] - 0.05 * abs(others[0]), "the model that the data come from explains them better"
        assert_allclose(fitted.score(X), found)

    def test_estimator_is_saved_and_cloned(self, tmp_path):
        estimator, X = self.fitting()
        assert clone(estimator).get_params().keys() == estimator.get_params().keys()
        with pytest.raises(Exception, match="not fitted yet"):
            clone(estimator).score(X)
        given = dict(estimator.get_params(deep=False))
        assert estimator.fit(X) is estimator
        assert all(estimator.get_params(deep=False)[name] is value for name, value in given.items())
        own = [] if type(estimator).__module__.startswith("mercer.") else [type(estimator)]
        mc.save(estimator, tmp_path / "model.mercer", trusted=own)
        for again in (mc.load(tmp_path / "model.mercer", trusted=own), pickle.loads(pickle.dumps(estimator))):
            assert_array_equal(again.score_samples(X), estimator.score_samples(X))

    def test_kernel_of_samples(self):
        estimator, X = self.fitting()
        kernel = self.kernel(estimator)
        K = kernel.fit_transform(X)
        assert np.isfinite(K).all()
        assert_allclose(kernel.transform(take(X, [3, 1])), K[[3, 1]], rtol=1e-9, atol=1e-10)
