"""Explanation by marginalization, checked by sums over all symbols that a missing position could have had."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import sparse
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import mercer as mc

AFFINE = mc.models.AffinePairHMMs(
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


def explained(pipeline, X, **arguments):
    return mc.explain(pipeline, X, method="marginal", **arguments)


class TestSums:
    @pytest.mark.parametrize("model", [AFFINE, CHAIN])
    @pytest.mark.parametrize("window", [1, 3])
    def test_a_missing_position_is_summed_over(self, model, window):
        pipeline = fitted(mc.Marginalization(model))
        raw = mc.Marginalization(model, normalize=False)
        found = explained(pipeline, [NEW], window=window)
        assert (found.method, found.exact, found.window) == ("marginal", False, window)
        for t in range(len(NEW)):
            rows = [r for r in range(t - window // 2, t - window // 2 + window) if 0 <= r < len(NEW)]
            expected = found.decision[0] - summed_decision(pipeline, raw, rows)
            assert found.contributions[0][t] == pytest.approx(expected, abs=1e-10)

    def test_powers_are_taken_after_the_sum(self):
        pipeline = fitted(mc.Tempered(mc.Marginalization(AFFINE), exponent=0.3))
        raw = mc.Marginalization(AFFINE, normalize=False)
        found = explained(mc.compact(pipeline), [NEW])
        expected = [found.decision[0] - summed_decision(pipeline, raw, [t], lambda k: k**0.3) for t in range(5)]
        np.testing.assert_allclose(found.contributions[0], expected, atol=1e-10)

    def test_the_kernel_without_a_position_follows_from_the_matches(self):
        # kappa without x_t, divided by kappa: an inserted x_t has weight 1 in place of q(x_t), and a match with z_j
        # has the probability of z_j in place of J(x_t, z_j).
        joint, insertion = AFFINE.joint[0], AFFINE.insertion[0]
        raw, z = mc.Marginalization(AFFINE, normalize=False), "bcab"
        x, other = (read([s]).values for s in (NEW, z))
        matched = AFFINE.matches(NEW, z).probability
        odds = joint.sum(axis=0)[other] / joint[np.ix_(x, other)]
        ratio = (matched * odds).sum(axis=1) + (1 - matched.sum(axis=1)) / insertion[x]
        copies = mc.Sequences([[*NEW[:t], None, *NEW[t + 1 :]] for t in range(5)], alphabet="abc")
        logs = raw.log(copies, [z])[:, 0] - raw.log([NEW], [z])[0, 0]
        np.testing.assert_allclose(logs, np.log(ratio), atol=1e-10)

    def test_several_decisions_and_samples(self):
        pipeline = make_pipeline(mc.Marginalization(AFFINE), SVC(kernel="precomputed")).fit(TRAIN, [0, 0, 1, 1, 2, 2])
        found = explained(pipeline, mc.Sequences(["ab", NEW], alphabet="abc", ids=["short", "long"]))
        assert found.decision.shape == found.bias.shape == (2, 3)
        assert [c.shape for c in found.contributions] == [(2, 3), (5, 3)]
        assert (found.names[0], found.ids) == (("a", "b"), ("short", "long"))
        one = explained(pipeline, [NEW], output=1)
        np.testing.assert_allclose(one.contributions[0], found.contributions[1][:, 1], atol=1e-12)

    def test_batches_do_not_matter(self, monkeypatch):
        pipeline = fitted(mc.Marginalization(AFFINE))
        whole = explained(pipeline, [NEW, "cab"])
        monkeypatch.setattr("mercer.kernels._explain._marginal.MOST_VALUES", 12)
        parts = explained(pipeline, [NEW, "cab"])
        for a, b in zip(whole.contributions, parts.contributions, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-12)


class TestMissing:
    def test_what_is_missing_already_contributes_zero(self):
        X = mc.Sequences(["abxca"], alphabet="abc", unknown="missing")
        found = explained(fitted(mc.Marginalization(AFFINE)), X).contributions[0]
        assert found[2] == 0
        assert (found[[0, 1, 3, 4]] != 0).all()

    def test_channels_of_series(self):
        rng = np.random.default_rng(0)
        X = [rng.normal(size=(6, 2)) + np.array([i % 2, 0]) for i in range(12)]
        X[0][2] = np.nan
        X[0][4, 1] = np.nan
        kernel = mc.Marginalization(mc.HMM(2, random_state=0))
        pipeline = make_pipeline(kernel, SVC(kernel="precomputed")).fit(X, np.arange(12) % 2)
        found = explained(pipeline, X[:1], window=1)
        assert (found.kind, found.channels) == ("series", ("x0", "x1"))
        assert (found.contributions[0] == 0).tolist() == np.isnan(X[0]).tolist()
        gap = X[0].copy()
        gap[1, 0] = np.nan
        expected = pipeline.decision_function([X[0]]) - pipeline.decision_function([gap])
        assert found.contributions[0][1, 0] == pytest.approx(expected[0], abs=1e-12)

    def test_transformers_pass_missing_values_on(self):
        rng = np.random.default_rng(0)
        X = [rng.normal(size=(6, 1)) + i % 2 for i in range(12)]
        kernel = mc.Marginalization(mc.HMM(2, random_state=0))
        pipeline = make_pipeline(mc.Derivatives(), kernel, SVC(kernel="precomputed")).fit(X, np.arange(12) % 2)
        gap = X[0].copy()
        gap[3] = np.nan
        expected = pipeline.decision_function(X[:1]) - pipeline.decision_function([gap])
        assert explained(pipeline, X[:1]).contributions[0][3, 0] == pytest.approx(expected[0], abs=1e-12)

    def test_a_model_of_each_sample_is_fitted_without_the_position(self):
        pipeline = fitted(mc.ProbabilityProduct(mc.Categorical(prior="pooled")))
        decide = pipeline.decision_function
        expected = [decide([NEW])[0] - decide([NEW[:t] + NEW[t + 1 :]])[0] for t in range(5)]
        np.testing.assert_allclose(explained(pipeline, [NEW]).contributions[0], expected, atol=1e-10)

    def test_confounds_stay(self):
        X = mc.Confounded(TRAIN, np.arange(6.0))
        pipeline = make_pipeline(mc.Residualized(mc.Marginalization(AFFINE)), SVC(kernel="precomputed"))
        pipeline.fit(X, CLASSES)
        found, decide = explained(pipeline, X[2:4]), pipeline.decision_function
        copies = mc.Sequences([[None, *TRAIN[3][1:]]], alphabet="abc")
        expected = decide(X[3:4]) - decide(mc.Confounded(copies, [3.0]))
        assert found.contributions[1][0] == pytest.approx(expected[0], abs=1e-10)


class TestMatrices:
    def test_leaves_of_a_tree(self):
        tree = mc.HiddenTree("((a:1,b:1):1,c:2);", rate=[[-0.3, 0.3], [0.2, -0.2]], emission=0.05, n_iter=0)
        X = np.array(list(itertools.product([0.0, 1.0], repeat=3)))
        pipeline = make_pipeline(mc.Marginalization(tree), SVC(kernel="precomputed")).fit(X, X[:, 2])
        row = np.array([[0.0, np.nan, 1.0]])
        found = explained(pipeline, row)
        assert (found.kind, found.names) == ("leaves", [("a", "b", "c")])
        raw = mc.Marginalization(pipeline[0].model_, normalize=False)
        options = np.array([[0.0, np.nan, 0.0], [0.0, np.nan, 1.0]])
        theirs = np.exp(np.diag(raw.log(X)))
        K = np.exp(raw.log(options, X)).sum(axis=0) / np.sqrt(np.exp(raw.log(options)).sum() * theirs)
        expected = found.decision[0] - pipeline[-1].decision_function(K[None])[0]
        assert found.contributions[0][2] == pytest.approx(expected, abs=1e-10)
        assert found.contributions[0][1] == 0

    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
    def test_words_of_documents(self, form):
        rng = np.random.default_rng(0)
        X = form(rng.poisson(np.where(np.arange(20)[:, None] % 2, [3, 1, 1, 0.2], [1, 3, 1, 0.2])))
        kernel = mc.JensenShannon(mc.Multinomial(prior="pooled"))
        pipeline = make_pipeline(kernel, SVC(kernel="precomputed")).fit(X, np.arange(20) % 2)
        found, decide = explained(pipeline, X[:3]), pipeline.decision_function
        dense = np.asarray(X[:3].todense()) if sparse.issparse(X) else X[:3]
        without = dense[1:2].copy()
        without[0, 0] = 0
        expected = decide(X[1:2])[0] - decide(form(without))[0]
        assert dense[1, 0] > 0
        assert found.contributions[1][0] == pytest.approx(expected, abs=1e-12)


class TestMessages:
    def test_a_part_that_refuses_missing_values_is_named(self):
        pipeline = fitted(mc.Tempered(mc.EmpiricalMeanMap(1, gamma=1.0), exponent=0.5))
        with pytest.raises(TypeError, match=r"EmpiricalMeanMap does not accept.*mc\.HMM"):
            explained(pipeline, [NEW])

    @pytest.mark.parametrize("kernel", [mc.Fisher(CHAIN), mc.Spectrum(1)])
    def test_nothing_may_be_left_of_a_short_sample(self, kernel):
        """The kernel accepts missing values: its zero norm is what is refused."""
        pipeline = fitted(kernel)
        with pytest.raises(ValueError, match=r"zero norm under .* if 1 of its positions is missing.*on_zero='zero'"):
            explained(pipeline, ["a"])
        kept = explained(fitted(kernel.set_params(on_zero="zero")), ["a"])
        np.testing.assert_allclose(kept.contributions[0][0], kept.decision[0] - kept.bias[0])

    def test_models_have_no_positions(self):
        models = mc.Categorical(prior="pooled").fit_each(TRAIN)
        pipeline = make_pipeline(mc.ProbabilityProduct(), SVC(kernel="precomputed")).fit(models, CLASSES)
        with pytest.raises(TypeError, match=r"Categoricals.*Pass the data"):
            explained(pipeline, models[:2])

    def test_columns_have_no_windows(self):
        X = np.random.default_rng(0).poisson(2.0, size=(10, 3))
        kernel = mc.JensenShannon(mc.Multinomial(prior="pooled"))
        pipeline = make_pipeline(kernel, SVC(kernel="precomputed")).fit(X, np.arange(10) % 2)
        with pytest.raises(ValueError, match="must be 1; got 3"):
            explained(pipeline, X, window=3)


@pytest.mark.slow
@pytest.mark.usefixtures("real")
def test_the_boxes_of_promoters():
    # docs/tutorials/which_residues.md has more shuffles, and other gaps.
    dna = mc.datasets.fetch_promoters()
    classes, inside = np.array(dna.target) == 0, np.isin(np.arange(57), [*range(14, 20), *range(37, 43)])
    pair = mc.AffinePairHMM((1, -1), matrix_scale=0.5, alphabet="dna", open_probability=0.05, extend_probability=0.5)
    pipeline = make_pipeline(mc.Tempered(mc.Marginalization(pair)), SVC(kernel="precomputed", C=10))

    def excess(labels):
        """Mean contribution in the boxes of held-out promoters, minus that of other positions."""
        values = np.zeros((106, 57))
        for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(labels, labels):
            values[test] = mc.explain(pipeline.fit(dna.data[train], labels[train]), dna.data[test]).contributions
        mean = values[classes].mean(axis=0)
        assert mean.shape == (57,)
        return mean[inside].mean() - mean[~inside].mean(), np.argsort(-mean)[:12]

    found, top = excess(classes)
    assert found == pytest.approx(0.032, abs=0.004)
    assert inside[top].sum() >= 8  # 2.5 by chance
    rng = np.random.default_rng(0)
    assert max(excess(rng.permutation(classes))[0] for _ in range(2)) < found / 2
