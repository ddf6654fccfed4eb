"""Explanation by marginalization, checked by sums over all symbols that a missing position could have had."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import mercer as mc
from mercer._explain._marginalized import marginalized

AFFINE = mc.AffinePairHMMs(
    joint=[[[0.3, 0.05, 0.02], [0.05, 0.25, 0.03], [0.02, 0.03, 0.25]]],
    insertion=[[0.5, 0.3, 0.2]],
    open=[0.2],
    extend=[0.4],
    continuation=[0.8],
    alphabet="abc",
)
CHAIN = mc.HMMs(
    [[0.6, 0.4]],
    [[[0.8, 0.2], [0.3, 0.7]]],
    mc.Categoricals([[[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]]], alphabet="abc"),
)
TRAIN = ["abcab", "abbab", "ccbca", "bcaca", "aabba", "cccbb"]
CLASSES = [0, 0, 1, 1, 0, 1]
NEW = "abcca"


def fitted(kernel):
    return make_pipeline(kernel, SVC(kernel="precomputed", C=10)).fit(TRAIN, CLASSES)


def read(strings, alphabet="abc"):
    return mc.Sequences(strings, alphabet=alphabet)


def filled(rows):
    """All strings that agree with the new one outside of the missing rows."""
    fillings = itertools.product("abc", repeat=len(rows))
    return ["".join(dict(zip(rows, f, strict=True)).get(t, s) for t, s in enumerate(NEW)) for f in fillings]


def summed_decision(pipeline, raw, rows, transform=lambda k: k):
    """The decision with the joint probabilities summed over all symbols of the missing rows, one by one."""
    options = filled(rows)
    with_train = np.exp(raw.log(options, TRAIN)).sum(axis=0)
    own = np.exp(raw.log(options)).sum()
    theirs = np.exp(np.diag(raw.log(TRAIN)))
    K = transform(with_train / np.sqrt(own * theirs))
    return float(pipeline[-1].decision_function(K[None])[0])


class TestSums:
    @pytest.mark.parametrize("model", [AFFINE, CHAIN])
    @pytest.mark.parametrize("window", [1, 3])
    def test_a_missing_position_is_summed_over(self, model, window):
        pipeline = fitted(mc.Marginalization(model))
        raw = mc.Marginalization(model, normalize=False)
        found = marginalized(pipeline.decision_function, read([NEW]), window=window)
        for t in range(len(NEW)):
            rows = [r for r in range(t - window // 2, t - window // 2 + window) if 0 <= r < len(NEW)]
            expected = found.decision[0, 0] - summed_decision(pipeline, raw, rows)
            assert found.contributions[0][t, 0] == pytest.approx(expected, abs=1e-10)

    def test_powers_are_taken_after_the_sum(self):
        pipeline = fitted(mc.Tempered(mc.Marginalization(AFFINE), exponent=0.3))
        raw = mc.Marginalization(AFFINE, normalize=False)
        found = marginalized(mc.compact(pipeline).decision_function, read([NEW]))
        expected = [found.decision[0, 0] - summed_decision(pipeline, raw, [t], lambda k: k**0.3) for t in range(5)]
        np.testing.assert_allclose(found.contributions[0][:, 0], expected, atol=1e-10)

    def test_the_kernel_without_a_position_follows_from_the_matches(self):
        # kappa without x_t, divided by kappa: an inserted x_t has weight 1 in place of q(x_t), and a match with z_j
        # has the probability of z_j in place of J(x_t, z_j).
        joint, insertion = AFFINE.joint[0], AFFINE.insertion[0]
        raw, z = mc.Marginalization(AFFINE, normalize=False), "bcab"
        x, other = (read([s]).values for s in (NEW, z))
        matched = AFFINE.matches(NEW, z).probability
        odds = joint.sum(axis=0)[other] / joint[np.ix_(x, other)]
        ratio = (matched * odds).sum(axis=1) + (1 - matched.sum(axis=1)) / insertion[x]
        found = marginalized(lambda X: raw.log(X, read([z]))[:, 0], read([NEW]))
        np.testing.assert_allclose(found.contributions[0][:, 0], -np.log(ratio), atol=1e-10)

    def test_several_decisions_and_samples(self):
        pipeline = make_pipeline(mc.Marginalization(AFFINE), SVC(kernel="precomputed")).fit(TRAIN, [0, 0, 1, 1, 2, 2])
        found = marginalized(pipeline.decision_function, read(["ab", NEW]))
        assert found.decision.shape == (2, 3)
        assert [c.shape for c in found.contributions] == [(2, 3), (5, 3)]

    def test_batches_do_not_matter(self, monkeypatch):
        pipeline = fitted(mc.Marginalization(AFFINE))
        whole = marginalized(pipeline.decision_function, read([NEW, "cab"]))
        monkeypatch.setattr("mercer._explain._marginalized.MOST_VALUES", 12)
        parts = marginalized(pipeline.decision_function, read([NEW, "cab"]))
        for a, b in zip(whole.contributions, parts.contributions, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-12)


class TestMissing:
    def test_what_is_missing_already_contributes_zero(self):
        X = mc.Sequences(["abxca"], alphabet="abc", unknown="missing")
        found = marginalized(fitted(mc.Marginalization(AFFINE)).decision_function, X).contributions[0][:, 0]
        assert found[2] == 0
        assert (found[[0, 1, 3, 4]] != 0).all()

    def test_series_by_time_step_and_by_channel(self):
        rng = np.random.default_rng(0)
        X = [rng.normal(size=(6, 2)) + np.array([i % 2, 0]) for i in range(12)]
        X[0][2] = np.nan
        X[0][4, 1] = np.nan
        kernel = mc.Marginalization(mc.HMM(2, random_state=0))
        pipeline = make_pipeline(kernel, SVC(kernel="precomputed")).fit(X, np.arange(12) % 2)
        steps = marginalized(pipeline.decision_function, mc.Sequences(X[:1])).contributions[0]
        channels = marginalized(pipeline.decision_function, mc.Sequences(X[:1]), by_channel=True).contributions[0]
        assert (steps.shape, channels.shape) == ((6, 1), (6, 2, 1))
        assert (channels[..., 0] == 0).tolist() == np.isnan(X[0]).tolist()
        assert (steps[:, 0] == 0).tolist() == [False, False, True, False, False, False]
        assert steps[4, 0] == pytest.approx(channels[4, 0, 0], abs=1e-12)  # the other channel is missing already
        gap = X[0].copy()
        gap[1, 0] = np.nan
        expected = pipeline.decision_function([X[0]]) - pipeline.decision_function([gap])
        assert channels[1, 0, 0] == pytest.approx(expected[0], abs=1e-12)

    def test_a_model_of_each_sample_is_fitted_without_the_position(self):
        pipeline = fitted(mc.ProbabilityProduct(mc.Categorical(prior="pooled")))
        found = marginalized(pipeline.decision_function, read([NEW])).contributions[0][:, 0]
        decide = pipeline.decision_function
        expected = [decide([NEW])[0] - decide([NEW[:t] + NEW[t + 1 :]])[0] for t in range(5)]
        np.testing.assert_allclose(found, expected, atol=1e-10)

    def test_points_of_a_set_are_left_out(self):
        rng = np.random.default_rng(0)
        X = [rng.normal(size=(5, 2)) + i % 2 for i in range(12)]
        kernel = mc.ProbabilityProduct(mc.Gaussian(prior="pooled"))
        decide = make_pipeline(kernel, SVC(kernel="precomputed")).fit(X, np.arange(12) % 2).decision_function
        found = marginalized(decide, mc.Sequences(X[:1]), drop=True).contributions[0]
        assert found[3, 0] == pytest.approx((decide(X[:1]) - decide([X[0][[0, 1, 2, 4]]]))[0], abs=1e-12)


class TestMatrices:
    def test_leaves_of_a_tree(self):
        tree = mc.HiddenTree("((a:1,b:1):1,c:2);", rate=[[-0.3, 0.3], [0.2, -0.2]], emission=0.05, n_iter=0)
        X = np.array(list(itertools.product([0.0, 1.0], repeat=3)))
        pipeline = make_pipeline(mc.Marginalization(tree), SVC(kernel="precomputed")).fit(X, X[:, 2])
        row = np.array([[0.0, np.nan, 1.0]])
        found = marginalized(pipeline.decision_function, row)
        raw = mc.Marginalization(pipeline[0].model_, normalize=False)
        options = np.array([[0.0, np.nan, 0.0], [0.0, np.nan, 1.0]])
        theirs = np.exp(np.diag(raw.log(X)))
        K = np.exp(raw.log(options, X)).sum(axis=0) / np.sqrt(np.exp(raw.log(options)).sum() * theirs)
        expected = found.decision[0, 0] - pipeline[-1].decision_function(K[None])[0]
        assert found.contributions[0][2, 0] == pytest.approx(expected, abs=1e-10)
        assert found.contributions[0][1, 0] == 0

    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
    def test_words_of_documents(self, form):
        rng = np.random.default_rng(0)
        X = form(rng.poisson(np.where(np.arange(20)[:, None] % 2, [3, 1, 1, 0.2], [1, 3, 1, 0.2])))
        kernel = mc.JensenShannon(mc.Multinomial(prior="pooled"))
        decide = make_pipeline(kernel, SVC(kernel="precomputed")).fit(X, np.arange(20) % 2).decision_function
        found = marginalized(decide, X[:3], absent=0.0)
        dense = np.asarray(X[:3].todense()) if sparse.issparse(X) else X[:3]
        assert ((np.stack(found.contributions)[..., 0] == 0) == (dense == 0)).all()
        without = dense[1:2].copy()
        without[0, 0] = 0
        expected = decide(X[1:2])[0] - decide(form(without))[0]
        assert found.contributions[1][0, 0] == pytest.approx(expected, abs=1e-12)


class TestMotif:
    def test_a_planted_motif_is_found(self):
        rng = np.random.default_rng(0)

        def dna(n):
            return ["".join(rng.choice(list("ACGT"), size=30)) for _ in range(n)]

        def planted(strings):
            places = rng.integers(2, 21, size=len(strings))
            return [s[:p] + "TATAATGC" + s[p + 8 :] for s, p in zip(strings, places, strict=True)], places

        (positive, _), (new, places) = planted(dna(40)), planted(dna(10))
        pair = mc.AffinePairHMM((2, -3), alphabet="dna", open_probability=0.1, extend_probability=0.5)
        kernel = mc.Tempered(mc.Marginalization(pair), exponent=0.2)
        X, y = positive + dna(40), np.repeat([1, 0], 40)

        def precision(classes):
            """Share of the 8 positions with the largest contributions that are in the motif."""
            pipeline = make_pipeline(kernel, SVC(kernel="precomputed", C=10)).fit(X, classes)
            found = marginalized(mc.compact(pipeline).decision_function, read(new, "dna")).contributions
            top = [np.argsort(-c[:, 0])[:8] for c in found]
            return np.mean([((p <= t) & (t < p + 8)).mean() for t, p in zip(top, places, strict=True)])

        null = [precision(rng.permutation(y)) for _ in range(9)]  # machines that learned from random classes
        assert precision(y) > 0.95
        assert max(null) < 0.8  # the motif is still what samples have in common, so that the null is spread
        assert np.mean(null) == pytest.approx(8 / 30, abs=0.15)


class TestMessages:
    def test_a_part_that_refuses_missing_values_is_named(self):
        pipeline = fitted(mc.EmpiricalMeanMap(1, gamma=1.0))
        with pytest.raises(TypeError, match=r"EmpiricalMeanMap does not accept.*mc\.HMM"):
            marginalized(pipeline.decision_function, read([NEW]), part="EmpiricalMeanMap")

    @pytest.mark.parametrize(
        ("arguments", "match"),
        [
            ({"window": 0}, "at least 1; got 0"),
            ({"window": 1.5}, "whole number"),
            ({"by_channel": True}, "by_channel=False"),
        ],
    )
    def test_arguments(self, arguments, match):
        with pytest.raises(ValueError, match=match):
            marginalized(len, read([NEW]), **arguments)

    def test_matrices(self):
        with pytest.raises(ValueError, match="must be 1; got 3"):
            marginalized(lambda X: X[:, 0], np.zeros((1, 3)), window=3)
        with pytest.raises(TypeError, match="NaN"):
            marginalized(lambda X: np.zeros(X.shape[0]), sparse.csr_array(np.ones((1, 3))))
