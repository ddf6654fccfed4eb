"""The battery of the estimators of families."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

import mercer as mc
from mercer.families.estimator import fits
from mercer.testing.batches import arrays_of


class EstimatorContract:
    """Battery of estimators. ``sets`` are samples of one or more points each."""

    exact: Mapping[str, Any] = MappingProxyType({})  # parameters for which a fit is the plain formula

    def estimator(self, **parameters):
        raise NotImplementedError

    def sets(self):
        raise NotImplementedError

    def empty(self):
        """Return a sample without points."""
        raise NotImplementedError

    def totals(self, sample):
        """Return the sum of the statistics and the mass of one sample, in units of prior_strength."""
        raise NotImplementedError

    def frequencies(self, p):
        """Return the mean parameters of one observation."""
        return p.mean_parameters

    def truth(self, data, prior=None, strength=0.0):
        """DJS-6: (n0 mu0 + sum of statistics) / (n0 + n)."""
        rows = []
        for sample in data:
            total, mass = self.totals(sample)
            rows.append((total + (strength * prior if strength else 0)) / (mass + strength))
        return np.array(rows)

    def fitted(self, data, **parameters):
        return self.frequencies(self.estimator(**self.exact, **parameters).fit_each(data))

    def test_maximum_likelihood(self):
        sets = self.sets()
        assert_allclose(self.fitted(sets), self.truth(sets), rtol=1e-10, atol=1e-10)
        model = self.estimator(**self.exact).fit(sets)
        assert model.model_.shape == (1,)
        total, mass = (sum(parts) for parts in zip(*map(self.totals, sets), strict=True))
        assert_allclose(self.frequencies(model.model_)[0], total / mass, rtol=1e-10, atol=1e-10)
        each = model.model_.log_prob(segment_points(model, sets))[0].sum()
        assert_allclose(model.score_samples(sets).sum(), each, rtol=1e-10)
        assert_allclose(model.score(sets), each / len(sets), rtol=1e-10)

    def test_prior(self):
        sets = self.sets()
        pooled = self.estimator(**self.exact).fit(sets).model_
        mu0 = self.frequencies(pooled)[0]
        truth = self.truth(sets, mu0, 2.5)
        assert_allclose(self.fitted(sets, prior="pooled", prior_strength=2.5), truth, rtol=1e-9, atol=1e-9)
        assert_allclose(self.fitted(sets, prior=pooled, prior_strength=2.5), truth, rtol=1e-9, atol=1e-9)
        assert_allclose(self.fitted(sets, prior="pooled", prior_strength=1e-9), self.truth(sets), atol=1e-6)
        assert_allclose(self.fitted(sets, prior="pooled", prior_strength=0), self.truth(sets), atol=1e-9)
        far = self.fitted(sets, prior="pooled", prior_strength=1e12)
        assert_allclose(far, np.broadcast_to(mu0, far.shape), rtol=1e-8, atol=1e-8)

    def test_empty_sample(self):
        sets = self.sets()
        sets.insert(1, self.empty())
        with pytest.raises(ValueError, match=r"1'? is empty.*prior='pooled'"):
            self.estimator().fit_each(sets)
        sets.append(self.empty())
        mu = self.fitted(sets, prior="pooled")
        pooled = self.frequencies(self.estimator(**self.exact).fit(self.sets()).model_)[0]
        assert_allclose(mu[[1, -1]], [pooled, pooled], rtol=1e-9, atol=1e-9)

    def test_samples_of_one_point_and_of_equal_points(self):
        """They have a model with finite parameters and kernels, or an error that names them."""
        sets = self.sets()
        longest = max(sets, key=len)
        estimator = self.estimator().fit(sets)
        for degenerate in (longest[:1], longest[:1] * 3 if isinstance(longest, str | list) else longest[[0, 0, 0]]):
            try:
                p = estimator.fit_each([longest, degenerate])
            except ValueError as error:
                assert "1" in str(error)  # noqa: PT017
                continue
            assert all(np.isfinite(np.asarray(x)).all() for x in arrays_of(p)), f"{p} has parameters without a value"
            assert not np.isnan(p.log_prob(segment_points(estimator, sets))).any()
            assert np.isfinite(mc.ProbabilityProduct()(p)).all()

    def test_weights_are_repetitions(self):
        sets = self.sets()
        estimator = self.estimator(**self.exact)
        X = estimator.accept(sets, reset=True)
        context, x, offsets = estimator.context(X), segment_points(estimator, sets), self.offsets(sets)
        rng = np.random.default_rng(0)
        weights = rng.integers(0, 4, size=(len(x), 2))
        weights[offsets[:-1]] += 1
        batch = estimator.fit_weighted(x, weights.astype(float), offsets, context)
        assert batch.shape == (len(sets), 2)
        for j in range(2):
            repeated = np.repeat(x, weights[:, j], axis=0)
            moved = np.concatenate([[0], np.cumsum(weights[:, j])])[offsets]
            plain = estimator.fit_weighted(repeated, np.ones((len(repeated), 1)), moved, context)
            assert_allclose(self.frequencies(batch)[:, j], self.frequencies(plain)[:, 0], rtol=1e-10, atol=1e-10)

    def offsets(self, sets):
        return np.concatenate([[0], np.cumsum([len(s) for s in sets])])

    @pytest.mark.parametrize("prior", [None, "pooled"])
    def test_neighbors_do_not_matter(self, prior):
        sets = self.sets()
        estimator = self.estimator(prior=prior).fit(sets)
        with mc.config(cache_bytes=0):
            together = estimator.fit_each(sets).digests()
            alone = [estimator.fit_each(sets[i : i + 1]).digests()[0] for i in range(len(sets))]
        assert together == alone

    def test_each_sample_is_fitted_once(self, monkeypatch):
        fits.clear()
        sets, estimator = self.sets(), self.estimator()
        estimator.fit(sets)
        fitted, original = [], type(estimator)._fit_data
        monkeypatch.setattr(
            type(estimator), "_fit_data", lambda self, X, context: fitted.append(len(X)) or original(self, X, context)
        )
        first = estimator.fit_each(sets[:2])
        second = estimator.fit_each(sets)
        order = [1, 2, 3, 0]  # a cycle through both fits
        third = estimator.fit_each([sets[i] for i in order])
        assert fitted == [2, len(sets) - 2]
        assert second.digests()[:2] == first.digests()
        assert third.digests() == [second.digests()[i] for i in order]
        clone(estimator).set_params(prior_strength=7.0).fit_each(sets, context=estimator.context_)
        assert fitted[2:] == [len(sets)]
        for name in first._arrays:
            assert not getattr(first, name).flags.writeable  # cached models are immutable

    def test_scikit_learn_manners(self):
        estimator = self.estimator(prior="pooled", prior_strength=3.0)
        again = clone(estimator)
        assert again is not estimator
        assert again.get_params() == estimator.get_params()
        assert again.get_params()["prior_strength"] == 3.0
        assert again.fit(self.sets()) is again
        with pytest.raises(Exception, match="not fitted yet"):
            estimator.score(self.sets())

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"prior": "flat"}, "prior must be None, 'pooled' or a batch of shape .*; got 'flat'"),
            ({"prior": np.ones(3)}, "None, 'pooled' or a batch of shape"),
            ({"prior_strength": -1}, "prior_strength must be .*; got -1"),
            ({"prior_strength": "much"}, "prior_strength must be .*; got 'much'"),
        ],
    )
    def test_bad_parameters(self, parameters, message):
        for method in ("fit", "fit_each"):
            with pytest.raises(ValueError, match=message):
                getattr(self.estimator(**parameters), method)(self.sets())

    def test_bad_prior(self):
        sets = self.sets()
        pooled = self.estimator().fit(sets).model_
        with pytest.raises(ValueError, match=r"prior must be .*\(1,\); got .*2.*p\[3"):
            self.estimator(prior=pooled[[0, 0]]).fit_each(sets)
        stranger = mc.Gaussians([[0.0]], [1.0]) if not isinstance(pooled, mc.Gaussians) else mc.Poissons([[1.0]])
        with pytest.raises(TypeError, match=r"prior does not suit .*same family"):
            self.estimator(prior=stranger).fit_each(sets)
        with pytest.raises(ValueError, match=r"X is empty|nothing to|no symbol"):
            self.estimator().fit_each([])


def segment_points(estimator, sets):
    from mercer.data.segments import segments

    context = getattr(estimator, "context_", None)
    return segments(estimator.accept(sets, context=context))[0]
